/* A queue of the CPU: a ring of packets (hcq_packet.h), written here, consumed
 * by cpu_consumer.c.
 *
 * The host writes whole submissions and then advances `write`. `read` and
 * `write` count words for ever; an offset is the count modulo the ring's
 * size.
 */
#include "hcq/cpu/cpu_internal.h"

#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/bits.h"
#include "base/thread.h"

#define STOP_GRACE_NS 2000000ull     /* before a kernel is evicted */
#define STOP_LIMIT_NS 10000000000ull /* a stop that fails */

/* ---- the host's side ------------------------------------------------------------------ */

static void
ring_doorbell(struct cpu_queue *queue)
{
    atomic_fetch_add(&queue->doorbell, 1);
    hcq_futex_wake(&queue->doorbell, 1);
}

static bell_status
wait_for_words(struct cpu_queue *queue, uint64_t n_words)
{
    uint64_t write = atomic_load_explicit(&queue->write, memory_order_relaxed);
    uint64_t start_ns = time_now_ns();
    uint64_t waited_ns;
    char what[160];

    for (;;) {
        queue->read_seen =
            atomic_load_explicit(&queue->read, memory_order_acquire);
        if (queue->n_ring_words - (write - queue->read_seen) >= n_words)
            return BELL_OK;
        if (hcq_device_is_lost(queue->base.dev))
            return hcq_lost_report(queue->base.dev);
        waited_ns = time_now_ns() - start_ns;
        if (waited_ns >= queue->base.submit_timeout_ns)
            break;
        if (waited_ns > queue->base.dev->spin_ns)
            hcq_nap(50000);
        else
            thread_relax();
    }
    snprintf(what, sizeof(what),
             "%s: no room for %llu words in the ring of %llu after %.1f ms",
             queue->base.name, (unsigned long long)n_words,
             (unsigned long long)queue->n_ring_words, (double)waited_ns / 1e6);
    return hcq_timeout_report(queue->base.dev, what);
}

/* Copies packets to the ring's offset `write`, over its end. */
static void
put_ring_words(struct cpu_queue *queue, uint64_t write, const void *packets,
               uint64_t n_words)
{
    const uint64_t *words = packets;
    uint64_t at = write & (queue->n_ring_words - 1);
    uint64_t to_end = queue->n_ring_words - at;
    uint64_t n = n_words < to_end ? n_words : to_end;

    memcpy(queue->ring + at, words, (size_t)n * 8);
    memcpy(queue->ring, words + n, (size_t)(n_words - n) * 8);
}

/* Submits packets followed by the timeline's signal. */
static bell_status
submit_words(struct cpu_queue *queue, const void *packets, uint64_t n_words,
             uint64_t value)
{
    const struct hcq_packet finish = {
        .head = {.op = HCQ_OP_SIGNAL, .n_dw = 2 * CPU_SIGNAL_WORDS},
        .word = {queue->base.timeline->va, value},
    };
    uint64_t write = atomic_load_explicit(&queue->write, memory_order_relaxed);
    uint32_t sleeping;

    if (__builtin_expect(queue->n_ring_words - (write - queue->read_seen) <
                             n_words + CPU_SIGNAL_WORDS,
                         0))
        BELL_TRY(wait_for_words(queue, n_words + CPU_SIGNAL_WORDS));
    put_ring_words(queue, write, packets, n_words);
    put_ring_words(queue, write + n_words, &finish, CPU_SIGNAL_WORDS);
    write += n_words + CPU_SIGNAL_WORDS;
    /* Either the consumer sees the words before it sleeps, or we see that it
     * sleeps. That takes a full fence between our two accesses, and between
     * its two; where the kernel can fence us from over there, the launch path
     * is spared ours, which would wait for the ring's cache lines. */
    if (cpu_device(queue->base.dev)->has_membarrier) {
        atomic_store_explicit(&queue->write, write, memory_order_release);
        atomic_signal_fence(memory_order_seq_cst);
        sleeping = atomic_load_explicit(&queue->sleeping, memory_order_relaxed);
    } else {
        atomic_store(&queue->write, write);
        sleeping = atomic_load(&queue->sleeping);
    }
    if (sleeping)
        ring_doorbell(queue);
    return BELL_OK;
}

bell_status
cpu_queue_submit(struct hcq_queue *base, uint64_t value)
{
    const struct hcq_cs *cs = &base->cs;

    BELL_TRY(submit_words(cpu_queue(base), cs->words, cs->n_dw / 2, value));
    return BELL_OK;
}

bell_status
cpu_stream_submit(struct hcq_stream *stream, uint64_t value)
{
    const struct hcq_packet call = {
        .head = {.op = HCQ_OP_CALL, .n_dw = HCQ_HEAD_DW + 4},
        .word = {(uintptr_t)stream->cs.words, stream->cs.n_dw / 2},
    };

    BELL_TRY(submit_words(cpu_queue(stream->queue), &call, call.head.n_dw / 2,
                          value));
    return BELL_OK;
}

/* ---- stopping ---------------------------------------------------------------------------- */

/* Takes a program's code away, or gives it back; several may do so. */
static void
revoke_code(struct hcq_device *dev, struct cpu_program *prog, bool on)
{
    pthread_mutex_lock(&dev->lock);
    if (on && prog->n_revoked++ == 0)
        cpu_object_set_executable(&prog->object, false);
    else if (!on && --prog->n_revoked == 0)
        cpu_object_set_executable(&prog->object, true);
    pthread_mutex_unlock(&dev->lock);
}

static bool
is_parked(struct cpu_queue *queue)
{
    bool parked;

    pthread_mutex_lock(&queue->lock);
    parked = queue->parked;
    pthread_mutex_unlock(&queue->lock);
    return parked;
}

/* Makes the consumer park. A kernel that goes on is evicted: its code loses
 * the right to execute, so all its threads fault out of it. */
static bool
stop_queue(struct cpu_queue *queue)
{
    struct hcq_device *dev = queue->base.dev;
    const struct hcq_program_base *running;
    struct cpu_program *evicted = NULL;
    uint64_t start_ns = time_now_ns();
    bool parked;

    atomic_store(&queue->stop, 1);
    ring_doorbell(queue);
    while (!(parked = is_parked(queue)) &&
           time_now_ns() - start_ns < STOP_LIMIT_NS) {
        running = atomic_load_explicit(&queue->now.prog, memory_order_acquire);
        if (!evicted && running && time_now_ns() - start_ns > STOP_GRACE_NS) {
            evicted = HCQ_CONTAINER(running, struct cpu_program, base);
            revoke_code(dev, evicted, true);
        }
        hcq_nap(50000);
    }
    if (evicted)
        revoke_code(dev, evicted, false);
    return parked;
}

/* Drops what is queued; the consumer is parked. */
static void
reset_queue(struct cpu_queue *queue)
{
    atomic_store(&queue->read, atomic_load(&queue->write));
    atomic_store(&queue->now.op, 0);
    atomic_store(&queue->now.prog, NULL);
}

bell_status
cpu_stop(struct hcq_device *dev)
{
    struct hcq_link *link;

    for (link = dev->queues.next; link != &dev->queues; link = link->next) {
        struct cpu_queue *queue =
            cpu_queue(HCQ_CONTAINER(link, struct hcq_queue, link));

        if (!stop_queue(queue))
            return bell_fail(BELL_E_DEVICE_LOST, "%s: %s could not be stopped",
                             dev->info.name, queue->base.name);
        reset_queue(queue);
    }
    return BELL_OK;
}

void
cpu_resume(struct hcq_device *dev)
{
    struct hcq_link *link;

    for (link = dev->queues.next; link != &dev->queues; link = link->next) {
        struct cpu_queue *queue =
            cpu_queue(HCQ_CONTAINER(link, struct hcq_queue, link));

        pthread_mutex_lock(&queue->lock);
        atomic_store(&queue->stop, 0);
        pthread_cond_broadcast(&queue->cond);
        pthread_mutex_unlock(&queue->lock);
    }
}

/* ---- reports -------------------------------------------------------------------------------- */

/* Whether the program still exists; the device's lock is held. */
static bool
is_loaded_program(struct hcq_device *dev, const struct hcq_program_base *prog)
{
    struct hcq_link *link;

    for (link = dev->programs.next; link != &dev->programs; link = link->next) {
        if (HCQ_CONTAINER(link, struct hcq_program_base, link) == prog)
            return true;
    }
    return false;
}

static size_t
describe_queue(struct cpu_queue *queue, const char *gap, char *text,
               size_t size_bytes)
{
    const struct hcq_program_base *prog = atomic_load(&queue->now.prog);
    unsigned op = atomic_load(&queue->now.op);
    unsigned long long queued =
        atomic_load(&queue->write) - atomic_load(&queue->read);
    const struct hcq_packet packet = {
        .head = {.op = (uint8_t)op},
        .word = {atomic_load(&queue->now.a), atomic_load(&queue->now.b),
                 atomic_load(&queue->now.c)},
    };
    unsigned long long total = atomic_load(&queue->job->total);
    unsigned long long next = atomic_load(&queue->job->next);
    char what[192];
    int used;

    if (op == HCQ_OP_WAIT || op == HCQ_OP_POLL)
        hcq_packet_text(&packet, "", what, sizeof(what));
    else if (prog && is_loaded_program(queue->base.dev, prog))
        snprintf(what, sizeof(what),
                 "exec '%s', %llu of %llu work-groups started", prog->pub.name,
                 next < total ? next : total, total);
    else
        snprintf(what, sizeof(what), "%s", op ? hcq_op_name(op) : "starting");
    used = snprintf(text, size_bytes, "%s%s: %s, %llu words queued", gap,
                    queue->base.name, what, queued);
    return used < 0 ? 0 : (size_t)used;
}

void
cpu_describe(struct hcq_device *dev, char *text, size_t size_bytes)
{
    struct hcq_link *link;
    size_t used = 0;

    text[0] = '\0';
    pthread_mutex_lock(&dev->lock);
    for (link = dev->queues.next; link != &dev->queues && used < size_bytes;
         link = link->next) {
        struct cpu_queue *queue =
            cpu_queue(HCQ_CONTAINER(link, struct hcq_queue, link));

        if (atomic_load(&queue->read) == atomic_load(&queue->write))
            continue;
        used += describe_queue(queue, used ? "; " : "", text + used,
                               size_bytes - used);
    }
    pthread_mutex_unlock(&dev->lock);
}

/* ---- creation ---------------------------------------------------------------------------------- */

static bool
take_slot(struct cpu_device *dev, struct cpu_queue *queue)
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
give_slot(struct cpu_device *dev, const struct cpu_queue *queue)
{
    pthread_mutex_lock(&dev->base.lock);
    dev->slots_used &= ~(1ull << queue->slot);
    pthread_mutex_unlock(&dev->base.lock);
}

bell_status
cpu_queue_create(struct hcq_device *base_dev, const struct hcq_queue_desc *desc,
                 struct hcq_queue **out_queue)
{
    struct cpu_device *dev = cpu_device(base_dev);
    uint32_t ring_bytes =
        desc->ring_size_bytes ? desc->ring_size_bytes : CPU_RING_DEFAULT;
    struct cpu_queue *queue;
    bell_status status;

    if (!is_pow2(ring_bytes) || ring_bytes < CPU_RING_MIN ||
        ring_bytes > CPU_RING_MAX)
        return bell_fail(BELL_BAD_VALUE,
                         "%s: a ring of %u bytes; powers of two from %u to "
                         "%u are possible",
                         base_dev->info.name, ring_bytes, CPU_RING_MIN,
                         CPU_RING_MAX);
    queue = host_aligned(64, sizeof(*queue));
    if (!queue)
        return bell_fail(BELL_E_NO_MEMORY, "%s: no memory for a queue",
                         base_dev->info.name);
    memset(queue, 0, sizeof(*queue));
    queue->n_ring_words = ring_bytes / 8;
    queue->ring = host_aligned(64, ring_bytes);
    if (!queue->ring) {
        status =
            bell_fail(BELL_E_NO_MEMORY, "%s: no memory for a ring of %u bytes",
                      base_dev->info.name, ring_bytes);
        goto fail_queue;
    }
    if (!take_slot(dev, queue)) {
        status = bell_fail(BELL_E_UNSUPPORTED, "%s: %d queues are the limit",
                           base_dev->info.name, CPU_QUEUES_MAX);
        goto fail_ring;
    }
    queue->base.sync_va_end = queue->base.copy_va_end = UINT64_MAX;
    status = hcq_queue_init(&queue->base, base_dev, desc,
                            ring_bytes - CPU_SIGNAL_WORDS * 8);
    if (status != BELL_OK)
        goto fail_slot;
    pthread_mutex_init(&queue->lock, NULL);
    pthread_cond_init(&queue->cond, NULL);
    status = cpu_worker_init(&queue->worker, dev, cpu_consumer_body, queue);
    if (status != BELL_OK)
        goto fail_base;
    *out_queue = &queue->base;
    return BELL_OK;

fail_base:
    pthread_cond_destroy(&queue->cond);
    pthread_mutex_destroy(&queue->lock);
    hcq_queue_fini(&queue->base);
fail_slot:
    give_slot(dev, queue);
fail_ring:
    host_free(queue->ring);
fail_queue:
    host_free(queue);
    return status;
}

void
cpu_queue_destroy(struct hcq_queue *base)
{
    struct cpu_queue *queue = cpu_queue(base);

    stop_queue(queue);
    pthread_mutex_lock(&queue->lock);
    queue->quit = true;
    pthread_cond_broadcast(&queue->cond);
    pthread_mutex_unlock(&queue->lock);
    cpu_worker_fini(&queue->worker);
    pthread_cond_destroy(&queue->cond);
    pthread_mutex_destroy(&queue->lock);
    hcq_queue_fini(base);
    give_slot(cpu_device(base->dev), queue);
    host_free(queue->ring);
    host_free(queue);
}
