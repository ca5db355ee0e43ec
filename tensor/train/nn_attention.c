/* Attention of several heads, with a cache, and the transformer's layer. */
#include "tensor/train/nn.h"

#include <math.h>

#include "tensor/ops/elementwise.h"

/* ---- attention ---- */

static const struct bell_module_field attention_fields[] = {
    BELL_CHILD(struct bell_nn_attention, wq, &bell_nn_linear_type),
    BELL_CHILD(struct bell_nn_attention, wk, &bell_nn_linear_type),
    BELL_CHILD(struct bell_nn_attention, wv, &bell_nn_linear_type),
    BELL_CHILD(struct bell_nn_attention, wo, &bell_nn_linear_type),
};
const struct bell_module_type bell_nn_attention_type =
    BELL_MODULE_TYPE(struct bell_nn_attention, attention_fields);

static bell_status
check_heads(const char *call, int64_t size, int64_t n_heads, int64_t n_kv_heads,
            double dropout)
{
    const int64_t sizes[3] = {size, n_heads, n_kv_heads};

    BELL_TRY(nn_check_sizes(call, sizes, 3));
    if (size % n_heads || n_heads % n_kv_heads)
        return bell_fail_at(call, BELL_BAD_VALUE,
                            "%s: %lld heads, %lld of keys, do not fit a size "
                            "of %lld",
                            call, (long long)n_heads, (long long)n_kv_heads,
                            (long long)size);
    if (!(dropout >= 0 && dropout <= 1))
        return bell_fail_at(call, BELL_BAD_VALUE,
                            "%s: dropout is %g; expected 0 to 1", call,
                            dropout);
    return BELL_OK;
}

/* A linear layer into the heads. */
static void
make_projection(struct bell_context *ctx, int64_t size, int64_t rows,
                double bound, bool with_bias, struct bell_nn_linear *out)
{
    out->weight = nn_uniform(ctx, BELL_DIMS(rows, size), bound);
    if (with_bias)
        out->bias = nn_param(bell_zeros(ctx, BELL_DIMS(rows), BELL_FLOAT32));
}

bell_status
bell_nn_attention_init(struct bell_context *ctx,
                       const struct bell_nn_attention_options *options,
                       struct bell_nn_attention *out_layer)
{
    struct bell_nn_attention layer = {0};
    struct bell_nn_attention_options o;
    int64_t size, n_heads, n_kv, kv_rows;
    bool with_bias;
    double bound;

    BELL_TRY(nn_begin_init(__func__, ctx, options, out_layer));
    BELL_TRY(tensor_options(__func__, options, sizeof(o), sizeof(o), &o));
    size = o.size;
    n_heads = o.n_heads;
    n_kv = o.n_kv_heads ? o.n_kv_heads : n_heads;
    with_bias = !o.without_bias;
    BELL_TRY(check_heads(__func__, size, n_heads, n_kv, o.dropout));
    layer.n_heads = n_heads;
    layer.n_kv_heads = n_kv;
    layer.dropout = o.dropout;
    kv_rows = size / n_heads * n_kv;
    bound = sqrt(6 / (2 * (double)size + 2 * (double)kv_rows));
    make_projection(ctx, size, size, bound, with_bias, &layer.wq);
    make_projection(ctx, size, kv_rows, bound, with_bias, &layer.wk);
    make_projection(ctx, size, kv_rows, bound, with_bias, &layer.wv);
    make_projection(ctx, size, size, 1 / sqrt((double)size), with_bias,
                    &layer.wo);
    BELL_TRY(nn_finish(ctx, &bell_nn_attention_type, &layer));
    *out_layer = layer;
    return BELL_OK;
}

/* x[n, l, heads d] as [n, heads, l, d]. */
static struct bell_tensor *
split_heads(struct bell_tensor *x, int64_t n_heads)
{
    x = bell_unflatten(x, 2, BELL_DIMS(n_heads, -1));
    return bell_transpose(x, 1, 2);
}

/* q[n, heads, l, d] of k, v[n, kv heads, s, d], to [n, l, size]. */
static struct bell_tensor *
attend(const struct bell_nn_attention *layer, struct bell_tensor *q,
       struct bell_tensor *k, struct bell_tensor *v, struct bell_tensor *mask,
       bool is_causal)
{
    struct bell_tensor *x = bell_scaled_dot_product_attention(
        q, k, v, mask,
        bell_is_training(bell_context_of(q)) ? layer->dropout : 0, is_causal,
        0);

    x = bell_flatten(bell_transpose(x, 1, 2), 2, 3);
    return bell_nn_linear(&layer->wo, x);
}

static bool
check_attended(const char *call, const struct bell_nn_attention *layer,
               struct bell_tensor *x, struct bell_tensor *y,
               struct bell_tensor **out)
{
    int64_t size;

    if (!tensor_takes_n(call, (struct bell_tensor *[]){x, y, layer->wq.weight},
                        3, out))
        return false;
    size = bell_size(layer->wq.weight, 1);
    if (bell_ndim(x) == 3 && tensor_at(x)->shape->d[2] == size &&
        bell_ndim(y) == 3 && tensor_at(y)->shape->d[2] == size &&
        tensor_at(x)->shape->d[0] == tensor_at(y)->shape->d[0])
        return true;
    *out = tensor_fail(tensor_at(x)->ctx, call, BELL_BAD_SHAPE,
                       "%s to %s, not [n, l, %lld]", SHAPE_OF(x), SHAPE_OF(y),
                       (long long)size);
    return false;
}

struct bell_tensor *
bell_nn_attention(const struct bell_nn_attention *layer, struct bell_tensor *x,
                  struct bell_tensor *y, struct bell_tensor *mask,
                  bool is_causal)
{
    struct bell_tensor *q, *k, *v, *out;
    struct label_hold hold;

    if (!layer)
        return nn_no_layer(__func__, x);
    y = y ? y : x;
    if (!check_attended(__func__, layer, x, y, &out) ||
        !nn_begin(__func__, x, &out))
        return out;
    hold = tensor_label_layer(__func__, layer->wq.weight, 1);
    q = split_heads(bell_nn_linear(&layer->wq, x), layer->n_heads);
    k = split_heads(bell_nn_linear(&layer->wk, y), layer->n_kv_heads);
    v = split_heads(bell_nn_linear(&layer->wv, y), layer->n_kv_heads);
    out = attend(layer, q, k, v, mask, is_causal);
    tensor_label_layer_end(&hold);
    nn_end(bell_context_of(x), &out, 1);
    return out;
}

/* ---- the cache ---- */

static const struct bell_module_field cache_fields[] = {
    BELL_BUFFER(struct bell_nn_kv_cache, k),
    BELL_BUFFER(struct bell_nn_kv_cache, v),
};
const struct bell_module_type bell_nn_kv_cache_type =
    BELL_MODULE_TYPE(struct bell_nn_kv_cache, cache_fields);

bell_status
bell_nn_kv_cache_init(struct bell_context *ctx,
                      const struct bell_nn_attention *layer, int64_t n,
                      int64_t room, struct bell_nn_kv_cache *out_cache)
{
    const int64_t sizes[2] = {n, room};
    struct bell_nn_kv_cache cache = {0};
    int64_t shape[4] = {n, 0, room, 0};

    BELL_TRY(nn_begin_init(__func__, ctx, layer, out_cache));
    BELL_TRY(nn_check_sizes(__func__, sizes, 2));
    BELL_TRY(tensor_usable(__func__, layer->wq.weight));
    shape[1] = layer->n_kv_heads;
    shape[3] = bell_size(layer->wq.weight, 0) / layer->n_heads;
    cache.k = bell_keep_forever(bell_zeros(ctx, shape, 4, BELL_FLOAT32));
    cache.v = bell_keep_forever(bell_zeros(ctx, shape, 4, BELL_FLOAT32));
    BELL_TRY(nn_finish(ctx, &bell_nn_kv_cache_type, &cache));
    *out_cache = cache;
    return BELL_OK;
}

/* Puts x's heads behind what is in the cache. */
static struct bell_tensor *
put_next(struct bell_tensor *cache, int64_t at, struct bell_tensor *x)
{
    const int64_t place[4] = {0, 0, at, 0};

    return bell_assign_slice(cache, place, 4, bell_detach(x));
}

static struct bell_tensor *
attend_next(const struct bell_nn_attention *layer,
            const struct bell_nn_kv_cache *cache, struct bell_tensor *x,
            int64_t n, int64_t room)
{
    struct bell_context *ctx = bell_context_of(x);
    struct bell_tensor *q, *k, *v, *seen;

    q = split_heads(bell_nn_linear(&layer->wq, x), layer->n_heads);
    k = split_heads(bell_nn_linear(&layer->wk, x), layer->n_kv_heads);
    v = split_heads(bell_nn_linear(&layer->wv, x), layer->n_kv_heads);
    k = put_next(cache->k, cache->length, k);
    v = put_next(cache->v, cache->length, v);
    if (bell_is_error(k) || bell_is_error(v))
        return bell_is_error(k) ? k : v;
    /* Position i of x sees j <= length + i. */
    seen = bell_add(bell_arange(ctx, 0, (double)n, 1, BELL_INT64),
                    bell_scalar_int(ctx, cache->length));
    seen = bell_le(bell_arange(ctx, 0, (double)room, 1, BELL_INT64),
                   bell_unsqueeze(seen, 1));
    return attend(layer, q, k, v, seen, false);
}

struct bell_tensor *
bell_nn_attention_next(const struct bell_nn_attention *layer,
                       struct bell_nn_kv_cache *cache, struct bell_tensor *x)
{
    struct label_hold hold;
    struct bell_tensor *out;
    int64_t n, room;

    if (!layer || !cache)
        return nn_no_layer(__func__, x);
    if (!check_attended(__func__, layer, x, x, &out) ||
        !tensor_check2(__func__, cache->k, cache->v, &out) ||
        !tensor_plain_axes(__func__, x, 3,
                           "the cache is filled by so many rows; attend to a "
                           "cache of your own by bell_narrow",
                           &out))
        return out;
    n = bell_size(x, 1);
    room = bell_size(cache->k, 2);
    if (cache->length < 0 || n > room - cache->length ||
        bell_size(x, 0) != bell_size(cache->k, 0))
        return tensor_fail(tensor_at(x)->ctx, __func__, BELL_BAD_SHAPE,
                           "x is %s; the cache %s has %lld positions: it must "
                           "have room for all of x",
                           SHAPE_OF(x), SHAPE_OF(cache->k),
                           (long long)cache->length);
    if (!nn_begin(__func__, x, &out))
        return out;
    hold = tensor_label_layer(__func__, layer->wq.weight, 1);
    out = attend_next(layer, cache, x, n, room);
    tensor_label_layer_end(&hold);
    if (!bell_is_error(out))
        cache->length += n;
    nn_end(bell_context_of(x), &out, 1);
    return out;
}

/* ---- the transformer's layer ---- */

static const struct bell_module_field transformer_fields[] = {
    BELL_CHILD(struct bell_nn_transformer, attn, &bell_nn_attention_type),
    BELL_CHILD(struct bell_nn_transformer, linear1, &bell_nn_linear_type),
    BELL_CHILD(struct bell_nn_transformer, linear2, &bell_nn_linear_type),
    BELL_CHILD(struct bell_nn_transformer, norm1, &bell_nn_layer_norm_type),
    BELL_CHILD(struct bell_nn_transformer, norm2, &bell_nn_layer_norm_type),
};
const struct bell_module_type bell_nn_transformer_type =
    BELL_MODULE_TYPE(struct bell_nn_transformer, transformer_fields);

static bell_status
init_parts(struct bell_context *ctx,
           const struct bell_nn_transformer_options *o,
           struct bell_nn_transformer *layer)
{
    const struct bell_nn_attention_options attention = {
        .struct_size = sizeof(attention),
        .size = o->size,
        .n_heads = o->n_heads,
        .n_kv_heads = o->n_kv_heads,
        .dropout = o->dropout};
    int64_t hidden = o->hidden ? o->hidden : 4 * o->size;

    BELL_TRY(bell_nn_attention_init(ctx, &attention, &layer->attn));
    BELL_TRY(bell_nn_linear_init(ctx, o->size, hidden, true, &layer->linear1));
    BELL_TRY(bell_nn_linear_init(ctx, hidden, o->size, true, &layer->linear2));
    BELL_TRY(bell_nn_layer_norm_init(ctx, &o->size, 1, &layer->norm1));
    return bell_nn_layer_norm_init(ctx, &o->size, 1, &layer->norm2);
}

bell_status
bell_nn_transformer_init(struct bell_context *ctx,
                         const struct bell_nn_transformer_options *options,
                         struct bell_nn_transformer *out_layer)
{
    struct bell_nn_transformer layer = {0};
    struct bell_nn_transformer_options o;
    bell_status status;

    BELL_TRY(nn_begin_init(__func__, ctx, options, out_layer));
    BELL_TRY(tensor_options(__func__, options, sizeof(o), sizeof(o), &o));
    layer.dropout = o.dropout;
    layer.is_norm_first = o.is_norm_first;
    layer.is_relu = o.is_relu;
    status = init_parts(ctx, &o, &layer);
    if (status == BELL_OK)
        *out_layer = layer;
    else
        bell_module_fini(&bell_nn_transformer_type, &layer);
    return status;
}

static struct bell_tensor *
feed_forward(const struct bell_nn_transformer *layer, struct bell_tensor *x)
{
    x = bell_nn_linear(&layer->linear1, x);
    x = layer->is_relu ? bell_relu(x) : bell_gelu(x, false);
    x = bell_nn_linear(&layer->linear2, bell_dropout(x, layer->dropout));
    return bell_dropout(x, layer->dropout);
}

/* x attends, through the cache where there is one. */
static struct bell_tensor *
attend_part(const struct bell_nn_transformer *layer,
            struct bell_nn_kv_cache *cache, struct bell_tensor *x,
            struct bell_tensor *mask, bool is_causal)
{
    x = cache ? bell_nn_attention_next(&layer->attn, cache, x)
              : bell_nn_attention(&layer->attn, x, NULL, mask, is_causal);
    return bell_dropout(x, layer->dropout);
}

static struct bell_tensor *
run_transformer(const struct bell_nn_transformer *layer,
                struct bell_nn_kv_cache *cache, struct bell_tensor *x,
                struct bell_tensor *mask, bool is_causal)
{
    struct bell_tensor *y;

    if (layer->is_norm_first) {
        y = bell_nn_layer_norm(&layer->norm1, x);
        x = bell_add(x, attend_part(layer, cache, y, mask, is_causal));
        y = bell_nn_layer_norm(&layer->norm2, x);
        return bell_add(x, feed_forward(layer, y));
    }
    x = bell_add(x, attend_part(layer, cache, x, mask, is_causal));
    x = bell_nn_layer_norm(&layer->norm1, x);
    x = bell_add(x, feed_forward(layer, x));
    return bell_nn_layer_norm(&layer->norm2, x);
}

struct bell_tensor *
bell_nn_transformer(const struct bell_nn_transformer *layer,
                    struct bell_tensor *x, struct bell_tensor *mask,
                    bool is_causal)
{
    struct label_hold hold;
    struct bell_tensor *out;

    if (!layer)
        return nn_no_layer(__func__, x);
    if (!nn_begin(__func__, x, &out))
        return out;
    hold = tensor_label_layer(__func__, layer->linear1.weight, 1);
    out = run_transformer(layer, NULL, x, mask, is_causal);
    tensor_label_layer_end(&hold);
    nn_end(bell_context_of(x), &out, 1);
    return out;
}

struct bell_tensor *
bell_nn_transformer_next(const struct bell_nn_transformer *layer,
                         struct bell_nn_kv_cache *cache, struct bell_tensor *x)
{
    struct label_hold hold;
    struct bell_tensor *out;

    if (!layer || !cache)
        return nn_no_layer(__func__, x);
    if (!nn_begin(__func__, x, &out))
        return out;
    hold = tensor_label_layer(__func__, layer->linear1.weight, 1);
    out = run_transformer(layer, cache, x, NULL, true);
    tensor_label_layer_end(&hold);
    nn_end(bell_context_of(x), &out, 1);
    return out;
}
