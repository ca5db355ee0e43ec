/* Products and distances that are made of the others. */

#include "tensor/ops/elementwise.h"
#include "tensor/ops/matmul.h"
#include "tensor/ops/reduce.h"

/* x and y in their common dtype; false with *out set. */
static bool
take_two(const char *call, struct bell_tensor *x, struct bell_tensor *y,
         enum tensor_kind kind, const struct uop *u[2],
         struct bell_tensor **out)
{
    struct bell_tensor *both[2] = {x, y};
    enum uop_dtype dtype;

    if (!tensor_takes2(call, x, y, out))
        return false;
    dtype = tensor_wide_dtype(tensor_result_dtype(both, 2, NULL));
    if (kind == TENSOR_FLOAT && !uop_dtype_infos[dtype].is_float)
        dtype = UOP_F32;
    u[0] = tn_cast(tensor_at(x)->ctx, tensor_node(x), dtype);
    u[1] = tn_cast(tensor_at(x)->ctx, tensor_node(y), dtype);
    return true;
}

struct bell_tensor *
bell_cdist(struct bell_tensor *x, struct bell_tensor *y, double p)
{
    const struct uop_dims *shapes[2];
    const struct uop *u[2], *d;
    struct bell_context *ctx;
    struct bell_tensor *out;
    enum uop_dtype dtype;
    int64_t sizes[TN_MAX_RANK];
    uint32_t n, m;

    if (!take_two(__func__, x, y, TENSOR_FLOAT, u, &out))
        return out;
    ctx = tensor_at(x)->ctx;
    n = tensor_at(x)->shape->n;
    m = tensor_at(y)->shape->n;
    if (!(p >= 0))
        return tensor_fail(ctx, __func__, BELL_BAD_VALUE,
                           "the order is %g; expected 0 or more", p);
    if (n < 2 || m < 2 || n == BELL_MAX_RANK || m == BELL_MAX_RANK ||
        tensor_at(x)->shape->d[n - 1] != tensor_at(y)->shape->d[m - 1])
        return tensor_fail(ctx, __func__, BELL_BAD_SHAPE,
                           "%s and %s: expected [.., n, d] and [.., m, d], of "
                           "fewer than %d axes",
                           SHAPE_OF(x), SHAPE_OF(y), BELL_MAX_RANK);
    dtype = u[0]->dtype;
    u[0] = tn_unsqueeze(ctx, tn_widen(ctx, u[0]), n - 1);
    u[1] = tn_unsqueeze(ctx, tn_widen(ctx, u[1]), m - 2);
    shapes[0] = tn_shape(ctx, u[0]);
    shapes[1] = tn_shape(ctx, u[1]);
    if (!tn_broadcast_shape(shapes, 2, sizes, &n))
        return tensor_fail(
            ctx, __func__, BELL_BAD_SHAPE,
            "%s and %s: the axes before the last two do not broadcast",
            SHAPE_OF(x), SHAPE_OF(y));
    d = tn_sub(ctx, u[0], u[1]);
    if (sizes[n - 1] == 0) {
        sizes[n - 1] = 1; /* of no coordinates: 0 */
        d = tn_full(ctx, tn_const(ctx, u[0]->dtype, 0), sizes, n);
    } else {
        d = tn_norm(ctx, d, p, tn_axis_bit(n - 1));
    }
    d = tn_squeeze(ctx, d, tn_axis_bit(n - 1));
    return tensor_new(ctx, __func__, tn_cast(ctx, d, dtype));
}

/* The axes of u that are not listed, then (or before, where `first`) those that
 * are, as a matrix; d gets the sizes of what is left. */
static const struct uop *
as_matrix(struct bell_context *ctx, const struct uop *u, const int64_t *axes,
          uint32_t n, bool first, int64_t *d, uint32_t *n_left)
{
    uint32_t rank = tn_rank(ctx, u), mask = 0, at = first ? n : 0, i;
    int64_t order[TN_MAX_RANK], sides[2] = {1, 1}, left = 1, summed = 1;

    for (i = 0; i < n; i++) {
        mask |= 1u << axes[i];
        order[first ? i : rank - n + i] = axes[i];
        summed = dim_mul(ctx->dims, summed, tn_size(ctx, u, (uint32_t)axes[i]));
    }
    for (i = 0; i < rank; i++) {
        if (mask & 1u << i)
            continue;
        order[at++] = i;
        d[(*n_left)++] = tn_size(ctx, u, i);
        left = dim_mul(ctx->dims, left, tn_size(ctx, u, i));
    }
    sides[0] = first ? summed : left;
    sides[1] = first ? left : summed;
    return tn_reshape(ctx, tn_permute(ctx, u, order), sides, 2);
}

struct bell_tensor *
bell_tensordot(struct bell_tensor *x, struct bell_tensor *y,
               const int64_t *x_axes, const int64_t *y_axes, uint32_t n)
{
    int64_t axes[2][BELL_MAX_RANK], d[2 * BELL_MAX_RANK];
    uint32_t n_left = 0, seen[2] = {0, 0}, i;
    const struct uop *u[2];
    struct bell_context *ctx;
    struct bell_tensor *out;

    if (!take_two(__func__, x, y, TENSOR_ANY, u, &out))
        return out;
    ctx = tensor_at(x)->ctx;
    if (n && (!x_axes || !y_axes))
        return tensor_fail(ctx, __func__, BELL_BAD_MISSING,
                           "the list of axes is NULL");
    if (n > tensor_at(x)->shape->n || n > tensor_at(y)->shape->n ||
        tensor_at(x)->shape->n + tensor_at(y)->shape->n - 2 * n > BELL_MAX_RANK)
        return tensor_fail(ctx, __func__, BELL_BAD_SHAPE,
                           "%u axes of %s and %s: expected no more than each "
                           "has, and %d at most in the result",
                           n, SHAPE_OF(x), SHAPE_OF(y), BELL_MAX_RANK);
    for (i = 0; i < n; i++) {
        int a = tensor_axis(ctx, __func__, x_axes[i], tensor_at(x)->shape->n);
        int b = tensor_axis(ctx, __func__, y_axes[i], tensor_at(y)->shape->n);
        if (a < 0 || b < 0)
            return ctx->error_tensor;
        if (seen[0] & 1u << a || seen[1] & 1u << b ||
            tensor_at(x)->shape->d[a] != tensor_at(y)->shape->d[b])
            return tensor_fail(ctx, __func__, BELL_BAD_SHAPE,
                               "axis %d of %s with axis %d of %s: the sizes "
                               "must be equal, and each axis be named once",
                               a, SHAPE_OF(x), b, SHAPE_OF(y));
        seen[0] |= 1u << a;
        seen[1] |= 1u << b;
        axes[0][i] = a;
        axes[1][i] = b;
    }
    if (tn_bad(u[0]) || tn_bad(u[1]))
        return tensor_new(ctx, __func__, &uop_failed);
    u[0] = as_matrix(ctx, u[0], axes[0], n, false, d, &n_left);
    u[1] = as_matrix(ctx, u[1], axes[1], n, true, d, &n_left);
    u[0] = tn_matmul(ctx, u[0], u[1]);
    return tensor_new(ctx, __func__, tn_reshape(ctx, u[0], d, n_left));
}

struct bell_tensor *
bell_kron(struct bell_tensor *x, struct bell_tensor *y)
{
    int64_t a[TN_MAX_RANK], b[TN_MAX_RANK], d[TN_MAX_RANK];
    const struct uop *u[2];
    struct bell_context *ctx;
    struct bell_tensor *out;
    enum uop_dtype dtype;
    uint32_t rank, i;

    if (!take_two(__func__, x, y, TENSOR_ANY, u, &out))
        return out;
    ctx = tensor_at(x)->ctx;
    rank = tensor_at(x)->shape->n > tensor_at(y)->shape->n
               ? tensor_at(x)->shape->n
               : tensor_at(y)->shape->n;
    for (i = 0; i < rank; i++) {
        uint32_t from_x = i + tensor_at(x)->shape->n,
                 from_y = i + tensor_at(y)->shape->n;
        int64_t n = from_x < rank ? 1 : tensor_at(x)->shape->d[from_x - rank];
        int64_t m = from_y < rank ? 1 : tensor_at(y)->shape->d[from_y - rank];
        a[2 * i] = n;
        a[2 * i + 1] = b[2 * i] = 1;
        b[2 * i + 1] = m;
        d[i] = dim_mul(ctx->dims, n, m);
    }
    if (!tensor_takes_shape(ctx, __func__, d, rank))
        return ctx->error_tensor;
    dtype = u[0]->dtype; /* gradients are sums of products: rounded once */
    u[0] = tn_mul(ctx, tn_reshape(ctx, tn_widen(ctx, u[0]), a, 2 * rank),
                  tn_reshape(ctx, tn_widen(ctx, u[1]), b, 2 * rank));
    u[0] = tn_cast(ctx, tn_reshape(ctx, u[0], d, rank), dtype);
    return tensor_new(ctx, __func__, u[0]);
}
