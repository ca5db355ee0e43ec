/* Sizes and offsets that are symbols: one plan for all their values, from the
 * first use on, and the values that plain sizes give. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/bits.h"
#include "doorbell/dim.h"
#include "doorbell/jit.h"
#include "doorbell/ops.h"
#include "doorbell/stats.h"
#include "doorbell/tensor.h"
#include "ioctl/sim_count.h"

#define N_ROWS 96
#define N_COLS 16
#define MAX_N  90

static const char *const devices[] = {"CPU", "NV@sim:sm_90", "AMD@sim:gfx1100"};

static struct bell_context *ctx;

static float *
values(size_t n)
{
    static float list[N_ROWS * N_COLS];
    size_t i;

    assert_true(n <= ARRAY_LEN(list));
    for (i = 0; i < n; i++)
        list[i] = (float)((i * 7919) % 1000) / 370 - 1.1f;
    return list;
}

static struct bell_tensor *
matrix(int64_t rows)
{
    return bell_from_data(ctx, BELL_DIMS(rows, N_COLS), BELL_FLOAT32,
                          values((size_t)rows * N_COLS));
}

/* Something of x (N_ROWS, N_COLS) with a length and an offset, symbols or
 * plain numbers. */
typedef struct bell_tensor *step_fn(struct bell_tensor *x, struct bell_dim n,
                                    struct bell_dim at);

static struct bell_tensor *
first_rows(struct bell_tensor *x, struct bell_dim n, struct bell_dim at)
{
    (void)at;
    return bell_mul_scalar(bell_narrow(x, 0, 0, n), 3);
}

static struct bell_tensor *
slice(struct bell_tensor *x, struct bell_dim n, struct bell_dim at)
{
    (void)n;
    return bell_exp(bell_narrow(x, 0, at, 5));
}

static struct bell_tensor *
one_row(struct bell_tensor *x, struct bell_dim n, struct bell_dim at)
{
    (void)n;
    return bell_add_scalar(
        bell_select(x, 0, bell_dim_add(ctx, bell_dim_mul(ctx, at, 2), 1)), 1);
}

/* Slices of slices; their sum is a plain size. */
static struct bell_tensor *
last_rows(struct bell_tensor *x, struct bell_dim n, struct bell_dim at)
{
    (void)at;
    return bell_mul_scalar(
        bell_narrow(bell_narrow(x, 0, 0, bell_dim_add(ctx, n, 4)), 0, n, 4), 2);
}

static struct bell_tensor *
rest(struct bell_tensor *x, struct bell_dim n, struct bell_dim at)
{
    (void)at;
    return bell_sum(bell_narrow(x, 0, n, 3), BELL_DIMS(1), false);
}

/* Both, and a row behind them. */
static struct bell_tensor *
joined(struct bell_tensor *x, struct bell_dim n, struct bell_dim at)
{
    struct bell_tensor *parts[] = {bell_narrow(x, 0, 1, n),
                                   bell_narrow(x, 0, at, 1),
                                   bell_narrow(x, 0, 3, n)};

    return bell_cat(parts, 3, 0);
}

static struct bell_tensor *
counted(struct bell_tensor *x, struct bell_dim n, struct bell_dim at)
{
    struct bell_tensor *i =
        bell_arange_dims(ctx, bell_dim_of(0), n, BELL_INT64);

    (void)x;
    i = bell_add(i, bell_dim_value(ctx, at, BELL_DEFAULT));
    return bell_where(bell_lt(i, bell_dim_value(ctx, n, BELL_DEFAULT)), i,
                      bell_neg(i));
}

static struct bell_tensor *
flat(struct bell_tensor *x, struct bell_dim n, struct bell_dim at)
{
    struct bell_tensor *y = bell_narrow(x, 0, 0, n);

    (void)at;
    y = bell_flip(bell_reshape(y, BELL_DIMS(-1, 4, 4)), BELL_DIMS(0, 2));
    y = bell_permute(y, BELL_DIMS(1, 0, 2));
    return bell_reshape(y, BELL_DIMS(-1));
}

static struct bell_tensor *
extremes(struct bell_tensor *x, struct bell_dim n, struct bell_dim at)
{
    (void)at;
    return bell_max(bell_narrow(x, 0, 0, n), BELL_DIMS(0), false);
}

static struct bell_tensor *
mean(struct bell_tensor *x, struct bell_dim n, struct bell_dim at)
{
    (void)at;
    return bell_mean(bell_narrow(x, 0, 0, n), BELL_DIMS(0), false);
}

/* A query row against the first n rows. */
static struct bell_tensor *
attend(struct bell_tensor *x, struct bell_dim n, struct bell_dim at)
{
    struct bell_tensor *k = bell_narrow(x, 0, 0, n);
    struct bell_tensor *q = bell_narrow(x, 0, at, 2);
    struct bell_tensor *p = bell_softmax(bell_matmul(q, bell_t(k)), -1);

    return bell_matmul(p, k);
}

/* Each row with each. */
static struct bell_tensor *
squares(struct bell_tensor *x, struct bell_dim n, struct bell_dim at)
{
    struct bell_tensor *k = bell_narrow(x, 0, 0, n);

    (void)at;
    k = bell_softmax(bell_matmul(k, bell_t(k)), -1);
    return bell_sum(
        bell_mul(
            k, bell_unsqueeze(
                   bell_arange_dims(ctx, bell_dim_of(0), n, BELL_FLOAT32), 1)),
        BELL_DIMS(0), false);
}

static const struct {
    const char *name;
    step_fn *fn;
    double error; /* of sums, which have another order */
} steps[] = {
    {"first rows", first_rows, 0}, {"slice", slice, 0},
    {"one row", one_row, 0},       {"last rows", last_rows, 0},
    {"rest", rest, 1e-6},          {"joined", joined, 0},
    {"counted", counted, 0},       {"flat", flat, 0},
    {"extremes", extremes, 0},     {"mean", mean, 2e-6},
    {"attend", attend, 1e-5},      {"squares", squares, 1e-4},
};

static const struct {
    int64_t n, at;
} runs[] = {{5, 3}, {6, 3}, {64, 0}, {1, 46}, {90, 7}, {17, 40}, {5, 9}};

static size_t
read_step(step_fn *fn, struct bell_tensor *x, struct bell_dim n,
          struct bell_dim at, uint8_t out[static 32768])
{
    struct bell_tensor *y;
    size_t size;

    assert_int_equal(bell_scope_begin(ctx), BELL_OK);
    y = fn(x, n, at);
    size = (size_t)bell_nbytes(y);
    assert_true(size <= 32768);
    memset(out, 0xff, 32768);
    if (bell_read(y, out, size) != BELL_OK)
        fail_msg("%s", bell_error_last()->message);
    assert_int_equal(bell_scope_end(ctx), BELL_OK);
    return size;
}

static void
expect_same(const char *device, const char *name, int64_t n, const void *got,
            const void *want, size_t size, double error)
{
    const float *x = got, *y = want;
    size_t i;

    if (error == 0 && memcmp(got, want, size) != 0)
        fail_msg("%s, %s: n = %d is other than of plain sizes", device, name,
                 (int)n);
    for (i = 0; error > 0 && i < size / sizeof(*x); i++) {
        if (!(fabs(x[i] - y[i]) <= error * (1 + fabs(y[i]))))
            fail_msg("%s, %s: n = %d, element %d: %g, not %g", device, name,
                     (int)n, (int)i, x[i], y[i]);
    }
}

static void
test_steps(void **state)
{
    static uint8_t got[32768], want[32768];
    struct bell_stats before = {.struct_size = sizeof(before)},
                      after = {.struct_size = sizeof(after)};
    struct bell_tensor *x;
    struct bell_dim n, at;
    size_t d, s, r, size;

    (void)state;
    for (d = 0; d < ARRAY_LEN(devices); d++) {
        assert_int_equal(bell_context_create(devices[d], &ctx), BELL_OK);
        n = bell_symbol(ctx, "n", 1, MAX_N);
        at = bell_symbol(ctx, "at", 0, 47);
        x = matrix(N_ROWS);
        for (s = 0; s < ARRAY_LEN(steps); s++) {
            for (r = 0; r < ARRAY_LEN(runs); r++) {
                size = read_step(steps[s].fn, x, bell_dim_of(runs[r].n),
                                 bell_dim_of(runs[r].at), want);
                assert_int_equal(bell_symbol_set(ctx, n, runs[r].n), BELL_OK);
                assert_int_equal(bell_symbol_set(ctx, at, runs[r].at), BELL_OK);
                bell_context_stats(ctx, &before);
                assert_int_equal(read_step(steps[s].fn, x, n, at, got), size);
                bell_context_stats(ctx, &after);
                expect_same(devices[d], steps[s].name, runs[r].n, got, want,
                            size, steps[s].error);
                /* none where the plain numbers' plan has arguments */
                if (after.n_plans - before.n_plans > (r == 0))
                    fail_msg("%s, %s: run %d made %d plans", devices[d],
                             steps[s].name, (int)r,
                             (int)(after.n_plans - before.n_plans));
            }
        }
        bell_context_destroy(ctx);
    }
}

/* ---- a cache that grows ---- */

struct cache {
    struct bell_tensor *rows;
    struct bell_dim n;
};

static struct bell_tensor *
decode(struct bell_context *c, struct cache *cache, struct bell_tensor *row)
{
    struct bell_tensor *k;

    bell_assign_slice(cache->rows, BELL_SHAPE(bell_dim_sub(c, cache->n, 1), 0),
                      row);
    k = bell_narrow(cache->rows, 0, 0, cache->n);
    return bell_matmul(bell_softmax(bell_matmul(row, bell_t(k)), -1), k);
}

static bell_status
decode_fn(struct bell_context *c, void *user, struct bell_tensor *const *in,
          struct bell_tensor **out)
{
    out[0] = decode(c, user, in[0]);
    return BELL_OK;
}

static bell_status
rows_fn(struct bell_context *c, void *user, struct bell_tensor *const *in,
        struct bell_tensor **out)
{
    struct cache *cache = user;

    (void)c;
    out[0] = bell_mul_scalar(bell_narrow(in[0], 0, 0, cache->n), 2);
    out[1] = bell_sum(out[0], BELL_NO_DIMS, false);
    return BELL_OK;
}

static struct bell_tensor *
row_of(int64_t i)
{
    return bell_from_data(ctx, BELL_DIMS(1, N_COLS), BELL_FLOAT32,
                          values(N_ROWS * N_COLS) + i * N_COLS);
}

static struct bell_tensor *
empty_cache(void)
{
    struct bell_tensor *rows =
        bell_zeros(ctx, BELL_DIMS(N_ROWS, N_COLS), BELL_FLOAT32);

    assert_int_equal(bell_realize1(rows), BELL_OK);
    return rows;
}

/* The same by realizes, captured, and with sizes that are numbers. */
static void
test_cache(void **state)
{
    struct cache plain, loose, jitted;
    float want[N_COLS], got[N_COLS];
    struct bell_stats before = {.struct_size = sizeof(before)},
                      after = {.struct_size = sizeof(after)};
    struct bell_jit_info info = {.struct_size = sizeof(info)};
    struct bell_tensor *row, *out;
    struct bell_jit *jit;
    struct bell_dim n;
    int64_t i;
    size_t d;

    (void)state;
    for (d = 0; d < ARRAY_LEN(devices); d++) {
        struct bell_jit_desc desc = {.struct_size = sizeof(desc),
                                     .name = "decode",
                                     .fn = decode_fn,
                                     .user = &jitted,
                                     .n_in = 1,
                                     .n_out = 1};

        assert_int_equal(bell_context_create(devices[d], &ctx), BELL_OK);
        n = bell_symbol(ctx, "n", 1, N_ROWS);
        plain.rows = empty_cache();
        loose = (struct cache){empty_cache(), n};
        jitted = (struct cache){empty_cache(), n};
        assert_int_equal(bell_jit_create(ctx, &desc, &jit), BELL_OK);
        for (i = 1; i <= (d ? 12 : N_ROWS); i++) {
            assert_int_equal(bell_scope_begin(ctx), BELL_OK);
            assert_int_equal(bell_symbol_set(ctx, n, i), BELL_OK);
            row = row_of(i - 1);
            plain.n = bell_dim_of(i);
            assert_int_equal(
                bell_read(decode(ctx, &plain, row), want, sizeof(want)),
                BELL_OK);
            bell_context_stats(ctx, &before);
            assert_int_equal(
                bell_read(decode(ctx, &loose, row), got, sizeof(got)), BELL_OK);
            expect_same(devices[d], "loop", i, got, want, sizeof(got), 1e-5);
            if (bell_jit_call(jit, &row, &out) != BELL_OK)
                fail_msg("%s", bell_error_last()->message);
            memcpy(want, got, sizeof(got));
            assert_int_equal(bell_read(out, got, sizeof(got)), BELL_OK);
            expect_same(devices[d], "jit", i, got, want, sizeof(got), 0);
            bell_context_stats(ctx, &after);
            if (i > 1 && after.n_plans != before.n_plans)
                fail_msg("%s: n = %d made a plan", devices[d], (int)i);
            assert_int_equal(bell_scope_end(ctx), BELL_OK);
        }
        bell_jit_get_info(jit, &info);
        assert_int_equal(info.n_captures, 1);
        assert_int_equal(info.n_in_place, 1);
        bell_jit_destroy(jit);
        bell_context_destroy(ctx);
    }
}

/* Outputs and inputs have the size of the call. */
static void
test_jit_sizes(void **state)
{
    static float want[N_ROWS * N_COLS], got[N_ROWS * N_COLS];
    struct bell_tensor *in, *out[2];
    struct cache sizes;
    struct bell_jit_desc desc = {.struct_size = sizeof(desc),
                                 .name = "rows",
                                 .fn = rows_fn,
                                 .user = &sizes,
                                 .n_in = 1,
                                 .n_out = 2};
    struct bell_jit_save_desc save = {.struct_size = sizeof(save)};
    struct bell_jit *jit;
    int64_t list[] = {4, 90, 1, 33, 4}, i;
    const char *target = "CPU";
    char path[64];
    size_t k;

    (void)state;
    assert_int_equal(bell_context_create("CPU", &ctx), BELL_OK);
    sizes.n = bell_symbol(ctx, "n", 1, MAX_N);
    assert_int_equal(bell_jit_create(ctx, &desc, &jit), BELL_OK);
    memcpy(want, values(N_ROWS * N_COLS), sizeof(want));
    for (k = 0; k < ARRAY_LEN(list); k++) {
        assert_int_equal(bell_symbol_set(ctx, sizes.n, list[k]), BELL_OK);
        in = bell_from_data(ctx,
                            BELL_SHAPE(bell_dim_add(ctx, sizes.n, 1), N_COLS),
                            BELL_FLOAT32, want);
        if (bell_jit_call(jit, &in, out) != BELL_OK)
            fail_msg("%s", bell_error_last()->message);
        assert_int_equal(bell_size(out[0], 0), list[k]);
        assert_int_equal(
            bell_read(out[0], got, (size_t)list[k] * N_COLS * sizeof(*got)),
            BELL_OK);
        for (i = 0; i < list[k] * N_COLS; i++)
            assert_true(got[i] == 2 * want[i]);
    }
    /* made for another value */
    assert_int_equal(bell_symbol_set(ctx, sizes.n, 5), BELL_OK);
    assert_int_equal(bell_jit_call(jit, &in, out), BELL_E_INVALID);
    assert_non_null(strstr(bell_error_last()->message, "(n + 1, 16) was made"));
    save.targets = &target;
    save.n_targets = 1;
    snprintf(path, sizeof(path), "/tmp/bell_symbol_%d", (int)getpid());
    assert_int_equal(bell_jit_save(jit, &in, &save, path), BELL_OK);
    unlink(path);
    bell_jit_destroy(jit);
    bell_context_destroy(ctx);
}

/* Loops end where the values do, not where they could end. */
static double
count_ops(struct bell_dim symbol, struct bell_tensor *x, int64_t n)
{
    struct sim_counts counts;
    struct bell_tensor *y;
    double sum = 0;
    float out[2048];
    size_t i;

    assert_int_equal(bell_symbol_set(ctx, symbol, n), BELL_OK);
    y = bell_sum(bell_exp(bell_narrow(x, 0, 0, symbol)), BELL_DIMS(0), false);
    sim_count_take(&counts);
    assert_int_equal(bell_read(y, out, sizeof(out)), BELL_OK);
    sim_count_take(&counts);
    for (i = 0; i < SIM_INSN_COUNT; i++)
        sum += (double)counts.n_insns[i];
    return sum;
}

static void
test_loops(void **state)
{
    struct bell_tensor *x;
    struct bell_dim n;
    double few, many;
    size_t d;

    (void)state;
    sim_count_begin(0);
    for (d = 1; d < ARRAY_LEN(devices); d++) {
        assert_int_equal(bell_context_create(devices[d], &ctx), BELL_OK);
        n = bell_symbol(ctx, NULL, 1, 512);
        x = bell_zeros(ctx, BELL_DIMS(512, 2048), BELL_FLOAT32);
        assert_int_equal(bell_realize1(x), BELL_OK);
        many = count_ops(n, x, 512);
        few = count_ops(n, x, 5);
        if (!(few > 0 && few < many / 3))
            fail_msg("%s: %g instructions for 5 elements, %g for 512",
                     devices[d], few, many);
        bell_context_destroy(ctx);
    }
    sim_count_end();
}

/* ---- refused ---- */

#define REFUSED(call, text)                                                    \
    do {                                                                       \
        struct bell_tensor *made = call;                                       \
        assert_true(bell_is_error(made));                                      \
        assert_int_equal(bell_context_status(ctx), BELL_E_INVALID);            \
        if (!strstr(bell_error_last()->message, text))                         \
            fail_msg("%s", bell_error_last()->message);                        \
    } while (0)

static void
expect_unset(bell_status status, const char *text)
{
    assert_int_equal(status, BELL_E_INVALID);
    if (!strstr(bell_error_last()->message, text))
        fail_msg("%s", bell_error_last()->message);
}

static int64_t
now(struct bell_dim d)
{
    int64_t value = -1;

    assert_int_equal(bell_dim_now(ctx, d, &value), BELL_OK);
    return value;
}

static void
test_values(void **state)
{
    struct bell_context *other;
    struct bell_dim n;

    (void)state;
    assert_int_equal(bell_context_create("CPU", &ctx), BELL_OK);
    assert_int_equal(bell_context_create("CPU", &other), BELL_OK);
    n = bell_symbol(ctx, "n", 2, 40);
    assert_int_equal(now(n), 2);
    expect_unset(bell_symbol_set(ctx, n, 1), "n = 1; it was declared from 2");
    expect_unset(bell_symbol_set(ctx, n, 41), "n = 41");
    expect_unset(bell_symbol_set(ctx, bell_dim_add(ctx, n, 1), 4),
                 "is not a symbol of this");
    expect_unset(bell_symbol_set(ctx, bell_dim_of(4), 4),
                 "is not a symbol of this");
    expect_unset(bell_symbol_set(other, n, 4), "is not a symbol of this");
    assert_int_equal(now(n), 2);
    assert_int_equal(bell_symbol_set(ctx, n, 7), BELL_OK);
    assert_int_equal(now(bell_dim_sub(ctx, bell_dim_mul(ctx, n, 3), 2)), 19);
    assert_int_equal(now(bell_dim_floordiv(ctx, n, 2)), 3);
    assert_int_equal(now(bell_dim_mod(ctx, n, 4)), 3);
    assert_int_equal(now(bell_dim_min(ctx, n, 5)), 5);
    assert_int_equal(now(bell_dim_max(ctx, n, 5)), 7);
    assert_int_equal(now(bell_dim_of(12)), 12);
    bell_context_destroy(ctx);
    bell_context_destroy(other);
}

static void
test_comparisons(void **state)
{
    struct bell_dim n, m;
    int64_t min, max;
    bool answer;

    (void)state;
    assert_int_equal(bell_context_create("CPU", &ctx), BELL_OK);
    n = bell_symbol(ctx, "n", 2, 40);
    m = bell_dim_mul(ctx, n, 2);
    assert_int_equal(bell_dim_at_most(ctx, n, m, &answer), BELL_OK);
    assert_true(answer);
    assert_int_equal(bell_dim_at_most(ctx, m, n, &answer), BELL_OK);
    assert_false(answer);
    assert_int_equal(bell_dim_equal(ctx, bell_dim_sub(ctx, m, n), n, &answer),
                     BELL_OK);
    assert_true(answer);
    expect_unset(bell_dim_at_most(ctx, n, bell_dim_of(30), &answer),
                 "whether n <= 30 depends on the values");
    assert_int_equal(bell_dim_bounds(ctx, m, &min, &max), BELL_OK);
    assert_true(min == 4 && max == 80);
    expect_unset(bell_dim_bounds(ctx, bell_dim_of(INT64_MAX), &min, &max),
                 "not a size of this context");
    bell_context_destroy(ctx);
}

static void
test_errors(void **state)
{
    struct bell_context *other;
    struct bell_tensor *x, *y, *grad, *index;
    struct bell_dim n, m;
    int64_t i;
    float out[8];

    (void)state;
    assert_int_equal(bell_context_create("CPU", &ctx), BELL_OK);
    assert_int_equal(bell_context_create("CPU", &other), BELL_OK);
    n = bell_symbol(ctx, "n", 2, 40);
    m = bell_symbol(ctx, "m", 0, 8);
    x = matrix(N_ROWS);
    (void)bell_symbol(ctx, "k", 5, 4);
    expect_unset(bell_context_status(ctx), "bounds 5 and 4");
    (void)bell_symbol(ctx, "k", 0, BELL_MAX_SYMBOL + 1);
    expect_unset(bell_context_status(ctx), "bounds 0 and");
    (void)bell_dim_floordiv(ctx, n, m);
    expect_unset(bell_context_status(ctx),
                 "bell_dim_floordiv: of n and m: a divisor may be 0");
    (void)bell_dim_add(other, n, 1);
    expect_unset(bell_context_status(other), "not one of this context");

    REFUSED(bell_narrow(x, 0, 0, bell_dim_mul(ctx, n, 3)),
            "3*n from 0 is out of bounds for axis 0");
    REFUSED(bell_narrow(x, 0, 57, n),
            "n from 57 is out of bounds for axis 0 of (96, 16)");
    REFUSED(bell_narrow(x, 0, 0, m), "m from 0 is out of bounds");
    REFUSED(bell_narrow(x, 0, bell_dim_sub(ctx, n, 3), 2),
            "2 from n - 3 is out of bounds");
    REFUSED(bell_select(x, 1, bell_dim_mul(ctx, m, 2)),
            "index 2*m is out of bounds for axis 1 of (96, 16)");
    REFUSED(bell_zeros(ctx, BELL_SHAPE(m, 3), BELL_FLOAT32),
            "shape (m, 3): a size can be less than 1");
    REFUSED(bell_kaiming_normal(ctx, BELL_SHAPE(n, 3), 0, BELL_FLOAT32),
            "shape (n, 3); sizes of symbols are not for this function");
    y = bell_narrow(x, 0, 0, n);
    assert_null(bell_shape(y));
    expect_unset(bell_context_status(ctx), "of a tensor of shape (n, 16): "
                                           "bell_dims and bell_dim_at");
    assert_int_equal(bell_size(y, 0), -1);
    expect_unset(bell_context_status(ctx), "bell_size: of a tensor");
    assert_int_equal(bell_size(y, 1), 16);
    assert_int_equal(bell_dim_at(y, 0).word, n.word);
    assert_int_equal(bell_dims(y)[1].word, 16);
    index = bell_narrow(bell_zeros(ctx, BELL_DIMS(64), BELL_INT64), 0, 0, n);
    index = bell_cast(index, BELL_BOOL);
    REFUSED(bell_index(y, BELL_ITEMS(bell_by(index))),
            "bell_index: item 0: a mask of shape (n,): how many");
    REFUSED(bell_index_put_add(y, BELL_ITEMS(bell_by(index)),
                               bell_ones(ctx, BELL_DIMS(2, 16), BELL_FLOAT32)),
            "bell_index_put_add: item 0: a mask of shape (n,): how many");
    REFUSED(bell_argsort(y, 0, false),
            "bell_argsort: axis 0 of (n, 16) has the size of a symbol: a "
            "network of sorting is for one size");
    REFUSED(bell_index(y, BELL_ITEMS(bell_slice(3, BELL_NONE, 1))),
            "bell_index: item 0: it may be empty, or out of bounds");
    REFUSED(
        bell_index(y, BELL_ITEMS(bell_at(2))),
        "bell_index: item 0: index 2 is out of bounds for an axis of size n");
    REFUSED(bell_add(y, bell_narrow(x, 0, 0, 7)), "(n, 16) and (7, 16)");
    REFUSED(bell_add(y, bell_narrow(x, 0, 0, bell_dim_add(ctx, n, 1))),
            "(n, 16) and (n + 1, 16)");
    REFUSED(bell_reshape(y, BELL_SHAPE(n, 3, 5)), "(n, 16) to (n, 3, 5)");
    REFUSED(bell_reshape(y, BELL_DIMS(-1, 32)), "(n, 16) to (-1, 32)");
    REFUSED(bell_matmul(x, y), "inner sizes 16 and n differ");
    REFUSED(bell_to(y, other), "sizes of symbols");
    assert_true(bell_is_error(bell_zeros(other, BELL_SHAPE(n), BELL_FLOAT32)));
    expect_unset(bell_context_status(other), "not one of this context");

    m = bell_symbol(ctx, "k", 1, 8);
    /* data that was made for another value */
    y = bell_from_data(ctx, BELL_SHAPE(m), BELL_FLOAT32, values(8));
    assert_int_equal(bell_read(y, out, sizeof(*out)), BELL_OK);
    assert_int_equal(bell_symbol_set(ctx, m, 3), BELL_OK);
    expect_unset(bell_realize1(bell_neg(y)), "had another value");
    expect_unset(bell_read(y, out, 3 * sizeof(*out)), "(k,) was made when");
    /* gradients */
    y = bell_sum(bell_narrow(x, 0, 0, n), BELL_NO_DIMS, false);
    assert_int_equal(bell_gradient(y, &x, 1, &grad), BELL_OK);

    for (i = 3; i < BELL_MAX_SYMBOLS; i++)
        (void)bell_symbol(ctx, NULL, 0, 1);
    assert_int_equal(bell_context_status(ctx), BELL_OK);
    (void)bell_symbol(ctx, NULL, 0, 1);
    expect_unset(bell_context_status(ctx), "the most there can be");
    bell_context_destroy(ctx);
    bell_context_destroy(other);
}

/* Several symbols in one graph, products of them, and quotients. */
static struct bell_tensor *
grid(struct bell_tensor *x, struct bell_dim n, struct bell_dim m)
{
    struct bell_tensor *a = bell_narrow(x, 0, 0, n);
    struct bell_tensor *b = bell_narrow(x, 0, 3, m);

    a = bell_sub(bell_unsqueeze(a, 1), bell_unsqueeze(b, 0)); /* n, m, 16 */
    a = bell_reshape(a, BELL_SHAPE(bell_dim_mul(ctx, n, m), N_COLS));
    a = bell_reshape(bell_exp(a), BELL_SHAPE(n, m, 4, 4));
    a = bell_permute(a, BELL_DIMS(1, 3, 0, 2));
    return bell_reshape(a, BELL_DIMS(-1));
}

static struct bell_tensor *
sums_of_both(struct bell_tensor *x, struct bell_dim n, struct bell_dim m)
{
    return bell_mul(bell_max(bell_narrow(x, 0, 0, n), BELL_NO_DIMS, false),
                    bell_max(bell_narrow(x, 0, 0, m), BELL_DIMS(0), false));
}

static struct bell_tensor *
product_of_both(struct bell_tensor *x, struct bell_dim n, struct bell_dim m)
{
    return bell_matmul(bell_narrow(x, 0, 0, n),
                       bell_t(bell_narrow(x, 0, 1, m)));
}

static struct bell_tensor *
halves(struct bell_tensor *x, struct bell_dim n, struct bell_dim m)
{
    struct bell_dim half = bell_dim_floordiv(ctx, bell_dim_add(ctx, n, 1), 2);
    struct bell_tensor *parts[] = {bell_narrow(x, 0, half, m),
                                   bell_narrow(x, 0, 0, half)};

    return bell_cat(parts, 2, 0);
}

static struct bell_tensor *
padded(struct bell_tensor *x, struct bell_dim n, struct bell_dim m)
{
    return bell_pad(bell_narrow(x, 0, 0, n), BELL_SHAPE(2, 1, m, 3), 5);
}

/* Items with sizes, of axes of sizes. */
static struct bell_tensor *
sliced(struct bell_tensor *x, struct bell_dim n, struct bell_dim m)
{
    struct bell_tensor *y = bell_index(
        x, BELL_ITEMS(bell_slice(m.word, bell_dim_add(ctx, n, m).word, 1),
                      bell_slice(BELL_NONE, BELL_NONE, -2)));

    y = bell_index(y, BELL_ITEMS(bell_slice(BELL_NONE, BELL_NONE, -1)));
    return bell_mul(
        y, bell_index(x, BELL_ITEMS(bell_at(m.word), bell_slice(0, 8, 1))));
}

static struct bell_tensor *
strided(struct bell_tensor *x, struct bell_dim n, struct bell_dim m)
{
    struct bell_tensor *y =
        bell_narrow(x, 0, 0, bell_dim_add(ctx, n, bell_dim_add(ctx, m, 1)));

    return bell_neg(bell_index(y, BELL_ITEMS(bell_slice(1, -1, 3))));
}

static struct bell_tensor *
by_tensor(struct bell_tensor *x, struct bell_dim n, struct bell_dim m)
{
    struct bell_tensor *i =
        bell_arange_dims(ctx, bell_dim_of(0), n, BELL_INT64);

    i = bell_sub(bell_dim_value(ctx, n, BELL_DEFAULT), bell_add_scalar(i, 1));
    return bell_index(bell_narrow(x, 0, m, n), BELL_ITEMS(bell_by(i)));
}

static struct bell_tensor *
put(struct bell_tensor *x, struct bell_dim n, struct bell_dim m)
{
    struct bell_tensor *y =
        bell_narrow(x, 0, 0, bell_dim_add(ctx, n, bell_dim_add(ctx, m, 1)));

    y = bell_index_put(y, BELL_ITEMS(bell_slice(m.word, -1, 1)),
                       bell_narrow(x, 0, 3, n));
    return bell_index_put_add(y,
                              BELL_ITEMS(bell_by(bell_arange_dims(
                                  ctx, bell_dim_of(0), m, BELL_INT64))),
                              bell_narrow(x, 0, 5, m));
}

static void
test_several(void **state)
{
    static uint8_t got[1 << 18], want[1 << 18];
    static const struct {
        const char *name;
        step_fn *fn;
        double error;
    } list[] = {{"grid", grid, 0},
                {"sums", sums_of_both, 0},
                {"product", product_of_both, 1e-5},
                {"halves", halves, 0},
                {"padded", padded, 0},
                {"sliced", sliced, 0},
                {"strided", strided, 0},
                {"by tensor", by_tensor, 0},
                {"put", put, 0}};
    static const int64_t sizes[][2] = {
        {5, 3}, {7, 7}, {1, 1}, {40, 8}, {17, 2}};
    struct bell_stats before = {.struct_size = sizeof(before)},
                      after = {.struct_size = sizeof(after)};
    struct bell_tensor *x, *y;
    struct bell_dim n, m;
    size_t d, i, k, size;

    (void)state;
    for (d = 0; d < ARRAY_LEN(devices); d++) {
        assert_int_equal(bell_context_create(devices[d], &ctx), BELL_OK);
        n = bell_symbol(ctx, "n", 1, 40);
        m = bell_symbol(ctx, "m", 1, 8);
        x = matrix(N_ROWS);
        for (i = 0; i < ARRAY_LEN(list); i++) {
            for (k = 0; k < ARRAY_LEN(sizes); k++) {
                y = list[i].fn(x, bell_dim_of(sizes[k][0]),
                               bell_dim_of(sizes[k][1]));
                size = bell_nbytes(y);
                assert_true(size <= sizeof(got));
                assert_int_equal(bell_read(y, want, size), BELL_OK);
                assert_int_equal(bell_symbol_set(ctx, n, sizes[k][0]), BELL_OK);
                assert_int_equal(bell_symbol_set(ctx, m, sizes[k][1]), BELL_OK);
                bell_context_stats(ctx, &before);
                y = list[i].fn(x, n, m);
                assert_int_equal(bell_nbytes(y), size);
                memset(got, 0xff, sizeof(got));
                if (bell_read(y, got, size) != BELL_OK)
                    fail_msg("%s: %s", list[i].name,
                             bell_error_last()->message);
                bell_context_stats(ctx, &after);
                expect_same(devices[d], list[i].name, sizes[k][0], got, want,
                            size, list[i].error);
                if (after.n_plans - before.n_plans > (k == 0))
                    fail_msg("%s, %s: run %d made a plan", devices[d],
                             list[i].name, (int)k);
            }
        }
        bell_context_destroy(ctx);
    }
}

/* How a function asks for the value of a symbol while it is captured. */
struct asking {
    struct bell_dim n;
    int how;
};

static bell_status
ask(struct bell_context *c, void *user, struct bell_tensor *const *in,
    struct bell_tensor **out)
{
    const struct asking *a = user;
    struct bell_tensor *x = bell_narrow(in[0], 0, 0, a->n), *n;
    double count = 1;
    int64_t value;

    if (a->how == 0)
        return bell_dim_now(c, a->n, &value);
    if (a->how == 1)
        count = (double)bell_numel(x);
    else if (a->how == 2)
        count = (double)bell_nbytes(x) / 4;
    if (a->how == 3) {
        assert_int_equal(bell_dim_now(c, bell_dim_of(12), &value), BELL_OK);
        assert_int_equal(bell_numel(in[0]), N_ROWS * N_COLS);
        n = bell_mul_scalar(bell_dim_value(c, a->n, BELL_DEFAULT), N_COLS);
        out[0] = bell_div(bell_sum(x, BELL_NO_DIMS, false),
                          bell_cast(n, BELL_FLOAT32));
    } else {
        out[0] = bell_mul_scalar(bell_sum(x, BELL_NO_DIMS, false), 1 / count);
    }
    return BELL_OK;
}

static void
test_asked(void **state)
{
    struct asking a;
    struct bell_jit_desc desc = {sizeof(desc), "ask", ask, &a, 1, 1};
    struct bell_tensor *x, *y;
    struct bell_jit *jit;
    float got, sum = 0;
    int i, k = 0;

    (void)state;
    assert_int_equal(bell_context_create("CPU", &ctx), BELL_OK);
    a.n = bell_symbol(ctx, "n", 1, N_ROWS);
    x = matrix(N_ROWS);
    for (a.how = 0; a.how < 3; a.how++) {
        assert_int_equal(bell_jit_create(ctx, &desc, &jit), BELL_OK);
        expect_unset(bell_jit_call(jit, &x, &y), "which is for all values");
        assert_int_equal(bell_context_status(ctx), BELL_OK);
        bell_jit_destroy(jit);
    }
    assert_int_equal(bell_jit_create(ctx, &desc, &jit), BELL_OK);
    for (i = 1; i <= N_ROWS; i += 19) {
        assert_int_equal(bell_symbol_set(ctx, a.n, i), BELL_OK);
        assert_int_equal(bell_jit_call(jit, &x, &y), BELL_OK);
        assert_int_equal(bell_read(y, &got, sizeof(got)), BELL_OK);
        for (; k < i * N_COLS; k++)
            sum += values(N_ROWS * N_COLS)[k];
        assert_true(fabsf(got - sum / (float)k) < 1e-5f);
    }
    bell_jit_destroy(jit);
    bell_context_destroy(ctx);
}

/* Bounds beside which other sizes are hard to tell: every one is told. */
static void
test_bounds(void **state)
{
    float want[64], got[64];
    struct bell_tensor *x, *y;
    struct bell_dim n;
    int64_t max, i, k;

    (void)state;
    for (max = 1; max <= 8; max++) {
        assert_int_equal(bell_context_create("CPU", &ctx), BELL_OK);
        n = bell_symbol(ctx, NULL, 1, max);
        memcpy(want, values(64), sizeof(want));
        x = bell_from_data(ctx, BELL_DIMS(8, 7), BELL_FLOAT32, want);
        for (i = 1; i <= max; i++) {
            assert_int_equal(bell_symbol_set(ctx, n, i), BELL_OK);
            y = bell_narrow(bell_narrow(x, 0, 0, n), 1, 2, 3);
            y = bell_sum(bell_unsqueeze(y, 1), BELL_DIMS(1), false);
            if (bell_read(y, got, (size_t)i * 3 * sizeof(*got)) != BELL_OK)
                fail_msg("%s", bell_error_last()->message);
            for (k = 0; k < 3 * i; k++)
                assert_true(got[k] == want[k / 3 * 7 + 2 + k % 3]);
        }
        bell_context_destroy(ctx);
    }
}

/* A large sum of a*b + c*d is two products, as that of plain sizes. */
static void
test_sum_of_products(void **state)
{
    enum {
        MOST = 2048,
        WIDE = 192,
    };
    struct bell_stats stats = {.struct_size = sizeof(stats)};
    struct bell_tensor *x, *w, *y, *terms[2];
    struct bell_dim n;
    uint64_t before;
    float *got = calloc(5 * WIDE, sizeof(*got));
    int i;

    (void)state;
    assert_non_null(got);
    assert_int_equal(bell_context_create("CPU", &ctx), BELL_OK);
    n = bell_symbol(ctx, NULL, 1, MOST);
    assert_int_equal(bell_symbol_set(ctx, n, 5), BELL_OK);
    x = bell_ones(ctx, BELL_DIMS(2, MOST, WIDE), BELL_FLOAT32);
    w = bell_ones(ctx, BELL_DIMS(2, WIDE, WIDE), BELL_FLOAT32);
    assert_int_equal(bell_realize(BELL_TENSORS(x, w)), BELL_OK);
    bell_context_stats(ctx, &stats);
    before = stats.n_kernels_planned;
    x = bell_narrow(x, 1, 0, n);
    for (i = 0; i < 2; i++)
        terms[i] =
            bell_mul(bell_unsqueeze(bell_select(x, 0, bell_dim_of(i)), 1),
                     bell_select(w, 0, bell_dim_of(i)));
    y = bell_sum(bell_add(terms[0], terms[1]), BELL_DIMS(2), false);
    if (bell_read(y, got, 5 * WIDE * sizeof(*got)) != BELL_OK)
        fail_msg("%s", bell_error_last()->message);
    for (i = 0; i < 5 * WIDE; i++)
        assert_true(got[i] == 2 * WIDE);
    bell_context_stats(ctx, &stats);
    assert_int_equal(stats.n_kernels_planned - before, 2);
    bell_context_destroy(ctx);
    free(got);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_steps),           cmocka_unit_test(test_cache),
        cmocka_unit_test(test_jit_sizes),       cmocka_unit_test(test_values),
        cmocka_unit_test(test_comparisons),     cmocka_unit_test(test_errors),
        cmocka_unit_test(test_several),         cmocka_unit_test(test_bounds),
        cmocka_unit_test(test_loops),           cmocka_unit_test(test_asked),
        cmocka_unit_test(test_sum_of_products),
    };

    return cmocka_run_group_tests_name("symbol", tests, NULL, NULL);
}
