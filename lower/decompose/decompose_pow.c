/* x to the y, with C's rules for the special cases.
 *
 * |x|^y = 2^(y * log2 |x|). F32 takes it in F64, which is more than enough.
 * F64, and F32 where there is no F64, carry the logarithm and the product in
 * two parts. A result that the dtype holds (x^1, 3^20, 2^n) is met to the bit.
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

/* 2^(y * log2 x), x > 0 or infinite or 0; F64, good for F32. */
static const struct uop *
power_short(const struct dec *d, const struct uop *x, const struct uop *y)
{
    const struct uop *inf = dec_float(d, x, UOP_F64, INFINITY);
    const struct uop *zero = dec_float(d, x, UOP_F64, 0), *l;

    assert(dec_is(d, x, UOP_F64) && dec_is(d, y, UOP_F64));
    l = dec_log2_short(d, x);
    l = dec_where(d, dec_op2(d, UOP_CMPEQ, x, zero),
                  dec_float(d, x, UOP_F64, -INFINITY), l);
    l = dec_where(d, dec_op2(d, UOP_CMPLT, x, inf), l, x); /* inf and NaN */
    return dec_exp2_short(d, dec_mul(d, y, l));
}

/* The same with the logarithm and its product in two parts. */
static const struct uop *
power_parts(const struct dec *d, const struct uop *x, const struct uop *y)
{
    enum uop_dtype f = x->dtype;
    const struct uop *inf = dec_float(d, x, f, INFINITY), *l, *lo, *p;
    const struct uop *zero = dec_float(d, x, f, 0), *p_lo, *is_inf, *grows;
    const struct uop *cut, *r, *is_edge;
    /* more than enough for the least logarithm that is not 0 */
    double most = f == UOP_F64 ? 0x1p64 : 0x1p32;
    double large = f == UOP_F64 ? 1100 : 200;

    assert(dec_is_wide_float(d, x) && dec_is(d, y, f));
    cut = dec_opf(d, UOP_MIN, dec_opf(d, UOP_MAX, y, -most), most);
    l = dec_log2_parts(d, x, &lo);
    p = dec_two_product(d, cut, l, &p_lo);
    p_lo = dec_add(d, p_lo, dec_mul(d, cut, lo));
    r = dec_op2(d, UOP_MAX, p, dec_op1(d, UOP_NEG, p));
    r = dec_opf(d, UOP_CMPLT, r, large);
    r = dec_exp2_parts(d, p, dec_where(d, r, p_lo, zero));
    is_inf = dec_op2(d, UOP_CMPEQ, x, inf);
    is_edge = dec_op2(d, UOP_OR, is_inf, dec_op2(d, UOP_CMPEQ, x, zero));
    grows = dec_op2(d, UOP_CMPEQ, is_inf, dec_op2(d, UOP_CMPLT, zero, y));
    r = dec_where(d, is_edge, dec_where(d, grows, inf, zero), r);
    p = dec_op2(d, UOP_AND, dec_op2(d, UOP_CMPEQ, x, x),
                dec_op2(d, UOP_CMPEQ, y, y));
    return dec_where(d, p, r, dec_float(d, x, f, NAN));
}

static const struct uop *
is_whole(const struct dec *d, const struct uop *y)
{
    return dec_op2(d, UOP_CMPEQ, dec_op1(d, UOP_TRUNC, y), y);
}

/* What holds for negative x and where the formula gives NaN; F64 (for F32,
 * too), or F32 where it is by itself. */
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
    r = for_f32 ? power_short(d, size, y) : power_parts(d, size, y);

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
    if (x->dtype == UOP_F64 || d->target->lacks_f64)
        return pow_wide(d, x, y, false);
    r = pow_wide(d, uop_cast(d->g, x, UOP_F64), uop_cast(d->g, y, UOP_F64),
                 true);
    return uop_cast(d->g, r, UOP_F32);
}
