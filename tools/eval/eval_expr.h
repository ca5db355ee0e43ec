/* Expressions over tensors, in Python's syntax.
 *
 * Numbers, names, strings, lists, + - * / // % ** @, << >> & | ^ ~,
 * comparisons, calls with positional and named arguments, methods, .T and
 * .mT, and indexing with slices, ..., None, integers and integer tensors.
 * Python's precedence holds. Names are inputs, dtypes, pi, e, inf, nan; the
 * functions are those of doorbell/functions.h. Numbers among themselves are
 * computed as Python would.
 *
 * The text may be hostile: nesting is limited, nothing recurses on its
 * length, and every fault is told with the place where it lies.
 */
#ifndef BELL_TOOLS_EVAL_EVAL_EXPR_H
#define BELL_TOOLS_EVAL_EVAL_EXPR_H

#include <stddef.h>

#include "base/arena.h"
#include "base/status.h"
#include "doorbell/functions.h"

#define EVAL_MAX_DEPTH 100

/* A name that the expression may use. */
struct eval_input {
    const char *name;
    struct bell_tensor *tensor;
};

/* Builds the tensor that the expression denotes, in the innermost scope; a
 * number becomes a tensor of shape (). Nothing is computed. On failure
 * *out_at is the byte offset in the text at which it lies. */
BELL_MUST_CHECK bell_status eval_expr(
    struct bell_context *ctx, const char *text, const struct eval_input *inputs,
    size_t n_inputs, struct bell_tensor **out_tensor, size_t *out_at);

/* The same of an expression that may be a list of tensors, of max_tensors at
 * most. */
BELL_MUST_CHECK bell_status eval_list(
    struct bell_context *ctx, const char *text, const struct eval_input *inputs,
    size_t n_inputs, struct bell_tensor **out_tensors, uint32_t max_tensors,
    uint32_t *out_n, size_t *out_at);

/* A binary operator between two values of the language, numbers or tensors
 * (tools/eval/eval_number.c for numbers). */
enum eval_op {
    EVAL_ADD,
    EVAL_SUB,
    EVAL_MUL,
    EVAL_DIV,
    EVAL_FLOORDIV,
    EVAL_MOD,
    EVAL_POW,
    EVAL_MATMUL,
    EVAL_AND,
    EVAL_OR,
    EVAL_XOR,
    EVAL_SHL,
    EVAL_SHR,
    EVAL_LT,
    EVAL_LE,
    EVAL_GT,
    EVAL_GE,
    EVAL_EQ,
    EVAL_NE,
    EVAL_OP_COUNT
};

/* Computes with two numbers (int, float or bool), as Python does. */
BELL_MUST_CHECK bell_status eval_number(enum eval_op op,
                                        const struct bell_value *x,
                                        const struct bell_value *y,
                                        struct bell_value *out_value);

#endif
