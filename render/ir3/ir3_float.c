/* Arithmetic of one lane of float32.
 *
 * The chips add, multiply and compare float32 and round to nearest, but take
 * subnormal operands for 0 and give 0 for subnormal results, of their sign; so
 * do conversions and the SFU. Moves, selections and integer instructions keep
 * all bits. Sums, differences and products are what the chips give. Everything
 * else is exact: comparisons, extremes, quotients and roots of subnormal
 * numbers go by integers.
 *
 * src: Mesa 25.0, freedreno/vulkan/tu_device.cc,
 * tu_get_physical_device_properties_1_2: shaderDenormFlushToZeroFloat32 and
 * Float16 are true, shaderDenormPreserve... false, for every chip; Vulkan 1.2,
 * VK_KHR_shader_float_controls, issue 1: which instructions that covers
 *
 * Quotients and roots come from approximate ones, whose error is computed
 * exactly (the products by halves of their digits: T. J. Dekker, "A
 * Floating-Point Technique for Extending the Available Precision", 1971) and
 * which are one unit off at most then: the nearest of the neighbours is the
 * result.
 */
#include "render/ir3/ir3_emit.h"

#include <assert.h>

#define SIGN     0x80000000u
#define INF      0x7f800000u
#define FRACTION 0x007fffffu
#define ONE      0x3f800000u

static struct ir3_opnd
neg(struct ir3_opnd a)
{
    a.neg = !a.neg;
    return a;
}

/* a * b as the sum of two floats, exactly, where both are between 2^-60 and
 * 2^60: the rounded product and its error. */
static struct ir3_opnd
product_error(struct ir3_emit *e, struct ir3_opnd a, struct ir3_opnd b,
              struct ir3_opnd product)
{
    struct ir3_opnd x[2] = {a, b}, hi[2], lo[2], t;
    int i;

    for (i = 0; i < 2; i++) {
        t = ir3_op2(e, IR3_MUL_F, x[i], ir3_imm(0x45800800)); /* 2^12 + 1 */
        hi[i] =
            ir3_op2(e, IR3_ADD_F, t, neg(ir3_op2(e, IR3_ADD_F, t, neg(x[i]))));
        lo[i] = ir3_op2(e, IR3_ADD_F, x[i], neg(hi[i]));
    }
    t = ir3_op2(e, IR3_ADD_F, ir3_op2(e, IR3_MUL_F, hi[0], hi[1]),
                neg(product));
    t = ir3_op2(e, IR3_ADD_F, t, ir3_op2(e, IR3_MUL_F, hi[0], lo[1]));
    t = ir3_op2(e, IR3_ADD_F, t, ir3_op2(e, IR3_MUL_F, lo[0], hi[1]));
    return ir3_op2(e, IR3_ADD_F, t, ir3_op2(e, IR3_MUL_F, lo[0], lo[1]));
}

/* c - a * b, exactly where it is a float: c and a * b are close. */
static struct ir3_opnd
rest(struct ir3_emit *e, struct ir3_opnd c, struct ir3_opnd a,
     struct ir3_opnd b)
{
    struct ir3_opnd p = ir3_op2(e, IR3_MUL_F, a, b);
    struct ir3_opnd error = product_error(e, a, b, p);

    return ir3_op2(e, IR3_ADD_F, ir3_op2(e, IR3_ADD_F, c, neg(p)), neg(error));
}

/* Exponent field of a float, and the float with another one; 127 is 1. */
static struct ir3_opnd
exponent(struct ir3_emit *e, struct ir3_opnd a)
{
    struct ir3_opnd t;

    if (a.kind == IR3_IMM)
        return ir3_imm(a.v << 1 >> 24);
    t = ir3_op2(e, IR3_SHL_B, a, ir3_imm(1));
    return ir3_op2(e, IR3_SHR_B, t, ir3_imm(24));
}

static struct ir3_opnd
with_exponent(struct ir3_emit *e, struct ir3_opnd a, struct ir3_opnd field)
{
    struct ir3_opnd rest_bits;

    assert(field.kind != IR3_IMM || field.v < 256);
    if (a.kind == IR3_IMM && field.kind == IR3_IMM)
        return ir3_imm((a.v & ~INF) | field.v << 23);
    rest_bits = ir3_op2(e, IR3_AND_B, a, ir3_imm(~INF));
    return ir3_op2(e, IR3_OR_B, rest_bits,
                   ir3_op2(e, IR3_SHL_B, field, ir3_imm(23)));
}

/* The float's neighbour away from 0 or towards it, where `by` is 1 or -1 ;
 * itself where it is 0. */
static struct ir3_opnd
step_float(struct ir3_emit *e, struct ir3_opnd a, struct ir3_opnd by)
{
    return ir3_op2(e, IR3_ADD_U, a, by);
}

/* ---- subnormal operands ---- */

/* A constant that is neither subnormal nor zero nor NaN. */
static bool
is_normal_const(struct ir3_opnd a)
{
    uint32_t size = a.v & ~SIGN;

    return a.kind == IR3_IMM && size > FRACTION && size <= INF;
}

static bool
is_zero_const(struct ir3_opnd a)
{
    return a.kind == IR3_IMM && (a.v & ~SIGN) == 0;
}

/* The size of a float as a normal number times a power of two: |a| is
 * `size` * 2^(field - its own exponent field). Zeros, infinities and NaNs keep
 * their values. */
struct parts {
    struct ir3_opnd size, field;
    struct ir3_opnd is_odd; /* 1: a zero, an infinity or a NaN */
};

/* The digits of a subnormal number, as an integer, become a float exactly; its
 * unit is 2^-149. */
static struct parts
split(struct ir3_emit *e, struct ir3_opnd a)
{
    struct ir3_opnd low, small, twice;
    struct parts p;

    p.field = exponent(e, a);
    if (is_normal_const(a)) {
        p.size = ir3_imm(a.v & ~SIGN);
        p.is_odd = ir3_imm((a.v & ~SIGN) == INF);
        return p;
    }
    a = ir3_in_reg(e, a);
    p.size = ir3_op2(e, IR3_AND_B, a, ir3_imm(~SIGN));
    twice = ir3_op2(e, IR3_SHL_B, a, ir3_imm(1));
    p.is_odd = ir3_compare(e, IR3_CMPS_U, IR3_GE,
                           ir3_op2(e, IR3_SUB_U, twice, ir3_imm(1)),
                           ir3_imm(2 * INF - 1));
    small = ir3_compare(e, IR3_CMPS_U, IR3_EQ, p.field, ir3_imm(0));
    low = ir3_convert(e, IR3_TYPE_U32, IR3_TYPE_F32, p.size);
    p.size = ir3_select(e, small, low, p.size);
    low = ir3_op2(e, IR3_SHR_B, low, ir3_imm(23));
    p.field =
        ir3_select(e, small, ir3_op2(e, IR3_SUB_U, low, ir3_imm(149)), p.field);
    return p;
}

struct ir3_opnd
ir3_round_float(struct ir3_emit *e, struct ir3_opnd m, struct ir3_opnd field)
{
    struct ir3_opnd by, half, odd, r;

    by = ir3_op2(e, IR3_SUB_U, ir3_imm(3), field);
    by = ir3_op2(e, IR3_MIN_S, ir3_op2(e, IR3_MAX_S, by, ir3_imm(2)),
                 ir3_imm(27));
    /* half of the last place kept, or just below where that one is even */
    half = ir3_op2(e, IR3_SHL_B, ir3_in_reg(e, ir3_imm(1)),
                   ir3_op2(e, IR3_SUB_U, by, ir3_imm(1)));
    odd = ir3_op2(e, IR3_AND_B, ir3_op2(e, IR3_SHR_B, m, by), ir3_imm(1));
    r = ir3_op2(e, IR3_ADD_U, m, ir3_op2(e, IR3_SUB_U, half, ir3_imm(1)));
    r = ir3_op2(e, IR3_SHR_B, ir3_op2(e, IR3_ADD_U, r, odd), by);
    /* the first digit of a normal number is one more in its exponent */
    half = ir3_op2(e, IR3_MAX_S, field, ir3_imm(1));
    half = ir3_op2(e, IR3_SHL_B, ir3_op2(e, IR3_SUB_U, half, ir3_imm(1)),
                   ir3_imm(23));
    r = ir3_op2(e, IR3_ADD_U, r, half);
    return ir3_select(e,
                      ir3_compare(e, IR3_CMPS_S, IR3_GE, field, ir3_imm(255)),
                      ir3_imm(INF), r);
}

/* ---- quotients and roots ---- */

static struct ir3_opnd
divide_floats(struct ir3_emit *e, struct ir3_opnd a, struct ir3_opnd b)
{
    struct parts n = split(e, a), d = split(e, b);
    struct ir3_opnd x, y, recip, q, r, simple, ulp, up, down, size, sign, m, k;
    struct ir3_opnd zero = ir3_imm(0);

    /* both in [1, 2) */
    x = ir3_in_reg(e, with_exponent(e, n.size, ir3_imm(127)));
    y = ir3_in_reg(e, with_exponent(e, d.size, ir3_imm(127)));
    recip = ir3_op1(e, IR3_RCP, y);
    q = ir3_op2(e, IR3_MUL_F, x, recip);
    r = rest(e, x, q, y);
    q = ir3_op2(e, IR3_ADD_F, q, ir3_op2(e, IR3_MUL_F, r, recip));
    /* at most one unit off: is the rest more than half a unit's? */
    r = rest(e, x, q, y);
    ulp = with_exponent(e, ir3_imm(0),
                        ir3_op2(e, IR3_SUB_U, exponent(e, q), ir3_imm(24)));
    size = ir3_op2(e, IR3_MUL_F, ulp, y); /* half a unit, as a rest */
    up = ir3_compare(e, IR3_CMPS_F, IR3_GT, r, size);
    down = ir3_compare(e, IR3_CMPS_F, IR3_LT, r, neg(size));
    q = step_float(e, q, ir3_op2(e, IR3_SUB_U, up, down));
    /* the rest of that */
    size = ir3_op2(e, IR3_ADD_F, size, size);
    r = ir3_select(e, up, ir3_op2(e, IR3_ADD_F, r, neg(size)), r);
    r = ir3_select(e, down, ir3_op2(e, IR3_ADD_F, r, size), r);
    m = ir3_op2(e, IR3_AND_B, q, ir3_imm(FRACTION));
    m = ir3_op2(e, IR3_OR_B, m, ir3_imm(FRACTION + 1));
    m = ir3_op2(e, IR3_SHL_B, m, ir3_imm(2));
    m = ir3_op2(e, IR3_ADD_U, m, ir3_compare(e, IR3_CMPS_F, IR3_GT, r, zero));
    m = ir3_op2(e, IR3_SUB_U, m, ir3_compare(e, IR3_CMPS_F, IR3_LT, r, zero));
    k = ir3_op2(e, IR3_SUB_U, n.field, d.field);
    q = ir3_round_float(e, m, ir3_op2(e, IR3_ADD_U, exponent(e, q), k));
    /* one is a zero, an infinity or a NaN; the inverse of the other one, if it
     * is normal, may be subnormal and is of no matter */
    y = ir3_select(e, d.is_odd, d.size, ir3_imm(ONE));
    simple = ir3_op2(e, IR3_MUL_F, n.size, ir3_op1(e, IR3_RCP, y));
    q = ir3_select(e, ir3_op2(e, IR3_OR_B, n.is_odd, d.is_odd), simple, q);
    sign = ir3_op2(e, IR3_XOR_B, ir3_in_reg(e, a), b);
    return ir3_op2(e, IR3_OR_B, q, ir3_op2(e, IR3_AND_B, sign, ir3_imm(SIGN)));
}

static struct ir3_opnd
root(struct ir3_emit *e, struct ir3_opnd a)
{
    struct ir3_opnd odd, even, x, s, r, inverse, unit, size, up, down, k, sign;
    struct parts p;

    a = ir3_in_reg(e, a);
    p = split(e, a);
    odd = ir3_op2(e, IR3_OR_B, p.is_odd, ir3_op2(e, IR3_SHR_B, a, ir3_imm(31)));
    /* x in [1, 4), times a power of 4 */
    even = ir3_op2(e, IR3_AND_B, p.field, ir3_imm(1)); /* 127 is odd */
    even = ir3_op2(e, IR3_XOR_B, even, ir3_imm(1));
    x = with_exponent(e, p.size, ir3_op2(e, IR3_ADD_U, even, ir3_imm(127)));
    k = ir3_op2(e, IR3_SUB_U, p.field,
                ir3_op2(e, IR3_ADD_U, even, ir3_imm(127)));
    k = ir3_op2(e, IR3_ASHR_B, k, ir3_imm(1));
    s = ir3_op1(e, IR3_SQRT, x);
    r = rest(e, x, s, s);
    inverse = ir3_op1(e, IR3_RCP, ir3_op2(e, IR3_ADD_F, s, s));
    s = ir3_op2(e, IR3_ADD_F, s, ir3_op2(e, IR3_MUL_F, r, inverse));
    /* x is below 4, so its root is at most the float before 2: below 2 units
     * are half as large, so that one too many there would not be seen */
    s = ir3_op2(e, IR3_MIN_F, s, ir3_imm(0x3fffffff));
    /* (s + half a unit)^2 = s^2 + s units and a quarter of one's square, of
     * which the rest is a multiple */
    r = rest(e, x, s, s);
    unit = with_exponent(e, ir3_imm(0),
                         ir3_op2(e, IR3_SUB_U, exponent(e, s), ir3_imm(23)));
    size = ir3_op2(e, IR3_MUL_F, s, unit);
    up = ir3_compare(e, IR3_CMPS_F, IR3_GT, r, size);
    down = ir3_compare(e, IR3_CMPS_F, IR3_LE, r, neg(size));
    s = step_float(e, s, ir3_op2(e, IR3_SUB_U, up, down));
    s = ir3_op2(e, IR3_ADD_U, s, ir3_op2(e, IR3_SHL_B, k, ir3_imm(23)));
    /* of negative numbers, which are none */
    sign = ir3_op2(e, IR3_AND_B, a, ir3_imm(SIGN));
    x = ir3_op1(e, IR3_SQRT, ir3_op2(e, IR3_OR_B, p.size, sign));
    return ir3_select(e, odd, x, s);
}

/* ---- comparisons ---- */

static bool
is_same(struct ir3_opnd a, struct ir3_opnd b)
{
    return a.kind == IR3_REG && b.kind == IR3_REG && a.v == b.v &&
           a.comp == b.comp && a.neg == b.neg && a.abs == b.abs;
}

/* Is a below 0 where is_below, else above it? NaNs are neither: their bits are
 * behind infinity's. */
static struct ir3_opnd
beside_zero(struct ir3_emit *e, struct ir3_opnd a, bool is_below)
{
    a = ir3_op2(e, IR3_SUB_U, a, ir3_imm(is_below ? SIGN + 1 : 1));
    return ir3_compare(e, IR3_CMPS_U, IR3_LT, a, ir3_imm(INF));
}

/* a < b where both are subnormal or zero, and not both zero: as integers, but
 * that two negative ones are in the other order. */
static struct ir3_opnd
less_small(struct ir3_emit *e, struct ir3_opnd a, struct ir3_opnd b)
{
    struct ir3_opnd any, is_small, swap, less;

    any = ir3_op2(e, IR3_SHL_B, ir3_op2(e, IR3_OR_B, a, b), ir3_imm(1));
    is_small = ir3_compare(e, IR3_CMPS_U, IR3_LT,
                           ir3_op2(e, IR3_SUB_U, any, ir3_imm(1)),
                           ir3_imm(2 * FRACTION + 1));
    swap = ir3_op2(e, IR3_ASHR_B, ir3_op2(e, IR3_AND_B, a, b), ir3_imm(31));
    swap = ir3_op2(e, IR3_SHR_B, swap, ir3_imm(1));
    less = ir3_compare(e, IR3_CMPS_S, IR3_LT, ir3_op2(e, IR3_XOR_B, a, swap),
                       ir3_op2(e, IR3_XOR_B, b, swap));
    return ir3_op2(e, IR3_AND_B, is_small, less);
}

/* 0 where a and b are the same bits or zeros. */
static struct ir3_opnd
difference(struct ir3_emit *e, struct ir3_opnd a, struct ir3_opnd b)
{
    struct ir3_opnd any =
        ir3_op2(e, IR3_SHL_B, ir3_op2(e, IR3_OR_B, a, b), ir3_imm(1));

    return ir3_op2(e, IR3_MIN_U, ir3_op2(e, IR3_XOR_B, a, b), any);
}

/* The chip's comparison takes all that is subnormal for equal. */
static struct ir3_opnd
compare_floats(struct ir3_emit *e, unsigned cond, struct ir3_opnd a,
               struct ir3_opnd b)
{
    struct ir3_opnd chip, differ;

    assert(cond == IR3_LT || cond == IR3_EQ || cond == IR3_NE);
    if (cond != IR3_LT && is_zero_const(a)) {
        chip = a;
        a = b;
        b = chip;
    }
    if (cond == IR3_LT && (is_zero_const(a) || is_zero_const(b)))
        return beside_zero(e, ir3_in_reg(e, is_zero_const(a) ? b : a),
                           is_zero_const(b));
    if (is_zero_const(b))
        return ir3_compare(e, IR3_CMPS_U, cond,
                           ir3_op2(e, IR3_SHL_B, ir3_in_reg(e, a), ir3_imm(1)),
                           ir3_imm(0));
    if (is_normal_const(a) || is_normal_const(b) || is_same(a, b))
        return ir3_compare(e, IR3_CMPS_F, cond, a, b);
    a = ir3_in_reg(e, a);
    b = ir3_in_reg(e, b);
    chip = ir3_compare(e, IR3_CMPS_F, cond, a, b);
    if (cond == IR3_LT)
        return ir3_op2(e, IR3_OR_B, chip, less_small(e, a, b));
    differ = ir3_compare(e, IR3_CMPS_U, cond, difference(e, a, b), ir3_imm(0));
    return ir3_op2(e, cond == IR3_EQ ? IR3_AND_B : IR3_OR_B, chip, differ);
}

/* ---- extremes ---- */

static bool
is_nan_const(struct ir3_opnd a)
{
    return a.kind == IR3_IMM && (a.v & ~SIGN) > INF;
}

/* NaN if a is, else r. */
static struct ir3_opnd
or_nan(struct ir3_emit *e, struct ir3_opnd r, struct ir3_opnd a)
{
    if (a.kind == IR3_IMM)
        return r;
    return ir3_select(e, ir3_compare(e, IR3_CMPS_F, IR3_NE, a, a), a, r);
}

/* By the order of integers, which is that of floats unless both are negative:
 * then the larger one is the smaller float. Numbers without a sign have
 * negative floats above all others. The chip's own takes a number for a NaN. */
static struct ir3_opnd
extreme(struct ir3_emit *e, bool is_max, struct ir3_opnd a, struct ir3_opnd b)
{
    enum ir3_op mixed = is_max ? IR3_MAX_S : IR3_MIN_S;
    enum ir3_op below = is_max ? IR3_MIN_U : IR3_MAX_U;
    struct ir3_opnd r, both, c;

    if (is_nan_const(a) || is_nan_const(b))
        return is_nan_const(a) ? a : b;
    if (a.kind == IR3_IMM) {
        c = a;
        a = b;
        b = c;
    }
    a = ir3_in_reg(e, a);
    if (b.kind == IR3_IMM && (b.v >> 31) == !is_max) {
        r = ir3_op2(e, is_max ? IR3_MAX_S : IR3_MAX_U, a, b);
        return or_nan(e, r, a);
    }
    both = b.kind == IR3_IMM ? a : ir3_op2(e, IR3_AND_B, a, b);
    both = ir3_op2(e, IR3_SHR_B, both, ir3_imm(31));
    r = ir3_select(e, both, ir3_op2(e, below, a, b), ir3_op2(e, mixed, a, b));
    return or_nan(e, or_nan(e, r, a), b);
}

bell_status
ir3_emit_float(struct ir3_emit *e, const struct uop *u, enum uop_op op,
               const struct ir3_lane **src, struct ir3_lane *out)
{
    struct ir3_opnd a = src[0]->lo, b = src[1] ? src[1]->lo : a;

    switch ((int)op) {
    case UOP_ADD:
        out->lo = ir3_op2(e, IR3_ADD_F, a, b);
        return BELL_OK;
    case UOP_SUB:
        out->lo = ir3_op2(e, IR3_ADD_F, a, neg(ir3_in_reg(e, b)));
        return BELL_OK;
    case UOP_MUL:
        out->lo = ir3_op2(e, IR3_MUL_F, a, b);
        return BELL_OK;
    case UOP_NEG: /* of the bits: NaNs and subnormal numbers too */
        out->lo = ir3_op2(e, IR3_XOR_B, a, ir3_imm(0x80000000));
        return BELL_OK;
    case UOP_FDIV:
        out->lo = divide_floats(e, a, b);
        return BELL_OK;
    case UOP_SQRT:
        out->lo = root(e, a);
        return BELL_OK;
    case UOP_TRUNC:
        out->lo = ir3_op1(e, IR3_TRUNC_F, a);
        return BELL_OK;
    case UOP_MAX:
        out->lo = extreme(e, true, a, b);
        return BELL_OK;
    case UOP_MIN:
        out->lo = extreme(e, false, a, b);
        return BELL_OK;
    case UOP_CMPLT:
        out->lo = compare_floats(e, IR3_LT, a, b);
        return BELL_OK;
    case UOP_CMPEQ:
        out->lo = compare_floats(e, IR3_EQ, a, b);
        return BELL_OK;
    case UOP_CMPNE:
        out->lo = compare_floats(e, IR3_NE, a, b);
        return BELL_OK;
    default:
        return ir3_refuse(e, u, "no such thing of floats");
    }
}
