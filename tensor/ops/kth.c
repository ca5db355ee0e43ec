/* The k-th of an axis in order, without ordering the axis.
 *
 * The k-th key (0 is the first) is the greatest number that at most k keys are
 * less than. It is found from its highest bits down, STEP_BITS of them at a
 * time: a pass over the keys counts how many are less than each number that has
 * the bits found so far. Among equal keys it is the one with the right number:
 * a running sum numbers them.
 */
#include <assert.h>
#include <string.h>

#include "tensor/ops/elementwise.h"
#include "tensor/core/node.h"
#include "tensor/ops/select.h"

#define STEP_BITS 4
#define N_NUMBERS ((1 << STEP_BITS) - 1) /* but 0: no key is less */

/* How many of keys[1][rows][n] are less than numbers[t][rows][m], as
 * [t][rows][m] of `type`. */
static const struct uop *
count_less(struct bell_context *ctx, const struct uop *keys,
           const struct uop *numbers, enum uop_dtype type)
{
    uint32_t axis = 3;
    const struct uop *less;

    less = tn_lt(ctx, tn_unsqueeze(ctx, keys, 2),
                 tn_unsqueeze(ctx, numbers, axis));
    less = tn_sum(ctx, tn_cast(ctx, less, type), tn_axis_bit(axis));
    return tn_wrap(ctx, UOP_CONTIGUOUS,
                   tn_squeeze(ctx, less, tn_axis_bit(axis)));
}

/* The k[t][rows][1]-th of keys[1][rows][n] in order. */
static const struct uop *
find_key(struct bell_context *ctx, const struct uop *keys, const struct uop *k,
         uint32_t n_bits)
{
    enum uop_dtype dtype = keys->dtype;
    const struct uop *found = tn_int(ctx, dtype, 0), *number, *at_most;
    uint32_t shift = n_bits;

    found = tn_broadcast(ctx, found, tn_shape(ctx, k)->d, 3);
    number = tn_add(ctx, tn_iota(ctx, 3, 2, N_NUMBERS, UOP_I32),
                    tn_int(ctx, UOP_I32, 1));
    number = tn_cast(ctx, number, dtype);
    while (shift > 0) {
        shift -= STEP_BITS;
        at_most = tn_alu2(ctx, UOP_SHL, number, tn_int(ctx, dtype, shift));
        at_most = tn_or(ctx, found, at_most);
        at_most = tn_le(ctx, count_less(ctx, keys, at_most, k->dtype), k);
        at_most = tn_sum(ctx, tn_cast(ctx, at_most, dtype), 1u << 2);
        at_most = tn_alu2(ctx, UOP_SHL, at_most, tn_int(ctx, dtype, shift));
        found = tn_or(ctx, found, at_most);
    }
    return found;
}

const struct uop *
tn_kth_axis(struct bell_context *ctx, const struct uop *u, uint32_t axis,
            const struct uop *k)
{
    const struct uop *key, *same, *place, *last;
    int64_t d[TN_MAX_RANK], n, t, rows;
    enum uop_dtype type;
    uint32_t rank, n_bits;

    if (tn_bad(u) || tn_bad(k))
        return &uop_failed;
    rank = tn_rank(ctx, u);
    n = tn_size(ctx, u, axis);
    t = tn_size(ctx, k, axis);
    assert(n > 0 && t > 0 && tn_rank(ctx, k) == rank);
    type = n < INT32_MAX ? UOP_I32 : UOP_I64;
    rows = dim_divide(ctx->dims, tn_elems(ctx, u), n);
    u = tn_order_keys(ctx, tn_move_axis(ctx, u, axis, rank - 1), &n_bits);
    u = tn_reshape(ctx, u, (const int64_t[]){1, rows, n}, 3);
    u = tn_wrap(ctx, UOP_CONTIGUOUS, u);
    k = tn_move_axis(ctx, tn_cast(ctx, k, type), axis, 0);
    memcpy(d, tn_shape(ctx, k)->d, rank * sizeof(*d));
    k = tn_reshape(ctx, k, (const int64_t[]){t, rows, 1}, 3);
    k = tn_wrap(ctx, UOP_CONTIGUOUS, k);
    if (tn_bad(u) || tn_bad(k))
        return &uop_failed;
    key = find_key(ctx, u, k, n_bits);
    k = tn_sub(ctx, k, count_less(ctx, u, key, type));
    k = tn_wrap(ctx, UOP_CONTIGUOUS, k);
    same = tn_eq(ctx, u, key);
    place = tn_scan(ctx, UOP_ADD, tn_cast(ctx, same, type), 2);
    same = tn_and(ctx, same, tn_lt(ctx, k, place));
    last = tn_int(ctx, type, n - 1);
    place = tn_where(ctx, same, tn_iota(ctx, 3, 2, n, type), last);
    place = tn_reduce(ctx, UOP_MIN, place, 1u << 2);
    place = tn_reshape(ctx, tn_cast(ctx, place, UOP_I64), d, rank);
    return tn_wrap(ctx, UOP_CONTIGUOUS, tn_move_axis(ctx, place, 0, axis));
}
