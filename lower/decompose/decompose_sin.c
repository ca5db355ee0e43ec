/* sin and cos, over the whole range.
 *
 * |x| = k * pi/2 + r with |r| <= pi/4; k mod 4 (for cos, k + 1) chooses sin or
 * cos of r and the sign. Up to a bound, r comes from subtracting k times pi/2
 * given in parts (Cody and Waite).
 *
 * Beyond it the bits of 2/pi that matter for x's exponent are multiplied by x's
 * fraction as integers (Payne and Hanek): the bits above them only add
 * multiples of 4 to k, and the bits below them are too small to count. A WHERE
 * takes what is beyond as its first value, so that programs branch around it
 * (lower/branch.c).
 */
#include "lower/decompose/decompose_internal.h"

#include <assert.h>
#include <math.h>

/* (sin r / r - 1) / r^2 and (cos r - 1 + r^2/2) / r^4 as polynomials in r^2,
 * |r| <= pi/4; 2^-28, 2^-33; 2^-58, 2^-64 */
static const double sin_f32[3] = {-0x1.555546p-3, 0x1.11076p-7,
                                  -0x1.994e5ap-13};
static const double cos_f32[3] = {0x1.55554ap-5, -0x1.6c0c8ap-10,
                                  0x1.9a020ap-16};
static const double sin_f64[6] = {
    -0x1.5555555555549p-3, 0x1.111111110f87ap-7,   -0x1.a01a019c11971p-13,
    0x1.71de3577b53bep-19, -0x1.ae5e6639e26bap-26, 0x1.5d9300e1207f8p-33};
static const double cos_f64[6] = {
    0x1.555555555554cp-5,   -0x1.6c16c16c1517ep-10, 0x1.a01a019cb1bddp-16,
    -0x1.27e4f809f0bd4p-22, 0x1.1ee9ebe944060p-29,  -0x1.8fae9c8350bb2p-37};

/* The bits of 2/pi, after 12 and after 34 zeros. */
static const uint64_t two_over_pi_f32[4] = {
    0x000a2f9836e4e441, 0x529fc2757d1f534d, 0xdc0db6295993c439,
    0x041fe5163abdebbc};
static const uint64_t two_over_pi_f64[19] = {
    0x0000000028be60db, 0x9391054a7f09d5f4, 0x7d4d377036d8a566,
    0x4f10e4107f9458ea, 0xf7aef1586dc91b8e, 0x909374b801924bba,
    0x827464873f877ac7, 0x2c4a69cfba208d7d, 0x4baed1213a671c09,
    0xad17df904e64758e, 0x60d4ce7d272117e2, 0xef7e4a0ec7fe25ff,
    0xf7816603fbcbc462, 0xd6829b47db4d9fb3, 0xc9f2c26dd3d18fd9,
    0xa797fa8b5d49eeb1, 0xfaf97c5ecf41ce7d, 0xe294a4ba9afed7ec,
    0x47e357421580cc11};

#define TWO_OVER_PI 0x1.45f306dc9c883p-1
#define HALF_PI     0x1.921fb54442d18p+0

/* An argument reduced: r, and k as an integer whose low two bits count. */
struct reduced {
    const struct uop *r, *k;
};

static const struct uop *
u64(const struct dec *d, const struct uop *like, uint64_t value)
{
    return dec_int(d, like, UOP_U64, (int64_t)value);
}

/* ---- up to the bound ---- */

/* r -= k * part for each part, rounded once each: the differences are exact
 * while they are large and as good as r's own precision when they are not. */
static const struct uop *
subtract_parts(const struct dec *d, const struct uop *x, const struct uop *k,
               const double part[3])
{
    enum uop_dtype dtype = x->dtype;
    const struct uop *minus_k = dec_op1(d, UOP_NEG, k);
    unsigned i;

    for (i = 0; i < 3; i++)
        x = dec_madd(d, minus_k, dec_float(d, x, dtype, part[i]), x);
    return x;
}

/* a - b, and in *rest what rounding took from it, where b is smaller or the
 * difference exact. */
static const struct uop *
subtract_all(const struct dec *d, const struct uop *a, const struct uop *b,
             const struct uop **rest)
{
    const struct uop *r = dec_sub(d, a, b);

    *rest = dec_sub(d, dec_sub(d, a, r), b);
    return r;
}

/* F32 alone, without a multiply-add: pi/2 in parts of 11 bits, whose products
 * with k are exact, and the rest. The first two differences are exact. Each of
 * the next two is exact where little of it is left; else the part that it loses
 * is subtracted with the last one. */
static const struct uop *
subtract_short_parts(const struct dec *d, const struct uop *x,
                     const struct uop *k)
{
    static const double parts[5] = {0x1.92p+0, 0x1.fb4p-12, 0x1.444p-24,
                                    0x1.68cp-39, 0x1.1a6264p-54};
    const struct uop *lost[2], *low;
    unsigned i;

    for (i = 0; i < 2; i++)
        x = dec_sub(d, x, dec_opf(d, UOP_MUL, k, parts[i]));
    for (i = 0; i < 2; i++)
        x = subtract_all(d, x, dec_opf(d, UOP_MUL, k, parts[2 + i]), &lost[i]);
    low = dec_opf(d, UOP_MUL, k, parts[4]);
    low = dec_sub(d, dec_sub(d, low, lost[1]), lost[0]);
    return dec_sub(d, x, low);
}

/* The bounds, 2^13 and 2^20, keep k small enough for its product with a part
 * to be exact where there is no multiply-add. */
static struct reduced
reduce_small_angle(const struct dec *d, const struct uop *x)
{
    static const double parts_f32[3] = {0x1.921fb6p+0, -0x1.777a5cp-25,
                                        -0x1.ee59dap-50};
    static const double parts_f64[3] = {HALF_PI, 0x1.1a62633145c07p-54,
                                        -0x1.f1976b7ed8fbcp-110};
    static const double parts_33[3] = {0x1.921fb544p+0, 0x1.0b4611a6p-34,
                                       0x1.3198a2e037073p-69};
    bool is_f64 = x->dtype == UOP_F64, fma = d->target->has_fma;
    enum uop_dtype dtype = x->dtype;
    const struct uop *magic, *t, *k;
    struct reduced out;

    magic = dec_float(d, x, dtype, is_f64 ? 0x1.8p52 : 0x1.8p23);
    t = dec_madd(d, x, dec_float(d, x, dtype, TWO_OVER_PI), magic);
    k = dec_sub(d, t, magic);
    if (fma || is_f64) {
        const double *parts = !is_f64 ? parts_f32 : fma ? parts_f64 : parts_33;
        out.r = subtract_parts(d, x, k, parts);
    } else if (d->target->lacks_f64) {
        out.r = subtract_short_parts(d, x, k);
    } else {
        out.r = subtract_parts(d, uop_cast(d->g, x, UOP_F64),
                               uop_cast(d->g, k, UOP_F64), parts_33);
        out.r = uop_cast(d->g, out.r, UOP_F32);
    }
    out.k = dec_bits(d, t, is_f64 ? UOP_U64 : UOP_U32);
    return out;
}

/* ---- beyond it ---- */

/* 64 bits from bit b (0..63) of the 128 in a, b. */
static const struct uop *
window(const struct dec *d, const struct uop *hi, const struct uop *lo,
       const struct uop *b, const struct uop *b_inv)
{
    const struct uop *left = dec_op2(d, UOP_SHL, hi, b);
    const struct uop *right = dec_opi(d, UOP_SHR, lo, 1);

    return dec_op2(d, UOP_OR, left, dec_op2(d, UOP_SHR, right, b_inv));
}

/* Word i of the table, or word i + step where `cond`. */
static void
select_words(const struct dec *d, const struct uop *cond,
             const struct uop **word, unsigned n, unsigned step)
{
    unsigned i;

    for (i = 0; i < n; i++)
        word[i] = dec_where(d, cond, word[i + step], word[i]);
}

static const struct uop *
bit_set(const struct dec *d, const struct uop *a, int64_t bit)
{
    return dec_op2(d, UOP_CMPNE, dec_opi(d, UOP_AND, a, bit),
                   dec_int(d, a, UOP_U64, 0));
}

/* k = top two bits of the product, which has 62 (or, with the low word, 126)
 * behind the point, to the nearest; *out_rest is the signed rest. */
static const struct uop *
split_product(const struct dec *d, const struct uop *p,
              const struct uop **out_rest)
{
    const struct uop *k = dec_opi(d, UOP_ADD, p, (int64_t)1 << 61);

    k = dec_opi(d, UOP_SHR, k, 62);
    p = dec_sub(d, p, dec_opi(d, UOP_SHL, k, 62));
    *out_rest = dec_bits(d, p, UOP_I64);
    return k;
}

/* rest * pi/2 * 2^-62 as F32, rounded once but for a little: both factors in
 * two parts, the product of the greater ones exact. */
static const struct uop *
scale_rest(const struct dec *d, const struct uop *rest)
{
    const struct uop *all, *hi, *lo, *y;

    assert(dec_is(d, rest, UOP_I64));
    if (!d->target->lacks_f64) {
        rest = uop_cast(d->g, rest, UOP_F64);
        rest = dec_opf(d, UOP_MUL, rest, HALF_PI * 0x1p-62);
        return uop_cast(d->g, rest, UOP_F32);
    }
    all = uop_cast(d->g, rest, UOP_F32);
    hi = dec_opi(d, UOP_AND, dec_bits(d, all, UOP_U32), 0xfffff000);
    hi = dec_bits(d, hi, UOP_F32);
    lo = dec_sub(d, rest, uop_cast(d->g, hi, UOP_I64));
    lo = uop_cast(d->g, lo, UOP_F32);
    y = dec_opf(d, UOP_MUL, hi, -0x1.2aeef4p-80); /* pi/2 - 0x1.922p+0 */
    y = dec_add(d, y, dec_opf(d, UOP_MUL, lo, HALF_PI * 0x1p-62));
    return dec_add(d, dec_opf(d, UOP_MUL, hi, 0x1.922p-62), y);
}

/* F32: the exponent field e is 140..254, and the bits begin at e - 140. */
static struct reduced
reduce_large_f32(const struct dec *d, const struct uop *x)
{
    const struct uop *bits = dec_bits(d, x, UOP_U32), *m, *p, *b, *b_inv, *far;
    const struct uop *word[4], *hi, *mid, *rest;
    struct reduced out;
    unsigned i;

    assert(dec_is(d, x, UOP_F32));
    m = dec_opi(d, UOP_OR, dec_opi(d, UOP_AND, bits, 0x7fffff), 0x800000);
    m = uop_cast(d->g, m, UOP_U64);
    p = dec_opi(d, UOP_SUB, dec_opi(d, UOP_SHR, bits, 23), 140);
    p = uop_cast(d->g, p, UOP_U64);
    far = bit_set(d, p, 64);
    b = dec_opi(d, UOP_AND, p, 63);
    b_inv = dec_opi(d, UOP_XOR, b, 63);
    for (i = 0; i < 4; i++)
        word[i] = u64(d, x, two_over_pi_f32[i]);
    select_words(d, far, word, 3, 1);
    hi = window(d, word[0], word[1], b, b_inv);
    mid = window(d, word[1], word[2], b, b_inv);
    mid = dec_mul(d, m, dec_opi(d, UOP_SHR, mid, 32));
    p = dec_add(d, dec_mul(d, m, hi), dec_opi(d, UOP_SHR, mid, 32));
    out.k = uop_cast(d->g, split_product(d, p, &rest), UOP_U32);
    out.r = scale_rest(d, rest);
    return out;
}

/* High 64 bits of m * w, m below 2^53. */
static const struct uop *
mul_high(const struct dec *d, const struct uop *m, const struct uop *w)
{
    const struct uop *m_lo = dec_opi(d, UOP_AND, m, 0xffffffff);
    const struct uop *m_hi = dec_opi(d, UOP_SHR, m, 32);
    const struct uop *w_lo = dec_opi(d, UOP_AND, w, 0xffffffff);
    const struct uop *w_hi = dec_opi(d, UOP_SHR, w, 32);
    const struct uop *cross = dec_mul(d, m_lo, w_hi), *mid;

    assert(dec_is(d, m, UOP_U64) && dec_is(d, w, UOP_U64));
    mid = dec_opi(d, UOP_SHR, dec_mul(d, m_lo, w_lo), 32);
    mid = dec_add(d, mid, dec_opi(d, UOP_AND, cross, 0xffffffff));
    mid = dec_add(d, mid, dec_mul(d, m_hi, w_lo));
    mid = dec_add(d, dec_opi(d, UOP_SHR, mid, 32),
                  dec_opi(d, UOP_SHR, cross, 32));
    return dec_add(d, mid, dec_mul(d, m_hi, w_hi));
}

/* F64: the exponent field is 1043..2046, the bits begin at it - 1043; 192 of
 * them are used and the product's upper 128 kept. */
static struct reduced
reduce_large_f64(const struct dec *d, const struct uop *x)
{
    const struct uop *bits = dec_bits(d, x, UOP_U64), *m, *p, *b, *b_inv;
    const struct uop *word[19], *w[3], *hi, *lo, *low, *rest, *carry;
    struct reduced out;
    unsigned i;

    assert(dec_is(d, x, UOP_F64));
    m = dec_opi(d, UOP_AND, bits, 0xfffffffffffff);
    m = dec_opi(d, UOP_OR, m, (int64_t)1 << 52);
    p = dec_opi(d, UOP_SUB, dec_opi(d, UOP_SHR, bits, 52), 1043);
    b = dec_opi(d, UOP_AND, p, 63);
    b_inv = dec_opi(d, UOP_XOR, b, 63);
    for (i = 0; i < 19; i++)
        word[i] = u64(d, x, two_over_pi_f64[i]);
    select_words(d, bit_set(d, p, 512), word, 11, 8);
    select_words(d, bit_set(d, p, 256), word, 7, 4);
    select_words(d, bit_set(d, p, 128), word, 5, 2);
    select_words(d, bit_set(d, p, 64), word, 4, 1);
    for (i = 0; i < 3; i++)
        w[i] = window(d, word[i], word[i + 1], b, b_inv);
    low = mul_high(d, m, w[2]);
    lo = dec_add(d, dec_mul(d, m, w[1]), low);
    carry = uop_cast(d->g, dec_op2(d, UOP_CMPLT, lo, low), UOP_U64);
    hi = dec_add(d, dec_mul(d, m, w[0]), mul_high(d, m, w[1]));
    hi = dec_add(d, hi, carry);
    out.k = split_product(d, hi, &rest);
    rest = uop_cast(d->g, rest, UOP_F64);
    lo = uop_cast(d->g, lo, UOP_F64);
    rest = dec_madd(d, lo, dec_float(d, x, UOP_F64, 0x1p-64), rest);
    out.r = dec_opf(d, UOP_MUL, rest, HALF_PI * 0x1p-62);
    return out;
}

/* ---- */

/* sin r and cos r by polynomials; k's low bit says which. */
static const struct uop *
sin_or_cos(const struct dec *d, struct reduced a)
{
    enum uop_dtype dtype = a.r->dtype;
    bool is_f64 = dtype == UOP_F64;
    unsigned n = is_f64 ? 6 : 3;
    const struct uop *z = dec_mul(d, a.r, a.r), *s, *c, *odd;

    s = dec_poly(d, z, dtype, is_f64 ? sin_f64 : sin_f32, n);
    s = dec_madd(d, dec_mul(d, a.r, z), s, a.r);
    c = dec_poly(d, z, dtype, is_f64 ? cos_f64 : cos_f32, n);
    c = dec_madd(d, z, c, dec_float(d, z, dtype, -0.5));
    c = dec_madd(d, z, c, dec_float(d, z, dtype, 1.0));
    odd = dec_opi(d, UOP_AND, a.k, 1);
    odd = dec_op2(d, UOP_CMPNE, odd, dec_int(d, odd, odd->dtype, 0));
    return dec_where(d, odd, c, s);
}

const struct uop *
dec_sin_or_cos(const struct dec *d, enum uop_op op, const struct uop *x)
{
    bool is_f64 = x->dtype == UOP_F64;
    enum uop_dtype dtype = x->dtype;
    enum uop_dtype bits_dtype = is_f64 ? UOP_U64 : UOP_U32;
    int64_t sign_bit = is_f64 ? INT64_MIN : (int64_t)1 << 31;
    const struct uop *bits = dec_bits(d, x, bits_dtype), *size, *sign, *great,
                     *y;
    struct reduced a, far;

    assert(op == UOP_SIN || op == UOP_COS);
    assert(dec_is_wide_float(d, x));
    sign = dec_opi(d, UOP_AND, bits, sign_bit);
    size = dec_bits(d, dec_op2(d, UOP_XOR, bits, sign), dtype);
    a = reduce_small_angle(d, size);
    far = is_f64 ? reduce_large_f64(d, size) : reduce_large_f32(d, size);
    /* not NaN, for which nothing must be computed */
    great = dec_op2(
        d, UOP_CMPLT,
        dec_float(d, x, dtype, is_f64 ? 0x1.fffffffffffffp19 : 0x1.fffffep12),
        size);
    a.r = dec_where(d, great, far.r, a.r);
    a.k = dec_where(d, great, far.k, a.k);
    if (op == UOP_COS) /* which is even: a sine a quarter turn on */
        a.k = dec_opi(d, UOP_ADD, a.k, 1);
    y = sin_or_cos(d, a);
    a.k = dec_opi(d, UOP_SHL, dec_opi(d, UOP_AND, a.k, 2), is_f64 ? 62 : 30);
    sign = op == UOP_COS ? a.k : dec_op2(d, UOP_XOR, sign, a.k);
    y = dec_bits(d, dec_op2(d, UOP_XOR, dec_bits(d, y, bits_dtype), sign),
                 dtype);
    return dec_where(
        d, dec_op2(d, UOP_CMPLT, size, dec_float(d, x, dtype, INFINITY)), y,
        dec_float(d, x, dtype, NAN));
}

/* ---- results that are rounded to halves ---- */

/* (sin r / r - 1) / r^2 in r^2, |r| <= pi/2; 2^-19.8 */
static const double sin_rounded[3] = {-0x1.555112p-3, 0x1.107126p-7,
                                      -0x1.84dae8p-13};

#define ONE_OVER_PI 0x1.45f306dc9c883p-2
#define LAST_NEAR   0x1.fffffep12 /* as above */

/* x = k pi + r, |r| <= pi/2, k's lowest bit counting; of cos, k is from 1/2
 * on. */
static struct reduced
reduce_near_half_turns(const struct dec *d, enum uop_op op, const struct uop *x)
{
    double half = op == UOP_COS ? 0.5 : 0;
    const struct uop *magic = dec_float(d, x, UOP_F32, 0x1.8p23), *t, *k, *r;
    const struct uop *turns = dec_float(d, x, UOP_F32, ONE_OVER_PI);

    if (op == UOP_COS)
        t = dec_add(d, dec_madd(d, x, turns, dec_float(d, x, UOP_F32, half)),
                    magic);
    else
        t = dec_madd(d, x, turns, magic);
    k = dec_sub(d, t, magic);
    if (op == UOP_COS)
        k = dec_opf(d, UOP_SUB, k, half);
    k = dec_op1(d, UOP_NEG, k);
    r = dec_madd(d, k, dec_float(d, x, UOP_F32, 0x1.921fb6p+1), x);
    r = dec_madd(d, k, dec_float(d, x, UOP_F32, -0x1.777a5cp-24), r);
    return (struct reduced){r, dec_bits(d, t, UOP_U32)};
}

/* The same far from 0, from quarter turns of |x|; NaN of what is infinite. */
static struct reduced
reduce_far_half_turns(const struct dec *d, enum uop_op op, const struct uop *x,
                      const struct uop *size)
{
    struct reduced a = reduce_large_f32(d, size);
    const struct uop *zero = dec_float(d, x, UOP_F32, 0), *below, *r;

    if (op == UOP_COS)
        a.k = dec_opi(d, UOP_ADD, a.k, 1);
    below = dec_op2(d, UOP_CMPLT, a.r, zero);
    r = dec_where(d, below, dec_float(d, x, UOP_F32, HALF_PI),
                  dec_float(d, x, UOP_F32, -HALF_PI));
    r = dec_add(d, a.r, r);
    r = dec_where(d,
                  dec_op2(d, UOP_CMPEQ, dec_opi(d, UOP_AND, a.k, 1),
                          dec_int(d, x, UOP_U32, 0)),
                  a.r, r);
    below = dec_where(d, below, dec_int(d, x, UOP_U32, 0),
                      dec_int(d, x, UOP_U32, 1));
    a.k = dec_add(d, a.k, dec_op2(d, UOP_AND, a.k, below));
    a.k = dec_opi(d, UOP_SHR, a.k, 1);
    if (op == UOP_SIN)
        r = dec_where(d, dec_op2(d, UOP_CMPLT, x, zero), dec_op1(d, UOP_NEG, r),
                      r);
    a.r = dec_where(
        d, dec_op2(d, UOP_CMPLT, size, dec_float(d, x, UOP_F32, INFINITY)), r,
        dec_float(d, x, UOP_F32, NAN));
    return a;
}

const struct uop *
dec_sin_rounded(const struct dec *d, enum uop_op op, const struct uop *x)
{
    struct reduced a = reduce_near_half_turns(d, op, x), far;
    const struct uop *size, *great, *z, *y;

    assert(op == UOP_SIN || op == UOP_COS);
    assert(dec_is(d, x, UOP_F32) && d->target->has_fma);
    size = dec_opi(d, UOP_AND, dec_bits(d, x, UOP_U32), INT32_MAX);
    size = dec_bits(d, size, UOP_F32);
    far = reduce_far_half_turns(d, op, x, size);
    great = dec_op2(d, UOP_CMPLT, dec_float(d, x, UOP_F32, LAST_NEAR), size);
    a.r = dec_where(d, great, far.r, a.r);
    a.k = dec_where(d, great, far.k, a.k);
    z = dec_mul(d, a.r, a.r);
    y = dec_poly(d, z, UOP_F32, sin_rounded, 3);
    y = dec_madd(d, z, y, dec_float(d, x, UOP_F32, 1));
    y = dec_bits(d, dec_mul(d, a.r, y), UOP_U32);
    y = dec_bits(d, dec_op2(d, UOP_XOR, y, dec_opi(d, UOP_SHL, a.k, 31)),
                 UOP_F32);
    if (op == UOP_COS)
        return y;
    /* the sign of a zero is lost where multiples of pi are taken away */
    return dec_where(d, dec_op2(d, UOP_CMPEQ, x, dec_float(d, x, UOP_F32, 0)),
                     x, y);
}
