/* Bound streams on a simulated card of several dies, whose launches are words
 * that every die reads: each group runs once, launches follow each other, and
 * what one die stores the others see. That the card would show where it is not
 * so: the same streams with one of their words wrong.
 */
#include <stdlib.h>

#include "tests/unit/amd_kernels.h"
#include "base/bits.h"
#include "hcq/amd/amd_command.h"
#include "hcq/amd/regs/amd_object.h"
#include "hcq/amd/regs/amd_pm4.h"

#define CARD "AMD@sim:gfx942"

#define GROUPS    64u
#define ROW_BYTES (GROUPS * 8)
#define ROWS      60u

/* ---- a chain of launches ------------------------------------------------- */

/* Rows in the card's own memory: each launch adds what the row before has,
 * from the next group, which another die ran. */
struct chain {
    struct rig rig;
    struct hcq_program *step;
    struct hcq_buffer *rows;
    uint64_t model[ROWS][GROUPS];
};

static void
open_chain(struct chain *c, const char *card, const char *bound)
{
    static const uint64_t zeros[ROWS][GROUPS];

    memset(c, 0, sizeof(*c));
    setenv("BELL_AMD_BOUND", bound, 1);
    c->rig = open_rig(card);
    unsetenv("BELL_AMD_BOUND");
    c->step = amd_kernel_load(c->rig.dev, &amd_step_kernel);
    expect_ok(hcq_buffer_create(c->rig.dev, sizeof(zeros), 0, &c->rows));
    expect_ok(hcq_buffer_write(c->rows, 0, zeros, sizeof(zeros)));
}

static uint64_t
row_va(const struct chain *c, uint32_t row)
{
    return c->rows->va + (uint64_t)row * ROW_BYTES;
}

static void
emit_step(const struct chain *c, struct hcq_cs *cs, uint32_t row)
{
    const uint64_t args[] = {c->rows->va, (uint64_t)row * ROW_BYTES << 32 |
                                              (row - 1) * ROW_BYTES};
    static const uint32_t grid[] = {GROUPS, 1, 1}, one[] = {1, 1, 1};

    hcq_cs_exec(cs, c->step, args, 2, grid, one);
}

/* All launches; in the middle a row that a write, a fill and a copy change. */
static void
emit_chain(const struct chain *c, struct hcq_cs *cs)
{
    uint32_t row;

    for (row = 1; row < ROWS; row++) {
        if (row == 20) {
            hcq_cs_write(cs, row_va(c, 19) + 24, 1000, 64);
            hcq_cs_fill(cs, row_va(c, 19) + 64, 7, 8);
            hcq_cs_copy(cs, row_va(c, 19) + 128, row_va(c, 19) + 24, 8);
        }
        emit_step(c, cs, row);
    }
}

static void
model_chain(struct chain *c)
{
    uint32_t row, g;

    for (row = 1; row < ROWS; row++) {
        if (row == 20) {
            c->model[19][3] = c->model[19][16] = 1000;
            c->model[19][8] = 7ull << 32 | 7;
        }
        for (g = 0; g < GROUPS; g++)
            c->model[row][g] += c->model[row - 1][(g + 1) % GROUPS] + 1;
    }
}

static bool
is_as_modelled(const struct chain *c)
{
    static uint64_t rows[ROWS][GROUPS];

    expect_ok(hcq_buffer_read(c->rows, 0, rows, sizeof(rows)));
    return memcmp(rows, c->model, sizeof(rows)) == 0;
}

static struct hcq_stream *
bind_chain(struct chain *c)
{
    struct hcq_stream *stream;

    expect_ok(hcq_stream_create(c->rig.queue, "chain", &stream));
    emit_chain(c, hcq_stream_cs(stream));
    expect_ok(hcq_stream_end(stream));
    return stream;
}

static void
run_fresh(struct chain *c)
{
    struct hcq_cs *cs;

    expect_ok(hcq_queue_begin(c->rig.queue, &cs));
    emit_chain(c, cs);
    expect_ok(hcq_cs_submit(cs, NULL));
    model_chain(c);
}

static void
run_bound(struct chain *c, struct hcq_stream *stream)
{
    expect_ok(hcq_stream_submit(stream, NULL));
    model_chain(c);
}

/* Bound and fresh ones in turns, and two bound ones. */
static void
chains(void **state)
{
    static const struct {
        const char *card, *bound;
        uint32_t n_slots; /* of the stream */
    } rows[] = {
        {CARD, "pm4", 1},
        {CARD, "aql", 2 * ROWS - 1},
        {"AMD:1@sim:gfx942*2", "pm4", 1},
        {"AMD@sim:gfx1100", "pm4", 1},
        {"AMD@sim:gfx1100", "aql", 1},
    };
    static struct chain c;
    size_t i, n;

    (void)state;
    for (i = 0; i < ARRAY_LEN(rows); i++) {
        struct amd_queue *queue;
        struct hcq_stream *two[2];
        uint64_t slots;

        open_chain(&c, rows[i].card, rows[i].bound);
        queue = amd_queue_of(c.rig.queue);
        two[0] = bind_chain(&c);
        two[1] = bind_chain(&c);
        for (n = 0; n < 4; n++) {
            slots = queue->ring.slot_put;
            run_bound(&c, two[n % 2]);
            slots = queue->ring.slot_put - slots;
            if (slots > rows[i].n_slots + amd_finish_slots(&queue->engine))
                fail_msg("%s, %s: %llu slots", rows[i].card, rows[i].bound,
                         (unsigned long long)slots);
            if (n & 1)
                run_fresh(&c);
        }
        expect_ok(hcq_queue_wait(c.rig.queue, LONG_NS));
        assert_true(is_as_modelled(&c));
        close_rig(&c.rig);
    }
}

/* ---- the card's strictness ----------------------------------------------- */

/* The words of a stream that the queue holds: what its first packet names. */
static uint32_t *
words_of(struct hcq_stream *stream, uint32_t *out_n)
{
    struct amd_queue *queue = amd_queue_of(stream->queue);
    uint64_t slot = queue->ring.slot_put & (queue->n_slots - 1);
    struct amd_pm4_indirect_buffer ib;

    expect_ok(hcq_stream_submit(stream, NULL));
    ib = amd_unpack_pm4_indirect_buffer(
        AMD_PM4_GEN_GFX9, queue->channel.ring + slot * 16 +
                              AMD_OBJECT_AQL_PM4_INDIRECT_BUFFER / 4);
    *out_n = ib.size;
    return (uint32_t *)(uintptr_t)ib.base;
}

static uint32_t
packet_dw(uint32_t header)
{
    return (header >> 16 & 0x3fff) + 2;
}

static void
pass_over(uint32_t *packet)
{
    *packet = (*packet & ~0xff00u) | 0x1000;
}

/* Calls `change` for each packet. */
static void
change_words(uint32_t *words, uint32_t n, void (*change)(uint32_t *packet))
{
    uint32_t i;

    for (i = 0; i < n; i += packet_dw(words[i]))
        change(words + i);
    assert_int_equal(i, n);
}

static void
change_nothing(uint32_t *packet)
{
    (void)packet;
}

/* No group is dealt out: every die runs all. */
static void
deal_nothing(uint32_t *packet)
{
    if (packet[0] == 0xc0017600 && packet[1] == 0x227)
        packet[2] = 0;
}

static void
be_one_die(uint32_t *packet)
{
    if (packet[0] == 0xc0017600 && packet[1] == 0x225)
        packet[2] = 0;
}

static void
never_meet(uint32_t *packet)
{
    if (packet[0] == 0xc0071e00 ||
        (packet[0] == 0xc0053c00 && packet[5] == 3 && packet[6] == 0x80))
        pass_over(packet);
}

/* Dies keep what they store, and have loaded, to themselves. */
static void
keep_caches(uint32_t *packet)
{
    if (packet[0] == 0xc0055800 && packet[1] == 0x08c40000)
        pass_over(packet);
}

static void
wrong_words(void **state)
{
    static const struct {
        void (*change)(uint32_t *packet);
        bool is_right;
    } rows[] = {
        {change_nothing, true}, {deal_nothing, false}, {be_one_die, false},
        {never_meet, false},    {keep_caches, false},
    };
    static struct chain c;
    size_t i;

    (void)state;
    for (i = 0; i < ARRAY_LEN(rows); i++) {
        struct hcq_signal *go;
        uint32_t *words, n;

        open_chain(&c, CARD, "pm4");
        go = hold(&c.rig, c.rig.queue);
        words = words_of(bind_chain(&c), &n);
        change_words(words, n, rows[i].change);
        model_chain(&c);
        hcq_signal_set(go, 1);
        expect_ok(hcq_queue_wait(c.rig.queue, LONG_NS));
        if (is_as_modelled(&c) != rows[i].is_right)
            fail_msg("row %zu", i);
        close_rig(&c.rig);
    }
}

/* All dies at the first one's scratch. */
static void
share_scratch(uint32_t *packet)
{
    static uint32_t first[2];

    if (packet[0] != 0xc0027600 || packet[1] != 0x210)
        return;
    if (!first[0])
        memcpy(first, packet + 2, sizeof(first));
    memcpy(packet + 2, first, sizeof(first));
}

static void
scratch(void **state)
{
    static struct chain c;
    uint32_t round, n, *words, i;

    (void)state;
    for (round = 0; round < 2; round++) {
        struct hcq_program *stack;
        struct hcq_stream *stream;
        struct hcq_signal *go;

        open_chain(&c, CARD, "pm4");
        stack = amd_kernel_load_stack(c.rig.dev, 64);
        expect_ok(hcq_stream_create(c.rig.queue, "stack", &stream));
        amd_kernel_exec_x(hcq_stream_cs(stream), &c.rig, stack, 500, 8, 64);
        expect_ok(hcq_stream_end(stream));
        go = hold(&c.rig, c.rig.queue);
        words = words_of(stream, &n);
        change_words(words, n, round ? share_scratch : change_nothing);
        hcq_signal_set(go, 1);
        if (round) { /* the card stops, and tells nobody */
            expect_fails(hcq_queue_wait(c.rig.queue, 200000000), BELL_E_TIMEOUT,
                         "exec stack");
            expect_ok(hcq_device_recover(c.rig.dev));
        } else {
            expect_ok(hcq_queue_wait(c.rig.queue, LONG_NS));
            for (i = 0; i < 64; i++)
                assert_int_equal(((uint32_t *)c.rig.out->host)[i], 500 + i);
        }
        close_rig(&c.rig);
    }
}

/* ---- recovery ------------------------------------------------------------ */

/* Some dies have come to where they meet, one has not. */
static void
stuck_between(void **state)
{
    static struct chain c;
    struct hcq_program *stuck;
    struct hcq_stream *stream, *chain;
    uint32_t round;

    (void)state;
    open_chain(&c, CARD, "pm4");
    stuck = amd_kernel_load(c.rig.dev, &amd_stuck_kernel);
    chain = bind_chain(&c);
    expect_ok(hcq_stream_create(c.rig.queue, "stuck", &stream));
    amd_kernel_exec_x(hcq_stream_cs(stream), &c.rig, stuck, 0, 4, 1);
    expect_ok(hcq_stream_end(stream));
    for (round = 0; round < 6; round++) {
        expect_ok(hcq_stream_submit(stream, NULL));
        expect_fails(hcq_stream_wait(stream, 50000000), BELL_E_TIMEOUT,
                     "exec stuck 4x1x1");
        expect_ok(hcq_device_recover(c.rig.dev));
        run_bound(&c, chain);
        expect_ok(hcq_queue_wait(c.rig.queue, LONG_NS));
        assert_true(is_as_modelled(&c));
    }
    close_rig(&c.rig);
}

/* ---- the choice ---------------------------------------------------------- */

static void
choice(void **state)
{
    static const char *const rows[] = {NULL, "aql", "pm4"};
    struct hcq_device *dev;
    struct rig r;
    size_t i;

    (void)state;
    setenv("BELL_AMD_BOUND", "both", 1);
    expect_fails(hcq_device_open(CARD, &dev), BELL_E_INVALID,
                 "BELL_AMD_BOUND is 'both', not aql or pm4");
    unsetenv("BELL_AMD_BOUND");
    for (i = 0; i < ARRAY_LEN(rows); i++) {
        if (rows[i])
            setenv("BELL_AMD_BOUND", rows[i], 1);
        r = open_rig(CARD);
        unsetenv("BELL_AMD_BOUND");
        assert_int_equal(amd_queue_of(r.queue)->engine.binds_words,
                         rows[i] && strcmp(rows[i], "pm4") == 0);
        assert_false(amd_queue_of(r.copy)->engine.binds_words);
        close_rig(&r);
    }
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(chains),  cmocka_unit_test(wrong_words),
        cmocka_unit_test(scratch), cmocka_unit_test(stuck_between),
        cmocka_unit_test(choice),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
