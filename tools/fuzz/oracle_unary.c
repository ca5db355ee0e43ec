/* The oracle: functions of one tensor, element by element. */
#include "tools/fuzz/oracle.h"

#include <math.h>
#include <string.h>

#include "base/bits.h"

#define FUNCTION(name, value)                                                  \
    static long double name(long double x)                                     \
    {                                                                          \
        return value;                                                          \
    }
#define WITH_NUMBER(name, value)                                               \
    static long double name(long double x, long double y)                      \
    {                                                                          \
        return value;                                                          \
    }

#define PI     3.14159265358979323846264338327950288L
#define LN2    0.693147180559945309417232121458176568L
#define LN10   2.30258509299404568401799145468436421L
#define ROOT_2 1.41421356237309504880168872420969808L
#define SELU   1.0507009873554804934193349852946L
#define SELU_A 1.6732632423543772848170429916717L
#define NOT_A  ((long double)NAN)

/* ---- arithmetic and rounding ---- */

FUNCTION(f_neg, -x)
FUNCTION(f_sign, x > 0 ? 1 : x < 0 ? -1 : 0)
FUNCTION(f_square, x *x)
FUNCTION(f_recip, 1 / x)
FUNCTION(f_rsqrt, 1 / sqrtl(x))
FUNCTION(f_round, rintl(x))
FUNCTION(f_frac, x - truncl(x))
FUNCTION(f_not, x == 0)
FUNCTION(f_isnan, isnan(x) != 0)
FUNCTION(f_isinf, isinf(x) != 0)
FUNCTION(f_isposinf, isinf(x) && x > 0)
FUNCTION(f_isneginf, isinf(x) && x < 0)
FUNCTION(f_isfinite, isfinite(x) != 0)
FUNCTION(f_same, x)

FUNCTION(d_zero, 0 * (x == 0))
FUNCTION(d_one, 1 + 0 * (x == 0))
FUNCTION(d_neg, -1 + 0 * (x == 0))
FUNCTION(d_square, 2 * x)
FUNCTION(d_recip, -1 / x / x)
FUNCTION(d_sqrt, 0.5L / sqrtl(x))
FUNCTION(d_rsqrt, -0.5L / sqrtl(x) / sqrtl(x) / sqrtl(x))

#define INT_FUNCTION(name, value)                                              \
    static uint64_t name(uint64_t x, uint64_t y, const struct oracle_dtype *t) \
    {                                                                          \
        (void)y;                                                               \
        return t->is_signed || !t->is_signed ? (uint64_t)(value) : 0;          \
    }
INT_FUNCTION(i_neg, 0 - x)
INT_FUNCTION(i_abs, t->is_signed && (int64_t)x < 0 ? 0 - x : x)
INT_FUNCTION(i_sign, t->is_signed && (int64_t)x < 0 ? UINT64_MAX : x != 0)
INT_FUNCTION(i_square, x *x)
INT_FUNCTION(i_not, t->letter == '?' ? !x : ~x)
INT_FUNCTION(i_same, x)
INT_FUNCTION(i_zero, 0 * x)
INT_FUNCTION(i_is_zero, x == 0)
INT_FUNCTION(i_one, 1 + 0 * x)

/* ---- exponentials, angles ---- */

/* Not where 2^x overflows and the slope does not, as in PyTorch. */
FUNCTION(d_exp2, (x >= 128 && x < 128.6L) || (x >= 1024 && x < 1024.6L)
                     ? ORACLE_ANY
                     : exp2l(x) * LN2)
FUNCTION(d_log2, 1 / x / LN2)
FUNCTION(d_log10, 1 / x / LN10)
FUNCTION(d_log1p, 1 / (1 + x))
FUNCTION(d_cos, -sinl(x))
FUNCTION(d_tan, 1 + tanl(x) * tanl(x))
FUNCTION(d_asin, 1 / sqrtl((1 - x) * (1 + x)))
FUNCTION(d_acos, -1 / sqrtl((1 - x) * (1 + x)))
FUNCTION(d_atan, 1 / (1 + x * x))
FUNCTION(d_tanh, isnan(x) ? x : 1 / coshl(x) / coshl(x))
FUNCTION(d_asinh, 1 / sqrtl(1 + x * x))
FUNCTION(d_acosh, fabsl(x) < 1 ? NOT_A : 1 / sqrtl(fabsl(x - 1) * fabsl(x + 1)))
FUNCTION(d_atanh, 1 / (1 - x) / (1 + x))
FUNCTION(d_erf, 2 / sqrtl(PI) * expl(-x * x))

/* ---- activations ---- */

static long double
sigmoid(long double x)
{
    return x < 0 ? expl(x) / (1 + expl(x)) : 1 / (1 + expl(-x));
}

static long double
softplus(long double x)
{
    return fmaxl(x, 0) + log1pl(expl(-fabsl(x))) + (isnan(x) ? x : 0);
}

static long double
limit(long double x, long double low, long double high)
{
    return x < low ? low : x > high ? high : x;
}

FUNCTION(f_relu, x < 0 ? 0 : x)
FUNCTION(d_relu, !(x <= 0))
FUNCTION(f_relu6, limit(x, 0, 6))
FUNCTION(d_relu6, !(x <= 0 || x >= 6))
WITH_NUMBER(f_leaky, x > 0 ? x : x * y)
WITH_NUMBER(d_leaky, x > 0 ? 1 : y)
WITH_NUMBER(f_elu, x < 0 ? y * expm1l(x) : x)
WITH_NUMBER(d_elu, isnan(x) ? x : x <= 0 ? y * expl(x) : 1)
WITH_NUMBER(f_celu, x < 0 ? y * expm1l(x / y) : x)
WITH_NUMBER(d_celu, isnan(x) ? x : x < 0 ? expl(x / y) : 1)
FUNCTION(f_selu, SELU *(x < 0 ? SELU_A * expm1l(x) : x))
FUNCTION(d_selu, isnan(x) ? x : x <= 0 ? SELU * SELU_A * expl(x) : SELU)
FUNCTION(d_sigmoid, isnan(x) ? x : sigmoid(x) * sigmoid(-x))
FUNCTION(f_logsigmoid, -softplus(-x))
FUNCTION(d_logsigmoid, isnan(x) ? x : sigmoid(-x))
FUNCTION(f_silu, x *sigmoid(x))
FUNCTION(d_silu,
         isinf(x) ? ORACLE_ANY : sigmoid(x) + x * sigmoid(x) * sigmoid(-x))
FUNCTION(f_quick_gelu, x *sigmoid(1.702L * x))
FUNCTION(d_quick_gelu,
         isinf(x) ? ORACLE_ANY
                  : sigmoid(1.702L * x) +
                        1.702L * x * sigmoid(1.702L * x) * sigmoid(-1.702L * x))
WITH_NUMBER(f_softplus, softplus(x *y) / y)
WITH_NUMBER(d_softplus, isnan(x) ? x : sigmoid(x *y))
FUNCTION(f_softsign, x / (1 + fabsl(x)))
FUNCTION(d_softsign,
         isinf(x) ? ORACLE_ANY : 1 / (1 + fabsl(x)) / (1 + fabsl(x)))
FUNCTION(f_mish, x *tanhl(softplus(x)))
FUNCTION(d_mish, isinf(x) ? ORACLE_ANY
                          : tanhl(softplus(x)) + x * sigmoid(x) /
                                                     coshl(softplus(x)) /
                                                     coshl(softplus(x)))
FUNCTION(f_hardsigmoid, limit(x + 3, 0, 6) / 6)
FUNCTION(d_hardsigmoid, isnan(x) || fabsl(x) == 3 ? ORACLE_ANY
                        : fabsl(x) < 3            ? 1 / 6.0L
                                                  : 0)
FUNCTION(f_hardswish, x *limit(x + 3, 0, 6) / 6)
FUNCTION(d_hardswish, !isfinite(x) || fabsl(x) == 3 ? ORACLE_ANY
                      : x < -3                      ? 0
                      : x > 3                       ? 1
                                                    : x / 3 + 0.5L)

/* x Phi(x); where that is small, without cancellation. */
static long double
gelu(long double x)
{
    return x == -(long double)INFINITY ? NOT_A : x * erfcl(-x / ROOT_2) / 2;
}

static long double
gelu_tanh(long double x)
{
    long double u = sqrtl(2 / PI) * (x + 0.044715L * x * x * x);

    return x == -(long double)INFINITY ? NOT_A : x * sigmoid(2 * u);
}

static void
define_gelu(struct oracle *o)
{
    const struct oracle_array *x = oracle_t(o, 0);
    struct oracle_array *out = oracle_out(o, x->dtype, x->d, x->rank);
    bool is_tanh = o->a[1].str[0] == 't';
    size_t i;

    for (i = 0; i < x->n; i++) {
        out->v[i] = is_tanh ? gelu_tanh(x->v[i]) : gelu(x->v[i]);
        /* minus infinity: 0 in halves (docs/explanation/math.md), NaN by the
         * formula */
        if (isinf(x->v[i]) && x->v[i] < 0)
            out->v[i] = ORACLE_ANY;
    }
    oracle_scales(o, out);
    for (i = 0; i < x->n; i++)
        out->scale[i] = isfinite(x->v[i]) ? fminl(fabsl(x->v[i]), 8) : 0;
}

/* Phi(x) + x phi(x), or of the form with tanh. */
static long double
slope_of_gelu(long double x, bool by_tanh)
{
    long double u, t, k = sqrtl(2 / acosl(-1));

    if (isinf(x))
        return x > 0;
    if (!by_tanh)
        return erfcl(-x / sqrtl(2)) / 2 + x * expl(-x * x / 2) * k / 2;
    u = k * (x + 0.044715L * x * x * x);
    t = tanhl(u);
    return (1 + t) / 2 + (fabsl(u) > 50 ? 0
                                        : x / 2 * (1 - t * t) * k *
                                              (1 + 3 * 0.044715L * x * x));
}

static void
back_gelu(struct oracle *o)
{
    struct oracle_array *x = oracle_t(o, 0);
    bool by_tanh = o->a[1].str[0] == 't';
    size_t i;

    o->gradient[0] = oracle_like(o, x->dtype, x);
    for (i = 0; i < x->n; i++) {
        long double slope = slope_of_gelu(x->v[i], by_tanh);
        /* PyTorch's, too, is infinity times 0: of infinities, and by tanh
         * where the square overflows */
        int most = !by_tanh ? 16000 : x->dtype == BELL_FLOAT64 ? 512 : 64;
        o->gradient[0]->v[i] = fabsl(x->v[i]) >= ldexpl(1, most)
                                   ? ORACLE_ANY
                                   : slope * o->adjoint[0]->v[i];
    }
}

static void
define_hardtanh(struct oracle *o)
{
    const struct oracle_array *x = oracle_t(o, 0);
    struct oracle_array *out = oracle_out(o, x->dtype, x->d, x->rank);
    long double low = oracle_num(o, 1), high = oracle_num(o, 2);
    size_t i;

    if (!oracle_is_float(x->dtype)) {
        low = truncl(low);
        high = truncl(high);
    }
    for (i = 0; i < x->n; i++)
        out->v[i] = limit(x->v[i], low, high);
}

static void
back_hardtanh(struct oracle *o)
{
    struct oracle_array *x = oracle_t(o, 0);
    size_t i;

    o->gradient[0] = oracle_like(o, x->dtype, x);
    for (i = 0; i < x->n; i++)
        o->gradient[0]->v[i] =
            x->v[i] <= oracle_num(o, 1) || x->v[i] >= oracle_num(o, 2)
                ? 0
                : o->adjoint[0]->v[i];
}

/* ---- conversions ---- */

static void
convert(struct oracle *o, enum bell_dtype to)
{
    const struct oracle_array *x = oracle_t(o, 0);
    struct oracle_array *out = oracle_out(o, to, x->d, x->rank);
    size_t i;

    for (i = 0; i < x->n; i++)
        out->v[i] = oracle_convert(x->dtype, to, x->v[i]);
}

static void
define_to(struct oracle *o)
{
    convert(o, o->a[1].dtype);
}

/* From float to float, the adjoint. */
static void
back_to(struct oracle *o)
{
    struct oracle_array *x = oracle_t(o, 0);
    size_t i;

    o->gradient[0] = oracle_like(o, x->dtype, x);
    for (i = 0; i < x->n; i++)
        o->gradient[0]->v[i] = o->adjoint[0]->v[i];
}

static void
define_named(struct oracle *o)
{
    convert(o, bell_dtype_find(o->row->name));
}

/* To and fro, so that what the bits mean shows: integers of a size. */
static void
define_bitcast(struct oracle *o)
{
    const struct oracle_array *x = oracle_t(o, 0);
    struct oracle_array *out = oracle_out(o, o->a[1].dtype, x->d, x->rank);
    size_t i;

    for (i = 0; i < x->n; i++)
        out->v[i] = oracle_round(out->dtype, x->v[i]);
}

static void
define_float_bits(struct oracle *o)
{
    const struct oracle_array *x = oracle_t(o, 0);
    struct oracle_array *out;
    size_t i;

    if (!oracle_is_float(x->dtype)) {
        define_bitcast(o);
        return;
    }
    out = oracle_out(o, BELL_INT32, x->d, x->rank);
    for (i = 0; i < x->n; i++) {
        float v = (float)x->v[i];
        int32_t bits;
        memcpy(&bits, &v, sizeof(bits));
        out->v[i] = isnan(v) ? 0x7fc00000 : bits;
    }
}

#define FLOATS  "hwfd"
#define NUMBERS "hwfdcsilCSIL"
#define ALL     "hwfdcsilCSIL?"
#define SOME    "hwfdi"
#define ALL_8   ALL "0123"

#define X     "@x; @n:; @n:0,3"
#define EXACT 0, 0, 0
#define TO(name)                                                               \
    {                                                                          \
        name, X, ALL_8, .define = define_named, .back = back_to                \
    }

/* clang-format off */
static const struct oracle_row rows[] = {
    {"neg", X, NUMBERS, .f1 = f_neg, .slope = d_neg, .i2 = i_neg, .flags = ORACLE_SAME},
    {"abs", X, ALL, .f1 = fabsl, .slope = f_sign, .i2 = i_abs, .flags = ORACLE_SAME},
    {"sign", X, ALL, .f1 = f_sign, .slope = d_zero, .i2 = i_sign, .flags = ORACLE_SAME},
    {"square", X, NUMBERS, .f1 = f_square, .slope = d_square, .i2 = i_square, .flags = ORACLE_SAME},
    {"reciprocal", X, SOME, .f1 = f_recip, .slope = d_recip, .grad_ulps = 3},
    {"sqrt", X, SOME, .f1 = sqrtl, .slope = d_sqrt, .grad_ulps = 2},
    {"rsqrt", X, SOME, .f1 = f_rsqrt, .slope = d_rsqrt, .ulps = 2, .grad_ulps = 6},
    {"logical_not", X, ALL, .f1 = f_not, .i2 = i_is_zero, .flags = ORACLE_BOOL},
    {"bitwise_not", X, "csilCSIL?", .f1 = f_same, .i2 = i_not, .flags = ORACLE_SAME},
    {"isnan", X, ALL, .f1 = f_isnan, .i2 = i_zero, .flags = ORACLE_BOOL},
    {"isinf", X, ALL, .f1 = f_isinf, .i2 = i_zero, .flags = ORACLE_BOOL},
    {"isposinf", X, ALL, .f1 = f_isposinf, .i2 = i_zero, .flags = ORACLE_BOOL},
    {"isneginf", X, ALL, .f1 = f_isneginf, .i2 = i_zero, .flags = ORACLE_BOOL},
    {"isfinite", X, ALL, .f1 = f_isfinite, .i2 = i_one, .flags = ORACLE_BOOL},
    {"floor", X, NUMBERS, .f1 = floorl, .slope = d_zero, .i2 = i_same, .flags = ORACLE_SAME},
    {"ceil", X, NUMBERS, .f1 = ceill, .slope = d_zero, .i2 = i_same, .flags = ORACLE_SAME},
    {"round", X, NUMBERS, .f1 = f_round, .slope = d_zero, .i2 = i_same, .flags = ORACLE_SAME},
    {"trunc", X, NUMBERS, .f1 = truncl, .slope = d_zero, .i2 = i_same, .flags = ORACLE_SAME},
    {"frac", X, FLOATS, .f1 = f_frac, .slope = d_one, .flags = ORACLE_SAME | ORACLE_ZERO},

    /* docs/explanation/math.md: 2 units for exp2, log2, sin and cos; what is
     * made of them has a few more. */
    {"exp", X, SOME, .f1 = expl, .slope = expl, .ulps = 2, .grad_ulps = 2},
    {"exp2", X, SOME, .f1 = exp2l, .slope = d_exp2, .ulps = 2, .grad_ulps = 4},
    {"expm1", X, SOME, .f1 = expm1l, .slope = expl, .ulps = 4, .grad_ulps = 2},
    {"log", X, SOME, .f1 = logl, .slope = f_recip, .ulps = 3, .grad_ulps = 2},
    {"log2", X, SOME, .f1 = log2l, .slope = d_log2, .ulps = 2, .grad_ulps = 3},
    {"log10", X, SOME, .f1 = log10l, .slope = d_log10, .ulps = 3, .grad_ulps = 3},
    {"log1p", X, SOME, .f1 = log1pl, .slope = d_log1p, .ulps = 4, .grad_ulps = 2},
    {"sin", X, SOME, .f1 = sinl, .slope = cosl, .ulps = 2, .grad_ulps = 2},
    {"cos", X, SOME, .f1 = cosl, .slope = d_cos, .ulps = 2, .grad_ulps = 2},
    {"tan", X, SOME, .f1 = tanl, .slope = d_tan, .ulps = 4, .grad_ulps = 10},
    {"asin", X, SOME, .f1 = asinl, .slope = d_asin, .ulps = 4, .grad_ulps = 4},
    {"acos", X, SOME, .f1 = acosl, .slope = d_acos, .ulps = 4, .grad_ulps = 4},
    {"atan", X, SOME, .f1 = atanl, .slope = d_atan, .ulps = 3, .grad_ulps = 4},
    {"sinh", X, SOME, .f1 = sinhl, .slope = coshl, .ulps = 6, .grad_ulps = 6},
    {"cosh", X, SOME, .f1 = coshl, .slope = sinhl, .ulps = 6, .grad_ulps = 6},
    /* the slope is 1 - y^2, as PyTorch's: relative to 1 */
    {"tanh", X, SOME, .f1 = tanhl, .slope = d_tanh, .ulps = 4, .grad_ulps = 4, .slope_scale = 1, .half = 0x1p-19},
    {"asinh", X, SOME, .f1 = asinhl, .slope = d_asinh, .ulps = 6, .grad_ulps = 4},
    {"acosh", X, SOME, .f1 = acoshl, .slope = d_acosh, .ulps = 6, .grad_ulps = 6},
    {"atanh", X, SOME, .f1 = atanhl, .slope = d_atanh, .ulps = 4, .grad_ulps = 4},
    {"erf", X, SOME, .f1 = erfl, .slope = d_erf, .ulps = 2, .grad_ulps = 4, .slope_scale = 0x1p-10},

    {"relu", X, NUMBERS, .f1 = f_relu, .slope = d_relu, .flags = ORACLE_SAME | ORACLE_ZERO},
    {"relu6", X, FLOATS, .f1 = f_relu6, .slope = d_relu6, .flags = ORACLE_ZERO},
    {"leaky_relu", "@x; @x f0.2; @n:0,3", FLOATS, .f2 = f_leaky, .slope_x = d_leaky, .ulps = 1, .grad_ulps = 1},
    {"elu", "@x; @x f2.5; @n:", FLOATS, .f2 = f_elu, .slope_x = d_elu, .ulps = 4, .grad_ulps = 5},
    {"celu", "@x; @x f2.5; @n:", FLOATS, .f2 = f_celu, .slope_x = d_celu, .ulps = 6, .grad_ulps = 8, .slope_scale = 0x1p-10},
    {"selu", X, FLOATS, .f1 = f_selu, .slope = d_selu, .ulps = 5, .grad_ulps = 6},
    {"sigmoid", X, SOME, .f1 = sigmoid, .slope = d_sigmoid, .ulps = 4, .grad_ulps = 4, .slope_scale = 1},
    {"logsigmoid", X, FLOATS, .f1 = f_logsigmoid, .slope = d_logsigmoid, .ulps = 4, .grad_ulps = 4, .flags = ORACLE_ZERO},
    {"silu", X, FLOATS, .f1 = f_silu, .slope = d_silu, .ulps = 4, .scale = 0x1p-126, .grad_ulps = 8},
    {"quick_gelu", X, FLOATS, .f1 = f_quick_gelu, .slope = d_quick_gelu, .ulps = 8, .scale = 0x1p-20, .grad_ulps = 16, .slope_scale = 1},
    {"softplus", "@x; @x f2.5; @n:", FLOATS, .f2 = f_softplus, .slope_x = d_softplus, .ulps = 4, .grad_ulps = 6},
    {"softsign", X, FLOATS, .f1 = f_softsign, .slope = d_softsign, .ulps = 1, .grad_ulps = 4},
    {"mish", X, FLOATS, .f1 = f_mish, .slope = d_mish, .ulps = 6, .scale = 0x1p-126, .grad_ulps = 12},
    {"hardsigmoid", X, FLOATS, .f1 = f_hardsigmoid, .slope = d_hardsigmoid, .ulps = 2, .grad_ulps = 1, .flags = ORACLE_ZERO},
    {"hardswish", X, FLOATS, .f1 = f_hardswish, .slope = d_hardswish, .ulps = 3, .grad_ulps = 3, .slope_scale = 1, .flags = ORACLE_ZERO},
    {"hardtanh", "@x; @x f-2.5 f0.5; @n:", NUMBERS, .define = define_hardtanh, .back = back_hardtanh},
    /* of large negative numbers 1 + erf cancels, relative to 1 */
    {"gelu", "@x; @x s'tanh'; @n:", FLOATS, .define = define_gelu, .ulps = 4, .half = 0x1p-11, .back = back_gelu, .grad_ulps = 16, .slope_scale = 1},

    {"to", "@x yfloat16; @x ybfloat16; @x yfloat32; @x yint8; @x yuint8; @x yint16; @x yuint16; @x yint32; @x yuint32; @x yint64; @x yuint64; @x ybool; @n:0 yint8", ALL_8, .define = define_to, .back = back_to},
    TO("bool"), TO("int8"), TO("uint8"), TO("int16"), TO("uint16"),
    TO("int32"), TO("uint32"), TO("int64"), TO("uint64"), TO("float16"),
    TO("bfloat16"), TO("float32"), TO("float64"), TO("float8_e4m3fn"),
    TO("float8_e5m2"), TO("float8_e4m3fnuz"), TO("float8_e5m2fnuz"),
    {"bitcast", "@x yint32", "fIi", .define = define_float_bits},
    {"contiguous", X, ALL_8, .f1 = f_same, .slope = d_one, .i2 = i_same, .flags = ORACLE_SAME},
    {"detach", X, ALL_8, .f1 = f_same, .slope = d_zero, .i2 = i_same, .flags = ORACLE_SAME},
};
/* clang-format on */

const struct oracle_table oracle_unary = {rows, ARRAY_LEN(rows)};
