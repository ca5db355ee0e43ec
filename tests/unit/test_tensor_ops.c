/* Elementwise calls against the C library, in float64 and float32, at special
 * values, and on integers; promotion of dtypes; error messages. */
#include "tests/unit/tensor_host.h"

#include <float.h>

/* ---- functions of one variable ---- */

typedef struct bell_tensor *unary_fn(struct bell_tensor *x);

static double
ref_relu(double x)
{
    return x > 0 ? x : 0;
}

static double
ref_sigmoid(double x)
{
    return x < 0 ? exp(x) / (1 + exp(x)) : 1 / (1 + exp(-x));
}

static double
ref_logsigmoid(double x)
{
    return fmin(x, 0) - log1p(exp(-fabs(x)));
}

static double
ref_silu(double x)
{
    return x * ref_sigmoid(x);
}

static double
ref_quick_gelu(double x)
{
    return x * ref_sigmoid(1.702 * x);
}

static double
ref_softsign(double x)
{
    return x / (1 + fabs(x));
}

static double
ref_mish(double x)
{
    return x * tanh(fmax(x, 0) + log1p(exp(-fabs(x))));
}

static double
ref_relu6(double x)
{
    return fmin(fmax(x, 0), 6);
}

static double
ref_hardsigmoid(double x)
{
    return ref_relu6(x + 3) / 6;
}

static double
ref_hardswish(double x)
{
    return x * ref_hardsigmoid(x);
}

static double
ref_selu(double x)
{
    return 1.0507009873554804934 *
           (x > 0 ? x : 1.6732632423543772848 * expm1(x));
}

static double
ref_recip(double x)
{
    return 1 / x;
}

static double
ref_rsqrt(double x)
{
    return 1 / sqrt(x);
}

static double
ref_square(double x)
{
    return x * x;
}

static double
ref_frac(double x)
{
    return x - trunc(x);
}

static double
ref_sign(double x)
{
    return (x > 0) - (x < 0);
}

static double
ref_neg(double x)
{
    return -x;
}

static struct bell_tensor *
gelu_erf(struct bell_tensor *x)
{
    return bell_gelu(x, false);
}

static double
ref_gelu(double x)
{
    return 0.5 * x * (1 + erf(x / sqrt(2)));
}

static struct bell_tensor *
gelu_tanh(struct bell_tensor *x)
{
    return bell_gelu(x, true);
}

static double
ref_gelu_tanh(double x)
{
    return 0.5 * x *
           (1 + tanh(0.79788456080286535588 * (x + 0.044715 * x * x * x)));
}

static struct bell_tensor *
softplus_2(struct bell_tensor *x)
{
    return bell_softplus(x, 2);
}

static double
ref_softplus_2(double x)
{
    return fmax(x, 0) + log1p(exp(-fabs(2 * x))) / 2;
}

static struct bell_tensor *
leaky(struct bell_tensor *x)
{
    return bell_leaky_relu(x, 0.25);
}

static double
ref_leaky(double x)
{
    return x > 0 ? x : 0.25 * x;
}

static struct bell_tensor *
elu_2(struct bell_tensor *x)
{
    return bell_elu(x, 2);
}

static double
ref_elu_2(double x)
{
    return x > 0 ? x : 2 * expm1(x);
}

static struct bell_tensor *
celu_2(struct bell_tensor *x)
{
    return bell_celu(x, 2);
}

static double
ref_celu_2(double x)
{
    return x > 0 ? x : 2 * expm1(x / 2);
}

static struct bell_tensor *
hardtanh_half(struct bell_tensor *x)
{
    return bell_hardtanh(x, -0.5, 2);
}

static double
ref_hardtanh_half(double x)
{
    return fmin(fmax(x, -0.5), 2);
}

/* Errors are counted in units of the last place of the result, but at least
 * of `floor`: what a sum of terms of that size leaves. */
struct unary_case {
    const char *name;
    unary_fn *call;
    double (*ref)(double);
    double low, high, ulps, floor;
};

static const struct unary_case unary_cases[] = {
    {"neg", bell_neg, ref_neg, -9, 9, 0, 0},
    {"abs", bell_abs, fabs, -9, 9, 0, 0},
    {"sign", bell_sign, ref_sign, -9, 9, 0, 0},
    {"square", bell_square, ref_square, -9, 9, 1, 0},
    {"reciprocal", bell_reciprocal, ref_recip, 0.01, 9, 1, 0},
    {"sqrt", bell_sqrt, sqrt, 0, 9, 1, 0},
    {"rsqrt", bell_rsqrt, ref_rsqrt, 0.01, 9, 2, 0},
    {"trunc", bell_trunc, trunc, -9, 9, 0, 0},
    {"floor", bell_floor, floor, -9, 9, 0, 0},
    {"ceil", bell_ceil, ceil, -9, 9, 0, 0},
    {"round", bell_round, rint, -9, 9, 0, 0},
    {"frac", bell_frac, ref_frac, -9, 9, 1, 0},
    {"exp", bell_exp, exp, -1, 1, 3, 0},
    {"exp far", bell_exp, exp, -80, 80, 100, 0},
    {"exp2", bell_exp2, exp2, -20, 20, 1, 0},
    {"expm1 small", bell_expm1, expm1, -0.01, 0.01, 4, 0},
    {"expm1", bell_expm1, expm1, -4, 4, 16, 0},
    {"log", bell_log, log, 0.01, 99, 3, 0},
    {"log2", bell_log2, log2, 0.01, 99, 1, 0},
    {"log10", bell_log10, log10, 0.01, 99, 3, 0},
    {"log1p tiny", bell_log1p, log1p, -1e-6, 1e-6, 5, 0},
    {"log1p", bell_log1p, log1p, -0.9, 9, 5, 0},
    {"sin", bell_sin, sin, -9, 9, 1, 0},
    {"cos", bell_cos, cos, -9, 9, 4, 1},
    {"tan", bell_tan, tan, -1.2, 1.2, 16, 0},
    {"asin", bell_asin, asin, -1, 1, 6, 0},
    {"acos", bell_acos, acos, -1, 1, 8, 0},
    {"atan", bell_atan, atan, -9, 9, 4, 0},
    {"atan far", bell_atan, atan, -1e6, 1e6, 4, 0},
    {"sinh small", bell_sinh, sinh, -0.01, 0.01, 6, 0},
    {"sinh", bell_sinh, sinh, -4, 4, 16, 0},
    {"cosh", bell_cosh, cosh, -4, 4, 8, 0},
    {"tanh small", bell_tanh, tanh, -0.01, 0.01, 3, 0},
    {"tanh", bell_tanh, tanh, -9, 9, 5, 0},
    {"asinh", bell_asinh, asinh, -9, 9, 8, 0},
    {"asinh far", bell_asinh, asinh, -1e30, 1e30, 8, 0},
    {"acosh", bell_acosh, acosh, 1.0001, 9, 12, 0},
    {"acosh far", bell_acosh, acosh, 1, 1e30, 8, 0},
    {"atanh", bell_atanh, atanh, -0.99, 0.99, 12, 0},
    {"erf small", bell_erf, erf, -0.01, 0.01, 6, 0},
    {"erf", bell_erf, erf, -7, 7, 6, 0},
    {"relu", bell_relu, ref_relu, -9, 9, 0, 0},
    {"relu6", bell_relu6, ref_relu6, -9, 9, 0, 0},
    {"leaky_relu", leaky, ref_leaky, -9, 9, 1, 0},
    {"elu", elu_2, ref_elu_2, -9, 9, 16, 0},
    {"celu", celu_2, ref_celu_2, -9, 9, 16, 0},
    {"selu", bell_selu, ref_selu, -9, 9, 16, 0},
    {"sigmoid", bell_sigmoid, ref_sigmoid, -9, 9, 16, 0},
    {"logsigmoid", bell_logsigmoid, ref_logsigmoid, -9, 9, 16, 0},
    {"silu", bell_silu, ref_silu, -9, 9, 16, 0},
    {"gelu", gelu_erf, ref_gelu, -4, 4, 4, 1},
    {"gelu tanh", gelu_tanh, ref_gelu_tanh, -4, 4, 8, 1},
    {"quick_gelu", bell_quick_gelu, ref_quick_gelu, -9, 9, 24, 0},
    {"softplus", softplus_2, ref_softplus_2, -9, 9, 32, 0},
    {"softsign", bell_softsign, ref_softsign, -9, 9, 2, 0},
    {"mish", bell_mish, ref_mish, -9, 9, 24, 0},
    {"hardtanh", hardtanh_half, ref_hardtanh_half, -9, 9, 0, 0},
    {"hardsigmoid", bell_hardsigmoid, ref_hardsigmoid, -9, 9, 3, 1},
    {"hardswish", bell_hardswish, ref_hardswish, -9, 9, 3, 9},
};

/* The greatest error in the range, in units of the last place. */
static double
worst_error(const struct unary_case *c, enum bell_dtype dtype, double *out_at)
{
    enum {
        N = 2000
    };
    static double in[N], got[N];
    double unit = dtype == BELL_FLOAT64 ? 0x1p-52 : 0x1p-23, worst = 0;
    struct bell_tensor *x, *y;
    int i;

    *out_at = 0;
    assert_int_equal(bell_scope_begin(ctx), BELL_OK);
    x = bell_cast(noise(c->low, c->high, BELL_DIMS(N)), dtype);
    y = c->call(x);
    assert_int_equal(bell_read_f64(x, in, N), BELL_OK);
    if (bell_read_f64(y, got, N) != BELL_OK) {
        print_error("%s: %s\n", c->name, bell_error_last()->message);
        fail();
    }
    assert_int_equal(bell_dtype_of(y), dtype);
    assert_int_equal(bell_scope_end(ctx), BELL_OK);
    for (i = 0; i < N; i++) {
        double want = c->ref(in[i]), scale = fmax(fabs(want), c->floor), error;
        error = fabs(got[i] - want) / (unit * fmax(scale, 0x1p-126));
        if (!(error <= worst)) {
            worst = error;
            *out_at = in[i];
        }
    }
    return worst;
}

static void
test_unary(void **state)
{
    size_t i, j, n_bad = 0;
    double at;

    (void)state;
    for (i = 0; i < ARRAY_LEN(unary_cases); i++) {
        const struct unary_case *c = &unary_cases[i];
        for (j = 0; j < 2; j++) {
            enum bell_dtype dtype = j ? BELL_FLOAT32 : BELL_FLOAT64;
            /* in float64 the range makes more of the argument's rounding */
            double error = worst_error(c, dtype, &at);
            if (!(error <= c->ulps + 0.51)) {
                print_error("%s: %.1f ulp of %s at %.17g, not %g\n", c->name,
                            error, bell_dtype_name(dtype), at, c->ulps);
                n_bad++;
            }
        }
    }
    assert_int_equal(n_bad, 0);
}

/* ---- special values ---- */

static void
test_special(void **state)
{
    const double inf = INFINITY;
    struct bell_tensor *x = T(V(-INFINITY, -1, -0.0, 0, 1, INFINITY, NAN), 7);
    struct bell_tensor *two = bell_scalar(ctx, 2), *f32;

    (void)state;
    EXPECT(bell_exp(x), 0, exp(-1), 1, 1, exp(1), inf, NAN);
    EXPECT(bell_expm1(x), -1, expm1(-1), 0, 0, expm1(1), inf, NAN);
    EXPECT(bell_log(x), NAN, NAN, -inf, -inf, 0, inf, NAN);
    EXPECT(bell_log1p(x), NAN, -inf, 0, 0, log(2), inf, NAN);
    EXPECT(bell_sqrt(x), NAN, NAN, 0, 0, 1, inf, NAN);
    EXPECT(bell_tanh(x), -1, tanh(-1), 0, 0, tanh(1), 1, NAN);
    EXPECT(bell_atan(x), atan(-inf), atan(-1), 0, 0, atan(1), atan(inf), NAN);
    EXPECT(bell_erf(x), -1, erf(-1), 0, 0, erf(1), 1, NAN);
    EXPECT(bell_sigmoid(x), 0, 1 / (1 + exp(1)), 0.5, 0.5, 1 / (1 + exp(-1)), 1,
           NAN);
    EXPECT(bell_sinh(x), -inf, sinh(-1), 0, 0, sinh(1), inf, NAN);
    EXPECT(bell_asinh(x), -inf, asinh(-1), 0, 0, asinh(1), inf, NAN);
    EXPECT(bell_atanh(x), NAN, -inf, 0, 0, inf, NAN, NAN);
    EXPECT(bell_relu(x), 0, 0, 0, 0, 1, inf, NAN);
    EXPECT(bell_abs(x), inf, 1, 0, 0, 1, inf, NAN);
    EXPECT(bell_sign(x), -1, -1, 0, 0, 1, 1, 0);
    EXPECT(bell_floor(x), -inf, -1, 0, 0, 1, inf, NAN);
    EXPECT(bell_round(x), -inf, -1, 0, 0, 1, inf, NAN);
    EXPECT(bell_isnan(x), 0, 0, 0, 0, 0, 0, 1);
    EXPECT(bell_isinf(x), 1, 0, 0, 0, 0, 1, 0);
    EXPECT(bell_isposinf(x), 0, 0, 0, 0, 0, 1, 0);
    EXPECT(bell_isneginf(x), 1, 0, 0, 0, 0, 0, 0);
    EXPECT(bell_isposinf(I(V(7, -7), 2)), 0, 0);
    EXPECT(bell_isneginf(I(V(7, -7), 2)), 0, 0);
    EXPECT(bell_isfinite(x), 0, 1, 1, 1, 1, 0, 0);
    EXPECT(bell_clip(x, -0.5, 2), -0.5, -0.5, 0, 0, 1, 2, NAN);
    EXPECT(bell_maximum(x, two), 2, 2, 2, 2, 2, inf, NAN);
    EXPECT(bell_minimum(x, two), -inf, -1, 0, 0, 1, 2, NAN);
    EXPECT(bell_le(x, bell_flip(x, BELL_NO_DIMS)), 0, 1, 1, 1, 0, 0, 0);
    EXPECT(bell_ge(x, x), 1, 1, 1, 1, 1, 1, 0);
    EXPECT(bell_div(bell_scalar(ctx, 1),
                    bell_index(x, BELL_ITEMS(bell_slice(2, 4, 1)))),
           -inf, inf);
    EXPECT(bell_logical_and(x, x), 1, 1, 0, 0, 1, 1, 1);
    EXPECT(bell_isclose(x, bell_add_scalar(x, 1e-9), 1e-5, 1e-8, true), 1, 1, 1,
           1, 1, 1, 1);
    EXPECT(bell_isclose(x, bell_add_scalar(x, 0.1), 1e-5, 1e-8, false), 1, 0, 0,
           0, 0, 1, 0);
    EXPECT_ERROR(bell_isclose(x, x, -1, 1e-8, false),
                 "bell_isclose: rtol -1 and atol 1e-08 must be 0 or more");
    EXPECT_ERROR(bell_isclose(x, x, 0, NAN, false),
                 "bell_isclose: rtol 0 and atol nan must be 0 or more");
    f32 = bell_cast(T(V(89, -200, 100), 3), BELL_FLOAT32);
    EXPECT(bell_sigmoid(f32), 1, 0, 1);
    EXPECT_NEAR(bell_softplus(f32, 1), 1e-7, 89, 0, 100);
    EXPECT(bell_pow(T(V(2, 0, -8, -8, 9), 5), T(V(-1, 0, 3, 0.5, 0.5), 5)), 0.5,
           1, -512, NAN, 3);
    EXPECT(bell_hypot(T(V(3e200, 0, INFINITY), 3), T(V(4e200, 0, 1), 3)), 5e200,
           0, INFINITY);
    EXPECT(bell_logaddexp(T(V(-INFINITY, 1000, INFINITY), 3),
                          T(V(-INFINITY, 1000, 0), 3)),
           -INFINITY, 1000 + log(2), INFINITY);
    EXPECT(bell_copysign(T(V(1, -2, 3), 3), T(V(-0.0, 0.0, -1), 3)), -1, 2, -3);
}

/* To the bit, C's; a NaN is any. */
static void
test_nextafter(void **state)
{
    static const double xs[] = {0,         -0.0,       0x1p-149,  -0x1p-149,
                                0x1p-1074, -0x1p-1074, 0x1p-126,  0x1p-1022,
                                1,         -1,         2.5,       INFINITY,
                                -INFINITY, NAN,        FLT_MAX,   -FLT_MAX,
                                DBL_MAX,   -DBL_MAX,   0x1.8p100, -3};
    enum {
        N = ARRAY_LEN(xs)
    };
    static const uint16_t half[][3] = {
        {0x0000, 0x3c00, 0x0001}, {0x8000, 0x3c00, 0x0001},
        {0x8001, 0x3c00, 0x8000}, {0x0000, 0x8000, 0x8000},
        {0x3c00, 0x0000, 0x3bff}, {0x7bff, 0x7c00, 0x7c00},
        {0xfc00, 0x0000, 0xfbff}, {0x0400, 0x8000, 0x03ff},
    };
    static const uint16_t bf[][3] = {
        {0x0000, 0x3f80, 0x0001}, {0x8001, 0x3f80, 0x8000},
        {0x3f80, 0x0000, 0x3f7f}, {0x7f7f, 0x7f80, 0x7f80},
        {0xff80, 0x0000, 0xff7f}, {0x0080, 0x8000, 0x007f},
    };
    double wide[N * N];
    float single[N * N];
    uint16_t got[ARRAY_LEN(half) * 3];
    struct bell_tensor *x = tensor_of(xs, BELL_DIMS(N)), *y, *t;
    size_t i, k;

    (void)state;
    y = bell_unsqueeze(x, 1);
    assert_int_equal(bell_read(bell_nextafter(x, y), wide, sizeof(wide)),
                     BELL_OK);
    t = bell_nextafter(bell_cast(x, BELL_FLOAT32), bell_cast(y, BELL_FLOAT32));
    assert_int_equal(bell_dtype_of(t), BELL_FLOAT32);
    assert_int_equal(bell_read(t, single, sizeof(single)), BELL_OK);
    for (i = 0; i < (size_t)N * N; i++) {
        double d = nextafter(xs[i % N], xs[i / N]);
        float f = nextafterf((float)xs[i % N], (float)xs[i / N]);
        assert_true((isnan(d) && isnan(wide[i])) ||
                    memcmp(&d, &wide[i], sizeof(d)) == 0);
        assert_true((isnan(f) && isnan(single[i])) ||
                    memcmp(&f, &single[i], sizeof(f)) == 0);
    }
    for (k = 0; k < 2; k++) {
        size_t n = k ? ARRAY_LEN(bf) : ARRAY_LEN(half);
        t = bell_from_data(ctx, BELL_DIMS((int64_t)n, 3), BELL_UINT16,
                           k ? bf : half);
        t = bell_bitcast(t, k ? BELL_BFLOAT16 : BELL_FLOAT16);
        t = bell_nextafter(bell_select(t, 1, 0), bell_select(t, 1, 1));
        assert_int_equal(bell_dtype_of(t), k ? BELL_BFLOAT16 : BELL_FLOAT16);
        assert_int_equal(bell_read(t, got, n * sizeof(got[0])), BELL_OK);
        for (i = 0; i < n; i++)
            assert_int_equal(got[i], k ? bf[i][2] : half[i][2]);
    }
}

static void
test_atan2(void **state)
{
    static const double ys[] = {-2, -1, -0.5, 0, 0.5, 1, 2};
    struct bell_tensor *y = bell_unsqueeze(tensor_of(ys, BELL_DIMS(7)), 1);
    struct bell_tensor *x = tensor_of(ys, BELL_DIMS(7));
    double want[49];
    int i, j;

    (void)state;
    for (i = 0; i < 7; i++) {
        for (j = 0; j < 7; j++)
            want[i * 7 + j] = atan2(ys[i], ys[j]);
    }
    expect_values(__FILE__, __LINE__, bell_atan2(y, x), want, 49, 1e-15);
}

/* ---- two operands ---- */

static void
test_division(void **state)
{
    struct bell_tensor *a = I(V(7, -7, 7, -7, 5), 5);
    struct bell_tensor *b = I(V(2, 2, -2, -2, 0), 5);
    struct bell_tensor *x = bell_cast(a, BELL_FLOAT64);
    struct bell_tensor *y = T(V(2, 2, -2, -2, 1.5), 5);

    (void)state;
    EXPECT(bell_floor_divide(a, b), 3, -4, -4, 3, 0);
    EXPECT(bell_trunc_divide(a, b), 3, -3, -3, 3, 0);
    EXPECT(bell_remainder(a, b), 1, 1, -1, -1, 0);
    EXPECT(bell_fmod(a, b), 1, -1, 1, -1, 0);
    EXPECT_NEAR(bell_div(a, b), 1e-7, 3.5, -3.5, -3.5, 3.5, INFINITY);
    assert_int_equal(bell_dtype_of(bell_div(a, b)), BELL_FLOAT32);
    EXPECT(bell_floor_divide(x, y), 3, -4, -4, 3, 3);
    EXPECT(bell_trunc_divide(x, y), 3, -3, -3, 3, 3);
    EXPECT(bell_remainder(x, y), 1, 1, -1, -1, 0.5);
    EXPECT(bell_fmod(x, y), 1, -1, 1, -1, 0.5);
}

static void
test_integers(void **state)
{
    struct bell_tensor *a = I(V(6, -3, 5, 1), 4), *b = I(V(3, 5, -1, 70), 4);
    struct bell_tensor *u8 = bell_cast(I(V(200, 100, 3, 0), 4), BELL_UINT8);

    (void)state;
    EXPECT(bell_bitwise_and(a, b), 2, 5, 5, 0);
    EXPECT(bell_bitwise_or(a, b), 7, -3, -1, 71);
    EXPECT(bell_bitwise_xor(a, b), 5, -8, -6, 71);
    EXPECT(bell_bitwise_not(a), -7, 2, -6, -2);
    EXPECT(bell_lshift(a, b), 48, -96, 0, 0);
    EXPECT(bell_rshift(a, b), 0, -1, 0, 0);
    EXPECT(bell_pow(a, b), 216, -243, 0, 1);
    EXPECT(bell_pow(I(V(-1, 1, 2, -1), 4), I(V(-3, -2, -1, -2), 4)), -1, 1, 0,
           1);
    EXPECT_ERROR(
        bell_pow_scalar(a, -2),
        "bell_pow_scalar: integers to the power of -2 must be made floats");
    EXPECT_ERROR(bell_pow(a, bell_scalar_int(ctx, -1)),
                 "bell_pow: integers to the power of -1 must be made floats");
    EXPECT(bell_pow_scalar(a, 3), 216, -27, 125, 1);
    EXPECT(bell_pow_scalar(a, 0), 1, 1, 1, 1);
    EXPECT(bell_abs(a), 6, 3, 5, 1);
    EXPECT(bell_add(u8, u8), 144, 200, 6, 0);
    EXPECT(bell_neg(u8), 56, 156, 253, 0);
    EXPECT(bell_sign(u8), 1, 1, 1, 0);
    EXPECT(bell_logical_not(u8), 0, 0, 0, 1);
    EXPECT(bell_add_scalar(u8, 1), 201, 101, 4, 1);
    assert_int_equal(bell_dtype_of(bell_add_scalar(u8, 1)), BELL_UINT8);
    assert_int_equal(bell_dtype_of(bell_add_scalar(u8, 0.5)), BELL_FLOAT32);
    EXPECT(bell_floor(a), 6, -3, 5, 1);
    EXPECT(bell_isnan(a), 0, 0, 0, 0);
    EXPECT(bell_isfinite(a), 1, 1, 1, 1);
    EXPECT(bell_relu(a), 6, 0, 5, 1);
    EXPECT(bell_clip(a, 0, 5), 5, 0, 5, 1);
    EXPECT(bell_maximum(a, b), 6, 5, 5, 70);
}

static void
test_bools(void **state)
{
    struct bell_tensor *a, *b;

    (void)state;
    a = bell_cast(I(V(0, 0, 1, 1), 4), BELL_BOOL);
    b = bell_cast(T(V(0, 0.5, 0, NAN), 4), BELL_BOOL);
    EXPECT(bell_add(a, b), 0, 1, 1, 1);
    EXPECT(bell_mul(a, b), 0, 0, 0, 1);
    EXPECT(bell_logical_xor(a, b), 0, 1, 1, 0);
    EXPECT(bell_bitwise_not(a), 1, 1, 0, 0);
    EXPECT(bell_lt(a, b), 0, 1, 0, 0);
    EXPECT(bell_ge(a, b), 1, 0, 1, 1);
    EXPECT(bell_eq(a, b), 1, 0, 0, 1);
    EXPECT(bell_maximum(a, b), 0, 1, 1, 1);
    EXPECT(bell_lshift(a, b), 0, 0, 1, 2);
    assert_int_equal(bell_dtype_of(bell_add(a, b)), BELL_BOOL);
    EXPECT(bell_add_scalar(a, 2), 2, 2, 3, 3);
    EXPECT_ERROR(bell_sub(a, b), "bell_sub: on bool; no meaning for it");
    EXPECT_ERROR(bell_neg(a), "bell_neg: on bool; no meaning for it");
}

static void
test_ternary(void **state)
{
    struct bell_tensor *x = T(V(1, 5, 3), 3), *y = T(V(2, 2, 2), 3);
    struct bell_tensor *c = bell_lt(x, y);

    (void)state;
    EXPECT(bell_where(c, x, y), 1, 2, 2);
    EXPECT(bell_where(c, bell_scalar(ctx, 7), x), 7, 5, 3);
    EXPECT(bell_where(c, bell_scalar_int(ctx, 7), bell_scalar_int(ctx, 1)), 7,
           1, 1);
    EXPECT(bell_where(bell_ones(ctx, BELL_DIMS(1), BELL_BOOL), x, y), 1, 5, 3);
    EXPECT(bell_clamp(x, y, NULL), 2, 5, 3);
    EXPECT(bell_clamp(x, NULL, y), 1, 2, 2);
    EXPECT(bell_lerp(x, y, bell_scalar(ctx, 0.5)), 1.5, 3.5, 2.5);
    EXPECT(bell_addcmul(x, x, y, 10), 21, 105, 63);
    EXPECT(bell_addcdiv(x, x, y, 10), 6, 30, 18);
    EXPECT(bell_masked_fill(x, c, -1), -1, 5, 3);
    EXPECT_ERROR(bell_where(x, x, y),
                 "bell_where: the condition is float64, not bool");
    EXPECT_ERROR(bell_clamp(x, NULL, NULL),
                 "bell_clamp: neither bound is given");
    EXPECT_ERROR(bell_where(c, T(V(1, 2), 2), y),
                 "bell_where: shapes (3,), (2,) and (3,) do not broadcast");
    y = I(V(1, 2), 2);
    EXPECT_ERROR(bell_masked_fill_by(bell_cast(y, BELL_INT8), bell_eq(y, y),
                                     bell_scalar_int(ctx, 300)),
                 "bell_masked_fill_by: 300 does not fit int8, -128 to 127: "
                 "convert a tensor to wrap");
    EXPECT(bell_masked_fill_by(bell_cast(y, BELL_UINT8), bell_eq(y, y),
                               bell_scalar_int(ctx, -1)),
           255, 255);
    EXPECT(
        bell_masked_fill_by(bell_cast(y, BELL_INT8), bell_eq(y, y),
                            bell_cast(bell_scalar_int(ctx, 300), BELL_INT64)),
        44, 44);
    EXPECT_ERROR(bell_index_put(bell_cast(y, BELL_UINT8),
                                BELL_ITEMS(bell_at(0)),
                                bell_scalar_int(ctx, -256)),
                 "bell_index_put: -256 does not fit uint8, 0 to 255: convert a "
                 "tensor to wrap");
    EXPECT_ERROR(bell_full_int(ctx, BELL_DIMS(1), 40000, BELL_INT16),
                 "bell_full_int: 40000 does not fit int16, -32768 to 32767: "
                 "convert a tensor to wrap");
    EXPECT_ERROR(bell_masked_fill(x, x, 1),
                 "bell_masked_fill: a mask of float64 (3,) for (3,): expected "
                 "bool, and a shape that broadcasts to that");
}

/* ---- conversions ---- */

static void
test_casts(void **state)
{
    struct bell_tensor *x = T(V(-1.5, 300.7, 1e20, -1e20, NAN), 5);

    (void)state;
    EXPECT(bell_cast(x, BELL_INT32), -1, 300, INT32_MAX, INT32_MIN, 0);
    EXPECT(bell_cast(x, BELL_UINT8), 0, 255, 255, 0, 0);
    EXPECT(bell_cast(x, BELL_BOOL), 1, 1, 1, 1, 1);
    EXPECT(bell_cast(bell_cast(x, BELL_FLOAT16), BELL_FLOAT64), -1.5, 300.75,
           INFINITY, -INFINITY, NAN);
    EXPECT(bell_cast(I(V(257, -1, 128), 3), BELL_INT8), 1, -1, -128);
    EXPECT(bell_bitcast(bell_cast(T(V(1, -2), 2), BELL_FLOAT32), BELL_INT32),
           0x3f800000, -0x40000000);
    EXPECT(bell_bitcast(I(V(0x3ff0000000000000), 1), BELL_FLOAT64), 1);
    EXPECT_ERROR(bell_bitcast(x, BELL_INT32),
                 "bell_bitcast: float64 to int32: their sizes differ");
    EXPECT_ERROR(bell_bitcast(bell_cast(x, BELL_INT8), BELL_BOOL),
                 "bell_bitcast: to bool; use bell_cast");
}

/* ---- 8-bit floats ---- */

static enum bell_dtype
sum_dtype(struct bell_tensor *x, struct bell_tensor *y)
{
    return bell_dtype_of(bell_add(x, y));
}

static void
test_8_bit_floats(void **state)
{
    struct bell_tensor *x = T(V(-1.3, 300, 464, 465, 1e6, 0.001, NAN), 7), *y;
    struct bell_tensor *a, *b;

    (void)state;
    EXPECT(bell_cast(x, BELL_FLOAT8_E4M3FN), -1.25, 288, 448, NAN, NAN, 0x1p-9,
           NAN);
    EXPECT(bell_cast(x, BELL_FLOAT8_E5M2), -1.25, 320, 448, 448, INFINITY,
           0x1p-10, NAN);
    EXPECT(bell_cast(x, BELL_FLOAT8_E4M3FNUZ), -1.25, NAN, NAN, NAN, NAN,
           0x1p-10, NAN);
    EXPECT(bell_cast(x, BELL_FLOAT8_E5M2FNUZ), -1.25, 320, 448, 448, NAN,
           0x1p-10, NAN);
    assert_int_equal(bell_dtype_size(BELL_FLOAT8_E5M2), 1);
    y = bell_cast(T(V(1, 2, 3, 20), 2, 2), BELL_FLOAT8_E4M3FN);
    /* what moves keeps the dtype, what computes gives float32 */
    a = bell_cat(BELL_TENSORS(y, bell_transpose(y, 0, 1)), 0);
    assert_int_equal(bell_dtype_of(a), BELL_FLOAT8_E4M3FN);
    EXPECT(a, 1, 2, 3, 20, 1, 3, 2, 20);
    a = bell_where(bell_gt(y, bell_scalar(ctx, 2)), y, bell_neg(y));
    assert_int_equal(bell_dtype_of(a), BELL_FLOAT32);
    b = bell_where(bell_gt(y, bell_scalar(ctx, 2)), y, bell_zeros_like(y, 0));
    assert_int_equal(bell_dtype_of(b), BELL_FLOAT8_E4M3FN);
    EXPECT(b, 0, 0, 3, 20);
    a = bell_mul(y, bell_scalar(ctx, 100));
    assert_int_equal(bell_dtype_of(a), BELL_FLOAT32);
    EXPECT(a, 100, 200, 300, 2000);
    a = bell_matmul(y, y);
    assert_int_equal(bell_dtype_of(a), BELL_FLOAT32);
    EXPECT(a, 7, 42, 63, 406);
    a = bell_max(y, BELL_NO_DIMS, false);
    assert_int_equal(bell_dtype_of(a), BELL_FLOAT32);
    EXPECT(a, 20);
    EXPECT(bell_sum(bell_cast(bell_full(ctx, BELL_DIMS(5000), 60, BELL_FLOAT32),
                              BELL_FLOAT8_E5M2),
                    BELL_NO_DIMS, false),
           320000);
    assert_int_equal(bell_dtype_of(bell_softmax(y, 1)), BELL_FLOAT32);
    assert_int_equal(sum_dtype(y, bell_cast(y, BELL_FLOAT8_E5M2)),
                     BELL_FLOAT32);
    assert_int_equal(sum_dtype(y, bell_cast(y, BELL_FLOAT16)), BELL_FLOAT16);
    EXPECT(bell_bitcast(y, BELL_UINT8), 0x38, 0x40, 0x44, 0x5a);
    EXPECT(bell_bitcast(bell_cast(y, BELL_FLOAT8_E4M3FNUZ), BELL_UINT8), 0x40,
           0x48, 0x4c, 0x62);
}

/* ---- promotion, as torch.promote_types and torch.result_type ---- */

static void
test_promotion(void **state)
{
    static const struct {
        enum bell_dtype a, b, both;
    } rows[] = {
        {BELL_BOOL, BELL_INT8, BELL_INT8},
        {BELL_BOOL, BELL_FLOAT16, BELL_FLOAT16},
        {BELL_UINT8, BELL_INT8, BELL_INT16},
        {BELL_UINT8, BELL_INT16, BELL_INT16},
        {BELL_UINT16, BELL_INT16, BELL_INT32},
        {BELL_UINT32, BELL_INT8, BELL_INT64},
        {BELL_UINT32, BELL_INT64, BELL_INT64},
        {BELL_UINT64, BELL_UINT8, BELL_UINT64},
        {BELL_UINT64, BELL_INT8, BELL_FLOAT64},
        {BELL_INT64, BELL_FLOAT16, BELL_FLOAT16},
        {BELL_UINT64, BELL_BFLOAT16, BELL_BFLOAT16},
        {BELL_FLOAT16, BELL_BFLOAT16, BELL_FLOAT32},
        {BELL_FLOAT16, BELL_FLOAT32, BELL_FLOAT32},
        {BELL_BFLOAT16, BELL_FLOAT64, BELL_FLOAT64},
        {BELL_FLOAT32, BELL_FLOAT64, BELL_FLOAT64},
    };
    enum bell_dtype d;
    size_t i;

    (void)state;
    for (i = 0; i < ARRAY_LEN(rows); i++) {
        assert_int_equal(bell_promote(rows[i].a, rows[i].b), rows[i].both);
        assert_int_equal(bell_promote(rows[i].b, rows[i].a), rows[i].both);
    }
    for (d = BELL_BOOL; d < BELL_DTYPE_COUNT; d++)
        assert_int_equal(bell_promote(d, d), d);
    assert_int_equal(bell_promote(BELL_DEFAULT, BELL_INT8), BELL_DEFAULT);
    assert_string_equal(bell_dtype_name(BELL_BFLOAT16), "bfloat16");
    assert_string_equal(bell_dtype_name((enum bell_dtype)77), "?");
    assert_int_equal(bell_dtype_size(BELL_UINT16), 2);
}

static void
test_result_types(void **state)
{
    struct bell_tensor *i8 = bell_zeros(ctx, BELL_DIMS(2), BELL_INT8);
    struct bell_tensor *f16 = bell_zeros(ctx, BELL_DIMS(2), BELL_FLOAT16);
    struct bell_tensor *b = bell_zeros(ctx, BELL_DIMS(2), BELL_BOOL);
    struct bell_tensor *f64_0 = bell_zeros(ctx, BELL_NO_DIMS, BELL_FLOAT64);
    struct bell_tensor *i64_0 = bell_zeros(ctx, BELL_NO_DIMS, BELL_INT64);
    struct bell_tensor *two = bell_scalar_int(ctx, 2);
    struct bell_tensor *half = bell_scalar(ctx, 0.5);

    (void)state;
    /* numbers give way within their category */
    assert_int_equal(sum_dtype(i8, two), BELL_INT8);
    assert_int_equal(sum_dtype(f16, half), BELL_FLOAT16);
    assert_int_equal(sum_dtype(f16, two), BELL_FLOAT16);
    assert_int_equal(sum_dtype(i8, half), BELL_FLOAT32);
    assert_int_equal(sum_dtype(b, two), BELL_INT64);
    /* so do tensors without axes */
    assert_int_equal(sum_dtype(i8, i64_0), BELL_INT8);
    assert_int_equal(sum_dtype(f16, f64_0), BELL_FLOAT16);
    assert_int_equal(sum_dtype(i8, f64_0), BELL_FLOAT64);
    assert_int_equal(sum_dtype(i64_0, half), BELL_FLOAT32);
    assert_int_equal(sum_dtype(f64_0, half), BELL_FLOAT64);
    /* numbers among themselves stay numbers, exact in float64 */
    assert_int_equal(sum_dtype(two, half), BELL_FLOAT32);
    EXPECT(bell_mul(T(V(1), 1), bell_add(half, bell_scalar(ctx, 0.1))), 0.6);
    assert_int_equal(sum_dtype(f16, bell_mul(two, half)), BELL_FLOAT16);
    assert_int_equal(bell_dtype_of(bell_reshape(half, BELL_DIMS(1))),
                     BELL_FLOAT32);
    assert_int_equal(bell_dtype_of(bell_sqrt(two)), BELL_FLOAT32);
    assert_int_equal(bell_dtype_of(bell_eq(two, half)), BELL_BOOL);
}

/* ---- broadcasting and its errors ---- */

static void
test_broadcast(void **state)
{
    struct bell_tensor *x = T(V(1, 2, 3), 3, 1), *y = T(V(10, 20), 2);

    (void)state;
    EXPECT_SHAPE(bell_add(x, y), 3, 2);
    EXPECT(bell_add(x, y), 11, 21, 12, 22, 13, 23);
    EXPECT(bell_sub(y, x), 9, 19, 8, 18, 7, 17);
    EXPECT_SHAPE(bell_mul(x, bell_ones(ctx, BELL_DIMS(4, 1, 1), BELL_FLOAT64)),
                 4, 3, 1);
    /* a constant of full shape with a smaller operand */
    EXPECT(bell_add(bell_full(ctx, BELL_DIMS(2, 2), 5, BELL_FLOAT64), y), 15,
           25, 15, 25);
    EXPECT(bell_add(bell_full(ctx, BELL_DIMS(2), 5, BELL_FLOAT64),
                    bell_full(ctx, BELL_DIMS(1), 2, BELL_FLOAT64)),
           7, 7);
    EXPECT_ERROR(bell_mul(T(V(1, 2, 3), 3), y),
                 "bell_mul: shapes (3,) and (2,) do not broadcast");
    EXPECT_ERROR(bell_bitwise_and(y, y),
                 "bell_bitwise_and: on float64; integers and bool only");
    EXPECT(bell_hardtanh(y, 2, 2), 2, 2); /* nothing between */
    assert_int_equal(bell_dtype_of(bell_hardtanh(I(V(-9, 9), 2), -1.5, 1.5)),
                     BELL_INT64);
    EXPECT(bell_hardtanh(I(V(-9, 9), 2), -1.5, 1.5), -1, 1);
    EXPECT(bell_hardtanh(bell_cast(I(V(7, 9), 2), BELL_UINT8), -1, 8), 7, 8);
    EXPECT_ERROR(bell_hardtanh(x, 2, 1),
                 "bell_hardtanh: low is 2, high 1: expected low <= high");
    EXPECT_ERROR(bell_softplus(x, 0),
                 "bell_softplus: beta is 0, not greater than 0");
    EXPECT_ERROR(bell_celu(x, 0), "bell_celu: alpha must not be 0");
    EXPECT_ERROR(bell_clip(x, NAN, 1),
                 "bell_clip: bounds nan and 1: a bound must not be NaN");
}

/* A number that halves cannot hold is what it is, as factor, divisor or base:
 * what comes of it may fit. */
static void
test_beyond_halves(void **state)
{
    struct bell_tensor *h, *big = bell_scalar(ctx, 70000), *grad;
    struct bell_tensor *small = bell_scalar(ctx, 1e-9);
    struct bell_tensor *whole = bell_scalar_int(ctx, 2147483648);

    (void)state;
    h = bell_cast(T(V(0, 0.5, -1024), 3), BELL_FLOAT16);
    EXPECT(bell_mul(h, big), 0, 35008, -INFINITY);
    EXPECT(bell_mul(whole, h), 0, INFINITY, -INFINITY);
    EXPECT(bell_mul_scalar(h, 70000), 0, 35008, -INFINITY);
    EXPECT(bell_div(h, small), 0, INFINITY, -INFINITY);
    EXPECT(bell_div_scalar(h, 1e-9), 0, INFINITY, -INFINITY);
    EXPECT(bell_div(whole, h), INFINITY, INFINITY, -INFINITY);
    EXPECT(bell_div(h, bell_scalar_int(ctx, 131072)), 0, 0x1p-18, -0x1p-7);
    EXPECT(bell_div(bell_scalar_int(ctx, 131072), h), INFINITY, INFINITY, -128);
    EXPECT(bell_floor_divide(h, small), 0, INFINITY, -INFINITY);
    h = bell_cast(T(V(0), 1), BELL_FLOAT16);
    assert_int_equal(bell_vjp(bell_pow(whole, h),
                              bell_ones_like(h, BELL_DEFAULT), &h, 1, &grad),
                     BELL_OK);
    EXPECT(grad, 21.484375);
    assert_int_equal(bell_vjp(bell_pow(small, h),
                              bell_ones_like(h, BELL_DEFAULT), &h, 1, &grad),
                     BELL_OK);
    EXPECT(grad, -20.71875);
}

int
main(void)
{
#define TEST(name)                                                             \
    cmocka_unit_test_setup_teardown(name, make_context, end_context)
    const struct CMUnitTest tests[] = {
        TEST(test_unary),     TEST(test_special),
        TEST(test_atan2),     TEST(test_nextafter),
        TEST(test_division),  TEST(test_integers),
        TEST(test_bools),     TEST(test_ternary),
        TEST(test_casts),     TEST(test_8_bit_floats),
        TEST(test_promotion), TEST(test_result_types),
        TEST(test_broadcast), TEST(test_beyond_halves),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
