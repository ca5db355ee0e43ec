/* The reference evaluator's arithmetic: one element at a time, from the
 * sentences of uops/ops.def. */
#include "reference/reference_internal.h"

#include <math.h>

static unsigned
dtype_bits(enum uop_dtype dtype)
{
    return dtype == UOP_BOOL ? 1u : uop_dtype_infos[dtype].size_bytes * 8u;
}

static int64_t
int_min(enum uop_dtype dtype)
{
    if (!uop_dtype_infos[dtype].is_signed)
        return 0;
    return (int64_t)(~0ull << (dtype_bits(dtype) - 1));
}

/* U64: the bits of its greatest value. */
static int64_t
int_max(enum uop_dtype dtype)
{
    unsigned bits = dtype_bits(dtype);

    if (uop_dtype_infos[dtype].is_signed)
        bits--;
    return bits == 64 ? -1 : (int64_t)((1ull << bits) - 1);
}

bool
ref_alu_known(enum uop_op op, enum uop_dtype dtype)
{
    uint16_t flags = uop_op_infos[op].flags;
    bool is_float = uop_dtype_infos[dtype].is_float;

    if (!(flags & UOP_FLAG_ALU) || !(flags & UOP_FLAG_T) || dtype == UOP_VOID)
        return false;
    if ((flags & UOP_FLAG_FLT) && !is_float)
        return false;
    return !(flags & UOP_FLAG_INT) || !is_float;
}

/* From the remainder, which is exact. */
static double
floor_quotient(double x, double y)
{
    double r = fmod(x, y), q = (x - r) / y;

    if (y == 0)
        return x / y;
    if (r != 0 && (r < 0) != (y < 0))
        q -= 1;
    return q == 0 ? copysign(0, x / y) : round(q);
}

/* NaN if either is, and +0 above -0. */
static double
maximum(double x, double y)
{
    if (isnan(x) || isnan(y))
        return NAN;
    return x > y || (x == y && !signbit(x)) ? x : y;
}

/* clang-format off */
static double
exact_float(enum uop_op op, double x, double y)
{
    switch ((int)op) {
    case UOP_NEG:   return -x;
    case UOP_RECIP: return 1.0 / x;
    case UOP_SQRT:  return sqrt(x);
    case UOP_EXP2:  return exp2(x);
    case UOP_LOG2:  return log2(x);
    case UOP_SIN:   return sin(x);
    case UOP_COS:   return cos(x);
    case UOP_TRUNC: return trunc(x);
    case UOP_ADD:   return x + y;
    case UOP_SUB:   return x - y;
    case UOP_MUL:   return x * y;
    case UOP_FDIV:  return x / y;
    case UOP_POW:   return pow(x, y);
    case UOP_FMOD:  return fmod(x, y);
    case UOP_FFLOORDIV: return floor_quotient(x, y);
    case UOP_MAX:   return maximum(x, y);
    case UOP_MIN:   return -maximum(-x, -y);
    default:        return NAN;
    }
}
/* clang-format on */

double
ref_alu_float(enum uop_op op, enum uop_dtype dtype, double x, double y)
{
    double value = exact_float(op, x, y);

    return isnan(value) ? value : uop_round_float(dtype, value);
}

/* Quotient towards zero; 0 for y == 0, and MIN / -1 left to wrapping. */
static int64_t
div_trunc(enum uop_dtype dtype, int64_t x, int64_t y)
{
    if (y == 0)
        return 0;
    if (!uop_dtype_infos[dtype].is_signed)
        return (int64_t)((uint64_t)x / (uint64_t)y);
    if (y == -1)
        return (int64_t)(0 - (uint64_t)x);
    return x / y;
}

static int64_t
mod_trunc(enum uop_dtype dtype, int64_t x, int64_t y)
{
    if (y == 0)
        return 0;
    if (!uop_dtype_infos[dtype].is_signed)
        return (int64_t)((uint64_t)x % (uint64_t)y);
    return y == -1 ? 0 : x % y;
}

static bool
rounds_down(int64_t x, int64_t y, int64_t rem)
{
    return rem != 0 && (x < 0) != (y < 0);
}

static int64_t
div_floor(enum uop_dtype dtype, int64_t x, int64_t y)
{
    int64_t q = div_trunc(dtype, x, y);

    if (uop_dtype_infos[dtype].is_signed &&
        rounds_down(x, y, mod_trunc(dtype, x, y)))
        q--;
    return q;
}

static int64_t
mod_floor(enum uop_dtype dtype, int64_t x, int64_t y)
{
    int64_t r = mod_trunc(dtype, x, y);

    if (uop_dtype_infos[dtype].is_signed && rounds_down(x, y, r))
        r += y;
    return r;
}

static int64_t
shift_left(enum uop_dtype dtype, int64_t x, int64_t y)
{
    if (y < 0 || y >= (int64_t)dtype_bits(dtype))
        return 0;
    return (int64_t)((uint64_t)x << y);
}

static int64_t
shift_right(enum uop_dtype dtype, int64_t x, int64_t y)
{
    bool is_signed = uop_dtype_infos[dtype].is_signed;

    if (y < 0 || y >= (int64_t)dtype_bits(dtype))
        return is_signed && x < 0 ? -1 : 0;
    if (is_signed && x < 0)
        return ~(~x >> y);
    return (int64_t)((uint64_t)x >> y);
}

static bool
less_int(enum uop_dtype dtype, int64_t x, int64_t y)
{
    return dtype == UOP_U64 ? (uint64_t)x < (uint64_t)y : x < y;
}

/* clang-format off */
static int64_t
exact_int(enum uop_op op, enum uop_dtype dtype, int64_t x, int64_t y)
{
    uint64_t ux = (uint64_t)x, uy = (uint64_t)y;

    switch ((int)op) {
    case UOP_NEG:      return (int64_t)(0 - ux);
    case UOP_ADD:      return (int64_t)(ux + uy);
    case UOP_SUB:      return (int64_t)(ux - uy);
    case UOP_MUL:      return (int64_t)(ux * uy);
    case UOP_IDIV:     return div_trunc(dtype, x, y);
    case UOP_IMOD:     return mod_trunc(dtype, x, y);
    case UOP_FLOORDIV: return div_floor(dtype, x, y);
    case UOP_FLOORMOD: return mod_floor(dtype, x, y);
    case UOP_MAX:      return less_int(dtype, x, y) ? y : x;
    case UOP_MIN:      return less_int(dtype, x, y) ? x : y;
    case UOP_SHL:      return shift_left(dtype, x, y);
    case UOP_SHR:      return shift_right(dtype, x, y);
    case UOP_AND:      return x & y;
    case UOP_OR:       return x | y;
    case UOP_XOR:      return x ^ y;
    default:           return 0;
    }
}
/* clang-format on */

int64_t
ref_alu_int(enum uop_op op, enum uop_dtype dtype, int64_t x, int64_t y)
{
    int64_t value = exact_int(op, dtype, x, y);

    /* A bool is 0 or 1: "or" for ADD and "and" for MUL come of themselves. */
    return dtype == UOP_BOOL ? value != 0 : uop_wrap_int(dtype, value);
}

int64_t
ref_compare_float(enum uop_op op, double x, double y)
{
    if (op == UOP_CMPLT)
        return x < y;
    return op == UOP_CMPEQ ? x == y : x != y;
}

int64_t
ref_compare_int(enum uop_op op, enum uop_dtype dtype, int64_t x, int64_t y)
{
    if (op == UOP_CMPLT)
        return less_int(dtype, x, y);
    return op == UOP_CMPEQ ? x == y : x != y;
}

/* Truncates, saturates, NaN gives 0; BOOL is != 0 (true for NaN). */
int64_t
ref_float_to_int(enum uop_dtype to, double x)
{
    bool is_signed = uop_dtype_infos[to].is_signed;
    double limit;

    if (to == UOP_BOOL)
        return x != 0;
    if (isnan(x))
        return 0;
    limit = ldexp(1.0, (int)dtype_bits(to) - is_signed);
    x = trunc(x);
    if (x >= limit)
        return int_max(to);
    if (x < (is_signed ? -limit : 0.0))
        return int_min(to);
    return to == UOP_U64 ? (int64_t)(uint64_t)x : (int64_t)x;
}

/* The double nearest to a 64-bit magnitude, or (round to odd) one whose last
 * bit stays set while any bit was lost: rounding that again to a narrower
 * type gives what rounding once would have. */
static double
magnitude_to_double(uint64_t mag, bool to_odd)
{
    unsigned drop = 0;
    uint64_t kept;

    if (!to_odd)
        return (double)mag;
    while (mag >> drop >= 1ull << 53)
        drop++;
    kept = mag >> drop;
    if (kept << drop != mag)
        kept |= 1;
    return ldexp((double)kept, (int)drop);
}

double
ref_int_to_float(enum uop_dtype from, enum uop_dtype to, int64_t x)
{
    bool negative = from != UOP_U64 && x < 0;
    uint64_t mag = negative ? 0 - (uint64_t)x : (uint64_t)x;
    double value = magnitude_to_double(mag, to != UOP_F64);

    return uop_round_float(to, negative ? -value : value);
}

double
ref_neutral_float(enum uop_op op)
{
    if (op == UOP_MAX)
        return -INFINITY;
    if (op == UOP_MIN)
        return INFINITY;
    return op == UOP_MUL ? 1.0 : 0.0;
}

int64_t
ref_neutral_int(enum uop_op op, enum uop_dtype dtype)
{
    if (op == UOP_MAX)
        return int_min(dtype);
    if (op == UOP_MIN)
        return int_max(dtype);
    if (op == UOP_AND)
        return uop_wrap_int(dtype, -1);
    return op == UOP_MUL;
}
