/* Running a plan: memory for its results and one scratch buffer, and its
 * kernels in the queue.
 */
#include "tensor/runtime/profile.h"
#include "tensor/runtime/run.h"
#include "tensor/tensor_internal.h"

#include <assert.h>

#include "base/alloc.h"
#include "base/log.h"
#include "base/thread.h"

#define EXECS_PER_SUBMIT 32
#define MAX_IN_FLIGHT    64 /* submissions that the host may be ahead */

static bell_status
alloc_results(struct rt_run *run, const struct rt_plan *plan)
{
    const struct sched_plan *sched = &plan->sched;
    uint64_t busy_until;
    uint32_t i;

    for (i = 0; i < run->n_leaves; i++) {
        if (!run->leaves[i]->device_mem)
            return tensor_fail_gone("bell_realize");
    }
    run->results = host_calloc(sched->n_bufs, sizeof(*run->results));
    if (!run->results)
        return bell_fail(BELL_E_NO_MEMORY, "out of memory realizing");
    for (i = 0; i < sched->n_bufs; i++) {
        const struct sched_buf *buf = &sched->bufs[i];
        if (buf->leaf < 0 && buf->root >= 0)
            BELL_TRY(tensor_buffer_create(run->ctx, buf->dtype, buf->n_elems,
                                          &run->results[i]));
    }
    if (plan->scratch_bytes)
        BELL_TRY(rt_memory_create(run->rt, plan->scratch_bytes, &run->scratch,
                                  &busy_until));
    return BELL_OK;
}

static uint64_t
buffer_va(const struct rt_run *run, const struct rt_plan *plan, uint32_t i)
{
    const struct sched_buf *buf = &plan->sched.bufs[i];
    const struct tensor_buffer *tensor;

    assert(i < plan->sched.n_bufs);
    if (buf->leaf >= 0)
        tensor = run->leaves[buf->leaf];
    else if (buf->root >= 0)
        tensor = run->results[i];
    else
        return run->scratch->va + plan->offsets[i];
    return tensor->device_mem->va;
}

/* Memory of what is done comes back meanwhile. */
bell_status
rt_keep_pace(struct tensor_runtime *rt)
{
    if (rt->last_value > MAX_IN_FLIGHT)
        return rt_wait(rt, rt->last_value - MAX_IN_FLIGHT);
    return BELL_OK;
}

static bell_status
submit(struct tensor_runtime *rt, struct hcq_cs *cs)
{
    BELL_TRY(hcq_cs_submit(cs, &rt->last_value));
    return rt_keep_pace(rt);
}

/* BELL_DEBUG=sync: one kernel at a time, each with its time. */
static bell_status
submit_alone(struct tensor_runtime *rt, struct hcq_cs *cs,
             const struct rt_kernel *kernel)
{
    uint64_t start = time_now_ns(), ns;

    BELL_TRY(submit(rt, cs));
    BELL_TRY(rt_wait(rt, rt->last_value));
    ns = time_now_ns() - start;
    rt_profile_kernel(rt->profile, kernel, (size_t)(kernel - rt->kernel_list),
                      start);
    LOG(LOG_SYNC, "%s: %.1f us, %.2f GFLOP/s, %.2f GB/s", kernel->program->name,
        (double)ns * 1e-3, kernel->n_flops / (double)ns,
        kernel->n_bytes / (double)ns);
    return BELL_OK;
}

/* Several launches are one submission: a doorbell costs more than a launch.
 * Where each is waited for, or watched, each is one. */
void
rt_queue_begin(struct tensor_runtime *rt, struct rt_queue *out)
{
    out->rt = rt;
    out->cs = NULL;
    out->n = 0;
    out->per_submit =
        LOG_ON(LOG_SYNC) || rt->watch || rt->profile ? 1 : EXECS_PER_SUBMIT;
}

bell_status
rt_queue_kernel(struct rt_queue *q, uint32_t number, const uint64_t *args,
                uint32_t n_args)
{
    struct tensor_runtime *rt = q->rt;
    const struct rt_kernel *kernel = &rt->kernel_list[number];

    if (q->n == 0)
        BELL_TRY(hcq_queue_begin(rt->queue, &q->cs));
    rt_profile_before(rt->profile, q->cs);
    hcq_cs_exec(q->cs, kernel->program, args, n_args, kernel->grid,
                kernel->local);
    rt_profile_after(rt->profile, q->cs);
    LOG(LOG_EXEC, "%s grid %u,%u,%u", kernel->program->name, kernel->grid[0],
        kernel->grid[1], kernel->grid[2]);
    if (q->per_submit == 1) {
        BELL_TRY(submit_alone(rt, q->cs, kernel));
        if (rt->watch)
            rt->watch(rt->watch_user, number);
        return BELL_OK;
    }
    return ++q->n == q->per_submit ? rt_queue_end(q) : BELL_OK;
}

bell_status
rt_queue_end(struct rt_queue *q)
{
    if (q->n == 0)
        return BELL_OK;
    q->n = 0;
    return submit(q->rt, q->cs);
}

static bell_status
queue_kernels(struct rt_run *run, const struct rt_plan *plan)
{
    struct tensor_runtime *rt = run->rt;
    uint64_t args[SCHED_MAX_PARAMS];
    struct rt_queue queue;
    uint32_t i, j, n_args;

    rt_queue_begin(rt, &queue);
    for (i = 0; i < plan->sched.n_items; i++) {
        const struct sched_item *item = &plan->sched.items[i];
        const struct rt_kernel *kernel = &rt->kernel_list[plan->kernels[i]];
        /* the last slots may have been simplified away */
        n_args = kernel->program->n_bufs + kernel->program->n_vals;
        for (j = 0; j < n_args; j++)
            args[j] =
                j < item->n_bufs ? buffer_va(run, plan, item->bufs[j])
                : kernel->values
                    ? (uint64_t)kernel->values[j - item->n_bufs]
                    : rt_vary_word(rt, plan, item->vars[j - item->n_bufs]);
        BELL_TRY(rt_queue_kernel(&queue, plan->kernels[i], args, n_args));
        rt->stats.n_flops += kernel->n_flops;
        rt->stats.n_bytes += kernel->n_bytes;
    }
    BELL_TRY(rt_queue_end(&queue));
    rt->stats.n_launches += plan->sched.n_items;
    return BELL_OK;
}

bell_status
rt_replay(struct rt_run *run, const struct rt_plan *plan)
{
    BELL_TRY(alloc_results(run, plan));
    return queue_kernels(run, plan);
}

/* A root that is a leaf already keeps its buffer; an ASSIGN is done once and
 * denotes nothing. */
bell_status
rt_replay_results(struct rt_run *run, const struct rt_plan *plan)
{
    uint32_t r;

    for (r = 0; r < run->n; r++) {
        uint32_t i = plan->sched.root_bufs[r];
        const struct sched_buf *buf = &plan->sched.bufs[i];
        if (tensor_at(run->tensors[r])->uop->op == UOP_ASSIGN)
            continue;
        BELL_TRY(tensor_set_buffer(run->tensors[r], buf->leaf >= 0
                                                        ? run->leaves[buf->leaf]
                                                        : run->results[i]));
    }
    return BELL_OK;
}

/* Scratch memory goes when the last kernel is done. */
void
rt_replay_end(struct rt_run *run, const struct rt_plan *plan)
{
    uint32_t i;

    for (i = 0; i < plan->sched.n_bufs; i++) {
        if (run->results[i])
            tensor_buffer_release(run->results[i]);
    }
    rt_bury(run->rt, run->scratch);
    host_free(run->results);
}
