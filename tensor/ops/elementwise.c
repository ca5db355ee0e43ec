/* Elementwise calls with two and three operands. */
#include "tensor/ops/elementwise.h"

#include <assert.h>
#include <math.h>

#include "tensor/core/rules.h"

/* ---- operands and results ---- */

static bool
fail_shapes(const char *call, struct bell_tensor *const *tensors, uint32_t n,
            struct bell_tensor **out)
{
    if (n == 2)
        *out = tensor_fail(tensor_at(tensors[0])->ctx, call, BELL_BAD_SHAPE,
                           "shapes %s and %s do not broadcast",
                           SHAPE_OF(tensors[0]), SHAPE_OF(tensors[1]));
    else
        *out = tensor_fail(tensor_at(tensors[0])->ctx, call, BELL_BAD_SHAPE,
                           "shapes %s, %s and %s do not broadcast",
                           SHAPE_OF(tensors[0]), SHAPE_OF(tensors[1]),
                           SHAPE_OF(tensors[2]));
    return false;
}

/* The dtype that a call of this kind computes in; UOP_VOID if it refuses. */
static enum uop_dtype
apply_kind(enum tensor_kind kind, enum uop_dtype dtype, bool weak)
{
    bool is_float = uop_dtype_infos[dtype].is_float;

    assert(dtype < UOP_DTYPE_COUNT);
    if (kind == TENSOR_FLOAT && !is_float)
        return weak ? UOP_F64 : UOP_F32;
    if (uop_dtype_is_f8(dtype) && kind != TENSOR_INT)
        return UOP_F32;
    if ((kind == TENSOR_INT && is_float) ||
        (kind == TENSOR_NO_BOOL && dtype == UOP_BOOL))
        return UOP_VOID;
    return dtype;
}

static struct bell_tensor *
fail_kind(const char *call, struct bell_context *ctx, enum tensor_kind kind,
          enum uop_dtype dtype)
{
    return tensor_fail(ctx, call, BELL_BAD_DTYPE,
                       kind == TENSOR_INT ? "on %s; integers and bool only"
                                          : "on %s; no meaning for it",
                       uop_dtype_infos[dtype].name);
}

/* Asked before dtypes are: a caller who got both wrong hears of the shapes. */
static bool
broadcasts(struct bell_tensor *const *tensors, uint32_t n)
{
    const struct uop_dims *shapes[3];
    int64_t d[TN_MAX_RANK];
    uint32_t rank, i;

    for (i = 0; i < n; i++)
        shapes[i] = tensor_at(tensors[i])->shape;
    return tn_broadcast_shape(shapes, n, d, &rank);
}

/* Operands of float functions are computed in F32 where they are smaller;
 * tensor_result rounds once, at the end. */
bool
tensor_operands(const char *call, struct bell_tensor *const *tensors,
                uint32_t n, enum tensor_kind kind,
                struct tensor_operands *out_ops, struct bell_tensor **out)
{
    struct bell_context *ctx;
    enum uop_dtype dtype, promoted;
    uint32_t i;

    assert(n >= 1 && n <= 3);
    if (!tensor_takes_n(call, tensors, n, out))
        return false;
    ctx = tensor_at(tensors[0])->ctx;
    if (!broadcasts(tensors, n))
        return fail_shapes(call, tensors, n, out);
    promoted = tensor_result_dtype(tensors, n, &out_ops->weak);
    dtype = apply_kind(kind, promoted, out_ops->weak);
    if (dtype == UOP_VOID) {
        *out = fail_kind(call, ctx, kind, promoted);
        return false;
    }
    out_ops->ctx = ctx;
    out_ops->dtype = dtype;
    for (i = 0; i < n; i++) {
        out_ops->u[i] = tn_cast(ctx, tensor_at(tensors[i])->uop, dtype);
        if (kind == TENSOR_FLOAT)
            out_ops->u[i] = tn_widen(ctx, out_ops->u[i]);
    }
    return true;
}

/* Halves are computed in F32 where there is more than one op: tensor_result
 * rounds. */
static void
widen_operands(struct tensor_operands *ops, uint32_t n)
{
    uint32_t i;

    for (i = 0; i < n; i++)
        ops->u[i] = tn_widen(ops->ctx, ops->u[i]);
}

/* Whether t is a number of the caller that is not 0 and none of a small float
 * dtype's normal numbers. */
static bool
is_beyond(const struct bell_tensor *t, enum uop_dtype dtype)
{
    const struct uop *c = tn_peel(tensor_at(t)->uop);
    bool is_f16 = dtype == UOP_F16;
    double v;

    if (!c || !(tensor_at(t)->flags & TENSOR_WEAK))
        return false;
    v = fabs(tn_is_float(c) ? c->arg.f : (double)c->arg.i);
    return v > 0 && v < (double)INFINITY &&
           (v < (is_f16 ? 0x1p-14 : 0x1p-126) ||
            v >= (is_f16 ? 65520.0 : 0x1.ffp127));
}

/* Factors, divisors and bases that the result's halves cannot hold stay what
 * they are, in float32: 0 * 70000 is 0 then, and not 0 * inf. */
static void
keep_numbers(struct tensor_operands *ops, struct bell_tensor *const *both)
{
    uint32_t i;

    if (!uop_dtype_is_small(ops->dtype) ||
        (!is_beyond(both[0], ops->dtype) && !is_beyond(both[1], ops->dtype)))
        return;
    for (i = 0; i < 2; i++)
        ops->u[i] = is_beyond(both[i], ops->dtype)
                        ? tn_cast(ops->ctx, tensor_at(both[i])->uop, UOP_F32)
                        : tn_widen(ops->ctx, ops->u[i]);
}

struct bell_tensor *
tensor_result(const char *call, const struct tensor_operands *ops,
              const struct uop *u)
{
    struct bell_tensor *t;

    assert(tn_bad(u) || u->dtype < UOP_DTYPE_COUNT);
    if (!tn_bad(u) && u->dtype == UOP_F32)
        u = tn_cast(ops->ctx, u, ops->dtype);
    t = tensor_new(ops->ctx, call, u);
    if (ops->weak && !(tensor_at(t)->flags & TENSOR_ERROR) &&
        (tensor_at(t)->dtype == UOP_F64 || tensor_at(t)->dtype == UOP_I64))
        tensor_at(t)->flags |= TENSOR_WEAK;
    return t;
}

struct bell_tensor *
tensor_unary(const char *call, struct bell_tensor *x, enum tensor_kind kind,
             tn_unary_fn *build)
{
    struct tensor_operands ops;
    struct bell_tensor *out;

    if (!tensor_operands(call, &x, 1, kind, &ops, &out))
        return out;
    return tensor_result(call, &ops, build(ops.ctx, ops.u[0]));
}

struct bell_tensor *
tensor_binary(const char *call, struct bell_tensor *x, struct bell_tensor *y,
              enum tensor_kind kind, tn_binary_fn *build)
{
    struct bell_tensor *both[2] = {x, y}, *out;
    struct tensor_operands ops;

    if (!tensor_operands(call, both, 2, kind, &ops, &out))
        return out;
    return tensor_result(call, &ops, build(ops.ctx, ops.u[0], ops.u[1]));
}

/* One op. The common case, equal shapes and dtypes, is short. */
static struct bell_tensor *
binary_op(const char *call, struct bell_tensor *x, struct bell_tensor *y,
          enum tensor_kind kind, enum uop_op op)
{
    struct bell_tensor *both[2] = {x, y}, *out;
    struct tensor_operands ops;

    if (!tensor_takes2(call, x, y, &out))
        return out;
    if (tensor_at(x)->shape == tensor_at(y)->shape &&
        tensor_at(x)->dtype == tensor_at(y)->dtype &&
        !((tensor_at(x)->flags | tensor_at(y)->flags) & TENSOR_WEAK) &&
        apply_kind(kind, tensor_at(x)->dtype, false) == tensor_at(x)->dtype)
        return tensor_new(tensor_at(x)->ctx, call,
                          tn_alu2(tensor_at(x)->ctx, op, tensor_at(x)->uop,
                                  tensor_at(y)->uop));
    if (!tensor_operands(call, both, 2, kind, &ops, &out))
        return out;
    if (op == UOP_MUL || op == UOP_FDIV)
        keep_numbers(&ops, both);
    return tensor_result(call, &ops, tn_alu2(ops.ctx, op, ops.u[0], ops.u[1]));
}

#define BINARY_OP(name, kind, op)                                              \
    struct bell_tensor *name(struct bell_tensor *x, struct bell_tensor *y)     \
    {                                                                          \
        return binary_op(__func__, x, y, kind, op);                            \
    }

/* ---- arithmetic ---- */

BINARY_OP(bell_add, TENSOR_ANY, UOP_ADD)
BINARY_OP(bell_sub, TENSOR_NO_BOOL, UOP_SUB)
BINARY_OP(bell_mul, TENSOR_ANY, UOP_MUL)
BINARY_OP(bell_div, TENSOR_FLOAT, UOP_FDIV)

/* The sign is y's bit, also where y is -0; so it is for the gradient. */
static const struct uop *
copy_sign(struct bell_context *ctx, const struct uop *x, const struct uop *y)
{
    enum uop_dtype dtype = x->dtype;
    size_t size = uop_dtype_infos[dtype].size_bytes;
    enum uop_dtype bits_type = size == 8   ? UOP_U64
                               : size == 4 ? UOP_U32
                                           : UOP_U16;
    const struct uop *bits, *abs, *y_sign;
    int64_t sign;

    if (tn_bad(x))
        return x;
    assert(tn_is_float(x));
    sign = (int64_t)(1ull << (size * 8 - 1));
    y_sign = tn_and(ctx, tn_bitcast(ctx, y, bits_type),
                    tn_int(ctx, bits_type, sign));
    bits = tn_or(ctx,
                 tn_and(ctx, tn_bitcast(ctx, x, bits_type),
                        tn_int(ctx, bits_type, ~sign)),
                 y_sign);
    abs = tn_abs(ctx, x);
    return tensor_surrogate(
        ctx, tn_bitcast(ctx, bits, dtype),
        tn_where(ctx, tn_eq(ctx, y_sign, tn_int(ctx, bits_type, 0)), abs,
                 tn_neg(ctx, abs)));
}

static const struct uop *
floor_divide(struct bell_context *ctx, const struct uop *x, const struct uop *y)
{
    return tn_alu2(ctx, tn_is_float(x) ? UOP_FFLOORDIV : UOP_FLOORDIV, x, y);
}

/* tensor_binary, where numbers of the caller are kept. */
static struct bell_tensor *
binary_of_numbers(const char *call, struct bell_tensor *x,
                  struct bell_tensor *y, tn_binary_fn *build)
{
    struct bell_tensor *both[2] = {x, y}, *out;
    struct tensor_operands ops;

    if (!tensor_operands(call, both, 2, TENSOR_NO_BOOL, &ops, &out))
        return out;
    keep_numbers(&ops, both);
    return tensor_result(call, &ops, build(ops.ctx, ops.u[0], ops.u[1]));
}

struct bell_tensor *
bell_floor_divide(struct bell_tensor *x, struct bell_tensor *y)
{
    return binary_of_numbers(__func__, x, y, floor_divide);
}

/* Integers divide by an op of their own: through floats, those above 2^53
 * would be rounded. For floats the quotient of magnitudes is rounded down. */
const struct uop *
tn_trunc_divide(struct bell_context *ctx, const struct uop *x,
                const struct uop *y)
{
    const struct uop *ax, *ay, *inf, *endless, *q;

    assert(tn_bad(x) || tn_bad(y) || x->dtype == y->dtype);
    if (!tn_is_float(x))
        return tn_alu2(ctx, UOP_IDIV, x, y);
    ax = tn_abs(ctx, x);
    ay = tn_abs(ctx, y);
    inf = tn_num(ctx, x, (double)INFINITY);
    /* floor division has a NaN there: no remainder */
    endless = tn_and(ctx, tn_eq(ctx, ax, inf), tn_lt(ctx, ay, inf));
    q = tn_where(ctx, endless, inf, tn_alu2(ctx, UOP_FFLOORDIV, ax, ay));
    return copy_sign(ctx, q, tn_fdiv(ctx, x, y));
}

TENSOR_BINARY(bell_trunc_divide, TENSOR_NO_BOOL, tn_trunc_divide)

/* The sign is the divisor's, as Python's %; that of a zero the dividend's, as
 * in PyTorch. */
static const struct uop *
take_remainder(struct bell_context *ctx, const struct uop *x,
               const struct uop *y)
{
    const struct uop *r, *zero, *differs;
    enum uop_dtype dtype = x->dtype;

    assert(tn_bad(x) || tn_bad(y) || x->dtype == y->dtype);
    if (!tn_is_float(x))
        return tn_alu2(ctx, UOP_FLOORMOD, x, y);
    x = tn_widen(ctx, x); /* the slope by y is a sum */
    y = tn_widen(ctx, y);
    r = tn_alu2(ctx, UOP_FMOD, x, y);
    zero = tn_num(ctx, y, 0);
    differs = tn_where(ctx, tn_lt(ctx, y, zero), tn_lt(ctx, zero, r),
                       tn_lt(ctx, r, zero));
    r = tn_where(ctx, differs, tn_add(ctx, r, y), r);
    return tn_cast(ctx, r, dtype);
}

TENSOR_BINARY(bell_remainder, TENSOR_NO_BOOL, take_remainder)

/* The sign is the dividend's, as C's fmod. */
static const struct uop *
take_fmod(struct bell_context *ctx, const struct uop *x, const struct uop *y)
{
    assert(tn_bad(x) || tn_bad(y) || x->dtype == y->dtype);
    return tn_alu2(ctx, tn_is_float(x) ? UOP_FMOD : UOP_IMOD, x, y);
}

TENSOR_BINARY(bell_fmod, TENSOR_NO_BOOL, take_fmod)

/* x to a small whole power by multiplication. */
static const struct uop *
pow_whole(struct bell_context *ctx, const struct uop *x, uint64_t n)
{
    const struct uop *r = NULL;

    assert(n > 0);
    while (n) {
        if (n & 1)
            r = r ? tn_mul(ctx, r, x) : x;
        n >>= 1;
        if (n)
            x = tn_mul(ctx, x, x);
    }
    return r;
}

/* Integers with an exponent for each element, bit by bit. */
static const struct uop *
pow_ints(struct bell_context *ctx, const struct uop *x, const struct uop *e)
{
    enum uop_dtype dtype = x->dtype;
    uint32_t i, n_bits = uop_dtype_infos[dtype].size_bytes * 8u;
    const struct uop *one = tn_int(ctx, dtype, 1),
                     *zero = tn_int(ctx, dtype, 0);
    const struct uop *r = one, *square = x, *odd, *neg;

    assert(tn_bad(x) || uop_dtype_infos[x->dtype].is_int);
    n_bits -= uop_dtype_infos[dtype].is_signed;
    for (i = 0; i < n_bits; i++) {
        odd = tn_and(ctx, tn_alu2(ctx, UOP_SHR, e, tn_int(ctx, dtype, i)), one);
        r = tn_where(ctx, tn_ne(ctx, odd, zero), tn_mul(ctx, r, square), r);
        square = tn_mul(ctx, square, square);
    }
    if (!uop_dtype_infos[dtype].is_signed)
        return r;
    /* 1/x rounded towards zero: of 1 and -1 themselves, else 0. */
    odd = tn_ne(ctx, tn_and(ctx, e, one), zero);
    neg = tn_where(ctx, tn_eq(ctx, x, tn_int(ctx, dtype, -1)),
                   tn_where(ctx, odd, x, one),
                   tn_where(ctx, tn_eq(ctx, x, one), one, zero));
    return tn_where(ctx, tn_lt(ctx, e, zero), neg, r);
}

/* Small whole exponents become products, which are faster than pow and round
 * as a person would expect: x ** 2 is x * x to the last bit. */
static const struct uop *
take_pow(struct bell_context *ctx, const struct uop *x, const struct uop *y)
{
    const struct uop *c = tn_peel(y);
    bool same = c && tn_rank(ctx, y) == 0;

    assert(tn_bad(x) || tn_bad(y) || x->dtype == y->dtype);
    if (!tn_is_float(x)) {
        if (same && c->arg.i > 0)
            return pow_whole(ctx, x, (uint64_t)c->arg.i);
        return pow_ints(ctx, x, y);
    }
    if (same && c->arg.f == 3) /* two products, rounded once */
        return tn_cast(ctx, pow_whole(ctx, tn_widen(ctx, x), 3), x->dtype);
    if (same && (c->arg.f == 1 || c->arg.f == 2))
        return pow_whole(ctx, x, (uint64_t)c->arg.f);
    if (same && c->arg.f == 0.5)
        return tn_sqrt(ctx, x);
    if (same && c->arg.f == -1)
        return tn_recip(ctx, x);
    return tn_alu2(ctx, UOP_POW, x, y);
}

/* Integers to a negative number: what is meant is a fraction, as good as
 * always. A tensor of exponents says what it means. */
static struct bell_tensor *
pow_call(const char *call, struct bell_tensor *x, struct bell_tensor *y)
{
    const struct uop *c;
    struct bell_tensor *out;

    if (!tensor_takes2(call, x, y, &out))
        return out;
    c = tn_peel(tensor_at(y)->uop);
    if (c && tensor_at(y)->flags & TENSOR_WEAK && !tn_is_float(c) &&
        c->arg.i < 0 && !tn_is_float(tensor_at(x)->uop) &&
        !(tensor_at(x)->flags & TENSOR_WEAK))
        return tensor_fail(tensor_at(x)->ctx, call, BELL_BAD_VALUE,
                           "integers to the power of %lld must be made floats",
                           (long long)c->arg.i);
    return binary_of_numbers(call, x, y, take_pow);
}

struct bell_tensor *
bell_pow(struct bell_tensor *x, struct bell_tensor *y)
{
    return pow_call(__func__, x, y);
}

BINARY_OP(bell_maximum, TENSOR_ANY, UOP_MAX)
BINARY_OP(bell_minimum, TENSOR_ANY, UOP_MIN)

/* ---- functions of two variables ---- */

TENSOR_BINARY(bell_copysign, TENSOR_FLOAT, copy_sign)

/* Whether x's sign bit is set. */
static const struct uop *
has_minus(struct bell_context *ctx, const struct uop *x)
{
    enum uop_dtype type = x->dtype == UOP_F64   ? UOP_I64
                          : x->dtype == UOP_F32 ? UOP_I32
                                                : UOP_I16;

    assert(tn_bad(x) || tn_is_float(x));
    return tn_lt(ctx, tn_bitcast(ctx, x, type), tn_int(ctx, type, 0));
}

/* |x| whose slope is that of the branch, at zeros too. */
static const struct uop *
abs_branch(struct bell_context *ctx, const struct uop *x)
{
    return tn_where(ctx, has_minus(ctx, x), tn_neg(ctx, x), x);
}

/* The angle of the smaller leg over the larger, which lies in [0, 1], then put
 * into its octant. Where both are infinite the ratio is 1, where both are 0 it
 * is 0, and both without a slope. */
static const struct uop *
take_atan2(struct bell_context *ctx, const struct uop *y, const struct uop *x)
{
    enum uop_dtype dtype = x->dtype;
    const struct uop *zero = tn_const(ctx, dtype, 0);
    const struct uop *one = tn_const(ctx, dtype, 1);
    const struct uop *ax = abs_branch(ctx, x), *ay = abs_branch(ctx, y);
    const struct uop *steep = tn_lt(ctx, ax, ay), *low, *high, *none, *t;

    assert(tn_bad(x) || tn_is_float(x));
    low = tn_where(ctx, steep, ax, ay);
    high = tn_where(ctx, steep, ay, ax);
    none = tn_eq(ctx, high, zero);
    t = tn_fdiv(ctx, low, tn_where(ctx, none, one, high));
    t = tn_where(ctx, none, tn_add(ctx, ax, ay), t); /* NaN of one of both */
    t = tn_where(ctx,
                 tn_and(ctx, tn_eq(ctx, ax, ay),
                        tn_eq(ctx, ax, tn_const(ctx, dtype, (double)INFINITY))),
                 one, t);
    t = tn_atan(ctx, t);
    t = tn_where(ctx, steep,
                 tn_sub(ctx, tn_const(ctx, dtype, 1.5707963267948966192), t),
                 t);
    t = tn_where(ctx, has_minus(ctx, x),
                 tn_sub(ctx, tn_const(ctx, dtype, 3.1415926535897932385), t),
                 t);
    t = tn_where(ctx, has_minus(ctx, y), tn_neg(ctx, t), t);
    return tn_where(ctx, none, tn_wrap(ctx, UOP_DETACH, t), t);
}

TENSOR_BINARY(bell_atan2, TENSOR_FLOAT, take_atan2)

/* max + log1p(exp(-|x - y|)) cannot overflow. Two equal infinities differ by
 * NaN: they are told apart first. */
static const struct uop *
log_add_exp(struct bell_context *ctx, const struct uop *x, const struct uop *y)
{
    const struct uop *dist = tn_abs(ctx, tn_sub(ctx, x, y)), *more;

    assert(tn_bad(x) || tn_is_float(x));
    more = tn_log1p(ctx, tn_exp(ctx, tn_neg(ctx, dist)));
    more = tn_where(ctx, tn_eq(ctx, x, y),
                    tn_const(ctx, x->dtype, 0.69314718055994530942), more);
    return tn_add(ctx, tn_max(ctx, x, y), more);
}

TENSOR_BINARY(bell_logaddexp, TENSOR_FLOAT, log_add_exp)

/* The hypotenuse of finite legs; `none`: 1 is in place of the divisor, as a leg
 * is infinite. The larger leg is taken out of the root, so that squares neither
 * overflow nor vanish; at 0, where that divides by it, the larger leg is the
 * answer. Legs of which an inverse may be subnormal are scaled for the
 * quotient: its slopes are products with inverses. */
static const struct uop *
finite_hypot(struct bell_context *ctx, const struct uop *x, const struct uop *y,
             const struct uop *none)
{
    const struct uop *ax = tn_abs(ctx, x), *ay = tn_abs(ctx, y);
    const struct uop *high = tn_max(ctx, ax, ay), *low = tn_min(ctx, ax, ay);
    const struct uop *one = tn_num(ctx, x, 1), *zero = tn_num(ctx, x, 0);
    const struct uop *is_zero = tn_eq(ctx, high, zero), *scale, *r;

    scale = tn_where(ctx, tn_lt(ctx, tn_num(ctx, x, 0x1p64), high),
                     tn_num(ctx, x, 0x1p-64), one);
    r = tn_where(ctx, tn_or(ctx, is_zero, none), one, tn_mul(ctx, high, scale));
    r = tn_fdiv(ctx, tn_mul(ctx, low, scale), r);
    r = tn_mul(ctx, high, tn_sqrt(ctx, tn_add_c(ctx, tn_mul(ctx, r, r), 1)));
    return tn_where(ctx, is_zero, high, r);
}

/* An infinite leg is the answer, even beside NaN, and has the slope: the other
 * leg has none. */
static const struct uop *
take_hypot(struct bell_context *ctx, const struct uop *x, const struct uop *y)
{
    const struct uop *ax = tn_abs(ctx, x), *ay = tn_abs(ctx, y);
    const struct uop *inf = tn_num(ctx, x, (double)INFINITY), *surrogate;
    const struct uop *zero = tn_num(ctx, x, 0), *x_ends, *y_ends, *ends, *value;

    assert(tn_bad(x) || tn_is_float(x));
    x_ends = tn_eq(ctx, ax, inf);
    y_ends = tn_eq(ctx, ay, inf);
    ends = tn_or(ctx, x_ends, y_ends);
    value = tn_where(ctx, ends, inf, finite_hypot(ctx, x, y, ends));
    surrogate =
        finite_hypot(ctx, tn_where(ctx, ends, zero, x),
                     tn_where(ctx, ends, zero, y), tn_int(ctx, UOP_BOOL, 0));
    ax = tn_where(ctx, x_ends, ax, zero);
    ay = tn_where(ctx, y_ends, ay, zero);
    surrogate = tn_where(ctx, ends, tn_add(ctx, ax, ay), surrogate);
    return tensor_surrogate(ctx, value, surrogate);
}

TENSOR_BINARY(bell_hypot, TENSOR_FLOAT, take_hypot)

/* The signed integers of the bits of a float dtype, and the least of them. */
static enum uop_dtype
bits_of_float(enum uop_dtype dtype, int64_t *out_least)
{
    size_t size = uop_dtype_infos[dtype].size_bytes;

    assert(uop_dtype_infos[dtype].is_float && size > 1);
    *out_least = size == 8 ? INT64_MIN : size == 4 ? INT32_MIN : INT16_MIN;
    return size == 8 ? UOP_I64 : size == 4 ? UOP_I32 : UOP_I16;
}

/* From the bits of a float, as a signed integer, to its place in order, both
 * zeros at 0; and back, but for the sign of zero. */
static const struct uop *
swap_order(struct bell_context *ctx, const struct uop *i, int64_t least)
{
    enum uop_dtype type = i->dtype;

    return tn_where(ctx, tn_lt(ctx, i, tn_int(ctx, type, 0)),
                    tn_sub(ctx, tn_int(ctx, type, least), i), i);
}

/* On integers alone: a device may flush subnormal numbers. A zero has x's
 * sign. */
static const struct uop *
next_after(struct bell_context *ctx, const struct uop *x, const struct uop *y)
{
    const struct uop *from, *to, *step, *same, *bits, *zero, *next, *nan;
    enum uop_dtype type;
    int64_t least;

    if (tn_bad(x) || tn_bad(y))
        return &uop_failed;
    type = bits_of_float(x->dtype, &least);
    bits = tn_bitcast(ctx, x, type);
    zero = tn_int(ctx, type, 0);
    from = swap_order(ctx, bits, least);
    to = swap_order(ctx, tn_bitcast(ctx, y, type), least);
    nan = tn_or(ctx, tn_isnan(ctx, x), tn_isnan(ctx, y));
    same = tn_and(ctx, tn_eq(ctx, from, to), tn_not(ctx, nan));
    step = tn_where(ctx, tn_lt(ctx, from, to), tn_int(ctx, type, 1),
                    tn_int(ctx, type, -1));
    step = tn_add(ctx, from, step);
    next = tn_where(ctx, tn_eq(ctx, step, zero),
                    tn_and(ctx, bits, tn_int(ctx, type, least)),
                    swap_order(ctx, step, least));
    next = tn_where(ctx, same, y, tn_bitcast(ctx, next, x->dtype));
    return tensor_surrogate(
        ctx, tn_where(ctx, nan, tn_add(ctx, x, y), next),
        tn_where(ctx, same, tn_wrap(ctx, UOP_DETACH, x), x));
}

struct bell_tensor *
bell_nextafter(struct bell_tensor *x, struct bell_tensor *y)
{
    struct bell_tensor *both[2] = {x, y}, *out;
    struct tensor_operands ops;
    uint32_t i;

    if (!tensor_operands(__func__, both, 2, TENSOR_FLOAT, &ops, &out))
        return out;
    for (i = 0; i < 2; i++) /* halves were widened, exactly */
        ops.u[i] = tn_cast(ops.ctx, ops.u[i], ops.dtype);
    return tensor_result(__func__, &ops,
                         next_after(ops.ctx, ops.u[0], ops.u[1]));
}

/* ---- bits ---- */

BINARY_OP(bell_bitwise_and, TENSOR_INT, UOP_AND)
BINARY_OP(bell_bitwise_or, TENSOR_INT, UOP_OR)
BINARY_OP(bell_bitwise_xor, TENSOR_INT, UOP_XOR)

/* Shifts of integers; bool counts as int64. */
static struct bell_tensor *
shift_op(const char *call, struct bell_tensor *x, struct bell_tensor *y,
         enum uop_op op)
{
    struct bell_tensor *both[2] = {x, y}, *out;
    struct tensor_operands ops;

    assert(op == UOP_SHL || op == UOP_SHR);
    if (!tensor_operands(call, both, 2, TENSOR_INT, &ops, &out))
        return out;
    if (ops.dtype == UOP_BOOL) {
        ops.u[0] = tn_cast(ops.ctx, ops.u[0], UOP_I64);
        ops.u[1] = tn_cast(ops.ctx, ops.u[1], UOP_I64);
    }
    return tensor_result(call, &ops, tn_alu2(ops.ctx, op, ops.u[0], ops.u[1]));
}

struct bell_tensor *
bell_lshift(struct bell_tensor *x, struct bell_tensor *y)
{
    return shift_op(__func__, x, y, UOP_SHL);
}

struct bell_tensor *
bell_rshift(struct bell_tensor *x, struct bell_tensor *y)
{
    return shift_op(__func__, x, y, UOP_SHR);
}

/* ---- comparisons and logic ---- */

BINARY_OP(bell_eq, TENSOR_ANY, UOP_CMPEQ)
BINARY_OP(bell_ne, TENSOR_ANY, UOP_CMPNE)

static const struct uop *
less_than(struct bell_context *ctx, const struct uop *x, const struct uop *y)
{
    if (x->dtype == UOP_BOOL)
        return tn_and(ctx, tn_not(ctx, x), y);
    return tn_lt(ctx, x, y);
}

static const struct uop *
is_greater(struct bell_context *ctx, const struct uop *x, const struct uop *y)
{
    return less_than(ctx, y, x);
}

const struct uop *
tn_le(struct bell_context *ctx, const struct uop *x, const struct uop *y)
{
    if (!tn_is_float(x))
        return tn_not(ctx, less_than(ctx, y, x));
    return tn_or(ctx, tn_lt(ctx, x, y), tn_eq(ctx, x, y));
}

static const struct uop *
is_greater_equal(struct bell_context *ctx, const struct uop *x,
                 const struct uop *y)
{
    return tn_le(ctx, y, x);
}

TENSOR_BINARY(bell_lt, TENSOR_ANY, less_than)
TENSOR_BINARY(bell_le, TENSOR_ANY, tn_le)
TENSOR_BINARY(bell_gt, TENSOR_ANY, is_greater)
TENSOR_BINARY(bell_ge, TENSOR_ANY, is_greater_equal)

static const struct uop *
both_true(struct bell_context *ctx, const struct uop *x, const struct uop *y)
{
    return tn_and(ctx, tn_bool(ctx, x), tn_bool(ctx, y));
}

static const struct uop *
either_true(struct bell_context *ctx, const struct uop *x, const struct uop *y)
{
    return tn_or(ctx, tn_bool(ctx, x), tn_bool(ctx, y));
}

static const struct uop *
one_true(struct bell_context *ctx, const struct uop *x, const struct uop *y)
{
    return tn_ne(ctx, tn_bool(ctx, x), tn_bool(ctx, y));
}

TENSOR_BINARY(bell_logical_and, TENSOR_ANY, both_true)
TENSOR_BINARY(bell_logical_or, TENSOR_ANY, either_true)
TENSOR_BINARY(bell_logical_xor, TENSOR_ANY, one_true)

struct bell_tensor *
bell_isclose(struct bell_tensor *x, struct bell_tensor *y, double rtol,
             double atol, bool equal_nan)
{
    struct bell_tensor *both[2] = {x, y}, *out;
    const struct uop *near, *bound, *u;
    struct tensor_operands ops;
    struct bell_context *ctx;

    if (!tensor_operands(__func__, both, 2, TENSOR_FLOAT, &ops, &out))
        return out;
    ctx = ops.ctx;
    if (!(rtol >= 0 && atol >= 0))
        return tensor_fail(ctx, __func__, BELL_BAD_VALUE,
                           "rtol %g and atol %g must be 0 or more", rtol, atol);
    bound = tn_abs(ctx, ops.u[1]);
    near = tn_lt(ctx, bound, tn_const(ctx, bound->dtype, (double)INFINITY));
    bound = tn_add_c(ctx, tn_mul_c(ctx, bound, rtol), atol);
    u = tn_abs(ctx, tn_sub(ctx, ops.u[0], ops.u[1]));
    near = tn_and(ctx, near, tn_le(ctx, u, bound));
    u = tn_or(ctx, near, tn_eq(ctx, ops.u[0], ops.u[1]));
    if (equal_nan)
        u = tn_or(
            ctx, u,
            tn_and(ctx, tn_isnan(ctx, ops.u[0]), tn_isnan(ctx, ops.u[1])));
    return tensor_result(__func__, &ops, u);
}

/* ---- with a number ---- */

/* A number that Python would call an int stays one next to integers: x + 1 has
 * x's dtype. */
struct bell_tensor *
tensor_number(struct bell_tensor *x, double value)
{
    if (!uop_dtype_infos[tensor_at(x)->dtype].is_float &&
        value == trunc(value) && fabs(value) < 0x1p63)
        return bell_scalar_int(tensor_at(x)->ctx, (int64_t)value);
    return bell_scalar(tensor_at(x)->ctx, value);
}

/* A call on x and a number that lives only as long as it. */
static struct bell_tensor *
with_number(const char *call, struct bell_tensor *x, double value,
            enum tensor_kind kind, enum uop_op op)
{
    struct bell_tensor *out, *number;

    if (!tensor_takes(call, x, &out))
        return out;
    number = tensor_number(x, value);
    out = binary_op(call, x, number, kind, op);
    bell_tensor_release(number);
    return out;
}

#define WITH_NUMBER(name, kind, op)                                            \
    struct bell_tensor *name(struct bell_tensor *x, double y)                  \
    {                                                                          \
        return with_number(__func__, x, y, kind, op);                          \
    }
WITH_NUMBER(bell_add_scalar, TENSOR_ANY, UOP_ADD)
WITH_NUMBER(bell_sub_scalar, TENSOR_NO_BOOL, UOP_SUB)
WITH_NUMBER(bell_mul_scalar, TENSOR_ANY, UOP_MUL)
WITH_NUMBER(bell_div_scalar, TENSOR_FLOAT, UOP_FDIV)

struct bell_tensor *
bell_pow_scalar(struct bell_tensor *x, double y)
{
    struct bell_tensor *out, *number;

    if (!tensor_takes(__func__, x, &out))
        return out;
    number = tensor_number(x, y);
    out = pow_call(__func__, x, number);
    bell_tensor_release(number);
    return out;
}

/* ---- three operands ---- */

struct bell_tensor *
bell_where(struct bell_tensor *cond, struct bell_tensor *x,
           struct bell_tensor *y)
{
    struct bell_tensor *all[3] = {cond, x, y}, *values[2] = {x, y}, *out;
    struct bell_context *ctx;
    enum uop_dtype dtype;
    bool weak;

    if (!tensor_takes_n(__func__, all, 3, &out))
        return out;
    ctx = tensor_at(cond)->ctx;
    if (tensor_at(cond)->dtype != UOP_BOOL)
        return tensor_fail(ctx, __func__, BELL_BAD_DTYPE,
                           "the condition is %s, not bool", DTYPE_OF(cond));
    if (!broadcasts(all, 3)) {
        fail_shapes(__func__, all, 3, &out);
        return out;
    }
    dtype = tensor_result_dtype(values, 2, &weak);
    if (weak && dtype == UOP_F64)
        dtype = UOP_F32;
    return tensor_new(ctx, __func__,
                      tn_where(ctx, tensor_at(cond)->uop,
                               tn_cast(ctx, tensor_at(x)->uop, dtype),
                               tn_cast(ctx, tensor_at(y)->uop, dtype)));
}

/* A side of a clamp: NULL where there is none. */
struct limit {
    const struct uop *u;
    bool is_number;
};

/* The greater or smaller of x and a bound; NaN if either is. Where they are
 * equal a tensor shares the gradient. */
static const struct uop *
limit_by(struct bell_context *ctx, enum uop_op op, const struct uop *x,
         const struct limit *bound)
{
    const struct uop *c = tn_peel(bound->u);

    if (tn_is_float(x) && !bound->is_number)
        return tn_alu2(ctx, op, x, bound->u);
    if (tn_is_float(x) && c && isnan(c->arg.f))
        return tn_add(ctx, x, bound->u);
    return tn_where(
        ctx, op == UOP_MAX ? tn_lt(ctx, x, bound->u) : tn_lt(ctx, bound->u, x),
        bound->u, x);
}

/* What x between numbers, or a number and a tensor, is differentiated as: as in
 * PyTorch, a number has no slope where x equals it. */
static const struct uop *
clamp_surrogate(struct bell_context *ctx, const struct uop *x,
                const struct limit *low, const struct limit *high)
{
    const struct uop *inside = NULL, *y = x, *more;

    if (low->is_number)
        inside = tn_lt(ctx, low->u, x);
    else if (low->u)
        y = tn_max(ctx, y, low->u);
    if (high->is_number) {
        more = tn_lt(ctx, x, high->u);
        inside = inside ? tn_and(ctx, inside, more) : more;
    } else if (high->u) {
        y = tn_min(ctx, y, high->u);
    }
    return tn_where(ctx, inside, y, tn_num(ctx, x, 0));
}

static bool
is_number(const struct bell_tensor *t)
{
    return t && tensor_at(t)->flags & TENSOR_WEAK;
}

/* A bound as the result's dtype has it: a whole number beyond that is its
 * nearest end. */
static struct limit
take_limit(const struct tensor_operands *ops, struct bell_tensor *t, uint32_t i)
{
    struct limit limit = {NULL, is_number(t)};
    struct uop_bounds ends = uop_dtype_bounds(ops->dtype);
    const struct uop *c;
    int64_t n;

    if (!t)
        return limit;
    limit.u = ops->u[i];
    c = tn_peel(tensor_at(t)->uop);
    if (!limit.is_number || !c || c->dtype != UOP_I64 ||
        !uop_dtype_infos[ops->dtype].is_int)
        return limit;
    n = c->arg.i;
    if (ops->dtype == UOP_U64)
        n = n < 0 ? 0 : n;
    else
        n = n < ends.min ? ends.min : n > ends.max ? ends.max : n;
    limit.u = tn_int(ops->ctx, ops->dtype, n);
    return limit;
}

struct bell_tensor *
bell_clamp(struct bell_tensor *x, struct bell_tensor *low,
           struct bell_tensor *high)
{
    struct bell_tensor *list[3] = {x, low ? low : high, high}, *out;
    struct limit from, to;
    uint32_t n = low && high ? 3 : 2;
    struct tensor_operands ops;
    const struct uop *u;

    if (!tensor_takes(__func__, x, &out))
        return out;
    if (!low && !high)
        return tensor_fail(tensor_at(x)->ctx, __func__, BELL_BAD_MISSING,
                           "neither bound is given");
    if (!tensor_operands(__func__, list, n, TENSOR_NO_BOOL, &ops, &out))
        return out;
    u = ops.u[0];
    from = take_limit(&ops, low, 1);
    to = take_limit(&ops, high, n - 1);
    if (low)
        u = limit_by(ops.ctx, UOP_MAX, u, &from);
    if (high)
        u = limit_by(ops.ctx, UOP_MIN, u, &to);
    if (!tn_bad(u) && tn_is_float(u) && (from.is_number || to.is_number))
        u = tensor_surrogate(ops.ctx, u,
                             clamp_surrogate(ops.ctx, ops.u[0], &from, &to));
    return tensor_result(__func__, &ops, u);
}

struct bell_tensor *
bell_clip(struct bell_tensor *x, double low, double high)
{
    struct bell_tensor *list[3], *out, *lo = NULL, *hi = NULL;

    if (!tensor_takes(__func__, x, &out))
        return out;
    if (isnan(low) || isnan(high))
        return tensor_fail(tensor_at(x)->ctx, __func__, BELL_BAD_VALUE,
                           "bounds %g and %g: a bound must not be NaN", low,
                           high);
    if (isinf(low) && isinf(high))
        return bell_alias(x);
    lo = isinf(low) ? NULL : tensor_number(x, low);
    hi = isinf(high) ? NULL : tensor_number(x, high);
    list[0] = bell_clamp(x, lo, hi);
    bell_tensor_release(lo);
    bell_tensor_release(hi);
    return list[0];
}

/* From the nearer end, so that the ends are met; differentiated as one way. */
static const struct uop *
lerp_node(struct bell_context *ctx, const struct uop *x, const struct uop *end,
          const struct uop *weight)
{
    const struct uop *way = tn_sub(ctx, end, x), *one = tn_num(ctx, x, 1);
    const struct uop *low = tn_add(ctx, x, tn_mul(ctx, weight, way));
    const struct uop *high =
        tn_sub(ctx, end, tn_mul(ctx, way, tn_sub(ctx, one, weight)));
    const struct uop *near =
        tn_lt(ctx, tn_abs(ctx, weight), tn_num(ctx, weight, 0.5));
    const struct uop *slopes =
        tn_add(ctx, tn_mul(ctx, x, tn_sub(ctx, one, weight)),
               tn_mul(ctx, end, weight));

    return tensor_surrogate(ctx, tn_where(ctx, near, low, high), slopes);
}

struct bell_tensor *
bell_lerp(struct bell_tensor *x, struct bell_tensor *end,
          struct bell_tensor *weight)
{
    struct bell_tensor *all[3] = {x, end, weight}, *out;
    struct tensor_operands ops;

    if (!tensor_operands(__func__, all, 3, TENSOR_FLOAT, &ops, &out))
        return out;
    if (tensor_at(weight)->flags & TENSOR_WEAK) /* not rounded to halves */
        ops.u[2] = tn_cast(ops.ctx, tensor_at(weight)->uop, ops.u[0]->dtype);
    return tensor_result(__func__, &ops,
                         lerp_node(ops.ctx, ops.u[0], ops.u[1], ops.u[2]));
}

struct bell_tensor *
tensor_add_scaled(const char *call, struct bell_tensor *x,
                  struct bell_tensor *y, struct bell_tensor *factor, bool minus)
{
    struct bell_tensor *all[3] = {x, y, factor}, *out;
    struct tensor_operands ops;
    const struct uop *u;

    if (!tensor_operands(call, all, 3, TENSOR_NO_BOOL, &ops, &out))
        return out;
    widen_operands(&ops, 3);
    u = tn_mul(ops.ctx, ops.u[1], ops.u[2]);
    u = minus ? tn_sub(ops.ctx, ops.u[0], u) : tn_add(ops.ctx, ops.u[0], u);
    return tensor_result(call, &ops, u);
}

struct bell_tensor *
bell_addcmul(struct bell_tensor *x, struct bell_tensor *a,
             struct bell_tensor *b, double value)
{
    struct bell_tensor *all[3] = {x, a, b}, *out;
    struct tensor_operands ops;
    const struct uop *u;

    if (!tensor_operands(__func__, all, 3, TENSOR_NO_BOOL, &ops, &out))
        return out;
    widen_operands(&ops, 3);
    u = tn_mul_c(ops.ctx, tn_mul(ops.ctx, ops.u[1], ops.u[2]), value);
    return tensor_result(__func__, &ops, tn_add(ops.ctx, ops.u[0], u));
}

struct bell_tensor *
bell_addcdiv(struct bell_tensor *x, struct bell_tensor *a,
             struct bell_tensor *b, double value)
{
    struct bell_tensor *all[3] = {x, a, b}, *out;
    struct tensor_operands ops;
    const struct uop *u;

    if (!tensor_operands(__func__, all, 3, TENSOR_FLOAT, &ops, &out))
        return out;
    u = tn_fdiv(ops.ctx, tn_mul_c(ops.ctx, ops.u[1], value), ops.u[2]);
    return tensor_result(__func__, &ops, tn_add(ops.ctx, ops.u[0], u));
}
