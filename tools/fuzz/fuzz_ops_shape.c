/* The fuzzer's ops: movement, joining and splitting, indexing, order. */
#include "tools/fuzz/fuzz.h"

#include <string.h>

#include "base/bits.h"

#define GEN(name)                                                              \
    static bool name(struct fuzz_gen *g, const struct fuzz_op *op,             \
                     struct fuzz_node *n)
#define BUILD(name)                                                            \
    static struct bell_tensor *name(                                           \
        struct bell_context *ctx, const struct fuzz_op *op,                    \
        const struct fuzz_node *n, struct bell_tensor *const *src)

/* In every build function: what it does not need. */
#define UNUSED ((void)ctx, (void)op, (void)n, (void)src)

static bool
take(struct fuzz_node *n, int node)
{
    if (node < 0)
        return false;
    n->src[n->n_src++] = (uint16_t)node;
    return true;
}

static uint32_t
rank_of(const struct fuzz_gen *g, int x)
{
    return bell_ndim(g->tensors[x]);
}

static int64_t
size_of(const struct fuzz_gen *g, int x, int64_t axis)
{
    return bell_size(g->tensors[x], (int)axis);
}

/* low..high, both included. */
static int64_t
between(struct fuzz_gen *g, int64_t low, int64_t high)
{
    return low + (int64_t)fuzz_below(&g->rng, (uint64_t)(high - low + 1));
}

static bool
take_any(struct fuzz_gen *g, struct fuzz_node *n, uint32_t min_rank,
         uint32_t max_rank, int *out)
{
    *out = fuzz_pick_rank(g, fuzz_any, min_rank, max_rank, FUZZ_DATA_NORMAL);
    return take(n, *out);
}

/* ---- movement --------------------------------------------------------- */

/* Splits the number of elements into factors, in any order. */
GEN(gen_reshape)
{
    uint64_t left, d;
    int x;

    (void)op;
    if (!take_any(g, n, 0, 5, &x))
        return false;
    left = bell_numel(g->tensors[x]);
    while (left > 1 && n->n_list < 4) {
        for (d = 2 + fuzz_below(&g->rng, 7); d < left && left % d != 0; d++)
            ;
        if (d >= left || fuzz_one_in(&g->rng, 4))
            d = left;
        n->list[n->n_list++] = (int64_t)d;
        left /= d;
    }
    if (left != 1 || fuzz_one_in(&g->rng, 4))
        n->list[n->n_list++] = (int64_t)left;
    if (n->n_list > 0 && left != 0 && fuzz_one_in(&g->rng, 5))
        n->list[fuzz_below(&g->rng, n->n_list)] = -1;
    return true;
}

BUILD(build_reshape)
{
    UNUSED;
    return bell_reshape(src[0], n->list, n->n_list);
}

GEN(gen_permute)
{
    uint32_t rank, i;
    int x;

    (void)op;
    if (!take_any(g, n, 1, 5, &x))
        return false;
    rank = rank_of(g, x);
    n->n_list = (uint8_t)rank;
    for (i = 0; i < rank; i++) { /* inside-out shuffle */
        uint64_t k = fuzz_below(&g->rng, i + 1);
        n->list[i] = n->list[k];
        n->list[k] = i;
    }
    return true;
}

BUILD(build_permute)
{
    UNUSED;
    return bell_permute(src[0], n->list, n->n_list);
}

GEN(gen_transpose)
{
    int x;

    (void)op;
    if (!take_any(g, n, 1, 5, &x))
        return false;
    n->i[0] = fuzz_random_axis(g, rank_of(g, x));
    n->i[1] = fuzz_random_axis(g, rank_of(g, x));
    return true;
}

BUILD(build_transpose)
{
    UNUSED;
    return bell_transpose(src[0], (int)n->i[0], (int)n->i[1]);
}

BUILD(build_movedim)
{
    UNUSED;
    return bell_movedim(src[0], (int)n->i[0], (int)n->i[1]);
}

/* Axes of size 1 grow; up to two new ones in front. */
GEN(gen_expand)
{
    uint32_t fresh, i;
    int x;

    (void)op;
    if (!take_any(g, n, 0, 4, &x))
        return false;
    fresh = (uint32_t)fuzz_below(&g->rng, 3);
    for (i = 0; i < fresh; i++)
        n->list[n->n_list++] = between(g, 1, 5);
    for (i = 0; i < rank_of(g, x); i++) {
        int64_t size = size_of(g, x, i);
        n->list[n->n_list++] = size == 1                 ? fuzz_random_size(g)
                               : fuzz_one_in(&g->rng, 3) ? -1
                                                         : size;
    }
    return true;
}

BUILD(build_expand)
{
    UNUSED;
    return bell_expand(src[0], n->list, n->n_list);
}

GEN(gen_pad)
{
    bool zero = fuzz_one_in(&g->rng, 2);
    uint32_t i;
    int x;

    (void)op;
    if (!take_any(g, n, 1, 4, &x))
        return false;
    for (i = 0; i < rank_of(g, x); i++) {
        int64_t size = size_of(g, x, i);
        n->list[2 * i] = fuzz_one_in(&g->rng, 2) ? 0 : between(g, 0, 3);
        n->list[2 * i + 1] = fuzz_one_in(&g->rng, 2) ? 0 : between(g, 0, 3);
        if (size > 2 && fuzz_one_in(&g->rng, 5))
            n->list[2 * i] = -1;
    }
    n->n_list = (uint8_t)(2 * i);
    n->f[0] = zero ? 0 : (double)between(g, 0, 3);
    return true;
}

BUILD(build_pad)
{
    UNUSED;
    return bell_pad(src[0], n->list, n->n_list, n->f[0]);
}

GEN(gen_shrink)
{
    uint32_t i;
    int x;

    (void)op;
    if (!take_any(g, n, 1, 5, &x))
        return false;
    for (i = 0; i < rank_of(g, x); i++) {
        int64_t size = size_of(g, x, i);
        int64_t begin = fuzz_one_in(&g->rng, 2) ? 0 : between(g, 0, size / 2);
        n->list[2 * i] = begin;
        n->list[2 * i + 1] =
            fuzz_one_in(&g->rng, 2) ? size : between(g, begin, size);
    }
    n->n_list = (uint8_t)(2 * i);
    return true;
}

BUILD(build_shrink)
{
    UNUSED;
    return bell_shrink(src[0], n->list, n->n_list);
}

GEN(gen_axes)
{
    int x;

    (void)op;
    if (!take_any(g, n, 0, 5, &x))
        return false;
    fuzz_random_axes(g, rank_of(g, x), n);
    return true;
}

BUILD(build_flip)
{
    UNUSED;
    return bell_flip(src[0], n->list, n->n_list);
}

BUILD(build_squeeze)
{
    UNUSED;
    return bell_squeeze(src[0], n->list, n->n_list);
}

GEN(gen_unsqueeze)
{
    int x;

    (void)op;
    if (!take_any(g, n, 0, 4, &x))
        return false;
    n->i[0] = fuzz_random_axis(g, rank_of(g, x) + 1);
    return true;
}

BUILD(build_unsqueeze)
{
    UNUSED;
    return bell_unsqueeze(src[0], (int)n->i[0]);
}

GEN(gen_flatten)
{
    int x;

    (void)op;
    if (!take_any(g, n, 1, 5, &x))
        return false;
    n->i[0] = between(g, 0, rank_of(g, x) - 1);
    n->i[1] = between(g, n->i[0], rank_of(g, x) - 1);
    return true;
}

BUILD(build_flatten)
{
    UNUSED;
    return bell_flatten(src[0], (int)n->i[0], (int)n->i[1]);
}

GEN(gen_repeat)
{
    uint32_t i, fresh;
    int x;

    (void)op;
    if (!take_any(g, n, 0, 3, &x))
        return false;
    fresh = (uint32_t)fuzz_below(&g->rng, 2);
    for (i = 0; i < rank_of(g, x) + fresh; i++)
        n->list[n->n_list++] = between(g, 1, 3);
    return true;
}

BUILD(build_repeat)
{
    UNUSED;
    return bell_repeat(src[0], n->list, n->n_list);
}

/* An axis and a number from low to high. */
static bool
take_axis_number(struct fuzz_gen *g, struct fuzz_node *n, int64_t low,
                 int64_t high)
{
    int x;

    if (!take_any(g, n, 1, 4, &x))
        return false;
    n->i[0] = fuzz_random_axis(g, rank_of(g, x));
    n->i[1] = between(g, low, high);
    return true;
}

GEN(gen_repeat_interleave)
{
    (void)op;
    return take_axis_number(g, n, 1, 3);
}

BUILD(build_repeat_interleave)
{
    UNUSED;
    return bell_repeat_interleave(src[0], n->i[1], (int)n->i[0]);
}

GEN(gen_roll)
{
    (void)op;
    return take_axis_number(g, n, -5, 5);
}

BUILD(build_roll)
{
    UNUSED;
    return bell_roll(src[0], n->i[1], (int)n->i[0]);
}

GEN(gen_tri)
{
    int x;

    (void)op;
    n->i[0] = between(g, -3, 3);
    return take_any(g, n, 2, 4, &x);
}

BUILD(build_tril)
{
    UNUSED;
    return bell_tril(src[0], n->i[0]);
}

BUILD(build_triu)
{
    UNUSED;
    return bell_triu(src[0], n->i[0]);
}

GEN(gen_diag)
{
    int x;

    (void)op;
    return take_any(g, n, 1, 2, &x);
}

BUILD(build_diag)
{
    UNUSED;
    return bell_diag(src[0]);
}

GEN(gen_diagonal)
{
    uint32_t rank;
    int x;

    (void)op;
    if (!take_any(g, n, 2, 4, &x))
        return false;
    rank = rank_of(g, x);
    n->i[0] = between(g, -2, 2);
    n->i[1] = between(g, 0, rank - 1);
    n->i[2] = (n->i[1] + between(g, 1, rank - 1)) % rank;
    return true;
}

BUILD(build_diagonal)
{
    UNUSED;
    return bell_diagonal(src[0], n->i[0], (int)n->i[1], (int)n->i[2]);
}

GEN(gen_unfold)
{
    int64_t size;
    int x;

    (void)op;
    if (!take_any(g, n, 1, 3, &x))
        return false;
    n->i[0] = fuzz_random_axis(g, rank_of(g, x));
    size = size_of(g, x, n->i[0]);
    n->i[1] = between(g, 1, size < 4 ? size < 1 ? 1 : size : 4);
    n->i[2] = between(g, 1, 3);
    return size > 0;
}

BUILD(build_unfold)
{
    UNUSED;
    return bell_unfold(src[0], (int)n->i[0], n->i[1], n->i[2]);
}

/* ---- joining and splitting -------------------------------------------- */

/* Two or three tensors that agree but along an axis. */
GEN(gen_cat)
{
    int64_t shape[8], axis;
    uint32_t rank, i, k, count = 1 + (uint32_t)fuzz_below(&g->rng, 2);
    int x;

    (void)op;
    if (!take_any(g, n, 1, 4, &x))
        return false;
    rank = rank_of(g, x);
    axis = (int64_t)fuzz_below(&g->rng, rank);
    n->i[0] = fuzz_one_in(&g->rng, 2) ? axis : axis - rank;
    for (k = 0; k < count; k++) {
        enum bell_dtype dtype = bell_dtype_of(g->tensors[x]);
        if (fuzz_one_in(&g->rng, 6))
            dtype = fuzz_random_dtype(g);
        for (i = 0; i < rank; i++)
            shape[i] = i == axis ? between(g, 1, 5) : size_of(g, x, i);
        if (!take(n, fuzz_leaf(g, dtype, shape, rank, FUZZ_DATA_NORMAL, 0)))
            return false;
    }
    return true;
}

BUILD(build_cat)
{
    UNUSED;
    return bell_cat(src, n->n_src, (int)n->i[0]);
}

GEN(gen_stack)
{
    int x;

    (void)op;
    if (!take_any(g, n, 0, 3, &x) ||
        !take(n, fuzz_leaf(g, bell_dtype_of(g->tensors[x]),
                           bell_shape(g->tensors[x]), rank_of(g, x),
                           FUZZ_DATA_NORMAL, 0)))
        return false;
    n->i[0] = fuzz_random_axis(g, rank_of(g, x) + 1);
    return true;
}

BUILD(build_stack)
{
    UNUSED;
    return bell_stack(src, n->n_src, (int)n->i[0]);
}

/* Part i[2] of i[1] chunks. */
GEN(gen_chunk)
{
    if (!take_axis_number(g, n, 1, 4))
        return false;
    (void)op;
    n->i[2] = between(g, 0, n->i[1] - 1);
    return true;
}

BUILD(build_chunk)
{
    struct bell_tensor *parts[4];
    uint32_t count;

    UNUSED;
    count = bell_chunk(src[0], (uint32_t)n->i[1], (int)n->i[0], parts);
    return count ? parts[n->i[2] < count ? n->i[2] : count - 1] : parts[0];
}

/* ---- indexing --------------------------------------------------------- */

/* What an item of the list encoding stands for: kind, begin, end, step. */
#define ITEM_NUMBERS 4

static void
random_item(struct fuzz_gen *g, int64_t size, bool may_drop, int64_t *item)
{
    item[3] = 1;
    if (may_drop && size > 0 && fuzz_one_in(&g->rng, 4)) {
        item[0] = BELL_INDEX_INT;
        item[1] = between(g, -size, size - 1);
        return;
    }
    item[0] = BELL_INDEX_SLICE;
    item[1] = fuzz_one_in(&g->rng, 2) ? BELL_NONE : between(g, -size - 1, size);
    item[2] = fuzz_one_in(&g->rng, 2) ? BELL_NONE : between(g, -size - 1, size);
    if (fuzz_one_in(&g->rng, 3))
        item[3] = between(g, 0, 1) ? between(g, -3, -1) : between(g, 2, 3);
}

GEN(gen_index)
{
    uint32_t rank, i;
    int x;

    (void)op;
    if (!take_any(g, n, 1, 4, &x))
        return false;
    rank = rank_of(g, x);
    for (i = 0; i < rank && n->n_list < FUZZ_MAX_LIST - ITEM_NUMBERS; i++) {
        int64_t *item = n->list + n->n_list;
        if (fuzz_one_in(&g->rng, 8)) { /* and this axis once more */
            item[0] = BELL_INDEX_NEW_AXIS;
            i--;
        } else if (fuzz_one_in(&g->rng, 8)) {
            item[0] = BELL_INDEX_ELLIPSIS;
            i = rank;
        } else {
            random_item(g, size_of(g, x, i), true, item);
        }
        n->n_list += ITEM_NUMBERS;
    }
    return true;
}

static uint32_t
make_items(const struct fuzz_node *n, struct bell_index_item *items)
{
    uint32_t i;

    for (i = 0; i < n->n_list / ITEM_NUMBERS; i++) {
        const int64_t *item = n->list + ITEM_NUMBERS * i;
        items[i].kind = (enum bell_index_kind)item[0];
        items[i].begin = item[1];
        items[i].end = item[2];
        items[i].step = item[3];
        items[i].tensor = NULL;
    }
    return i;
}

BUILD(build_index)
{
    struct bell_index_item items[FUZZ_MAX_LIST / ITEM_NUMBERS];
    uint32_t count = make_items(n, items);

    UNUSED;
    return bell_index(src[0], items, count);
}

/* Slices only; a value of shape (). */
GEN(gen_index_put)
{
    uint32_t i;
    int x;

    (void)op;
    if (!take_any(g, n, 1, 4, &x))
        return false;
    for (i = 0; i < rank_of(g, x) && i < 4; i++) {
        random_item(g, size_of(g, x, i), true, n->list + n->n_list);
        n->n_list += ITEM_NUMBERS;
    }
    return take(n, fuzz_leaf(g, bell_dtype_of(g->tensors[x]), NULL, 0,
                             FUZZ_DATA_COARSE, 0));
}

BUILD(build_index_put)
{
    struct bell_index_item items[FUZZ_MAX_LIST / ITEM_NUMBERS];
    uint32_t count = make_items(n, items);

    UNUSED;
    return bell_index_put(src[0], items, count, src[1]);
}

/* A leaf of indices for an axis of `size`. */
static int
index_leaf(struct fuzz_gen *g, int64_t size, const int64_t *shape,
           uint32_t rank)
{
    static const enum bell_dtype dtypes[] = {BELL_INT64, BELL_INT64, BELL_INT32,
                                             BELL_UINT8, BELL_INT16};
    enum bell_dtype dtype = dtypes[fuzz_below(&g->rng, ARRAY_LEN(dtypes))];

    if (size <= 0)
        return -1;
    if (size > 100)
        dtype = BELL_INT64;
    if (fuzz_one_in(&g->rng, 6)) /* some are out of range */
        size += 2;
    return fuzz_leaf(g, dtype, shape, rank, FUZZ_DATA_INDEX, size);
}

/* x[:, index] or x[index_a, index_b] of rank-2 tensors. */
GEN(gen_index_by)
{
    int64_t shape[2] = {between(g, 1, 6), between(g, 1, 3)};
    uint32_t rank = (uint32_t)between(g, 1, 2);
    int x;

    (void)op;
    if (!take_any(g, n, 2, 3, &x))
        return false;
    n->i[0] = between(g, 0, 1);
    if (!take(n, index_leaf(g, size_of(g, x, 1), shape, rank)))
        return false;
    return n->i[0] == 0 ||
           take(n, index_leaf(g, size_of(g, x, 0), shape + rank - 1, 1));
}

BUILD(build_index_by)
{
    UNUSED;
    if (n->i[0] == 0)
        return bell_index(src[0], BELL_ITEMS(bell_whole(), bell_by(src[1])));
    return bell_index(src[0], BELL_ITEMS(bell_by(src[2]), bell_by(src[1])));
}

GEN(gen_select)
{
    int64_t size;
    int x;

    (void)op;
    if (!take_any(g, n, 1, 4, &x))
        return false;
    n->i[0] = fuzz_random_axis(g, rank_of(g, x));
    size = size_of(g, x, n->i[0]);
    if (size < 1)
        return false;
    n->i[1] = between(g, -size, size - 1);
    return true;
}

BUILD(build_select)
{
    UNUSED;
    return bell_select(src[0], (int)n->i[0], n->i[1]);
}

GEN(gen_narrow)
{
    int64_t size;
    int x;

    (void)op;
    if (!take_any(g, n, 1, 4, &x))
        return false;
    n->i[0] = fuzz_random_axis(g, rank_of(g, x));
    size = size_of(g, x, n->i[0]);
    n->i[1] = between(g, 0, size);
    n->i[2] = between(g, 0, size - n->i[1]);
    return true;
}

BUILD(build_narrow)
{
    UNUSED;
    return bell_narrow(src[0], (int)n->i[0], n->i[1], n->i[2]);
}

/* x, and an index of x's shape but along the axis. */
static bool
take_indexed(struct fuzz_gen *g, struct fuzz_node *n,
             bool (*fits)(struct bell_tensor *t), int64_t *shape,
             uint32_t *out_rank)
{
    int x = fuzz_pick_rank(g, fits, 1, 3, FUZZ_DATA_NORMAL);
    uint32_t axis, i;

    if (!take(n, x))
        return false;
    *out_rank = rank_of(g, x);
    axis = (uint32_t)fuzz_below(&g->rng, *out_rank);
    n->i[0] = axis;
    for (i = 0; i < *out_rank; i++)
        shape[i] = i == axis ? between(g, 1, 6) : size_of(g, x, i);
    return take(n, index_leaf(g, size_of(g, x, axis), shape, *out_rank));
}

GEN(gen_gather)
{
    int64_t shape[8];
    uint32_t rank;

    (void)op;
    return take_indexed(g, n, fuzz_any, shape, &rank);
}

BUILD(build_gather)
{
    UNUSED;
    return bell_gather(src[0], (int)n->i[0], src[1]);
}

GEN(gen_scatter)
{
    int64_t shape[8];
    uint32_t rank;

    (void)op;
    return take_indexed(g, n, fuzz_is_number, shape, &rank) &&
           take(n, fuzz_leaf(g, bell_dtype_of(g->tensors[n->src[0]]), shape,
                             rank, FUZZ_DATA_NORMAL, 0));
}

BUILD(build_scatter)
{
    UNUSED;
    return bell_scatter(src[0], (int)n->i[0], src[1], src[2]);
}

BUILD(build_scatter_add)
{
    UNUSED;
    return bell_scatter_add(src[0], (int)n->i[0], src[1], src[2]);
}

GEN(gen_index_select)
{
    int64_t count = between(g, 1, 7);
    int x;

    (void)op;
    if (!take_any(g, n, 1, 3, &x))
        return false;
    n->i[0] = fuzz_random_axis(g, rank_of(g, x));
    return take(n, index_leaf(g, size_of(g, x, n->i[0]), &count, 1));
}

BUILD(build_index_select)
{
    UNUSED;
    return bell_index_select(src[0], (int)n->i[0], src[1]);
}

GEN(gen_take)
{
    int64_t shape[2] = {between(g, 1, 6), between(g, 1, 4)};
    int x;

    (void)op;
    return take_any(g, n, 0, 4, &x) &&
           take(n, index_leaf(g, (int64_t)bell_numel(g->tensors[x]), shape,
                              (uint32_t)between(g, 0, 2)));
}

BUILD(build_take)
{
    UNUSED;
    return bell_take(src[0], src[1]);
}

GEN(gen_embedding)
{
    int64_t shape[2] = {between(g, 1, 6), between(g, 1, 4)};
    int w = fuzz_pick_rank(g, fuzz_is_float, 2, 2, FUZZ_DATA_NORMAL);

    (void)op;
    return w >= 0 &&
           take(n, index_leaf(g, size_of(g, w, 0), shape,
                              (uint32_t)between(g, 0, 2))) &&
           take(n, w);
}

BUILD(build_embedding)
{
    UNUSED;
    return bell_embedding(src[0], src[1]);
}

GEN(gen_one_hot)
{
    int64_t shape[2] = {between(g, 1, 9), between(g, 1, 4)};

    (void)op;
    n->i[0] = between(g, 1, 9);
    return take(n, fuzz_leaf(g, BELL_INT32, shape, (uint32_t)between(g, 0, 2),
                             FUZZ_DATA_CLASS, n->i[0] + 1));
}

BUILD(build_one_hot)
{
    UNUSED;
    return bell_one_hot(src[0], n->i[0]);
}

GEN(gen_masked_fill)
{
    int x = fuzz_pick(g, fuzz_is_number, FUZZ_DATA_NORMAL);

    (void)op;
    n->f[0] = (double)between(g, 0, 3);
    return x >= 0 && take(n, x) &&
           take(n, fuzz_pick_like(g, x, fuzz_is_bool, FUZZ_DATA_NORMAL));
}

BUILD(build_masked_fill)
{
    UNUSED;
    return bell_masked_fill(src[0], src[1], n->f[0]);
}

/* ---- order ------------------------------------------------------------ */

/* Short axes: sorting works by comparing all pairs. */
GEN(gen_sort)
{
    int x = fuzz_pick_rank(g, fuzz_is_number, 1, 3, op->data);

    if (!take(n, x))
        return false;
    n->i[0] = fuzz_random_axis(g, rank_of(g, x));
    n->i[1] = between(g, 0, 1);
    n->i[2] = between(g, 1, 4);
    return size_of(g, x, n->i[0]) <= 33 && size_of(g, x, n->i[0]) >= n->i[2];
}

BUILD(build_sort)
{
    struct bell_tensor *values = NULL;

    UNUSED;
    bell_sort(src[0], (int)n->i[0], n->i[1] != 0, &values, NULL);
    return values;
}

BUILD(build_argsort)
{
    UNUSED;
    return bell_argsort(src[0], (int)n->i[0], n->i[1] != 0);
}

BUILD(build_topk)
{
    struct bell_tensor *values = NULL;

    UNUSED;
    bell_topk(src[0], n->i[2], (int)n->i[0], n->i[1] != 0, &values, NULL);
    return values;
}

#define ROW(name, c, weight, diff, data)                                       \
    {                                                                          \
#name, c, gen_##name, build_##name, weight, diff,                      \
            {NULL }, FUZZ_DATA_##data                                          \
    }
#define AS(name, c, gen, weight, diff, data)                                   \
    {                                                                          \
#name, c, gen, build_##name, weight, diff, {NULL }, FUZZ_DATA_##data   \
    }

/* clang-format off */
static const struct fuzz_op rows[] = {
    ROW(reshape, "bell_reshape($0, $l)", 25, true, NORMAL),
    ROW(permute, "bell_permute($0, $l)", 20, true, NORMAL),
    ROW(transpose, "bell_transpose($0, $a, $b)", 8, true, NORMAL),
    AS(movedim, "bell_movedim($0, $a, $b)", gen_transpose, 3, true, NORMAL),
    ROW(expand, "bell_expand($0, $l)", 16, true, NORMAL),
    ROW(pad, "bell_pad($0, $l, $x)", 16, true, NORMAL),
    ROW(shrink, "bell_shrink($0, $l)", 14, true, NORMAL),
    AS(flip, "bell_flip($0, $l)", gen_axes, 10, true, NORMAL),
    AS(squeeze, "bell_squeeze($0, $l)", gen_axes, 4, true, NORMAL),
    ROW(unsqueeze, "bell_unsqueeze($0, $a)", 5, true, NORMAL),
    ROW(flatten, "bell_flatten($0, $a, $b)", 5, true, NORMAL),
    ROW(repeat, "bell_repeat($0, $l)", 5, true, NORMAL),
    ROW(repeat_interleave, "bell_repeat_interleave($0, $b, $a)", 4, true,
        NORMAL),
    ROW(roll, "bell_roll($0, $b, $a)", 5, true, NORMAL),
    AS(tril, "bell_tril($0, $a)", gen_tri, 3, true, NORMAL),
    AS(triu, "bell_triu($0, $a)", gen_tri, 3, true, NORMAL),
    ROW(diag, "bell_diag($0)", 2, true, NORMAL),
    ROW(diagonal, "bell_diagonal($0, $a, $b, $c)", 4, true, NORMAL),
    ROW(unfold, "bell_unfold($0, $a, $b, $c)", 5, true, NORMAL),
    ROW(cat, "bell_cat($*, $a)", 12, true, NORMAL),
    ROW(stack, "bell_stack($*, $a)", 6, true, NORMAL),
    ROW(chunk, "fuzz_chunk($0, $b, $a, $c)", 5, true, NORMAL),
    ROW(index, "bell_index($0, $i)", 20, true, NORMAL),
    ROW(index_put, "bell_index_put($0, $i, $1)", 6, true, NORMAL),
    ROW(index_by, "fuzz_index_by($0, $1, $L)", 8, true, NORMAL),
    ROW(select, "bell_select($0, $a, $b)", 5, true, NORMAL),
    ROW(narrow, "bell_narrow($0, $a, $b, $c)", 4, true, NORMAL),
    ROW(gather, "bell_gather($0, $a, $1)", 10, true, NORMAL),
    ROW(scatter, "bell_scatter($0, $a, $1, $2)", 4, true, NORMAL),
    AS(scatter_add, "bell_scatter_add($0, $a, $1, $2)", gen_scatter, 4, true,
       NORMAL),
    ROW(index_select, "bell_index_select($0, $a, $1)", 5, true, NORMAL),
    ROW(take, "bell_take($0, $1)", 4, true, NORMAL),
    ROW(embedding, "bell_embedding($0, $1)", 5, true, NORMAL),
    ROW(one_hot, "bell_one_hot($0, $a)", 3, false, NORMAL),
    ROW(masked_fill, "bell_masked_fill($0, $1, $x)", 5, true, NORMAL),
    ROW(sort, "fuzz_sort($0, $a, $B)", 5, true, DISTINCT),
    AS(argsort, "bell_argsort($0, $a, $B)", gen_sort, 3, false, DISTINCT),
    AS(topk, "fuzz_topk($0, $c, $a, $B)", gen_sort, 4, true, DISTINCT),
};
/* clang-format on */

const struct fuzz_op_table fuzz_ops_shape = {rows, ARRAY_LEN(rows)};
