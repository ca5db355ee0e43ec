/* Collectives one of whose devices is lost, hangs, or whose kernel refuses
 * calls: the message names device, command and collective, the others go
 * on and stay usable, nothing is kept.
 *
 * usage: test_collective_fault [every]
 * every: each call of the kernel fails in turn, not some of them.
 */
#include "collective_numbers.h"
#include "collective_rig.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sim/nv/sim_nv.h"
#include "tests/unit/expect.h"
#include "tests/unit/sanitized.h"
#include "tests/unit/sim_kept.h"
#include "tests/unit/usage.h"

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

/* Between two collectives devices, bits of their ranks, copy from where nothing
 * is. On AMD's cards the process is then done with that card:
 * docs/hardware/amd-kernel.md. */
static void
build_bad(struct fleet *rig, uint32_t bad_ranks, struct hcq_graph **out_graph,
          struct hcq_collective *out[2])
{
    const struct hcq_graph_desc graph_desc = {.struct_size = sizeof(graph_desc),
                                              .name = "step",
                                              .queues = rig->queues,
                                              .n_queues = rig->n_queues};
    struct hcq_collective_rank ranks[RIG_RANKS_MAX];
    struct hcq_collective_desc desc;
    struct hcq_graph_arg to, from;
    uint32_t r;

    rig_describe(rig, &first_case, ranks, &desc);
    expect_ok(hcq_graph_create(&graph_desc, out_graph));
    expect_ok(hcq_collective_add(*out_graph, &desc, &out[0]));
    from = hcq_graph_memory(BAD_VA, 64, HCQ_ACCESS_READ);
    for (r = 0; r < N; r++) {
        to = hcq_graph_memory(rig->out[r]->va, 64, HCQ_ACCESS_WRITE);
        if (bad_ranks >> r & 1)
            hcq_graph_copy(*out_graph, rig->devs[r], &to, &from, 64);
    }
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
    build_bad(&rig, 1u << LOST, &graph, collectives);
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

/* All are lost at about the same time, and known to be as soon as the graph is
 * gone. */
static void
expect_all_lost(struct fleet *rig, struct hcq_graph *graph, bell_status status,
                enum hcq_fault_kind kind)
{
    struct hcq_fault fault;
    uint32_t r;

    assert_int_equal(status, BELL_E_DEVICE_LOST);
    print_message("# %s\n", bell_error_last()->message);
    assert_non_null(strstr(bell_error_last()->message, "is lost"));
    hcq_graph_destroy(graph);
    for (r = 0; r < N; r++) {
        assert_int_equal(hcq_device_status(rig->devs[r]), BELL_E_DEVICE_LOST);
        hcq_device_fault(rig->devs[r], &fault);
        assert_int_equal(fault.kind, kind);
    }
}

static void
lose_all(const char *list)
{
    struct hcq_collective *collectives[2];
    struct hcq_graph *graph;
    struct fleet rig;

    rig_open(&rig, list, N, 8192, false);
    build_bad(&rig, (1u << N) - 1, &graph, collectives);
    expect_ok(hcq_graph_submit(graph, NULL));
    expect_all_lost(&rig, graph,
                    hcq_collective_wait(collectives[1], graph, RIG_WAIT_NS),
                    HCQ_FAULT_MEMORY);
    hcq_collective_destroy(collectives[0]);
    hcq_collective_destroy(collectives[1]);
    rig_close(&rig);
    expect_kept();
}

/* The cards reset themselves in the middle: their memory is lost, and the
 * process may use them no more. The kernel's event names the last one alone. */
static void
reset_all(const char *list)
{
    struct hcq_collective *collective;
    bell_status status = BELL_OK;
    struct hcq_graph *graph;
    struct fleet rig;
    uint32_t i;

    rig_open(&rig, list, N, 8192, false);
    rig_build(&rig, &first_case, &graph, &collective);
    for (i = 0; i < 100 && status == BELL_OK; i++) {
        expect_ok(hcq_graph_submit(graph, NULL));
        status = hcq_collective_wait(collective, graph, RIG_WAIT_NS);
    }
    expect_all_lost(&rig, graph, status, HCQ_FAULT_RESET);
    hcq_collective_destroy(collective);
    rig_close(&rig);
    expect_kept();
}

static void
test_several(void **state)
{
    (void)state;
    reset_all("AMD:*@sim:gfx942*3,reset=4");
    lose_all("NV:*@sim:sm_90*3");
    lose_all("NV:0@sim:sm_90*2,AMD:0@sim:gfx942,NV:1@sim:sm_90*2");
}

/* ---- calls of the kernel that fail --------------------------------------- */

#define GOOD_ENOUGH 12u /* in a row without an error: none is left to fail */
#define CALLS_MAX   3000u
#define STEP        (IS_SANITIZED ? 29u : 3u)
#define HEAP_MAPS   4u

#define ELEMS   64u
#define N_STEPS 2u

/* What a program that trains has of two devices: each gets inputs from the
 * host, makes gradients of them and the weights, sums those of both, and adds
 * the sum to its weights. */
struct life {
    struct hcq_device *devs[2];
    struct hcq_queue *queues[2];
    struct hcq_buffer *inputs[2], *fresh[2]; /* the host's; the device's */
    struct hcq_buffer *weights[2], *grads[2];
    struct tensor_sums *sums;
    struct hcq_graph *graph;
    struct hcq_collective *collective;
    enum hcq_collective_algorithm by;
    uint32_t bad_rank; /* its device reads where nothing is; 2: none does */
    uint32_t bad_at;   /* before that command of it */
};

static struct hcq_graph_arg
whole(const struct hcq_buffer *buf, uint32_t access)
{
    return hcq_graph_memory(buf->va, ELEMS * 4, access);
}

/* The bad command, where it stands before the rank's command `at`. */
static void
add_bad(struct life *l, uint32_t rank, uint32_t at)
{
    struct hcq_graph_arg to = whole(l->fresh[rank], HCQ_ACCESS_WRITE);
    struct hcq_graph_arg from = hcq_graph_memory(BAD_VA, 64, HCQ_ACCESS_READ);

    if (l->bad_rank == rank && l->bad_at == at)
        hcq_graph_copy(l->graph, l->devs[rank], &to, &from, 64);
}

/* out = a + b */
static bell_status
add_sum_of(struct life *l, uint32_t rank, const struct hcq_buffer *out,
           const struct hcq_buffer *a, const struct hcq_buffer *b)
{
    const struct hcq_sum_kernel kernel = {.dtype = HCQ_DTYPE_I32, .n_terms = 2};
    struct hcq_graph_arg args[4] = {
        whole(out, HCQ_ACCESS_WRITE), whole(a, HCQ_ACCESS_READ),
        whole(b, HCQ_ACCESS_READ), hcq_graph_word(ELEMS)};
    struct hcq_sum_program program;
    uint32_t grid[3] = {1, 1, 1};

    BELL_TRY(tensor_sums_get(l->sums, l->devs[rank], &kernel, &program));
    grid[0] = (ELEMS + program.group_elems - 1) / program.group_elems;
    hcq_graph_exec(l->graph, program.prog, args, 4, grid,
                   program.local[0] ? program.local : NULL);
    return BELL_OK;
}

static bell_status
open_rank(struct life *l, const char *name, uint32_t r)
{
    uint32_t zeros[ELEMS] = {0};

    BELL_TRY(hcq_device_open(name, &l->devs[r]));
    BELL_TRY(hcq_queue_create(l->devs[r], HCQ_QUEUE_COMPUTE, &l->queues[r]));
    BELL_TRY(hcq_buffer_create(l->devs[r], ELEMS * 4, HCQ_MEM_HOST_VISIBLE,
                               &l->inputs[r]));
    BELL_TRY(hcq_buffer_create(l->devs[r], ELEMS * 4, 0, &l->fresh[r]));
    BELL_TRY(hcq_buffer_create(l->devs[r], ELEMS * 4, 0, &l->weights[r]));
    BELL_TRY(hcq_buffer_create(l->devs[r], ELEMS * 4, 0, &l->grads[r]));
    return hcq_buffer_write(l->weights[r], 0, zeros, sizeof(zeros));
}

static bell_status
build_step(struct life *l)
{
    const struct hcq_graph_desc graph_desc = {
        .struct_size = sizeof(graph_desc), .queues = l->queues, .n_queues = 2};
    struct hcq_collective_rank ranks[2];
    const struct hcq_collective_desc desc = {
        .struct_size = sizeof(desc),
        .algorithm = l->by,
        .dtype = HCQ_DTYPE_I32,
        .name = "gradients",
        .count = ELEMS,
        .ranks = ranks,
        .n_ranks = 2,
        .get_program = tensor_sums_get,
        .user = l->sums,
    };
    uint32_t r;

    BELL_TRY(hcq_graph_create(&graph_desc, &l->graph));
    for (r = 0; r < 2; r++) {
        struct hcq_graph_arg to = whole(l->fresh[r], HCQ_ACCESS_WRITE);
        struct hcq_graph_arg from = whole(l->inputs[r], HCQ_ACCESS_READ);

        ranks[r] = (struct hcq_collective_rank){
            .dev = l->devs[r], .in = l->grads[r], .out = l->grads[r]};
        add_bad(l, r, 0);
        hcq_graph_copy(l->graph, l->devs[r], &to, &from, ELEMS * 4);
        add_bad(l, r, 1);
        BELL_TRY(add_sum_of(l, r, l->grads[r], l->fresh[r], l->weights[r]));
        add_bad(l, r, 2);
    }
    BELL_TRY(hcq_collective_add(l->graph, &desc, &l->collective));
    for (r = 0; r < 2; r++) {
        add_bad(l, r, 3);
        BELL_TRY(add_sum_of(l, r, l->weights[r], l->weights[r], l->grads[r]));
    }
    return hcq_graph_end(l->graph);
}

/* Weights are w + 3 i + 2 w after a step: 0, 3 i, 12 i. */
static bell_status
live(struct life *l, const char *const names[2], bool *out_right)
{
    uint32_t words[ELEMS], r, i, k, want = 0;

    *out_right = true;
    BELL_TRY(tensor_sums_create(&l->sums));
    for (r = 0; r < 2; r++)
        BELL_TRY(open_rank(l, names[r], r));
    BELL_TRY(build_step(l));
    for (k = 0; k < N_STEPS; k++) {
        for (r = 0; r < 2; r++) {
            for (i = 0; i < ELEMS; i++)
                words[i] = (r + 1) * i;
            BELL_TRY(hcq_buffer_write(l->inputs[r], 0, words, sizeof(words)));
        }
        BELL_TRY(hcq_graph_submit(l->graph, NULL));
        BELL_TRY(hcq_collective_wait(l->collective, l->graph, RIG_WAIT_NS));
        want = 3 * want + 3;
    }
    for (r = 0; r < 2; r++) {
        BELL_TRY(hcq_buffer_read(l->weights[r], 0, words, sizeof(words)));
        for (i = 0; i < ELEMS; i++)
            *out_right &= words[i] == want * i;
    }
    return BELL_OK;
}

static void
end_life(struct life *l)
{
    int r;

    hcq_graph_destroy(l->graph);
    hcq_collective_destroy(l->collective);
    tensor_sums_destroy(l->sums);
    for (r = 0; r < 2; r++) {
        hcq_buffer_destroy(l->inputs[r]);
        hcq_buffer_destroy(l->fresh[r]);
        hcq_buffer_destroy(l->weights[r]);
        hcq_buffer_destroy(l->grads[r]);
        hcq_queue_destroy(l->queues[r]);
    }
    hcq_device_close(l->devs[0]);
    hcq_device_close(l->devs[1]);
}

static unsigned step = STEP;

/* The n-th call of each device's own fails, alone or with all behind it. */
static void
fail_calls(const char *backend, const char *box, const char *plus,
           enum hcq_collective_algorithm by)
{
    unsigned n, n_good = 0, n_bad = 0;
    struct usage before = {0, 0};
    char names[2][96];
    const char *list[2] = {names[0], names[1]};

    for (n = 1; n_good < GOOD_ENOUGH; n += n_good ? 1 : step) {
        struct life life = {.by = by, .bad_rank = 2};
        bell_status status;
        bool right;
        int r;

        assert_true(n < CALLS_MAX);
        for (r = 0; r < 2; r++)
            snprintf(names[r], sizeof(names[r]),
                     "%s:%d@fault:any:%u%s=EIO@sim:%s", backend, r, n, plus,
                     box);
        bell_error_clear();
        status = live(&life, list, &right);
        if (status != BELL_OK &&
            !strstr(bell_error_last()->message, "planned for call "))
            fail_msg("%s: told: %s", names[0], bell_error_last()->message);
        assert_true(right);
        end_life(&life);
        if (sim_nv_machine_exists())
            fail_msg("%s: the simulated machine is still there", names[0]);
        expect_kept();
        n_good = status == BELL_OK ? n_good + 1 : 0;
        n_bad += status != BELL_OK;
        if (n_bad == 3 && status != BELL_OK)
            before = usage_now();
    }
    assert_true(n_bad > 3);
    usage_expect(before, n_bad / 2 + HEAP_MAPS, names[0]);
    print_message("# %s%s: %u of %u runs failed\n", box, plus, n_bad, n);
}

static void
test_calls(void **state)
{
    (void)state;
    fail_calls("NV", "h100*2", "+", HCQ_COLLECTIVE_TWO_SHOT);
    fail_calls("NV", "h100*2", "", HCQ_COLLECTIVE_TWO_SHOT);
    fail_calls("NV", "h100*2", "+", HCQ_COLLECTIVE_NVLS);
    fail_calls("NV", "h100*2", "", HCQ_COLLECTIVE_NVLS);
    fail_calls("AMD", "gfx942*2", "+", HCQ_COLLECTIVE_TWO_SHOT);
    fail_calls("AMD", "gfx942*2", "", HCQ_COLLECTIVE_TWO_SHOT);
}

/* ---- devices that are lost in the middle --------------------------------- */

#define N_KILLS (IS_SANITIZED ? 8u : 24u)

/* The step ends with the device's name and a cause, and leaves nothing. */
static void
kill_one(const char *const names[2], uint32_t bad_rank, uint32_t bad_at)
{
    struct life life = {
        .by = HCQ_COLLECTIVE_TWO_SHOT, .bad_rank = bad_rank, .bad_at = bad_at};
    struct hcq_fault fault;
    uint32_t r, n_lost = 0;
    bell_status status;
    bool right;

    bell_error_clear();
    status = live(&life, names, &right);
    if (status != BELL_E_DEVICE_LOST)
        fail_msg("%s, rank %u at %u: status %d, %s", names[0], bad_rank, bad_at,
                 status, bell_error_last()->message);
    if (!strstr(bell_error_last()->message, "is lost") &&
        !strstr(bell_error_last()->message, "reset"))
        fail_msg("%s, rank %u at %u: %s", names[0], bad_rank, bad_at,
                 bell_error_last()->message);
    for (r = 0; r < 2; r++) {
        if (!life.devs[r] || hcq_device_status(life.devs[r]) == BELL_OK)
            continue;
        hcq_device_fault(life.devs[r], &fault);
        assert_true(fault.kind != HCQ_FAULT_NONE && fault.text[0]);
        n_lost++;
    }
    assert_true(n_lost > 0);
    if (bad_rank < 2)
        assert_int_equal(hcq_device_status(life.devs[bad_rank]),
                         BELL_E_DEVICE_LOST);
    end_life(&life);
    expect_kept();
}

/* Where, is chosen at random; the same in each run. */
static void
test_kills(void **state)
{
    const char *const nv[2] = {"NV:0@sim:h100*2", "NV:1@sim:h100*2"};
    const char *const mixed[2] = {"CPU", "NV:0@sim:sm_90"};
    uint64_t seed = 20261130;
    char names[2][96];
    const char *amd[2] = {names[0], names[1]};
    uint32_t i, r;

    (void)state;
    for (i = 0; i < N_KILLS; i++) {
        kill_one(nv, (uint32_t)(numbers_random(&seed) % 2),
                 (uint32_t)(numbers_random(&seed) % 4));
        kill_one(mixed, 1, (uint32_t)(numbers_random(&seed) % 4));
    }
    /* cards that reset with one of the first submissions: each is a program of
     * its own, which may use the card no more */
    for (i = 1; i <= 2 * N_STEPS; i++) {
        for (r = 0; r < 2; r++)
            snprintf(names[r], sizeof(names[r]),
                     "AMD:%u@fault:any:99999=EIO@sim:gfx942*2,reset=%u", r,
                     1 + i % N_STEPS);
        kill_one(amd, 2, 0);
    }
}

int
main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_several), cmocka_unit_test(test_hung),
        cmocka_unit_test(test_calls),   cmocka_unit_test(test_kills),
        cmocka_unit_test(test_lost),
    };

    if (argc > 1 && strcmp(argv[1], "every") == 0)
        step = 1;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
