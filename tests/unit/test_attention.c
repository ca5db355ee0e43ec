/* Attention, which is one kernel, against plain loops, on the device that
 * BELL_DEVICE names. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/bits.h"
#include "base/map.h"
#include "doorbell/ops.h"
#include "doorbell/stats.h"
#include "doorbell/tensor.h"
#include "tests/unit/expect.h"
#include "tests/unit/sanitized.h"
#include "tests/unit/share.h"

static struct bell_context *ctx;

enum how {
    PLAIN,
    CAUSAL,
    ADDED,     /* a mask of floats */
    MASKED,    /* one of truth values, that hides whole rows */
    BY_HAND,   /* softmax(q @ k.T * s + m) @ v */
    PROJECTED, /* heads are parts of a row, and of the result's */
    GROUPED,   /* two heads of q, or shape.group, for one of k and v */
    SHARED,    /* the same by fewer heads of k and v */
    FOLDED,    /* the same, where these heads are an axis of their own */
    BIASED,    /* a residual is added */
    BROADCAST, /* one k and v for all */
    LATE,      /* a token's: the first third is seen, and ends in its own */
};

#define FEW 16 /* fewer queries are another form, of GPUs alone */

struct shape {
    enum how how;
    enum bell_dtype dtype;
    int64_t heads, n, m, d, dv;
    uint64_t kernels;
    int64_t group; /* heads that share k and v; 0: as `how` says */
};

static int64_t
heads_of_keys(const struct shape *s)
{
    return s->group              ? s->heads / s->group
           : s->how == GROUPED   ? s->heads / 2
           : s->how == SHARED    ? s->heads / 2
           : s->how == BROADCAST ? 1
                                 : s->heads;
}

static double *
read_all(struct bell_tensor *t)
{
    size_t n = (size_t)bell_numel(t);
    double *x = malloc((n + 1) * sizeof(*x));

    assert_non_null(x);
    expect_ok(bell_read_f64(t, x, n));
    return x;
}

/* Cut off to float16, above its subnormals. */
static uint16_t
half_of(float v)
{
    int exp;
    float fraction = frexpf(fabsf(v), &exp);
    uint16_t sign = v < 0 ? 0x8000 : 0;

    if (isnan(v))
        return 0x7e00;
    if (exp < -13)
        return sign;
    return (uint16_t)(sign | (exp + 14) << 10 |
                      ((unsigned)(fraction * 2048) & 0x3ff));
}

static void
put(void *data, int64_t at, enum bell_dtype dtype, float v)
{
    uint32_t bits;

    memcpy(&bits, &v, sizeof(bits));
    if (dtype == BELL_FLOAT32)
        ((float *)data)[at] = v;
    else
        ((uint16_t *)data)[at] =
            dtype == BELL_FLOAT16 ? half_of(v) : (uint16_t)(bits >> 16);
}

/* Between 0 and 1, neither of them. */
static float
uniform(void)
{
    static uint64_t state;

    state += 0x9e3779b97f4a7c15ull;
    return ((float)(hash_mix(state) >> 41) + 0.5f) * 0x1p-23f;
}

/* Normally distributed, or all NaN. Made here: a kernel that makes them would
 * be compiled for each size, which took as long as all of attention. */
static struct bell_tensor *
filled(const int64_t *sizes, uint32_t n_sizes, enum bell_dtype dtype,
       bool is_nan)
{
    struct bell_tensor *x;
    int64_t n = 1, i;
    void *data;

    for (i = 0; i < n_sizes; i++)
        n *= sizes[i];
    data = malloc((size_t)n * 4 + 4);
    assert_non_null(data);
    for (i = 0; i < n; i++)
        put(data, i, dtype,
            is_nan
                ? NAN
                : sqrtf(-2 * logf(uniform())) * cosf(6.2831853f * uniform()));
    x = bell_from_data(ctx, sizes, n_sizes, dtype, data);
    expect_ok(bell_realize1(x));
    free(data);
    return x;
}

static struct bell_tensor *
input(const struct shape *s, int64_t heads, int64_t n, int64_t d)
{
    return s->how == PROJECTED
               ? filled(BELL_DIMS(n, heads * d), s->dtype, false)
               : filled(BELL_DIMS(heads, n, d), s->dtype, false);
}

/* Truth values, of which a sixth is true; rows 3 and the last see nothing. */
static struct bell_tensor *
truths(int64_t n, int64_t m)
{
    uint8_t *data = malloc((size_t)(n * m) + 1);
    struct bell_tensor *x;
    int64_t i;

    assert_non_null(data);
    for (i = 0; i < n * m; i++)
        data[i] = uniform() < 1.0f / 6 && i / m != 3 && i / m != n - 1;
    x = bell_from_data(ctx, BELL_DIMS(n, m), BELL_BOOL, data);
    expect_ok(bell_realize1(x));
    free(data);
    return x;
}

/* heads x n x d of n x (heads * d), and back. */
static struct bell_tensor *
heads(struct bell_tensor *x, int64_t n, int64_t n_heads, int64_t d)
{
    return bell_permute(bell_reshape(x, BELL_DIMS(n, n_heads, d)),
                        (int64_t[]){1, 0, 2}, 3);
}

/* Each head so often as heads of q share it. */
static struct bell_tensor *
repeated(const struct shape *s, struct bell_tensor *x, int64_t n, int64_t d)
{
    int64_t few = heads_of_keys(s), each = s->heads / few;

    x = bell_reshape(x, BELL_DIMS(few, 1, n, d));
    if (s->how == FOLDED)
        return x;
    x = bell_expand(x, BELL_DIMS(few, each, n, d));
    return bell_reshape(x, BELL_DIMS(s->heads, n, d));
}

/* out[dv] of one query. */
UNSANITIZED static void
attend_row(const struct shape *s, const double *q, const double *k,
           const double *v, const double *mask, int64_t row, double *out)
{
    double *score = malloc((size_t)s->m * sizeof(*score)), most = -INFINITY;
    double sum = 0;
    int64_t j, c;

    assert_non_null(score);
    for (j = 0; j < s->m; j++) {
        score[j] = 0;
        for (c = 0; c < s->d; c++)
            score[j] += q[c] * k[j * s->d + c];
        score[j] /= sqrt((double)s->d);
        if (s->how == CAUSAL && j > row)
            score[j] = -INFINITY;
        if ((s->how == MASKED || s->how == LATE) && mask[row * s->m + j] == 0)
            score[j] = -INFINITY;
        if (s->how == ADDED || s->how == BY_HAND)
            score[j] += mask[row * s->m + j];
        most = score[j] > most ? score[j] : most;
    }
    for (c = 0; c < s->dv; c++)
        out[c] = 0;
    for (j = 0; j < s->m && !isinf(most); j++) { /* what sees nothing is 0 */
        double e = exp(score[j] - most);
        sum += e;
        for (c = 0; c < s->dv; c++)
            out[c] += e * v[j * s->dv + c];
    }
    for (c = 0; c < s->dv && sum > 0; c++)
        out[c] /= sum;
    free(score);
}

static struct bell_tensor *
count(int64_t n)
{
    return bell_arange(ctx, 0, (double)n, 1, BELL_INT64);
}

/* x with row `at` put in its place where it is read. */
static struct bell_tensor *
with_own(const struct shape *s, struct bell_tensor *x, int64_t d)
{
    struct bell_tensor *own;

    own = filled(BELL_DIMS(bell_size(x, 0), 1, d), s->dtype, false);
    return bell_where(bell_eq(bell_reshape(count(s->m), BELL_DIMS(s->m, 1)),
                              bell_scalar_int(ctx, s->m / 3)),
                      own, x);
}

struct tensors {
    struct bell_tensor *q, *k, *v, *mask, *residual, *out;
    bool is_masked;
};

static void
make(const struct shape *s, struct tensors *t)
{
    int64_t few = heads_of_keys(s);
    struct bell_tensor *q, *k, *v;

    q = t->q = input(s, s->heads, s->n, s->d);
    k = t->k = input(s, few, s->m, s->d);
    v = t->v = input(s, few, s->m, s->dv);
    t->is_masked = s->how == ADDED || s->how == MASKED || s->how == LATE;
    t->mask = s->how == MASKED
                  ? truths(s->n, s->m)
                  : filled(BELL_DIMS(s->n, s->m), BELL_FLOAT32, false);
    if (s->how == LATE) {
        k = t->k = with_own(s, k, s->d);
        v = t->v = with_own(s, v, s->dv);
        t->mask = bell_expand(
            bell_reshape(bell_le(count(s->m), bell_scalar_int(ctx, s->m / 3)),
                         BELL_DIMS(1, s->m)),
            BELL_DIMS(s->n, s->m));
    }
    expect_ok(bell_realize1(t->mask));
    t->residual = filled(BELL_DIMS(s->heads, s->n, s->dv), s->dtype, false);
    if (s->how == PROJECTED) {
        q = heads(q, s->n, s->heads, s->d);
        k = heads(k, s->m, s->heads, s->d);
        v = heads(v, s->m, s->heads, s->dv);
    }
    if ((s->group && s->how != SHARED) || s->how == GROUPED) {
        k = repeated(s, k, s->m, s->d);
        v = repeated(s, v, s->m, s->dv);
    }
    if (s->how == FOLDED)
        q = bell_reshape(q, BELL_DIMS(few, s->heads / few, s->n, s->d));
    if (s->how == BY_HAND) {
        t->out = bell_matmul(q, bell_transpose(k, 1, 2));
        t->out = bell_mul(t->out, bell_scalar(ctx, 1 / sqrt((double)s->d)));
        t->out = bell_add(bell_cast(t->out, BELL_FLOAT32), t->mask);
        t->out = bell_cast(bell_softmax(t->out, -1), s->dtype);
        t->out = bell_matmul(t->out, v);
        return;
    }
    t->out = bell_scaled_dot_product_attention(
        q, k, v,
        s->how == ADDED || s->how == MASKED || s->how == LATE ? t->mask : NULL,
        0, s->how == CAUSAL, 0);
    if (s->how == PROJECTED)
        t->out = bell_reshape(bell_permute(t->out, (int64_t[]){1, 0, 2}, 3),
                              BELL_DIMS(s->n, s->heads * s->dv));
    if (s->how == FOLDED)
        t->out = bell_reshape(t->out, BELL_DIMS(s->heads, s->n, s->dv));
    if (s->how == BIASED)
        t->out = bell_add(t->out, t->residual);
}

static void
check(const struct shape *s, const struct tensors *t)
{
    double *q = read_all(t->q), *k = read_all(t->k), *v = read_all(t->v),
           *mask = read_all(t->mask), *more = read_all(t->residual),
           *got = read_all(t->out), *kk, *vv, *want;
    double eps = s->dtype == BELL_BFLOAT16  ? 1.0 / 64
                 : s->dtype == BELL_FLOAT16 ? 1.0 / 512
                                            : 4e-6;
    int64_t h, i, c, few = heads_of_keys(s);
    int64_t qrow = s->how == PROJECTED ? s->heads * s->d : s->d;

    want = malloc((size_t)s->dv * sizeof(*want));
    kk = malloc((size_t)(s->m * s->d) * sizeof(*kk));
    vv = malloc((size_t)(s->m * s->dv) * sizeof(*vv));
    assert_true(want && kk && vv);
    for (h = 0; h < s->heads; h++) {
        int64_t from = h * few / s->heads;
        for (i = 0; i < s->m; i++) {
            for (c = 0; c < s->d; c++)
                kk[i * s->d + c] = s->how == PROJECTED
                                       ? k[i * s->heads * s->d + h * s->d + c]
                                       : k[(from * s->m + i) * s->d + c];
            for (c = 0; c < s->dv; c++)
                vv[i * s->dv + c] =
                    s->how == PROJECTED
                        ? v[i * s->heads * s->dv + h * s->dv + c]
                        : v[(from * s->m + i) * s->dv + c];
        }
        for (i = 0; i < s->n; i++) {
            const double *row = s->how == PROJECTED ? q + i * qrow + h * s->d
                                                    : q + (h * s->n + i) * s->d;
            attend_row(s, row, kk, vv, mask, i, want);
            for (c = 0; c < s->dv; c++) {
                size_t at = (size_t)(s->how == PROJECTED
                                         ? (i * s->heads + h) * s->dv + c
                                         : (h * s->n + i) * s->dv + c);
                double x = want[c] + (s->how == BIASED ? more[at] : 0);
                if (isnan(x) ? isnan(got[at])
                             : fabs(got[at] - x) <= eps * (1 + fabs(x)))
                    continue;
                fail_msg("%s, kind %d, %dx%dx%dx%dx%d: head %d, row %d, "
                         "column %d: %g, not %g",
                         bell_context_device(ctx), (int)s->how, (int)s->heads,
                         (int)s->n, (int)s->m, (int)s->d, (int)s->dv, (int)h,
                         (int)i, (int)c, got[at], x);
            }
        }
    }
    free(q);
    free(k);
    free(v);
    free(mask);
    free(more);
    free(got);
    free(kk);
    free(vv);
    free(want);
}

static void
test_values(void **state)
{
    static const struct shape shapes[] = {
        {PLAIN, BELL_BFLOAT16, 2, 128, 128, 64, 64, 1},
        {CAUSAL, BELL_BFLOAT16, 2, 192, 192, 64, 64, 1},
        {CAUSAL, BELL_FLOAT16, 1, 130, 259, 128, 128, 1},
        {PLAIN, BELL_FLOAT16, 3, 37, 53, 20, 24, 1},
        {PLAIN, BELL_BFLOAT16, 1, 17, 16, 17, 9, 1},
        {CAUSAL, BELL_BFLOAT16, 1, 70, 33, 256, 256, 1},
        {ADDED, BELL_BFLOAT16, 2, 65, 100, 32, 64, 1},
        {MASKED, BELL_FLOAT16, 1, 40, 72, 16, 16, 1},
        {BY_HAND, BELL_BFLOAT16, 2, 64, 96, 64, 32, 1},
        {PROJECTED, BELL_BFLOAT16, 3, 64, 64, 64, 64, 1},
        {GROUPED, BELL_FLOAT16, 4, 80, 80, 64, 64, 1},
        {BIASED, BELL_BFLOAT16, 2, 64, 64, 80, 80, 1},
        {BROADCAST, BELL_BFLOAT16, 4, 32, 48, 40, 48, 1},
        /* whole tiles of keys, of rows too and not */
        {PLAIN, BELL_BFLOAT16, 2, 128, 256, 128, 128, 1},
        {CAUSAL, BELL_FLOAT16, 1, 320, 320, 64, 128, 1},
        {CAUSAL, BELL_BFLOAT16, 2, 384, 384, 128, 64, 1},
        {ADDED, BELL_BFLOAT16, 2, 200, 192, 64, 64, 1},
        {MASKED, BELL_FLOAT16, 1, 65, 512, 128, 128, 1},
        {GROUPED, BELL_BFLOAT16, 4, 128, 128, 64, 64, 1},
        {SHARED, BELL_BFLOAT16, 4, 128, 128, 64, 64, 1},
        {SHARED, BELL_FLOAT32, 6, 80, 81, 20, 24, 1, 3},
        {SHARED, BELL_BFLOAT16, 8, 1, 256, 128, 128, 2, 4},
        {PROJECTED, BELL_BFLOAT16, 2, 192, 192, 64, 64, 1},
        {BY_HAND, BELL_FLOAT16, 1, 130, 128, 128, 64, 1},
        {CAUSAL, BELL_BFLOAT16, 1, 192, 192, 256, 256, 1},
        {ADDED, BELL_FLOAT16, 1, 100, 256, 192, 256, 1},
        {PLAIN, BELL_BFLOAT16, 1, 130, 128, 256, 64, 1},
        /* the same, no multiples of 64 wide */
        {PLAIN, BELL_BFLOAT16, 2, 128, 256, 80, 80, 1},
        {CAUSAL, BELL_FLOAT16, 1, 192, 192, 96, 80, 1},
        {CAUSAL, BELL_BFLOAT16, 1, 131, 384, 112, 96, 1},
        {ADDED, BELL_BFLOAT16, 1, 200, 192, 80, 72, 1},
        {MASKED, BELL_FLOAT16, 1, 65, 256, 160, 136, 1},
        {GROUPED, BELL_BFLOAT16, 4, 128, 128, 96, 112, 1},
        {PROJECTED, BELL_BFLOAT16, 2, 192, 192, 80, 80, 1},
        {BY_HAND, BELL_FLOAT16, 1, 130, 128, 64, 96, 1},
        {BIASED, BELL_BFLOAT16, 1, 128, 192, 176, 64, 1},
        {CAUSAL, BELL_BFLOAT16, 1, 192, 128, 208, 240, 1},
        /* queries that threads hold a part of */
        {PLAIN, BELL_FLOAT16, 2, 128, 320, 256, 256, 1},
        {MASKED, BELL_BFLOAT16, 1, 256, 192, 224, 256, 1},
        {CAUSAL, BELL_BFLOAT16, 1, 195, 288, 256, 256, 1}, /* all of them */
        {CAUSAL, BELL_BFLOAT16, 1, 66, 256, 64, 128, 1}, /* all rows at once */
        {CAUSAL, BELL_FLOAT16, 2, 128, 512, 80, 80, 1},
        {PLAIN, BELL_FLOAT32, 2, 128, 128, 64, 64, 1},
        {CAUSAL, BELL_FLOAT32, 2, 130, 100, 64, 80, 1},
        {ADDED, BELL_FLOAT32, 2, 33, 1000, 16, 7, 1},
        {MASKED, BELL_FLOAT32, 1, 40, 65, 17, 256, 1},
        {PROJECTED, BELL_FLOAT32, 3, 17, 17, 256, 32, 1},
        {GROUPED, BELL_FLOAT32, 4, 80, 81, 20, 24, 1},
        {BY_HAND, BELL_FLOAT32, 2, 64, 96, 64, 32, 1},
        {PLAIN, BELL_FLOAT32, 2, 64, 1, 64, 64, UINT64_MAX},
        /* few queries: one kernel, or one for parts and one for all */
        {PLAIN, BELL_BFLOAT16, 2, 1, 64, 64, 64, 1},
        {PLAIN, BELL_BFLOAT16, 16, 8, 65, 128, 128, 1},
        {PLAIN, BELL_FLOAT32, 3, 5, 1000, 16, 8, 2},
        {CAUSAL, BELL_FLOAT16, 2, 5, 40, 64, 32, 1},
        {ADDED, BELL_FLOAT32, 1, 3, 4096, 64, 64, 2},
        {MASKED, BELL_BFLOAT16, 2, 5, 384, 64, 64, 2},
        {BY_HAND, BELL_FLOAT16, 2, 4, 512, 32, 64, 2},
        {PROJECTED, BELL_BFLOAT16, 4, 2, 96, 64, 64, 1},
        {GROUPED, BELL_BFLOAT16, 8, 1, 256, 128, 128, 2},
        {BIASED, BELL_FLOAT32, 2, 6, 300, 256, 256, 2},
        {LATE, BELL_BFLOAT16, 2, 4, 768, 128, 128, 2},
        {LATE, BELL_FLOAT32, 4, 1, 45, 8, 8, 1},
        {PLAIN, BELL_BFLOAT16, 2, 9, 64, 64, 64, 1}, /* twice five */
        {PLAIN, BELL_FLOAT16, 1, 15, 47, 96, 80, 1},
        /* heads that share keys: rows of one work-group */
        {GROUPED, BELL_BFLOAT16, 8, 1, 256, 128, 128, 2, 4},
        {GROUPED, BELL_FLOAT16, 12, 1, 75, 64, 64, 1, 3},
        {GROUPED, BELL_FLOAT32, 10, 1, 130, 16, 8, 1, 5},
        {GROUPED, BELL_BFLOAT16, 14, 1, 64, 128, 64, 1, 7},
        {GROUPED, BELL_BFLOAT16, 16, 1, 300, 128, 128, 2, 8},
        {GROUPED, BELL_BFLOAT16, 22, 1, 70, 64, 64, 1, 11},
        {GROUPED, BELL_FLOAT32, 17, 1, 64, 32, 32, 1, 17},
        {GROUPED, BELL_FLOAT16, 8, 3, 96, 64, 128, 1, 4},
        {GROUPED, BELL_FLOAT32, 6, 2, 1000, 64, 64, 2, 3},
        {CAUSAL, BELL_BFLOAT16, 4, 5, 33, 64, 64, 1, 2},
        {ADDED, BELL_FLOAT16, 8, 1, 512, 64, 64, 2, 4},
        {MASKED, BELL_BFLOAT16, 4, 6, 129, 64, 64, 1, 2},
        {LATE, BELL_BFLOAT16, 8, 1, 768, 128, 128, 2, 4},
        {LATE, BELL_FLOAT32, 6, 2, 99, 24, 16, 1, 3},
        {BY_HAND, BELL_FLOAT16, 6, 1, 512, 32, 64, 2, 3},
        {BIASED, BELL_BFLOAT16, 9, 1, 96, 96, 96, 1, 3},
        {BROADCAST, BELL_BFLOAT16, 6, 2, 256, 64, 64, 2},
        {FOLDED, BELL_BFLOAT16, 8, 1, 256, 128, 128, 2, 4},
        {FOLDED, BELL_FLOAT16, 12, 3, 75, 64, 64, 1, 6},
        {FOLDED, BELL_FLOAT32, 20, 1, 200, 32, 32, 1, 10},
        /* the same by matrix instructions, where there are such */
        {GROUPED, BELL_BFLOAT16, 12, 1, 100, 96, 96, 1, 4},
        {GROUPED, BELL_FLOAT16, 32, 1, 50, 32, 96, 1, 16},
        {GROUPED, BELL_BFLOAT16, 40, 1, 45, 128, 128, 1, 20},
        {GROUPED, BELL_BFLOAT16, 6, 1, 32, 32, 32, 1, 6},
        {LATE, BELL_BFLOAT16, 24, 1, 252, 128, 64, 1, 12},
        {LATE, BELL_FLOAT16, 8, 2, 1024, 64, 64, 2, 4},
        {MASKED, BELL_FLOAT16, 8, 5, 203, 32, 32, 1, 4},
        {CAUSAL, BELL_BFLOAT16, 6, 7, 61, 96, 32, 1, 2},
        {ADDED, BELL_BFLOAT16, 9, 3, 165, 64, 128, 1, 3},
        {BY_HAND, BELL_BFLOAT16, 10, 1, 333, 64, 64, 1, 5},
        {PROJECTED, BELL_BFLOAT16, 3, 7, 80, 64, 64, 1},
        {BIASED, BELL_FLOAT16, 2, 12, 90, 128, 128, 1},
        {PLAIN, BELL_BFLOAT16, 2, 16, 512, 64, 64, 2},
        {LATE, BELL_FLOAT16, 1, 16, 300, 96, 128, 2},
        {FOLDED, BELL_FLOAT16, 32, 1, 512, 64, 64, 2, 16},
        {FOLDED, BELL_FLOAT32, 32, 1, 512, 64, 64, 2, 16},
        {PROJECTED, BELL_FLOAT16, 2, 16, 21, 64, 64, 1},
        {PLAIN, BELL_FLOAT32, 2, 4, 64, 6, 64, UINT64_MAX},
        {PLAIN, BELL_FLOAT32, 2, 4, 16, 64, 64, UINT64_MAX},
        /* too wide */
        {PLAIN, BELL_BFLOAT16, 1, 32, 64, 264, 64, UINT64_MAX},
    };
    bool fuses = true, is_cpu;
    size_t i;

    (void)state;
    expect_ok(bell_context_create(NULL, &ctx));
    is_cpu = strncmp(bell_context_device(ctx), "CPU", 3) == 0;
#ifdef __x86_64__
    /* processors without it take several kernels */
    fuses = strncmp(bell_context_device(ctx), "CPU", 3) != 0 ||
            __builtin_cpu_supports("fma");
#endif
    for (i = 0; i < ARRAY_LEN(shapes); i++) {
        struct bell_stats before = {.struct_size = sizeof(before)},
                          after = {.struct_size = sizeof(after)};
        struct bell_tensor *place;
        struct tensors t;

        if (!is_in_share(i))
            continue;
        make(&shapes[i], &t);
        place =
            filled(bell_shape(t.out), bell_ndim(t.out), shapes[i].dtype, true);
        t.out = bell_assign(place, t.out);
        bell_context_stats(ctx, &before);
        expect_ok(bell_realize1(t.out));
        bell_context_stats(ctx, &after);
        after.n_kernels_planned -= before.n_kernels_planned;
        if (t.is_masked) /* which rows see anything */
            after.n_kernels_planned -= after.n_kernels_planned > 1;
        if (after.n_kernels_planned > shapes[i].kernels && fuses &&
            !(is_cpu && shapes[i].n < FEW))
            fail_msg("kind %d, row %d: %d kernels", (int)shapes[i].how, (int)i,
                     (int)after.n_kernels_planned);
        check(&shapes[i], &t);
    }
    bell_context_destroy(ctx);
}

/* ---- gradients ---- */

/* For one head: dq, dk and dv (already zero) of the adjoint g of the result. */
UNSANITIZED static void
differentiate(const struct shape *s, const double *q, const double *k,
              const double *v, const double *mask, const double *g, double *dq,
              double *dk, double *dv)
{
    double *p = malloc((size_t)s->m * sizeof(*p)),
           scale = 1 / sqrt((double)s->d);
    int64_t i, j, c;

    assert_non_null(p);
    for (i = 0; i < s->n; i++) {
        double most = -INFINITY, sum = 0, dot = 0;
        for (j = 0; j < s->m; j++) {
            for (p[j] = 0, c = 0; c < s->d; c++)
                p[j] += q[i * s->d + c] * k[j * s->d + c];
            p[j] *= scale;
            if (s->how == CAUSAL && j > i)
                p[j] = -INFINITY;
            if (s->how == ADDED || s->how == BY_HAND)
                p[j] += mask[i * s->m + j];
            most = p[j] > most ? p[j] : most;
        }
        for (j = 0; j < s->m; j++)
            sum += p[j] = exp(p[j] - most);
        for (j = 0; j < s->m; j++) {
            p[j] /= sum;
            for (c = 0; c < s->dv; c++) {
                dv[j * s->dv + c] += p[j] * g[i * s->dv + c];
                dot += p[j] * g[i * s->dv + c] * v[j * s->dv + c];
            }
        }
        for (j = 0; j < s->m; j++) {
            double ds = -dot;
            for (c = 0; c < s->dv; c++)
                ds += g[i * s->dv + c] * v[j * s->dv + c];
            ds *= p[j] * scale;
            for (c = 0; c < s->d; c++) {
                dq[i * s->d + c] += ds * k[j * s->d + c];
                dk[j * s->d + c] += ds * q[i * s->d + c];
            }
        }
    }
    free(p);
}

static void
compare(const struct shape *s, const char *what, const double *got,
        const double *want, size_t n)
{
    double eps = s->dtype == BELL_BFLOAT16  ? 1.0 / 32
                 : s->dtype == BELL_FLOAT16 ? 1.0 / 256
                                            : 1e-5,
           most = 0;
    size_t i;

    for (i = 0; i < n; i++)
        most = fabs(want[i]) > most ? fabs(want[i]) : most;
    for (i = 0; i < n; i++) {
        if (fabs(got[i] - want[i]) <= eps * (most / 4 + fabs(want[i])))
            continue;
        fail_msg("%s, kind %d, %dx%dx%dx%dx%d: %s[%d] is %g, not %g",
                 bell_context_device(ctx), (int)s->how, (int)s->heads,
                 (int)s->n, (int)s->m, (int)s->d, (int)s->dv, what, (int)i,
                 got[i], want[i]);
    }
}

static void
check_gradients(const struct shape *s, const struct tensors *t,
                struct bell_tensor *g, struct bell_tensor *const grads[3])
{
    double *q = read_all(t->q), *k = read_all(t->k), *v = read_all(t->v),
           *mask = read_all(t->mask), *gg = read_all(g), *got[3], *want[3];
    static const char *const names[] = {"dq", "dk", "dv"};
    int64_t group = s->heads / heads_of_keys(s), h, i;

    for (i = 0; i < 3; i++) {
        got[i] = read_all(grads[i]);
        want[i] = calloc((size_t)bell_numel(grads[i]) + 1, sizeof(double));
        assert_non_null(want[i]);
    }
    for (h = 0; h < s->heads; h++) {
        int64_t at = h / group * s->m;
        differentiate(s, q + h * s->n * s->d, k + at * s->d, v + at * s->dv,
                      mask, gg + h * s->n * s->dv, want[0] + h * s->n * s->d,
                      want[1] + at * s->d, want[2] + at * s->dv);
    }
    for (i = 0; i < 3; i++) {
        compare(s, names[i], got[i], want[i], (size_t)bell_numel(grads[i]));
        free(got[i]);
        free(want[i]);
    }
    free(q);
    free(k);
    free(v);
    free(mask);
    free(gg);
}

/* No matrix of scores is stored: the forward kernel, one for what a row's
 * adjoint and result make, one for each gradient, and of shared heads two sums
 * more. */
static void
test_gradients(void **state)
{
    static const struct shape shapes[] = {
        {PLAIN, BELL_BFLOAT16, 2, 64, 64, 64, 64, 5},
        {CAUSAL, BELL_BFLOAT16, 1, 150, 150, 16, 16, 5},
        {CAUSAL, BELL_FLOAT16, 1, 50, 30, 128, 128, 5},
        {CAUSAL, BELL_FLOAT16, 1, 40, 101, 32, 16, 5},
        {PLAIN, BELL_FLOAT16, 2, 17, 23, 20, 24, 5},
        {ADDED, BELL_BFLOAT16, 1, 33, 50, 32, 48, 5},
        {BY_HAND, BELL_BFLOAT16, 2, 32, 48, 32, 16, 5},
        {GROUPED, BELL_FLOAT16, 4, 32, 32, 32, 32, 7},
        {SHARED, BELL_FLOAT16, 4, 32, 32, 32, 32, 7},
        {PLAIN, BELL_FLOAT32, 1, 32, 32, 64, 64, 5},
        {CAUSAL, BELL_FLOAT32, 2, 40, 36, 36, 20, 5},
        {BROADCAST, BELL_FLOAT32, 3, 33, 17, 40, 48, 7},
        {BROADCAST, BELL_BFLOAT16, 2, 33, 17, 16, 16, 7},
        {PLAIN, BELL_FLOAT16, 1, 32, 32, 160, 32, UINT64_MAX}, /* too wide */
        /* few queries, of which a part of the keys would be hidden from all */
        {CAUSAL, BELL_FLOAT32, 2, 3, 512, 64, 64, UINT64_MAX},
        {GROUPED, BELL_BFLOAT16, 4, 1, 512, 64, 64, UINT64_MAX},
    };
    bool fuses;
    size_t i;

    (void)state;
    expect_ok(bell_context_create(NULL, &ctx));
    fuses = strncmp(bell_context_device(ctx), "CPU", 3) != 0;
    for (i = 0; i < ARRAY_LEN(shapes); i++) {
        struct bell_stats before = {.struct_size = sizeof(before)},
                          after = {.struct_size = sizeof(after)};
        struct bell_tensor *g, *out[4];
        struct tensors t;

        if (!is_in_share(i))
            continue;
        make(&shapes[i], &t);
        g = filled(bell_shape(t.out), bell_ndim(t.out), shapes[i].dtype, false);
        expect_ok(bell_vjp(t.out, g, (struct bell_tensor *[]){t.q, t.k, t.v}, 3,
                           out));
        out[3] = t.out;
        bell_context_stats(ctx, &before);
        expect_ok(bell_realize(out, 4));
        bell_context_stats(ctx, &after);
        after.n_kernels_planned -= before.n_kernels_planned + t.is_masked;
        if (after.n_kernels_planned > shapes[i].kernels && fuses)
            fail_msg("kind %d, row %d: %d kernels", (int)shapes[i].how, (int)i,
                     (int)after.n_kernels_planned);
        check(&shapes[i], &t);
        check_gradients(&shapes[i], &t, g, out);
    }
    bell_context_destroy(ctx);
}

/* A NaN in a query, whatever its bits, makes its row of the results NaN and no
 * other; one in a key all rows of its head, but not the head before it, behind
 * whose last key and value the first of this one's lie. */
static void
check_nan(int64_t n, int64_t keys, int64_t d)
{
    static const uint16_t nans[] = {0xffff, 0x7fff, 0x7fc0, 0xff81};
    static uint16_t q[2 * 128 * 80], k[ARRAY_LEN(q)], v[ARRAY_LEN(q)];
    struct bell_tensor *y;
    double *got;
    int64_t i;

    assert_true(2 * n * d <= (int64_t)ARRAY_LEN(q) &&
                2 * keys * d <= (int64_t)ARRAY_LEN(k));
    for (i = 0; i < 2 * keys * d; i++)
        k[i] = v[i] = (uint16_t)(0x3f00 | i % 61 | (i % 3 ? 0 : 0x8000));
    for (i = 0; i < 2 * n * d; i++)
        q[i] = (uint16_t)(0x3e80 | i % 59);
    for (i = 0; i < (int64_t)ARRAY_LEN(nans); i++)
        q[(5 * i + 3) * d + 7 * i] = nans[i];
    k[(keys + 40) * d + 9] = 0xffff;
    for (i = 0; i < d; i++)
        k[keys * d + i] = v[keys * d + i] = 0x7fc0;
    y = bell_scaled_dot_product_attention(
        bell_from_data(ctx, BELL_DIMS(2, n, d), BELL_BFLOAT16, q),
        bell_from_data(ctx, BELL_DIMS(2, keys, d), BELL_BFLOAT16, k),
        bell_from_data(ctx, BELL_DIMS(2, keys, d), BELL_BFLOAT16, v), NULL, 0,
        false, 0);
    got = read_all(y);
    for (i = 0; i < 2 * n * d; i++) {
        int64_t row = i / d;
        bool is_nan =
            row >= n || (row % 5 == 3 && row / 5 < (int64_t)ARRAY_LEN(nans));
        if (isnan(got[i]) != is_nan)
            fail_msg("of %d elements: row %d, column %d: %g", (int)d, (int)row,
                     (int)(i % d), got[i]);
    }
    free(got);
}

static void
test_nan(void **state)
{
    (void)state;
    expect_ok(bell_context_create(NULL, &ctx));
    check_nan(32, 64, 64);
    check_nan(128, 128, 80);
    check_nan(128, 128, 72);
    bell_context_destroy(ctx);
}

/* Scores of 2^21 to 2^22 (or times 2^10), which differ by 0 to 4 in each tile
 * of keys. The second half of the keys has values of 1, the first of 0. */
static void
check_large(int64_t n, float by)
{
    enum {
        D = 64,
        KEYS = 512,
        ROWS = 128
    };
    static uint16_t q[ROWS * D], k[KEYS * D], v[KEYS * D];
    double *got, sum = 0, upper = 0;
    struct bell_tensor *y;
    int64_t i;

    assert_true(n <= ROWS);
    memset(q, 0, sizeof(q));
    memset(k, 0, sizeof(k));
    for (i = 0; i < n; i++) {
        put(q, i * D, BELL_BFLOAT16, 4096 * by * (1 + (float)(i % 8) / 8));
        put(q, i * D + 1, BELL_BFLOAT16, 1);
    }
    for (i = 0; i < KEYS; i++) {
        put(k, i * D, BELL_BFLOAT16, 4096);
        put(k, i * D + 1, BELL_BFLOAT16, 8 * (float)(i * 7 % 5));
        sum += exp(by > 1 ? 0 : (double)(i * 7 % 5));
        upper += i < KEYS / 2 ? 0 : exp(by > 1 ? 0 : (double)(i * 7 % 5));
    }
    for (i = 0; i < KEYS * D; i++)
        put(v, i, BELL_BFLOAT16, i < KEYS * D / 2 ? 0 : 1);
    y = bell_scaled_dot_product_attention(
        bell_from_data(ctx, BELL_DIMS(1, n, D), BELL_BFLOAT16, q),
        bell_from_data(ctx, BELL_DIMS(1, KEYS, D), BELL_BFLOAT16, k),
        bell_from_data(ctx, BELL_DIMS(1, KEYS, D), BELL_BFLOAT16, v), NULL, 0,
        false, 0);
    got = read_all(y);
    for (i = 0; i < n * D; i++) {
        if (!(fabs(got[i] - upper / sum) < 0.01))
            fail_msg("%d rows, times %g: row %d: %g, not %g", (int)n,
                     (double)by, (int)(i / D), got[i], upper / sum);
    }
    free(got);
}

/* The maximum's rounding does not weigh one tile of keys more than another. On
 * a CPU there is no limit; on GPUs scores are below 2^31. */
static void
test_large(void **state)
{
    const char *name = getenv("BELL_DEVICE");

    (void)state;
    expect_ok(bell_context_create(NULL, &ctx));
    check_large(128, 1);
    check_large(8, 1);
    check_large(1, 1);
    if (name && strcmp(name, "CPU") == 0) {
        check_large(128, 1024);
        check_large(6, 1024);
    }
    bell_context_destroy(ctx);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_values),
        cmocka_unit_test(test_gradients),
        cmocka_unit_test(test_nan),
        cmocka_unit_test(test_large),
    };

    return cmocka_run_group_tests_name("attention", tests, NULL, NULL);
}
