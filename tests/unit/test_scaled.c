/* Results that are normal float32 numbers though a factor of their definition
 * is subnormal: some devices take such a factor for 0. On the device that
 * BELL_DEVICE names. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <math.h>

#include "base/bits.h"
#include "base/status.h"
#include "doorbell/ops.h"

static struct bell_tensor *
silu(struct bell_tensor *x, struct bell_tensor *y)
{
    (void)y;
    return bell_silu(x);
}

static double
f_silu(double x, double y)
{
    (void)y;
    return x / (1 + exp(-x));
}

static double
d_silu(double x, double y)
{
    double s = 1 / (1 + exp(-x));

    (void)y;
    return s * (1 + x * (1 - s));
}

static struct bell_tensor *
quick_gelu(struct bell_tensor *x, struct bell_tensor *y)
{
    (void)y;
    return bell_quick_gelu(x);
}

static double
f_quick_gelu(double x, double y)
{
    return f_silu(1.702 * x, y) / 1.702;
}

static double
d_quick_gelu(double x, double y)
{
    return d_silu(1.702 * x, y);
}

static struct bell_tensor *
gelu(struct bell_tensor *x, struct bell_tensor *y)
{
    (void)y;
    return bell_gelu(x, true);
}

static double
f_gelu(double x, double y)
{
    (void)y;
    return x / (1 + exp(-1.5957691216057308 * (x + 0.044715 * x * x * x)));
}

static double
d_gelu(double x, double y)
{
    return (f_gelu(x + 1e-4, y) - f_gelu(x - 1e-4, y)) / 2e-4;
}

static struct bell_tensor *
mish(struct bell_tensor *x, struct bell_tensor *y)
{
    (void)y;
    return bell_mish(x);
}

static double
f_mish(double x, double y)
{
    (void)y;
    return x * tanh(log1p(exp(x)));
}

static double
d_mish(double x, double y)
{
    double t = tanh(log1p(exp(x)));

    (void)y;
    return t + x * (1 - t * t) / (1 + exp(-x));
}

/* log(1 + exp(x / 10)) * 10 */
static struct bell_tensor *
softplus(struct bell_tensor *x, struct bell_tensor *y)
{
    (void)y;
    return bell_softplus(x, 0.1);
}

static double
f_softplus(double x, double y)
{
    (void)y;
    return log1p(exp(x / 10)) * 10;
}

/* exp(y) (y - x) */
static struct bell_tensor *
divergence(struct bell_tensor *x, struct bell_tensor *y)
{
    return bell_kl_div(x, y, true, BELL_SUM);
}

static double
f_divergence(double x, double y)
{
    return exp(y) * (y - x);
}

static double
f_hypot(double x, double y)
{
    return hypot(x, y);
}

static double
d_hypot(double x, double y)
{
    return x / hypot(x, y);
}

#define LIKE_X(name, call, value)                                              \
    static struct bell_tensor *name(struct bell_tensor *x,                     \
                                    struct bell_tensor *y)                     \
    {                                                                          \
        (void)y;                                                               \
        return call(x);                                                        \
    }                                                                          \
    static double f_##name(double x, double y)                                 \
    {                                                                          \
        (void)y;                                                               \
        return value;                                                          \
    }

LIKE_X(of_expm1, bell_expm1, expm1(x))
LIKE_X(of_erf, bell_erf, erf(x))
LIKE_X(of_sinh, bell_sinh, sinh(x))
LIKE_X(of_tanh, bell_tanh, tanh(x))
LIKE_X(of_asinh, bell_asinh, asinh(x))
LIKE_X(of_atanh, bell_atanh, atanh(x))
LIKE_X(of_log1p, bell_log1p, log1p(x))
LIKE_X(of_sin, bell_sin, sin(x))
LIKE_X(of_asin, bell_asin, asin(x))
LIKE_X(of_atan, bell_atan, atan(x))

static void
test_subnormal_factors(void **state)
{
    static const struct {
        const char *name;
        struct bell_tensor *(*f)(struct bell_tensor *, struct bell_tensor *);
        double (*want)(double x, double y), (*slope)(double x, double y);
        double x, y;
    } rows[] = {
        {"silu", silu, f_silu, d_silu, -79.5, 0},
        {"silu", silu, f_silu, d_silu, -81, 0},
        {"silu", silu, f_silu, d_silu, -88, 0},
        {"silu", silu, f_silu, d_silu, -91.5, 0},
        {"quick_gelu", quick_gelu, f_quick_gelu, d_quick_gelu, -52, 0},
        {"quick_gelu", quick_gelu, f_quick_gelu, d_quick_gelu, -53.5, 0},
        {"gelu, tanh", gelu, f_gelu, d_gelu, -10.03, 0},
        {"gelu, tanh", gelu, f_gelu, d_gelu, -10.06, 0},
        {"mish", mish, f_mish, d_mish, -79.5, 0},
        {"mish", mish, f_mish, d_mish, -88, 0},
        {"mish", mish, f_mish, d_mish, -91.5, 0},
        {"softplus", softplus, f_softplus, NULL, -795, 0},
        {"softplus", softplus, f_softplus, NULL, -880, 0},
        {"softplus", softplus, f_softplus, NULL, -890, 0},
        {"kl_div", divergence, f_divergence, NULL, -1, -88},
        {"kl_div", divergence, f_divergence, NULL, 3, -91},
        {"hypot", bell_hypot, f_hypot, d_hypot, 1e38, 1e38},
        {"hypot", bell_hypot, f_hypot, d_hypot, -2e38, 3e37},
        {"expm1", of_expm1, f_of_expm1, NULL, 0x1p-126, 0},
        {"expm1", of_expm1, f_of_expm1, NULL, -0x1.8p-125, 0},
        {"erf", of_erf, f_of_erf, NULL, 0x1p-126, 0},
        {"erf", of_erf, f_of_erf, NULL, -0x1.8p-125, 0},
        {"sinh", of_sinh, f_of_sinh, NULL, 0x1p-126, 0},
        {"sinh", of_sinh, f_of_sinh, NULL, -0x1.8p-125, 0},
        {"tanh", of_tanh, f_of_tanh, NULL, 0x1p-126, 0},
        {"tanh", of_tanh, f_of_tanh, NULL, -0x1.8p-125, 0},
        {"asinh", of_asinh, f_of_asinh, NULL, 0x1p-126, 0},
        {"asinh", of_asinh, f_of_asinh, NULL, -0x1.8p-125, 0},
        {"atanh", of_atanh, f_of_atanh, NULL, 0x1p-126, 0},
        {"atanh", of_atanh, f_of_atanh, NULL, -0x1.8p-125, 0},
        {"log1p", of_log1p, f_of_log1p, NULL, 0x1p-126, 0},
        {"log1p", of_log1p, f_of_log1p, NULL, -0x1.8p-125, 0},
        {"sin", of_sin, f_of_sin, NULL, 0x1p-126, 0},
        {"sin", of_sin, f_of_sin, NULL, -0x1.8p-125, 0},
        {"asin", of_asin, f_of_asin, NULL, 0x1p-126, 0},
        {"asin", of_asin, f_of_asin, NULL, -0x1.8p-125, 0},
        {"atan", of_atan, f_of_atan, NULL, 0x1p-126, 0},
        {"atan", of_atan, f_of_atan, NULL, -0x1.8p-125, 0},
    };
    struct bell_context *ctx;
    size_t i;

    (void)state;
    if (bell_context_create(NULL, &ctx) != BELL_OK)
        fail_msg("%s", bell_error_last()->message);
    for (i = 0; i < ARRAY_LEN(rows); i++) {
        float x = (float)rows[i].x, y = (float)rows[i].y, got = 0;
        double want = rows[i].want((double)x, (double)y);
        struct bell_tensor *t =
            bell_from_data(ctx, BELL_DIMS(1), BELL_FLOAT32, &x);
        struct bell_tensor *u =
            bell_from_data(ctx, BELL_DIMS(1), BELL_FLOAT32, &y);
        struct bell_tensor *r = rows[i].f(t, u), *grad = NULL;

        if (rows[i].slope)
            assert_int_equal(
                bell_gradient(bell_sum(r, BELL_NO_DIMS, false), &t, 1, &grad),
                BELL_OK);
        assert_int_equal(bell_read(r, &got, sizeof(got)), BELL_OK);
        assert_true(fabs(want) >= 0x1.fffffp-127);
        if (!(fabs((double)got - want) <= 1e-4 * fabs(want)))
            fail_msg("%s of %g, %g: %g, not %g", rows[i].name, (double)x,
                     (double)y, (double)got, want);
        if (!grad)
            continue;
        want = rows[i].slope((double)x, (double)y);
        assert_int_equal(bell_read(grad, &got, sizeof(got)), BELL_OK);
        if (!(fabs((double)got - want) <= 1e-4 * fabs(want)))
            fail_msg("slope of %s at %g, %g: %g, not %g", rows[i].name,
                     (double)x, (double)y, (double)got, want);
    }
    bell_context_destroy(ctx);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_subnormal_factors),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
