/* `doorbell bench`: what identifies a run, and a saved run to compare with.
 * Saved runs are read with cJSON. */
#include "tools/bench/bench.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>
#include <time.h>
#include <unistd.h>

#if BELL_HAVE_CJSON
#include <cjson/cJSON.h>
#endif

#include "base/alloc.h"
#include "base/bits.h"
#include "base/thread.h"
#include "tools/commit.h"
#include "base/file.h"
#include "tools/json.h"
#include "tools/tools.h"

/* Of the document; 1 had no identity. */
#define DOCUMENT_VERSION 2

/* ---- identity ---- */

/* A file's first line, from the first character that is no blank; "" where
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
put_text(struct json *json, const char *key, const char *text)
{
    if (*text)
        json_str(json, key, text);
    else
        json_null(json, key);
}

/* The kernel driver behind the device, as the system tells it. */
static void
put_driver(struct json *json, const struct hcq_device_info *info)
{
    char line[256] = "";

    if (info->flags & HCQ_DEVICE_SIMULATED)
        snprintf(line, sizeof(line), "simulated");
    else if (strcmp(info->backend, "NV") == 0)
        first_line("/sys/module/nvidia/version", line, sizeof(line));
    else if (strcmp(info->backend, "AMD") == 0)
        first_line("/sys/module/amdgpu/version", line, sizeof(line));
    put_text(json, "driver", line); /* null: part of the kernel, or none */
}

static void
put_clocks(struct json *json, const struct bench *b)
{
    static const char path[] =
        "/sys/devices/system/cpu/cpu0/cpufreq/scaling_cur_freq";
    char line[64];

    first_line(path, line, sizeof(line));
    if (*line)
        json_num(json, "cpu_clock_mhz", strtod(line, NULL) / 1e3);
    else
        json_null(json, "cpu_clock_mhz");
    if (b->clock_mhz)
        json_uint(json, "device_clock_mhz", b->clock_mhz);
    else
        json_null(json, "device_clock_mhz");
}

/* The processor's name. */
static void
put_cpu(struct json *json)
{
    char line[256], *colon;
    FILE *file = fopen("/proc/cpuinfo", "re");

    while (file && fgets(line, sizeof(line), file)) {
        if (strncmp(line, "model name", 10) != 0 ||
            !(colon = strchr(line, ':')))
            continue;
        line[strcspn(line, "\n")] = '\0';
        json_str(json, "cpu", colon + 1 + strspn(colon + 1, " "));
        fclose(file);
        return;
    }
    if (file)
        fclose(file);
    json_null(json, "cpu");
}

static void
put_identity(struct json *json, const struct bench *b)
{
    struct utsname system;
    time_t now = time(NULL);
    struct tm utc;
    char text[64];
    double load[1];

    gmtime_r(&now, &utc);
    strftime(text, sizeof(text), "%Y-%m-%dT%H:%M:%SZ", &utc);
    json_str(json, "date", text);
    json_str(json, "version", BELL_VERSION);
    json_str(json, "commit", BELL_COMMIT);
    if (uname(&system) == 0) {
        json_str(json, "host", system.nodename);
        json_str(json, "kernel", system.release);
    }
    put_cpu(json);
    json_uint(json, "n_threads", thread_cpu_count());
    if (getloadavg(load, 1) == 1)
        json_num(json, "load", load[0]);
    else
        json_null(json, "load");
    put_driver(json, &b->info);
    put_clocks(json, b);
    json_num(json, "seconds_per_row", b->budget_s);
}

/* ---- the document ---- */

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
        snprintf(key, sizeof(key), "other_%s", unit);
        json_num(json, key, row->old);
        json_num(json, "gain_percent", bench_gain_percent(row));
        json_str(json, "verdict", bench_verdict_names[row->verdict]);
    }
    json_end(json);
}

void
bench_build_json(struct json *json, const struct bench *b)
{
    const struct hcq_device_info *info = &b->info;
    size_t i;

    json_init(json);
    json_int(json, "doorbell_bench", DOCUMENT_VERSION);
    json_str(json, "device", info->name);
    json_str(json, "model", info->model);
    json_str(json, "arch", info->arch);
    json_str(json, "math", tool_math_words(b->allowed));
    json_bool(json, "simulated", (info->flags & HCQ_DEVICE_SIMULATED) != 0);
    put_identity(json, b);
    json_array(json, "rows");
    for (i = 0; i < b->n_rows; i++)
        put_row(json, &b->rows[i]);
    json_end(json);
}

/* ---- verdicts ---- */

const char *const bench_verdict_names[] = {"same", "better", "worse"};

static bool
is_rate(enum bench_unit unit)
{
    return unit == BENCH_GB_S || unit == BENCH_GFLOPS || unit == BENCH_KILO_S;
}

double
bench_gain_percent(const struct bench_row *row)
{
    double ratio =
        is_rate(row->unit) ? row->median / row->old : row->old / row->median;

    return (ratio - 1) * 100;
}

/* Better or worse by more than the threshold, and by more than both runs
 * scatter: the middle halves of their samples do not meet. */
static void
judge(struct bench_row *row, double threshold_percent)
{
    double gain = bench_gain_percent(row);
    bool apart = row->q1 > row->old_q3 || row->q3 < row->old_q1;

    row->verdict = BENCH_SAME;
    if (apart && gain > threshold_percent)
        row->verdict = BENCH_BETTER;
    if (apart && gain < -threshold_percent)
        row->verdict = BENCH_WORSE;
}

/* ---- a saved run ---- */

#if BELL_HAVE_CJSON

struct bench_saved {
    cJSON *root;
    const char *path;
};

static const char *
text_of(const struct bench_saved *saved, const char *key)
{
    const char *text = cJSON_GetStringValue(
        cJSON_GetObjectItemCaseSensitive(saved->root, key));

    return text ? text : "nothing";
}

bell_status
bench_saved_read(const char *path, struct bench_saved **out_saved)
{
    struct bench_saved *saved = host_calloc(1, sizeof(*saved));
    struct file_bytes file;
    const cJSON *version;
    bell_status status;

    if (!saved)
        return bell_fail(BELL_E_NO_MEMORY, "%s: out of memory", path);
    status = file_read(path, &file);
    if (status != BELL_OK) {
        host_free(saved);
        return status;
    }
    saved->path = path;
    saved->root = cJSON_ParseWithLength(file.data, file.size_bytes);
    file_bytes_fini(&file);
    version = cJSON_GetObjectItemCaseSensitive(saved->root, "doorbell_bench");
    if (!cJSON_IsNumber(version) || version->valuedouble != DOCUMENT_VERSION ||
        !cJSON_IsArray(cJSON_GetObjectItemCaseSensitive(saved->root, "rows"))) {
        bool is_old = cJSON_IsNumber(version);

        bench_saved_close(saved);
        return bell_fail(BELL_E_IO,
                         is_old ? "%s: written by another version of `doorbell "
                                  "bench`"
                                : "%s: not what `doorbell bench --save` writes",
                         path);
    }
    *out_saved = saved;
    return BELL_OK;
}

void
bench_saved_close(struct bench_saved *saved)
{
    if (!saved)
        return;
    cJSON_Delete(saved->root);
    host_free(saved);
}

bell_status
bench_saved_check(const struct bench_saved *saved, const struct bench *b,
                  const char *math)
{
    const struct hcq_device_info *info = &b->info;
    const cJSON *simulated =
        cJSON_GetObjectItemCaseSensitive(saved->root, "simulated");
    bool is_simulated = (info->flags & HCQ_DEVICE_SIMULATED) != 0;

    if (strcmp(text_of(saved, "model"), info->model) != 0 ||
        strcmp(text_of(saved, "arch"), info->arch) != 0 ||
        (bool)cJSON_IsTrue(simulated) != is_simulated)
        return bell_fail(
            BELL_E_INVALID,
            "%s is of another device, %s (%s%s), and not of %s "
            "(%s%s): their figures do not compare",
            saved->path, text_of(saved, "model"), text_of(saved, "arch"),
            cJSON_IsTrue(simulated) ? ", simulated" : "", info->model,
            info->arch, is_simulated ? ", simulated" : "");
    /* a peer's document (tests/hw/cuda_peer.cu) has rows for each math */
    if (math && cJSON_GetObjectItemCaseSensitive(saved->root, "math") &&
        strcmp(text_of(saved, "math"), math) != 0)
        return bell_fail(BELL_E_INVALID,
                         "%s is of math '%s', and not of '%s': their figures "
                         "do not compare",
                         saved->path, text_of(saved, "math"), math);
    return BELL_OK;
}

static bool
take_number(const cJSON *object, const char *what, enum bench_unit unit,
            double *out)
{
    const cJSON *item;
    char key[64];

    snprintf(key, sizeof(key), "%s_%s", what, bench_unit_names[unit]);
    item = cJSON_GetObjectItemCaseSensitive(object, key);
    if (!cJSON_IsNumber(item) || !(item->valuedouble > 0))
        return false;
    *out = item->valuedouble;
    return true;
}

void
bench_saved_compare(const struct bench_saved *saved, struct bench *b,
                    double threshold_percent)
{
    const cJSON *rows = cJSON_GetObjectItemCaseSensitive(saved->root, "rows");
    const cJSON *other;
    size_t i;

    for (i = 0; i < b->n_rows; i++) {
        struct bench_row *row = &b->rows[i];

        if (row->why_not[0])
            continue;
        cJSON_ArrayForEach(other, rows)
        {
            const char *name = cJSON_GetStringValue(
                cJSON_GetObjectItemCaseSensitive(other, "name"));

            if (!name || strcmp(name, row->name) != 0)
                continue;
            row->has_old = take_number(other, "median", row->unit, &row->old) &&
                           take_number(other, "q1", row->unit, &row->old_q1) &&
                           take_number(other, "q3", row->unit, &row->old_q3);
            if (row->has_old)
                judge(row, threshold_percent);
        }
    }
}

#else

bell_status
bench_saved_read(const char *path, struct bench_saved **out_saved)
{
    (void)out_saved;
    return bell_fail(BELL_E_UNSUPPORTED,
                     "%s: built without cJSON (libcjson-dev): saved runs "
                     "cannot be read",
                     path);
}

void
bench_saved_close(struct bench_saved *saved)
{
    (void)saved;
}

bell_status
bench_saved_check(const struct bench_saved *saved, const struct bench *b,
                  const char *math)
{
    (void)saved;
    (void)b;
    (void)math;
    return BELL_OK;
}

void
bench_saved_compare(const struct bench_saved *saved, struct bench *b,
                    double threshold_percent)
{
    (void)saved;
    (void)b;
    (void)judge;
    (void)threshold_percent;
}

#endif
