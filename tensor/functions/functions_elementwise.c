/* The function table: arithmetic, comparisons, elementwise mathematics,
 * conversions. */
#include "tensor/functions/functions_internal.h"

#include <string.h>

#include "base/bits.h"
#include "tensor/ops/elementwise.h"

/* input +- alpha * other, rounded once. */
static struct bell_tensor *
add_scaled(struct fn_args *args, bool minus)
{
    return tensor_add_scaled(args->row->fn.name, args->a[0].t, args->a[1].t,
                             fn_scalar(args, &args->a[2]), minus);
}

static struct bell_tensor *
call_add(struct fn_args *args)
{
    if (args->a[2].is_int && args->a[2].i == 1)
        return bell_add(args->a[0].t, args->a[1].t);
    return add_scaled(args, false);
}

static struct bell_tensor *
call_sub(struct fn_args *args)
{
    if (args->a[2].is_int && args->a[2].i == 1)
        return bell_sub(args->a[0].t, args->a[1].t);
    return add_scaled(args, true);
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

/* Integers above 2^53 multiply as they are. */
static struct bell_tensor *
call_addcmul(struct fn_args *args)
{
    if (fn_is_exact(&args->a[3]))
        return fn_forward(args);
    return bell_add(args->a[0].t, bell_mul(bell_mul(args->a[1].t, args->a[2].t),
                                           fn_scalar(args, &args->a[3])));
}

static struct bell_tensor *
call_allclose(struct fn_args *args)
{
    return bell_all(fn_forward(args), BELL_NO_DIMS, false);
}

#define X    "input: tensor"
#define XY   X ", other: tensor"
#define AR   "Arithmetic"
#define CMP  "Comparison and logic"
#define MATH "Elementwise mathematics"
#define CONV "Conversion"

/* clang-format off */
static const struct fn_row rows[] = {
    {{"add", "input: tensor, other: tensor, alpha: number = 1",
      "input + alpha * other", AR}, .glue = call_add},
    {{"sub", "input: tensor, other: tensor, alpha: number = 1",
      "input - alpha * other", AR}, .aliases = "subtract", .glue = call_sub},
    {{"mul", XY, "input * other", AR}, FN(tt, bell_mul), .aliases = "multiply"},
    {{"div", "input: tensor, other: tensor, rounding_mode: str = None",
      "input / other, in floats; rounding_mode 'floor' or 'trunc'", AR},
     .aliases = "divide", .glue = call_div},
    {{"true_divide", XY, "input / other, in floats", AR}, FN(tt, bell_div)},
    {{"floor_divide", XY, "quotient rounded down; of integers by 0 it is 0",
      AR}, FN(tt, bell_floor_divide)},
    {{"trunc_divide", XY, "quotient rounded towards zero", AR},
     FN(tt, bell_trunc_divide)},
    {{"remainder", XY, "what floor_divide leaves, with the sign of other", AR},
     FN(tt, bell_remainder)},
    {{"fmod", XY, "what trunc_divide leaves, with the sign of input", AR},
     FN(tt, bell_fmod)},
    {{"pow", "input: tensor, exponent: tensor",
      "input to the power of exponent", AR}, FN(tt, bell_pow)},
    {{"maximum", XY, "the greater, elementwise; NaN if either is", AR},
     FN(tt, bell_maximum)},
    {{"minimum", XY, "the smaller, elementwise; NaN if either is", AR},
     FN(tt, bell_minimum)},
    {{"neg", X, "-input", AR}, FN(t, bell_neg), .aliases = "negative"},
    {{"abs", X, "magnitude", AR}, FN(t, bell_abs), .aliases = "absolute"},
    {{"sign", X, "-1, 0 or 1", AR}, FN(t, bell_sign), .aliases = "sgn"},
    {{"square", X, "input * input", AR}, FN(t, bell_square)},
    {{"reciprocal", X, "1 / input", AR}, FN(t, bell_reciprocal)},
    {{"lerp", "input: tensor, end: tensor, weight: tensor",
      "input + weight * (end - input)", AR}, FN(ttt, bell_lerp)},
    {{"addcmul",
      "input: tensor, tensor1: tensor, tensor2: tensor, value: number = 1",
      "input + value * tensor1 * tensor2", AR}, FN(tttf, bell_addcmul),
     .glue = call_addcmul},
    {{"addcdiv",
      "input: tensor, tensor1: tensor, tensor2: tensor, value: float = 1",
      "input + value * tensor1 / tensor2", AR}, FN(tttf, bell_addcdiv)},
    {{"clamp", "input: tensor, min: tensor = None, max: tensor = None",
      "limited to min..max", AR}, .aliases = "clip", .glue = call_clamp},

    {{"eq", XY, "input == other", CMP}, FN(tt, bell_eq)},
    {{"ne", XY, "input != other", CMP}, FN(tt, bell_ne),
     .aliases = "not_equal"},
    {{"lt", XY, "input < other", CMP}, FN(tt, bell_lt), .aliases = "less"},
    {{"le", XY, "input <= other", CMP}, FN(tt, bell_le),
     .aliases = "less_equal"},
    {{"gt", XY, "input > other", CMP}, FN(tt, bell_gt), .aliases = "greater"},
    {{"ge", XY, "input >= other", CMP}, FN(tt, bell_ge),
     .aliases = "greater_equal"},
    {{"logical_and", XY, "whether both are not 0", CMP},
     FN(tt, bell_logical_and)},
    {{"logical_or", XY, "whether either is not 0", CMP},
     FN(tt, bell_logical_or)},
    {{"logical_xor", XY, "whether just one is not 0", CMP},
     FN(tt, bell_logical_xor)},
    {{"logical_not", X, "whether input is 0", CMP}, FN(t, bell_logical_not)},
    {{"bitwise_and", XY, "bits set in both", CMP}, FN(tt, bell_bitwise_and)},
    {{"bitwise_or", XY, "bits set in either", CMP}, FN(tt, bell_bitwise_or)},
    {{"bitwise_xor", XY, "bits set in just one", CMP},
     FN(tt, bell_bitwise_xor)},
    {{"bitwise_not", X, "every bit inverted", CMP}, FN(t, bell_bitwise_not)},
    {{"bitwise_left_shift", XY, "input << other; 0 where other is too great",
      CMP}, FN(tt, bell_lshift), .aliases = "lshift"},
    {{"bitwise_right_shift", XY, "input >> other, keeping the sign", CMP},
     FN(tt, bell_rshift), .aliases = "rshift"},
    {{"where", "condition: tensor, input: tensor, other: tensor",
      "condition ? input : other, elementwise", CMP}, FN(ttt, bell_where)},
    {{"isclose", "input: tensor, other: tensor, rtol: float = 1e-05, "
      "atol: float = 1e-08, equal_nan: bool = False",
      "|input - other| <= atol + rtol * |other|", CMP},
     FN(ttffb, bell_isclose)},
    {{"allclose", "input: tensor, other: tensor, rtol: float = 1e-05, "
      "atol: float = 1e-08, equal_nan: bool = False",
      "whether isclose holds everywhere", CMP}, FN(ttffb, bell_isclose), .glue = call_allclose},
    {{"isnan", X, "whether it is NaN", CMP}, FN(t, bell_isnan)},
    {{"isinf", X, "whether it is an infinity", CMP}, FN(t, bell_isinf)},
    {{"isposinf", X, "whether it is the positive infinity", CMP},
     FN(t, bell_isposinf)},
    {{"isneginf", X, "whether it is the negative infinity", CMP},
     FN(t, bell_isneginf)},
    {{"isfinite", X, "whether it is neither NaN nor infinite", CMP},
     FN(t, bell_isfinite)},

    {{"exp", X, "e to the power of input", MATH}, FN(t, bell_exp)},
    {{"exp2", X, "2 to the power of input", MATH}, FN(t, bell_exp2)},
    {{"expm1", X, "exp(input) - 1", MATH}, FN(t, bell_expm1)},
    {{"log", X, "natural logarithm", MATH}, FN(t, bell_log)},
    {{"log2", X, "logarithm of base 2", MATH}, FN(t, bell_log2)},
    {{"log10", X, "logarithm of base 10", MATH}, FN(t, bell_log10)},
    {{"log1p", X, "log(1 + input)", MATH}, FN(t, bell_log1p)},
    {{"sqrt", X, "square root", MATH}, FN(t, bell_sqrt)},
    {{"rsqrt", X, "1 / sqrt(input)", MATH}, FN(t, bell_rsqrt)},
    {{"sin", X, "sine of radians", MATH}, FN(t, bell_sin)},
    {{"cos", X, "cosine of radians", MATH}, FN(t, bell_cos)},
    {{"tan", X, "tangent of radians", MATH}, FN(t, bell_tan)},
    {{"asin", X, "angle of a sine", MATH}, FN(t, bell_asin),
     .aliases = "arcsin"},
    {{"acos", X, "angle of a cosine", MATH}, FN(t, bell_acos),
     .aliases = "arccos"},
    {{"atan", X, "angle of a tangent", MATH}, FN(t, bell_atan),
     .aliases = "arctan"},
    {{"atan2", XY, "angle of the point (other, input)", MATH},
     FN(tt, bell_atan2), .aliases = "arctan2"},
    {{"sinh", X, "hyperbolic sine", MATH}, FN(t, bell_sinh)},
    {{"cosh", X, "hyperbolic cosine", MATH}, FN(t, bell_cosh)},
    {{"tanh", X, "hyperbolic tangent", MATH}, FN(t, bell_tanh)},
    {{"asinh", X, "inverse of sinh", MATH}, FN(t, bell_asinh),
     .aliases = "arcsinh"},
    {{"acosh", X, "inverse of cosh", MATH}, FN(t, bell_acosh),
     .aliases = "arccosh"},
    {{"atanh", X, "inverse of tanh", MATH}, FN(t, bell_atanh),
     .aliases = "arctanh"},
    {{"erf", X, "error function", MATH}, FN(t, bell_erf)},
    {{"hypot", XY, "sqrt(input^2 + other^2)", MATH}, FN(tt, bell_hypot)},
    {{"logaddexp", XY, "log(exp(input) + exp(other))", MATH},
     FN(tt, bell_logaddexp)},
    {{"copysign", XY, "|input| with the sign of other", MATH},
     FN(tt, bell_copysign)},
    {{"nextafter", XY, "the number beside input on the way to other", MATH},
     FN(tt, bell_nextafter)},
    {{"floor", X, "rounded down", MATH}, FN(t, bell_floor)},
    {{"ceil", X, "rounded up", MATH}, FN(t, bell_ceil)},
    {{"round", X, "rounded to the nearest, ties to even", MATH},
     FN(t, bell_round)},
    {{"trunc", X, "rounded towards zero", MATH}, FN(t, bell_trunc),
     .aliases = "fix"},
    {{"frac", X, "input - trunc(input)", MATH}, FN(t, bell_frac)},

    {{"to", "input: tensor, dtype: dtype",
      "converted: floats to integers truncate and saturate, integers wrap",
      CONV}, FN(ty, bell_cast), .aliases = "type cast astype"},
    {{"bitcast", "input: tensor, dtype: dtype",
      "the same bits as another dtype of equal size", CONV},
     FN(ty, bell_bitcast)},
    {{"bool", X, "converted, as by to", CONV}, FN(ty, bell_cast), "0k",
     .constant = BELL_BOOL},
    {{"int8", X, "converted, as by to", CONV}, FN(ty, bell_cast), "0k",
     .aliases = "char", .constant = BELL_INT8},
    {{"uint8", X, "converted, as by to", CONV}, FN(ty, bell_cast), "0k",
     .aliases = "byte", .constant = BELL_UINT8},
    {{"int16", X, "converted, as by to", CONV}, FN(ty, bell_cast), "0k",
     .aliases = "short", .constant = BELL_INT16},
    {{"uint16", X, "converted, as by to", CONV}, FN(ty, bell_cast), "0k",
     .constant = BELL_UINT16},
    {{"int32", X, "converted, as by to", CONV}, FN(ty, bell_cast), "0k",
     .aliases = "int", .constant = BELL_INT32},
    {{"uint32", X, "converted, as by to", CONV}, FN(ty, bell_cast), "0k",
     .constant = BELL_UINT32},
    {{"int64", X, "converted, as by to", CONV}, FN(ty, bell_cast), "0k",
     .aliases = "long", .constant = BELL_INT64},
    {{"uint64", X, "converted, as by to", CONV}, FN(ty, bell_cast), "0k",
     .constant = BELL_UINT64},
    {{"float16", X, "converted, as by to", CONV}, FN(ty, bell_cast), "0k",
     .aliases = "half", .constant = BELL_FLOAT16},
    {{"bfloat16", X, "converted, as by to", CONV}, FN(ty, bell_cast), "0k",
     .constant = BELL_BFLOAT16},
    {{"float32", X, "converted, as by to", CONV}, FN(ty, bell_cast), "0k",
     .aliases = "float", .constant = BELL_FLOAT32},
    {{"float64", X, "converted, as by to", CONV}, FN(ty, bell_cast), "0k",
     .aliases = "double", .constant = BELL_FLOAT64},
    {{"float8_e4m3fn", X, "converted, as by to", CONV}, FN(ty, bell_cast), "0k",
     .constant = BELL_FLOAT8_E4M3FN},
    {{"float8_e5m2", X, "converted, as by to", CONV}, FN(ty, bell_cast), "0k",
     .constant = BELL_FLOAT8_E5M2},
    {{"float8_e4m3fnuz", X, "converted, as by to", CONV}, FN(ty, bell_cast),
     "0k", .constant = BELL_FLOAT8_E4M3FNUZ},
    {{"float8_e5m2fnuz", X, "converted, as by to", CONV}, FN(ty, bell_cast),
     "0k", .constant = BELL_FLOAT8_E5M2FNUZ},
    {{"contiguous", X, "input, stored in memory of its own", CONV},
     FN(t, bell_contiguous), .aliases = "clone"},
    {{"detach", X, "input, through which no gradient flows", CONV},
     FN(t, bell_detach)},
};
/* clang-format on */

const struct fn_table fn_table_elementwise = {rows, ARRAY_LEN(rows)};
