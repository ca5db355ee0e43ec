/* Language models: from a file to the tokens that follow a text.
 *
 *     bell_lm_open(ctx, "model.gguf", NULL, &lm);
 *     struct bell_lm_session_desc desc = {.struct_size = sizeof(desc)};
 *     bell_lm_session_create(lm, &desc, &session);
 *     bell_lm_feed(session, 0, tokens, n);
 *     bell_lm_run(session);
 *     for (...) {
 *         bell_lm_choose(session, 0, NULL, &token);
 *         bell_lm_feed(session, 0, &token, 1);
 *         bell_lm_run(session);
 *     }
 *     bell_lm_session_destroy(session);
 *     bell_lm_close(lm);
 *
 * Files: GGUF, or a folder as Hugging Face's transformers write it
 * (config.json, model.safetensors or the index of several, tokenizer.json). A
 * model is of one of the families that docs/reference/models.md lists. What a
 * file has is used, or makes no difference, or is refused by its name: a key or
 * tensor that is passed over would make another model.
 *
 * A session has one or more sequences of tokens, and the keys and values that
 * the model made of them. Tokens that were fed are computed by the next run,
 * those of all sequences together, prompts by chunks. A run reads as much of
 * the cache as is used. Two functions are captured for a session (jit.h), one
 * for a token of each sequence and one for chunks, for all lengths.
 *
 * Where the sequences of a session get different numbers of tokens in a run,
 * the shorter ones leave gaps: a session has `context` slots, of which a run
 * takes as many as its longest sequence.
 *
 * Computed in float32, whatever dtype or blocks the weights have.
 *
 * Threads: as the context. A model outlives its sessions, or they fail.
 */
#ifndef BELL_DOORBELL_LM_H
#define BELL_DOORBELL_LM_H

#include "doorbell/tensor.h"

#ifdef __cplusplus
extern "C" {
#endif

struct bell_lm;
struct bell_lm_session;
struct bell_tokenizer;

/* ---- models ---- */

struct bell_lm_options {
    uint32_t struct_size;  /* sizeof(struct bell_lm_options) */
    const char *tokenizer; /* a file for bell_tokenizer_open in place of the
                            * model's own; NULL: that */
};

/* Opens a model and loads its weights to the context's device. options: or
 * NULL. BELL_E_IO: the file cannot be read, is damaged, or has sizes that
 * cannot be; BELL_E_UNSUPPORTED: a family, key or tensor that is not known,
 * which the message names. */
BELL_API BELL_MUST_CHECK bell_status
bell_lm_open(struct bell_context *ctx, const char *path,
             const struct bell_lm_options *options, struct bell_lm **out_lm);
/* NULL is allowed. */
BELL_API void bell_lm_close(struct bell_lm *lm);

/* Plain data; the text is the library's. */
struct bell_lm_info {
    uint32_t struct_size; /* sizeof(struct bell_lm_info) */
    uint32_t n_layers;
    const char *family; /* "llama", "qwen3" */
    int64_t n_tokens;   /* of the vocabulary: logits of a token */
    int64_t context;    /* most tokens of a sequence, as the file has it */
    int64_t size;       /* elements of a hidden state */
    uint32_t n_heads, n_kv_heads;
    uint32_t n_experts, n_used_experts; /* 0: the layers have none */
    double token_bytes; /* of weights that a token reads, as in the file */
};
/* What the model is. */
BELL_API void bell_lm_get_info(const struct bell_lm *lm,
                               struct bell_lm_info *out_info);
/* The model's tokenizer, which is closed with it. NULL: it has none. */
BELL_API const struct bell_tokenizer *
bell_lm_tokenizer(const struct bell_lm *lm);

/* ---- sessions ---- */

struct bell_lm_session_desc {
    uint32_t struct_size; /* sizeof(struct bell_lm_session_desc) */
    uint32_t n_sequences; /* 0: 1 */
    int64_t context;      /* slots of the cache; 0: the model's context */
    int64_t chunk;        /* most tokens of a sequence that are computed at
                           * once; 0: 128 */
};

/* A session of no tokens. desc: or NULL. BELL_E_INVALID: a context beyond 2^20,
 * or a chunk that is not in 2..2^16. */
BELL_API BELL_MUST_CHECK bell_status bell_lm_session_create(
    struct bell_lm *lm, const struct bell_lm_session_desc *desc,
    struct bell_lm_session **out_session);
/* Before or after its model. NULL is allowed. */
BELL_API void bell_lm_session_destroy(struct bell_lm_session *session);

/* Appends n tokens to a sequence, which the next run computes. BELL_E_INVALID:
 * no such sequence or token, or more tokens than the model or the session has
 * room for. */
BELL_API BELL_MUST_CHECK bell_status
bell_lm_feed(struct bell_lm_session *session, uint32_t sequence,
             const int32_t *tokens, size_t n);
/* Computes what was fed. Sequences that got nothing stay as they are, and have
 * no logits until they are fed. BELL_E_INVALID: nothing was fed, or the slots
 * do not suffice; bell_lm_rewind makes room. */
BELL_API BELL_MUST_CHECK bell_status
bell_lm_run(struct bell_lm_session *session);
/* Tokens of a sequence, with those that are not computed yet. */
BELL_API size_t bell_lm_length(const struct bell_lm_session *session,
                               uint32_t sequence);
/* Forgets what is behind the first n tokens of a sequence, so that another text
 * goes on from there. BELL_E_INVALID: it has fewer. It has no logits then. */
BELL_API BELL_MUST_CHECK bell_status
bell_lm_rewind(struct bell_lm_session *session, uint32_t sequence, size_t n);
/* Rewinds a sequence to what it has in common with a text of n tokens, but not
 * all of that, and feeds the rest: what was computed is used again.
 * *out_n_reused, or NULL: how many tokens. */
BELL_API BELL_MUST_CHECK bell_status
bell_lm_feed_text(struct bell_lm_session *session, uint32_t sequence,
                  const int32_t *tokens, size_t n, size_t *out_n_reused);

/* The logits behind the last token of a sequence: n is the vocabulary's
 * size. BELL_E_INVALID: that token is not computed. */
BELL_API BELL_MUST_CHECK bell_status bell_lm_logits(
    struct bell_lm_session *session, uint32_t sequence, float *out, size_t n);

/* The hidden state behind the last token of a sequence, after the last norm: an
 * embedding of the text by models that were trained for it. n is
 * bell_lm_info.size. BELL_E_INVALID: as bell_lm_logits. */
BELL_API BELL_MUST_CHECK bell_status bell_lm_hidden(
    struct bell_lm_session *session, uint32_t sequence, float *out, size_t n);

/* ---- choice of tokens ---- */

/* How a token is chosen by its logits. In this order: the penalty, the
 * temperature, then the bounds, each of what the one before it left. At least
 * one token is left. */
struct bell_lm_sampling {
    uint32_t struct_size; /* sizeof(struct bell_lm_sampling) */
    uint32_t top_k;       /* of the likeliest k; 0: of all */
    double temperature;   /* 0: the likeliest */
    double top_p; /* of the likeliest whose sum is this; 0 or 1: of all */
    double min_p; /* not those below this part of the likeliest */
    /* Tokens among the sequence's last `penalty_last` (0: all of it) lose:
     * positive logits are divided by this, others multiplied. 0: 1. */
    double repetition_penalty;
    uint32_t penalty_last;
    /* NULL, or a bit for each token of the vocabulary, the first in the lowest
     * of a byte: those that may be chosen. For texts of a given form. */
    const uint8_t *allowed;
};

/* Chooses the token that follows a sequence; sampling NULL: the likeliest. It
 * is not fed. The random number is the next of the sequence (bell_lm_seed).
 * BELL_E_IO: a logit is not finite: the weights are damaged. BELL_E_INVALID:
 * nothing is allowed, a number is out of range, or there are no logits. */
BELL_API BELL_MUST_CHECK bell_status
bell_lm_choose(struct bell_lm_session *session, uint32_t sequence,
               const struct bell_lm_sampling *sampling, int32_t *out_token);
/* Seeds a sequence's random numbers, which begin as with seed 0. */
BELL_API BELL_MUST_CHECK bell_status
bell_lm_seed(struct bell_lm_session *session, uint32_t sequence, uint64_t seed);

/* Appends the likeliest tokens to a sequence, one or more at once. `draft`, a
 * session of a smaller model of the same vocabulary, proposes n_draft of them
 * behind the first (1 to the session's chunk - 1). The session computes all of
 * them in a run and keeps those that it would have chosen itself, so they are
 * the tokens that bell_lm_choose and bell_lm_run give, and it has the logits
 * behind them. Where two tokens are about equally likely, the order of sums may
 * decide.
 *
 * out_tokens has room for n_draft + 1; *out_n: how many there are. The draft's
 * sequence of that number becomes what is needed. Other sequences keep their
 * tokens, and have no logits then.
 *
 * BELL_E_INVALID: the sequence has no logits, other sequences were fed, the
 * vocabularies or the numbers of sequences differ, or there is not enough
 * room. */
BELL_API BELL_MUST_CHECK bell_status bell_lm_speculate(
    struct bell_lm_session *session, struct bell_lm_session *draft,
    uint32_t sequence, uint32_t n_draft, int32_t *out_tokens, size_t *out_n);

#ifdef __cplusplus
}
#endif
#endif
