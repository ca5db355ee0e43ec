/* The fuzzer's ops: movement, joining and splitting, indexing, order. */
#include "tools/fuzz/fuzz_gen.h"

#include "base/bits.h"

static bool
take_any(struct fuzz_gen *g, struct fuzz_node *n, uint32_t min_rank,
         uint32_t max_rank, int *out)
{
    *out = fuzz_pick_rank(g, fuzz_any, min_rank, max_rank, FUZZ_DATA_NORMAL);
    return take(n, *out);
}

/* ---- movement --------------------------------------------------------- */

/* Two axes become one, or one two of which the second has 1 or 2 elements. */
static bool
reshape_sizes(struct fuzz_gen *g, struct fuzz_node *n)
{
    uint32_t rank = rank_of(g, g->x), at, i;

    if (rank == 0)
        return false;
    at = (uint32_t)fuzz_below(&g->rng, rank);
    for (i = 0; i < rank; i++) {
        int64_t size = size_of(g, g->x, i);

        if (i == at && i + 1 < rank && !fuzz_one_in(&g->rng, 3)) {
            n->list[n->n_list++] = -1;
            i++;
        } else if (i == at) {
            n->list[n->n_list++] = -1;
            n->list[n->n_list++] =
                size % 2 == 0 && fuzz_one_in(&g->rng, 2) ? 2 : 1;
        } else {
            n->list[n->n_list++] = size;
        }
    }
    return true;
}

/* Splits the number of elements into factors, in any order. */
static bool
gen_reshape(struct fuzz_gen *g, struct fuzz_node *n)
{
    uint64_t left, d;
    int x = g->x;

    if (fuzz_has_sizes(g))
        return reshape_sizes(g, n);
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

static bool
gen_permute(struct fuzz_gen *g, struct fuzz_node *n)
{
    uint32_t rank, i;
    int x = g->x;

    rank = rank_of(g, x);
    n->n_list = (uint8_t)rank;
    for (i = 0; i < rank; i++) { /* inside-out shuffle */
        uint64_t k = fuzz_below(&g->rng, i + 1);
        n->list[i] = n->list[k];
        n->list[k] = i;
    }
    return true;
}

static bool
gen_transpose(struct fuzz_gen *g, struct fuzz_node *n)
{
    int x = g->x;

    n->i[0] = fuzz_random_axis(g, rank_of(g, x));
    n->i[1] = fuzz_random_axis(g, rank_of(g, x));
    return true;
}

/* Axes of size 1 grow; up to two new ones in front. */
static bool
gen_expand(struct fuzz_gen *g, struct fuzz_node *n)
{
    uint32_t fresh, i;
    int x = g->x;

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

static bool
gen_pad(struct fuzz_gen *g, struct fuzz_node *n)
{
    bool zero = fuzz_one_in(&g->rng, 2);
    uint32_t i;
    int x;

    if (!take_any(g, n, 1, 4, &x))
        return false;
    for (i = 0; i < rank_of(g, x); i++) {
        int64_t size = size_of(g, x, rank_of(g, x) - 1 - i);
        n->list[2 * i] = fuzz_one_in(&g->rng, 2) ? 0 : between(g, 0, 3);
        n->list[2 * i + 1] = fuzz_one_in(&g->rng, 2) ? 0 : between(g, 0, 3);
        if (size > 2 && fuzz_one_in(&g->rng, 5))
            n->list[2 * i] = -1;
    }
    n->n_list = (uint8_t)(2 * i);
    n->f[0] = zero ? 0 : (double)between(g, 0, 3);
    return true;
}

/* A mode, and what it adds before and after the last axis. */
static bool
gen_pad_with(struct fuzz_gen *g, struct fuzz_node *n)
{
    int64_t size = size_of(g, g->x, -1), most = size < 4 ? size - 1 : 3;

    n->i[0] = between(g, 0, 2);
    n->i[1] = between(g, 0, most < 0 ? 0 : most);
    n->i[2] = between(g, 0, most < 0 ? 0 : most);
    return true;
}

/* clang-format off */
HELPER(fuzz_pad_with,
static struct bell_tensor *
fuzz_pad_with(struct bell_tensor *x, int mode, int64_t before, int64_t after)
{
    static const enum bell_pad_mode modes[] = {
        BELL_PAD_REFLECT, BELL_PAD_REPLICATE, BELL_PAD_CIRCULAR};

    return bell_pad_with(x, BELL_DIMS(before, after), modes[mode]);
})
/* clang-format on */

static bool
gen_shrink(struct fuzz_gen *g, struct fuzz_node *n)
{
    uint32_t i;
    int x = g->x;

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

static bool
gen_axes(struct fuzz_gen *g, struct fuzz_node *n)
{
    int x = g->x;

    fuzz_random_axes(g, rank_of(g, x), n);
    return true;
}

/* An axis of the size of a symbol stays, also while that is 1. */
static bool
gen_squeeze(struct fuzz_gen *g, struct fuzz_node *n)
{
    return !fuzz_may_be_one(g, g->x) && gen_axes(g, n);
}

static bool
gen_unsqueeze(struct fuzz_gen *g, struct fuzz_node *n)
{
    int x = g->x;

    n->i[0] = fuzz_random_axis(g, rank_of(g, x) + 1);
    return true;
}

static bool
gen_flatten(struct fuzz_gen *g, struct fuzz_node *n)
{
    int x = g->x;

    n->i[0] = between(g, 0, rank_of(g, x) - 1);
    n->i[1] = between(g, n->i[0], rank_of(g, x) - 1);
    return true;
}

static bool
gen_repeat(struct fuzz_gen *g, struct fuzz_node *n)
{
    uint32_t i, fresh;
    int x = g->x;

    fresh = (uint32_t)fuzz_below(&g->rng, 2);
    for (i = 0; i < rank_of(g, x) + fresh; i++)
        n->list[n->n_list++] = between(g, 1, 3);
    return true;
}

/* An axis and a number from low to high. */
static bool
take_axis_number(struct fuzz_gen *g, struct fuzz_node *n, int64_t low,
                 int64_t high)
{
    n->i[0] = fuzz_random_axis(g, rank_of(g, g->x));
    n->i[1] = between(g, low, high);
    return true;
}

static bool
gen_repeat_interleave(struct fuzz_gen *g, struct fuzz_node *n)
{
    return take_axis_number(g, n, 1, 3);
}

static bool
gen_roll(struct fuzz_gen *g, struct fuzz_node *n)
{
    return take_axis_number(g, n, -5, 5);
}

static bool
gen_tri(struct fuzz_gen *g, struct fuzz_node *n)
{
    int x;

    n->i[0] = between(g, -3, 3);
    return take_any(g, n, 2, 4, &x);
}

static bool
gen_diagonal(struct fuzz_gen *g, struct fuzz_node *n)
{
    uint32_t rank;
    int x = g->x;

    rank = rank_of(g, x);
    n->i[0] = between(g, -2, 2);
    n->i[1] = between(g, 0, rank - 1);
    n->i[2] = (n->i[1] + between(g, 1, rank - 1)) % rank;
    return true;
}

static bool
gen_unfold(struct fuzz_gen *g, struct fuzz_node *n)
{
    int64_t size;
    int x = g->x;

    n->i[0] = fuzz_random_axis(g, rank_of(g, x));
    size = size_of(g, x, n->i[0]);
    n->i[1] = between(g, 1, size < 4 ? size < 1 ? 1 : size : 4);
    n->i[2] = between(g, 1, 3);
    return size > 0;
}

/* ---- joining and splitting -------------------------------------------- */

/* Two or three tensors that agree but along an axis. */
static bool
gen_cat(struct fuzz_gen *g, struct fuzz_node *n)
{
    int64_t shape[8], axis;
    uint32_t rank, i, k, count = 1 + (uint32_t)fuzz_below(&g->rng, 2);
    int x;

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

static bool
gen_stack(struct fuzz_gen *g, struct fuzz_node *n)
{
    int x;

    if (!take_any(g, n, 0, 3, &x) ||
        !take(n, fuzz_leaf(g, bell_dtype_of(g->tensors[x]),
                           bell_shape(g->tensors[x]), rank_of(g, x),
                           FUZZ_DATA_NORMAL, 0)))
        return false;
    n->i[0] = fuzz_random_axis(g, rank_of(g, x) + 1);
    return true;
}

/* Part i[2] of i[1] chunks. */
static bool
gen_chunk(struct fuzz_gen *g, struct fuzz_node *n)
{
    if (!take_axis_number(g, n, 1, 4))
        return false;
    n->i[2] = between(g, 0, n->i[1] - 1);
    return true;
}

/* ---- indexing --------------------------------------------------------- */

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

static bool
gen_index(struct fuzz_gen *g, struct fuzz_node *n)
{
    uint32_t rank, i;
    int x = g->x;

    rank = rank_of(g, x);
    for (i = 0; i < rank && n->n_list < FUZZ_MAX_LIST - FUZZ_ITEM_NUMBERS;
         i++) {
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
        n->n_list += FUZZ_ITEM_NUMBERS;
    }
    return true;
}

/* Slices only; a value of shape (). */
static bool
gen_index_put(struct fuzz_gen *g, struct fuzz_node *n)
{
    uint32_t i;
    int x = g->x;

    for (i = 0; i < rank_of(g, x) && i < 4; i++) {
        random_item(g, size_of(g, x, i), true, n->list + n->n_list);
        n->n_list += FUZZ_ITEM_NUMBERS;
    }
    return take(n, fuzz_leaf(g, bell_dtype_of(g->tensors[x]), NULL, 0,
                             FUZZ_DATA_COARSE, 0));
}

/* A leaf of indices below `size`, which is that of an axis of node x; x -1: of
 * something else. */
static int
index_leaf(struct fuzz_gen *g, int64_t size, int x, int64_t axis,
           const int64_t *shape, uint32_t rank)
{
    static const enum bell_dtype dtypes[] = {BELL_INT64, BELL_INT64, BELL_INT32,
                                             BELL_UINT8, BELL_INT16};
    enum bell_dtype dtype = dtypes[fuzz_below(&g->rng, ARRAY_LEN(dtypes))];

    if (size <= 0 || !fuzz_indices_fit(g, size, x, (int)axis))
        return -1;
    if (size > 100)
        dtype = BELL_INT64;
    return fuzz_leaf(g, dtype, shape, rank, FUZZ_DATA_INDEX, size);
}

/* x[:, index] or x[index_a, index_b] of rank-2 tensors. */
static bool
gen_index_by(struct fuzz_gen *g, struct fuzz_node *n)
{
    int64_t shape[2] = {between(g, 1, 6), between(g, 1, 3)};
    uint32_t rank = (uint32_t)between(g, 1, 2);
    int x;

    if (!take_any(g, n, 2, 3, &x))
        return false;
    n->i[0] = between(g, 0, 1);
    if (!take(n, index_leaf(g, size_of(g, x, 1), x, 1, shape, rank)))
        return false;
    return n->i[0] == 0 ||
           take(n, index_leaf(g, size_of(g, x, 0), x, 0, shape + rank - 1, 1));
}

static bool
gen_select(struct fuzz_gen *g, struct fuzz_node *n)
{
    int64_t size;
    int x = g->x;

    n->i[0] = fuzz_random_axis(g, rank_of(g, x));
    size = size_of(g, x, n->i[0]);
    if (size < 1)
        return false;
    n->i[1] = between(g, -size, size - 1);
    return true;
}

static bool
gen_narrow(struct fuzz_gen *g, struct fuzz_node *n)
{
    int64_t size;
    int x = g->x;

    n->i[0] = fuzz_random_axis(g, rank_of(g, x));
    size = size_of(g, x, n->i[0]);
    n->i[1] = between(g, 0, size);
    n->i[2] = between(g, 0, size - n->i[1]);
    return true;
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
    return take(n,
                index_leaf(g, size_of(g, x, axis), x, axis, shape, *out_rank));
}

static bool
gen_gather(struct fuzz_gen *g, struct fuzz_node *n)
{
    int64_t shape[8];
    uint32_t rank;

    return take_indexed(g, n, fuzz_any, shape, &rank);
}

static bool
gen_scatter(struct fuzz_gen *g, struct fuzz_node *n)
{
    int64_t shape[8];
    uint32_t rank;

    return take_indexed(g, n, fuzz_is_number, shape, &rank) &&
           take(n, fuzz_leaf(g, bell_dtype_of(g->tensors[n->src[0]]), shape,
                             rank, FUZZ_DATA_NORMAL, 0));
}

/* The same with a way to combine that is smooth, or that is not. */
static bool
gen_scatter_smooth(struct fuzz_gen *g, struct fuzz_node *n)
{
    n->i[1] = 2 * between(g, BELL_COMBINE_SUM, BELL_COMBINE_MEAN);
    n->i[1] += between(g, 0, 1);
    return gen_scatter(g, n);
}

static bool
gen_scatter_most(struct fuzz_gen *g, struct fuzz_node *n)
{
    n->i[1] = 2 * between(g, BELL_COMBINE_AMAX, BELL_COMBINE_AMIN);
    n->i[1] += between(g, 0, 1);
    return gen_scatter(g, n);
}

static bool
gen_index_select(struct fuzz_gen *g, struct fuzz_node *n)
{
    int64_t count = between(g, 1, 7);
    int x;

    if (!take_any(g, n, 1, 3, &x))
        return false;
    n->i[0] = fuzz_random_axis(g, rank_of(g, x));
    return take(n,
                index_leaf(g, size_of(g, x, n->i[0]), x, n->i[0], &count, 1));
}

static bool
gen_take(struct fuzz_gen *g, struct fuzz_node *n)
{
    int64_t shape[2] = {between(g, 1, 6), between(g, 1, 4)};
    int x;

    return take_any(g, n, 0, 4, &x) &&
           take(n, index_leaf(g, fuzz_least_numel(g, x), -1, 0, shape,
                              (uint32_t)between(g, 0, 2)));
}

static bool
gen_embedding(struct fuzz_gen *g, struct fuzz_node *n)
{
    int64_t shape[2] = {between(g, 1, 6), between(g, 1, 4)};
    int w = fuzz_pick_rank(g, fuzz_is_float, 2, 2, FUZZ_DATA_NORMAL);

    return w >= 0 &&
           take(n, index_leaf(g, size_of(g, w, 0), w, 0, shape,
                              (uint32_t)between(g, 0, 2))) &&
           take(n, w);
}

static bool
gen_one_hot(struct fuzz_gen *g, struct fuzz_node *n)
{
    int64_t shape[2] = {between(g, 1, 9), between(g, 1, 4)};

    n->i[0] = between(g, 1, 9);
    return take(n, fuzz_leaf(g, BELL_INT32, shape, (uint32_t)between(g, 0, 2),
                             FUZZ_DATA_CLASS, n->i[0]));
}

static bool
gen_masked_fill(struct fuzz_gen *g, struct fuzz_node *n)
{
    int x = fuzz_pick(g, fuzz_is_number, FUZZ_DATA_NORMAL);

    n->f[0] = (double)between(g, 0, 3);
    return x >= 0 && take(n, x) &&
           take(n, fuzz_pick_like(g, x, fuzz_is_bool, FUZZ_DATA_NORMAL));
}

/* ---- order ------------------------------------------------------------ */

/* Short axes: the reference goes through all stages. */
static bool
gen_sort_of(struct fuzz_gen *g, struct fuzz_node *n,
            bool (*fits)(struct bell_tensor *t))
{
    int x = fuzz_pick_rank(g, fits, 1, 3, g->op->data);

    if (!take(n, x))
        return false;
    n->i[0] = fuzz_random_axis(g, rank_of(g, x));
    n->i[1] = between(g, 0, 1);
    n->i[2] = between(g, 1, 4);
    return size_of(g, x, n->i[0]) <= 33 && size_of(g, x, n->i[0]) >= n->i[2];
}

static bool
gen_sort(struct fuzz_gen *g, struct fuzz_node *n)
{
    return gen_sort_of(g, n, fuzz_is_number);
}

static bool
gen_sort_float(struct fuzz_gen *g, struct fuzz_node *n)
{
    return gen_sort_of(g, n, fuzz_is_float);
}

/* A rank-1 index of axis 1. */
static bool
gen_index_put_add(struct fuzz_gen *g, struct fuzz_node *n)
{
    int x = fuzz_pick_rank(g, fuzz_is_number, 2, 3, FUZZ_DATA_NORMAL);
    int64_t count = between(g, 1, 7);

    return take(n, x) &&
           take(n, index_leaf(g, size_of(g, x, 1), x, 1, &count, 1));
}

/* clang-format off */
HELPER(fuzz_chunk,
static struct bell_tensor *
fuzz_chunk(struct bell_tensor *x, int axis, int64_t n, int64_t i)
{
    struct bell_tensor *parts[8];
    uint32_t count = bell_chunk(x, (uint32_t)n, axis, parts);

    return parts[i < count ? i : count ? count - 1 : 0];
})
HELPER(fuzz_index_by,
static struct bell_tensor *
fuzz_index_by(struct bell_tensor *x, struct bell_tensor *last,
              struct bell_tensor *first)
{
    if (!first)
        return bell_index(x, BELL_ITEMS(bell_whole(), bell_by(last)));
    return bell_index(x, BELL_ITEMS(bell_by(first), bell_by(last)));
})
HELPER(fuzz_scatter_reduce, /* way: twice an enum bell_combine, and self */
static struct bell_tensor *
fuzz_scatter_reduce(struct bell_tensor *x, int axis, struct bell_tensor *index,
                    struct bell_tensor *src, int64_t way)
{
    return bell_scatter_reduce(x, axis, index, src,
                               (enum bell_combine)(way / 2), way % 2);
})
HELPER(fuzz_index_put_add, /* of axis 1 */
static struct bell_tensor *
fuzz_index_put_add(struct bell_tensor *x, int axis, struct bell_tensor *index)
{
    (void)axis;
    return bell_index_put_add(x, BELL_ITEMS(bell_whole(), bell_by(index)),
                              bell_scalar(bell_context_of(x), 1));
})
HELPER(fuzz_median,
static struct bell_tensor *
fuzz_median(struct bell_tensor *x, int axis, bool skip_nan)
{
    struct bell_tensor *values = NULL;

    if (skip_nan)
        bell_nanmedian(x, axis, true, &values, NULL);
    else
        bell_median(x, axis, false, &values, NULL);
    return values;
})
HELPER(fuzz_mode, /* where it is, too */
static struct bell_tensor *
fuzz_mode(struct bell_tensor *x, int axis, bool keepdim)
{
    struct bell_tensor *values = NULL, *places = NULL;

    bell_mode(x, axis, keepdim, &values, &places);
    return keepdim ? places : values;
})
HELPER(fuzz_quantile,
static struct bell_tensor *
fuzz_quantile(struct bell_tensor *x, int axis, bool keepdim)
{
    struct bell_context *ctx = bell_context_of(x);
    struct bell_tensor *q = bell_linspace(ctx, 0.1, 0.7, 3, BELL_FLOAT32);

    return bell_quantile(x, q, axis, keepdim, BELL_LINEAR);
})
HELPER(fuzz_searchsorted, /* x in what x is along its last axis */
static struct bell_tensor *
fuzz_searchsorted(struct bell_tensor *x, int axis, bool right)
{
    struct bell_tensor *sorted = NULL;

    (void)axis;
    bell_sort(x, -1, false, &sorted, NULL);
    return bell_searchsorted(sorted, bell_flip(x, BELL_DIMS(-1)), right);
})
HELPER(fuzz_rearrange,
static struct bell_tensor *
fuzz_rearrange(struct bell_tensor *x, int64_t way)
{
    const struct bell_named_size half = {"half", bell_size(x, 1) % 2 ? 1 : 2};
    static const char *const ways[] = {
        "a b c -> c (b a)",
        "a (half b) ... -> b (... a) half",
        "... a b -> b ... 1 a",
        "a (b half) c -> (a half) (c b)",
    };

    return bell_rearrange(x, ways[way], &half, way % 2 ? 1 : 0);
})
HELPER(fuzz_cummax_at,
static struct bell_tensor *
fuzz_cummax_at(struct bell_tensor *x, int axis, bool places)
{
    struct bell_tensor *values = NULL, *indices = NULL;

    bell_cummax_at(x, axis, &values, &indices);
    return places ? indices : values;
})
HELPER(fuzz_max_at,
static struct bell_tensor *
fuzz_max_at(struct bell_tensor *x, int axis, bool keepdim)
{
    struct bell_tensor *values = NULL, *indices = NULL;

    bell_max_at(x, axis, keepdim, &values, &indices);
    return values;
})
HELPER(fuzz_sort,
static struct bell_tensor *
fuzz_sort(struct bell_tensor *x, int axis, bool descending)
{
    struct bell_tensor *values = NULL;

    bell_sort(x, axis, descending, &values, NULL);
    return values;
})
HELPER(fuzz_topk,
static struct bell_tensor *
fuzz_topk(struct bell_tensor *x, int64_t k, int axis, bool largest)
{
    struct bell_tensor *values = NULL;

    bell_topk(x, k, axis, largest, &values, NULL);
    return values;
})
/* clang-format on */

static bool
gen_rearrange(struct fuzz_gen *g, struct fuzz_node *n)
{
    n->i[0] = between(g, 0, 3);
    return true;
}

/* low and high: the first operand's rank; 0, 0: gen takes it. */
#define ROW(code, function, args, gen, low, high, weight, diff, data)          \
    {                                                                          \
        FN(code, bell_##function), args, gen_##gen, fuzz_any, low, high,       \
            weight, diff, FUZZ_DATA_##data                                     \
    }
/* clang-format off */
static const struct fuzz_op rows[] = {
    ROW(tl, reshape, "0l", reshape, 0, 5, 25, true, NORMAL),
    ROW(tl, permute, "0l", permute, 1, 5, 20, true, NORMAL),
    ROW(taa, transpose, "0ab", transpose, 1, 5, 8, true, NORMAL),
    ROW(taa, movedim, "0ab", transpose, 1, 5, 3, true, NORMAL),
    ROW(tl, expand, "0l", expand, 0, 4, 16, true, NORMAL),
    ROW(tlf, pad, "0lx", pad, 0, 0, 16, true, NORMAL),
    {FN(taii, fuzz_pad_with), "0abc", gen_pad_with, fuzz_any, 1, 4, 5, true,
     FUZZ_DATA_NORMAL, fuzz_pad_with_text},
    ROW(tl, shrink, "0l", shrink, 1, 5, 14, true, NORMAL),
    ROW(tl, flip, "0l", axes, 0, 5, 10, true, NORMAL),
    ROW(tl, squeeze, "0l", squeeze, 0, 5, 4, true, NORMAL),
    ROW(ta, unsqueeze, "0a", unsqueeze, 0, 4, 5, true, NORMAL),
    ROW(taa, flatten, "0ab", flatten, 1, 5, 5, true, NORMAL),
    ROW(tl, repeat, "0l", repeat, 0, 3, 5, true, NORMAL),
    ROW(tia, repeat_interleave, "0ba", repeat_interleave, 1, 4, 4, true, NORMAL),
    ROW(tia, roll, "0ba", roll, 1, 4, 5, true, NORMAL),
    ROW(ti, tril, "0a", tri, 0, 0, 3, true, NORMAL),
    ROW(ti, triu, "0a", tri, 0, 0, 3, true, NORMAL),
    {FN(t, bell_diag), "0", NULL, fuzz_any, 1, 2, 2, true, FUZZ_DATA_NORMAL},
    ROW(tiaa, diagonal, "0abc", diagonal, 2, 4, 4, true, NORMAL),
    {FN(ti, fuzz_rearrange), "0a", gen_rearrange, fuzz_any, 3, 3, 5, true,
     FUZZ_DATA_NORMAL, fuzz_rearrange_text},
    ROW(taii, unfold, "0abc", unfold, 1, 3, 5, true, NORMAL),
    ROW(sa, cat, "*a", cat, 0, 0, 12, true, NORMAL),
    ROW(sa, stack, "*a", stack, 0, 0, 6, true, NORMAL),
    {FN(taii, fuzz_chunk), "0abc", gen_chunk, fuzz_any, 1, 4, 5, true,
     FUZZ_DATA_NORMAL, fuzz_chunk_text},
    ROW(tx, index, "0.", index, 1, 4, 20, true, NORMAL),
    ROW(txt, index_put, "0.1", index_put, 1, 4, 6, true, NORMAL),
    {FN(ttt, fuzz_index_by), "012", gen_index_by, fuzz_any, 0, 0, 8, true,
     FUZZ_DATA_NORMAL, fuzz_index_by_text},
    ROW(tai, select, "0ab", select, 1, 4, 5, true, NORMAL),
    ROW(taii, narrow, "0abc", narrow, 1, 4, 4, true, NORMAL),
    ROW(tat, gather, "0a1", gather, 0, 0, 10, true, NORMAL),
    ROW(tatt, scatter, "0a12", scatter, 0, 0, 4, true, NORMAL),
    ROW(tatt, scatter_add, "0a12", scatter, 0, 0, 4, true, NORMAL),
    ROW(tat, index_select, "0a1", index_select, 0, 0, 5, true, NORMAL),
    ROW(tt, take, "01", take, 0, 0, 4, true, NORMAL),
    ROW(tt, embedding, "01", embedding, 0, 0, 5, true, NORMAL),
    ROW(ti, one_hot, "0a", one_hot, 0, 0, 3, false, NORMAL),
    ROW(ttf, masked_fill, "01x", masked_fill, 0, 0, 5, true, NORMAL),
    {FN(tatti, fuzz_scatter_reduce), "0a12b", gen_scatter_smooth, fuzz_any, 0, 0,
     5, true, FUZZ_DATA_NORMAL, fuzz_scatter_reduce_text},
    {FN(tatti, fuzz_scatter_reduce), "0a12b", gen_scatter_most, fuzz_any, 0, 0,
     4, false, FUZZ_DATA_NORMAL, fuzz_scatter_reduce_text},
    {FN(tat, fuzz_index_put_add), "0a1", gen_index_put_add, fuzz_any, 0, 0, 4,
     true, FUZZ_DATA_NORMAL, fuzz_index_put_add_text},
    {FN(tab, fuzz_median), "0ab", gen_sort, fuzz_any, 0, 0, 3, true,
     FUZZ_DATA_DISTINCT, fuzz_median_text},
    {FN(tab, fuzz_mode), "0ab", gen_sort, fuzz_any, 0, 0, 3, false,
     FUZZ_DATA_COARSE, fuzz_mode_text},
    {FN(tab, fuzz_quantile), "0ab", gen_sort_float, fuzz_any, 0, 0, 3, true,
     FUZZ_DATA_DISTINCT, fuzz_quantile_text},
    {FN(tab, fuzz_searchsorted), "0ab", gen_sort, fuzz_any, 0, 0, 3, false,
     FUZZ_DATA_DISTINCT, fuzz_searchsorted_text},
    {FN(tab, fuzz_cummax_at), "0ab", gen_sort, fuzz_any, 0, 0, 3, false,
     FUZZ_DATA_DISTINCT, fuzz_cummax_at_text},
    {FN(tab, fuzz_max_at), "0ab", gen_sort, fuzz_any, 0, 0, 3, true,
     FUZZ_DATA_DISTINCT, fuzz_max_at_text},
    {FN(tab, fuzz_sort), "0ab", gen_sort, fuzz_any, 0, 0, 5, true,
     FUZZ_DATA_DISTINCT, fuzz_sort_text},
    ROW(tab, argsort, "0ab", sort, 0, 0, 3, false, DISTINCT),
    {FN(tiab, fuzz_topk), "0cab", gen_sort, fuzz_any, 0, 0, 4, true,
     FUZZ_DATA_DISTINCT, fuzz_topk_text},
};
/* clang-format on */

const struct fuzz_op_table fuzz_ops_shape = {rows, ARRAY_LEN(rows)};
