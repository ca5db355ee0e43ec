/* `doorbell bench --model`: arguments, and the prediction as text or JSON. */
#include <stdio.h>
#include <string.h>

#include "base/bits.h"
#include "base/json.h"
#include "tools/plan/plan.h"
#include "tools/tools.h"

#define CHOICES_MAX 32
#define GIB         1073741824.0

struct options {
    const char *model, *machine, *dtype, *checkpoint;
    int64_t n_devices, tensor, context, pipeline, interleave, zero, micro,
        batch, length, gradient_bytes, search, n_bytes;
    bool sequence, no_flash, frozen, overlap_tensor, explain, list, json;
};

/* ---- text ---------------------------------------------------------------- */

static void
print_layout(const struct plan_layout *l)
{
    tool_printf("data %u, tensor %u, pipeline %u", l->data, l->tensor,
                l->pipeline);
    if (l->interleave > 1)
        tool_printf(" in %u parts", l->interleave);
    if (l->context > 1)
        tool_printf(", context %u", l->context);
    tool_printf(", ZeRO %u%s, checkpoint %s, micro-batch %u", l->zero,
                l->sequence ? ", sequence" : "",
                plan_checkpoint_names[l->checkpoint], l->micro);
}

static void
print_bytes(const char *axis, const double *n_bytes)
{
    tool_printf("  %-20s %12.3f GB within a box %12.3f GB between\n", axis,
                n_bytes[0] / 1e9, n_bytes[1] / 1e9);
}

static void
print_prediction(const struct plan_machine *machine,
                 const struct plan_model *model, const struct plan_layout *l,
                 const struct plan_prediction *x, bool explain)
{
    uint32_t i;

    tool_printf("%s (%s), %.2f billion parameters, %s\n", model->name,
                model->about, x->n_params / 1e9, plan_dtype_names[l->dtype]);
    tool_printf("%u devices of %s (%s)\n",
                l->data * l->context * l->tensor * l->pipeline, machine->name,
                machine->about);
    print_layout(l);
    tool_printf("\n%u sequences of %u tokens a step, %.0f micro-batches a "
                "device\n\n",
                l->batch, l->length, x->n_micro);
    tool_printf("step                   %10.4g s\n", x->step_s);
    for (i = 0; i < PLAN_PART_COUNT; i++) {
        tool_printf("  %-20s %10.4g s %5.1f %%\n", plan_part_names[i],
                    x->part_s[i], 100 * x->part_s[i] / x->step_s);
        if (explain)
            tool_printf("      %s\n", plan_part_formulas[i]);
    }
    tool_printf("tokens a second        %10.0f of a device\n", x->tokens_per_s);
    tool_printf("model's operations     %10.0f TFLOP/s of a device, %.1f %% of "
                "its peak\n",
                x->model_tflops, 100 * x->utilisation);
    tool_printf("sent by a device in a step\n");
    print_bytes("tensor axis", x->tensor_bytes);
    print_bytes("context axis", x->context_bytes);
    print_bytes("data axis", x->data_bytes);
    print_bytes("pipeline", x->pipeline_bytes);
    tool_printf("memory                 %10.2f GiB of %.0f\n",
                x->memory_bytes / GIB, x->capacity_bytes / GIB);
    for (i = 0; i < PLAN_MEMORY_COUNT; i++)
        tool_printf("  %-20s %10.2f GiB\n", plan_memory_names[i],
                    x->memory[i] / GIB);
}

/* ---- documents ----------------------------------------------------------- */

/* "scores of words" -> "scores_of_words" */
static void
put_num(struct json *json, const char *name, const char *unit, double value)
{
    char key[64], *at;

    snprintf(key, sizeof(key), "%s_%s", name, unit);
    for (at = key; *at; at++)
        *at = *at == ' ' ? '_' : *at;
    json_num(json, key, value);
}

static void
put_layout(struct json *json, const struct plan_layout *l)
{
    json_object(json, "layout");
    json_uint(json, "data", l->data);
    json_uint(json, "tensor", l->tensor);
    json_uint(json, "context", l->context);
    json_uint(json, "pipeline", l->pipeline);
    json_uint(json, "interleave", l->interleave);
    json_uint(json, "zero", l->zero);
    json_bool(json, "sequence", l->sequence);
    json_str(json, "checkpoint", plan_checkpoint_names[l->checkpoint]);
    json_str(json, "dtype", plan_dtype_names[l->dtype]);
    json_uint(json, "micro", l->micro);
    json_uint(json, "batch", l->batch);
    json_uint(json, "length", l->length);
    json_uint(json, "gradient_bytes", l->gradient_bytes);
    json_bool(json, "flash", !l->no_flash);
    json_bool(json, "frozen", l->frozen);
    json_bool(json, "overlap_tensor", l->overlap_tensor);
    json_end(json);
}

static void
put_prediction(struct json *json, const struct plan_layout *layout,
               const struct plan_prediction *x)
{
    static const char *const axes[] = {"tensor", "context", "data", "pipeline"};
    const double *sent[] = {x->tensor_bytes, x->context_bytes, x->data_bytes,
                            x->pipeline_bytes};
    uint32_t i;

    json_object(json, NULL);
    put_layout(json, layout);
    json_num(json, "step_s", x->step_s);
    json_num(json, "tokens_per_s", x->tokens_per_s);
    json_num(json, "model_tflops", x->model_tflops);
    json_num(json, "utilisation", x->utilisation);
    json_num(json, "n_params", x->n_params);
    json_num(json, "micro_batches", x->n_micro);
    json_object(json, "parts");
    for (i = 0; i < PLAN_PART_COUNT; i++)
        put_num(json, plan_part_names[i], "s", x->part_s[i]);
    json_end(json);
    json_object(json, "sent");
    for (i = 0; i < ARRAY_LEN(axes); i++) {
        put_num(json, axes[i], "inside_bytes", sent[i][0]);
        put_num(json, axes[i], "between_bytes", sent[i][1]);
    }
    json_end(json);
    json_object(json, "memory");
    for (i = 0; i < PLAN_MEMORY_COUNT; i++)
        put_num(json, plan_memory_names[i], "bytes", x->memory[i]);
    json_end(json);
    json_num(json, "memory_bytes", x->memory_bytes);
    json_num(json, "capacity_bytes", x->capacity_bytes);
    json_end(json);
}

static int
print_choices(const struct plan_machine *machine,
              const struct plan_model *model, const struct plan_choice *choices,
              size_t n)
{
    struct json json;
    size_t i;

    json_init(&json);
    json_uint(&json, "doorbell_plan", 1);
    json_str(&json, "model", model->name);
    json_str(&json, "machine", machine->name);
    json_array(&json, "predictions");
    for (i = 0; i < n; i++)
        put_prediction(&json, &choices[i].layout, &choices[i].prediction);
    json_end(&json);
    return tool_print_json(&json);
}

static int
print_rows(bool as_json)
{
    struct json json;
    size_t i;

    if (!as_json) {
        for (i = 0; i < plan_n_models; i++)
            tool_printf(
                "%-14s %8.2f billion parameters, %s\n", plan_models[i].name,
                plan_params(&plan_models[i], plan_models[i].length) / 1e9,
                plan_models[i].about);
        tool_printf("\n");
        for (i = 0; i < plan_n_machines; i++)
            tool_printf("%-14s %s\n", plan_machines[i].name,
                        plan_machines[i].about);
        return TOOL_OK;
    }
    json_init(&json);
    json_array(&json, "models");
    for (i = 0; i < plan_n_models; i++) {
        json_object(&json, NULL);
        json_str(&json, "name", plan_models[i].name);
        json_str(&json, "about", plan_models[i].about);
        json_num(&json, "n_params",
                 plan_params(&plan_models[i], plan_models[i].length));
        json_end(&json);
    }
    json_end(&json);
    json_array(&json, "machines");
    for (i = 0; i < plan_n_machines; i++) {
        json_object(&json, NULL);
        json_str(&json, "name", plan_machines[i].name);
        json_str(&json, "about", plan_machines[i].about);
        json_end(&json);
    }
    json_end(&json);
    return tool_print_json(&json);
}

/* ---- one collective ------------------------------------------------------ */

static int
print_exchange(const struct options *o, const struct plan_machine *machine,
               enum hcq_collective_kind kind)
{
    uint32_t n = (uint32_t)o->n_devices;
    double factor = (n - 1.0) / n, n_bytes = (double)o->n_bytes;
    enum hcq_collective_algorithm by = HCQ_COLLECTIVE_AUTO;
    struct plan_exchange one;
    struct json json;
    bell_status status;

    if (n < 2)
        return tool_usage(o->json, "bench: a collective needs --devices 2 or "
                                   "more");
    if (kind == HCQ_COLLECTIVE_ALL_REDUCE)
        factor *= 2;
    /* what NCCL takes where it can, for sizes that matter */
    if (kind == HCQ_COLLECTIVE_ALL_REDUCE && machine->has_team &&
        n <= machine->n_per_node)
        by = HCQ_COLLECTIVE_NVLS;
    status = plan_exchange(machine, kind, by, n, 1, n_bytes, &one);
    if (status != BELL_OK)
        return tool_fail(o->json, status);
    if (o->json) {
        json_init(&json);
        json_uint(&json, "doorbell_plan", 1);
        json_str(&json, "collective", hcq_collective_kind_name(kind));
        json_str(&json, "machine", machine->name);
        json_uint(&json, "n_devices", n);
        json_num(&json, "bytes", n_bytes);
        json_num(&json, "us", one.s * 1e6);
        json_num(&json, "algbw_gb_s", n_bytes / one.s / 1e9);
        json_num(&json, "busbw_gb_s", factor * n_bytes / one.s / 1e9);
        json_end(&json);
        return tool_print_json(&json);
    }
    tool_printf("%s of %.0f bytes, %u devices of %s: %.1f us, algbw %.1f GB/s, "
                "busbw %.1f GB/s\n",
                hcq_collective_kind_name(kind), n_bytes, n, machine->name,
                one.s * 1e6, n_bytes / one.s / 1e9,
                factor * n_bytes / one.s / 1e9);
    return TOOL_OK;
}

/* ---- the verb ------------------------------------------------------------ */

static int
unknown(const struct options *o, const char *what, const char *name,
        const char *const *names, size_t n)
{
    const char *nearest = tool_nearest(name, names, n);

    return tool_usage(o->json, "bench: no %s '%s'%s%s%s; --list names them",
                      what, name, nearest ? "; did you mean '" : "",
                      nearest ? nearest : "", nearest ? "'?" : "");
}

static int
unknown_model(const struct options *o)
{
    const char *names[64];
    size_t i;

    for (i = 0; i < plan_n_models && i < ARRAY_LEN(names); i++)
        names[i] = plan_models[i].name;
    return unknown(o, "model", o->model, names, i);
}

static int
unknown_machine(const struct options *o)
{
    const char *names[64];
    size_t i;

    for (i = 0; i < plan_n_machines && i < ARRAY_LEN(names); i++)
        names[i] = plan_machines[i].name;
    return unknown(o, "machine", o->machine, names, i);
}

/* The number of `word` in names; n: it is not there. */
static uint32_t
find_word(const char *word, const char *const *names, uint32_t n)
{
    uint32_t i;

    for (i = 0; i < n && strcmp(word, names[i]) != 0; i++)
        ;
    return i;
}

static int
read_layout(const struct options *o, const struct plan_model *model,
            struct plan_layout *l)
{
    int64_t n = o->n_devices, group = o->tensor * o->context * o->pipeline;
    uint32_t dtype = find_word(o->dtype, plan_dtype_names, PLAN_DTYPE_COUNT);
    uint32_t checkpoint =
        find_word(o->checkpoint, plan_checkpoint_names, PLAN_CHECKPOINT_COUNT);

    if (dtype == PLAN_DTYPE_COUNT)
        return tool_usage(o->json, "bench: --dtype is bf16 or fp8, got '%s'",
                          o->dtype);
    if (checkpoint == PLAN_CHECKPOINT_COUNT)
        return tool_usage(
            o->json,
            "bench: --checkpoint is none, selective, half or full, got "
            "'%s'",
            o->checkpoint);
    if (n % group && !o->search)
        return tool_usage(o->json,
                          "bench: %lld devices are not a multiple of tensor "
                          "%lld times pipeline %lld times context %lld",
                          (long long)n, (long long)o->tensor,
                          (long long)o->pipeline, (long long)o->context);
    *l = (struct plan_layout){
        .data = (uint32_t)(o->search ? 1 : n / group),
        .tensor = (uint32_t)o->tensor,
        .context = (uint32_t)o->context,
        .pipeline = (uint32_t)o->pipeline,
        .interleave = (uint32_t)o->interleave,
        .zero = (uint32_t)o->zero,
        .sequence = o->sequence,
        .checkpoint = (enum plan_checkpoint)checkpoint,
        .dtype = (enum plan_dtype)dtype,
        .micro = (uint32_t)o->micro,
        .batch = (uint32_t)(o->batch ? o->batch : n),
        .length = o->length ? (uint32_t)o->length : model->length,
        .gradient_bytes = (uint32_t)o->gradient_bytes,
        .no_flash = o->no_flash,
        .frozen = o->frozen,
        .overlap_tensor = o->overlap_tensor,
    };
    return TOOL_GO_ON;
}

static int
find_layouts(const struct options *o, const struct plan_machine *machine,
             const struct plan_model *model, const struct plan_layout *layout)
{
    struct plan_choice choices[CHOICES_MAX];
    size_t n, i;
    bell_status status =
        plan_search(machine, model, layout, (uint32_t)o->n_devices, choices,
                    (size_t)o->search, &n);

    if (status != BELL_OK)
        return tool_fail(o->json, status);
    if (n == 0)
        return tool_fail_text(o->json, BELL_E_UNSUPPORTED,
                              "no layout of %s fits %lld devices of %s with a "
                              "batch of %u sequences of %u tokens",
                              model->name, (long long)o->n_devices,
                              machine->name, layout->batch, layout->length);
    if (o->json)
        return print_choices(machine, model, choices, n);
    for (i = 0; i < n; i++) {
        const struct plan_prediction *x = &choices[i].prediction;

        tool_printf("%10.4g s %6.1f %% of the peak %7.1f GiB  ", x->step_s,
                    100 * x->utilisation, x->memory_bytes / GIB);
        print_layout(&choices[i].layout);
        tool_printf("\n");
    }
    return TOOL_OK;
}

static int
predict_layout(const struct options *o, const struct plan_machine *machine,
               const struct plan_model *model, const struct plan_layout *layout)
{
    struct plan_choice one = {.layout = *layout};
    bell_status status = plan_predict(machine, model, layout, &one.prediction);
    double more;

    if (status != BELL_OK)
        return tool_fail(o->json, status);
    more = one.prediction.memory_bytes - one.prediction.capacity_bytes;
    if (more > 0)
        return tool_fail_text(
            o->json, BELL_E_UNSUPPORTED,
            "layout: a device would need %.1f GiB, %.1f GiB more than the %.1f "
            "GiB of %s: weights %.1f, gradients %.1f, optimiser state %.1f, "
            "gathered weights %.1f, activations %.1f, scores %.1f, reserved "
            "%.1f",
            one.prediction.memory_bytes / GIB, more / GIB,
            one.prediction.capacity_bytes / GIB, machine->chip,
            one.prediction.memory[0] / GIB, one.prediction.memory[1] / GIB,
            one.prediction.memory[2] / GIB, one.prediction.memory[3] / GIB,
            one.prediction.memory[4] / GIB, one.prediction.memory[5] / GIB,
            one.prediction.memory[6] / GIB);
    if (o->json)
        return print_choices(machine, model, &one, 1);
    print_prediction(machine, model, layout, &one.prediction, o->explain);
    return TOOL_OK;
}

static int
run(const struct options *o)
{
    const struct plan_machine *machine = plan_machine_find(o->machine);
    const struct plan_model *model = plan_model_find(o->model);
    struct plan_layout layout;
    uint32_t kind;
    int code;

    if (!machine)
        return unknown_machine(o);
    for (kind = 0; !model && kind <= HCQ_COLLECTIVE_ALL_GATHER; kind++) {
        if (strcmp(o->model, hcq_collective_kind_name(kind)) == 0)
            return print_exchange(o, machine, kind);
    }
    if (!model)
        return unknown_model(o);
    code = read_layout(o, model, &layout);
    if (code != TOOL_GO_ON)
        return code;
    return o->search ? find_layouts(o, machine, model, &layout)
                     : predict_layout(o, machine, model, &layout);
}

int
plan_verb(int argc, char **argv)
{
    struct options o = {
        .machine = "dgx-h100",
        .dtype = "bf16",
        .checkpoint = "none",
        .n_devices = 8,
        .tensor = 1,
        .pipeline = 1,
        .interleave = 1,
        .context = 1,
        .micro = 1,
        .gradient_bytes = 2,
        .n_bytes = 1 << 30,
    };
    const struct tool_opt opts[] = {
        {"--model", "NAME", TOOL_OPT_STRING, &o.model, 0, 0,
         "of --list; or all-reduce, reduce-scatter, all-gather"},
        {"--machine", "NAME", TOOL_OPT_STRING, &o.machine, 0, 0,
         "of --list (default: dgx-h100)"},
        {"--devices", "N", TOOL_OPT_INT, &o.n_devices, 1, PLAN_DEVICES_MAX,
         "of all boxes together (default: 8)"},
        {"--tensor", "N", TOOL_OPT_INT, &o.tensor, 1, 1024,
         "devices that share each product (default: 1)"},
        {"--context", "N", TOOL_OPT_INT, &o.context, 1, 1024,
         "devices that share each sequence (default: 1)"},
        {"--pipeline", "N", TOOL_OPT_INT, &o.pipeline, 1, 1024,
         "stages (default: 1); what is left is the data axis"},
        {"--interleave", "N", TOOL_OPT_INT, &o.interleave, 1, 128,
         "parts of a stage (default: 1)"},
        {"--zero", "N", TOOL_OPT_INT, &o.zero, 0, 3,
         "splits optimiser state (1), gradients (2), weights (3: FSDP) over "
         "the "
         "data axis (default: 0)"},
        {"--sequence", NULL, TOOL_OPT_FLAG, &o.sequence, 0, 0,
         "splits norms over the tensor axis"},
        {"--checkpoint", "WHICH", TOOL_OPT_STRING, &o.checkpoint, 0, 0,
         "activations that are computed again: none, selective, half, full "
         "(default: none)"},
        {"--micro", "N", TOOL_OPT_INT, &o.micro, 1, 4096,
         "sequences of a micro-batch (default: 1)"},
        {"--batch", "N", TOOL_OPT_INT, &o.batch, 1, 1 << 20,
         "sequences of a step (default: as many as devices)"},
        {"--length", "N", TOOL_OPT_INT, &o.length, 1, 1 << 24,
         "tokens of a sequence (default: the model's)"},
        {"--dtype", "NAME", TOOL_OPT_STRING, &o.dtype, 0, 0,
         "of matrix products: bf16 or fp8 (default: bf16)"},
        {"--gradient-bytes", "N", TOOL_OPT_INT, &o.gradient_bytes, 2, 4,
         "of an element: 2 or 4 (default: 2)"},
        {"--no-flash", NULL, TOOL_OPT_FLAG, &o.no_flash, 0, 0,
         "attention writes its scores to memory"},
        {"--frozen", NULL, TOOL_OPT_FLAG, &o.frozen, 0, 0,
         "only adapters learn (LoRA)"},
        {"--overlap-tensor", NULL, TOOL_OPT_FLAG, &o.overlap_tensor, 0, 0,
         "the tensor axis exchanges beside products"},
        {"--bytes", "N", TOOL_OPT_INT, &o.n_bytes, 1, (int64_t)1 << 40,
         "of a collective (default: 1 GiB)"},
        {"--search", "N", TOOL_OPT_INT, &o.search, 1, CHOICES_MAX,
         "the N fastest layouts that fit, instead of a given one"},
        {"--explain", NULL, TOOL_OPT_FLAG, &o.explain, 0, 0,
         "how each part of the time is computed"},
        {"--list", NULL, TOOL_OPT_FLAG, &o.list, 0, 0, "models and machines"},
        TOOL_JSON_OPT(&o.json),
    };
    int code = tool_parse("bench --model NAME [options]\n\n"
                          "Predicts a training step on many GPUs: time, bytes "
                          "and memory of a device.\nNothing is run "
                          "(docs/explanation/planning.md).",
                          opts, ARRAY_LEN(opts), argc, argv);

    if (code != TOOL_GO_ON)
        return code;
    return o.list ? print_rows(o.json) : run(&o);
}
