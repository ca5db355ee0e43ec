/* Values and operators of expressions: what one operator does to numbers,
 * tensors and lists. */
#include "tools/eval/eval_parser.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/bits.h"

/* ---- errors --------------------------------------------------- */

bell_status
eval_fail_at(struct eval_parser *p, size_t at, const char *fmt, ...)
{
    char text[BELL_ERROR_MESSAGE];
    va_list args;

    va_start(args, fmt);
    vsnprintf(text, sizeof(text), fmt, args);
    va_end(args);
    p->fault_at = at;
    return bell_fail(BELL_E_INVALID, "%s", text);
}

bell_status
eval_no_memory(struct eval_parser *p)
{
    p->fault_at = p->tok.at;
    return bell_fail(BELL_E_NO_MEMORY, "out of memory for the expression");
}

/* ---- values ----------------------------------------------------------- */

static bool
is_number(const struct bell_value *v)
{
    return v->kind == BELL_VALUE_INT || v->kind == BELL_VALUE_FLOAT ||
           v->kind == BELL_VALUE_BOOL;
}

/* A list of numbers as a tensor. */
static struct bell_tensor *
list_tensor(struct eval_parser *p, const struct bell_value *v)
{
    struct bell_arg arg = {NULL, *v};
    struct bell_call call = {
        .function = bell_function_find("tensor"), .args = &arg, .n_args = 1};

    return bell_function_call(p->ctx, &call) == BELL_OK ? call.results[0]
                                                        : NULL;
}

/* NULL if it is not a tensor, number, or list of numbers. */
struct bell_tensor *
eval_as_tensor(struct eval_parser *p, const struct bell_value *v)
{
    switch ((int)v->kind) {
    case BELL_VALUE_LIST:
        return list_tensor(p, v);
    case BELL_VALUE_TENSOR:
        return v->tensor;
    case BELL_VALUE_INT:
        return bell_scalar_int(p->ctx, v->i);
    case BELL_VALUE_FLOAT:
        return bell_scalar(p->ctx, v->f);
    case BELL_VALUE_BOOL:
        return bell_full(p->ctx, BELL_NO_DIMS, v->b, BELL_BOOL);
    default:
        return NULL;
    }
}

/* Takes the result of API calls, or their failure as one at `at`. */
bell_status
eval_take_tensor(struct eval_parser *p, struct bell_tensor *t, size_t at,
                 struct bell_value *out)
{
    bell_status status = bell_context_status(p->ctx);

    if (status != BELL_OK) {
        p->fault_at = at;
        return status;
    }
    *out = bell_of_tensor(t);
    return BELL_OK;
}

bell_status
eval_append(struct eval_parser *p, struct eval_list *list, const char *name,
            const struct bell_value *v, size_t at)
{
    if (list->n == list->cap) {
        uint32_t cap = list->cap ? list->cap * 2 : 8;
        struct eval_list grown = {.n = list->n, .cap = cap};
        grown.items = arena_calloc(p->arena, cap, sizeof(*grown.items));
        grown.at = arena_calloc(p->arena, cap, sizeof(*grown.at));
        grown.names = arena_calloc(p->arena, cap, sizeof(*grown.names));
        if (!grown.items || !grown.at || !grown.names)
            return eval_no_memory(p);
        if (list->n) {
            memcpy(grown.items, list->items, list->n * sizeof(*grown.items));
            memcpy(grown.at, list->at, list->n * sizeof(*grown.at));
            memcpy(grown.names, list->names, list->n * sizeof(*grown.names));
        }
        *list = grown;
    }
    list->items[list->n] = *v;
    list->at[list->n] = at;
    list->names[list->n] = name;
    list->n++;
    return BELL_OK;
}

/* ---- operators -------------------------------------------------------- */

typedef struct bell_tensor *binary_fn(struct bell_tensor *x,
                                      struct bell_tensor *y);

/* Binds tighter the greater `level` is; comparisons are level 1. */
static const struct {
    const char *text;
    unsigned level;
    binary_fn *function;
} binary_ops[EVAL_OP_COUNT] = {
    [EVAL_LT] = {"<", 1, bell_lt},
    [EVAL_LE] = {"<=", 1, bell_le},
    [EVAL_GT] = {">", 1, bell_gt},
    [EVAL_GE] = {">=", 1, bell_ge},
    [EVAL_EQ] = {"==", 1, bell_eq},
    [EVAL_NE] = {"!=", 1, bell_ne},
    [EVAL_OR] = {"|", 2, bell_bitwise_or},
    [EVAL_XOR] = {"^", 3, bell_bitwise_xor},
    [EVAL_AND] = {"&", 4, bell_bitwise_and},
    [EVAL_SHL] = {"<<", 5, bell_lshift},
    [EVAL_SHR] = {">>", 5, bell_rshift},
    [EVAL_ADD] = {"+", 6, bell_add},
    [EVAL_SUB] = {"-", 6, bell_sub},
    [EVAL_MUL] = {"*", 7, bell_mul},
    [EVAL_DIV] = {"/", 7, bell_div},
    [EVAL_FLOORDIV] = {"//", 7, bell_floor_divide},
    [EVAL_MOD] = {"%", 7, bell_remainder},
    [EVAL_MATMUL] = {"@", 7, bell_matmul},
    [EVAL_POW] = {"**", 9, bell_pow},
};

bell_status
eval_apply(struct eval_parser *p, size_t op, size_t at, struct bell_value *x,
           const struct bell_value *y)
{
    struct bell_tensor *a, *b;
    bell_status status;

    if (is_number(x) && is_number(y)) {
        struct bell_value left = *x;
        status = eval_number((enum eval_op)op, &left, y, x);
        if (status != BELL_OK)
            p->fault_at = at;
        return status;
    }
    a = eval_as_tensor(p, x);
    b = eval_as_tensor(p, y);
    if (!a || !b)
        return eval_fail_at(p, at, "'%s' takes tensors and numbers, not %s",
                            binary_ops[op].text,
                            bell_value_kind_name(a ? y : x));
    return eval_take_tensor(p, binary_ops[op].function(a, b), at, x);
}

static BELL_MUST_CHECK bell_status
negate_number(struct eval_parser *p, size_t at, struct bell_value *x)
{
    if (x->kind == BELL_VALUE_FLOAT)
        *x = bell_of_float(-x->f);
    else if (x->kind == BELL_VALUE_BOOL)
        *x = bell_of_int(-(int64_t)x->b);
    else if (x->i == INT64_MIN)
        return eval_fail_at(p, at,
                            "the result does not fit in a 64-bit integer");
    else
        *x = bell_of_int(-x->i);
    return BELL_OK;
}

bell_status
eval_apply_unary(struct eval_parser *p, char op, size_t at,
                 struct bell_value *x)
{
    if (x->kind == BELL_VALUE_TENSOR) {
        if (op == '+')
            return BELL_OK;
        return eval_take_tensor(
            p, op == '-' ? bell_neg(x->tensor) : bell_bitwise_not(x->tensor),
            at, x);
    }
    if (!is_number(x))
        return eval_fail_at(p, at, "'%c' takes a tensor or number, not %s", op,
                            bell_value_kind_name(x));
    if (op == '-')
        return negate_number(p, at, x);
    if (op == '~' && x->kind == BELL_VALUE_FLOAT)
        return eval_fail_at(p, at, "'~' takes integers, not floats");
    if (op == '~')
        *x = bell_of_int(~(x->kind == BELL_VALUE_BOOL ? x->b : x->i));
    else if (x->kind == BELL_VALUE_BOOL)
        *x = bell_of_int(x->b);
    return BELL_OK;
}

size_t
eval_find_binary(const struct eval_token *tok)
{
    size_t i;

    for (i = 0; i < ARRAY_LEN(binary_ops); i++) {
        if (eval_is_op(tok, binary_ops[i].text))
            break;
    }
    return i;
}

unsigned
eval_binary_level(size_t op)
{
    return binary_ops[op].level;
}
