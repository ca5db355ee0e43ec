/* What the host does for a replay of a collective: one submission a queue, and
 * no allocation, lock or call of the kernel on the thread that submits, also
 * where slots are set to other memory. The least time of a submission is
 * printed, and not judged.
 *
 * usage: test_collective_replay [DEVICES N]
 * With devices: those alone, one-shot, as a profiler wants it.
 */
#include "collective_rig.h"

#include <stdlib.h>
#include <string.h>

#include "base/thread.h"
#include "hcq/amd/amd_kfd.h"
#include "hcq/nv/nv.h"
#include "tests/unit/launch_rig.h"

#define N_REPLAYS 200u

static struct kio *
kio_of(struct hcq_device *dev)
{
    if (strcmp(dev->info.backend, "NV") == 0)
        return nv_device_of(dev)->kio;
    if (strcmp(dev->info.backend, "AMD") == 0)
        return amd_device_of(dev)->process->kio;
    return NULL; /* the CPU has none */
}

static void
count_all(struct fleet *rig, bool on)
{
    uint32_t r;

    for (r = 0; r < rig->n; r++) {
        struct kio *kio = kio_of(rig->devs[r]);

        if (!kio || (r > 0 && kio == kio_of(rig->devs[0])))
            continue; /* AMD's devices share one */
        if (on)
            count_kio(kio);
        else
            stop_counting(kio);
    }
}

static uint64_t
submissions(const struct fleet *rig)
{
    uint64_t n = 0;
    uint32_t q;

    for (q = 0; q < rig->n_queues; q++)
        n += hcq_signal_value(hcq_queue_timeline(rig->queues[q]));
    return n;
}

/* Packets that the queues' rings have got: AQL's slots, entries of NVIDIA's; 0:
 * the CPU has none. */
static uint64_t
packets(const struct fleet *rig)
{
    uint64_t n = 0;
    uint32_t q;

    for (q = 0; q < rig->n_queues; q++) {
        if (rig->queues[q]->ring)
            n += rig->queues[q]->ring->slot_put;
    }
    return n;
}

/* The host's own time for a submission: the least of many, while every
 * queue waits for the host, so that no card takes a CPU, or memory out of its
 * caches. The submission before it brings what both share into them. */
static uint64_t
held_ns(struct fleet *rig, struct hcq_graph *graph)
{
    struct hcq_signal *go[2 * RIG_RANKS_MAX];
    uint64_t least_ns = UINT64_MAX, ns;
    struct hcq_cs *cs;
    uint32_t i, q;

    for (q = 0; q < rig->n_queues; q++)
        expect_ok(hcq_signal_create(rig->queues[q]->dev, 0, &go[q]));
    for (i = 1; i <= N_REPLAYS; i++) {
        for (q = 0; q < rig->n_queues; q++) {
            expect_ok(hcq_queue_begin(rig->queues[q], &cs));
            hcq_cs_wait(cs, go[q], i);
            expect_ok(hcq_cs_submit(cs, NULL));
        }
        expect_ok(hcq_graph_submit(graph, NULL));
        ns = time_now_ns();
        expect_ok(hcq_graph_submit(graph, NULL));
        ns = time_now_ns() - ns;
        least_ns = ns < least_ns ? ns : least_ns;
        for (q = 0; q < rig->n_queues; q++)
            hcq_signal_set(go[q], i);
        expect_ok(hcq_graph_wait(graph, RIG_WAIT_NS));
        for (q = 0; q < rig->n_queues; q++)
            expect_ok(hcq_queue_wait(rig->queues[q], RIG_WAIT_NS));
    }
    for (q = 0; q < rig->n_queues; q++)
        hcq_signal_destroy(go[q]);
    return least_ns;
}

/* most: packets of a submission, which each cost a line of memory. */
static void
replay(const char *list, uint32_t n, enum hcq_collective_algorithm by,
       uint64_t count, unsigned slots, uint64_t most)
{
    const struct rig_case c = {.kind = HCQ_COLLECTIVE_ALL_REDUCE,
                               .by = by,
                               .dtype = HCQ_DTYPE_BF16,
                               .count = count,
                               .seed = 5,
                               .slots = slots};
    struct hcq_graph_info info = {.struct_size = sizeof(info)};
    struct hcq_collective *collective;
    struct hcq_graph *graph;
    struct fleet rig;
    uint64_t before, n_packets, held, least_ns = UINT64_MAX;
    uint32_t i;

    rig_open(&rig, list, n, 65536, true);
    rig_build(&rig, &c, &graph, &collective);
    rig_prepare(&rig, &c);
    for (i = 0; i < 2; i++) {
        rig_bind(&rig, &c, graph, collective);
        expect_ok(hcq_graph_submit(graph, NULL));
        expect_ok(hcq_collective_wait(collective, graph, RIG_WAIT_NS));
    }
    if (slots) { /* the other memory, and peers of it */
        rig_swap(&rig);
        rig_prepare(&rig, &c);
        rig_bind(&rig, &c, graph, collective);
    }
    hcq_graph_get_info(graph, &info);
    held = held_ns(&rig, graph);
    before = submissions(&rig);
    n_packets = packets(&rig);
    memset(&counts, 0, sizeof(counts));
    for (i = 0; i < N_REPLAYS; i++) {
        struct counts then;
        uint64_t ns;

        if (slots)
            rig_swap(&rig);
        count_all(&rig, true);
        ns = time_now_ns();
        rig_bind(&rig, &c, graph, collective);
        expect_ok(hcq_graph_submit(graph, NULL));
        ns = time_now_ns() - ns;
        count_all(&rig, false);
        least_ns = ns < least_ns ? ns : least_ns;
        then = counts;
        expect_ok(hcq_collective_wait(collective, graph, RIG_WAIT_NS));
        counts = then;
    }
    if (counts.allocations || counts.locks || counts.calls)
        fail_msg("%s: %u allocations, %u locks, %u calls", list,
                 counts.allocations, counts.locks, counts.calls);
    assert_int_equal(submissions(&rig) - before,
                     (uint64_t)N_REPLAYS * info.n_queues);
    n_packets = packets(&rig) - n_packets;
    assert_true(n_packets <= most * N_REPLAYS * info.n_queues);
    print_message("# %s, %s: %u queues, %u submissions of %u replays, %llu "
                  "packets, %u allocations, %u locks, %u calls; host %llu ns, "
                  "%llu a queue, %llu with cards held\n",
                  list, hcq_collective_algorithm_name(by), info.n_queues,
                  N_REPLAYS * info.n_queues, N_REPLAYS,
                  (unsigned long long)n_packets, counts.allocations,
                  counts.locks, counts.calls, (unsigned long long)least_ns,
                  (unsigned long long)(least_ns / info.n_queues),
                  (unsigned long long)(held / info.n_queues));
    rig_check(&rig, &c, "replays");
    hcq_graph_destroy(graph);
    hcq_collective_destroy(collective);
    rig_close(&rig);
}

static void
test_replays(void **state)
{
    static const struct {
        const char *list;
        uint64_t one_shot, two_shot; /* packets: see replay */
    } sets[] = {
        {"CPU", 0, 0},
        {"NV:*@sim:sm_90*3", 2, 2},
        {"AMD:*@sim:gfx942*3", 5, 9},
    };
    size_t i;

    (void)state;
    for (i = 0; i < sizeof(sets) / sizeof(sets[0]); i++) {
        replay(sets[i].list, 3, HCQ_COLLECTIVE_ONE_SHOT, 3001, 0,
               sets[i].one_shot);
        replay(sets[i].list, 3, HCQ_COLLECTIVE_TWO_SHOT, 3001, 0,
               sets[i].two_shot);
        replay(sets[i].list, 3, HCQ_COLLECTIVE_TWO_SHOT, 3001,
               RIG_IN_SLOTS | RIG_OUT_SLOTS, sets[i].two_shot);
    }
    replay("NV:*@sim:h100*8", 8, HCQ_COLLECTIVE_ONE_SHOT, 512, 0, 2);
    replay("AMD:*@sim:mi300x*8", 8, HCQ_COLLECTIVE_ONE_SHOT, 512, 0, 5);
}

/* The counters do count. */
static void
counters_count(void **state)
{
    struct fleet rig;

    (void)state;
    memset(&counts, 0, sizeof(counts));
    rig_open(&rig, "NV:*@sim:sm_90*3", 3, 4096, false);
    assert_true(counts.allocations > 10 && counts.locks > 10);
    rig_close(&rig);
}

int
main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(counters_count),
        cmocka_unit_test(test_replays),
    };

    if (argc == 3) {
        uint32_t n = (uint32_t)atoi(argv[2]);

        replay(argv[1], n, HCQ_COLLECTIVE_ONE_SHOT, 512, 0,
               UINT64_MAX / N_REPLAYS / (2 * n));
        return 0;
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
