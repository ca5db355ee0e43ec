/* Operators of signals, sets and boxes. src: onnx 1.23, Operators. */
#include "tensor/onnx/ops.h"

#include <math.h>
#include <string.h>

#include "doorbell/fft.h"
#include "doorbell/vision.h"

bell_status
onnx_op_dft(struct onnx_op *op)
{
    struct bell_tensor *x = op_in(op, 0), *y;
    int64_t axis = op_int(op, "axis", 1), n, length;
    bool inverse = op_int(op, "inverse", 0), half = op_int(op, "onesided", 0);
    uint32_t ndim = bell_ndim(x);
    bool is_real;

    if (op->opset >= 20) {
        axis = -2;
        if (op_has(op, 2))
            BELL_TRY(op_in_int(op, 2, &axis));
    }
    axis = op_axis(axis, ndim);
    if (ndim < 2 || axis < 0 || axis >= (int64_t)ndim - 1)
        return bell_fail(BELL_BAD_AXIS, "its axis is not one of %u", ndim);
    length = bell_shape(x)[axis];
    if (inverse && half)
        length = 2 * (length - 1);
    if (op_has(op, 1))
        BELL_TRY(op_in_int(op, 1, &length));
    if (length < 1 || length > (int64_t)ONNX_MAX_ELEMS)
        return op_unsupported("a length of %lld", (long long)length);
    is_real = bell_shape(x)[ndim - 1] == 1;
    if (inverse && half) {
        y = bell_unsqueeze(bell_irfft(x, length, (int)axis, "backward"),
                           (int)ndim - 1);
    } else {
        if (is_real)
            x = bell_cat(BELL_TENSORS(x, bell_zeros_like(x, BELL_DEFAULT)),
                         (int)ndim - 1);
        y = inverse ? bell_ifft(x, length, (int)axis, "backward")
                    : bell_fft(x, length, (int)axis, "backward");
        n = length / 2 + 1;
        if (half)
            y = bell_narrow(y, (int)axis, 0, n);
    }
    op_out(op, 0, y);
    return BELL_OK;
}

bell_status
onnx_op_stft(struct onnx_op *op)
{
    struct bell_tensor *x = op_in(op, 0), *window = op_in_or_null(op, 2), *y;
    int64_t step, length = 0, last = 2;
    bool half = op_int(op, "onesided", 1), is_real = true;

    BELL_TRY(op_in_int(op, 1, &step));
    if (bell_ndim(x) == 3) {
        is_real = bell_shape(x)[2] == 1;
        if (is_real)
            x = bell_select(x, 2, 0);
    }
    if (window)
        length = bell_size(window, 0);
    if (op_has(op, 3))
        BELL_TRY(op_in_int(op, 3, &length));
    if (length < 1 || step < 1 || length > bell_size(x, 1))
        return bell_fail(BELL_BAD_VALUE,
                         "a frame of %lld, a step of %lld is not possible",
                         (long long)length, (long long)step);
    /* [batch, frames, (2,) length] */
    y = bell_unfold(x, 1, length, step);
    if (window)
        y = bell_mul(y, window);
    if (!is_real)
        y = bell_fft(bell_transpose(y, 2, 3), length, 2, "backward");
    else if (half)
        y = bell_rfft(y, length, 2, "backward");
    else
        y = bell_fft(
            bell_stack(BELL_TENSORS(y, bell_zeros_like(y, BELL_DEFAULT)), 3),
            length, 2, "backward");
    if (!is_real && half)
        y = bell_narrow(y, (int)last, 0, length / 2 + 1);
    op_out(op, 0, y);
    return BELL_OK;
}

/* Triangles of bins evenly spaced on the mel scale. */
bell_status
onnx_op_mel_weights(struct onnx_op *op)
{
    enum bell_dtype dtype =
        onnx_dtype((uint32_t)op_int(op, "output_datatype", ONNX_FLOAT));
    int64_t n_mel, n_dft, rate, n_bins, i, k, *edges;
    const double *low, *high;
    uint32_t n_low, n_high;
    double a, b, *out;

    BELL_TRY(op_in_int(op, 0, &n_mel));
    BELL_TRY(op_in_int(op, 1, &n_dft));
    BELL_TRY(op_in_int(op, 2, &rate));
    BELL_TRY(op_in_floats(op, 3, &low, &n_low));
    BELL_TRY(op_in_floats(op, 4, &high, &n_high));
    if (n_mel < 1 || n_mel > 4096 || n_dft < 1 || n_dft > 1 << 20 || rate < 1 ||
        n_low != 1 || n_high != 1 || dtype == BELL_DEFAULT)
        return op_unsupported("%lld bands of %lld", (long long)n_mel,
                              (long long)n_dft);
    n_bins = n_dft / 2 + 1;
    if (n_mel * n_bins > 1 << 22)
        return op_unsupported("%lld weights", (long long)(n_mel * n_bins));
    edges = op_take(op, (uint64_t)n_mel + 2, sizeof(*edges));
    out = op_take(op, (uint64_t)(n_mel * n_bins), sizeof(*out));
    if (!edges || !out)
        return onnx_no_memory();
    a = 2595 * log10(1 + low[0] / 700);
    b = 2595 * log10(1 + high[0] / 700);
    for (i = 0; i < n_mel + 2; i++) {
        double mel = a + (b - a) / (double)(n_mel + 2) * (double)i;
        double hz = 700 * (pow(10, mel / 2595) - 1);
        double at = floor((double)(n_dft + 1) * hz / (double)rate);

        edges[i] = at >= 0 && at < (double)n_bins ? (int64_t)at
                   : at < 0                       ? 0
                                                  : n_bins - 1;
    }
    for (i = 0; i < n_mel; i++) {
        int64_t from = edges[i], mid = edges[i + 1], to = edges[i + 2];

        if (mid == from)
            out[mid * n_mel + i] = 1;
        for (k = from; k <= mid && mid > from; k++)
            out[k * n_mel + i] = (double)(k - from) / (double)(mid - from);
        for (k = mid; k < to; k++)
            out[k * n_mel + i] = (double)(to - k) / (double)(to - mid);
    }
    op_out(op, 0,
           bell_cast(bell_from_data(op->ctx, BELL_DIMS(n_bins, n_mel),
                                    BELL_FLOAT64, out),
                     dtype));
    return BELL_OK;
}

/* A number for each slice of x along an axis, of the order that slices have by
 * their elements, first to last; equal for equal ones. Pairs of columns become
 * one column of numbers until one is left. */
static struct bell_tensor *
number_slices(struct onnx_op *op, struct bell_tensor *x, int64_t axis)
{
    struct bell_tensor *values, *codes;
    int64_t n, columns, most;

    x = bell_movedim(x, (int)axis, 0);
    n = bell_size(x, 0);
    x = bell_reshape(x, BELL_DIMS(n, -1));
    for (;;) {
        bell_unique(x, &values, &codes, NULL);
        if (bell_is_error(codes))
            return codes;
        columns = bell_size(codes, 1);
        most = bell_size(values, 0);
        if (columns == 1)
            return bell_reshape(codes, BELL_DIMS(-1));
        codes = bell_pad(codes, BELL_DIMS(0, columns % 2), 0);
        codes = bell_reshape(codes, BELL_DIMS(n, (columns + 1) / 2, 2));
        x = bell_add(
            bell_mul(bell_select(codes, 2, 0),
                     bell_full_int(op->ctx, BELL_NO_DIMS, most, BELL_INT64)),
            bell_select(codes, 2, 1));
    }
}

/* In the order of first occurrence where not sorted. */
bell_status
onnx_op_unique(struct onnx_op *op)
{
    struct bell_tensor *x = op_in(op, 0), *values, *inverse, *counts, *first;
    bool sorted = op_int(op, "sorted", 1),
         by_axis = op_attr(op, "axis") != NULL;
    struct bell_tensor *order, *rank, *places, *from;
    int64_t n, axis = op_axis(op_int(op, "axis", 0), bell_ndim(x));

    if (op->ctx == op->run->host)
        return op_unsupported("of a constant");
    if (by_axis) {
        if (axis < 0 || axis >= (int64_t)bell_ndim(x) || bell_numel(x) < 1)
            return op_unsupported("by axis %lld of %u axes, %lld elements; "
                                  "expected one of them, of elements",
                                  (long long)axis, bell_ndim(x),
                                  (long long)bell_numel(x));
        from = number_slices(op, x, axis);
    } else {
        axis = 0;
        x = from = bell_reshape(x, BELL_DIMS(-1));
    }
    n = bell_size(from, 0);
    bell_unique(from, &values, &inverse, &counts);
    inverse = bell_reshape(inverse, BELL_DIMS(-1));
    /* where each value is first */
    first = bell_scatter_reduce(
        bell_full_int(op->ctx, bell_shape(values), 1, n, BELL_INT64), 0,
        inverse, bell_arange_int(op->ctx, 0, n, 1, BELL_INT64),
        BELL_COMBINE_AMIN, true);
    if (!sorted) {
        order = bell_argsort(first, 0, false);
        places =
            bell_arange_int(op->ctx, 0, bell_size(values, 0), 1, BELL_INT64);
        rank = bell_scatter(bell_zeros_like(order, BELL_DEFAULT), 0, order,
                            places);
        counts = bell_index_select(counts, 0, order);
        first = bell_index_select(first, 0, order);
        inverse = bell_index_select(rank, 0, inverse);
    }
    op_out(op, 0, bell_index_select(x, (int)axis, first));
    op_out(op, 1, first);
    op_out(op, 2, inverse);
    op_out(op, 3, counts);
    return BELL_OK;
}

/* ---- boxes ---- */

struct box {
    double score, x1, y1, x2, y2;
    int64_t index;
};

static double
overlap(const struct box *a, const struct box *b)
{
    double w = fmin(a->x2, b->x2) - fmax(a->x1, b->x1);
    double h = fmin(a->y2, b->y2) - fmax(a->y1, b->y1);
    double area_a = (a->x2 - a->x1) * (a->y2 - a->y1);
    double area_b = (b->x2 - b->x1) * (b->y2 - b->y1);

    if (w <= 0 || h <= 0 || area_a <= 0 || area_b <= 0)
        return 0;
    return w * h / (area_a + area_b - w * h);
}

static struct box
read_box(const float *at, bool centered, double score, int64_t index)
{
    double a = (double)at[0], b = (double)at[1], c = (double)at[2],
           d = (double)at[3];
    struct box box = {score,      fmin(b, d), fmin(a, c),
                      fmax(b, d), fmax(a, c), index};

    if (centered) {
        box.x1 = a - c / 2;
        box.x2 = a + c / 2;
        box.y1 = b - d / 2;
        box.y2 = b + d / 2;
    }
    return box;
}

/* The boxes of a class that are kept, best first; equal ones as they come. */
static uint32_t
choose_boxes(struct box *boxes, uint32_t n, int64_t most, double threshold)
{
    uint32_t kept = 0, i, k, best;

    while (kept < n && kept < most) {
        struct box chosen;

        best = kept;
        for (i = kept + 1; i < n; i++) {
            if (boxes[i].score > boxes[best].score ||
                (boxes[i].score == boxes[best].score &&
                 boxes[i].index < boxes[best].index))
                best = i;
        }
        chosen = boxes[best];
        boxes[best] = boxes[kept];
        boxes[kept++] = chosen;
        for (i = k = kept; i < n; i++) {
            if (overlap(&chosen, &boxes[i]) <= threshold)
                boxes[k++] = boxes[i];
        }
        n = k;
    }
    return kept;
}

static bell_status
read_threshold(struct onnx_op *op, uint32_t i, double fallback, double *out)
{
    const double *v;
    uint32_t n;

    *out = fallback;
    BELL_TRY(op_in_floats(op, i, &v, &n));
    if (n > 0)
        *out = v[0];
    return BELL_OK;
}

/* All values of input i, a float32 of three axes, read from the device. */
static bell_status
read_all(struct onnx_op *op, uint32_t i, float **out, int64_t shape[3])
{
    struct bell_tensor *t = op_in(op, i);

    if (bell_is_error(t) || bell_ndim(t) != 3 ||
        bell_dtype_of(t) != BELL_FLOAT32)
        return bell_fail(BELL_BAD_SHAPE, "input %u must be float of three axes",
                         i);
    memcpy(shape, bell_shape(t), 3 * sizeof(*shape));
    if (bell_numel(t) > 1 << 24)
        return op_unsupported("input %u has %llu elements", i,
                              (unsigned long long)bell_numel(t));
    *out = op_take(op, bell_numel(t), sizeof(**out));
    if (!*out)
        return onnx_no_memory();
    return bell_read(t, *out, bell_nbytes(t));
}

bell_status
onnx_op_nms(struct onnx_op *op)
{
    int64_t most = 0, b, c, i, n_out = 0, bs[3], ss[3], *rows;
    double threshold, least;
    bool centered = op_int(op, "center_point_box", 0);
    float *boxes, *scores;
    struct box *list;
    uint64_t room;

    BELL_TRY(read_all(op, 0, &boxes, bs));
    BELL_TRY(read_all(op, 1, &scores, ss));
    if (bs[2] != 4 || bs[0] != ss[0] || bs[1] != ss[2])
        return bell_fail(BELL_BAD_SHAPE, "boxes and scores do not match");
    if (op_has(op, 2))
        BELL_TRY(op_in_int(op, 2, &most));
    BELL_TRY(read_threshold(op, 3, 0, &threshold));
    BELL_TRY(read_threshold(op, 4, -INFINITY, &least));
    most = most < 0 ? 0 : most > ss[2] ? ss[2] : most;
    room = (uint64_t)(ss[0] * ss[1] * most);
    if (room > 1 << 22)
        return op_unsupported("%llu boxes", (unsigned long long)room);
    list = op_take(op, (uint64_t)ss[2], sizeof(*list));
    rows = op_take(op, 3 * room, sizeof(*rows));
    if (!list || !rows)
        return onnx_no_memory();
    for (b = 0; b < ss[0]; b++) {
        for (c = 0; c < ss[1]; c++) {
            uint32_t n = 0, k;

            for (i = 0; i < ss[2]; i++) {
                double s = (double)scores[(b * ss[1] + c) * ss[2] + i];

                if (s > least)
                    list[n++] =
                        read_box(boxes + (b * bs[1] + i) * 4, centered, s, i);
            }
            n = choose_boxes(list, n, most, threshold);
            for (k = 0; k < n; k++) {
                rows[3 * n_out] = b;
                rows[3 * n_out + 1] = c;
                rows[3 * n_out++ + 2] = list[k].index;
            }
        }
    }
    op_out(op, 0,
           n_out
               ? bell_from_data(op->ctx, BELL_DIMS(n_out, 3), BELL_INT64, rows)
               : bell_zeros(op->ctx, BELL_DIMS(0, 3), BELL_INT64));
    return BELL_OK;
}
