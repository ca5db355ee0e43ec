/* `doorbell demo mnist`: trains a small network and says how it went. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/bits.h"
#include "base/json.h"
#include "base/thread.h"
#include "doorbell/mesh.h"
#include "doorbell/stats.h"
#include "examples/demo/demo.h"
#include "examples/demo/llama.h"
#include "tools/tools.h"

struct demo_options {
    const char *demo, *data_dir, *model, *device, *math;
    int64_t epochs, n_steps, batch, seed; /* 0, but seed: the model's own */
    struct demo_mesh mesh;
    bool json;
};

struct report {
    const struct demo_options *options;
    const struct demo_run *run;
    char device[256];
    const char *math; /* static */
    struct bell_stats stats;
    double data_s, total_s;
};

static void
print_demo_text(const struct report *report)
{
    const struct demo_run *run = report->run;
    const struct bell_stats *stats = &report->stats;

    tool_printf("device   %s\n", report->device);
    if (strcmp(report->math, "exact") != 0)
        tool_printf("math     %s\n", report->math);
    tool_printf(
        "data     %zu images to train on and %zu to test, %s (%.2f s)\n",
        run->data->n_train, run->data->n_test,
        report->options->data_dir ? "read" : "drawn here", report->data_s);
    tool_printf("model    %s: %s, %" PRId64 " parameters\n", run->model->name,
                run->model->shape, run->n_parameters);
    tool_printf("compile  %" PRIu64 " kernels in %.0f ms, each once; %" PRIu64
                " found on disk\n",
                stats->n_kernels_compiled, (double)stats->compile_wall_ns / 1e6,
                stats->n_kernels_found);
    tool_printf("train    %" PRId64 " steps of %" PRId64 " images in %.2f s: "
                "%.0f ms the first, %.2f ms the others; loss %.4f\n",
                run->n_steps_done, run->batch, run->train_s, run->first_step_ms,
                run->step_ms, run->loss);
    tool_printf("test     %.1f %% right\n", 100 * run->test_accuracy);
    tool_printf("total    %.2f s\n", report->total_s);
    if (!report->options->data_dir)
        tool_printf("With the original MNIST test files in a directory: "
                    "--data DIR\n");
}

static int
print_demo_json(const struct report *report)
{
    const struct demo_run *run = report->run;
    const struct bell_stats *stats = &report->stats;
    struct json json;

    json_init(&json);
    json_str(&json, "device", report->device);
    json_str(&json, "math", report->math);
    json_str(&json, "data", report->options->data_dir ? "mnist" : "drawn");
    json_uint(&json, "n_train", run->data->n_train);
    json_uint(&json, "n_test", run->data->n_test);
    json_str(&json, "model", run->model->name);
    json_int(&json, "n_parameters", run->n_parameters);
    json_int(&json, "seed", (int64_t)run->seed);
    json_int(&json, "batch", run->batch);
    json_int(&json, "n_steps", run->n_steps_done);
    json_num(&json, "test_accuracy", run->test_accuracy);
    json_num(&json, "loss", run->loss);
    json_num(&json, "first_step_ms", run->first_step_ms);
    if (run->n_steps_done > 1)
        json_num(&json, "step_ms", run->step_ms);
    else
        json_null(&json, "step_ms");
    json_num(&json, "data_s", report->data_s);
    json_num(&json, "train_s", run->train_s);
    json_num(&json, "test_s", run->test_s);
    json_num(&json, "total_s", report->total_s);
    json_uint(&json, "n_plans", stats->n_plans);
    json_uint(&json, "n_kernels_planned", stats->n_kernels_planned);
    json_uint(&json, "n_kernels_compiled", stats->n_kernels_compiled);
    json_uint(&json, "n_kernels_found", stats->n_kernels_found);
    json_uint(&json, "n_launches", stats->n_launches);
    json_num(&json, "schedule_ms", (double)stats->schedule_ns / 1e6);
    json_num(&json, "lower_ms", (double)stats->lower_ns / 1e6);
    json_num(&json, "machine_code_ms", (double)stats->compile_ns / 1e6);
    json_num(&json, "compile_wall_ms", (double)stats->compile_wall_ns / 1e6);
    json_uint(&json, "peak_bytes", stats->peak_bytes);
    json_uint(&json, "scratch_bytes", stats->scratch_bytes);
    json_uint(&json, "scratch_alive_bytes", stats->alive_bytes);
    return tool_print_json(&json);
}

bell_status
demo_set_mesh(struct bell_context *ctx, const struct demo_mesh *mesh)
{
    static const char *const names[] = {"data", "model"};
    int64_t n = bell_mesh_places(ctx), layers = mesh->layers;
    int64_t sizes[2];

    if (layers && n > 1 && n % layers)
        return bell_fail(BELL_E_INVALID,
                         "--layers-on %lld: %lld devices are not a multiple",
                         (long long)layers, (long long)n);
    sizes[1] = layers && n > 1 ? layers : 1;
    sizes[0] = n / sizes[1];
    if (layers)
        BELL_TRY(bell_mesh_set(ctx, sizes, 2, names));
    if (mesh->blocks)
        BELL_TRY(bell_mesh_set_blocks(ctx, "data", mesh->blocks));
    if (mesh->blocks && layers)
        BELL_TRY(bell_mesh_set_blocks(ctx, "model", mesh->blocks));
    return BELL_OK;
}

static bell_status
run_on_device(const struct demo_options *options, struct demo_run *run,
              struct report *report)
{
    struct bell_context *ctx;
    bell_status status;

    BELL_TRY(tool_open_context(options->device, options->math, &ctx));
    status = demo_set_mesh(ctx, &run->mesh);
    if (status == BELL_OK)
        status = demo_train(ctx, run);
    snprintf(report->device, sizeof(report->device), "%s",
             bell_context_device(ctx));
    report->math = tool_math_words(bell_context_math(ctx));
    report->stats.struct_size = sizeof(report->stats);
    bell_context_stats(ctx, &report->stats);
    bell_context_destroy(ctx);
    return status;
}

static bell_status
get_data(const struct demo_options *options, struct demo_data *out_data)
{
    if (options->data_dir)
        return demo_data_load(options->data_dir, out_data);
    return demo_data_draw((uint64_t)options->seed, out_data);
}

static int
run_mnist(const struct demo_options *options, const struct demo_model *model)
{
    struct demo_data data;
    struct demo_run run = {
        .model = model,
        .data = &data,
        .epochs = options->epochs ? options->epochs : model->epochs,
        .batch = options->batch ? options->batch : model->batch,
        .n_steps = options->n_steps,
        .seed = (uint64_t)options->seed,
        .mesh = options->mesh,
    };
    struct report report = {.options = options, .run = &run};
    uint64_t start = time_now_ns();
    bell_status status;
    int code = TOOL_OK;

    status = get_data(options, &data);
    if (status != BELL_OK)
        return tool_fail(options->json, status);
    report.data_s = (double)(time_now_ns() - start) / 1e9;
    if ((size_t)run.batch > data.n_train) {
        code = tool_usage(options->json,
                          "demo: --batch %" PRId64
                          " is more than the %zu images to train on",
                          run.batch, data.n_train);
    } else {
        status = run_on_device(options, &run, &report);
        if (status != BELL_OK)
            code = tool_fail(options->json, status);
    }
    report.total_s = (double)(time_now_ns() - start) / 1e9;
    if (code == TOOL_OK && options->json)
        code = print_demo_json(&report);
    else if (code == TOOL_OK)
        print_demo_text(&report);
    demo_data_fini(&data);
    return code;
}

/* `demo -h` alone: the options of every demo. */
static bool
asks_for_all(int argc, char **argv)
{
    return argc == 2 &&
           (strcmp(argv[1], "-h") == 0 || strcmp(argv[1], "--help") == 0);
}

static int
print_all_help(char *verb)
{
    static const char *const demos[] = {"mnist", "llama", "train-llama"};
    int code = TOOL_OK;
    size_t i;

    tool_printf("usage: doorbell demo DEMO [options]\n\n"
                "DEMO is mnist, llama or train-llama; each has its own "
                "options.\n");
    for (i = 0; i < ARRAY_LEN(demos) && code == TOOL_OK; i++) {
        char name[16], help[] = "-h";
        char *args[] = {verb, name, help, NULL};
        snprintf(name, sizeof(name), "%s", demos[i]);
        tool_printf("\n");
        code = verb_demo(3, args);
    }
    return code;
}

int
verb_demo(int argc, char **argv)
{
    struct demo_options options = {.model = "mlp", .seed = 1};
    const struct tool_opt opts[] = {
        {"DEMO", NULL, TOOL_OPT_STRING, &options.demo, 0, 0, "mnist"},
        {"--data", "DIR", TOOL_OPT_STRING, &options.data_dir, 0, 0,
         "the original MNIST test files, not drawn digits"},
        {"--model", "NAME", TOOL_OPT_STRING, &options.model, 0, 0,
         "mlp (default) or conv"},
        {"--device", "DEVICE", TOOL_OPT_STRING, &options.device, 0, 0,
         "where to train (default: $BELL_DEVICE, or the first that works); "
         "--devices A,B: each with a part of every batch"},
        DEMO_MESH_OPTS(&options.mesh),
        TOOL_MATH_OPT(&options.math),
        {"--epochs", "N", TOOL_OPT_INT, &options.epochs, 1, 100000,
         "times every image is used (default: 15 or 16)"},
        {"--steps", "N", TOOL_OPT_INT, &options.n_steps, 1, 100000000,
         "steps in all, instead of epochs"},
        {"--batch", "N", TOOL_OPT_INT, &options.batch, 1, 1000000,
         "images of a step (default: 128 or 256)"},
        {"--seed", "S", TOOL_OPT_INT, &options.seed, 0, INT64_MAX,
         "of all random numbers (default: 1)"},
        TOOL_JSON_OPT(&options.json),
    };
    const struct demo_model *model;
    int code;

    if (asks_for_all(argc, argv))
        return print_all_help(argv[0]);
    if (argc > 1 && strcmp(argv[1], "llama") == 0)
        return llama_demo(argc, argv);
    if (argc > 1 && strcmp(argv[1], "train-llama") == 0)
        return train_llama_demo(argc, argv);
    code = tool_parse("demo mnist [options]\n\n"
                      "Trains a network to read digits, from tensors to the "
                      "device's queue, and tests it\non images that it has "
                      "not seen. Without --data it draws the digits itself.",
                      opts, ARRAY_LEN(opts), argc, argv);
    if (code != TOOL_GO_ON)
        return code;
    if (!options.demo || strcmp(options.demo, "mnist") != 0)
        return tool_usage(options.json,
                          "demo: no demo '%s'; there are: mnist, llama, "
                          "train-llama",
                          options.demo ? options.demo : "");
    code = tool_check_math(options.json, "demo", options.math);
    if (code != TOOL_GO_ON)
        return code;
    model = demo_model_find(options.model);
    if (!model)
        return tool_usage(options.json,
                          "demo: --model '%s' is neither mlp nor conv",
                          options.model);
    return run_mnist(&options, model);
}
