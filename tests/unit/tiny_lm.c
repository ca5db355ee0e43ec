#include "tests/unit/tiny_lm.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/bits.h"

#define PLACES_MAX 128

/* ---- weights ---- */

/* Uniform in +-1, the same for a seed, a layer, a tensor and an element. */
static float
element(const struct tiny_lm *lm, int layer, const char *name, size_t i)
{
    uint64_t x = lm->seed + 77u * (uint64_t)(layer + 2) + i * 1000003u;

    for (; *name; name++)
        x = (x ^ (uint64_t)*name) * 0x9e3779b97f4a7c15u;
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
    x = (x ^ x >> 27) * 0x94d049bb133111ebu;
    return (float)((double)((x ^ x >> 31) >> 11) * 0x1p-52 - 1);
}

static bool
is_norm(const char *name)
{
    return strstr(name, "norm") != NULL || strcmp(name, "rope_freqs") == 0;
}

static float
weight(const struct tiny_lm *lm, int layer, const char *name, size_t columns,
       size_t row, size_t column)
{
    float x = element(lm, layer, name, row * columns + column);

    if (is_norm(name))
        return 1 + x / 3;
    if (strcmp(name, "token_embd") == 0)
        return x;
    return (float)(1.5 * (double)x / sqrt((double)columns));
}

/* ---- the reference ---- */

static void
product(const struct tiny_lm *lm, int layer, const char *name, const double *x,
        size_t columns, double *y, size_t rows)
{
    char bias[64];
    size_t i, k;

    snprintf(bias, sizeof(bias), "%s.bias", name);
    for (i = 0; i < rows; i++) {
        y[i] = lm->kind.has_biases && strncmp(name, "attn_", 5) == 0 &&
                       strcmp(name, "attn_output") != 0
                   ? (double)weight(lm, layer, bias, 1, i, 0)
                   : 0;
        for (k = 0; k < columns; k++)
            y[i] += (double)weight(lm, layer, name, columns, i, k) * x[k];
    }
}

static void
norm(const struct tiny_lm *lm, int layer, const char *name, const double *x,
     double *y, size_t n)
{
    double sum = 0;
    size_t i;

    for (i = 0; i < n; i++)
        sum += x[i] * x[i];
    for (i = 0; i < n; i++)
        y[i] = x[i] / sqrt(sum / (double)n + 1e-5) *
               (double)weight(lm, layer, name, 1, i, 0);
}

static void
rotate(const struct tiny_lm *lm, double *x, size_t place)
{
    size_t half = TINY_HEAD / 2, i;

    for (i = 0; i < half; i++) {
        size_t a = lm->kind.rotates_neighbours ? 2 * i : i;
        size_t b = lm->kind.rotates_neighbours ? a + 1 : i + half;
        double rate = pow(10000, -2.0 * (double)i / TINY_HEAD), angle, u, v;

        if (lm->kind.has_freqs)
            rate /= (double)weight(lm, -1, "rope_freqs", 1, i, 0);
        angle = (double)place * rate;
        u = x[a];
        v = x[b];
        x[a] = u * cos(angle) - v * sin(angle);
        x[b] = u * sin(angle) + v * cos(angle);
    }
}

static void
make_heads(const struct tiny_lm *lm, int layer, const char *name,
           const double *x, size_t place, size_t n_heads, double *y)
{
    char norm_name[64];
    bool is_value = strcmp(name, "attn_v") == 0;
    size_t h;

    product(lm, layer, name, x, TINY_DIM, y, n_heads * TINY_HEAD);
    snprintf(norm_name, sizeof(norm_name), "%s_norm", name);
    for (h = 0; h < n_heads && !is_value; h++, y += TINY_HEAD) {
        if (lm->kind.has_head_norms)
            norm(lm, layer, norm_name, y, y, TINY_HEAD);
        rotate(lm, y, place);
    }
}

static double
capped(double x, double cap)
{
    return cap > 0 ? cap * tanh(x / cap) : x;
}

struct keys {
    double k[TINY_LAYERS][PLACES_MAX][TINY_KV * TINY_HEAD];
    double v[TINY_LAYERS][PLACES_MAX][TINY_KV * TINY_HEAD];
};

static void
attend(const struct tiny_lm *lm, int layer, const struct keys *keys,
       const double *q, size_t place, double *out)
{
    const struct tiny_kind *kind = &lm->kind;
    bool is_local = kind->window > 0 &&
                    (kind->period == 0 || (layer + 1) % kind->period != 0);
    double scores[PLACES_MAX], sum;
    size_t h, i, j, from = 0, at;

    if (is_local && place + 1 > (size_t)kind->window)
        from = place + 1 - (size_t)kind->window;
    for (h = 0; h < TINY_HEADS; h++) {
        at = h / (TINY_HEADS / TINY_KV) * TINY_HEAD;
        for (sum = 0, j = from; j <= place; j++) {
            double score = 0;

            for (i = 0; i < TINY_HEAD; i++)
                score += q[h * TINY_HEAD + i] * keys->k[layer][j][at + i];
            scores[j] =
                exp(capped(score / sqrt(TINY_HEAD), kind->attention_cap));
            sum += scores[j];
        }
        for (i = 0; i < TINY_HEAD; i++) {
            out[h * TINY_HEAD + i] = 0;
            for (j = from; j <= place; j++)
                out[h * TINY_HEAD + i] +=
                    scores[j] / sum * keys->v[layer][j][at + i];
        }
    }
}

static double
activate(const struct tiny_lm *lm, double x)
{
    return lm->kind.is_sandwich
               ? 0.5 * x *
                     (1 + tanh(sqrt(2 / M_PI) * (x + 0.044715 * x * x * x)))
               : x / (1 + exp(-x));
}

static void
run_layer(const struct tiny_lm *lm, int layer, struct keys *keys, double *x,
          size_t place)
{
    double h[TINY_DIM], q[TINY_HEADS * TINY_HEAD], y[TINY_HEADS * TINY_HEAD];
    double gate[TINY_HIDDEN], up[TINY_HIDDEN], block[TINY_DIM];
    size_t i;

    norm(lm, layer, "attn_norm", x, h, TINY_DIM);
    make_heads(lm, layer, "attn_q", h, place, TINY_HEADS, q);
    make_heads(lm, layer, "attn_k", h, place, TINY_KV, keys->k[layer][place]);
    make_heads(lm, layer, "attn_v", h, place, TINY_KV, keys->v[layer][place]);
    attend(lm, layer, keys, q, place, y);
    product(lm, layer, "attn_output", y, TINY_HEADS * TINY_HEAD, block,
            TINY_DIM);
    if (lm->kind.is_sandwich)
        norm(lm, layer, "post_attention_norm", block, block, TINY_DIM);
    for (i = 0; i < TINY_DIM; i++)
        x[i] += block[i];
    norm(lm, layer, "ffn_norm", x, h, TINY_DIM);
    product(lm, layer, "ffn_gate", h, TINY_DIM, gate, TINY_HIDDEN);
    product(lm, layer, "ffn_up", h, TINY_DIM, up, TINY_HIDDEN);
    for (i = 0; i < TINY_HIDDEN; i++)
        gate[i] = activate(lm, gate[i]) * up[i];
    product(lm, layer, "ffn_down", gate, TINY_HIDDEN, block, TINY_DIM);
    if (lm->kind.is_sandwich)
        norm(lm, layer, "post_ffw_norm", block, block, TINY_DIM);
    for (i = 0; i < TINY_DIM; i++)
        x[i] += block[i];
}

void
tiny_logits(const struct tiny_lm *lm, const int32_t *tokens, size_t n,
            double *out)
{
    struct keys *keys = calloc(1, sizeof(*keys));
    double x[TINY_DIM];
    size_t place, i;
    int layer;

    for (place = 0; keys && place < n; place++) {
        for (i = 0; i < TINY_DIM; i++)
            x[i] = (lm->kind.is_sandwich ? sqrt(TINY_DIM) : 1) *
                   (double)weight(lm, -1, "token_embd", TINY_DIM,
                                  (size_t)tokens[place], i);
        for (layer = 0; layer < TINY_LAYERS; layer++)
            run_layer(lm, layer, keys, x, place);
    }
    norm(lm, -1, "output_norm", x, x, TINY_DIM);
    product(lm, -1, "token_embd", x, TINY_DIM, out, TINY_TOKENS);
    for (i = 0; i < TINY_TOKENS; i++)
        out[i] = capped(out[i], lm->kind.logit_cap);
    free(keys);
}

/* ---- the file ---- */

struct writer {
    FILE *file;
    uint64_t at; /* of the next tensor's data */
    bool is_data, damages, is_hf;
    const struct tiny_lm *lm;
    uint64_t n_tensors;
};

static void
put(struct writer *w, const void *bytes, size_t n)
{
    if (fwrite(bytes, 1, n, w->file) != n)
        abort();
}

static void
put_u32(struct writer *w, uint32_t x)
{
    put(w, &x, sizeof(x));
}

static void
put_u64(struct writer *w, uint64_t x)
{
    put(w, &x, sizeof(x));
}

static void
put_text(struct writer *w, const char *text)
{
    put_u64(w, strlen(text));
    put(w, text, strlen(text));
}

/* transformers' name of a tensor. */
static const char *
hf_name(const struct tiny_lm *lm, const char *name)
{
    static const char *const names[][2] = {
        {"token_embd", "embed_tokens"},
        {"output_norm", "norm"},
        {"attn_norm", "input_layernorm"},
        {"attn_q", "self_attn.q_proj"},
        {"attn_k", "self_attn.k_proj"},
        {"attn_v", "self_attn.v_proj"},
        {"attn_output", "self_attn.o_proj"},
        {"attn_q_norm", "self_attn.q_norm"},
        {"attn_k_norm", "self_attn.k_norm"},
        {"ffn_gate", "mlp.gate_proj"},
        {"ffn_up", "mlp.up_proj"},
        {"ffn_down", "mlp.down_proj"},
        {"post_attention_norm", "post_attention_layernorm"},
        {"post_ffw_norm", "post_feedforward_layernorm"},
    };
    size_t i;

    for (i = 0; i < ARRAY_LEN(names); i++) {
        if (strcmp(names[i][0], name) == 0)
            return names[i][1];
    }
    return lm->kind.is_sandwich ? "pre_feedforward_layernorm"
                                : "post_attention_layernorm";
}

/* An entry of safetensors' header. */
static void
put_hf_entry(struct writer *w, int layer, const char *name, const char *end,
             size_t rows, size_t columns)
{
    size_t n = rows * (columns ? columns : 1) * 4;
    char prefix[32] = "model.", shape[48];

    if (layer >= 0)
        snprintf(prefix, sizeof(prefix), "model.layers.%d.", layer);
    snprintf(shape, sizeof(shape), columns ? "%zu,%zu" : "%zu", rows, columns);
    fprintf(w->file,
            "%s\"%s%s%s\":{\"dtype\":\"F32\",\"shape\":[%s],"
            "\"data_offsets\":[%llu,%llu]}",
            w->n_tensors++ ? "," : "{", prefix, hf_name(w->lm, name), end,
            shape, (unsigned long long)w->at, (unsigned long long)(w->at + n));
    w->at += n;
}

/* Its entry, or its data. */
static void
put_tensor(struct writer *w, int layer, const char *name, const char *end,
           size_t rows, size_t columns)
{
    char whole[96], own[64];
    size_t n = rows * (columns ? columns : 1), i;

    snprintf(own, sizeof(own), "%s%s", name,
             strcmp(end, ".bias") == 0 ? end : "");
    snprintf(whole, sizeof(whole), "%s%s", name, end);
    if (layer >= 0)
        snprintf(whole, sizeof(whole), "blk.%d.%s%s", layer, name, end);
    if (w->is_hf && !w->is_data) {
        put_hf_entry(w, layer, name, end, rows, columns);
        return;
    }
    if (!w->is_data) {
        put_text(w, whole);
        put_u32(w, columns ? 2 : 1);
        put_u64(w, columns ? columns : rows);
        if (columns)
            put_u64(w, rows);
        put_u32(w, 0);
        put_u64(w, w->at);
        w->n_tensors++;
    }
    for (i = 0; w->is_data && i < n; i++) {
        size_t c = columns ? columns : 1;
        float x = weight(w->lm, layer, own, c, i / c, i % c);

        if (w->damages && i == 1 && strcmp(own, "output_norm") == 0)
            x = NAN;
        if (w->is_hf && w->lm->kind.is_sandwich && is_norm(own))
            x -= 1; /* there norms are 1 + weight */
        put(w, &x, sizeof(x));
    }
    for (i = n; w->is_data && !w->is_hf && i % 8; i++)
        put_u32(w, 0);
    w->at += (n * 4 + 31) / 32 * 32;
}

static void
put_layer(struct writer *w, int l)
{
    const struct tiny_kind *kind = &w->lm->kind;
    size_t q = TINY_HEADS * TINY_HEAD, kv = TINY_KV * TINY_HEAD;

    put_tensor(w, l, "attn_norm", ".weight", TINY_DIM, 0);
    put_tensor(w, l, "attn_q", ".weight", q, TINY_DIM);
    put_tensor(w, l, "attn_k", ".weight", kv, TINY_DIM);
    put_tensor(w, l, "attn_v", ".weight", kv, TINY_DIM);
    put_tensor(w, l, "attn_output", ".weight", TINY_DIM, q);
    put_tensor(w, l, "ffn_norm", ".weight", TINY_DIM, 0);
    put_tensor(w, l, "ffn_gate", ".weight", TINY_HIDDEN, TINY_DIM);
    put_tensor(w, l, "ffn_up", ".weight", TINY_HIDDEN, TINY_DIM);
    put_tensor(w, l, "ffn_down", ".weight", TINY_DIM, TINY_HIDDEN);
    if (kind->has_biases) {
        put_tensor(w, l, "attn_q", ".bias", q, 0);
        put_tensor(w, l, "attn_k", ".bias", kv, 0);
        put_tensor(w, l, "attn_v", ".bias", kv, 0);
    }
    if (kind->has_head_norms) {
        put_tensor(w, l, "attn_q_norm", ".weight", TINY_HEAD, 0);
        put_tensor(w, l, "attn_k_norm", ".weight", TINY_HEAD, 0);
    }
    if (kind->is_sandwich) {
        put_tensor(w, l, "post_attention_norm", ".weight", TINY_DIM, 0);
        put_tensor(w, l, "post_ffw_norm", ".weight", TINY_DIM, 0);
    }
}

static void
put_tensors(struct writer *w, const char *more)
{
    int l;

    w->at = 0;
    put_tensor(w, -1, "token_embd", ".weight", TINY_TOKENS, TINY_DIM);
    put_tensor(w, -1, "output_norm", ".weight", TINY_DIM, 0);
    for (l = 0; l < TINY_LAYERS; l++)
        put_layer(w, l);
    if (w->lm->kind.has_freqs)
        put_tensor(w, -1, "rope_freqs", ".weight", TINY_HEAD / 2, 0);
    if (more)
        put_tensor(w, -1, more, "", 1, 0);
}

static void
put_key(struct writer *w, const char *name, bool is_float, double value)
{
    char key[96];
    float f = (float)value;

    snprintf(key, sizeof(key), "%s.%s", w->lm->kind.family, name);
    put_text(w, key);
    put_u32(w, is_float ? 6 : 4);
    if (is_float)
        put(w, &f, sizeof(f));
    else
        put_u32(w, (uint32_t)value);
}

bool
tiny_write(const struct tiny_lm *lm, const char *path, const char *more_tensor,
           const char *more_key, bool damages)
{
    const struct tiny_kind *kind = &lm->kind;
    const struct {
        const char *name;
        bool is_float;
        double value;
    } keys[] = {
        {"context_length", false, TINY_CONTEXT},
        {"embedding_length", false, TINY_DIM},
        {"block_count", false, TINY_LAYERS},
        {"feed_forward_length", false, TINY_HIDDEN},
        {"attention.head_count", false, TINY_HEADS},
        {"attention.head_count_kv", false, TINY_KV},
        {"attention.key_length", false, TINY_HEAD},
        {"attention.value_length", false, TINY_HEAD},
        {"attention.layer_norm_rms_epsilon", true, 1e-5},
        {"attention.sliding_window", false, kind->window},
        {"attn_logit_softcapping", true, kind->attention_cap},
        {"final_logit_softcapping", true, kind->logit_cap},
        {more_key, false, 1},
    };
    struct writer w = {.lm = lm, .damages = damages};
    size_t n_keys = ARRAY_LEN(keys) - !more_key, i;

    w.file = fopen(path, "wb");
    if (!w.file)
        return false;
    put(&w, "GGUF\3\0\0\0", 8);
    put_u64(&w, 0);
    put_u64(&w, n_keys + 1);
    put_text(&w, "general.architecture");
    put_u32(&w, 8);
    put_text(&w, kind->family);
    for (i = 0; i < n_keys; i++)
        put_key(&w, keys[i].name, keys[i].is_float, keys[i].value);
    put_tensors(&w, more_tensor);
    while (ftell(w.file) % 32)
        put(&w, "", 1);
    w.is_data = true;
    put_tensors(&w, more_tensor);
    fseek(w.file, 8, SEEK_SET);
    put_u64(&w, w.n_tensors);
    return fclose(w.file) == 0;
}

static bool
write_config(const struct tiny_lm *lm, const char *path, const char *more_key)
{
    const struct tiny_kind *kind = &lm->kind;
    FILE *file = fopen(path, "w");

    if (!file)
        return false;
    fprintf(file,
            "{\"model_type\": \"%s\", \"hidden_size\": %d,\n"
            "\"intermediate_size\": %d, \"num_hidden_layers\": %d,\n"
            "\"num_attention_heads\": %d, \"num_key_value_heads\": %d,\n"
            "\"head_dim\": %d, \"max_position_embeddings\": %d,\n"
            "\"vocab_size\": %d, \"rms_norm_eps\": 1e-5,\n"
            "\"rope_theta\": 10000.0, \"tie_word_embeddings\": true,\n"
            "\"architectures\": [\"Tiny\"], \"rope_scaling\": null,\n",
            kind->family, TINY_DIM, TINY_HIDDEN, TINY_LAYERS, TINY_HEADS,
            TINY_KV, TINY_HEAD, TINY_CONTEXT, TINY_TOKENS);
    if (kind->is_sandwich)
        fprintf(file,
                "\"hidden_activation\": \"gelu_pytorch_tanh\",\n"
                "\"query_pre_attn_scalar\": %d,\n",
                TINY_HEAD);
    if (kind->attention_cap > 0)
        fprintf(file,
                "\"attn_logit_softcapping\": %g,\n"
                "\"final_logit_softcapping\": %g,\n",
                kind->attention_cap, kind->logit_cap);
    if (kind->period)
        fprintf(file, "\"layer_types\": [\"sliding_attention\", "
                      "\"full_attention\", \"sliding_attention\", "
                      "\"full_attention\"],\n");
    if (more_key)
        fprintf(file, "%s,\n", more_key);
    fprintf(file, "\"sliding_window\": %d}\n", kind->window);
    return fclose(file) == 0;
}

bool
tiny_write_folder(const struct tiny_lm *lm, const char *folder,
                  const char *more_key)
{
    struct writer w = {.lm = lm, .is_hf = true};
    char path[256];
    uint64_t size;

    snprintf(path, sizeof(path), "%s/config.json", folder);
    if (!write_config(lm, path, more_key))
        return false;
    snprintf(path, sizeof(path), "%s/model.safetensors", folder);
    w.file = fopen(path, "wb");
    if (!w.file)
        return false;
    put_u64(&w, 0);
    put_tensors(&w, NULL);
    put(&w, "}", 1);
    size = (uint64_t)ftell(w.file) - 8;
    w.is_data = true;
    put_tensors(&w, NULL);
    fseek(w.file, 0, SEEK_SET);
    put_u64(&w, size);
    return fclose(w.file) == 0;
}
