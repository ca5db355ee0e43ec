/* Conversions of one lane. Floats to integers saturate, NaN gives 0. */
#include "render/ir3/ir3_emit.h"

#include <assert.h>

static struct ir3_lane
extend(struct ir3_emit *e, bool is_signed, struct ir3_opnd a)
{
    struct ir3_lane r = {a, ir3_imm(0)};

    if (is_signed)
        r.hi = a.kind == IR3_IMM ? ir3_imm((int32_t)a.v < 0 ? UINT32_MAX : 0)
                                 : ir3_op2(e, IR3_ASHR_B, a, ir3_imm(31));
    return r;
}

/* Converts 64 bits, rounded once: the upper 32 digits behind the first one, the
 * last of them set where more follow. */
static struct ir3_opnd
float_of_64(struct ir3_emit *e, bool is_signed, struct ir3_lane a)
{
    struct ir3_opnd sign = ir3_imm(0), f, zeros, hi_zeros, lo_zeros, sticky, k;
    struct ir3_lane minus;

    if (is_signed) {
        sign = ir3_compare(e, IR3_CMPS_S, IR3_LT, a.hi, ir3_imm(0));
        minus = ir3_sub64(e, (struct ir3_lane){ir3_imm(0), ir3_imm(0)}, a);
        a.lo = ir3_select(e, sign, minus.lo, a.lo);
        a.hi = ir3_select(e, sign, minus.hi, a.hi);
    }
    /* clz.b of 0 is -1: of the other half more zeros are counted then */
    hi_zeros = ir3_op1(e, IR3_CLZ_B, a.hi);
    lo_zeros = ir3_op2(e, IR3_ADD_U, ir3_op1(e, IR3_CLZ_B, a.lo), ir3_imm(32));
    lo_zeros =
        ir3_select(e, ir3_compare(e, IR3_CMPS_U, IR3_EQ, a.lo, ir3_imm(0)),
                   ir3_imm(63), lo_zeros);
    zeros = ir3_select(e, ir3_compare(e, IR3_CMPS_U, IR3_EQ, a.hi, ir3_imm(0)),
                       lo_zeros, hi_zeros);
    a = ir3_shift64(e, UOP_SHL, false, a, zeros);
    sticky = ir3_compare(e, IR3_CMPS_U, IR3_NE, a.lo, ir3_imm(0));
    f = ir3_convert(e, IR3_TYPE_U32, IR3_TYPE_F32,
                    ir3_op2(e, IR3_OR_B, a.hi, sticky));
    k = ir3_op2(e, IR3_SUB_U, ir3_imm(127 + 32), zeros);
    f = ir3_op2(e, IR3_MUL_F, f, ir3_op2(e, IR3_SHL_B, k, ir3_imm(23)));
    if (!is_signed)
        return f;
    return ir3_op2(e, IR3_OR_B, f, ir3_op2(e, IR3_SHL_B, sign, ir3_imm(31)));
}

/* The float32 nearest to a float64, from its bits. */
static struct ir3_opnd
float_of_f64(struct ir3_emit *e, struct ir3_lane a)
{
    struct ir3_opnd sign, size, rest, field, m, r, is_nan;

    assert(a.lo.kind != IR3_NONE && a.hi.kind != IR3_NONE);
    sign = ir3_op2(e, IR3_AND_B, a.hi, ir3_imm(0x80000000));
    size = ir3_op2(e, IR3_AND_B, a.hi, ir3_imm(0x7fffffff));
    field = ir3_op2(e, IR3_SUB_U, ir3_op2(e, IR3_SHR_B, size, ir3_imm(20)),
                    ir3_imm(896)); /* 1023 - 127 */
    m = ir3_op2(e, IR3_AND_B, a.hi, ir3_imm(0xfffff));
    m = ir3_op2(e, IR3_SHL_B, ir3_op2(e, IR3_OR_B, m, ir3_imm(0x100000)),
                ir3_imm(5));
    m = ir3_op2(e, IR3_OR_B, m, ir3_op2(e, IR3_SHR_B, a.lo, ir3_imm(27)));
    rest = ir3_op2(e, IR3_AND_B, a.lo, ir3_imm(0x7ffffff));
    rest = ir3_compare(e, IR3_CMPS_U, IR3_NE, rest, ir3_imm(0));
    r = ir3_round_float(e, ir3_op2(e, IR3_OR_B, m, rest), field);
    /* a NaN's digits may all be in the lower half */
    rest = ir3_compare(e, IR3_CMPS_U, IR3_NE, a.lo, ir3_imm(0));
    is_nan = ir3_compare(e, IR3_CMPS_U, IR3_GT,
                         ir3_op2(e, IR3_OR_B, size, rest), ir3_imm(0x7ff00000));
    r = ir3_select(e, is_nan, ir3_imm(0x7fc00000), r);
    return ir3_op2(e, IR3_OR_B, r, sign);
}

static struct ir3_opnd
to_float(struct ir3_emit *e, unsigned from, struct ir3_lane a)
{
    bool is_signed = uop_dtype_infos[from].is_signed;

    assert(from == UOP_F64 || !uop_dtype_infos[from].is_float);
    if (from == UOP_F64)
        return float_of_f64(e, a);
    if (ir3_is_64(from))
        return float_of_64(e, is_signed, a);
    return ir3_convert(e, is_signed ? IR3_TYPE_S32 : IR3_TYPE_U32, IR3_TYPE_F32,
                       a.lo);
}

/* 0 instead of NaN. */
static struct ir3_opnd
number(struct ir3_emit *e, struct ir3_opnd a)
{
    struct ir3_opnd is_nan = ir3_compare(e, IR3_CMPS_F, IR3_NE, a, a);

    return ir3_select(e, is_nan, ir3_imm(0), a);
}

/* To 32 bits, between bounds that are integers. */
static struct ir3_opnd
int_of_float(struct ir3_emit *e, unsigned to, struct ir3_opnd a)
{
    struct uop_bounds b = uop_dtype_bounds((enum uop_dtype)to);
    bool is_signed = uop_dtype_infos[to].is_signed;
    uint32_t min = (uint32_t)uop_float_bits(UOP_F32, (double)b.min);
    double top = (double)b.max + 1; /* a power of two */
    uint32_t above = (uint32_t)uop_float_bits(UOP_F32, top);
    struct ir3_opnd r, is_high;

    assert(!uop_dtype_infos[to].is_float && !ir3_is_64(to));
    a = number(e, ir3_in_reg(e, a));
    a = ir3_op2(e, IR3_MAX_F, a, ir3_imm(min));
    is_high = ir3_compare(e, IR3_CMPS_F, IR3_GE, a, ir3_imm(above));
    r = ir3_convert(e, IR3_TYPE_F32, is_signed ? IR3_TYPE_S32 : IR3_TYPE_U32,
                    ir3_select(e, is_high, ir3_imm(0), a));
    return ir3_select(e, is_high, ir3_imm((uint32_t)b.max), r);
}

/* To 64 bits: the upper 32 of the size, then what is left of it; both are
 * exact. */
static struct ir3_lane
int64_of_float(struct ir3_emit *e, bool is_signed, struct ir3_opnd a)
{
    struct ir3_opnd size, up, is_high, is_neg;
    struct ir3_lane r, minus;
    double top = is_signed ? 0x1p63 : 0x1p64;

    a = number(e, ir3_in_reg(e, a));
    is_neg = ir3_compare(e, IR3_CMPS_F, IR3_LT, a, ir3_imm(0));
    size = a;
    size.abs = true;
    size = ir3_op1(e, IR3_ABSNEG_F, size);
    if (!is_signed)
        size = ir3_select(e, is_neg, ir3_imm(0), size);
    is_high = ir3_compare(e, IR3_CMPS_F, IR3_GE, size,
                          ir3_imm((uint32_t)uop_float_bits(UOP_F32, top)));
    size = ir3_select(e, is_high, ir3_imm(0), size);
    up = ir3_op1(e, IR3_TRUNC_F,
                 ir3_op2(e, IR3_MUL_F, size, ir3_imm(0x2f800000))); /* 2^-32 */
    r.hi = ir3_convert(e, IR3_TYPE_F32, IR3_TYPE_U32, up);
    up = ir3_op2(e, IR3_MUL_F, up, ir3_imm(0x4f800000)); /* 2^32 */
    up.neg = true;
    r.lo = ir3_convert(e, IR3_TYPE_F32, IR3_TYPE_U32,
                       ir3_op2(e, IR3_ADD_F, size, up));
    if (!is_signed) {
        r.lo = ir3_select(e, is_high, ir3_imm(UINT32_MAX), r.lo);
        r.hi = ir3_select(e, is_high, ir3_imm(UINT32_MAX), r.hi);
        return r;
    }
    minus = ir3_sub64(e, (struct ir3_lane){ir3_imm(0), ir3_imm(0)}, r);
    r.lo = ir3_select(e, is_neg, minus.lo, r.lo);
    r.hi = ir3_select(e, is_neg, minus.hi, r.hi);
    /* the least, and the one before its opposite */
    r.lo = ir3_select(e, is_high,
                      ir3_select(e, is_neg, ir3_imm(0), ir3_imm(UINT32_MAX)),
                      r.lo);
    r.hi = ir3_select(
        e, is_high,
        ir3_select(e, is_neg, ir3_imm(0x80000000), ir3_imm(0x7fffffff)), r.hi);
    return r;
}

static struct ir3_opnd
to_bool(struct ir3_emit *e, unsigned from, struct ir3_lane a)
{
    struct ir3_opnd bits = a.lo;

    if (uop_dtype_infos[from].is_float) /* whatever its sign */
        bits = ir3_op2(e, IR3_SHL_B, bits, ir3_imm(1));
    if (ir3_is_64(from))
        bits = ir3_op2(e, IR3_OR_B, a.lo, a.hi);
    return ir3_compare(e, IR3_CMPS_U, IR3_NE, bits, ir3_imm(0));
}

struct ir3_lane
ir3_cast(struct ir3_emit *e, unsigned from, unsigned to, struct ir3_lane a)
{
    bool from_float = uop_dtype_infos[from].is_float;
    bool to_float32 = to == UOP_F32;

    if (from == to)
        return a;
    if (to == UOP_BOOL)
        return (struct ir3_lane){to_bool(e, from, a), ir3_imm(0)};
    if (to_float32)
        return (struct ir3_lane){to_float(e, from, a), ir3_imm(0)};
    assert(from_float ? from == UOP_F32 : !uop_dtype_infos[to].is_float);
    if (from_float && ir3_is_64(to))
        return int64_of_float(e, to == UOP_I64, a.lo);
    if (from_float)
        return (struct ir3_lane){int_of_float(e, to, a.lo), ir3_imm(0)};
    if (ir3_is_64(to))
        return ir3_is_64(from)
                   ? a
                   : extend(e, uop_dtype_infos[from].is_signed, a.lo);
    return (struct ir3_lane){ir3_wrap(e, to, a.lo), ir3_imm(0)};
}
