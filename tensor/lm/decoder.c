/* The decoder: from tokens to logits, as the configuration says. */
#include "tensor/lm/lm_internal.h"

#include <math.h>

/* What the layers of a run share. Tokens are (b, n), a cache's used part has m
 * slots, which are sizes of symbols where they change. */
struct lm_step {
    const struct bell_lm *lm;
    const struct lm_config *c;
    const struct lm_cache *cache;
    struct bell_dim past;
    int64_t b, n, m;
    /* of layers that read all, and of those with a window */
    struct bell_tensor *cosines[2], *sines[2]; /* (b, 1, n, rope_dims / 2) */
    struct bell_tensor *is_seen[2];            /* (b, 1, n, m) */
};

static int64_t
axis_of(struct bell_tensor *t, int axis)
{
    return bell_dim_at(t, axis).word;
}

/* ---- places ---- */

/* Angles are the same for all layers: each is computed once. */
static void
make_angles(struct lm_step *s, struct bell_tensor *places, int which)
{
    struct bell_tensor *at =
        bell_unsqueeze(bell_unsqueeze(bell_cast(places, BELL_FLOAT32), 1), 3);
    struct bell_tensor *angles = bell_mul(at, s->cache->rates[which]);
    double factor = s->cache->rope_factor[which];

    s->cosines[which] =
        bell_contiguous(bell_mul_scalar(bell_cos(angles), factor));
    s->sines[which] =
        bell_contiguous(bell_mul_scalar(bell_sin(angles), factor));
}

/* A token sees slots that have a token up to its own place, and in a window not
 * those too far behind. */
static void
make_masks(struct lm_step *s, struct bell_tensor *places)
{
    struct bell_tensor *slots, *at, *seen;

    slots = bell_narrow(s->cache->places, 1, 0, s->m);
    slots = bell_unsqueeze(bell_unsqueeze(slots, 1), 1);
    at = bell_unsqueeze(bell_unsqueeze(places, 1), 3);
    seen = bell_logical_and(bell_ge(slots, bell_scalar_int(s->lm->ctx, 0)),
                            bell_le(slots, at));
    s->is_seen[0] = bell_contiguous(seen);
    if (!s->c->has_window)
        return;
    at = bell_sub(at, bell_scalar_int(s->lm->ctx, s->c->window));
    s->is_seen[1] = bell_contiguous(bell_logical_and(seen, bell_gt(slots, at)));
}

/* Rotates pairs of elements of x (b, heads, n, head) by the angles of its
 * places: neighbours, or element i of either half. */
static struct bell_tensor *
rotate_pairs(const struct lm_step *s, bool is_local, struct bell_tensor *x)
{
    int64_t heads = bell_size(x, 1), half = s->c->rope_dims / 2;
    int64_t rest = s->c->head - s->c->rope_dims;
    struct bell_tensor *cosines = s->cosines[is_local];
    struct bell_tensor *sines = s->sines[is_local];
    struct bell_tensor *a, *b, *parts[3], *rotated = x;

    if (rest)
        rotated = bell_narrow(x, 3, 0, 2 * half);
    if (s->c->turns_neighbours) {
        const int64_t pairs[] = {s->b, heads, s->n, half, 2};
        const int64_t whole[] = {s->b, heads, s->n, 2 * half};

        rotated = bell_reshape(rotated, pairs, 5);
        a = bell_select(rotated, 4, 0);
        b = bell_select(rotated, 4, 1);
        parts[0] = bell_sub(bell_mul(a, cosines), bell_mul(b, sines));
        parts[1] = bell_add(bell_mul(a, sines), bell_mul(b, cosines));
        parts[0] = bell_reshape(bell_stack(parts, 2, 4), whole, 4);
        parts[1] = NULL;
    } else {
        a = bell_narrow(rotated, 3, 0, half);
        b = bell_narrow(rotated, 3, half, half);
        parts[0] = bell_sub(bell_mul(a, cosines), bell_mul(b, sines));
        parts[1] = bell_add(bell_mul(a, sines), bell_mul(b, cosines));
    }
    if (rest)
        parts[parts[1] ? 2 : 1] = bell_narrow(x, 3, 2 * half, rest);
    if (!parts[1] && !rest)
        return parts[0];
    return bell_cat(parts, (parts[1] ? 2u : 1u) + (rest != 0), 3);
}

/* ---- attention ---- */

static struct bell_tensor *
norm(const struct lm_step *s, struct bell_tensor *x, struct bell_tensor *weight)
{
    return weight ? bell_rms_norm(x, weight, s->c->epsilon) : x;
}

/* x (b, n, heads * head) as (b, heads, n, head). */
static struct bell_tensor *
heads_of_row(const struct lm_step *s, struct bell_tensor *x, int64_t heads)
{
    const int64_t shape[] = {s->b, s->n, heads, s->c->head};

    return bell_transpose(bell_reshape(x, shape, 4), 1, 2);
}

/* Scores with a cap, or with a logit more for each head that takes part of the
 * weights and has no value. q (b, kv, group, n, head), k and v (b, kv, 1,
 * m, head). */
static struct bell_tensor *
attend_by_scores(const struct lm_step *s, struct bell_tensor *q,
                 struct bell_tensor *k, struct bell_tensor *v,
                 struct bell_tensor *seen, struct bell_tensor *sinks)
{
    struct bell_tensor *scores, *most, *weights, *sum;

    scores = bell_mul_scalar(bell_matmul(q, bell_transpose(k, 3, 4)),
                             s->c->attention_scale);
    if (s->c->attention_cap > 0)
        scores = bell_mul_scalar(
            bell_tanh(bell_div_scalar(scores, s->c->attention_cap)),
            s->c->attention_cap);
    scores = bell_where(seen, scores, bell_scalar(s->lm->ctx, -INFINITY));
    most = bell_max(scores, BELL_DIMS(-1), true);
    most = sinks ? bell_maximum(most, sinks)
                 : bell_maximum(most, bell_scalar(s->lm->ctx, -1e30));
    weights = bell_exp(bell_sub(scores, most));
    sum = bell_sum(weights, BELL_DIMS(-1), true);
    if (sinks)
        sum = bell_add(sum, bell_exp(bell_sub(sinks, most)));
    else /* a gap sees nothing */
        sum = bell_maximum(sum, bell_scalar(s->lm->ctx, 1e-30));
    return bell_matmul(bell_div(weights, sum), v);
}

/* The queries that share keys are rows of one product. */
static struct bell_tensor *
attend_grouped(const struct lm_step *s, const struct lm_layer *layer,
               bool is_local, struct bell_tensor *q, struct bell_tensor *k,
               struct bell_tensor *v)
{
    const struct lm_config *c = s->c;
    int64_t group = c->n_heads / c->n_kv;
    const int64_t grouped[] = {s->b, c->n_kv, group, s->n, c->head};
    const int64_t each[] = {s->b, c->n_heads, s->n, c->head};
    struct bell_tensor *seen = s->is_seen[is_local && c->has_window], *x;
    struct bell_tensor *sinks = layer->t[LM_SINK];

    q = bell_reshape(q, grouped, 5);
    seen = bell_unsqueeze(seen, 1); /* (b, 1, 1, n, m) */
    k = bell_unsqueeze(k, 2);
    v = bell_unsqueeze(v, 2);
    if (sinks)
        sinks = bell_reshape(sinks, BELL_DIMS(1, c->n_kv, group, 1, 1));
    if (c->attention_cap > 0 || sinks) {
        x = attend_by_scores(s, q, k, v, seen, sinks);
    } else {
        const int64_t keys[] = {s->b, c->n_kv, group, s->m, c->head};

        x = bell_scaled_dot_product_attention(q, bell_expand(k, keys, 5),
                                              bell_expand(v, keys, 5), seen, 0,
                                              false, c->attention_scale);
    }
    return bell_reshape(x, each, 4);
}

/* What x (b, n, dim) reads from the tokens up to its own. Its keys and values
 * are written first. */
static struct bell_tensor *
attention(const struct lm_step *s, int64_t i, struct bell_tensor *x)
{
    const struct lm_config *c = s->c;
    const struct lm_layer *layer = &s->lm->weights.layers[i];
    struct bell_tensor *const *t = layer->t;
    const int64_t begin[] = {0, 0, s->past.word, 0};
    const int64_t whole[] = {s->b, s->n, c->n_heads * c->head};
    bool is_local = c->is_local[i];
    struct bell_tensor *q, *k, *v;

    if (t[LM_QKV]) {
        struct bell_tensor *all = bell_linear(x, t[LM_QKV], t[LM_QKV_BIAS]);
        int64_t nq = c->n_heads * c->head, nk = c->n_kv * c->head;

        q = bell_narrow(all, 2, 0, nq);
        k = bell_narrow(all, 2, nq, nk);
        v = bell_narrow(all, 2, nq + nk, nk);
    } else {
        q = bell_linear(x, t[LM_Q], t[LM_Q_BIAS]);
        k = bell_linear(x, t[LM_K], t[LM_K_BIAS]);
        v = bell_linear(x, t[LM_V], t[LM_V_BIAS]);
    }
    if (c->flags & LM_QK_NORM_ALL) {
        q = norm(s, q, t[LM_Q_NORM]);
        k = norm(s, k, t[LM_K_NORM]);
    }
    q = heads_of_row(s, q, c->n_heads);
    k = heads_of_row(s, k, c->n_kv);
    v = heads_of_row(s, v, c->n_kv);
    if (c->flags & LM_QK_NORM) {
        q = norm(s, q, t[LM_Q_NORM]);
        k = norm(s, k, t[LM_K_NORM]);
    }
    q = rotate_pairs(s, is_local, q);
    bell_assign_slice(s->cache->k[i], begin, 4, rotate_pairs(s, is_local, k));
    bell_assign_slice(s->cache->v[i], begin, 4, bell_cast(v, BELL_FLOAT32));
    k = bell_narrow(s->cache->k[i], 2, 0, s->m);
    v = bell_narrow(s->cache->v[i], 2, 0, s->m);
    x = bell_transpose(attend_grouped(s, layer, is_local, q, k, v), 1, 2);
    return bell_linear(bell_reshape(x, whole, 3), t[LM_O], t[LM_O_BIAS]);
}

/* ---- feed forward ---- */

static struct bell_tensor *
apply_act(const struct lm_config *c, struct bell_tensor *x)
{
    switch (c->act) {
    case LM_GELU_TANH:
        return bell_gelu(x, true);
    case LM_GELU:
        return bell_gelu(x, false);
    case LM_RELU:
        return bell_relu(x);
    case LM_SILU:
    default:
        return bell_silu(x);
    }
}

static struct bell_tensor *
gated(const struct lm_config *c, struct bell_tensor *gate,
      struct bell_tensor *up)
{
    if (!(c->flags & LM_CLAMPED_GLU))
        return bell_mul(apply_act(c, gate), up);
    gate = bell_clip(gate, -INFINITY, 7);
    up = bell_clip(up, -7, 7);
    return bell_mul(bell_quick_gelu(gate), bell_add_scalar(up, 1));
}

static struct bell_tensor *
run_gated(const struct lm_step *s, struct bell_tensor *const *t,
          struct bell_tensor *x)
{
    struct bell_tensor *gate, *up;

    if (t[LM_GATE_UP]) {
        struct bell_tensor *both = bell_linear(x, t[LM_GATE_UP], NULL);

        gate = bell_narrow(both, 2, 0, s->c->hidden);
        up = bell_narrow(both, 2, s->c->hidden, s->c->hidden);
    } else {
        gate = bell_linear(x, t[LM_GATE], t[LM_GATE_BIAS]);
        up = bell_linear(x, t[LM_UP], t[LM_UP_BIAS]);
    }
    return bell_linear(gated(s->c, gate, up), t[LM_DOWN], t[LM_DOWN_BIAS]);
}

/* rows (k, out) of a bias (E, out), or NULL. */
static struct bell_tensor *
add_bias(struct bell_tensor *x, struct bell_tensor *bias,
         struct bell_tensor *which)
{
    if (!bias)
        return x;
    return bell_add(
        x, bell_unsqueeze(which ? bell_index_select(bias, 0, which) : bias,
                          which ? 2 : 1));
}

/* Few tokens: the matrices of the experts that they chose, one after the other.
 * x (b, n, dim), weights and which (b, n, k). */
static struct bell_tensor *
mix_chosen(const struct lm_step *s, struct bell_tensor *const *t,
           struct bell_tensor *x, struct bell_tensor *weights,
           struct bell_tensor *which)
{
    const struct lm_config *c = s->c;
    int64_t count = s->b * s->n * c->n_used;
    struct bell_tensor *rows, *gate, *up;

    which = bell_reshape(which, BELL_DIMS(count));
    rows = bell_expand(bell_unsqueeze(x, 2),
                       BELL_DIMS(s->b, s->n, c->n_used, c->dim));
    rows = bell_reshape(rows, BELL_DIMS(count, c->dim, 1));
    gate =
        add_bias(bell_matmul(bell_index_select(t[LM_X_GATE], 0, which), rows),
                 t[LM_X_GATE_BIAS], which);
    up = add_bias(bell_matmul(bell_index_select(t[LM_X_UP], 0, which), rows),
                  t[LM_X_UP_BIAS], which);
    x = add_bias(bell_matmul(bell_index_select(t[LM_X_DOWN], 0, which),
                             gated(c, gate, up)),
                 t[LM_X_DOWN_BIAS], which);
    x = bell_reshape(x, BELL_DIMS(s->b, s->n, c->n_used, c->dim));
    x = bell_mul(x, bell_unsqueeze(weights, 3));
    return bell_sum(x, BELL_DIMS(2), false);
}

/* Many: each expert computes all tokens, most with the weight 0. */
static struct bell_tensor *
mix_all(const struct lm_step *s, struct bell_tensor *const *t,
        struct bell_tensor *x, struct bell_tensor *weights,
        struct bell_tensor *which)
{
    const struct lm_config *c = s->c;
    int64_t count =
        bell_dim_mul(s->lm->ctx, bell_dim_of(s->b), (struct bell_dim){s->n})
            .word;
    const int64_t rows[] = {1, count, c->dim};
    const int64_t whole[] = {s->b, s->n, c->dim};
    const int64_t each[] = {count, c->n_experts, 1};
    struct bell_tensor *gate, *up, *part;

    part = bell_cast(bell_one_hot(which, c->n_experts), BELL_FLOAT32);
    part = bell_sum(bell_mul(part, bell_unsqueeze(weights, 3)), BELL_DIMS(2),
                    false); /* (b, n, E) */
    x = bell_reshape(x, rows, 3);
    gate = add_bias(bell_matmul(x, bell_transpose(t[LM_X_GATE], 1, 2)),
                    t[LM_X_GATE_BIAS], NULL);
    up = add_bias(bell_matmul(x, bell_transpose(t[LM_X_UP], 1, 2)),
                  t[LM_X_UP_BIAS], NULL);
    x = add_bias(
        bell_matmul(gated(c, gate, up), bell_transpose(t[LM_X_DOWN], 1, 2)),
        t[LM_X_DOWN_BIAS], NULL); /* (E, tokens, dim) */
    part = bell_transpose(bell_reshape(part, each, 3), 0, 1);
    return bell_reshape(bell_sum(bell_mul(x, part), BELL_DIMS(0), false), whole,
                        3);
}

static struct bell_tensor *
experts(const struct lm_step *s, struct bell_tensor *const *t,
        struct bell_tensor *x)
{
    const struct lm_config *c = s->c;
    struct bell_tensor *logits, *weights, *which;
    int64_t min, max;

    logits = bell_linear(x, t[LM_ROUTER], t[LM_ROUTER_BIAS]);
    bell_topk(bell_softmax(logits, -1), c->n_used, 2, true, &weights, &which);
    if (c->flags & LM_RENORMALIZE)
        weights = bell_div(weights, bell_sum(weights, BELL_DIMS(-1), true));
    if (bell_dim_bounds(s->lm->ctx, (struct bell_dim){s->n}, &min, &max) !=
            BELL_OK ||
        min != max || s->b * max * c->n_used > c->n_experts)
        return mix_all(s, t, x, weights, which);
    return mix_chosen(s, t, x, weights, which);
}

/* ---- the whole ---- */

static struct bell_tensor *
layer(const struct lm_step *s, int64_t i, struct bell_tensor *x)
{
    const struct lm_config *c = s->c;
    struct bell_tensor *const *t = s->lm->weights.layers[i].t;
    struct bell_tensor *y;

    y = attention(s, i, norm(s, x, t[LM_ATTN_NORM]));
    y = norm(s, y, t[LM_ATTN_POST]);
    x = bell_add(
        x, c->residual_scale == 1 ? y : bell_mul_scalar(y, c->residual_scale));
    y = norm(s, x, t[LM_FFN_NORM]);
    y = c->flags & LM_EXPERTS ? experts(s, t, y) : run_gated(s, t, y);
    y = norm(s, y, t[LM_FFN_POST]);
    return bell_add(
        x, c->residual_scale == 1 ? y : bell_mul_scalar(y, c->residual_scale));
}

bell_status
lm_decode(const struct bell_lm *lm, const struct lm_cache *cache,
          struct bell_dim past, struct bell_tensor *tokens,
          struct bell_tensor *places, bool all, struct bell_tensor **out_logits,
          struct bell_tensor **out_hidden)
{
    const struct lm_config *c = &lm->config;
    const int64_t begin[] = {0, past.word};
    struct lm_step s = {.lm = lm, .c = c, .cache = cache, .past = past};
    struct bell_tensor *x;
    int64_t i;

    s.b = bell_size(tokens, 0);
    s.n = axis_of(tokens, 1);
    s.m = bell_dim_add(lm->ctx, past, (struct bell_dim){s.n}).word;
    bell_assign_slice(cache->places, begin, 2, places);
    make_angles(&s, places, 0);
    make_masks(&s, places);
    s.cosines[1] = s.cosines[0];
    s.sines[1] = s.sines[0];
    if (cache->rates[1] != cache->rates[0])
        make_angles(&s, places, 1);
    x = bell_cast(bell_embedding(tokens, lm->weights.embedding), BELL_FLOAT32);
    if (c->embed_scale != 1)
        x = bell_mul_scalar(x, c->embed_scale);
    for (i = 0; i < c->n_layers; i++)
        x = layer(&s, i, x);
    if (!all)
        x = bell_narrow(
            x, 1,
            bell_dim_sub(lm->ctx, (struct bell_dim){s.n}, bell_dim_of(1)).word,
            1);
    *out_hidden = x = norm(&s, x, lm->weights.norm);
    x = bell_linear(x, lm->weights.classifier, lm->weights.classifier_bias);
    if (c->logit_scale != 1)
        x = bell_div_scalar(x, c->logit_scale);
    if (c->logit_cap > 0)
        x = bell_mul_scalar(bell_tanh(bell_div_scalar(x, c->logit_cap)),
                            c->logit_cap);
    *out_logits = x;
    return bell_context_status(lm->ctx);
}
