/* `doorbell tune`: searches for schedules that are faster than the rules' of an
 * expression's kernels, and keeps them for programs that run with BELL_BEAM.
 */
#include "tensor/runtime/tune.h"

#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/bits.h"
#include "base/regular_file.h"
#include "hcq/hcq_bundle_format.h"
#include "ioctl/sim_count.h"
#include "tensor/runtime/ir.h"
#include "tools/eval/eval_expr.h"
#include "tools/inputs.h"
#include "base/json.h"
#include "tools/kernel_stats.h"
#include "tools/tools.h"

#define COUNTED_GROUPS 4 /* work-groups of a kernel that are counted */

struct tune_options {
    const char *expr, *device, *math, *save;
    struct tool_list in;
    double seconds;
    int64_t beam;
    bool json, in_place, is_bundle;
};

struct tune_run {
    const struct tune_options *options;
    struct bell_context *ctx;
    struct json *json; /* an open array, or NULL: as text */
    struct eval_input inputs[TOOL_LIST_MAX];
    char names[TOOL_LIST_MAX][TOOL_INPUT_NAME];
    uint32_t n_kernels, n_better, n_left, n_new;
    double rules_us, best_us;
};

static volatile sig_atomic_t is_stopped;

/* A second Ctrl-C ends the program. */
static void
stop(int number)
{
    (void)number;
    is_stopped = 1;
}

/* ---- counts of a simulated card ---- */

static void
begin_counting(void *user)
{
    (void)user;
    sim_count_begin(COUNTED_GROUPS);
}

static void
end_counting(void *user, struct chip_work *out_work)
{
    struct sim_counts counts;

    (void)user;
    sim_count_take(&counts);
    sim_count_end();
    kernel_stats_work(&counts, out_work);
}

/* ---- the report ---- */

static const char *const by_words[] = {
    [TENSOR_TUNE_TIMED] = "timed",
    [TENSOR_TUNE_COUNTED] = "counted",
    [TENSOR_TUNE_ESTIMATED] = "estimated",
};

static void
put_tune_kernel(struct json *json, const struct tensor_tuned *t)
{
    json_object(json, NULL);
    json_str(json, "name", t->name);
    json_str(json, "not_searched", t->why_not);
    if (!t->why_not) {
        json_str(json, "by", by_words[t->by]);
        json_str(json, "chip", t->chip);
        json_num(json, "rules_us", t->rules_us);
        json_num(json, "best_us", t->best_us);
        json_str(json, "rules", t->rules);
        json_str(json, "best", t->best);
        json_str(json, "rules_stay", t->why_rules);
        json_uint(json, "n_tried", t->n_tried);
        json_uint(json, "n_same", t->n_same);
        json_uint(json, "n_invalid", t->n_invalid);
        json_uint(json, "n_large", t->n_large);
        json_uint(json, "n_wrong", t->n_wrong);
        json_uint(json, "n_faulted", t->n_faulted);
        json_uint(json, "n_hung", t->n_hung);
        json_num(json, "seconds", t->seconds);
    }
    json_end(json);
}

static void
print_kernel(const struct tensor_tuned *t, bool is_bundle)
{
    const char *before = is_bundle ? "in the bundle" : "by the rules";

    if (t->why_not) {
        tool_printf("%s: not searched: %s\n", t->name, t->why_not);
        return;
    }
    if (t->why_rules)
        tool_printf("%s: %.2f us %s: %s\n", t->name, t->rules_us, before,
                    t->why_rules);
    else
        tool_printf("%s: %.2f us %s, %.2f us by another schedule: %.2fx\n",
                    t->name, t->rules_us, before, t->best_us,
                    t->rules_us / t->best_us);
    if (t->by == TENSOR_TUNE_COUNTED)
        tool_printf("  times are the model's of %s, by what the simulated card "
                    "counts\n",
                    t->chip);
    else if (t->by == TENSOR_TUNE_ESTIMATED)
        tool_printf(
            "  times are the model's of %s, by what the compiler expects; "
            "no result was compared\n",
            t->chip);
    tool_printf("  rules: %s\n", t->rules);
    if (!t->why_rules)
        tool_printf("  best:  %s\n", t->best);
    tool_printf("  %u tried in %.1f s: %u the same, %u invalid, %u too large, "
                "%u wrong, %u faulted, %u hung\n",
                t->n_tried, t->seconds, t->n_same, t->n_invalid, t->n_large,
                t->n_wrong, t->n_faulted, t->n_hung);
}

static void
note_kernel(void *user, const struct tensor_tuned *t)
{
    struct tune_run *run = user;

    run->n_kernels++;
    run->n_left += t->why_not != NULL;
    run->n_better += !t->why_not && !t->why_rules;
    run->rules_us += t->rules_us;
    run->best_us += t->best_us;
    if (run->json)
        put_tune_kernel(run->json, t);
    else
        print_kernel(t, run->options->is_bundle);
    fflush(stdout);
}

/* ---- the search ---- */

static bell_status
search(struct tune_run *run)
{
    const struct tune_options *o = run->options;
    const struct tensor_tune tune = {.beam = (uint32_t)o->beam,
                                     .seconds = o->seconds,
                                     .searches_again = true,
                                     .stop = &is_stopped,
                                     .tell = note_kernel,
                                     .count_begin = begin_counting,
                                     .count_end = end_counting,
                                     .user = run};
    struct bell_tensor *result;
    bell_status status;
    size_t i, at;

    if (o->is_bundle) {
        tensor_tune_set(run->ctx, &tune);
        status = tensor_tune_bundle(
            run->ctx, o->expr, o->in_place ? o->expr : o->save, &run->n_new);
        tensor_tune_set(run->ctx, NULL);
        return status;
    }
    tensor_tune_set(run->ctx, NULL);
    for (i = 0; i < o->in.n_items; i++)
        BELL_TRY(tool_make_input(run->ctx, o->in.items[i], true, run->names[i],
                                 &run->inputs[i]));
    status =
        eval_expr(run->ctx, o->expr, run->inputs, o->in.n_items, &result, &at);
    if (status != BELL_OK) {
        bell_error_prefix("column %zu", at + 1);
        return status;
    }
    tensor_tune_set(run->ctx, &tune);
    status = bell_compile(&result, 1);
    tensor_tune_set(run->ctx, NULL);
    return status;
}

static void
print_sum(const struct tune_run *run)
{
    tool_printf(
        "%s: %u kernels, %u of them not searched, %u faster than %s%s\n",
        bell_context_device(run->ctx), run->n_kernels, run->n_left,
        run->n_better,
        run->options->is_bundle ? "in the bundle" : "by the rules",
        is_stopped ? "; stopped" : "");
    if (run->options->is_bundle)
        tool_printf("%s: written, with %u other kernels\n",
                    run->options->in_place ? run->options->expr
                                           : run->options->save,
                    run->n_new);
}

static void
put_sum(struct json *json, const struct tune_run *run)
{
    json_str(json, "device", bell_context_device(run->ctx));
    json_str(json, "math", tool_math_words(bell_context_math(run->ctx)));
    json_str(json, run->options->is_bundle ? "bundle" : "expression",
             run->options->expr);
    json_uint(json, "beam", (uint64_t)run->options->beam);
    json_bool(json, "stopped", is_stopped != 0);
    json_num(json, "rules_us", run->rules_us);
    json_num(json, "best_us", run->best_us);
}

static int
run_tune(const struct tune_options *options)
{
    struct tune_run *run = host_calloc(1, sizeof(*run));
    struct sigaction action = {.sa_handler = stop, .sa_flags = SA_RESETHAND},
                     before;
    struct json json;
    bell_status status;
    int code;

    if (!run)
        return tool_fail_text(options->json, BELL_E_NO_MEMORY, "out of memory");
    json_init(&json);
    if (options->json) {
        json_array(&json, "kernels");
        run->json = &json;
    }
    run->options = options;
    is_stopped = 0;
    sigaction(SIGINT, &action, &before);
    status = tool_open_context(options->device, options->math, &run->ctx);
    if (status != BELL_OK) {
        code = tool_fail(options->json, status);
    } else if ((status = search(run)) != BELL_OK) {
        code = tool_fail_input(options->json, status);
    } else if (options->json) {
        json_end(&json);
        put_sum(&json, run);
        code = tool_print_json(&json);
    } else {
        print_sum(run);
        code = TOOL_OK;
    }
    sigaction(SIGINT, &before, NULL);
    json_fini(&json);
    bell_context_destroy(run->ctx);
    host_free(run);
    return code;
}

/* An expression never begins so. */
static bool
begins_as_bundle(const char *path)
{
    char magic[sizeof(BUNDLE_MAGIC) - 1];
    struct regular_file file;
    bool same;

    if (regular_file_open(path, &file) != BELL_OK)
        return false;
    same = read(file.fd, magic, sizeof(magic)) == (ssize_t)sizeof(magic) &&
           memcmp(magic, BUNDLE_MAGIC, sizeof(magic)) == 0;
    close(file.fd);
    return same;
}

/* TOOL_GO_ON, or the mistake, told. */
static int
check_tune_options(struct tune_options *o)
{
    if (!o->expr)
        return tool_usage(o->json, "tune: no expression");
    o->is_bundle = begins_as_bundle(o->expr);
    if (!o->is_bundle && (o->save || o->in_place))
        return tool_usage(o->json, "tune: %s: '%.100s' is not a bundle",
                          o->save ? "--save" : "--in-place", o->expr);
    if (o->is_bundle && !o->save == !o->in_place)
        return tool_usage(o->json, "tune: a bundle is written again: --save "
                                   "FILE or --in-place");
    if (o->is_bundle && (o->in.n_items || o->math))
        return tool_usage(o->json, "tune: a bundle has its own %s",
                          o->math ? "math" : "inputs");
    return tool_check_math(o->json, "tune", o->math);
}

int
verb_tune(int argc, char **argv)
{
    struct tune_options options = {.seconds = TENSOR_TUNE_SECONDS,
                                   .beam = TENSOR_TUNE_BEAM};
    const struct tool_opt opts[] = {
        {"EXPR", NULL, TOOL_OPT_STRING, &options.expr, 0, 0,
         "as for `doorbell eval`; or a bundle's file, saved with --tunable"},
        {"--in", "name=2x3:float32", TOOL_OPT_LIST, &options.in, 0, 0,
         "an input's shape and dtype, with random values; or name=FILE"},
        TOOL_NUMBER_OPT("--seconds", "S", &options.seconds, 0, 3600,
                        "to search for each kernel (default: 5)"),
        {"--beam", "N", TOOL_OPT_INT, &options.beam, 1, TENSOR_TUNE_MAX,
         "the best so far that the search goes on from (default: 4); BELL_BEAM "
         "finds what was kept for as many or fewer"},
        {"--device", "DEVICE", TOOL_OPT_STRING, &options.device, 0, 0,
         "where to run (default: $BELL_DEVICE, or the first that works); a "
         "simulated card or BACKEND@null:CHIP is ranked by a model"},
        {"--save", "FILE", TOOL_OPT_STRING, &options.save, 0, 0,
         "of a bundle: where to write it with the kernels that are faster"},
        {"--in-place", NULL, TOOL_OPT_FLAG, &options.in_place, 0, 0,
         "of a bundle: write it where it is"},
        TOOL_MATH_OPT(&options.math),
        TOOL_JSON_OPT(&options.json),
    };
    int code;

    code = tool_parse("tune 'EXPR'|BUNDLE [--in name=SHAPE]... [options]\n\n"
                      "Searches for faster schedules of an expression's "
                      "kernels. Programs that run\nwith BELL_BEAM then use "
                      "them (docs/how-to/tuning.md). A bundle is "
                      "written again:\n\n"
                      "  doorbell tune 'x @ w' --in x=512x784 --in w=784x512\n"
                      "  doorbell tune f.bundle --in-place",
                      opts, ARRAY_LEN(opts), argc, argv);
    if (code != TOOL_GO_ON)
        return code;
    code = check_tune_options(&options);
    if (code != TOOL_GO_ON)
        return code;
    return run_tune(&options);
}
