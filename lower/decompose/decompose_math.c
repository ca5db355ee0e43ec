/* exp2 and log2.
 *
 * Both split the argument into a whole number, which is exponent arithmetic,
 * and a rest near 0, which is a polynomial. Polynomials are minimax for the
 * relative error of the function (Remez, in 200 bits); "2^-29" at one is that
 * error. Rounding to whole numbers adds and subtracts 1.5 * 2^(fraction bits),
 * after which the low bits are the number as an integer.
 */
#include "lower/decompose/decompose_internal.h"

#include <assert.h>
#include <math.h>

/* What differs between F32 and F64. */
struct float_format {
    enum uop_dtype dtype, as_int;
    int fraction_bits;
    int64_t one;       /* bits of 1.0 */
    int64_t half_sqrt; /* bits of sqrt(1/2) */
    double magic;      /* 1.5 * 2^fraction_bits */
    double min_normal;
    double exp_min, exp_max; /* 2^x is 0 below and infinite above */
    double ln2_hi, ln2_lo;   /* times n the first is exact */
};

static const struct float_format f32_format = {
    UOP_F32,  UOP_I32, 23,  0x3f800000, 0x3f3504f3,     0x1.8p23,
    0x1p-126, -151,    129, 0x1.63p-1,  -0x1.bd0106p-13};
static const struct float_format f64_format = {UOP_F64,
                                               UOP_I64,
                                               52,
                                               0x3ff0000000000000,
                                               0x3fe6a09e667f3bcd,
                                               0x1.8p52,
                                               0x1p-1022,
                                               -1077,
                                               1025,
                                               0x1.62e42feep-1,
                                               0x1.a39ef35793c76p-33};

/* (2^f - 1) / f on [-1/2, 1/2]; 2^-28.9 */
static const double exp2_f32[6] = {0x1.62e43p-1,   0x1.ebfbdcp-3,
                                   0x1.c6aee8p-5,  0x1.3b2d4cp-7,
                                   0x1.5f3e52p-10, 0x1.41fbb4p-13};
/* the same; 2^-58 */
static const double exp2_f64[11] = {
    0x1.62e42fefa39efp-1,  0x1.ebfbdff82c5a4p-3,  0x1.c6b08d7049fe8p-5,
    0x1.3b2ab6fba011ap-7,  0x1.5d87fe78cd6dcp-10, 0x1.4309130ed8bc8p-13,
    0x1.ffcbfba97c6d7p-17, 0x1.62bfc79d7642ap-20, 0x1.b5267cea5f68ep-24,
    0x1.e61b4f5049cdcp-28, 0x1.e79ba5e93da52p-32};

/* (e^r - 1) / r on [-ln(2)/2, ln(2)/2]; 2^-26.5, 2^-58 */
static const double exp_f32[6] = {1,
                                  0x1.fffffep-2,
                                  0x1.55547ep-3,
                                  0x1.555652p-5,
                                  0x1.123cd6p-7,
                                  0x1.6c16a6p-10};
static const double exp_f64[11] = {1,
                                   0x1.000000000000bp-1,
                                   0x1.55555555554b4p-3,
                                   0x1.555555555018cp-5,
                                   0x1.111111112f84dp-7,
                                   0x1.6c16c1855c881p-10,
                                   0x1.a01a0111c6c6bp-13,
                                   0x1.a01997577f3fcp-16,
                                   0x1.71df48d2f731bp-19,
                                   0x1.28af9b7a15e44p-22,
                                   0x1.ad596ce39d5cep-26};

/* (log2(1+f) - f/ln 2) / f^2 on [sqrt(1/2)-1, sqrt(2)-1]; 2^-27.9 */
static const double log2_f32[9] = {
    -0x1.71547p-1,  0x1.ec7096p-2,  -0x1.715a72p-2,
    0x1.277e3cp-2,  -0x1.eabd0ep-3, 0x1.a30598p-3,
    -0x1.87485ap-3, 0x1.7d478p-3,   -0x1.c26434p-4};

/* With s = f/(2+f) and z = s^2: (log(1+f) - 2s) / (s*z); 2^-37.6, 2^-66.7 */
static const double log_4[4] = {0x1.555554fd9c525p-1, 0x1.999a7a8ba58c5p-2,
                                0x1.2438d76a648aap-2, 0x1.e2f6697708953p-3};
static const double log_8[8] = {0x1.5555555555555p-1, 0x1.9999999999dfep-2,
                                0x1.249249242b50fp-2, 0x1.c71c7258eafd0p-3,
                                0x1.745cde3b859c6p-3, 0x1.3b20aa8b51071p-3,
                                0x1.0f5ce01d9adefp-3, 0x1.0f623e6d647d8p-3};
/* the same where the first is 2/3 in two parts; 2^-66.4 */
static const double log_9[9] = {
    0x1.5555555555555p-1, 0x1.999999999999ap-2, 0x1.2492492492521p-2,
    0x1.c71c71c6eaa10p-3, 0x1.745d177a96056p-3, 0x1.3b1395d2190c1p-3,
    0x1.1118c7e4b0917p-3, 0x1.df7cc8e5fa539p-4, 0x1.e02e6fff27908p-4};

/* x, cut to where its exponential is neither 0 nor infinite, and a little
 * more; *out_small: is it far below 0? */
static const struct uop *
cut_exponent(const struct dec *d, const struct uop *x, double min, double max,
             const struct uop **out_small)
{
    x = dec_opf(d, UOP_MAX, x, min);
    x = dec_opf(d, UOP_MIN, x, max);
    *out_small = dec_opf(d, UOP_CMPLT, x, min / 2);
    return x;
}

/* p * 2^n, n + magic being t. The factor 2^n goes on as 2^(n+k) and 2^-k: with
 * k chosen by whether n is great or small, the first is a normal number, so
 * that a subnormal result is rounded once and infinity comes of itself. */
static const struct uop *
scale_exp(const struct dec *d, const struct float_format *fmt,
          const struct uop *t, const struct uop *p, const struct uop *small)
{
    const struct uop *scale, *k, *back, *x = t;
    int shift = fmt->fraction_bits, up = 2 * shift; /* k, of small n */

    /* n is in the low bits of t; all others leave at the top */
    scale = dec_opi(d, UOP_SHL, dec_bits(d, t, fmt->as_int), shift);
    k = dec_where(d, small,
                  dec_int(d, x, fmt->as_int, fmt->one + ((int64_t)up << shift)),
                  dec_int(d, x, fmt->as_int, fmt->one - ((int64_t)1 << shift)));
    scale = dec_bits(d, dec_add(d, scale, k), fmt->dtype);
    back = dec_where(d, small, dec_float(d, x, fmt->dtype, exp2(-up)),
                     dec_float(d, x, fmt->dtype, 2.0));
    return dec_mul(d, dec_mul(d, p, scale), back);
}

/* (1 + f P(f)) * 2^n, n + magic being t. */
static const struct uop *
finish_exp(const struct dec *d, const struct float_format *fmt,
           const struct uop *t, const struct uop *f, const struct uop *small,
           const double *poly, unsigned n_poly)
{
    const struct uop *p;

    assert(n_poly > 0);
    p = dec_poly(d, f, fmt->dtype, poly, n_poly);
    p = dec_madd(d, f, p, dec_float(d, t, fmt->dtype, 1.0));
    return scale_exp(d, fmt, t, p, small);
}

/* x = n + f: *out_t is n + magic, *out_small whether n is far below 0. */
static const struct uop *
split_exponent(const struct dec *d, const struct float_format *fmt,
               const struct uop *x, const struct uop **out_t,
               const struct uop **out_small)
{
    const struct uop *magic;

    assert(dec_is_wide_float(d, x));
    x = cut_exponent(d, x, fmt->exp_min, fmt->exp_max, out_small);
    magic = dec_float(d, x, fmt->dtype, fmt->magic);
    *out_t = dec_add(d, x, magic);
    return dec_sub(d, x, dec_sub(d, *out_t, magic));
}

/* 2^x = 2^n * 2^f. */
static const struct uop *
exp2_core(const struct dec *d, const struct float_format *fmt,
          const struct uop *x, const double *poly, unsigned n_poly)
{
    const struct uop *t, *small, *f = split_exponent(d, fmt, x, &t, &small);

    return finish_exp(d, fmt, t, f, small, poly, n_poly);
}

/* e^x = 2^n * e^r, r = x - n ln(2). */
static const struct uop *
exp_core(const struct dec *d, const struct float_format *fmt,
         const struct uop *x, const double *poly, unsigned n_poly)
{
    const struct uop *magic, *t, *n, *r, *small;

    assert(dec_is_wide_float(d, x));
    x = cut_exponent(d, x, fmt->exp_min * M_LN2, fmt->exp_max * M_LN2, &small);
    magic = dec_float(d, x, fmt->dtype, fmt->magic);
    t = dec_madd(d, x, dec_float(d, x, fmt->dtype, M_LOG2E), magic);
    n = dec_sub(d, t, magic);
    r = dec_madd(d, n, dec_float(d, x, fmt->dtype, -fmt->ln2_hi), x);
    r = dec_madd(d, n, dec_float(d, x, fmt->dtype, -fmt->ln2_lo), r);
    return finish_exp(d, fmt, t, r, small, poly, n_poly);
}

/* The value that all lanes have; NaN where it is none that is known. */
static double
float_value(const struct uop *u)
{
    if (u->op == UOP_BROADCAST)
        u = u->src[0];
    return u->op == UOP_CONST ? u->arg.f : NAN;
}

/* y where u is y times log2(e), or minus that; else NULL. The rounding of
 * that product would be in the result as often as the result is long. */
static const struct uop *
find_exponent(const struct dec *d, const struct uop *u)
{
    double log2e = u->dtype == UOP_F64 ? M_LOG2E : (double)(float)M_LOG2E;
    unsigned i;

    for (i = 0; i < 2 && u->op == UOP_MUL; i++) {
        double factor = float_value(u->src[i]);
        if (factor == log2e)
            return u->src[1 - i];
        if (factor == -log2e)
            return dec_op1(d, UOP_NEG, u->src[1 - i]);
    }
    return NULL;
}

const struct uop *
dec_exp2(const struct dec *d, const struct uop *x)
{
    const struct uop *y = find_exponent(d, x);

    assert(dec_is_wide_float(d, x));
    if (y && x->dtype == UOP_F64)
        return exp_core(d, &f64_format, y, exp_f64, 11);
    if (y)
        return exp_core(d, &f32_format, y, exp_f32, 6);
    if (x->dtype == UOP_F64)
        return exp2_core(d, &f64_format, x, exp2_f64, 11);
    return exp2_core(d, &f32_format, x, exp2_f32, 6);
}

const struct uop *
dec_exp2_short(const struct dec *d, const struct uop *p)
{
    return exp2_core(d, &f64_format, p, exp2_f32, 6);
}

/* x = (1 + f) * 2^e with 1 + f in [sqrt(1/2), sqrt(2)); subnormals first
 * become normal. *out_e is a float. */
static const struct uop *
split_log(const struct dec *d, const struct float_format *fmt,
          const struct uop *x, const struct uop **out_e)
{
    double up = fmt->fraction_bits + 1;
    const struct uop *small = dec_opf(d, UOP_CMPLT, x, fmt->min_normal);
    const struct uop *bits, *e, *m, *shift, *larger;

    assert(dec_is_wide_float(d, x));
    if (fmt->dtype == UOP_F32 && d->target->flushes_f32) {
        /* a product would be 0; the bits are a whole number of units */
        larger = uop_cast(d->g, dec_bits(d, x, fmt->as_int), UOP_F32);
        up = fmt->fraction_bits - uop_dtype_infos[UOP_F32].min_exp;
    } else {
        larger = dec_opf(d, UOP_MUL, x, exp2(up));
    }
    x = dec_where(d, small, larger, x);
    shift = dec_where(d, small, dec_float(d, x, fmt->dtype, -up),
                      dec_float(d, x, fmt->dtype, 0));
    bits = dec_bits(d, x, fmt->as_int);
    e = dec_opi(d, UOP_SUB, bits, fmt->half_sqrt);
    e = dec_opi(d, UOP_SHR, e, fmt->fraction_bits);
    m = dec_sub(d, bits, dec_opi(d, UOP_SHL, e, fmt->fraction_bits));
    m = dec_bits(d, m, fmt->dtype);
    *out_e = dec_add(d, uop_cast(d->g, e, fmt->dtype), shift);
    return dec_opf(d, UOP_SUB, m, 1.0);
}

/* f/ln 2 + q without a multiply-add: the greater part of the product is made
 * exact by factors of 12 bits each. */
static const struct uop *
add_scaled_exactly(const struct dec *d, const struct uop *f,
                   const struct uop *q)
{
    const struct uop *hi, *lo;

    assert(dec_is(d, f, UOP_F32) && dec_is(d, q, UOP_F32));
    hi = dec_opi(d, UOP_AND, dec_bits(d, f, UOP_U32), 0xfffff000);
    hi = dec_bits(d, hi, UOP_F32);
    lo = dec_opf(d, UOP_MUL, dec_sub(d, f, hi), M_LOG2E);
    lo = dec_add(d, lo, dec_opf(d, UOP_MUL, hi, 0x1.47652cp-12));
    return dec_add(d, dec_opf(d, UOP_MUL, hi, 0x1.714p+0), dec_add(d, lo, q));
}

/* e + f/ln 2 + f^2*Q(f), the second with 1/ln 2 in two parts. */
static const struct uop *
log2_core_f32(const struct dec *d, const struct uop *x)
{
    const struct uop *e, *f = split_log(d, &f32_format, x, &e), *q, *y;

    assert(dec_is(d, x, UOP_F32));
    q = dec_poly(d, f, UOP_F32, log2_f32, 9);
    q = dec_mul(d, dec_mul(d, f, f), q);
    if (!d->target->has_fma)
        return dec_add(d, e, add_scaled_exactly(d, f, q));
    y = dec_madd(d, f, dec_float(d, f, UOP_F32, 0x1.4ae0cp-26), q);
    y = dec_madd(d, f, dec_float(d, f, UOP_F32, 0x1.715476p+0), y);
    return dec_add(d, e, y);
}

/* The rest of squaring, f*f - square, halved; or NULL where it would take a
 * multiply with one rounding. */
static const struct uop *
half_square_rest(const struct dec *d, const struct uop *f,
                 const struct uop *half_square)
{
    if (!d->target->has_fma)
        return NULL;
    return dec_madd(d, dec_opf(d, UOP_MUL, f, 0.5), f,
                    dec_op1(d, UOP_NEG, half_square));
}

/* log(1+f) = hi + lo, hi with the low half of its bits 0, so that it times
 * the upper part of 1/ln 2 is exact:
 * log(1+f) = f - (f^2/2 - s*(f^2/2 + R)), s = f/(2+f). */
static const struct uop *
log1p_parts(const struct dec *d, const struct uop *f, const struct uop **out_lo)
{
    const struct uop *s, *z, *r, *sq, *hi, *lo, *rest;

    s = dec_op2(d, UOP_FDIV, f, dec_opf(d, UOP_ADD, f, 2.0));
    z = dec_mul(d, s, s);
    r = dec_mul(d, z, dec_poly(d, z, UOP_F64, log_8, 8));
    sq = dec_mul(d, dec_opf(d, UOP_MUL, f, 0.5), f);
    hi = dec_bits(d, dec_sub(d, f, sq), UOP_U64);
    hi = dec_opi(d, UOP_AND, hi, (int64_t)0xffffffff00000000);
    hi = dec_bits(d, hi, UOP_F64);
    lo = dec_sub(d, dec_sub(d, f, hi), sq);
    rest = half_square_rest(d, f, sq);
    if (rest)
        lo = dec_sub(d, lo, rest);
    *out_lo = dec_madd(d, s, dec_add(d, sq, r), lo);
    return hi;
}

/* log2 of a positive, finite F64. */
static const struct uop *
log2_core_f64(const struct dec *d, const struct uop *x)
{
    const struct uop *e, *f = split_log(d, &f64_format, x, &e);
    const struct uop *hi, *lo, *c_hi, *c_lo, *w, *low;

    assert(dec_is(d, x, UOP_F64));
    c_hi = dec_float(d, x, UOP_F64, 0x1.71547p+0);
    c_lo = dec_float(d, x, UOP_F64, 0x1.94ae0bf85ddf4p-22);
    hi = log1p_parts(d, f, &lo);
    low = dec_mul(d, lo, c_hi);
    low = dec_madd(d, dec_add(d, lo, hi), c_lo, low);
    hi = dec_mul(d, hi, c_hi);
    w = dec_add(d, e, hi); /* |e| is 0 or at least as great */
    low = dec_add(d, low, dec_add(d, dec_sub(d, e, w), hi));
    return dec_add(d, w, low);
}

const struct uop *
dec_log2_short(const struct dec *d, const struct uop *x)
{
    const struct uop *e, *f = split_log(d, &f64_format, x, &e), *s, *z;

    assert(dec_is(d, x, UOP_F64));
    s = dec_op2(d, UOP_FDIV, f, dec_opf(d, UOP_ADD, f, 2.0));
    z = dec_mul(d, s, s);
    z = dec_mul(d, z, dec_poly(d, z, UOP_F64, log_4, 4));
    s = dec_mul(d, s, dec_opf(d, UOP_ADD, z, 2.0));
    return dec_madd(d, s, dec_float(d, x, UOP_F64, M_LOG2E), e);
}

/* ---- in two parts ---- */

/* What the sums in two parts need of a format beyond that. Pairs are a number
 * of the format and what it lacks. */
struct part_format {
    const struct float_format *fmt;
    enum uop_dtype bits;
    int64_t upper; /* mask: half of the fraction */
    const double *log, *exp2;
    unsigned n_log, n_exp2;
    double log_first[2], ln2[2], log2e[2];
};

static const struct part_format f32_parts = {
    .fmt = &f32_format,
    .bits = UOP_U32,
    .upper = 0xfffff000,
    .log = log_4,
    .exp2 = exp2_f32,
    .n_log = 4,
    .n_exp2 = 6,
    .log_first = {0x1.555554p-1, 0x1.fb38a4ap-26},
    .ln2 = {0x1.62e43p-1, -0x1.05c61p-29},
    .log2e = {0x1.715476p+0, 0x1.4ae0cp-26},
};
static const struct part_format f64_parts = {
    .fmt = &f64_format,
    .bits = UOP_U64,
    .upper = -((int64_t)1 << 27),
    .log = log_9,
    .exp2 = exp2_f64,
    .n_log = 9,
    .n_exp2 = 11,
    .log_first = {0x1.5555555555555p-1, 0x1.5555555555555p-55},
    .ln2 = {0x1.62e42fefa39efp-1, 0x1.abc9e3b39803fp-56},
    .log2e = {0x1.71547652b82fep+0, 0x1.777d0ffda0d24p-56},
};

static const struct part_format *
parts_of(const struct uop *x)
{
    return x->dtype == UOP_F64 ? &f64_parts : &f32_parts;
}

/* The upper half of a's fraction, and the rest. */
static const struct uop *
split_float(const struct dec *d, const struct uop *a, const struct uop **out_lo)
{
    const struct part_format *parts = parts_of(a);
    const struct uop *hi;

    hi = dec_opi(d, UOP_AND, dec_bits(d, a, parts->bits), parts->upper);
    hi = dec_bits(d, hi, a->dtype);
    *out_lo = dec_sub(d, a, hi);
    return hi;
}

const struct uop *
dec_two_product(const struct dec *d, const struct uop *a, const struct uop *b,
                const struct uop **out_lo)
{
    const struct uop *p = dec_mul(d, a, b), *a_hi, *a_lo, *b_hi, *b_lo, *lo;

    if (d->target->has_fma) {
        *out_lo = dec_madd(d, a, b, dec_op1(d, UOP_NEG, p));
        return p;
    }
    a_hi = split_float(d, a, &a_lo);
    b_hi = split_float(d, b, &b_lo);
    lo = dec_sub(d, dec_mul(d, a_hi, b_hi), p);
    lo = dec_add(d, lo, dec_mul(d, a_hi, b_lo));
    lo = dec_add(d, lo, dec_mul(d, a_lo, b_hi));
    *out_lo = dec_add(d, lo, dec_mul(d, a_lo, b_lo));
    return p;
}

/* a + b and what rounding lost, a being 0, at least as great, or a whole number
 * of units in b's last place. */
static const struct uop *
two_sum(const struct dec *d, const struct uop *a, const struct uop *b,
        const struct uop **out_lo)
{
    const struct uop *sum = dec_add(d, a, b);

    *out_lo = dec_sub(d, b, dec_sub(d, sum, a));
    return sum;
}

/* (a + a_lo) (b + b_lo) */
static const struct uop *
multiply_parts(const struct dec *d, const struct uop *a, const struct uop *a_lo,
               const struct uop *b, const struct uop *b_lo,
               const struct uop **out_lo)
{
    const struct uop *p = dec_two_product(d, a, b, out_lo), *cross;

    cross = dec_add(d, dec_mul(d, a, b_lo), dec_mul(d, a_lo, b));
    *out_lo = dec_add(d, *out_lo, cross);
    return p;
}

/* As the short form, log(1+f) = s (2 + z P(z)), but that all are in two parts:
 * the terms behind P's first are small enough for one. */
const struct uop *
dec_log2_parts(const struct dec *d, const struct uop *x,
               const struct uop **out_lo)
{
    const struct part_format *parts = parts_of(x);
    enum uop_dtype dtype = x->dtype;
    const struct uop *e, *f = split_log(d, parts->fmt, x, &e), *den, *den_lo;
    const struct uop *s, *s_lo, *z, *z_lo, *p, *p_lo, *u, *u_lo, *q;

    assert(dec_is_wide_float(d, x));
    den = dec_opf(d, UOP_ADD, f, 2.0);
    den_lo = dec_sub(d, f, dec_opf(d, UOP_SUB, den, 2.0));
    s = dec_op2(d, UOP_FDIV, f, den);
    p = dec_two_product(d, s, den, &p_lo);
    p = dec_sub(d, dec_sub(d, f, p), p_lo);
    p = dec_sub(d, p, dec_mul(d, s, den_lo));
    s_lo = dec_op2(d, UOP_FDIV, p, den);
    z = multiply_parts(d, s, s_lo, s, s_lo, &z_lo);
    q = dec_poly(d, z, dtype, parts->log + 1, parts->n_log - 1);
    q = dec_mul(d, z, q);
    p = two_sum(d, dec_float(d, x, dtype, parts->log_first[0]), q, &p_lo);
    p_lo = dec_opf(d, UOP_ADD, p_lo, parts->log_first[1]);
    u = multiply_parts(d, z, z_lo, p, p_lo, &u_lo);
    p = two_sum(d, dec_float(d, x, dtype, 2.0), u, &p_lo);
    p_lo = dec_add(d, p_lo, u_lo);
    u = multiply_parts(d, s, s_lo, p, p_lo, &u_lo);
    p = multiply_parts(d, u, u_lo, dec_float(d, x, dtype, parts->log2e[0]),
                       dec_float(d, x, dtype, parts->log2e[1]), &p_lo);
    u = two_sum(d, e, p, &u_lo);
    return two_sum(d, u, dec_add(d, u_lo, p_lo), out_lo);
}

/* 2^f = 1 + f ln 2 + f^2 P(f), where f is in two parts and so is f ln 2: what
 * is rounded before the last sum is small, and a result that the format holds
 * is met. */
const struct uop *
dec_exp2_parts(const struct dec *d, const struct uop *x, const struct uop *low)
{
    const struct part_format *parts = parts_of(x);
    const struct float_format *fmt = parts->fmt;
    enum uop_dtype dtype = x->dtype;
    const struct uop *t, *small, *f = split_exponent(d, fmt, x, &t, &small);
    const struct uop *ln2 = dec_float(d, x, dtype, parts->ln2[0]);
    const struct uop *f_lo, *u, *u_lo, *p, *p_lo, *q;

    assert(dec_is_wide_float(d, x) && dec_is(d, low, x->dtype));
    f = two_sum(d, f, low, &f_lo);
    q = dec_poly(d, f, dtype, parts->exp2 + 1, parts->n_exp2 - 1);
    q = dec_mul(d, dec_mul(d, f, f), q);
    u = multiply_parts(d, f, f_lo, ln2, dec_float(d, x, dtype, parts->ln2[1]),
                       &u_lo);
    p = two_sum(d, dec_float(d, x, dtype, 1), u, &p_lo);
    p = dec_add(d, p, dec_add(d, dec_add(d, p_lo, u_lo), q));
    return scale_exp(d, fmt, t, p, small);
}

/* Puts in what log2 is of infinity, zero, negative numbers and NaN. */
static const struct uop *
log2_specials(const struct dec *d, const struct uop *x, const struct uop *y)
{
    enum uop_dtype dtype = x->dtype;
    const struct uop *zero = dec_float(d, x, dtype, 0);
    const struct uop *inf = dec_float(d, x, dtype, INFINITY), *other;

    y = dec_where(d, dec_op2(d, UOP_CMPEQ, x, inf), inf, y);
    other = dec_where(d, dec_op2(d, UOP_CMPEQ, x, zero),
                      dec_float(d, x, dtype, -INFINITY),
                      dec_float(d, x, dtype, NAN));
    return dec_where(d, dec_op2(d, UOP_CMPLT, zero, x), y, other);
}

const struct uop *
dec_log2(const struct dec *d, const struct uop *x)
{
    const struct uop *y;

    assert(dec_is_wide_float(d, x));
    y = x->dtype == UOP_F64 ? log2_core_f64(d, x) : log2_core_f32(d, x);
    return log2_specials(d, x, y);
}
