/* Convolution and pooling: windows (tn_unfold), a product and a reduction.
 *
 * A convolution carries a rule for its gradient, so that the adjoint in x is
 * one convolution of the same form, and not a sum over windows of sums.
 */
#include "tensor/ops/conv.h"

#include <assert.h>
#include <math.h>
#include <string.h>

#include "base/bits.h"
#include "doorbell/vision.h"
#include "tensor/core/rules.h"
#include "tensor/ops/matmul.h"
#include "tensor/ops/reduce.h"

/* ---- convolution on nodes ---- */

/* Axis i with so many zeros before and after it, or fewer elements. */
static const struct uop *
pad_or_cut(struct bell_context *ctx, const struct uop *x, uint32_t i,
           int64_t before, int64_t after)
{
    int64_t cut = before < 0 ? -before : 0;

    if (before < 0 || after < 0)
        x = tn_shrink_axis(
            ctx, x, i, cut,
            dim_add(ctx->dims, tn_size(ctx, x, i), after < 0 ? after : 0));
    return tn_pad_axis(ctx, x, i, before > 0 ? before : 0,
                       after > 0 ? after : 0);
}

void
conv_to_rule(const struct conv_shape *s, int64_t p[TENSOR_RULE_NUMBERS])
{
    memcpy(p, s->stride, sizeof(s->stride));
    memcpy(p + 3, s->padding, sizeof(s->padding));
    memcpy(p + 6, s->dilation, sizeof(s->dilation));
    p[9] = s->groups;
    p[10] = s->n_axes;
}

void
conv_from_rule(const int64_t p[TENSOR_RULE_NUMBERS], struct conv_shape *out_s)
{
    memcpy(out_s->stride, p, sizeof(out_s->stride));
    memcpy(out_s->padding, p + 3, sizeof(out_s->padding));
    memcpy(out_s->dilation, p + 6, sizeof(out_s->dilation));
    out_s->groups = p[9];
    out_s->n_axes = (uint32_t)p[10];
}

/* x[n, c, y, x] as windows [n, g, i, y, p, x, q]: group, channel in it, place
 * and offset of each axis. */
static const struct uop *
take_windows(struct bell_context *ctx, const struct uop *x,
             const struct conv_shape *s, const int64_t *size)
{
    uint32_t i;

    for (i = 0; i < s->n_axes; i++) {
        uint32_t axis = 2 + 2 * i; /* the first axis became two */
        int64_t reach = (size[i] - 1) * s->dilation[i] + 1, n;
        assert(size[i] > 0);
        x = tn_pad_axis(ctx, x, axis, s->padding[i], s->padding[i]);
        if (tn_bad(x))
            return x;
        n = dim_sub(ctx->dims, tn_size(ctx, x, axis), reach);
        n = dim_add(ctx->dims, dim_floordiv(ctx->dims, n, s->stride[i]), 1);
        x = tn_unfold(ctx, x, axis, n, size[i], s->stride[i], s->dilation[i]);
    }
    if (tn_bad(x))
        return x;
    return tn_split_axis(ctx, x, 1, s->groups, tn_size(ctx, x, 1) / s->groups);
}

/* The bits of `n` axes from `first` on. */
static uint32_t
axes_from(uint32_t first, uint32_t n)
{
    return (uint32_t)(((1ull << n) - 1) << first);
}

const struct uop *
tn_conv(struct bell_context *ctx, const struct uop *x, const struct uop *w,
        const struct conv_shape *s, bool wide)
{
    struct tensor_rule rule = {.kind = TENSOR_RULE_CONV, .a = x, .b = w};
    const struct uop_dims *shape = tn_shape(ctx, w);
    uint32_t axes = s->n_axes, summed = axes_from(3 + axes, 1 + axes), i;
    int64_t order[TN_MAX_RANK] = {0, 1}, d[TN_MAX_RANK];
    const struct uop *u, *k;

    assert(tn_bad(x) || tn_bad(w) ||
           (tn_rank(ctx, x) == 2 + axes && tn_rank(ctx, w) == 2 + axes));
    if (tn_bad(x) || tn_bad(w))
        return &uop_failed;
    u = take_windows(ctx, x, s, shape->d + 2);
    /* windows n g i y p x q to n g y x i p q */
    order[2 + axes] = 2;
    for (i = 0; i < axes; i++) {
        order[2 + i] = 3 + 2 * i;
        order[3 + axes + i] = 4 + 2 * i;
    }
    u = tn_unsqueeze(ctx, tn_permute(ctx, u, order), 2); /* n g 1 y x i p q */
    if (tn_bad(u))
        return u;
    d[0] = s->groups; /* g o 1 1 i p q */
    d[1] = shape->d[0] / s->groups;
    for (i = 0; i < axes; i++)
        d[2 + i] = 1;
    memcpy(d + 2 + axes, shape->d + 1, (1 + axes) * sizeof(*d));
    k = tn_reshape(ctx, w, d, 3 + 2 * axes);
    u = wide ? tn_sum_product_wide(ctx, u, k, summed)
             : tn_sum_product(ctx, u, k, summed);
    u = tn_squeeze(ctx, u, summed); /* n g o y x */
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

    assert(i < s->n_axes && s->stride[i] > 0 && s->dilation[i] > 0);
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
turn_weight(struct bell_context *ctx, const struct uop *w,
            const struct conv_shape *s, const struct back_axis *axes)
{
    /* g o i a r b s to g i r s o a b */
    int64_t order[TN_MAX_RANK] = {0, 2};
    uint32_t n = s->n_axes, i;

    assert(tn_bad(w) || (s->groups > 0 && tn_rank(ctx, w) == 2 + n));
    w = tn_split_axis(ctx, w, 0, s->groups, tn_size(ctx, w, 0) / s->groups);
    order[2 + n] = 1;
    for (i = 0; i < n && !tn_bad(w); i++) {
        uint32_t axis = 3 + 2 * i;
        int64_t full = axes[i].taps * axes[i].phases;
        w = tn_pad_axis(ctx, w, axis, 0, full - tn_size(ctx, w, axis));
        w = tn_split_axis(ctx, w, axis, axes[i].taps, axes[i].phases);
        order[2 + i] = axis + 1;
        order[3 + n + i] = axis;
    }
    if (tn_bad(w))
        return w;
    w = tn_merge_axes(ctx, tn_permute(ctx, w, order), 0, 2 + n);
    return tn_flip(ctx, w, axes_from(2, n));
}

/* u[n, c, r, s, Q, Q'] as [n, c, x, x'], x being (Q r). */
static const struct uop *
interleave(struct bell_context *ctx, const struct uop *u, uint32_t n)
{
    int64_t order[TN_MAX_RANK] = {0, 1};
    uint32_t i;

    for (i = 0; i < n; i++) {
        order[2 + 2 * i] = 2 + n + i;
        order[3 + 2 * i] = 2 + i;
    }
    u = tn_permute(ctx, u, order);
    for (i = 0; i < n; i++)
        u = tn_merge_axes(ctx, u, 2 + i, 2);
    return u;
}

/* u[n, (c r s), Q, Q'] as the sources [n, c, x, x']. */
static const struct uop *
join_phases(struct bell_context *ctx, const struct uop *u,
            const struct conv_shape *s, const struct back_axis *axes,
            const int64_t *want)
{
    int64_t phases = 1;
    uint32_t i;

    if (tn_bad(u))
        return u;
    for (i = 0; i < s->n_axes; i++)
        phases *= s->stride[i];
    if (phases > 1) {
        u = tn_wrap(ctx, UOP_CONTIGUOUS, u);
        for (i = s->n_axes; i-- > 0;) /* the last axis first */
            u = tn_split_axis(ctx, u, 1, tn_size(ctx, u, 1) / s->stride[i],
                              s->stride[i]);
        u = interleave(ctx, u, s->n_axes);
    }
    for (i = 0; i < s->n_axes; i++) {
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

    for (i = 0; i < s->n_axes; i++) {
        assert(s->stride[i] > 0);
        if (s->stride[i] > 1 && s->dilation[i] > 1) {
            y = tn_stuff_axis(ctx, y, 2 + i, s->stride[i]);
            s->stride[i] = 1;
        }
    }
    return y;
}

/* ---- a convolution for each number of taps ---- */

/* Where windows are not multiples of the stride, phases as channels of one
 * convolution would multiply by zeros: 16 offsets for 9 of 3 x 3 by 2, and an
 * infinity among the results would make NaN of a source that no offset of the
 * window meets there. */
static bool
divides_phases(struct bell_context *ctx, const struct conv_shape *s,
               const struct uop *w)
{
    uint32_t i;

    for (i = 0; i < s->n_axes && !tn_bad(w); i++) {
        if (tn_size(ctx, w, 2 + i) % s->stride[i])
            return true;
    }
    return false;
}

/* Sources stride * Q + phase of one axis, `n` phases from the first on, which
 * as many offsets of the window meet: taps, in the results Q + at, Q + at - 1
 * and so on. */
struct phase_range {
    int64_t phase, n, taps, offset, at;
};

#define LEAST_COPIED (1 << 12) /* of a window's elements: another kernel pays */
#define MAX_RANGES   3 /* fewer taps, more, or what is before the padding's end */

/* The ranges of axis i, their number. Offset p = stride * a + R meets source X
 * = stride * A + R of the padded axis. */
static uint32_t
find_ranges(const struct conv_shape *s, uint32_t i, int64_t window,
            struct phase_range *ranges)
{
    int64_t step = s->stride[i], taps = window / step, more = window % step;
    int64_t phase = 0;
    uint32_t n = 0;

    while (phase < step) {
        struct phase_range *r = &ranges[n++];
        int64_t end;
        assert(n <= MAX_RANGES);
        r->phase = phase;
        r->offset = (phase + s->padding[i]) % step;
        r->at = (phase + s->padding[i]) / step;
        r->taps = r->offset < more ? taps + 1 : taps;
        end = r->offset < more ? more : step;
        r->n = end - r->offset < step - phase ? end - r->offset : step - phase;
        phase += r->n;
    }
    return n;
}

/* The sources of a range on each axis, [n, c, r, r', Q, Q']; zeros where no
 * offset of the window meets them. w is [g, o, i, p, q]. */
static const struct uop *
conv_range(struct bell_context *ctx, const struct uop *y, const struct uop *w,
           const struct conv_shape *s, const int64_t *want,
           const struct phase_range *const *ranges, bool wide)
{
    /* g o i a r b s to g i r s o a b */
    int64_t order[TN_MAX_RANK] = {0, 2}, d[TN_MAX_RANK];
    struct conv_shape plain = *s;
    uint32_t n = s->n_axes, i;
    bool is_met = true;

    if (tn_bad(y) || tn_bad(w))
        return &uop_failed;
    d[0] = tn_size(ctx, y, 0);
    d[1] = s->groups * tn_size(ctx, w, 2);
    order[2 + n] = 1;
    for (i = 0; i < n; i++) {
        d[2 + i] = ranges[i]->n;
        d[2 + n + i] =
            (int64_t)div_up((uint64_t)want[i], (uint64_t)s->stride[i]);
        is_met = is_met && ranges[i]->taps > 0;
    }
    if (!is_met)
        return tn_full(
            ctx,
            tn_const(ctx,
                     wide && uop_dtype_is_small(y->dtype) ? UOP_F32 : y->dtype,
                     0),
            d, 2 + 2 * n);
    for (i = 0; i < n; i++) {
        const struct phase_range *r = ranges[i];
        int64_t step = s->stride[i], reach = (r->taps - 1) * s->dilation[i];
        int64_t before = reach - r->at, size = tn_size(ctx, y, 2 + i);
        uint32_t axis = 3 + 2 * i;
        w = pad_or_cut(ctx, w, axis, 0, r->taps * step - tn_size(ctx, w, axis));
        w = tn_split_axis(ctx, w, axis, r->taps, step);
        w = tn_shrink_axis(ctx, w, axis + 1, r->offset, r->offset + r->n);
        order[2 + i] = axis + 1;
        order[3 + n + i] = axis;
        y = pad_or_cut(ctx, y, 2 + i, before,
                       d[2 + n + i] + reach - size - before);
        plain.stride[i] = 1;
        plain.padding[i] = 0;
    }
    w = tn_merge_axes(ctx, tn_permute(ctx, w, order), 0, 2 + n);
    w = tn_flip(ctx, w, axes_from(2, n));
    if (tensor_device_is_cpu(ctx) && !tn_bad(w) &&
        tn_numel(ctx, w) >= LEAST_COPIED)
        w = tn_wrap(ctx, UOP_CONTIGUOUS, w);
    y = tn_wrap(ctx, UOP_CONTIGUOUS, tn_conv(ctx, y, w, &plain, wide));
    return tn_reshape(ctx, y, d, 2 + 2 * n);
}

/* A convolution for each combination of ranges, joined. */
static const struct uop *
conv_ranges(struct bell_context *ctx, const struct uop *y, const struct uop *w,
            const struct conv_shape *s, const int64_t *want, bool wide)
{
    const struct uop *parts[MAX_RANGES * MAX_RANGES * MAX_RANGES], *u;
    struct tensor_rule rule = {.kind = TENSOR_RULE_CONV_BACK, .a = y, .b = w};
    struct phase_range ranges[3][MAX_RANGES];
    uint32_t count[3] = {1, 1, 1}, all = 1, n = s->n_axes, i, k;

    for (i = 0; i < n; i++) {
        count[i] = find_ranges(s, i, tn_size(ctx, w, 2 + i), ranges[i]);
        all *= count[i];
    }
    w = tn_split_axis(ctx, w, 0, s->groups, tn_size(ctx, w, 0) / s->groups);
    for (k = 0; k < all; k++) {
        const struct phase_range *these[3] = {NULL};
        uint32_t at = k;
        for (i = n; i-- > 0; at /= count[i])
            these[i] = &ranges[i][at % count[i]];
        parts[k] = conv_range(ctx, y, w, s, want, these, wide);
    }
    for (i = n; i-- > 0; all /= count[i]) { /* the last axis first */
        for (k = 0; k < all / count[i]; k++)
            parts[k] = tn_join(ctx, parts + k * count[i], count[i], 2 + i);
    }
    u = interleave(ctx, parts[0], n);
    for (i = 0; i < n; i++)
        u = tn_shrink_axis(ctx, u, 2 + i, 0, want[i]);
    conv_to_rule(s, rule.p);
    return tensor_rule_add(ctx, u, &rule);
}

const struct uop *
tn_conv_back_x(struct bell_context *ctx, const struct uop *y,
               const struct uop *w, const struct conv_shape *shape,
               const int64_t *want, bool wide)
{
    struct conv_shape s = *shape, plain = *shape;
    struct back_axis axes[3];
    const struct uop *u;
    uint32_t i, n = shape->n_axes;

    assert(tn_bad(y) || tn_bad(w) ||
           (tn_rank(ctx, y) == 2 + n && tn_rank(ctx, w) == 2 + n));
    if (tn_bad(w))
        return w;
    if (dims_in(want, n))
        return tn_fail(ctx, BELL_BAD_SHAPE,
                       "no gradient goes to an image whose sides have sizes of "
                       "symbols");
    y = remove_stride(ctx, y, &s);
    if (divides_phases(ctx, &s, w))
        return conv_ranges(ctx, y, w, &s, want, wide);
    for (i = 0; i < n && !tn_bad(y); i++) {
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
    u = tn_conv(ctx, y, turn_weight(ctx, w, &s, axes), &plain, wide);
    return join_phases(ctx, u, &s, axes, want);
}

const struct uop *
tn_conv_reached(struct bell_context *ctx, const struct uop *x,
                struct conv_shape *s, const int64_t *n, const int64_t *window)
{
    uint32_t i;

    assert(tn_bad(x) || tn_rank(ctx, x) == 2 + s->n_axes);
    for (i = 0; i < s->n_axes && !tn_bad(x); i++) {
        int64_t reach = (window[i] - 1) * s->dilation[i] + 1;
        int64_t size = tn_size(ctx, x, 2 + i) + 2 * s->padding[i];
        int64_t used = (n[i] - 1) * s->stride[i] + reach;
        if (size - used >= 0 && size - used < s->stride[i])
            continue;
        x = tn_pad_axis(ctx, x, 2 + i, s->padding[i],
                        s->padding[i] + (used > size ? used - size : 0));
        x = tn_shrink_axis(ctx, x, 2 + i, 0, used);
        s->padding[i] = 0;
    }
    return x;
}

const struct uop *
tn_conv_back_w(struct bell_context *ctx, const struct uop *x,
               const struct uop *y, const struct conv_shape *s,
               const int64_t *window)
{
    /* windows n g i y p x q to g i p q n y x; results n g o y x to
     * g o n y x */
    int64_t x_order[TN_MAX_RANK] = {1, 2}, y_order[TN_MAX_RANK] = {1, 2, 0};
    uint32_t axes = s->n_axes, summed = axes_from(3 + axes, 1 + axes), i;
    const struct uop *u = take_windows(ctx, x, s, window);
    int64_t d[TN_MAX_RANK];

    assert(tn_bad(x) || tn_bad(y) ||
           (tn_rank(ctx, x) == 2 + axes && tn_rank(ctx, y) == 2 + axes));
    if (tn_bad(u) || tn_bad(y))
        return &uop_failed;
    x_order[2 + axes] = 0;
    for (i = 0; i < axes; i++) {
        x_order[2 + i] = 4 + 2 * i;
        x_order[3 + axes + i] = 3 + 2 * i;
        y_order[3 + i] = 3 + i;
    }
    y = tn_split_axis(ctx, y, 1, s->groups, tn_size(ctx, y, 1) / s->groups);
    y = tn_permute(ctx, y, y_order);
    u = tn_unsqueeze(ctx, tn_permute(ctx, u, x_order), 1);
    if (tn_bad(u) || tn_bad(y))
        return &uop_failed;
    memcpy(d, tn_shape(ctx, y)->d, 2 * sizeof(*d)); /* g o 1 1 1 n y x */
    for (i = 0; i <= axes; i++)
        d[2 + i] = 1;
    memcpy(d + 3 + axes, tn_shape(ctx, y)->d + 2, (1 + axes) * sizeof(*d));
    y = tn_reshape(ctx, y, d, 4 + 2 * axes);
    u = tn_squeeze(ctx, tn_sum_product(ctx, u, y, summed), summed);
    return tn_merge_axes(ctx, u, 0, 2);
}

/* ---- calls ---- */

#define MAX_PADDING (1 << 20) /* and stride, dilation */

/* Options as *opt and, with their defaults, for n axes; `end` is what is more
 * behind the last element. Padding below `least` is refused. False after a
 * failure. */
static bool
read_options(const char *call, struct bell_context *ctx,
             const struct bell_conv_options *options, uint32_t n, int64_t least,
             struct bell_conv_options *opt, struct conv_shape *s,
             int64_t end[3])
{
    uint32_t i;

    if (tensor_options(call, options, sizeof(*opt), sizeof(*opt), opt) !=
        BELL_OK) {
        tensor_fail_told(ctx);
        return false;
    }
    *s = (struct conv_shape){.n_axes = n};
    for (i = 0; i < n; i++) {
        s->stride[i] = opt->stride[i] ? opt->stride[i] : 1;
        s->padding[i] = opt->padding[i];
        s->dilation[i] = opt->dilation[i] ? opt->dilation[i] : 1;
        end[i] = opt->padding_end[i];
        if (s->stride[i] < 1 || s->dilation[i] < 1 || s->padding[i] < least ||
            s->stride[i] > MAX_PADDING || s->dilation[i] > MAX_PADDING ||
            s->padding[i] > MAX_PADDING) {
            tensor_fail(
                ctx, call, BELL_BAD_VALUE,
                "stride %lld, padding %lld, dilation %lld: expected strides "
                "and dilations from 1, padding from %lld, all up to 2^20",
                (long long)s->stride[i], (long long)s->padding[i],
                (long long)s->dilation[i], (long long)least);
            return false;
        }
        if (end[i] < least - s->padding[i] || end[i] > MAX_PADDING) {
            tensor_fail(ctx, call, BELL_BAD_VALUE,
                        "padding %lld and %lld more at the end: expected a sum "
                        "from %lld, and up to 2^20 more",
                        (long long)s->padding[i], (long long)end[i],
                        (long long)least);
            return false;
        }
    }
    s->groups = opt->groups ? opt->groups : 1;
    return true;
}

/* Operands of a convolution in their common dtype, the bias of halves in
 * float32; false with *out set. x channels are in_channels(w) * groups. */
struct conv_operands {
    struct bell_context *ctx;
    const struct uop *x, *w, *bias;
    enum uop_dtype dtype;
    const int64_t *d; /* x's sizes from that of the channels on */
    bool is_single;   /* x was one image, without an axis for several */
};

static bool
take_conv_operands(const char *call, struct bell_tensor *x,
                   struct bell_tensor *w, struct bell_tensor *bias,
                   uint32_t n_axes, bool plain_image, struct conv_operands *ops,
                   struct bell_tensor **out)
{
    struct bell_tensor *all[3] = {x, w, bias};
    uint32_t n = bias ? 3 : 2;
    enum uop_dtype dtype;

    if (!tensor_takes_n(call, all, n, out) ||
        !tensor_plain_axes(call, w, ~0u, "weights are of plain sizes", out))
        return false;
    ops->ctx = tensor_at(x)->ctx;
    ops->is_single = tensor_at(x)->shape->n == 1 + n_axes;
    if ((tensor_at(x)->shape->n != 2 + n_axes && !ops->is_single) ||
        tensor_at(w)->shape->n != 2 + n_axes) {
        *out = tensor_fail(ops->ctx, call, BELL_BAD_SHAPE,
                           "x of shape %s, weight of shape %s; %u axes each "
                           "are needed",
                           SHAPE_OF(x), SHAPE_OF(w), 2 + n_axes);
        return false;
    }
    if (!tensor_plain_axes(call, x, ops->is_single ? 1 : 2,
                           "channels are of plain sizes", out) ||
        (plain_image && !tensor_plain_axes(call, x, ~(ops->is_single ? 0u : 1u),
                                           "phases of it are counted", out)))
        return false;
    ops->d = tensor_at(x)->shape->d + !ops->is_single;
    if (tn_product(tensor_at(w)->shape->d, tensor_at(w)->shape->n) <= 0) {
        *out = tensor_fail(ops->ctx, call, BELL_BAD_SHAPE,
                           "a weight of shape %s has no elements", SHAPE_OF(w));
        return false;
    }
    dtype = tensor_wide_dtype(tensor_result_dtype(all, n, NULL));
    ops->x = tn_cast(ops->ctx, tensor_node(x), dtype);
    if (ops->is_single)
        ops->x = tn_unsqueeze(ops->ctx, ops->x, 0);
    ops->w = tn_cast(ops->ctx, tensor_node(w), dtype);
    ops->bias = NULL;
    if (bias)
        ops->bias =
            tn_widen(ops->ctx, tn_cast(ops->ctx, tensor_node(bias), dtype));
    ops->dtype = dtype;
    return true;
}

/* Whether the sizes fit; `channels` of x and `n_out` results are expected. */
static bool
check_conv_sizes(const char *call, struct bell_tensor *x, struct bell_tensor *w,
                 struct bell_tensor *bias, const struct conv_operands *ops,
                 const struct conv_shape *s, int64_t channels, int64_t n_out,
                 bool groups_fit)
{
    if (s->groups < 1 || !groups_fit) {
        tensor_fail(tensor_at(x)->ctx, call, BELL_BAD_SHAPE,
                    "x of shape %s by a weight of shape %s in %lld groups: "
                    "they must divide the first axis of the weight",
                    SHAPE_OF(x), SHAPE_OF(w), (long long)s->groups);
        return false;
    }
    if (ops->d[0] != channels) {
        tensor_fail(tensor_at(x)->ctx, call, BELL_BAD_SHAPE,
                    "x of shape %s by a weight of shape %s in %lld groups: "
                    "expected %lld channels of x",
                    SHAPE_OF(x), SHAPE_OF(w), (long long)s->groups,
                    (long long)channels);
        return false;
    }
    if (bias && (tensor_at(bias)->shape->n != 1 ||
                 tensor_at(bias)->shape->d[0] != n_out)) {
        tensor_fail(tensor_at(x)->ctx, call, BELL_BAD_SHAPE,
                    "a bias of shape %s for %lld channels of the result; "
                    "expected one element for each",
                    SHAPE_OF(bias), (long long)n_out);
        return false;
    }
    return true;
}

/* The result: u, wide where there is a bias, and the bias; as many images as
 * x. */
static struct bell_tensor *
finish_conv(const char *call, const struct conv_operands *ops,
            const struct uop *u)
{
    const struct uop *bias = ops->bias;
    struct bell_context *ctx = ops->ctx;
    int64_t d[4] = {1, 1, 1, 1};

    if (bias && tn_bad(bias))
        u = bias;
    if (bias && !tn_bad(u)) {
        d[0] = tn_size(ctx, bias, 0);
        u = tn_add(ctx, u, tn_reshape(ctx, bias, d, tn_rank(ctx, u) - 1));
    }
    if (ops->is_single)
        u = tn_squeeze(ctx, u, 1);
    return tensor_new(ctx, call, tn_cast(ctx, u, ops->dtype));
}

static struct bell_tensor *
conv_call(const char *call, struct bell_tensor *x, struct bell_tensor *w,
          struct bell_tensor *bias, const struct bell_conv_options *options,
          uint32_t n_axes)
{
    struct bell_conv_options opt;
    struct conv_operands ops;
    struct bell_tensor *out;
    struct conv_shape s;
    int64_t end[3];
    uint32_t i;

    assert(n_axes >= 1 && n_axes <= 3);
    if (!take_conv_operands(call, x, w, bias, n_axes, false, &ops, &out))
        return out;
    if (!read_options(call, ops.ctx, options, n_axes, -MAX_PADDING, &opt, &s,
                      end) ||
        !check_conv_sizes(
            call, x, w, bias, &ops, &s, tensor_at(w)->shape->d[1] * s.groups,
            tensor_at(w)->shape->d[0],
            s.groups > 0 && tensor_at(w)->shape->d[0] % s.groups == 0))
        return ops.ctx->error_tensor;
    for (i = 0; i < n_axes; i++) {
        int64_t reach = (tensor_at(w)->shape->d[2 + i] - 1) * s.dilation[i] + 1;
        int64_t before = s.padding[i], after = s.padding[i] + end[i];
        int64_t least, most;
        dim_bounds(ops.ctx->dims, ops.d[1 + i], &least, &most);
        if (reach > least + before + after || -before > least || -after > least)
            return tensor_fail(ops.ctx, call, BELL_BAD_VALUE,
                               "a window of %lld elements must fit an axis of "
                               "%lld with a padding of %lld",
                               (long long)reach, (long long)least,
                               (long long)s.padding[i]);
        if (end[i] == 0 && before >= 0)
            continue;
        if (!tn_bad(ops.x))
            ops.x = pad_or_cut(ops.ctx, ops.x, 2 + i, before, after);
        s.padding[i] = 0;
    }
    return finish_conv(call, &ops,
                       tn_conv(ops.ctx, ops.x, ops.w, &s, bias != NULL));
}

static struct bell_tensor *
transpose_call(const char *call, struct bell_tensor *x,
               struct bell_tensor *weight, struct bell_tensor *bias,
               const struct bell_conv_options *options, uint32_t n_axes)
{
    struct bell_conv_options opt;
    struct conv_operands ops;
    struct bell_tensor *out;
    struct conv_shape s;
    const struct uop *u;
    int64_t size[3], end[3];
    uint32_t i;

    if (!take_conv_operands(call, x, weight, bias, n_axes, true, &ops, &out))
        return out;
    if (!read_options(call, ops.ctx, options, n_axes, 0, &opt, &s, end) ||
        !check_conv_sizes(call, x, weight, bias, &ops, &s,
                          tensor_at(weight)->shape->d[0],
                          tensor_at(weight)->shape->d[1] * s.groups,
                          s.groups > 0 && ops.d[0] % s.groups == 0))
        return ops.ctx->error_tensor;
    for (i = 0; i < n_axes; i++) {
        int64_t extra = opt.output_padding[i];
        size[i] = (ops.d[1 + i] - 1) * s.stride[i] - 2 * s.padding[i] - end[i] +
                  s.dilation[i] * (tensor_at(weight)->shape->d[2 + i] - 1) + 1 +
                  extra;
        if (extra < 0 || (extra >= s.stride[i] && extra >= s.dilation[i]) ||
            ops.d[1 + i] < 1 || size[i] < 0)
            return tensor_fail(
                ops.ctx, call, BELL_BAD_SHAPE,
                "x of shape %s to a size of %lld, output padding %lld: "
                "expected axes of x from 1, a size from 0, and output padding "
                "below the stride or the dilation",
                SHAPE_OF(x), (long long)size[i], (long long)extra);
    }
    u = tn_conv_back_x(ops.ctx, ops.x, ops.w, &s, size, bias != NULL);
    return finish_conv(call, &ops, u);
}

#define CONVOLUTION(name, call, n_axes)                                        \
    struct bell_tensor *name(                                                  \
        struct bell_tensor *x, struct bell_tensor *weight,                     \
        struct bell_tensor *bias, const struct bell_conv_options *opt)         \
    {                                                                          \
        return call(__func__, x, weight, bias, opt, n_axes);                   \
    }

CONVOLUTION(bell_conv1d, conv_call, 1)
CONVOLUTION(bell_conv2d, conv_call, 2)
CONVOLUTION(bell_conv3d, conv_call, 3)
CONVOLUTION(bell_conv_transpose1d, transpose_call, 1)
CONVOLUTION(bell_conv_transpose2d, transpose_call, 2)
CONVOLUTION(bell_conv_transpose3d, transpose_call, 3)

/* ---- pooling ---- */

struct pool_shape {
    uint32_t n_axes; /* the last so many */
    int64_t kernel[3], stride[3], padding[3], dilation[3];
    int64_t after[3]; /* padding after the last element: ceil mode adds */
    int64_t n[3];     /* windows */
    bool exclude_pad;
};

/* The last n of `rank` axes. */
static uint32_t
last_axes(uint32_t rank, uint32_t n)
{
    return axes_from(rank - n, n);
}

static bool
read_pool(const char *call, struct bell_tensor *x,
          const struct bell_pool_options *options, uint32_t n_axes,
          struct pool_shape *s)
{
    uint32_t rank = tensor_at(x)->shape->n, i;
    struct dim_table *t = tensor_at(x)->ctx->dims;
    struct bell_pool_options o, *opt = &o;
    struct bell_tensor *error;

    if (!options) {
        tensor_fail(tensor_at(x)->ctx, call, BELL_BAD_MISSING,
                    "no options for x of shape %s", SHAPE_OF(x));
        return false;
    }
    if (tensor_options(call, options, sizeof(o), sizeof(o), &o) != BELL_OK) {
        tensor_fail_told(tensor_at(x)->ctx);
        return false;
    }
    if (rank < n_axes) {
        tensor_fail(tensor_at(x)->ctx, call, BELL_BAD_SHAPE,
                    "x of shape %s; %u axes are needed", SHAPE_OF(x), n_axes);
        return false;
    }
    if (o.ceil_mode &&
        !tensor_plain_axes(call, x, last_axes(rank, n_axes),
                           "a partial window is one by its value", &error))
        return false;
    *s = (struct pool_shape){.n_axes = n_axes, .exclude_pad = o.exclude_pad};
    for (i = 0; i < n_axes; i++) {
        int64_t size = tensor_at(x)->shape->d[rank - n_axes + i], reach, space,
                n, most;
        int64_t k = opt->kernel[i], p = opt->padding[i];
        int64_t step = opt->stride[i] ? opt->stride[i] : k;
        int64_t dil = opt->dilation[i] ? opt->dilation[i] : 1;
        reach = (k - 1) * dil + 1;
        dim_bounds(t, size, &space, &most);
        space += 2 * p - reach; /* at least */
        if (k < 1 || k > 1 << 20 || step < 1 || step > 1 << 20 || dil < 1 ||
            dil > 1 << 20 || p < 0 || p > k / 2 ||
            space < (opt->ceil_mode && most + p > 0 ? 1 - step : 0)) {
            tensor_fail(tensor_at(x)->ctx, call, BELL_BAD_VALUE,
                        "windows of %lld by %lld, padding %lld, dilation %lld "
                        "over %s; %s",
                        (long long)k, (long long)step, (long long)p,
                        (long long)dil, SHAPE_OF(x),
                        space < 0 ? "an axis is shorter than a window"
                                  : "sizes must be 1 to 2^20, and padding half "
                                    "a window at most");
            return false;
        }
        n = dim_floordiv(t, dim_add(t, size, 2 * p - reach), step);
        n = dim_add(t, n, 1);
        /* A partial window counts if it starts on an element. */
        if (opt->ceil_mode && space % step && n * step < size + p)
            n++;
        s->kernel[i] = k;
        s->stride[i] = step;
        s->padding[i] = p;
        s->dilation[i] = dil;
        s->n[i] = n;
        s->after[i] = p;
        if (opt->ceil_mode)
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

    if (tn_bad(u))
        return u;
    assert(rank >= s->n_axes);
    for (i = 0; i < s->n_axes; i++) {
        pads[2 * (rank - s->n_axes + i)] = s->padding[i];
        pads[2 * (rank - s->n_axes + i) + 1] = s->after[i];
    }
    u = tn_pad_value(ctx, u, pads, value);
    for (i = 0; i < s->n_axes; i++)
        u = tn_unfold(ctx, u, rank - s->n_axes + 2 * i, s->n[i], s->kernel[i],
                      s->stride[i], s->dilation[i]);
    return u;
}

/* The axes of windows of what has `rank` axes, of their offsets. */
static uint32_t
window_axes(const struct pool_shape *s, uint32_t rank)
{
    uint32_t mask = 0, i;

    for (i = 0; i < s->n_axes; i++)
        mask |= tn_axis_bit(rank - s->n_axes + 2 * i + 1);
    return mask;
}

/* The greatest of each window, the axes of offsets kept. The border, which is
 * minus infinity, never takes the gradient of a window that is so throughout:
 * elements are compared with a border of NaN. */
static const struct uop *
max_windows(struct bell_context *ctx, const struct uop *x,
            const struct pool_shape *s, uint32_t mask, const struct uop **out_u)
{
    const struct uop *low = tn_neutral(ctx, UOP_MAX, x->dtype), *max;
    struct tensor_rule rule = {.kind = TENSOR_RULE_TIES, .p = {mask}};
    uint32_t i;
    bool has_border = false;

    *out_u = pool_windows(ctx, x, s,
                          tn_is_float(low) ? low->arg.f : (double)low->arg.i);
    max = tn_reduce(ctx, UOP_MAX, *out_u, mask);
    for (i = 0; i < s->n_axes; i++)
        has_border = has_border || s->padding[i] > 0 || s->after[i] > 0;
    if (!has_border || !tn_is_float(x))
        return max;
    rule.a = pool_windows(ctx, x, s, (double)NAN);
    return tensor_rule_add(ctx, max, &rule);
}

static struct bell_tensor *
max_call(const char *call, struct bell_tensor *x,
         const struct bell_pool_options *opt, uint32_t n_axes)
{
    const struct uop *u, *windows;
    struct pool_shape s;
    struct bell_tensor *out;
    uint32_t mask;

    if (!tensor_takes(call, x, &out))
        return out;
    if (!read_pool(call, x, opt, n_axes, &s))
        return tensor_at(x)->ctx->error_tensor;
    u = tensor_wide_node(x);
    if (u->dtype == UOP_BOOL)
        return tensor_fail(tensor_at(x)->ctx, call, BELL_BAD_DTYPE,
                           "of bool; no meaning for it");
    mask = window_axes(&s, tensor_at(x)->shape->n);
    u = max_windows(tensor_at(x)->ctx, u, &s, mask, &windows);
    u = tn_squeeze(tensor_at(x)->ctx, u, mask);
    return tensor_new(tensor_at(x)->ctx, call, u);
}

/* Numbers, I64, of the elements of windows among those of the last axes; *in:
 * whether they are elements, not the border's. */
static const struct uop *
number_windows(struct bell_context *ctx, const struct pool_shape *s,
               const int64_t *size, uint32_t rank, const struct uop **in)
{
    const struct uop *number = NULL, *at, *fits,
                     *zero = tn_int(ctx, UOP_I64, 0);
    uint32_t axis, i;

    *in = NULL;
    for (i = 0; i < s->n_axes; i++) {
        axis = rank - 2 * (s->n_axes - i);
        at = tn_iota(ctx, rank, axis, s->n[i], UOP_I64);
        at = tn_mul_c(ctx, at, (double)s->stride[i]);
        at = tn_add_c(ctx, at, -(double)s->padding[i]);
        at = tn_add(
            ctx, at,
            tn_mul_c(ctx, tn_iota(ctx, rank, axis + 1, s->kernel[i], UOP_I64),
                     (double)s->dilation[i]));
        fits = tn_and(ctx, tn_not(ctx, tn_lt(ctx, at, zero)),
                      tn_lt(ctx, at, tn_count(ctx, size[i])));
        *in = *in ? tn_and(ctx, *in, fits) : fits;
        if (number)
            at = tn_add(ctx, tn_mul(ctx, number, tn_count(ctx, size[i])), at);
        number = at;
    }
    return number;
}

/* The number of the first greatest element of each window u, of the last NaN
 * if there is one; max keeps the window's axes. */
static const struct uop *
find_max(struct bell_context *ctx, const struct pool_shape *s,
         const int64_t *size, const struct uop *u, const struct uop *max,
         uint32_t mask)
{
    const struct uop *number, *in, *first, *last, *is_nan;
    const struct uop *none = tn_int(ctx, UOP_I64, INT64_MAX);

    if (tn_bad(u) || tn_bad(max))
        return &uop_failed;
    number = number_windows(ctx, s, size, tn_rank(ctx, u), &in);
    first = tn_where(ctx, tn_and(ctx, in, tn_eq(ctx, u, max)), number, none);
    first = tn_reduce(ctx, UOP_MIN, first, mask);
    if (!tn_is_float(u))
        return first;
    is_nan = tn_ne(ctx, u, u);
    last = tn_where(ctx, is_nan, number, tn_int(ctx, UOP_I64, -1));
    last = tn_reduce(ctx, UOP_MAX, last, mask);
    return tn_where(ctx, tn_ne(ctx, max, max), last, first);
}

void
bell_max_pool_indices(struct bell_tensor *x, uint32_t n_axes,
                      const struct bell_pool_options *opt,
                      struct bell_tensor **out_values,
                      struct bell_tensor **out_indices)
{
    const struct uop *u, *max;
    struct bell_tensor *error;
    struct bell_context *ctx;
    struct pool_shape s;
    bool fits = false;
    uint32_t mask;

    if (tensor_takes(__func__, x, &error)) {
        ctx = tensor_at(x)->ctx;
        error = ctx->error_tensor;
        if (n_axes < 1 || n_axes > 3)
            tensor_fail(ctx, __func__, BELL_BAD_VALUE, "%u axes, not 1 to 3",
                        n_axes);
        else if (tensor_at(x)->dtype == UOP_BOOL)
            tensor_fail(ctx, __func__, BELL_BAD_DTYPE,
                        "of bool; no meaning for it");
        else
            fits = read_pool(__func__, x, opt, n_axes, &s);
    }
    if (out_values)
        *out_values = error;
    if (out_indices)
        *out_indices = error;
    if (!fits)
        return;
    u = tensor_wide_node(x);
    mask = window_axes(&s, tensor_at(x)->shape->n);
    max = max_windows(ctx, u, &s, mask, &u);
    if (out_values)
        *out_values = tensor_new(ctx, __func__, tn_squeeze(ctx, max, mask));
    if (out_indices) {
        u = find_max(ctx, &s,
                     tensor_at(x)->shape->d + tensor_at(x)->shape->n - n_axes,
                     u, max, mask);
        *out_indices = tensor_new(ctx, __func__, tn_squeeze(ctx, u, mask));
    }
}

static struct bell_tensor *
avg_call(const char *call, struct bell_tensor *x,
         const struct bell_pool_options *opt, uint32_t n_axes)
{
    const struct uop *u, *count;
    enum uop_dtype dtype;
    struct bell_context *ctx;
    struct pool_shape s;
    struct bell_tensor *out;
    uint32_t mask, i;
    bool partial = false;

    if (!tensor_takes(call, x, &out))
        return out;
    ctx = tensor_at(x)->ctx;
    if (!read_pool(call, x, opt, n_axes, &s))
        return ctx->error_tensor;
    u = tensor_wide_node(x);
    if (!tn_is_float(u))
        return tensor_fail(ctx, call, BELL_BAD_DTYPE,
                           "of %s, not a float dtype", DTYPE_OF(x));
    dtype = u->dtype;
    u = tn_widen(ctx, u); /* rounded once, after the division */
    mask = window_axes(&s, tensor_at(x)->shape->n);
    for (i = 0; i < n_axes; i++)
        partial = partial || s.after[i] > s.padding[i] ||
                  (s.exclude_pad && s.padding[i] > 0);
    if (!partial) {
        u = tn_mean(ctx, pool_windows(ctx, u, &s, 0), mask);
        return tensor_new(ctx, call,
                          tn_cast(ctx, tn_squeeze(ctx, u, mask), dtype));
    }
    /* Divided by the number of elements that count, window by window: with
     * ceil_mode the rows added beyond the padding never do. */
    count = tn_full(ctx, tn_const(ctx, u->dtype, 1), tensor_at(x)->shape->d,
                    tensor_at(x)->shape->n);
    if (!s.exclude_pad) {
        struct pool_shape rest = s;
        for (i = 0; i < n_axes; i++) {
            uint32_t axis = tensor_at(x)->shape->n - n_axes + i;
            int64_t p = s.padding[i];
            int64_t size = dim_add(ctx->dims, tn_size(ctx, count, axis), 2 * p);
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
    return tensor_new(ctx, call, tn_cast(ctx, tn_squeeze(ctx, u, mask), dtype));
}

#define POOLING(name, call, n_axes)                                            \
    struct bell_tensor *name(struct bell_tensor *x,                            \
                             const struct bell_pool_options *opt)              \
    {                                                                          \
        return call(__func__, x, opt, n_axes);                                 \
    }

POOLING(bell_max_pool1d, max_call, 1)
POOLING(bell_max_pool2d, max_call, 2)
POOLING(bell_max_pool3d, max_call, 3)
POOLING(bell_avg_pool1d, avg_call, 1)
POOLING(bell_avg_pool2d, avg_call, 2)
POOLING(bell_avg_pool3d, avg_call, 3)

/* ---- pooling to given sizes ---- */

/* An axis of `size` elements has n equal parts: finds the first element that
 * part o overlaps, and the one behind the last. */
static void
find_part(struct bell_context *ctx, const struct uop *o, int64_t size,
          int64_t n, const struct uop **out_first, const struct uop **out_end)
{
    const struct uop *parts = tn_int(ctx, UOP_I64, n);

    o = tn_mul_c(ctx, o, (double)size);
    *out_first = tn_alu2(ctx, UOP_FLOORDIV, o, parts);
    /* ceil((o + 1) * size / n) */
    *out_end = tn_alu2(ctx, UOP_FLOORDIV,
                       tn_add_c(ctx, o, (double)(size + n - 1)), parts);
}

const struct uop *
tn_overlap(struct bell_context *ctx, const struct uop *u, uint32_t axis,
           int64_t n)
{
    struct tensor_rule rule = {.kind = TENSOR_RULE_OVERLAP, .a = u};
    int64_t size, most, d[TN_MAX_RANK];
    const struct uop *first, *end, *i, *in;
    uint32_t rank;

    if (tn_bad(u))
        return u;
    rank = tn_rank(ctx, u);
    size = tn_size(ctx, u, axis);
    most = (size + n - 1) / n + 1;
    most = most < size ? most : size;
    find_part(ctx, tn_iota(ctx, rank + 1, axis, n, UOP_I64), size, n, &first,
              &end);
    i = tn_add(ctx, first, tn_iota(ctx, rank + 1, axis + 1, most, UOP_I64));
    in = tn_lt(ctx, i, end);
    i = tn_min(ctx, i, tn_int(ctx, UOP_I64, size - 1));
    if (tn_bad(i) || tn_bad(in))
        return &uop_failed;
    memcpy(d, tn_shape(ctx, u)->d, rank * sizeof(*d));
    d[axis] = n * most;
    i = tn_expand(ctx, tn_merge_axes(ctx, i, axis, 2), d);
    u = tn_split_axis(ctx, tn_gather(ctx, u, axis, i), axis, n, most);
    u = tn_where(ctx, in, u, tn_const(ctx, u->dtype, 0));
    u = tn_squeeze(ctx, tn_sum(ctx, u, 2u << axis), 2u << axis);
    rule.p[0] = axis;
    return tensor_rule_add(ctx, u, &rule);
}

/* One axis, of which n become; u is float32 or float64. */
static const struct uop *
adapt_axis(struct bell_context *ctx, const struct uop *u, uint32_t axis,
           int64_t n)
{
    const struct uop *first, *end, *count, *sum;
    int64_t size = tn_size(ctx, u, axis);

    if (n == size)
        return u;
    if (size % n == 0) {
        u = tn_split_axis(ctx, u, axis, n, size / n);
        return tn_squeeze(ctx, tn_mean(ctx, u, 2u << axis), 2u << axis);
    }
    find_part(ctx, tn_iota(ctx, tn_rank(ctx, u), axis, n, UOP_I64), size, n,
              &first, &end);
    sum = tn_overlap(ctx, u, axis, n);
    count = tn_cast(ctx, tn_sub(ctx, end, first), sum->dtype);
    return tn_fdiv(ctx, sum, count);
}

struct bell_tensor *
bell_adaptive_avg_pool(struct bell_tensor *x, const int64_t *sizes, uint32_t n)
{
    struct bell_context *ctx;
    struct bell_tensor *out;
    const struct uop *u;
    enum uop_dtype dtype;
    uint32_t rank, i;

    if (!tensor_takes(__func__, x, &out))
        return out;
    ctx = tensor_at(x)->ctx;
    rank = tensor_at(x)->shape->n;
    u = tensor_wide_node(x);
    if (!tn_is_float(u))
        return tensor_fail(ctx, __func__, BELL_BAD_DTYPE,
                           "of %s, not a float dtype", DTYPE_OF(x));
    if (n > rank || (n && !sizes) || rank == TN_MOST_AXES)
        return tensor_fail(
            ctx, __func__, BELL_BAD_SHAPE,
            "x of shape %s to %u sizes: expected an axis for each size",
            SHAPE_OF(x), n);
    if (!tensor_plain_axes(__func__, x, last_axes(rank, n),
                           "parts of it are counted", &out))
        return out;
    dtype = u->dtype;
    u = tn_widen(ctx, u); /* rounded once, not at each axis */
    for (i = 0; i < n && !tn_bad(u); i++) {
        uint32_t axis = rank - n + i;
        int64_t size = tn_size(ctx, u, axis);
        if (sizes[i] < 0 || sizes[i] > 1 << 20 || (size == 0 && sizes[i] > 0))
            return tensor_fail(ctx, __func__, BELL_BAD_VALUE,
                               "axis %u of %s to a size of %lld: expected 0 to "
                               "2^20, and 0 of an empty axis",
                               axis, SHAPE_OF(x), (long long)sizes[i]);
        if (sizes[i] > 0)
            u = adapt_axis(ctx, u, axis, sizes[i]);
    }
    return tensor_new(ctx, __func__, tn_bad(u) ? u : tn_cast(ctx, u, dtype));
}
