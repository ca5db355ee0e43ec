/* Bench: samples become rows. */
#include <math.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/thread.h"
#include "tools/bench/bench.h"

const char *const bench_unit_names[BENCH_UNIT_COUNT] = {
    "us", "ns", "ms", "gb_s", "gflops", "gops", "thousands_s",
};
const char *const bench_unit_texts[BENCH_UNIT_COUNT] = {
    "us", "ns", "ms", "GB/s", "GFLOP/s", "GOP/s", "k/s",
};

bool
bench_is_rate(enum bench_unit unit)
{
    return unit == BENCH_GB_S || unit == BENCH_GFLOPS || unit == BENCH_GOPS ||
           unit == BENCH_KILO_S;
}

/* ---- a row --------------------------------------------------------------- */

bool
bench_is_over(struct bench *b)
{
    sigset_t pending;

    if (!b->is_interrupted && sigpending(&pending) == 0)
        b->is_interrupted = sigismember(&pending, SIGINT) == 1;
    return b->is_interrupted;
}

/* The row of that name that was measured before; NULL: none. */
static struct bench_row *
find_row(struct bench *b, const char *name)
{
    size_t i;

    for (i = 0; i < b->n_rows; i++) {
        if (strcmp(b->rows[i].name, name) == 0)
            return &b->rows[i];
    }
    return NULL;
}

bool
bench_is_open(const struct bench_row *row)
{
    return row->has_old && (row->verdict == BENCH_WORSE ||
                            (row->verdict == BENCH_UNTOLD && row->is_alone));
}

/* A row whose preparing takes much longer than it is measured for is so in
 * every second pass. */
#define COSTLY_NS    100e6
#define COSTLY_TIMES 3

static bool
is_costly(const struct bench *b, const struct bench_row *row)
{
    double pass_ns = b->budget_s * 1e9 / (b->n_passes ? b->n_passes : 1);

    return row->taken && row->taken->cost_ns > COSTLY_NS &&
           row->taken->cost_ns > COSTLY_TIMES * pass_ns;
}

bool
bench_is_costly_pass(const struct bench *b)
{
    return b->pass % 2 == 0 || b->n_passes < 2 * BENCH_PASSES_MIN;
}

bool
bench_is_wanted(struct bench *b)
{
    const struct bench_row *row = find_row(b, b->current.name);

    if (b->is_again)
        return row && bench_is_open(row);
    return !row || bench_is_costly_pass(b) || !is_costly(b, row);
}

static void
begin_row(struct bench *b, enum bench_unit unit, const char *what)
{
    memset(&b->current, 0, sizeof(b->current));
    b->current.suite = b->suite;
    b->current.unit = unit;
    b->current.what = what;
    b->current.ceiling = BENCH_CEILING_NONE;
    b->n_samples = b->n_runs = 0;
    b->n_apart = 1;
    b->n_batch = 1;
    b->n_blocks = b->n_in_block = 0;
    b->block_ns = b->run_ns = 0;
    bench_host_turns(&b->turns);
    b->begin_ns = b->start_ns = time_now_ns();
}

/* Reads the clock as often as the pass before did: after as many runs. */
static void
resume_row(struct bench *b)
{
    const struct bench_row *row = find_row(b, b->current.name);

    if (row && row->taken && row->taken->n_batch)
        b->n_batch = row->taken->n_batch;
}

void
bench_begin(struct bench *b, enum bench_unit unit, const char *what,
            const char *name, ...)
{
    va_list args;

    begin_row(b, unit, what);
    va_start(args, name);
    vsnprintf(b->current.name, sizeof(b->current.name), name, args);
    va_end(args);
    resume_row(b);
}

void
bench_work(struct bench *b, double flops, double bytes,
           enum bench_ceiling ceiling)
{
    struct bench_row *row = &b->current;

    row->flops = flops;
    row->bytes = bytes;
    /* a CPU has no link to itself */
    if (ceiling == BENCH_CEILING_LINK && (b->info.flags & HCQ_DEVICE_HOST_CPU))
        ceiling = BENCH_CEILING_NONE;
    row->ceiling = ceiling;
    if (ceiling == BENCH_CEILING_LINK)
        row->theory = b->link_gb_s;
    else if (ceiling == BENCH_CEILING_MEMORY)
        row->theory = b->chip ? b->chip->memory_gb_s : 0;
    else if (ceiling < BENCH_CEILING_MEMORY)
        row->theory = b->chip ? b->chip->rate[ceiling] * 1e3 : 0;
}

void
bench_keep_bins(struct bench *b)
{
    b->current.has_bins = true;
}

void
bench_alone(struct bench *b)
{
    b->current.is_alone = true;
}

void
bench_end_block(struct bench *b, const struct bench_host *host)
{
    if (b->n_in_block && b->n_blocks < BENCH_BLOCKS_MAX) {
        double sums_ns = b->block.host.arithmetic_ns;

        b->block.host = *host;
        if (sums_ns > 0) /* those beside the best sample */
            b->block.host.arithmetic_ns = sums_ns;
        b->blocks[b->n_blocks++] = b->block;
        bench_keep_least(&b->least_sums_ns, b->block.host.arithmetic_ns);
    }
    b->n_in_block = 0;
    b->block_ns = time_now_ns();
}

/* The least that a block takes, many times what measuring the host does. */
#define BLOCK_NS 2.5e6

/* Between two runs: how long the one took, and whether its block is over. */
static void
pass_run(struct bench *b, bool is_last)
{
    uint64_t now_ns = time_now_ns();
    double ns = (double)(now_ns - b->run_ns) / b->n_batch;
    struct bench_host host;

    if (b->run_ns && (b->current.run_ns == 0 || ns < b->current.run_ns))
        b->current.run_ns = ns;
    b->run_ns = now_ns;
    if (!is_last && (double)(now_ns - b->block_ns) <
                        fmax(b->budget_s * 1e9 / BENCH_BLOCKS, BLOCK_NS))
        return;
    bench_host_measure(b, &host);
    bench_end_block(b, &host);
    b->run_ns = b->block_ns;
}

/* Passes that all rows are measured in. What seems worse is measured again in
 * one. */
static unsigned
count_passes(const struct bench *b)
{
    return b->is_again || !b->n_passes ? 1 : b->n_passes;
}

bool
bench_is_last_pass(const struct bench *b)
{
    return b->pass + 1 >= count_passes(b);
}

/* Where this thread alone does the work, three blocks that nothing was in the
 * way of tell all. */
static bool
has_clear_blocks(const struct bench *b)
{
    size_t n_passes = count_passes(b), n = 0, i;

    for (i = 0; i < b->n_blocks; i++)
        n += bench_is_clear(&b->blocks[i].host, b->least_sums_ns);
    return n * n_passes >= 3;
}

static bool
is_enough(struct bench *b, size_t min)
{
    double spent_s = (double)(time_now_ns() - b->start_ns) / 1e9;
    double budget_s = b->budget_s / count_passes(b);

    if (!bench_is_wanted(b))
        return b->n_samples >= 1;
    if (spent_s > 0.02 && b->n_samples > 0 && bench_is_over(b))
        return true;
    if (b->n_runs * count_passes(b) < min || spent_s < budget_s)
        return false;
    if (b->current.is_alone)
        return has_clear_blocks(b) || spent_s >= 8 * budget_s;
    return true;
}

bool
bench_goes_on(struct bench *b, size_t min)
{
    bool is_last = is_enough(b, min);

    if (bench_is_wanted(b))
        pass_run(b, is_last);
    return !is_last;
}

/* All of the row's time is sampled, however short a run is: where there is no
 * more room, every second sample goes, and of those to come as many. */
static void
keep_sample(struct bench *b, double value)
{
    size_t i;

    if (b->n_runs++ % b->n_apart)
        return;
    if (b->n_samples == BENCH_SAMPLES_MAX) {
        (void)bench_quantile(b->samples, b->n_samples, 0.5); /* sorted */
        b->n_samples /= 2;
        for (i = 0; i < b->n_samples; i++)
            b->samples[i] = b->samples[2 * i];
        b->n_apart *= 2;
    }
    b->samples[b->n_samples++] = value;
}

/* sums_ns: 0 where none were made beside it. */
static void
take_sample(struct bench *b, double value, double sums_ns)
{
    bool is_rate = bench_is_rate(b->current.unit);
    double key;

    value = is_rate ? value / b->slow_down : value * b->slow_down;
    key = is_rate ? 1 / value : value;
    if (sums_ns > 0)
        key *= sums_ns;
    if (!b->n_in_block || key < b->block.key)
        b->block = (struct bench_block){
            value, key, {.arithmetic_ns = sums_ns, .stretch = 1}};
    b->n_in_block++;
    keep_sample(b, value);
}

void
bench_sample(struct bench *b, double value)
{
    take_sample(b, value, 0);
}

static double
find_value(const struct bench *b, double ns)
{
    static const double scales[BENCH_UNIT_COUNT] = {
        [BENCH_US] = 1e-3, [BENCH_NS] = 1, [BENCH_MS] = 1e-6};
    const struct bench_row *row = &b->current;

    if (row->unit == BENCH_GB_S)
        return row->bytes / ns;
    if (row->unit == BENCH_GFLOPS || row->unit == BENCH_GOPS)
        return row->flops / ns;
    return ns * scales[row->unit];
}

void
bench_sample_ns(struct bench *b, double ns)
{
    take_sample(b, find_value(b, ns), 0);
}

#define BATCH_MAX (1u << 16)

unsigned
bench_batch(const struct bench *b)
{
    return b->n_batch;
}

void
bench_sample_batch(struct bench *b, double ns, unsigned n_parts)
{
    unsigned n = b->n_batch;

    if (ns < BENCH_TICKS * b->tick_ns && n < BATCH_MAX) {
        b->n_batch *= 2;
        b->run_ns = 0; /* begins here, for the next one */
        if (b->n_samples == 0)
            return;
    }
    take_sample(b, find_value(b, ns / n / n_parts), 0);
}

void
bench_sample_beside(struct bench *b, double ns, double sums_ns)
{
    take_sample(b, find_value(b, ns), sums_ns);
}

/* What says more of the code: what had less in its way. */
static bool
is_better(const struct bench_row *a, const struct bench_row *b)
{
    double gain =
        bench_is_rate(a->unit) ? a->best / b->best : b->best / a->best;

    if (a->is_alone && a->host.arithmetic_ns > 0)
        gain *= b->host.arithmetic_ns / a->host.arithmetic_ns;
    return gain > 1;
}

/* The row as it was compared, with what says more of the code where that was
 * measured now. */
static void
keep_again(struct bench *b)
{
    struct bench_row *row = find_row(b, b->current.name);

    if (!row || !bench_is_wanted(b))
        return;
    if (is_better(&b->current, row)) {
        row->best = b->current.best;
        row->spread_percent = b->current.spread_percent;
        row->host = b->current.host;
        row->run_ns = b->current.run_ns;
    }
    row->n_again++;
}

/* A row's place; NULL: there is no more room. */
static struct bench_row *
add_row(struct bench *b)
{
    struct bench_row *row = find_row(b, b->current.name);

    if (row)
        return row;
    if (b->n_rows == BENCH_ROWS_MAX)
        return NULL;
    row = &b->rows[b->n_rows++];
    *row = b->current;
    return row;
}

static void
tell_row(struct bench *b, struct bench_row *row)
{
    if (row->is_told)
        return;
    row->is_told = true;
    if (b->told)
        b->told(b, row);
}

/* Adds a row without runs of its own. */
static void
keep_row(struct bench *b)
{
    struct bench_row *row = b->is_again ? NULL : add_row(b);

    if (row && bench_is_last_pass(b))
        tell_row(b, row);
}

/* The pass that has ended, beside those before it. */
static bool
add_pass(struct bench *b, struct bench_taken *taken)
{
    double *samples = host_realloc(
        taken->samples, (taken->n_samples + b->n_samples) * sizeof(*samples));
    struct bench_turns turns;
    size_t n = b->n_blocks;

    if (!samples || taken->n_passes == BENCH_PASSES_MAX) {
        taken->samples = samples ? samples : taken->samples;
        return false;
    }
    taken->samples = samples;
    taken->medians[taken->n_passes] =
        bench_quantile(b->samples, b->n_samples, 0.5);
    taken->n_of[taken->n_passes++] = b->n_samples;
    memcpy(samples + taken->n_samples, b->samples,
           b->n_samples * sizeof(*samples));
    taken->n_samples += b->n_samples;
    taken->n_runs += b->n_runs;
    taken->wall_ns += (double)(time_now_ns() - b->start_ns);
    bench_host_turns(&turns);
    /* a thread that has ended meanwhile takes its times away */
    if (turns.ran_ns > b->turns.ran_ns &&
        turns.waited_ns > b->turns.waited_ns) {
        taken->turns.ran_ns += turns.ran_ns - b->turns.ran_ns;
        taken->turns.waited_ns += turns.waited_ns - b->turns.waited_ns;
    }
    if (n > BENCH_BLOCKS_MAX - taken->n_blocks)
        n = BENCH_BLOCKS_MAX - taken->n_blocks;
    memcpy(taken->blocks + taken->n_blocks, b->blocks, n * sizeof(*b->blocks));
    taken->n_blocks += n;
    return true;
}

static void
free_taken(struct bench_taken *taken)
{
    if (taken)
        host_free(taken->samples);
    host_free(taken);
}

static void
fail_row(struct bench_row *row)
{
    snprintf(row->why_not, sizeof(row->why_not), "out of memory for samples");
}

static void
end_again(struct bench *b)
{
    struct bench_taken *taken = host_calloc(1, sizeof(*taken));

    if (taken && add_pass(b, taken) &&
        bench_fill_row(&b->current, taken) == BELL_OK)
        keep_again(b);
    free_taken(taken);
}

void
bench_end(struct bench *b)
{
    struct bench_row *row;

    if (b->n_samples == 0)
        return;
    if (b->sensed)
        b->sensed(b);
    if (b->is_again) {
        end_again(b);
        return;
    }
    row = add_row(b);
    if (!row || !bench_is_wanted(b))
        return;
    if (!row->taken)
        row->taken = host_calloc(1, sizeof(*row->taken));
    if (row->taken && row->taken->n_passes == 0)
        row->taken->cost_ns = (double)(time_now_ns() - b->begin_ns);
    if (b->current.run_ns > 0 &&
        (row->run_ns == 0 || b->current.run_ns < row->run_ns))
        row->run_ns = b->current.run_ns;
    if (!row->taken || !add_pass(b, row->taken))
        fail_row(row);
    else if (b->n_batch > row->taken->n_batch)
        row->taken->n_batch = b->n_batch;
    if (bench_is_last_pass(b))
        bench_finish_row(b, row);
}

void
bench_finish_row(struct bench *b, struct bench_row *row)
{
    if (row->taken && !row->why_not[0] &&
        bench_fill_row(row, row->taken) != BELL_OK)
        fail_row(row);
    free_taken(row->taken);
    row->taken = NULL;
    tell_row(b, row);
}

void
bench_free_rows(struct bench *b)
{
    size_t i;

    for (i = 0; i < b->n_rows; i++) {
        free_taken(b->rows[i].taken);
        b->rows[i].taken = NULL;
    }
}

void
bench_finish(struct bench *b)
{
    size_t i;

    for (i = 0; i < b->n_rows; i++)
        bench_finish_row(b, &b->rows[i]);
}

void
bench_lacks(struct bench *b, enum bench_unit unit, const char *what,
            const char *name, const char *why)
{
    begin_row(b, unit, what);
    snprintf(b->current.name, sizeof(b->current.name), "%s", name);
    snprintf(b->current.why_not, sizeof(b->current.why_not), "%.*s",
             (int)sizeof(b->current.why_not) - 1, why);
    keep_row(b);
}

bell_status
bench_unless_lacking(struct bench *b, bell_status status)
{
    if (status != BELL_E_UNSUPPORTED)
        return status;
    snprintf(b->current.why_not, sizeof(b->current.why_not), "%.*s",
             (int)sizeof(b->current.why_not) - 1, bell_error_last()->message);
    bell_error_clear();
    keep_row(b);
    return BELL_OK;
}

void
bench_derive(struct bench *b, enum bench_unit unit, const char *what,
             double value, const char *name, ...)
{
    struct bench_row *row = &b->current;
    va_list args;

    begin_row(b, unit, what);
    va_start(args, name);
    vsnprintf(row->name, sizeof(row->name), name, args);
    va_end(args);
    row->median = row->q1 = row->q3 = row->p1 = row->p99 = row->best = value;
    row->low = row->high = value;
    row->n_runs = 1;
    row->is_derived = true;
    keep_row(b);
}

void
bench_find_ceilings(struct bench *b)
{
    double most[BENCH_CEILING_COUNT] = {0};
    size_t i;

    for (i = 0; i < b->n_rows; i++) {
        const struct bench_row *row = &b->rows[i];

        if (row->ceiling < BENCH_CEILING_COUNT && !row->why_not[0] &&
            row->median > most[row->ceiling])
            most[row->ceiling] = row->median;
    }
    for (i = 0; i < b->n_rows; i++) {
        if (b->rows[i].ceiling < BENCH_CEILING_COUNT)
            b->rows[i].measured = most[b->rows[i].ceiling];
    }
}
