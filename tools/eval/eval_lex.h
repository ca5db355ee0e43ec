/* Tokens of expressions, one after the other. Allocates nothing. */
#ifndef BELL_TOOLS_EVAL_EVAL_LEX_H
#define BELL_TOOLS_EVAL_EVAL_LEX_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"

enum eval_token_kind {
    EVAL_TOKEN_END,
    EVAL_TOKEN_INT,    /* value.i */
    EVAL_TOKEN_FLOAT,  /* value.f */
    EVAL_TOKEN_NAME,   /* text */
    EVAL_TOKEN_STRING, /* text, without quotes */
    EVAL_TOKEN_OP,     /* op */
};

#define EVAL_TEXT_MAX 128
#define EVAL_TOO_WIDE "this integer does not fit in 64 bits"

struct eval_token {
    enum eval_token_kind kind;
    size_t at; /* byte offset of its first character */
    union {
        int64_t i;
        double f;
    } value;
    bool is_negated;          /* of INT: it is 2^63, which only '-' makes fit */
    char op[4];               /* "+", "**", "...", "<=" */
    char text[EVAL_TEXT_MAX]; /* of a NAME or STRING */
};

struct eval_lexer {
    const char *text;
    size_t at;
};

/* The next token. On failure token->at is where the fault lies. */
BELL_MUST_CHECK bell_status eval_lex(struct eval_lexer *lexer,
                                     struct eval_token *token);

/* Whether a token is this operator. */
bool eval_is_op(const struct eval_token *token, const char *op);

#endif
