/* Tensor arithmetic: elementwise, reductions, matrix products, convolution,
 * losses, gradients. Included by tensor.h, whose header comment holds here.
 *
 * Elementwise calls broadcast as PyTorch does: shapes are aligned at the last
 * axis, and an axis of size 1 (or absent) is repeated. "float" after a
 * function means: an integer or bool operand is first made float32.
 */
#ifndef BELL_DOORBELL_OPS_H
#define BELL_DOORBELL_OPS_H

#include "doorbell/tensor.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- conversion and graph ---- */

/* Float to integer truncates and saturates, NaN gives 0; integer to narrower
 * wraps; to bool is != 0. */
BELL_API struct bell_tensor *bell_cast(struct bell_tensor *x,
                                       enum bell_dtype dtype);
/* The same bits as a dtype of equal size. */
BELL_API struct bell_tensor *bell_bitcast(struct bell_tensor *x,
                                          enum bell_dtype dtype);
/* x, stored in memory of its own when it is computed. */
BELL_API struct bell_tensor *bell_contiguous(struct bell_tensor *x);
/* x, through which no gradient flows. */
BELL_API struct bell_tensor *bell_detach(struct bell_tensor *x);

/* ---- binary ---- */

/* x + y; of bools: or. */
BELL_API struct bell_tensor *bell_add(struct bell_tensor *x,
                                      struct bell_tensor *y);
/* x - y; not of two bools. */
BELL_API struct bell_tensor *bell_sub(struct bell_tensor *x,
                                      struct bell_tensor *y);
/* x * y; of bools: and. */
BELL_API struct bell_tensor *bell_mul(struct bell_tensor *x,
                                      struct bell_tensor *y);
/* True division; float. */
BELL_API struct bell_tensor *bell_div(struct bell_tensor *x,
                                      struct bell_tensor *y);
/* Quotient, exact, rounded down; of integers by 0 it is 0. */
BELL_API struct bell_tensor *bell_floor_divide(struct bell_tensor *x,
                                               struct bell_tensor *y);
/* Quotient rounded towards zero. */
BELL_API struct bell_tensor *bell_trunc_divide(struct bell_tensor *x,
                                               struct bell_tensor *y);
/* x - y * floor(x / y), exact, the sign of y; as Python's %, but that a zero
 * has x's sign. */
BELL_API struct bell_tensor *bell_remainder(struct bell_tensor *x,
                                            struct bell_tensor *y);
/* x - y * trunc(x / y), exact, the sign of x; as C's fmod. */
BELL_API struct bell_tensor *bell_fmod(struct bell_tensor *x,
                                       struct bell_tensor *y);
/* x to the y. Integers stay integers: by squaring, at most 64 steps. A negative
 * exponent in a tensor of integers gives 0 unless the base is 1 or -1; integers
 * to a negative bell_scalar are BELL_E_INVALID. */
BELL_API struct bell_tensor *bell_pow(struct bell_tensor *x,
                                      struct bell_tensor *y);
/* The greater; NaN if either is NaN. +0 is greater than -0. */
BELL_API struct bell_tensor *bell_maximum(struct bell_tensor *x,
                                          struct bell_tensor *y);
/* The smaller; NaN if either is NaN. -0 is smaller than +0. */
BELL_API struct bell_tensor *bell_minimum(struct bell_tensor *x,
                                          struct bell_tensor *y);
/* atan2(y, x) of y[..], x[..] in radians; float. */
BELL_API struct bell_tensor *bell_atan2(struct bell_tensor *y,
                                        struct bell_tensor *x);
/* |x| with the sign of y; float. */
BELL_API struct bell_tensor *bell_copysign(struct bell_tensor *x,
                                           struct bell_tensor *y);
/* The number beside x on the way to y in their common float dtype; y where they
 * are equal, NaN if either is NaN. The gradient goes to x, not where equal. */
BELL_API struct bell_tensor *bell_nextafter(struct bell_tensor *x,
                                            struct bell_tensor *y);
/* log(exp(x) + exp(y)); float. */
BELL_API struct bell_tensor *bell_logaddexp(struct bell_tensor *x,
                                            struct bell_tensor *y);
/* sqrt(x^2 + y^2) without overflow on the way; float. */
BELL_API struct bell_tensor *bell_hypot(struct bell_tensor *x,
                                        struct bell_tensor *y);
/* Integers and bool only. A shift by less than 0 or at least the width gives
 * 0 (-1 for a right shift of a negative number). */
BELL_API struct bell_tensor *bell_bitwise_and(struct bell_tensor *x,
                                              struct bell_tensor *y);
/* x | y; integers and bool only. */
BELL_API struct bell_tensor *bell_bitwise_or(struct bell_tensor *x,
                                             struct bell_tensor *y);
/* x ^ y; integers and bool only. */
BELL_API struct bell_tensor *bell_bitwise_xor(struct bell_tensor *x,
                                              struct bell_tensor *y);
/* x << y, as said above; bool counts as int64. */
BELL_API struct bell_tensor *bell_lshift(struct bell_tensor *x,
                                         struct bell_tensor *y);
/* x >> y, arithmetic on signed x, as said above; bool counts as int64. */
BELL_API struct bell_tensor *bell_rshift(struct bell_tensor *x,
                                         struct bell_tensor *y);
/* Comparisons and logic: the result is bool. */
BELL_API struct bell_tensor *bell_eq(struct bell_tensor *x,
                                     struct bell_tensor *y);
/* x != y; true with NaN. */
BELL_API struct bell_tensor *bell_ne(struct bell_tensor *x,
                                     struct bell_tensor *y);
/* x < y; false with NaN, as the next three. */
BELL_API struct bell_tensor *bell_lt(struct bell_tensor *x,
                                     struct bell_tensor *y);
/* x <= y. */
BELL_API struct bell_tensor *bell_le(struct bell_tensor *x,
                                     struct bell_tensor *y);
/* x > y. */
BELL_API struct bell_tensor *bell_gt(struct bell_tensor *x,
                                     struct bell_tensor *y);
/* x >= y. */
BELL_API struct bell_tensor *bell_ge(struct bell_tensor *x,
                                     struct bell_tensor *y);
/* x != 0 and y != 0. */
BELL_API struct bell_tensor *bell_logical_and(struct bell_tensor *x,
                                              struct bell_tensor *y);
/* x != 0 or y != 0. */
BELL_API struct bell_tensor *bell_logical_or(struct bell_tensor *x,
                                             struct bell_tensor *y);
/* Whether one of x and y is 0 and the other is not. */
BELL_API struct bell_tensor *bell_logical_xor(struct bell_tensor *x,
                                              struct bell_tensor *y);
/* |x - y| <= atol + rtol * |y|, elementwise; infinities equal themselves. rtol
 * and atol are 0 or more. */
BELL_API struct bell_tensor *bell_isclose(struct bell_tensor *x,
                                          struct bell_tensor *y, double rtol,
                                          double atol, bool equal_nan);

/* With a number: as the calls above with bell_scalar (a whole number counts as
 * an integer where x is integer or bool). For an integer that a double cannot
 * hold (above 2^53), here and in other calls that take a double, use
 * bell_scalar_int and the call for tensors. */
BELL_API struct bell_tensor *bell_add_scalar(struct bell_tensor *x, double y);
/* x - y. */
BELL_API struct bell_tensor *bell_sub_scalar(struct bell_tensor *x, double y);
/* x * y. */
BELL_API struct bell_tensor *bell_mul_scalar(struct bell_tensor *x, double y);
/* x / y; float. */
BELL_API struct bell_tensor *bell_div_scalar(struct bell_tensor *x, double y);
/* x to the y, as bell_pow. */
BELL_API struct bell_tensor *bell_pow_scalar(struct bell_tensor *x, double y);

/* ---- ternary ---- */

/* cond ? x : y; cond is bool. */
BELL_API struct bell_tensor *bell_where(struct bell_tensor *cond,
                                        struct bell_tensor *x,
                                        struct bell_tensor *y);
/* min(max(x, low), high); NULL: no bound on that side (not both). The gradient
 * goes to x between the bounds. Where x equals a bound, a tensor and x share it
 * equally; a number and x have none. A whole number outside x's integer dtype
 * counts as the dtype's nearest number. */
BELL_API struct bell_tensor *bell_clamp(struct bell_tensor *x,
                                        struct bell_tensor *low,
                                        struct bell_tensor *high);
/* The same with numbers; -INFINITY and INFINITY: no bound. */
BELL_API struct bell_tensor *bell_clip(struct bell_tensor *x, double low,
                                       double high);
/* x + weight * (end - x); float dtypes. */
BELL_API struct bell_tensor *bell_lerp(struct bell_tensor *x,
                                       struct bell_tensor *end,
                                       struct bell_tensor *weight);
/* x + value * a * b, x + value * a / b. */
BELL_API struct bell_tensor *bell_addcmul(struct bell_tensor *x,
                                          struct bell_tensor *a,
                                          struct bell_tensor *b, double value);
/* x + value * a / b. */
BELL_API struct bell_tensor *bell_addcdiv(struct bell_tensor *x,
                                          struct bell_tensor *a,
                                          struct bell_tensor *b, double value);

/* ---- unary ---- */

/* -x; not bool. Integers wrap. */
BELL_API struct bell_tensor *bell_neg(struct bell_tensor *x);
/* |x|; integers wrap. */
BELL_API struct bell_tensor *bell_abs(struct bell_tensor *x);
/* -1, 0 or 1 by x's sign, of x's dtype. */
BELL_API struct bell_tensor *bell_sign(struct bell_tensor *x);
/* x * x. */
BELL_API struct bell_tensor *bell_square(struct bell_tensor *x);
/* 1 / x; float. */
BELL_API struct bell_tensor *bell_reciprocal(struct bell_tensor *x);
/* Square root, correctly rounded unless math may be approximate; NaN below 0;
 * float. */
BELL_API struct bell_tensor *bell_sqrt(struct bell_tensor *x);
/* 1 / sqrt(x); float. */
BELL_API struct bell_tensor *bell_rsqrt(struct bell_tensor *x);
/* Integers and bool: every bit inverted (bool: not). */
BELL_API struct bell_tensor *bell_bitwise_not(struct bell_tensor *x);
/* x == 0, bool. */
BELL_API struct bell_tensor *bell_logical_not(struct bell_tensor *x);
/* To whole numbers; round is to nearest, ties to even. Integers stay. */
BELL_API struct bell_tensor *bell_trunc(struct bell_tensor *x);
/* Rounded down. */
BELL_API struct bell_tensor *bell_floor(struct bell_tensor *x);
/* Rounded up. */
BELL_API struct bell_tensor *bell_ceil(struct bell_tensor *x);
/* Rounded to nearest, ties to even. */
BELL_API struct bell_tensor *bell_round(struct bell_tensor *x);
/* x - trunc(x). */
BELL_API struct bell_tensor *bell_frac(struct bell_tensor *x);
/* bool; false for integers but isfinite. */
BELL_API struct bell_tensor *bell_isnan(struct bell_tensor *x);
/* Whether x is an infinity. */
BELL_API struct bell_tensor *bell_isinf(struct bell_tensor *x);
/* Whether x is the positive infinity. */
BELL_API struct bell_tensor *bell_isposinf(struct bell_tensor *x);
/* Whether x is the negative infinity. */
BELL_API struct bell_tensor *bell_isneginf(struct bell_tensor *x);
/* Whether x is neither NaN nor an infinity; true for integers. */
BELL_API struct bell_tensor *bell_isfinite(struct bell_tensor *x);
/* All float. Angles in radians. Results are good to a few units in the last
 * place; exp, which is 2 to the x log2 e, to 2 + |x| / 3 of them. */
BELL_API struct bell_tensor *bell_exp(struct bell_tensor *x);
/* 2 to the x. */
BELL_API struct bell_tensor *bell_exp2(struct bell_tensor *x);
/* exp(x) - 1, good near 0 too. */
BELL_API struct bell_tensor *bell_expm1(struct bell_tensor *x);
/* Natural logarithm; -infinity at 0, NaN below, as the next two. */
BELL_API struct bell_tensor *bell_log(struct bell_tensor *x);
/* Logarithm to base 2. */
BELL_API struct bell_tensor *bell_log2(struct bell_tensor *x);
/* Logarithm to base 10. */
BELL_API struct bell_tensor *bell_log10(struct bell_tensor *x);
/* log(1 + x), good near 0 too. */
BELL_API struct bell_tensor *bell_log1p(struct bell_tensor *x);
/* Sine. */
BELL_API struct bell_tensor *bell_sin(struct bell_tensor *x);
/* Cosine. */
BELL_API struct bell_tensor *bell_cos(struct bell_tensor *x);
/* Tangent. */
BELL_API struct bell_tensor *bell_tan(struct bell_tensor *x);
/* The angle in -pi/2..pi/2 whose sine is x; NaN outside of -1..1. */
BELL_API struct bell_tensor *bell_asin(struct bell_tensor *x);
/* The angle in 0..pi whose cosine is x; NaN outside of -1..1. */
BELL_API struct bell_tensor *bell_acos(struct bell_tensor *x);
/* The angle in -pi/2..pi/2 whose tangent is x. */
BELL_API struct bell_tensor *bell_atan(struct bell_tensor *x);
/* (exp(x) - exp(-x)) / 2. */
BELL_API struct bell_tensor *bell_sinh(struct bell_tensor *x);
/* (exp(x) + exp(-x)) / 2. */
BELL_API struct bell_tensor *bell_cosh(struct bell_tensor *x);
/* sinh(x) / cosh(x). */
BELL_API struct bell_tensor *bell_tanh(struct bell_tensor *x);
/* The number whose sinh is x. */
BELL_API struct bell_tensor *bell_asinh(struct bell_tensor *x);
/* The number of 0 or more whose cosh is x; NaN below 1. */
BELL_API struct bell_tensor *bell_acosh(struct bell_tensor *x);
/* The number whose tanh is x; NaN outside of -1..1. */
BELL_API struct bell_tensor *bell_atanh(struct bell_tensor *x);
/* Error function. */
BELL_API struct bell_tensor *bell_erf(struct bell_tensor *x);
/* Activations; float, but relu, relu6 and hardtanh keep integers. */
BELL_API struct bell_tensor *bell_relu(struct bell_tensor *x);
/* min(max(x, 0), 6). */
BELL_API struct bell_tensor *bell_relu6(struct bell_tensor *x);
/* x > 0 ? x : slope * x. */
BELL_API struct bell_tensor *bell_leaky_relu(struct bell_tensor *x,
                                             double slope);
/* x > 0 ? x : alpha * (exp(x) - 1). */
BELL_API struct bell_tensor *bell_elu(struct bell_tensor *x, double alpha);
/* x > 0 ? x : alpha * (exp(x / alpha) - 1). */
BELL_API struct bell_tensor *bell_celu(struct bell_tensor *x, double alpha);
/* 1.0507 * elu(x, 1.6733), with the constants of the paper in full. */
BELL_API struct bell_tensor *bell_selu(struct bell_tensor *x);
/* 1 / (1 + exp(-x)). */
BELL_API struct bell_tensor *bell_sigmoid(struct bell_tensor *x);
/* log(sigmoid(x)). */
BELL_API struct bell_tensor *bell_logsigmoid(struct bell_tensor *x);
/* x * sigmoid(x). */
BELL_API struct bell_tensor *bell_silu(struct bell_tensor *x);
/* x * Phi(x); `tanh_form` as PyTorch's approximate="tanh". */
BELL_API struct bell_tensor *bell_gelu(struct bell_tensor *x, bool tanh_form);
/* x * sigmoid(1.702 x). */
BELL_API struct bell_tensor *bell_quick_gelu(struct bell_tensor *x);
/* log(1 + exp(beta * x)) / beta. */
BELL_API struct bell_tensor *bell_softplus(struct bell_tensor *x, double beta);
/* x / (1 + |x|). */
BELL_API struct bell_tensor *bell_softsign(struct bell_tensor *x);
/* x * tanh(softplus(x)). */
BELL_API struct bell_tensor *bell_mish(struct bell_tensor *x);
/* min(max(x, low), high), which are truncated where x is integer. */
BELL_API struct bell_tensor *bell_hardtanh(struct bell_tensor *x, double low,
                                           double high);
/* min(max(x + 3, 0), 6) / 6. */
BELL_API struct bell_tensor *bell_hardsigmoid(struct bell_tensor *x);
/* x * hardsigmoid(x). */
BELL_API struct bell_tensor *bell_hardswish(struct bell_tensor *x);

/* ---- reductions ----
 *
 * `axes` lists the axes to reduce, an empty list (BELL_NO_DIMS) all of them;
 * keepdim keeps them with size 1. */

/* Integers and bool are summed as int64. */
BELL_API struct bell_tensor *bell_sum(struct bell_tensor *x,
                                      const int64_t *axes, uint32_t n_axes,
                                      bool keepdim);
/* Product; integers and bool as int64. 1 over no elements. */
BELL_API struct bell_tensor *bell_prod(struct bell_tensor *x,
                                       const int64_t *axes, uint32_t n_axes,
                                       bool keepdim);
/* Over no elements: an error. NaN if any is NaN. The gradient is shared
 * equally among equal extremes. */
BELL_API struct bell_tensor *bell_max(struct bell_tensor *x,
                                      const int64_t *axes, uint32_t n_axes,
                                      bool keepdim);
/* The smallest, as bell_max. */
BELL_API struct bell_tensor *bell_min(struct bell_tensor *x,
                                      const int64_t *axes, uint32_t n_axes,
                                      bool keepdim);
/* Float dtypes only (cast first). */
BELL_API struct bell_tensor *bell_mean(struct bell_tensor *x,
                                       const int64_t *axes, uint32_t n_axes,
                                       bool keepdim);
/* Sum of squared distances from the mean over max(0, n - correction); float
 * dtypes only. */
BELL_API struct bell_tensor *bell_var(struct bell_tensor *x,
                                      const int64_t *axes, uint32_t n_axes,
                                      bool keepdim, double correction);
/* Square root of bell_var. */
BELL_API struct bell_tensor *bell_std(struct bell_tensor *x,
                                      const int64_t *axes, uint32_t n_axes,
                                      bool keepdim, double correction);
/* Whether any, all elements are not 0; bool. */
BELL_API struct bell_tensor *bell_any(struct bell_tensor *x,
                                      const int64_t *axes, uint32_t n_axes,
                                      bool keepdim);
/* Whether no element is 0; true over no elements. */
BELL_API struct bell_tensor *bell_all(struct bell_tensor *x,
                                      const int64_t *axes, uint32_t n_axes,
                                      bool keepdim);
/* How many elements are not 0, int64; the axes go. */
BELL_API struct bell_tensor *
bell_count_nonzero(struct bell_tensor *x, const int64_t *axes, uint32_t n_axes);
/* (sum |x|^p)^(1/p); p may be INFINITY, -INFINITY and 0 (count of x != 0), of
 * no elements 0 or more and finite. Where it is 0 (p greater than 0) the
 * gradient is 0. */
BELL_API struct bell_tensor *bell_norm(struct bell_tensor *x, double p,
                                       const int64_t *axes, uint32_t n_axes,
                                       bool keepdim);
/* log(sum(exp(x))) without overflow on the way; float. */
BELL_API struct bell_tensor *bell_logsumexp(struct bell_tensor *x,
                                            const int64_t *axes,
                                            uint32_t n_axes, bool keepdim);
/* The axis of the flattened x, for bell_argmax and bell_argmin. */
#define BELL_FLAT INT32_MIN
/* Index of the first greatest (or first NaN) along the axis, int64. */
BELL_API struct bell_tensor *bell_argmax(struct bell_tensor *x, int axis,
                                         bool keepdim);
/* Index of the first smallest, as bell_argmax. */
BELL_API struct bell_tensor *bell_argmin(struct bell_tensor *x, int axis,
                                         bool keepdim);
/* Along one axis; float. */
BELL_API struct bell_tensor *bell_softmax(struct bell_tensor *x, int axis);
/* log(softmax(x)), good where softmax rounds to 0. */
BELL_API struct bell_tensor *bell_log_softmax(struct bell_tensor *x, int axis);
/* softmax(-x). */
BELL_API struct bell_tensor *bell_softmin(struct bell_tensor *x, int axis);
/* x / max(norm of order p along the axis, eps). */
BELL_API struct bell_tensor *bell_normalize(struct bell_tensor *x, double p,
                                            int axis, double eps);
/* Running results along an axis; integers as int64 (cummax, cummin: x's
 * dtype). */
BELL_API struct bell_tensor *bell_cumsum(struct bell_tensor *x, int axis);
/* out[i] = x[0] * .. * x[i]. */
BELL_API struct bell_tensor *bell_cumprod(struct bell_tensor *x, int axis);
/* out[i] = the greatest of x[0..i]; NaN from the first NaN on. */
BELL_API struct bell_tensor *bell_cummax(struct bell_tensor *x, int axis);
/* out[i] = the smallest of x[0..i]; NaN from the first NaN on. */
BELL_API struct bell_tensor *bell_cummin(struct bell_tensor *x, int axis);
/* Order along an axis, stable; NaN counts as the greatest. Either output may
 * be NULL. Work grows with n log^2 n of the axis' size n, at most 2^32.
 * out_indices are int64. */
BELL_API void bell_sort(struct bell_tensor *x, int axis, bool descending,
                        struct bell_tensor **out_values,
                        struct bell_tensor **out_indices);
/* The indices that bell_sort gives. */
BELL_API struct bell_tensor *bell_argsort(struct bell_tensor *x, int axis,
                                          bool descending);
/* The k greatest (or smallest), in order. */
BELL_API void bell_topk(struct bell_tensor *x, int64_t k, int axis,
                        bool largest, struct bell_tensor **out_values,
                        struct bell_tensor **out_indices);

/* ---- matrix products ---- */

/* out[b.., i, k] = sum_j x[b.., i, j] * y[b.., j, k]; batch axes broadcast; a
 * rank-1 x is a row, a rank-1 y a column, and that axis is removed. dtypes
 * are promoted; integers stay their dtype (and wrap). */
BELL_API struct bell_tensor *bell_matmul(struct bell_tensor *x,
                                         struct bell_tensor *y);
/* The same, rank-1 by rank-1 only. */
BELL_API struct bell_tensor *bell_dot(struct bell_tensor *x,
                                      struct bell_tensor *y);
/* The same, rank 3 by rank 3 with equal batch size only. */
BELL_API struct bell_tensor *bell_bmm(struct bell_tensor *x,
                                      struct bell_tensor *y);
/* out[i, j] = x[i] * y[j]. */
BELL_API struct bell_tensor *bell_outer(struct bell_tensor *x,
                                        struct bell_tensor *y);
/* Sums of products by letters: "bij,bjk->bik". Letters a-z and A-Z, each of
 * one size. "..." stands for the other axes of an operand, which broadcast with
 * those of others, and are summed where the result does not name them. Without
 * "->": "..." and the letters that occur once, in alphabetical order. A letter
 * twice in one operand takes its diagonal. */
BELL_API struct bell_tensor *bell_einsum(const char *formula,
                                         struct bell_tensor *const *tensors,
                                         uint32_t n);
/* x @ weight^T + bias: weight[out, in]; bias[out] or NULL. A weight[in] takes
 * no bias, and the result has no last axis. */
BELL_API struct bell_tensor *bell_linear(struct bell_tensor *x,
                                         struct bell_tensor *weight,
                                         struct bell_tensor *bias);
/* beta * x + alpha * (a @ b) of matrices (m, k) and (k, n); x broadcasts to
 * (m, n). With beta 0 x is not used, even where it is NaN. float16 and bfloat16
 * are rounded once, at the end. For integers beta and alpha must be whole
 * (BELL_BAD_VALUE). All three have gradients. */
BELL_API struct bell_tensor *bell_addmm(struct bell_tensor *x,
                                        struct bell_tensor *a,
                                        struct bell_tensor *b, double beta,
                                        double alpha);
/* softmax(q @ k^T * scale + mask) @ v over the last two axes. mask: NULL, bool
 * (true: take part) or float, broadcast to [.., L, S]. causal: position i
 * sees j <= i; not with a mask. scale 0: 1 / sqrt(last size of q). Axis -3
 * are the heads: k and v may have fewer, if their number divides that of q;
 * then each serves as many of q's, one after the other. */
BELL_API struct bell_tensor *bell_scaled_dot_product_attention(
    struct bell_tensor *q, struct bell_tensor *k, struct bell_tensor *v,
    struct bell_tensor *mask, double dropout_p, bool causal, double scale);

/* ---- convolution and pooling ----
 *
 * Over the last 1, 2 or 3 axes, as the name says: x[n, c, l], x[n, c, h, w],
 * x[n, c, d, h, w]; without n of one image, and so is the result. Lists are in
 * the order of these axes; of more numbers than axes the first count. */

struct bell_conv_options {
    uint32_t struct_size;      /* sizeof(struct bell_conv_options) */
    int64_t stride[3];         /* 0 means 1 */
    int64_t padding[3];        /* zeros on both sides; negative ones cut, but
                                * not for conv_transpose */
    int64_t dilation[3];       /* 0 means 1 */
    int64_t groups;            /* 0 means 1 */
    int64_t output_padding[3]; /* conv_transpose only */
    int64_t padding_end[3];    /* zeros behind the last element, more than
                                * before the first; together at least 0 */
};

/* out[n, o, y, x] = bias[o] + sum over i, p, q of
 *   x[n, g(o) * I + i, y * stride + p * dilation - padding, ...] *
 *   weight[o, i, p, q],  weight[out, in / groups, kh, kw]. bias, opt: or
 * NULL. */
BELL_API struct bell_tensor *bell_conv2d(struct bell_tensor *x,
                                         struct bell_tensor *weight,
                                         struct bell_tensor *bias,
                                         const struct bell_conv_options *opt);
/* The same over one axis. */
BELL_API struct bell_tensor *bell_conv1d(struct bell_tensor *x,
                                         struct bell_tensor *weight,
                                         struct bell_tensor *bias,
                                         const struct bell_conv_options *opt);
/* The same over three axes. */
BELL_API struct bell_tensor *bell_conv3d(struct bell_tensor *x,
                                         struct bell_tensor *weight,
                                         struct bell_tensor *bias,
                                         const struct bell_conv_options *opt);
/* The gradient of the convolution as an operation: weight[in, out / groups,
 * k]; out size (h - 1) * stride - 2 padding - padding_end + dilation (kh - 1) +
 * 1 + output_padding. */
BELL_API struct bell_tensor *
bell_conv_transpose1d(struct bell_tensor *x, struct bell_tensor *weight,
                      struct bell_tensor *bias,
                      const struct bell_conv_options *opt);
/* The same over two axes. */
BELL_API struct bell_tensor *
bell_conv_transpose2d(struct bell_tensor *x, struct bell_tensor *weight,
                      struct bell_tensor *bias,
                      const struct bell_conv_options *opt);
/* The same over three axes. */
BELL_API struct bell_tensor *
bell_conv_transpose3d(struct bell_tensor *x, struct bell_tensor *weight,
                      struct bell_tensor *bias,
                      const struct bell_conv_options *opt);

struct bell_pool_options {
    uint32_t struct_size; /* sizeof(struct bell_pool_options) */
    int64_t kernel[3];
    int64_t stride[3];   /* 0 means the kernel's size */
    int64_t padding[3];  /* at most half the kernel */
    int64_t dilation[3]; /* 0 means 1; of maxima only */
    bool ceil_mode;      /* a last partial window counts too, also the first */
    bool exclude_pad;    /* of means: divide by the elements that exist */
};
/* The greatest of each window, x[.., l]; NaN if there is one. The gradient is
 * shared equally among equal extremes. Where they are: vision.h. */
BELL_API struct bell_tensor *
bell_max_pool1d(struct bell_tensor *x, const struct bell_pool_options *opt);
/* The same over two axes, x[.., h, w]. */
BELL_API struct bell_tensor *
bell_max_pool2d(struct bell_tensor *x, const struct bell_pool_options *opt);
/* The same over three axes. */
BELL_API struct bell_tensor *
bell_max_pool3d(struct bell_tensor *x, const struct bell_pool_options *opt);
/* Mean of each window; zeros around count unless exclude_pad. Float. */
BELL_API struct bell_tensor *
bell_avg_pool1d(struct bell_tensor *x, const struct bell_pool_options *opt);
/* The same over two axes. */
BELL_API struct bell_tensor *
bell_avg_pool2d(struct bell_tensor *x, const struct bell_pool_options *opt);
/* The same over three axes. */
BELL_API struct bell_tensor *
bell_avg_pool3d(struct bell_tensor *x, const struct bell_pool_options *opt);
/* Means of windows such that the last n axes get these sizes: result i is of
 * elements floor(i * size / out) to ceil((i + 1) * size / out) - 1. 0: the size
 * stays. Float. */
BELL_API struct bell_tensor *
bell_adaptive_avg_pool(struct bell_tensor *x, const int64_t *sizes, uint32_t n);

enum bell_resize_mode {
    BELL_RESIZE_NEAREST, /* element floor(i * size / out) */
    BELL_RESIZE_EXACT,   /* element floor((i + 0.5) * size / out) */
    BELL_RESIZE_LINEAR,  /* between two; bilinear, trilinear of more axes */
    BELL_RESIZE_CUBIC,   /* between four */
};
/* Resizes the last n axes to these sizes. Result i is taken at
 * (i + 0.5) * size / out - 0.5; with align_corners, which LINEAR and CUBIC
 * know, at i * (size - 1) / (out - 1). scale: out / size where that is to be
 * taken as another number than it is; else 0. Floats, but for NEAREST; uint8
 * and more: bell_resize in vision.h. */
BELL_API struct bell_tensor *bell_interpolate(struct bell_tensor *x,
                                              const int64_t *sizes, uint32_t n,
                                              enum bell_resize_mode mode,
                                              bool align_corners, double scale);

/* x[.., c * f * f, h, w] to [.., c, h * f, w * f]: the elements of each block
 * of f x f were f * f channels. */
BELL_API struct bell_tensor *bell_pixel_shuffle(struct bell_tensor *x,
                                                int64_t factor);
/* The way back. */
BELL_API struct bell_tensor *bell_pixel_unshuffle(struct bell_tensor *x,
                                                  int64_t factor);

/* ---- normalisation ---- */

/* (x - mean) / sqrt(var + eps) over the last n_axes axes (var with
 * correction 0), * weight + bias, of the shape of those axes or NULL. */
BELL_API struct bell_tensor *bell_layer_norm(struct bell_tensor *x,
                                             uint32_t n_axes,
                                             struct bell_tensor *weight,
                                             struct bell_tensor *bias,
                                             double eps);
/* x / sqrt(mean of squares + eps) * weight, over as many of the last axes as
 * weight has; weight NULL: over the last one, times 1. */
BELL_API struct bell_tensor *
bell_rms_norm(struct bell_tensor *x, struct bell_tensor *weight, double eps);
/* x[n, c, ..] by given statistics: (x - mean[c]) / sqrt(var[c] + eps) *
 * weight[c] + bias[c]; weight and bias or NULL. */
BELL_API struct bell_tensor *
bell_batch_norm(struct bell_tensor *x, struct bell_tensor *mean,
                struct bell_tensor *var, struct bell_tensor *weight,
                struct bell_tensor *bias, double eps);
/* x[n, c, ..] normalised over each group of channels of one image. */
BELL_API struct bell_tensor *bell_group_norm(struct bell_tensor *x,
                                             int64_t n_groups,
                                             struct bell_tensor *weight,
                                             struct bell_tensor *bias,
                                             double eps);

/* ---- losses ---- */

enum bell_reduction {
    BELL_MEAN,
    BELL_SUM,
    BELL_EACH,
    BELL_BATCH_MEAN /* for bell_kl_div alone */
};

/* "Nothing is ignored" for ignore_index. */
#define BELL_IGNORE_NONE INT64_MIN

/* -log softmax of the right class. logits[n, c, d..] or [c]; target: classes
 * [n, d..], integer, or probabilities of logits' shape, float. Elements whose
 * class is ignore_index count nothing; the loss of a class out of range is
 * 0. Smoothing e: targets become (1 - e) t + e / c. */
BELL_API struct bell_tensor *bell_cross_entropy(struct bell_tensor *logits,
                                                struct bell_tensor *target,
                                                double label_smoothing,
                                                int64_t ignore_index,
                                                enum bell_reduction reduction);
/* The same with a factor for each class, weight[c], or NULL: of the log softmax
 * before targets sum it; a mean over classes is over the sum of the targets'
 * factors, one over probabilities over their number. */
BELL_API struct bell_tensor *bell_weighted_cross_entropy(
    struct bell_tensor *logits, struct bell_tensor *target,
    struct bell_tensor *weight, double label_smoothing, int64_t ignore_index,
    enum bell_reduction reduction);
/* The same from log-probabilities, without smoothing. weight: factor of each
 * class, [c], or NULL; the mean is over the factors' sum. */
BELL_API struct bell_tensor *bell_nll_loss(struct bell_tensor *log_probs,
                                           struct bell_tensor *target,
                                           struct bell_tensor *weight,
                                           int64_t ignore_index,
                                           enum bell_reduction reduction);
/* (x - y)^2 of two tensors of one shape. */
BELL_API struct bell_tensor *bell_mse_loss(struct bell_tensor *x,
                                           struct bell_tensor *y,
                                           enum bell_reduction reduction);
/* |x - y|. */
BELL_API struct bell_tensor *bell_l1_loss(struct bell_tensor *x,
                                          struct bell_tensor *y,
                                          enum bell_reduction reduction);
/* Quadratic below delta, linear above. */
BELL_API struct bell_tensor *bell_huber_loss(struct bell_tensor *x,
                                             struct bell_tensor *y,
                                             double delta,
                                             enum bell_reduction reduction);
/* d^2 / (2 beta) of d = |x - y| below beta, d - beta / 2 above; beta 0: d. */
BELL_API struct bell_tensor *bell_smooth_l1_loss(struct bell_tensor *x,
                                                 struct bell_tensor *y,
                                                 double beta,
                                                 enum bell_reduction reduction);
/* y (log y - x) of log-probabilities x and probabilities y, 0 where y is 0;
 * log_target: y are logarithms too. The mean is over all elements;
 * BELL_BATCH_MEAN divides the sum by the size of axis 0. */
BELL_API struct bell_tensor *bell_kl_div(struct bell_tensor *x,
                                         struct bell_tensor *y, bool log_target,
                                         enum bell_reduction reduction);
/* From probabilities x and targets y in 0..1; logarithms are clamped at -100 as
 * in PyTorch. */
BELL_API struct bell_tensor *
bell_binary_cross_entropy(struct bell_tensor *x, struct bell_tensor *y,
                          enum bell_reduction reduction);
/* The same of logits. pos_weight: factor of the term of y, broadcast, or
 * NULL. */
BELL_API struct bell_tensor *bell_binary_cross_entropy_with_logits(
    struct bell_tensor *x, struct bell_tensor *y,
    struct bell_tensor *pos_weight, enum bell_reduction reduction);

/* ---- gradients ---- */

/* out_grads[i] = d loss / d targets[i], tensors of the targets' shapes and
 * dtypes; zeros where the loss does not depend on a target. Refused where it
 * depends on none because it was realized or read before: a value in memory
 * has no history. loss: one element, float. Targets are float; two tensors
 * that denote one value, by bell_alias or by a bell_assign before both were
 * marked, are refused. The gradients are graphs like any other and can be
 * differentiated again. */
BELL_API BELL_MUST_CHECK bell_status
bell_gradient(struct bell_tensor *loss, struct bell_tensor *const *targets,
              uint32_t n, struct bell_tensor **out_grads);
/* The same with a given d out / d x: v of x's shape, x of any shape. */
BELL_API BELL_MUST_CHECK bell_status
bell_vjp(struct bell_tensor *x, struct bell_tensor *v,
         struct bell_tensor *const *targets, uint32_t n,
         struct bell_tensor **out_grads);
/* Marks a float tensor for bell_backward; returns it. */
BELL_API struct bell_tensor *bell_requires_grad(struct bell_tensor *t, bool on);
/* Adds d loss / d t to the grad of every marked tensor of the context that
 * the loss depends on. Call it before the loss is realized or read: a value
 * in memory has no history. Refused where two of them denote one value, as by
 * bell_gradient. */
BELL_API BELL_MUST_CHECK bell_status bell_backward(struct bell_tensor *loss);
/* The gradient that bell_backward left, or NULL. It belongs to t. */
BELL_API struct bell_tensor *bell_grad(const struct bell_tensor *t);
/* Forgets t's gradient. */
BELL_API void bell_zero_grad(struct bell_tensor *t);

#ifdef __cplusplus
}
#endif
#endif
