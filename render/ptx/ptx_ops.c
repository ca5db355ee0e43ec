/* Arithmetic and lane operations.
 *
 * Float instructions name their rounding, which keeps ptxas from fusing
 * them. Integers of 8 and 16 bits are worked on in 32 and cut afterwards
 * where the result may have left them.
 */
#include "render/ptx/ptx_internal.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "base/bits.h"
#include "render/render_internal.h"

static bool
is_half(unsigned dtype)
{
    return dtype == UOP_F16 || dtype == UOP_BF16;
}

/* The type that integer instructions on this dtype name. */
static const char *
int_type(unsigned dtype)
{
    bool is_signed = uop_dtype_infos[dtype].is_signed;

    assert(!uop_dtype_is_float(dtype));
    if (uop_dtype_infos[dtype].size_bytes == 8)
        return is_signed ? "s64" : "u64";
    return is_signed ? "s32" : "u32";
}

void
ptx_wrap(struct ptx_emit *e, unsigned dtype, struct ptx_opnd r)
{
    if (dtype == UOP_I8)
        PTX_OP(e, "cvt.s32.s8 %, %", r, r);
    else if (dtype == UOP_I16)
        PTX_OP(e, "cvt.s32.s16 %, %", r, r);
    else if (dtype == UOP_U8 || uop_dtype_is_f8(dtype))
        PTX_OP(e, "and.b32 %, %, 255", r, r);
    else if (dtype == UOP_U16)
        PTX_OP(e, "and.b32 %, %, 65535", r, r);
}

/* d = name.type a, b */
static struct ptx_opnd
two(struct ptx_emit *e, const char *name, const char *type, enum ptx_class cls,
    struct ptx_opnd a, struct ptx_opnd b)
{
    struct ptx_opnd r = ptx_reg(e, cls);
    char fmt[48];

    snprintf(fmt, sizeof(fmt), "%s.%s %%, %%, %%", name, type);
    PTX_OP(e, fmt, r, a, b);
    return r;
}

static struct ptx_opnd
one(struct ptx_emit *e, const char *fmt, enum ptx_class cls, struct ptx_opnd a)
{
    struct ptx_opnd r = ptx_reg(e, cls);

    PTX_OP(e, fmt, r, a);
    return r;
}

/* ---- BOOL ---- */

static struct ptx_opnd
bool_binary(struct ptx_emit *e, unsigned op, struct ptx_opnd a,
            struct ptx_opnd b)
{
    a = ptx_in_reg(e, a);
    b = ptx_in_reg(e, b);
    switch (op) {
    case UOP_ADD:
    case UOP_MAX:
    case UOP_OR:
        return two(e, "or", "pred", PTX_PRED, a, b);
    case UOP_MUL:
    case UOP_MIN:
    case UOP_AND:
        return two(e, "and", "pred", PTX_PRED, a, b);
    case UOP_CMPEQ:
        a = two(e, "xor", "pred", PTX_PRED, a, b);
        return one(e, "not.pred %, %", PTX_PRED, a);
    case UOP_CMPLT:
        a = one(e, "not.pred %, %", PTX_PRED, a);
        return two(e, "and", "pred", PTX_PRED, a, b);
    default: /* SUB XOR CMPNE */
        return two(e, "xor", "pred", PTX_PRED, a, b);
    }
}

static struct ptx_opnd
select_value(struct ptx_emit *e, struct ptx_opnd cond, struct ptx_opnd a,
             struct ptx_opnd b, enum ptx_class cls)
{
    struct ptx_opnd r = ptx_reg(e, cls);
    char fmt[40];

    cond = ptx_in_reg(e, cond);
    if (cls == PTX_PRED) {
        ptx_mov(e, r, b);
        PTX_OP(e, "@% mov.pred %, %", cond, r, a);
        return r;
    }
    snprintf(fmt, sizeof(fmt), "selp.%s %%, %%, %%, %%", ptx_class_type(cls));
    PTX_OP(e, fmt, r, a, b, cond);
    return r;
}

/* ---- numbers ---- */

static struct ptx_opnd
ptx_compare(struct ptx_emit *e, unsigned op, unsigned dtype, struct ptx_opnd a,
            struct ptx_opnd b)
{
    bool flt = uop_dtype_is_float(dtype);
    const char *name = op == UOP_CMPLT   ? "setp.lt"
                       : op == UOP_CMPEQ ? "setp.eq"
                       : flt             ? "setp.neu"
                                         : "setp.ne";

    assert(op == UOP_CMPLT || op == UOP_CMPEQ || op == UOP_CMPNE);
    if (!flt && op == UOP_CMPLT && !uop_dtype_infos[dtype].is_signed)
        name = "setp.lt"; /* the type tells */
    return two(e, name,
               flt ? ptx_class_type(ptx_class_of(dtype)) : int_type(dtype),
               PTX_PRED, a, b);
}

/* The instruction for F64 orders zeros and loses NaN, which their sum keeps. */
static struct ptx_opnd
f64_extreme(struct ptx_emit *e, unsigned op, struct ptx_opnd a,
            struct ptx_opnd b)
{
    struct ptx_opnd p, r;

    assert(op == UOP_MAX || op == UOP_MIN);
    r = two(e, op == UOP_MAX ? "max" : "min", "f64", PTX_F64, a, b);
    p = two(e, "setp.nan", "f64", PTX_PRED, a, b);
    return select_value(e, p, two(e, "add.rn", "f64", PTX_F64, a, b), r,
                        PTX_F64);
}

static struct ptx_opnd
float_binary(struct ptx_emit *e, unsigned op, unsigned dtype, struct ptx_opnd a,
             struct ptx_opnd b)
{
    enum ptx_class cls = ptx_class_of(dtype);
    bool wide = dtype == UOP_F64;
    const char *name;

    assert(dtype == UOP_F32 || dtype == UOP_F64);
    switch (op) {
    case UOP_ADD:
        name = "add.rn";
        break;
    case UOP_SUB:
        name = "sub.rn";
        break;
    case UOP_MUL:
        name = "mul.rn";
        break;
    case UOP_FDIV:
        name = e->target->approx && !wide ? "div.full" : "div.rn";
        break;
    default:
        assert(op == UOP_MAX || op == UOP_MIN);
        if (wide)
            return f64_extreme(e, op, a, b);
        name = op == UOP_MAX ? "max.NaN" : "min.NaN";
        break;
    }
    return two(e, name, wide ? "f64" : "f32", cls, a, b);
}

static const char *
int_name(unsigned op)
{
    switch (op) {
    case UOP_ADD:
        return "add";
    case UOP_SUB:
        return "sub";
    case UOP_MUL:
        return "mul.lo";
    case UOP_IDIV:
        return "div";
    case UOP_IMOD:
        return "rem";
    case UOP_MAX:
        return "max";
    case UOP_MIN:
        return "min";
    case UOP_AND:
        return "and";
    case UOP_OR:
        return "or";
    case UOP_XOR:
        return "xor";
    case UOP_SHL:
        return "shl";
    case UOP_SHR:
        return "shr";
    default:
        return NULL;
    }
}

static bool
may_leave(unsigned op)
{
    return op == UOP_ADD || op == UOP_SUB || op == UOP_MUL || op == UOP_SHL ||
           op == UOP_IDIV;
}

static struct ptx_opnd
int_binary(struct ptx_emit *e, unsigned op, unsigned dtype, struct ptx_opnd a,
           struct ptx_opnd b)
{
    bool wide = uop_dtype_infos[dtype].size_bytes == 8;
    bool bits = op == UOP_AND || op == UOP_OR || op == UOP_XOR || op == UOP_SHL;
    const char *type = bits ? (wide ? "b64" : "b32") : int_type(dtype);
    struct ptx_opnd r;

    assert(int_name(op) && dtype != UOP_BOOL);
    if (wide && (op == UOP_SHL || op == UOP_SHR))
        b = b.is_imm ? ptx_imm(PTX_B32, b.bits)
                     : one(e, "cvt.u32.u64 %, %", PTX_B32, b);
    r = two(e, int_name(op), type, ptx_class_of(dtype), a, b);
    if (may_leave(op))
        ptx_wrap(e, dtype, r);
    return r;
}

/* A binary op on one lane; the caller has checked that PTX has it. */
static struct ptx_opnd
ptx_binary(struct ptx_emit *e, unsigned op, unsigned dtype, struct ptx_opnd a,
           struct ptx_opnd b)
{
    if (dtype == UOP_BOOL)
        return bool_binary(e, op, a, b);
    if (op == UOP_CMPLT || op == UOP_CMPEQ || op == UOP_CMPNE)
        return ptx_compare(e, op, dtype, a, b);
    if (uop_dtype_is_float(dtype))
        return float_binary(e, op, dtype, a, b);
    return int_binary(e, op, dtype, a, b);
}

static bool
has_ptx_binary(unsigned op, unsigned dtype)
{
    if (uop_dtype_is_small(dtype))
        return false;
    switch (op) {
    case UOP_CMPLT:
    case UOP_CMPEQ:
    case UOP_CMPNE:
    case UOP_ADD:
    case UOP_SUB:
    case UOP_MUL:
    case UOP_MAX:
    case UOP_MIN:
        return true;
    case UOP_FDIV:
        return uop_dtype_is_float(dtype);
    case UOP_AND:
    case UOP_OR:
    case UOP_XOR:
        return !uop_dtype_is_float(dtype);
    default:
        return int_name(op) && !uop_dtype_is_float(dtype) && dtype != UOP_BOOL;
    }
}

static struct ptx_opnd
mulacc(struct ptx_emit *e, unsigned dtype, const struct ptx_opnd *x)
{
    struct ptx_opnd r;

    assert(!uop_dtype_is_small(dtype));
    if (dtype == UOP_BOOL)
        return bool_binary(e, UOP_OR, bool_binary(e, UOP_AND, x[0], x[1]),
                           x[2]);
    r = ptx_reg(e, ptx_class_of(dtype));
    if (dtype == UOP_F32)
        PTX_OP(e, "fma.rn.f32 %, %, %, %", r, x[0], x[1], x[2]);
    else if (dtype == UOP_F64)
        PTX_OP(e, "fma.rn.f64 %, %, %, %", r, x[0], x[1], x[2]);
    else if (uop_dtype_infos[dtype].size_bytes == 8)
        PTX_OP(e, "mad.lo.s64 %, %, %, %", r, x[0], x[1], x[2]);
    else
        PTX_OP(e, "mad.lo.s32 %, %, %, %", r, x[0], x[1], x[2]);
    ptx_wrap(e, dtype, r);
    return r;
}

static struct ptx_opnd
negate(struct ptx_emit *e, unsigned dtype, struct ptx_opnd a)
{
    struct ptx_opnd r;

    assert(!uop_dtype_is_small(dtype));
    if (dtype == UOP_BOOL)
        return a;
    if (dtype == UOP_F32)
        return one(e, "neg.f32 %, %", PTX_F32, a);
    if (dtype == UOP_F64)
        return one(e, "neg.f64 %, %", PTX_F64, a);
    if (uop_dtype_infos[dtype].size_bytes == 8)
        return one(e, "neg.s64 %, %", PTX_B64, a);
    r = one(e, "neg.s32 %, %", PTX_B32, a);
    ptx_wrap(e, dtype, r);
    return r;
}

/* The instructions are good near 0 only: whole turns are taken off first. */
static struct ptx_opnd
ptx_approx_sin_or_cos(struct ptx_emit *e, unsigned op, struct ptx_opnd x)
{
    struct ptx_opnd turns = ptx_reg(e, PTX_F32), r = ptx_reg(e, PTX_F32);

    assert(op == UOP_SIN || op == UOP_COS);
    x = ptx_in_reg(e, x);
    PTX_OP(e, "mul.rn.f32 %, %, 0f3E22F983", turns, x); /* 1/(2 pi) */
    PTX_OP(e, "cvt.rni.f32.f32 %, %", turns, turns);
    PTX_OP(e, "fma.rn.f32 %, %, 0fC0C90FDB, %", r, turns, x);
    PTX_OP(e, "fma.rn.f32 %, %, 0f343BBD2E, %", r, turns, r);
    return one(e, op == UOP_SIN ? "sin.approx.f32 %, %" : "cos.approx.f32 %, %",
               PTX_F32, r);
}

/* Do subnormal numbers not count, or are there none? Then these are one
 * instruction. */
static bool
may_flush(const struct ptx_emit *e, const struct uop *u)
{
    assert(u->op == UOP_EXP2 || u->op == UOP_RECIP);
    if (u->op == UOP_EXP2)
        return e->prog->is_approx || uop_float_range(u->src[0]).min >= -126;
    return uop_has_normal_inverse(u->src[0]);
}

static struct ptx_opnd
approximate(struct ptx_emit *e, const struct uop *u, struct ptx_opnd x)
{
    switch (u->op) {
    case UOP_EXP2:
        return one(e,
                   may_flush(e, u) ? "ex2.approx.ftz.f32 %, %"
                                   : "ex2.approx.f32 %, %",
                   PTX_F32, x);
    case UOP_LOG2:
        return one(e, "lg2.approx.f32 %, %", PTX_F32, x);
    case UOP_RECIP:
        return one(e,
                   may_flush(e, u) ? "rcp.approx.ftz.f32 %, %"
                                   : "rcp.approx.f32 %, %",
                   PTX_F32, x);
    default:
        return ptx_approx_sin_or_cos(e, u->op, x);
    }
}

/* EXP2s and RECIPs of exact math are there only where they may be inexact. */
static bool
is_approximate(const struct ptx_emit *e, unsigned op, unsigned dtype)
{
    if (dtype != UOP_F32)
        return false;
    return op == UOP_EXP2 || op == UOP_RECIP ||
           ((e->target->approx || e->prog->is_approx) &&
            (op == UOP_LOG2 || op == UOP_SIN || op == UOP_COS));
}

static struct ptx_opnd
unary(struct ptx_emit *e, const struct uop *u, unsigned dtype,
      struct ptx_opnd a)
{
    unsigned op = u->op;
    bool wide = dtype == UOP_F64;
    enum ptx_class cls = ptx_class_of(dtype);

    if (op == UOP_NEG)
        return negate(e, dtype, a);
    if (is_approximate(e, op, dtype))
        return approximate(e, u, a);
    if (op == UOP_TRUNC)
        return one(e, wide ? "cvt.rzi.f64.f64 %, %" : "cvt.rzi.f32.f32 %, %",
                   cls, a);
    assert(op == UOP_SQRT);
    if (wide)
        return one(e, "sqrt.rn.f64 %, %", cls, a);
    return one(e,
               e->target->approx ? "sqrt.approx.f32 %, %" : "sqrt.rn.f32 %, %",
               cls, a);
}

static bool
has_ptx_op(const struct ptx_emit *e, const struct uop *u, unsigned dtype)
{
    if (u->op == UOP_WHERE || is_approximate(e, u->op, dtype))
        return true;
    if (uop_dtype_is_f8(dtype))
        return false;
    if (is_half(dtype))
        return ptx_has_half(e, u->op, dtype);
    switch (u->op) {
    case UOP_MULACC:
    case UOP_NEG:
        return true;
    case UOP_SQRT:
    case UOP_TRUNC:
        return uop_dtype_is_float(dtype);
    default:
        return u->n_src == 2 && has_ptx_binary(u->op, dtype);
    }
}

/* One lane of an ALU op, a CAST or a BITCAST. */
static struct ptx_opnd
emit_lane(struct ptx_emit *e, const struct uop *u, unsigned dtype,
          const struct ptx_opnd *x)
{
    switch (u->op) {
    case UOP_WHERE:
        return select_value(e, x[0], x[1], x[2], ptx_class_of(dtype));
    case UOP_MULACC:
        return mulacc(e, dtype, x);
    case UOP_NEG:
    case UOP_SQRT:
    case UOP_TRUNC:
    case UOP_EXP2:
    case UOP_LOG2:
    case UOP_RECIP:
    case UOP_SIN:
    case UOP_COS:
        return unary(e, u, dtype, x[0]);
    default:
        return ptx_binary(e, u->op, dtype, x[0], x[1]);
    }
}

/* ---- nodes ---- */

static bell_status
emit_ptx_alu(struct ptx_emit *e, const struct uop *u, const struct ptx_value *v,
             struct ptx_opnd *out)
{
    unsigned dtype = u->src[u->n_src > 1 ? 1 : 0]->dtype;
    struct ptx_opnd x[3];
    uint32_t lane, i;

    if (!has_ptx_op(e, u, dtype))
        return ptx_refuse(e, u, "it should have been decomposed");
    if (is_half(dtype) && u->op != UOP_WHERE) {
        ptx_emit_half(e, u, v, out);
        return BELL_OK;
    }
    for (lane = 0; lane < u->lanes; lane++) {
        for (i = 0; i < u->n_src; i++)
            x[i] = v[i].lanes[lane];
        out[lane] = emit_lane(e, u, dtype, x);
    }
    return BELL_OK;
}

static bell_status
emit_ptx_cast(struct ptx_emit *e, const struct uop *u,
              const struct ptx_value *v, struct ptx_opnd *out)
{
    unsigned from = u->src[0]->dtype, to = u->dtype;
    uint32_t lane;

    if (!ptx_can_cast(from, to))
        return ptx_refuse(e, u, "it should have been decomposed");
    if (ptx_is_packed(e, u)) {
        ptx_cast_pairs(e, to, v->lanes, u->lanes, out);
        return BELL_OK;
    }
    if (uop_dtype_is_f8(from) && !uop_dtype_is_f8(to)) {
        ptx_cast_f8(e, from, v->lanes, u->lanes, out);
        for (lane = 0; lane < u->lanes; lane++)
            out[lane] = ptx_cast(e, UOP_F16, to, out[lane]);
        return BELL_OK;
    }
    for (lane = 0; lane < u->lanes; lane++)
        out[lane] = ptx_cast(e, from, to, v->lanes[lane]);
    return BELL_OK;
}

static struct ptx_opnd
ptx_bitcast(struct ptx_emit *e, unsigned from, unsigned to, struct ptx_opnd a)
{
    enum ptx_class ca = ptx_class_of(from), cr = ptx_class_of(to);
    struct ptx_opnd r;

    /* a bool is a byte that is 0 or 1, and no number to a float */
    if (from == UOP_BOOL && to != UOP_BOOL && to != UOP_U8)
        return ptx_bitcast(e, UOP_U8, to, ptx_cast(e, from, UOP_U8, a));
    if (to == UOP_BOOL && from != UOP_BOOL && from != UOP_U8)
        return ptx_cast(e, UOP_U8, to, ptx_bitcast(e, from, UOP_U8, a));
    if (from == UOP_BOOL || to == UOP_BOOL)
        return ptx_cast(e, from, to, a);
    if (ca == PTX_B32 && cr == PTX_B16)
        return one(e, "cvt.u16.u32 %, %", PTX_B16, ptx_in_reg(e, a));
    if (ca == PTX_B16 && cr == PTX_B32)
        return one(e, to == UOP_I16 ? "cvt.s32.s16 %, %" : "cvt.u32.u16 %, %",
                   PTX_B32, ptx_in_reg(e, a));
    if (ca == cr && uop_dtype_infos[to].size_bytes < 4 && from != to &&
        ca == PTX_B32) {
        r = ptx_in_reg(e, a);
        a = ptx_reg(e, PTX_B32);
        ptx_mov(e, a, r);
        ptx_wrap(e, to, a);
        return a;
    }
    if (ca == cr || a.is_imm)
        return (struct ptx_opnd){.cls = (uint8_t)cr,
                                 .is_imm = a.is_imm,
                                 .reg = a.reg,
                                 .bits = a.bits};
    return one(e,
               uop_dtype_infos[to].size_bytes == 8 ? "mov.b64 %, %"
                                                   : "mov.b32 %, %",
               cr, a);
}

static bell_status
emit_ptx_bitcast(struct ptx_emit *e, const struct uop *u,
                 const struct ptx_value *v, struct ptx_opnd *out)
{
    unsigned from = u->src[0]->dtype, to = u->dtype;
    uint32_t lane;

    if (uop_dtype_infos[from].size_bytes != uop_dtype_infos[to].size_bytes)
        return ptx_refuse(e, u, "the sizes differ");
    for (lane = 0; lane < u->lanes; lane++)
        out[lane] = ptx_bitcast(e, from, to, v->lanes[lane]);
    return BELL_OK;
}

static bell_status
emit_ptx_lanes_reduce(struct ptx_emit *e, const struct uop *u,
                      const struct ptx_value *v, struct ptx_opnd *out)
{
    uint32_t lanes = u->src[0]->lanes, step, to, from;
    struct ptx_opnd *x = arena_alloc(&e->arena, lanes * sizeof(*x));
    unsigned op = (unsigned)u->arg.i & 0xff;

    assert(u->lanes == 1 && u->src[0]->dtype == u->dtype);
    if (!x)
        return ptx_no_memory(e);
    if (!has_ptx_binary(op, u->dtype))
        return ptx_refuse(e, u, "it does not reduce");
    memcpy(x, v->lanes, lanes * sizeof(*x));
    for (step = 0; step + 1 < lanes; step++) {
        render_join(lanes, step, &to, &from);
        x[to] = ptx_binary(e, op, u->dtype, x[to], x[from]);
    }
    out[0] = x[0];
    return BELL_OK;
}

/* LANES, whose sources may be many. */
static bell_status
emit_ptx_lanes(struct ptx_emit *e, const struct uop *u, struct ptx_opnd *out)
{
    struct ptx_value v;
    uint32_t i;

    if (u->n_src != u->lanes)
        return ptx_refuse(e, u, "sources and lanes differ in number");
    for (i = 0; i < u->n_src; i++) {
        BELL_TRY(ptx_value_of(e, u->src[i], &v));
        out[i] = v.lanes[0];
    }
    return BELL_OK;
}

static bell_status
emit_ptx_pick(struct ptx_emit *e, const struct uop *u,
              const struct ptx_value *v, struct ptx_opnd *out)
{
    uint32_t i;

    if (u->op == UOP_LANE && (uint64_t)u->arg.i >= u->src[0]->lanes)
        return ptx_refuse(e, u, "no such lane");
    for (i = 0; i < u->lanes; i++) {
        if (u->op == UOP_RAMP)
            out[i] = ptx_imm(ptx_class_of(u->dtype), i);
        else
            out[i] = v->lanes[u->op == UOP_LANE ? (uint32_t)u->arg.i : 0];
    }
    return BELL_OK;
}

/* All threads of the warp are there. */
static bell_status
emit_shuffle(struct ptx_emit *e, const struct uop *u, const struct ptx_value *v,
             struct ptx_opnd *out)
{
    char fmt[64];

    assert(uop_dtype_infos[u->dtype].size_bytes == 4 && u->lanes == 1);
    if (u->arg.i > 31)
        return ptx_refuse(e, u, "a warp has 32 threads");
    out[0] = ptx_reg(e, ptx_class_of(u->dtype));
    snprintf(fmt, sizeof(fmt), "shfl.sync.bfly.b32 %%, %%, %d, 31, -1",
             (int)u->arg.i);
    PTX_OP(e, fmt, out[0], ptx_in_reg(e, v->lanes[0]));
    return BELL_OK;
}

static bell_status
emit_by_op(struct ptx_emit *e, const struct uop *u, const struct ptx_value *v,
           struct ptx_opnd *out)
{
    switch (u->op) {
    case UOP_LANES:
        return emit_ptx_lanes(e, u, out);
    case UOP_BROADCAST:
    case UOP_RAMP:
    case UOP_LANE:
        return emit_ptx_pick(e, u, v, out);
    case UOP_LANES_REDUCE:
        return emit_ptx_lanes_reduce(e, u, v, out);
    case UOP_CAST:
        return emit_ptx_cast(e, u, v, out);
    case UOP_BITCAST:
        return emit_ptx_bitcast(e, u, v, out);
    case UOP_SHUFFLE:
        return emit_shuffle(e, u, v, out);
    case UOP_WMMA:
        return ptx_emit_wmma(e, u, v, out);
    case UOP_QUAD_TRANSPOSE:
        ptx_emit_quad_turn(e, u, v, out);
        return BELL_OK;
    default:
        if (!uop_has(u, UOP_FLAG_ALU))
            return ptx_refuse(e, u, "PTX has no such thing");
        return emit_ptx_alu(e, u, v, out);
    }
}

bell_status
ptx_emit_op(struct ptx_emit *e, const struct uop *u,
            struct ptx_value *out_value)
{
    struct ptx_opnd *out = arena_alloc(&e->arena, u->lanes * sizeof(*out));
    struct ptx_value v[4];
    uint32_t i;

    if (!out)
        return ptx_no_memory(e);
    if (u->op != UOP_LANES && u->n_src > ARRAY_LEN(v))
        return ptx_refuse(e, u, "too many sources");
    for (i = 0; i < u->n_src && u->op != UOP_LANES; i++)
        BELL_TRY(ptx_value_of(e, u->src[i], &v[i]));
    BELL_TRY(emit_by_op(e, u, v, out));
    *out_value = (struct ptx_value){.lanes = out};
    return BELL_OK;
}
