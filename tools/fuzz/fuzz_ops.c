/* The fuzzer's ops: leaf, conversions, elementwise, reductions, along an
 * axis. */
#include "tools/fuzz/fuzz_gen.h"

#include <math.h>

#include "base/bits.h"

/* Data that keeps the op in its domain: always for gradients, often else. */
static enum fuzz_data
domain(struct fuzz_gen *g)
{
    return g->grad || fuzz_one_in(&g->rng, 2) ? g->op->data : FUZZ_DATA_NORMAL;
}

/* ---- conversions ------------------------------------------------------ */

static bool
gen_cast(struct fuzz_gen *g, struct fuzz_node *n)
{
    n->dtype = (uint8_t)fuzz_random_dtype(g);
    if (!g->grad && fuzz_one_in(&g->rng, 5))
        n->dtype = (uint8_t)(BELL_FLOAT8_E4M3FN + fuzz_below(&g->rng, 4));
    return take(n, fuzz_pick(g, fuzz_any, g->op->data));
}

static bool
gen_bitcast(struct fuzz_gen *g, struct fuzz_node *n)
{
    static const enum bell_dtype to[][3] = {
        {BELL_INT8, BELL_UINT8, BELL_FLOAT8_E4M3FN},
        {BELL_INT16, BELL_UINT16, BELL_FLOAT16},
        {BELL_INT32, BELL_UINT32, BELL_FLOAT32},
        {BELL_INT64, BELL_UINT64, BELL_FLOAT64}};
    int x = fuzz_pick(g, fuzz_is_number, g->op->data);
    size_t size = x < 0 ? 1 : bell_dtype_size(bell_dtype_of(g->tensors[x]));
    unsigned row = size == 8 ? 3 : size == 4 ? 2 : size == 2 ? 1 : 0;

    n->dtype = (uint8_t)to[row][fuzz_below(&g->rng, 3)];
    if (g->lacks_f64 && n->dtype == BELL_FLOAT64)
        n->dtype = BELL_INT64;
    return take(n, x);
}

/* ---- elementwise ------------------------------------------------------ */

static bool
gen_unary(struct fuzz_gen *g, struct fuzz_node *n)
{
    return take(n, fuzz_pick(g, g->op->fits, domain(g)));
}

static bool
gen_binary(struct fuzz_gen *g, struct fuzz_node *n)
{
    enum fuzz_data data = domain(g);
    int x = fuzz_pick(g, g->op->fits, FUZZ_DATA_NORMAL), y;

    if (x < 0)
        return false;
    y = fuzz_pick_like(g, x, g->op->fits, data);
    if (y < 0)
        return false;
    if (fuzz_one_in(&g->rng, 2) || data != FUZZ_DATA_NORMAL)
        return take(n, x) && take(n, y);
    return take(n, y) && take(n, x);
}

/* Positive base, so that the power is real; sometimes any. */
static bool
gen_pow(struct fuzz_gen *g, struct fuzz_node *n)
{
    int x = fuzz_pick(g, fuzz_is_number, domain(g)), y;

    if (x < 0)
        return false;
    y = fuzz_pick_like(g, x, fuzz_is_number, FUZZ_DATA_COARSE);
    return take(n, x) && take(n, y);
}

static bool
gen_scaled(struct fuzz_gen *g, struct fuzz_node *n)
{
    static const double factors[] = {0, 1, -1, 2, 0.5, -3, 0.1, 3, 7, 1.5};

    n->f[0] = factors[fuzz_below(&g->rng, ARRAY_LEN(factors))];
    return gen_unary(g, n);
}

/* A slope, an alpha: positive. */
static bool
gen_scaled_positive(struct fuzz_gen *g, struct fuzz_node *n)
{
    n->f[0] = 0.25 * (double)(1 + fuzz_below(&g->rng, 8));
    return gen_unary(g, n);
}

static bool
gen_isclose(struct fuzz_gen *g, struct fuzz_node *n)
{
    n->f[0] = 0.1;
    n->f[1] = 0.01;
    n->i[0] = (int64_t)fuzz_below(&g->rng, 2);
    return gen_binary(g, n);
}

static bool
gen_where(struct fuzz_gen *g, struct fuzz_node *n)
{
    int x = fuzz_pick(g, fuzz_any, FUZZ_DATA_NORMAL), y, c;

    if (x < 0)
        return false;
    y = fuzz_pick_like(g, x, fuzz_any, g->op->data);
    c = fuzz_pick_like(g, x, fuzz_is_bool, FUZZ_DATA_NORMAL);
    return take(n, c) && take(n, x) && take(n, y);
}

static bool
gen_clamp(struct fuzz_gen *g, struct fuzz_node *n)
{
    int x = fuzz_pick(g, g->op->fits, FUZZ_DATA_NORMAL), y, z;

    if (x < 0)
        return false;
    y = fuzz_pick_like(g, x, g->op->fits, FUZZ_DATA_NORMAL);
    z = fuzz_pick_like(g, x, g->op->fits, g->op->data);
    return take(n, x) && take(n, y) && take(n, z);
}

static bool
gen_ternary(struct fuzz_gen *g, struct fuzz_node *n)
{
    n->f[0] = 0.5 * (double)(1 + fuzz_below(&g->rng, 4));
    return gen_clamp(g, n);
}

static bool
gen_clip(struct fuzz_gen *g, struct fuzz_node *n)
{
    n->f[0] = -1 + 0.5 * (double)fuzz_below(&g->rng, 3);
    n->f[1] = n->f[0] + 1;
    return take(n, fuzz_pick(g, fuzz_is_float, FUZZ_DATA_NORMAL));
}

/* clang-format off */
HELPER(fuzz_acosh, /* within its domain */
static struct bell_tensor *
fuzz_acosh(struct bell_tensor *x)
{
    return bell_acosh(bell_add_scalar(bell_abs(x), 1.5));
})
/* clang-format on */

/* ---- reductions ------------------------------------------------------- */

static bool
no_empty_axis(const struct fuzz_gen *g, int x)
{
    return x >= 0 && bell_numel(g->tensors[x]) > 0;
}

static bool
take_reduced(struct fuzz_gen *g, struct fuzz_node *n, int x)
{
    if (x < 0)
        return false;
    fuzz_random_axes(g, bell_ndim(g->tensors[x]), n);
    n->i[0] = (int64_t)fuzz_below(&g->rng, 2);
    return take(n, x);
}

static bool
gen_reduce(struct fuzz_gen *g, struct fuzz_node *n)
{
    return take_reduced(g, n, fuzz_pick(g, g->op->fits, domain(g)));
}

/* An empty set has no greatest element. */
static bool
gen_reduce_some(struct fuzz_gen *g, struct fuzz_node *n)
{
    int x = fuzz_pick(g, fuzz_is_number, domain(g));

    return no_empty_axis(g, x) && take_reduced(g, n, x);
}

static bool
gen_norm(struct fuzz_gen *g, struct fuzz_node *n)
{
    static const double orders[] = {2, 1, 3, 0, INFINITY, -INFINITY};
    int x = fuzz_pick(g, fuzz_is_float, domain(g));

    n->f[0] = orders[fuzz_below(&g->rng, g->grad ? 3 : ARRAY_LEN(orders))];
    return no_empty_axis(g, x) && take_reduced(g, n, x);
}

/* ---- along an axis ---------------------------------------------------- */

static bool
take_axis(struct fuzz_gen *g, struct fuzz_node *n, int x)
{
    if (x < 0)
        return false;
    n->i[0] = fuzz_random_axis(g, bell_ndim(g->tensors[x]));
    n->i[1] = (int64_t)fuzz_below(&g->rng, 2);
    return take(n, x);
}

static bool
gen_along(struct fuzz_gen *g, struct fuzz_node *n)
{
    return take_axis(g, n, fuzz_pick_rank(g, g->op->fits, 1, 4, domain(g)));
}

static bool
gen_along_some(struct fuzz_gen *g, struct fuzz_node *n)
{
    int x = fuzz_pick_rank(g, fuzz_is_number, 1, 4, domain(g));

    return no_empty_axis(g, x) && take_axis(g, n, x);
}

#define ROW(code, function, args, gen, fits, weight, diff, data)               \
    {                                                                          \
        FN(code, bell_##function), args, gen, fuzz_##fits, 0, 0, weight, diff, \
            FUZZ_DATA_##data                                                   \
    }
#define U(name, fits, diff, data)                                              \
    ROW(t, name, "0", gen_unary, fits, 3, diff, data)
#define B(name, fits, weight, diff, data)                                      \
    ROW(tt, name, "01", gen_binary, fits, weight, diff, data)
#define S(name, gen, fits, data) ROW(tf, name, "0x", gen, fits, 3, true, data)
#define R(name, gen, fits, weight, diff, data)                                 \
    ROW(tlb, name, "0la", gen, fits, weight, diff, data)
#define L(name, gen, fits, weight, data)                                       \
    ROW(ta, name, "0a", gen, fits, weight, true, data)

/* clang-format off */
static const struct fuzz_op rows[] = {
    {.args = ""}, /* the leaf */

    ROW(ty, cast, "0.", gen_cast, any, 25, true, NORMAL),
    ROW(ty, bitcast, "0.", gen_bitcast, any, 5, false, NORMAL),
    U(contiguous, any, true, NORMAL),
    U(detach, any, false, NORMAL),

    B(add, any, 20, true, NORMAL),
    B(sub, is_number, 12, true, NORMAL),
    B(mul, any, 20, true, NORMAL),
    B(div, any, 12, true, POSITIVE),
    B(floor_divide, is_number, 8, false, POSITIVE),
    B(trunc_divide, is_number, 6, false, POSITIVE),
    B(remainder, is_number, 8, true, POSITIVE),
    B(fmod, is_number, 6, true, POSITIVE),
    ROW(tt, pow, "01", gen_pow, any, 8, true, POSITIVE),
    B(maximum, any, 8, true, NORMAL),
    B(minimum, any, 8, true, NORMAL),
    B(atan2, is_float, 3, true, NORMAL),
    B(copysign, is_float, 3, true, NORMAL),
    B(nextafter, is_float, 3, false, NORMAL),
    B(logaddexp, is_float, 3, true, NORMAL),
    B(hypot, is_float, 3, true, NORMAL),
    B(bitwise_and, is_bits, 5, false, NORMAL),
    B(bitwise_or, is_bits, 5, false, NORMAL),
    B(bitwise_xor, is_bits, 5, false, NORMAL),
    B(lshift, is_bits, 4, false, POSITIVE),
    B(rshift, is_bits, 4, false, POSITIVE),
    B(eq, any, 4, false, COARSE),
    B(ne, any, 4, false, COARSE),
    B(lt, any, 4, false, COARSE),
    B(le, any, 4, false, COARSE),
    B(gt, any, 4, false, COARSE),
    B(ge, any, 4, false, COARSE),
    B(logical_and, any, 3, false, COARSE),
    B(logical_or, any, 3, false, COARSE),
    B(logical_xor, any, 3, false, COARSE),
    ROW(ttffb, isclose, "01xya", gen_isclose, is_number, 3, false, NORMAL),
    S(add_scalar, gen_scaled, is_number, NORMAL),
    S(sub_scalar, gen_scaled, is_number, NORMAL),
    S(mul_scalar, gen_scaled, is_number, NORMAL),
    S(div_scalar, gen_scaled, is_number, NORMAL),
    S(pow_scalar, gen_scaled, is_number, POSITIVE),

    ROW(ttt, where, "012", gen_where, any, 14, true, NORMAL),
    ROW(ttt, clamp, "012", gen_clamp, is_number, 5, true, NORMAL),
    ROW(ttt, lerp, "012", gen_ternary, is_float, 3, true, NORMAL),
    ROW(tttf, addcmul, "012x", gen_ternary, is_float, 3, true, NORMAL),
    ROW(tttf, addcdiv, "012x", gen_ternary, is_float, 3, true, POSITIVE),
    ROW(tff, clip, "0xy", gen_clip, any, 3, true, NORMAL),
    ROW(tff, hardtanh, "0xy", gen_clip, any, 2, true, NORMAL),

    U(neg, is_number, true, NORMAL),
    U(abs, is_number, true, NORMAL),
    U(sign, is_number, true, NORMAL),
    U(square, is_number, true, NORMAL),
    U(reciprocal, any, true, POSITIVE),
    U(sqrt, any, true, POSITIVE),
    U(rsqrt, any, true, POSITIVE),
    U(bitwise_not, is_bits, false, NORMAL),
    U(logical_not, any, false, NORMAL),
    U(trunc, is_number, true, NORMAL),
    U(floor, is_number, true, NORMAL),
    U(ceil, is_number, true, NORMAL),
    U(round, is_number, true, NORMAL),
    U(frac, is_float, true, NORMAL),
    U(isnan, any, false, SPECIAL),
    U(isinf, any, false, SPECIAL),
    U(isposinf, any, false, SPECIAL),
    U(isneginf, any, false, SPECIAL),
    U(isfinite, any, false, SPECIAL),
    U(exp, any, true, NORMAL),
    U(exp2, any, true, NORMAL),
    U(expm1, any, true, NORMAL),
    U(log, any, true, POSITIVE),
    U(log2, any, true, POSITIVE),
    U(log10, any, true, POSITIVE),
    U(log1p, any, true, POSITIVE),
    U(sin, any, true, NORMAL),
    U(cos, any, true, NORMAL),
    U(tan, any, true, UNIT),
    U(asin, any, true, UNIT),
    U(acos, any, true, UNIT),
    U(atan, any, true, NORMAL),
    U(sinh, any, true, NORMAL),
    U(cosh, any, true, NORMAL),
    U(tanh, any, true, NORMAL),
    U(asinh, any, true, NORMAL),
    {FN(t, fuzz_acosh), "0", gen_unary, fuzz_is_float, 0, 0, 2, true,
     FUZZ_DATA_POSITIVE, fuzz_acosh_text},
    U(atanh, any, true, UNIT),
    U(erf, any, true, NORMAL),
    U(relu, is_number, true, NORMAL),
    U(relu6, is_number, true, NORMAL),
    U(selu, any, true, NORMAL),
    U(sigmoid, any, true, NORMAL),
    U(logsigmoid, any, true, NORMAL),
    U(silu, any, true, NORMAL),
    U(quick_gelu, any, true, NORMAL),
    U(softsign, any, true, NORMAL),
    U(mish, any, true, NORMAL),
    U(hardsigmoid, any, true, NORMAL),
    U(hardswish, any, true, NORMAL),
    ROW(tb, gelu, "01", gen_unary, any, 3, true, NORMAL),
    ROW(tb, gelu, "00", gen_unary, any, 3, true, NORMAL),
    S(leaky_relu, gen_scaled_positive, is_float, NORMAL),
    S(elu, gen_scaled_positive, is_float, NORMAL),
    S(celu, gen_scaled_positive, is_float, NORMAL),
    S(softplus, gen_scaled_positive, is_float, NORMAL),

    R(sum, gen_reduce, any, 25, true, NORMAL),
    R(prod, gen_reduce, any, 8, true, POSITIVE),
    R(max, gen_reduce_some, is_number, 12, true, DISTINCT),
    R(min, gen_reduce_some, is_number, 8, true, DISTINCT),
    R(mean, gen_reduce, is_float, 10, true, NORMAL),
    R(any, gen_reduce, any, 4, false, NORMAL),
    R(all, gen_reduce, any, 4, false, NORMAL),
    R(logsumexp, gen_reduce, is_float, 6, true, NORMAL),
    ROW(tlbf, var, "0la!", gen_reduce, is_float, 6, true, NORMAL),
    ROW(tlbf, std, "0la1", gen_reduce, is_float, 5, true, NORMAL),
    ROW(tl, count_nonzero, "0l", gen_reduce, any, 3, false, NORMAL),
    ROW(tflb, norm, "0xla", gen_norm, any, 4, true, POSITIVE),

    L(softmax, gen_along, is_float, 12, NORMAL),
    L(log_softmax, gen_along, is_float, 8, NORMAL),
    L(softmin, gen_along, is_float, 3, NORMAL),
    L(cumsum, gen_along, is_number, 8, NORMAL),
    L(cumprod, gen_along, is_number, 4, POSITIVE),
    L(cummax, gen_along_some, is_number, 4, DISTINCT),
    L(logcumsumexp, gen_along, is_float, 3, NORMAL),
    L(cummin, gen_along_some, is_number, 3, DISTINCT),
    ROW(tab, argmax, "0ab", gen_along_some, any, 5, false, NORMAL),
    ROW(tab, argmin, "0ab", gen_along_some, any, 4, false, NORMAL),
    ROW(tfaf, normalize, "02aU", gen_along, is_float, 3, true, POSITIVE),
};
/* clang-format on */

const struct fuzz_op_table fuzz_ops_elementwise = {rows, ARRAY_LEN(rows)};
