/* Tokens of PTX text. */
#include "sim/ptx/ptx_internal.h"

#include <string.h>

static bool
is_word_char(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
           (c >= '0' && c <= '9') || c == '_' || c == '$';
}

static bool
lex_is_digit(char c)
{
    return c >= '0' && c <= '9';
}

/* Skips blanks and comments; false in a comment that does not end. */
static bool
lex_skip_blanks(struct px_lex *lex)
{
    const char *p = lex->at;

    for (;;) {
        if (*p == '\n') {
            lex->line++;
            p++;
        } else if (*p == ' ' || *p == '\t' || *p == '\r') {
            p++;
        } else if (p[0] == '/' && p[1] == '/') {
            p += strcspn(p, "\n");
        } else if (p[0] == '/' && p[1] == '*') {
            for (p += 2; *p && !(p[0] == '*' && p[1] == '/'); p++)
                lex->line += *p == '\n';
            lex->at = p;
            if (!*p)
                return false;
            p += 2;
        } else {
            break;
        }
    }
    lex->is_glued = p == lex->at;
    lex->at = p;
    return true;
}

static int
digit_of(char c)
{
    if (lex_is_digit(c))
        return c - '0';
    if (c >= 'a' && c <= 'f')
        return c - 'a' + 10;
    if (c >= 'A' && c <= 'F')
        return c - 'A' + 10;
    return 99;
}

/* Digits of a base; false where there is none or too many. */
static bool
take_digits(struct px_lex *lex, const char *p, unsigned base, unsigned exact)
{
    const char *begin = p;
    uint64_t v = 0;

    for (; digit_of(*p) < (int)base; p++) {
        if (v > (UINT64_MAX - (uint64_t)digit_of(*p)) / base)
            return false;
        v = v * base + (uint64_t)digit_of(*p);
    }
    if (p == begin || (exact && p - begin != exact))
        return false;
    if (*p == 'U' && !exact)
        p++;
    if (is_word_char(*p) || *p == '.')
        return false;
    lex->number = v;
    lex->at = p;
    return true;
}

static void
lex_number(struct px_lex *lex)
{
    const char *p = lex->at;
    bool ok;

    lex->token = PX_NUMBER;
    lex->word = p;
    lex->float_bits = 0;
    if (p[0] == '0' && (p[1] == 'x' || p[1] == 'X')) {
        ok = take_digits(lex, p + 2, 16, 0);
    } else if (p[0] == '0' && (p[1] == 'f' || p[1] == 'F')) {
        ok = take_digits(lex, p + 2, 16, 8);
        lex->float_bits = 32;
    } else if (p[0] == '0' && (p[1] == 'd' || p[1] == 'D')) {
        ok = take_digits(lex, p + 2, 16, 16);
        lex->float_bits = 64;
    } else if (p[0] == '0' && lex_is_digit(p[1])) {
        ok = take_digits(lex, p + 1, 8, 0);
    } else {
        ok = take_digits(lex, p, 10, 0);
    }
    if (!ok)
        lex->token = PX_BAD;
    lex->len = (size_t)(lex->at - lex->word);
}

static void
lex_word(struct px_lex *lex, enum px_token token, const char *begin)
{
    const char *p = begin;

    /* "L1::no_allocate" and "shared::cta" are one word */
    while (is_word_char(*p) ||
           (token == PX_DOT && p[0] == ':' && p[1] == ':') ||
           (token == PX_DOT && p > begin && p[0] == ':' && p[-1] == ':'))
        p++;
    lex->token = token;
    lex->word = token == PX_DOT ? begin : lex->at;
    lex->len = (size_t)(p - lex->word);
    lex->at = p;
}

void
px_lex_next(struct px_lex *lex)
{
    char c;

    if (!lex_skip_blanks(lex)) {
        lex->token = PX_BAD;
        return;
    }
    c = *lex->at;
    if (c == 0) {
        lex->token = PX_END;
        lex->len = 0;
        lex->word = lex->at;
    } else if (lex_is_digit(c)) {
        lex_number(lex);
    } else if (is_word_char(c)) {
        lex_word(lex, PX_WORD, lex->at);
    } else if (c == '%' && is_word_char(lex->at[1])) {
        lex_word(lex, PX_WORD, lex->at + 1);
    } else if (c == '.' && is_word_char(lex->at[1])) {
        lex_word(lex, PX_DOT, lex->at + 1);
    } else if (c == '"') {
        size_t n = strcspn(lex->at + 1, "\"\n");
        lex->token = lex->at[1 + n] == '"' ? PX_STRING : PX_BAD;
        lex->word = lex->at;
        lex->len = n + 1;
        lex->at += lex->token == PX_STRING ? n + 2 : n + 1;
    } else {
        lex->token = strchr("{}[]()<>,;:+-@!|=", c) ? PX_PUNCT : PX_BAD;
        lex->punct = c;
        lex->word = lex->at++;
        lex->len = 1;
    }
}

void
px_lex_init(struct px_lex *lex, const char *text)
{
    memset(lex, 0, sizeof(*lex));
    lex->at = text;
    lex->line = 1;
    px_lex_next(lex);
}
