/* The oracle: functions of two and three tensors, element by element. */
#include "tools/fuzz/oracle.h"

#include <math.h>

#include "base/bits.h"

#define FUNCTION(name, value)                                                  \
    static long double name(long double x, long double y)                      \
    {                                                                          \
        return value;                                                          \
    }
#define INT_FUNCTION(name, value)                                              \
    static uint64_t name(uint64_t x, uint64_t y, const struct oracle_dtype *t) \
    {                                                                          \
        return t->is_signed || !t->is_signed ? (uint64_t)(value) : 0;          \
    }

#define NOT_A ((long double)NAN)

static bool
is_negative(uint64_t x, const struct oracle_dtype *t)
{
    return t->is_signed && (int64_t)x < 0;
}

static bool
is_less(uint64_t x, uint64_t y, const struct oracle_dtype *t)
{
    return t->is_signed ? (int64_t)x < (int64_t)y : x < y;
}

/* ---- arithmetic ---- */

FUNCTION(f_mul, x *y)
FUNCTION(f_div, x / y)
FUNCTION(d_one, 1 + 0 * (x == y))
FUNCTION(d_zero, 0 * (x == y))
FUNCTION(f_first, x + 0 * (y == 0))
FUNCTION(f_second, y + 0 * (x == 0))
FUNCTION(d_div_x, 1 / y + 0 * (x == 0))
FUNCTION(d_div_y, -x / y / y)

INT_FUNCTION(i_mul, x *y)

/* Exact: from the remainder, as Python does it. */
static long double
remainder_of(long double x, long double y)
{
    long double r = fmodl(x, y);

    if (r != 0 && (r < 0) != (y < 0))
        r += y;
    return r; /* the sign of a zero is x's, as in PyTorch */
}

static long double
floor_quotient(long double x, long double y)
{
    long double r = fmodl(x, y), q;

    if (y == 0 || isnan(r))
        return y == 0 ? x / y : r;
    q = (x - r) / y;
    if (r != 0 && (r < 0) != (y < 0))
        q -= 1;
    return q == 0 ? copysignl(0, x / y) : rintl(q);
}

static long double
trunc_quotient(long double x, long double y)
{
    long double r = fmodl(x, y), q;

    if (isinf(x) && isfinite(y))
        return x / y;
    if (y == 0 || isnan(r))
        return y == 0 ? x / y : r;
    q = (x - r) / y;
    return q == 0 ? copysignl(0, x / y) : rintl(q);
}

/* The slope by the divisor is the quotient; not where there is none. */
static long double
d_fmod(long double x, long double y)
{
    return isnan(x) || !isfinite(y) || y == 0 ? ORACLE_ANY
                                              : -trunc_quotient(x, y);
}

static long double
d_remainder(long double x, long double y)
{
    return !isfinite(x) || !isfinite(y) || y == 0 ? ORACLE_ANY
                                                  : -floor_quotient(x, y);
}

static uint64_t
i_trunc_divide(uint64_t x, uint64_t y, const struct oracle_dtype *t)
{
    if (y == 0)
        return 0;
    if (!t->is_signed)
        return x / y;
    return y == UINT64_MAX ? 0 - x : (uint64_t)((int64_t)x / (int64_t)y);
}

static uint64_t
i_floor_divide(uint64_t x, uint64_t y, const struct oracle_dtype *t)
{
    uint64_t q = i_trunc_divide(x, y, t);

    return y != 0 && x != q * y && is_negative(x, t) != is_negative(y, t)
               ? q - 1
               : q;
}

INT_FUNCTION(i_fmod, y == 0 ? 0 : x - i_trunc_divide(x, y, t) * y)
INT_FUNCTION(i_remainder, y == 0 ? 0 : x - i_floor_divide(x, y, t) * y)

static uint64_t
i_pow(uint64_t x, uint64_t y, const struct oracle_dtype *t)
{
    uint64_t r = 1;

    if (is_negative(y, t)) /* of 1 and -1 themselves, else 0 */
        return x == 1 ? 1 : x == UINT64_MAX ? (y & 1 ? x : 1) : 0;
    for (; y; y >>= 1, x *= x)
        r = y & 1 ? r * x : r;
    return r;
}

/* Above all, C's pow. */
/* Is y - 1 a float that is whole where y is, and x not so small that parts of
 * the slope overflow? */
static bool
has_whole(long double x, long double y)
{
    if (signbit(x) &&
        (fabsl(y) > 0x1p23L || (y != rintl(y) && fabsl(y - rintl(y)) < 1e-3L)))
        return false;
    return x == 0 ? y != 0.5L : fabsl(x) > 0x1p-120L;
}

/* The square root where that is asked for, as in PyTorch: it differs at -0 and
 * minus infinity. */
FUNCTION(f_pow, y == 0.5L && (signbit(x) && (x == 0 || isinf(x))) ? ORACLE_ANY
                                                                  : powl(x, y))
FUNCTION(d_pow_x, y == 0                         ? 0
                  : !isfinite(x) || !isfinite(y) ? ORACLE_ANY
                  : !has_whole(x, y)             ? ORACLE_ANY
                                                 : y * powl(x, y - 1))
FUNCTION(d_pow_y, !isfinite(x) || !isfinite(y) ? ORACLE_ANY
                  : x == 0 && y >= 0           ? 0
                                               : powl(x, y) * logl(x))

/* Zeros that compare equal are in order, -0 before +0. */
static long double
greater(long double x, long double y)
{
    if (isnan(x) || isnan(y))
        return isnan(x) ? x : y;
    return x == y ? (signbit(x) ? y : x) : x > y ? x : y;
}

static long double
smaller(long double x, long double y)
{
    return -greater(-x, -y);
}

FUNCTION(d_max_x, isnan(x) || isnan(y) ? ORACLE_ANY : x == y ? 0.5L : x > y)
FUNCTION(d_max_y, d_max_x(y, x))
FUNCTION(d_min_x, isnan(x) || isnan(y) ? ORACLE_ANY : x == y ? 0.5L : x < y)
FUNCTION(d_min_y, d_min_x(y, x))
INT_FUNCTION(i_max, is_less(x, y, t) ? y : x)
INT_FUNCTION(i_min, is_less(x, y, t) ? x : y)

/* ---- of two variables ---- */

/* Slopes at infinity are limits that depend on the way there. */
FUNCTION(d_atan2_y, !isfinite(x) || !isfinite(y) ? ORACLE_ANY
                    : x == 0 && y == 0           ? 0
                                                 : y / (x * x + y * y))
FUNCTION(d_atan2_x, !isfinite(x) || !isfinite(y) ? ORACLE_ANY
                    : x == 0 && y == 0           ? 0
                                                 : -x / (x * x + y * y))
FUNCTION(d_hypot_x, isinf(x) && isinf(y)       ? ORACLE_ANY
                    : isinf(x)                 ? copysignl(1, x)
                    : isinf(y)                 ? 0
                    : isnan(x) || isnan(y)     ? ORACLE_ANY
                    : x == 0                   ? 0
                    : hypotl(x, y) < 0x1p-125L ? ORACLE_ANY
                                               : x / hypotl(x, y))
FUNCTION(d_hypot_y, d_hypot_x(y, x))

static long double
log_add_exp(long double x, long double y)
{
    if (isnan(x) || isnan(y))
        return NOT_A;
    return x == y ? x + logl(2) : fmaxl(x, y) + log1pl(expl(-fabsl(x - y)));
}

FUNCTION(d_logaddexp_x,
         !isfinite(x) || !isfinite(y) ? ORACLE_ANY : 1 / (1 + expl(y - x)))
FUNCTION(d_logaddexp_y, d_logaddexp_x(y, x))
FUNCTION(d_copysign_x, isnan(x) || isnan(y)       ? ORACLE_ANY
                       : x == 0                   ? 0
                       : signbit(x) == signbit(y) ? 1
                                                  : -1)

/* ---- bits, comparisons, logic ---- */

INT_FUNCTION(i_and, x &y)
INT_FUNCTION(i_or, x | y)
INT_FUNCTION(i_xor, x ^ y)

static uint64_t
i_shl(uint64_t x, uint64_t y, const struct oracle_dtype *t)
{
    return y < 8u * t->size_bytes ? x << y : 0;
}

static uint64_t
i_shr(uint64_t x, uint64_t y, const struct oracle_dtype *t)
{
    if (y >= 8u * t->size_bytes)
        return is_negative(x, t) ? UINT64_MAX : 0;
    return is_negative(x, t) ? ~(~x >> y) : x >> y;
}

FUNCTION(f_eq, x == y)
FUNCTION(f_ne, x != y)
FUNCTION(f_lt, x < y)
FUNCTION(f_le, x <= y)
FUNCTION(f_gt, x > y)
FUNCTION(f_ge, x >= y)
FUNCTION(f_and, x != 0 && y != 0)
FUNCTION(f_or, x != 0 || y != 0)
FUNCTION(f_xor, (x != 0) != (y != 0))

/* ---- three tensors, and with numbers ---- */

/* A function of up to three tensors that broadcast. */
typedef long double oracle_f3(const struct oracle *o, long double x,
                              long double y, long double z);

static struct oracle_array *
define_three(struct oracle *o, enum bell_dtype dtype, oracle_f3 *f)
{
    struct oracle_array *in[3] = {oracle_t(o, 0), oracle_t(o, 1),
                                  oracle_t(o, 2)};
    int64_t d[BELL_MAX_RANK], at[BELL_MAX_RANK] = {0};
    uint32_t rank = oracle_broadcast(in, 3, d), i;
    struct oracle_array *out = oracle_out(o, dtype, d, rank);
    size_t k = 0;

    oracle_scales(o, out);
    if (out->n == 0)
        return out;
    do {
        long double v[3];
        for (i = 0; i < 3; i++)
            v[i] = in[i] ? in[i]->v[oracle_spread(in[i], at, rank)] : 0;
        out->v[k++] = f(o, v[0], v[1], v[2]);
    } while (oracle_next(at, d, rank));
    return out;
}

static long double
f_where(const struct oracle *o, long double x, long double y, long double z)
{
    (void)o;
    return x != 0 ? y : z;
}

static void
define_where(struct oracle *o)
{
    define_three(o, oracle_t(o, 1)->dtype, f_where)->scale = NULL;
}

static void
back_where(struct oracle *o)
{
    const struct oracle_array *x = oracle_t(o, 0), *y = oracle_t(o, 1);
    size_t i;

    if (y->n != x->n || oracle_t(o, 2)->n != x->n)
        return;
    o->gradient[1] = oracle_like(o, y->dtype, y);
    o->gradient[2] = oracle_like(o, y->dtype, y);
    for (i = 0; i < x->n; i++) {
        o->gradient[1]->v[i] = x->v[i] != 0 ? o->adjoint[0]->v[i] : 0;
        o->gradient[2]->v[i] = x->v[i] != 0 ? 0 : o->adjoint[0]->v[i];
    }
}

/* An element of parameter k, or the number that it is, as the dtype has it. */
static long double
oracle_num_or(const struct oracle *o, uint32_t k, long double element)
{
    return oracle_t(o, k) ? element
                          : oracle_round(oracle_t(o, 0)->dtype, o->a[k].f);
}

/* A value beyond the bounds becomes the bound, the upper one last; NaN anywhere
 * is NaN. */
/* The same of a bound: of integers its nearest end. */
static long double
bound_or(const struct oracle *o, uint32_t k, long double v)
{
    const struct oracle_dtype *t = oracle_dtype(oracle_t(o, 0)->dtype);
    long double most = ldexpl(1, 8 * t->size_bytes - t->is_signed) - 1;
    long double least = t->is_signed ? -most - 1 : 0;

    if (!o->a[k].given || o->a[k].t || t->is_float)
        return oracle_num_or(o, k, v);
    return fmaxl(least, fminl(o->a[k].f, most));
}

static long double
f_clamp(const struct oracle *o, long double x, long double y, long double z)
{
    bool low = o->a[1].given, high = o->a[2].given;

    y = bound_or(o, 1, y);
    z = bound_or(o, 2, z);
    if (isnan(x) || (low && isnan(y)) || (high && isnan(z)))
        return NOT_A;
    if (low && x < y)
        x = y;
    return high && x > z ? z : x;
}

static void
define_clamp(struct oracle *o)
{
    define_three(o, oracle_t(o, 0)->dtype, f_clamp)->scale = NULL;
}

/* The slopes of a function of three by x, y and z, at each place that it is
 * broadcast to; adjoints are summed where an operand is. */
typedef void oracle_slopes(const struct oracle *o, const long double *v,
                           long double *slopes);

static void
back_three(struct oracle *o, oracle_slopes *fn)
{
    struct oracle_array *in[3] = {oracle_t(o, 0), oracle_t(o, 1),
                                  oracle_t(o, 2)};
    int64_t d[BELL_MAX_RANK], at[BELL_MAX_RANK] = {0};
    uint32_t rank = oracle_broadcast(in, 3, d), i;
    size_t k = 0, from[3];

    for (i = 0; i < 3; i++) {
        if (!in[i])
            continue;
        o->gradient[i] = oracle_like(o, in[i]->dtype, in[i]);
        oracle_scales(o, o->gradient[i]);
    }
    if (o->adjoint[0]->n == 0)
        return;
    do {
        long double v[3] = {0}, slopes[3] = {0};
        for (i = 0; i < 3; i++) {
            from[i] = in[i] ? oracle_spread(in[i], at, rank) : 0;
            v[i] = in[i] ? in[i]->v[from[i]] : 0;
        }
        fn(o, v, slopes);
        for (i = 0; i < 3; i++) {
            long double *to = in[i] ? &o->gradient[i]->v[from[i]] : NULL;
            if (!to)
                continue;
            if (slopes[i] == ORACLE_ANY || *to == ORACLE_ANY) {
                *to = ORACLE_ANY;
                continue;
            }
            *to += slopes[i] * o->adjoint[0]->v[k];
            if (isfinite(slopes[i]))
                o->gradient[i]->scale[from[i]] +=
                    fabsl(slopes[i] * o->adjoint[0]->v[k]);
        }
        k++;
    } while (oracle_next(at, d, rank));
}

/* To x between the bounds, to a bound beyond, of which the upper one is
 * stronger. Where x equals a bound, a tensor has half, and beside a number
 * there is no slope. PyTorch's at NaN beside tensors depends on the form of the
 * call: 1, a half or 0. */
static void
slopes_of_clamp(const struct oracle *o, const long double *v,
                long double *slopes)
{
    bool low = o->a[1].given, high = o->a[2].given;
    bool numbers = !oracle_t(o, 1) && !oracle_t(o, 2);
    long double y = low ? oracle_num_or(o, 1, v[1]) : -(long double)INFINITY;
    long double z = high ? oracle_num_or(o, 2, v[2]) : (long double)INFINITY;

    if (numbers) {
        slopes[0] = (!low || y < v[0]) && (!high || v[0] < z);
        return;
    }
    if (isnan(v[0]) || isnan(y) || isnan(z) || (low && high && y == z)) {
        slopes[0] = slopes[1] = slopes[2] = ORACLE_ANY;
        return;
    }
    slopes[0] = !(low && v[0] < y) && !(high && v[0] > z);
    slopes[1] = low && v[0] < y && (!high || y <= z);
    slopes[2] = high && (v[0] > z || (low && v[0] < y && y > z));
    if (low && v[0] == y && slopes[0] != 0)
        slopes[0] = slopes[1] = 0.5L;
    if (high && v[0] == z && slopes[0] != 0)
        slopes[0] = slopes[2] = 0.5L;
}

static void
back_clamp(struct oracle *o)
{
    back_three(o, slopes_of_clamp);
}

static void
slopes_of_add(const struct oracle *o, const long double *v, long double *slopes)
{
    (void)v;
    slopes[0] = 1;
    slopes[1] = o->row->name[0] == 's' ? -o->a[2].f : o->a[2].f;
}

static void
back_add(struct oracle *o)
{
    back_three(o, slopes_of_add);
}

/* Where it is rounded, a quotient is flat. */
static void
slopes_of_div(const struct oracle *o, const long double *v, long double *slopes)
{
    enum bell_dtype wide =
        o->a[0].t->dtype == BELL_FLOAT64 ? BELL_FLOAT64 : BELL_FLOAT32;

    if (o->a[2].given)
        return;
    /* the adjoint comes last, PyTorch's as well: after an overflow */
    slopes[0] = oracle_round(wide, 1 / v[1]);
    slopes[1] = oracle_round(wide, -v[0] / v[1] / v[1]);
}

static void
back_div(struct oracle *o)
{
    back_three(o, slopes_of_div);
}

/* One unit from x; below a power of 2 units are half as long. */
static long double
f_nextafter(const struct oracle *o, long double x, long double y, long double z)
{
    enum bell_dtype dtype = oracle_t(o, 0)->dtype;
    const struct oracle_dtype *t = oracle_dtype(dtype);
    long double unit = oracle_ulp(dtype, x), r;
    int e;

    (void)z;
    if (isnan(x) || isnan(y) || x == y)
        return isnan(x) ? x : y;
    if (isinf(x))
        return copysignl(t->max, x);
    if (x != 0 && (y > x) == (x < 0) && fabsl(frexpl(x, &e)) == 0.5L &&
        fabsl(x) > ldexpl(1, t->min_exp))
        unit /= 2;
    r = y > x ? x + unit : x - unit;
    if (fabsl(r) > t->max)
        return copysignl((long double)INFINITY, r);
    return r == 0 ? copysignl(0, x) : r;
}

static void
define_nextafter(struct oracle *o)
{
    define_three(o, oracle_t(o, 0)->dtype, f_nextafter)->scale = NULL;
}

static void
slopes_of_nextafter(const struct oracle *o, const long double *v,
                    long double *slopes)
{
    (void)o;
    slopes[0] = v[0] != v[1];
}

static void
back_nextafter(struct oracle *o)
{
    back_three(o, slopes_of_nextafter);
}

static long double
f_lerp(const struct oracle *o, long double x, long double y, long double z)
{
    if (!oracle_t(o, 2))
        z = o->a[2].f;
    return fabsl(z) < 0.5L ? x + z * (y - x) : y - (1 - z) * (y - x);
}

static long double
f_addcmul(const struct oracle *o, long double x, long double y, long double z)
{
    return x + oracle_num(o, 3) * y * z;
}

static long double
f_addcdiv(const struct oracle *o, long double x, long double y, long double z)
{
    return x + oracle_num(o, 3) * y / z;
}

/* Sums of tame numbers: relative to what is added. */
static void
define_tame(struct oracle *o, oracle_f3 *f, long double more)
{
    struct oracle_array *out = define_three(o, oracle_t(o, 0)->dtype, f);
    long double most = more;
    size_t i;

    for (i = 0; i < oracle_t(o, 0)->n; i++)
        most = fmaxl(most, fabsl(oracle_t(o, 0)->v[i]));
    for (i = 0; i < out->n; i++)
        out->scale[i] = fmaxl(most, fabsl(out->v[i]));
}

static void
define_lerp(struct oracle *o)
{
    struct oracle_array *in[3] = {oracle_t(o, 0), oracle_t(o, 1),
                                  oracle_t(o, 2)};
    int64_t d[BELL_MAX_RANK], at[BELL_MAX_RANK] = {0};
    uint32_t rank = oracle_broadcast(in, 3, d);
    struct oracle_array *out = define_three(o, in[0]->dtype, f_lerp);
    size_t k = 0;

    if (out->n == 0)
        return;
    do { /* relative to the nearer end, and to the way from there */
        long double x = fabsl(in[0]->v[oracle_spread(in[0], at, rank)]);
        long double y = fabsl(in[1]->v[oracle_spread(in[1], at, rank)]), z;
        z = in[2] ? in[2]->v[oracle_spread(in[2], at, rank)] : o->a[2].f;
        out->scale[k++] = fabsl(z) < 0.5L ? x + fabsl(z) * (x + y)
                                          : y + fabsl(1 - z) * (x + y);
    } while (oracle_next(at, d, rank));
}

/* 1 - z, z, y - x. */
static void
slopes_of_lerp(const struct oracle *o, const long double *v,
               long double *slopes)
{
    long double z = oracle_t(o, 2) ? v[2] : o->a[2].f;

    slopes[0] = 1 - z;
    slopes[1] = z;
    slopes[2] = v[1] - v[0];
}

static void
back_lerp(struct oracle *o)
{
    back_three(o, slopes_of_lerp);
}

static void
define_addcmul(struct oracle *o)
{
    define_tame(o, f_addcmul, 1);
}

static void
define_addcdiv(struct oracle *o)
{
    define_tame(o, f_addcdiv, 1);
}

/* input +- alpha * other; a quotient by its rounding mode. */
static long double
f_scaled_add(const struct oracle *o, long double x, long double y,
             long double z)
{
    bool minus = o->row->name[0] == 's';
    enum bell_dtype dtype = o->a[0].t->dtype;
    uint64_t bits;

    (void)z;
    if (oracle_is_float(dtype))
        return minus ? x - o->a[2].f * y : x + o->a[2].f * y;
    bits = oracle_bits(y) * (uint64_t)o->a[2].i;
    return oracle_of_bits(dtype, oracle_bits(x) + (minus ? 0 - bits : bits));
}

static void
define_add(struct oracle *o)
{
    define_three(o, oracle_t(o, 0)->dtype, f_scaled_add)->scale = NULL;
}

static long double
f_quotient(const struct oracle *o, long double x, long double y, long double z)
{
    const char *mode = o->a[2].given ? o->a[2].str : "";
    enum bell_dtype wide = oracle_float(o->a[0].t->dtype);

    (void)z;
    if (!mode[0]) {
        x = oracle_round(wide, x);
        y = oracle_round(wide, y);
    }
    return mode[0] == 'f'   ? floor_quotient(x, y)
           : mode[0] == 't' ? trunc_quotient(x, y)
                            : x / y;
}

static void
define_div(struct oracle *o)
{
    enum bell_dtype dtype = oracle_t(o, 0)->dtype;
    bool rounds = o->a[2].given;
    struct oracle_array *out;
    size_t i;

    out = define_three(o, rounds ? dtype : oracle_float(dtype), f_quotient);
    out->scale = NULL;
    for (i = 0; i < out->n && rounds && !oracle_is_float(dtype); i++)
        out->v[i] =
            oracle_t(o, 1)->v[i] == 0 ? 0 : oracle_round(dtype, out->v[i]);
}

static bool
is_close(const struct oracle *o, long double x, long double y)
{
    if (isnan(x) || isnan(y))
        return oracle_flag(o, 4) && isnan(x) && isnan(y);
    if (isinf(x) || isinf(y))
        return x == y;
    return fabsl(x - y) <= oracle_num(o, 3) + oracle_num(o, 2) * fabsl(y);
}

static long double
f_isclose(const struct oracle *o, long double x, long double y, long double z)
{
    (void)z;
    return is_close(o, x, y);
}

/* The third parameter is a number: it is not among the operands. */
static void
define_isclose(struct oracle *o)
{
    define_three(o, BELL_BOOL, f_isclose)->scale = NULL;
}

static void
define_allclose(struct oracle *o)
{
    const struct oracle_array *x = oracle_t(o, 0), *y = oracle_t(o, 1);
    struct oracle_array *out = oracle_out(o, BELL_BOOL, NULL, 0);
    size_t i;

    out->v[0] = 1;
    for (i = 0; i < x->n; i++)
        out->v[0] = out->v[0] != 0 && is_close(o, x->v[i], y->v[i]);
}

#define FLOATS  "hwfd"
#define INTS    "csilCSIL"
#define NUMBERS FLOATS INTS
#define ALL     NUMBERS "?"
#define XY      "@X @Y; @n:3,1 @n:1,4; @n:2,3 @n:; @n:0,3 @n:3"
#define XY_INTS "@X @Y; @i9:3,1 @i9:1,4; @i9:0,3 @i9:3"
#define PAIR(f) .f2 = f, .flags = ORACLE_SAME
#define TEST(f) .f2 = f, .flags = ORACLE_BOOL
#define XYZ                                                                    \
    "@n:3,4 @n:3,4 @p:3,4; @n:3,1 @n:1,4 @p:4; @p: @p: @p:; @n:0 @n:0 @p:1"

/* clang-format off */
static const struct oracle_row rows[] = {
    {"add", XY "; @n:9/h @n:9/h alpha=f0.0009765625; @w9:3/i @w9:3/i alpha=i-2", ALL, .define = define_add, .back = back_add, .grad_ulps = 2, .flags = ORACLE_SCALED},
    {"sub", XY "; @n:9/w @n:9/w alpha=f0.0009765625", NUMBERS, .define = define_add, .back = back_add, .grad_ulps = 2, .flags = ORACLE_SCALED},
    {"mul", XY, ALL, PAIR(f_mul), .i2 = i_mul, .slope_x = f_second, .slope_y = f_first},
    {"div", XY "; @X @Y s'floor'; @X @Y s'trunc'", FLOATS "ilCc", .define = define_div, .back = back_div, .ulps = 0.9, .grad_ulps = 3},
    {"true_divide", XY, FLOATS "i", .f2 = f_div, .slope_x = d_div_x, .slope_y = d_div_y, .grad_ulps = 3},
    {"floor_divide", XY, NUMBERS, PAIR(floor_quotient), .ulps = 0.9, .i2 = i_floor_divide, .slope_x = d_zero, .slope_y = d_zero},
    {"trunc_divide", XY, NUMBERS, PAIR(trunc_quotient), .ulps = 0.9, .i2 = i_trunc_divide, .slope_x = d_zero, .slope_y = d_zero},
    {"remainder", XY, NUMBERS, PAIR(remainder_of), .i2 = i_remainder, .slope_x = d_one, .slope_y = d_remainder, .grad_ulps = 1},
    {"fmod", XY, NUMBERS, PAIR(fmodl), .i2 = i_fmod, .slope_x = d_one, .slope_y = d_fmod, .grad_ulps = 1},
    {"pow", XY "; @x/h f2; @x/h f3; @x/w f3; @x/w f0.5; @x/h f-1; @x/h f2.5; @x/f f3", NUMBERS, PAIR(f_pow), .i2 = i_pow, .slope_x = d_pow_x, .slope_y = d_pow_y, .ulps = 1, .grad_ulps = 400},
    {"maximum", XY, ALL, .f2 = greater, .i2 = i_max, .slope_x = d_max_x, .slope_y = d_max_y, .flags = ORACLE_SAME},
    {"minimum", XY, ALL, .f2 = smaller, .i2 = i_min, .slope_x = d_min_x, .slope_y = d_min_y, .flags = ORACLE_SAME},
    {"atan2", XY, FLOATS "i", .f2 = atan2l, .slope_x = d_atan2_y, .slope_y = d_atan2_x, .ulps = 4, .grad_ulps = 8},
    {"hypot", XY, FLOATS "i", .f2 = hypotl, .slope_x = d_hypot_x, .slope_y = d_hypot_y, .ulps = 3, .grad_ulps = 6},
    {"logaddexp", XY, FLOATS "i", .f2 = log_add_exp, .slope_x = d_logaddexp_x, .slope_y = d_logaddexp_y, .ulps = 4, .grad_ulps = 6, .scale = 0.5, .slope_scale = 0x1p-10},
    {"copysign", XY, FLOATS "i", .f2 = copysignl, .slope_x = d_copysign_x, .slope_y = d_zero},
    {"nextafter", XY, FLOATS, .define = define_nextafter, .back = back_nextafter},
    {"bitwise_and", XY_INTS, INTS "?", PAIR(f_and), .i2 = i_and},
    {"bitwise_or", XY_INTS, INTS "?", PAIR(f_or), .i2 = i_or},
    {"bitwise_xor", XY_INTS, INTS "?", PAIR(f_xor), .i2 = i_xor},
    {"bitwise_left_shift", XY_INTS, INTS, PAIR(f_and), .i2 = i_shl},
    {"bitwise_right_shift", XY_INTS, INTS, PAIR(f_and), .i2 = i_shr},
    {"eq", XY, ALL, TEST(f_eq)},
    {"ne", XY, ALL, TEST(f_ne)},
    {"lt", XY, ALL, TEST(f_lt)},
    {"le", XY, ALL, TEST(f_le)},
    {"gt", XY, ALL, TEST(f_gt)},
    {"ge", XY, ALL, TEST(f_ge)},
    {"logical_and", XY, ALL, TEST(f_and)},
    {"logical_or", XY, ALL, TEST(f_or)},
    {"logical_xor", XY, ALL, TEST(f_xor)},
    {"where", "@b:40 @q:40 @q:40; @b:3,1 @n:4 @n:3,4; @b: @n: @n:; @b:0 @n:0 @n:1", ALL, .define = define_where, .back = back_where},
    {"isclose", "@X @Y; @X @Y equal_nan=b1; @n:3 @n:3 f0.5 f0.1; @n:0 @n:0", "hwfdi", .define = define_isclose},
    {"allclose", "@n:3 @n:3; @e:3 @e:3; @q:9 @q:9; @n:0 @n:0; @e: @e:", "hwfd", .define = define_allclose},
    {"clamp", "@U @V @W; @X @Y; @X max=@Y; @x i-1 i3; @x i-1000 i1000; @x/h min=fnan; @x/f f0 fnan; @x i-70000 i-2; @x i300 i70000; @x min=i1; @x max=i3; @c:30 i-1 i1; @x i2 i2; @c:9 i1 i-1; @n:3,1 @n:1,4 @p:; @n:0 @n:0", NUMBERS, .define = define_clamp, .back = back_clamp, .flags = ORACLE_ZERO},
    {"lerp", XYZ "; @p:40 @n:40 f1; @n:40 @n:40 f0.3; @n:40 @n:40 f0.7; @n:9 @n:9 @c:9; @q:20 @n:20 f0.25; @n:20 @q:20 f0.75; @q:20 @q:20 @q:20; @e:9 @n:9 @b:9", FLOATS, .define = define_lerp, .back = back_lerp, .ulps = 3, .grad_ulps = 6, .flags = ORACLE_SCALED},
    {"addcmul", XYZ "; @n:3 @n:3 @n:3 f-2.5", FLOATS, .define = define_addcmul, .ulps = 3, .grad_ulps = 4, .flags = ORACLE_GRAD},
    {"addcdiv", XYZ "; @n:3 @n:3 @p:3 f-2.5", FLOATS, .define = define_addcdiv, .ulps = 30, .grad_ulps = 30, .flags = ORACLE_GRAD},
};
/* clang-format on */

const struct oracle_table oracle_binary = {rows, ARRAY_LEN(rows)};
