/* A queue: a ring of packets (hcq_packet.h), written here, and run by a thread
 * (ocl_feed.c).
 *
 * The host writes whole submissions and then advances `write`. `read` and
 * `write` count words for ever; an offset is the count modulo the ring's size.
 */
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/bits.h"
#include "base/thread.h"
#include "hcq/cl/ocl.h"

#define SIGNAL_WORDS  3u /* the timeline's, behind each submission */
#define RING_DEFAULT  (256u << 10)
#define STOP_LIMIT_NS 2000000000ull
#define THREAD_STACK  (2u << 20) /* compilers may run on it */

/* ---- the host's side ---- */

static void
ring_doorbell(struct ocl_queue *queue)
{
    atomic_fetch_add(&queue->doorbell, 1);
    hcq_futex_wake(&queue->doorbell, 1);
}

static bell_status
wait_for_words(struct ocl_queue *queue, uint64_t n_words)
{
    uint64_t write = atomic_load_explicit(&queue->write, memory_order_relaxed);
    uint64_t start_ns = time_now_ns(), waited_ns;
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
        hcq_nap(20000);
    }
    snprintf(what, sizeof(what),
             "%s: no room for %llu words in the ring of %llu after %.1f ms",
             queue->base.name, (unsigned long long)n_words,
             (unsigned long long)queue->n_ring_words, (double)waited_ns / 1e6);
    return hcq_timeout_report(queue->base.dev, what);
}

/* Copies packets to the ring's offset `write`, over its end. */
static void
put_ring_words(struct ocl_queue *queue, uint64_t write, const void *packets,
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
submit_words(struct ocl_queue *queue, const void *packets, uint64_t n_words,
             uint64_t value)
{
    const struct hcq_packet finish = {
        .head = {.op = HCQ_OP_SIGNAL, .n_dw = 2 * SIGNAL_WORDS},
        .word = {queue->base.timeline->va, value},
    };
    uint64_t write = atomic_load_explicit(&queue->write, memory_order_relaxed);

    if (queue->n_ring_words - (write - queue->read_seen) <
        n_words + SIGNAL_WORDS)
        BELL_TRY(wait_for_words(queue, n_words + SIGNAL_WORDS));
    put_ring_words(queue, write, packets, n_words);
    put_ring_words(queue, write + n_words, &finish, SIGNAL_WORDS);
    /* Either the thread sees the words before it sleeps, or we see that it
     * sleeps: both sides store, then load what the other one stores. */
    atomic_store(&queue->write, write + n_words + SIGNAL_WORDS);
    if (atomic_load(&queue->sleeping))
        ring_doorbell(queue);
    return BELL_OK;
}

bell_status
ocl_queue_submit(struct hcq_queue *base, uint64_t value)
{
    return submit_words(ocl_queue(base), base->cs.words, base->cs.n_dw / 2,
                        value);
}

bell_status
ocl_stream_submit(struct hcq_stream *stream, uint64_t value)
{
    const struct hcq_packet call = {
        .head = {.op = HCQ_OP_CALL, .n_dw = HCQ_HEAD_DW + 4},
        .word = {(uintptr_t)stream->cs.words, stream->cs.n_dw / 2},
    };

    return submit_words(ocl_queue(stream->queue), &call, call.head.n_dw / 2,
                        value);
}

/* ---- stopping ---- */

static bool
is_parked(struct ocl_queue *queue)
{
    bool parked;

    pthread_mutex_lock(&queue->lock);
    parked = queue->parked;
    pthread_mutex_unlock(&queue->lock);
    return parked;
}

/* Makes the thread park, which it does when OpenCL has done what it was given:
 * nothing can end a kernel. */
static bool
stop_queue(struct ocl_queue *queue)
{
    uint64_t start_ns = time_now_ns();
    bool parked;

    atomic_store(&queue->stop, 1);
    ring_doorbell(queue);
    while (!(parked = is_parked(queue)) &&
           time_now_ns() - start_ns < STOP_LIMIT_NS)
        hcq_nap(50000);
    return parked;
}

bell_status
ocl_stop(struct hcq_device *dev)
{
    struct hcq_queue *base = NULL;

    while ((base = hcq_next_queue(dev, base)) != NULL) {
        struct ocl_queue *queue = ocl_queue(base);

        if (!stop_queue(queue))
            return bell_fail(BELL_E_DEVICE_LOST,
                             "%s: %s could not be stopped: OpenCL cannot end "
                             "a kernel that runs",
                             dev->info.name, base->name);
        atomic_store(&queue->read, atomic_load(&queue->write));
    }
    return BELL_OK;
}

void
ocl_resume(struct hcq_device *dev)
{
    struct hcq_queue *base = NULL;

    while ((base = hcq_next_queue(dev, base)) != NULL) {
        struct ocl_queue *queue = ocl_queue(base);

        pthread_mutex_lock(&queue->lock);
        atomic_store(&queue->stop, 0);
        pthread_cond_broadcast(&queue->cond);
        pthread_mutex_unlock(&queue->lock);
    }
}

/* ---- reports ---- */

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
describe_queue(struct ocl_queue *queue, const char *gap, char *text,
               size_t size_bytes)
{
    const struct hcq_program_base *prog = atomic_load(&queue->now_prog);
    unsigned op = atomic_load(&queue->now_op);
    unsigned long long queued =
        atomic_load(&queue->write) - atomic_load(&queue->read);
    const struct hcq_packet packet = {
        .head = {.op = (uint8_t)op},
        .word = {atomic_load(&queue->now_a), atomic_load(&queue->now_b),
                 atomic_load(&queue->now_c)},
    };
    char what[192];
    int used;

    if (op == HCQ_OP_WAIT || op == HCQ_OP_POLL)
        hcq_packet_text(&packet, "", what, sizeof(what));
    else if (prog && is_loaded_program(queue->base.dev, prog))
        snprintf(what, sizeof(what), "exec '%s', or what OpenCL has before it",
                 prog->pub.name);
    else
        snprintf(what, sizeof(what), "%s", op ? hcq_op_name(op) : "starting");
    used = snprintf(text, size_bytes, "%s%s: %s, %llu words queued", gap,
                    queue->base.name, what, queued);
    return used < 0 ? 0 : (size_t)used;
}

void
ocl_describe(struct hcq_device *dev, char *text, size_t size_bytes)
{
    struct hcq_queue *base = NULL;
    size_t used = 0;

    text[0] = '\0';
    pthread_mutex_lock(&dev->lock);
    while (used < size_bytes && (base = hcq_next_queue(dev, base)) != NULL) {
        struct ocl_queue *queue = ocl_queue(base);

        if (__atomic_load_n(&base->timeline->host[0], __ATOMIC_RELAXED) >=
            base->n_submitted)
            continue;
        used += describe_queue(queue, used ? "; " : "", text + used,
                               size_bytes - used);
    }
    pthread_mutex_unlock(&dev->lock);
}

/* ---- creation ---- */

static bool
take_place(struct ocl_device *dev, unsigned *out_place)
{
    bool found;

    pthread_mutex_lock(&dev->base.lock);
    found = dev->queues_used != UINT32_MAX;
    if (found) {
        *out_place = (unsigned)__builtin_ctz(~dev->queues_used);
        dev->queues_used |= 1u << *out_place;
    }
    pthread_mutex_unlock(&dev->base.lock);
    return found;
}

static void
give_place(struct ocl_device *dev, unsigned place)
{
    pthread_mutex_lock(&dev->base.lock);
    dev->queues_used &= ~(1u << place);
    pthread_mutex_unlock(&dev->base.lock);
}

static bell_status
start_thread(struct ocl_queue *queue)
{
    pthread_attr_t attr;
    int err;

    pthread_attr_init(&attr);
    pthread_attr_setstacksize(&attr, THREAD_STACK);
    err = pthread_create(&queue->thread, &attr, ocl_feed_body, queue);
    pthread_attr_destroy(&attr);
    if (err != 0)
        return bell_fail_errno(BELL_E_NO_MEMORY, err, "%s: no thread: %s",
                               queue->base.name, strerror(err));
    return BELL_OK;
}

bell_status
ocl_queue_create(struct hcq_device *base_dev, const struct hcq_queue_desc *desc,
                 struct hcq_queue **out_queue)
{
    struct hcq_queue_desc sized = *desc;
    struct ocl_device *dev = ocl_device(base_dev);
    struct ocl_queue *queue;
    uint32_t ring_bytes;
    bell_status status;
    cl_int err;

    if (!sized.ring_size_bytes)
        sized.ring_size_bytes = RING_DEFAULT;
    BELL_TRY(hcq_queue_ring_bytes(base_dev, &sized, OCL_RING_MAX, &ring_bytes));
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
    if (!take_place(dev, &queue->slot)) {
        status = bell_fail(BELL_E_UNSUPPORTED, "%s: %u queues are the limit",
                           base_dev->info.name, OCL_QUEUES_MAX);
        goto fail_ring;
    }
    queue->cl = OCL_NEW(&dev->api, &err, clCreateCommandQueue, dev->context,
                        dev->found.id, CL_QUEUE_PROFILING_ENABLE);
    if (err != CL_SUCCESS) {
        status = ocl_fail(base_dev->info.name, "clCreateCommandQueue", err);
        goto fail_place;
    }
    queue->base.sync_va_end = queue->base.copy_va_end = UINT64_MAX;
    status = hcq_queue_init(&queue->base, base_dev, desc,
                            ring_bytes - SIGNAL_WORDS * 8);
    if (status != BELL_OK)
        goto fail_cl;
    pthread_mutex_init(&queue->lock, NULL);
    pthread_cond_init(&queue->cond, NULL);
    status = start_thread(queue);
    if (status != BELL_OK)
        goto fail_base;
    *out_queue = &queue->base;
    return BELL_OK;

fail_base:
    pthread_cond_destroy(&queue->cond);
    pthread_mutex_destroy(&queue->lock);
    hcq_queue_fini(&queue->base);
fail_cl:
    dev->api.clReleaseCommandQueue(queue->cl);
fail_place:
    give_place(dev, queue->slot);
fail_ring:
    host_free(queue->ring);
fail_queue:
    host_free(queue);
    return status;
}

void
ocl_queue_destroy(struct hcq_queue *base)
{
    struct ocl_queue *queue = ocl_queue(base);
    struct ocl_device *dev = ocl_device(base->dev);
    bool parked = stop_queue(queue);

    pthread_mutex_lock(&queue->lock);
    queue->quit = true;
    pthread_cond_broadcast(&queue->cond);
    pthread_mutex_unlock(&queue->lock);
    if (!parked) { /* the thread is OpenCL's until the kernel ends */
        dev->is_stuck = true;
        pthread_detach(queue->thread);
        hcq_queue_fini(base);
        return;
    }
    pthread_join(queue->thread, NULL);
    dev->api.clReleaseCommandQueue(queue->cl);
    pthread_cond_destroy(&queue->cond);
    pthread_mutex_destroy(&queue->lock);
    hcq_queue_fini(base);
    give_place(dev, queue->slot);
    host_free(queue->ring);
    host_free(queue);
}
