/* Matrix products of every float dtype against float64, on the device that
 * BELL_DEVICE names: sizes that fill tiles and odd ones, either operand
 * transposed, batches; those of 8-bit integers, and a sum of several, exactly.
 * And convolutions of halves. */
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
#include "tests/unit/share.h"

struct row {
    int64_t batch, m, n, k;
    bool turn_x, turn_y;
};

static const struct row rows[] = {
    {1, 256, 256, 256, false, false}, {1, 256, 256, 256, true, true},
    {1, 100, 70, 50, false, true},    {1, 33, 129, 65, true, false},
    {1, 17, 16, 300, false, false},   {3, 48, 40, 24, false, false},
    {1, 3, 200, 640, false, false},   {2, 150, 7, 520, true, true},
    {2, 130, 101, 128, false, true}, /* whole steps of a CPU's tile registers */
    {1, 131, 101, 132, false, true}, /* of its words */
};

#define ALL_ROWS 0xff
#define TILES    0x300

/* What rounding may do: of the sum, and of the result, which is float32 where
 * the factors have 8 bits. */
static const struct {
    enum bell_dtype dtype;
    double sum, result, least;
    enum bell_dtype other; /* dtype of the second factor */
    uint16_t rows;         /* those that are tried, a bit each */
} dtypes[] = {
    {BELL_FLOAT16, 0x1p-24, 0x1p-11, 0x1p-25, BELL_FLOAT16, ALL_ROWS},
    {BELL_BFLOAT16, 0x1p-24, 0x1p-8, 0, BELL_BFLOAT16, ALL_ROWS | TILES},
    {BELL_FLOAT32, 0x1p-24, 0x1p-24, 0, BELL_FLOAT32, ALL_ROWS},
    {BELL_FLOAT64, 0x1p-53, 0x1p-53, 0, BELL_FLOAT64, ALL_ROWS},
    {BELL_FLOAT8_E4M3FN, 0x1p-24, 0x1p-24, 0, BELL_FLOAT8_E4M3FN, 0x05},
    {BELL_FLOAT8_E5M2, 0x1p-24, 0x1p-24, 0, BELL_FLOAT8_E4M3FN, 0x08},
    {BELL_FLOAT8_E4M3FNUZ, 0x1p-24, 0x1p-24, 0, BELL_FLOAT8_E4M3FNUZ, 0x06},
    {BELL_FLOAT8_E4M3FNUZ, 0x1p-24, 0x1p-24, 0, BELL_FLOAT8_E5M2FNUZ, 0x08},
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
    t = bell_cast(bell_from_data(ctx, shape, 3, BELL_FLOAT64, v), dtype);
    assert_int_equal(bell_read_f64(t, v, n), BELL_OK);
    *out_values = v;
    return t;
}

UNSANITIZED static void
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
    b = make(ctx, dtypes[d].other, r->batch, r->turn_y ? r->n : r->k,
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

/* ---- integers ---- */

/* Factors of these dtypes, converted to int32 first or multiplied as they are,
 * which gives 8 bits again. */
static const struct int_row {
    enum bell_dtype x, y;
    bool wide;
    uint16_t rows; /* those that are tried, a bit each */
} int_rows[] = {
    {BELL_INT8, BELL_INT8, true, 0x3e | TILES},
    {BELL_UINT8, BELL_UINT8, true, 0x05 | TILES},
    {BELL_INT8, BELL_UINT8, true, 0x08},
    {BELL_INT8, BELL_INT8, false, 0x24},
    {BELL_UINT8, BELL_UINT8, false, 0x08},
};

/* Random bytes; *out_values holds them. */
static struct bell_tensor *
make_bytes(struct bell_context *ctx, enum bell_dtype dtype, int64_t batch,
           int64_t rows_n, int64_t cols, int32_t **out_values)
{
    int64_t shape[3] = {batch, rows_n, cols};
    size_t n = (size_t)(batch * rows_n * cols), i;
    struct bell_tensor *t;
    uint8_t *bytes = malloc(n);
    int32_t *v = malloc(n * sizeof(*v));

    assert_true(bytes && v);
    for (i = 0; i < n; i++) {
        rng = rng * 6364136223846793005ull + 1442695040888963407ull;
        bytes[i] = (uint8_t)(rng >> 56);
        v[i] = dtype == BELL_INT8 ? (int8_t)bytes[i] : bytes[i];
    }
    t = bell_from_data(ctx, shape, 3, dtype, bytes);
    free(bytes);
    *out_values = v;
    return t;
}

UNSANITIZED static void
check_bytes(const struct row *r, const struct int_row *types, const int32_t *x,
            const int32_t *y, const double *got)
{
    int64_t b, i, j, l;

    for (b = 0; b < r->batch; b++) {
        for (i = 0; i < r->m; i++) {
            for (j = 0; j < r->n; j++) {
                int32_t want = 0;
                for (l = 0; l < r->k; l++) {
                    int64_t at_x = r->turn_x ? l * r->m + i : i * r->k + l;
                    int64_t at_y = r->turn_y ? j * r->k + l : l * r->n + j;
                    want +=
                        x[b * r->m * r->k + at_x] * y[b * r->k * r->n + at_y];
                }
                if (!types->wide)
                    want = types->x == BELL_INT8 ? (int8_t)want : (uint8_t)want;
                if (*got++ != want)
                    fail_msg("%s by %s of %d x (%d x %d x %d): [%d, %d, %d] is "
                             "%.0f, not %d",
                             bell_dtype_name(types->x),
                             bell_dtype_name(types->y), (int)r->batch,
                             (int)r->m, (int)r->n, (int)r->k, (int)b, (int)i,
                             (int)j, got[-1], (int)want);
            }
        }
    }
}

static void
multiply_bytes(struct bell_context *ctx, const struct row *r,
               const struct int_row *types)
{
    size_t n = (size_t)(r->batch * r->m * r->n);
    double *got = malloc(n * sizeof(*got));
    struct bell_tensor *a, *b;
    int32_t *x, *y;

    assert_non_null(got);
    assert_int_equal(bell_scope_begin(ctx), BELL_OK);
    a = make_bytes(ctx, types->x, r->batch, r->turn_x ? r->k : r->m,
                   r->turn_x ? r->m : r->k, &x);
    b = make_bytes(ctx, types->y, r->batch, r->turn_y ? r->n : r->k,
                   r->turn_y ? r->k : r->n, &y);
    if (r->turn_x)
        a = bell_transpose(a, 1, 2);
    if (r->turn_y)
        b = bell_transpose(b, 1, 2);
    if (types->wide) {
        a = bell_cast(a, BELL_INT32);
        b = bell_cast(b, BELL_INT32);
    }
    if (bell_read_f64(bell_matmul(a, b), got, n) != BELL_OK)
        fail_msg("%s", bell_error_last()->message);
    check_bytes(r, types, x, y, got);
    assert_int_equal(bell_scope_end(ctx), BELL_OK);
    free(x);
    free(y);
    free(got);
}

static void
test_integers(void **state)
{
    struct bell_context *ctx;
    size_t i, t, n = 0;

    (void)state;
    if (bell_context_create(NULL, &ctx) != BELL_OK)
        fail_msg("%s", bell_error_last()->message);
    for (t = 0; t < ARRAY_LEN(int_rows); t++) {
        for (i = 0; i < ARRAY_LEN(rows); i++) {
            if (int_rows[t].rows >> i & 1 && is_in_share(n++))
                multiply_bytes(ctx, &rows[i], &int_rows[t]);
        }
    }
    bell_context_destroy(ctx);
}

static void
test_products(void **state)
{
    struct bell_context *ctx;
    size_t i, d, n = 0;

    (void)state;
    if (bell_context_create(NULL, &ctx) != BELL_OK)
        fail_msg("%s", bell_error_last()->message);
    for (d = 0; d < ARRAY_LEN(dtypes); d++) {
        for (i = 0; i < ARRAY_LEN(rows); i++) {
            if (dtypes[d].rows >> i & 1 && is_in_share(n++))
                multiply(ctx, &rows[i], d);
        }
    }
    bell_context_destroy(ctx);
}

/* Rows of whole pages, which a CPU moves apart, turns, or both. */
static void
test_far_rows(void **state)
{
    static const struct row far[] = {{1, 37, 1024, 1024, false, false},
                                     {1, 128, 1024, 1024, true, false},
                                     {2, 20, 1100, 1024, false, true}};
    struct bell_context *ctx;
    size_t i;

    (void)state;
    if (bell_context_create(NULL, &ctx) != BELL_OK)
        fail_msg("%s", bell_error_last()->message);
    if (strncmp(bell_context_device(ctx), "CPU", 3) != 0) {
        bell_context_destroy(ctx);
        skip();
    }
    for (i = 0; i < ARRAY_LEN(far); i++)
        multiply(ctx, &far[i], 2); /* float32 */
    bell_context_destroy(ctx);
}

/* A large sum of a*b + c*d, which is taken apart: of whole numbers, exactly,
 * with a row of each that lies across the sum. */
static void
test_sum_of_products(void **state)
{
    enum {
        M = 256,
        N = 257,
        K = 1024
    };
    static int8_t values[4][N * K];
    static double got[M * N];
    struct bell_tensor *f[4], *y;
    struct bell_context *ctx;
    int64_t i, j, k;

    (void)state;
    if (bell_context_create(NULL, &ctx) != BELL_OK)
        fail_msg("%s", bell_error_last()->message);
    if (strncmp(bell_context_device(ctx), "AMD", 3) == 0) {
        bell_context_destroy(ctx);
        skip(); /* seven seconds, where others take one */
    }
    for (i = 0; i < 4; i++) {
        int64_t n = i % 2 ? N : M;
        for (k = 0; k < n * K; k++)
            values[i][k] = (int8_t)(next_value() * 3);
        y = bell_from_data(ctx, BELL_DIMS(n, K), BELL_INT8, values[i]);
        if (i == 3) /* as it would be stored the other way */
            y = bell_transpose(bell_contiguous(bell_transpose(y, 0, 1)), 0, 1);
        y = bell_cast(bell_cast(y, BELL_BFLOAT16), BELL_FLOAT32);
        f[i] = bell_unsqueeze(y, i % 2 ? 0 : 1);
    }
    y = bell_add(bell_mul(f[0], f[1]), bell_mul(f[2], f[3]));
    y = bell_sum(y, (int64_t[]){-1}, 1, false);
    if (bell_read_f64(y, got, M * N) != BELL_OK)
        fail_msg("%s", bell_error_last()->message);
    for (i = 0; i < M; i++) {
        for (j = i % 7; j < N; j += 7) {
            int32_t want = 0;
            for (k = 0; k < K; k++)
                want += values[0][i * K + k] * values[1][j * K + k] +
                        values[2][i * K + k] * values[3][j * K + k];
            if (got[i * N + j] != want)
                fail_msg("%d, %d: %g, not %d", (int)i, (int)j, got[i * N + j],
                         (int)want);
        }
    }
    bell_context_destroy(ctx);
}

/* Convolutions: images, channels, filters, a side of the image, of the window,
 * its stride, the padding and the dilation, 0: 1. */
static const struct conv {
    int64_t n, c, o, side, window, stride, pad, dilation;
} convs[] = {
    {4, 32, 64, 9, 3, 1, 1},  /* AMD copies it channels last */
    {16, 8, 128, 9, 3, 1, 1}, /* so does NVIDIA */
    {8, 16, 256, 12, 5, 2, 2},
    {2, 24, 40, 7, 3, 1, 0},
    {3, 12, 33, 8, 3, 2, 1}, /* channels are not multiples of 8 */
    /* of sm_90's wgmma: with pixels, filters and steps beside its tiles,
     * windows beyond borders and between pixels, one image, pixels alone */
    {3, 32, 136, 11, 3, 1, 1, 1},
    {1, 48, 200, 17, 3, 1, 2, 1},
    {5, 16, 256, 13, 5, 2, 2, 1},
    {2, 64, 96, 15, 3, 1, 2, 2},
    {4, 80, 130, 10, 3, 3, 0, 1},
    {3, 144, 264, 11, 1, 1, 0, 1},
    {5, 160, 520, 12, 1, 2, 0, 1},
    {3, 144, 328, 9, 1, 1, 1, 1},
    {2, 176, 72, 14, 1, 1, 0, 1},
    /* channels that copies fill up with zeros to a multiple of 16 */
    {4, 31, 64, 9, 3, 1, 1, 1},
    {3, 61, 136, 11, 3, 1, 1, 1},
    {5, 24, 256, 13, 5, 2, 2, 1},
    {2, 29, 96, 15, 3, 1, 2, 2},
    {4, 77, 130, 10, 3, 3, 0, 1},
    /* of a CPU's windows, and tried there alone: rows of the filter that see
     * the border alone, outputs of which all rows do; tiles of whole vectors
     * and of halves */
    {8, 8, 512, 7, 3, 1, 1, 1},
    {8, 4, 512, 9, 5, 1, 2, 1},
    {8, 8, 320, 9, 3, 2, 1, 1},
    {8, 8, 512, 7, 3, 1, 2, 2},
    {4, 8, 256, 6, 5, 1, 4, 1},
    {8, 8, 128, 5, 3, 1, 4, 1},
    {16, 4, 512, 8, 3, 1, 1, 1},
};
#define N_CPU_CONVS 7

UNSANITIZED static double
sum_of(const struct conv *c, const double *x, const double *w, int64_t row,
       int64_t col, double *out_size)
{
    int64_t apart = c->dilation ? c->dilation : 1, i, y, z;
    double sum = 0;

    *out_size = 0;
    for (i = 0; i < c->c; i++) {
        for (y = 0; y < c->window; y++) {
            for (z = 0; z < c->window; z++) {
                int64_t r = row * c->stride + y * apart - c->pad,
                        l = col * c->stride + z * apart - c->pad;
                double p;
                if (r < 0 || r >= c->side || l < 0 || l >= c->side)
                    continue;
                p = x[(i * c->side + r) * c->side + l] *
                    w[(i * c->window + y) * c->window + z];
                sum += p;
                *out_size += fabs(p);
            }
        }
    }
    return sum;
}

/* All results of the first and the last filter, of the image as it is in memory
 * or of one that is computed. */
static void
check_conv(struct bell_context *ctx, const struct conv *c,
           enum bell_dtype dtype, double result, bool computed)
{
    struct bell_conv_options options = {.struct_size = sizeof(options),
                                        .stride = {c->stride, c->stride},
                                        .padding = {c->pad, c->pad},
                                        .dilation = {c->dilation, c->dilation}};
    int64_t wide = (c->window - 1) * (c->dilation ? c->dilation : 1) + 1;
    int64_t side = (c->side + 2 * c->pad - wide) / c->stride + 1, n, f, i;
    double *x, *w, *got, size, want, bound;
    struct bell_tensor *a, *b, *y;

    assert_int_equal(bell_scope_begin(ctx), BELL_OK);
    a = make(ctx, dtype, c->n, c->c, c->side * c->side, &x);
    b = make(ctx, dtype, c->o, c->c, c->window * c->window, &w);
    a = bell_contiguous(
        bell_reshape(a, BELL_DIMS(c->n, c->c, c->side, c->side)));
    b = bell_contiguous(
        bell_reshape(b, BELL_DIMS(c->o, c->c, c->window, c->window)));
    y = bell_conv2d(computed ? bell_neg(a) : a, b, NULL, &options);
    got = malloc((size_t)(c->n * c->o * side * side) * sizeof(*got));
    assert_non_null(got);
    if (bell_read_f64(y, got, (size_t)(c->n * c->o * side * side)) != BELL_OK)
        fail_msg("%s", bell_error_last()->message);
    for (n = 0; n < c->n; n++) {
        for (f = 0; f < c->o; f += c->o - 1) {
            for (i = 0; i < side * side; i++) {
                double is = got[(n * c->o + f) * side * side + i];
                want = sum_of(c, x + n * c->c * c->side * c->side,
                              w + f * c->c * c->window * c->window, i / side,
                              i % side, &size);
                want = computed ? -want : want;
                bound = (dtype == BELL_FLOAT32 ? 0x1p-9 : 0x1p-18) * size +
                        result * fabs(want) + 0x1p-25;
                if (!(fabs(is - want) <= bound))
                    fail_msg("conv %d: [%d, %d, %d] is %.9g, not %.9g",
                             (int)(c - convs), (int)n, (int)f, (int)i, is,
                             want);
            }
        }
    }
    free(x);
    free(w);
    free(got);
    assert_int_equal(bell_scope_end(ctx), BELL_OK);
}

/* Simulated GPUs take each shape in one of the two halves, by turns. */
static void
test_convolutions(void **state)
{
    struct bell_context *ctx;
    size_t n = ARRAY_LEN(convs), i;
    bool is_cpu;

    (void)state;
    if (bell_context_create(NULL, &ctx) != BELL_OK)
        fail_msg("%s", bell_error_last()->message);
    is_cpu = strncmp(bell_context_device(ctx), "CPU", 3) == 0;
    n -= is_cpu ? 0 : N_CPU_CONVS;
    for (i = 0; i < n; i++) {
        if (!is_in_share(i))
            continue;
        if (is_cpu || i % 2)
            check_conv(ctx, &convs[i], BELL_BFLOAT16, 0x1p-8, false);
        if (is_cpu || i % 2 == 0)
            check_conv(ctx, &convs[i], BELL_FLOAT16, 0x1p-11, i == 0);
    }
    if (bell_context_set_math(ctx, BELL_MATH_TF32) != BELL_OK)
        fail_msg("%s", bell_error_last()->message);
    for (i = 0; i < n; i++) {
        if (is_in_share(i))
            check_conv(ctx, &convs[i], BELL_FLOAT32, 0x1p-23, false);
    }
    bell_context_destroy(ctx);
}

/* Zeros around an image, multiplied by infinity or NaN, are NaN. */
static void
test_infinite_filters(void **state)
{
    enum {
        N = 8,
        C = 8,
        O = 512,
        S = 7,
        W = 3
    };
    static const struct {
        int o, c, y, x;
        double is;
    } put[] = {{0, 3, 0, 1, INFINITY},    {1, 7, 2, 1, -INFINITY},
               {6, 0, 0, 0, NAN},         {171, 5, 1, 2, INFINITY},
               {319, 7, 2, 2, -INFINITY}, {319, 0, 0, 0, INFINITY}};
    struct bell_conv_options options = {.struct_size = sizeof(options),
                                        .padding = {1, 1}};
    double *x, *w, *got = malloc(N * O * S * S * sizeof(*got));
    struct bell_context *ctx;
    struct bell_tensor *a, *b;
    int i, f, n, at;

    (void)state;
    assert_non_null(got);
    if (bell_context_create(NULL, &ctx) != BELL_OK)
        fail_msg("%s", bell_error_last()->message);
    a = make(ctx, BELL_FLOAT32, N, C, S * S, &x);
    (void)make(ctx, BELL_FLOAT32, O, C, W * W, &w);
    for (i = 0; i < (int)(sizeof(put) / sizeof(put[0])); i++)
        w[((put[i].o * C + put[i].c) * W + put[i].y) * W + put[i].x] =
            put[i].is;
    b = bell_from_data(ctx, BELL_DIMS(O, C, W, W), BELL_FLOAT64, w);
    b = bell_cast(b, BELL_FLOAT32);
    a = bell_contiguous(bell_reshape(a, BELL_DIMS(N, C, S, S)));
    a = bell_conv2d(a, bell_contiguous(b), NULL, &options);
    if (bell_read_f64(a, got, N * O * S * S) != BELL_OK)
        fail_msg("%s", bell_error_last()->message);
    for (i = 0; i < N * O * S * S; i++) {
        double sum = 0;
        f = i / (S * S) % O;
        n = i / (S * S * O);
        for (at = 0; at < C * W * W; at++) {
            int r = i / S % S + at / W % W - 1, l = i % S + at % W - 1;
            bool inside = r >= 0 && r < S && l >= 0 && l < S;
            sum += (inside ? x[((n * C + at / (W * W)) * S + r) * S + l] : 0) *
                   w[f * C * W * W + at];
        }
        if (isnan(sum)   ? !isnan(got[i])
            : isinf(sum) ? got[i] != sum
                         : !(fabs(got[i] - sum) <= 1e-3))
            fail_msg("[%d, %d, %d] is %g, not %g", n, f, i % (S * S), got[i],
                     sum);
    }
    free(x);
    free(w);
    free(got);
    bell_context_destroy(ctx);
}

/* A filter's gradient sums over images and places, here of whole numbers: a CPU
 * cuts images apart, and rows of them in two. */
static void
test_gradient_of_filters(void **state)
{
    enum {
        N = 3,
        C = 3,
        O = 20,
        S = 70,
        W = 3
    };
    struct bell_conv_options options = {.struct_size = sizeof(options),
                                        .padding = {1, 1}};
    double *x, *g, *w, *got = malloc(O * C * W * W * sizeof(*got)), sum;
    struct bell_tensor *a, *b, *y, *grad;
    struct bell_context *ctx;
    int o, c, at, n, i;

    (void)state;
    assert_non_null(got);
    if (bell_context_create(NULL, &ctx) != BELL_OK)
        fail_msg("%s", bell_error_last()->message);
    if (strncmp(bell_context_device(ctx), "CPU", 3) != 0) {
        bell_context_destroy(ctx);
        free(got);
        skip(); /* seconds, and cards do not cut it */
    }
    (void)make(ctx, BELL_FLOAT32, N, C, S * S, &x);
    (void)make(ctx, BELL_FLOAT32, N, O, S * S, &g);
    (void)make(ctx, BELL_FLOAT32, O, C, W * W, &w);
    for (i = 0; i < N * C * S * S; i++)
        x[i] = round(4 * x[i]);
    for (i = 0; i < N * O * S * S; i++)
        g[i] = round(4 * g[i]);
    a = bell_cast(bell_from_data(ctx, BELL_DIMS(N, C, S, S), BELL_FLOAT64, x),
                  BELL_FLOAT32);
    y = bell_cast(bell_from_data(ctx, BELL_DIMS(N, O, S, S), BELL_FLOAT64, g),
                  BELL_FLOAT32);
    b = bell_cast(bell_from_data(ctx, BELL_DIMS(O, C, W, W), BELL_FLOAT64, w),
                  BELL_FLOAT32);
    if (bell_vjp(bell_conv2d(a, b, NULL, &options), y, &b, 1, &grad) !=
            BELL_OK ||
        bell_read_f64(grad, got, O * C * W * W) != BELL_OK)
        fail_msg("%s", bell_error_last()->message);
    for (o = 0; o < O; o++) {
        for (c = 0; c < C; c++) {
            for (at = 0; at < W * W; at++) {
                for (sum = 0, n = 0; n < N; n++) {
                    for (i = 0; i < S * S; i++) {
                        int r = i / S + at / W - 1, l = i % S + at % W - 1;
                        if (r >= 0 && r < S && l >= 0 && l < S)
                            sum += x[((n * C + c) * S + r) * S + l] *
                                   g[(n * O + o) * S * S + i];
                    }
                }
                assert_true(got[(o * C + c) * W * W + at] == sum);
            }
        }
    }
    free(x);
    free(g);
    free(w);
    free(got);
    bell_context_destroy(ctx);
}

/* ---- what is added to a product ---- */

/* x holds b and 1, w ones and y 1. b + 1 lies between two numbers of the dtype;
 * b + 2 is one. */
static struct bell_tensor *
add_linear(struct bell_tensor *x, struct bell_tensor *w, struct bell_tensor *y)
{
    return bell_linear(x, w, y);
}

static struct bell_tensor *
add_addmm(struct bell_tensor *x, struct bell_tensor *w, struct bell_tensor *y)
{
    return bell_addmm(y, x, bell_transpose(w, 0, 1), 1, 1);
}

static struct bell_tensor *
add_scaled(struct bell_tensor *x, struct bell_tensor *w, struct bell_tensor *y)
{
    w = bell_mul_scalar(bell_transpose(w, 0, 1), 4);
    return bell_addmm(y, x, w, 1, 0.25);
}

static struct bell_tensor *
add_conv(struct bell_tensor *x, struct bell_tensor *w, struct bell_tensor *y)
{
    return bell_conv1d(bell_unsqueeze(x, 0), bell_unsqueeze(w, 0), y, NULL);
}

/* Channels are summed; one source. */
static struct bell_tensor *
add_turned(struct bell_tensor *x, struct bell_tensor *w, struct bell_tensor *y)
{
    x = bell_reshape(x, BELL_DIMS(1, 2, 1));
    w = bell_reshape(w, BELL_DIMS(2, 1, 1));
    return bell_conv_transpose1d(x, w, y, NULL);
}

static void
test_rounded_once(void **state)
{
    static struct bell_tensor *(*const calls[])(
        struct bell_tensor *, struct bell_tensor *, struct bell_tensor *) = {
        add_linear, add_addmm, add_scaled, add_conv, add_turned};
    static const struct {
        enum bell_dtype dtype;
        double base;
    } halves[] = {{BELL_FLOAT16, 2048}, {BELL_BFLOAT16, 256}};
    struct bell_context *ctx;
    size_t i, k;

    (void)state;
    assert_int_equal(bell_context_create(NULL, &ctx), BELL_OK);
    for (k = 0; k < ARRAY_LEN(halves); k++) {
        const double x[2] = {halves[k].base, 1}, ones[2] = {1, 1};
        struct bell_tensor *t[3] = {
            bell_from_data(ctx, BELL_DIMS(1, 2), BELL_FLOAT64, x),
            bell_from_data(ctx, BELL_DIMS(1, 2), BELL_FLOAT64, ones),
            bell_from_data(ctx, BELL_DIMS(1), BELL_FLOAT64, ones)};

        for (i = 0; i < 3; i++)
            t[i] = bell_cast(t[i], halves[k].dtype);
        for (i = 0; i < ARRAY_LEN(calls); i++) {
            struct bell_tensor *y = calls[i](t[0], t[1], t[2]);
            double got = 0;

            assert_int_equal(bell_dtype_of(y), halves[k].dtype);
            assert_int_equal(bell_read_f64(y, &got, 1), BELL_OK);
            if (got != halves[k].base + 2)
                fail_msg("call %zu of dtype %d: %g", i, (int)halves[k].dtype,
                         got);
        }
    }
    bell_context_destroy(ctx);
}

static void
test_addmm_refuses(void **state)
{
    struct bell_context *ctx;
    struct bell_tensor *a, *b, *i;

    (void)state;
    assert_int_equal(bell_context_create(NULL, &ctx), BELL_OK);
    a = bell_zeros(ctx, BELL_DIMS(2, 3), BELL_FLOAT32);
    b = bell_zeros(ctx, BELL_DIMS(3, 4), BELL_FLOAT32);
    i = bell_zeros(ctx, BELL_DIMS(2, 2), BELL_INT32);
#define REFUSES(call, text)                                                    \
    do {                                                                       \
        assert_true(bell_is_error(call));                                      \
        assert_string_equal(bell_error_last()->message, text);                 \
    } while (0)
    REFUSES(bell_addmm(b, a, b, 1, 1),
            "bell_addmm: (3, 4) is not broadcast to (2, 4)");
    REFUSES(bell_addmm(a, b, a, 1, 1),
            "bell_addmm: (3, 4) @ (2, 3): expected [n, k] @ [k, m]");
    REFUSES(bell_addmm(i, i, i, 0.5, 1),
            "bell_addmm: beta 0.5 and alpha 1 of integers; both must be whole");
#undef REFUSES
    bell_context_destroy(ctx);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_products),
        cmocka_unit_test(test_integers),
        cmocka_unit_test(test_far_rows),
        cmocka_unit_test(test_sum_of_products),
        cmocka_unit_test(test_convolutions),
        cmocka_unit_test(test_infinite_filters),
        cmocka_unit_test(test_gradient_of_filters),
        cmocka_unit_test(test_rounded_once),
        cmocka_unit_test(test_addmm_refuses),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
