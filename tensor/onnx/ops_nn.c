/* Operators of images and layers. src: onnx 1.23, Operators. */
#include "tensor/onnx/ops.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "doorbell/vision.h"

/* Facts that convolutions and pools have in common. */
struct window {
    uint32_t n; /* axes */
    int64_t kernel[3], stride[3], dilation[3];
    int64_t begin[3], end[3]; /* padding */
    bool ceil_mode;
};

static bell_status
read_list3(struct onnx_op *op, const char *name, uint32_t n, int64_t *out)
{
    struct onnx_ints list = op_ints(op, name);
    uint32_t i;

    if (list.given && list.n != n)
        return bell_fail(BELL_BAD_SHAPE, "%s has %u numbers; expected %u", name,
                         list.n, n);
    for (i = 0; list.given && i < n; i++) {
        out[i] = list.v[i];
        if (out[i] < 0 || out[i] > INT32_MAX)
            return bell_fail(BELL_BAD_VALUE, "%s has %lld", name,
                             (long long)out[i]);
    }
    return BELL_OK;
}

/* Padding by rule: SAME_UPPER and SAME_LOWER keep ceil(size / stride). */
static bell_status
pad_by_rule(struct onnx_op *op, const int64_t *size, struct window *w)
{
    const char *rule = op_str(op, "auto_pad", "NOTSET");
    struct onnx_ints pads = op_ints(op, "pads");
    uint32_t i;

    if (strcmp(rule, "NOTSET") == 0 || !*rule) {
        if (pads.given && pads.n != 2 * w->n)
            return bell_fail(BELL_BAD_SHAPE,
                             "%u pads are not two of each of %u axes", pads.n,
                             w->n);
        for (i = 0; pads.given && i < w->n; i++) {
            w->begin[i] = pads.v[i];
            w->end[i] = pads.v[w->n + i];
            if (llabs(w->begin[i]) > INT32_MAX || llabs(w->end[i]) > INT32_MAX)
                return bell_fail(BELL_BAD_VALUE, "pads are too large");
        }
        return BELL_OK;
    }
    if (strcmp(rule, "VALID") == 0)
        return BELL_OK;
    if (strcmp(rule, "SAME_UPPER") != 0 && strcmp(rule, "SAME_LOWER") != 0)
        return op_unsupported("auto_pad '%.40s' is not known", rule);
    if (op_has_sizes(size, w->n))
        return op_unsupported("auto_pad '%.40s' of sizes that are symbols",
                              rule);
    for (i = 0; i < w->n; i++) {
        int64_t out = (size[i] + w->stride[i] - 1) / w->stride[i];
        int64_t all = (out - 1) * w->stride[i] +
                      (w->kernel[i] - 1) * w->dilation[i] + 1 - size[i];

        all = all < 0 ? 0 : all;
        w->begin[i] = strcmp(rule, "SAME_LOWER") == 0 ? (all + 1) / 2 : all / 2;
        w->end[i] = all - w->begin[i];
    }
    return BELL_OK;
}

/* `kernel`: of a weight, or NULL: the attribute says it. */
static bell_status
read_window(struct onnx_op *op, struct bell_tensor *x, const int64_t *kernel,
            struct window *w)
{
    uint32_t i;

    memset(w, 0, sizeof(*w));
    if (bell_ndim(x) < 3 || bell_ndim(x) > 5)
        return op_unsupported("of %u axes; expected 3 to 5", bell_ndim(x));
    w->n = bell_ndim(x) - 2;
    for (i = 0; i < w->n; i++) {
        w->stride[i] = w->dilation[i] = 1;
        w->kernel[i] = kernel ? kernel[i] : 0;
    }
    BELL_TRY(read_list3(op, "kernel_shape", w->n, w->kernel));
    BELL_TRY(read_list3(op, "strides", w->n, w->stride));
    BELL_TRY(read_list3(op, "dilations", w->n, w->dilation));
    for (i = 0; i < w->n; i++) {
        if (w->kernel[i] < 1 || w->stride[i] < 1 || w->dilation[i] < 1 ||
            (kernel && kernel[i] != w->kernel[i]))
            return bell_fail(BELL_BAD_VALUE,
                             "kernel_shape, strides or dilations are not "
                             "those of its weight, or 0");
    }
    w->ceil_mode = op_int(op, "ceil_mode", 0);
    if (w->ceil_mode && op_has_sizes(op_dims(x) + 2, w->n))
        return op_unsupported("ceil_mode of sizes that are symbols");
    return pad_by_rule(op, op_dims(x) + 2, w);
}

/* x with `value` around it. */
static struct bell_tensor *
pad_around(struct bell_tensor *x, const struct window *w, double value)
{
    int64_t pads[6];
    bool any = false;
    uint32_t i;

    for (i = 0; i < w->n; i++) {
        pads[2 * (w->n - 1 - i)] = w->begin[i];
        pads[2 * (w->n - 1 - i) + 1] = w->end[i];
        any |= w->begin[i] || w->end[i];
    }
    return any ? bell_pad(x, pads, 2 * w->n, value) : x;
}

struct bell_tensor *
op_conv(struct onnx_op *op, struct bell_tensor *x, struct bell_tensor *weight,
        struct bell_tensor *bias)
{
    struct bell_conv_options opt = {.struct_size = sizeof(opt)};
    struct window w;
    uint32_t i;

    if (bell_is_error(x) || bell_is_error(weight))
        return x;
    if (bell_ndim(weight) != bell_ndim(x) || op_varies(weight) ||
        read_window(op, x, bell_shape(weight) + 2, &w) != BELL_OK)
        return NULL;
    opt.groups = op_int(op, "group", 1);
    for (i = 0; i < w.n; i++) {
        opt.stride[i] = w.stride[i];
        opt.dilation[i] = w.dilation[i];
        /* the same on both sides, and more behind */
        opt.padding[i] = w.begin[i] < w.end[i] ? w.begin[i] : w.end[i];
        w.begin[i] -= opt.padding[i];
        w.end[i] -= opt.padding[i];
        if (w.begin[i] == 0) {
            opt.padding_end[i] = w.end[i];
            w.end[i] = 0;
        }
    }
    x = pad_around(x, &w, 0);
    return w.n == 1   ? bell_conv1d(x, weight, bias, &opt)
           : w.n == 2 ? bell_conv2d(x, weight, bias, &opt)
                      : bell_conv3d(x, weight, bias, &opt);
}

bell_status
onnx_op_conv(struct onnx_op *op)
{
    struct bell_tensor *y =
        op_conv(op, op_in(op, 0), op_in(op, 1), op_in_or_null(op, 2));

    if (!y)
        return bell_error_last()->status
                   ? bell_error_last()->status
                   : bell_fail(BELL_BAD_SHAPE, "its weight has other axes");
    op_out(op, 0, y);
    return BELL_OK;
}

static int64_t
half_down(int64_t n)
{
    return n >= 0 ? n / 2 : -((1 - n) / 2);
}

bell_status
op_activate(struct bell_tensor *y, const char *name, double a, double b,
            struct bell_tensor **out)
{
    if (strcmp(name, "Relu") == 0)
        *out = bell_relu(y);
    else if (strcmp(name, "Sigmoid") == 0)
        *out = bell_sigmoid(y);
    else if (strcmp(name, "Tanh") == 0)
        *out = bell_tanh(y);
    else if (strcmp(name, "LeakyRelu") == 0)
        *out = bell_leaky_relu(y, a);
    else if (strcmp(name, "Clip") == 0)
        *out = bell_clip(y, a, b);
    else if (strcmp(name, "HardSigmoid") == 0)
        *out = bell_clip(bell_add_scalar(bell_mul_scalar(y, a), b), 0, 1);
    else if (*name)
        return op_unsupported("activation '%.40s' is not known", name);
    else
        *out = y;
    return BELL_OK;
}

/* com.microsoft's: a convolution, and an activation by name. */
bell_status
onnx_op_fused_conv(struct onnx_op *op)
{
    const struct onnx_attr *params = op_attr(op, "activation_params");
    double a = params && params->n > 0 ? (double)params->floats[0] : 0;
    double b = params && params->n > 1 ? (double)params->floats[1] : 0;
    struct bell_tensor *y =
        op_conv(op, op_in(op, 0), op_in(op, 1), op_in_or_null(op, 2));

    if (!y)
        return bell_error_last()->status
                   ? bell_error_last()->status
                   : bell_fail(BELL_BAD_SHAPE, "its weight has other axes");
    if (op_has(op, 3))
        y = bell_add(y, op_in(op, 3));
    BELL_TRY(op_activate(y, op_str(op, "activation", ""), a, b, &y));
    op_out(op, 0, y);
    return BELL_OK;
}

bell_status
onnx_op_causal_conv(struct onnx_op *op)
{
    struct bell_tensor *x = op_in(op, 0), *weight = op_in(op, 1), *y;
    struct bell_tensor *past = op_in_or_null(op, 3);
    const char *name = op_str(op, "activation", "none");
    struct bell_conv_options opt = {.struct_size = sizeof(opt)};
    int64_t k, length;

    if (bell_ndim(x) != 3 || bell_ndim(weight) != 3)
        return bell_fail(BELL_BAD_SHAPE, "an input of %u axes; expected 3",
                         bell_ndim(x));
    if (strcmp(name, "none") != 0 && strcmp(name, "silu") != 0 &&
        strcmp(name, "swish") != 0)
        return op_unsupported("activation '%.40s' is not known", name);
    k = bell_shape(weight)[2];
    opt.groups = bell_shape(x)[1];
    x = past ? bell_cat(BELL_TENSORS(past, x), 2)
             : bell_pad(x, (const int64_t[]){k - 1, 0}, 2, 0);
    length = bell_size(x, 2);
    y = bell_conv1d(x, weight, op_in_or_null(op, 2), &opt);
    op_out(op, 0, *name == 's' ? bell_silu(y) : y);
    op_out(op, 1, bell_narrow(x, 2, length - (k - 1), k - 1));
    return BELL_OK;
}

/* Padding of a transposed convolution cuts. */
static bell_status
transpose_pads(struct onnx_op *op, struct bell_tensor *x, struct window *w,
               const int64_t *more)
{
    const char *rule = op_str(op, "auto_pad", "NOTSET");
    int64_t want[3] = {0};
    uint32_t i;

    BELL_TRY(read_list3(op, "output_shape", w->n, want));
    for (i = 0; i < w->n; i++) {
        int64_t size = bell_shape(x)[2 + i];
        int64_t full = (size - 1) * w->stride[i] + more[i] +
                       (w->kernel[i] - 1) * w->dilation[i] + 1;
        int64_t all;

        if (!want[i] && strncmp(rule, "SAME", 4) == 0)
            want[i] = size * w->stride[i];
        if (!want[i])
            continue;
        all = full - want[i];
        if (strcmp(rule, "SAME_UPPER") == 0) {
            w->begin[i] = half_down(all);
            w->end[i] = all - w->begin[i];
        } else {
            w->end[i] = half_down(all);
            w->begin[i] = all - w->end[i];
        }
    }
    return BELL_OK;
}

bell_status
onnx_op_conv_transpose(struct onnx_op *op)
{
    struct bell_tensor *x = op_in(op, 0), *weight = op_in(op, 1), *y;
    struct bell_tensor *bias = op_in_or_null(op, 2);
    struct bell_conv_options opt = {.struct_size = sizeof(opt)};
    int64_t more[3] = {0}, shape[5];
    struct window w;
    uint32_t i;

    if (bell_ndim(weight) != bell_ndim(x))
        return bell_fail(BELL_BAD_SHAPE, "its weight has other axes");
    BELL_TRY(read_window(op, x, bell_shape(weight) + 2, &w));
    BELL_TRY(read_list3(op, "output_padding", w.n, more));
    BELL_TRY(transpose_pads(op, x, &w, more));
    opt.groups = op_int(op, "group", 1);
    for (i = 0; i < w.n; i++) {
        opt.stride[i] = w.stride[i];
        opt.dilation[i] = w.dilation[i];
        w.begin[i] = -w.begin[i];
        w.end[i] = more[i] - w.end[i];
    }
    y = w.n == 1   ? bell_conv_transpose1d(x, weight, NULL, &opt)
        : w.n == 2 ? bell_conv_transpose2d(x, weight, NULL, &opt)
                   : bell_conv_transpose3d(x, weight, NULL, &opt);
    y = pad_around(y, &w, 0);
    if (bias) {
        for (i = 0; i < w.n + 2; i++)
            shape[i] = i == 1 ? bell_size(bias, 0) : 1;
        y = bell_add(y, bell_reshape(bias, shape, w.n + 2));
    }
    op_out(op, 0, y);
    return BELL_OK;
}

/* ---- pools ---- */

/* Adds to the padding behind, so that a last partial window counts. */
static void
pad_partial(const struct bell_tensor *x, struct window *w)
{
    uint32_t i;

    for (i = 0; w->ceil_mode && i < w->n; i++) {
        int64_t size = op_dim(x, 2 + (int)i) + w->begin[i] + w->end[i];
        int64_t reach = (w->kernel[i] - 1) * w->dilation[i] + 1;
        int64_t rest = size >= reach ? (size - reach) % w->stride[i] : 0;
        int64_t out = (size - reach) / w->stride[i] + 1;

        /* A window that began behind the padding is none. */
        if (rest && out * w->stride[i] < op_dim(x, 2 + (int)i) + w->begin[i])
            w->end[i] += w->stride[i] - rest;
    }
}

static struct bell_tensor *
pool(struct bell_tensor *x, const struct window *w, bool is_max)
{
    struct bell_pool_options opt = {.struct_size = sizeof(opt)};
    uint32_t i;

    for (i = 0; i < w->n; i++) {
        opt.kernel[i] = w->kernel[i];
        opt.stride[i] = w->stride[i];
        opt.dilation[i] = is_max ? w->dilation[i] : 1;
    }
    if (is_max)
        return w->n == 1   ? bell_max_pool1d(x, &opt)
               : w->n == 2 ? bell_max_pool2d(x, &opt)
                           : bell_max_pool3d(x, &opt);
    return w->n == 1   ? bell_avg_pool1d(x, &opt)
           : w->n == 2 ? bell_avg_pool2d(x, &opt)
                       : bell_avg_pool3d(x, &opt);
}

static double
lowest(enum bell_dtype dtype)
{
    return dtype == BELL_INT8 ? -128 : dtype == BELL_UINT8 ? 0 : -INFINITY;
}

/* Where each greatest is in the whole of x, from where it is in its padded
 * image. */
static struct bell_tensor *
whole_places(struct onnx_op *op, struct bell_tensor *x,
             struct bell_tensor *padded, struct bell_tensor *places,
             const struct window *w)
{
    int64_t n = bell_shape(x)[0] * bell_shape(x)[1], image = 1, i;
    bool columns = op_int(op, "storage_order", 0);
    struct bell_tensor *at[3], *flat = NULL, *base;
    int64_t shape[5] = {1, 1, 1, 1, 1};
    int64_t step;

    for (i = (int64_t)w->n - 1; i >= 0; i--) {
        struct bell_tensor *size = bell_full_int(
            op->ctx, BELL_NO_DIMS, bell_shape(padded)[2 + i], BELL_INT64);

        at[i] = bell_sub(
            bell_remainder(places, size),
            bell_full_int(op->ctx, BELL_NO_DIMS, w->begin[i], BELL_INT64));
        places = bell_floor_divide(places, size);
        image *= bell_shape(x)[2 + i];
    }
    step = 1;
    for (i = 0; i < w->n; i++) {
        uint32_t k = columns ? (uint32_t)i : w->n - 1 - (uint32_t)i;
        struct bell_tensor *part = bell_mul(
            at[k], bell_full_int(op->ctx, BELL_NO_DIMS, step, BELL_INT64));

        flat = flat ? bell_add(flat, part) : part;
        step *= bell_shape(x)[2 + k];
    }
    shape[0] = bell_shape(x)[0];
    shape[1] = bell_shape(x)[1];
    base = bell_reshape(
        bell_arange_int(op->ctx, 0, n * image, image ? image : 1, BELL_INT64),
        shape, w->n + 2);
    return bell_add(flat, base);
}

bell_status
onnx_op_max_pool(struct onnx_op *op)
{
    struct bell_tensor *x = op_in(op, 0), *padded, *places = NULL;
    struct bell_pool_options opt = {.struct_size = sizeof(opt)};
    struct window w;
    uint32_t i;

    BELL_TRY(read_window(op, x, NULL, &w));
    pad_partial(x, &w);
    padded = pad_around(x, &w, lowest(bell_dtype_of(x)));
    op_out(op, 0, bell_alias(pool(padded, &w, true)));
    if (op->n_out > 1 && op_varies(x))
        return op_unsupported("places of sizes that are symbols");
    if (op->n_out > 1) {
        for (i = 0; i < w.n; i++) {
            opt.kernel[i] = w.kernel[i];
            opt.stride[i] = w.stride[i];
            opt.dilation[i] = w.dilation[i];
        }
        bell_max_pool_indices(padded, w.n, &opt, NULL, &places);
        op_out(op, 1, whole_places(op, x, padded, places, &w));
    }
    return BELL_OK;
}

/* Sums of windows: unfolded where there is dilation. */
static struct bell_tensor *
sum_windows(struct bell_tensor *x, const struct window *w)
{
    double n = 1;
    uint32_t i;
    struct bell_tensor *y = x;
    bool dilated = false;

    for (i = 0; i < w->n; i++) {
        n *= (double)w->kernel[i];
        dilated |= w->dilation[i] != 1;
    }
    if (!dilated)
        return bell_mul_scalar(pool(x, w, false), n);
    for (i = 0; i < w->n; i++) {
        int64_t reach = (w->kernel[i] - 1) * w->dilation[i] + 1;
        struct bell_index_item items[BELL_MAX_RANK];
        uint32_t ndim = bell_ndim(y), k;
        int64_t last = ndim;

        y = bell_unfold(y, (int)(2 + i), reach, w->stride[i]);
        for (k = 0; k < ndim; k++)
            items[k] = bell_whole();
        items[ndim] = bell_slice(0, BELL_NONE, w->dilation[i]);
        y = bell_sum(bell_index(y, items, ndim + 1), &last, 1, false);
    }
    return y;
}

bell_status
op_average_pool(struct onnx_op *op, struct bell_tensor *x,
                struct bell_tensor **out)
{
    struct bell_tensor *sum, *count;
    bool with_pads = op_int(op, "count_include_pad", 0);
    enum bell_dtype dtype = bell_dtype_of(x);
    struct window w, asked, rest;
    int64_t shape[5] = {1, 1, 1, 1, 1};
    uint32_t i;

    BELL_TRY(read_window(op, x, NULL, &w));
    asked = w;
    pad_partial(x, &w);
    sum = sum_windows(pad_around(x, &w, 0), &w);
    for (i = 0; i < w.n; i++)
        shape[2 + i] = op_dim(x, 2 + (int)i);
    count = bell_ones(op->ctx, shape, w.n + 2, BELL_FLOAT32);
    if (with_pads) {
        /* what a partial window has beyond the padding does not count */
        rest = w;
        for (i = 0; i < w.n; i++) {
            rest.begin[i] = 0;
            rest.end[i] = w.end[i] - asked.end[i];
        }
        count = pad_around(pad_around(count, &asked, 1), &rest, 0);
    } else {
        count = pad_around(count, &w, 0);
    }
    count = sum_windows(count, &w);
    *out = op_to(bell_div(sum, op_to(count, dtype)), dtype);
    return BELL_OK;
}

bell_status
onnx_op_average_pool(struct onnx_op *op)
{
    struct bell_tensor *y;

    BELL_TRY(op_average_pool(op, op_in(op, 0), &y));
    op_out(op, 0, y);
    return BELL_OK;
}

bell_status
onnx_op_lp_pool(struct onnx_op *op)
{
    struct bell_tensor *x = op_in(op, 0), *y;
    double p = (double)op_int(op, "p", 2);
    struct window w;

    BELL_TRY(read_window(op, x, NULL, &w));
    pad_partial(x, &w);
    y = bell_pow_scalar(bell_abs(pad_around(x, &w, 0)), p);
    op_out(op, 0, bell_pow_scalar(sum_windows(y, &w), 1 / p));
    return BELL_OK;
}

bell_status
onnx_op_global_pool(struct onnx_op *op)
{
    struct bell_tensor *x = op_in(op, 0), *y;
    const char *name = op->node->op;
    int64_t axes[BELL_MAX_RANK];
    uint32_t i, n;

    if (bell_ndim(x) < 2)
        return bell_fail(BELL_BAD_SHAPE, "an input of %u axes is not enough",
                         bell_ndim(x));
    n = bell_ndim(x) - 2;
    for (i = 0; i < n; i++)
        axes[i] = 2 + i;
    if (n == 0)
        y = bell_alias(x);
    else if (strcmp(name, "GlobalMaxPool") == 0)
        y = bell_max(x, axes, n, true);
    else if (strcmp(name, "GlobalAveragePool") == 0)
        y = bell_mean(x, axes, n, true);
    else
        y = bell_norm(x, (double)op_int(op, "p", 2), axes, n, true);
    op_out(op, 0, y);
    return BELL_OK;
}

bell_status
onnx_op_max_unpool(struct onnx_op *op)
{
    struct bell_tensor *x = op_in(op, 0), *places = op_in(op, 1), *y, *flat;
    int64_t shape[BELL_MAX_RANK], pads[2 * BELL_MAX_RANK] = {0}, n = 1;
    struct onnx_ints want;
    struct window w;
    uint32_t i, ndim = bell_ndim(x);

    BELL_TRY(read_window(op, x, NULL, &w));
    BELL_TRY(op_in_ints(op, 2, &want));
    if (want.given && want.n != ndim)
        return bell_fail(BELL_BAD_SHAPE, "output_shape has %u sizes", want.n);
    for (i = 0; i < ndim; i++) {
        shape[i] = bell_shape(x)[i];
        if (i >= 2)
            shape[i] = (shape[i] - 1) * w.stride[i - 2] + w.kernel[i - 2] -
                       w.begin[i - 2] - w.end[i - 2];
        n *= shape[i];
    }
    BELL_TRY(op_check_shape(shape, ndim));
    flat = bell_zeros(op->ctx, &n, 1, bell_dtype_of(x));
    y = bell_scatter(flat, 0, bell_reshape(places, BELL_DIMS(-1)),
                     bell_reshape(x, BELL_DIMS(-1)));
    y = bell_reshape(y, shape, ndim);
    for (i = 0; want.given && i < ndim; i++)
        pads[2 * (ndim - 1 - i) + 1] = want.v[i] - shape[i];
    op_out(op, 0, want.given ? bell_pad(y, pads, 2 * ndim, 0) : y);
    return BELL_OK;
}

/* ---- normalisation ---- */

bell_status
onnx_op_batch_norm(struct onnx_op *op)
{
    struct bell_tensor *x = op_in(op, 0), *mean = op_in(op, 3);
    struct bell_tensor *var = op_in(op, 4), *m, *v;
    double eps = op_float(op, "epsilon", (double)1e-5f);
    double keep = op_float(op, "momentum", (double)0.9f);
    int64_t axes[BELL_MAX_RANK], n = 0;
    enum bell_dtype dtype = bell_dtype_of(x);
    uint32_t i;

    if (op->opset < 9 && !op_int(op, "spatial", 1))
        return op_unsupported("spatial is 0");
    if (op_int(op, "training_mode", 0)) {
        for (i = 0; i < bell_ndim(x); i++) {
            if (i != 1)
                axes[n++] = i;
        }
        m = bell_mean(x, axes, (uint32_t)n, false);
        v = bell_var(x, axes, (uint32_t)n, 0, false);
        op_out(op, 1,
               op_to(bell_add(bell_mul_scalar(mean, keep),
                              bell_mul_scalar(m, 1 - keep)),
                     bell_dtype_of(mean)));
        op_out(op, 2,
               op_to(bell_add(bell_mul_scalar(var, keep),
                              bell_mul_scalar(v, 1 - keep)),
                     bell_dtype_of(var)));
        mean = m;
        var = v;
    }
    op_out(op, 0,
           op_to(bell_batch_norm(x, mean, var, op_in(op, 1), op_in(op, 2), eps),
                 dtype));
    return BELL_OK;
}

bell_status
onnx_op_instance_norm(struct onnx_op *op)
{
    struct bell_tensor *x = op_in(op, 0);

    if (bell_ndim(x) < 3)
        return bell_fail(BELL_BAD_SHAPE, "an input of %u axes is not enough",
                         bell_ndim(x));
    op_out(op, 0,
           bell_group_norm(x, op_dim(x, 1), op_in(op, 1), op_in(op, 2),
                           op_float(op, "epsilon", (double)1e-5f)));
    return BELL_OK;
}

bell_status
onnx_op_group_norm(struct onnx_op *op)
{
    struct bell_tensor *x = op_in(op, 0), *scale = op_in(op, 1);
    struct bell_tensor *bias = op_in(op, 2);
    int64_t groups = op_int(op, "num_groups", 1), c;
    enum bell_dtype dtype = bell_dtype_of(x);

    if (bell_ndim(x) < 2 || groups < 1)
        return bell_fail(BELL_BAD_SHAPE, "an input of %u axes is not enough",
                         bell_ndim(x));
    c = op_dim(x, 1);
    if (op_is_size(c))
        return op_unsupported("its channels are a symbol's");
    /* before opset 21 a number for each group */
    if (op->opset < 21) {
        scale = bell_repeat_interleave(scale, c / groups, 0);
        bias = bell_repeat_interleave(bias, c / groups, 0);
    }
    op_out(op, 0,
           op_to(bell_group_norm(x, groups, scale, bias,
                                 op_float(op, "epsilon", (double)1e-5f)),
                 dtype));
    return BELL_OK;
}

static struct bell_tensor *
mean_over(struct bell_tensor *x, uint32_t axis)
{
    int64_t axes[BELL_MAX_RANK];
    uint32_t n = 0, i;

    for (i = axis; i < bell_ndim(x); i++)
        axes[n++] = i;
    return bell_mean(x, axes, n, true);
}

bell_status
onnx_op_layer_norm(struct onnx_op *op)
{
    struct bell_tensor *x = op_in(op, 0), *mean, *inv, *y, *bias;
    int64_t axis = op_axis(op_int(op, "axis", -1), bell_ndim(x));
    enum bell_dtype dtype = bell_dtype_of(x);
    double eps = op_float(op, "epsilon", (double)1e-5f);

    if (axis < 0 || axis >= bell_ndim(x))
        return bell_fail(BELL_BAD_AXIS, "its axis is not one of %u",
                         bell_ndim(x));
    if (dtype == BELL_FLOAT16 || dtype == BELL_BFLOAT16)
        x = bell_cast(x, BELL_FLOAT32);
    mean = mean_over(x, (uint32_t)axis);
    y = bell_sub(x, mean);
    inv = bell_reciprocal(bell_sqrt(
        bell_add_scalar(mean_over(bell_square(y), (uint32_t)axis), eps)));
    y = op_to(bell_mul(y, inv), dtype);
    y = bell_mul(y, op_in(op, 1));
    bias = op_in_or_null(op, 2);
    if (bias)
        y = bell_add(y, bias);
    op_out(op, 0, y);
    op_out(op, 1, mean);
    op_out(op, 2, inv);
    return BELL_OK;
}

bell_status
onnx_op_rms_norm(struct onnx_op *op)
{
    struct bell_tensor *x = op_in(op, 0), *inv, *y;
    int64_t axis = op_axis(op_int(op, "axis", -1), bell_ndim(x));
    enum bell_dtype dtype = bell_dtype_of(x);

    if (axis < 0 || axis >= bell_ndim(x))
        return bell_fail(BELL_BAD_AXIS, "its axis is not one of %u",
                         bell_ndim(x));
    if (dtype == BELL_FLOAT16 || dtype == BELL_BFLOAT16)
        x = bell_cast(x, BELL_FLOAT32);
    inv = bell_reciprocal(
        bell_sqrt(bell_add_scalar(mean_over(bell_square(x), (uint32_t)axis),
                                  op_float(op, "epsilon", (double)1e-5f))));
    y = op_to(bell_mul(x, inv), dtype);
    op_out(op, 0, bell_mul(y, op_in(op, 1)));
    return BELL_OK;
}

/* com.microsoft's: the sum of input and skip, normalised. */
bell_status
onnx_op_skip_layer_norm(struct onnx_op *op)
{
    struct bell_tensor *x = bell_add(op_in(op, 0), op_in(op, 1)), *bias;
    bool is_simple = strncmp(op->node->op, "SkipSimplified", 14) == 0;
    double eps = op_float(op, "epsilon", (double)1e-12f);

    bias = op_in_or_null(op, is_simple ? 3 : 4);
    if (bias)
        x = bell_add(x, bias);
    op_out(op, 0,
           is_simple ? bell_rms_norm(x, op_in(op, 2), eps)
                     : bell_layer_norm(x, 1, op_in(op, 2), op_in_or_null(op, 3),
                                       eps));
    op_out(op, 3, x);
    return BELL_OK;
}

bell_status
onnx_op_mean_variance_norm(struct onnx_op *op)
{
    struct bell_tensor *x = op_in(op, 0), *mean, *d;
    struct onnx_ints axes = op_ints(op, "axes");
    static const int64_t usual[] = {0, 2, 3};

    if (!axes.given)
        axes = (struct onnx_ints){usual, 3, true};
    mean = bell_mean(x, axes.v, axes.n, true);
    d = bell_sub(x, mean);
    op_out(
        op, 0,
        bell_div(d, bell_add_scalar(bell_sqrt(bell_mean(bell_square(d), axes.v,
                                                        axes.n, true)),
                                    1e-9)));
    return BELL_OK;
}

bell_status
onnx_op_lrn(struct onnx_op *op)
{
    struct bell_tensor *x = op_in(op, 0), *sum = NULL;
    int64_t size = op_int(op, "size", 1), before, i;
    int64_t pads[2 * BELL_MAX_RANK] = {0};
    uint32_t ndim = bell_ndim(x);
    double alpha = op_float(op, "alpha", (double)1e-4f);

    if (ndim < 2 || size < 1 || size > 4096)
        return bell_fail(
            BELL_BAD_SHAPE,
            "%u axes, size %lld; expected 2 axes or more, and 1 to 4096", ndim,
            (long long)size);
    before = (size - 1) / 2;
    pads[2 * (ndim - 2)] = before;
    pads[2 * (ndim - 2) + 1] = size - 1 - before;
    sum = bell_pad(bell_square(x), pads, 2 * ndim, 0);
    sum = bell_unfold(sum, 1, size, 1);
    i = ndim;
    sum = bell_sum(sum, &i, 1, false);
    sum = bell_add_scalar(bell_mul_scalar(sum, alpha / (double)size),
                          op_float(op, "bias", 1));
    op_out(op, 0,
           bell_div(x, bell_pow_scalar(sum, op_float(op, "beta", 0.75))));
    return BELL_OK;
}

/* ---- sampling ---- */

bell_status
onnx_op_grid_sample(struct onnx_op *op)
{
    const char *mode = op_str(op, "mode", "linear");
    const char *padding = op_str(op, "padding_mode", "zeros");
    enum bell_resize_mode by;
    enum bell_grid_padding around;

    if (strcmp(mode, "linear") == 0 || strcmp(mode, "bilinear") == 0)
        by = BELL_RESIZE_LINEAR;
    else if (strcmp(mode, "nearest") == 0)
        by = BELL_RESIZE_NEAREST;
    else if (strcmp(mode, "cubic") == 0 || strcmp(mode, "bicubic") == 0)
        by = BELL_RESIZE_CUBIC;
    else
        return op_unsupported("mode '%.40s' is not known", mode);
    if (strcmp(padding, "zeros") == 0)
        around = BELL_GRID_ZEROS;
    else if (strcmp(padding, "border") == 0)
        around = BELL_GRID_BORDER;
    else if (strcmp(padding, "reflection") == 0)
        around = BELL_GRID_REFLECT;
    else
        return op_unsupported("padding_mode '%.40s' is not known", padding);
    op_out(op, 0,
           bell_grid_sample(op_in(op, 0), op_in(op, 1), by, around,
                            op_int(op, "align_corners", 0)));
    return BELL_OK;
}

bell_status
onnx_op_col2im(struct onnx_op *op)
{
    struct bell_tensor *x = op_in(op, 0), *y, *index = NULL;
    int64_t image[3], full[3], n = 1, c, batch, blocks = 1, kernel = 1;
    struct onnx_ints size, block;
    struct window w = {0};
    int64_t shape[6];
    uint32_t i;

    BELL_TRY(op_in_ints(op, 1, &size));
    BELL_TRY(op_in_ints(op, 2, &block));
    if (size.n != block.n || size.n < 1 || size.n > 3 || bell_ndim(x) != 3)
        return op_unsupported("of %u axes; expected 1 to 3", size.n);
    w.n = size.n;
    for (i = 0; i < w.n; i++) {
        w.stride[i] = w.dilation[i] = 1;
        w.kernel[i] = block.v[i];
    }
    BELL_TRY(read_list3(op, "strides", w.n, w.stride));
    BELL_TRY(read_list3(op, "dilations", w.n, w.dilation));
    BELL_TRY(pad_by_rule(op, size.v, &w));
    batch = bell_shape(x)[0];
    for (i = 0; i < w.n; i++) {
        int64_t reach = (w.kernel[i] - 1) * w.dilation[i] + 1;
        struct bell_tensor *at, *k, *b;
        int64_t count;

        image[i] = size.v[i];
        full[i] = image[i] + w.begin[i] + w.end[i];
        if (w.kernel[i] < 1 || w.stride[i] < 1 || full[i] < reach ||
            full[i] > (int64_t)ONNX_MAX_ELEMS)
            return bell_fail(
                BELL_BAD_SHAPE,
                "blocks of %lld do not fit into %lld; expected smaller ones",
                (long long)reach, (long long)full[i]);
        count = (full[i] - reach) / w.stride[i] + 1;
        blocks *= count;
        kernel *= w.kernel[i];
        n *= full[i];
        BELL_TRY(op_check_shape(&n, 1));
        /* place of kernel element k and block b, k-major */
        memset(shape, 0, sizeof(shape));
        for (uint32_t a = 0; a < 2 * w.n; a++)
            shape[a] = 1;
        shape[i] = w.kernel[i];
        k = bell_reshape(
            bell_mul(bell_arange_int(op->ctx, 0, w.kernel[i], 1, BELL_INT64),
                     bell_full_int(op->ctx, BELL_NO_DIMS, w.dilation[i],
                                   BELL_INT64)),
            shape, 2 * w.n);
        shape[i] = 1;
        shape[w.n + i] = count;
        b = bell_reshape(
            bell_mul(
                bell_arange_int(op->ctx, 0, count, 1, BELL_INT64),
                bell_full_int(op->ctx, BELL_NO_DIMS, w.stride[i], BELL_INT64)),
            shape, 2 * w.n);
        at = bell_add(k, b);
        index =
            index
                ? bell_add(bell_mul(index, bell_full_int(op->ctx, BELL_NO_DIMS,
                                                         full[i], BELL_INT64)),
                           at)
                : at;
    }
    c = bell_shape(x)[1] / kernel;
    index = bell_reshape(index, BELL_DIMS(1, 1, kernel * blocks));
    index = bell_expand(index, BELL_DIMS(batch, c, kernel * blocks));
    y = bell_zeros(op->ctx, BELL_DIMS(batch, c, n), bell_dtype_of(x));
    y = bell_scatter_add(y, 2, index,
                         bell_reshape(x, BELL_DIMS(batch, c, kernel * blocks)));
    shape[0] = batch;
    shape[1] = c;
    for (i = 0; i < w.n; i++) {
        shape[2 + i] = full[i];
        w.begin[i] = -w.begin[i];
        w.end[i] = -w.end[i];
    }
    op_out(op, 0, pad_around(bell_reshape(y, shape, w.n + 2), &w, 0));
    return BELL_OK;
}

bell_status
onnx_op_affine_grid(struct onnx_op *op)
{
    struct bell_tensor *theta = op_in(op, 0), *grid = NULL, *parts[4];
    bool corners = op_int(op, "align_corners", 0);
    struct onnx_ints size;
    int64_t points = 1, shape[5];
    uint32_t n, i;

    BELL_TRY(op_in_ints(op, 1, &size));
    if ((size.n != 4 && size.n != 5) || bell_ndim(theta) != 3)
        return op_unsupported("of %u axes; expected 4 or 5", size.n);
    BELL_TRY(op_check_shape(size.v, size.n));
    n = size.n - 2;
    for (i = 0; i < n; i++)
        points *= size.v[2 + i];
    /* x first, so the last axis is coordinate 0 */
    for (i = 0; i < n; i++) {
        uint32_t axis = n - 1 - i, k;
        double count = (double)size.v[2 + axis];
        struct bell_tensor *line;

        line = bell_arange_int(op->ctx, 0, size.v[2 + axis], 1, BELL_FLOAT32);
        if (corners)
            line = bell_add_scalar(
                bell_mul_scalar(line, count > 1 ? 2 / (count - 1) : 0), -1);
        else
            line = bell_add_scalar(bell_mul_scalar(line, 2 / count),
                                   1 / count - 1);
        for (k = 0; k < n; k++)
            shape[k] = k == axis ? size.v[2 + k] : 1;
        line = bell_reshape(line, shape, n);
        parts[i] =
            bell_reshape(bell_expand(line, size.v + 2, n), BELL_DIMS(points));
    }
    parts[n] = bell_ones(op->ctx, &points, 1, BELL_FLOAT32);
    grid = op_to(bell_stack(parts, n + 1, 1), bell_dtype_of(theta));
    grid = bell_matmul(grid, bell_t(theta));
    shape[0] = size.v[0];
    for (i = 0; i < n; i++)
        shape[1 + i] = size.v[2 + i];
    shape[n + 1] = n;
    op_out(op, 0, bell_reshape(grid, shape, n + 2));
    return BELL_OK;
}
