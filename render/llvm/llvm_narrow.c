/* Index arithmetic in 32 bits, for GPUs, whose 64-bit arithmetic takes several
 * instructions: an I64 whose bounds are known to fit is held as an i32.
 *
 * An op is done in 32 bits by way of a copy of its node in which every I64 is
 * an I32.
 */
#include "render/llvm/llvm_internal.h"

static const struct ptx_fact no_fact = {INT64_MIN, INT64_MAX, 1};

struct ptx_fact
llvm_fact_of(const struct llvm_emit *e, const struct uop *u)
{
    const uint64_t *at;

    if (u->op == UOP_CONST && u->dtype == UOP_I64)
        return ptx_fact_const(u->arg.i);
    at = u->dtype == UOP_I64 ? map_get(&e->index, u->id) : NULL;
    return at && e->facts ? e->facts[*at] : no_fact;
}

LLVMValueRef
llvm_narrow_of(const struct llvm_emit *e, const struct uop *u)
{
    const uint64_t *at;

    if (u->dtype != UOP_I64)
        return NULL;
    if (u->op == UOP_CONST)
        return ptx_fact_fits(ptx_fact_const(u->arg.i))
                   ? e->ll->ConstInt(e->t_i32, (unsigned long long)u->arg.i, 1)
                   : NULL;
    at = map_get(&e->index, u->id);
    if (!at || !llvm_loop_is_open(e, e->values[*at].loop))
        return NULL;
    return e->values[*at].narrow;
}

/* A node as it is in 32 bits, with its sources. */
static const struct uop *
copy_node(struct llvm_emit *e, const struct uop *u)
{
    struct uop *copy =
        arena_copy(&e->arena, u, sizeof(*u) + u->n_src * sizeof(u->src[0]));

    if (copy && copy->dtype == UOP_I64)
        copy->dtype = UOP_I32;
    return copy;
}

static const struct uop *
as_32(struct llvm_emit *e, const struct uop *u)
{
    struct uop *copy = (struct uop *)(uintptr_t)copy_node(e, u);
    uint32_t i;

    for (i = 0; copy && i < u->n_src; i++) {
        copy->src[i] = copy_node(e, u->src[i]);
        if (!copy->src[i])
            return NULL;
    }
    return copy;
}

static bool
is_known(unsigned op)
{
    switch (op) {
    case UOP_BROADCAST:
    case UOP_LANE:
    case UOP_RAMP:
    case UOP_CAST:
    case UOP_NEG:
    case UOP_ADD:
    case UOP_SUB:
    case UOP_MUL:
    case UOP_IDIV:
    case UOP_IMOD:
    case UOP_MAX:
    case UOP_MIN:
    case UOP_SHL:
    case UOP_SHR:
    case UOP_AND:
    case UOP_OR:
    case UOP_XOR:
    case UOP_CMPLT:
    case UOP_CMPEQ:
    case UOP_CMPNE:
    case UOP_WHERE:
    case UOP_MULACC:
        return true;
    default:
        return false;
    }
}

/* Whether the op can be done on i32s; v[] are its sources so far as they are
 * I64 and narrow, facts[] what is known of them. */
static bool
can_do(const struct uop *u, const LLVMValueRef *v, const struct ptx_fact *facts,
       struct ptx_fact fact)
{
    bool any = u->dtype == UOP_I64;
    uint32_t i;

    if (!is_known(u->op) || (u->dtype == UOP_I64 && !ptx_fact_fits(fact)))
        return false;
    for (i = 0; i < u->n_src; i++) {
        any |= u->src[i]->dtype == UOP_I64;
        if (u->src[i]->dtype == UOP_I64 && !v[i])
            return false;
    }
    if (u->op == UOP_SHL || u->op == UOP_SHR)
        return any && facts[1].min >= 0 && facts[1].max <= 31;
    /* an intrinsic that saturates has other bounds in 32 bits */
    if (u->op == UOP_CAST && uop_is_float(u->src[0]))
        return false;
    return any;
}

/* LANES has as many sources as lanes. */
static bell_status
join_lanes(struct llvm_emit *e, const struct uop *u, LLVMValueRef *out_narrow,
           struct ptx_fact *out_fact)
{
    struct uop pair = {.op = UOP_LANES, .lanes = u->lanes, .n_src = 2};
    LLVMValueRef v = e->ll->GetPoison(llvm_type(e, UOP_I32, u->lanes));
    struct ptx_fact facts[2];
    uint32_t i;

    facts[0] = llvm_fact_of(e, u->src[0]);
    for (i = 0; i < u->n_src; i++) {
        LLVMValueRef lane = llvm_narrow_of(e, u->src[i]);
        facts[1] = llvm_fact_of(e, u->src[i]);
        facts[0] = ptx_fact_of(&pair, facts);
        if (!lane)
            return BELL_OK;
        v = e->ll->BuildInsertElement(e->b, v, lane, llvm_i32(e, i), "");
    }
    *out_fact = facts[0];
    *out_narrow = v;
    return BELL_OK;
}

bell_status
llvm_emit_narrow(struct llvm_emit *e, const struct uop *u,
                 LLVMValueRef *out_narrow, struct ptx_fact *out_fact)
{
    LLVMValueRef v[3] = {NULL, NULL, NULL};
    struct ptx_fact facts[3] = {no_fact, no_fact, no_fact};
    const struct uop *copy;
    uint32_t i;

    *out_narrow = NULL;
    *out_fact = no_fact;
    if (u->op == UOP_LANES && u->dtype == UOP_I64 && u->n_src == u->lanes)
        return join_lanes(e, u, out_narrow, out_fact);
    if (u->n_src > 3)
        return BELL_OK;
    for (i = 0; i < u->n_src; i++) {
        facts[i] = llvm_fact_of(e, u->src[i]);
        v[i] = llvm_narrow_of(e, u->src[i]);
    }
    if (u->dtype == UOP_I64)
        *out_fact = ptx_fact_of(u, facts);
    if (!can_do(u, v, facts, *out_fact))
        return BELL_OK;
    for (i = 0; i < u->n_src; i++) {
        if (!v[i])
            BELL_TRY(llvm_value_of(e, u->src[i], &v[i]));
    }
    copy = as_32(e, u);
    if (!copy)
        return bell_fail(BELL_E_NO_MEMORY, "rendering %s", e->prog->name);
    return llvm_emit_op_on(e, copy, v, out_narrow);
}
