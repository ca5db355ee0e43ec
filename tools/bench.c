/* `doorbell bench`: the verb, statistics, reports. */
#include "tools/bench.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/bits.h"
#include "base/thread.h"
#include "tools/file.h"
#include "tools/json.h"
#include "tools/selftest.h"
#include "tools/tools.h"

struct options {
    const char *device, *only, *save, *against, *math;
    double budget_s;
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
    {"memory", "fill and copy of large buffers", bench_memory},
    {"elementwise", "the compiler's kernels on large tensors",
     bench_elementwise},
    {"gemm", "matrix products", bench_gemm},
};
const size_t bench_n_groups = ARRAY_LEN(bench_groups);

/* ---- statistics ----------------------------------------------------------------- */

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

/* ---- the device -------------------------------------------------------------------- */

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

/* ---- a saved run --------------------------------------------------------------------- */

/* The number after `key` in the object that starts at `at`. */
static bool
find_number(const char *at, const char *end, const char *key, double *out)
{
    const char *place = strstr(at, key);
    char *after;

    if (!place || place > end)
        return false;
    place += strlen(key);
    *out = strtod(place, &after);
    return after != place;
}

static void
read_row(const char *text, struct bench_row *row)
{
    char name[64], key[64];
    const char *at, *end;

    snprintf(name, sizeof(name), "\"name\": \"%s\"", row->name);
    snprintf(key, sizeof(key), "\"median_%s\": ", bench_unit_names[row->unit]);
    at = strstr(text, name);
    end = at ? strchr(at, '}') : NULL;
    if (end)
        row->has_old = find_number(at, end, key, &row->old) && row->old > 0;
}

bell_status
bench_read_old(struct bench *b, const char *path)
{
    struct file_bytes file;
    char *text;
    size_t i;

    BELL_TRY(file_read(path, &file));
    text = host_alloc(file.size_bytes + 1);
    if (text) {
        memcpy(text, file.data, file.size_bytes);
        text[file.size_bytes] = '\0';
    }
    file_bytes_fini(&file);
    if (!text)
        return bell_fail(BELL_E_NO_MEMORY, "%s: out of memory", path);
    if (!strstr(text, "\"doorbell_bench\": 1")) {
        host_free(text);
        return bell_fail(BELL_E_IO,
                         "%s: not what `doorbell bench --save` "
                         "writes",
                         path);
    }
    for (i = 0; i < b->n_rows; i++)
        read_row(text, &b->rows[i]);
    host_free(text);
    return BELL_OK;
}

/* ---- reports --------------------------------------------------------------------------- */

static void
put_row(struct json *json, const struct bench_row *row)
{
    const char *unit = bench_unit_names[row->unit];
    char key[64];

    json_object(json, NULL);
    json_str(json, "name", row->name);
    json_str(json, "what", row->what);
    snprintf(key, sizeof(key), "median_%s", unit);
    if (row->why_not[0]) {
        json_str(json, key, "unsupported");
        json_str(json, "why", row->why_not);
        json_end(json);
        return;
    }
    json_num(json, key, row->median);
    snprintf(key, sizeof(key), "q1_%s", unit);
    json_num(json, key, row->q1);
    snprintf(key, sizeof(key), "q3_%s", unit);
    json_num(json, key, row->q3);
    json_uint(json, "n_runs", row->n_runs);
    if (row->has_old) {
        snprintf(key, sizeof(key), "old_%s", unit);
        json_num(json, key, row->old);
        json_num(json, "ratio", row->median / row->old);
    }
    json_end(json);
}

static void
build_json(struct json *json, const struct bench *b)
{
    const struct hcq_device_info *info = &b->info;
    size_t i;

    json_init(json);
    json_int(json, "doorbell_bench", 1);
    json_str(json, "device", info->name);
    json_str(json, "model", info->model);
    json_str(json, "arch", info->arch);
    json_str(json, "math", tool_math_words(b->allowed));
    json_bool(json, "simulated", (info->flags & HCQ_DEVICE_SIMULATED) != 0);
    json_array(json, "rows");
    for (i = 0; i < b->n_rows; i++)
        put_row(json, &b->rows[i]);
    json_end(json);
}

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
        printf("; other %.3f: %.2fx", row->old, row->median / row->old);
    printf("\n");
}

static int
save(const struct bench *b, const char *path)
{
    struct json json;
    struct file_part part;
    bell_status status;

    build_json(&json, b);
    part.data = json_text(&json);
    if (!part.data) {
        json_fini(&json);
        return tool_fail_text(false, TOOL_FAILED, "out of memory");
    }
    part.size_bytes = strlen(part.data);
    status = file_write(path, &part, 1);
    json_fini(&json);
    return status == BELL_OK ? TOOL_OK : tool_fail(false, status);
}

static int
report(struct bench *b, const struct options *options)
{
    struct json json;
    int code = TOOL_OK;
    size_t i;

    if (options->against) {
        bell_status status = bench_read_old(b, options->against);
        if (status != BELL_OK)
            return tool_fail(options->json, status);
    }
    if (options->save)
        code = save(b, options->save);
    if (options->json) {
        build_json(&json, b);
        i = (size_t)tool_print_json(&json);
        return code == TOOL_OK ? (int)i : code;
    }
    printf("%s: %s, %s%s\n", b->info.name, b->info.model, b->info.arch,
           b->info.flags & HCQ_DEVICE_SIMULATED
               ? "; simulated: these figures are the simulator's"
               : "");
    for (i = 0; i < b->n_rows; i++)
        print_row(&b->rows[i]);
    return code;
}

/* ---- running ---------------------------------------------------------------------------- */

static bell_status
run_groups(struct bench *b)
{
    size_t i;

    BELL_TRY(bench_open(b));
    b->is_small = (b->info.flags & HCQ_DEVICE_SIMULATED) != 0;
    for (i = 0; i < bench_n_groups; i++) {
        if (b->only && strcmp(b->only, bench_groups[i].name) != 0)
            continue;
        tool_progress("%s", bench_groups[i].name);
        BELL_TRY(bench_groups[i].run(b));
    }
    tool_progress(NULL);
    return BELL_OK;
}

static int
check_only(const struct options *options)
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
list_groups(void)
{
    size_t i;

    for (i = 0; i < bench_n_groups; i++)
        printf("%-12s %s\n", bench_groups[i].name, bench_groups[i].what);
    return TOOL_OK;
}

static int
run_bench(const struct options *options)
{
    struct bench *b = host_calloc(1, sizeof(*b));
    struct hcq_device *dev;
    bell_status status = BELL_OK;
    int code;

    if (!b)
        return tool_fail_text(options->json, TOOL_FAILED, "out of memory");
    b->only = options->only;
    b->budget_s = options->budget_s;
    b->math = options->math;
    b->device = options->device;
    if (!b->device) {
        b->device = b->default_device;
        status = hcq_device_open(NULL, &dev);
        if (status == BELL_OK) {
            snprintf(b->default_device, sizeof(b->default_device), "%s",
                     hcq_device_name(dev));
            hcq_device_close(dev);
        }
    }
    if (status == BELL_OK)
        status = run_groups(b);
    code = status == BELL_OK ? report(b, options)
                             : tool_fail(options->json, status);
    bench_close(b);
    host_free(b);
    return code;
}

int
verb_bench(int argc, char **argv)
{
    struct options options = {.budget_s = 0.3};
    const struct tool_opt opts[] = {
        {"DEVICE", NULL, TOOL_OPT_STRING, &options.device, 0, 0,
         "default: $BELL_DEVICE, or the first that works"},
        TOOL_MATH_OPT(&options.math),
        {"--only", "GROUP", TOOL_OPT_STRING, &options.only, 0, 0,
         "this group alone"},
        {"--list", NULL, TOOL_OPT_FLAG, &options.list, 0, 0,
         "the groups; runs nothing"},
        {"--seconds", "S", TOOL_OPT_NUMBER, &options.budget_s, 0, 0,
         "for each row (default: 0.3)"},
        {"--save", "FILE", TOOL_OPT_STRING, &options.save, 0, 0,
         "also writes the JSON document there"},
        {"--against", "FILE", TOOL_OPT_STRING, &options.against, 0, 0,
         "a saved run to compare with"},
        {"--json", NULL, TOOL_OPT_FLAG, &options.json, 0, 0,
         "one JSON document on stdout"},
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
        return list_groups();
    code = check_only(&options);
    if (code == TOOL_GO_ON)
        code = tool_check_math(options.json, "bench", options.math);
    return code == TOOL_GO_ON ? run_bench(&options) : code;
}
