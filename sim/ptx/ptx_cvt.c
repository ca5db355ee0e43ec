/* cvt. Floats go by way of F64, which holds every shorter one and so is
 * rounded once; integers are rounded straight to their float. */
#include "sim/ptx/ptx_internal.h"

#include <assert.h>
#include <math.h>

static double
round_to_integer(unsigned round, double d)
{
    switch (round) {
    case PX_RNI:
        return nearbyint(d);
    case PX_RMI:
        return floor(d);
    case PX_RPI:
        return ceil(d);
    default:
        return trunc(d);
    }
}

/* Saturates. NaN gives 0, but where either side has 64 bits, the integer with
 * only its top bit set. src: PTX ISA, cvt, as remembered. */
static uint64_t
cvt_float_to_int(const struct px_insn *in, double d)
{
    const struct px_type_info *to = &px_types[in->type];
    uint64_t top = (uint64_t)1 << (to->bits - 1);
    double limit;

    assert(px_types[in->type].kind == 's' || px_types[in->type].kind == 'u');
    assert(to->bits >= 8 && to->bits <= 64);
    if (isnan(d))
        return in->type2 == PX_F64 || to->bits == 64 ? top : 0;
    d = round_to_integer(in->mod[PX_MOD_ROUND], d);
    if (to->kind == 'u') {
        limit = ldexp(1, to->bits);
        return d <= 0 ? 0 : d >= limit ? px_mask(to->bits) : (uint64_t)d;
    }
    limit = ldexp(1, to->bits - 1);
    if (d < -limit)
        return top;
    return (d >= limit ? top - 1 : (uint64_t)(int64_t)d) & px_mask(to->bits);
}

/* BF16 reaches as far as F32, so the lower bits of a long integer count: what
 * F64 cannot hold of them becomes one bit. */
static uint64_t
long_to_bf16(uint64_t a, bool is_signed)
{
    bool minus = is_signed && a >> 63;
    uint64_t size = minus ? 0 - a : a;

    if (size >> 53)
        size = (size & ~(uint64_t)0x7ff) | (size & 0x7ff ? 0x800 : 0);
    return px_encode(PX_BF16, minus ? -(double)size : (double)size);
}

static uint64_t
cvt_int_to_float(const struct px_insn *in, uint64_t a)
{
    bool is_signed = px_types[in->type2].kind == 's';
    float f;

    assert(px_types[in->type].kind == 'f');
    if (in->type == PX_F64)
        return px_encode(PX_F64, is_signed ? (double)(int64_t)a : (double)a);
    f = is_signed ? (float)(int64_t)a : (float)a;
    if (in->type == PX_F32 || in->type == PX_F16) {
        /* beyond 2^24, where F32 rounds, there is no F16 */
        return px_encode_rounded(in->type, (double)f, PX_RN,
                                 in->mod[PX_MOD_SAT]);
    }
    return long_to_bf16(a, is_signed);
}

/* Cuts to the type, to the limits if it saturates. */
static uint64_t
cvt_int_to_int(const struct px_insn *in, uint64_t a)
{
    const struct px_type_info *to = &px_types[in->type];
    bool from_signed = px_types[in->type2].kind == 's';
    uint64_t max = to->kind == 's' ? px_mask(to->bits - 1u) : px_mask(to->bits);
    int64_t min = to->kind == 's' ? -(int64_t)max - 1 : 0;

    if (in->mod[PX_MOD_SAT]) {
        if (from_signed && (int64_t)a < min)
            a = (uint64_t)min;
        else if ((!from_signed || (int64_t)a > 0) && a > max)
            a = max;
    }
    return a & px_mask(to->bits);
}

static double
flush_subnormal(const struct px_insn *in, unsigned type, double d)
{
    return in->mod[PX_MOD_FTZ] && type == PX_F32 && fabs(d) < 0x1p-126
               ? copysign(0, d)
               : d;
}

/* ---- pairs ---- */

static unsigned
half_type(unsigned type)
{
    switch (type) {
    case PX_F16X2:
        return PX_F16;
    case PX_BF16X2:
        return PX_BF16;
    case PX_E4M3X2:
        return PX_E4M3;
    case PX_E5M2X2:
        return PX_E5M2;
    default:
        return type;
    }
}

/* The first of two sources goes to the upper half. */
static uint64_t
cvt_pair(const struct px_insn *in, uint64_t a, uint64_t b)
{
    unsigned to = half_type(in->type), from = half_type(in->type2);
    unsigned round = in->mod[PX_MOD_ROUND], sat = in->mod[PX_MOD_SAT];
    unsigned bits = px_types[to].bits;

    if (from != PX_F32) { /* from a pair */
        b = a & px_mask(px_types[from].bits);
        a >>= px_types[from].bits;
    }
    a = px_encode_rounded(to, px_decode(from, a), round, sat);
    b = px_encode_rounded(to, px_decode(from, b), round, sat);
    return a << bits | b;
}

/* ---- all ---- */

static uint64_t
from_float(const struct px_insn *in, uint64_t a)
{
    double d = flush_subnormal(in, in->type2, px_decode(in->type2, a));
    unsigned round = in->mod[PX_MOD_ROUND];

    if (round >= PX_RNI) {
        d = round_to_integer(round, d);
        round = PX_RN;
    }
    if (!round)
        round = PX_RN;
    a = px_encode_rounded(in->type, flush_subnormal(in, in->type, d), round,
                          in->mod[PX_MOD_SAT]);
    return a;
}

uint64_t
px_eval_cvt(const struct px_insn *in, uint64_t a, uint64_t b)
{
    const struct px_type_info *to = &px_types[in->type];
    const struct px_type_info *from = &px_types[in->type2];

    assert(in->op == PX_CVT);
    if (in->type == PX_TF32)
        return px_encode_rounded(PX_TF32, px_decode(PX_F32, a),
                                 in->mod[PX_MOD_ROUND], in->mod[PX_MOD_SAT]);
    if (to->kind == 'x')
        return cvt_pair(in, a, b);
    a &= px_mask(from->bits);
    if (from->kind == 'f' && to->kind == 'f')
        return from_float(in, a);
    if (from->kind == 'f') {
        a = cvt_float_to_int(
            in, flush_subnormal(in, in->type2, px_decode(in->type2, a)));
    } else {
        if (from->kind == 's')
            a = (uint64_t)px_sign_extend(a, from->bits);
        if (to->kind == 'f')
            return cvt_int_to_float(in, a);
        a = cvt_int_to_int(in, a);
    }
    /* into a wider register: extended as the type is */
    if (to->kind == 's')
        a = (uint64_t)px_sign_extend(a, to->bits);
    return a & px_mask(in->dst.bits);
}
