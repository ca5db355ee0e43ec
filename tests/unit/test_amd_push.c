/* The ring of hcq/amd that holds what slots point to, exhaustively: pieces of
 * every length beginning at every unit of a small one, rings that are full to
 * the last word, streams as large as the ring.
 *
 * It is given out in units of 16 words; a submission is in one piece and does
 * not go round. Unused memory is filled with words that are not commands, and
 * has to be the same afterwards.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "amd_rig.h"
#include "base/bits.h"
#include "hcq/amd/regs/amd_sdma.h"

/* ---- packets ------------------------------------------------------------- */

/* src: docs/hardware/amd-queues.md, "Copies (SDMA)" */
static void
sdma_packet_sizes(void **state)
{
    static const struct {
        uint32_t words[4], n_dw;
    } rows[] = {
        {{0}, 1},             /* NOP */
        {{1}, 7},             /* COPY_LINEAR */
        {{2, 0, 0, 0}, 5},    /* WRITE_LINEAR of one word, */
        {{2, 0, 0, 3}, 8},    /* of four */
        {{5}, 4},             /* FENCE */
        {{6}, 2},             /* TRAP */
        {{8}, 6},             /* POLL_REGMEM */
        {{11 | 2u << 30}, 5}, /* CONST_FILL of words */
        {{13 | 2u << 8}, 3},  /* TIMESTAMP_GLOBAL */
        {{17}, 5},            /* GCR */
    };
    size_t i;

    (void)state;
    for (i = 0; i < ARRAY_LEN(rows); i++)
        assert_int_equal(amd_sdma_size(rows[i].words), rows[i].n_dw);
}

/* ---- pieces of the push ring --------------------------------------------- */

/* Words of the release of the timeline in a chunk: on SDMA as many as a
 * signal's, less what a value before 2^32 takes. */
static uint32_t
signal_dw(const struct rig *r)
{
    struct hcq_packet packet = {.head = {.op = HCQ_OP_SIGNAL}};

    if (r->queue->engine.finish)
        return 0;
    return r->queue->channel.kind == AMD_RING_SDMA
               ? amd_sdma_dw(&r->queue->engine, &packet, 0) - AMD_SDMA_FENCE_DW
               : amd_pm4_dw(&r->queue->engine, &packet, 0, true);
}

/* Slots of a piece of so many words. */
static uint32_t
piece_slots(const struct rig *r, uint32_t n_dw)
{
    return r->queue->channel.kind == AMD_RING_SDMA
               ? n_dw + AMD_SDMA_TAIL_DW
               : amd_fresh_slots(&r->queue->engine);
}

/* A queue whose push ring is what is full: that of slots has room. */
static struct rig
open_rig(const struct kind *kind)
{
    struct rig r = rig_open(kind, RING_BYTES);

    if (kind->queue == HCQ_QUEUE_COPY)
        rig_replace_ring(&r, 4 * RING_BYTES);
    return r;
}

/* One piece of exactly n_dw words: a count if it is not 0, what fills up, the
 * release of the timeline. */
static bell_status
submit_piece(struct rig *r, uint32_t n_dw, uint32_t n_counts,
             uint64_t *out_offset)
{
    struct hcq_packet packet = rig_count_packet(r, 0);
    const struct hcq_extent extent = {
        .n_dw = n_dw,
        .n_slots = piece_slots(r, n_dw),
    };
    uint64_t value = r->base->n_submitted + 1;
    struct amd_push push;
    uint32_t *start, *end;

    BELL_TRY(amd_queue_room(r->queue, &extent, &push));
    start = push.at;
    end = start + n_dw;
    if (n_counts) {
        amd_push_begin(&push);
        amd_push_packet(&push, &packet);
    }
    rig_put_nothing(r, &push, (uint32_t)(end - push.at) - signal_dw(r));
    amd_push_finish(&push, r->base->timeline->va, value);
    assert_ptr_equal(push.at, end);
    r->base->cs.n_dw = 0; /* commands to be noted for reports */
    amd_queue_commit(r->queue, value, &push, NULL);
    r->base->n_submitted = value;
    *out_offset =
        (uint64_t)((uint8_t *)start - (uint8_t *)r->queue->push.cpu) / 4;
    return BELL_OK;
}

static uint32_t
head_unit(const struct rig *r)
{
    return (uint32_t)(align_up(r->queue->ring.push.head, AMD_UNIT_BYTES) /
                      AMD_UNIT_BYTES % UNITS);
}

/* One unit at a time up to a place in the ring. */
static void
go_to_unit(struct rig *r, uint32_t unit)
{
    uint64_t offset;

    while (head_unit(r) != unit)
        rig_ok(submit_piece(r, UNIT_DW, 0, &offset));
    rig_ok(hcq_queue_wait(r->base, LONG_NS));
}

/* Where the rules of this kind of ring put a piece of so many words. */
static uint32_t
expected_dw(uint32_t unit, uint32_t n_dw)
{
    return unit * UNIT_DW + n_dw <= PUSH_DW ? unit * UNIT_DW : 0;
}

static void
run_piece(struct rig *r, uint32_t unit, uint32_t n_dw)
{
    volatile uint32_t *ring = r->queue->push.cpu;
    uint64_t offset;
    uint32_t i;

    go_to_unit(r, unit);
    for (i = 0; i < PUSH_DW; i++)
        ring[i] = POISON;
    rig_reset_counters(r);
    rig_ok(submit_piece(r, n_dw, 1, &offset));
    rig_ok(hcq_queue_wait(r->base, LONG_NS));
    rig_expect_counts(r, 1, 1);
    assert_int_equal(offset, expected_dw(unit, n_dw));
    for (i = 0; i < PUSH_DW; i++) {
        if (ring[i] != POISON && i - offset >= n_dw)
            fail_msg("a piece of %u words at %u wrote word %u", n_dw,
                     (unsigned)offset, i);
    }
}

/* Every residue of a unit; up to the end of the ring and a word beyond. */
static void
pieces_at(struct rig *r, uint32_t unit)
{
    uint32_t left = PUSH_DW - unit * UNIT_DW, n_dw;
    uint32_t least = 96 + (uint32_t)(2 * UNIT_DW); /* what it has to hold */

    for (n_dw = least; n_dw < least + UNIT_DW; n_dw++)
        run_piece(r, unit, n_dw);
    if (left >= least)
        run_piece(r, unit, left);
    if (left >= least && left < PUSH_DW)
        run_piece(r, unit, left + 1);
    run_piece(r, unit, PUSH_DW);
    run_piece(r, unit, PUSH_DW - 2);
}

static void
pieces(void **state)
{
    size_t k;

    (void)state;
    for (k = 0; k < ARRAY_LEN(ring_kinds); k++) {
        struct rig r;
        uint32_t unit;

        if (ring_kinds[k].by_launch)
            continue;
        r = open_rig(&ring_kinds[k]);
        for (unit = 0; unit < UNITS; unit++)
            pieces_at(&r, unit);
        rig_close(&r);
    }
}

/* ---- push rings that are full -------------------------------------------- */

/* With a submission at work from `unit` on: all that is left behind it, all
 * that is left before it, and not a word more. */
static void
fill_pieces(struct rig *r, uint32_t unit)
{
    struct hcq_signal *go;
    uint32_t left, before = unit * UNIT_DW;
    uint64_t offset;

    go_to_unit(r, unit);
    rig_reset_counters(r);
    go = rig_hold(r);
    left = PUSH_DW - head_unit(r) * UNIT_DW;
    if (head_unit(r) == 0) /* it ends with the ring, or went to its start */
        left = 0;
    if (left)
        rig_ok(submit_piece(r, left, left >= 128, &offset));
    if (left)
        assert_int_equal(offset + left, PUSH_DW);
    if (before)
        rig_ok(submit_piece(r, before, before >= 128, &offset));
    if (before)
        assert_int_equal(offset, 0);
    r->base->submit_timeout_ns = SHORT_NS;
    rig_fails(submit_piece(r, UNIT_DW, 0, &offset), BELL_E_TIMEOUT,
              "no room for 64 bytes and");
    r->base->submit_timeout_ns = LONG_NS;
    rig_release(r, go);
    rig_expect_counts(r, 1, (uint64_t)(left >= 128) + (before >= 128));
    rig_ok(submit_piece(r, UNIT_DW, 0, &offset));
    rig_ok(hcq_queue_wait(r->base, LONG_NS));
}

/* One word more than is left behind it, and than is left before it. */
static void
overfill_pieces(struct rig *r, uint32_t unit)
{
    struct hcq_signal *go;
    uint32_t left;
    uint64_t offset;

    go_to_unit(r, unit);
    rig_reset_counters(r);
    go = rig_hold(r);
    left = PUSH_DW - head_unit(r) * UNIT_DW;
    if (left < unit * UNIT_DW)
        left = unit * UNIT_DW;
    r->base->submit_timeout_ns = SHORT_NS;
    rig_fails(submit_piece(r, left + 1, 1, &offset), BELL_E_TIMEOUT,
              "no room for");
    r->base->submit_timeout_ns = LONG_NS;
    rig_release(r, go);
    rig_expect_counts(r, 0, 1);
    rig_ok(submit_piece(r, left + 1, 1, &offset));
    rig_ok(hcq_queue_wait(r->base, LONG_NS));
    rig_expect_counts(r, 1, 1);
    rig_fails(submit_piece(r, PUSH_DW + 1, 1, &offset), BELL_E_INVALID,
              "larger than the ring, which takes 4096 and");
}

static void
full_pieces(void **state)
{
    static const uint32_t at[] = {0, 1, 2, 11, 30, 41, 52, 55};
    size_t k, i;

    (void)state;
    for (k = 0; k < ARRAY_LEN(ring_kinds); k++) {
        struct rig r;

        if (ring_kinds[k].by_launch)
            continue;
        r = open_rig(&ring_kinds[k]);
        for (i = 0; i < ARRAY_LEN(at); i++) {
            fill_pieces(&r, at[i]);
            overfill_pieces(&r, at[i]);
        }
        rig_close(&r);
    }
}

/* ---- streams as large as the ring ---------------------------------------- */

/* Commands of different lengths. */
static void
emit_some(struct rig *r, struct hcq_cs *cs, const uint32_t n[3])
{
    uint32_t i;

    for (i = 0; i < n[0]; i++)
        hcq_cs_write(cs, rig_counter_va(r, COUNTERS - 1) + 8, 1, 64);
    for (i = 0; i < n[1]; i++)
        hcq_cs_timestamp(cs, r->base->timeline);
    for (i = 0; i < n[2]; i++)
        hcq_cs_wait(cs, r->base->timeline, 0);
}

/* Words that a fresh stream takes: a count and these. */
static uint32_t
stream_dw(struct rig *r, const uint32_t n[3])
{
    struct hcq_cs *cs;

    rig_ok(hcq_queue_begin(r->base, &cs));
    rig_emit_count(r, cs, 0);
    emit_some(r, cs, n);
    hcq_cs_discard(cs);
    return (uint32_t)r->queue->ring.fresh.n_dw;
}

/* Numbers of each that fill the ring to its last word. */
static bool
find_numbers(struct rig *r, uint32_t n[3])
{
    static const uint32_t one[][3] = {
        {0, 0, 0}, {1, 0, 0}, {0, 1, 0}, {0, 0, 1}};
    uint32_t dw[4], i, left;

    for (i = 0; i < 4; i++)
        dw[i] = stream_dw(r, one[i]) - (i ? dw[0] : 0);
    left = PUSH_DW - dw[0];
    for (n[2] = 0; n[2] * dw[3] <= left; n[2]++) {
        for (n[1] = 0; n[1] * dw[2] + n[2] * dw[3] <= left; n[1]++) {
            n[0] = (left - n[1] * dw[2] - n[2] * dw[3]) / dw[1];
            if (n[0] * dw[1] + n[1] * dw[2] + n[2] * dw[3] == left)
                return true;
        }
    }
    return false;
}

static void
full_streams(void **state)
{
    size_t k;
    uint32_t i;

    (void)state;
    for (k = 0; k < ARRAY_LEN(ring_kinds); k++) {
        struct rig r;
        struct hcq_cs *cs;
        uint32_t n[3];

        if (ring_kinds[k].by_launch)
            continue;
        r = open_rig(&ring_kinds[k]);
        assert_true(find_numbers(&r, n));
        for (i = 0; i < UNITS; i++) {
            go_to_unit(&r, i);
            rig_reset_counters(&r);
            rig_ok(hcq_queue_begin(r.base, &cs));
            rig_emit_count(&r, cs, 0);
            emit_some(&r, cs, n);
            assert_int_equal(r.queue->ring.fresh.n_dw, PUSH_DW);
            rig_ok(hcq_cs_submit(cs, NULL));
            rig_ok(hcq_queue_wait(r.base, LONG_NS));
            rig_expect_counts(&r, 1, 1);
            rig_ok(hcq_queue_begin(r.base, &cs));
            rig_emit_count(&r, cs, 0);
            emit_some(&r, cs, n);
            hcq_cs_timestamp(cs, r.base->timeline);
            rig_fails(hcq_cs_submit(cs, NULL), BELL_E_INVALID,
                      "the stream is larger than the ring");
        }
        rig_close(&r);
    }
}

/* A submission without commands needs room for its ends alone, whatever was
 * emitted before it. */
static void
empty_streams(void **state)
{
    size_t k;

    (void)state;
    for (k = 0; k < ARRAY_LEN(ring_kinds); k++) {
        struct rig r;
        struct hcq_signal *go;
        struct hcq_cs *cs;
        uint32_t n[3];

        if (ring_kinds[k].by_launch)
            continue;
        r = open_rig(&ring_kinds[k]);
        assert_true(find_numbers(&r, n));
        go = rig_hold(&r);
        assert_int_equal(stream_dw(&r, n), PUSH_DW);
        r.base->submit_timeout_ns = SHORT_NS;
        rig_ok(hcq_queue_begin(r.base, &cs));
        rig_ok(hcq_cs_submit(cs, NULL));
        r.base->submit_timeout_ns = LONG_NS;
        rig_release(&r, go);
        rig_ok(hcq_queue_wait(r.base, LONG_NS));
        rig_close(&r);
    }
}

/* ---- what is read behind the last write ---------------------------------- */

/* Nothing lies behind the write that completes a submission; of several dies,
 * which read it one after the other, not even that write lies in what is given
 * back with it. */
static void
ends_with_the_release(void **state)
{
    size_t k;

    (void)state;
    for (k = 0; k < ARRAY_LEN(ring_kinds); k++) {
        struct rig r = open_rig(&ring_kinds[k]);
        const uint32_t *slot, *push = r.queue->push.cpu;
        uint64_t va, n_dw;

        rig_ok(rig_submit_release(&r));
        slot = r.queue->channel.ring;
        if (r.queue->channel.kind == AMD_RING_SDMA) {
            assert_int_equal(slot[r.queue->ring.slot_put - 1],
                             (uint32_t)r.base->n_submitted);
            rig_close(&r);
            continue;
        }
        if (r.queue->channel.kind == AMD_RING_AQL)
            slot++;
        va = slot[1] | (uint64_t)slot[2] << 32;
        n_dw = slot[3] & 0xfffff;
        assert_int_equal(r.queue->channel.kind == AMD_RING_AQL,
                         va < (uintptr_t)push ||
                             va >= (uintptr_t)push + RING_BYTES);
        assert_true(n_dw <= UNIT_DW);
        rig_ok(hcq_queue_wait(r.base, LONG_NS));
        rig_close(&r);
    }
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sdma_packet_sizes),
        cmocka_unit_test(pieces),
        cmocka_unit_test(full_pieces),
        cmocka_unit_test(full_streams),
        cmocka_unit_test(empty_streams),
        cmocka_unit_test(ends_with_the_release),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
