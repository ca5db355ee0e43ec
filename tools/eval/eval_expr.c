/* The expression parser: recursive descent that builds tensors as it goes. */
#include "tools/eval/eval_expr.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/bits.h"
#include "tools/eval/eval_parser.h"
#include "tools/tools.h"

#define MAX_INDEX_ITEMS 64

static bell_status parse_expr(struct eval_parser *p, struct bell_value *out);
static bell_status parse_unary(struct eval_parser *p, struct bell_value *out);

/* ---- errors and tokens ------------------------------------------------ */

static BELL_MUST_CHECK bell_status
advance(struct eval_parser *p)
{
    bell_status status = eval_lex(&p->lexer, &p->tok);

    if (status != BELL_OK)
        p->fault_at = p->tok.at;
    return status;
}

/* What the current token is, for messages. */
static const char *
found(const struct eval_parser *p, char *buf, size_t size_bytes)
{
    switch (p->tok.kind) {
    case EVAL_TOKEN_END:
        return "the end";
    case EVAL_TOKEN_OP:
        snprintf(buf, size_bytes, "'%s'", p->tok.op);
        break;
    case EVAL_TOKEN_NAME:
        snprintf(buf, size_bytes, "'%.40s'", p->tok.text);
        break;
    case EVAL_TOKEN_STRING:
        return "a string";
    case EVAL_TOKEN_INT:
    case EVAL_TOKEN_FLOAT:
        return "a number";
    }
    return buf;
}

static BELL_MUST_CHECK bell_status
expect(struct eval_parser *p, const char *op, const char *where)
{
    char buf[64];

    if (!eval_is_op(&p->tok, op))
        return eval_fail_at(p, p->tok.at, "expected '%s' %s, not %s", op, where,
                            found(p, buf, sizeof(buf)));
    return advance(p);
}

/* Python's words that are not in this language, where they may stand. */
static BELL_MUST_CHECK bell_status
refuse_words(struct eval_parser *p)
{
    static const struct {
        const char *word, *advice;
    } words[] = {
        {"not", "write ~x or logical_not(x)"},
        {"and", "write (a) & (b) or logical_and(a, b)"},
        {"or", "write (a) | (b) or logical_or(a, b)"},
        {"if", "write where(condition, a, b)"},
        {"else", "write where(condition, a, b)"},
        {"in", "compare with =="},
        {"is", "compare with =="},
        {"lambda", "only expressions are"},
        {"for", "only expressions are"},
        {"await", "only expressions are"},
        {"yield", "only expressions are"},
    };
    size_t i;

    for (i = 0; p->tok.kind == EVAL_TOKEN_NAME && i < ARRAY_LEN(words); i++) {
        if (strcmp(p->tok.text, words[i].word) == 0)
            return eval_fail_at(p, p->tok.at, "'%s' is not supported; %s",
                                words[i].word, words[i].advice);
    }
    return BELL_OK;
}

/* Every way to nest leads through parse_unary, which calls this. */
static BELL_MUST_CHECK bell_status
enter(struct eval_parser *p)
{
    if (++p->depth > EVAL_MAX_DEPTH)
        return eval_fail_at(p, p->tok.at, "nested more than %d deep",
                            EVAL_MAX_DEPTH);
    return BELL_OK;
}

/* Operators of at least `level`, left to right. */
static BELL_MUST_CHECK bell_status
parse_expr_binary(struct eval_parser *p, unsigned level, struct bell_value *out)
{
    bool compared = false;

    BELL_TRY(parse_unary(p, out));
    for (;;) {
        size_t op = eval_find_binary(&p->tok), at = p->tok.at;
        struct bell_value right;
        if (op == EVAL_OP_COUNT || eval_binary_level(op) < level)
            return refuse_words(p);
        if (eval_binary_level(op) == 1 && compared)
            return eval_fail_at(p, at,
                                "comparisons cannot be chained; write "
                                "(a < b) & (b < c)");
        compared = eval_binary_level(op) == 1;
        BELL_TRY(advance(p));
        BELL_TRY(parse_expr_binary(p, eval_binary_level(op) + 1, &right));
        BELL_TRY(eval_apply(p, op, at, out, &right));
    }
}

static bell_status
parse_expr(struct eval_parser *p, struct bell_value *out)
{
    return parse_expr_binary(p, 1, out);
}

/* ---- lists and calls -------------------------------------------------- */

/* Expressions up to `close`, the token after which becomes the current one.
 * `*out_comma` tells whether the last one was followed by a comma. */
static BELL_MUST_CHECK bell_status
parse_items(struct eval_parser *p, const char *close, struct eval_list *list,
            bool *out_comma)
{
    *out_comma = true;
    while (!eval_is_op(&p->tok, close)) {
        struct bell_value v;
        size_t at = p->tok.at;
        if (!*out_comma)
            return expect(p, close, "or ',' here");
        BELL_TRY(parse_expr(p, &v));
        BELL_TRY(eval_append(p, list, NULL, &v, at));
        *out_comma = eval_is_op(&p->tok, ",");
        if (*out_comma)
            BELL_TRY(advance(p));
    }
    return advance(p);
}

/* [a, b], or (a, b); (a) is a. */
static BELL_MUST_CHECK bell_status
parse_brackets(struct eval_parser *p, struct bell_value *out)
{
    bool round = eval_is_op(&p->tok, "(");
    size_t at = p->tok.at;
    struct eval_list list = {.n = 0};
    bool comma;

    BELL_TRY(advance(p));
    if (p->tok.kind == EVAL_TOKEN_END)
        return eval_fail_at(p, at, "this '%s' is not closed",
                            round ? "(" : "[");
    BELL_TRY(parse_items(p, round ? ")" : "]", &list, &comma));
    if (round && list.n == 1 && !comma)
        *out = list.items[0];
    else
        *out = bell_of_list(list.items, list.n);
    return BELL_OK;
}

/* The name of a named argument, if one begins here: the tokens NAME '='. */
static BELL_MUST_CHECK bell_status
parse_arg_name(struct eval_parser *p, const char **out_name)
{
    struct eval_lexer ahead = p->lexer;
    struct eval_token next;

    *out_name = NULL;
    if (p->tok.kind != EVAL_TOKEN_NAME || eval_lex(&ahead, &next) != BELL_OK ||
        !eval_is_op(&next, "="))
        return BELL_OK;
    *out_name = arena_copy(p->arena, p->tok.text, strlen(p->tok.text) + 1);
    if (!*out_name)
        return eval_no_memory(p);
    BELL_TRY(advance(p));
    return advance(p);
}

/* Arguments after the opening parenthesis, up to the closing one. */
static BELL_MUST_CHECK bell_status
parse_args(struct eval_parser *p, struct eval_list *args)
{
    bool comma = true;

    while (!eval_is_op(&p->tok, ")")) {
        size_t at = p->tok.at;
        struct bell_value v;
        const char *name;
        if (!comma)
            return expect(p, ")", "or ',' after an argument");
        if (eval_is_op(&p->tok, "*") || eval_is_op(&p->tok, "**"))
            return eval_fail_at(
                p, at, "'%s' before an argument is not supported", p->tok.op);
        BELL_TRY(parse_arg_name(p, &name));
        BELL_TRY(parse_expr(p, &v));
        BELL_TRY(eval_append(p, args, name, &v, at));
        comma = eval_is_op(&p->tok, ",");
        if (comma)
            BELL_TRY(advance(p));
    }
    return advance(p);
}

static BELL_MUST_CHECK bell_status
take_results(struct eval_parser *p, const struct bell_call *call,
             struct bell_value *out)
{
    struct eval_list list = {.n = 0};
    uint32_t i;

    if (!call->function->returns_list && call->n_results == 1) {
        *out = bell_of_tensor(call->results[0]);
        return BELL_OK;
    }
    for (i = 0; i < call->n_results; i++) {
        struct bell_value v = bell_of_tensor(call->results[i]);
        BELL_TRY(eval_append(p, &list, NULL, &v, 0));
    }
    *out = bell_of_list(list.items, list.n);
    return BELL_OK;
}

static BELL_MUST_CHECK bell_status
call_with(struct eval_parser *p, const struct bell_function *function,
          size_t at, const struct eval_list *list, struct bell_value *out)
{
    struct bell_call call = {.function = function, .n_args = list->n};
    struct bell_arg *args;
    bell_status status;
    uint32_t i;

    args = arena_calloc(p->arena, list->n + 1, sizeof(*args));
    if (!args)
        return eval_no_memory(p);
    for (i = 0; i < list->n; i++) {
        args[i].name = list->names[i];
        args[i].value = list->items[i];
    }
    call.args = args;
    status = bell_function_call(p->ctx, &call);
    if (status != BELL_OK) {
        p->fault_at = call.bad_arg >= 0 ? list->at[call.bad_arg] : at;
        return status;
    }
    return take_results(p, &call, out);
}

static bell_status
refuse_function(struct eval_parser *p, const char *name, size_t at)
{
    const char *nearest = bell_function_nearest(name);

    if (nearest)
        return eval_fail_at(p, at, "no function '%s'; did you mean '%s'?", name,
                            nearest);
    return eval_fail_at(p, at, "no function '%s'; --list prints all", name);
}

/* name(...), or self.name(...); the current token is the parenthesis. */
static BELL_MUST_CHECK bell_status
parse_call(struct eval_parser *p, const char *name, size_t at,
           const struct bell_value *self, size_t self_at,
           struct bell_value *out)
{
    const struct bell_function *function = bell_function_find(name);
    struct eval_list list = {.n = 0};

    if (!function)
        return refuse_function(p, name, at);
    if (self)
        BELL_TRY(eval_append(p, &list, NULL, self, self_at));
    BELL_TRY(advance(p));
    BELL_TRY(parse_args(p, &list));
    return call_with(p, function, at, &list, out);
}

/* ---- indexing --------------------------------------------------------- */

/* A bound of a slice: an int, or nothing before ':', ',' and ']'. */
static BELL_MUST_CHECK bell_status
parse_bound(struct eval_parser *p, int64_t absent, int64_t *out)
{
    struct bell_value v;
    size_t at = p->tok.at;

    *out = absent;
    if (eval_is_op(&p->tok, ":") || eval_is_op(&p->tok, ",") ||
        eval_is_op(&p->tok, "]"))
        return BELL_OK;
    BELL_TRY(parse_expr(p, &v));
    if (v.kind == BELL_VALUE_NONE)
        return BELL_OK;
    if (v.kind != BELL_VALUE_INT)
        return eval_fail_at(p, at, "a slice's bounds are integers, not %s",
                            bell_value_kind_name(&v));
    *out = v.i;
    return BELL_OK;
}

/* What follows "begin:". */
static BELL_MUST_CHECK bell_status
parse_slice(struct eval_parser *p, int64_t begin, struct bell_index_item *item)
{
    int64_t end, step = 1;
    size_t at;

    BELL_TRY(advance(p));
    BELL_TRY(parse_bound(p, BELL_NONE, &end));
    at = p->tok.at;
    if (eval_is_op(&p->tok, ":")) {
        BELL_TRY(advance(p));
        BELL_TRY(parse_bound(p, 1, &step));
    }
    if (step == 0)
        return eval_fail_at(p, at, "a slice's step cannot be 0");
    *item = bell_slice(begin, end, step);
    return BELL_OK;
}

static BELL_MUST_CHECK bell_status
item_of_value(struct eval_parser *p, const struct bell_value *v, size_t at,
              struct bell_index_item *item)
{
    struct eval_list list = {.n = 0};
    struct bell_value t = *v;

    switch ((int)v->kind) {
    case BELL_VALUE_INT:
        *item = bell_at(v->i);
        return BELL_OK;
    case BELL_VALUE_NONE:
        *item = bell_new_axis();
        return BELL_OK;
    case BELL_VALUE_LIST:
        BELL_TRY(eval_append(p, &list, NULL, v, at));
        if (v->n_items == 0) {
            struct bell_value dtype = bell_of_dtype(BELL_INT64);
            BELL_TRY(eval_append(p, &list, NULL, &dtype, at));
        }
        BELL_TRY(call_with(p, bell_function_find("tensor"), at, &list, &t));
        *item = bell_by(t.tensor);
        return BELL_OK;
    case BELL_VALUE_TENSOR:
        *item = bell_by(v->tensor);
        return BELL_OK;
    default:
        return eval_fail_at(p, at,
                            "an index is an integer, slice, ..., None or "
                            "integer tensor, not %s",
                            bell_value_kind_name(v));
    }
}

static BELL_MUST_CHECK bell_status
parse_item(struct eval_parser *p, struct bell_index_item *item)
{
    struct bell_value v = bell_of_none();
    size_t at = p->tok.at;

    if (eval_is_op(&p->tok, "...")) {
        *item = bell_ellipsis();
        return advance(p);
    }
    if (eval_is_op(&p->tok, ":"))
        return parse_slice(p, BELL_NONE, item);
    BELL_TRY(parse_expr(p, &v));
    if (!eval_is_op(&p->tok, ":"))
        return item_of_value(p, &v, at, item);
    if (v.kind != BELL_VALUE_INT && v.kind != BELL_VALUE_NONE)
        return eval_fail_at(p, at, "a slice's bounds are integers, not %s",
                            bell_value_kind_name(&v));
    return parse_slice(p, v.kind == BELL_VALUE_INT ? v.i : BELL_NONE, item);
}

static BELL_MUST_CHECK bell_status
index_list(struct eval_parser *p, const struct bell_index_item *items,
           uint32_t n, size_t at, struct bell_value *out)
{
    int64_t i = items[0].begin, size = out->n_items;

    if (n != 1 || items[0].kind != BELL_INDEX_INT)
        return eval_fail_at(p, at, "a list is indexed by one integer");
    if (i < -size || i >= size)
        return eval_fail_at(p, at, "index %lld of a list of %lld", (long long)i,
                            (long long)size);
    *out = out->items[i < 0 ? i + size : i];
    return BELL_OK;
}

/* out[...]; the current token is the bracket. */
static BELL_MUST_CHECK bell_status
parse_index(struct eval_parser *p, struct bell_value *out)
{
    struct bell_index_item items[MAX_INDEX_ITEMS];
    size_t at = p->tok.at;
    bool comma = true;
    uint32_t n = 0;

    BELL_TRY(advance(p));
    while (!eval_is_op(&p->tok, "]")) {
        if (!comma)
            return expect(p, "]", "or ',' after an index");
        if (n == MAX_INDEX_ITEMS)
            return eval_fail_at(p, p->tok.at, "more than %d indices",
                                MAX_INDEX_ITEMS);
        BELL_TRY(parse_item(p, &items[n++]));
        comma = eval_is_op(&p->tok, ",");
        if (comma)
            BELL_TRY(advance(p));
    }
    BELL_TRY(advance(p));
    if (n == 0)
        return eval_fail_at(p, at, "an index is missing");
    if (out->kind == BELL_VALUE_LIST)
        return index_list(p, items, n, at, out);
    if (out->kind != BELL_VALUE_TENSOR)
        return eval_fail_at(p, at, "%s cannot be indexed",
                            bell_value_kind_name(out));
    return eval_take_tensor(p, bell_index(out->tensor, items, n), at, out);
}

/* ---- atoms ------------------------------------------------------------ */

static BELL_MUST_CHECK bell_status
reverse_axes(struct eval_parser *p, size_t at, struct bell_value *x)
{
    int64_t order[BELL_MAX_RANK];
    uint32_t rank = bell_ndim(x->tensor), i;

    for (i = 0; i < rank; i++)
        order[i] = rank - 1 - i;
    return eval_take_tensor(p, bell_permute(x->tensor, order, rank), at, x);
}

static BELL_MUST_CHECK bell_status
shape_list(struct eval_parser *p, struct bell_value *x)
{
    struct eval_list list = {.n = 0};
    uint32_t i;

    for (i = 0; i < bell_ndim(x->tensor); i++) {
        struct bell_value v = bell_of_int(bell_shape(x->tensor)[i]);
        BELL_TRY(eval_append(p, &list, NULL, &v, 0));
    }
    *x = bell_of_list(list.items, list.n);
    return BELL_OK;
}

static BELL_MUST_CHECK bell_status
take_attribute(struct eval_parser *p, const char *name, size_t at,
               struct bell_value *x)
{
    bool is_tensor = x->kind == BELL_VALUE_TENSOR;

    if (is_tensor && strcmp(name, "T") == 0)
        return reverse_axes(p, at, x);
    if (is_tensor && strcmp(name, "mT") == 0)
        return eval_take_tensor(p, bell_t(x->tensor), at, x);
    if (is_tensor && strcmp(name, "shape") == 0)
        return shape_list(p, x);
    if (is_tensor && strcmp(name, "ndim") == 0) {
        *x = bell_of_int(bell_ndim(x->tensor));
        return BELL_OK;
    }
    if (is_tensor && strcmp(name, "dtype") == 0) {
        *x = bell_of_dtype(bell_dtype_of(x->tensor));
        return BELL_OK;
    }
    if (bell_function_find(name))
        return eval_fail_at(p, at, "'%s' is a method: write .%s()", name, name);
    return eval_fail_at(p, at,
                        "%s has no attribute '%s'; tensors have T, mT, "
                        "shape, ndim and dtype",
                        bell_value_kind_name(x), name);
}

/* .name or .name(...); the current token is the point. */
static BELL_MUST_CHECK bell_status
parse_attribute(struct eval_parser *p, size_t self_at, struct bell_value *out)
{
    char name[EVAL_TEXT_MAX];
    struct bell_value self = *out;
    size_t at;

    BELL_TRY(advance(p));
    if (p->tok.kind != EVAL_TOKEN_NAME)
        return eval_fail_at(p, p->tok.at, "a name is missing after '.'");
    at = p->tok.at;
    memcpy(name, p->tok.text, sizeof(name));
    BELL_TRY(advance(p));
    if (eval_is_op(&p->tok, "("))
        return parse_call(p, name, at, &self, self_at, out);
    return take_attribute(p, name, at, out);
}

static bool
find_constant(const char *name, struct bell_value *out)
{
    static const struct {
        const char *name;
        double value;
    } floats[] = {
        {"pi", 3.14159265358979323846},
        {"e", 2.71828182845904523536},
        {"inf", INFINITY},
        {"nan", NAN},
    };
    size_t i;

    for (i = 0; i < ARRAY_LEN(floats); i++) {
        if (strcmp(name, floats[i].name) == 0) {
            *out = bell_of_float(floats[i].value);
            return true;
        }
    }
    if (strcmp(name, "True") == 0 || strcmp(name, "False") == 0)
        *out = bell_of_bool(name[0] == 'T');
    else if (strcmp(name, "None") == 0)
        *out = bell_of_none();
    else if (bell_dtype_find(name) != BELL_DEFAULT)
        *out = bell_of_dtype(bell_dtype_find(name));
    else
        return false;
    return true;
}

static bell_status
refuse_expr_name(struct eval_parser *p, const char *name, size_t at)
{
    const char *names[TOOL_LIST_MAX], *nearest;
    size_t n = 0;

    if (bell_function_find(name))
        return eval_fail_at(p, at, "'%s' is a function: write %s(...)", name,
                            name);
    for (; n < p->n_inputs && n < TOOL_LIST_MAX; n++)
        names[n] = p->inputs[n].name;
    nearest = tool_nearest(name, names, n);
    if (nearest)
        return eval_fail_at(p, at, "no input '%s'; did you mean '%s'?", name,
                            nearest);
    return eval_fail_at(p, at, "no input '%s'; give it with --in %s=FILE.npy",
                        name, name);
}

static const struct eval_input *
find_input(const struct eval_parser *p, const char *name)
{
    size_t i;

    for (i = 0; i < p->n_inputs; i++) {
        if (strcmp(p->inputs[i].name, name) == 0)
            return &p->inputs[i];
    }
    return NULL;
}

/* Skips "torch.", "torch.nn.functional." and "F.", where no input has that
 * name: what follows is the same without it. */
static BELL_MUST_CHECK bell_status
skip_modules(struct eval_parser *p)
{
    static const char *const modules[] = {"torch", "F", "nn", "functional"};
    bool inside = false;
    size_t i;

    for (;;) {
        struct eval_lexer ahead = p->lexer;
        struct eval_token next;
        for (i = 0; i < ARRAY_LEN(modules); i++) {
            if (strcmp(p->tok.text, modules[i]) == 0)
                break;
        }
        if (p->tok.kind != EVAL_TOKEN_NAME || i == ARRAY_LEN(modules) ||
            (!inside && find_input(p, p->tok.text)) ||
            eval_lex(&ahead, &next) != BELL_OK || !eval_is_op(&next, "."))
            return BELL_OK;
        BELL_TRY(advance(p));
        BELL_TRY(advance(p));
        inside = true;
    }
}

static BELL_MUST_CHECK bell_status
parse_name(struct eval_parser *p, struct bell_value *out)
{
    char name[EVAL_TEXT_MAX];
    const struct eval_input *input;
    size_t at;

    BELL_TRY(skip_modules(p));
    if (p->tok.kind != EVAL_TOKEN_NAME)
        return eval_fail_at(p, p->tok.at, "a name is missing after '.'");
    at = p->tok.at;
    memcpy(name, p->tok.text, sizeof(name));
    BELL_TRY(advance(p));
    input = find_input(p, name);
    if (eval_is_op(&p->tok, "(")) {
        if (input && !bell_function_find(name))
            return eval_fail_at(p, p->tok.at,
                                "'%s' is an input, not a function", name);
        return parse_call(p, name, at, NULL, 0, out);
    }
    if (input)
        *out = bell_of_tensor(input->tensor);
    else if (!find_constant(name, out))
        return refuse_expr_name(p, name, at);
    return BELL_OK;
}

static BELL_MUST_CHECK bell_status
parse_atom(struct eval_parser *p, struct bell_value *out)
{
    char buf[64];
    const char *str;

    switch (p->tok.kind) {
    case EVAL_TOKEN_INT:
        if (p->tok.is_negated)
            return eval_fail_at(p, p->tok.at, EVAL_TOO_WIDE);
        *out = bell_of_int(p->tok.value.i);
        return advance(p);
    case EVAL_TOKEN_FLOAT:
        *out = bell_of_float(p->tok.value.f);
        return advance(p);
    case EVAL_TOKEN_STRING:
        str = arena_copy(p->arena, p->tok.text, strlen(p->tok.text) + 1);
        if (!str)
            return eval_no_memory(p);
        *out = bell_of_str(str);
        return advance(p);
    case EVAL_TOKEN_NAME:
        BELL_TRY(refuse_words(p));
        return parse_name(p, out);
    case EVAL_TOKEN_OP:
        if (eval_is_op(&p->tok, "(") || eval_is_op(&p->tok, "["))
            return parse_brackets(p, out);
        break;
    case EVAL_TOKEN_END:
        break;
    }
    return eval_fail_at(p, p->tok.at, "expected a value, not %s",
                        found(p, buf, sizeof(buf)));
}

/* Whether x ** y is 2^63, an integer only behind a minus sign. */
static bool
is_least_power(const struct bell_value *x, const struct bell_value *y)
{
    uint64_t base = (uint64_t)x->i;

    return x->kind == BELL_VALUE_INT && y->kind == BELL_VALUE_INT && x->i > 1 &&
           y->i > 0 && (base & (base - 1)) == 0 && 63 % y->i == 0 &&
           base == 1ull << (63 / y->i);
}

/* An atom and what is attached to it; then ** and its right side, which binds
 * tighter than a sign on the left and looser than one on the right. *minus:
 * whether a minus sign is on the left, which -2^63 takes in. */
static BELL_MUST_CHECK bell_status
parse_power(struct eval_parser *p, struct bell_value *out, bool *minus)
{
    size_t self_at = p->tok.at, at;
    struct bell_value right;

    BELL_TRY(parse_atom(p, out));
    for (;;) {
        if (eval_is_op(&p->tok, "["))
            BELL_TRY(parse_index(p, out));
        else if (eval_is_op(&p->tok, "."))
            BELL_TRY(parse_attribute(p, self_at, out));
        else if (eval_is_op(&p->tok, "("))
            return eval_fail_at(p, p->tok.at, "%s cannot be called",
                                bell_value_kind_name(out));
        else
            break;
    }
    if (!eval_is_op(&p->tok, "**"))
        return BELL_OK;
    at = p->tok.at;
    BELL_TRY(advance(p));
    BELL_TRY(parse_unary(p, &right));
    if (*minus && is_least_power(out, &right)) {
        *minus = false;
        *out = bell_of_int(INT64_MIN);
        return BELL_OK;
    }
    return eval_apply(p, EVAL_POW, at, out, &right);
}

/* -2^63, whose sign comes last where there is a power. */
static BELL_MUST_CHECK bell_status
parse_least(struct eval_parser *p, struct bell_value *out)
{
    size_t at = p->tok.at;

    *out = bell_of_int(INT64_MIN);
    BELL_TRY(advance(p));
    return eval_is_op(&p->tok, "**") ? eval_fail_at(p, at, EVAL_TOO_WIDE)
                                     : BELL_OK;
}

static bool
is_sign(const struct eval_parser *p)
{
    return eval_is_op(&p->tok, "-") || eval_is_op(&p->tok, "+") ||
           eval_is_op(&p->tok, "~");
}

static bell_status
parse_unary(struct eval_parser *p, struct bell_value *out)
{
    size_t at = p->tok.at;
    bool minus = false;

    BELL_TRY(enter(p));
    if (is_sign(p)) {
        char op = p->tok.op[0];
        BELL_TRY(advance(p));
        minus = op == '-' && !is_sign(p);
        if (op == '-' && p->tok.kind == EVAL_TOKEN_INT && p->tok.is_negated) {
            BELL_TRY(parse_least(p, out));
        } else if (minus) {
            BELL_TRY(parse_power(p, out, &minus));
            if (minus)
                BELL_TRY(eval_apply_unary(p, op, at, out));
        } else {
            BELL_TRY(parse_unary(p, out));
            BELL_TRY(eval_apply_unary(p, op, at, out));
        }
    } else {
        BELL_TRY(parse_power(p, out, &minus));
    }
    p->depth--;
    return BELL_OK;
}

/* ---- the whole text --------------------------------------------------- */

static BELL_MUST_CHECK bell_status
parse_whole(struct eval_parser *p, struct bell_value *out)
{
    char buf[64];

    BELL_TRY(advance(p));
    if (p->tok.kind == EVAL_TOKEN_END)
        return eval_fail_at(p, 0, "the expression is empty");
    BELL_TRY(parse_expr(p, out));
    if (eval_is_op(&p->tok, "="))
        return eval_fail_at(p, p->tok.at, "'=' does not compare; write ==");
    if (p->tok.kind != EVAL_TOKEN_END)
        return eval_fail_at(p, p->tok.at,
                            "expected an operator or the end, not %s",
                            found(p, buf, sizeof(buf)));
    return BELL_OK;
}

static BELL_MUST_CHECK bell_status
take_one(struct eval_parser *p, const struct bell_value *v,
         struct bell_tensor **out_tensor)
{
    struct bell_tensor *t = eval_as_tensor(p, v);
    struct bell_value checked;

    if (!t && v->kind == BELL_VALUE_LIST) {
        char why[BELL_ERROR_MESSAGE];
        snprintf(why, sizeof(why), "%.300s", bell_error_last()->message);
        return eval_fail_at(
            p, 0,
            "the expression is a list of %u, and not of numbers "
            "(%s); take one of it with [0]",
            v->n_items, why);
    }
    if (!t && v->kind == BELL_VALUE_TENSOR) { /* a call without a context */
        char why[BELL_ERROR_MESSAGE];
        snprintf(why, sizeof(why), "%s", bell_error_last()->message);
        return eval_fail_at(p, 0, "%s", why);
    }
    if (!t)
        return eval_fail_at(p, 0, "the expression is %s, not a tensor",
                            bell_value_kind_name(v));
    BELL_TRY(eval_take_tensor(p, t, 0, &checked));
    *out_tensor = t;
    return BELL_OK;
}

/* A list with a tensor or another list in it: not one of numbers. */
static bool
is_several(const struct bell_value *v)
{
    uint32_t i;

    for (i = 0; v->kind == BELL_VALUE_LIST && i < v->n_items; i++) {
        if (v->items[i].kind == BELL_VALUE_TENSOR)
            return true;
    }
    return false;
}

static BELL_MUST_CHECK bell_status
take_final(struct eval_parser *p, const struct bell_value *v,
           struct bell_tensor **out_tensors, uint32_t max_tensors,
           uint32_t *out_n)
{
    uint32_t i;

    *out_n = 1;
    if (max_tensors == 1 || !is_several(v))
        return take_one(p, v, out_tensors);
    if (v->n_items > max_tensors)
        return eval_fail_at(p, 0,
                            "the expression is a list of %u, of %u at most",
                            v->n_items, max_tensors);
    for (i = 0; i < v->n_items; i++)
        BELL_TRY(take_one(p, &v->items[i], &out_tensors[i]));
    *out_n = v->n_items;
    return BELL_OK;
}

bell_status
eval_list(struct bell_context *ctx, const char *text,
          const struct eval_input *inputs, size_t n_inputs,
          struct bell_tensor **out_tensors, uint32_t max_tensors,
          uint32_t *out_n, size_t *out_at)
{
    struct eval_parser p = {.ctx = ctx,
                            .lexer = {.text = text},
                            .inputs = inputs,
                            .n_inputs = n_inputs};
    struct bell_value v;
    struct arena arena;
    bell_status status;

    arena_init(&arena);
    p.arena = &arena;
    status = parse_whole(&p, &v);
    if (status == BELL_OK)
        status = take_final(&p, &v, out_tensors, max_tensors, out_n);
    if (status != BELL_OK)
        *out_at = p.fault_at;
    arena_fini(&arena);
    return status;
}

bell_status
eval_expr(struct bell_context *ctx, const char *text,
          const struct eval_input *inputs, size_t n_inputs,
          struct bell_tensor **out_tensor, size_t *out_at)
{
    uint32_t n;

    return eval_list(ctx, text, inputs, n_inputs, out_tensor, 1, &n, out_at);
}
