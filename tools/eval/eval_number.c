/* Arithmetic of plain numbers in expressions, as Python has it; integers are
 * of 64 bits, and one that does not fit is an error. */
#include "tools/eval/eval_expr.h"

#include <math.h>

#include "base/bits.h"

static bell_status
too_large(void)
{
    return bell_fail(BELL_E_INVALID,
                     "the result does not fit in a 64-bit integer");
}

static bell_status
by_zero(void)
{
    return bell_fail(BELL_E_INVALID, "division by zero");
}

static double
as_float(const struct bell_value *v)
{
    if (v->kind == BELL_VALUE_FLOAT)
        return v->f;
    return v->kind == BELL_VALUE_BOOL ? (double)v->b : (double)v->i;
}

static int64_t
as_int(const struct bell_value *v)
{
    return v->kind == BELL_VALUE_BOOL ? v->b : v->i;
}

static BELL_MUST_CHECK bell_status
int_power(int64_t x, int64_t y, struct bell_value *out)
{
    int64_t r = 1;

    if (y < 0) {
        if (x == 0)
            return by_zero();
        *out = bell_of_float(pow((double)x, (double)y));
        return BELL_OK;
    }
    if (x == 0 || x == 1 || x == -1) { /* any exponent, at once */
        *out = bell_of_int(y == 0 ? 1 : x == -1 && y % 2 == 0 ? 1 : x);
        return BELL_OK;
    }
    for (; y > 0; y--) { /* at most 63 steps before it overflows */
        if (__builtin_mul_overflow(r, x, &r))
            return too_large();
    }
    *out = bell_of_int(r);
    return BELL_OK;
}

static BELL_MUST_CHECK bell_status
int_division(enum eval_op op, int64_t x, int64_t y, struct bell_value *out)
{
    if (y == 0)
        return by_zero();
    if (op == EVAL_DIV)
        *out = bell_of_float((double)x / (double)y);
    else if (x == INT64_MIN && y == -1)
        return op == EVAL_MOD ? (*out = bell_of_int(0), BELL_OK) : too_large();
    else
        *out = bell_of_int(op == EVAL_MOD ? floor_mod(x, y) : floor_div(x, y));
    return BELL_OK;
}

static BELL_MUST_CHECK bell_status
int_shift(enum eval_op op, int64_t x, int64_t y, struct bell_value *out)
{
    int64_t r;

    if (y < 0)
        return bell_fail(BELL_E_INVALID, "negative shift count");
    if (op == EVAL_SHR) {
        *out = bell_of_int(x < 0 ? ~(~x >> (y > 63 ? 63 : y))
                                 : x >> (y > 63 ? 63 : y));
        return BELL_OK;
    }
    if (x != 0 && (y > 62 || __builtin_mul_overflow(x, (int64_t)1 << y, &r)))
        return too_large();
    *out = bell_of_int(x == 0 ? 0 : r);
    return BELL_OK;
}

static BELL_MUST_CHECK bell_status
int_number(enum eval_op op, int64_t x, int64_t y, struct bell_value *out)
{
    bool overflow = false;
    int64_t r = 0;

    switch ((int)op) {
    case EVAL_ADD:
        overflow = __builtin_add_overflow(x, y, &r);
        break;
    case EVAL_SUB:
        overflow = __builtin_sub_overflow(x, y, &r);
        break;
    case EVAL_MUL:
        overflow = __builtin_mul_overflow(x, y, &r);
        break;
    case EVAL_AND:
        r = x & y;
        break;
    case EVAL_OR:
        r = x | y;
        break;
    case EVAL_XOR:
        r = x ^ y;
        break;
    case EVAL_POW:
        return int_power(x, y, out);
    case EVAL_SHL:
    case EVAL_SHR:
        return int_shift(op, x, y, out);
    default:
        return int_division(op, x, y, out);
    }
    if (overflow)
        return too_large();
    *out = bell_of_int(r);
    return BELL_OK;
}

/* Exact; a zero has the divisor's sign. */
static double
float_remainder(double x, double y)
{
    double r = fmod(x, y);

    if (r == 0)
        return copysign(0, y);
    return (r < 0) != (y < 0) ? r + y : r;
}

/* From what is left: x / y alone may round up to a whole number. */
static double
float_quotient(double x, double y)
{
    double r = fmod(x, y), q = (x - r) / y;

    if (r != 0 && (r < 0) != (y < 0))
        q -= 1;
    return q == 0 ? copysign(0, x / y) : round(q);
}

static BELL_MUST_CHECK bell_status
float_number(enum eval_op op, double x, double y, struct bell_value *out)
{
    double r;

    if ((op == EVAL_DIV || op == EVAL_FLOORDIV || op == EVAL_MOD) && y == 0)
        return by_zero();
    switch ((int)op) {
    case EVAL_ADD:
        r = x + y;
        break;
    case EVAL_SUB:
        r = x - y;
        break;
    case EVAL_MUL:
        r = x * y;
        break;
    case EVAL_DIV:
        r = x / y;
        break;
    case EVAL_FLOORDIV:
        r = float_quotient(x, y);
        break;
    case EVAL_MOD:
        r = float_remainder(x, y);
        break;
    case EVAL_POW:
        r = pow(x, y);
        break;
    default:
        return bell_fail(BELL_E_INVALID, "this operator takes integers, not "
                                         "floats");
    }
    *out = bell_of_float(r);
    return BELL_OK;
}

/* Comparisons: exact between integers. */
static bool
compare_eval_values(enum eval_op op, const struct bell_value *x,
                    const struct bell_value *y)
{
    bool floats = x->kind == BELL_VALUE_FLOAT || y->kind == BELL_VALUE_FLOAT;
    double fx = as_float(x), fy = as_float(y);
    bool less = floats ? fx < fy : as_int(x) < as_int(y);
    bool more = floats ? fx > fy : as_int(x) > as_int(y);
    bool same = floats ? fx == fy : as_int(x) == as_int(y);

    switch ((int)op) {
    case EVAL_LT:
        return less;
    case EVAL_LE:
        return less || same;
    case EVAL_GT:
        return more;
    case EVAL_GE:
        return more || same;
    case EVAL_EQ:
        return same;
    default:
        return !same;
    }
}

bell_status
eval_number(enum eval_op op, const struct bell_value *x,
            const struct bell_value *y, struct bell_value *out_value)
{
    bool bools = x->kind == BELL_VALUE_BOOL && y->kind == BELL_VALUE_BOOL;

    if (op == EVAL_MATMUL)
        return bell_fail(BELL_E_INVALID, "@ takes tensors, not numbers");
    if (op >= EVAL_LT) {
        *out_value = bell_of_bool(compare_eval_values(op, x, y));
        return BELL_OK;
    }
    if (x->kind == BELL_VALUE_FLOAT || y->kind == BELL_VALUE_FLOAT)
        return float_number(op, as_float(x), as_float(y), out_value);
    BELL_TRY(int_number(op, as_int(x), as_int(y), out_value));
    if (bools && (op == EVAL_AND || op == EVAL_OR || op == EVAL_XOR))
        *out_value = bell_of_bool(out_value->i != 0);
    return BELL_OK;
}
