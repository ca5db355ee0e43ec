/* Bench: what the samples of a row say.
 *
 * Samples of one burst are not independent: the host's clock, its other
 * programs and the places of things in memory are the same for all of them. So
 * a row is measured in several passes over all rows, and what the medians of
 * the passes are apart is what the row is uncertain by. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "tools/bench/bench.h"
#include "base/bits.h"

/* ---- statistics ---------------------------------------------------------- */

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

double
bench_quantile(double *values, size_t n, double p)
{
    qsort(values, n, sizeof(*values), compare_doubles);
    return quantile(values, n, p);
}

/* ---- of all passes ------------------------------------------------------- */

/* A sample of a pass: all of a pass have as much weight as those of another. */
struct weighted {
    double value, weight;
};

static int
compare_weighted(const void *a, const void *b)
{
    const struct weighted *x = a, *y = b;

    return (x->value > y->value) - (x->value < y->value);
}

/* Where that part of all weight lies below, between the middles of samples. */
static double
weighted_quantile(const struct weighted *sorted, size_t n, double total,
                  double p)
{
    double below = 0, at = 0, before = 0;
    size_t i;

    for (i = 0; i < n; i++) {
        at = (below + sorted[i].weight / 2) / total;
        if (at >= p)
            break;
        before = at;
        below += sorted[i].weight;
    }
    if (i == n)
        return sorted[n - 1].value;
    if (i == 0 || at <= before)
        return sorted[i].value;
    return sorted[i - 1].value + (p - before) / (at - before) *
                                     (sorted[i].value - sorted[i - 1].value);
}

/* From the best run to three times the median or the 99th percentile. */
static void
fill_bins(struct bench_row *row, const struct weighted *sorted, size_t n)
{
    double hi = row->p99 < 3 * row->median ? row->p99 : 3 * row->median;
    size_t i;

    memset(row->bins, 0, sizeof(row->bins));
    row->bin_lo = sorted[0].value;
    row->bin_hi = hi > sorted[0].value ? hi : sorted[0].value + 1e-9;
    for (i = 0; i < n; i++) {
        double at =
            (sorted[i].value - row->bin_lo) / (row->bin_hi - row->bin_lo);
        size_t bin =
            at >= 1 ? BENCH_BINS - 1 : (size_t)(at * (double)(BENCH_BINS - 1));

        row->bins[bin]++;
    }
}

/* How many times as far from the row's median as the passes' medians reach the
 * median of another run may lie. With independent passes 1.75 times would do
 * for six and once for twelve (tests/unit/test_bench_rows.c); hosts also change
 * from minute to minute. observed (AMD EPYC, 2026-11-30): with twelve passes 96
 * to 98 % of pairs of runs agree (docs/reference/bench.md). guess: the other
 * counts. */
static const double widths[BENCH_PASSES_MAX + 1] = {
    [4] = 4,    [5] = 3.2,  [6] = 2.8,  [7] = 2.4,   [8] = 2.2,
    [9] = 2,    [10] = 1.9, [11] = 1.8, [12] = 1.75, [13] = 1.7,
    [14] = 1.6, [15] = 1.6, [16] = 1.5,
};

/* The passes are the moments and the places in memory that this run had, and
 * those of another run are their like. */
static void
find_interval(struct bench_row *row, const struct bench_taken *taken)
{
    double least = row->median, most = row->median, width;
    unsigned i;

    row->low = row->high = row->median;
    row->interval_percent = HUGE_VAL;
    row->is_noisy = true;
    if (taken->n_passes < BENCH_PASSES_MIN || !(row->median > 0))
        return;
    for (i = 0; i < taken->n_passes; i++) {
        least = fmin(least, taken->medians[i]);
        most = fmax(most, taken->medians[i]);
    }
    width = widths[taken->n_passes];
    row->low = row->median * pow(least / row->median, width);
    row->high = row->median + (most - row->median) * width;
    row->interval_percent =
        100 * fmax(row->high - row->median, row->median - row->low) /
        row->median;
    row->is_noisy = row->interval_percent > BENCH_NOISY_PERCENT;
}

static struct weighted *
weigh(const struct bench_taken *taken, double *out_total)
{
    struct weighted *all = host_alloc(taken->n_samples * sizeof(*all));
    size_t at = 0, i;
    unsigned pass;

    *out_total = 0;
    for (pass = 0; all && pass < taken->n_passes; pass++) {
        for (i = 0; i < taken->n_of[pass]; i++, at++) {
            all[at].value = taken->samples[at];
            all[at].weight = 1 / (double)taken->n_of[pass];
        }
        *out_total += 1;
    }
    if (all)
        qsort(all, taken->n_samples, sizeof(*all), compare_weighted);
    return all;
}

/* ---- what it can do ------------------------------------------------------ */

static int
compare_blocks(const void *a, const void *b)
{
    const struct bench_block *x = a, *y = b;

    return (x->key > y->key) - (x->key < y->key);
}

/* Index of the block that represents the row: the second best, because the
 * best may be a fluke. Blocks are sorted, the best first. */
static size_t
representative_block(size_t n_blocks)
{
    return n_blocks > 3 ? 1 : 0;
}

/* The row's best figure, and how far it is from the next ones: the scatter.
 * Blocks are measured at different moments of the host, and the best run of one
 * may be luck, so the figure is the second best's and the scatter reaches to
 * the next quarter of the blocks. Work of this thread alone takes the same time
 * whenever the host does not disturb it, which the sums beside it show; there
 * the next block is enough. */
static void
find_best(struct bench_row *row, struct bench_taken *taken,
          const struct weighted *sorted)
{
    bool is_rate = bench_is_rate(row->unit);
    size_t n = taken->n_blocks, k = representative_block(n);
    size_t apart = n > 7 && !row->is_alone ? n / 4 : 1;
    size_t last = taken->n_samples - 1;
    double next;

    if (n < 2) {
        row->best = sorted[is_rate ? last : 0].value;
        row->spread_percent =
            last > 0 ? 100 * (sorted[last].value / sorted[0].value - 1)
                     : HUGE_VAL;
        return;
    }
    qsort(taken->blocks, n, sizeof(*taken->blocks), compare_blocks);
    row->best = taken->blocks[k].best;
    next = taken->blocks[k + apart].best;
    row->spread_percent =
        100 * fabs(is_rate ? row->best / next - 1 : next / row->best - 1);
}

/* Runs that come less often than this each begin on a processor that others
 * had, and may lose it. */
#define PERIOD_NS 500e3

static void
find_host(const struct bench_row *row, const struct bench_taken *taken,
          struct bench_host *host)
{
    double values[3][BENCH_BLOCKS_MAX];
    size_t n = taken->n_blocks, i;

    for (i = 0; i < n; i++) {
        values[0][i] = taken->blocks[i].host.arithmetic_ns;
        values[1][i] = taken->blocks[i].host.memory_ns;
        values[2][i] = taken->blocks[i].host.handoff_ns;
    }
    *host = (struct bench_host){.stretch = 1};
    if (n) {
        host->arithmetic_ns = row->is_alone ? values[0][representative_block(n)]
                                            : bench_quantile(values[0], n, 0);
        host->memory_ns = bench_quantile(values[1], n, 0);
        host->handoff_ns = bench_quantile(values[2], n, 0);
        host->handoff_q3_ns = bench_quantile(values[2], n, 0.75);
    }
    if (taken->wall_ns / (double)taken->n_runs > PERIOD_NS &&
        taken->turns.ran_ns > 0)
        host->stretch +=
            (double)taken->turns.waited_ns / (double)taken->turns.ran_ns;
}

bell_status
bench_fill_row(struct bench_row *row, struct bench_taken *taken)
{
    double total;
    size_t n = taken->n_samples;
    struct weighted *all = weigh(taken, &total);

    if (!all)
        return bell_fail(BELL_E_NO_MEMORY, "%s: out of memory for %zu samples",
                         row->name, n);
    row->n_runs = taken->n_runs;
    row->n_passes = taken->n_passes;
    memcpy(row->passes, taken->medians, sizeof(row->passes));
    row->p1 = weighted_quantile(all, n, total, 0.01);
    row->q1 = weighted_quantile(all, n, total, 0.25);
    row->median = weighted_quantile(all, n, total, 0.5);
    row->q3 = weighted_quantile(all, n, total, 0.75);
    row->p99 = weighted_quantile(all, n, total, 0.99);
    find_interval(row, taken);
    if (row->has_bins)
        fill_bins(row, all, n);
    find_best(row, taken, all);
    find_host(row, taken, &row->host);
    host_free(all);
    return BELL_OK;
}
