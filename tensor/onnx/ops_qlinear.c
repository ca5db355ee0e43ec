/* com.microsoft's operators of quantised numbers: QLinear*, products of bytes,
 * products of weights of a few bits.
 * src: ONNX Runtime 1.32, ContribOperators. */
#include "tensor/onnx/ops.h"

#include <string.h>

/* Input i, one number. */
static struct bell_tensor *
number(struct onnx_op *op, uint32_t i)
{
    return bell_reshape(op_in(op, i), BELL_NO_DIMS);
}

/* (x - zero) scale, of inputs i, i + 2 and i + 1. */
static struct bell_tensor *
dequantised(struct onnx_op *op, uint32_t i)
{
    struct bell_tensor *x = bell_cast(op_in(op, i), BELL_INT32);

    if (op_has(op, i + 2))
        x = bell_sub(x, bell_cast(number(op, i + 2), BELL_INT32));
    return bell_mul(bell_cast(x, BELL_FLOAT32), number(op, i + 1));
}

/* Output 0: y by the scale and the zero of inputs i and i + 1, as bytes of
 * that type. */
static bell_status
requantised(struct onnx_op *op, struct bell_tensor *y, uint32_t i,
            uint32_t type)
{
    struct bell_tensor *zero = op_has(op, i + 1) ? number(op, i + 1) : NULL;

    if (type != ONNX_UINT8 && type != ONNX_INT8)
        return op_unsupported("of %s; expected uint8 or int8",
                              onnx_type_name(type));
    op_out(op, 0, op_to_range(bell_div(y, number(op, i)), zero, type));
    return BELL_OK;
}

static bell_status
pool_of(struct onnx_op *op, struct bell_tensor *x, bool is_global,
        struct bell_tensor **out)
{
    bool last = op_int(op, "channels_last", 0);
    int64_t axes[BELL_MAX_RANK];
    uint32_t n, i;

    if (bell_is_error(x) || bell_ndim(x) < 3)
        return bell_fail(BELL_BAD_SHAPE, "an input of %u axes is not enough",
                         bell_ndim(x));
    if (last)
        x = bell_movedim(x, -1, 1);
    n = bell_ndim(x) - 2;
    for (i = 0; i < n; i++)
        axes[i] = 2 + i;
    if (is_global)
        x = bell_mean(x, axes, n, true);
    else
        BELL_TRY(op_average_pool(op, x, &x));
    *out = last ? bell_movedim(x, 1, -1) : x;
    return BELL_OK;
}

/* Over `axis`, or before opset 13 over it and those behind. */
static struct bell_tensor *
softmax_of(struct onnx_op *op, struct bell_tensor *x)
{
    bool is_old = op_int(op, "opset", 13) < 13;
    int64_t axis = op_int(op, "axis", is_old ? 1 : -1), rows = 1, i;
    const int64_t *shape = bell_shape(x);
    uint32_t ndim = bell_ndim(x);

    if (!is_old || bell_is_error(x))
        return bell_softmax(x, (int)axis);
    axis = op_axis(axis, ndim);
    for (i = 0; i < axis && i < ndim; i++)
        rows *= shape[i];
    return bell_reshape(bell_softmax(bell_reshape(x, BELL_DIMS(rows, -1)), 1),
                        shape, ndim);
}

/* A function of one input, by the name behind QLinear. */
bell_status
onnx_op_qlinear_unary(struct onnx_op *op)
{
    const char *name = op->node->op + strlen("QLinear");
    struct bell_tensor *x = dequantised(op, 0);

    if (strcmp(name, "Sigmoid") == 0)
        x = bell_sigmoid(x);
    else if (strcmp(name, "LeakyRelu") == 0)
        x = bell_leaky_relu(x, op_float(op, "alpha", (double)0.01f));
    else if (strcmp(name, "Softmax") == 0)
        x = softmax_of(op, x);
    else
        BELL_TRY(pool_of(op, x, strcmp(name, "GlobalAveragePool") == 0, &x));
    return requantised(op, x, 3, op_type(op, 0));
}

bell_status
onnx_op_qlinear_binary(struct onnx_op *op)
{
    bool is_add = strcmp(op->node->op, "QLinearAdd") == 0;
    struct bell_tensor *x = dequantised(op, 0), *y = dequantised(op, 3);

    return requantised(op, is_add ? bell_add(x, y) : bell_mul(x, y), 6,
                       op_type(op, 0));
}

bell_status
onnx_op_qlinear_where(struct onnx_op *op)
{
    struct bell_tensor *x = dequantised(op, 1), *y = dequantised(op, 4);

    return requantised(op, bell_where(op_in(op, 0), x, y), 7, op_type(op, 1));
}

/* Inputs: the result's scale and zero, then each part with its own. */
bell_status
onnx_op_qlinear_concat(struct onnx_op *op)
{
    uint32_t n = op->n_in < 5 ? 0 : (op->n_in - 2) / 3, i;
    struct bell_tensor **list = op_take(op, n, sizeof(struct bell_tensor *));

    if (!list)
        return onnx_no_memory();
    if (!n || op->n_in != 2 + 3 * n)
        return bell_fail(BELL_BAD_SHAPE,
                         "it has %u inputs; expected 2 and 3 of each part",
                         op->n_in);
    for (i = 0; i < n; i++)
        list[i] = dequantised(op, 2 + 3 * i);
    return requantised(op, bell_cat(list, n, (int)op_int(op, "axis", 0)), 0,
                       op_type(op, 2));
}

/* ---- products of bytes ---- */

/* alpha a @ b + c: without a result's scale, floats. */
bell_status
onnx_op_qgemm(struct onnx_op *op)
{
    struct bell_tensor *a = op_in(op, 0), *b = op_in(op, 3), *y, *scale;
    double alpha = op_float(op, "alpha", 1);
    uint32_t type = op_type(op, 0);
    bool trans_b = op_int(op, "transB", 0);

    if (bell_ndim(a) != 2 || bell_ndim(b) != 2)
        return bell_fail(BELL_BAD_SHAPE, "expected matrices");
    a = op_centered(op, a, 2, -1);
    b = op_centered(op, b, 5, trans_b ? 0 : 1);
    if (op_int(op, "transA", 0))
        a = bell_t(a);
    if (trans_b)
        b = bell_t(b);
    y = bell_matmul(a, b);
    if (op_has(op, 6))
        y = bell_add(y, op_in(op, 6));
    scale = bell_mul(bell_mul_scalar(number(op, 1), alpha), op_in(op, 4));
    y = bell_mul(bell_cast(y, BELL_FLOAT32), scale);
    if (op_has(op, 7))
        return requantised(op, y, 7, op_has(op, 8) ? op_type(op, 8) : type);
    op_out(op, 0, y);
    return BELL_OK;
}

/* a @ b of bytes as floats; inputs a, b, a_scale, b_scale, a_zero, b_zero,
 * bias. */
bell_status
onnx_op_matmul_to_float(struct onnx_op *op)
{
    struct bell_tensor *a = op_in(op, 0), *b = op_in(op, 1), *y;

    a = op_centered(op, a, 4, (int64_t)bell_ndim(a) - 2);
    b = op_centered(op, b, 5, (int64_t)bell_ndim(b) - 1);
    y = bell_mul(bell_cast(bell_matmul(a, b), BELL_FLOAT32),
                 bell_mul(op_in(op, 2), op_in(op, 3)));
    op_out(op, 0, op_has(op, 6) ? bell_add(y, op_in(op, 6)) : y);
    return BELL_OK;
}

/* a as bytes of its own range; inputs a, b, b_scale, b_zero, bias. */
bell_status
onnx_op_dynamic_matmul(struct onnx_op *op)
{
    struct bell_tensor *a, *scale, *zero, *b = op_in(op, 1), *y;

    op_quantise_by_range(op, op_in(op, 0), &a, &scale, &zero);
    a = bell_sub(bell_cast(a, BELL_INT32), bell_cast(zero, BELL_INT32));
    b = op_centered(op, b, 3, (int64_t)bell_ndim(b) - 1);
    y = bell_mul(bell_cast(bell_matmul(a, b), BELL_FLOAT32),
                 bell_mul(scale, op_in(op, 2)));
    op_out(op, 0, op_has(op, 4) ? bell_add(y, op_in(op, 4)) : y);
    return BELL_OK;
}

/* ---- weights of a few bits ---- */

/* Numbers of `bits` bits, the lowest first, from the bytes of the last axis. */
static struct bell_tensor *
unpack_bits(struct onnx_op *op, struct bell_tensor *x, int64_t bits)
{
    struct bell_tensor *parts[4], *mask;
    uint32_t n = (uint32_t)(8 / bits), i;
    int last = (int)bell_ndim(x);

    if (n == 1 || bell_is_error(x))
        return x;
    mask = bell_full_int(op->ctx, BELL_NO_DIMS, (1 << bits) - 1, BELL_UINT8);
    for (i = 0; i < n; i++)
        parts[i] = bell_bitwise_and(
            bell_rshift(x, bell_full_int(op->ctx, BELL_NO_DIMS,
                                         (int64_t)i * bits, BELL_UINT8)),
            mask);
    return bell_flatten(bell_stack(parts, n, last), last - 1, last);
}

/* Zeros of blocks as [n, blocks], of scale's dtype: input i is packed like the
 * weight or is floats; absent: the middle. */
static struct bell_tensor *
zeros_of_blocks(struct onnx_op *op, uint32_t i, int64_t n, int64_t blocks,
                int64_t bits, enum bell_dtype dtype)
{
    struct bell_tensor *zero = op_in_or_null(op, i);

    if (!zero)
        return bell_full(op->ctx, BELL_NO_DIMS, (double)(1 << (bits - 1)),
                         dtype);
    if (bell_dtype_of(zero) != BELL_UINT8)
        return bell_reshape(zero, BELL_DIMS(n, blocks));
    zero = bell_reshape(zero, BELL_DIMS(n, (blocks * bits + 7) / 8));
    zero = bell_narrow(unpack_bits(op, zero, bits), 1, 0, blocks);
    return bell_cast(zero, dtype);
}

/* a @ weight, the weight's [n, blocks, bytes] being blocks along k. */
bell_status
onnx_op_matmul_nbits(struct onnx_op *op)
{
    struct bell_tensor *a = op_in(op, 0), *b, *scale = op_in(op, 2), *zero, *y;
    int64_t k = op_int(op, "K", 0), n = op_int(op, "N", 0);
    int64_t bits = op_int(op, "bits", 4), size = op_int(op, "block_size", 0);
    enum bell_dtype dtype = bell_dtype_of(scale);
    int64_t blocks;

    if (bits != 2 && bits != 4 && bits != 8)
        return op_unsupported("bits are %lld; expected 2, 4 or 8",
                              (long long)bits);
    if (k < 1 || n < 1 || size < 16 || size > 1 << 20 || size & (size - 1) ||
        k > INT32_MAX || n > INT32_MAX)
        return bell_fail(BELL_BAD_VALUE,
                         "K, N or block_size is wrong; expected 1 or more, "
                         "and a power of 2 from 16 on");
    if (op_int(op, "weight_prepacked", 0))
        return op_unsupported("weight_prepacked is not 0");
    blocks = (k + size - 1) / size;
    b = bell_reshape(op_in(op, 1), BELL_DIMS(n, blocks, size * bits / 8));
    b = bell_cast(unpack_bits(op, b, bits), dtype);
    scale = bell_reshape(scale, BELL_DIMS(n, blocks));
    zero = zeros_of_blocks(op, 3, n, blocks, bits, dtype);
    if (op_has(op, 4)) {
        struct bell_tensor *group = op_in(op, 4);

        b = bell_narrow(bell_reshape(b, BELL_DIMS(n, blocks * size)), 1, 0, k);
        scale = bell_index_select(scale, 1, group);
        if (op_has(op, 3))
            zero = bell_index_select(zero, 1, group);
        b = bell_mul(bell_sub(b, zero), scale);
    } else {
        if (op_has(op, 3))
            zero = bell_unsqueeze(zero, 2);
        b = bell_mul(bell_sub(b, zero), bell_unsqueeze(scale, 2));
        b = bell_narrow(bell_reshape(b, BELL_DIMS(n, blocks * size)), 1, 0, k);
    }
    y = bell_matmul(a, bell_t(op_to(b, bell_dtype_of(a))));
    op_out(op, 0, op_has(op, 5) ? bell_add(y, op_in(op, 5)) : y);
    return BELL_OK;
}
