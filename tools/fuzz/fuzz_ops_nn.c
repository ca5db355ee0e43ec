/* The fuzzer's ops: matrix products, convolution and pooling, normalisation,
 * losses, random numbers. */
#include "tools/fuzz/fuzz_gen.h"

#include "base/bits.h"

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
static bool
gen_matmul(struct fuzz_gen *g, struct fuzz_node *n)
{
    int x = g->x;
    uint32_t rank, y_rank, i;
    int64_t shape[8], j;

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

static bool
gen_linear(struct fuzz_gen *g, struct fuzz_node *n)
{
    int x = g->x;
    int64_t shape[2];

    shape[0] = cheap_size(g, (int64_t)bell_numel(g->tensors[x]));
    shape[1] = shape_of(g, x)[rank_of(g, x) - 1];
    return take(n, leaf_with(g, x, shape, 2)) &&
           take(n, leaf_with(g, x, shape, 1));
}

static bool
gen_outer(struct fuzz_gen *g, struct fuzz_node *n)
{
    int64_t size = fuzz_random_size(g);

    return take(n, leaf_with(g, g->x, &size, 1));
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
    {"...ij,jk->...ik", 3, 2, {2, -1}},
    {"...j,...j->...", 3, 3, {0, 1, 2}},
    {"i...->...i", 3, 0, {0}},
};

static bool
gen_einsum(struct fuzz_gen *g, struct fuzz_node *n)
{
    size_t row = fuzz_below(&g->rng, ARRAY_LEN(einsums));
    int x = fuzz_pick_rank(g, fuzz_is_number, einsums[row].rank,
                           einsums[row].rank, FUZZ_DATA_NORMAL);
    int64_t shape[3];
    uint32_t i;

    n->i[0] = (int64_t)row;
    if (!take(n, x) || einsums[row].other == 0)
        return x >= 0;
    for (i = 0; i < einsums[row].other; i++)
        shape[i] = einsums[row].axes[i] < 0
                       ? cheap_size(g, (int64_t)bell_numel(g->tensors[x]))
                       : shape_of(g, x)[einsums[row].axes[i]];
    return take(n, leaf_with(g, x, shape, einsums[row].other));
}

const char *
fuzz_einsum_formula(int64_t row)
{
    return einsums[row].formula;
}

/* Products of an attention: the reference makes each, and again for gradients
 * and for what rounding does. */
#define MOST_PRODUCTS (5 << 19)

/* q[b, l, e], k[b, s, e], v[b, s, f], mask or causal. At times so large that it
 * is one kernel, or one that goes by whole tiles of keys. */
static bool
gen_attention(struct fuzz_gen *g, struct fuzz_node *n)
{
    enum bell_dtype dtype = fuzz_random_float(g);
    bool large = dtype != BELL_FLOAT64 && !g->grad && !fuzz_one_in(&g->rng, 3);
    int64_t b = between(g, 1, 3),
            l = large ? between(g, 16, 40) : between(g, 1, 9),
            s = large ? between(g, 16, 70) : between(g, 1, 9),
            e = between(g, 1, large ? 20 : 8),
            f = large ? between(g, 2, 20) : 3;
    int64_t q[3], k[3], v[3], mask[2];
    uint64_t max_elems = g->max_elems;
    bool taken;

    if (large && fuzz_one_in(&g->rng, 3)) {
        b = 1;
        l = between(g, 65, 90);
        s = 64 * between(g, 2, 4);
        e = 64 * between(g, 1, 2);
        f = 64 * between(g, 1, 2);
        while (l * s * (e + f) > MOST_PRODUCTS) {
            if (f > 64)
                f = 64;
            else if (e > 64)
                e = 64;
            else
                s -= 64;
        }
        g->max_elems = 256 * 128; /* of k */
    }
    q[0] = k[0] = v[0] = b;
    q[1] = mask[0] = l;
    k[1] = v[1] = mask[1] = s;
    q[2] = k[2] = e;
    v[2] = f;
    n->i[0] = between(g, 0, 2);
    taken = take(n, fuzz_leaf(g, dtype, q, 3, FUZZ_DATA_COARSE, 0)) &&
            take(n, fuzz_leaf(g, dtype, k, 3, FUZZ_DATA_COARSE, 0)) &&
            take(n, fuzz_leaf(g, dtype, v, 3, FUZZ_DATA_COARSE, 0)) &&
            (n->i[0] != 2 ||
             take(n, fuzz_leaf(g, dtype, mask, 2, FUZZ_DATA_UNIT, 0)));
    g->max_elems = max_elems;
    return taken;
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

/* x[n, c, h, w], weight, bias; `axes` is 1 to 3. */
static bool
take_conv(struct fuzz_gen *g, struct fuzz_node *n, uint32_t axes,
          bool transposed)
{
    int64_t per_in = between(g, 1, 3), per_out = between(g, 1, 3);
    enum bell_dtype dtype = fuzz_random_float(g);
    int64_t x[5], w[5], out, limit = g->grad || axes == 3 ? 5 : 11;
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

static bool
gen_conv2d(struct fuzz_gen *g, struct fuzz_node *n)
{
    return take_conv(g, n, 2, false);
}

static bool
gen_conv1d(struct fuzz_gen *g, struct fuzz_node *n)
{
    return take_conv(g, n, 1, false);
}

static bool
gen_conv_transpose2d(struct fuzz_gen *g, struct fuzz_node *n)
{
    return take_conv(g, n, 2, true);
}

static bool
gen_conv3d(struct fuzz_gen *g, struct fuzz_node *n)
{
    return take_conv(g, n, 3, false);
}

static bool
gen_conv_transpose1d(struct fuzz_gen *g, struct fuzz_node *n)
{
    return take_conv(g, n, 1, true);
}

static bool
gen_conv_transpose3d(struct fuzz_gen *g, struct fuzz_node *n)
{
    return take_conv(g, n, 3, true);
}

/* i: kernel, stride, padding, ceil_mode, exclude_pad. */
static bool
gen_pool(struct fuzz_gen *g, struct fuzz_node *n)
{
    int64_t shape[4] = {between(g, 1, 3), between(g, 3, 4), between(g, 3, 9),
                        between(g, 3, 9)};
    enum bell_dtype dtype = fuzz_random_float(g);

    n->i[0] = between(g, 1, 3);
    n->i[1] = between(g, 0, 3);
    n->i[2] = between(g, 0, n->i[0] / 2);
    n->i[3] = between(g, 0, 1);
    n->i[4] = between(g, 0, 1);
    return take(n, fuzz_leaf(g, dtype, shape, 4, g->op->data, 0));
}

/* ---- normalisation ---------------------------------------------------- */

static bool
gen_layer_norm(struct fuzz_gen *g, struct fuzz_node *n)
{
    int x = g->x;
    uint32_t rank;

    rank = rank_of(g, x);
    n->i[0] = between(g, 1, rank);
    return fuzz_one_in(&g->rng, 3) ||
           (take(n, leaf_with(g, x, shape_of(g, x) + rank - n->i[0],
                              (uint32_t)n->i[0])) &&
            take(n, leaf_with(g, x, shape_of(g, x) + rank - n->i[0],
                              (uint32_t)n->i[0])));
}

static bool
gen_rms_norm(struct fuzz_gen *g, struct fuzz_node *n)
{
    uint32_t rank = rank_of(g, g->x), axes = (uint32_t)between(g, 1, rank);

    return take(n, leaf_with(g, g->x, shape_of(g, g->x) + rank - axes, axes));
}

static bool
gen_batch_norm(struct fuzz_gen *g, struct fuzz_node *n)
{
    int x = g->x;
    int64_t c;
    int i;

    c = shape_of(g, x)[1];
    for (i = 0; i < 4; i++) {
        if (!take(n,
                  fuzz_leaf(g, bell_dtype_of(g->tensors[x]), &c, 1,
                            i == 1 ? FUZZ_DATA_POSITIVE : FUZZ_DATA_COARSE, 0)))
            return false;
    }
    return true;
}

/* i: the mode, with and without corners aligned; the sizes. */
static bool
gen_interpolate(struct fuzz_gen *g, struct fuzz_node *n)
{
    int64_t shape[4] = {between(g, 1, 2), between(g, 1, 2), between(g, 1, 5),
                        between(g, 1, 6)};

    n->i[0] = between(g, 0, 5);
    n->i[1] = between(g, 1, 9);
    n->i[2] = between(g, 1, 9);
    return take(
        n, fuzz_leaf(g, fuzz_random_float(g), shape, 4, FUZZ_DATA_NORMAL, 0));
}

/* clang-format off */
HELPER(fuzz_interpolate,
static struct bell_tensor *
fuzz_interpolate(struct bell_tensor *x, int mode, int64_t h, int64_t w)
{
    static const enum bell_resize_mode modes[] = {
        BELL_RESIZE_NEAREST, BELL_RESIZE_EXACT, BELL_RESIZE_LINEAR,
        BELL_RESIZE_CUBIC,   BELL_RESIZE_LINEAR, BELL_RESIZE_CUBIC};

    return bell_interpolate(x, BELL_DIMS(h, w), modes[mode], mode > 3, 0);
})
/* clang-format on */

static bool
gen_pixel_shuffle(struct fuzz_gen *g, struct fuzz_node *n)
{
    int64_t shape[4] = {between(g, 1, 2), 4 * between(g, 1, 2),
                        2 * between(g, 0, 3), 2 * between(g, 1, 3)};

    n->i[0] = 2;
    return take(
        n, fuzz_leaf(g, fuzz_random_float(g), shape, 4, FUZZ_DATA_NORMAL, 0));
}

static bool
gen_group_norm(struct fuzz_gen *g, struct fuzz_node *n)
{
    int64_t shape[3] = {between(g, 1, 3), 2 * between(g, 1, 3),
                        between(g, 1, 9)};

    n->i[0] = between(g, 1, 2);
    return take(
        n, fuzz_leaf(g, fuzz_random_float(g), shape, 3, FUZZ_DATA_NORMAL, 0));
}

/* ---- losses ----------------------------------------------------------- */

static bool
gen_cross_entropy(struct fuzz_gen *g, struct fuzz_node *n)
{
    int64_t shape[3] = {between(g, 1, 9), between(g, 1, 9), between(g, 1, 4)};
    uint32_t rank = (uint32_t)between(g, 2, 3);
    int64_t target[2] = {shape[0], shape[2]};

    n->i[0] = between(g, 0, 2); /* reduction */
    n->f[0] = fuzz_one_in(&g->rng, 2) ? 0 : 0.25;
    return take(n, fuzz_leaf(g, fuzz_random_float(g), shape, rank,
                             FUZZ_DATA_NORMAL, 0)) &&
           take(n, fuzz_leaf(g, BELL_INT64, target, rank - 1, FUZZ_DATA_CLASS,
                             shape[1]));
}

/* Two tensors of one shape. */
static bool
gen_pair(struct fuzz_gen *g, struct fuzz_node *n)
{
    int x = fuzz_pick(g, fuzz_is_float, g->op->data);

    n->i[0] = between(g, 0, 2);
    /* beyond a loss's domain slopes are not those of its values */
    if (x >= 0 && g->grad && g->op->data != FUZZ_DATA_NORMAL &&
        (g->prog->nodes[x].op != 0 ||
         g->prog->nodes[x].i[0] != (int64_t)g->op->data))
        return false;
    return take(n, x) &&
           take(n, fuzz_leaf(g, bell_dtype_of(g->tensors[x]), shape_of(g, x),
                             rank_of(g, x), g->op->data, 0));
}

/* clang-format off */
HELPER(fuzz_kl_div,
static struct bell_tensor *
fuzz_kl_div(struct bell_tensor *x, struct bell_tensor *y,
            enum bell_reduction reduction)
{
    return bell_kl_div(bell_log(x), y, false, reduction);
})
/* clang-format on */

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

static bool
gen_rand(struct fuzz_gen *g, struct fuzz_node *n)
{
    small_shape(g, n);
    n->dtype = (uint8_t)fuzz_random_float(g);
    return true;
}

static bool
gen_randint(struct fuzz_gen *g, struct fuzz_node *n)
{
    small_shape(g, n);
    n->i[1] = between(g, -100, 100);
    n->i[2] = n->i[1] + between(g, 1, 1000);
    n->dtype = BELL_INT64;
    return true;
}

static bool
gen_arange(struct fuzz_gen *g, struct fuzz_node *n)
{
    n->f[0] = (double)between(g, -8, 8) / 2;
    n->f[1] = (double)between(g, -3, 4) / 2;
    n->i[0] = between(g, 0, 20);
    n->dtype = (uint8_t)(BELL_INT8 + fuzz_below(&g->rng, 12));
    return n->f[1] != 0;
}

/* clang-format off */
HELPER(fuzz_arange,
static struct bell_tensor *
fuzz_arange(struct bell_context *ctx, double start, double step, int64_t n,
            enum bell_dtype dtype)
{
    return bell_arange(ctx, start, start + step * (double)n, step, dtype);
})
/* clang-format on */

static bool
gen_eye(struct fuzz_gen *g, struct fuzz_node *n)
{
    n->i[0] = between(g, 1, 9);
    n->i[1] = between(g, 1, 9);
    n->dtype = (uint8_t)fuzz_random_dtype(g);
    return true;
}

#define ROW(code, function, args, gen, weight, diff, data)                     \
    {                                                                          \
        FN(code, bell_##function), args, gen_##gen, NULL, 0, 0, weight, diff,  \
            FUZZ_DATA_##data                                                   \
    }
/* The first operand is of these ranks. */
#define ON(code, function, args, gen, fits, low, high, weight)                 \
    {                                                                          \
        FN(code, bell_##function), args, gen_##gen, fuzz_is_##fits, low, high, \
            weight, true                                                       \
    }

/* clang-format off */
static const struct fuzz_op rows[] = {
    ON(tt, matmul, "01", matmul, number, 1, 4, 20),
    ON(ttt, linear, "012", linear, float, 1, 3, 6),
    ON(tt, outer, "01", outer, number, 1, 1, 2),
    ROW(es, einsum, ".*", einsum, 6, true, NORMAL),
    ROW(ttttfbf, scaled_dot_product_attention, "01230q0", attention, 3, true,
        NORMAL),
    ROW(ttto, conv2d, "012.", conv2d, 8, true, NORMAL),
    ROW(ttto, conv1d, "012.", conv1d, 4, true, NORMAL),
    ROW(ttto, conv_transpose2d, "012.", conv_transpose2d, 3, true, NORMAL),
    ROW(ttto, conv3d, "012.", conv3d, 2, true, NORMAL),
    ROW(ttto, conv_transpose1d, "012.", conv_transpose1d, 2, true, NORMAL),
    ROW(ttto, conv_transpose3d, "012.", conv_transpose3d, 1, true, NORMAL),
    ROW(tp, max_pool1d, "0.", pool, 2, true, DISTINCT),
    ROW(tp, max_pool3d, "0.", pool, 2, true, DISTINCT),
    ROW(tp, avg_pool1d, "0.", pool, 2, true, NORMAL),
    ROW(tp, avg_pool3d, "0.", pool, 2, true, NORMAL),
    ROW(tp, max_pool2d, "0.", pool, 5, true, DISTINCT),
    ROW(tp, avg_pool2d, "0.", pool, 5, true, NORMAL),
    ON(tnttf, layer_norm, "0a12M", layer_norm, float, 1, 3, 6),
    ON(ttf, rms_norm, "01M", rms_norm, float, 1, 3, 4),
    ON(tttttf, batch_norm, "01234M", batch_norm, float, 2, 4, 4),
    {FN(taii, fuzz_interpolate), "0abc", gen_interpolate, .weight = 5,
     .differentiable = true, .helper = fuzz_interpolate_text},
    ROW(ti, pixel_shuffle, "0a", pixel_shuffle, 2, true, NORMAL),
    ROW(ti, pixel_unshuffle, "0a", pixel_shuffle, 2, true, NORMAL),
    ROW(tittf, group_norm, "0a--M", group_norm, 3, true, NORMAL),
    ROW(ttfir, cross_entropy, "01xNa", cross_entropy, 4, true, NORMAL),
    ROW(tttir, nll_loss, "01-Na", cross_entropy, 3, true, NORMAL),
    ROW(ttr, mse_loss, "01a", pair, 3, true, NORMAL),
    ROW(ttr, l1_loss, "01a", pair, 3, true, NORMAL),
    ROW(ttfr, huber_loss, "01Qa", pair, 3, true, NORMAL),
    ROW(ttfr, smooth_l1_loss, "01Qa", pair, 3, true, NORMAL),
    {FN(ttr, fuzz_kl_div), "01a", gen_pair, NULL, 0, 0, 3, true,
     FUZZ_DATA_UNIT, fuzz_kl_div_text},
    ROW(ttr, binary_cross_entropy, "01a", pair, 3, true, UNIT),
    ROW(tttr, binary_cross_entropy_with_logits, "01-a", pair, 3, true, UNIT),
    {FN(cly, bell_rand), "l.", gen_rand, .weight = 3, .seeded = true},
    {FN(cly, bell_randn), "l.", gen_rand, .weight = 3, .seeded = true},
    {FN(ciily, bell_randint), "bcl.", gen_randint, .weight = 2, .seeded = true},
    {FN(cffiy, fuzz_arange), "xya.", gen_arange, .weight = 3,
     .helper = fuzz_arange_text},
    ROW(ciiy, eye, "ab.", eye, 2, false, NORMAL),
};
/* clang-format on */

const struct fuzz_op_table fuzz_ops_nn = {rows, ARRAY_LEN(rows)};
