/* Links between AMD cards: what the simulated kernel tells of them and refuses,
 * what hcq_device_get_link makes of it, copy queues by engine.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/bits.h"
#include "hcq/amd/amd_kfd.h"
#include "hcq/hcq_graph_internal.h"
#include "sim/amd/sim_amd.h"
#include "tests/unit/expect.h"

#define MAX_CARDS 8

static struct hcq_device *devs[MAX_CARDS];

static void
open_cards(const char *spec, unsigned n)
{
    char name[64];
    unsigned i;

    assert_true(n <= MAX_CARDS);
    for (i = 0; i < n; i++) {
        snprintf(name, sizeof(name), "AMD:%u@sim:%s", i, spec);
        if (hcq_device_open(name, &devs[i]) != BELL_OK)
            fail_msg("%s: %s", name, bell_error_last()->message);
    }
}

static void
close_cards(unsigned n)
{
    while (n-- > 0)
        hcq_device_close(devs[n]);
}

static struct hcq_device_link
link_of(unsigned from, unsigned to)
{
    struct hcq_device_link link = {.struct_size = sizeof(link)};

    expect_ok(hcq_device_get_link(devs[from], devs[to], &link));
    return link;
}

/* Whether card `from` gets memory of card `to`. */
static bell_status
try_peer(unsigned from, unsigned to, uint32_t flags)
{
    struct hcq_buffer *buf, *peer;
    bell_status status;

    expect_ok(hcq_buffer_create(devs[to], 4096, flags, &buf));
    status = hcq_buffer_create_peer(devs[from], buf, &peer);
    if (status == BELL_OK)
        hcq_buffer_destroy(peer);
    hcq_buffer_destroy(buf);
    return status;
}

/* Eight MI300X are one hive: each pair has a link and an engine for it. */
static void
hive_of_eight(void **state)
{
    unsigned i, k;

    (void)state;
    open_cards("mi300x*8", 8);
    for (i = 0; i < 8; i++) {
        const struct amd_topology *t = &amd_device_of(devs[i])->topology;
        uint32_t engines = 0;

        assert_int_equal(t->n_sdma, 2);
        assert_int_equal(t->n_sdma_xgmi, 14);
        for (k = 0; k < 8; k++) {
            struct hcq_device_link link = link_of(i, k);

            if (i == k) {
                assert_int_equal(link.kind, HCQ_LINK_SELF);
                continue;
            }
            assert_int_equal(link.kind, HCQ_LINK_XGMI);
            assert_int_equal(link.hops, 1);
            assert_true(link.reads && link.writes && link.atomics);
            assert_true(link.bytes_per_s == 50000000000ull);
            assert_string_equal(link.reason,
                                "KFD's topology: XGMI of weight 15");
            assert_int_equal(__builtin_popcount(link.engines), 1);
            engines |= link.engines;
        }
        assert_int_equal(engines, 0x5554); /* seven, every second one */
    }
    /* src: Linux 6.12, rec_sdma_eng_map */
    assert_int_equal(link_of(0, 1).engines, 1 << 14);
    assert_int_equal(link_of(0, 7).engines, 1 << 6);
    assert_int_equal(link_of(2, 0).engines, 1 << 10);
    assert_int_equal(link_of(0, 2).engines, 1 << 12);
    close_cards(8);
}

/* Two hives of two: XGMI inside, PCIe between, where engines do not matter. */
static void
two_hives(void **state)
{
    struct hcq_device_link link;

    (void)state;
    open_cards("gfx942*4,hive=2", 4);
    link = link_of(0, 1);
    assert_int_equal(link.kind, HCQ_LINK_XGMI);
    assert_int_equal(link.engines, 0xfffc); /* all that are for XGMI */
    assert_int_equal(link_of(3, 2).kind, HCQ_LINK_XGMI);
    link = link_of(1, 2);
    assert_int_equal(link.kind, HCQ_LINK_PCIE);
    assert_int_equal(link.engines, 0);
    assert_true(link.bytes_per_s == 64000000000ull && link.atomics);
    expect_ok(try_peer(1, 2, 0));
    expect_ok(try_peer(1, 0, 0));
    close_cards(4);
}

/* What KFD refuses, why it most likely does, and that memory of the host is
 * shared all the same. */
static void
refusals(void **state)
{
    static const struct {
        const char *spec, *why;
    } rows[] = {
        {"gfx1100*2,link=none", "(CONFIG_HSA_AMD_P2P)"},
        {"gfx1100*2,p2p=off", "amdgpu's parameter pcie_p2p is off"},
        {"gfx1100*2,bar=256", "need a resizable BAR"},
        {"gfx1201*2,acs=redirect", "an IOMMU translates (DMA-FQ)"},
        {"gfx942*2,hive=1,acs=redirect", "or ACS redirects"},
        {"gfx942*2,link=none", "no XGMI, and the kernel has no PCIe peers"},
        {"gfx90a*2,link=pcie,p2p=off", "pcie_p2p is off"},
    };
    struct hcq_device_link link;
    size_t i;

    (void)state;
    for (i = 0; i < ARRAY_LEN(rows); i++) {
        open_cards(rows[i].spec, 2);
        link = link_of(0, 1);
        assert_int_equal(link.kind, HCQ_LINK_HOST);
        assert_int_equal(link.hops, 2);
        assert_false(link.reads || link.writes || link.atomics);
        if (!strstr(link.reason, rows[i].why))
            fail_msg("%s: %s", rows[i].spec, link.reason);
        expect_fails(try_peer(0, 1, 0), BELL_E_UNSUPPORTED, rows[i].why);
        assert_non_null(strstr(bell_error_last()->message, "AMD:0@sim:"));
        assert_non_null(strstr(bell_error_last()->message, "AMD:1@sim:"));
        expect_ok(try_peer(0, 1, HCQ_MEM_HOST_VISIBLE));
        close_cards(2);
    }
}

/* XGMI needs no window: small ones, and what PCIe lacks, do not matter
 * there. */
static void
hive_needs_no_window(void **state)
{
    (void)state;
    open_cards("gfx942*2,bar=256,p2p=off", 2);
    assert_int_equal(link_of(0, 1).kind, HCQ_LINK_XGMI);
    expect_ok(try_peer(0, 1, 0));
    close_cards(2);
    open_cards("gfx942*2,acs=redirect", 2);
    expect_ok(try_peer(1, 0, 0));
    close_cards(2);
}

/* Partitions of one GPU are closer to each other than to another's. */
static void
partitions(void **state)
{
    (void)state;
    open_cards("gfx942*2,cpx", 8);
    assert_int_equal(link_of(0, 3).kind, HCQ_LINK_XGMI);
    assert_string_equal(link_of(0, 3).reason,
                        "KFD's topology: XGMI of weight 13");
    assert_int_equal(link_of(0, 3).hops, 1);
    assert_string_equal(link_of(0, 4).reason,
                        "KFD's topology: XGMI of weight 41");
    assert_int_equal(link_of(0, 4).hops, 2);
    assert_true(link_of(0, 4).bytes_per_s == 0);
    close_cards(8);
}

static void
other_machines(void **state)
{
    struct hcq_device_link link = {.struct_size = sizeof(link)};
    struct hcq_device *other;

    (void)state;
    open_cards("gfx1100", 1);
    expect_ok(hcq_device_open("AMD:0@sim:gfx1030", &other));
    expect_ok(hcq_device_get_link(devs[0], other, &link));
    assert_int_equal(link.kind, HCQ_LINK_HOST);
    assert_non_null(strstr(link.reason, "two machines"));
    hcq_device_close(other);
    close_cards(1);
}

/* ---- sysfs --------------------------------------------------------------- */

#define NODES "/sys/devices/virtual/kfd/kfd/topology/nodes/"

static void
expect_file(struct kio *kio, const char *path, const char *want)
{
    char text[1024];
    size_t n = 0;

    if (kio_read_file(kio, path, text, sizeof(text), &n) != BELL_OK)
        fail_msg("%s", bell_error_last()->message);
    text[n < sizeof(text) ? n : sizeof(text) - 1] = '\0';
    assert_string_equal(text, want);
}

static void
files(void **state)
{
    char text[16];
    struct kio *kio;
    size_t n;

    (void)state;
    open_cards("gfx942*3,hive=2", 3);
    kio = amd_device_of(devs[0])->process->kio;
    expect_file(kio, NODES "2/io_links/0/properties",
                "type 2\nversion_major 0\nversion_minor 0\nnode_from 2\n"
                "node_to 0\nweight 20\nmin_latency 0\nmax_latency 0\n"
                "min_bandwidth 312\nmax_bandwidth 64000\n"
                "recommended_transfer_size 0\n"
                "recommended_sdma_engine_id_mask 3\nflags 1\n");
    expect_file(kio, NODES "2/io_links/1/properties",
                "type 11\nversion_major 0\nversion_minor 0\nnode_from 2\n"
                "node_to 1\nweight 15\nmin_latency 0\nmax_latency 0\n"
                "min_bandwidth 50000\nmax_bandwidth 50000\n"
                "recommended_transfer_size 0\n"
                "recommended_sdma_engine_id_mask 65532\nflags 1\n");
    expect_file(kio, NODES "2/p2p_links/0/properties",
                "type 2\nversion_major 0\nversion_minor 0\nnode_from 2\n"
                "node_to 3\nweight 40\nmin_latency 0\nmax_latency 0\n"
                "min_bandwidth 312\nmax_bandwidth 64000\n"
                "recommended_transfer_size 0\n"
                "recommended_sdma_engine_id_mask 0\nflags 3\n");
    expect_file(kio, "/sys/module/amdgpu/parameters/pcie_p2p", "Y\n");
    /* as many as are counted, and no more */
    assert_int_equal(kio_read_file(kio, NODES "2/io_links/2/properties", text,
                                   sizeof(text), &n),
                     BELL_E_IO);
    assert_int_equal(kio_read_file(kio, NODES "2/p2p_links/1/properties", text,
                                   sizeof(text), &n),
                     BELL_E_IO);
    assert_int_equal(kio_read_file(kio, NODES "0/p2p_links/0/properties", text,
                                   sizeof(text), &n),
                     BELL_E_IO);
    close_cards(3);
}

/* A machine that cannot be. */
static void
specs(void **state)
{
    static const struct {
        const char *spec, *part;
    } rows[] = {
        {"gfx1100*2,link=xgmi", "gfx1100 has no XGMI"},
        {"gfx1100*2,hive=2", "gfx1100 has no XGMI"},
        {"gfx942*2,hive=3", "hives of 3 of 2"},
        {"gfx942*4,link=pcie,hive=2", "hives of 2 of 4"},
        {"gfx942*2,link=nvlink", "known: CHIP[*1..8][,OPTION]..."},
        {"gfx942*2,link=xgm", "no simulated AMD machine"},
        {"gfx942*2,hive=9", "no simulated AMD machine"},
        {"gfx942*2,link=pcie,link=none", "given twice"},
    };
    struct hcq_device *dev;
    char name[64];
    size_t i;

    (void)state;
    for (i = 0; i < ARRAY_LEN(rows); i++) {
        snprintf(name, sizeof(name), "AMD@sim:%s", rows[i].spec);
        expect_fails(hcq_device_open(name, &dev), BELL_E_NO_DEVICE,
                     rows[i].part);
    }
}

/* ---- engines ------------------------------------------------------------- */

static uint32_t
engines_used(void)
{
    struct sim_amd_usage usage;

    sim_amd_usage_all(&usage);
    return usage.engines;
}

static struct hcq_queue *
copy_queue(uint32_t engines)
{
    struct hcq_queue_desc desc = {
        .struct_size = sizeof(desc),
        .kind = HCQ_QUEUE_COPY,
        .engines = engines,
    };
    struct hcq_queue *queue;

    expect_ok(hcq_queue_create_with(devs[0], &desc, &queue));
    assert_int_equal(queue->engines, engines);
    return queue;
}

/* It copies; which engine it is on does not show. */
static void
expect_copies(struct hcq_queue *queue)
{
    struct hcq_buffer *from, *to;
    uint32_t value = 77;
    struct hcq_cs *cs;

    expect_ok(hcq_buffer_create(queue->dev, 64, 0, &from));
    expect_ok(hcq_buffer_create(queue->dev, 64, 0, &to));
    expect_ok(hcq_buffer_write(from, 0, &value, 4));
    expect_ok(hcq_queue_begin(queue, &cs));
    hcq_cs_copy(cs, to->va, from->va, 4);
    expect_ok(hcq_cs_submit(cs, NULL));
    expect_ok(hcq_queue_wait(queue, HCQ_TIMEOUT_NS));
    value = 0;
    expect_ok(hcq_buffer_read(to, 0, &value, 4));
    assert_int_equal(value, 77);
    hcq_buffer_destroy(from);
    hcq_buffer_destroy(to);
}

/* On the engine that was asked for, by the kernel of each age. */
static void
queue_on_engine(void **state)
{
    static const struct {
        const char *spec;
        uint32_t engines, first, second; /* of one queue; of two */
    } rows[] = {
        {"mi300x*2", 0, 1, 3}, /* ordinary ones, in turns */
        {"mi300x*2", 1 << 5, 1 << 5, 1 << 5},
        {"mi300x*2", 1 << 14, 1 << 14, 1 << 14},
        {"mi300x*2", 2, 2, 2},
        {"mi300x*2", 1 << 20, 1, 3},                   /* there is none */
        {"mi300x*2,kfd=1.16", 1 << 5, 1 << 2, 3 << 2}, /* any for XGMI */
        {"mi300x*2,kfd=1.16", 1, 1, 3},                /* an ordinary one */
        {"gfx1100*2", 2, 2, 2},
        {"gfx1100*2", 1 << 5, 1, 3},
    };
    struct hcq_queue *a, *b;
    size_t i;

    (void)state;
    for (i = 0; i < ARRAY_LEN(rows); i++) {
        open_cards(rows[i].spec, 1);
        a = copy_queue(rows[i].engines);
        assert_int_equal(engines_used(), rows[i].first);
        expect_copies(a);
        b = copy_queue(rows[i].engines);
        assert_int_equal(engines_used(), rows[i].second);
        hcq_queue_destroy(a);
        expect_copies(b);
        hcq_queue_destroy(b);
        assert_int_equal(engines_used(), 0);
        close_cards(1);
    }
}

/* Queues take the engines of a link in turns; where all are taken, the next
 * queue is on another engine; and recovery keeps it. */
static void
engines_in_turns(void **state)
{
    enum {
        N = 16 /* of two engines */
    };
    struct hcq_queue *queues[N + 1];
    uint32_t seen = 0;
    unsigned i;

    (void)state;
    open_cards("mi300x*2", 1);
    for (i = 0; i < 14; i++) {
        queues[i] = copy_queue(0xfffc);
        seen = engines_used();
        assert_int_equal(__builtin_popcount(seen), i + 1);
    }
    assert_int_equal(seen, 0xfffc);
    expect_ok(hcq_device_recover(devs[0]));
    assert_int_equal(engines_used(), 0xfffc);
    for (i = 0; i < 14; i++) {
        expect_copies(queues[i]);
        hcq_queue_destroy(queues[i]);
    }
    for (i = 0; i < N; i++)
        queues[i] = copy_queue(3 << 8);
    assert_int_equal(engines_used(), 3 << 8);
    queues[N] = copy_queue(3 << 8);
    assert_int_equal(engines_used(), 3 << 8 | 1);
    expect_copies(queues[N]);
    for (i = 0; i <= N; i++)
        hcq_queue_destroy(queues[i]);
    close_cards(1);
}

/* Copies from others' memory in a graph of one device: each takes the queue on
 * the engine of its link, also where the others have no queue in it. */
static void
routes_to_others(void **state)
{
    enum {
        N = 4,
        BYTES = 65536
    };
    struct hcq_queue *queues[N];
    const struct hcq_graph_desc desc = {
        .struct_size = sizeof(desc), .queues = queues, .n_queues = N};
    struct hcq_buffer *bufs[N], *peers[N] = {NULL}, *to;
    struct hcq_graph_arg dst, src;
    struct hcq_graph *graph;
    unsigned i;

    (void)state;
    open_cards("mi300x*8,kfd=1.18", N);
    expect_ok(hcq_queue_create(devs[0], HCQ_QUEUE_COMPUTE, &queues[0]));
    expect_ok(hcq_buffer_create(devs[0], N * BYTES, 0, &to));
    for (i = 1; i < N; i++) {
        queues[N - i] = copy_queue(link_of(0, i).engines);
        expect_ok(hcq_buffer_create(devs[i], BYTES, 0, &bufs[i]));
        expect_ok(hcq_buffer_create_peer(devs[0], bufs[i], &peers[i]));
    }
    expect_ok(hcq_graph_create(&desc, &graph));
    for (i = 1; i < N; i++) {
        dst = hcq_graph_memory(to->va + i * BYTES, BYTES, HCQ_ACCESS_WRITE);
        src = hcq_graph_memory(peers[i]->va, BYTES, HCQ_ACCESS_READ);
        hcq_graph_copy(graph, devs[0], &dst, &src, BYTES);
    }
    expect_ok(hcq_graph_end(graph));
    for (i = 1; i < N; i++)
        assert_int_equal(queues[graph->commands[i - 1].queue]->engines,
                         link_of(0, i).engines);
    expect_ok(hcq_graph_submit(graph, NULL));
    expect_ok(hcq_graph_wait(graph, HCQ_WAIT_WHILE_MOVING));
    hcq_graph_destroy(graph);
    for (i = 1; i < N; i++) {
        hcq_buffer_destroy(peers[i]);
        hcq_buffer_destroy(bufs[i]);
        hcq_queue_destroy(queues[i]);
    }
    hcq_buffer_destroy(to);
    hcq_queue_destroy(queues[0]);
    close_cards(N);
}

/* Twelve queues are all that this card's engines have: compute units do the
 * work of the next. */
static void
no_queue_left(void **state)
{
    struct hcq_queue *queues[16];
    unsigned i;

    (void)state;
    open_cards("gfx1100", 1);
    for (i = 0; i < ARRAY_LEN(queues); i++) {
        queues[i] = copy_queue(i % 4);
        assert_int_equal(queues[i]->words == HCQ_WORDS_SDMA, i < 12);
        expect_copies(queues[i]);
    }
    assert_int_equal(engines_used(), 3);
    for (i = 0; i < ARRAY_LEN(queues); i++)
        hcq_queue_destroy(queues[i]);
    assert_int_equal(engines_used(), 0);
    close_cards(1);
}

/* A graph sends to each other card by the copy queue on its link's engine. */
static void
graph_by_links(void **state)
{
    enum {
        N = 4,
        BYTES = 1 << 20
    };
    struct hcq_queue *queues[2 * N - 1];
    struct hcq_graph_desc desc = {
        .struct_size = sizeof(desc),
        .name = "links",
        .queues = queues,
        .n_queues = 2 * N - 1,
    };
    struct hcq_buffer *own, *inbox[N], *peer[N];
    struct hcq_link_bytes bytes = {.struct_size = sizeof(bytes)};
    struct hcq_graph_arg from, to;
    struct hcq_graph *graph;
    uint32_t engines = 0;
    unsigned i;

    (void)state;
    open_cards("mi300x*8", N);
    expect_ok(hcq_queue_create(devs[0], HCQ_QUEUE_COMPUTE, &queues[0]));
    expect_ok(hcq_buffer_create(devs[0], BYTES, 0, &own));
    for (i = 1; i < N; i++) {
        engines |= link_of(0, i).engines;
        queues[i] = copy_queue(link_of(0, i).engines);
        expect_ok(hcq_buffer_create(devs[i], BYTES, 0, &inbox[i]));
        expect_ok(hcq_buffer_create_peer(devs[0], inbox[i], &peer[i]));
        expect_ok(
            hcq_queue_create(devs[i], HCQ_QUEUE_COMPUTE, &queues[N + i - 1]));
    }
    assert_int_equal(engines_used(), engines);
    expect_ok(hcq_graph_create(&desc, &graph));
    from = hcq_graph_memory(own->va, BYTES, HCQ_ACCESS_READ);
    for (i = 1; i < N; i++) {
        to = hcq_graph_memory(peer[i]->va, BYTES, HCQ_ACCESS_WRITE);
        hcq_graph_copy(graph, devs[0], &to, &from, BYTES);
    }
    expect_ok(hcq_graph_end(graph));
    expect_ok(hcq_graph_submit(graph, NULL));
    expect_ok(hcq_graph_wait(graph, HCQ_TIMEOUT_NS));
    for (i = 1; i < N; i++) {
        assert_true(hcq_signal_value(hcq_queue_timeline(queues[i])) == 1);
        expect_ok(hcq_device_link_bytes(devs[0], devs[i], &bytes));
        assert_true(bytes.copy_written == BYTES && bytes.copy_read == 0);
    }
    hcq_graph_destroy(graph);
    for (i = 1; i < N; i++)
        hcq_buffer_destroy(peer[i]);
    close_cards(N);
}

/* A descriptor of before there were engines. */
static void
shorter_descriptor(void **state)
{
    struct hcq_queue_desc desc = {
        .struct_size = offsetof(struct hcq_queue_desc, engines),
        .kind = HCQ_QUEUE_COPY,
        .engines = 1 << 9,
    };
    struct hcq_queue *queue;

    (void)state;
    open_cards("mi300x", 1);
    expect_ok(hcq_queue_create_with(devs[0], &desc, &queue));
    assert_int_equal(queue->engines, 0);
    assert_int_equal(engines_used(), 1);
    hcq_queue_destroy(queue);
    desc.struct_size--;
    expect_fails(hcq_queue_create_with(devs[0], &desc, &queue), BELL_E_INVALID,
                 "queue descriptor");
    close_cards(1);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(hive_of_eight),
        cmocka_unit_test(two_hives),
        cmocka_unit_test(refusals),
        cmocka_unit_test(hive_needs_no_window),
        cmocka_unit_test(partitions),
        cmocka_unit_test(other_machines),
        cmocka_unit_test(files),
        cmocka_unit_test(specs),
        cmocka_unit_test(queue_on_engine),
        cmocka_unit_test(engines_in_turns),
        cmocka_unit_test(routes_to_others),
        cmocka_unit_test(no_queue_left),
        cmocka_unit_test(graph_by_links),
        cmocka_unit_test(shorter_descriptor),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
