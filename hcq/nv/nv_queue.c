/* Queues: submissions, room in the rings.
 *
 * A submission is one piece of the push ring: what a new channel or new code
 * asks for, the packets' methods, the release of the queue's timeline, and
 * behind them descriptors and constants. Where a launch is last, its descriptor
 * releases the timeline, and the next submission waits for idle. The piece is
 * given back when the timeline has come to its value. The launch path reads no
 * memory of the card's.
 */
#include <assert.h>

#include "base/alloc.h"
#include "base/bits.h"
#include "hcq/nv/nv_command.h"

#define RING_MAX_BYTES (4u << 20) /* one ring entry holds 8 MiB - 4 */

static struct nv_device *
device_of(const struct nv_queue *queue)
{
    return nv_device_of(queue->base.dev);
}

bell_status
nv_queue_room(struct nv_queue *queue, const struct hcq_extent *extent,
              struct nv_push *out_push)
{
    uint64_t offset, data_at;

    BELL_TRY(hcq_ring_room(&queue->base, extent, &offset, &data_at));
    *out_push = (struct nv_push){
        .engine = &queue->engine,
        .at = (uint32_t *)queue->push.cpu + offset / 4,
        .data = (uint8_t *)queue->push.cpu + offset + data_at,
        .data_va = queue->push.va + offset + data_at,
        .busy = queue->busy,
    };
    assert(extent->n_units == 0 || out_push->data_va % NV_UNIT_BYTES == 0);
    return BELL_OK;
}

/* ---- what goes before ---------------------------------------------------- */

uint32_t
nv_queue_prologue_dw(struct nv_queue *queue)
{
    uint32_t epoch = atomic_load_explicit(&device_of(queue)->code_epoch,
                                          memory_order_acquire);

    if (queue->needs_setup)
        return NV_SETUP_DW;
    /* copy engines run no code */
    return !queue->engine.is_copy && queue->code_epoch != epoch ? NV_SETUP_DW
                                                                : 0;
}

void
nv_queue_prologue(struct nv_queue *queue, struct nv_push *push)
{
    struct nv_device *dev = device_of(queue);

    queue->code_epoch =
        atomic_load_explicit(&dev->code_epoch, memory_order_acquire);
    nv_push_idle(push);
    if (queue->needs_setup) {
        nv_push_setup(push, &dev->chip);
        queue->local_epoch = 0;
    }
    pthread_mutex_lock(&dev->base.lock);
    if (queue->local_epoch != dev->local.epoch) {
        nv_push_local(push, &dev->local);
        queue->local_epoch = dev->local.epoch;
    }
    pthread_mutex_unlock(&dev->base.lock);
    nv_push_invalidate(push);
    queue->needs_setup = false;
}

/* ---- submission ---------------------------------------------------------- */

void
nv_queue_entry(struct nv_queue *queue, const uint32_t *start,
               const struct nv_push *push)
{
    uint64_t offset =
        (uint64_t)((const uint8_t *)start - (const uint8_t *)queue->push.cpu);

    assert(push->at >= start);
    assert(offset + 4ull * (uint64_t)(push->at - start) <=
           queue->push.size_bytes);
    nv_channel_entry(&queue->channel, queue->push.va + offset,
                     (uint32_t)(push->at - start));
}

void
nv_queue_commit(struct nv_queue *queue, uint64_t value,
                struct hcq_stream *stream)
{
    uint64_t put = queue->ring.slot_put;
    uint32_t mask = queue->channel.n_entries - 1;

    hcq_ring_note(&queue->base, value, stream,
                  put + ((queue->channel.put - (uint32_t)put) & mask));
    nv_channel_ring(&queue->channel);
}

bell_status
nv_queue_submit(struct hcq_queue *base, uint64_t value)
{
    struct nv_queue *queue = nv_queue_of(base);
    struct hcq_extent *extent = &queue->ring.fresh; /* made anew by a begin */
    uint32_t prologue_dw = nv_queue_prologue_dw(queue), pos = 0, *start;
    const struct hcq_cs *cs = &base->cs;
    const struct hcq_packet *packet;
    struct nv_push push;

    extent->n_dw = extent->n_dw - NV_SETUP_DW + prologue_dw;
    BELL_TRY(nv_queue_room(queue, extent, &push));
    start = push.at;
    if (__builtin_expect(prologue_dw != 0, 0))
        nv_queue_prologue(queue, &push);
    while (pos < cs->n_dw) {
        packet = hcq_packet_at(cs->words, pos);
        push.after.links = nv_packet_links(cs, pos);
        pos += packet->head.n_dw;
        if (pos == cs->n_dw && packet->head.op == HCQ_OP_EXEC &&
            nv_program_of(hcq_exec_of(packet))->launch->releases) {
            push.after.release_va = base->timeline->va;
            push.after.release_value = value;
        }
        nv_push_packet(&push, packet);
    }
    if (!push.after.release_va)
        nv_push_finish(&push, base->timeline->va, value);
    assert((uint32_t)(push.at - start) <= extent->n_dw);
    queue->busy = push.busy;
    hcq_log_words(base, "", start, push.at);
    nv_queue_entry(queue, start, &push);
    nv_queue_commit(queue, value, NULL);
    return BELL_OK;
}

/* ---- life ---------------------------------------------------------------- */

void
nv_queue_restart(struct nv_queue *queue)
{

    hcq_ring_drop(&queue->ring, queue->channel.put);
    queue->needs_setup = true;
    queue->busy = false;
}

static void
nv_queue_free(struct nv_queue *queue)
{

    nv_channel_fini(&queue->channel);
    nv_mem_free(device_of(queue), &queue->push);
    hcq_ring_fini(&queue->ring);
    host_free(queue);
}

static bell_status
nv_queue_make(struct nv_queue *queue, struct nv_device *dev,
              uint32_t ring_bytes, bool is_copy)
{
    queue->base.dev = &dev->base;
    queue->needs_setup = true;
    nv_engine_init(&queue->engine, &dev->chip, is_copy);
    if (!is_copy) {
        BELL_TRY(nv_move_load(dev));
        queue->engine.move = dev->move;
        queue->engine.card_va = dev->card_va;
        queue->engine.card_va_end = dev->card_va_end;
        queue->engine.far_va = dev->far_va;
        queue->engine.far_va_end = dev->far_va_end;
    }
    queue->base.sync_va_end = queue->engine.host_va_end;
    queue->base.copy_va_end = queue->engine.copy_va_end;
    BELL_TRY(hcq_ring_init(&queue->ring, ring_bytes, 8, NV_UNIT_BYTES));
    BELL_TRY(nv_mem_alloc(dev, ring_bytes, 4096, NV_MEM_VISIBLE, &queue->push));
    BELL_TRY(nv_channel_init(dev, is_copy, 0, &queue->channel));
    queue->base.ring = &queue->ring;
    queue->base.words = HCQ_WORDS_NV;
    queue->base.clears_signals = true;
    queue->ring.max_slots = queue->channel.n_entries - 1;
    queue->ring.slot_name = "entries";
    queue->ring.own = (struct hcq_extent){
        .n_dw = NV_SETUP_DW + NV_FINISH_DW,
        .n_slots = 1,
    };
    return BELL_OK;
}

bell_status
nv_queue_create(struct hcq_device *base_dev, const struct hcq_queue_desc *desc,
                struct hcq_queue **out_queue)
{
    struct nv_device *dev = nv_device_of(base_dev);
    struct nv_queue *queue;
    uint32_t ring_bytes;
    bell_status status;

    BELL_TRY(hcq_queue_ring_bytes(base_dev, desc, RING_MAX_BYTES, &ring_bytes));
    queue = host_calloc(1, sizeof(*queue));
    if (!queue)
        return bell_fail(BELL_E_NO_MEMORY, "%s: out of memory for a queue",
                         base_dev->info.name);
    status =
        nv_queue_make(queue, dev, ring_bytes, desc->kind == HCQ_QUEUE_COPY);
    /* Packets are never larger than what they become. */
    if (status == BELL_OK)
        status = hcq_queue_init(&queue->base, base_dev, desc, ring_bytes);
    if (status != BELL_OK) {
        nv_queue_free(queue);
        return status;
    }
    *out_queue = &queue->base;
    return BELL_OK;
}

void
nv_queue_destroy(struct hcq_queue *base)
{
    struct nv_queue *queue = nv_queue_of(base);

    assert(queue->ring.slot_tail <= queue->ring.slot_put);
    /* The channel first: it may still write the timeline. */
    nv_queue_reset(queue);
    nv_channel_fini(&queue->channel);
    hcq_queue_fini(base);
    nv_queue_free(queue);
}
