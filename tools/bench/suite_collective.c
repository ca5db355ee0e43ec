/* Bench: collectives by size, in nccl-tests' columns, every element compared.
 *
 * A switch adds in no order that is told (NVLS): its sums are compared with a
 * bound of what rounding may do.
 *
 * Sizes are counted as nccl-tests does: of all-reduce and broadcast what a rank
 * has, of the others what the larger side of a rank has.
 */
#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/bits.h"
#include "base/thread.h"
#include "tensor/runtime/sum.h"
#include "tools/bench/bench.h"

#define ELEM_BYTES 4u /* float32 */
#define LEAST      8u
#define STEP       8u

struct sweep {
    struct bench_group group;
    struct tensor_sums *sums;
    enum hcq_collective_kind kind;
    enum hcq_collective_algorithm algorithm; /* asked for; AUTO: none was */
    const char *name;
    struct hcq_buffer *in[BENCH_RANKS_MAX], *out[BENCH_RANKS_MAX];
    uint64_t most_bytes;
    float *host; /* owned; of a side of one rank */
};

/* ---- numbers ------------------------------------------------------------- */

/* Element i of a rank's input: of all sizes from 2^-3 to 2^4. */
static float
number_at(uint32_t rank, uint64_t i, uint32_t seed)
{
    uint32_t x = (uint32_t)i * 2654435761u ^ (seed + rank * 40503u);
    float f;

    x ^= x >> 15;
    x *= 2246822519u;
    x = (x & 0x807fffffu) | (124u + (x >> 24) % 7u) << 23;
    memcpy(&f, &x, sizeof(f));
    return f;
}

static bool
is_sum(enum hcq_collective_kind kind)
{
    return kind == HCQ_COLLECTIVE_ALL_REDUCE ||
           kind == HCQ_COLLECTIVE_REDUCE_SCATTER;
}

/* Element i of rank r's output. */
static float
expect_at(const struct sweep *s, uint64_t count, uint32_t r, uint64_t i,
          uint32_t seed)
{
    float sum;
    uint32_t k;

    if (is_sum(s->kind)) {
        if (s->kind == HCQ_COLLECTIVE_REDUCE_SCATTER)
            i += r * count;
        sum = number_at(0, i, seed);
        for (k = 1; k < s->group.n; k++)
            sum += number_at(k, i, seed);
        return sum;
    }
    if (s->kind == HCQ_COLLECTIVE_BROADCAST)
        return number_at(0, i, seed);
    if (s->kind == HCQ_COLLECTIVE_ALL_GATHER)
        return number_at((uint32_t)(i / count), i % count, seed);
    return number_at((uint32_t)(i / count), r * count + i % count, seed);
}

/* Whether element i is a sum of all ranks' in some order. Each of n - 1
 * additions is wrong by half a step of a partial sum, which is at most the sum
 * of all magnitudes. */
static bool
is_near(const struct sweep *s, float got, uint64_t i, uint32_t seed)
{
    double sum = 0, most = 0, step = 1.0 / (1 << 23);
    uint32_t k;

    for (k = 0; k < s->group.n; k++) {
        sum += (double)number_at(k, i, seed);
        most += fabs((double)number_at(k, i, seed));
    }
    return fabs((double)got - sum) <= s->group.n * step * most;
}

static uint64_t
in_elems(const struct sweep *s, uint64_t count)
{
    return s->kind == HCQ_COLLECTIVE_REDUCE_SCATTER ||
                   s->kind == HCQ_COLLECTIVE_ALL_TO_ALL
               ? s->group.n * count
               : count;
}

static uint64_t
out_elems(const struct sweep *s, uint64_t count)
{
    return s->kind == HCQ_COLLECTIVE_ALL_GATHER ||
                   s->kind == HCQ_COLLECTIVE_ALL_TO_ALL
               ? s->group.n * count
               : count;
}

/* ---- one size ------------------------------------------------------------ */

static void
describe(const struct sweep *s, uint64_t count, bool in_place,
         struct hcq_collective_rank *ranks, struct hcq_collective_desc *desc)
{
    uint32_t r;

    for (r = 0; r < s->group.n; r++) {
        bool has_in = s->kind != HCQ_COLLECTIVE_BROADCAST || r == 0;
        uint64_t block = r * count * ELEM_BYTES;

        ranks[r] = (struct hcq_collective_rank){
            .dev = s->group.devs[r],
            .in = has_in ? s->in[r] : NULL,
            .out = in_place ? s->in[r] : s->out[r],
        };
        if (in_place && s->kind == HCQ_COLLECTIVE_ALL_GATHER)
            ranks[r].in_offset = block;
        if (in_place && s->kind == HCQ_COLLECTIVE_REDUCE_SCATTER)
            ranks[r].out_offset = block;
    }
    *desc = (struct hcq_collective_desc){
        .struct_size = sizeof(*desc),
        .kind = s->kind,
        .algorithm = s->algorithm,
        .dtype = HCQ_DTYPE_F32,
        .name = "bench",
        .count = count,
        .ranks = ranks,
        .n_ranks = s->group.n,
        .get_program = tensor_sums_get,
        .user = s->sums,
    };
}

/* Inputs, and outputs that are not a result. */
static bell_status
write_inputs(struct sweep *s, const struct hcq_collective_desc *desc,
             uint32_t seed)
{
    uint64_t n_in = in_elems(s, desc->count), n_out = out_elems(s, desc->count);
    uint64_t i;
    uint32_t r;

    for (r = 0; r < s->group.n; r++) {
        const struct hcq_collective_rank *rank = &desc->ranks[r];

        memset(s->host, 0xa5, n_out * ELEM_BYTES);
        BELL_TRY(hcq_buffer_write(rank->out, rank->out_offset, s->host,
                                  n_out * ELEM_BYTES));
        if (!rank->in)
            continue;
        for (i = 0; i < n_in; i++)
            s->host[i] = number_at(r, i, seed);
        BELL_TRY(hcq_buffer_write(rank->in, rank->in_offset, s->host,
                                  n_in * ELEM_BYTES));
    }
    return BELL_OK;
}

static bell_status
count_wrong(struct sweep *s, const struct hcq_collective_desc *desc,
            enum hcq_collective_algorithm by, uint32_t seed,
            uint64_t *out_wrong)
{
    uint64_t n_out = out_elems(s, desc->count), i;
    uint32_t r;

    *out_wrong = 0;
    for (r = 0; r < s->group.n; r++) {
        const struct hcq_collective_rank *rank = &desc->ranks[r];

        BELL_TRY(hcq_buffer_read(rank->out, rank->out_offset, s->host,
                                 n_out * ELEM_BYTES));
        for (i = 0; i < n_out; i++) {
            float want = expect_at(s, desc->count, r, i, seed);

            *out_wrong += by == HCQ_COLLECTIVE_NVLS
                              ? !is_near(s, s->host[i], i, seed)
                              : memcmp(&want, &s->host[i], sizeof(want)) != 0;
        }
    }
    return BELL_OK;
}

static double
bus_factor(const struct sweep *s)
{
    double n = s->group.n;

    switch (s->kind) {
    case HCQ_COLLECTIVE_ALL_REDUCE:
        return 2 * (n - 1) / n;
    case HCQ_COLLECTIVE_REDUCE_SCATTER:
    case HCQ_COLLECTIVE_ALL_GATHER:
    case HCQ_COLLECTIVE_ALL_TO_ALL:
        return (n - 1) / n;
    case HCQ_COLLECTIVE_BROADCAST:
    case HCQ_COLLECTIVE_GATHER:
    case HCQ_COLLECTIVE_SCATTER:
    case HCQ_COLLECTIVE_SEND:
    case HCQ_COLLECTIVE_KIND_COUNT:
        break;
    }
    return 1;
}

static bell_status
time_graph(struct bench *b, struct hcq_graph *graph,
           const struct hcq_collective *collective)
{
    while (bench_goes_on(b, 5)) {
        unsigned n = bench_batch(b), i;
        uint64_t start = time_now_ns();

        for (i = 0; i < n; i++)
            BELL_TRY(hcq_graph_submit(graph, NULL));
        BELL_TRY(hcq_collective_wait(collective, graph, BENCH_WAIT_NS));
        bench_sample_batch(b, (double)(time_now_ns() - start), 1);
    }
    return BELL_OK;
}

/* "two_shot_", for names of rows; "" where none was asked for. */
static void
name_algorithm(enum hcq_collective_algorithm by, char out[24])
{
    char *dash;

    out[0] = '\0';
    if (by == HCQ_COLLECTIVE_AUTO)
        return;
    snprintf(out, 24, "%s_", hcq_collective_algorithm_name(by));
    while ((dash = strchr(out, '-')))
        *dash = '_';
}

/* Right first, then timed: in place a run changes what the next one sums. */
static bell_status
measure_graph(struct bench *b, struct sweep *s,
              const struct hcq_collective_desc *desc, uint64_t size_bytes,
              bool in_place, struct hcq_graph *graph,
              const struct hcq_collective *collective)
{
    struct hcq_collective_info info = {.struct_size = sizeof(info)};
    uint32_t seed = (uint32_t)time_now_ns();
    uint64_t n_wrong;
    char size[16], by[24];

    BELL_TRY(write_inputs(s, desc, seed));
    BELL_TRY(hcq_graph_submit(graph, NULL));
    BELL_TRY(hcq_collective_wait(collective, graph, BENCH_WAIT_NS));
    hcq_collective_get_info(collective, &info);
    BELL_TRY(count_wrong(s, desc, info.algorithm, seed, &n_wrong));
    bench_name_size(size_bytes, size);
    name_algorithm(s->algorithm, by);
    bench_begin(b, BENCH_US, hcq_collective_kind_name(s->kind), "%s_%s%s%s",
                s->name, by, size, in_place ? "_in_place" : "");
    b->current.exchange = (struct bench_exchange){
        .is_set = true,
        .n_ranks = s->group.n,
        .size_bytes = size_bytes,
        .count = desc->count,
        .type = "float32",
        .redop = is_sum(s->kind) ? "sum" : "none",
        .root = s->kind == HCQ_COLLECTIVE_BROADCAST ? 0 : -1,
        .in_place = in_place,
        .bus_factor = bus_factor(s),
        .n_wrong = n_wrong,
        .algorithm = hcq_collective_algorithm_name(info.algorithm),
        .predicted_us = info.predicted_ns / 1e3,
    };
    bench_work(b, 0, (double)size_bytes, BENCH_CEILING_NONE);
    BELL_TRY(time_graph(b, graph, collective));
    bench_end(b);
    if (n_wrong)
        return bell_fail(BELL_E_INTERNAL,
                         "%s of %u devices, %llu bytes, by %s: %llu elements "
                         "are wrong",
                         hcq_collective_kind_name(s->kind), s->group.n,
                         (unsigned long long)size_bytes,
                         hcq_collective_algorithm_name(info.algorithm),
                         (unsigned long long)n_wrong);
    return BELL_OK;
}

static_assert(2 * BENCH_RANKS_MAX <= HCQ_GRAPH_QUEUES_MAX, "queues");

/* The compute queues, and copy queues: those of links if there is room for all
 * of them, else one of each device. */
static uint32_t
list_queues(const struct sweep *s, struct hcq_queue **queues)
{
    const struct bench_group *group = &s->group;
    bool has_links = group->n > 1 &&
                     group->n * group->n <= HCQ_GRAPH_QUEUES_MAX &&
                     group->links[0][1] != group->copy[0];
    uint32_t n = 0, i, j;

    for (i = 0; i < group->n; i++)
        queues[n++] = group->compute[i];
    for (i = 0; i < group->n; i++) {
        if (!has_links)
            queues[n++] = group->copy[i];
        for (j = 0; has_links && j < group->n; j++) {
            if (group->links[i][j] && group->links[i][j] != group->copy[i])
                queues[n++] = group->links[i][j];
        }
    }
    return n;
}

static bell_status
measure_size(struct bench *b, struct sweep *s, uint64_t size_bytes,
             bool in_place)
{
    struct hcq_queue *queues[HCQ_GRAPH_QUEUES_MAX];
    struct hcq_graph_desc graph_desc = {
        .struct_size = sizeof(graph_desc), .name = s->name, .queues = queues};
    struct hcq_collective_rank ranks[BENCH_RANKS_MAX];
    struct hcq_collective *collective = NULL;
    struct hcq_collective_desc desc;
    struct hcq_graph *graph;
    bell_status status;
    uint64_t count = size_bytes / ELEM_BYTES;

    if (s->kind != HCQ_COLLECTIVE_ALL_REDUCE &&
        s->kind != HCQ_COLLECTIVE_BROADCAST)
        count /= s->group.n;
    if (count == 0)
        return BELL_OK;
    graph_desc.n_queues = list_queues(s, queues);
    describe(s, count, in_place, ranks, &desc);
    BELL_TRY(hcq_graph_create(&graph_desc, &graph));
    status = hcq_collective_add(graph, &desc, &collective);
    if (status == BELL_OK)
        status = hcq_graph_end(graph);
    if (status == BELL_OK)
        status =
            measure_graph(b, s, &desc, size_bytes, in_place, graph, collective);
    hcq_graph_destroy(graph);
    hcq_collective_destroy(collective);
    return status;
}

/* ---- the suites ---------------------------------------------------------- */

static bell_status
run_sizes(struct bench *b, struct sweep *s)
{
    uint64_t size_bytes;
    uint32_t r;
    int place;

    s->host = host_alloc(s->most_bytes);
    if (!s->host)
        return bell_fail(BELL_E_NO_MEMORY, "out of memory for %llu bytes",
                         (unsigned long long)s->most_bytes);
    for (r = 0; r < s->group.n; r++) {
        BELL_TRY(
            hcq_buffer_create(s->group.devs[r], s->most_bytes, 0, &s->in[r]));
        BELL_TRY(
            hcq_buffer_create(s->group.devs[r], s->most_bytes, 0, &s->out[r]));
    }
    bench_print_columns(b);
    for (size_bytes = LEAST; size_bytes <= s->most_bytes; size_bytes *= STEP) {
        for (place = 0; place < 2; place++) {
            if (bench_is_over(b) ||
                (place && s->kind == HCQ_COLLECTIVE_ALL_TO_ALL))
                continue;
            BELL_TRY(measure_size(b, s, size_bytes, place == 1));
        }
    }
    return BELL_OK;
}

/* Whether the devices can take the algorithm that was asked for. Where the
 * suite was not, one that has none is a row that says so. */
static bell_status
find_lacking(struct bench *b, struct sweep *s, bool *out_lacks)
{
    struct hcq_collective_info info = {.struct_size = sizeof(info)};
    struct hcq_collective_rank ranks[BENCH_RANKS_MAX];
    struct hcq_collective_desc desc;
    bell_status status;

    *out_lacks = false;
    if (s->algorithm == HCQ_COLLECTIVE_AUTO)
        return BELL_OK;
    describe(s, s->most_bytes / ELEM_BYTES, false, ranks, &desc);
    status = hcq_collective_explain(&desc, &info);
    if (status != BELL_E_UNSUPPORTED || b->is_named)
        return status;
    bench_lacks(b, BENCH_US, hcq_collective_kind_name(s->kind), s->name,
                bell_error_last()->message);
    bell_error_clear();
    *out_lacks = true;
    return BELL_OK;
}

static bell_status
run_sweep(struct bench *b, enum hcq_collective_kind kind, const char *name)
{
    struct sweep s = {.kind = kind, .algorithm = b->algorithm, .name = name};
    bell_status status;
    bool lacks = false;
    uint32_t r;

    s.most_bytes = b->is_small ? 256u << 10 : 128u << 20;
    BELL_TRY(bench_group_open(b, &s.group));
    status = tensor_sums_create(&s.sums);
    if (status == BELL_OK)
        status = find_lacking(b, &s, &lacks);
    if (status == BELL_OK && !lacks)
        status = run_sizes(b, &s);
    for (r = 0; r < s.group.n; r++) {
        hcq_buffer_destroy(s.in[r]);
        hcq_buffer_destroy(s.out[r]);
    }
    host_free(s.host);
    tensor_sums_destroy(s.sums);
    bench_group_close(&s.group);
    return status;
}

bell_status
bench_all_reduce(struct bench *b)
{
    return run_sweep(b, HCQ_COLLECTIVE_ALL_REDUCE, "allreduce");
}

bell_status
bench_all_gather(struct bench *b)
{
    return run_sweep(b, HCQ_COLLECTIVE_ALL_GATHER, "allgather");
}

bell_status
bench_reduce_scatter(struct bench *b)
{
    return run_sweep(b, HCQ_COLLECTIVE_REDUCE_SCATTER, "reducescatter");
}

bell_status
bench_all_to_all(struct bench *b)
{
    return run_sweep(b, HCQ_COLLECTIVE_ALL_TO_ALL, "alltoall");
}

bell_status
bench_broadcast(struct bench *b)
{
    return run_sweep(b, HCQ_COLLECTIVE_BROADCAST, "broadcast");
}
