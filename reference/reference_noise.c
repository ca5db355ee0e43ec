/* Noise in the reference evaluator: the errors that a correct device may
 * make. Exact results stay exact, so that counting and indexing in floats
 * keep their meaning. */
#include "reference/reference_internal.h"

#include <math.h>

#include "base/map.h"

/* Bits of fraction of a float dtype. */
static int
fraction_bits(enum uop_dtype dtype)
{
    return uop_dtype_infos[dtype].fraction_bits;
}

static double
smallest_normal(enum uop_dtype dtype)
{
    return ldexp(1, uop_dtype_infos[dtype].min_exp);
}

/* Somewhere from -1 to 1; the ends are as likely as all between. */
static double
draw(const struct ref_noise *noise, uint64_t salt)
{
    uint64_t bits = hash_add(noise->seed, salt);

    if (bits & 1)
        return bits & 2 ? 1.0 : -1.0;
    return (double)(bits >> 11) * 0x1p-52 - 1.0;
}

uint64_t
ref_noise_salt(const struct ref_noise *noise, const struct uop *u, size_t k,
               double x, double y)
{
    uint64_t salt = (uint64_t)u->id << 32;

    if (noise->seed & 1)
        return salt ^ k;
    return hash_add(hash_add(salt, uop_float_bits(UOP_F64, x)),
                    uop_float_bits(UOP_F64, y));
}

double
ref_noisy_flush(const struct ref_noise *noise, uint64_t salt,
                enum uop_dtype dtype, double x)
{
    if (!noise->flushes_f32 || (dtype != UOP_F32 && dtype != UOP_BF16) ||
        !(fabs(x) < smallest_normal(dtype)))
        return x;
    if (noise->seed % 4 == 1 || draw(noise, ~salt) > 0)
        return copysign(0, x);
    return x;
}

/* Does a device that takes subnormal numbers for 0 do so of the operands? A
 * quotient by a power of two may be a product. */
static bool
flushes_operands(enum uop_op op, double y)
{
    int exponent;

    return op == UOP_ADD || op == UOP_SUB || op == UOP_MUL ||
           (op == UOP_FDIV && isfinite(y) && fabs(frexp(y, &exponent)) == 0.5);
}

/* And of the result? */
static bool
flushes_result(enum uop_op op, double y)
{
    return flushes_operands(op, y) || op == UOP_EXP2 || op == UOP_SIN ||
           op == UOP_COS || op == UOP_POW;
}

/* Whether the op's exact result on x and y is `value` itself. */
static bool
is_exact(enum uop_op op, enum uop_dtype dtype, double x, double y, double value)
{
    double r;

    switch ((int)op) {
    case UOP_ADD:
    case UOP_SUB:
        if (op == UOP_SUB)
            y = -y;
        r = x + y; /* exact in double if its parts come back (two-sum) */
        return r == value && (x - (r - (r - x))) + (y - (r - x)) == 0;
    case UOP_MUL:
        return fma(x, y, -value) == 0;
    case UOP_FDIV:
        return fma(value, y, -x) == 0;
    case UOP_RECIP:
        return fma(value, x, -1.0) == 0;
    case UOP_SQRT:
        return fma(value, value, -x) == 0;
    case UOP_EXP2:
    case UOP_LOG2:
        return x == 0 || x == 1;
    case UOP_SIN:
    case UOP_COS:
        return x == 0;
    case UOP_POW: /* not all that is: the devices' meet what the dtype holds */
        return x == 1 || y == 0 || y == 1;
    case UOP_FFLOORDIV: /* above it what is rounded may not be the floor */
        return fabs(value) < ldexp(2, fraction_bits(dtype));
    default: /* NEG, TRUNC, FMOD, MAX, MIN */
        return true;
    }
}

/* How far a device may be off, in units in the last place. */
static double
ulps_of(enum uop_op op)
{
    switch ((int)op) {
    case UOP_EXP2:
    case UOP_LOG2:
    case UOP_SIN:
    case UOP_COS:
    case UOP_POW:
        return 3;
    default:
        return 1;
    }
}

static double
greatest(enum uop_dtype dtype)
{
    return uop_dtype_infos[dtype].greatest;
}

/* Whether finite operands gave an infinity because the result is too large. A
 * device that rounds later need not meet it. */
static bool
overflowed(enum uop_op op, double x, double y, double value)
{
    if (!isinf(value) || !isfinite(x))
        return false;
    if (op == UOP_ADD || op == UOP_SUB || op == UOP_MUL)
        return isfinite(y);
    if (op == UOP_FDIV)
        return y != 0;
    return op == UOP_EXP2 || (op == UOP_POW && x != 0 && isfinite(y));
}

static double
move_result(const struct ref_noise *noise, uint64_t salt, enum uop_op op,
            enum uop_dtype dtype, double x, double y, double value)
{
    double ulp, size = fabs(value);

    /* Some stay one, or, in every third noise, none: a sum of many in both
     * signs would be NaN each time. */
    if (overflowed(op, x, y, value)) {
        if (noise->seed % 3 && draw(noise, salt) > 0)
            return value;
        size = greatest(dtype);
        /* in another order it meets small factors first */
        if (op == UOP_MUL && noise->regroups && draw(noise, salt ^ 7) > 0)
            size = exp2(fabs(draw(noise, salt ^ 8)) * log2(size));
        return copysign(size, value);
    }
    if (!isfinite(value) || is_exact(op, dtype, x, y, value))
        return value;
    ulp = ldexp(fmax(size, smallest_normal(dtype)), -fraction_bits(dtype));
    return uop_round_float(dtype, value + draw(noise, salt) * noise->ulps *
                                              ulps_of(op) * ulp);
}

double
ref_noisy_alu(const struct ref_noise *noise, uint64_t salt, enum uop_op op,
              enum uop_dtype dtype, double x, double y, double value)
{
    double a = x, b = y;

    if (op == UOP_RECIP)
        a = ref_noisy_zero(noise, salt ^ 8, x);
    if (op == UOP_FDIV)
        b = ref_noisy_zero(noise, salt ^ 9, y);
    if (flushes_operands(op, y)) {
        a = ref_noisy_flush(noise, salt ^ 1, dtype, x);
        b = ref_noisy_flush(noise, salt ^ 2, dtype, y);
    }
    if (a != x || b != y || signbit(a) != signbit(x) ||
        signbit(b) != signbit(y))
        value = ref_alu_float(op, dtype, a, b);
    value = move_result(noise, salt, op, dtype, a, b, value);
    return flushes_result(op, y)
               ? ref_noisy_flush(noise, salt ^ 3, dtype, value)
               : value;
}

double
ref_noisy_round(const struct ref_noise *noise, uint64_t salt,
                enum uop_dtype dtype, double value)
{
    double ulp =
        ldexp(fmax(fabs(value), smallest_normal(dtype)), -fraction_bits(dtype));

    if (!isfinite(value) || value == 0)
        return value;
    return uop_round_float(dtype, value + draw(noise, salt) * ulp);
}

double
ref_noisy_zero(const struct ref_noise *noise, uint64_t salt, double x)
{
    return noise->regroups && x == 0 && draw(noise, salt) > 0 ? -x : x;
}

uint64_t
ref_noisy_nan(const struct ref_noise *noise, uint64_t salt,
              enum uop_dtype dtype, uint64_t bits)
{
    const struct uop_dtype_info *f = &uop_dtype_infos[dtype];
    uint64_t sign = (uint64_t)f->has_minus_zero << (8 * f->size_bytes - 1);
    uint64_t payload = f->has_inf ? (1ull << (f->fraction_bits - 1)) - 1 : 0;

    if (noise->seed % 4 == 3 && draw(noise, salt) > 0)
        return bits;
    return bits ^ (noise->seed & 1 ? sign : payload);
}

/* Whether the order of the elements decides if a partial result overflows, or
 * loses its digits below the smallest number while others are large or
 * infinite. */
static bool
depends_on_order(enum uop_op op, enum uop_dtype dtype, double total,
                 double mass, double dust)
{
    if (op == UOP_ADD)
        return mass > greatest(dtype);
    if (mass >= log2(greatest(dtype)))
        return true;
    return (mass > 0 || !isfinite(total)) &&
           dust < log2(smallest_normal(dtype));
}

/* What another order may make of a total: NaN, which stands for any value but
 * NaN itself, so at times another: the product as it is where no partial
 * product overflows, 0 where a partial one is below the smallest number, the
 * greatest number, or an infinity for a sum. */
static double
spoil(const struct ref_noise *noise, uint64_t salt, enum uop_op op,
      enum uop_dtype dtype, double total, double mass, double dust)
{
    if (op == UOP_MUL && isinf(total) && mass + dust < log2(greatest(dtype)) &&
        draw(noise, salt ^ 4) > 0)
        return copysign(exp2(mass + dust), total);
    if (op == UOP_MUL && dust < log2(smallest_normal(dtype)) &&
        draw(noise, salt ^ 5) > 0)
        return copysign(0, total);
    /* a factor of 0 that comes later may have been met before */
    if (op == UOP_MUL && noise->regroups && draw(noise, ~salt) > 0)
        return copysign(greatest(dtype), total);
    if (op == UOP_ADD && draw(noise, salt ^ 5) > 0)
        return copysign(draw(noise, salt ^ 6) > 0 ? greatest(dtype) : INFINITY,
                        total);
    return NAN;
}

static double
move_total(const struct ref_noise *noise, uint64_t salt, enum uop_op op,
           enum uop_dtype dtype, double total, double mass, double dust,
           size_t n, bool fine, bool nan)
{
    double eps = ldexp(1.0, -fraction_bits(dtype)), scale;
    double error = noise->ulps * eps * mass * (1 + log2((double)n)); /* sums' */
    bool lost;

    /* partial sums that are subnormal */
    if (noise->flushes_f32 && (dtype == UOP_F32 || dtype == UOP_BF16))
        error += (double)n * smallest_normal(dtype);
    /* Large elements that cancel may take the others with them; what is left
     * of rounding may be 0 elsewhere, which dividing by it tells. */
    lost = op == UOP_ADD && noise->seed & 1 && fabs(total) < error;
    if (op == UOP_ADD && total == 0 && mass == 0)
        return draw(noise, salt) > 0 ? -0.0 : 0.0;
    if (n <= 1 || (op != UOP_ADD && op != UOP_MUL))
        return total;
    /* in every third noise none is spoilt: of many in a row one always would */
    if (depends_on_order(op, dtype, total, mass, dust))
        return noise->seed % 3 && draw(noise, salt) > 0
                   ? (isnan(total) && !nan
                          ? 0
                          : spoil(noise, salt, op, dtype, total, mass, dust))
               : lost ? 0
                      : total;
    if (!isfinite(total))
        return total;
    scale = op == UOP_ADD ? mass : exp2(mass);
    if (fine && scale * 256 * eps < 1 && (op == UOP_ADD || dust == 0))
        return total;
    if (op == UOP_MUL)
        error = noise->ulps * eps * fabs(total) * (double)n;
    total = lost ? 0 : total + draw(noise, salt) * error;
    /* in every third noise none is moved beyond all numbers */
    return noise->seed % 3
               ? total
               : fmax(-greatest(dtype), fmin(greatest(dtype), total));
}

double
ref_noisy_reduce(const struct ref_noise *noise, uint64_t salt, enum uop_op op,
                 enum uop_dtype dtype, double total, double mass, double dust,
                 size_t n, bool fine, bool nan)
{
    total = move_total(noise, salt, op, dtype, total, mass, dust, n, fine, nan);
    return op == UOP_ADD || op == UOP_MUL
               ? ref_noisy_flush(noise, salt, dtype, total)
               : total;
}
