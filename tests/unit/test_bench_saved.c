/* tools/bench: what is said of two runs, whose samples come of a model of a
 * busy host in place of a clock. A host has spells in which all that runs on it
 * takes longer; an unchanged build is not worse for that, and one that takes
 * longer by itself is. */
#include <math.h>
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/bits.h"
#include "tools/bench/bench.h"

#define N_ROWS  12
#define N_ALONE 4 /* of this thread's own work: each third */
#define N_RATES 4 /* of the others each second */
#define SAMPLES 200
#define RUN_NS  1000.0

struct model {
    uint64_t state;
    double busy;   /* the share of samples that something is in the way of */
    double slower; /* what everything takes by, the whole run along */
    double handoff_ns;    /* of a run of those rows that are not alone */
    double slow_handoffs; /* the share of them that takes 100 times as long */
    double sibling;       /* what each run of rows that are alone takes more
                             because another thread has half of the core */
};

static double
draw(struct model *m)
{
    m->state = m->state * 6364136223846793005u + 1442695040888963407u;
    return ((double)(m->state >> 11) + 1) / 9007199254740993.0;
}

/* 1 where nothing is in the way, with a little jitter. */
static double
draw_factor(struct model *m)
{
    double factor = 1 - 0.01 * log(draw(m));

    if (draw(m) < m->busy)
        factor *= 1 - 0.4 * log(draw(m));
    return factor * m->slower;
}

/* The best of three, as bench_host_measure takes them. */
static double
draw_best(struct model *m)
{
    double least = draw_factor(m), a = draw_factor(m), b = draw_factor(m);

    least = a < least ? a : least;
    return b < least ? b : least;
}

/* Sums that fit into registers show a fifth of what is in the way of a run. */
static void
sample_alone(struct bench *b, struct model *m, double ns, double code_slower)
{
    double factor = draw_factor(m);
    double more = factor / m->slower - 1 + m->sibling;

    bench_sample_beside(b, ns * code_slower * (factor + m->sibling),
                        1e4 * m->slower * (1 + more / 5));
}

/* A run of N_ROWS rows; again: as bench measures those that are open. */
static void
measure_rows(struct bench *b, struct model *m, double code_slower)
{
    size_t i, k;

    b->suite = "launch";
    for (i = 0; i < N_ROWS; i++) {
        bool is_rate = i % 2 && i % 3;

        bench_begin(b, is_rate ? BENCH_GB_S : BENCH_US, "a row", "row_%zu", i);
        b->current.run_ns = RUN_NS;
        if (i % 3 == 0)
            bench_alone(b);
        for (k = 0; k < SAMPLES; k++) {
            if (i % 3) {
                double factor = draw_factor(m) * code_slower;

                factor += m->handoff_ns / RUN_NS;
                factor *= (double)(i + 1);
                bench_sample(b, is_rate ? 1 / factor : factor);
            } else {
                sample_alone(b, m, 1e3 * (double)(i + 1), code_slower);
            }
            if ((k + 1) % (SAMPLES / BENCH_BLOCKS) == 0) {
                struct bench_host host = {.arithmetic_ns = 1e4 * draw_best(m),
                                          .memory_ns = 1e5 * draw_best(m),
                                          .stretch = 1};
                bool is_slow = draw(m) < m->slow_handoffs;

                host.handoff_ns = (is_slow ? 100 : 1) * m->handoff_ns;
                bench_end_block(b, &host);
            }
        }
        bench_end(b);
    }
}

static void
write_host(FILE *file, const char *key, const struct bench_host *host)
{
    fprintf(file,
            "\"%s\": {\"arithmetic_ns\": %.9g, \"memory_ns\": %.9g, "
            "\"handoff_ns\": %.9g, \"handoff_q3_ns\": %.9g, "
            "\"stretch\": %.9g}, ",
            key, host->arithmetic_ns, host->memory_ns, host->handoff_ns,
            host->handoff_q3_ns, host->stretch);
}

/* What --save writes of the run, as far as it is read. */
static void
write_run(const struct bench *b, const char *path, bool has_host)
{
    FILE *file = fopen(path, "w");
    struct bench_host host;
    size_t i;

    assert_non_null(file);
    fprintf(file, "{\"doorbell_bench\": %d, ", BENCH_DOCUMENT_VERSION);
    bench_host_of_run(b, &host);
    if (has_host)
        write_host(file, "host_reference", &host);
    fprintf(file, "\"rows\": [");
    for (i = 0; i < b->n_rows; i++) {
        const struct bench_row *row = &b->rows[i];
        const char *unit = bench_unit_names[row->unit];

        fprintf(file, "%s{", i ? "," : "");
        if (has_host)
            write_host(file, "host", &row->host);
        fprintf(file,
                "\"name\": \"%s\", \"median_%s\": %.9g, \"q1_%s\": %.9g,"
                "\"q3_%s\": %.9g, \"best_%s\": %.9g, \"run_ns\": %.9g, "
                "\"spread_percent\": %.9g}",
                row->name, unit, row->median, unit, row->q1, unit, row->q3,
                unit, row->best, row->run_ns, row->spread_percent);
    }
    fprintf(file, "]}");
    assert_int_equal(fclose(file), 0);
}

static struct bench *
new_bench(uint32_t flags)
{
    struct bench *b = calloc(1, sizeof(*b));

    assert_non_null(b);
    b->slow_down = 1;
    b->info.flags = flags;
    return b;
}

struct verdicts {
    size_t n_same, n_better, n_worse, n_untold;
};

/* Two runs and their verdicts, one with `code_slower`; the second looks up to
 * five times, as the tool does. */
static struct verdicts
compare_runs(struct model before, struct model after, double code_slower,
             uint32_t flags, bool has_host)
{
    char path[] = "/tmp/bench_saved_XXXXXX";
    struct verdicts found = {0, 0, 0, 0};
    struct bench_saved *saved;
    struct bench *b = new_bench(flags);
    int fd = mkstemp(path);
    size_t i, look;

    assert_true(fd >= 0);
    close(fd);
    measure_rows(b, &before, 1);
    write_run(b, path, has_host);
    free(b);
    assert_int_equal(bench_saved_read(path, &saved), BELL_OK);
    b = new_bench(flags);
    for (look = 0; look < 5; look++) {
        measure_rows(b, &after, code_slower);
        bench_saved_compare(saved, b, 5);
        b->is_again = true;
    }
    for (i = 0; i < b->n_rows; i++) {
        assert_true(b->rows[i].has_old);
        found.n_same += b->rows[i].verdict == BENCH_SAME;
        found.n_better += b->rows[i].verdict == BENCH_BETTER;
        found.n_worse += b->rows[i].verdict == BENCH_WORSE;
        found.n_untold += b->rows[i].verdict == BENCH_UNTOLD;
    }
    assert_int_equal(b->n_rows, N_ROWS);
    bench_saved_close(saved);
    unlink(path);
    free(b);
    return found;
}

static const double shares[] = {0, 0.1, 0.4, 0.8};

/* Each busy share before with each after, and hosts that are slower as a
 * whole: 400 comparisons of 12 rows. */
static void
test_unchanged(void **state)
{
    size_t i, k, seed;

    (void)state;
    for (i = 0; i < ARRAY_LEN(shares); i++) {
        for (k = 0; k < ARRAY_LEN(shares); k++) {
            for (seed = 0; seed < 25; seed++) {
                struct model before = {seed * 2 + 1, shares[i], 1, 0, 0, 0};
                struct model after = {seed * 2 + 1000,
                                      shares[k],
                                      1 + 0.02 * (double)seed,
                                      0,
                                      0,
                                      0};
                struct verdicts found =
                    compare_runs(before, after, 1, HCQ_DEVICE_HOST_CPU, true);

                if (found.n_worse)
                    fail_msg("%.1f, then %.1f, seed %zu: %zu rows are worse",
                             shares[i], shares[k], seed, found.n_worse);
            }
        }
    }
}

/* A tenth slower by itself is found where the host is as it was, and where it
 * is busier now and then. */
static void
test_a_tenth_slower(void **state)
{
    size_t k, seed;

    (void)state;
    for (k = 0; k < 2; k++) {
        for (seed = 0; seed < 50; seed++) {
            struct model before = {seed * 2 + 1, shares[k], 1, 0, 0, 0};
            struct model after = {seed * 2 + 1000, shares[k], 1, 0, 0, 0};
            struct verdicts found =
                compare_runs(before, after, 1.1, HCQ_DEVICE_HOST_CPU, true);

            assert_int_equal(found.n_worse, N_ROWS);
            found =
                compare_runs(before, after, 1 / 1.1, HCQ_DEVICE_HOST_CPU, true);
            assert_int_equal(found.n_better, N_ROWS);
        }
    }
}

/* ---- turns ---- */

struct spin {
    pthread_t thread;
    _Atomic(bool) *is_over;
};

static void *
run_spin(void *argument)
{
    struct spin *spin = argument;

    while (!atomic_load(spin->is_over))
        continue;
    return NULL;
}

/* What a row of so many milliseconds says of n threads that share a
 * processor. */
static double
stretch_of(size_t n, long ms)
{
    struct bench *b = new_bench(HCQ_DEVICE_HOST_CPU);
    const struct timespec some = {ms / 1000, ms % 1000 * 1000000};
    _Atomic(bool) is_over;
    struct spin spins[48];
    double stretch;
    size_t i;

    assert_true(n <= ARRAY_LEN(spins));
    atomic_init(&is_over, false);
    for (i = 0; i < n; i++) {
        spins[i].is_over = &is_over;
        assert_int_equal(
            pthread_create(&spins[i].thread, NULL, run_spin, &spins[i]), 0);
    }
    bench_begin(b, BENCH_US, "a row", "row");
    assert_int_equal(nanosleep(&some, NULL), 0);
    bench_sample(b, 1);
    bench_end(b);
    stretch = b->rows[0].host.stretch;
    atomic_store(&is_over, true);
    for (i = 0; i < n; i++)
        pthread_join(spins[i].thread, NULL);
    free(b);
    return stretch;
}

/* A processor has one second of each, and each waits for it: of n threads, n
 * seconds for one, or more where others want it, too. Less what those have
 * waited since they last ran, which the kernel has not counted yet: the longer
 * the row, the less that is of it, whatever else wants the processor. */
static void
test_turns(void **state)
{
    cpu_set_t before, one;
    struct bench_turns turns;
    double many = 0;
    int cpu = 0;
    long ms;

    (void)state;
    bench_host_turns(&turns);
    if (!turns.ran_ns)
        skip(); /* this kernel does not tell */
    assert_int_equal(sched_getaffinity(0, sizeof(before), &before), 0);
    while (!CPU_ISSET(cpu, &before))
        cpu++;
    CPU_ZERO(&one);
    CPU_SET(cpu, &one);
    assert_int_equal(sched_setaffinity(0, sizeof(one), &one), 0);
    for (ms = 600; ms < 20000 && many < 25; ms *= 4)
        many = stretch_of(48, ms);
    assert_int_equal(sched_setaffinity(0, sizeof(before), &before), 0);
    if (many < 25)
        fail_msg("%g of 48 threads", many);
}

/* A host of half the speed: nothing can be told about the CPU, but a saved run
 * that does not tell what its host ran at allows nothing. A GPU's times have a
 * part of the host in them, its rates have none. */
static void
test_host(void **state)
{
    struct model before = {1, 0, 1, 0, 0, 0}, after = {2, 0, 2, 0, 0, 0};
    struct verdicts found;

    (void)state;
    found = compare_runs(before, after, 1, HCQ_DEVICE_HOST_CPU, true);
    assert_int_equal(found.n_untold, N_ROWS);
    found = compare_runs(after, before, 1, HCQ_DEVICE_HOST_CPU, true);
    assert_int_equal(found.n_untold, N_ROWS);
    found = compare_runs(before, after, 1, HCQ_DEVICE_HOST_CPU, false);
    assert_int_equal(found.n_worse, N_ROWS);
    found = compare_runs(before, after, 1, 0, true);
    assert_int_equal(found.n_untold, N_ROWS - N_RATES);
    assert_int_equal(found.n_worse, N_RATES);
    /* a little slower is allowed for, and 10 % more than that found */
    after.slower = 1.03;
    found = compare_runs(before, after, 1, HCQ_DEVICE_HOST_CPU, true);
    assert_int_equal(found.n_same, N_ROWS);
    found = compare_runs(before, after, 1.1, HCQ_DEVICE_HOST_CPU, true);
    assert_int_equal(found.n_worse, N_ROWS);
}

/* Another thread has half of the core whenever a row is measured that is this
 * thread's own work, and takes more of it than sums show: nothing is said of
 * it, whichever run that was, unless it is far more than half. */
static void
test_sibling(void **state)
{
    const uint32_t flags = HCQ_DEVICE_HOST_CPU;
    struct model before = {1, 0, 1, 0, 0, 0}, after = {2, 0, 1, 0, 0, 0.4};
    struct verdicts found;

    (void)state;
    found = compare_runs(before, after, 1, flags, true);
    assert_int_equal(found.n_untold, N_ALONE);
    assert_int_equal(found.n_same, N_ROWS - N_ALONE);
    found = compare_runs(after, before, 1.1, flags, true);
    assert_int_equal(found.n_untold, N_ALONE);
    assert_int_equal(found.n_worse, N_ROWS - N_ALONE);
    found = compare_runs(before, after, 5, flags, true);
    assert_int_equal(found.n_worse, N_ROWS);
}

/* However short runs are, all of the row's time is looked at: the last sample
 * as well as the first. */
static void
test_many_samples(void **state)
{
    struct bench *b = new_bench(HCQ_DEVICE_HOST_CPU);
    const size_t n = 5 * BENCH_SAMPLES_MAX;
    size_t i;

    (void)state;
    bench_begin(b, BENCH_US, "a row", "row");
    for (i = 0; i < n; i++)
        bench_sample(b, i < n - 1 ? (double)(1 + i) : 0.5);
    assert_in_range(b->n_samples, BENCH_SAMPLES_MAX / 2, BENCH_SAMPLES_MAX);
    bench_end_block(b, &(struct bench_host){.stretch = 1});
    bench_end(b);
    assert_int_equal(b->rows[0].n_runs, n);
    if (fabs(b->rows[0].median / ((double)n / 2) - 1) > 0.05)
        fail_msg("a median of %g", b->rows[0].median);
    assert_true(b->blocks[0].best == 0.5);
    free(b);
}

/* Threads that wait for a processor to hand a word over: rows that do so say
 * nothing, unless they are slower by more than that; and rows that do not are
 * as they were, and tell a tenth. */
static void
test_handoff(void **state)
{
    const uint32_t flags = HCQ_DEVICE_HOST_CPU;
    struct model before = {1, 0, 1, 100, 0, 0}, after = {2, 0, 1, 1e5, 0, 0};
    struct verdicts found;

    (void)state;
    found = compare_runs(before, after, 1, flags, true);
    assert_int_equal(found.n_same, N_ALONE);
    assert_int_equal(found.n_untold, N_ROWS - N_ALONE);
    found = compare_runs(after, before, 1, flags, true);
    assert_int_equal(found.n_same, N_ALONE);
    assert_int_equal(found.n_untold, N_ROWS - N_ALONE);
    found = compare_runs(before, after, 1.1, flags, true);
    assert_int_equal(found.n_worse, N_ALONE);
    found = compare_runs(before, after, 1e5, flags, true);
    assert_int_equal(found.n_worse, N_ROWS);
    before.handoff_ns = 300;
    after.handoff_ns = 300;
    found = compare_runs(before, after, 1.2, flags, true);
    assert_int_equal(found.n_worse, N_ROWS);
    /* this long, now that: twice as long says nothing, of those that are not
     * alone */
    after.slow_handoffs = 0.5;
    found = compare_runs(before, after, 2, flags, true);
    assert_int_equal(found.n_worse, N_ALONE);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_unchanged), cmocka_unit_test(test_a_tenth_slower),
        cmocka_unit_test(test_turns),     cmocka_unit_test(test_host),
        cmocka_unit_test(test_sibling),   cmocka_unit_test(test_many_samples),
        cmocka_unit_test(test_handoff),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
