/* Rings of packets and the threads that run them. */
#include "hcq/hcq_feed.h"

#include <assert.h>
#include <linux/membarrier.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/bits.h"
#include "base/thread.h"

#define SIGNAL_WORDS  3u           /* the timeline's, behind each submission */
#define RING_DEFAULT  (256u << 10) /* bytes */
#define RING_MAX      (64u << 20)
#define STOP_GRACE_NS 2000000ull /* before a kernel is evicted */
#define WAIT_SLICE_NS 5000000ull /* sleep of a wait command */

/* Naps of a wait for what a card writes, from the first to the last. guess */
#define NAP_FIRST_NS 5000u
#define NAP_LAST_NS  100000u

/* ---- the host's side ----------------------------------------------------- */

static void
ring_doorbell(struct hcq_feed *feed)
{
    atomic_fetch_add(&feed->doorbell, 1);
    hcq_futex_wake(&feed->doorbell, 1);
}

void
hcq_feed_wake(struct hcq_feed *feed)
{
    if (atomic_load(&feed->sleeping) != HCQ_FEED_AWAKE)
        ring_doorbell(feed);
}

static bell_status
wait_for_words(struct hcq_feed *feed, uint64_t n_words)
{
    uint64_t write = atomic_load_explicit(&feed->write, memory_order_relaxed);
    uint64_t start_ns = time_now_ns(), waited_ns;
    struct hcq_stillness still = {0};
    char what[160];

    assert(n_words <= feed->n_ring_words);
    for (;;) {
        feed->read_seen =
            atomic_load_explicit(&feed->read, memory_order_acquire);
        if (feed->n_ring_words - (write - feed->read_seen) >= n_words)
            return BELL_OK;
        if (hcq_device_is_lost(feed->base.dev))
            return hcq_lost_report(feed->base.dev);
        waited_ns = time_now_ns() - start_ns;
        if (hcq_wait_is_over(feed->base.dev, 0, feed->base.submit_timeout_ns,
                             waited_ns, &still, NULL))
            break;
        if (waited_ns > feed->base.dev->spin_ns)
            hcq_nap(50000);
        else
            thread_relax();
    }
    snprintf(what, sizeof(what),
             "%s: no room for %llu words in the ring of %llu after %.1f ms",
             feed->base.name, (unsigned long long)n_words,
             (unsigned long long)feed->n_ring_words, (double)waited_ns / 1e6);
    return hcq_timeout_report(feed->base.dev, what);
}

/* Copies packets to the ring's offset `write`, over its end. */
static void
put_ring_words(struct hcq_feed *feed, uint64_t write, const void *packets,
               uint64_t n_words)
{
    const uint64_t *words = packets;
    uint64_t at = write & (feed->n_ring_words - 1);
    uint64_t to_end = feed->n_ring_words - at;
    uint64_t n = n_words < to_end ? n_words : to_end;

    assert(is_pow2(feed->n_ring_words) && n_words <= feed->n_ring_words);
    memcpy(feed->ring + at, words, (size_t)n * 8);
    memcpy(feed->ring, words + n, (size_t)(n_words - n) * 8);
}

static bool run_packet(struct hcq_feed *feed, const struct hcq_packet *packet);

static struct hcq_packet
last_packet(const struct hcq_feed *feed, uint64_t value)
{
    return (struct hcq_packet){
        .head = {.op = HCQ_OP_SIGNAL, .n_dw = 2 * SIGNAL_WORDS},
        .word = {feed->base.timeline->va, value},
    };
}

/* Submits packets followed by the timeline's signal. */
static bell_status
submit_words(struct hcq_feed *feed, const void *packets, uint64_t n_words,
             uint64_t value)
{
    const struct hcq_packet finish = last_packet(feed, value);
    uint64_t write = atomic_load_explicit(&feed->write, memory_order_relaxed);
    uint32_t sleeping;

    assert(n_words + SIGNAL_WORDS <= feed->n_ring_words);
    if (__builtin_expect(feed->n_ring_words - (write - feed->read_seen) <
                             n_words + SIGNAL_WORDS,
                         0))
        BELL_TRY(wait_for_words(feed, n_words + SIGNAL_WORDS));
    put_ring_words(feed, write, packets, n_words);
    put_ring_words(feed, write + n_words, &finish, SIGNAL_WORDS);
    write += n_words + SIGNAL_WORDS;
    /* Either the thread sees the words before it sleeps, or we see that it
     * sleeps. That takes a full fence between our two accesses, and between
     * its two; where the kernel can fence us from over there, the launch path
     * is spared ours, which would wait for the ring's cache lines. */
    if (feed->has_membarrier) {
        atomic_store_explicit(&feed->write, write, memory_order_release);
        atomic_signal_fence(memory_order_seq_cst);
        sleeping = atomic_load_explicit(&feed->sleeping, memory_order_relaxed);
    } else {
        atomic_store(&feed->write, write);
        sleeping = atomic_load(&feed->sleeping);
    }
    if (sleeping)
        ring_doorbell(feed);
    return BELL_OK;
}

/* Runs packets, up to one that may have to wait; false: *out_n_run words ran,
 * and the rest is the thread's. True: all ran, the timeline's signal as well,
 * or the device was lost. */
static bool
run_packets(struct hcq_feed *feed, const uint64_t *words, uint64_t n_words,
            uint64_t value, uint64_t *out_n_run)
{
    const struct hcq_packet finish = last_packet(feed, value);
    const struct hcq_packet *packet;
    uint64_t at = 0;

    feed->call_end = words + n_words;
    while (at < n_words) {
        packet = (const void *)(words + at);
        if (!hcq_packet_ok(packet, 2 * (n_words - at)))
            return !hcq_feed_lose_stream(feed, packet);
        *out_n_run = at;
        if (!feed->ops->is_short(feed, packet))
            return false;
        if (!run_packet(feed, packet))
            return true;
        at += packet->head.n_dw / 2;
    }
    *out_n_run = at;
    if (!feed->ops->is_short(feed, &finish))
        return false;
    (void)run_packet(feed, &finish);
    return true;
}

/* Most launches, without a call. */
static inline bool
begins_long(const struct hcq_feed *feed, const uint64_t *words,
            uint64_t n_words)
{
    const struct hcq_packet *packet = (const void *)words;

    return feed->ops->knows_steps && 2 * n_words >= HCQ_EXEC_DW &&
           packet->head.op == HCQ_OP_EXEC &&
           !hcq_exec_of(packet)->prog->max_steps;
}

/* On the submitter's thread, if the ring is empty: the thread has no packets
 * then, and gets none. The first packet is looked at before `read`, which the
 * thread writes. */
static bool
run_here(struct hcq_feed *feed, const uint64_t *words, uint64_t n_words,
         uint64_t value, uint64_t *out_n_run)
{
    bool all = false;

    assert(feed->ops->is_short && feed->ops->end_here);
    if (n_words && hcq_packet_ok((const void *)words, 2 * n_words) &&
        !feed->ops->is_short(feed, (const void *)words))
        return false;
    if (atomic_load_explicit(&feed->read, memory_order_acquire) !=
        atomic_load_explicit(&feed->write, memory_order_relaxed))
        return false;
    /* Either we see that the queue stops, or the thread sees us before it
     * parks. */
    atomic_store(&feed->here, 1);
    if (!atomic_load(&feed->stop) && !atomic_load(&feed->base.dev->lost)) {
        if (feed->ops->begin_here)
            feed->ops->begin_here(feed);
        all = run_packets(feed, words, n_words, value, out_n_run);
        feed->call_end = NULL;
        feed->ops->end_here(feed);
    }
    atomic_store(&feed->here, 0);
    if (feed->ops->finish) { /* what is left to do is the thread's */
        atomic_fetch_add(&feed->n_here, 1);
        if (atomic_load(&feed->sleeping) == HCQ_FEED_SLEEPS)
            ring_doorbell(feed);
    }
    return all;
}

bell_status
hcq_feed_submit(struct hcq_queue *queue, uint64_t value)
{
    struct hcq_feed *feed = hcq_feed(queue);
    const uint64_t *words = (const void *)queue->cs.words;
    uint64_t n_words = queue->cs.n_dw / 2, n_run = 0;

    assert(queue->cs.n_dw % 2 == 0);
    if (feed->runs_here && !begins_long(feed, words, n_words) &&
        run_here(feed, words, n_words, value, &n_run))
        return BELL_OK;
    BELL_TRY(submit_words(feed, words + n_run, n_words - n_run, value));
    return BELL_OK;
}

bell_status
hcq_feed_stream_bind(struct hcq_stream *stream)
{
    (void)stream; /* the words are where the thread can read them */
    return BELL_OK;
}

void
hcq_feed_stream_unbind(struct hcq_stream *stream)
{
    (void)stream;
}

bell_status
hcq_feed_stream_submit(struct hcq_stream *stream, uint64_t value)
{
    struct hcq_feed *feed = hcq_feed(stream->queue);
    const uint64_t *words = (const void *)stream->cs.words;
    uint64_t n_words = stream->cs.n_dw / 2, n_run = 0;
    struct hcq_packet call = {
        .head = {.op = HCQ_OP_CALL, .n_dw = HCQ_HEAD_DW + 4},
    };

    if (feed->runs_here && !begins_long(feed, words, n_words) &&
        run_here(feed, words, n_words, value, &n_run))
        return BELL_OK;
    call.word[0] = (uintptr_t)(words + n_run);
    call.word[1] = n_words - n_run;
    BELL_TRY(submit_words(feed, &call, call.head.n_dw / 2, value));
    return BELL_OK;
}

/* ---- stopping ------------------------------------------------------------ */

static bool
is_parked(struct hcq_feed *feed)
{
    bool parked;

    pthread_mutex_lock(&feed->lock);
    parked = feed->parked;
    pthread_mutex_unlock(&feed->lock);
    return parked;
}

/* Makes the thread park; a kernel that goes on is evicted. */
static bool
stop_queue(struct hcq_feed *feed)
{
    const struct hcq_program_base *running, *evicted = NULL;
    const struct hcq_feed_ops *ops = feed->ops;
    uint64_t start_ns = time_now_ns();
    bool parked;

    atomic_store(&feed->stop, 1);
    ring_doorbell(feed);
    while (!(parked = is_parked(feed)) &&
           time_now_ns() - start_ns < ops->stop_limit_ns) {
        running = atomic_load_explicit(&feed->now.prog, memory_order_acquire);
        if (ops->evict && !evicted && running &&
            time_now_ns() - start_ns > STOP_GRACE_NS) {
            evicted = running;
            ops->evict(feed, evicted, true);
        }
        hcq_nap(50000);
    }
    if (evicted)
        ops->evict(feed, evicted, false);
    return parked;
}

bell_status
hcq_feed_stop(struct hcq_device *dev)
{
    struct hcq_queue *base = NULL;

    while ((base = hcq_next_queue(dev, base)) != NULL) {
        struct hcq_feed *feed = hcq_feed(base);

        if (!stop_queue(feed))
            return bell_fail(BELL_E_DEVICE_LOST,
                             "%s: %s could not be stopped%s", dev->info.name,
                             base->name, feed->ops->stop_note);
        /* what is queued is dropped */
        atomic_store(&feed->read, atomic_load(&feed->write));
        atomic_store(&feed->now.op, 0);
        atomic_store(&feed->now.prog, NULL);
    }
    return BELL_OK;
}

void
hcq_feed_resume(struct hcq_device *dev)
{
    struct hcq_queue *base = NULL;

    while ((base = hcq_next_queue(dev, base)) != NULL) {
        struct hcq_feed *feed = hcq_feed(base);

        pthread_mutex_lock(&feed->lock);
        atomic_store(&feed->stop, 0);
        pthread_cond_broadcast(&feed->cond);
        pthread_mutex_unlock(&feed->lock);
    }
}

bool
hcq_feed_quit(struct hcq_feed *feed)
{
    bool parked = stop_queue(feed);

    pthread_mutex_lock(&feed->lock);
    feed->quit = true;
    pthread_cond_broadcast(&feed->cond);
    pthread_mutex_unlock(&feed->lock);
    return parked;
}

/* ---- reports ------------------------------------------------------------- */

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
describe_queue(struct hcq_feed *feed, unsigned op, const char *gap, char *text,
               size_t size_bytes)
{
    const struct hcq_program_base *prog = atomic_load(&feed->now.prog);
    unsigned long long queued =
        atomic_load(&feed->write) - atomic_load(&feed->read);
    const struct hcq_packet packet = {
        .head = {.op = (uint8_t)op},
        .word = {atomic_load(&feed->now.a), atomic_load(&feed->now.b),
                 atomic_load(&feed->now.c)},
    };
    char what[192], progress[96];
    int used;

    if (op == HCQ_OP_WAIT || op == HCQ_OP_POLL) {
        hcq_packet_text(&packet, "", what, sizeof(what));
    } else if (prog && is_loaded_program(feed->base.dev, prog)) {
        feed->ops->progress(feed, progress, sizeof(progress));
        snprintf(what, sizeof(what), "exec '%s', %s", prog->pub.name, progress);
    } else {
        snprintf(what, sizeof(what), "%s", op ? hcq_op_name(op) : "starting");
    }
    used = snprintf(text, size_bytes, "%s%s: %s, %llu words queued", gap,
                    feed->base.name, what, queued);
    return used < 0 ? 0 : (size_t)used;
}

void
hcq_feed_describe(struct hcq_device *dev, char *text, size_t size_bytes)
{
    struct hcq_queue *base = NULL;
    size_t used = 0;

    text[0] = '\0';
    pthread_mutex_lock(&dev->lock);
    while (used < size_bytes && (base = hcq_next_queue(dev, base)) != NULL) {
        struct hcq_feed *feed = hcq_feed(base);
        unsigned op = atomic_load(&feed->now.op);

        if (!op && atomic_load(&feed->read) == atomic_load(&feed->write))
            continue;
        used += describe_queue(feed, op, used ? "; " : "", text + used,
                               size_bytes - used);
    }
    pthread_mutex_unlock(&dev->lock);
}

uint64_t
hcq_feed_progress(struct hcq_device *dev)
{
    struct hcq_queue *queue = NULL;
    uint64_t n_words = 0;

    while ((queue = hcq_next_queue(dev, queue)) != NULL)
        n_words +=
            atomic_load_explicit(&hcq_feed(queue)->read, memory_order_relaxed);
    return n_words;
}

/* ---- packets ------------------------------------------------------------- */

bool
hcq_feed_lose_stream(struct hcq_feed *feed, const struct hcq_packet *packet)
{
    struct hcq_fault fault = {.kind = HCQ_FAULT_STREAM};

    memcpy(&fault.va, &packet->head, sizeof(fault.va));
    snprintf(fault.queue, sizeof(fault.queue), "%s", feed->base.name);
    snprintf(fault.text, sizeof(fault.text),
             "%s: a command with the header 0x%llx cannot be decoded",
             feed->base.name, (unsigned long long)fault.va);
    hcq_device_set_lost(feed->base.dev, &fault);
    return false;
}

bool
hcq_feed_wait(struct hcq_feed *feed, struct hcq_slot *slot, uint64_t value)
{
    uint64_t start_ns = 0, now_ns, seen, nap_ns = NAP_FIRST_NS;

    for (;;) {
        seen = __atomic_load_n(&slot->value, __ATOMIC_ACQUIRE);
        if (seen >= value)
            return true;
        if (hcq_feed_must_stop(feed))
            return false;
        now_ns = time_now_ns();
        if (start_ns == 0)
            start_ns = now_ns;
        if (now_ns - start_ns < feed->base.dev->spin_ns)
            hcq_spin(now_ns - start_ns);
        else if (!slot->is_polled)
            hcq_slot_sleep(slot, seen, WAIT_SLICE_NS);
        else {
            hcq_nap(nap_ns);
            nap_ns = nap_ns * 2 < NAP_LAST_NS ? nap_ns * 2 : NAP_LAST_NS;
        }
    }
}

static bool run_call(struct hcq_feed *feed, const uint64_t *words,
                     uint64_t n_words);

static bool
run_packet(struct hcq_feed *feed, const struct hcq_packet *packet)
{
    struct hcq_feed_now *now = &feed->now;
    const uint64_t *word = packet->word;
    unsigned op = packet->head.op;

    atomic_store_explicit(&now->op, op, memory_order_relaxed);
    if (op == HCQ_OP_CALL)
        return run_call(feed, (const uint64_t *)(uintptr_t)word[0], word[1]);
    if (op == HCQ_OP_WAIT || op == HCQ_OP_POLL) {
        atomic_store_explicit(&now->a, word[0], memory_order_relaxed);
        atomic_store_explicit(&now->b, word[1], memory_order_relaxed);
    }
    if (op == HCQ_OP_POLL)
        atomic_store_explicit(&now->c, word[2], memory_order_relaxed);
    return feed->ops->run(feed, packet);
}

/* A bound stream's packets. */
static bool
run_call(struct hcq_feed *feed, const uint64_t *words, uint64_t n_words)
{
    uint64_t at = 0;

    feed->call_end = words + n_words;
    while (at < n_words) {
        const struct hcq_packet *packet = (const void *)(words + at);

        if (!hcq_packet_ok(packet, 2 * (n_words - at)))
            return hcq_feed_lose_stream(feed, packet);
        if (hcq_feed_must_stop(feed) || !run_packet(feed, packet))
            return false;
        at += packet->head.n_dw / 2;
    }
    feed->call_end = NULL;
    return true;
}

unsigned
hcq_feed_next_op(const struct hcq_feed *feed, const struct hcq_packet *packet)
{
    const uint64_t *behind = (const uint64_t *)packet + packet->head.n_dw / 2;
    uint64_t mask = feed->n_ring_words - 1;
    uint64_t read = atomic_load_explicit(&feed->read, memory_order_relaxed);
    const struct hcq_packet *at = (const void *)(feed->ring + (read & mask));

    if (feed->call_end && behind < feed->call_end)
        return ((const struct hcq_packet *)behind)->head.op;
    if (atomic_load_explicit(&feed->here, memory_order_relaxed))
        return HCQ_OP_SIGNAL;
    read += at->head.n_dw / 2;
    if (read == atomic_load_explicit(&feed->write, memory_order_acquire))
        return 0;
    at = (const void *)(feed->ring + (read & mask));
    return at->head.op;
}

/* ---- the thread ---------------------------------------------------------- */

/* The packet at `read`, in one piece. */
static const struct hcq_packet *
get_packet(struct hcq_feed *feed, uint64_t read)
{
    uint64_t at = read & (feed->n_ring_words - 1);
    uint64_t to_end = feed->n_ring_words - at;
    const struct hcq_packet *packet = (const void *)(feed->ring + at);
    uint32_t n = packet->head.n_dw / 2;

    if (n <= to_end || n > HCQ_FEED_PACKET_WORDS)
        return packet;
    memcpy(feed->scratch, feed->ring + at, (size_t)to_end * 8);
    memcpy(feed->scratch + to_end, feed->ring, (size_t)(n - to_end) * 8);
    return (const void *)feed->scratch;
}

/* Runs what is in the ring, and whenever that is empty a part of what the
 * packets left to do; false when the queue has to park. */
static bool
drain(struct hcq_feed *feed)
{
    uint64_t read = atomic_load_explicit(&feed->read, memory_order_relaxed);
    uint64_t write = atomic_load_explicit(&feed->write, memory_order_acquire);
    bool more = feed->ops->finish != NULL;

    feed->n_here_seen = atomic_load(&feed->n_here);
    while (read != write || more) {
        const struct hcq_packet *packet;

        if (hcq_feed_must_stop(feed))
            return false;
        if (read == write) {
            if (!feed->ops->finish(feed, &more))
                return false;
        } else {
            feed->call_end = NULL; /* one may have been left */
            packet = get_packet(feed, read);
            if (packet->head.n_dw > 2 * HCQ_FEED_PACKET_WORDS ||
                !hcq_packet_ok(packet, 2 * (write - read)))
                return hcq_feed_lose_stream(feed, packet);
            if (!run_packet(feed, packet))
                return false;
            read += packet->head.n_dw / 2;
            atomic_store_explicit(&feed->read, read, memory_order_release);
            more = feed->ops->finish != NULL;
        }
        if (read == write)
            write = atomic_load_explicit(&feed->write, memory_order_acquire);
    }
    atomic_store_explicit(&feed->now.op, 0, memory_order_relaxed);
    return !hcq_feed_must_stop(feed);
}

/* Sleeps until the ring's words are more than were read, or a wake. */
static void
sleep_as(struct hcq_feed *feed, enum hcq_feed_sleep how, uint64_t max_ns)
{
    uint64_t read = atomic_load_explicit(&feed->read, memory_order_relaxed);
    uint32_t bell = atomic_load(&feed->doorbell);

    assert(how != HCQ_FEED_AWAKE);
    atomic_store(&feed->sleeping, how);
    if (feed->has_membarrier) /* for submit_words */
        syscall(SYS_membarrier, MEMBARRIER_CMD_PRIVATE_EXPEDITED, 0, 0);
    if (atomic_load(&feed->write) == read && !hcq_feed_must_stop(feed) &&
        (how == HCQ_FEED_NAPS ||
         atomic_load(&feed->n_here) == feed->n_here_seen))
        hcq_futex_wait(&feed->doorbell, bell, max_ns);
    atomic_store(&feed->sleeping, HCQ_FEED_AWAKE);
}

void
hcq_feed_nap(struct hcq_feed *feed, uint64_t max_ns)
{
    sleep_as(feed, HCQ_FEED_NAPS, max_ns);
}

/* Spins, then sleeps, until there is something to do. To look after what the
 * submitter ran himself one is woken, and has not to spin. */
static void
await_work(struct hcq_feed *feed)
{
    uint64_t read = atomic_load_explicit(&feed->read, memory_order_relaxed);
    uint64_t start_ns = time_now_ns(), now_ns = start_ns;
    uint64_t spin_ns =
        feed->runs_here && feed->ops->finish ? 0 : feed->base.dev->spin_ns;

    hcq_spinner_begin(&feed->spinner, start_ns);
    while (now_ns - start_ns < spin_ns) {
        if (atomic_load_explicit(&feed->write, memory_order_acquire) != read ||
            hcq_feed_must_stop(feed))
            return;
        hcq_spinner_turn(&feed->spinner, now_ns);
        now_ns = time_now_ns();
    }
    sleep_as(feed, HCQ_FEED_SLEEPS, UINT64_MAX);
}

/* Stays here while the queue is stopped or the device lost; false: quit. */
static bool
park(struct hcq_feed *feed)
{
    bool quit;

    while (atomic_load(&feed->here))
        hcq_spin(UINT64_MAX);
    if (feed->ops->drop)
        feed->ops->drop(feed);
    pthread_mutex_lock(&feed->lock);
    assert(!feed->parked);
    feed->parked = true;
    while (hcq_feed_must_stop(feed) && !feed->quit)
        pthread_cond_wait(&feed->cond, &feed->lock);
    feed->parked = false;
    quit = feed->quit;
    pthread_mutex_unlock(&feed->lock);
    return !quit;
}

void
hcq_feed_run(struct hcq_feed *feed)
{
    for (;;) {
        if (drain(feed))
            await_work(feed);
        else if (!park(feed))
            return;
    }
}

/* ---- creation ------------------------------------------------------------ */

bool
hcq_feed_prepare(void)
{
    return syscall(SYS_membarrier, MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED, 0,
                   0) == 0;
}

bell_status
hcq_feed_init(struct hcq_feed *feed, struct hcq_device *dev,
              const struct hcq_queue_desc *desc, const struct hcq_feed_ops *ops)
{
    struct hcq_queue_desc sized = *desc;
    uint32_t ring_bytes;
    bell_status status;

    assert(ops->run && ops->progress);
    if (!sized.ring_size_bytes)
        sized.ring_size_bytes = RING_DEFAULT;
    BELL_TRY(hcq_queue_ring_bytes(dev, &sized, RING_MAX, &ring_bytes));
    feed->ops = ops;
    feed->n_ring_words = ring_bytes / 8;
    feed->ring = host_aligned(64, ring_bytes);
    if (!feed->ring)
        return bell_fail(BELL_E_NO_MEMORY,
                         "%s: out of memory for a ring of %u bytes",
                         dev->info.name, ring_bytes);
    feed->has_membarrier = hcq_feed_prepare();
    feed->base.sync_va_end = feed->base.copy_va_end = UINT64_MAX;
    status =
        hcq_queue_init(&feed->base, dev, desc, ring_bytes - SIGNAL_WORDS * 8);
    if (status != BELL_OK) {
        host_free(feed->ring);
        return status;
    }
    pthread_mutex_init(&feed->lock, NULL);
    pthread_cond_init(&feed->cond, NULL);
    return BELL_OK;
}

void
hcq_feed_fini(struct hcq_feed *feed)
{
    assert(!feed->parked);
    pthread_cond_destroy(&feed->cond);
    pthread_mutex_destroy(&feed->lock);
    hcq_queue_fini(&feed->base);
    host_free(feed->ring);
}
