/* The fuzzer's ops: functions of the table that are more than one call of the
 * API, by their names and with the arguments of a row here, and ways to make
 * tensors. No random program has them (weight 0): `fuzz --each` and
 * `fuzz --grad` do. */
#include "tools/fuzz/fuzz_gen.h"

#include <stdlib.h>
#include <string.h>

#include "base/bits.h"
#include "doorbell/functions.h"
#include "doorbell/linalg.h"

/* A spec is a function's name and its arguments: t the next tensor, T a list
 * of all, - None, iN an int, lN,M a list of two, fX a float, b0 or b1 a
 * bool. */
/* clang-format off */
HELPER(fuzz_named,
static struct bell_tensor *
fuzz_named(const char *spec, struct bell_tensor *const *tensors, uint32_t n)
{
    struct bell_value items[8], pair[2];
    struct bell_arg args[8];
    struct bell_call call = {.args = args};
    struct bell_context *ctx = bell_context_of(tensors[0]);
    const char *p = spec + strcspn(spec, " ");
    char name[32] = "", *end;
    uint32_t i, used = 0;

    memcpy(name, spec, (size_t)(p - spec));
    call.function = bell_function_find(name);
    while (*p) {
        struct bell_arg *a = &args[call.n_args++];
        a->name = NULL;
        a->value = bell_of_none();
        p++;
        if (*p == 't')
            a->value = bell_of_tensor(tensors[used++]);
        else if (*p == 'f')
            a->value = bell_of_float(strtod(p + 1, NULL));
        else if (*p == 'b')
            a->value = bell_of_bool(p[1] == '1');
        else if (*p == 'i')
            a->value = bell_of_int(strtoll(p + 1, NULL, 10));
        if (*p == 'T') {
            for (i = 0; i < n; i++)
                items[i] = bell_of_tensor(tensors[i]);
            a->value = bell_of_list(items, n);
        } else if (*p == 'l') {
            pair[0] = bell_of_int(strtoll(p + 1, &end, 10));
            pair[1] = bell_of_int(strtoll(end + 1, NULL, 10));
            a->value = bell_of_list(pair, 2);
        }
        p += strcspn(p, " ");
    }
    if (bell_function_call(ctx, &call) != BELL_OK || call.n_results == 0)
        return bell_error_tensor(ctx);
    return call.results[call.n_results - 1];
})

HELPER(fuzz_inv, /* of what is far from singular */
static struct bell_tensor *
fuzz_inv(struct bell_tensor *x)
{
    return bell_inv(bell_add(x, bell_mul_scalar(bell_eye(bell_context_of(x),
        bell_size(x, -1), bell_size(x, -1), bell_dtype_of(x)), 8.0)));
})

HELPER(fuzz_bincount, /* of 0..9 */
static struct bell_tensor *
fuzz_bincount(struct bell_tensor *weights)
{
    struct bell_context *ctx = bell_context_of(weights);
    int64_t n = bell_numel(weights);
    struct bell_tensor *at = bell_arange(ctx, 0, (double)n, 1, BELL_INT64);

    at = bell_remainder(at, bell_scalar_int(ctx, 10));
    return bell_bincount(at, weights, 10);
})
/* clang-format on */

/* A leaf of floats of so many axes. */
static bool
take_floats(struct fuzz_gen *g, struct fuzz_node *n, enum bell_dtype dtype,
            const int64_t *shape, uint32_t rank)
{
    return take(n, fuzz_leaf(g, dtype, shape, rank, FUZZ_DATA_DISTINCT, 0));
}

static bool
gen_one(struct fuzz_gen *g, struct fuzz_node *n)
{
    (void)g;
    (void)n;
    return true;
}

/* What has elements. */
static bool
gen_some(struct fuzz_gen *g, struct fuzz_node *n)
{
    (void)n;
    return bell_numel(g->tensors[g->x]) > 0;
}

static bool
gen_vectors(struct fuzz_gen *g, struct fuzz_node *n)
{
    enum bell_dtype dtype = fuzz_random_float(g);
    int64_t size = fuzz_random_size(g), i, count = between(g, 1, 3);

    for (i = 0; i < count; i++, size = fuzz_random_size(g) % 9) {
        if (!take_floats(g, n, dtype, &size, 1))
            return false;
    }
    return true;
}

static bool
gen_dot(struct fuzz_gen *g, struct fuzz_node *n)
{
    enum bell_dtype dtype = fuzz_random_float(g);
    int64_t size = fuzz_random_size(g);

    return take_floats(g, n, dtype, &size, 1) &&
           take_floats(g, n, dtype, &size, 1);
}

/* [b,] m x k and [b,] k x n; of addmm something that broadcasts before them. */
static bool
take_products(struct fuzz_gen *g, struct fuzz_node *n, uint32_t batched,
              bool added)
{
    enum bell_dtype dtype = fuzz_random_float(g);
    int64_t b = fuzz_random_size(g), k = fuzz_random_size(g);
    int64_t x[3] = {b, fuzz_random_size(g), k}, y[3] = {b, k, 0}, z[2];

    y[2] = z[1] = fuzz_random_size(g);
    z[0] = fuzz_one_in(&g->rng, 2) ? x[1] : 1;
    if (added && !take_floats(g, n, dtype, z, 2))
        return false;
    return take_floats(g, n, dtype, x + 1 - batched, 2 + batched) &&
           take_floats(g, n, dtype, y + 1 - batched, 2 + batched);
}

static bool
gen_mm(struct fuzz_gen *g, struct fuzz_node *n)
{
    return take_products(g, n, 0, false);
}

static bool
gen_bmm(struct fuzz_gen *g, struct fuzz_node *n)
{
    return take_products(g, n, 1, false);
}

static bool
gen_addmm(struct fuzz_gen *g, struct fuzz_node *n)
{
    return take_products(g, n, 0, true);
}

static bool
gen_inv(struct fuzz_gen *g, struct fuzz_node *n)
{
    int64_t size = between(g, 1, 4), shape[3] = {between(g, 1, 3), size, size};

    return take(
        n, fuzz_leaf(g, fuzz_random_float(g), shape, 3, FUZZ_DATA_NORMAL, 0));
}

/* x of at least one axis, indices along axis 0, and what is put there. */
static bool
gen_put(struct fuzz_gen *g, struct fuzz_node *n)
{
    enum bell_dtype dtype = fuzz_random_float(g);
    int64_t x[2] = {1 + fuzz_random_size(g), fuzz_random_size(g)}, count;
    int64_t src[2] = {0, x[1]};

    count = src[0] = between(g, 1, x[0]);
    return take_floats(g, n, dtype, x, 2) &&
           take(n,
                fuzz_leaf(g, BELL_INT64, &count, 1, FUZZ_DATA_CLASS, x[0])) &&
           take_floats(g, n, dtype, src, 2);
}

/* What to take along axis 0, as much as there is. */
static bool
gen_take_along(struct fuzz_gen *g, struct fuzz_node *n)
{
    int64_t x[2] = {1 + fuzz_random_size(g), fuzz_random_size(g)};

    return take_floats(g, n, fuzz_random_float(g), x, 2) &&
           take(n, fuzz_leaf(g, BELL_INT64, x, 2, FUZZ_DATA_CLASS, x[0]));
}

/* Numbers, and borders in order or not. */
static bool
gen_bucketize(struct fuzz_gen *g, struct fuzz_node *n)
{
    enum bell_dtype dtype = fuzz_random_float(g);
    int64_t x[2] = {fuzz_random_size(g), fuzz_random_size(g)},
            borders = between(g, 1, 9);

    return take_floats(g, n, dtype, x, 2) &&
           take(n, fuzz_leaf(g, dtype, &borders, 1, FUZZ_DATA_DISTINCT, 0));
}

static bool
gen_tensordot(struct fuzz_gen *g, struct fuzz_node *n)
{
    enum bell_dtype dtype = fuzz_random_float(g);
    int64_t k = fuzz_random_size(g), x[2] = {fuzz_random_size(g), k},
            y[3] = {k, fuzz_random_size(g), fuzz_random_size(g)};

    return take_floats(g, n, dtype, x, 2) && take_floats(g, n, dtype, y, 3);
}

/* Transforms of windows of 4, which overlap by half. */
static bool
gen_istft(struct fuzz_gen *g, struct fuzz_node *n)
{
    int64_t shape[4] = {between(g, 1, 3), 3, between(g, 3, 9), 2};

    return take_floats(g, n, fuzz_random_float(g), shape, 4);
}

/* Shapes, one of dtype, and the seed. */
static bool
gen_new(struct fuzz_gen *g, struct fuzz_node *n)
{
    uint32_t rank = (uint32_t)between(g, 2, 3), i;

    for (i = 0; i < rank; i++)
        n->list[n->n_list++] = fuzz_random_size(g);
    n->f[0] = -0.5;
    n->f[1] = 1.5;
    n->i[0] = between(g, 0, 1000);
    n->dtype = (uint8_t)fuzz_random_float(g);
    if (g->lacks_f64 && n->dtype == BELL_FLOAT64)
        n->dtype = BELL_FLOAT32;
    return true;
}

/* As another is, of another dtype. */
static bool
gen_like(struct fuzz_gen *g, struct fuzz_node *n)
{
    n->dtype = (uint8_t)fuzz_random_float(g);
    n->i[0] = between(g, 0, 1000);
    return true;
}

static bool
gen_randperm(struct fuzz_gen *g, struct fuzz_node *n)
{
    n->i[0] = fuzz_random_size(g);
    return true;
}

/* x[1, c, ..] of n axes and where its elements go: sizes are doubled. */
static bool
gen_unpool(struct fuzz_gen *g, struct fuzz_node *n, uint32_t axes)
{
    enum bell_dtype dtype = fuzz_random_float(g);
    int64_t shape[5] = {1, 2}, area = 1;
    uint32_t i;

    for (i = 0; i < axes; i++) {
        shape[2 + i] = between(g, 1, 3);
        area *= 2 * shape[2 + i];
    }
    return take_floats(g, n, dtype, shape, 2 + axes) &&
           take(n, fuzz_leaf(g, BELL_INT64, shape, 2 + axes, FUZZ_DATA_CLASS,
                             area));
}

static bool
gen_unpool1(struct fuzz_gen *g, struct fuzz_node *n)
{
    return gen_unpool(g, n, 1);
}

static bool
gen_unpool2(struct fuzz_gen *g, struct fuzz_node *n)
{
    return gen_unpool(g, n, 2);
}

static bool
gen_unpool3(struct fuzz_gen *g, struct fuzz_node *n)
{
    return gen_unpool(g, n, 3);
}

/* An image and points. */
static bool
gen_grid(struct fuzz_gen *g, struct fuzz_node *n)
{
    enum bell_dtype dtype = fuzz_random_float(g);
    int64_t x[4] = {between(g, 1, 2), 2, between(g, 2, 5), between(g, 2, 5)};
    int64_t grid[4] = {x[0], between(g, 1, 4), between(g, 1, 4), 2};

    return take_floats(g, n, dtype, x, 4) &&
           take(n, fuzz_leaf(g, dtype, grid, 4, FUZZ_DATA_UNIT, 0));
}

/* An image and boxes in its first element. */
static bool
gen_regions(struct fuzz_gen *g, struct fuzz_node *n)
{
    enum bell_dtype dtype = fuzz_random_float(g);
    int64_t x[4] = {1, 2, between(g, 2, 5), between(g, 2, 5)};
    int64_t boxes[2] = {between(g, 1, 3), 5};

    return take_floats(g, n, dtype, x, 4) &&
           take(n, fuzz_leaf(g, dtype, boxes, 2, FUZZ_DATA_UNIT, 0));
}

/* By name; the first operand's type and ranks, 0, 0: gen takes it. */
#define NAMED(spec, gen, fits, low, high, diff)                                \
    {                                                                          \
        FN(es, fuzz_named), ".*", gen_##gen, fuzz_##fits, low, high, 0, diff,  \
            FUZZ_DATA_DISTINCT, fuzz_named_text, false, spec                   \
    }
/* One that makes a tensor, from a seed. */
#define NEW(code, function, args)                                              \
    {                                                                          \
        FN(code, bell_##function), args, gen_new, .seeded = true               \
    }
#define LIKE(code, function, args)                                             \
    {                                                                          \
        FN(code, bell_##function), args, gen_like, fuzz_is_float, 1, 4,        \
            .seeded = true                                                     \
    }

/* clang-format off */
static const struct fuzz_op rows[] = {
    NAMED("std_mean t i0 f1 b1", one, is_float, 1, 4, true),
    NAMED("var_mean t i-1", one, is_float, 1, 4, true),
    NAMED("msort t", one, is_number, 1, 4, true),
    NAMED("ravel t", one, any, 0, 4, true),
    NAMED("tile t l2,3", one, any, 0, 3, true),
    NAMED("t t", one, any, 2, 2, true),
    NAMED("mT t", one, any, 2, 4, true),
    NAMED("trace t", one, is_number, 2, 2, true),
    NAMED("unflatten t i-1 l-1,1", some, any, 1, 4, true),
    NAMED("split t i2", some, any, 1, 4, true),
    NAMED("unbind t i-1", some, any, 1, 4, true),
    NAMED("meshgrid T", vectors, any, 0, 0, true),
    NAMED("index_add t i0 t t f2", put, any, 0, 0, true),
    NAMED("index_copy t i0 t t", put, any, 0, 0, true),
    NAMED("take_along_dim t t i0", take_along, any, 0, 0, true),
    NAMED("aminmax t i0", some, is_number, 1, 4, true),
    NAMED("cummin t i0", some, is_number, 1, 4, false),
    NAMED("kthvalue t i1 i0", some, is_number, 1, 4, false),
    NAMED("nanquantile t f0.3 i-1", some, is_float, 1, 4, true),
    NAMED("bucketize t t", bucketize, any, 0, 0, false),
    NAMED("tensordot t t i1", tensordot, any, 0, 0, true),
    NAMED("mm t t", mm, any, 0, 0, true),
    NAMED("addmm t t t f0.5 f2", addmm, any, 0, 0, true),
    NAMED("adaptive_avg_pool1d t i3", some, is_float, 2, 3, true),
    NAMED("adaptive_avg_pool2d t l2,3", some, is_float, 3, 4, true),
    NAMED("adaptive_avg_pool3d t i2", some, is_float, 4, 4, true),
    NAMED("max_unpool1d t t i2", unpool1, any, 0, 0, false),
    NAMED("max_unpool2d t t i2", unpool2, any, 0, 0, false),
    NAMED("max_unpool3d t t i2", unpool3, any, 0, 0, false),
    NAMED("grid_sample t t", grid, any, 0, 0, false),
    NAMED("roi_align t t l2,3 f1 i2 b1", regions, any, 0, 0, false),
    NAMED("instance_norm t", some, is_float, 3, 4, true),
    NAMED("istft t i4 i2", istft, any, 0, 0, true),
    NAMED("full_like t f2.5", one, is_float, 0, 4, false),
    {FN(tt, bell_bmm), "01", gen_bmm, .differentiable = true},
    {FN(tt, bell_dot), "01", gen_dot, .differentiable = true},
    {FN(t, fuzz_inv), "0", gen_inv, .differentiable = true,
     .helper = fuzz_inv_text},
    {FN(t, fuzz_bincount), "0", gen_one, fuzz_is_float, 1, 1,
     .helper = fuzz_bincount_text},
    {FN(tiff, bell_histc), "07xy", gen_like, fuzz_is_float, 1, 4},
    {FN(es, fuzz_named), ".*", gen_like, fuzz_is_float, 1, 4, 0, true,
     FUZZ_DATA_NORMAL, fuzz_named_text, true, "dropout t f0.75"},
    LIKE(ty, zeros_like, "0."),
    LIKE(ty, ones_like, "0."),
    LIKE(t, rand_like, "0"),
    LIKE(t, randn_like, "0"),
    NEW(cly, zeros, "l."),
    NEW(cly, ones, "l."),
    NEW(clfy, full, "lx."),
    NEW(clffy, uniform, "lxy."),
    NEW(clffy, normal, "lxy."),
    NEW(cly, scaled_uniform, "l."),
    NEW(cly, glorot_uniform, "l."),
    NEW(clfy, kaiming_uniform, "ly."),
    NEW(clfy, kaiming_normal, "ly."),
    {FN(ci, bell_randperm), "a", gen_randperm, .seeded = true},
};
/* clang-format on */

const struct fuzz_op_table fuzz_ops_named = {rows, ARRAY_LEN(rows)};
