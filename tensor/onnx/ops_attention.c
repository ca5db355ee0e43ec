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

/* A graph of one input and one output, which has the input's shape. */
static bell_status
run_modifier(struct onnx_op *op, const char *name, struct bell_tensor **x)
{
    const struct onnx_attr *attr = op_attr(op, name);
    struct onnx_value in = {.kind = ONNX_VALUE}, *args = &in, out = {0};
    struct bell_tensor *y;

    if (!attr)
        return BELL_OK;
    if (!attr->g || attr->g->n_inputs != 1 || attr->g->n_outputs != 1)
        return bell_fail(BELL_E_IO, "%s must have one input and one output",
                         name);
    in.t = *x;
    BELL_TRY(onnx_run_inner(op, attr->g, &args, 1, &out, 1));
    y = onnx_tensor_in(op->run, op->ctx, &out);
    if (bell_is_error(y) || bell_ndim(y) != bell_ndim(*x) ||
        memcmp(op_dims(y), op_dims(*x), bell_ndim(y) * sizeof(int64_t)) != 0)
        return bell_fail(BELL_BAD_SHAPE,
                         "%s must give a tensor of its input's shape", name);
    *x = op_to(y, bell_dtype_of(*x));
    return BELL_OK;
}

bell_status
onnx_op_flex_attention(struct onnx_op *op)
{
    struct bell_tensor *q = op_in(op, 0), *k = op_in(op, 1), *v = op_in(op, 2);
    uint32_t type = (uint32_t)op_int(op, "softmax_precision", 0);
    enum bell_dtype dtype, inner = onnx_dtype(type);
    int64_t heads;
    struct bell_tensor *x;
    double scale;

    if (bell_is_error(q) || bell_is_error(k) || bell_is_error(v) ||
        bell_ndim(q) != 4 || bell_ndim(k) != 4 || bell_ndim(v) != 4)
        return bell_fail(BELL_BAD_SHAPE, "Q, K and V must have 4 axes");
    heads = op_dim(q, 1);
    if (op_is_size(heads) || op_is_size(op_dim(q, 3)) ||
        op_is_size(op_dim(k, 1)))
        return op_unsupported("heads, or their size, are a symbol's");
    if (op_dim(k, 1) < 1 || heads % op_dim(k, 1) ||
        op_dim(v, 1) != op_dim(k, 1))
        return bell_fail(BELL_BAD_SHAPE,
                         "K has %lld heads and Q %lld; expected a multiple of "
                         "K's, and V's as K's",
                         (long long)op_dim(k, 1), (long long)heads);
    dtype = bell_dtype_of(v);
    if (inner == BELL_DEFAULT)
        inner = bell_dtype_of(q) == BELL_FLOAT64 ? BELL_FLOAT64 : BELL_FLOAT32;
    scale = sqrt(op_float(op, "scale", 1 / sqrt((double)op_dim(q, 3))));
    x = bell_matmul(bell_mul_scalar(q, scale),
                    bell_t(bell_mul_scalar(repeat_heads(k, heads), scale)));
    x = op_to(x, inner);
    BELL_TRY(run_modifier(op, "score_mod", &x));
    x = bell_softmax(x, -1);
    BELL_TRY(run_modifier(op, "prob_mod", &x));
    x = bell_matmul(x, op_to(repeat_heads(v, heads), inner));
    op_out(op, 0, op_to(x, dtype));
    return BELL_OK;
}

/* ---- LinearAttention ---- */

#define MAX_TOKENS 4096

/* Step t of x[batch, heads, length, n], as [batch, heads, n, 1]. */
static struct bell_tensor *
step_of(struct bell_tensor *x, int64_t t)
{
    return x ? bell_unsqueeze(bell_select(x, 2, t), 3) : NULL;
}

/* The state after a token: S = e^g S + k (x) b (v - (e^g S)^T k), where what
 * the rule does not have is left out. */
static struct bell_tensor *
next_state(struct bell_tensor *state, struct bell_tensor *k,
           struct bell_tensor *v, struct bell_tensor *g, struct bell_tensor *b)
{
    if (g)
        state = bell_mul(state, bell_exp(g));
    if (b)
        v = bell_mul(b, bell_sub(v, bell_matmul(bell_t(state), k)));
    return bell_add(state, bell_mul(k, bell_t(v)));
}

/* An input of heads, 3 axes, with 4 in the dtype of the sums; NULL: absent. */
static struct bell_tensor *
heads_in(struct onnx_op *op, uint32_t i, int64_t heads, enum bell_dtype inner)
{
    struct bell_tensor *x = op_in_or_null(op, i);

    return x ? op_make_heads(op_to(x, inner), heads) : NULL;
}

bell_status
onnx_op_linear_attention(struct onnx_op *op)
{
    struct bell_tensor *x = op_in(op, 0), *past = op_in_or_null(op, 3);
    struct bell_tensor *q, *k, *v, *g, *b, *state, *y, **steps;
    const char *rule = op_str(op, "update_rule", "gated_delta");
    int64_t heads = op_int(op, "q_num_heads", 0), length, t;
    int64_t own = op_int(op, "kv_num_heads", 0);
    bool gated = strncmp(rule, "gated", 5) == 0;
    bool delta = strstr(rule, "delta") != NULL;
    double scale = op_float(op, "scale", 0);
    enum bell_dtype inner;
    uint32_t i;

    if (strcmp(rule, "linear") != 0 && strcmp(rule, "gated") != 0 &&
        strcmp(rule, "delta") != 0 && strcmp(rule, "gated_delta") != 0)
        return op_unsupported("update_rule '%.40s'", rule);
    if (op_has(op, 4) != gated || op_has(op, 5) != delta)
        return bell_fail(BELL_BAD_MISSING,
                         "rule '%s' must have %s decay and %s beta", rule,
                         gated ? "a" : "no", delta ? "a" : "no");
    if (own < 1 || heads < 1 || heads % own)
        return bell_fail(BELL_BAD_VALUE,
                         "q_num_heads is %lld; expected a multiple of "
                         "kv_num_heads, %lld",
                         (long long)heads, (long long)own);
    for (i = 0; i < 3; i++) {
        struct bell_tensor *in = op_in(op, i);
        int64_t n = i ? own : heads;

        if (bell_is_error(in) || bell_ndim(in) != 3 || bell_size(in, 2) % n)
            return bell_fail(BELL_BAD_SHAPE,
                             "input %u must have 3 axes, the last a multiple "
                             "of %lld",
                             i, (long long)n);
    }
    inner = bell_dtype_of(x) == BELL_FLOAT64 ? BELL_FLOAT64 : BELL_FLOAT32;
    q = heads_in(op, 0, heads, inner);
    k = heads_in(op, 1, own, inner);
    v = heads_in(op, 2, own, inner);
    g = heads_in(op, 4, own, inner);
    b = op_in_or_null(op, 5);
    if (b && bell_ndim(b) == 3)
        b = heads_in(op, 5, bell_size(b, 2) == 1 ? 1 : own, inner);
    length = bell_size(x, 1);
    if (length < 1 || length > MAX_TOKENS)
        return op_unsupported("%lld tokens; expected 1 to %d",
                              (long long)length, MAX_TOKENS);
    if (scale == 0)
        scale = 1 / sqrt((double)bell_size(q, 3));
    state = past ? op_to(past, inner)
                 : bell_zeros(op->ctx,
                              BELL_DIMS(bell_size(k, 0), own, bell_size(k, 3),
                                        bell_size(v, 3)),
                              inner);
    steps = op_take(op, (uint64_t)length, sizeof(struct bell_tensor *));
    if (!steps)
        return onnx_no_memory();
    for (t = 0; t < length; t++) {
        state = next_state(state, step_of(k, t), step_of(v, t), step_of(g, t),
                           step_of(b, t));
        y = bell_matmul(bell_t(repeat_heads(state, heads)), step_of(q, t));
        steps[t] = bell_select(y, 3, 0); /* [batch, heads, size] */
    }
    y = bell_stack(steps, (uint32_t)length, 1);
    y = bell_mul_scalar(bell_flatten(y, 2, 3), scale);
    op_out(op, 0, op_to(y, bell_dtype_of(x)));
    op_out(op, 1, op_to(state, bell_dtype_of(past ? past : x)));
    return BELL_OK;
}
