/* `doorbell bench`: the document of a run, and what identifies it. */
#include "tools/bench/bench.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>
#include <time.h>

#include "base/alloc.h"
#include "base/thread.h"
#include "tools/commit.h"
#include "base/json.h"
#include "tools/machine/sensors.h"
#include "tools/tools.h"

/* ---- identity ---- */

/* A file's first line, from the first character that is not a blank; "" where
 * there is none. */
static void
first_line(const char *path, char *out, size_t out_bytes)
{
    FILE *file = fopen(path, "re");

    out[0] = '\0';
    if (!file)
        return;
    if (!fgets(out, (int)out_bytes, file))
        out[0] = '\0';
    out[strcspn(out, "\n")] = '\0';
    fclose(file);
}

static void
put_document_text(struct json *json, const char *key, const char *text)
{
    if (*text)
        json_str(json, key, text);
    else
        json_null(json, key);
}

/* The kernel driver behind the device, as the system tells it; "": part of the
 * kernel, or none. */
static void
find_driver(const struct hcq_device_info *info, char *out, size_t out_bytes)
{
    out[0] = '\0';
    if (info->flags & HCQ_DEVICE_SIMULATED)
        snprintf(out, out_bytes, "simulated");
    else if (strcmp(info->backend, "NV") == 0)
        first_line("/sys/module/nvidia/version", out, out_bytes);
    else if (strcmp(info->backend, "AMD") == 0)
        first_line("/sys/module/amdgpu/version", out, out_bytes);
}

static void
put_document_state(struct json *json, const char *key,
                   const struct bench_state *state)
{
    json_object(json, key);
    json_positive(json, "device_clock_mhz", state->clock_mhz);
    json_positive(json, "device_temperature_c", state->temperature_c);
    json_positive(json, "cpu_clock_mhz", state->cpu_mhz);
    json_positive(json, "cpu_temperature_c", state->cpu_c);
    json_end(json);
}

static void
put_series(struct json *json, const struct bench *b)
{
    char text[MACHINE_THROTTLE_TEXT];
    size_t i;

    json_array(json, "series");
    for (i = 0; i < b->n_series; i++) {
        const struct bench_moment *moment = &b->series[i];

        json_object(json, NULL);
        json_num(json, "time_s", moment->time_s);
        json_positive(json, "device_clock_mhz", moment->state.clock_mhz);
        json_positive(json, "device_temperature_c",
                      moment->state.temperature_c);
        json_positive(json, "power_w", moment->power_w);
        json_positive(json, "cpu_clock_mhz", moment->state.cpu_mhz);
        machine_throttle_text(moment->throttle, text);
        json_str(json, "throttled_by", moment->tells_throttle ? text : NULL);
        json_end(json);
    }
    json_end(json);
}

/* The processor's name; "": not told. */
static void
find_cpu(char *out, size_t out_bytes)
{
    char line[256], *colon;
    FILE *file = fopen("/proc/cpuinfo", "re");

    out[0] = '\0';
    while (file && !out[0] && fgets(line, sizeof(line), file)) {
        if (strncmp(line, "model name", 10) != 0 ||
            !(colon = strchr(line, ':')))
            continue;
        line[strcspn(line, "\n")] = '\0';
        snprintf(out, out_bytes, "%s", colon + 1 + strspn(colon + 1, " "));
    }
    if (file)
        fclose(file);
}

static void
find_date(char *out, size_t out_bytes)
{
    time_t now = time(NULL);
    struct tm utc;

    gmtime_r(&now, &utc);
    strftime(out, out_bytes, "%Y-%m-%dT%H:%M:%SZ", &utc);
}

static void
put_identity(struct json *json, const struct bench *b)
{
    struct utsname system;
    char text[256];
    double load[1];

    find_date(text, sizeof(text));
    json_str(json, "date", text);
    json_str(json, "version", BELL_VERSION);
    json_str(json, "commit", BELL_COMMIT);
    if (uname(&system) == 0) {
        json_str(json, "host", system.nodename);
        json_str(json, "kernel", system.release);
    }
    find_cpu(text, sizeof(text));
    put_document_text(json, "cpu", text);
    json_uint(json, "n_threads", thread_cpu_count());
    if (getloadavg(load, 1) == 1)
        json_num(json, "load", load[0]);
    else
        json_null(json, "load");
    find_driver(&b->info, text, sizeof(text));
    put_document_text(json, "driver", text);
    json_positive(json, "cpu_clock_mhz", b->after.cpu_mhz);
    json_positive(json, "device_clock_mhz", b->after.clock_mhz);
    put_document_state(json, "before", &b->before);
    put_document_state(json, "after", &b->after);
    put_series(json, b);
    json_num(json, "seconds_per_row", b->budget_s);
    json_uint(json, "passes", b->n_passes);
    json_positive(json, "clock_step_ns", b->tick_ns);
    json_bool(json, "interrupted", b->is_interrupted);
    put_document_text(json, "error", b->failure);
    json_positive(json, "memory_gb_s", b->chip ? b->chip->memory_gb_s : 0);
    json_positive(json, "f32_gflops",
                  b->chip ? b->chip->rate[CHIP_F32] * 1e3 : 0);
    json_positive(json, "matrix_f16_gflops",
                  b->chip ? b->chip->rate[CHIP_MATRIX_F16] * 1e3 : 0);
}

/* ---- the document ---- */

static void
put_number(struct json *json, const char *what, const char *unit, double value)
{
    char key[64];

    snprintf(key, sizeof(key), "%s_%s", what, unit);
    json_num(json, key, value);
}

static void
put_bins(struct json *json, const struct bench_row *row)
{
    const char *unit = bench_unit_names[row->unit];
    size_t i;

    json_object(json, "histogram");
    put_number(json, "from", unit, row->bin_lo);
    put_number(json, "to", unit, row->bin_hi);
    json_array(json, "counts"); /* the last has all above, too */
    for (i = 0; i < BENCH_BINS; i++)
        json_uint(json, NULL, row->bins[i]);
    json_end(json);
    json_end(json);
}

static void
put_document_host(struct json *json, const char *key,
                  const struct bench_host *host)
{
    json_object(json, key);
    json_positive(json, "arithmetic_ns", host->arithmetic_ns);
    json_positive(json, "memory_ns", host->memory_ns);
    json_positive(json, "handoff_ns", host->handoff_ns);
    json_positive(json, "handoff_q3_ns", host->handoff_q3_ns);
    json_positive(json, "stretch", host->stretch);
    json_end(json);
}

static void
put_measured(struct json *json, const struct bench_row *row)
{
    const char *unit = bench_unit_names[row->unit];
    unsigned i;

    put_number(json, "median", unit, row->median);
    put_number(json, "q1", unit, row->q1);
    put_number(json, "q3", unit, row->q3);
    put_number(json, "p1", unit, row->p1);
    put_number(json, "p99", unit, row->p99);
    put_number(json, "best", unit, row->best);
    put_number(json, "low", unit, row->low);
    put_number(json, "high", unit, row->high);
    json_array(json, "passes"); /* the median of each */
    for (i = 0; i < row->n_passes; i++)
        json_num(json, NULL, row->passes[i]);
    json_end(json);
    json_uint(json, "n_runs", row->n_runs);
    json_bool(json, "derived", row->is_derived);
    json_num(json, "interval_percent", row->interval_percent);
    json_bool(json, "noisy", row->is_noisy);
    json_num(json, "spread_percent", row->spread_percent);
    json_positive(json, "run_ns", row->run_ns);
    json_bool(json, "alone", row->is_alone);
    if (row->is_derived)
        json_null(json, "host");
    else
        put_document_host(json, "host", &row->host);
    json_positive(json, "flops", row->flops);
    json_positive(json, "bytes", row->bytes);
    json_positive(json, "percent_of_theory",
                  row->theory > 0 ? 100 * row->median / row->theory : 0);
    json_positive(json, "percent_of_measured",
                  row->measured > 0 ? 100 * row->median / row->measured : 0);
    if (row->has_bins)
        put_bins(json, row);
}

/* What moved between devices, and how fast. */
static void
put_exchange(struct json *json, const struct bench_row *row)
{
    const struct bench_exchange *x = &row->exchange;

    json_object(json, "exchange");
    json_uint(json, "n_ranks", x->n_ranks);
    json_uint(json, "size_bytes", x->size_bytes);
    json_uint(json, "count", x->count);
    json_str(json, "type", x->type);
    json_str(json, "redop", x->redop);
    json_int(json, "root", x->root);
    if (x->algorithm) {
        json_bool(json, "in_place", x->in_place);
        json_num(json, "algbw_gb_s", bench_alg_gb_s(row));
        json_num(json, "busbw_gb_s", bench_alg_gb_s(row) * x->bus_factor);
        json_uint(json, "wrong", x->n_wrong);
        json_str(json, "algorithm", x->algorithm);
        json_num(json, "predicted_us", x->predicted_us);
    } else {
        json_int(json, "from", x->from);
        json_int(json, "to", x->to);
    }
    json_end(json);
}

static void
put_row(struct json *json, const struct bench_row *row)
{
    const char *unit = bench_unit_names[row->unit];
    char key[64];

    json_object(json, NULL);
    json_str(json, "name", row->name);
    json_str(json, "suite", row->suite);
    json_str(json, "what", row->what);
    json_str(json, "unit", unit);
    if (row->why_not[0]) {
        snprintf(key, sizeof(key), "median_%s", unit);
        json_str(json, key, "unsupported");
        json_str(json, "why", row->why_not);
        json_end(json);
        return;
    }
    put_measured(json, row);
    if (row->exchange.is_set)
        put_exchange(json, row);
    if (row->has_old) {
        put_number(json, "other", unit, row->old);
        put_number(json, "other_best", unit, row->old_best);
        json_num(json, "gain_percent", bench_gain_percent(row));
        json_uint(json, "n_again", row->n_again);
        json_str(json, "verdict", bench_verdict_names[row->verdict]);
    }
    json_end(json);
}

void
bench_build_json(struct json *json, const struct bench *b)
{
    const struct hcq_device_info *info = &b->info;
    struct bench_host host;
    size_t i;

    json_init(json);
    json_int(json, "doorbell_bench", BENCH_DOCUMENT_VERSION);
    json_str(json, "device", b->list ? b->list : info->name);
    json_str(json, "model", info->model);
    json_str(json, "arch", info->arch);
    json_str(json, "math", tool_math_words(b->allowed));
    json_bool(json, "simulated", (info->flags & HCQ_DEVICE_SIMULATED) != 0);
    json_bool(json, "quick", b->is_quick);
    put_identity(json, b);
    bench_host_of_run(b, &host);
    put_document_host(json, "host_reference", &host);
    json_array(json, "rows");
    for (i = 0; i < b->n_rows; i++)
        put_row(json, &b->rows[i]);
    json_end(json);
}

/* Quoted, as RFC 4180 has it. */
static void
quote(char *out, size_t out_bytes, const char *text)
{
    size_t at = 1;

    out[0] = '"';
    for (; *text && at + 3 < out_bytes; text++) {
        if (*text == '"')
            out[at++] = '"';
        out[at++] = *text;
    }
    out[at++] = '"';
    out[at] = '\0';
}

#define IDENTITY_BYTES 2048
#define EXCHANGE_BYTES 256
#define EXCHANGE_COLUMNS                                                       \
    "n_ranks,size_bytes,count,type,redop,root,in_place,algbw_gb_s,busbw_gb_s," \
    "wrong,algorithm,predicted_us"
#define IDENTITY_COLUMNS                                                       \
    "device,model,arch,simulated,date,version,commit,driver,"                  \
    "device_clock_before_mhz,device_clock_after_mhz,cpu"

/* What a row's figures are of: so that a row that is taken out of the table
 * still says it. */
static void
write_identity(const struct bench *b, char out[IDENTITY_BYTES])
{
    char device[300], model[200], driver[300], cpu[300], line[256], date[64];

    quote(device, sizeof(device), b->list ? b->list : b->info.name);
    quote(model, sizeof(model), b->info.model);
    find_driver(&b->info, line, sizeof(line));
    quote(driver, sizeof(driver), line);
    find_cpu(line, sizeof(line));
    quote(cpu, sizeof(cpu), line);
    find_date(date, sizeof(date));
    snprintf(out, IDENTITY_BYTES,
             "%s,%s,%s,%s,%s,%s,%s,%s,%" PRIu32 ",%" PRIu32 ",%s", device,
             model, b->info.arch,
             b->info.flags & HCQ_DEVICE_SIMULATED ? "yes" : "no", date,
             BELL_VERSION, BELL_COMMIT, driver, b->before.clock_mhz,
             b->after.clock_mhz, cpu);
}

/* Empty fields where a row is not of a collective. */
static void
write_exchange(const struct bench_row *row, char out[EXCHANGE_BYTES])
{
    const struct bench_exchange *x = &row->exchange;
    double rate = bench_alg_gb_s(row);

    if (!x->is_set || !x->algorithm)
        snprintf(out, EXCHANGE_BYTES, ",,,,,,,,,,,");
    else
        snprintf(out, EXCHANGE_BYTES,
                 "%u,%" PRIu64 ",%" PRIu64 ",%s,%s,%d,%s,%.9g,%.9g,%" PRIu64
                 ",%s,%.9g",
                 x->n_ranks, x->size_bytes, x->count, x->type, x->redop,
                 x->root, x->in_place ? "yes" : "no", rate,
                 rate * x->bus_factor, x->n_wrong, x->algorithm,
                 x->predicted_us);
}

bell_status
bench_build_csv(const struct bench *b, char **out_text)
{
    const size_t row_bytes = 512 + EXCHANGE_BYTES + IDENTITY_BYTES;
    size_t cap = (b->n_rows + 1) * row_bytes, used, i;
    char *text = host_alloc(cap), identity[IDENTITY_BYTES];

    if (!text)
        return bell_fail(BELL_E_NO_MEMORY, "out of memory for %zu rows",
                         b->n_rows);
    used = (size_t)snprintf(text, cap,
                            "suite,name,unit,median,q1,q3,p1,p99,best,n_runs,"
                            "interval_percent,flops,bytes,percent_of_theory,"
                            "percent_of_measured,low,high," EXCHANGE_COLUMNS
                            "," IDENTITY_COLUMNS "\n");
    write_identity(b, identity);
    for (i = 0; i < b->n_rows; i++) {
        const struct bench_row *row = &b->rows[i];
        char theory[32] = "", measured[32] = "", exchange[EXCHANGE_BYTES];

        if (row->why_not[0])
            continue;
        if (row->theory > 0)
            snprintf(theory, sizeof(theory), "%.2f",
                     100 * row->median / row->theory);
        if (row->measured > 0)
            snprintf(measured, sizeof(measured), "%.2f",
                     100 * row->median / row->measured);
        write_exchange(row, exchange);
        used += (size_t)snprintf(
            text + used, cap - used,
            "%s,%s,%s,%.9g,%.9g,%.9g,%.9g,%.9g,%.9g,%" PRIu64
            ",%.3g,%.9g,%.9g,%s,%s,%.9g,%.9g,%s,%s\n",
            row->suite, row->name, bench_unit_names[row->unit], row->median,
            row->q1, row->q3, row->p1, row->p99, row->best, row->n_runs,
            isfinite(row->interval_percent) ? row->interval_percent : 0,
            row->flops, row->bytes, theory, measured, row->low, row->high,
            exchange, identity);
    }
    *out_text = text;
    return BELL_OK;
}
