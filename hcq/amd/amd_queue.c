/* Queues: submissions, room in the rings, reports.
 *
 * A submission is one piece of the push ring: what makes the host's writes
 * visible, the packets' words, the release of the queue's timeline, and behind
 * them the arguments of launches; and slots of the channel's ring that point
 * there, or on a copy queue the words once more. Both are given back when the timeline has come to its value; on a
 * chip of several dies the release of the timeline lies elsewhere, because
 * other dies may read it later.
 */
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/bits.h"
#include "base/thread.h"
#include "hcq/amd/amd_command.h"
#include "hcq/amd/amd_kfd.h"

#define RING_MAX_BYTES (2u << 20) /* one indirect buffer holds 4 MiB - 4 */

/* Of the channel's own ring: a launch on an AQL queue takes up to two slots, and
 * streams that have more than the ring go through it in parts. */
#define AQL_RING_BYTES  (1u << 20)
#define SDMA_RING_BYTES (1u << 18) /* its commands themselves */
#define RING_SLOT_BYTES (1u << 16)

/* How often a thread that spins looks for faults. */
#define LOOK_NS 1000000ull

/* In a signal's memory, behind value and timestamp. */
#define IDLE_WORD_OFFSET 16u

/* ---- room ------------------------------------------------------------------ */

/* Takes back what the device is done with; false: nothing. */
static bool
retire(struct amd_queue *queue)
{
    struct amd_queue_priv *priv = amd_priv_of(queue);

    return hcq_history_retire(&priv->history, queue->base.timeline,
                              &queue->push_ring, &priv->slot_tail);
}

uint64_t
amd_queue_slots(const struct amd_queue *queue)
{
    const struct amd_queue_priv *priv = queue->priv;

    return queue->channel.ring_bytes / 4 / priv->engine.slot_dw;
}

/* A slot's size as the channel counts. */
static uint32_t
queue_units(const struct amd_queue *queue)
{
    static const uint8_t units[] = {
        [AMD_RING_PM4] = 4,
        [AMD_RING_AQL] = 1,
        [AMD_RING_SDMA] = 4,
    };

    return units[queue->channel.kind];
}

/* What wakes is read when the timeline is there already: that of the last
 * submission may not be written over yet, all before has been read. */
uint64_t
amd_queue_max_slots(const struct amd_queue *queue)
{
    const struct amd_engine *engine =
        &((struct amd_queue_priv *)queue->priv)->engine;
    uint64_t unread = 1; /* one stays free */

    if (engine->kind == AMD_RING_SDMA && engine->n_wake)
        unread = engine->n_wake + AMD_SDMA_TAIL_DW;
    return amd_queue_slots(queue) - unread;
}

/* Whether n_slots fit in the channel's ring, and one more submission can be
 * noted. */
static bool
has_slots(const struct amd_queue *queue, uint64_t n_slots)
{
    const struct amd_queue_priv *priv = queue->priv;

    return n_slots + (priv->slot_put - priv->slot_tail) <=
               amd_queue_max_slots(queue) &&
           hcq_history_outstanding(&priv->history) < HCQ_HISTORY_RECORDS;
}

/* Waits until some of what is in the rings is done. */
static bell_status
wait_for_room(struct amd_queue *queue, uint64_t n_slots, uint64_t size_bytes)
{
    const char *slots = amd_slots_name(&amd_priv_of(queue)->engine);
    uint64_t value = amd_priv_of(queue)->history.retired + 1;
    bell_status status;

    if (has_slots(queue, n_slots))
        value =
            mem_ring_wait_value(&queue->push_ring, size_bytes, AMD_UNIT_BYTES);
    if (value == 0 || n_slots > amd_queue_max_slots(queue))
        return bell_fail(BELL_E_INVALID,
                         "%s: %llu bytes and %llu %s are larger than the ring, "
                         "which takes %llu and %llu",
                         queue->base.name, (unsigned long long)size_bytes,
                         (unsigned long long)n_slots, slots,
                         (unsigned long long)queue->push_ring.size_bytes,
                         (unsigned long long)amd_queue_max_slots(queue));
    status = hcq_signal_wait(queue->base.timeline, value,
                             queue->base.submit_timeout_ns);
    if (status == BELL_E_TIMEOUT)
        bell_error_prefix("%s: no room for %llu bytes and %llu %s",
                          queue->base.name, (unsigned long long)size_bytes,
                          (unsigned long long)n_slots, slots);
    return status;
}

/* Slots that the card has taken can be written anew, whatever becomes of the
 * submission that they belong to. */
static bell_status
wait_for_slots(struct amd_queue *queue, uint64_t n)
{
    struct hcq_device *dev = queue->base.dev;
    uint64_t enough = (n + 1) * queue_units(queue); /* one stays free */
    uint64_t start_ns, spun_ns = 0, look_ns = 0;

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
        if (spun_ns > queue->base.submit_timeout_ns)
            return hcq_timeout_report(
                dev, "no room in a ring: the card takes nothing");
    }
    return BELL_OK;
}

/* Of several dies one releases the timeline, and others come to that slot
 * later; and the card marks the packets that it is done with as invalid: what
 * was written there before would be lost. The read index says what is free. */
static bell_status
wait_until_taken(struct amd_queue *queue, uint64_t n_slots)
{
    struct amd_queue_priv *priv = amd_priv_of(queue);

    if (priv->engine.kind != AMD_RING_AQL ||
        priv->slot_put + n_slots - priv->slot_taken < amd_queue_slots(queue))
        return BELL_OK;
    BELL_TRY(wait_for_slots(queue, n_slots));
    priv->slot_taken = __atomic_load_n(queue->channel.rptr, __ATOMIC_ACQUIRE);
    return BELL_OK;
}

bell_status
amd_queue_room(struct amd_queue *queue, uint64_t n_dw, uint64_t n_units,
               uint64_t n_slots, struct amd_push *out_push)
{
    struct amd_queue_priv *priv = amd_priv_of(queue);
    uint64_t data_at = align_up(n_dw * 4, AMD_UNIT_BYTES), offset;
    uint64_t size_bytes = data_at + n_units * AMD_UNIT_BYTES;
    uint8_t *push = queue->push.cpu;

    for (;;) {
        if (has_slots(queue, n_slots)) {
            BELL_TRY(wait_until_taken(queue, n_slots));
            if (mem_ring_alloc(&queue->push_ring, size_bytes, AMD_UNIT_BYTES,
                               &offset))
                break;
        }
        if (!retire(queue))
            BELL_TRY(wait_for_room(queue, n_slots, size_bytes));
    }
    *out_push = (struct amd_push){
        .engine = &priv->engine,
        .at = (uint32_t *)(void *)(push + offset),
        .piece = (uint32_t *)(void *)(push + offset),
        .data = push + offset + data_at,
        .slots = queue->channel.ring,
        .slot = priv->slot_put,
        .slot_mask = amd_queue_slots(queue) - 1,
    };
    return BELL_OK;
}

bell_status
amd_queue_pour(struct amd_queue *queue, const uint32_t *slots, uint64_t n_slots)
{
    struct amd_queue_priv *priv = amd_priv_of(queue);
    bool is_sdma = priv->engine.kind == AMD_RING_SDMA;
    uint64_t n_ring = amd_queue_slots(queue), i, n;
    struct amd_push push = {
        .engine = &priv->engine,
        .slots = queue->channel.ring,
        .slot_mask = n_ring - 1,
    };
    bell_status status = BELL_OK;

    BELL_TRY(hcq_signal_wait(
        queue->base.timeline,
        atomic_load_explicit(&priv->history.last_value, memory_order_relaxed),
        queue->base.submit_timeout_ns));
    retire(queue);
    for (i = 0; i < n_slots && status == BELL_OK; i += n) {
        n = is_sdma ? amd_sdma_size(slots + i) : 1;
        status = wait_for_slots(queue, is_sdma ? n + AMD_SDMA_TAIL_DW : n);
        if (status != BELL_OK)
            break;
        push.slot = priv->slot_put;
        amd_push_slots(&push, slots + i * priv->engine.slot_dw, n);
        priv->slot_put = push.slot;
        queue->channel.put = priv->slot_put * queue_units(queue);
    }
    if (status == BELL_OK)
        status =
            wait_for_slots(queue, amd_finish_slots(&priv->engine) + n_ring -
                                      amd_queue_max_slots(queue) - 1);
    amd_channel_ring(&queue->channel);
    priv->slot_tail = priv->slot_put - n_ring +
                      amd_channel_room(&queue->channel) / queue_units(queue);
    return status;
}

/* ---- submission ------------------------------------------------------------------ */

void
amd_queue_commit(struct amd_queue *queue, uint64_t value, const uint32_t *start,
                 struct amd_push *push, struct hcq_stream *stream)
{
    struct amd_queue_priv *priv = amd_priv_of(queue);
    const struct hcq_cs *cs = &queue->base.cs;
    uint64_t offset =
        (uint64_t)((const uint8_t *)start - (const uint8_t *)queue->push.cpu);

    amd_push_slots(push, priv->engine.wake, priv->engine.n_wake);
    priv->slot_put = push->slot;
    hcq_history_note(&priv->history, value, offset, cs->words,
                     stream ? 0 : cs->n_dw, stream, push->slot);
    mem_ring_fence(&queue->push_ring, value);
    queue->channel.put = push->slot * queue_units(queue);
    amd_channel_ring(&queue->channel);
}

bell_status
amd_queue_submit(struct hcq_queue *base, uint64_t value)
{
    struct amd_queue *queue = amd_queue_of(base);
    const struct amd_queue_priv *priv = amd_priv_of(queue);
    const struct hcq_cs *cs = &base->cs;
    uint64_t n_dw = AMD_BEGIN_DW + AMD_FINISH_DW;
    uint32_t n_units = 0, n_slots = amd_fresh_slots(&priv->engine);
    uint32_t pos = 0, *start;
    struct amd_push push;

    if (cs->n_dw) {
        n_dw = priv->fresh_dw;
        n_units = priv->fresh_units;
        n_slots = priv->fresh_slots;
    }
    BELL_TRY(amd_queue_room(queue, n_dw, n_units, n_slots, &push));
    start = push.at;
    amd_push_begin(&push);
    while (pos < cs->n_dw) {
        const struct hcq_packet *packet = hcq_packet_at(cs->words, pos);

        amd_push_packet(&push, packet);
        pos += packet->head.n_dw;
    }
    amd_push_finish(&push, base->timeline->va, value);
    amd_queue_commit(queue, value, start, &push, NULL);
    return BELL_OK;
}

void
amd_queue_describe(struct amd_queue *queue, char *text, size_t size_bytes)
{
    hcq_history_describe(&amd_priv_of(queue)->history, &queue->base, text,
                         size_bytes);
}

/* ---- life -------------------------------------------------------------------------- */

/* It lies behind what the releases need. */
static void
clear_gate(struct amd_queue *queue)
{
    uint64_t offset = (AMD_FINISH_UNITS + 1) * AMD_UNIT_BYTES;

    amd_priv_of(queue)->engine.gate_va = queue->finish.va + offset;
    memset((uint8_t *)queue->finish.cpu + offset, 0, AMD_UNIT_BYTES);
}

void
amd_queue_restart(struct amd_queue *queue)
{
    struct amd_queue_priv *priv = amd_priv_of(queue);

    hcq_history_drop(&priv->history, &queue->push_ring);
    priv->slot_put = priv->slot_tail = priv->slot_taken = 0;
    if (priv->engine.finish)
        clear_gate(queue);
}

static void
free_queue(struct amd_queue *queue)
{
    struct amd_queue_priv *priv = amd_priv_of(queue);

    amd_channel_fini(&queue->channel);
    amd_mem_free(amd_device_of(queue->base.dev), &queue->scratch.mem);
    amd_mem_free(amd_device_of(queue->base.dev), &queue->finish);
    amd_mem_free(amd_device_of(queue->base.dev), &queue->push);
    mem_ring_fini(&queue->push_ring);
    if (priv)
        hcq_history_fini(&priv->history);
    host_free(priv);
    host_free(queue);
}

/* Memory of the engine's own words. */
static bell_status
make_finish(struct amd_queue *queue, struct amd_device *dev)
{
    struct amd_engine *engine = &amd_priv_of(queue)->engine;
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
    amd_engine_wakes(engine,
                     words ? (void *)(words + n_units * AMD_UNIT_BYTES) : NULL,
                     process->event_page.va + 8ull * process->signal_event,
                     process->signal_event);
    return BELL_OK;
}

static bell_status
make_queue(struct amd_queue *queue, struct amd_device *dev, uint32_t ring_bytes,
           enum amd_ring_kind kind)
{
    static const uint32_t channel_bytes[] = {
        [AMD_RING_PM4] = RING_SLOT_BYTES,
        [AMD_RING_AQL] = AQL_RING_BYTES,
        [AMD_RING_SDMA] = SDMA_RING_BYTES,
    };
    struct amd_queue_priv *priv = host_calloc(1, sizeof(*priv));

    queue->base.dev = &dev->base;
    queue->priv = priv;
    if (!priv)
        return bell_fail(BELL_E_NO_MEMORY, "%s: no memory for a queue",
                         dev->base.info.name);
    amd_engine_init(&priv->engine, dev, kind);
    priv->engine.scratch = &queue->scratch;
    queue->base.history = &priv->history;
    queue->base.sync_va_end = queue->base.copy_va_end = AMD_VA_END;
    BELL_TRY(hcq_history_init(&priv->history, ring_bytes));
    BELL_TRY(mem_ring_init(&queue->push_ring, ring_bytes, HCQ_HISTORY_RECORDS));
    BELL_TRY(amd_mem_alloc(dev, ring_bytes, AMD_MEM_GTT, &queue->push));
    BELL_TRY(make_finish(queue, dev));
    return amd_channel_init(dev, kind, channel_bytes[kind], &queue->channel);
}

/* From here on the device's list tells the queue when scratch grows. */
static bell_status
join_device(struct amd_queue *queue, struct amd_device *dev,
            const struct hcq_queue_desc *desc, uint32_t ring_bytes)
{
    struct amd_control *control = amd_control_of(dev);
    bell_status status;

    pthread_mutex_lock(&control->scratch_lock);
    status = amd_scratch_join(queue);
    if (status == BELL_OK && amd_priv_of(queue)->engine.move)
        status = amd_move_load(dev);
    /* Packets are never larger than what they become. */
    if (status == BELL_OK)
        status = hcq_queue_init(&queue->base, &dev->base, desc, ring_bytes);
    pthread_mutex_unlock(&control->scratch_lock);
    return status;
}

bell_status
amd_queue_create(struct hcq_device *base_dev, const struct hcq_queue_desc *desc,
                 struct hcq_queue **out_queue)
{
    struct amd_device *dev = amd_device_of(base_dev);
    enum amd_ring_kind kind = desc->kind == HCQ_QUEUE_COPY ? AMD_RING_SDMA
                              : dev->gen->uses_aql         ? AMD_RING_AQL
                                                           : AMD_RING_PM4;
    struct amd_queue *queue;
    uint32_t ring_bytes;
    bell_status status;

    BELL_TRY(hcq_queue_ring_bytes(base_dev, desc, RING_MAX_BYTES, &ring_bytes));
    queue = host_calloc(1, sizeof(*queue));
    if (!queue)
        return bell_fail(BELL_E_NO_MEMORY, "%s: no memory for a queue",
                         base_dev->info.name);
    status = make_queue(queue, dev, ring_bytes, kind);
    if (status == BELL_OK)
        status = join_device(queue, dev, desc, ring_bytes);
    if (status != BELL_OK) {
        free_queue(queue);
        return status;
    }
    amd_priv_of(queue)->engine.idle_va =
        queue->base.timeline->va + IDLE_WORD_OFFSET;
    *out_queue = &queue->base;
    return BELL_OK;
}

void
amd_queue_destroy(struct hcq_queue *base)
{
    struct amd_queue *queue = amd_queue_of(base);
    struct amd_control *control = amd_control_of(amd_device_of(base->dev));

    pthread_mutex_lock(&control->scratch_lock);
    /* The channel first: it may still write the timeline. */
    amd_channel_fini(&queue->channel);
    hcq_queue_fini(base);
    pthread_mutex_unlock(&control->scratch_lock);
    free_queue(queue);
}
