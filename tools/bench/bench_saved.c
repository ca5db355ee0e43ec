/* `doorbell bench`: a saved run to compare with, read with cJSON. */
#include "tools/bench/bench.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#if BELL_HAVE_CJSON
#include <cjson/cJSON.h>
#endif

#include "base/alloc.h"
#include "base/file.h"

/* ---- verdicts ---- */

const char *const bench_verdict_names[] = {"same", "better", "worse"};

/* More than 1: better. */
static double
find_ratio(const struct bench_row *row, double now, double old)
{
    return bench_is_rate(row->unit) ? now / old : old / now;
}

double
bench_gain_percent(const struct bench_row *row)
{
    return (find_ratio(row, row->median, row->old) - 1) * 100;
}

/* What the host's speed has become, and how well that is known. */
struct host_change {
    double ratio; /* the time that it takes now for what took 1 */
    double interval_percent;
};

/* A host that is busy makes runs slower, never faster: what got slower for
 * another reason is slower in its best runs, too. */
static void
judge(struct bench_row *row, double threshold_percent,
      const struct host_change *host)
{
    double median = find_ratio(row, row->median, row->old);
    double best = find_ratio(row, row->best, row->old_best);
    double low = median < best ? median : best;
    double high = median > best ? median : best;
    /* the intervals of the medians */
    double noise = (row->interval_percent + row->old_interval_percent +
                    host->interval_percent) /
                   100;
    double faster = host->ratio < 1 ? host->ratio : 1;
    double slower = host->ratio > 1 ? host->ratio : 1;

    row->verdict = BENCH_SAME;
    if (low * faster > 1 + threshold_percent / 100 &&
        median * faster > 1 + noise)
        row->verdict = BENCH_BETTER;
    if (high * slower < 1 - threshold_percent / 100 &&
        median * slower * (1 + noise) < 1)
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
    if (!cJSON_IsNumber(version) ||
        version->valuedouble != BENCH_DOCUMENT_VERSION ||
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
    if (cJSON_IsTrue(cJSON_GetObjectItemCaseSensitive(saved->root, "quick")) !=
        b->is_quick)
        return bell_fail(BELL_E_INVALID,
                         "%s is of %s sizes: --quick runs compare with their "
                         "like alone",
                         saved->path, b->is_quick ? "full" : "small");
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

static double
number_or_0(const cJSON *object, const char *key)
{
    const cJSON *item = cJSON_GetObjectItemCaseSensitive(object, key);

    return cJSON_IsNumber(item) ? item->valuedouble : 0;
}

/* Of the work that it does worst. */
static struct host_change
find_host_change(const struct bench_saved *saved, const struct bench *b)
{
    const cJSON *host =
        cJSON_GetObjectItemCaseSensitive(saved->root, "host_reference");
    const struct host_change none = {1, 0};
    struct host_change worst = {0, 0};
    size_t i;

    for (i = 0; i < BENCH_HOST_COUNT; i++) {
        double old_ns = number_or_0(host, bench_host_names[i]);
        double interval_percent, ratio;

        if (!(old_ns > 0) || b->n_host_samples == 0)
            return none;
        ratio =
            bench_host_ns(b, (enum bench_host)i, &interval_percent) / old_ns;
        if (ratio > worst.ratio) {
            worst.ratio = ratio;
            worst.interval_percent = interval_percent;
        }
    }
    worst.interval_percent += number_or_0(host, "interval_percent");
    return worst;
}

double
bench_saved_host_ratio(const struct bench_saved *saved, const struct bench *b)
{
    return find_host_change(saved, b).ratio;
}

/* Whether the host's speed is part of what the row says: everywhere but in
 * what a card of its own does by itself. */
static bool
is_of_host(const struct bench *b, const struct bench_row *row)
{
    return (b->info.flags & (HCQ_DEVICE_SIMULATED | HCQ_DEVICE_HOST_MEMORY)) ||
           !bench_is_rate(row->unit) || row->ceiling == BENCH_CEILING_LINK;
}

static void
compare_row(const cJSON *rows, struct bench_row *row, double threshold_percent,
            const struct host_change *host)
{
    const cJSON *other;

    if (row->why_not[0] || row->is_derived)
        return;
    cJSON_ArrayForEach(other, rows)
    {
        const char *name = cJSON_GetStringValue(
            cJSON_GetObjectItemCaseSensitive(other, "name"));

        if (!name || strcmp(name, row->name) != 0)
            continue;
        row->has_old = take_number(other, "median", row->unit, &row->old) &&
                       take_number(other, "q1", row->unit, &row->old_q1) &&
                       take_number(other, "q3", row->unit, &row->old_q3);
        if (!row->has_old)
            continue;
        /* what an earlier version, or a peer, does not say */
        if (!take_number(other, "best", row->unit, &row->old_best))
            row->old_best =
                bench_is_rate(row->unit) ? row->old_q3 : row->old_q1;
        row->old_interval_percent = number_or_0(other, "interval_percent");
        judge(row, threshold_percent, host);
    }
}

void
bench_saved_compare(const struct bench_saved *saved, struct bench *b,
                    double threshold_percent)
{
    const cJSON *rows = cJSON_GetObjectItemCaseSensitive(saved->root, "rows");
    const struct host_change host = find_host_change(saved, b), none = {1, 0};
    size_t i;

    for (i = 0; i < b->n_rows; i++)
        compare_row(rows, &b->rows[i], threshold_percent,
                    is_of_host(b, &b->rows[i]) ? &host : &none);
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

double
bench_saved_host_ratio(const struct bench_saved *saved, const struct bench *b)
{
    (void)saved;
    (void)b;
    return 1;
}

#endif
