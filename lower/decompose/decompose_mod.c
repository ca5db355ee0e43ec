/* Remainders and whole quotients of floats, exact.
 *
 * A quotient t = trunc(x / y) below 2^(digits + 1) is right or one too great,
 * as division rounds to nearest; x - t y is then a float, and a fused
 * multiply-add gives it exactly. Greater quotients are taken in steps: first
 * multiples of y 2^k are taken away, k being great, then of less.
 *
 * Where sums and products take subnormal F32s for 0, remainders are taken of
 * their digits, as integers, eight bits of the quotient at a time.
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

/* ---- without subnormal numbers ---- */

#define FRACTION 23
#define BIAS     (127 + FRACTION)
#define INF      0x7f800000
#define STEP     8 /* digits and a step are 32 bits at most */

/* An F32's bits without the sign are m 2^(e - BIAS), m a whole number. */
static const struct uop *
whole_digits(const struct dec *d, const struct uop *size,
             const struct uop **out_e)
{
    const struct uop *e = dec_opi(d, UOP_SHR, size, FRACTION), *m;
    const struct uop *is_small = dec_opi(d, UOP_CMPEQ, e, 0);

    m = dec_opi(d, UOP_AND, size, (1 << FRACTION) - 1);
    m = dec_where(d, is_small, m, dec_opi(d, UOP_OR, m, 1 << FRACTION));
    e = dec_where(d, is_small, dec_int(d, size, UOP_U32, 1), e);
    *out_e = dec_bits(d, e, UOP_I32);
    return m;
}

/* How many steps make up for the greatest difference of exponents. */
static int
count_steps(const struct uop *x, const struct uop *y)
{
    int low, high, unused, gap;

    find_exponents(x, &unused, &high);
    find_exponents(y, &low, &unused);
    gap = high + 126 - (low + 127 > 1 ? low + 127 : 1);
    return gap > STEP ? (gap + STEP - 1) / STEP : 1;
}

/* m 2^(e - BIAS), which is a float, as its bits. */
static const struct uop *
float_of_digits(const struct dec *d, const struct uop *m, const struct uop *e)
{
    const struct uop *f = dec_bits(d, uop_cast(d->g, m, UOP_F32), UOP_I32);
    const struct uop *field, *normal, *low, *is_low;

    e = dec_opi(d, UOP_SUB, e, BIAS);
    field = dec_add(d, dec_opi(d, UOP_SHR, f, FRACTION), e);
    normal = dec_add(d, f, dec_opi(d, UOP_SHL, e, FRACTION));
    /* its unit is 2^(1 - BIAS) */
    low = dec_opi(d, UOP_MIN, dec_opi(d, UOP_ADD, e, BIAS - 1), FRACTION);
    low = dec_op2(d, UOP_SHL, m, dec_bits(d, low, UOP_U32));
    is_low = dec_op2(d, UOP_OR, dec_opi(d, UOP_CMPLT, field, 1),
                     dec_opi(d, UOP_CMPEQ, m, 0));
    return dec_where(d, is_low, low, dec_bits(d, normal, UOP_U32));
}

static const struct uop *
fmod_of_digits(const struct dec *d, const struct uop *x, const struct uop *y)
{
    const struct uop *bits = dec_bits(d, x, UOP_U32), *sign, *a, *b, *gap, *r;
    const struct uop *m, *e, *e_y, *left, *by, *bad;
    int i, n_steps = count_steps(x, y);

    assert(dec_is(d, x, UOP_F32) && dec_is(d, y, UOP_F32));
    sign = dec_opi(d, UOP_AND, bits, (int64_t)0x80000000);
    a = dec_op2(d, UOP_XOR, bits, sign);
    b = dec_opi(d, UOP_AND, dec_bits(d, y, UOP_U32), INT32_MAX);
    r = whole_digits(d, a, &e);
    m = whole_digits(d, b, &e_y);
    m = dec_opi(d, UOP_MAX, m, 1);
    left = gap = dec_sub(d, e, e_y);
    for (i = 0; i < n_steps; i++) {
        by = dec_opi(d, UOP_MAX, dec_opi(d, UOP_MIN, left, STEP), 0);
        r = dec_op2(d, UOP_SHL, r, dec_bits(d, by, UOP_U32));
        r = dec_op2(d, UOP_IMOD, r, m);
        left = dec_sub(d, left, by);
    }
    r = float_of_digits(d, r, e_y);
    r = dec_where(d, dec_opi(d, UOP_CMPLT, gap, 0), a, r);
    r = dec_op2(d, UOP_OR, r, sign);
    /* of infinities and NaNs, and by 0 */
    bad = dec_op2(d, UOP_CMPLT, dec_int(d, a, UOP_U32, INF - 1), a);
    bad = dec_op2(d, UOP_OR, bad,
                  dec_op2(d, UOP_CMPLT, dec_int(d, b, UOP_U32, INF), b));
    bad = dec_op2(d, UOP_OR, bad, dec_opi(d, UOP_CMPEQ, b, 0));
    r = dec_where(d, bad, dec_int(d, a, UOP_U32, 0x7fc00000), r);
    return dec_bits(d, r, UOP_F32);
}

/* A whole number of x's or y's sign. */
static const struct uop *
signed_digits(const struct dec *d, const struct uop *x,
              const struct uop **out_e)
{
    const struct uop *bits = dec_bits(d, x, UOP_U32), *sign, *m;

    sign = dec_opi(d, UOP_AND, bits, (int64_t)0x80000000);
    m = whole_digits(d, dec_op2(d, UOP_XOR, bits, sign), out_e);
    m = dec_bits(d, uop_cast(d->g, m, UOP_F32), UOP_U32);
    return dec_bits(d, dec_op2(d, UOP_OR, m, sign), UOP_F32);
}

/* Both times the same power of two, the divisor a whole number. Quotients
 * beyond 2^70 and below 2^-70 stay so and are otherwise of no matter. */
static void
scale_both(const struct dec *d, const struct uop **x, const struct uop **y)
{
    const struct uop *e_x, *e_y, *a = signed_digits(d, *x, &e_x), *power;

    *y = signed_digits(d, *y, &e_y);
    power = dec_sub(d, e_x, e_y);
    power = dec_opi(d, UOP_MAX, dec_opi(d, UOP_MIN, power, 100), -100);
    power = dec_opi(d, UOP_SHL, dec_opi(d, UOP_ADD, power, 127), FRACTION);
    *x = dec_mul(d, a, dec_bits(d, power, UOP_F32));
}

/* ---- */

const struct uop *
dec_fmod(const struct dec *d, const struct uop *x, const struct uop *y)
{
    const struct uop *inf = dec_float(d, x, x->dtype, INFINITY), *r, *b, *t;
    const struct uop *zero = dec_float(d, x, x->dtype, 0), *sign, *by;
    bool is_f64 = x->dtype == UOP_F64;
    enum uop_dtype bits = is_f64 ? UOP_U64 : UOP_U32;
    int low, high, unused, step, i;

    assert(dec_is_wide_float(d, x));
    if (!is_f64 && d->target->flushes_f32)
        return fmod_of_digits(d, x, y);
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
    const struct uop *a = x, *b = y;

    assert(dec_is_wide_float(d, x));
    if (x->dtype == UOP_F32 && d->target->flushes_f32)
        scale_both(d, &a, &b);
    t = dec_op1(d, UOP_TRUNC, dec_op2(d, UOP_FDIV, x, y));
    r = left_over(d, a, t, b);
    r = dec_where(d, dec_op2(d, UOP_CMPEQ, magnitude(d, y), inf), x, r);
    low = dec_where(d, dec_op2(d, UOP_CMPLT, y, zero),
                    dec_op2(d, UOP_CMPLT, zero, r),
                    dec_op2(d, UOP_CMPLT, r, zero));
    t = dec_where(d, low, dec_opf(d, UOP_ADD, t, -1), t);
    /* an infinity has no whole quotient, but divided by 0 it is one itself */
    no = dec_op2(d, UOP_AND, dec_op2(d, UOP_CMPEQ, magnitude(d, x), inf),
                 dec_op2(d, UOP_CMPNE, y, zero));
    return dec_where(d, no, dec_float(d, x, x->dtype, (double)NAN), t);
}
