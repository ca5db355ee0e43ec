/* What a model is: sizes, scales and kinds by the keys of its file. */
#include "tensor/lm/lm_internal.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/bits.h"

static int64_t
int_of_key(struct lm_source *s, const char *gguf, const char *json,
           int64_t otherwise)
{
    int64_t value;

    return lm_get_int(s, gguf, json, &value) ? value : otherwise;
}

static double
float_of_key(struct lm_source *s, const char *gguf, const char *json,
             double otherwise)
{
    double value;

    return lm_get_float(s, gguf, json, &value) ? value : otherwise;
}

static bool
flag_of_key(struct lm_source *s, const char *gguf, const char *json,
            bool otherwise)
{
    bool value;

    return lm_get_flag(s, gguf, json, &value) ? value : otherwise;
}

/* ---- family ---- */

static BELL_MUST_CHECK bell_status
find_family(struct lm_source *s, struct lm_config *c)
{
    char name[64] = "", names[512];

    (void)lm_get_text(s, ".general.architecture", "model_type", name,
                      sizeof(name));
    c->family =
        s->json ? lm_family_hf(name) : lm_family_gguf(name, strlen(name));
    if (c->family) {
        c->flags = c->family->flags;
        return BELL_OK;
    }
    lm_family_names(!s->json, names, sizeof(names));
    return bell_fail(BELL_E_UNSUPPORTED,
                     "%s: a model of the family '%s'; known are %s", s->path,
                     name, names);
}

static BELL_MUST_CHECK bell_status
read_act(struct lm_source *s, struct lm_config *c)
{
    static const struct {
        const char *name;
        enum lm_act act;
    } acts[] = {
        {"silu", LM_SILU},
        {"swish", LM_SILU},
        {"gelu_pytorch_tanh", LM_GELU_TANH},
        {"gelu_new", LM_GELU_TANH},
        {"gelu", LM_GELU},
        {"relu", LM_RELU},
    };
    char name[64] = "";
    size_t i;

    c->act = c->family->act;
    (void)lm_get_text(s, NULL, "hidden_act", name, sizeof(name));
    (void)lm_get_text(s, NULL, "hidden_activation", name, sizeof(name));
    if (!*name)
        return BELL_OK;
    for (i = 0; i < ARRAY_LEN(acts); i++) {
        if (strcmp(acts[i].name, name) == 0) {
            c->act = acts[i].act;
            return BELL_OK;
        }
    }
    return bell_fail(BELL_E_UNSUPPORTED,
                     "%s: the activation '%s' is not supported", s->path, name);
}

/* ---- sizes ---- */

static BELL_MUST_CHECK bell_status
check_lm_sizes(const struct lm_source *s, const struct lm_config *c)
{
    if (c->dim < 1 || c->dim > LM_SIZE_MAX || c->hidden < 1 ||
        c->hidden > LM_SIZE_MAX || c->n_layers < 1 ||
        c->n_layers > LM_LAYERS_MAX || c->n_tokens < 1 ||
        c->n_tokens > LM_TOKENS_MAX || c->context < 1 ||
        c->context > (int64_t)1 << 40)
        return bell_fail(BELL_E_IO,
                         "%s: no such model: %lld wide, %lld hidden, %lld "
                         "layers, %lld tokens, context of %lld",
                         s->path, (long long)c->dim, (long long)c->hidden,
                         (long long)c->n_layers, (long long)c->n_tokens,
                         (long long)c->context);
    if (c->n_heads < 1 || c->n_heads > LM_SIZE_MAX || c->n_kv < 1 ||
        c->n_kv > c->n_heads || c->n_heads % c->n_kv != 0 || c->head < 1 ||
        c->head > LM_HEAD_MAX || c->rope_dims < 2 || c->rope_dims > c->head ||
        c->rope_dims % 2 != 0 || c->n_heads * c->head > LM_SIZE_MAX)
        return bell_fail(BELL_E_IO,
                         "%s: %lld heads of %lld, %lld of keys, of which %lld "
                         "elements are rotated, do not fit a width of %lld",
                         s->path, (long long)c->n_heads, (long long)c->head,
                         (long long)c->n_kv, (long long)c->rope_dims,
                         (long long)c->dim);
    if (c->n_experts < 0 || c->n_experts > LM_EXPERTS_MAX ||
        (c->n_experts > 0 &&
         (c->n_used < 1 || c->n_used > c->n_experts || c->expert_hidden < 1 ||
          c->expert_hidden > LM_SIZE_MAX)))
        return bell_fail(BELL_E_IO,
                         "%s: %lld experts, %lld of them used, %lld hidden: at "
                         "least 1 must be used",
                         s->path, (long long)c->n_experts, (long long)c->n_used,
                         (long long)c->expert_hidden);
    if (!(c->epsilon >= 0 && c->epsilon < 1))
        return bell_fail(BELL_E_IO, "%s: the norms' epsilon is %g", s->path,
                         c->epsilon);
    return BELL_OK;
}

static void
read_experts(struct lm_source *s, struct lm_config *c)
{
    c->n_experts = int_of_key(s, "expert_count", "num_local_experts",
                              int_of_key(s, NULL, "num_experts", 0));
    c->n_used = int_of_key(s, "expert_used_count", "num_experts_per_tok", 0);
    c->n_used = int_of_key(s, NULL, "experts_per_token", c->n_used);
    c->expert_hidden = int_of_key(s, "expert_feed_forward_length",
                                  "moe_intermediate_size", c->hidden);
    if (c->hidden == 0)
        c->hidden = c->expert_hidden;
    if (c->n_experts > 0)
        c->flags |= LM_EXPERTS;
    if (flag_of_key(s, NULL, "norm_topk_prob", !s->json))
        c->flags |= LM_RENORMALIZE;
}

static BELL_MUST_CHECK bell_status
read_lm_sizes(struct lm_source *s, struct lm_config *c)
{
    const struct bell_file_entry *tokens = bell_file_find(
        s->file, s->json ? "model.embed_tokens.weight" : "token_embd.weight");

    if (!tokens || tokens->ndim != 2)
        return bell_fail(BELL_E_IO, "%s: no table of tokens, %s", s->path,
                         s->json ? "model.embed_tokens.weight"
                                 : "token_embd.weight");
    c->n_tokens = tokens->shape[0];
    c->dim = int_of_key(s, "embedding_length", "hidden_size", 0);
    c->hidden = int_of_key(s, "feed_forward_length", "intermediate_size", 0);
    c->n_layers = int_of_key(s, "block_count", "num_hidden_layers", 0);
    c->n_heads =
        int_of_key(s, "attention.head_count", "num_attention_heads", 0);
    c->n_kv = int_of_key(s, "attention.head_count_kv", "num_key_value_heads",
                         c->n_heads);
    c->context = int_of_key(s, "context_length", "max_position_embeddings", 0);
    c->head = int_of_key(s, "attention.key_length", "head_dim",
                         c->n_heads > 0 ? c->dim / c->n_heads : 0);
    if (int_of_key(s, "attention.value_length", NULL, c->head) != c->head)
        return bell_fail(BELL_E_UNSUPPORTED,
                         "%s: heads of values are not as long as those of keys "
                         "(attention.value_length), which is not supported",
                         s->path);
    c->epsilon = float_of_key(s, "attention.layer_norm_rms_epsilon",
                              "rms_norm_eps", 1e-5);
    read_experts(s, c);
    return BELL_OK;
}

/* ---- scales ---- */

static void
read_scales(struct lm_source *s, struct lm_config *c)
{
    bool by_width = !s->json && c->family->n_layers_by_width == c->n_layers;
    double scalar =
        by_width ? (double)c->dim / (double)c->n_heads : (double)c->head;

    scalar = float_of_key(s, NULL, "query_pre_attn_scalar", scalar);
    c->attention_scale = 1 / sqrt(scalar);
    c->embed_scale = c->flags & LM_SCALE_EMBED ? sqrt((double)c->dim) : 1;
    c->residual_scale = c->logit_scale = 1;
    c->attention_scale =
        float_of_key(s, "attention.scale", NULL, c->attention_scale);
    if (c->flags & LM_SCALES) {
        c->attention_scale =
            float_of_key(s, NULL, "attention_multiplier", c->attention_scale);
        c->embed_scale =
            float_of_key(s, "embedding_scale", "embedding_multiplier", 1);
        c->residual_scale =
            float_of_key(s, "residual_scale", "residual_multiplier", 1);
        c->logit_scale = float_of_key(s, "logit_scale", "logits_scaling", 1);
    }
    c->attention_cap =
        float_of_key(s, "attn_logit_softcapping", "attn_logit_softcapping", 0);
    c->logit_cap = float_of_key(s, "final_logit_softcapping",
                                "final_logit_softcapping", 0);
}

/* ---- windows ---- */

/* Which layers read a window, by a list of names. */
static BELL_MUST_CHECK bell_status
read_layer_types(struct lm_source *s, struct lm_config *c)
{
    char name[32];
    int64_t i;

    for (i = 0; i < c->n_layers; i++) {
        if (!lm_get_item_text(s, "layer_types", (size_t)i, name, sizeof(name)))
            return bell_fail(BELL_E_IO, "%s: layer_types has no name %lld",
                             s->path, (long long)i);
        c->is_local[i] = strcmp(name, "sliding_attention") == 0;
        if (!c->is_local[i] && strcmp(name, "full_attention") != 0)
            return bell_fail(BELL_E_UNSUPPORTED,
                             "%s: a layer of the type '%s' is not supported",
                             s->path, name);
    }
    return BELL_OK;
}

static BELL_MUST_CHECK bell_status
read_windows(struct lm_source *s, struct lm_config *c)
{
    static const char pattern[] = "attention.sliding_window_pattern";
    bool is_on =
        flag_of_key(s, NULL, "use_sliding_window", (c->flags & LM_WINDOW) != 0);
    int64_t first = int_of_key(s, NULL, "max_window_layers", 0), i;
    int64_t period =
        int_of_key(s, pattern, "sliding_window_pattern", c->family->period);
    bool by_type = lm_get_list(s, NULL, "layer_types") > 0;
    bool by_item = lm_get_list(s, pattern, NULL) > 0;
    double item = 0;

    period = int_of_key(s, NULL, "_sliding_window_pattern", period);
    c->window = int_of_key(s, "attention.sliding_window", "sliding_window", 0);
    if (!is_on && s->json)
        c->window = 0;
    if (c->window < 0 || c->window > (int64_t)1 << 40)
        return bell_fail(BELL_E_IO, "%s: the window has %lld tokens", s->path,
                         (long long)c->window);
    c->is_local = host_calloc((size_t)c->n_layers, sizeof(*c->is_local));
    if (!c->is_local)
        return bell_fail(BELL_E_NO_MEMORY, "out of memory for %lld layers",
                         (long long)c->n_layers);
    if (by_type)
        BELL_TRY(read_layer_types(s, c));
    for (i = 0; i < c->n_layers; i++) {
        if (by_item && !lm_get_item(s, pattern, NULL, (size_t)i, &item))
            return bell_fail(BELL_E_IO, "%s: %s has no item %lld", s->path,
                             pattern, (long long)i);
        if (by_item)
            c->is_local[i] = item != 0;
        else if (!by_type)
            c->is_local[i] =
                period > 0
                    ? (i + 1) % period != 0
                    : c->window > 0 && (c->flags & LM_WINDOW || i >= first);
        if (c->is_local[i] && c->window == 0 && c->family->rope_local_base == 0)
            c->is_local[i] = false;
        c->has_window |= c->is_local[i] && c->window > 0;
    }
    return BELL_OK;
}

/* ---- rotation ---- */

/* A number of the rotation, under any of the objects that have it. */
static double
rope_float(struct lm_source *s, const char *gguf, const char *sub,
           const char *name, double otherwise)
{
    char key[128];

    otherwise = float_of_key(s, gguf, NULL, otherwise);
    snprintf(key, sizeof(key), "rope_scaling.%s", name);
    otherwise = float_of_key(s, NULL, key, otherwise);
    snprintf(key, sizeof(key), "rope_parameters.%s%s", sub, name);
    return float_of_key(s, NULL, key, otherwise);
}

static BELL_MUST_CHECK bell_status
read_rope_kind(struct lm_source *s, const char *sub, struct lm_rope *r)
{
    static const struct {
        const char *name;
        enum lm_rope_kind kind;
    } kinds[] = {
        {"none", LM_ROPE_PLAIN},    {"default", LM_ROPE_PLAIN},
        {"linear", LM_ROPE_LINEAR}, {"llama3", LM_ROPE_LLAMA3},
        {"yarn", LM_ROPE_YARN},     {"longrope", LM_ROPE_LONG},
        {"su", LM_ROPE_LONG},
    };
    char key[64], name[64] = "none";
    size_t i;

    snprintf(key, sizeof(key), "rope_parameters.%srope_type", sub);
    (void)lm_get_text(s, NULL, "rope_scaling.type", name, sizeof(name));
    (void)lm_get_text(s, "rope.scaling.type", "rope_scaling.rope_type", name,
                      sizeof(name));
    (void)lm_get_text(s, NULL, key, name, sizeof(name));
    snprintf(key, sizeof(key), "rope_parameters.%stype", sub);
    (void)lm_get_text(s, NULL, key, name, sizeof(name));
    for (i = 0; i < ARRAY_LEN(kinds); i++) {
        if (strcmp(kinds[i].name, name) == 0) {
            r->kind = kinds[i].kind;
            return BELL_OK;
        }
    }
    return bell_fail(BELL_E_UNSUPPORTED,
                     "%s: rotation with scaling '%s' is not supported", s->path,
                     name);
}

static BELL_MUST_CHECK bell_status
read_rope(struct lm_source *s, const struct lm_config *c, const char *sub,
          struct lm_rope *r)
{
    char key[64];
    double factor;

    BELL_TRY(read_rope_kind(s, sub, r));
    r->base =
        float_of_key(s, "rope.freq_base", "rope_theta", c->family->rope_base);
    r->base = rope_float(s, NULL, sub, "rope_theta", r->base);
    r->original =
        float_of_key(s, "rope.scaling.original_context_length",
                     "original_max_position_embeddings", (double)c->context);
    r->original = rope_float(s, NULL, sub, "original_max_position_embeddings",
                             r->original);
    factor = (double)c->context / r->original;
    r->factor = rope_float(s, "rope.scaling.factor", sub, "factor",
                           r->kind == LM_ROPE_LONG ? factor : 1);
    factor = float_of_key(s, "rope.scale_linear", NULL, 1);
    if (r->kind == LM_ROPE_PLAIN && !s->json && factor != 0 && factor != 1) {
        r->kind = LM_ROPE_LINEAR;
        r->factor = factor;
    }
    r->low = rope_float(s, NULL, sub, "low_freq_factor", 1);
    r->high = rope_float(s, NULL, sub, "high_freq_factor", 4);
    r->beta_fast =
        rope_float(s, "rope.scaling.yarn_beta_fast", sub, "beta_fast", 32);
    r->beta_slow =
        rope_float(s, "rope.scaling.yarn_beta_slow", sub, "beta_slow", 1);
    r->attention =
        rope_float(s, "rope.scaling.attn_factor", sub, "attention_factor", 0);
    r->mscale = rope_float(s, NULL, sub, "mscale", 0);
    r->mscale_all = rope_float(s, NULL, sub, "mscale_all_dim", 0);
    snprintf(key, sizeof(key), "rope_parameters.%struncate", sub);
    r->is_truncated = (c->flags & LM_SINKS) == 0;
    if (s->json)
        r->is_truncated = flag_of_key(
            s, NULL, key, flag_of_key(s, NULL, "rope_scaling.truncate", true));
    if (!(r->base > 0) || !(r->factor > 0) || !(r->original > 0))
        return bell_fail(BELL_E_IO,
                         "%s: rotation by a base of %g, a factor of %g and an "
                         "original context of %g: they must be above 0",
                         s->path, r->base, r->factor, r->original);
    return BELL_OK;
}

/* A list of factors for the pairs of a head, of a key or a tensor. */
static BELL_MUST_CHECK bell_status
read_factors(struct lm_source *s, struct lm_config *c, const char *name,
             float **out)
{
    size_t n = (size_t)c->rope_dims / 2, i;
    char keys[2][64];
    const char *key = NULL;
    double value;

    snprintf(keys[0], sizeof(keys[0]), "rope_parameters.%s", name);
    snprintf(keys[1], sizeof(keys[1]), "rope_scaling.%s", name);
    for (i = 0; i < 2; i++) {
        if (lm_get_list(s, NULL, keys[i]) > 0)
            key = keys[i];
    }
    if (!key)
        return BELL_OK;
    if (lm_get_list(s, NULL, key) != n)
        return bell_fail(BELL_E_IO, "%s: %s has %zu numbers, not %zu", s->path,
                         key, lm_get_list(s, NULL, key), n);
    *out = host_calloc(n, sizeof(**out));
    if (!*out)
        return bell_fail(BELL_E_NO_MEMORY, "out of memory for %zu factors", n);
    for (i = 0; i < n; i++) {
        if (!lm_get_item(s, NULL, key, i, &value))
            return bell_fail(BELL_E_IO,
                             "%s: %s has something else than "
                             "numbers",
                             s->path, key);
        (*out)[i] = (float)value;
    }
    return BELL_OK;
}

static BELL_MUST_CHECK bell_status
read_rotation(struct lm_source *s, struct lm_config *c)
{
    double part = float_of_key(s, NULL, "partial_rotary_factor", 1);
    bool by_layer = lm_get_text(
        s, NULL, "rope_parameters.full_attention.rope_type", (char[64]){0}, 64);
    double local;

    part = rope_float(s, NULL, "", "partial_rotary_factor", part);
    if (!(part > 0 && part <= 1))
        return bell_fail(BELL_E_IO,
                         "%s: partial_rotary_factor is %g; it must be above 0 "
                         "and at most 1",
                         s->path, part);
    c->rope_dims = int_of_key(s, "rope.dimension_count", NULL,
                              (int64_t)((double)c->head * part));
    BELL_TRY(check_lm_sizes(s, c));
    c->turns_neighbours = !s->json && c->flags & LM_NEIGHBOURS;
    BELL_TRY(read_rope(s, c, by_layer ? "full_attention." : "", &c->rope));
    c->rope_local = c->rope;
    local = float_of_key(s, "rope.freq_base_swa", "rope_local_base_freq",
                         c->family->rope_local_base);
    if (by_layer)
        BELL_TRY(read_rope(s, c, "sliding_attention.", &c->rope_local));
    else if (local > 0)
        c->rope_local = (struct lm_rope){.base = local, .factor = 1};
    BELL_TRY(read_factors(s, c, "short_factor", &c->factors[0]));
    return read_factors(s, c, "long_factor", &c->factors[1]);
}

/* ---- the whole ---- */

/* Biases are taken where the file has them; a key has to agree. */
static BELL_MUST_CHECK bell_status
check_biases(struct lm_source *s)
{
    static const char *const keys[2][2] = {
        {"attention_bias", "model.layers.0.self_attn.q_proj.bias"},
        {"mlp_bias", "model.layers.0.mlp.up_proj.bias"}};
    bool has, wants;
    size_t i;

    for (i = 0; i < 2; i++) {
        has = bell_file_find(s->file, keys[i][1]) != NULL;
        if (lm_get_flag(s, NULL, keys[i][0], &wants) && wants != has)
            return bell_fail(BELL_E_IO, "%s: %s is %s, and '%s' is %s", s->path,
                             keys[i][0], wants ? "true" : "false", keys[i][1],
                             has ? "there" : "not there");
    }
    return BELL_OK;
}

/* Parts that are asked for by keys alone. */
static BELL_MUST_CHECK bell_status
check_parts(struct lm_source *s, struct lm_config *c)
{
    double limit = float_of_key(s, NULL, "swiglu_limit", 7);
    char text[32] = "mxfp4";

    if (c->flags & LM_EXPERTS && c->n_experts == 0)
        return bell_fail(BELL_E_IO, "%s: no number of experts", s->path);
    if (limit != 7 || float_of_key(s, NULL, "swiglu_alpha", 1.702) != 1.702 ||
        int_of_key(s, NULL, "decoder_sparse_step", 1) != 1 ||
        lm_get_list(s, NULL, "mlp_only_layers") > 0)
        return bell_fail(
            BELL_E_UNSUPPORTED,
            "%s: a swiglu_limit other than 7, a swiglu_alpha other "
            "than 1.702, or layers with and without experts "
            "(decoder_sparse_step, "
            "mlp_only_layers), are not supported",
            s->path);
    BELL_TRY(check_biases(s));
    (void)lm_get_list(s, NULL, "quantization_config.modules_to_not_convert");
    if (lm_get_text(s, NULL, "quantization_config.quant_method", text,
                    sizeof(text)) &&
        strcmp(text, "mxfp4") != 0)
        return bell_fail(BELL_E_UNSUPPORTED,
                         "%s: weights quantised by '%s' are not supported",
                         s->path, text);
    c->is_tied = flag_of_key(s, NULL, "tie_word_embeddings",
                             s->json ? (c->flags & LM_TIED) != 0 : false);
    return BELL_OK;
}

bell_status
lm_config_read(struct lm_source *s, struct lm_config *out)
{
    bell_status status;

    memset(out, 0, sizeof(*out));
    BELL_TRY(find_family(s, out));
    out->from_json = s->json != NULL;
    status = read_act(s, out);
    if (status == BELL_OK)
        status = read_lm_sizes(s, out);
    if (status == BELL_OK)
        status = read_rotation(s, out);
    if (status == BELL_OK)
        status = read_windows(s, out);
    if (status == BELL_OK) {
        read_scales(s, out);
        status = check_parts(s, out);
    }
    if (status != BELL_OK)
        lm_config_fini(out);
    return status;
}

void
lm_config_fini(struct lm_config *c)
{
    host_free(c->factors[0]);
    host_free(c->factors[1]);
    host_free(c->is_local);
    c->factors[0] = c->factors[1] = NULL;
    c->is_local = NULL;
}
