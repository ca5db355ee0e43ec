/* Running results along an axis, and order: sort, topk. */
#include <math.h>
#include <string.h>

#include "tensor/elementwise.h"
#include "tensor/node.h"

/* ---- running results ---- */

/* Runs that are reduced directly, each element over its predecessors: the
 * longest that is left whole, and what longer ones are cut into. */
#define SCAN_DIRECT 64
#define SCAN_BLOCK  16

/* out[i] = op over j <= i of u[j] along the last axis, n^2 work. */
static const struct uop *
scan_direct(struct bell_context *ctx, enum uop_op op, const struct uop *u,
            const struct uop *neutral)
{
    uint32_t rank = tn_rank(ctx, u);
    int64_t n = tn_size(ctx, u, rank - 1);
    const struct uop *mask;

    mask = tn_lt(ctx, tn_iota(ctx, rank + 1, rank - 1, n, UOP_I64),
                 tn_iota(ctx, rank + 1, rank, n, UOP_I64));
    u = tn_where(ctx, mask, neutral, tn_unsqueeze(ctx, u, rank - 1));
    u = op == UOP_ADD || op == UOP_MUL ? tn_accumulate(ctx, op, u, 1u << rank)
                                       : tn_reduce(ctx, op, u, 1u << rank);
    return tn_squeeze(ctx, u, 1u << rank);
}

/* Along the last axis: blocks on their own, then the blocks' totals, whose
 * scan, moved on by one, is added to each block. */
static const struct uop *
scan_last(struct bell_context *ctx, enum uop_op op, const struct uop *u,
          const struct uop *neutral)
{
    const struct uop *blocks[16], *total = u;
    uint32_t rank = tn_rank(ctx, u), depth = 0;
    int64_t sizes[16], n;

    if (tn_bad(u))
        return u;
    /* Down: the scans within blocks, and the totals as the next level. */
    for (n = tn_size(ctx, u, rank - 1); n > SCAN_DIRECT; depth++) {
        int64_t n_blocks = (n + SCAN_BLOCK - 1) / SCAN_BLOCK;
        int64_t pads[2 * TN_MAX_RANK] = {0};
        sizes[depth] = n;
        pads[2 * rank - 1] = n_blocks * SCAN_BLOCK - n;
        total = tn_pad(ctx, total, pads);
        if (pads[2 * rank - 1] && neutral->arg.bits)
            total = tn_where(ctx,
                             tn_lt(ctx,
                                   tn_iota(ctx, rank, rank - 1,
                                           n_blocks * SCAN_BLOCK, UOP_I64),
                                   tn_int(ctx, UOP_I64, n)),
                             total, neutral);
        total = tn_split_axis(ctx, total, rank - 1, n_blocks, SCAN_BLOCK);
        blocks[depth] =
            tn_wrap(ctx, UOP_CONTIGUOUS, scan_direct(ctx, op, total, neutral));
        total = tn_squeeze(ctx,
                           tn_shrink_axis(ctx, blocks[depth], rank,
                                          SCAN_BLOCK - 1, SCAN_BLOCK),
                           1u << rank);
        n = n_blocks;
        if (tn_bad(total))
            return total;
    }
    total = scan_direct(ctx, op, total, neutral);
    /* Up: what came before each block. */
    while (depth-- > 0 && !tn_bad(total)) {
        int64_t n_blocks = tn_size(ctx, total, rank - 1);
        const struct uop *before = tn_pad_axis(
            ctx, tn_shrink_axis(ctx, total, rank - 1, 0, n_blocks - 1),
            rank - 1, 1, 0);
        if (neutral->arg.bits)
            before = tn_where(
                ctx,
                tn_eq(ctx, tn_iota(ctx, rank, rank - 1, n_blocks, UOP_I64),
                      tn_int(ctx, UOP_I64, 0)),
                neutral, before);
        before = tn_wrap(ctx, UOP_CONTIGUOUS, before);
        total =
            tn_alu2(ctx, op, blocks[depth], tn_unsqueeze(ctx, before, rank));
        total = tn_merge_axes(ctx, total, rank - 1, 2);
        total = tn_shrink_axis(ctx, total, rank - 1, 0, sizes[depth]);
    }
    return total;
}

static struct bell_tensor *
scan_call(const char *call, struct bell_tensor *x, int axis, enum uop_op op)
{
    const struct uop *u, *neutral;
    struct bell_context *ctx;
    struct bell_tensor *out;
    enum uop_dtype dtype;
    uint32_t last;
    int at;

    if (!tensor_check(call, x, &out))
        return out;
    ctx = x->ctx;
    at = tensor_axis(ctx, call, axis, x->shape->n);
    if (at < 0)
        return &ctx->error_tensor;
    u = tensor_wide_node(x);
    dtype = u->dtype;
    if ((op == UOP_ADD || op == UOP_MUL) && !uop_dtype_infos[dtype].is_float)
        dtype = UOP_I64;
    if (dtype == UOP_BOOL)
        dtype = UOP_U8;
    u = tn_cast(ctx, u, dtype);
    if (x->shape->n == 0 || tn_numel(ctx, u) == 0)
        return tensor_new(ctx, call,
                          tn_cast(ctx, u,
                                  x->dtype == UOP_BOOL && dtype == UOP_U8
                                      ? UOP_BOOL
                                      : dtype));
    neutral = tn_neutral(ctx, op, dtype);
    last = x->shape->n - 1;
    u = tn_move_axis(ctx, u, (uint32_t)at, last);
    u = tn_move_axis(ctx, scan_last(ctx, op, u, neutral), last, (uint32_t)at);
    if (x->dtype == UOP_BOOL && dtype == UOP_U8)
        u = tn_cast(ctx, u, UOP_BOOL);
    return tensor_new(ctx, call, u);
}

#define SCAN(name, op)                                                         \
    struct bell_tensor *name(struct bell_tensor *x, int axis)                  \
    {                                                                          \
        return scan_call(__func__, x, axis, op);                               \
    }
SCAN(bell_cumsum, UOP_ADD)
SCAN(bell_cumprod, UOP_MUL)
SCAN(bell_cummax, UOP_MAX)
SCAN(bell_cummin, UOP_MIN)

/* ---- order ---- */

/* Whether a comes before b by value alone; NaN is the greatest. */
static const struct uop *
precedes(struct bell_context *ctx, const struct uop *a, const struct uop *b,
         bool descending)
{
    const struct uop *less, *swap;

    if (descending) {
        swap = a;
        a = b;
        b = swap;
    }
    less = tn_lt(ctx, a, b);
    if (!tn_is_float(a))
        return less;
    return tn_or(ctx, less,
                 tn_and(ctx, tn_isnan(ctx, b), tn_not(ctx, tn_isnan(ctx, a))));
}

/* The place of each element along the last axis in sorted order: how many
 * come before it. */
static const struct uop *
find_places(struct bell_context *ctx, const struct uop *u, bool descending)
{
    uint32_t rank = tn_rank(ctx, u);
    int64_t n = tn_size(ctx, u, rank - 1);
    const struct uop *mine = tn_unsqueeze(ctx, u, rank);
    const struct uop *other = tn_unsqueeze(ctx, u, rank - 1);
    const struct uop *before, *tie, *lower;

    before = precedes(ctx, other, mine, descending);
    tie =
        tn_not(ctx, tn_or(ctx, before, precedes(ctx, mine, other, descending)));
    lower = tn_lt(ctx, tn_iota(ctx, rank + 1, rank, n, UOP_I64),
                  tn_iota(ctx, rank + 1, rank - 1, n, UOP_I64));
    before = tn_or(ctx, before, tn_and(ctx, tie, lower));
    before = tn_cast(ctx, before, n < (int64_t)1 << 31 ? UOP_I32 : UOP_I64);
    return tn_squeeze(ctx, tn_sum(ctx, before, 1u << rank), 1u << rank);
}

/* The k first of the sorted order along the last axis, as places in u. */
static const struct uop *
order_indices(struct bell_context *ctx, const struct uop *u, bool descending,
              int64_t k)
{
    const struct uop *place = find_places(ctx, u, descending), *hit, *from;
    uint32_t rank = tn_rank(ctx, u);
    int64_t n = tn_size(ctx, u, rank - 1);

    place = tn_wrap(ctx, UOP_CONTIGUOUS, place);
    place = tn_cast(ctx, tn_unsqueeze(ctx, place, rank - 1), UOP_I64);
    hit = tn_eq(ctx, place, tn_iota(ctx, rank + 1, rank - 1, k, UOP_I64));
    from = tn_where(ctx, hit, tn_iota(ctx, rank + 1, rank, n, UOP_I64),
                    tn_int(ctx, UOP_I64, 0));
    from = tn_squeeze(ctx, tn_sum(ctx, from, 1u << rank), 1u << rank);
    return tn_wrap(ctx, UOP_CONTIGUOUS, from);
}

static void
sort_call(const char *call, struct bell_tensor *x, int axis, bool descending,
          int64_t k, struct bell_tensor **out_values,
          struct bell_tensor **out_indices)
{
    const struct uop *u, *order, *values;
    struct bell_context *ctx;
    struct bell_tensor *error;
    uint32_t last;
    int at = -1;

    if (tensor_check(call, x, &error)) {
        error = &x->ctx->error_tensor;
        at = tensor_axis(x->ctx, call, axis, x->shape->n);
        if (at >= 0 && (x->shape->n == 0 || x->shape->n == BELL_MAX_RANK ||
                        k > x->shape->d[at])) {
            tensor_fail(x->ctx, call, BELL_BAD_VALUE, "%lld of axis %d of %s",
                        (long long)k, at, SHAPE_OF(x));
            at = -1;
        }
    }
    if (out_values)
        *out_values = error;
    if (out_indices)
        *out_indices = error;
    if (at < 0)
        return;
    ctx = x->ctx;
    last = x->shape->n - 1;
    if (k < 0)
        k = x->shape->d[at];
    u = tn_move_axis(ctx, tensor_node(x), (uint32_t)at, last);
    order = tn_cast(
        ctx, u, u->dtype == UOP_BOOL ? UOP_U8 : tensor_wide_dtype(u->dtype));
    order = order_indices(ctx, order, descending, k);
    if (out_values) {
        values = tn_move_axis(ctx, tn_gather(ctx, u, last, order), last,
                              (uint32_t)at);
        *out_values = tensor_new(ctx, call, values);
    }
    if (out_indices)
        *out_indices =
            tensor_new(ctx, call, tn_move_axis(ctx, order, last, (uint32_t)at));
}

void
bell_sort(struct bell_tensor *x, int axis, bool descending,
          struct bell_tensor **out_values, struct bell_tensor **out_indices)
{
    sort_call(__func__, x, axis, descending, -1, out_values, out_indices);
}

struct bell_tensor *
bell_argsort(struct bell_tensor *x, int axis, bool descending)
{
    struct bell_tensor *indices;

    sort_call(__func__, x, axis, descending, -1, NULL, &indices);
    return indices;
}

void
bell_topk(struct bell_tensor *x, int64_t k, int axis, bool largest,
          struct bell_tensor **out_values, struct bell_tensor **out_indices)
{
    sort_call(__func__, x, axis, largest, k < 0 ? INT64_MAX : k, out_values,
              out_indices);
}
