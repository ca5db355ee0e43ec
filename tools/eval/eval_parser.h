/* Shared by the expression parser's files. */
#ifndef BELL_TOOLS_EVAL_EVAL_PARSER_H
#define BELL_TOOLS_EVAL_EVAL_PARSER_H

#include "tools/eval/eval_expr.h"
#include "tools/eval/eval_lex.h"

/* Parser state. Every parse_* function starts at the current token and leaves
 * the one after what it read. */
struct eval_parser {
    struct bell_context *ctx;
    struct eval_lexer lexer;
    struct eval_token tok; /* current */
    struct arena *arena;   /* lists and strings */
    const struct eval_input *inputs;
    size_t n_inputs;
    unsigned depth; /* of nesting */
    size_t fault_at;
};

/* Fails with a message about the text at byte `at`. */
bell_status eval_fail_at(struct eval_parser *p, size_t at, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
bell_status eval_no_memory(struct eval_parser *p);

/* A list that grows in the arena. */
struct eval_list {
    struct bell_value *items;
    size_t *at; /* where each began */
    const char **names;
    uint32_t n, cap;
};

BELL_MUST_CHECK bell_status eval_append(struct eval_parser *p,
                                        struct eval_list *list,
                                        const char *name,
                                        const struct bell_value *v, size_t at);

/* A tensor of a tensor, number or list of numbers; NULL for others. */
struct bell_tensor *eval_as_tensor(struct eval_parser *p,
                                   const struct bell_value *v);
/* Takes the result of API calls, or their failure as one at `at`. */
BELL_MUST_CHECK bell_status eval_take_tensor(struct eval_parser *p,
                                             struct bell_tensor *t, size_t at,
                                             struct bell_value *out);

/* The binary operator that a token is: an enum eval_op, or EVAL_OP_COUNT. */
size_t eval_find_binary(const struct eval_token *tok);
/* It binds tighter the greater this is; comparisons are level 1. */
unsigned eval_binary_level(size_t op);
/* *x = *x op *y, and *x = op *x of '-', '+' and '~'. */
BELL_MUST_CHECK bell_status eval_apply(struct eval_parser *p, size_t op,
                                       size_t at, struct bell_value *x,
                                       const struct bell_value *y);
BELL_MUST_CHECK bell_status eval_apply_unary(struct eval_parser *p, char op,
                                             size_t at, struct bell_value *x);

#endif
