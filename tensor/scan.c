/* Running results along an axis. */
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
    ctx = tensor_at(x)->ctx;
    at = tensor_axis(ctx, call, axis, tensor_at(x)->shape->n);
    if (at < 0)
        return ctx->error_tensor;
    u = tensor_wide_node(x);
    dtype = u->dtype;
    if ((op == UOP_ADD || op == UOP_MUL) && !uop_dtype_infos[dtype].is_float)
        dtype = UOP_I64;
    if (dtype == UOP_BOOL)
        dtype = UOP_U8;
    u = tn_cast(ctx, u, dtype);
    if (tensor_at(x)->shape->n == 0 || tn_numel(ctx, u) == 0)
        return tensor_new(
            ctx, call,
            tn_cast(ctx, u,
                    tensor_at(x)->dtype == UOP_BOOL && dtype == UOP_U8
                        ? UOP_BOOL
                        : dtype));
    neutral = tn_neutral(ctx, op, dtype);
    last = tensor_at(x)->shape->n - 1;
    u = tn_move_axis(ctx, u, (uint32_t)at, last);
    u = tn_move_axis(ctx, scan_last(ctx, op, u, neutral), last, (uint32_t)at);
    if (tensor_at(x)->dtype == UOP_BOOL && dtype == UOP_U8)
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
