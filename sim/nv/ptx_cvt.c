/* cvt. Floats go by way of F64, which holds every F16, BF16 and F32 and so is
 * rounded once; integers are rounded straight to their float. */
#include "sim/nv/ptx_internal.h"

#include <math.h>
#include <string.h>

static double
decode(unsigned type, uint64_t bits)
{
    uint32_t word = (uint32_t)bits;
    int exponent, fraction;
    double d, sign;
    float f;

    if (type == PX_F64) {
        memcpy(&d, &bits, sizeof(d));
        return d;
    }
    if (type == PX_BF16)
        word <<= 16;
    if (type != PX_F16) {
        memcpy(&f, &word, sizeof(f));
        return (double)f;
    }
    exponent = (int)(word >> 10 & 31);
    fraction = (int)(word & 1023);
    sign = word >> 15 & 1 ? -1 : 1;
    if (exponent == 31)
        return fraction ? (double)NAN : sign * (double)INFINITY;
    return exponent ? sign * ldexp(1024 + fraction, exponent - 25)
                    : sign * ldexp(fraction, -24);
}

/* Rounds to `digits` binary digits and at least 2^min, and packs it: the
 * exponent field counts from the least normal number. */
static uint64_t
encode_small(double d, int digits, int min_exponent, int max_exponent,
             unsigned width)
{
    uint64_t sign = (uint64_t)(signbit(d) != 0) << (width - 1);
    uint64_t infinity = (uint64_t)(max_exponent - min_exponent + 2)
                        << (digits - 1);
    double size = fabs(d), units;
    uint64_t bits;
    int exponent;

    if (isnan(d))
        return px_mask(width - 1);
    if (isinf(d))
        return sign | infinity;
    if (size == 0)
        return sign;
    exponent = ilogb(size);
    if (exponent < min_exponent)
        exponent = min_exponent;
    if (exponent > max_exponent)
        return sign | infinity;
    units = nearbyint(ldexp(size, digits - 1 - exponent));
    /* A carry out of the fraction is right in the exponent's field. */
    bits =
        ((uint64_t)(exponent - min_exponent) << (digits - 1)) + (uint64_t)units;
    return sign | bits;
}

static uint64_t
encode(unsigned type, double d)
{
    uint64_t bits;
    uint32_t word;
    float f;

    switch (type) {
    case PX_F16:
        return encode_small(d, 11, -14, 15, 16);
    case PX_BF16:
        return encode_small(d, 8, -126, 127, 16);
    case PX_F64:
        memcpy(&bits, &d, sizeof(bits));
        return isnan(d) ? 0x7fffffffffffffffull : bits;
    default:
        f = (float)d;
        memcpy(&word, &f, sizeof(word));
        return isnan(f) ? 0x7fffffffu : word;
    }
}

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
float_to_int(const struct px_insn *in, double d)
{
    const struct px_type_info *to = &px_types[in->type];
    uint64_t top = (uint64_t)1 << (to->bits - 1);
    double limit;

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

static uint64_t
int_to_float(const struct px_insn *in, uint64_t a)
{
    bool is_signed = px_types[in->type2].kind == 's';
    float f;

    if (in->type == PX_F64)
        return encode(PX_F64, is_signed ? (double)(int64_t)a : (double)a);
    f = is_signed ? (float)(int64_t)a : (float)a;
    /* beyond 2^24, where F32 rounds, there is no F16 */
    return encode(in->type, (double)f);
}

static double
flush(const struct px_insn *in, unsigned type, double d)
{
    return in->mod[PX_MOD_FTZ] && type == PX_F32 && fabs(d) < 0x1p-126
               ? copysign(0, d)
               : d;
}

uint64_t
px_eval_cvt(const struct px_insn *in, uint64_t a)
{
    const struct px_type_info *to = &px_types[in->type];
    const struct px_type_info *from = &px_types[in->type2];
    uint64_t r;
    double d;

    a &= px_mask(from->bits);
    if (from->kind == 'f') {
        d = flush(in, in->type2, decode(in->type2, a));
        if (to->kind != 'f') {
            r = float_to_int(in, d);
        } else {
            if (in->mod[PX_MOD_ROUND] >= PX_RNI)
                d = round_to_integer(in->mod[PX_MOD_ROUND], d);
            return encode(in->type, flush(in, in->type, d));
        }
    } else {
        if (from->kind == 's')
            a = (uint64_t)px_sign_extend(a, from->bits);
        if (to->kind == 'f')
            return int_to_float(in, a);
        r = a & px_mask(to->bits);
    }
    /* into a wider register: extended as the type is */
    if (to->kind == 's')
        r = (uint64_t)px_sign_extend(r, to->bits);
    return r & px_mask(in->dst_bits);
}
