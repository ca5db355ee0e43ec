/* Tokenizers: UTF-8 text to the tokens of a language model, and back.
 *
 *     bell_tokenizer_open("tokenizer.json", &tokenizer);
 *     bell_tokenizer_encode(tokenizer, text, strlen(text),
 *                           BELL_TOKENS_SPECIAL, &ids, &n);
 *     ...
 *     bell_tokenizer_free(ids);
 *     bell_tokenizer_close(tokenizer);
 *
 * Files: tokenizer.json of Hugging Face's tokenizers, a SentencePiece model
 * (tokenizer.model), the tokenizer in a GGUF file. Their beginning tells which.
 * A file may be hostile: it is checked when it is opened. What it names and
 * this library does not know (a normaliser, a pre-tokenizer, a construct of a
 * pattern) is refused by its name: nothing that changes tokens is passed over.
 * docs/reference/tokenizers.md lists what is known.
 *
 * Tokens are numbers from 0 on. Encoding takes time in proportion to the text,
 * but for a logarithm.
 *
 * Threads: an open tokenizer is used by any number at a time; a stream by one.
 */
#ifndef BELL_DOORBELL_TOKENIZER_H
#define BELL_DOORBELL_TOKENIZER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "doorbell/status.h"

#ifdef __cplusplus
extern "C" {
#endif

struct bell_file;
struct bell_tokenizer;
struct bell_token_stream;

enum bell_token_flag {
    /* Encoding: with the tokens that the file puts around a text. Decoding:
     * special tokens as their text, not left out. */
    BELL_TOKENS_SPECIAL = 1u << 0,
    /* Encoding: special tokens' names in the text are text. For text of
     * strangers, which must not end a turn. */
    BELL_TOKENS_PLAIN = 1u << 1
};

/* Tokens with a role, where the file says so. */
enum bell_token_role {
    BELL_TOKEN_BEGIN,
    BELL_TOKEN_END,
    BELL_TOKEN_UNKNOWN,
    BELL_TOKEN_PAD,
    BELL_TOKEN_SEPARATOR,
    BELL_TOKEN_CLASS,
    BELL_TOKEN_MASK,
    BELL_TOKEN_END_OF_TURN,
    BELL_TOKEN_COUNT
};

/* Opens a file; bell_tokenizer_close ends it. BELL_E_IO: it is none, or it is
 * malformed. BELL_E_UNSUPPORTED: it wants what is not known; the message names
 * it. Truncation and padding that a tokenizer.json asks for are not done: all
 * tokens are returned. */
BELL_API BELL_MUST_CHECK bell_status
bell_tokenizer_open(const char *path, struct bell_tokenizer **out_tokenizer);
/* That of an open GGUF file, which may be closed then. BELL_E_INVALID: the
 * file is NULL. */
BELL_API BELL_MUST_CHECK bell_status bell_tokenizer_of_file(
    const struct bell_file *file, struct bell_tokenizer **out_tokenizer);
/* NULL is allowed. */
BELL_API void bell_tokenizer_close(struct bell_tokenizer *tokenizer);

/* The tokens of `n_bytes` of text; *out_ids is freed by bell_tokenizer_free.
 * BELL_E_INVALID: not UTF-8, or flags that are not known. BELL_E_UNSUPPORTED:
 * a character has no token, and there is none for unknown ones. */
BELL_API BELL_MUST_CHECK bell_status bell_tokenizer_encode(
    const struct bell_tokenizer *tokenizer, const char *text, size_t n_bytes,
    uint32_t flags, int32_t **out_ids, size_t *out_n_ids);
/* The text of tokens: *out_n_bytes bytes, and a 0 behind them; freed by
 * bell_tokenizer_free. They are UTF-8 where the tokens' bytes are.
 * BELL_E_INVALID: a number that is not a token. */
BELL_API BELL_MUST_CHECK bell_status bell_tokenizer_decode(
    const struct bell_tokenizer *tokenizer, const int32_t *ids, size_t n_ids,
    uint32_t flags, char **out_text, size_t *out_n_bytes);
/* Frees what encoding or decoding returned. NULL is allowed. */
BELL_API void bell_tokenizer_free(void *ids_or_text);

/* One more than the greatest token. */
BELL_API uint32_t bell_tokenizer_size(const struct bell_tokenizer *tokenizer);
/* The token of that very name, as the file has it, or -1. */
BELL_API int32_t bell_tokenizer_find(const struct bell_tokenizer *tokenizer,
                                     const char *name, size_t n_bytes);
/* The name of a token, the tokenizer's memory, not terminated. False: there is
 * none of that number. */
BELL_API bool bell_tokenizer_name(const struct bell_tokenizer *tokenizer,
                                  int32_t id, const char **out_name,
                                  size_t *out_n_bytes);
/* Whether a token is special: a sign to the model, not text. */
BELL_API bool bell_tokenizer_is_special(const struct bell_tokenizer *tokenizer,
                                        int32_t id);
/* The token of a role, or -1. */
BELL_API int32_t bell_tokenizer_role(const struct bell_tokenizer *tokenizer,
                                     enum bell_token_role role);

/* Decodes tokens one by one as they come. The tokenizer stays open as long. */
BELL_API BELL_MUST_CHECK bell_status
bell_token_stream_create(const struct bell_tokenizer *tokenizer, uint32_t flags,
                         struct bell_token_stream **out_stream);
/* Gives the text that a token adds: *out_n_bytes bytes at *out_text, which stay
 * until the next call. A character whose last bytes are yet to come is held
 * back. */
BELL_API BELL_MUST_CHECK bell_status
bell_token_stream_next(struct bell_token_stream *stream, int32_t id,
                       const char **out_text, size_t *out_n_bytes);
/* Gives the bytes that were held back, after the last token. */
BELL_API BELL_MUST_CHECK bell_status
bell_token_stream_end(struct bell_token_stream *stream, const char **out_text,
                      size_t *out_n_bytes);
/* NULL is allowed. */
BELL_API void bell_token_stream_destroy(struct bell_token_stream *stream);

#ifdef __cplusplus
}
#endif
#endif
