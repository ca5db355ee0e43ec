/* Devices and memory of collectives under test, and plain loops. */
#include "collective_rig.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "collective_numbers.h"
#include "tests/unit/expect.h"

#define LOOK_BYTES (4u << 20)

/* ---- devices ------------------------------------------------------------- */

static void
name_device(const char *list, uint32_t i, char name[HCQ_NAME_MAX])
{
    const char *star = strchr(list, '*'), *comma;
    uint32_t k;

    if (star && star > list && star[-1] == ':') {
        snprintf(name, HCQ_NAME_MAX, "%.*s%u%s", (int)(star - list), list, i,
                 star + 1);
        return;
    }
    for (k = 0; k < i && strchr(list, ','); k++)
        list = strchr(list, ',') + 1;
    comma = strchr(list, ',');
    snprintf(name, HCQ_NAME_MAX, "%.*s",
             comma ? (int)(comma - list) : (int)strlen(list), list);
}

/* One GPU's name for all of them would open it n times, and no link would be
 * used. */
static void
check_list(const char *list, uint32_t n)
{
    uint32_t n_names = 1;
    const char *c;

    if (list[0] == '=' || strstr(list, ":*") || strcmp(list, "CPU") == 0)
        return;
    for (c = list; (c = strchr(c, ',')) != NULL; c++)
        n_names++;
    if (n_names != n)
        fail_msg("%s: expected %u names, or one with \":*\", got %u", list, n,
                 n_names);
}

void
rig_open(struct fleet *rig, const char *list, uint32_t n, uint64_t most_bytes,
         bool copy_queues)
{
    char name[HCQ_NAME_MAX];
    uint32_t i;

    check_list(list, n);
    memset(rig, 0, sizeof(*rig));
    rig->n = n;
    rig->side_bytes = most_bytes + 3 * RIG_GUARD;
    expect_ok(tensor_sums_create(&rig->sums));
    rig->got = malloc(rig->side_bytes);
    rig->sum = malloc(rig->side_bytes);
    rig->poison = malloc(rig->side_bytes);
    assert_true(rig->got && rig->sum && rig->poison);
    memset(rig->poison, RIG_POISON, rig->side_bytes);
    rig->is_one = list[0] == '=';
    for (i = 0; i < n; i++) {
        if (rig->is_one && i > 0) {
            rig->devs[i] = rig->devs[0];
        } else {
            name_device(list + rig->is_one, i, name);
            expect_ok(hcq_device_open(name, &rig->devs[i]));
            expect_ok(hcq_queue_create(rig->devs[i], HCQ_QUEUE_COMPUTE,
                                       &rig->queues[rig->n_queues++]));
        }
        if (copy_queues && (i == 0 || !rig->is_one))
            expect_ok(hcq_queue_create(rig->devs[i], HCQ_QUEUE_COPY,
                                       &rig->queues[rig->n_queues++]));
        expect_ok(
            hcq_buffer_create(rig->devs[i], rig->side_bytes, 0, &rig->in[i]));
        expect_ok(
            hcq_buffer_create(rig->devs[i], rig->side_bytes, 0, &rig->out[i]));
        rig->inputs[i] = malloc(rig->side_bytes);
        assert_non_null(rig->inputs[i]);
    }
}

/* Memory as another device sees it. */
struct rig_peer {
    struct rig_peer *next;
    struct hcq_buffer *of, *peer;
};

static struct hcq_buffer *
find_peer(struct fleet *rig, struct hcq_device *dev, struct hcq_buffer *of)
{
    struct rig_peer *at;

    for (at = rig->peers; at; at = at->next) {
        if (at->of == of && at->peer->dev == dev)
            return at->peer;
    }
    at = calloc(1, sizeof(*at));
    assert_non_null(at);
    expect_ok(hcq_buffer_create_peer(dev, of, &at->peer));
    at->of = of;
    at->next = rig->peers;
    rig->peers = at;
    return at->peer;
}

void
rig_swap(struct fleet *rig)
{
    uint32_t r;

    for (r = 0; r < rig->n; r++) {
        struct hcq_buffer *in = rig->in[r], *out = rig->out[r];

        if (!rig->spare_in[r]) {
            expect_ok(hcq_buffer_create(rig->devs[r], rig->side_bytes, 0,
                                        &rig->spare_in[r]));
            expect_ok(hcq_buffer_create(rig->devs[r], rig->side_bytes, 0,
                                        &rig->spare_out[r]));
        }
        rig->in[r] = rig->spare_in[r];
        rig->out[r] = rig->spare_out[r];
        rig->spare_in[r] = in;
        rig->spare_out[r] = out;
    }
}

void
rig_close(struct fleet *rig)
{
    struct rig_peer *peer;
    uint32_t i;

    tensor_sums_destroy(rig->sums);
    for (i = 0; i < rig->n_queues; i++)
        hcq_queue_destroy(rig->queues[i]);
    while ((peer = rig->peers) != NULL) {
        rig->peers = peer->next;
        hcq_buffer_destroy(peer->peer);
        free(peer);
    }
    for (i = 0; i < rig->n; i++) {
        hcq_buffer_destroy(rig->in[i]);
        hcq_buffer_destroy(rig->out[i]);
        hcq_buffer_destroy(rig->spare_in[i]);
        hcq_buffer_destroy(rig->spare_out[i]);
        free(rig->inputs[i]);
    }
    for (i = 0; i < (rig->is_one ? 1 : rig->n); i++)
        hcq_device_close(rig->devs[i]);
    free(rig->got);
    free(rig->sum);
    free(rig->poison);
}

/* ---- sides --------------------------------------------------------------- */

static bool
has_in(const struct rig_case *c, uint32_t r)
{
    return (c->kind != HCQ_COLLECTIVE_BROADCAST &&
            c->kind != HCQ_COLLECTIVE_SCATTER &&
            c->kind != HCQ_COLLECTIVE_SEND) ||
           r == c->root;
}

static bool
has_out(const struct rig_case *c, uint32_t r)
{
    if (c->kind == HCQ_COLLECTIVE_GATHER)
        return r == c->root;
    return c->kind != HCQ_COLLECTIVE_SEND || r == c->target;
}

static uint64_t
in_blocks(const struct fleet *rig, const struct rig_case *c)
{
    return c->kind == HCQ_COLLECTIVE_REDUCE_SCATTER ||
                   c->kind == HCQ_COLLECTIVE_ALL_TO_ALL ||
                   c->kind == HCQ_COLLECTIVE_SCATTER
               ? rig->n
               : 1;
}

static uint64_t
out_blocks(const struct fleet *rig, const struct rig_case *c)
{
    return c->kind == HCQ_COLLECTIVE_ALL_GATHER ||
                   c->kind == HCQ_COLLECTIVE_ALL_TO_ALL ||
                   c->kind == HCQ_COLLECTIVE_GATHER
               ? rig->n
               : 1;
}

static uint64_t
block_bytes(const struct rig_case *c)
{
    return c->count * hcq_dtype_bytes(c->dtype);
}

/* In place the smaller side is the rank's block of the larger one, which lies
 * in `in`. */
static uint64_t
side_at(const struct fleet *rig, const struct rig_case *c, uint32_t r, bool out)
{
    uint64_t at = RIG_GUARD + c->offset;
    uint64_t mine = out ? out_blocks(rig, c) : in_blocks(rig, c);
    uint64_t other = out ? in_blocks(rig, c) : out_blocks(rig, c);

    return c->in_place && mine < other ? at + r * block_bytes(c) : at;
}

void
rig_describe(struct fleet *rig, const struct rig_case *c,
             struct hcq_collective_rank *ranks,
             struct hcq_collective_desc *out_desc)
{
    uint32_t r;

    for (r = 0; r < rig->n; r++) {
        bool both = has_in(c, r) && has_out(c, r);

        ranks[r] = (struct hcq_collective_rank){
            .dev = rig->devs[r],
            .in = has_in(c, r) ? rig->in[r] : NULL,
            .out = !has_out(c, r)        ? NULL
                   : c->in_place && both ? rig->in[r]
                                         : rig->out[r],
            .in_offset =
                both ? side_at(rig, c, r, false) : RIG_GUARD + c->offset,
            .out_offset =
                both ? side_at(rig, c, r, true) : RIG_GUARD + c->offset,
        };
    }
    *out_desc = (struct hcq_collective_desc){
        .struct_size = sizeof(*out_desc),
        .kind = c->kind,
        .algorithm = c->by,
        .dtype = c->dtype,
        .name = "test",
        .count = c->count,
        .ranks = ranks,
        .n_ranks = rig->n,
        .root = c->root,
        .target = c->target,
        .get_program = tensor_sums_get,
        .user = rig->sums,
    };
}

/* The expected block `b` of rank r's output. */
static const uint8_t *
wanted_block(const struct fleet *rig, const struct rig_case *c,
             const struct hcq_collective_rank *ranks, uint32_t r, uint32_t b)
{
    uint64_t at = r * block_bytes(c);

    switch (c->kind) {
    case HCQ_COLLECTIVE_ALL_REDUCE:
        return rig->sum + ranks[0].in_offset;
    case HCQ_COLLECTIVE_REDUCE_SCATTER:
        return rig->sum + ranks[0].in_offset + at;
    case HCQ_COLLECTIVE_ALL_GATHER:
    case HCQ_COLLECTIVE_GATHER:
        return rig->inputs[b] + ranks[b].in_offset;
    case HCQ_COLLECTIVE_BROADCAST:
    case HCQ_COLLECTIVE_SEND:
        return rig->inputs[c->root] + ranks[c->root].in_offset;
    case HCQ_COLLECTIVE_ALL_TO_ALL:
        return rig->inputs[b] + ranks[b].in_offset + at;
    case HCQ_COLLECTIVE_SCATTER:
        return rig->inputs[c->root] + ranks[c->root].in_offset + at;
    case HCQ_COLLECTIVE_KIND_COUNT:
        break;
    }
    fail();
    return NULL;
}

void
rig_poison(struct fleet *rig)
{
    uint32_t r;

    for (r = 0; r < rig->n; r++)
        expect_ok(
            hcq_buffer_write(rig->out[r], 0, rig->poison, rig->side_bytes));
}

void
rig_write(struct fleet *rig)
{
    uint32_t r;

    for (r = 0; r < rig->n; r++)
        expect_ok(
            hcq_buffer_write(rig->in[r], 0, rig->inputs[r], rig->side_bytes));
    rig_poison(rig);
}

static bool
is_float(enum hcq_dtype dtype)
{
    return dtype == HCQ_DTYPE_F16 || dtype == HCQ_DTYPE_BF16 ||
           dtype == HCQ_DTYPE_F32 || dtype == HCQ_DTYPE_F64;
}

bool
rig_has(const struct fleet *rig, const struct rig_case *c)
{
    bool whole = c->by == HCQ_COLLECTIVE_NVLS && is_float(c->dtype);

    return rig->has_numbers && rig->dtype == c->dtype && rig->seed == c->seed &&
           rig->is_whole == whole;
}

void
rig_prepare(struct fleet *rig, const struct rig_case *c)
{
    uint64_t state = c->seed;
    uint32_t r;

    if (!rig_has(rig, c)) {
        rig->has_numbers = true;
        rig->dtype = c->dtype;
        rig->seed = c->seed;
        rig->is_whole = c->by == HCQ_COLLECTIVE_NVLS && is_float(c->dtype);
        for (r = 0; r < rig->n; r++)
            numbers_fill(c->dtype, rig->is_whole, rig->inputs[r],
                         rig->side_bytes, &state);
        numbers_sum(c->dtype, rig->inputs, rig->n, rig->side_bytes, rig->sum);
    }
    rig_write(rig);
}

/* A slot begins with the guard's end. */
static void
take_slots(struct fleet *rig, const struct rig_case *c, struct hcq_graph *graph,
           struct hcq_collective_rank *ranks)
{
    uint64_t n_bytes = rig->side_bytes - RIG_GUARD;
    char name[HCQ_NAME_MAX];
    uint32_t r;

    for (r = 0; r < rig->n; r++) {
        bool is_one = ranks[r].in == ranks[r].out;

        if (ranks[r].in && c->slots & RIG_IN_SLOTS) {
            snprintf(name, sizeof(name), "in %u", r);
            ranks[r].has_in_slot = true;
            ranks[r].in_slot =
                hcq_graph_slot_on(graph, name, n_bytes, rig->devs[r]);
            ranks[r].in_offset -= RIG_GUARD;
            ranks[r].in = NULL;
        }
        if (ranks[r].out && c->slots & RIG_OUT_SLOTS) {
            snprintf(name, sizeof(name), "out %u", r);
            ranks[r].has_out_slot = true;
            ranks[r].out_slot =
                is_one ? ranks[r].in_slot
                       : hcq_graph_slot_on(graph, name, n_bytes, rig->devs[r]);
            ranks[r].out_offset -= RIG_GUARD;
            ranks[r].out = NULL;
        }
    }
}

/* Views of the other devices first: the order is any. */
static void
bind_side(struct fleet *rig, struct hcq_graph *graph,
          const struct hcq_collective *collective, uint32_t r, bool is_output,
          struct hcq_buffer *buf)
{
    char name[HCQ_NAME_MAX];
    uint32_t q, slot;

    for (q = 0; q < rig->n; q++) {
        slot = hcq_collective_view(collective, r, is_output, q);
        if (slot != HCQ_SLOT_NONE && rig->devs[q] != rig->devs[r])
            expect_ok(hcq_graph_set_buffer(
                graph, slot, find_peer(rig, rig->devs[q], buf), RIG_GUARD));
    }
    snprintf(name, sizeof(name), "%s %u", is_output ? "out" : "in", r);
    slot = hcq_graph_find_slot(graph, name);
    if (slot != HCQ_SLOT_NONE)
        expect_ok(hcq_graph_set_buffer(graph, slot, buf, RIG_GUARD));
}

void
rig_bind(struct fleet *rig, const struct rig_case *c, struct hcq_graph *graph,
         const struct hcq_collective *collective)
{
    uint32_t r;

    for (r = 0; r < rig->n; r++) {
        if (c->slots & RIG_IN_SLOTS)
            bind_side(rig, graph, collective, r, false, rig->in[r]);
        if (c->slots & RIG_OUT_SLOTS)
            bind_side(rig, graph, collective, r, true,
                      c->in_place && has_in(c, r) && has_out(c, r)
                          ? rig->in[r]
                          : rig->out[r]);
    }
}

void
rig_build(struct fleet *rig, const struct rig_case *c,
          struct hcq_graph **out_graph, struct hcq_collective **out_collective)
{
    const struct hcq_graph_desc graph_desc = {
        .struct_size = sizeof(graph_desc),
        .name = "collective",
        .queues = rig->queues,
        .n_queues = rig->n_queues,
    };
    struct hcq_collective_rank ranks[RIG_RANKS_MAX];
    struct hcq_collective_desc desc;

    rig_describe(rig, c, ranks, &desc);
    expect_ok(hcq_graph_create(&graph_desc, out_graph));
    take_slots(rig, c, *out_graph, ranks);
    expect_ok(hcq_collective_add(*out_graph, &desc, out_collective));
    expect_ok(hcq_graph_end(*out_graph));
}

/* The bytes that a buffer should have: blocks, and the rest around them. */
struct wanted {
    const uint8_t *rest;
    const uint8_t *blocks[RIG_RANKS_MAX];
    uint64_t at, n_bytes; /* the first block's begin, each one's size */
    uint32_t n;
};

/* The bytes from i on, and how many there are in one piece. */
static const uint8_t *
wanted_from(const struct wanted *w, uint64_t i, uint64_t side_bytes,
            uint64_t *out_n)
{
    uint64_t end = w->at + w->n * w->n_bytes, in;

    if (i < w->at || i >= end) {
        *out_n = (i < w->at && end > w->at ? w->at : side_bytes) - i;
        return w->rest + i;
    }
    in = (i - w->at) % w->n_bytes;
    *out_n = w->n_bytes - in;
    return w->blocks[(i - w->at) / w->n_bytes] + in;
}

static void
fail_at(const struct fleet *rig, const struct rig_case *c, uint64_t i,
        uint8_t got, uint8_t want, uint32_t r, const char *side,
        const char *what)
{
    fail_msg("%s: %s by %s of %u x %llu %s%s, root %u, offset %llu: rank %u, "
             "%s, byte %lld of a side: 0x%02x, not 0x%02x",
             what, hcq_collective_kind_name(c->kind),
             hcq_collective_algorithm_name(c->by), rig->n,
             (unsigned long long)c->count, hcq_dtype_name(c->dtype),
             c->in_place ? " in place" : "", c->root,
             (unsigned long long)c->offset, r, side,
             (long long)i - RIG_GUARD - (long long)c->offset, got, want);
}

/* A few MiB of the memory: where the host has it, or read, into its caches. */
static const uint8_t *
look_at(struct fleet *rig, struct hcq_buffer *buf, uint64_t at, uint64_t n)
{
    if (buf->host)
        return (const uint8_t *)buf->host + at;
    expect_ok(hcq_buffer_read(buf, at, rig->got, n));
    return rig->got;
}

static void
check_buffer(struct fleet *rig, const struct rig_case *c,
             struct hcq_buffer *buf, const struct wanted *w, uint32_t r,
             const char *what)
{
    uint64_t at, left = 0, i, k, n;
    const uint8_t *got = NULL;

    for (at = 0; at < rig->side_bytes; at += n, got += n, left -= n) {
        const uint8_t *want = wanted_from(w, at, rig->side_bytes, &n);

        if (left == 0) {
            left = rig->side_bytes - at;
            left = left < LOOK_BYTES ? left : LOOK_BYTES;
            got = look_at(rig, buf, at, left);
        }
        n = n < left ? n : left;
        if (memcmp(got, want, n) == 0)
            continue;
        for (k = 0; got[k] == want[k]; k++)
            continue;
        i = at + k;
        fail_at(rig, c, i, got[k], want[k], r,
                buf == rig->in[r] ? "input" : "output", what);
    }
}

void
rig_check(struct fleet *rig, const struct rig_case *c, const char *what)
{
    struct hcq_collective_rank ranks[RIG_RANKS_MAX];
    struct hcq_collective_desc desc;
    uint32_t r, b;

    rig_describe(rig, c, ranks, &desc);
    for (r = 0; r < rig->n; r++) {
        bool is_own = ranks[r].out && ranks[r].out == rig->in[r];
        struct wanted in = {.rest = rig->inputs[r]};
        struct wanted out = {.rest = is_own ? rig->inputs[r] : rig->poison};

        if (ranks[r].out && block_bytes(c)) {
            out.at = ranks[r].out_offset;
            out.n_bytes = block_bytes(c);
            out.n = (uint32_t)out_blocks(rig, c);
            for (b = 0; b < out.n; b++)
                out.blocks[b] = wanted_block(rig, c, ranks, r, b);
        }
        check_buffer(rig, c, rig->in[r], is_own ? &out : &in, r, what);
        if (!is_own)
            check_buffer(rig, c, rig->out[r], &out, r, what);
    }
}
