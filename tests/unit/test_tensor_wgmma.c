/* Products that cards with wgmma multiply by it, against float64: every way
 * that operands lie, sizes that tiles do not divide, batches, and what is
 * computed of the results in the same kernel; and 8-bit floats that become
 * halves. On the device that BELL_DEVICE
 * names; where that has no wgmma, they are products like any other. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/bits.h"
#include "doorbell/ops.h"
#include "tests/unit/sanitized.h"

struct row {
    int64_t batch, m, n, k;
    bool turn_x, turn_y;
    enum {
        PLAIN,
        LAYER,
        RESIDUAL,
        GELU
    } then;
};

static const struct row rows[] = {
    {1, 256, 512, 256, false, false, PLAIN},
    {1, 256, 512, 192, false, true, PLAIN},
    {1, 256, 512, 160, true, false, PLAIN},
    {1, 256, 512, 144, true, true, PLAIN},
    {1, 512, 1024, 320, false, false, LAYER},
    {1, 1000, 504, 208, false, true, LAYER},
    {1, 504, 1000, 208, true, false, RESIDUAL},
    {1, 520, 776, 144, true, true, RESIDUAL},
    {1, 500, 512, 1008, false, false, PLAIN},
    {1, 512, 520, 136, true, false, GELU},
    {3, 256, 256, 144, false, false, LAYER},
    {2, 264, 256, 272, true, true, PLAIN},
    {1, 256, 512, 320, false, true, PLAIN},
    {2, 264, 504, 544, false, true, LAYER},
    {1, 64, 48, 4096, false, false, LAYER}, /* in parts, on small chips */
    {1, 16, 128, 8192, false, true, PLAIN},
    {1, 1032, 1024, 256, true, false, LAYER}, /* words: both turned first */
    /* ODD: stored in rows of 16 bytes' multiples first, with zeros or turned */
    {1, 259, 263, 3945, false, true, PLAIN},
    {1, 259, 261, 3976, true, false, LAYER},
    /* few columns */
    {1, 1000, 64, 320, false, false, LAYER},
    {2, 1024, 56, 208, true, true, PLAIN},
    /* the least that are stored otherwise first */
    {1, 257, 263, 259, false, false, PLAIN},
    /* as many tiles as there are mbarriers */
    {1, 128, 512, 512, false, false, PLAIN},
};

#define ODD 17 /* the first of them */

static const struct {
    enum bell_dtype x, y, out;
    double result; /* relative, of rounding the result */
    uint32_t rows; /* those that are tried, a bit each */
} dtypes[] = {
    {BELL_BFLOAT16, BELL_BFLOAT16, BELL_BFLOAT16, 0x1p-8, 0x7affff},
    {BELL_FLOAT16, BELL_FLOAT16, BELL_FLOAT16, 0x1p-11, 0x4c16af},
    {BELL_FLOAT8_E4M3FN, BELL_FLOAT8_E4M3FN, BELL_FLOAT32, 0x1p-24, 0x202059},
    {BELL_FLOAT8_E5M2, BELL_FLOAT16, BELL_FLOAT16, 0x1p-11, 0x0884},
    {BELL_FLOAT32, BELL_FLOAT32, BELL_FLOAT32, 0x1p-24, 0x92a4f},
};

static uint64_t rng = 7;

/* Random values of that dtype; *out_values holds them as they were rounded. */
static struct bell_tensor *
make(struct bell_context *ctx, enum bell_dtype dtype, const int64_t *shape,
     double **out_values)
{
    size_t n = (size_t)(shape[0] * shape[1] * shape[2]), i;
    double *v = malloc(n * sizeof(*v));
    struct bell_tensor *t;

    assert_non_null(v);
    for (i = 0; i < n; i++) {
        rng = rng * 6364136223846793005ull + 1442695040888963407ull;
        v[i] = (double)(int64_t)(rng >> 33) * 0x1p-30 - 1;
    }
    t = bell_cast(bell_from_data(ctx, shape, 3, BELL_FLOAT64, v), dtype);
    if (bell_read_f64(t, v, n) != BELL_OK)
        fail_msg("%s", bell_error_last()->message);
    *out_values = v;
    return t;
}

UNSANITIZED static double
then(const struct row *r, double sum, double bias, double z)
{
    switch (r->then) {
    case LAYER:
        return sum + bias > 0 ? sum + bias : 0;
    case RESIDUAL:
        return sum + z;
    case GELU:
        return 0.5 * sum * (1 + erf(sum * 0.70710678118654752));
    case PLAIN:
    default:
        return sum;
    }
}

/* Some rows of each batch: all take long. */
UNSANITIZED static void
check(const struct row *r, size_t d, double *const v[4], const double *got)
{
    int64_t b, i, j, l, step = r->m * r->n * r->k >> 24 | 1;

    for (b = 0; b < r->batch; b++) {
        for (i = 0; i < r->m; i += step) {
            for (j = 0; j < r->n; j++) {
                double sum = 0, size = 0, bound, want;
                int64_t at = (b * r->m + i) * r->n + j;
                for (l = 0; l < r->k; l++) {
                    int64_t x = r->turn_x ? l * r->m + i : i * r->k + l;
                    int64_t y = r->turn_y ? j * r->k + l : l * r->n + j;
                    double p =
                        v[0][b * r->m * r->k + x] * v[1][b * r->k * r->n + y];
                    sum += p;
                    size += fabs(p);
                }
                if (dtypes[d].x == BELL_FLOAT32) /* factors are cut */
                    size += 0x1p22 * 0x1p-9 * size / sqrt((double)r->k);
                want = then(r, sum, v[2][j], v[3][at]);
                bound = 0x1p-22 * (size + 1) * sqrt((double)r->k) +
                        2 * dtypes[d].result * (fabs(want) + fabs(sum) + 1);
                if (!(fabs(got[at] - want) <= bound))
                    fail_msg("%s of %d x (%d x %d x %d)%s%s, %d: [%d, %d, %d] "
                             "is %.9g, not %.9g",
                             bell_dtype_name(dtypes[d].x), (int)r->batch,
                             (int)r->m, (int)r->n, (int)r->k,
                             r->turn_x ? " x.T" : "", r->turn_y ? " y.T" : "",
                             (int)r->then, (int)b, (int)i, (int)j, got[at],
                             want);
            }
        }
    }
}

static void
multiply(struct bell_context *ctx, const struct row *r, size_t d)
{
    size_t n = (size_t)(r->batch * r->m * r->n), i;
    int64_t x_shape[3] = {r->batch, r->turn_x ? r->k : r->m,
                          r->turn_x ? r->m : r->k};
    int64_t y_shape[3] = {r->batch, r->turn_y ? r->n : r->k,
                          r->turn_y ? r->k : r->n};
    int64_t bias_shape[3] = {1, 1, r->n}, z_shape[3] = {r->batch, r->m, r->n};
    enum bell_dtype out =
        dtypes[d].result < 0x1p-20 ? BELL_FLOAT32 : dtypes[d].x;
    double *v[4], *got = malloc(n * sizeof(*got));
    struct bell_tensor *x, *y, *bias, *z;

    assert_non_null(got);
    assert_int_equal(bell_scope_begin(ctx), BELL_OK);
    x = make(ctx, dtypes[d].x, x_shape, &v[0]);
    y = make(ctx, dtypes[d].y, y_shape, &v[1]);
    bias = make(ctx, out, bias_shape, &v[2]);
    z = make(ctx, out, z_shape, &v[3]);
    if (r->turn_x)
        x = bell_transpose(x, 1, 2);
    if (r->turn_y)
        y = bell_transpose(y, 1, 2);
    x = bell_matmul(x, y);
    if (r->then == LAYER)
        x = bell_relu(bell_add(x, bias));
    else if (r->then == RESIDUAL)
        x = bell_add(x, z);
    else if (r->then == GELU)
        x = bell_gelu(x, false);
    if (bell_read_f64(x, got, n) != BELL_OK)
        fail_msg("%s", bell_error_last()->message);
    check(r, d, v, got);
    assert_int_equal(bell_scope_end(ctx), BELL_OK);
    for (i = 0; i < 4; i++)
        free(v[i]);
    free(got);
}

static void
test_products(void **state)
{
    const size_t *first = *state;
    struct bell_context *ctx = NULL;
    size_t i, d;

    assert_int_equal(bell_context_create(NULL, &ctx), BELL_OK);
    for (d = 0; d < ARRAY_LEN(dtypes); d++) {
        if (dtypes[d].x != BELL_FLOAT32)
            assert_int_equal(bell_context_set_math(ctx, 0), BELL_OK);
        else
            assert_int_equal(bell_context_set_math(ctx, BELL_MATH_TF32),
                             BELL_OK);
        for (i = *first; i < ARRAY_LEN(rows); i++) {
            if (IS_SANITIZED && (i + d) % 3 != 0)
                continue;
            if (dtypes[d].rows >> i & 1)
                multiply(ctx, &rows[i], d);
        }
    }
    bell_context_destroy(ctx);
}

/* ---- integers ---- */

/* int8 as int32, of odd rows: exact. */
static void
test_integers(void **state)
{
    static const int64_t m = 260, n = 257, k = 259;
    struct bell_context *ctx = NULL;
    int8_t *x = malloc((size_t)(m * k)), *y = malloc((size_t)(k * n));
    int32_t *got = malloc((size_t)(m * n) * sizeof(*got));
    struct bell_tensor *a, *b;
    int64_t i, j, l;

    (void)state;
    assert_true(x && y && got);
    for (i = 0; i < m * k; i++)
        x[i] = (int8_t)(i * 7919 >> 3);
    for (i = 0; i < k * n; i++)
        y[i] = (int8_t)(i * 104729 >> 5);
    assert_int_equal(bell_context_create(NULL, &ctx), BELL_OK);
    a = bell_from_data(ctx, BELL_DIMS(m, k), BELL_INT8, x);
    b = bell_from_data(ctx, BELL_DIMS(k, n), BELL_INT8, y);
    a = bell_matmul(bell_cast(a, BELL_INT32), bell_cast(b, BELL_INT32));
    if (bell_read(a, got, (size_t)(m * n) * sizeof(*got)) != BELL_OK)
        fail_msg("%s", bell_error_last()->message);
    for (i = 0; i < m; i++) {
        for (j = 0; j < n; j++) {
            int32_t want = 0;
            for (l = 0; l < k; l++)
                want += x[i * k + l] * y[l * n + j];
            if (got[i * n + j] != want)
                fail_msg("int8, row %d, column %d: %d, not %d", (int)i, (int)j,
                         got[i * n + j], want);
        }
    }
    bell_context_destroy(ctx);
    free(x);
    free(y);
    free(got);
}

/* ---- 8-bit floats ---- */

/* What the bits say: exponents of 4 or 5 bits. */
static double
small_value(int bits, bool e5m2)
{
    int fraction_bits = e5m2 ? 2 : 3, most = e5m2 ? 31 : 15;
    int fraction = bits & ((1 << fraction_bits) - 1);
    int exponent = (bits & 0x7f) >> fraction_bits;
    double v;

    if (e5m2 ? exponent == most && fraction : (bits & 0x7f) == 0x7f)
        return NAN;
    if (e5m2 && exponent == most)
        v = INFINITY;
    else if (exponent == 0)
        v = ldexp(fraction, 1 - most / 2 - fraction_bits);
    else
        v = ldexp(fraction + (1 << fraction_bits),
                  exponent - most / 2 - fraction_bits);
    return bits & 0x80 ? -v : v;
}

/* All of them, as each wider float; of vectors, and of what is left of one. */
static void
test_conversions(void **state)
{
    static const enum bell_dtype to[] = {BELL_FLOAT16, BELL_FLOAT32,
                                         BELL_FLOAT64, BELL_BFLOAT16};
    static const enum bell_dtype from[] = {BELL_FLOAT8_E4M3FN,
                                           BELL_FLOAT8_E5M2};
    struct bell_context *ctx = NULL;
    uint8_t bytes[256];
    double got[256];
    size_t i, f, t, n;

    (void)state;
    assert_int_equal(bell_context_create(NULL, &ctx), BELL_OK);
    for (i = 0; i < 256; i++)
        bytes[i] = (uint8_t)i;
    for (n = 251; n <= 256; n += 5) {
        for (f = 0; f < ARRAY_LEN(from) * ARRAY_LEN(to); f++) {
            int64_t shape = (int64_t)n;
            struct bell_tensor *x =
                bell_from_data(ctx, &shape, 1, from[f % 2], bytes);
            t = f / 2;
            if (bell_read_f64(bell_cast(x, to[t]), got, n) != BELL_OK)
                fail_msg("%s", bell_error_last()->message);
            for (i = 0; i < n; i++) {
                double want = small_value((int)i, f % 2);
                if (!(got[i] == want || (isnan(got[i]) && isnan(want))))
                    fail_msg("%s 0x%02x as %s is %g, not %g",
                             bell_dtype_name(from[f % 2]), (unsigned)i,
                             bell_dtype_name(to[t]), got[i], want);
            }
        }
    }
    bell_context_destroy(ctx);
}

/* With the argument `odd` the rows from ODD on alone. */
int
main(int argc, char **argv)
{
    size_t first = argc > 1 && strcmp(argv[1], "odd") == 0 ? ODD : 0;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_prestate(test_products, &first),
        cmocka_unit_test(test_integers),
        cmocka_unit_test(test_conversions),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
