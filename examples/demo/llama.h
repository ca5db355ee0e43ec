/* Language models of the Llama family, with the public API alone: their files,
 * their vocabulary, their forward pass, and the choice of the next token.
 *
 * One thread. Tensors belong to the context's own scope and go with it or with
 * llama_fini.
 */
#ifndef BELL_EXAMPLES_DEMO_LLAMA_H
#define BELL_EXAMPLES_DEMO_LLAMA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/map.h"
#include "base/status.h"
#include "doorbell/jit.h"
#include "doorbell/tensor.h"
#include "examples/demo/digits.h"
#include "examples/demo/llama_bpe.h"

/* ---- vocabulary ---------------------------------------------------------- */

struct bell_file;

#define LLAMA_PIECE_MAX_BYTES 4096
#define LLAMA_MERGES_MAX      (1 << 24)
#define LLAMA_UNKNOWN         0

/* A token's text. */
struct llama_piece {
    const char *text; /* in llama_vocab.bytes; not terminated */
    uint32_t n_bytes;
    float score;     /* of two neighbours the better joins first */
    bool is_control; /* no text: where one begins or ends */
    bool is_added;   /* by the user: it is to be cut out of texts */
};

/* The pair of tokens, as a key. */
static inline uint64_t
llama_pair_key(int32_t left, int32_t right)
{
    return (uint64_t)left << 32 | (uint32_t)right;
}

/* How a conversation is written. */
enum llama_form {
    LLAMA_FORM_NONE, /* the file names none that is known */
    LLAMA_FORM_LLAMA2,
    LLAMA_FORM_LLAMA3,
    LLAMA_FORM_CHATML,
};

/* The vocabulary of a SentencePiece tokenizer, or of byte-level BPE. */
struct llama_vocab {
    struct llama_piece *pieces; /* owned; by token */
    uint32_t *sorted;           /* owned; tokens by text, then number */
    uint8_t *bytes;             /* owned; the file */
    int32_t of_byte[256];       /* the token <0xNN>, or -1 */
    uint8_t all_bytes[256];     /* 0, 1, 2, ...: what these tokens are */
    int32_t n;
    int32_t begin, end, end_turn; /* tokens; end_turn: of an answer, or -1 */
    bool adds_begin;              /* texts begin with it */
    enum llama_form form;
    /* of byte-level BPE */
    bool is_bytes;
    bool joins_all; /* a word that is a token is that, whatever the pairs */
    enum llama_words words;
    struct map joints; /* llama_pair_key -> rank << 32 | what they become */
};

/* Reads llama2.c's tokenizer file for a model of n tokens: the longest token's
 * length, then score, length and bytes of each (little endian). BELL_E_IO:
 * truncated, too long, a length that cannot be. */
BELL_MUST_CHECK bell_status llama_vocab_load(const char *path, int64_t n,
                                             struct llama_vocab *out_vocab);
/* That of a GGUF file: SentencePiece (llama) or byte-level BPE (gpt2).
 * BELL_E_UNSUPPORTED: another kind of tokenizer, or of words. */
BELL_MUST_CHECK bell_status
llama_vocab_from_gguf(const struct bell_file *file, const char *path, int64_t n,
                      struct llama_vocab *out_vocab);
/* Each key of the tokenizer is used, or of no matter (llama_known.c). */
BELL_MUST_CHECK bell_status llama_check_tokenizer_keys(
    const struct bell_file *file, const char *path, bool is_bytes);
void llama_vocab_fini(struct llama_vocab *vocab);

/* For those that fill one in: room for n pieces; and, when these and `bytes`
 * are set, the rest. */
BELL_MUST_CHECK bell_status llama_vocab_init(int64_t n,
                                             struct llama_vocab *out_vocab);
void llama_vocab_sort(struct llama_vocab *vocab);
/* The first token of that text, or -1; of a sorted vocabulary. */
int32_t llama_vocab_find(const struct llama_vocab *vocab, const char *text,
                         size_t n_bytes);

/* What a text is. */
enum llama_turn {
    LLAMA_TURN_NONE,  /* just that */
    LLAMA_TURN_FIRST, /* a user's message */
    LLAMA_TURN_NEXT,  /* one more, behind an answer whose end was not run */
};

/* The tokens of a text, vocab->begin first where the model wants it or there
 * were none; messages are in the vocabulary's form, which is not
 * LLAMA_FORM_NONE then; *out_tokens is host memory, owned by the caller. */
BELL_MUST_CHECK bell_status llama_encode(const struct llama_vocab *vocab,
                                         const char *text, enum llama_turn turn,
                                         int32_t **out_tokens, size_t *out_n);

/* What token `next` adds to a text that ends in `previous` (it loses its space
 * behind vocab->begin); not terminated, of the vocabulary's memory. */
struct llama_piece llama_decode(const struct llama_vocab *vocab,
                                int32_t previous, int32_t next);

/* ---- model --------------------------------------------------------------- */

struct llama_shape {
    int64_t dim, hidden, n_layers, n_heads, n_kv_heads, n_tokens, context;
};

struct llama_layer {
    struct bell_tensor *attn_norm, *wq, *wk, *wv, *wo; /* as (out, in) */
    struct bell_tensor *bq, *bk, *bv;                  /* or NULL */
    struct bell_tensor *ffn_norm, *w1, *w2, *w3;
};

#define LLAMA_EPSILON   1e-5
#define LLAMA_ROPE_BASE 10000.0

struct llama {
    struct bell_context *ctx;
    struct llama_shape shape;
    double epsilon, rope_base;
    bool turns_halves; /* of a head, element j with j + head / 2; else
                        * neighbours */
    struct bell_tensor *embedding; /* (tokens, dim) */
    struct bell_tensor *norm, *classifier;
    struct bell_tensor *cosines, *sines; /* (context, 1, head / 2) */
    struct bell_tensor *places;          /* (context): 0, 1, 2, ... */
    /* keys and values: (layers, 2, kv heads, context, head) */
    struct bell_tensor *cache;
    struct bell_jit *next;      /* one token */
    struct llama_layer *layers; /* owned */
    double n_weight_bytes;      /* that a token needs, as the file has them */
};

/* Reads llama2.c's checkpoint, version 0, or a GGUF file's model into *model,
 * which stays where it is until llama_fini. `file` is the latter, or NULL.
 * BELL_E_IO: not such a file, sizes that cannot be, truncated, too long. */
BELL_MUST_CHECK bell_status llama_load(struct bell_context *ctx,
                                       const char *path,
                                       const struct bell_file *file,
                                       struct llama *model);
/* Whether the file begins as GGUF does. */
bool llama_is_gguf(const char *path);
/* Parts of llama_load: sizes that can be; the keys of a GGUF file's family,
 * each used or of no matter (llama_known.c); its weights. BELL_E_UNSUPPORTED:
 * it has a key or a tensor that is not used. */
BELL_MUST_CHECK bell_status llama_check_shape(const char *path,
                                              const struct llama_shape *shape);
BELL_MUST_CHECK bell_status llama_check_keys(const struct bell_file *file,
                                             const char *path,
                                             const char *family,
                                             const struct llama_shape *shape);
BELL_MUST_CHECK bell_status llama_load_gguf(const struct bell_file *file,
                                            const char *path,
                                            struct llama *model);
void llama_fini(struct llama *model);

/* The logits that follow tokens[n - 1], of shape (tokens). Either they begin
 * the text (at 0), or it is one token, at place `at`; at + n is at most the
 * context's length. The cache has the tokens before it; this adds to it. */
BELL_MUST_CHECK bell_status llama_forward(struct llama *model,
                                          const int32_t *tokens, int64_t n,
                                          int64_t at,
                                          struct bell_tensor **out_logits);

/* Saves as a bundle for the targets what makes of a "token" (int32, one) at a
 * "place", a symbol, the "logits" that follow it, (tokens); the cache is the
 * bundle's state, zeros at first, of which a step writes the row of its place.
 * The context has one symbol more. */
BELL_MUST_CHECK bell_status llama_save(struct llama *model,
                                       const char *const *targets,
                                       uint32_t n_targets, const char *path);

/* ---- choice -------------------------------------------------------------- */

struct llama_chooser {
    double temperature; /* 0: the most likely */
    double top_p;       /* of the likely ones whose sum is this; 1: of all */
    struct rng rng;
    float *logits;     /* owned; of n tokens */
    uint32_t *by_rank; /* owned */
    size_t n;
};

BELL_MUST_CHECK bell_status llama_chooser_init(size_t n, double temperature,
                                               double top_p, uint64_t seed,
                                               struct llama_chooser *out);
void llama_chooser_fini(struct llama_chooser *chooser);

/* Computes the logits and chooses. */
BELL_MUST_CHECK bell_status llama_choose(struct llama_chooser *chooser,
                                         struct bell_tensor *logits,
                                         int32_t *out_token);

/* ---- the verbs ----------------------------------------------------------- */

/* `doorbell demo llama`; argv[0] is "demo". */
int llama_demo(int argc, char **argv);
/* `doorbell demo train-llama`. */
int train_llama_demo(int argc, char **argv);

#endif
