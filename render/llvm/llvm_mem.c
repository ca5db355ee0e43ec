/* LOAD and STORE.
 *
 * Consecutive elements are one wide access; so are elements in reverse order
 * and, loading, every second to fourth, with a shuffle. Others go lane by
 * lane, which on current processors is as fast as their gather instructions
 * and works for elements of every size.
 *
 * On the host a gate of one lane costs no branch: where it does not hold the
 * address is replaced, of a load by that of a constant that holds the wanted
 * value, of a store by that of a scratch variable. A gate of many lanes on a
 * wide access becomes the processor's masked access.
 *
 * GPUs branch around what a gate forbids: that is a change of the mask of
 * active threads there. Lanes that lie anywhere, each with a gate, are gathered
 * where there are masks for it: lane by lane LLVM would make a branch of every
 * one.
 */
#include "render/llvm/llvm_internal.h"

#include <assert.h>

#define MAX_LANES      256
#define MAX_WIDE_STEPS 4 /* loads that make up a strided one */
#define LINE_BYTES     64
#define MAX_TERMS      4  /* of an index: 2 to the power of it */
#define PAIRED         16 /* lanes, at most, whose runs are looked for */
/* Masked loads that take less time than a gather. observed: EPYC of Zen 4,
 * 2026-11-30: 6 do, for 3 x 3 windows. */
#define MOST_RUNS 6

/* An access, taken apart. */
struct llvm_access {
    uint32_t slot; /* of an argument */
    unsigned dtype, lanes;
    LLVMValueRef base;      /* element 0 is there */
    int64_t offset, step;   /* lane i is element offset + i * step */
    LLVMValueRef indices;   /* or, where not NULL, what this says */
    LLVMValueRef gate;      /* or NULL */
    unsigned gate_lanes;    /* 0 without a gate */
    LLVMValueRef words;     /* of a GPU, many lanes: the gate, 0 or 1 */
    uint64_t align;         /* of base, in bytes */
    LLVMTypeRef elem, type; /* in memory */
};

static unsigned
elem_bytes(const struct llvm_access *a)
{
    return uop_dtype_infos[a->dtype].size_bytes;
}

/* Tells LLVM that memory of different arguments does not overlap. */
static LLVMValueRef
set_alias(struct llvm_emit *e, const struct llvm_access *a, LLVMValueRef inst)
{
    assert(a->slot == 0 || a->slot < e->prog->n_params);
    if (!e->scopes)
        return inst;
    e->ll->SetMetadata(inst, e->md_scope, e->scopes[a->slot]);
    if (e->noalias[a->slot])
        e->ll->SetMetadata(inst, e->md_noalias, e->noalias[a->slot]);
    return inst;
}

/* ---- addresses ---- */

/* The address `n_elems` elements behind that of lane 0. */
static LLVMValueRef
offset_by(struct llvm_emit *e, const struct llvm_access *a, int64_t n_elems)
{
    int64_t offset = a->offset + n_elems;
    LLVMValueRef index =
        e->ll->ConstInt(e->t_i64, (unsigned long long)offset, 1);

    return offset ? e->ll->BuildGEP2(e->b, a->elem, a->base, &index, 1, "")
                  : a->base;
}

static LLVMValueRef
lane_of(struct llvm_emit *e, LLVMValueRef v, uint32_t lane)
{
    return e->ll->BuildExtractElement(e->b, v, llvm_i32(e, lane), "");
}

static LLVMValueRef
lane_address(struct llvm_emit *e, const struct llvm_access *a, uint32_t lane)
{
    LLVMValueRef index;

    assert(lane < a->lanes);
    if (!a->indices)
        return offset_by(e, a, a->step * (int64_t)lane);
    index = lane_of(e, a->indices, lane);
    return e->ll->BuildGEP2(e->b, a->elem, a->base, &index, 1, "");
}

/* LLVM's AMDGPU back end crashes on some branches by elements of vectors of
 * conditions, by elements of vectors of words not. observed: LLVM 19.1.7,
 * gfx1100, pass "SI Fix SGPR copies" */
static LLVMValueRef
lane_gate(struct llvm_emit *e, const struct llvm_access *a, uint32_t lane)
{
    assert(a->gate_lanes <= 1 || lane < a->gate_lanes);
    if (a->gate_lanes <= 1)
        return a->gate;
    if (!a->words)
        return lane_of(e, a->gate, lane);
    return e->ll->BuildICmp(e->b, LLVMIntNE, lane_of(e, a->words, lane),
                            llvm_i32(e, 0), "");
}

/* Where memory begins: an argument's, or that of a work-group. */
static bell_status
find_memory(struct llvm_emit *e, const struct uop *u, LLVMValueRef *out_base)
{
    if (u->op == UOP_PARAM) {
        *out_base = llvm_arg(e, u);
        return BELL_OK;
    }
    if (u->op != UOP_LOCAL)
        return llvm_refuse(e, u, "not memory of an argument");
    *out_base = e->dialect->local(e, u);
    return *out_base ? BELL_OK
                     : bell_fail(BELL_E_NO_MEMORY,
                                 "rendering %s: out of memory", e->prog->name);
}

/* An index that is not negative becomes an offset in bytes without a sign,
 * which is what the instructions of GPUs add to an argument. */
bell_status
llvm_emit_index(struct llvm_emit *e, const struct uop *u,
                LLVMValueRef *out_value)
{
    LLVMTypeRef elem = llvm_mem_type(e, u->dtype, 1);
    LLVMValueRef base, v;

    assert(u->op == UOP_INDEX && u->src[1]->lanes == 1);
    BELL_TRY(find_memory(e, u->src[0], &base));
    BELL_TRY(llvm_value_of(e, u->src[1], &v));
    if (e->dialect->is_gpu && u->src[0]->op == UOP_PARAM &&
        u->src[1]->dtype == UOP_I32 && uop_index_is_short(u)) {
        v = e->ll->BuildBinOp(e->b, LLVMMul, v,
                              llvm_i32(e, uop_dtype_infos[u->dtype].size_bytes),
                              "");
        v = e->ll->BuildCast(e->b, LLVMZExt, v, e->t_i64, "");
        elem = e->t_i8;
    }
    *out_value = e->ll->BuildGEP2(e->b, elem, base, &v, 1, "");
    return BELL_OK;
}

/* Element `index` of `place`. */
static bell_status
find_place(struct llvm_emit *e, const struct uop *place,
           const struct uop *index, struct llvm_access *a)
{
    const struct uop *at = uop_index_of(place), *memory = uop_memory(place);

    a->slot = memory->op == UOP_PARAM ? (uint32_t)memory->arg.i : 0;
    a->align = memory->op == UOP_LOCAL ? 16 : e->arg_align_bytes;
    if (at && uop_index_align(at) * elem_bytes(a) < a->align)
        a->align = uop_index_align(at) * elem_bytes(a);
    if (at)
        BELL_TRY(llvm_value_of(e, at, &a->base));
    else
        BELL_TRY(find_memory(e, memory, &a->base));
    if (uop_index_steps(index, &a->offset, &a->step))
        return BELL_OK;
    BELL_TRY(llvm_value_of(e, index, &a->indices));
    a->offset = 0;
    a->step = 1;
    if (index->lanes > 1)
        return BELL_OK;
    a->base = e->ll->BuildGEP2(e->b, a->elem, a->base, &a->indices, 1, "");
    a->indices = NULL;
    a->align = elem_bytes(a);
    return BELL_OK;
}

static bell_status
find_address(struct llvm_emit *e, const struct uop *u, struct llvm_access *a)
{
    if (u->src[1]->lanes != 1 && u->src[1]->lanes != a->lanes)
        return llvm_refuse(e, u, "the index has another number of lanes");
    return find_place(e, u->src[0], u->src[1], a);
}

bell_status
llvm_emit_tiles(struct llvm_emit *e, const struct uop *u)
{
    LLVMValueRef at[3];
    uint32_t i;

    assert(u->op == UOP_TILE_MATMUL && u->n_src > 6);
    if (!e->dialect->tiles)
        return llvm_refuse(e, u, "there are no tile registers");
    for (i = 0; i < 3; i++) {
        const struct uop *place = u->src[2 * i];
        struct llvm_access a = {.dtype = place->dtype, .lanes = 1};
        a.elem = llvm_mem_type(e, place->dtype, 1);
        BELL_TRY(find_place(e, place, u->src[2 * i + 1], &a));
        at[i] = offset_by(e, &a, 0);
    }
    e->dialect->tiles(e, u, at);
    return BELL_OK;
}

static bell_status
open_access(struct llvm_emit *e, const struct uop *u, unsigned lanes,
            unsigned dtype, const struct uop *gate,
            struct llvm_access *out_access)
{
    struct llvm_access a = {.dtype = dtype, .lanes = lanes};

    if (lanes > MAX_LANES)
        return llvm_refuse(e, u, "too many lanes");
    a.elem = llvm_mem_type(e, dtype, 1);
    a.type = llvm_mem_type(e, dtype, lanes);
    BELL_TRY(find_address(e, u, &a));
    if (gate) {
        a.gate_lanes = gate->lanes;
        if (gate->lanes != 1 && gate->lanes != lanes)
            return llvm_refuse(e, u, "the gate has another number of lanes");
        BELL_TRY(llvm_value_of(e, gate, &a.gate));
        if (gate->lanes > 1 && e->dialect->is_gpu)
            a.words =
                e->ll->BuildCast(e->b, LLVMZExt, a.gate,
                                 e->ll->VectorType(e->t_i32, gate->lanes), "");
    }
    *out_access = a;
    return BELL_OK;
}

/* Private memory of the object that holds `value`, a constant. LLVM keeps
 * equal constants once, so the pointer is the key. NULL: out of memory. */
static LLVMValueRef
constant_memory(struct llvm_emit *e, LLVMValueRef value, unsigned align)
{
    uint64_t key = (uint64_t)(uintptr_t)value;
    const uint64_t *old = map_get(&e->consts, key);
    LLVMValueRef var;

    assert(e->ll->IsConstant(value));
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
llvm_scratch(struct llvm_emit *e, const struct llvm_access *a)
{
    uint32_t need = elem_bytes(a) * a->lanes;

    assert(!e->dialect->is_gpu);
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

/* ---- values ---- */

/* Memory form to register form and back: they differ for BOOL. */
static LLVMValueRef
from_memory(struct llvm_emit *e, const struct llvm_access *a, LLVMValueRef v)
{
    if (a->dtype != UOP_BOOL)
        return v;
    return e->ll->BuildICmp(e->b, LLVMIntNE, v,
                            e->ll->ConstNull(e->ll->TypeOf(v)), "");
}

static LLVMValueRef
llvm_to_memory(struct llvm_emit *e, const struct llvm_access *a, LLVMValueRef v)
{
    if (a->dtype != UOP_BOOL)
        return v;
    return e->ll->BuildCast(e->b, LLVMZExt, v, a->type, "");
}

/* Lane i of the result is lane pick[i] of the 2n lanes of v and w. */
static LLVMValueRef
llvm_shuffle(struct llvm_emit *e, LLVMValueRef v, LLVMValueRef w,
             const uint32_t *pick, unsigned n)
{
    LLVMValueRef mask[MAX_LANES];
    unsigned i;

    assert(n <= MAX_LANES);
    for (i = 0; i < n; i++)
        mask[i] = llvm_i32(e, pick[i]);
    return e->ll->BuildShuffleVector(e->b, v, w, e->ll->ConstVector(mask, n),
                                     "");
}

/* The lanes in reverse order, where the access goes backwards. */
static LLVMValueRef
turn(struct llvm_emit *e, const struct llvm_access *a, LLVMValueRef v)
{
    uint32_t pick[MAX_LANES], i;

    if (a->step == 1 || a->lanes == 1)
        return v;
    assert(a->step == -1 && a->lanes <= MAX_LANES);
    for (i = 0; i < a->lanes; i++)
        pick[i] = a->lanes - 1 - i;
    return llvm_shuffle(e, v, e->ll->GetPoison(e->ll->TypeOf(v)), pick,
                        a->lanes);
}

/* Whether the elements lie side by side, in either order. */
static bool
is_wide(const struct llvm_access *a)
{
    return !a->indices && (a->step == 1 || a->step == -1 || a->lanes == 1);
}

/* Lane by lane, as it has a gate of many lanes and no masked access. */
static bool
must_part(const struct llvm_emit *e, const struct llvm_access *a)
{
    return e->dialect->is_gpu && a->gate_lanes > 1;
}

/* The lowest element of a wide access: behind lane 0 by how much, and its
 * address. */
static int64_t
wide_begin(const struct llvm_access *a)
{
    assert(is_wide(a));
    return a->step < 0 ? a->step * (int64_t)(a->lanes - 1) : 0;
}

static LLVMValueRef
wide_address(struct llvm_emit *e, const struct llvm_access *a)
{
    assert(is_wide(a));
    return lane_address(e, a, a->step < 0 ? a->lanes - 1 : 0);
}

/* ---- loads ---- */

/* What the address that begins `n_elems` behind lane 0 is aligned to. On the
 * host, which does not care, one element. */
static unsigned
align_of(const struct llvm_access *a, int64_t n_elems)
{
    uint64_t bytes = (uint64_t)((a->offset + n_elems) * elem_bytes(a));
    uint64_t align = !a->indices && a->align ? a->align | 16 : elem_bytes(a);

    align |= bytes;
    align &= 0 - align; /* the lowest bit of all */
    return align < elem_bytes(a) ? elem_bytes(a) : (unsigned)align;
}

static LLVMValueRef
load_at(struct llvm_emit *e, const struct llvm_access *a, LLVMTypeRef type,
        LLVMValueRef ptr, unsigned align)
{
    LLVMValueRef v = e->ll->BuildLoad2(e->b, type, ptr, "");

    e->ll->SetAlignment(v, align);
    return set_alias(e, a, v);
}

/* On a GPU: loads where the gate holds. */
static LLVMValueRef
load_branched(struct llvm_emit *e, const struct llvm_access *a,
              LLVMTypeRef type, LLVMValueRef ptr, unsigned align,
              LLVMValueRef gate, LLVMValueRef other)
{
    LLVMBasicBlockRef before = e->ll->GetInsertBlock(e->b);
    LLVMBasicBlockRef body = llvm_new_block(e), join = llvm_new_block(e);
    LLVMValueRef v, phi;

    assert(e->dialect->is_gpu);
    e->ll->BuildCondBr(e->b, gate, body, join);
    e->ll->PositionBuilderAtEnd(e->b, body);
    v = load_at(e, a, type, ptr, align);
    e->ll->BuildBr(e->b, join);
    e->ll->PositionBuilderAtEnd(e->b, join);
    phi = e->ll->BuildPhi(e->b, type, "");
    llvm_add_incoming(e, phi, v, body);
    llvm_add_incoming(e, phi, other, before);
    return phi;
}

/* One or more elements side by side under a gate of one lane. NULL: out of
 * memory. */
static LLVMValueRef
load_llvm_gated(struct llvm_emit *e, const struct llvm_access *a,
                LLVMTypeRef type, LLVMValueRef ptr, unsigned align,
                LLVMValueRef gate, LLVMValueRef other)
{
    bool is_const = e->ll->IsConstant(other);
    LLVMValueRef safe, v;

    if (e->dialect->is_gpu)
        return load_branched(e, a, type, ptr, align, gate, other);
    safe = constant_memory(e, is_const ? other : e->ll->ConstNull(type),
                           elem_bytes(a));
    if (!safe)
        return NULL;
    ptr = e->ll->BuildSelect(e->b, gate, ptr, safe, "");
    v = load_at(e, a, type, ptr, align);
    return is_const ? v : e->ll->BuildSelect(e->b, gate, v, other, "");
}

static LLVMValueRef
load_wide(struct llvm_emit *e, const struct llvm_access *a, LLVMValueRef other)
{
    LLVMTypeRef types[2] = {a->type, e->t_ptr};
    unsigned align = align_of(a, wide_begin(a));
    LLVMValueRef ptr = wide_address(e, a), v;

    assert(!must_part(e, a) && (!a->gate || other));
    if (other)
        other = turn(e, a, other);
    if (a->gate_lanes > 1) {
        LLVMValueRef args[4] = {ptr, llvm_i32(e, elem_bytes(a)),
                                turn(e, a, a->gate), other};
        v = llvm_intrinsic(e, "llvm.masked.load", types, 2, args, 4);
        set_alias(e, a, v);
    } else if (a->gate) {
        v = load_llvm_gated(e, a, a->type, ptr, align, a->gate, other);
    } else {
        v = load_at(e, a, a->type, ptr, align);
    }
    return v ? turn(e, a, v) : NULL;
}

/* Every step-th element: as many wide loads as steps, the last so that it
 * ends with the last element, and shuffles that pick. */
static LLVMValueRef
load_stepped(struct llvm_emit *e, const struct llvm_access *a)
{
    unsigned n = a->lanes, step = (unsigned)a->step, i, part;
    unsigned last_begin = (n - 1) * step + 1 - n;
    unsigned align = elem_bytes(a);
    LLVMValueRef v = load_at(e, a, a->type, offset_by(e, a, 0), align), next;
    uint32_t pick[MAX_LANES];

    assert(a->step > 1 && a->step <= MAX_WIDE_STEPS && !a->gate);
    for (part = 1; part < step; part++) {
        unsigned begin = part * n < last_begin ? part * n : last_begin;
        next = load_at(e, a, a->type, offset_by(e, a, begin), align);
        for (i = 0; i < n; i++) {
            if (i * step >= part * n)
                pick[i] = i * step < begin + n ? n + i * step - begin : 0;
            else /* there already: moved into place with the first part */
                pick[i] = part == 1 ? i * step : i;
        }
        v = llvm_shuffle(e, v, next, pick, n);
    }
    return v;
}

static LLVMValueRef
load_lanes(struct llvm_emit *e, const struct llvm_access *a, LLVMValueRef other)
{
    LLVMValueRef v = e->ll->GetPoison(a->type);
    uint32_t i;

    assert(!a->gate || other);
    for (i = 0; i < a->lanes; i++) {
        LLVMValueRef ptr = lane_address(e, a, i), lane;
        if (a->gate)
            lane = load_llvm_gated(e, a, a->elem, ptr, elem_bytes(a),
                                   lane_gate(e, a, i), lane_of(e, other, i));
        else
            lane = load_at(e, a, a->elem, ptr, elem_bytes(a));
        if (!lane)
            return NULL;
        v = e->ll->BuildInsertElement(e->b, v, lane, llvm_i32(e, i), "");
    }
    return v;
}

/* Loads the rows of a block of which u is one column; the other columns get
 * their values, too. */
static bell_status
load_llvm_columns(struct llvm_emit *e, const struct uop *u,
                  const struct uop *const *loads, uint32_t n,
                  LLVMValueRef *out_v)
{
    LLVMValueRef rows[MAX_LANES], columns[LLVM_MAX_TURNED];
    struct llvm_access a;
    uint32_t i;

    assert(n <= LLVM_MAX_TURNED && u->lanes <= MAX_LANES);
    BELL_TRY(open_access(e, loads[0], u->lanes, u->dtype, NULL, &a));
    a.type = llvm_mem_type(e, u->dtype, n);
    for (i = 0; i < u->lanes; i++)
        rows[i] =
            load_at(e, &a, a.type, lane_address(e, &a, i), elem_bytes(&a));
    a.type = llvm_mem_type(e, u->dtype, u->lanes);
    llvm_turn(e, rows, u->lanes, n, columns);
    for (i = 0; i < n; i++) {
        LLVMValueRef v = from_memory(e, &a, columns[i]);
        if (loads[i] == u)
            *out_v = v;
        else
            BELL_TRY(llvm_set_value(e, loads[i], v));
    }
    return BELL_OK;
}

/* From AVX-512 on that is one instruction, or two. */
static bool
has_gather(const struct llvm_emit *e, const struct llvm_access *a)
{
    return !e->dialect->is_gpu && e->vector_bytes >= 64 &&
           a->dtype != UOP_BOOL && elem_bytes(a) >= 4;
}

static bool
can_gather(const struct llvm_emit *e, const struct llvm_access *a)
{
    return has_gather(e, a) && a->gate_lanes > 1;
}

/* Two ways to load the same, of which `is_first` chooses one: blocks, and the
 * value that each ends with. */
struct two_ways {
    LLVMBasicBlockRef block[2], join;
};

static void
begin_two_ways(struct llvm_emit *e, LLVMValueRef is_first, struct two_ways *w)
{
    w->block[0] = llvm_new_block(e);
    w->block[1] = llvm_new_block(e);
    w->join = llvm_new_block(e);
    e->ll->BuildCondBr(e->b, is_first, w->block[0], w->block[1]);
    e->ll->PositionBuilderAtEnd(e->b, w->block[0]);
}

/* The first way is written; the second follows. */
static void
take_second_way(struct llvm_emit *e, struct two_ways *w)
{
    LLVMBasicBlockRef second = w->block[1];

    w->block[0] = e->ll->GetInsertBlock(e->b);
    e->ll->BuildBr(e->b, w->join);
    e->ll->PositionBuilderAtEnd(e->b, second);
}

static LLVMValueRef
join_two_ways(struct llvm_emit *e, LLVMTypeRef type, struct two_ways *w,
              LLVMValueRef first, LLVMValueRef second)
{
    LLVMValueRef phi;

    w->block[1] = e->ll->GetInsertBlock(e->b);
    e->ll->BuildBr(e->b, w->join);
    e->ll->PositionBuilderAtEnd(e->b, w->join);
    phi = e->ll->BuildPhi(e->b, type, "");
    llvm_add_incoming(e, phi, first, w->block[0]);
    llvm_add_incoming(e, phi, second, w->block[1]);
    return phi;
}

/* Which lanes lie as if each were `step` elements behind the one before it and
 * lane number `lane` where it is; *out_first is where lane 0 then lies. */
static LLVMValueRef
in_line(struct llvm_emit *e, const struct llvm_access *a, unsigned lane,
        unsigned step, LLVMValueRef *out_first)
{
    LLVMValueRef first = lane_of(e, a->indices, lane), steps[MAX_LANES], v;
    LLVMTypeRef type = e->ll->TypeOf(first);
    uint32_t i;

    assert(a->indices && lane < a->lanes);
    for (i = 0; i < a->lanes; i++)
        steps[i] = e->ll->ConstInt(type, (uint64_t)i * step, 0);
    if (lane)
        first = e->ll->BuildBinOp(e->b, LLVMSub, first, steps[lane], "");
    v = e->ll->BuildBinOp(e->b, LLVMAdd, llvm_splat(e, first, a->lanes),
                          e->ll->ConstVector(steps, a->lanes), "");
    *out_first = e->ll->BuildGEP2(e->b, a->elem, a->base, &first, 1, "");
    return e->ll->BuildICmp(e->b, LLVMIntEQ, a->indices, v, "");
}

/* Does all of a mask hold? An i1. */
static LLVMValueRef
all_hold(struct llvm_emit *e, LLVMValueRef mask, unsigned lanes)
{
    LLVMTypeRef bits = e->ll->IntTypeInContext(e->ctx, lanes);

    return e->ll->BuildICmp(e->b, LLVMIntEQ,
                            e->ll->BuildCast(e->b, LLVMBitCast, mask, bits, ""),
                            e->ll->ConstInt(bits, UINT64_MAX, 1), "");
}

static LLVMValueRef
load_masked(struct llvm_emit *e, const struct llvm_access *a, LLVMValueRef ptr,
            LLVMValueRef mask, LLVMValueRef other)
{
    LLVMTypeRef types[2] = {a->type, e->t_ptr};
    LLVMValueRef args[4] = {ptr, llvm_i32(e, elem_bytes(a)), mask, other};

    return set_alias(e, a,
                     llvm_intrinsic(e, "llvm.masked.load", types, 2, args, 4));
}

/* Every second element from ptr on, where the mask of PAIRED lanes holds: two
 * masked loads of all, whose masks have each bit apart from the next. */
static LLVMValueRef
load_second(struct llvm_emit *e, const struct llvm_access *a, LLVMValueRef ptr,
            LLVMValueRef mask, LLVMValueRef other)
{
    LLVMTypeRef bits = e->ll->IntTypeInContext(e->ctx, PAIRED);
    LLVMTypeRef type = e->ll->TypeOf(mask);
    LLVMValueRef args[2], v[2], at = llvm_i64(e, PAIRED);
    uint32_t pick[PAIRED], i;

    assert(a->lanes == PAIRED);
    args[0] = e->ll->BuildCast(e->b, LLVMBitCast, mask, bits, "");
    args[0] = e->ll->BuildCast(e->b, LLVMZExt, args[0], e->t_i32, "");
    args[1] = llvm_i32(e, 0x55555555);
    args[0] = llvm_intrinsic(e, "llvm.x86.bmi.pdep.32", NULL, 0, args, 2);
    for (i = 0; i < 2; i++) {
        v[i] = e->ll->BuildCast(e->b, LLVMTrunc, args[0], bits, "");
        v[i] = e->ll->BuildCast(e->b, LLVMBitCast, v[i], type, "");
        v[i] = load_masked(e, a, ptr, v[i], e->ll->ConstNull(a->type));
        ptr = e->ll->BuildGEP2(e->b, a->elem, ptr, &at, 1, "");
        args[0] =
            e->ll->BuildBinOp(e->b, LLVMLShr, args[0], llvm_i32(e, PAIRED), "");
    }
    for (i = 0; i < PAIRED; i++)
        pick[i] = 2 * i;
    return e->ll->BuildSelect(
        e->b, mask, llvm_shuffle(e, v[0], v[1], pick, PAIRED), other, "");
}

static LLVMValueRef
gather(struct llvm_emit *e, const struct llvm_access *a, LLVMValueRef indices,
       LLVMValueRef other)
{
    LLVMTypeRef types[2] = {a->type, e->ll->VectorType(e->t_ptr, a->lanes)};
    LLVMValueRef args[4] = {
        e->ll->BuildGEP2(e->b, a->elem, a->base, &indices, 1, ""),
        llvm_i32(e, elem_bytes(a)), a->gate, other};

    assert(can_gather(e, a));
    return set_alias(
        e, a, llvm_intrinsic(e, "llvm.masked.gather", types, 2, args, 4));
}

/* Is one term of the index, a vector, twice something? */
static bool
counts_by_two(const struct uop *u, uint32_t depth)
{
    const struct uop *factor;

    if (u->op == UOP_CAST)
        return counts_by_two(u->src[0], depth);
    if (u->op == UOP_ADD && depth < MAX_TERMS)
        return counts_by_two(u->src[0], depth + 1) ||
               counts_by_two(u->src[1], depth + 1);
    if (u->op != UOP_MUL || u->src[1]->op != UOP_BROADCAST)
        return false;
    factor = u->src[1]->src[0];
    return factor->op == UOP_CONST && factor->arg.i == 2;
}

/* Into how many runs of consecutive elements such an index cuts the lanes:
 * each ends where a remainder by the runs' length begins again. 0: no
 * remainder is in it, or the runs or lanes are too many. */
static uint32_t
count_runs(const struct uop *u, unsigned lanes, uint32_t depth)
{
    const struct uop *by;
    uint32_t n;

    if (u->op == UOP_CAST)
        return count_runs(u->src[0], lanes, depth);
    if ((u->op == UOP_ADD || u->op == UOP_MUL) && depth < 2 * MAX_TERMS) {
        n = count_runs(u->src[0], lanes, depth + 1);
        return n ? n : count_runs(u->src[1], lanes, depth + 1);
    }
    if ((u->op != UOP_IMOD && u->op != UOP_IDIV) ||
        u->src[1]->op != UOP_BROADCAST || lanes > PAIRED || lanes & (lanes - 1))
        return 0;
    by = u->src[1]->src[0];
    if (by->op != UOP_CONST || by->arg.i < 2 || by->arg.i >= lanes)
        return 0;
    n = (uint32_t)((lanes + 2 * (uint64_t)by->arg.i - 2) / (uint64_t)by->arg.i);
    return n <= MOST_RUNS ? n : 0;
}

/* A bit for each lane that does not lie right behind the one before it. */
static LLVMValueRef
find_run_starts(struct llvm_emit *e, const struct llvm_access *a)
{
    LLVMTypeRef type = e->ll->TypeOf(lane_of(e, a->indices, 0));
    LLVMTypeRef bits = e->ll->IntTypeInContext(e->ctx, a->lanes);
    LLVMValueRef ones[MAX_LANES], v;
    uint32_t pick[MAX_LANES], i;

    for (i = 0; i < a->lanes; i++) {
        pick[i] = i ? i - 1 : 0; /* lane 0 begins one */
        ones[i] = e->ll->ConstInt(type, 1, 0);
    }
    v = llvm_shuffle(e, a->indices, a->indices, pick, a->lanes);
    v = e->ll->BuildBinOp(e->b, LLVMAdd, v, e->ll->ConstVector(ones, a->lanes),
                          "");
    v = e->ll->BuildICmp(e->b, LLVMIntNE, a->indices, v, "");
    v = e->ll->BuildCast(e->b, LLVMBitCast, v, bits, "");
    return e->ll->BuildCast(e->b, LLVMZExt, v, e->t_i32, "");
}

static LLVMValueRef
alu32(struct llvm_emit *e, LLVMOpcode op, LLVMValueRef x, LLVMValueRef y)
{
    return e->ll->BuildBinOp(e->b, op, x, y, "");
}

/* A masked load for each run. Which lanes it is of and where it begins depend
 * on the index alone, so LLVM computes that outside the loops that move the
 * base only. Lanes in more than n runs are gathered. */
static LLVMValueRef
load_runs(struct llvm_emit *e, const struct llvm_access *a, uint32_t n,
          LLVMValueRef other)
{
    LLVMTypeRef bits = e->ll->IntTypeInContext(e->ctx, a->lanes);
    LLVMTypeRef mask_type = e->ll->TypeOf(a->gate);
    LLVMValueRef zero = llvm_i32(e, 0), one = llvm_i32(e, 1), v[2];
    LLVMValueRef starts = find_run_starts(e, a), first[MOST_RUNS];
    LLVMValueRef mask[MOST_RUNS];
    struct two_ways ways;
    uint32_t i;

    assert(n && n <= MOST_RUNS && a->lanes <= PAIRED);
    e->has_runs = true;
    for (i = 0; i < n; i++) {
        LLVMValueRef args[2] = {starts, e->ll->ConstNull(e->t_i1)}, at, low;
        at = llvm_intrinsic(e, "llvm.cttz", &e->t_i32, 1, args, 2);
        at = alu32(e, LLVMAnd, at, llvm_i32(e, a->lanes - 1));
        low = alu32(e, LLVMAnd, starts, alu32(e, LLVMSub, zero, starts));
        starts = alu32(e, LLVMAnd, starts, alu32(e, LLVMSub, starts, one));
        /* from the lowest bit of starts to the next one */
        v[0] = alu32(e, LLVMAnd, starts, alu32(e, LLVMSub, zero, starts));
        v[0] = alu32(e, LLVMSub, v[0], one);
        v[0] = alu32(e, LLVMAnd, v[0], alu32(e, LLVMSub, zero, low));
        v[0] = e->ll->BuildCast(e->b, LLVMTrunc, v[0], bits, "");
        mask[i] = e->ll->BuildCast(e->b, LLVMBitCast, v[0], mask_type, "");
        v[1] = e->ll->BuildExtractElement(e->b, a->indices, at, "");
        at = e->ll->BuildCast(e->b, LLVMZExt, at, e->ll->TypeOf(v[1]), "");
        first[i] = alu32(e, LLVMSub, v[1], at);
    }
    begin_two_ways(e, e->ll->BuildICmp(e->b, LLVMIntEQ, starts, zero, ""),
                   &ways);
    for (v[0] = other, i = 0; i < n; i++)
        v[0] = load_masked(
            e, a, e->ll->BuildGEP2(e->b, a->elem, a->base, &first[i], 1, ""),
            alu32(e, LLVMAnd, mask[i], a->gate), v[0]);
    take_second_way(e, &ways);
    v[1] = gather(e, a, a->indices, other);
    return join_two_ways(e, a->type, &ways, v[0], v[1]);
}

/* Lanes that lie in two runs of every second element, as where a convolution
 * by steps of 2 goes on in another row, or else anywhere. */
static LLVMValueRef
load_apart(struct llvm_emit *e, const struct uop *u,
           const struct llvm_access *a, LLVMValueRef other)
{
    LLVMValueRef first[2], in[2], v[2], all;
    struct two_ways ways;
    uint32_t n_runs = count_runs(u->src[1], a->lanes, 0);

    if (n_runs)
        return load_runs(e, a, n_runs, other);
    if (a->lanes != PAIRED || !counts_by_two(u->src[1], 0))
        return gather(e, a, a->indices, other);
    in[0] = in_line(e, a, 0, 2, &first[0]);
    in[1] = in_line(e, a, PAIRED - 1, 2, &first[1]);
    all = e->ll->BuildBinOp(e->b, LLVMOr, in[0], in[1], "");
    begin_two_ways(e, all_hold(e, all, PAIRED), &ways);
    in[1] = e->ll->BuildSelect(
        e->b, in[0], e->ll->ConstNull(e->ll->TypeOf(in[0])), a->gate, "");
    in[0] = e->ll->BuildBinOp(e->b, LLVMAnd, in[0], a->gate, "");
    v[0] = load_second(e, a, first[0], in[0], other);
    v[0] = load_second(e, a, first[1], in[1], v[0]);
    take_second_way(e, &ways);
    v[1] = gather(e, a, a->indices, other);
    return join_two_ways(e, a->type, &ways, v[0], v[1]);
}

/* Every step-th element, each with a gate: where all hold, as in the middle of
 * an image that a convolution pads, no gather. */
static LLVMValueRef
load_stepped_gated(struct llvm_emit *e, const struct llvm_access *a,
                   LLVMValueRef other)
{
    LLVMValueRef steps[MAX_LANES], v[2];
    struct llvm_access open = *a;
    struct two_ways ways;
    uint32_t i;

    for (i = 0; i < a->lanes; i++)
        steps[i] = llvm_i64(e, a->offset + a->step * (int64_t)i);
    if (a->step < 2 || a->step > MAX_WIDE_STEPS)
        return gather(e, a, e->ll->ConstVector(steps, a->lanes), other);
    open.gate = NULL;
    open.gate_lanes = 0;
    begin_two_ways(e, all_hold(e, a->gate, a->lanes), &ways);
    v[0] = load_stepped(e, &open);
    take_second_way(e, &ways);
    v[1] = a->lanes == PAIRED && a->step == 2
               ? load_second(e, a, offset_by(e, a, 0), a->gate, other)
               : gather(e, a, e->ll->ConstVector(steps, a->lanes), other);
    return join_two_ways(e, a->type, &ways, v[0], v[1]);
}

/* Lanes anywhere, each with a gate. A gather takes about as long as its lanes
 * one by one: where they lie side by side after all, as most of an image's
 * pixels, they are one masked load. */
static LLVMValueRef
load_gathered(struct llvm_emit *e, const struct uop *u,
              const struct llvm_access *a, LLVMValueRef other)
{
    LLVMValueRef first, v[2], all;
    struct two_ways ways;

    if (!a->indices)
        return load_stepped_gated(e, a, other);
    all = in_line(e, a, 0, 1, &first);
    begin_two_ways(e, all_hold(e, all, a->lanes), &ways);
    v[0] = load_masked(e, a, first, a->gate, other);
    take_second_way(e, &ways);
    v[1] = load_apart(e, u, a, other);
    return join_two_ways(e, a->type, &ways, v[0], v[1]);
}

/* The same access with a gate that holds. */
static const struct llvm_access *
all_lanes(struct llvm_emit *e, struct llvm_access *a)
{
    LLVMTypeRef bits = e->ll->IntTypeInContext(e->ctx, a->lanes);
    LLVMTypeRef mask = e->ll->VectorType(e->t_i1, a->lanes);

    a->gate = e->ll->BuildCast(e->b, LLVMBitCast,
                               e->ll->ConstInt(bits, UINT64_MAX, 1), mask, "");
    a->gate_lanes = a->lanes;
    return a;
}

/* Are the lanes a quotient of consecutive numbers, as where each element is
 * repeated? They lie within a vector then, in order. */
static bool
is_near(const struct llvm_emit *e, const struct uop *u,
        const struct llvm_access *a)
{
    const struct uop *at = u->src[1], *of;

    while (at->op == UOP_CAST)
        at = at->src[0];
    if (!a->indices || !has_gather(e, a) || a->gate_lanes > 1 ||
        a->lanes != PAIRED || elem_bytes(a) != 4 ||
        (at->op != UOP_SHR && at->op != UOP_IDIV) ||
        at->src[1]->op != UOP_BROADCAST || at->src[1]->src[0]->op != UOP_CONST)
        return false;
    of = at->src[0];
    if (of->op == UOP_ADD)
        of = of->src[0]->op == UOP_BROADCAST ? of->src[1] : of->src[0];
    return of->op == UOP_RAMP &&
           (of == at->src[0] || at->src[0]->src[0]->op == UOP_BROADCAST ||
            at->src[0]->src[1]->op == UOP_BROADCAST);
}

/* One load of what there is between the first and the last lane, and a shuffle
 * by the distance from the first. */
static LLVMValueRef
load_near(struct llvm_emit *e, const struct llvm_access *a, LLVMValueRef other)
{
    LLVMValueRef first = lane_of(e, a->indices, 0), span, mask, args[2], v;
    LLVMTypeRef bits = e->ll->IntTypeInContext(e->ctx, PAIRED);
    LLVMTypeRef words = e->ll->VectorType(e->t_i32, PAIRED);
    struct llvm_access open = *a;
    struct two_ways ways;

    if (a->gate) {
        open.gate = NULL;
        begin_two_ways(e, a->gate, &ways);
        v = load_near(e, &open, NULL);
        take_second_way(e, &ways);
        return join_two_ways(e, a->type, &ways, v, other);
    }
    span = e->ll->BuildBinOp(e->b, LLVMSub, lane_of(e, a->indices, PAIRED - 1),
                             first, "");
    span = e->ll->BuildCast(e->b, LLVMTrunc, span, bits, "");
    mask = e->ll->BuildBinOp(
        e->b, LLVMLShr, e->ll->ConstInt(bits, UINT16_MAX, 0),
        e->ll->BuildBinOp(e->b, LLVMSub, e->ll->ConstInt(bits, PAIRED - 1, 0),
                          span, ""),
        "");
    mask = e->ll->BuildCast(e->b, LLVMBitCast, mask,
                            e->ll->VectorType(e->t_i1, PAIRED), "");
    v = load_masked(e, a,
                    e->ll->BuildGEP2(e->b, a->elem, a->base, &first, 1, ""),
                    mask, e->ll->ConstNull(a->type));
    args[0] = e->ll->BuildCast(e->b, LLVMBitCast, v, words, "");
    args[1] = e->ll->BuildBinOp(e->b, LLVMSub, a->indices,
                                llvm_splat(e, first, PAIRED), "");
    if (e->ll->TypeOf(first) != e->t_i32)
        args[1] = e->ll->BuildCast(e->b, LLVMTrunc, args[1], words, "");
    v = llvm_intrinsic(e, "llvm.x86.avx512.permvar.si.512", NULL, 0, args, 2);
    return e->ll->BuildCast(e->b, LLVMBitCast, v, a->type, "");
}

bell_status
llvm_emit_load(struct llvm_emit *e, const struct uop *u,
               LLVMValueRef *out_value)
{
    const struct uop *gate = u->n_src > 3 ? u->src[3] : NULL;
    const struct uop *columns[LLVM_MAX_TURNED];
    LLVMValueRef other = NULL, v;
    struct llvm_access a;
    uint32_t n = llvm_find_columns(e, u, columns);

    if (n)
        return load_llvm_columns(e, u, columns, n, out_value);
    if (u->n_src == 3)
        return llvm_refuse(e, u, "a value for a gate, and no gate");
    BELL_TRY(open_access(e, u, u->lanes, u->dtype, gate, &a));
    if (gate) {
        BELL_TRY(llvm_value_of(e, u->src[2], &other));
        if (u->src[2]->lanes == 1)
            other = llvm_splat(e, other, u->lanes);
        other = llvm_to_memory(e, &a, other);
    }
    if (is_wide(&a) && !must_part(e, &a))
        v = load_wide(e, &a, other);
    else if (!a.indices && !gate && a.step == 0)
        v = llvm_splat(
            e, load_at(e, &a, a.elem, offset_by(e, &a, 0), elem_bytes(&a)),
            a.lanes);
    else if (!a.indices && !gate && a.step > 1 && a.step <= MAX_WIDE_STEPS)
        v = load_stepped(e, &a);
    else if (can_gather(e, &a))
        v = load_gathered(e, u, &a, other);
    else if (!gate && a.indices && has_gather(e, &a) &&
             count_runs(u->src[1], a.lanes, 0))
        v = load_gathered(e, u, all_lanes(e, &a), e->ll->ConstNull(a.type));
    else if (is_near(e, u, &a))
        v = load_near(e, &a, other);
    else
        v = load_lanes(e, &a, other);
    if (!v)
        return bell_fail(BELL_E_NO_MEMORY, "rendering %s: out of memory",
                         e->prog->name);
    *out_value = from_memory(e, &a, v);
    return BELL_OK;
}

/* ---- stores ---- */

static LLVMValueRef
store_at(struct llvm_emit *e, const struct llvm_access *a, LLVMValueRef ptr,
         unsigned align, LLVMValueRef value)
{
    LLVMValueRef inst = e->ll->BuildStore(e->b, value, ptr);

    e->ll->SetAlignment(inst, align);
    return set_alias(e, a, inst);
}

/* Where the gate holds: by a branch on a GPU, else through the address. */
static void
store_gated(struct llvm_emit *e, const struct llvm_access *a, LLVMValueRef ptr,
            unsigned align, LLVMValueRef gate, LLVMValueRef value)
{
    LLVMBasicBlockRef body, join;

    if (!e->dialect->is_gpu) {
        ptr = e->ll->BuildSelect(e->b, gate, ptr, llvm_scratch(e, a), "");
        store_at(e, a, ptr, align, value);
        return;
    }
    body = llvm_new_block(e);
    join = llvm_new_block(e);
    e->ll->BuildCondBr(e->b, gate, body, join);
    e->ll->PositionBuilderAtEnd(e->b, body);
    store_at(e, a, ptr, align, value);
    e->ll->BuildBr(e->b, join);
    e->ll->PositionBuilderAtEnd(e->b, join);
}

/* Is the STORE of one whole line of what no cache is to hold? */
static bool
is_streamed(const struct llvm_emit *e, const struct uop *u,
            const struct llvm_access *a)
{
    const struct uop *memory = uop_memory(u->src[0]);
    const struct uop *at = uop_index_of(u->src[0]);
    int64_t n = LINE_BYTES / elem_bytes(a), first, step;

    return e->dialect->stream && memory->op == UOP_PARAM &&
           memory->arg.i < 64 && (e->prog->streamed >> memory->arg.i & 1) &&
           a->lanes == n && !a->gate &&
           uop_index_steps(u->src[1], &first, &step) && step == 1 &&
           first % n == 0 && (!at || uop_index_align(at) % n == 0);
}

static void
store_wide(struct llvm_emit *e, const struct uop *u,
           const struct llvm_access *a, LLVMValueRef value)
{
    LLVMTypeRef types[2] = {a->type, e->t_ptr};
    unsigned align = align_of(a, wide_begin(a));
    LLVMValueRef ptr = wide_address(e, a);

    assert(!must_part(e, a));
    value = turn(e, a, value);
    if (a->gate_lanes > 1) {
        LLVMValueRef args[4] = {value, ptr, llvm_i32(e, elem_bytes(a)),
                                turn(e, a, a->gate)};
        set_alias(e, a,
                  llvm_intrinsic(e, "llvm.masked.store", types, 2, args, 4));
        return;
    }
    if (is_streamed(e, u, a))
        e->dialect->stream(e, store_at(e, a, ptr, LINE_BYTES, value));
    else if (a->gate)
        store_gated(e, a, ptr, align, a->gate, value);
    else
        store_at(e, a, ptr, align, value);
}

/* In lane order: the last of those that share an address stays. */
static void
store_lanes(struct llvm_emit *e, const struct llvm_access *a,
            LLVMValueRef value)
{
    unsigned align = elem_bytes(a);
    uint32_t i;

    for (i = 0; i < a->lanes; i++) {
        LLVMValueRef ptr = lane_address(e, a, i);
        LLVMValueRef lane = a->lanes > 1 ? lane_of(e, value, i) : value;
        if (a->gate)
            store_gated(e, a, ptr, align, lane_gate(e, a, i), lane);
        else
            store_at(e, a, ptr, align, lane);
    }
}

bell_status
llvm_emit_store(struct llvm_emit *e, const struct uop *u)
{
    const struct uop *gate = u->n_src > 3 ? u->src[3] : NULL;
    const struct uop *value = u->src[2];
    unsigned lanes = value->lanes;
    LLVMValueRef v;
    struct llvm_access a;

    if (u->src[1]->lanes > lanes)
        lanes = u->src[1]->lanes;
    BELL_TRY(open_access(e, u, lanes, value->dtype, gate, &a));
    BELL_TRY(llvm_value_of(e, value, &v));
    if (value->lanes == 1)
        v = llvm_splat(e, v, lanes);
    v = llvm_to_memory(e, &a, v);
    if (is_wide(&a) && !must_part(e, &a))
        store_wide(e, u, &a, v);
    else
        store_lanes(e, &a, v);
    return BELL_OK;
}
