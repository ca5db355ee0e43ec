/* Tokens of expressions: Python's numbers, names, strings, operators. */
#include "tools/eval/eval_lex.h"

#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/bits.h"

/* Longer ones first. */
static const char *const operators[] = {
    "...", "**", "//", "<<", ">>", "<=", ">=", "==", "!=", "->", ":=",
    "+",   "-",  "*",  "/",  "%",  "@",  "<",  ">",  "=",  "&",  "|",
    "^",   "~",  "(",  ")",  "[",  "]",  "{",  "}",  ",",  ":",  ".",
};

bool
eval_is_op(const struct eval_token *token, const char *op)
{
    return token->kind == EVAL_TOKEN_OP && strcmp(token->op, op) == 0;
}

static bool
is_name_char(char c)
{
    return isalnum((unsigned char)c) || c == '_';
}

/* ---- numbers ---------------------------------------------------------- */

/* Copies the characters of a number, without the underscores between digits,
 * to `buf`. Returns its length in the text; 0 if it is too long. */
static size_t
copy_number(const char *p, char *buf, size_t size_bytes)
{
    bool hex = p[0] == '0' && (p[1] == 'x' || p[1] == 'X');
    size_t n = 0, len = 0;

    while (is_name_char(p[len]) || p[len] == '.' ||
           ((p[len] == '+' || p[len] == '-') && len > 0 && !hex &&
            (p[len - 1] == 'e' || p[len - 1] == 'E'))) {
        bool joint = p[len] == '_' && len > 0 &&
                     isxdigit((unsigned char)p[len - 1]) &&
                     isxdigit((unsigned char)p[len + 1]);
        if (n + 1 == size_bytes)
            return 0;
        if (!joint)
            buf[n++] = p[len];
        len++;
    }
    buf[n] = 0;
    return len;
}

static BELL_MUST_CHECK bell_status
take_int(struct eval_token *token, const char *digits, int base)
{
    unsigned long long value;
    char *end;

    errno = 0;
    value = strtoull(digits, &end, base);
    token->kind = EVAL_TOKEN_INT;
    if (end == digits || *end)
        return bell_fail(BELL_E_INVALID, "not a number");
    if (errno == ERANGE || value > 1ull << 63)
        return bell_fail(BELL_E_INVALID, EVAL_TOO_WIDE);
    token->is_negated = value == 1ull << 63;
    token->value.i = token->is_negated ? INT64_MIN : (int64_t)value;
    return BELL_OK;
}

static BELL_MUST_CHECK bell_status
take_lex_number(struct eval_lexer *lexer, struct eval_token *token)
{
    char buf[EVAL_TEXT_MAX], *end;
    size_t len = copy_number(lexer->text + lexer->at, buf, sizeof(buf));
    static const struct {
        char letter;
        int base;
    } bases[] = {{'x', 16}, {'o', 8}, {'b', 2}};
    size_t i;

    if (len == 0)
        return bell_fail(BELL_E_INVALID, "this number is too long");
    lexer->at += len;
    for (i = 0; i < ARRAY_LEN(bases); i++) {
        if (buf[0] == '0' && tolower((unsigned char)buf[1]) == bases[i].letter)
            return isxdigit((unsigned char)buf[2])
                       ? take_int(token, buf + 2, bases[i].base)
                       : bell_fail(BELL_E_INVALID, "not a number");
    }
    if (buf[strspn(buf, "0123456789")] == 0) {
        if (buf[0] == '0' && buf[strspn(buf, "0")])
            return bell_fail(BELL_E_INVALID,
                             "a decimal integer does not begin with 0");
        return take_int(token, buf, 10);
    }
    token->kind = EVAL_TOKEN_FLOAT;
    token->value.f = strtod(buf, &end);
    if (*end)
        return bell_fail(BELL_E_INVALID, "not a number");
    return BELL_OK;
}

/* ---- names, strings, operators ---------------------------------------- */

static BELL_MUST_CHECK bell_status
take_name(struct eval_lexer *lexer, struct eval_token *token)
{
    const char *start = lexer->text + lexer->at;
    size_t len = 0;

    while (is_name_char(start[len]))
        len++;
    if (len >= sizeof(token->text))
        return bell_fail(BELL_E_INVALID, "this name is too long");
    memcpy(token->text, start, len);
    token->text[len] = 0;
    token->kind = EVAL_TOKEN_NAME;
    lexer->at += len;
    return BELL_OK;
}

static BELL_MUST_CHECK bell_status
take_string(struct eval_lexer *lexer, struct eval_token *token)
{
    const char *start = lexer->text + lexer->at;
    size_t len = 0;

    for (len = 0; start[len + 1] != start[0]; len++) {
        if (!start[len + 1] || start[len + 1] == '\n')
            return bell_fail(BELL_E_INVALID, "this string has no end");
        if (start[len + 1] == '\\')
            return bell_fail(BELL_E_INVALID,
                             "escapes in strings are not supported");
        if (len + 1 >= sizeof(token->text))
            return bell_fail(BELL_E_INVALID, "this string is too long");
        token->text[len] = start[len + 1];
    }
    token->text[len] = 0;
    token->kind = EVAL_TOKEN_STRING;
    lexer->at += len + 2;
    return BELL_OK;
}

static BELL_MUST_CHECK bell_status
take_operator(struct eval_lexer *lexer, struct eval_token *token)
{
    const char *start = lexer->text + lexer->at;
    size_t i;

    for (i = 0; i < ARRAY_LEN(operators); i++) {
        size_t len = strlen(operators[i]);
        if (strncmp(start, operators[i], len) == 0) {
            memcpy(token->op, operators[i], len + 1);
            token->kind = EVAL_TOKEN_OP;
            lexer->at += len;
            return BELL_OK;
        }
    }
    if (isprint((unsigned char)*start))
        return bell_fail(BELL_E_INVALID, "unexpected '%c'", *start);
    return bell_fail(BELL_E_INVALID, "unexpected character (byte 0x%02x)",
                     (unsigned char)*start);
}

bell_status
eval_lex(struct eval_lexer *lexer, struct eval_token *token)
{
    const char *text = lexer->text;
    char c;

    while (text[lexer->at] == ' ' || text[lexer->at] == '\t' ||
           text[lexer->at] == '\n' || text[lexer->at] == '\r')
        lexer->at++;
    token->at = lexer->at;
    token->kind = EVAL_TOKEN_END;
    token->text[0] = 0;
    token->op[0] = 0;
    c = text[lexer->at];
    if (!c)
        return BELL_OK;
    if (isdigit((unsigned char)c) ||
        (c == '.' && isdigit((unsigned char)text[lexer->at + 1])))
        return take_lex_number(lexer, token);
    if (is_name_char(c))
        return take_name(lexer, token);
    if (c == '\'' || c == '"')
        return take_string(lexer, token);
    return take_operator(lexer, token);
}
