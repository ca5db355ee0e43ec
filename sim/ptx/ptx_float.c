/* Floats on one lane: what each type's bits mean, rounding, and arithmetic.
 * A NaN that arithmetic makes is the one that the hardware makes.
 *
 * F16 and BF16 are worked on in F64, which holds their sums and products
 * exactly but for some of fma's; those are rounded to odd on the way, so that
 * rounding again is right.
 */
#include "sim/ptx/ptx_internal.h"

#include <assert.h>
#include <math.h>
#include <string.h>

#include "base/map.h"

#define NAN_F32 0x7fffffffu
#define NAN_F64 0x7fffffffffffffffull

/* ---- bits ---- */

static float
to_f32(uint64_t bits)
{
    uint32_t b = (uint32_t)bits;
    float f;

    memcpy(&f, &b, sizeof(f));
    return f;
}

static uint64_t
from_f32(float f)
{
    uint32_t b;

    memcpy(&b, &f, sizeof(b));
    return isnan(f) ? NAN_F32 : b;
}

static double
to_f64(uint64_t bits)
{
    double d;

    memcpy(&d, &bits, sizeof(d));
    return d;
}

static uint64_t
from_f64(double d)
{
    uint64_t b;

    memcpy(&b, &d, sizeof(b));
    return isnan(d) ? NAN_F64 : b;
}

/* A small float: digits of the fraction and bias; `has_inf`: its greatest
 * exponent means infinity and NaN, else only all ones are NaN. */
struct small {
    uint8_t fraction_bits, exponent_bits;
    bool has_inf;
};

static const struct small smalls[PX_TYPE_COUNT] = {
    [PX_F16] = {10, 5, true},  [PX_BF16] = {7, 8, true},
    [PX_F32] = {23, 8, true},  [PX_TF32] = {10, 8, true},
    [PX_E4M3] = {3, 4, false}, [PX_E5M2] = {2, 5, true},
};

static double
decode_small(const struct small *s, uint64_t bits)
{
    unsigned f = s->fraction_bits, e = s->exponent_bits;
    int bias = (1 << (e - 1)) - 1, exponent = (int)(bits >> f & px_mask(e));
    int64_t fraction = (int64_t)(bits & px_mask(f));
    double sign = bits >> (e + f) & 1 ? -1 : 1;

    if (exponent != 0 && exponent != (int)px_mask(e)) /* as most are */
        return to_f64((bits >> (e + f) & 1) << 63 |
                      (uint64_t)(exponent - bias + 1023) << 52 |
                      (uint64_t)fraction << (52 - f));
    if (exponent == (int)px_mask(e)) {
        if (s->has_inf)
            return fraction ? (double)NAN : sign * (double)INFINITY;
        if (fraction == (int64_t)px_mask(f))
            return (double)NAN;
    }
    if (exponent == 0)
        return sign * ldexp((double)fraction, 1 - bias - (int)f);
    fraction += (int64_t)1 << f;
    return sign * ldexp((double)fraction, exponent - bias - (int)f);
}

double
px_decode(unsigned type, uint64_t bits)
{
    assert(type < PX_TYPE_COUNT);
    switch (type) {
    case PX_F64:
        return to_f64(bits);
    case PX_F32:
        return (double)to_f32(bits);
    case PX_BF16:
        return (double)to_f32(bits << 16);
    case PX_TF32: /* what lies below its fraction is not read */
        return (double)to_f32(bits & 0xffffe000u);
    default:
        return decode_small(&smalls[type], bits);
    }
}

/* To nearest, ties away from zero. */
static double
round_away(double units)
{
    return round(units);
}

static double
to_whole(double units, unsigned round)
{
    assert(round <= PX_RPI);
    switch (round) {
    case PX_RZ:
        return trunc(units);
    case PX_RM:
        return floor(units);
    case PX_RP:
        return ceil(units);
    case PX_RNA:
        return round_away(units);
    default:
        return nearbyint(units);
    }
}

/* Does a number too large become infinite? */
static bool
overflows(double d, unsigned round)
{
    return round == PX_RN || round == PX_RNA || (round == PX_RP && d > 0) ||
           (round == PX_RM && d < 0);
}

static uint64_t
encode_small(const struct small *s, double d, unsigned round, bool finite)
{
    unsigned f = s->fraction_bits, e = s->exponent_bits;
    int min = 2 - (1 << (e - 1)), exponent;
    uint64_t sign = (uint64_t)(signbit(d) != 0) << (e + f);
    uint64_t inf = px_mask(e) << f, bits;
    uint64_t max = s->has_inf ? inf - 1 : px_mask(e + f) - 1;
    double units;

    assert(s->fraction_bits + s->exponent_bits < 32);
    if (isnan(d))
        return px_mask(e + f);
    if (isinf(d))
        return sign | (finite ? max : inf);
    if (d == 0)
        return sign;
    exponent = ilogb(d);
    if (exponent < min)
        exponent = min;
    if (exponent > 1 - min + 1) /* out of reach of any rounding */
        return sign | (finite || !overflows(d, round) ? max : inf);
    units = fabs(to_whole(ldexp(d, (int)f - exponent), round));
    /* A carry out of the fraction is right in the exponent's field. */
    bits = ((uint64_t)(exponent - min) << f) + (uint64_t)units;
    if (bits > max)
        bits = finite || !overflows(d, round) ? max : inf;
    return sign | bits;
}

uint64_t
px_encode_rounded(unsigned type, double d, unsigned round, unsigned sat)
{
    uint64_t bits;

    assert(round <= PX_RPI);
    assert(type < PX_TYPE_COUNT);
    if (sat == PX_SAT)
        d = d > 0 ? (d < 1 ? d : 1) : 0;
    if (sat == PX_RELU && d <= 0)
        d = 0;
    if (type == PX_F64)
        return from_f64(d);
    if (type == PX_F32 && round == PX_RN)
        return from_f32((float)d);
    bits = encode_small(&smalls[type], d, round, sat == PX_SATFINITE);
    if (type == PX_TF32)
        return isnan(d) ? NAN_F32 : bits << 13;
    return bits;
}

uint64_t
px_encode(unsigned type, double d)
{
    return px_encode_rounded(type, d, PX_RN, 0);
}

float
px_flushed(const struct px_insn *in, float f)
{
    return in->mod[PX_MOD_FTZ] == 1 && fabsf(f) < 0x1p-126f ? copysignf(0, f)
                                                            : f;
}

/* ---- arithmetic ---- */

/* IEEE minNum and maxNum; -0 is below +0. */
static double
extreme(const struct px_insn *in, double a, double b)
{
    bool is_max = in->op == PX_MAX;

    if (in->mod[PX_MOD_NAN] && (isnan(a) || isnan(b)))
        return NAN;
    if (isnan(a))
        return b;
    if (isnan(b))
        return a;
    if (a == b)
        return (signbit(a) != 0) == is_max ? b : a;
    return (a > b) == is_max ? a : b;
}

static double
eval_f64(const struct px_insn *in, double a, double b, double c)
{
    switch (in->op) {
    case PX_ADD:
        return a + b;
    case PX_SUB:
        return a - b;
    case PX_MUL:
        return a * b;
    case PX_FMA:
        return fma(a, b, c);
    case PX_DIV:
        return a / b;
    case PX_MIN:
    case PX_MAX:
        return extreme(in, a, b);
    case PX_RCP:
        return 1 / a;
    case PX_SQRT:
        return sqrt(a);
    case PX_RSQRT:
        return 1 / sqrt(a);
    case PX_EX2:
        return exp2(a);
    case PX_LG2:
        return log2(a);
    case PX_SIN:
        return sin(a);
    case PX_COS:
        return cos(a);
    default:
        return tanh(a);
    }
}

/* An approximation: not the nearest number, but, as the operand's bits decide,
 * one of those that the documented bounds allow. Quotients may be off by one
 * unit in the last place, for others either neighbour of the exact value is
 * given. src: docs/hardware/nvidia-code.md, "Approximate functions" */
static float
approx_value(const struct px_insn *in, float a, float b)
{
    double exact = eval_f64(in, (double)a, (double)b, 0);
    float r = (float)exact;
    uint64_t h = hash_mix((uint64_t)from_f32(a) << 32 ^ from_f32(b) ^ in->op);
    bool up = in->op == PX_DIV ? h & 2 : (double)r < exact;

    if (!isfinite(r) || fabsf(r) < 0x1p-125f || !(h & 1) ||
        (in->op != PX_DIV && (double)r == exact))
        return r;
    return nextafterf(r, up ? INFINITY : -INFINITY);
}

static float
eval_f32(const struct px_insn *in, float a, float b, float c)
{
    switch (in->op) {
    case PX_ADD:
        return a + b;
    case PX_SUB:
        return a - b;
    case PX_MUL:
        return a * b;
    case PX_FMA:
        return fmaf(a, b, c);
    case PX_DIV:
        return in->mod[PX_MOD_APPROX] ? approx_value(in, a, b) : a / b;
    case PX_MIN:
    case PX_MAX:
        return (float)extreme(in, (double)a, (double)b);
    case PX_RCP:
        return in->mod[PX_MOD_APPROX] ? approx_value(in, a, b) : 1 / a;
    case PX_SQRT:
        return in->mod[PX_MOD_APPROX] ? approx_value(in, a, b) : sqrtf(a);
    default: /* approximations */
        return approx_value(in, a, b);
    }
}

/* a * b + c of halves, to odd: where F64 cannot hold it, the neighbour whose
 * last bit is set. */
static double
half_fma(double a, double b, double c)
{
    double p = a * b, s = p + c, back = s - p;
    double error = (p - (s - back)) + (c - back);
    uint64_t bits;

    if (!isfinite(s) || error == 0)
        return s;
    memcpy(&bits, &s, sizeof(bits));
    if (!(bits & 1))
        bits += (error > 0) == (s > 0) ? 1 : UINT64_MAX;
    memcpy(&s, &bits, sizeof(s));
    return s;
}

static double
flushed_half(const struct px_insn *in, unsigned type, double d)
{
    if (in->mod[PX_MOD_FTZ] != 1 || type != PX_F16 || fabs(d) >= 0x1p-14)
        return d;
    return copysign(0, d);
}

static uint64_t
half_op(const struct px_insn *in, unsigned type, uint64_t a, uint64_t b,
        uint64_t c)
{
    double x = flushed_half(in, type, px_decode(type, a));
    double y = flushed_half(in, type, px_decode(type, b));
    double z = flushed_half(in, type, px_decode(type, c)), r;

    r = in->op == PX_FMA ? half_fma(x, y, z) : eval_f64(in, x, y, z);
    a = px_encode_rounded(type, r, PX_RN, in->mod[PX_MOD_SAT]);
    if (in->mod[PX_MOD_FTZ] == 1)
        a = px_encode(type, flushed_half(in, type, px_decode(type, a)));
    return a;
}

uint64_t
px_float_op(const struct px_insn *in, unsigned type, uint64_t a, uint64_t b,
            uint64_t c)
{
    uint64_t sign = (uint64_t)1 << (px_types[type].bits - 1);
    float r;

    assert(type < PX_TYPE_COUNT);
    if (in->op == PX_COPYSIGN)
        return (a & sign) | (b & ~sign);
    if (in->op == PX_NEG || in->op == PX_ABS) {
        if (type == PX_F32 && in->mod[PX_MOD_FTZ])
            a = from_f32(px_flushed(in, to_f32(a)));
        if (type == PX_F16 && in->mod[PX_MOD_FTZ])
            a = px_encode(type, flushed_half(in, type, px_decode(type, a)));
        return in->op == PX_NEG ? a ^ sign : a & ~sign;
    }
    if (type == PX_F64)
        return from_f64(eval_f64(in, to_f64(a), to_f64(b), to_f64(c)));
    if (type != PX_F32)
        return half_op(in, type, a, b, c);
    r = px_flushed(in, eval_f32(in, px_flushed(in, to_f32(a)),
                                px_flushed(in, to_f32(b)),
                                px_flushed(in, to_f32(c))));
    if (in->mod[PX_MOD_SAT])
        r = r > 0 ? fminf(r, 1) : 0;
    return from_f32(r);
}

/* ---- comparisons ---- */

bool
px_float_test(unsigned cmp, double a, double b)
{
    bool unordered = isnan(a) || isnan(b);

    assert(cmp <= PX_HS);
    switch (cmp) {
    case PX_EQ:
    case PX_EQU:
        return unordered ? cmp == PX_EQU : a == b;
    case PX_NE:
    case PX_NEU:
        return unordered ? cmp == PX_NEU : a != b;
    case PX_LT:
    case PX_LTU:
        return unordered ? cmp == PX_LTU : a < b;
    case PX_LE:
    case PX_LEU:
        return unordered ? cmp == PX_LEU : a <= b;
    case PX_GT:
    case PX_GTU:
        return unordered ? cmp == PX_GTU : a > b;
    case PX_GE:
    case PX_GEU:
        return unordered ? cmp == PX_GEU : a >= b;
    case PX_NUM:
        return !unordered;
    default:
        return unordered;
    }
}
