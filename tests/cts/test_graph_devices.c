/* hcq/hcq_graph*.c over several devices: rings in which each device hands what
 * it has to the next, with memory that is fixed, of slots, and of slots that
 * others see by views.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "base/bits.h"
#include "base/thread.h"
#include "hcq/hcq_graph.h"
#include "hcq/hcq_slot.h"
#include "programs.h"
#include "tests/unit/launch_rig.h"

#define MAX_DEVS 4u
#define N_RUNS   12u
#define PART     4096u /* ints of a chunk: as many bytes as are worth a copy */
#define SUMMED   64u   /* ints of a chunk that kernels change */
#define HOLD_NS  10000000ull

/* ---- devices ---- */

static const struct cts_provider *const providers[] = {
    &cts_amd_provider,
    &cts_cpu_provider,
    &cts_nv_provider,
    &cts_qcom_provider,
};

static bool is_set_up[ARRAY_LEN(providers)];

struct box {
    uint32_t n;
    struct hcq_device *devs[MAX_DEVS];
    struct hcq_queue *queues[2 * MAX_DEVS]; /* compute, then copy of each */
    struct hcq_program *add_one[MAX_DEVS];
};

static void
load_add_one(struct box *box, uint32_t d)
{
    struct hcq_program_desc desc = {
        .struct_size = sizeof(desc),
        .name = "add_one",
        .n_bufs = 2,
        .n_vals = 1,
        .local = {1, 1, 1},
    };
    struct hcq_device_info info = {.struct_size = sizeof(info)};
    char why[256] = "";
    uint32_t i;

    hcq_device_info(box->devs[d], &info);
    for (i = 0; i < ARRAY_LEN(providers); i++) {
        const struct cts_provider *p = providers[i];
        if (strcmp(p->backend, info.backend) != 0)
            continue;
        if (p->setup && !is_set_up[i] && !p->setup(&info, why, sizeof(why)))
            fail_msg("%s: %s", info.name, why);
        is_set_up[i] = true;
        assert_true(p->find(CTS_ADD_ONE, 0, &desc));
        expect_ok(hcq_program_create(box->devs[d], &desc, &box->add_one[d]));
        return;
    }
    fail_msg("no kernels for %s", info.name);
}

static void
open_box(struct box *box, const char *const *names, uint32_t n)
{
    uint32_t d;

    assert_true(n <= MAX_DEVS);
    memset(box, 0, sizeof(*box));
    box->n = n;
    for (d = 0; d < n; d++) {
        expect_ok(hcq_device_open(names[d], &box->devs[d]));
        expect_ok(hcq_queue_create(box->devs[d], HCQ_QUEUE_COMPUTE,
                                   &box->queues[2 * d]));
        expect_ok(hcq_queue_create(box->devs[d], HCQ_QUEUE_COPY,
                                   &box->queues[2 * d + 1]));
        load_add_one(box, d);
    }
}

static void
close_box(struct box *box)
{
    uint32_t d;

    for (d = box->n; d-- > 0;)
        hcq_device_close(box->devs[d]);
}

static struct hcq_graph *
new_graph(const struct box *box, uint32_t flags)
{
    const struct hcq_graph_desc desc = {
        .struct_size = sizeof(desc),
        .flags = flags,
        .name = "ring",
        .queues = box->queues,
        .n_queues = 2 * box->n,
    };
    struct hcq_graph *graph;

    expect_ok(hcq_graph_create(&desc, &graph));
    return graph;
}

/* ---- a ring ---- */

/* What each device has (a second one for the next submissions), what comes in,
 * and how the device before it sees these. */
struct ring {
    struct hcq_buffer *has[2][MAX_DEVS], *inbox[MAX_DEVS];
    struct hcq_buffer *has_peer[2][MAX_DEVS], *inbox_peer[MAX_DEVS];
};

static uint32_t
next_of(const struct box *box, uint32_t d)
{
    return (d + 1) % box->n;
}

static void
make_ring(const struct box *box, struct ring *ring)
{
    uint64_t bytes = 4ull * PART * box->n;
    uint32_t d, k;

    for (d = 0; d < box->n; d++) {
        for (k = 0; k < 2; k++)
            expect_ok(
                hcq_buffer_create(box->devs[d], bytes, 0, &ring->has[k][d]));
        expect_ok(hcq_buffer_create(box->devs[d], bytes, 0, &ring->inbox[d]));
    }
    for (d = 0; d < box->n; d++) {
        uint32_t to = next_of(box, d);
        for (k = 0; k < 2; k++)
            expect_ok(hcq_buffer_create_peer(box->devs[d], ring->has[k][to],
                                             &ring->has_peer[k][to]));
        expect_ok(hcq_buffer_create_peer(box->devs[d], ring->inbox[to],
                                         &ring->inbox_peer[to]));
    }
}

static void
free_ring(const struct box *box, struct ring *ring)
{
    uint32_t d, k;

    for (d = 0; d < box->n; d++) {
        for (k = 0; k < 2; k++)
            hcq_buffer_destroy(ring->has_peer[k][d]);
        hcq_buffer_destroy(ring->inbox_peer[d]);
    }
    for (d = 0; d < box->n; d++) {
        for (k = 0; k < 2; k++)
            hcq_buffer_destroy(ring->has[k][d]);
        hcq_buffer_destroy(ring->inbox[d]);
    }
}

/* Where the graph finds what a device has, itself and the one before it:
 * slots, or fixed memory. */
struct ring_slots {
    uint32_t has[MAX_DEVS], has_peer[MAX_DEVS]; /* or HCQ_SLOT_NONE */
    bool are_homed;
};

static struct hcq_graph_arg
part_of(uint32_t slot, const struct hcq_buffer *fixed, uint32_t part,
        uint32_t access)
{
    uint64_t at = 4ull * PART * part;

    if (slot != HCQ_SLOT_NONE)
        return hcq_graph_in_slot(slot, at, 4ull * PART, access);
    return hcq_graph_memory(fixed->va + at, 4ull * PART, access);
}

/* The first ints of each chunk go around and become one more on each device
 * they come to, then the last one's chunk is handed on to all. */
static void
add_ring(const struct box *box, struct hcq_graph *graph,
         const struct ring *ring, const struct ring_slots *slots)
{
    const uint32_t grid[3] = {1, 1, 1};
    uint32_t n = box->n, s, d;

    for (s = 0; s + 1 < n; s++) {
        for (d = 0; d < n; d++) {
            uint32_t to = next_of(box, d), part = (d + n - s) % n;
            struct hcq_graph_arg from =
                part_of(slots->has[d], ring->has[0][d], part, 0);
            struct hcq_graph_arg in =
                part_of(HCQ_SLOT_NONE, ring->inbox_peer[to], s, 0);
            struct hcq_graph_arg args[3] = {
                part_of(slots->has[to], ring->has[0][to], part,
                        HCQ_ACCESS_WRITE),
                part_of(HCQ_SLOT_NONE, ring->inbox[to], s, HCQ_ACCESS_READ),
                hcq_graph_word(SUMMED)};
            hcq_graph_copy(graph, box->devs[d], &in, &from, 4 * PART);
            hcq_graph_exec(graph, box->add_one[to], args, 3, grid, NULL);
        }
    }
    for (s = 0; s + 1 < n; s++) {
        for (d = 0; d < n; d++) {
            uint32_t to = next_of(box, d), part = (d + 1 + n - s) % n;
            struct hcq_graph_arg from =
                part_of(slots->has[d], ring->has[0][d], part, 0);
            struct hcq_graph_arg in =
                part_of(slots->has_peer[to], ring->has_peer[0][to], part, 0);
            hcq_graph_copy(graph, box->devs[d], &in, &from, 4 * PART);
        }
    }
}

/* What they are set to for a submission. */
static void
set_slots(const struct box *box, struct hcq_graph *graph,
          const struct ring *ring, const struct ring_slots *slots,
          uint32_t which)
{
    uint32_t d;

    for (d = 0; d < box->n; d++) {
        const struct hcq_buffer *has = ring->has[which][d];
        const struct hcq_buffer *peer = ring->has_peer[which][d];
        if (slots->are_homed) {
            expect_ok(hcq_graph_set_buffer(graph, slots->has[d], has, 0));
            expect_ok(hcq_graph_set_buffer(graph, slots->has_peer[d], peer, 0));
            continue;
        }
        if (slots->has[d] != HCQ_SLOT_NONE)
            expect_ok(hcq_graph_set(graph, slots->has[d], has->va));
        if (slots->has_peer[d] != HCQ_SLOT_NONE)
            expect_ok(hcq_graph_set(graph, slots->has_peer[d], peer->va));
    }
}

static int32_t
first_value(uint32_t run, uint32_t d, uint32_t i)
{
    return (int32_t)(run * 1000000 + d * 100000 + i);
}

static void
fill_ring(const struct box *box, const struct ring *ring, uint32_t which,
          uint32_t run)
{
    static int32_t ints[MAX_DEVS * PART];
    uint32_t d, i;

    for (d = 0; d < box->n; d++) {
        for (i = 0; i < PART * box->n; i++)
            ints[i] = first_value(run, d, i);
        expect_ok(hcq_buffer_write(ring->has[which][d], 0, ints,
                                   4ull * PART * box->n));
    }
}

static uint32_t
count_wrong(const struct box *box, const struct ring *ring, uint32_t which,
            uint32_t run)
{
    static int32_t ints[MAX_DEVS * PART];
    uint32_t d, i, n_wrong = 0;

    for (d = 0; d < box->n; d++) {
        expect_ok(hcq_buffer_read(ring->has[which][d], 0, ints,
                                  4ull * PART * box->n));
        for (i = 0; i < PART * box->n; i++) {
            uint32_t part = i / PART;
            int32_t want = first_value(run, (part + box->n - 1) % box->n, i);
            if (i % PART < SUMMED)
                want = first_value(run, part, i) + (int32_t)(box->n - 1);
            n_wrong += ints[i] != want;
        }
    }
    return n_wrong;
}

/* Submits it while one device after the other is held up: what does not wait
 * for it has its turn meanwhile. */
static void
run_ring(const struct box *box, struct hcq_graph *graph,
         const struct ring *ring, const struct ring_slots *slots, bool in_turns)
{
    struct hcq_signal *gate;
    struct hcq_cs *cs;
    uint32_t run;

    for (run = 0; run < N_RUNS; run++) {
        uint32_t which = in_turns ? run % 2 : 0, held = run % box->n;
        fill_ring(box, ring, which, run);
        set_slots(box, graph, ring, slots, which);
        expect_ok(hcq_signal_create(box->devs[held], 0, &gate));
        expect_ok(hcq_queue_begin(box->queues[2 * held], &cs));
        hcq_cs_wait(cs, gate, 1);
        expect_ok(hcq_cs_submit(cs, NULL));
        expect_ok(hcq_graph_submit(graph, NULL));
        hcq_nap(HOLD_NS);
        hcq_signal_set(gate, 1);
        expect_ok(hcq_graph_wait(graph, LONG_NS));
        expect_ok(hcq_queue_wait(box->queues[2 * held], LONG_NS));
        hcq_signal_destroy(gate);
        assert_int_equal(count_wrong(box, ring, which, run), 0);
    }
}

static struct ring_slots
no_slots(void)
{
    struct ring_slots slots = {.are_homed = false};
    uint32_t d;

    for (d = 0; d < MAX_DEVS; d++)
        slots.has[d] = slots.has_peer[d] = HCQ_SLOT_NONE;
    return slots;
}

/* ---- what is tried on each box ---- */

static struct hcq_graph_info
info_of(const struct hcq_graph *graph)
{
    struct hcq_graph_info info = {.struct_size = sizeof(info)};

    hcq_graph_get_info(graph, &info);
    return info;
}

static struct hcq_graph_info
try_fixed(const struct box *box, const struct ring *ring)
{
    struct ring_slots slots = no_slots();
    struct hcq_graph *graph = new_graph(box, 0);
    struct hcq_graph_info info;

    add_ring(box, graph, ring, &slots);
    expect_ok(hcq_graph_end(graph));
    run_ring(box, graph, ring, &slots, false);
    info = info_of(graph);
    hcq_graph_destroy(graph);
    return info;
}

static void
add_homed(const struct box *box, struct hcq_graph *graph,
          struct ring_slots *slots)
{
    char name[32];
    uint32_t d;

    slots->are_homed = true;
    for (d = 0; d < box->n; d++) {
        snprintf(name, sizeof(name), "has %u", d);
        slots->has[d] =
            hcq_graph_slot_on(graph, name, 4ull * PART * box->n, box->devs[d]);
    }
    for (d = 0; d < box->n; d++)
        slots->has_peer[next_of(box, d)] =
            hcq_graph_view(graph, slots->has[next_of(box, d)], box->devs[d]);
}

/* What may not be set, and what not be submitted. */
static void
try_refusals(const struct box *box, struct hcq_graph *graph,
             const struct ring *ring, const struct ring_slots *slots)
{
    const struct hcq_buffer *other = ring->has_peer[1][1];
    struct hcq_buffer *again;

    expect_fails(hcq_graph_set(graph, slots->has[0], ring->has[0][0]->va),
                 BELL_E_INVALID, "slot 'has 0' has its home on ");
    expect_fails(hcq_graph_set_buffer(graph, slots->has[0], ring->has[0][1], 0),
                 BELL_E_INVALID, "slot 'has 0' is memory as ");
    expect_fails(hcq_graph_set_buffer(graph, slots->has[0], ring->has[0][0], 4),
                 BELL_E_INVALID, "from 4 on the buffer has less");
    expect_fails(hcq_graph_set_buffer(graph, slots->has[0], NULL, 0),
                 BELL_E_INVALID, "the buffer is NULL");
    set_slots(box, graph, ring, slots, 0);
    expect_ok(hcq_graph_set_buffer(graph, slots->has_peer[1], other, 0));
    expect_fails(hcq_graph_submit(graph, NULL), BELL_E_INVALID,
                 "which is other memory than");
    set_slots(box, graph, ring, slots, 0);
    /* one memory by two slots, seen by their homes alone */
    expect_ok(
        hcq_buffer_create_peer(box->devs[box->n - 1], ring->has[0][1], &again));
    expect_ok(
        hcq_graph_set_buffer(graph, slots->has[0], ring->has_peer[0][1], 0));
    expect_ok(hcq_graph_set_buffer(graph, slots->has_peer[0], again, 0));
    expect_fails(hcq_graph_submit(graph, NULL), BELL_E_INVALID, "overlap");
    hcq_buffer_destroy(again);
    /* and beside fixed memory */
    expect_ok(
        hcq_buffer_create_peer(box->devs[box->n - 1], ring->inbox[0], &again));
    expect_ok(hcq_graph_set_buffer(graph, slots->has[0], ring->inbox[0], 0));
    expect_ok(hcq_graph_set_buffer(graph, slots->has_peer[0], again, 0));
    expect_fails(hcq_graph_submit(graph, NULL), BELL_E_INVALID,
                 "which the graph uses too");
    hcq_buffer_destroy(again);
    set_slots(box, graph, ring, slots, 0);
    expect_ok(hcq_graph_submit(graph, NULL));
    expect_ok(hcq_graph_wait(graph, LONG_NS));
}

/* Slots with homes take no more queues, signals and waits than fixed memory,
 * and a submission allocates and locks nothing. */
static void
try_homed(const struct box *box, const struct ring *ring, uint32_t flags,
          const struct hcq_graph_info *want)
{
    struct ring_slots slots = no_slots();
    struct hcq_graph *graph = new_graph(box, flags);
    struct hcq_graph_info info;
    uint32_t i;

    add_homed(box, graph, &slots);
    add_ring(box, graph, ring, &slots);
    expect_ok(hcq_graph_end(graph));
    info = info_of(graph);
    assert_int_equal(info.n_queues, want->n_queues);
    assert_int_equal(info.n_copies, want->n_copies);
    assert_int_equal(info.n_signals, want->n_signals);
    assert_int_equal(info.n_waits, want->n_waits);
    run_ring(box, graph, ring, &slots, true);
    for (i = 0; i < 6; i++) {
        memset(&counts, 0, sizeof(counts));
        set_slots(box, graph, ring, &slots, i % 2);
        expect_ok(hcq_graph_submit(graph, NULL));
        assert_int_equal(counts.allocations, 0);
        assert_int_equal(counts.locks, 0);
        expect_ok(hcq_graph_wait(graph, LONG_NS));
    }
    if (!flags)
        try_refusals(box, graph, ring, &slots);
    hcq_graph_destroy(graph);
}

/* Plain slots: each device has its own, and one for the next device's memory if
 * `both`, else that has a fixed address. */
static void
try_plain(const struct box *box, const struct ring *ring, uint32_t flags,
          bool both)
{
    struct ring_slots slots = no_slots();
    struct hcq_graph *graph = new_graph(box, flags);
    char name[32];
    uint32_t d;

    for (d = 0; d < box->n; d++) {
        snprintf(name, sizeof(name), "has %u", d);
        slots.has[d] = hcq_graph_slot(graph, name, 4ull * PART * box->n);
        snprintf(name, sizeof(name), "peer of %u", d);
        if (both)
            slots.has_peer[d] =
                hcq_graph_slot(graph, name, 4ull * PART * box->n);
    }
    add_ring(box, graph, ring, &slots);
    expect_ok(hcq_graph_end(graph));
    run_ring(box, graph, ring, &slots, both);
    hcq_graph_destroy(graph);
}

/* Each device gives what it has to all others: a graph of transfers alone.
 * Every link has a copy queue of its own, and none waits for another. */
static void
try_gather(const struct box *box)
{
    struct hcq_queue *queues[MAX_DEVS * MAX_DEVS];
    struct hcq_graph_desc desc = {
        .struct_size = sizeof(desc),
        .name = "gather",
        .queues = queues,
    };
    struct hcq_buffer *all[MAX_DEVS], *peers[MAX_DEVS][MAX_DEVS];
    uint64_t bytes = 4ull * PART;
    struct hcq_graph_info info;
    struct hcq_graph *graph;
    int32_t ints[PART];
    uint32_t d, to, i;

    for (d = 0; d < box->n; d++) {
        expect_ok(hcq_buffer_create(box->devs[d], box->n * bytes, 0, &all[d]));
        for (i = 0; i < PART; i++)
            ints[i] = (int32_t)(d * PART + i);
        expect_ok(hcq_buffer_write(all[d], d * bytes, ints, bytes));
        queues[desc.n_queues++] = box->queues[2 * d];
        queues[desc.n_queues++] = box->queues[2 * d + 1];
        for (i = 2; i < box->n; i++)
            expect_ok(hcq_queue_create(box->devs[d], HCQ_QUEUE_COPY,
                                       &queues[desc.n_queues++]));
    }
    expect_ok(hcq_graph_create(&desc, &graph));
    for (d = 0; d < box->n; d++) {
        for (to = 0; to < box->n; to++) {
            struct hcq_graph_arg dst, src;
            peers[d][to] = NULL;
            if (to == d)
                continue;
            expect_ok(
                hcq_buffer_create_peer(box->devs[d], all[to], &peers[d][to]));
            dst = hcq_graph_memory(peers[d][to]->va + d * bytes, bytes, 0);
            src = hcq_graph_memory(all[d]->va + d * bytes, bytes, 0);
            hcq_graph_copy(graph, box->devs[d], &dst, &src, bytes);
        }
    }
    expect_ok(hcq_graph_end(graph));
    info = info_of(graph);
    assert_int_equal(info.n_copies, box->n * (box->n - 1));
    assert_int_equal(info.n_queues, 1 + box->n * (box->n - 1));
    assert_int_equal(info.n_signals, info.n_queues); /* begin, and each end */
    assert_int_equal(info.n_waits, 2 * (info.n_queues - 1));
    expect_ok(hcq_graph_submit(graph, NULL));
    expect_ok(hcq_graph_wait(graph, LONG_NS));
    for (d = 0; d < box->n; d++) {
        for (to = 0; to < box->n; to++) {
            expect_ok(hcq_buffer_read(all[to], d * bytes, ints, bytes));
            for (i = 0; i < PART; i++)
                assert_int_equal(ints[i], d * PART + i);
        }
    }
    hcq_graph_destroy(graph);
    for (d = 0; d < box->n; d++) {
        for (to = 0; to < box->n; to++)
            hcq_buffer_destroy(peers[d][to]);
    }
    for (d = 0; d < box->n; d++)
        hcq_buffer_destroy(all[d]);
}

/* ---- transfers ---- */

/* A kernel's result goes from device to device, each adds one, and nobody waits
 * in between: the first is held up until all is submitted. */
static void
try_transfers(const struct box *box, uint64_t bytes)
{
    struct hcq_transfer *transfers[MAX_DEVS];
    struct hcq_buffer *bufs[MAX_DEVS + 1];
    const uint32_t grid[3] = {1, 1, 1};
    uint64_t there[MAX_DEVS], here[MAX_DEVS], args[3] = {0, 0, SUMMED}, i;
    int32_t *ints = malloc(bytes);
    struct hcq_signal *gate;
    struct hcq_cs *cs;
    uint32_t d;

    assert_non_null(ints);
    for (d = 0; d <= box->n; d++)
        expect_ok(hcq_buffer_create(box->devs[d % box->n], bytes, 0, &bufs[d]));
    for (i = 0; i < bytes / 4; i++)
        ints[i] = (int32_t)(i * 3);
    expect_ok(hcq_buffer_write(bufs[0], 0, ints, bytes));
    expect_ok(hcq_signal_create(box->devs[0], 0, &gate));
    for (d = 0; d < box->n; d++) {
        uint32_t to = next_of(box, d);
        expect_ok(hcq_queue_begin(box->queues[2 * d], &cs));
        if (d == 0)
            hcq_cs_wait(cs, gate, 1);
        args[0] = args[1] = bufs[d]->va;
        hcq_cs_exec(cs, box->add_one[d], args, 3, grid, NULL);
        expect_ok(hcq_cs_submit(cs, NULL));
        expect_ok(hcq_transfer_create(box->queues[2 * to], bufs[d + 1],
                                      box->queues[2 * d], bufs[d], bytes,
                                      &there[d], &here[d], &transfers[d]));
        /* the source may be written to behind it */
        expect_ok(hcq_queue_begin(box->queues[2 * d], &cs));
        hcq_cs_fill(cs, bufs[d]->va, 7, bytes);
        expect_ok(hcq_cs_submit(cs, NULL));
    }
    assert_true(hcq_signal_value(hcq_queue_timeline(box->queues[0])) < here[0]);
    hcq_signal_set(gate, 1);
    for (d = 0; d < box->n; d++) {
        uint32_t to = next_of(box, d);
        if (d % 2)
            expect_ok(hcq_signal_wait(hcq_queue_timeline(box->queues[2 * d]),
                                      here[d], LONG_NS));
        if (d % 2)
            hcq_transfer_release(transfers[d], box->queues[2 * d]);
        expect_ok(hcq_signal_wait(hcq_queue_timeline(box->queues[2 * to]),
                                  there[d], LONG_NS));
        hcq_transfer_release(transfers[d], box->queues[2 * to]);
        if (d % 2 == 0)
            expect_ok(hcq_signal_wait(hcq_queue_timeline(box->queues[2 * d]),
                                      here[d], LONG_NS));
        if (d % 2 == 0)
            hcq_transfer_release(transfers[d], box->queues[2 * d]);
    }
    expect_ok(hcq_buffer_read(bufs[box->n], 0, ints, bytes));
    for (i = 0; i < bytes / 4; i++)
        assert_int_equal(ints[i], i * 3 + (i < SUMMED ? box->n : 0));
    for (d = 0; d < box->n; d++)
        expect_ok(hcq_queue_wait(box->queues[2 * d], LONG_NS));
    for (d = 0; d <= box->n; d++)
        hcq_buffer_destroy(bufs[d]);
    hcq_signal_destroy(gate);
    free(ints);
}

/* ---- steps of the host's ---- */

/* What one device hands to the host, which changes it and hands it back. */
struct exchange {
    struct hcq_graph *graph;
    struct hcq_buffer *x, *y, *z, *out, *in;
    struct hcq_signal *told, *beside, *came;
    uint32_t step; /* slot: the number of the submission */
};

static void
build_exchange(const struct box *box, struct exchange *e)
{
    const uint32_t grid[3] = {1, 1, 1};
    const uint64_t bytes = 4 * SUMMED;
    struct hcq_graph *graph = e->graph = new_graph(box, 0);
    struct hcq_graph_arg x = hcq_graph_memory(e->x->va, bytes, 3);
    struct hcq_graph_arg y = hcq_graph_memory(e->y->va, bytes, 3);
    struct hcq_graph_arg z = hcq_graph_memory(e->z->va, bytes, 3);
    struct hcq_graph_arg out =
        hcq_graph_memory(e->out->va, bytes, HCQ_ACCESS_READ);
    struct hcq_graph_arg in =
        hcq_graph_memory(e->in->va, bytes, HCQ_ACCESS_WRITE);
    struct hcq_graph_arg n = hcq_graph_word(SUMMED), step;
    struct hcq_graph_arg add_x[] = {x, x, n}, add_y[] = {y, y, n};
    struct hcq_graph_arg add_z[] = {z, z, n};

    e->step = hcq_graph_slot(graph, "step", 0);
    step = (struct hcq_graph_arg){HCQ_ACCESS_NONE, e->step, 0, 0};
    hcq_graph_exec(graph, box->add_one[0], add_x, 3, grid, NULL);
    hcq_graph_copy(graph, NULL, &out, &x, bytes);
    hcq_graph_tell(graph, NULL, e->told, &step, &out, 1);
    hcq_graph_await(graph, box->queues[1], e->came, &step, &in, 1);
    hcq_graph_exec(graph, box->add_one[0], add_z, 3, grid, NULL);
    hcq_graph_tell(graph, NULL, e->beside, &step, &z, 1);
    hcq_graph_copy(graph, NULL, &y, &in, bytes);
    hcq_graph_exec(graph, box->add_one[0], add_y, 3, grid, NULL);
    expect_ok(hcq_graph_end(graph));
}

/* The host's part of a submission: what does not need it is done before. */
static void
exchange_one(const struct exchange *e, uint32_t step)
{
    int32_t ints[SUMMED];
    uint32_t i;

    expect_ok(hcq_signal_wait(e->told, step, LONG_NS));
    expect_ok(hcq_signal_wait(e->beside, step, LONG_NS));
    expect_ok(hcq_buffer_read(e->out, 0, ints, sizeof(ints)));
    for (i = 0; i < SUMMED; i++) {
        assert_int_equal(ints[i], (int32_t)(i + step));
        ints[i] *= 2;
    }
    expect_ok(hcq_buffer_write(e->in, 0, ints, sizeof(ints)));
    assert_true(hcq_graph_busy(e->graph));
    hcq_signal_set(e->came, step);
}

static void
try_exchange(const struct box *box)
{
    struct hcq_device *dev = box->devs[0];
    int32_t ints[SUMMED];
    struct exchange e;
    uint32_t i, step;

    expect_ok(hcq_buffer_create(dev, sizeof(ints), 0, &e.x));
    expect_ok(hcq_buffer_create(dev, sizeof(ints), 0, &e.y));
    expect_ok(hcq_buffer_create(dev, sizeof(ints), 0, &e.z));
    expect_ok(
        hcq_buffer_create(dev, sizeof(ints), HCQ_MEM_HOST_VISIBLE, &e.out));
    expect_ok(
        hcq_buffer_create(dev, sizeof(ints), HCQ_MEM_HOST_VISIBLE, &e.in));
    expect_ok(hcq_signal_create(dev, 0, &e.told));
    expect_ok(hcq_signal_create(dev, 0, &e.beside));
    expect_ok(hcq_signal_create(dev, 0, &e.came));
    for (i = 0; i < SUMMED; i++)
        ints[i] = (int32_t)i;
    expect_ok(hcq_buffer_write(e.x, 0, ints, sizeof(ints)));
    build_exchange(box, &e);
    for (step = 1; step < 20; step++) {
        expect_ok(hcq_graph_set(e.graph, e.step, step));
        expect_ok(hcq_graph_submit(e.graph, NULL));
        if (step % 2 == 0) { /* two of them are under way */
            exchange_one(&e, step - 1);
            exchange_one(&e, step);
        }
        if (step == 19)
            exchange_one(&e, step);
    }
    expect_ok(hcq_graph_wait(e.graph, LONG_NS));
    expect_ok(hcq_buffer_read(e.y, 0, ints, sizeof(ints)));
    for (i = 0; i < SUMMED; i++)
        assert_int_equal(ints[i], 2 * (i + 19) + 1);
    hcq_graph_destroy(e.graph);

    e.graph = new_graph(box, 0);
    hcq_graph_tell(e.graph, box->queues[0], NULL, NULL, NULL, 0);
    expect_fails(hcq_graph_end(e.graph), BELL_E_INVALID, "the signal is NULL");
    hcq_graph_destroy(e.graph);
    hcq_signal_destroy(e.told);
    hcq_signal_destroy(e.beside);
    hcq_signal_destroy(e.came);
    hcq_buffer_destroy(e.x);
    hcq_buffer_destroy(e.y);
    hcq_buffer_destroy(e.z);
    hcq_buffer_destroy(e.out);
    hcq_buffer_destroy(e.in);
}

static void
try_box(const char *const *names, uint32_t n)
{
    struct hcq_graph_info info;
    struct box box;
    struct ring ring;

    open_box(&box, names, n);
    make_ring(&box, &ring);
    info = try_fixed(&box, &ring);
    try_homed(&box, &ring, 0, &info);
    try_homed(&box, &ring, HCQ_GRAPH_TRUSTED, &info);
    try_plain(&box, &ring, 0, true);
    try_plain(&box, &ring, HCQ_GRAPH_TRUSTED, true);
    try_plain(&box, &ring, HCQ_GRAPH_TRUSTED, false);
    try_gather(&box);
    try_exchange(&box);
    try_transfers(&box, 4096);
    try_transfers(&box, 300004);
    free_ring(&box, &ring);
    close_box(&box);
}

static void
test_cpu(void **state)
{
    static const char *const names[] = {"CPU", "CPU", "CPU", "CPU"};

    (void)state;
    try_box(names, 4);
}

#if HAVE_NV_SIM
/* Not where a sanitizer has the addresses of the UVM model, nor in a model
 * without peers. */
static bool
are_peers(const char *const *names)
{
    struct hcq_device *devs[2] = {NULL, NULL};
    struct hcq_buffer *buf = NULL, *peer = NULL;
    bool are = hcq_device_open(names[0], &devs[0]) == BELL_OK &&
               hcq_device_open(names[1], &devs[1]) == BELL_OK &&
               hcq_buffer_create(devs[0], 4096, 0, &buf) == BELL_OK &&
               hcq_buffer_create_peer(devs[1], buf, &peer) == BELL_OK;

    hcq_buffer_destroy(peer);
    hcq_buffer_destroy(buf);
    hcq_device_close(devs[1]);
    hcq_device_close(devs[0]);
    return are;
}

static void
try_nv(void)
{
    static const char *const names[] = {"NV:0@sim:sm_90*4", "NV:1@sim:sm_90*4",
                                        "NV:2@sim:sm_90*4", "NV:3@sim:sm_90*4"};

    if (are_peers(names))
        try_box(names, 4);
    else
        skip();
}

static void
test_nv(void **state)
{
    (void)state;
    try_nv();
}

static void
test_nv_uvm(void **state)
{
    (void)state;
    setenv("BELL_NV_VM", "uvm", 1);
    try_nv();
    unsetenv("BELL_NV_VM");
}
#endif

#if HAVE_AMD_SIM
static void
test_amd(void **state)
{
    static const char *const names[] = {
        "AMD:0@sim:gfx942*4", "AMD:1@sim:gfx942*4", "AMD:2@sim:gfx942*4",
        "AMD:3@sim:gfx942*4"};

    (void)state;
    try_box(names, 4);
}
#endif

/* ---- different backends ---- */

#if HAVE_NV_SIM && HAVE_AMD_SIM && HAVE_QCOM_SIM
#define N_MIXED   4u
#define MIXED_BIG (2u * 1048576 + 4096 + 4) /* bytes: several chunks */

struct mixed {
    struct box box;
    struct hcq_buffer *bufs[2][N_MIXED];
    uint32_t slots[N_MIXED];
    struct hcq_graph *graph;
};

/* Around all devices and back: each adds one to the first ints. */
static void
build_mixed(struct mixed *m, uint64_t bytes)
{
    const uint32_t grid[3] = {1, 1, 1};
    struct hcq_graph *graph = m->graph = new_graph(&m->box, 0);
    char name[16];
    uint32_t d;

    for (d = 0; d < N_MIXED; d++) {
        snprintf(name, sizeof(name), "of %u", d);
        m->slots[d] = hcq_graph_slot_on(graph, name, bytes, m->box.devs[d]);
    }
    for (d = 0; d < N_MIXED; d++) {
        uint32_t to = next_of(&m->box, d);
        struct hcq_graph_arg src = hcq_graph_in_slot(m->slots[d], 0, bytes, 0);
        struct hcq_graph_arg dst = hcq_graph_in_slot(m->slots[to], 0, bytes, 0);
        struct hcq_graph_arg args[3] = {
            hcq_graph_in_slot(m->slots[d], 0, 256, HCQ_ACCESS_WRITE),
            hcq_graph_in_slot(m->slots[d], 0, 256, HCQ_ACCESS_READ),
            hcq_graph_word(64)};
        hcq_graph_exec(graph, m->box.add_one[d], args, 3, grid, NULL);
        hcq_graph_move(graph, m->box.devs[to], &dst, m->box.devs[d], &src,
                       bytes);
    }
    expect_ok(hcq_graph_end(graph));
}

static void
run_mixed(struct mixed *m, uint64_t bytes, uint32_t n_runs)
{
    int32_t *ints = malloc(bytes), *seen = malloc(bytes);
    uint32_t run, d, i, n_wrong = 0;

    assert_true(ints && seen);
    for (run = 0; run < n_runs; run++) {
        uint32_t which = run % 2;
        for (i = 0; i < bytes / 4; i++)
            ints[i] = (int32_t)(run * 10000 + i * 7);
        expect_ok(hcq_buffer_write(m->bufs[which][0], 0, ints, bytes));
        for (d = 0; d < N_MIXED; d++)
            expect_ok(hcq_graph_set_buffer(m->graph, m->slots[d],
                                           m->bufs[which][d], 0));
        expect_ok(hcq_graph_submit(m->graph, NULL));
        if (run % 3 == 0)
            expect_ok(hcq_graph_submit(m->graph, NULL)); /* twice as many */
        expect_ok(hcq_graph_wait(m->graph, LONG_NS));
        expect_ok(hcq_buffer_read(m->bufs[which][0], 0, seen, bytes));
        for (i = 0; i < bytes / 4; i++)
            n_wrong +=
                seen[i] != ints[i] + (i < 64 ? (run % 3 == 0 ? 8 : 4) : 0);
    }
    assert_int_equal(n_wrong, 0);
    free(ints);
    free(seen);
}

static void
test_mixed(void **state)
{
    static const char *const names[N_MIXED] = {
        "CPU", "NV@sim:sm_90", "AMD@sim:gfx1100", "QCOM@sim:a740"};
    struct mixed m;
    uint32_t d, k;

    (void)state;
    open_box(&m.box, names, N_MIXED);
    for (d = 0; d < N_MIXED; d++) {
        for (k = 0; k < 2; k++)
            expect_ok(
                hcq_buffer_create(m.box.devs[d], MIXED_BIG, 0, &m.bufs[k][d]));
    }
    build_mixed(&m, 4096);
    run_mixed(&m, 4096, 100);
    hcq_graph_destroy(m.graph);
    build_mixed(&m, MIXED_BIG);
    run_mixed(&m, MIXED_BIG, 4);
    hcq_graph_destroy(m.graph);
    try_exchange(&m.box);
    try_transfers(&m.box, 4096);
    try_transfers(&m.box, 6 * 1048576 + 4);
    close_box(&m.box);
}

/* From the first device to the second, which adds one, and back. */
static bell_status
build_pair(struct mixed *m)
{
    const uint32_t grid[3] = {1, 1, 1};
    const struct hcq_graph_desc desc = {
        .struct_size = sizeof(desc),
        .name = "pair",
        .queues = m->box.queues,
        .n_queues = 2 * m->box.n,
    };
    struct hcq_graph_arg here, there, args[3];
    bell_status status;

    m->graph = NULL;
    status = hcq_graph_create(&desc, &m->graph);
    if (status != BELL_OK)
        return status;
    here = hcq_graph_in_slot(
        hcq_graph_slot_on(m->graph, "here", 256, m->box.devs[0]), 0, 256, 0);
    there = hcq_graph_memory(m->bufs[0][1]->va, 256, 0);
    args[0] = args[1] = there;
    args[0].access = HCQ_ACCESS_WRITE;
    args[1].access = HCQ_ACCESS_READ;
    args[2] = hcq_graph_word(64);
    hcq_graph_move(m->graph, m->box.devs[1], &there, m->box.devs[0], &here,
                   256);
    hcq_graph_exec(m->graph, m->box.add_one[1], args, 3, grid, NULL);
    hcq_graph_move(m->graph, m->box.devs[0], &here, m->box.devs[1], &there,
                   256);
    status = hcq_graph_end(m->graph);
    if (status != BELL_OK) {
        hcq_graph_destroy(m->graph);
        m->graph = NULL;
    }
    return status;
}

static void
open_pair(struct mixed *m, const char *second)
{
    const char *names[2] = {"CPU", second};

    open_box(&m->box, names, 2);
    expect_ok(hcq_buffer_create(m->box.devs[0], 256, 0, &m->bufs[0][0]));
    expect_ok(hcq_buffer_create(m->box.devs[1], 256, 0, &m->bufs[0][1]));
}

/* The n-th allocation fails, alone or with all behind it: nothing is left. */
static void
test_mixed_no_memory(void **state)
{
    struct mixed m;
    int32_t seen = 7;
    bell_status status;
    uint64_t n;
    int once;

    (void)state;
    open_pair(&m, "NV@sim:sm_90");
    for (once = 0; once < 2; once++) {
        for (n = 1;; n++) {
            assert_true(n < 1000);
            host_fail_after(n, once);
            status = build_pair(&m);
            host_fail_after(0, 0);
            if (status == BELL_OK)
                break;
            assert_int_equal(status, BELL_E_NO_MEMORY);
            assert_null(m.graph);
        }
        assert_true(n > 30);
        if (once == 0)
            hcq_graph_destroy(m.graph);
    }
    expect_ok(hcq_buffer_write(m.bufs[0][0], 0, &seen, 4));
    expect_ok(hcq_graph_set_buffer(m.graph, 0, m.bufs[0][0], 0));
    expect_ok(hcq_graph_submit(m.graph, NULL));
    expect_ok(hcq_graph_wait(m.graph, LONG_NS));
    expect_ok(hcq_buffer_read(m.bufs[0][0], 0, &seen, 4));
    assert_int_equal(seen, 8);
    hcq_graph_destroy(m.graph);
    close_box(&m.box);
}

/* A device is lost in between: the graph says which, and the other goes on. */
static void
test_mixed_lost(void **state)
{
    struct hcq_fault fault = {.kind = HCQ_FAULT_STREAM, .text = "lost by hand"};
    struct hcq_signal *gate;
    struct hcq_cs *cs;
    struct mixed m;

    (void)state;
    open_pair(&m, "NV@sim:sm_90");
    expect_ok(build_pair(&m));
    expect_ok(hcq_graph_set_buffer(m.graph, 0, m.bufs[0][0], 0));
    expect_ok(hcq_signal_create(m.box.devs[1], 0, &gate));
    expect_ok(hcq_queue_begin(m.box.queues[2], &cs));
    hcq_cs_wait(cs, gate, 1);
    expect_ok(hcq_cs_submit(cs, NULL));
    expect_ok(hcq_graph_submit(m.graph, NULL));
    expect_fails(hcq_graph_wait(m.graph, HOLD_NS), BELL_E_TIMEOUT,
                 "graph 'pair', after ");
    hcq_device_set_lost(m.box.devs[1], &fault);
    expect_fails(hcq_graph_wait(m.graph, LONG_NS), BELL_E_DEVICE_LOST,
                 "lost by hand");
    expect_ok(hcq_queue_wait(m.box.queues[0], LONG_NS));
    expect_ok(hcq_device_status(m.box.devs[0]));
    hcq_signal_set(gate, 1);
    hcq_graph_destroy(m.graph);
    close_box(&m.box);
}

/* This kernel driver lets a card see none of the host's memory. */
static void
test_mixed_refused(void **state)
{
    struct mixed m;

    (void)state;
    open_pair(&m, "QCOM@sim:a740-msm");
    expect_fails(build_pair(&m), BELL_E_UNSUPPORTED,
                 "graph 'pair': a copy from CPU:0 to QCOM:0@sim:a740-msm "
                 "through host memory: QCOM:0@sim:a740-msm has nothing in "
                 "common with the other devices: ");
    close_box(&m.box);
}
#endif

/* The suite's kernels are for one chip of a kind in a process. */
int
main(int argc, char **argv)
{
    const struct CMUnitTest peers[] = {
        cmocka_unit_test(test_cpu),
#if HAVE_NV_SIM
        cmocka_unit_test(test_nv),
        cmocka_unit_test(test_nv_uvm),
#endif
#if HAVE_AMD_SIM
        cmocka_unit_test(test_amd),
#endif
    };
#if HAVE_NV_SIM && HAVE_AMD_SIM && HAVE_QCOM_SIM
    const struct CMUnitTest mixed[] = {
        cmocka_unit_test(test_mixed),
        cmocka_unit_test(test_mixed_no_memory),
        cmocka_unit_test(test_mixed_lost),
        cmocka_unit_test(test_mixed_refused),
    };

    if (argc > 1 && strcmp(argv[1], "mixed") == 0)
        return cmocka_run_group_tests(mixed, NULL, NULL);
#endif
    (void)argc;
    (void)argv;
    return cmocka_run_group_tests(peers, NULL, NULL);
}
