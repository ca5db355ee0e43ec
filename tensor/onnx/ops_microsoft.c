/* com.microsoft's operators of transformers: attention in its forms, rotary
 * embeddings by cached angles, embeddings with their norm.
 * src: ONNX Runtime 1.32, ContribOperators. */
#include "tensor/onnx/ops.h"

#include <math.h>
#include <string.h>

static struct bell_tensor *
whole(struct onnx_op *op, int64_t v)
{
    return bell_full_int(op->ctx, BELL_NO_DIMS, v, BELL_INT64);
}

/* 0 .. n - 1 along an axis of four. */
static struct bell_tensor *
range_along(struct onnx_op *op, int64_t n, uint32_t axis)
{
    int64_t shape[4] = {1, 1, 1, 1};

    shape[axis] = n;
    return bell_reshape(bell_arange_int(op->ctx, 0, n, 1, BELL_INT64), shape,
                        4);
}

/* [batch, heads, length, size] as [batch, length, heads size]. */
static struct bell_tensor *
join_heads(struct bell_tensor *x)
{
    return bell_flatten(bell_transpose(x, 1, 2), 2, 3);
}

static bell_status
expect_rank(struct bell_tensor *x, const char *name, uint32_t ndim)
{
    if (!bell_is_error(x) && bell_ndim(x) == ndim)
        return BELL_OK;
    return bell_fail(BELL_BAD_SHAPE, "%s has %u axes; expected %u", name,
                     bell_ndim(x), ndim);
}

/* ---- rotary embeddings ---- */

/* x[batch, heads, length, size], its first elements rotated by the cached
 * angles of ids[batch, length]. */
static bell_status
rotate_by_ids(struct onnx_op *op, struct bell_tensor *x,
              struct bell_tensor *ids, uint32_t cache, bool interleaved,
              struct bell_tensor **out)
{
    struct bell_tensor *c = op_in(op, cache), *s = op_in(op, cache + 1);
    int64_t n;

    BELL_TRY(expect_rank(c, "cos_cache", 2));
    BELL_TRY(expect_rank(s, "sin_cache", 2));
    n = 2 * bell_shape(c)[1];
    if (n < 2 || n > bell_size(x, 3))
        return bell_fail(BELL_BAD_SHAPE,
                         "cos_cache is of %lld elements of a head; expected 2 "
                         "to %lld",
                         (long long)n, (long long)bell_size(x, 3));
    c = bell_unsqueeze(bell_embedding(ids, c), 1);
    s = bell_unsqueeze(bell_embedding(ids, s), 1);
    *out = op_rotate(x, c, s, n, interleaved);
    return BELL_OK;
}

bell_status
onnx_op_rotary_cached(struct onnx_op *op)
{
    struct bell_tensor *x = op_in(op, 0), *ids = op_in(op, 1), *y;
    int64_t heads = op_int(op, "num_heads", 0), n, batch;
    bool is_flat = bell_ndim(x) == 3;
    double scale = op_float(op, "scale", 1);

    if (op_int(op, "is_packed_batching", 0))
        return op_unsupported("is_packed_batching is not 0");
    if (is_flat && !heads) {
        /* a head is as long as the angles say */
        n = 2 * bell_size(op_in(op, 2), -1);
        heads = n > 0 ? bell_shape(x)[2] / n : 0;
    }
    if (is_flat && (heads < 1 || bell_shape(x)[2] % heads))
        return bell_fail(BELL_BAD_VALUE,
                         "num_heads is %lld; expected a "
                         "divisor of the last size",
                         (long long)heads);
    x = op_make_heads(x, heads);
    BELL_TRY(expect_rank(x, "input", 4));
    batch = bell_shape(x)[0];
    ids = op_to(ids, BELL_INT64);
    if (bell_ndim(ids) != 2)
        ids = bell_expand(
            bell_add(bell_reshape(ids, BELL_DIMS(1, 1)),
                     bell_reshape(range_along(op, bell_shape(x)[2], 3),
                                  BELL_DIMS(1, -1))),
            BELL_DIMS(batch, bell_shape(x)[2]));
    BELL_TRY(rotate_by_ids(op, x, ids, 2, op_int(op, "interleaved", 0), &y));
    if (scale != 1)
        y = bell_mul_scalar(y, scale);
    op_out(op, 0, is_flat ? join_heads(y) : y);
    return BELL_OK;
}

/* ---- attention ---- */

/* Softmax(scale q k' + mask) v; scores within +-cap where it is not 0; `sink`,
 * of one number a head, is a score that takes part and has no value. */
static struct bell_tensor *
attend_to(struct bell_tensor *q, struct bell_tensor *k, struct bell_tensor *v,
          struct bell_tensor *mask, double scale, double cap,
          struct bell_tensor *sink)
{
    int64_t heads = bell_size(q, 1), own = bell_size(k, 1), last = -1;
    struct bell_tensor *x, *most;

    if (cap == 0 && !sink)
        return bell_scaled_dot_product_attention(q, k, v, mask, 0, false,
                                                 scale);
    if (own > 0 && own != heads) {
        k = bell_repeat_interleave(k, heads / own, 1);
        v = bell_repeat_interleave(v, heads / own, 1);
    }
    x = bell_mul_scalar(bell_matmul(q, bell_t(k)), scale);
    if (cap != 0)
        x = bell_mul_scalar(bell_tanh(bell_div_scalar(x, cap)), cap);
    if (mask)
        x = bell_dtype_of(mask) == BELL_BOOL
                ? bell_masked_fill(x, bell_logical_not(mask), -INFINITY)
                : bell_add(x, mask);
    if (!sink)
        return bell_matmul(bell_softmax(x, -1), v);
    most = bell_maximum(bell_max(x, &last, 1, true), sink);
    x = bell_exp(bell_sub(x, most));
    x = bell_div(x, bell_add(bell_sum(x, &last, 1, true),
                             bell_exp(bell_sub(sink, most))));
    return bell_matmul(x, v);
}

static double
scale_of(struct onnx_op *op, struct bell_tensor *q)
{
    double scale = op_float(op, "scale", 0);

    return scale != 0 ? scale : 1 / sqrt((double)bell_size(q, 3));
}

/* The cache of `n` keys in which `fresh` begins at `begin`: [batch, 1, 1, 1],
 * NULL for 0. */
static struct bell_tensor *
into_cache(struct onnx_op *op, struct bell_tensor *past,
           struct bell_tensor *fresh, struct bell_tensor *begin, int64_t n)
{
    int64_t length = bell_size(fresh, 2), pads[4] = {0};
    struct bell_tensor *at = range_along(op, n, 2), *from, *inside;

    if (!begin) {
        pads[3] = n - length;
        return pads[3] ? bell_pad(fresh, pads, 4, 0) : fresh;
    }
    from = bell_sub(at, begin); /* [batch, 1, n, 1] */
    inside = bell_logical_and(bell_ge(from, whole(op, 0)),
                              bell_lt(from, whole(op, length)));
    from = bell_clamp(from, whole(op, 0), whole(op, length - 1));
    from = bell_expand(from, BELL_DIMS(bell_size(fresh, 0), bell_size(fresh, 1),
                                       n, bell_size(fresh, 3)));
    fresh = bell_gather(fresh, 2, from);
    if (!past)
        return bell_masked_fill(fresh, bell_logical_not(inside), 0);
    pads[3] = n - bell_size(past, 2);
    return bell_where(inside, fresh,
                      pads[3] ? bell_pad(past, pads, 4, 0) : past);
}

struct grouped {
    struct bell_tensor *q, *k, *v;
    int64_t heads, kv_heads, length, batch;
};

/* Query, key and value apart, or in one. */
static bell_status
read_grouped(struct onnx_op *op, struct grouped *g)
{
    struct bell_tensor *x = op_in(op, 0);
    int64_t size;

    BELL_TRY(expect_rank(x, "query", 3));
    g->heads = op_int(op, "num_heads", 0);
    g->kv_heads = op_int(op, "kv_num_heads", 0);
    if (g->heads < 1 || g->kv_heads < 1 || g->heads % g->kv_heads)
        return bell_fail(BELL_BAD_VALUE,
                         "num_heads is %lld, kv_num_heads "
                         "%lld; expected a divisor of it",
                         (long long)g->heads, (long long)g->kv_heads);
    g->batch = bell_shape(x)[0];
    g->length = bell_shape(x)[1];
    g->q = x;
    g->k = op_in_or_null(op, 1);
    g->v = op_in_or_null(op, 2);
    if (!g->k) {
        size = bell_shape(x)[2] / (g->heads + 2 * g->kv_heads);
        g->q = bell_narrow(x, 2, 0, g->heads * size);
        g->k = bell_narrow(x, 2, g->heads * size, g->kv_heads * size);
        g->v = bell_narrow(x, 2, (g->heads + g->kv_heads) * size,
                           g->kv_heads * size);
    }
    g->q = op_make_heads(g->q, g->heads);
    g->k = op_make_heads(g->k, g->kv_heads);
    g->v = op_make_heads(g->v, g->kv_heads);
    BELL_TRY(expect_rank(g->q, "query", 4));
    BELL_TRY(expect_rank(g->k, "key", 4));
    return expect_rank(g->v, "value", 4);
}

/* Positions of queries [batch, 1, length, 1] are `begin`, NULL for 0, and
 * onwards. */
static bell_status
rotate_grouped(struct onnx_op *op, struct grouped *g, struct bell_tensor *at)
{
    bool interleaved = op_int(op, "rotary_interleaved", 0);
    struct bell_tensor *ids = op_in_or_null(op, 9);

    if (!op_int(op, "do_rotary", 0))
        return BELL_OK;
    ids = ids ? op_to(ids, BELL_INT64)
              : bell_expand(bell_reshape(at, BELL_DIMS(-1, g->length)),
                            BELL_DIMS(g->batch, g->length));
    BELL_TRY(rotate_by_ids(op, g->q, ids, 7, interleaved, &g->q));
    return rotate_by_ids(op, g->k, ids, 7, interleaved, &g->k);
}

/* Which of n keys each query at `at` sees, and a bias added. */
static struct bell_tensor *
grouped_mask(struct onnx_op *op, struct bell_tensor *at, int64_t n)
{
    int64_t window = op_int(op, "local_window_size", -1), pads[2] = {0};
    struct bell_tensor *key = range_along(op, n, 3), *seen, *bias;

    seen = bell_le(key, at);
    if (window > 0)
        seen = bell_logical_and(seen,
                                bell_gt(key, bell_sub(at, whole(op, window))));
    bias = op_in_or_null(op, 10);
    if (!bias)
        return seen;
    pads[1] = n - bell_size(bias, -1);
    if (pads[1] > 0)
        bias = bell_pad(bias, pads, 2, 0);
    return bell_where(
        seen, bias,
        bell_full(op->ctx, BELL_NO_DIMS, -INFINITY, bell_dtype_of(bias)));
}

bell_status
onnx_op_group_query_attention(struct onnx_op *op)
{
    struct bell_tensor *past_k = op_in_or_null(op, 3), *begin = NULL, *at, *y;
    struct bell_tensor *past_v = op_in_or_null(op, 4), *sink;
    int64_t total, n;
    struct grouped g;

    if (op_int(op, "kv_cache_bit_width", 0) || op_has(op, 12))
        return op_unsupported("a cache of quantised keys");
    if (op_int(op, "qk_output", 0))
        return op_unsupported("qk_output is not 0");
    BELL_TRY(read_grouped(op, &g));
    BELL_TRY(op_in_int(op, 6, &total));
    n = past_k ? bell_size(past_k, 2) : 0;
    n = total > n ? total : n;
    if (total < g.length || n > (int64_t)ONNX_MAX_ELEMS)
        return bell_fail(BELL_BAD_VALUE,
                         "total_sequence_length is %lld; expected %lld or more",
                         (long long)total, (long long)g.length);
    at = range_along(op, g.length, 2);
    if (total != g.length) {
        begin = bell_reshape(op_to(op_in(op, 5), BELL_INT64),
                             BELL_DIMS(-1, 1, 1, 1));
        begin = bell_sub(begin, whole(op, g.length - 1));
        at = bell_add(at, begin);
    }
    BELL_TRY(rotate_grouped(op, &g, at));
    g.k = into_cache(op, past_k, g.k, begin, n);
    g.v = into_cache(op, past_v, g.v, begin, n);
    sink = op_in_or_null(op, 11);
    if (sink)
        sink = bell_reshape(sink, BELL_DIMS(1, -1, 1, 1));
    else if (op_int(op, "smooth_softmax", 0) > 0)
        sink = bell_zeros(op->ctx, BELL_NO_DIMS, bell_dtype_of(g.q));
    y = attend_to(g.q, g.k, g.v, grouped_mask(op, at, n), scale_of(op, g.q),
                  op_float(op, "softcap", 0), sink);
    op_out(op, 0, join_heads(y));
    op_out(op, 1, g.k);
    op_out(op, 2, g.v);
    return BELL_OK;
}

/* What of n keys may be seen, by a mask of lengths, of ends and begins, or of
 * flags; *out: it broadcasts to [batch, heads, length, n]. */
static bell_status
read_key_mask(struct onnx_op *op, uint32_t i, int64_t batch, int64_t n,
              struct bell_tensor **out)
{
    struct bell_tensor *mask = op_in_or_null(op, i), *key, *part;

    *out = NULL;
    if (!mask)
        return BELL_OK;
    key = range_along(op, n, 3);
    mask = op_to(mask, BELL_INT64);
    if (bell_ndim(mask) == 1 &&
        (bell_size(mask, 0) == batch || bell_size(mask, 0) == 2 * batch)) {
        part = bell_narrow(mask, 0, 0, batch);
        *out = bell_lt(key, bell_reshape(part, BELL_DIMS(batch, 1, 1, 1)));
        if (bell_size(mask, 0) == batch)
            return BELL_OK;
        part = bell_narrow(mask, 0, batch, batch);
        *out = bell_logical_and(
            *out, bell_ge(key, bell_reshape(part, BELL_DIMS(batch, 1, 1, 1))));
        return BELL_OK;
    }
    if (bell_ndim(mask) < 2 || bell_ndim(mask) > 3)
        return op_unsupported("a mask of %u axes; expected lengths, or 2 or 3 "
                              "axes",
                              bell_ndim(mask));
    mask = bell_gt(mask, whole(op, 0));
    *out = bell_ndim(mask) == 2 ? bell_unsqueeze(bell_unsqueeze(mask, 1), 1)
                                : bell_unsqueeze(mask, 1);
    return BELL_OK;
}

/* The sum of masks and of a bias, as a float mask, in which what is not seen is
 * the filter's value; NULL: there is nothing of it. */
static bell_status
float_mask(struct onnx_op *op, struct bell_tensor *q, int64_t n, uint32_t mask,
           uint32_t bias, struct bell_tensor **out)
{
    double filter = op_float(op, "mask_filter_value", -10000);
    int64_t length = bell_size(q, 2);
    struct bell_tensor *seen, *past, *all = NULL;

    BELL_TRY(read_key_mask(op, mask, bell_size(q, 0), n, &seen));
    if (op_int(op, "unidirectional", 0)) {
        past =
            bell_le(range_along(op, n, 3), bell_add(range_along(op, length, 2),
                                                    whole(op, n - length)));
        all = bell_where(
            past, bell_zeros(op->ctx, BELL_NO_DIMS, bell_dtype_of(q)),
            bell_full(op->ctx, BELL_NO_DIMS, -INFINITY, bell_dtype_of(q)));
    }
    if (seen) {
        seen = bell_where(
            seen, bell_zeros(op->ctx, BELL_NO_DIMS, bell_dtype_of(q)),
            bell_full(op->ctx, BELL_NO_DIMS, filter, bell_dtype_of(q)));
        all = all ? bell_add(all, seen) : seen;
    }
    if (op_has(op, bias))
        all = all ? bell_add(all, op_in(op, bias)) : op_in(op, bias);
    *out = all;
    return BELL_OK;
}

static struct bell_tensor *
behind(struct bell_tensor *past, struct bell_tensor *x)
{
    return past ? bell_cat(BELL_TENSORS(past, x), 2) : x;
}

/* Input i + part of a bias of three parts. */
static struct bell_tensor *
with_bias(struct onnx_op *op, struct bell_tensor *x, int64_t begin)
{
    struct bell_tensor *bias = op_in_or_null(op, 3);

    return bias ? bell_add(x, bell_narrow(bias, 0, begin, bell_size(x, -1)))
                : x;
}

/* Number `part` of x[batch, length, heads, parts, size]. */
static struct bell_tensor *
part_of(struct bell_tensor *x, int64_t part)
{
    return bell_transpose(bell_select(x, 3, part), 1, 2);
}

bell_status
onnx_op_multi_head_attention(struct onnx_op *op)
{
    struct bell_tensor *q = op_in(op, 0), *k = op_in_or_null(op, 1), *mask, *y;
    struct bell_tensor *v = op_in_or_null(op, 2);
    int64_t heads = op_int(op, "num_heads", 0), size;

    if (heads < 1)
        return bell_fail(BELL_BAD_VALUE,
                         "num_heads is %lld; expected 1 or "
                         "more",
                         (long long)heads);
    if (op_has(op, 8) || op_has(op, 9))
        return op_unsupported("past_sequence_length or cache_indirection");
    if (!k) {
        BELL_TRY(expect_rank(q, "query", 5));
        if (op_has(op, 3))
            return op_unsupported("a bias of query, key and value in one");
        k = part_of(q, 1);
        v = part_of(q, 2);
        q = part_of(q, 0);
    } else {
        BELL_TRY(expect_rank(q, "query", 3));
        size = bell_shape(q)[2];
        q = op_make_heads(with_bias(op, q, 0), heads);
        if (!v) {
            BELL_TRY(expect_rank(k, "key", 5));
            v = part_of(k, 1);
            k = part_of(k, 0);
        } else {
            if (bell_ndim(k) == 3)
                k = op_make_heads(with_bias(op, k, size), heads);
            if (bell_ndim(v) == 3)
                v = op_make_heads(with_bias(op, v, 2 * size), heads);
        }
    }
    BELL_TRY(expect_rank(q, "query", 4));
    BELL_TRY(expect_rank(k, "key", 4));
    BELL_TRY(expect_rank(v, "value", 4));
    k = behind(op_in_or_null(op, 6), k);
    v = behind(op_in_or_null(op, 7), v);
    BELL_TRY(float_mask(op, q, bell_size(k, 2), 4, 5, &mask));
    y = attend_to(q, k, v, mask, scale_of(op, q), 0, NULL);
    op_out(op, 0, join_heads(y));
    op_out(op, 1, k);
    op_out(op, 2, v);
    return BELL_OK;
}

/* Attention with the projection of its input. */
bell_status
onnx_op_packed_attention(struct onnx_op *op)
{
    struct bell_tensor *x = op_in(op, 0), *past = op_in_or_null(op, 4), *mask;
    struct onnx_ints sizes = op_ints(op, "qkv_hidden_sizes");
    int64_t heads = op_int(op, "num_heads", 0), begin[4] = {0}, all;
    struct bell_tensor *qkv[3], *y;
    uint32_t i;

    if (op_int(op, "do_rotary", 0) ||
        op_int(op, "past_present_share_buffer", 0))
        return op_unsupported("do_rotary or past_present_share_buffer");
    BELL_TRY(expect_rank(x, "input", 3));
    x = bell_matmul(x, op_in(op, 1));
    if (op_has(op, 2))
        x = bell_add(x, op_in(op, 2));
    all = bell_size(x, 2);
    for (i = 0; i < 3; i++)
        begin[i + 1] =
            begin[i] + (sizes.given && sizes.n == 3 ? sizes.v[i] : all / 3);
    if (heads < 1 || begin[3] != all)
        return bell_fail(BELL_BAD_VALUE,
                         "its weight has %lld columns, num_heads is %lld; "
                         "expected three parts of heads",
                         (long long)all, (long long)heads);
    for (i = 0; i < 3; i++) {
        qkv[i] = op_make_heads(
            bell_narrow(x, 2, begin[i], begin[i + 1] - begin[i]), heads);
        BELL_TRY(expect_rank(qkv[i], "input", 4));
        if (past && i)
            qkv[i] = behind(bell_select(past, 0, i - 1), qkv[i]);
    }
    BELL_TRY(float_mask(op, qkv[0], bell_size(qkv[1], 2), 3, 5, &mask));
    y = attend_to(qkv[0], qkv[1], qkv[2], mask, scale_of(op, qkv[0]), 0, NULL);
    op_out(op, 0, join_heads(y));
    if (op->n_out > 1)
        op_out(op, 1, bell_stack(qkv + 1, 2, 0));
    return BELL_OK;
}

/* ---- embeddings ---- */

bell_status
onnx_op_embed_layer_norm(struct onnx_op *op)
{
    struct bell_tensor *ids = op_in(op, 0), *x, *lens, *at;
    int64_t last = 1;

    BELL_TRY(expect_rank(ids, "input_ids", 2));
    at = op_has(op, 8)
             ? op_in(op, 8)
             : bell_arange_int(op->ctx, 0, bell_shape(ids)[1], 1, BELL_INT64);
    x = bell_add(bell_embedding(ids, op_in(op, 2)),
                 bell_embedding(at, op_in(op, 3)));
    if (op_has(op, 1) && op_has(op, 4))
        x = bell_add(x, bell_embedding(op_in(op, 1), op_in(op, 4)));
    op_out(op, 0,
           bell_layer_norm(x, 1, op_in(op, 5), op_in(op, 6),
                           op_float(op, "epsilon", (double)1e-12f)));
    lens = op_has(op, 7)
               ? bell_sum(op_in(op, 7), &last, 1, false)
               : bell_zeros(op->ctx, BELL_DIMS(bell_shape(ids)[0]), BELL_INT32);
    op_out(op, 1, op_to(lens, BELL_INT32));
    op_out(op, 2, bell_alias(x));
    return BELL_OK;
}
