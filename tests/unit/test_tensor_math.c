/* Exact and approximate math on the device that BELL_DEVICE names: what may
 * be asked for, how far results are off (docs/explanation/math.md), and that
 * each setting has kernels of its own. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/bits.h"
#include "base/status.h"
#include "doorbell/ops.h"
#include "doorbell/stats.h"
#include "sanitized.h"

#define N    64
#define BOTH ((uint32_t)(BELL_MATH_TF32 | BELL_MATH_APPROX))

/* Allocations that fail, spread over all. */
#define TRIES (IS_SANITIZED ? 6 : 24)

static struct bell_context *
open_context(void)
{
    struct bell_context *ctx;

    if (bell_context_create(NULL, &ctx) != BELL_OK)
        fail_msg("%s", bell_error_last()->message);
    return ctx;
}

/* Numbers in [low, high). */
static void
fill(float *v, size_t n, uint32_t seed, double low, double high)
{
    uint64_t rng = seed;
    size_t i;

    for (i = 0; i < n; i++) {
        rng = rng * 6364136223846793005ull + 1442695040888963407ull;
        v[i] = (float)(low + (high - low) * (double)(rng >> 40) * 0x1p-24);
    }
}

/* ---- what may be asked for ---- */

static void
test_words(void **state)
{
    static const struct {
        const char *words;
        uint32_t math;
    } good[] = {
        {"exact", BELL_MATH_EXACT},
        {"tf32", BELL_MATH_TF32},
        {"approx", BELL_MATH_APPROX},
        {"tf32,approx", BOTH},
        {"approx,tf32", BOTH},
        {"tf32,tf32", BELL_MATH_TF32},
        {"exact,exact", BELL_MATH_EXACT},
    };
    static const char *const bad[] = {
        "",     ",",          "tf32,", "Exact",        "tf32 ",
        "fast", "exact,tf32", "tf",    "approx,tf320",
    };
    uint32_t math;
    size_t i;

    (void)state;
    for (i = 0; i < ARRAY_LEN(good); i++) {
        math = 77;
        assert_int_equal(bell_math_parse(good[i].words, &math), BELL_OK);
        assert_int_equal(math, good[i].math);
    }
    math = 77;
    for (i = 0; i < ARRAY_LEN(bad); i++) {
        assert_int_equal(bell_math_parse(bad[i], &math), BELL_E_INVALID);
        assert_non_null(strstr(bell_error_last()->message, "exact"));
    }
    assert_int_equal(math, 77);
}

static void
test_environment(void **state)
{
    struct bell_context *ctx;

    (void)state;
    unsetenv("BELL_MATH");
    ctx = open_context();
    assert_int_equal(bell_context_math(ctx), BELL_MATH_EXACT);
    assert_int_equal(bell_context_device_math(ctx) & ~BOTH, 0);
    assert_int_equal(bell_context_set_math(ctx, BELL_MATH_TF32), BELL_OK);
    assert_int_equal(bell_context_set_math(ctx, 4), BELL_E_INVALID);
    assert_non_null(strstr(bell_error_last()->message, "0x4 has bits"));
    assert_int_equal(bell_context_math(ctx), BELL_MATH_TF32);
    assert_int_equal(bell_context_set_math(ctx, BELL_MATH_EXACT), BELL_OK);
    assert_int_equal(bell_context_math(ctx), BELL_MATH_EXACT);
    bell_context_destroy(ctx);
    setenv("BELL_MATH", "approx,tf32", 1);
    ctx = open_context();
    assert_int_equal(bell_context_math(ctx), BOTH);
    bell_context_destroy(ctx);
    setenv("BELL_MATH", "", 1);
    ctx = open_context();
    assert_int_equal(bell_context_math(ctx), BELL_MATH_EXACT);
    bell_context_destroy(ctx);
    setenv("BELL_MATH", "tf32,fast", 1);
    assert_int_equal(bell_context_create(NULL, &ctx), BELL_E_INVALID);
    assert_non_null(strstr(bell_error_last()->message,
                           "BELL_MATH: unknown word 'fast'; known"));
    unsetenv("BELL_MATH");
}

/* ---- matrix products ---- */

/* x @ y with `math`. */
static void
multiply(struct bell_context *ctx, const float *x, const float *y,
         uint32_t math, float *out)
{
    const int64_t shape[2] = {N, N};

    assert_int_equal(bell_context_set_math(ctx, math), BELL_OK);
    assert_int_equal(bell_scope_begin(ctx), BELL_OK);
    if (bell_read(bell_matmul(bell_from_data(ctx, shape, 2, BELL_FLOAT32, x),
                              bell_from_data(ctx, shape, 2, BELL_FLOAT32, y)),
                  out, N * N * sizeof(float)) != BELL_OK)
        fail_msg("%s", bell_error_last()->message);
    assert_int_equal(bell_scope_end(ctx), BELL_OK);
}

/* Each factor may be off by `factor`, each sum by 2^-23. */
static void
check_product(const float *x, const float *y, double factor, const float *got)
{
    int i, j, k;

    for (i = 0; i < N; i++) {
        for (j = 0; j < N; j++) {
            double sum = 0, size = 0, bound, value = (double)got[i * N + j];
            for (k = 0; k < N; k++) {
                double p = (double)x[i * N + k] * (double)y[k * N + j];
                sum += p;
                size += fabs(p);
            }
            bound = size * (2 * factor + factor * factor + (N + 2) * 0x1p-23);
            if (!(fabs(value - sum) <= bound))
                fail_msg("[%d, %d] is %.9g, not %.9g (within %g)", i, j, value,
                         sum, bound);
        }
    }
}

static void
test_products(void **state)
{
    static float x[N * N], y[N * N], exact[N * N], got[N * N];
    struct bell_context *ctx = open_context();
    bool has = bell_context_device_math(ctx) & BELL_MATH_TF32;
    int i;

    (void)state;
    fill(x, N * N, 1, -1, 1);
    fill(y, N * N, 2, -1, 1);
    multiply(ctx, x, y, BELL_MATH_EXACT, exact);
    check_product(x, y, 0, exact);
    multiply(ctx, x, y, BELL_MATH_TF32, got);
    check_product(x, y, 0x1p-11, got);
    /* of gfx90a it matters to halves alone (docs/explanation/math.md) */
    if (!strstr(bell_context_device(ctx), "gfx90a"))
        assert_int_equal(memcmp(exact, got, sizeof(got)) != 0, has);
    multiply(ctx, x, y, BELL_MATH_APPROX, got);
    assert_memory_equal(exact, got, sizeof(got));
    /* A value of few digits is not rounded: sums of these are exact. */
    for (i = 0; i < N * N; i++) {
        x[i] = floorf(x[i] * 1000) * 0.25f;
        y[i] = floorf(y[i] * 32);
    }
    multiply(ctx, x, y, BOTH, got);
    check_product(x, y, -(N + 2) * 0x1p-24, got);
    bell_context_destroy(ctx);
}

/* A row with an infinity, one with a NaN of all bits, one that rounds up to
 * an infinity: what it gives is that of float32, or an infinity. */
static void
test_infinities(void **state)
{
    static float x[N * N], y[N * N], got[N * N];
    struct bell_context *ctx = open_context();
    uint32_t bits = 0x7fffffff;
    int j;

    (void)state;
    fill(x, N * N, 1, 0, 1);
    fill(y, N * N, 2, 0.5, 1);
    x[0] = INFINITY;
    memcpy(&x[N], &bits, sizeof(bits));
    x[2 * N] = FLT_MAX;
    multiply(ctx, x, y, BELL_MATH_TF32, got);
    for (j = 0; j < N; j++) {
        assert_true(isinf(got[j]));
        assert_true(isnan(got[N + j]));
        assert_true(got[2 * N + j] > FLT_MAX / 4);
        assert_true(isfinite(got[3 * N + j]));
    }
    bell_context_destroy(ctx);
}

/* ---- functions ---- */

static double
quarter(double x)
{
    return 0.25 / x;
}

static double
reciprocal(double x)
{
    return 1 / x;
}

static double
root_reciprocal(double x)
{
    return 1 / sqrt(x);
}

static struct bell_tensor *
divide_quarter(struct bell_tensor *x)
{
    return bell_div(bell_scalar(bell_context_of(x), 0.25), x);
}

static const struct function {
    const char *name;
    struct bell_tensor *(*make)(struct bell_tensor *x);
    double (*want)(double x);
    double from, to, relative, absolute;
} functions[] = {
    {"exp2", bell_exp2, exp2, -126, 127, 0x1p-22, 0},
    {"exp2", bell_exp2, exp2, -149, -125, 0, 0x1p-149},
    {"exp", bell_exp, exp, -1, 1, 0x1p-20, 0},
    {"log2", bell_log2, log2, 0.5, 2, 0, 0x1p-21},
    {"log2", bell_log2, log2, 2, 1e30, 0x1p-21, 0},
    {"log2", bell_log2, log2, 1e-44, 1e-38, 0x1p-21, 0},
    {"log", bell_log, log, 2, 1000, 0x1p-20, 0},
    {"sin", bell_sin, sin, -4, 4, 0, 0x1p-20},
    {"sin", bell_sin, sin, -65000, 65000, 0, 0x1p-20},
    {"sqrt", bell_sqrt, sqrt, 0, 1e30, 0x1p-22, 0},
    {"sqrt", bell_sqrt, sqrt, 0, 1e-38, 0x1p-22, 0},
    {"rsqrt", bell_rsqrt, root_reciprocal, 1e-30, 1000, 0x1p-21, 0},
    {"reciprocal", bell_reciprocal, reciprocal, 1e-30, 1000, 0x1p-22, 0},
    {"0.25 / x", divide_quarter, quarter, -1000, -0.001, 0x1p-22, 0},
    {"0.25 / x", divide_quarter, quarter, 1e37, 3e38, 0x1p-22, 0x1p-149},
};

static void
check_function(struct bell_context *ctx, const struct function *f)
{
    static float x[N * N], got[N * N];
    const int64_t shape[1] = {N * N};
    int i;

    fill(x, N * N, 5, f->from, f->to);
    assert_int_equal(bell_scope_begin(ctx), BELL_OK);
    if (bell_read(f->make(bell_from_data(ctx, shape, 1, BELL_FLOAT32, x)), got,
                  sizeof(got)) != BELL_OK)
        fail_msg("%s: %s", f->name, bell_error_last()->message);
    assert_int_equal(bell_scope_end(ctx), BELL_OK);
    for (i = 0; i < N * N; i++) {
        double want = f->want((double)x[i]);
        if (!(fabs((double)got[i] - want) <=
              f->absolute + f->relative * fabs(want)))
            fail_msg("%s of %a is %a, not %a", f->name, (double)x[i],
                     (double)got[i], want);
    }
}

/* Operands without an ordinary result have the usual one. */
static void
check_special(struct bell_context *ctx)
{
    static const struct {
        struct bell_tensor *(*make)(struct bell_tensor *x);
        float x, want;
    } rows[] = {
        {bell_exp2, INFINITY, INFINITY},
        {bell_exp2, -INFINITY, 0},
        {bell_exp2, 0, 1},
        {bell_exp2, 200, INFINITY},
        {bell_exp2, -200, 0},
        {bell_log2, 0, -INFINITY},
        {bell_log2, 1, 0},
        {bell_log2, -1, NAN},
        {bell_log2, INFINITY, INFINITY},
        {bell_sqrt, -1, NAN},
        {bell_sqrt, 0, 0},
        {bell_sqrt, INFINITY, INFINITY},
        {bell_reciprocal, 0, INFINITY},
        {bell_reciprocal, INFINITY, 0},
        {bell_sin, 0, 0},
        {bell_sin, INFINITY, NAN},
        {bell_sin, NAN, NAN},
        {bell_exp2, NAN, NAN},
    };
    size_t i;

    for (i = 0; i < ARRAY_LEN(rows); i++) {
        const int64_t shape[1] = {1};
        float got;
        assert_int_equal(
            bell_read(rows[i].make(bell_from_data(ctx, shape, 1, BELL_FLOAT32,
                                                  &rows[i].x)),
                      &got, sizeof(got)),
            BELL_OK);
        if (isnan(rows[i].want) ? !isnan(got) : got != rows[i].want)
            fail_msg("row %zu: of %g it is %g, not %g", i, (double)rows[i].x,
                     (double)got, (double)rows[i].want);
    }
}

static void
test_functions(void **state)
{
    struct bell_context *ctx = open_context();
    size_t i;

    (void)state;
    assert_int_equal(bell_context_set_math(ctx, BELL_MATH_APPROX), BELL_OK);
    for (i = 0; i < ARRAY_LEN(functions); i++)
        check_function(ctx, &functions[i]);
    check_special(ctx);
    bell_context_destroy(ctx);
}

/* Integers are never approximate: whole quotients above all. */
static void
test_integers(void **state)
{
    static int16_t x[N * N], y[N * N], got[2][N * N];
    struct bell_context *ctx = open_context();
    const int64_t shape[1] = {N * N};
    struct bell_tensor *a, *b;
    int i;

    (void)state;
    for (i = 0; i < N * N; i++) {
        y[i] = (int16_t)(i % 181 + 1);
        x[i] = (int16_t)(y[i] * (i % 173));
    }
    assert_int_equal(bell_context_set_math(ctx, BOTH), BELL_OK);
    assert_int_equal(bell_scope_begin(ctx), BELL_OK);
    a = bell_from_data(ctx, shape, 1, BELL_INT16, x);
    b = bell_from_data(ctx, shape, 1, BELL_INT16, y);
    assert_int_equal(bell_read(bell_floor_divide(a, b), got[0], sizeof(x)),
                     BELL_OK);
    assert_int_equal(bell_read(bell_remainder(a, b), got[1], sizeof(x)),
                     BELL_OK);
    for (i = 0; i < N * N; i++) {
        if (got[0][i] != x[i] / y[i] || got[1][i] != 0)
            fail_msg("%d / %d is %d, rest %d", x[i], y[i], got[0][i],
                     got[1][i]);
    }
    assert_int_equal(bell_scope_end(ctx), BELL_OK);
    bell_context_destroy(ctx);
}

/* ---- one context, several settings ---- */

/* softmax(x @ y) / sin(x + 4), in a scope of its own. */
static bell_status
compute(struct bell_context *ctx, const float *x, const float *y, float *out)
{
    const int64_t shape[2] = {N, N};
    struct bell_tensor *a, *b;
    bell_status status, ended;

    BELL_TRY(bell_scope_begin(ctx));
    a = bell_from_data(ctx, shape, 2, BELL_FLOAT32, x);
    b = bell_from_data(ctx, shape, 2, BELL_FLOAT32, y);
    status = bell_read(bell_div(bell_softmax(bell_matmul(a, b), -1),
                                bell_sin(bell_add_scalar(a, 4))),
                       out, N * N * sizeof(float));
    ended = bell_scope_end(ctx);
    return status != BELL_OK ? status : ended;
}

static void
test_alternating(void **state)
{
    static float x[N * N], y[N * N], first[4][N * N], got[N * N];
    struct bell_context *ctx = open_context();
    uint32_t device = bell_context_device_math(ctx), math;
    struct bell_stats one = {.struct_size = sizeof(one)},
                      all = {.struct_size = sizeof(all)},
                      again = {.struct_size = sizeof(again)};
    int round;

    (void)state;
    fill(x, N * N, 3, -0.5, 0.5);
    fill(y, N * N, 4, -0.5, 0.5);
    for (math = 0; math < 4; math++) {
        assert_int_equal(bell_context_set_math(ctx, math), BELL_OK);
        assert_int_equal(compute(ctx, x, y, first[math]), BELL_OK);
        bell_context_stats(ctx, &all);
        if (math == 0)
            one = all;
    }
    /* a setting has its kernels if it makes a difference */
    math =
        (device & BELL_MATH_TF32 ? 2 : 1) * (device & BELL_MATH_APPROX ? 2 : 1);
    assert_int_equal(all.n_kernels_compiled, math * one.n_kernels_compiled);
    assert_int_equal(all.n_plans, math * one.n_plans);
    for (round = 0; round < 8; round++) {
        math = (uint32_t)(round * 3) % 4;
        assert_int_equal(bell_context_set_math(ctx, math), BELL_OK);
        assert_int_equal(compute(ctx, x, y, got), BELL_OK);
        assert_memory_equal(got, first[math], sizeof(got));
        assert_memory_equal(got, first[math & device], sizeof(got));
    }
    bell_context_stats(ctx, &again);
    assert_int_equal(again.n_kernels_compiled, all.n_kernels_compiled);
    assert_int_equal(again.n_plans, all.n_plans);
    bell_context_destroy(ctx);
}

/* An exact run, then another setting's with allocation n failing, then exact
 * again: the same as before. */
static void
fail_once(const float *x, const float *y, uint64_t n, bool once)
{
    static float exact[N * N], got[N * N];
    struct bell_context *ctx = open_context();
    bell_status status;

    assert_int_equal(compute(ctx, x, y, exact), BELL_OK);
    host_fail_after(n, once);
    status = bell_context_set_math(ctx, BOTH);
    if (status == BELL_OK)
        status = compute(ctx, x, y, got);
    host_fail_after(0, 0);
    if (status != BELL_OK && status != BELL_E_NO_MEMORY)
        fail_msg("allocation %d: %s", (int)n, bell_error_last()->message);
    assert_int_equal(bell_context_set_math(ctx, BELL_MATH_EXACT), BELL_OK);
    if (compute(ctx, x, y, got) != BELL_OK)
        fail_msg("after allocation %d: %s", (int)n, bell_error_last()->message);
    assert_memory_equal(exact, got, sizeof(got));
    bell_context_destroy(ctx);
}

static void
test_out_of_memory(void **state)
{
    static float x[N * N], y[N * N], got[N * N];
    struct bell_context *ctx = open_context();
    uint64_t n_allocs, n;

    (void)state;
    fill(x, N * N, 3, -0.5, 0.5);
    fill(y, N * N, 4, -0.5, 0.5);
    assert_int_equal(compute(ctx, x, y, got), BELL_OK);
    n_allocs = host_alloc_count();
    assert_int_equal(bell_context_set_math(ctx, BOTH), BELL_OK);
    assert_int_equal(compute(ctx, x, y, got), BELL_OK);
    n_allocs = host_alloc_count() - n_allocs;
    bell_context_destroy(ctx);
    for (n = 1; n <= n_allocs; n += 1 + n_allocs / TRIES)
        fail_once(x, y, n, n & 1);
}

/* ---- halves ---- */

static double
d_sigmoid(double x)
{
    return 1 / (1 + exp(-x));
}

static double
d_silu(double x)
{
    return x * d_sigmoid(x);
}

static double
d_gelu(double x)
{
    return 0.5 * x * erfc(-x * 0.70710678118654752440);
}

static double
d_log_sigmoid(double x)
{
    return x < 0 ? x - log1p(exp(x)) : -log1p(exp(-x));
}

static double
d_rsqrt(double x)
{
    return 1 / sqrt(x);
}

static double
d_recip(double x)
{
    return 1 / x;
}

static struct bell_tensor *
gelu(struct bell_tensor *x)
{
    return bell_gelu(x, false);
}

/* The distance of the numbers of a small float about v. */
static double
spacing(double v, enum bell_dtype dtype)
{
    int bits = dtype == BELL_FLOAT16 ? 11 : 8;
    int least = dtype == BELL_FLOAT16 ? -24 : -133;
    int e;

    frexp(v, &e);
    return ldexp(1, e - bits > least ? e - bits : least);
}

/* Every float16 and bfloat16: what is computed is rounded once, whatever the
 * device's own arithmetic in halves is. */
static void
test_halves(void **state)
{
    static const struct {
        const char *name;
        struct bell_tensor *(*f)(struct bell_tensor *x);
        double (*want)(double x);
        double low, high; /* arguments outside are not compared */
        double steps;     /* at most so far off; 0: 0.51 */
    } rows[] = {
        {"exp", bell_exp, exp, -1e9, 1e9, 0},
        {"exp2", bell_exp2, exp2, -1e9, 1e9, 0},
        {"expm1", bell_expm1, expm1, -1e9, 1e9, 0},
        {"log", bell_log, log, 0, 1e9, 0},
        {"log2", bell_log2, log2, 0, 1e9, 0},
        {"log10", bell_log10, log10, 0, 1e9, 0},
        {"log1p", bell_log1p, log1p, -1, 1e9, 0},
        {"sin", bell_sin, sin, -4e38, 4e38, 0},
        {"cos", bell_cos, cos, -4e38, 4e38, 0},
        {"tan", bell_tan, tan, -4e38, 4e38, 0},
        {"asin", bell_asin, asin, -1, 1, 0},
        {"acos", bell_acos, acos, -1, 1, 0},
        {"atan", bell_atan, atan, -1e9, 1e9, 0},
        {"sinh", bell_sinh, sinh, -1e9, 1e9, 0},
        {"cosh", bell_cosh, cosh, -1e9, 1e9, 0},
        {"tanh", bell_tanh, tanh, -1e9, 1e9, 0},
        {"asinh", bell_asinh, asinh, -1e9, 1e9, 0},
        {"acosh", bell_acosh, acosh, 1, 1e9, 0},
        {"atanh", bell_atanh, atanh, -1, 1, 0},
        {"erf", bell_erf, erf, -1e9, 1e9, 0},
        {"sigmoid", bell_sigmoid, d_sigmoid, -1e9, 1e9, 0},
        {"logsigmoid", bell_logsigmoid, d_log_sigmoid, -1e9, 1e9, 0},
        {"silu", bell_silu, d_silu, -1e9, 1e9, 0},
        {"gelu", gelu, d_gelu, -2, 1e9, 0},
        {"gelu", gelu, d_gelu, -1e9, -2, 0.61},
        {"sqrt", bell_sqrt, sqrt, 0, 1e9, 0},
        {"rsqrt", bell_rsqrt, d_rsqrt, 0, 1e9, 0},
        {"reciprocal", bell_reciprocal, d_recip, -1e9, 1e9, 0},
    };
    static const enum bell_dtype dtypes[] = {BELL_FLOAT16, BELL_BFLOAT16};
    static uint16_t codes[65536];
    static double x[65536], y[65536];
    struct bell_context *ctx = open_context();
    size_t i, k, d;

    (void)state;
    for (i = 0; i < ARRAY_LEN(codes); i++)
        codes[i] = (uint16_t)i;
    for (d = 0; d < ARRAY_LEN(dtypes); d++) {
        struct bell_tensor *t = bell_bitcast(
            bell_from_data(ctx, BELL_DIMS(65536), BELL_UINT16, codes),
            dtypes[d]);

        assert_int_equal(bell_read(bell_cast(t, BELL_FLOAT64), x, sizeof(x)),
                         BELL_OK);
        for (k = 0; k < ARRAY_LEN(rows); k++) {
            double worst = 0, worst_at = 0;

            assert_int_equal(
                bell_read(bell_cast(rows[k].f(t), BELL_FLOAT64), y, sizeof(y)),
                BELL_OK);
            for (i = 0; i < ARRAY_LEN(x); i++) {
                double want = rows[k].want(x[i]), off;

                if (!(x[i] >= rows[k].low && x[i] <= rows[k].high) ||
                    !isfinite(x[i]) || !isfinite(want) || want == y[i])
                    continue;
                off = fabs(y[i] - want) / spacing(want, dtypes[d]);
                if (isinf(y[i])) /* from half a step beyond the greatest */
                    off =
                        fabs(want) >= (dtypes[d] == BELL_FLOAT16 ? 65519.9
                                                                 : 0x1.feffp127)
                            ? 0
                            : INFINITY;
                if (!(off <= worst)) {
                    worst = off;
                    worst_at = x[i];
                }
            }
            if (!(worst <= (rows[k].steps > 0 ? rows[k].steps : 0.51)))
                fail_msg("%s of %s %a: off by %g of a step", rows[k].name,
                         bell_dtype_name(dtypes[d]), worst_at, worst);
        }
    }
    bell_context_destroy(ctx);
}

static struct bell_tensor *
gelu_tanh(struct bell_tensor *x)
{
    return bell_gelu(x, true);
}

static double
d_gelu_tanh(double x)
{
    return x / (1 + exp(-1.5957691216057308 * (x + 0.044715 * x * x * x)));
}

/* Float32 to a few units in the last place, however large results are. */
static void
test_singles(void **state)
{
    static const struct {
        const char *name;
        struct bell_tensor *(*f)(struct bell_tensor *x);
        double (*want)(double x);
        double low, high, ulps;
    } rows[] = {
        {"exp", bell_exp, exp, -86, 88.72, 1.6},
        {"exp", bell_exp, exp, -103.5, -86, 1.6}, /* subnormal, mostly */
        {"exp", bell_exp, exp, -1, 1, 1.6},
        {"sinh", bell_sinh, sinh, -89.4, 89.4, 4},
        {"cosh", bell_cosh, cosh, -89.4, 89.4, 4},
        {"erf", bell_erf, erf, -4.5, 4.5, 2},
        {"erf", bell_erf, erf, -0x1p-20, 0x1p-20, 2},
        /* the exponential of -17 +- 2 units */
        {"gelu, tanh", gelu_tanh, d_gelu_tanh, -5, 5, 64},
    };
    static float x[4096], y[4096];
    struct bell_context *ctx = open_context();
    size_t i, k;

    (void)state;
    for (k = 0; k < ARRAY_LEN(rows); k++) {
        struct bell_tensor *t;
        fill(x, ARRAY_LEN(x), 7, rows[k].low, rows[k].high);
        t = bell_from_data(ctx, BELL_DIMS(ARRAY_LEN(x)), BELL_FLOAT32, x);
        assert_int_equal(bell_read(rows[k].f(t), y, sizeof(y)), BELL_OK);
        for (i = 0; i < ARRAY_LEN(x); i++) {
            double want = rows[k].want((double)x[i]), ulp, off;
            int e;
            frexp(want, &e);
            ulp = ldexp(1, e - 24 > -149 ? e - 24 : -149);
            off = fabs((double)y[i] - want) / ulp;
            if (!(off <= rows[k].ulps))
                fail_msg("%s of %a: off by %g units", rows[k].name,
                         (double)x[i], off);
        }
    }
    bell_context_destroy(ctx);
}

/* ---- order ---- */

/* Rows in the network's kernels: each is the one before or greater. */
static void
test_order(void **state)
{
    struct bell_context *ctx = open_context();
    struct bell_tensor *values, *places, *t;
    int64_t place[4 * 37];
    float x[4 * 37], y[4 * 37];
    size_t i, at;

    (void)state;
    fill(x, ARRAY_LEN(x), 3, -4, 4);
    for (i = 0; i < ARRAY_LEN(x); i++)
        x[i] = i % 7 == 3 ? NAN : floorf(x[i]);
    t = bell_from_data(ctx, BELL_DIMS(4, 37), BELL_FLOAT32, x);
    bell_sort(t, 1, false, &values, &places);
    assert_int_equal(bell_read(values, y, sizeof(y)), BELL_OK);
    assert_int_equal(bell_read(places, place, sizeof(place)), BELL_OK);
    for (i = 0; i < ARRAY_LEN(x); i++) {
        at = i / 37 * 37 + (size_t)place[i];
        assert_in_range(place[i], 0, 36);
        assert_true(isnan(y[i]) ? isnan(x[at]) : y[i] == x[at]);
        if (i % 37 && y[i] == y[i - 1])
            assert_true(place[i] > place[i - 1]);
        else if (i % 37)
            assert_true(y[i] > y[i - 1] || isnan(y[i]));
    }
    bell_context_destroy(ctx);
}

/* Bfloats that are one of two constants, whose sign -|x| has to keep. */
static void
test_choices(void **state)
{
    struct bell_context *ctx = open_context();
    double got[24];
    int i;

    (void)state;
    if (bell_read_f64(bell_silu(bell_eye(ctx, 6, 4, BELL_BFLOAT16)), got, 24) !=
        BELL_OK)
        fail_msg("%s", bell_error_last()->message);
    for (i = 0; i < 24; i++)
        assert_true(got[i] == (i / 4 == i % 4 ? 0.73046875 : 0));
    bell_context_destroy(ctx);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_words),
        cmocka_unit_test(test_environment),
        cmocka_unit_test(test_products),
        cmocka_unit_test(test_infinities),
        cmocka_unit_test(test_functions),
        cmocka_unit_test(test_halves),
        cmocka_unit_test(test_singles),
        cmocka_unit_test(test_integers),
        cmocka_unit_test(test_alternating),
        cmocka_unit_test(test_order),
        cmocka_unit_test(test_out_of_memory),
        cmocka_unit_test(test_choices),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
