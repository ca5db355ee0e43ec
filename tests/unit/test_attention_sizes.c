/* Attention of batches, queries and keys of the sizes of symbols, on the device
 * that BELL_DEVICE names: what plain sizes give, by as many kernels, and to the
 * bit where they are the bounds. */
#include <math.h>
#include <string.h>

#include "base/bits.h"
#include "doorbell/dim.h"
#include "doorbell/ops.h"
#include "doorbell/stats.h"
#include "doorbell/tensor.h"
#include "tests/unit/expect.h"
#include "tests/unit/sanitized.h"
#include "tests/unit/share.h"

#define MAX_SIZES 4
#define N_ROOM    (1 << 18)

static struct bell_context *ctx;

enum how {
    PLAIN,
    CAUSAL,
    ADDED,   /* a mask of floats */
    GROUPED, /* two heads of q for one of k and v */
    TRAINED, /* and gradients to q, k and v */
    TRAINED_CAUSAL,
    HELD,  /* queries of a plain number */
    NEXT,  /* one query, the last */
    CROSS, /* keys of a plain number */
    CROSS_CAUSAL,
};

static const struct layer {
    enum how how;
    enum bell_dtype dtype;
    int64_t heads, d, dv;
    int64_t sizes[MAX_SIZES][3]; /* batch, queries, keys; first the bounds */
    bool is_long;                /* left out where all takes longer */
} layers[] = {
    {PLAIN, BELL_FLOAT16, 2, 64, 64, {{2, 80, 96}, {1, 17, 64}, {2, 65, 5}}},
    {CAUSAL, BELL_BFLOAT16, 1, 64, 32, {{2, 96, 96}, {1, 33, 33}, {2, 8, 8}}},
    {ADDED, BELL_FLOAT16, 2, 32, 48, {{1, 40, 70}, {1, 16, 33}, {1, 1, 1}}},
    {GROUPED, BELL_BFLOAT16, 4, 32, 32, {{2, 48, 48}, {1, 20, 48}, {2, 3, 7}}},
    {PLAIN, BELL_FLOAT32, 2, 16, 16, {{2, 24, 40}, {1, 7, 16}, {2, 24, 3}}},
    {CAUSAL, BELL_FLOAT32, 1, 20, 24, {{2, 33, 33}, {1, 32, 32}, {2, 2, 2}}},
    /* several tiles of keys, whole ones and not */
    {CAUSAL,
     BELL_BFLOAT16,
     1,
     32,
     32,
     {{1, 300, 300}, {1, 257, 257}, {1, 192, 192}, {1, 64, 64}}},
    {PLAIN, BELL_FLOAT32, 1, 8, 8, {{1, 20, 290}, {1, 7, 256}, {1, 20, 129}}},
    {HELD, BELL_BFLOAT16, 2, 64, 64, {{3, 48, 130}, {1, 48, 64}, {2, 48, 1}}},
    {HELD, BELL_FLOAT16, 2, 64, 64, {{2, 4, 200}, {1, 4, 33}, {2, 4, 64}}},
    {NEXT, BELL_BFLOAT16, 8, 64, 64, {{2, 1, 140}, {1, 1, 100}, {2, 1, 9}}},
    {NEXT, BELL_FLOAT32, 2, 16, 16, {{3, 1, 70}, {1, 1, 33}, {2, 1, 1}}},
    /* by WGMMA, where there is that */
    {CROSS,
     BELL_BFLOAT16,
     1,
     64,
     64,
     {{3, 130, 128}, {1, 65, 128}, {2, 7, 128}}},
    {CROSS_CAUSAL,
     BELL_BFLOAT16,
     1,
     64,
     64,
     {{2, 192, 192}, {1, 65, 192}, {2, 128, 192}}},
    {TRAINED,
     BELL_BFLOAT16,
     2,
     32,
     32,
     {{2, 40, 300}, {1, 17, 257}, {2, 16, 5}},
     true},
    {TRAINED_CAUSAL,
     BELL_FLOAT32,
     1,
     16,
     16,
     {{1, 200, 200}, {1, 128, 128}, {1, 3, 3}},
     true},
};

/* Numbers between -1 and 1, as many as the greatest sizes have. */
struct inputs {
    struct bell_tensor *q, *k, *v, *mask;
};

static struct bell_tensor *
numbers(const int64_t *shape, uint32_t n, enum bell_dtype dtype, uint32_t seed)
{
    static float v[N_ROOM];
    size_t count = 1, i;
    uint32_t a;

    for (a = 0; a < n; a++)
        count *= (size_t)shape[a];
    assert_true(count <= ARRAY_LEN(v));
    for (i = 0; i < count; i++)
        v[i] = (float)((i + seed) * 7919 % 1009) / 504.5f - 1;
    return bell_cast(bell_from_data(ctx, shape, n, BELL_FLOAT32, v), dtype);
}

static void
make_inputs(const struct layer *l, struct inputs *in)
{
    const int64_t *most = l->sizes[0];
    int64_t held = l->how == GROUPED ? l->heads / 2 : l->heads;
    struct bell_tensor *all[4];

    all[0] = in->q =
        numbers(BELL_DIMS(most[0], l->heads, most[1], l->d), l->dtype, 5);
    all[1] = in->k =
        numbers(BELL_DIMS(most[0], held, most[2], l->d), l->dtype, 77);
    all[2] = in->v =
        numbers(BELL_DIMS(most[0], held, most[2], l->dv), l->dtype, 301);
    all[3] = in->mask = numbers(BELL_DIMS(most[1], most[2]), BELL_FLOAT32, 9);
    expect_ok(bell_realize(all, 4));
}

static struct bell_tensor *
first(struct bell_tensor *t, struct bell_dim b, struct bell_dim n)
{
    return bell_narrow(bell_narrow(t, 0, 0, b), 2, 0, n);
}

static bool
is_trained(const struct layer *l)
{
    return l->how == TRAINED || l->how == TRAINED_CAUSAL;
}

/* Few queries and gradients are several kernels on a CPU, whose sums go by
 * their sizes. */
static bool
is_attention(const struct layer *l)
{
    return (l->sizes[0][1] >= 16 && !is_trained(l)) ||
           strncmp(bell_context_device(ctx), "CPU", 3) != 0;
}

/* The result, and gradients; how many. */
static uint32_t
attend(const struct layer *l, const struct inputs *in,
       const struct bell_dim size[3], struct bell_tensor *out[4])
{
    bool causal =
        l->how == CAUSAL || l->how == TRAINED_CAUSAL || l->how == CROSS_CAUSAL;
    struct bell_tensor *of[3], *mask = NULL, *loss;

    of[0] = first(in->q, size[0], size[1]);
    of[1] = first(in->k, size[0], size[2]);
    of[2] = first(in->v, size[0], size[2]);
    if (l->how == ADDED)
        mask = bell_narrow(bell_narrow(in->mask, 0, 0, size[1]), 1, 0, size[2]);
    out[0] = bell_scaled_dot_product_attention(of[0], of[1], of[2], mask, 0,
                                               causal, 0);
    if (!is_trained(l))
        return 1;
    loss = bell_mul(bell_cast(out[0], BELL_FLOAT32),
                    bell_cast(out[0], BELL_FLOAT32));
    loss = bell_sum(loss, BELL_NO_DIMS, false);
    expect_ok(bell_gradient(loss, of, 3, out + 1));
    return 4;
}

/* All values one after the other; how many. */
static size_t
compute(const struct layer *l, const struct inputs *in,
        const struct bell_dim size[3], float v[static N_ROOM],
        uint64_t *out_plans, uint64_t *out_kernels)
{
    struct bell_stats before = {.struct_size = sizeof(before)},
                      after = {.struct_size = sizeof(after)};
    struct bell_tensor *out[4];
    size_t used = 0, n;
    uint32_t count, i;

    expect_ok(bell_scope_begin(ctx));
    bell_context_stats(ctx, &before);
    count = attend(l, in, size, out);
    expect_ok(bell_realize(out, count));
    bell_context_stats(ctx, &after);
    *out_plans = after.n_plans - before.n_plans;
    *out_kernels = after.n_kernels_planned - before.n_kernels_planned;
    for (i = 0; i < count; i++, used += n) {
        struct bell_tensor *t = bell_cast(out[i], BELL_FLOAT32);
        n = (size_t)bell_numel(t);
        assert_true(used + n <= N_ROOM);
        expect_ok(bell_read(t, v + used, n * sizeof(*v)));
    }
    expect_ok(bell_scope_end(ctx));
    return used;
}

/* Not more apart than another order of sums makes them; with `same`, not in a
 * bit. */
static void
compare(const struct layer *l, size_t row, size_t size, bool same,
        const float *got, const float *want, size_t n)
{
    float eps = l->dtype == BELL_BFLOAT16  ? 1.0f / 64
                : l->dtype == BELL_FLOAT16 ? 1.0f / 512
                                           : 2e-5f,
          most = 0;
    size_t i;

    for (i = 0; i < n; i++)
        most = fmaxf(most, fabsf(want[i]));
    for (i = 0; i < n; i++) {
        bool is_near =
            fabsf(got[i] - want[i]) <= eps * (most / 4 + fabsf(want[i]));
        if (!is_near || (same && memcmp(&got[i], &want[i], sizeof(*got)) != 0))
            fail_msg("row %zu, size %zu, element %zu: %.9g, not %.9g", row,
                     size, i, (double)got[i], (double)want[i]);
    }
}

static void
test_row(size_t row, const struct layer *l, struct bell_dim symbol[3])
{
    static float want[N_ROOM], got[N_ROOM];
    uint64_t plans, kernels, plain = 0;
    struct inputs in;
    size_t i, n;
    uint32_t a;

    make_inputs(l, &in);
    for (i = 0; i < MAX_SIZES && l->sizes[i][0]; i++) {
        struct bell_dim size[3], number[3];

        for (a = 0; a < 3; a++) {
            number[a] = bell_dim_of(l->sizes[i][a]);
            size[a] = symbol[a];
            expect_ok(bell_symbol_set(ctx, symbol[a], l->sizes[i][a]));
        }
        if (l->how == HELD || l->how == NEXT)
            size[1] = number[1];
        if (l->how == CAUSAL || l->how == TRAINED_CAUSAL)
            size[1] = size[2];
        if (l->how == CROSS || l->how == CROSS_CAUSAL)
            size[2] = number[2];
        n = compute(l, &in, number, want, &plans, &kernels);
        plain = i ? plain : kernels;
        assert_int_equal(compute(l, &in, size, got, &plans, &kernels), n);
        if (plans != (i == 0))
            fail_msg("row %zu, size %zu: %d plans", row, i, (int)plans);
        if (i == 0)
            print_message("row %zu: %d kernels, %d of plain sizes\n", row,
                          (int)kernels, (int)plain);
        if (kernels > plain)
            fail_msg("row %zu: %d kernels, %d of plain sizes", row,
                     (int)kernels, (int)plain);
        compare(l, row, i, i == 0 && is_attention(l), got, want, n);
    }
}

static void
test_layers(void **state)
{
    struct bell_dim symbol[3];
    size_t i;
    uint32_t a;

    (void)state;
    for (i = 0; i < ARRAY_LEN(layers); i++) {
        const struct layer *l = &layers[i];

        if (!is_in_share(i) || (IS_SANITIZED && l->is_long))
            continue;
        expect_ok(bell_context_create(NULL, &ctx));
        for (a = 0; a < 3; a++)
            symbol[a] = bell_symbol(ctx, (const char *[]){"b", "n", "m"}[a], 1,
                                    l->sizes[0][a]);
        test_row(i, l, symbol);
        bell_context_destroy(ctx);
    }
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_layers),
    };

    return cmocka_run_group_tests_name("attention_sizes", tests, NULL, NULL);
}
