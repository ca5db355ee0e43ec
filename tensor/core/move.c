/* Movement nodes of the tensor graph, and windows (unfold, fold).
 *
 * A value that is the same in every element stays a CONST under RESHAPE and
 * EXPAND through all of them, so that later ops can fold it.
 */
#include "tensor/core/node.h"

#include <assert.h>
#include <string.h>

#include "base/bits.h"
#include "tensor/core/rules.h"

static const struct uop *
make_move(struct bell_context *ctx, enum uop_op op, const struct uop *u,
          const int64_t *list, uint32_t n_list, const int64_t *d, uint32_t n)
{
    union uop_arg arg = {.bits = 0};
    const struct uop_dims *shape = uop_dims(&ctx->graph, d, n);

    arg.dims = uop_dims(&ctx->graph, list, n_list);
    if (!shape || !arg.dims)
        return &uop_failed;
    return uop_new_shaped(&ctx->graph, op, u->dtype, arg, &u, 1, shape);
}

static bool
same_shape(const struct uop_dims *shape, const int64_t *d, uint32_t n)
{
    uint32_t i;

    for (i = 0; shape->n == n && i < n && shape->d[i] == d[i]; i++)
        ;
    return shape->n == n && i == n;
}

static const struct uop *
fail_size(struct bell_context *ctx, const int64_t *d, uint32_t n)
{
    char text[TENSOR_SHAPE_STR];

    if (n > TN_MOST_AXES)
        return tn_fail(ctx, BELL_BAD_SHAPE, "%u axes, more than %d", n,
                       TN_MOST_AXES);
    return tn_fail(ctx, BELL_BAD_SHAPE, "a value of shape %s is too large",
                   tensor_sizes_str(ctx->dims, d, n, text, sizeof(text)));
}

/* Is one of them no size: too large a number, or too long an expression? */
static bool
has_bad_size(const int64_t *d, uint32_t n)
{
    uint32_t i;

    for (i = 0; i < n; i++) {
        if (d[i] == DIM_BAD)
            return true;
    }
    return false;
}

/* Two reshapes are one: only the last shape counts. The order of elements is
 * that of C. */
const struct uop *
tn_reshape(struct bell_context *ctx, const struct uop *u, const int64_t *d,
           uint32_t n)
{
    const struct uop *c = tn_peel(u);

    if (tn_bad(u) || same_shape(tn_shape(ctx, u), d, n))
        return u;
    if (n > TN_MOST_AXES || has_bad_size(d, n))
        return fail_size(ctx, d, n);
    if (c && u->op == UOP_EXPAND)
        return tn_full(ctx, c, d, n);
    assert(
        dims_same_numel(ctx->dims, d, n, tn_shape(ctx, u)->d, tn_rank(ctx, u)));
    if (u->op == UOP_RESHAPE)
        u = u->src[0];
    if (same_shape(tn_shape(ctx, u), d, n))
        return u;
    return make_move(ctx, UOP_RESHAPE, u, d, n, d, n);
}

/* Two permutations are one, and one that moves nothing is none: so x.T.T is
 * x's own node. */
const struct uop *
tn_permute(struct bell_context *ctx, const struct uop *u, const int64_t *order)
{
    const struct uop_dims *shape = tn_shape(ctx, u);
    int64_t d[TN_MAX_RANK], total[TN_MAX_RANK];
    bool identity = true;
    uint32_t i, n = shape->n;

    if (tn_bad(u))
        return u;
    for (i = 0; i < n; i++) {
        assert(order[i] >= 0 && order[i] < n);
        d[i] = shape->d[order[i]];
        total[i] = u->op == UOP_PERMUTE ? u->arg.dims->d[order[i]] : order[i];
        identity = identity && total[i] == i;
    }
    if (u->op == UOP_PERMUTE)
        u = u->src[0];
    if (identity)
        return u;
    if (tn_peel(u))
        return tn_full(ctx, tn_peel(u), d, n);
    return make_move(ctx, UOP_PERMUTE, u, total, n, d, n);
}

const struct uop *
tn_swap(struct bell_context *ctx, const struct uop *u, uint32_t axis0,
        uint32_t axis1)
{
    int64_t order[TN_MAX_RANK];
    uint32_t i;

    assert(tn_bad(u) || tn_rank(ctx, u) == 0 || /* has axis 0, by Python */
           (axis0 < tn_rank(ctx, u) && axis1 < tn_rank(ctx, u)));
    for (i = 0; i < tn_rank(ctx, u); i++)
        order[i] = i == axis0 ? axis1 : i == axis1 ? axis0 : i;
    return tn_permute(ctx, u, order);
}

const struct uop *
tn_move_axis(struct bell_context *ctx, const struct uop *u, uint32_t from,
             uint32_t to)
{
    int64_t order[TN_MAX_RANK];
    uint32_t i, at = 0;

    for (i = 0; i < tn_rank(ctx, u); i++) {
        if (at == from)
            at++;
        order[i] = i == to ? from : at++;
    }
    return tn_permute(ctx, u, order);
}

/* Only axes of size 1 grow, without copying: their index is left out. */
const struct uop *
tn_expand(struct bell_context *ctx, const struct uop *u, const int64_t *d)
{
    const struct uop_dims *shape = tn_shape(ctx, u);
    uint32_t i;

    if (tn_bad(u) || same_shape(shape, d, shape->n))
        return u;
    if (dims_most(ctx->dims, d, shape->n) < 0)
        return fail_size(ctx, d, shape->n);
    for (i = 0; i < shape->n; i++)
        assert(shape->d[i] == d[i] || shape->d[i] == 1);
    if (u->op == UOP_EXPAND)
        u = u->src[0];
    return make_move(ctx, UOP_EXPAND, u, d, shape->n, d, shape->n);
}

const struct uop *
tn_broadcast(struct bell_context *ctx, const struct uop *u, const int64_t *d,
             uint32_t n)
{
    const struct uop_dims *shape = tn_shape(ctx, u);
    int64_t ones[TN_MAX_RANK];
    uint32_t i, skip;

    if (tn_bad(u) || same_shape(shape, d, n))
        return u;
    if (n > TN_MOST_AXES)
        return fail_size(ctx, d, n);
    assert(n >= shape->n);
    skip = n - shape->n;
    for (i = 0; i < n; i++)
        ones[i] = i < skip ? 1 : shape->d[i - skip];
    return tn_expand(ctx, tn_reshape(ctx, u, ones, n), d);
}

/* What a padding cuts: one that varies is not below zero. */
static int64_t
cut_of(struct bell_context *ctx, int64_t pad)
{
    int64_t min, max;

    dim_bounds(ctx->dims, pad, &min, &max);
    return max <= 0 ? dim_sub(ctx->dims, 0, pad) : 0;
}

/* Below zero it cuts. First all cuts, then one PAD with zeros; a tensor of
 * zeros grows without an op. */
const struct uop *
tn_pad(struct bell_context *ctx, const struct uop *u, const int64_t *pads)
{
    const struct uop_dims *shape = tn_shape(ctx, u);
    struct dim_table *t = ctx->dims;
    int64_t bounds[2 * TN_MAX_RANK], grow[2 * TN_MAX_RANK], d[TN_MAX_RANK];
    const struct uop *c;
    bool any = false, empty = false;
    uint32_t i, n = shape->n;

    if (tn_bad(u))
        return u;
    for (i = 0; i < n; i++) {
        int64_t before = cut_of(ctx, pads[2 * i]);
        int64_t after = cut_of(ctx, pads[2 * i + 1]);

        bounds[2 * i] = before;
        bounds[2 * i + 1] = dim_sub(t, shape->d[i], after);
        grow[2 * i] = dim_add(t, pads[2 * i], before);
        grow[2 * i + 1] = dim_add(t, pads[2 * i + 1], after);
        any = any || grow[2 * i] || grow[2 * i + 1];
        d[i] = dim_sub(t, bounds[2 * i + 1], bounds[2 * i]);
        empty = empty || d[i] <= 0;
        d[i] = dim_add(t, d[i], dim_add(t, grow[2 * i], grow[2 * i + 1]));
    }
    if (has_bad_size(d, n))
        return fail_size(ctx, d, n);
    u = tn_shrink(ctx, u, bounds);
    if (!any || tn_bad(u))
        return u;
    if (dims_most(t, d, n) < 0)
        return fail_size(ctx, d, n);
    c = tn_peel(u);
    if (empty || (c && c->arg.bits == 0))
        return tn_full(ctx, tn_const(ctx, u->dtype, 0), d, n);
    return make_move(ctx, UOP_PAD, u, grow, 2 * n, d, n);
}

/* A cut of a cut is one cut, from where the first began. */
const struct uop *
tn_shrink(struct bell_context *ctx, const struct uop *u, const int64_t *bounds)
{
    const struct uop_dims *shape = tn_shape(ctx, u);
    int64_t d[TN_MAX_RANK], total[2 * TN_MAX_RANK];
    uint32_t i, n = shape->n;

    if (tn_bad(u))
        return u;
    for (i = 0; i < n; i++) {
        int64_t base = u->op == UOP_SHRINK ? u->arg.dims->d[2 * i] : 0;
        d[i] = dim_sub(ctx->dims, bounds[2 * i + 1], bounds[2 * i]);
        total[2 * i] = dim_add(ctx->dims, bounds[2 * i], base);
        total[2 * i + 1] = dim_add(ctx->dims, bounds[2 * i + 1], base);
    }
    if (same_shape(shape, d, n))
        return u;
    if (has_bad_size(d, n) || has_bad_size(total, 2 * n))
        return fail_size(ctx, d, n);
    if (u->op == UOP_SHRINK)
        u = u->src[0];
    if (tn_peel(u))
        return tn_full(ctx, tn_peel(u), d, n);
    return make_move(ctx, UOP_SHRINK, u, total, 2 * n, d, n);
}

/* Axes of one element stay as they are, and what is flipped twice is not
 * flipped. */
const struct uop *
tn_flip(struct bell_context *ctx, const struct uop *u, uint32_t axis_mask)
{
    const struct uop_dims *shape = tn_shape(ctx, u);
    union uop_arg arg;
    uint32_t i;

    if (tn_bad(u) || tn_peel(u))
        return u;
    axis_mask &= (uint32_t)((1ull << shape->n) - 1);
    for (i = 0; i < shape->n; i++) {
        if (shape->d[i] <= 1)
            axis_mask &= ~(1u << i);
    }
    if (u->op == UOP_FLIP) {
        axis_mask ^= (uint32_t)u->arg.i;
        u = u->src[0];
    }
    if (axis_mask == 0)
        return u;
    arg.i = axis_mask;
    return uop_new_shaped(&ctx->graph, UOP_FLIP, u->dtype, arg, &u, 1, shape);
}

const struct uop *
tn_pad_axis(struct bell_context *ctx, const struct uop *u, uint32_t axis,
            int64_t before, int64_t after)
{
    int64_t pads[2 * TN_MAX_RANK] = {0};

    assert(tn_bad(u) || axis < tn_rank(ctx, u));
    pads[2 * axis] = before;
    pads[2 * axis + 1] = after;
    return tn_pad(ctx, u, pads);
}

const struct uop *
tn_shrink_axis(struct bell_context *ctx, const struct uop *u, uint32_t axis,
               int64_t begin, int64_t end)
{
    const struct uop_dims *shape = tn_shape(ctx, u);
    int64_t bounds[2 * TN_MAX_RANK];
    uint32_t i;

    for (i = 0; i < shape->n; i++) {
        bounds[2 * i] = i == axis ? begin : 0;
        bounds[2 * i + 1] = i == axis ? end : shape->d[i];
    }
    return tn_shrink(ctx, u, bounds);
}

const struct uop *
tn_unsqueeze(struct bell_context *ctx, const struct uop *u, uint32_t axis)
{
    const struct uop_dims *shape = tn_shape(ctx, u);
    int64_t d[TN_MAX_RANK + 1];
    uint32_t i;

    assert(tn_bad(u) || axis <= shape->n);
    for (i = 0; i <= shape->n; i++)
        d[i] = i < axis ? shape->d[i] : i == axis ? 1 : shape->d[i - 1];
    return tn_reshape(ctx, u, d, shape->n + 1);
}

const struct uop *
tn_squeeze(struct bell_context *ctx, const struct uop *u, uint32_t axis_mask)
{
    const struct uop_dims *shape = tn_shape(ctx, u);
    int64_t d[TN_MAX_RANK];
    uint32_t i, n = 0;

    for (i = 0; i < shape->n; i++) {
        if (!(axis_mask & 1u << i))
            d[n++] = shape->d[i];
    }
    return tn_reshape(ctx, u, d, n);
}

const struct uop *
tn_split_axis(struct bell_context *ctx, const struct uop *u, uint32_t axis,
              int64_t outer, int64_t inner)
{
    const struct uop_dims *shape = tn_shape(ctx, u);
    int64_t d[TN_MAX_RANK + 1];
    uint32_t i;

    assert(tn_bad(u) || (axis < shape->n &&
                         dim_mul(ctx->dims, outer, inner) == shape->d[axis]));
    for (i = 0; i < shape->n; i++)
        d[i < axis ? i : i + 1] = shape->d[i];
    d[axis] = outer;
    d[axis + 1] = inner;
    return tn_reshape(ctx, u, d, shape->n + 1);
}

const struct uop *
tn_merge_axes(struct bell_context *ctx, const struct uop *u, uint32_t axis,
              uint32_t count)
{
    const struct uop_dims *shape = tn_shape(ctx, u);
    int64_t d[TN_MAX_RANK];
    uint32_t i, n = 0;

    if (tn_bad(u))
        return u;
    for (i = 0; i < shape->n; i++) {
        if (i > axis && i < axis + count)
            d[n - 1] = dim_mul(ctx->dims, d[n - 1], shape->d[i]);
        else
            d[n++] = shape->d[i];
    }
    return tn_reshape(ctx, u, d, n);
}

const struct uop *
tn_stride_axis(struct bell_context *ctx, const struct uop *u, uint32_t axis,
               int64_t begin, int64_t step, int64_t count)
{
    struct dim_table *t = ctx->dims;
    int64_t size = tn_size(ctx, u, axis), span = dim_mul(t, count, step);
    int64_t end = dim_add(t, begin, span);

    if (tn_bad(u))
        return u;
    if (step == 1 || count <= 1)
        return tn_shrink_axis(ctx, u, axis, begin, dim_add(t, begin, count));
    if (dim_at_most(t, end, size) == DIM_ALWAYS) {
        u = tn_shrink_axis(ctx, u, axis, begin, end);
    } else if (dim_at_most(t, size, end) == DIM_ALWAYS) {
        u = tn_shrink_axis(ctx, u, axis, begin, size);
        u = tn_pad_axis(ctx, u, axis, 0, dim_sub(t, end, size));
    } else { /* end - step < size */
        u = tn_pad_axis(ctx, u, axis, 0, step);
        u = tn_shrink_axis(ctx, u, axis, begin, end);
    }
    u = tn_split_axis(ctx, u, axis, count, step);
    u = tn_shrink_axis(ctx, u, axis + 1, 0, 1);
    return tn_merge_axes(ctx, u, axis, 2);
}

const struct uop *
tn_stuff_axis(struct bell_context *ctx, const struct uop *u, uint32_t axis,
              int64_t step)
{
    int64_t size = tn_size(ctx, u, axis);

    if (tn_bad(u) || step == 1 || size <= 1)
        return u;
    u = tn_split_axis(ctx, u, axis, size, 1);
    u = tn_pad_axis(ctx, u, axis + 1, 0, step - 1);
    u = tn_merge_axes(ctx, u, axis, 2);
    size = dim_mul(ctx->dims, size, step);
    return tn_shrink_axis(ctx, u, axis, 0, dim_sub(ctx->dims, size, step - 1));
}

/* Windows that do not overlap: rows of `step`, of which the first `size`. */
static const struct uop *
unfold_apart(struct bell_context *ctx, const struct uop *u, uint32_t axis,
             int64_t n, int64_t size, int64_t step)
{
    int64_t have = tn_size(ctx, u, axis), all = dim_mul(ctx->dims, n, step);

    if (dim_at_most(ctx->dims, have, all) == DIM_ALWAYS)
        u = tn_pad_axis(ctx, u, axis, 0, dim_sub(ctx->dims, all, have));
    else if (dim_at_most(ctx->dims, all, have) != DIM_ALWAYS)
        u = tn_pad_axis(ctx, u, axis, 0, step); /* all - step < have */
    u = tn_shrink_axis(ctx, u, axis, 0, all);
    u = tn_split_axis(ctx, u, axis, n, step);
    return tn_shrink_axis(ctx, u, axis + 1, 0, size);
}

/* The axis of size x is repeated, and the flat result read as rows of
 * f * x + dilation: row k, column j is element (k * dilation + j) mod x, and
 * the columns used are those where the modulo changes nothing. */
static const struct uop *
unfold_rows(struct bell_context *ctx, const struct uop *u, uint32_t axis,
            int64_t n, int64_t size, int64_t step, int64_t dilation)
{
    int64_t x = tn_size(ctx, u, axis), d[TN_MAX_RANK + 1], f, width, n_rows;
    int64_t all = dim_mul(ctx->dims, n, step), least, most;
    uint32_t rank = tn_rank(ctx, u);

    dim_bounds(ctx->dims, x, &least, &most);
    if (dim_is_expr(x) || dim_is_expr(n)) { /* enough for the least x */
        f = step - (size - 1) * dilation - 1 - dilation; /* all - x, at most */
        f = 1 + (f > 0 ? (f + least - 1) / least : 0);
        width = dim_add(ctx->dims, dim_mul(ctx->dims, x, f), dilation);
        n_rows = size * f + (size * dilation + least - 1) / least;
    } else {
        f = (int64_t)div_up((uint64_t)(all > dilation ? all - dilation : 1),
                            (uint64_t)x);
        width = f * x + dilation;
        if (width > TN_MAX_NUMEL / size)
            return fail_size(ctx, (int64_t[]){size, width}, 2);
        n_rows = (int64_t)div_up((uint64_t)(size * width), (uint64_t)x);
    }
    u = tn_unsqueeze(ctx, u, axis);
    if (tn_bad(u))
        return u;
    memcpy(d, tn_shape(ctx, u)->d, (rank + 1) * sizeof(*d));
    d[axis] = n_rows;
    u = tn_merge_axes(ctx, tn_expand(ctx, u, d), axis, 2);
    u = tn_shrink_axis(ctx, u, axis, 0, dim_mul(ctx->dims, width, size));
    u = tn_split_axis(ctx, u, axis, size, width);
    u = tn_shrink_axis(ctx, u, axis + 1, 0, all);
    u = tn_stride_axis(ctx, u, axis + 1, 0, step, n);
    return tn_swap(ctx, u, axis, axis + 1);
}

const struct uop *
tn_unfold(struct bell_context *ctx, const struct uop *u, uint32_t axis,
          int64_t n, int64_t size, int64_t step, int64_t dilation)
{
    struct tensor_rule rule = {.kind = TENSOR_RULE_UNFOLD, .a = u};
    const struct uop *out;

    if (tn_bad(u))
        return u;
    if (tn_rank(ctx, u) >= TN_MOST_AXES)
        return fail_size(ctx, NULL, TN_MOST_AXES + 1);
    if (size == 1)
        return tn_unsqueeze(ctx, tn_stride_axis(ctx, u, axis, 0, step, n),
                            axis + 1);
    if (n == 1 && dilation == 1)
        return tn_unsqueeze(ctx, tn_shrink_axis(ctx, u, axis, 0, size), axis);
    if (size <= step && dilation == 1)
        return unfold_apart(ctx, u, axis, n, size, step);
    out = unfold_rows(ctx, u, axis, n, size, step, dilation);
    rule.p[0] = axis;
    rule.p[1] = step;
    rule.p[2] = dilation;
    return tensor_rule_add(ctx, out, &rule);
}

const struct uop *
tn_fold(struct bell_context *ctx, const struct uop *u, uint32_t axis,
        int64_t x_size, int64_t step, int64_t dilation)
{
    int64_t size = tn_size(ctx, u, axis + 1), used;
    int64_t reach = (size - 1) * dilation;
    int64_t width = dim_add(ctx->dims, x_size, reach);

    /* out[i] = sum over k of u[(i - k * dilation) / step, k]: rows of
     * reversed k, each moved right by reach, then read as rows that are
     * longer by dilation. */
    u = tn_swap(ctx, u, axis, axis + 1);
    u = tn_stuff_axis(ctx, u, axis + 1, step);
    u = tn_flip(ctx, u, tn_axis_bit(axis));
    if (tn_bad(u))
        return u;
    used = tn_size(ctx, u, axis + 1);
    u = tn_pad_axis(ctx, u, axis + 1, reach, dim_sub(ctx->dims, x_size, used));
    u = tn_merge_axes(ctx, u, axis, 2);
    u = tn_pad_axis(ctx, u, axis, 0, size * dilation);
    u = tn_split_axis(ctx, u, axis, size, dim_add(ctx->dims, width, dilation));
    u = tn_shrink_axis(ctx, u, axis + 1, 0, x_size);
    return tn_squeeze(ctx, tn_sum(ctx, u, tn_axis_bit(axis)),
                      tn_axis_bit(axis));
}
