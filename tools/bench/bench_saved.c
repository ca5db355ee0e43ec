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

const char *const bench_verdict_names[BENCH_VERDICT_COUNT] = {
    [BENCH_SAME] = "same",
    [BENCH_BETTER] = "better",
    [BENCH_WORSE] = "worse",
    [BENCH_UNTOLD] = "not comparable",
};

/* More than 1: better. */
static double
find_ratio(const struct bench_row *row, double now, double old)
{
    return bench_is_rate(row->unit) ? now / old : old / now;
}

double
bench_gain_percent(const struct bench_row *row)
{
    return (find_ratio(row, row->best, row->old_best) - 1) * 100;
}

/* 1 where one of them is not known. */
static double
find_slowdown(double now, double old)
{
    return now > old && old > 0 ? now / old : 1;
}

/* Two runs that are compared, and the least that sums took anywhere in them:
 * how fast the host was. */
struct comparison {
    double threshold; /* 0.05: 5 % */
    double least_ns, old_least_ns;
};

/* What work of this thread alone may take now for what it took 1 then. It needs
 * some runs that nothing was in the way of, and there are such on a busy host:
 * those where the sums beside them took the least, too. Where there were none,
 * another thread of the core may have had half of it. */
static double
find_alone(const struct comparison *c, const struct bench_row *row, bool is_now)
{
    double speed = is_now ? find_slowdown(c->least_ns, c->old_least_ns)
                          : find_slowdown(c->old_least_ns, c->least_ns);
    bool is_clear = bench_is_clear(&row->host, c->least_ns) &&
                    bench_is_clear(&row->old_host, c->old_least_ns);

    return is_clear ? speed : 2 * speed;
}

/* What any other row's best runs of an unchanged build may take now for what
 * they took 1 then, by what the host did beside both. They may wait for memory
 * and for processors that others use. And where handing a word over takes now
 * this long, now that, as it does where the other thread has to be woken or
 * waits for a processor, the best runs may have had the one in this run and the
 * other in that. */
static double
find_allowance(const struct bench_host *now, const struct bench_host *old,
               double run_ns)
{
    double memory = find_slowdown(now->memory_ns, old->memory_ns);
    double factor = find_slowdown(now->arithmetic_ns, old->arithmetic_ns);
    double quick =
        now->handoff_ns < old->handoff_ns ? now->handoff_ns : old->handoff_ns;
    double slow = now->handoff_q3_ns > old->handoff_q3_ns ? now->handoff_q3_ns
                                                          : old->handoff_q3_ns;

    if (memory > factor)
        factor = memory;
    factor *= find_slowdown(now->stretch, old->stretch);
    if (slow > quick && run_ns > 0)
        factor += (slow - quick) / run_ns;
    return factor;
}

/* A host that is busy makes runs slower, never faster: so the best runs are
 * what tells most of the code. */
static void
judge_saved(const struct comparison *c, struct bench_row *row, bool is_of_host)
{
    double gain = find_ratio(row, row->best, row->old_best);
    double noise = (row->spread_percent + row->old_spread_percent) / 100;
    double threshold = c->threshold, slower = 1, faster = 1, margin;
    bool is_told = row->host.stretch > 0 && row->old_host.stretch > 0;
    bool is_blurred;

    if (is_of_host && is_told && row->is_alone) {
        slower = find_alone(c, row, true);
        faster = find_alone(c, row, false);
    } else if (is_of_host && is_told) {
        slower = find_allowance(&row->host, &row->old_host, row->old_run_ns);
        faster = find_allowance(&row->old_host, &row->host, row->run_ns);
    }
    margin = 1 + (noise > threshold ? noise : threshold);
    is_blurred = (slower > faster ? slower : faster) * margin >
                 (1 + threshold) * (1 + threshold);
    if (is_blurred) { /* values measured beside a row are only like it */
        slower *= slower;
        faster *= faster;
    }
    row->verdict = is_blurred ? BENCH_UNTOLD : BENCH_SAME;
    if (gain > faster * margin)
        row->verdict = BENCH_BETTER;
    if (gain * slower * margin < 1)
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
take_saved_number(const cJSON *object, const char *what, enum bench_unit unit,
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

static void
take_host(const cJSON *object, struct bench_host *host)
{
    host->arithmetic_ns = number_or_0(object, "arithmetic_ns");
    host->memory_ns = number_or_0(object, "memory_ns");
    host->handoff_ns = number_or_0(object, "handoff_ns");
    host->handoff_q3_ns = number_or_0(object, "handoff_q3_ns");
    host->stretch = number_or_0(object, "stretch");
}

double
bench_saved_host_ratio(const struct bench_saved *saved, const struct bench *b)
{
    double arithmetic, memory;
    struct bench_host now, old;

    bench_host_of_run(b, &now);
    take_host(cJSON_GetObjectItemCaseSensitive(saved->root, "host_reference"),
              &old);
    if (!(now.arithmetic_ns > 0) || !(old.arithmetic_ns > 0) ||
        !(now.memory_ns > 0) || !(old.memory_ns > 0))
        return 1;
    arithmetic = now.arithmetic_ns / old.arithmetic_ns;
    memory = now.memory_ns / old.memory_ns;
    return arithmetic > memory ? arithmetic : memory;
}

/* Whether the host's speed is part of what the row says: everywhere but in
 * what a card of its own does by itself. */
static bool
is_of_host(const struct bench *b, const struct bench_row *row)
{
    return (b->info.flags & (HCQ_DEVICE_SIMULATED | HCQ_DEVICE_HOST_CPU)) ||
           !bench_is_rate(row->unit) || row->ceiling == BENCH_CEILING_LINK;
}

static void
compare_row(const struct comparison *c, const cJSON *rows,
            struct bench_row *row, bool is_of_host)
{
    const cJSON *other;
    double q1, q3;

    if (row->why_not[0] || row->is_derived)
        return;
    cJSON_ArrayForEach(other, rows)
    {
        const char *name = cJSON_GetStringValue(
            cJSON_GetObjectItemCaseSensitive(other, "name"));

        if (!name || strcmp(name, row->name) != 0)
            continue;
        row->has_old =
            take_saved_number(other, "median", row->unit, &row->old) &&
            take_saved_number(other, "q1", row->unit, &q1) &&
            take_saved_number(other, "q3", row->unit, &q3);
        if (!row->has_old)
            continue;
        /* what a peer does not say */
        if (!take_saved_number(other, "best", row->unit, &row->old_best))
            row->old_best = bench_is_rate(row->unit) ? q3 : q1;
        row->old_spread_percent =
            number_or_0(other, cJSON_HasObjectItem(other, "spread_percent")
                                   ? "spread_percent"
                                   : "interval_percent");
        row->old_run_ns = number_or_0(other, "run_ns");
        take_host(cJSON_GetObjectItemCaseSensitive(other, "host"),
                  &row->old_host);
        judge_saved(c, row, is_of_host);
    }
}

void
bench_saved_compare(const struct bench_saved *saved, struct bench *b,
                    double threshold_percent)
{
    const cJSON *rows = cJSON_GetObjectItemCaseSensitive(saved->root, "rows");
    struct comparison c = {.threshold = threshold_percent / 100};
    struct bench_host host;
    const cJSON *other;
    size_t i;

    for (i = 0; i < b->n_rows; i++)
        bench_keep_least(&c.least_ns, b->rows[i].host.arithmetic_ns);
    cJSON_ArrayForEach(other, rows)
    {
        take_host(cJSON_GetObjectItemCaseSensitive(other, "host"), &host);
        bench_keep_least(&c.old_least_ns, host.arithmetic_ns);
    }
    for (i = 0; i < b->n_rows; i++)
        compare_row(&c, rows, &b->rows[i], is_of_host(b, &b->rows[i]));
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
