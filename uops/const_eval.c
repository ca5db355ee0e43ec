/* What each op means on numbers, and how values are rounded and wrapped.
 *
 * Constants are held as int64 (U64: its bits) or as a double that is exact in
 * the dtype. Small floats are computed in F32 and rounded, as the programs
 * do. NaN has one form, so a BITCAST that would show or make another is not
 * folded.
 */
#include "uops/uop.h"

#include <assert.h>
#include <math.h>

#include "base/bits.h"

int64_t
uop_wrap_int(enum uop_dtype dtype, int64_t value)
{
    assert(!uop_dtype_infos[dtype].is_float);
    switch ((unsigned)dtype) {
    case UOP_BOOL:
        return value != 0;
    case UOP_I8:
        return (int8_t)value;
    case UOP_U8:
        return (uint8_t)value;
    case UOP_I16:
        return (int16_t)value;
    case UOP_U16:
        return (uint16_t)value;
    case UOP_I32:
        return (int32_t)value;
    case UOP_U32:
        return (uint32_t)value;
    default:
        return value;
    }
}

/* To the nearest value, ties to even; what is too large is infinity or, where
 * there is none, NaN. */
double
uop_round_float(enum uop_dtype dtype, double value)
{
    const struct uop_dtype_info *f = &uop_dtype_infos[dtype];
    double quantum, rounded;
    int exp;

    if (dtype == UOP_F32)
        return (double)(float)value;
    if (dtype == UOP_F64 || !f->is_float || isnan(value))
        return value;
    if (isinf(value))
        return f->has_inf ? value : (double)NAN;
    frexp(value, &exp);
    exp -= 1; /* value = 1.x * 2^exp */
    if (exp < f->min_exp)
        exp = f->min_exp;
    quantum = ldexp(1.0, exp - f->fraction_bits);
    rounded = nearbyint(value / quantum) * quantum;
    if (fabs(rounded) > f->greatest)
        return f->has_inf ? copysign(INFINITY, value) : (double)NAN;
    if (rounded == 0)
        return f->has_minus_zero ? copysign(0.0, value) : 0.0;
    return rounded;
}

/* Rounds the double result of one op on values of `dtype`. */
static double
round_result(enum uop_dtype dtype, double value)
{
    if (isnan(value))
        return (double)NAN;
    if (uop_dtype_is_small(dtype))
        value = (double)(float)value;
    return uop_round_float(dtype, value);
}

/* The greater of two; NaN if either is, +0 above -0. */
static double
float_max(double x, double y)
{
    if (isnan(x) || isnan(y))
        return (double)NAN;
    if (x == y)
        return signbit(x) ? y : x;
    return x > y ? x : y;
}

/* As devices compute it: the quotient that is rounded and cut, and the sign of
 * what it leaves. */
static double
floor_quotient(enum uop_dtype dtype, double x, double y)
{
    double t, r;

    if (isinf(x) && y != 0)
        return (double)NAN;
    if (dtype == UOP_F64) {
        t = trunc(x / y);
        r = fma(-t, y, x);
    } else {
        t = (double)truncf((float)x / (float)y);
        r = (double)fmaf((float)-t, (float)y, (float)x);
    }
    if (isinf(y))
        r = x;
    if (y < 0 ? r > 0 : r < 0)
        t = dtype == UOP_F64 ? t - 1 : (double)((float)t - 1);
    return t;
}

/* In double precision, then rounded. For + - * / and sqrt of F32 that is the
 * exact result rounded (53 bits are enough for twice 24 and 2 more); of a
 * MULACC it is not, and that is fused, as devices do it. */
static bool
eval_float(enum uop_op op, enum uop_dtype dtype, const double *v, double *out)
{
    double r;

    assert(uop_dtype_infos[dtype].is_float);
    switch ((unsigned)op) {
    case UOP_NEG:
        r = -v[0];
        break;
    case UOP_RECIP:
        r = 1.0 / v[0];
        break;
    case UOP_SQRT:
        r = sqrt(v[0]);
        break;
    case UOP_EXP2:
        r = exp2(v[0]);
        break;
    case UOP_LOG2:
        r = log2(v[0]);
        break;
    case UOP_SIN:
        r = sin(v[0]);
        break;
    case UOP_COS:
        r = cos(v[0]);
        break;
    case UOP_TRUNC:
        r = trunc(v[0]);
        break;
    case UOP_ADD:
        r = v[0] + v[1];
        break;
    case UOP_SUB:
        r = v[0] - v[1];
        break;
    case UOP_MUL:
        r = v[0] * v[1];
        break;
    case UOP_FDIV:
        r = v[0] / v[1];
        break;
    case UOP_MAX:
        r = float_max(v[0], v[1]);
        break;
    case UOP_MIN:
        r = -float_max(-v[0], -v[1]);
        break;
    case UOP_POW:
        r = pow(v[0], v[1]);
        break;
    case UOP_FMOD:
        r = fmod(v[0], v[1]);
        break;
    case UOP_FFLOORDIV:
        r = floor_quotient(dtype, v[0], v[1]);
        break;
    case UOP_MULACC:
        if (dtype == UOP_F64)
            r = fma(v[0], v[1], v[2]);
        else
            r = (double)fmaf((float)v[0], (float)v[1], (float)v[2]);
        break;
    default:
        return false;
    }
    *out = round_result(dtype, r);
    return true;
}

static int
int_bits(enum uop_dtype dtype)
{
    return dtype == UOP_BOOL ? 1 : uop_dtype_infos[dtype].size_bytes * 8;
}

/* Counts beyond the width shift everything out: what decompose makes of it on
 * devices that take the count modulo the width. */
static int64_t
eval_shift(enum uop_op op, enum uop_dtype dtype, int64_t x, int64_t y)
{
    bool in_range = y >= 0 && y < int_bits(dtype);

    assert(op == UOP_SHL || op == UOP_SHR);
    if (op == UOP_SHL)
        return in_range ? (int64_t)((uint64_t)x << y) : 0;
    if (dtype == UOP_U64)
        return in_range ? (int64_t)((uint64_t)x >> y) : 0;
    if (!in_range)
        return x < 0 ? -1 : 0;
    return x >> y;
}

static int64_t
eval_div(enum uop_op op, enum uop_dtype dtype, int64_t x, int64_t y)
{
    bool is_div = op == UOP_IDIV || op == UOP_FLOORDIV;

    if (y == 0)
        return 0;
    if (dtype == UOP_U64) {
        uint64_t a = (uint64_t)x, b = (uint64_t)y;
        return (int64_t)(is_div ? a / b : a % b);
    }
    if (y == -1)
        return is_div ? (int64_t)(0 - (uint64_t)x) : 0;
    switch ((unsigned)op) {
    case UOP_IDIV:
        return x / y;
    case UOP_IMOD:
        return x % y;
    case UOP_FLOORDIV:
        return floor_div(x, y);
    default:
        return floor_mod(x, y);
    }
}

static bool
int_less(enum uop_dtype dtype, int64_t x, int64_t y)
{
    return dtype == UOP_U64 ? (uint64_t)x < (uint64_t)y : x < y;
}

static bool
eval_int(enum uop_op op, enum uop_dtype dtype, const int64_t *v, int64_t *out)
{
    uint64_t a = (uint64_t)v[0], b = (uint64_t)v[1];
    bool is_bool = dtype == UOP_BOOL;
    int64_t r;

    assert(!uop_dtype_infos[dtype].is_float);
    switch ((unsigned)op) {
    case UOP_NEG:
        r = (int64_t)(0 - a);
        break;
    case UOP_ADD:
        r = (int64_t)(a + b);
        break;
    case UOP_SUB:
        r = (int64_t)(a - b);
        break;
    case UOP_MUL:
        r = (int64_t)(a * b);
        break;
    case UOP_MULACC:
        r = (int64_t)(is_bool ? (a & b) | (uint64_t)v[2]
                              : a * b + (uint64_t)v[2]);
        break;
    case UOP_IDIV:
    case UOP_IMOD:
    case UOP_FLOORDIV:
    case UOP_FLOORMOD:
        r = eval_div(op, dtype, v[0], v[1]);
        break;
    case UOP_MAX:
        r = int_less(dtype, v[0], v[1]) ? v[1] : v[0];
        break;
    case UOP_MIN:
        r = int_less(dtype, v[0], v[1]) ? v[0] : v[1];
        break;
    case UOP_SHL:
    case UOP_SHR:
        r = eval_shift(op, dtype, v[0], v[1]);
        break;
    case UOP_AND:
        r = (int64_t)(a & b);
        break;
    case UOP_OR:
        r = (int64_t)(a | b);
        break;
    case UOP_XOR:
        r = (int64_t)(a ^ b);
        break;
    default:
        return false;
    }
    *out = uop_wrap_int(dtype, r);
    return true;
}

static bool
eval_cmp(enum uop_op op, const struct uop *x, const struct uop *y)
{
    assert(x->op == UOP_CONST && y->op == UOP_CONST && x->dtype == y->dtype);
    if (uop_is_float(x)) {
        if (op == UOP_CMPLT)
            return x->arg.f < y->arg.f;
        return op == UOP_CMPEQ ? x->arg.f == y->arg.f : x->arg.f != y->arg.f;
    }
    if (op == UOP_CMPLT)
        return int_less(x->dtype, x->arg.i, y->arg.i);
    return (x->arg.i == y->arg.i) == (op == UOP_CMPEQ);
}

/* Truncates and saturates; NaN gives 0. */
static int64_t
float_to_int(enum uop_dtype dtype, double value)
{
    struct uop_bounds b = uop_dtype_bounds(dtype);

    assert(!uop_dtype_infos[dtype].is_float);
    if (isnan(value))
        return 0;
    if (dtype == UOP_U64) {
        if (value <= 0)
            return 0;
        if (value >= 18446744073709551616.0)
            return -1;
        return (int64_t)(uint64_t)value;
    }
    if (value <= (double)b.min)
        return b.min;
    if (value >= (double)b.max) /* 2^63 for int64, else exact */
        return b.max;
    return (int64_t)value;
}

static double
int_to_float(enum uop_dtype from, enum uop_dtype dtype, int64_t value)
{
    bool is_u64 = from == UOP_U64;

    assert(!uop_dtype_infos[from].is_float && uop_dtype_infos[dtype].is_float);
    if (dtype == UOP_F64)
        return is_u64 ? (double)(uint64_t)value : (double)value;
    return uop_round_float(dtype, is_u64 ? (double)(float)(uint64_t)value
                                         : (double)(float)value);
}

static void
eval_cast(const struct uop *x, enum uop_dtype dtype, union uop_arg *out)
{
    bool to_float = uop_dtype_infos[dtype].is_float;

    assert(x->op == UOP_CONST);
    if (uop_is_float(x)) {
        if (to_float)
            out->f = isnan(x->arg.f) ? (double)NAN
                                     : uop_round_float(dtype, x->arg.f);
        else if (dtype == UOP_BOOL)
            out->i = x->arg.f != 0;
        else
            out->i = float_to_int(dtype, x->arg.f);
    } else if (to_float) {
        out->f = int_to_float(x->dtype, dtype, x->arg.i);
    } else {
        out->i = uop_wrap_int(dtype, x->arg.i);
    }
}

/* ---- bits ---- */

static uint64_t
nan_bits(enum uop_dtype dtype)
{
    const struct uop_dtype_info *f = &uop_dtype_infos[dtype];
    unsigned n = f->size_bytes * 8u;

    assert(uop_dtype_infos[dtype].is_float);
    if (!f->has_minus_zero) /* what -0 would be */
        return 1ull << (n - 1);
    if (!f->has_inf) /* all ones */
        return (1ull << (n - 1)) - 1;
    return (1ull << (n - 1)) - (1ull << (f->fraction_bits - 1));
}

uint64_t
uop_float_bits(enum uop_dtype dtype, double value)
{
    const struct uop_dtype_info *f = &uop_dtype_infos[dtype];
    unsigned n = f->size_bytes * 8u;
    uint64_t sign = signbit(value) ? 1ull << (n - 1) : 0;
    int exp;

    assert(f->is_float);
    if (isnan(value))
        return nan_bits(dtype);
    value = fabs(value);
    if (isinf(value))
        return sign | ((1ull << (n - 1)) - (1ull << f->fraction_bits));
    if (value == 0)
        return f->has_minus_zero ? sign : 0;
    if (value < ldexp(1.0, f->min_exp)) /* subnormal: counts of the smallest */
        return sign | (uint64_t)ldexp(value, f->fraction_bits - f->min_exp);
    frexp(value, &exp); /* value = 1.x * 2^(exp - 1) */
    return sign | (((uint64_t)(exp - 1 - f->min_exp) << f->fraction_bits) +
                   (uint64_t)ldexp(value, f->fraction_bits + 1 - exp));
}

double
uop_float_value(enum uop_dtype dtype, uint64_t bits)
{
    const struct uop_dtype_info *f = &uop_dtype_infos[dtype];
    uint64_t sign = 1ull << (f->size_bytes * 8u - 1), size = bits & (sign - 1);
    uint64_t one = 1ull << f->fraction_bits, inf = sign - one;
    int exp = (int)(size / one) + f->min_exp - 1;
    double value;

    assert(f->is_float);
    if (f->has_inf ? size > inf
                   : (f->has_minus_zero ? size : bits) == nan_bits(dtype))
        return (double)NAN;
    if (f->has_inf && size == inf)
        value = INFINITY;
    else if (size < one)
        value = ldexp((double)size, f->min_exp - f->fraction_bits);
    else
        value = ldexp((double)(size % one + one), exp - f->fraction_bits);
    return bits & sign ? -value : value;
}

static bool
eval_bitcast(const struct uop *x, enum uop_dtype dtype, union uop_arg *out)
{
    uint64_t bits = (uint64_t)x->arg.i;

    assert(x->op == UOP_CONST);
    if (uop_is_float(x)) {
        if (isnan(x->arg.f))
            return false;
        bits = uop_float_bits(x->dtype, x->arg.f);
    }
    if (uop_dtype_infos[dtype].size_bytes !=
        uop_dtype_infos[x->dtype].size_bytes)
        return false;
    if (uop_dtype_infos[dtype].is_float) {
        out->f = uop_float_value(dtype, bits);
        return !isnan(out->f);
    }
    out->i = uop_wrap_int(dtype, (int64_t)bits);
    return true;
}

bool
uop_const_eval(enum uop_op op, enum uop_dtype dtype,
               const struct uop *const *src, uint32_t n_src,
               union uop_arg *out_arg)
{
    union uop_arg arg = {.bits = 0};
    int64_t ints[3] = {0, 0, 0};
    double floats[3] = {0, 0, 0};
    uint32_t i;

    if (n_src < 1 || n_src > 3 || n_src != uop_op_infos[op].min_src)
        return false;
    for (i = 0; i < n_src; i++) {
        if (src[i]->op != UOP_CONST || src[i]->dtype == UOP_VOID)
            return false;
        if (uop_is_float(src[i]))
            floats[i] = src[i]->arg.f;
        else
            ints[i] = src[i]->arg.i;
    }
    if (op == UOP_CAST) {
        eval_cast(src[0], dtype, &arg);
    } else if (op == UOP_BITCAST) {
        if (!eval_bitcast(src[0], dtype, &arg))
            return false;
    } else if (uop_op_infos[op].flags & UOP_FLAG_CMP) {
        arg.i = eval_cmp(op, src[0], src[1]);
    } else if (op == UOP_WHERE) {
        arg = ints[0] ? src[1]->arg : src[2]->arg;
    } else if (uop_dtype_infos[dtype].is_float) {
        if (!eval_float(op, dtype, floats, &arg.f))
            return false;
    } else if (!eval_int(op, dtype, ints, &arg.i)) {
        return false;
    }
    *out_arg = arg;
    return true;
}
