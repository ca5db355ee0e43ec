/* Sampling an image at given points. A point's coordinates become numbers of
 * elements, are folded into the image as the padding says, and the elements
 * around are added with their weights. Elements outside count as 0.
 */
#include <assert.h>
#include <string.h>

#include "doorbell/vision.h"
#include "tensor/ops/elementwise.h"
#include "tensor/core/rules.h"
#include "tensor/ops/vision.h"

struct sampling {
    struct bell_context *ctx;
    const struct uop *x; /* [n, c, elements of an image] */
    uint32_t n_axes;
    int64_t size[3], d[3]; /* of the image; [n, c, points] */
    enum bell_resize_mode mode;
    enum bell_grid_padding padding;
    bool align;
};

/* `at` limited to low..high; its slope is 0 outside. NaN becomes low. */
static const struct uop *
limit_grid(struct bell_context *ctx, const struct uop *at, double low,
           double high)
{
    const struct uop *l = tn_num(ctx, at, low), *h = tn_num(ctx, at, high);

    at = tn_where(ctx, tn_lt(ctx, l, at), at, l);
    return tn_where(ctx, tn_lt(ctx, at, h), at, h);
}

/* `at` reflected at low and high as often as needed. */
static const struct uop *
reflect(struct bell_context *ctx, const struct uop *at, double low, double high)
{
    const struct uop *t, *flips, *even, *slope, *one = tn_num(ctx, at, 1);
    const struct uop *span = tn_num(ctx, at, high - low), *y, *is_left;

    if (high == low)
        return tn_num(ctx, at, 0);
    t = tn_add_c(ctx, at, -low);
    is_left = tn_lt(ctx, t, tn_num(ctx, t, 0));
    t = tn_abs(ctx, t);
    flips = tn_floor(ctx, tn_fdiv(ctx, t, span));
    even = tn_mul_c(ctx, flips, 0.5);
    even = tn_eq(ctx, even, tn_floor(ctx, even));
    y = tn_alu2(ctx, UOP_FMOD, t, span);
    y = tn_add_c(ctx, tn_where(ctx, even, y, tn_sub(ctx, span, y)), low);
    slope = tn_where(ctx, tn_eq(ctx, even, is_left), tn_neg(ctx, one), one);
    return tensor_slope(ctx, y, at, slope);
}

/* A place on an axis of `size` elements, folded into the image. Zeros are as
 * good as what is farther away. */
static const struct uop *
fold_place(const struct sampling *s, const struct uop *at, int64_t size)
{
    double last = (double)(size - 1);

    if (s->padding == BELL_GRID_ZEROS)
        return limit_grid(s->ctx, at, -3, last + 3);
    if (s->padding == BELL_GRID_REFLECT)
        at = s->align ? reflect(s->ctx, at, 0, last)
                      : reflect(s->ctx, at, -0.5, last + 0.5);
    return limit_grid(s->ctx, at, 0, last);
}

/* Where the points are on an axis: [n, 1, points], in elements. grid is
 * [n, points, n_axes], whose last number is of the first axis. */
static const struct uop *
place_points(const struct sampling *s, const struct uop *grid, uint32_t axis)
{
    struct bell_context *ctx = s->ctx;
    const int64_t d[3] = {s->d[0], 1, s->d[2]};
    int64_t k = s->n_axes - 1 - axis;
    double size = (double)s->size[axis];
    const struct uop *g = tn_shrink_axis(ctx, grid, 2, k, k + 1);

    g = tn_reshape(ctx, g, d, 3);
    g = tn_where(ctx, tn_isnan(ctx, g), tn_num(ctx, g, -1), g);
    g = tn_add_c(ctx, g, 1);
    if (s->align)
        return tn_mul_c(ctx, tn_mul_c(ctx, g, 0.5), size - 1);
    return tn_mul_c(ctx, tn_add_c(ctx, tn_mul_c(ctx, g, size), -1), 0.5);
}

/* Elements along an axis, I64, and their weights. */
struct grid_taps {
    uint32_t n;
    const struct uop *index[4], *weight[4];
};

static void
find_grid_taps(const struct sampling *s, const struct uop *at, int64_t size,
               struct grid_taps *taps)
{
    struct bell_context *ctx = s->ctx;
    const struct uop *first, *share, *x;
    int i;

    if (s->mode != BELL_RESIZE_CUBIC)
        at = fold_place(s, at, size);
    if (s->mode == BELL_RESIZE_NEAREST) {
        taps->n = 1;
        taps->index[0] = tn_cast(ctx, tn_round_even(ctx, at), UOP_I64);
        taps->weight[0] = tn_num(ctx, at, 1);
        return;
    }
    if (s->mode == BELL_RESIZE_LINEAR) {
        first = tn_floor(ctx, at);
        share = tn_sub(ctx, at, first);
        taps->n = 2;
        taps->index[0] = tn_cast(ctx, first, UOP_I64);
        taps->index[1] = tn_add_c(ctx, taps->index[0], 1);
        taps->weight[0] = tn_sub(ctx, tn_num(ctx, share, 1), share);
        taps->weight[1] = share;
        return;
    }
    /* what is outside is folded element by element */
    at = limit_grid(ctx, at, -0x1p40, 0x1p40);
    first = tn_floor(ctx, at);
    share = tn_sub(ctx, at, first);
    taps->n = 4;
    for (i = -1; i < 3; i++) {
        x = i < 1 ? tn_add_c(ctx, share, -i)
                  : tn_sub(ctx, tn_num(ctx, share, i), share);
        taps->weight[i + 1] = tn_cubic_weight(ctx, x, i == 0 || i == 1);
        x = fold_place(s, tn_add_c(ctx, first, i), size);
        taps->index[i + 1] = tn_cast(ctx, x, UOP_I64);
    }
}

/* The elements of x at `index`, [n, 1, points], of each channel. */
static const struct uop *
take_elements(const struct sampling *s, const struct uop *index)
{
    if (tn_bad(index))
        return index;
    return tn_gather(s->ctx, s->x, 2, tn_broadcast(s->ctx, index, s->d, 3));
}

/* One combination of taps, numbered as digits: weight times element, added to
 * `sum` (NULL: nothing). */
static const struct uop *
add_tap(const struct sampling *s, const struct grid_taps *taps, uint32_t number,
        const struct uop *sum)
{
    struct bell_context *ctx = s->ctx;
    const struct uop *index = NULL, *weight = NULL, *inside = NULL, *u;
    uint32_t i;

    for (i = 0; i < s->n_axes; i++, number /= taps->n) {
        const struct uop *k = taps[i].index[number % taps->n], *in;
        const struct uop *w = taps[i].weight[number % taps->n];
        const struct uop *last = tn_int(ctx, UOP_I64, s->size[i] - 1);
        const struct uop *zero = tn_int(ctx, UOP_I64, 0);

        in = tn_and(ctx, tn_le(ctx, zero, k), tn_le(ctx, k, last));
        k = tn_min(ctx, tn_max(ctx, k, zero), last);
        if (i > 0)
            k = tn_add(ctx, tn_mul_c(ctx, index, (double)s->size[i]), k);
        index = k;
        inside = i ? tn_and(ctx, inside, in) : in;
        weight = i ? tn_mul(ctx, weight, w) : w;
    }
    u = take_elements(s, index);
    u = tn_where(ctx, inside, u, tn_num(ctx, u, 0));
    return sum ? tn_madd(ctx, u, weight, sum) : tn_mul(ctx, u, weight);
}

static const struct uop *
sample_grid(const struct sampling *s, const struct uop *grid)
{
    const struct uop *sum = NULL;
    struct grid_taps taps[3];
    uint32_t i, n = 1;

    for (i = 0; i < s->n_axes; i++) {
        find_grid_taps(s, place_points(s, grid, i), s->size[i], &taps[i]);
        n *= taps[i].n;
    }
    for (i = 0; i < n; i++)
        sum = add_tap(s, taps, i, sum);
    return sum;
}

struct bell_tensor *
bell_grid_sample(struct bell_tensor *x, struct bell_tensor *grid,
                 enum bell_resize_mode mode, enum bell_grid_padding padding,
                 bool align_corners)
{
    const struct uop_dims *xd, *gd;
    int64_t d[BELL_MAX_RANK], points;
    struct bell_tensor *out;
    const struct uop *g;
    struct sampling s;
    bool fits;
    uint32_t i;

    if (!tensor_takes2(__func__, x, grid, &out) ||
        !tensor_plain_axes(__func__, x, ~3u, "places in it are numbers", &out))
        return out;
    s = (struct sampling){.ctx = tensor_at(x)->ctx,
                          .mode = mode,
                          .padding = padding,
                          .align = align_corners};
    xd = tensor_at(x)->shape;
    gd = tensor_at(grid)->shape;
    if (!uop_dtype_infos[tensor_at(x)->dtype].is_float ||
        !uop_dtype_infos[tensor_at(grid)->dtype].is_float)
        return tensor_fail(s.ctx, __func__, BELL_BAD_DTYPE,
                           "x of %s, grid of %s: a float dtype is needed",
                           DTYPE_OF(x), DTYPE_OF(grid));
    fits = (xd->n == 4 || xd->n == 5) && gd->n == xd->n &&
           gd->d[0] == xd->d[0] && gd->d[gd->n - 1] == xd->n - 2;
    for (i = 2; fits && i < xd->n; i++)
        fits = xd->d[i] > 0;
    if (!fits)
        return tensor_fail(
            s.ctx, __func__, BELL_BAD_SHAPE,
            "x of shape %s at a grid of shape %s: expected [n, c, h, w] and "
            "[n, .., .., 2], or [n, c, d, h, w] and [n, .., .., .., 3], and no "
            "axis of an image empty",
            SHAPE_OF(x), SHAPE_OF(grid));
    if ((mode != BELL_RESIZE_NEAREST && mode != BELL_RESIZE_LINEAR &&
         (mode != BELL_RESIZE_CUBIC || xd->n != 4)) ||
        padding < BELL_GRID_ZEROS || padding > BELL_GRID_REFLECT)
        return tensor_fail(
            s.ctx, __func__, BELL_BAD_VALUE,
            "mode %d, padding %d of x of shape %s: expected NEAREST, LINEAR "
            "or, of 4 axes, CUBIC, and an enum bell_grid_padding",
            (int)mode, (int)padding, SHAPE_OF(x));
    s.n_axes = xd->n - 2;
    memcpy(s.size, xd->d + 2, s.n_axes * sizeof(*s.size));
    memcpy(d, xd->d, 2 * sizeof(*d));
    memcpy(d + 2, gd->d + 1, s.n_axes * sizeof(*d));
    points = dim_product(s.ctx->dims, d + 2, s.n_axes);
    s.d[0] = xd->d[0];
    s.d[1] = xd->d[1];
    s.d[2] = tn_product(s.size, s.n_axes);
    s.x = tn_reshape(s.ctx, tn_widen(s.ctx, tensor_node(x)), s.d, 3);
    if (tn_bad(s.x) || points < 0)
        return tensor_new(s.ctx, __func__, &uop_failed);
    s.d[2] = points;
    g = tn_cast(s.ctx, tensor_node(grid), s.x->dtype);
    g = tn_reshape(s.ctx, g, (int64_t[]){s.d[0], points, s.n_axes}, 3);
    g = tn_reshape(s.ctx, sample_grid(&s, g), d, 2 + s.n_axes);
    return tensor_new(s.ctx, __func__,
                      tn_bad(g) ? g : tn_cast(s.ctx, g, tensor_node(x)->dtype));
}
