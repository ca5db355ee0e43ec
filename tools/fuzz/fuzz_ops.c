/* The fuzzer's ops: leaf, conversions, elementwise, reductions, along an
 * axis. */
#include "tools/fuzz/fuzz.h"

#include <math.h>

#include "base/bits.h"

#define GEN(name)                                                              \
    static bool name(struct fuzz_gen *g, const struct fuzz_op *op,             \
                     struct fuzz_node *n)
#define BUILD(name)                                                            \
    static struct bell_tensor *name(                                           \
        struct bell_context *ctx, const struct fuzz_op *op,                    \
        const struct fuzz_node *n, struct bell_tensor *const *src)

/* Takes an operand; false if there is none. */
static bool
take(struct fuzz_node *n, int node)
{
    if (node < 0)
        return false;
    n->src[n->n_src++] = (uint16_t)node;
    return true;
}

/* Data that keeps the op in its domain: always for gradients, often else. */
static enum fuzz_data
domain(struct fuzz_gen *g, const struct fuzz_op *op)
{
    return g->grad || fuzz_one_in(&g->rng, 2) ? op->data : FUZZ_DATA_NORMAL;
}

/* ---- conversions ------------------------------------------------------ */

GEN(gen_cast)
{
    n->dtype = (uint8_t)fuzz_random_dtype(g);
    if (!g->grad && fuzz_one_in(&g->rng, 5))
        n->dtype = (uint8_t)(BELL_FLOAT8_E4M3FN + fuzz_below(&g->rng, 4));
    return take(n, fuzz_pick(g, fuzz_any, op->data));
}

BUILD(build_cast)
{
    (void)ctx;
    (void)op;
    return bell_cast(src[0], (enum bell_dtype)n->dtype);
}

GEN(gen_bitcast)
{
    static const enum bell_dtype to[][3] = {
        {BELL_INT8, BELL_UINT8, BELL_FLOAT8_E4M3FN},
        {BELL_INT16, BELL_UINT16, BELL_FLOAT16},
        {BELL_INT32, BELL_UINT32, BELL_FLOAT32},
        {BELL_INT64, BELL_UINT64, BELL_FLOAT64}};
    int x = fuzz_pick(g, fuzz_is_number, op->data);
    size_t size = x < 0 ? 1 : bell_dtype_size(bell_dtype_of(g->tensors[x]));
    unsigned row = size == 8 ? 3 : size == 4 ? 2 : size == 2 ? 1 : 0;

    n->dtype = (uint8_t)to[row][fuzz_below(&g->rng, 3)];
    return take(n, x);
}

BUILD(build_bitcast)
{
    (void)ctx;
    (void)op;
    return bell_bitcast(src[0], (enum bell_dtype)n->dtype);
}

/* ---- unary and binary ------------------------------------------------- */

GEN(gen_unary)
{
    return take(n, fuzz_pick(g, fuzz_any, domain(g, op)));
}

GEN(gen_unary_float)
{
    return take(n, fuzz_pick(g, fuzz_is_float, domain(g, op)));
}

GEN(gen_unary_number)
{
    return take(n, fuzz_pick(g, fuzz_is_number, domain(g, op)));
}

GEN(gen_unary_bits)
{
    return take(n, fuzz_pick(g, fuzz_is_bits, domain(g, op)));
}

BUILD(build_unary)
{
    (void)ctx;
    (void)n;
    return op->unary(src[0]);
}

static bool
take_two(struct fuzz_gen *g, struct fuzz_node *n,
         bool (*fits)(struct bell_tensor *t), enum fuzz_data data)
{
    int x = fuzz_pick(g, fits, FUZZ_DATA_NORMAL), y;

    if (x < 0)
        return false;
    y = fuzz_pick_like(g, x, fits, data);
    if (y < 0)
        return false;
    if (fuzz_one_in(&g->rng, 2) || data != FUZZ_DATA_NORMAL)
        return take(n, x) && take(n, y);
    return take(n, y) && take(n, x);
}

GEN(gen_binary)
{
    return take_two(g, n, fuzz_any, domain(g, op));
}

GEN(gen_binary_number)
{
    return take_two(g, n, fuzz_is_number, domain(g, op));
}

GEN(gen_binary_bits)
{
    return take_two(g, n, fuzz_is_bits, domain(g, op));
}

GEN(gen_binary_float)
{
    return take_two(g, n, fuzz_is_float, domain(g, op));
}

/* Positive base, so that the power is real; sometimes any. */
GEN(gen_pow)
{
    int x = fuzz_pick(g, fuzz_is_number, domain(g, op)), y;

    if (x < 0)
        return false;
    y = fuzz_pick_like(g, x, fuzz_is_number, FUZZ_DATA_COARSE);
    return take(n, x) && take(n, y);
}

BUILD(build_binary)
{
    (void)ctx;
    (void)n;
    return op->binary(src[0], src[1]);
}

GEN(gen_scaled)
{
    static const double factors[] = {0, 1, -1, 2, 0.5, -3, 0.1, 3, 7, 1.5};

    n->f[0] = factors[fuzz_below(&g->rng, ARRAY_LEN(factors))];
    return take(n, fuzz_pick(g, fuzz_is_number, domain(g, op)));
}

/* A slope, an alpha: positive. */
GEN(gen_scaled_positive)
{
    n->f[0] = 0.25 * (double)(1 + fuzz_below(&g->rng, 8));
    return take(n, fuzz_pick(g, fuzz_is_float, domain(g, op)));
}

BUILD(build_scaled)
{
    (void)ctx;
    return op->scaled(src[0], n->f[0]);
}

GEN(gen_isclose)
{
    n->f[0] = 0.1;
    n->f[1] = 0.01;
    n->i[0] = (int64_t)fuzz_below(&g->rng, 2);
    return gen_binary_number(g, op, n);
}

BUILD(build_isclose)
{
    (void)ctx;
    (void)op;
    return bell_isclose(src[0], src[1], n->f[0], n->f[1], n->i[0] != 0);
}

/* ---- ternary ---------------------------------------------------------- */

GEN(gen_where)
{
    int x = fuzz_pick(g, fuzz_any, FUZZ_DATA_NORMAL), y, c;

    if (x < 0)
        return false;
    y = fuzz_pick_like(g, x, fuzz_any, op->data);
    c = fuzz_pick_like(g, x, fuzz_is_bool, FUZZ_DATA_NORMAL);
    return take(n, c) && take(n, x) && take(n, y);
}

BUILD(build_where)
{
    (void)ctx;
    (void)op;
    (void)n;
    return bell_where(src[0], src[1], src[2]);
}

static bool
take_three(struct fuzz_gen *g, const struct fuzz_op *op, struct fuzz_node *n,
           bool (*fits)(struct bell_tensor *t))
{
    int x = fuzz_pick(g, fits, FUZZ_DATA_NORMAL), y, z;

    if (x < 0)
        return false;
    y = fuzz_pick_like(g, x, fits, FUZZ_DATA_NORMAL);
    z = fuzz_pick_like(g, x, fits, op->data);
    return take(n, x) && take(n, y) && take(n, z);
}

GEN(gen_clamp)
{
    return take_three(g, op, n, fuzz_is_number);
}

GEN(gen_ternary_float)
{
    n->f[0] = 0.5 * (double)(1 + fuzz_below(&g->rng, 4));
    return take_three(g, op, n, fuzz_is_float);
}

BUILD(build_clamp)
{
    (void)ctx;
    (void)op;
    (void)n;
    return bell_clamp(src[0], src[1], src[2]);
}

BUILD(build_lerp)
{
    (void)ctx;
    (void)op;
    (void)n;
    return bell_lerp(src[0], src[1], src[2]);
}

BUILD(build_addcmul)
{
    (void)ctx;
    (void)op;
    return bell_addcmul(src[0], src[1], src[2], n->f[0]);
}

BUILD(build_addcdiv)
{
    (void)ctx;
    (void)op;
    return bell_addcdiv(src[0], src[1], src[2], n->f[0]);
}

GEN(gen_clip)
{
    (void)op;
    n->f[0] = -1 + 0.5 * (double)fuzz_below(&g->rng, 3);
    n->f[1] = n->f[0] + 1;
    return take(n, fuzz_pick(g, fuzz_is_float, FUZZ_DATA_NORMAL));
}

BUILD(build_clip)
{
    (void)ctx;
    (void)op;
    return bell_clip(src[0], n->f[0], n->f[1]);
}

BUILD(build_hardtanh)
{
    (void)ctx;
    (void)op;
    return bell_hardtanh(src[0], n->f[0], n->f[1]);
}

BUILD(build_gelu)
{
    (void)ctx;
    (void)op;
    (void)n;
    return bell_gelu(src[0], true);
}

static struct bell_tensor *
gelu_exact(struct bell_tensor *x)
{
    return bell_gelu(x, false);
}

/* Within acosh's domain. */
static struct bell_tensor *
acosh_above(struct bell_tensor *x)
{
    return bell_acosh(bell_add_scalar(bell_abs(x), 1.5));
}

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

GEN(gen_reduce)
{
    return take_reduced(g, n, fuzz_pick(g, fuzz_any, domain(g, op)));
}

GEN(gen_reduce_float)
{
    return take_reduced(g, n, fuzz_pick(g, fuzz_is_float, domain(g, op)));
}

/* Of nothing there is no greatest element. */
GEN(gen_reduce_some)
{
    int x = fuzz_pick(g, fuzz_is_number, domain(g, op));

    return no_empty_axis(g, x) && take_reduced(g, n, x);
}

BUILD(build_reduce)
{
    (void)ctx;
    return op->reduce(src[0], n->list, n->n_list, n->i[0] != 0);
}

BUILD(build_var)
{
    (void)ctx;
    (void)op;
    return bell_var(src[0], n->list, n->n_list, n->i[0] != 0,
                    (double)(n->i[0] ^ 1));
}

BUILD(build_std)
{
    (void)ctx;
    (void)op;
    return bell_std(src[0], n->list, n->n_list, n->i[0] != 0, 1);
}

BUILD(build_count)
{
    (void)ctx;
    (void)op;
    return bell_count_nonzero(src[0], n->list, n->n_list);
}

GEN(gen_norm)
{
    static const double orders[] = {2, 1, 3, 0, INFINITY, -INFINITY};
    int x = fuzz_pick(g, fuzz_is_float, domain(g, op));

    n->f[0] = orders[fuzz_below(&g->rng, g->grad ? 3 : ARRAY_LEN(orders))];
    return no_empty_axis(g, x) && take_reduced(g, n, x);
}

BUILD(build_norm)
{
    (void)ctx;
    (void)op;
    return bell_norm(src[0], n->f[0], n->list, n->n_list, n->i[0] != 0);
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

GEN(gen_along)
{
    return take_axis(g, n,
                     fuzz_pick_rank(g, fuzz_is_number, 1, 4, domain(g, op)));
}

GEN(gen_along_float)
{
    return take_axis(g, n,
                     fuzz_pick_rank(g, fuzz_is_float, 1, 4, domain(g, op)));
}

GEN(gen_along_some)
{
    int x = fuzz_pick_rank(g, fuzz_is_number, 1, 4, domain(g, op));

    return no_empty_axis(g, x) && take_axis(g, n, x);
}

BUILD(build_along)
{
    (void)ctx;
    return op->along(src[0], (int)n->i[0]);
}

BUILD(build_argmax)
{
    (void)ctx;
    (void)op;
    return bell_argmax(src[0], (int)n->i[0], n->i[1] != 0);
}

BUILD(build_argmin)
{
    (void)ctx;
    (void)op;
    return bell_argmin(src[0], (int)n->i[0], n->i[1] != 0);
}

BUILD(build_normalize)
{
    (void)ctx;
    (void)op;
    return bell_normalize(src[0], 2, (int)n->i[0], 1e-6);
}

#define ROW(name, c, gen, build, weight, diff, data)                           \
    {                                                                          \
        name, c, gen, build, weight, diff, {NULL}, FUZZ_DATA_##data            \
    }
#define U(name, gen, diff, data)                                               \
    {                                                                          \
#name, "bell_" #name "($0)", gen, build_unary, 3, diff,                \
            {.unary = bell_##name }, FUZZ_DATA_##data                          \
    }
#define B(name, gen, weight, diff, data)                                       \
    {                                                                          \
#name, "bell_" #name "($0, $1)", gen, build_binary, weight, diff,      \
            {.binary = bell_##name }, FUZZ_DATA_##data                         \
    }
#define S(name, gen, diff, data)                                               \
    {                                                                          \
#name, "bell_" #name "($0, $x)", gen, build_scaled, 3, diff,           \
            {.scaled = bell_##name }, FUZZ_DATA_##data                         \
    }
#define R(name, gen, weight, diff, data)                                       \
    {                                                                          \
#name, "bell_" #name "($0, $l, $A)", gen, build_reduce, weight, diff,  \
            {.reduce = bell_##name }, FUZZ_DATA_##data                         \
    }
#define L(name, gen, weight, diff, data)                                       \
    {                                                                          \
#name, "bell_" #name "($0, $a)", gen, build_along, weight, diff,       \
            {.along = bell_##name }, FUZZ_DATA_##data                          \
    }

/* clang-format off */
static const struct fuzz_op rows[] = {
    {"leaf", "", NULL, NULL, 0, false, {NULL}, FUZZ_DATA_NORMAL},

    ROW("cast", "bell_cast($0, $t)", gen_cast, build_cast, 25, true, NORMAL),
    ROW("bitcast", "bell_bitcast($0, $t)", gen_bitcast, build_bitcast, 5,
        false, NORMAL),
    U(contiguous, gen_unary, true, NORMAL),
    U(detach, gen_unary, false, NORMAL),

    B(add, gen_binary, 20, true, NORMAL),
    B(sub, gen_binary_number, 12, true, NORMAL),
    B(mul, gen_binary, 20, true, NORMAL),
    B(div, gen_binary, 12, true, POSITIVE),
    B(floor_divide, gen_binary_number, 8, false, POSITIVE),
    B(trunc_divide, gen_binary_number, 6, false, POSITIVE),
    B(remainder, gen_binary_number, 8, true, POSITIVE),
    B(fmod, gen_binary_number, 6, true, POSITIVE),
    B(pow, gen_pow, 8, true, POSITIVE),
    B(maximum, gen_binary, 8, true, NORMAL),
    B(minimum, gen_binary, 8, true, NORMAL),
    B(atan2, gen_binary_float, 3, true, NORMAL),
    B(copysign, gen_binary_float, 3, true, NORMAL),
    B(logaddexp, gen_binary_float, 3, true, NORMAL),
    B(hypot, gen_binary_float, 3, true, NORMAL),
    B(bitwise_and, gen_binary_bits, 5, false, NORMAL),
    B(bitwise_or, gen_binary_bits, 5, false, NORMAL),
    B(bitwise_xor, gen_binary_bits, 5, false, NORMAL),
    B(lshift, gen_binary_bits, 4, false, POSITIVE),
    B(rshift, gen_binary_bits, 4, false, POSITIVE),
    B(eq, gen_binary, 4, false, COARSE),
    B(ne, gen_binary, 4, false, COARSE),
    B(lt, gen_binary, 4, false, COARSE),
    B(le, gen_binary, 4, false, COARSE),
    B(gt, gen_binary, 4, false, COARSE),
    B(ge, gen_binary, 4, false, COARSE),
    B(logical_and, gen_binary, 3, false, COARSE),
    B(logical_or, gen_binary, 3, false, COARSE),
    B(logical_xor, gen_binary, 3, false, COARSE),
    ROW("isclose", "bell_isclose($0, $1, $x, $y, $A)", gen_isclose,
        build_isclose, 3, false, NORMAL),
    S(add_scalar, gen_scaled, true, NORMAL),
    S(sub_scalar, gen_scaled, true, NORMAL),
    S(mul_scalar, gen_scaled, true, NORMAL),
    S(div_scalar, gen_scaled, true, NORMAL),
    S(pow_scalar, gen_scaled, true, POSITIVE),

    ROW("where", "bell_where($0, $1, $2)", gen_where, build_where, 14, true,
        NORMAL),
    ROW("clamp", "bell_clamp($0, $1, $2)", gen_clamp, build_clamp, 5, true,
        NORMAL),
    ROW("lerp", "bell_lerp($0, $1, $2)", gen_ternary_float, build_lerp, 3,
        true, NORMAL),
    ROW("addcmul", "bell_addcmul($0, $1, $2, $x)", gen_ternary_float,
        build_addcmul, 3, true, NORMAL),
    ROW("addcdiv", "bell_addcdiv($0, $1, $2, $x)", gen_ternary_float,
        build_addcdiv, 3, true, POSITIVE),
    ROW("clip", "bell_clip($0, $x, $y)", gen_clip, build_clip, 3, true,
        NORMAL),
    ROW("hardtanh", "bell_hardtanh($0, $x, $y)", gen_clip, build_hardtanh, 2,
        true, NORMAL),

    U(neg, gen_unary_number, true, NORMAL),
    U(abs, gen_unary_number, true, NORMAL),
    U(sign, gen_unary_number, true, NORMAL),
    U(square, gen_unary_number, true, NORMAL),
    U(reciprocal, gen_unary, true, POSITIVE),
    U(sqrt, gen_unary, true, POSITIVE),
    U(rsqrt, gen_unary, true, POSITIVE),
    U(bitwise_not, gen_unary_bits, false, NORMAL),
    U(logical_not, gen_unary, false, NORMAL),
    U(trunc, gen_unary_number, true, NORMAL),
    U(floor, gen_unary_number, true, NORMAL),
    U(ceil, gen_unary_number, true, NORMAL),
    U(round, gen_unary_number, true, NORMAL),
    U(frac, gen_unary_float, true, NORMAL),
    U(isnan, gen_unary, false, SPECIAL),
    U(isinf, gen_unary, false, SPECIAL),
    U(isfinite, gen_unary, false, SPECIAL),
    U(exp, gen_unary, true, NORMAL),
    U(exp2, gen_unary, true, NORMAL),
    U(expm1, gen_unary, true, NORMAL),
    U(log, gen_unary, true, POSITIVE),
    U(log2, gen_unary, true, POSITIVE),
    U(log10, gen_unary, true, POSITIVE),
    U(log1p, gen_unary, true, POSITIVE),
    U(sin, gen_unary, true, NORMAL),
    U(cos, gen_unary, true, NORMAL),
    U(tan, gen_unary, true, UNIT),
    U(asin, gen_unary, true, UNIT),
    U(acos, gen_unary, true, UNIT),
    U(atan, gen_unary, true, NORMAL),
    U(sinh, gen_unary, true, NORMAL),
    U(cosh, gen_unary, true, NORMAL),
    U(tanh, gen_unary, true, NORMAL),
    U(asinh, gen_unary, true, NORMAL),
    {"acosh", "bell_acosh(bell_add_scalar(bell_abs($0), 1.5))", gen_unary_float,
     build_unary, 2, true, {.unary = acosh_above}, FUZZ_DATA_POSITIVE},
    U(atanh, gen_unary, true, UNIT),
    U(erf, gen_unary, true, NORMAL),
    U(relu, gen_unary_number, true, NORMAL),
    U(relu6, gen_unary_number, true, NORMAL),
    U(selu, gen_unary, true, NORMAL),
    U(sigmoid, gen_unary, true, NORMAL),
    U(logsigmoid, gen_unary, true, NORMAL),
    U(silu, gen_unary, true, NORMAL),
    U(quick_gelu, gen_unary, true, NORMAL),
    U(softsign, gen_unary, true, NORMAL),
    U(mish, gen_unary, true, NORMAL),
    U(hardsigmoid, gen_unary, true, NORMAL),
    U(hardswish, gen_unary, true, NORMAL),
    ROW("gelu_tanh", "bell_gelu($0, true)", gen_unary, build_gelu, 3, true,
        NORMAL),
    {"gelu", "bell_gelu($0, false)", gen_unary, build_unary, 3, true,
     {.unary = gelu_exact}, FUZZ_DATA_NORMAL},
    S(leaky_relu, gen_scaled_positive, true, NORMAL),
    S(elu, gen_scaled_positive, true, NORMAL),
    S(celu, gen_scaled_positive, true, NORMAL),
    S(softplus, gen_scaled_positive, true, NORMAL),

    R(sum, gen_reduce, 25, true, NORMAL),
    R(prod, gen_reduce, 8, true, POSITIVE),
    R(max, gen_reduce_some, 12, true, DISTINCT),
    R(min, gen_reduce_some, 8, true, DISTINCT),
    R(mean, gen_reduce_float, 10, true, NORMAL),
    R(any, gen_reduce, 4, false, NORMAL),
    R(all, gen_reduce, 4, false, NORMAL),
    R(logsumexp, gen_reduce_float, 6, true, NORMAL),
    ROW("var", "bell_var($0, $l, $A, !$A)", gen_reduce_float, build_var, 6,
        true, NORMAL),
    ROW("std", "bell_std($0, $l, $A, 1)", gen_reduce_float, build_std, 5, true,
        NORMAL),
    ROW("count_nonzero", "bell_count_nonzero($0, $l)", gen_reduce, build_count,
        3, false, NORMAL),
    ROW("norm", "bell_norm($0, $x, $l, $A)", gen_norm, build_norm, 4, true,
        POSITIVE),

    L(softmax, gen_along_float, 12, true, NORMAL),
    L(log_softmax, gen_along_float, 8, true, NORMAL),
    L(softmin, gen_along_float, 3, true, NORMAL),
    L(cumsum, gen_along, 8, true, NORMAL),
    L(cumprod, gen_along, 4, true, POSITIVE),
    L(cummax, gen_along_some, 4, true, DISTINCT),
    L(cummin, gen_along_some, 3, true, DISTINCT),
    ROW("argmax", "bell_argmax($0, $a, $B)", gen_along_some, build_argmax, 5,
        false, NORMAL),
    ROW("argmin", "bell_argmin($0, $a, $B)", gen_along_some, build_argmin, 4,
        false, NORMAL),
    ROW("normalize", "bell_normalize($0, 2, $a, 1e-6)", gen_along_float,
        build_normalize, 3, true, POSITIVE),
};
/* clang-format on */

const struct fuzz_op_table fuzz_ops_elementwise = {rows, ARRAY_LEN(rows)};
