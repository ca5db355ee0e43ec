/* Images: the way back from pooling, regions. */
#include <assert.h>
#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "doorbell/vision.h"
#include "tensor/core/rules.h"
#include "tensor/ops/elementwise.h"
#include "tensor/ops/select.h"

/* ---- the way back from pooling ---- */

/* Each element's gradient is that of its place. */
static bell_status
unpool_back(struct bell_context *ctx, void *user, struct bell_tensor *const *in,
            uint32_t n_in, struct bell_tensor *out, struct bell_tensor *grad,
            struct bell_tensor **out_grads)
{
    (void)ctx;
    (void)user;
    (void)n_in;
    (void)out;
    out_grads[0] = bell_gather(grad, 1, in[1]);
    return BELL_OK;
}

struct bell_tensor *
bell_max_unpool(struct bell_tensor *x, struct bell_tensor *indices,
                const int64_t *sizes, uint32_t n)
{
    const struct bell_custom_desc desc = {
        .struct_size = sizeof(desc), .name = __func__, .backward = unpool_back};
    int64_t d[BELL_MAX_RANK], flat[2], area;
    const struct uop *in[2], *u;
    const struct uop_dims *shape;
    struct bell_context *ctx;
    struct bell_tensor *out;
    uint32_t lead, i;

    if (!tensor_takes2(__func__, x, indices, &out))
        return out;
    ctx = tensor_at(x)->ctx;
    shape = tensor_at(x)->shape;
    if (!uop_dtype_infos[tensor_at(indices)->dtype].is_int)
        return tensor_fail(ctx, __func__, BELL_BAD_DTYPE,
                           "indices of %s, not an integer dtype",
                           DTYPE_OF(indices));
    if (shape != tensor_at(indices)->shape || n > shape->n || (n && !sizes))
        return tensor_fail(
            ctx, __func__, BELL_BAD_SHAPE,
            "x of shape %s with indices of shape %s to %u sizes: the shapes "
            "must be equal, with an axis for each size",
            SHAPE_OF(x), SHAPE_OF(indices), n);
    for (i = 0; i < n; i++) {
        if (sizes[i] < 0)
            return tensor_fail(ctx, __func__, BELL_BAD_VALUE,
                               "a size is %lld; expected 0 or more",
                               (long long)sizes[i]);
    }
    lead = shape->n - n;
    if (dims_in(shape->d + lead, n) || dims_in(sizes, n))
        return tensor_fail(ctx, __func__, BELL_BAD_SHAPE,
                           "the last %u axes of %s have sizes of symbols: "
                           "places in them are numbers",
                           n, SHAPE_OF(x));
    memcpy(d, shape->d, lead * sizeof(*d));
    if (n)
        memcpy(d + lead, sizes, n * sizeof(*d));
    area = tn_product(d + lead, n);
    if (area >= 0 && !tensor_check_range(__func__, indices, "index", (int)lead,
                                         0, area, TENSOR_IGNORE_NONE))
        return ctx->error_tensor;
    shape = tensor_at(x)->shape; /* that was a safe point */
    flat[0] = dim_product(ctx->dims, shape->d, lead);
    flat[1] = tn_product(shape->d + lead, n);
    in[0] = tn_reshape(ctx, tensor_node(x), flat, 2);
    in[1] = tn_cast(ctx, tensor_node(indices), UOP_I64);
    in[1] = tn_reshape(ctx, in[1], flat, 2);
    if (tn_bad(in[0]) || tn_bad(in[1]) || area < 0)
        return tensor_new(ctx, __func__, &uop_failed);
    /* those below 0 do not count from the end */
    u = tn_where(ctx, tn_lt(ctx, in[1], tn_int(ctx, UOP_I64, 0)),
                 tn_int(ctx, UOP_I64, area), in[1]);
    u = tn_scatter(ctx, TN_COMBINE_LAST, in[0], 1, u, area);
    if (tn_is_float(in[0]))
        u = tensor_custom_node(ctx, u, &desc, in, 2);
    return tensor_new(ctx, __func__, tn_reshape(ctx, u, d, shape->n));
}

/* ---- means of regions ---- */

/* The points along one axis of all boxes: [k, parts, points]. */
struct region_axis {
    int64_t size, n_parts, n_points;
    const struct uop *start, *length; /* [k] */
    const struct uop *count;          /* points of each part, [k]; or NULL */
    const struct uop *low, *high;     /* elements, I64 */
    const struct uop *share;          /* the higher one's weight */
    const struct uop *is_in;
};

/* Column c of boxes, [k, 1, 1]. */
static const struct uop *
take_column(struct bell_context *ctx, const struct uop *boxes, int64_t c)
{
    return tn_unsqueeze(ctx, tn_shrink_axis(ctx, boxes, 1, c, c + 1), 2);
}

static void
measure_axis(struct bell_context *ctx, const struct uop *boxes, int64_t c,
             double scale, bool aligned, struct region_axis *r)
{
    const struct uop *end =
        tn_mul_c(ctx, take_column(ctx, boxes, c + 2), scale);

    r->start = tn_mul_c(ctx, take_column(ctx, boxes, c), scale);
    if (aligned) {
        r->start = tn_add_c(ctx, r->start, -0.5);
        end = tn_add_c(ctx, end, -0.5);
    }
    r->length = tn_sub(ctx, end, r->start);
    if (!aligned)
        r->length = tn_max(ctx, r->length, tn_num(ctx, end, 1));
}

static void
place_axis(struct bell_context *ctx, struct region_axis *r)
{
    const struct uop *part, *point, *step, *at, *zero, *last, *floor, *n;

    part = tn_iota(ctx, 3, 1, r->n_parts, UOP_I64);
    point = tn_iota(ctx, 3, 2, r->n_points, UOP_I64);
    part = tn_cast(ctx, part, r->start->dtype);
    point = tn_cast(ctx, point, r->start->dtype);
    step = tn_fdiv(ctx, r->length, tn_num(ctx, r->length, (double)r->n_parts));
    n = r->count ? r->count : tn_num(ctx, step, (double)r->n_points);
    at = tn_fdiv(ctx, tn_mul(ctx, tn_add_c(ctx, point, 0.5), step), n);
    at = tn_add(ctx, tn_add(ctx, r->start, tn_mul(ctx, part, step)), at);
    zero = tn_num(ctx, at, 0);
    last = tn_num(ctx, at, (double)(r->size - 1));
    r->is_in = tn_and(ctx, tn_le(ctx, tn_num(ctx, at, -1), at),
                      tn_le(ctx, at, tn_num(ctx, at, (double)r->size)));
    if (r->count)
        r->is_in = tn_and(ctx, r->is_in, tn_lt(ctx, point, r->count));
    at = tn_where(ctx, tn_lt(ctx, zero, at), at, zero);
    at = tn_where(ctx, tn_lt(ctx, at, last), at, last);
    floor = tn_floor(ctx, at);
    r->share = tn_sub(ctx, at, floor);
    r->low = tn_cast(ctx, floor, UOP_I64);
    r->high = tn_min(ctx, tn_add_c(ctx, r->low, 1),
                     tn_int(ctx, UOP_I64, r->size - 1));
}

#define MAX_POINTS 4096 /* of a part, along an axis */

/* As many points in each part as it has elements, [k, 1, 1]. */
static const struct uop *
count_points(struct bell_context *ctx, const struct region_axis *r)
{
    const struct uop *n = tn_num(ctx, r->length, (double)r->n_parts);

    n = tn_neg(ctx, tn_fdiv(ctx, r->length, n)); /* rounded up */
    return tn_max(ctx, tn_neg(ctx, tn_floor(ctx, n)), tn_num(ctx, n, 0));
}

/* Reads the most points that a part has. A safe point: nodes move. */
static bool
read_most(const char *call, struct bell_context *ctx, const struct uop *counts,
          int64_t *out)
{
    struct bell_tensor *most;
    double value = 0;
    bell_status status;

    *out = 1;
    if (!tn_bad(counts) && tn_numel(ctx, counts) == 0)
        return true;
    counts = tn_squeeze(ctx, tn_reduce(ctx, UOP_MAX, counts, 7), 7);
    most = tensor_new(ctx, call, counts);
    status = bell_item_f64(most, &value);
    bell_tensor_release(most);
    if (status != BELL_OK) {
        tensor_fail_last(ctx, call);
        return false;
    }
    if (!(value <= MAX_POINTS)) {
        tensor_fail(ctx, call, BELL_BAD_VALUE,
                    "a box of which a part has %g elements; at most %d are "
                    "possible",
                    value, MAX_POINTS);
        return false;
    }
    if (value > 1)
        *out = (int64_t)value;
    return true;
}

/* An axis' [k, parts, points] among those of the samples:
 * [k, channels, parts, points, parts, points]. */
static const struct uop *
spread_axis(struct bell_context *ctx, const struct uop *u, uint32_t i)
{
    uint32_t k;

    u = tn_unsqueeze(ctx, u, 1);
    for (k = 0; k < 2; k++)
        u = tn_unsqueeze(ctx, u, i ? 2 : 4);
    return u;
}

/* Means of the samples, [k, c, parts, parts]. x has one axis. */
static const struct uop *
average_regions(struct bell_context *ctx, const struct uop *x,
                const struct uop *image, int64_t n_channels,
                const struct region_axis *r)
{
    const struct uop *sum = NULL, *index, *w, *is_in, *count, *one;
    const struct uop *at[2], *share[2];
    uint32_t corner, i;

    is_in = tn_and(ctx, spread_axis(ctx, r[0].is_in, 0),
                   spread_axis(ctx, r[1].is_in, 1));
    one = tn_num(ctx, x, 1);
    for (corner = 0; corner < 4; corner++) {
        for (i = 0; i < 2; i++) {
            bool high = corner >> i & 1;
            at[i] = spread_axis(ctx, high ? r[i].high : r[i].low, i);
            share[i] = high ? r[i].share : tn_sub(ctx, one, r[i].share);
            share[i] = spread_axis(ctx, share[i], i);
        }
        index = tn_mul_c(ctx, image, (double)n_channels);
        index = tn_add(ctx, index, tn_iota(ctx, 6, 1, n_channels, UOP_I64));
        index = tn_add(ctx, tn_mul_c(ctx, index, (double)r[0].size), at[0]);
        index = tn_add(ctx, tn_mul_c(ctx, index, (double)r[1].size), at[1]);
        if (tn_bad(index))
            return index;
        w = tn_mul(ctx, share[0], share[1]);
        index = tn_reshape(ctx, tn_gather(ctx, x, 0, tn_flat(ctx, index)),
                           tn_shape(ctx, index)->d, 6);
        sum = sum ? tn_madd(ctx, index, w, sum) : tn_mul(ctx, index, w);
    }
    sum = tn_where(ctx, is_in, sum, tn_num(ctx, x, 0));
    sum =
        tn_squeeze(ctx, tn_sum(ctx, sum, 1u << 3 | 1u << 5), 1u << 3 | 1u << 5);
    if (!r[0].count)
        return tn_mul_c(ctx, sum,
                        1 / ((double)r[0].n_points * (double)r[1].n_points));
    count = tn_max(ctx, tn_mul(ctx, r[0].count, r[1].count), one);
    return tn_fdiv(ctx, sum, tn_unsqueeze(ctx, count, 3));
}

/* The boxes' node, which has no gradient, in the dtype that x is computed
 * in. */
static const struct uop *
take_boxes(const struct bell_tensor *x, const struct bell_tensor *boxes)
{
    struct bell_context *ctx = tensor_at(x)->ctx;
    enum uop_dtype dtype = tensor_at(x)->dtype == UOP_F64 ? UOP_F64 : UOP_F32;

    return tn_wrap(ctx, UOP_DETACH, tn_cast(ctx, tensor_node(boxes), dtype));
}

struct bell_tensor *
bell_roi_align(struct bell_tensor *x, struct bell_tensor *boxes,
               const int64_t sizes[2], double spatial_scale, int64_t n_samples,
               bool aligned)
{
    struct region_axis r[2] = {{0}, {0}};
    const struct uop *u, *b, *image;
    const struct uop_dims *xd, *bd;
    struct bell_context *ctx;
    struct bell_tensor *out;
    int64_t i;

    if (!tensor_takes2(__func__, x, boxes, &out) ||
        !tensor_plain_axes(__func__, x, ~1u, "places in it are numbers",
                           &out) ||
        (n_samples == 0 &&
         !tensor_plain_axes(__func__, boxes, ~0u,
                            "how many points there are depends on values; "
                            "give their number",
                            &out)))
        return out;
    ctx = tensor_at(x)->ctx;
    xd = tensor_at(x)->shape;
    bd = tensor_at(boxes)->shape;
    if (!uop_dtype_infos[tensor_at(x)->dtype].is_float ||
        !uop_dtype_infos[tensor_at(boxes)->dtype].is_float)
        return tensor_fail(ctx, __func__, BELL_BAD_DTYPE,
                           "x of %s, boxes of %s: a float dtype is needed",
                           DTYPE_OF(x), DTYPE_OF(boxes));
    if (xd->n != 4 || xd->d[2] < 1 || xd->d[3] < 1 || bd->n != 2 ||
        bd->d[1] != 5)
        return tensor_fail(ctx, __func__, BELL_BAD_SHAPE,
                           "x of shape %s, boxes of shape %s, not [n, c, h, w] "
                           "and [k, 5]",
                           SHAPE_OF(x), SHAPE_OF(boxes));
    if (!sizes || sizes[0] < 1 || sizes[1] < 1 || sizes[0] > 1 << 20 ||
        sizes[1] > 1 << 20 || n_samples < 0 || n_samples > MAX_POINTS ||
        !isfinite(spatial_scale))
        return tensor_fail(
            ctx, __func__, BELL_BAD_VALUE,
            "%lld x %lld parts of %lld points, scale %g: expected 1 to 2^20 "
            "parts, 0 to %d points, and a finite scale",
            (long long)(sizes ? sizes[0] : 0),
            (long long)(sizes ? sizes[1] : 0), (long long)n_samples,
            spatial_scale, MAX_POINTS);
    if (n_samples == 0 && ctx->trace)
        return tensor_fail(ctx, __func__, BELL_BAD_STATE,
                           "in a function that is captured: how many points "
                           "there are depends on values");
    for (i = 0; i < 2; i++) { /* before the shapes move */
        r[i].size = xd->d[2 + i];
        r[i].n_parts = sizes[i];
        r[i].n_points = n_samples;
    }
    for (i = 0; i < 2 && n_samples == 0; i++) {
        measure_axis(ctx, take_boxes(x, boxes), 2 - i, spatial_scale, aligned,
                     &r[i]);
        if (!read_most(__func__, ctx, count_points(ctx, &r[i]), &r[i].n_points))
            return ctx->error_tensor;
    }
    xd = tensor_at(x)->shape;
    bd = tensor_at(boxes)->shape;
    u = tn_widen(ctx, tensor_node(x));
    b = take_boxes(x, boxes);
    if (tn_bad(u) || tn_bad(b))
        return tensor_new(ctx, __func__, &uop_failed);
    for (i = 0; i < 2; i++) {
        measure_axis(ctx, b, 2 - i, spatial_scale, aligned, &r[i]);
        if (n_samples == 0)
            r[i].count = count_points(ctx, &r[i]);
        place_axis(ctx, &r[i]);
    }
    image = tn_cast(ctx, tn_shrink_axis(ctx, b, 1, 0, 1), UOP_I64);
    if (tn_bad(image))
        return tensor_new(ctx, __func__, image);
    image = tn_reshape(ctx, image, (int64_t[]){bd->d[0], 1, 1, 1, 1, 1}, 6);
    u = tn_flat(ctx, u);
    u = average_regions(ctx, u, image, xd->d[1], r);
    return tensor_new(ctx, __func__,
                      tn_bad(u) ? u : tn_cast(ctx, u, tensor_node(x)->dtype));
}

/* ---- non-maximum suppression ---- */

struct boxes {
    double *at; /* x1, y1, x2, y2 of each */
    double *score;
    bool is_f64; /* else arithmetic is that of float32 */
};

static double
round_to(const struct boxes *b, double v)
{
    return b->is_f64 ? v : (double)(float)v;
}

static double
find_area(const struct boxes *b, double w, double h)
{
    return round_to(b, round_to(b, w) * round_to(b, h));
}

/* Intersection over union. */
static double
find_overlap(const struct boxes *b, int64_t i, int64_t j)
{
    const double *p = b->at + 4 * i, *q = b->at + 4 * j;
    double w = fmin(p[2], q[2]) - fmax(p[0], q[0]);
    double h = fmin(p[3], q[3]) - fmax(p[1], q[1]);
    double both = find_area(b, fmax(w, 0), fmax(h, 0));
    double all = round_to(b, find_area(b, p[2] - p[0], p[3] - p[1]) +
                                 find_area(b, q[2] - q[0], q[3] - q[1]));

    return round_to(b, both / round_to(b, all - both));
}

/* Keeps box by box what none that is kept overlaps; order has n numbers, the
 * kept ones become the first. */
static int64_t
suppress(const struct boxes *b, int64_t *order, int64_t n, double threshold)
{
    int64_t kept = 0, i, k;

    for (i = 0; i < n; i++) {
        for (k = 0; k < kept; k++) {
            if (find_overlap(b, order[k], order[i]) > threshold)
                break;
        }
        if (k == kept)
            order[kept++] = order[i];
    }
    return kept;
}

struct bell_tensor *
bell_nms(struct bell_tensor *boxes, struct bell_tensor *scores,
         double iou_threshold)
{
    struct bell_tensor *order, *out;
    struct bell_context *ctx;
    struct boxes b = {0};
    int64_t *list = NULL, n;
    bell_status status;

    if (!tensor_check2(__func__, boxes, scores, &out))
        return out;
    ctx = tensor_at(boxes)->ctx;
    n = tensor_at(boxes)->shape->n ? tensor_at(boxes)->shape->d[0] : 0;
    if (tensor_at(boxes)->shape->n != 2 || tensor_at(boxes)->shape->d[1] != 4 ||
        tensor_at(scores)->shape->n != 1 || tensor_at(scores)->shape->d[0] != n)
        return tensor_fail(ctx, __func__, BELL_BAD_SHAPE,
                           "boxes of shape %s, scores of shape %s, not [k, 4] "
                           "and [k]",
                           SHAPE_OF(boxes), SHAPE_OF(scores));
    if (!uop_dtype_infos[tensor_at(boxes)->dtype].is_float ||
        !uop_dtype_infos[tensor_at(scores)->dtype].is_float)
        return tensor_fail(ctx, __func__, BELL_BAD_DTYPE,
                           "boxes of %s, scores of %s: a float dtype is needed",
                           DTYPE_OF(boxes), DTYPE_OF(scores));
    if (isnan(iou_threshold))
        return tensor_fail(ctx, __func__, BELL_BAD_VALUE,
                           "the threshold must not be NaN");
    if (ctx->trace)
        return tensor_fail(ctx, __func__, BELL_BAD_STATE,
                           "in a function that is captured: the result's size "
                           "depends on values");
    b.is_f64 = tensor_at(boxes)->dtype == UOP_F64;
    b.at = host_alloc(((size_t)n + 1) * 4 * sizeof(*b.at));
    list = host_alloc(((size_t)n + 1) * sizeof(*list));
    out = ctx->error_tensor;
    if (!b.at || !list) {
        tensor_fail(ctx, __func__, BELL_E_NO_MEMORY,
                    "out of memory for %lld boxes", (long long)n);
        goto done;
    }
    order = bell_argsort(scores, 0, true);
    status = bell_read_i64(order, list, (size_t)n);
    if (status == BELL_OK)
        status = bell_read_f64(boxes, b.at, 4 * (size_t)n);
    bell_tensor_release(order);
    if (status != BELL_OK) {
        tensor_fail_last(ctx, __func__);
        goto done;
    }
    n = suppress(&b, list, n, iou_threshold);
    out = bell_from_data(ctx, &n, 1, BELL_INT64, list);
done:
    host_free(b.at);
    host_free(list);
    return out;
}
