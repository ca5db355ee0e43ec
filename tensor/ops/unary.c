/* Elementwise calls with one operand: arithmetic, rounding, exponentials,
 * trigonometry. Activations are in activation.c.
 *
 * Only 2^x, log2, sine and square root exist as ops; the rest is composed of
 * them so that results are good to a few units in the last place where that
 * is cheap. Where differentiating the composition would lose digits or divide
 * infinities, the slope is given (tensor_slope).
 * src: the rational approximations of atan, tanh and erf have the
 * coefficients of S. L. Moshier's Cephes library (double and single).
 */
#include "tensor/ops/elementwise.h"

#include <assert.h>
#include <math.h>

#include "base/bits.h"
#include "tensor/core/rules.h"

/* By Horner's rule with fused steps: one rounding each. Coefficients come with
 * the highest power first. */
const struct uop *
tn_poly(struct bell_context *ctx, const struct uop *x, const double *c,
        uint32_t n)
{
    const struct uop *r = tn_num(ctx, x, c[0]);
    uint32_t i;

    assert(n > 0);
    for (i = 1; i < n; i++)
        r = tn_madd(ctx, r, x, tn_num(ctx, x, c[i]));
    return r;
}

const struct uop *
tn_bool(struct bell_context *ctx, const struct uop *x)
{
    return tn_cast(ctx, x, UOP_BOOL);
}

/* ---- arithmetic and rounding ---- */

const struct uop *
tn_abs(struct bell_context *ctx, const struct uop *x)
{
    const struct uop *y;

    if (!uop_dtype_infos[x->dtype].is_signed)
        return x;
    y = tn_max(ctx, x, tn_neg(ctx, x));
    /* of +0 and -0 either may be the larger: this makes it +0 */
    return uop_is_float(x) ? tn_add(ctx, y, tn_num(ctx, x, 0)) : y;
}

/* A NaN is neither below nor above zero and gives 0, as in the reference. */
const struct uop *
tn_sign(struct bell_context *ctx, const struct uop *x)
{
    const struct uop *zero = tn_num(ctx, x, 0), *one = tn_num(ctx, x, 1);

    if (x->dtype == UOP_BOOL)
        return x;
    if (!uop_dtype_infos[x->dtype].is_signed)
        return tn_where(ctx, tn_ne(ctx, x, zero), one, zero);
    return tn_where(
        ctx, tn_lt(ctx, zero, x), one,
        tn_where(ctx, tn_lt(ctx, x, zero), tn_num(ctx, x, -1), zero));
}

static const struct uop *
square(struct bell_context *ctx, const struct uop *x)
{
    return tn_mul(ctx, x, x);
}

static const struct uop *
rsqrt(struct bell_context *ctx, const struct uop *x)
{
    return tn_recip(ctx, tn_sqrt(ctx, x));
}

static const struct uop *
bit_not(struct bell_context *ctx, const struct uop *x)
{
    if (x->dtype == UOP_BOOL)
        return tn_not(ctx, x);
    return tn_xor(ctx, x, tn_int(ctx, x->dtype, -1));
}

static const struct uop *
is_false(struct bell_context *ctx, const struct uop *x)
{
    return tn_not(ctx, tn_bool(ctx, x));
}

static const struct uop *
trunc_any(struct bell_context *ctx, const struct uop *x)
{
    return tn_is_float(x) ? tn_trunc(ctx, x) : x;
}

/* Truncated, and one less where that went up. The comparison is false for NaN
 * and infinities, which stay what they are. */
const struct uop *
tn_floor(struct bell_context *ctx, const struct uop *x)
{
    const struct uop *t = trunc_any(ctx, x);

    if (t == x)
        return x;
    return tn_where(ctx, tn_lt(ctx, x, t), tn_add_c(ctx, t, -1), t);
}

static const struct uop *
ceil_any(struct bell_context *ctx, const struct uop *x)
{
    const struct uop *t = trunc_any(ctx, x);

    if (t == x)
        return x;
    return tn_where(ctx, tn_lt(ctx, t, x), tn_add_c(ctx, t, 1), t);
}

/* To nearest, ties to even: away from zero where the fraction is more than a
 * half, or a half and the whole part odd. */
const struct uop *
tn_round_even(struct bell_context *ctx, const struct uop *x)
{
    const struct uop *t, *frac, *half, *odd, *away;

    if (!tn_is_float(x))
        return x;
    t = tn_trunc(ctx, x);
    frac = tn_abs(ctx, tn_sub(ctx, x, t));
    half = tn_mul_c(ctx, t, 0.5);
    odd = tn_ne(ctx, half, tn_trunc(ctx, half));
    away = tn_or(ctx, tn_lt(ctx, tn_num(ctx, x, 0.5), frac),
                 tn_and(ctx, tn_eq(ctx, frac, tn_num(ctx, x, 0.5)), odd));
    return tn_where(ctx, away, tn_add(ctx, t, tn_sign(ctx, x)), t);
}

static const struct uop *
fraction(struct bell_context *ctx, const struct uop *x)
{
    return tn_sub(ctx, x, trunc_any(ctx, x));
}

/* What is unequal to itself; integers never are, and give a constant that
 * costs no kernel. */
const struct uop *
tn_isnan(struct bell_context *ctx, const struct uop *x)
{
    if (!tn_is_float(x))
        return tn_broadcast(ctx, tn_int(ctx, UOP_BOOL, 0), tn_shape(ctx, x)->d,
                            tn_rank(ctx, x));
    return tn_ne(ctx, x, x);
}

static const struct uop *
is_inf(struct bell_context *ctx, const struct uop *x)
{
    if (!tn_is_float(x))
        return tn_isnan(ctx, x);
    return tn_eq(ctx, tn_abs(ctx, x), tn_num(ctx, x, (double)INFINITY));
}

/* Whether x is that infinity; integers are not. */
static const struct uop *
equals_infinity(struct bell_context *ctx, const struct uop *x, double infinity)
{
    if (!tn_is_float(x))
        return tn_isnan(ctx, x);
    return tn_eq(ctx, x, tn_num(ctx, x, infinity));
}

static const struct uop *
is_posinf(struct bell_context *ctx, const struct uop *x)
{
    return equals_infinity(ctx, x, (double)INFINITY);
}

static const struct uop *
is_neginf(struct bell_context *ctx, const struct uop *x)
{
    return equals_infinity(ctx, x, -(double)INFINITY);
}

static const struct uop *
is_finite(struct bell_context *ctx, const struct uop *x)
{
    if (!tn_is_float(x))
        return tn_not(ctx, tn_isnan(ctx, x));
    return tn_lt(ctx, tn_abs(ctx, x), tn_num(ctx, x, (double)INFINITY));
}

/* ---- exponentials and logarithms ---- */

/* y, the value at x of a function of slope 1 at 0. Near 0 it is x itself: the
 * formula would lose a zero's sign and may have subnormal parts. */
static const struct uop *
keep_small(struct bell_context *ctx, const struct uop *x, const struct uop *y)
{
    return tn_where(ctx, tn_lt(ctx, tn_abs(ctx, x), tn_num(ctx, x, 0x1p-60)), x,
                    y);
}

static const struct uop *
log_10(struct bell_context *ctx, const struct uop *x)
{
    return tn_mul_c(ctx, tn_log2(ctx, x), 0.30102999566398119521);
}

/* log(w) x / (w - 1) with w = 1 + x: the rounding of w cancels (W. Kahan). */
const struct uop *
tn_log1p(struct bell_context *ctx, const struct uop *x)
{
    const struct uop *one = tn_num(ctx, x, 1), *w = tn_add(ctx, x, one), *y;
    const struct uop *plain;

    assert(tn_bad(x) || tn_is_float(x));
    plain = tn_or(ctx, tn_eq(ctx, w, one),
                  tn_eq(ctx, w, tn_num(ctx, x, (double)INFINITY)));
    y = tn_mul(ctx, tn_log(ctx, w),
               tn_fdiv(ctx, x, tn_where(ctx, plain, one, tn_sub(ctx, w, one))));
    return tensor_slope(ctx, tn_where(ctx, plain, x, y), x, tn_recip(ctx, w));
}

/* tanh for |x| < 0.625. */
static const struct uop *
tanh_small(struct bell_context *ctx, const struct uop *x)
{
    static const double single[] = {-5.70498872745E-3, 2.06390887954E-2,
                                    -5.37397155531E-2, 1.33314422036E-1,
                                    -3.33332819422E-1};
    static const double p[] = {-9.64399179425052238628E-1,
                               -9.92877231001918586564E1,
                               -1.61468768441708447952E3};
    static const double q[] = {1, 1.12811678491632931402E2,
                               2.23548839060100448583E3,
                               4.84406305325125486048E3};
    const struct uop *z = square(ctx, x), *r;

    if (x->dtype == UOP_F64)
        r = tn_fdiv(ctx, tn_poly(ctx, z, p, ARRAY_LEN(p)),
                    tn_poly(ctx, z, q, ARRAY_LEN(q)));
    else
        r = tn_poly(ctx, z, single, ARRAY_LEN(single));
    return tn_add(ctx, x, tn_mul(ctx, x, tn_mul(ctx, z, r)));
}

/* exp(x) - 1; near 0 from t = tanh(x / 2) as 2t / (1 - t). */
const struct uop *
tn_expm1(struct bell_context *ctx, const struct uop *x)
{
    const struct uop *e = tn_exp(ctx, x), *t, *y;

    assert(tn_bad(x) || tn_is_float(x));
    t = tanh_small(ctx, tn_mul_c(ctx, x, 0.5));
    y = tn_fdiv(ctx, tn_mul_c(ctx, t, 2), tn_sub(ctx, tn_num(ctx, x, 1), t));
    y = tn_where(ctx, tn_lt(ctx, tn_abs(ctx, x), tn_num(ctx, x, 0.5)), y,
                 tn_add_c(ctx, e, -1));
    return tensor_slope(ctx, keep_small(ctx, x, y), x, e);
}

/* From e = exp(-2|x|), which cannot overflow. Near 0 the difference 1 - e
 * loses the digits that count, so a polynomial takes over. */
const struct uop *
tn_tanh(struct bell_context *ctx, const struct uop *x)
{
    const struct uop *one = tn_num(ctx, x, 1), *ax = tn_abs(ctx, x), *e, *y;

    assert(tn_bad(x) || tn_is_float(x));
    e = tn_exp(ctx, tn_mul_c(ctx, ax, -2));
    y = tn_fdiv(ctx, tn_sub(ctx, one, e), tn_add(ctx, one, e));
    y = tn_where(ctx, tn_lt(ctx, x, tn_num(ctx, x, 0)), tn_neg(ctx, y), y);
    y = tn_where(ctx, tn_lt(ctx, ax, tn_num(ctx, x, 0.625)), tanh_small(ctx, x),
                 y);
    return tensor_slope(ctx, y, x, tn_sub(ctx, one, square(ctx, y)));
}

/* The same for results that are rounded to halves: to relative 2^-19. What is
 * cut leaves an exponential without subnormals and infinities. */
static const struct uop *
tanh_rounded(struct bell_context *ctx, const struct uop *x)
{
    static const double near[] = {0.12877089637531985, -0.333246064367227};
    const struct uop *one = tn_num(ctx, x, 1), *z = square(ctx, x), *e, *y;

    e = tn_max(ctx, tn_min(ctx, x, tn_num(ctx, x, 43)), tn_num(ctx, x, -43));
    e = tn_exp2(ctx, tn_mul_c(ctx, e, 2 * 1.44269504088896340736));
    y = tn_madd(ctx, tn_num(ctx, x, -2), tn_recip(ctx, tn_add(ctx, one, e)),
                one);
    z = tn_mul(ctx, z, tn_poly(ctx, z, near, ARRAY_LEN(near)));
    return tn_where(ctx, tn_lt(ctx, tn_abs(ctx, x), tn_num(ctx, x, 0.25)),
                    tn_madd(ctx, x, z, x), y);
}

struct bell_tensor *
bell_tanh(struct bell_tensor *x)
{
    struct tensor_operands ops;
    struct bell_tensor *out;
    const struct uop *u, *y;

    if (!tensor_operands(__func__, &x, 1, TENSOR_FLOAT, &ops, &out))
        return out;
    u = ops.u[0];
    y = uop_dtype_is_small(ops.dtype) ? tanh_rounded(ops.ctx, u)
                                      : tn_tanh(ops.ctx, u);
    y = keep_small(ops.ctx, u, y);
    y = tensor_slope(
        ops.ctx, y, u,
        tn_sub(ops.ctx, tn_num(ops.ctx, u, 1), square(ops.ctx, y)));
    return tensor_result(__func__, &ops, y);
}

/* y; where exp(|x|) has no room, half of it, which has. */
static const struct uop *
or_half_exp(struct bell_context *ctx, const struct uop *x, const struct uop *y)
{
    double last = x->dtype == UOP_F64 ? 709 : x->dtype == UOP_F16 ? 11 : 88;
    const struct uop *a = tn_abs(ctx, x), *root;

    root = tn_exp(ctx, tn_mul_c(ctx, a, 0.5));
    return tn_where(ctx, tn_lt(ctx, tn_num(ctx, a, last), a),
                    tn_mul(ctx, tn_mul_c(ctx, root, 0.5), root), y);
}

/* cosh, which is also the slope of sinh; half of exp(|x|) squared by halves
 * where exp itself would overflow but the result does not. */
static const struct uop *
cosh_slope(struct bell_context *ctx, const struct uop *x)
{
    const struct uop *e = tn_exp(ctx, tn_abs(ctx, x));

    e = tn_mul_c(ctx, tn_add(ctx, e, tn_recip(ctx, e)), 0.5);
    return or_half_exp(ctx, x, e);
}

/* From m = exp(|x|) - 1: (m + m / (m + 1)) / 2, in halves against overflow. */
static const struct uop *
hyper_sine(struct bell_context *ctx, const struct uop *x)
{
    const struct uop *zero = tn_num(ctx, x, 0), *m, *y;

    assert(tn_bad(x) || tn_is_float(x));
    m = tn_expm1(ctx, tn_abs(ctx, x));
    y = tn_sub(ctx, tn_num(ctx, x, 1), tn_recip(ctx, tn_add_c(ctx, m, 1)));
    y = tn_where(ctx, tn_lt(ctx, m, tn_num(ctx, x, 1)),
                 tn_fdiv(ctx, m, tn_add_c(ctx, m, 1)), y);
    y = or_half_exp(ctx, x, tn_mul_c(ctx, tn_add(ctx, m, y), 0.5));
    y = tn_where(ctx, tn_lt(ctx, x, zero), tn_neg(ctx, y), y);
    return tensor_slope(ctx, keep_small(ctx, x, y), x, cosh_slope(ctx, x));
}

/* Its slope is the sine, which does not cancel near 0. */
static const struct uop *
hyper_cosine(struct bell_context *ctx, const struct uop *x)
{
    assert(tn_bad(x) || tn_is_float(x));
    return tensor_slope(ctx, cosh_slope(ctx, x), x, hyper_sine(ctx, x));
}

/* Where squares would overflow: log(x) + log(2). */
static const struct uop *
log_twice(struct bell_context *ctx, const struct uop *x)
{
    return tn_add_c(ctx, tn_log(ctx, x), 0.69314718055994530942);
}

static double
find_large(const struct uop *x)
{
    return x->dtype == UOP_F64 ? 0x1p500 : x->dtype == UOP_F16 ? 0x1p7 : 0x1p60;
}

/* log(x + sqrt(x^2 + 1)), written as log1p of what is left for small x, where
 * the sum would lose x. Above `large` x^2 would overflow, and log(2x) is as
 * exact. */
static const struct uop *
inverse_sinh(struct bell_context *ctx, const struct uop *x)
{
    const struct uop *one = tn_num(ctx, x, 1), *big, *a, *root, *y, *large;

    assert(tn_bad(x) || tn_is_float(x));
    a = tn_abs(ctx, x);
    large = tn_num(ctx, x, find_large(x));
    big = tn_lt(ctx, large, a);
    a = tn_min(ctx, a, large);
    root = tn_sqrt(ctx, tn_add(ctx, one, square(ctx, a)));
    y = tn_log1p(
        ctx,
        tn_add(ctx, a, tn_fdiv(ctx, square(ctx, a), tn_add(ctx, one, root))));
    y = tn_where(ctx, big, log_twice(ctx, tn_abs(ctx, x)), y);
    y = tn_where(ctx, tn_lt(ctx, x, tn_num(ctx, x, 0)), tn_neg(ctx, y), y);
    return tensor_slope(
        ctx, keep_small(ctx, x, y), x,
        tn_where(ctx, big, tn_recip(ctx, tn_abs(ctx, x)), tn_recip(ctx, root)));
}

/* As the inverse of sinh, from t = |x| - 1, which is exact near 1. Below 1 the
 * value is NaN; the slope is what its formula gives, as PyTorch's. */
static const struct uop *
inverse_cosh(struct bell_context *ctx, const struct uop *x)
{
    const struct uop *large = tn_num(ctx, x, find_large(x)), *big, *t, *root,
                     *y, *a = tn_abs(ctx, x);

    assert(tn_bad(x) || tn_is_float(x));
    big = tn_lt(ctx, large, a);
    t = tn_add_c(ctx, tn_min(ctx, a, large), -1);
    root = tn_sqrt(ctx, tn_add(ctx, tn_mul_c(ctx, t, 2), square(ctx, t)));
    y = tn_log1p(ctx, tn_add(ctx, t, root));
    y = tn_where(ctx, big, log_twice(ctx, a), y);
    y = tn_where(ctx, tn_lt(ctx, x, tn_num(ctx, x, 1)),
                 tn_num(ctx, x, (double)NAN), y);
    return tensor_slope(
        ctx, y, x, tn_where(ctx, big, tn_recip(ctx, a), tn_recip(ctx, root)));
}

/* log1p(2a / (1 - a)) / 2: exact for small a, infinite at 1, NaN beyond. */
static const struct uop *
inverse_tanh(struct bell_context *ctx, const struct uop *x)
{
    const struct uop *one = tn_num(ctx, x, 1), *a = tn_abs(ctx, x), *y;

    assert(tn_bad(x) || tn_is_float(x));
    y = tn_fdiv(ctx, tn_mul_c(ctx, a, 2), tn_sub(ctx, one, a));
    y = tn_mul_c(ctx, tn_log1p(ctx, y), 0.5);
    y = tn_where(ctx, tn_lt(ctx, x, tn_num(ctx, x, 0)), tn_neg(ctx, y), y);
    return tensor_slope(
        ctx, keep_small(ctx, x, y), x,
        tn_recip(ctx, tn_mul(ctx, tn_sub(ctx, one, x), tn_add(ctx, one, x))));
}

/* ---- trigonometry ---- */

static const struct uop *
tangent(struct bell_context *ctx, const struct uop *x)
{
    const struct uop *y = tn_fdiv(ctx, tn_sin(ctx, x), tn_cos(ctx, x));

    return tensor_slope(ctx, y, x, tn_add_c(ctx, square(ctx, y), 1));
}

/* atan for |x| <= tan(pi/8). */
static const struct uop *
atan_small(struct bell_context *ctx, const struct uop *x)
{
    static const double single[] = {8.05374449538e-2, -1.38776856032E-1,
                                    1.99777106478E-1, -3.33329491539E-1};
    static const double p[] = {
        -8.750608600031904122785E-1, -1.615753718733365076637E1,
        -7.500855792314704667340E1, -1.228866684490136173410E2,
        -6.485021904942025371773E1};
    static const double q[] = {1,
                               2.485846490142306297962E1,
                               1.650270098316988542046E2,
                               4.328810604912902668951E2,
                               4.853903996359136964868E2,
                               1.945506571482613964425E2};
    const struct uop *z = square(ctx, x), *r;

    if (x->dtype == UOP_F64)
        r = tn_fdiv(ctx, tn_poly(ctx, z, p, ARRAY_LEN(p)),
                    tn_poly(ctx, z, q, ARRAY_LEN(q)));
    else
        r = tn_poly(ctx, z, single, ARRAY_LEN(single));
    return tn_add(ctx, x, tn_mul(ctx, x, tn_mul(ctx, z, r)));
}

/* |x| is brought below tan(pi/8) by atan(x) = pi/4 + atan((x-1)/(x+1)) or
 * pi/2 - atan(1/x), with one division for all three. */
const struct uop *
tn_atan(struct bell_context *ctx, const struct uop *x)
{
    const struct uop *one = tn_num(ctx, x, 1), *a = tn_abs(ctx, x), *zero, *y;
    const struct uop *steep, *middle, *up, *down, *base;

    assert(tn_bad(x) || tn_is_float(x));
    zero = tn_num(ctx, x, 0);
    steep = tn_lt(ctx, tn_num(ctx, x, 2.41421356237309504880), a);
    middle = tn_lt(ctx, tn_num(ctx, x, 0.41421356237309504880), a);
    up = tn_where(ctx, steep, tn_num(ctx, x, -1),
                  tn_where(ctx, middle, tn_sub(ctx, a, one), a));
    down = tn_where(ctx, steep, a,
                    tn_where(ctx, middle, tn_add(ctx, a, one), one));
    base = tn_where(
        ctx, steep, tn_num(ctx, x, 1.57079632679489661923),
        tn_where(ctx, middle, tn_num(ctx, x, 0.78539816339744830962), zero));
    y = tn_add(ctx, base, atan_small(ctx, tn_fdiv(ctx, up, down)));
    y = tn_where(ctx, tn_lt(ctx, x, zero), tn_neg(ctx, y), y);
    return tensor_slope(ctx, y, x,
                        tn_recip(ctx, tn_add(ctx, one, square(ctx, x))));
}

static const struct uop *
inverse_tangent(struct bell_context *ctx, const struct uop *x)
{
    return tensor_slope(
        ctx, keep_small(ctx, x, tn_atan(ctx, x)), x,
        tn_recip(ctx, tn_add(ctx, tn_num(ctx, x, 1), square(ctx, x))));
}

/* sqrt((1 - x) (1 + x)). */
static const struct uop *
circle_root(struct bell_context *ctx, const struct uop *x)
{
    const struct uop *one = tn_num(ctx, x, 1);

    assert(tn_bad(x) || tn_is_float(x));
    return tn_sqrt(ctx, tn_mul(ctx, tn_sub(ctx, one, x), tn_add(ctx, one, x)));
}

/* 2 atan(x / (1 + sqrt(1 - x^2))): no cancellation near 0, and the root is the
 * slope's as well. */
static const struct uop *
inverse_sine(struct bell_context *ctx, const struct uop *x)
{
    const struct uop *root = circle_root(ctx, x), *y;

    y = tn_atan(ctx, tn_fdiv(ctx, x, tn_add_c(ctx, root, 1)));
    y = keep_small(ctx, x, tn_mul_c(ctx, y, 2));
    return tensor_slope(ctx, y, x, tn_recip(ctx, root));
}

/* 2 atan(sqrt((1 - x) / (1 + x))), which keeps the digits near 1, where pi/2 -
 * asin(x) would lose them. */
static const struct uop *
inverse_cosine(struct bell_context *ctx, const struct uop *x)
{
    const struct uop *one = tn_num(ctx, x, 1), *y;

    y = tn_sqrt(ctx, tn_fdiv(ctx, tn_sub(ctx, one, x), tn_add(ctx, one, x)));
    return tensor_slope(ctx, tn_mul_c(ctx, tn_atan(ctx, y), 2), x,
                        tn_neg(ctx, tn_recip(ctx, circle_root(ctx, x))));
}

/* ---- error function ---- */

/* x T(x^2) / U(x^2) for |x| < 1. */
static const struct uop *
erf_small(struct bell_context *ctx, const struct uop *x)
{
    static const double t[] = {
        9.60497373987051638749E0, 9.00260197203842689217E1,
        2.23200534594684319226E3, 7.00332514112805075473E3,
        5.55923013010394962768E4};
    static const double u[] = {1,
                               3.35617141647503099647E1,
                               5.21357949780152679795E2,
                               4.59432382970980127987E3,
                               2.26290000613890934246E4,
                               4.92673942608635921086E4};
    const struct uop *z = square(ctx, x);

    return tn_mul(ctx, x,
                  tn_fdiv(ctx, tn_poly(ctx, z, t, ARRAY_LEN(t)),
                          tn_poly(ctx, z, u, ARRAY_LEN(u))));
}

/* 1 - exp(-a^2) P(a) / Q(a) for 1 <= a; a is cut where the rest is nothing. */
static const struct uop *
erf_large(struct bell_context *ctx, const struct uop *a)
{
    static const double p[] = {
        2.46196981473530512524E-10, 5.64189564831068821977E-1,
        7.46321056442269912687E0,   4.86371970985681366614E1,
        1.96520832956077098242E2,   5.26445194995477358631E2,
        9.34528527171957607540E2,   1.02755188689515710272E3,
        5.57535335369399327526E2};
    static const double q[] = {1,
                               1.32281951154744992508E1,
                               8.67072140885989742329E1,
                               3.54937778887819891062E2,
                               9.75708501743205489753E2,
                               1.82390916687909736289E3,
                               2.24633760818710981792E3,
                               1.65666309194161350182E3,
                               5.57535340817727675546E2};
    const struct uop *e, *ratio;

    assert(tn_bad(a) || tn_is_float(a));
    a = tn_min(ctx, a, tn_num(ctx, a, 6));
    e = tn_exp(ctx, tn_neg(ctx, square(ctx, a)));
    ratio = tn_fdiv(ctx, tn_poly(ctx, a, p, ARRAY_LEN(p)),
                    tn_poly(ctx, a, q, ARRAY_LEN(q)));
    return tn_sub(ctx, tn_num(ctx, a, 1), tn_mul(ctx, e, ratio));
}

/* The same two in float32, without a division: x (1 + S(x^2)) for |x| < 15/16,
 * 1 - 2^(-a L(a)) for a above. Minimax for the relative error of erf (Remez):
 * 2^-30.9 and 2^-28.4; 1.5 units in the last place with all roundings. */
static const struct uop *
erf_single(struct bell_context *ctx, const struct uop *x)
{
    static const double s[] = {8.267461818366954e-05, -0.0008118075463990841,
                               0.005198829856771784,  -0.026858497080629415,
                               0.11283678968819308,   -0.37612632638057564,
                               0.12837916652080286};
    static const double l[] = {-0.00030783498076415895, 0.004630914075811913,
                               -0.03299975488946935,    0.1518239023169613,
                               0.9171758022727587,      1.6280936895754405};
    const struct uop *a = tn_abs(ctx, x), *small, *large, *cut;

    /* not x + x S: x S may be subnormal where the result is not */
    small = tn_poly(ctx, square(ctx, x), s, ARRAY_LEN(s));
    small = tn_mul(ctx, x, tn_add_c(ctx, small, 1));
    cut = tn_min(ctx, a, tn_num(ctx, a, 4)); /* 1 - erf(4) is 1.5e-8 */
    large = tn_neg(ctx, tn_mul(ctx, cut, tn_poly(ctx, cut, l, ARRAY_LEN(l))));
    large = tn_sub(ctx, tn_num(ctx, a, 1), tn_exp2(ctx, large));
    large = tn_where(ctx, tn_lt(ctx, x, tn_num(ctx, x, 0)), tn_neg(ctx, large),
                     large);
    return tn_where(ctx, tn_lt(ctx, a, tn_num(ctx, a, 0.9375)), small, large);
}

/* Both ranges are computed for every element and one is chosen; the expansion
 * for large ones is given 1 or more, where it is meant. */
static const struct uop *
erf_double(struct bell_context *ctx, const struct uop *x)
{
    const struct uop *a = tn_abs(ctx, x), *y;

    y = erf_large(ctx, tn_max(ctx, a, tn_num(ctx, a, 1)));
    y = tn_where(ctx, tn_lt(ctx, x, tn_num(ctx, x, 0)), tn_neg(ctx, y), y);
    return tn_where(ctx, tn_lt(ctx, a, tn_num(ctx, a, 1)), erf_small(ctx, x),
                    y);
}

/* float16 is computed in float32: the polynomials' terms do not fit. */
const struct uop *
tn_erf(struct bell_context *ctx, const struct uop *x)
{
    enum uop_dtype dtype = x->dtype;
    const struct uop *y;

    assert(tn_bad(x) || tn_is_float(x));
    y = dtype == UOP_F64 ? erf_double(ctx, x)
                         : erf_single(ctx, tn_cast(ctx, x, UOP_F32));
    return tensor_slope(ctx, tn_cast(ctx, y, dtype), x,
                        tn_mul_c(ctx, tn_exp(ctx, tn_neg(ctx, square(ctx, x))),
                                 1.12837916709551257390));
}

/* ---- calls ---- */

TENSOR_UNARY(bell_neg, TENSOR_NO_BOOL, tn_neg)
TENSOR_UNARY(bell_abs, TENSOR_ANY, tn_abs)
TENSOR_UNARY(bell_sign, TENSOR_ANY, tn_sign)
TENSOR_UNARY(bell_square, TENSOR_NO_BOOL, square)
TENSOR_UNARY(bell_reciprocal, TENSOR_FLOAT, tn_recip)
TENSOR_UNARY(bell_sqrt, TENSOR_FLOAT, tn_sqrt)
TENSOR_UNARY(bell_rsqrt, TENSOR_FLOAT, rsqrt)
TENSOR_UNARY(bell_bitwise_not, TENSOR_INT, bit_not)
TENSOR_UNARY(bell_logical_not, TENSOR_ANY, is_false)
TENSOR_UNARY(bell_trunc, TENSOR_NO_BOOL, trunc_any)
TENSOR_UNARY(bell_floor, TENSOR_NO_BOOL, tn_floor)
TENSOR_UNARY(bell_ceil, TENSOR_NO_BOOL, ceil_any)
TENSOR_UNARY(bell_round, TENSOR_NO_BOOL, tn_round_even)
TENSOR_UNARY(bell_frac, TENSOR_NO_BOOL, fraction)
TENSOR_UNARY(bell_isnan, TENSOR_ANY, tn_isnan)
TENSOR_UNARY(bell_isinf, TENSOR_ANY, is_inf)
TENSOR_UNARY(bell_isposinf, TENSOR_ANY, is_posinf)
TENSOR_UNARY(bell_isneginf, TENSOR_ANY, is_neginf)
TENSOR_UNARY(bell_isfinite, TENSOR_ANY, is_finite)
TENSOR_UNARY(bell_exp, TENSOR_FLOAT, tn_exp)
TENSOR_UNARY(bell_exp2, TENSOR_FLOAT, tn_exp2)
TENSOR_UNARY(bell_expm1, TENSOR_FLOAT, tn_expm1)
TENSOR_UNARY(bell_log, TENSOR_FLOAT, tn_log)
TENSOR_UNARY(bell_log2, TENSOR_FLOAT, tn_log2)
TENSOR_UNARY(bell_log10, TENSOR_FLOAT, log_10)
TENSOR_UNARY(bell_log1p, TENSOR_FLOAT, tn_log1p)
TENSOR_UNARY(bell_sin, TENSOR_FLOAT, tn_sin)
TENSOR_UNARY(bell_cos, TENSOR_FLOAT, tn_cos)
TENSOR_UNARY(bell_tan, TENSOR_FLOAT, tangent)
TENSOR_UNARY(bell_asin, TENSOR_FLOAT, inverse_sine)
TENSOR_UNARY(bell_acos, TENSOR_FLOAT, inverse_cosine)
TENSOR_UNARY(bell_atan, TENSOR_FLOAT, inverse_tangent)
TENSOR_UNARY(bell_sinh, TENSOR_FLOAT, hyper_sine)
TENSOR_UNARY(bell_cosh, TENSOR_FLOAT, hyper_cosine)
TENSOR_UNARY(bell_asinh, TENSOR_FLOAT, inverse_sinh)
TENSOR_UNARY(bell_acosh, TENSOR_FLOAT, inverse_cosh)
TENSOR_UNARY(bell_atanh, TENSOR_FLOAT, inverse_tanh)
TENSOR_UNARY(bell_erf, TENSOR_FLOAT, tn_erf)
