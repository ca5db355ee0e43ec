/* Losses and normalisation. float16 and bfloat16 are computed in float32 and
 * rounded at the end.
 */
#include <assert.h>
#include <math.h>

#include "tensor/ops/elementwise.h"
#include "tensor/core/rules.h"
#include "tensor/ops/reduce.h"

/* The dtype of what is made of t. */
static enum uop_dtype
result_dtype(const struct bell_tensor *t)
{
    return tensor_wide_dtype((enum uop_dtype)bell_dtype_of(t));
}

/* ---- normalisation ---- */

/* (u - mean) / sqrt(var + eps) over the axes. */
static const struct uop *
normalise(struct bell_context *ctx, const struct uop *u, uint32_t mask,
          double eps)
{
    const struct uop *d = tn_sub(ctx, u, tn_mean(ctx, u, mask)), *var;

    assert(tn_bad(u) || tn_is_float(u));
    var = tn_mean(ctx, tn_mul(ctx, d, d), mask);
    return tn_mul(ctx, d, tn_recip(ctx, tn_sqrt(ctx, tn_add_c(ctx, var, eps))));
}

/* u * weight + bias, in u's dtype; both may be NULL. */
static const struct uop *
scale_and_shift(struct bell_context *ctx, const struct uop *u,
                const struct uop *weight, const struct uop *bias)
{
    if (weight)
        u = tn_mul(ctx, u, tn_cast(ctx, weight, u->dtype));
    if (bias && !tn_bad(u))
        u = tn_add(ctx, u, tn_cast(ctx, bias, u->dtype));
    return u;
}

/* Checks x and the optional tensors of a normalisation; false with *out
 * set. */
static bool
check_norm(const char *call, struct bell_tensor *x, struct bell_tensor *weight,
           struct bell_tensor *bias, struct bell_tensor **out)
{
    struct bell_tensor *list[3] = {x};
    uint32_t n = 1, i;

    if (weight)
        list[n++] = weight;
    if (bias)
        list[n++] = bias;
    if (!tensor_takes_n(call, list, n, out))
        return false;
    for (i = 0; i < n; i++) {
        if (uop_dtype_infos[tensor_at(list[i])->dtype].is_float)
            continue;
        *out = tensor_fail(tensor_at(x)->ctx, call, BELL_BAD_DTYPE,
                           "of %s, not a float dtype", DTYPE_OF(list[i]));
        return false;
    }
    return true;
}

static const struct uop *
node_or_null(const struct bell_tensor *t)
{
    return t ? tensor_node(t) : NULL;
}

/* Whether t (or NULL) has the shape d[0..n-1]. */
static bool
loss_has_shape(const struct bell_tensor *t, const int64_t *d, uint32_t n)
{
    uint32_t i;

    for (i = 0; t && i < n && tensor_at(t)->shape->n == n; i++) {
        if (tensor_at(t)->shape->d[i] != d[i])
            return false;
    }
    return !t || tensor_at(t)->shape->n == n;
}

struct bell_tensor *
bell_layer_norm(struct bell_tensor *x, uint32_t n_axes,
                struct bell_tensor *weight, struct bell_tensor *bias,
                double eps)
{
    struct bell_context *ctx;
    struct bell_tensor *out;
    const struct uop *u;
    uint32_t mask, rank;

    if (!check_norm(__func__, x, weight, bias, &out))
        return out;
    ctx = tensor_at(x)->ctx;
    rank = tensor_at(x)->shape->n;
    if (n_axes < 1 || n_axes > rank ||
        !loss_has_shape(weight, tensor_at(x)->shape->d + rank - n_axes,
                        n_axes) ||
        !loss_has_shape(bias, tensor_at(x)->shape->d + rank - n_axes, n_axes))
        return tensor_fail(ctx, __func__, BELL_BAD_SHAPE,
                           "the last %u axes of %s, weight %s, bias %s: weight "
                           "and bias must have the shape of these axes",
                           n_axes, SHAPE_OF(x),
                           weight ? SHAPE_OF(weight) : "NULL",
                           bias ? SHAPE_OF(bias) : "NULL");
    mask = tn_axes_below(rank) & ~tn_axes_below(rank - n_axes);
    u = normalise(ctx, tn_widen(ctx, tensor_node(x)), mask, eps);
    u = scale_and_shift(ctx, u, node_or_null(weight), node_or_null(bias));
    return tensor_new(ctx, __func__, tn_cast(ctx, u, result_dtype(x)));
}

struct bell_tensor *
bell_rms_norm(struct bell_tensor *x, struct bell_tensor *weight, double eps)
{
    const struct uop *u, *mean;
    struct bell_context *ctx;
    struct bell_tensor *out;
    uint32_t rank, n;

    if (!check_norm(__func__, x, weight, NULL, &out))
        return out;
    ctx = tensor_at(x)->ctx;
    rank = tensor_at(x)->shape->n;
    n = weight ? tensor_at(weight)->shape->n : 1;
    if (n == 0 || n > rank ||
        !loss_has_shape(weight, tensor_at(x)->shape->d + rank - n, n))
        return tensor_fail(ctx, __func__, BELL_BAD_SHAPE,
                           "x of shape %s, weight %s: the weight must have the "
                           "shape of the last axes",
                           SHAPE_OF(x), weight ? SHAPE_OF(weight) : "NULL");
    u = tn_widen(ctx, tensor_node(x));
    mean = tn_mean(ctx, tn_mul(ctx, u, u),
                   (uint32_t)(((1ull << n) - 1) << (rank - n)));
    mean = tn_recip(ctx, tn_sqrt(ctx, tn_add_c(ctx, mean, eps)));
    u = scale_and_shift(ctx, tn_mul(ctx, u, mean), node_or_null(weight), NULL);
    return tensor_new(ctx, __func__, tn_cast(ctx, u, result_dtype(x)));
}

/* A vector over axis 1 of a tensor of `rank` axes. */
static const struct uop *
along_channels(struct bell_context *ctx, const struct uop *v, uint32_t rank)
{
    int64_t d[TN_MAX_RANK];
    uint32_t i;

    assert(rank >= 2 && rank <= TN_MAX_RANK);
    if (!v || tn_bad(v))
        return v;
    for (i = 0; i < rank; i++)
        d[i] = 1;
    d[1] = tn_size(ctx, v, 0);
    return tn_reshape(ctx, v, d, rank);
}

struct bell_tensor *
bell_batch_norm(struct bell_tensor *x, struct bell_tensor *mean,
                struct bell_tensor *var, struct bell_tensor *weight,
                struct bell_tensor *bias, double eps)
{
    const struct uop *u, *m, *inv;
    struct bell_context *ctx;
    struct bell_tensor *out;
    enum uop_dtype wide;
    uint32_t rank;

    if (!check_norm(__func__, x, weight, bias, &out) ||
        !check_norm(__func__, x, mean, var, &out))
        return out;
    ctx = tensor_at(x)->ctx;
    rank = tensor_at(x)->shape->n;
    if (rank < 2 || !mean || !var ||
        !loss_has_shape(mean, tensor_at(x)->shape->d + 1, 1) ||
        !loss_has_shape(var, tensor_at(x)->shape->d + 1, 1) ||
        !loss_has_shape(weight, tensor_at(x)->shape->d + 1, 1) ||
        !loss_has_shape(bias, tensor_at(x)->shape->d + 1, 1))
        return tensor_fail(ctx, __func__, BELL_BAD_SHAPE,
                           "x of shape %s, mean %s, var %s, weight %s, bias "
                           "%s: expected 2 axes or more of x, and one element "
                           "for each channel (axis 1) in the others",
                           SHAPE_OF(x), mean ? SHAPE_OF(mean) : "NULL",
                           var ? SHAPE_OF(var) : "NULL",
                           weight ? SHAPE_OF(weight) : "NULL",
                           bias ? SHAPE_OF(bias) : "NULL");
    u = tn_widen(ctx, tensor_node(x));
    wide = u->dtype;
    m = along_channels(ctx, tn_cast(ctx, tensor_node(mean), wide), rank);
    inv = tn_add_c(ctx, tn_cast(ctx, tensor_node(var), wide), eps);
    inv = along_channels(ctx, tn_recip(ctx, tn_sqrt(ctx, inv)), rank);
    u = tn_mul(ctx, tn_sub(ctx, u, m), inv);
    u = scale_and_shift(ctx, u, along_channels(ctx, node_or_null(weight), rank),
                        along_channels(ctx, node_or_null(bias), rank));
    return tensor_new(ctx, __func__, tn_cast(ctx, u, result_dtype(x)));
}

struct bell_tensor *
bell_group_norm(struct bell_tensor *x, int64_t n_groups,
                struct bell_tensor *weight, struct bell_tensor *bias,
                double eps)
{
    struct bell_context *ctx;
    struct bell_tensor *out;
    const struct uop *u;
    char text[64];
    struct dim_table *dims;
    uint32_t rank;
    int64_t d[3], size;

    if (!check_norm(__func__, x, weight, bias, &out))
        return out;
    ctx = tensor_at(x)->ctx;
    rank = tensor_at(x)->shape->n;
    dims = ctx->dims;
    size = rank < 2 || n_groups < 1 || !dims_known(dims, n_groups)
               ? DIM_BAD
               : dim_divide(dims, tensor_at(x)->shape->d[1], n_groups);
    if (size == DIM_BAD ||
        !loss_has_shape(weight, tensor_at(x)->shape->d + 1, 1) ||
        !loss_has_shape(bias, tensor_at(x)->shape->d + 1, 1))
        return tensor_fail(
            ctx, __func__, BELL_BAD_SHAPE,
            "x of shape %s in %s groups, weight %s, bias %s: groups must "
            "divide the channels (axis 1), weight and bias have one element "
            "for each",
            SHAPE_OF(x), (dim_print(dims, n_groups, text, sizeof(text)), text),
            weight ? SHAPE_OF(weight) : "NULL", bias ? SHAPE_OF(bias) : "NULL");
    d[0] = tensor_at(x)->shape->d[0];
    d[1] = n_groups;
    d[2] = dim_product(dims, tensor_at(x)->shape->d + 2, rank - 2);
    d[2] = dim_mul(dims, size, d[2]);
    u = tn_widen(ctx, tensor_node(x));
    u = normalise(ctx, tn_reshape(ctx, u, d, 3), 1u << 2, eps);
    u = tn_reshape(ctx, u, tensor_at(x)->shape->d, rank);
    u = scale_and_shift(ctx, u, along_channels(ctx, node_or_null(weight), rank),
                        along_channels(ctx, node_or_null(bias), rank));
    return tensor_new(ctx, __func__, tn_cast(ctx, u, result_dtype(x)));
}

/* ---- the frame of a loss ---- */

/* Every axis of u. */
static uint32_t
all_axes(struct bell_context *ctx, const struct uop *u)
{
    return (uint32_t)((1ull << tn_rank(ctx, u)) - 1);
}

/* Reduces the loss of each element; `count`, what a mean divides by, may be
 * NULL: the number of elements. */
static struct bell_tensor *
finish_loss(const char *call, struct bell_context *ctx, const struct uop *u,
            const struct uop *count, enum bell_reduction reduction,
            enum uop_dtype dtype)
{
    uint32_t mask = all_axes(ctx, u);

    if (reduction == BELL_MEAN && !count) {
        u = tn_squeeze(ctx, tn_mean(ctx, u, mask), mask);
    } else if (reduction != BELL_EACH) {
        u = tn_squeeze(ctx, tn_sum(ctx, u, mask), mask);
        if (reduction == BELL_MEAN && !tn_bad(u)) {
            mask = all_axes(ctx, count);
            count = tn_squeeze(ctx, tn_sum(ctx, count, mask), mask);
            u = tn_fdiv(ctx, u, tn_cast(ctx, count, u->dtype));
        }
    }
    return tensor_new(ctx, call, tn_cast(ctx, u, dtype));
}

static bool
check_reduction(const char *call, struct bell_context *ctx,
                enum bell_reduction reduction)
{
    if (reduction == BELL_MEAN || reduction == BELL_SUM ||
        reduction == BELL_EACH)
        return true;
    tensor_fail(ctx, call, BELL_BAD_VALUE, "%d is not a reduction",
                (int)reduction);
    return false;
}

/* Two operands of one shape; false with *out set. */
static bool
take_pair(const char *call, struct bell_tensor *x, struct bell_tensor *y,
          enum bell_reduction reduction, struct tensor_operands *ops,
          struct bell_tensor **out)
{
    struct bell_tensor *both[2] = {x, y};

    if (!tensor_takes2(call, x, y, out))
        return false;
    if (tensor_at(x)->shape != tensor_at(y)->shape) {
        *out = tensor_fail(tensor_at(x)->ctx, call, BELL_BAD_SHAPE,
                           "shapes %s and %s differ", SHAPE_OF(x), SHAPE_OF(y));
        return false;
    }
    *out = tensor_at(x)->ctx->error_tensor;
    if (!check_reduction(call, tensor_at(x)->ctx, reduction) ||
        !tensor_operands(call, both, 2, TENSOR_FLOAT, ops, out))
        return false;
    if (ops->weak) {
        ops->dtype = UOP_F32;
        ops->u[0] = tn_cast(ops->ctx, ops->u[0], UOP_F32);
        ops->u[1] = tn_cast(ops->ctx, ops->u[1], UOP_F32);
    }
    return true;
}

struct bell_tensor *
bell_mse_loss(struct bell_tensor *x, struct bell_tensor *y,
              enum bell_reduction reduction)
{
    struct tensor_operands ops;
    struct bell_tensor *out;
    const struct uop *d;

    if (!take_pair(__func__, x, y, reduction, &ops, &out))
        return out;
    d = tn_sub(ops.ctx, ops.u[0], ops.u[1]);
    return finish_loss(__func__, ops.ctx, tn_mul(ops.ctx, d, d), NULL,
                       reduction, ops.dtype);
}

struct bell_tensor *
bell_l1_loss(struct bell_tensor *x, struct bell_tensor *y,
             enum bell_reduction reduction)
{
    struct tensor_operands ops;
    struct bell_tensor *out;
    const struct uop *d;

    if (!take_pair(__func__, x, y, reduction, &ops, &out))
        return out;
    d = tn_abs(ops.ctx, tn_sub(ops.ctx, ops.u[0], ops.u[1]));
    return finish_loss(__func__, ops.ctx, d, NULL, reduction, ops.dtype);
}

/* d^2 / 2 up to a bound, a line from there: m (|d| - m / 2), m the lesser of
 * |d| and the bound; `unit` divides it. The slope is d between the bounds,
 * finite where d is infinite. */
static const struct uop *
square_to_line(struct bell_context *ctx, const struct uop *d, double bound,
               double unit)
{
    const struct uop *a = tn_abs(ctx, d), *high = tn_num(ctx, d, bound), *y;
    const struct uop *m = tn_min(ctx, a, high), *slope;

    slope = tn_max(ctx, tn_min(ctx, d, high), tn_num(ctx, d, -bound));
    y = tn_sub(ctx, a, tn_mul_c(ctx, m, 0.5));
    y = tn_mul(ctx, tn_fdiv(ctx, m, tn_num(ctx, d, unit)), y);
    return tensor_slope(ctx, y, d, tn_fdiv(ctx, slope, tn_num(ctx, d, unit)));
}

struct bell_tensor *
bell_huber_loss(struct bell_tensor *x, struct bell_tensor *y, double delta,
                enum bell_reduction reduction)
{
    const struct uop *d;
    struct tensor_operands ops;
    struct bell_tensor *out;
    struct bell_context *ctx;

    if (!take_pair(__func__, x, y, reduction, &ops, &out))
        return out;
    ctx = ops.ctx;
    if (!(delta > 0))
        return tensor_fail(ctx, __func__, BELL_BAD_VALUE,
                           "delta is %g, not greater than 0", delta);
    d = square_to_line(ctx, tn_sub(ctx, ops.u[0], ops.u[1]), delta, 1);
    return finish_loss(__func__, ctx, d, NULL, reduction, ops.dtype);
}

struct bell_tensor *
bell_smooth_l1_loss(struct bell_tensor *x, struct bell_tensor *y, double beta,
                    enum bell_reduction reduction)
{
    const struct uop *d;
    struct tensor_operands ops;
    struct bell_tensor *out;
    struct bell_context *ctx;

    if (!take_pair(__func__, x, y, reduction, &ops, &out))
        return out;
    ctx = ops.ctx;
    if (!(beta >= 0))
        return tensor_fail(ctx, __func__, BELL_BAD_VALUE,
                           "beta is %g, less than 0", beta);
    d = tn_sub(ctx, ops.u[0], ops.u[1]);
    d = beta > 0 ? square_to_line(ctx, d, beta, beta) : tn_abs(ctx, d);
    return finish_loss(__func__, ctx, d, NULL, reduction, ops.dtype);
}

/* y (log y - x), 0 where y is 0. */
static struct bell_tensor *
finish_divergence(const char *call, const struct tensor_operands *ops,
                  const struct uop *u, enum bell_reduction reduction)
{
    struct bell_context *ctx = ops->ctx;
    uint32_t mask = all_axes(ctx, u);
    const struct uop *n;

    if (reduction != BELL_BATCH_MEAN || tn_bad(u))
        return finish_loss(call, ctx, u, NULL, reduction, ops->dtype);
    n = tn_count_axes(ctx, u, 1, u->dtype);
    u = tn_squeeze(ctx, tn_sum(ctx, u, mask), mask);
    u = tn_fdiv(ctx, u, n);
    return tensor_new(ctx, call, tn_cast(ctx, u, ops->dtype));
}

struct bell_tensor *
bell_kl_div(struct bell_tensor *x, struct bell_tensor *y, bool log_target,
            enum bell_reduction reduction)
{
    bool batch = reduction == BELL_BATCH_MEAN;
    const struct uop *u, *log_y, *zero, *none;
    struct tensor_operands ops;
    struct bell_tensor *out;
    struct bell_context *ctx;

    if (!take_pair(__func__, x, y, batch ? BELL_SUM : reduction, &ops, &out))
        return out;
    ctx = ops.ctx;
    if (log_target) {
        struct tn_scaled e = tn_scaled_exp(ctx, ops.u[1]);
        u = tn_mul(ctx, e.value, tn_sub(ctx, ops.u[1], ops.u[0]));
        u = tn_mul(ctx, u, e.scale);
        return finish_divergence(__func__, &ops, u, reduction);
    }
    zero = tn_num(ctx, ops.u[1], 0);
    none = tn_eq(ctx, ops.u[1], zero);
    log_y =
        tn_log(ctx, tn_where(ctx, none, tn_num(ctx, ops.u[1], 1), ops.u[1]));
    u = tn_sub(ctx, tn_mul(ctx, ops.u[1], log_y),
               tn_mul(ctx, ops.u[1], ops.u[0]));
    return finish_divergence(__func__, &ops, u, reduction);
}

/* log x, -100 below the least normal number; its slope is 1 / max(x, 1e-12), as
 * PyTorch's, so that a saturated wrong answer learns. */
static const struct uop *
clamped_log(struct bell_context *ctx, const struct uop *x)
{
    const struct uop *tiny =
        tn_lt(ctx, x, tn_num(ctx, x, x->dtype == UOP_F64 ? 4e-44 : 0x1p-126));
    const struct uop *y;

    assert(tn_bad(x) || tn_is_float(x));
    y = tn_where(ctx, tiny, tn_num(ctx, x, -100),
                 tn_log(ctx, tn_where(ctx, tiny, tn_num(ctx, x, 1), x)));
    return tensor_slope(ctx, y, x,
                        tn_recip(ctx, tn_max(ctx, x, tn_num(ctx, x, 1e-12))));
}

struct bell_tensor *
bell_binary_cross_entropy(struct bell_tensor *x, struct bell_tensor *y,
                          enum bell_reduction reduction)
{
    const struct uop *yes, *no, *one;
    struct tensor_operands ops;
    struct bell_tensor *out;
    struct bell_context *ctx;

    if (!take_pair(__func__, x, y, reduction, &ops, &out))
        return out;
    ctx = ops.ctx;
    one = tn_num(ctx, ops.u[0], 1);
    yes = tn_mul(ctx, ops.u[1], clamped_log(ctx, ops.u[0]));
    no = tn_mul(ctx, tn_sub(ctx, one, ops.u[1]),
                clamped_log(ctx, tn_sub(ctx, one, ops.u[0])));
    return finish_loss(__func__, ctx, tn_neg(ctx, tn_add(ctx, yes, no)), NULL,
                       reduction, ops.dtype);
}

/* (1 - y) x - (1 + (w - 1) y) log sigmoid x. */
struct bell_tensor *
bell_binary_cross_entropy_with_logits(struct bell_tensor *x,
                                      struct bell_tensor *y,
                                      struct bell_tensor *pos_weight,
                                      enum bell_reduction reduction)
{
    const struct uop *u, *rest, *w;
    const struct uop_dims *shapes[2];
    struct tensor_operands ops;
    struct bell_tensor *out;
    struct bell_context *ctx;
    int64_t d[TN_MAX_RANK];
    uint32_t rank;

    if (!take_pair(__func__, x, y, reduction, &ops, &out))
        return out;
    ctx = ops.ctx;
    rest = tn_logsigmoid(ctx, ops.u[0]);
    if (pos_weight) {
        if (!tensor_takes2(__func__, x, pos_weight, &out))
            return out;
        shapes[0] = tensor_at(x)->shape;
        shapes[1] = tensor_at(pos_weight)->shape;
        if (!tn_broadcast_shape(shapes, 2, d, &rank) ||
            rank != tensor_at(x)->shape->n ||
            uop_dims(&ctx->graph, d, rank) != shapes[0])
            return tensor_fail(
                ctx, __func__, BELL_BAD_SHAPE,
                "pos_weight of shape %s for %s: it must broadcast to that",
                SHAPE_OF(pos_weight), SHAPE_OF(x));
        w = tn_cast(ctx, tensor_at(pos_weight)->uop, ops.u[0]->dtype);
        w = tn_mul(ctx, tn_add_c(ctx, w, -1), ops.u[1]);
        rest = tn_mul(ctx, tn_add_c(ctx, w, 1), rest);
    }
    u = tn_sub(ctx, tn_num(ctx, ops.u[0], 1), ops.u[1]);
    u = tn_sub(ctx, tn_mul(ctx, u, ops.u[0]), rest);
    return finish_loss(__func__, ctx, u, NULL, reduction, ops.dtype);
}

/* ---- losses over classes ---- */

/* Whether target's shape is logits' without the class axis. */
static bool
is_class_target(const struct bell_tensor *logits,
                const struct bell_tensor *target, uint32_t axis)
{
    uint32_t i;

    if (tensor_at(target)->shape->n + 1 != tensor_at(logits)->shape->n)
        return false;
    for (i = 0; i < tensor_at(target)->shape->n; i++) {
        if (tensor_at(target)->shape->d[i] !=
            tensor_at(logits)->shape->d[i < axis ? i : i + 1])
            return false;
    }
    return true;
}

/* The value of each row's class in u, 0 where it is out of range. */
static const struct uop *
pick_class(struct bell_context *ctx, const struct uop *u, uint32_t axis,
           const struct uop *target)
{
    const struct uop *hit;

    assert(tn_bad(u) || axis < tn_rank(ctx, u));
    if (tn_bad(u))
        return u;
    hit = tn_eq(ctx, tn_unsqueeze(ctx, target, axis),
                tn_iota(ctx, tn_rank(ctx, u), axis, tn_size(ctx, u, axis),
                        target->dtype));
    u = tn_where(ctx, hit, u, tn_num(ctx, u, 0));
    return tn_squeeze(ctx, tn_sum(ctx, u, tn_axis_bit(axis)),
                      tn_axis_bit(axis));
}

/* 0 where the target is ignored; *count becomes what a mean divides by. */
static const struct uop *
drop_ignored(struct bell_context *ctx, const struct uop *u,
             const struct uop *target, int64_t ignore_index,
             const struct uop **count)
{
    const struct uop *valid, *zero = tn_num(ctx, u, 0);

    if (ignore_index == BELL_IGNORE_NONE)
        return u;
    valid = tn_ne(ctx, target, tn_int(ctx, target->dtype, ignore_index));
    *count = *count ? tn_where(ctx, valid, *count, zero)
                    : tn_where(ctx, valid, tn_num(ctx, u, 1), zero);
    return tn_where(ctx, valid, u, zero);
}

/* Against classes: log of the sum of exp minus (1 - e) of the class' logit and
 * e of the logits' mean; the gradient is the softmax minus the target. The
 * logits are less their maximum. 0 for a class out of range. */
static const struct uop *
class_loss(struct bell_context *ctx, const struct uop *x, uint32_t axis,
           const struct uop *target, double smoothing)
{
    const struct uop *u, *max, *valid;
    int64_t n = tn_size(ctx, x, axis);
    uint32_t mask = tn_axis_bit(axis);

    assert(tn_bad(x) || axis < tn_rank(ctx, x));
    if (tn_bad(x))
        return x;
    max = tn_wrap(ctx, UOP_DETACH, tn_reduce(ctx, UOP_MAX, x, mask));
    x = tn_sub(ctx, x, max);
    u = tn_log(ctx, tn_sum(ctx, tn_exp(ctx, x), mask));
    u = tn_squeeze(ctx, u, mask);
    u = tn_sub(ctx, u,
               tn_mul_c(ctx, pick_class(ctx, x, axis, target), 1 - smoothing));
    if (smoothing != 0)
        u = tn_sub(ctx, u,
                   tn_mul_c(ctx, tn_squeeze(ctx, tn_mean(ctx, x, mask), mask),
                            smoothing));
    valid =
        tn_and(ctx, tn_not(ctx, tn_lt(ctx, target, tn_int(ctx, UOP_I64, 0))),
               tn_lt(ctx, target, tn_count(ctx, n)));
    return tn_where(ctx, valid, u, tn_num(ctx, u, 0));
}

/* x / n. */
static const struct uop *
part_of(struct bell_context *ctx, double x, const struct uop *n)
{
    if (tn_bad(n))
        return n;
    return n->op == UOP_CONST ? tn_num(ctx, n, x / n->arg.f)
                              : tn_fdiv(ctx, tn_num(ctx, n, x), n);
}

/* Against probabilities t: -sum of ((1 - e) t + e / n) log p. */
static const struct uop *
soft_loss(struct bell_context *ctx, const struct uop *log_p, uint32_t axis,
          const struct uop *t, double smoothing)
{
    const struct uop *n;

    assert(tn_bad(log_p) || axis < tn_rank(ctx, log_p));
    if (tn_bad(log_p))
        return log_p;
    t = tn_cast(ctx, t, log_p->dtype);
    n = tn_count_axes(ctx, log_p, tn_axis_bit(axis), t->dtype);
    if (smoothing != 0)
        t = tn_add(ctx, tn_mul_c(ctx, t, 1 - smoothing),
                   part_of(ctx, smoothing, n));
    t = tn_sum(ctx, tn_mul(ctx, t, log_p), tn_axis_bit(axis));
    return tn_neg(ctx, tn_squeeze(ctx, t, tn_axis_bit(axis)));
}

/* The axis of classes after the checks that both losses share; -1 with *out
 * set. */
static int
class_axis(const char *call, struct bell_tensor *x, struct bell_tensor *target,
           bool soft_allowed, enum bell_reduction reduction,
           struct bell_tensor **out)
{
    uint32_t axis;
    bool soft;

    if (!tensor_takes2(call, x, target, out))
        return -1;
    *out = tensor_at(x)->ctx->error_tensor;
    if (!check_reduction(call, tensor_at(x)->ctx, reduction))
        return -1;
    axis = tensor_at(x)->shape->n == 1 ? 0 : 1;
    soft = soft_allowed && uop_dtype_infos[tensor_at(target)->dtype].is_float &&
           tensor_at(target)->shape == tensor_at(x)->shape;
    if (tensor_at(x)->shape->n > 0 &&
        uop_dtype_infos[tensor_at(x)->dtype].is_float &&
        (soft || (uop_dtype_infos[tensor_at(target)->dtype].is_int &&
                  is_class_target(x, target, axis))))
        return (int)axis;
    *out = tensor_fail(
        tensor_at(x)->ctx, call,
        uop_dtype_infos[tensor_at(x)->dtype].is_float &&
                (uop_dtype_infos[tensor_at(target)->dtype].is_int ||
                 soft_allowed)
            ? BELL_BAD_SHAPE
            : BELL_BAD_DTYPE,
        "%s %s with a target of %s %s: expected floats, and integers of that "
        "shape without the axis of the classes%s",
        DTYPE_OF(x), SHAPE_OF(x), DTYPE_OF(target), SHAPE_OF(target),
        soft_allowed ? ", or floats of the same shape" : "");
    return -1;
}

/* Whether the target's classes, as far as they are known, are x's. A safe
 * point. */
static bool
class_in_range(const char *call, struct bell_tensor *x,
               struct bell_tensor *target, int axis, int64_t ignore_index)
{
    int64_t n = tensor_at(x)->shape->d[axis], least;

    if (dim_is_expr(n)) /* out of range for all values */
        dim_bounds(tensor_at(x)->ctx->dims, n, &least, &n);
    return uop_dtype_infos[tensor_at(target)->dtype].is_float ||
           tensor_check_range(call, target, "class", axis, 0, n, ignore_index);
}

/* Whether weight, if any, has a factor for each class of x. */
static bool
check_class_weight(const char *call, struct bell_tensor *x,
                   struct bell_tensor *weight, int axis)
{
    if (loss_has_shape(weight, tensor_at(x)->shape->d + axis, 1))
        return true;
    tensor_fail(tensor_at(x)->ctx, call, BELL_BAD_SHAPE,
                "a weight of shape %s for %s: expected one element for each of "
                "the classes, axis %d",
                SHAPE_OF(weight), SHAPE_OF(x), axis);
    return false;
}

/* The factors of classes, in u's shape and dtype. */
static const struct uop *
spread_weight(struct bell_context *ctx, const struct bell_tensor *weight,
              const struct uop *u, uint32_t axis)
{
    const struct uop *w = tensor_node(weight);
    int64_t d[TN_MAX_RANK];
    uint32_t rank, i;

    if (tn_bad(u) || tn_bad(w))
        return &uop_failed;
    rank = tn_rank(ctx, u);
    for (i = 0; i < rank; i++)
        d[i] = 1;
    d[axis] = tn_size(ctx, u, axis);
    w = tn_reshape(ctx, tn_cast(ctx, w, u->dtype), d, rank);
    return tn_bad(w) ? w : tn_expand(ctx, w, tn_shape(ctx, u)->d);
}

/* Against classes, each class' term with its factor; *count becomes the
 * factors of the targets. */
static const struct uop *
weighted_class_loss(struct bell_context *ctx, const struct uop *x,
                    uint32_t axis, const struct uop *target,
                    const struct bell_tensor *weight, double smoothing,
                    const struct uop **count)
{
    const struct uop *log_p = tn_log_softmax(ctx, x, axis), *u, *all, *zero;
    const struct uop *w = spread_weight(ctx, weight, log_p, axis);
    int64_t n;

    if (tn_bad(log_p) || tn_bad(w))
        return &uop_failed;
    *count = pick_class(ctx, w, axis, target);
    log_p = tn_mul(ctx, log_p, w);
    u = tn_mul_c(ctx, pick_class(ctx, log_p, axis, target), 1 - smoothing);
    if (smoothing != 0) {
        n = tn_size(ctx, x, axis);
        all = tn_squeeze(ctx, tn_sum(ctx, log_p, tn_axis_bit(axis)),
                         tn_axis_bit(axis));
        u = tn_add(ctx, u,
                   tn_mul(ctx, all,
                          part_of(ctx, smoothing,
                                  tn_count_axes(ctx, x, tn_axis_bit(axis),
                                                all->dtype))));
        zero = tn_int(ctx, UOP_I64, 0);
        u = tn_where(ctx,
                     tn_and(ctx, tn_not(ctx, tn_lt(ctx, target, zero)),
                            tn_lt(ctx, target, tn_count(ctx, n))),
                     u, tn_num(ctx, u, 0));
    }
    return tn_neg(ctx, u);
}

static struct bell_tensor *
cross_entropy(const char *call, struct bell_tensor *logits,
              struct bell_tensor *target, struct bell_tensor *weight,
              double label_smoothing, int64_t ignore_index,
              enum bell_reduction reduction)
{
    const struct uop *x, *u, *t, *count = NULL;
    struct bell_context *ctx;
    struct bell_tensor *out;
    int axis;

    if (weight &&
        !tensor_takes_n(call, (struct bell_tensor *[]){logits, target, weight},
                        3, &out))
        return out;
    axis = class_axis(call, logits, target, true, reduction, &out);
    if (axis < 0)
        return out;
    ctx = tensor_at(logits)->ctx;
    if (!(label_smoothing >= 0 && label_smoothing <= 1))
        return tensor_fail(ctx, call, BELL_BAD_VALUE,
                           "label smoothing %g is not in 0..1",
                           label_smoothing);
    if (!check_class_weight(call, logits, weight, axis) ||
        !class_in_range(call, logits, target, axis, ignore_index))
        return ctx->error_tensor;
    x = tn_widen(ctx, tensor_node(logits));
    t = tensor_node(target);
    if (tn_bad(t))
        return tensor_new(ctx, call, t);
    if (tn_is_float(t)) {
        x = tn_log_softmax(ctx, x, (uint32_t)axis);
        if (weight)
            x = tn_mul(ctx, x, spread_weight(ctx, weight, x, (uint32_t)axis));
        u = soft_loss(ctx, x, (uint32_t)axis, t, label_smoothing);
    } else {
        t = tn_cast(ctx, t, UOP_I64);
        u = weight ? weighted_class_loss(ctx, x, (uint32_t)axis, t, weight,
                                         label_smoothing, &count)
                   : class_loss(ctx, x, (uint32_t)axis, t, label_smoothing);
        u = drop_ignored(ctx, u, t, ignore_index, &count);
    }
    return finish_loss(call, ctx, u, count, reduction, result_dtype(logits));
}

struct bell_tensor *
bell_cross_entropy(struct bell_tensor *logits, struct bell_tensor *target,
                   double label_smoothing, int64_t ignore_index,
                   enum bell_reduction reduction)
{
    return cross_entropy(__func__, logits, target, NULL, label_smoothing,
                         ignore_index, reduction);
}

struct bell_tensor *
bell_weighted_cross_entropy(struct bell_tensor *logits,
                            struct bell_tensor *target,
                            struct bell_tensor *weight, double label_smoothing,
                            int64_t ignore_index, enum bell_reduction reduction)
{
    return cross_entropy(__func__, logits, target, weight, label_smoothing,
                         ignore_index, reduction);
}

struct bell_tensor *
bell_nll_loss(struct bell_tensor *log_probs, struct bell_tensor *target,
              struct bell_tensor *weight, int64_t ignore_index,
              enum bell_reduction reduction)
{
    const struct uop *u, *t, *w, *count = NULL;
    struct bell_context *ctx;
    struct bell_tensor *out;
    int axis;

    if (weight &&
        !tensor_takes_n(__func__,
                        (struct bell_tensor *[]){log_probs, target, weight}, 3,
                        &out))
        return out;
    axis = class_axis(__func__, log_probs, target, false, reduction, &out);
    if (axis < 0)
        return out;
    ctx = tensor_at(log_probs)->ctx;
    if (!check_class_weight(__func__, log_probs, weight, axis) ||
        !class_in_range(__func__, log_probs, target, axis, ignore_index))
        return ctx->error_tensor;
    u = tn_widen(ctx, tensor_node(log_probs));
    t = tn_cast(ctx, tensor_node(target), UOP_I64);
    if (weight && !tn_bad(u)) {
        /* Each row's factor is picked as its value is. */
        w = spread_weight(ctx, weight, u, (uint32_t)axis);
        count = pick_class(ctx, w, (uint32_t)axis, t);
        u = tn_mul(ctx, u, w);
    }
    u = tn_neg(ctx, pick_class(ctx, u, (uint32_t)axis, t));
    u = drop_ignored(ctx, u, t, ignore_index, &count);
    return finish_loss(__func__, ctx, u, count, reduction,
                       result_dtype(log_probs));
}
