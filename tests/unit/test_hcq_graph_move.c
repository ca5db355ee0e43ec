/* hcq_graph_move of fixed memory: one copy where a device sees the other's, by
 * the device that does, else two for each chunk.
 */
#include "tests/unit/expect.h"

#include "hcq/hcq_graph_internal.h"

#define BYTES 65536u

static struct hcq_device *devs[2];
static struct hcq_queue *queues[2];
static struct hcq_buffer *bufs[2];

static void
open_pair(const char *from, const char *to)
{
    const char *names[2] = {from, to};
    uint32_t i;

    for (i = 0; i < 2; i++) {
        expect_ok(hcq_device_open(names[i], &devs[i]));
        expect_ok(hcq_queue_create(devs[i], HCQ_QUEUE_COMPUTE, &queues[i]));
        expect_ok(hcq_buffer_create(devs[i], 2 * BYTES, 0, &bufs[i]));
    }
}

static void
close_pair(void)
{
    uint32_t i;

    for (i = 0; i < 2; i++) {
        hcq_buffer_destroy(bufs[i]);
        hcq_queue_destroy(queues[i]);
    }
    hcq_device_close(devs[0]);
    hcq_device_close(devs[1]);
}

/* Moves the second half of the first device's buffer to that of the second
 * one's, which takes so many copies, the first one by `dev`. */
static void
expect_move(uint32_t n_copies, const struct hcq_device *dev)
{
    static uint32_t run;
    const struct hcq_graph_desc desc = {
        .struct_size = sizeof(desc), .queues = queues, .n_queues = 2};
    struct hcq_graph_arg src, dst;
    struct hcq_graph *graph;
    uint8_t bytes[BYTES];
    uint32_t i;

    run++;
    memset(bytes, (int)run, BYTES);
    expect_ok(hcq_buffer_write(bufs[0], BYTES, bytes, BYTES));
    expect_ok(hcq_graph_create(&desc, &graph));
    src = hcq_graph_memory(bufs[0]->va + BYTES, BYTES, HCQ_ACCESS_READ);
    dst = hcq_graph_memory(bufs[1]->va + BYTES, BYTES, HCQ_ACCESS_WRITE);
    hcq_graph_move(graph, devs[1], &dst, devs[0], &src, BYTES);
    expect_ok(hcq_graph_end(graph));
    assert_int_equal(graph->n_commands, n_copies);
    assert_ptr_equal(graph->commands[0].dev, dev);
    expect_ok(hcq_graph_submit(graph, NULL));
    expect_ok(hcq_graph_wait(graph, HCQ_WAIT_WHILE_MOVING));
    hcq_graph_destroy(graph);
    memset(bytes, 0, BYTES);
    expect_ok(hcq_buffer_read(bufs[1], BYTES, bytes, BYTES));
    for (i = 0; i < BYTES; i++)
        assert_int_equal(bytes[i], (uint8_t)run);
}

/* By who sees the other's, the source first; not by what a transfer has for a
 * while. */
static void
try_peers(const char *from, const char *to)
{
    struct hcq_transfer *transfer;
    struct hcq_buffer *peers[2];
    uint64_t values[2];

    open_pair(from, to);
    expect_move(2, devs[0]);
    expect_ok(hcq_transfer_create(queues[1], bufs[1], queues[0], bufs[0], BYTES,
                                  &values[0], &values[1], &transfer));
    expect_move(2, devs[0]);
    expect_ok(hcq_transfer_wait(queues[1], values[0], &transfer, 1));
    hcq_transfer_release(transfer, queues[0]);
    hcq_transfer_release(transfer, queues[1]);
    expect_ok(hcq_buffer_create_peer(devs[1], bufs[0], &peers[0]));
    expect_move(1, devs[1]);
    expect_ok(hcq_buffer_create_peer(devs[0], bufs[1], &peers[1]));
    expect_move(1, devs[0]);
    hcq_buffer_destroy(peers[0]);
    expect_move(1, devs[0]);
    hcq_buffer_destroy(peers[1]);
    expect_move(2, devs[0]);
    close_pair();
}

static void
test_peers(void **state)
{
    (void)state;
    try_peers("NV:0@sim:h100*2", "NV:1@sim:h100*2");
    try_peers("AMD:0@sim:mi300x*2", "AMD:1@sim:mi300x*2");
}

/* The CPU's memory, all of it or what is moved, pinned by the other. */
static void
test_pinned(void **state)
{
    static const char *const cards[] = {"NV@sim:sm_90", "AMD@sim:gfx942",
                                        "QCOM@sim:a740"};
    struct hcq_buffer *pinned;
    size_t i;

    (void)state;
    for (i = 0; i < 2 * sizeof(cards) / sizeof(cards[0]); i++) {
        const char *card = cards[i / 2];
        uint32_t at = i % 2; /* the CPU */

        open_pair(at == 0 ? "CPU" : card, at == 0 ? card : "CPU");
        expect_move(2, devs[0]);
        expect_ok(hcq_buffer_create_pinned(devs[!at], bufs[at]->host, 2 * BYTES,
                                           &pinned));
        expect_move(1, devs[!at]);
        hcq_buffer_destroy(pinned);
        expect_ok(hcq_buffer_create_pinned(devs[!at], bufs[at]->host,
                                           2 * BYTES - 1, &pinned));
        expect_move(2, devs[0]);
        hcq_buffer_destroy(pinned);
        close_pair();
    }
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_peers),
        cmocka_unit_test(test_pinned),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
