/* Packets of a command stream: what they take of the ring. */
#include "base/bits.h"
#include "hcq/nv/nv_command.h"

static const struct nv_engine *
engine_of(const struct hcq_cs *cs)
{
    return &nv_priv_of(nv_queue_of(cs->queue))->engine;
}

/* Adds up what a fresh stream takes in the ring, and refuses too much. */
static void
count_fresh(struct hcq_cs *cs, const struct hcq_packet *packet)
{
    struct nv_queue *queue = nv_queue_of(cs->queue);
    struct nv_queue_priv *priv = nv_priv_of(queue);
    uint64_t bytes;

    if (cs->n_dw == packet->head.n_dw) { /* the first */
        priv->fresh_dw = NV_SETUP_DW + NV_FINISH_DW;
        priv->fresh_units = 0;
    }
    priv->fresh_dw += packet->head.word_dw;
    priv->fresh_units += nv_packet_units(&priv->engine, packet);
    bytes = align_up(priv->fresh_dw * 4ull, NV_UNIT_BYTES) +
            (uint64_t)priv->fresh_units * NV_UNIT_BYTES;
    if (__builtin_expect(bytes <= queue->push_ring.size_bytes, 1))
        return;
    hcq_cs_fail(cs, bell_fail(BELL_E_INVALID,
                              "%s: the stream is larger than the ring, which "
                              "takes %llu bytes",
                              cs->queue->name,
                              (unsigned long long)queue->push_ring.size_bytes));
}

void
nv_packet_finish(struct hcq_cs *cs, struct hcq_packet *packet)
{
    if (packet->head.op == HCQ_OP_EXEC)
        packet->head.word_dw = NV_LAUNCH_DW;
    else
        nv_packet_measure(engine_of(cs), packet);
    if (!cs->stream)
        count_fresh(cs, packet);
}

/* Transfers, far stores and polls: their words depend on what they are given,
 * and on whether kernels run before them, which a patch does not know. */
void
nv_packet_fix(const struct hcq_cs *cs, struct hcq_packet *packet,
              unsigned field, struct hcq_place *place)
{
    (void)field;
    (void)place;
    if (packet->head.op == HCQ_OP_WAIT || packet->head.op == HCQ_OP_SIGNAL ||
        packet->head.op == HCQ_OP_TIMESTAMP)
        return;
    packet->head.flags |= HCQ_HEAD_FIXED;
    nv_packet_measure(engine_of(cs), packet);
}
