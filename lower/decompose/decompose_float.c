/* Conversions, and the small float formats.
 *
 * Floats of 8 and 16 bits are storage formats: F32 is what is computed in.
 * Their bits are handled as integers where the processor has no conversion.
 */
#include "lower/decompose/decompose_internal.h"

#include <assert.h>
#include <math.h>
#include <string.h>

static const struct uop *
opi(const struct dec *d, enum uop_op op, const struct uop *a, int64_t i)
{
    return dec_opi(d, op, a, i);
}

static const struct uop *
is_nan(const struct dec *d, const struct uop *x)
{
    return dec_op2(d, UOP_CMPNE, x, x);
}

static const struct uop *
below(const struct dec *d, const struct uop *a, int64_t i)
{
    return opi(d, UOP_CMPLT, a, i);
}

/* ---- BF16: the upper half of an F32 ---- */

static const struct uop *
bf16_to_f32(const struct dec *d, const struct uop *x)
{
    x = uop_cast(d->g, dec_bits(d, x, UOP_U16), UOP_U32);
    return dec_bits(d, opi(d, UOP_SHL, x, 16), UOP_F32);
}

/* To the nearest, ties to even; a NaN must not round up to infinity. */
static const struct uop *
f32_to_bf16(const struct dec *d, const struct uop *x)
{
    const struct uop *bits = dec_bits(d, x, UOP_U32), *r;

    assert(dec_is(d, x, UOP_F32));
    r = opi(d, UOP_AND, opi(d, UOP_SHR, bits, 16), 1);
    r = dec_op2(d, UOP_ADD, r, opi(d, UOP_ADD, bits, 0x7fff));
    r = dec_where(d, is_nan(d, x), opi(d, UOP_OR, bits, 0x400000), r);
    r = uop_cast(d->g, opi(d, UOP_SHR, r, 16), UOP_U16);
    return dec_bits(d, r, UOP_BF16);
}

/* ---- any format of 8 or 16 bits with its own range of exponents ---- */

#define F32_ONE (1 << 23) /* its smallest exponent, in place */

/* A format's numbers, in its bits and in those of F32. */
struct format {
    enum uop_dtype bits; /* the integer of its size */
    int sign;            /* its sign's bit */
    int shift;           /* its fraction is that much shorter than F32's */
    int64_t rebias;      /* from its exponent to F32's, in F32's place */
    double smallest;     /* normal number */
    int64_t over;        /* bits of the first F32 that rounds to no number */
    int64_t inf, nan;    /* its bits; nan where there is no inf */
};

static struct format
get_format(enum uop_dtype dtype)
{
    const struct uop_dtype_info *info = &uop_dtype_infos[dtype];
    double last = ldexp(1, ilogb(info->greatest) - info->fraction_bits);
    float over = (float)(info->greatest + last / 2);
    struct format f = {
        .bits = info->size_bytes == 1 ? UOP_U8 : UOP_U16,
        .sign = info->size_bytes * 8 - 1,
        .shift = 23 - info->fraction_bits,
        .rebias = (int64_t)(info->min_exp + 126) << 23,
        .smallest = ldexp(1, info->min_exp),
        .nan = (int64_t)uop_float_bits(dtype, (double)NAN),
    };
    uint32_t bits;

    assert(uop_dtype_is_small(dtype));
    memcpy(&bits, &over, sizeof(bits));
    /* a tie goes to the even one */
    f.over = (int64_t)bits + !(uop_float_bits(dtype, info->greatest) & 1);
    f.inf = info->has_inf ? (int64_t)uop_float_bits(dtype, INFINITY) : f.nan;
    return f;
}

/* Exponent and fraction move into place and the exponent's bias changes. A
 * subnormal is put behind the point of the smallest normal number, less that
 * number. */
static const struct uop *
small_to_f32(const struct dec *d, const struct uop *x)
{
    enum uop_dtype dtype = x->dtype;
    const struct uop_dtype_info *info = &uop_dtype_infos[dtype];
    struct format f = get_format(dtype);
    int64_t inf = ((int64_t)1 << f.sign) - ((int64_t)1 << info->fraction_bits);
    const struct uop *bits, *sign, *size, *r, *low, *none;

    assert(uop_dtype_is_small(dtype) || d->g->failed);
    bits = uop_cast(d->g, dec_bits(d, x, f.bits), UOP_U32);
    sign = opi(d, UOP_AND, bits, (int64_t)1 << f.sign);
    low = opi(d, UOP_AND, bits, ((int64_t)1 << f.sign) - 1);
    size = opi(d, UOP_SHL, low, f.shift);
    r = dec_bits(d, opi(d, UOP_ADD, size, f.rebias + F32_ONE), UOP_F32);
    r = dec_bits(d, dec_opf(d, UOP_SUB, r, f.smallest), UOP_U32);
    r = dec_where(d, below(d, size, F32_ONE), r,
                  opi(d, UOP_ADD, size, f.rebias));
    if (info->has_inf) { /* and NaN: F32's greatest exponent */
        r = dec_where(d, below(d, low, inf), r,
                      opi(d, UOP_ADD, size, 0x7f800000 - (inf << f.shift)));
    } else {
        none = opi(d, UOP_CMPEQ, info->has_minus_zero ? low : bits, f.nan);
        r = dec_where(d, none, dec_int(d, x, UOP_U32, 0x7fc00000), r);
    }
    sign = opi(d, UOP_SHL, sign, 31 - f.sign);
    return dec_bits(d, dec_op2(d, UOP_OR, r, sign), UOP_F32);
}

/* Rounds to the nearest, ties to even, by adding just under half of the last
 * place kept; a carry into the exponent is right. Subnormals are rounded by
 * an F32 addition of the number whose last place is theirs. */
static const struct uop *
f32_to_small(const struct dec *d, const struct uop *x, enum uop_dtype dtype)
{
    const struct uop *bits = dec_bits(d, x, UOP_U32), *sign, *size, *r, *low;
    struct format f = get_format(dtype);
    float add = (float)ldexp(f.smallest, f.shift);
    uint32_t add_bits;

    assert(dec_is(d, x, UOP_F32) && uop_dtype_is_small(dtype));
    memcpy(&add_bits, &add, sizeof(add_bits));
    sign = opi(d, UOP_AND, opi(d, UOP_SHR, bits, 31 - f.sign),
               (int64_t)1 << f.sign);
    size = opi(d, UOP_AND, bits, 0x7fffffff);
    r = opi(d, UOP_AND, opi(d, UOP_SHR, size, f.shift), 1);
    r = dec_op2(
        d, UOP_ADD, r,
        opi(d, UOP_SUB, size, f.rebias - (((int64_t)1 << (f.shift - 1)) - 1)));
    r = opi(d, UOP_SHR, r, f.shift);
    low = dec_opf(d, UOP_ADD, dec_bits(d, size, UOP_F32), (double)add);
    low = opi(d, UOP_SUB, dec_bits(d, low, UOP_U32), add_bits);
    r = dec_where(d, below(d, size, f.rebias + F32_ONE), low, r);
    r = dec_where(d, below(d, size, f.over), r, dec_int(d, x, UOP_U32, f.inf));
    r = dec_where(d, is_nan(d, x), dec_int(d, x, UOP_U32, f.nan), r);
    low = dec_op2(d, UOP_OR, r, sign);
    if (!uop_dtype_infos[dtype].has_minus_zero) /* and one NaN */
        low = dec_where(d, opi(d, UOP_CMPEQ, r, 0), r, low);
    return dec_bits(d, uop_cast(d->g, low, f.bits), dtype);
}

/* ---- 8 bits by way of F16 ---- */

/* e5m2fnuz has numbers where F16 has infinities. */
static bool
is_in_f16(unsigned dtype)
{
    return uop_dtype_is_f8(dtype) && dtype != UOP_F8E5M2Z;
}

/* The bits, moved to F16's places: a number of another bias. *out_scale makes
 * it the right one, but for the NaN of formats without infinities. */
static const struct uop *
f8_in_f16(const struct dec *d, const struct uop *x, double *out_scale)
{
    const struct uop_dtype_info *info = &uop_dtype_infos[x->dtype];
    int shift = 10 - info->fraction_bits;
    const struct uop *r = uop_cast(d->g, dec_bits(d, x, UOP_I8), UOP_U16);

    assert(uop_dtype_is_small(x->dtype) && info->size_bytes == 1);
    r = opi(d, UOP_SHL, r, shift);
    if (shift < 8) /* the sign is there twice */
        r = opi(d, UOP_AND, r, 0xbfff);
    *out_scale = ldexp(1, info->min_exp - uop_dtype_infos[UOP_F16].min_exp);
    return dec_bits(d, r, UOP_F16);
}

static const struct uop *
f8_to_f32(const struct dec *d, const struct uop *x)
{
    const struct uop_dtype_info *info = &uop_dtype_infos[x->dtype];
    int64_t nan = (int64_t)uop_float_bits(x->dtype, (double)NAN);
    const struct uop *r, *bits = dec_bits(d, x, UOP_U8);
    double scale;

    assert(info->size_bytes == 1 || d->g->failed);
    r = uop_cast(d->g, f8_in_f16(d, x, &scale), UOP_F32);
    if (scale != 1)
        r = dec_opf(d, UOP_MUL, r, scale);
    if (info->has_inf)
        return r;
    if (info->has_minus_zero)
        bits = opi(d, UOP_AND, bits, 0x7f);
    return dec_where(d, opi(d, UOP_CMPEQ, bits, nan),
                     dec_float(d, x, UOP_F32, (double)NAN), r);
}

/* ---- */

/* Whether the target converts between it and F32. */
static bool
is_native_cast(const struct dec *d, unsigned dtype)
{
    return (dtype == UOP_BF16 && d->target->has_bf16) ||
           (dtype == UOP_F16 && d->target->has_f16);
}

/* Whether the target converts it to all others. */
static bool
is_native_f8(const struct dec *d, unsigned dtype)
{
    return d->target->has_f8 && (dtype == UOP_F8E4M3 || dtype == UOP_F8E5M2);
}

static const struct uop *
widen(const struct dec *d, const struct uop *x)
{
    if (is_native_f8(d, x->dtype))
        return uop_cast(d->g, x, UOP_F32);
    if (is_native_cast(d, x->dtype))
        return uop_cast(d->g, x, UOP_F32);
    if (is_in_f16(x->dtype) && d->target->has_f16)
        return f8_to_f32(d, x);
    return x->dtype == UOP_BF16 ? bf16_to_f32(d, x) : small_to_f32(d, x);
}

static const struct uop *
narrow(const struct dec *d, const struct uop *x, enum uop_dtype dtype)
{
    if (is_native_cast(d, dtype))
        return uop_cast(d->g, x, dtype);
    return dtype == UOP_BF16 ? f32_to_bf16(d, x) : f32_to_small(d, x, dtype);
}

/* F64 to F32 rounded to odd: towards zero, then the last bit is set if
 * anything was lost. Rounding that again to a shorter format gives what one
 * rounding would. */
static const struct uop *
f64_to_f32_odd(const struct dec *d, const struct uop *x)
{
    const struct uop *f = uop_cast(d->g, x, UOP_F32), *back, *bits, *lost;
    const struct uop *size, *back_size;
    int64_t mask = INT64_MAX;

    assert(dec_is(d, x, UOP_F64));
    back = uop_cast(d->g, f, UOP_F64);
    bits = dec_bits(d, f, UOP_U32);
    size = opi(d, UOP_AND, dec_bits(d, x, UOP_U64), mask);
    back_size = opi(d, UOP_AND, dec_bits(d, back, UOP_U64), mask);
    lost = uop_cast(d->g, dec_op2(d, UOP_CMPNE, size, back_size), UOP_U32);
    bits = dec_op2(
        d, UOP_SUB, bits,
        uop_cast(d->g, dec_op2(d, UOP_CMPLT, size, back_size), UOP_U32));
    return dec_bits(d, dec_op2(d, UOP_OR, bits, lost), UOP_F32);
}

/* ---- small integers ---- */

#define F32_MANTISSA 23

/* ((y >> shift) & mask) + c in F32: 2^n + (y & mask << shift), whose mantissa
 * is those bits where n is 23 - shift, less 2^n - c. Both sums are exact. NULL:
 * x is not that, or has too many bits. */
static const struct uop *
masked_to_f32(const struct dec *d, const struct uop *x)
{
    const struct uop *y = x, *bits;
    int64_t c = 0, mask, shift = 0, one;

    if (x->op != UOP_ADD || !dec_const_int(x->src[1], &c) ||
        x->src[0]->op != UOP_AND || uop_dtype_infos[x->dtype].size_bytes != 4)
        return NULL;
    y = x->src[0]->src[0];
    if (!dec_const_int(x->src[0]->src[1], &mask) || mask < 0 ||
        mask >> F32_MANTISSA)
        return NULL;
    if (y->op == UOP_SHR && dec_const_int(y->src[1], &shift)) {
        assert(shift >= 0 && shift < 32);
        y = y->src[0];
    }
    one = (int64_t)1 << (F32_MANTISSA - (shift < F32_MANTISSA ? shift : 0));
    if (mask << shift >> F32_MANTISSA || c <= -one || c >= one)
        return NULL;
    bits = dec_bits(d, dec_float(d, x, UOP_F32, (double)one), UOP_U32);
    y = opi(d, UOP_AND, uop_cast(d->g, y, UOP_U32), mask << shift);
    y = dec_bits(d, dec_op2(d, UOP_OR, y, bits), UOP_F32);
    return dec_opf(d, UOP_ADD, y, (double)(c - one));
}

const struct uop *
dec_cast(const struct dec *d, const struct uop *x, enum uop_dtype dtype)
{
    const struct uop *joined;
    double scale;

    if (x->dtype == dtype)
        return x;
    if (dtype == UOP_F32 && d->target->joins_bits &&
        (joined = masked_to_f32(d, x)) != NULL)
        return joined;
    if (x->op == UOP_CONST ||
        (x->op == UOP_BROADCAST && x->src[0]->op == UOP_CONST))
        return uop_cast(d->g, x, dtype);
    if (x->dtype == UOP_BOOL && uop_dtype_infos[dtype].is_float)
        return dec_where(d, x, dec_float(d, x, dtype, 1),
                         dec_float(d, x, dtype, 0));
    if (is_native_f8(d, x->dtype) && dtype == UOP_F16)
        return uop_cast(d->g, x, dtype);
    if (x->dtype == UOP_F8E5M2 && dtype == UOP_F16)
        return f8_in_f16(d, x, &scale);
    if (uop_dtype_is_small(x->dtype))
        return dec_cast(d, widen(d, x), dtype);
    if (!uop_dtype_is_small(dtype))
        return uop_cast(d->g, x, dtype);
    if (x->dtype == UOP_F64)
        x = f64_to_f32_odd(d, x);
    else
        x = uop_cast(d->g, x, UOP_F32);
    return narrow(d, x, dtype);
}
