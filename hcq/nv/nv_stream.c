/* Bound streams: encoded once into memory of their own, submitted by ring
 * entries that point there, patched in place.
 */
#include <assert.h>
#include <string.h>

#include "base/alloc.h"
#include "base/bits.h"
#include "hcq/nv/nv_command.h"
#include "hcq/nv/nv_qmd.h"
#include "hcq/nv/regs/nv_host.h"

/* ---- layout -------------------------------------------------------------- */

static struct nv_stream *
nv_stream_of(const struct hcq_stream *stream)
{
    return HCQ_CONTAINER(stream->form, struct nv_stream, base);
}

/* Methods go into the ring in segments of at most NV_HOST_GP_MAX_DW, which
 * end where a packet does. */
static void
end_segment(struct nv_stream *stream, uint32_t *from_dw, uint32_t at_dw,
            uint32_t next_dw)
{
    assert(*from_dw <= at_dw && at_dw < next_dw);
    if (next_dw - *from_dw <= NV_HOST_GP_MAX_DW)
        return;
    stream->segment_dw[stream->n_segments++] = at_dw;
    *from_dw = at_dw;
}

static void
nv_encode_stream(const struct hcq_cs *cs, struct nv_push *push,
                 struct hcq_spot *spots)
{
    struct nv_stream *stream = nv_stream_of(cs->stream);
    const uint32_t *start = push->at;
    uint64_t data_va = push->data_va;
    uint32_t pos = 0, from_dw = 0, at_dw = 0, n = 0;

    while (pos < cs->n_dw) {
        const struct hcq_packet *packet = hcq_packet_at(cs->words, pos);

        end_segment(stream, &from_dw, at_dw, at_dw + packet->head.word_dw);
        spots[n++] = (struct hcq_spot){
            .packet_dw = pos,
            .word_dw = at_dw,
            .data_unit = (uint32_t)((push->data_va - data_va) / NV_UNIT_BYTES),
        };
        push->after.links = nv_packet_links(cs, pos);
        nv_push_packet(push, packet);
        at_dw = (uint32_t)(push->at - start);
        pos += packet->head.n_dw;
    }
    if (at_dw > from_dw)
        stream->segment_dw[stream->n_segments++] = at_dw;
}

/* The place's argument in the constant bank, or NULL: it is none. */
static void *
argument_at(const struct hcq_stream *base, const struct hcq_spot *spot,
            const struct hcq_place *place)
{
    const struct nv_stream *stream = nv_stream_of(base);
    const struct hcq_packet *packet =
        hcq_packet_at(base->cs.words, spot->packet_dw);
    uint32_t word = place->dw - spot->packet_dw;
    const struct nv_program *prog;

    assert(place->dw >= spot->packet_dw && stream->mem.cpu);
    if (packet->head.op != HCQ_OP_EXEC || word < HCQ_EXEC_DW)
        return NULL;
    prog = nv_program_of(hcq_exec_of(packet));
    return (uint8_t *)stream->mem.cpu + stream->data_at +
           (uint64_t)spot->data_unit * NV_UNIT_BYTES + nv_launch_bank0(prog) +
           prog->param_offset + (word - HCQ_EXEC_DW) / 2 * 8;
}

static bell_status
lay_out(struct hcq_stream *base, const struct hcq_extent *extent,
        struct hcq_spot *spots, uint32_t n_spots)
{
    struct nv_stream *stream = nv_stream_of(base);
    struct nv_queue *queue = nv_queue_of(base->queue);
    uint64_t data_at = align_up(extent->n_dw * 4, NV_UNIT_BYTES), bytes;
    struct nv_push push;
    size_t i;

    bytes = data_at + (uint64_t)extent->n_units * NV_UNIT_BYTES;
    if (bytes > UINT32_MAX)
        return bell_fail(BELL_E_NO_MEMORY,
                         "stream '%s': out of memory: %llu bytes for the card; "
                         "4 GiB are the "
                         "limit",
                         base->name, (unsigned long long)bytes);
    if (bytes == 0)
        return BELL_OK;
    BELL_TRY(nv_mem_alloc(nv_device_of(base->queue->dev), bytes, 4096,
                          NV_MEM_VISIBLE, &stream->mem));
    stream->data_at = (uint32_t)data_at;
    push = (struct nv_push){
        .engine = &queue->engine,
        .at = stream->mem.cpu,
        .data = (uint8_t *)stream->mem.cpu + data_at,
        .data_va = stream->mem.va + data_at,
    };
    nv_encode_stream(&base->cs, &push, spots);
    hcq_log_words(base->queue, base->name, stream->mem.cpu, push.at);
    for (i = 0; i < base->n_places; i++) {
        stream->base.spots[i] =
            *hcq_spot_find(spots, n_spots, base->places[i].dw);
        base->places[i].card =
            argument_at(base, &stream->base.spots[i], &base->places[i]);
    }
    return BELL_OK;
}

/* ---- binding ------------------------------------------------------------- */

void
nv_stream_unbind(struct hcq_stream *base)
{
    struct nv_stream *stream;

    if (!base->form)
        return;
    stream = nv_stream_of(base);
    base->form = NULL;
    nv_mem_free(nv_device_of(base->queue->dev), &stream->mem);
    host_free(stream->segment_dw);
    host_free(stream->base.spots);
    host_free(stream);
}

bell_status
nv_stream_bind(struct hcq_stream *base)
{
    uint32_t n_packets;
    struct hcq_extent extent = hcq_stream_extent(base, &n_packets);
    struct hcq_spot *spots = host_calloc(n_packets, sizeof(*spots));
    struct nv_stream *stream = host_calloc(1, sizeof(*stream));
    /* Each but the last holds more than half of what it may. */
    size_t n_segments = (size_t)(extent.n_dw / (NV_HOST_GP_MAX_DW / 2)) + 1;
    bell_status status;

    base->form = stream ? &stream->base : NULL;
    if (stream) {
        stream->segment_dw = host_calloc(n_segments, sizeof(uint32_t));
        stream->base.spots =
            host_calloc(base->n_places, sizeof(*stream->base.spots));
    }
    if (!spots || !stream || !stream->segment_dw || !stream->base.spots)
        status = bell_fail(BELL_E_NO_MEMORY,
                           "stream '%s': out of memory for %u commands",
                           base->name, n_packets);
    else
        status = lay_out(base, &extent, spots, n_packets);
    host_free(spots);
    if (status != BELL_OK)
        nv_stream_unbind(base);
    return status;
}

/* ---- patches ------------------------------------------------------------- */

/* A launch whose shape changes. */
static void
repack_exec(const struct hcq_cs *cs, const struct hcq_spot *spot,
            struct hcq_exec *exec)
{
    struct nv_stream *stream = nv_stream_of(cs->stream);
    const struct nv_after after = {
        .links = nv_packet_links(cs, spot->packet_dw),
    };
    const struct nv_program *prog = nv_program_of(exec);
    uint64_t offset =
        stream->data_at + (uint64_t)spot->data_unit * NV_UNIT_BYTES;
    uint8_t *data = (uint8_t *)stream->mem.cpu + offset;

    if (hcq_exec_judge(exec, &stream->base.n_too_large))
        nv_launch_write(prog, exec->grid, exec->local, exec->args,
                        hcq_exec_args(exec), stream->mem.va + offset, data,
                        &after);
}

void
nv_stream_repack(struct hcq_stream *base, const struct hcq_place *place)
{
    struct nv_stream *stream = nv_stream_of(base);
    const struct hcq_spot *spot = &stream->base.spots[place - base->places];
    struct hcq_packet *packet = (void *)(base->cs.words + spot->packet_dw);
    uint64_t data_at =
        stream->data_at + (uint64_t)spot->data_unit * NV_UNIT_BYTES;
    struct nv_push push = {
        .engine = &nv_queue_of(base->queue)->engine,
        .at = (uint32_t *)stream->mem.cpu + spot->word_dw,
        .data = (uint8_t *)stream->mem.cpu + data_at,
        .data_va = stream->mem.va + data_at,
    };

    assert((size_t)(place - base->places) < base->n_places);
    if (packet->head.op == HCQ_OP_EXEC)
        repack_exec(&base->cs, spot, (void *)packet);
    else
        nv_push_packet(&push, packet);
}

/* ---- submission ---------------------------------------------------------- */

bell_status
nv_stream_submit(struct hcq_stream *base, uint64_t value)
{
    struct nv_stream *stream = nv_stream_of(base);
    struct nv_queue *queue = nv_queue_of(base->queue);
    uint32_t prologue_dw = nv_queue_prologue_dw(queue);
    uint32_t lead_dw = prologue_dw + (queue->busy ? NV_IDLE_DW : 0);
    const struct hcq_extent extent = {
        .n_dw = lead_dw + NV_FINISH_DW,
        .n_slots = stream->n_segments + (lead_dw ? 2 : 1),
    };
    uint32_t from_dw = 0, i, *start, *finish;
    struct nv_push push;

    if (__builtin_expect(stream->base.n_too_large != 0, 0))
        return hcq_exec_refuse(base);
    BELL_TRY(nv_queue_room(queue, &extent, &push));
    start = push.at;
    if (__builtin_expect(lead_dw != 0, 0)) {
        nv_push_idle(&push);
        if (prologue_dw)
            nv_queue_prologue(queue, &push);
        nv_queue_entry(queue, start, &push);
    }
    for (i = 0; i < stream->n_segments; i++) {
        nv_channel_entry(&queue->channel, stream->mem.va + 4ull * from_dw,
                         stream->segment_dw[i] - from_dw);
        from_dw = stream->segment_dw[i];
    }
    finish = push.at;
    nv_push_finish(&push, queue->base.timeline->va, value);
    nv_queue_entry(queue, finish, &push);
    assert((uint32_t)(push.at - start) <= extent.n_dw);
    queue->busy = false;
    nv_queue_commit(queue, value, base);
    return BELL_OK;
}
