/* Order statistics, searching in order, histograms. */
#include <math.h>
#include <string.h>

#include "tensor/ops/elementwise.h"
#include "tensor/core/rules.h"
#include "tensor/ops/select.h"

/* FIND_MOST elements, or fewer, of FIND_FROM or more are found without putting
 * all in order: the quartiles, each between two elements. */
#define FIND_FROM 2048
#define FIND_MOST 6

/* ---- one axis of a call ---- */

/* x along an axis, which stays with size 1 in results until they end. */
struct along {
    struct bell_context *ctx;
    struct bell_tensor *x;
    const struct uop *u;
    uint32_t at;
    int64_t n; /* its size, at least 1 */
    bool is_flat, keepdim;
};

/* False after a failure of `call`, with *out set. */
static bool
begin_along(const char *call, struct bell_tensor *x, int axis, bool keepdim,
            struct along *a, struct bell_tensor **out)
{
    int at = 0;

    if (!tensor_takes(call, x, out))
        return false;
    *out = tensor_at(x)->ctx->error_tensor;
    *a = (struct along){tensor_at(x)->ctx,
                        x,
                        tensor_wide_node(x),
                        0,
                        0,
                        axis == BELL_FLAT || tensor_at(x)->shape->n == 0,
                        keepdim};
    if (axis != BELL_FLAT)
        at = tensor_axis(tensor_at(x)->ctx, call, axis, tensor_at(x)->shape->n);
    if (at < 0)
        return false;
    if (!tensor_plain_axes(call, x, a->is_flat ? ~0u : tn_axis_bit(at),
                           "a network of sorting is for one size", out))
        return false;
    a->at = (uint32_t)at;
    a->n = tn_bad(a->u) ? 1 : tn_numel(a->ctx, a->u);
    if (a->is_flat)
        a->u = tn_flat(a->ctx, a->u);
    else
        a->n = tensor_at(x)->shape->d[at];
    if (tn_bad(a->u)) {
        *out = tensor_new(a->ctx, call, a->u);
        return false;
    }
    if (a->n < 1 || a->n > TN_MAX_ORDERED) {
        tensor_fail(a->ctx, call, BELL_BAD_SHAPE,
                    "over %s elements, of shape %s; expected 1 to 2^32",
                    a->n < 1 ? "no" : "more than 2^32", SHAPE_OF(x));
        return false;
    }
    return true;
}

/* Without the axis, or with axes of size 1; `extra` axes come first. */
static const struct uop *
end_along(const struct along *a, const struct uop *u, uint32_t extra)
{
    int64_t d[TN_MAX_RANK];
    uint32_t i;

    if (tn_bad(u))
        return u;
    if (!a->is_flat)
        return a->keepdim ? u
                          : tn_squeeze(a->ctx, u, tn_axis_bit(a->at + extra));
    if (!a->keepdim)
        return tn_squeeze(a->ctx, u, 1u << extra);
    for (i = 0; i < tensor_at(a->x)->shape->n + extra; i++)
        d[i] = i < extra ? tn_size(a->ctx, u, i) : 1;
    return tn_reshape(a->ctx, u, d, tensor_at(a->x)->shape->n + extra);
}

static const struct uop *
order_along(const struct along *a, int64_t count)
{
    return tn_wrap(a->ctx, UOP_CONTIGUOUS,
                   tn_order_axis(a->ctx, a->u, a->at, false, count));
}

/* How many along the axis are not NaN, I64. */
static const struct uop *
count_numbers(const struct along *a)
{
    const struct uop *u;

    if (!tn_is_float(a->u))
        return tn_int(a->ctx, UOP_I64, a->n);
    u = tn_not(a->ctx, tn_isnan(a->ctx, a->u));
    return tn_sum(a->ctx, tn_cast(a->ctx, u, UOP_I64), tn_axis_bit(a->at));
}

/* The values at `places` along the axis and the places: a call's results. */
static void
give_places(const char *call, const struct along *a, const struct uop *places,
            struct bell_tensor **out_values, struct bell_tensor **out_indices)
{
    if (out_values)
        *out_values =
            tensor_new(a->ctx, call,
                       end_along(a, tn_gather(a->ctx, a->u, a->at, places), 0));
    if (out_indices)
        *out_indices = tensor_new(a->ctx, call, end_along(a, places, 0));
}

static void
give_error(struct bell_tensor *error, struct bell_tensor **out_values,
           struct bell_tensor **out_indices)
{
    if (out_values)
        *out_values = error;
    if (out_indices)
        *out_indices = error;
}

/* Without an axis elements that equal the median share its gradient, as
 * PyTorch's do. */
static const struct uop *
share_equal(const struct along *a, const struct uop *value)
{
    struct tensor_rule rule = {
        .kind = TENSOR_RULE_TIES, .a = a->u, .p = {1ll << a->at}};

    return tn_bad(value) || !tn_is_float(value)
               ? value
               : tensor_rule_add(a->ctx, value, &rule);
}

/* The k-th in order, k a node with `size` along the axis, or a constant; all
 * less than `count`. */
static const struct uop *
kth_places(const struct along *a, const struct uop *k, int64_t size,
           int64_t count)
{
    int64_t d[TN_MAX_RANK];

    memcpy(d, tn_shape(a->ctx, a->u)->d, tn_rank(a->ctx, a->u) * sizeof(*d));
    d[a->at] = size;
    k = tn_broadcast(a->ctx, k, d, tn_rank(a->ctx, a->u));
    if (a->n >= FIND_FROM && size <= FIND_MOST)
        return tn_kth_axis(a->ctx, a->u, a->at, k);
    return tn_gather(a->ctx, order_along(a, count), a->at, k);
}

/* ---- the middle, the k-th, the most frequent ---- */

/* NaN for floats without an element; false where x is something else. */
static bool
give_none(const char *call, struct bell_tensor *x, bool keepdim,
          struct bell_tensor **out)
{
    int64_t d[TN_MAX_RANK];
    struct bell_context *ctx;
    const struct uop *u;
    uint32_t i, rank;

    if (!tensor_takes(call, x, out))
        return false;
    ctx = tensor_at(x)->ctx;
    u = tensor_wide_node(x);
    if (tn_bad(u) || !tn_is_float(u) || tn_numel(ctx, u) != 0)
        return false;
    rank = keepdim ? tn_rank(ctx, u) : 0;
    for (i = 0; i < rank; i++)
        d[i] = 1;
    u = tn_full(ctx, tn_const(ctx, u->dtype, (double)NAN), d, rank);
    *out = tensor_new(ctx, call, u);
    return true;
}

static void
median_call(const char *call, struct bell_tensor *x, int axis, bool keepdim,
            bool skip_nan, struct bell_tensor **out_values,
            struct bell_tensor **out_indices)
{
    const struct uop *n, *k, *one;
    struct bell_tensor *out;
    struct along a;

    if (axis == BELL_FLAT && !out_indices &&
        give_none(call, x, keepdim, &out)) {
        *out_values = out;
        return;
    }
    if (!begin_along(call, x, axis, keepdim, &a, &out)) {
        give_error(out, out_values, out_indices);
        return;
    }
    n = count_numbers(&a);
    one = tn_int(a.ctx, UOP_I64, 1);
    /* of no number: the first NaN */
    k = tn_max(a.ctx, tn_sub(a.ctx, n, one), tn_int(a.ctx, UOP_I64, 0));
    k = tn_alu2(a.ctx, UOP_SHR, k, one);
    if (!skip_nan)
        k = tn_where(a.ctx, tn_lt(a.ctx, n, tn_int(a.ctx, UOP_I64, a.n)), n, k);
    k = kth_places(&a, k, 1, a.n);
    if (axis == BELL_FLAT && out_values) {
        const struct uop *value = tn_gather(a.ctx, a.u, a.at, k);
        value = end_along(&a, share_equal(&a, value), 0);
        *out_values = tensor_new(a.ctx, call, value);
        out_values = NULL;
    }
    give_places(call, &a, k, out_values, out_indices);
}

void
bell_median(struct bell_tensor *x, int axis, bool keepdim,
            struct bell_tensor **out_values, struct bell_tensor **out_indices)
{
    median_call(__func__, x, axis, keepdim, false, out_values, out_indices);
}

void
bell_nanmedian(struct bell_tensor *x, int axis, bool keepdim,
               struct bell_tensor **out_values,
               struct bell_tensor **out_indices)
{
    median_call(__func__, x, axis, keepdim, true, out_values, out_indices);
}

void
bell_kthvalue(struct bell_tensor *x, int64_t k, int axis, bool keepdim,
              struct bell_tensor **out_values, struct bell_tensor **out_indices)
{
    struct bell_tensor *out;
    struct along a;

    if (!begin_along(__func__, x, axis, keepdim, &a, &out)) {
        give_error(out, out_values, out_indices);
    } else if (k < 1 || k > a.n) {
        out = tensor_fail(
            a.ctx, __func__, BELL_BAD_VALUE,
            "k is %lld; expected 1 to %lld, the elements along the axis",
            (long long)k, (long long)a.n);
        give_error(out, out_values, out_indices);
    } else {
        give_places(__func__, &a,
                    kth_places(&a, tn_int(a.ctx, UOP_I64, k - 1), 1, k),
                    out_values, out_indices);
    }
}

/* Each element's number in its run of equals, in order, is greatest first at
 * the end of the longest run, of several the one of the smallest. */
void
bell_mode(struct bell_tensor *x, int axis, bool keepdim,
          struct bell_tensor **out_values, struct bell_tensor **out_indices)
{
    const struct uop *u, *order, *before, *same, *place, *start, *length, *best;
    enum uop_dtype type;
    struct bell_context *ctx;
    struct bell_tensor *out;
    struct along a;

    if (!begin_along(__func__, x, axis, keepdim, &a, &out)) {
        give_error(out, out_values, out_indices);
        return;
    }
    ctx = a.ctx;
    type = a.n < INT32_MAX ? UOP_I32 : UOP_I64;
    order = order_along(&a, a.n);
    u = tn_wrap(ctx, UOP_CONTIGUOUS, tn_gather(ctx, a.u, a.at, order));
    before =
        tn_pad_axis(ctx, tn_shrink_axis(ctx, u, a.at, 0, a.n - 1), a.at, 1, 0);
    same = tn_eq(ctx, u, before);
    place = tn_iota(ctx, tn_rank(ctx, u), a.at, a.n, type);
    start = tn_where(ctx, same, tn_int(ctx, type, 0), place);
    start = tn_scan(ctx, UOP_MAX, start, a.at);
    length = tn_wrap(ctx, UOP_CONTIGUOUS, tn_sub(ctx, place, start));
    best = tn_reduce(ctx, UOP_MAX, length, tn_axis_bit(a.at));
    place = tn_where(ctx, tn_eq(ctx, length, best), place,
                     tn_int(ctx, type, a.n - 1));
    place = tn_reduce(ctx, UOP_MIN, place, tn_axis_bit(a.at));
    place = tn_gather(ctx, order, a.at, tn_cast(ctx, place, UOP_I64));
    give_places(__func__, &a, place, out_values, out_indices);
}

/* ---- quantiles ---- */

/* a + w (b - a), from the nearer end; of equals that, also infinite ones: as
 * two elements they have their shares of the gradient all the same. */
static const struct uop *
between_two(struct bell_context *ctx, const struct uop *a, const struct uop *b,
            const struct uop *w)
{
    const struct uop *d = tn_sub(ctx, b, a), *low, *high, *rest;

    rest = tn_sub(ctx, tn_num(ctx, w, 1), w);
    low = tn_add(ctx, a, tn_mul(ctx, d, w));
    high = tn_sub(ctx, b, tn_mul(ctx, d, rest));
    low = tn_where(ctx, tn_lt(ctx, w, tn_num(ctx, w, 0.5)), low, high);
    return tensor_surrogate(ctx, tn_where(ctx, tn_eq(ctx, a, b), a, low), low);
}

/* The elements at k of the order, k < n of `size` along the axis. */
static const struct uop *
take_kth(const struct along *a, const struct uop *k, int64_t size)
{
    return tn_gather(a->ctx, a->u, a->at, kth_places(a, k, size, a->n));
}

/* What lies at `at` (float, from 0 on, m along the axis) of the order. */
static const struct uop *
interpolate_at(const struct along *a, const struct uop *at, int64_t m,
               enum bell_interpolation interpolation)
{
    struct bell_context *ctx = a->ctx;
    const struct uop *low = tn_floor(ctx, at), *weight, *half, *up, *above;

    weight = tn_sub(ctx, at, low);
    half = tn_num(ctx, at, 0.5);
    above = tn_lt(ctx, tn_num(ctx, at, 0), weight);
    low = tn_cast(ctx, low, UOP_I64);
    if (interpolation == BELL_LOWER)
        return take_kth(a, low, m);
    if (interpolation == BELL_NEAREST) {
        up = tn_and(ctx, low, tn_int(ctx, UOP_I64, 1));
        up = tn_ne(ctx, up, tn_int(ctx, UOP_I64, 0));
        above = tn_or(ctx, tn_lt(ctx, half, weight),
                      tn_and(ctx, tn_eq(ctx, weight, half), up));
    }
    up = tn_add(ctx, low, tn_cast(ctx, above, UOP_I64));
    if (interpolation == BELL_NEAREST || interpolation == BELL_HIGHER)
        return take_kth(a, up, m);
    up = tn_add(ctx, tn_pad_axis(ctx, low, a->at, 0, m),
                tn_pad_axis(ctx, up, a->at, m, 0));
    up = take_kth(a, up, 2 * m);
    low = tn_shrink_axis(ctx, up, a->at, 0, m);
    up = tn_shrink_axis(ctx, up, a->at, m, 2 * m);
    if (interpolation == BELL_MIDPOINT)
        weight = tn_where(ctx, above, half, tn_num(ctx, at, 0));
    return between_two(ctx, low, up, weight);
}

/* q in front of x's axes; as a node of a shape like the result's. */
static const struct uop *
quantiles(const struct along *a, const struct uop *q, bool skip_nan,
          enum bell_interpolation interpolation)
{
    struct bell_context *ctx = a->ctx;
    const struct uop *n = count_numbers(a), *all = tn_int(ctx, UOP_I64, a->n);
    const struct uop *at, *ok, *out;
    int64_t m = tn_numel(ctx, q), d[TN_MAX_RANK];
    uint32_t rank = tn_rank(ctx, a->u), i;

    for (i = 0; i < rank; i++)
        d[i] = i == a->at ? m : 1;
    q = tn_cast(ctx, tn_reshape(ctx, q, d, rank), a->u->dtype);
    ok = tn_and(ctx, tn_le(ctx, tn_num(ctx, q, 0), q),
                tn_le(ctx, q, tn_num(ctx, q, 1)));
    if (skip_nan)
        ok = tn_and(ctx, ok, tn_lt(ctx, tn_int(ctx, UOP_I64, 0), n));
    else
        ok = tn_and(ctx, ok, tn_eq(ctx, n, all));
    memcpy(d, tn_shape(ctx, a->u)->d, rank * sizeof(*d));
    d[a->at] = m;
    ok = tn_broadcast(ctx, ok, d, rank);
    at = tn_add(ctx, skip_nan ? n : all, tn_int(ctx, UOP_I64, -1));
    at = tn_mul(ctx, q, tn_cast(ctx, at, q->dtype));
    at = tn_where(ctx, ok, at, tn_num(ctx, q, 0));
    out = interpolate_at(a, at, m, interpolation);
    out = tn_where(ctx, ok, out, tn_num(ctx, q, (double)NAN));
    return tn_swap(ctx, tn_unsqueeze(ctx, out, 0), 0, a->at + 1);
}

static struct bell_tensor *
quantile_call(const char *call, struct bell_tensor *x, struct bell_tensor *q,
              int axis, bool keepdim, bool skip_nan,
              enum bell_interpolation interpolation)
{
    const struct uop *u, *shares;
    enum uop_dtype dtype;
    struct bell_tensor *out;
    struct along a;

    if (!tensor_takes2(call, x, q, &out) ||
        !tensor_plain_axes(call, q, ~0u, "shares are numbers", &out) ||
        !begin_along(call, x, axis, keepdim, &a, &out))
        return out;
    shares = tensor_at(q)->uop; /* a number is as exact as x */
    if (!tn_is_float(a.u) || tensor_at(q)->shape->n > 1 ||
        tensor_at(x)->shape->n == BELL_MAX_RANK || !tn_is_float(shares))
        return tensor_fail(a.ctx, call, BELL_BAD_VALUE,
                           "of %s %s, shares %s %s; floats are needed, the "
                           "shares in a list",
                           DTYPE_OF(x), SHAPE_OF(x), DTYPE_OF(q), SHAPE_OF(q));
    if ((unsigned)interpolation > BELL_MIDPOINT)
        return tensor_fail(a.ctx, call, BELL_BAD_VALUE,
                           "%d is not an interpolation", (int)interpolation);
    dtype = a.u->dtype;
    a.u = tn_widen(a.ctx, a.u);
    u = end_along(&a, quantiles(&a, shares, skip_nan, interpolation), 1);
    if (tensor_at(q)->shape->n == 0)
        u = tn_squeeze(a.ctx, u, 1);
    return tensor_new(a.ctx, call, tn_cast(a.ctx, u, dtype));
}

struct bell_tensor *
bell_quantile(struct bell_tensor *x, struct bell_tensor *q, int axis,
              bool keepdim, enum bell_interpolation interpolation)
{
    return quantile_call(__func__, x, q, axis, keepdim, false, interpolation);
}

struct bell_tensor *
bell_nanquantile(struct bell_tensor *x, struct bell_tensor *q, int axis,
                 bool keepdim, enum bell_interpolation interpolation)
{
    return quantile_call(__func__, x, q, axis, keepdim, true, interpolation);
}

/* ---- searching, histograms ---- */

struct bell_tensor *
bell_searchsorted(struct bell_tensor *sorted, struct bell_tensor *values,
                  bool right)
{
    struct bell_tensor *both[2] = {sorted, values}, *out;
    const struct uop_dims *s, *v;
    const struct uop *a, *b;
    struct bell_context *ctx;
    enum uop_dtype dtype;
    bool fits;
    uint32_t i;

    if (!tensor_takes2(__func__, sorted, values, &out))
        return out;
    ctx = tensor_at(sorted)->ctx;
    s = tensor_at(sorted)->shape;
    v = tensor_at(values)->shape;
    fits = s->n >= 1 && (s->n == 1 || s->n == v->n);
    for (i = 0; fits && i + 1 < s->n; i++)
        fits = s->d[i] == v->d[i];
    if (!fits)
        return tensor_fail(
            ctx, __func__, BELL_BAD_SHAPE,
            "values of shape %s in %s: the axes before the last must be equal",
            SHAPE_OF(values), SHAPE_OF(sorted));
    dtype = tensor_wide_dtype(tensor_result_dtype(both, 2, NULL));
    if (dtype == UOP_BOOL)
        dtype = UOP_U8;
    a = tn_cast(ctx, tensor_at(sorted)->uop, dtype);
    b = tn_cast(ctx, tensor_at(values)->uop, dtype);
    if (s->n == 1 && !tn_bad(b))
        b = tn_flat(ctx, b);
    a = tn_search(ctx, a, b, right);
    return tensor_new(ctx, __func__, tn_reshape(ctx, a, v->d, v->n));
}

struct bell_tensor *
bell_histc(struct bell_tensor *x, int64_t n_bins, double low, double high)
{
    const struct uop *u, *from, *to, *one, *bin, *in, *same, *zero;
    enum uop_dtype dtype;
    struct bell_context *ctx;
    struct bell_tensor *out;

    if (!tensor_takes(__func__, x, &out))
        return out;
    ctx = tensor_at(x)->ctx;
    if (!uop_dtype_infos[tensor_at(x)->dtype].is_float || n_bins < 1 ||
        !(low <= high) || isinf(low) || isinf(high))
        return tensor_fail(ctx, __func__, BELL_BAD_VALUE,
                           "%s in %lld bins from %g to %g: expected floats, 1 "
                           "bin or more, finite ends and low <= high",
                           DTYPE_OF(x), (long long)n_bins, low, high);
    u = tensor_wide_node(x);
    dtype = u->dtype;
    u = tn_widen(ctx, tn_flat(ctx, u));
    from = tn_num(ctx, u, low);
    to = tn_num(ctx, u, high);
    one = tn_num(ctx, u, 1);
    if (low == high && tensor_numel(x) > 0) {
        from = tn_reduce(ctx, UOP_MIN, u, 1);
        to = tn_reduce(ctx, UOP_MAX, u, 1);
    }
    same = tn_eq(ctx, from, to);
    from = tn_where(ctx, same, tn_sub(ctx, from, one), from);
    to = tn_where(ctx, same, tn_add(ctx, to, one), to);
    in = tn_and(ctx, tn_le(ctx, from, u), tn_le(ctx, u, to));
    bin = tn_fdiv(ctx, tn_sub(ctx, u, from), tn_sub(ctx, to, from));
    bin = tn_floor(ctx, tn_mul_c(ctx, bin, (double)n_bins));
    zero = tn_num(ctx, u, 0);
    bin = tn_cast(ctx, tn_where(ctx, in, bin, zero), UOP_I64);
    bin = tn_min(ctx, bin, tn_int(ctx, UOP_I64, n_bins - 1));
    bin = tn_where(ctx, in, bin, tn_int(ctx, UOP_I64, n_bins));
    u = tn_scatter_count(ctx, 0, bin, n_bins);
    return tensor_new(ctx, __func__, tn_cast(ctx, u, dtype));
}
