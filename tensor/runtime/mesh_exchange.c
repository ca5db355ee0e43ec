/* Collectives between places, by hcq/hcq_collective.h.
 *
 * Each kind and size is one graph with memory of its own on every device: it
 * copies what is given there, exchanges, and copies the results out.
 */
#include <assert.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "tensor/runtime/mesh_places.h"

/* The work of one of them, by which it is found. */
struct exchange_key {
    struct mesh_call call;
    enum uop_dtype dtype;
    uint64_t n_in, n_out;
    uint32_t n_parts; /* more: of a bucket, of that many elements each */
    const uint64_t *part_elems;
};

/* Memory of the caller's that one place gives for a submission, by part. */
struct given_slots {
    uint32_t in[BELL_MESH_PLACES], out[BELL_MESH_PLACES];
};

struct mesh_exchange {
    struct exchange_key key;
    uint64_t *part_elems;      /* owned; the key's */
    struct given_slots *slots; /* owned; by part */
    struct hcq_graph *graph;
    struct hcq_collective *collectives[BELL_MESH_PLACES]; /* one a group */
    uint32_t n_collectives;
    uint64_t n_moved_bytes; /* between places */
    struct hcq_buffer *ins[BELL_MESH_PLACES], *outs[BELL_MESH_PLACES];
};

/* Values that are only moved are bytes. */
static enum hcq_dtype
sum_dtype(enum uop_dtype dtype)
{
    switch ((int)dtype) {
    case UOP_BOOL:
        return HCQ_DTYPE_BOOL;
    case UOP_I8:
        return HCQ_DTYPE_I8;
    case UOP_U8:
        return HCQ_DTYPE_U8;
    case UOP_I32:
    case UOP_U32:
        return HCQ_DTYPE_I32;
    case UOP_I64:
    case UOP_U64:
        return HCQ_DTYPE_I64;
    case UOP_F16:
        return HCQ_DTYPE_F16;
    case UOP_BF16:
        return HCQ_DTYPE_BF16;
    case UOP_F32:
        return HCQ_DTYPE_F32;
    case UOP_F64:
        return HCQ_DTYPE_F64;
    default:
        return HCQ_DTYPE_COUNT;
    }
}

static void
destroy(struct mesh_exchange *e)
{
    uint32_t i;

    if (!e)
        return;
    hcq_graph_destroy(e->graph);
    for (i = 0; i < e->n_collectives; i++)
        hcq_collective_destroy(e->collectives[i]);
    for (i = 0; i < BELL_MESH_PLACES; i++) {
        hcq_buffer_destroy(e->ins[i]);
        hcq_buffer_destroy(e->outs[i]);
    }
    host_free(e->part_elems);
    host_free(e->slots);
    host_free(e);
}

void
mesh_exchange_fini(struct rt_places *places)
{
    size_t i;

    for (i = 0; i < places->n_exchanges; i++)
        destroy(places->exchanges[i]);
    host_free(places->exchanges);
    places->exchanges = NULL;
    places->n_exchanges = 0;
}

static uint64_t
exchange_bytes(const struct exchange_key *key, uint64_t n)
{
    return n * uop_dtype_infos[key->dtype].size_bytes;
}

bell_status
mesh_exchange_add(struct rt_places *places, struct hcq_graph *graph,
                  const struct mesh_call *call, enum uop_dtype dtype,
                  uint64_t n_in, uint64_t n_out, uint32_t first,
                  const struct mesh_side *ins, const struct mesh_side *outs,
                  struct hcq_collective **out)
{
    static const enum hcq_collective_kind kinds[] = {
        [MESH_ALL_REDUCE] = HCQ_COLLECTIVE_ALL_REDUCE,
        [MESH_REDUCE_SCATTER] = HCQ_COLLECTIVE_REDUCE_SCATTER,
        [MESH_ALL_GATHER] = HCQ_COLLECTIVE_ALL_GATHER,
    };
    struct hcq_collective_rank ranks[BELL_MESH_PLACES] = {0};
    bool sums = call->kind != MESH_ALL_GATHER;
    struct hcq_collective_desc desc = {
        .struct_size = sizeof(desc),
        .kind = kinds[call->kind],
        .dtype = sums ? sum_dtype(dtype) : HCQ_DTYPE_U8,
        .name = "mesh",
        .count = sums ? n_out : n_in * uop_dtype_infos[dtype].size_bytes,
        .ranks = ranks,
        .n_ranks = call->size,
        .in_pairs = call->in_pairs,
        .get_program = tensor_sums_get,
        .user = places->sums,
    };
    uint32_t i;

    if (desc.dtype == HCQ_DTYPE_COUNT)
        return bell_fail(BELL_E_UNSUPPORTED,
                         "sums of %s are not made between several devices",
                         uop_dtype_infos[dtype].name);
    for (i = 0; i < call->size; i++) {
        uint32_t p = first + i * call->stride;

        ranks[i] = (struct hcq_collective_rank){.dev = places->list[p]->dev,
                                                .in = ins[p].buf,
                                                .in_offset = ins[p].offset,
                                                .out = outs[p].buf,
                                                .out_offset = outs[p].offset};
    }
    return hcq_collective_add(graph, &desc, out);
}

uint64_t
mesh_exchange_moved(const struct hcq_collective *collective)
{
    struct hcq_collective_info info = {
        .struct_size = offsetof(struct hcq_collective_info, predicted_ns)};

    hcq_collective_get_info(collective, &info);
    return info.total_bytes;
}

static bell_status
add_collective(struct rt_places *places, struct mesh_exchange *e,
               uint32_t first)
{
    struct mesh_side ins[BELL_MESH_PLACES], outs[BELL_MESH_PLACES];
    uint32_t p;

    for (p = 0; p < places->n; p++) {
        ins[p] = (struct mesh_side){e->ins[p], 0};
        outs[p] = (struct mesh_side){e->outs[p], 0};
    }
    BELL_TRY(mesh_exchange_add(places, e->graph, &e->key.call, e->key.dtype,
                               e->key.n_in, e->key.n_out, first, ins, outs,
                               &e->collectives[e->n_collectives]));
    e->n_moved_bytes += mesh_exchange_moved(e->collectives[e->n_collectives]);
    e->n_collectives++;
    return BELL_OK;
}

/* A copy between a place's own memory, from there on, and that of the
 * caller's. */
static uint32_t
add_own_copy(struct rt_places *places, struct mesh_exchange *e, uint32_t p,
             uint32_t part, uint64_t at, uint64_t n_bytes, bool is_out)
{
    struct hcq_device *dev = places->list[p]->dev;
    struct hcq_graph_arg own, given;
    char name[32];
    uint32_t slot;

    snprintf(name, sizeof(name), "%s %u of %u", is_out ? "out" : "in", part, p);
    slot = hcq_graph_slot_on(e->graph, name, n_bytes, dev);
    own = hcq_graph_memory((is_out ? e->outs : e->ins)[p]->va + at, n_bytes,
                           is_out ? HCQ_ACCESS_READ : HCQ_ACCESS_WRITE);
    given = hcq_graph_in_slot(slot, 0, n_bytes,
                              is_out ? HCQ_ACCESS_WRITE : HCQ_ACCESS_READ);
    if (is_out)
        hcq_graph_copy(e->graph, dev, &given, &own, n_bytes);
    else
        hcq_graph_copy(e->graph, dev, &own, &given, n_bytes);
    return slot;
}

/* Copies of all parts, which lie one after the other. */
static void
add_own_copies(struct rt_places *places, struct mesh_exchange *e, bool is_out)
{
    uint64_t at = 0, n_bytes;
    uint32_t i, p;

    for (i = 0; i < e->key.n_parts; i++) {
        n_bytes = exchange_bytes(&e->key, e->key.n_parts > 1 ? e->part_elems[i]
                                          : is_out           ? e->key.n_out
                                                             : e->key.n_in);
        for (p = 0; p < places->n; p++)
            (is_out ? e->slots[i].out : e->slots[i].in)[p] =
                add_own_copy(places, e, p, i, at, n_bytes, is_out);
        at += n_bytes;
    }
}

static bell_status
fill_exchange(struct rt_places *places, struct mesh_exchange *e)
{
    const struct mesh_call *call = &e->key.call;
    struct hcq_queue *queues[BELL_MESH_PLACES];
    struct hcq_graph_desc desc = {.struct_size = sizeof(desc),
                                  .name = "exchange",
                                  .queues = queues,
                                  .n_queues = places->n};
    uint32_t p;

    for (p = 0; p < places->n; p++) {
        struct hcq_device *dev = places->list[p]->dev;

        queues[p] = places->list[p]->queue;
        BELL_TRY(hcq_buffer_create(dev, exchange_bytes(&e->key, e->key.n_in),
                                   HCQ_MEM_DEVICE, &e->ins[p]));
        BELL_TRY(hcq_buffer_create(dev, exchange_bytes(&e->key, e->key.n_out),
                                   HCQ_MEM_DEVICE, &e->outs[p]));
    }
    BELL_TRY(hcq_graph_create(&desc, &e->graph));
    add_own_copies(places, e, false);
    for (p = 0; p < places->n; p++) {
        if (p / call->stride % call->size == 0)
            BELL_TRY(add_collective(places, e, p));
    }
    add_own_copies(places, e, true);
    return hcq_graph_end(e->graph);
}

static bool
is_same_key(const struct exchange_key *a, const struct exchange_key *b)
{
    return a->call.kind == b->call.kind && a->call.size == b->call.size &&
           a->call.stride == b->call.stride &&
           a->call.in_pairs == b->call.in_pairs && a->dtype == b->dtype &&
           a->n_in == b->n_in && a->n_out == b->n_out &&
           a->n_parts == b->n_parts &&
           (a->n_parts == 1 ||
            memcmp(a->part_elems, b->part_elems,
                   a->n_parts * sizeof(*a->part_elems)) == 0);
}

/* Takes its own copy of the sizes. */
static struct mesh_exchange *
create_exchange(const struct exchange_key *key)
{
    struct mesh_exchange *e = host_calloc(1, sizeof(*e));

    if (!e)
        return NULL;
    e->key = *key;
    e->slots = host_calloc(key->n_parts, sizeof(*e->slots));
    e->part_elems = host_calloc(key->n_parts, sizeof(*e->part_elems));
    if (!e->slots || !e->part_elems) {
        destroy(e);
        return NULL;
    }
    if (key->n_parts > 1)
        memcpy(e->part_elems, key->part_elems,
               key->n_parts * sizeof(*e->part_elems));
    e->key.part_elems = e->part_elems;
    return e;
}

static bell_status
find(struct rt_places *places, const struct exchange_key *key,
     struct mesh_exchange **out)
{
    struct mesh_exchange *e;
    bell_status status;
    size_t i;

    for (i = 0; i < places->n_exchanges; i++) {
        *out = places->exchanges[i];
        if (is_same_key(&(*out)->key, key))
            return BELL_OK;
    }
    e = create_exchange(key);
    if (!e || host_grow((void **)&places->exchanges, &places->cap_exchanges,
                        places->n_exchanges + 1,
                        sizeof(struct mesh_exchange *)) != 0) {
        destroy(e);
        return bell_fail(BELL_E_NO_MEMORY, "out of memory for a collective");
    }
    status = fill_exchange(places, e);
    if (status != BELL_OK) {
        destroy(e);
        return status;
    }
    places->exchanges[places->n_exchanges++] = e;
    *out = e;
    return BELL_OK;
}

static void
drop(struct rt_places *places, struct mesh_exchange *e)
{
    struct bell_error_hold hold;
    size_t i = 0;

    while (places->exchanges[i] != e)
        i++;
    places->exchanges[i] = places->exchanges[--places->n_exchanges];
    bell_error_hold(&hold);
    destroy(e);
    bell_error_release(&hold);
}

/* The graph's work is place 0's to wait for; what other places queue behind
 * theirs is in the order of their queues, and an empty submission says what it
 * is waited for by. */
static bell_status
submit_exchange(struct rt_places *places, struct mesh_exchange *e,
                const struct mesh_side *ins, const struct mesh_side *outs)
{
    uint32_t i, p;

    for (i = 0; i < e->key.n_parts; i++, ins += places->n, outs += places->n) {
        for (p = 0; p < places->n; p++) {
            BELL_TRY(hcq_graph_set_buffer(e->graph, e->slots[i].in[p],
                                          ins[p].buf, ins[p].offset));
            BELL_TRY(hcq_graph_set_buffer(e->graph, e->slots[i].out[p],
                                          outs[p].buf, outs[p].offset));
        }
    }
    BELL_TRY(hcq_graph_submit(e->graph, &places->list[0]->last_value));
    for (p = 1; p < places->n; p++) {
        struct hcq_cs *cs;

        BELL_TRY(hcq_queue_begin(places->list[p]->queue, &cs));
        BELL_TRY(hcq_cs_submit(cs, &places->list[p]->last_value));
    }
    places->list[0]->stats.n_exchanges++;
    places->list[0]->stats.exchanged_bytes += e->n_moved_bytes;
    return BELL_OK;
}

static bell_status
run_exchange(struct rt_places *places, const struct exchange_key *key,
             const struct mesh_side *ins, const struct mesh_side *outs)
{
    struct mesh_exchange *e;
    bell_status status;

    assert(key->call.size > 1 && places->n % key->call.size == 0);
    BELL_TRY(find(places, key, &e));
    status = submit_exchange(places, e, ins, outs);
    if (status == BELL_OK)
        return BELL_OK;
    drop(places, e); /* its graph may be broken */
    return status;
}

bell_status
mesh_exchange_run(struct rt_places *places, const struct mesh_call *call,
                  enum uop_dtype dtype, uint64_t n_in, uint64_t n_out,
                  const struct mesh_side *ins, const struct mesh_side *outs)
{
    struct exchange_key key = {*call, dtype, n_in, n_out, 1, NULL};

    return run_exchange(places, &key, ins, outs);
}

bell_status
mesh_exchange_run_bucket(struct rt_places *places, const struct mesh_call *call,
                         enum uop_dtype dtype, const uint64_t *part_elems,
                         uint32_t n_parts, const struct mesh_side *ins,
                         const struct mesh_side *outs)
{
    struct exchange_key key = {*call, dtype, 0, 0, n_parts, part_elems};
    uint32_t i;

    for (i = 0; i < n_parts; i++)
        key.n_in += part_elems[i];
    key.n_out = key.n_in;
    return run_exchange(places, &key, ins, outs);
}
