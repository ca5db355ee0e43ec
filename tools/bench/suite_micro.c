/* Bench: single things that programs are made of, by kernels that do nothing
 * else: atomics, barriers, branches, waits for instructions, caches, constants
 * and integers of other widths. */

#include "base/alloc.h"
#include "base/bits.h"
#include "base/thread.h"
#include "tools/bench/bench.h"
#include "tools/bench/probe.h"

struct row {
    enum probe_kind kind;
    enum bench_unit unit;
    bool is_one_group; /* else all units are busy */
    const char *what;
};

static const struct row rows[] = {
    {PROBE_ATOMIC_OWN, BENCH_GOPS, false,
     "atomic sums, each thread a word of its own"},
    {PROBE_ATOMIC_SAME, BENCH_GOPS, false, "atomic sums, all threads one word"},
    {PROBE_ATOMIC_SHARED, BENCH_GOPS, false, "atomic sums in shared memory"},
    {PROBE_BARRIER, BENCH_NS, true, "a barrier of 256 threads"},
    {PROBE_BRANCH_SAME, BENCH_NS, true,
     "8 multiply-adds, all threads the same way"},
    {PROBE_BRANCH_SPLIT, BENCH_NS, true,
     "8 multiply-adds, threads go two ways"},
    {PROBE_WAIT_MAD_I32, BENCH_NS, true, "int32 multiply-add, the next waits"},
    {PROBE_WAIT_FMA_F32, BENCH_NS, true,
     "float32 multiply-add, the next waits"},
    {PROBE_WAIT_FMA_F64, BENCH_NS, true,
     "float64 multiply-add, the next waits"},
    {PROBE_WAIT_SHARED, BENCH_NS, true,
     "load of shared memory, the next waits"},
    {PROBE_READ_L1, BENCH_GB_S, false, "16 KiB by each group, 16 bytes a load"},
    {PROBE_READ_L2_4, BENCH_GB_S, false, "512 KiB by all, 4 bytes a load"},
    {PROBE_READ_L2_8, BENCH_GB_S, false, "512 KiB by all, 8 bytes a load"},
    {PROBE_READ_L2_16, BENCH_GB_S, false, "512 KiB by all, 16 bytes a load"},
    {PROBE_CONSTANT, BENCH_GOPS, false, "a constant that all threads read"},
    {PROBE_MAD_I16, BENCH_GOPS, false, "int16 multiply-adds"},
    {PROBE_MAD_I64, BENCH_GOPS, false, "int64 multiply-adds"},
};

/* What is measured: a probe and what it runs on. */
struct micro_run {
    struct probe probe;
    struct hcq_buffer *results, *words;
    uint64_t n_rounds;
    uint32_t n_groups;
};

static bell_status
fill_micro_words(struct micro_run *run)
{
    bool is_zero = run->probe.kind <= PROBE_ATOMIC_SAME;
    uint32_t n = (uint32_t)(run->words->size_bytes / 4), i;
    uint32_t *words = host_calloc(n, 4);
    bell_status status;

    if (!words)
        return bell_fail(BELL_E_NO_MEMORY, "out of memory for words");
    for (i = 0; i < n && !is_zero; i++)
        words[i] = i;
    status = hcq_buffer_write(run->words, 0, words, (uint64_t)n * 4);
    host_free(words);
    return status;
}

static bell_status
check_word(const struct micro_run *run, const char *what, uint32_t i,
           uint32_t got, uint32_t want)
{
    if (got == want)
        return BELL_OK;
    return bell_fail(BELL_E_INTERNAL, "%s: %s %u is %u, not %u",
                     probe_names[run->probe.kind], what, i, got, want);
}

/* Checks the result of one launch, after fill_words. */
static bell_status
check_run(const struct micro_run *run)
{
    uint32_t n = run->n_groups * run->probe.n_threads, i;
    uint32_t n_words = (uint32_t)(run->words->size_bytes / 4);
    uint32_t most = n > n_words ? n : n_words;
    uint32_t *got = host_alloc((size_t)most * 4);
    bell_status status;

    if (!got)
        return bell_fail(BELL_E_NO_MEMORY, "out of memory for results");
    status = hcq_buffer_read(run->results, 0, got, (uint64_t)n * 4);
    /* of a large grid each group's first and last threads, and all of one */
    for (i = 0; i < n && status == BELL_OK; i++) {
        uint32_t thread = i % run->probe.n_threads;

        if (i >= 4 * PROBE_THREADS && thread % 85)
            continue;
        status = check_word(run, "result", i, got[i],
                            probe_result(&run->probe, i / run->probe.n_threads,
                                         thread, run->n_rounds));
    }
    if (status == BELL_OK)
        status = hcq_buffer_read(run->words, 0, got, (uint64_t)n_words * 4);
    for (i = 0; i < n_words && status == BELL_OK; i++)
        status = check_word(
            run, "word", i, got[i],
            probe_word(&run->probe, i, run->n_rounds, run->n_groups));
    host_free(got);
    return status;
}

static bell_status
launch_micro(struct bench *b, const struct micro_run *run)
{
    struct hcq_cs *cs;

    BELL_TRY(hcq_queue_begin(b->compute, &cs));
    probe_launch(&run->probe, cs, run->results->va, run->n_rounds,
                 run->words->va, run->n_groups);
    BELL_TRY(hcq_cs_submit(cs, NULL));
    return hcq_queue_wait(b->compute, BENCH_WAIT_NS);
}

/* The row has begun. */
static bell_status
time_run(struct bench *b, const struct row *row, struct micro_run *run)
{
    double n = (double)run->n_rounds * run->probe.turns;

    if (row->kind == PROBE_BRANCH_SAME || row->kind == PROBE_BRANCH_SPLIT)
        n = (double)run->n_rounds;
    BELL_TRY(fill_micro_words(run));
    BELL_TRY(launch_micro(b, run));
    BELL_TRY(check_run(run));
    b->start_ns = time_now_ns(); /* compiling is not a part of it */
    while (bench_goes_on(b, 5)) {
        uint64_t start = time_now_ns();
        double ns;

        BELL_TRY(launch_micro(b, run));
        ns = (double)(time_now_ns() - start);
        bench_sample_ns(b, row->unit == BENCH_NS ? ns / n : ns);
    }
    bench_end(b);
    return BELL_OK;
}

/* Rounds that take some milliseconds, or, where results are computed on the
 * host, that take no longer there. */
static uint64_t
choose_rounds(const struct bench *b, const struct row *row)
{
    if (b->is_small)
        return 4;
    return row->kind == PROBE_ATOMIC_SAME ? 256
           : row->is_one_group            ? 1u << 16
                                          : 4096;
}

static bell_status
measure_row(struct bench *b, const struct row *row, struct micro_run *run)
{
    uint32_t n_threads = run->probe.n_threads;
    uint32_t n_results, n_words = run->probe.words;
    double things;
    bell_status status;

    run->n_rounds = choose_rounds(b, row);
    run->n_groups =
        row->is_one_group ? 1 : b->info.n_units * (b->is_small ? 1 : 8);
    n_results = run->n_groups * n_threads;
    if (row->kind == PROBE_ATOMIC_OWN)
        n_words = n_results;
    things = (double)run->n_rounds * run->probe.turns * n_results;
    if (row->unit == BENCH_GB_S)
        bench_work(b, 0, things * probe_width(row->kind), BENCH_CEILING_NONE);
    else if (row->unit == BENCH_GOPS)
        bench_work(b,
                   things *
                       (row->kind == PROBE_MAD_I16 || row->kind == PROBE_MAD_I64
                            ? 2
                            : 1),
                   0, BENCH_CEILING_NONE);
    status =
        hcq_buffer_create(b->dev, (uint64_t)n_results * 4, 0, &run->results);
    if (status == BELL_OK)
        status =
            hcq_buffer_create(b->dev, (uint64_t)n_words * 4, 0, &run->words);
    if (status == BELL_OK)
        status = time_run(b, row, run);
    hcq_buffer_destroy(run->words);
    hcq_buffer_destroy(run->results);
    return status;
}

bell_status
bench_micro(struct bench *b)
{
    size_t i;

    for (i = 0; i < ARRAY_LEN(rows) && !bench_is_over(b); i++) {
        struct micro_run run = {.results = NULL};
        bell_status status;

        bench_begin(b, rows[i].unit, rows[i].what, "%s",
                    probe_names[rows[i].kind]);
        if (!bench_is_wanted(b))
            continue;
        status = probe_load(b->dev, rows[i].kind, &run.probe);
        if (status == BELL_OK) {
            status = measure_row(b, &rows[i], &run);
            hcq_program_destroy(run.probe.prog);
        }
        BELL_TRY(bench_unless_lacking(b, status));
    }
    return BELL_OK;
}
