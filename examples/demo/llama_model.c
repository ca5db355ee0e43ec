/* The model: weights from a file, and the forward pass. */
#include "examples/demo/llama.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/bits.h"
#include "base/file.h"
#include "doorbell/dim.h"
#include "doorbell/module.h"

/* Beyond these no such model is; products of three stay far below 2^63. */
#define DIM_MAX    (1 << 17)
#define TOKENS_MAX (1 << 22)
#define LAYERS_MAX 1024

/* ---- the file ---- */

/* What is left of it. */
struct source {
    const char *path;
    const uint8_t *at;
    size_t n_left;
    bool is_short; /* something was not there whole */
};

bell_status
llama_check_shape(const char *path, const struct llama_shape *s)
{
    if (s->dim < 1 || s->dim > DIM_MAX || s->hidden < 1 ||
        s->hidden > 8 * DIM_MAX || s->n_layers < 1 ||
        s->n_layers > LAYERS_MAX || s->n_tokens < 3 ||
        s->n_tokens > TOKENS_MAX || s->context < 1 || s->context > TOKENS_MAX)
        return bell_fail(BELL_E_IO,
                         "%s: no such model: %lld wide, %lld "
                         "hidden, %lld layers, %lld tokens, context of %lld",
                         path, (long long)s->dim, (long long)s->hidden,
                         (long long)s->n_layers, (long long)s->n_tokens,
                         (long long)s->context);
    if (s->n_heads < 1 || s->n_heads > s->dim || s->n_kv_heads < 1 ||
        s->n_kv_heads > s->n_heads || s->n_heads % s->n_kv_heads != 0 ||
        s->dim % s->n_heads != 0 || s->dim / s->n_heads % 2 != 0)
        return bell_fail(BELL_E_IO,
                         "%s: %lld heads, %lld of keys, do not fit a width of "
                         "%lld",
                         path, (long long)s->n_heads, (long long)s->n_kv_heads,
                         (long long)s->dim);
    return BELL_OK;
}

/* *out_shared: the classifier is the embedding. */
static BELL_MUST_CHECK bell_status
read_llama_shape(struct source *source, struct llama_shape *s, bool *out_shared)
{
    int32_t words[7];

    if (source->n_left < sizeof(words))
        return bell_fail(BELL_E_IO, "%s: %zu bytes are not a checkpoint",
                         source->path, source->n_left);
    memcpy(words, source->at, sizeof(words));
    source->at += sizeof(words);
    source->n_left -= sizeof(words);
    *out_shared = words[5] > 0;
    *s = (struct llama_shape){
        .dim = words[0],
        .hidden = words[1],
        .n_layers = words[2],
        .n_heads = words[3],
        .n_kv_heads = words[4],
        .n_tokens = words[5] < 0 ? -(int64_t)words[5] : words[5],
        .context = words[6],
    };
    return llama_check_shape(source->path, s);
}

/* The next n bytes; NULL: there are not that many. */
static const void *
take_bytes(struct source *source, uint64_t n_bytes)
{
    const uint8_t *at = source->at;

    source->is_short |= source->n_left < n_bytes;
    if (source->is_short)
        return NULL;
    source->at += n_bytes;
    source->n_left -= n_bytes;
    return at;
}

/* The next (rows, columns) floats, a tensor that stays; columns 0: a list. */
static struct bell_tensor *
take_llama(struct llama *model, struct source *source, int64_t rows,
           int64_t columns)
{
    const int64_t shape[] = {rows, columns};
    uint64_t n_bytes = (uint64_t)rows * (uint64_t)(columns ? columns : 1) * 4;
    const void *data = take_bytes(source, n_bytes);

    if (!data)
        return NULL;
    model->n_weight_bytes += (double)n_bytes;
    return bell_keep_forever(
        bell_from_data(model->ctx, shape, columns ? 2 : 1, BELL_FLOAT32, data));
}

/* Each kind of weight is there for all layers in turn. */
static void
take_all(struct llama *model, struct source *source, size_t field_bytes,
         int64_t rows, int64_t columns)
{
    struct bell_tensor **field;
    int64_t i;

    for (i = 0; i < model->shape.n_layers; i++) {
        field =
            (struct bell_tensor **)((char *)&model->layers[i] + field_bytes);
        *field = take_llama(model, source, rows, columns);
    }
}

#define TAKE_ALL(field, rows, columns)                                         \
    take_all(model, source, offsetof(struct llama_layer, field), rows, columns)

static BELL_MUST_CHECK bell_status
take_llama_weights(struct llama *model, struct source *source, bool is_shared)
{
    const struct llama_shape *s = &model->shape;
    int64_t head = s->dim / s->n_heads, kv = head * s->n_kv_heads;

    model->embedding = take_llama(model, source, s->n_tokens, s->dim);
    if (!is_shared)
        model->n_weight_bytes = 0; /* of which a row is read */
    TAKE_ALL(attn_norm, s->dim, 0);
    TAKE_ALL(wq, s->dim, s->dim);
    TAKE_ALL(wk, kv, s->dim);
    TAKE_ALL(wv, kv, s->dim);
    TAKE_ALL(wo, s->dim, s->dim);
    TAKE_ALL(ffn_norm, s->dim, 0);
    TAKE_ALL(w1, s->hidden, s->dim);
    TAKE_ALL(w2, s->dim, s->hidden);
    TAKE_ALL(w3, s->hidden, s->dim);
    model->norm = take_llama(model, source, s->dim, 0);
    (void)take_bytes(source, (uint64_t)(s->context * head) * 4); /* legacy */
    model->classifier = is_shared
                            ? model->embedding
                            : take_llama(model, source, s->n_tokens, s->dim);
    BELL_TRY(bell_context_status(model->ctx));
    if (source->is_short)
        return bell_fail(BELL_E_IO, "%s: ends before its weights do",
                         source->path);
    if (source->n_left)
        return bell_fail(BELL_E_IO, "%s: %zu bytes behind the weights",
                         source->path, source->n_left);
    return BELL_OK;
}

/* ---- tables and caches ---- */

/* The pair j of a head turns by place / base^(2j / head). */
static BELL_MUST_CHECK bell_status
make_tables(struct llama *model)
{
    int64_t half = model->shape.dim / model->shape.n_heads / 2;
    int64_t n = model->shape.context, i, j;
    float *cosines = host_calloc((size_t)(n * half), sizeof(*cosines));
    float *sines = host_calloc((size_t)(n * half), sizeof(*sines));
    int32_t *places = host_calloc((size_t)n, sizeof(*places));

    for (i = 0; cosines && sines && i < n; i++) {
        for (j = 0; j < half; j++) {
            float rate = 1.0f / powf((float)model->rope_base,
                                     (float)(2 * j) / (float)(2 * half));
            cosines[i * half + j] = cosf((float)i * rate);
            sines[i * half + j] = sinf((float)i * rate);
        }
    }
    for (i = 0; places && i < n; i++)
        places[i] = (int32_t)i;
    if (cosines && sines && places) {
        model->places = bell_keep_forever(
            bell_from_data(model->ctx, BELL_DIMS(n), BELL_INT32, places));
        model->cosines = bell_keep_forever(bell_from_data(
            model->ctx, BELL_DIMS(n, 1, half), BELL_FLOAT32, cosines));
        model->sines = bell_keep_forever(bell_from_data(
            model->ctx, BELL_DIMS(n, 1, half), BELL_FLOAT32, sines));
    }
    host_free(cosines);
    host_free(sines);
    host_free(places);
    if (!model->sines)
        return bell_fail(BELL_E_NO_MEMORY, "out of memory for %lld places",
                         (long long)n);
    return bell_context_status(model->ctx);
}

static BELL_MUST_CHECK bell_status
make_cache(struct llama *model)
{
    const struct llama_shape *s = &model->shape;

    model->cache =
        bell_keep_forever(bell_zeros(model->ctx,
                                     BELL_DIMS(s->n_layers, 2, s->n_kv_heads,
                                               s->context, s->dim / s->n_heads),
                                     BELL_FLOAT32));
    return bell_realize1(model->cache);
}

/* ---- the forward pass ---- */

/* Where the tokens are that are computed. */
struct llama_at {
    struct bell_tensor *cosines, *sines; /* (n, 1, head / 2), of their places */
    struct bell_tensor *is_own;  /* (context, 1): which place; NULL: all own */
    struct bell_tensor *is_seen; /* (context): up to it */
    struct bell_tensor *cache;
};

/* Turns pairs of elements of x (n, heads, head) by the angles of its place:
 * neighbours, or element j of either half. */
static struct bell_tensor *
turn(const struct llama *model, const struct llama_at *at,
     struct bell_tensor *x)
{
    int axis = model->turns_halves ? 2 : 3;
    int64_t n = bell_size(x, 0), heads = bell_size(x, 1);
    int64_t half = bell_size(x, 2) / 2;
    struct bell_tensor *a, *b, *parts[2];

    if (axis == 2)
        x = bell_reshape(x, BELL_DIMS(n, heads, 2, half));
    else
        x = bell_reshape(x, BELL_DIMS(n, heads, half, 2));
    a = bell_select(x, axis, 0);
    b = bell_select(x, axis, 1);
    parts[0] = bell_sub(bell_mul(a, at->cosines), bell_mul(b, at->sines));
    parts[1] = bell_add(bell_mul(a, at->sines), bell_mul(b, at->cosines));
    return bell_reshape(bell_stack(parts, 2, axis),
                        BELL_DIMS(n, heads, 2 * half));
}

/* (n, heads * head) as (heads, n, head). */
static struct bell_tensor *
heads_first(struct bell_tensor *x)
{
    return bell_transpose(x, 0, 1);
}

/* What x (n, dim) reads from the tokens up to its own. kv[]: its keys and
 * values (kv heads, n, head). The queries that share keys are rows of one
 * product. */
static struct bell_tensor *
attend_llama(const struct llama *model, int64_t number,
             const struct llama_at *at, struct bell_tensor *x,
             struct bell_tensor **kv)
{
    const struct llama_shape *s = &model->shape;
    const struct llama_layer *layer = &model->layers[number];
    int64_t n = bell_size(x, 0), head = s->dim / s->n_heads;
    int64_t group = s->n_heads / s->n_kv_heads;
    struct bell_tensor *all[2], *h, *q;
    int i;

    h = bell_rms_norm(x, layer->attn_norm, model->epsilon);
    q = bell_reshape(bell_linear(h, layer->wq, layer->bq),
                     BELL_DIMS(n, s->n_heads, head));
    kv[0] = bell_reshape(bell_linear(h, layer->wk, layer->bk),
                         BELL_DIMS(n, s->n_kv_heads, head));
    kv[1] = bell_reshape(bell_linear(h, layer->wv, layer->bv),
                         BELL_DIMS(n, s->n_kv_heads, head));
    q = heads_first(turn(model, at, q));
    kv[0] = heads_first(turn(model, at, kv[0]));
    kv[1] = heads_first(kv[1]);
    if (at->is_own) {
        struct bell_tensor *cache = bell_select(at->cache, 0, number);
        for (i = 0; i < 2; i++)
            all[i] = bell_where(at->is_own, kv[i], bell_select(cache, 0, i));
        q = bell_reshape(q, BELL_DIMS(s->n_kv_heads, group, head));
        x = bell_scaled_dot_product_attention(q, all[0], all[1], at->is_seen, 0,
                                              false, 0);
    } else {
        q = bell_reshape(q, BELL_DIMS(s->n_kv_heads, group, n, head));
        for (i = 0; i < 2; i++)
            all[i] = bell_expand(bell_unsqueeze(kv[i], 1),
                                 BELL_DIMS(s->n_kv_heads, group, n, head));
        x = bell_scaled_dot_product_attention(q, all[0], all[1], NULL, 0, true,
                                              0);
    }
    x = heads_first(bell_reshape(x, BELL_DIMS(s->n_heads, n, head)));
    return bell_linear(bell_reshape(x, BELL_DIMS(n, s->dim)), layer->wo, NULL);
}

static struct bell_tensor *
feed_forward(const struct llama_layer *layer, struct bell_tensor *x)
{
    struct bell_tensor *gate = bell_silu(bell_linear(x, layer->w1, NULL));

    return bell_linear(bell_mul(gate, bell_linear(x, layer->w3, NULL)),
                       layer->w2, NULL);
}

/* out[0]: the logits behind the last of the tokens x (n, dim); out[1]: what
 * goes into the cache, (layers, 2, kv heads, n, head). */
static bell_status
run_layers(const struct llama *model, const struct llama_at *at,
           struct bell_tensor *x, struct bell_tensor **out)
{
    const struct llama_shape *s = &model->shape;
    int64_t n = bell_size(x, 0), i;
    struct bell_tensor **kv = host_calloc((size_t)s->n_layers, sizeof(*kv));
    struct bell_tensor *both[2];

    if (!kv)
        return bell_fail(BELL_E_NO_MEMORY, "out of memory for %lld layers",
                         (long long)s->n_layers);
    for (i = 0; i < s->n_layers; i++) {
        const struct llama_layer *layer = &model->layers[i];
        x = bell_add(x, attend_llama(model, i, at, x, both));
        kv[i] = bell_stack(both, 2, 0);
        x = bell_add(x, feed_forward(layer, bell_rms_norm(x, layer->ffn_norm,
                                                          model->epsilon)));
    }
    x = bell_rms_norm(bell_narrow(x, 0, n - 1, 1), model->norm, model->epsilon);
    out[0] = bell_reshape(bell_linear(x, model->classifier, NULL),
                          BELL_DIMS(s->n_tokens));
    out[1] = bell_stack(kv, (uint32_t)s->n_layers, 0);
    host_free(kv);
    return BELL_OK;
}

/* One token, in[0], at place in[1]; what is before it is in the cache. */
static bell_status
next_token(struct bell_context *ctx, void *user, struct bell_tensor *const *in,
           struct bell_tensor **out)
{
    const struct llama *model = user;
    struct bell_tensor *place = bell_reshape(in[1], BELL_DIMS(1));
    struct llama_at at = {
        .cosines = bell_index_select(model->cosines, 0, place),
        .sines = bell_index_select(model->sines, 0, place),
        .is_own = bell_unsqueeze(bell_eq(model->places, place), 1),
        .is_seen = bell_le(model->places, place),
        .cache = model->cache,
    };

    (void)ctx;
    return run_layers(
        model, &at,
        bell_embedding(bell_reshape(in[0], BELL_DIMS(1)), model->embedding),
        out);
}

static BELL_MUST_CHECK bell_status
make_jit(struct llama *model)
{
    struct bell_jit_desc desc = {
        .struct_size = sizeof(desc),
        .name = "llama",
        .fn = next_token,
        .user = model,
        .n_in = 2,
        .n_out = 2,
    };

    return bell_jit_create(model->ctx, &desc, &model->next);
}

/* A step of a bundle. */
struct saved_step {
    struct llama *model;
    struct bell_dim place; /* a symbol */
};

/* The same, and its row of the cache is written, when all has read the
 * cache. */
static bell_status
step(struct bell_context *ctx, void *user, struct bell_tensor *const *in,
     struct bell_tensor **out)
{
    const struct saved_step *s = user;
    struct bell_tensor *made[2], *given[2] = {in[0]};

    given[1] = bell_dim_value(ctx, s->place, BELL_INT32);
    BELL_TRY(next_token(ctx, s->model, given, made));
    BELL_TRY(bell_realize(made, 2));
    bell_assign_slice(s->model->cache, BELL_SHAPE(0, 0, 0, s->place, 0),
                      made[1]);
    out[0] = made[0];
    return bell_context_status(ctx);
}

/* What the bundle calls its weights and state: the names of llama2.c's Python
 * model, and of what that one lacks. */
static BELL_MUST_CHECK bell_status
name_tensors(const struct llama *model, struct bell_state *list)
{
    const struct bell_state_item whole[] = {
        {"tok_embeddings.weight", .tensor = model->embedding},
        {"norm.weight", .tensor = model->norm},
        {"output.weight", .tensor = model->classifier},
        {"rope.cosines", .tensor = model->cosines},
        {"rope.sines", .tensor = model->sines},
        {"rope.places", .tensor = model->places},
        {"cache", .tensor = model->cache},
    };
    char prefix[32];
    int64_t l;
    size_t i;

    for (i = 0; i < ARRAY_LEN(whole); i++)
        BELL_TRY(bell_state_add(list, NULL, whole[i].name, BELL_STATE_PARAM,
                                whole[i].tensor));
    for (l = 0; l < model->shape.n_layers; l++) {
        const struct llama_layer *layer = &model->layers[l];
        const struct bell_state_item parts[] = {
            {"attention_norm.weight", .tensor = layer->attn_norm},
            {"attention.wq.weight", .tensor = layer->wq},
            {"attention.wk.weight", .tensor = layer->wk},
            {"attention.wv.weight", .tensor = layer->wv},
            {"attention.wo.weight", .tensor = layer->wo},
            {"attention.wq.bias", .tensor = layer->bq},
            {"attention.wk.bias", .tensor = layer->bk},
            {"attention.wv.bias", .tensor = layer->bv},
            {"ffn_norm.weight", .tensor = layer->ffn_norm},
            {"feed_forward.w1.weight", .tensor = layer->w1},
            {"feed_forward.w2.weight", .tensor = layer->w2},
            {"feed_forward.w3.weight", .tensor = layer->w3},
        };

        snprintf(prefix, sizeof(prefix), "layers.%lld", (long long)l);
        for (i = 0; i < ARRAY_LEN(parts); i++)
            BELL_TRY(bell_state_add(list, prefix, parts[i].name,
                                    BELL_STATE_PARAM, parts[i].tensor));
    }
    return BELL_OK;
}

bell_status
llama_save(struct llama *model, const char *const *targets, uint32_t n_targets,
           const char *path)
{
    static const char *const in_names[] = {"token"};
    static const char *const out_names[] = {"logits"};
    struct saved_step s = {
        model, bell_symbol(model->ctx, "place", 0, model->shape.context - 1)};
    const struct bell_jit_desc desc = {
        .struct_size = sizeof(desc),
        .name = "llama",
        .fn = step,
        .user = &s,
        .n_in = 1,
        .n_out = 1,
    };
    struct bell_state names = {0};
    const struct bell_jit_save_desc where = {
        .struct_size = sizeof(where),
        .targets = targets,
        .n_targets = n_targets,
        .in_names = in_names,
        .out_names = out_names,
        .state = &names,
    };
    struct bell_tensor *token;
    struct bell_jit *jit;
    bell_status status;

    token = bell_zeros(model->ctx, BELL_DIMS(1), BELL_INT32);
    BELL_TRY(bell_jit_create(model->ctx, &desc, &jit));
    status = name_tensors(model, &names);
    if (status == BELL_OK)
        status = bell_jit_save(jit, &token, &where, path);
    bell_state_fini(&names);
    bell_jit_destroy(jit);
    return status;
}

/* Tokens that begin the text. */
static bell_status
first_tokens(struct llama *model, const int32_t *tokens, int64_t n,
             struct bell_tensor **out)
{
    struct llama_at at = {
        .cosines = bell_narrow(model->cosines, 0, 0, n),
        .sines = bell_narrow(model->sines, 0, 0, n),
    };
    struct bell_tensor *x =
        bell_from_data(model->ctx, BELL_DIMS(n), BELL_INT32, tokens);

    BELL_TRY(run_layers(model, &at, bell_embedding(x, model->embedding), out));
    return bell_realize(out, 2);
}

bell_status
llama_forward(struct llama *model, const int32_t *tokens, int64_t n, int64_t at,
              struct bell_tensor **out_logits)
{
    const int64_t place[5] = {0, 0, 0, at, 0};
    struct bell_tensor *in[2], *out[2];

    if (n > 1) {
        BELL_TRY(first_tokens(model, tokens, n, out));
    } else {
        in[0] = bell_scalar_int(model->ctx, tokens[0]);
        in[1] = bell_scalar_int(model->ctx, at);
        BELL_TRY(bell_jit_call(model->next, in, out));
    }
    bell_assign_slice(model->cache, place, 5, out[1]);
    *out_logits = out[0];
    return bell_context_status(model->ctx);
}

/* ---- all of it ---- */

static BELL_MUST_CHECK bell_status
load_from(struct llama *model, struct source *source)
{
    bool is_shared;

    BELL_TRY(read_llama_shape(source, &model->shape, &is_shared));
    model->layers =
        host_calloc((size_t)model->shape.n_layers, sizeof(*model->layers));
    if (!model->layers)
        return bell_fail(BELL_E_NO_MEMORY, "out of memory for %lld layers",
                         (long long)model->shape.n_layers);
    return take_llama_weights(model, source, is_shared);
}

static BELL_MUST_CHECK bell_status
load_checkpoint(const char *path, struct llama *model)
{
    struct source source = {.path = path};
    struct file_bytes file;
    bell_status status;

    BELL_TRY(file_read(path, &file));
    source.at = file.data;
    source.n_left = file.size_bytes;
    status = load_from(model, &source);
    file_bytes_fini(&file);
    return status;
}

/* What no file has. */
static BELL_MUST_CHECK bell_status
make_rest(struct llama *model)
{
    BELL_TRY(make_tables(model));
    BELL_TRY(make_cache(model));
    return make_jit(model);
}

bell_status
llama_load(struct bell_context *ctx, const char *path,
           const struct bell_file *file, struct llama *model)
{
    bell_status status;

    memset(model, 0, sizeof(*model));
    model->ctx = ctx;
    model->epsilon = LLAMA_EPSILON;
    model->rope_base = LLAMA_ROPE_BASE;
    status = file ? llama_load_gguf(file, path, model)
                  : load_checkpoint(path, model);
    if (status == BELL_OK)
        status = make_rest(model);
    if (status != BELL_OK)
        llama_fini(model);
    return status;
}

void
llama_fini(struct llama *model)
{
    size_t n = sizeof(struct llama_layer) / sizeof(struct bell_tensor *), j;
    int64_t i;

    for (i = 0; model->layers && i < model->shape.n_layers; i++) {
        struct bell_tensor **tensors = (struct bell_tensor **)&model->layers[i];
        for (j = 0; j < n; j++)
            bell_tensor_release(tensors[j]);
    }
    if (model->classifier != model->embedding)
        bell_tensor_release(model->classifier);
    bell_tensor_release(model->embedding);
    bell_tensor_release(model->norm);
    bell_tensor_release(model->cosines);
    bell_tensor_release(model->sines);
    bell_tensor_release(model->places);
    bell_tensor_release(model->cache);
    bell_jit_destroy(model->next);
    host_free(model->layers);
    memset(model, 0, sizeof(*model));
}
