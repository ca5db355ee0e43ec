/* Characters: UTF-8, classes, lower case, normal forms, clusters. Tables of
 * Unicode 18 (unicode_gen.py). Plain functions, any thread.
 */
#ifndef BELL_TENSOR_TEXT_UNICODE_H
#define BELL_TENSOR_TEXT_UNICODE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* General categories, in the order of the tables. */
enum unicode_category {
    UNICODE_CN,
    UNICODE_CC,
    UNICODE_CF,
    UNICODE_CO,
    UNICODE_CS,
    UNICODE_LL,
    UNICODE_LM,
    UNICODE_LO,
    UNICODE_LT,
    UNICODE_LU,
    UNICODE_MC,
    UNICODE_ME,
    UNICODE_MN,
    UNICODE_ND,
    UNICODE_NL,
    UNICODE_NO,
    UNICODE_PC,
    UNICODE_PD,
    UNICODE_PE,
    UNICODE_PF,
    UNICODE_PI,
    UNICODE_PO,
    UNICODE_PS,
    UNICODE_SC,
    UNICODE_SK,
    UNICODE_SM,
    UNICODE_SO,
    UNICODE_ZL,
    UNICODE_ZP,
    UNICODE_ZS,
    UNICODE_CATEGORIES
};

/* The category called by two letters, or all that begin with one ("L"), as a
 * mask of bits 1 << category; 0: there is none of that name. */
uint32_t unicode_category_mask(const char *name, size_t n);
enum unicode_category unicode_category_of(uint32_t c);
/* Whether its category is in the mask. */
bool unicode_is(uint32_t c, uint32_t mask);
/* White_Space. */
bool unicode_is_space(uint32_t c);
/* \w of regular expressions (UTS #18): letters, marks, decimal digits,
 * connectors, other alphabetic characters, and joiners where `joiners`. */
bool unicode_is_word(uint32_t c, bool joiners);
/* ASCII's, or the category P. */
bool unicode_is_punctuation(uint32_t c);

/* Lower case of one character: up to two; returns how many. */
size_t unicode_lower(uint32_t c, uint32_t out[2]);

/* The character that begins at `text` of n bytes, at least one, of valid UTF-8;
 * returns its bytes. */
size_t unicode_read(const char *text, size_t n, uint32_t *out_char);
/* Writes the character; returns its bytes, at most 4. */
size_t unicode_write(uint32_t c, char out[4]);
/* Whether all of it is UTF-8; *out_at is where it is not. */
bool unicode_is_valid(const char *text, size_t n, size_t *out_at);
/* Bytes at the end, at most 3, that begin a character whose rest is missing. */
size_t unicode_begun(const char *text, size_t n);

/* Bytes of the extended grapheme cluster that `text` begins with, as far as
 * clusters of up to five bytes need it: emoji are not joined, which are
 * longer. */
size_t unicode_cluster(const char *text, size_t n);

#define UNICODE_DECOMPOSED_MAX 32
/* A character's whole decomposition; returns how many characters. */
size_t unicode_decompose(uint32_t c, bool compat,
                         uint32_t out[UNICODE_DECOMPOSED_MAX]);
uint8_t unicode_combining(uint32_t c);
/* The character that two compose to; 0: they do not. */
uint32_t unicode_compose(uint32_t a, uint32_t b);

/* The tables: runs are (first character, value), sorted. */
extern const uint32_t unicode_category_runs[];  /* c << 5 | category */
extern const uint32_t unicode_combining_runs[]; /* c << 8 | class */
extern const uint32_t unicode_cluster_runs[];   /* c << 2 | 1 joins, 2 before */
extern const uint32_t unicode_lower_pairs[];
extern const uint32_t unicode_alphabetic_runs[]; /* c << 1 | it is */
extern const uint32_t unicode_canonical_keys[];  /* c << 5 | characters */
extern const uint16_t unicode_canonical_places[];
extern const uint32_t unicode_canonical_chars[];
extern const uint32_t unicode_compat_keys[];
extern const uint16_t unicode_compat_places[];
extern const uint32_t unicode_compat_chars[];
extern const uint32_t unicode_pairs[]; /* first, second, composed */
extern const size_t n_unicode_category_runs, n_unicode_combining_runs,
    n_unicode_cluster_runs, n_unicode_lower_pairs, n_unicode_alphabetic_runs,
    n_unicode_canonical_keys, n_unicode_canonical_places,
    n_unicode_canonical_chars, n_unicode_compat_keys, n_unicode_compat_places,
    n_unicode_compat_chars, n_unicode_pairs;

#endif
