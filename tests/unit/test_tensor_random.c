/* Random numbers: bits against a plain Threefry with published vectors,
 * ranges, moments, reproducibility, messages. */
#include "tests/unit/tensor_host.h"

#include <stdlib.h>

/* ---- the generator in plain C ---- */

static void
threefry(uint32_t x[2], const uint32_t key[2])
{
    static const int turns[8] = {13, 15, 26, 6, 17, 29, 16, 24};
    uint32_t ks[3] = {key[0], key[1], key[0] ^ key[1] ^ 0x1BD11BDA};
    int round;

    x[0] += ks[0];
    x[1] += ks[1];
    for (round = 0; round < 20; round++) {
        int by = turns[round % 8];
        x[0] += x[1];
        x[1] = (x[1] << by | x[1] >> (32 - by)) ^ x[0];
        if (round % 4 == 3) {
            uint32_t n = (uint32_t)round / 4 + 1;
            x[0] += ks[n % 3];
            x[1] += ks[(n + 1) % 3] + n;
        }
    }
}

/* src: Random123, kat_vectors, threefry2x32 of 20 rounds. */
static void
test_vectors(void **state)
{
    static const uint32_t rows[][6] = {
        {0, 0, 0, 0, 0x6b200159, 0x99ba4efe},
        {~0u, ~0u, ~0u, ~0u, 0x1cb996fc, 0xbb002be7},
        {0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344, 0xc4923a9c,
         0x483df7a0},
    };
    size_t i;

    (void)state;
    for (i = 0; i < ARRAY_LEN(rows); i++) {
        uint32_t x[2] = {rows[i][0], rows[i][1]};
        threefry(x, rows[i] + 2);
        assert_int_equal(x[0], rows[i][4]);
        assert_int_equal(x[1], rows[i][5]);
    }
}

static void
test_bits(void **state)
{
    enum {
        N = 100
    };
    uint64_t seed = 0x123456789abcdef0ull;
    uint32_t key[2] = {(uint32_t)seed, (uint32_t)(seed >> 32)}, call, i;
    double f64[N], f32[N], f16[N], ints[N];
    struct bell_tensor *t[4];

    (void)state;
    bell_manual_seed(ctx, seed);
    t[0] = bell_rand(ctx, BELL_DIMS(N), BELL_FLOAT64);
    t[1] = bell_rand(ctx, BELL_DIMS(10, 10), BELL_DEFAULT);
    t[2] = bell_rand(ctx, BELL_DIMS(N), BELL_FLOAT16);
    t[3] = bell_randint(ctx, -7, 993, BELL_DIMS(N), BELL_DEFAULT);
    for (call = 0; call < 4; call++) {
        for (i = 0; i < N; i++) {
            uint32_t x[2] = {i, call};
            threefry(x, key);
            if (call == 0)
                f64[i] = ((double)(x[0] >> 5) * 0x1p26 + (double)(x[1] >> 6)) *
                         0x1p-53;
            f32[i] = call == 1 ? (double)(x[0] >> 8) * 0x1p-24 : f32[i];
            f16[i] = call == 2 ? (double)(x[0] >> 21) * 0x1p-11 : f16[i];
            if (call == 3)
                ints[i] = (double)((uint64_t)x[0] * 1000 >> 32) - 7;
        }
    }
    expect_values(__FILE__, __LINE__, t[0], f64, N, 0);
    expect_values(__FILE__, __LINE__, t[1], f32, N, 0);
    expect_values(__FILE__, __LINE__, t[2], f16, N, 0);
    expect_values(__FILE__, __LINE__, t[3], ints, N, 0);
    assert_int_equal(bell_dtype_of(t[1]), BELL_FLOAT32);
    assert_int_equal(bell_dtype_of(t[3]), BELL_INT64);
}

/* ---- numbers ---- */

static double *
draw(struct bell_tensor *t, size_t n)
{
    double *values = malloc(n * sizeof(*values));

    assert_non_null(values);
    if (bell_read_f64(t, values, n) != BELL_OK) {
        print_error("%s\n", bell_error_last()->message);
        fail();
    }
    return values;
}

/* Mean, standard deviation and bounds of n draws. */
static void
check_moments(int line, struct bell_tensor *t, size_t n, double mean,
              double std, double low, double high)
{
    double *x = draw(t, n), sum = 0, square = 0;
    size_t i;

    for (i = 0; i < n; i++) {
        sum += x[i];
        square += x[i] * x[i];
        if (!(x[i] >= low && x[i] < high)) {
            print_error("line %d: %g is not in %g..%g\n", line, x[i], low,
                        high);
            fail();
        }
    }
    sum /= (double)n;
    square = sqrt(square / (double)n - sum * sum);
    if (fabs(sum - mean) > 5 * std / sqrt((double)n) ||
        fabs(square - std) > 5 * std / sqrt((double)n)) {
        print_error("line %d: mean %g, standard deviation %g, not %g and %g\n",
                    line, sum, square, mean, std);
        fail();
    }
    free(x);
}

static void
test_moments(void **state)
{
    enum {
        N = 20000
    };
    const double u = sqrt(1.0 / 12);

    (void)state;
    check_moments(__LINE__, bell_rand(ctx, BELL_DIMS(N), BELL_FLOAT32), N, 0.5,
                  u, 0, 1);
    check_moments(__LINE__, bell_rand(ctx, BELL_DIMS(N), BELL_BFLOAT16), N,
                  0.498, u, 0, 1);
    check_moments(__LINE__,
                  bell_uniform(ctx, BELL_DIMS(N), -3, 5, BELL_FLOAT64), N, 1,
                  8 * u, -3, 5);
    check_moments(__LINE__, bell_randn(ctx, BELL_DIMS(N), BELL_FLOAT32), N, 0,
                  1, -7, 7);
    check_moments(__LINE__, bell_randn(ctx, BELL_DIMS(N), BELL_FLOAT64), N, 0,
                  1, -7, 7);
    check_moments(__LINE__, bell_normal(ctx, BELL_DIMS(N), 5, 2, BELL_FLOAT32),
                  N, 5, 2, -9, 19);
    check_moments(__LINE__, bell_randint(ctx, 3, 5, BELL_DIMS(N), BELL_INT8), N,
                  3.5, 0.5, 3, 5);
    check_moments(__LINE__,
                  bell_rand_like(bell_zeros(ctx, BELL_DIMS(N), BELL_FLOAT32)),
                  N, 0.5, u, 0, 1);
    check_moments(__LINE__,
                  bell_randn_like(bell_zeros(ctx, BELL_DIMS(N), BELL_FLOAT32)),
                  N, 0, 1, -7, 7);
    check_moments(__LINE__,
                  bell_scaled_uniform(ctx, BELL_DIMS(N), BELL_FLOAT32), N, 0,
                  2 * u / sqrt(N), -1 / sqrt(N), 1 / sqrt(N));
    check_moments(__LINE__,
                  bell_glorot_uniform(ctx, BELL_DIMS(100, 200), BELL_DEFAULT),
                  N, 0, 2 * u * sqrt(6.0 / 300), -sqrt(6.0 / 300) - 1e-8,
                  sqrt(6.0 / 300));
    check_moments(
        __LINE__,
        bell_kaiming_uniform(ctx, BELL_DIMS(100, 20, 5, 2), 0, BELL_DEFAULT), N,
        0, 2 * u * sqrt(6.0 / 200), -sqrt(6.0 / 200) - 1e-8, sqrt(6.0 / 200));
    check_moments(
        __LINE__,
        bell_kaiming_normal(ctx, BELL_DIMS(100, 200), 1, BELL_DEFAULT), N, 0,
        sqrt(1.0 / 200), -1, 1);
}

static void
test_again(void **state)
{
    double *a, *b, *c;
    size_t i, n_same = 0;

    (void)state;
    bell_manual_seed(ctx, 7);
    a = draw(bell_rand(ctx, BELL_DIMS(50), BELL_FLOAT64), 50);
    b = draw(bell_rand(ctx, BELL_DIMS(50), BELL_FLOAT64), 50);
    bell_manual_seed(ctx, 7);
    c = draw(bell_rand(ctx, BELL_DIMS(50), BELL_FLOAT64), 50);
    assert_memory_equal(a, c, 50 * sizeof(*a));
    for (i = 0; i < 50; i++)
        n_same += a[i] == b[i];
    assert_int_equal(n_same, 0);
    free(a);
    free(b);
    free(c);
}

static void
test_randperm(void **state)
{
    double *p = draw(bell_randperm(ctx, 3000), 3000), *q;
    bool seen[3000] = {false};
    size_t i, n_fixed = 0;

    (void)state;
    for (i = 0; i < 3000; i++) {
        assert_true(p[i] >= 0 && p[i] < 3000 && !seen[(size_t)p[i]]);
        seen[(size_t)p[i]] = true;
        n_fixed += (size_t)p[i] == i;
    }
    assert_in_range(n_fixed, 0, 20);
    q = draw(bell_randperm(ctx, 3000), 3000);
    assert_memory_not_equal(p, q, 3000 * sizeof(*p));
    free(p);
    free(q);
    EXPECT(bell_randperm(ctx, 1), 0);
}

/* Each order of three comes as often as another: 480 draws, six orders. */
static void
test_randperm_fair(void **state)
{
    size_t counts[9] = {0}, i;

    (void)state;
    for (i = 0; i < 480; i++) {
        double *p = draw(bell_randperm(ctx, 3), 3);
        counts[3 * (size_t)p[0] + (size_t)p[1]]++;
        free(p);
    }
    for (i = 0; i < 9; i++)
        assert_in_range(counts[i], i % 4 ? 50 : 0, i % 4 ? 115 : 0);
}

static void
test_dropout(void **state)
{
    enum {
        N = 10000
    };
    struct bell_tensor *x = bell_requires_grad(
                           bell_full(ctx, BELL_DIMS(N), 3, BELL_FLOAT64), true),
                       *y;
    size_t i, n_zero = 0;
    double *v, *g;

    (void)state;
    EXPECT(bell_dropout(T(V(1, 2), 2), 0.5), 1, 2); /* not training */
    bell_set_training(ctx, true);
    y = bell_dropout(x, 0.25);
    assert_int_equal(bell_backward(bell_sum(y, BELL_NO_DIMS, false)), BELL_OK);
    v = draw(y, N);
    g = draw(bell_grad(x), N);
    for (i = 0; i < N; i++) {
        assert_true(v[i] == 0 || fabs(v[i] - 4) < 1e-12);
        /* the gradient sees the same choice */
        assert_true((v[i] == 0) == (g[i] == 0));
        n_zero += v[i] == 0;
    }
    assert_in_range(n_zero, 2300, 2700);
    free(v);
    free(g);
    EXPECT(bell_dropout(T(V(1, 2), 2), 0), 1, 2);
    EXPECT(bell_dropout(T(V(1, 2), 2), 1), 0, 0);
    EXPECT_ERROR(bell_dropout(x, 1.5),
                 "bell_dropout: probability 1.5 is not in 0..1");
    bell_set_training(ctx, false);
}

static void
test_messages(void **state)
{
    (void)state;
    EXPECT_ERROR(bell_rand(ctx, BELL_DIMS(2), BELL_INT32),
                 "bell_rand: of int32, not a float dtype");
    EXPECT_ERROR(bell_randint(ctx, 5, 5, BELL_DIMS(2), BELL_DEFAULT),
                 "bell_randint: low 5, high 5: expected low < high, and 2^32 "
                 "numbers at most");
    EXPECT_ERROR(bell_uniform(ctx, BELL_DIMS(2), 2, 1, BELL_DEFAULT),
                 "bell_uniform: low is 2, high 1: expected low <= high");
    EXPECT_ERROR(
        bell_normal(ctx, BELL_DIMS(2), 0, -1, BELL_DEFAULT),
        "bell_normal: the standard deviation is -1; expected 0 or more");
    EXPECT_ERROR(bell_rand(ctx, BELL_DIMS(1ll << 33), BELL_DEFAULT),
                 "bell_rand: 8589934592 elements, more than 2^32 in one call");
    EXPECT_ERROR(bell_glorot_uniform(ctx, BELL_DIMS(3), BELL_DEFAULT),
                 "bell_glorot_uniform: a weight of shape (3,) has no fan-in "
                 "and fan-out");
    assert_null(bell_rand(NULL, BELL_DIMS(1), BELL_DEFAULT));
}

int
main(void)
{
#define TEST(name)                                                             \
    cmocka_unit_test_setup_teardown(name, make_context, end_context)
    const struct CMUnitTest tests[] = {
        TEST(test_vectors), TEST(test_bits),     TEST(test_moments),
        TEST(test_again),   TEST(test_randperm), TEST(test_randperm_fair),
        TEST(test_dropout), TEST(test_messages),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
