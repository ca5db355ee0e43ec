/* Packets of a command stream: what they take of the rings. */
#include "base/bits.h"
#include "hcq/amd/amd_command.h"

static const struct amd_engine *
engine_of(const struct hcq_cs *cs)
{
    return &amd_priv_of(amd_queue_of(cs->queue))->engine;
}

/* Adds up what a fresh stream takes, and refuses too much. */
static void
count_fresh(struct hcq_cs *cs, const struct hcq_packet *packet)
{
    struct amd_queue *queue = amd_queue_of(cs->queue);
    struct amd_queue_priv *priv = amd_priv_of(queue);
    const struct amd_engine *engine = &priv->engine;
    uint64_t bytes, n_slots;

    if (cs->n_dw == packet->head.n_dw) { /* the first */
        priv->fresh_dw = AMD_BEGIN_DW + AMD_FINISH_DW;
        priv->fresh_units = 0;
        priv->fresh_slots = amd_fresh_slots(engine);
    }
    priv->fresh_dw += packet->head.word_dw;
    priv->fresh_units += amd_packet_units(engine, packet);
    priv->fresh_slots += amd_packet_slots(engine, packet);
    bytes = align_up(priv->fresh_dw * 4, AMD_UNIT_BYTES) +
            (uint64_t)priv->fresh_units * AMD_UNIT_BYTES;
    n_slots = queue->channel.ring_bytes / 4 / engine->slot_dw;
    if (__builtin_expect(bytes <= queue->push_ring.size_bytes &&
                             priv->fresh_slots < n_slots,
                         1))
        return;
    hcq_cs_fail(cs, bell_fail(BELL_E_INVALID,
                              "%s: the stream is larger than the ring, which "
                              "takes %llu bytes and %llu %s",
                              cs->queue->name,
                              (unsigned long long)queue->push_ring.size_bytes,
                              (unsigned long long)n_slots - 1,
                              amd_slots_name(engine)));
}

/* The card compares halves, and a lower half begins anew where the upper one
 * grows: of a signal that is beyond that already the upper half is enough.
 * Signals have one address for CPU and card. */
static void
look_at_signal(struct hcq_packet *packet)
{
    const uint64_t *at = (const uint64_t *)(uintptr_t)packet->word[0];
    uint64_t seen = __atomic_load_n(at, __ATOMIC_RELAXED);

    if (__builtin_expect(seen >> 32 > packet->word[1] >> 32, 0))
        packet->word[1] = ((packet->word[1] >> 32) + 1) << 32;
}

void
amd_packet_finish(struct hcq_cs *cs, struct hcq_packet *packet)
{
    if (packet->head.op == HCQ_OP_WAIT && !cs->stream) /* which runs now */
        look_at_signal(packet);
    amd_packet_measure(engine_of(cs), packet);
    if (!cs->stream)
        count_fresh(cs, packet);
    else if (__builtin_expect(packet->head.word_dw > AMD_PACKET_MAX_DW, 0))
        hcq_cs_fail(
            cs, bell_fail(BELL_E_INVALID,
                          "stream '%s': a transfer of %llu bytes: it would "
                          "take %u words, and %u are the limit",
                          cs->stream->name, (unsigned long long)packet->word[2],
                          packet->head.word_dw, AMD_PACKET_MAX_DW));
}

void
amd_packet_fix(const struct hcq_cs *cs, struct hcq_packet *packet,
               unsigned field, struct hcq_place *place)
{
    const struct amd_engine *engine = engine_of(cs);
    uint64_t n_copies;

    if (field != HCQ_FIELD_SIZE &&
        (packet->head.op != HCQ_OP_WAIT || field != HCQ_FIELD_VALUE))
        return;
    packet->head.flags |= HCQ_HEAD_FIXED;
    amd_packet_measure(engine, packet);
    if (field == HCQ_FIELD_SIZE && !engine->move) { /* as many as laid out */
        n_copies = amd_copies(engine, packet->word[2]);
        if (n_copies < AMD_FIXED_COPIES)
            n_copies = AMD_FIXED_COPIES;
        place->max = n_copies * engine->max_bytes;
    }
}
