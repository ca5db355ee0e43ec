/* A model over .npy files, or saved as a bundle. */
#include "tools/onnx/onnx.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/bits.h"
#include "base/json.h"
#include "base/thread.h"
#include "doorbell/module.h"
#include "tensor/files/npy.h"
#include "tools/eval/eval_print.h"

bool
onnx_is_model(const char *path)
{
    size_t n = strlen(path);

    return n > 5 && strcmp(path + n - 5, ".onnx") == 0;
}

static const struct bell_onnx_value *
model_value(const struct model_run *run, bool is_input, uint32_t i)
{
    return is_input ? bell_onnx_input(run->model, i)
                    : bell_onnx_output(run->model, i);
}

static bell_status
open_model(struct model_run *run)
{
    const struct onnx_run_options *o = run->opts;
    struct bell_jit_desc desc = {
        .struct_size = sizeof(desc), .name = o->path, .fn = bell_onnx_call};

    BELL_TRY(tool_open_context(o->device, NULL, &run->ctx));
    BELL_TRY(bell_onnx_open(run->ctx, o->path, &run->model));
    run->n_in = bell_onnx_n_inputs(run->model);
    run->n_out = bell_onnx_n_outputs(run->model);
    if (run->n_in > ONNX_RUN_VALUES || run->n_out > ONNX_RUN_VALUES)
        return bell_fail(BELL_E_UNSUPPORTED,
                         "%s: has %u inputs and %u outputs; expected at most "
                         "%d",
                         o->path, run->n_in, run->n_out, ONNX_RUN_VALUES);
    BELL_TRY(onnx_apply_shapes(run->ctx, run->model, &o->model->shapes,
                               &o->model->symbols, run->symbols,
                               &run->n_symbols));
    BELL_TRY(onnx_load_inputs(run));
    /* with symbols it is one plan for all sizes, as in a bundle */
    if (!o->save && o->times == 1 && !run->n_symbols)
        return BELL_OK;
    desc.user = run->model;
    desc.n_in = run->n_in;
    desc.n_out = run->n_out;
    return bell_jit_create(run->ctx, &desc, &run->jit);
}

static bell_status
run_model(struct model_run *run)
{
    int64_t i;

    for (i = 0; i < run->opts->times; i++) {
        uint64_t start = time_now_ns();
        double us;

        if (run->jit)
            BELL_TRY(bell_jit_call(run->jit, run->in, run->out));
        else
            BELL_TRY(bell_onnx_call(run->ctx, run->model, run->in, run->out));
        BELL_TRY(bell_realize(run->out, run->n_out));
        if (run->n_out) {
            /* waits */
            struct bell_tensor *last = run->out[run->n_out - 1];
            void *bytes = host_alloc(bell_nbytes(last) + 1);
            bell_status status =
                bytes ? bell_read(last, bytes, bell_nbytes(last))
                      : bell_fail(BELL_E_NO_MEMORY, "out of memory");

            host_free(bytes);
            BELL_TRY(status);
        }
        us = (double)(time_now_ns() - start) * 1e-3;
        if (i == 0)
            run->first_us = run->best_us = us;
        if (us < run->best_us)
            run->best_us = us;
    }
    return BELL_OK;
}

/* Names that a bundle gives, and no weight may have: "weight0", "data.0". */
static bool
is_bundles_name(const char *name)
{
    static const char *const begins[] = {"weight", "state", "data.", "random",
                                         "steps",  "rates", "in",    "out"};
    size_t i, n;

    for (i = 0; i < ARRAY_LEN(begins); i++) {
        n = strlen(begins[i]);
        if (strncmp(name, begins[i], n) == 0 &&
            strspn(name + n, ".0123456789") == strlen(name + n))
            return true;
    }
    return !*name || strchr(name, '=');
}

/* The weights by the model's names: `doorbell run m.bundle --weights FILE` can
 * replace them. */
static bell_status
name_weights(const struct model_run *run, struct bell_state *state)
{
    const struct bell_onnx_value *v;
    uint32_t i;

    for (i = 0; (v = bell_onnx_weight(run->model, i)); i++) {
        if (!is_bundles_name(v->name))
            BELL_TRY(
                bell_state_add(state, NULL, v->name, BELL_STATE_BUFFER,
                               bell_onnx_weight_tensor(run->model, v->name)));
    }
    return BELL_OK;
}

static bell_status
save_model(struct model_run *run)
{
    const struct onnx_run_options *o = run->opts;
    const char *in_names[ONNX_RUN_VALUES], *out_names[ONNX_RUN_VALUES];
    const char *own = bell_context_device(run->ctx);
    struct bell_jit_save_desc desc = {.struct_size = sizeof(desc),
                                      .targets = o->model->targets.items,
                                      .n_targets =
                                          (uint32_t)o->model->targets.n_items,
                                      .in_names = in_names,
                                      .out_names = out_names};
    struct bell_state state = {0};
    bell_status status;
    uint32_t i;

    for (i = 0; i < run->n_in; i++)
        in_names[i] = model_value(run, true, i)->name;
    for (i = 0; i < run->n_out; i++)
        out_names[i] = model_value(run, false, i)->name;
    if (desc.n_targets == 0) {
        desc.targets = &own;
        desc.n_targets = 1;
    }
    desc.state = &state;
    status = name_weights(run, &state);
    if (status == BELL_OK)
        status = bell_jit_save(run->jit, run->in, &desc, o->save);
    bell_state_fini(&state);
    return status;
}

/* ---- results ------------------------------------------------------------ */

static bell_status
store_outputs(const struct model_run *run)
{
    struct host_array array;
    const char *path;
    bell_status status;
    uint32_t number;
    size_t i;

    for (i = 0; i < run->opts->out->n_items; i++) {
        BELL_TRY(onnx_find_value(run->model, run->opts->out->items[i], false,
                                 &number, &path));
        status = onnx_read_output(run->out[number], &array);
        if (status == BELL_OK)
            status = npy_write(path, &array);
        host_array_fini(&array);
        BELL_TRY(status);
    }
    return BELL_OK;
}

static bell_status
print_outputs(const struct model_run *run, struct json *json)
{
    struct host_array array;
    bell_status status = BELL_OK;
    uint32_t i;

    for (i = 0; i < run->n_out && status == BELL_OK; i++) {
        const char *name = model_value(run, false, i)->name;

        status = onnx_read_output(run->out[i], &array);
        if (status == BELL_OK && json) {
            json_object(json, NULL);
            json_str(json, "name", name);
            json_str(json, "dtype", bell_dtype_name(array.dtype));
            eval_print_json(json, "data", &array);
            json_end(json);
        } else if (status == BELL_OK) {
            tool_printf("%s: %s\n", name, bell_dtype_name(array.dtype));
            fflush(stdout);
            status = eval_print(stdout, &array);
        }
        host_array_fini(&array);
    }
    return status;
}

static int
print_model_run(const struct model_run *run)
{
    const struct onnx_run_options *o = run->opts;
    bell_status status = BELL_OK;
    bool same = true;
    struct json json;
    int code;

    if (!o->json) {
        if (o->model->check)
            status = onnx_check_outputs(run, NULL, &same);
        else if (!o->out->n_items)
            status = print_outputs(run, NULL);
        if (status != BELL_OK)
            return tool_fail_input(false, status);
        if (o->times > 1)
            tool_printf("%" PRId64 " runs: first %.1f us, best %.1f us\n",
                        o->times, run->first_us, run->best_us);
        return same ? TOOL_OK : TOOL_FAILED;
    }
    json_init(&json);
    json_str(&json, "device", bell_context_device(run->ctx));
    json_int(&json, "runs", o->times);
    json_num(&json, "first_us", run->first_us);
    json_num(&json, "best_us", run->best_us);
    json_array(&json, o->model->check ? "checked" : "outputs");
    status = o->model->check ? onnx_check_outputs(run, &json, &same)
                             : print_outputs(run, &json);
    json_end(&json);
    if (status != BELL_OK) {
        json_fini(&json);
        return tool_fail_input(true, status);
    }
    if (o->model->check)
        json_bool(&json, "same", same);
    code = tool_print_json(&json);
    return code != TOOL_OK || same ? code : TOOL_FAILED;
}

int
onnx_run(const struct onnx_run_options *options)
{
    struct model_run run = {.opts = options};
    bell_status status = open_model(&run);
    int code;

    if (status == BELL_OK)
        status = options->save ? save_model(&run) : run_model(&run);
    if (status == BELL_OK && !options->save)
        status = store_outputs(&run);
    if (status != BELL_OK)
        code = tool_fail_input(options->json, status);
    else if (options->save)
        code = options->json ? tool_print_saved(options->save) : TOOL_OK;
    else
        code = print_model_run(&run);
    bell_jit_destroy(run.jit);
    bell_onnx_close(run.model);
    bell_context_destroy(run.ctx);
    return code;
}
