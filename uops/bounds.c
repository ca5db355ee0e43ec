/* Value ranges of integer nodes, from those of their sources.
 *
 * Sound, not tight: every value a node can have is inside, also where the
 * arithmetic wraps (then the range is that of the dtype). U64 values above
 * INT64_MAX count as INT64_MAX, so a U64 range that ends there is open.
 */
#include "uops/uop.h"

#include <assert.h>

#include "uops/uops_internal.h"

#include "base/bits.h"

#define ANY_INT64                                                              \
    {                                                                          \
        INT64_MIN, INT64_MAX                                                   \
    }

static const struct uop_bounds dtype_bounds[UOP_DTYPE_COUNT] = {
    [UOP_VOID] = ANY_INT64,
    [UOP_BOOL] = {0, 1},
    [UOP_I8] = {INT8_MIN, INT8_MAX},
    [UOP_U8] = {0, UINT8_MAX},
    [UOP_I16] = {INT16_MIN, INT16_MAX},
    [UOP_U16] = {0, UINT16_MAX},
    [UOP_I32] = {INT32_MIN, INT32_MAX},
    [UOP_U32] = {0, UINT32_MAX},
    [UOP_I64] = ANY_INT64,
    [UOP_U64] = {0, INT64_MAX},
    [UOP_F16] = ANY_INT64,
    [UOP_BF16] = ANY_INT64,
    [UOP_F32] = ANY_INT64,
    [UOP_F64] = ANY_INT64,
    [UOP_F8E4M3] = ANY_INT64,
    [UOP_F8E5M2] = ANY_INT64,
    [UOP_F8E4M3Z] = ANY_INT64,
    [UOP_F8E5M2Z] = ANY_INT64,
};

struct uop_bounds
uop_dtype_bounds(enum uop_dtype dtype)
{
    return dtype_bounds[dtype];
}

/* lo..hi, or the dtype's range where that does not hold it. */
static struct uop_bounds
fit(enum uop_dtype dtype, int64_t lo, int64_t hi)
{
    struct uop_bounds all = dtype_bounds[dtype];
    struct uop_bounds b = {lo, hi};

    assert(lo <= hi);
    return lo < all.min || hi > all.max ? all : b;
}

/* The smallest range that holds both. */
static struct uop_bounds
join_bounds(struct uop_bounds a, struct uop_bounds b)
{
    struct uop_bounds r = {a.min < b.min ? a.min : b.min,
                           a.max > b.max ? a.max : b.max};
    return r;
}

/* True where the range says less than its numbers: U64 that may be above
 * INT64_MAX. */
static bool
is_open_bound(enum uop_dtype dtype, struct uop_bounds b)
{
    return dtype == UOP_U64 && b.max == INT64_MAX;
}

static struct uop_bounds
bounds_add(enum uop_dtype dtype, struct uop_bounds a, struct uop_bounds b)
{
    int64_t lo, hi;

    if (__builtin_add_overflow(a.min, b.min, &lo) ||
        __builtin_add_overflow(a.max, b.max, &hi))
        return dtype_bounds[dtype];
    return fit(dtype, lo, hi);
}

static struct uop_bounds
bounds_sub(enum uop_dtype dtype, struct uop_bounds a, struct uop_bounds b)
{
    int64_t lo, hi;

    if (__builtin_sub_overflow(a.min, b.max, &lo) ||
        __builtin_sub_overflow(a.max, b.min, &hi))
        return dtype_bounds[dtype];
    return fit(dtype, lo, hi);
}

/* The extremes of a product are at the corners of the two ranges. */
static struct uop_bounds
bounds_mul(enum uop_dtype dtype, struct uop_bounds a, struct uop_bounds b)
{
    int64_t p[4], lo, hi;
    int i;

    if (__builtin_mul_overflow(a.min, b.min, &p[0]) ||
        __builtin_mul_overflow(a.min, b.max, &p[1]) ||
        __builtin_mul_overflow(a.max, b.min, &p[2]) ||
        __builtin_mul_overflow(a.max, b.max, &p[3]))
        return dtype_bounds[dtype];
    lo = hi = p[0];
    for (i = 1; i < 4; i++) {
        lo = p[i] < lo ? p[i] : lo;
        hi = p[i] > hi ? p[i] : hi;
    }
    return fit(dtype, lo, hi);
}

/* Division by a value of one sign: the extremes are at the corners, because
 * either rounding is monotone in both operands while the signs stay. */
static struct uop_bounds
bounds_div(enum uop_op op, enum uop_dtype dtype, struct uop_bounds a,
           struct uop_bounds b)
{
    int64_t num[2] = {a.min, a.max}, den[2] = {b.min, b.max};
    int64_t lo = INT64_MAX, hi = INT64_MIN, q;
    int i, k;

    assert(op == UOP_IDIV || op == UOP_FLOORDIV);
    assert(a.min <= a.max && b.min <= b.max);
    if ((b.min <= 0 && b.max >= 0) || (a.min == INT64_MIN && b.max < 0))
        return dtype_bounds[dtype];
    for (i = 0; i < 2; i++) {
        for (k = 0; k < 2; k++) {
            q = op == UOP_IDIV ? num[i] / den[k] : floor_div(num[i], den[k]);
            lo = q < lo ? q : lo;
            hi = q > hi ? q : hi;
        }
    }
    /* quotients of 0 lie between where the numerator changes sign */
    return fit(dtype, lo, hi);
}

/* Within one period of a positive constant the remainder runs along with the
 * numerator. Else only its size is known: a C remainder has the numerator's
 * sign, a floored one the denominator's. */
static struct uop_bounds
bounds_mod(enum uop_op op, enum uop_dtype dtype, struct uop_bounds a,
           struct uop_bounds b)
{
    struct uop_bounds r;

    assert(op == UOP_IMOD || op == UOP_FLOORMOD);
    assert(a.min <= a.max && b.min <= b.max);
    if (b.min == b.max && b.min > 0 && (op == UOP_FLOORMOD || a.min >= 0) &&
        floor_div(a.min, b.min) == floor_div(a.max, b.min)) {
        r.min = floor_mod(a.min, b.min);
        r.max = floor_mod(a.max, b.min);
        return r;
    }
    if (b.min < 0)
        return dtype_bounds[dtype];
    r.max = b.max > 0 ? b.max - 1 : 0;
    r.min = op == UOP_IMOD && a.min < 0 ? -r.max : 0;
    if (a.min >= 0 && a.max < r.max)
        r.max = a.max;
    if (op == UOP_IMOD && a.max < 0)
        r.max = 0;
    return r;
}

/* Counts outside of the dtype's bits give whatever the device gives; of a
 * value that is not below zero a shift to the right stays between 0 and itself
 * all the same. */
static struct uop_bounds
bounds_shift(enum uop_op op, enum uop_dtype dtype, struct uop_bounds a,
             struct uop_bounds b)
{
    int bits = dtype == UOP_BOOL ? 1 : uop_dtype_infos[dtype].size_bytes * 8;
    struct uop_bounds pow;

    assert(op == UOP_SHL || op == UOP_SHR);
    if (b.min < 0 || b.max >= bits) {
        struct uop_bounds r = {0, a.max};
        return op == UOP_SHR && a.min >= 0 ? r : dtype_bounds[dtype];
    }
    if (op == UOP_SHR) {
        struct uop_bounds r = {a.min >> (a.min < 0 ? b.min : b.max),
                               a.max >> (a.max < 0 ? b.max : b.min)};
        return r;
    }
    if (b.max > 62)
        return dtype_bounds[dtype];
    pow.min = (int64_t)1 << b.min;
    pow.max = (int64_t)1 << b.max;
    return bounds_mul(dtype, a, pow);
}

/* All ones up to the highest bit of a non-negative value. */
static int64_t
fill_bits(int64_t x)
{
    return x ? (int64_t)(UINT64_MAX >> __builtin_clzll((uint64_t)x)) : 0;
}

/* AND with what is not below zero is not below zero, and no larger. OR and XOR
 * stay below the next power of two. */
static struct uop_bounds
bounds_bits(enum uop_op op, enum uop_dtype dtype, struct uop_bounds a,
            struct uop_bounds b)
{
    struct uop_bounds r = {0, 0};

    assert(op == UOP_AND || op == UOP_OR || op == UOP_XOR);
    if (op == UOP_AND && (a.min >= 0 || b.min >= 0)) {
        if (a.min < 0)
            r.max = b.max;
        else if (b.min < 0)
            r.max = a.max;
        else
            r.max = a.max < b.max ? a.max : b.max;
        return r;
    }
    if (op == UOP_AND || a.min < 0 || b.min < 0)
        return dtype_bounds[dtype];
    if (op == UOP_OR)
        r.min = a.min > b.min ? a.min : b.min;
    r.max = fill_bits(a.max > b.max ? a.max : b.max);
    return fit(dtype, r.min, r.max);
}

/* Truth values are 0 and 1, and ADD and MUL on them are OR and AND. */
static struct uop_bounds
bounds_bool(enum uop_op op, struct uop_bounds a, struct uop_bounds b)
{
    struct uop_bounds any = {0, 1};
    struct uop_bounds r_or = {a.min | b.min, a.max | b.max};
    struct uop_bounds r_and = {a.min & b.min, a.max & b.max};
    struct uop_bounds r_xor = {a.min ^ b.min, a.min ^ b.min};
    bool fixed = a.min == a.max && b.min == b.max;

    if (op == UOP_OR || op == UOP_ADD || op == UOP_MAX)
        return r_or;
    if (op == UOP_AND || op == UOP_MUL || op == UOP_MIN)
        return r_and;
    if ((op == UOP_XOR || op == UOP_SUB) && fixed)
        return r_xor;
    return any;
}

/* Decided where the ranges are apart, or where both sides are the same node,
 * which no integer is unequal to. Floats are never decided: a NaN is not equal
 * to itself. */
static struct uop_bounds
bounds_cmp(const struct uop_graph *g, const struct uop *u)
{
    const struct uop *x = u->src[0], *y = u->src[1];
    struct uop_bounds a, b, no = {0, 0}, yes = {1, 1}, any = {0, 1};
    enum uop_dtype dtype = x->dtype;

    assert(u->n_src == 2);
    if (uop_is_float(x) || dtype == UOP_VOID)
        return any;
    a = uop_bounds(g, x);
    b = uop_bounds(g, y);
    if (u->op == UOP_CMPLT) {
        if (a.max < b.min)
            return yes;
        if (x == y || (a.min >= b.max && !is_open_bound(dtype, b)))
            return no;
        return any;
    }
    if (a.max < b.min || b.max < a.min)
        return u->op == UOP_CMPEQ ? no : yes;
    if (x == y ||
        (a.min == a.max && b.min == b.max && !is_open_bound(dtype, a)))
        return u->op == UOP_CMPEQ ? yes : no;
    return any;
}

/* Floats may become anything. An open range says nothing of what another dtype
 * makes of it. */
static struct uop_bounds
bounds_cast(const struct uop_graph *g, const struct uop *u)
{
    enum uop_dtype dtype = u->dtype;
    struct uop_bounds a, no = {0, 0}, yes = {1, 1};
    enum uop_dtype from = u->src[0]->dtype;

    assert(u->n_src == 1);
    if (uop_is_float(u->src[0]) || from == UOP_VOID)
        return dtype_bounds[dtype];
    a = uop_bounds(g, u->src[0]);
    if (dtype == UOP_BOOL) {
        if (a.min > 0 || a.max < 0)
            return yes;
        return a.min == 0 && a.max == 0 ? no : dtype_bounds[UOP_BOOL];
    }
    if (is_open_bound(from, a) && dtype != UOP_U64)
        return dtype_bounds[dtype];
    return fit(dtype, a.min, a.max);
}

/* Is the node op(x, constant)? *out_c is the constant then. */
static bool
is_op_const(const struct uop *u, enum uop_op op, int64_t *out_c)
{
    if (u->op != op || u->src[1]->op != UOP_CONST)
        return false;
    *out_c = u->src[1]->arg.i;
    return true;
}

/* x - (x * m >> s) * c, x in `x`: the remainder of x by c where the product and
 * the shift divide (lower/decompose/decompose_int.c), which is so where e = m c
 * - 2^s >= 0 and x e < 2^s. */
static bool
is_remainder(const struct uop *u, struct uop_bounds x, int64_t *out_c)
{
    const struct uop *q = u->src[1];
    int64_t m, s, e, most;

    if (u->op != UOP_SUB || !is_op_const(q, UOP_MUL, out_c) || *out_c < 1)
        return false;
    q = q->src[0];
    if (!is_op_const(q, UOP_SHR, &s) || s < 0 || s > 31 ||
        !is_op_const(q->src[0], UOP_MUL, &m) || m < 1 ||
        q->src[0]->src[0] != u->src[0] || x.min < 0 ||
        __builtin_mul_overflow(x.max, m, &most) ||
        most > dtype_bounds[u->dtype].max ||
        __builtin_mul_overflow(m, *out_c, &e))
        return false;
    e -= INT64_C(1) << s;
    return e >= 0 && !__builtin_mul_overflow(x.max, e, &most) &&
           most < INT64_C(1) << s;
}

static struct uop_bounds
bounds_binary(const struct uop_graph *g, const struct uop *u)
{
    int64_t c;

    enum uop_dtype dtype = u->dtype;
    struct uop_bounds a = uop_bounds(g, u->src[0]);
    struct uop_bounds b = uop_bounds(g, u->src[1]), r;

    assert(u->n_src == 2);
    if (dtype == UOP_BOOL)
        return bounds_bool(u->op, a, b);
    switch (u->op) {
    case UOP_MAX:
        r.min = a.min > b.min ? a.min : b.min;
        r.max = a.max > b.max ? a.max : b.max;
        return r;
    case UOP_MIN:
        r.min = a.min < b.min ? a.min : b.min;
        r.max = a.max < b.max ? a.max : b.max;
        return r;
    case UOP_AND:
        if (u->dtype == UOP_U64)
            break; /* a clamped bound still bounds it from above */
        /* fall through */
    default:
        if (is_open_bound(dtype, a) || is_open_bound(dtype, b))
            return dtype_bounds[dtype];
        break;
    }
    switch (u->op) {
    case UOP_ADD:
        return bounds_add(dtype, a, b);
    case UOP_SUB:
        if (is_remainder(u, a, &c))
            return (struct uop_bounds){0, c - 1};
        return bounds_sub(dtype, a, b);
    case UOP_MUL:
        return bounds_mul(dtype, a, b);
    case UOP_IDIV:
    case UOP_FLOORDIV:
        return bounds_div(u->op, dtype, a, b);
    case UOP_IMOD:
    case UOP_FLOORMOD:
        return bounds_mod(u->op, dtype, a, b);
    case UOP_SHL:
    case UOP_SHR:
        return bounds_shift(u->op, dtype, a, b);
    case UOP_AND:
    case UOP_OR:
    case UOP_XOR:
        return bounds_bits(u->op, dtype, a, b);
    default:
        return dtype_bounds[dtype];
    }
}

/* Above INT64_MAX the value of a U64 is clamped, and its range is open. */
static struct uop_bounds
bounds_const(const struct uop *u)
{
    struct uop_bounds b = {u->arg.i, u->arg.i};

    if (u->dtype == UOP_U64 && u->arg.i < 0)
        b.min = b.max = INT64_MAX;
    return b;
}

/* 0..n-1 where n is the value of `extent`. */
static struct uop_bounds
bounds_below(const struct uop_graph *g, const struct uop *extent)
{
    struct uop_bounds r = {0, uop_bounds(g, extent).max};

    r.max = r.max > 0 ? r.max - 1 : 0;
    return r;
}

static struct uop_bounds
bounds_lanes(const struct uop_graph *g, const struct uop *u)
{
    struct uop_bounds r = uop_bounds(g, u->src[0]);
    uint32_t i;

    assert(u->n_src > 0);
    for (i = 1; i < u->n_src; i++)
        r = join_bounds(r, uop_bounds(g, u->src[i]));
    return r;
}

/* WHERE, with one branch where the condition is known, and MULACC. */
static struct uop_bounds
bounds_ternary(const struct uop_graph *g, const struct uop *u)
{
    enum uop_dtype dtype = u->dtype;
    struct uop_bounds a = uop_bounds(g, u->src[0]);
    struct uop_bounds b = uop_bounds(g, u->src[1]);
    struct uop_bounds c = uop_bounds(g, u->src[2]);

    assert(u->n_src == 3);
    if (u->op == UOP_WHERE) {
        if (a.min == a.max)
            return a.min ? b : c;
        return join_bounds(b, c);
    }
    if (dtype == UOP_BOOL || dtype == UOP_U64)
        return dtype_bounds[dtype];
    return bounds_add(dtype, bounds_mul(dtype, a, b), c);
}

/* Movement passes values on; PAD adds zeros, and so does GATHER for an index
 * that is out of range. */
static struct uop_bounds
bounds_other(const struct uop_graph *g, const struct uop *u)
{
    struct uop_bounds zero = {0, 0};

    switch (u->op) {
    case UOP_CONST:
        return bounds_const(u);
    case UOP_VAR:
        if (u->n_src < 2)
            return dtype_bounds[u->dtype];
        return fit(u->dtype, uop_bounds(g, u->src[0]).min,
                   uop_bounds(g, u->src[1]).max);
    case UOP_RANGE:
    case UOP_SPECIAL:
        return bounds_below(g, u->src[0]);
    case UOP_RAMP:
        return fit(u->dtype, 0, u->lanes - 1);
    case UOP_IOTA:
        return fit(u->dtype, 0, u->arg.i > 0 ? u->arg.i - 1 : 0);
    case UOP_BROADCAST:
    case UOP_LANE:
    case UOP_RESHAPE:
    case UOP_PERMUTE:
    case UOP_EXPAND:
    case UOP_SHRINK:
    case UOP_FLIP:
    case UOP_SORT_AXIS:
    case UOP_CONTIGUOUS:
    case UOP_DETACH:
    case UOP_LAYOUT:
        return uop_bounds(g, u->src[0]);
    case UOP_ASSIGN:
        return uop_bounds(g, u->src[1]);
    case UOP_PAD:
    case UOP_GATHER:
        return join_bounds(uop_bounds(g, u->src[0]), zero);
    case UOP_LANES:
        return bounds_lanes(g, u);
    default:
        return dtype_bounds[u->dtype];
    }
}

struct uop_bounds
uop_compute_bounds(const struct uop_graph *g, const struct uop *u)
{
    const struct uop_op_info *info = &uop_op_infos[u->op];

    if (uop_dtype_infos[u->dtype].is_float || u->dtype == UOP_VOID)
        return dtype_bounds[u->dtype];
    if (u->op == UOP_CAST && u->n_src == 1)
        return bounds_cast(g, u);
    if (!(info->flags & UOP_FLAG_ALU)) {
        if (u->n_src < info->min_src)
            return dtype_bounds[u->dtype];
        return bounds_other(g, u);
    }
    if (u->n_src != info->min_src)
        return dtype_bounds[u->dtype];
    if (info->flags & UOP_FLAG_CMP)
        return bounds_cmp(g, u);
    if (u->n_src == 2)
        return bounds_binary(g, u);
    if (u->n_src == 3)
        return bounds_ternary(g, u);
    if (u->op == UOP_NEG && u->dtype != UOP_BOOL) {
        struct uop_bounds zero = {0, 0};
        return bounds_sub(u->dtype, zero, uop_bounds(g, u->src[0]));
    }
    return dtype_bounds[u->dtype];
}
