/* Running sums, which are one kernel, against plain loops, on the device that
 * BELL_DEVICE names. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/bits.h"
#include "doorbell/ops.h"
#include "doorbell/stats.h"
#include "doorbell/dim.h"
#include "doorbell/tensor.h"
#include "tests/unit/expect.h"

static struct bell_context *ctx;

static double *
read_some(struct bell_tensor *t, size_t n)
{
    double *x = malloc((n + 1) * sizeof(*x));

    assert_non_null(x);
    expect_ok(bell_read_f64(t, x, n));
    return x;
}

static double *
read_all(struct bell_tensor *t)
{
    return read_some(t, (size_t)bell_numel(t));
}

static void
expect_sums(const char *what, struct bell_tensor *t, const double *want,
            size_t n, double eps)
{
    double *got = read_some(t, n);
    size_t i;

    for (i = 0; i < n; i++) {
        if (!(fabs(got[i] - want[i]) <= eps * (1 + fabs(want[i]))))
            fail_msg("%s, %s: element %d is %g, not %g",
                     bell_context_device(ctx), what, (int)i, got[i], want[i]);
    }
    free(got);
}

enum running {
    SUM,
    PRODUCT,
    MAXIMUM,
    MINIMUM,
    N_RUNNING
};

static double
join(enum running op, double x, double y)
{
    return op == SUM       ? x + y
           : op == PRODUCT ? x * y
           : op == MAXIMUM ? fmax(x, y)
                           : fmin(x, y);
}

/* What runs along the middle of a x n x b numbers. */
static void
run_along(enum running op, double *x, int64_t a, int64_t n, int64_t b)
{
    int64_t i;

    for (i = 0; i < a * n * b; i++) {
        if (i / b % n)
            x[i] = join(op, x[i - b], x[i]);
    }
}

/* Sums a x n x b numbers along the middle, forwards or backwards. */
static void
sum_up(double *x, int64_t a, int64_t n, int64_t b, bool back)
{
    int64_t i, j, k;

    for (i = 0; i < a; i++) {
        for (k = 0; k < b; k++) {
            double sum = 0;
            for (j = 0; j < n; j++) {
                double *at = x + (i * n + (back ? n - 1 - j : j)) * b + k;
                *at = sum += *at;
            }
        }
    }
}

static struct bell_tensor *
numbers(int64_t a, int64_t n, int64_t b, enum bell_dtype dtype)
{
    struct bell_tensor *x = bell_randn(ctx, BELL_DIMS(a, n, b), BELL_FLOAT32);

    /* quarters: halves hold their sums, or nearly */
    x = bell_round(bell_mul(x, bell_scalar(ctx, 4)));
    if (dtype == BELL_FLOAT32 || dtype == BELL_FLOAT64)
        x = bell_div(x, bell_scalar(ctx, 4));
    x = bell_cast(x, dtype);
    expect_ok(bell_realize1(x));
    return x;
}

/* How many kernels are planned for t. */
static uint64_t
count_kernels(struct bell_tensor *t)
{
    struct bell_stats before = {.struct_size = sizeof(before)},
                      after = {.struct_size = sizeof(after)};

    bell_context_stats(ctx, &before);
    expect_ok(bell_realize1(t));
    bell_context_stats(ctx, &after);
    return after.n_kernels_planned - before.n_kernels_planned;
}

struct shape {
    enum bell_dtype dtype;
    int64_t a, n, b; /* along the middle */
    uint64_t kernels;
};

static const struct shape shapes[] = {
    {BELL_FLOAT32, 3, 4096, 1, 1},  {BELL_FLOAT32, 5, 1001, 1, 1},
    {BELL_FLOAT32, 2, 5000, 1, 1},  {BELL_FLOAT32, 70, 9, 1, 1},
    {BELL_FLOAT32, 33, 100, 1, 1},  {BELL_FLOAT32, 1, 64, 40, 1},
    {BELL_FLOAT32, 2, 333, 37, 1},  {BELL_FLOAT32, 1, 17, 3, 1},
    {BELL_FLOAT32, 2, 2500, 8, 1},  {BELL_FLOAT32, 1, 40000, 1, 4},
    {BELL_FLOAT32, 1, 16411, 1, 5}, {BELL_BFLOAT16, 3, 264, 1, 1},
    {BELL_FLOAT16, 2, 100, 65, 1},  {BELL_FLOAT64, 2, 300, 1, 1},
    {BELL_INT8, 4, 515, 1, 1},      {BELL_INT64, 1, 260, 20, 1},
    {BELL_BOOL, 2, 77, 1, 1},
};

static void
test_values(void **state)
{
    static struct bell_tensor *(*const calls[])(struct bell_tensor *, int) = {
        [SUM] = bell_cumsum,
        [PRODUCT] = bell_cumprod,
        [MAXIMUM] = bell_cummax,
        [MINIMUM] = bell_cummin,
    };
    size_t i;

    (void)state;
    for (i = 0; i < N_RUNNING * ARRAY_LEN(shapes); i++) {
        const struct shape *s = &shapes[i / N_RUNNING];
        enum running op = (enum running)(i % N_RUNNING);
        double eps = s->dtype == BELL_BFLOAT16  ? 1.0 / 256
                     : s->dtype == BELL_FLOAT16 ? 1.0 / 2048
                                                : 1e-6;
        struct bell_tensor *x, *y;
        double *want;
        char what[80];

        expect_ok(bell_scope_begin(ctx));
        x = numbers(s->a, s->n, s->b, s->dtype);
        if (op == PRODUCT) /* 1 and -1 */
            x = bell_sub(bell_scalar(ctx, 1),
                         bell_mul(bell_cast(bell_lt(x, bell_scalar(ctx, 0)),
                                            s->dtype == BELL_BOOL ? BELL_INT8
                                                                  : s->dtype),
                                  bell_scalar(ctx, 2)));
        expect_ok(bell_realize1(x));
        want = read_all(x);
        run_along(op, want, s->a, s->n, s->b);
        y = calls[op](x, 1);
        snprintf(what, sizeof(what), "%d of %dx%dx%d of %s", (int)op, (int)s->a,
                 (int)s->n, (int)s->b, bell_dtype_name(s->dtype));
        /* extremes of booleans are those of numbers, and cast */
        if (count_kernels(y) >
            s->kernels + (s->dtype == BELL_BOOL && op >= MAXIMUM))
            fail_msg("%s: more than %d kernels", what, (int)s->kernels);
        expect_sums(what, y, want, (size_t)bell_numel(x), eps);
        free(want);
        expect_ok(bell_scope_end(ctx));
    }
}

/* The summands are computed on the way, and need not be loaded; the use of the
 * sums is another kernel. */
static void
test_of_what(void **state)
{
    enum {
        A = 3,
        N = 203
    };
    double want[A * N], *x0;
    struct bell_tensor *x, *y;
    int i, j;

    (void)state;
    x = numbers(A, N, 1, BELL_FLOAT32);
    x0 = read_all(x);
    for (i = 0; i < A * N; i++)
        want[i] = 2 * x0[i] + i % N;
    sum_up(want, A, N, 1, false);
    y = bell_reshape(bell_arange(ctx, 0, N, 1, BELL_FLOAT32), BELL_DIMS(N, 1));
    y = bell_cumsum(bell_add(bell_mul(x, bell_scalar(ctx, 2)), y), 1);
    assert_int_equal(count_kernels(y), 1);
    expect_sums("of a sum", y, want, A * N, 1e-6);
    for (i = 0; i < A * N; i++)
        want[i] = i % N + 1;
    y = bell_cumsum(bell_ones(ctx, BELL_DIMS(A, N), BELL_FLOAT32), 1);
    expect_sums("of ones", y, want, A * N, 0);
    /* of sums of rows, which come first; with zeros around */
    for (i = 0; i < A; i++) {
        double sum = 0;
        for (j = 0; j < N; j++)
            sum += x0[i * N + j];
        want[i] = sum;
    }
    y = bell_sum(x, BELL_DIMS(1, 2), false);
    y = bell_pad(y, BELL_DIMS(4, 10), 0);
    y = bell_cumsum(y, 0);
    for (i = 0; i < A + 14; i++) {
        double sum = 0;
        for (j = 0; j < A && j <= i - 4; j++)
            sum += want[j];
        want[A + i] = sum;
    }
    expect_sums("of sums", y, want + A, A + 14, 1e-5);
    free(x0);
}

/* Runs that are stored apart: column 1 of 3, as they are and turned about. */
static void
test_apart(void **state)
{
    static const int64_t runs[][2] = {{1, 4},   {1, 64}, {1, 67}, {1, 5000},
                                      {2, 128}, {3, 30}, {40, 8}};
    size_t i;
    int turned;

    (void)state;
    for (i = 0; i < 2 * ARRAY_LEN(runs); i++) {
        int64_t a = runs[i / 2][0], n = runs[i / 2][1], at, j;
        struct bell_tensor *x, *y, *all;
        double *want, *part;

        turned = i % 2;
        expect_ok(bell_scope_begin(ctx));
        x = numbers(a, n, 1, BELL_FLOAT32);
        part = read_all(x);
        sum_up(part, a, n, 1, false);
        all = numbers(a, n, 3, BELL_FLOAT32);
        want = read_all(all);
        for (at = 0; at < a * n; at++) {
            j = turned ? at / n * n + n - 1 - at % n : at;
            want[3 * j + 1] = part[at];
        }
        y = bell_cumsum(x, 1);
        y = turned ? bell_flip(y, BELL_DIMS(1)) : y;
        all = bell_assign_slice(all, BELL_DIMS(0, 0, 1), y);
        expect_sums("apart", all, want, (size_t)(3 * a * n), 1e-6);
        free(part);
        free(want);
        expect_ok(bell_scope_end(ctx));
    }
}

/* The gradient of running sums is running sums from behind, in a kernel too. */
static void
test_gradient(void **state)
{
    enum {
        A = 2,
        N = 301,
        B = 5
    };
    struct bell_tensor *x, *g, *grad;
    double *want;

    (void)state;
    x = numbers(A, N, B, BELL_FLOAT32);
    g = numbers(A, N, B, BELL_FLOAT32);
    want = read_all(g);
    sum_up(want, A, N, B, true);
    expect_ok(bell_vjp(bell_cumsum(x, 1), g, &x, 1, &grad));
    assert_int_equal(count_kernels(grad), 1);
    expect_sums("gradient", grad, want, A * N * B, 1e-6);
    free(want);
}

/* One plan for all lengths of a symbol. */
static void
test_symbol(void **state)
{
    static const int64_t sizes[] = {300, 1, 37, 512};
    struct bell_tensor *x, *y;
    struct bell_dim n;
    double *want;
    size_t i;

    (void)state;
    x = numbers(4, 512, 1, BELL_FLOAT32);
    n = bell_symbol(ctx, "n", 1, 512);
    for (i = 0; i < ARRAY_LEN(sizes); i++) {
        int64_t now = sizes[i];
        expect_ok(bell_scope_begin(ctx));
        want = read_all(bell_narrow(x, 1, 0, now));
        sum_up(want, 4, now, 1, false);
        expect_ok(bell_symbol_set(ctx, n, now));
        y = bell_cumsum(bell_narrow(x, 1, 0, n), 1);
        expect_sums("of a symbol's size", y, want, (size_t)(4 * now), 1e-6);
        free(want);
        expect_ok(bell_scope_end(ctx));
    }
}

/* Columns of few rows: several threads share one, and each adds what those
 * before it have. Narrow numbers are made in the same kernel. */
static void
test_columns(void **state)
{
    static const enum bell_dtype dtypes[] = {BELL_FLOAT32, BELL_FLOAT8_E4M3FN,
                                             BELL_FLOAT8_E5M2};
    static const int64_t sizes[] = {17, 33, 5};
    struct bell_tensor *x = numbers(1, 9, 33, BELL_FLOAT32), *y;
    struct bell_dim n = bell_symbol(ctx, "n", 1, 33);
    enum bell_dtype dtype;
    double *want;
    size_t i;

    (void)state;
    for (i = 0; i < 2 * ARRAY_LEN(dtypes) * ARRAY_LEN(sizes); i++) {
        int64_t now = sizes[i / 2 % ARRAY_LEN(sizes)];
        dtype = dtypes[i / 2 / ARRAY_LEN(sizes)];
        expect_ok(bell_scope_begin(ctx));
        want = read_all(bell_cast(bell_narrow(x, 2, 0, now), dtype));
        sum_up(want, 1, 9, now, false);
        expect_ok(bell_symbol_set(ctx, n, now));
        y = bell_narrow(x, 2, 0, i & 1 ? n : bell_dim_of(now));
        y = bell_cumsum(bell_cast(y, dtype), 1);
        expect_sums("of columns", y, want, (size_t)(9 * now), 1e-6);
        free(want);
        expect_ok(bell_scope_end(ctx));
    }
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_values), cmocka_unit_test(test_of_what),
        cmocka_unit_test(test_apart),  cmocka_unit_test(test_gradient),
        cmocka_unit_test(test_symbol), cmocka_unit_test(test_columns),
    };
    int failed;

    if (bell_context_create(NULL, &ctx) != BELL_OK)
        return 77;
    failed = cmocka_run_group_tests(tests, NULL, NULL);
    bell_context_destroy(ctx);
    return failed;
}
