/* Matrix products of every float dtype against float64, on the device that
 * BELL_DEVICE names: sizes that fill tiles and odd ones, either operand
 * transposed, batches. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/bits.h"
#include "doorbell/ops.h"

struct row {
    int64_t batch, m, n, k;
    bool turn_x, turn_y;
};

static const struct row rows[] = {
    {1, 256, 256, 256, false, false}, {1, 256, 256, 256, true, true},
    {1, 100, 70, 50, false, true},    {1, 33, 129, 65, true, false},
    {1, 17, 16, 300, false, false},   {3, 48, 40, 24, false, false},
};

/* What rounding may do: of the sum, and of the result. */
static const struct {
    enum bell_dtype dtype;
    double sum, result, least;
} dtypes[] = {
    {BELL_FLOAT16, 0x1p-24, 0x1p-11, 0x1p-25},
    {BELL_BFLOAT16, 0x1p-24, 0x1p-8, 0},
    {BELL_FLOAT32, 0x1p-24, 0x1p-24, 0},
    {BELL_FLOAT64, 0x1p-53, 0x1p-53, 0},
};

static uint64_t rng = 11;

static double
next_value(void)
{
    rng = rng * 6364136223846793005ull + 1442695040888963407ull;
    return (double)(int64_t)(rng >> 33) * 0x1p-30 - 1;
}

/* Random values of that dtype; *out_values holds them as they were rounded. */
static struct bell_tensor *
make(struct bell_context *ctx, enum bell_dtype dtype, int64_t batch,
     int64_t rows_n, int64_t cols, double **out_values)
{
    int64_t shape[3] = {batch, rows_n, cols};
    size_t n = (size_t)(batch * rows_n * cols), i;
    double *v = malloc(n * sizeof(*v));
    struct bell_tensor *t;

    assert_non_null(v);
    for (i = 0; i < n; i++)
        v[i] = next_value();
    t = bell_cast(bell_from_data(ctx, BELL_FLOAT64, shape, 3, v), dtype);
    assert_int_equal(bell_read_f64(t, v, n), BELL_OK);
    *out_values = v;
    return t;
}

static void
check(const struct row *r, size_t d, const double *x, const double *y,
      const double *got)
{
    int64_t b, i, j, l;

    for (b = 0; b < r->batch; b++) {
        for (i = 0; i < r->m; i++) {
            for (j = 0; j < r->n; j++) {
                double sum = 0, size = 0, bound, value = *got++;
                for (l = 0; l < r->k; l++) {
                    int64_t at_x = r->turn_x ? l * r->m + i : i * r->k + l;
                    int64_t at_y = r->turn_y ? j * r->k + l : l * r->n + j;
                    double p =
                        x[b * r->m * r->k + at_x] * y[b * r->k * r->n + at_y];
                    sum += p;
                    size += fabs(p);
                }
                bound = dtypes[d].sum * size * (double)(r->k + 2) +
                        dtypes[d].result * fabs(sum) + dtypes[d].least;
                if (!(fabs(value - sum) <= bound))
                    fail_msg("%s of %d x (%d x %d x %d): [%d, %d, %d] is %.9g, "
                             "not %.9g",
                             bell_dtype_name(dtypes[d].dtype), (int)r->batch,
                             (int)r->m, (int)r->n, (int)r->k, (int)b, (int)i,
                             (int)j, value, sum);
            }
        }
    }
}

static void
multiply(struct bell_context *ctx, const struct row *r, size_t d)
{
    enum bell_dtype dtype = dtypes[d].dtype;
    size_t n = (size_t)(r->batch * r->m * r->n);
    double *x, *y, *got = malloc(n * sizeof(*got));
    struct bell_tensor *a, *b;

    assert_non_null(got);
    assert_int_equal(bell_scope_begin(ctx), BELL_OK);
    a = make(ctx, dtype, r->batch, r->turn_x ? r->k : r->m,
             r->turn_x ? r->m : r->k, &x);
    b = make(ctx, dtype, r->batch, r->turn_y ? r->n : r->k,
             r->turn_y ? r->k : r->n, &y);
    if (r->turn_x)
        a = bell_transpose(a, 1, 2);
    if (r->turn_y)
        b = bell_transpose(b, 1, 2);
    if (bell_read_f64(bell_matmul(a, b), got, n) != BELL_OK)
        fail_msg("%s", bell_error_last()->message);
    check(r, d, x, y, got);
    assert_int_equal(bell_scope_end(ctx), BELL_OK);
    free(x);
    free(y);
    free(got);
}

static void
test_products(void **state)
{
    struct bell_context *ctx;
    size_t i, d;

    (void)state;
    if (bell_context_create(NULL, &ctx) != BELL_OK)
        fail_msg("%s", bell_error_last()->message);
    for (d = 0; d < ARRAY_LEN(dtypes); d++) {
        for (i = 0; i < ARRAY_LEN(rows); i++)
            multiply(ctx, &rows[i], d);
    }
    bell_context_destroy(ctx);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_products)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
