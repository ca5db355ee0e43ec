/* Instructions on virtual registers, appended one by one. */
#include "render/ir3/ir3_emit.h"

#include <assert.h>
#include <string.h>

void *
ir3_grow(struct ir3_emit *e, void *old, uint32_t n, uint32_t *cap, size_t size)
{
    uint32_t more = *cap ? 2 * *cap : 256;
    void *at;

    if (n < *cap)
        return old;
    at = arena_alloc(&e->arena, (size_t)more * size);
    if (!at) {
        e->failed = true;
        return NULL;
    }
    if (n)
        memcpy(at, old, n * size);
    *cap = more;
    return at;
}

struct ir3_opnd
ir3_vreg_new(struct ir3_emit *e, unsigned n, bool is_half)
{
    struct ir3_vreg *v =
        ir3_grow(e, e->vregs, e->n_vregs, &e->cap_vregs, sizeof(*e->vregs));

    assert(n >= 1 && n <= 4);
    if (!v)
        return (struct ir3_opnd){.kind = IR3_REG};
    e->vregs = v;
    v[e->n_vregs] =
        (struct ir3_vreg){.n = (uint8_t)n, .is_half = is_half, .reg = -1};
    return (struct ir3_opnd){.kind = IR3_REG, .v = e->n_vregs++};
}

struct ir3_opnd
ir3_part(struct ir3_opnd o, unsigned i)
{
    assert(o.kind == IR3_REG && o.comp + i < 4);
    o.comp = (uint8_t)(o.comp + i);
    return o;
}

struct ir3_opnd
ir3_imm(uint32_t value)
{
    return (struct ir3_opnd){.kind = IR3_IMM, .v = value};
}

struct ir3_opnd
ir3_arg_word(const struct ir3_emit *e, uint32_t slot, unsigned word)
{
    assert(word < 2);
    if (e->args)
        return ir3_part(e->args[slot], word);
    return (struct ir3_opnd){.kind = IR3_CONST, .v = 2 * slot + word};
}

struct ir3_insn *
ir3_add(struct ir3_emit *e, enum ir3_op op)
{
    struct ir3_insn *insns =
        ir3_grow(e, e->insns, e->n_insns, &e->cap_insns, sizeof(*e->insns));

    if (!insns)
        return &e->nothing;
    e->insns = insns;
    insns[e->n_insns] = (struct ir3_insn){.op = op};
    return &insns[e->n_insns++];
}

void
ir3_load_args(struct ir3_emit *e, struct ir3_opnd to, uint32_t word, unsigned n)
{
    struct ir3_insn *in = ir3_add(e, IR3_LDC);

    assert(n >= 1 && n <= 4 && to.kind == IR3_REG);
    in->type = IR3_TYPE_U32;
    in->n = (uint8_t)n;
    in->off = (int32_t)word;
    in->dst = to;
}

uint32_t
ir3_label(struct ir3_emit *e)
{
    return e->n_labels++;
}

void
ir3_place(struct ir3_emit *e, uint32_t label)
{
    assert(label < e->n_labels);
    ir3_add(e, IR3_OP_COUNT)->off = (int32_t)label;
}

void
ir3_move(struct ir3_emit *e, struct ir3_opnd to, struct ir3_opnd from)
{
    struct ir3_insn *in;

    assert(to.kind == IR3_REG || to.kind == IR3_FIXED);
    assert(!from.neg && !from.abs); /* a mov takes no sign */
    switch ((int)from.kind) {
    case IR3_IMM:
        in = ir3_add(e, IR3_MOV_IMMED);
        in->off = (int32_t)from.v;
        break;
    case IR3_CONST:
        in = ir3_add(e, IR3_MOV_CONST);
        break;
    default:
        in = ir3_add(e, IR3_MOV_GPR);
        if (to.kind == IR3_REG && from.kind == IR3_REG && e->vregs &&
            e->vregs[to.v].n == 1 && e->vregs[from.v].n == 1)
            e->vregs[to.v].hint = from.v + 1;
    }
    in->type = in->src_type = IR3_TYPE_U32;
    in->dst = to;
    in->src[0] = from;
}

struct ir3_opnd
ir3_in_reg(struct ir3_emit *e, struct ir3_opnd o)
{
    struct ir3_opnd r;

    assert(!o.neg && !o.abs); /* signs are given to what is a source already */
    if (o.kind == IR3_REG)
        return o;
    r = ir3_vreg_new(e, 1, false);
    ir3_move(e, r, o);
    return r;
}

/* Numbers that an instruction of category 2 holds. */
static bool
is_small(struct ir3_opnd o)
{
    return (int32_t)o.v >= -511 && (int32_t)o.v <= 511;
}

/* Operations on floats take no numbers but those of a table. */
static bool
is_float_op(enum ir3_op op)
{
    switch ((int)op) {
    case IR3_ADD_F:
    case IR3_MIN_F:
    case IR3_MAX_F:
    case IR3_MUL_F:
    case IR3_SIGN_F:
    case IR3_CMPS_F:
    case IR3_ABSNEG_F:
    case IR3_FLOOR_F:
    case IR3_CEIL_F:
    case IR3_RNDNE_F:
    case IR3_TRUNC_F:
        return true;
    default:
        return false;
    }
}

static bool
is_sfu(enum ir3_op op)
{
    return op == IR3_RCP || op == IR3_RSQ || op == IR3_LOG2 || op == IR3_EXP2 ||
           op == IR3_SIN || op == IR3_COS || op == IR3_SQRT;
}

/* As such an instruction takes it. */
static struct ir3_opnd
to_source(struct ir3_emit *e, enum ir3_op op, struct ir3_opnd o)
{
    if (o.kind == IR3_IMM && (is_float_op(op) || is_sfu(op) || !is_small(o)))
        return ir3_in_reg(e, o);
    if (o.kind == IR3_CONST && is_sfu(op))
        return ir3_in_reg(e, o);
    return o;
}

struct ir3_opnd
ir3_op1(struct ir3_emit *e, enum ir3_op op, struct ir3_opnd a)
{
    struct ir3_opnd r = ir3_vreg_new(e, 1, false);
    struct ir3_insn *in;

    a = to_source(e, op, a);
    in = ir3_add(e, op);
    in->dst = r;
    in->src[0] = a;
    return r;
}

static struct ir3_opnd
two_sources(struct ir3_emit *e, enum ir3_op op, unsigned cond,
            struct ir3_opnd a, struct ir3_opnd b)
{
    struct ir3_opnd r = ir3_vreg_new(e, 1, false);
    struct ir3_insn *in;

    a = to_source(e, op, a);
    b = to_source(e, op, b);
    if ((a.kind == IR3_IMM && b.kind == IR3_IMM) ||
        (a.kind == IR3_CONST && b.kind == IR3_CONST))
        a = ir3_in_reg(e, a);
    in = ir3_add(e, op);
    in->cond = (uint8_t)cond;
    in->dst = r;
    in->src[0] = a;
    in->src[1] = b;
    return r;
}

struct ir3_opnd
ir3_op2(struct ir3_emit *e, enum ir3_op op, struct ir3_opnd a,
        struct ir3_opnd b)
{
    return two_sources(e, op, 0, a, b);
}

struct ir3_opnd
ir3_compare(struct ir3_emit *e, enum ir3_op op, unsigned cond,
            struct ir3_opnd a, struct ir3_opnd b)
{
    return two_sources(e, op, cond, a, b);
}

/* The second source is a register; the others may be constants. */
struct ir3_opnd
ir3_op3(struct ir3_emit *e, enum ir3_op op, struct ir3_opnd a,
        struct ir3_opnd b, struct ir3_opnd c)
{
    struct ir3_opnd r = ir3_vreg_new(e, 1, false);
    struct ir3_insn *in;

    a = a.kind == IR3_IMM ? ir3_in_reg(e, a) : a;
    c = c.kind == IR3_IMM ? ir3_in_reg(e, c) : c;
    b = ir3_in_reg(e, b);
    in = ir3_add(e, op);
    in->dst = r;
    in->src[0] = a;
    in->src[1] = b;
    in->src[2] = c;
    return r;
}

struct ir3_opnd
ir3_select(struct ir3_emit *e, struct ir3_opnd cond, struct ir3_opnd a,
           struct ir3_opnd b)
{
    if (cond.kind == IR3_IMM)
        return cond.v ? a : b;
    return ir3_op3(e, IR3_SEL_B32, a, cond, b);
}

struct ir3_opnd
ir3_convert(struct ir3_emit *e, enum ir3_type from, enum ir3_type to,
            struct ir3_opnd a)
{
    struct ir3_opnd r = ir3_vreg_new(e, 1, ir3_type_is_half(to));
    struct ir3_insn *in;

    if (!ir3_type_is_half(from))
        a = ir3_in_reg(e, a);
    in = ir3_add(e, IR3_MOV_GPR);
    in->src_type = (uint8_t)from;
    in->type = (uint8_t)to;
    in->round_even = to == IR3_TYPE_F32 || to == IR3_TYPE_F16;
    in->dst = r;
    in->src[0] = a;
    return r;
}

void
ir3_branch(struct ir3_emit *e, struct ir3_opnd cond, bool where_set,
           uint32_t label)
{
    struct ir3_insn *in;

    assert(label < e->n_labels);
    cond = ir3_in_reg(e, cond);
    in = ir3_add(e, IR3_CMPS_U);
    in->cond = IR3_NE;
    in->dst = (struct ir3_opnd){.kind = IR3_FIXED, .v = IR3_REG_P0};
    in->src[0] = cond;
    in->src[1] = ir3_imm(0);
    in = ir3_add(e, IR3_BR);
    in->is_not = !where_set;
    in->off = (int32_t)label;
}
