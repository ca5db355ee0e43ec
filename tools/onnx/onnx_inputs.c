/* Inputs of a model: which sizes they have, and which elements. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "tensor/files/array.h"
#include "tools/inputs.h"
#include "tools/onnx/media.h"
#include "tools/onnx/onnx.h"
#include "tools/shape.h"

static const struct bell_onnx_value *
model_value(const struct bell_onnx *model, bool is_input, uint32_t i)
{
    return is_input ? bell_onnx_input(model, i) : bell_onnx_output(model, i);
}

bell_status
onnx_find_value(const struct bell_onnx *model, const char *item, bool is_input,
                uint32_t *out_number, const char **out_path)
{
    const char *option = is_input ? "--in" : "--out";
    const char *equals = strchr(item, '=');
    const struct bell_onnx_value *v;
    char names[256] = "none";
    size_t n = 0;
    uint32_t i;

    /* Names may have a '=' themselves. */
    for (i = 0; (v = model_value(model, is_input, i)); i++) {
        size_t length = strlen(v->name);

        if (strncmp(item, v->name, length) == 0 && item[length] == '=' &&
            item[length + 1]) {
            *out_number = i;
            *out_path = item + length + 1;
            return BELL_OK;
        }
        if (n < sizeof(names))
            n += (size_t)snprintf(names + n, sizeof(names) - n, "%s%.40s",
                                  n ? ", " : "", v->name);
    }
    if (!equals || equals == item || !equals[1])
        return bell_fail(BELL_BAD_NAME, "%s '%.80s' is not name=FILE", option,
                         item);
    return bell_fail(BELL_BAD_NAME, "%s %.*s: the model has %s", option,
                     (int)(equals - item), item, names);
}

/* ---- sizes --------------------------------------------------------------- */

static bool
read_open_size(const char *text, int64_t *out)
{
    char *end;
    long long v;

    errno = 0;
    v = strtoll(text, &end, 10);
    if (end == text || *end || errno || v < 0 || v > INT32_MAX)
        return false;
    *out = v;
    return true;
}

/* Whether an input has a size of that name. */
static bool
has_dim(const struct bell_onnx *model, const char *name)
{
    const struct bell_onnx_value *v;
    uint32_t i, k;

    for (i = 0; (v = bell_onnx_input(model, i)); i++) {
        for (k = 0; k < v->ndim; k++) {
            if (strcmp(v->dims[k].name, name) == 0)
                return true;
        }
    }
    return false;
}

/* "seq=128", or "x=1x3x224x224" of an input. */
static bell_status
apply_shape(struct bell_onnx *model, const char *name, const char *text)
{
    int64_t shape[BELL_MAX_RANK], size;
    const struct bell_onnx_value *v;
    enum bell_dtype dtype;
    uint32_t i, ndim;

    if (read_open_size(text, &size)) {
        for (i = 0; (v = bell_onnx_input(model, i)); i++) {
            if (strcmp(v->name, name) == 0 && !has_dim(model, name))
                return bell_onnx_set_input_shape(model, i, &size, 1);
        }
        return bell_onnx_set_dim(model, name, bell_dim_of(size));
    }
    if (!tool_is_shape(text) || strchr(text, ':'))
        return bell_fail(BELL_BAD_NAME,
                         "expected NAME=SIZE or NAME=2x3, got '%.40s'", text);
    BELL_TRY(tool_parse_shape(text, shape, &ndim, &dtype));
    for (i = 0; (v = bell_onnx_input(model, i)); i++) {
        if (strcmp(v->name, name) == 0)
            return bell_onnx_set_input_shape(model, i, shape, ndim);
    }
    return bell_fail(BELL_BAD_NAME, "the model has no input '%.80s'", name);
}

/* "batch=1,seq=128", cut into its parts. */
static bell_status
apply_shapes(struct bell_onnx *model, const char *item)
{
    char *copy = host_strdup(item), *at, *next, *equals;
    bell_status status = BELL_OK;

    if (!copy)
        return bell_fail(BELL_E_NO_MEMORY, "out of memory for --shape");
    for (at = copy; at && status == BELL_OK; at = next) {
        next = strchr(at, ',');
        if (next)
            *next++ = 0;
        equals = strrchr(at, '=');
        if (!equals || equals == at) {
            status = bell_fail(BELL_BAD_NAME, "'%.80s' is not NAME=SIZE", at);
            break;
        }
        *equals = 0;
        status = apply_shape(model, at, equals + 1);
    }
    host_free(copy);
    if (status != BELL_OK)
        bell_error_prefix("--shape %.80s", item);
    return status;
}

/* "seq=1:512" */
static bell_status
apply_symbol(struct bell_context *ctx, struct bell_onnx *model,
             const char *item, struct onnx_symbol *made)
{
    const char *equals = strrchr(item, '='), *colon;
    char low[32];

    colon = equals ? strchr(equals, ':') : NULL;
    if (!colon || equals == item ||
        (size_t)(equals - item) >= sizeof(made->name) ||
        (size_t)(colon - equals) > sizeof(low))
        return bell_fail(BELL_BAD_NAME, "--symbol %.80s: expected NAME=MIN:MAX",
                         item);
    snprintf(made->name, sizeof(made->name), "%.*s", (int)(equals - item),
             item);
    snprintf(low, sizeof(low), "%.*s", (int)(colon - equals - 1), equals + 1);
    if (!read_open_size(low, &made->min) ||
        !read_open_size(colon + 1, &made->max) || made->min < 1 ||
        made->min > made->max || made->max > BELL_MAX_SYMBOL)
        return bell_fail(BELL_BAD_VALUE,
                         "--symbol %.80s: bounds must be 1 to %d, in this "
                         "order",
                         item, BELL_MAX_SYMBOL);
    made->dim = bell_symbol(ctx, made->name, made->min, made->max);
    BELL_TRY(bell_context_status(ctx));
    if (bell_onnx_set_dim(model, made->name, made->dim) != BELL_OK) {
        bell_error_prefix("--symbol %.80s", item);
        return bell_error_last()->status;
    }
    return BELL_OK;
}

bell_status
onnx_apply_shapes(struct bell_context *ctx, struct bell_onnx *model,
                  const struct tool_list *shapes,
                  const struct tool_list *symbols, struct onnx_symbol *made,
                  uint32_t *out_n_made)
{
    size_t i;

    *out_n_made = 0;
    for (i = 0; i < shapes->n_items; i++)
        BELL_TRY(apply_shapes(model, shapes->items[i]));
    if (symbols->n_items > ONNX_RUN_SYMBOLS)
        return bell_fail(BELL_BAD_VALUE, "%zu symbols; expected at most %d",
                         symbols->n_items, ONNX_RUN_SYMBOLS);
    for (i = 0; i < symbols->n_items; i++) {
        BELL_TRY(apply_symbol(ctx, model, symbols->items[i], &made[i]));
        (*out_n_made)++;
    }
    return BELL_OK;
}

/* ---- elements ------------------------------------------------------------ */

/* The elements of a tensor of numbers as one whose sizes are the model's, with
 * symbols among them. */
static bell_status
name_sizes(struct model_run *run, const int64_t *shape, uint32_t ndim,
           struct bell_tensor **t)
{
    struct host_array array;
    bell_status status = onnx_read_output(*t, &array);

    if (status == BELL_OK) {
        *t = bell_from_data(run->ctx, shape, ndim, array.dtype, array.data);
        status = bell_context_status(run->ctx);
    }
    host_array_fini(&array);
    return status;
}

/* Gives the symbols that are sizes of an input the values that its tensor has;
 * the tensor becomes one of these sizes. */
static bell_status
bind_symbols(struct model_run *run, uint32_t number)
{
    const struct bell_onnx_value *info = bell_onnx_input(run->model, number);
    struct bell_tensor *t = run->in[number];
    int64_t shape[BELL_MAX_RANK], numbers[BELL_MAX_RANK];
    uint32_t ndim, i, k;
    bool any = false;

    if (run->n_symbols == 0)
        return BELL_OK;
    ndim = bell_ndim(t);
    if (!info->has_shape || ndim != info->ndim)
        return BELL_OK; /* the call says it */
    memcpy(numbers, bell_shape(t), ndim * sizeof(*numbers));
    memcpy(shape, numbers, ndim * sizeof(*shape));
    for (i = 0; i < ndim; i++) {
        for (k = 0; k < run->n_symbols; k++) {
            const struct onnx_symbol *s = &run->symbols[k];

            if (strcmp(info->dims[i].name, s->name) != 0)
                continue;
            if (numbers[i] < s->min || numbers[i] > s->max)
                return bell_fail(
                    BELL_BAD_SHAPE,
                    "input '%.80s': axis %u has size %" PRId64
                    "; --symbol %s=%" PRId64 ":%" PRId64 " has its bounds",
                    info->name, i, numbers[i], s->name, s->min, s->max);
            BELL_TRY(bell_symbol_set(run->ctx, s->dim, numbers[i]));
            shape[i] = s->dim.word;
            any = true;
        }
    }
    return any ? name_sizes(run, shape, ndim, &run->in[number]) : BELL_OK;
}

static bell_status
load_model_input(struct model_run *run, uint32_t number, const char *text)
{
    struct bell_tensor **t = &run->in[number];

    if (media_is(text))
        BELL_TRY(media_load(run, number, text, t));
    else
        BELL_TRY(tool_read_input(run->ctx, text, true, t));
    return bell_realize1(*t);
}

/* For a bundle only sizes matter: those that the model has. */
static bell_status
make_model_input(struct model_run *run, uint32_t number)
{
    const struct bell_onnx_value *info = bell_onnx_input(run->model, number);
    int64_t shape[BELL_MAX_RANK];
    uint32_t ndim;

    if (bell_onnx_input_shape(run->model, number, shape, &ndim) != BELL_OK) {
        bell_error_prefix("give --shape, --symbol, or --in %.80s=FILE",
                          info->name);
        return bell_error_last()->status;
    }
    if (info->dtype == BELL_DEFAULT)
        return bell_fail(BELL_E_UNSUPPORTED, "input '%.80s' is %s", info->name,
                         info->type);
    run->in[number] = bell_empty(run->ctx, shape, ndim, info->dtype);
    return bell_context_status(run->ctx);
}

bell_status
onnx_load_inputs(struct model_run *run)
{
    uint32_t number, i;
    const char *path;
    size_t k;

    for (k = 0; k < run->opts->in->n_items; k++) {
        BELL_TRY(onnx_find_value(run->model, run->opts->in->items[k], true,
                                 &number, &path));
        BELL_TRY(load_model_input(run, number, path));
        BELL_TRY(bind_symbols(run, number));
    }
    for (i = 0; i < run->n_in; i++) {
        if (run->in[i])
            continue;
        if (!run->opts->save)
            return bell_fail(BELL_BAD_MISSING,
                             "input '%.80s' is missing: --in %.80s=FILE",
                             bell_onnx_input(run->model, i)->name,
                             bell_onnx_input(run->model, i)->name);
        BELL_TRY(make_model_input(run, i));
    }
    return BELL_OK;
}
