/* hcq/hcq_graph.c: what a graph takes, and what is refused beside it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/bits.h"
#include "hcq/hcq_graph_internal.h"
#include "tests/unit/expect.h"

#define SLOT_BYTES 256

static struct hcq_device *devs[2];
static struct hcq_queue *queues[3]; /* the last one copies */
static struct hcq_buffer *buf;
static struct hcq_program progs[2]; /* nobody runs them */

static const uint32_t grid[3] = {5, 6, 7};

static int
open_devices(void **state)
{
    int i;

    (void)state;
    for (i = 0; i < 2; i++) {
        expect_ok(hcq_device_open("CPU", &devs[i]));
        expect_ok(hcq_queue_create(devs[i], HCQ_QUEUE_COMPUTE, &queues[i]));
        progs[i].dev = devs[i];
    }
    expect_ok(hcq_queue_create(devs[0], HCQ_QUEUE_COPY, &queues[2]));
    expect_ok(hcq_buffer_create(devs[0], 4096, 0, &buf));
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

static const struct hcq_graph_desc one_queue = {
    .struct_size = sizeof(one_queue),
    .name = "one",
    .queues = queues,
    .n_queues = 1,
};

/* A graph with a slot of memory, 0, and one of a word, 1. */
static struct hcq_graph *
begin(void)
{
    struct hcq_graph *graph;

    expect_ok(hcq_graph_create(&one_queue, &graph));
    assert_int_equal(hcq_graph_slot(graph, "memory", SLOT_BYTES), 0);
    assert_int_equal(hcq_graph_slot(graph, "word", 0), 1);
    return graph;
}

/* The graph was refused something. Nothing more is taken, the error stays. */
static void
expect_broken(struct hcq_graph *graph, bell_status status, const char *part)
{
    struct hcq_graph_arg a = hcq_graph_memory(buf->va, 64, 0);
    size_t n = graph->n_commands, n_args = graph->n_args;

    hcq_graph_fill(graph, NULL, &a, 0, 64);
    hcq_graph_fill(graph, NULL, NULL, 0, 64);
    hcq_graph_copy(graph, NULL, &a, &a, 64);
    hcq_graph_exec(graph, &progs[0], NULL, 0, grid, NULL);
    assert_int_equal(hcq_graph_slot(graph, "more", 1), HCQ_SLOT_NONE);
    assert_int_equal(graph->n_commands, n);
    assert_int_equal(graph->n_args, n_args);
    bell_fail(BELL_E_IO, "something else");
    expect_fails(hcq_graph_end(graph), status, part);
    expect_fails(hcq_graph_end(graph), BELL_E_INVALID, "is not being built");
    hcq_graph_destroy(graph);
}

static void
expect_good(struct hcq_graph *graph)
{
    if (graph->status != BELL_OK)
        fail_msg("%s", graph->error.message);
    hcq_graph_destroy(graph);
}

static void
test_create(void **state)
{
    struct hcq_queue *many[HCQ_GRAPH_QUEUES_MAX + 1] = {queues[0]};
    struct hcq_graph_desc desc = one_queue;
    struct hcq_graph *graph = NULL;
    char name[200];

    (void)state;
    expect_fails(hcq_graph_create(NULL, &graph), BELL_E_INVALID, "no queues");
    expect_fails(hcq_graph_create(&desc, NULL), BELL_E_INVALID, "the result");
    desc.queues = NULL;
    expect_fails(hcq_graph_create(&desc, &graph), BELL_E_INVALID, "no queues");
    desc.queues = queues;
    desc.n_queues = 0;
    expect_fails(hcq_graph_create(&desc, &graph), BELL_E_INVALID, "no queues");
    desc.n_queues = 1;
    desc.struct_size--;
    expect_fails(hcq_graph_create(&desc, &graph), BELL_E_INVALID,
                 "a descriptor of");
    desc.struct_size = sizeof(desc) + 8;
    desc.flags = 2;
    expect_fails(hcq_graph_create(&desc, &graph), BELL_E_INVALID, "flags 0x2");
    desc.flags = HCQ_GRAPH_TRUSTED;
    memset(name, 'n', sizeof(name));
    name[sizeof(name) - 1] = 0;
    desc.name = name;
    expect_ok(hcq_graph_create(&desc, &graph));
    assert_int_equal(graph->flags, HCQ_GRAPH_TRUSTED);
    assert_memory_equal(graph->name, name, sizeof(graph->name) - 1);
    assert_int_equal(graph->name[sizeof(graph->name) - 1], 0);
    hcq_graph_destroy(graph);
    desc.name = NULL;
    desc.n_queues = 3;
    expect_ok(hcq_graph_create(&desc, &graph));
    assert_string_equal(graph->name, "");
    hcq_graph_destroy(graph);
    hcq_graph_destroy(NULL);

    desc.queues = many;
    desc.n_queues = HCQ_GRAPH_QUEUES_MAX + 1;
    expect_fails(hcq_graph_create(&desc, &graph), BELL_E_INVALID,
                 "65 queues, at most 64");
    desc.n_queues = HCQ_GRAPH_QUEUES_MAX;
    expect_fails(hcq_graph_create(&desc, &graph), BELL_E_INVALID,
                 "queue 1 is NULL");
    desc.n_queues = 3;
    many[1] = queues[2];
    many[2] = queues[0]; /* a second one of its kind */
    expect_fails(hcq_graph_create(&desc, &graph), BELL_E_INVALID, "queue 2 is");
    many[2] = queues[1];
    expect_ok(hcq_graph_create(&desc, &graph));
    hcq_graph_destroy(graph);
    many[0] = queues[2];
    many[1] = queues[0];
    expect_fails(hcq_graph_create(&desc, &graph), BELL_E_INVALID, "queue 0 is");
}

static void
test_slots(void **state)
{
    char name[HCQ_NAME_MAX + 1];
    const char *const bad[] = {NULL, "", "memory", "word", name};
    struct hcq_graph *graph;
    size_t i;

    (void)state;
    memset(name, 's', sizeof(name));
    name[sizeof(name) - 1] = 0;
    for (i = 0; i < ARRAY_LEN(bad); i++) {
        graph = begin();
        assert_int_equal(hcq_graph_slot(graph, bad[i], 8), HCQ_SLOT_NONE);
        expect_broken(graph, BELL_E_INVALID,
                      "the name is empty, too long or taken");
    }
    graph = begin();
    assert_int_equal(hcq_graph_slot(graph, name + 1, 8), 2);
    assert_int_equal(hcq_graph_find_slot(graph, name + 1), 2);
    assert_int_equal(hcq_graph_find_slot(graph, "word"), 1);
    assert_int_equal(hcq_graph_find_slot(graph, "memory"), 0);
    assert_int_equal(hcq_graph_find_slot(graph, "wor"), HCQ_SLOT_NONE);
    expect_good(graph);
}

/* A kernel's arguments, where they end and what they are. */
static void
test_args(void **state)
{
    static const struct {
        struct hcq_graph_arg arg;
        bool is_good;
    } rows[] = {
        {{0, HCQ_SLOT_NONE, UINT64_MAX, 0}, true},
        {{0, HCQ_SLOT_NONE, 5, UINT64_MAX}, true}, /* a word has no size */
        {{1, HCQ_SLOT_NONE, UINT64_MAX, 0}, true},
        {{1, HCQ_SLOT_NONE, UINT64_MAX, 1}, false},
        {{2, HCQ_SLOT_NONE, UINT64_MAX - 1, 1}, true},
        {{3, HCQ_SLOT_NONE, 1, UINT64_MAX}, false},
        {{3, HCQ_SLOT_NONE, 1, UINT64_MAX - 1}, true},
        {{4, HCQ_SLOT_NONE, 64, 64}, false},
        {{5, 0, 0, 64}, false},
        {{1, 0, 0, SLOT_BYTES}, true},
        {{1, 0, SLOT_BYTES, 0}, true},
        {{1, 0, 1, SLOT_BYTES}, false},
        {{2, 0, SLOT_BYTES + 1, 0}, false},
        {{3, 0, UINT64_MAX, 1}, false},
        {{3, 0, UINT64_MAX, 2}, false},
        {{0, 0, 0, 0}, false}, /* memory for a word */
        {{0, 1, 9, 0}, true},
        {{1, 1, 0, 0}, false}, /* a word for memory */
        {{2, 1, 0, 0}, false},
        {{0, 2, 0, 0}, false},
        {{1, 2, 0, 0}, false},
        {{1, HCQ_SLOT_NONE - 1, 0, 0}, false},
    };
    uint32_t i;

    (void)state;
    for (i = 0; i < ARRAY_LEN(rows); i++) {
        struct hcq_graph_arg args[2] = {hcq_graph_word(i), rows[i].arg};
        struct hcq_graph *graph = begin();

        if (graph->cap_slots > 2) /* whatever lies there */
            graph->slots[2] = graph->slots[i & 1];
        hcq_graph_exec(graph, &progs[0], args, 2, grid, NULL);
        if (rows[i].is_good != (graph->status == BELL_OK))
            fail_msg("row %u: %s", i, graph->error.message);
        if (!rows[i].is_good) {
            expect_broken(graph, BELL_E_INVALID, "command 0, argument 1: no");
            continue;
        }
        assert_int_equal(graph->n_args, 2);
        assert_memory_equal(graph->args, args, sizeof(args));
        expect_good(graph);
    }
}

static void
test_exec(void **state)
{
    static const uint32_t local[3] = {2, 3, 4};
    struct hcq_graph_arg args[HCQ_ARGS_MAX + 1];
    struct hcq_graph *graph;
    uint32_t i;

    (void)state;
    for (i = 0; i < ARRAY_LEN(args); i++)
        args[i] = hcq_graph_word(i);
    graph = begin();
    hcq_graph_exec(graph, &progs[0], args, HCQ_ARGS_MAX, grid, local);
    hcq_graph_exec(graph, &progs[0], NULL, 0, grid, NULL);
    assert_int_equal(graph->n_commands, 2);
    for (i = 0; i < 2; i++) {
        const struct graph_command *command = &graph->commands[i];
        assert_int_equal(command->kind, GRAPH_EXEC);
        assert_ptr_equal(command->dev, devs[0]);
        assert_ptr_equal(command->prog, &progs[0]);
        assert_int_equal(command->first_arg, i ? HCQ_ARGS_MAX : 0);
        assert_int_equal(command->n_args, i ? 0 : HCQ_ARGS_MAX);
        assert_memory_equal(command->grid, grid, sizeof(grid));
        assert_int_equal(command->has_local, i == 0);
    }
    assert_memory_equal(graph->commands[0].local, local, sizeof(local));
    expect_good(graph);

    graph = begin();
    hcq_graph_exec(graph, &progs[0], args, HCQ_ARGS_MAX + 1, grid, NULL);
    expect_broken(graph, BELL_E_INVALID, "or 129 arguments, more than 128");
    graph = begin();
    hcq_graph_exec(graph, NULL, args, 1, grid, NULL);
    expect_broken(graph, BELL_E_INVALID, "exec 0: no program");
    graph = begin();
    hcq_graph_exec(graph, &progs[0], args, 1, NULL, NULL);
    expect_broken(graph, BELL_E_INVALID, "exec 0: no program");
    graph = begin();
    hcq_graph_exec(graph, &progs[0], NULL, 1, grid, NULL);
    expect_broken(graph, BELL_E_INVALID, "exec 0: no program");
    graph = begin();
    hcq_graph_exec(graph, &progs[1], args, 1, grid, NULL);
    expect_broken(graph, BELL_E_INVALID, "command 0: no compute queue of CPU");
}

/* Kernels go to compute queues alone, transfers to any of the device. */
static void
test_queues(void **state)
{
    struct hcq_queue *list[2] = {queues[1], queues[2]};
    struct hcq_graph_desc desc = one_queue;
    struct hcq_graph_arg a = hcq_graph_memory(buf->va, 64, 0);
    struct hcq_graph *graph;

    (void)state;
    desc.queues = list;
    desc.n_queues = 2;
    expect_ok(hcq_graph_create(&desc, &graph));
    hcq_graph_fill(graph, devs[0], &a, 1, 64);
    hcq_graph_exec(graph, &progs[1], NULL, 0, grid, NULL);
    assert_int_equal(graph->n_commands, 2);
    hcq_graph_exec(graph, &progs[0], NULL, 0, grid, NULL);
    expect_broken(graph, BELL_E_INVALID, "command 2: no compute queue of CPU");
    graph = begin();
    hcq_graph_fill(graph, devs[1], &a, 1, 64);
    expect_broken(graph, BELL_E_INVALID, "command 0: no queue of CPU");
}

static void
test_transfers(void **state)
{
    struct hcq_graph_arg a = hcq_graph_memory(buf->va, 64, 0);
    struct hcq_graph_arg b = hcq_graph_memory(buf->va + 64, 60, 3);
    struct hcq_graph *graph = begin();
    uint32_t i;

    (void)state;
    hcq_graph_copy(graph, NULL, &a, &b, 60);
    hcq_graph_copy(graph, devs[0], &b, &a, 60);
    hcq_graph_fill(graph, NULL, &a, 77, 64);
    assert_int_equal(graph->n_commands, 3);
    assert_int_equal(graph->n_args, 5);
    for (i = 0; i < 3; i++) {
        const struct graph_command *command = &graph->commands[i];
        assert_int_equal(command->kind, i < 2 ? GRAPH_COPY : GRAPH_FILL);
        assert_ptr_equal(command->dev, devs[0]);
        assert_int_equal(command->size_bytes, i < 2 ? 60 : 64);
        assert_int_equal(command->pattern, i < 2 ? 0 : 77);
        assert_int_equal(graph->args[2 * i].access, HCQ_ACCESS_WRITE);
        assert_int_equal(graph->args[2 * i].value, i == 1 ? b.value : a.value);
        if (i < 2) {
            assert_int_equal(graph->args[2 * i + 1].access, HCQ_ACCESS_READ);
            assert_int_equal(graph->args[2 * i + 1].value,
                             i ? a.value : b.value);
        }
    }
    expect_good(graph);
    graph = begin();
    hcq_graph_copy(graph, NULL, &a, &b, 61);
    expect_broken(graph, BELL_E_INVALID, "command 0: 61 bytes, of 64 and 60");
    graph = begin();
    hcq_graph_copy(graph, NULL, &b, &a, 61);
    expect_broken(graph, BELL_E_INVALID, "command 0: 61 bytes, of 60 and 64");
    graph = begin();
    hcq_graph_fill(graph, NULL, &a, 0, 65);
    expect_broken(graph, BELL_E_INVALID, "command 0: 65 bytes, of 64 and 64");
    graph = begin();
    hcq_graph_copy(graph, NULL, NULL, &a, 64);
    expect_broken(graph, BELL_E_INVALID, "copy: dst is NULL");
    graph = begin();
    hcq_graph_copy(graph, NULL, &a, NULL, 64);
    expect_broken(graph, BELL_E_INVALID, "copy: src is NULL");
    graph = begin();
    hcq_graph_fill(graph, NULL, NULL, 0, 64);
    expect_broken(graph, BELL_E_INVALID, "fill: dst is NULL");
}

/* Which fields a word may go to, and how large a size may become. */
static void
test_patches(void **state)
{
    struct hcq_graph_arg a = hcq_graph_memory(buf->va, 64, 0);
    struct hcq_graph_arg b = hcq_graph_memory(buf->va + 64, 48, 0);
    struct hcq_graph *graph;
    unsigned field;

    (void)state;
    graph = begin();
    hcq_graph_patch(graph, HCQ_FIELD_VALUE, 1, 0);
    expect_broken(graph, BELL_E_INVALID, "nothing was added");
    for (field = 0; field <= HCQ_FIELD_ARG + 1; field++) {
        graph = begin();
        hcq_graph_fill(graph, NULL, &a, 0, 64);
        hcq_graph_fill(graph, NULL, &b, 0, 48);
        hcq_graph_patch(graph, field, 1, -3);
        if (field >= HCQ_FIELD_ARG || field == HCQ_FIELD_ADDR ||
            field == HCQ_FIELD_DST || field == HCQ_FIELD_SRC) {
            expect_broken(graph, BELL_E_INVALID, "the field is an address");
            continue;
        }
        assert_int_equal(graph->n_patches, 1);
        assert_int_equal(graph->patches[0].command, 1);
        assert_int_equal(graph->patches[0].field, field);
        assert_int_equal(graph->patches[0].slot, 1);
        assert_int_equal(graph->patches[0].addend, -3);
        assert_int_equal(graph->commands[0].n_patches, 0);
        assert_int_equal(graph->commands[1].n_patches, 1);
        expect_good(graph);
    }
    for (field = 0; field < 3; field += 2) { /* memory; there is none */
        graph = begin();
        hcq_graph_fill(graph, NULL, &a, 0, 64);
        if (graph->cap_slots > 2) /* whatever lies there */
            graph->slots[2] = graph->slots[1];
        hcq_graph_patch(graph, HCQ_FIELD_VALUE, field, 0);
        expect_broken(graph, BELL_E_INVALID, "it is not a slot of a word");
    }
    graph = begin();
    hcq_graph_copy(graph, NULL, &b, &a, 16);
    hcq_graph_patch(graph, HCQ_FIELD_SIZE, 1, 49);
    expect_broken(graph, BELL_E_INVALID, "by slot 'word': 49 bytes and more");
    graph = begin();
    hcq_graph_fill(graph, NULL, &a, 0, 64);
    hcq_graph_patch(graph, HCQ_FIELD_SIZE, 1, -4);
    assert_int_equal(graph->slots[1].max, 68);
    hcq_graph_copy(graph, NULL, &b, &a, 16);
    hcq_graph_patch(graph, HCQ_FIELD_SIZE, 1, 48);
    assert_int_equal(graph->slots[1].max, 0);
    hcq_graph_fill(graph, NULL, &a, 0, 64);
    hcq_graph_patch(graph, HCQ_FIELD_SIZE, 1, 4);
    assert_int_equal(graph->slots[1].max, 0);
    expect_good(graph);
}

/* A built graph takes nothing more, and stays as it is. */
static void
test_built(void **state)
{
    struct hcq_graph_arg a = hcq_graph_memory(buf->va, 64, 0);
    struct hcq_graph_info info = {.struct_size = 12, .n_queues = 99};
    struct hcq_graph *graph = begin();

    (void)state;
    hcq_graph_fill(graph, NULL, &a, 0, 64);
    expect_ok(hcq_graph_end(graph));
    expect_fails(hcq_graph_end(graph), BELL_E_INVALID, "is not being built");
    assert_int_equal(hcq_graph_slot(graph, "late", 8), HCQ_SLOT_NONE);
    assert_string_equal(bell_error_last()->message, "graph 'one' is built");
    hcq_graph_fill(graph, NULL, &a, 0, 64);
    hcq_graph_exec(graph, &progs[0], NULL, 0, grid, NULL);
    hcq_graph_patch(graph, HCQ_FIELD_VALUE, 1, 0);
    hcq_graph_get_info(graph, &info);
    assert_int_equal(info.n_commands, 1);
    assert_int_equal(info.n_slots, 2);
    assert_int_equal(info.n_queues, 99); /* beyond the struct's size */
    hcq_graph_destroy(graph);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_create),  cmocka_unit_test(test_slots),
        cmocka_unit_test(test_args),    cmocka_unit_test(test_exec),
        cmocka_unit_test(test_queues),  cmocka_unit_test(test_transfers),
        cmocka_unit_test(test_patches), cmocka_unit_test(test_built),
    };

    return cmocka_run_group_tests(tests, open_devices, close_devices);
}
