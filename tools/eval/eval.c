/* `doorbell eval`: an expression over .npy files. */
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/bits.h"
#include "doorbell/files.h"
#include "doorbell/functions.h"
#include "doorbell/jit.h"
#include "doorbell/module.h"
#include "doorbell/tensor.h"
#include "tools/eval/eval_expr.h"
#include "tools/eval/eval_lex.h"
#include "tools/eval/eval_print.h"
#include "tools/inputs.h"
#include "base/json.h"
#include "tensor/files/npy.h"
#include "tools/tools.h"

struct eval_options {
    const char *expr, *out, *device, *grad, *math, *save;
    struct tool_list in, weight, target;
    int64_t seed;
    bool json, list, markdown, jit, tunable;
};

/* One evaluation. */
struct eval_run {
    struct eval_options opts;
    struct bell_context *ctx;
    char names[2 * TOOL_LIST_MAX][64]; /* of --in, then --weight */
    struct eval_input inputs[2 * TOOL_LIST_MAX];
    size_t n_inputs;
    struct bell_tensor *outs[BELL_MAX_RESULTS];
    uint32_t n_outs; /* more than one: the expression is a list */
    size_t at;       /* where the expression is wrong */
};

/* ---- the table of functions ------------------------------------------- */

/* A row's parameters without their kinds: "input, dim=-1, dtype=None". */
static void
print_signature(FILE *out, const struct bell_function *f)
{
    const char *p = f->params;

    fprintf(out, "%s(", f->name);
    while (*p) {
        size_t name = strcspn(p, ":"), whole = strcspn(p, ",");
        const char *equals = memchr(p, '=', whole);
        bool spread = memchr(p, '*', whole) != NULL;
        fprintf(out, "%s%.*s", spread ? "*" : "", (int)name, p);
        if (equals)
            fprintf(out, "=%.*s", (int)(whole - (size_t)(equals + 2 - p)),
                    equals + 2);
        p += whole;
        if (*p == ',')
            fprintf(out, ", ");
        p += strspn(p, ", ");
    }
    fprintf(out, ")");
}

static void
print_eval_row(FILE *out, const struct bell_function *f, bool markdown)
{
    char aliases[128];

    bell_function_aliases(f, aliases, sizeof(aliases));
    if (markdown) {
        fprintf(out, "| `");
        print_signature(out, f);
        fprintf(out, "`%s%s%s | ", *aliases ? " also `" : "", aliases,
                *aliases ? "`" : "");
        for (const char *p = f->doc; *p; p++)
            fprintf(out, *p == '|' ? "\\|" : "%c", *p);
        fprintf(out, "%s |\n", f->returns_list ? " (a list)" : "");
        return;
    }
    fprintf(out, "  ");
    print_signature(out, f);
    fprintf(out, "\n      %s%s", f->doc, f->returns_list ? " (a list)" : "");
    fprintf(out, *aliases ? "; also: %s\n" : "%s\n", aliases);
}

static int
list_functions(bool markdown)
{
    const struct bell_function *f;
    const char *section = "";
    size_t i;

    if (markdown)
        tool_printf(
            "# Tensor functions\n\n"
            "For people who look up a tensor function: each by its PyTorch "
            "name, with PyTorch's meaning.\n"
            "`doorbell eval --list --markdown` prints this page from the "
            "table in `tensor/functions/`.\n\n"
            "`axis` may be written for `dim`, `keepdims` for `keepdim`. A "
            "starred parameter takes numbers\n"
            "or tensors, one by one or as a list.\n");
    for (i = 0; (f = bell_function_at(i)); i++) {
        if (strcmp(f->section, section) != 0) {
            section = f->section;
            if (markdown)
                tool_printf(
                    "\n## %s\n\n| function | what it computes |\n|---|---|\n",
                    section);
            else
                tool_printf("%s%s\n", i ? "\n" : "", section);
        }
        print_eval_row(stdout, f, markdown);
    }
    return TOOL_OK;
}

static void
json_value(struct json *json, const char *key, const struct bell_value *value)
{
    switch ((int)value->kind) {
    case BELL_VALUE_BOOL:
        json_bool(json, key, value->b);
        break;
    case BELL_VALUE_INT:
        json_int(json, key, value->i);
        break;
    case BELL_VALUE_FLOAT:
        json_num(json, key, value->f);
        break;
    case BELL_VALUE_STR:
        json_str(json, key, value->str);
        break;
    default:
        json_null(json, key);
    }
}

static void
json_function(struct json *json, const struct bell_function *f)
{
    struct bell_param params[BELL_MAX_PARAMS];
    uint32_t n = bell_function_params(f, params), i;
    char aliases[128], *text = NULL;
    struct bell_function_c c;
    size_t n_bytes;
    FILE *stream = open_memstream(&text, &n_bytes);

    if (stream) {
        print_signature(stream, f);
        fclose(stream);
    }
    bell_function_aliases(f, aliases, sizeof(aliases));
    json_object(json, NULL);
    json_str(json, "name", f->name);
    json_str(json, "aliases", aliases);
    json_str(json, "signature", text ? text : f->name);
    json_array(json, "params");
    for (i = 0; i < n; i++) {
        json_object(json, NULL);
        json_str(json, "name", params[i].name);
        json_str(json, "kind", bell_param_kind_name(params[i].kind));
        if (!params[i].required)
            json_value(json, "default", &params[i].fallback);
        json_end(json);
    }
    json_end(json);
    json_bool(json, "returns_list", f->returns_list);
    if (bell_function_c(f, &c)) {
        json_object(json, "c");
        json_str(json, "function", c.name);
        json_str(json, "args", c.args);
        json_array(json, "params");
        for (i = c.args[0] == 'c'; c.args[i]; i++)
            json_int(json, NULL, *c.params++ - '0');
        json_end(json);
        json_end(json);
    } else {
        json_null(json, "c");
    }
    json_str(json, "section", f->section);
    json_str(json, "doc", f->doc);
    json_end(json);
    free(text);
}

/* All that a binding needs: docs/reference/eval.md says what is what. */
static int
list_functions_json(void)
{
    const struct bell_function *f;
    struct bell_value value;
    struct json json;
    int i;

    json_init(&json);
    json_array(&json, "functions");
    for (i = 0; (f = bell_function_at((size_t)i)); i++)
        json_function(&json, f);
    json_end(&json);
    json_array(&json, "dtypes");
    for (i = BELL_BOOL; i < BELL_DTYPE_COUNT; i++) {
        json_object(&json, NULL);
        json_str(&json, "name", bell_dtype_name((enum bell_dtype)i));
        json_int(&json, "value", i);
        json_uint(&json, "size_bytes", bell_dtype_size((enum bell_dtype)i));
        json_end(&json);
    }
    json_end(&json);
    json_array(&json, "value_kinds");
    for (i = BELL_VALUE_NONE; i <= BELL_VALUE_LIST; i++) {
        value.kind = (enum bell_value_kind)i;
        json_str(&json, NULL, bell_value_kind_name(&value));
    }
    json_end(&json);
    json_int(&json, "max_results", BELL_MAX_RESULTS);
    return tool_print_json(&json);
}

/* ---- failures --------------------------------------------------------- */

/* Characters (not bytes of UTF-8) from `from` to `to`. */
static int
count_chars(const char *from, const char *to)
{
    int n = 0;

    for (; from < to; from++)
        n += ((unsigned char)*from & 0xc0) != 0x80;
    return n;
}

/* The line of the expression with the fault, and a caret under it; of a long
 * line the part around it. */
static void
show_place(const char *line, size_t len, const char *fault)
{
    size_t at = (size_t)(fault - line), from = at > 80 ? at - 40 : 0, i;
    char shown[128];

    while (from > 0 && ((unsigned char)line[from] & 0xc0) == 0x80)
        from--;
    if (len > from + 110)
        len = from + 110;
    tool_eprintf(from ? "  ..." : "  ");
    for (i = from; i < len; i++)
        shown[i - from] = iscntrl((unsigned char)line[i]) ? ' ' : line[i];
    tool_eprintf("%.*s\n%*s^\n", (int)(len - from), shown,
                 count_chars(line + from, fault) + (from ? 5 : 2), "");
}

static int
fail_expr(const struct eval_run *run, bell_status status, size_t at)
{
    const char *line = run->opts.expr, *fault = line + at, *newline;
    char place[64] = "";
    int n_line = 1, column, code;

    while ((newline = memchr(line, '\n', (size_t)(fault - line)))) {
        line = newline + 1;
        n_line++;
    }
    if (n_line > 1)
        snprintf(place, sizeof(place), "line %d, ", n_line);
    column = count_chars(line, fault) + 1;
    bell_error_prefix("%scolumn %d", place, column);
    code = tool_fail_input(run->opts.json, status);
    show_place(line, strcspn(line, "\n"), fault);
    return code;
}

/* ---- inputs ----------------------------------------------------------- */

static bool
is_name(const char *text, size_t len)
{
    size_t i;

    if (len == 0 || len >= 64 || isdigit((unsigned char)text[0]))
        return false;
    for (i = 0; i < len; i++) {
        if (!isalnum((unsigned char)text[i]) && text[i] != '_')
            return false;
    }
    return true;
}

static size_t
count_inputs(const struct eval_run *run)
{
    return run->opts.in.n_items + run->opts.weight.n_items;
}

/* The --in and then --weight number `i`. */
static const char *
input_item(const struct eval_run *run, size_t i)
{
    const struct tool_list *in = &run->opts.in;

    return i < in->n_items ? in->items[i]
                           : run->opts.weight.items[i - in->n_items];
}

/* FILE of "name=FILE" or "name@FILE". */
static const char *
input_path(const char *item)
{
    return item + strcspn(item, "=@") + 1;
}

/* Checks them all before anything is read. */
static int
check_inputs(struct eval_run *run)
{
    size_t i, k;

    for (i = 0; i < count_inputs(run); i++) {
        const char *item = input_item(run, i);
        size_t len = strcspn(item, "=@");
        if (!is_name(item, len) || !item[len] || !item[len + 1])
            return tool_usage(run->opts.json,
                              "eval: --%s '%s' is not name=FILE or name@FILE",
                              i < run->opts.in.n_items ? "in" : "weight", item);
        memcpy(run->names[i], item, len);
        run->names[i][len] = 0;
        for (k = 0; k < i; k++) {
            if (strcmp(run->names[k], run->names[i]) == 0)
                return tool_usage(run->opts.json, "eval: two inputs '%s'",
                                  run->names[i]);
        }
    }
    return TOOL_GO_ON;
}

static BELL_MUST_CHECK bell_status
load_input(struct eval_run *run, size_t i)
{
    const char *path = input_path(input_item(run, i));

    run->inputs[i].name = run->names[i];
    BELL_TRY(tool_read_input(run->ctx, path, true, &run->inputs[i].tensor));
    run->n_inputs = i + 1;
    return BELL_OK;
}

static struct bell_tensor *
input_called(const struct eval_run *run, const char *name)
{
    size_t i;

    for (i = 0; i < run->n_inputs; i++) {
        if (strcmp(run->inputs[i].name, name) == 0)
            return run->inputs[i].tensor;
    }
    return NULL;
}

/* ---- result ----------------------------------------------------------- */

/* *t becomes d sum(*t) / d input. */
static BELL_MUST_CHECK bell_status
differentiate_eval(struct eval_run *run, struct bell_tensor **t)
{
    struct bell_tensor *input = input_called(run, run->opts.grad), *grad;
    struct bell_tensor *loss = bell_sum(*t, BELL_NO_DIMS, false);

    if (bell_dtype_of(input) < BELL_FLOAT16)
        return bell_fail(BELL_E_INVALID,
                         "--grad %s: it is %s; only floats have gradients",
                         run->opts.grad, bell_dtype_name(bell_dtype_of(input)));
    if (bell_dtype_of(*t) < BELL_FLOAT16)
        return bell_fail(BELL_E_INVALID,
                         "--grad %s: the expression is %s; only floats have "
                         "gradients",
                         run->opts.grad, bell_dtype_name(bell_dtype_of(*t)));
    BELL_TRY(bell_gradient(loss, &input, 1, &grad));
    *t = grad;
    return BELL_OK;
}

/* Computes the tensor and copies it to the host; bfloat16 and 8-bit floats as
 * float32, for neither .npy nor printf know them. */
static BELL_MUST_CHECK bell_status
compute_eval(struct bell_tensor *t, struct host_array *out)
{
    struct host_array array = {.ndim = bell_ndim(t)};
    bell_status status;

    if (!npy_has_type(bell_dtype_of(t)))
        t = bell_cast(t, BELL_FLOAT32);
    array.dtype = bell_dtype_of(t);
    array.n_elems = bell_numel(t);
    array.size_bytes = (size_t)bell_nbytes(t);
    if (array.ndim)
        memcpy(array.shape, bell_shape(t), array.ndim * sizeof(int64_t));
    array.data = host_alloc(array.size_bytes + 1);
    if (!array.data)
        return bell_fail(BELL_E_NO_MEMORY,
                         "out of memory for a result of %zu bytes",
                         array.size_bytes);
    status = bell_read(t, array.data, array.size_bytes);
    if (status == BELL_OK)
        *out = array;
    else
        host_array_fini(&array);
    return status;
}

/* One result's part of a document. */
static void
json_result(struct json *json, const struct host_array *array,
            enum bell_dtype dtype, const char *out)
{
    uint32_t i;

    json_str(json, "dtype", bell_dtype_name(dtype));
    json_array(json, "shape");
    for (i = 0; i < array->ndim; i++)
        json_int(json, NULL, array->shape[i]);
    json_end(json);
    if (out) {
        json_str(json, "out", out);
        json_str(json, "out_dtype", bell_dtype_name(array->dtype));
    } else {
        eval_print_json(json, "values", array);
    }
}

static void
json_begin(const struct eval_run *run, struct json *json)
{
    json_init(json);
    json_str(json, "device", bell_context_device(run->ctx));
    json_str(json, "math", tool_math_words(bell_context_math(run->ctx)));
}

static int
print_result(const struct eval_run *run, const struct host_array *array,
             enum bell_dtype dtype)
{
    const struct eval_options *opts = &run->opts;
    struct json json;
    bell_status status = BELL_OK;

    if (!opts->json) {
        if (!opts->out)
            status = eval_print(stdout, array);
        return status == BELL_OK ? TOOL_OK : tool_fail(false, status);
    }
    json_begin(run, &json);
    json_result(&json, array, dtype, opts->out);
    return tool_print_json(&json);
}

static int
finish(struct eval_run *run, struct bell_tensor *t)
{
    enum bell_dtype dtype = bell_dtype_of(t);
    struct host_array array;
    bell_status status;
    int code;

    status = compute_eval(t, &array);
    if (status != BELL_OK)
        return tool_fail_input(run->opts.json, status);
    if (run->opts.out) {
        status = npy_write(run->opts.out, &array);
        if (status != BELL_OK) {
            host_array_fini(&array);
            return tool_fail(run->opts.json, status);
        }
        if (dtype != array.dtype)
            tool_eprintf("%s: %s has no .npy type; written as %s\n",
                         run->opts.out, bell_dtype_name(dtype),
                         bell_dtype_name(array.dtype));
    }
    code = print_result(run, &array, dtype);
    host_array_fini(&array);
    return code;
}

/* ---- several results, files of names ---- */

static bool
ends_in(const char *path, const char *end)
{
    size_t n = strlen(path), n_end = strlen(end);

    return n > n_end && strcmp(path + n - n_end, end) == 0;
}

/* Whether --out is a file of tensors by name. */
static bool
has_names(const char *path)
{
    return path && (ends_in(path, ".npz") || ends_in(path, ".safetensors"));
}

/* Under "0", "1"..; a single one is "out". */
static BELL_MUST_CHECK bell_status
write_named(const struct eval_run *run)
{
    struct bell_state state = {0};
    bell_status status = BELL_OK;
    char name[16];
    uint32_t i;

    for (i = 0; i < run->n_outs && status == BELL_OK; i++) {
        snprintf(name, sizeof(name), "%u", i);
        status = bell_state_add(&state, NULL, run->n_outs > 1 ? name : "out",
                                BELL_STATE_BUFFER, run->outs[i]);
    }
    if (status == BELL_OK)
        status = bell_file_save(run->opts.out, &state);
    bell_state_fini(&state);
    return status;
}

static BELL_MUST_CHECK bell_status
show_several(const struct eval_run *run, struct json *json)
{
    struct host_array array;
    bell_status status = BELL_OK;
    uint32_t i;

    for (i = 0; i < run->n_outs && status == BELL_OK; i++) {
        BELL_TRY(compute_eval(run->outs[i], &array));
        if (json) {
            json_object(json, NULL);
            json_result(json, &array, bell_dtype_of(run->outs[i]), NULL);
            json_end(json);
        } else {
            status = eval_print(stdout, &array);
        }
        host_array_fini(&array);
    }
    return status;
}

static int
finish_named(const struct eval_run *run)
{
    bell_status status = write_named(run);
    struct json json;

    if (status != BELL_OK)
        return tool_fail_input(run->opts.json, status);
    if (!run->opts.json)
        return TOOL_OK;
    json_begin(run, &json);
    json_str(&json, "out", run->opts.out);
    json_int(&json, "n_outputs", run->n_outs);
    return tool_print_json(&json);
}

static int
finish_several(const struct eval_run *run)
{
    bell_status status;
    struct json json;

    if (run->opts.out)
        return tool_usage(run->opts.json,
                          "eval: --out %s: of %u results; write a .npz or "
                          ".safetensors",
                          run->opts.out, run->n_outs);
    if (!run->opts.json) {
        status = show_several(run, NULL);
        return status == BELL_OK ? TOOL_OK : tool_fail_input(false, status);
    }
    status = bell_realize(run->outs, run->n_outs);
    if (status != BELL_OK)
        return tool_fail_input(true, status);
    json_begin(run, &json);
    json_array(&json, "outputs");
    status = show_several(run, &json);
    json_end(&json);
    if (status != BELL_OK)
        return tool_fail_input(true, status);
    return tool_print_json(&json);
}

/* ---- saving ----------------------------------------------------------- */

/* The expression as a jit's function. */
static bell_status
build(struct bell_context *ctx, void *user, struct bell_tensor *const *in,
      struct bell_tensor **out)
{
    struct eval_run *run = user;
    struct eval_input inputs[2 * TOOL_LIST_MAX];
    uint32_t n;
    size_t i;

    memcpy(inputs, run->inputs, sizeof(inputs));
    for (i = 0; i < run->opts.in.n_items; i++)
        inputs[i].tensor = in[i];
    return eval_list(ctx, run->opts.expr, inputs, run->n_inputs, out,
                     run->n_outs, &n, &run->at);
}

static bell_status
save_expr(struct eval_run *run, struct bell_jit *jit)
{
    const char *names[TOOL_LIST_MAX], *out_names[BELL_MAX_RESULTS];
    const char *const only[] = {"out"};
    char digits[BELL_MAX_RESULTS][16];
    struct bell_tensor *in[TOOL_LIST_MAX];
    const char *own = bell_context_device(run->ctx);
    const struct tool_list *targets = &run->opts.target;
    struct bell_state weights = {0};
    bell_status status = BELL_OK;
    struct bell_jit_save_desc desc = {
        .struct_size = sizeof(desc),
        .targets = targets->n_items ? targets->items : &own,
        .n_targets = targets->n_items ? (uint32_t)targets->n_items : 1,
        .in_names = names,
        .out_names = run->n_outs > 1 ? out_names : only,
        .is_tunable = run->opts.tunable,
        .state = &weights,
    };
    size_t i;

    for (i = 0; i < run->n_outs; i++) {
        snprintf(digits[i], sizeof(digits[i]), "%u", (unsigned)i);
        out_names[i] = digits[i];
    }
    for (i = 0; i < run->opts.in.n_items; i++) {
        names[i] = run->names[i];
        in[i] = run->inputs[i].tensor;
    }
    for (; status == BELL_OK && i < run->n_inputs; i++)
        status = bell_state_add(&weights, NULL, run->names[i], BELL_STATE_PARAM,
                                run->inputs[i].tensor);
    if (status == BELL_OK)
        status = bell_jit_save(jit, in, &desc, run->opts.save);
    bell_state_fini(&weights);
    return status;
}

/* The outputs become those of a call of it. */
static bell_status
call_expr(struct eval_run *run, struct bell_jit *jit)
{
    struct bell_tensor *in[TOOL_LIST_MAX];
    size_t i;

    for (i = 0; i < run->opts.in.n_items; i++)
        in[i] = run->inputs[i].tensor;
    bell_manual_seed(run->ctx, (uint64_t)run->opts.seed);
    return bell_jit_call(jit, in, run->outs);
}

/* What is to be done with the expression as a jit. */
static BELL_MUST_CHECK bell_status
with_jit(struct eval_run *run,
         bell_status (*todo)(struct eval_run *run, struct bell_jit *jit))
{
    struct bell_jit_desc desc = {
        .struct_size = sizeof(desc),
        .name = "eval",
        .fn = build,
        .user = run,
        .n_in = (uint32_t)run->opts.in.n_items,
        .n_out = run->n_outs,
    };
    struct bell_jit *jit;
    bell_status status;

    BELL_TRY(bell_jit_create(run->ctx, &desc, &jit));
    status = todo(run, jit);
    bell_jit_destroy(jit);
    return status;
}

static BELL_MUST_CHECK bell_status
change_outputs(struct eval_run *run)
{
    if (run->opts.grad && run->n_outs > 1)
        return bell_fail(BELL_E_INVALID,
                         "--grad %s: of a list of %u; take one of it with [0]",
                         run->opts.grad, run->n_outs);
    if (run->opts.grad)
        return differentiate_eval(run, &run->outs[0]);
    return run->opts.jit ? with_jit(run, call_expr) : BELL_OK;
}

static int
run_expr(struct eval_run *run)
{
    bell_status status;
    size_t i, at = 0;

    bell_manual_seed(run->ctx, (uint64_t)run->opts.seed);
    for (i = 0; i < count_inputs(run); i++) {
        status = load_input(run, i);
        if (status != BELL_OK)
            return tool_fail_input(run->opts.json, status);
    }
    status = eval_list(run->ctx, run->opts.expr, run->inputs, run->n_inputs,
                       run->outs, BELL_MAX_RESULTS, &run->n_outs, &at);
    if (status != BELL_OK)
        return fail_expr(run, status, at);
    status = run->opts.save ? with_jit(run, save_expr) : change_outputs(run);
    if (status != BELL_OK)
        return tool_fail_input(run->opts.json, status);
    if (run->opts.save)
        return run->opts.json ? tool_print_saved(run->opts.save) : TOOL_OK;
    if (has_names(run->opts.out))
        return finish_named(run);
    return run->n_outs > 1 ? finish_several(run) : finish(run, run->outs[0]);
}

/* Whether the expression has the name as an input's: not behind a point, as a
 * method's is, nor before the '=' of an argument. True where it is malformed,
 * which its parser says. */
static bool
expr_has_input(const char *expr, const char *name)
{
    struct eval_lexer lexer = {.text = expr};
    struct eval_token token, next;
    bool behind_point = false;

    if (eval_lex(&lexer, &token) != BELL_OK)
        return true;
    for (; token.kind != EVAL_TOKEN_END; token = next) {
        if (eval_lex(&lexer, &next) != BELL_OK)
            return true;
        if (token.kind == EVAL_TOKEN_NAME && !behind_point &&
            strcmp(token.text, name) == 0 && !eval_is_op(&next, "="))
            return true;
        behind_point = eval_is_op(&token, ".");
    }
    return false;
}

/* What is given and would have no effect. */
static int
check_effects(const struct eval_run *run)
{
    const struct eval_options *opts = &run->opts;
    size_t n_in = opts->in.n_items, i;

    if (opts->save && opts->out)
        return tool_usage(opts->json,
                          "eval: --out %s is without --save, which computes "
                          "nothing",
                          opts->out);
    if (opts->tunable && !opts->save)
        return tool_usage(opts->json, "eval: --tunable is of --save");
    if (opts->target.n_items && !opts->save)
        return tool_usage(opts->json, "eval: --target %s is of --save",
                          opts->target.items[0]);
    for (i = 0; i < opts->weight.n_items; i++) {
        if (!expr_has_input(opts->expr, run->names[n_in + i]))
            return tool_usage(opts->json,
                              "eval: --weight %s: the expression does not use "
                              "it",
                              run->names[n_in + i]);
    }
    return TOOL_GO_ON;
}

static int
check_eval_options(struct eval_run *run)
{
    const struct eval_options *opts = &run->opts;
    size_t i;
    int code;

    if (!opts->expr)
        return tool_usage(opts->json, "eval: no expression");
    code = tool_check_math(opts->json, "eval", opts->math);
    if (code != TOOL_GO_ON)
        return code;
    if (opts->jit && (opts->grad || opts->save))
        return tool_usage(opts->json, "eval: --jit is without --%s",
                          opts->grad ? "grad" : "save");
    code = check_inputs(run);
    if (code == TOOL_GO_ON)
        code = check_effects(run);
    if (code != TOOL_GO_ON || !opts->grad)
        return code;
    for (i = 0; i < opts->in.n_items; i++) {
        if (strcmp(run->names[i], opts->grad) == 0)
            return TOOL_GO_ON;
    }
    return tool_usage(opts->json, "eval: --grad %s: no input has that name",
                      opts->grad);
}

/* An expression may begin with a minus, "-x * 2"; as the first argument it is
 * taken for what it is. Returns how many arguments that took, 1 or 0. */
static size_t
takes_expr_first(int argc, char **argv, struct eval_options *opts)
{
    if (argc < 2 || argv[1][0] != '-' || argv[1][1] == '-' || !argv[1][1] ||
        strcmp(argv[1], "-h") == 0)
        return 0;
    opts->expr = argv[1];
    argv[1] = argv[0];
    return 1;
}

int
verb_eval(int argc, char **argv)
{
    static const char about[] =
        "eval 'EXPR' [--in name=FILE.npy]... [--out FILE.npy] [options]\n"
        "an expression over .npy files, in Python's syntax:\n\n"
        "  doorbell eval 'softmax(x @ w.T, axis=-1)[:, 2:5]' --in x=x.npy \\\n"
        "      --in w=w.npy --out y.npy\n\n"
        "FILE is also IDX or CIFAR-10, or model.gguf:NAME, a tensor of such a "
        "file, or of a\n.safetensors, its .index.json, .npz, .pth or "
        ".onnx;\nname@FILE "
        "is name=FILE.";
    struct eval_run *run = host_calloc(1, sizeof(*run));
    bell_status status;
    size_t n_skip;
    int code;

    if (!run)
        return tool_fail_text(tool_asks_for_json(argc, argv), BELL_E_NO_MEMORY,
                              "out of memory");
    const struct tool_opt opts[] = {
        {"EXPR", NULL, TOOL_OPT_STRING, &run->opts.expr, 0, 0,
         "numbers, operators, functions, [indexing]"},
        {"--in", "name=FILE", TOOL_OPT_LIST, &run->opts.in, 0, 0,
         "an input; or name=2x3:float32, random values of that shape; may be "
         "given many times"},
        {"--out", "FILE", TOOL_OPT_STRING, &run->opts.out, 0, 0,
         "write the result there instead of printing it; .npz or "
         ".safetensors where there are several"},
        {"--device", "DEVICE", TOOL_OPT_STRING, &run->opts.device, 0, 0,
         "where to compute, CPU for example"},
        TOOL_MATH_OPT(&run->opts.math),
        {"--grad", "name", TOOL_OPT_STRING, &run->opts.grad, 0, 0,
         "the result is d sum(EXPR) / d name"},
        {"--save", "FILE", TOOL_OPT_STRING, &run->opts.save, 0, 0,
         "save it as a bundle for `doorbell run`, and compute nothing"},
        {"--weight", "name=FILE", TOOL_OPT_LIST, &run->opts.weight, 0, 0,
         "an input that is saved with it"},
        {"--target", "DEVICE", TOOL_OPT_LIST, &run->opts.target, 0, 0,
         "what to save it for, CPU@null:x86-64-v3 or NV@null:h100 for "
         "example; may be given many times (default: --device)"},
        {"--tunable", NULL, TOOL_OPT_FLAG, &run->opts.tunable, 0, 0,
         "save what `doorbell tune BUNDLE` needs with it"},
        {"--jit", NULL, TOOL_OPT_FLAG, &run->opts.jit, 0, 0,
         "compute it as a function that is captured"},
        {"--seed", "N", TOOL_OPT_INT, &run->opts.seed, 0, 0,
         "of random numbers; 0"},
        TOOL_JSON_OPT(&run->opts.json),
        {"--list", NULL, TOOL_OPT_FLAG, &run->opts.list, 0, 0,
         "print every function"},
        {"--markdown", NULL, TOOL_OPT_FLAG, &run->opts.markdown, 0, 0,
         "with --list: as docs/reference/functions.md"},
    };
    n_skip = takes_expr_first(argc, argv, &run->opts);
    code = tool_parse(about, opts + n_skip, ARRAY_LEN(opts) - n_skip,
                      argc - (int)n_skip, argv + n_skip);
    if (code == TOOL_GO_ON && run->opts.list)
        code = run->opts.json ? list_functions_json()
                              : list_functions(run->opts.markdown);
    if (code == TOOL_GO_ON)
        code = check_eval_options(run);
    if (code == TOOL_GO_ON) {
        status = tool_open_context(run->opts.device, run->opts.math, &run->ctx);
        code = status == BELL_OK ? run_expr(run)
                                 : tool_fail(run->opts.json, status);
        bell_context_destroy(run->ctx);
    }
    host_free(run);
    return code;
}
