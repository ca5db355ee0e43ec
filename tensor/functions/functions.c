/* The function table: look-up by name, and calls. The rows are in
 * functions_*.c, one table per section of the documentation. */
#include "tensor/functions/functions_internal.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/bits.h"
#include "base/nearest.h"
#include "tensor/core/tensor_internal.h"

static const struct fn_table *const tables[] = {
    &fn_table_elementwise, &fn_table_reduce, &fn_table_linalg, &fn_table_shape,
    &fn_table_select,      &fn_table_nn,     &fn_table_create,
};

size_t
bell_function_count(void)
{
    size_t n = 0, i;

    for (i = 0; i < ARRAY_LEN(tables); i++)
        n += tables[i]->n_rows;
    return n;
}

static const struct fn_row *
row_at(size_t at)
{
    size_t i;

    for (i = 0; i < ARRAY_LEN(tables); i++) {
        if (at < tables[i]->n_rows)
            return &tables[i]->rows[at];
        at -= tables[i]->n_rows;
    }
    return NULL;
}

const struct bell_function *
bell_function_at(size_t i)
{
    const struct fn_row *row = row_at(i);

    return row ? &row->fn : NULL;
}

/* Goes through a list of names separated by blanks: copies the next one to
 * `word` and returns what follows it; NULL at the end. */
#define WORD_SIZE 48
static const char *
next_word(const char *text, char *word)
{
    size_t len;

    if (!text || !*text)
        return NULL;
    len = strcspn(text, " ");
    snprintf(word, WORD_SIZE, "%.*s", (int)len, text);
    return text + len + (text[len] == ' ');
}

static bool
has_alias(const struct fn_row *row, const char *name)
{
    const char *text = row->aliases;
    char word[WORD_SIZE];

    while ((text = next_word(text, word))) {
        if (strcmp(word, name) == 0)
            return true;
    }
    return false;
}

/* The row that a function is the head of, and its number; NULL where it is not
 * in the table. The address is not followed. */
static const struct fn_row *
row_of(const struct bell_function *function, size_t *out_number)
{
    size_t first = 0, i;

    for (i = 0; i < ARRAY_LEN(tables); i++) {
        const struct fn_table *table = tables[i];
        uintptr_t at = (uintptr_t)function - (uintptr_t)table->rows;

        if (at < table->n_rows * sizeof(struct fn_row) &&
            at % sizeof(struct fn_row) == 0) {
            *out_number = first + at / sizeof(struct fn_row);
            return &table->rows[at / sizeof(struct fn_row)];
        }
        first += table->n_rows;
    }
    return NULL;
}

static const struct fn_row *
find_row(const char *name)
{
    const struct fn_row *row;
    size_t i;

    for (i = 0; (row = row_at(i)); i++) {
        if (strcmp(row->fn.name, name) == 0 || has_alias(row, name))
            return row;
    }
    return NULL;
}

const struct bell_function *
bell_function_find(const char *name)
{
    const struct fn_row *row;

    if (!name) {
        (void)bell_fail(BELL_BAD_MISSING,
                        "bell_function_find: the name is NULL");
        return NULL;
    }
    row = find_row(name);
    return row ? &row->fn : NULL;
}

const char *
bell_function_nearest(const char *name)
{
    struct nearest search = {.name = name};
    const struct fn_row *row;
    size_t i;

    if (!name) {
        (void)bell_fail(BELL_BAD_MISSING,
                        "bell_function_nearest: the name is NULL");
        return NULL;
    }
    for (i = 0; (row = row_at(i)); i++) {
        const char *text = row->aliases;
        char word[WORD_SIZE];
        nearest_try(&search, row->fn.name, row->fn.name);
        while ((text = next_word(text, word)))
            nearest_try(&search, word, row->fn.name);
    }
    return search.best;
}

size_t
bell_function_aliases(const struct bell_function *function, char *buf,
                      size_t size_bytes)
{
    size_t number;
    const struct fn_row *row = row_of(function, &number);
    const char *text = row && row->aliases ? row->aliases : "";

    if (!buf && size_bytes) {
        (void)bell_fail(BELL_BAD_MISSING,
                        "bell_function_aliases: the text is NULL");
        return 0;
    }
    return (size_t)snprintf(buf, size_bytes, "%s", text);
}

const char *
fn_calls(const struct bell_function *function)
{
    size_t number;
    const struct fn_row *row = row_of(function, &number);

    return row ? row->to.name : NULL;
}

bool
bell_function_c(const struct bell_function *function,
                struct bell_function_c *out)
{
    size_t number;
    const struct fn_row *row = row_of(function, &number);

    if (!row || row->glue || (row->order && strchr(row->order, 'k')))
        return false;
    out->name = row->to.name;
    out->args = row->to.code;
    out->params = row->order ? row->order : "0123456";
    return true;
}

/* ---- calling ---------------------------------------------------------- */

struct bell_tensor *
fn_fail(const struct fn_args *args, const char *fmt, ...)
{
    char text[BELL_ERROR_MESSAGE];
    va_list list;

    va_start(list, fmt);
    vsnprintf(text, sizeof(text), fmt, list);
    va_end(list);
    return tensor_fail(args->ctx, args->row->fn.name, BELL_BAD_VALUE, "%s",
                       text);
}

struct bell_tensor *
fn_cast(struct fn_args *args, struct bell_tensor *x, uint32_t k)
{
    if (args->a[k].dtype == BELL_DEFAULT)
        return x;
    return bell_cast(x, args->a[k].dtype);
}

struct bell_tensor *
fn_scalar(const struct fn_args *args, const struct fn_arg *arg)
{
    return arg->is_int ? bell_scalar_int(args->ctx, arg->i)
                       : bell_scalar(args->ctx, arg->f);
}

bool
fn_take_reduction(struct fn_args *args, struct fn_arg *arg)
{
    static const char *const names[] = {
        [BELL_MEAN] = "mean", [BELL_SUM] = "sum", [BELL_EACH] = "none"};
    size_t i;

    for (i = 0; i < ARRAY_LEN(names); i++) {
        if (strcmp(arg->str, names[i]) == 0) {
            arg->reduction = (enum bell_reduction)i;
            return true;
        }
    }
    fn_fail(args, "reduction '%s' is not 'mean', 'sum' or 'none'", arg->str);
    return false;
}

struct bell_tensor *
fn_forward(struct fn_args *args)
{
    const struct fn_row *row = args->row;
    const char *code = row->to.code + (row->to.code[0] == 'c');
    const struct fn_arg *a[FN_MAX_ARGS];
    struct fn_arg constant;
    struct bell_tensor *out;
    uint32_t k;

    for (k = 0; code[k]; k++) {
        char from = row->order ? row->order[k] : (char)('0' + k);
        struct fn_arg *arg = from == 'k' ? &constant : &args->a[from - '0'];

        if (from == 'k')
            constant = (struct fn_arg){.given = true,
                                       .i = row->constant,
                                       .dtype = (enum bell_dtype)row->constant,
                                       .ints = &row->constant,
                                       .n = 1};
        if (code[k] == 'r' && !fn_take_reduction(args, arg))
            return bell_error_tensor(args->ctx);
        a[k] = arg;
    }
    if (args->params->cast < 0)
        return fn_apply(&row->to, args->ctx, a);
    args->a[0].t = fn_cast(args, args->a[0].t, (uint32_t)args->params->cast);
    out = fn_apply(&row->to, args->ctx, a);
    return fn_cast(args, out, (uint32_t)args->params->cast);
}

/* Parsed once in a context; NULL when out of memory. */
static const struct fn_params *
params_of(struct bell_context *ctx, const struct fn_row *row, size_t number)
{
    struct fn_params *params;
    uint32_t k;

    if (!ctx->params_of)
        ctx->params_of = arena_calloc(&ctx->functions, bell_function_count(),
                                      sizeof(*ctx->params_of));
    if (!ctx->params_of)
        return NULL;
    if (!ctx->params_of[number]) {
        params = arena_alloc(&ctx->functions, sizeof(*params));
        if (!params)
            return NULL;
        params->n = bell_function_params(&row->fn, params->list);
        params->cast = -1;
        for (k = 0; k < params->n; k++) {
            if (params->list[k].kind == BELL_PARAM_DTYPE && row->to.code &&
                !strchr(row->to.code, 'y'))
                params->cast = (int32_t)k;
        }
        ctx->params_of[number] = params;
    }
    return ctx->params_of[number];
}

/* A result is a handle of its own, also where it is an argument's value. */
static struct bell_tensor *
make_new(const struct fn_args *args, struct bell_tensor *result)
{
    uint32_t k;

    for (k = 0; k < args->params->n; k++) {
        if (result && args->a[k].t == result)
            return bell_alias(result);
    }
    return result;
}

static BELL_MUST_CHECK bell_status
call_row(struct fn_args *args)
{
    const char *was = args->ctx->labels.inner;
    struct bell_call *call = args->call;
    struct bell_tensor *result;
    bell_status status;
    uint32_t i;

    args->ctx->labels.inner = args->row->fn.name;
    result = args->row->glue ? args->row->glue(args) : fn_forward(args);
    args->ctx->labels.inner = was;
    for (i = 0; i < call->n_results; i++)
        call->results[i] = make_new(args, call->results[i]);
    result = make_new(args, result);
    if (!args->row->fn.returns_list && call->n_results == 0) {
        call->results[0] = result;
        call->n_results = 1;
    }
    status = tensor_report(args->ctx);
    if (status == BELL_OK && call->n_results == 1 && !call->results[0])
        status = bell_error_last()->status; /* of no tensor's context */
    if (status != BELL_OK)
        call->n_results = 0;
    return status;
}

static bool
is_of_another(const struct bell_context *ctx, const struct bell_value *value)
{
    const struct bell_context *owner =
        value->kind == BELL_VALUE_TENSOR && value->tensor
            ? handle_owner(value->tensor)
            : NULL;

    return owner && owner != ctx;
}

/* A call is inside one context alone. */
static bell_status
check_contexts(const struct bell_context *ctx, const char *name,
               struct bell_call *call)
{
    uint32_t i, k;

    for (i = 0; i < call->n_args; i++) {
        const struct bell_value *value = &call->args[i].value;
        bool other = is_of_another(ctx, value);
        for (k = 0; value->kind == BELL_VALUE_LIST && k < value->n_items; k++)
            other |= is_of_another(ctx, &value->items[k]);
        if (other) {
            call->bad_arg = (int32_t)i;
            return bell_fail(BELL_BAD_CONTEXT,
                             "%s: argument %u is a tensor of another context",
                             name, i);
        }
    }
    return BELL_OK;
}

bell_status
bell_function_call(struct bell_context *ctx, struct bell_call *call)
{
    struct fn_args args;
    struct arena arena = {0}; /* few calls need it */
    bell_status status;
    size_t number = 0;

    if (!call || !call->function)
        return bell_fail(BELL_BAD_MISSING, "bell_function_call: the %s is NULL",
                         call ? "function" : "call");
    call->n_results = 0;
    call->bad_arg = -1;
    BELL_TRY(tensor_report(ctx));
    args.row = row_of(call->function, &number);
    if (!args.row)
        return bell_fail(BELL_BAD_NAME,
                         "bell_function_call: the function is not a row of the "
                         "table");
    BELL_TRY(check_contexts(ctx, args.row->fn.name, call));
    args.params = params_of(ctx, args.row, number);
    if (!args.params)
        return bell_fail(BELL_E_NO_MEMORY, "%s: out of memory",
                         args.row->fn.name);
    args.ctx = ctx;
    args.call = call;
    args.arena = &arena;
    args.n_room = 0;
    status = fn_bind(&args);
    if (status == BELL_OK)
        status = call_row(&args);
    if (arena.blocks)
        arena_fini(&arena);
    return status;
}
