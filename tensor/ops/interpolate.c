/* Resizing: each axis by itself, from one, two or four neighbours. */
#include <assert.h>
#include <math.h>
#include <string.h>

#include "doorbell/vision.h"
#include "tensor/ops/conv.h"
#include "tensor/ops/elementwise.h"
#include "tensor/core/rules.h"
#include "tensor/ops/matmul.h"
#include "tensor/core/node.h"
#include "tensor/core/tensor_internal.h"
#include "tensor/ops/vision.h"

/* src: PyTorch's constants of Keys' cubic convolution */
#define CUBIC       (-0.75)
#define CUBIC_ALIAS (-0.5)

/* One axis of what is resized. */
struct resize {
    struct bell_context *ctx;
    uint32_t rank, axis;
    int64_t size, n; /* before, after */
    enum bell_resize_mode mode;
    bool align;  /* the corners are the same points */
    bool alias;  /* weights reach farther where the axis shrinks */
    double step; /* sources a result, where it was given; or 0 */
    double unit; /* of uint8: whole weights are parts of it, else 0 */
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

/* `index` as one of 0..size-1. */
static const struct uop *
clamp(struct bell_context *ctx, const struct uop *index, int64_t size)
{
    index = tn_max(ctx, index, tn_int(ctx, UOP_I64, 0));
    return tn_min(ctx, index, tn_int(ctx, UOP_I64, size - 1));
}

/* What result o is made of: elements, each times a weight (NULL: 1). */
struct taps {
    uint32_t n;
    const struct uop *index[4], *weight[4];
};

/* Sources a result. */
static double
sample_step_of(const struct resize *r)
{
    if (r->align)
        return r->n > 1 ? (double)(r->size - 1) / (double)(r->n - 1) : 0;
    return r->step != 0 ? r->step : (double)r->size / (double)r->n;
}

/* A weight as a whole number of parts of a unit, from half a part on away from
 * 0. */
static const struct uop *
whole_weight(const struct resize *r, const struct uop *w)
{
    struct bell_context *ctx = r->ctx;
    const struct uop *size = tn_mul_c(ctx, tn_abs(ctx, w), r->unit);

    size = tn_floor(ctx, tn_add_c(ctx, size, 0.5));
    return tn_where(ctx, tn_lt(ctx, w, tn_num(ctx, w, 0)), tn_neg(ctx, size),
                    size);
}

/* The share of an axis' first and second neighbour, where no step is given: of
 * whole numbers, so that halves of a part are rounded up. */
static void
linear_whole(const struct resize *r, const struct uop *o, struct taps *taps)
{
    struct bell_context *ctx = r->ctx;
    int64_t parts = r->align ? r->n > 1 ? r->n - 1 : 1 : 2 * r->n, t;
    const struct uop *at, *first, *share[2], *whole, *zero;

    whole = tn_int(ctx, UOP_I64, parts);
    zero = tn_int(ctx, UOP_I64, 0);
    if (r->align) {
        at = r->n > 1 ? tn_mul(ctx, o, tn_int(ctx, UOP_I64, r->size - 1))
                      : tn_mul(ctx, o, zero);
    } else {
        at = tn_mul(ctx, o, tn_int(ctx, UOP_I64, 2 * r->size));
        at = tn_add(ctx, at, tn_int(ctx, UOP_I64, r->size - r->n));
    }
    at = tn_max(ctx, at, zero);
    at = tn_min(ctx, at, tn_int(ctx, UOP_I64, (r->size - 1) * parts));
    first = tn_alu2(ctx, UOP_IDIV, at, whole);
    share[1] = tn_alu2(ctx, UOP_IMOD, at, whole);
    share[0] = tn_sub(ctx, whole, share[1]);
    taps->n = 2;
    for (t = 0; t < 2; t++) {
        at = tn_mul(ctx, share[t], tn_int(ctx, UOP_I64, 2 * (int64_t)r->unit));
        at = tn_alu2(ctx, UOP_IDIV, tn_add(ctx, at, whole),
                     tn_int(ctx, UOP_I64, 2 * parts));
        taps->weight[t] = tn_cast(ctx, at, UOP_F32);
        taps->index[t] =
            clamp(ctx, tn_add(ctx, first, tn_int(ctx, UOP_I64, t)), r->size);
    }
}

/* Number floor((o + half) * size / n): in integers where no step is given. */
static void
nearest(const struct resize *r, const struct uop *o, bool half,
        struct taps *taps)
{
    struct bell_context *ctx = r->ctx;

    taps->n = 1;
    if (r->step != 0) {
        o = tn_cast(ctx, o, UOP_F32);
        o = tn_mul_c(ctx, half ? tn_add_c(ctx, o, 0.5) : o, r->step);
        taps->index[0] =
            clamp(ctx, tn_cast(ctx, tn_floor(ctx, o), UOP_I64), r->size);
        return;
    }
    o = tn_mul_c(ctx, o, 2.0 * (double)r->size);
    if (half)
        o = tn_add_c(ctx, o, (double)r->size);
    taps->index[0] =
        tn_alu2(ctx, UOP_FLOORDIV, o, tn_int(ctx, UOP_I64, 2 * r->n));
}

/* Where result o lies among the sources. */
static const struct uop *
source_of(const struct resize *r, const struct uop *o, enum uop_dtype dtype)
{
    struct bell_context *ctx = r->ctx;

    o = tn_cast(ctx, o, dtype);
    if (r->align)
        return tn_mul_c(ctx, o, sample_step_of(r));
    return tn_add_c(
        ctx, tn_mul_c(ctx, tn_add_c(ctx, o, 0.5), sample_step_of(r)), -0.5);
}

static void
linear(const struct resize *r, const struct uop *o, enum uop_dtype dtype,
       struct taps *taps)
{
    struct bell_context *ctx = r->ctx;
    const struct uop *at = source_of(r, o, dtype), *zero = tn_num(ctx, at, 0),
                     *first, *share;

    at = tn_where(ctx, tn_lt(ctx, at, zero), zero, at);
    first = tn_floor(ctx, at);
    share = tn_sub(ctx, at, first);
    taps->n = 2;
    taps->index[0] = clamp(ctx, tn_cast(ctx, first, UOP_I64), r->size);
    taps->index[1] = clamp(ctx, tn_add_c(ctx, taps->index[0], 1), r->size);
    taps->weight[0] = tn_sub(ctx, tn_num(ctx, share, 1), share);
    taps->weight[1] = share;
}

/* Keys' kernel with constant a. */
static const struct uop *
keys(struct bell_context *ctx, const struct uop *x, double a, bool near)
{
    const struct uop *w;

    if (near) { /* ((a + 2) x - (a + 3)) x^2 + 1 */
        w = tn_add_c(ctx, tn_mul_c(ctx, x, a + 2), -(a + 3));
        return tn_add_c(ctx, tn_mul(ctx, tn_mul(ctx, w, x), x), 1);
    }
    w = tn_add_c(ctx, tn_mul_c(ctx, x, a), -5 * a);
    w = tn_add_c(ctx, tn_mul(ctx, w, x), 8 * a);
    return tn_add_c(ctx, tn_mul(ctx, w, x), -4 * a);
}

const struct uop *
tn_cubic_weight(struct bell_context *ctx, const struct uop *x, bool near)
{
    return keys(ctx, x, CUBIC, near);
}

static void
cubic(const struct resize *r, const struct uop *o, enum uop_dtype dtype,
      struct taps *taps)
{
    struct bell_context *ctx = r->ctx;
    const struct uop *at = source_of(r, o, dtype), *first = tn_floor(ctx, at),
                     *share = tn_sub(ctx, at, first), *x;
    int i;

    first = tn_cast(ctx, first, UOP_I64);
    taps->n = 4;
    for (i = -1; i < 3; i++) {
        x = i < 1 ? tn_add_c(ctx, share, -i)
                  : tn_sub(ctx, tn_num(ctx, share, i), share);
        taps->index[i + 1] = clamp(ctx, tn_add_c(ctx, first, i), r->size);
        taps->weight[i + 1] = tn_cubic_weight(ctx, x, i == 0 || i == 1);
    }
}

static void
find_taps(const struct resize *r, const struct uop *o, enum uop_dtype dtype,
          struct taps *taps)
{
    uint32_t t;

    *taps = (struct taps){0};
    switch (r->mode) {
    case BELL_RESIZE_NEAREST:
    case BELL_RESIZE_EXACT:
        nearest(r, o, r->mode == BELL_RESIZE_EXACT, taps);
        break;
    case BELL_RESIZE_LINEAR:
        if (r->unit != 0 && r->step == 0) {
            linear_whole(r, o, taps);
            return;
        }
        linear(r, o, dtype, taps);
        break;
    case BELL_RESIZE_CUBIC:
        cubic(r, o, dtype, taps);
        break;
    }
    for (t = 0; r->unit != 0 && t < taps->n; t++)
        taps->weight[t] = whole_weight(r, taps->weight[t]);
}

/* Each element so many times: its gradient is a sum. */
static const struct uop *
repeat_each(const struct resize *r, const struct uop *u, int64_t times)
{
    struct bell_context *ctx = r->ctx;
    int64_t d[TN_MAX_RANK];

    u = tn_unsqueeze(ctx, u, r->axis + 1);
    if (tn_bad(u))
        return u;
    memcpy(d, tn_shape(ctx, u)->d, (r->rank + 1) * sizeof(*d));
    d[r->axis + 1] = times;
    return tn_merge_axes(ctx, tn_expand(ctx, u, d), r->axis, 2);
}

/* The weight that source i has in result o, before all of a result's are made
 * to sum to 1. Their shapes broadcast. */
static const struct uop *
alias_weight(const struct resize *r, const struct uop *o, const struct uop *i,
             enum uop_dtype dtype)
{
    struct bell_context *ctx = r->ctx;
    bool is_linear = r->mode == BELL_RESIZE_LINEAR;
    double wide = fmax(sample_step_of(r), 1),
           reach = (is_linear ? 1 : 2) * wide;
    const struct uop *at, *x, *w, *one = tn_const(ctx, dtype, 1);
    const struct uop *first, *end, *in;

    at = tn_mul_c(ctx, tn_add_c(ctx, tn_cast(ctx, o, dtype), 0.5),
                  sample_step_of(r));
    first =
        tn_cast(ctx, tn_floor(ctx, tn_add_c(ctx, at, 0.5 - reach)), UOP_I64);
    end = tn_cast(ctx, tn_floor(ctx, tn_add_c(ctx, at, 0.5 + reach)), UOP_I64);
    in = tn_and(ctx, tn_le(ctx, first, i), tn_lt(ctx, i, end));
    x = tn_sub(ctx, tn_add_c(ctx, tn_cast(ctx, i, dtype), 0.5), at);
    x = tn_mul_c(ctx, tn_abs(ctx, x), 1 / wide);
    if (is_linear) {
        w = tn_max(ctx, tn_sub(ctx, one, x), tn_num(ctx, x, 0));
    } else {
        w = tn_where(ctx, tn_lt(ctx, x, tn_const(ctx, dtype, 2)),
                     keys(ctx, x, CUBIC_ALIAS, false), tn_num(ctx, x, 0));
        w = tn_where(ctx, tn_lt(ctx, x, one), keys(ctx, x, CUBIC_ALIAS, true),
                     w);
    }
    return tn_where(ctx, in, w, tn_num(ctx, w, 0));
}

/* All results as products with a matrix of weights: what is differentiated. */
static const struct uop *
multiply_axis(const struct resize *r, const struct uop *u)
{
    struct bell_context *ctx = r->ctx;
    const struct uop_dims *shape = tn_shape(ctx, u);
    int64_t d[TN_MAX_RANK], outer = tn_product(shape->d, r->axis);
    int64_t inner = tn_product(shape->d + r->axis + 1, r->rank - r->axis - 1);
    const struct uop *w;

    memcpy(d, shape->d, r->rank * sizeof(*d));
    d[r->axis] = r->n;
    w = alias_weight(r, tn_iota(ctx, 2, 0, r->n, UOP_I64),
                     tn_iota(ctx, 2, 1, r->size, UOP_I64), u->dtype);
    w = tn_fdiv(ctx, w, tn_sum(ctx, w, 1u << 1));
    u = tn_reshape(ctx, u, (int64_t[]){outer, r->size, inner}, 3);
    return tn_reshape(ctx, tn_matmul(ctx, w, u), d, r->rank);
}

/* The same from the sources that have a weight alone. */
static const struct uop *
alias_axis(const struct resize *r, const struct uop *u)
{
    struct bell_context *ctx = r->ctx;
    double reach =
        (r->mode == BELL_RESIZE_LINEAR ? 1 : 2) * fmax(sample_step_of(r), 1);
    const struct uop *o, *at, *i, *w, *in, *out;
    int64_t d[TN_MAX_RANK], most = r->size;
    uint32_t behind = 2u << r->axis;

    if (2 * reach + 2 < (double)most)
        most = (int64_t)ceil(2 * reach) + 1;
    o = tn_iota(ctx, r->rank + 1, r->axis, r->n, UOP_I64);
    at = tn_mul_c(ctx, tn_add_c(ctx, tn_cast(ctx, o, u->dtype), 0.5),
                  sample_step_of(r));
    at = tn_floor(ctx, tn_add_c(ctx, at, 0.5 - reach));
    i = tn_add(ctx,
               tn_max(ctx, tn_cast(ctx, at, UOP_I64), tn_int(ctx, UOP_I64, 0)),
               tn_iota(ctx, r->rank + 1, r->axis + 1, most, UOP_I64));
    w = alias_weight(r, o, i, u->dtype);
    in = tn_lt(ctx, i, tn_int(ctx, UOP_I64, r->size));
    w = tn_where(ctx, in, w, tn_num(ctx, w, 0));
    w = tn_fdiv(ctx, w, tn_sum(ctx, w, behind));
    if (r->unit != 0)
        w = whole_weight(r, w);
    i = clamp(ctx, i, r->size);
    if (tn_bad(i) || tn_bad(w) || tn_bad(u))
        return &uop_failed;
    memcpy(d, tn_shape(ctx, u)->d, r->rank * sizeof(*d));
    d[r->axis] = r->n * most;
    i = tn_expand(ctx, tn_merge_axes(ctx, i, r->axis, 2), d);
    out =
        tn_split_axis(ctx, tn_gather(ctx, u, r->axis, i), r->axis, r->n, most);
    /* an element without weight has no part in the sum, even if it is
     * infinite */
    out = tn_where(ctx, tn_eq(ctx, w, tn_num(ctx, w, 0)), tn_num(ctx, w, 0),
                   tn_mul(ctx, out, w));
    out = tn_squeeze(ctx, tn_sum(ctx, out, behind), behind);
    if (r->unit != 0)
        return out;
    return tensor_surrogate(ctx, out, multiply_axis(r, u));
}

static const struct uop *
resize_axis(const struct resize *r, const struct uop *u)
{
    struct tensor_rule rule = {.kind = TENSOR_RULE_RESIZE, .a = u};
    struct bell_context *ctx = r->ctx;
    const struct uop *out = NULL, *part;
    struct taps taps;
    uint32_t t;

    if (tn_bad(u) || (r->n == r->size && r->step == 0))
        return u;
    if (r->mode < BELL_RESIZE_LINEAR && r->step == 0 && r->n % r->size == 0)
        return repeat_each(r, u, r->n / r->size);
    if (r->alias)
        return alias_axis(r, u);
    find_taps(r, tn_iota(ctx, r->rank, r->axis, r->n, UOP_I64), u->dtype,
              &taps);
    for (t = 0; t < taps.n; t++) {
        part = pick(r, u, taps.index[t]);
        if (out)
            out = tn_madd(ctx, part, taps.weight[t], out);
        else
            out = taps.weight[t] ? tn_mul(ctx, part, taps.weight[t]) : part;
    }
    if (r->unit != 0)
        return out;
    rule.p[0] = r->axis;
    rule.p[1] = r->mode;
    rule.p[2] = r->align;
    memcpy(&rule.p[3], &r->step, sizeof(r->step));
    return tensor_rule_add(ctx, out, &rule);
}

/* ---- the gradient ---- */

/* The results that a source takes part in: those from
 * floor((i - last_tap - offset) / step) - margin on, `n` of them at most. */
struct sample_span {
    double step, offset, last_tap;
    int64_t margin, n;
};

/* source_of and nearest are step * o + offset, rounded; taps are so far from
 * there. The first source is also that of what lies before it, the last one
 * that of what lies behind it. */
static struct sample_span
find_span(const struct resize *r)
{
    bool is_cubic = r->mode == BELL_RESIZE_CUBIC;
    struct sample_span span = {.step = sample_step_of(r),
                               .margin = 1 + (r->n >> 20)};
    double first_tap = is_cubic ? -1 : 0, width, begin, end;

    span.n = r->n;
    if (span.step == 0)
        return span;
    span.last_tap = is_cubic ? 2 : r->mode == BELL_RESIZE_LINEAR ? 1 : 0;
    if (r->mode == BELL_RESIZE_EXACT)
        span.offset = 0.5 * span.step;
    else if (r->mode >= BELL_RESIZE_LINEAR && !r->align)
        span.offset = 0.5 * span.step - 0.5;
    width = (span.last_tap - first_tap + 1) / span.step;
    begin = (1 - first_tap - span.offset) / span.step;
    end = (double)r->n -
          ((double)(r->size - 1) - span.last_tap - span.offset) / span.step;
    width = fmax(width, fmax(begin, end)) + 2 + 2 * (double)span.margin;
    if (width < (double)r->n)
        span.n = (int64_t)ceil(width);
    return span;
}

/* For source i the number of its first result. */
static const struct uop *
first_result(struct bell_context *ctx, const struct sample_span *span,
             const struct uop *i, enum uop_dtype dtype, int64_t n)
{
    const struct uop *o, *last = tn_int(ctx, UOP_I64, n - span->n);

    if (span->n == n)
        return tn_int(ctx, UOP_I64, 0);
    o = tn_add_c(ctx, tn_cast(ctx, i, dtype), -span->last_tap - span->offset);
    o = tn_cast(ctx, tn_floor(ctx, tn_mul_c(ctx, o, 1 / span->step)), UOP_I64);
    o = tn_add_c(ctx, o, -(double)span->margin);
    o = tn_max(ctx, o, tn_int(ctx, UOP_I64, 0));
    return tn_min(ctx, o, last);
}

const struct uop *
tn_resize_back(struct bell_context *ctx, const struct tensor_rule *rule,
               const struct uop *g)
{
    struct resize r = {.ctx = ctx,
                       .rank = tn_rank(ctx, rule->a),
                       .axis = (uint32_t)rule->p[0],
                       .mode = (enum bell_resize_mode)rule->p[1],
                       .align = rule->p[2] != 0};
    enum uop_dtype dtype = g->dtype == UOP_F64 ? UOP_F64 : UOP_F32;
    const struct uop *i, *o, *zero, *share, *weight = NULL;
    struct sample_span span;
    struct taps taps;
    uint32_t t;

    if (tn_bad(g))
        return g;
    memcpy(&r.step, &rule->p[3], sizeof(r.step));
    r.size = tn_size(ctx, rule->a, r.axis);
    r.n = tn_size(ctx, g, r.axis);
    span = find_span(&r);
    i = tn_iota(ctx, r.rank + 1, r.axis, r.size, UOP_I64);
    o = tn_add(ctx, first_result(ctx, &span, i, dtype, r.n),
               tn_iota(ctx, r.rank + 1, r.axis + 1, span.n, UOP_I64));
    find_taps(&r, o, dtype, &taps);
    zero = tn_const(ctx, dtype, 0);
    for (t = 0; t < taps.n; t++) {
        share = taps.weight[t] ? taps.weight[t] : tn_const(ctx, dtype, 1);
        share = tn_where(ctx, tn_eq(ctx, taps.index[t], i), share, zero);
        weight = weight ? tn_add(ctx, weight, share) : share;
    }
    if (tn_bad(o) || tn_bad(weight))
        return &uop_failed;
    o = tn_expand(ctx, o, tn_shape(ctx, weight)->d);
    r.n = r.size * span.n; /* every source's results, one after the other */
    share = pick(&r, g, tn_merge_axes(ctx, o, r.axis, 2));
    share = tn_split_axis(ctx, share, r.axis, r.size, span.n);
    share = tn_mul(ctx, tn_cast(ctx, share, dtype), weight);
    share = tn_squeeze(ctx, tn_sum(ctx, share, 2u << r.axis), 2u << r.axis);
    return tn_cast(ctx, share, g->dtype);
}

/* ---- uint8 ---- */

static double
keys_number(double x, double a)
{
    return x <= 1  ? ((a + 2) * x - (a + 3)) * x * x + 1
           : x < 2 ? ((a * x - 5 * a) * x + 8 * a) * x - 4 * a
                   : 0;
}

/* The greatest weight of result o. An element beyond an end counts there, or
 * with `alias` nowhere. */
static double
most_of_result(const struct resize *r, int64_t o)
{
    bool is_cubic = r->mode == BELL_RESIZE_CUBIC;
    double wide = r->alias ? fmax(sample_step_of(r), 1) : 1,
           last = (double)r->size - 1;
    double at = (double)o * sample_step_of(r),
           reach = (is_cubic ? 2 : 1) * wide;
    double sum = 0, most = 0, here = 0, i;

    if (!r->align)
        at += 0.5 * sample_step_of(r) - 0.5;
    if (!is_cubic && !r->alias)
        at = fmin(fmax(at, 0), last);
    for (i = floor(at - reach); i <= at + reach; i++) {
        double x = fabs(i - at) / wide;
        double w = is_cubic ? keys_number(x, r->alias ? CUBIC_ALIAS : CUBIC)
                            : fmax(1 - x, 0);
        if (r->alias && (i < 0 || i > last))
            continue;
        here = i <= 0 || i > last ? here + w : w;
        most = fmax(most, here);
        sum += w;
    }
    return most / sum;
}

/* src: PyTorch, of a CPU: weights are 16-bit numbers, parts of the greatest
 * power of 2 that leaves the greatest weight room. */
static double
unit_of(const struct resize *r)
{
    double most = 0, unit = 1;
    int64_t o;

    for (o = 0; o < r->n; o++)
        most = fmax(most, most_of_result(r, o));
    while (unit < 0x1p22 && 0.5 + most * 2 * unit < 0x1p15)
        unit *= 2;
    return unit;
}

/* A sum of whole weights as a number of 0 to 255, halves rounded up. */
static const struct uop *
to_bytes(const struct resize *r, const struct uop *u)
{
    struct bell_context *ctx = r->ctx;

    u = tn_mul_c(ctx, tn_add_c(ctx, u, 0.5 * r->unit), 1 / r->unit);
    u = tn_max(ctx, tn_floor(ctx, u), tn_num(ctx, u, 0));
    return tn_min(ctx, u, tn_num(ctx, u, 255));
}

static const struct uop *
resize_bytes(struct resize *r, const struct uop *u)
{
    if (r->n == r->size && r->step == 0)
        return u;
    r->unit = unit_of(r);
    return to_bytes(r, resize_axis(r, u));
}

/* scale: of each of the n axes, or NULL. */
static struct bell_tensor *
resize(const char *call, struct bell_tensor *x, const int64_t *sizes,
       uint32_t n, const struct resize *how, const double *scale)
{
    struct bell_context *ctx = how->ctx;
    const struct uop *u, *was;
    struct resize r = *how;
    struct bell_tensor *out;
    bool bytes;
    uint32_t k;

    if (r.mode < BELL_RESIZE_NEAREST || r.mode > BELL_RESIZE_CUBIC)
        return tensor_fail(ctx, call, BELL_BAD_VALUE,
                           "mode %d is not an enum bell_resize_mode",
                           (int)r.mode);
    if (n > r.rank || (n && !sizes))
        return tensor_fail(
            ctx, call, BELL_BAD_SHAPE,
            "x of shape %s to %u sizes: expected an axis for each size",
            SHAPE_OF(x), n);
    if (r.align && r.mode < BELL_RESIZE_LINEAR)
        return tensor_fail(ctx, call, BELL_BAD_VALUE,
                           "corners of nearest elements cannot be aligned");
    if (r.alias && r.mode < BELL_RESIZE_LINEAR)
        return tensor_fail(ctx, call, BELL_BAD_VALUE,
                           "nearest elements without an antialiased form");
    if (!tensor_plain_axes(call, x, n ? ~0u << (r.rank - n) : 0,
                           "places in it are numbers", &out))
        return out;
    was = u = tensor_node(x);
    if (r.mode >= BELL_RESIZE_LINEAR) {
        if (!tn_is_float(u) && u->dtype != UOP_U8)
            return tensor_fail(ctx, call, BELL_BAD_DTYPE,
                               "of %s, not a float dtype or uint8",
                               DTYPE_OF(x));
        u = tn_is_float(u) ? tn_widen(ctx, u) : tn_cast(ctx, u, UOP_F32);
    }
    bytes = was->dtype == UOP_U8 && u->dtype != UOP_U8;
    for (k = 0; k < n && !tn_bad(u); k++) {
        uint32_t i = bytes ? n - 1 - k : k;
        double s = scale ? scale[i] : 0;
        if (!(s >= 0) || isinf(s))
            return tensor_fail(
                ctx, call, BELL_BAD_VALUE,
                "the scale is %g; expected a finite one, 0 or more", s);
        r.step = s != 0 ? 1 / s : 0;
        r.axis = r.rank - n + i;
        r.size = tn_size(ctx, u, r.axis);
        r.n = sizes[i];
        if (r.n < 1 || r.n > 1 << 24 || r.size < 1)
            return tensor_fail(ctx, call, BELL_BAD_VALUE,
                               "axis %u of %s to a size of %lld: expected 1 to "
                               "2^24, of an axis that is not empty",
                               r.axis, SHAPE_OF(x), (long long)r.n);
        u = bytes ? resize_bytes(&r, u) : resize_axis(&r, u);
    }
    if (!tn_bad(u))
        u = tn_cast(ctx, u, was->dtype);
    return tensor_new(ctx, call, u);
}

struct bell_tensor *
bell_interpolate(struct bell_tensor *x, const int64_t *sizes, uint32_t n,
                 enum bell_resize_mode mode, bool align_corners, double scale)
{
    double all[BELL_MAX_RANK];
    struct bell_tensor *out;
    struct resize how;
    uint32_t i;

    if (!tensor_takes(__func__, x, &out))
        return out;
    how = (struct resize){.ctx = tensor_at(x)->ctx,
                          .rank = tensor_at(x)->shape->n,
                          .mode = mode,
                          .align = align_corners};
    for (i = 0; i < BELL_MAX_RANK; i++)
        all[i] = scale;
    return resize(__func__, x, sizes, n, &how, all);
}

struct bell_tensor *
bell_resize(struct bell_tensor *x, const int64_t *sizes, uint32_t n,
            const struct bell_resize_options *options)
{
    struct bell_resize_options opt;
    struct bell_tensor *out;
    struct resize how;

    if (!tensor_takes(__func__, x, &out))
        return out;
    if (!options)
        return tensor_fail(tensor_at(x)->ctx, __func__, BELL_BAD_MISSING,
                           "no options");
    if (tensor_options(__func__, options, sizeof(opt), sizeof(opt), &opt) !=
        BELL_OK)
        return tensor_fail_told(tensor_at(x)->ctx);
    if (n > 3)
        return tensor_fail(tensor_at(x)->ctx, __func__, BELL_BAD_SHAPE,
                           "%u axes; at most 3 are possible", n);
    how = (struct resize){.ctx = tensor_at(x)->ctx,
                          .rank = tensor_at(x)->shape->n,
                          .mode = opt.mode,
                          .align = opt.align_corners,
                          .alias = opt.antialias};
    return resize(__func__, x, sizes, n, &how, opt.scale);
}
