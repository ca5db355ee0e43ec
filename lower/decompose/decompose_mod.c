/* Remainders and whole quotients of floats, exact.
 *
 * A quotient t = trunc(x / y) below 2^(digits + 1) is right or one too great,
 * as division rounds to nearest; x - t y is then a float, and a fused
 * multiply-add gives it exactly. Greater quotients are taken in steps: first
 * multiples of y 2^k are taken away, k being great, then of less.
 */
#include "lower/decompose/decompose_internal.h"

#include <assert.h>
#include <math.h>

/* Without its sign. */
static const struct uop *
magnitude(const struct dec *d, const struct uop *x)
{
    bool is_f64 = x->dtype == UOP_F64;
    const struct uop *bits = dec_bits(d, x, is_f64 ? UOP_U64 : UOP_U32);

    bits = dec_opi(d, UOP_AND, bits, is_f64 ? INT64_MAX : INT32_MAX);
    return dec_bits(d, bits, x->dtype);
}

/* The upper half of the digits: the product of two such is exact. */
static const struct uop *
upper_half(const struct dec *d, const struct uop *x)
{
    bool is_f64 = x->dtype == UOP_F64;
    const struct uop *bits = dec_bits(d, x, is_f64 ? UOP_U64 : UOP_U32);

    bits = dec_opi(d, UOP_AND, bits,
                   is_f64 ? -(1LL << 27) : (int64_t)(uint32_t) - (1LL << 12));
    return dec_bits(d, bits, x->dtype);
}

/* x - t y, which is a float. Without a fused multiply-add from the four
 * products of halves. */
static const struct uop *
left_over(const struct dec *d, const struct uop *x, const struct uop *t,
          const struct uop *y)
{
    const struct uop *t1, *t0, *y1, *y0, *r;

    assert(dec_is_wide_float(d, x));
    if (d->target->has_fma)
        return dec_madd(d, dec_op1(d, UOP_NEG, t), y, x);
    t1 = upper_half(d, t);
    t0 = dec_sub(d, t, t1);
    y1 = upper_half(d, y);
    y0 = dec_sub(d, y, y1);
    r = dec_sub(d, x, dec_mul(d, t1, y1));
    r = dec_sub(d, r, dec_add(d, dec_mul(d, t0, y1), dec_mul(d, t1, y0)));
    return dec_sub(d, r, dec_mul(d, t0, y0));
}

/* Between which powers of two the magnitude of what is not 0 lies. */
static void
find_exponents(const struct uop *u, int *out_low, int *out_high)
{
    const struct uop_dtype_info *info;
    int e;

    if (u->op == UOP_BROADCAST)
        u = u->src[0];
    if (u->op == UOP_CAST)
        u = u->src[0];
    info = &uop_dtype_infos[u->dtype];
    if (!info->is_float) {
        *out_low = 0;
        *out_high = 8 * info->size_bytes;
        return;
    }
    frexp(info->greatest, &e);
    *out_low = info->min_exp - info->fraction_bits;
    *out_high = e;
    if (u->op == UOP_CONST && u->arg.f != 0 && isfinite(u->arg.f)) {
        frexp(u->arg.f, &e);
        *out_low = e - 1;
        *out_high = e;
    }
}

/* y times the power of two that step `i` takes multiples of; infinite where
 * the step has nothing to do. Powers beyond the dtype's are two factors. */
static const struct uop *
scale_up(const struct dec *d, const struct uop *y, int exponent)
{
    int most = y->dtype == UOP_F64 ? 1023 : 127;

    for (; exponent > most; exponent -= most)
        y = dec_opf(d, UOP_MUL, y, ldexp(1, most));
    return exponent ? dec_opf(d, UOP_MUL, y, ldexp(1, exponent)) : y;
}

const struct uop *
dec_fmod(const struct dec *d, const struct uop *x, const struct uop *y)
{
    const struct uop *inf = dec_float(d, x, x->dtype, INFINITY), *r, *b, *t;
    const struct uop *zero = dec_float(d, x, x->dtype, 0), *sign, *by;
    bool is_f64 = x->dtype == UOP_F64;
    enum uop_dtype bits = is_f64 ? UOP_U64 : UOP_U32;
    int low, high, unused, step, i;

    assert(dec_is_wide_float(d, x));
    find_exponents(x, &unused, &high);
    find_exponents(y, &low, &unused);
    step = d->target->has_fma ? (is_f64 ? 52 : 23) : (is_f64 ? 26 : 12);
    i = high - low > step ? (high - low - 1) / step : 0;
    r = magnitude(d, x);
    b = magnitude(d, y);
    for (; i >= 0; i--) {
        by = scale_up(d, b, i * step);
        t = dec_op1(d, UOP_TRUNC, dec_op2(d, UOP_FDIV, r, by));
        t = left_over(d, r, t, by);
        /* by infinity: itself, NaN of an infinity */
        if (i == 0)
            r = dec_where(d, dec_op2(d, UOP_CMPEQ, by, inf),
                          dec_where(d, dec_op2(d, UOP_CMPEQ, r, inf),
                                    dec_float(d, x, x->dtype, (double)NAN), r),
                          t);
        else
            r = dec_where(d, dec_op2(d, UOP_CMPEQ, by, inf), r, t);
    }
    r = dec_where(d, dec_op2(d, UOP_CMPLT, r, zero), dec_add(d, r, b), r);
    sign = dec_opi(d, UOP_AND, dec_bits(d, x, bits),
                   is_f64 ? INT64_MIN : (int64_t)0x80000000);
    return dec_bits(d, dec_op2(d, UOP_OR, dec_bits(d, r, bits), sign),
                    x->dtype);
}

/* One less where the remainder has not the divisor's sign, which is also where
 * the quotient of positive numbers was rounded up. */
const struct uop *
dec_ffloordiv(const struct dec *d, const struct uop *x, const struct uop *y)
{
    const struct uop *inf = dec_float(d, x, x->dtype, INFINITY), *t, *r, *low;
    const struct uop *zero = dec_float(d, x, x->dtype, 0), *no;

    assert(dec_is_wide_float(d, x));
    t = dec_op1(d, UOP_TRUNC, dec_op2(d, UOP_FDIV, x, y));
    r = left_over(d, x, t, y);
    r = dec_where(d, dec_op2(d, UOP_CMPEQ, magnitude(d, y), inf), x, r);
    low = dec_where(d, dec_op2(d, UOP_CMPLT, y, zero),
                    dec_op2(d, UOP_CMPLT, zero, r),
                    dec_op2(d, UOP_CMPLT, r, zero));
    t = dec_where(d, low, dec_opf(d, UOP_ADD, t, -1), t);
    /* of an infinity there is no whole quotient, but by 0 it is one */
    no = dec_op2(d, UOP_AND, dec_op2(d, UOP_CMPEQ, magnitude(d, x), inf),
                 dec_op2(d, UOP_CMPNE, y, zero));
    return dec_where(d, no, dec_float(d, x, x->dtype, (double)NAN), t);
}
