/* Language models, inside: what a file says of a model, its weights, and the
 * decoder that is built of both.
 *
 * A family is a row of data (family.c). The decoder (decoder.c) reads the
 * configuration alone and knows no family.
 */
#ifndef BELL_TENSOR_LM_LM_INTERNAL_H
#define BELL_TENSOR_LM_LM_INTERNAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"
#include "doorbell/dim.h"
#include "doorbell/files.h"
#include "doorbell/jit.h"
#include "doorbell/lm.h"
#include "doorbell/tokenizer.h"

/* Beyond these there is not such a model; products of three stay far below
 * 2^63. */
#define LM_SIZE_MAX    (1 << 20)
#define LM_HEAD_MAX    8192
#define LM_TOKENS_MAX  (1 << 22)
#define LM_LAYERS_MAX  1024
#define LM_EXPERTS_MAX 4096

/* ---- families ---- */

/* What a family's layers have. */
enum lm_flag {
    /* GGUF has a head's rows in the order in which neighbours are rotated;
     * transformers rotates halves everywhere */
    LM_NEIGHBOURS = 1u << 0,
    LM_NORM_PLUS_ONE = 1u << 1, /* transformers' norms are 1 + weight */
    LM_SCALE_EMBED = 1u << 2,   /* by the root of its size */
    LM_QK_NORM = 1u << 3,       /* of each head */
    LM_QK_NORM_ALL = 1u << 4,   /* of all heads together */
    LM_SANDWICH = 1u << 5,      /* norms before and behind each block */
    LM_POST_NORM = 1u << 6,     /* norms behind each block alone */
    LM_FUSED = 1u << 7,         /* q, k, v are one matrix; gate and up, too */
    LM_SINKS = 1u << 8,         /* a logit more for each head */
    LM_EXPERTS = 1u << 9,       /* always; else where the file has some */
    LM_CLAMPED_GLU = 1u << 10,  /* gpt-oss's gate */
    LM_WINDOW = 1u << 11,       /* a window counts without being switched on */
    LM_TIED = 1u << 12,         /* the classifier is the embedding, unless the
                                 * file says otherwise */
    LM_SCALES = 1u << 14,       /* keys for scales of its own */
    LM_RENORMALIZE = 1u << 13,  /* the chosen experts' weights add up to 1 */
};

enum lm_act {
    LM_SILU,
    LM_GELU_TANH,
    LM_GELU,
    LM_RELU,
};

struct lm_family {
    const char *gguf; /* general.architecture */
    const char *hf;   /* model_type */
    uint32_t flags;
    enum lm_act act;
    /* the last of so many layers reads everything, the others a window; 0: as
     * flags say */
    uint32_t period;
    double rope_base;       /* where the file has none */
    double rope_local_base; /* of layers with a window; 0: the same */
    /* Layers of the size whose queries are scaled by dim / heads instead of a
     * head's elements; GGUF does not tell. */
    int64_t n_layers_by_width;
};

/* NULL: there is not one. */
const struct lm_family *lm_family_gguf(const char *name, size_t n_bytes);
const struct lm_family *lm_family_hf(const char *name);
/* "llama, qwen2, ...", for messages. */
void lm_family_names(bool is_gguf, char *text, size_t size_bytes);

/* ---- configuration ---- */

enum lm_rope_kind {
    LM_ROPE_PLAIN,
    LM_ROPE_LINEAR,
    LM_ROPE_LLAMA3,
    LM_ROPE_YARN,
    LM_ROPE_LONG,
};

struct lm_rope {
    enum lm_rope_kind kind;
    double base, factor;
    double original;  /* context length before scaling */
    double low, high; /* of llama3: factors of wavelengths */
    double beta_fast, beta_slow, attention; /* attention 0: of the factor */
    double mscale, mscale_all;
    bool is_truncated; /* YaRN's bounds are whole numbers */
};

struct lm_config {
    const struct lm_family *family;
    uint32_t flags; /* the family's, and what the file says */
    enum lm_act act;
    int64_t dim, hidden, n_layers, n_heads, n_kv, head, n_tokens, context;
    int64_t n_experts, n_used, expert_hidden;
    int64_t window, rope_dims;
    double epsilon, attention_scale, attention_cap, logit_cap;
    double embed_scale, residual_scale, logit_scale;
    struct lm_rope rope, rope_local;
    float *factors[2]; /* owned, of rope_dims / 2: short and long, or
                        * rope_freqs in [0]; NULL: none */
    bool *is_local;    /* owned; by layer: reads a window */
    bool has_window;   /* some layer does */
    bool turns_neighbours, from_json;
    bool is_tied;
};

/* The text of a file and where it came from. */
struct lm_source {
    const char *path;
    struct bell_file *file; /* of tensors, and GGUF's keys; owned */
    void *json;             /* config.json, parsed; owned; NULL: GGUF */
    char prefix[32];        /* "llama." */
    char **used;            /* keys that were asked for; owned */
    size_t n_used, cap_used;
};

/* Opens what the path leads to. */
BELL_MUST_CHECK bell_status lm_source_open(const char *path,
                                           struct lm_source *out);
void lm_source_close(struct lm_source *source);
/* The value of a key, by either name (NULL: it has none there). False: it is
 * absent or null. */
bool lm_get_int(struct lm_source *s, const char *gguf, const char *json,
                int64_t *out);
bool lm_get_float(struct lm_source *s, const char *gguf, const char *json,
                  double *out);
bool lm_get_flag(struct lm_source *s, const char *gguf, const char *json,
                 bool *out);
/* At most size_bytes - 1 bytes of a text, terminated. */
bool lm_get_text(struct lm_source *s, const char *gguf, const char *json,
                 char *out, size_t size_bytes);
/* Number of items of a list; 0: it is absent. */
size_t lm_get_list(struct lm_source *s, const char *gguf, const char *json);
bool lm_get_item(struct lm_source *s, const char *gguf, const char *json,
                 size_t i, double *out);
bool lm_get_item_text(struct lm_source *s, const char *json, size_t i,
                      char *out, size_t size_bytes);
/* Every key was asked for, or makes no difference. */
BELL_MUST_CHECK bell_status lm_check_keys(struct lm_source *s,
                                          const struct lm_config *c);

BELL_MUST_CHECK bell_status lm_config_read(struct lm_source *s,
                                           struct lm_config *out);
void lm_config_fini(struct lm_config *c);

/* ---- weights ---- */

enum lm_part {
    LM_ATTN_NORM,
    LM_Q,
    LM_K,
    LM_V,
    LM_QKV,
    LM_O,
    LM_Q_BIAS,
    LM_K_BIAS,
    LM_V_BIAS,
    LM_QKV_BIAS,
    LM_O_BIAS,
    LM_Q_NORM,
    LM_K_NORM,
    LM_SINK,
    LM_ATTN_POST,
    LM_FFN_NORM,
    LM_GATE,
    LM_UP,
    LM_GATE_UP,
    LM_DOWN,
    LM_GATE_BIAS,
    LM_UP_BIAS,
    LM_DOWN_BIAS,
    LM_FFN_POST,
    LM_ROUTER,
    LM_ROUTER_BIAS,
    LM_X_GATE, /* experts, (E, out, in) */
    LM_X_UP,
    LM_X_DOWN,
    LM_X_GATE_BIAS,
    LM_X_UP_BIAS,
    LM_X_DOWN_BIAS,
    LM_PART_COUNT
};

struct lm_layer {
    struct bell_tensor *t[LM_PART_COUNT]; /* or NULL */
};

struct lm_weights {
    struct bell_tensor *embedding, *norm, *classifier, *classifier_bias;
    struct lm_layer *layers; /* owned */
    double token_bytes;
};

BELL_MUST_CHECK bell_status lm_weights_load(struct bell_context *ctx,
                                            struct lm_source *s,
                                            struct lm_config *c,
                                            struct lm_weights *out);
void lm_weights_fini(struct lm_weights *w, int64_t n_layers);

/* ---- places ---- */

/* Radians that pair i of a head is rotated by, from token to token, and the
 * factor of queries and keys. `is_long`: the session's context is longer than
 * the model was made for. */
void lm_rope_rates(const struct lm_config *c, bool is_local, bool is_long,
                   float *rates, double *out_factor);

/* ---- the model ---- */

/* At an address that is never used again (base/once.h). */
struct bell_lm {
    bool is_open;
    struct bell_context *ctx;
    struct lm_config config;
    struct lm_weights weights;
    struct bell_tokenizer *tokenizer; /* owned; or NULL */
};

/* Keys and values of a session. */
struct lm_cache {
    struct bell_tensor **k, **v;  /* owned lists, by layer: (sequences, kv
                                  * heads, slots, head) */
    struct bell_tensor *places;   /* (sequences, slots), int32: which token of
                                  * its sequence a slot has; -1: none */
    struct bell_tensor *rates[2]; /* (rope_dims / 2): of layers that read all,
                                   * and of those with a window */
    double rope_factor[2];
};

/* Tokens (sequences, n) at their places of the same shape (-1: a gap), behind
 * `past` slots: logits (sequences, m, tokens) and what they are made of,
 * (sequences, m, dim): of all, or of the last, m being 1. The cache is
 * written. */
BELL_MUST_CHECK bell_status lm_decode(const struct bell_lm *lm,
                                      const struct lm_cache *cache,
                                      struct bell_dim past,
                                      struct bell_tensor *tokens,
                                      struct bell_tensor *places, bool all,
                                      struct bell_tensor **out_logits,
                                      struct bell_tensor **out_hidden);

/* Whether a call may use it; else it has failed. */
bool lm_is_open(const char *call, const struct bell_lm *lm);

#endif
