/* Words from binary or hexadecimal text. */
#include "tools/words.h"

#include <ctype.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"

#define INDEX_MAX 0xffffull

struct parse {
    const char *name;
    const unsigned char *at, *end;
    unsigned line;
    struct words words;
    size_t cap;
};

static bool
is_text(const unsigned char *data, size_t n)
{
    size_t i;

    for (i = 0; i < n; i++) {
        if (!isprint(data[i]) && !isspace(data[i]))
            return false;
    }
    return true;
}

/* The word at index `i`, after zeros where the words did not reach. */
static BELL_MUST_CHECK bell_status
put_word(struct parse *p, size_t i, uint32_t word)
{
    void *array = p->words.w;

    if (host_grow(&array, &p->cap, i + 1, sizeof(uint32_t)) != 0)
        return bell_fail(BELL_E_NO_MEMORY, "%s: out of memory for %zu words",
                         p->name, i + 1);
    p->words.w = array;
    while (p->words.n <= i)
        p->words.w[p->words.n++] = 0;
    p->words.w[i] = word;
    return BELL_OK;
}

static BELL_MUST_CHECK bell_status
parse_binary(struct parse *p)
{
    size_t n = (size_t)(p->end - p->at), i;

    if (n % 4 != 0)
        return bell_fail(BELL_E_IO,
                         "%s: %zu bytes are not whole words of 4 bytes",
                         p->name, n);
    for (i = 0; i < n / 4; i++) {
        const unsigned char *b = p->at + 4 * i;
        BELL_TRY(put_word(p, i,
                          b[0] | (uint32_t)b[1] << 8 | (uint32_t)b[2] << 16 |
                              (uint32_t)b[3] << 24));
    }
    return BELL_OK;
}

static bool
is_gap(int c)
{
    return isspace(c) || c == ',';
}

/* Copies the token at p->at, moves behind it; its length, 0 if too long. */
static size_t
take_token(struct parse *p, char *token, size_t cap)
{
    size_t n = 0;

    while (p->at < p->end && !is_gap(*p->at) && *p->at != '#') {
        if (n < cap)
            token[n] = (char)*p->at;
        n++;
        p->at++;
    }
    token[n < cap ? n : 0] = '\0';
    return n < cap ? n : 0;
}

static BELL_MUST_CHECK bell_status
parse_number(struct parse *p, const char *token, const char *text, size_t at)
{
    const char *digits = text;
    unsigned long long value;
    size_t n;

    if (digits[0] == '0' && (digits[1] == 'x' || digits[1] == 'X'))
        digits += 2;
    n = strspn(digits, "0123456789abcdefABCDEF");
    if (n == 0 || n > 16 || digits[n])
        return bell_fail(BELL_E_IO,
                         "%s: line %u: '%s' is not a hexadecimal number of at "
                         "most 16 digits",
                         p->name, p->line, token);
    value = strtoull(digits, NULL, 16);
    BELL_TRY(put_word(p, at, (uint32_t)value));
    if (n > 8)
        BELL_TRY(put_word(p, at + 1, (uint32_t)(value >> 32)));
    return BELL_OK;
}

static BELL_MUST_CHECK bell_status
parse_token(struct parse *p)
{
    unsigned long long at;
    char token[64], *colon, *end;
    size_t n = take_token(p, token, sizeof(token));

    if (n == 0)
        return bell_fail(BELL_E_IO,
                         "%s: line %u: a number of more than %zu digits",
                         p->name, p->line, sizeof(token) - 1);
    colon = strchr(token, ':');
    if (!colon)
        return parse_number(p, token, token, p->words.n);
    if (colon == token + n - 1)
        return BELL_OK; /* an address */
    at = strtoull(token, &end, 10);
    if (end != colon || at > INDEX_MAX)
        return bell_fail(BELL_E_IO,
                         "%s: line %u: '%s': the index is not a decimal number "
                         "of at most %llu",
                         p->name, p->line, token, INDEX_MAX);
    return parse_number(p, token, colon + 1, (size_t)at);
}

static BELL_MUST_CHECK bell_status
parse_text(struct parse *p)
{
    while (p->at < p->end) {
        if (*p->at == '#') {
            while (p->at < p->end && *p->at != '\n')
                p->at++;
        } else if (is_gap(*p->at)) {
            p->line += *p->at == '\n';
            p->at++;
        } else {
            BELL_TRY(parse_token(p));
        }
    }
    return BELL_OK;
}

bell_status
words_parse(const char *name, const void *data, size_t size_bytes,
            struct words *out_words)
{
    struct parse p = {.name = name, .at = data, .line = 1};
    bell_status status;

    p.end = p.at + size_bytes;
    status = is_text(data, size_bytes) ? parse_text(&p) : parse_binary(&p);
    if (status != BELL_OK) {
        host_free(p.words.w);
        return status;
    }
    *out_words = p.words;
    return BELL_OK;
}
