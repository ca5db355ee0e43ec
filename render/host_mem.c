/* LOAD and STORE.
 *
 * A gate of one lane costs no branch: where it does not hold the address is
 * replaced, of a load by that of a constant that holds the wanted value, of a
 * store by that of a scratch variable. A gate of many lanes becomes the
 * processor's masked access.
 */
#include "render/host_internal.h"

/* An access, taken apart. */
struct access {
    LLVMValueRef base, index;
    uint32_t slot;
    unsigned dtype, lanes, index_lanes, gate_lanes;
    LLVMValueRef gate;      /* or NULL */
    LLVMTypeRef elem, type; /* in memory */
};

static unsigned
elem_bytes(const struct access *a)
{
    return uop_dtype_infos[a->dtype].size_bytes;
}

/* Tells LLVM that memory of different arguments does not overlap. */
static LLVMValueRef
set_alias(struct host_emit *e, const struct access *a, LLVMValueRef inst)
{
    e->ll->SetMetadata(inst, e->md_scope, e->scopes[a->slot]);
    if (e->noalias[a->slot])
        e->ll->SetMetadata(inst, e->md_noalias, e->noalias[a->slot]);
    return inst;
}

static bell_status
open_access(struct host_emit *e, const struct uop *u, unsigned lanes,
            unsigned dtype, const struct uop *gate, struct access *out_access)
{
    struct access a = {.dtype = dtype, .lanes = lanes};
    const struct uop *param = u->src[0], *index = u->src[1];

    while (param->op == UOP_AFTER)
        param = param->src[0];
    if (param->op != UOP_PARAM)
        return host_refuse(e, u, "not memory of an argument");
    a.slot = (uint32_t)param->arg.i;
    BELL_TRY(host_arg(e, param, &a.base));
    a.index_lanes = index->lanes;
    if (index->lanes != 1 && index->lanes != lanes)
        return host_refuse(e, u, "the index has another number of lanes");
    BELL_TRY(host_value_of(e, index, &a.index));
    if (gate) {
        a.gate_lanes = gate->lanes;
        if (gate->lanes != 1 && gate->lanes != lanes)
            return host_refuse(e, u, "the gate has another number of lanes");
        BELL_TRY(host_value_of(e, gate, &a.gate));
    }
    a.elem = host_mem_type(e, dtype, 1);
    a.type = host_mem_type(e, dtype, lanes);
    *out_access = a;
    return BELL_OK;
}

static LLVMValueRef
address(struct host_emit *e, const struct access *a, LLVMValueRef index)
{
    return e->ll->BuildGEP2(e->b, a->elem, a->base, &index, 1, "");
}

static LLVMValueRef
lane_of(struct host_emit *e, LLVMValueRef v, uint32_t lane)
{
    return e->ll->BuildExtractElement(e->b, v, host_i32(e, lane), "");
}

/* Private memory of the object that holds `value`, a constant. LLVM keeps
 * equal constants once, so the pointer is the key. NULL: out of memory. */
static LLVMValueRef
constant_memory(struct host_emit *e, LLVMValueRef value, unsigned align)
{
    uint64_t key = (uint64_t)(uintptr_t)value;
    const uint64_t *old = map_get(&e->consts, key);
    LLVMValueRef var;

    if (old)
        return (LLVMValueRef)(uintptr_t)*old;
    var = e->ll->AddGlobal(e->mod, e->ll->TypeOf(value), "");
    e->ll->SetInitializer(var, value);
    e->ll->SetGlobalConstant(var, 1);
    e->ll->SetLinkage(var, LLVMPrivateLinkage);
    e->ll->SetUnnamedAddress(var, LLVMGlobalUnnamedAddr);
    e->ll->SetAlignment(var, align);
    return map_put(&e->consts, key, (uint64_t)(uintptr_t)var) == 0 ? var : NULL;
}

/* A stack variable for what is not to be stored; one serves every access. */
static LLVMValueRef
scratch(struct host_emit *e, const struct access *a)
{
    uint32_t need = elem_bytes(a) * a->lanes;

    if (need > e->scratch_bytes) {
        LLVMBasicBlockRef here = e->ll->GetInsertBlock(e->b);
        e->scratch_bytes = need < 64 ? 64 : need;
        e->ll->PositionBuilderAtEnd(e->b, e->entry);
        e->scratch = e->ll->BuildAlloca(
            e->b, e->ll->VectorType(e->t_i8, e->scratch_bytes), "");
        e->ll->PositionBuilderAtEnd(e->b, here);
    }
    return e->scratch;
}

/* Memory form to register form and back: they differ for BOOL. */
static LLVMValueRef
from_memory(struct host_emit *e, const struct access *a, LLVMValueRef v)
{
    if (a->dtype != UOP_BOOL)
        return v;
    return e->ll->BuildICmp(e->b, LLVMIntNE, v,
                            e->ll->ConstNull(e->ll->TypeOf(v)), "");
}

static LLVMValueRef
to_memory(struct host_emit *e, const struct access *a, LLVMValueRef v)
{
    if (a->dtype != UOP_BOOL)
        return v;
    return e->ll->BuildCast(e->b, LLVMZExt, v, a->type, "");
}

static LLVMValueRef
load_at(struct host_emit *e, const struct access *a, LLVMTypeRef type,
        LLVMValueRef ptr)
{
    LLVMValueRef v = e->ll->BuildLoad2(e->b, type, ptr, "");

    e->ll->SetAlignment(v, elem_bytes(a));
    return set_alias(e, a, v);
}

/* One or more consecutive elements under a gate of one lane. NULL: out of
 * memory. */
static LLVMValueRef
load_gated(struct host_emit *e, const struct access *a, LLVMTypeRef type,
           LLVMValueRef ptr, LLVMValueRef gate, LLVMValueRef other)
{
    bool is_const = e->ll->IsConstant(other);
    LLVMValueRef safe = constant_memory(
        e, is_const ? other : e->ll->ConstNull(type), elem_bytes(a));
    LLVMValueRef v;

    if (!safe)
        return NULL;
    ptr = e->ll->BuildSelect(e->b, gate, ptr, safe, "");
    v = load_at(e, a, type, ptr);
    return is_const ? v : e->ll->BuildSelect(e->b, gate, v, other, "");
}

static LLVMValueRef
load_masked(struct host_emit *e, const struct access *a, LLVMValueRef other)
{
    LLVMTypeRef types[2] = {a->type, e->t_ptr};
    LLVMValueRef args[4] = {address(e, a, a->index), host_i32(e, elem_bytes(a)),
                            a->gate, other};

    return set_alias(e, a,
                     host_intrinsic(e, "llvm.masked.load", types, 2, args, 4));
}

/* Lanes from anywhere, one at a time: on current processors as fast as the
 * gather instruction, and it works for elements of every size. */
static LLVMValueRef
load_gather(struct host_emit *e, const struct access *a, LLVMValueRef other)
{
    LLVMValueRef v = e->ll->GetPoison(a->type);
    uint32_t i;

    for (i = 0; i < a->lanes; i++) {
        LLVMValueRef ptr = address(e, a, lane_of(e, a->index, i)), lane;
        if (a->gate)
            lane =
                load_gated(e, a, a->elem, ptr,
                           a->gate_lanes > 1 ? lane_of(e, a->gate, i) : a->gate,
                           lane_of(e, other, i));
        else
            lane = load_at(e, a, a->elem, ptr);
        if (!lane)
            return NULL;
        v = e->ll->BuildInsertElement(e->b, v, lane, host_i32(e, i), "");
    }
    return v;
}

bell_status
host_emit_load(struct host_emit *e, const struct uop *u,
               LLVMValueRef *out_value)
{
    const struct uop *gate = u->n_src > 3 ? u->src[3] : NULL;
    LLVMValueRef other = NULL, v;
    struct access a;

    if (u->n_src == 3)
        return host_refuse(e, u, "a value for a gate, and no gate");
    BELL_TRY(open_access(e, u, u->lanes, u->dtype, gate, &a));
    if (gate) {
        BELL_TRY(host_value_of(e, u->src[2], &other));
        if (u->src[2]->lanes == 1)
            other = host_splat(e, other, u->lanes);
        other = to_memory(e, &a, other);
    }
    if (a.index_lanes > 1)
        v = load_gather(e, &a, other);
    else if (a.gate_lanes > 1)
        v = load_masked(e, &a, other);
    else if (a.gate)
        v = load_gated(e, &a, a.type, address(e, &a, a.index), a.gate, other);
    else
        v = load_at(e, &a, a.type, address(e, &a, a.index));
    if (!v)
        return bell_fail(BELL_E_NO_MEMORY, "rendering %s", e->prog->name);
    *out_value = from_memory(e, &a, v);
    return BELL_OK;
}

static void
store_at(struct host_emit *e, const struct access *a, LLVMValueRef ptr,
         LLVMValueRef value)
{
    LLVMValueRef inst = e->ll->BuildStore(e->b, value, ptr);

    e->ll->SetAlignment(inst, elem_bytes(a));
    set_alias(e, a, inst);
}

static void
store_masked(struct host_emit *e, const struct access *a, LLVMValueRef value)
{
    LLVMTypeRef types[2] = {a->type, e->t_ptr};
    LLVMValueRef args[4] = {value, address(e, a, a->index),
                            host_i32(e, elem_bytes(a)), a->gate};

    set_alias(e, a, host_intrinsic(e, "llvm.masked.store", types, 2, args, 4));
}

/* Lanes to anywhere, in lane order. */
static void
store_scatter(struct host_emit *e, const struct access *a, LLVMValueRef value)
{
    LLVMValueRef nowhere = a->gate ? scratch(e, a) : NULL;
    uint32_t i;

    for (i = 0; i < a->lanes; i++) {
        LLVMValueRef ptr = address(e, a, lane_of(e, a->index, i));
        if (a->gate) {
            LLVMValueRef gate =
                a->gate_lanes > 1 ? lane_of(e, a->gate, i) : a->gate;
            ptr = e->ll->BuildSelect(e->b, gate, ptr, nowhere, "");
        }
        store_at(e, a, ptr, lane_of(e, value, i));
    }
}

bell_status
host_emit_store(struct host_emit *e, const struct uop *u)
{
    const struct uop *gate = u->n_src > 3 ? u->src[3] : NULL;
    const struct uop *value = u->src[2];
    unsigned lanes = value->lanes;
    LLVMValueRef v, ptr;
    struct access a;

    if (u->src[1]->lanes > lanes)
        lanes = u->src[1]->lanes;
    BELL_TRY(open_access(e, u, lanes, value->dtype, gate, &a));
    BELL_TRY(host_value_of(e, value, &v));
    if (value->lanes == 1)
        v = host_splat(e, v, lanes);
    v = to_memory(e, &a, v);
    if (a.index_lanes > 1) {
        store_scatter(e, &a, v);
    } else if (a.gate_lanes > 1) {
        store_masked(e, &a, v);
    } else {
        ptr = address(e, &a, a.index);
        if (a.gate)
            ptr = e->ll->BuildSelect(e->b, a.gate, ptr, scratch(e, &a), "");
        store_at(e, &a, ptr, v);
    }
    return BELL_OK;
}
