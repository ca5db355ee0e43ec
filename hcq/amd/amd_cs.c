/* Command streams: emitters and patchable fields. */
#include <string.h>

#include "base/bits.h"
#include "hcq/amd/amd_command.h"

static const struct amd_engine *
engine_of(const struct hcq_cs *cs)
{
    return &amd_priv_of(amd_queue_of(cs->queue))->engine;
}

/* ---- emitters --------------------------------------------------------------- */

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
        priv->fresh_slots = 1;
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
                              "takes %llu bytes and %llu packets",
                              cs->queue->name,
                              (unsigned long long)queue->push_ring.size_bytes,
                              (unsigned long long)n_slots - 1));
}

static void
finish_packet(struct hcq_cs *cs, struct hcq_packet *packet)
{
    if (!packet)
        return;
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

static void
emit(struct hcq_cs *cs, enum hcq_op op, uint64_t a, uint64_t b, uint64_t c)
{
    finish_packet(cs, hcq_packet_emit(cs, op, a, b, c));
}

/* Whether the card can address [va, va + size_bytes). */
static bool
reaches(struct hcq_cs *cs, const char *what, uint64_t va, uint64_t size_bytes)
{
    if (__builtin_expect(va < AMD_VA_END && size_bytes <= AMD_VA_END - va, 1))
        return true;
    hcq_cs_fail(cs,
                bell_fail(BELL_E_INVALID,
                          "%s: %s of %llu bytes at 0x%llx: %s addresses less "
                          "than 0x%llx",
                          cs->stream ? cs->stream->name : cs->queue->name, what,
                          (unsigned long long)size_bytes,
                          (unsigned long long)va, cs->queue->dev->info.name,
                          (unsigned long long)AMD_VA_END));
    return false;
}

static void
emit_wait(struct hcq_cs *cs, uint64_t va, uint64_t value)
{
    if (reaches(cs, "wait", va, 8))
        emit(cs, HCQ_OP_WAIT, va, value, 0);
}

static void
emit_signal(struct hcq_cs *cs, uint64_t va, uint64_t value)
{
    if (reaches(cs, "signal", va, 8))
        emit(cs, HCQ_OP_SIGNAL, va, value, 0);
}

static void
emit_timestamp(struct hcq_cs *cs, uint64_t va)
{
    if (reaches(cs, "timestamp", va, 16))
        emit(cs, HCQ_OP_TIMESTAMP, va, 0, 0);
}

static void
emit_barrier(struct hcq_cs *cs)
{
    emit(cs, HCQ_OP_BARRIER, 0, 0, 0);
}

static void
emit_copy(struct hcq_cs *cs, uint64_t dst_va, uint64_t src_va,
          uint64_t size_bytes)
{
    if (size_bytes == 0 && !cs->stream)
        return;
    if (reaches(cs, "copy to", dst_va, size_bytes) &&
        reaches(cs, "copy from", src_va, size_bytes))
        emit(cs, HCQ_OP_COPY, dst_va, src_va, size_bytes);
}

static void
emit_fill(struct hcq_cs *cs, uint64_t dst_va, uint32_t pattern,
          uint64_t size_bytes)
{
    if (size_bytes == 0 && !cs->stream)
        return;
    if (reaches(cs, "fill", dst_va, size_bytes))
        emit(cs, HCQ_OP_FILL, dst_va, pattern, size_bytes);
}

static void
emit_write(struct hcq_cs *cs, uint64_t dst_va, uint64_t value, unsigned n_bits)
{
    if (reaches(cs, "write", dst_va, n_bits / 8))
        emit(cs, n_bits == 32 ? HCQ_OP_WRITE32 : HCQ_OP_WRITE64, dst_va, value,
             0);
}

static void
emit_poll(struct hcq_cs *cs, uint64_t va, uint32_t mask, uint32_t value)
{
    if (reaches(cs, "poll", va, 4))
        emit(cs, HCQ_OP_POLL, va, mask, value);
}

static void
emit_exec(struct hcq_cs *cs, const struct hcq_program *prog,
          const uint64_t *args, uint32_t n_args, const uint32_t grid[3],
          const uint32_t local[3])
{
    finish_packet(cs,
                  hcq_packet_emit_exec(cs, prog, args, n_args, grid, local));
}

/* ---- fields ------------------------------------------------------------------- */

static bool
locate_field(const struct hcq_cs *cs, unsigned field, struct hcq_place *place)
{
    struct hcq_packet *packet =
        (struct hcq_packet *)(void *)(cs->words + cs->last_dw);
    const struct amd_engine *engine = engine_of(cs);
    bool grows;
    uint64_t n_copies;

    if (!hcq_packet_locate(cs, field, AMD_VA_END, place, &grows))
        return false;
    if (!grows)
        return true;
    packet->head.flags |= HCQ_HEAD_FIXED;
    amd_packet_measure(engine, packet);
    if (field == HCQ_FIELD_SIZE) { /* as many packets as were laid out */
        n_copies = amd_copies(engine, packet->word[2]);
        if (n_copies < AMD_FIXED_COPIES)
            n_copies = AMD_FIXED_COPIES;
        place->max = n_copies * engine->max_bytes;
    }
    return true;
}

const struct hcq_cs_ops amd_cs_ops = {
    .wait = emit_wait,
    .signal = emit_signal,
    .timestamp = emit_timestamp,
    .barrier = emit_barrier,
    .exec = emit_exec,
    .copy = emit_copy,
    .fill = emit_fill,
    .write = emit_write,
    .poll = emit_poll,
    .locate = locate_field,
    .repack = amd_stream_repack,
    .decode = hcq_packet_decode,
};
