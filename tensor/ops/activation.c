/* Activations and conversions. */
#include "tensor/ops/elementwise.h"

#include <assert.h>

#include "base/bits.h"
#include "tensor/core/rules.h"

/* ---- conversions ---- */

struct bell_tensor *
bell_cast(struct bell_tensor *x, enum bell_dtype dtype)
{
    struct bell_tensor *out;
    enum uop_dtype type;

    if (!tensor_takes(__func__, x, &out))
        return out;
    type = tensor_dtype_arg(tensor_at(x)->ctx, __func__, dtype,
                            (enum uop_dtype)bell_dtype_of(x));
    if (type == UOP_VOID)
        return tensor_at(x)->ctx->error_tensor;
    return tensor_new(tensor_at(x)->ctx, __func__,
                      tn_cast(tensor_at(x)->ctx, tensor_at(x)->uop, type));
}

struct bell_tensor *
bell_bitcast(struct bell_tensor *x, enum bell_dtype dtype)
{
    struct bell_tensor *out;
    const struct uop *u;
    enum uop_dtype type;

    if (!tensor_takes(__func__, x, &out))
        return out;
    u = tensor_node(x);
    type = tensor_dtype_arg(tensor_at(x)->ctx, __func__, dtype, u->dtype);
    if (type == UOP_VOID)
        return tensor_at(x)->ctx->error_tensor;
    if (!tn_bad(u) && uop_dtype_infos[type].size_bytes !=
                          uop_dtype_infos[u->dtype].size_bytes)
        return tensor_fail(tensor_at(x)->ctx, __func__, BELL_BAD_DTYPE,
                           "%s to %s: their sizes differ",
                           uop_dtype_infos[u->dtype].name,
                           uop_dtype_infos[type].name);
    if (type == UOP_BOOL && u->dtype != UOP_BOOL)
        return tensor_fail(tensor_at(x)->ctx, __func__, BELL_BAD_DTYPE,
                           "to bool; use bell_cast");
    return tensor_new(tensor_at(x)->ctx, __func__,
                      tn_bitcast(tensor_at(x)->ctx, u, type));
}

struct bell_tensor *
bell_contiguous(struct bell_tensor *x)
{
    struct bell_tensor *out;

    if (!tensor_takes(__func__, x, &out))
        return out;
    return tensor_new(
        tensor_at(x)->ctx, __func__,
        tn_wrap(tensor_at(x)->ctx, UOP_CONTIGUOUS, tensor_node(x)));
}

struct bell_tensor *
bell_detach(struct bell_tensor *x)
{
    struct bell_tensor *out;

    if (!tensor_takes(__func__, x, &out))
        return out;
    return tensor_new(tensor_at(x)->ctx, __func__,
                      tn_wrap(tensor_at(x)->ctx, UOP_DETACH, tensor_node(x)));
}

/* ---- rectifiers ---- */

/* `u`, which is x limited to the bounds, with slope 1 strictly between them
 * and at NaN, and 0 outside. Asking u and not x where it is means that only u
 * has to be kept for the gradient. */
static const struct uop *
slope_between(struct bell_context *ctx, const struct uop *u,
              const struct uop *x, const struct uop *low,
              const struct uop *high)
{
    const struct uop *in;

    assert(tn_bad(u) || tn_bad(x) || u->dtype == x->dtype);
    if (!tn_is_float(x))
        return u;
    in = tn_ne(ctx, u, low);
    if (high)
        in = tn_and(ctx, in, tn_ne(ctx, u, high));
    return tensor_surrogate(ctx, u, tn_where(ctx, in, x, tn_num(ctx, x, 0)));
}

/* By a comparison and not by max: a NaN goes through. */
static const struct uop *
take_relu(struct bell_context *ctx, const struct uop *x)
{
    const struct uop *zero = tn_num(ctx, x, 0);

    return slope_between(ctx, tn_where(ctx, tn_lt(ctx, x, zero), zero, x), x,
                         zero, NULL);
}

static const struct uop *
hard_tanh(struct bell_context *ctx, const struct uop *x, double low,
          double high)
{
    const struct uop *lo = tn_num(ctx, x, low), *hi = tn_num(ctx, x, high), *u;

    assert(low <= high);
    u = tn_where(ctx, tn_lt(ctx, x, lo), lo, x);
    u = tn_where(ctx, tn_lt(ctx, hi, u), hi, u);
    return slope_between(ctx, u, x, lo, hi);
}

static const struct uop *
take_relu6(struct bell_context *ctx, const struct uop *x)
{
    return hard_tanh(ctx, x, 0, 6);
}

static const struct uop *
hard_sigmoid(struct bell_context *ctx, const struct uop *x)
{
    return tn_mul_c(ctx, take_relu6(ctx, tn_add_c(ctx, x, 3)), 1.0 / 6);
}

static const struct uop *
hard_swish(struct bell_context *ctx, const struct uop *x)
{
    return tn_mul(ctx, x, hard_sigmoid(ctx, x));
}

TENSOR_UNARY(bell_relu, TENSOR_NO_BOOL, take_relu)
TENSOR_UNARY(bell_relu6, TENSOR_NO_BOOL, take_relu6)
TENSOR_UNARY(bell_hardsigmoid, TENSOR_FLOAT, hard_sigmoid)
TENSOR_UNARY(bell_hardswish, TENSOR_FLOAT, hard_swish)

/* ---- exponential ones ---- */

/* From e = exp(-|x|), which cannot overflow: 1 / (1 + e) or e / (1 + e). */
const struct uop *
tn_sigmoid(struct bell_context *ctx, const struct uop *x)
{
    const struct uop *one = tn_num(ctx, x, 1), *e, *y;

    assert(tn_bad(x) || tn_is_float(x));
    e = tn_exp(ctx, tn_neg(ctx, tn_abs(ctx, x)));
    y = tn_where(ctx, tn_lt(ctx, x, tn_num(ctx, x, 0)), e, one);
    y = tn_fdiv(ctx, y, tn_add(ctx, one, e));
    return tensor_slope(ctx, y, x, tn_mul(ctx, y, tn_sub(ctx, one, y)));
}

/* x * sigmoid(u), also where the sigmoid alone would be subnormal: with the
 * root of exp(-|u|), which is not, once before and once after x. `v` is x times
 * the slope of u. */
static const struct uop *
times_sigmoid(struct bell_context *ctx, const struct uop *x,
              const struct uop *u, const struct uop *v)
{
    const struct uop *one = tn_num(ctx, u, 1), *root, *whole, *s, *rest, *y;

    assert(tn_bad(x) || tn_is_float(x));
    root = tn_exp(ctx, tn_mul_c(ctx, tn_abs(ctx, u), -0.5));
    whole = tn_add(ctx, one, tn_mul(ctx, root, root));
    root = tn_where(ctx, tn_lt(ctx, u, tn_num(ctx, u, 0)), root, one);
    s = tn_fdiv(ctx, root, whole);
    y = tn_mul(ctx, tn_mul(ctx, x, s), root);
    /* where v is great, s or the rest is 0; infinite, it would be NaN */
    v = tn_max(ctx, tn_min(ctx, v, tn_num(ctx, v, 1e30)),
               tn_num(ctx, v, -1e30));
    rest = tn_sub(ctx, one, tn_mul(ctx, s, root));
    rest = tn_mul(ctx, s, tn_add(ctx, one, tn_mul(ctx, v, rest)));
    return tensor_slope(ctx, y, x, tn_mul(ctx, rest, root));
}

/* log(1 + exp(-|x|)), the part of softplus that is small. */
static const struct uop *
soft_rest(struct bell_context *ctx, const struct uop *x)
{
    return tn_log1p(ctx, tn_exp(ctx, tn_neg(ctx, tn_abs(ctx, x))));
}

/* min(x, 0) - log1p(exp(-|x|)): neither end overflows. */
const struct uop *
tn_logsigmoid(struct bell_context *ctx, const struct uop *x)
{
    const struct uop *y = tn_min(ctx, x, tn_num(ctx, x, 0));

    assert(tn_bad(x) || tn_is_float(x));
    y = tn_sub(ctx, y, soft_rest(ctx, x));
    return tensor_slope(ctx, y, x, tn_sigmoid(ctx, tn_neg(ctx, x)));
}

/* max(x, 0) + log1p(exp(-|bx|)) / b: bx may overflow. Its slope is the sigmoid,
 * given as a rule so that the gradient has no such sums. Only a division by
 * less than 1 makes a normal number of a subnormal logarithm. */
static const struct uop *
soft_plus(struct bell_context *ctx, const struct uop *x, double beta)
{
    const struct uop *bx = tn_mul_c(ctx, x, beta), *y;
    struct tn_scaled e;

    assert(tn_bad(x) || tn_is_float(x));
    if (beta < 1) {
        e = tn_scaled_exp(ctx, tn_neg(ctx, tn_abs(ctx, bx)));
        y = tn_mul_c(ctx, tn_log1p(ctx, e.value), 1 / beta);
        y = tn_mul(ctx, y, e.scale);
    } else {
        y = tn_mul_c(ctx, soft_rest(ctx, bx), 1 / beta);
    }
    y = tn_add(ctx, tn_max(ctx, x, tn_num(ctx, x, 0)), y);
    return tensor_slope(ctx, y, x, tn_sigmoid(ctx, bx));
}

static const struct uop *
take_silu(struct bell_context *ctx, const struct uop *x)
{
    return times_sigmoid(ctx, x, x, x);
}

static const struct uop *
quick_gelu(struct bell_context *ctx, const struct uop *x)
{
    const struct uop *u = tn_mul_c(ctx, x, 1.702);

    return times_sigmoid(ctx, x, u, u);
}

/* x (1 + tanh(u)) / 2 as x sigmoid(2u), in which nothing cancels. */
static const struct uop *
gelu_tanh(struct bell_context *ctx, const struct uop *x)
{
    const struct uop *cube = tn_mul(ctx, tn_mul(ctx, x, x), x), *u, *v;

    assert(tn_bad(x) || tn_is_float(x));
    u = tn_add(ctx, x, tn_mul_c(ctx, cube, 0.044715));
    u = tn_mul_c(ctx, u, 2 * 0.79788456080286535588);
    v = tn_add(ctx, x, tn_mul_c(ctx, cube, 3 * 0.044715));
    v = tn_mul_c(ctx, v, 2 * 0.79788456080286535588);
    return times_sigmoid(ctx, x, u, v);
}

static const struct uop *
soft_sign(struct bell_context *ctx, const struct uop *x)
{
    const struct uop *size = tn_add_c(ctx, tn_abs(ctx, x), 1), *slope;

    slope = tn_recip(ctx, size);
    return tensor_slope(ctx, tn_fdiv(ctx, x, size), x,
                        tn_mul(ctx, slope, slope));
}

/* x tanh(log(1 + e)) = x n / (n + 2) with e = exp(x), n = e (e + 2). The ratio
 * is 1 from 40 on. */
static const struct uop *
take_mish(struct bell_context *ctx, const struct uop *x)
{
    const struct uop *end = tn_num(ctx, x, 40), *n, *w, *slope, *exact;
    struct tn_scaled e = tn_scaled_exp(ctx, tn_min(ctx, x, end));

    assert(tn_bad(x) || tn_is_float(x));
    exact = tn_mul(ctx, e.value, e.scale);
    n = tn_mul(ctx, e.value, tn_add_c(ctx, exact, 2));
    w = tn_add_c(ctx, tn_mul(ctx, n, e.scale), 2);
    /* 4 e (e + 1) / w^2, without the square */
    slope = tn_mul(ctx, tn_fdiv(ctx, tn_mul_c(ctx, e.value, 4), w),
                   tn_fdiv(ctx, tn_add_c(ctx, exact, 1), w));
    slope = tn_where(ctx, tn_lt(ctx, x, end), slope, tn_num(ctx, x, 0));
    n = tn_fdiv(ctx, n, w);
    slope = tn_mul(ctx, tn_madd(ctx, x, slope, n), e.scale);
    return tensor_slope(ctx, tn_mul(ctx, tn_mul(ctx, x, n), e.scale), x, slope);
}

/* scale * (x > 0 ? x : alpha * (exp(x / beta) - 1)). */
static const struct uop *
exp_linear(struct bell_context *ctx, const struct uop *x, double alpha,
           double beta, double scale)
{
    const struct uop *zero = tn_num(ctx, x, 0), *above = tn_lt(ctx, zero, x),
                     *y;

    assert(tn_bad(x) || tn_is_float(x));
    y = tn_where(ctx, above, zero, x);
    y = tn_expm1(ctx, tn_mul_c(ctx, y, 1 / beta));
    y = tn_where(ctx, above, x, tn_mul_c(ctx, y, alpha));
    return tn_mul_c(ctx, y, scale);
}

TENSOR_UNARY(bell_sigmoid, TENSOR_FLOAT, tn_sigmoid)
TENSOR_UNARY(bell_logsigmoid, TENSOR_FLOAT, tn_logsigmoid)
TENSOR_UNARY(bell_silu, TENSOR_FLOAT, take_silu)
TENSOR_UNARY(bell_quick_gelu, TENSOR_FLOAT, quick_gelu)
TENSOR_UNARY(bell_softsign, TENSOR_FLOAT, soft_sign)
TENSOR_UNARY(bell_mish, TENSOR_FLOAT, take_mish)

/* ---- with parameters ---- */

/* x Phi(x), Phi being the distribution of normal numbers. */
static const struct uop *
gelu_exact(struct bell_context *ctx, const struct uop *x)
{
    const struct uop *y = tn_mul_c(ctx, x, 0.70710678118654752440);

    y = tn_add_c(ctx, tn_erf(ctx, y), 1);
    return tn_mul(ctx, tn_mul_c(ctx, x, 0.5), y);
}

/* The same for results that are rounded to halves: max(x, 0) - a Phi(-a) with
 * a = |x| and Phi(-a) = 2^-L(a), L a polynomial up to where nothing is left of
 * a Phi(-a): relative 2^-14.5 where x > -2, 2^-11 below (float16: 2^-18,
 * 2^-15), where 1 + erf(x) would cancel. The exponential is scaled by 2^24, so
 * that it is a normal number. */
static const struct uop *
gelu_rounded(struct bell_context *ctx, const struct uop *x, bool is_f16)
{
    static const double f16[] = {-1.4433022216216016e-06, 5.453559612700745e-05,
                                 -0.0008818900085970065,  0.00834821874076459,
                                 -0.05370441064485163,    -0.4586488511058269,
                                 -1.1512039046453946,     23.000002854935932};
    static const double bf16[] = {
        3.2229842568155225e-08, -2.0162956940073323e-06, 5.4007857279374875e-05,
        -0.0008188025856203752, 0.007894800905691703,    -0.052403059806621057,
        -0.46024459769221027,   -1.1505026295949214,     22.999951355724093};
    const struct uop *a = tn_abs(ctx, x), *e;

    assert(tn_bad(x) || x->dtype == UOP_F32);
    a = tn_min(ctx, a, tn_num(ctx, x, is_f16 ? 5.75 : 13.6));
    e = is_f16 ? tn_poly(ctx, a, f16, ARRAY_LEN(f16))
               : tn_poly(ctx, a, bf16, ARRAY_LEN(bf16));
    e = tn_exp2(ctx, tn_max(ctx, e, tn_num(ctx, x, -126)));
    return tn_madd(ctx, a, tn_mul_c(ctx, e, -0x1p-24),
                   tn_max(ctx, x, tn_num(ctx, x, -0.0)));
}

/* Phi(x) + x Phi'(x) */
static const struct uop *
gelu_slope(struct bell_context *ctx, const struct uop *x)
{
    const struct uop *y = tn_mul_c(ctx, x, 0.70710678118654752440), *e;

    e = tn_exp(ctx, tn_neg(ctx, tn_mul(ctx, y, y)));
    y = tn_mul_c(ctx, tn_add_c(ctx, tn_erf(ctx, y), 1), 0.5);
    return tn_madd(ctx, tn_mul_c(ctx, x, 0.39894228040143267794), e, y);
}

struct bell_tensor *
bell_gelu(struct bell_tensor *x, bool tanh_form)
{
    struct tensor_operands ops;
    struct bell_tensor *out;
    const struct uop *u;

    if (!tensor_operands(__func__, &x, 1, TENSOR_FLOAT, &ops, &out))
        return out;
    if (tanh_form)
        return tensor_result(__func__, &ops, gelu_tanh(ops.ctx, ops.u[0]));
    if (!uop_dtype_is_small(ops.dtype))
        return tensor_result(__func__, &ops, gelu_exact(ops.ctx, ops.u[0]));
    u = gelu_rounded(ops.ctx, ops.u[0], ops.dtype == UOP_F16);
    u = tensor_slope(ops.ctx, u, ops.u[0], gelu_slope(ops.ctx, ops.u[0]));
    return tensor_result(__func__, &ops, u);
}

struct bell_tensor *
bell_leaky_relu(struct bell_tensor *x, double slope)
{
    struct tensor_operands ops;
    struct bell_tensor *out;
    const struct uop *u;

    if (!tensor_operands(__func__, &x, 1, TENSOR_FLOAT, &ops, &out))
        return out;
    u = tn_where(ops.ctx,
                 tn_lt(ops.ctx, tn_num(ops.ctx, ops.u[0], 0), ops.u[0]),
                 ops.u[0], tn_mul_c(ops.ctx, ops.u[0], slope));
    return tensor_result(__func__, &ops, u);
}

static struct bell_tensor *
exp_linear_call(const char *call, struct bell_tensor *x, double alpha,
                double beta, double scale)
{
    struct tensor_operands ops;
    struct bell_tensor *out;

    if (!tensor_operands(call, &x, 1, TENSOR_FLOAT, &ops, &out))
        return out;
    if (beta == 0)
        return tensor_fail(ops.ctx, call, BELL_BAD_VALUE,
                           "alpha must not be 0");
    return tensor_result(call, &ops,
                         exp_linear(ops.ctx, ops.u[0], alpha, beta, scale));
}

struct bell_tensor *
bell_elu(struct bell_tensor *x, double alpha)
{
    return exp_linear_call(__func__, x, alpha, 1, 1);
}

struct bell_tensor *
bell_celu(struct bell_tensor *x, double alpha)
{
    return exp_linear_call(__func__, x, alpha, alpha, 1);
}

struct bell_tensor *
bell_selu(struct bell_tensor *x)
{
    return exp_linear_call(__func__, x, 1.6732632423543772848, 1,
                           1.0507009873554804934);
}

struct bell_tensor *
bell_softplus(struct bell_tensor *x, double beta)
{
    struct tensor_operands ops;
    struct bell_tensor *out;

    if (!tensor_operands(__func__, &x, 1, TENSOR_FLOAT, &ops, &out))
        return out;
    if (!(beta > 0))
        return tensor_fail(ops.ctx, __func__, BELL_BAD_VALUE,
                           "beta is %g, not greater than 0", beta);
    return tensor_result(__func__, &ops, soft_plus(ops.ctx, ops.u[0], beta));
}

struct bell_tensor *
bell_hardtanh(struct bell_tensor *x, double low, double high)
{
    struct tensor_operands ops;
    struct bell_tensor *out;

    if (!tensor_operands(__func__, &x, 1, TENSOR_NO_BOOL, &ops, &out))
        return out;
    if (!(low <= high))
        return tensor_fail(ops.ctx, __func__, BELL_BAD_VALUE,
                           "low is %g, high %g: expected low <= high", low,
                           high);
    return tensor_result(__func__, &ops,
                         hard_tanh(ops.ctx, ops.u[0], low, high));
}
