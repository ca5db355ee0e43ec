/* The blocks of size_models.h. */
#include "tests/unit/size_models.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "doorbell/ops.h"

const char *const size_model_names[SIZE_MODEL_COUNT] = {
    [SIZE_MODEL_BERT] = "bert",
    [SIZE_MODEL_GPT2] = "gpt2",
    [SIZE_MODEL_LLAMA] = "llama",
};

/* ---- what is given ---- */

static struct bell_tensor *
noise(struct bell_context *ctx, const int64_t *shape, uint32_t ndim)
{
    struct bell_tensor *t;
    int64_t n = 1, i;
    float *v;

    for (i = 0; i < ndim; i++)
        n *= shape[i];
    v = malloc((size_t)n * sizeof(*v));
    if (!v)
        return NULL;
    for (i = 0; i < n; i++)
        v[i] = (float)((i + 5) * 7919 % 1009) / 500 - 1;
    t = bell_from_data(ctx, shape, ndim, BELL_FLOAT32, v);
    free(v);
    return t;
}

/* Angles of places, twice each, as halves of a head are turned. */
static void
make_angles(struct size_models *m, struct bell_tensor **out)
{
    int64_t half = m->width / m->n_heads / 2, i, j;
    float *v = malloc((size_t)(m->max_s * 2 * half) * sizeof(*v));

    if (!v)
        return;
    for (i = 0; i < m->max_s; i++) {
        for (j = 0; j < half; j++)
            v[i * 2 * half + j] = v[i * 2 * half + half + j] =
                (float)((double)i * pow(1e4, -(double)j / (double)half));
    }
    *out =
        bell_from_data(m->ctx, BELL_DIMS(m->max_s, 2 * half), BELL_FLOAT32, v);
    free(v);
}

/* The last fifth of each sequence but the first is padding. */
static struct bell_tensor *
make_kept(struct size_models *m)
{
    int64_t n = m->max_b * m->max_s, i;
    float *v = malloc((size_t)n * sizeof(*v));
    struct bell_tensor *t;

    if (!v)
        return NULL;
    for (i = 0; i < n; i++)
        v[i] = i < m->max_s || i % m->max_s == 0 || i % 5 != 4;
    t = bell_from_data(m->ctx, BELL_DIMS(m->max_b, 1, 1, m->max_s),
                       BELL_FLOAT32, v);
    free(v);
    return bell_cast(t, BELL_BOOL);
}

bool
size_models_init(struct size_models *m, struct bell_context *ctx,
                 enum size_model kind, int64_t width, int64_t n_heads,
                 int64_t max_b, int64_t max_s)
{
    const struct bell_nn_transformer_options options = {
        .struct_size = sizeof(options),
        .size = width,
        .n_heads = n_heads,
        .n_kv_heads = kind == SIZE_MODEL_LLAMA ? n_heads / 2 : n_heads,
        .is_norm_first = kind != SIZE_MODEL_BERT,
    };
    struct bell_tensor *all[4], *angles = NULL;
    uint32_t i;

    memset(m, 0, sizeof(*m));
    m->ctx = ctx;
    m->kind = kind;
    m->width = width;
    m->n_heads = n_heads;
    m->max_b = max_b;
    m->max_s = max_s;
    bell_manual_seed(ctx, 3);
    if (bell_nn_transformer_init(ctx, &options, &m->layer) != BELL_OK)
        return false;
    for (i = 0; i < 2; i++) {
        if (bell_nn_rms_norm_init(ctx, BELL_DIMS(width), 1e-5, &m->norms[i]) !=
            BELL_OK)
            return false;
    }
    if (bell_nn_linear_init(ctx, width, 4 * width, false, &m->gate) != BELL_OK)
        return false;
    make_angles(m, &angles);
    all[0] = m->x = noise(ctx, BELL_DIMS(max_b, max_s, width));
    all[1] = m->kept = make_kept(m);
    all[2] = m->cosines = bell_cos(angles);
    all[3] = m->sines = bell_sin(angles);
    return bell_realize(all, 4) == BELL_OK;
}

void
size_models_fini(struct size_models *m)
{
    bell_module_fini(&bell_nn_transformer_type, &m->layer);
    bell_module_fini(&bell_nn_rms_norm_type, &m->norms[0]);
    bell_module_fini(&bell_nn_rms_norm_type, &m->norms[1]);
    bell_module_fini(&bell_nn_linear_type, &m->gate);
}

/* ---- Llama ---- */

/* x[n, l, heads * d] as [n, heads, l, d], its halves turned by its places. */
static struct bell_tensor *
turn_heads(const struct size_models *m, struct bell_tensor *x,
           struct bell_dim s, bool turns)
{
    int64_t d = m->width / m->n_heads;
    struct bell_tensor *other;

    x = bell_transpose(bell_unflatten(x, 2, BELL_DIMS(-1, d)), 1, 2);
    if (!turns)
        return x;
    other = bell_cat(BELL_TENSORS(bell_neg(bell_narrow(x, 3, d / 2, d / 2)),
                                  bell_narrow(x, 3, 0, d / 2)),
                     3);
    return bell_add(bell_mul(x, bell_narrow(m->cosines, 0, 0, s)),
                    bell_mul(other, bell_narrow(m->sines, 0, 0, s)));
}

/* Each head of keys for two of queries. */
static struct bell_tensor *
share_heads(struct bell_tensor *x)
{
    return bell_repeat_interleave(x, 2, 1);
}

static struct bell_tensor *
llama(const struct size_models *m, struct bell_tensor *x, struct bell_dim s)
{
    const struct bell_nn_attention *attn = &m->layer.attn;
    struct bell_tensor *h = bell_nn_rms_norm(&m->norms[0], x), *q, *k, *v, *y;

    q = turn_heads(m, bell_nn_linear(&attn->wq, h), s, true);
    k = turn_heads(m, bell_nn_linear(&attn->wk, h), s, true);
    v = turn_heads(m, bell_nn_linear(&attn->wv, h), s, false);
    y = bell_scaled_dot_product_attention(q, share_heads(k), share_heads(v),
                                          NULL, 0, true, 0);
    y = bell_flatten(bell_transpose(y, 1, 2), 2, 3);
    x = bell_add(x, bell_nn_linear(&attn->wo, y));
    h = bell_nn_rms_norm(&m->norms[1], x);
    y = bell_mul(bell_silu(bell_nn_linear(&m->gate, h)),
                 bell_nn_linear(&m->layer.linear1, h));
    return bell_add(x, bell_nn_linear(&m->layer.linear2, y));
}

/* ---- steps ---- */

/* The weights that the block has. */
static uint32_t
weights_of(const struct size_models *m, struct bell_tensor **out)
{
    const struct bell_nn_attention *attn = &m->layer.attn;
    bool is_llama = m->kind == SIZE_MODEL_LLAMA;
    uint32_t n = 0;

    out[n++] = attn->wq.weight;
    out[n++] = attn->wk.weight;
    out[n++] = attn->wv.weight;
    out[n++] = attn->wo.weight;
    out[n++] = m->layer.linear1.weight;
    out[n++] = m->layer.linear1.bias;
    out[n++] = m->layer.linear2.weight;
    out[n++] = m->layer.linear2.bias;
    out[n++] = is_llama ? m->norms[0].weight : m->layer.norm1.weight;
    out[n++] = is_llama ? m->norms[1].weight : m->layer.norm2.weight;
    out[n++] = is_llama ? m->gate.weight : m->layer.norm1.bias;
    return n;
}

uint32_t
size_models_step(const struct size_models *m, struct bell_dim b,
                 struct bell_dim s, bool trains,
                 struct bell_tensor *out[SIZE_MODEL_MAX_OUT])
{
    struct bell_tensor *x = bell_narrow(bell_narrow(m->x, 0, 0, b), 1, 0, s),
                       *of[SIZE_MODEL_MAX_OUT], *y, *mask;
    uint32_t n;

    if (m->kind == SIZE_MODEL_LLAMA) {
        y = llama(m, x, s);
    } else {
        mask = bell_narrow(bell_narrow(m->kept, 0, 0, b), 3, 0, s);
        y = bell_nn_transformer(&m->layer, x,
                                m->kind == SIZE_MODEL_BERT ? mask : NULL,
                                m->kind == SIZE_MODEL_GPT2);
    }
    if (!trains) {
        out[0] = y;
        return 1;
    }
    y = bell_add(y, x);
    out[0] = bell_mean(bell_mul(y, y), NULL, 0, false);
    of[0] = x;
    n = 1 + weights_of(m, of + 1);
    return bell_gradient(out[0], of, n, out + 1) == BELL_OK ? n + 1 : 0;
}
