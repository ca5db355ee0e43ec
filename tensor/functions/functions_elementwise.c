/* The function table: arithmetic, comparisons, elementwise mathematics,
 * conversions. */
#include "tensor/functions/functions_internal.h"

#include <math.h>
#include <string.h>

#include "base/bits.h"

/* input + alpha * other */
static struct bell_tensor *
scaled_other(struct fn_args *args)
{
    const struct fn_arg *alpha = &args->a[2];

    if (alpha->is_int && alpha->i == 1)
        return args->a[1].t;
    return bell_mul(args->a[1].t, alpha->is_int
                                      ? bell_scalar_int(args->ctx, alpha->i)
                                      : bell_scalar(args->ctx, alpha->f));
}

static struct bell_tensor *
call_add(struct fn_args *args)
{
    return bell_add(args->a[0].t, scaled_other(args));
}

static struct bell_tensor *
call_sub(struct fn_args *args)
{
    return bell_sub(args->a[0].t, scaled_other(args));
}

static struct bell_tensor *
call_div(struct fn_args *args)
{
    struct bell_tensor *x = args->a[0].t, *y = args->a[1].t;
    const char *mode = args->a[2].str;

    if (!mode)
        return bell_div(x, y);
    if (strcmp(mode, "floor") == 0)
        return bell_floor_divide(x, y);
    if (strcmp(mode, "trunc") == 0)
        return bell_trunc_divide(x, y);
    return fn_fail(args, "rounding_mode '%s' is not 'floor' or 'trunc'", mode);
}

static struct bell_tensor *
call_clamp(struct fn_args *args)
{
    if (!args->a[1].given && !args->a[2].given)
        return fn_fail(args, "min or max must be given");
    return bell_clamp(args->a[0].t, args->a[1].t, args->a[2].t);
}

static struct bell_tensor *
call_where(struct fn_args *args)
{
    return bell_where(args->a[0].t, args->a[1].t, args->a[2].t);
}

static struct bell_tensor *
call_lerp(struct fn_args *args)
{
    return bell_lerp(args->a[0].t, args->a[1].t, args->a[2].t);
}

static struct bell_tensor *
call_addcmul(struct fn_args *args)
{
    return bell_addcmul(args->a[0].t, args->a[1].t, args->a[2].t, args->a[3].f);
}

static struct bell_tensor *
call_addcdiv(struct fn_args *args)
{
    return bell_addcdiv(args->a[0].t, args->a[1].t, args->a[2].t, args->a[3].f);
}

static struct bell_tensor *
call_isclose(struct fn_args *args)
{
    return bell_isclose(args->a[0].t, args->a[1].t, args->a[2].f, args->a[3].f,
                        args->a[4].b);
}

static struct bell_tensor *
call_allclose(struct fn_args *args)
{
    return bell_all(call_isclose(args), BELL_NO_DIMS, false);
}

static struct bell_tensor *
call_cast(struct fn_args *args)
{
    return bell_cast(args->a[0].t, args->a[1].dtype);
}

static struct bell_tensor *
call_bitcast(struct fn_args *args)
{
    return bell_bitcast(args->a[0].t, args->a[1].dtype);
}

/* x.float() and the like. */
static struct bell_tensor *
call_to_dtype(struct fn_args *args)
{
    return bell_cast(args->a[0].t, args->row->dtype);
}

#define UNARY(name, params, doc, section, aliases, function)                   \
    {                                                                          \
        {name, params, doc, section, false}, aliases, fn_call_unary,           \
        {                                                                      \
            .unary = function                                                  \
        }                                                                      \
    }
#define BINARY(name, doc, section, aliases, function)                          \
    {                                                                          \
        {name, "input: tensor, other: tensor", doc, section, false}, aliases,  \
            fn_call_binary,                                                    \
        {                                                                      \
            .binary = function                                                 \
        }                                                                      \
    }
#define OTHER(name, params, doc, section, aliases, function)                   \
    {                                                                          \
        {name, params, doc, section, false}, aliases, function,                \
        {                                                                      \
            NULL                                                               \
        }                                                                      \
    }
#define X    "input: tensor"
#define AR   "Arithmetic"
#define CMP  "Comparison and logic"
#define MATH "Elementwise mathematics"
#define CONV "Conversion"

/* clang-format off */
static const struct fn_row rows[] = {
    OTHER("add", "input: tensor, other: tensor, alpha: number = 1",
          "input + alpha * other", AR, NULL, call_add),
    OTHER("sub", "input: tensor, other: tensor, alpha: number = 1",
          "input - alpha * other", AR, "subtract", call_sub),
    BINARY("mul", "input * other", AR, "multiply", bell_mul),
    OTHER("div", "input: tensor, other: tensor, rounding_mode: str = None",
          "input / other, in floats; rounding_mode 'floor' or 'trunc'", AR,
          "divide", call_div),
    BINARY("true_divide", "input / other, in floats", AR, NULL, bell_div),
    BINARY("floor_divide", "quotient rounded down; of integers by 0 it is 0",
           AR, NULL, bell_floor_divide),
    BINARY("trunc_divide", "quotient rounded towards zero", AR, NULL,
           bell_trunc_divide),
    BINARY("remainder", "what floor_divide leaves, with the sign of other", AR,
           NULL, bell_remainder),
    BINARY("fmod", "what trunc_divide leaves, with the sign of input", AR,
           NULL, bell_fmod),
    {{"pow", "input: tensor, exponent: tensor",
      "input to the power of exponent", AR, false},
     NULL, fn_call_binary, {.binary = bell_pow}},
    BINARY("maximum", "the greater, elementwise; NaN if either is", AR, NULL,
           bell_maximum),
    BINARY("minimum", "the smaller, elementwise; NaN if either is", AR, NULL,
           bell_minimum),
    UNARY("neg", X, "-input", AR, "negative", bell_neg),
    UNARY("abs", X, "magnitude", AR, "absolute", bell_abs),
    UNARY("sign", X, "-1, 0 or 1", AR, "sgn", bell_sign),
    UNARY("square", X, "input * input", AR, NULL, bell_square),
    UNARY("reciprocal", X, "1 / input", AR, NULL, bell_reciprocal),
    OTHER("lerp", "input: tensor, end: tensor, weight: tensor",
          "input + weight * (end - input)", AR, NULL, call_lerp),
    OTHER("addcmul",
          "input: tensor, tensor1: tensor, tensor2: tensor, value: float = 1",
          "input + value * tensor1 * tensor2", AR, NULL, call_addcmul),
    OTHER("addcdiv",
          "input: tensor, tensor1: tensor, tensor2: tensor, value: float = 1",
          "input + value * tensor1 / tensor2", AR, NULL, call_addcdiv),
    OTHER("clamp", "input: tensor, min: tensor = None, max: tensor = None",
          "limited to min..max", AR, "clip", call_clamp),

    BINARY("eq", "input == other", CMP, NULL, bell_eq),
    BINARY("ne", "input != other", CMP, "not_equal", bell_ne),
    BINARY("lt", "input < other", CMP, "less", bell_lt),
    BINARY("le", "input <= other", CMP, "less_equal", bell_le),
    BINARY("gt", "input > other", CMP, "greater", bell_gt),
    BINARY("ge", "input >= other", CMP, "greater_equal", bell_ge),
    BINARY("logical_and", "whether both are not 0", CMP, NULL,
           bell_logical_and),
    BINARY("logical_or", "whether either is not 0", CMP, NULL, bell_logical_or),
    BINARY("logical_xor", "whether just one is not 0", CMP, NULL,
           bell_logical_xor),
    UNARY("logical_not", X, "whether input is 0", CMP, NULL, bell_logical_not),
    BINARY("bitwise_and", "bits set in both", CMP, NULL, bell_bitwise_and),
    BINARY("bitwise_or", "bits set in either", CMP, NULL, bell_bitwise_or),
    BINARY("bitwise_xor", "bits set in just one", CMP, NULL, bell_bitwise_xor),
    UNARY("bitwise_not", X, "every bit inverted", CMP, NULL, bell_bitwise_not),
    BINARY("bitwise_left_shift", "input << other; 0 where other is too great",
           CMP, "lshift", bell_lshift),
    BINARY("bitwise_right_shift", "input >> other, keeping the sign", CMP,
           "rshift", bell_rshift),
    OTHER("where", "condition: tensor, input: tensor, other: tensor",
          "condition ? input : other, elementwise", CMP, NULL, call_where),
    OTHER("isclose",
          "input: tensor, other: tensor, rtol: float = 1e-05, "
          "atol: float = 1e-08, equal_nan: bool = False",
          "|input - other| <= atol + rtol * |other|", CMP, NULL, call_isclose),
    OTHER("allclose",
          "input: tensor, other: tensor, rtol: float = 1e-05, "
          "atol: float = 1e-08, equal_nan: bool = False",
          "whether isclose holds everywhere", CMP, NULL, call_allclose),
    UNARY("isnan", X, "whether it is NaN", CMP, NULL, bell_isnan),
    UNARY("isinf", X, "whether it is an infinity", CMP, NULL, bell_isinf),
    UNARY("isfinite", X, "whether it is neither NaN nor infinite", CMP, NULL,
          bell_isfinite),

    UNARY("exp", X, "e to the power of input", MATH, NULL, bell_exp),
    UNARY("exp2", X, "2 to the power of input", MATH, NULL, bell_exp2),
    UNARY("expm1", X, "exp(input) - 1", MATH, NULL, bell_expm1),
    UNARY("log", X, "natural logarithm", MATH, NULL, bell_log),
    UNARY("log2", X, "logarithm of base 2", MATH, NULL, bell_log2),
    UNARY("log10", X, "logarithm of base 10", MATH, NULL, bell_log10),
    UNARY("log1p", X, "log(1 + input)", MATH, NULL, bell_log1p),
    UNARY("sqrt", X, "square root", MATH, NULL, bell_sqrt),
    UNARY("rsqrt", X, "1 / sqrt(input)", MATH, NULL, bell_rsqrt),
    UNARY("sin", X, "sine of radians", MATH, NULL, bell_sin),
    UNARY("cos", X, "cosine of radians", MATH, NULL, bell_cos),
    UNARY("tan", X, "tangent of radians", MATH, NULL, bell_tan),
    UNARY("asin", X, "angle of a sine", MATH, "arcsin", bell_asin),
    UNARY("acos", X, "angle of a cosine", MATH, "arccos", bell_acos),
    UNARY("atan", X, "angle of a tangent", MATH, "arctan", bell_atan),
    BINARY("atan2", "angle of the point (other, input)", MATH, "arctan2",
           bell_atan2),
    UNARY("sinh", X, "hyperbolic sine", MATH, NULL, bell_sinh),
    UNARY("cosh", X, "hyperbolic cosine", MATH, NULL, bell_cosh),
    UNARY("tanh", X, "hyperbolic tangent", MATH, NULL, bell_tanh),
    UNARY("asinh", X, "inverse of sinh", MATH, "arcsinh", bell_asinh),
    UNARY("acosh", X, "inverse of cosh", MATH, "arccosh", bell_acosh),
    UNARY("atanh", X, "inverse of tanh", MATH, "arctanh", bell_atanh),
    UNARY("erf", X, "error function", MATH, NULL, bell_erf),
    BINARY("hypot", "sqrt(input^2 + other^2)", MATH, NULL, bell_hypot),
    BINARY("logaddexp", "log(exp(input) + exp(other))", MATH, NULL,
           bell_logaddexp),
    BINARY("copysign", "|input| with the sign of other", MATH, NULL,
           bell_copysign),
    UNARY("floor", X, "rounded down", MATH, NULL, bell_floor),
    UNARY("ceil", X, "rounded up", MATH, NULL, bell_ceil),
    UNARY("round", X, "rounded to the nearest, ties to even", MATH, NULL,
          bell_round),
    UNARY("trunc", X, "rounded towards zero", MATH, "fix", bell_trunc),
    UNARY("frac", X, "input - trunc(input)", MATH, NULL, bell_frac),

    OTHER("to", "input: tensor, dtype: dtype",
          "converted: floats to integers truncate and saturate, integers wrap",
          CONV, "type cast astype", call_cast),
    OTHER("bitcast", "input: tensor, dtype: dtype",
          "the same bits as another dtype of equal size", CONV, NULL,
          call_bitcast),
#define TO(name, aliases, to) \
    {{name, X, "converted, as by to", CONV, false}, aliases, call_to_dtype, \
     {.dtype = to}}
    TO("bool", NULL, BELL_BOOL),
    TO("int8", "char", BELL_INT8),
    TO("uint8", "byte", BELL_UINT8),
    TO("int16", "short", BELL_INT16),
    TO("uint16", NULL, BELL_UINT16),
    TO("int32", "int", BELL_INT32),
    TO("uint32", NULL, BELL_UINT32),
    TO("int64", "long", BELL_INT64),
    TO("uint64", NULL, BELL_UINT64),
    TO("float16", "half", BELL_FLOAT16),
    TO("bfloat16", NULL, BELL_BFLOAT16),
    TO("float32", "float", BELL_FLOAT32),
    TO("float64", "double", BELL_FLOAT64),
    TO("float8_e4m3fn", NULL, BELL_FLOAT8_E4M3FN),
    TO("float8_e5m2", NULL, BELL_FLOAT8_E5M2),
    TO("float8_e4m3fnuz", NULL, BELL_FLOAT8_E4M3FNUZ),
    TO("float8_e5m2fnuz", NULL, BELL_FLOAT8_E5M2FNUZ),
#undef TO
    UNARY("contiguous", X, "input, stored in memory of its own", CONV, "clone",
          bell_contiguous),
    UNARY("detach", X, "input, through which no gradient flows", CONV, NULL,
          bell_detach),
};
/* clang-format on */

const struct fn_table fn_table_elementwise = {rows, ARRAY_LEN(rows)};
