/* The thread that consumes a queue's ring: commands, faults, parking.
 *
 * It advances `read` after each command, so that words it works on cannot be
 * overwritten.
 */
#include "hcq/cpu/cpu_internal.h"

#include <stdio.h>
#include <string.h>

#include "base/bits.h"
#include "base/thread.h"

#define WAIT_SLICE_NS   5000000ull   /* sleep of a wait command */
#define SPLIT_MIN_BYTES (2u << 20)   /* copies that helpers share */
#define SPLIT_BYTES     (256u << 10) /* what each takes at a time */

static bool
must_stop(struct cpu_queue *queue)
{
    return atomic_load_explicit(&queue->stop, memory_order_relaxed) ||
           atomic_load_explicit(&queue->base.dev->lost, memory_order_relaxed);
}

/* ---- faults ------------------------------------------------------------------ */

static enum hcq_fault_kind
fault_kind(int sig)
{
    switch (sig) {
    case SIGFPE:
        return HCQ_FAULT_ARITHMETIC;
    case SIGILL:
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
        atomic_load_explicit(&queue->now.prog, memory_order_relaxed);
    unsigned op = atomic_load_explicit(&queue->now.op, memory_order_relaxed);
    struct hcq_fault fault = {
        .kind = fault_kind(trap->signal),
        .va = trap->va,
        .first_group = prog ? trap->first : 0,
        .last_group = prog ? trap->last : 0,
    };
    char groups[64] = "";

    snprintf(fault.program, sizeof(fault.program), "%s",
             prog ? prog->pub.name : hcq_op_name(op));
    snprintf(fault.queue, sizeof(fault.queue), "%s", queue->base.name);
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
    hcq_device_set_lost(&cpu_device(queue->base.dev)->base, &fault);
}

static bool
lose_stream(struct cpu_queue *queue, const struct hcq_packet *packet)
{
    struct hcq_fault fault = {.kind = HCQ_FAULT_STREAM};

    memcpy(&fault.va, &packet->head, sizeof(fault.va));
    snprintf(fault.queue, sizeof(fault.queue), "%s", queue->base.name);
    snprintf(fault.text, sizeof(fault.text),
             "%s: a command with the header 0x%llx cannot be decoded",
             queue->base.name, (unsigned long long)fault.va);
    hcq_device_set_lost(queue->base.dev, &fault);
    return false;
}

/* ---- commands ------------------------------------------------------------------ *
 * Each returns whether the queue goes on. Device memory is touched only with
 * in_kernel set, so that a bad address is a fault and not a crash. */

static bool
run_wait(struct cpu_queue *queue, struct hcq_slot *slot, uint64_t value)
{
    struct cpu_worker *worker = &queue->worker;
    uint64_t start_ns = 0, now_ns, seen;

    for (;;) {
        worker->in_kernel = 1;
        seen = __atomic_load_n(&slot->value, __ATOMIC_ACQUIRE);
        worker->in_kernel = 0;
        if (seen >= value)
            return true;
        if (must_stop(queue))
            return false;
        now_ns = time_now_ns();
        if (start_ns == 0)
            start_ns = now_ns;
        if (now_ns - start_ns < queue->base.dev->spin_ns) {
            hcq_spin(now_ns - start_ns);
        } else {
            hcq_slot_sleep(slot, seen, WAIT_SLICE_NS);
        }
    }
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
        if (must_stop(queue))
            return false;
        now_ns = time_now_ns();
        if (start_ns == 0)
            start_ns = now_ns;
        if (now_ns - start_ns < queue->base.dev->spin_ns) {
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
    queue->worker.in_kernel = 1;
    __atomic_store_n(&slot->value, value, __ATOMIC_SEQ_CST);
    queue->worker.in_kernel = 0;
    hcq_slot_wake(slot);
}

/* Bytes of a split copy or fill that work-group `group` does. */
static uint64_t
split_bytes(uint64_t group, uint64_t size_bytes)
{
    uint64_t left = size_bytes - group * SPLIT_BYTES;

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

    atomic_store_explicit(&queue->now.prog, &prog->base, memory_order_release);
    left =
        cpu_run_job(queue, prog->entry, exec->args, exec->grid, n_groups, prog);
    if (left == CPU_LEAVE_FAULT)
        lose_device(queue, &queue->job->trap);
    atomic_store_explicit(&queue->now.prog, NULL, memory_order_release);
    return left == CPU_LEAVE_DONE;
}

static bool run_packets(struct cpu_queue *queue, const uint64_t *words,
                        uint64_t n_words);

static bool
run_packet(struct cpu_queue *queue, const struct hcq_packet *packet)
{
    struct cpu_now *now = &queue->now;
    unsigned op = packet->head.op;
    const uint64_t *word = packet->word;
    /* not every packet has a word */
    uint64_t first = packet->head.n_dw > HCQ_HEAD_DW ? word[0] : 0;
    void *at = (void *)(uintptr_t)first;

    atomic_store_explicit(&now->op, op, memory_order_relaxed);
    switch (op) {
    case HCQ_OP_WAIT:
    case HCQ_OP_POLL:
        atomic_store_explicit(&now->a, word[0], memory_order_relaxed);
        atomic_store_explicit(&now->b, word[1], memory_order_relaxed);
        if (op == HCQ_OP_WAIT)
            return run_wait(queue, at, word[1]);
        atomic_store_explicit(&now->c, word[2], memory_order_relaxed);
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
    case HCQ_OP_CALL:
        return run_packets(queue, at, word[1]);
    default:
        return lose_stream(queue, packet);
    }
}

/* A bound stream's packets. */
static bool
run_packets(struct cpu_queue *queue, const uint64_t *words, uint64_t n_words)
{
    uint64_t at = 0;

    while (at < n_words) {
        const struct hcq_packet *packet = (const void *)(words + at);

        if (!hcq_packet_ok(packet, 2 * (n_words - at)))
            return lose_stream(queue, packet);
        if (must_stop(queue) || !run_packet(queue, packet))
            return false;
        at += packet->head.n_dw / 2;
    }
    return true;
}

/* ---- the consumer ------------------------------------------------------------------ */

/* The packet at `read`, in one piece. */
static const struct hcq_packet *
get_packet(struct cpu_queue *queue, uint64_t read)
{
    uint64_t at = read & (queue->n_ring_words - 1);
    uint64_t to_end = queue->n_ring_words - at;
    const struct hcq_packet *packet = (const void *)(queue->ring + at);
    uint32_t n = packet->head.n_dw / 2;

    if (n <= to_end || n > CPU_PACKET_WORDS)
        return packet;
    memcpy(queue->scratch, queue->ring + at, (size_t)to_end * 8);
    memcpy(queue->scratch + to_end, queue->ring, (size_t)(n - to_end) * 8);
    return (const void *)queue->scratch;
}

/* Runs what is in the ring; false when the queue has to park. */
static bool
drain(struct cpu_queue *queue)
{
    uint64_t read = atomic_load_explicit(&queue->read, memory_order_relaxed);
    uint64_t write = atomic_load_explicit(&queue->write, memory_order_acquire);

    while (read != write) {
        const struct hcq_packet *packet;

        if (must_stop(queue))
            return false;
        packet = get_packet(queue, read);
        if (packet->head.n_dw > 2 * CPU_PACKET_WORDS ||
            !hcq_packet_ok(packet, 2 * (write - read)))
            return lose_stream(queue, packet);
        if (!run_packet(queue, packet))
            return false;
        read += packet->head.n_dw / 2;
        atomic_store_explicit(&queue->read, read, memory_order_release);
        if (read == write)
            write = atomic_load_explicit(&queue->write, memory_order_acquire);
    }
    atomic_store_explicit(&queue->now.op, 0, memory_order_relaxed);
    return !must_stop(queue);
}

/* Spins, then sleeps, until there is something to do. */
static void
await_work(struct cpu_queue *queue)
{
    uint64_t read = atomic_load_explicit(&queue->read, memory_order_relaxed);
    uint64_t start_ns = time_now_ns(), spun_ns = 0;
    uint32_t bell;

    while (spun_ns < queue->base.dev->spin_ns) {
        if (atomic_load_explicit(&queue->write, memory_order_acquire) != read ||
            must_stop(queue))
            return;
        hcq_spin(spun_ns);
        spun_ns = time_now_ns() - start_ns;
    }
    bell = atomic_load(&queue->doorbell);
    atomic_store(&queue->sleeping, 1);
    if (cpu_device(queue->base.dev)->has_membarrier)
        cpu_fence_all(); /* for submit_words */
    if (atomic_load(&queue->write) == read && !must_stop(queue))
        hcq_futex_wait(&queue->doorbell, bell, UINT64_MAX);
    atomic_store(&queue->sleeping, 0);
}

/* Stays here while the queue is stopped or the device lost; false: quit. */
static bool
park(struct cpu_queue *queue)
{
    bool quit;

    pthread_mutex_lock(&queue->lock);
    queue->parked = true;
    pthread_cond_broadcast(&queue->cond);
    while (must_stop(queue) && !queue->quit)
        pthread_cond_wait(&queue->cond, &queue->lock);
    queue->parked = false;
    quit = queue->quit;
    pthread_mutex_unlock(&queue->lock);
    return !quit;
}

void *
cpu_consumer_body(void *arg)
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
    for (;;) {
        if (drain(queue))
            await_work(queue);
        else if (!park(queue))
            break;
    }
    cpu_worker_leave(worker);
    return NULL;
}
