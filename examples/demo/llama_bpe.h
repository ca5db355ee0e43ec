/* Byte-level BPE: how a text becomes words, and bytes become characters.
 *
 * src: the encoder of GPT-2 (its table of bytes and its pattern), and the
 * patterns of the tokenizers of Llama 3 and Qwen 2, as their files give them.
 */
#ifndef BELL_EXAMPLES_DEMO_LLAMA_BPE_H
#define BELL_EXAMPLES_DEMO_LLAMA_BPE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A character's class, by Unicode. */
enum llama_class {
    LLAMA_OTHER,
    LLAMA_LETTER,
    LLAMA_NUMBER,
    LLAMA_SPACE,
};

enum llama_class llama_class_of(uint32_t c);

/* Bytes at the end of a text, at most 3, that are the beginning of a character
 * of UTF-8, whose rest is not there. */
size_t llama_begun_bytes(const char *text, size_t n);

/* Patterns that take a text apart before its parts are joined. */
enum llama_words {
    LLAMA_WORDS_GPT2,
    LLAMA_WORDS_LLAMA3, /* numbers of up to three digits */
    LLAMA_WORDS_QWEN2,  /* of one */
};

/* The pattern of that name in tokenizer.ggml.pre; false: it is not known. */
bool llama_words_find(const char *name, size_t n, enum llama_words *out_words);

/* Bytes of the word that `text` of n bytes, at least one, begins with. Bytes
 * that are not UTF-8 are characters of no class. */
size_t llama_word_bytes(enum llama_words words, const char *text, size_t n);

/* A token's characters to the bytes that they stand for, at `to`, which may be
 * `from`. False: not such characters; else *out_n is how many. */
bool llama_bytes_of(char *to, const char *from, size_t n, uint32_t *out_n);

#endif
