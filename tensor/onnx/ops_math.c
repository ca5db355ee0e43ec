/* Operators that compute elements, sums and orders. src: onnx 1.23,
 * Operators. */
#include "tensor/onnx/ops.h"

#include <math.h>
#include <string.h>

static bool
is_float(const struct bell_tensor *x)
{
    return bell_dtype_of(x) >= BELL_FLOAT16;
}

/* ---- elementwise ---- */

/* The second operand; before opset 7 it broadcasts from an axis of the
 * first. */
static struct bell_tensor *
second_operand(struct onnx_op *op)
{
    struct bell_tensor *x = op_in(op, 0), *y = op_in(op, 1);
    int64_t axis = op_axis(op_int(op, "axis", 0), bell_ndim(x));
    int64_t shape[BELL_MAX_RANK];
    uint32_t i;

    if (op->opset >= 7 || !op_int(op, "broadcast", 0) || !op_attr(op, "axis"))
        return y;
    for (i = 0; i < bell_ndim(x); i++)
        shape[i] =
            i >= axis && i < axis + bell_ndim(y) ? op_dims(y)[i - axis] : 1;
    return bell_reshape(y, shape, bell_ndim(x));
}

bell_status
onnx_op_arithmetic(struct onnx_op *op)
{
    struct bell_tensor *x = op_in(op, 0), *y = second_operand(op), *out;
    const char *name = op->node->op;

    if (*name == 'A')
        out = bell_add(x, y);
    else if (*name == 'S')
        out = bell_sub(x, y);
    else if (*name == 'M')
        out = bell_mul(x, y);
    else
        out = is_float(x) ? bell_div(x, y) : bell_trunc_divide(x, y);
    op_out(op, 0, op_to(out, bell_dtype_of(x)));
    return BELL_OK;
}

bell_status
onnx_op_mod(struct onnx_op *op)
{
    struct bell_tensor *x = op_in(op, 0), *y = op_in(op, 1), *rest;
    bool is_fmod = op_int(op, "fmod", 0);

    rest = is_fmod ? bell_fmod(x, y) : bell_remainder(x, y);
    /* 0 has the sign of the divisor, too */
    if (!is_fmod && is_float(x))
        rest = bell_where(bell_eq(rest, bell_zeros_like(rest, BELL_DEFAULT)),
                          bell_copysign(rest, y), rest);
    op_out(op, 0, rest);
    return BELL_OK;
}

bell_status
onnx_op_pow(struct onnx_op *op)
{
    struct bell_tensor *x = op_in(op, 0), *y = second_operand(op);
    enum bell_dtype dtype = bell_dtype_of(x);

    /* An integer to the power of a float is rounded towards zero. */
    if (!is_float(x) && is_float(y)) {
        x = bell_cast(x, BELL_FLOAT64);
        y = bell_cast(y, BELL_FLOAT64);
    } else if (is_float(x)) {
        y = op_to(y, dtype);
    }
    op_out(op, 0, op_to(bell_pow(x, y), dtype));
    return BELL_OK;
}

/* Max, Min, Sum and Mean of any number of tensors. */
bell_status
onnx_op_variadic(struct onnx_op *op)
{
    const char *name = op->node->op;
    struct bell_tensor *y = op_in(op, 0), *x;
    enum bell_dtype dtype = bell_dtype_of(y);
    uint32_t i;

    for (i = 1; i < op->n_in; i++) {
        x = op_in(op, i);
        if (strcmp(name, "Max") == 0)
            y = bell_maximum(y, x);
        else if (strcmp(name, "Min") == 0)
            y = bell_minimum(y, x);
        else
            y = bell_add(y, x);
    }
    if (strcmp(name, "Mean") == 0)
        y = bell_div_scalar(y, op->n_in);
    op_out(op, 0, op->n_in == 1 ? bell_alias(y) : op_to(y, dtype));
    return BELL_OK;
}

bell_status
onnx_op_clip(struct onnx_op *op)
{
    struct bell_tensor *x = op_in(op, 0), *low = NULL, *high = NULL;

    if (op->opset < 11) {
        op_out(op, 0,
               bell_clip(x, op_float(op, "min", -INFINITY),
                         op_float(op, "max", INFINITY)));
        return BELL_OK;
    }
    low = op_in_or_null(op, 1);
    high = op_in_or_null(op, 2);
    if (low)
        x = bell_maximum(x, low);
    if (high)
        x = bell_minimum(x, high);
    op_out(op, 0, bell_alias(x));
    return BELL_OK;
}

bell_status
onnx_op_isinf(struct onnx_op *op)
{
    struct bell_tensor *x = op_in(op, 0);
    bool negative = op_int(op, "detect_negative", 1);
    bool positive = op_int(op, "detect_positive", 1);

    if (negative && positive)
        x = bell_isinf(x);
    else if (negative || positive)
        x = negative ? bell_isneginf(x) : bell_isposinf(x);
    else
        x = bell_zeros(op->ctx, op_dims(x), bell_ndim(x), BELL_BOOL);
    op_out(op, 0, x);
    return BELL_OK;
}

bell_status
onnx_op_bit_shift(struct onnx_op *op)
{
    const char *direction = op_str(op, "direction", "");
    struct bell_tensor *x = op_in(op, 0), *y = op_in(op, 1);

    if (strcmp(direction, "LEFT") != 0 && strcmp(direction, "RIGHT") != 0)
        return op_unsupported("direction '%.40s' is not known", direction);
    op_out(op, 0, *direction == 'L' ? bell_lshift(x, y) : bell_rshift(x, y));
    return BELL_OK;
}

bell_status
onnx_op_hard_sigmoid(struct onnx_op *op)
{
    struct bell_tensor *x = op_in(op, 0);

    x = bell_add_scalar(bell_mul_scalar(x, op_float(op, "alpha", (double)0.2f)),
                        op_float(op, "beta", 0.5));
    op_out(op, 0, bell_clip(x, 0, 1));
    return BELL_OK;
}

bell_status
onnx_op_selu(struct onnx_op *op)
{
    struct bell_tensor *x = op_in(op, 0);
    double alpha = op_float(op, "alpha", 1.67326319217681884765625);
    double gamma = op_float(op, "gamma", 1.05070102214813232421875);

    op_out(op, 0, bell_mul_scalar(bell_elu(x, alpha), gamma));
    return BELL_OK;
}

bell_status
onnx_op_swish(struct onnx_op *op)
{
    struct bell_tensor *x = op_in(op, 0);
    double alpha = op_float(op, "alpha", 1);

    op_out(
        op, 0,
        bell_mul(x, bell_sigmoid(alpha == 1 ? x : bell_mul_scalar(x, alpha))));
    return BELL_OK;
}

bell_status
onnx_op_swiglu(struct onnx_op *op)
{
    struct bell_tensor *a = op_in(op, 0);
    double alpha = op_float(op, "alpha", 1);

    a = bell_mul(a, bell_sigmoid(alpha == 1 ? a : bell_mul_scalar(a, alpha)));
    op_out(op, 0, bell_mul(a, op_in(op, 1)));
    return BELL_OK;
}

/* com.microsoft's: gelu(x + bias), of either form. */
bell_status
onnx_op_bias_gelu(struct onnx_op *op)
{
    struct bell_tensor *x = op_in(op, 0), *bias = op_in_or_null(op, 1);
    bool is_fast = strcmp(op->node->op, "FastGelu") == 0;

    op_out(op, 0, bell_gelu(bias ? bell_add(x, bias) : x, is_fast));
    return BELL_OK;
}

/* com.microsoft's: alpha a @ b, either transposed before. */
bell_status
onnx_op_fused_matmul(struct onnx_op *op)
{
    struct bell_tensor *a = op_in(op, 0), *b = op_in(op, 1), *y;
    double alpha = op_float(op, "alpha", 1);

    /* the first axis goes behind the others of the batch */
    if (op_int(op, "transBatchA", 0) && bell_ndim(a) > 2)
        a = bell_movedim(a, 0, -2);
    if (op_int(op, "transBatchB", 0) && bell_ndim(b) > 2)
        b = bell_movedim(b, 0, -2);
    if (op_int(op, "transA", 0))
        a = bell_t(a);
    if (op_int(op, "transB", 0))
        b = bell_t(b);
    y = bell_matmul(a, b);
    op_out(op, 0, alpha == 1 ? y : bell_mul_scalar(y, alpha));
    return BELL_OK;
}

bell_status
onnx_op_quick_gelu(struct onnx_op *op)
{
    struct bell_tensor *x = op_in(op, 0);

    op_out(op, 0,
           bell_mul(x, bell_sigmoid(bell_mul_scalar(
                           x, op_float(op, "alpha", (double)1.702f)))));
    return BELL_OK;
}

bell_status
onnx_op_shrink(struct onnx_op *op)
{
    struct bell_tensor *x = op_in(op, 0), *zero;
    double bias = op_float(op, "bias", 0), lambd = op_float(op, "lambd", 0.5);
    enum bell_dtype dtype = bell_dtype_of(x);

    zero = bell_zeros_like(x, dtype);
    zero = bell_where(bell_gt(x, bell_scalar(op->ctx, lambd)),
                      op_to(bell_sub_scalar(x, bias), dtype), zero);
    op_out(op, 0,
           bell_where(bell_lt(x, bell_scalar(op->ctx, -lambd)),
                      op_to(bell_add_scalar(x, bias), dtype), zero));
    return BELL_OK;
}

bell_status
onnx_op_thresholded_relu(struct onnx_op *op)
{
    struct bell_tensor *x = op_in(op, 0);
    double alpha = op_float(op, "alpha", 1);

    op_out(op, 0,
           bell_where(bell_gt(x, bell_scalar(op->ctx, alpha)), x,
                      bell_zeros_like(x, BELL_DEFAULT)));
    return BELL_OK;
}

bell_status
onnx_op_prelu(struct onnx_op *op)
{
    struct bell_tensor *x = op_in(op, 0), *slope = op_in(op, 1);
    int64_t shape[BELL_MAX_RANK];
    uint32_t i;

    /* Before opset 7 a list of slopes is of channels. */
    if (op->opset < 9 && bell_ndim(slope) == 1 && bell_ndim(x) > 2 &&
        op_dim(slope, 0) == op_dim(x, 1)) {
        for (i = 0; i < bell_ndim(x); i++)
            shape[i] = i == 1 ? op_dim(slope, 0) : 1;
        slope = bell_reshape(slope, shape, bell_ndim(x));
    }
    op_out(op, 0,
           bell_where(bell_lt(x, bell_zeros_like(x, BELL_DEFAULT)),
                      bell_mul(x, slope), x));
    return BELL_OK;
}

bell_status
onnx_op_dropout(struct onnx_op *op)
{
    struct onnx_ints training = {0};

    if (op->opset >= 12)
        BELL_TRY(op_in_ints(op, 2, &training));
    if (training.n == 1 && training.v[0]) {
        const double *ratio;
        uint32_t n;

        BELL_TRY(op_in_floats(op, 1, &ratio, &n));
        if (n != 1 || ratio[0] != 0)
            return op_unsupported("in training");
    }
    op_out(op, 0, bell_alias(op_in(op, 0)));
    if (op->n_out > 1)
        op_out(op, 1,
               bell_ones_like(op_in(op, 0),
                              op->opset >= 10 ? BELL_BOOL : BELL_DEFAULT));
    return BELL_OK;
}

/* ---- along axes ---- */

/* x as a matrix, its first axes together: Softmax before opset 13. */
static struct bell_tensor *
flatten_at(struct onnx_op *op, struct bell_tensor *x, int64_t axis)
{
    int64_t shape[2] = {1, 1};
    uint32_t i;

    for (i = 0; i < bell_ndim(x); i++)
        shape[i >= axis] = op_dim_mul(op, shape[i >= axis], op_dim(x, (int)i));
    return bell_reshape(x, shape, 2);
}

static struct bell_tensor *
hardmax(struct bell_tensor *x, int axis)
{
    struct bell_tensor *best = bell_argmax(x, axis, true), *range;
    int64_t shape[BELL_MAX_RANK];
    uint32_t i, ndim = bell_ndim(x);

    axis = axis < 0 ? axis + (int)ndim : axis;
    for (i = 0; i < ndim; i++)
        shape[i] = (int)i == axis ? op_dim(x, axis) : 1;
    range = bell_reshape(bell_arange_dims(bell_context_of(x), bell_dim_of(0),
                                          bell_dim_at(x, axis), BELL_INT64),
                         shape, ndim);
    return bell_cast(bell_eq(best, range), bell_dtype_of(x));
}

bell_status
onnx_op_softmax(struct onnx_op *op)
{
    struct bell_tensor *x = op_in(op, 0), *y;
    const char *name = op->node->op;
    int64_t axis = op_int(op, "axis", op->opset >= 13 ? -1 : 1);
    int64_t shape[BELL_MAX_RANK];
    uint32_t ndim = bell_ndim(x);
    int along = (int)axis;

    if (ndim)
        memcpy(shape, op_dims(x), ndim * sizeof(int64_t));
    if (op->opset < 13) {
        x = flatten_at(op, x, op_axis(axis, ndim));
        along = 1;
    }
    y = *name == 'L'   ? bell_log_softmax(x, along)
        : *name == 'H' ? hardmax(x, along)
                       : bell_softmax(x, along);
    op_out(op, 0, op->opset < 13 ? bell_reshape(y, shape, ndim) : y);
    return BELL_OK;
}

/* Axes of a reduction; none where the node says that nothing is reduced. */
static bell_status
reduce_axes(struct onnx_op *op, struct onnx_ints *axes, bool *out_nothing)
{
    bool is_sum = strcmp(op->node->op, "ReduceSum") == 0;

    BELL_TRY(op_axes(op, "axes", 1, is_sum ? 13 : 18, axes));
    *out_nothing =
        (!axes->given || axes->n == 0) && op_int(op, "noop_with_empty_axes", 0);
    return BELL_OK;
}

static struct bell_tensor *
reduce(const char *kind, struct bell_tensor *x, const struct onnx_ints *axes,
       bool keep)
{
    const int64_t *a = axes->v;
    uint32_t n = axes->n;

    if (strcmp(kind, "Sum") == 0)
        return bell_sum(x, a, n, keep);
    if (strcmp(kind, "Mean") == 0)
        return bell_mean(x, a, n, keep);
    if (strcmp(kind, "Prod") == 0)
        return bell_prod(x, a, n, keep);
    if (strcmp(kind, "Max") == 0)
        return bell_dtype_of(x) == BELL_BOOL ? bell_any(x, a, n, keep)
                                             : bell_max(x, a, n, keep);
    if (strcmp(kind, "Min") == 0)
        return bell_dtype_of(x) == BELL_BOOL ? bell_all(x, a, n, keep)
                                             : bell_min(x, a, n, keep);
    if (strcmp(kind, "L1") == 0)
        return bell_sum(bell_abs(x), a, n, keep);
    if (strcmp(kind, "LogSumExp") == 0)
        return bell_logsumexp(is_float(x) ? x : bell_cast(x, BELL_FLOAT64), a,
                              n, keep);
    if (strcmp(kind, "LogSum") == 0)
        return bell_log(bell_sum(x, a, n, keep));
    x = bell_sum(bell_square(x), a, n, keep);
    if (strcmp(kind, "L2") == 0)
        x = bell_sqrt(is_float(x) ? x : bell_cast(x, BELL_FLOAT64));
    return x;
}

/* The value of each element where noop reduces nothing. */
static struct bell_tensor *
reduce_nothing(const char *kind, struct bell_tensor *x)
{
    if (strcmp(kind, "L1") == 0 || strcmp(kind, "L2") == 0)
        return bell_abs(x);
    if (strcmp(kind, "SumSquare") == 0)
        return bell_square(x);
    if (strcmp(kind, "LogSum") == 0)
        return bell_log(x);
    return bell_alias(x);
}

/* The greatest of no elements, which the standard has and NumPy has not. */
static bell_status
reduce_empty(struct onnx_op *op, struct bell_tensor *x,
             const struct onnx_ints *axes, bool keep, double value)
{
    struct bell_tensor *shape =
        bell_sum(bell_zeros_like(x, BELL_FLOAT32), axes->v, axes->n, keep);
    enum bell_dtype dtype = bell_dtype_of(x);

    if (!is_float(x) && dtype != BELL_BOOL)
        return op_unsupported("extremes of no integers");
    op_out(op, 0,
           bell_full(op->ctx, bell_shape(shape), bell_ndim(shape),
                     dtype == BELL_BOOL ? value > 0 ? 0 : 1
                     : value > 0        ? -INFINITY
                                        : INFINITY,
                     dtype));
    return BELL_OK;
}

bell_status
onnx_op_reduce(struct onnx_op *op)
{
    struct bell_tensor *x = op_in(op, 0), *y;
    const char *kind = op->node->op + strlen("Reduce");
    enum bell_dtype dtype = bell_dtype_of(x);
    bool keep = op_int(op, "keepdims", 1), nothing;
    struct onnx_ints axes;

    BELL_TRY(reduce_axes(op, &axes, &nothing));
    if (!bell_is_error(x) && !op_varies(x) && bell_numel(x) == 0 &&
        *kind == 'M' && kind[1] != 'e')
        return reduce_empty(op, x, &axes, keep, kind[1] == 'a' ? 1 : -1);
    y = nothing ? reduce_nothing(kind, x) : reduce(kind, x, &axes, keep);
    op_out(op, 0, op_to(y, dtype));
    return BELL_OK;
}

bell_status
onnx_op_arg(struct onnx_op *op)
{
    struct bell_tensor *x = op_in(op, 0), *y;
    bool is_max = strcmp(op->node->op, "ArgMax") == 0;
    bool keep = op_int(op, "keepdims", 1);
    bool last = op_int(op, "select_last_index", 0);
    int64_t axis = op_axis(op_int(op, "axis", 0), bell_ndim(x));

    if (last)
        x = bell_flip(x, &axis, 1);
    y = is_max ? bell_argmax(x, (int)axis, keep)
               : bell_argmin(x, (int)axis, keep);
    if (last)
        y = bell_sub(
            bell_dim_value(op->ctx,
                           bell_dim_sub(op->ctx, bell_dim_at(x, (int)axis),
                                        bell_dim_of(1)),
                           BELL_INT64),
            y);
    op_out(op, 0, y);
    return BELL_OK;
}

bell_status
onnx_op_top_k(struct onnx_op *op)
{
    struct bell_tensor *x = op_in(op, 0), *values, *places;
    int64_t k = op_int(op, "k", 0);

    if (op->opset >= 10)
        BELL_TRY(op_in_int(op, 1, &k));
    bell_topk(x, k, (int)op_int(op, "axis", -1), op_int(op, "largest", 1),
              &values, &places);
    op_out(op, 0, values);
    op_out(op, 1, places);
    return BELL_OK;
}

bell_status
onnx_op_cumulate(struct onnx_op *op)
{
    struct bell_tensor *x = op_in(op, 0), *y;
    bool is_sum = strcmp(op->node->op, "CumSum") == 0;
    bool exclusive = op_int(op, "exclusive", 0);
    bool reverse = op_int(op, "reverse", 0);
    enum bell_dtype dtype = bell_dtype_of(x);
    int64_t pads[2 * BELL_MAX_RANK] = {0}, axis;
    uint32_t ndim = bell_ndim(x);

    BELL_TRY(op_in_int(op, 1, &axis));
    axis = op_axis(axis, ndim);
    if (axis < 0 || axis >= ndim)
        return bell_fail(BELL_BAD_AXIS, "its axis is not one of %u", ndim);
    if (reverse)
        x = bell_flip(x, &axis, 1);
    if (exclusive) {
        /* one element more before, one less behind */
        pads[2 * (ndim - 1 - axis)] = 1;
        pads[2 * (ndim - 1 - axis) + 1] = -1;
        x = bell_pad(x, pads, 2 * ndim, is_sum ? 0 : 1);
    }
    y = is_sum ? bell_cumsum(x, (int)axis) : bell_cumprod(x, (int)axis);
    if (reverse)
        y = bell_flip(y, &axis, 1);
    op_out(op, 0, op_to(y, dtype));
    return BELL_OK;
}

bell_status
onnx_op_lp_normalization(struct onnx_op *op)
{
    struct bell_tensor *x = op_in(op, 0), *n;
    int64_t axis = op_int(op, "axis", -1), p = op_int(op, "p", 2);

    if (p != 1 && p != 2)
        return op_unsupported("p is %lld", (long long)p);
    n = bell_norm(x, (double)p, &axis, 1, true);
    /* 0 where the norm is */
    op_out(op, 0,
           bell_where(bell_eq(n, bell_zeros_like(n, BELL_DEFAULT)),
                      bell_zeros_like(x, BELL_DEFAULT), bell_div(x, n)));
    return BELL_OK;
}

/* ---- products ---- */

static bell_status
gemm_of(struct onnx_op *op, struct bell_tensor **out)
{
    struct bell_tensor *a = op_in(op, 0), *b = op_in(op, 1), *y, *c;
    double alpha = op_float(op, "alpha", 1), beta = op_float(op, "beta", 1);
    enum bell_dtype dtype = bell_dtype_of(a);

    if (bell_ndim(a) != 2 || bell_ndim(b) != 2)
        return bell_fail(BELL_BAD_SHAPE, "expected matrices");
    if (op_int(op, "transA", 0))
        a = bell_t(a);
    if (op_int(op, "transB", 0))
        b = bell_t(b);
    y = bell_matmul(a, b);
    if (alpha != 1)
        y = bell_mul_scalar(y, alpha);
    c = op_in_or_null(op, 2);
    if (c)
        y = bell_add(y, beta == 1 ? c : bell_mul_scalar(c, beta));
    *out = op_to(y, dtype);
    return BELL_OK;
}

bell_status
onnx_op_gemm(struct onnx_op *op)
{
    struct bell_tensor *y;

    BELL_TRY(gemm_of(op, &y));
    op_out(op, 0, y);
    return BELL_OK;
}

/* com.microsoft's: a product, and an activation by name. */
bell_status
onnx_op_fused_gemm(struct onnx_op *op)
{
    struct bell_tensor *y;

    BELL_TRY(gemm_of(op, &y));
    BELL_TRY(op_activate(y, op_str(op, "activation", ""),
                         op_float(op, "activation_alpha", 0),
                         op_float(op, "activation_beta", 0), &y));
    op_out(op, 0, y);
    return BELL_OK;
}

bell_status
onnx_op_einsum(struct onnx_op *op)
{
    struct bell_tensor **list = op_take(op, op->n_in, sizeof(*list));
    const char *equation = op_str(op, "equation", "");
    char *formula = op_take(op, strlen(equation) + 1, 1), *to = formula;
    enum bell_dtype dtype;
    uint32_t i;

    if (!list || !formula)
        return onnx_no_memory();
    for (; *equation; equation++) {
        if (*equation != ' ')
            *to++ = *equation;
    }
    for (i = 0; i < op->n_in; i++)
        list[i] = op_in(op, i);
    dtype = bell_dtype_of(list[0]);
    op_out(op, 0, op_to(bell_einsum(formula, list, op->n_in), dtype));
    return BELL_OK;
}

/* ---- losses ---- */

static bell_status
find_reduction(const char *name, enum bell_reduction *out)
{
    if (strcmp(name, "none") == 0)
        *out = BELL_EACH;
    else if (strcmp(name, "sum") == 0)
        *out = BELL_SUM;
    else if (strcmp(name, "mean") == 0)
        *out = BELL_MEAN;
    else
        return op_unsupported("reduction '%.40s' is not known", name);
    return BELL_OK;
}

bell_status
onnx_op_nll_loss(struct onnx_op *op)
{
    struct bell_tensor *x = op_in(op, 0), *weight = op_in_or_null(op, 2);
    int64_t ignore = op_int(op, "ignore_index", BELL_IGNORE_NONE);
    enum bell_reduction reduction;
    bool is_logits = op->node->op[0] == 'S';

    BELL_TRY(find_reduction(op_str(op, "reduction", "mean"), &reduction));
    if (is_logits) {
        x = bell_log_softmax(x, 1);
        if (op->n_out > 1)
            op_out(op, 1, x);
    }
    op_out(op, 0,
           bell_nll_loss(x, op_to(op_in(op, 1), BELL_INT64), weight, ignore,
                         reduction));
    return BELL_OK;
}

/* ---- random numbers ---- */

bell_status
onnx_op_random(struct onnx_op *op)
{
    bool is_like = strstr(op->node->op, "Like") != NULL;
    bool is_normal = strncmp(op->node->op, "RandomNormal", 12) == 0;
    uint32_t type =
        (uint32_t)op_int(op, "dtype", is_like ? op_type(op, 0) : ONNX_FLOAT);
    enum bell_dtype dtype = onnx_dtype(type);
    struct onnx_ints shape = op_ints(op, "shape");

    if (is_like)
        BELL_TRY(op_shape(op, 0, &shape.v, &shape.n));
    BELL_TRY(op_check_shape(shape.v, shape.n));
    if (is_normal)
        op_out(op, 0,
               bell_normal(op->ctx, shape.v, shape.n, op_float(op, "mean", 0),
                           op_float(op, "scale", 1), dtype));
    else
        op_out(op, 0,
               bell_uniform(op->ctx, shape.v, shape.n, op_float(op, "low", 0),
                            op_float(op, "high", 1), dtype));
    return BELL_OK;
}

bell_status
onnx_op_bernoulli(struct onnx_op *op)
{
    struct bell_tensor *p = op_in(op, 0);
    uint32_t type = (uint32_t)op_int(op, "dtype", op_type(op, 0));

    if (onnx_dtype(type) == BELL_DEFAULT)
        return op_unsupported("elements of %s", onnx_type_name(type));
    op_out(op, 0,
           bell_cast(bell_lt(bell_rand(op->ctx, bell_shape(p), bell_ndim(p),
                                       BELL_FLOAT32),
                             p),
                     onnx_dtype(type)));
    return BELL_OK;
}

/* ---- transforms ---- */

/* cos(2 pi i / n) and its sums: Hann, Hamming, Blackman. */
bell_status
onnx_op_window(struct onnx_op *op)
{
    enum bell_dtype dtype =
        onnx_dtype((uint32_t)op_int(op, "output_datatype", ONNX_FLOAT));
    const char *name = op->node->op;
    double a0, a1, a2 = 0, n;
    struct bell_tensor *angle, *y;
    int64_t size;

    BELL_TRY(op_in_int(op, 0, &size));
    if (size < 0 || size > (int64_t)ONNX_MAX_ELEMS || dtype == BELL_DEFAULT)
        return op_unsupported("a window of %lld", (long long)size);
    if (*name == 'B') {
        a0 = 0.42;
        a1 = 0.5;
        a2 = 0.08;
    } else if (strcmp(name, "HannWindow") == 0) {
        a0 = a1 = 0.5;
    } else {
        a0 = 25.0 / 46;
        a1 = 1 - a0;
    }
    n = (double)(op_int(op, "periodic", 1) ? size : size - 1);
    angle = bell_mul_scalar(bell_arange_int(op->ctx, 0, size, 1, BELL_FLOAT64),
                            2 * M_PI / n);
    y = bell_sub(bell_full(op->ctx, &size, 1, a0, BELL_FLOAT64),
                 bell_mul_scalar(bell_cos(angle), a1));
    if (a2 != 0)
        y = bell_add(y,
                     bell_mul_scalar(bell_cos(bell_mul_scalar(angle, 2)), a2));
    op_out(op, 0, bell_cast(y, dtype));
    return BELL_OK;
}
