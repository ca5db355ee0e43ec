/* Queues: packets become the card's commands, entries of a ring point there,
 * the doorbell says how many. */
#include "hcq/template/template.h"

#include <errno.h>
#include <string.h>

#include "base/alloc.h"
#include "base/bits.h"

#define RING_MAX_BYTES (16u << 20)
#define N_ENTRIES      1024u
#define FINISH_WORDS   3u /* the timeline's store, behind each submission */

/* ---- commands ------------------------------------------------------------ */

/* This card's commands have their operands in the packets' order, so they are
 * as long, and a patched field has the same place in both. Where a card wants
 * something else, this is where it is made (hcq/amd/amd_encode.c). */
struct hcq_extent
template_packet_measure(struct hcq_cs *cs, struct hcq_packet *packet)
{
    (void)cs;
    return (struct hcq_extent){.n_dw = packet->head.n_dw};
}

static void
put_packet(uint64_t *to, const struct hcq_packet *packet)
{
    static const uint8_t commands[HCQ_OP_COUNT] = {
        [HCQ_OP_WAIT] = TEMPLATE_WAIT,
        [HCQ_OP_SIGNAL] = TEMPLATE_STORE64,
        [HCQ_OP_TIMESTAMP] = TEMPLATE_TIME,
        [HCQ_OP_BARRIER] = TEMPLATE_FENCE,
        [HCQ_OP_COPY] = TEMPLATE_COPY,
        [HCQ_OP_FILL] = TEMPLATE_FILL,
        [HCQ_OP_POLL] = TEMPLATE_POLL,
        [HCQ_OP_WRITE32] = TEMPLATE_STORE32,
        [HCQ_OP_WRITE64] = TEMPLATE_STORE64,
    };
    uint32_t n_words = packet->head.n_dw / 2u;

    to[0] = TEMPLATE_HEAD(commands[packet->head.op], n_words);
    memcpy(to + 1, packet->word, (size_t)(n_words - 1) * 8);
}

static void
put_packets(uint64_t *to, const struct hcq_cs *cs)
{
    const struct hcq_packet *packet;
    uint32_t pos;

    for (pos = 0; pos < cs->n_dw; pos += packet->head.n_dw) {
        packet = hcq_packet_at(cs->words, pos);
        put_packet(to + pos / 2, packet);
    }
}

/* ---- submissions --------------------------------------------------------- */

static void
put_entry(struct template_queue *queue, uint64_t slot, uint64_t va,
          uint64_t n_words)
{
    struct template_entry *entries = queue->entries.host;

    entries[slot & (N_ENTRIES - 1)] = (struct template_entry){va, n_words};
}

/* Ends a submission of the push ring's words [offset, offset + n_words * 8),
 * the last of which are not written yet, and rings. */
static void
finish(struct template_queue *queue, uint64_t offset, uint64_t n_words,
       uint64_t slot, uint64_t value, struct hcq_stream *stream)
{
    struct template_regs *regs = template_device_of(queue->base.dev)->regs;
    uint64_t *words = (void *)((uint8_t *)queue->push.host + offset);

    words += n_words - FINISH_WORDS;
    words[0] = TEMPLATE_HEAD(TEMPLATE_STORE64, FINISH_WORDS);
    words[1] = queue->base.timeline->va;
    words[2] = value;
    put_entry(queue, slot, queue->push.va + offset, n_words);
    hcq_ring_note(&queue->base, value, stream, slot + 1);
    hcq_flush_writes();
    __atomic_store_n(&regs->doorbell[queue->id], slot + 1, __ATOMIC_RELEASE);
}

bell_status
template_queue_submit(struct hcq_queue *base, uint64_t value)
{
    struct template_queue *queue = template_queue_of(base);
    uint64_t offset, data_at;

    BELL_TRY(hcq_ring_room(base, &queue->ring.fresh, &offset, &data_at));
    put_packets((void *)((uint8_t *)queue->push.host + offset), &base->cs);
    finish(queue, offset, base->cs.n_dw / 2 + FINISH_WORDS,
           queue->ring.slot_put, value, NULL);
    return BELL_OK;
}

/* ---- bound streams: commands that stay ----------------------------------- */

static struct template_stream *
stream_of(const struct hcq_stream *stream)
{
    return HCQ_CONTAINER(stream->form, struct template_stream, base);
}

bell_status
template_stream_bind(struct hcq_stream *stream)
{
    struct template_stream *bound = host_calloc(1, sizeof(*bound));
    bell_status status;

    if (!bound)
        return bell_fail(BELL_E_NO_MEMORY, "stream '%s': out of memory",
                         stream->name);
    status = template_mem_new(template_device_of(stream->queue->dev),
                              (uint64_t)stream->cs.n_dw * 4, &bound->words);
    if (status != BELL_OK) {
        host_free(bound);
        return status;
    }
    stream->form = &bound->base;
    put_packets(bound->words.host, &stream->cs);
    return BELL_OK;
}

void
template_stream_unbind(struct hcq_stream *stream)
{
    struct template_stream *bound = stream_of(stream);

    template_mem_end(template_device_of(stream->queue->dev), &bound->words);
    host_free(bound);
    stream->form = NULL;
}

void
template_stream_repack(struct hcq_stream *stream, const struct hcq_place *place)
{
    uint32_t *words = stream_of(stream)->words.host;

    memcpy(words + place->dw, stream->cs.words + place->dw,
           (size_t)place->n_dw * 4);
}

bell_status
template_stream_submit(struct hcq_stream *stream, uint64_t value)
{
    struct template_queue *queue = template_queue_of(stream->queue);
    const struct hcq_extent extent = {.n_dw = 2 * FINISH_WORDS, .n_slots = 2};
    uint64_t offset, data_at, slot;

    BELL_TRY(hcq_ring_room(stream->queue, &extent, &offset, &data_at));
    slot = queue->ring.slot_put;
    put_entry(queue, slot, stream_of(stream)->words.va, stream->cs.n_dw / 2);
    finish(queue, offset, FINISH_WORDS, slot + 1, value, stream);
    return BELL_OK;
}

/* ---- life ---------------------------------------------------------------- */

static void
free_queue(struct template_queue *queue)
{
    struct template_device *dev = template_device_of(queue->base.dev);
    struct template_queue_args args = {.id = queue->id};

    if (queue->is_made)
        (void)kio_ioctl_give_back(&dev->file, TEMPLATE_END_QUEUE, &args);
    template_mem_end(dev, &queue->entries);
    template_mem_end(dev, &queue->push);
    hcq_ring_fini(&queue->ring);
    host_free(queue);
}

static bell_status
make_queue(struct template_queue *queue, const struct hcq_queue_desc *desc,
           uint32_t ring_bytes)
{
    struct template_device *dev = template_device_of(queue->base.dev);
    struct template_queue_args args = {.n_entries = N_ENTRIES};
    bell_status status;

    queue->base.sync_va_end = queue->base.copy_va_end = UINT64_MAX;
    queue->base.ring = &queue->ring;
    queue->ring.max_slots = N_ENTRIES;
    queue->ring.slot_name = "entries";
    queue->ring.own =
        (struct hcq_extent){.n_dw = 2 * FINISH_WORDS, .n_slots = 1};
    BELL_TRY(hcq_ring_init(&queue->ring, ring_bytes, 8, 8));
    BELL_TRY(template_mem_new(dev, ring_bytes, &queue->push));
    BELL_TRY(template_mem_new(dev, N_ENTRIES * sizeof(struct template_entry),
                              &queue->entries));
    args.ring_va = queue->entries.va;
    status = kio_ioctl(&dev->file, TEMPLATE_NEW_QUEUE, &args);
    if (status == BELL_E_KERNEL && errno == ENOSPC)
        return bell_fail(BELL_E_UNSUPPORTED, "%s: %u queues are the limit",
                         dev->base.info.name, TEMPLATE_MAX_QUEUES);
    BELL_TRY(status);
    queue->id = args.id;
    queue->is_made = true;
    BELL_TRY(hcq_queue_init(&queue->base, &dev->base, desc, ring_bytes));
    return BELL_OK;
}

bell_status
template_queue_create(struct hcq_device *base,
                      const struct hcq_queue_desc *desc,
                      struct hcq_queue **out_queue)
{
    struct template_queue *queue;
    uint32_t ring_bytes;
    bell_status status;

    BELL_TRY(hcq_queue_ring_bytes(base, desc, RING_MAX_BYTES, &ring_bytes));
    queue = host_calloc(1, sizeof(*queue));
    if (!queue)
        return bell_fail(BELL_E_NO_MEMORY, "%s: out of memory for a queue",
                         base->info.name);
    queue->base.dev = base;
    status = make_queue(queue, desc, ring_bytes);
    if (status != BELL_OK) {
        free_queue(queue);
        return status;
    }
    *out_queue = &queue->base;
    return BELL_OK;
}

void
template_queue_destroy(struct hcq_queue *base)
{
    struct template_queue *queue = template_queue_of(base);
    struct template_device *dev = template_device_of(base->dev);
    struct template_queue_args args = {.id = queue->id};

    /* Before the timeline goes, which the card may still write. */
    (void)kio_ioctl_give_back(&dev->file, TEMPLATE_END_QUEUE, &args);
    queue->is_made = false;
    hcq_queue_fini(base);
    free_queue(queue);
}
