/* Operators of quantised numbers. Integer sums are exact. src: onnx 1.23,
 * Operators. */
#include "tensor/onnx/ops.h"

#include <string.h>

/* Scales of one element, of an axis, or of blocks along it, spread over x. */
static bell_status
spread(struct onnx_op *op, struct bell_tensor *x, struct bell_tensor *scale,
       struct bell_tensor **out)
{
    int64_t axis = op_axis(op_int(op, "axis", 1), bell_ndim(x));
    int64_t block = op_int(op, "block_size", 0), shape[BELL_MAX_RANK];
    uint32_t ndim = bell_ndim(x), i;

    *out = scale;
    if (bell_ndim(scale) == 0 || ndim == 0)
        return BELL_OK;
    if (bell_ndim(scale) == 1 && bell_size(scale, 0) == 1) {
        *out = bell_reshape(scale, BELL_NO_DIMS);
        return BELL_OK;
    }
    if (axis < 0 || axis >= ndim)
        return bell_fail(BELL_BAD_AXIS, "its axis is not one of %u", ndim);
    if (bell_ndim(scale) == 1) {
        for (i = 0; i < ndim; i++)
            shape[i] = i == axis ? bell_size(scale, 0) : 1;
        *out = bell_reshape(scale, shape, ndim);
        return BELL_OK;
    }
    if (op_varies(x) || op_varies(scale))
        return op_unsupported("blocks of sizes that are symbols");
    if (bell_ndim(scale) != ndim || bell_size(scale, (int)axis) < 1)
        return bell_fail(BELL_BAD_SHAPE,
                         "a scale of %u axes is not of its input's",
                         bell_ndim(scale));
    if (block == 0)
        block = (bell_shape(x)[axis] + bell_shape(scale)[axis] - 1) /
                bell_shape(scale)[axis];
    scale = bell_repeat_interleave(scale, block, (int)axis);
    *out = bell_size(scale, (int)axis) == bell_shape(x)[axis]
               ? scale
               : bell_narrow(scale, (int)axis, 0, bell_shape(x)[axis]);
    return BELL_OK;
}

/* The range of an integer type; false: it is not one. */
static bool
range_of(uint32_t type, double *low, double *high)
{
    static const struct {
        uint32_t type;
        double low, high;
    } rows[] = {
        {ONNX_UINT8, 0, 255},    {ONNX_INT8, -128, 127},
        {ONNX_UINT16, 0, 65535}, {ONNX_INT16, -32768, 32767},
        {ONNX_UINT4, 0, 15},     {ONNX_INT4, -8, 7},
        {ONNX_UINT2, 0, 3},      {ONNX_INT2, -2, 1},
    };
    size_t i;

    for (i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        if (rows[i].type == type) {
            *low = rows[i].low;
            *high = rows[i].high;
            return true;
        }
    }
    return false;
}

static enum bell_dtype
held_as(uint32_t type)
{
    if (type == ONNX_UINT4 || type == ONNX_UINT2)
        return BELL_UINT8;
    return type == ONNX_INT4 || type == ONNX_INT2 ? BELL_INT8
                                                  : onnx_dtype(type);
}

struct bell_tensor *
op_to_range(struct bell_tensor *x, struct bell_tensor *zero, uint32_t type)
{
    double low = 0, high = 0;

    range_of(type, &low, &high);
    x = bell_round(x);
    if (zero)
        x = bell_add(x, bell_cast(zero, bell_dtype_of(x)));
    return bell_cast(bell_clip(x, low, high), held_as(type));
}

bell_status
onnx_op_quantize(struct onnx_op *op)
{
    struct bell_tensor *x = op_in(op, 0), *scale, *zero = NULL;
    uint32_t type = op_has(op, 2) ? op_type(op, 2)
                                  : (uint32_t)op_int(op, "output_dtype", 0);
    double low, high;

    if (type == ONNX_UNDEFINED)
        type = ONNX_UINT8;
    if (onnx_dtype((uint32_t)op_int(op, "precision", ONNX_FLOAT)) ==
        BELL_DEFAULT)
        return op_unsupported("its precision");
    x = bell_cast(x, BELL_FLOAT32);
    BELL_TRY(spread(op, x, bell_cast(op_in(op, 1), BELL_FLOAT32), &scale));
    x = bell_div(x, scale);
    if (op_has(op, 2) && range_of(type, &low, &high))
        BELL_TRY(spread(op, x, op_in(op, 2), &zero));
    if (range_of(type, &low, &high)) {
        op_out(op, 0, op_to_range(x, zero, type));
        if (onnx_dtype(type) == BELL_DEFAULT)
            op->out[0].type = type;
        return BELL_OK;
    }
    if (onnx_dtype(type) < BELL_FLOAT8_E4M3FN)
        return op_unsupported("to %s", onnx_type_name(type));
    return op_cast_float8(op, x, onnx_dtype(type));
}

bell_status
onnx_op_dequantize(struct onnx_op *op)
{
    struct bell_tensor *x = op_in(op, 0), *scale, *zero;
    enum bell_dtype dtype =
        onnx_dtype((uint32_t)op_int(op, "output_dtype", ONNX_UNDEFINED));
    bool is_int = bell_dtype_of(x) <= BELL_UINT64;

    BELL_TRY(spread(op, x, op_in(op, 1), &scale));
    if (dtype == BELL_DEFAULT)
        dtype = bell_dtype_of(scale);
    x = bell_cast(x, is_int ? BELL_INT32 : BELL_FLOAT32);
    if (op_has(op, 2)) {
        BELL_TRY(spread(op, x, op_in(op, 2), &zero));
        x = bell_sub(x, bell_cast(zero, bell_dtype_of(x)));
    }
    x = bell_mul(bell_cast(x, BELL_FLOAT32), bell_cast(scale, BELL_FLOAT32));
    op_out(op, 0, op_to(x, dtype));
    return BELL_OK;
}

void
op_quantise_by_range(struct onnx_op *op, struct bell_tensor *x,
                     struct bell_tensor **out, struct bell_tensor **out_scale,
                     struct bell_tensor **out_zero)
{
    struct bell_tensor *nought =
        bell_zeros(op->ctx, BELL_NO_DIMS, bell_dtype_of(x));
    struct bell_tensor *low, *high, *scale, *zero;

    low = bell_minimum(bell_min(x, BELL_NO_DIMS, false), nought);
    high = bell_maximum(bell_max(x, BELL_NO_DIMS, false), nought);
    scale = bell_div_scalar(bell_sub(high, low), 255);
    /* zeros alone have no range */
    scale = bell_where(bell_eq(scale, nought),
                       bell_ones_like(scale, BELL_DEFAULT), scale);
    zero = bell_round(bell_clip(bell_div(bell_neg(low), scale), 0, 255));
    *out = op_to_range(bell_div(x, scale), zero, ONNX_UINT8);
    *out_scale = scale;
    *out_zero = bell_cast(zero, BELL_UINT8);
}

bell_status
onnx_op_dynamic_quantize(struct onnx_op *op)
{
    struct bell_tensor *y, *scale, *zero;

    op_quantise_by_range(op, op_in(op, 0), &y, &scale, &zero);
    op_out(op, 0, y);
    op_out(op, 1, scale);
    op_out(op, 2, zero);
    return BELL_OK;
}

struct bell_tensor *
op_centered(struct onnx_op *op, struct bell_tensor *x, uint32_t i, int64_t axis)
{
    struct bell_tensor *zero = op_in_or_null(op, i);
    int64_t shape[BELL_MAX_RANK];
    uint32_t ndim = bell_ndim(x), k;

    x = bell_cast(x, BELL_INT32);
    if (!zero || bell_is_error(x))
        return x;
    zero = bell_cast(zero, BELL_INT32);
    if (bell_ndim(zero) == 1) {
        for (k = 0; k < ndim; k++)
            shape[k] = k == axis ? bell_size(zero, 0) : 1;
        if (bell_size(zero, 0) == 1)
            zero = bell_reshape(zero, BELL_NO_DIMS);
        else
            zero = bell_reshape(zero, shape, ndim);
    }
    return bell_sub(x, zero);
}

bell_status
onnx_op_matmul_integer(struct onnx_op *op)
{
    struct bell_tensor *a = op_in(op, 0), *b = op_in(op, 1);
    int64_t rows = (int64_t)bell_ndim(a) - 2, cols = (int64_t)bell_ndim(b) - 1;

    a = op_centered(op, a, 2, rows);
    b = op_centered(op, b, 3, cols);
    op_out(op, 0, bell_cast(bell_matmul(a, b), BELL_INT32));
    return BELL_OK;
}

/* acc * scale, to the output's type. */
static bell_status
requantize(struct onnx_op *op, struct bell_tensor *acc,
           struct bell_tensor *scale, uint32_t zero)
{
    double low, high;
    uint32_t type = op_type(op, zero);

    if (!range_of(type, &low, &high))
        return op_unsupported("to %s", onnx_type_name(type));
    acc = bell_mul(bell_cast(acc, BELL_FLOAT32), scale);
    op_out(op, 0, op_to_range(acc, op_in(op, zero), type));
    return BELL_OK;
}

bell_status
onnx_op_qlinear_matmul(struct onnx_op *op)
{
    struct bell_tensor *a = op_in(op, 0), *b = op_in(op, 3), *scale;

    a = op_centered(op, a, 2, (int64_t)bell_ndim(a) - 2);
    b = op_centered(op, b, 5, (int64_t)bell_ndim(b) - 1);
    scale = bell_div(bell_mul(bell_cast(op_in(op, 1), BELL_FLOAT32),
                              bell_cast(op_in(op, 4), BELL_FLOAT32)),
                     bell_cast(op_in(op, 6), BELL_FLOAT32));
    return requantize(op, bell_matmul(a, b), scale, 7);
}

/* A convolution of integers, exact: in float64, as sums stay below 2^53. */
static bell_status
conv_integers(struct onnx_op *op, struct bell_tensor *x, struct bell_tensor *w,
              struct bell_tensor **out)
{
    struct bell_tensor *y = op_conv(op, bell_cast(x, BELL_FLOAT64),
                                    bell_cast(w, BELL_FLOAT64), NULL);

    if (!y)
        return bell_error_last()->status
                   ? bell_error_last()->status
                   : bell_fail(BELL_BAD_SHAPE, "its weight has other axes");
    *out = bell_cast(y, BELL_INT32);
    return BELL_OK;
}

bell_status
onnx_op_conv_integer(struct onnx_op *op)
{
    struct bell_tensor *y;

    BELL_TRY(conv_integers(op, op_centered(op, op_in(op, 0), 2, 1),
                           op_centered(op, op_in(op, 1), 3, 0), &y));
    op_out(op, 0, y);
    return BELL_OK;
}

bell_status
onnx_op_qlinear_conv(struct onnx_op *op)
{
    struct bell_tensor *y, *scale, *bias;
    int64_t shape[5] = {1, 1, 1, 1, 1};

    BELL_TRY(conv_integers(op, op_centered(op, op_in(op, 0), 2, 1),
                           op_centered(op, op_in(op, 3), 5, 0), &y));
    bias = op_in_or_null(op, 8);
    if (bias) {
        shape[1] = bell_size(bias, 0);
        y = bell_add(y, bell_reshape(bias, shape, bell_ndim(y)));
    }
    scale = bell_div(bell_mul(op_in(op, 1), op_in(op, 4)), op_in(op, 6));
    if (bell_ndim(scale) == 1 && bell_size(scale, 0) > 1) {
        shape[1] = bell_size(scale, 0);
        scale = bell_reshape(scale, shape, bell_ndim(y));
    }
    return requantize(op, y, scale, 7);
}
