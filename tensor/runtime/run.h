/* One run of a plan: the tensors it is for, and the memory that it touches. */
#ifndef BELL_TENSOR_RUNTIME_RUN_H
#define BELL_TENSOR_RUNTIME_RUN_H

#include "tensor/runtime/runtime.h"

struct bell_context;
struct mesh_layout;
struct bell_tensor;
struct tensor_buffer;

/* One tensor_realize or tensor_compile. */
struct rt_run {
    struct bell_context *ctx;
    struct tensor_runtime *rt;
    struct bell_tensor **tensors; /* those that have work to do */
    uint32_t n;
    const struct uop_graph *graph; /* of the tensors' nodes: the context's, or
                                    * what a place of its mesh does of that */
    const struct uop **nodes;      /* there, of the tensors; NULL: their own */
    struct mesh_layout *layouts;   /* owned: of these; or NULL */
    bool clashes;                  /* two of them are one at a place: they are
                                    * run one by one */
    const struct uop **roots;      /* in rt->graphs, the last one first */
    struct tensor_buffer **leaves; /* by number */
    size_t n_leaves, cap_leaves;
    struct tensor_buffer **results; /* by plan buffer; owned references */
    struct hcq_buffer *scratch;
    struct hcq_buffer **scratches; /* owned: of all places of a mesh; or NULL */
};

/* ---- number.c ---- */

/* Copies the graph under the tensors to its structure in rt->graphs;
 * *out_sink, whose sources are the last root, .., the first, is its identity.
 * Fills in roots and leaves. */
BELL_MUST_CHECK bell_status rt_number(struct rt_run *run,
                                      const struct uop **out_sink);

/* Gives back the room that numbering took, where the graph was great: before a
 * plan is made, which needs memory. */
void rt_number_trim(struct tensor_runtime *rt);

/* ---- replay.c ---- */

/* Gives the plan's results memory and queues its kernels: of several, that ran
 * some times before, as a graph. */
BELL_MUST_CHECK bell_status rt_replay(struct rt_run *run, struct rt_plan *plan);
/* The tensors become leaves. */
BELL_MUST_CHECK bell_status rt_replay_results(struct rt_run *run,
                                              const struct rt_plan *plan);
/* Drops what rt_replay took (run->results at least), also where it failed. */
void rt_replay_end(struct rt_run *run, const struct rt_plan *plan);

/* Kernels on their way to the queue, several a submission. */
struct rt_queue {
    struct tensor_runtime *rt;
    struct hcq_cs *cs;
    uint32_t n, per_submit; /* kernels in cs */
};
void rt_queue_begin(struct tensor_runtime *rt, struct rt_queue *out);
/* Where each kernel is told or waited for by itself: so each is a launch. */
bool rt_tells(const struct tensor_runtime *rt);
/* How many words a launch has. */
static inline uint32_t
rt_n_args(const struct rt_kernel *kernel)
{
    return kernel->program->n_bufs + kernel->program->n_vals;
}
/* Number `number` of rt->kernel_list, which computes what `text` says; NULL:
 * that is not known. */
BELL_MUST_CHECK bell_status rt_queue_kernel(struct rt_queue *q, uint32_t number,
                                            const char *text,
                                            const uint64_t *args);
/* After a submission: the host stays ahead of the device by so many at most. */
BELL_MUST_CHECK bell_status rt_keep_pace(struct tensor_runtime *rt);
/* Submits what is left. */
BELL_MUST_CHECK bell_status rt_queue_end(struct rt_queue *q);

/* ---- capture.c ---- */

/* Notes the run, instead of running it; its results are stand-ins. */
BELL_MUST_CHECK bell_status rt_capture_run(struct rt_run *run, uint32_t plan);

/* ---- realize.c: the queue and memory ---- */

/* A runtime of its own for the device, whose kernels are compiled for what math
 * the context allows; it stays the context's. `is_place`: a further device of
 * the context's mesh, where nothing is profiled. */
BELL_MUST_CHECK bell_status rt_open(const struct bell_context *ctx,
                                    const char *name, bool is_place,
                                    struct tensor_runtime **out_rt);
/* It keeps each kernel's file from now on; what runs nothing stands for the
 * cards of its name, and makes files for them. */
void rt_keep_binaries(struct tensor_runtime *rt);
/* Waits for pending work. */
void rt_close(struct tensor_runtime *rt);

/* Waits for that value of the queue, however long it takes, while the device
 * moves. */
BELL_MUST_CHECK bell_status rt_wait(struct tensor_runtime *rt, uint64_t value);
/* Memory for what queued work writes first: others wait until the queue is
 * done with *out_busy_until. */
BELL_MUST_CHECK bell_status rt_memory_create(struct tensor_runtime *rt,
                                             uint64_t size_bytes,
                                             struct hcq_buffer **out_buf,
                                             uint64_t *out_busy_until);
/* Gives back what copies from and to other devices took, of those that are
 * over. Before memory is. */
void rt_reap_sent(struct tensor_runtime *rt);
/* Lets queues go on that wait for each other in vain. */
void rt_give_up_sent(struct tensor_runtime *rt);
/* The same as rt_reap_sent of all of them; the queue is destroyed. */
void rt_end_sent(struct tensor_runtime *rt);
/* Gives `buf` (or NULL) back once the queue has passed what is submitted
 * now. */
void rt_bury(struct tensor_runtime *rt, struct hcq_buffer *buf);

#endif
