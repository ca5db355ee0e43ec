/* Parameters of table functions: parsing their text, binding arguments to
 * them as Python would, converting values. */
#include "tensor/functions/functions_internal.h"

#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/bits.h"
#include "base/nearest.h"
#include "base/status.h"

/* ---- names ------------------------------------------------------------ */

const char *
bell_value_kind_name(const struct bell_value *value)
{
    static const char *const names[] = {
        [BELL_VALUE_NONE] = "None",       [BELL_VALUE_BOOL] = "a bool",
        [BELL_VALUE_INT] = "an int",      [BELL_VALUE_FLOAT] = "a float",
        [BELL_VALUE_DTYPE] = "a dtype",   [BELL_VALUE_STR] = "a string",
        [BELL_VALUE_TENSOR] = "a tensor", [BELL_VALUE_LIST] = "a list",
    };

    return names[value ? value->kind : BELL_VALUE_NONE];
}

/* ---- the text of parameters ------------------------------------------- */

static bool
same_word(const char *text, size_t len, const char *word)
{
    return strlen(word) == len && memcmp(text, word, len) == 0;
}

const char *
bell_param_kind_name(enum bell_param_kind kind)
{
    static const char *const names[] = {
        [BELL_PARAM_TENSOR] = "tensor",
        [BELL_PARAM_TENSORS] = "tensors",
        [BELL_PARAM_INT] = "int",
        [BELL_PARAM_TENSORS_SPREAD] = "tensors*",
        [BELL_PARAM_FLOAT] = "float",
        [BELL_PARAM_NUMBER] = "number",
        [BELL_PARAM_BOOL] = "bool",
        [BELL_PARAM_STR] = "str",
        [BELL_PARAM_INTS] = "ints",
        [BELL_PARAM_INTS_SPREAD] = "ints*",
        [BELL_PARAM_DTYPE] = "dtype",
        [BELL_PARAM_DATA] = "data",
        [BELL_PARAM_INTS_OR_STR] = "ints/str",
        [BELL_PARAM_FLOATS] = "floats",
    };

    return (size_t)kind < ARRAY_LEN(names) ? names[kind] : NULL;
}

static bool
parse_kind(const char *text, size_t len, enum bell_param_kind *out_kind)
{
    const char *name;
    int kind;

    for (kind = 0; (name = bell_param_kind_name((enum bell_param_kind)kind));
         kind++) {
        if (same_word(text, len, name)) {
            *out_kind = (enum bell_param_kind)kind;
            return true;
        }
    }
    return false;
}

/* None, True, False, 'text', or a number. */
static bool
parse_default(struct bell_param *param, const char *text, size_t len)
{
    char *end;

    if (same_word(text, len, "None")) {
        param->fallback = bell_of_none();
    } else if (same_word(text, len, "True") || same_word(text, len, "False")) {
        param->fallback = bell_of_bool(text[0] == 'T');
    } else if (len >= 2 && text[0] == '\'' && text[len - 1] == '\'' &&
               len - 2 < sizeof(param->fallback_str)) {
        memcpy(param->fallback_str, text + 1, len - 2);
        param->fallback_str[len - 2] = 0;
        param->fallback = bell_of_str(param->fallback_str);
    } else if (memchr(text, '.', len) || memchr(text, 'e', len)) {
        param->fallback = bell_of_float(strtod(text, &end));
        return end == text + len;
    } else {
        param->fallback = bell_of_int(strtoll(text, &end, 10));
        return end == text + len;
    }
    return true;
}

/* "name: kind" or "name: kind = default", len bytes. */
static bool
parse_param(const char *text, size_t len, struct bell_param *param)
{
    const char *colon = memchr(text, ':', len), *kind, *end = text + len;
    const char *equals = memchr(text, '=', len);
    const char *kind_end = equals ? equals - 1 : end;

    memset(param, 0, sizeof(*param));
    if (!colon || colon == text ||
        (size_t)(colon - text) >= sizeof(param->name) || colon + 2 >= end)
        return false;
    memcpy(param->name, text, (size_t)(colon - text));
    kind = colon + 2;
    param->required = !equals;
    if (!parse_kind(kind, (size_t)(kind_end - kind), &param->kind))
        return false;
    return !equals ||
           parse_default(param, equals + 2, (size_t)(end - equals - 2));
}

uint32_t
bell_function_params(const struct bell_function *function,
                     struct bell_param *out)
{
    const char *text;
    uint32_t n = 0;

    if (!function || !out) {
        (void)bell_fail(BELL_BAD_MISSING,
                        "bell_function_params: the %s is NULL",
                        function ? "list" : "function");
        return 0;
    }
    text = function->params;
    while (*text) {
        size_t len = strcspn(text, ",");
        if (n == BELL_MAX_PARAMS || !parse_param(text, len, &out[n]))
            return 0;
        n++;
        text += len;
        if (*text == ',')
            text += text[1] == ' ' ? 2 : 1;
    }
    return n;
}

/* ---- binding ---------------------------------------------------------- */

void *
fn_alloc(struct fn_args *args, size_t size_bytes)
{
    size_t at = args->n_room;

    if (size_bytes > FN_ROOM - at)
        return arena_alloc(args->arena, size_bytes);
    args->n_room = align_up(at + size_bytes, 16);
    return args->room + at;
}

/* Arguments being matched to parameters. */
struct binding {
    struct fn_args *args;
    const char *name; /* of the function */
    const struct bell_param *params;
    uint32_t n_params;
    struct bell_value values[BELL_MAX_PARAMS];
    int32_t from[BELL_MAX_PARAMS]; /* number of the argument, or -1 */
    struct bell_call *call;
};

static bool
same_param_name(const char *param, const char *given)
{
    static const char *const synonyms[][2] = {
        {"dim", "axis"},         {"dims", "axes"},  {"dim", "dims"},
        {"dim", "axes"},         {"dims", "axis"},  {"dims", "dim"},
        {"keepdim", "keepdims"}, {"size", "shape"}, {"shape", "size"},
        {"dim0", "axis0"},       {"dim1", "axis1"}, {"dim1", "axis1"},
        {"dim2", "axis2"},
    };
    size_t i;

    if (strcmp(param, given) == 0)
        return true;
    for (i = 0; i < ARRAY_LEN(synonyms); i++) {
        if (strcmp(param, synonyms[i][0]) == 0 &&
            strcmp(given, synonyms[i][1]) == 0)
            return true;
    }
    return false;
}

static bool
may_join(enum bell_param_kind kind, const struct bell_value *value)
{
    if (kind == BELL_PARAM_INTS_SPREAD)
        return value->kind == BELL_VALUE_INT;
    return kind == BELL_PARAM_TENSORS_SPREAD &&
           value->kind == BELL_VALUE_TENSOR;
}

/* Makes a list of the positional arguments from *arg on that belong to a
 * spread parameter. */
static BELL_MUST_CHECK bell_status
join_positional(struct binding *b, uint32_t param, uint32_t *arg)
{
    const struct bell_call *call = b->call;
    struct bell_value *items;
    uint32_t n = 0, i;

    assert(param < b->n_params);
    while (*arg + n < call->n_args && !call->args[*arg + n].name &&
           may_join(b->params[param].kind, &call->args[*arg + n].value))
        n++;
    if (n == 1 && b->params[param].kind == BELL_PARAM_INTS_SPREAD) {
        b->values[param] = call->args[(*arg)++].value; /* is one, too */
        return BELL_OK;
    }
    items = fn_alloc(b->args, n * sizeof(*items) + 1);
    if (!items)
        return bell_fail(BELL_E_NO_MEMORY, "%s: %u arguments: out of memory",
                         b->name, n);
    for (i = 0; i < n; i++)
        items[i] = call->args[*arg + i].value;
    b->values[param] = bell_of_list(items, n);
    *arg += n;
    return BELL_OK;
}

static BELL_MUST_CHECK bell_status
bind_positional(struct binding *b, uint32_t *out_next)
{
    const struct bell_call *call = b->call;
    uint32_t arg = 0, param = 0;

    while (arg < call->n_args && !call->args[arg].name) {
        if (param == b->n_params) {
            b->call->bad_arg = (int32_t)arg;
            return bell_fail(BELL_BAD_VALUE,
                             "%s: takes at most %u arguments: (%s)", b->name,
                             b->n_params, call->function->params);
        }
        b->from[param] = (int32_t)arg;
        if (may_join(b->params[param].kind, &call->args[arg].value)) {
            BELL_TRY(join_positional(b, param, &arg));
        } else {
            b->values[param] = call->args[arg].value;
            arg++;
        }
        param++;
    }
    *out_next = arg;
    return BELL_OK;
}

static bell_status
refuse_keyword(const struct binding *b, const char *name)
{
    struct nearest search = {.name = name};
    uint32_t i;

    for (i = 0; i < b->n_params; i++)
        nearest_try(&search, b->params[i].name, b->params[i].name);
    if (search.best)
        return bell_fail(BELL_BAD_NAME,
                         "%s: no parameter '%s'; did you mean '%s'?", b->name,
                         name, search.best);
    return bell_fail(BELL_BAD_NAME, "%s: no parameter '%s' in (%s)", b->name,
                     name, b->call->function->params);
}

static BELL_MUST_CHECK bell_status
bind_keyword(struct binding *b, uint32_t arg)
{
    const struct bell_arg *given = &b->call->args[arg];
    uint32_t i;

    assert(arg < b->call->n_args);
    b->call->bad_arg = (int32_t)arg;
    if (!given->name)
        return bell_fail(BELL_BAD_VALUE,
                         "%s: a positional argument after a named one",
                         b->name);
    for (i = 0; i < b->n_params; i++) {
        if (same_param_name(b->params[i].name, given->name))
            break;
    }
    if (i == b->n_params && b->args->row->takes_names) {
        b->call->bad_arg = -1;
        return BELL_OK;
    }
    if (i == b->n_params)
        return refuse_keyword(b, given->name);
    if (b->from[i] >= 0)
        return bell_fail(BELL_BAD_VALUE, "%s: '%s' is given twice", b->name,
                         b->params[i].name);
    b->from[i] = (int32_t)arg;
    b->values[i] = given->value;
    b->call->bad_arg = -1;
    return BELL_OK;
}

/* ---- conversion ------------------------------------------------------- */

static const char *
kind_wanted(enum bell_param_kind kind)
{
    static const char *const names[] = {
        [BELL_PARAM_TENSOR] = "a tensor or number",
        [BELL_PARAM_TENSORS] = "a list of tensors",
        [BELL_PARAM_TENSORS_SPREAD] = "tensors or a list of them",
        [BELL_PARAM_INT] = "an int",
        [BELL_PARAM_FLOAT] = "a number",
        [BELL_PARAM_NUMBER] = "a number",
        [BELL_PARAM_BOOL] = "a bool",
        [BELL_PARAM_STR] = "a string",
        [BELL_PARAM_INTS] = "an int or a list of ints",
        [BELL_PARAM_INTS_SPREAD] = "ints or a list of them",
        [BELL_PARAM_DTYPE] = "a dtype",
        [BELL_PARAM_DATA] = "numbers in lists",
        [BELL_PARAM_INTS_OR_STR] = "an int, a list of ints or a string",
        [BELL_PARAM_FLOATS] = "a number or a list of numbers",
    };

    return names[kind];
}

static bell_status
refuse_value(struct binding *b, uint32_t k, const struct bell_value *value)
{
    const struct bell_param *param = &b->params[k];
    bool item = value != &b->values[k];

    assert(k < b->n_params);
    b->call->bad_arg = b->from[k];
    return bell_fail(BELL_BAD_VALUE, "%s: '%s' must be %s, not %s%s", b->name,
                     param->name, kind_wanted(param->kind),
                     item ? "a list with " : "", bell_value_kind_name(value));
}

static bool
bind_to_int(const struct bell_value *value, int64_t *out)
{
    if (value->kind == BELL_VALUE_INT)
        *out = value->i;
    else if (value->kind == BELL_VALUE_BOOL)
        *out = value->b;
    else
        return false;
    return true;
}

bool
fn_is_exact(const struct fn_arg *arg)
{
    return !arg->is_int || (fabs(arg->f) < 0x1p63 && (int64_t)arg->f == arg->i);
}

static bool
to_number(const struct bell_value *value, struct fn_arg *arg)
{
    if (value->kind == BELL_VALUE_FLOAT) {
        arg->f = value->f;
        return true;
    }
    arg->is_int = bind_to_int(value, &arg->i);
    arg->f = (double)arg->i;
    return arg->is_int;
}

static struct bell_tensor *
to_tensor(const struct binding *b, const struct bell_value *value)
{
    struct bell_context *ctx = b->args->ctx;

    switch (value->kind) {
    case BELL_VALUE_TENSOR:
        return value->tensor;
    case BELL_VALUE_FLOAT:
        return bell_scalar(ctx, value->f);
    case BELL_VALUE_INT:
        return bell_scalar_int(ctx, value->i);
    case BELL_VALUE_BOOL:
        return bell_full(ctx, BELL_NO_DIMS, value->b, BELL_BOOL);
    case BELL_VALUE_NONE:
    case BELL_VALUE_DTYPE:
    case BELL_VALUE_STR:
    case BELL_VALUE_LIST:
        break;
    }
    return NULL;
}

static BELL_MUST_CHECK bell_status
convert_ints(struct binding *b, uint32_t k, struct fn_arg *arg)
{
    const struct bell_value *value = &b->values[k];
    bool is_list = value->kind == BELL_VALUE_LIST;
    int64_t *ints;
    uint32_t i;

    assert(k < b->n_params);
    if (value->kind == BELL_VALUE_INT) { /* needs no memory */
        arg->n = 1;
        arg->i = value->i;
        arg->ints = &arg->i;
        return BELL_OK;
    }
    arg->n = is_list ? value->n_items : 1;
    ints = fn_alloc(b->args, (arg->n + 1) * sizeof(*ints));
    if (!ints)
        return bell_fail(BELL_E_NO_MEMORY, "%s: %u ints: out of memory",
                         b->name, arg->n);
    for (i = 0; i < arg->n; i++) {
        const struct bell_value *item = is_list ? &value->items[i] : value;
        if (item->kind != BELL_VALUE_INT)
            return refuse_value(b, k, item);
        ints[i] = item->i;
    }
    arg->ints = ints;
    return BELL_OK;
}

static BELL_MUST_CHECK bell_status
convert_floats(struct binding *b, uint32_t k, struct fn_arg *arg)
{
    const struct bell_value *value = &b->values[k];
    bool is_list = value->kind == BELL_VALUE_LIST;
    struct fn_arg number;
    double *floats;
    uint32_t i;

    assert(k < b->n_params);
    arg->n = is_list ? value->n_items : 1;
    floats = fn_alloc(b->args, (arg->n + 1) * sizeof(*floats));
    if (!floats)
        return bell_fail(BELL_E_NO_MEMORY, "%s: %u numbers: out of memory",
                         b->name, arg->n);
    for (i = 0; i < arg->n; i++) {
        const struct bell_value *item = is_list ? &value->items[i] : value;
        if (!to_number(item, &number))
            return refuse_value(b, k, item);
        floats[i] = number.f;
    }
    arg->floats = floats;
    return BELL_OK;
}

static BELL_MUST_CHECK bell_status
convert_tensors(struct binding *b, uint32_t k, struct fn_arg *arg)
{
    const struct bell_value *value = &b->values[k];
    struct bell_tensor **ts;
    uint32_t i;

    assert(k < b->n_params);
    if (value->kind != BELL_VALUE_LIST)
        return refuse_value(b, k, value);
    arg->n = value->n_items;
    arg->ts = ts = fn_alloc(b->args, (arg->n + 1) * sizeof(*ts));
    if (!ts)
        return bell_fail(BELL_E_NO_MEMORY, "%s: %u tensors: out of memory",
                         b->name, arg->n);
    for (i = 0; i < arg->n; i++) {
        ts[i] = to_tensor(b, &value->items[i]);
        if (!ts[i])
            return refuse_value(b, k, &value->items[i]);
    }
    return BELL_OK;
}

static BELL_MUST_CHECK bell_status
convert_value(struct binding *b, uint32_t k, struct fn_arg *arg)
{
    const struct bell_value *value = &b->values[k];
    bool ok = false;

    assert(k < b->n_params);
    switch (b->params[k].kind) {
    case BELL_PARAM_TENSOR:
        arg->t = to_tensor(b, value);
        ok = arg->t != NULL;
        break;
    case BELL_PARAM_TENSORS:
    case BELL_PARAM_TENSORS_SPREAD:
        return convert_tensors(b, k, arg);
    case BELL_PARAM_INT:
        ok = bind_to_int(value, &arg->i);
        break;
    case BELL_PARAM_FLOAT:
        ok = to_number(value, arg);
        if (ok && !fn_is_exact(arg)) {
            b->call->bad_arg = b->from[k];
            return bell_fail(BELL_BAD_VALUE, "%s: '%s': %lld is not a float64",
                             b->name, b->params[k].name, (long long)arg->i);
        }
        break;
    case BELL_PARAM_NUMBER:
        ok = to_number(value, arg);
        break;
    case BELL_PARAM_BOOL:
        ok = value->kind == BELL_VALUE_BOOL;
        arg->b = ok && value->b;
        break;
    case BELL_PARAM_INTS_OR_STR:
        if (value->kind != BELL_VALUE_STR)
            return convert_ints(b, k, arg);
        arg->str = value->str;
        ok = true;
        break;
    case BELL_PARAM_FLOATS:
        return convert_floats(b, k, arg);
    case BELL_PARAM_STR:
        ok = value->kind == BELL_VALUE_STR;
        arg->str = ok ? value->str : NULL;
        break;
    case BELL_PARAM_INTS:
    case BELL_PARAM_INTS_SPREAD:
        return convert_ints(b, k, arg);
    case BELL_PARAM_DTYPE:
        ok = value->kind == BELL_VALUE_DTYPE;
        arg->dtype = ok ? value->dtype : BELL_DEFAULT;
        break;
    case BELL_PARAM_DATA:
        ok = true;
        break;
    }
    return ok ? BELL_OK : refuse_value(b, k, value);
}

static BELL_MUST_CHECK bell_status
convert_all(struct binding *b)
{
    uint32_t k;

    for (k = 0; k < b->n_params; k++) {
        const struct bell_param *param = &b->params[k];
        struct fn_arg *arg = &b->args->a[k];
        if (b->from[k] < 0 && param->required)
            return bell_fail(BELL_BAD_MISSING, "%s: '%s' is missing in (%s)",
                             b->name, param->name, b->call->function->params);
        if (b->from[k] < 0)
            b->values[k] = param->fallback;
        arg->v = b->values[k];
        arg->given = arg->v.kind != BELL_VALUE_NONE;
        if (!arg->given) {
            if (param->required || param->fallback.kind != BELL_VALUE_NONE)
                return refuse_value(b, k, &b->values[k]);
            continue;
        }
        BELL_TRY(convert_value(b, k, arg));
    }
    return BELL_OK;
}

bell_status
fn_bind(struct fn_args *args)
{
    struct binding b;
    uint32_t i, arg = 0;

    b.args = args;
    b.name = args->row->fn.name;
    b.call = args->call;
    b.params = args->params->list;
    b.n_params = args->params->n;
    for (i = 0; i < b.n_params; i++) {
        b.from[i] = -1;
        args->a[i] = (struct fn_arg){0};
    }
#ifndef NDEBUG
    /* no bools: sanitizers tell of a function that looks at them */
    memset(args->a + b.n_params, 0xff,
           (BELL_MAX_PARAMS - b.n_params) * sizeof(args->a[0]));
#endif
    BELL_TRY(bind_positional(&b, &arg));
    for (; arg < args->call->n_args; arg++)
        BELL_TRY(bind_keyword(&b, arg));
    return convert_all(&b);
}
