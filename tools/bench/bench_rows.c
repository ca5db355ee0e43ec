/* Bench: samples become rows. */
#include <math.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/thread.h"
#include "tools/bench/bench.h"

const char *const bench_unit_names[BENCH_UNIT_COUNT] = {
    "us", "ns", "ms", "gb_s", "gflops", "thousands_s",
};
const char *const bench_unit_texts[BENCH_UNIT_COUNT] = {
    "us", "ns", "ms", "GB/s", "GFLOP/s", "k/s",
};

bool
bench_is_rate(enum bench_unit unit)
{
    return unit == BENCH_GB_S || unit == BENCH_GFLOPS || unit == BENCH_KILO_S;
}

/* ---- statistics ---------------------------------------------------------- */

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

/* Half of the interval in which the median of all runs that could be made lies
 * with 95 %, in percent of it: whatever the distribution is, that many samples
 * lie below it by the binomial one. Six are the least that say anything. */
static double
find_interval(const double *sorted, size_t n)
{
    double half = 0.98 * sqrt((double)n), middle = (double)(n - 1) / 2;
    double low = floor(middle - half), high = ceil(middle + half);
    double median = quantile(sorted, n, 0.5);

    if (n < 6 || !(median > 0))
        return HUGE_VAL;
    low = low < 0 ? 0 : low;
    high = high > (double)(n - 1) ? (double)(n - 1) : high;
    return 50 * (sorted[(size_t)high] - sorted[(size_t)low]) / median;
}

double
bench_quantile(double *values, size_t n, double p)
{
    qsort(values, n, sizeof(*values), compare_doubles);
    return quantile(values, n, p);
}

static int
compare_blocks(const void *a, const void *b)
{
    const struct bench_block *x = a, *y = b;

    return (x->key > y->key) - (x->key < y->key);
}

/* Of so many blocks, the best first, the one that is looked at. */
static size_t
find_middling(size_t n_blocks)
{
    return n_blocks > 3 ? 1 : 0;
}

/* What the row can do, and how well that is known: its blocks come at other
 * moments of the host, and the best run of one may be luck; between those of
 * the second best and of the next quarter of the blocks are some percent. Work
 * of this thread alone takes the same wherever nothing is in its way, as the
 * sums beside it tell: the next block is enough. */
static void
find_best(struct bench *b, struct bench_row *row, const double *sorted)
{
    bool is_rate = bench_is_rate(row->unit);
    size_t n = b->n_blocks, k = find_middling(n), n_samples = b->n_samples;
    size_t apart = n > 7 && !row->is_alone ? n / 4 : 1;
    double next;

    if (n < 2) {
        row->best = sorted[is_rate ? n_samples - 1 : 0];
        row->spread_percent =
            n_samples > 1 ? 100 * (sorted[n_samples - 1] / sorted[0] - 1)
                          : HUGE_VAL;
        return;
    }
    qsort(b->blocks, n, sizeof(*b->blocks), compare_blocks);
    row->best = b->blocks[k].best;
    next = b->blocks[k + apart].best;
    row->spread_percent =
        100 * fabs(is_rate ? row->best / next - 1 : next / row->best - 1);
}

/* Runs that come less often than this each begin on a processor that others
 * had, and may lose it. */
#define PERIOD_NS 500e3

static void
find_host(struct bench *b, const struct bench_row *row, struct bench_host *host)
{
    double wall_ns = (double)(time_now_ns() - b->start_ns);
    double values[3][BENCH_BLOCKS_MAX];
    struct bench_turns turns;
    size_t i;

    for (i = 0; i < b->n_blocks; i++) {
        values[0][i] = b->blocks[i].host.arithmetic_ns;
        values[1][i] = b->blocks[i].host.memory_ns;
        values[2][i] = b->blocks[i].host.handoff_ns;
    }
    *host = (struct bench_host){.stretch = 1};
    if (b->n_blocks) {
        host->arithmetic_ns = row->is_alone
                                  ? values[0][find_middling(b->n_blocks)]
                                  : bench_quantile(values[0], b->n_blocks, 0);
        host->memory_ns = bench_quantile(values[1], b->n_blocks, 0);
        host->handoff_ns = bench_quantile(values[2], b->n_blocks, 0);
        host->handoff_q3_ns = bench_quantile(values[2], b->n_blocks, 0.75);
    }
    bench_host_turns(&turns);
    /* a thread that has ended meanwhile takes its times away */
    if (wall_ns / (double)b->n_runs > PERIOD_NS &&
        turns.ran_ns > b->turns.ran_ns && turns.waited_ns > b->turns.waited_ns)
        host->stretch += (double)(turns.waited_ns - b->turns.waited_ns) /
                         (double)(turns.ran_ns - b->turns.ran_ns);
}

/* From the best run to three times the median or the 99th percentile. */
static void
fill_bins(struct bench_row *row, const double *sorted, size_t n)
{
    double hi = row->p99 < 3 * row->median ? row->p99 : 3 * row->median;
    size_t i;

    row->bin_lo = sorted[0];
    row->bin_hi = hi > sorted[0] ? hi : sorted[0] + 1e-9;
    for (i = 0; i < n; i++) {
        double at = (sorted[i] - row->bin_lo) / (row->bin_hi - row->bin_lo);
        size_t bin =
            at >= 1 ? BENCH_BINS - 1 : (size_t)(at * (double)(BENCH_BINS - 1));

        row->bins[bin]++;
    }
}

static void
fill_row(struct bench *b, struct bench_row *row)
{
    double *values = b->samples;
    size_t n = b->n_samples;

    qsort(values, n, sizeof(*values), compare_doubles);
    row->n_runs = b->n_runs;
    row->p1 = quantile(values, n, 0.01);
    row->q1 = quantile(values, n, 0.25);
    row->median = quantile(values, n, 0.5);
    row->q3 = quantile(values, n, 0.75);
    row->p99 = quantile(values, n, 0.99);
    row->interval_percent = find_interval(values, n);
    row->is_noisy = !(row->interval_percent <= BENCH_NARROW_PERCENT);
    if (row->has_bins)
        fill_bins(row, values, n);
    find_best(b, row, values);
    find_host(b, row, &row->host);
}

double
bench_root(double x, size_t n)
{
    return n ? pow(x, 1.0 / (double)n) : 1;
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

bool
bench_is_wanted(struct bench *b)
{
    const struct bench_row *row = find_row(b, b->current.name);

    return !b->is_again || (row && bench_is_open(row));
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
    b->n_next_look = 16;
    b->n_blocks = b->n_in_block = 0;
    b->block_ns = b->run_ns = 0;
    bench_host_turns(&b->turns);
    b->start_ns = time_now_ns();
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
    double ns = (double)(now_ns - b->run_ns);
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

/* Of work of this thread alone, three blocks that nothing was in the way of
 * tell all. */
static bool
has_clear_blocks(const struct bench *b)
{
    size_t n = 0, i;

    for (i = 0; i < b->n_blocks; i++)
        n += bench_is_clear(&b->blocks[i].host, b->least_sums_ns);
    return n >= 3;
}

static bool
is_enough(struct bench *b, size_t min)
{
    double spent_s = (double)(time_now_ns() - b->start_ns) / 1e9;

    if (!bench_is_wanted(b))
        return b->n_samples >= 1;
    if (spent_s > 0.02 && b->n_samples > 0 && bench_is_over(b))
        return true;
    if (b->n_runs < min || spent_s < b->budget_s)
        return false;
    if (b->current.is_alone)
        return has_clear_blocks(b) || spent_s >= 8 * b->budget_s;
    if (spent_s >= 4 * b->budget_s)
        return true;
    if (b->n_runs < b->n_next_look)
        return false;
    b->n_next_look = b->n_runs + b->n_runs / 4;
    qsort(b->samples, b->n_samples, sizeof(*b->samples), compare_doubles);
    return find_interval(b->samples, b->n_samples) <= BENCH_NARROW_PERCENT;
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
        qsort(b->samples, b->n_samples, sizeof(*b->samples), compare_doubles);
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
    if (row->unit == BENCH_GFLOPS)
        return row->flops / ns;
    return ns * scales[row->unit];
}

void
bench_sample_ns(struct bench *b, double ns)
{
    take_sample(b, find_value(b, ns), 0);
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

/* Keeps the row; of one that was measured again, the better figures. */
static void
keep_row(struct bench *b)
{
    struct bench_row *row = find_row(b, b->current.name), before;

    if (!b->is_again) {
        if (b->n_rows == BENCH_ROWS_MAX)
            return;
        b->rows[b->n_rows++] = b->current;
        if (b->told)
            b->told(b, &b->rows[b->n_rows - 1]);
        return;
    }
    if (!row || !bench_is_wanted(b))
        return;
    before = *row;
    if (is_better(&b->current, row))
        *row = b->current;
    row->has_old = true;
    row->old = before.old;
    row->old_best = before.old_best;
    row->old_spread_percent = before.old_spread_percent;
    row->old_run_ns = before.old_run_ns;
    row->old_host = before.old_host;
    row->verdict = before.verdict;
    row->n_again = before.n_again + 1;
}

void
bench_end(struct bench *b)
{
    if (b->n_samples == 0)
        return;
    fill_row(b, &b->current);
    keep_row(b);
}

void
bench_lacks(struct bench *b, enum bench_unit unit, const char *what,
            const char *name, const char *why)
{
    begin_row(b, unit, what);
    snprintf(b->current.name, sizeof(b->current.name), "%s", name);
    snprintf(b->current.why_not, sizeof(b->current.why_not), "%.*s",
             (int)sizeof(b->current.why_not) - 1, why);
    if (!b->is_again)
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
    if (!b->is_again)
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
    row->n_runs = 1;
    row->is_derived = true;
    if (!b->is_again)
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
