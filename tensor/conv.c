/* Convolution and pooling: windows (tn_unfold), a product and a reduction.
 *
 * A convolution carries a rule for its gradient, so that the adjoint in x is
 * one convolution of the same form, and not a sum over windows of sums.
 */
#include "tensor/conv.h"

#include <assert.h>
#include <math.h>
#include <string.h>

#include "base/bits.h"
#include "tensor/gradient.h"
#include "tensor/matmul.h"
#include "tensor/reduce.h"

/* ---- convolution on nodes ---- */

void
conv_to_rule(const struct conv_shape *s, int64_t p[8])
{
    memcpy(p, s->stride, sizeof(s->stride));
    memcpy(p + 2, s->padding, sizeof(s->padding));
    memcpy(p + 4, s->dilation, sizeof(s->dilation));
    p[6] = s->groups;
}

void
conv_from_rule(const int64_t p[8], struct conv_shape *out_s)
{
    memcpy(out_s->stride, p, sizeof(out_s->stride));
    memcpy(out_s->padding, p + 2, sizeof(out_s->padding));
    memcpy(out_s->dilation, p + 4, sizeof(out_s->dilation));
    out_s->groups = p[6];
}

/* x[n, c, h, w] as windows [n, g, i, y, p, x, q]: group, channel in it, place
 * and offset of each axis. */
static const struct uop *
take_windows(struct bell_context *ctx, const struct uop *x,
             const struct conv_shape *s, int64_t kh, int64_t kw)
{
    int64_t size[2] = {kh, kw};
    uint32_t i;

    assert(kh > 0 && kw > 0);
    for (i = 0; i < 2; i++) {
        uint32_t axis = 2 + 2 * i; /* the first axis became two */
        int64_t reach = (size[i] - 1) * s->dilation[i] + 1, n;
        x = tn_pad_axis(ctx, x, axis, s->padding[i], s->padding[i]);
        if (tn_bad(x))
            return x;
        n = (tn_size(ctx, x, axis) - reach) / s->stride[i] + 1;
        x = tn_unfold(ctx, x, axis, n, size[i], s->stride[i], s->dilation[i]);
    }
    if (tn_bad(x))
        return x;
    return tn_split_axis(ctx, x, 1, s->groups, tn_size(ctx, x, 1) / s->groups);
}

const struct uop *
tn_conv2d(struct bell_context *ctx, const struct uop *x, const struct uop *w,
          const struct conv_shape *s)
{
    /* windows n g i y p x q to n g y x i p q */
    static const int64_t order[7] = {0, 1, 3, 5, 2, 4, 6};
    struct tensor_rule rule = {.kind = TENSOR_RULE_CONV, .a = x, .b = w};
    const struct uop_dims *shape = tn_shape(ctx, w);
    const struct uop *u, *k;
    int64_t d[8];

    assert(tn_bad(x) || tn_bad(w) ||
           (tn_rank(ctx, x) == 4 && tn_rank(ctx, w) == 4));
    if (tn_bad(x) || tn_bad(w))
        return &uop_failed;
    u = take_windows(ctx, x, s, shape->d[2], shape->d[3]);
    u = tn_unsqueeze(ctx, tn_permute(ctx, u, order), 2); /* n g 1 y x i p q */
    if (tn_bad(u))
        return u;
    d[0] = d[3] = d[4] = 1; /* g o 1 1 i p q */
    d[0] = s->groups;
    d[1] = shape->d[0] / s->groups;
    d[2] = d[3] = 1;
    memcpy(d + 4, shape->d + 1, 3 * sizeof(*d));
    k = tn_reshape(ctx, w, d, 7);
    u = tn_sum_product(ctx, u, k, 1u << 5 | 1u << 6 | 1u << 7);
    u = tn_squeeze(ctx, u, 1u << 5 | 1u << 6 | 1u << 7); /* n g o y x */
    u = tn_merge_axes(ctx, u, 1, 2);
    conv_to_rule(s, rule.p);
    return tensor_rule_add(ctx, u, &rule);
}

/* How the sources along one axis are found from the results. Source x is
 * number X = x + padding of the padded axis, and X = phases * Q + R; only the
 * offsets p = phases * a + R of the window meet it, in result Q - a. So the
 * phases are channels of one convolution of stride 1 over the results. */
struct back_axis {
    int64_t phases, taps, dilation; /* of that convolution */
    int64_t first, n;               /* Q from first, n of them */
};

static struct back_axis
plan_back(const struct conv_shape *s, uint32_t i, int64_t window, int64_t want)
{
    struct back_axis b = {.phases = s->stride[i], .dilation = s->dilation[i]};

    assert(i < 2 && s->stride[i] > 0 && s->dilation[i] > 0);
    b.taps = (int64_t)div_up((uint64_t)window, (uint64_t)b.phases);
    b.first = s->padding[i] / b.phases;
    b.n =
        (int64_t)div_up((uint64_t)(s->padding[i] + want), (uint64_t)b.phases) -
        b.first;
    return b;
}

/* w[g * O + o, i, p, q] as w[((g * I + i) * R + r) * S + s, o, -a, -b] with
 * p = R a + r, q = S b + s: from results to sources. */
static const struct uop *
turn_weight(struct bell_context *ctx, const struct uop *w, int64_t groups,
            const struct back_axis axes[2])
{
    assert(tn_bad(w) || (groups > 0 && tn_rank(ctx, w) == 4));
    /* g o i a r b s to g i r s o a b */
    static const int64_t order[7] = {0, 2, 4, 6, 1, 3, 5};
    uint32_t i;

    w = tn_split_axis(ctx, w, 0, groups, tn_size(ctx, w, 0) / groups);
    for (i = 0; i < 2 && !tn_bad(w); i++) {
        uint32_t axis = 3 + 2 * i;
        int64_t full = axes[i].taps * axes[i].phases;
        w = tn_pad_axis(ctx, w, axis, 0, full - tn_size(ctx, w, axis));
        w = tn_split_axis(ctx, w, axis, axes[i].taps, axes[i].phases);
    }
    if (tn_bad(w))
        return w;
    w = tn_merge_axes(ctx, tn_permute(ctx, w, order), 0, 4);
    return tn_flip(ctx, w, 1u << 2 | 1u << 3);
}

/* u[n, (c r s), Q, Q'] as the sources [n, c, x, x']. */
static const struct uop *
join_phases(struct bell_context *ctx, const struct uop *u,
            const struct conv_shape *s, const struct back_axis axes[2],
            const int64_t want[2])
{
    /* n c r s y x to n c y r x s */
    static const int64_t order[6] = {0, 1, 4, 2, 5, 3};
    int64_t r = axes[0].phases * axes[1].phases;
    uint32_t i;

    if (tn_bad(u))
        return u;
    if (r > 1) {
        u = tn_wrap(ctx, UOP_CONTIGUOUS, u);
        u = tn_split_axis(ctx, u, 1, tn_size(ctx, u, 1) / r, r);
        u = tn_split_axis(ctx, u, 2, axes[0].phases, axes[1].phases);
        u = tn_permute(ctx, u, order);
        u = tn_merge_axes(ctx, u, 2, 2);
        u = tn_merge_axes(ctx, u, 3, 2);
    }
    for (i = 0; i < 2; i++) {
        int64_t at = s->padding[i] - axes[i].first * axes[i].phases;
        u = tn_shrink_axis(ctx, u, 2 + i, at, at + want[i]);
    }
    return u;
}

/* Stride and dilation on one axis: zeros between y's elements instead. */
static const struct uop *
remove_stride(struct bell_context *ctx, const struct uop *y,
              struct conv_shape *s)
{
    uint32_t i;

    assert(s->stride[0] > 0 && s->stride[1] > 0);
    for (i = 0; i < 2; i++) {
        if (s->stride[i] > 1 && s->dilation[i] > 1) {
            y = tn_stuff_axis(ctx, y, 2 + i, s->stride[i]);
            s->stride[i] = 1;
        }
    }
    return y;
}

const struct uop *
tn_conv2d_back_x(struct bell_context *ctx, const struct uop *y,
                 const struct uop *w, const struct conv_shape *shape,
                 int64_t height, int64_t width)
{
    const int64_t want[2] = {height, width};
    struct conv_shape s = *shape, plain = *shape;
    struct back_axis axes[2];
    const struct uop *u;
    uint32_t i;

    assert(tn_bad(y) || tn_bad(w) ||
           (tn_rank(ctx, y) == 4 && tn_rank(ctx, w) == 4));
    if (tn_bad(w))
        return w;
    y = remove_stride(ctx, y, &s);
    for (i = 0; i < 2 && !tn_bad(y); i++) {
        int64_t reach, before, size = tn_size(ctx, y, 2 + i);
        axes[i] = plan_back(&s, i, tn_size(ctx, w, 2 + i), want[i]);
        reach = (axes[i].taps - 1) * axes[i].dilation;
        before = reach - axes[i].first;
        y = tn_pad_axis(ctx, y, 2 + i, before,
                        axes[i].n + reach - size - before);
        plain.stride[i] = 1;
        plain.padding[i] = 0;
    }
    if (tn_bad(y))
        return y;
    u = tn_conv2d(ctx, y, turn_weight(ctx, w, s.groups, axes), &plain);
    return join_phases(ctx, u, &s, axes, want);
}

const struct uop *
tn_conv2d_back_w(struct bell_context *ctx, const struct uop *x,
                 const struct uop *y, const struct conv_shape *s, int64_t kh,
                 int64_t kw)
{
    /* windows n g i y p x q to g i p q n y x; results n g o y x to
     * g o n y x */
    static const int64_t x_order[7] = {1, 2, 4, 6, 0, 3, 5};
    static const int64_t y_order[5] = {1, 2, 0, 3, 4};
    const uint32_t summed = 1u << 5 | 1u << 6 | 1u << 7;
    const struct uop *u = take_windows(ctx, x, s, kh, kw);
    int64_t d[8];

    assert(tn_bad(x) || tn_bad(y) ||
           (tn_rank(ctx, x) == 4 && tn_rank(ctx, y) == 4));
    if (tn_bad(u) || tn_bad(y))
        return &uop_failed;
    y = tn_split_axis(ctx, y, 1, s->groups, tn_size(ctx, y, 1) / s->groups);
    y = tn_permute(ctx, y, y_order);
    u = tn_unsqueeze(ctx, tn_permute(ctx, u, x_order), 1);
    if (tn_bad(u) || tn_bad(y))
        return &uop_failed;
    memcpy(d, tn_shape(ctx, y)->d, 2 * sizeof(*d)); /* g o 1 1 1 n y x */
    d[2] = d[3] = d[4] = 1;
    memcpy(d + 5, tn_shape(ctx, y)->d + 2, 3 * sizeof(*d));
    y = tn_reshape(ctx, y, d, 8);
    u = tn_squeeze(ctx, tn_sum_product(ctx, u, y, summed), summed);
    return tn_merge_axes(ctx, u, 0, 2);
}

/* ---- calls ---- */

/* Options with their defaults; `n` axes count, the other is as if 1 wide.
 * False after a failure. */
static bool
read_options(const char *call, struct bell_context *ctx,
             const struct bell_conv_options *opt, uint32_t n,
             struct conv_shape *s)
{
    const struct bell_conv_options none = {0};
    uint32_t i;

    if (!opt)
        opt = &none;
    for (i = 0; i < 2; i++) {
        bool on = i < n;
        s->stride[i] = on && opt->stride[i] ? opt->stride[i] : 1;
        s->padding[i] = on ? opt->padding[i] : 0;
        s->dilation[i] = on && opt->dilation[i] ? opt->dilation[i] : 1;
        if (s->stride[i] < 1 || s->dilation[i] < 1 || s->padding[i] < 0 ||
            s->stride[i] > 1 << 20 || s->dilation[i] > 1 << 20 ||
            s->padding[i] > 1 << 20) {
            tensor_fail(ctx, call, BELL_BAD_VALUE,
                        "stride %lld, padding %lld, dilation %lld",
                        (long long)s->stride[i], (long long)s->padding[i],
                        (long long)s->dilation[i]);
            return false;
        }
    }
    s->groups = opt->groups ? opt->groups : 1;
    return true;
}

/* Operands of a convolution in their common dtype, as 2d; false with *out
 * set. x channels are in_channels(w) * groups. */
struct conv_operands {
    struct bell_context *ctx;
    const struct uop *x, *w, *bias;
};

static bool
take_conv_operands(const char *call, struct bell_tensor *x,
                   struct bell_tensor *w, struct bell_tensor *bias,
                   uint32_t n_axes, struct conv_operands *ops,
                   struct bell_tensor **out)
{
    struct bell_tensor *all[3] = {x, w, bias};
    uint32_t n = bias ? 3 : 2;
    enum uop_dtype dtype;

    if (!tensor_check_n(call, all, n, out))
        return false;
    ops->ctx = tensor_at(x)->ctx;
    if (tensor_at(x)->shape->n != 2 + n_axes ||
        tensor_at(w)->shape->n != 2 + n_axes) {
        *out = tensor_fail(ops->ctx, call, BELL_BAD_SHAPE,
                           "x of shape %s, weight of shape %s; %u axes each "
                           "are needed",
                           SHAPE_OF(x), SHAPE_OF(w), 2 + n_axes);
        return false;
    }
    if (tn_product(tensor_at(w)->shape->d, tensor_at(w)->shape->n) <= 0) {
        *out = tensor_fail(ops->ctx, call, BELL_BAD_SHAPE,
                           "a weight of shape %s", SHAPE_OF(w));
        return false;
    }
    dtype = tensor_wide_dtype(tensor_result_dtype(all, n, NULL));
    ops->x = tn_cast(ops->ctx, tensor_node(x), dtype);
    ops->w = tn_cast(ops->ctx, tensor_node(w), dtype);
    ops->bias = bias ? tn_cast(ops->ctx, tensor_node(bias), dtype) : NULL;
    if (n_axes == 1) {
        ops->x = tn_unsqueeze(ops->ctx, ops->x, 3);
        ops->w = tn_unsqueeze(ops->ctx, ops->w, 3);
    }
    return true;
}

/* Whether the sizes fit; `channels` of x and `n_out` results are expected. */
static bool
check_conv_sizes(const char *call, struct bell_tensor *x, struct bell_tensor *w,
                 struct bell_tensor *bias, const struct conv_shape *s,
                 int64_t channels, int64_t n_out, bool groups_fit)
{
    if (tensor_at(x)->shape->d[1] != channels || s->groups < 1 || !groups_fit) {
        tensor_fail(tensor_at(x)->ctx, call, BELL_BAD_SHAPE,
                    "x of shape %s by a weight of shape %s in %lld groups",
                    SHAPE_OF(x), SHAPE_OF(w), (long long)s->groups);
        return false;
    }
    if (bias && (tensor_at(bias)->shape->n != 1 ||
                 tensor_at(bias)->shape->d[0] != n_out)) {
        tensor_fail(tensor_at(x)->ctx, call, BELL_BAD_SHAPE,
                    "a bias of shape %s for %lld results", SHAPE_OF(bias),
                    (long long)n_out);
        return false;
    }
    return true;
}

static const struct uop *
add_bias(struct bell_context *ctx, const struct uop *u, const struct uop *bias)
{
    assert(tn_bad(u) || tn_rank(ctx, u) == 4);
    if (!bias || tn_bad(bias))
        return bias ? bias : u;
    return tn_add(
        ctx, u,
        tn_reshape(ctx, bias, (int64_t[]){tn_size(ctx, bias, 0), 1, 1}, 3));
}

static struct bell_tensor *
conv_call(const char *call, struct bell_tensor *x, struct bell_tensor *w,
          struct bell_tensor *bias, const struct bell_conv_options *opt,
          uint32_t n_axes)
{
    struct conv_operands ops;
    struct bell_tensor *out;
    struct conv_shape s;
    const struct uop *u;
    uint32_t i;

    assert(n_axes == 1 || n_axes == 2);
    if (!take_conv_operands(call, x, w, bias, n_axes, &ops, &out))
        return out;
    if (!read_options(call, ops.ctx, opt, n_axes, &s) ||
        !check_conv_sizes(
            call, x, w, bias, &s, tensor_at(w)->shape->d[1] * s.groups,
            tensor_at(w)->shape->d[0],
            s.groups > 0 && tensor_at(w)->shape->d[0] % s.groups == 0))
        return ops.ctx->error_tensor;
    for (i = 0; i < n_axes; i++) {
        int64_t reach = (tensor_at(w)->shape->d[2 + i] - 1) * s.dilation[i] + 1;
        if (reach > tensor_at(x)->shape->d[2 + i] + 2 * s.padding[i])
            return tensor_fail(ops.ctx, call, BELL_BAD_VALUE,
                               "a window of %lld elements of %lld, padding "
                               "%lld",
                               (long long)reach,
                               (long long)tensor_at(x)->shape->d[2 + i],
                               (long long)s.padding[i]);
    }
    u = add_bias(ops.ctx, tn_conv2d(ops.ctx, ops.x, ops.w, &s), ops.bias);
    if (n_axes == 1)
        u = tn_squeeze(ops.ctx, u, 1u << 3);
    return tensor_new(ops.ctx, call, u);
}

struct bell_tensor *
bell_conv2d(struct bell_tensor *x, struct bell_tensor *weight,
            struct bell_tensor *bias, const struct bell_conv_options *opt)
{
    return conv_call(__func__, x, weight, bias, opt, 2);
}

struct bell_tensor *
bell_conv1d(struct bell_tensor *x, struct bell_tensor *weight,
            struct bell_tensor *bias, const struct bell_conv_options *opt)
{
    return conv_call(__func__, x, weight, bias, opt, 1);
}

struct bell_tensor *
bell_conv_transpose2d(struct bell_tensor *x, struct bell_tensor *weight,
                      struct bell_tensor *bias,
                      const struct bell_conv_options *opt)
{
    struct conv_operands ops;
    struct bell_tensor *out;
    struct conv_shape s;
    const struct uop *u;
    int64_t size[2];
    uint32_t i;

    if (!take_conv_operands(__func__, x, weight, bias, 2, &ops, &out))
        return out;
    if (!read_options(__func__, ops.ctx, opt, 2, &s) ||
        !check_conv_sizes(
            __func__, x, weight, bias, &s, tensor_at(weight)->shape->d[0],
            tensor_at(weight)->shape->d[1] * s.groups,
            s.groups > 0 && tensor_at(x)->shape->d[1] % s.groups == 0))
        return ops.ctx->error_tensor;
    for (i = 0; i < 2; i++) {
        int64_t extra = opt ? opt->output_padding[i] : 0;
        size[i] = (tensor_at(x)->shape->d[2 + i] - 1) * s.stride[i] -
                  2 * s.padding[i] +
                  s.dilation[i] * (tensor_at(weight)->shape->d[2 + i] - 1) + 1 +
                  extra;
        if (extra < 0 || (extra >= s.stride[i] && extra >= s.dilation[i]) ||
            tensor_at(x)->shape->d[2 + i] < 1 || size[i] < 1)
            return tensor_fail(ops.ctx, __func__, BELL_BAD_SHAPE,
                               "x of shape %s to a size of %lld, output "
                               "padding %lld",
                               SHAPE_OF(x), (long long)size[i],
                               (long long)extra);
    }
    u = tn_conv2d_back_x(ops.ctx, ops.x, ops.w, &s, size[0], size[1]);
    return tensor_new(ops.ctx, __func__, add_bias(ops.ctx, u, ops.bias));
}

/* ---- pooling ---- */

struct pool_shape {
    int64_t kernel[2], stride[2], padding[2], dilation[2];
    int64_t after[2]; /* padding after the last element: ceil mode adds */
    int64_t n[2];     /* windows */
};

static bool
read_pool(const char *call, struct bell_tensor *x,
          const struct bell_pool_options *opt, struct pool_shape *s)
{
    uint32_t rank = tensor_at(x)->shape->n, i;

    if (!opt || rank < 2) {
        tensor_fail(tensor_at(x)->ctx, call,
                    opt ? BELL_BAD_SHAPE : BELL_BAD_MISSING,
                    opt ? "x of shape %s; two axes are needed"
                        : "no options for x of shape %s",
                    SHAPE_OF(x));
        return false;
    }
    for (i = 0; i < 2; i++) {
        int64_t size = tensor_at(x)->shape->d[rank - 2 + i], reach, space, n;
        int64_t k = opt->kernel[i], p = opt->padding[i];
        int64_t step = opt->stride[i] ? opt->stride[i] : k;
        int64_t dil = opt->dilation[i] ? opt->dilation[i] : 1;
        reach = (k - 1) * dil + 1;
        space = size + 2 * p - reach;
        if (k < 1 || k > 1 << 20 || step < 1 || step > 1 << 20 || dil < 1 ||
            dil > 1 << 20 || p < 0 || p > k / 2 || space < 0) {
            tensor_fail(tensor_at(x)->ctx, call, BELL_BAD_VALUE,
                        "windows of %lld by %lld, padding %lld, dilation %lld "
                        "over %s",
                        (long long)k, (long long)step, (long long)p,
                        (long long)dil, SHAPE_OF(x));
            return false;
        }
        n = space / step + 1;
        /* A partial window counts if it starts on an element. */
        if (opt->ceil_mode && space % step && n * step < size + p)
            n++;
        s->kernel[i] = k;
        s->stride[i] = step;
        s->padding[i] = p;
        s->dilation[i] = dil;
        s->n[i] = n;
        s->after[i] = (n - 1) * step + reach - size - p;
        if (s->after[i] < p)
            s->after[i] = p;
    }
    return true;
}

/* x[.., h, w] with a border of `value`, as windows [.., y, p, x, q]. */
static const struct uop *
pool_windows(struct bell_context *ctx, const struct uop *u,
             const struct pool_shape *s, double value)
{
    int64_t pads[2 * TN_MAX_RANK] = {0};
    uint32_t rank = tn_rank(ctx, u), i;

    assert(tn_bad(u) || tn_rank(ctx, u) >= 2);
    if (tn_bad(u))
        return u;
    for (i = 0; i < 2; i++) {
        pads[2 * (rank - 2 + i)] = s->padding[i];
        pads[2 * (rank - 2 + i) + 1] = s->after[i];
    }
    u = tn_pad_value(ctx, u, pads, value);
    u = tn_unfold(ctx, u, rank - 2, s->n[0], s->kernel[0], s->stride[0],
                  s->dilation[0]);
    return tn_unfold(ctx, u, rank, s->n[1], s->kernel[1], s->stride[1],
                     s->dilation[1]);
}

struct bell_tensor *
bell_max_pool2d(struct bell_tensor *x, const struct bell_pool_options *opt)
{
    const struct uop *u, *low;
    struct pool_shape s;
    struct bell_tensor *out;
    uint32_t mask;

    if (!tensor_check(__func__, x, &out))
        return out;
    if (!read_pool(__func__, x, opt, &s))
        return tensor_at(x)->ctx->error_tensor;
    u = tensor_wide_node(x);
    if (u->dtype == UOP_BOOL)
        return tensor_fail(tensor_at(x)->ctx, __func__, BELL_BAD_DTYPE,
                           "of bool; no meaning for it");
    mask =
        1u << (tensor_at(x)->shape->n - 1) | 1u << (tensor_at(x)->shape->n + 1);
    low = tn_neutral(tensor_at(x)->ctx, UOP_MAX, u->dtype);
    u = pool_windows(tensor_at(x)->ctx, u, &s,
                     tn_is_float(low) ? low->arg.f : (double)low->arg.i);
    u = tn_squeeze(tensor_at(x)->ctx,
                   tn_reduce(tensor_at(x)->ctx, UOP_MAX, u, mask), mask);
    return tensor_new(tensor_at(x)->ctx, __func__, u);
}

struct bell_tensor *
bell_avg_pool2d(struct bell_tensor *x, const struct bell_pool_options *opt)
{
    const struct uop *u, *count;
    struct bell_context *ctx;
    struct pool_shape s;
    struct bell_tensor *out;
    uint32_t mask, i;
    bool partial = false;

    if (!tensor_check(__func__, x, &out))
        return out;
    ctx = tensor_at(x)->ctx;
    if (!read_pool(__func__, x, opt, &s))
        return ctx->error_tensor;
    u = tensor_wide_node(x);
    if (!tn_is_float(u))
        return tensor_fail(ctx, __func__, BELL_BAD_DTYPE,
                           "of %s, not a float dtype", DTYPE_OF(x));
    mask =
        1u << (tensor_at(x)->shape->n - 1) | 1u << (tensor_at(x)->shape->n + 1);
    for (i = 0; i < 2; i++)
        partial = partial || s.after[i] > s.padding[i] ||
                  (opt->exclude_pad && s.padding[i] > 0);
    if (!partial) {
        u = tn_mean(ctx, pool_windows(ctx, u, &s, 0), mask);
        return tensor_new(ctx, __func__, tn_squeeze(ctx, u, mask));
    }
    /* Divided by the number of elements that count, window by window: with
     * ceil_mode the rows added beyond the padding never do. */
    count = tn_full(ctx, tn_const(ctx, u->dtype, 1), tensor_at(x)->shape->d,
                    tensor_at(x)->shape->n);
    if (!opt->exclude_pad) {
        struct pool_shape rest = s;
        for (i = 0; i < 2; i++) {
            uint32_t axis = tensor_at(x)->shape->n - 2 + i;
            int64_t p = s.padding[i];
            int64_t size = tn_size(ctx, count, axis) + 2 * p;
            int64_t d[TN_MAX_RANK];
            if (tn_bad(count))
                break;
            memcpy(d, tn_shape(ctx, count)->d,
                   tensor_at(x)->shape->n * sizeof(*d));
            d[axis] = size;
            count = tn_full(ctx, tn_const(ctx, u->dtype, 1), d,
                            tensor_at(x)->shape->n);
            rest.padding[i] = 0;
            rest.after[i] -= p;
        }
        count = pool_windows(ctx, count, &rest, 0);
    } else {
        count = pool_windows(ctx, count, &s, 0);
    }
    u = tn_sum(ctx, pool_windows(ctx, u, &s, 0), mask);
    u = tn_fdiv(ctx, u, tn_sum(ctx, count, mask));
    return tensor_new(ctx, __func__, tn_squeeze(ctx, u, mask));
}
