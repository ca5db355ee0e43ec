/* Bound streams: words and pieces made once, in memory of their own; patched in
 * place. A submission is those pieces, and one more for the timeline.
 */
#include <assert.h>
#include <string.h>

#include "base/alloc.h"
#include "base/bits.h"
#include "hcq/qcom/qcom.h"
#include "hcq/qcom/regs/qcom_cp.h"

/* Owned by its hcq_stream. */
struct qcom_stream {
    struct hcq_bound base; /* first; a spot's slot is the piece that the packet
                            * ends in */
    struct qcom_mem mem;
    struct qcom_piece *pieces; /* owned */
    uint32_t n_packets, n_pieces;
};

static struct qcom_stream *
stream_of(const struct hcq_stream *stream)
{
    return HCQ_CONTAINER(stream->form, struct qcom_stream, base);
}

static struct qcom_build
start_build(struct hcq_stream *base)
{
    struct qcom_stream *stream = stream_of(base);

    return (struct qcom_build){
        .push = {.engine = &qcom_queue_of(base->queue)->engine,
                 .mem = &stream->mem,
                 .at = stream->mem.cpu},
        .dev = qcom_device_of(base->queue->dev),
        .pieces = stream->pieces,
    };
}

static void
encode_stream(struct hcq_stream *base)
{
    struct qcom_stream *stream = stream_of(base);
    const struct hcq_cs *cs = &base->cs;
    struct qcom_build build = start_build(base);
    const struct hcq_packet *packet;
    uint32_t pos, n = 0;

    qcom_build_begin(&build);
    for (pos = 0; pos < cs->n_dw; pos += packet->head.n_dw) {
        struct hcq_spot *spot = &stream->base.spots[n++];
        uint32_t before = build.n_pieces;

        packet = hcq_packet_at(cs->words, pos);
        spot->packet_dw = pos;
        spot->word_dw = (uint32_t)(build.push.at - (uint32_t *)stream->mem.cpu);
        qcom_build_packet(&build, packet);
        spot->slot = build.n_pieces;
        /* a piece that began before the packet, for it did not fit */
        if (build.n_pieces != before && packet->head.op != HCQ_OP_WAIT &&
            packet->head.op != HCQ_OP_POLL)
            spot->word_dw =
                (uint32_t)(build.start - (uint32_t *)stream->mem.cpu) +
                build.push.engine->n_begin;
    }
    qcom_put_flush(&build.push);
    qcom_build_end(&build);
    assert(n == stream->n_packets);
    assert((uint64_t)((uint8_t *)build.push.at - (uint8_t *)stream->mem.cpu) <=
           stream->mem.size_bytes);
    hcq_log_words(base->queue, base->name, stream->mem.cpu, build.push.at);
    stream->n_pieces = build.n_pieces;
}

/* ---- binding ------------------------------------------------------------- */

void
qcom_stream_unbind(struct hcq_stream *base)
{
    struct qcom_stream *stream = stream_of(base);

    qcom_mem_free(qcom_device_of(base->queue->dev), &stream->mem);
    host_free(stream->pieces);
    host_free(stream->base.spots);
    host_free(stream);
    base->form = NULL;
}

static bell_status
fill_cp_stream(struct hcq_stream *base)
{
    struct qcom_stream *stream = stream_of(base);
    struct hcq_extent extent = hcq_stream_extent(base, &stream->n_packets);
    uint64_t n_splits, n_pieces, bytes;

    extent.n_dw += QCOM_BEGIN_DW + QCOM_FLUSH_DW;
    n_splits = extent.n_dw / (QCOM_CP_IB_MAX_DW / 4) + 1;
    extent.n_dw += n_splits * (QCOM_BEGIN_DW + QCOM_FLUSH_DW);
    n_pieces = 1 + extent.n_slots + n_splits;
    bytes = extent.n_dw * 4;
    if (bytes > UINT32_MAX)
        return bell_fail(BELL_E_NO_MEMORY,
                         "stream '%s': out of memory: %llu bytes for the card; "
                         "4 GiB are the "
                         "limit",
                         base->name, (unsigned long long)bytes);
    stream->base.spots =
        host_calloc(stream->n_packets, sizeof(*stream->base.spots));
    stream->pieces = host_calloc((size_t)n_pieces, sizeof(stream->pieces[0]));
    if (!stream->base.spots || !stream->pieces)
        return bell_fail(BELL_E_NO_MEMORY,
                         "stream '%s': out of memory for %u commands",
                         base->name, stream->n_packets);
    BELL_TRY(qcom_mem_alloc(qcom_device_of(base->queue->dev), bytes,
                            QCOM_MEM_SHARED, &stream->mem));
    return BELL_OK;
}

/* Where the card reads what places of arguments are patched to. */
static void
find_shader_arguments(struct hcq_stream *base)
{
    struct qcom_stream *stream = stream_of(base);
    uint32_t *words = stream->mem.cpu;
    size_t i;

    for (i = 0; i < base->n_places; i++) {
        struct hcq_place *place = &base->places[i];
        const struct hcq_spot *spot =
            hcq_spot_find(stream->base.spots, stream->n_packets, place->dw);
        uint32_t word = place->dw - spot->packet_dw;
        const struct hcq_packet *packet =
            hcq_packet_at(base->cs.words, spot->packet_dw);

        if (packet->head.op == HCQ_OP_EXEC && word >= HCQ_EXEC_DW)
            place->card =
                qcom_launch_args(&HCQ_CONTAINER(hcq_exec_of(packet)->prog,
                                                const struct qcom_program, base)
                                      ->launch,
                                 words + spot->word_dw) +
                (word - HCQ_EXEC_DW);
    }
}

bell_status
qcom_stream_bind(struct hcq_stream *base)
{
    struct qcom_stream *stream = host_calloc(1, sizeof(*stream));

    if (!stream)
        return bell_fail(BELL_E_NO_MEMORY, "stream '%s': out of memory",
                         base->name);
    base->form = &stream->base;
    if (fill_cp_stream(base) != BELL_OK) {
        qcom_stream_unbind(base);
        return bell_error_last()->status;
    }
    encode_stream(base);
    find_shader_arguments(base);
    return BELL_OK;
}

/* ---- patches ------------------------------------------------------------- */

void
qcom_stream_repack(struct hcq_stream *base, const struct hcq_place *place)
{
    struct qcom_stream *stream = stream_of(base);
    const struct hcq_spot *spot =
        hcq_spot_find(stream->base.spots, stream->n_packets, place->dw);
    struct hcq_packet *packet = (void *)(base->cs.words + spot->packet_dw);
    struct qcom_build build = start_build(base);
    struct qcom_piece room[2]; /* pieces stay as they are, but for gates */

    assert(stream->n_packets > 0);
    assert(place->dw >= spot->packet_dw);
    if (packet->head.op == HCQ_OP_EXEC &&
        !hcq_exec_judge((void *)packet, &stream->base.n_too_large))
        return;
    build.push.at += spot->word_dw;
    build.start = build.push.at;
    build.pieces = room;
    qcom_build_packet(&build, packet);
    if (packet->head.op == HCQ_OP_WAIT || packet->head.op == HCQ_OP_POLL)
        stream->pieces[spot->slot].gate = build.gate;
}

/* ---- submission ---------------------------------------------------------- */

bell_status
qcom_stream_submit(struct hcq_stream *base, uint64_t value)
{
    struct qcom_stream *stream = stream_of(base);
    struct qcom_queue *queue = qcom_queue_of(base->queue);
    struct hcq_extent extent = {
        .n_dw = QCOM_SIGNAL_DW,
        .n_slots = stream->n_pieces + 1,
    };
    struct qcom_build build = {
        .push = {.engine = &queue->engine, .mem = &queue->push},
        .dev = qcom_device_of(base->queue->dev),
        .feed = &queue->feed,
        .n_pieces = stream->n_pieces,
    };
    uint64_t offset, data_at;
    uint32_t i;

    assert(stream->n_pieces > 0);
    if (__builtin_expect(stream->base.n_too_large != 0, 0))
        return hcq_exec_refuse(base);
    BELL_TRY(hcq_ring_room(&queue->base, &extent, &offset, &data_at));
    assert(stream->n_pieces < QCOM_FEED_PIECES);
    for (i = 0; i < stream->n_pieces; i++)
        *qcom_feed_piece(&queue->feed, i) = stream->pieces[i];
    build.push.at = (uint32_t *)(void *)((uint8_t *)queue->push.cpu + offset);
    build.start = build.push.at;
    qcom_put_signal(&build.push, queue->base.timeline->va, value);
    qcom_build_end(&build);
    BELL_TRY(qcom_feed_push(&queue->feed, build.n_pieces));
    hcq_ring_note(&queue->base, value, base,
                  queue->ring.slot_put + build.n_pieces);
    return BELL_OK;
}
