/* Devices and memory of collectives under test, and plain loops. */
#include "collective_rig.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/unit/expect.h"

uint64_t
rig_random(uint64_t *state)
{
    uint64_t x = *state += 0x9e3779b97f4a7c15ull;

    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9ull;
    x = (x ^ x >> 27) * 0x94d049bb133111ebull;
    return x ^ x >> 31;
}

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

void
rig_open(struct fleet *rig, const char *list, uint32_t n, uint64_t most_bytes,
         bool copy_queues)
{
    char name[HCQ_NAME_MAX];
    uint32_t i;

    memset(rig, 0, sizeof(*rig));
    rig->n = n;
    rig->side_bytes = most_bytes + 3 * RIG_GUARD;
    expect_ok(tensor_sums_create(&rig->sums));
    rig->got = malloc(rig->side_bytes);
    assert_non_null(rig->got);
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
        rig->wanted[i] = malloc(rig->side_bytes);
        assert_true(rig->inputs[i] && rig->wanted[i]);
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
        free(rig->wanted[i]);
    }
    for (i = 0; i < (rig->is_one ? 1 : rig->n); i++)
        hcq_device_close(rig->devs[i]);
    free(rig->got);
}

/* ---- numbers ------------------------------------------------------------- */

static float
float_of(uint32_t bits)
{
    float x;

    memcpy(&x, &bits, sizeof(x));
    return x;
}

static uint32_t
bits_of(float x)
{
    uint32_t bits;

    memcpy(&bits, &x, sizeof(bits));
    return bits;
}

static float
from_half(uint16_t h)
{
    uint32_t sign = (uint32_t)(h & 0x8000u) << 16, e = h >> 10 & 31,
             m = h & 0x3ffu;

    if (e == 0) /* m * 2^-24, exact */
        return float_of(sign | bits_of((float)m * float_of(0x33800000)));
    return float_of(sign | (e == 31 ? 255 : e + 112) << 23 | m << 13);
}

/* To nearest, ties to even: by the value halfway to the next number. */
static uint16_t
to_half(float x)
{
    uint16_t sign = (uint16_t)(bits_of(x) >> 16 & 0x8000u);
    double a = x < 0 ? -(double)x : (double)x;
    uint32_t low = 0, high = 0x7c00;

    while (high - low > 1) { /* low <= a < high */
        uint32_t mid = (low + high) / 2;
        double v = mid == 0x7c00 ? 65536.0 : (double)from_half((uint16_t)mid);

        if (v <= a)
            low = mid;
        else
            high = mid;
    }
    {
        double down = (double)from_half((uint16_t)low);
        double up =
            high == 0x7c00 ? 65536.0 : (double)from_half((uint16_t)high);

        if (a - down > up - a || (a - down == up - a && (low & 1)))
            low = high;
    }
    return (uint16_t)(sign | low);
}

static uint16_t
to_bfloat(float x)
{
    uint32_t bits = bits_of(x);

    return (uint16_t)((bits + 0x7fffu + (bits >> 16 & 1)) >> 16);
}

/* Floats of both signs, of sizes from 2^-6 to 2^6, and whole words. `whole`:
 * floats are so too, and so few that sums in any order are the same. */
static void
fill_random(enum hcq_dtype dtype, uint8_t *bytes, uint64_t n, bool whole,
            uint64_t *state)
{
    uint32_t size = hcq_dtype_bytes(dtype);
    uint64_t i;

    for (i = 0; i < n; i++) {
        uint64_t r = rig_random(state);
        float x = float_of((uint32_t)(r & 0x807fffffu) |
                           (uint32_t)(121 + (r >> 32) % 12) << 23);
        double d = (double)x * (1 + (double)(r >> 40) * 0x1p-60);
        uint16_t h;

        if (whole) {
            x = (float)(int)(r >> 32 & 31) - 15;
            d = (double)x;
        }

        switch (dtype) {
        case HCQ_DTYPE_BOOL:
            bytes[i] = r % 4 == 0;
            continue;
        case HCQ_DTYPE_F16:
            h = to_half(x);
            memcpy(bytes + i * size, &h, 2);
            continue;
        case HCQ_DTYPE_BF16:
            h = to_bfloat(x);
            memcpy(bytes + i * size, &h, 2);
            continue;
        case HCQ_DTYPE_F32:
            memcpy(bytes + i * size, &x, 4);
            continue;
        case HCQ_DTYPE_F64:
            memcpy(bytes + i * size, &d, 8);
            continue;
        case HCQ_DTYPE_I8:
        case HCQ_DTYPE_U8:
        case HCQ_DTYPE_I32:
        case HCQ_DTYPE_I64:
        case HCQ_DTYPE_COUNT:
            break;
        }
        memcpy(bytes + i * size, &r, size);
    }
}

/* Element i of the sum of all inputs, from `at` of each on. */
static void
sum_element(const struct fleet *rig, enum hcq_dtype dtype, uint64_t at,
            uint8_t *to)
{
    uint32_t size = hcq_dtype_bytes(dtype), r;
    uint64_t whole = 0, word;
    bool any = false;
    float f = 0;
    double d = 0;
    uint16_t h;

    for (r = 0; r < rig->n; r++) {
        const uint8_t *from = rig->inputs[r] + at;
        float x = 0;
        double y = 0;

        word = 0;
        memcpy(&word, from, size);
        whole += word;
        any |= word != 0;
        if (dtype == HCQ_DTYPE_F16)
            x = from_half((uint16_t)word);
        else if (dtype == HCQ_DTYPE_BF16)
            x = float_of((uint32_t)word << 16);
        else if (dtype == HCQ_DTYPE_F32)
            x = float_of((uint32_t)word);
        else if (dtype == HCQ_DTYPE_F64)
            memcpy(&y, from, 8);
        f = r ? f + x : x;
        d = r ? d + y : y;
    }
    if (dtype == HCQ_DTYPE_BOOL)
        whole = any;
    if (dtype == HCQ_DTYPE_F16 || dtype == HCQ_DTYPE_BF16) {
        h = dtype == HCQ_DTYPE_F16 ? to_half(f) : to_bfloat(f);
        memcpy(to, &h, 2);
    } else if (dtype == HCQ_DTYPE_F32) {
        memcpy(to, &f, 4);
    } else if (dtype == HCQ_DTYPE_F64) {
        memcpy(to, &d, 8);
    } else {
        memcpy(to, &whole, size);
    }
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

/* What block `b` of rank r's output should be, to `to`. */
static void
expect_block(const struct fleet *rig, const struct rig_case *c,
             const struct hcq_collective_rank *ranks, uint32_t r, uint64_t b,
             uint8_t *to)
{
    uint64_t n_bytes = block_bytes(c), i;
    uint32_t size = hcq_dtype_bytes(c->dtype), from = r;
    uint64_t at = 0;

    switch (c->kind) {
    case HCQ_COLLECTIVE_ALL_REDUCE:
    case HCQ_COLLECTIVE_REDUCE_SCATTER:
        at = c->kind == HCQ_COLLECTIVE_REDUCE_SCATTER ? r * n_bytes : 0;
        for (i = 0; i < c->count; i++)
            sum_element(rig, c->dtype, ranks[0].in_offset + at + i * size,
                        to + i * size);
        return;
    case HCQ_COLLECTIVE_ALL_GATHER:
    case HCQ_COLLECTIVE_GATHER:
        from = (uint32_t)b;
        break;
    case HCQ_COLLECTIVE_BROADCAST:
    case HCQ_COLLECTIVE_SEND:
        from = c->root;
        break;
    case HCQ_COLLECTIVE_ALL_TO_ALL:
        from = (uint32_t)b;
        at = r * n_bytes;
        break;
    case HCQ_COLLECTIVE_SCATTER:
        from = c->root;
        at = r * n_bytes;
        break;
    case HCQ_COLLECTIVE_KIND_COUNT:
        fail();
    }
    memcpy(to, rig->inputs[from] + ranks[from].in_offset + at, n_bytes);
}

void
rig_write(struct fleet *rig)
{
    uint32_t r;

    memset(rig->got, RIG_POISON, rig->side_bytes);
    for (r = 0; r < rig->n; r++) {
        expect_ok(
            hcq_buffer_write(rig->in[r], 0, rig->inputs[r], rig->side_bytes));
        expect_ok(hcq_buffer_write(rig->out[r], 0, rig->got, rig->side_bytes));
    }
}

void
rig_prepare(struct fleet *rig, const struct rig_case *c)
{
    struct hcq_collective_rank ranks[RIG_RANKS_MAX];
    struct hcq_collective_desc desc;
    uint64_t state = c->seed, b;
    uint32_t r;

    rig_describe(rig, c, ranks, &desc);
    for (r = 0; r < rig->n; r++) {
        memset(rig->inputs[r], RIG_POISON, rig->side_bytes);
        if (ranks[r].in)
            fill_random(c->dtype, rig->inputs[r] + ranks[r].in_offset,
                        in_blocks(rig, c) * c->count,
                        c->by == HCQ_COLLECTIVE_NVLS, &state);
        memset(rig->wanted[r], RIG_POISON, rig->side_bytes);
    }
    rig_write(rig);
    for (r = 0; r < rig->n; r++) {
        if (ranks[r].out && ranks[r].out == rig->in[r])
            memcpy(rig->wanted[r], rig->inputs[r], rig->side_bytes);
        for (b = 0; ranks[r].out && b < out_blocks(rig, c); b++)
            expect_block(rig, c, ranks, r, b,
                         rig->wanted[r] + ranks[r].out_offset +
                             b * block_bytes(c));
    }
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

static void
check_buffer(struct fleet *rig, const struct rig_case *c,
             struct hcq_buffer *buf, const uint8_t *wanted, uint32_t r,
             const char *what)
{
    uint64_t i;

    expect_ok(hcq_buffer_read(buf, 0, rig->got, rig->side_bytes));
    if (memcmp(rig->got, wanted, rig->side_bytes) == 0)
        return;
    for (i = 0; rig->got[i] == wanted[i]; i++)
        continue;
    fail_msg("%s: %s by %s of %u x %llu %s%s, root %u, offset %llu: rank %u, "
             "%s, byte %lld of a side: 0x%02x, not 0x%02x",
             what, hcq_collective_kind_name(c->kind),
             hcq_collective_algorithm_name(c->by), rig->n,
             (unsigned long long)c->count, hcq_dtype_name(c->dtype),
             c->in_place ? " in place" : "", c->root,
             (unsigned long long)c->offset, r,
             buf == rig->in[r] ? "input" : "output",
             (long long)i - RIG_GUARD - (long long)c->offset, rig->got[i],
             wanted[i]);
}

void
rig_check(struct fleet *rig, const struct rig_case *c, const char *what)
{
    struct hcq_collective_rank ranks[RIG_RANKS_MAX];
    struct hcq_collective_desc desc;
    uint32_t r;

    rig_describe(rig, c, ranks, &desc);
    for (r = 0; r < rig->n; r++) {
        bool is_own = ranks[r].out && ranks[r].out == rig->in[r];

        check_buffer(rig, c, rig->in[r],
                     is_own ? rig->wanted[r] : rig->inputs[r], r, what);
        if (is_own)
            continue;
        check_buffer(rig, c, rig->out[r], rig->wanted[r], r, what);
    }
}
