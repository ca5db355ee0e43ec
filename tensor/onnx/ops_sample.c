/* Operators that read an image between its elements. src: onnx 1.23,
 * Operators. */
#include "tensor/onnx/ops.h"

#include <string.h>

#include "doorbell/vision.h"

#define MAX_AXES 3
#define MAX_SIZE (1 << 24) /* of an axis, and of what lists say */

/* x[b, c, places] at index[b, n], the same of each channel, times
 * weight[b, n]. */
static struct bell_tensor *
read_weighted(struct bell_tensor *x, struct bell_tensor *index,
              struct bell_tensor *weight)
{
    int64_t b = bell_size(x, 0), c = bell_size(x, 1), n = bell_size(index, 1);

    index = bell_expand(bell_unsqueeze(index, 1), BELL_DIMS(b, c, n));
    return bell_mul(bell_gather(x, 2, index), bell_unsqueeze(weight, 1));
}

static struct bell_tensor *
int_scalar(struct onnx_op *op, int64_t v)
{
    return bell_full_int(op->ctx, BELL_NO_DIMS, v, BELL_INT64);
}

/* ---- DeformConv ---- */

struct deform {
    uint32_t n; /* axes of the image */
    int64_t kernel[MAX_AXES], stride[MAX_AXES], dilation[MAX_AXES];
    int64_t begin[MAX_AXES], size[MAX_AXES], out[MAX_AXES];
    int64_t batch, channels, made, group, offset_group;
    int64_t n_kernel, n_size, n_out; /* products */
};

static bell_status
read_deform_list(struct onnx_op *op, const char *name, uint32_t n, int64_t *out)
{
    struct onnx_ints list = op_ints(op, name);
    uint32_t i;

    if (list.given && list.n != n)
        return bell_fail(BELL_BAD_SHAPE, "%s has %u numbers; expected %u", name,
                         list.n, n);
    for (i = 0; list.given && i < n; i++) {
        out[i] = list.v[i];
        if (out[i] < 0 || out[i] > MAX_SIZE)
            return bell_fail(BELL_BAD_VALUE, "%s has %lld; expected 0 to %d",
                             name, (long long)out[i], MAX_SIZE);
    }
    return BELL_OK;
}

static bell_status
measure_deform(struct onnx_op *op, struct bell_tensor *x, struct bell_tensor *w,
               struct bell_tensor *offset, struct deform *d)
{
    int64_t pads[2 * MAX_AXES] = {0};
    uint32_t i;

    if (bell_ndim(x) < 3 || bell_ndim(x) > 2 + MAX_AXES ||
        bell_ndim(w) != bell_ndim(x) || bell_ndim(offset) != bell_ndim(x))
        return bell_fail(BELL_BAD_SHAPE,
                         "X has %u axes, W %u, offset %u; expected 3 to 5, of "
                         "all the same",
                         bell_ndim(x), bell_ndim(w), bell_ndim(offset));
    d->n = bell_ndim(x) - 2;
    for (i = 0; i < d->n; i++) {
        d->stride[i] = d->dilation[i] = 1;
        d->kernel[i] = bell_shape(w)[2 + i];
    }
    BELL_TRY(read_deform_list(op, "kernel_shape", d->n, d->kernel));
    BELL_TRY(read_deform_list(op, "strides", d->n, d->stride));
    BELL_TRY(read_deform_list(op, "dilations", d->n, d->dilation));
    BELL_TRY(read_deform_list(op, "pads", 2 * d->n, pads));
    d->batch = bell_size(x, 0);
    d->channels = bell_size(x, 1);
    d->made = bell_size(w, 0);
    d->group = op_int(op, "group", 1);
    d->offset_group = op_int(op, "offset_group", 1);
    if (d->channels < 1 || d->group < 1 || d->offset_group < 1 ||
        d->made % d->group || d->channels % d->offset_group ||
        d->channels % d->group || bell_size(w, 1) != d->channels / d->group)
        return bell_fail(BELL_BAD_SHAPE,
                         "%lld channels to %lld in %lld groups, offsets in "
                         "%lld: expected divisors, and W of their channels",
                         (long long)d->channels, (long long)d->made,
                         (long long)d->group, (long long)d->offset_group);
    d->n_kernel = d->n_size = d->n_out = 1;
    for (i = 0; i < d->n; i++) {
        int64_t reach, full;

        d->size[i] = bell_shape(x)[2 + i];
        if (d->kernel[i] > MAX_SIZE || d->size[i] > MAX_SIZE)
            return op_unsupported("a kernel of %lld in an image of %lld; "
                                  "expected at most %d",
                                  (long long)d->kernel[i],
                                  (long long)d->size[i], MAX_SIZE);
        reach = (d->kernel[i] - 1) * d->dilation[i] + 1;
        full = d->size[i] + pads[i] + pads[d->n + i];
        d->begin[i] = pads[i];
        if (d->kernel[i] != bell_shape(w)[2 + i] || d->kernel[i] < 1 ||
            d->stride[i] < 1 || d->size[i] < 1 || full < reach)
            return bell_fail(BELL_BAD_SHAPE,
                             "a kernel of %lld in an image of %lld: expected "
                             "W's, of strides from 1, that fits",
                             (long long)d->kernel[i], (long long)full);
        d->out[i] = (full - reach) / d->stride[i] + 1;
        if (bell_shape(offset)[2 + i] != d->out[i])
            return bell_fail(BELL_BAD_SHAPE,
                             "offset has %lld places on axis %u; expected %lld",
                             (long long)bell_shape(offset)[2 + i], 2 + i,
                             (long long)d->out[i]);
        d->n_kernel *= d->kernel[i];
        d->n_size *= d->size[i];
        d->n_out *= d->out[i];
        /* one by one, so that no product of all can wrap */
        BELL_TRY(op_check_shape(&d->n_kernel, 1));
        BELL_TRY(op_check_shape(&d->n_size, 1));
        BELL_TRY(op_check_shape(&d->n_out, 1));
    }
    BELL_TRY(op_check_shape(BELL_DIMS(d->offset_group, d->n_kernel)));
    if (bell_size(offset, 0) != d->batch ||
        bell_size(offset, 1) != d->offset_group * d->n_kernel * (int64_t)d->n)
        return bell_fail(BELL_BAD_SHAPE,
                         "offset has %lld numbers at a place; expected %lld",
                         (long long)bell_size(offset, 1),
                         (long long)(d->offset_group * d->n_kernel * d->n));
    return op_check_shape(
        BELL_DIMS(d->batch, d->channels, d->n_kernel, d->n_out));
}

/* Places along an axis of the image, [batch and offset group, kernel places
 * and output's]: those without offsets, and the offsets. */
static struct bell_tensor *
place_deformed(struct onnx_op *op, const struct deform *d,
               struct bell_tensor *offset, uint32_t axis)
{
    struct bell_tensor *k, *o, *at;
    int64_t shape[2 * MAX_AXES];
    uint32_t i;

    for (i = 0; i < 2 * d->n; i++)
        shape[i] = 1;
    shape[axis] = d->kernel[axis];
    k = bell_reshape(
        bell_mul(bell_arange_int(op->ctx, 0, d->kernel[axis], 1, BELL_INT64),
                 int_scalar(op, d->dilation[axis])),
        shape, 2 * d->n);
    shape[axis] = 1;
    shape[d->n + axis] = d->out[axis];
    o = bell_reshape(
        bell_mul(bell_arange_int(op->ctx, 0, d->out[axis], 1, BELL_INT64),
                 int_scalar(op, d->stride[axis])),
        shape, 2 * d->n);
    at = bell_sub(bell_add(k, o), int_scalar(op, d->begin[axis]));
    memcpy(shape, d->kernel, d->n * sizeof(*shape));
    memcpy(shape + d->n, d->out, d->n * sizeof(*shape));
    at = bell_reshape(bell_expand(at, shape, 2 * d->n),
                      BELL_DIMS(1, d->n_kernel * d->n_out));
    offset = bell_reshape(offset, BELL_DIMS(d->batch * d->offset_group,
                                            d->n_kernel, d->n, d->n_out));
    offset = bell_reshape(
        bell_select(offset, 2, axis),
        BELL_DIMS(d->batch * d->offset_group, d->n_kernel * d->n_out));
    return bell_add(bell_cast(at, bell_dtype_of(offset)), offset);
}

/* The image's elements under each place of the kernel, [batch and offset
 * group, channels, kernel places and output's]. Corners outside are 0. */
static struct bell_tensor *
sample_deformed(struct onnx_op *op, const struct deform *d,
                struct bell_tensor *x, struct bell_tensor *offset)
{
    struct bell_tensor *at[MAX_AXES], *low[MAX_AXES], *part[MAX_AXES], *sum;
    uint32_t corner, i;

    x = bell_reshape(x, BELL_DIMS(d->batch * d->offset_group,
                                  d->channels / d->offset_group, d->n_size));
    for (i = 0; i < d->n; i++) {
        at[i] = place_deformed(op, d, offset, i);
        low[i] = bell_floor(at[i]);
        part[i] = bell_sub(at[i], low[i]);
        low[i] = bell_cast(low[i], BELL_INT64);
    }
    sum = NULL;
    for (corner = 0; corner < 1u << d->n; corner++) {
        struct bell_tensor *index = NULL, *weight = NULL, *inside = NULL, *v;

        for (i = 0; i < d->n; i++) {
            bool high = corner >> i & 1;
            struct bell_tensor *to =
                high ? bell_add(low[i], int_scalar(op, 1)) : low[i];
            struct bell_tensor *w =
                high ? part[i]
                     : bell_sub(bell_ones_like(part[i], BELL_DEFAULT), part[i]);
            struct bell_tensor *in =
                bell_logical_and(bell_ge(to, int_scalar(op, 0)),
                                 bell_lt(to, int_scalar(op, d->size[i])));

            index =
                index
                    ? bell_add(bell_mul(index, int_scalar(op, d->size[i])), to)
                    : to;
            weight = weight ? bell_mul(weight, w) : w;
            inside = inside ? bell_logical_and(inside, in) : in;
        }
        index = bell_where(inside, index, int_scalar(op, 0));
        weight =
            bell_where(inside, weight, bell_zeros_like(weight, BELL_DEFAULT));
        v = read_weighted(x, index, weight);
        sum = sum ? bell_add(sum, v) : v;
    }
    return sum;
}

bell_status
onnx_op_deform_conv(struct onnx_op *op)
{
    struct bell_tensor *x = op_in(op, 0), *w = op_in(op, 1);
    struct bell_tensor *offset = op_in(op, 2), *bias = op_in_or_null(op, 3);
    struct bell_tensor *mask = op_in_or_null(op, 4), *v, *y;
    struct deform d = {0};
    int64_t shape[2 + MAX_AXES];
    uint32_t i;

    if (bell_is_error(x) || bell_is_error(w) || bell_is_error(offset))
        return BELL_OK; /* the caller looks at outputs */
    BELL_TRY(measure_deform(op, x, w, offset, &d));
    v = sample_deformed(op, &d, x, offset);
    if (mask)
        v = bell_mul(v, bell_reshape(mask, BELL_DIMS(d.batch * d.offset_group,
                                                     1, d.n_kernel * d.n_out)));
    v = bell_reshape(v, BELL_DIMS(d.batch, d.group,
                                  d.channels / d.group * d.n_kernel, d.n_out));
    w = bell_reshape(w, BELL_DIMS(1, d.group, d.made / d.group,
                                  d.channels / d.group * d.n_kernel));
    shape[0] = d.batch;
    shape[1] = d.made;
    for (i = 0; i < d.n; i++)
        shape[2 + i] = d.out[i];
    y = bell_reshape(bell_matmul(w, v), BELL_DIMS(d.batch, d.made, d.n_out));
    if (bias)
        y = bell_add(y, bell_reshape(bias, BELL_DIMS(1, d.made, 1)));
    op_out(op, 0, bell_reshape(y, shape, d.n + 2));
    return BELL_OK;
}

/* ---- RoiAlign ---- */

/* Places of a box's points along an axis, and what is around them. */
struct roi_axis {
    struct bell_tensor *low, *high, *part, *inside; /* [boxes, points] */
    int64_t n;                                      /* points */
};

/* Column `column` of the boxes has their begin, column + 2 their end. */
static struct roi_axis
place_roi(struct onnx_op *op, struct bell_tensor *rois, int64_t column,
          int64_t size, int64_t parts, int64_t samples, bool aligned)
{
    double scale = op_float(op, "spatial_scale", 1);
    struct bell_tensor *from, *to, *length, *at, *last, *zero;
    struct roi_axis r = {.n = parts * samples};

    from = bell_mul_scalar(bell_narrow(rois, 1, column, 1), scale);
    to = bell_mul_scalar(bell_narrow(rois, 1, column + 2, 1), scale);
    length = bell_sub(to, from);
    if (aligned)
        from = bell_add_scalar(from, -0.5);
    else
        length = bell_maximum(length, bell_ones_like(length, BELL_DEFAULT));
    at = bell_cast(bell_arange_int(op->ctx, 0, r.n, 1, BELL_INT64),
                   bell_dtype_of(rois));
    at = bell_unsqueeze(bell_add_scalar(at, 0.5), 0);
    at = bell_add(from, bell_mul(at, bell_div_scalar(length, (double)r.n)));
    zero = bell_zeros_like(at, BELL_DEFAULT);
    last = bell_add_scalar(zero, (double)(size - 1));
    r.inside =
        bell_logical_and(bell_ge(at, bell_add_scalar(zero, -1)),
                         bell_le(at, bell_add_scalar(zero, (double)size)));
    at = bell_minimum(bell_maximum(at, zero), last);
    r.low = bell_floor(at);
    r.part = bell_sub(at, r.low);
    r.high =
        bell_cast(bell_minimum(bell_add_scalar(r.low, 1), last), BELL_INT64);
    r.low = bell_cast(r.low, BELL_INT64);
    return r;
}

/* The greatest of the points' weighted corners. */
static bell_status
roi_max(struct onnx_op *op, const int64_t sizes[2], bool aligned)
{
    struct bell_tensor *x = op_in(op, 0), *rois = op_in(op, 1), *most = NULL;
    struct bell_tensor *image;
    int64_t n = op_int(op, "sampling_ratio", 0), axes[2] = {3, 5}, k, c, h, w;
    struct roi_axis ya, xa;
    uint32_t corner;

    if (bell_is_error(x) || bell_ndim(x) != 4 || bell_is_error(rois) ||
        bell_ndim(rois) != 2 || bell_size(rois, 1) != 4)
        return bell_fail(BELL_BAD_SHAPE,
                         "X must have 4 axes, and boxes 4 numbers");
    k = bell_size(rois, 0);
    c = bell_size(x, 1);
    h = bell_size(x, 2);
    w = bell_size(x, 3);
    if (n < 1 || n > 1024 || sizes[0] < 1 || sizes[1] < 1 ||
        sizes[0] > 1 << 16 || sizes[1] > 1 << 16)
        return op_unsupported("mode 'max' of %lld points; expected 1 to 1024",
                              (long long)n);
    BELL_TRY(op_check_shape(BELL_DIMS(k, c, sizes[0] * n, sizes[1] * n)));
    BELL_TRY(op_check_shape(BELL_DIMS(k, c, h, w)));
    image = bell_reshape(x, BELL_DIMS(bell_size(x, 0), c, h * w));
    image = bell_index_select(image, 0, op_in(op, 2));
    ya = place_roi(op, rois, 1, h, sizes[0], n, aligned);
    xa = place_roi(op, rois, 0, w, sizes[1], n, aligned);
    for (corner = 0; corner < 4; corner++) {
        bool low_y = corner < 2, low_x = corner % 2 == 0;
        struct bell_tensor *index, *wy, *wx, *inside, *v;

        wy = low_y ? bell_sub(bell_ones_like(ya.part, BELL_DEFAULT), ya.part)
                   : ya.part;
        wx = low_x ? bell_sub(bell_ones_like(xa.part, BELL_DEFAULT), xa.part)
                   : xa.part;
        index = bell_add(
            bell_unsqueeze(
                bell_mul(low_y ? ya.low : ya.high, int_scalar(op, w)), 2),
            bell_unsqueeze(low_x ? xa.low : xa.high, 1));
        inside = bell_logical_and(bell_unsqueeze(ya.inside, 2),
                                  bell_unsqueeze(xa.inside, 1));
        wy = bell_mul(bell_unsqueeze(wy, 2), bell_unsqueeze(wx, 1));
        wy = bell_where(inside, wy, bell_zeros_like(wy, BELL_DEFAULT));
        v = read_weighted(image, bell_reshape(index, BELL_DIMS(k, -1)),
                          bell_reshape(wy, BELL_DIMS(k, -1)));
        most = most ? bell_maximum(most, v) : v;
    }
    most = bell_reshape(most, BELL_DIMS(k, c, sizes[0], n, sizes[1], n));
    op_out(op, 0, bell_max(most, axes, 2, false));
    return BELL_OK;
}

bell_status
onnx_op_roi_align(struct onnx_op *op)
{
    struct bell_tensor *x = op_in(op, 0), *rois = op_in(op, 1), *batch, *boxes;
    int64_t sizes[2] = {op_int(op, "output_height", 1),
                        op_int(op, "output_width", 1)};
    const char *mode = op_str(op, "mode", "avg");
    bool aligned =
        op->opset >= 16 &&
        strcmp(op_str(op, "coordinate_transformation_mode", "half_pixel"),
               "half_pixel") == 0;

    if (strcmp(mode, "max") == 0)
        return roi_max(op, sizes, aligned);
    if (strcmp(mode, "avg") != 0)
        return op_unsupported("mode '%.40s'; expected avg or max", mode);
    batch = bell_unsqueeze(bell_cast(op_in(op, 2), bell_dtype_of(rois)), 1);
    boxes = bell_cat(BELL_TENSORS(batch, rois), 1);
    op_out(op, 0,
           bell_roi_align(x, boxes, sizes, op_float(op, "spatial_scale", 1),
                          op_int(op, "sampling_ratio", 0), aligned));
    return BELL_OK;
}
