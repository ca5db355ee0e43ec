/* x to the y, with C's rules for the special cases.
 *
 * |x|^y = 2^(y * log2 |x|) in F64. For F32 that is more than enough; for F64
 * the logarithm and the product are carried in two parts, and so they are for F32
 * where there is no F64.
 */
#include "lower/decompose/decompose_internal.h"

#include <assert.h>
#include <math.h>

/* Products of a few factors, for a constant exponent; NULL for others. */
static const struct uop *
small_power(const struct dec *d, const struct uop *x, const struct uop *y)
{
    const struct uop *sq;
    double e;

    if (y->op == UOP_BROADCAST)
        y = y->src[0];
    if (y->op != UOP_CONST)
        return NULL;
    e = y->arg.f;
    if (e == 1)
        return x;
    if (e == -1)
        return dec_op2(d, UOP_FDIV, dec_float(d, x, x->dtype, 1), x);
    if (e != 2 && e != 3 && e != 4)
        return NULL;
    sq = dec_op2(d, UOP_MUL, x, x);
    return e == 2 ? sq : dec_op2(d, UOP_MUL, sq, e == 3 ? x : sq);
}

/* 2^(y * log2 x), x > 0 or infinite or 0; F64. */
static const struct uop *
power(const struct dec *d, const struct uop *x, const struct uop *y,
      bool for_f32)
{
    const struct uop *inf = dec_float(d, x, UOP_F64, INFINITY), *size;
    const struct uop *zero = dec_float(d, x, UOP_F64, 0), *lo = NULL, *l, *p;

    assert(dec_is(d, x, UOP_F64) && dec_is(d, y, UOP_F64));
    l = dec_log2_f64(d, x, for_f32 ? NULL : &lo);
    l = dec_where(d, dec_op2(d, UOP_CMPEQ, x, zero),
                  dec_float(d, x, UOP_F64, -INFINITY), l);
    l = dec_where(d, dec_op2(d, UOP_CMPLT, x, inf), l, x); /* inf and NaN */
    p = dec_op2(d, UOP_MUL, y, l);
    if (lo) {
        lo = dec_op2(d, UOP_MUL, y, lo);
        if (d->target->has_fma)
            lo = dec_op2(d, UOP_ADD, lo,
                         dec_madd(d, y, l, dec_op1(d, UOP_NEG, p)));
        /* where the power is finite and not 0, so are all parts */
        size = dec_op2(d, UOP_MAX, p, dec_op1(d, UOP_NEG, p));
        lo = dec_where(
            d, dec_op2(d, UOP_CMPLT, size, dec_float(d, x, UOP_F64, 1100)), lo,
            zero);
    }
    return dec_exp2_f64(d, p, lo, for_f32);
}

/* The same of F32 alone. */
static const struct uop *
power_f32(const struct dec *d, const struct uop *x, const struct uop *y)
{
    const struct uop *inf = dec_float(d, x, UOP_F32, INFINITY), *l, *lo, *p;
    const struct uop *zero = dec_float(d, x, UOP_F32, 0), *p_lo, *is_inf,
                     *grows;
    const struct uop *cut, *r, *is_edge;

    assert(dec_is(d, x, UOP_F32) && dec_is(d, y, UOP_F32));
    /* more than enough for the least logarithm that is not 0 */
    cut = dec_opf(d, UOP_MIN, dec_opf(d, UOP_MAX, y, -0x1p32), 0x1p32);
    l = dec_log2_f32(d, x, &lo);
    p = dec_two_product(d, cut, l, &p_lo);
    p_lo = dec_add(d, p_lo, dec_mul(d, cut, lo));
    r = dec_op2(d, UOP_MAX, p, dec_op1(d, UOP_NEG, p));
    r = dec_opf(d, UOP_CMPLT, r, 200);
    r = dec_exp2_f32(d, p, dec_where(d, r, p_lo, zero));
    is_inf = dec_op2(d, UOP_CMPEQ, x, inf);
    is_edge = dec_op2(d, UOP_OR, is_inf, dec_op2(d, UOP_CMPEQ, x, zero));
    grows = dec_op2(d, UOP_CMPEQ, is_inf, dec_op2(d, UOP_CMPLT, zero, y));
    r = dec_where(d, is_edge, dec_where(d, grows, inf, zero), r);
    p = dec_op2(d, UOP_AND, dec_op2(d, UOP_CMPEQ, x, x),
                dec_op2(d, UOP_CMPEQ, y, y));
    return dec_where(d, p, r, dec_float(d, x, UOP_F32, NAN));
}

static const struct uop *
is_whole(const struct dec *d, const struct uop *y)
{
    return dec_op2(d, UOP_CMPEQ, dec_op1(d, UOP_TRUNC, y), y);
}

/* What holds for negative x and where the formula gives NaN; F64, or
 * F32 where it is by itself. */
static const struct uop *
pow_wide(const struct dec *d, const struct uop *x, const struct uop *y,
         bool for_f32)
{
    enum uop_dtype f = x->dtype, u = f == UOP_F64 ? UOP_U64 : UOP_U32;
    int64_t top = f == UOP_F64 ? INT64_MIN : (int64_t)1 << 31;
    int64_t others = f == UOP_F64 ? INT64_MAX : INT32_MAX;
    const struct uop *zero = dec_float(d, x, f, 0);
    const struct uop *one = dec_float(d, x, f, 1), *bits, *sign, *size;
    const struct uop *odd, *half, *r, *bad, *is_one, *y_inf;

    assert(dec_is_wide_float(d, x) && dec_is(d, y, f));
    bits = dec_bits(d, x, u);
    sign = dec_opi(d, UOP_AND, bits, top);
    size = dec_bits(d, dec_op2(d, UOP_XOR, bits, sign), f);
    r = f == UOP_F64 ? power(d, size, y, for_f32) : power_f32(d, size, y);

    half = dec_opf(d, UOP_MUL, y, 0.5);
    odd = dec_op2(d, UOP_AND, is_whole(d, y),
                  dec_op2(d, UOP_CMPNE, dec_op1(d, UOP_TRUNC, half), half));
    sign = dec_where(d, odd, sign, dec_int(d, x, u, 0));
    r = dec_bits(d, dec_op2(d, UOP_OR, dec_bits(d, r, u), sign), f);

    /* negative, finite, to a power that is not whole: NaN */
    bad = dec_op2(d, UOP_AND, dec_op2(d, UOP_CMPLT, x, zero),
                  dec_op2(d, UOP_CMPNE, dec_op1(d, UOP_TRUNC, y), y));
    bad = dec_op2(d, UOP_AND, bad,
                  dec_op2(d, UOP_CMPLT, size, dec_float(d, x, f, INFINITY)));
    r = dec_where(d, bad, dec_float(d, x, f, NAN), r);

    /* 1^y, x^0 and (-1)^inf are 1 whatever the other is */
    y_inf = dec_bits(d, dec_opi(d, UOP_AND, dec_bits(d, y, u), others), f);
    y_inf = dec_op2(d, UOP_CMPEQ, y_inf, dec_float(d, x, f, INFINITY));
    y_inf = dec_op2(d, UOP_AND, y_inf, dec_op2(d, UOP_CMPEQ, size, one));
    is_one = dec_op2(d, UOP_OR, dec_op2(d, UOP_CMPEQ, x, one),
                     dec_op2(d, UOP_CMPEQ, y, zero));
    is_one = dec_op2(d, UOP_OR, is_one, y_inf);
    return dec_where(d, is_one, one, r);
}

const struct uop *
dec_pow(const struct dec *d, const struct uop *x, const struct uop *y)
{
    const struct uop *r = small_power(d, x, y);

    assert(x->dtype == y->dtype && dec_is_wide_float(d, x));
    if (r)
        return r;
    if (x->dtype == UOP_F64)
        return pow_wide(d, x, y, false);
    if (d->target->lacks_f64)
        return pow_wide(d, x, y, true);
    r = pow_wide(d, uop_cast(d->g, x, UOP_F64), uop_cast(d->g, y, UOP_F64),
                 true);
    return uop_cast(d->g, r, UOP_F32);
}
