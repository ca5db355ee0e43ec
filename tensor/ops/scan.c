/* Running results along an axis. */
#include <assert.h>
#include <math.h>
#include <string.h>

#include "base/bits.h"
#include "tensor/ops/elementwise.h"
#include "tensor/ops/reduce.h"
#include "tensor/ops/select.h"

/* Composed scans: runs are cut into blocks of so many, each element of which is
 * made of those before it, by so many levels at most. */
#define SCAN_BLOCK  16
#define SCAN_LEVELS 12

/* Scans of numbers are UOP_SCAN, a work-group's each. Where there are fewer
 * runs than SUMS_ROWS, longer than SUMS_LONG, each block of SUMS_BLOCK elements
 * is one, or of half to twice as many that divide the run: a run that is filled
 * up has to be copied after it. Runs of up to SUMS_DIRECT elements are not,
 * where the order does not show in the last bits. */
#define SUMS_DIRECT 8
#define SUMS_ROWS   128
#define SUMS_LONG   16384
#define SUMS_BLOCK  4096

/* A scan along the last axis. */
struct scan {
    struct bell_context *ctx;
    enum uop_op op; /* ADD of logarithms where is_log */
    bool is_log;
    const struct uop *neutral;
};

/* log(sum) + m; of nothing -infinity, and no gradient. */
static const struct uop *
log_of_sum(struct bell_context *ctx, const struct uop *sum, const struct uop *m)
{
    const struct uop *none;

    if (tn_bad(sum) || tn_bad(m))
        return &uop_failed;
    none = tn_eq(ctx, sum, tn_num(ctx, sum, 0));
    sum = tn_log(ctx, tn_where(ctx, none, tn_num(ctx, sum, 1), sum));
    return tn_where(ctx, none, tn_num(ctx, sum, -(double)INFINITY),
                    tn_add(ctx, sum, m));
}

static const struct uop *
scan_reduce(const struct scan *s, const struct uop *u, uint32_t axis)
{
    struct bell_context *ctx = s->ctx;

    u = s->op == UOP_ADD || s->op == UOP_MUL
            ? tn_accumulate(ctx, s->op, u, tn_axis_bit(axis))
            : tn_reduce(ctx, s->op, u, tn_axis_bit(axis));
    return tn_squeeze(ctx, u, tn_axis_bit(axis));
}

/* The op of two; of logarithms log(exp(a) + exp(b)). */
static const struct uop *
scan_join(const struct scan *s, const struct uop *a, const struct uop *b)
{
    struct bell_context *ctx = s->ctx;
    const struct uop *m;

    if (!s->is_log)
        return tn_alu2(ctx, s->op, a, b);
    m = tn_log_base(ctx, tn_max(ctx, a, b));
    return log_of_sum(ctx,
                      tn_add(ctx, tn_exp(ctx, tn_sub(ctx, a, m)),
                             tn_exp(ctx, tn_sub(ctx, b, m))),
                      m);
}

/* out[i] = op over j <= i of u[j] along the last axis, of equal keys where
 * there are any; n^2 work. */
static const struct uop *
scan_direct(const struct scan *s, const struct uop *u, const struct uop *keys)
{
    struct bell_context *ctx = s->ctx;
    uint32_t rank = tn_rank(ctx, u);
    const struct uop *mask;
    int64_t n;

    if (tn_bad(u) || (keys && tn_bad(keys)))
        return &uop_failed;
    n = tn_size(ctx, u, rank - 1);
    mask = tn_lt(ctx, tn_iota(ctx, rank + 1, rank - 1, n, UOP_I64),
                 tn_iota(ctx, rank + 1, rank, n, UOP_I64));
    if (keys)
        mask = tn_or(ctx, mask,
                     tn_ne(ctx, tn_unsqueeze(ctx, keys, rank),
                           tn_unsqueeze(ctx, keys, rank - 1)));
    u = tn_where(ctx, mask, s->neutral, tn_unsqueeze(ctx, u, rank - 1));
    return scan_reduce(s, u, rank);
}

/* Moved on by one along the last axis, `fill` in front. */
static const struct uop *
move_on(struct bell_context *ctx, const struct uop *u, const struct uop *fill)
{
    uint32_t last = tn_rank(ctx, u) - 1;
    int64_t n;

    if (tn_bad(u))
        return u;
    n = tn_size(ctx, u, last);
    u = tn_shrink_axis(ctx, u, last, 0, dim_sub(ctx->dims, n, 1));
    u = tn_pad_axis(ctx, u, last, 1, 0);
    if (fill->arg.bits)
        u = tn_where(ctx,
                     tn_eq(ctx, tn_iota(ctx, last + 1, last, n, UOP_I64),
                           tn_int(ctx, UOP_I64, 0)),
                     fill, u);
    return u;
}

/* The last axis, moved on by `by`, in blocks, filled up with what nothing is
 * made of. */
static const struct uop *
cut_blocks(struct bell_context *ctx, const struct uop *u, int64_t n_blocks,
           int64_t size, int64_t by)
{
    uint32_t last = tn_rank(ctx, u) - 1;
    int64_t all = dim_mul(ctx->dims, n_blocks, size);

    if (tn_bad(u))
        return u;
    if (by || all != tn_size(ctx, u, last)) {
        u = tn_pad_axis(ctx, u, last, by, size - 1);
        u = tn_shrink_axis(ctx, u, last, 0, all);
    }
    return tn_split_axis(ctx, u, last, n_blocks, size);
}

/* scan_direct of u's blocks, of logarithms, all terms written out: their order
 * is one for all sizes. */
static const struct uop *
scan_logs(const struct scan *s, const struct uop *u, int64_t n_blocks,
          int64_t size)
{
    struct bell_context *ctx = s->ctx;
    uint32_t rank = tn_rank(ctx, u);
    const struct uop *v[SCAN_BLOCK], *m, *sum, *at;
    int64_t k;

    assert(size <= SCAN_BLOCK);
    at = tn_iota(ctx, rank + 1, rank, size, UOP_I64);
    v[0] = m = cut_blocks(ctx, u, n_blocks, size, 0);
    for (k = 1; k < size; k++) {
        v[k] = tn_where(ctx, tn_lt(ctx, at, tn_int(ctx, UOP_I64, k)),
                        s->neutral, cut_blocks(ctx, u, n_blocks, size, k));
        m = tn_max(ctx, m, v[k]);
    }
    m = tn_log_base(ctx, m);
    sum = tn_exp(ctx, tn_sub(ctx, v[0], m));
    for (k = 1; k < size; k++)
        sum = tn_add(ctx, sum, tn_exp(ctx, tn_sub(ctx, v[k], m)));
    return log_of_sum(ctx, sum, m);
}

/* The last of each block; `axis` is the blocks' own. */
static const struct uop *
last_of_block(struct bell_context *ctx, const struct uop *u, uint32_t axis)
{
    u = tn_shrink_axis(ctx, u, axis, SCAN_BLOCK - 1, SCAN_BLOCK);
    return tn_squeeze(ctx, u, tn_axis_bit(axis));
}

/* One level of blocks. */
struct scan_level {
    const struct uop *blocks, *keys;
    int64_t size; /* of the axis that is cut into them */
};

/* Along the last axis: blocks on their own, then the blocks' totals, whose
 * scan, moved on by one, is added to each block (where the keys are equal). A
 * symbol has as many levels as its greatest value needs: one that is not needed
 * adds what is neutral. */
static const struct uop *
scan_last(const struct scan *s, const struct uop *u, const struct uop *keys)
{
    struct scan_level levels[SCAN_LEVELS], *l = levels;
    struct bell_context *ctx = s->ctx;
    const struct uop *total = u, *before, *joined;
    uint32_t rank = tn_rank(ctx, u);
    int64_t most, n, n_blocks;

    if (tn_bad(u))
        return u;
    n = tn_size(ctx, u, rank - 1);
    dim_bounds(ctx->dims, n, &most, &most);
    /* Down: the scans within blocks, and the totals as the next level. */
    for (;; l++) {
        int64_t size = n < SCAN_BLOCK ? n : SCAN_BLOCK;
        l->size = n;
        n_blocks = dim_floordiv(
            ctx->dims, dim_add(ctx->dims, n, SCAN_BLOCK - 1), SCAN_BLOCK);
        l->keys = keys ? cut_blocks(ctx, keys, n_blocks, size, 0) : NULL;
        l->blocks =
            s->is_log
                ? scan_logs(s, total, n_blocks, size)
                : scan_direct(s, cut_blocks(ctx, total, n_blocks, size, 0),
                              l->keys);
        if (tn_bad(l->blocks))
            return l->blocks;
        if (most <= SCAN_BLOCK)
            break;
        most = (most + SCAN_BLOCK - 1) / SCAN_BLOCK;
        n = n_blocks;
        l->blocks = tn_wrap(ctx, UOP_CONTIGUOUS, l->blocks);
        total = last_of_block(ctx, l->blocks, rank);
        keys = keys ? last_of_block(ctx, l->keys, rank) : NULL;
    }
    /* Up: what came before each block. */
    for (joined = l->blocks;; joined = l->blocks) {
        total = tn_merge_axes(ctx, joined, rank - 1, 2);
        total = tn_shrink_axis(ctx, total, rank - 1, 0, l->size);
        if (l == levels || tn_bad(total))
            return total;
        l--;
        before = tn_wrap(ctx, UOP_CONTIGUOUS, move_on(ctx, total, s->neutral));
        before = tn_unsqueeze(ctx, before, rank);
        joined = scan_join(s, l->blocks, before);
        if (l->keys) {
            keys = last_of_block(ctx, l->keys, rank);
            keys = move_on(ctx, keys, tn_int(ctx, keys->dtype, -1));
            keys = tn_unsqueeze(ctx, keys, rank);
            joined =
                tn_where(ctx, tn_eq(ctx, l->keys, keys), joined, l->blocks);
        }
        l->blocks = joined;
    }
}

static int64_t
block_of_sums(int64_t n)
{
    int64_t size;

    for (size = 2 * SUMS_BLOCK; size >= SUMS_BLOCK / 2; size--) {
        if (n % size == 0)
            return size;
    }
    return SUMS_BLOCK;
}

/* Running sums, say, along `axis`. Few long runs are cut into blocks: of these
 * the sums, whose running sums are what each block begins with. */
static const struct uop *
sum_axis(const struct scan *s, const struct uop *u, uint32_t axis)
{
    struct bell_context *ctx = s->ctx;
    uint32_t rank = tn_rank(ctx, u), last = rank - 1;
    int64_t n = tn_size(ctx, u, axis), n_blocks, size;
    const struct uop *blocks, *before, *first;

    if (n <= SUMS_LONG || dim_is_expr(n) || tn_numel(ctx, u) / n >= SUMS_ROWS)
        return tn_running(ctx, s->op, u, axis, false);
    u = tn_move_axis(ctx, u, axis, last);
    size = block_of_sums(n);
    n_blocks = (n + size - 1) / size;
    blocks = cut_blocks(ctx, u, n_blocks, size, 0);
    before = sum_axis(s, scan_reduce(s, blocks, rank), last);
    before = tn_unsqueeze(ctx, move_on(ctx, before, s->neutral), rank);
    first = tn_eq(ctx, tn_iota(ctx, rank + 1, rank, size, UOP_I64),
                  tn_int(ctx, UOP_I64, 0));
    before = tn_where(ctx, first, before, s->neutral);
    u = tn_running(ctx, s->op, tn_alu2(ctx, s->op, blocks, before), rank,
                   false);
    u = tn_shrink_axis(ctx, tn_merge_axes(ctx, u, last, 2), last, 0, n);
    return tn_move_axis(ctx, u, last, axis);
}

/* Composed: what gradients go through, too. */
static const struct uop *
scan_composed(const struct scan *s, const struct uop *u, uint32_t axis)
{
    uint32_t last = tn_rank(s->ctx, u) - 1;

    if (tn_bad(u) || tn_numel(s->ctx, u) == 0)
        return u;
    u = scan_last(s, tn_move_axis(s->ctx, u, axis, last), NULL);
    return tn_move_axis(s->ctx, u, last, axis);
}

const struct uop *
tn_scan(struct bell_context *ctx, enum uop_op op, const struct uop *u,
        uint32_t axis)
{
    struct scan s = {ctx, op, false, NULL};
    enum uop_dtype dtype = u->dtype;
    const struct uop *out;
    bool adds;

    if (tn_bad(u) || tn_numel(ctx, u) == 0)
        return u;
    adds = op == UOP_ADD || op == UOP_MUL;
    s.neutral = tn_neutral(ctx, op, dtype);
    if (dtype == UOP_BOOL ||
        (tn_size(ctx, u, axis) <= SUMS_DIRECT && !(adds && tn_is_float(u))))
        return scan_composed(&s, u, axis);
    out = sum_axis(&s, u, axis);
    if (!tn_is_float(u) || op == UOP_ADD)
        return out;
    u = tn_widen(ctx, u);
    s.neutral = tn_neutral(ctx, op, u->dtype);
    u = tn_cast(ctx, scan_composed(&s, u, axis), dtype);
    return tensor_surrogate(ctx, out, u);
}

const struct uop *
tn_scan_runs(struct bell_context *ctx, enum uop_op op, const struct uop *u,
             const struct uop *keys)
{
    struct scan s = {ctx, op, false, NULL};

    if (tn_bad(u) || tn_bad(keys))
        return &uop_failed;
    s.neutral = tn_neutral(ctx, op, u->dtype);
    return scan_last(&s, u, keys);
}

const struct uop *
tn_scan_logsumexp(struct bell_context *ctx, const struct uop *u, uint32_t axis)
{
    struct scan s = {ctx, UOP_ADD, true, NULL};

    if (tn_bad(u))
        return u;
    assert(u->dtype == UOP_F32 || u->dtype == UOP_F64);
    s.neutral = tn_num(ctx, u, -(double)INFINITY);
    return scan_composed(&s, u, axis);
}

/* ---- calls ---- */

/* x with at least one axis, in a dtype that is computed in; its axis in *out_at
 * (with one of size 1 where x has none), or -1 after a failure. */
static const struct uop *
begin_scan(const char *call, struct bell_tensor *x, int axis, int *out_at,
           struct bell_tensor **out)
{
    const struct uop *u;

    *out_at = -1;
    if (!tensor_takes(call, x, out))
        return NULL;
    *out = tensor_at(x)->ctx->error_tensor;
    *out_at =
        tensor_axis(tensor_at(x)->ctx, call, axis, tensor_at(x)->shape->n);
    u = tensor_wide_node(x);
    return tensor_at(x)->shape->n ? u : tn_unsqueeze(tensor_at(x)->ctx, u, 0);
}

/* What begin_scan added goes. */
static const struct uop *
like_scanned(const struct bell_tensor *x, const struct uop *u)
{
    return tensor_at(x)->shape->n ? u : tn_squeeze(tensor_at(x)->ctx, u, 1);
}

static struct bell_tensor *
scan_call(const char *call, struct bell_tensor *x, int axis, enum uop_op op)
{
    struct bell_tensor *out;
    const struct uop *u;
    enum uop_dtype dtype;
    int at;

    u = begin_scan(call, x, axis, &at, &out);
    if (at < 0)
        return out;
    dtype = u->dtype;
    if ((op == UOP_ADD || op == UOP_MUL) && !uop_dtype_infos[dtype].is_float)
        dtype = UOP_I64;
    u = tn_cast(tensor_at(x)->ctx, u, dtype == UOP_BOOL ? UOP_U8 : dtype);
    u = tn_cast(tensor_at(x)->ctx,
                tn_scan(tensor_at(x)->ctx, op, u, (uint32_t)at), dtype);
    return tensor_new(tensor_at(x)->ctx, call, like_scanned(x, u));
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

struct bell_tensor *
bell_logcumsumexp(struct bell_tensor *x, int axis)
{
    enum uop_dtype dtype;
    struct bell_tensor *out;
    const struct uop *u;
    int at;

    u = begin_scan(__func__, x, axis, &at, &out);
    if (at < 0)
        return out;
    dtype = tn_is_float(u) ? u->dtype : UOP_F32;
    u = tn_cast(tensor_at(x)->ctx, u, dtype == UOP_F64 ? UOP_F64 : UOP_F32);
    u = tn_scan_logsumexp(tensor_at(x)->ctx, u, (uint32_t)at);
    u = tn_cast(tensor_at(x)->ctx, u, dtype);
    return tensor_new(tensor_at(x)->ctx, __func__, like_scanned(x, u));
}

/* An element that is no less than all before it is the running greatest: the
 * place of the latest such. */
static void
running_extreme(const char *call, struct bell_tensor *x, int axis,
                enum uop_op op, struct bell_tensor **out_values,
                struct bell_tensor **out_indices)
{
    struct bell_tensor **const room[] = {out_values, out_indices};
    const struct uop *u, *best, *hit, *place, *wide;
    struct bell_context *ctx;
    struct bell_tensor *out;
    enum uop_dtype dtype, type;
    int64_t most;
    int at;

    if (!tensor_has_room(call, x, room, ARRAY_LEN(room)))
        return;
    u = begin_scan(call, x, axis, &at, &out);
    *out_values = *out_indices = out;
    if (at < 0)
        return;
    ctx = tensor_at(x)->ctx;
    dtype = u->dtype;
    wide = tn_cast(ctx, u, dtype == UOP_BOOL ? UOP_U8 : dtype);
    best = tn_wrap(ctx, UOP_CONTIGUOUS, tn_scan(ctx, op, wide, (uint32_t)at));
    hit = tn_eq(ctx, wide, best);
    if (tn_is_float(wide) && !tn_bad(hit))
        hit = tn_or(ctx, hit, tn_isnan(ctx, wide));
    type = UOP_I32;
    if (!tn_bad(u)) {
        dim_bounds(ctx->dims, tn_size(ctx, u, (uint32_t)at), &most, &most);
        type = most < INT32_MAX ? UOP_I32 : UOP_I64;
        place = tn_iota(ctx, tn_rank(ctx, u), (uint32_t)at,
                        tn_size(ctx, u, (uint32_t)at), type);
        place = tn_where(ctx, hit, place, tn_int(ctx, type, 0));
    } else {
        place = u;
    }
    place = tn_scan(ctx, UOP_MAX, place, (uint32_t)at);
    place = tn_wrap(ctx, UOP_CONTIGUOUS, tn_cast(ctx, place, UOP_I64));
    best = tn_cast(ctx, best, dtype);
    if (tn_is_float(u) && !tn_bad(best))
        best =
            tensor_surrogate(ctx, best, tn_gather(ctx, u, (uint32_t)at, place));
    *out_values = tensor_new(ctx, call, like_scanned(x, best));
    *out_indices = tensor_new(ctx, call, like_scanned(x, place));
}

void
bell_cummax_at(struct bell_tensor *x, int axis, struct bell_tensor **out_values,
               struct bell_tensor **out_indices)
{
    running_extreme(__func__, x, axis, UOP_MAX, out_values, out_indices);
}

void
bell_cummin_at(struct bell_tensor *x, int axis, struct bell_tensor **out_values,
               struct bell_tensor **out_indices)
{
    running_extreme(__func__, x, axis, UOP_MIN, out_values, out_indices);
}
