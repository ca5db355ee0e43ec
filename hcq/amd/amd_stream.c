/* Bound streams: encoded once into memory of their own, submitted by slots
 * that point there, or copied into the ring of a copy queue; patched in place.
 */
#include <assert.h>
#include <string.h>

#include "base/alloc.h"
#include "base/bits.h"
#include "hcq/amd/amd_command.h"
#include "hcq/amd/regs/amd_pm4.h"

/* A stream's words for the card. Owned by its hcq_stream. */
struct amd_stream {
    struct hcq_bound base; /* first; spots of each packet, whose slot is the
                            * last before its end, of an AQL launch its own */
    struct amd_mem mem;    /* words, then data */
    uint64_t data_at;      /* bytes from its start */
    uint32_t n_packets;
    uint32_t n_slots; /* SDMA: words */
    uint32_t *slots;  /* owned; SDMA: none */
};

static struct amd_stream *
amd_stream_of(const struct hcq_stream *stream)
{
    return HCQ_CONTAINER(stream->form, struct amd_stream, base);
}

static struct amd_queue *
stream_queue(const struct hcq_stream *base)
{
    return amd_queue_of(base->queue);
}

/* ---- encoding ------------------------------------------------------------ */

static struct amd_push
start_push(struct hcq_stream *base)
{
    struct amd_stream *stream = amd_stream_of(base);

    return (struct amd_push){
        .engine = &stream_queue(base)->engine,
        .at = stream->mem.cpu,
        .piece = stream->mem.cpu,
        .data = (uint8_t *)stream->mem.cpu + stream->data_at,
        .slots = stream->slots,
        .slot_mask = UINT64_MAX,
        .in_words = amd_in_words(&stream_queue(base)->engine, true),
    };
}

static void
amd_encode_stream(struct hcq_stream *base)
{
    struct amd_stream *stream = amd_stream_of(base);
    const struct hcq_cs *cs = &base->cs;
    struct amd_push push = start_push(base);
    const uint32_t *start = push.at;
    const uint8_t *data = push.data;
    const struct hcq_packet *packet = NULL;
    uint32_t pos = 0, n = 0;

    amd_pm4_open(&push);
    amd_push_begin(&push);
    while (pos < cs->n_dw) {
        struct hcq_spot *spot = &stream->base.spots[n++];

        packet = hcq_packet_at(cs->words, pos);
        amd_push_split(&push, packet);
        spot->packet_dw = pos;
        spot->word_dw = (uint32_t)(push.at - start);
        spot->data_unit = (uint32_t)((push.data - data) / AMD_UNIT_BYTES);
        amd_push_packet(&push, packet);
        spot->slot = (uint32_t)push.slot - 1;
        amd_pm4_meet(&push, packet);
        pos += packet->head.n_dw;
    }
    amd_pm4_close(&push, packet);
    amd_push_end(&push);
    assert(n == stream->n_packets);
    assert((uint64_t)(push.at - start) * 4 <= stream->data_at);
    hcq_log_words(base->queue, base->name, start, push.at);
    stream->n_slots = push.engine->kind == AMD_RING_SDMA
                          ? (uint32_t)(push.at - start)
                          : (uint32_t)push.slot;
}

/* ---- binding ------------------------------------------------------------- */

void
amd_stream_unbind(struct hcq_stream *base)
{
    struct amd_stream *stream = amd_stream_of(base);

    amd_mem_free(amd_device_of(base->queue->dev), &stream->mem);
    host_free(stream->slots);
    host_free(stream->base.spots);
    host_free(stream);
    base->form = NULL;
}

static bell_status
fill_stream(struct hcq_stream *base)
{
    struct amd_stream *stream = amd_stream_of(base);
    const struct amd_engine *engine = &stream_queue(base)->engine;
    struct hcq_extent extent = hcq_stream_extent(base, &stream->n_packets);
    uint64_t n_slots = 0, bytes;

    extent.n_dw += AMD_BEGIN_DW;
    if (amd_dies_meet(engine))
        extent.n_dw +=
            amd_pm4_open_dw(engine) + (stream->n_packets + 2ull) * AMD_MEET_DW;
    /* An indirect buffer that is full ends. */
    if (engine->kind != AMD_RING_SDMA)
        n_slots = 2 + extent.n_slots + extent.n_dw / (engine->piece_dw / 2);
    stream->data_at = align_up(extent.n_dw * 4, AMD_UNIT_BYTES);
    bytes = stream->data_at + (uint64_t)extent.n_units * AMD_UNIT_BYTES;
    if (bytes > UINT32_MAX)
        return bell_fail(BELL_E_NO_MEMORY,
                         "stream '%s': out of memory: %llu bytes for the card; "
                         "4 GiB are the "
                         "limit",
                         base->name, (unsigned long long)bytes);
    stream->base.spots =
        host_calloc(stream->n_packets, sizeof(*stream->base.spots));
    if (n_slots)
        stream->slots = host_calloc((size_t)n_slots, engine->slot_dw * 4);
    if (!stream->base.spots || (n_slots && !stream->slots))
        return bell_fail(BELL_E_NO_MEMORY,
                         "stream '%s': out of memory for %u commands",
                         base->name, stream->n_packets);
    BELL_TRY(amd_mem_alloc(amd_device_of(base->queue->dev), bytes, AMD_MEM_GTT,
                           &stream->mem));
    return BELL_OK;
}

/* Where the card reads what places of arguments are patched to. */
static void
find_arguments(struct hcq_stream *base)
{
    struct amd_stream *stream = amd_stream_of(base);
    uint8_t *data = (uint8_t *)stream->mem.cpu + stream->data_at;
    size_t i;

    for (i = 0; i < base->n_places; i++) {
        struct hcq_place *place = &base->places[i];
        const struct hcq_spot *spot =
            hcq_spot_find(stream->base.spots, stream->n_packets, place->dw);
        uint32_t word = place->dw - spot->packet_dw;

        if (hcq_packet_at(base->cs.words, spot->packet_dw)->head.op ==
                HCQ_OP_EXEC &&
            word >= HCQ_EXEC_DW)
            place->card = data + (uint64_t)spot->data_unit * AMD_UNIT_BYTES +
                          (word - HCQ_EXEC_DW) / 2 * 8;
    }
}

bell_status
amd_stream_bind(struct hcq_stream *base)
{
    struct amd_stream *stream = host_calloc(1, sizeof(*stream));

    if (!stream)
        return bell_fail(BELL_E_NO_MEMORY, "stream '%s': out of memory",
                         base->name);
    base->form = &stream->base;
    if (fill_stream(base) != BELL_OK) {
        amd_stream_unbind(base);
        return bell_error_last()->status;
    }
    amd_encode_stream(base);
    find_arguments(base);
    return BELL_OK;
}

/* ---- patches ------------------------------------------------------------- */

void
amd_stream_repack(struct hcq_stream *base, const struct hcq_place *place)
{
    struct amd_stream *stream = amd_stream_of(base);
    const struct hcq_spot *spot =
        hcq_spot_find(stream->base.spots, stream->n_packets, place->dw);
    struct hcq_packet *packet = (void *)(base->cs.words + spot->packet_dw);
    struct amd_push push = start_push(base);

    assert(stream->n_packets > 0);
    assert(place->dw >= spot->packet_dw);
    push.data += (uint64_t)spot->data_unit * AMD_UNIT_BYTES;
    if (packet->head.op == HCQ_OP_EXEC &&
        !hcq_exec_judge((void *)packet, &stream->base.n_too_large))
        return;
    push.at += spot->word_dw;
    push.piece = push.at;
    push.slot = spot->slot;
    amd_push_packet(&push, packet);
}

/* ---- submission ---------------------------------------------------------- */

bell_status
amd_stream_submit(struct hcq_stream *base, uint64_t value)
{
    struct amd_stream *stream = amd_stream_of(base);
    struct amd_queue *queue = stream_queue(base);
    const struct amd_engine *engine = &queue->engine;
    const uint32_t *slots =
        engine->kind == AMD_RING_SDMA ? stream->mem.cpu : stream->slots;
    uint32_t n_slots = stream->n_slots;
    struct hcq_extent extent = {.n_dw = AMD_FINISH_DW};
    struct amd_push push;

    if (__builtin_expect(stream->base.n_too_large != 0, 0))
        return hcq_exec_refuse(base);
    if (__builtin_expect(
            n_slots + amd_finish_slots(engine) > queue->ring.max_slots, 0)) {
        BELL_TRY(amd_queue_pour(queue, slots, n_slots));
        n_slots = 0;
    }
    extent.n_slots = n_slots + amd_finish_slots(engine);
    BELL_TRY(amd_queue_room(queue, &extent, &push));
    amd_push_slots(&push, slots, n_slots);
    amd_push_finish(&push, queue->base.timeline->va, value);
    amd_queue_commit(queue, value, &push, base);
    return BELL_OK;
}
