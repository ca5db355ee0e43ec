/* Byte-level BPE: words and bytes. */
#include "examples/demo/llama_bpe.h"

#include <string.h>

#include "base/bits.h"

/* ---- characters ---- */

/* Bytes of a character that begins so; 0: none does. */
static size_t
char_bytes(uint8_t first)
{
    return first < 0x80             ? 1
           : (first & 0xe0) == 0xc0 ? 2
           : (first & 0xf0) == 0xe0 ? 3
           : (first & 0xf8) == 0xf0 ? 4
                                    : 0;
}

size_t
llama_begun_bytes(const char *text, size_t n)
{
    size_t i = 1;

    while (i < 3 && i < n && ((uint8_t)text[n - i] & 0xc0) == 0x80)
        i++;
    return n && char_bytes((uint8_t)text[n - i]) > i ? i : 0;
}

/* The character at `text`, and its bytes; 0xfffd and 1 where it is none. */
static size_t
read_char(const char *text, size_t n, uint32_t *out_char)
{
    static const uint32_t least[] = {0, 0, 0x80, 0x800, 0x10000};
    uint8_t first = (uint8_t)text[0];
    size_t n_bytes = char_bytes(first);
    uint32_t c, i;

    *out_char = 0xfffd;
    if (n_bytes == 0 || n_bytes > n)
        return 1;
    c = n_bytes == 1 ? first : first & (0x7fu >> n_bytes);
    for (i = 1; i < n_bytes; i++) {
        if (((uint8_t)text[i] & 0xc0) != 0x80)
            return 1;
        c = c << 6 | ((uint8_t)text[i] & 0x3f);
    }
    if (c < least[n_bytes] || c > 0x10ffff || c >> 11 == 0x1b)
        return 1;
    *out_char = c;
    return n_bytes;
}

/* A text, and a place in it. */
struct at {
    const char *text;
    size_t n, i;
};

/* The character there; -1: the end. */
static int64_t
peek(const struct at *at)
{
    uint32_t c;

    if (at->i >= at->n)
        return -1;
    (void)read_char(at->text + at->i, at->n - at->i, &c);
    return c;
}

static void
skip_char(struct at *at)
{
    uint32_t c;

    at->i += read_char(at->text + at->i, at->n - at->i, &c);
}

/* Is there a character of that class? */
static bool
is_at(const struct at *at, enum llama_class class)
{
    int64_t c = peek(at);

    return c >= 0 && llama_class_of((uint32_t)c) == class;
}

/* Goes behind those of that class, at most `most`; how many they are. */
static size_t
skip_class(struct at *at, enum llama_class class, size_t most)
{
    size_t n = 0;

    for (; n < most && is_at(at, class); n++)
        skip_char(at);
    return n;
}

static bool
is_newline(const struct at *at)
{
    return at->i < at->n &&
           (at->text[at->i] == '\n' || at->text[at->i] == '\r');
}

/* ---- words ---- */

/* 's, 't, 're, ...: their bytes, or 0. */
static size_t
contraction_bytes(const struct at *at, bool any_case)
{
    static const char *const ends[] = {"s", "t", "re", "ve", "m", "ll", "d"};
    size_t i, j, n;

    if (at->n == 0 || at->text[0] != '\'')
        return 0;
    for (i = 0; i < ARRAY_LEN(ends); i++) {
        n = strlen(ends[i]);
        for (j = 0; j < n && j + 1 < at->n; j++) {
            char c = at->text[j + 1];
            if (any_case && c >= 'A' && c <= 'Z')
                c = (char)(c - 'A' + 'a');
            if (c != ends[i][j])
                break;
        }
        if (j == n)
            return n + 1;
    }
    return 0;
}

/* Spaces: up to their last newline, where newlines are words; but the last
 * before a word goes with that. */
static size_t
space_bytes(struct at at, bool has_lines)
{
    size_t last = 0, line = 0, n = 0;

    for (; is_at(&at, LLAMA_SPACE); n++) {
        bool newline = is_newline(&at);
        last = at.i;
        skip_char(&at);
        if (newline)
            line = at.i;
    }
    if (has_lines && line)
        return line;
    return at.i < at.n && n > 1 ? last : at.i;
}

/* A word of GPT-2:
 *     's|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+
 */
static size_t
gpt2_bytes(struct at at)
{
    static const enum llama_class classes[] = {LLAMA_LETTER, LLAMA_NUMBER,
                                               LLAMA_OTHER};
    size_t n = contraction_bytes(&at, false), i;
    struct at word = at;

    if (n)
        return n;
    word.i += at.text[0] == ' ';
    for (i = 0; i < ARRAY_LEN(classes); i++) {
        if (skip_class(&word, classes[i], SIZE_MAX))
            return word.i;
    }
    return space_bytes(at, false);
}

/* (?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}|
 *  ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+
 */
static size_t
llama3_bytes(struct at at, size_t n_digits)
{
    size_t n = contraction_bytes(&at, true);
    struct at word = at;

    if (n)
        return n;
    if (!is_newline(&word) && !is_at(&word, LLAMA_LETTER) &&
        !is_at(&word, LLAMA_NUMBER))
        skip_char(&word);
    if (skip_class(&word, LLAMA_LETTER, SIZE_MAX))
        return word.i;
    word = at;
    if (skip_class(&word, LLAMA_NUMBER, n_digits))
        return word.i;
    word.i += at.text[0] == ' ';
    if (skip_class(&word, LLAMA_OTHER, SIZE_MAX)) {
        while (is_newline(&word))
            word.i++;
        return word.i;
    }
    return space_bytes(at, true);
}

bool
llama_words_find(const char *name, size_t n, enum llama_words *out_words)
{
    static const struct {
        const char *name;
        enum llama_words words;
    } known[] = {
        {"gpt-2", LLAMA_WORDS_GPT2},       {"gpt2", LLAMA_WORDS_GPT2},
        {"llama-bpe", LLAMA_WORDS_LLAMA3}, {"llama3", LLAMA_WORDS_LLAMA3},
        {"qwen2", LLAMA_WORDS_QWEN2},
    };
    size_t i;

    for (i = 0; i < ARRAY_LEN(known); i++) {
        if (n == strlen(known[i].name) && memcmp(name, known[i].name, n) == 0) {
            *out_words = known[i].words;
            return true;
        }
    }
    return false;
}

size_t
llama_word_bytes(enum llama_words words, const char *text, size_t n)
{
    struct at at = {text, n, 0};

    if (words == LLAMA_WORDS_GPT2)
        return gpt2_bytes(at);
    return llama3_bytes(at, words == LLAMA_WORDS_LLAMA3 ? 3 : 1);
}

/* ---- bytes ---- */

/* Is the byte the character of its own number? The others are 256, 257, ... in
 * their order. */
static bool
is_own_char(uint32_t byte)
{
    return (byte >= 33 && byte <= 126) || (byte >= 161 && byte <= 172) ||
           (byte >= 174 && byte <= 255);
}

/* The byte of a character; -1: of none. */
static int
byte_of_char(uint32_t c)
{
    uint32_t byte, next = 256;

    if (c < 256)
        return is_own_char(c) ? (int)c : -1;
    for (byte = 0; byte < 256; byte++) {
        if (!is_own_char(byte) && next++ == c)
            return (int)byte;
    }
    return -1;
}

bool
llama_bytes_of(char *to, const char *from, size_t n, uint32_t *out_n)
{
    uint32_t n_to = 0, c;
    size_t i = 0;
    int byte;

    while (i < n) {
        i += read_char(from + i, n - i, &c);
        byte = byte_of_char(c);
        if (byte < 0)
            return false;
        to[n_to++] = (char)byte;
    }
    *out_n = n_to;
    return true;
}
