/* `doorbell onnx MODEL --device D`: the memory that a call of the model takes
 * there, and how long it takes at least by the model of the chip. */
#include <inttypes.h>
#include <string.h>

#include "base/json.h"
#include "tools/kernel_stats.h"
#include "tools/onnx/onnx.h"

/* A device whose kernels are counted: a GPU that is simulated, or only
 * compiled for. */
static bool
has_stats(const char *device)
{
    const char *form = strrchr(device, '@');

    return form && strncmp(device, "CPU", 3) != 0 &&
           (strncmp(form, "@sim:", 5) == 0 || strncmp(form, "@null:", 6) == 0);
}

static BELL_MUST_CHECK bell_status
make_empty_inputs(struct bell_context *ctx, struct bell_onnx *model,
                  struct bell_tensor **in, struct onnx_cost *cost)
{
    int64_t shape[BELL_MAX_RANK];
    uint32_t i, ndim;

    for (i = 0; i < bell_onnx_n_inputs(model); i++) {
        const struct bell_onnx_value *v = bell_onnx_input(model, i);

        if (bell_onnx_input_shape(model, i, shape, &ndim) != BELL_OK) {
            bell_error_prefix("give --shape");
            return bell_error_last()->status;
        }
        if (v->dtype == BELL_DEFAULT)
            return bell_fail(BELL_E_UNSUPPORTED, "input '%.80s' is %s", v->name,
                             v->type);
        in[i] = bell_zeros(ctx, shape, ndim, v->dtype);
        BELL_TRY(bell_realize1(in[i]));
        cost->input_bytes += bell_nbytes(in[i]);
    }
    return BELL_OK;
}

/* One call, without a jit: each of its launches is looked at. */
static BELL_MUST_CHECK bell_status
predict_call(struct bell_context *ctx, struct bell_onnx *model,
             struct bell_tensor **in, struct onnx_cost *cost)
{
    struct bell_tensor *out[ONNX_RUN_VALUES];
    struct kernel_stats *stats;
    bell_status status, ended;

    BELL_TRY(kernel_stats_begin(ctx, 1, &stats));
    status = bell_onnx_call(ctx, model, in, out);
    if (status == BELL_OK)
        status = bell_realize(out, bell_onnx_n_outputs(model));
    ended = kernel_stats_end(stats);
    if (status == BELL_OK)
        cost->has_time = kernel_stats_time(stats, &cost->us);
    kernel_stats_destroy(stats);
    return status != BELL_OK ? status : ended;
}

bell_status
onnx_measure_cost(struct bell_context *ctx, struct bell_onnx *model,
                  struct onnx_cost *cost)
{
    struct bell_jit_info info = {.struct_size = sizeof(info)};
    struct bell_jit_desc desc = {.struct_size = sizeof(desc),
                                 .name = "model",
                                 .fn = bell_onnx_call,
                                 .user = model,
                                 .n_in = bell_onnx_n_inputs(model),
                                 .n_out = bell_onnx_n_outputs(model)};
    struct bell_tensor *in[ONNX_RUN_VALUES], *out[ONNX_RUN_VALUES];
    struct bell_onnx_info facts = {.struct_size = sizeof(facts)};
    struct bell_jit *jit;
    bell_status status;
    uint32_t i;

    memset(cost, 0, sizeof(*cost));
    if (desc.n_in > ONNX_RUN_VALUES || desc.n_out > ONNX_RUN_VALUES)
        return bell_fail(BELL_E_UNSUPPORTED,
                         "%u inputs and %u outputs; expected at most %d",
                         desc.n_in, desc.n_out, ONNX_RUN_VALUES);
    bell_onnx_get_info(model, &facts);
    cost->weight_bytes = facts.weight_bytes;
    BELL_TRY(make_empty_inputs(ctx, model, in, cost));
    BELL_TRY(bell_jit_create(ctx, &desc, &jit));
    status = bell_jit_call(jit, in, out);
    if (status == BELL_OK) {
        bell_jit_get_info(jit, &info);
        cost->n_kernels = info.n_kernels;
        cost->held_bytes = info.held_bytes;
        for (i = 0; i < desc.n_out; i++)
            cost->output_bytes += bell_nbytes(out[i]);
    }
    bell_jit_destroy(jit);
    if (status == BELL_OK && has_stats(bell_context_device(ctx)))
        status = predict_call(ctx, model, in, cost);
    return status;
}

void
onnx_print_cost(const struct bell_context *ctx, const struct onnx_cost *cost)
{
    tool_printf("on %s: %u kernels\n", bell_context_device(ctx),
                cost->n_kernels);
    tool_printf("  memory: weights %" PRIu64 " bytes, activations %" PRIu64
                ", inputs %" PRIu64 ", outputs %" PRIu64 "\n",
                cost->weight_bytes, cost->held_bytes, cost->input_bytes,
                cost->output_bytes);
    if (cost->has_time)
        tool_printf("  at least %.3g us, by the model of the chip\n", cost->us);
}

void
onnx_put_cost(const struct bell_context *ctx, const struct onnx_cost *cost,
              struct json *json)
{
    json_object(json, "cost");
    json_str(json, "device", bell_context_device(ctx));
    json_uint(json, "kernels", cost->n_kernels);
    json_uint(json, "weight_bytes", cost->weight_bytes);
    json_uint(json, "activation_bytes", cost->held_bytes);
    json_uint(json, "input_bytes", cost->input_bytes);
    json_uint(json, "output_bytes", cost->output_bytes);
    if (cost->has_time)
        json_num(json, "predicted_us", cost->us);
    json_end(json);
}
