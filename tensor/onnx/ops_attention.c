/* Attention and rotary embeddings. src: onnx 1.23, Operators. */
#include "tensor/onnx/ops.h"

#include <math.h>
#include <string.h>

struct bell_tensor *
op_make_heads(struct bell_tensor *x, int64_t heads)
{
    int64_t batch, length;

    if (bell_is_error(x) || bell_ndim(x) != 3 || heads < 1)
        return x;
    if (op_is_size(op_dim(x, 2)))
        return x;
    batch = op_dim(x, 0);
    length = op_dim(x, 1);
    x = bell_reshape(x, BELL_DIMS(batch, length, heads, op_dim(x, 2) / heads));
    return bell_transpose(x, 1, 2);
}

static struct bell_tensor *
int_full(struct onnx_op *op, int64_t v)
{
    return op_is_size(v)
               ? bell_dim_value(op->ctx, (struct bell_dim){v}, BELL_INT64)
               : bell_full_int(op->ctx, BELL_NO_DIMS, v, BELL_INT64);
}

/* 0 .. n - 1 along an axis of four. */
static struct bell_tensor *
count_along(struct onnx_op *op, int64_t n, uint32_t axis)
{
    int64_t shape[4] = {1, 1, 1, 1};

    shape[axis] = n;
    return bell_reshape(bell_arange_dims(op->ctx, bell_dim_of(0),
                                         (struct bell_dim){n}, BELL_INT64),
                        shape, 4);
}

static struct bell_tensor *
both(struct bell_tensor *a, struct bell_tensor *b)
{
    return a ? bell_logical_and(a, b) : b;
}

/* A mask of the keys for each query, in a shape that broadcasts to the scores;
 * NULL: it may see all. */
static struct bell_tensor *
visible(struct onnx_op *op, int64_t n_q, int64_t n_k, int64_t n_past)
{
    struct bell_tensor *lens = op_in_or_null(op, 6), *seen = NULL;
    struct bell_tensor *key = count_along(op, n_k, 3), *at;
    int64_t left = op_int(op, "left_window_size", -1);
    int64_t right = op_int(op, "right_window_size", -1);

    at = bell_add(count_along(op, n_q, 2), int_full(op, n_past));
    if (lens) {
        lens = bell_reshape(op_to(lens, BELL_INT64), BELL_DIMS(-1, 1, 1, 1));
        seen = bell_lt(key, lens);
        if (!n_past)
            at = bell_add(at, bell_sub(lens, int_full(op, n_q)));
    }
    if (op_int(op, "is_causal", 0))
        seen = both(seen, bell_le(key, at));
    if (left >= 0)
        seen = both(seen, bell_ge(key, bell_sub(at, int_full(op, left))));
    if (right >= 0)
        seen = both(seen, bell_le(key, bell_add(at, int_full(op, right))));
    return seen;
}

/* The mask as long as the keys: what is beyond it is not seen. */
static struct bell_tensor *
lengthen(struct onnx_op *op, struct bell_tensor *mask, int64_t n_k)
{
    int64_t n = bell_ndim(mask) ? op_dim(mask, -1) : 1, pads[2] = {0};
    bool is_bool = bell_dtype_of(mask) == BELL_BOOL;

    if (n == n_k || n == 1 || !op_dim_at_most(op, n, n_k))
        return mask;
    pads[1] = op_dim_sub(op, n_k, n);
    return bell_pad(mask, pads, 2, is_bool ? 0 : -INFINITY);
}

/* Scores with what is not seen at -inf; *out_seen: NULL where all is. */
static struct bell_tensor *
add_masks(struct onnx_op *op, struct bell_tensor *scores, int64_t n_past,
          struct bell_tensor **out_seen)
{
    int64_t n_q = op_dim(scores, 2), n_k = op_dim(scores, 3);
    struct bell_tensor *mask = op_in_or_null(op, 3), *seen;

    seen = visible(op, n_q, n_k, n_past);
    if (mask) {
        mask = lengthen(op, mask, n_k);
        if (bell_dtype_of(mask) == BELL_BOOL) {
            seen = both(seen, mask);
        } else {
            scores = bell_add(scores, mask);
            /* a row may be masked by -inf alone */
            seen = both(seen, bell_logical_not(bell_isneginf(mask)));
        }
    }
    if (seen)
        scores = bell_where(
            seen, scores,
            bell_full(op->ctx, BELL_NO_DIMS, -INFINITY, bell_dtype_of(scores)));
    *out_seen = seen;
    return scores;
}

/* Softmax; rows that see nothing are 0. */
static struct bell_tensor *
weigh(struct onnx_op *op, struct bell_tensor *scores, struct bell_tensor *seen)
{
    uint32_t type = (uint32_t)op_int(op, "softmax_precision", 0);
    enum bell_dtype dtype = bell_dtype_of(scores), inner = onnx_dtype(type);
    struct bell_tensor *x = scores, *any;
    int64_t last = -1;

    if (inner != BELL_DEFAULT)
        x = op_to(x, inner);
    x = op_to(bell_softmax(x, -1), dtype);
    if (!seen)
        return x;
    any = bell_any(bell_logical_not(bell_isneginf(scores)), &last, 1, true);
    return bell_where(any, x, bell_zeros_like(x, BELL_DEFAULT));
}

static struct bell_tensor *
repeat_heads(struct bell_tensor *x, int64_t heads)
{
    int64_t own = op_dim(x, 1);

    return own == heads || own < 1 || op_is_size(own)
               ? x
               : bell_repeat_interleave(x, heads / own, 1);
}

bell_status
onnx_op_attention(struct onnx_op *op)
{
    struct bell_tensor *q = op_in(op, 0), *k = op_in(op, 1), *v = op_in(op, 2);
    struct bell_tensor *past_k = op_in_or_null(op, 4);
    struct bell_tensor *past_v = op_in_or_null(op, 5);
    struct bell_tensor *raw, *capped, *biased, *weights, *y, *seen;
    int64_t mode = op_int(op, "qk_matmul_output_mode", 0), n_past = 0, heads;
    double cap = op_float(op, "softcap", 0), scale;
    bool is_flat = bell_ndim(q) == 3;

    q = op_make_heads(q, op_int(op, "q_num_heads", 0));
    k = op_make_heads(k, op_int(op, "kv_num_heads", 0));
    v = op_make_heads(v, op_int(op, "kv_num_heads", 0));
    if (bell_is_error(q) || bell_ndim(q) != 4 || bell_ndim(k) != 4 ||
        bell_ndim(v) != 4)
        return bell_fail(BELL_BAD_SHAPE, "Q, K and V must have 4 axes, or 3 "
                                         "and heads");
    if (past_k && past_v) {
        n_past = op_dim(past_k, 2);
        k = bell_cat(BELL_TENSORS(past_k, k), 2);
        v = bell_cat(BELL_TENSORS(past_v, v), 2);
    }
    op_out(op, 1, k);
    op_out(op, 2, v);
    heads = op_dim(q, 1);
    if (op_is_size(heads) || op_is_size(op_dim(q, 3)))
        return op_unsupported("heads, or their size, are a symbol's");
    scale = sqrt(op_float(op, "scale", 1 / sqrt((double)op_dim(q, 3))));
    raw = bell_matmul(bell_mul_scalar(q, scale),
                      bell_t(bell_mul_scalar(repeat_heads(k, heads), scale)));
    capped = cap > 0
                 ? bell_mul_scalar(bell_tanh(bell_div_scalar(raw, cap)), cap)
                 : raw;
    biased = add_masks(op, capped, n_past, &seen);
    weights = weigh(op, biased, seen);
    y = bell_matmul(weights, repeat_heads(v, heads));
    op_out(op, 3,
           bell_alias(mode == 0   ? raw
                      : mode == 1 ? capped
                      : mode == 2 ? biased
                                  : weights));
    if (is_flat) {
        y = bell_transpose(y, 1, 2);
        y = bell_reshape(y,
                         BELL_DIMS(op_dim(y, 0), op_dim(y, 1),
                                   op_dim_mul(op, op_dim(y, 2), op_dim(y, 3))));
    }
    op_out(op, 0, y);
    return BELL_OK;
}

/* Every second element of the last axis, from `first` on. */
static struct bell_tensor *
every_second(struct bell_tensor *x, int64_t first)
{
    return bell_index(
        x, BELL_ITEMS(bell_ellipsis(), bell_slice(first, BELL_NONE, 2)));
}

struct bell_tensor *
op_rotate(struct bell_tensor *x, struct bell_tensor *c, struct bell_tensor *s,
          int64_t n, bool interleaved)
{
    int axis = (int)bell_ndim(x) - 1;
    int64_t size = bell_size(x, -1);
    struct bell_tensor *part = n == size ? x : bell_narrow(x, axis, 0, n);
    struct bell_tensor *a, *b, *re, *im, *y;

    a = interleaved ? every_second(part, 0) : bell_narrow(x, axis, 0, n / 2);
    b = interleaved ? every_second(part, 1)
                    : bell_narrow(x, axis, n / 2, n / 2);
    re = bell_sub(bell_mul(c, a), bell_mul(s, b));
    im = bell_add(bell_mul(s, a), bell_mul(c, b));
    y = interleaved ? bell_flatten(bell_stack(BELL_TENSORS(re, im), axis + 1),
                                   axis, axis + 1)
                    : bell_cat(BELL_TENSORS(re, im), axis);
    return n == size
               ? y
               : bell_cat(BELL_TENSORS(y, bell_narrow(x, axis, n, size - n)),
                          axis);
}

bell_status
onnx_op_rotary(struct onnx_op *op)
{
    struct bell_tensor *x = op_in(op, 0), *c = op_in(op, 1), *s = op_in(op, 2);
    struct bell_tensor *ids = op_in_or_null(op, 3), *y;
    bool is_flat = bell_ndim(x) == 3;
    int64_t n, size, heads = op_int(op, "num_heads", 0);
    int64_t shape[3];

    if (!is_flat && bell_ndim(x) != 4)
        return bell_fail(BELL_BAD_SHAPE, "X has %u axes", bell_ndim(x));
    if (op_is_size(op_dim(x, -1)))
        return op_unsupported("its last axis is a symbol's");
    if (is_flat && (heads < 1 || op_dim(x, 2) % heads))
        return bell_fail(BELL_BAD_VALUE, "num_heads is %lld", (long long)heads);
    if (is_flat)
        memcpy(shape, op_dims(x), sizeof(shape));
    x = op_make_heads(x, heads);
    if (ids) {
        c = bell_embedding(ids, c);
        s = bell_embedding(ids, s);
    }
    c = bell_unsqueeze(c, 1); /* [batch, 1, length, n / 2] */
    s = bell_unsqueeze(s, 1);
    size = op_dim(x, 3);
    n = op_int(op, "rotary_embedding_dim", 0);
    n = n ? n : size;
    if (n < 2 || n > size || n % 2)
        return bell_fail(BELL_BAD_VALUE, "rotary_embedding_dim is %lld",
                         (long long)n);
    y = op_rotate(x, c, s, n, op_int(op, "interleaved", 0));
    if (is_flat)
        y = bell_reshape(bell_transpose(y, 1, 2), shape, 3);
    op_out(op, 0, y);
    return BELL_OK;
}
