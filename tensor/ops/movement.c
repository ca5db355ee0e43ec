/* Movement calls: checks here, nodes in move.c. */
#include "tensor/ops/elementwise.h"

#include <assert.h>
#include <inttypes.h>
#include <string.h>

#include "base/alloc.h"
#include "base/bits.h"

/* The context and node of x; false with *out set. */
static bool
take_any(const char *call, struct bell_tensor *x, struct bell_context **ctx,
         const struct uop **u, struct bell_tensor **out)
{
    if (!tensor_takes(call, x, out))
        return false;
    *ctx = tensor_at(x)->ctx;
    *u = tensor_node(x);
    if (tn_bad(*u)) {
        *out = tensor_new(tensor_at(x)->ctx, call, *u);
        return false;
    }
    return true;
}

/* The same for a movement by a list of n numbers. */
static bool
take_any_by(const char *call, struct bell_tensor *x, const int64_t *list,
            uint32_t n, struct bell_context **ctx, const struct uop **u,
            struct bell_tensor **out)
{
    if (!take_any(call, x, ctx, u, out))
        return false;
    if (!n || list)
        return true;
    *out = tensor_fail(*ctx, call, BELL_BAD_MISSING,
                       "the list of %u numbers is NULL", n);
    return false;
}

/* ---- reshape and its relatives ---- */

/* Replaces a -1 in d by what makes the elements of from[]; false after a
 * failure. */
static bool
infer_size(const char *call, const struct bell_tensor *x, const int64_t *from,
           uint32_t n_from, int64_t *d, uint32_t n)
{
    char text[TENSOR_SHAPE_STR];
    struct dim_table *dims = tensor_at(x)->ctx->dims;
    int64_t unknown = -1, known[TN_MAX_RANK];
    bool bad = n > TN_MAX_RANK;
    uint32_t i, n_known = 0;

    for (i = 0; i < n && !bad; i++) {
        bad = d[i] < -1 || (d[i] == -1 && unknown >= 0);
        if (d[i] == -1)
            unknown = i;
        else
            known[n_known++] = d[i];
    }
    bad = bad || dims_most(dims, known, n_known) < 0;
    if (!bad && unknown >= 0) {
        d[unknown] = dims_quotient(dims, from, n_from, d, n);
        bad = d[unknown] < 0;
    } else if (!bad) {
        bad = !dims_same_numel(dims, d, n, from, n_from);
    }
    if (bad)
        tensor_fail(tensor_at(x)->ctx, call, BELL_BAD_SHAPE,
                    "%s to %s: both must have the same number of elements, and "
                    "one size at most may be -1",
                    SHAPE_OF(x),
                    tensor_sizes_str(dims, d, n, text, sizeof(text)));
    return !bad;
}

struct bell_tensor *
bell_reshape(struct bell_tensor *x, const int64_t *shape, uint32_t ndim)
{
    int64_t d[BELL_MAX_RANK];
    struct bell_context *ctx;
    struct bell_tensor *out;
    const struct uop *u;

    if (!take_any_by(__func__, x, shape, ndim, &ctx, &u, &out))
        return out;
    if (ndim > BELL_MAX_RANK)
        return tensor_fail(ctx, __func__, BELL_BAD_SHAPE,
                           "%u axes, more than %d", ndim, BELL_MAX_RANK);
    if (ndim)
        memcpy(d, shape, ndim * sizeof(*d));
    if (!infer_size(__func__, x, tn_shape(ctx, u)->d, tn_rank(ctx, u), d,
                    ndim) ||
        !tensor_takes_shape(ctx, __func__, d, ndim))
        return ctx->error_tensor;
    return tensor_new(ctx, __func__, tn_reshape(ctx, u, d, ndim));
}

struct bell_tensor *
bell_squeeze(struct bell_tensor *x, const int64_t *axes, uint32_t n_axes)
{
    struct bell_context *ctx;
    struct bell_tensor *out;
    const struct uop *u;
    uint32_t mask, i;

    if (!take_any(__func__, x, &ctx, &u, &out))
        return out;
    if (!tensor_axes(ctx, __func__, axes, n_axes, tensor_at(x)->shape->n,
                     &mask))
        return ctx->error_tensor;
    for (i = 0; i < tensor_at(x)->shape->n; i++) {
        if (tensor_at(x)->shape->d[i] != 1)
            mask &= ~(1u << i);
    }
    return tensor_new(ctx, __func__, tn_squeeze(ctx, u, mask));
}

struct bell_tensor *
bell_unsqueeze(struct bell_tensor *x, int axis)
{
    struct bell_context *ctx;
    struct bell_tensor *out;
    const struct uop *u;
    int at;

    if (!take_any(__func__, x, &ctx, &u, &out))
        return out;
    if (tensor_at(x)->shape->n == BELL_MAX_RANK)
        return tensor_fail(ctx, __func__, BELL_BAD_SHAPE,
                           "of a tensor of %d axes, the most there can be",
                           BELL_MAX_RANK);
    at = tensor_axis(ctx, __func__, axis, tensor_at(x)->shape->n + 1);
    if (at < 0)
        return ctx->error_tensor;
    return tensor_new(ctx, __func__, tn_unsqueeze(ctx, u, (uint32_t)at));
}

struct bell_tensor *
bell_flatten(struct bell_tensor *x, int first, int last)
{
    const int64_t one = 1;
    struct bell_context *ctx;
    struct bell_tensor *out;
    const struct uop *u;
    int from, to;

    if (!take_any(__func__, x, &ctx, &u, &out))
        return out;
    from = tensor_axis(ctx, __func__, first, tensor_at(x)->shape->n);
    to = tensor_axis(ctx, __func__, last, tensor_at(x)->shape->n);
    if (from < 0 || to < 0)
        return ctx->error_tensor;
    if (from > to)
        return tensor_fail(
            ctx, __func__, BELL_BAD_AXIS,
            "axes %d to %d of %s: the first must not come after the last", from,
            to, SHAPE_OF(x));
    if (tensor_at(x)->shape->n == 0)
        return tensor_new(ctx, __func__, tn_reshape(ctx, u, &one, 1));
    return tensor_new(
        ctx, __func__,
        tn_merge_axes(ctx, u, (uint32_t)from, (uint32_t)(to - from + 1)));
}

struct bell_tensor *
bell_unflatten(struct bell_tensor *x, int axis, const int64_t *sizes,
               uint32_t n_sizes)
{
    int64_t d[2 * BELL_MAX_RANK];
    struct bell_context *ctx;
    struct bell_tensor *out;
    const struct uop *u;
    uint32_t rank, rest;
    int at;

    if (!take_any_by(__func__, x, sizes, n_sizes, &ctx, &u, &out))
        return out;
    rank = tensor_at(x)->shape->n;
    at = tensor_axis(ctx, __func__, axis, rank);
    if (at < 0)
        return ctx->error_tensor;
    if (rank == 0 || n_sizes == 0 || rank - 1 + n_sizes > BELL_MAX_RANK)
        return tensor_fail(
            ctx, __func__, BELL_BAD_SHAPE,
            "axis %d of %s into %u axes: there must be an axis and one size at "
            "least, and %d axes at most in the end",
            at, SHAPE_OF(x), n_sizes, BELL_MAX_RANK);
    rest = rank - 1 - (uint32_t)at;
    memcpy(d, tensor_at(x)->shape->d, (size_t)at * sizeof(*d));
    memcpy(d + at, sizes, n_sizes * sizeof(*d));
    if (!infer_size(__func__, x, &tensor_at(x)->shape->d[at], 1, d + at,
                    n_sizes) ||
        !tensor_takes_shape(ctx, __func__, d + at, n_sizes))
        return ctx->error_tensor;
    memcpy(d + at + n_sizes, tensor_at(x)->shape->d + at + 1,
           rest * sizeof(*d));
    return tensor_new(ctx, __func__, tn_reshape(ctx, u, d, rank - 1 + n_sizes));
}

/* ---- order of axes ---- */

struct bell_tensor *
bell_permute(struct bell_tensor *x, const int64_t *order, uint32_t ndim)
{
    char text[TENSOR_SHAPE_STR];
    int64_t list[BELL_MAX_RANK];
    struct bell_context *ctx;
    struct bell_tensor *out;
    const struct uop *u;
    uint32_t mask, i;

    if (!take_any_by(__func__, x, order, ndim, &ctx, &u, &out))
        return out;
    if (ndim != tensor_at(x)->shape->n)
        return tensor_fail(
            ctx, __func__, BELL_BAD_AXIS,
            "order %s for a tensor of %u axes: expected each axis once",
            tensor_shape_str(order, ndim, text, sizeof(text)),
            tensor_at(x)->shape->n);
    if (ndim && !tensor_axes(ctx, __func__, order, ndim, ndim, &mask))
        return ctx->error_tensor;
    for (i = 0; i < ndim; i++)
        list[i] = order[i] < 0 ? order[i] + ndim : order[i];
    return tensor_new(ctx, __func__, tn_permute(ctx, u, list));
}

struct bell_tensor *
bell_transpose(struct bell_tensor *x, int axis0, int axis1)
{
    struct bell_context *ctx;
    struct bell_tensor *out;
    const struct uop *u;
    int a, b;

    if (!take_any(__func__, x, &ctx, &u, &out))
        return out;
    a = tensor_axis(ctx, __func__, axis0, tensor_at(x)->shape->n);
    b = tensor_axis(ctx, __func__, axis1, tensor_at(x)->shape->n);
    if (a < 0 || b < 0)
        return ctx->error_tensor;
    return tensor_new(ctx, __func__, tn_swap(ctx, u, (uint32_t)a, (uint32_t)b));
}

struct bell_tensor *
bell_t(struct bell_tensor *x)
{
    struct bell_context *ctx;
    struct bell_tensor *out;
    const struct uop *u;
    uint32_t n;

    if (!take_any(__func__, x, &ctx, &u, &out))
        return out;
    n = tensor_at(x)->shape->n;
    return tensor_new(ctx, __func__, n < 2 ? u : tn_swap(ctx, u, n - 2, n - 1));
}

struct bell_tensor *
bell_movedim(struct bell_tensor *x, int from, int to)
{
    struct bell_context *ctx;
    struct bell_tensor *out;
    const struct uop *u;
    int a, b;

    if (!take_any(__func__, x, &ctx, &u, &out))
        return out;
    a = tensor_axis(ctx, __func__, from, tensor_at(x)->shape->n);
    b = tensor_axis(ctx, __func__, to, tensor_at(x)->shape->n);
    if (a < 0 || b < 0)
        return ctx->error_tensor;
    return tensor_new(ctx, __func__,
                      tn_move_axis(ctx, u, (uint32_t)a, (uint32_t)b));
}

struct bell_tensor *
bell_flip(struct bell_tensor *x, const int64_t *axes, uint32_t n_axes)
{
    struct bell_context *ctx;
    struct bell_tensor *out;
    const struct uop *u;
    uint32_t mask;

    if (!take_any(__func__, x, &ctx, &u, &out))
        return out;
    if (!tensor_axes(ctx, __func__, axes, n_axes, tensor_at(x)->shape->n,
                     &mask))
        return ctx->error_tensor;
    return tensor_new(ctx, __func__, tn_flip(ctx, u, mask));
}

/* ---- more and fewer elements ---- */

struct bell_tensor *
bell_expand(struct bell_tensor *x, const int64_t *shape, uint32_t ndim)
{
    char text[TENSOR_SHAPE_STR];
    int64_t d[BELL_MAX_RANK];
    struct bell_context *ctx;
    struct bell_tensor *out;
    const struct uop *u;
    uint32_t i, skip;
    bool bad;

    if (!take_any_by(__func__, x, shape, ndim, &ctx, &u, &out))
        return out;
    bad = ndim > BELL_MAX_RANK || ndim < tensor_at(x)->shape->n;
    skip = ndim - tensor_at(x)->shape->n;
    for (i = 0; i < ndim && !bad; i++) {
        int64_t have = i < skip ? 1 : tensor_at(x)->shape->d[i - skip];
        d[i] = shape[i] == -1 && i >= skip ? have : shape[i];
        bad = d[i] < 0 || (have != 1 && have != d[i]);
    }
    if (bad)
        return tensor_fail(
            ctx, __func__, BELL_BAD_SHAPE,
            "%s to %s: an axis must be 1 or have this size already; -1 keeps "
            "it",
            SHAPE_OF(x),
            tensor_sizes_str(ctx->dims, shape, ndim, text, sizeof(text)));
    if (!tensor_takes_shape(ctx, __func__, d, ndim))
        return ctx->error_tensor;
    return tensor_new(ctx, __func__, tn_broadcast(ctx, u, d, ndim));
}

/* c: of u's dtype and rank 0. */
static const struct uop *
pad_by(struct bell_context *ctx, const struct uop *u, const int64_t *pads,
       const struct uop *c)
{
    const struct uop *inside = tn_int(ctx, UOP_BOOL, 1);
    const struct uop_dims *shape = tn_shape(ctx, u);

    if (tn_bad(c) || (c->op == UOP_CONST && c->arg.bits == 0))
        return tn_pad(ctx, u, pads);
    inside = tn_full(ctx, inside, shape->d, shape->n);
    return tn_where(ctx, tn_pad(ctx, inside, pads), tn_pad(ctx, u, pads), c);
}

const struct uop *
tn_pad_value(struct bell_context *ctx, const struct uop *u, const int64_t *pads,
             double value)
{
    return pad_by(ctx, u, pads, tn_const(ctx, u->dtype, value));
}

/* A padding of a number, or of a size that is not below 0; what it cuts is
 * added to *cut. */
static bool
takes_pad(const struct dim_table *dims, int64_t pad, int64_t *cut)
{
    int64_t min, max;

    if (!dims_known(dims, pad))
        return false;
    dim_bounds(dims, pad, &min, &max);
    *cut -= max < 0 ? max : 0;
    return max <= TN_MAX_NUMEL && (min >= 0 || min == max);
}

/* Pads of the last axes, the last first, as those of all, the first first;
 * false with *out set. */
static bool
take_pads(const char *call, struct bell_tensor *x, const int64_t *pads,
          uint32_t n_pads, int64_t out_pads[2 * BELL_MAX_RANK],
          struct bell_tensor **out)
{
    const struct uop_dims *shape = tensor_at(x)->shape;
    struct bell_context *ctx = tensor_at(x)->ctx;
    struct dim_table *dims = ctx->dims;
    char text[TENSOR_SHAPE_STR];
    int64_t d[BELL_MAX_RANK];
    bool bad = n_pads > 2 * shape->n || n_pads % 2 != 0;
    uint32_t i;

    memset(out_pads, 0, 2 * BELL_MAX_RANK * sizeof(*out_pads));
    for (i = 0; !bad && i < shape->n; i++) {
        uint32_t from = 2 * (shape->n - 1 - i);
        int64_t before = from < n_pads ? pads[from] : 0;
        int64_t after = from < n_pads ? pads[from + 1] : 0;
        int64_t cut = 0, least;

        bad = !takes_pad(dims, before, &cut) || !takes_pad(dims, after, &cut) ||
              dim_at_most(dims, cut, shape->d[i]) != DIM_ALWAYS;
        d[i] =
            bad ? 0 : dim_add(dims, shape->d[i], dim_add(dims, before, after));
        bad = bad || d[i] == DIM_BAD;
        if (!bad)
            dim_bounds(dims, d[i], &least, &cut);
        bad = bad || least < 0;
        out_pads[2 * i] = before;
        out_pads[2 * i + 1] = after;
    }
    if (!bad)
        return tensor_takes_shape(ctx, call, d, shape->n)
                   ? true
                   : (*out = ctx->error_tensor, false);
    *out = tensor_fail(ctx, call, BELL_BAD_VALUE,
                       "%s by %s: expected a pair for each of the last axes, "
                       "and no axis cut below 0",
                       SHAPE_OF(x),
                       tensor_sizes_str(dims, pads, n_pads < 32 ? n_pads : 32,
                                        text, sizeof(text)));
    return false;
}

struct bell_tensor *
bell_pad(struct bell_tensor *x, const int64_t *pads, uint32_t n_pads,
         double value)
{
    int64_t all[2 * BELL_MAX_RANK];
    struct bell_context *ctx;
    struct bell_tensor *out;
    const struct uop *u;

    if (!take_any_by(__func__, x, pads, n_pads, &ctx, &u, &out) ||
        !take_pads(__func__, x, pads, n_pads, all, &out))
        return out;
    return tensor_new(ctx, __func__, tn_pad_value(ctx, u, all, value));
}

struct bell_tensor *
bell_pad_by(struct bell_tensor *x, const int64_t *pads, uint32_t n_pads,
            struct bell_tensor *value)
{
    int64_t all[2 * BELL_MAX_RANK];
    struct bell_context *ctx;
    struct bell_tensor *out;
    const struct uop *u, *c;

    if (!take_any_by(__func__, x, pads, n_pads, &ctx, &u, &out) ||
        !tensor_takes2(__func__, x, value, &out) ||
        !take_pads(__func__, x, pads, n_pads, all, &out))
        return out;
    if (tensor_numel(value) != 1 || tensor_at(value)->flags & TENSOR_VARIES)
        return tensor_fail(ctx, __func__, BELL_BAD_SHAPE,
                           "the value has shape %s; expected one element",
                           SHAPE_OF(value));
    c = tn_reshape(ctx, tensor_at(value)->uop, NULL, 0);
    c = tn_cast(ctx, c, u->dtype);
    return tensor_new(ctx, __func__, pad_by(ctx, u, all, c));
}

struct bell_tensor *
bell_shrink(struct bell_tensor *x, const int64_t *bounds, uint32_t n_bounds)
{
    char text[TENSOR_SHAPE_STR];
    struct bell_context *ctx;
    struct bell_tensor *out;
    const struct uop *u;
    bool bad;
    uint32_t i;

    if (!take_any_by(__func__, x, bounds, n_bounds, &ctx, &u, &out))
        return out;
    bad = n_bounds != 2 * tensor_at(x)->shape->n;
    for (i = 0; !bad && i < tensor_at(x)->shape->n; i++)
        bad =
            !dims_known(ctx->dims, bounds[2 * i]) ||
            !dims_known(ctx->dims, bounds[2 * i + 1]) ||
            !dims_is_slice(ctx->dims, bounds[2 * i],
                           dim_sub(ctx->dims, bounds[2 * i + 1], bounds[2 * i]),
                           tensor_at(x)->shape->d[i]);
    if (bad)
        return tensor_fail(ctx, __func__, BELL_BAD_INDEX,
                           "%s to the bounds %s: expected 0 <= begin <= end <= "
                           "size for each axis",
                           SHAPE_OF(x),
                           tensor_sizes_str(ctx->dims, bounds,
                                            n_bounds < 32 ? n_bounds : 32, text,
                                            sizeof(text)));
    return tensor_new(ctx, __func__, tn_shrink(ctx, u, bounds));
}

struct bell_tensor *
bell_repeat(struct bell_tensor *x, const int64_t *counts, uint32_t n_counts)
{
    int64_t split[TN_MAX_RANK], wide[TN_MAX_RANK], d[BELL_MAX_RANK];
    struct bell_context *ctx;
    struct bell_tensor *out;
    const struct uop *u;
    uint32_t i, skip;
    bool bad;

    if (!take_any_by(__func__, x, counts, n_counts, &ctx, &u, &out))
        return out;
    bad = n_counts > BELL_MAX_RANK || n_counts < tensor_at(x)->shape->n;
    skip = n_counts - tensor_at(x)->shape->n;
    for (i = 0; !bad && i < n_counts; i++) {
        int64_t have = i < skip ? 1 : tensor_at(x)->shape->d[i - skip];
        bad = counts[i] < 0 || !dims_known(ctx->dims, counts[i]) ||
              dim_mul(ctx->dims, counts[i], have) == DIM_BAD;
        split[2 * i] = 1;
        wide[2 * i] = counts[i];
        split[2 * i + 1] = wide[2 * i + 1] = have;
        d[i] = bad ? 0 : dim_mul(ctx->dims, counts[i], have);
    }
    if (bad) {
        char text[TENSOR_SHAPE_STR];
        return tensor_fail(
            ctx, __func__, BELL_BAD_VALUE,
            "%s times %s: expected a count of 0 or more for each axis; more "
            "counts go in front",
            SHAPE_OF(x),
            tensor_sizes_str(ctx->dims, counts, n_counts, text, sizeof(text)));
    }
    if (!tensor_takes_shape(ctx, __func__, d, n_counts))
        return ctx->error_tensor;
    u = tn_expand(ctx, tn_reshape(ctx, u, split, 2 * n_counts), wide);
    return tensor_new(ctx, __func__, tn_reshape(ctx, u, d, n_counts));
}

struct bell_tensor *
bell_repeat_interleave(struct bell_tensor *x, int64_t count, int axis)
{
    int64_t d[TN_MAX_RANK];
    struct bell_context *ctx;
    struct bell_tensor *out;
    const struct uop *u;
    uint32_t rank;
    int at;

    if (!take_any(__func__, x, &ctx, &u, &out))
        return out;
    rank = tensor_at(x)->shape->n;
    at = tensor_axis(ctx, __func__, axis, rank);
    if (at < 0)
        return ctx->error_tensor;
    if (count < 0 || count > TN_MAX_NUMEL || rank == 0)
        return tensor_fail(ctx, __func__, BELL_BAD_VALUE,
                           "%lld times an element of %s: expected an axis, and "
                           "a count of 0 or more",
                           (long long)count, SHAPE_OF(x));
    u = tn_unsqueeze(ctx, u, (uint32_t)at + 1);
    memcpy(d, tn_shape(ctx, u)->d, (rank + 1) * sizeof(*d));
    d[at + 1] = count;
    u = tn_merge_axes(ctx, tn_expand(ctx, u, d), (uint32_t)at, 2);
    return tensor_new(ctx, __func__, u);
}

/* ---- joining and parting ---- */

/* The nodes of n tensors in their common dtype; host memory. */
static const struct uop **
take_list(const char *call, struct bell_tensor *const *tensors, uint32_t n,
          struct bell_tensor **out)
{
    const struct uop **list;
    enum uop_dtype dtype;
    uint32_t i;

    if (n == 0) {
        (void)bell_fail_at(
            call, BELL_BAD_MISSING,
            "%s: the list is empty; expected one tensor at least", call);
        *out = NULL;
        return NULL;
    }
    if (!tensor_takes_n(call, tensors, n, out))
        return NULL;
    list = host_alloc(n * sizeof(*list));
    if (!list) {
        *out = tensor_fail(tensor_at(tensors[0])->ctx, call, BELL_E_NO_MEMORY,
                           "out of memory for %u tensors", n);
        return NULL;
    }
    dtype = tensor_result_dtype(tensors, n, NULL);
    for (i = 0; i < n; i++)
        list[i] = tn_cast(tensor_at(tensors[0])->ctx,
                          tensor_at(tensors[i])->uop, dtype);
    return list;
}

/* Where position < end of part i take part i, each part padded to its place.
 * Pairwise, so that depth is log n. */
const struct uop *
tn_join(struct bell_context *ctx, const struct uop **parts, uint32_t n,
        uint32_t axis)
{
    uint32_t i, kept;

    while (n > 1) {
        for (i = kept = 0; i < n; i += 2) {
            int64_t a, b, rank;
            const struct uop *low, *high;
            if (i + 1 == n || tn_bad(parts[i]) || tn_bad(parts[i + 1])) {
                parts[kept++] = parts[i];
                continue;
            }
            a = tn_size(ctx, parts[i], axis);
            b = tn_size(ctx, parts[i + 1], axis);
            rank = tn_rank(ctx, parts[i]);
            low = tn_pad_axis(ctx, parts[i], axis, 0, b);
            high = tn_pad_axis(ctx, parts[i + 1], axis, a, 0);
            parts[kept++] =
                a == 0 ? parts[i + 1]
                : b == 0
                    ? parts[i]
                    : tn_where(ctx,
                               tn_lt(ctx,
                                     tn_iota(ctx, (uint32_t)rank, axis,
                                             dim_add(ctx->dims, a, b), UOP_I64),
                                     tn_count(ctx, a)),
                               low, high);
        }
        n = kept;
    }
    return parts[0];
}

static bool
same_but_axis(const struct uop_dims *a, const struct uop_dims *b, uint32_t axis)
{
    uint32_t i;

    for (i = 0; i < a->n && a->n == b->n; i++) {
        if (i != axis && a->d[i] != b->d[i])
            return false;
    }
    return a->n == b->n;
}

/* The `n` elements that such a mode puts before an axis, or after it. */
static const struct uop *
make_border(struct bell_context *ctx, const struct uop *u, uint32_t axis,
            int64_t n, bool after, enum bell_pad_mode mode)
{
    int64_t size = tn_size(ctx, u, axis), d[TN_MAX_RANK], at;

    switch (mode) {
    case BELL_PAD_REFLECT:
        at = after ? dim_sub(ctx->dims, size, n + 1) : 1;
        u = tn_shrink_axis(ctx, u, axis, at, dim_add(ctx->dims, at, n));
        return tn_flip(ctx, u, tn_axis_bit(axis));
    case BELL_PAD_REPLICATE:
        at = after ? dim_sub(ctx->dims, size, 1) : 0;
        u = tn_shrink_axis(ctx, u, axis, at, dim_add(ctx->dims, at, 1));
        if (tn_bad(u))
            return u;
        memcpy(d, tn_shape(ctx, u)->d, tn_rank(ctx, u) * sizeof(*d));
        d[axis] = n;
        return tn_expand(ctx, u, d);
    case BELL_PAD_CIRCULAR:
        at = after ? 0 : dim_sub(ctx->dims, size, n);
        return tn_shrink_axis(ctx, u, axis, at, dim_add(ctx->dims, at, n));
    }
    return &uop_failed;
}

const struct uop *
tn_pad_mode(struct bell_context *ctx, const struct uop *u, uint32_t axis,
            int64_t before, int64_t after, enum bell_pad_mode mode)
{
    const struct uop *part[3];
    uint32_t n = 0;

    if (tn_bad(u))
        return u;
    if (before > 0)
        part[n++] = make_border(ctx, u, axis, before, false, mode);
    part[n++] = u;
    if (after > 0)
        part[n++] = make_border(ctx, u, axis, after, true, mode);
    return n > 1 ? tn_join(ctx, part, n, axis) : u;
}

/* Cuts where pads[2] are negative. */
static const struct uop *
cut_axis(struct bell_context *ctx, const struct uop *u, uint32_t axis,
         const int64_t *pads)
{
    int64_t before = pads[0] < 0 ? -pads[0] : 0;
    int64_t after = pads[1] < 0 ? -pads[1] : 0;

    if (tn_bad(u) || (before == 0 && after == 0))
        return u;
    return tn_shrink_axis(ctx, u, axis, before,
                          dim_sub(ctx->dims, tn_size(ctx, u, axis), after));
}

struct bell_tensor *
bell_pad_with(struct bell_tensor *x, const int64_t *pads, uint32_t n_pads,
              enum bell_pad_mode mode)
{
    int64_t all[2 * BELL_MAX_RANK];
    struct bell_context *ctx;
    struct bell_tensor *out;
    const struct uop *u;
    int64_t before, after;
    uint32_t i, side;

    if (!take_any_by(__func__, x, pads, n_pads, &ctx, &u, &out) ||
        !take_pads(__func__, x, pads, n_pads, all, &out))
        return out;
    if (dims_in(all, ARRAY_LEN(all)))
        return tensor_fail(ctx, __func__, BELL_BAD_VALUE,
                           "a padding has the size of a symbol: what is "
                           "mirrored or repeated is counted");
    if (mode < BELL_PAD_REFLECT || mode > BELL_PAD_CIRCULAR)
        return tensor_fail(ctx, __func__, BELL_BAD_VALUE,
                           "mode %d is not an enum bell_pad_mode", (int)mode);
    for (i = 0; i < tensor_at(x)->shape->n; i++) {
        int64_t size = tensor_at(x)->shape->d[i];
        if (mode == BELL_PAD_CIRCULAR) {
            u = cut_axis(ctx, u, i, all + 2 * i);
            size = tn_bad(u) ? size : tn_size(ctx, u, i);
        }
        for (side = 0; side < 2; side++) {
            int64_t more = all[2 * i + side], most = size, greatest;
            if (mode != BELL_PAD_CIRCULAR)
                most = mode == BELL_PAD_REFLECT ? dim_sub(ctx->dims, size, 1)
                       : size > 0               ? TN_MAX_NUMEL
                                                : 0;
            if (dim_is_expr(most))
                dim_bounds(ctx->dims, most, &most, &greatest);
            if (more > 0 && more > most)
                return tensor_fail(
                    ctx, __func__, BELL_BAD_VALUE,
                    "%lld elements %s axis %u of %s; at most %lld are possible",
                    (long long)more, side ? "after" : "before", i, SHAPE_OF(x),
                    (long long)most);
        }
        before = all[2 * i] > 0 ? all[2 * i] : 0;
        after = all[2 * i + 1] > 0 ? all[2 * i + 1] : 0;
        u = tn_pad_mode(ctx, u, i, before, after, mode);
        if (mode != BELL_PAD_CIRCULAR) /* borders see what is cut */
            u = cut_axis(ctx, u, i, all + 2 * i);
    }
    return tensor_new(ctx, __func__, u);
}

struct bell_tensor *
bell_cat(struct bell_tensor *const *tensors, uint32_t n, int axis)
{
    const struct uop **list;
    struct bell_context *ctx;
    struct bell_tensor *out;
    uint32_t i;
    int at;

    list = take_list(__func__, tensors, n, &out);
    if (!list)
        return out;
    ctx = tensor_at(tensors[0])->ctx;
    at = tensor_axis(ctx, __func__, axis, tensor_at(tensors[0])->shape->n);
    for (i = 0; i < n && at >= 0; i++) {
        if (tensor_at(tensors[i])->shape->n &&
            same_but_axis(tensor_at(tensors[0])->shape,
                          tensor_at(tensors[i])->shape, (uint32_t)at))
            continue;
        tensor_fail(ctx, __func__, BELL_BAD_SHAPE,
                    "%s and %s (tensor %u) along axis %d: there must be such "
                    "an axis, and the others must be equal",
                    SHAPE_OF(tensors[0]), SHAPE_OF(tensors[i]), i, at);
        at = -1;
    }
    out = at < 0
              ? ctx->error_tensor
              : tensor_new(ctx, __func__, tn_join(ctx, list, n, (uint32_t)at));
    host_free(list);
    return out;
}

struct bell_tensor *
bell_stack(struct bell_tensor *const *tensors, uint32_t n, int axis)
{
    const struct uop **list;
    struct bell_context *ctx;
    struct bell_tensor *out;
    uint32_t i;
    int at;

    list = take_list(__func__, tensors, n, &out);
    if (!list)
        return out;
    ctx = tensor_at(tensors[0])->ctx;
    at = tensor_axis(ctx, __func__, axis, tensor_at(tensors[0])->shape->n + 1);
    for (i = 0; i < n && at >= 0; i++) {
        if (tensor_at(tensors[i])->shape != tensor_at(tensors[0])->shape ||
            tensor_at(tensors[0])->shape->n == BELL_MAX_RANK) {
            tensor_fail(ctx, __func__, BELL_BAD_SHAPE,
                        "%s and %s (tensor %u): all must have one shape, of "
                        "fewer than %d axes",
                        SHAPE_OF(tensors[0]), SHAPE_OF(tensors[i]), i,
                        BELL_MAX_RANK);
            at = -1;
        } else {
            list[i] = tn_unsqueeze(ctx, list[i], (uint32_t)at);
        }
    }
    out = at < 0
              ? ctx->error_tensor
              : tensor_new(ctx, __func__, tn_join(ctx, list, n, (uint32_t)at));
    host_free(list);
    return out;
}

/* Room for n results. */
static bool
has_outputs(const char *call, uint32_t n, struct bell_tensor **out)
{
    if (n && !out)
        (void)bell_fail_at(call, BELL_BAD_MISSING,
                           "%s: the list of results is NULL", call);
    return !n || out;
}

static void
fill_outputs(struct bell_tensor *t, uint32_t n, struct bell_tensor **out)
{
    uint32_t i;

    for (i = 0; i < n; i++)
        out[i] = t;
}

void
bell_split(struct bell_tensor *x, const int64_t *sizes, uint32_t n, int axis,
           struct bell_tensor **out)
{
    struct bell_context *ctx;
    struct bell_tensor *error;
    const struct uop *u;
    int64_t begin = 0, left;
    uint32_t i;
    int at;

    if (!has_outputs(__func__, n, out))
        return;
    if (!take_any_by(__func__, x, sizes, n, &ctx, &u, &error)) {
        fill_outputs(error, n, out);
        return;
    }
    at = tensor_axis(ctx, __func__, axis, tensor_at(x)->shape->n);
    left =
        at < 0 || tensor_at(x)->shape->n == 0 ? -1 : tensor_at(x)->shape->d[at];
    for (i = 0; i < n && left >= 0; i++)
        left = dims_is_slice(ctx->dims, 0, sizes[i], left)
                   ? dim_sub(ctx->dims, left, sizes[i])
                   : -1;
    if (left != 0) {
        char text[TENSOR_SHAPE_STR];
        if (at >= 0)
            tensor_fail(ctx, __func__, BELL_BAD_SHAPE,
                        "parts of %s along axis %d of %s: they must add up to "
                        "the size of the axis",
                        tensor_sizes_str(ctx->dims, sizes, n < 32 ? n : 32,
                                         text, sizeof(text)),
                        at, SHAPE_OF(x));
        fill_outputs(ctx->error_tensor, n, out);
        return;
    }
    for (i = 0; i < n; i++) {
        left = dim_add(ctx->dims, begin, sizes[i]);
        out[i] = tensor_new(ctx, __func__,
                            tn_shrink_axis(ctx, u, (uint32_t)at, begin, left));
        begin = left;
    }
}

uint32_t
bell_chunk(struct bell_tensor *x, uint32_t n, int axis,
           struct bell_tensor **out)
{
    struct bell_context *ctx;
    struct bell_tensor *error;
    const struct uop *u;
    int64_t size, step, begin;
    uint32_t count = 0;
    int at;

    if (!has_outputs(__func__, n, out))
        return 0;
    if (!take_any(__func__, x, &ctx, &u, &error)) {
        fill_outputs(error, n, out);
        return 0;
    }
    at = tensor_axis(ctx, __func__, axis, tensor_at(x)->shape->n);
    if (at >= 0 && !tensor_plain_axes(__func__, x, tn_axis_bit(at),
                                      "how many parts there are depends on "
                                      "its value; bell_split takes sizes",
                                      &error))
        at = -1;
    if (at >= 0 && (n == 0 || tensor_at(x)->shape->n == 0)) {
        tensor_fail(ctx, __func__, BELL_BAD_VALUE,
                    "%s into %u parts: expected an axis, and one part at least",
                    SHAPE_OF(x), n);
        at = -1;
    }
    fill_outputs(ctx->error_tensor, n, out);
    if (at < 0)
        return 0;
    size = tensor_at(x)->shape->d[at];
    step = (int64_t)div_up((uint64_t)size, n);
    for (begin = 0; size ? begin < size : count < n; begin += step) {
        int64_t end = begin + step < size ? begin + step : size;
        out[count] = tensor_new(
            ctx, __func__, tn_shrink_axis(ctx, u, (uint32_t)at, begin, end));
        if (tensor_at(out[count++])->flags & TENSOR_ERROR)
            return 0;
    }
    return count;
}

/* ---- composed movement ---- */

struct bell_tensor *
bell_roll(struct bell_tensor *x, int64_t shift, int axis)
{
    const struct uop *parts[2], *u;
    struct bell_context *ctx;
    struct bell_tensor *out;
    int64_t size, cut, least, most;
    int at;

    if (!take_any(__func__, x, &ctx, &u, &out))
        return out;
    at = tensor_axis(ctx, __func__, axis, tensor_at(x)->shape->n);
    if (at < 0)
        return ctx->error_tensor;
    size = tensor_at(x)->shape->n ? tensor_at(x)->shape->d[at] : 1;
    if (size <= 1)
        return tensor_new(ctx, __func__, u);
    dim_bounds(ctx->dims, size, &least, &most);
    if (dim_is_expr(size) && (shift < 0 ? -least : 0) <= shift &&
        shift <= least)
        cut = shift > 0 ? dim_sub(ctx->dims, size, shift) : -shift;
    else
        cut = dim_sub(ctx->dims, size, dim_floormod(ctx->dims, shift, size));
    if (cut == size || cut == 0)
        return tensor_new(ctx, __func__, u);
    if (!dims_is_slice(ctx->dims, 0, cut, size) ||
        !dims_is_slice(ctx->dims, 0, dim_sub(ctx->dims, size, cut), size))
        return tensor_fail(ctx, __func__, BELL_BAD_VALUE,
                           "by %" PRId64 " along axis %d of %s, which can be "
                           "%" PRId64 " long: it may be a whole turn",
                           shift, at, SHAPE_OF(x), least);
    parts[0] = tn_shrink_axis(ctx, u, (uint32_t)at, cut, size);
    parts[1] = tn_shrink_axis(ctx, u, (uint32_t)at, 0, cut);
    return tensor_new(ctx, __func__, tn_join(ctx, parts, 2, (uint32_t)at));
}

/* Keeps x where column - row is at most (or, inverted, more than) k. */
static struct bell_tensor *
keep_triangle(const char *call, struct bell_tensor *x, int64_t k, bool upper)
{
    struct bell_context *ctx;
    struct bell_tensor *out;
    const struct uop *u, *row, *col, *mask, *zero;
    uint32_t n;

    if (!take_any(call, x, &ctx, &u, &out))
        return out;
    n = tensor_at(x)->shape->n;
    if (n < 2)
        return tensor_fail(ctx, call, BELL_BAD_SHAPE,
                           "of shape %s; two axes are needed", SHAPE_OF(x));
    k = k > TN_MAX_NUMEL ? TN_MAX_NUMEL : k < -TN_MAX_NUMEL ? -TN_MAX_NUMEL : k;
    row = tn_iota(ctx, n, n - 2, tensor_at(x)->shape->d[n - 2], UOP_I64);
    row = tn_add(ctx, row, tn_int(ctx, UOP_I64, upper ? k : k + 1));
    col = tn_iota(ctx, n, n - 1, tensor_at(x)->shape->d[n - 1], UOP_I64);
    mask = tn_lt(ctx, col, row);
    zero = tn_const(ctx, u->dtype, 0);
    u = upper ? tn_where(ctx, mask, zero, u) : tn_where(ctx, mask, u, zero);
    return tensor_new(ctx, call, u);
}

struct bell_tensor *
bell_tril(struct bell_tensor *x, int64_t diagonal)
{
    return keep_triangle(__func__, x, diagonal, false);
}

struct bell_tensor *
bell_triu(struct bell_tensor *x, int64_t diagonal)
{
    return keep_triangle(__func__, x, diagonal, true);
}

/* The main diagonal of the last two axes, from (0, 0) on: rows of n + 1 in
 * the flat matrix, of which the first elements. */
const struct uop *
tn_diagonal(struct bell_context *ctx, const struct uop *u, int64_t n)
{
    uint32_t rank = tn_rank(ctx, u);

    if (tn_bad(u))
        return u;
    if (n == 0) {
        int64_t d[TN_MAX_RANK];
        memcpy(d, tn_shape(ctx, u)->d, rank * sizeof(*d));
        d[rank - 2] = 0;
        return tn_full(ctx, tn_const(ctx, u->dtype, 0), d, rank - 1);
    }
    u = tn_shrink_axis(ctx, u, rank - 2, 0, n);
    u = tn_shrink_axis(ctx, u, rank - 1, 0, n);
    u = tn_merge_axes(ctx, u, rank - 2, 2);
    u = tn_pad_axis(ctx, u, rank - 2, 0, n);
    u = tn_split_axis(ctx, u, rank - 2, n, dim_add(ctx->dims, n, 1));
    u = tn_shrink_axis(ctx, u, rank - 1, 0, 1);
    return tn_squeeze(ctx, u, tn_axis_bit(rank - 1));
}

/* Where a diagonal of rows x cols begins, and its length; false: it depends on
 * symbols whether there is one. */
static bool
take_diagonal(struct dim_table *t, int64_t offset, int64_t rows, int64_t cols,
              int64_t *down, int64_t *right, int64_t *n)
{
    int64_t limit = offset < 0 ? rows : cols, least, most;

    dim_bounds(t, limit, &least, &most);
    offset = offset > most && least == most    ? most
             : offset < -most && least == most ? -most
                                               : offset;
    *down = offset < 0 ? -offset : 0;
    *right = offset > 0 ? offset : 0;
    *n = dim_min(t, dim_sub(t, rows, *down), dim_sub(t, cols, *right));
    if (*n == DIM_BAD)
        return false;
    dim_bounds(t, *n, &least, &most);
    return least >= (dim_is_expr(*n) ? 1 : 0);
}

struct bell_tensor *
bell_diagonal(struct bell_tensor *x, int64_t offset, int axis0, int axis1)
{
    struct bell_context *ctx;
    struct bell_tensor *out;
    const struct uop *u;
    int64_t rows, cols, down, right, n;
    uint32_t rank;
    int a, b;

    if (!take_any(__func__, x, &ctx, &u, &out))
        return out;
    rank = tensor_at(x)->shape->n;
    a = tensor_axis(ctx, __func__, axis0, rank);
    b = tensor_axis(ctx, __func__, axis1, rank);
    if (a < 0 || b < 0)
        return ctx->error_tensor;
    if (a == b || rank < 2)
        return tensor_fail(ctx, __func__, BELL_BAD_AXIS,
                           "axes %d and %d of %s: expected two different axes",
                           a, b, SHAPE_OF(x));
    rows = tensor_at(x)->shape->d[a];
    cols = tensor_at(x)->shape->d[b];
    if (!take_diagonal(ctx->dims, offset, rows, cols, &down, &right, &n))
        return tensor_fail(ctx, __func__, BELL_BAD_SHAPE,
                           "diagonal %" PRId64 " of axes %d and %d of %s: a "
                           "symbol may leave nothing of it",
                           offset, a, b, SHAPE_OF(x));
    u = tn_move_axis(ctx, u, (uint32_t)a, rank - 1);
    u = tn_move_axis(ctx, u, (uint32_t)(b > a ? b - 1 : b), rank - 1);
    u = tn_shrink_axis(ctx, u, rank - 2, down, dim_add(ctx->dims, down, n));
    u = tn_shrink_axis(ctx, u, rank - 1, right, dim_add(ctx->dims, right, n));
    return tensor_new(ctx, __func__, tn_diagonal(ctx, u, n));
}

struct bell_tensor *
bell_diag(struct bell_tensor *x)
{
    struct bell_context *ctx;
    struct bell_tensor *out;
    const struct uop *u;
    int64_t n;

    if (!take_any(__func__, x, &ctx, &u, &out))
        return out;
    if (tensor_at(x)->shape->n == 2)
        return bell_diagonal(x, 0, 0, 1);
    if (tensor_at(x)->shape->n != 1)
        return tensor_fail(ctx, __func__, BELL_BAD_SHAPE,
                           "of shape %s; one or two axes are needed",
                           SHAPE_OF(x));
    n = tensor_at(x)->shape->d[0];
    u = tn_where(ctx,
                 tn_eq(ctx, tn_iota(ctx, 2, 0, n, UOP_I64),
                       tn_iota(ctx, 2, 1, n, UOP_I64)),
                 tn_unsqueeze(ctx, u, 1), tn_const(ctx, u->dtype, 0));
    return tensor_new(ctx, __func__, u);
}

struct bell_tensor *
bell_unfold(struct bell_tensor *x, int axis, int64_t size, int64_t step)
{
    struct bell_context *ctx;
    struct bell_tensor *out;
    const struct uop *u;
    int64_t d[BELL_MAX_RANK], have, n;
    uint32_t rank;
    int at;

    if (!take_any(__func__, x, &ctx, &u, &out))
        return out;
    rank = tensor_at(x)->shape->n;
    at = tensor_axis(ctx, __func__, axis, rank);
    if (at < 0)
        return ctx->error_tensor;
    have = rank ? tensor_at(x)->shape->d[at] : 1;
    if (size < 0 || step < 1 ||
        dim_at_most(ctx->dims, size, have) != DIM_ALWAYS ||
        step > TN_MAX_NUMEL || rank == BELL_MAX_RANK)
        return tensor_fail(ctx, __func__, BELL_BAD_VALUE,
                           "windows of %lld by %lld along axis %d of %s: a "
                           "window must fit, and the step must be 1 or more",
                           (long long)size, (long long)step, at, SHAPE_OF(x));
    n = dim_sub(ctx->dims, have, size);
    n = dim_add(ctx->dims, dim_floordiv(ctx->dims, n, step), 1);
    if (size == 0) { /* nothing, n times */
        memcpy(d, tensor_at(x)->shape->d, rank * sizeof(d[0]));
        d[at] = n;
        d[rank] = 0;
        u = tn_full(ctx, tn_const(ctx, u->dtype, 0), d, rank + 1);
        return tensor_new(ctx, __func__, u);
    }
    if (rank == 0) {
        d[0] = 1;
        return tensor_new(ctx, __func__, tn_reshape(ctx, u, d, 1));
    }
    u = tn_unfold(ctx, u, (uint32_t)at, n, size, step, 1);
    u = tn_move_axis(ctx, u, (uint32_t)at + 1, rank);
    return tensor_new(ctx, __func__, u);
}

void
bell_meshgrid(struct bell_tensor *const *tensors, uint32_t n,
              struct bell_tensor **out)
{
    int64_t d[BELL_MAX_RANK], along[BELL_MAX_RANK];
    struct bell_context *ctx;
    struct bell_tensor *error;
    uint32_t i, j;

    if (!has_outputs(__func__, n, out))
        return;
    if (!tensor_takes_n(__func__, tensors, n, &error)) {
        fill_outputs(error, n, out);
        return;
    }
    for (i = 0; i < n; i++) {
        ctx = tensor_at(tensors[i])->ctx;
        if (tensor_at(tensors[i])->shape->n > 1 || n > BELL_MAX_RANK) {
            tensor_fail(ctx, __func__, BELL_BAD_SHAPE,
                        "tensor %u of %u has shape %s: expected one axis at "
                        "most in each, and %d tensors at most",
                        i, n, SHAPE_OF(tensors[i]), BELL_MAX_RANK);
            fill_outputs(ctx->error_tensor, n, out);
            return;
        }
        d[i] = tensor_at(tensors[i])->shape->n
                   ? tensor_at(tensors[i])->shape->d[0]
                   : 1;
    }
    for (i = 0; i < n; i++) {
        const struct uop *u = tensor_at(tensors[i])->uop;
        ctx = tensor_at(tensors[i])->ctx;
        for (j = 0; j < n; j++)
            along[j] = i == j ? d[i] : 1;
        u = tn_expand(ctx, tn_reshape(ctx, u, along, n), d);
        out[i] = tensor_new(ctx, __func__, u);
    }
}
