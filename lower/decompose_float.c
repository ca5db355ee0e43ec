/* Conversions, and the two small float formats.
 *
 * F16 and BF16 are storage formats: F32 is what is computed in. Their bits
 * are handled as U16 where the processor has no conversion.
 */
#include "lower/decompose_internal.h"

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

    r = opi(d, UOP_AND, opi(d, UOP_SHR, bits, 16), 1);
    r = dec_op2(d, UOP_ADD, r, opi(d, UOP_ADD, bits, 0x7fff));
    r = dec_where(d, is_nan(d, x), opi(d, UOP_OR, bits, 0x400000), r);
    r = uop_cast(d->g, opi(d, UOP_SHR, r, 16), UOP_U16);
    return dec_bits(d, r, UOP_BF16);
}

/* ---- F16 ---- */

/* Exponent and fraction move into place; the exponent's bias changes by 112,
 * and by 112 more for infinity and NaN. A subnormal is its bits times 2^-24:
 * put behind the point of 2^-14, less 2^-14. */
static const struct uop *
f16_to_f32_int(const struct dec *d, const struct uop *x)
{
    const struct uop *bits, *sign, *size, *r, *normal, *small;

    bits = uop_cast(d->g, dec_bits(d, x, UOP_U16), UOP_U32);
    sign = opi(d, UOP_SHL, opi(d, UOP_AND, bits, 0x8000), 16);
    size = opi(d, UOP_SHL, opi(d, UOP_AND, bits, 0x7fff), 13);
    normal = opi(d, UOP_ADD, size, 112 << 23);
    r = dec_where(d, below(d, size, 31 << 23), normal,
                  opi(d, UOP_ADD, size, (int64_t)224 << 23));
    small = dec_bits(d, opi(d, UOP_ADD, size, 113 << 23), UOP_F32);
    small = dec_bits(d, dec_opf(d, UOP_SUB, small, 0x1p-14), UOP_U32);
    r = dec_where(d, below(d, size, 1 << 23), small, r);
    return dec_bits(d, dec_op2(d, UOP_OR, r, sign), UOP_F32);
}

/* Rounds to the nearest, ties to even, by adding just under half of the last
 * place kept; a carry into the exponent is right, up to infinity. Subnormals
 * are rounded by an F32 addition of 1/2, whose last place is 2^-24. */
static const struct uop *
f32_to_f16_int(const struct dec *d, const struct uop *x)
{
    const struct uop *bits = dec_bits(d, x, UOP_U32), *sign, *size, *r, *small;

    sign = opi(d, UOP_AND, opi(d, UOP_SHR, bits, 16), 0x8000);
    size = opi(d, UOP_AND, bits, 0x7fffffff);
    r = opi(d, UOP_AND, opi(d, UOP_SHR, size, 13), 1);
    r = dec_op2(d, UOP_ADD, r, opi(d, UOP_SUB, size, (112 << 23) - 0xfff));
    r = opi(d, UOP_SHR, r, 13);
    small = dec_opf(d, UOP_ADD, dec_bits(d, size, UOP_F32), 0.5);
    small = opi(d, UOP_SUB, dec_bits(d, small, UOP_U32), 0x3f000000);
    r = dec_where(d, below(d, size, 113 << 23), small, r);
    r = dec_where(d, below(d, size, 143 << 23), r,
                  dec_int(d, x, UOP_U32, 0x7c00));
    r = dec_where(d, is_nan(d, x), dec_int(d, x, UOP_U32, 0x7e00), r);
    r = uop_cast(d->g, dec_op2(d, UOP_OR, r, sign), UOP_U16);
    return dec_bits(d, r, UOP_F16);
}

/* ---- */

static const struct uop *
widen(const struct dec *d, const struct uop *x)
{
    if (x->dtype == UOP_BF16 ? d->target->has_bf16 : d->target->has_f16)
        return uop_cast(d->g, x, UOP_F32);
    return x->dtype == UOP_BF16 ? bf16_to_f32(d, x) : f16_to_f32_int(d, x);
}

static const struct uop *
narrow(const struct dec *d, const struct uop *x, enum uop_dtype dtype)
{
    if (dtype == UOP_BF16 ? d->target->has_bf16 : d->target->has_f16)
        return uop_cast(d->g, x, dtype);
    return dtype == UOP_BF16 ? f32_to_bf16(d, x) : f32_to_f16_int(d, x);
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

static bool
is_small_float(unsigned dtype)
{
    return dtype == UOP_F16 || dtype == UOP_BF16;
}

const struct uop *
dec_cast(const struct dec *d, const struct uop *x, enum uop_dtype dtype)
{
    if (x->dtype == dtype)
        return x;
    if (x->op == UOP_CONST ||
        (x->op == UOP_BROADCAST && x->src[0]->op == UOP_CONST))
        return uop_cast(d->g, x, dtype);
    if (x->dtype == UOP_BOOL && uop_dtype_infos[dtype].is_float)
        return dec_where(d, x, dec_float(d, x, dtype, 1),
                         dec_float(d, x, dtype, 0));
    if (is_small_float(x->dtype))
        return dec_cast(d, widen(d, x), dtype);
    if (!is_small_float(dtype))
        return uop_cast(d->g, x, dtype);
    if (x->dtype == UOP_F64)
        x = f64_to_f32_odd(d, x);
    else
        x = uop_cast(d->g, x, UOP_F32);
    return narrow(d, x, dtype);
}
