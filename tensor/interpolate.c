/* Resizing: each axis by itself, from one, two or four neighbours. */
#include <assert.h>
#include <math.h>
#include <string.h>

#include "doorbell/ops.h"
#include "tensor/elementwise.h"
#include "tensor/node.h"
#include "tensor/tensor_internal.h"

/* src: PyTorch's constant of Keys' cubic convolution */
#define CUBIC (-0.75)

/* One axis of what is resized. */
struct resize {
    struct bell_context *ctx;
    uint32_t rank, axis;
    int64_t size, n; /* before, after */
    bool align;      /* the corners are the same points */
    double step;     /* sources a result, where it was given; or 0 */
};

/* The elements number `index`, with the rank of u and size 1 but on the axis,
 * of that axis. */
static const struct uop *
pick(const struct resize *r, const struct uop *u, const struct uop *index)
{
    struct bell_context *ctx = r->ctx;
    int64_t d[TN_MAX_RANK];

    if (tn_bad(u) || tn_bad(index))
        return &uop_failed;
    memcpy(d, tn_shape(ctx, u)->d, r->rank * sizeof(*d));
    d[r->axis] = r->n;
    return tn_gather(ctx, u, r->axis, tn_expand(ctx, index, d));
}

/* `index` as one of those that there are. */
static const struct uop *
clamp(const struct resize *r, const struct uop *index)
{
    struct bell_context *ctx = r->ctx;
    const struct uop *last = tn_int(ctx, UOP_I64, r->size - 1),
                     *first = tn_int(ctx, UOP_I64, 0);

    index = tn_where(ctx, tn_lt(ctx, index, first), first, index);
    return tn_where(ctx, tn_lt(ctx, last, index), last, index);
}

/* Number floor((o + half) * size / n): in integers where no step is given. */
static const struct uop *
nearest(const struct resize *r, const struct uop *u, bool half)
{
    struct bell_context *ctx = r->ctx;
    const struct uop *o = tn_iota(ctx, r->rank, r->axis, r->n, UOP_I64);

    if (r->step != 0) {
        o = tn_cast(ctx, o, UOP_F32);
        o = tn_mul_c(ctx, half ? tn_add_c(ctx, o, 0.5) : o, r->step);
        return pick(r, u, clamp(r, tn_cast(ctx, tn_floor(ctx, o), UOP_I64)));
    }
    o = tn_mul_c(ctx, o, 2.0 * (double)r->size);
    if (half)
        o = tn_add_c(ctx, o, (double)r->size);
    return pick(r, u,
                tn_alu2(ctx, UOP_FLOORDIV, o, tn_int(ctx, UOP_I64, 2 * r->n)));
}

/* Where result o lies among the sources. */
static const struct uop *
source_of(const struct resize *r, enum uop_dtype dtype)
{
    struct bell_context *ctx = r->ctx;
    const struct uop *o = tn_iota(ctx, r->rank, r->axis, r->n, UOP_I64);
    double step = r->step != 0 ? r->step : (double)r->size / (double)r->n;

    o = tn_cast(ctx, o, dtype);
    if (r->align)
        return tn_mul_c(
            ctx, o, r->n > 1 ? (double)(r->size - 1) / (double)(r->n - 1) : 0);
    return tn_add_c(ctx, tn_mul_c(ctx, tn_add_c(ctx, o, 0.5), step), -0.5);
}

static const struct uop *
linear(const struct resize *r, const struct uop *u)
{
    struct bell_context *ctx = r->ctx;
    const struct uop *at = source_of(r, u->dtype), *zero = tn_num(ctx, at, 0),
                     *first, *index, *a, *b, *share;

    at = tn_where(ctx, tn_lt(ctx, at, zero), zero, at);
    first = tn_floor(ctx, at);
    share = tn_sub(ctx, at, first);
    index = clamp(r, tn_cast(ctx, first, UOP_I64));
    a = pick(r, u, index);
    b = pick(r, u, clamp(r, tn_add_c(ctx, index, 1)));
    a = tn_mul(ctx, a, tn_sub(ctx, tn_num(ctx, share, 1), share));
    return tn_madd(ctx, b, share, a);
}

/* The weight of a neighbour at a distance of at most 1 (near), of 1 to 2. */
static const struct uop *
cubic_weight(struct bell_context *ctx, const struct uop *x, bool near)
{
    const struct uop *w;

    if (near) { /* ((A + 2) x - (A + 3)) x^2 + 1 */
        w = tn_add_c(ctx, tn_mul_c(ctx, x, CUBIC + 2), -(CUBIC + 3));
        return tn_add_c(ctx, tn_mul(ctx, tn_mul(ctx, w, x), x), 1);
    }
    /* ((A x - 5 A) x + 8 A) x - 4 A */
    w = tn_add_c(ctx, tn_mul_c(ctx, x, CUBIC), -5 * CUBIC);
    w = tn_add_c(ctx, tn_mul(ctx, w, x), 8 * CUBIC);
    return tn_add_c(ctx, tn_mul(ctx, w, x), -4 * CUBIC);
}

static const struct uop *
cubic(const struct resize *r, const struct uop *u)
{
    struct bell_context *ctx = r->ctx;
    const struct uop *at = source_of(r, u->dtype), *first = tn_floor(ctx, at),
                     *share = tn_sub(ctx, at, first), *x, *part, *out = NULL;
    int i;

    first = tn_cast(ctx, first, UOP_I64);
    for (i = -1; i < 3; i++) {
        x = i < 1 ? tn_add_c(ctx, share, -i)
                  : tn_sub(ctx, tn_num(ctx, share, i), share);
        part = pick(r, u, clamp(r, tn_add_c(ctx, first, i)));
        part = tn_mul(ctx, part, cubic_weight(ctx, x, i == 0 || i == 1));
        out = out ? tn_add(ctx, out, part) : part;
    }
    return out;
}

static const struct uop *
resize_axis(const struct resize *r, const struct uop *u,
            enum bell_resize_mode mode)
{
    struct bell_context *ctx = r->ctx;
    int64_t d[TN_MAX_RANK];

    if (r->n == r->size && r->step == 0)
        return u;
    switch (mode) {
    case BELL_RESIZE_NEAREST:
    case BELL_RESIZE_EXACT:
        if (r->step != 0 || r->n % r->size != 0 || tn_bad(u))
            return nearest(r, u, mode == BELL_RESIZE_EXACT);
        /* each so many times: its gradient is a sum */
        u = tn_unsqueeze(ctx, u, r->axis + 1);
        if (tn_bad(u))
            return u;
        memcpy(d, tn_shape(ctx, u)->d, (r->rank + 1) * sizeof(*d));
        d[r->axis + 1] = r->n / r->size;
        return tn_merge_axes(ctx, tn_expand(ctx, u, d), r->axis, 2);
    case BELL_RESIZE_LINEAR:
        return linear(r, u);
    case BELL_RESIZE_CUBIC:
        return cubic(r, u);
    }
    return &uop_failed;
}

struct bell_tensor *
bell_interpolate(struct bell_tensor *x, const int64_t *sizes, uint32_t n,
                 enum bell_resize_mode mode, bool align_corners, double scale)
{
    struct bell_context *ctx;
    struct bell_tensor *out;
    const struct uop *u, *was;
    struct resize r;
    uint32_t i;

    if (!tensor_check(__func__, x, &out))
        return out;
    ctx = tensor_at(x)->ctx;
    r = (struct resize){.ctx = ctx,
                        .rank = tensor_at(x)->shape->n,
                        .align = align_corners,
                        .step = scale != 0 ? 1 / scale : 0};
    if (mode < BELL_RESIZE_NEAREST || mode > BELL_RESIZE_CUBIC ||
        !(scale >= 0) || isinf(scale))
        return tensor_fail(ctx, __func__, BELL_BAD_VALUE, "mode %d, scale %g",
                           (int)mode, scale);
    if (n > r.rank || (n && !sizes))
        return tensor_fail(ctx, __func__, BELL_BAD_SHAPE,
                           "x of shape %s to %u sizes", SHAPE_OF(x), n);
    if (align_corners && mode < BELL_RESIZE_LINEAR)
        return tensor_fail(ctx, __func__, BELL_BAD_VALUE,
                           "corners of nearest elements cannot be aligned");
    was = u = tensor_node(x);
    if (mode >= BELL_RESIZE_LINEAR) {
        if (!tn_is_float(u))
            return tensor_fail(ctx, __func__, BELL_BAD_DTYPE,
                               "of %s, not a float dtype", DTYPE_OF(x));
        u = tn_widen(ctx, u);
    }
    for (i = 0; i < n && !tn_bad(u); i++) {
        r.axis = r.rank - n + i;
        r.size = tn_size(ctx, u, r.axis);
        r.n = sizes[i];
        if (r.n < 1 || r.n > 1 << 24 || r.size < 1)
            return tensor_fail(ctx, __func__, BELL_BAD_VALUE,
                               "axis %u of %s to a size of %lld", r.axis,
                               SHAPE_OF(x), (long long)r.n);
        u = resize_axis(&r, u, mode);
    }
    if (!tn_bad(u))
        u = tn_cast(ctx, u, was->dtype);
    return tensor_new(ctx, __func__, u);
}
