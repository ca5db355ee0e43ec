/* Queues: words of packets, submissions, room in the ring.
 *
 * A fresh submission is one piece of the push ring, whose words are those of
 * the packets and, behind them, the release of the queue's timeline. It goes to
 * the kernel in pieces, which waits part. Both are given back when the timeline
 * has come to its value.
 */
#include <assert.h>
#include <string.h>

#include "base/alloc.h"
#include "base/bits.h"
#include "hcq/qcom/qcom_move.h"
#include "hcq/qcom/regs/qcom_cp.h"

#define RING_MAX_BYTES (2u << 20) /* one indirect buffer holds 4 MiB - 4 */
#define WORD_ALIGN     64u

/* In a signal's memory, behind value and timestamp. */
#define IDLE_WORD_OFFSET 16u

static_assert(RING_MAX_BYTES / 4 <= QCOM_CP_IB_MAX_DW, "one buffer");

/* ---- pieces -------------------------------------------------------------- */

static void
open_piece(struct qcom_build *build, struct qcom_gate gate)
{
    build->start = build->push.at;
    build->gate = gate;
}

static void
close_piece(struct qcom_build *build)
{
    struct qcom_piece *piece =
        build->feed ? qcom_feed_piece(build->feed, build->n_pieces)
                    : &build->pieces[build->n_pieces];

    assert(build->push.at >= build->start);
    assert(build->push.at - build->start <= (int64_t)QCOM_CP_IB_MAX_DW);
    assert(!build->feed || build->n_pieces < QCOM_FEED_PIECES);
    build->n_pieces++;
    *piece = (struct qcom_piece){
        .gate = build->gate,
        .ib =
            {
                .mem = build->push.mem,
                .offset_bytes = (uint64_t)((uint8_t *)build->start -
                                           (uint8_t *)build->push.mem->cpu),
                .n_dw = (uint32_t)(build->push.at - build->start),
            },
    };
}

void
qcom_build_begin(struct qcom_build *build)
{
    open_piece(build, (struct qcom_gate){0});
    qcom_put_begin(&build->push);
}

/* A wait begins a chunk of its own, whose registers are set again: others' work
 * may come before it. */
static void
build_wait(struct qcom_build *build, const struct hcq_packet *packet)
{
    struct qcom_gate gate = qcom_gate_of(build->dev, packet);
    const uint32_t *at = build->push.at;

    qcom_put_flush(&build->push);
    close_piece(build);
    open_piece(build, gate);
    if (!gate.at)
        qcom_put_wait(&build->push, packet);
    qcom_put_begin(&build->push);
    assert(packet->head.word_dw == 0 ||
           (uint32_t)(build->push.at - at) <= packet->head.word_dw);
    if (packet->head.flags & HCQ_HEAD_FIXED)
        qcom_put_nothing(&build->push, packet->head.word_dw -
                                           (uint32_t)(build->push.at - at));
}

void
qcom_build_packet(struct qcom_build *build, const struct hcq_packet *packet)
{
    uint64_t used = (uint64_t)(build->push.at - build->start);

    if (packet->head.op == HCQ_OP_WAIT || packet->head.op == HCQ_OP_POLL) {
        build_wait(build, packet);
        return;
    }
    if (used + packet->head.word_dw + QCOM_FLUSH_DW + QCOM_SIGNAL_DW >
        QCOM_CP_IB_MAX_DW) {
        qcom_put_flush(&build->push);
        close_piece(build);
        qcom_build_begin(build);
    }
    qcom_put_packet(&build->push, packet);
}

void
qcom_build_end(struct qcom_build *build)
{
    close_piece(build);
}

/* ---- packets ------------------------------------------------------------- */

struct hcq_extent
qcom_packet_measure(struct hcq_cs *cs, struct hcq_packet *packet)
{
    const struct qcom_engine *engine = &qcom_queue_of(cs->queue)->engine;
    struct hcq_extent extent = {.n_dw = qcom_packet_dw(engine, packet)};

    extent.n_slots =
        packet->head.op == HCQ_OP_WAIT || packet->head.op == HCQ_OP_POLL;
    /* A packet is no larger than what it becomes (hcq_ring.h). */
    if (extent.n_dw < packet->head.n_dw)
        extent.n_dw = packet->head.n_dw;
    if (__builtin_expect(packet->word[0] >= QCOM_VA_END, 0) &&
        packet->head.op != HCQ_OP_WAIT && packet->head.op != HCQ_OP_BARRIER &&
        packet->head.op != HCQ_OP_WORDS)
        hcq_cs_fail(cs,
                    bell_fail(BELL_E_UNSUPPORTED,
                              "%s: %s of another device's signal: it can "
                              "be waited for, only",
                              cs->queue->name, hcq_op_name(packet->head.op)));
    if (__builtin_expect(extent.n_dw > QCOM_CP_IB_MAX_DW / 2, 0))
        hcq_cs_fail(cs, bell_fail(BELL_E_INVALID,
                                  "%s: a transfer of %llu bytes is too large",
                                  cs->queue->name,
                                  (unsigned long long)packet->word[2]));
    return extent;
}

void
qcom_packet_fix(const struct hcq_cs *cs, struct hcq_packet *packet,
                unsigned field, struct hcq_place *place)
{
    (void)cs;
    if (field == HCQ_FIELD_ADDR && packet->head.op != HCQ_OP_WAIT)
        place->max = QCOM_VA_END - 1;
    switch ((enum hcq_op)packet->head.op) {
    case HCQ_OP_WAIT:
    case HCQ_OP_POLL:
        packet->head.flags |= HCQ_HEAD_FIXED;
        break;
    case HCQ_OP_COPY:
    case HCQ_OP_FILL: /* sizes, and alignments: of fills the pattern is not */
        if (packet->head.op == HCQ_OP_FILL && field == HCQ_FIELD_VALUE)
            break;
        packet->head.flags |= HCQ_HEAD_FIXED;
        if (field == HCQ_FIELD_SIZE)
            place->max = qcom_move_max(packet);
        break;
    case HCQ_OP_SIGNAL:
    case HCQ_OP_TIMESTAMP:
    case HCQ_OP_BARRIER:
    case HCQ_OP_EXEC:
    case HCQ_OP_WRITE32:
    case HCQ_OP_WRITE64:
    case HCQ_OP_WORDS:
    case HCQ_OP_CALL:
    case HCQ_OP_COUNT:
    default:
        break;
    }
}

/* ---- submission ---------------------------------------------------------- */

bell_status
qcom_queue_submit(struct hcq_queue *base, uint64_t value)
{
    struct qcom_queue *queue = qcom_queue_of(base);
    const struct hcq_cs *cs = &base->cs;
    const struct hcq_packet *packet;
    struct qcom_build build = {
        .push = {.engine = &queue->engine, .mem = &queue->push},
        .dev = qcom_device_of(base->dev),
        .feed = &queue->feed,
    };
    uint64_t offset, data_at;
    uint32_t pos;

    BELL_TRY(hcq_ring_room(base, &queue->ring.fresh, &offset, &data_at));
    build.push.at = (uint32_t *)(void *)((uint8_t *)queue->push.cpu + offset);
    qcom_build_begin(&build);
    for (pos = 0; pos < cs->n_dw; pos += packet->head.n_dw) {
        packet = hcq_packet_at(cs->words, pos);
        qcom_build_packet(&build, packet);
    }
    qcom_put_signal(&build.push, base->timeline->va, value);
    qcom_build_end(&build);
    assert((uint64_t)(build.push.at - (uint32_t *)queue->push.cpu) -
               offset / 4 <=
           queue->ring.fresh.n_dw);
    assert(build.n_pieces <= queue->ring.fresh.n_slots);
    hcq_log_words(base, "", (uint32_t *)queue->push.cpu + offset / 4,
                  build.push.at);
    BELL_TRY(qcom_feed_push(&queue->feed, build.n_pieces));
    hcq_ring_note(base, value, NULL, queue->ring.slot_put + build.n_pieces);
    return BELL_OK;
}

/* ---- life ---------------------------------------------------------------- */

static void
queue_free(struct qcom_queue *queue)
{
    qcom_feed_fini(&queue->feed);
    qcom_mem_free(qcom_device_of(queue->base.dev), &queue->push);
    hcq_ring_fini(&queue->ring);
    host_free(queue);
}

static bell_status
queue_make(struct qcom_queue *queue, struct qcom_device *dev,
           const struct hcq_queue_desc *desc, uint32_t ring_bytes)
{
    queue->base.dev = &dev->base;
    queue->base.sync_va_end = QCOM_VA_SYNCED;
    queue->base.copy_va_end = QCOM_VA_END;
    queue->base.ring = &queue->ring;
    queue->base.words = HCQ_WORDS_PKT7;
    qcom_engine_init(&queue->engine, dev->chip);
    queue->engine.moves = dev->moves;
    BELL_TRY(hcq_ring_init(&queue->ring, ring_bytes, WORD_ALIGN, WORD_ALIGN));
    queue->ring.max_slots = QCOM_FEED_PIECES;
    queue->ring.slot_name = "waits";
    queue->ring.own = (struct hcq_extent){
        .n_dw = QCOM_BEGIN_DW + QCOM_SIGNAL_DW,
        .n_slots = 1,
    };
    BELL_TRY(qcom_mem_alloc(dev, ring_bytes, QCOM_MEM_SHARED, &queue->push));
    BELL_TRY(qcom_feed_init(&queue->feed, dev));
    /* Packets are never larger than what they become. */
    BELL_TRY(hcq_queue_init(&queue->base, &dev->base, desc, ring_bytes));
    queue->engine.idle_va = queue->base.timeline->va + IDLE_WORD_OFFSET;
    return BELL_OK;
}

bell_status
qcom_queue_create(struct hcq_device *base, const struct hcq_queue_desc *desc,
                  struct hcq_queue **out_queue)
{
    struct qcom_device *dev = qcom_device_of(base);
    struct qcom_queue *queue;
    uint32_t ring_bytes;
    bell_status status;

    BELL_TRY(hcq_queue_ring_bytes(base, desc, RING_MAX_BYTES, &ring_bytes));
    queue = host_calloc(1, sizeof(*queue));
    if (!queue)
        return bell_fail(BELL_E_NO_MEMORY, "%s: out of memory for a queue",
                         base->info.name);
    status = queue_make(queue, dev, desc, ring_bytes);
    if (status != BELL_OK) {
        queue_free(queue);
        return status;
    }
    *out_queue = &queue->base;
    return BELL_OK;
}

void
qcom_queue_destroy(struct hcq_queue *base)
{
    struct qcom_queue *queue = qcom_queue_of(base);

    /* The context first: it may still write the timeline. */
    qcom_feed_fini(&queue->feed);
    queue->feed.dev = NULL;
    hcq_queue_fini(base);
    queue_free(queue);
}
