/* Queues: submissions, room in the rings, reports.
 *
 * A submission is one piece of the push ring: what makes the host's writes
 * visible, the packets' words, the release of the queue's timeline, and behind
 * them the arguments of launches; and slots of the channel's ring that point
 * there, or on a copy queue the words once more. Both are given back when the
 * timeline has come to its value; on a chip of several dies the release of the
 * timeline lies elsewhere, because other dies may read it later.
 */
#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/bits.h"
#include "base/log.h"
#include "base/thread.h"
#include "hcq/amd/amd_command.h"
#include "hcq/amd/amd_kfd.h"

#define RING_MAX_BYTES (2u << 20) /* one indirect buffer holds 4 MiB - 4 */

/* The channel's own rings. A launch on an AQL queue takes up to two slots.
 * Streams that have more than the ring go through it in parts. */
#define AQL_RING_BYTES  (1u << 20)
#define SDMA_RING_BYTES (1u << 18) /* its commands themselves */
#define RING_SLOT_BYTES (1u << 16)

/* How often a thread that spins looks for faults. */
#define LOOK_NS 1000000ull

#define MEET_BYTES 4096u

/* In a signal's memory, behind value and timestamp. */
#define IDLE_WORD_OFFSET 16u

/* ---- room ---------------------------------------------------------------- */

/* A slot's size as the channel counts. */
static uint32_t
queue_units(const struct amd_queue *queue)
{
    return queue->channel.kind == AMD_RING_AQL ? 1 : 4;
}

/* The words that wake are read when the timeline is there already: that of the
 * last submission may not be written over yet, all before has been read. */
void
amd_queue_limit(struct amd_queue *queue)
{
    const struct amd_engine *engine = &queue->engine;
    uint64_t unread = 1; /* one stays free */

    if (engine->kind == AMD_RING_SDMA && engine->n_wake)
        unread = engine->n_wake + AMD_SDMA_TAIL_DW;
    queue->n_slots = queue->channel.ring_bytes / 4 / engine->slot_dw;
    assert(is_pow2(queue->n_slots) && queue->n_slots > unread);
    queue->ring.max_slots = queue->n_slots - unread;
    queue->ring.slot_name = engine->kind == AMD_RING_SDMA ? "words" : "packets";
    queue->ring.own = (struct hcq_extent){
        .n_dw = AMD_BEGIN_DW + AMD_FINISH_DW,
        .n_slots = amd_fresh_slots(engine),
    };
}

/* Slots that the card has taken can be written anew, whatever becomes of the
 * submission that they belong to. */
static bell_status
wait_for_slots(struct amd_queue *queue, uint64_t n)
{
    struct hcq_device *dev = queue->base.dev;
    uint64_t enough = (n + 1) * queue_units(queue); /* one stays free */
    uint64_t start_ns, spun_ns = 0, look_ns = 0;
    struct hcq_stillness still = {0};

    assert(n < queue->n_slots);
    if (amd_channel_room(&queue->channel) >= enough)
        return BELL_OK;
    if (*queue->channel.wptr != queue->channel.put)
        amd_channel_ring(&queue->channel);
    start_ns = time_now_ns();
    while (amd_channel_room(&queue->channel) < enough) {
        hcq_spin(spun_ns);
        spun_ns = time_now_ns() - start_ns;
        if (spun_ns < look_ns)
            continue;
        look_ns = spun_ns + LOOK_NS;
        amd_check_faults(amd_device_of(dev));
        if (hcq_device_is_lost(dev))
            return hcq_lost_report(dev);
        if (hcq_wait_is_over(dev, 0, queue->base.submit_timeout_ns, spun_ns,
                             &still, NULL))
            return hcq_timeout_report(
                dev, "no room in a ring: the card takes nothing");
    }
    return BELL_OK;
}

/* Waits for room, by the read index, for two reasons. One of several dies
 * releases the timeline, and others come to that slot later. The device marks
 * the packets that it is done with as invalid, so a packet that was written
 * there before would be lost. */
static bell_status
wait_until_taken(struct amd_queue *queue, uint64_t n_slots)
{
    assert(n_slots <= queue->ring.max_slots);

    if (queue->engine.kind != AMD_RING_AQL ||
        queue->ring.slot_put + n_slots - queue->slot_taken < queue->n_slots)
        return BELL_OK;
    BELL_TRY(wait_for_slots(queue, n_slots));
    queue->slot_taken = __atomic_load_n(queue->channel.rptr, __ATOMIC_ACQUIRE);
    return BELL_OK;
}

bell_status
amd_queue_room(struct amd_queue *queue, const struct hcq_extent *extent,
               struct amd_push *out_push)
{
    uint8_t *push = queue->push.cpu;
    uint64_t offset, data_at;

    BELL_TRY(hcq_ring_room(&queue->base, extent, &offset, &data_at));
    BELL_TRY(wait_until_taken(queue, extent->n_slots));
    assert((offset + data_at) % AMD_UNIT_BYTES == 0 || !extent->n_units);
    *out_push = (struct amd_push){
        .engine = &queue->engine,
        .at = (uint32_t *)(void *)(push + offset),
        .piece = (uint32_t *)(void *)(push + offset),
        .data = push + offset + data_at,
        .slots = queue->channel.ring,
        .slot = queue->ring.slot_put,
        .slot_mask = queue->n_slots - 1,
    };
    return BELL_OK;
}

bell_status
amd_queue_pour(struct amd_queue *queue, const uint32_t *slots, uint64_t n_slots)
{
    bool is_sdma = queue->engine.kind == AMD_RING_SDMA;
    uint64_t n_ring = queue->n_slots, i, n;
    struct amd_push push = {
        .engine = &queue->engine,
        .slots = queue->channel.ring,
        .slot_mask = n_ring - 1,
    };
    bell_status status = BELL_OK;

    assert(n_slots > 0);
    BELL_TRY(hcq_signal_wait(
        queue->base.timeline,
        atomic_load_explicit(&queue->ring.last_value, memory_order_relaxed),
        queue->base.submit_timeout_ns));
    (void)hcq_ring_retire(&queue->base);
    for (i = 0; i < n_slots; i += n) {
        n = is_sdma ? amd_sdma_size(slots + i) : 1;
        status = wait_for_slots(queue, is_sdma ? n + AMD_SDMA_TAIL_DW : n);
        if (status != BELL_OK)
            break;
        push.slot = queue->ring.slot_put;
        amd_push_slots(&push, slots + i * queue->engine.slot_dw, n);
        queue->ring.slot_put = push.slot;
        queue->channel.put = queue->ring.slot_put * queue_units(queue);
    }
    if (status == BELL_OK)
        status = wait_for_slots(queue, amd_finish_slots(&queue->engine) +
                                           n_ring - queue->ring.max_slots - 1);
    amd_channel_ring(&queue->channel);
    queue->ring.slot_tail =
        queue->ring.slot_put - n_ring +
        amd_channel_room(&queue->channel) / queue_units(queue);
    return status;
}

/* ---- submission ---------------------------------------------------------- */

/* So many lines of slots of the next submission are fetched, at most: those of
 * an all-reduce of eight cards are nine. */
#define SOON_LINES 12u
#define LINE_DW    16u

/* Lines that the next submission writes first, if it is as long as this one, as
 * replays are. They were last touched a whole round of the rings ago, and the
 * fence before the doorbell waits for each; so they are fetched while the card
 * works on this one. */
static inline void
fetch_next(const struct amd_queue *queue, const struct amd_push *push,
           uint64_t n_slots, uint64_t value)
{
    const struct amd_engine *engine = &queue->engine;
    uint64_t n_lines = (n_slots * engine->slot_dw + LINE_DW - 1) / LINE_DW, i;

    for (i = 0; i < n_lines && i < SOON_LINES; i++) {
        uint64_t slot = push->slot + i * (LINE_DW / engine->slot_dw);

        __builtin_prefetch(
            push->slots + (slot & push->slot_mask) * engine->slot_dw, 1);
    }
    if (engine->finish)
        __builtin_prefetch(amd_finish_words(engine, value + 1), 1);
    __builtin_prefetch(push->at, 1);
    __builtin_prefetch(
        &queue->ring.records[(value + 1) & (HCQ_RING_RECORDS - 1)], 1);
}

void
amd_queue_commit(struct amd_queue *queue, uint64_t value, struct amd_push *push,
                 struct hcq_stream *stream)
{
    uint64_t first = queue->ring.slot_put;

    amd_push_slots(push, queue->engine.wake, queue->engine.n_wake);
    assert(push->slot > first);
    hcq_ring_note(&queue->base, value, stream, push->slot);
    queue->channel.put = push->slot * queue_units(queue);
    amd_channel_ring(&queue->channel);
    fetch_next(queue, push, push->slot - first, value);
}

/* BELL_DEBUG=push: packets that an AQL queue's ring got. */
static void
log_slots(const struct amd_queue *queue, const struct amd_push *push)
{
#if BELL_HAVE_DECODER
    uint64_t i;

    if (!LOG_ON(LOG_PUSH) || queue->engine.kind != AMD_RING_AQL)
        return;
    for (i = queue->ring.slot_put; i != push->slot; i++)
        hcq_decode_aql(&queue->base, push->slots + (i & push->slot_mask) * 16,
                       16);
#else
    (void)queue;
    (void)push;
#endif
}

bell_status
amd_queue_submit(struct hcq_queue *base, uint64_t value)
{
    struct amd_queue *queue = amd_queue_of(base);
    const struct hcq_cs *cs = &base->cs;
    const struct hcq_packet *packet;
    struct amd_push push;
    const uint32_t *start;
    uint32_t pos;

    BELL_TRY(amd_queue_room(queue, &queue->ring.fresh, &push));
    start = push.at;
    amd_push_begin(&push);
    for (pos = 0; pos < cs->n_dw; pos += packet->head.n_dw) {
        packet = hcq_packet_at(cs->words, pos);
        amd_push_packet(&push, packet);
    }
    amd_push_finish(&push, base->timeline->va, value);
    assert((uint64_t)(push.at - start) <= queue->ring.fresh.n_dw);
    hcq_log_words(base, "", start, push.at);
    log_slots(queue, &push);
    amd_queue_commit(queue, value, &push, NULL);
    return BELL_OK;
}

/* ---- life ---------------------------------------------------------------- */

/* It lies behind what the releases need. */
static void
clear_gate(struct amd_queue *queue)
{
    uint64_t offset = (AMD_FINISH_UNITS + 1) * AMD_UNIT_BYTES;

    assert(queue->finish.size_bytes >= offset + AMD_UNIT_BYTES);
    queue->engine.gate_va = queue->finish.va + offset;
    memset((uint8_t *)queue->finish.cpu + offset, 0, AMD_UNIT_BYTES);
}

static void
clear_meet(struct amd_queue *queue)
{
    static const uint8_t zeros[MEET_BYTES];

    assert(queue->meet.va);
    if (queue->meet.kind == AMD_MEM_GTT)
        memset(queue->meet.cpu, 0, MEET_BYTES);
    else
        (void)amd_buffer_write(queue->base.dev, queue->meet.va, zeros,
                               sizeof(zeros));
}

void
amd_queue_restart(struct amd_queue *queue)
{
    hcq_ring_drop(&queue->ring, 0);
    queue->slot_taken = 0;
    if (queue->engine.finish)
        clear_gate(queue);
    if (queue->engine.meet_va)
        clear_meet(queue);
}

static void
amd_queue_free(struct amd_queue *queue)
{

    amd_channel_fini(&queue->channel);
    amd_mem_free(amd_device_of(queue->base.dev), &queue->scratch.mem);
    amd_mem_free(amd_device_of(queue->base.dev), &queue->meet);
    amd_mem_free(amd_device_of(queue->base.dev), &queue->finish);
    amd_mem_free(amd_device_of(queue->base.dev), &queue->push);
    hcq_ring_fini(&queue->ring);
    host_free(queue);
}

/* Memory of the engine's own words. */
static bell_status
make_finish(struct amd_queue *queue, struct amd_device *dev)
{
    struct amd_engine *engine = &queue->engine;
    const struct amd_process *process = dev->process;
    uint32_t n_units = engine->is_single ? 0 : AMD_FINISH_UNITS;
    uint8_t *words = NULL;

    if (engine->kind != AMD_RING_SDMA) {
        BELL_TRY(amd_mem_alloc(dev, (n_units + 2) * AMD_UNIT_BYTES, AMD_MEM_GTT,
                               &queue->finish));
        words = queue->finish.cpu;
    }
    if (!engine->is_single) {
        engine->finish = queue->finish.cpu;
        clear_gate(queue);
    }
    /* The card's, as a working driver had it. At recovery no engine writes it:
     * the host has to reach it. */
    if (amd_dies_meet(engine)) {
        BELL_TRY(amd_mem_alloc(dev, MEET_BYTES,
                               dev->topology.large_bar ? AMD_MEM_VISIBLE
                                                       : AMD_MEM_GTT,
                               &queue->meet));
        engine->meet_va = queue->meet.va;
        clear_meet(queue);
    }
    amd_engine_wakes(engine,
                     words ? (void *)(words + n_units * AMD_UNIT_BYTES) : NULL,
                     process->event_page.va + 8ull * process->signal_event,
                     process->signal_event);
    return BELL_OK;
}

static bell_status
amd_queue_make(struct amd_queue *queue, struct amd_device *dev,
               uint32_t ring_bytes, enum amd_ring_kind kind, uint32_t engines)
{
    static const uint32_t channel_bytes[] = {
        [AMD_RING_PM4] = RING_SLOT_BYTES,
        [AMD_RING_AQL] = AQL_RING_BYTES,
        [AMD_RING_SDMA] = SDMA_RING_BYTES,
    };

    queue->base.dev = &dev->base;
    amd_engine_init(&queue->engine, dev, kind);
    queue->engine.scratch = &queue->scratch;
    queue->base.sync_va_end = queue->base.copy_va_end = AMD_VA_END;
    queue->base.compares_halves = true;
    /* each of several dies looks at a signal for itself */
    queue->base.clears_behind_write = amd_dies_meet(&queue->engine);
    queue->base.clears_signals =
        queue->engine.is_single || queue->base.clears_behind_write;
    queue->base.ring = &queue->ring;
    queue->base.words = kind == AMD_RING_SDMA ? HCQ_WORDS_SDMA : HCQ_WORDS_PM4;
    BELL_TRY(hcq_ring_init(&queue->ring, ring_bytes, AMD_UNIT_BYTES,
                           AMD_UNIT_BYTES));
    BELL_TRY(amd_mem_alloc(dev, ring_bytes, AMD_MEM_GTT, &queue->push));
    BELL_TRY(make_finish(queue, dev));
    BELL_TRY(amd_channel_init_on(dev, kind, channel_bytes[kind], engines,
                                 &queue->channel));
    amd_queue_limit(queue);
    return BELL_OK;
}

/* From here on the device's list tells the queue when scratch grows. */
static bell_status
join_device(struct amd_queue *queue, struct amd_device *dev,
            const struct hcq_queue_desc *desc, uint32_t ring_bytes)
{
    struct amd_control *control = dev->control;
    bell_status status;

    assert(!queue->channel.put);
    pthread_mutex_lock(&control->scratch_lock);
    status = amd_scratch_join(queue);
    if (status == BELL_OK && queue->engine.move)
        status = amd_move_load(dev);
    /* Packets are never larger than what they become. */
    if (status == BELL_OK)
        status = hcq_queue_init(&queue->base, &dev->base, desc, ring_bytes);
    pthread_mutex_unlock(&control->scratch_lock);
    return status;
}

static bell_status
create_of_kind(struct amd_device *dev, const struct hcq_queue_desc *desc,
               enum amd_ring_kind kind, struct hcq_queue **out_queue)
{
    struct amd_queue *queue;
    uint32_t ring_bytes;
    bell_status status;

    BELL_TRY(
        hcq_queue_ring_bytes(&dev->base, desc, RING_MAX_BYTES, &ring_bytes));
    queue = host_calloc(1, sizeof(*queue));
    if (!queue)
        return bell_fail(BELL_E_NO_MEMORY, "%s: out of memory for a queue",
                         dev->base.info.name);
    status = amd_queue_make(queue, dev, ring_bytes, kind,
                            kind == AMD_RING_SDMA ? desc->engines : 0);
    if (status == BELL_OK)
        status = join_device(queue, dev, desc, ring_bytes);
    if (status != BELL_OK) {
        amd_queue_free(queue);
        return status;
    }
    queue->engine.idle_va = queue->base.timeline->va + IDLE_WORD_OFFSET;
    *out_queue = &queue->base;
    return BELL_OK;
}

/* Copy engines have few queues, for all processes together: 12 on a card of
 * RDNA3. Where none is left the compute units copy.
 * src: docs/hardware/amd-kernel.md, "Queues" */
bell_status
amd_queue_create(struct hcq_device *base_dev, const struct hcq_queue_desc *desc,
                 struct hcq_queue **out_queue)
{
    struct amd_device *dev = amd_device_of(base_dev);
    enum amd_ring_kind compute =
        dev->gen->uses_aql ? AMD_RING_AQL : AMD_RING_PM4;
    atomic_bool *are_full = &dev->process->cards[dev->card].engines_are_full;

    if (desc->kind != HCQ_QUEUE_COPY || dev->gen->copies_by_compute)
        return create_of_kind(dev, desc, compute, out_queue);
    atomic_store(are_full, false);
    if (create_of_kind(dev, desc, AMD_RING_SDMA, out_queue) == BELL_OK)
        return BELL_OK;
    if (!atomic_load(are_full))
        return bell_error_last()->status;
    LOG(LOG_IOCTL, "a compute queue copies: %s", bell_error_last()->message);
    return create_of_kind(dev, desc, compute, out_queue);
}

void
amd_queue_destroy(struct hcq_queue *base)
{
    struct amd_queue *queue = amd_queue_of(base);
    struct amd_control *control = amd_device_of(base->dev)->control;

    pthread_mutex_lock(&control->scratch_lock);
    /* The channel first: it may still write the timeline. */
    amd_channel_fini(&queue->channel);
    hcq_queue_fini(base);
    pthread_mutex_unlock(&control->scratch_lock);
    amd_queue_free(queue);
}
