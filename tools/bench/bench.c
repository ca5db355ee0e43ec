/* `doorbell bench`: the verb, statistics, reports. */
#include "tools/bench/bench.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/bits.h"
#include "base/thread.h"
#include "base/file.h"
#include "tools/json.h"
#include "tools/selftest/selftest.h"
#include "tools/tools.h"

struct bench_options {
    const char *device, *only, *save, *against, *math;
    double budget_s, threshold_percent; /* 0: none was given */
    bool json, list;
};

const char *const bench_unit_names[BENCH_UNIT_COUNT] = {
    "us", "ns", "ms", "gb_s", "gflops", "thousands_s",
};
static const char *const unit_texts[BENCH_UNIT_COUNT] = {
    "us", "ns", "ms", "GB/s", "GFLOP/s", "k/s",
};

const struct bench_group bench_groups[] = {
    {"start", "from nothing to a first result", bench_start},
    {"launch", "one launch, waited for", bench_launch},
    {"rate", "launches without waiting: host time of each", bench_rate},
    {"replay", "a bound stream of many kernels", bench_replay},
    {"copy", "copies by size, between host and device", bench_copy},
    {"memory", "filling a large buffer; making host memory of any size",
     bench_memory},
    {"elementwise", "the compiler's kernels on large tensors",
     bench_elementwise},
    {"gemm", "matrix products", bench_gemm},
};
const size_t bench_n_groups = ARRAY_LEN(bench_groups);

/* ---- statistics ---- */

static int
compare_doubles(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

/* Between the two values around place p of n - 1. */
static double
quantile(const double *sorted, size_t n, double p)
{
    double at = p * (double)(n - 1);
    size_t i = (size_t)at;

    if (i + 1 >= n)
        return sorted[n - 1];
    return sorted[i] + (at - (double)i) * (sorted[i + 1] - sorted[i]);
}

void
bench_quartiles(double *values, size_t n, double *out_q1, double *out_median,
                double *out_q3)
{
    qsort(values, n, sizeof(*values), compare_doubles);
    *out_q1 = quantile(values, n, 0.25);
    *out_median = quantile(values, n, 0.5);
    *out_q3 = quantile(values, n, 0.75);
}

void
bench_begin(struct bench *b)
{
    b->n_samples = 0;
    b->start_ns = time_now_ns();
}

bool
bench_goes_on(const struct bench *b, size_t min)
{
    double spent_s = (double)(time_now_ns() - b->start_ns) / 1e9;

    if (b->n_samples >= BENCH_SAMPLES_MAX)
        return false;
    return b->n_samples < min || spent_s < b->budget_s;
}

void
bench_sample(struct bench *b, double value)
{
    if (b->n_samples < BENCH_SAMPLES_MAX)
        b->samples[b->n_samples++] = value;
}

static struct bench_row *
add_row(struct bench *b, enum bench_unit unit, const char *what)
{
    struct bench_row *row;

    if (b->n_rows == BENCH_ROWS_MAX)
        return NULL;
    row = &b->rows[b->n_rows++];
    row->unit = unit;
    row->what = what;
    return row;
}

void
bench_end(struct bench *b, enum bench_unit unit, const char *what,
          const char *name, ...)
{
    struct bench_row *row;
    va_list args;

    if (b->n_samples == 0)
        return;
    row = add_row(b, unit, what);
    if (!row)
        return;
    va_start(args, name);
    vsnprintf(row->name, sizeof(row->name), name, args);
    va_end(args);
    row->n_runs = b->n_samples;
    bench_quartiles(b->samples, b->n_samples, &row->q1, &row->median, &row->q3);
}

void
bench_lacks(struct bench *b, enum bench_unit unit, const char *what,
            const char *name, const char *why)
{
    struct bench_row *row = add_row(b, unit, what);

    if (!row)
        return;
    snprintf(row->name, sizeof(row->name), "%s", name);
    snprintf(row->why_not, sizeof(row->why_not), "%.*s",
             (int)sizeof(row->why_not) - 1, why);
}

/* ---- the device ---- */

/* A kernel of one thread, where there is one for the device; not having one
 * is told by the rows that need it. */
static bell_status
load_store(struct bench *b)
{
    struct hcq_program_desc desc = {.struct_size = sizeof(desc)};
    struct selftest_binary binary;
    bell_status status;

    status = selftest_kernel_binary(&b->info, SELFTEST_STORE, &binary);
    if (status == BELL_E_UNSUPPORTED)
        return BELL_OK;
    BELL_TRY(status);
    desc.name = binary.name;
    desc.binary = binary.data;
    desc.binary_size_bytes = binary.size_bytes;
    desc.n_bufs = binary.n_bufs;
    desc.n_vals = binary.n_vals;
    status = hcq_program_create(b->dev, &desc, &b->store);
    host_free(binary.data);
    return status;
}

bell_status
bench_open(struct bench *b)
{
    bell_status status;

    if (b->dev)
        return BELL_OK;
    BELL_TRY(hcq_device_open(b->device, &b->dev));
    b->info.struct_size = sizeof(b->info);
    hcq_device_info(b->dev, &b->info);
    status = hcq_queue_create(b->dev, HCQ_QUEUE_COMPUTE, &b->compute);
    if (status == BELL_OK)
        status = hcq_queue_create(b->dev, HCQ_QUEUE_COPY, &b->copy);
    if (status == BELL_OK)
        status = load_store(b);
    if (status != BELL_OK)
        bench_close(b);
    return status;
}

void
bench_close(struct bench *b)
{
    hcq_program_destroy(b->store);
    hcq_queue_destroy(b->compute);
    hcq_queue_destroy(b->copy);
    hcq_device_close(b->dev);
    b->store = NULL;
    b->compute = b->copy = NULL;
    b->dev = NULL;
}

/* ---- reports ---- */

static void
print_row(const struct bench_row *row)
{
    const char *unit = unit_texts[row->unit];

    if (row->why_not[0]) {
        printf("%-22s %-38s unsupported: %s\n", row->name, row->what,
               row->why_not);
        return;
    }
    printf("%-22s %-38s %10.3f %-7s  %.3f .. %.3f, %" PRIu64 " runs", row->name,
           row->what, row->median, unit, row->q1, row->q3, row->n_runs);
    if (row->has_old)
        printf("; other %.3f: %+.1f %%, %s", row->old, bench_gain_percent(row),
               bench_verdict_names[row->verdict]);
    printf("\n");
}

static int
save(const struct bench *b, const char *path)
{
    struct json json;
    struct file_part part;
    bell_status status;

    bench_build_json(&json, b);
    part.data = json_text(&json);
    if (!part.data) {
        json_fini(&json);
        return tool_fail_text(false, BELL_E_NO_MEMORY, "out of memory");
    }
    part.size_bytes = strlen(part.data);
    status = file_write(path, &part, 1);
    json_fini(&json);
    return status == BELL_OK ? TOOL_OK : tool_fail(false, status);
}

static int
report(struct bench *b, const struct bench_options *options)
{
    int code = TOOL_OK, printed;
    struct json json;
    size_t i, n_worse = 0;

    for (i = 0; i < b->n_rows; i++)
        n_worse += b->rows[i].has_old && b->rows[i].verdict == BENCH_WORSE;
    if (options->threshold_percent > 0 && n_worse > 0)
        code = TOOL_FAILED;
    if (options->save && save(b, options->save) != TOOL_OK)
        code = TOOL_FAILED;
    if (options->json) {
        bench_build_json(&json, b);
        printed = tool_print_json(&json);
        return code == TOOL_OK ? printed : code;
    }
    printf("%s: %s, %s%s\n", b->info.name, b->info.model, b->info.arch,
           b->info.flags & HCQ_DEVICE_SIMULATED
               ? "; simulated: these figures are the simulator's"
               : "");
    for (i = 0; i < b->n_rows; i++)
        print_row(&b->rows[i]);
    if (options->against)
        printf("%zu of %zu rows are worse than in %s\n", n_worse, b->n_rows,
               options->against);
    return code;
}

/* ---- running ---- */

static bell_status
run_groups(struct bench *b, const struct bench_saved *saved,
           double threshold_percent)
{
    size_t i;

    BELL_TRY(bench_open(b));
    b->is_small = (b->info.flags & HCQ_DEVICE_SIMULATED) != 0;
    if (saved)
        BELL_TRY(bench_saved_check(saved, b, NULL));
    for (i = 0; i < bench_n_groups; i++) {
        if (b->only && strcmp(b->only, bench_groups[i].name) != 0)
            continue;
        tool_progress("%s", bench_groups[i].name);
        BELL_TRY(bench_groups[i].run(b));
    }
    tool_progress(NULL);
    BELL_TRY(bench_open(b));
    if (hcq_device_clock_mhz(b->dev, &b->clock_mhz) != BELL_OK)
        b->clock_mhz = 0;
    if (saved) {
        BELL_TRY(bench_saved_check(saved, b, tool_math_words(b->allowed)));
        bench_saved_compare(saved, b, threshold_percent);
    }
    return BELL_OK;
}

static int
check_only(const struct bench_options *options)
{
    const char *names[16], *nearest;
    size_t i;

    for (i = 0; i < bench_n_groups; i++) {
        names[i] = bench_groups[i].name;
        if (!options->only || strcmp(options->only, names[i]) == 0)
            return TOOL_GO_ON;
    }
    nearest = tool_nearest(options->only, names, bench_n_groups);
    return tool_usage(options->json, "bench: no group '%s'%s%s%s",
                      options->only, nearest ? "; did you mean '" : "",
                      nearest ? nearest : "", nearest ? "'?" : "");
}

static int
list_groups(bool as_json)
{
    struct json json;
    size_t i;

    if (as_json) {
        json_init(&json);
        json_array(&json, "groups");
        for (i = 0; i < bench_n_groups; i++) {
            json_object(&json, NULL);
            json_str(&json, "name", bench_groups[i].name);
            json_str(&json, "what", bench_groups[i].what);
            json_end(&json);
        }
        json_end(&json);
        return tool_print_json(&json);
    }
    for (i = 0; i < bench_n_groups; i++)
        printf("%-12s %s\n", bench_groups[i].name, bench_groups[i].what);
    return TOOL_OK;
}

static int
run_bench(const struct bench_options *options)
{
    double threshold_percent =
        options->threshold_percent > 0 ? options->threshold_percent : 5;
    struct bench *b = host_calloc(1, sizeof(*b));
    struct bench_saved *saved = NULL;
    struct hcq_device *dev;
    bell_status status = BELL_OK;
    int code;

    if (!b)
        return tool_fail_text(options->json, BELL_E_NO_MEMORY, "out of memory");
    b->only = options->only;
    b->budget_s = options->budget_s;
    b->math = options->math;
    b->device = options->device;
    /* before an hour of measuring */
    if (options->against)
        status = bench_saved_read(options->against, &saved);
    if (status == BELL_OK && options->save)
        status = file_check_writable(options->save);
    if (status == BELL_OK && !b->device) {
        b->device = b->default_device;
        status = hcq_device_open(NULL, &dev);
        if (status == BELL_OK) {
            snprintf(b->default_device, sizeof(b->default_device), "%s",
                     hcq_device_name(dev));
            hcq_device_close(dev);
        }
    }
    if (status == BELL_OK)
        status = run_groups(b, saved, threshold_percent);
    code = status == BELL_OK ? report(b, options)
                             : tool_fail(options->json, status);
    bench_saved_close(saved);
    bench_close(b);
    host_free(b);
    return code;
}

int
verb_bench(int argc, char **argv)
{
    struct bench_options options = {.budget_s = 0.3};
    const struct tool_opt opts[] = {
        {"DEVICE", NULL, TOOL_OPT_STRING, &options.device, 0, 0,
         "default: $BELL_DEVICE, or the first that works"},
        TOOL_MATH_OPT(&options.math),
        {"--only", "GROUP", TOOL_OPT_STRING, &options.only, 0, 0,
         "this group alone"},
        {"--list", NULL, TOOL_OPT_FLAG, &options.list, 0, 0,
         "the groups; runs nothing"},
        TOOL_NUMBER_OPT("--seconds", "S", &options.budget_s, 0, 3600,
                        "for each row (default: 0.3)"),
        {"--save", "FILE", TOOL_OPT_STRING, &options.save, 0, 0,
         "also writes the JSON document there"},
        {"--against", "FILE", TOOL_OPT_STRING, &options.against, 0, 0,
         "a saved run of such a device to compare with"},
        TOOL_NUMBER_OPT("--threshold", "P", &options.threshold_percent, 0, 1000,
                        "exit code 1 if a row is worse by more than P percent"),
        TOOL_JSON_OPT(&options.json),
    };
    int code;

    code = tool_parse("bench [DEVICE] [options]\n\n"
                      "What a device and the way to it cost: medians and "
                      "quartiles of starts, launches,\nreplays, copies, "
                      "memory and matrix products.",
                      opts, ARRAY_LEN(opts), argc, argv);
    if (code != TOOL_GO_ON)
        return code;
    if (options.list)
        return list_groups(options.json);
    code = check_only(&options);
    if (code == TOOL_GO_ON && options.threshold_percent > 0 && !options.against)
        code = tool_usage(options.json,
                          "bench: --threshold says how much worse than the run "
                          "of --against, which is missing");
    if (code == TOOL_GO_ON)
        code = tool_check_math(options.json, "bench", options.math);
    return code == TOOL_GO_ON ? run_bench(&options) : code;
}
