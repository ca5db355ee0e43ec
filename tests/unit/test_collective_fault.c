/* Collectives one of whose devices is lost, hangs, or whose kernel refuses
 * calls: the message names device, command and collective, the others go
 * on and stay usable, nothing is kept.
 */
#include "collective_rig.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/unit/expect.h"
#include "tests/unit/sim_kept.h"

#define N       3u
#define BAD_VA  0xdead000000ull
#define LOST    1u /* the rank that goes wrong */
#define SOON_NS (50ull * 1000000)

static const char *const sets[] = {
    "CPU",
    "NV:*@sim:sm_90*3",
    "AMD:*@sim:gfx942*3",
};
#define N_SETS (sizeof(sets) / sizeof(sets[0]))

static const struct rig_case first_case = {
    .kind = HCQ_COLLECTIVE_ALL_REDUCE,
    .by = HCQ_COLLECTIVE_TWO_SHOT,
    .dtype = HCQ_DTYPE_F32,
    .count = 501,
    .seed = 7,
};

static void
run_right(struct fleet *rig, struct hcq_graph *graph,
          struct hcq_collective *collective, uint64_t seed)
{
    struct rig_case c = first_case;

    c.seed = seed;
    rig_prepare(rig, &c);
    expect_ok(hcq_graph_submit(graph, NULL));
    expect_ok(hcq_collective_wait(collective, graph, RIG_WAIT_NS));
    rig_check(rig, &c, "after it");
}

/* The rank and its device, as messages have it. */
static void
expect_named(const struct fleet *rig, uint32_t rank, const char *what)
{
    char part[HCQ_NAME_MAX + 64];

    snprintf(part, sizeof(part), "rank %u (%s) %s", rank,
             hcq_device_name(rig->devs[rank]), what);
    if (!strstr(bell_error_last()->message, part))
        fail_msg("\"%s\" is not in \"%s\"", part, bell_error_last()->message);
    if (!strstr(bell_error_last()->message,
                "test: all-reduce of 3 x 501 float32, two-shot"))
        fail_msg("no collective in \"%s\"", bell_error_last()->message);
}

/* Between two collectives a device copies from where nothing is. On AMD's cards
 * the process is then done with that card: docs/hardware/amd-kernel.md. */
static void
build_bad(struct fleet *rig, struct hcq_graph **out_graph,
          struct hcq_collective *out[2])
{
    const struct hcq_graph_desc graph_desc = {.struct_size = sizeof(graph_desc),
                                              .name = "step",
                                              .queues = rig->queues,
                                              .n_queues = rig->n_queues};
    struct hcq_collective_rank ranks[RIG_RANKS_MAX];
    struct hcq_collective_desc desc;
    struct hcq_graph_arg to, from;

    rig_describe(rig, &first_case, ranks, &desc);
    expect_ok(hcq_graph_create(&graph_desc, out_graph));
    expect_ok(hcq_collective_add(*out_graph, &desc, &out[0]));
    to = hcq_graph_memory(rig->out[LOST]->va, 64, HCQ_ACCESS_WRITE);
    from = hcq_graph_memory(BAD_VA, 64, HCQ_ACCESS_READ);
    hcq_graph_copy(*out_graph, rig->devs[LOST], &to, &from, 64);
    expect_ok(hcq_collective_add(*out_graph, &desc, &out[1]));
    expect_ok(hcq_graph_end(*out_graph));
}

static void
lose_one(const char *list)
{
    struct hcq_collective *collectives[2], *collective;
    struct hcq_graph *graph;
    struct hcq_fault fault;
    uint64_t live[2], kept;
    struct fleet rig;
    bool is_back;
    uint32_t r;

    rig_open(&rig, list, N, 8192, false);
    rig_build(&rig, &first_case, &graph, &collective);
    run_right(&rig, graph, collective, 1);
    hcq_graph_destroy(graph);
    hcq_collective_destroy(collective);
    hcq_memory_usage(rig.devs[0], &live[0], &kept);
    build_bad(&rig, &graph, collectives);
    expect_ok(hcq_graph_submit(graph, NULL));
    assert_int_equal(hcq_collective_wait(collectives[1], graph, RIG_WAIT_NS),
                     BELL_E_DEVICE_LOST);
    expect_named(&rig, LOST, "is lost");
    hcq_device_fault(rig.devs[LOST], &fault);
    assert_int_equal(fault.kind, HCQ_FAULT_MEMORY);
    print_message("# %s\n", bell_error_last()->message);
    for (r = 0; r < N; r++) {
        if (r == LOST)
            continue;
        expect_ok(hcq_device_synchronize(rig.devs[r], RIG_WAIT_NS));
        expect_ok(hcq_device_status(rig.devs[r]));
    }
    is_back = hcq_device_recover(rig.devs[LOST]) == BELL_OK;
    assert_true(is_back || strncmp(list, "AMD", 3) == 0);
    hcq_graph_destroy(graph);
    hcq_collective_destroy(collectives[0]);
    hcq_collective_destroy(collectives[1]);
    hcq_memory_usage(rig.devs[0], &live[1], &kept);
    assert_int_equal(live[1], live[0]);
    if (is_back) {
        rig_build(&rig, &first_case, &graph, &collective);
        run_right(&rig, graph, collective, 2);
        hcq_graph_destroy(graph);
        hcq_collective_destroy(collective);
    }
    rig_close(&rig);
    expect_kept();
}

static void
test_lost(void **state)
{
    size_t i;

    (void)state;
    for (i = 0; i < N_SETS; i++)
        lose_one(sets[i]);
}

/* The device waits for what never comes, then is recovered: its part is
 * dropped. The graph is submitted again as it is. */
static void
hang_one(const char *list)
{
    struct hcq_collective *collective;
    struct hcq_signal *never;
    struct hcq_graph *graph;
    struct hcq_cs *cs;
    struct fleet rig;
    uint32_t r, tries;

    rig_open(&rig, list, N, 8192, false);
    rig_build(&rig, &first_case, &graph, &collective);
    run_right(&rig, graph, collective, 1);
    expect_ok(hcq_signal_create(rig.devs[LOST], 0, &never));
    expect_ok(hcq_queue_begin(rig.queues[LOST], &cs));
    hcq_cs_wait(cs, never, 1);
    expect_ok(hcq_cs_submit(cs, NULL));
    expect_ok(hcq_graph_submit(graph, NULL));
    for (tries = 0; tries < 1000; tries++) { /* until another one has come */
        assert_int_equal(hcq_collective_wait(collective, graph, SOON_NS),
                         BELL_E_TIMEOUT);
        if (strstr(bell_error_last()->message, "waits for rank 1"))
            break;
    }
    expect_named(&rig, LOST, "has not done command ");
    print_message("# %s\n", bell_error_last()->message);
    expect_ok(hcq_device_recover(rig.devs[LOST]));
    for (r = 0; r < N; r++) {
        (void)!hcq_graph_wait(graph, RIG_WAIT_NS);
        expect_ok(hcq_device_synchronize(rig.devs[r], RIG_WAIT_NS));
    }
    run_right(&rig, graph, collective, 2);
    hcq_graph_destroy(graph);
    hcq_collective_destroy(collective);
    hcq_signal_destroy(never);
    rig_close(&rig);
}

static void
test_hung(void **state)
{
    size_t i;

    (void)state;
    for (i = 0; i < N_SETS; i++)
        hang_one(sets[i]);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_hung),
        cmocka_unit_test(test_lost),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
