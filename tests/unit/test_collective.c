/* Collectives on a set of devices, against plain loops: every kind, algorithm
 * and dtype, sizes, offsets and roots, in place and not. All bytes are
 * compared, those around the results too; and, where cards count, what each
 * moved.
 *
 * usage: test_collective DEVICES N...
 * DEVICES as rig_open takes them; N: how many.
 */
#include "collective_moved.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/unit/expect.h"

#define LARGE_BYTES (1u << 20)
#define MANY        16 /* with more ranks test_many alone is run */

static const char *devices = "CPU";
static uint32_t n_devices[4], n_sets;

/* Twice, as a graph is for; with slots, in other memory each time. */
static void
run_case(struct fleet *rig, const struct rig_case *c)
{
    struct hcq_collective *collective;
    struct hcq_graph *graph;
    struct rig_case again = *c;
    struct rig_moved before;
    int i;

    rig_build(rig, c, &graph, &collective);
    for (i = 0; i < (c->slots ? 3 : 2); i++) {
        again.seed += (uint64_t)i;
        /* inputs alone, then all: a fixed side has one memory */
        if (i && c->slots == (RIG_IN_SLOTS | RIG_OUT_SLOTS))
            rig_swap(rig);
        rig_prepare(rig, &again);
        rig_bind(rig, c, graph, collective);
        rig_count_moved(rig, &before);
        expect_ok(hcq_graph_submit(graph, NULL));
        expect_ok(hcq_collective_wait(collective, graph, RIG_WAIT_NS));
        rig_check_moved(rig, c, collective, &before);
        rig_check(rig, &again, i ? "again" : "once");
    }
    hcq_graph_destroy(graph);
    hcq_collective_destroy(collective);
}

static void
run_algorithms(struct fleet *rig, struct rig_case *c)
{
    unsigned by;

    for (by = HCQ_COLLECTIVE_ONE_SHOT; by < HCQ_COLLECTIVE_ALGORITHM_COUNT;
         by++) {
        c->by = (enum hcq_collective_algorithm)by;
        c->seed++;
        if (rig_can(rig, c))
            run_case(rig, c);
    }
}

/* All dtypes of both sums; the other kinds only move bytes. */
static void
sweep_dtypes(struct fleet *rig)
{
    struct rig_case c = {.count = 333, .seed = 1};
    enum hcq_dtype dtype;

    for (dtype = 0; dtype < HCQ_DTYPE_COUNT; dtype++) {
        if (rig_lacks(rig, dtype)) {
            print_message("# no %s: %s\n", hcq_dtype_name(dtype),
                          bell_error_last()->message);
            continue;
        }
        c.dtype = dtype;
        c.kind = HCQ_COLLECTIVE_ALL_REDUCE;
        run_algorithms(rig, &c);
        c.kind = HCQ_COLLECTIVE_REDUCE_SCATTER;
        run_algorithms(rig, &c);
    }
}

static void
sweep_kinds(struct fleet *rig)
{
    static const uint64_t counts[] = {0, 1, 67, 2003};
    struct rig_case c = {.seed = 100};
    enum hcq_collective_kind kind;
    size_t i;

    for (kind = 0; kind < HCQ_COLLECTIVE_KIND_COUNT; kind++) {
        /* fewer of them for many devices, which take longer */
        for (i = rig->n > 4 ? 2 : 0; i < sizeof(counts) / sizeof(counts[0]);
             i++) {
            c.kind = kind;
            c.count = counts[i];
            c.dtype = i % 2 ? HCQ_DTYPE_F32 : HCQ_DTYPE_BF16;
            c.root = (uint32_t)i % rig->n;
            c.target = (c.root + 1) % rig->n;
            c.offset = i % 3 * 4;
            c.in_place = false;
            run_algorithms(rig, &c);
            c.in_place = kind != HCQ_COLLECTIVE_ALL_TO_ALL &&
                         kind != HCQ_COLLECTIVE_SEND;
            c.root = (c.root + 2) % rig->n;
            if (c.in_place)
                run_algorithms(rig, &c);
        }
    }
}

/* Bytes at odd addresses, which sums do not take. */
static void
sweep_odd(struct fleet *rig)
{
    struct rig_case c = {.kind = HCQ_COLLECTIVE_ALL_GATHER,
                         .dtype = HCQ_DTYPE_U8,
                         .count = 1001,
                         .offset = 3,
                         .seed = 200};

    run_algorithms(rig, &c);
    c.kind = HCQ_COLLECTIVE_ALL_REDUCE;
    run_algorithms(rig, &c);
    c.kind = HCQ_COLLECTIVE_BROADCAST;
    c.dtype = HCQ_DTYPE_I64;
    run_algorithms(rig, &c);
}

/* Large enough for several chunks of a ring, and for copy queues. The last one
 * is as the model chooses. */
static void
sweep_large(struct fleet *rig)
{
    struct rig_case c = {.kind = HCQ_COLLECTIVE_ALL_REDUCE,
                         .dtype = HCQ_DTYPE_F32,
                         .count = (LARGE_BYTES >> (rig->n > 4 ? 4 : 2)) - 5,
                         .in_place = true,
                         .seed = 300};

    run_algorithms(rig, &c);
    c.kind = HCQ_COLLECTIVE_ALL_GATHER;
    c.count /= rig->n;
    run_algorithms(rig, &c);
    c.kind = HCQ_COLLECTIVE_REDUCE_SCATTER;
    c.dtype = HCQ_DTYPE_F16;
    c.by = HCQ_COLLECTIVE_AUTO;
    run_case(rig, &c);
}

/* Sides that get their memory for each submission. */
static void
sweep_slots(struct fleet *rig)
{
    struct rig_case c = {.dtype = HCQ_DTYPE_BF16, .seed = 400};
    enum hcq_collective_kind kind;

    for (kind = 0; kind < HCQ_COLLECTIVE_KIND_COUNT; kind++) {
        c.kind = kind;
        c.count = kind % 2 ? 67 : 1003;
        c.root = kind % rig->n;
        c.target = (c.root + 1) % rig->n;
        c.offset = kind % 3 * 4;
        c.in_place = false;
        c.slots = RIG_IN_SLOTS | RIG_OUT_SLOTS;
        if (rig->n > 3) { /* which take longer */
            c.by = HCQ_COLLECTIVE_AUTO;
            run_case(rig, &c);
            continue;
        }
        run_algorithms(rig, &c);
        c.in_place =
            kind != HCQ_COLLECTIVE_ALL_TO_ALL && kind != HCQ_COLLECTIVE_SEND;
        if (c.in_place)
            run_algorithms(rig, &c);
        c.in_place = false;
        c.by = HCQ_COLLECTIVE_AUTO;
        for (c.slots = RIG_IN_SLOTS; c.slots <= RIG_OUT_SLOTS; c.slots++)
            run_case(rig, &c);
    }
}

/* More ranks than devices that a box has: each kind and algorithm once, sides
 * in slots and not. */
static void
sweep_many(struct fleet *rig)
{
    struct rig_case c = {.dtype = HCQ_DTYPE_BF16, .seed = 500};
    enum hcq_collective_kind kind;

    for (kind = 0; kind < HCQ_COLLECTIVE_KIND_COUNT; kind++) {
        c.kind = kind;
        c.count = 1201 / (kind == HCQ_COLLECTIVE_ALL_REDUCE ? 1 : rig->n);
        c.root = kind % rig->n;
        c.target = rig->n - 1;
        c.slots = kind % 2 ? RIG_IN_SLOTS | RIG_OUT_SLOTS : 0;
        run_algorithms(rig, &c);
    }
}

static void
sweep(void (*fn)(struct fleet *rig), uint64_t most_bytes, bool copy_queues)
{
    struct fleet rig;
    uint32_t i;

    for (i = 0; i < n_sets; i++) {
        if ((n_devices[i] > MANY) != (fn == sweep_many))
            continue;
        rig_open(&rig, devices, n_devices[i],
                 most_bytes == LARGE_BYTES ? most_bytes
                                           : most_bytes * n_devices[i],
                 copy_queues);
        fn(&rig);
        rig_close(&rig);
    }
}

static void
test_dtypes(void **state)
{
    (void)state;
    sweep(sweep_dtypes, 333 * 8, false);
}

static void
test_kinds(void **state)
{
    (void)state;
    sweep(sweep_kinds, 2003 * 4, false);
}

static void
test_odd(void **state)
{
    (void)state;
    sweep(sweep_odd, 1001 * 8, false);
}

static void
test_slots(void **state)
{
    (void)state;
    sweep(sweep_slots, 1003 * 2, true);
}

static void
test_many(void **state)
{
    (void)state;
    sweep(sweep_many, 1201 * 2, false);
}

static void
test_large(void **state)
{
    (void)state;
    sweep(sweep_large, LARGE_BYTES, true);
}

int
main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_dtypes), cmocka_unit_test(test_kinds),
        cmocka_unit_test(test_odd),    cmocka_unit_test(test_slots),
        cmocka_unit_test(test_many),   cmocka_unit_test(test_large),
    };
    int i;

    if (argc > 1)
        devices = argv[1];
    for (i = 2; i < argc && n_sets < 4; i++)
        n_devices[n_sets++] = (uint32_t)atoi(argv[i]);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
