#include "lower_kernels.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/map.h"

uint64_t
lk_random(uint64_t *state)
{
    *state += 0x9e3779b97f4a7c15ull;
    return hash_mix(*state);
}

/* ---- building ---- */

static const union uop_arg none = {.bits = 0};

typedef const struct uop *node;

static node
add(struct lk *k, node a, node b)
{
    return uop_alu2(&k->g, UOP_ADD, a, b);
}

static node
mul(struct lk *k, node a, node b)
{
    return uop_alu2(&k->g, UOP_MUL, a, b);
}

static node
num(struct lk *k, int64_t i)
{
    return uop_const_int(&k->g, UOP_I64, i);
}

static node
flt(struct lk *k, double x)
{
    return uop_const_float(&k->g, UOP_F32, x);
}

static node
range(struct lk *k, enum uop_axis axis, int64_t size)
{
    return uop_range(&k->g, k->n_ranges++, axis, size);
}

static node
loop(struct lk *k, int64_t size)
{
    return range(k, UOP_AXIS_LOOP, size);
}

static node
red(struct lk *k, int64_t size)
{
    return range(k, UOP_AXIS_REDUCE, size);
}

/* a*n + b */
static node
at2(struct lk *k, node a, int64_t n, node b)
{
    return add(k, mul(k, a, num(k, n)), b);
}

/* A new argument of n elements. */
static node
param(struct lk *k, enum uop_dtype dtype, int64_t n)
{
    union uop_arg arg = {.i = (int64_t)k->n_bufs};

    k->bufs[k->n_bufs].dtype = dtype;
    k->bufs[k->n_bufs].n_elems = (size_t)n;
    k->n_bufs++;
    return uop_new(&k->g, UOP_PARAM, dtype, 1, arg, NULL, 0);
}

static node
load(struct lk *k, node p, node idx)
{
    node src[2] = {p, idx};
    k->is_input[p->arg.i] = true;
    return uop_make(&k->g, UOP_LOAD, p->dtype, 1, none, src, 2);
}

static node
load_if(struct lk *k, node p, node idx, node gate)
{
    node src[4] = {p, idx, uop_const_int(&k->g, p->dtype, 0), gate};
    k->is_input[p->arg.i] = true;
    return uop_make(&k->g, UOP_LOAD, p->dtype, 1, none, src, 4);
}

static node
reduce(struct lk *k, enum uop_op op, node x, node r0, node r1)
{
    union uop_arg arg = {.i = op};
    node src[3] = {x, r0, r1};
    return uop_make(&k->g, UOP_REDUCE, x->dtype, 1, arg, src, r1 ? 3 : 2);
}

static node
store(struct lk *k, node p, node idx, node value)
{
    node src[3] = {p, idx, value};
    k->is_output[p->arg.i] = true;
    return uop_make(&k->g, UOP_STORE, UOP_VOID, 1, none, src, 3);
}

static void
sink(struct lk *k, node a, node b)
{
    node src[2] = {a, b};
    k->sink = uop_make(&k->g, UOP_SINK, UOP_VOID, 1, none, src, b ? 2 : 1);
}

/* lo <= x < hi */
static node
within(struct lk *k, node x, int64_t lo, int64_t hi)
{
    return uop_alu2(&k->g, UOP_AND,
                    uop_alu2(&k->g, UOP_CMPLT, num(k, lo - 1), x),
                    uop_alu2(&k->g, UOP_CMPLT, x, num(k, hi)));
}

/* ---- kernels ---- */

static void
build_add(struct lk *k, const int64_t *d)
{
    int64_t n = d[0] * d[1];
    node out = param(k, UOP_F32, n), a = param(k, UOP_F32, n),
         b = param(k, UOP_F32, n), i = loop(k, d[0]), j = loop(k, d[1]),
         at = at2(k, i, d[1], j);

    sink(k, store(k, out, at, add(k, load(k, a, at), load(k, b, at))), NULL);
}

static void
build_flat(struct lk *k, const int64_t *d)
{
    int64_t n = d[0] * d[1];
    node out = param(k, UOP_F32, n), a = param(k, UOP_F32, n), i = loop(k, n);

    sink(k, store(k, out, i, mul(k, load(k, a, i), flt(k, 3))), NULL);
}

static void
build_scalar(struct lk *k, const int64_t *d)
{
    node out = param(k, UOP_F32, 1), a = param(k, UOP_F32, d[0]);

    sink(k,
         store(k, out, num(k, 0),
               add(k, load(k, a, num(k, d[0] - 1)), flt(k, 1))),
         NULL);
}

static void
build_broadcast(struct lk *k, const int64_t *d)
{
    node out = param(k, UOP_F32, d[0] * d[1]), a = param(k, UOP_F32, d[0]),
         b = param(k, UOP_F32, d[1]), i = loop(k, d[0]), j = loop(k, d[1]);

    sink(k,
         store(k, out, at2(k, i, d[1], j),
               uop_alu2(&k->g, UOP_SUB, load(k, a, i), load(k, b, j))),
         NULL);
}

static void
build_transpose(struct lk *k, const int64_t *d)
{
    int64_t n = d[0] * d[1];
    node out = param(k, UOP_F32, n), a = param(k, UOP_F32, n),
         i = loop(k, d[0]), j = loop(k, d[1]);

    sink(k, store(k, out, at2(k, i, d[1], j), load(k, a, at2(k, j, d[0], i))),
         NULL);
}

static void
build_flip(struct lk *k, const int64_t *d)
{
    int64_t n = d[0] * d[1];
    node out = param(k, UOP_I32, n), a = param(k, UOP_I32, n),
         i = loop(k, d[0]), j = loop(k, d[1]), back;

    back = uop_alu2(&k->g, UOP_SUB, num(k, d[1] - 1), j);
    sink(k,
         store(k, out, at2(k, i, d[1], j), load(k, a, at2(k, i, d[1], back))),
         NULL);
}

/* out as (d1, d0) row-major, the same elements in transposed order, through
 * one flat range: div and mod */
static void
build_divmod(struct lk *k, const int64_t *d)
{
    int64_t n = d[0] * d[1];
    node out = param(k, UOP_F32, n), a = param(k, UOP_F32, n), r = loop(k, n),
         q = uop_alu2(&k->g, UOP_FLOORDIV, r, num(k, d[1])),
         m = uop_alu2(&k->g, UOP_FLOORMOD, r, num(k, d[1]));

    sink(k, store(k, out, r, load(k, a, at2(k, m, d[0], q))), NULL);
}

static void
build_sum_rows(struct lk *k, const int64_t *d)
{
    node out = param(k, UOP_F32, d[0]), a = param(k, UOP_F32, d[0] * d[1]),
         i = loop(k, d[0]), r = red(k, d[1]);

    k->tolerance = 1e-5;
    sink(k,
         store(k, out, i,
               reduce(k, UOP_ADD, load(k, a, at2(k, i, d[1], r)), r, NULL)),
         NULL);
}

static void
build_max_cols(struct lk *k, const int64_t *d)
{
    node out = param(k, UOP_F32, d[1]), a = param(k, UOP_F32, d[0] * d[1]),
         i = loop(k, d[1]), r = red(k, d[0]);

    sink(k,
         store(k, out, i,
               reduce(k, UOP_MAX, load(k, a, at2(k, r, d[1], i)), r, NULL)),
         NULL);
}

static void
build_sum_all(struct lk *k, const int64_t *d)
{
    node out = param(k, UOP_F64, 1), a = param(k, UOP_F64, d[0] * d[1]),
         r = red(k, d[0]), s = red(k, d[1]);

    k->tolerance = 1e-12;
    sink(k,
         store(k, out, num(k, 0),
               reduce(k, UOP_ADD, load(k, a, at2(k, r, d[1], s)), r, s)),
         NULL);
}

static void
build_sum_ints(struct lk *k, const int64_t *d)
{
    node out = param(k, UOP_I32, d[0]), a = param(k, UOP_I8, d[0] * d[1]),
         i = loop(k, d[0]), r = red(k, d[1]), x;

    x = uop_cast(&k->g, load(k, a, at2(k, i, d[1], r)), UOP_I32);
    sink(k, store(k, out, i, reduce(k, UOP_ADD, x, r, NULL)), NULL);
}

static void
build_any(struct lk *k, const int64_t *d)
{
    node out = param(k, UOP_BOOL, d[0]), a = param(k, UOP_I16, d[0] * d[1]),
         i = loop(k, d[0]), r = red(k, d[1]), x;

    x = uop_alu2(&k->g, UOP_CMPEQ, load(k, a, at2(k, i, d[1], r)),
                 uop_const_int(&k->g, UOP_I16, 3));
    sink(k, store(k, out, i, reduce(k, UOP_OR, x, r, NULL)), NULL);
}

/* kind: bit 0 the left operand is transposed, bit 1 the right one */
static void
build_matmul(struct lk *k, const int64_t *d, int kind, enum uop_dtype dtype)
{
    int64_t m = d[0], n = d[1], l = d[2];
    node out = param(k, dtype, m * n), a = param(k, dtype, m * l),
         b = param(k, dtype, l * n), i = loop(k, m), j = loop(k, n),
         r = red(k, l), x, y;

    x = load(k, a, kind & 1 ? at2(k, r, m, i) : at2(k, i, l, r));
    y = load(k, b, kind & 2 ? at2(k, j, l, r) : at2(k, r, n, j));
    k->tolerance = dtype == UOP_F32 ? 1e-5 : dtype == UOP_F64 ? 1e-13 : 0;
    sink(k,
         store(k, out, at2(k, i, n, j),
               reduce(k, UOP_ADD, mul(k, x, y), r, NULL)),
         NULL);
}

/* A product, to which values are added that are loaded elsewhere. */
static void
build_matmul_residual(struct lk *k, const int64_t *d)
{
    int64_t m = d[0], n = d[1], l = d[2];
    node out = param(k, UOP_F32, m * n), a = param(k, UOP_F32, m * l),
         b = param(k, UOP_F32, l * n), c = param(k, UOP_F32, m * n),
         i = loop(k, m), j = loop(k, n), r = red(k, l), x;

    x = mul(k, load(k, a, at2(k, i, l, r)), load(k, b, at2(k, r, n, j)));
    x = reduce(k, UOP_ADD, x, r, NULL);
    k->tolerance = 1e-5;
    sink(k,
         store(k, out, at2(k, i, n, j), add(k, x, load(k, c, at2(k, i, n, j)))),
         NULL);
}

static void
build_matmul_nn(struct lk *k, const int64_t *d)
{
    build_matmul(k, d, 0, UOP_F32);
}

static void
build_matmul_tn(struct lk *k, const int64_t *d)
{
    build_matmul(k, d, 1, UOP_F32);
}

static void
build_matmul_nt(struct lk *k, const int64_t *d)
{
    build_matmul(k, d, 2, UOP_F32);
}

static void
build_matmul_tt(struct lk *k, const int64_t *d)
{
    build_matmul(k, d, 3, UOP_F32);
}

static void
build_matmul_i32(struct lk *k, const int64_t *d)
{
    build_matmul(k, d, 0, UOP_I32);
}

/* relu(a) @ b for a few matrices, b the same for all; the sum times a scale */
static void
build_matmul_batch(struct lk *k, const int64_t *d)
{
    int64_t n_batch = 3, m = d[0], n = d[1], l = d[2];
    node out = param(k, UOP_F32, n_batch * m * n),
         a = param(k, UOP_F32, n_batch * m * l), b = param(k, UOP_F32, l * n),
         s = param(k, UOP_F32, n), c = loop(k, n_batch), i = loop(k, m),
         j = loop(k, n), r = red(k, l), x, y;

    x = load(k, a, at2(k, at2(k, c, m, i), l, r));
    x = uop_alu2(&k->g, UOP_MAX, x, flt(k, 0));
    y = load(k, b, at2(k, r, n, j));
    k->tolerance = 1e-5;
    x = reduce(k, UOP_ADD, mul(k, x, y), r, NULL);
    sink(k,
         store(k, out, at2(k, at2(k, c, m, i), n, j), mul(k, x, load(k, s, j))),
         NULL);
}

/* The left operand has 1 in place of its first column. */
static void
build_matmul_ones(struct lk *k, const int64_t *d)
{
    int64_t m = d[0], n = d[1], l = d[2];
    node out = param(k, UOP_F32, m * n), a = param(k, UOP_F32, m * l),
         b = param(k, UOP_F32, l * n), i = loop(k, m), j = loop(k, n),
         r = red(k, l), src[4] = {a, at2(k, i, l, r), flt(k, 1), NULL}, x;

    src[3] = uop_alu2(&k->g, UOP_CMPLT, num(k, 0), r);
    x = uop_make(&k->g, UOP_LOAD, UOP_F32, 1, (union uop_arg){.bits = 0}, src,
                 4);
    k->tolerance = 1e-5;
    x = reduce(k, UOP_ADD, mul(k, x, load(k, b, at2(k, r, n, j))), r, NULL);
    sink(k, store(k, out, at2(k, i, n, j), x), NULL);
}

/* A matrix product of small dtypes. */
struct product {
    enum uop_dtype a, b, sum, out;
    bool a_turned, b_turned; /* stored column by column */
    double tolerance;
};

static void
build_product(struct lk *k, const int64_t *d, struct product p)
{
    int64_t m = d[0], n = d[1], l = d[2];
    node out = param(k, p.out, m * n), a = param(k, p.a, m * l),
         b = param(k, p.b, l * n), i = loop(k, m), j = loop(k, n),
         r = red(k, l), x, y;

    k->int_max[1] = k->int_max[2] = p.a == UOP_U8 ? 255 : 0;
    k->tolerance = p.tolerance;
    x = load(k, a, p.a_turned ? at2(k, r, m, i) : at2(k, i, l, r));
    y = load(k, b, p.b_turned ? at2(k, j, l, r) : at2(k, r, n, j));
    x = mul(k, uop_cast(&k->g, x, p.sum), uop_cast(&k->g, y, p.sum));
    x = reduce(k, UOP_ADD, x, r, NULL);
    sink(k, store(k, out, at2(k, i, n, j), uop_cast(&k->g, x, p.out)), NULL);
}

#define PRODUCT(name, ...)                                                     \
    static void build_matmul_##name(struct lk *k, const int64_t *d)            \
    {                                                                          \
        build_product(k, d, (struct product){__VA_ARGS__});                    \
    }

PRODUCT(f16, UOP_F16, UOP_F16, UOP_F32, UOP_F16, false, false, 1e-3)
PRODUCT(bf16, UOP_BF16, UOP_BF16, UOP_F32, UOP_BF16, false, true, 1e-2)
PRODUCT(i8, UOP_I8, UOP_I8, UOP_I32, UOP_I32, false, false, 0)
PRODUCT(u8, UOP_U8, UOP_U8, UOP_I32, UOP_I32, false, true, 0)
PRODUCT(ocp8, UOP_F8E4M3, UOP_F8E5M2, UOP_F32, UOP_F32, false, false, 1e-5)
PRODUCT(fnuz8, UOP_F8E5M2Z, UOP_F8E4M3Z, UOP_F32, UOP_F32, false, false, 1e-5)

static void
build_matmul_f64(struct lk *k, const int64_t *d)
{
    build_matmul(k, d, 1, UOP_F64);
}

/* x/(1+|x|) stands for exp: the passes do not care */
static node
squash(struct lk *k, node x)
{
    node neg = uop_alu1(&k->g, UOP_NEG, x);
    node size = uop_alu2(&k->g, UOP_MAX, x, neg);
    return uop_alu2(&k->g, UOP_FDIV, x, add(k, size, flt(k, 1)));
}

/* as the tensor library makes it: 2^((x - max) * log2 e) */
static void
build_softmax(struct lk *k, const int64_t *d)
{
    int64_t n = d[0] * d[1];
    node out = param(k, UOP_F32, n), a = param(k, UOP_F32, n),
         i = loop(k, d[0]), j = loop(k, d[1]), r = red(k, d[1]),
         s = red(k, d[1]), max, sum, x, scale = flt(k, 1.4426950408889634);

    max = reduce(k, UOP_MAX, load(k, a, at2(k, i, d[1], r)), r, NULL);
    x = uop_alu2(&k->g, UOP_SUB, load(k, a, at2(k, i, d[1], s)), max);
    x = uop_alu1(&k->g, UOP_EXP2, mul(k, x, scale));
    sum = reduce(k, UOP_ADD, x, s, NULL);
    x = uop_alu2(&k->g, UOP_SUB, load(k, a, at2(k, i, d[1], j)), max);
    x = uop_alu1(&k->g, UOP_EXP2, mul(k, x, scale));
    k->tolerance = 1e-5;
    sink(k,
         store(k, out, at2(k, i, d[1], j), uop_alu2(&k->g, UOP_FDIV, x, sum)),
         NULL);
}

/* the same with one RANGE node bound twice */
static void
build_softmax_shared(struct lk *k, const int64_t *d)
{
    int64_t n = d[0] * d[1];
    node out = param(k, UOP_F32, n), a = param(k, UOP_F32, n),
         i = loop(k, d[0]), j = loop(k, d[1]), r = red(k, d[1]), max, sum, x;

    x = load(k, a, at2(k, i, d[1], r));
    max = reduce(k, UOP_MAX, x, r, NULL);
    sum = reduce(k, UOP_ADD, squash(k, uop_alu2(&k->g, UOP_SUB, x, max)), r,
                 NULL);
    x = uop_alu2(&k->g, UOP_SUB, load(k, a, at2(k, i, d[1], j)), max);
    k->tolerance = 1e-5;
    sink(k,
         store(k, out, at2(k, i, d[1], j),
               uop_alu2(&k->g, UOP_FDIV, squash(k, x), sum)),
         NULL);
}

/* mean and mean square in one loop, both stored too */
static void
build_moments(struct lk *k, const int64_t *d)
{
    node out0 = param(k, UOP_F32, d[0]), out1 = param(k, UOP_F32, d[0]),
         a = param(k, UOP_F32, d[0] * d[1]), i = loop(k, d[0]),
         r = red(k, d[1]), x = load(k, a, at2(k, i, d[1], r)), mean, square;

    mean = reduce(k, UOP_ADD, x, r, NULL);
    square = reduce(k, UOP_ADD, mul(k, x, x), r, NULL);
    k->tolerance = 1e-5;
    sink(k, store(k, out0, i, mean), store(k, out1, i, add(k, square, mean)));
}

/* the same sums over ranges of their own: as the scheduler makes them */
static void
build_two_sums(struct lk *k, const int64_t *d)
{
    node out = param(k, UOP_F32, d[0]), a = param(k, UOP_F32, d[0] * d[1]),
         i = loop(k, d[0]), r = red(k, d[1]), s = red(k, d[1]), x, sum, square;

    sum = reduce(k, UOP_ADD, load(k, a, at2(k, i, d[1], r)), r, NULL);
    x = load(k, a, at2(k, i, d[1], s));
    square = reduce(k, UOP_ADD, mul(k, x, x), s, NULL);
    k->tolerance = 1e-5;
    sink(k, store(k, out, i, uop_alu2(&k->g, UOP_SUB, square, sum)), NULL);
}

static void
build_layernorm(struct lk *k, const int64_t *d)
{
    int64_t n = d[0] * d[1];
    node out = param(k, UOP_F32, n), a = param(k, UOP_F32, n),
         w = param(k, UOP_F32, d[1]), i = loop(k, d[0]), j = loop(k, d[1]),
         r = red(k, d[1]), s = red(k, d[1]), mean, var, x,
         scale = flt(k, 1.0 / (double)d[1]);

    mean = reduce(k, UOP_ADD, load(k, a, at2(k, i, d[1], r)), r, NULL);
    mean = mul(k, mean, scale);
    x = uop_alu2(&k->g, UOP_SUB, load(k, a, at2(k, i, d[1], s)), mean);
    var = mul(k, reduce(k, UOP_ADD, mul(k, x, x), s, NULL), scale);
    var = uop_alu1(&k->g, UOP_SQRT, add(k, var, flt(k, 1e-5)));
    x = uop_alu2(&k->g, UOP_SUB, load(k, a, at2(k, i, d[1], j)), mean);
    k->tolerance = 2e-5;
    sink(k,
         store(k, out, at2(k, i, d[1], j),
               mul(k, uop_alu2(&k->g, UOP_FDIV, x, var), load(k, w, j))),
         NULL);
}

/* sum_r a[i,r] * max_s b[r,s]: one REDUCE in another's body */
static void
build_nested(struct lk *k, const int64_t *d)
{
    node out = param(k, UOP_F32, d[0]), a = param(k, UOP_F32, d[0] * d[1]),
         b = param(k, UOP_F32, d[1] * d[2]), i = loop(k, d[0]),
         r = red(k, d[1]), s = red(k, d[2]), max;

    max = reduce(k, UOP_MAX, load(k, b, at2(k, r, d[2], s)), s, NULL);
    k->tolerance = 1e-5;
    sink(k,
         store(k, out, i,
               reduce(k, UOP_ADD, mul(k, load(k, a, at2(k, i, d[1], r)), max),
                      r, NULL)),
         NULL);
}

/* 3x3 convolution with padding of (c, h, w) = (d0, d1, d2) */
static void
build_conv_to(struct lk *k, const int64_t *d, int64_t n_out)
{
    int64_t c = d[0], h = d[1], w = d[2];
    node out = param(k, UOP_F32, n_out * h * w),
         a = param(k, UOP_F32, c * h * w), f = param(k, UOP_F32, n_out * c * 9),
         o = loop(k, n_out), y = loop(k, h), x = loop(k, w), ci = red(k, c),
         t = red(k, 9), ky, kx, py, px, gate, in, wt;

    ky = uop_alu2(&k->g, UOP_FLOORDIV, t, num(k, 3));
    kx = uop_alu2(&k->g, UOP_FLOORMOD, t, num(k, 3));
    py = add(k, add(k, y, ky), num(k, -1));
    px = add(k, add(k, x, kx), num(k, -1));
    gate = uop_alu2(&k->g, UOP_AND, within(k, py, 0, h), within(k, px, 0, w));
    in = load_if(k, a, at2(k, at2(k, ci, h, py), w, px), gate);
    wt = load(k, f, at2(k, at2(k, o, c, ci), 9, t));
    k->tolerance = 1e-5;
    sink(k,
         store(k, out, at2(k, at2(k, o, h, y), w, x),
               reduce(k, UOP_ADD, mul(k, in, wt), ci, t)),
         NULL);
}

static void
build_conv(struct lk *k, const int64_t *d)
{
    build_conv_to(k, d, 5);
}

static void
build_conv_wide(struct lk *k, const int64_t *d)
{
    build_conv_to(k, d, 17);
}

/* Three images, of 5 channels, to 8 * d0: columns are many only if those of all
 * rows and images are taken together. */
static void
build_conv_many(struct lk *k, const int64_t *d)
{
    int64_t c = 5, h = d[1], w = d[2], n_out = 8 * d[0];
    node out = param(k, UOP_F32, 3 * n_out * h * w),
         a = param(k, UOP_F32, 3 * c * h * w),
         f = param(k, UOP_F32, n_out * c * 9), i = loop(k, 3),
         o = loop(k, n_out), y = loop(k, h), x = loop(k, w), ci = red(k, c),
         t = red(k, 9), py, px, gate, in, wt;

    py = add(k, y, uop_alu2(&k->g, UOP_FLOORDIV, t, num(k, 3)));
    px = add(k, x, uop_alu2(&k->g, UOP_FLOORMOD, t, num(k, 3)));
    py = add(k, py, num(k, -1));
    px = add(k, px, num(k, -1));
    gate = uop_alu2(&k->g, UOP_AND, within(k, py, 0, h), within(k, px, 0, w));
    in = load_if(k, a, at2(k, at2(k, at2(k, i, c, ci), h, py), w, px), gate);
    wt = load(k, f, at2(k, at2(k, o, c, ci), 9, t));
    k->tolerance = 1e-5;
    sink(k,
         store(k, out, at2(k, at2(k, at2(k, i, n_out, o), h, y), w, x),
               reduce(k, UOP_ADD, mul(k, in, wt), ci, t)),
         NULL);
}

/* rows of a table by loaded number, gated */
static void
build_gather(struct lk *k, const int64_t *d)
{
    node out = param(k, UOP_F32, d[0] * d[1]),
         table = param(k, UOP_F32, 7 * d[1]), which = param(k, UOP_I32, d[0]),
         i = loop(k, d[0]), j = loop(k, d[1]), row;

    k->int_max[2] = 9;
    row = uop_cast(&k->g, load(k, which, i), UOP_I64);
    sink(k,
         store(k, out, at2(k, i, d[1], j),
               load_if(k, table, at2(k, row, d[1], j), within(k, row, 0, 7))),
         NULL);
}

/* pad by 2 left and 3 right, on integers */
static void
build_pad(struct lk *k, const int64_t *d)
{
    int64_t n = d[1] + 5;
    node out = param(k, UOP_U8, d[0] * n), a = param(k, UOP_U8, d[0] * d[1]),
         i = loop(k, d[0]), j = loop(k, n), from = add(k, j, num(k, -2));

    k->int_max[1] = 255;
    sink(k,
         store(k, out, at2(k, i, n, j),
               load_if(k, a, at2(k, i, d[1], from), within(k, from, 0, d[1]))),
         NULL);
}

/* where(i > j, x, -x) as float16, and the index as a value */
static void
build_triangle(struct lk *k, const int64_t *d)
{
    int64_t n = d[0] * d[1];
    node out = param(k, UOP_F16, n), a = param(k, UOP_F16, n),
         i = loop(k, d[0]), j = loop(k, d[1]), x, y;

    x = load(k, a, at2(k, i, d[1], j));
    y = uop_cast(&k->g, add(k, i, j), UOP_F16);
    x = uop_alu3(&k->g, UOP_WHERE, uop_alu2(&k->g, UOP_CMPLT, j, i), x, y);
    sink(k, store(k, out, at2(k, i, d[1], j), x), NULL);
}

/* float16 products summed in float32 */
static void
build_half_dot(struct lk *k, const int64_t *d)
{
    node out = param(k, UOP_BF16, d[0]), a = param(k, UOP_F16, d[0] * d[1]),
         b = param(k, UOP_BF16, d[1]), i = loop(k, d[0]), r = red(k, d[1]), x,
         y;

    x = uop_cast(&k->g, load(k, a, at2(k, i, d[1], r)), UOP_F32);
    y = uop_cast(&k->g, load(k, b, r), UOP_F32);
    k->tolerance = 1e-2;
    sink(k,
         store(k, out, i,
               uop_cast(&k->g, reduce(k, UOP_ADD, mul(k, x, y), r, NULL),
                        UOP_BF16)),
         NULL);
}

/* a matrix by a vector */
static void
build_gemv(struct lk *k, const int64_t *d)
{
    node out = param(k, UOP_F32, d[0]), a = param(k, UOP_F32, d[0] * d[1]),
         b = param(k, UOP_F32, d[1]), i = loop(k, d[0]), r = red(k, d[1]), x;

    x = mul(k, load(k, a, at2(k, i, d[1], r)), load(k, b, r));
    k->tolerance = 1e-4;
    sink(k, store(k, out, i, reduce(k, UOP_ADD, x, r, NULL)), NULL);
}

/* the same by blocks of 32 integers of 4 bits, two to a byte, and a scale */
static void
build_blocks(struct lk *k, const int64_t *d)
{
    int64_t n = d[0] * d[1];
    node out = param(k, UOP_F32, d[0]), scale = param(k, UOP_F16, n),
         q = param(k, UOP_U8, n * 16), x = param(k, UOP_F32, d[1] * 32),
         i = loop(k, d[0]), b = red(k, d[1]), h = red(k, 2), r = red(k, 16),
         value, src[4];
    union uop_arg sum = {.i = UOP_ADD};

    k->int_max[2] = 255;
    value =
        uop_cast(&k->g, load(k, q, at2(k, at2(k, i, d[1], b), 16, r)), UOP_I32);
    value = uop_alu2(&k->g, UOP_SHR, value,
                     uop_cast(&k->g, mul(k, h, num(k, 4)), UOP_I32));
    value = uop_alu2(&k->g, UOP_AND, value, uop_const_int(&k->g, UOP_I32, 15));
    value = add(k, value, uop_const_int(&k->g, UOP_I32, -8));
    value = mul(k, uop_cast(&k->g, load(k, scale, at2(k, i, d[1], b)), UOP_F32),
                uop_cast(&k->g, value, UOP_F32));
    src[0] = mul(k, load(k, x, at2(k, at2(k, b, 2, h), 16, r)), value);
    src[1] = b;
    src[2] = h;
    src[3] = r;
    k->tolerance = 1e-4;
    sink(k,
         store(k, out, i, uop_make(&k->g, UOP_REDUCE, UOP_F32, 1, sum, src, 4)),
         NULL);
}

/* a value computed once a row, and one computed once for all */
static void
build_hoist(struct lk *k, const int64_t *d)
{
    node out = param(k, UOP_F32, d[0] * d[1]), a = param(k, UOP_F32, d[0]),
         b = param(k, UOP_F32, d[2]), i = loop(k, d[0]), j = loop(k, d[1]),
         r = red(k, d[2]), sum, row;

    sum = reduce(k, UOP_ADD, load(k, b, r), r, NULL);
    row = add(k, load(k, a, i), sum);
    k->tolerance = 1e-5;
    sink(k,
         store(k, out, at2(k, i, d[1], j),
               mul(k, row, uop_cast(&k->g, j, UOP_F32))),
         NULL);
}

/* outputs of two shapes: row sums, and the matrix less them */
static void
build_two_shapes(struct lk *k, const int64_t *d)
{
    int64_t n = d[0] * d[1];
    node out0 = param(k, UOP_I32, d[0]), out1 = param(k, UOP_I32, n),
         a = param(k, UOP_I32, n), i = loop(k, d[0]), j = loop(k, d[1]),
         r = red(k, d[1]), sum;

    sum = reduce(k, UOP_ADD, load(k, a, at2(k, i, d[1], r)), r, NULL);
    sink(k, store(k, out0, i, sum),
         store(k, out1, at2(k, i, d[1], j),
               uop_alu2(&k->g, UOP_SUB, load(k, a, at2(k, i, d[1], j)), sum)));
}

/* attention-like: matmul inside a softmax-like reduction over the result */
static void
build_reduce_of_reduce(struct lk *k, const int64_t *d)
{
    node out = param(k, UOP_F32, d[0]), a = param(k, UOP_F32, d[0] * d[2]),
         b = param(k, UOP_F32, d[1] * d[2]), i = loop(k, d[0]),
         r = red(k, d[1]), s = red(k, d[2]), dot;

    dot = reduce(
        k, UOP_ADD,
        mul(k, load(k, a, at2(k, i, d[2], s)), load(k, b, at2(k, r, d[2], s))),
        s, NULL);
    k->tolerance = 1e-5;
    sink(k, store(k, out, i, reduce(k, UOP_MAX, dot, r, NULL)), NULL);
}

/* Sines of angles near and far, and of the sums of their rows. */
static void
build_angles(struct lk *k, const int64_t *d)
{
    int64_t n = d[0] * d[1];
    node out0 = param(k, UOP_F32, d[0]), out1 = param(k, UOP_F32, n),
         a = param(k, UOP_F32, n), i = loop(k, d[0]), j = loop(k, d[1]),
         r = red(k, d[1]), x, y, sum;

    x = load(k, a, at2(k, i, d[1], r));
    x = mul(k, mul(k, x, x), mul(k, x, flt(k, 9000)));
    x = add(k, uop_alu1(&k->g, UOP_SIN, x), uop_alu1(&k->g, UOP_COS, x));
    sum = reduce(k, UOP_ADD, x, r, NULL);
    y = uop_alu1(&k->g, UOP_COS, load(k, a, at2(k, i, d[1], j)));
    k->tolerance = 1e-5;
    sink(k, store(k, out0, i, uop_alu1(&k->g, UOP_SIN, sum)),
         store(k, out1, at2(k, i, d[1], j), y));
}

/* ---- kernels that store over what they load ---- */

static void
build_add_over(struct lk *k, const int64_t *d)
{
    int64_t n = d[0] * d[1];
    node out = param(k, UOP_F32, n), a = param(k, UOP_F32, n),
         i = loop(k, d[0]), j = loop(k, d[1]), at = at2(k, i, d[1], j);

    sink(k, store(k, out, at, add(k, load(k, out, at), load(k, a, at))), NULL);
}

/* Where a gate holds; elsewhere what is stored is 0. */
static void
build_half_over(struct lk *k, const int64_t *d)
{
    int64_t n = d[0] * d[1];
    node out = param(k, UOP_I32, n), i = loop(k, d[0]), j = loop(k, d[1]),
         at = at2(k, i, d[1], j);

    sink(k,
         store(k, out, at,
               load_if(k, out, at, within(k, j, d[1] / 3, d[1] - 1))),
         NULL);
}

/* A parameter and its momentum, both over the old ones. */
static void
build_momentum_over(struct lk *k, const int64_t *d)
{
    int64_t n = d[0] * d[1];
    node m = param(k, UOP_F32, n), p = param(k, UOP_F32, n),
         g = param(k, UOP_F32, n), i = loop(k, n), x;

    x = add(k, mul(k, load(k, m, i), flt(k, 0.5)), load(k, g, i));
    sink(k, store(k, m, i, x),
         store(k, p, i, add(k, load(k, p, i), mul(k, x, flt(k, -0.25)))));
}

/* clang-format off */
const struct lk_case lk_cases[] = {
    {"add", build_add, 2},
    {"flat", build_flat, 2},
    {"scalar", build_scalar, 1},
    {"broadcast", build_broadcast, 2},
    {"transpose", build_transpose, 2},
    {"flip", build_flip, 2},
    {"divmod", build_divmod, 2},
    {"sum-rows", build_sum_rows, 2},
    {"max-cols", build_max_cols, 2},
    {"sum-all", build_sum_all, 2},
    {"sum-ints", build_sum_ints, 2},
    {"any", build_any, 2},
    {"matmul-nn", build_matmul_nn, 3},
    {"matmul-residual", build_matmul_residual, 3},
    {"matmul-tn", build_matmul_tn, 3},
    {"matmul-nt", build_matmul_nt, 3},
    {"matmul-tt", build_matmul_tt, 3},
    {"matmul-i32", build_matmul_i32, 3},
    {"matmul-batch", build_matmul_batch, 3},
    {"matmul-ones", build_matmul_ones, 3},
    {"matmul-f16", build_matmul_f16, 3},
    {"matmul-bf16", build_matmul_bf16, 3},
    {"matmul-f64", build_matmul_f64, 3},
    {"matmul-i8", build_matmul_i8, 3},
    {"matmul-u8", build_matmul_u8, 3},
    {"softmax", build_softmax, 2},
    {"softmax-shared", build_softmax_shared, 2},
    {"moments", build_moments, 2},
    {"two-sums", build_two_sums, 2},
    {"layernorm", build_layernorm, 2},
    {"nested", build_nested, 3},
    {"conv", build_conv, 3},
    {"conv-wide", build_conv_wide, 3},
    {"gather", build_gather, 2},
    {"pad", build_pad, 2},
    {"triangle", build_triangle, 2},
    {"half-dot", build_half_dot, 2},
    {"gemv", build_gemv, 2},
    {"blocks", build_blocks, 2},
    {"hoist", build_hoist, 3},
    {"two-shapes", build_two_shapes, 2},
    {"reduce-of-reduce", build_reduce_of_reduce, 3},
    {"angles", build_angles, 2},
    {"add-over", build_add_over, 2},
    {"half-over", build_half_over, 2},
    {"momentum-over", build_momentum_over, 2},
};
/* clang-format on */
const size_t lk_n_cases = sizeof(lk_cases) / sizeof(lk_cases[0]);

/* Those that are asked for by name only: each of their elements takes the
 * integer arithmetic of many. */
static const struct lk_case slow_cases[] = {
    {"matmul-ocp8", build_matmul_ocp8, 3},
    {"matmul-fnuz8", build_matmul_fnuz8, 3},
    {"conv-many", build_conv_many, 3},
};

/* ---- buffers ---- */

static void
fill(const struct lk *k, size_t b, uint64_t *state)
{
    const struct p_buf *buf = &k->bufs[b];
    size_t i;

    for (i = 0; i < buf->n_elems; i++) {
        uint64_t r = lk_random(state);
        union uop_arg x = {.bits = 0};
        if (uop_dtype_infos[buf->dtype].is_float)
            x.f = uop_round_float(buf->dtype,
                                  (double)(int64_t)(r % 4001) / 1000.0 - 2);
        else if (buf->dtype == UOP_BOOL)
            x.i = (int64_t)(r & 1);
        else if (k->int_max[b])
            x.i = (int64_t)(r % (uint64_t)(k->int_max[b] + 1));
        else
            x.i = (int64_t)(r % 9) - 4;
        p_set(buf, i, x);
    }
}

const struct lk_case *
lk_find(const char *name)
{
    size_t i;

    for (i = 0; i < lk_n_cases; i++) {
        if (!strcmp(lk_cases[i].name, name))
            return &lk_cases[i];
    }
    for (i = 0; i < sizeof(slow_cases) / sizeof(slow_cases[0]); i++) {
        if (!strcmp(slow_cases[i].name, name))
            return &slow_cases[i];
    }
    fprintf(stderr, "no kernel '%s'\n", name);
    abort();
}

void
lk_build(struct lk *k, const struct lk_case *c, const int64_t *d)
{
    memset(k, 0, sizeof(*k));
    uop_graph_init(&k->g);
    c->build(k, d);
}

void
lk_init(struct lk *k, const struct lk_case *c, const int64_t *d, uint64_t seed)
{
    size_t b;

    lk_build(k, c, d);
    for (b = 0; b < k->n_bufs; b++) {
        size_t size = uop_dtype_infos[k->bufs[b].dtype].size_bytes;
        k->bufs[b].data = calloc(k->bufs[b].n_elems + 1, size);
        if (!k->bufs[b].data)
            abort();
        fill(k, b, &seed);
    }
}

void
lk_fini(struct lk *k)
{
    size_t b;

    for (b = 0; b < k->n_bufs; b++)
        free(k->bufs[b].data);
    uop_graph_fini(&k->g);
}

void
lk_copy_bufs(const struct lk *k, struct p_buf *out)
{
    size_t b;

    for (b = 0; b < k->n_bufs; b++) {
        size_t size = uop_dtype_infos[k->bufs[b].dtype].size_bytes;
        out[b] = k->bufs[b];
        if (!k->is_output[b])
            continue;
        out[b].data = calloc(out[b].n_elems + 1, size);
        if (!out[b].data)
            abort();
        if (k->is_input[b])
            memcpy(out[b].data, k->bufs[b].data, out[b].n_elems * size);
        else
            memset(out[b].data, 0x55, out[b].n_elems * size);
    }
}

void
lk_free_copy(const struct lk *k, struct p_buf *copy)
{
    size_t b;

    for (b = 0; b < k->n_bufs; b++) {
        if (k->is_output[b])
            free(copy[b].data);
    }
}

static int
differ(const struct lk *k, const struct p_buf *buf, union uop_arg a,
       union uop_arg b)
{
    double scale;

    if (!uop_dtype_infos[buf->dtype].is_float)
        return a.i != b.i;
    if (a.f == b.f || (isnan(a.f) && isnan(b.f)))
        return 0;
    scale = fabs(a.f) > 1 ? fabs(a.f) : 1;
    /* sums of terms of size up to 4: the error follows the terms */
    return !(fabs(a.f - b.f) <= k->tolerance * scale * 8);
}

int
lk_compare(const struct lk *k, const struct p_buf *want,
           const struct p_buf *got, char *err, size_t err_bytes)
{
    size_t b, i;

    for (b = 0; b < k->n_bufs; b++) {
        for (i = 0; k->is_output[b] && i < want[b].n_elems; i++) {
            union uop_arg x, y;
            p_get(&want[b], i, &x);
            p_get(&got[b], i, &y);
            if (!differ(k, &want[b], x, y))
                continue;
            if (uop_dtype_infos[want[b].dtype].is_float)
                snprintf(err, err_bytes, "argument %zu[%zu]: %.9g, not %.9g", b,
                         i, y.f, x.f);
            else
                snprintf(err, err_bytes, "argument %zu[%zu]: %lld, not %lld", b,
                         i, (long long)y.i, (long long)x.i);
            return -1;
        }
    }
    return 0;
}
