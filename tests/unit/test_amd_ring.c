/* The ring of hcq/amd that the card reads, exhaustively: submissions of several
 * lengths at every slot of a small one, rings that are full to the last slot,
 * pointers beyond 32 bits.
 *
 * Its slots have one size, and nothing begins anywhere else: they are its
 * offsets. Slots of a copy queue are words; what is submitted there has to
 * begin at every one of them, and packets do not go over the ring's end. Each
 * command counts: that it ran once, and not twice, can be told.
 *
 * The unused part of the ring is filled with words that are not commands before
 * every submission, and has to be the same afterwards. The pages around it can
 * neither be read nor written. test_amd_push.c has what slots point to.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "amd_rig.h"
#include "base/bits.h"
#include "hcq/amd/regs/amd_object.h"
#include "hcq/amd/regs/amd_sdma.h"
#include "sanitized.h"

/* Steps through the words that a submission may begin at. */
#define STEP      (IS_SANITIZED ? 37 : 1)
#define LONG_STEP (IS_SANITIZED ? 97 : 9)

/* ---- submissions of so many slots ---------------------------------------- */

/* A bound stream has: its beginning, a slot for each command, the release of
 * the timeline. A fresh one has one slot, unless it launches from an AQL ring
 * or the release stands apart. One slot alone is a release. */
struct load {
    uint32_t n_slots; /* SDMA: at least */
    uint32_t n_counts;
    bool is_fresh;
    struct hcq_stream *stream; /* NULL: fresh, or a release */
};

static struct load
make_load(struct rig *r, uint32_t n_slots)
{
    struct load load = {.n_slots = n_slots};
    struct hcq_cs *cs;
    uint32_t i;

    if (n_slots == 1)
        return load;
    load.n_counts = n_slots - 2;
    rig_ok(hcq_stream_create(r->base, "slots", &load.stream));
    cs = hcq_stream_cs(load.stream);
    for (i = 0; i < load.n_counts; i++)
        rig_emit_count(r, cs, i);
    rig_ok(hcq_stream_end(load.stream));
    return load;
}

static bool
is_sdma(const struct rig *r)
{
    return r->queue->channel.kind == AMD_RING_SDMA;
}

/* Words on a copy queue: the beginning of a submission, its commands, its
 * release. */
static uint32_t
words_of(const struct rig *r, uint32_t n_counts)
{
    struct hcq_packet signal = {.head = {.op = HCQ_OP_SIGNAL}};
    const struct amd_engine *engine = &r->queue->engine;
    uint32_t begin = 6 + (engine->dev->gen->has_gcr ? 5 : 0);

    return begin + n_counts * (1 + (COUNTER_WORDS - 1) * 7) +
           amd_sdma_dw(engine, &signal, 0) - AMD_SDMA_FENCE_DW;
}

static struct load
make_words(struct rig *r, uint32_t n_counts)
{
    struct load load = make_load(r, 2 + n_counts);

    load.n_slots = words_of(r, n_counts);
    return load;
}

static bool
has_aql_launches(const struct rig *r)
{
    return r->kind->by_launch && r->queue->channel.kind == AMD_RING_AQL;
}

static struct load
make_fresh(const struct rig *r, uint32_t n_counts)
{
    uint32_t n_slots = amd_fresh_slots(&r->queue->engine);

    if (is_sdma(r))
        n_slots = words_of(r, n_counts);
    if (has_aql_launches(r)) /* in front of them, they, behind them */
        n_slots = 2 + n_counts;
    return (struct load){n_slots, n_counts, true, NULL};
}

static bell_status
submit_load(struct rig *r, const struct load *load)
{
    struct hcq_cs *cs;
    uint32_t i;

    if (load->stream)
        return hcq_stream_submit(load->stream, NULL);
    if (!load->is_fresh)
        return rig_submit_release(r);
    rig_ok(hcq_queue_begin(r->base, &cs));
    for (i = 0; i < load->n_counts; i++)
        rig_emit_count(r, cs, i);
    return hcq_cs_submit(cs, NULL);
}

static void
drop_load(struct load *load)
{
    if (load->stream)
        hcq_stream_destroy(load->stream);
}

static uint32_t
slot_dw(const struct rig *r)
{
    return r->queue->engine.slot_dw;
}

static uint32_t
poison_of(const struct rig *r, uint64_t dw)
{
    if (r->queue->channel.kind == AMD_RING_AQL && dw % slot_dw(r) == 0)
        return AMD_OBJECT_AQL_TYPE_INVALID;
    return POISON;
}

/* When the card has taken all: of several dies one releases the timeline, and
 * others may come to that slot later. */
static void
poison_slots(struct rig *r)
{
    const struct amd_channel *channel = &r->queue->channel;
    uint64_t i;

    while (channel->kind == AMD_RING_AQL && *channel->rptr != channel->put)
        hcq_spin(0);
    for (i = 0; i < r->queue->channel.ring_bytes / 4; i++)
        r->queue->channel.ring[i] = poison_of(r, i);
}

/* All but the n slots from there are as they were. */
static void
expect_slots(const struct rig *r, uint64_t from, uint64_t n)
{
    uint64_t i, slot;

    for (i = 0; i < r->queue->channel.ring_bytes / 4; i++) {
        slot = (i / slot_dw(r) - from) & (r->n_slots - 1);
        if (slot >= n && r->queue->channel.ring[i] != poison_of(r, i))
            fail_msg("word %u of the ring was written",
                     (unsigned)(i * sizeof(uint32_t)));
    }
}

static uint64_t
run_load(struct rig *r, const struct load *load)
{
    uint64_t from = r->queue->ring.slot_put, n;

    poison_slots(r);
    rig_reset_counters(r);
    rig_ok(submit_load(r, load));
    rig_ok(hcq_queue_wait(r->base, LONG_NS));
    n = r->queue->ring.slot_put - from;
    if (is_sdma(r)) /* with what stays empty before each end of the ring */
        assert_true(n - load->n_slots <=
                    (from + n) / r->n_slots * AMD_SDMA_TAIL_DW);
    else
        assert_int_equal(n, load->n_slots);
    rig_expect_counts(r, load->n_counts, 1);
    expect_slots(r, from, n);
    return from & (r->n_slots - 1);
}

/* An odd number of slots at a time comes to every slot of the ring. */
static void
every_slot(struct rig *r, struct load load)
{
    struct load one = make_load(r, 1);
    uint8_t seen[RING_BYTES / 16] = {0};
    uint64_t i;

    for (i = 0; i < r->n_slots; i++) {
        seen[run_load(r, &load)] = 1;
        if (load.n_slots % 2 == 0)
            (void)run_load(r, &one);
    }
    for (i = 0; i < r->n_slots; i++)
        assert_int_equal(seen[i], 1);
    drop_load(&load);
}

/* Words that do nothing up to a place in the ring of a copy queue. */
static void
go_to_word(struct rig *r, uint64_t word)
{
    struct amd_channel *channel = &r->queue->channel;

    rig_ok(hcq_queue_wait(r->base, LONG_NS));
    (void)hcq_ring_retire(r->base);
    while ((r->queue->ring.slot_put & (r->n_slots - 1)) != word)
        channel->ring[r->queue->ring.slot_put++ & (r->n_slots - 1)] = 0;
    channel->put = r->queue->ring.slot_put * 4;
    amd_channel_ring(channel);
    while (amd_channel_room(channel) < channel->ring_bytes)
        hcq_spin(0);
    r->queue->ring.slot_tail = r->queue->ring.slot_put;
}

/* At every word from which a load goes over the end of the ring, or nearly, and
 * at some others; long ones at some: each begins where it does. */
static void
every_word(struct rig *r, struct load load)
{
    uint64_t n_near = load.n_counts < 5 ? load.n_slots + AMD_SDMA_TAIL_DW : 0;
    uint64_t i;

    for (i = 0; i < r->n_slots; i += i <= n_near ? STEP : LONG_STEP) {
        go_to_word(r, r->n_slots - 1 - i);
        assert_int_equal(run_load(r, &load), r->n_slots - 1 - i);
    }
    drop_load(&load);
}

/* The most that is submitted at once are 44 commands; more go in parts. */
static void
words(void **state)
{
    static const uint32_t counts[] = {0, 1, 3, 22, 43, 44, 45, 100};
    size_t k, i;

    (void)state;
    for (k = 0; k < ARRAY_LEN(ring_kinds); k++) {
        struct rig r;

        if (ring_kinds[k].queue != HCQ_QUEUE_COPY)
            continue;
        r = rig_open(&ring_kinds[k], PAGE_BYTES * 16);
        for (i = 0; i < ARRAY_LEN(counts); i++)
            every_word(&r, make_words(&r, counts[i]));
        every_word(&r, make_fresh(&r, 1));
        every_word(&r, make_fresh(&r, 7));
        rig_close(&r);
    }
}

/* Every length begins at every slot; the longest ones fill the ring, but for
 * the slot that stays free, or go through it in parts. */
static void
slots(void **state)
{
    size_t k, i;

    (void)state;
    for (k = 0; k < ARRAY_LEN(ring_kinds); k++) {
        struct rig r = rig_open(&ring_kinds[k], PAGE_BYTES * 16);
        uint32_t n = (uint32_t)r.n_slots;
        const uint32_t lengths[] = {1,         2,     3,     4, 7,    16,
                                    n / 2 + 1, n - 2, n - 1, n, n + 1};

        if (is_sdma(&r)) { /* see words */
            rig_close(&r);
            continue;
        }
        assert_int_equal(n, RING_BYTES / 4 / slot_dw(&r));
        for (i = 0; i < ARRAY_LEN(lengths); i++)
            every_slot(&r, make_load(&r, lengths[i]));
        every_slot(&r, make_load(&r, 2 * n + 5));
        every_slot(&r, make_fresh(&r, 1));
        every_slot(&r, make_fresh(&r, 4));
        rig_close(&r);
    }
}

/* ---- rings of slots that are full ---------------------------------------- */

/* One slot at a time up to a place in the ring. */
static void
go_to_slot(struct rig *r, uint64_t slot)
{
    while ((r->queue->ring.slot_put & (r->n_slots - 1)) != slot)
        rig_ok(rig_submit_release(r));
    rig_ok(hcq_queue_wait(r->base, LONG_NS));
}

/* From there to the last slot that can be used, and one more. */
static void
fill_slots(struct rig *r, uint64_t slot, const struct load *most,
           const struct load *too_many)
{
    struct load one = make_load(r, 1);
    struct hcq_signal *go;
    uint64_t put;

    go_to_slot(r, slot);
    rig_reset_counters(r);
    go = rig_hold(r);
    rig_ok(submit_load(r, most));
    put = r->queue->ring.slot_put;
    assert_int_equal(put - r->queue->ring.slot_tail, r->n_slots - 1);
    r->base->submit_timeout_ns = SHORT_NS;
    rig_fails(submit_load(r, &one), BELL_E_TIMEOUT, "no room for");
    rig_fails(submit_load(r, &one), BELL_E_TIMEOUT, "wait for signal");
    r->base->submit_timeout_ns = LONG_NS;
    assert_int_equal(r->queue->ring.slot_put, put);
    rig_release(r, go);
    rig_expect_counts(r, most->n_counts, 1);

    go_to_slot(r, slot);
    rig_reset_counters(r);
    go = rig_hold(r);
    put = r->queue->ring.slot_put;
    r->base->submit_timeout_ns = SHORT_NS;
    rig_fails(submit_load(r, too_many), BELL_E_TIMEOUT, "no room for");
    r->base->submit_timeout_ns = LONG_NS;
    assert_int_equal(r->queue->ring.slot_put, put);
    rig_release(r, go);
    rig_expect_counts(r, 0, 1);
    rig_ok(submit_load(r, too_many));
    rig_ok(hcq_queue_wait(r->base, LONG_NS));
    rig_expect_counts(r, too_many->n_counts, 1);
}

/* Streams until none fits: what is left is less than one may take; none is
 * lost. */
static void
fill_words(struct rig *r, uint64_t word, const struct load *load)
{
    uint64_t most = load->n_slots + AMD_FINISH_DW + AMD_SDMA_TAIL_DW, put = 0;
    bell_status status = BELL_OK;
    struct hcq_signal *go;
    uint32_t n = 0;

    go_to_word(r, word);
    rig_reset_counters(r);
    go = rig_hold(r);
    r->base->submit_timeout_ns = SHORT_NS;
    while (status == BELL_OK && n < r->n_slots) {
        put = r->queue->ring.slot_put;
        status = submit_load(r, load);
        n += status == BELL_OK;
    }
    r->base->submit_timeout_ns = LONG_NS;
    rig_fails(status, BELL_E_TIMEOUT, "no room for");
    rig_fails(status, BELL_E_TIMEOUT, "wait for signal");
    assert_int_equal(r->queue->ring.slot_put, put);
    assert_true(put - r->queue->ring.slot_tail < r->n_slots);
    assert_true(put - r->queue->ring.slot_tail + most >= r->n_slots);
    rig_release(r, go);
    assert_true(n > 0);
    rig_expect_counts(r, load->n_counts, n < 3 ? n : 3); /* it counts to 3 */
    rig_reset_counters(r);
    rig_ok(submit_load(r, load));
    rig_ok(hcq_queue_wait(r->base, LONG_NS));
    rig_expect_counts(r, load->n_counts, 1);
}

static void
full_of_words(struct rig *r)
{
    const uint64_t n = r->n_slots, at[] = {0, 1, 7, n / 2, n - 8, n - 1};
    struct load one = make_words(r, 1), most = make_words(r, 40);
    size_t i;

    for (i = 0; i < ARRAY_LEN(at); i++) {
        fill_words(r, at[i], &one);
        fill_words(r, at[i], &most);
    }
}

static void
full_slots(void **state)
{
    size_t k;

    (void)state;
    for (k = 0; k < ARRAY_LEN(ring_kinds); k++) {
        struct rig r = rig_open(&ring_kinds[k], PAGE_BYTES * 16);
        uint32_t n = (uint32_t)r.n_slots, i;
        const uint32_t at[] = {0, 1, 2, n / 2, n - 2, n - 1};
        uint32_t n_held = amd_fresh_slots(&r.queue->engine);
        struct load most, too_many;

        if (is_sdma(&r)) {
            full_of_words(&r);
            rig_close(&r);
            continue;
        }
        most = make_load(&r, n - 1 - n_held);
        too_many = make_load(&r, n - n_held);
        for (i = 0; i < ARRAY_LEN(at); i++)
            fill_slots(&r, at[i], &most, &too_many);
        rig_close(&r);
    }
}

/* A stream that goes through the ring in parts, and its last `n_held` slots
 * wait: what is left behind them is what can be used, to the last slot. */
static void
fill_behind(struct rig *r, uint32_t n_held)
{
    struct hcq_signal *go;
    struct hcq_stream *stream;
    struct hcq_cs *cs;
    uint32_t i, n_counts = is_sdma(r) ? 100 : (uint32_t)r->n_slots + 7, n = 0;
    bell_status status = BELL_OK;

    rig_reset_counters(r);
    rig_ok(hcq_signal_create(r->dev, 0, &go));
    rig_ok(hcq_stream_create(r->base, "parts", &stream));
    cs = hcq_stream_cs(stream);
    for (i = 0; i < n_counts; i++) {
        if (i + n_held - 2 == n_counts) /* the wait, these, the release */
            hcq_cs_wait(cs, go, 1);
        rig_emit_count(r, cs, i);
    }
    rig_ok(hcq_stream_end(stream));
    rig_ok(hcq_stream_submit(stream, NULL));
    r->base->submit_timeout_ns = SHORT_NS;
    while (status == BELL_OK && n < r->n_slots) {
        status = rig_submit_release(r);
        n += status == BELL_OK;
    }
    r->base->submit_timeout_ns = LONG_NS;
    rig_fails(status, BELL_E_TIMEOUT, "no room for");
    assert_true(n + n_held <= r->n_slots - 1);
    rig_release(r, go);
    rig_expect_counts(r, n_counts, 1);
    hcq_stream_destroy(stream);
}

static void
full_behind_parts(void **state)
{
    size_t k;

    (void)state;
    for (k = 0; k < ARRAY_LEN(ring_kinds); k++) {
        struct rig r = rig_open(&ring_kinds[k], PAGE_BYTES * 16);
        uint32_t n = is_sdma(&r) ? 44 : (uint32_t)r.n_slots, i;
        const uint32_t held[] = {3, 4, n / 2, n - 3, n - 2};

        for (i = 0; i < ARRAY_LEN(held); i++)
            fill_behind(&r, held[i]);
        rig_close(&r);
    }
}

/* Released slots are not free as long as the read index stands before it. */
static void
taken_late(void **state)
{
    size_t k;

    (void)state;
    for (k = 0; k < ARRAY_LEN(ring_kinds); k++) {
        struct rig r = rig_open(&ring_kinds[k], PAGE_BYTES * 16);
        struct amd_channel *channel = &r.queue->channel;
        struct amd_object_aql_queue *page = channel->pointers.cpu;
        struct load three = make_load(&r, 3), one = make_load(&r, 1);
        uint64_t i;

        for (i = 0; channel->kind == AMD_RING_AQL && i < r.n_slots; i += 9) {
            rig_reset_counters(&r);
            go_to_slot(&r, i);
            while (*channel->rptr != channel->put)
                hcq_spin(0);
            page->read_id -= r.n_slots - 3; /* two left, one stays free */
            r.queue->slot_taken = page->read_id;
            r.base->submit_timeout_ns = SHORT_NS;
            rig_fails(submit_load(&r, &three), BELL_E_TIMEOUT, "no room in a");
            rig_ok(submit_load(&r, &one));
            r.base->submit_timeout_ns = LONG_NS;
            rig_ok(submit_load(&r, &three));
            rig_ok(hcq_queue_wait(r.base, LONG_NS));
            rig_expect_counts(&r, 1, 1);
        }
        drop_load(&three);
        rig_close(&r);
    }
}

/* ---- what wakes ---------------------------------------------------------- */

/* Behind every submission it is read late: the longest ones that follow leave
 * it alone. One after the other, and as many as there is room for. */
static void
wakes_behind(struct rig *r, struct load load, bool in_turn)
{
    uint32_t i, n = IS_SANITIZED ? 60 : 200;

    rig_reset_counters(r);
    for (i = 0; i < n; i++) {
        rig_ok(submit_load(r, &load));
        if (in_turn)
            rig_ok(hcq_queue_wait(r->base, LONG_NS));
        assert_true(r->queue->ring.slot_put - r->queue->ring.slot_tail <=
                    r->n_slots);
    }
    rig_ok(hcq_queue_wait(r->base, LONG_NS));
    rig_expect_counts(r, load.n_counts, r->kind->by_launch ? n : 3);
    drop_load(&load);
}

static void
wakes(void **state)
{
    size_t k;
    uint32_t i;

    (void)state;
    for (k = 0; k < ARRAY_LEN(ring_kinds); k++) {
        struct rig r = rig_open(&ring_kinds[k], PAGE_BYTES * 16);
        uint32_t n = (uint32_t)r.n_slots, n_words = 0;
        const uint32_t lengths[] = {1, 2, 3, n / 2, n - 3, n - 2, n - 1, n};

        r.queue->engine.n_wake = r.n_wake;
        amd_queue_limit(r.queue);
        assert_true(r.n_wake > 0);
        if (is_sdma(&r)) { /* the most that goes at once, and one more */
            while (words_of(&r, n_words + 1) +
                       amd_finish_slots(&r.queue->engine) <=
                   r.queue->ring.max_slots)
                n_words++;
            for (i = 0; i < 4; i++)
                wakes_behind(&r, make_words(&r, i < 2 ? 1 : n_words + i / 3),
                             i % 2);
        }
        for (i = 0; !is_sdma(&r) && i < 2 * ARRAY_LEN(lengths); i++)
            wakes_behind(&r, make_load(&r, lengths[i / 2]), i % 2);
        wakes_behind(&r, make_fresh(&r, 1), true);
        wakes_behind(&r, make_fresh(&r, 4), false);
        rig_close(&r);
    }
}

/* ---- pointers over 2^32 -------------------------------------------------- */

#define LARGE_RING_BYTES (16u << 20)
#define LAP_DW           0x2000u /* of one packet that does nothing */

/* The channel's units of a slot, and of a word. */
static uint64_t
units_of(const struct rig *r, uint64_t n_dw)
{
    return r->queue->channel.kind == AMD_RING_SDMA ? n_dw * 4 : n_dw;
}

/* One packet of n_dw words that does nothing. */
static void
put_lap(struct rig *r, uint32_t *at, uint32_t n_dw)
{
    struct amd_push push = {.engine = &r->queue->engine, .at = at};

    rig_put_nothing(r, &push, n_dw);
    if (r->queue->channel.kind == AMD_RING_SDMA) /* else one for each word */
        at[0] = (n_dw - 1) << 16;
}

static void
advance(struct amd_channel *channel, uint64_t n)
{
    while (amd_channel_room(channel) < n)
        hcq_spin(0);
    channel->put += n;
    amd_channel_ring(channel);
}

/* Goes round until the pointers are so many slots before 2^32. */
static void
turn_to_the_edge(struct rig *r, uint32_t n_slots)
{
    struct amd_channel *channel = &r->queue->channel;
    uint64_t half = units_of(r, LARGE_RING_BYTES / 4) / 2, edge = 1ull << 32;
    uint32_t n_left = n_slots * slot_dw(r), i;

    for (i = 0; i < LARGE_RING_BYTES / 4; i += LAP_DW)
        put_lap(r, channel->ring + i, LAP_DW);
    while (channel->put < edge - half)
        advance(channel, half);
    while (amd_channel_room(channel) + 1 < 2 * half)
        hcq_spin(0);
    put_lap(r, channel->ring + LARGE_RING_BYTES / 4 - LAP_DW, LAP_DW - n_left);
    advance(channel, half - units_of(r, n_left));
    r->queue->ring.slot_put = r->queue->ring.slot_tail =
        channel->put / units_of(r, slot_dw(r));
    assert_int_equal(channel->put, edge - units_of(r, n_left));
}

static void
pointers_over_32_bits(void **state)
{
    static const uint32_t which[] = {0, 2, 5};
    size_t k;
    uint32_t i;

    (void)state;
    for (k = 0; k < ARRAY_LEN(which); k++) {
        struct rig r = rig_open(&ring_kinds[which[k]], PAGE_BYTES * 16);
        struct load three = make_load(&r, 3), one = make_fresh(&r, 1);

        rig_replace_ring(&r, LARGE_RING_BYTES);
        turn_to_the_edge(&r, 10);
        for (i = 0; i < 8; i++) {
            rig_reset_counters(&r);
            rig_ok(submit_load(&r, i % 2 ? &one : &three));
            rig_ok(hcq_queue_wait(r.base, LONG_NS));
            rig_expect_counts(&r, 1, 1);
        }
        assert_true(r.queue->channel.put > 1ull << 32);
        if (!is_sdma(&r))
            assert_int_equal(r.queue->channel.put % (1ull << 32),
                             units_of(&r, 6ull * slot_dw(&r)));
        rig_close(&r);
    }
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(slots),
        cmocka_unit_test(words),
        cmocka_unit_test(full_slots),
        cmocka_unit_test(full_behind_parts),
        cmocka_unit_test(taken_late),
        cmocka_unit_test(wakes),
        cmocka_unit_test(pointers_over_32_bits),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
