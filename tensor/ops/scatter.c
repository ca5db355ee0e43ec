/* Combining by index: what scatter, index_put, gather's gradient and counting
 * are made of.
 *
 * Two ways. Little work, or few places to go to: each of them looks at every
 * element, in a kernel or two. Else the elements are put in the order of their
 * indices, runs of one index are combined by a scan, and each place finds where
 * its run ends by bisection: n log^2 n, in dozens of kernels.
 */
#include "tensor/ops/select.h"

#include <assert.h>
#include <math.h>
#include <string.h>

#include "tensor/ops/elementwise.h"

/* Looked at one by one: as many places or elements along the axis, or so much
 * in all. */
#define DIRECT_SIZE 32
#define DIRECT_WORK (1 << 18)

/* ---- searching ---- */

/* a < b with NaN as the greatest. */
static const struct uop *
comes_before(struct bell_context *ctx, const struct uop *a, const struct uop *b)
{
    const struct uop *less = tn_lt(ctx, a, b);

    if (!tn_is_float(a) || tn_bad(less))
        return less;
    return tn_or(ctx, less,
                 tn_and(ctx, tn_isnan(ctx, b), tn_not(ctx, tn_isnan(ctx, a))));
}

const struct uop *
tn_search(struct bell_context *ctx, const struct uop *sorted,
          const struct uop *values, bool right)
{
    uint32_t last = tn_rank(ctx, values) - 1;
    enum uop_dtype type = UOP_I32;
    const struct uop *at, *next, *seen, *go, *count;
    int64_t n, most, least, step = 1;

    if (tn_bad(sorted) || tn_bad(values))
        return &uop_failed;
    assert(tn_rank(ctx, sorted) == last + 1 && sorted->dtype == values->dtype);
    n = tn_size(ctx, sorted, last);
    dim_bounds(ctx->dims, n, &least, &most);
    if (most >= INT32_MAX / 2)
        type = UOP_I64;
    count = tn_cast(ctx, tn_count(ctx, n), type);
    at = tn_full(ctx, tn_int(ctx, type, 0), tn_shape(ctx, values)->d, last + 1);
    while (step <= most / 2)
        step *= 2;
    for (; step > 0 && most > 0; step /= 2) {
        next = tn_add(ctx, at, tn_int(ctx, type, step));
        seen = tn_gather(ctx, sorted, last,
                         tn_add(ctx, next, tn_int(ctx, type, -1)));
        go = right ? tn_not(ctx, comes_before(ctx, values, seen))
                   : comes_before(ctx, seen, values);
        go = tn_and(ctx, go, tn_le(ctx, next, count));
        at = tn_where(ctx, go, next, at);
    }
    return tn_cast(ctx, at, UOP_I64);
}

/* ---- indices ---- */

/* An index without the axes along which it is the same everywhere, but for
 * `axis`: they have size 1. Rows of indices are ordered once. */
static const struct uop *
narrow_index(struct bell_context *ctx, const struct uop *index, uint32_t axis)
{
    const struct uop *u = index, *src;
    int64_t d[TN_MAX_RANK];

    while (u->op == UOP_CAST)
        u = u->src[0];
    if (tn_bad(u) || u->op != UOP_EXPAND)
        return index;
    src = u->src[0];
    memcpy(d, tn_shape(ctx, src)->d, tn_rank(ctx, src) * sizeof(*d));
    d[axis] = tn_size(ctx, u, axis);
    return tn_cast(ctx, tn_expand(ctx, src, d), index->dtype);
}

/* In 0..size-1, or `size`. */
static const struct uop *
wrap_index(struct bell_context *ctx, const struct uop *index, int64_t size)
{
    const struct uop *zero = tn_int(ctx, UOP_I64, 0), *in;
    const struct uop *end = tn_count(ctx, size);

    index =
        tn_where(ctx, tn_lt(ctx, index, zero), tn_add(ctx, index, end), index);
    in = tn_and(ctx, tn_le(ctx, zero, index), tn_lt(ctx, index, end));
    return tn_where(ctx, in, index, end);
}

/* u with the sizes of `like`, but for `axis`, which stays. */
static const struct uop *
expand_rows(struct bell_context *ctx, const struct uop *u,
            const struct uop *like, uint32_t axis)
{
    int64_t d[TN_MAX_RANK];

    if (tn_bad(u) || tn_bad(like))
        return &uop_failed;
    memcpy(d, tn_shape(ctx, like)->d, tn_rank(ctx, like) * sizeof(*d));
    d[axis] = tn_size(ctx, u, axis);
    return tn_expand(ctx, u, d);
}

/* ---- in order ---- */

/* Indices along a last axis, in order. */
struct ordered {
    const struct uop *keys, *places; /* the indices, where they came from */
    const struct uop *ends;          /* of each place's run; I64 */
    const struct uop *counts;        /* how many are in it */
};

static void
order_index(struct bell_context *ctx, const struct uop *index, int64_t size,
            struct ordered *out)
{
    uint32_t last = tn_rank(ctx, index) - 1;
    enum uop_dtype type = size < INT32_MAX ? UOP_I32 : UOP_I64;
    const struct uop *wanted, *before;

    index = tn_cast(ctx, wrap_index(ctx, index, size), type);
    index = tn_wrap(ctx, UOP_CONTIGUOUS, index);
    out->places = tn_order_axis(ctx, index, last, false,
                                tn_bad(index) ? 0 : tn_size(ctx, index, last));
    out->keys =
        tn_wrap(ctx, UOP_CONTIGUOUS, tn_gather(ctx, index, last, out->places));
    wanted = tn_iota(ctx, last + 1, last, size, type);
    wanted = expand_rows(ctx, wanted, out->keys, last);
    out->ends = tn_search(ctx, out->keys, wanted, true);
    out->ends = tn_wrap(ctx, UOP_CONTIGUOUS, out->ends);
    before = tn_shrink_axis(ctx, out->ends, last, 0, size - 1);
    before = tn_pad_axis(ctx, before, last, 1, 0);
    out->counts = tn_sub(ctx, out->ends, before);
}

static enum uop_op
combine_op(enum tn_combine combine)
{
    static const enum uop_op ops[] = {
        [TN_COMBINE_SUM] = UOP_ADD,  [TN_COMBINE_PROD] = UOP_MUL,
        [TN_COMBINE_MAX] = UOP_MAX,  [TN_COMBINE_MIN] = UOP_MIN,
        [TN_COMBINE_LAST] = UOP_ADD, /* of one */
    };

    return ops[combine];
}

/* Along the last axis. */
static const struct uop *
scatter_ordered(struct bell_context *ctx, enum tn_combine combine,
                const struct uop *v, const struct uop *index, int64_t size)
{
    uint32_t last = tn_rank(ctx, v) - 1;
    const struct uop *end, *some;
    struct ordered o;

    order_index(ctx, index, size, &o);
    end = tn_add(ctx, o.ends, tn_int(ctx, UOP_I64, -1));
    some = tn_lt(ctx, tn_int(ctx, UOP_I64, 0), o.counts);
    if (combine == TN_COMBINE_LAST) {
        end = tn_gather(ctx, o.places, last, end);
    } else {
        v = tn_gather(ctx, v, last, expand_rows(ctx, o.places, v, last));
        v = tn_scan_runs(ctx, combine_op(combine),
                         tn_wrap(ctx, UOP_CONTIGUOUS, v),
                         expand_rows(ctx, o.keys, v, last));
        v = tn_wrap(ctx, UOP_CONTIGUOUS, v);
    }
    end = expand_rows(ctx, end, v, last);
    v = tn_gather(ctx, v, last, end);
    return tn_where(ctx, some, v,
                    tn_neutral(ctx, combine_op(combine), v->dtype));
}

/* ---- one by one ---- */

/* The axis of v made a last one, its place taken by one of size 1. */
static const struct uop *
axis_last(struct bell_context *ctx, const struct uop *v, uint32_t axis)
{
    uint32_t rank = tn_rank(ctx, v);

    return tn_swap(ctx, tn_unsqueeze(ctx, v, rank), axis, rank);
}

/* Whether an index, a last axis, names a place of `axis`. */
static const struct uop *
find_hits(struct bell_context *ctx, const struct uop *index, uint32_t axis,
          int64_t size)
{
    uint32_t rank = tn_rank(ctx, index);

    index = axis_last(ctx, wrap_index(ctx, index, size), axis);
    return tn_eq(ctx, index, tn_iota(ctx, rank + 1, axis, size, UOP_I64));
}

static const struct uop *
scatter_direct(struct bell_context *ctx, enum tn_combine combine,
               const struct uop *v, uint32_t axis, const struct uop *index,
               int64_t size)
{
    const struct uop *hit = find_hits(ctx, index, axis, size), *k, *latest;
    enum uop_op op = combine_op(combine);
    uint32_t rank = tn_rank(ctx, v);

    if (combine == TN_COMBINE_LAST) {
        k = tn_iota(ctx, rank + 1, rank, tn_size(ctx, v, axis), UOP_I64);
        latest = tn_where(ctx, hit, k, tn_int(ctx, UOP_I64, -1));
        latest = tn_reduce(ctx, UOP_MAX, latest, tn_axis_bit(rank));
        latest = tn_squeeze(ctx, latest, tn_axis_bit(rank));
        hit = tn_le(ctx, tn_int(ctx, UOP_I64, 0), latest);
        return tn_where(ctx, hit, tn_gather(ctx, v, axis, latest),
                        tn_neutral(ctx, op, v->dtype));
    }
    v = tn_where(ctx, hit, axis_last(ctx, v, axis),
                 tn_neutral(ctx, op, v->dtype));
    v = op == UOP_ADD || op == UOP_MUL
            ? tn_accumulate(ctx, op, v, tn_axis_bit(rank))
            : tn_reduce(ctx, op, v, tn_axis_bit(rank));
    return tn_squeeze(ctx, v, tn_axis_bit(rank));
}

/* How often each of n elements is compared while they are put in order, where n
 * has b bits: b (b + 1) / 2 times. Twice that, since an exchange takes more
 * than a look. */
static int64_t
ordering_looks(int64_t n)
{
    int64_t bits = 0;

    while (bits < 62 && ((int64_t)1 << bits) < n)
        bits++;
    return bits * (bits + 1);
}

/* `narrow` is the index, as narrow_index has it: where rows share it, they are
 * ordered once and looked at one by one each. */
static bool
is_direct(struct bell_context *ctx, const struct uop *v,
          const struct uop *narrow, uint32_t axis, int64_t size)
{
    int64_t n = tn_size(ctx, v, axis), all = tn_numel(ctx, v);

    if (dim_is_expr(size) || dims_in(tn_shape(ctx, v)->d, tn_rank(ctx, v)))
        return true; /* networks are for one size */
    return n <= DIRECT_SIZE || size <= DIRECT_SIZE ||
           tn_rank(ctx, v) == TN_MOST_AXES || n > TN_MAX_ORDERED ||
           all <= DIRECT_WORK / size ||
           (tn_numel(ctx, narrow) == all && size <= ordering_looks(n));
}

/* ---- both ---- */

const struct uop *
tn_scatter(struct bell_context *ctx, enum tn_combine combine,
           const struct uop *v, uint32_t axis, const struct uop *index,
           int64_t size)
{
    struct tensor_rule rule = {.kind = TENSOR_RULE_SCATTER,
                               .p = {axis, (int64_t)combine}};
    enum uop_dtype dtype = v->dtype;
    int64_t d[TN_MAX_RANK];
    const struct uop *out, *narrow;
    uint32_t last;

    if (tn_bad(v) || tn_bad(index))
        return &uop_failed;
    assert(axis < tn_rank(ctx, v) && index->dtype == UOP_I64);
    last = tn_rank(ctx, v) - 1;
    memcpy(d, tn_shape(ctx, v)->d, (last + 1) * sizeof(*d));
    if (d[axis] == 0 || size == 0 || tn_numel(ctx, v) == 0) {
        d[axis] = size;
        out = tn_neutral(ctx, combine_op(combine), dtype);
        return tn_full(ctx, out, d, last + 1);
    }
    if (combine == TN_COMBINE_SUM || combine == TN_COMBINE_PROD)
        v = tn_widen(ctx, v);
    rule.a = v;
    rule.b = index;
    narrow = narrow_index(ctx, index, axis);
    if (tn_bad(narrow))
        return narrow;
    if (is_direct(ctx, v, narrow, axis, size)) {
        out = scatter_direct(ctx, combine, v, axis, index, size);
    } else {
        out = scatter_ordered(ctx, combine, tn_move_axis(ctx, v, axis, last),
                              tn_move_axis(ctx, narrow, axis, last), size);
        out = tn_move_axis(ctx, out, last, axis);
    }
    /* LAST is differentiated as the element that was taken. */
    if (tn_is_float(v) && !tn_bad(out) && combine != TN_COMBINE_LAST)
        out = tensor_rule_add(ctx, out, &rule);
    return tn_cast(ctx, out, dtype);
}

const struct uop *
tn_scatter_count(struct bell_context *ctx, uint32_t axis,
                 const struct uop *index, int64_t size)
{
    uint32_t rank = tn_rank(ctx, index);
    const struct uop *out, *narrow;
    int64_t d[TN_MAX_RANK];
    struct ordered o;

    if (tn_bad(index))
        return index;
    memcpy(d, tn_shape(ctx, index)->d, rank * sizeof(*d));
    if (size == 0 || tn_numel(ctx, index) == 0) {
        d[axis] = size;
        return tn_full(ctx, tn_int(ctx, UOP_I64, 0), d, rank);
    }
    narrow = narrow_index(ctx, index, axis);
    if (tn_bad(narrow))
        return narrow;
    if (is_direct(ctx, index, narrow, axis, size)) {
        out = find_hits(ctx, index, axis, size);
        out = tn_sum(ctx, tn_cast(ctx, out, UOP_I64), tn_axis_bit(rank));
        return tn_squeeze(ctx, out, tn_axis_bit(rank));
    }
    order_index(ctx, tn_move_axis(ctx, narrow, axis, rank - 1), size, &o);
    out = tn_move_axis(ctx, o.counts, rank - 1, axis);
    return expand_rows(ctx, out, index, axis);
}

/* ---- the gradient ---- */

/* The product of the others, for the gradient of a product. */
static const struct uop *
product_of_others(struct bell_context *ctx, const struct tensor_rule *rule,
                  int64_t size)
{
    const struct uop *v = rule->a, *index = rule->b, *zero, *is_zero, *n, *rest;
    uint32_t axis = (uint32_t)rule->p[0];

    zero = tn_num(ctx, v, 0);
    is_zero = tn_eq(ctx, v, zero);
    rest = tn_where(ctx, is_zero, tn_num(ctx, v, 1), v);
    n = tn_cast(ctx, is_zero, UOP_I64);
    n = tn_scatter(ctx, TN_COMBINE_SUM, n, axis, index, size);
    n = tn_gather(ctx, n, axis, index);
    n = tn_sub(ctx, n, tn_cast(ctx, is_zero, UOP_I64));
    v = rest;
    rest = tn_scatter(ctx, TN_COMBINE_PROD, rest, axis, index, size);
    rest = tn_fdiv(ctx, tn_gather(ctx, rest, axis, index), v);
    return tn_where(ctx, tn_eq(ctx, n, tn_int(ctx, UOP_I64, 0)), rest, zero);
}

const struct uop *
tn_scatter_back(struct bell_context *ctx, const struct tensor_rule *rule,
                const struct uop *g)
{
    const struct uop *index = rule->b, *hit, *n;
    uint32_t axis = (uint32_t)rule->p[0];
    enum tn_combine combine = (enum tn_combine)rule->p[1];
    int64_t size;

    if (tn_bad(g))
        return g;
    size = tn_size(ctx, g, axis);
    if (combine == TN_COMBINE_PROD)
        return tn_mul(ctx, tn_gather(ctx, g, axis, index),
                      product_of_others(ctx, rule, size));
    if (combine == TN_COMBINE_SUM)
        return tn_gather(ctx, g, axis, index);
    hit = tn_eq(ctx, rule->a, tn_gather(ctx, rule->node, axis, index));
    n = tn_scatter(ctx, TN_COMBINE_SUM, tn_cast(ctx, hit, g->dtype), axis,
                   index, size);
    g = tn_gather(ctx, tn_fdiv(ctx, g, n), axis, index);
    return tn_where(ctx, hit, g, tn_num(ctx, g, 0));
}
