/* `doorbell kernel`: what an expression is compiled to, stage by stage, and
 * how long it takes. The stages are what BELL_DEBUG prints, on stdout.
 */
#include <ctype.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/bits.h"
#include "base/env.h"
#include "base/log.h"
#include "base/thread.h"
#include "doorbell/stats.h"
#include "tensor/runtime/ir.h"
#include "tools/eval/eval_expr.h"
#include "base/file.h"
#include "tools/inputs.h"
#include "base/json.h"
#include "tools/kernel_run.h"
#include "tools/kernel_stats.h"
#include "tools/tools.h"

#define MAX_RUNS 1000

struct kernel_options {
    const char *expr, *ir, *device, *show, *emit, *math;
    const char *kernel; /* the one to emit: name, or number from 1 */
    struct tool_list in;
    int64_t n_runs;
    int64_t n_groups; /* of each kernel, to be run for --stats; 0: all */
    bool json, stats, run;
};

/* A form that kernels are shown in: a language, or a stage. */
struct language {
    const char *name, *backend; /* the devices that have it */
    const char *comment;        /* before titles; NULL: lines have none */
    const char *device;         /* where none is named, nor in BELL_DEVICE */
    const char *topic;          /* of BELL_DEBUG, which prints it */
    uint32_t topic_bit;
};

#define NV_CHIP  "NV@null:h100"
#define AMD_CHIP "AMD@null:rx7900xtx"

/* The first of a name is meant where no device is named. */
static const struct language languages[] = {
    {"graph", "", NULL, NULL, "graph: ", LOG_GRAPH},
    {"sched", "", NULL, NULL, "sched: ", LOG_SCHED},
    {"ir", "", ";", NULL, "ir: ", LOG_IR},
    {"dot", "", "//", NULL, "dot: ", LOG_DOT},
    {"uops", "", ";", NULL, "uops: ", LOG_UOPS},
    {"ptx", "NV", "//", NV_CHIP, "render: ", LOG_RENDER},
    {"sass", "NV", "//", NV_CHIP, "asm: ", LOG_ASM},
    {"llvm", "CPU", ";", "CPU", "render: ", LOG_RENDER},
    {"llvm", "AMD", ";", AMD_CHIP, "render: ", LOG_RENDER},
    {"asm", "AMD", ";", AMD_CHIP, "asm: ", LOG_ASM},
    {"cl", "CL", "//", "CL", "render: ", LOG_RENDER},
    {"asm", "CPU", "#", "CPU", "asm: ", LOG_ASM},
    {"asm", "QCOM", "//", "QCOM@null:a740", "asm: ", LOG_ASM},
};
#define LANGUAGES "graph, sched, ir, dot, uops, ptx, sass, cl, llvm or asm"

struct kernel_run {
    const struct kernel_options *options;
    const struct language *emit; /* print that alone, or NULL */
    bool is_compiled_only;       /* nothing runs */
    size_t n_titles;             /* kernels that were begun to print */
    bool is_left_out;            /* the last of them is not the one */
    size_t n_printed;            /* lines */
    struct bell_context *ctx;
    struct eval_input inputs[TOOL_LIST_MAX];
    char names[TOOL_LIST_MAX][TOOL_INPUT_NAME];
    struct bell_tensor *fence;  /* reading it waits for all work before */
    struct kernel_stats *stats; /* of --stats */
    struct json *trace;         /* an open array of lines, or NULL: stdout */
    struct bell_stats first;    /* what the first run cost */
    double n_flops, n_bytes;    /* of a run */
    struct tensor_ir *kernels;  /* of --ir's text; owned */
    double *device_us;          /* of --run: each kernel's median; owned */
    size_t cap_device_us;
    size_t n_kernels, cap_kernels;
    double times_us[MAX_RUNS];
};

static bell_status
make_kernel_inputs(struct kernel_run *run)
{
    size_t i;

    for (i = 0; i < run->options->in.n_items; i++)
        BELL_TRY(tool_make_input(run->ctx, run->options->in.items[i],
                                 !run->is_compiled_only, run->names[i],
                                 &run->inputs[i]));
    if (run->is_compiled_only || run->options->stats || run->options->ir)
        return BELL_OK;
    run->fence = bell_zeros(run->ctx, BELL_DIMS(1), BELL_FLOAT32);
    return bell_realize1(run->fence);
}

/* ---- runs ------------------------------------------------------------- */

static bell_status
compute_kernel(struct kernel_run *run)
{
    struct bell_tensor *result;
    double zero;
    size_t at;

    if (eval_expr(run->ctx, run->options->expr, run->inputs,
                  run->options->in.n_items, &result, &at) != BELL_OK) {
        bell_error_prefix("column %zu", at + 1);
        return bell_error_last()->status;
    }
    if (run->is_compiled_only)
        return bell_compile(&result, 1);
    if (run->options->stats)
        return bell_realize1(result);
    BELL_TRY(bell_realize1(result));
    return bell_item_f64(run->fence, &zero);
}

/* One run in a scope of its own; its time is from the expression's text to
 * the result in memory. Emitting ends with the compiled kernels. */
static bell_status
compute_scoped(struct kernel_run *run, double *out_us)
{
    uint64_t start = time_now_ns();
    bell_status status, ended;

    BELL_TRY(bell_scope_begin(run->ctx));
    status = compute_kernel(run);
    *out_us = (double)(time_now_ns() - start) / 1e3;
    ended = bell_scope_end(run->ctx);
    return status != BELL_OK ? status : ended;
}

/* A title is "NAME:", or "NAME: later stage:", of that kernel. */
static void
note_title(struct kernel_run *run, const char *title)
{
    const char *want = run->options->kernel;
    size_t n = strcspn(title, ":");
    char *end;

    run->n_titles += title[n] && title[n + 1] == '\0';
    if (want && isdigit((unsigned char)*want))
        run->is_left_out = strtoull(want, &end, 10) != run->n_titles;
    else if (want)
        run->is_left_out = strlen(want) != n || strncmp(title, want, n) != 0;
}

static void
write_trace(void *user, const char *line)
{
    struct kernel_run *run = user;
    const struct language *emit = run->emit;

    if (emit && strncmp(line, emit->topic, strlen(emit->topic)) == 0) {
        line += strlen(emit->topic);
        if (!emit->comment) {
            tool_printf("%s\n", line);
            return;
        }
        if (line[0] != ' ')
            note_title(run, line);
        if (run->is_left_out)
            return;
        run->n_printed++;
        if (line[0] != ' ')
            tool_printf("%s %s\n", emit->comment, line);
        else
            tool_printf("%s\n", line + 2);
    } else if (run->trace)
        json_str(run->trace, NULL, line);
    else
        tool_printf("%s\n", line);
}

/* The run that compiles, traced. */
static bell_status
run_first(struct kernel_run *run, uint32_t topics)
{
    struct bell_stats before = {.struct_size = sizeof(before)};
    uint32_t old_mask = log_mask;
    bell_status status;
    double us;

    bell_context_stats(run->ctx, &before);
    bell_log_set(write_trace, run);
    log_mask |= topics;
    status = compute_scoped(run, &us);
    log_mask = old_mask;
    bell_log_set(NULL, NULL);
    run->first.struct_size = sizeof(run->first);
    bell_context_stats(run->ctx, &run->first);
    run->first.n_kernels_compiled -= before.n_kernels_compiled;
    run->first.n_launches -= before.n_launches;
    run->first.schedule_ns -= before.schedule_ns;
    run->first.lower_ns -= before.lower_ns;
    run->first.compile_ns -= before.compile_ns;
    run->n_flops = run->first.n_flops - before.n_flops;
    run->n_bytes = run->first.n_bytes - before.n_bytes;
    return status;
}

/* --stats: one run, each kernel by itself. */
static bell_status
run_stats(struct kernel_run *run, uint32_t topics)
{
    bell_status status, ended;

    BELL_TRY(kernel_stats_begin(run->ctx, (uint64_t)run->options->n_groups,
                                &run->stats));
    status = run_first(run, topics);
    ended = kernel_stats_end(run->stats);
    return status != BELL_OK ? status : ended;
}

static bell_status
run_all(struct kernel_run *run, uint32_t topics, double *out_median_us)
{
    int64_t n = run->options->n_runs, i;

    BELL_TRY(run_first(run, topics));
    for (i = 0; i < n; i++)
        BELL_TRY(compute_scoped(run, &run->times_us[i]));
    qsort(run->times_us, (size_t)n, sizeof(double), compare_doubles);
    *out_median_us = run->times_us[n / 2];
    return BELL_OK;
}

/* ---- the report ------------------------------------------------------- */

static void
put_results(struct json *json, const struct kernel_run *run, double us)
{
    const struct bell_stats *first = &run->first;

    json_str(json, "device", bell_context_device(run->ctx));
    json_str(json, "math", tool_math_words(bell_context_math(run->ctx)));
    json_str(json, "expression", run->options->expr);
    json_uint(json, "n_kernels_compiled", first->n_kernels_compiled);
    json_uint(json, "n_launches", first->n_launches);
    json_num(json, "schedule_us", (double)first->schedule_ns / 1e3);
    json_num(json, "lower_us", (double)first->lower_ns / 1e3);
    json_num(json, "machine_code_us", (double)first->compile_ns / 1e3);
    json_num(json, "time_us", us);
    json_num(json, "n_flops", run->n_flops);
    json_num(json, "n_bytes", run->n_bytes);
    json_num(json, "gflops", run->n_flops / us / 1e3);
    json_num(json, "bandwidth_gb_s", run->n_bytes / us / 1e3);
}

static void
print_results(const struct kernel_run *run, double us)
{
    const struct bell_stats *first = &run->first;

    tool_printf("%s: %" PRIu64 " kernels in %" PRIu64 " launches; scheduled in "
                "%.0f us, lowered in %.0f us, machine code in %.1f ms\n",
                bell_context_device(run->ctx), first->n_kernels_compiled,
                first->n_launches, (double)first->schedule_ns / 1e3,
                (double)first->lower_ns / 1e3, (double)first->compile_ns / 1e6);
    tool_printf("%.1f us a run (median of %" PRId64 "), %.2f GFLOP/s, "
                "%.2f GB/s\n",
                us, run->options->n_runs, run->n_flops / us / 1e3,
                run->n_bytes / us / 1e3);
}

/* The language of that name, for that device (NULL: any). */
static const struct language *
find_language(const char *name, const char *device)
{
    size_t i;

    for (i = 0; i < ARRAY_LEN(languages); i++) {
        const char *backend = languages[i].backend;
        if (strcmp(languages[i].name, name) == 0 &&
            (!device || strncmp(device, backend, strlen(backend)) == 0))
            return &languages[i];
    }
    return NULL;
}

/* --emit: that form of the kernels and nothing else; none is launched. */
static bell_status
choose_language(struct kernel_run *run)
{
    const char *device = bell_context_device(run->ctx);
    const char *name = run->emit->name;

    run->emit = find_language(name, device);
    if (!run->emit)
        return bell_fail(BELL_E_INVALID,
                         "--emit %s: kernels for %s have no such form", name,
                         device);
    return BELL_OK;
}

/* ---- kernels as text ---- */

/* Writes what follows the line of the text's first roots; NULL where there
 * are none but blank lines and comments. Ends the text there. */
static char *
cut_kernel(char *text)
{
    bool has_nodes = false;

    while (*text) {
        char *line = text + strspn(text, " \t\r");
        bool is_roots = strncmp(line, "roots", 5) == 0;
        text += strcspn(text, "\n");
        has_nodes |= line < text && *line != ';';
        if (*text == '\n')
            *text++ = is_roots ? '\0' : '\n';
        if (is_roots)
            return text;
    }
    return has_nodes ? text : NULL;
}

static void
put_dims(struct json *json, const char *key, const uint32_t dims[3])
{
    int i;

    json_array(json, key);
    for (i = 0; i < 3; i++)
        json_uint(json, NULL, dims[i]);
    json_end(json);
}

static void
put_kernels(struct json *json, const struct kernel_run *run)
{
    size_t i;

    json_str(json, "device", bell_context_device(run->ctx));
    json_str(json, "math", tool_math_words(bell_context_math(run->ctx)));
    json_array(json, "kernels");
    for (i = 0; i < run->n_kernels; i++) {
        const struct tensor_ir *ir = &run->kernels[i];
        json_object(json, NULL);
        json_str(json, "name", ir->name);
        put_dims(json, "grid", ir->grid);
        put_dims(json, "local", ir->local);
        json_uint(json, "n_params", ir->n_params);
        json_uint(json, "n_vars", ir->n_vars);
        json_uint(json, "binary_bytes", ir->binary_bytes);
        json_num(json, "lower_us", (double)ir->lower_ns / 1e3);
        json_num(json, "machine_code_us", (double)ir->compile_ns / 1e3);
        json_num(json, "n_flops", ir->n_flops);
        json_num(json, "n_bytes", ir->n_bytes);
        if (run->device_us)
            json_num(json, "device_us", run->device_us[i]);
        json_end(json);
    }
    json_end(json);
}

static void
print_kernels(const struct kernel_run *run)
{
    size_t i;

    for (i = 0; i < run->n_kernels; i++) {
        const struct tensor_ir *ir = &run->kernels[i];
        const uint32_t *grid = ir->grid, *local = ir->local;
        tool_printf(
            "%s: %u x %u x %u work-groups of %u x %u x %u, %u parameters, "
            "%" PRIu64 " bytes; lowered in %.0f us, machine code in "
            "%.1f ms\n",
            ir->name, grid[0], grid[1], grid[2], local[0], local[1], local[2],
            ir->n_params + ir->n_vars, ir->binary_bytes,
            (double)ir->lower_ns / 1e3, (double)ir->compile_ns / 1e6);
        if (run->device_us)
            tool_printf("  %.2f us on the device (median of %" PRId64
                        "), %.2f GFLOP/s, %.2f GB/s\n",
                        run->device_us[i], run->options->n_runs,
                        ir->n_flops / run->device_us[i] / 1e3,
                        ir->n_bytes / run->device_us[i] / 1e3);
    }
}

/* The kernels that the expression was compiled to. */
static bell_status
list_kernels(struct kernel_run *run)
{
    struct tensor_ir ir;

    while (tensor_kernel_at(run->ctx, run->n_kernels, &ir)) {
        if (host_grow((void **)&run->kernels, &run->cap_kernels,
                      run->n_kernels + 1, sizeof(*run->kernels)) != 0)
            return bell_fail(BELL_E_NO_MEMORY, "out of memory");
        run->kernels[run->n_kernels++] = ir;
    }
    return BELL_OK;
}

/* Compiles every kernel of the text. */
static bell_status
compile_text(struct kernel_run *run, char *text)
{
    bell_status status;
    char *next;

    for (; (next = cut_kernel(text)) || !run->n_kernels; text = next) {
        if (host_grow((void **)&run->kernels, &run->cap_kernels,
                      run->n_kernels + 1, sizeof(*run->kernels)) != 0)
            return bell_fail(BELL_E_NO_MEMORY, "out of memory");
        if (run->options->run &&
            host_grow((void **)&run->device_us, &run->cap_device_us,
                      run->n_kernels + 1, sizeof(*run->device_us)) != 0)
            return bell_fail(BELL_E_NO_MEMORY, "out of memory");
        run->n_kernels++;
        status = run->options->run
                     ? kernel_run_text(run->ctx, text, run->options->n_runs,
                                       &run->kernels[run->n_kernels - 1],
                                       &run->device_us[run->n_kernels - 1])
                     : tensor_compile_ir(run->ctx, text,
                                         &run->kernels[run->n_kernels - 1]);
        if (status != BELL_OK) {
            bell_error_prefix("%s: kernel %zu", run->options->ir,
                              run->n_kernels);
            return status;
        }
    }
    return BELL_OK;
}

/* --ir: from the file's kernels on. */
static bell_status
run_ir(struct kernel_run *run, uint32_t topics)
{
    uint32_t old_mask = log_mask;
    bell_status status;
    char *text;

    BELL_TRY(file_read_text(run->options->ir, &text));
    bell_log_set(write_trace, run);
    log_mask |= topics;
    status = compile_text(run, text);
    log_mask = old_mask;
    bell_log_set(NULL, NULL);
    host_free(text);
    return status;
}

static int
run_kernel(const struct kernel_options *options, const struct language *emit,
           uint32_t topics)
{
    struct kernel_run *run = host_calloc(1, sizeof(*run));
    struct json json;
    bell_status status;
    double us = 0;
    int code = TOOL_OK;

    if (!run)
        return tool_fail_text(options->json, BELL_E_NO_MEMORY, "out of memory");
    json_init(&json);
    if (options->json) {
        json_array(&json, "trace");
        run->trace = &json;
    }
    run->options = options;
    run->emit = emit;
    status = tool_open_context(
        options->device || !emit || env_get("BELL_DEVICE") ? options->device
                                                           : emit->device,
        options->math, &run->ctx);
    if (status == BELL_OK && emit)
        status = choose_language(run);
    if (status == BELL_OK)
        run->is_compiled_only =
            emit || (!options->stats && tensor_device_is_null(run->ctx));
    if (status == BELL_OK)
        status = make_kernel_inputs(run);
    if (status != BELL_OK)
        code = tool_fail(options->json, status);
    if (code == TOOL_OK) {
        topics = emit ? run->emit->topic_bit : topics;
        status = options->stats          ? run_stats(run, topics)
                 : options->ir           ? run_ir(run, topics)
                 : run->is_compiled_only ? run_first(run, topics)
                                         : run_all(run, topics, &us);
        if (status == BELL_OK && run->is_compiled_only && !options->ir)
            status = list_kernels(run);
        if (status == BELL_OK && options->kernel && run->is_left_out &&
            !run->n_printed)
            status = bell_fail(BELL_E_INVALID,
                               "--kernel %s: no such kernel; there are %zu",
                               options->kernel, run->n_kernels);
        if (status != BELL_OK)
            code = tool_fail_input(options->json, status);
    }
    if (code != TOOL_OK || emit) {
        /* what there is to tell was told */
    } else if (options->json) {
        json_end(&json);
        if (options->stats)
            kernel_stats_put(run->stats, &json);
        else if (options->ir || run->is_compiled_only)
            put_kernels(&json, run);
        else
            put_results(&json, run, us);
        code = tool_print_json(&json);
    } else if (options->stats) {
        kernel_stats_print(run->stats);
    } else if (options->ir || run->is_compiled_only) {
        print_kernels(run);
    } else {
        print_results(run, us);
    }
    json_fini(&json);
    kernel_stats_destroy(run->stats);
    bell_context_destroy(run->ctx);
    host_free(run->kernels);
    host_free(run->device_us);
    host_free(run);
    return code;
}

int
verb_kernel(int argc, char **argv)
{
    struct kernel_options options = {.n_runs = 20};
    const struct tool_opt opts[] = {
        {"EXPR", NULL, TOOL_OPT_STRING, &options.expr, 0, 0,
         "as for `doorbell eval`"},
        {"--in", "name=2x3:float32", TOOL_OPT_LIST, &options.in, 0, 0,
         "an input's shape and dtype, with random values; or name=FILE"},
        {"--ir", "FILE", TOOL_OPT_STRING, &options.ir, 0, 0,
         "kernels in place of EXPR: what --emit ir prints; they are compiled, "
         "and run with --run alone"},
        {"--run", NULL, TOOL_OPT_FLAG, &options.run, 0, 0,
         "with --ir: run each kernel on buffers of random numbers, as large as "
         "its indices and gates ask for, 4 GiB at most, and tell the device's "
         "time"},
        {"--show", "TOPICS", TOOL_OPT_STRING, &options.show, 0, 0,
         "of BELL_DEBUG: sched,opt (default), uops, render, time, ..."},
        {"--emit", "FORM", TOOL_OPT_STRING, &options.emit, 0, 0,
         "print the kernels in one form, nothing else: graph (of tensors), "
         "sched (what is stored, and why), ir or dot (as scheduled: the IR, or "
         "Graphviz), uops (each stage), ptx, sass (by nvdisasm), llvm, asm. "
         "Where no device is named: for " NV_CHIP " or " AMD_CHIP},
        {"--kernel", "NAME", TOOL_OPT_STRING, &options.kernel, 0, 0,
         "with --emit, of one kernel: its name, or number from 1"},
        {"--stats", NULL, TOOL_OPT_FLAG, &options.stats, 0, 0,
         "on a simulated card: count what each kernel does, and tell what it "
         "takes and the time that the chip needs at least "
         "(docs/explanation/simulator.md); on @null: without counts"},
        {"--groups", "N", TOOL_OPT_INT, &options.n_groups, 1, INT32_MAX,
         "with --stats: run at most N work-groups of each kernel; the others "
         "are taken to be like them"},
        {"--runs", "N", TOOL_OPT_INT, &options.n_runs, 1, MAX_RUNS,
         "number of runs to take the median time of (default: 20)"},
        {"--device", "DEVICE", TOOL_OPT_STRING, &options.device, 0, 0,
         "where to run (default: $BELL_DEVICE, or the first that works); "
         "BACKEND@null:CHIP compiles and runs nothing"},
        TOOL_MATH_OPT(&options.math),
        TOOL_JSON_OPT(&options.json),
    };
    const struct language *emit = NULL;
    bell_status status;
    uint32_t topics;
    int code;

    code = tool_parse("kernel ['EXPR'] [--in name=SHAPE]... [options]\n\n"
                      "Shows what an expression is compiled to, stage by "
                      "stage, and times it:\n\n"
                      "  doorbell kernel 'relu(x @ w)' --in x=512x784 "
                      "--in w=784x512 --show opt,render",
                      opts, ARRAY_LEN(opts), argc, argv);
    if (code != TOOL_GO_ON)
        return code;
    if (!options.expr && !options.ir)
        return tool_usage(options.json, "kernel: no expression");
    if (options.ir && (options.expr || options.in.n_items))
        return tool_usage(options.json,
                          "kernel: --ir in place of EXPR and --in");
    code = tool_check_math(options.json, "kernel", options.math);
    if (code != TOOL_GO_ON)
        return code;
    if (!options.show)
        options.show = options.stats ? "" : "sched,opt";
    status = log_parse(options.show, &topics);
    if (status != BELL_OK)
        return tool_usage(options.json, "kernel: --show: %s",
                          bell_error_last()->message);
    if (options.emit && !(emit = find_language(options.emit, NULL)))
        return tool_usage(options.json, "kernel: --emit %s: not " LANGUAGES,
                          options.emit);
    if (options.kernel && (!emit || !emit->comment))
        return tool_usage(options.json,
                          "kernel: --kernel goes with an --emit of kernels");
    if (options.run && (!options.ir || emit))
        return tool_usage(options.json, "kernel: --run goes with --ir, and "
                                        "without --emit");
    if (options.stats && (emit || options.ir))
        return tool_usage(options.json,
                          "kernel: --stats goes with neither --emit nor --ir");
    if (options.n_groups && !options.stats)
        return tool_usage(options.json, "kernel: --groups goes with --stats");
    if (emit && options.json)
        return tool_usage(options.json, "kernel: --emit prints no JSON");
    return run_kernel(&options, emit, topics);
}
