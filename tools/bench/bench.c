/* `doorbell bench`: the verb, what it prints and keeps. */
#include "tools/bench/bench.h"

#include <inttypes.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/bits.h"
#include "base/file.h"
#include "base/thread.h"
#include "base/json.h"
#include "tools/machine/print.h"
#include "tools/machine/sensors.h"
#include "tools/plan/plan.h"
#include "tools/tools.h"

/* Passes: the middle ones of their figures tell; small sizes need fewer. */
#define PASSES       12
#define SMALL_PASSES 2

struct bench_options {
    const char *device, *only, *save, *against, *math, *html, *algorithm;
    const char *model; /* where it is given plan_verb reads the options */
    enum hcq_collective_algorithm by; /* that `algorithm` names */
    struct tool_list suites;
    double budget_s, threshold_percent; /* 0: none was given */
    double slower_percent;
    int64_t passes; /* 0: as many as there are of it */
    bool json, csv, list, quick;
};

const struct bench_suite bench_suites[] = {
    {"startup", "from nothing to a first result", bench_startup, false},
    {"launch",
     "launches waited for, their rate, replays, a count that is right",
     bench_launch, false},
    {"copy", "copies by size in every direction, verified", bench_copy, false},
    {"mem", "bandwidth by kind of access and by size, latency, host memory",
     bench_mem, false},
    {"flops", "most operations a second, and by operations for each byte",
     bench_flops, false},
    {"micro", "atomics, barriers, branches, latencies, caches, integers",
     bench_micro, false},
    {"gemm", "matrix products by dtype and shape", bench_gemm, false},
    {"ops", "softmax, layernorm, sums, attention, convolution", bench_ops,
     false},
    {"compile", "graphs to machine code", bench_compile, false},
    {"peers", "copies between each two devices: bandwidth, latency",
     bench_peers, true},
    {"allreduce", "all-reduce by size, verified", bench_all_reduce, true},
    {"allgather", "all-gather by size, verified", bench_all_gather, true},
    {"reducescatter", "reduce-scatter by size, verified", bench_reduce_scatter,
     true},
    {"alltoall", "all-to-all by size, verified", bench_all_to_all, true},
    {"broadcast", "broadcast by size, verified", bench_broadcast, true},
};
const size_t bench_n_suites = ARRAY_LEN(bench_suites);

/* ---- the device ---- */

bell_status
bench_load(struct bench *b, enum selftest_kernel kernel,
           struct hcq_program **out_prog)
{
    bell_status status;

    *out_prog = NULL;
    status = selftest_program_create(b->dev, kernel, out_prog);
    return status == BELL_E_UNSUPPORTED ? BELL_OK : status;
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
        status = bench_load(b, SELFTEST_STORE, &b->store);
    if (status == BELL_OK)
        status = bench_load(b, SELFTEST_COUNT, &b->count);
    if (status != BELL_OK)
        bench_close(b);
    return status;
}

void
bench_close(struct bench *b)
{
    hcq_program_destroy(b->count);
    hcq_program_destroy(b->store);
    hcq_queue_destroy(b->compute);
    hcq_queue_destroy(b->copy);
    hcq_device_close(b->dev);
    b->store = b->count = NULL;
    b->compute = b->copy = NULL;
    b->dev = NULL;
}

/* ---- what is printed ---- */

static void print_series(const struct bench *b);

static void
print_host(const char *when, const struct bench_host *host)
{
    tool_printf("host %s: sums %.2f us, a copy of 1 MiB %.1f us, a word to "
                "another thread and back %.2f us\n",
                when, host->arithmetic_ns / 1e3, host->memory_ns / 1e3,
                host->handoff_ns / 1e3);
}

static void
print_head(struct bench *b)
{
    struct bench_host host;
    double load;

    tool_printf("%s: %s, %s%s\n", b->list ? b->list : b->info.name,
                b->info.model, b->info.arch,
                b->info.flags & HCQ_DEVICE_SIMULATED
                    ? "; simulated: these figures are the simulator's"
                    : "");
    bench_host_measure(b, &host);
    print_host("before", &host);
    if (getloadavg(&load, 1) == 1)
        tool_printf("load %.2f of %u processors; the clock's step is %.0f ns\n",
                    load, (unsigned)thread_cpu_count(), b->tick_ns);
    tool_printf("medians of %u passes, and where that of another run lies "
                "(95 %%)\n",
                b->n_passes);
    fflush(stdout);
}

/* A row, as soon as it is there. */
static void
print_bench_row(const struct bench *b, const struct bench_row *row)
{
    const char *unit = bench_unit_texts[row->unit];

    (void)b;
    tool_progress(NULL);
    if (row->exchange.is_set && row->exchange.algorithm && !row->why_not[0]) {
        bench_print_exchange(row);
        return;
    }
    tool_printf("%-22s %-46s ", row->name, row->what);
    if (row->why_not[0]) {
        tool_printf("unsupported: %s\n", row->why_not);
        fflush(stdout);
        return;
    }
    tool_printf("%10.3f %-7s", row->median, unit);
    if (row->n_passes >= BENCH_PASSES_MIN)
        tool_printf("  %.3f .. %.3f, %" PRIu64 " runs", row->low, row->high,
                    row->n_runs);
    else if (!row->is_derived)
        tool_printf("  %" PRIu64 " runs in %u passes, too few for an interval",
                    row->n_runs, row->n_passes);
    if (row->has_bins)
        tool_printf("; p1 %.3f, p99 %.3f", row->p1, row->p99);
    if (row->theory > 0)
        tool_printf("; %.0f %% of theory", 100 * row->median / row->theory);
    if (row->is_noisy && isfinite(row->interval_percent))
        tool_printf("; noisy: +-%.1f %%", row->interval_percent);
    tool_printf("\n");
    fflush(stdout);
}

static void
print_verdict(const struct bench *b, const struct bench_options *options,
              const struct bench_saved *saved, const size_t *n_of)
{
    size_t n_told = n_of[BENCH_WORSE] + n_of[BENCH_BETTER] + n_of[BENCH_SAME];

    tool_printf("%zu of %zu rows that can be compared are worse than in %s\n",
                n_of[BENCH_WORSE], n_told, options->against);
    if (n_of[BENCH_UNTOLD])
        tool_printf("%zu rows cannot: one of the runs had a host too busy, or "
                    "scatters too much; the host takes %.2f times as long as "
                    "then\n",
                    n_of[BENCH_UNTOLD], bench_saved_host_ratio(saved, b));
}

/* What the others are to be measured by, and what has been compared. */
static void
print_end(const struct bench *b, const struct bench_options *options,
          const struct bench_saved *saved, const size_t *n_of)
{
    static const char *const names[BENCH_CEILING_COUNT] = {
        [BENCH_CEILING_F32] = "float32",
        [BENCH_CEILING_F64] = "float64 products",
        [BENCH_CEILING_F16] = "16-bit products",
        [BENCH_CEILING_TF32] = "TF32 products",
        [BENCH_CEILING_8] = "8-bit products",
        [BENCH_CEILING_VECTOR_F64] = "float64",
        [BENCH_CEILING_VECTOR_F16] = "float16",
        [BENCH_CEILING_VECTOR_BF16] = "bfloat16",
        [BENCH_CEILING_I32] = "int32",
        [BENCH_CEILING_MEMORY] = "memory",
        [BENCH_CEILING_LINK] = "host link",
    };
    struct bench_host host;
    size_t i, k;

    bench_host_of_run(b, &host);
    if (host.stretch > 0)
        print_host("beside the rows", &host);
    for (k = 0; k < BENCH_CEILING_COUNT; k++) {
        const struct bench_row *top = NULL;

        for (i = 0; i < b->n_rows; i++) {
            const struct bench_row *row = &b->rows[i];

            if (row->ceiling == (enum bench_ceiling)k && !row->why_not[0] &&
                row->median >= row->measured)
                top = row;
        }
        if (top && names[k])
            tool_printf("most of %s: %.1f %s (%s)\n", names[k], top->median,
                        bench_unit_texts[top->unit], top->name);
    }
    if (b->after.clock_mhz)
        tool_printf("device: %" PRIu32 " MHz before, %" PRIu32 " MHz after\n",
                    b->before.clock_mhz, b->after.clock_mhz);
    print_series(b);
    if (isfinite(b->before.temperature_c) && isfinite(b->after.temperature_c))
        tool_printf("device: %.0f C before, %.0f C after\n",
                    b->before.temperature_c, b->after.temperature_c);
    bench_print_matrices(b);
    for (i = 0; options->against && i < b->n_rows; i++) {
        const struct bench_row *row = &b->rows[i];

        if (!row->has_old || row->verdict == BENCH_SAME ||
            row->verdict == BENCH_UNTOLD)
            continue;
        tool_printf("%-22s best %10.3f %-7s other %.3f: %+.1f %%, %s",
                    row->name, row->best, bench_unit_texts[row->unit],
                    row->old_best, bench_gain_percent(row),
                    bench_verdict_names[row->verdict]);
        if (row->n_again)
            tool_printf(" (measured %u times)", row->n_again + 1);
        tool_printf("\n");
    }
    if (saved)
        print_verdict(b, options, saved, n_of);
    if (b->is_interrupted)
        tool_printf("interrupted: this is what there was\n");
    if (b->failure[0])
        tool_printf("failed: this is what there was\n");
}

/* ---- what is kept ---- */

static bell_status
keep(const struct bench *b, const struct bench_options *options)
{
    bell_status status = BELL_OK;
    struct file_bytes other = {NULL, 0};
    struct file_part part;
    struct json json;

    bench_build_json(&json, b);
    part.data = json_text(&json);
    if (!part.data) {
        json_fini(&json);
        return bell_fail(BELL_E_NO_MEMORY, "out of memory");
    }
    part.size_bytes = strlen(part.data);
    if (options->save)
        status = file_write(options->save, &part, 1);
    if (status == BELL_OK && options->html && options->against)
        status = file_read(options->against, &other);
    if (status == BELL_OK && options->html)
        status = bench_write_html(options->html, part.data,
                                  other.data ? other.data : "null",
                                  other.data ? other.size_bytes : 4);
    file_bytes_fini(&other);
    json_fini(&json);
    return status;
}

static int
print_csv(const struct bench *b)
{
    bell_status status;
    int code = TOOL_OK;
    char *text;

    status = bench_build_csv(b, &text);
    if (status != BELL_OK)
        return tool_fail(false, status);
    tool_printf("%s", text);
    if (ferror(stdout))
        code = tool_fail_text(false, BELL_E_IO, "cannot write to stdout");
    host_free(text);
    return code;
}

static int
report(struct bench *b, const struct bench_options *options,
       const struct bench_saved *saved)
{
    int code = TOOL_OK, printed = TOOL_OK;
    bell_status status;
    struct json json;
    size_t n_of[BENCH_VERDICT_COUNT] = {0}, i;
    bool is_told;

    for (i = 0; i < b->n_rows; i++) {
        if (b->rows[i].has_old)
            n_of[b->rows[i].verdict]++;
    }
    is_told = n_of[BENCH_SAME] + n_of[BENCH_BETTER] > 0;
    /* a comparison in which nothing could be compared has not been passed */
    if ((options->threshold_percent > 0 && (n_of[BENCH_WORSE] || !is_told)) ||
        b->is_interrupted)
        code = TOOL_FAILED;
    status = keep(b, options);
    if (status != BELL_OK)
        code = tool_fail(false, status);
    if (options->json) {
        bench_build_json(&json, b);
        printed = tool_print_json(&json);
    } else if (options->csv) {
        printed = print_csv(b);
    } else {
        print_end(b, options, saved, n_of);
    }
    return code == TOOL_OK ? printed : code;
}

/* A run that failed keeps what was measured until then, and says why. */
static int
report_failed(struct bench *b, const struct bench_options *options,
              const struct bench_saved *saved, bell_status status)
{
    struct bell_error error = *bell_error_last();
    int code;

    snprintf(b->failure, sizeof(b->failure), "%.*s",
             (int)sizeof(b->failure) - 1, error.message);
    bench_finish(b);
    bench_find_ceilings(b);
    (void)report(b, options, saved);
    bell_error_set(&error);
    code = tool_fail(false, status);
    return code;
}

/* ---- running ---- */

static void
read_state(struct bench *b, const struct machine_gpu *gpu,
           struct bench_state *state)
{
    struct machine_sensors sensors;

    if (hcq_device_clock_mhz(b->dev, &state->clock_mhz) != BELL_OK)
        state->clock_mhz = 0;
    machine_sense_cpu("", &sensors);
    state->cpu_mhz = sensors.clock_mhz;
    state->cpu_c = sensors.temperature_c;
    state->temperature_c = NAN;
    if (gpu) {
        machine_sense_gpu("", gpu, &sensors);
        state->temperature_c = sensors.temperature_c;
    } else if (b->info.flags & HCQ_DEVICE_HOST_CPU) {
        state->temperature_c = state->cpu_c;
    }
}

#define SENSE_NS   1000000000u
#define SERIES_MAX 100000

/* Once a second, at the end of a row. */
static void
sense(struct bench *b)
{
    struct bench_moment moment = {.power_w = NAN};
    struct machine_sensors sensors;
    struct machine_health health;
    uint64_t now_ns = time_now_ns();

    if (!b->dev || now_ns - b->sensed_ns < SENSE_NS ||
        b->n_series == SERIES_MAX ||
        host_grow((void **)&b->series, &b->cap_series, b->n_series + 1,
                  sizeof(*b->series)) != 0)
        return;
    b->sensed_ns = now_ns;
    moment.time_s = (double)(now_ns - b->began_ns) / 1e9;
    read_state(b, b->gpu, &moment.state);
    if (b->gpu) {
        machine_sense_gpu("", b->gpu, &sensors);
        machine_health_gpu("", b->gpu, &health);
        moment.power_w = sensors.power_w;
        moment.tells_throttle = health.tells_throttle;
        moment.throttle = health.throttle;
    }
    b->series[b->n_series++] = moment;
}

/* Prints the lowest clock of all moments, and what throttled. */
static void
print_series(const struct bench *b)
{
    char text[MACHINE_THROTTLE_TEXT];
    uint32_t worst_mhz = 0;
    uint64_t throttle = 0;
    bool is_told = false;
    size_t i;

    for (i = 0; i < b->n_series; i++) {
        uint32_t mhz = b->series[i].state.clock_mhz;

        if (mhz && (!worst_mhz || mhz < worst_mhz))
            worst_mhz = mhz;
        is_told |= b->series[i].tells_throttle;
        throttle |= b->series[i].throttle;
    }
    if (worst_mhz)
        tool_printf("device: %" PRIu32 " MHz at the least\n", worst_mhz);
    machine_throttle_text(throttle, text);
    if (is_told)
        tool_printf("throttled by: %s\n", text);
}

static bool
is_asked_for(const struct bench *b, const struct bench_options *options,
             const struct bench_suite *suite)
{
    size_t i;

    for (i = 0; i < options->suites.n_items; i++) {
        if (strcmp(options->suites.items[i], suite->name) == 0)
            return true;
    }
    return options->suites.n_items == 0 && suite->is_group == (b->list != NULL);
}

static bell_status
run_suite(struct bench *b, const struct bench_suite *suite)
{
    BELL_TRY(bench_open(b)); /* what the one before it closed */
    b->suite = suite->name;
    tool_progress("pass %u of %u: %s", b->pass + 1, b->n_passes, suite->name);
    return suite->run(b);
}

static bool
has_open(const struct bench *b, const char *suite)
{
    size_t i;

    for (i = 0; i < b->n_rows; i++) {
        if (bench_is_open(&b->rows[i]) && strcmp(b->rows[i].suite, suite) == 0)
            return true;
    }
    return false;
}

/* Rows that seem worse, and those that may yet be told, are measured up to four
 * times more. A row that is worse stays so. A busy moment does not stay, nor do
 * the addresses that things got in memory: the device is opened again. */
static bell_status
measure_again(struct bench *b, const struct bench_saved *saved,
              double threshold_percent)
{
    unsigned round;
    size_t i;

    b->is_again = true;
    for (round = 0; round < 4; round++) {
        for (i = 0; i < bench_n_suites && !bench_is_over(b); i++) {
            if (!has_open(b, bench_suites[i].name))
                continue;
            bench_close(b);
            BELL_TRY(run_suite(b, &bench_suites[i]));
        }
        bench_saved_compare(saved, b, threshold_percent);
    }
    return BELL_OK;
}

/* All rows once, on a device that is opened anew: things are at other places
 * then, as they are in another run. */
static bell_status
run_pass(struct bench *b, const struct bench_options *options)
{
    size_t i;

    bench_close(b);
    for (i = 0; i < bench_n_suites && !bench_is_over(b); i++) {
        if (is_asked_for(b, options, &bench_suites[i]))
            BELL_TRY(run_suite(b, &bench_suites[i]));
    }
    return BELL_OK;
}

static bell_status
run_suites(struct bench *b, const struct bench_options *options,
           const struct bench_saved *saved)
{
    double threshold_percent =
        options->threshold_percent > 0 ? options->threshold_percent : 5;

    for (b->pass = 0; b->pass < b->n_passes && !bench_is_over(b); b->pass++)
        BELL_TRY(run_pass(b, options));
    bench_finish(b);
    if (saved) {
        BELL_TRY(bench_saved_check(saved, b, tool_math_words(b->allowed)));
        bench_saved_compare(saved, b, threshold_percent);
        BELL_TRY(measure_again(b, saved, threshold_percent));
    }
    tool_progress(NULL);
    bench_find_ceilings(b);
    return BELL_OK;
}

/* The GPU that the device is, of this machine; NULL: none. */
static const struct machine_gpu *
find_gpu(const struct bench *b, struct machine *machine)
{
    if ((b->info.flags & HCQ_DEVICE_HOST_CPU) || strchr(b->info.name, '@') ||
        machine_read("", machine) != BELL_OK)
        return NULL;
    machine_number_nv(machine);
    return machine_find(machine, b->info.backend, b->info.name);
}

static bell_status
measure_bench(struct bench *b, const struct bench_options *options,
              const struct bench_saved *saved)
{
    struct machine machine = {NULL, 0};
    const struct machine_gpu *gpu;
    bell_status status;

    BELL_TRY(bench_open(b));
    b->is_quick = options->quick;
    b->is_small = b->is_quick || (b->info.flags & HCQ_DEVICE_SIMULATED);
    b->n_passes = options->passes ? (unsigned)options->passes
                  : b->is_small   ? SMALL_PASSES
                                  : PASSES;
    b->tick_ns = bench_host_tick();
    if (!(b->info.flags & HCQ_DEVICE_SIMULATED)) /* which is not such a chip */
        b->chip = chip_of_device(b->info.name, b->info.model);
    if (saved)
        BELL_TRY(bench_saved_check(saved, b, NULL));
    b->gpu = gpu = find_gpu(b, &machine);
    b->began_ns = time_now_ns();
    b->sensed = sense;
    if (gpu && !(b->info.flags & HCQ_DEVICE_SIMULATED))
        b->link_gb_s = machine_link_gb_s(gpu);
    read_state(b, gpu, &b->before);
    if (b->told)
        print_head(b);
    status = run_suites(b, options, saved);
    if (status == BELL_OK)
        status = bench_open(b);
    if (status == BELL_OK)
        read_state(b, gpu, &b->after);
    b->gpu = NULL;
    b->sensed = NULL;
    machine_free(&machine);
    return status;
}

/* ---- the verb ---- */

static int
check_suites(struct bench_options *options)
{
    const char *names[32], *nearest;
    size_t i, k;

    for (i = 0; i < bench_n_suites; i++)
        names[i] = bench_suites[i].name;
    /* the first word may be a suite, of the default device */
    for (i = 0; options->device && i < bench_n_suites; i++) {
        if (strcmp(options->device, names[i]) != 0 ||
            options->suites.n_items == TOOL_LIST_MAX)
            continue;
        options->suites.items[options->suites.n_items++] = options->device;
        options->device = NULL;
    }
    if (options->only && options->suites.n_items < TOOL_LIST_MAX)
        options->suites.items[options->suites.n_items++] = options->only;
    for (k = 0; k < options->suites.n_items; k++) {
        const char *name = options->suites.items[k];

        for (i = 0; i < bench_n_suites && strcmp(name, names[i]) != 0; i++)
            ;
        if (i < bench_n_suites)
            continue;
        nearest = tool_nearest(name, names, bench_n_suites);
        return tool_usage(options->json, "bench: no suite '%s'%s%s%s", name,
                          nearest ? "; did you mean '" : "",
                          nearest ? nearest : "", nearest ? "'?" : "");
    }
    return TOOL_GO_ON;
}

/* Which algorithm collectives are to take. */
static int
take_algorithm(struct bench_options *options, bool is_group)
{
    const char *names[HCQ_COLLECTIVE_ALGORITHM_COUNT], *nearest;
    uint32_t i;

    options->by = HCQ_COLLECTIVE_AUTO;
    if (!options->algorithm)
        return TOOL_GO_ON;
    if (!is_group)
        return tool_usage(options->json,
                          "bench: --algorithm is for collectives of several "
                          "devices: name them as NV:0,NV:1");
    for (i = 0; i < HCQ_COLLECTIVE_ALGORITHM_COUNT; i++) {
        names[i] =
            hcq_collective_algorithm_name((enum hcq_collective_algorithm)i);
        if (strcmp(options->algorithm, names[i]) == 0) {
            options->by = (enum hcq_collective_algorithm)i;
            return TOOL_GO_ON;
        }
    }
    nearest = tool_nearest(options->algorithm, names, ARRAY_LEN(names));
    return tool_usage(options->json,
                      "bench: no algorithm '%s'%s%s%s: one-shot, two-shot, "
                      "ring, nvls or auto",
                      options->algorithm, nearest ? "; did you mean '" : "",
                      nearest ? nearest : "", nearest ? "'?" : "");
}

/* Suites are of one device or of several. */
static int
check_group(const struct bench_options *options, bool is_group)
{
    size_t i, k;

    for (k = 0; k < options->suites.n_items; k++) {
        for (i = 0; i < bench_n_suites; i++) {
            if (strcmp(bench_suites[i].name, options->suites.items[k]) != 0 ||
                bench_suites[i].is_group == is_group)
                continue;
            return tool_usage(options->json, "bench: suite '%s' measures %s",
                              bench_suites[i].name,
                              is_group ? "one device"
                                       : "several devices: name them as "
                                         "NV:0,NV:1");
        }
    }
    return TOOL_GO_ON;
}

static int
list_suites(bool as_json)
{
    struct json json;
    size_t i;

    if (as_json) {
        json_init(&json);
        json_array(&json, "suites");
        for (i = 0; i < bench_n_suites; i++) {
            json_object(&json, NULL);
            json_str(&json, "name", bench_suites[i].name);
            json_str(&json, "what", bench_suites[i].what);
            json_end(&json);
        }
        json_end(&json);
        return tool_print_json(&json);
    }
    for (i = 0; i < bench_n_suites; i++)
        tool_printf("%-12s %s\n", bench_suites[i].name, bench_suites[i].what);
    return TOOL_OK;
}

/* Mistakes are found before an hour of measuring. */
static bell_status
prepare_bench(struct bench *b, const struct bench_options *options,
              struct bench_saved **out_saved)
{
    struct hcq_device *dev;

    if (options->against)
        BELL_TRY(bench_saved_read(options->against, out_saved));
    if (options->save)
        BELL_TRY(file_check_writable(options->save));
    if (options->html)
        BELL_TRY(file_check_writable(options->html));
    if (bench_is_group(b->device))
        return bench_group_parse(b->device, b);
    if (b->device)
        return BELL_OK;
    b->device = b->default_device;
    BELL_TRY(hcq_device_open(NULL, &dev));
    tool_tell_passed_over(dev);
    snprintf(b->default_device, sizeof(b->default_device), "%s",
             hcq_device_name(dev));
    hcq_device_close(dev);
    return BELL_OK;
}

static int
run_bench(const struct bench_options *options)
{
    struct bench *b = host_calloc(1, sizeof(*b));
    struct bench_saved *saved = NULL;
    bell_status status;
    sigset_t interrupt;
    int code;

    if (!b)
        return tool_fail_text(options->json, BELL_E_NO_MEMORY, "out of memory");
    b->budget_s = options->budget_s;
    b->slow_down = 1 + options->slower_percent / 100;
    b->math = options->math;
    b->algorithm = options->by;
    b->is_named = options->suites.n_items > 0;
    b->device = options->device;
    if (!options->json && !options->csv)
        b->told = print_bench_row;
    /* Ctrl-C is looked for between runs (bench_is_over) */
    sigemptyset(&interrupt);
    sigaddset(&interrupt, SIGINT);
    pthread_sigmask(SIG_BLOCK, &interrupt, NULL);
    status = prepare_bench(b, options, &saved);
    if (status == BELL_OK)
        status = measure_bench(b, options, saved);
    if (status == BELL_OK || b->n_rows == 0)
        code = status == BELL_OK ? report(b, options, saved)
                                 : tool_fail(options->json, status);
    else
        code = report_failed(b, options, saved, status);
    bench_saved_close(saved);
    bench_close(b);
    bench_host_close(b);
    bench_free_rows(b);
    host_free(b->series);
    host_free(b);
    return code;
}

/* Whether the prediction of a model is asked for, which measures nothing. */
static bool
asks_for_model(int argc, char **argv)
{
    int i;

    for (i = 1; i < argc && strcmp(argv[i], "--") != 0; i++) {
        if (strcmp(argv[i], "--model") == 0 ||
            strncmp(argv[i], "--model=", 8) == 0)
            return true;
    }
    return false;
}

int
verb_bench(int argc, char **argv)
{
    struct bench_options options = {.budget_s = 0.3};
    const struct tool_opt opts[] = {
        {"DEVICE", NULL, TOOL_OPT_STRING, &options.device, 0, 0,
         "default: $BELL_DEVICE, or the first that works; several: NV:0,NV:1"},
        {"SUITE...", NULL, TOOL_OPT_LIST, &options.suites, 0, 0,
         "run only these (default: all)"},
        TOOL_MATH_OPT(&options.math),
        {"--only", "SUITE", TOOL_OPT_STRING, &options.only, 0, 0,
         "run only this suite"},
        {"--list", NULL, TOOL_OPT_FLAG, &options.list, 0, 0,
         "the suites; runs nothing"},
        {"--algorithm", "NAME", TOOL_OPT_STRING, &options.algorithm, 0, 0,
         "of collectives: one-shot, two-shot, ring, nvls; default: the fastest "
         "by the model, never nvls"},
        TOOL_NUMBER_OPT("--seconds", "S", &options.budget_s, 0, 3600,
                        "for each row, over all passes (default: 0.3)"),
        {"--passes", "N", TOOL_OPT_INT, &options.passes, 1, BENCH_PASSES_MAX,
         "over all rows (default: 12; of small sizes 2)"},
        {"--quick", NULL, TOOL_OPT_FLAG, &options.quick, 0, 0,
         "small sizes, as for simulated devices: to try it out"},
        {"--model", "NAME", TOOL_OPT_STRING, &options.model, 0, 0,
         "predicts training on many GPUs instead: bench --model NAME -h"},
        {"--save", "FILE", TOOL_OPT_STRING, &options.save, 0, 0,
         "also writes the JSON document there"},
        {"--html", "FILE", TOOL_OPT_STRING, &options.html, 0, 0,
         "a page with plots, also of the run of --against"},
        {"--csv", NULL, TOOL_OPT_FLAG, &options.csv, 0, 0,
         "a table of commas on stdout, a line a row"},
        {"--against", "FILE", TOOL_OPT_STRING, &options.against, 0, 0,
         "a saved run of such a device to compare with"},
        TOOL_NUMBER_OPT("--threshold", "P", &options.threshold_percent, 0, 1000,
                        "exit code 1 if a row is worse by more than P percent"),
        TOOL_NUMBER_OPT("--pretend-slower", "P", &options.slower_percent, -1,
                        1000,
                        "for tests of --against: adds P percent to all times"),
        TOOL_JSON_OPT(&options.json),
    };
    int code;

    if (asks_for_model(argc, argv))
        return plan_verb(argc, argv);
    code = tool_parse("bench [DEVICE] [SUITE...] [options]\n"
                      "       doorbell bench --model NAME [options]\n\n"
                      "What a device and the way to it cost: medians and what "
                      "they scatter by, of\nstarts, launches, replays, copies, "
                      "memory, operations and compiling.",
                      opts, ARRAY_LEN(opts), argc, argv);
    if (code != TOOL_GO_ON)
        return code;
    if (options.list)
        return list_suites(options.json);
    code = check_suites(&options);
    if (code == TOOL_GO_ON)
        code = check_group(&options, bench_is_group(options.device));
    if (code == TOOL_GO_ON)
        code = take_algorithm(&options, bench_is_group(options.device));
    if (code == TOOL_GO_ON && options.json && options.csv)
        code = tool_usage(true, "bench: --json and --csv both want stdout");
    if (code == TOOL_GO_ON && options.threshold_percent > 0 && !options.against)
        code = tool_usage(options.json,
                          "bench: --threshold says how much worse than the run "
                          "of --against, which is missing");
    if (code == TOOL_GO_ON)
        code = tool_check_math(options.json, "bench", options.math);
    return code == TOOL_GO_ON ? run_bench(&options) : code;
}
