/* Bench: copies between each two of several devices, by their copy engines. */
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/bits.h"
#include "base/thread.h"
#include "tools/bench/bench.h"

/* Two devices, and a buffer of each as both have it. */
struct pair {
    struct bench_group *group;
    unsigned from, to;
    struct hcq_buffer *own[2];  /* of from, of to */
    struct hcq_buffer *seen[2]; /* to's as from has it, from's as to does */
    uint64_t n_bytes;
};

static bell_status
submit_copy(struct hcq_queue *queue, uint64_t to_va, uint64_t from_va,
            uint64_t n_bytes, uint64_t *out_value)
{
    struct hcq_cs *cs;

    BELL_TRY(hcq_queue_begin(queue, &cs));
    hcq_cs_copy(cs, to_va, from_va, n_bytes);
    return hcq_cs_submit(cs, out_value);
}

static bell_status
copy_once(struct hcq_queue *queue, uint64_t to_va, uint64_t from_va,
          uint64_t n_bytes)
{
    uint64_t value;

    BELL_TRY(submit_copy(queue, to_va, from_va, n_bytes, &value));
    return hcq_signal_wait(hcq_queue_timeline(queue), value, BENCH_WAIT_NS);
}

static void
describe(struct bench *b, const struct pair *p)
{
    b->current.exchange = (struct bench_exchange){
        .is_set = true,
        .n_ranks = 2,
        .size_bytes = p->n_bytes,
        .count = p->n_bytes,
        .type = "uint8",
        .redop = "none",
        .root = -1,
        .bus_factor = 1,
        .from = (int)p->from,
        .to = (int)p->to,
    };
}

enum way {
    WRITE,
    READ,
    BOTH,
    LATENCY,
    WAY_COUNT
};

static const struct {
    const char *name, *what;
    enum bench_unit unit;
} ways[WAY_COUNT] = {
    [WRITE] = {"peer_write", "to the other device, by the writer's copy engine",
               BENCH_GB_S},
    [READ] = {"peer_read", "from the other device, by the reader's copy engine",
              BENCH_GB_S},
    [BOTH] = {"peer_both", "both ways at once (both's bytes)", BENCH_GB_S},
    [LATENCY] = {"peer_latency", "8 bytes to the other device, waited for",
                 BENCH_US},
};

static bell_status
run_way(const struct pair *p, enum way way)
{
    struct hcq_queue *mine = p->group->links[p->from][p->to];
    struct hcq_queue *other = p->group->links[p->to][p->from];
    uint64_t there, back;

    if (way == WRITE || way == LATENCY)
        return copy_once(mine, p->seen[0]->va, p->own[0]->va,
                         way == LATENCY ? 8 : p->n_bytes);
    if (way == READ)
        return copy_once(mine, p->own[0]->va, p->seen[0]->va, p->n_bytes);
    /* halves, so that no bytes are written twice */
    BELL_TRY(submit_copy(mine, p->seen[0]->va, p->own[0]->va, p->n_bytes / 2,
                         &there));
    BELL_TRY(submit_copy(other, p->seen[1]->va + p->n_bytes / 2,
                         p->own[1]->va + p->n_bytes / 2, p->n_bytes / 2,
                         &back));
    BELL_TRY(hcq_signal_wait(hcq_queue_timeline(mine), there, BENCH_WAIT_NS));
    return hcq_signal_wait(hcq_queue_timeline(other), back, BENCH_WAIT_NS);
}

static bell_status
time_way(struct bench *b, const struct pair *p, enum way way)
{
    BELL_TRY(run_way(p, way));
    bench_begin(b, ways[way].unit, ways[way].what, "%s_%u_%u", ways[way].name,
                p->from, p->to);
    describe(b, p);
    if (way != LATENCY)
        bench_work(b, 0, (double)p->n_bytes, BENCH_CEILING_NONE);
    while (bench_goes_on(b, 5)) {
        unsigned n = bench_batch(b), i;
        uint64_t start = time_now_ns();

        for (i = 0; i < n; i++)
            BELL_TRY(run_way(p, way));
        bench_sample_batch(b, (double)(time_now_ns() - start), 1);
    }
    bench_end(b);
    return BELL_OK;
}

/* A pattern goes to the other device and must be there. */
static bell_status
check_pair(const struct pair *p)
{
    uint32_t seed = (uint32_t)time_now_ns();
    uint32_t *words = host_alloc(p->n_bytes);
    bell_status status;
    uint64_t i;

    if (!words)
        return bell_fail(BELL_E_NO_MEMORY, "out of memory for a pattern");
    for (i = 0; i < p->n_bytes / 4; i++)
        words[i] = (uint32_t)i * 2654435761u ^ seed;
    status = hcq_buffer_write(p->own[0], 0, words, p->n_bytes);
    if (status == BELL_OK)
        status = run_way(p, WRITE);
    if (status == BELL_OK)
        status = hcq_buffer_read(p->own[1], 0, words, p->n_bytes);
    for (i = 0; status == BELL_OK && i < p->n_bytes / 4; i++) {
        if (words[i] != ((uint32_t)i * 2654435761u ^ seed))
            status = bell_fail(BELL_E_INTERNAL,
                               "copy from device %u to %u: word %llu is %08x, "
                               "not %08x",
                               p->from, p->to, (unsigned long long)i, words[i],
                               (uint32_t)i * 2654435761u ^ seed);
    }
    host_free(words);
    return status;
}

static void
lacks(struct bench *b, const struct pair *p, const char *why)
{
    char name[48];
    unsigned way;

    for (way = 0; way < WAY_COUNT; way++) {
        snprintf(name, sizeof(name), "%s_%u_%u", ways[way].name, p->from,
                 p->to);
        bench_lacks(b, ways[way].unit, ways[way].what, name, why);
    }
}

/* Maps the pair, or tells why they cannot be mapped. */
static bell_status
map_pair(struct pair *p, struct hcq_device_link *link)
{
    struct hcq_device **devs = p->group->devs;

    link->struct_size = sizeof(*link);
    BELL_TRY(hcq_device_get_link(devs[p->from], devs[p->to], link));
    if (link->kind <= HCQ_LINK_HOST)
        return BELL_OK;
    BELL_TRY(hcq_buffer_create(devs[p->from], p->n_bytes, 0, &p->own[0]));
    BELL_TRY(hcq_buffer_create(devs[p->to], p->n_bytes, 0, &p->own[1]));
    BELL_TRY(hcq_buffer_create_peer(devs[p->from], p->own[1], &p->seen[0]));
    return hcq_buffer_create_peer(devs[p->to], p->own[0], &p->seen[1]);
}

static bell_status
measure_pair(struct bench *b, struct pair *p)
{
    struct hcq_device_link link;
    bell_status status = map_pair(p, &link);
    unsigned way;

    if (status == BELL_E_UNSUPPORTED) {
        lacks(b, p, bell_error_last()->message);
        bell_error_clear();
        status = BELL_OK;
    } else if (status == BELL_OK && !p->seen[1]) {
        lacks(b, p, link.reason);
    } else if (status == BELL_OK) {
        status = check_pair(p);
        for (way = 0; status == BELL_OK && way < WAY_COUNT; way++)
            status = time_way(b, p, (enum way)way);
    }
    hcq_buffer_destroy(p->seen[1]);
    hcq_buffer_destroy(p->seen[0]);
    hcq_buffer_destroy(p->own[1]);
    hcq_buffer_destroy(p->own[0]);
    return status;
}

bell_status
bench_peers(struct bench *b)
{
    struct bench_group group;
    bell_status status;
    unsigned i, j;

    BELL_TRY(bench_group_open(b, &group));
    status = BELL_OK;
    for (i = 0; i < group.n; i++) {
        for (j = 0; j < group.n && status == BELL_OK; j++) {
            struct pair p = {.group = &group, .from = i, .to = j};

            p.n_bytes = b->is_small ? 1u << 18 : 1u << 28;
            if (i != j && !bench_is_over(b))
                status = measure_pair(b, &p);
        }
    }
    bench_group_close(&group);
    return status;
}
