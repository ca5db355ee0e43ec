/* hcq/amd: signals and timelines whose values need more than 32 bits. Cards
 * compare halves, copy engines write them: no wait ends too early, and what
 * may last too long is as hcq/amd/amd_pm4.c says, with a report, and with a
 * way on.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/bits.h"
#include "base/thread.h"
#include "hcq/amd/amd_command.h"
#include "tests/unit/expect.h"

#define LONG_NS  (30ull * 1000000000)
#define SHORT_NS 500000ull
#define BORDER   (1ull << 32)

static const char *const cards[] = {"AMD@sim:gfx1100", "AMD@sim:gfx942",
                                    "AMD@sim:gfx942*2"};

/* At, just below and just above where a half is full, and far from it. */
static const uint64_t values[] = {
    0,
    1,
    BORDER / 2 - 1,
    BORDER / 2,
    BORDER - 2,
    BORDER - 1,
    BORDER,
    BORDER + 1,
    BORDER + BORDER / 2,
    2 * BORDER - 1,
    2 * BORDER,
    2 * BORDER + 1,
    3 * BORDER - 1,
    5 * BORDER + 3,
    UINT64_MAX - 1,
    UINT64_MAX,
};

struct rig {
    struct hcq_device *dev;
    struct hcq_queue *queues[2]; /* of compute, of copies */
    struct hcq_signal *sig, *done;
};

static struct rig
open_rig(const char *card)
{
    struct rig r;

    expect_ok(hcq_device_open(card, &r.dev));
    expect_ok(hcq_queue_create(r.dev, HCQ_QUEUE_COMPUTE, &r.queues[0]));
    expect_ok(hcq_queue_create(r.dev, HCQ_QUEUE_COPY, &r.queues[1]));
    expect_ok(hcq_signal_create(r.dev, 0, &r.sig));
    expect_ok(hcq_signal_create(r.dev, 0, &r.done));
    return r;
}

/* Each test on each card. */
static void
on_cards(void (*test)(struct rig *r))
{
    size_t c;

    for (c = 0; c < ARRAY_LEN(cards); c++) {
        struct rig r = open_rig(cards[c]);

        test(&r);
        hcq_device_close(r.dev);
    }
}

static struct hcq_cs *
begin(struct hcq_queue *queue)
{
    struct hcq_cs *cs;

    expect_ok(hcq_queue_begin(queue, &cs));
    return cs;
}

/* The queue says `done` when the signal has come to `value`. */
static void
submit_wait(struct rig *r, struct hcq_queue *queue, uint64_t value)
{
    struct hcq_cs *cs = begin(queue);

    hcq_cs_wait(cs, r->sig, value);
    hcq_cs_signal(cs, r->done, 1);
    expect_ok(hcq_cs_submit(cs, NULL));
}

static void
finish_wait(struct rig *r, struct hcq_queue *queue)
{
    expect_ok(hcq_signal_wait(r->done, 1, LONG_NS));
    expect_ok(hcq_queue_wait(queue, LONG_NS));
}

/* ---- waits of a queue for the host --------------------------------------- */

/* From every value to every other one: a value that is reached is not waited
 * for, another one until the host has set it. */
static void
wait_from_to(struct rig *r, struct hcq_queue *queue, uint64_t from, uint64_t to)
{
    hcq_signal_set(r->sig, from);
    hcq_signal_set(r->done, 0);
    submit_wait(r, queue, to);
    if (from < to) {
        expect_fails(hcq_signal_wait(r->done, 1, SHORT_NS), BELL_E_TIMEOUT,
                     "is 0");
        hcq_signal_set(r->sig, to);
    }
    finish_wait(r, queue);
}

static void
test_host(struct rig *r)
{
    size_t q, i, k;

    for (q = 0; q < ARRAY_LEN(r->queues); q++) {
        for (i = 0; i < ARRAY_LEN(values); i++) {
            for (k = 0; k < ARRAY_LEN(values); k++)
                wait_from_to(r, r->queues[q], values[i], values[k]);
        }
    }
}

static void
waits_for_the_host(void **state)
{
    (void)state;
    on_cards(test_host);
}

/* Halves that are not reached together do not end a wait together. */
static void
test_halves(struct rig *r)
{
    static const struct {
        uint64_t value, not_yet[3];
    } rows[] = {
        {2 * BORDER + 5, {BORDER - 1, BORDER + 9, 2 * BORDER + 4}},
        {2 * BORDER, {7, BORDER + BORDER / 2, 2 * BORDER - 1}},
        {BORDER - 1, {0, BORDER / 2, BORDER - 2}},
        {3 * BORDER - 1, {2 * BORDER - 1, 2 * BORDER, 3 * BORDER - 2}},
    };
    size_t q, i, k;

    for (q = 0; q < ARRAY_LEN(r->queues); q++) {
        for (i = 0; i < ARRAY_LEN(rows); i++) {
            hcq_signal_set(r->sig, 0);
            hcq_signal_set(r->done, 0);
            submit_wait(r, r->queues[q], rows[i].value);
            for (k = 0; k < ARRAY_LEN(rows[i].not_yet); k++) {
                hcq_signal_set(r->sig, rows[i].not_yet[k]);
                expect_fails(hcq_signal_wait(r->done, 1, SHORT_NS),
                             BELL_E_TIMEOUT, "is 0");
            }
            hcq_signal_set(r->sig, rows[i].value + (i < 2 ? 3 : 0));
            finish_wait(r, r->queues[q]);
        }
    }
}

static void
halves_together(void **state)
{
    (void)state;
    on_cards(test_halves);
}

/* The signal passes 2^32 while a queue waits for less: it may go on waiting. A
 * wait for the queue tells what the queue waits for; a larger lower half lets
 * it go on, and so does recovery. */
static void
test_passed(struct rig *r)
{
    char part[40];
    size_t q;

    snprintf(part, sizeof(part), "signal 0x%llx >= 4294967295",
             (unsigned long long)r->sig->va);
    for (q = 0; q < ARRAY_LEN(r->queues); q++) {
        struct hcq_queue *queue = r->queues[q];
        bell_status status;

        hcq_signal_set(r->sig, BORDER - 2);
        hcq_signal_set(r->done, 0);
        submit_wait(r, queue, BORDER - 1);
        hcq_signal_set(r->sig, BORDER);
        status = hcq_queue_wait(queue, 4 * SHORT_NS);
        if (status != BELL_OK)
            expect_fails(status, BELL_E_TIMEOUT, hcq_queue_name(queue));
        hcq_signal_set(r->sig, 2 * BORDER - 1);
        finish_wait(r, queue);

        hcq_signal_set(r->sig, BORDER - 2);
        submit_wait(r, queue, BORDER - 1);
        hcq_signal_set(r->sig, BORDER);
        if (hcq_queue_wait(queue, SHORT_NS) != BELL_OK)
            expect_ok(hcq_device_recover(r->dev));
        hcq_signal_set(r->done, 0); /* now the value lies behind */
        submit_wait(r, queue, BORDER - 1);
        finish_wait(r, queue);
    }
}

static void
passed_while_waiting(void **state)
{
    (void)state;
    on_cards(test_passed);
}

/* ---- waits of one engine for another ------------------------------------- */

/* A counter goes to and fro between the engines, over the border; each value
 * is written by the one and waited for by the other. */
static void
test_engines(struct rig *r)
{
    static const uint64_t starts[] = {BORDER - 9, 2 * BORDER - 10,
                                      7 * BORDER - 3};
    size_t i, k;

    for (i = 0; i < ARRAY_LEN(starts); i++) {
        hcq_signal_set(r->sig, starts[i]);
        for (k = 1; k <= 20; k++) {
            struct hcq_cs *cs = begin(r->queues[k & 1]);

            hcq_cs_wait(cs, r->sig, starts[i] + k - 1);
            hcq_cs_signal(cs, r->sig, starts[i] + k);
            expect_ok(hcq_cs_submit(cs, NULL));
        }
        expect_ok(hcq_signal_wait(r->sig, starts[i] + 20, LONG_NS));
        expect_ok(hcq_device_synchronize(r->dev, LONG_NS));
        assert_int_equal(hcq_signal_value(r->sig), starts[i] + 20);
    }
}

static void
engines_count(void **state)
{
    (void)state;
    on_cards(test_engines);
}

/* The host never sees more, while an engine writes halves, than the value that
 * was written last. */
static void
test_torn(struct rig *r)
{
    uint64_t start = 4 * BORDER - 50, i, seen, last = 0;
    size_t q;

    for (q = 0; q < ARRAY_LEN(r->queues); q++) {
        struct hcq_cs *cs = begin(r->queues[q]);

        hcq_signal_set(r->sig, start);
        hcq_cs_wait(cs, r->done, q + 1);
        for (i = 1; i <= 100; i++)
            hcq_cs_signal(cs, r->sig, start + i);
        expect_ok(hcq_cs_submit(cs, NULL));
        hcq_signal_set(r->done, q + 1);
        last = 0;
        do {
            seen = hcq_signal_value(r->sig);
            assert_true(seen <= start + 100);
            /* an upper half that is old has a lower one of both */
            assert_true(seen >> 32 >= last >> 32);
            last = seen;
        } while (seen != start + 100);
        expect_ok(hcq_queue_wait(r->queues[q], LONG_NS));
    }
}

static void
torn_values(void **state)
{
    (void)state;
    on_cards(test_torn);
}

/* ---- a queue's own timeline ---------------------------------------------- */

/* As if so much had been submitted. */
static void
start_at(struct hcq_queue *queue, uint64_t value)
{
    struct hcq_ring *ring = queue->ring;

    expect_ok(hcq_queue_wait(queue, LONG_NS));
    mem_ring_retire(&ring->push, UINT64_MAX);
    ring->slot_tail = ring->slot_put;
    ring->retired = value;
    atomic_store(&ring->last_value, value);
    queue->n_submitted = value;
    hcq_signal_set(queue->timeline, value);
}

/* Fresh and bound submissions, more than are noted at a time, each after the
 * one of the other queue. */
static void
run_over(struct rig *r, uint64_t start, uint32_t n, uint64_t *count)
{
    struct hcq_stream *streams[2];
    struct hcq_cs *cs;
    uint64_t value[2] = {start, start};
    uint32_t i, p[2];

    for (i = 0; i < 2; i++) {
        start_at(r->queues[i], start);
        expect_ok(hcq_stream_create(r->queues[i], "bound", &streams[i]));
        p[i] = hcq_stream_patch_point(streams[i], "value");
        cs = hcq_stream_cs(streams[i]);
        hcq_cs_wait(cs, hcq_queue_timeline(r->queues[!i]), 0);
        hcq_cs_patch(cs, HCQ_FIELD_VALUE, p[i], 0);
        expect_ok(hcq_stream_end(streams[i]));
    }
    for (i = 0; i < n; i++) {
        uint32_t q = i & 1;

        cs = begin(r->queues[q]);
        hcq_cs_wait(cs, hcq_queue_timeline(r->queues[!q]), value[!q]);
        hcq_cs_signal(cs, r->sig, ++*count);
        expect_ok(hcq_cs_submit(cs, &value[q]));
        if (i % 3 == 0) {
            if (i >= 6)
                expect_ok(hcq_stream_wait(streams[q], LONG_NS));
            expect_ok(hcq_stream_patch(streams[q], p[q], value[!q]));
            expect_ok(hcq_stream_submit(streams[q], &value[q]));
        }
        if (i % 7 == 0)
            expect_ok(hcq_signal_wait(hcq_queue_timeline(r->queues[q]),
                                      value[q], LONG_NS));
    }
    for (i = 0; i < 2; i++) {
        expect_ok(hcq_queue_wait(r->queues[i], LONG_NS));
        assert_int_equal(hcq_signal_value(hcq_queue_timeline(r->queues[i])),
                         value[i]);
        assert_int_equal(value[i], start + n / 2 + n / 6);
        hcq_stream_destroy(streams[i]);
    }
    assert_int_equal(hcq_signal_value(r->sig), *count);
}

static void
test_timelines(struct rig *r)
{
    static const uint64_t starts[] = {BORDER - 3, BORDER - 300, 2 * BORDER - 31,
                                      9 * BORDER - 1};
    uint64_t count = 0;
    size_t i;

    for (i = 0; i < ARRAY_LEN(starts); i++)
        run_over(r, starts[i], 1200, &count);
}

static void
timelines_of_queues(void **state)
{
    (void)state;
    on_cards(test_timelines);
}

/* As many as are noted wait at the border, without room for one more. */
static void
test_full(struct rig *r)
{
    size_t q;

    for (q = 0; q < ARRAY_LEN(r->queues); q++) {
        struct hcq_queue *queue = r->queues[q];
        bell_status status = BELL_OK;
        uint64_t n = 0, value = 0;

        hcq_signal_set(r->sig, 0);
        start_at(queue, BORDER - 100);
        submit_wait(r, queue, 1);
        queue->submit_timeout_ns = 20 * SHORT_NS;
        while (status == BELL_OK && n < 10000) {
            status = hcq_cs_submit(begin(queue), &value);
            n += status == BELL_OK;
        }
        queue->submit_timeout_ns = LONG_NS;
        expect_fails(status, BELL_E_TIMEOUT, "no room for");
        assert_int_equal(n, HCQ_RING_RECORDS - 1);
        assert_int_equal(value, BORDER - 100 + HCQ_RING_RECORDS);
        hcq_signal_set(r->sig, 1);
        expect_ok(hcq_queue_wait(queue, LONG_NS));
    }
}

static void
full_at_the_border(void **state)
{
    (void)state;
    on_cards(test_full);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(waits_for_the_host),
        cmocka_unit_test(halves_together),
        cmocka_unit_test(passed_while_waiting),
        cmocka_unit_test(engines_count),
        cmocka_unit_test(torn_values),
        cmocka_unit_test(timelines_of_queues),
        cmocka_unit_test(full_at_the_border),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
