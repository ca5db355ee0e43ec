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

/* What the row can do, and how well that is known: its blocks come at other
 * moments of the host, and the best run of one may be luck; between those of
 * the second best and of the next quarter of the blocks are some percent. */
static void
find_best(struct bench *b, struct bench_row *row, const double *sorted)
{
    bool is_rate = bench_is_rate(row->unit);
    size_t n = b->n_blocks, k = n > 3 ? 1 : 0, apart = n > 7 ? n / 4 : 1;
    double next;

    if (n < 2) {
        row->best = sorted[is_rate ? row->n_runs - 1 : 0];
        row->spread_percent =
            row->n_runs > 1 ? 100 * (sorted[row->n_runs - 1] / sorted[0] - 1)
                            : HUGE_VAL;
        return;
    }
    qsort(b->blocks, n, sizeof(*b->blocks), compare_doubles);
    row->best = b->blocks[is_rate ? n - 1 - k : k];
    next = b->blocks[is_rate ? n - 1 - k - apart : k + apart];
    row->spread_percent =
        100 * (is_rate ? row->best / next - 1 : next / row->best - 1);
}

/* Runs that come less often than this each begin on a processor that others
 * had, and may lose it. */
#define PERIOD_NS 500e3

static void
find_host(struct bench *b, struct bench_host *host)
{
    double wall_ns = (double)(time_now_ns() - b->start_ns);
    double values[3][BENCH_BLOCKS_MAX];
    struct bench_turns turns;
    size_t i;

    for (i = 0; i < b->n_blocks; i++) {
        values[0][i] = b->block_hosts[i].arithmetic_ns;
        values[1][i] = b->block_hosts[i].memory_ns;
        values[2][i] = b->block_hosts[i].handoff_ns;
    }
    *host = (struct bench_host){.stretch = 1};
    if (b->n_blocks) {
        host->arithmetic_ns = bench_quantile(values[0], b->n_blocks, 0);
        host->memory_ns = bench_quantile(values[1], b->n_blocks, 0);
        host->handoff_ns = bench_quantile(values[2], b->n_blocks, 0);
        host->handoff_q3_ns = bench_quantile(values[2], b->n_blocks, 0.75);
    }
    bench_host_turns(&turns);
    /* a thread that has ended meanwhile takes its times away */
    if (wall_ns / (double)b->n_samples > PERIOD_NS &&
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
    row->n_runs = n;
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
    find_host(b, &row->host);
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

/* Whether the row is to be measured, now that only those that seemed worse
 * are. */
static bool
is_wanted(struct bench *b)
{
    const struct bench_row *row = find_row(b, b->current.name);

    return !b->is_again || (row && row->has_old && row->verdict == BENCH_WORSE);
}

static void
begin_row(struct bench *b, enum bench_unit unit, const char *what)
{
    memset(&b->current, 0, sizeof(b->current));
    b->current.suite = b->suite;
    b->current.unit = unit;
    b->current.what = what;
    b->current.ceiling = BENCH_CEILING_NONE;
    b->n_samples = 0;
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
        b->blocks[b->n_blocks] = b->block_best;
        b->block_hosts[b->n_blocks++] = *host;
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

static bool
is_enough(struct bench *b, size_t min)
{
    double spent_s = (double)(time_now_ns() - b->start_ns) / 1e9;

    if (b->n_samples >= BENCH_SAMPLES_MAX)
        return true;
    if (!is_wanted(b))
        return b->n_samples >= 1;
    if (spent_s > 0.02 && b->n_samples > 0 && bench_is_over(b))
        return true;
    if (b->n_samples < min || spent_s < b->budget_s)
        return false;
    if (spent_s >= 4 * b->budget_s)
        return true;
    if (b->n_samples < b->n_next_look)
        return false;
    b->n_next_look = b->n_samples + b->n_samples / 4;
    qsort(b->samples, b->n_samples, sizeof(*b->samples), compare_doubles);
    return find_interval(b->samples, b->n_samples) <= BENCH_NARROW_PERCENT;
}

bool
bench_goes_on(struct bench *b, size_t min)
{
    bool is_last = is_enough(b, min);

    if (!b->is_again || is_wanted(b))
        pass_run(b, is_last);
    return !is_last;
}

void
bench_sample(struct bench *b, double value)
{
    bool is_rate = bench_is_rate(b->current.unit);

    value = is_rate ? value / b->slow_down : value * b->slow_down;
    if (!b->n_in_block ||
        (is_rate ? value > b->block_best : value < b->block_best))
        b->block_best = value;
    b->n_in_block++;
    if (b->n_samples < BENCH_SAMPLES_MAX)
        b->samples[b->n_samples++] = value;
}

void
bench_sample_ns(struct bench *b, double ns)
{
    static const double scales[BENCH_UNIT_COUNT] = {
        [BENCH_US] = 1e-3, [BENCH_NS] = 1, [BENCH_MS] = 1e-6};
    const struct bench_row *row = &b->current;

    if (row->unit == BENCH_GB_S)
        bench_sample(b, row->bytes / ns);
    else if (row->unit == BENCH_GFLOPS)
        bench_sample(b, row->flops / ns);
    else
        bench_sample(b, ns * scales[row->unit]);
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
    if (!row || !is_wanted(b))
        return;
    before = *row;
    if (bench_is_rate(row->unit) ? b->current.best > row->best
                                 : b->current.best < row->best)
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
