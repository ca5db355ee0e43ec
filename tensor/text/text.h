/* Tokenizers, inside: a vocabulary, and the steps from text to tokens and back.
 *
 * A text goes through normalisers, is taken apart into pieces by
 * pre-tokenizers, and a model makes tokens of each piece. Every step reads one
 * list of pieces and writes another, so each is linear in the text.
 */
#ifndef BELL_TENSOR_TEXT_TEXT_H
#define BELL_TENSOR_TEXT_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/map.h"
#include "base/status.h"
#include "doorbell/tokenizer.h"
#include "tensor/text/regex.h"

#define TEXT_TOKENS_MAX (1 << 24)

/* ---- pieces of a text ---- */

struct text_piece {
    size_t at, n;
    int32_t id;    /* a token that was found already, or -1 */
    bool is_first; /* it begins where the whole text does */
};

/* Begins as zeros. Sticky: after a failed allocation nothing is added. */
struct text_pieces {
    char *text; /* owned: text_pieces_fini */
    size_t n, cap;
    struct text_piece *list; /* owned */
    size_t n_list, cap_list;
    bool failed;
};
void text_pieces_fini(struct text_pieces *p);
void text_pieces_clear(struct text_pieces *p);
/* Appends bytes, or a character, behind the text of the last piece. */
void text_add_bytes(struct text_pieces *p, const char *bytes, size_t n);
void text_add_char(struct text_pieces *p, uint32_t c);
/* Makes a piece of what was added since `at`; none where that is nothing and
 * it is not a token. */
void text_end_piece(struct text_pieces *p, size_t at, int32_t id,
                    bool is_first);

/* ---- vocabulary ---- */

enum token_kind {
    TOKEN_NONE, /* no token has that number */
    TOKEN_NORMAL,
    TOKEN_UNKNOWN,
    TOKEN_CONTROL,
    TOKEN_USER,
    TOKEN_UNUSED,
    TOKEN_BYTE
};

struct token {
    const char *text; /* in the tokenizer's arena, or a file that stays */
    uint32_t n;
    uint8_t kind;
    bool is_special;
    double score;
};

/* Tokens by text. */
struct token_index {
    const struct token *tokens;
    uint32_t *sorted; /* owned */
    size_t n;
    size_t first[257]; /* where texts begin with that byte */
};
/* Makes an index of the tokens below n that `wants` (NULL: all there are). */
BELL_MUST_CHECK bell_status
token_index_init(struct token_index *index, const struct token *tokens,
                 size_t n, bool (*wants)(const struct token *token));
void token_index_fini(struct token_index *index);
/* The last token of that text, or -1. */
int32_t token_index_find(const struct token_index *index, const char *text,
                         size_t n);

/* Texts that begin with what was walked so far. */
struct token_walk {
    size_t first, last;
    uint32_t depth;
};
static inline struct token_walk
token_walk_begin(const struct token_index *index)
{
    return (struct token_walk){0, index->n, 0};
}
/* One byte more. False: no text goes on so. *out_id: the token that ends here,
 * or -1. */
bool token_walk_step(const struct token_index *index, struct token_walk *walk,
                     uint8_t byte, int32_t *out_id);

/* ---- normalisers ---- */

enum text_norm_kind {
    NORM_NFC,
    NORM_NFD,
    NORM_NFKC,
    NORM_NFKD,
    NORM_LOWER,
    NORM_STRIP,
    NORM_STRIP_ACCENTS,
    NORM_BERT,
    NORM_PREPEND,
    NORM_REPLACE,
    NORM_CHARSMAP,
    NORM_BYTES,
    NORM_NMT,
    NORM_SENTENCEPIECE
};

/* A precompiled map of characters: a double array, and what it leads to. */
struct text_charsmap {
    const uint32_t *units;
    size_t n_units;
    const char *texts; /* ends with a 0 */
    size_t n_texts;
};
/* From bytes, copied to the arena. BELL_E_IO: malformed. */
BELL_MUST_CHECK bell_status text_charsmap_init(struct text_charsmap *map,
                                               struct arena *arena,
                                               const void *bytes, size_t n);
/* The replacement of a text's beginning, or NULL; the shortest (tokenizers) or
 * longest (SentencePiece) key, of *out_key bytes. */
const char *text_charsmap_find(const struct text_charsmap *map,
                               const char *text, size_t n, bool longest,
                               size_t *out_key);

struct text_norm {
    enum text_norm_kind kind;
    bool left, right;                       /* of NORM_STRIP */
    bool clean, chinese, accents, lower;    /* of NORM_BERT */
    bool add_space, remove_spaces, escapes; /* of NORM_SENTENCEPIECE */
    bool space_behind;
    const char *content; /* of NORM_PREPEND and NORM_REPLACE */
    size_t n_content;
    struct regex *regex; /* owned */
    struct text_charsmap map;
    const struct token_index *users; /* that no normaliser changes */
};
/* Adds the text's normalised form to `to`; *is_first becomes false where its
 * beginning is removed. */
BELL_MUST_CHECK bell_status text_normalize(const struct text_norm *norm,
                                           struct regex_room *room,
                                           const char *text, size_t n,
                                           struct text_pieces *to,
                                           bool *is_first);

/* ---- pre-tokenizers ---- */

enum text_split_kind {
    SPLIT_BYTES, /* GPT-2's pattern where there is a regex; then bytes */
    SPLIT_METASPACE,
    SPLIT_WHITESPACE, /* words, and what is between them */
    SPLIT_SPACES,     /* White_Space */
    SPLIT_BERT,
    SPLIT_DIGITS,
    SPLIT_PUNCTUATION,
    SPLIT_REGEX,
    SPLIT_CHAR,
    SPLIT_LENGTH
};

enum text_behavior {
    BEHAVIOR_REMOVED,
    BEHAVIOR_ISOLATED,
    BEHAVIOR_MERGED_PREVIOUS,
    BEHAVIOR_MERGED_NEXT,
    BEHAVIOR_CONTIGUOUS
};

enum text_prepend {
    PREPEND_NEVER,
    PREPEND_FIRST,
    PREPEND_ALWAYS
};

struct text_split {
    enum text_split_kind kind;
    enum text_behavior behavior;
    bool invert;
    bool add_space; /* of SPLIT_BYTES */
    bool each;      /* of SPLIT_DIGITS */
    bool splits;    /* of SPLIT_METASPACE */
    enum text_prepend prepend;
    uint32_t c;          /* of SPLIT_METASPACE and SPLIT_CHAR */
    size_t length;       /* of SPLIT_LENGTH, in characters */
    struct regex *regex; /* owned */
};
BELL_MUST_CHECK bell_status text_split(const struct text_split *split,
                                       struct regex_room *room,
                                       const struct text_pieces *from,
                                       struct text_pieces *to);

/* The character that stands for a byte in byte-level tokens; and back, -1: a
 * character stands for none. */
uint32_t text_char_of_byte(uint8_t byte);
int text_byte_of_char(uint32_t c);

/* ---- models ---- */

enum text_model_kind {
    MODEL_BPE,
    MODEL_WORDPIECE,
    MODEL_UNIGRAM,
    MODEL_WORDLEVEL,
    MODEL_SCORED_BPE /* SentencePiece's */
};

struct text_model {
    enum text_model_kind kind;
    int32_t unknown; /* or -1 */
    bool fuses_unknown, byte_fallback, ignores_merges;
    const char *prefix, *suffix; /* of parts of words; "": none */
    size_t n_prefix, n_suffix;
    const char *begin_prefix; /* of the first part of a word */
    size_t n_begin_prefix;
    size_t max_chars;  /* of a word */
    struct map merges; /* pair -> rank << 32 | token */
    double min_score, max_score;
    bool is_sentencepiece; /* scores are added as that does, in float */
    int32_t of_byte[256];  /* tokens <0xNN>, or -1 */
};

/* Tokens found so far. */
struct token_list {
    int32_t *ids; /* owned */
    size_t n, cap;
};
BELL_MUST_CHECK bell_status token_list_add(struct token_list *list, int32_t id);

/* Memory that models work in; begins as zeros (text_room_fini). */
struct text_room {
    struct regex_room regex;
    void *symbols, *heap; /* owned */
    size_t cap_symbols, cap_heap, n_heap;
    struct text_pieces a, b;
};
void text_room_fini(struct text_room *room);

/* Adds the tokens of a piece. BELL_E_UNSUPPORTED: it has a character without a
 * token, and the model has none for unknown ones. */
BELL_MUST_CHECK bell_status text_model_encode(const struct text_model *model,
                                              const struct token_index *index,
                                              struct text_room *room,
                                              const char *text, size_t n,
                                              struct token_list *out);

/* ---- decoders ---- */

enum text_decode_kind {
    DECODE_BPE,
    DECODE_BYTES,
    DECODE_WORDPIECE,
    DECODE_METASPACE,
    DECODE_CTC,
    DECODE_REPLACE,
    DECODE_FUSE,
    DECODE_STRIP,
    DECODE_BYTE_FALLBACK,
    DECODE_SPACED,       /* no decoder: a space between tokens */
    DECODE_SENTENCEPIECE /* by the tokens' kinds */
};

struct text_decode {
    enum text_decode_kind kind;
    const char *a, *b; /* suffix, prefix, content; word delimiter */
    size_t n_a, n_b;
    bool cleanup, drops_first, drops_all;
    uint32_t c;
    size_t start, stop;
    struct regex *regex; /* owned */
};
BELL_MUST_CHECK bell_status text_decode(const struct text_decode *decode,
                                        const struct token *tokens,
                                        struct regex_room *room,
                                        const struct text_pieces *from,
                                        struct text_pieces *to);

/* ---- the whole ---- */

/* A token that is cut out of texts before all else. */
struct text_added {
    int32_t id;
    bool single_word, lstrip, rstrip, normalized, special;
};

#define TEXT_STEPS_MAX 32

struct bell_tokenizer {
    struct arena arena;   /* texts and tables */
    char *path;           /* owned; for messages */
    struct token *tokens; /* owned; by number */
    size_t n_tokens, cap_tokens;
    size_t n_model;           /* tokens of the model; then added ones alone */
    struct token_index index; /* the model's */
    struct text_norm norms[TEXT_STEPS_MAX];
    size_t n_norms;
    struct text_split splits[TEXT_STEPS_MAX];
    size_t n_splits;
    struct text_model model;
    struct text_decode decodes[TEXT_STEPS_MAX];
    size_t n_decodes;
    struct text_added *added; /* owned */
    size_t n_added, cap_added;
    struct token *patterns; /* owned; texts of added tokens, by added number */
    struct token_index plain_added, normal_added;
    struct token_index users; /* of SentencePiece */
    int32_t *before, *after;  /* owned; special tokens around a text */
    size_t n_before, n_after;
    int32_t special[BELL_TOKEN_COUNT];
};

/* For the readers of files: room for token `id`, below TEXT_TOKENS_MAX. */
BELL_MUST_CHECK bell_status tokenizer_set_token(struct bell_tokenizer *t,
                                                size_t id, const char *text,
                                                size_t n, double score,
                                                enum token_kind kind);
/* When all is set: indexes, what added tokens look for. */
BELL_MUST_CHECK bell_status tokenizer_finish(struct bell_tokenizer *t);
/* Joins `left` and `right` to a token as merge number `rank` of BPE. */
BELL_MUST_CHECK bell_status tokenizer_add_merge(struct bell_tokenizer *t,
                                                size_t rank, const char *left,
                                                size_t n_left,
                                                const char *right,
                                                size_t n_right);
BELL_MUST_CHECK bell_status tokenizer_index(struct bell_tokenizer *t);

BELL_MUST_CHECK bell_status tokenizer_read_json(struct bell_tokenizer *t,
                                                const char *text, size_t n);
BELL_MUST_CHECK bell_status tokenizer_read_sentencepiece(
    struct bell_tokenizer *t, const uint8_t *bytes, size_t n);
struct bell_file;
BELL_MUST_CHECK bell_status tokenizer_read_gguf(struct bell_tokenizer *t,
                                                const struct bell_file *file);

#endif
