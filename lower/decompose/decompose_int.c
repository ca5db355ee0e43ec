/* Integer division, shifts, and arithmetic on BOOL.
 *
 * Guards (against a divisor of 0, MIN / -1, shift amounts out of range) are
 * left out wherever the bounds of the operands exclude the case.
 */
#include "lower/decompose/decompose_internal.h"

#include <assert.h>

#include "base/bits.h"

static const struct uop_dtype_info *
info_of(const struct uop *u)
{
    return &uop_dtype_infos[u->dtype];
}

static const struct uop *
zero_of(const struct dec *d, const struct uop *u)
{
    return dec_int(d, u, u->dtype, 0);
}

/* ---- division ---- */

/* Facts of a division. */
struct division {
    const struct uop *x, *y;
    bool floor, mod;          /* kind */
    bool y_maybe_0, overflow; /* cases to guard against */
    bool same_sign;           /* x >= 0 and y > 0: truncation is floor */
};

/* An unsigned dtype that holds 0..max and is cheap to divide in. */
static enum uop_dtype
unsigned_for(const struct uop *x, int64_t max)
{
    assert(info_of(x)->is_int);
    if (info_of(x)->size_bytes <= 4)
        return x->dtype == UOP_I8    ? UOP_U8
               : x->dtype == UOP_I16 ? UOP_U16
               : x->dtype == UOP_I32 ? UOP_U32
                                     : x->dtype;
    return max <= UINT32_MAX ? UOP_U32 : UOP_U64;
}

/* Divides floats instead, which vectors can: the quotient of numbers below
 * 2^32 (in F64; 2^16 in F32) is off a whole number by at least 1 part in as
 * many, so rounding does not reach the whole number above it. F32's
 * quotients must not be approximate. */
static const struct uop *
divide_by_float(const struct dec *d, const struct uop *x, const struct uop *y)
{
    enum uop_dtype f = info_of(x)->size_bytes <= 2 ? UOP_F32 : UOP_F64;
    const struct uop *q;

    q = dec_op2(d, UOP_FDIV, dec_cast(d, x, f), dec_cast(d, y, f));
    return dec_cast(d, q, x->dtype);
}

/* x / y truncated, y safe. */
static const struct uop *
quotient(const struct dec *d, const struct uop *x, const struct uop *y)
{
    int64_t c;

    assert(x->dtype == y->dtype || d->g->failed);
    if (x->lanes > 1 && info_of(x)->size_bytes <= 4 && !dec_const_int(y, &c) &&
        (info_of(x)->size_bytes > 2 ? !d->target->lacks_f64
                                    : !d->target->is_approx))
        return divide_by_float(d, x, y);
    return dec_op2(d, UOP_IDIV, x, y);
}

static const struct uop *
remainder_of(const struct dec *d, const struct uop *x, const struct uop *y)
{
    int64_t c;

    assert(x->dtype == y->dtype || d->g->failed);
    if (x->lanes > 1 && !dec_const_int(y, &c))
        return dec_op2(d, UOP_SUB, x,
                       dec_op2(d, UOP_MUL, quotient(d, x, y), y));
    return dec_op2(d, UOP_IMOD, x, y);
}

static const struct uop *
divide(const struct dec *d, bool mod, const struct uop *x, const struct uop *y)
{
    return mod ? remainder_of(d, x, y) : quotient(d, x, y);
}

/* Neither is negative: as unsigned, in 32 bits where they fit. */
static const struct uop *
divide_unsigned(const struct dec *d, const struct division *v)
{
    enum uop_dtype dtype = v->x->dtype, as;
    int64_t max = uop_bounds(d->g, v->x).max;

    assert(v->same_sign);
    if (uop_bounds(d->g, v->y).max > max)
        max = uop_bounds(d->g, v->y).max;
    as = dtype == UOP_U64 ? UOP_U64 : unsigned_for(v->x, max);
    return dec_cast(
        d, divide(d, v->mod, dec_cast(d, v->x, as), dec_cast(d, v->y, as)),
        dtype);
}

/* Floor from truncation: one less, or y more, where there is a rest and the
 * signs differ. `y` is safe. */
static const struct uop *
divide_floor(const struct dec *d, bool mod, const struct uop *x,
             const struct uop *y)
{
    const struct uop *zero = zero_of(d, x), *q, *r, *fix;
    struct uop_bounds by = uop_bounds(d->g, y);

    q = quotient(d, x, y);
    r = dec_op2(d, UOP_SUB, x, dec_op2(d, UOP_MUL, q, y));
    if (by.min > 0) {
        fix = dec_op2(d, UOP_CMPLT, r, zero);
    } else {
        fix = dec_op2(d, UOP_CMPLT, dec_op2(d, UOP_XOR, r, y), zero);
        fix = dec_op2(d, UOP_AND, fix, dec_op2(d, UOP_CMPNE, r, zero));
    }
    if (mod)
        return dec_where(d, fix, dec_op2(d, UOP_ADD, r, y), r);
    return dec_where(d, fix, dec_opi(d, UOP_SUB, q, 1), q);
}

/* Division by a positive power of two, rounding down or of what is not
 * negative; NULL for others. */
static const struct uop *
divide_by_shift(const struct dec *d, const struct division *v)
{
    int64_t c;

    if (!dec_const_int(v->y, &c) || c <= 0 || !is_pow2((uint64_t)c))
        return NULL;
    if (!v->floor && !v->same_sign)
        return NULL;
    if (v->mod)
        return dec_opi(d, UOP_AND, v->x, c - 1);
    return dec_opi(d, UOP_SHR, v->x, (int64_t)log2_floor((uint64_t)c));
}

/* Divides 0 to x's maximum by a constant: a product of 32 bits and a shift,
 * where they are exact. With m = ceil(2^s / c) and e = m c - 2^s, floor(x m /
 * 2^s) is the quotient as long as x e < 2^s. src: T. Granlund, P. Montgomery,
 * "Division by Invariant Integers using Multiplication", 1994. observed: ptxas
 * 13.0 divides by 3 in floats, sm_89. NULL for others. */
static const struct uop *
divide_by_product(const struct dec *d, const struct division *v)
{
    uint64_t max = (uint64_t)uop_bounds(d->g, v->x).max, m = 0;
    const struct uop *x, *q;
    uint32_t s;
    int64_t c;

    if (!d->target->is_gpu || !v->same_sign || v->x->lanes > 1 ||
        !dec_const_int(v->y, &c) || max > UINT16_MAX || c > UINT16_MAX)
        return NULL;
    for (s = 1; s < 32; s++) {
        m = (((uint64_t)1 << s) + (uint64_t)c - 1) / (uint64_t)c;
        if (max * (m * (uint64_t)c - ((uint64_t)1 << s)) < (uint64_t)1 << s)
            break;
    }
    if (s == 32 || max * m > UINT32_MAX)
        return NULL;
    x = dec_cast(d, v->x, UOP_U32);
    q = dec_opi(d, UOP_SHR, dec_opi(d, UOP_MUL, x, (int64_t)m), s);
    if (v->mod)
        q = dec_op2(d, UOP_SUB, x, dec_opi(d, UOP_MUL, q, c));
    return dec_cast(d, q, v->x->dtype);
}

static struct division
look_at_division(const struct dec *d, enum uop_op op, const struct uop *x,
                 const struct uop *y)
{
    struct uop_bounds bx = uop_bounds(d->g, x), by = uop_bounds(d->g, y);
    int64_t min = uop_dtype_bounds(x->dtype).min;
    struct division v = {.x = x, .y = y};

    v.floor = op == UOP_FLOORDIV || op == UOP_FLOORMOD;
    v.mod = op == UOP_IMOD || op == UOP_FLOORMOD;
    v.y_maybe_0 = by.min <= 0 && by.max >= 0;
    v.overflow =
        info_of(x)->is_signed && by.min <= -1 && by.max >= -1 && bx.min == min;
    v.same_sign = bx.min >= 0 && by.min > 0;
    if (!info_of(x)->is_signed) {
        v.floor = false;
        v.same_sign = !v.y_maybe_0;
    }
    return v;
}

const struct uop *
dec_div(const struct dec *d, enum uop_op op, const struct uop *x,
        const struct uop *y)
{
    struct division v = look_at_division(d, op, x, y);
    const struct uop *plain = divide_by_shift(d, &v), *one, *r;
    const struct uop *zero = zero_of(d, x), *is_0 = NULL, *is_m1 = NULL;

    assert(x->dtype == y->dtype && x->lanes == y->lanes);
    if (!plain)
        plain = divide_by_product(d, &v);
    if (plain)
        return plain;
    if (v.same_sign)
        return divide_unsigned(d, &v);
    one = dec_int(d, y, y->dtype, 1);
    if (v.y_maybe_0) {
        is_0 = dec_op2(d, UOP_CMPEQ, y, zero);
        y = dec_where(d, is_0, one, y);
    }
    if (v.overflow) {
        is_m1 = dec_op2(d, UOP_CMPEQ, v.y, dec_int(d, y, x->dtype, -1));
        y = dec_where(d, is_m1, one, y);
    }
    r = v.floor ? divide_floor(d, v.mod, x, y) : divide(d, v.mod, x, y);
    if (v.mod)
        return r; /* of 1, where y was replaced: 0 */
    if (is_m1)
        r = dec_where(d, is_m1, dec_op1(d, UOP_NEG, x), r);
    return is_0 ? dec_where(d, is_0, zero, r) : r;
}

/* ---- shifts ---- */

static enum uop_dtype
unsigned_of(enum uop_dtype dtype)
{
    switch ((unsigned)dtype) {
    case UOP_I8:
        return UOP_U8;
    case UOP_I16:
        return UOP_U16;
    case UOP_I32:
        return UOP_U32;
    case UOP_I64:
        return UOP_U64;
    default:
        return dtype;
    }
}

/* BOOL has one bit: only a shift by false keeps it. */
static const struct uop *
shift_bool(const struct dec *d, const struct uop *x, const struct uop *y)
{
    return dec_op2(d, UOP_AND, x,
                   dec_op2(d, UOP_XOR, y, dec_int(d, y, UOP_BOOL, 1)));
}

const struct uop *
dec_shift(const struct dec *d, enum uop_op op, const struct uop *x,
          const struct uop *y)
{
    struct uop_bounds by = uop_bounds(d->g, y);
    int64_t bits = info_of(x)->size_bytes * 8;
    enum uop_dtype u = unsigned_of(y->dtype);
    const struct uop *in_range, *limit;

    assert(op == UOP_SHL || op == UOP_SHR);
    assert(x->lanes == y->lanes);
    if (x->dtype == UOP_BOOL)
        return shift_bool(d, x, y);
    if (by.min >= 0 && by.max < bits)
        return dec_op2(d, op, x, y);
    in_range = dec_op2(d, UOP_CMPLT, dec_bits(d, y, u), dec_int(d, y, u, bits));
    if (op == UOP_SHR && info_of(x)->is_signed) {
        limit = dec_int(d, y, y->dtype, bits - 1);
        y = dec_where(d, in_range, y, limit);
        return dec_op2(d, op, x, dec_opi(d, UOP_AND, y, bits - 1));
    }
    y = dec_opi(d, UOP_AND, y, bits - 1);
    return dec_where(d, in_range, dec_op2(d, op, x, y), zero_of(d, x));
}

/* ---- BOOL ---- */

static const struct uop *
invert_bool(const struct dec *d, const struct uop *a)
{
    return dec_opi(d, UOP_XOR, a, 1);
}

const struct uop *
dec_bool(const struct dec *d, const struct uop *u)
{
    const struct uop *a = u->src[0], *b = u->n_src > 1 ? u->src[1] : NULL;

    assert(a->dtype == UOP_BOOL || u->op == UOP_WHERE);
    switch (u->op) {
    case UOP_NEG:
        return a;
    case UOP_ADD:
    case UOP_MAX:
        return dec_op2(d, UOP_OR, a, b);
    case UOP_SUB:
    case UOP_CMPNE:
        return dec_op2(d, UOP_XOR, a, b);
    case UOP_CMPEQ:
        return invert_bool(d, dec_op2(d, UOP_XOR, a, b));
    case UOP_CMPLT:
        return dec_op2(d, UOP_AND, invert_bool(d, a), b);
    case UOP_MUL:
    case UOP_MIN:
    case UOP_IDIV:
    case UOP_FLOORDIV:
        return dec_op2(d, UOP_AND, a, b);
    case UOP_IMOD:
    case UOP_FLOORMOD:
        return zero_of(d, a);
    case UOP_SHL:
    case UOP_SHR:
        return shift_bool(d, a, b);
    case UOP_MULACC:
        return dec_op2(d, UOP_OR, dec_op2(d, UOP_AND, a, b), u->src[2]);
    default:
        return NULL;
    }
}
