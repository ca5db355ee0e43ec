/* Bound streams: encoded once into memory of their own, submitted by ring
 * entries that point there, patched in place.
 */
#include <string.h>

#include "base/alloc.h"
#include "base/bits.h"
#include "hcq/nv/nv_command.h"
#include "hcq/nv/nv_qmd.h"
#include "hcq/nv/regs/nv_host.h"

/* ---- layout ------------------------------------------------------------------ */

struct totals {
    uint32_t n_packets;
    uint64_t n_dw, n_units; /* at most */
};

static const struct nv_engine *
engine_of(const struct hcq_cs *cs)
{
    return &nv_priv_of(nv_queue_of(cs->queue))->engine;
}

static struct totals
measure_stream(const struct hcq_cs *cs)
{
    struct totals t = {0};
    uint32_t pos = 0;

    while (pos < cs->n_dw) {
        const struct hcq_packet *packet = hcq_packet_at(cs->words, pos);

        t.n_packets++;
        t.n_dw += packet->head.word_dw;
        t.n_units += nv_packet_units(engine_of(cs), packet);
        pos += packet->head.n_dw;
    }
    return t;
}

static struct nv_stream *
stream_of(const struct hcq_stream *base)
{
    return base->priv;
}

/* Methods go into the ring in segments of at most NV_HOST_GP_MAX_DW, which
 * end where a packet does. */
static void
end_segment(struct nv_stream *stream, uint32_t *from_dw, uint32_t at_dw,
            uint32_t next_dw)
{
    if (next_dw - *from_dw <= NV_HOST_GP_MAX_DW)
        return;
    stream->segment_dw[stream->n_segments++] = at_dw;
    *from_dw = at_dw;
}

static void
encode_stream(struct nv_stream *stream, struct nv_push *push,
              struct hcq_spot *spots)
{
    const struct hcq_cs *cs = &stream->node.stream->cs;
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

static bell_status
lay_out(struct nv_stream *stream, const struct totals *t,
        struct hcq_spot *spots)
{
    struct hcq_stream *base = stream->node.stream;
    struct nv_queue *queue = nv_queue_of(base->queue);
    uint64_t data_at = align_up(t->n_dw * 4, NV_UNIT_BYTES), bytes;
    struct nv_push push;
    size_t i;

    bytes = data_at + t->n_units * NV_UNIT_BYTES;
    if (bytes > UINT32_MAX)
        return bell_fail(BELL_E_NO_MEMORY,
                         "stream '%s': %llu bytes for the card; 4 GiB are the "
                         "limit",
                         base->name, (unsigned long long)bytes);
    if (bytes == 0)
        return BELL_OK;
    BELL_TRY(nv_mem_alloc(nv_device_of(base->queue->dev), bytes, 4096,
                          NV_MEM_VISIBLE, &stream->mem));
    stream->data_at = (uint32_t)data_at;
    push = (struct nv_push){
        .engine = &nv_priv_of(queue)->engine,
        .at = stream->mem.cpu,
        .data = (uint8_t *)stream->mem.cpu + data_at,
        .data_va = stream->mem.va + data_at,
    };
    encode_stream(stream, &push, spots);
    for (i = 0; i < base->n_places; i++)
        stream->targets[i] =
            *hcq_spot_find(spots, t->n_packets, base->places[i].dw);
    return BELL_OK;
}

/* ---- binding -------------------------------------------------------------------- */

static void
free_stream(struct nv_stream *stream)
{
    if (!stream)
        return;
    nv_mem_free(nv_device_of(stream->node.stream->queue->dev), &stream->mem);
    host_free(stream->segment_dw);
    host_free(stream->targets);
    host_free(stream);
}

static struct nv_stream *
alloc_stream(struct hcq_stream *base, const struct totals *t)
{
    struct nv_stream *stream = host_calloc(1, sizeof(*stream));
    /* Each but the last holds more than half of what it may. */
    size_t n_segments = (size_t)(t->n_dw / (NV_HOST_GP_MAX_DW / 2)) + 1;

    if (!stream)
        return NULL;
    stream->node.stream = base;
    stream->segment_dw = host_calloc(n_segments, sizeof(uint32_t));
    stream->targets = host_calloc(base->n_places + 1, sizeof(*stream->targets));
    if (!stream->segment_dw || !stream->targets) {
        free_stream(stream);
        return NULL;
    }
    return stream;
}

bell_status
nv_stream_bind(struct hcq_stream *base)
{
    struct nv_queue_priv *priv = nv_priv_of(nv_queue_of(base->queue));
    struct totals t = measure_stream(&base->cs);
    struct hcq_spot *spots = host_calloc(t.n_packets + 1u, sizeof(*spots));
    struct nv_stream *stream = alloc_stream(base, &t);
    bell_status status;

    if (!spots || !stream)
        status = bell_fail(BELL_E_NO_MEMORY,
                           "stream '%s': no memory for %u commands", base->name,
                           t.n_packets);
    else
        status = lay_out(stream, &t, spots);
    host_free(spots);
    if (status != BELL_OK) {
        free_stream(stream);
        return status;
    }
    base->priv = stream;
    pthread_mutex_lock(&base->queue->dev->lock);
    hcq_link_add(&priv->history.streams, &stream->node.link);
    pthread_mutex_unlock(&base->queue->dev->lock);
    return BELL_OK;
}

void
nv_stream_unbind(struct hcq_stream *base)
{
    struct nv_stream *stream = stream_of(base);

    pthread_mutex_lock(&base->queue->dev->lock);
    hcq_link_remove(&stream->node.link);
    pthread_mutex_unlock(&base->queue->dev->lock);
    free_stream(stream);
    base->priv = NULL;
}

/* ---- patches -------------------------------------------------------------------- */

/* A launch: one argument, or all of it when its shape changes. */
static void
repack_exec(struct nv_stream *stream, const struct hcq_spot *spot,
            struct hcq_exec *exec, uint32_t dw)
{
    const struct nv_after after = {
        .links = nv_packet_links(&stream->node.stream->cs, spot->packet_dw),
    };
    const struct nv_program *prog = nv_program_of(exec);
    uint64_t offset =
        stream->data_at + (uint64_t)spot->data_unit * NV_UNIT_BYTES;
    uint8_t *data = (uint8_t *)stream->mem.cpu + offset;
    uint32_t arg = (dw - spot->packet_dw - HCQ_EXEC_DW) / 2;

    if (dw - spot->packet_dw >= HCQ_EXEC_DW)
        memcpy(data + nv_launch_bank0(prog) + prog->param_offset + arg * 8,
               &exec->args[arg], 8);
    else if (hcq_exec_judge(exec, &stream->n_too_large))
        nv_launch_write(prog, exec->grid, exec->local, exec->args,
                        hcq_exec_args(exec), stream->mem.va + offset, data,
                        &after);
}

void
nv_stream_repack(struct hcq_stream *base, const struct hcq_place *place)
{
    struct nv_stream *stream = stream_of(base);
    const struct hcq_spot *spot = &stream->targets[place - base->places];
    struct hcq_packet *packet = (void *)(base->cs.words + spot->packet_dw);
    uint64_t data_at =
        stream->data_at + (uint64_t)spot->data_unit * NV_UNIT_BYTES;
    struct nv_push push = {
        .engine = &nv_priv_of(nv_queue_of(base->queue))->engine,
        .at = (uint32_t *)stream->mem.cpu + spot->word_dw,
        .data = (uint8_t *)stream->mem.cpu + data_at,
        .data_va = stream->mem.va + data_at,
    };

    if (packet->head.op == HCQ_OP_EXEC)
        repack_exec(stream, spot, (void *)packet, place->dw);
    else
        nv_push_packet(&push, packet);
}

/* ---- submission ------------------------------------------------------------------ */

bell_status
nv_stream_submit(struct hcq_stream *base, uint64_t value)
{
    struct nv_stream *stream = stream_of(base);
    struct nv_queue *queue = nv_queue_of(base->queue);
    struct nv_queue_priv *priv = nv_priv_of(queue);
    uint32_t prologue_dw = nv_queue_prologue_dw(queue);
    uint32_t lead_dw = prologue_dw + (priv->busy ? NV_IDLE_DW : 0);
    uint32_t from_dw = 0, i, *start, *finish;
    struct nv_push push;

    if (__builtin_expect(stream->n_too_large != 0, 0))
        return hcq_exec_refuse(base);
    BELL_TRY(nv_queue_room(queue, lead_dw + NV_FINISH_DW, 0,
                           stream->n_segments + (lead_dw ? 2 : 1), &push));
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
    priv->busy = false;
    nv_queue_commit(queue, value, start, base);
    return BELL_OK;
}
