/* Gradients of every differentiable call against finite differences in
 * float64, and the rules of bell_gradient and bell_backward. */
#include "tests/unit/tensor_host.h"

#include <stdlib.h>

#include "doorbell/vision.h"

/* ---- finite differences ---- */

#define MAX_INPUTS 4

typedef struct bell_tensor *build_fn(struct bell_tensor *const *x);

struct input {
    double low, high;
    int64_t shape[5];
    uint32_t ndim;
};

struct grad_case {
    const char *name;
    build_fn *build;
    uint32_t n;
    struct input in[MAX_INPUTS];
};

/* A scalar from a result: each element with a weight of its own, so that
 * mistakes of order do not cancel. */
static struct bell_tensor *
weigh(struct bell_tensor *y)
{
    int64_t n = (int64_t)bell_numel(y);
    struct bell_tensor *w = bell_sin(
        bell_linspace(ctx, 0.3, 0.3 + 1.7 * (double)n, n, BELL_FLOAT64));

    return bell_sum(bell_mul(bell_reshape(y, BELL_DIMS(-1)), w), BELL_NO_DIMS,
                    false);
}

static double
value_at(const struct grad_case *c, double *const *data)
{
    struct bell_tensor *x[MAX_INPUTS];
    double value;
    uint32_t i;

    assert_int_equal(bell_scope_begin(ctx), BELL_OK);
    for (i = 0; i < c->n; i++)
        x[i] = tensor_of(data[i], c->in[i].shape, c->in[i].ndim);
    if (bell_item_f64(weigh(c->build(x)), &value) != BELL_OK) {
        print_error("%s: %s\n", c->name, bell_error_last()->message);
        fail();
    }
    assert_int_equal(bell_scope_end(ctx), BELL_OK);
    return value;
}

static void
check_input(const struct grad_case *c, double **data, uint32_t i,
            const double *grad, size_t n)
{
    size_t k;

    for (k = 0; k < n; k++) {
        double old = data[i][k], h = 1e-5 * fmax(1, fabs(old)), slope;
        double up, down, up2, down2;
        data[i][k] = old + h;
        up = value_at(c, data);
        data[i][k] = old - h;
        down = value_at(c, data);
        data[i][k] = old + 2 * h;
        up2 = value_at(c, data);
        data[i][k] = old - 2 * h;
        down2 = value_at(c, data);
        data[i][k] = old;
        slope = (8 * (up - down) - (up2 - down2)) / (12 * h);
        if (!(fabs(slope - grad[k]) <= 2e-7 * fmax(1, fabs(slope)))) {
            print_error("%s: input %u, element %zu: gradient %.12g, "
                        "difference quotient %.12g\n",
                        c->name, i, k, grad[k], slope);
            fail();
        }
    }
}

static void
check_case(const struct grad_case *c)
{
    struct bell_tensor *x[MAX_INPUTS], *grads[MAX_INPUTS];
    double *data[MAX_INPUTS], *grad;
    uint32_t i;

    assert_int_equal(bell_scope_begin(ctx), BELL_OK);
    for (i = 0; i < c->n; i++) {
        x[i] =
            noise(c->in[i].low, c->in[i].high, c->in[i].shape, c->in[i].ndim);
        data[i] = malloc(bell_nbytes(x[i]));
        assert_non_null(data[i]);
        assert_int_equal(bell_read(x[i], data[i], bell_nbytes(x[i])), BELL_OK);
    }
    if (bell_gradient(weigh(c->build(x)), x, c->n, grads) != BELL_OK) {
        print_error("%s: %s\n", c->name, bell_error_last()->message);
        fail();
    }
    for (i = 0; i < c->n; i++) {
        size_t n = (size_t)bell_numel(x[i]);
        grad = malloc(n * sizeof(*grad));
        assert_non_null(grad);
        if (bell_numel(grads[i]) != n ||
            bell_read_f64(grads[i], grad, n) != BELL_OK) {
            print_error("%s: %s\n", c->name, bell_error_last()->message);
            fail();
        }
        check_input(c, data, i, grad, n);
        free(grad);
    }
    for (i = 0; i < c->n; i++)
        free(data[i]);
    assert_int_equal(bell_scope_end(ctx), BELL_OK);
}

static void
check_cases(const struct grad_case *cases, size_t n)
{
    size_t i;

    for (i = 0; i < n; i++)
        check_case(&cases[i]);
}

/* ---- elementwise ---- */

#define CASE1(name, expr)                                                      \
    static struct bell_tensor *name(struct bell_tensor *const *in)             \
    {                                                                          \
        struct bell_tensor *x = in[0];                                         \
        return expr;                                                           \
    }
#define CASE2(name, expr)                                                      \
    static struct bell_tensor *name(struct bell_tensor *const *in)             \
    {                                                                          \
        struct bell_tensor *x = in[0], *y = in[1];                             \
        return expr;                                                           \
    }
#define CASE3(name, expr)                                                      \
    static struct bell_tensor *name(struct bell_tensor *const *in)             \
    {                                                                          \
        struct bell_tensor *x = in[0], *y = in[1], *z = in[2];                 \
        return expr;                                                           \
    }

CASE1(g_neg, bell_neg(x))
CASE1(g_abs, bell_abs(x))
CASE1(g_square, bell_square(x))
CASE1(g_reciprocal, bell_reciprocal(x))
CASE1(g_sqrt, bell_sqrt(x))
CASE1(g_rsqrt, bell_rsqrt(x))
CASE1(g_frac, bell_frac(x))
CASE1(g_exp, bell_exp(x))
CASE1(g_exp2, bell_exp2(x))
CASE1(g_expm1, bell_expm1(x))
CASE1(g_log, bell_log(x))
CASE1(g_log2, bell_log2(x))
CASE1(g_log10, bell_log10(x))
CASE1(g_log1p, bell_log1p(x))
CASE1(g_sin, bell_sin(x))
CASE1(g_cos, bell_cos(x))
CASE1(g_tan, bell_tan(x))
CASE1(g_asin, bell_asin(x))
CASE1(g_acos, bell_acos(x))
CASE1(g_atan, bell_atan(x))
CASE1(g_sinh, bell_sinh(x))
CASE1(g_cosh, bell_cosh(x))
CASE1(g_tanh, bell_tanh(x))
CASE1(g_asinh, bell_asinh(x))
CASE1(g_acosh, bell_acosh(x))
CASE1(g_atanh, bell_atanh(x))
CASE1(g_erf, bell_erf(x))
CASE1(g_relu, bell_relu(x))
CASE1(g_relu6, bell_relu6(x))
CASE1(g_leaky_relu, bell_leaky_relu(x, 0.1))
CASE1(g_elu, bell_elu(x, 1.3))
CASE1(g_celu, bell_celu(x, 1.3))
CASE1(g_selu, bell_selu(x))
CASE1(g_sigmoid, bell_sigmoid(x))
CASE1(g_logsigmoid, bell_logsigmoid(x))
CASE1(g_silu, bell_silu(x))
CASE1(g_gelu, bell_gelu(x, false))
CASE1(g_gelu_tanh, bell_gelu(x, true))
CASE1(g_quick_gelu, bell_quick_gelu(x))
CASE1(g_softplus, bell_softplus(x, 1.5))
CASE1(g_softsign, bell_softsign(x))
CASE1(g_mish, bell_mish(x))
CASE1(g_hardtanh, bell_hardtanh(x, -1, 2))
CASE1(g_hardsigmoid, bell_hardsigmoid(x))
CASE1(g_hardswish, bell_hardswish(x))
CASE1(g_clip, bell_clip(x, -1, 1.5))
CASE1(g_pow_2, bell_pow_scalar(x, 2))
CASE1(g_pow_3, bell_pow_scalar(x, 3))
CASE1(g_pow_half, bell_pow_scalar(x, 0.5))
CASE1(g_pow_frac, bell_pow_scalar(x, 1.7))
CASE1(g_scalars,
      bell_div_scalar(
          bell_sub_scalar(bell_mul_scalar(bell_add_scalar(x, 3), -2), 0.5), 3))
CASE1(g_through_float32, bell_cast(bell_contiguous(x), BELL_FLOAT64))
/* twice differentiated */
CASE1(g_reuse, bell_mul(bell_sin(x), bell_add(bell_sin(x), bell_exp(x))))

#define IN1(lo, hi)                                                            \
    1,                                                                         \
    {                                                                          \
        {                                                                      \
            lo, hi, {2, 3}, 2                                                  \
        }                                                                      \
    }

static void
test_unary(void **state)
{
    static const struct grad_case cases[] = {
        {"neg", g_neg, IN1(-2, 2)},
        {"abs", g_abs, IN1(-2, 2)},
        {"square", g_square, IN1(-2, 2)},
        {"reciprocal", g_reciprocal, IN1(0.5, 2)},
        {"sqrt", g_sqrt, IN1(0.5, 2)},
        {"rsqrt", g_rsqrt, IN1(0.5, 2)},
        {"frac", g_frac, IN1(0.1, 0.9)},
        {"exp", g_exp, IN1(-3, 3)},
        {"exp2", g_exp2, IN1(-3, 3)},
        {"expm1 small", g_expm1, IN1(-0.1, 0.1)},
        {"expm1", g_expm1, IN1(-3, 3)},
        {"log", g_log, IN1(0.5, 3)},
        {"log2", g_log2, IN1(0.5, 3)},
        {"log10", g_log10, IN1(0.5, 3)},
        {"log1p small", g_log1p, IN1(-0.01, 0.01)},
        {"log1p", g_log1p, IN1(-0.5, 3)},
        {"sin", g_sin, IN1(-4, 4)},
        {"cos", g_cos, IN1(-4, 4)},
        {"tan", g_tan, IN1(-1.2, 1.2)},
        {"asin", g_asin, IN1(-0.9, 0.9)},
        {"acos", g_acos, IN1(-0.9, 0.9)},
        {"atan", g_atan, IN1(-4, 4)},
        {"sinh", g_sinh, IN1(-2, 2)},
        {"cosh", g_cosh, IN1(-2, 2)},
        {"tanh", g_tanh, IN1(-2, 2)},
        {"asinh", g_asinh, IN1(-3, 3)},
        {"acosh", g_acosh, IN1(1.5, 4)},
        {"atanh", g_atanh, IN1(-0.9, 0.9)},
        {"erf", g_erf, IN1(-3, 3)},
        {"relu", g_relu, IN1(-2, 2)},
        {"relu6", g_relu6, IN1(-2, 9)},
        {"leaky_relu", g_leaky_relu, IN1(-2, 2)},
        {"elu", g_elu, IN1(-2, 2)},
        {"celu", g_celu, IN1(-2, 2)},
        {"selu", g_selu, IN1(-2, 2)},
        {"sigmoid", g_sigmoid, IN1(-4, 4)},
        {"logsigmoid", g_logsigmoid, IN1(-4, 4)},
        {"silu", g_silu, IN1(-4, 4)},
        {"gelu", g_gelu, IN1(-4, 4)},
        {"gelu tanh", g_gelu_tanh, IN1(-4, 4)},
        {"quick_gelu", g_quick_gelu, IN1(-4, 4)},
        {"softplus", g_softplus, IN1(-4, 4)},
        {"softsign", g_softsign, IN1(-4, 4)},
        {"mish", g_mish, IN1(-4, 4)},
        {"hardtanh", g_hardtanh, IN1(-3, 3)},
        {"hardsigmoid", g_hardsigmoid, IN1(-5, 5)},
        {"hardswish", g_hardswish, IN1(-5, 5)},
        {"clip", g_clip, IN1(-3, 3)},
        {"pow 2", g_pow_2, IN1(-2, 2)},
        {"pow 3", g_pow_3, IN1(-2, 2)},
        {"pow 0.5", g_pow_half, IN1(0.5, 2)},
        {"pow 1.7", g_pow_frac, IN1(0.5, 2)},
        {"with numbers", g_scalars, IN1(-2, 2)},
        {"contiguous", g_through_float32, IN1(-2, 2)},
        {"a value used twice", g_reuse, IN1(-2, 2)},
    };

    (void)state;
    check_cases(cases, ARRAY_LEN(cases));
}

CASE2(g_add, bell_add(x, y))
CASE2(g_sub, bell_sub(x, y))
CASE2(g_mul, bell_mul(x, y))
CASE2(g_div, bell_div(x, y))
CASE2(g_pow, bell_pow(x, y))
CASE2(g_maximum, bell_maximum(x, y))
CASE2(g_minimum, bell_minimum(x, y))
CASE2(g_atan2, bell_atan2(x, y))
CASE2(g_copysign, bell_copysign(x, y))
CASE2(g_logaddexp, bell_logaddexp(x, y))
CASE2(g_hypot, bell_hypot(x, y))
CASE2(g_remainder, bell_remainder(x, y))
CASE2(g_fmod, bell_fmod(x, y))
CASE2(g_where, bell_where(bell_lt(x, y), bell_sin(x), bell_exp(y)))
CASE3(g_clamp, bell_clamp(x, y, z))
CASE3(g_lerp, bell_lerp(x, y, z))
CASE3(g_addcmul, bell_addcmul(x, y, z, 0.7))
CASE3(g_addcdiv, bell_addcdiv(x, y, z, 0.7))
CASE2(g_masked_fill,
      bell_masked_fill(bell_mul(x, y), bell_lt(x, bell_scalar(ctx, 0)), 3))

/* y is broadcast along both axes in turn */
#define IN2(lo, hi, lo2, hi2)                                                  \
    2,                                                                         \
    {                                                                          \
        {lo, hi, {2, 3}, 2},                                                   \
        {                                                                      \
            lo2, hi2, {3}, 1                                                   \
        }                                                                      \
    }

static void
test_binary(void **state)
{
    static const struct grad_case cases[] = {
        {"add", g_add, IN2(-2, 2, -2, 2)},
        {"sub", g_sub, IN2(-2, 2, -2, 2)},
        {"mul", g_mul, IN2(-2, 2, -2, 2)},
        {"div", g_div, IN2(-2, 2, 0.5, 2)},
        {"pow", g_pow, IN2(0.5, 2, -2, 2)},
        {"maximum", g_maximum, IN2(-2, 2, -2, 2)},
        {"minimum", g_minimum, IN2(-2, 2, -2, 2)},
        {"atan2", g_atan2, IN2(-2, 2, -2, 2)},
        {"copysign", g_copysign, IN2(-2, 2, -2, 2)},
        {"logaddexp", g_logaddexp, IN2(-2, 2, -2, 2)},
        {"hypot", g_hypot, IN2(-2, 2, -2, 2)},
        {"remainder", g_remainder, IN2(-2, 2, 0.7, 0.9)},
        {"fmod", g_fmod, IN2(-2, 2, 0.7, 0.9)},
        {"where", g_where, IN2(-2, 2, -2, 2)},
        {"masked_fill", g_masked_fill, IN2(-2, 2, -2, 2)},
        {"mul both broadcast",
         g_mul,
         2,
         {{-2, 2, {2, 1, 3}, 3}, {-2, 2, {4, 1}, 2}}},
        {"clamp",
         g_clamp,
         3,
         {{-2, 2, {2, 3}, 2}, {-1, -0.5, {3}, 1}, {0.5, 1, {2, 1}, 2}}},
        {"lerp",
         g_lerp,
         3,
         {{-2, 2, {2, 3}, 2}, {-2, 2, {3}, 1}, {0, 1, {2, 1}, 2}}},
        {"addcmul",
         g_addcmul,
         3,
         {{-2, 2, {2, 3}, 2}, {-2, 2, {3}, 1}, {0, 1, {2, 1}, 2}}},
        {"addcdiv",
         g_addcdiv,
         3,
         {{-2, 2, {2, 3}, 2}, {-2, 2, {3}, 1}, {0.5, 1, {2, 1}, 2}}},
    };

    (void)state;
    check_cases(cases, ARRAY_LEN(cases));
}

/* ---- movement and indexing ---- */

CASE1(g_reshape, bell_reshape(x, BELL_DIMS(3, -1)))
CASE1(g_permute, bell_permute(x, BELL_DIMS(2, 0, 1)))
CASE1(g_expand, bell_expand(bell_unsqueeze(x, 1), BELL_DIMS(2, 4, 3, 2)))
CASE1(g_pad, bell_pad(x, BELL_DIMS(-1, 1, 0, 2, 1, 0), 0.5))
CASE1(g_shrink, bell_shrink(x, BELL_DIMS(0, 2, 1, 3, 1, 2)))
CASE1(g_flip, bell_flip(x, BELL_DIMS(0, 2)))
CASE1(g_repeat, bell_repeat(x, BELL_DIMS(2, 1, 2, 3)))
CASE1(g_repeat_interleave, bell_repeat_interleave(x, 3, 1))
CASE1(g_roll, bell_roll(x, 2, 1))
CASE1(g_tril, bell_tril(x, 0))
CASE1(g_triu, bell_triu(x, 1))
CASE1(g_diag, bell_diag(bell_reshape(x, BELL_DIMS(-1))))
CASE1(g_diagonal, bell_diagonal(x, 1, 0, 1))
CASE1(g_unfold, bell_unfold(x, 1, 2, 1))
CASE1(g_unfold_apart, bell_unfold(bell_reshape(x, BELL_DIMS(-1)), 0, 2, 3))
CASE1(g_unfold_step, bell_unfold(bell_reshape(x, BELL_DIMS(-1)), 0, 5, 3))
CASE1(g_slice, bell_index(x, BELL_ITEMS(bell_ellipsis(), bell_at(-1))))
CASE1(g_slice_step, bell_index(bell_reshape(x, BELL_DIMS(-1)),
                               BELL_ITEMS(bell_slice(-2, 0, -3))))
CASE1(g_index_tensor,
      bell_index(x, BELL_ITEMS(bell_whole(), bell_by(I(V(2, 0, 2, -1), 2, 2)),
                               bell_slice(0, 1, 1))))
CASE1(g_index_tensors,
      bell_index(x, BELL_ITEMS(bell_by(I(V(1, 0, 1), 3)), bell_whole(),
                               bell_by(I(V(0, 1, -1), 3)))))
CASE1(g_gather, bell_gather(x, 1, I(V(0, 2, 2, 1, 1, -1, 0, 0), 2, 2, 2)))
CASE1(g_gather_one, bell_gather(x, 1, I(V(0, 2, 2, 1), 2, 1, 2)))
CASE1(g_index_select, bell_index_select(x, 1, I(V(2, 2, 0, 1), 4)))
CASE1(g_take, bell_take(x, hidden(I(V(7, 1, 1, -2, 30, 4), 2, 3))))
CASE1(g_embedding,
      bell_embedding(I(V(2, 0, 2, 5), 2, 2), bell_reshape(x, BELL_DIMS(6, 2))))
CASE2(g_cat, bell_cat(BELL_TENSORS(x, y, x), -1))
CASE2(g_stack, bell_stack(BELL_TENSORS(x, y), 1))
CASE2(g_index_put,
      bell_index_put(x, BELL_ITEMS(bell_at(1), bell_slice(BELL_NONE, 0, -1)),
                     bell_index(y, BELL_ITEMS(bell_at(0), bell_slice(1, 3, 1),
                                              bell_whole()))))
CASE2(g_scatter, bell_scatter(x, 1, I(V(0, 2, 2, 1, 1, 1, 0, 0), 2, 2, 2),
                              bell_shrink(y, BELL_DIMS(0, 2, 0, 2, 0, 2))))
CASE2(g_scatter_add,
      bell_scatter_add(x, 1, I(V(0, 2, 2, 1, 1, 1, 0, 0), 2, 2, 2),
                       bell_shrink(y, BELL_DIMS(0, 2, 0, 2, 0, 2))))

static struct bell_tensor *
g_split(struct bell_tensor *const *in)
{
    struct bell_tensor *parts[2];

    bell_split(in[0], (int64_t[]){1, 2}, 2, 1, parts);
    return bell_mul(parts[0], parts[1]);
}

static struct bell_tensor *
g_meshgrid(struct bell_tensor *const *in)
{
    struct bell_tensor *grid[2];

    bell_meshgrid(in, 2, grid);
    return bell_mul(grid[0], bell_sin(grid[1]));
}

#define CUBE                                                                   \
    1,                                                                         \
    {                                                                          \
        {                                                                      \
            -2, 2, {2, 3, 2}, 3                                                \
        }                                                                      \
    }
#define CUBES                                                                  \
    2,                                                                         \
    {                                                                          \
        {-2, 2, {2, 3, 2}, 3},                                                 \
        {                                                                      \
            -2, 2, {2, 3, 2}, 3                                                \
        }                                                                      \
    }

static void
test_movement(void **state)
{
    static const struct grad_case cases[] = {
        {"reshape", g_reshape, CUBE},
        {"permute", g_permute, CUBE},
        {"expand", g_expand, CUBE},
        {"pad", g_pad, CUBE},
        {"shrink", g_shrink, CUBE},
        {"flip", g_flip, CUBE},
        {"repeat", g_repeat, CUBE},
        {"repeat_interleave", g_repeat_interleave, CUBE},
        {"roll", g_roll, CUBE},
        {"tril", g_tril, CUBE},
        {"triu", g_triu, CUBE},
        {"diag", g_diag, CUBE},
        {"diagonal", g_diagonal, CUBE},
        {"unfold", g_unfold, CUBE},
        {"unfold apart", g_unfold_apart, CUBE},
        {"unfold with a step", g_unfold_step, CUBE},
        {"slice", g_slice, CUBE},
        {"slice with a step", g_slice_step, CUBE},
        {"tensor index", g_index_tensor, CUBE},
        {"two tensor indices", g_index_tensors, CUBE},
        {"gather", g_gather, CUBE},
        {"gather one", g_gather_one, CUBE},
        {"index_select", g_index_select, CUBE},
        {"take", g_take, CUBE},
        {"embedding", g_embedding, CUBE},
        {"cat", g_cat, CUBES},
        {"stack", g_stack, CUBES},
        {"index_put", g_index_put, CUBES},
        {"scatter", g_scatter, CUBES},
        {"scatter_add", g_scatter_add, CUBES},
        {"split", g_split, CUBE},
        {"meshgrid", g_meshgrid, 2, {{-2, 2, {3}, 1}, {-2, 2, {4}, 1}}},
    };

    (void)state;
    check_cases(cases, ARRAY_LEN(cases));
}

/* ---- reductions ---- */

CASE1(g_sum, bell_sum(x, BELL_DIMS(0, 2), false))
CASE1(g_prod, bell_prod(x, BELL_DIMS(1), true))
CASE1(g_max, bell_max(x, BELL_DIMS(1), false))
CASE1(g_min, bell_min(x, BELL_NO_DIMS, false))
CASE1(g_mean, bell_mean(x, BELL_DIMS(-1), true))
CASE1(g_var, bell_var(x, BELL_DIMS(0, 1), false, 1))
CASE1(g_std, bell_std(x, BELL_DIMS(1), false, 0))
CASE1(g_norm_1, bell_norm(x, 1, BELL_DIMS(1), false))
CASE1(g_norm_2, bell_norm(x, 2, BELL_DIMS(1), false))
CASE1(g_norm_3, bell_norm(x, 3, BELL_DIMS(1), false))
CASE1(g_norm_inf, bell_norm(x, INFINITY, BELL_DIMS(1), false))
CASE1(g_normalize, bell_normalize(x, 2, 1, 1e-12))
CASE1(g_logsumexp, bell_logsumexp(x, BELL_DIMS(1), false))
CASE1(g_softmax, bell_softmax(x, 1))
CASE1(g_log_softmax, bell_log_softmax(x, -1))
CASE1(g_softmin, bell_softmin(x, 0))
CASE1(g_cumsum, bell_cumsum(x, 1))
CASE1(g_cumprod, bell_cumprod(x, 1))
CASE1(g_cummax, bell_cummax(x, 1))
CASE1(g_cumsum_long, bell_cumsum(bell_repeat(x, BELL_DIMS(1, 1, 50)), 2))

static struct bell_tensor *
g_sort(struct bell_tensor *const *in)
{
    struct bell_tensor *values;

    bell_sort(in[0], 1, true, &values, NULL);
    return values;
}

static struct bell_tensor *
g_topk(struct bell_tensor *const *in)
{
    struct bell_tensor *values;

    bell_topk(in[0], 2, 1, true, &values, NULL);
    return values;
}

static void
test_reductions(void **state)
{
    static const struct grad_case cases[] = {
        {"sum", g_sum, CUBE},
        {"prod", g_prod, CUBE},
        {"max", g_max, CUBE},
        {"min", g_min, CUBE},
        {"mean", g_mean, CUBE},
        {"var", g_var, CUBE},
        {"std", g_std, CUBE},
        {"norm 1", g_norm_1, CUBE},
        {"norm 2", g_norm_2, CUBE},
        {"norm 3", g_norm_3, CUBE},
        {"norm inf", g_norm_inf, CUBE},
        {"normalize", g_normalize, CUBE},
        {"logsumexp", g_logsumexp, CUBE},
        {"softmax", g_softmax, CUBE},
        {"log_softmax", g_log_softmax, CUBE},
        {"softmin", g_softmin, CUBE},
        {"cumsum", g_cumsum, CUBE},
        {"cumsum in blocks", g_cumsum_long, CUBE},
        {"cumprod", g_cumprod, CUBE},
        {"cummax", g_cummax, CUBE},
        {"sort", g_sort, CUBE},
        {"topk", g_topk, CUBE},
    };

    (void)state;
    check_cases(cases, ARRAY_LEN(cases));
}

/* ---- products, convolution, layers, losses ---- */

CASE2(g_matmul, bell_matmul(x, y))
CASE2(g_einsum, bell_einsum("bij,kj->kib", BELL_TENSORS(x, y)))
CASE1(g_einsum_trace, bell_einsum("iij->j", BELL_TENSORS(x)))
CASE3(g_linear, bell_linear(x, y, z))
CASE3(g_conv2d, bell_conv2d(x, y, z, NULL))

static struct bell_tensor *
g_conv2d_all(struct bell_tensor *const *in)
{
    static const struct bell_conv_options opt = {.struct_size = sizeof(opt),
                                                 .stride = {2, 1},
                                                 .padding = {1, 2},
                                                 .dilation = {1, 2},
                                                 .groups = 2};

    return bell_conv2d(in[0], in[1], in[2], &opt);
}

static struct bell_tensor *
g_conv_transpose2d(struct bell_tensor *const *in)
{
    static const struct bell_conv_options opt = {.struct_size = sizeof(opt),
                                                 .stride = {2, 3},
                                                 .padding = {1, 0},
                                                 .dilation = {1, 2},
                                                 .groups = 2,
                                                 .output_padding = {1, 0}};

    return bell_conv_transpose2d(in[0], in[1], in[2], &opt);
}

static struct bell_tensor *
g_conv1d(struct bell_tensor *const *in)
{
    static const struct bell_conv_options opt = {
        .struct_size = sizeof(opt), .stride = {2}, .padding = {1}};

    return bell_conv1d(in[0], in[1], NULL, &opt);
}

static struct bell_tensor *
g_conv3d(struct bell_tensor *const *in)
{
    static const struct bell_conv_options opt = {.struct_size = sizeof(opt),
                                                 .stride = {1, 2, 1},
                                                 .padding = {1, 0, 1},
                                                 .dilation = {1, 1, 2},
                                                 .groups = 2};

    return bell_conv3d(in[0], in[1], in[2], &opt);
}

static struct bell_tensor *
g_conv_transpose1d(struct bell_tensor *const *in)
{
    static const struct bell_conv_options opt = {
        .struct_size = sizeof(opt), .stride = {3}, .output_padding = {1}};

    return bell_conv_transpose1d(in[0], in[1], NULL, &opt);
}

static struct bell_tensor *
g_pool3d(struct bell_tensor *const *in)
{
    static const struct bell_pool_options opt = {
        .struct_size = sizeof(opt), .kernel = {2, 2, 3}, .padding = {1, 0, 1}};

    return bell_max_pool3d(in[0], &opt);
}

CASE1(g_resize,
      bell_interpolate(x, BELL_DIMS(3, 5), BELL_RESIZE_LINEAR, false, 0))
CASE1(g_adaptive_up, bell_adaptive_avg_pool(x, BELL_DIMS(7, 4)))
CASE1(g_resize_far,
      bell_interpolate(x, BELL_DIMS(29, 2), BELL_RESIZE_LINEAR, true, 0))
CASE1(g_cubic_far,
      bell_interpolate(x, BELL_DIMS(31, 4), BELL_RESIZE_CUBIC, false, 0))
CASE1(g_exact_far,
      bell_interpolate(x, BELL_DIMS(25), BELL_RESIZE_EXACT, false, 0))
CASE1(g_scaled,
      bell_interpolate(x, BELL_DIMS(14), BELL_RESIZE_LINEAR, false, 3.7))
CASE1(g_cubic, bell_interpolate(x, BELL_DIMS(5), BELL_RESIZE_CUBIC, true, 0))
CASE1(g_nearest,
      bell_interpolate(x, BELL_DIMS(6, 3), BELL_RESIZE_NEAREST, false, 0))
CASE1(g_adaptive, bell_adaptive_avg_pool(x, BELL_DIMS(2, 3)))

static struct bell_tensor *
g_alias(struct bell_tensor *const *in)
{
    static const struct bell_resize_options opt = {.struct_size = sizeof(opt),
                                                   .mode = BELL_RESIZE_CUBIC,
                                                   .antialias = true};

    return bell_resize(in[0], BELL_DIMS(2, 5), &opt);
}

static struct bell_tensor *
g_pool_indices(struct bell_tensor *const *in)
{
    static const struct bell_pool_options opt = {.struct_size = sizeof(opt),
                                                 .kernel = {2, 3}};
    struct bell_tensor *v, *at;

    bell_max_pool_indices(in[0], 2, &opt, &v, &at);
    return bell_max_unpool(bell_square(v), at, BELL_DIMS(4, 7));
}

CASE2(g_grid,
      bell_grid_sample(x, y, BELL_RESIZE_LINEAR, BELL_GRID_REFLECT, false))
CASE2(g_grid_cubic,
      bell_grid_sample(x, y, BELL_RESIZE_CUBIC, BELL_GRID_ZEROS, true))
CASE2(g_grid_deep,
      bell_grid_sample(x, y, BELL_RESIZE_LINEAR, BELL_GRID_BORDER, false))
CASE1(g_regions,
      bell_roi_align(x, T(V(0, 0.3, 0.6, 3.1, 2.2, 1, -1, 0, 9, 4), 2, 5),
                     (int64_t[]){2, 3}, 0.9, 0, true))
CASE2(g_weighted, bell_weighted_cross_entropy(x, I(V(2, 0, 1, 1), 2, 2), y, 0.2,
                                              0, BELL_MEAN))
CASE1(g_reflect, bell_pad_with(x, BELL_DIMS(2, 1, -1, 1), BELL_PAD_REFLECT))
CASE1(g_circular, bell_pad_with(x, BELL_DIMS(0, 3, 2, 0), BELL_PAD_CIRCULAR))
CASE1(g_replicate, bell_pad_with(x, BELL_DIMS(2, 2, 0, 3), BELL_PAD_REPLICATE))

static struct bell_tensor *
g_max_pool(struct bell_tensor *const *in)
{
    static const struct bell_pool_options opt = {.struct_size = sizeof(opt),
                                                 .kernel = {3, 2},
                                                 .stride = {2, 1},
                                                 .padding = {1, 1}};

    return bell_max_pool2d(in[0], &opt);
}

static struct bell_tensor *
g_avg_pool(struct bell_tensor *const *in)
{
    static const struct bell_pool_options opt = {.struct_size = sizeof(opt),
                                                 .kernel = {3, 2},
                                                 .stride = {2, 2},
                                                 .padding = {1, 1},
                                                 .ceil_mode = true,
                                                 .exclude_pad = true};

    return bell_avg_pool2d(in[0], &opt);
}

CASE3(g_layer_norm, bell_layer_norm(x, 1, y, z, 1e-3))
CASE2(g_rms_norm, bell_rms_norm(x, y, 1e-3))
CASE3(g_batch_norm, bell_batch_norm(x, y, bell_exp(z), y, z, 1e-3))
CASE3(g_group_norm, bell_group_norm(x, 2, y, z, 1e-3))
CASE3(g_attention, bell_scaled_dot_product_attention(x, y, z, NULL, 0, true, 0))
CASE3(g_attention_mask,
      bell_scaled_dot_product_attention(
          x, y, z,
          bell_ne(bell_eye(ctx, 3, 4, BELL_FLOAT32), bell_scalar(ctx, 1)), 0,
          false, 0.3))
CASE2(g_mse, bell_mse_loss(x, y, BELL_MEAN))
CASE2(g_l1, bell_l1_loss(x, y, BELL_SUM))
CASE2(g_huber, bell_huber_loss(x, y, 0.8, BELL_EACH))
CASE2(g_bce, bell_binary_cross_entropy(bell_sigmoid(x), y, BELL_MEAN))
CASE2(g_bce_logits, bell_binary_cross_entropy_with_logits(
                        x, y, bell_exp(bell_narrow(y, 0, 0, 1)), BELL_EACH))
CASE1(g_cross_entropy,
      bell_cross_entropy(x, I(V(2, 0, 1, 3), 2, 2), 0.1, 3, BELL_MEAN))
CASE2(g_cross_entropy_soft, bell_cross_entropy(x, bell_softmax(y, 1), 0.1,
                                               BELL_IGNORE_NONE, BELL_MEAN))
CASE2(g_nll, bell_nll_loss(x, I(V(2, 0, 1, 1), 2, 2), y, 0, BELL_MEAN))

static void
test_layers(void **state)
{
    static const struct grad_case cases[] = {
        {"matmul",
         g_matmul,
         2,
         {{-2, 2, {2, 1, 2, 3}, 4}, {-2, 2, {2, 3, 2}, 3}}},
        {"matmul row", g_matmul, 2, {{-2, 2, {3}, 1}, {-2, 2, {2, 3, 2}, 3}}},
        {"matmul column",
         g_matmul,
         2,
         {{-2, 2, {2, 2, 3}, 3}, {-2, 2, {3}, 1}}},
        {"einsum", g_einsum, 2, {{-2, 2, {2, 3, 2}, 3}, {-2, 2, {4, 2}, 2}}},
        {"einsum trace", g_einsum_trace, 1, {{-2, 2, {3, 3, 2}, 3}}},
        {"linear",
         g_linear,
         3,
         {{-2, 2, {2, 2, 3}, 3}, {-2, 2, {4, 3}, 2}, {-2, 2, {4}, 1}}},
        {"conv2d",
         g_conv2d,
         3,
         {{-2, 2, {2, 2, 4, 4}, 4}, {-2, 2, {3, 2, 3, 2}, 4}, {-2, 2, {3}, 1}}},
        {"conv2d with everything",
         g_conv2d_all,
         3,
         {{-2, 2, {1, 4, 5, 4}, 4}, {-2, 2, {2, 2, 3, 2}, 4}, {-2, 2, {2}, 1}}},
        {"conv_transpose2d",
         g_conv_transpose2d,
         3,
         {{-2, 2, {1, 4, 2, 3}, 4}, {-2, 2, {4, 1, 3, 2}, 4}, {-2, 2, {2}, 1}}},
        {"conv1d", g_conv1d, 2, {{-2, 2, {2, 2, 6}, 3}, {-2, 2, {3, 2, 3}, 3}}},
        {"conv3d",
         g_conv3d,
         3,
         {{-2, 2, {1, 2, 3, 4, 4}, 5},
          {-2, 2, {2, 1, 2, 2, 2}, 5},
          {-2, 2, {2}, 1}}},
        {"conv_transpose1d",
         g_conv_transpose1d,
         2,
         {{-2, 2, {2, 2, 4}, 3}, {-2, 2, {2, 3, 2}, 3}}},
        {"max_pool3d", g_pool3d, 1, {{-2, 2, {1, 4, 4, 5}, 4}}},
        {"interpolate linear", g_resize, 1, {{-2, 2, {2, 4, 3}, 3}}},
        {"adaptive_avg_pool up", g_adaptive_up, 1, {{-2, 2, {3, 9}, 2}}},
        {"interpolate far", g_resize_far, 1, {{-2, 2, {3, 9}, 2}}},
        {"interpolate cubic far", g_cubic_far, 1, {{-2, 2, {4, 9}, 2}}},
        {"interpolate exact far", g_exact_far, 1, {{-2, 2, {2, 4}, 2}}},
        {"interpolate scaled", g_scaled, 1, {{-2, 2, {2, 4}, 2}}},
        {"interpolate cubic", g_cubic, 1, {{-2, 2, {2, 4}, 2}}},
        {"resize antialias", g_alias, 1, {{-2, 2, {5, 4}, 2}}},
        {"max_unpool", g_pool_indices, 1, {{-2, 2, {2, 4, 7}, 3}}},
        {"grid_sample",
         g_grid,
         2,
         {{-2, 2, {2, 2, 3, 4}, 4}, {-1.4, 1.4, {2, 2, 3, 2}, 4}}},
        {"grid_sample cubic",
         g_grid_cubic,
         2,
         {{-2, 2, {1, 2, 3, 4}, 4}, {-1.4, 1.4, {1, 2, 3, 2}, 4}}},
        {"grid_sample deep",
         g_grid_deep,
         2,
         {{-2, 2, {1, 1, 2, 3, 4}, 5}, {-1.4, 1.4, {1, 1, 2, 2, 3}, 5}}},
        {"roi_align", g_regions, 1, {{-2, 2, {2, 2, 4, 3}, 4}}},
        {"weighted cross_entropy",
         g_weighted,
         2,
         {{-2, 2, {2, 3, 2}, 3}, {0.5, 2, {3}, 1}}},
        {"interpolate nearest", g_nearest, 1, {{-2, 2, {3, 4}, 2}}},
        {"adaptive_avg_pool", g_adaptive, 1, {{-2, 2, {2, 5, 6}, 3}}},
        {"pad reflect", g_reflect, 1, {{-2, 2, {3, 4}, 2}}},
        {"pad circular", g_circular, 1, {{-2, 2, {3, 4}, 2}}},
        {"pad replicate", g_replicate, 1, {{-2, 2, {3, 4}, 2}}},
        {"max_pool2d", g_max_pool, 1, {{-2, 2, {1, 2, 5, 4}, 4}}},
        {"avg_pool2d", g_avg_pool, 1, {{-2, 2, {2, 5, 4}, 3}}},
        {"layer_norm",
         g_layer_norm,
         3,
         {{-2, 2, {2, 4}, 2}, {-2, 2, {4}, 1}, {-2, 2, {4}, 1}}},
        {"rms_norm", g_rms_norm, 2, {{-2, 2, {2, 4}, 2}, {-2, 2, {4}, 1}}},
        {"batch_norm",
         g_batch_norm,
         3,
         {{-2, 2, {2, 3, 2}, 3}, {-2, 2, {3}, 1}, {-2, 2, {3}, 1}}},
        {"group_norm",
         g_group_norm,
         3,
         {{-2, 2, {2, 4, 2}, 3}, {-2, 2, {4}, 1}, {-2, 2, {4}, 1}}},
        {"attention",
         g_attention,
         3,
         {{-2, 2, {2, 3, 2}, 3}, {-2, 2, {2, 3, 2}, 3}, {-2, 2, {2, 3, 4}, 3}}},
        {"attention with a mask",
         g_attention_mask,
         3,
         {{-2, 2, {3, 2}, 2}, {-2, 2, {4, 2}, 2}, {-2, 2, {4, 3}, 2}}},
        {"mse_loss", g_mse, 2, {{-2, 2, {2, 3}, 2}, {-2, 2, {2, 3}, 2}}},
        {"l1_loss", g_l1, 2, {{-2, 2, {2, 3}, 2}, {-2, 2, {2, 3}, 2}}},
        {"huber_loss", g_huber, 2, {{-2, 2, {2, 3}, 2}, {-2, 2, {2, 3}, 2}}},
        {"binary_cross_entropy",
         g_bce,
         2,
         {{-2, 2, {2, 3}, 2}, {0.1, 0.9, {2, 3}, 2}}},
        {"binary_cross_entropy_with_logits",
         g_bce_logits,
         2,
         {{-2, 2, {2, 3}, 2}, {0.1, 0.9, {2, 3}, 2}}},
        {"cross_entropy", g_cross_entropy, 1, {{-2, 2, {2, 4, 2}, 3}}},
        {"cross_entropy soft",
         g_cross_entropy_soft,
         2,
         {{-2, 2, {2, 4}, 2}, {-2, 2, {2, 4}, 2}}},
        {"nll_loss", g_nll, 2, {{-2, 0, {2, 3, 2}, 3}, {0.5, 2, {3}, 1}}},
    };

    (void)state;
    check_cases(cases, ARRAY_LEN(cases));
}

/* ---- what differences cannot see ---- */

static struct bell_tensor *
slope_of(struct bell_tensor *y, struct bell_tensor *x)
{
    struct bell_tensor *grad;

    assert_int_equal(
        bell_gradient(bell_sum(y, BELL_NO_DIMS, false), &x, 1, &grad), BELL_OK);
    return grad;
}

static void
test_kinks(void **state)
{
    struct bell_tensor *x = T(V(-1, 0, 1), 3), *ties = T(V(2, 1, 2, 2), 4);
    struct bell_tensor *zeros = T(V(0, 3, 2, 0, 0, 4), 2, 3), *zero;

    (void)state;
    zero = bell_scalar(ctx, 0);
    EXPECT(slope_of(bell_relu(x), x), 0, 0, 1);
    EXPECT(slope_of(bell_abs(x), x), -1, 0, 1);
    EXPECT(slope_of(bell_copysign(x, T(V(-0.0, 0.0, -0.0), 3)), x), 1, 0, -1);
    EXPECT(slope_of(bell_clip(x, -1, 1), x), 0, 1, 0);
    EXPECT(slope_of(bell_clip(x, 0, INFINITY), x), 0, 0, 1);
    EXPECT(slope_of(bell_clip(x, -INFINITY, 0), x), 1, 0, 0);
    EXPECT(slope_of(bell_clamp(x, T(V(0, 0, 0), 3), NULL), x), 0, 0.5, 1);
    EXPECT(slope_of(bell_clamp(x, T(V(-1), 1), T(V(0), 1)), x), 0.5, 0.5, 0);
    EXPECT(slope_of(bell_nextafter(x, zero), x), 1, 0, 1);
    EXPECT(slope_of(bell_nextafter(zero, x), x), 0, 0, 0);
    EXPECT(slope_of(bell_maximum(x, zero), x), 0, 0.5, 1);
    EXPECT(slope_of(bell_max(ties, BELL_NO_DIMS, false), ties), 1.0 / 3, 0,
           1.0 / 3, 1.0 / 3);
    EXPECT(slope_of(bell_prod(zeros, BELL_DIMS(1), false), zeros), 6, 0, 0, 0,
           0, 0);
    EXPECT(slope_of(bell_pow(x, bell_scalar(ctx, 0)), x), 0, 0, 0);
    EXPECT(slope_of(bell_trunc(x), x), 0, 0, 0);
    EXPECT(slope_of(bell_detach(x), x), 0, 0, 0);
}

/* Far out, where e to the x is infinite, nothing becomes NaN. */
static void
test_extremes(void **state)
{
    struct bell_tensor *x = T(V(-1000, -800, 800, 1000), 4);

    (void)state;
    EXPECT(slope_of(bell_sigmoid(x), x), 0, 0, 0, 0);
    EXPECT(slope_of(bell_tanh(x), x), 0, 0, 0, 0);
    EXPECT(slope_of(bell_softplus(x, 1), x), 0, 0, 1, 1);
    EXPECT(slope_of(bell_logsigmoid(x), x), 1, 1, 0, 0);
    EXPECT(slope_of(bell_silu(x), x), 0, 0, 1, 1);
    EXPECT(slope_of(bell_elu(x, 1), x), 0, 0, 1, 1);
    EXPECT(slope_of(bell_gelu(x, false), x), 0, 0, 1, 1);
    EXPECT(slope_of(bell_gelu(x, true), x), 0, 0, 1, 1);
    EXPECT(slope_of(bell_mish(x), x), 0, 0, 1, 1);
    EXPECT(
        slope_of(bell_index(bell_log_softmax(x, 0), BELL_ITEMS(bell_at(3))), x),
        0, 0, 0, 0);
    EXPECT(slope_of(bell_cross_entropy(x, bell_scalar_int(ctx, 0), 0,
                                       BELL_IGNORE_NONE, BELL_MEAN),
                    x),
           -1, 0, 0, 1);
}

static double
curve_of_sigmoid(double x)
{
    double s = 1 / (1 + exp(-x));

    return s * (1 - s) * (1 - 2 * s);
}

static void
test_second_order(void **state)
{
    struct bell_tensor *x = T(V(0.5, 1, 2), 3), *g;

    (void)state;
    g = slope_of(bell_pow_scalar(x, 3), x);
    EXPECT(slope_of(g, x), 3, 6, 12);
    g = slope_of(bell_log1p(x), x);
    EXPECT(slope_of(g, x), -1 / 2.25, -0.25, -1.0 / 9);
    g = slope_of(bell_sigmoid(x), x);
    EXPECT_NEAR(slope_of(g, x), 1e-9, curve_of_sigmoid(0.5),
                curve_of_sigmoid(1), curve_of_sigmoid(2));
}

static void
test_backward(void **state)
{
    struct bell_tensor *w = T(V(1, 2), 2), *b = T(V(3), 1), *other, *loss;
    double value;

    (void)state;
    other = bell_requires_grad(T(V(1), 1), true);
    bell_requires_grad(w, true);
    bell_requires_grad(b, true);
    loss = bell_sum(bell_add(bell_mul(w, w), b), BELL_NO_DIMS, false);
    assert_int_equal(bell_backward(loss), BELL_OK);
    EXPECT(bell_grad(w), 2, 4);
    EXPECT(bell_grad(b), 2);
    assert_null(bell_grad(other));
    /* Added to, until it is forgotten. */
    loss = bell_sum(w, BELL_NO_DIMS, false);
    assert_int_equal(bell_backward(loss), BELL_OK);
    EXPECT(bell_grad(w), 3, 5);
    EXPECT(bell_grad(b), 2);
    bell_zero_grad(w);
    assert_null(bell_grad(w));
    bell_requires_grad(b, false);
    assert_int_equal(bell_backward(loss), BELL_OK);
    EXPECT(bell_grad(w), 1, 1);
    /* A gradient lives as long as its tensor. */
    assert_int_equal(bell_scope_begin(ctx), BELL_OK);
    loss = bell_sum(bell_mul(w, b), BELL_NO_DIMS, false);
    assert_int_equal(bell_backward(loss), BELL_OK);
    assert_int_equal(bell_scope_end(ctx), BELL_OK);
    EXPECT(bell_grad(w), 4, 4);
    /* A value in memory has no history. */
    loss = bell_sum(w, BELL_NO_DIMS, false);
    assert_int_equal(bell_item_f64(loss, &value), BELL_OK);
    EXPECT_STATUS(bell_backward(loss),
                  "bell_backward: the loss depends on no tensor that requires "
                  "a gradient; it was realized before, and a value in memory "
                  "has no history");
}

/* The same of the calls that give gradients: zeros would hide it. */
static void
test_read_before(void **state)
{
    struct bell_tensor *w = T(V(1, 2), 2), *loss, *list[2], *grads[2], *one;
    double value;

    (void)state;
    loss = bell_sum(bell_mul(w, w), BELL_NO_DIMS, false);
    assert_int_equal(bell_item_f64(loss, &value), BELL_OK);
    EXPECT_STATUS(bell_gradient(loss, &w, 1, grads),
                  "bell_gradient: the result depends on no target; it was "
                  "realized before, and a value in memory has no history");
    one = bell_ones_like(loss, BELL_DEFAULT);
    EXPECT_STATUS(bell_vjp(loss, one, &w, 1, grads),
                  "bell_vjp: the result depends on no target; it was realized "
                  "before, and a value in memory has no history");
    /* allowed: a value computed from it, a target itself, a constant loss */
    list[0] = loss;
    list[1] = w;
    assert_int_equal(bell_gradient(loss, list, 2, grads), BELL_OK);
    EXPECT(grads[0], 1);
    EXPECT(grads[1], 0, 0);
    assert_int_equal(bell_gradient(bell_mul_scalar(loss, 2), list, 2, grads),
                     BELL_OK);
    EXPECT(grads[0], 2);
    assert_int_equal(bell_gradient(one, &w, 1, grads), BELL_OK);
    EXPECT(grads[0], 0, 0);
}

/* Equal constants are one node; marking makes them variables of their own. */
static void
test_constants(void **state)
{
    struct bell_tensor *a, *b, *loss, *x = T(V(5, 7), 2), *grad;

    (void)state;
    a = bell_requires_grad(bell_zeros(ctx, BELL_DIMS(2), BELL_FLOAT64), true);
    b = bell_requires_grad(bell_zeros(ctx, BELL_DIMS(2), BELL_FLOAT64), true);
    loss = bell_add(bell_mul(a, x), bell_mul_scalar(b, 3));
    assert_int_equal(bell_backward(bell_sum(loss, BELL_NO_DIMS, false)),
                     BELL_OK);
    EXPECT(bell_grad(a), 5, 7);
    EXPECT(bell_grad(b), 3, 3);
    a = bell_ones(ctx, BELL_DIMS(2), BELL_FLOAT16);
    bell_requires_grad(a, true);
    EXPECT(a, 1, 1);
    a = bell_zeros(ctx, BELL_DIMS(2), BELL_FLOAT64);
    EXPECT_STATUS(
        bell_gradient(bell_sum(x, BELL_NO_DIMS, false), &a, 1, &grad),
        "bell_gradient: target 0 is a constant; bell_requires_grad or "
        "bell_realize make it a variable before it is used");
}

static void
test_errors(void **state)
{
    struct bell_tensor *x = T(V(1, 2), 2), *i = I(V(1, 2), 2), *grad;

    (void)state;
    EXPECT_STATUS(bell_gradient(x, &x, 1, &grad),
                  "bell_gradient: the loss has shape (2,), not one element");
    EXPECT_STATUS(bell_gradient(bell_sum(i, BELL_NO_DIMS, false), &x, 1, &grad),
                  "bell_gradient: the loss is int64, not a float dtype");
    EXPECT_STATUS(bell_gradient(bell_sum(x, BELL_NO_DIMS, false), &i, 1, &grad),
                  "bell_gradient: target 0 is int64, not a float dtype");
    EXPECT_ERROR(bell_requires_grad(i, true),
                 "bell_requires_grad: the tensor is int64, gradients need a "
                 "float dtype");
    EXPECT_STATUS(bell_vjp(x, T(V(1), 1), &x, 1, &grad),
                  "bell_vjp: x is float64 (2,), v is float64 (1,)");
    assert_int_equal(bell_vjp(bell_square(x), T(V(1, 10), 2), &x, 1, &grad),
                     BELL_OK);
    EXPECT(grad, 2, 40);
    /* A target that the loss does not depend on. */
    assert_int_equal(
        bell_gradient(bell_sum(T(V(1), 1), BELL_NO_DIMS, false), &x, 1, &grad),
        BELL_OK);
    EXPECT(grad, 0, 0);
}

/* Moves of a parameter that is itself data moved do not pass it by, realized or
 * not; below one that requires a gradient too, both get theirs. */
static void
test_moved_leaf(void **state)
{
    struct bell_tensor *a = noise(-1, 1, BELL_DIMS(6)), *p, *y;
    int i;

    (void)state;
    p = bell_reshape(a, BELL_DIMS(2, 3));
    for (i = 0; i < 2; i++) {
        bell_requires_grad(p, true);
        y = bell_mul(bell_reshape(p, BELL_DIMS(3, 2)), bell_transpose(p, 0, 1));
        y = bell_add(bell_sum(y, BELL_NO_DIMS, false),
                     bell_sum(bell_mul(p, p), BELL_NO_DIMS, false));
        assert_int_equal(bell_backward(y), BELL_OK);
        /* of p.T's element k, which is a place in p, and of p's element k */
        y = bell_add(bell_reshape(bell_transpose(p, 0, 1), BELL_DIMS(2, 3)),
                     bell_transpose(bell_reshape(p, BELL_DIMS(3, 2)), 0, 1));
        y = bell_sub(bell_add(y, bell_mul_scalar(p, 2)), bell_grad(p));
        EXPECT_NEAR(bell_sum(bell_abs(y), BELL_NO_DIMS, false), 1e-12, 0);
        bell_zero_grad(p);
        assert_int_equal(bell_realize1(p), BELL_OK);
    }
    a = bell_requires_grad(noise(-1, 1, BELL_DIMS(4)), true);
    p = bell_requires_grad(bell_reshape(a, BELL_DIMS(2, 2)), true);
    y = bell_sum(bell_mul(p, p), BELL_NO_DIMS, false);
    assert_int_equal(bell_backward(y), BELL_OK);
    EXPECT_SHAPE(bell_grad(a), 4);
    EXPECT_SHAPE(bell_grad(p), 2, 2);
}

static void
realize_both(struct bell_tensor *a, struct bell_tensor *b)
{
    struct bell_tensor *both[2] = {a, b};

    assert_int_equal(bell_realize(both, 2), BELL_OK);
}

/* d (2 a + 3 b), by both calls. */
static void
expect_two(struct bell_tensor *a, struct bell_tensor *b)
{
    struct bell_tensor *targets[2] = {a, b}, *grads[2], *loss;

    loss = bell_add(bell_mul_scalar(a, 2), bell_mul_scalar(b, 3));
    loss = bell_sum(loss, BELL_NO_DIMS, false);
    assert_int_equal(bell_gradient(loss, targets, 2, grads), BELL_OK);
    EXPECT(grads[0], 2, 2);
    EXPECT(grads[1], 3, 3);
    assert_int_equal(bell_backward(loss), BELL_OK);
    EXPECT(bell_grad(a), 2, 2);
    EXPECT(bell_grad(b), 3, 3);
    bell_zero_grad(a);
    bell_zero_grad(b);
}

/* Two variables stay two where they get one value: one from the other or both
 * from a third, marked and realized before or after, or neither. */
static void
test_one_value(void **state)
{
    int mode;

    (void)state;
    for (mode = 0; mode < 32; mode++) {
        struct bell_tensor *a = T(V(1, 2), 2), *b = T(V(3, 4), 2);
        struct bell_tensor *c = bell_add_scalar(a, 5);
        bool third = mode & 8;

        if (mode & 16)
            a = bell_requires_grad(
                bell_full(ctx, BELL_DIMS(2), 9, BELL_FLOAT64), true);
        if (mode & 4) {
            bell_requires_grad(a, true);
            bell_requires_grad(b, true);
        }
        if (mode & 2)
            realize_both(a, b);
        if (third)
            bell_assign(a, c);
        bell_assign(b, third ? c : a);
        bell_requires_grad(a, true);
        bell_requires_grad(b, true);
        if (mode & 1)
            realize_both(a, b);
        expect_two(a, b);
        if (third || !(mode & 16)) {
            EXPECT(a, third ? 6 : 1, third ? 7 : 2);
            EXPECT(b, third ? 6 : 1, third ? 7 : 2);
        } else {
            EXPECT(a, 9, 9);
            EXPECT(b, 9, 9);
        }
        expect_two(a, b);
        realize_both(a, b);
        expect_two(a, b);
        bell_tensor_release(a);
        bell_tensor_release(b);
    }
}

/* Where they cannot be told apart, that is said. */
static void
test_one_variable(void **state)
{
    struct bell_tensor *both[2] = {T(V(1, 2), 2), T(V(3, 4), 2)}, *grads[2];
    struct bell_tensor *loss;

    (void)state;
    bell_assign(both[1], both[0]);
    loss = bell_sum(bell_mul(both[0], both[1]), BELL_NO_DIMS, false);
    EXPECT_STATUS(bell_gradient(loss, both, 2, grads),
                  "bell_gradient: two tensors of shape (2,), targets 0 and 1, "
                  "denote one value, and their gradients cannot be told apart; "
                  "bell_requires_grad of both before they get it, by "
                  "bell_assign or bell_realize, makes them two variables");
    both[1] = both[0];
    assert_int_equal(bell_gradient(loss, both, 2, grads), BELL_OK);
    EXPECT(grads[0], 2, 4);
    EXPECT(grads[1], 2, 4);
    both[1] = bell_requires_grad(bell_alias(both[0]), true);
    bell_requires_grad(both[0], true);
    loss = bell_sum(bell_mul(both[0], both[1]), BELL_NO_DIMS, false);
    EXPECT_STATUS(bell_backward(loss),
                  "bell_backward: two tensors of shape (2,), variables 0 and "
                  "1, denote one value, and their gradients cannot be told "
                  "apart; bell_requires_grad of both before they get it, by "
                  "bell_assign or bell_realize, makes them two variables");
}

int
main(void)
{
#define TEST(name)                                                             \
    cmocka_unit_test_setup_teardown(name, make_context, end_context)
    const struct CMUnitTest tests[] = {
        TEST(test_unary),        TEST(test_binary),
        TEST(test_movement),     TEST(test_reductions),
        TEST(test_layers),       TEST(test_kinks),
        TEST(test_extremes),     TEST(test_second_order),
        TEST(test_backward),     TEST(test_read_before),
        TEST(test_constants),    TEST(test_errors),
        TEST(test_moved_leaf),   TEST(test_one_value),
        TEST(test_one_variable),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
