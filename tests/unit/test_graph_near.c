/* Signals between devices of a graph lie in the memory of who waits, where that
 * can be; they are 0 between submissions, whatever happened, and results are
 * right.
 */
#include "collective_rig.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/bits.h"
#include "hcq/hcq_graph_internal.h"
#include "hcq/hcq_packet.h"
#include "tests/unit/expect.h"

#define N_REPLAYS 20u

/* Waits of the queue's stream for the word at va. */
static uint32_t
count_waits(const struct hcq_stream *stream, uint64_t va)
{
    const struct hcq_cs *cs = &stream->cs;
    const struct hcq_packet *packet;
    uint32_t pos, n = 0;

    for (pos = 0; pos < cs->n_dw; pos += packet->head.n_dw) {
        packet = hcq_packet_at(cs->words, pos);
        n += packet->head.op == HCQ_OP_WAIT && packet->word[0] == va;
    }
    return n;
}

/* Pairs of queues with such a signal: it is the waiter's, which waits for it
 * and for no other word of the writer's. */
static uint32_t
count_near(const struct hcq_graph *graph, const struct graph_copy *copy)
{
    uint32_t n = 0, q, w;

    for (q = 0; q < graph->n_queues; q++) {
        for (w = 0; w < graph->n_queues; w++) {
            const struct hcq_signal *near = hcq_graph_near(graph, copy, q, w);

            if (!near)
                continue;
            assert_ptr_equal(near->dev, graph->queues[w]->dev);
            assert_true(graph->dev_of[q] != graph->dev_of[w]);
            assert_true(count_waits(copy->streams[w], near->va) > 0);
            n++;
        }
    }
    return n;
}

/* A wait that lasted has the host let queues go on whose writer is done, maybe
 * behind their own clearing: then the next submission clears. */
static void
expect_zeros(const struct hcq_graph *graph)
{
    const struct graph_copy *copy = &graph->copies[graph->last];
    uint32_t i;

    if (!copy->near || copy->is_near_dirty)
        return;
    for (i = 0; i < graph->n_queues * graph->n_queues; i++) {
        if (copy->near[i])
            assert_int_equal(hcq_signal_value(copy->near[i]), 0);
    }
}

static void
submit(struct fleet *rig, const struct rig_case *c, struct hcq_graph *graph,
       const struct hcq_collective *collective, const char *what)
{
    rig_write(rig);
    expect_ok(hcq_graph_submit(graph, NULL));
    expect_ok(hcq_graph_submit(graph, NULL)); /* of the other copy, maybe */
    expect_ok(hcq_collective_wait(collective, graph, RIG_WAIT_NS));
    rig_check(rig, c, what);
    expect_zeros(graph);
}

/* Values that a fault leaves. */
static void
spoil(struct hcq_graph *graph, bool is_known)
{
    uint32_t c, i;

    for (c = 0; c < GRAPH_COPIES; c++) {
        struct graph_copy *copy = &graph->copies[c];

        for (i = 0; copy->near && is_known && i < graph->n_queues; i++)
            hcq_graph_near_set(graph, copy, i, 1u << 20);
        for (i = 0;
             copy->near && !is_known && i < graph->n_queues * graph->n_queues;
             i++) {
            if (copy->near[i])
                hcq_signal_set(copy->near[i], 1u << 20);
        }
    }
}

/* The first device drops what it should have done: who waits for it, by a word
 * of its own memory, is let go on by the host. */
static void
drop_first(struct fleet *rig, struct hcq_graph *graph)
{
    struct hcq_signal *go;
    struct hcq_cs *cs;
    uint32_t q;

    expect_ok(hcq_signal_create(rig->devs[0], 0, &go));
    for (q = 0; q < rig->n_queues; q++) {
        if (rig->queues[q]->dev != rig->devs[0])
            continue;
        expect_ok(hcq_queue_begin(rig->queues[q], &cs));
        hcq_cs_wait(cs, go, 1);
        expect_ok(hcq_cs_submit(cs, NULL));
    }
    expect_ok(hcq_graph_submit(graph, NULL));
    expect_ok(hcq_device_recover(rig->devs[0]));
    (void)!hcq_graph_wait(graph, RIG_WAIT_NS);
    assert_false(hcq_graph_busy(graph));
    hcq_signal_destroy(go);
}

static void
check(const char *list, uint32_t n, bool is_near)
{
    const struct rig_case c = {.kind = HCQ_COLLECTIVE_ALL_REDUCE,
                               .by = HCQ_COLLECTIVE_AUTO,
                               .dtype = HCQ_DTYPE_F32,
                               .count = 515,
                               .seed = 9};
    struct hcq_collective *collective;
    struct hcq_graph *graph;
    struct fleet rig;
    uint32_t i, n_near;

    rig_open(&rig, list, n, 4096, true);
    rig_build(&rig, &c, &graph, &collective);
    rig_prepare(&rig, &c);
    n_near = count_near(graph, &graph->copies[0]);
    assert_int_equal(count_near(graph, &graph->copies[1]), n_near);
    if ((n_near > 0) != is_near)
        fail_msg("%s: %u signals in the memory of who waits", list, n_near);
    for (i = 0; i < N_REPLAYS; i++)
        submit(&rig, &c, graph, collective, "a replay");
    spoil(graph, true);
    submit(&rig, &c, graph, collective, "after the host let queues go on");
    submit(&rig, &c, graph, collective, "and once more");
    spoil(graph, false);
    expect_ok(hcq_device_recover(rig.devs[0]));
    submit(&rig, &c, graph, collective, "after a recovery");
    if (is_near) {
        drop_first(&rig, graph);
        submit(&rig, &c, graph, collective, "after the first was dropped");
        submit(&rig, &c, graph, collective, "and once more");
    }
    hcq_graph_destroy(graph);
    hcq_collective_destroy(collective);
    rig_close(&rig);
}

static void
test_linked(void **state)
{
    (void)state;
    check("NV:*@sim:sm_90*3", 3, true);
    check("NV:*@sim:sm_120*2,link=pcie", 2, true);
    check("AMD:*@sim:gfx1201*2", 2, true);
    check("AMD:*@sim:gfx90a*2", 2, true);
    setenv("BELL_AMD_BOUND", "pm4", 1); /* dies meet */
    check("AMD:*@sim:mi300x*3", 3, true);
    unsetenv("BELL_AMD_BOUND");
}

/* No links, a small window, dies that look by themselves and do not meet, other
 * drivers. */
static void
test_host(void **state)
{
    (void)state;
    check("NV:*@sim:rtx4090*2,link=none", 2, false);
    check("AMD:*@sim:gfx1201*2,bar=256", 2, false);
    check("AMD:*@sim:mi300x*2", 2, false);
    check("CPU", 2, false);
    check("NV:0@sim:sm_90,AMD:0@sim:gfx1201", 2, false);
}

/* A device that is opened anew has other memory at the same place. */
static void
test_opened_anew(void **state)
{
    static const char *const boxes[] = {"NV:%u@sim:sm_90*2",
                                        "AMD:%u@sim:gfx1201*2"};
    const struct hcq_graph_desc desc = {.struct_size = sizeof(desc),
                                        .n_queues = 2};
    size_t b;
    uint32_t i, k;

    (void)state;
    for (b = 0; b < ARRAY_LEN(boxes); b++) {
        struct hcq_device *devs[2];
        struct hcq_queue *queues[2];
        struct hcq_buffer *bufs[2], *peer;
        struct hcq_graph_desc d = desc;
        struct hcq_graph *graph;
        char name[64];

        snprintf(name, sizeof(name), boxes[b], 0u);
        expect_ok(hcq_device_open(name, &devs[0]));
        expect_ok(hcq_queue_create(devs[0], HCQ_QUEUE_COMPUTE, &queues[0]));
        expect_ok(
            hcq_buffer_create(devs[0], 4096, HCQ_MEM_HOST_VISIBLE, &bufs[0]));
        for (i = 0; i < 4; i++) {
            struct hcq_graph_arg from, to;

            snprintf(name, sizeof(name), boxes[b], 1u);
            expect_ok(hcq_device_open(name, &devs[1]));
            expect_ok(hcq_queue_create(devs[1], HCQ_QUEUE_COMPUTE, &queues[1]));
            expect_ok(hcq_buffer_create(devs[1], 4096, 0, &bufs[1]));
            expect_ok(hcq_buffer_create_peer(devs[0], bufs[1], &peer));
            d.queues = queues;
            expect_ok(hcq_graph_create(&d, &graph));
            to = hcq_graph_memory(bufs[1]->va, 4096, HCQ_ACCESS_WRITE);
            hcq_graph_fill(graph, devs[1], &to, i + 7, 4096);
            from = hcq_graph_memory(peer->va, 4096, HCQ_ACCESS_READ);
            to = hcq_graph_memory(bufs[0]->va, 4096, HCQ_ACCESS_WRITE);
            hcq_graph_copy(graph, devs[0], &to, &from, 4096);
            expect_ok(hcq_graph_end(graph));
            /* the begin there, the fill's end back */
            assert_int_equal(count_near(graph, &graph->copies[0]), 2);
            for (k = 0; k < 3; k++) {
                memset(bufs[0]->host, 0, 4096);
                expect_ok(hcq_graph_submit(graph, NULL));
                expect_ok(hcq_graph_wait(graph, RIG_WAIT_NS));
                assert_int_equal(((uint32_t *)bufs[0]->host)[1023], i + 7);
                expect_zeros(graph);
            }
            hcq_graph_destroy(graph);
            hcq_buffer_destroy(peer);
            hcq_device_close(devs[1]);
        }
        hcq_device_close(devs[0]);
    }
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_linked),
        cmocka_unit_test(test_host),
        cmocka_unit_test(test_opened_anew),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
