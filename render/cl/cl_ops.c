/* Arithmetic, conversions and lane operations.
 *
 * Integers wrap: they are added and multiplied as unsigned, for overflow of
 * signed ones may be taken not to happen. Those of 8 and 16 bits are worked
 * on in 32 and cut where they are stored.
 */
#include "render/cl/cl_internal.h"

#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/bits.h"
#include "render/render_internal.h"

/* The operators of C; NULL where it takes more. */
static const char *
operator_of(unsigned op)
{
    switch (op) {
    case UOP_ADD:
        return "+";
    case UOP_SUB:
        return "-";
    case UOP_MUL:
        return "*";
    case UOP_FDIV:
    case UOP_IDIV:
        return "/";
    case UOP_IMOD:
        return "%%";
    case UOP_AND:
        return "&";
    case UOP_OR:
        return "|";
    case UOP_XOR:
        return "^";
    case UOP_SHL:
        return "<<";
    case UOP_SHR:
        return ">>";
    case UOP_CMPLT:
        return "<";
    case UOP_CMPEQ:
        return "==";
    case UOP_CMPNE:
        return "!=";
    default:
        return NULL;
    }
}

static const char *
bool_form(unsigned op)
{
    switch (op) {
    case UOP_ADD:
    case UOP_MAX:
    case UOP_OR:
        return "% = % | %";
    case UOP_MUL:
    case UOP_MIN:
    case UOP_AND:
        return "% = % & %";
    case UOP_CMPEQ:
        return "% = % == %";
    case UOP_CMPLT:
        return "% = !% & %";
    default: /* SUB XOR CMPNE */
        return "% = % != %";
    }
}

/* The greater or lesser of two numbers: NaN if one is, and +0 is greater than
 * -0, which compare equal. */
static struct cl_opnd
cl_float_extreme(struct cl_emit *e, unsigned op, unsigned dtype,
                 struct cl_opnd a, struct cl_opnd b)
{
    struct cl_opnd r = cl_new(e, dtype, CL_VALUE);
    char fmt[96];

    assert(dtype == UOP_F32 || dtype == UOP_F64);
    snprintf(fmt, sizeof(fmt),
             "%% = %% == %% ? as_%s(as_%s(%%) %s as_%s(%%)) : %%",
             cl_type(dtype), dtype == UOP_F64 ? "long" : "int",
             op == UOP_MAX ? "&" : "|", dtype == UOP_F64 ? "long" : "int");
    CL_OP(e, fmt, r, a, b, a, b, b);
    CL_OP(e,
          op == UOP_MAX ? "% = % > % || % != % ? % : %"
                        : "% = % < % || % != % ? % : %",
          r, a, b, a, a, a, r);
    return r;
}

static bool
wraps(unsigned op)
{
    return op == UOP_ADD || op == UOP_SUB || op == UOP_MUL || op == UOP_SHL;
}

/* A binary op on one lane; the caller has checked that there is one. */
static struct cl_opnd
cl_binary(struct cl_emit *e, unsigned op, unsigned dtype, struct cl_opnd a,
          struct cl_opnd b)
{
    bool compares = op == UOP_CMPLT || op == UOP_CMPEQ || op == UOP_CMPNE;
    const char *wide =
        uop_dtype_infos[dtype].size_bytes == 8 ? "(ulong)" : "(uint)";
    struct cl_opnd r;
    char fmt[64];

    if (uop_dtype_is_float(dtype) && (op == UOP_MAX || op == UOP_MIN))
        return cl_float_extreme(e, op, dtype, a, b);
    r = cl_new(e, compares ? UOP_BOOL : dtype, CL_VALUE);
    if (dtype == UOP_BOOL)
        CL_OP(e, bool_form(op), r, a, b);
    else if (op == UOP_MAX || op == UOP_MIN)
        CL_OP(e, op == UOP_MAX ? "% = % < % ? % : %" : "% = % < % ? % : %", r,
              a, b, op == UOP_MAX ? b : a, op == UOP_MAX ? a : b);
    else if (uop_dtype_is_float(dtype) || compares || !wraps(op)) {
        snprintf(fmt, sizeof(fmt), "%% = %% %s %%", operator_of(op));
        CL_OP(e, fmt, r, a, b);
    } else {
        snprintf(fmt, sizeof(fmt), "%% = (%s)(%s%% %s %s%%)", cl_type(dtype),
                 wide, operator_of(op), wide);
        CL_OP(e, fmt, r, a, b);
    }
    return r;
}

static bool
has_cl_binary(unsigned op, unsigned dtype)
{
    if (uop_dtype_is_small(dtype))
        return false;
    switch (op) {
    case UOP_MAX:
    case UOP_MIN:
    case UOP_ADD:
    case UOP_SUB:
    case UOP_MUL:
    case UOP_CMPLT:
    case UOP_CMPEQ:
    case UOP_CMPNE:
        return true;
    case UOP_FDIV:
        return uop_dtype_is_float(dtype);
    case UOP_AND:
    case UOP_OR:
    case UOP_XOR:
        return !uop_dtype_is_float(dtype);
    default:
        return operator_of(op) && !uop_dtype_is_float(dtype) &&
               dtype != UOP_BOOL;
    }
}

static bool
has_cl_op(const struct uop *u, unsigned dtype)
{
    if (u->op == UOP_WHERE)
        return true;
    if (uop_dtype_is_small(dtype))
        return false;
    switch (u->op) {
    case UOP_MULACC:
    case UOP_NEG:
        return true;
    case UOP_SQRT:
    case UOP_TRUNC:
        return uop_dtype_is_float(dtype);
    default:
        return u->n_src == 2 && has_cl_binary(u->op, dtype);
    }
}

/* One lane of an ALU op that is not binary. */
static struct cl_opnd
other_op(struct cl_emit *e, const struct uop *u, unsigned dtype,
         const struct cl_opnd *x)
{
    bool wide = uop_dtype_infos[dtype].size_bytes == 8;
    struct cl_opnd r = cl_new(e, dtype, CL_VALUE);
    const char *form;

    assert(u->n_src == 1 || u->n_src == 3);
    switch (u->op) {
    case UOP_WHERE:
        form = "% = % ? % : %";
        break;
    case UOP_SQRT:
        form = "% = sqrt(%)";
        break;
    case UOP_TRUNC:
        form = "% = trunc(%)";
        break;
    case UOP_NEG:
        form = dtype == UOP_BOOL           ? "% = %"
               : uop_dtype_is_float(dtype) ? "% = -%"
               : wide                      ? "% = 0UL - (ulong)%"
                                           : "% = 0u - (uint)%";
        break;
    default: /* MULACC */
        form = dtype == UOP_BOOL           ? "% = (% & %) | %"
               : uop_dtype_is_float(dtype) ? "% = fma(%, %, %)"
               : wide ? "% = (ulong)% * (ulong)% + (ulong)%"
                      : "% = (uint)% * (uint)% + (uint)%";
    }
    CL_OP(e, form, r, x[0], x[1], x[2]);
    return r;
}

static bell_status
emit_cl_alu(struct cl_emit *e, const struct uop *u, const struct cl_value *v,
            struct cl_opnd *out)
{
    unsigned dtype = u->src[u->n_src > 1 ? 1 : 0]->dtype;
    struct cl_opnd x[3] = {{0}};
    uint32_t lane, i;

    if (!has_cl_op(u, dtype))
        return cl_refuse(e, u, "it should have been decomposed");
    for (lane = 0; lane < u->lanes; lane++) {
        for (i = 0; i < u->n_src; i++)
            x[i] = v[i].lanes[lane];
        out[lane] = u->n_src == 2 ? cl_binary(e, u->op, dtype, x[0], x[1])
                                  : other_op(e, u, dtype, x);
    }
    return BELL_OK;
}

/* ---- conversions ---- */

/* A float dtype's power of two, exactly. */
static struct cl_opnd
power(unsigned dtype, int exponent, bool is_negative)
{
    union uop_arg arg = {.f = ldexp(is_negative ? -1 : 1, exponent)};

    return cl_const(dtype, arg);
}

/* Truncates and saturates; NaN gives 0. */
static struct cl_opnd
cl_float_to_int(struct cl_emit *e, unsigned from, unsigned to, struct cl_opnd a)
{
    int bits = 8 * uop_dtype_infos[to].size_bytes;
    bool is_signed = uop_dtype_infos[to].is_signed;
    uint64_t max = UINT64_MAX >> (64 - bits + is_signed);
    uint64_t min = is_signed ? ~max : 0;
    struct cl_opnd r = cl_new(e, to, CL_VALUE);
    char fmt[64];

    assert(!uop_dtype_is_float(to) && to != UOP_BOOL);
    snprintf(fmt, sizeof(fmt), "%% = %% < %% ? (%s)%% : %%", cl_type(to));
    CL_OP(e, fmt, r, a, power(from, bits - is_signed, false), a,
          cl_imm(to, max));
    CL_OP(e, "% = % < % ? % : %", r, a,
          is_signed ? power(from, bits - 1, true) : cl_imm(from, 0),
          cl_imm(to, min), r);
    CL_OP(e, "% = % != % ? % : %", r, a, a, cl_imm(to, 0), r);
    return r;
}

/* From and to F16 by way of `via`, which holds it exactly. */
static struct cl_opnd
cast(struct cl_emit *e, unsigned from, unsigned to, struct cl_opnd a)
{
    struct cl_opnd r;
    char fmt[32];

    if (from == to)
        return a;
    if (from == UOP_F16) {
        r = cl_new(e, UOP_F32, CL_VALUE);
        e->loads_halves = true;
        CL_OP(e, "% = from_half(%)", r, a);
        return cast(e, UOP_F32, to, r);
    }
    if (to == UOP_F16 && from != UOP_F32 && from != UOP_F64) {
        a = cast(e, from, UOP_F32, a);
        from = UOP_F32;
    }
    if (uop_dtype_is_float(from) && to != UOP_BOOL && !uop_dtype_is_float(to))
        return cl_float_to_int(e, from, to, a);
    r = cl_new(e, to, CL_VALUE);
    if (to == UOP_F16 && from == UOP_F64) {
        e->stores_doubles = true;
        CL_OP(e, "% = to_half_from_double(%)", r, a);
    } else if (to == UOP_F16) {
        e->stores_halves = true;
        CL_OP(e, "% = to_half(%)", r, a);
    } else if (to == UOP_BOOL) {
        CL_OP(e, "% = % != 0", r, a);
    } else {
        snprintf(fmt, sizeof(fmt), "%% = (%s)%%", cl_type(to));
        CL_OP(e, fmt, r, a);
    }
    return r;
}

static bool
can_cast(unsigned dtype)
{
    return dtype == UOP_F16 || !uop_dtype_is_small(dtype);
}

static struct cl_opnd
cl_bitcast(struct cl_emit *e, unsigned from, unsigned to, struct cl_opnd a)
{
    struct cl_opnd r;
    char fmt[32];

    if (from == to)
        return a;
    r = cl_new(e, to, CL_VALUE);
    if (from == UOP_BOOL || to == UOP_BOOL) {
        CL_OP(e, to == UOP_BOOL ? "% = % != 0" : "% = %", r, a);
        return r;
    }
    snprintf(fmt, sizeof(fmt), "%% = as_%s(%%)", cl_type(to));
    CL_OP(e, fmt, r, a);
    return r;
}

static bell_status
emit_cl_cast(struct cl_emit *e, const struct uop *u, const struct cl_value *v,
             struct cl_opnd *out)
{
    unsigned from = u->src[0]->dtype, to = u->dtype;
    uint32_t lane;

    if (u->op == UOP_CAST && (!can_cast(from) || !can_cast(to)) && from != to)
        return cl_refuse(e, u, "it should have been decomposed");
    if (u->op == UOP_BITCAST &&
        uop_dtype_infos[from].size_bytes != uop_dtype_infos[to].size_bytes)
        return cl_refuse(e, u, "the sizes differ");
    for (lane = 0; lane < u->lanes; lane++)
        out[lane] = (u->op == UOP_CAST ? cast : cl_bitcast)(e, from, to,
                                                            v->lanes[lane]);
    return BELL_OK;
}

/* ---- lanes ---- */

static bell_status
emit_cl_lanes_reduce(struct cl_emit *e, const struct uop *u,
                     const struct cl_value *v, struct cl_opnd *out)
{
    uint32_t lanes = u->src[0]->lanes, step, to, from;
    struct cl_opnd *x = arena_alloc(&e->arena, lanes * sizeof(*x));
    unsigned op = (unsigned)u->arg.i & 0xff;

    if (!x)
        return cl_no_memory(e);
    if (!has_cl_binary(op, u->dtype))
        return cl_refuse(e, u, "it does not reduce");
    memcpy(x, v->lanes, lanes * sizeof(*x));
    for (step = 0; step + 1 < lanes; step++) {
        render_join(lanes, step, &to, &from);
        x[to] = cl_binary(e, op, u->dtype, x[to], x[from]);
    }
    out[0] = x[0];
    return BELL_OK;
}

/* LANES, whose sources may be many. */
static bell_status
emit_cl_lanes(struct cl_emit *e, const struct uop *u, struct cl_opnd *out)
{
    struct cl_value v;
    uint32_t i;

    if (u->n_src != u->lanes)
        return cl_refuse(e, u, "sources and lanes differ in number");
    for (i = 0; i < u->n_src; i++) {
        BELL_TRY(cl_value_of(e, u->src[i], &v));
        out[i] = v.lanes[0];
    }
    return BELL_OK;
}

static bell_status
emit_cl_pick(struct cl_emit *e, const struct uop *u, const struct cl_value *v,
             struct cl_opnd *out)
{
    uint32_t i;

    if (u->op == UOP_LANE && (uint64_t)u->arg.i >= u->src[0]->lanes)
        return cl_refuse(e, u, "no such lane");
    for (i = 0; i < u->lanes; i++) {
        if (u->op == UOP_RAMP)
            out[i] = cl_imm(u->dtype, i);
        else
            out[i] = v->lanes[u->op == UOP_LANE ? (uint32_t)u->arg.i : 0];
    }
    return BELL_OK;
}

bell_status
cl_emit_op(struct cl_emit *e, const struct uop *u, struct cl_value *out_value)
{
    struct cl_opnd *out = arena_alloc(&e->arena, u->lanes * sizeof(*out));
    struct cl_value v[3];
    uint32_t i;

    if (!out)
        return cl_no_memory(e);
    if (u->op != UOP_LANES && u->n_src > ARRAY_LEN(v))
        return cl_refuse(e, u, "too many sources");
    for (i = 0; i < u->n_src && u->op != UOP_LANES; i++)
        BELL_TRY(cl_value_of(e, u->src[i], &v[i]));
    *out_value = (struct cl_value){.lanes = out};
    switch (u->op) {
    case UOP_LANES:
        return emit_cl_lanes(e, u, out);
    case UOP_BROADCAST:
    case UOP_RAMP:
    case UOP_LANE:
        return emit_cl_pick(e, u, v, out);
    case UOP_LANES_REDUCE:
        return emit_cl_lanes_reduce(e, u, v, out);
    case UOP_CAST:
    case UOP_BITCAST:
        return emit_cl_cast(e, u, v, out);
    default:
        if (!uop_has(u, UOP_FLAG_ALU))
            return cl_refuse(e, u, "OpenCL C has no such thing");
        return emit_cl_alu(e, u, v, out);
    }
}
