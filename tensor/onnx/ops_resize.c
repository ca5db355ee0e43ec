/* Resize: each axis by itself, as sums of elements at places that the host
 * knows. src: onnx 1.23, Operators, "Resize". */
#include "tensor/onnx/ops.h"

#include <math.h>
#include <string.h>

#define MAX_TAPS 1024

struct resize_how {
    const char *mode, *nearest, *coordinates;
    double cubic, extrapolation;
    bool exclude_outside, antialias;
};

/* An axis: result i is the sum over taps k of weight[i][k] x[place[i][k]]. */
struct axis_plan {
    int64_t in, out;
    double scale, begin, end; /* begin, end: of the crop */
    int64_t n_taps;
    int64_t *places; /* by tap, then by result */
    double *weights;
    double *outside; /* 1 where a result lies outside of the crop's image */
    bool any_outside;
};

/* Whether a word is in a list that ends with NULL. */
static bool
is_among(const char *word, const char *const *list)
{
    for (; *list; list++) {
        if (strcmp(word, *list) == 0)
            return true;
    }
    return false;
}

static bell_status
check_words(struct onnx_op *op, const struct resize_how *r)
{
    static const char *const modes[] = {"nearest", "linear", "cubic", NULL};
    static const char *const nearests[] = {
        "floor", "ceil", "round_prefer_floor", "round_prefer_ceil", NULL};
    static const char *const coordinates[] = {
        "half_pixel",         "half_pixel_symmetric",
        "pytorch_half_pixel", "align_corners",
        "asymmetric",         "tf_half_pixel_for_nn",
        "tf_crop_and_resize", NULL};
    static const char *const policies[] = {"stretch", "not_larger",
                                           "not_smaller", NULL};
    const char *policy = op_str(op, "keep_aspect_ratio_policy", "stretch");

    if (!is_among(r->mode, modes))
        return op_unsupported("mode '%.40s' is not known", r->mode);
    if (!is_among(r->nearest, nearests))
        return op_unsupported("nearest_mode '%.40s' is not known", r->nearest);
    if (!is_among(r->coordinates, coordinates))
        return op_unsupported(
            "coordinate_transformation_mode '%.40s' is not known",
            r->coordinates);
    return is_among(policy, policies)
               ? BELL_OK
               : op_unsupported("keep_aspect_ratio_policy '%.40s' is not known",
                                policy);
}

static double
find_source(const struct resize_how *r, const struct axis_plan *a, int64_t i)
{
    double x = (double)i, in = (double)a->in, out = in * a->scale;
    const char *how = r->coordinates;

    if (strcmp(how, "align_corners") == 0)
        return out == 1 ? 0 : x * (in - 1) / (out - 1);
    if (strcmp(how, "asymmetric") == 0)
        return x / a->scale;
    if (strcmp(how, "tf_crop_and_resize") == 0)
        return a->out == 1
                   ? (a->end + a->begin) * (in - 1) / 2
                   : a->begin * (in - 1) + x * (a->end - a->begin) * (in - 1) /
                                               ((double)a->out - 1);
    if (strcmp(how, "tf_half_pixel_for_nn") == 0)
        return (x + 0.5) / a->scale;
    if (strcmp(how, "pytorch_half_pixel") == 0 && a->out == 1)
        return -0.5;
    if (strcmp(how, "half_pixel_symmetric") == 0) {
        double ratio = (double)a->out / out;

        return in / 2 * (1 - ratio) + (x + 0.5) / a->scale - 0.5;
    }
    return (x + 0.5) / a->scale - 0.5;
}

static double
cubic_weight(double d, double a)
{
    d = fabs(d);
    if (d <= 1)
        return ((a + 2) * d - (a + 3)) * d * d + 1;
    return d < 2 ? ((a * d - 5 * a) * d + 8 * a) * d - 4 * a : 0;
}

static double
nearest_place(const char *how, double x)
{
    if (strcmp(how, "floor") == 0)
        return floor(x);
    if (strcmp(how, "ceil") == 0)
        return ceil(x);
    return strcmp(how, "round_prefer_ceil") == 0 ? floor(x + 0.5)
                                                 : ceil(x - 0.5);
}

/* Offsets of the first tap, and how many. */
static void
count_taps(const struct resize_how *r, const struct axis_plan *a,
           int64_t *first, int64_t *n)
{
    double scale = r->antialias && a->scale < 1 ? a->scale : 1;
    int64_t reach = *r->mode == 'l' ? 1 : 2;

    *first = (int64_t)floor((double)-reach / scale) + 1;
    *n = 2 * reach - 2 * (*first + reach - 1);
    if (scale == 1)
        *n = 2 * reach;
}

static void
fill_result(const struct resize_how *r, struct axis_plan *a, int64_t i,
            int64_t first)
{
    double x = find_source(r, a, i), base = floor(x), sum = 0, w;
    double scale = r->antialias && a->scale < 1 ? a->scale : 1;
    int64_t k;

    if (strcmp(r->coordinates, "tf_crop_and_resize") == 0 &&
        (x < 0 || x > (double)a->in - 1)) {
        a->outside[i] = 1;
        a->any_outside = true;
    }
    for (k = 0; k < a->n_taps; k++) {
        double at = *r->mode == 'n' ? nearest_place(r->nearest, x)
                                    : base + (double)(first + k);
        double d = ((double)(first + k) - (x - base)) * scale;
        bool inside = at >= 0 && at <= (double)a->in - 1;

        if (*r->mode == 'n')
            w = 1;
        else if (*r->mode == 'l')
            w = fabs(d) < 1 ? 1 - fabs(d) : 0;
        else
            w = cubic_weight(d, r->cubic);
        if (r->exclude_outside && !inside)
            w = 0;
        sum += w;
        at = at < 0 ? 0 : at > (double)a->in - 1 ? (double)a->in - 1 : at;
        a->places[k * a->out + i] = (int64_t)at;
        a->weights[k * a->out + i] = w;
    }
    if (!(r->antialias || r->exclude_outside) || sum == 0)
        return;
    for (k = 0; k < a->n_taps; k++)
        a->weights[k * a->out + i] /= sum;
}

static bell_status
plan_axis(struct onnx_op *op, const struct resize_how *r, struct axis_plan *a)
{
    int64_t first = 0, i;

    a->n_taps = 1;
    if (*r->mode != 'n')
        count_taps(r, a, &first, &a->n_taps);
    if (a->n_taps > MAX_TAPS || a->out > ((int64_t)1 << 22) / a->n_taps ||
        a->in < 1)
        return op_unsupported("an axis of %lld from %lld", (long long)a->out,
                              (long long)a->in);
    a->places = op_take(op, (uint64_t)(a->out * a->n_taps), sizeof(int64_t));
    a->weights = op_take(op, (uint64_t)(a->out * a->n_taps), sizeof(double));
    a->outside = op_take(op, (uint64_t)a->out, sizeof(double));
    if (!a->places || !a->weights || !a->outside)
        return onnx_no_memory();
    for (i = 0; i < a->out; i++)
        fill_result(r, a, i, first);
    return BELL_OK;
}

static struct bell_tensor *
along(struct onnx_op *op, const double *v, int64_t n, uint32_t axis,
      uint32_t ndim, enum bell_dtype dtype)
{
    int64_t shape[BELL_MAX_RANK];
    struct bell_tensor *t = bell_from_data(op->ctx, &n, 1, BELL_FLOAT64, v);
    uint32_t i;

    for (i = 0; i < ndim; i++)
        shape[i] = i == axis ? n : 1;
    return bell_cast(bell_reshape(t, shape, ndim), dtype);
}

/* x with its axis at n places: whole repeats and even steps are views, which
 * cost no loads of an index. */
static struct bell_tensor *
at_places(struct onnx_op *op, struct bell_tensor *x, uint32_t axis,
          const int64_t *places, int64_t n)
{
    int64_t in = bell_shape(x)[axis], count = in > 0 ? n / in : 0, i;
    int64_t step = n > 1 ? places[1] - places[0] : 1;
    struct bell_index_item items[BELL_MAX_RANK];
    bool repeats = in > 0 && count > 0 && n == count * in, steps = step > 0;

    for (i = 0; i < n; i++) {
        repeats = repeats && places[i] == i / count;
        steps = steps && places[i] == places[0] + i * step;
    }
    if (repeats)
        return bell_repeat_interleave(x, count, (int)axis);
    if (!steps || n == 0)
        return bell_index_select(
            x, (int)axis, bell_from_data(op->ctx, &n, 1, BELL_INT64, places));
    for (i = 0; i < axis; i++)
        items[i] = bell_whole();
    items[axis] = bell_slice(places[0], places[n - 1] + 1, step);
    return bell_index(x, items, axis + 1);
}

static struct bell_tensor *
resample_axis(struct onnx_op *op, const struct resize_how *r,
              struct bell_tensor *x, uint32_t axis, const struct axis_plan *a)
{
    struct bell_tensor *sum = NULL, *part;
    enum bell_dtype dtype = bell_dtype_of(x);
    uint32_t ndim = bell_ndim(x);
    int64_t k;

    for (k = 0; k < a->n_taps; k++) {
        part = at_places(op, x, axis, a->places + k * a->out, a->out);
        if (*r->mode != 'n')
            part = bell_mul(part, along(op, a->weights + k * a->out, a->out,
                                        axis, ndim, dtype));
        sum = sum ? bell_add(sum, part) : part;
    }
    if (a->any_outside)
        sum = bell_where(
            bell_cast(along(op, a->outside, a->out, axis, ndim, BELL_FLOAT32),
                      BELL_BOOL),
            bell_full(op->ctx, BELL_NO_DIMS, r->extrapolation, dtype), sum);
    return sum;
}

/* Sizes and scales of every axis, from either. */
static bell_status
read_sizes(struct onnx_op *op, struct bell_tensor *x, struct axis_plan *plans)
{
    const char *policy = op_str(op, "keep_aspect_ratio_policy", "stretch");
    bool old = strcmp(op->node->op, "Upsample") == 0 || op->opset < 11;
    struct onnx_ints axes = op_ints(op, "axes"), sizes = {0};
    const struct onnx_attr *attr = op_attr(op, "scales");
    const double *scales = NULL;
    uint32_t ndim = bell_ndim(x), n, n_scales = 0, i;
    double extreme = 0;

    if (old && attr) {
        double *copy = op_take(op, attr->n, sizeof(*copy));

        for (i = 0; copy && i < attr->n; i++)
            copy[i] = (double)attr->floats[i];
        scales = copy;
        n_scales = copy ? attr->n : 0;
    } else {
        BELL_TRY(op_in_floats(op, old ? 1 : 2, &scales, &n_scales));
    }
    if (!old)
        BELL_TRY(op_in_ints(op, 3, &sizes));
    n = sizes.n ? sizes.n : n_scales;
    if (n != (axes.given ? axes.n : ndim))
        return bell_fail(BELL_BAD_SHAPE, "%u sizes; expected %u", n,
                         axes.given ? axes.n : ndim);
    for (i = 0; i < n; i++) {
        int64_t axis = axes.given ? op_axis(axes.v[i], ndim) : i;
        struct axis_plan *a;

        if (axis < 0 || axis >= ndim)
            return bell_fail(BELL_BAD_AXIS, "its axis is not one of %u", ndim);
        a = &plans[axis];
        if (op_is_size(a->in) || (sizes.n && op_is_size(sizes.v[i]))) {
            /* the number of images, say: it stays, for all values */
            if (sizes.n ? sizes.v[i] != a->in : scales[i] < 1 || scales[i] > 1)
                return op_unsupported("an axis of a symbol's size is resized");
            continue;
        }
        if (sizes.n) {
            a->out = sizes.v[i];
            a->scale = (double)a->out / (double)a->in;
            if (i == 0 ||
                (strcmp(policy, "not_larger") == 0 ? a->scale < extreme
                                                   : a->scale > extreme))
                extreme = a->scale;
        } else {
            a->scale = scales[i];
            a->out = a->scale >= 0 && a->scale < 1e6
                         ? (int64_t)floor((double)a->in * a->scale)
                         : -1;
        }
        if (a->out < 0)
            return bell_fail(BELL_BAD_VALUE, "a size of %lld is not possible",
                             (long long)a->out);
    }
    if (!sizes.n || strcmp(policy, "stretch") == 0)
        return BELL_OK;
    for (i = 0; i < n; i++) {
        struct axis_plan *a = &plans[axes.given ? op_axis(axes.v[i], ndim) : i];

        if (op_is_size(a->in))
            return op_unsupported("keep_aspect_ratio_policy with sizes that "
                                  "are symbols");
        a->out = (int64_t)floor(extreme * (double)a->in + 0.5);
        a->scale = extreme;
    }
    return BELL_OK;
}

static bell_status
read_crop(struct onnx_op *op, uint32_t ndim, struct axis_plan *plans)
{
    struct onnx_ints axes = op_ints(op, "axes");
    const double *roi;
    uint32_t n, i, half;

    BELL_TRY(op_in_floats(op, 1, &roi, &n));
    half = axes.given ? axes.n : ndim;
    if (n != 2 * half)
        return bell_fail(BELL_BAD_SHAPE, "roi has %u numbers for %u axes", n,
                         half);
    for (i = 0; i < half; i++) {
        int64_t axis = axes.given ? op_axis(axes.v[i], ndim) : i;

        plans[axis].begin = roi[i];
        plans[axis].end = roi[half + i];
    }
    return BELL_OK;
}

bell_status
onnx_op_resize(struct onnx_op *op)
{
    bool old = strcmp(op->node->op, "Upsample") == 0 || op->opset < 11;
    struct bell_tensor *x = op_in(op, 0);
    struct axis_plan plans[BELL_MAX_RANK];
    enum bell_dtype dtype = bell_dtype_of(x);
    uint32_t ndim = bell_ndim(x), i;
    struct resize_how r = {
        .mode = op_str(op, "mode", "nearest"),
        .nearest =
            op_str(op, "nearest_mode", old ? "floor" : "round_prefer_floor"),
        .coordinates = op_str(op, "coordinate_transformation_mode",
                              old ? "asymmetric" : "half_pixel"),
        .cubic = op_float(op, "cubic_coeff_a", -0.75),
        .extrapolation = op_float(op, "extrapolation_value", 0),
        .exclude_outside = op_int(op, "exclude_outside", 0),
        .antialias = op_int(op, "antialias", 0),
    };

    if (strcmp(r.mode, "bilinear") == 0)
        r.mode = "linear";
    BELL_TRY(check_words(op, &r));
    memset(plans, 0, sizeof(plans));
    for (i = 0; i < ndim; i++) {
        plans[i].in = plans[i].out = op_dim(x, (int)i);
        plans[i].scale = 1;
        plans[i].end = 1;
    }
    BELL_TRY(read_sizes(op, x, plans));
    if (strcmp(r.coordinates, "tf_crop_and_resize") == 0)
        BELL_TRY(read_crop(op, ndim, plans));
    if (*r.mode != 'n' && dtype < BELL_FLOAT16)
        x = bell_cast(x, BELL_FLOAT32);
    for (i = 0; i < ndim; i++) {
        const struct axis_plan *a = &plans[i];

        if (a->in == a->out && a->scale == 1 && a->begin == 0 && a->end == 1)
            continue;
        BELL_TRY(plan_axis(op, &r, &plans[i]));
        x = resample_axis(op, &r, x, i, &plans[i]);
    }
    /* Stored: a convolution that read repeats through a concatenation would
     * compute for each tap where its elements are. */
    if (*r.mode == 'n')
        x = bell_contiguous(x);
    op_out(op, 0, op_to(bell_alias(x), dtype));
    return BELL_OK;
}
