/* Running a plan: memory for its results and one scratch buffer, and its
 * kernels in the queue.
 *
 * A plan that recurs is queued as a graph: its leaves, its results, its scratch
 * memory and its values are slots of a tape.
 */
#include "tensor/runtime/classes.h"
#include "tensor/runtime/mesh_places.h"
#include "tensor/runtime/named.h"
#include "tensor/runtime/profile.h"
#include "tensor/runtime/run.h"
#include "tensor/runtime/tape.h"
#include "tensor/core/tensor_internal.h"

#include <assert.h>

#include "base/alloc.h"
#include "base/interrupt.h"
#include "base/log.h"
#include "base/thread.h"

#define EXECS_PER_SUBMIT 32
#define MAX_IN_FLIGHT    64 /* submissions that the host may be ahead */

/* A plan of fewer kernels is queued as fast as a graph; one that ran less often
 * before may not come again. */
#define GRAPH_KERNELS 3
#define GRAPH_RUNS    6

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
        if (buf->leaf >= 0 || buf->root < 0)
            continue;
        if (run->rt->places)
            BELL_TRY(mesh_result(run, plan, i, &run->results[i]));
        else
            BELL_TRY(tensor_buffer_create(run->ctx, buf->dtype, buf->n_elems,
                                          &run->results[i]));
    }
    if (plan->scratch_bytes)
        BELL_TRY(rt_memory_create(run->rt, plan->scratch_bytes, &run->scratch,
                                  &busy_until));
    return BELL_OK;
}

/* Memory of what is done comes back meanwhile. Where the device is not behind,
 * that is seen without a lock. */
bell_status
rt_keep_pace(struct tensor_runtime *rt)
{
    uint64_t until = rt->last_value - MAX_IN_FLIGHT;
    bell_status status;

    if (rt->last_value <= MAX_IN_FLIGHT ||
        (!rt->n_sent &&
         hcq_signal_value(hcq_queue_timeline(rt->queue)) >= until))
        return BELL_OK;
    status = rt_wait(rt, until);
    if (status == BELL_E_TIMEOUT && interrupt_is_on()) {
        bell_error_clear(); /* the work was submitted */
        return BELL_OK;
    }
    return status;
}

static bell_status
submit(struct tensor_runtime *rt, struct hcq_cs *cs)
{
    bell_status status;

    interrupt_hold(); /* a plan is run whole */
    status = hcq_cs_submit(cs, &rt->last_value);
    interrupt_release();
    BELL_TRY(status);
    return rt_keep_pace(rt);
}

/* BELL_DEBUG=sync: one kernel at a time, each with its time. */
static bell_status
submit_alone(struct tensor_runtime *rt, struct hcq_cs *cs,
             const struct rt_kernel *kernel, const char *text)
{
    uint64_t start = time_now_ns(), ns;

    BELL_TRY(submit(rt, cs));
    BELL_TRY(rt_wait(rt, rt->last_value));
    ns = time_now_ns() - start;
    rt_profile_kernel(rt->profile, kernel, (size_t)(kernel - rt->kernel_list),
                      text, start);
    LOG(LOG_SYNC, "%s: %.1f us, %.2f GFLOP/s, %.2f GB/s%s%s",
        kernel->program->name, (double)ns * 1e-3,
        kernel->facts.n_flops / (double)ns, kernel->facts.n_bytes / (double)ns,
        text ? ": " : "", text ? text : "");
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

bool
rt_tells(const struct tensor_runtime *rt)
{
    return LOG_ON(LOG_SYNC) || LOG_ON(LOG_EXEC) || rt->watch || rt->profile;
}

bell_status
rt_queue_kernel(struct rt_queue *q, uint32_t number, const char *text,
                const uint64_t *args)
{
    struct tensor_runtime *rt = q->rt;
    const struct rt_kernel *kernel = &rt->kernel_list[number];

    if (q->n == 0)
        BELL_TRY(hcq_queue_begin(rt->queue, &q->cs));
    rt_profile_before(rt->profile, q->cs);
    hcq_cs_exec(q->cs, kernel->program, args, rt_n_args(kernel),
                kernel->facts.grid, kernel->facts.local);
    rt_profile_after(rt->profile, q->cs);
    LOG(LOG_EXEC, "%s grid %u,%u,%u%s%s", kernel->program->name,
        kernel->facts.grid[0], kernel->facts.grid[1], kernel->facts.grid[2],
        text ? ": " : "", text ? text : "");
    if (q->per_submit == 1) {
        BELL_TRY(submit_alone(rt, q->cs, kernel, text));
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

/* ---- arguments ---- */

/* What differs from run to run are slots: leaves, results by buffer, the
 * scratch memory, values. */
static uint64_t
slot_value(const struct rt_run *run, const struct rt_plan *plan, uint32_t slot)
{
    uint32_t i = slot - (uint32_t)run->n_leaves;

    if (slot < run->n_leaves)
        return run->leaves[slot]->device_mem->va;
    if (i < plan->sched.n_bufs)
        return run->results[i] ? run->results[i]->device_mem->va : 0;
    if (i == plan->sched.n_bufs)
        return run->scratch ? run->scratch->va : 0;
    i -= plan->sched.n_bufs + 1;
    return plan->steps[i] ? rt_vary_word(run->rt, plan, i) : 0;
}

static uint32_t
count_slots(const struct rt_run *run, const struct rt_plan *plan)
{
    return (uint32_t)run->n_leaves + plan->sched.n_bufs + 1 + plan->n_values;
}

/* Those of item i. How many, of which the program's last may have been
 * simplified away. */
static uint32_t
find_launch_args(const struct rt_run *run, const struct rt_plan *plan,
                 uint32_t i, struct rt_arg *args)
{
    const struct sched_item *item = &plan->sched.items[i];
    const struct rt_kernel *kernel = &run->rt->kernel_list[plan->kernels[i]];
    uint32_t results = (uint32_t)run->n_leaves,
             scratch = results + plan->sched.n_bufs, j;
    uint32_t n =
        kernel->values ? rt_n_args(kernel) : item->n_bufs + item->n_vars;

    for (j = 0; j < n; j++) {
        struct rt_arg *arg = &args[j];
        const struct sched_buf *buf =
            j < item->n_bufs ? &plan->sched.bufs[item->bufs[j]] : NULL;

        *arg = (struct rt_arg){.slot = RT_SLOT_NONE,
                               .is_written = j < item->n_outs};
        if (!buf && kernel->values) {
            arg->value = (uint64_t)kernel->values[j - item->n_bufs];
            continue;
        }
        if (!buf) {
            arg->slot = scratch + 1 + item->vars[j - item->n_bufs];
            continue;
        }
        arg->size_bytes = buf->n_elems * uop_dtype_infos[buf->dtype].size_bytes;
        arg->slot = buf->leaf >= 0   ? (uint32_t)buf->leaf
                    : buf->root >= 0 ? results + item->bufs[j]
                                     : scratch;
        if (arg->slot == scratch)
            arg->value = plan->offsets[item->bufs[j]];
    }
    return n;
}

static bell_status
queue_kernels(struct rt_run *run, const struct rt_plan *plan)
{
    struct tensor_runtime *rt = run->rt;
    struct rt_arg bound[SCHED_MAX_PARAMS];
    uint64_t args[SCHED_MAX_PARAMS];
    const struct rt_kernel *kernel;
    struct rt_queue queue;
    uint32_t i, j, n, number;

    rt_queue_begin(rt, &queue);
    for (i = 0; i < plan->sched.n_items; i++) {
        const struct sched_item *item = &plan->sched.items[i];

        n = find_launch_args(run, plan, i, bound);
        for (j = 0; j < n; j++)
            args[j] =
                bound[j].value + (bound[j].slot == RT_SLOT_NONE
                                      ? 0
                                      : slot_value(run, plan, bound[j].slot));
        BELL_TRY(rt_class_kernel(rt, &queue, plan->kernels[i], args, plan, item,
                                 &number));
        BELL_TRY(rt_queue_kernel(
            &queue, number,
            rt_tells(rt) ? rt_named_kernel(rt, plan, item) : NULL, args));
        kernel = &rt->kernel_list[number];
        rt->stats.n_flops += kernel->facts.n_flops;
        rt->stats.n_bytes += kernel->facts.n_bytes;
    }
    BELL_TRY(rt_queue_end(&queue));
    rt->stats.n_launches += plan->sched.n_items;
    return BELL_OK;
}

/* ---- as a graph ---- */

static bell_status
make_tape(struct rt_run *run, struct rt_plan *plan)
{
    struct rt_arg args[SCHED_MAX_PARAMS];
    bell_status status;
    uint32_t i, n;

    plan->n_tape_leaves = run->n_leaves;
    status =
        rt_tape_create(run->rt, count_slots(run, plan), false, &plan->tape);
    for (i = 0; i < plan->sched.n_items && status == BELL_OK; i++) {
        n = find_launch_args(run, plan, i, args);
        status = rt_tape_add(plan->tape, plan->kernels[i], NULL, args, n);
    }
    if (status != BELL_OK) {
        rt_tape_destroy(plan->tape);
        plan->tape = NULL;
    }
    return status;
}

/* Sizes of one for any size change what a graph knows of its memory. A graph
 * has the labels of the run that it was made in. */
static bool
is_graph(const struct rt_run *run, const struct rt_plan *plan)
{
    if (run->rt->labels && rt_tells(run->rt))
        return false;
    return plan->n_runs >= GRAPH_RUNS && plan->sched.n_items >= GRAPH_KERNELS &&
           !plan->symbols && !plan->no_graph &&
           (!plan->tape || plan->n_tape_leaves == run->n_leaves);
}

/* What a graph refuses, memory of the caller's that overlaps, the queue does in
 * its order. */
static bell_status
queue_graph(struct rt_run *run, struct rt_plan *plan)
{
    bell_status status;
    uint32_t i;

    if (!plan->tape)
        BELL_TRY(make_tape(run, plan));
    for (i = 0; i < count_slots(run, plan); i++)
        rt_tape_set(plan->tape, i, slot_value(run, plan, i));
    status = rt_tape_submit(plan->tape);
    if (status != BELL_E_INVALID)
        return status;
    bell_error_clear();
    rt_tape_destroy(plan->tape);
    plan->tape = NULL;
    plan->no_graph = true;
    return queue_kernels(run, plan);
}

bell_status
rt_replay(struct rt_run *run, struct rt_plan *plan)
{
    BELL_TRY(alloc_results(run, plan));
    if (run->rt->places)
        return mesh_replay(run, plan);
    if (is_graph(run, plan))
        return queue_graph(run, plan);
    plan->n_runs++;
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
