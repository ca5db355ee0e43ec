/* Streams of hcq/amd on simulated cards: commands of every kind at random
 * against a model, fresh and bound; rings that are full, wrap, or take more
 * than they hold.
 */
#include <stdlib.h>

#include "tests/unit/amd_kernels.h"
#include "base/bits.h"
#include "base/map.h"
#include "hcq/amd/amd_command.h"
#include "hcq/hcq_ring.h"

/* The last one with launches of bound streams as words. */
static const char *const cards[] = {"AMD@sim:gfx1100", "AMD@sim:gfx942",
                                    "AMD@sim:gfx942*2", "AMD@sim:gfx942"};

static struct rig
open_card(size_t c)
{
    struct rig r;

    if (c == ARRAY_LEN(cards) - 1)
        setenv("BELL_AMD_BOUND", "pm4", 1);
    r = open_rig(cards[c]);
    unsetenv("BELL_AMD_BOUND");
    return r;
}

/* ---- commands at random -------------------------------------------------- */

#define AREA 16384u /* bytes that commands work on; timestamps lie behind */

/* What is the same for a stream however it is submitted. */
struct walk {
    struct rig rig;
    struct hcq_signal *sig;
    uint64_t value; /* of the signal, behind what was emitted */
    uint64_t seed;
    uint8_t model[AREA];
};

static uint32_t
random_below(struct walk *w, uint32_t n)
{
    w->seed = hash_mix(w->seed + 1);
    return (uint32_t)(w->seed >> 32) % n;
}

/* Sizes of no multiple, small ones often. */
static uint32_t
random_size(struct walk *w)
{
    return random_below(w, 3) ? random_below(w, 40) : random_below(w, 3000);
}

static void
random_copy(struct walk *w, struct hcq_cs *cs)
{
    uint32_t half = AREA / 2, up = random_below(w, 2) * half;
    uint32_t n = random_size(w), dst = up + random_below(w, half - n);
    uint32_t src = half - up + random_below(w, half - n);

    hcq_cs_copy(cs, w->rig.out->va + dst, w->rig.out->va + src, n);
    memcpy(w->model + dst, w->model + src, n);
}

static void
random_fill(struct walk *w, struct hcq_cs *cs)
{
    uint32_t n = random_size(w), at = random_below(w, (AREA - n) / 4) * 4, i;
    uint32_t pattern = random_below(w, UINT32_MAX);

    hcq_cs_fill(cs, w->rig.out->va + at, pattern, n);
    for (i = 0; i < n; i++)
        w->model[at + i] = (uint8_t)(pattern >> (i % 4 * 8));
}

static void
random_write(struct walk *w, struct hcq_cs *cs)
{
    uint32_t n = random_below(w, 2) ? 4 : 8;
    uint32_t at = random_below(w, AREA / n) * n;
    uint64_t value = hash_mix(w->seed);

    hcq_cs_write(cs, w->rig.out->va + at, n == 4 ? (uint32_t)value : value,
                 n * 8);
    memcpy(w->model + at, &value, n);
}

/* Polls a word that has its value by then. */
static void
random_poll(struct walk *w, struct hcq_cs *cs)
{
    uint32_t at = random_below(w, AREA / 4) * 4, word;
    uint32_t mask = random_below(w, UINT32_MAX);

    memcpy(&word, w->model + at, 4);
    hcq_cs_poll(cs, w->rig.out->va + at, mask, word & mask);
}

/* Values of any 64 bits; a wait looks at each half by itself. */
static void
random_signal(struct walk *w, struct hcq_cs *cs)
{
    w->value += random_below(w, 4) ? random_below(w, 1000) : 1ull << 34;
    hcq_cs_signal(cs, w->sig, w->value);
    hcq_cs_wait(cs, w->sig,
                w->value - random_below(w, (uint32_t)w->value % 1000 + 1));
}

static void
random_commands(struct walk *w, struct hcq_cs *cs)
{
    static void (*const emit[])(struct walk *, struct hcq_cs *) = {
        random_copy,  random_copy,  random_fill, random_fill,
        random_write, random_write, random_poll, random_signal,
    };
    uint32_t n = 1 + random_below(w, 25), i;

    for (i = 0; i < n; i++) {
        uint32_t kind = random_below(w, ARRAY_LEN(emit) + 2);

        if (kind < ARRAY_LEN(emit))
            emit[kind](w, cs);
        else if (kind == ARRAY_LEN(emit))
            hcq_cs_timestamp(cs, w->sig);
        else
            hcq_cs_barrier(cs);
    }
}

static void
random_submission(struct walk *w, struct hcq_queue *queue)
{
    struct hcq_stream *stream;
    struct hcq_cs *cs;

    if (random_below(w, 2)) {
        expect_ok(hcq_queue_begin(queue, &cs));
        random_commands(w, cs);
        expect_ok(hcq_cs_submit(cs, NULL));
        return;
    }
    expect_ok(hcq_stream_create(queue, "random", &stream));
    random_commands(w, hcq_stream_cs(stream));
    expect_ok(hcq_stream_end(stream));
    expect_ok(hcq_stream_submit(stream, NULL));
    expect_ok(hcq_stream_wait(stream, LONG_NS));
    hcq_stream_destroy(stream);
}

/* max_bytes: of one packet that copies or fills; 0: the card's. */
static void
run_random(struct rig rig, uint64_t seed, uint64_t max_bytes)
{
    static struct walk w;
    uint32_t i, round;

    memset(&w, 0, sizeof(w));
    w.rig = rig;
    w.seed = seed;
    if (max_bytes) {
        amd_queue_of(w.rig.queue)->engine.max_bytes = max_bytes;
        amd_queue_of(w.rig.copy)->engine.max_bytes = max_bytes;
    }
    for (i = 0; i < AREA; i++)
        w.model[i] = (uint8_t)hash_mix(i);
    memcpy(w.rig.out->host, w.model, AREA);
    expect_ok(hcq_signal_create(w.rig.dev, 0, &w.sig));
    for (round = 0; round < 150; round++) {
        struct hcq_queue *queue = round & 1 ? w.rig.copy : w.rig.queue;

        for (i = random_below(&w, 4); i < 4; i++)
            random_submission(&w, queue);
        expect_ok(hcq_queue_wait(queue, LONG_NS));
        assert_memory_equal(w.rig.out->host, w.model, AREA);
        assert_int_equal(hcq_signal_value(w.sig), w.value);
    }
    assert_true(hcq_signal_timestamp(w.sig) != 0);
    close_rig(&w.rig);
}

static void
random_streams(void **state)
{
    size_t c;

    (void)state;
    for (c = 0; c < ARRAY_LEN(cards); c++)
        run_random(open_card(c), c + 77, 0);
}

/* The same where packets take little, so that most transfers are several. */
static void
random_pieces(void **state)
{
    (void)state;
    run_random(open_rig("AMD@sim:gfx1030"), 7, 256);
    run_random(open_rig("AMD@sim:gfx90a"), 8, 64);
}

/* ---- limits of the rings ------------------------------------------------- */

/* Rings of the smallest size, many times around. */
static void
rings_wrap(void **state)
{
    struct hcq_queue_desc desc = {
        .struct_size = sizeof(desc),
        .kind = HCQ_QUEUE_COMPUTE,
        .ring_size_bytes = 4096,
    };
    size_t c;

    (void)state;
    for (c = 0; c < ARRAY_LEN(cards); c++) {
        struct rig r = open_card(c);
        struct hcq_program *count = amd_kernel_load(r.dev, &amd_count_kernel);
        struct hcq_stream *stream;
        struct hcq_queue *queue;
        struct hcq_cs *cs;
        uint32_t i;

        expect_ok(hcq_queue_create_with(r.dev, &desc, &queue));
        expect_ok(hcq_stream_create(queue, "three", &stream));
        for (i = 0; i < 3; i++) {
            amd_kernel_exec_x(hcq_stream_cs(stream), &r, count, 1, 1, 1);
            hcq_cs_write(hcq_stream_cs(stream), r.out->va + 64, i, 32);
        }
        expect_ok(hcq_stream_end(stream));
        for (i = 0; i < 3000; i++) {
            expect_ok(hcq_queue_begin(queue, &cs));
            amd_kernel_exec_x(cs, &r, count, 1000000, 1, 1);
            expect_ok(hcq_cs_submit(cs, NULL));
            expect_ok(hcq_stream_submit(stream, NULL));
        }
        expect_ok(hcq_queue_wait(queue, LONG_NS));
        assert_int_equal(value_at(&r, 0), 3000 * 1000003ull);
        close_rig(&r);
    }
}

/* More launches than an AQL ring has packets, with others around them. */
static void
many_launches(void **state)
{
    enum {
        N = 20000
    };
    size_t c;

    (void)state;
    for (c = 0; c < ARRAY_LEN(cards); c++) {
        struct rig r = open_card(c);
        struct hcq_program *count = amd_kernel_load(r.dev, &amd_count_kernel);
        struct hcq_stream *stream;
        struct hcq_cs *cs;
        uint32_t i;

        expect_ok(hcq_stream_create(r.queue, "many", &stream));
        for (i = 0; i < N; i++)
            amd_kernel_exec_x(hcq_stream_cs(stream), &r, count, 1, 1, 1);
        expect_ok(hcq_stream_end(stream));
        for (i = 0; i < 2; i++) {
            expect_ok(hcq_queue_begin(r.queue, &cs));
            amd_kernel_exec_x(cs, &r, count, 1000000, 1, 1);
            expect_ok(hcq_cs_submit(cs, NULL));
            expect_ok(hcq_stream_submit(stream, NULL));
        }
        expect_ok(hcq_queue_wait(r.queue, LONG_NS));
        assert_int_equal(value_at(&r, 0), 2 * (N + 1000000));
        close_rig(&r);
    }
}

/* Words beyond what one indirect buffer holds, on both kinds of queues. */
static void
long_stream(void **state)
{
    enum {
        N = 360000
    };
    struct rig r = open_rig(cards[0]);
    struct hcq_stream *stream;
    uint32_t round, i;

    (void)state;
    for (round = 0; round < 2; round++) {
        expect_ok(hcq_stream_create(round ? r.copy : r.queue, "long", &stream));
        for (i = 0; i < N; i++)
            hcq_cs_write(hcq_stream_cs(stream), r.out->va + i % 8192 * 8,
                         i + round, 64);
        expect_ok(hcq_stream_end(stream));
        expect_ok(hcq_stream_submit(stream, NULL));
        expect_ok(hcq_stream_wait(stream, LONG_NS));
        for (i = N - 8192; i < N; i++)
            assert_int_equal(value_at(&r, i % 8192), i + round);
        hcq_stream_destroy(stream);
    }
    close_rig(&r);
}

static void
many_submissions(void **state)
{
    struct hcq_queue_desc desc = {
        .struct_size = sizeof(desc),
        .submit_timeout_ns = 20000000,
    };
    size_t c;

    (void)state;
    for (c = 0; c < 4; c++) {
        struct rig r = open_rig(cards[c / 2]);
        bell_status status = BELL_OK;
        struct hcq_queue *queue;
        struct hcq_signal *go;
        struct hcq_cs *cs;
        uint32_t n = 0;

        desc.kind = c % 2 ? HCQ_QUEUE_COPY : HCQ_QUEUE_COMPUTE;
        expect_ok(hcq_queue_create_with(r.dev, &desc, &queue));
        go = hold(&r, queue);
        while (status == BELL_OK && n < 10000) {
            expect_ok(hcq_queue_begin(queue, &cs));
            hcq_cs_write(cs, r.out->va, ++n, 32);
            status = hcq_cs_submit(cs, NULL);
        }
        expect_fails(status, BELL_E_TIMEOUT, "no room for");
        expect_fails(status, BELL_E_TIMEOUT, "wait for signal");
        assert_int_equal(n, HCQ_RING_RECORDS);
        hcq_signal_set(go, 1);
        expect_ok(hcq_queue_wait(queue, LONG_NS));
        assert_int_equal((uint32_t)value_at(&r, 0), HCQ_RING_RECORDS - 1);
        close_rig(&r);
    }
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(random_streams), cmocka_unit_test(random_pieces),
        cmocka_unit_test(rings_wrap),     cmocka_unit_test(many_launches),
        cmocka_unit_test(long_stream),    cmocka_unit_test(many_submissions),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
