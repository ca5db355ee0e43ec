/* The fuzzer's ops: matrix products, convolution and pooling, normalisation,
 * losses, random numbers. */
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
#define UNUSED ((void)ctx, (void)op, (void)n, (void)src)

static bool
take(struct fuzz_node *n, int node)
{
    if (node < 0)
        return false;
    n->src[n->n_src++] = (uint16_t)node;
    return true;
}

static int64_t
between(struct fuzz_gen *g, int64_t low, int64_t high)
{
    return low + (int64_t)fuzz_below(&g->rng, (uint64_t)(high - low + 1));
}

static const int64_t *
shape_of(const struct fuzz_gen *g, int x)
{
    return bell_shape(g->tensors[x]);
}

static uint32_t
rank_of(const struct fuzz_gen *g, int x)
{
    return bell_ndim(g->tensors[x]);
}

/* A size that keeps `rest` times it within what products may cost. */
static int64_t
cheap_size(struct fuzz_gen *g, int64_t rest)
{
    int64_t size = fuzz_random_size(g), limit = g->grad ? 2000 : 150000;

    while (size > 1 && rest * size > limit)
        size /= 2;
    return size;
}

/* A new leaf of x's dtype, or sometimes another. */
static int
leaf_with(struct fuzz_gen *g, int x, const int64_t *shape, uint32_t rank)
{
    enum bell_dtype dtype = bell_dtype_of(g->tensors[x]);

    if (fuzz_one_in(&g->rng, 10) && !g->grad)
        dtype = fuzz_random_float(g);
    return fuzz_leaf(g, dtype, shape, rank, FUZZ_DATA_NORMAL, 0);
}

/* ---- products --------------------------------------------------------- */

/* x[.., i, j] and y[.., j, k], or rank 1 on either side. */
GEN(gen_matmul)
{
    int x = fuzz_pick_rank(g, fuzz_is_number, 1, 4, FUZZ_DATA_NORMAL);
    uint32_t rank, y_rank, i;
    int64_t shape[8], j;

    (void)op;
    if (!take(n, x))
        return false;
    rank = rank_of(g, x);
    j = shape_of(g, x)[rank - 1];
    y_rank = fuzz_one_in(&g->rng, 5)   ? 1
             : fuzz_one_in(&g->rng, 2) ? 2
                                       : (rank < 2 ? 2 : rank);
    for (i = 0; i + 2 < y_rank; i++)
        shape[i] = fuzz_one_in(&g->rng, 4) ? 1 : shape_of(g, x)[i];
    if (y_rank > 1) {
        shape[y_rank - 2] = j;
        shape[y_rank - 1] = cheap_size(g, (int64_t)bell_numel(g->tensors[x]));
    } else {
        shape[0] = j;
    }
    return take(n, leaf_with(g, x, shape, y_rank));
}

BUILD(build_matmul)
{
    UNUSED;
    return bell_matmul(src[0], src[1]);
}

GEN(gen_linear)
{
    int x = fuzz_pick_rank(g, fuzz_is_float, 1, 3, FUZZ_DATA_NORMAL);
    int64_t shape[2];

    (void)op;
    if (!take(n, x))
        return false;
    shape[0] = cheap_size(g, (int64_t)bell_numel(g->tensors[x]));
    shape[1] = shape_of(g, x)[rank_of(g, x) - 1];
    return take(n, leaf_with(g, x, shape, 2)) &&
           take(n, leaf_with(g, x, shape, 1));
}

BUILD(build_linear)
{
    UNUSED;
    return bell_linear(src[0], src[1], src[2]);
}

GEN(gen_outer)
{
    int x = fuzz_pick_rank(g, fuzz_is_number, 1, 1, FUZZ_DATA_NORMAL);
    int64_t size = fuzz_random_size(g);

    (void)op;
    return take(n, x) && take(n, leaf_with(g, x, &size, 1));
}

BUILD(build_outer)
{
    UNUSED;
    return bell_outer(src[0], src[1]);
}

/* What einsum is asked: one operand of rank 2 or 3, or two. */
static const struct {
    const char *formula;
    uint32_t rank, other; /* of the operands; the second's letters */
    int8_t axes[3];       /* by axis of the second: of the first, or -1 */
} einsums[] = {
    {"ij->ji", 2, 0, {0}},
    {"ij->", 2, 0, {0}},
    {"ij->j", 2, 0, {0}},
    {"bij->ib", 3, 0, {0}},
    {"ij,jk->ik", 2, 2, {1, -1}},
    {"ij,ij->i", 2, 2, {0, 1}},
    {"bij,bjk->bik", 3, 3, {0, 2, -1}},
    {"bij,j->bi", 3, 1, {2}},
    {"ij,kj->ki", 2, 2, {-1, 1}},
};

GEN(gen_einsum)
{
    size_t row = fuzz_below(&g->rng, ARRAY_LEN(einsums));
    int x = fuzz_pick_rank(g, fuzz_is_number, einsums[row].rank,
                           einsums[row].rank, FUZZ_DATA_NORMAL);
    int64_t shape[3];
    uint32_t i;

    (void)op;
    n->i[0] = (int64_t)row;
    if (!take(n, x) || einsums[row].other == 0)
        return x >= 0;
    for (i = 0; i < einsums[row].other; i++)
        shape[i] = einsums[row].axes[i] < 0
                       ? cheap_size(g, (int64_t)bell_numel(g->tensors[x]))
                       : shape_of(g, x)[einsums[row].axes[i]];
    return take(n, leaf_with(g, x, shape, einsums[row].other));
}

BUILD(build_einsum)
{
    UNUSED;
    return bell_einsum(einsums[n->i[0]].formula, src, n->n_src);
}

const char *
fuzz_einsum_formula(int64_t row)
{
    return einsums[row].formula;
}

/* q[b, l, e], k[b, s, e], v[b, s, f], mask or causal. */
GEN(gen_attention)
{
    int64_t b = between(g, 1, 3), l = between(g, 1, 9), s = between(g, 1, 9),
            e = between(g, 1, 8);
    enum bell_dtype dtype = fuzz_random_float(g);
    const int64_t q[] = {b, l, e}, k[] = {b, s, e}, v[] = {b, s, 3},
                  mask[] = {l, s};

    (void)op;
    n->i[0] = between(g, 0, 2);
    return take(n, fuzz_leaf(g, dtype, q, 3, FUZZ_DATA_COARSE, 0)) &&
           take(n, fuzz_leaf(g, dtype, k, 3, FUZZ_DATA_COARSE, 0)) &&
           take(n, fuzz_leaf(g, dtype, v, 3, FUZZ_DATA_COARSE, 0)) &&
           (n->i[0] != 2 ||
            take(n, fuzz_leaf(g, dtype, mask, 2, FUZZ_DATA_UNIT, 0)));
}

BUILD(build_attention)
{
    UNUSED;
    return bell_scaled_dot_product_attention(src[0], src[1], src[2],
                                             n->n_src > 3 ? src[3] : NULL, 0,
                                             n->i[0] == 1, 0);
}

/* ---- convolution and pooling ------------------------------------------ */

/* i: stride, padding, dilation, groups, output_padding (vertical; the
 * horizontal ones differ by 1 where they may). */
static void
random_conv(struct fuzz_gen *g, struct fuzz_node *n)
{
    n->i[0] = between(g, 1, 3);
    n->i[1] = between(g, 0, 2);
    n->i[2] = fuzz_one_in(&g->rng, 3) ? 2 : 1;
    n->i[3] = fuzz_one_in(&g->rng, 3) ? 2 : 1;
    n->i[4] = 0;
}

static struct bell_conv_options
conv_options(const struct fuzz_node *n)
{
    struct bell_conv_options opt = {
        .stride = {n->i[0], n->i[0] > 1 ? n->i[0] - 1 : 1},
        .padding = {n->i[1], n->i[1]},
        .dilation = {n->i[2], 1},
        .groups = n->i[3],
        .output_padding = {n->i[4], 0},
    };

    return opt;
}

/* x[n, c, h, w], weight, bias; `axes` is 1 or 2. */
static bool
take_conv(struct fuzz_gen *g, struct fuzz_node *n, uint32_t axes,
          bool transposed)
{
    int64_t per_in = between(g, 1, 3), per_out = between(g, 1, 3);
    enum bell_dtype dtype = fuzz_random_float(g);
    int64_t x[4], w[4], out, limit = g->grad ? 5 : 11;
    uint32_t i;

    random_conv(g, n);
    x[0] = between(g, 1, 3);
    x[1] = per_in * n->i[3];
    out = per_out * n->i[3];
    w[0] = transposed ? x[1] : out;
    w[1] = transposed ? per_out : per_in;
    for (i = 0; i < axes; i++) {
        w[2 + i] = between(g, 1, 3);
        x[2 + i] = between(g, (w[2 + i] - 1) * n->i[2] + 1, limit);
    }
    if (transposed)
        n->i[4] = n->i[0] > 1 ? between(g, 0, 1) : 0;
    return take(n, fuzz_leaf(g, dtype, x, 2 + axes, FUZZ_DATA_NORMAL, 0)) &&
           take(n, fuzz_leaf(g, dtype, w, 2 + axes, FUZZ_DATA_NORMAL, 0)) &&
           (fuzz_one_in(&g->rng, 3) ||
            take(n, fuzz_leaf(g, dtype, &out, 1, FUZZ_DATA_NORMAL, 0)));
}

GEN(gen_conv2d)
{
    (void)op;
    return take_conv(g, n, 2, false);
}

GEN(gen_conv1d)
{
    (void)op;
    return take_conv(g, n, 1, false);
}

GEN(gen_conv_transpose2d)
{
    (void)op;
    return take_conv(g, n, 2, true);
}

BUILD(build_conv2d)
{
    struct bell_conv_options opt = conv_options(n);

    UNUSED;
    return bell_conv2d(src[0], src[1], n->n_src > 2 ? src[2] : NULL, &opt);
}

BUILD(build_conv1d)
{
    struct bell_conv_options opt = conv_options(n);

    UNUSED;
    return bell_conv1d(src[0], src[1], n->n_src > 2 ? src[2] : NULL, &opt);
}

BUILD(build_conv_transpose2d)
{
    struct bell_conv_options opt = conv_options(n);

    UNUSED;
    return bell_conv_transpose2d(src[0], src[1], n->n_src > 2 ? src[2] : NULL,
                                 &opt);
}

/* i: kernel, stride, padding, ceil_mode, exclude_pad. */
GEN(gen_pool)
{
    int64_t shape[4] = {between(g, 1, 3), between(g, 1, 3), between(g, 3, 9),
                        between(g, 3, 9)};
    enum bell_dtype dtype = fuzz_random_float(g);

    n->i[0] = between(g, 1, 3);
    n->i[1] = between(g, 0, 3);
    n->i[2] = between(g, 0, n->i[0] / 2);
    n->i[3] = between(g, 0, 1);
    n->i[4] = between(g, 0, 1);
    return take(n, fuzz_leaf(g, dtype, shape, 4, op->data, 0));
}

static struct bell_pool_options
pool_options(const struct fuzz_node *n)
{
    struct bell_pool_options opt = {
        .kernel = {n->i[0], n->i[0]},
        .stride = {n->i[1], n->i[1]},
        .padding = {n->i[2], 0},
        .ceil_mode = n->i[3] != 0,
        .exclude_pad = n->i[4] != 0,
    };

    return opt;
}

BUILD(build_max_pool2d)
{
    struct bell_pool_options opt = pool_options(n);

    UNUSED;
    return bell_max_pool2d(src[0], &opt);
}

BUILD(build_avg_pool2d)
{
    struct bell_pool_options opt = pool_options(n);

    UNUSED;
    return bell_avg_pool2d(src[0], &opt);
}

/* ---- normalisation ---------------------------------------------------- */

GEN(gen_layer_norm)
{
    int x = fuzz_pick_rank(g, fuzz_is_float, 1, 3, FUZZ_DATA_NORMAL);
    uint32_t rank;

    (void)op;
    if (!take(n, x))
        return false;
    rank = rank_of(g, x);
    n->i[0] = between(g, 1, rank);
    return fuzz_one_in(&g->rng, 3) ||
           (take(n, leaf_with(g, x, shape_of(g, x) + rank - n->i[0],
                              (uint32_t)n->i[0])) &&
            take(n, leaf_with(g, x, shape_of(g, x) + rank - n->i[0],
                              (uint32_t)n->i[0])));
}

BUILD(build_layer_norm)
{
    UNUSED;
    return bell_layer_norm(src[0], (uint32_t)n->i[0],
                           n->n_src > 1 ? src[1] : NULL,
                           n->n_src > 1 ? src[2] : NULL, 1e-3);
}

GEN(gen_rms_norm)
{
    int x = fuzz_pick_rank(g, fuzz_is_float, 1, 3, FUZZ_DATA_NORMAL);

    (void)op;
    return take(n, x) &&
           take(n, leaf_with(g, x, shape_of(g, x) + rank_of(g, x) - 1, 1));
}

BUILD(build_rms_norm)
{
    UNUSED;
    return bell_rms_norm(src[0], src[1], 1e-3);
}

GEN(gen_batch_norm)
{
    int x = fuzz_pick_rank(g, fuzz_is_float, 2, 4, FUZZ_DATA_NORMAL);
    int64_t c;
    int i;

    (void)op;
    if (!take(n, x))
        return false;
    c = shape_of(g, x)[1];
    for (i = 0; i < 4; i++) {
        if (!take(n,
                  fuzz_leaf(g, bell_dtype_of(g->tensors[x]), &c, 1,
                            i == 1 ? FUZZ_DATA_POSITIVE : FUZZ_DATA_COARSE, 0)))
            return false;
    }
    return true;
}

BUILD(build_batch_norm)
{
    UNUSED;
    return bell_batch_norm(src[0], src[1], src[2], src[3], src[4], 1e-3);
}

GEN(gen_group_norm)
{
    int64_t shape[3] = {between(g, 1, 3), 2 * between(g, 1, 3),
                        between(g, 1, 9)};

    (void)op;
    n->i[0] = between(g, 1, 2);
    return take(
        n, fuzz_leaf(g, fuzz_random_float(g), shape, 3, FUZZ_DATA_NORMAL, 0));
}

BUILD(build_group_norm)
{
    UNUSED;
    return bell_group_norm(src[0], n->i[0], NULL, NULL, 1e-3);
}

/* ---- losses ----------------------------------------------------------- */

GEN(gen_cross_entropy)
{
    int64_t shape[3] = {between(g, 1, 9), between(g, 1, 9), between(g, 1, 4)};
    uint32_t rank = (uint32_t)between(g, 2, 3);
    int64_t target[2] = {shape[0], shape[2]};

    (void)op;
    n->i[0] = between(g, 0, 2); /* reduction */
    n->f[0] = fuzz_one_in(&g->rng, 2) ? 0 : 0.25;
    return take(n, fuzz_leaf(g, fuzz_random_float(g), shape, rank,
                             FUZZ_DATA_NORMAL, 0)) &&
           take(n, fuzz_leaf(g, BELL_INT64, target, rank - 1, FUZZ_DATA_CLASS,
                             shape[1]));
}

BUILD(build_cross_entropy)
{
    UNUSED;
    return bell_cross_entropy(src[0], src[1], n->f[0], BELL_IGNORE_NONE,
                              (enum bell_reduction)n->i[0]);
}

BUILD(build_nll_loss)
{
    UNUSED;
    return bell_nll_loss(src[0], src[1], NULL, BELL_IGNORE_NONE,
                         (enum bell_reduction)n->i[0]);
}

/* Two tensors of one shape. */
GEN(gen_pair)
{
    int x = fuzz_pick(g, fuzz_is_float, op->data);

    n->i[0] = between(g, 0, 2);
    return take(n, x) &&
           take(n, fuzz_leaf(g, bell_dtype_of(g->tensors[x]), shape_of(g, x),
                             rank_of(g, x), op->data, 0));
}

BUILD(build_mse_loss)
{
    UNUSED;
    return bell_mse_loss(src[0], src[1], (enum bell_reduction)n->i[0]);
}

BUILD(build_l1_loss)
{
    UNUSED;
    return bell_l1_loss(src[0], src[1], (enum bell_reduction)n->i[0]);
}

BUILD(build_huber_loss)
{
    UNUSED;
    return bell_huber_loss(src[0], src[1], 0.75, (enum bell_reduction)n->i[0]);
}

BUILD(build_bce)
{
    UNUSED;
    return bell_binary_cross_entropy(src[0], src[1],
                                     (enum bell_reduction)n->i[0]);
}

BUILD(build_bce_logits)
{
    UNUSED;
    return bell_binary_cross_entropy_with_logits(src[0], src[1], NULL,
                                                 (enum bell_reduction)n->i[0]);
}

/* ---- from nothing ----------------------------------------------------- */

static void
small_shape(struct fuzz_gen *g, struct fuzz_node *n)
{
    n->n_list = (uint8_t)between(g, 0, 3);
    n->list[0] = fuzz_random_size(g);
    n->list[1] = fuzz_random_size(g);
    n->list[2] = between(g, 1, 3);
    n->i[0] = between(g, 0, 1000); /* seed */
}

GEN(gen_rand)
{
    (void)op;
    small_shape(g, n);
    n->dtype = (uint8_t)fuzz_random_float(g);
    return true;
}

BUILD(build_rand)
{
    UNUSED;
    bell_manual_seed(ctx, (uint64_t)n->i[0]);
    return bell_rand(ctx, n->list, n->n_list, (enum bell_dtype)n->dtype);
}

BUILD(build_randn)
{
    UNUSED;
    bell_manual_seed(ctx, (uint64_t)n->i[0]);
    return bell_randn(ctx, n->list, n->n_list, (enum bell_dtype)n->dtype);
}

GEN(gen_randint)
{
    (void)op;
    small_shape(g, n);
    n->i[1] = between(g, -100, 100);
    n->i[2] = n->i[1] + between(g, 1, 1000);
    return true;
}

BUILD(build_randint)
{
    UNUSED;
    bell_manual_seed(ctx, (uint64_t)n->i[0]);
    return bell_randint(ctx, n->i[1], n->i[2], n->list, n->n_list, BELL_INT64);
}

GEN(gen_arange)
{
    (void)op;
    n->f[0] = (double)between(g, -8, 8) / 2;
    n->f[1] = (double)between(g, -3, 4) / 2;
    n->i[0] = between(g, 0, 20);
    n->dtype = (uint8_t)(BELL_INT8 + fuzz_below(&g->rng, 12));
    return n->f[1] != 0;
}

BUILD(build_arange)
{
    UNUSED;
    return bell_arange(ctx, n->f[0], n->f[0] + n->f[1] * (double)n->i[0],
                       n->f[1], (enum bell_dtype)n->dtype);
}

GEN(gen_eye)
{
    (void)op;
    n->i[0] = between(g, 1, 9);
    n->i[1] = between(g, 1, 9);
    n->dtype = (uint8_t)fuzz_random_dtype(g);
    return true;
}

BUILD(build_eye)
{
    UNUSED;
    return bell_eye(ctx, n->i[0], n->i[1], (enum bell_dtype)n->dtype);
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
#define CONV "&(struct bell_conv_options){$C}"
#define POOL "&(struct bell_pool_options){$P}"

/* clang-format off */
static const struct fuzz_op rows[] = {
    ROW(matmul, "bell_matmul($0, $1)", 20, true, NORMAL),
    ROW(linear, "bell_linear($0, $1, $2)", 6, true, NORMAL),
    ROW(outer, "bell_outer($0, $1)", 2, true, NORMAL),
    ROW(einsum, "bell_einsum($e, $*)", 6, true, NORMAL),
    ROW(attention,
        "bell_scaled_dot_product_attention($0, $1, $2, $3, 0, $q, 0)", 3, true,
        NORMAL),
    ROW(conv2d, "bell_conv2d($0, $1, $2, " CONV ")", 8, true, NORMAL),
    ROW(conv1d, "bell_conv1d($0, $1, $2, " CONV ")", 4, true, NORMAL),
    ROW(conv_transpose2d, "bell_conv_transpose2d($0, $1, $2, " CONV ")", 3,
        true, NORMAL),
    AS(max_pool2d, "bell_max_pool2d($0, " POOL ")", gen_pool, 5, true,
       DISTINCT),
    AS(avg_pool2d, "bell_avg_pool2d($0, " POOL ")", gen_pool, 5, true, NORMAL),
    ROW(layer_norm, "bell_layer_norm($0, $a, $1, $2, 1e-3)", 6, true, NORMAL),
    ROW(rms_norm, "bell_rms_norm($0, $1, 1e-3)", 4, true, NORMAL),
    ROW(batch_norm, "bell_batch_norm($0, $1, $2, $3, $4, 1e-3)", 4, true,
        NORMAL),
    ROW(group_norm, "bell_group_norm($0, $a, NULL, NULL, 1e-3)", 3, true,
        NORMAL),
    ROW(cross_entropy,
        "bell_cross_entropy($0, $1, $x, BELL_IGNORE_NONE, $r)", 4, true,
        NORMAL),
    AS(nll_loss, "bell_nll_loss($0, $1, NULL, BELL_IGNORE_NONE, $r)",
       gen_cross_entropy, 3, true, NORMAL),
    AS(mse_loss, "bell_mse_loss($0, $1, $r)", gen_pair, 3, true, NORMAL),
    AS(l1_loss, "bell_l1_loss($0, $1, $r)", gen_pair, 3, true, NORMAL),
    AS(huber_loss, "bell_huber_loss($0, $1, 0.75, $r)", gen_pair, 3, true,
       NORMAL),
    AS(bce, "bell_binary_cross_entropy($0, $1, $r)", gen_pair, 3, true, UNIT),
    AS(bce_logits,
       "bell_binary_cross_entropy_with_logits($0, $1, NULL, $r)", gen_pair, 3,
       true, UNIT),
    ROW(rand, "fuzz_rand(ctx, $a, $l, $t)", 3, false, NORMAL),
    AS(randn, "fuzz_randn(ctx, $a, $l, $t)", gen_rand, 3, false, NORMAL),
    ROW(randint, "fuzz_randint(ctx, $a, $b, $c, $l)", 2, false, NORMAL),
    ROW(arange, "bell_arange(ctx, $x, $x + $y * $a, $y, $t)", 3, false, NORMAL),
    ROW(eye, "bell_eye(ctx, $a, $b, $t)", 2, false, NORMAL),
};
/* clang-format on */

const struct fuzz_op_table fuzz_ops_nn = {rows, ARRAY_LEN(rows)};
