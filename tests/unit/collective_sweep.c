/* The sweep of nccl-tests on a set of devices: every kind of collective and
 * algorithm, nine dtypes, sizes from 8 bytes on, odd ones, in place and not.
 * All results of one case have the same bits, those of plain loops. Bytes over
 * each link are those of a formula, and those that simulated cards count.
 *
 * usage: collective_sweep DEVICES N SECONDS BYTES... [few]
 * DEVICES as rig_open takes them. BYTES: of the larger side of a rank. SECONDS:
 * for each size; what is left out then is printed. Whole sweeps take minutes to
 * hours, so tests run small ones.
 *
 * few: sums of each dtype by one algorithm, moves by each algorithm with one
 * dtype, an even count or an odd one. Algorithms and counts go round with the
 * dtype, so that a kind of sums meets each algorithm with both counts.
 */
#include "collective_moved.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "tests/unit/expect.h"

#define SIZES_MAX      32
#define ONE_SHOT_BYTES (4u << 20)
/* A simulated card may sum 64 MiB of bytes on a part of a busy processor. */
#define WAIT_NS (4ull * 3600 * 1000000000)

static const char *devices;
static uint32_t n_devices;
static double seconds_each;
static bool is_few;
static uint64_t sizes[SIZES_MAX];
static int n_sizes;

struct tally {
    uint64_t n_runs, n_skipped, n_bytes;
    double since;
    bool has_inputs; /* the devices have the rig's, unchanged */
};

static double
now(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/* Whether all pairs reach each other, or none; other sets have no formula. */
enum reach {
    REACH_ALL,
    REACH_NONE,
    REACH_SOME
};

static enum reach
find_reach(struct fleet *rig)
{
    uint32_t a, b, n = 0;

    for (a = 0; a < rig->n; a++) {
        for (b = 0; b < rig->n; b++) {
            struct hcq_device_link link = {.struct_size = sizeof(link)};

            if (a == b)
                continue;
            expect_ok(hcq_device_get_link(rig->devs[a], rig->devs[b], &link));
            n += link.reads;
        }
    }
    return n == 0                       ? REACH_NONE
           : n == rig->n * (rig->n - 1) ? REACH_ALL
                                        : REACH_SOME;
}

static void
expect_bytes(const struct rig_case *c, uint64_t got, uint64_t want,
             const char *what, uint32_t a, uint32_t b)
{
    if (got != want)
        fail_msg("%s by %s of %llu %s: %s, ranks %u and %u: %llu bytes, by "
                 "formula %llu",
                 hcq_collective_kind_name(c->kind),
                 hcq_collective_algorithm_name(c->by),
                 (unsigned long long)c->count, hcq_dtype_name(c->dtype), what,
                 a, b, (unsigned long long)got, (unsigned long long)want);
}

static void
check_formula(struct fleet *rig, const struct rig_case *c,
              const struct hcq_collective *collective)
{
    struct hcq_collective_info info = {.struct_size = sizeof(info)};
    enum reach reach = find_reach(rig);
    uint64_t up = 0, down = 0;
    uint32_t a, b;

    hcq_collective_get_info(collective, &info);
    for (a = 0; a < rig->n && reach != REACH_SOME; a++) {
        for (b = 0; b < rig->n; b++)
            expect_bytes(
                c, info.link_bytes[a][b],
                a != b && reach == REACH_ALL ? rig_formula(c, rig->n, a, b) : 0,
                "link", a, b);
        if (reach == REACH_NONE)
            rig_host_formula(c, rig->n, a, &up, &down);
        expect_bytes(c, info.to_host_bytes[a], up, "to the host", a, a);
        expect_bytes(c, info.from_host_bytes[a], down, "from the host", a, a);
    }
}

static void
run_one(struct fleet *rig, const struct rig_case *c, struct tally *tally)
{
    struct hcq_collective *collective;
    struct rig_moved before;
    struct hcq_graph *graph;

    rig_build(rig, c, &graph, &collective);
    check_formula(rig, c, collective);
    rig_count_moved(rig, &before);
    expect_ok(hcq_graph_submit(graph, NULL));
    expect_ok(hcq_collective_wait(collective, graph, WAIT_NS));
    rig_check_moved(rig, c, collective, &before);
    rig_check(rig, c, "sweep");
    hcq_graph_destroy(graph);
    hcq_collective_destroy(collective);
    tally->n_runs++;
    tally->n_bytes += 2 * rig->n * rig->side_bytes;
}

/* One-shot, each rank sums everything: minutes, on many simulated cards. */
static bool
is_too_long(const struct fleet *rig, const struct rig_case *c)
{
    return !is_few && c->by == HCQ_COLLECTIVE_ONE_SHOT && rig->n > 3 &&
           strcmp(devices, "CPU") != 0 &&
           c->kind == HCQ_COLLECTIVE_ALL_REDUCE &&
           c->count * hcq_dtype_bytes(c->dtype) > ONE_SHOT_BYTES;
}

/* Inputs are written where they are others, or where the last run was in place:
 * its check has seen that they are unchanged otherwise. */
static void
write_sides(struct fleet *rig, const struct rig_case *c, struct tally *tally)
{
    if (tally->has_inputs && rig_has(rig, c))
        rig_poison(rig);
    else
        rig_prepare(rig, c);
    tally->has_inputs = !c->in_place;
}

static void
leave_out(const struct rig_case *c, struct tally *tally, const char *why)
{
    tally->n_skipped++;
    print_message("# %s: %s of %s by %s%s\n", why,
                  hcq_collective_kind_name(c->kind), hcq_dtype_name(c->dtype),
                  hcq_collective_algorithm_name(c->by),
                  c->offset ? ", odd" : "");
}

/* By each algorithm, from the same inputs to the same outputs. */
static void
run_case(struct fleet *rig, struct rig_case *c, struct tally *tally)
{
    enum hcq_collective_algorithm by[HCQ_COLLECTIVE_ALGORITHM_COUNT];
    unsigned n = 0, i;

    if (is_few && (c->dtype / 2u + c->kind) % 2 != (c->offset > 0))
        return;
    for (i = HCQ_COLLECTIVE_ONE_SHOT; i < HCQ_COLLECTIVE_ALGORITHM_COUNT; i++) {
        c->by = (enum hcq_collective_algorithm)i;
        if (rig_can(rig, c))
            by[n++] = c->by;
    }
    for (i = 0; i < n; i++) {
        bool is_sum = c->kind <= HCQ_COLLECTIVE_REDUCE_SCATTER;

        c->by = by[i];
        if (is_few && (is_sum ? i != c->dtype % n
                              : (i + c->kind) % HCQ_DTYPE_COUNT != c->dtype))
            continue;
        if (now() - tally->since > seconds_each) {
            leave_out(c, tally, "no time");
        } else if (is_too_long(rig, c)) {
            leave_out(c, tally, "too long");
        } else {
            write_sides(rig, c, tally);
            run_one(rig, c, tally);
        }
    }
}

static bool
has_blocks(enum hcq_collective_kind kind)
{
    return kind != HCQ_COLLECTIVE_ALL_REDUCE &&
           kind != HCQ_COLLECTIVE_BROADCAST && kind != HCQ_COLLECTIVE_SEND;
}

/* As many elements as fit; then an odd number of them, elsewhere in the
 * memory, in place where the kind allows. */
static void
run_kind(struct fleet *rig, enum hcq_collective_kind kind, enum hcq_dtype dtype,
         uint64_t n_bytes, struct tally *tally)
{
    uint64_t most =
        n_bytes / hcq_dtype_bytes(dtype) / (has_blocks(kind) ? rig->n : 1);
    struct rig_case c = {.kind = kind, .dtype = dtype, .count = most};

    if (most == 0)
        return;
    c.seed = n_bytes + dtype;
    c.root = (uint32_t)dtype % rig->n;
    c.target = (c.root + 1) % rig->n;
    run_case(rig, &c, tally);
    c.count = (most - 1) | 1;
    c.offset = hcq_dtype_bytes(dtype);
    c.in_place =
        kind != HCQ_COLLECTIVE_ALL_TO_ALL && kind != HCQ_COLLECTIVE_SEND;
    c.root = c.target;
    c.target = (c.root + 1) % rig->n;
    run_case(rig, &c, tally);
}

/* float32 first, and all-reduces: a limit of time leaves the others out. */
static void
run_size(uint64_t n_bytes)
{
    struct tally tally = {0};
    struct fleet rig;
    unsigned kind, i;

    rig_open(&rig, devices, n_devices, n_bytes + 64, true);
    tally.since = now();
    for (i = 0; i < HCQ_DTYPE_COUNT; i++) {
        enum hcq_dtype dtype =
            (enum hcq_dtype)((HCQ_DTYPE_F32 + i) % HCQ_DTYPE_COUNT);

        for (kind = 0; kind < HCQ_COLLECTIVE_KIND_COUNT; kind++) {
            if (kind <= HCQ_COLLECTIVE_REDUCE_SCATTER && rig_lacks(&rig, dtype))
                continue;
            run_kind(&rig, (enum hcq_collective_kind)kind, dtype, n_bytes,
                     &tally);
        }
    }
    rig_close(&rig);
    print_message("# %s x %u, %llu bytes: %llu runs, %.1f MB "
                  "compared, %llu runs left out, 0 wrong, %.1f s\n",
                  devices, n_devices, (unsigned long long)n_bytes,
                  (unsigned long long)tally.n_runs, (double)tally.n_bytes / 1e6,
                  (unsigned long long)tally.n_skipped, now() - tally.since);
}

static void
test_sizes(void **state)
{
    int i;

    (void)state;
    for (i = 0; i < n_sizes; i++)
        run_size(sizes[i]);
}

int
main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_sizes)};

    int i;

    is_few = argc > 1 && strcmp(argv[argc - 1], "few") == 0;
    argc -= is_few;
    if (argc < 5 || argc - 4 > SIZES_MAX) {
        fprintf(stderr, "usage: collective_sweep DEVICES N SECONDS BYTES... "
                        "[few]\n");
        return 2;
    }
    setvbuf(stdout, NULL, _IOLBF, 0); /* into a file, too */
    devices = argv[1];
    n_devices = (uint32_t)atoi(argv[2]);
    seconds_each = atof(argv[3]);
    for (i = 4; i < argc; i++)
        sizes[n_sizes++] = (uint64_t)atoll(argv[i]);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
