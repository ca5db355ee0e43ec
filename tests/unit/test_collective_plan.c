/* Plans of collectives: which bytes go where, by formulas; which algorithm is
 * taken; what is refused; and what memory that runs out leaves behind.
 */
#include "collective_moved.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "tests/unit/expect.h"

#define N 4u

static struct hcq_device *devs[N];
static struct hcq_buffer *bufs[N];
static struct hcq_collective_rank ranks[N];
static struct hcq_collective_desc desc;
static struct hcq_collective_info info;

static int
open_devices(void **state)
{
    uint32_t r;

    (void)state;
    for (r = 0; r < N; r++) {
        expect_ok(hcq_device_open("CPU", &devs[r]));
        expect_ok(hcq_buffer_create(devs[r], 65536, 0, &bufs[r]));
    }
    return 0;
}

static int
close_devices(void **state)
{
    uint32_t r;

    (void)state;
    for (r = 0; r < N; r++)
        hcq_device_close(devs[r]);
    return 0;
}

static void
describe(enum hcq_collective_kind kind, enum hcq_collective_algorithm by,
         enum hcq_dtype dtype, uint64_t count)
{
    uint32_t r;

    for (r = 0; r < N; r++)
        ranks[r] = (struct hcq_collective_rank){.dev = devs[r]};
    desc = (struct hcq_collective_desc){
        .struct_size = sizeof(desc),
        .kind = kind,
        .algorithm = by,
        .dtype = dtype,
        .count = count,
        .ranks = ranks,
        .n_ranks = N,
        .root = 1,
        .target = 2,
    };
}

static void
explain(enum hcq_collective_kind kind, enum hcq_collective_algorithm by,
        enum hcq_dtype dtype, uint64_t count)
{
    describe(kind, by, dtype, count);
    memset(&info, 0, sizeof(info));
    info.struct_size = sizeof(info);
    expect_ok(hcq_collective_explain(&desc, &info));
}

/* ---- bytes --------------------------------------------------------------- */

/* By formula, from one rank to another one. */
static uint64_t
formula(uint32_t from, uint32_t to)
{
    const struct rig_case c = {.kind = desc.kind,
                               .by = info.algorithm,
                               .dtype = desc.dtype,
                               .count = desc.count,
                               .root = desc.root,
                               .target = desc.target};

    return rig_formula(&c, N, from, to);
}

static void
check_bytes(void)
{
    uint64_t total = 0;
    uint32_t a, b;

    for (a = 0; a < N; a++) {
        assert_int_equal(info.to_host_bytes[a], 0);
        assert_int_equal(info.from_host_bytes[a], 0);
        for (b = 0; b < N; b++) {
            uint64_t want = a == b ? 0 : formula(a, b);

            total += want;
            if (info.link_bytes[a][b] != want)
                fail_msg("%s by %s of %llu %s: %llu bytes from %u to %u, not "
                         "%llu",
                         hcq_collective_kind_name(desc.kind),
                         hcq_collective_algorithm_name(info.algorithm),
                         (unsigned long long)desc.count,
                         hcq_dtype_name(desc.dtype),
                         (unsigned long long)info.link_bytes[a][b], a, b,
                         (unsigned long long)want);
        }
    }
    assert_int_equal(info.total_bytes, total);
}

static void
test_bytes(void **state)
{
    static const uint64_t counts[] = {0, 1, 67, 1024, 300001};
    unsigned kind, by;
    size_t i;

    (void)state;
    for (kind = 0; kind < HCQ_COLLECTIVE_KIND_COUNT; kind++) {
        for (i = 0; i < sizeof(counts) / sizeof(counts[0]); i++) {
            explain((enum hcq_collective_kind)kind, HCQ_COLLECTIVE_AUTO,
                    HCQ_DTYPE_F16, counts[i]);
            for (by = 1; by < HCQ_COLLECTIVE_ALGORITHM_COUNT; by++) {
                if (info.times_ns[by] == 0)
                    continue;
                explain((enum hcq_collective_kind)kind,
                        (enum hcq_collective_algorithm)by,
                        i % 2 ? HCQ_DTYPE_F16 : HCQ_DTYPE_F64, counts[i]);
                assert_int_equal(info.algorithm, by);
                check_bytes();
            }
        }
    }
}

/* ---- choice -------------------------------------------------------------- */

static void
test_choice(void **state)
{
    unsigned by;

    (void)state;
    explain(HCQ_COLLECTIVE_ALL_REDUCE, HCQ_COLLECTIVE_AUTO, HCQ_DTYPE_F32, 2);
    assert_int_equal(info.algorithm, HCQ_COLLECTIVE_ONE_SHOT);
    assert_int_equal(info.n_sums, N);
    assert_int_equal(info.n_copies, 0);
    assert_int_equal(info.n_steps, 1);
    assert_int_equal(info.scratch_bytes, 0);
    assert_false(info.is_rate_known);
    explain(HCQ_COLLECTIVE_ALL_REDUCE, HCQ_COLLECTIVE_AUTO, HCQ_DTYPE_F32,
            1u << 24);
    assert_int_not_equal(info.algorithm, HCQ_COLLECTIVE_ONE_SHOT);
    for (by = 1; by < HCQ_COLLECTIVE_NVLS; by++)
        assert_true(info.times_ns[by] >= info.predicted_ns);
    assert_true(info.times_ns[info.algorithm] == info.predicted_ns);
    /* in place by one-shot, others read a copy */
    describe(HCQ_COLLECTIVE_ALL_REDUCE, HCQ_COLLECTIVE_ONE_SHOT, HCQ_DTYPE_F32,
             16);
    for (by = 0; by < N; by++)
        ranks[by].in = ranks[by].out = bufs[by];
    expect_ok(hcq_collective_explain(&desc, &info));
    assert_int_equal(info.n_copies, N);
    assert_int_equal(info.n_steps, 2);
    assert_int_equal(info.scratch_bytes, 4 * N * 16);
}

/* The same collective takes as long between devices that are not there. */
static void
expect_predicted(uint64_t bytes_per_s, double want_ns)
{
    struct hcq_collective_box box = {.struct_size = sizeof(box),
                                     .n_ranks = desc.n_ranks,
                                     .kind = HCQ_LINK_NVLINK,
                                     .bytes_per_s = bytes_per_s,
                                     .has_team = true,
                                     .waits_near = true};
    struct hcq_collective_info other = {.struct_size = sizeof(other)};

    expect_ok(hcq_collective_predict(&box, desc.kind, desc.algorithm,
                                     desc.dtype, desc.count, &other));
    assert_true(other.predicted_ns > 0.999 * want_ns &&
                other.predicted_ns < 1.001 * want_ns);
}

/* By the model, a box of eight H100: one hop where sizes are small, and large
 * ones as fast as links of 450 GB/s each way allow. */
static void
test_box(void **state)
{
    struct hcq_collective_rank box[8] = {{NULL}};
    char name[HCQ_NAME_MAX];
    double bound_ns;
    uint32_t r;

    (void)state;
    describe(HCQ_COLLECTIVE_ALL_REDUCE, HCQ_COLLECTIVE_AUTO, HCQ_DTYPE_F32,
             256);
    desc.ranks = box;
    desc.n_ranks = 8;
    for (r = 0; r < 8; r++) {
        snprintf(name, sizeof(name), "NV:%u@sim:h100*8", r);
        expect_ok(hcq_device_open(name, &box[r].dev));
    }
    expect_ok(hcq_collective_explain(&desc, &info));
    assert_int_equal(info.n_steps, 1);
    assert_int_equal(info.n_sums, 8);
    assert_int_equal(info.n_copies, 0);
    assert_true(info.is_rate_known);
    assert_true(info.predicted_ns <= 5000);
    desc.count = 1u << 28;
    expect_ok(hcq_collective_explain(&desc, &info));
    bound_ns = 2 * 7.0 / 8 * (double)desc.count * 4 / 450;
    print_message("# 1 GiB: %.3f ms, bound %.3f ms, by %s\n",
                  info.predicted_ns / 1e6, bound_ns / 1e6,
                  hcq_collective_algorithm_name(info.algorithm));
    assert_true(info.predicted_ns >= bound_ns * 0.999);
    assert_true(info.predicted_ns <= bound_ns * 1.05);
    /* a switch that adds is faster, and nobody gets it who does not ask */
    assert_int_not_equal(info.algorithm, HCQ_COLLECTIVE_NVLS);
    assert_true(info.times_ns[HCQ_COLLECTIVE_NVLS] > 0);
    assert_true(info.times_ns[HCQ_COLLECTIVE_NVLS] < info.predicted_ns);
    desc.algorithm = HCQ_COLLECTIVE_NVLS;
    expect_ok(hcq_collective_explain(&desc, &info));
    bound_ns = 9.0 / 8 * (double)desc.count * 4 / 450;
    assert_int_equal(info.algorithm, HCQ_COLLECTIVE_NVLS);
    assert_true(info.predicted_ns >= bound_ns * 0.999);
    assert_true(info.predicted_ns <= bound_ns * 1.05);
    expect_predicted(450000000000ull, info.predicted_ns);
    desc.algorithm = HCQ_COLLECTIVE_AUTO;
    expect_ok(hcq_collective_explain(&desc, &info));
    expect_predicted(450000000000ull, info.predicted_ns);
    desc.algorithm = HCQ_COLLECTIVE_NVLS;
    desc.dtype = HCQ_DTYPE_I8;
    expect_fails(hcq_collective_explain(&desc, &info), BELL_E_UNSUPPORTED,
                 "all-reduce by nvls: a switch does not add int8");
    desc.kind = HCQ_COLLECTIVE_BROADCAST;
    expect_fails(hcq_collective_explain(&desc, &info), BELL_E_UNSUPPORTED,
                 "broadcast: there is no nvls algorithm for it");
    for (r = 0; r < 8; r++)
        hcq_device_close(box[r].dev);
}

/* Devices that are not there: bytes by formula, and what is refused. */
static void
test_predict(void **state)
{
    struct hcq_collective_box box = {.struct_size = sizeof(box),
                                     .kind = HCQ_LINK_XGMI,
                                     .bytes_per_s = 48000000000ull};
    double last_ns = 0;
    uint32_t n;

    (void)state;
    info.struct_size = sizeof(info);
    for (n = 1; n <= 8; n++) {
        box.n_ranks = n;
        expect_ok(hcq_collective_predict(&box, HCQ_COLLECTIVE_ALL_REDUCE,
                                         HCQ_COLLECTIVE_AUTO, HCQ_DTYPE_F32,
                                         840 * 64 * 1024, &info));
        assert_true(info.total_bytes == 2ull * (n - 1) * 840 * 256 * 1024);
        assert_true(info.is_rate_known);
        assert_true(info.times_ns[HCQ_COLLECTIVE_NVLS] == 0);
        /* each pair has a link: more of them are faster */
        if (n > 2)
            assert_true(info.predicted_ns < last_ns);
        last_ns = info.predicted_ns;
    }
    box.n_ranks = HCQ_COLLECTIVE_RANKS_MAX + 1;
    expect_fails(hcq_collective_predict(&box, HCQ_COLLECTIVE_ALL_REDUCE,
                                        HCQ_COLLECTIVE_AUTO, HCQ_DTYPE_F32, 8,
                                        &info),
                 BELL_E_INVALID, "all-reduce: 65 ranks, expected 1 to 64");
    box.n_ranks = 2;
    box.kind = HCQ_LINK_HOST;
    expect_fails(hcq_collective_predict(&box, HCQ_COLLECTIVE_ALL_REDUCE,
                                        HCQ_COLLECTIVE_AUTO, HCQ_DTYPE_F32, 8,
                                        &info),
                 BELL_E_INVALID, "with links of kind 1");
    box.kind = HCQ_LINK_NVLINK;
    expect_fails(hcq_collective_predict(&box, HCQ_COLLECTIVE_SEND,
                                        HCQ_COLLECTIVE_RING, HCQ_DTYPE_F32, 8,
                                        &info),
                 BELL_E_UNSUPPORTED, "send: there is no ring algorithm for it");
    expect_fails(hcq_collective_predict(&box, HCQ_COLLECTIVE_ALL_REDUCE,
                                        HCQ_COLLECTIVE_AUTO, HCQ_DTYPE_F32,
                                        UINT64_MAX / 8, &info),
                 BELL_E_INVALID, "elements are too many");
    expect_fails(hcq_collective_predict(NULL, HCQ_COLLECTIVE_ALL_REDUCE,
                                        HCQ_COLLECTIVE_AUTO, HCQ_DTYPE_F32, 8,
                                        &info),
                 BELL_E_INVALID, "the box is NULL");
}

/* Who is behind no switch that adds, and why. */
static void
test_no_switch(void **state)
{
    static const struct {
        const char *first, *second, *why;
    } rows[] = {
        {"CPU", "CPU", "CPU:0 has no switch that adds for CPU:0"},
        {"NV:0@sim:h100*2", "CPU", "CPU:0 has no switch that adds for NV:0"},
        {"NV:0@sim:h100*2", "NV:0@sim:h100*2", "are one card"},
        {"NV:0@sim:a100*2", "NV:1@sim:a100*2", "is behind no NVSwitch"},
        {"NV:0@sim:h100*2,fabric=absent", "NV:1@sim:h100*2,fabric=absent",
         "is behind no NVSwitch whose fabric manager forms teams"},
        {"NV:0@sim:h100*2,link=none", "NV:1@sim:h100*2,link=none",
         "is behind no NVSwitch whose fabric manager forms teams"},
    };
    struct hcq_collective_rank two[2] = {{NULL}};
    size_t i;

    (void)state;
    for (i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        describe(HCQ_COLLECTIVE_ALL_REDUCE, HCQ_COLLECTIVE_NVLS, HCQ_DTYPE_F32,
                 256);
        desc.ranks = two;
        desc.n_ranks = 2;
        expect_ok(hcq_device_open(rows[i].first, &two[0].dev));
        expect_ok(hcq_device_open(rows[i].second, &two[1].dev));
        expect_fails(hcq_collective_explain(&desc, &info), BELL_E_UNSUPPORTED,
                     rows[i].why);
        desc.algorithm = HCQ_COLLECTIVE_AUTO;
        info.struct_size = sizeof(info);
        expect_ok(hcq_collective_explain(&desc, &info));
        assert_true(info.times_ns[HCQ_COLLECTIVE_NVLS] == 0);
        hcq_device_close(two[1].dev);
        hcq_device_close(two[0].dev);
    }
}

/* One rank has nobody to wait for. */
static void
test_alone(void **state)
{
    (void)state;
    describe(HCQ_COLLECTIVE_ALL_REDUCE, HCQ_COLLECTIVE_AUTO, HCQ_DTYPE_F32, 8);
    desc.n_ranks = 1;
    expect_ok(hcq_collective_explain(&desc, &info));
    assert_int_equal(info.n_sums, 0);
    assert_int_equal(info.n_copies, 1);
    assert_int_equal(info.total_bytes, 0);
}

/* A smaller structure of a program that was compiled before. */
static void
test_small_info(void **state)
{
    (void)state;
    describe(HCQ_COLLECTIVE_ALL_GATHER, HCQ_COLLECTIVE_AUTO, HCQ_DTYPE_U8, 8);
    memset(&info, 0x77, sizeof(info));
    info.struct_size = offsetof(struct hcq_collective_info, n_copies);
    expect_ok(hcq_collective_explain(&desc, &info));
    assert_int_equal(info.n_ranks, N);
    assert_int_equal(info.n_copies, 0x77777777);
}

/* ---- refusals ------------------------------------------------------------ */

static void
expect_refused(struct hcq_queue *const *queues, bell_status want,
               const char *part)
{
    const struct hcq_graph_desc graph_desc = {
        .struct_size = sizeof(graph_desc), .queues = queues, .n_queues = N};
    struct hcq_collective *collective = NULL;
    struct hcq_graph *graph;

    expect_ok(hcq_graph_create(&graph_desc, &graph));
    expect_fails(hcq_collective_add(graph, &desc, &collective), want, part);
    assert_null(collective);
    hcq_graph_destroy(graph);
}

static void
give_memory(uint64_t in_at, uint64_t out_at)
{
    uint32_t r;

    for (r = 0; r < N; r++) {
        ranks[r].in = ranks[r].out = bufs[r];
        ranks[r].in_offset = in_at;
        ranks[r].out_offset = out_at;
    }
}

static void
test_refusals(void **state)
{
    struct hcq_queue *queues[N];
    uint32_t r;

    (void)state;
    for (r = 0; r < N; r++)
        expect_ok(hcq_queue_create(devs[r], HCQ_QUEUE_COMPUTE, &queues[r]));
    describe(HCQ_COLLECTIVE_ALL_REDUCE, HCQ_COLLECTIVE_AUTO, HCQ_DTYPE_F32, 64);
    expect_refused(queues, BELL_E_INVALID,
                   "all-reduce: the input of rank 0 is not a buffer of CPU:0");
    give_memory(0, 4);
    expect_refused(queues, BELL_E_INVALID,
                   "all-reduce: the output of rank 0 overlaps its input and "
                   "does not begin where that does");
    give_memory(0, 32768);
    expect_refused(queues, BELL_E_INVALID, "all-reduce: nobody gives sum");
    desc.get_program = tensor_sums_get;
    give_memory(2, 32768);
    expect_refused(queues, BELL_E_INVALID,
                   "which is not a multiple of a "
                   "float32");
    give_memory(0, 65536 - 255);
    expect_refused(queues, BELL_E_INVALID,
                   "the output of rank 0: 256 bytes from 65281 on of a buffer "
                   "of 65536");
    desc.n_ranks = 65;
    expect_refused(queues, BELL_E_INVALID,
                   "all-reduce: 65 ranks, expected 1 to 64");
    describe(HCQ_COLLECTIVE_ALL_TO_ALL, HCQ_COLLECTIVE_AUTO, HCQ_DTYPE_F32, 4);
    give_memory(0, 0);
    expect_refused(queues, BELL_E_INVALID,
                   "all-to-all: the output of rank 0 overlaps its input, which "
                   "this kind does not allow");
    desc.algorithm = HCQ_COLLECTIVE_RING;
    give_memory(0, 32768);
    expect_refused(queues, BELL_E_UNSUPPORTED,
                   "all-to-all: there is no ring algorithm for it");
    describe(HCQ_COLLECTIVE_SEND, HCQ_COLLECTIVE_AUTO, HCQ_DTYPE_F32, 4);
    desc.target = N;
    expect_refused(queues, BELL_E_INVALID,
                   "send: root 1, target 4: there are 4 ranks");
    desc.kind = HCQ_COLLECTIVE_ALL_GATHER;
    desc.count = UINT64_MAX / 16;
    expect_refused(queues, BELL_E_INVALID, "elements are too many");
    desc.struct_size--;
    expect_refused(queues, BELL_E_INVALID, "collective: a descriptor of");
    ranks[2].dev = NULL;
    desc.struct_size++;
    desc.count = 1;
    expect_refused(queues, BELL_E_INVALID, "all-gather: rank 2 has no device");
    for (r = 0; r < N; r++)
        hcq_queue_destroy(queues[r]);
}

/* A switch adds floats in its own order: near the sum, and not its bits, which
 * simulated cards see to. All ranks have the same. */
static void
test_other_order(void **state)
{
    struct rig_case c = {.kind = HCQ_COLLECTIVE_ALL_REDUCE,
                         .by = HCQ_COLLECTIVE_ONE_SHOT,
                         .dtype = HCQ_DTYPE_F32,
                         .count = 5000,
                         .seed = 11};
    uint32_t r, i, n_other = 0;
    struct hcq_collective *collective;
    struct hcq_graph *graph;
    float want, got, size, x;
    struct fleet rig;
    uint8_t *first;

    (void)state;
    rig_open(&rig, "NV:*@sim:h100*3", 3, 4 * c.count, false);
    rig_prepare(&rig, &c); /* any floats, their sum in the order of ranks */
    c.by = HCQ_COLLECTIVE_NVLS;
    rig_build(&rig, &c, &graph, &collective);
    expect_ok(hcq_graph_submit(graph, NULL));
    expect_ok(hcq_collective_wait(collective, graph, RIG_WAIT_NS));
    first = malloc(rig.side_bytes);
    assert_non_null(first);
    expect_ok(hcq_buffer_read(rig.out[0], 0, first, rig.side_bytes));
    for (r = 1; r < 3; r++) {
        expect_ok(hcq_buffer_read(rig.out[r], 0, rig.got, rig.side_bytes));
        assert_memory_equal(first, rig.got, rig.side_bytes);
    }
    for (i = 0; i < c.count; i++) {
        size = 0;
        for (r = 0; r < 3; r++) {
            memcpy(&x, rig.inputs[r] + RIG_GUARD + 4 * i, 4);
            size += x < 0 ? -x : x;
        }
        memcpy(&want, rig.sum + RIG_GUARD + 4 * i, 4);
        memcpy(&got, first + RIG_GUARD + 4 * i, 4);
        n_other += want != got;
        /* two additions in each order, half a unit in the last place each */
        assert_true(want - got <= size * 0x1p-22f);
        assert_true(got - want <= size * 0x1p-22f);
    }
    assert_true(n_other > 0);
    free(first);
    hcq_graph_destroy(graph);
    hcq_collective_destroy(collective);
    rig_close(&rig);
}

/* ---- slots --------------------------------------------------------------- */

/* A graph with slots of rank 0's device: `home` with a home there, `other` with
 * one of rank 1's, `plain` with none. */
struct slotted {
    struct hcq_queue *queues[N];
    struct hcq_graph *graph;
    uint32_t home, other, plain;
};

static void
open_slotted(struct slotted *s)
{
    const struct hcq_graph_desc graph_desc = {
        .struct_size = sizeof(graph_desc), .queues = s->queues, .n_queues = N};
    uint32_t r;

    for (r = 0; r < N; r++)
        expect_ok(hcq_queue_create(devs[r], HCQ_QUEUE_COMPUTE, &s->queues[r]));
    expect_ok(hcq_graph_create(&graph_desc, &s->graph));
    s->home = hcq_graph_slot_on(s->graph, "home", 4096, devs[0]);
    s->other = hcq_graph_slot_on(s->graph, "other", 4096, devs[1]);
    s->plain = hcq_graph_slot(s->graph, "plain", 4096);
}

static void
close_slotted(struct slotted *s)
{
    uint32_t r;

    hcq_graph_destroy(s->graph);
    for (r = 0; r < N; r++)
        hcq_queue_destroy(s->queues[r]);
}

static void
expect_slot_refused(uint32_t (*choose)(const struct slotted *s),
                    const char *part)
{
    struct hcq_collective *collective = NULL;
    struct slotted s;

    open_slotted(&s);
    ranks[0].in_slot = choose(&s);
    expect_fails(hcq_collective_add(s.graph, &desc, &collective),
                 BELL_E_INVALID, part);
    assert_null(collective);
    close_slotted(&s);
}

static uint32_t
choose_home(const struct slotted *s)
{
    return s->home;
}

static uint32_t
choose_other(const struct slotted *s)
{
    return s->other;
}

static uint32_t
choose_plain(const struct slotted *s)
{
    return s->plain;
}

static uint32_t
choose_none(const struct slotted *s)
{
    return s->plain + 1;
}

static void
test_slot_refusals(void **state)
{
    (void)state;
    describe(HCQ_COLLECTIVE_ALL_REDUCE, HCQ_COLLECTIVE_AUTO, HCQ_DTYPE_F32, 64);
    give_memory(0, 32768);
    desc.get_program = tensor_sums_get;
    ranks[0].in = NULL;
    ranks[0].has_in_slot = true;
    expect_slot_refused(choose_none, "all-reduce: the input of rank 0 is slot "
                                     "3, which is not one of CPU:0");
    expect_slot_refused(choose_plain, "is slot 2, which is not one of CPU:0");
    expect_slot_refused(choose_other, "is slot 1, which is not one of CPU:0");
    ranks[0].in_offset = 4096 - 255;
    expect_slot_refused(choose_home,
                        "the input of rank 0: 256 bytes from 3841 on of slot "
                        "'home' of 4096");
    ranks[0].in_offset = 2;
    expect_slot_refused(choose_home, "begins 2 bytes behind slot 'home', which "
                                     "is not a multiple of a float32");
    ranks[0].in_offset = 0;
    ranks[0].in = bufs[0];
    expect_slot_refused(choose_home,
                        "the input of rank 0 is a buffer and slot 'home'");
    ranks[0].in = NULL;
    ranks[0].out = NULL;
    ranks[0].has_out_slot = true;
    ranks[0].out_offset = 4;
    expect_slot_refused(choose_home,
                        "the output of rank 0 overlaps its input and does not "
                        "begin where that does");
}

/* Memory that a slot cannot be, when it is set or submitted. */
static void
test_slot_memory(void **state)
{
    struct hcq_collective *collective;
    struct hcq_buffer *peers[N];
    struct tensor_sums *sums;
    struct slotted s;
    uint32_t r;

    (void)state;
    describe(HCQ_COLLECTIVE_ALL_REDUCE, HCQ_COLLECTIVE_ONE_SHOT, HCQ_DTYPE_F32,
             64);
    give_memory(0, 32768);
    expect_ok(tensor_sums_create(&sums));
    desc.get_program = tensor_sums_get;
    desc.user = sums;
    open_slotted(&s);
    ranks[0].in = NULL;
    ranks[0].has_in_slot = true;
    ranks[0].in_slot = s.home;
    expect_ok(hcq_collective_add(s.graph, &desc, &collective));
    expect_ok(hcq_graph_end(s.graph));
    assert_int_equal(hcq_collective_view(collective, 0, false, 0), s.home);
    assert_int_equal(hcq_collective_view(collective, 0, true, 1),
                     HCQ_SLOT_NONE);
    assert_int_equal(hcq_collective_view(collective, 1, false, 0),
                     HCQ_SLOT_NONE);
    assert_int_equal(hcq_collective_view(collective, 0, false, N),
                     HCQ_SLOT_NONE);
    /* not where floats are */
    expect_fails(hcq_graph_set_buffer(s.graph, s.home, bufs[0], 2),
                 BELL_E_INVALID, "its memory begins at a multiple of 4");
    expect_ok(hcq_graph_set_buffer(s.graph, s.home, bufs[0], 4));
    for (r = 1; r < N; r++) {
        expect_ok(hcq_buffer_create_peer(devs[r], bufs[0], &peers[r]));
        expect_fails(hcq_graph_set_buffer(
                         s.graph, hcq_collective_view(collective, 0, false, r),
                         peers[r], 6),
                     BELL_E_INVALID, "its memory begins at a multiple of 4");
        expect_ok(hcq_graph_set_buffer(
            s.graph, hcq_collective_view(collective, 0, false, r), peers[r],
            r == 2 ? 8 : 4));
    }
    expect_ok(hcq_graph_set_buffer(s.graph, s.other, bufs[1], 4096));
    /* no memory for the slot that nobody uses, then views of other memory */
    expect_fails(hcq_graph_submit(s.graph, NULL), BELL_E_INVALID,
                 "a slot has no value yet");
    expect_ok(hcq_graph_set(s.graph, s.plain, 4096));
    expect_fails(hcq_graph_submit(s.graph, NULL), BELL_E_INVALID,
                 "which is other memory than");
    expect_ok(hcq_graph_set_buffer(
        s.graph, hcq_collective_view(collective, 0, false, 2), peers[2], 4));
    expect_ok(hcq_graph_submit(s.graph, NULL));
    expect_ok(hcq_collective_wait(collective, s.graph, RIG_WAIT_NS));
    /* where the result goes */
    for (r = 0; r < N; r++)
        expect_ok(hcq_graph_set_buffer(
            s.graph, hcq_collective_view(collective, 0, false, r),
            r ? peers[r] : bufs[0], 32768));
    expect_fails(hcq_graph_submit(s.graph, NULL), BELL_E_INVALID,
                 "and one is written");
    close_slotted(&s);
    hcq_collective_destroy(collective);
    for (r = 1; r < N; r++)
        hcq_buffer_destroy(peers[r]);
    tensor_sums_destroy(sums);
}

/* ---- out of memory ------------------------------------------------------- */

static bell_status
add_and_end(struct fleet *rig, const struct rig_case *c)
{
    const struct hcq_graph_desc graph_desc = {.struct_size = sizeof(graph_desc),
                                              .queues = rig->queues,
                                              .n_queues = rig->n_queues};
    struct hcq_collective *collective = NULL;
    struct hcq_collective_desc one;
    struct hcq_graph *graph = NULL;
    bell_status status;

    rig_describe(rig, c, ranks, &one);
    status = hcq_graph_create(&graph_desc, &graph);
    if (status == BELL_OK)
        status = hcq_collective_add(graph, &one, &collective);
    if (status == BELL_OK)
        status = hcq_graph_end(graph);
    hcq_graph_destroy(graph);
    hcq_collective_destroy(collective);
    return status;
}

/* The n-th allocation fails, alone or with all behind it. */
static void
run_out(const char *list, enum hcq_collective_algorithm by)
{
    struct rig_case c = {.kind = HCQ_COLLECTIVE_ALL_REDUCE,
                         .by = by,
                         .dtype = HCQ_DTYPE_BF16,
                         .count = 100,
                         .in_place = true};
    uint64_t n, live[2], kept[2];
    struct fleet rig;
    int once;

    rig_open(&rig, list, 3, 1024, false);
    expect_ok(add_and_end(&rig, &c)); /* the kernels are there from now on */
    hcq_memory_usage(rig.devs[1], &live[0], &kept[0]);
    for (once = 0; once < 2; once++) {
        for (n = 1;; n++) {
            bell_status status;

            assert_true(n < 2000);
            host_fail_after(n, once);
            status = add_and_end(&rig, &c);
            host_fail_after(0, 0);
            hcq_memory_usage(rig.devs[1], &live[1], &kept[1]);
            assert_int_equal(live[1], live[0]);
            if (status == BELL_OK)
                break;
            assert_int_equal(status, BELL_E_NO_MEMORY);
        }
        assert_true(n > 20);
    }
    rig_close(&rig);
}

static void
test_no_memory(void **state)
{
    (void)state;
    run_out("CPU", HCQ_COLLECTIVE_ONE_SHOT);
    run_out("AMD:*@sim:gfx942*3", HCQ_COLLECTIVE_ONE_SHOT);
    run_out("NV:*@sim:h100*3", HCQ_COLLECTIVE_NVLS);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_bytes),
        cmocka_unit_test(test_choice),
        cmocka_unit_test(test_box),
        cmocka_unit_test(test_predict),
        cmocka_unit_test(test_alone),
        cmocka_unit_test(test_small_info),
        cmocka_unit_test(test_refusals),
        cmocka_unit_test(test_no_switch),
        cmocka_unit_test(test_other_order),
        cmocka_unit_test(test_slot_refusals),
        cmocka_unit_test(test_slot_memory),
        cmocka_unit_test(test_no_memory),
    };

    return cmocka_run_group_tests(tests, open_devices, close_devices);
}
