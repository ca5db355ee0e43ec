/* Order along an axis: sort, topk.
 *
 * Elements become 64-bit keys: 32 bits in whose order they are to be, and their
 * places below these. So no two keys are equal, order is stable whatever is
 * exchanged when, and an exchange is a minimum and a maximum. Elements of 64
 * bits are sorted twice, by their low half and by their high one.
 *
 * They are sorted by Batcher's bitonic network: blocks of one row, of S keys
 * each, are in order; two of them, one upside down, are put in order as one of
 * 2 S. Upside down: every second block has its keys' complements in ascending
 * order.
 *
 * A kernel has 2^EXCHANGE_BITS keys in registers and does as many stages of
 * that (UOP_SORT_AXIS); then keys lie as [n][rows], so that rows are
 * neighbours. On a GPU it has more in memory that threads share, if they are
 * neighbours: then keys lie as [rows][n].
 */
#include <assert.h>
#include <string.h>

#include "tensor/ops/elementwise.h"
#include "tensor/core/node.h"
#include "tensor/ops/select.h"
#include "tensor/core/tensor_internal.h"

#define EXCHANGE_BITS 4 /* what any device has at hand */
#define KEY_BITS      32

/* 0 and ~0 by turns, along axis `axis` of `rank`. */
static const struct uop *
turns(struct bell_context *ctx, uint32_t rank, uint32_t axis, int64_t n)
{
    const struct uop *odd = tn_and(ctx, tn_iota(ctx, rank, axis, n, UOP_I64),
                                   tn_int(ctx, UOP_I64, 1));

    assert(axis < rank);
    return tn_neg(ctx, odd);
}

/* An axis of keys of a row that is 2^k long, as nodes of [outer][n][rows] have
 * it. */
struct keys {
    struct bell_context *ctx;
    const struct uop *u; /* of n keys a row */
    int64_t n, rows, outer;
    uint32_t block_log2; /* what is in order */
    uint32_t tile_log2;  /* neighbours that a kernel has at hand */
};

/* Exchanges over `n_bits` bits of places in a row, from bit `low` on. */
static void
exchange(struct keys *k, uint32_t low, uint32_t n_bits, bool bitonic)
{
    struct dim_table *t = k->ctx->dims;
    int64_t d[3] = {dim_mul(t, k->outer, k->n >> (low + n_bits)),
                    (int64_t)1 << n_bits,
                    dim_mul(t, k->rows, (int64_t)1 << low)};

    k->u = tn_exchange(k->ctx, tn_reshape(k->ctx, k->u, d, 3), bitonic);
}

/* Bitonic blocks of 2^block_log2 keys into order. */
static void
clean(struct keys *k)
{
    uint32_t left = k->block_log2, n;

    while (left > 0) {
        n = left > k->tile_log2 ? left - k->tile_log2 : left;
        if (n > EXCHANGE_BITS && left > k->tile_log2)
            n = n % EXCHANGE_BITS ? n % EXCHANGE_BITS : EXCHANGE_BITS;
        left -= n;
        exchange(k, left, n, true);
    }
}

/* Pairs of blocks become blocks, or of each pair the lesser half. */
static void
merge(struct keys *k, bool halve)
{
    int64_t size = (int64_t)1 << k->block_log2, n_pairs = k->n / (2 * size);
    const int64_t d[5] = {k->outer, n_pairs, 2, size, k->rows};
    struct bell_context *ctx = k->ctx;
    const struct uop *u;

    u = tn_reshape(ctx, k->u, d, 5);
    u = tn_xor(ctx, u, turns(ctx, 5, 2, 2));
    if (halve) {
        u = tn_min(ctx, tn_shrink_axis(ctx, u, 2, 0, 1),
                   tn_shrink_axis(ctx, u, 2, 1, 2));
        k->n /= 2;
    } else {
        k->block_log2++;
    }
    k->u = tn_xor(ctx, u, turns(ctx, 5, 1, n_pairs));
    clean(k);
}

/* While a kernel has four times as many keys at hand: of these the first
 * `count` (or some more), which those of the row are among. */
static void
drop_keys(struct keys *k, int64_t count)
{
    int64_t tile = (int64_t)1 << k->tile_log2, kept = 1;

    while (kept < count)
        kept *= 2;
    while (k->n > tile && 4 * kept <= tile && !tn_bad(k->u)) {
        const int64_t d[4] = {k->outer, k->n / tile, tile, k->rows};
        exchange(k, 0, k->tile_log2, false);
        k->u =
            tn_shrink_axis(k->ctx, tn_reshape(k->ctx, k->u, d, 4), 2, 0, kept);
        k->n = k->n / tile * kept;
    }
}

/* The first `count` (or more) of each row's keys, in order. */
static void
sort_keys(struct keys *k, int64_t count)
{
    uint32_t first = 0;

    drop_keys(k, count);
    while (first < k->tile_log2 && (int64_t)1 << first < k->n)
        first++;
    if (first == 0)
        return;
    k->block_log2 = first;
    {
        const int64_t d[4] = {k->outer, k->n >> first, (int64_t)1 << first,
                              k->rows};
        k->u = tn_xor(k->ctx, tn_reshape(k->ctx, k->u, d, 4),
                      turns(k->ctx, 4, 1, d[1]));
    }
    exchange(k, 0, first, false);
    while ((int64_t)1 << k->block_log2 < k->n && !tn_bad(k->u))
        merge(k, (int64_t)1 << k->block_log2 >= count);
}

/* The places along axis 0 of the first `count` in order of u[n][rows], I64
 * whose low place_bits bits are 0; n is at most 2^place_bits. */
static const struct uop *
order_keys(struct bell_context *ctx, const struct uop *u, uint32_t place_bits,
           int64_t count)
{
    int64_t n = tn_size(ctx, u, 0), least = (int64_t)1 << place_bits;
    uint32_t bits = tensor_device_sort_bits(ctx);
    bool shares = bits > EXCHANGE_BITS && n > 1 << EXCHANGE_BITS;
    int64_t rows = tn_size(ctx, u, 1);
    struct keys k = {.ctx = ctx,
                     .n = 1,
                     .rows = shares ? 1 : rows,
                     .outer = shares ? rows : 1,
                     .tile_log2 = shares ? bits : EXCHANGE_BITS};
    const struct uop *place;

    while (k.n < n)
        k.n *= 2;
    assert(n <= least || tn_bad(u));
    place = tn_iota(ctx, 2, 0, k.n, UOP_I64);
    u = tn_pad_axis(ctx, u, 0, 0, k.n - n);
    if (k.n > n)
        u = tn_where(ctx, tn_lt(ctx, place, tn_int(ctx, UOP_I64, n)), u,
                     tn_int(ctx, UOP_I64, INT64_MAX - (least - 1)));
    k.u = tn_add(ctx, u, place);
    if (shares)
        k.u = tn_move_axis(ctx, k.u, 0, 1);
    sort_keys(&k, count);
    if (shares)
        u = tn_reshape(ctx, k.u, (const int64_t[]){rows, k.n}, 2);
    else
        u = tn_reshape(ctx, k.u, (const int64_t[]){k.n, rows}, 2);
    u = tn_shrink_axis(ctx, u, shares, 0, count);
    u = tn_and(ctx, u, tn_int(ctx, UOP_I64, least - 1));
    return shares ? tn_move_axis(ctx, u, 0, 1) /* of keys that are stored */
                  : tn_wrap(ctx, UOP_CONTIGUOUS, u);
}

/* The same of the values of I32 in I64. */
static const struct uop *
order_words(struct bell_context *ctx, const struct uop *u, int64_t count)
{
    u = tn_mul(ctx, u, tn_int(ctx, UOP_I64, (int64_t)1 << KEY_BITS));
    return order_keys(ctx, u, KEY_BITS, count);
}

/* Integers as wide as u's elements, signed, in their order: NaNs are equal and
 * the greatest, so are zeros of either sign. */
static const struct uop *
as_integers(struct bell_context *ctx, const struct uop *u)
{
    bool wide = u->dtype == UOP_F64;
    enum uop_dtype dtype = wide ? UOP_I64 : UOP_I32;
    const struct uop *bits, *zero = tn_int(ctx, dtype, 0), *least, *most;

    if (u->dtype == UOP_U64)
        return tn_xor(ctx, tn_bitcast(ctx, u, UOP_I64),
                      tn_int(ctx, UOP_I64, INT64_MIN));
    if (!tn_is_float(u))
        return u;
    u = tn_widen(ctx, u);
    least = tn_int(ctx, dtype, wide ? INT64_MIN : INT32_MIN);
    most = tn_int(ctx, dtype, wide ? INT64_MAX : INT32_MAX);
    bits = tn_bitcast(ctx, u, dtype);
    bits = tn_where(ctx, tn_eq(ctx, bits, least), zero, bits);
    bits = tn_where(ctx, tn_lt(ctx, bits, zero), tn_xor(ctx, bits, most), bits);
    return tn_where(ctx, tn_isnan(ctx, u), most, bits);
}

const struct uop *
tn_order_keys(struct bell_context *ctx, const struct uop *u, uint32_t *out_bits)
{
    bool is_float = tn_is_float(u);

    *out_bits = 0;
    if (tn_bad(u))
        return u;
    *out_bits = 8u * uop_dtype_infos[u->dtype].size_bytes;
    if (is_float && *out_bits < 32)
        *out_bits = 32;
    if (u->dtype == UOP_BOOL || u->dtype == UOP_U8 || u->dtype == UOP_U16)
        return tn_cast(ctx, u, UOP_U32);
    if (u->dtype == UOP_U32 || u->dtype == UOP_U64)
        return u;
    u = as_integers(ctx, u);
    if (*out_bits == 64)
        return tn_bitcast(ctx, tn_xor(ctx, u, tn_int(ctx, UOP_I64, INT64_MIN)),
                          UOP_U64);
    u = tn_add(ctx, tn_cast(ctx, u, UOP_I64),
               tn_int(ctx, UOP_I64, (int64_t)1 << (*out_bits - 1)));
    return tn_cast(ctx, u, UOP_U32);
}

/* The places along axis 0 of the first `count` in order of u[n][rows]. */
static const struct uop *
order_indices(struct bell_context *ctx, const struct uop *u, bool descending,
              int64_t count)
{
    const struct uop *low, *high, *first, *second;
    const struct uop *least = tn_int(ctx, UOP_I64, INT32_MIN);
    enum uop_dtype dtype = u->dtype;

    u = tn_cast(ctx, as_integers(ctx, u), UOP_I64);
    if (dtype == UOP_U32)
        u = tn_add(ctx, u, least);
    if (descending)
        u = tn_xor(ctx, u, tn_int(ctx, UOP_I64, -1));
    if (uop_dtype_infos[dtype].size_bytes < 8)
        return order_words(ctx, u, count);
    low = tn_and(ctx, u, tn_int(ctx, UOP_I64, UINT32_MAX));
    low = tn_add(ctx, low, least);
    high = tn_alu2(ctx, UOP_SHR, u, tn_int(ctx, UOP_I64, KEY_BITS));
    first = order_words(ctx, low, tn_size(ctx, u, 0));
    second = order_words(ctx, tn_gather(ctx, high, 0, first), count);
    return tn_wrap(ctx, UOP_CONTIGUOUS, tn_gather(ctx, first, 0, second));
}

const struct uop *
tn_shuffle(struct bell_context *ctx, const struct uop *u)
{
    int64_t n = tn_numel(ctx, u), column[2] = {n, 1};
    uint32_t bits = 0;

    if (n == 0)
        return tn_full(ctx, tn_int(ctx, UOP_I64, 0), &n, 1);
    while ((int64_t)1 << bits < n)
        bits++;
    u = tn_and(ctx, tn_bitcast(ctx, u, UOP_I64),
               tn_int(ctx, UOP_I64, -((int64_t)1 << bits)));
    u = order_keys(ctx, tn_reshape(ctx, u, column, 2), bits, n);
    return tn_reshape(ctx, u, &n, 1);
}

const struct uop *
tn_order_axis(struct bell_context *ctx, const struct uop *u, uint32_t axis,
              bool descending, int64_t count)
{
    int64_t d[TN_MAX_RANK], flat[2];
    uint32_t rank;

    if (tn_bad(u))
        return u;
    rank = tn_rank(ctx, u);
    u = tn_move_axis(ctx, u, axis, 0);
    memcpy(d, tn_shape(ctx, u)->d, rank * sizeof(*d));
    flat[0] = d[0];
    d[0] = count;
    if (dims_most(ctx->dims, d, rank) == 0) {
        u = tn_full(ctx, tn_int(ctx, UOP_I64, 0), d, rank);
    } else {
        if (u->dtype == UOP_BOOL)
            u = tn_cast(ctx, u, UOP_U8);
        flat[1] = dim_product(ctx->dims, d + 1, rank - 1);
        u = order_indices(ctx, tn_reshape(ctx, u, flat, 2), descending, count);
        u = tn_reshape(ctx, u, d, rank);
    }
    return tn_move_axis(ctx, u, 0, axis);
}

static void
sort_call(const char *call, struct bell_tensor *x, int axis, bool descending,
          bool is_all, int64_t k, struct bell_tensor **out_values,
          struct bell_tensor **out_indices)
{
    const struct uop *u, *order;
    struct bell_context *ctx;
    struct bell_tensor *error;
    int64_t size = 1; /* a tensor without axes has one of that size */
    bool has_axes = false;
    int at = -1;

    if (tensor_takes(call, x, &error)) {
        has_axes = tensor_at(x)->shape->n > 0;
        error = tensor_at(x)->ctx->error_tensor;
        at = tensor_axis(tensor_at(x)->ctx, call, axis, tensor_at(x)->shape->n);
        if (at >= 0 &&
            !tensor_plain_axes(call, x, tn_axis_bit(at),
                               "a network of sorting is for one size", &error))
            at = -1;
        if (at >= 0 && has_axes)
            size = tensor_at(x)->shape->d[at];
        if (is_all)
            k = size;
        if (at >= 0 && (k < 0 || k > size)) {
            tensor_fail(tensor_at(x)->ctx, call, BELL_BAD_VALUE,
                        "k is %lld, not in 0..%lld, the size of axis %d of %s",
                        (long long)k, (long long)size, at, SHAPE_OF(x));
            at = -1;
        }
        if (at >= 0 && tensor_at(x)->shape->n == BELL_MAX_RANK) {
            tensor_fail(tensor_at(x)->ctx, call, BELL_BAD_SHAPE,
                        "%s has %d axes, one too many", SHAPE_OF(x),
                        BELL_MAX_RANK);
            at = -1;
        }
        if (at >= 0 && size > TN_MAX_ORDERED) {
            tensor_fail(tensor_at(x)->ctx, call, BELL_BAD_SHAPE,
                        "axis %d of %s has more than 2^32 elements", at,
                        SHAPE_OF(x));
            at = -1;
        }
    }
    if (out_values)
        *out_values = error;
    if (out_indices)
        *out_indices = error;
    if (at < 0)
        return;
    ctx = tensor_at(x)->ctx;
    u = tensor_node(x);
    if (!has_axes)
        u = tn_unsqueeze(ctx, u, 0);
    order = tn_order_axis(ctx, u, (uint32_t)at, descending, k);
    u = tn_gather(ctx, u, (uint32_t)at, order);
    if (!has_axes && k == 1) {
        u = tn_squeeze(ctx, u, 1);
        order = tn_squeeze(ctx, order, 1);
    }
    if (out_values)
        *out_values = tensor_new(ctx, call, u);
    if (out_indices)
        *out_indices = tensor_new(ctx, call, order);
}

void
bell_sort(struct bell_tensor *x, int axis, bool descending,
          struct bell_tensor **out_values, struct bell_tensor **out_indices)
{
    sort_call(__func__, x, axis, descending, true, 0, out_values, out_indices);
}

struct bell_tensor *
bell_argsort(struct bell_tensor *x, int axis, bool descending)
{
    struct bell_tensor *indices;

    sort_call(__func__, x, axis, descending, true, 0, NULL, &indices);
    return indices;
}

void
bell_topk(struct bell_tensor *x, int64_t k, int axis, bool largest,
          struct bell_tensor **out_values, struct bell_tensor **out_indices)
{
    sort_call(__func__, x, axis, largest, false, k, out_values, out_indices);
}
