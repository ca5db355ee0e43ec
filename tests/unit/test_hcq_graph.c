/* hcq/hcq_graph*.c on the CPU's device: memory that runs out while a graph is
 * built, what a submission allocates, and which slots overlap, against all
 * pairs of them.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "hcq/hcq_graph_internal.h"
#include "tests/unit/expect.h"

#define LONG_NS (60ull * 1000000000)

static struct hcq_device *devs[2];
static struct hcq_queue *queues[2];
static struct hcq_buffer *bufs[2];

static int
open_devices(void **state)
{
    int i;

    (void)state;
    for (i = 0; i < 2; i++) {
        expect_ok(hcq_device_open("CPU", &devs[i]));
        expect_ok(hcq_queue_create(devs[i], HCQ_QUEUE_COMPUTE, &queues[i]));
        expect_ok(hcq_buffer_create(devs[i], 4096, 0, &bufs[i]));
    }
    return 0;
}

static int
close_devices(void **state)
{
    (void)state;
    hcq_device_close(devs[0]);
    hcq_device_close(devs[1]);
    return 0;
}

/* Fills a slot's memory and, on the other device, its own; then the first
 * word is copied. */
static bell_status
build(struct hcq_graph **out)
{
    const struct hcq_graph_desc desc = {
        .struct_size = sizeof(desc),
        .name = "two",
        .queues = queues,
        .n_queues = 2,
    };
    struct hcq_graph_arg a, b, c;
    uint32_t slot, word;
    bell_status status;

    if (hcq_graph_create(&desc, out) != BELL_OK)
        return bell_error_last()->status;
    slot = hcq_graph_slot(*out, "memory", 256);
    word = hcq_graph_slot(*out, "word", 0);
    a = hcq_graph_in_slot(slot, 0, 256, 0);
    b = hcq_graph_memory(bufs[1]->va, 256, 0);
    c = hcq_graph_memory(bufs[0]->va + 1024, 4, 0);
    hcq_graph_fill(*out, NULL, &a, 0, 256);
    hcq_graph_patch(*out, HCQ_FIELD_VALUE, word, 0);
    hcq_graph_fill(*out, devs[1], &b, 0, 256);
    hcq_graph_patch(*out, HCQ_FIELD_VALUE, word, 1);
    hcq_graph_copy(*out, NULL, &c, &a, 4);
    status = hcq_graph_end(*out);
    if (status != BELL_OK) {
        hcq_graph_destroy(*out);
        *out = NULL;
    }
    return status;
}

static void
run(struct hcq_graph *graph, uint32_t word)
{
    uint32_t seen[3];

    expect_ok(hcq_graph_set(graph, 0, bufs[0]->va + 256 * (word % 4)));
    expect_ok(hcq_graph_set(graph, 1, word));
    expect_ok(hcq_graph_submit(graph, NULL));
    expect_ok(hcq_graph_wait(graph, LONG_NS));
    expect_ok(hcq_buffer_read(bufs[0], 256 * (word % 4) + 252, &seen[0], 4));
    expect_ok(hcq_buffer_read(bufs[1], 252, &seen[1], 4));
    expect_ok(hcq_buffer_read(bufs[0], 1024, &seen[2], 4));
    assert_int_equal(seen[0], word);
    assert_int_equal(seen[1], word + 1);
    assert_int_equal(seen[2], word);
}

/* The n-th allocation fails, alone or with all behind it. */
static void
test_no_memory(void **state)
{
    struct hcq_graph *graph;
    uint64_t n;
    int once;

    (void)state;
    for (once = 0; once < 2; once++) {
        for (n = 1;; n++) {
            bell_status status;

            assert_true(n < 1000);
            graph = NULL;
            host_fail_after(n, once);
            status = build(&graph);
            host_fail_after(0, 0);
            if (status == BELL_OK)
                break;
            assert_int_equal(status, BELL_E_NO_MEMORY);
            assert_null(graph);
        }
        assert_true(n > 20);
        run(graph, 5);
        hcq_graph_destroy(graph);
    }
}

/* Each copy of the streams gets what it has not got, and nothing is
 * allocated. */
static void
test_submissions(void **state)
{
    struct hcq_graph_info info = {.struct_size = sizeof(info)};
    struct hcq_graph *graph;
    uint64_t before;
    uint32_t i;

    (void)state;
    expect_ok(build(&graph));
    hcq_graph_get_info(graph, &info);
    assert_int_equal(info.n_commands, 3);
    assert_int_equal(info.n_queues, 2);
    assert_int_equal(info.n_signals, 2); /* there and back */
    assert_int_equal(info.n_waits, 2);
    run(graph, 1);
    before = host_alloc_count();
    for (i = 0; i < 500; i++) {
        expect_ok(hcq_graph_set(graph, 1, i));
        expect_ok(hcq_graph_submit(graph, NULL));
        if (i % 7 == 0)
            expect_ok(hcq_graph_wait(graph, LONG_NS));
    }
    expect_ok(hcq_graph_wait(graph, LONG_NS));
    assert_int_equal(host_alloc_count(), before);
    run(graph, 2);
    run(graph, 3);
    hcq_graph_destroy(graph);
}

/* One queue's commands wait for no other: no signal is taken for them. */
static void
test_alone(void **state)
{
    const struct hcq_graph_desc desc = {
        .struct_size = sizeof(desc),
        .name = "alone",
        .queues = queues,
        .n_queues = 2,
    };
    struct hcq_graph_arg a = hcq_graph_memory(bufs[0]->va, 64, 0);
    struct hcq_graph *graph;
    pid_t child;
    int status;

    (void)state;
    expect_ok(hcq_graph_create(&desc, &graph));
    hcq_graph_fill(graph, NULL, &a, 3, 64);
    expect_ok(hcq_graph_wait(graph, LONG_NS));
    expect_ok(hcq_graph_end(graph));
    assert_non_null(graph->copies[1].streams[0]);
    assert_null(graph->copies[0].signals[0]);
    expect_ok(hcq_graph_wait(graph, LONG_NS));
    fflush(NULL);
    child = fork();
    if (child == 0) {
        status = hcq_graph_submit(graph, NULL) == BELL_E_INVALID;
        status += bell_error_last()->reason == BELL_REASON_PROCESS;
        _exit(status);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 2);
    hcq_graph_destroy(graph);
}

/* The last report stays, though nothing can be waited for any more. */
static void
test_destroy_tells_nothing(void **state)
{
    const struct hcq_graph_desc desc = {
        .struct_size = sizeof(desc),
        .name = "lost",
        .queues = queues,
        .n_queues = 1,
    };
    struct hcq_graph_arg a = hcq_graph_memory(bufs[0]->va, 64, 0);
    struct hcq_fault fault = {.kind = HCQ_FAULT_STREAM, .text = "lost by hand"};
    struct hcq_signal *never;
    struct hcq_graph *graph;
    struct hcq_cs *cs;

    (void)state;
    expect_ok(hcq_signal_create(devs[0], 0, &never));
    expect_ok(hcq_graph_create(&desc, &graph));
    hcq_graph_fill(graph, NULL, &a, 3, 64);
    expect_ok(hcq_graph_end(graph));
    expect_ok(hcq_queue_begin(queues[0], &cs));
    hcq_cs_wait(cs, never, 1);
    expect_ok(hcq_cs_submit(cs, NULL));
    expect_ok(hcq_graph_submit(graph, NULL));
    hcq_device_set_lost(devs[0], &fault);
    expect_fails(hcq_graph_wait(graph, 0), BELL_E_DEVICE_LOST, "lost by hand");
    assert_int_equal(bell_fail(BELL_E_IO, "this"), BELL_E_IO);
    hcq_graph_destroy(graph);
    assert_string_equal(bell_error_last()->message, "this");
    expect_ok(hcq_device_recover(devs[0]));
    hcq_signal_destroy(never);
}

/* What is refused while a graph is built, without values, and in a child. */
static void
test_states(void **state)
{
    const struct hcq_graph_desc desc = {
        .struct_size = sizeof(desc),
        .name = "states",
        .queues = queues,
        .n_queues = 1,
    };
    struct hcq_graph *graph;
    struct hcq_graph_arg a;
    pid_t child;
    int status;

    (void)state;
    expect_ok(hcq_graph_create(&desc, &graph));
    a = hcq_graph_in_slot(hcq_graph_slot(graph, "memory", 256), 0, 256, 0);
    hcq_graph_fill(graph, NULL, &a, 1, 256);
    hcq_graph_slot(graph, "word", 0);
    hcq_graph_patch(graph, HCQ_FIELD_SIZE, 1, 4);
    expect_fails(hcq_graph_set(graph, 0, 0), BELL_E_INVALID,
                 "slot 0: the graph is not built");
    expect_fails(hcq_graph_submit(graph, NULL), BELL_E_INVALID,
                 "graph 'states': it is not ended");
    expect_ok(hcq_graph_end(graph));
    expect_fails(hcq_graph_set(graph, 2, 0), BELL_E_INVALID,
                 "slot 2: there is none");
    expect_fails(hcq_graph_set(graph, 0, UINT64_MAX - 255), BELL_E_INVALID,
                 "slot 'memory' = 18446744073709551360: at most "
                 "18446744073709551359, or it goes beyond all addresses");
    expect_fails(hcq_graph_set(graph, 1, 253), BELL_E_INVALID,
                 "slot 'word' = 253: at most 252, or it goes beyond what is "
                 "copied");
    expect_ok(hcq_graph_set(graph, 0, bufs[0]->va));
    expect_fails(hcq_graph_submit(graph, NULL), BELL_E_INVALID,
                 "a slot has no value yet");
    expect_ok(hcq_graph_set(graph, 1, 252));
    assert_false(hcq_graph_busy(graph));
    fflush(NULL);
    child = fork();
    if (child == 0) {
        status = hcq_graph_set(graph, 1, 0) == BELL_E_INVALID;
        status += bell_error_last()->reason == BELL_REASON_PROCESS;
        status += hcq_graph_wait(graph, 0) == BELL_E_INVALID;
        status += bell_error_last()->reason == BELL_REASON_PROCESS;
        status += hcq_graph_submit(graph, NULL) == BELL_E_INVALID;
        status += bell_error_last()->reason == BELL_REASON_PROCESS;
        _exit(status);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 6);
    expect_ok(hcq_graph_submit(graph, NULL));
    expect_ok(hcq_graph_wait(graph, LONG_NS));
    graph->state = GRAPH_BROKEN;
    expect_fails(hcq_graph_submit(graph, NULL), BELL_E_INVALID,
                 "graph 'states': it failed");
    graph->state = GRAPH_READY;
    hcq_graph_destroy(graph);
}

/* What keeps `queue` from going on until the signal is 1. */
static void
block(struct hcq_queue *queue, struct hcq_signal *sig)
{
    struct hcq_cs *cs;

    hcq_signal_set(sig, 0);
    expect_ok(hcq_queue_begin(queue, &cs));
    hcq_cs_wait(cs, sig, 1);
    expect_ok(hcq_cs_submit(cs, NULL));
}

static void
expect_word(int dev, uint64_t at, uint32_t want)
{
    uint32_t word;

    expect_ok(hcq_buffer_read(bufs[dev], at, &word, 4));
    assert_int_equal(word, want);
}

/* Whichever queue is held up: the graph is busy, a wait ends with its time and
 * the graph's name, and all is there once it goes on. Both copies of the
 * streams can be under way, one after the other. */
static void
test_busy(void **state)
{
    struct hcq_signal *sig;
    struct hcq_graph *graph;
    uint32_t i, k;

    (void)state;
    expect_ok(hcq_signal_create(devs[0], 0, &sig));
    expect_ok(build(&graph));
    for (i = 0; i < 4; i++) {
        if (i < 2)
            expect_ok(hcq_graph_set(graph, 0, bufs[0]->va));
        for (k = 0; k < 2; k++) { /* the second one behind the first */
            expect_ok(hcq_graph_set(graph, 1, 10 * i + k));
            if (k == 0)
                block(queues[i % 2], sig);
            expect_ok(hcq_graph_submit(graph, NULL));
            assert_true(hcq_graph_busy(graph));
        }
        expect_fails(hcq_graph_wait(graph, 2000000), BELL_E_TIMEOUT,
                     "graph 'two', after ");
        expect_fails(hcq_graph_wait(graph, 0), BELL_E_TIMEOUT,
                     "graph 'two', after ");
        assert_true(hcq_graph_busy(graph));
        hcq_signal_set(sig, 1);
        expect_ok(hcq_graph_wait(graph, LONG_NS));
        assert_false(hcq_graph_busy(graph));
        expect_word(0, 252, 10 * i + 1);
        expect_word(1, 252, 10 * i + 2);
        expect_word(0, 1024, 10 * i + 1);
    }
    hcq_graph_destroy(graph);
    hcq_signal_destroy(sig);
}

enum {
    N_SLOTS = 12,
    SLOT_BYTES = 16,
    FIXED_AT = 2048 /* read: 64 bytes, then 64 that are written */
};

/* Which slots are written, each so many, and where they are. */
struct overlaps {
    uint32_t each;
    uint64_t at[N_SLOTS];
};

static bool
is_written(const struct overlaps *o, uint32_t slot)
{
    return slot % o->each == 0;
}

static bool
meets(uint64_t x, uint64_t n_x, uint64_t y, uint64_t n_y)
{
    return x < y + n_y && y < x + n_x;
}

static bool
may_run(const struct overlaps *o)
{
    uint32_t i, k;

    for (i = 0; i < N_SLOTS; i++) {
        if (meets(o->at[i], SLOT_BYTES, FIXED_AT + 64, 64) ||
            (is_written(o, i) && meets(o->at[i], SLOT_BYTES, FIXED_AT, 64)))
            return false;
        for (k = 0; k < i; k++) {
            if ((is_written(o, i) || is_written(o, k)) &&
                meets(o->at[i], SLOT_BYTES, o->at[k], SLOT_BYTES))
                return false;
        }
    }
    return true;
}

static void
try_overlaps(uint32_t each)
{
    const struct hcq_graph_desc desc = {
        .struct_size = sizeof(desc),
        .name = "overlaps",
        .queues = queues,
        .n_queues = 1,
    };
    struct overlaps o = {each, {0}};
    uint32_t x = 1, i, n_good = 0, n_bad = 0;
    struct hcq_graph *graph;
    struct hcq_graph_arg from, to;
    char name[16];

    expect_ok(hcq_graph_create(&desc, &graph));
    from = hcq_graph_memory(bufs[0]->va + FIXED_AT, 64, 0);
    to = hcq_graph_memory(bufs[0]->va + FIXED_AT + 64, 64, 0);
    hcq_graph_copy(graph, NULL, &to, &from, 64);
    for (i = 0; i < N_SLOTS; i++) {
        struct hcq_graph_arg slot;

        snprintf(name, sizeof(name), "slot %u", i);
        slot = hcq_graph_in_slot(hcq_graph_slot(graph, name, SLOT_BYTES), 0, 16,
                                 0);
        if (is_written(&o, i))
            hcq_graph_fill(graph, NULL, &slot, i, 16);
        else
            hcq_graph_copy(graph, NULL, &to, &slot, 16);
        o.at[i] = SLOT_BYTES * i;
    }
    expect_ok(hcq_graph_end(graph));
    for (i = 0; i < N_SLOTS; i++)
        expect_ok(hcq_graph_set(graph, i, bufs[0]->va + o.at[i]));
    for (i = 0; i < 20000; i++) {
        uint32_t slot;
        bool good;

        x = x * 1664525u + 1013904223u;
        slot = (x >> 8) % N_SLOTS;
        x = x * 1664525u + 1013904223u;
        o.at[slot] = (x >> 8) % 1000 * 4;
        if (o.at[slot] > 4096 - SLOT_BYTES)
            o.at[slot] = 4096 - SLOT_BYTES;
        expect_ok(hcq_graph_set(graph, slot, bufs[0]->va + o.at[slot]));
        good = may_run(&o);
        if (good) {
            expect_ok(hcq_graph_submit(graph, NULL));
            n_good++;
        } else {
            assert_int_equal(hcq_graph_submit(graph, NULL), BELL_E_INVALID);
            n_bad++;
        }
    }
    assert_true(n_good > 500 && n_bad > 500);
    expect_ok(hcq_graph_wait(graph, LONG_NS));
    hcq_graph_destroy(graph);
}

/* Many are written, some, one. */
static void
test_overlaps(void **state)
{
    (void)state;
    try_overlaps(2);
    try_overlaps(3);
    try_overlaps(N_SLOTS);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_no_memory),
        cmocka_unit_test(test_submissions),
        cmocka_unit_test(test_alone),
        cmocka_unit_test(test_states),
        cmocka_unit_test(test_busy),
        cmocka_unit_test(test_overlaps),
        cmocka_unit_test(test_destroy_tells_nothing),
    };

    return cmocka_run_group_tests(tests, open_devices, close_devices);
}
