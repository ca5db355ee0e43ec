/* The search for schedules: what its files share. */
#ifndef BELL_TENSOR_RUNTIME_SEARCH_H
#define BELL_TENSOR_RUNTIME_SEARCH_H

#include "tensor/runtime/runtime.h"

/* ---- search_run.c: a kernel by itself ---- */

/* What a kernel is launched with: buffers, outputs first, then words. */
struct rt_bench_args {
    uint32_t n_outs, n_bufs, n_words;
    struct {
        enum uop_dtype dtype;
        uint64_t n_elems;
    } bufs[SCHED_MAX_PARAMS];
    uint64_t words[HCQ_ARGS_MAX];
};

/* A kernel's arguments: memory of its own, filled with random values, and a
 * queue beside that of the context. */
struct rt_bench {
    struct tensor_runtime *rt;
    const struct rt_bench_args *with;
    struct hcq_queue *queue;
    struct hcq_signal *begin, *end, *never;
    struct hcq_buffer *bufs[SCHED_MAX_PARAMS];
    uint64_t args[HCQ_ARGS_MAX];
    void **want, *got; /* outputs of the rules' kernel; those of another */
};

/* On failure nothing is owned. */
BELL_MUST_CHECK bell_status rt_bench_init(struct rt_bench *b,
                                          struct tensor_runtime *rt,
                                          const struct rt_bench_args *with);
void rt_bench_fini(struct rt_bench *b);

enum rt_bench_spoil {
    RT_BENCH_WELL,
    RT_BENCH_BAD_ADDRESS,
    RT_BENCH_NEVER_ENDS
};

/* Runs it once; the inputs are in the caches where they fit. *out_us is the
 * device's time. BELL_E_DEVICE_LOST, BELL_E_TIMEOUT: it faulted, or took longer
 * than that, and the device was recovered; other failures are not the
 * kernel's. */
BELL_MUST_CHECK bell_status rt_bench_run(struct rt_bench *b,
                                         const struct hcq_program *program,
                                         const struct rt_facts *facts,
                                         uint64_t timeout_ns,
                                         enum rt_bench_spoil spoil,
                                         double *out_us);

/* Outputs are filled with what no kernel computes. */
BELL_MUST_CHECK bell_status rt_bench_poison(struct rt_bench *b);
/* The outputs become what others are compared with. */
BELL_MUST_CHECK bell_status rt_bench_keep(struct rt_bench *b);
/* Are the outputs the same? Integers to the bit, floats up to rounding: the
 * order of a sum is a schedule's. */
BELL_MUST_CHECK bell_status rt_bench_compare(struct rt_bench *b,
                                             bool *out_same);

/* ---- search.c ---- */

/* BELL_BEAM. BELL_E_INVALID: it is not such a number. */
BELL_MUST_CHECK bell_status rt_search_init(struct tensor_runtime *rt);
void rt_search_fini(struct tensor_runtime *rt);

/* Machine code that others are to be faster than, in place of the rules'. */
struct rt_search_from {
    struct hcq_program_desc program;
    uint32_t grid[3];
};

/* Searches for the kernel under `sink`. `from`: NULL: the rules' kernel. What
 * is found: *out_schedule, which has no actions where what was there stays;
 * what is told is *tuned, whose texts are the listener's while it is called. */
BELL_MUST_CHECK bell_status rt_search_kernel(
    struct tensor_runtime *rt, const struct uop *sink,
    const struct rt_bench_args *with, const struct rt_search_from *from,
    struct tensor_tuned *tuned, struct lower_schedule *out_schedule);

/* Finds schedules for the plan's kernels that are not compiled yet. */
BELL_MUST_CHECK bell_status rt_search_item(struct tensor_runtime *rt,
                                           const struct rt_plan *plan,
                                           const struct sched_item *item);
BELL_MUST_CHECK bell_status rt_search(struct tensor_runtime *rt,
                                      const struct rt_plan *plan);

/* The schedule found for a kernel; NULL: as the rules choose. */
const struct lower_schedule *rt_schedule_of(const struct tensor_runtime *rt,
                                            const struct uop *sink);

#endif
