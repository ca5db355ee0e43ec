/* A queue of the CPU: what its packets do, on a thread that is the first of the
 * workers, or the submitter's if that is soon done. hcq_feed.c has the ring.
 */
#include "hcq/cpu/cpu_internal.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/bits.h"
#include "base/thread.h"

#define STOP_LIMIT_NS   10000000000ull
#define SPLIT_MIN_BYTES (2u << 20)   /* copies that helpers share */
#define SPLIT_BYTES     (256u << 10) /* what each takes at a time */

/* Steps of a submission that its submitter's thread runs itself. A spinning
 * thread begins 0.1 to 0.3 us later, one on the same CPU 2 us; a step is some
 * instructions. guess */
#define HERE_STEPS 256u

/* ---- faults -------------------------------------------------------------- */

static enum hcq_fault_kind
fault_kind(int sig)
{
    switch (sig) {
    case SIGFPE:
        return HCQ_FAULT_ARITHMETIC;
    case SIGILL:
    case SIGTRAP:
        return HCQ_FAULT_INSTRUCTION;
    default:
        return HCQ_FAULT_MEMORY;
    }
}

static const char *
fault_words(const struct cpu_trap *trap)
{
    switch (trap->signal) {
    case SIGFPE:
        return trap->code == FPE_INTDIV ? "integer division by zero"
                                        : "arithmetic fault";
    case SIGILL:
        return "illegal instruction";
    case SIGTRAP:
        return "trap instruction";
    case SIGBUS:
        return "bus error";
    default:
        return trap->code == SEGV_MAPERR   ? "address not mapped"
               : trap->code == SEGV_ACCERR ? "access not allowed"
                                           : "address not canonical";
    }
}

/* Marks the device lost by what the running command did. */
static void
lose_device(struct cpu_queue *queue, const struct cpu_trap *trap)
{
    const struct hcq_program_base *prog =
        atomic_load_explicit(&queue->feed.now.prog, memory_order_relaxed);
    unsigned op =
        atomic_load_explicit(&queue->feed.now.op, memory_order_relaxed);
    struct hcq_fault fault = {
        .kind = fault_kind(trap->signal),
        .va = trap->va,
        .first_group = prog ? trap->first : 0,
        .last_group = prog ? trap->last : 0,
    };
    char groups[64] = "";

    snprintf(fault.program, sizeof(fault.program), "%s",
             prog ? prog->pub.name : hcq_op_name(op));
    snprintf(fault.queue, sizeof(fault.queue), "%s", queue->feed.base.name);
    if (prog && trap->last - trap->first == 1)
        snprintf(groups, sizeof(groups), ", work-group %llu",
                 (unsigned long long)trap->first);
    else if (prog)
        snprintf(groups, sizeof(groups), ", work-groups %llu to %llu",
                 (unsigned long long)trap->first,
                 (unsigned long long)trap->last - 1);
    snprintf(fault.text, sizeof(fault.text),
             "%s '%s' on %s: %s at 0x%llx%s (instruction %+lld)",
             prog ? "kernel" : "command", fault.program, fault.queue,
             fault_words(trap), (unsigned long long)trap->va, groups,
             (long long)(prog ? trap->pc - prog->pub.code_va : 0));
    hcq_device_set_lost(&cpu_device(queue->feed.base.dev)->base, &fault);
}

/* ---- commands
 * ------------------------------------------------------------------ * Each
 * returns whether the queue goes on. Device memory is touched only with
 * in_kernel set, so that a bad address is a fault and not a crash. */

static bool
run_wait(struct cpu_queue *queue, struct hcq_slot *slot, uint64_t value)
{
    bool came;

    queue->worker.in_kernel = 1;
    came = hcq_feed_wait(&queue->feed, slot, value);
    queue->worker.in_kernel = 0;
    return came;
}

static bool
run_poll(struct cpu_queue *queue, const uint32_t *word, uint32_t mask,
         uint32_t value)
{
    struct cpu_worker *worker = &queue->worker;
    uint64_t start_ns = 0, now_ns, nap_ns = 10000;

    for (;;) {
        uint32_t seen;

        worker->in_kernel = 1;
        seen = __atomic_load_n(word, __ATOMIC_ACQUIRE);
        worker->in_kernel = 0;
        if ((seen & mask) == value)
            return true;
        if (hcq_feed_must_stop(&queue->feed))
            return false;
        now_ns = time_now_ns();
        if (start_ns == 0)
            start_ns = now_ns;
        if (now_ns - start_ns < queue->feed.base.dev->spin_ns) {
            hcq_spin(now_ns - start_ns);
        } else {
            /* Memory has no wake-up: look ever less often, down to 1 kHz. */
            hcq_nap(nap_ns);
            nap_ns = nap_ns < 500000 ? nap_ns * 2 : 1000000;
        }
    }
}

static void
set_u64(struct cpu_queue *queue, uint64_t *word, uint64_t value)
{
    queue->worker.in_kernel = 1;
    __atomic_store_n(word, value, __ATOMIC_RELEASE);
    queue->worker.in_kernel = 0;
}

static void
set_u32(struct cpu_queue *queue, uint32_t *word, uint32_t value)
{
    queue->worker.in_kernel = 1;
    __atomic_store_n(word, value, __ATOMIC_RELEASE);
    queue->worker.in_kernel = 0;
}

static void
run_signal(struct cpu_queue *queue, struct hcq_slot *slot, uint64_t value)
{
    queue->now->in_kernel = 1;
    __atomic_store_n(&slot->value, value, __ATOMIC_SEQ_CST);
    queue->now->in_kernel = 0;
    hcq_slot_wake(slot);
}

/* Bytes of a split copy or fill that work-group `group` does. */
static uint64_t
split_bytes(uint64_t group, uint64_t size_bytes)
{
    uint64_t left = size_bytes - group * SPLIT_BYTES;

    assert(group * SPLIT_BYTES < size_bytes);
    return left < SPLIT_BYTES ? left : SPLIT_BYTES;
}

static void
copy_groups(const uint64_t *args, const uint32_t grid[3], uint64_t first,
            uint64_t last)
{
    (void)grid;
    for (; first < last; first++) {
        uint64_t at = first * SPLIT_BYTES;
        memcpy((void *)(uintptr_t)(args[0] + at),
               (const void *)(uintptr_t)(args[1] + at),
               (size_t)split_bytes(first, args[2]));
    }
}

static void
fill_bytes(uint64_t dst_va, uint32_t pattern, uint64_t size_bytes)
{
    unsigned char *dst = (unsigned char *)(uintptr_t)dst_va;
    uint64_t i, n_words = size_bytes / 4;

    for (i = 0; i < n_words; i++)
        memcpy(dst + i * 4, &pattern, 4);
    memcpy(dst + n_words * 4, &pattern, (size_t)(size_bytes % 4));
}

static void
fill_groups(const uint64_t *args, const uint32_t grid[3], uint64_t first,
            uint64_t last)
{
    (void)grid;
    for (; first < last; first++)
        fill_bytes(args[0] + first * SPLIT_BYTES, (uint32_t)args[1],
                   split_bytes(first, args[2]));
}

static bool
finish_job(struct cpu_queue *queue, enum cpu_leave left)
{
    if (left == CPU_LEAVE_FAULT)
        lose_device(queue, &queue->job->trap);
    return left == CPU_LEAVE_DONE;
}

/* args: dst, src or pattern, bytes */
static bool
run_transfer(struct cpu_queue *queue, cpu_kernel_fn *fn, const uint64_t *args)
{
    const uint32_t grid[3] = {1, 1, 1};
    uint64_t size_bytes = args[2];

    assert(queue->now == &queue->worker);
    if (size_bytes == 0)
        return true;
    if (size_bytes >= SPLIT_MIN_BYTES)
        return finish_job(queue,
                          cpu_run_job(queue, fn, args, grid,
                                      div_up(size_bytes, SPLIT_BYTES), NULL));
    queue->worker.in_kernel = 1;
    fn(args, grid, 0, div_up(size_bytes, SPLIT_BYTES));
    queue->worker.in_kernel = 0;
    return true;
}

static bool
run_exec(struct cpu_queue *queue, const struct hcq_exec *exec)
{
    struct cpu_program *prog =
        HCQ_CONTAINER(exec->prog, struct cpu_program, base);
    uint64_t n_groups = (uint64_t)exec->grid[0] * exec->grid[1] * exec->grid[2];
    enum cpu_leave left;

    assert(prog->base.pub.dev == queue->feed.base.dev);
    assert(prog->entry && queue->job->queue == queue);
    atomic_store_explicit(&queue->feed.now.prog, &prog->base,
                          memory_order_release);
    if (queue->now == &queue->here)
        queue->here_steps += (uint32_t)n_groups * prog->base.max_steps;
    left =
        cpu_run_job(queue, prog->entry, exec->args, exec->grid, n_groups, prog);
    if (left == CPU_LEAVE_FAULT)
        lose_device(queue, &queue->job->trap);
    atomic_store_explicit(&queue->feed.now.prog, NULL, memory_order_release);
    return left == CPU_LEAVE_DONE;
}

static bool
run_cpu_packet(struct hcq_feed *feed, const struct hcq_packet *packet)
{
    struct cpu_queue *queue = cpu_queue(&feed->base);
    const uint64_t *word = packet->word;
    /* not every packet has a word */
    uint64_t first = packet->head.n_dw > HCQ_HEAD_DW ? word[0] : 0;
    void *at = (void *)(uintptr_t)first;

    switch (packet->head.op) {
    case HCQ_OP_WAIT:
        return run_wait(queue, at, word[1]);
    case HCQ_OP_POLL:
        return run_poll(queue, at, (uint32_t)word[1], (uint32_t)word[2]);
    case HCQ_OP_SIGNAL:
        run_signal(queue, at, word[1]);
        return true;
    case HCQ_OP_TIMESTAMP:
        set_u64(queue, &((struct hcq_slot *)at)->timestamp, time_now_ns());
        return true;
    case HCQ_OP_BARRIER:
        atomic_thread_fence(memory_order_seq_cst);
        return true;
    case HCQ_OP_EXEC:
        return run_exec(queue, hcq_exec_of(packet));
    case HCQ_OP_COPY:
        return run_transfer(queue, copy_groups, word);
    case HCQ_OP_FILL:
        return run_transfer(queue, fill_groups, word);
    case HCQ_OP_WRITE32:
        set_u32(queue, at, (uint32_t)word[1]);
        return true;
    case HCQ_OP_WRITE64:
        set_u64(queue, at, word[1]);
        return true;
    default:
        return hcq_feed_lose_stream(feed, packet);
    }
}

/* ---- on the submitter's thread ------------------------------------------- */

/* What is done before the queue's thread would have begun. A bad address there
 * is met by kernels alone, which return. */
static bool
is_short(struct hcq_feed *feed, const struct hcq_packet *packet)
{
    const struct cpu_queue *queue = cpu_queue(&feed->base);
    const struct hcq_exec *exec;
    uint64_t n_groups;

    assert(queue->here_steps <= HERE_STEPS);
    if (packet->head.op == HCQ_OP_SIGNAL)
        return packet->word[0] == feed->base.timeline->va;
    if (packet->head.op != HCQ_OP_EXEC)
        return false;
    exec = hcq_exec_of(packet);
    if (!exec->prog->max_steps)
        return false;
    n_groups = (uint64_t)exec->grid[0] * exec->grid[1] * exec->grid[2];
    return n_groups <= (HERE_STEPS - queue->here_steps) / exec->prog->max_steps;
}

static void
begin_here(struct hcq_feed *feed)
{
    struct cpu_queue *queue = cpu_queue(&feed->base);

    assert(queue->now == &queue->worker && queue->here_steps == 0);
    queue->now = &queue->here;
    queue->here_floats = thread_default_floats();
    cpu_fault_bind(&queue->here);
}

static void
end_worker(struct hcq_feed *feed)
{
    struct cpu_queue *queue = cpu_queue(&feed->base);

    assert(queue->now == &queue->here);
    cpu_fault_unbind(&queue->here);
    thread_set_floats(queue->here_floats);
    queue->now = &queue->worker;
    queue->here_steps = 0;
    atomic_store_explicit(&feed->now.op, 0, memory_order_relaxed);
}

/* ---- stopping and reports ------------------------------------------------ */

/* A kernel is ended by taking its program's code away: all its threads fault
 * out of it. Several queues may do so, of one program. */
static void
revoke_code(struct hcq_feed *feed, const struct hcq_program_base *base, bool on)
{
    struct cpu_program *prog = HCQ_CONTAINER(base, struct cpu_program, base);
    struct hcq_device *dev = feed->base.dev;

    pthread_mutex_lock(&dev->lock);
    assert(on || prog->n_revoked > 0);
    if (on && prog->n_revoked++ == 0)
        cpu_object_set_executable(&prog->object, false);
    else if (!on && --prog->n_revoked == 0)
        cpu_object_set_executable(&prog->object, true);
    pthread_mutex_unlock(&dev->lock);
}

static void
tell_progress(struct hcq_feed *feed, char *text, size_t size_bytes)
{
    const struct cpu_job *job = cpu_queue(&feed->base)->job;
    unsigned long long total = atomic_load(&job->total);
    unsigned long long next = atomic_load(&job->next);

    snprintf(text, size_bytes, "%llu of %llu work-groups started",
             next < total ? next : total, total);
}

static const struct hcq_feed_ops feed_ops = {
    .run = run_cpu_packet,
    .is_short = is_short,
    .knows_steps = true,
    .begin_here = begin_here,
    .end_here = end_worker,
    .evict = revoke_code,
    .progress = tell_progress,
    .stop_limit_ns = STOP_LIMIT_NS,
    .stop_note = "",
};

/* ---- creation ------------------------------------------------------------ */

static bool
take_cpu_slot(struct cpu_device *dev, struct cpu_queue *queue)
{
    bool found;

    pthread_mutex_lock(&dev->base.lock);
    found = dev->slots_used != UINT64_MAX;
    if (found) {
        queue->slot = (unsigned)__builtin_ctzll(~dev->slots_used);
        dev->slots_used |= 1ull << queue->slot;
        queue->job = &dev->jobs[queue->slot];
        queue->job->queue = queue;
    }
    pthread_mutex_unlock(&dev->base.lock);
    return found;
}

static void
give_cpu_slot(struct cpu_device *dev, const struct cpu_queue *queue)
{
    pthread_mutex_lock(&dev->base.lock);
    assert(dev->slots_used >> queue->slot & 1);
    dev->slots_used &= ~(1ull << queue->slot);
    pthread_mutex_unlock(&dev->base.lock);
}

static void *
consumer_body(void *arg)
{
    struct cpu_queue *const queue = arg;
    struct cpu_worker *const worker = &queue->worker;
    sigjmp_buf top;

    cpu_worker_enter(worker, "bell-queue");
    /* A command of our own that met a bad address comes back here; the
     * device is then lost and the queue parks. */
    if (sigsetjmp(top, 0) != 0) {
        cpu_worker_landed(worker);
        lose_device(queue, &worker->trap);
    }
    worker->leave = &top;
    hcq_feed_run(&queue->feed);
    cpu_worker_leave(worker);
    return NULL;
}

bell_status
cpu_queue_create(struct hcq_device *base_dev, const struct hcq_queue_desc *desc,
                 struct hcq_queue **out_queue)
{
    struct cpu_device *dev = cpu_device(base_dev);
    struct cpu_queue *queue = host_aligned(64, sizeof(*queue));
    bell_status status;

    if (!queue)
        return bell_fail(BELL_E_NO_MEMORY, "%s: out of memory for a queue",
                         base_dev->info.name);
    memset(queue, 0, sizeof(*queue));
    if (!take_cpu_slot(dev, queue)) {
        status = bell_fail(BELL_E_UNSUPPORTED, "%s: %d queues are the limit",
                           base_dev->info.name, CPU_QUEUES_MAX);
        goto fail_queue;
    }
    status = hcq_feed_init(&queue->feed, base_dev, desc, &feed_ops);
    if (status != BELL_OK)
        goto fail_slot;
    queue->feed.runs_here = true;
    queue->now = &queue->worker;
    queue->here.dev = dev;
    status = cpu_fault_take_place(&queue->here);
    if (status != BELL_OK)
        goto fail_feed;
    status = cpu_worker_init(&queue->worker, dev, consumer_body, queue);
    if (status != BELL_OK)
        goto fail_place;
    *out_queue = &queue->feed.base;
    return BELL_OK;

fail_place:
    cpu_fault_leave_place(&queue->here);
fail_feed:
    hcq_feed_fini(&queue->feed);
fail_slot:
    give_cpu_slot(dev, queue);
fail_queue:
    host_free(queue);
    return status;
}

void
cpu_queue_destroy(struct hcq_queue *base)
{
    struct cpu_queue *queue = cpu_queue(base);
    struct cpu_device *dev = cpu_device(base->dev);

    (void)hcq_feed_quit(&queue->feed);
    cpu_worker_fini(&queue->worker);
    cpu_fault_leave_place(&queue->here);
    hcq_feed_fini(&queue->feed);
    give_cpu_slot(dev, queue);
    host_free(queue);
}
