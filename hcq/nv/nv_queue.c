/* Queues: submissions, room in the rings.
 *
 * A submission is one piece of the push ring: what a new channel or new code
 * asks for, the packets' methods, the release of the queue's timeline, and
 * behind them descriptors and constants. Where a launch is last, its descriptor
 * releases the timeline, and the next submission waits for idle. The piece is
 * given back when the timeline has come to its value. The launch path reads no
 * memory of the card's.
 */
#include "base/alloc.h"
#include "base/bits.h"
#include "hcq/nv/nv_command.h"

#define RING_MAX_BYTES (4u << 20) /* one ring entry holds 8 MiB - 4 */

/* ---- room ------------------------------------------------------------------ */

/* Whether n_entries fit in the channel's ring, with one left, and one more
 * submission can be noted. */
static bool
has_entries(const struct nv_queue *queue, uint32_t n_entries)
{
    const struct nv_queue_priv *priv = queue->priv;
    const struct nv_channel *channel = &queue->channel;
    uint32_t used =
        (channel->put - (uint32_t)priv->gp_tail) & (channel->n_entries - 1);

    return n_entries < channel->n_entries - used &&
           hcq_history_outstanding(&priv->history) < HCQ_HISTORY_RECORDS;
}

static bell_status
refuse_size(const struct nv_queue *queue, uint32_t n_entries,
            uint32_t size_bytes)
{
    return bell_fail(BELL_E_INVALID,
                     "%s: %u bytes and %u entries are larger than the ring, "
                     "which takes %llu and %u",
                     queue->base.name, size_bytes, n_entries,
                     (unsigned long long)queue->push_ring.size_bytes,
                     queue->channel.n_entries - 1);
}

/* What there was no room for, in front of the report of a wait. */
static void
name_shortage(const struct nv_queue *queue, uint32_t n_entries,
              uint32_t size_bytes)
{
    const struct nv_queue_priv *priv = queue->priv;

    if (hcq_history_outstanding(&priv->history) >= HCQ_HISTORY_RECORDS)
        bell_error_prefix("%s: no room for more than %u submissions",
                          queue->base.name, HCQ_HISTORY_RECORDS);
    else if (!has_entries(queue, n_entries))
        bell_error_prefix("%s: no room for %u entries in the ring of %u",
                          queue->base.name, n_entries,
                          queue->channel.n_entries);
    else
        bell_error_prefix("%s: no room for %u bytes in the ring of %llu",
                          queue->base.name, size_bytes,
                          (unsigned long long)queue->push_ring.size_bytes);
}

/* Waits until some of what is in the rings is done. */
static bell_status
wait_for_room(struct nv_queue *queue, uint32_t n_entries, uint32_t size_bytes)
{
    uint64_t value = nv_priv_of(queue)->history.retired + 1;
    bell_status status;

    if (has_entries(queue, n_entries))
        value =
            mem_ring_wait_value(&queue->push_ring, size_bytes, NV_UNIT_BYTES);
    if (value == 0 || n_entries >= queue->channel.n_entries)
        return refuse_size(queue, n_entries, size_bytes);
    status = hcq_signal_wait(queue->base.timeline, value,
                             queue->base.submit_timeout_ns);
    if (status == BELL_E_TIMEOUT)
        name_shortage(queue, n_entries, size_bytes);
    return status;
}

bell_status
nv_queue_room(struct nv_queue *queue, uint32_t n_dw, uint32_t n_units,
              uint32_t n_entries, struct nv_push *out_push)
{
    uint32_t data_at =
        (uint32_t)align_up(n_dw * 4ull, n_units ? NV_UNIT_BYTES : 8);
    uint32_t size_bytes = data_at + n_units * NV_UNIT_BYTES;
    struct nv_queue_priv *priv = nv_priv_of(queue);
    uint64_t offset;

    while (!has_entries(queue, n_entries) ||
           !mem_ring_alloc(&queue->push_ring, size_bytes,
                           n_units ? NV_UNIT_BYTES : 8, &offset)) {
        if (!hcq_history_retire(&priv->history, queue->base.timeline,
                                &queue->push_ring, &priv->gp_tail))
            BELL_TRY(wait_for_room(queue, n_entries, size_bytes));
    }
    *out_push = (struct nv_push){
        .engine = &priv->engine,
        .at = (uint32_t *)queue->push.cpu + offset / 4,
        .data = (uint8_t *)queue->push.cpu + offset + data_at,
        .data_va = queue->push.va + offset + data_at,
        .busy = priv->busy,
    };
    return BELL_OK;
}

/* ---- what goes before ---------------------------------------------------------- */

static struct nv_device *
device_of(const struct nv_queue *queue)
{
    return nv_device_of(queue->base.dev);
}

uint32_t
nv_queue_prologue_dw(struct nv_queue *queue)
{
    const struct nv_queue_priv *priv = nv_priv_of(queue);
    uint32_t epoch = atomic_load_explicit(&device_of(queue)->code_epoch,
                                          memory_order_acquire);

    return priv->needs_setup || priv->code_epoch != epoch ? NV_SETUP_DW : 0;
}

void
nv_queue_prologue(struct nv_queue *queue, struct nv_push *push)
{
    struct nv_queue_priv *priv = nv_priv_of(queue);
    struct nv_device *dev = device_of(queue);

    priv->code_epoch =
        atomic_load_explicit(&dev->code_epoch, memory_order_acquire);
    nv_push_idle(push);
    if (priv->needs_setup) {
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
    priv->needs_setup = false;
}

/* ---- submission ------------------------------------------------------------------ */

static uint64_t
push_offset(const struct nv_queue *queue, const uint32_t *at)
{
    return (uint64_t)((const uint8_t *)at - (const uint8_t *)queue->push.cpu);
}

void
nv_queue_entry(struct nv_queue *queue, const uint32_t *start,
               const struct nv_push *push)
{
    nv_channel_entry(&queue->channel,
                     queue->push.va + push_offset(queue, start),
                     (uint32_t)(push->at - start));
}

void
nv_queue_commit(struct nv_queue *queue, uint64_t value, const uint32_t *start,
                struct hcq_stream *stream)
{
    const struct hcq_cs *cs = &queue->base.cs;

    hcq_history_note(&nv_priv_of(queue)->history, value,
                     push_offset(queue, start), cs->words,
                     stream ? 0 : cs->n_dw, stream, queue->channel.put);
    mem_ring_fence(&queue->push_ring, value);
    nv_channel_ring(&queue->channel);
}

bell_status
nv_queue_submit(struct hcq_queue *base, uint64_t value)
{
    struct nv_queue *queue = nv_queue_of(base);
    struct nv_queue_priv *priv = nv_priv_of(queue);
    const struct hcq_cs *cs = &base->cs;
    uint32_t prologue_dw = nv_queue_prologue_dw(queue);
    uint32_t n_dw = NV_FINISH_DW, n_units = 0, pos = 0, *start;
    struct nv_push push;

    if (cs->n_dw) {
        n_dw = priv->fresh_dw - NV_SETUP_DW;
        n_units = priv->fresh_units;
    }
    BELL_TRY(nv_queue_room(queue, prologue_dw + n_dw, n_units, 1, &push));
    start = push.at;
    if (__builtin_expect(prologue_dw != 0, 0))
        nv_queue_prologue(queue, &push);
    while (pos < cs->n_dw) {
        const struct hcq_packet *packet = hcq_packet_at(cs->words, pos);

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
    priv->busy = push.busy;
    nv_queue_entry(queue, start, &push);
    nv_queue_commit(queue, value, start, NULL);
    return BELL_OK;
}

void
nv_queue_describe(struct nv_queue *queue, char *text, size_t size_bytes)
{
    hcq_history_describe(&nv_priv_of(queue)->history, &queue->base, text,
                         size_bytes);
}

/* ---- life -------------------------------------------------------------------------- */

void
nv_queue_restart(struct nv_queue *queue)
{
    struct nv_queue_priv *priv = nv_priv_of(queue);

    hcq_history_drop(&priv->history, &queue->push_ring);
    priv->gp_tail = queue->channel.put;
    priv->needs_setup = true;
    priv->busy = false;
}

static void
free_queue(struct nv_queue *queue)
{
    struct nv_queue_priv *priv = nv_priv_of(queue);

    nv_channel_fini(&queue->channel);
    nv_mem_free(device_of(queue), &queue->push);
    mem_ring_fini(&queue->push_ring);
    if (priv)
        hcq_history_fini(&priv->history);
    host_free(priv);
    host_free(queue);
}

static bell_status
make_queue(struct nv_queue *queue, struct nv_device *dev, uint32_t ring_bytes,
           bool is_copy)
{
    struct nv_queue_priv *priv = host_calloc(1, sizeof(*priv));

    queue->base.dev = &dev->base;
    queue->priv = priv;
    if (!priv)
        return bell_fail(BELL_E_NO_MEMORY, "%s: no memory for a queue",
                         dev->base.info.name);
    priv->needs_setup = true;
    nv_engine_init(&priv->engine, &dev->chip, is_copy);
    if (!is_copy) {
        BELL_TRY(nv_move_load(dev));
        priv->engine.move = dev->move;
        priv->engine.card_va = dev->card_va;
        priv->engine.card_va_end = dev->card_va_end;
    }
    queue->base.history = &priv->history;
    queue->base.sync_va_end = priv->engine.host_va_end;
    queue->base.copy_va_end = priv->engine.copy_va_end;
    BELL_TRY(hcq_history_init(&priv->history, ring_bytes));
    BELL_TRY(mem_ring_init(&queue->push_ring, ring_bytes, HCQ_HISTORY_RECORDS));
    BELL_TRY(nv_mem_alloc(dev, ring_bytes, 4096, NV_MEM_VISIBLE, &queue->push));
    BELL_TRY(nv_channel_init(dev, is_copy, 0, &queue->channel));
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
        return bell_fail(BELL_E_NO_MEMORY, "%s: no memory for a queue",
                         base_dev->info.name);
    status = make_queue(queue, dev, ring_bytes, desc->kind == HCQ_QUEUE_COPY);
    /* Packets are never larger than what they become. */
    if (status == BELL_OK)
        status = hcq_queue_init(&queue->base, base_dev, desc, ring_bytes);
    if (status != BELL_OK) {
        free_queue(queue);
        return status;
    }
    *out_queue = &queue->base;
    return BELL_OK;
}

void
nv_queue_destroy(struct hcq_queue *base)
{
    struct nv_queue *queue = nv_queue_of(base);

    /* The channel first: it may still write the timeline. */
    nv_queue_reset(queue);
    nv_channel_fini(&queue->channel);
    hcq_queue_fini(base);
    free_queue(queue);
}
