/* See mesh_tape.h. */
#include "tensor/runtime/mesh_tape.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "hcq/hcq_graph.h"
#include "tensor/core/tensor_internal.h"

/* A side of a collective that is in a slot is copied from or to memory of its
 * own: peers of that are made once. */
struct copied_side {
    struct hcq_buffer *bufs[BELL_MESH_PLACES]; /* owned */
    uint64_t n_bytes;
};

struct slot {
    uint64_t size_bytes;                /* 0: it is not used */
    uint32_t numbers[BELL_MESH_PLACES]; /* of the graph's */
};

struct mesh_tape {
    struct tensor_runtime *rt;
    struct hcq_graph *graph;
    struct hcq_buffer *own[BELL_MESH_PLACES]; /* owned */
    struct slot *slots;                       /* owned */
    uint32_t n_slots;
    struct copied_side *sides; /* owned */
    size_t n_sides, cap_sides;
    struct hcq_collective **collectives; /* owned */
    size_t n_collectives, cap_collectives;
    uint64_t n_launches;
    uint64_t n_exchanges, n_moved_bytes; /* between places */
    double n_flops, n_bytes;             /* of all launches */
};

bell_status
mesh_tape_create(struct tensor_runtime *rt, uint32_t n_slots,
                 uint64_t own_bytes, struct mesh_tape **out_tape)
{
    struct mesh_tape *tape = host_calloc(1, sizeof(*tape));
    bell_status status = BELL_OK;
    uint64_t busy;
    uint32_t p;

    if (tape)
        tape->slots = host_calloc((size_t)n_slots + 1, sizeof(*tape->slots));
    if (!tape || !tape->slots) {
        host_free(tape);
        return bell_fail(BELL_E_NO_MEMORY, "out of memory for %u slots",
                         n_slots);
    }
    tape->rt = rt;
    tape->n_slots = n_slots;
    for (p = 0; own_bytes && p < rt->places->n && status == BELL_OK; p++)
        status = rt_memory_create(rt->places->list[p], own_bytes, &tape->own[p],
                                  &busy);
    if (status != BELL_OK) {
        mesh_tape_destroy(tape);
        return status;
    }
    *out_tape = tape;
    return BELL_OK;
}

void
mesh_tape_destroy(struct mesh_tape *tape)
{
    size_t i;
    uint32_t p;

    if (!tape)
        return;
    hcq_graph_destroy(tape->graph);
    for (i = 0; i < tape->n_collectives; i++)
        hcq_collective_destroy(tape->collectives[i]);
    for (i = 0; i < tape->n_sides; i++) {
        for (p = 0; p < tape->rt->places->n; p++)
            hcq_buffer_destroy(tape->sides[i].bufs[p]);
    }
    for (p = 0; p < tape->rt->places->n; p++)
        rt_bury(tape->rt->places->list[p], tape->own[p]);
    host_free(tape->collectives);
    host_free(tape->sides);
    host_free(tape->slots);
    host_free(tape);
}

/* ---- building ------------------------------------------------------------ */

void
mesh_tape_note(struct mesh_tape *tape, const struct rt_arg *arg)
{
    uint64_t end = arg->value + arg->size_bytes;

    if (!arg->size_bytes || arg->slot == RT_SLOT_NONE)
        return;
    assert(arg->slot < tape->n_slots);
    if (end > tape->slots[arg->slot].size_bytes)
        tape->slots[arg->slot].size_bytes = end;
}

bell_status
mesh_tape_begin(struct mesh_tape *tape)
{
    struct rt_places *places = tape->rt->places;
    struct hcq_queue *queues[BELL_MESH_PLACES];
    struct hcq_graph_desc desc = {.struct_size = sizeof(desc),
                                  .name = "mesh",
                                  .queues = queues,
                                  .n_queues = places->n};
    char name[32];
    uint32_t i, p;

    for (p = 0; p < places->n; p++)
        queues[p] = places->list[p]->queue;
    BELL_TRY(hcq_graph_create(&desc, &tape->graph));
    for (i = 0; i < tape->n_slots; i++) {
        struct slot *slot = &tape->slots[i];

        for (p = 0; slot->size_bytes && p < places->n; p++) {
            snprintf(name, sizeof(name), "slot %u of %u", i, p);
            slot->numbers[p] = hcq_graph_slot_on(
                tape->graph, name, slot->size_bytes, places->list[p]->dev);
        }
    }
    return BELL_OK;
}

static struct hcq_buffer *
memory_at(const struct tensor_buffer *buf, uint32_t place)
{
    return place ? buf->others[place - 1] : buf->device_mem;
}

static struct hcq_graph_arg
graph_arg(const struct mesh_tape *tape, const struct rt_arg *arg,
          uint32_t place)
{
    uint32_t access = HCQ_ACCESS_READ;
    uint64_t va;

    if (!arg->size_bytes)
        return hcq_graph_word(arg->words ? arg->words[place] : arg->value);
    if (arg->is_written)
        access |= HCQ_ACCESS_WRITE; /* some read it first */
    if (arg->slot != RT_SLOT_NONE)
        return hcq_graph_in_slot(tape->slots[arg->slot].numbers[place],
                                 arg->value, arg->size_bytes, access);
    va = arg->buf ? memory_at(arg->buf, place)->va : tape->own[place]->va;
    return hcq_graph_memory(va + arg->value, arg->size_bytes, access);
}

bell_status
mesh_tape_kernel(struct mesh_tape *tape, uint32_t kernel,
                 const struct rt_arg *args, uint32_t n_args)
{
    const struct rt_kernel *k = &tape->rt->kernel_list[kernel];
    uint32_t n_places = tape->rt->places->n, p, i;
    struct hcq_graph_arg list[SCHED_MAX_PARAMS];

    assert(n_args <= SCHED_MAX_PARAMS && k->n_others == n_places - 1);
    for (p = 0; p < n_places; p++) {
        for (i = 0; i < n_args; i++)
            list[i] = graph_arg(tape, &args[i], p);
        hcq_graph_exec(tape->graph, p ? k->others[p - 1] : k->program, list,
                       n_args, k->facts.grid, k->facts.local);
    }
    tape->n_launches += n_places;
    tape->n_flops += k->facts.n_flops * n_places;
    tape->n_bytes += k->facts.n_bytes * n_places;
    return BELL_OK;
}

/* Memory that a collective works with for what is in a slot. */
static bell_status
add_side(struct mesh_tape *tape, uint64_t n_bytes, struct copied_side **out)
{
    struct rt_places *places = tape->rt->places;
    uint32_t p;

    if (host_grow((void **)&tape->sides, &tape->cap_sides, tape->n_sides + 1,
                  sizeof(*tape->sides)) != 0)
        return bell_fail(BELL_E_NO_MEMORY, "out of memory for a collective");
    *out = &tape->sides[tape->n_sides++];
    **out = (struct copied_side){.n_bytes = n_bytes};
    for (p = 0; p < places->n; p++)
        BELL_TRY(hcq_buffer_create(places->list[p]->dev, n_bytes,
                                   HCQ_MEM_DEVICE, &(*out)->bufs[p]));
    return BELL_OK;
}

static bell_status
find_sides(struct mesh_tape *tape, const struct rt_arg *arg,
           struct mesh_side *out)
{
    uint32_t n_places = tape->rt->places->n, p;
    struct copied_side *side;

    if (arg->slot != RT_SLOT_NONE) {
        BELL_TRY(add_side(tape, arg->size_bytes, &side));
        for (p = 0; p < n_places; p++)
            out[p] = (struct mesh_side){side->bufs[p], 0};
        return BELL_OK;
    }
    for (p = 0; p < n_places; p++)
        out[p] = (struct mesh_side){
            arg->buf ? memory_at(arg->buf, p) : tape->own[p], arg->value};
    return BELL_OK;
}

/* Between what is given and what the collective works with, from there on. */
static void
copy_sides(struct mesh_tape *tape, const struct rt_arg *arg,
           const struct mesh_side *sides, uint64_t at, bool is_out)
{
    struct rt_places *places = tape->rt->places;
    uint32_t p;

    for (p = 0; p < places->n; p++) {
        struct hcq_graph_arg given = graph_arg(tape, arg, p);
        struct hcq_graph_arg own =
            hcq_graph_memory(sides[p].buf->va + at, arg->size_bytes,
                             is_out ? HCQ_ACCESS_READ : HCQ_ACCESS_WRITE);

        given.access = is_out ? HCQ_ACCESS_WRITE : HCQ_ACCESS_READ;
        hcq_graph_copy(tape->graph, places->list[p]->dev,
                       is_out ? &given : &own, is_out ? &own : &given,
                       arg->size_bytes);
    }
}

/* One for each group of places. */
static bell_status
add_collectives(struct mesh_tape *tape, const struct mesh_call *call,
                enum uop_dtype dtype, uint64_t n_in, uint64_t n_out,
                const struct mesh_side *ins, const struct mesh_side *outs)
{
    struct rt_places *places = tape->rt->places;
    uint32_t p;

    for (p = 0; p < places->n; p++) {
        if (p / call->stride % call->size)
            continue;
        if (host_grow((void **)&tape->collectives, &tape->cap_collectives,
                      tape->n_collectives + 1,
                      sizeof(struct hcq_collective *)) != 0)
            return bell_fail(BELL_E_NO_MEMORY,
                             "out of memory for a collective");
        BELL_TRY(mesh_exchange_add(places, tape->graph, call, dtype, n_in,
                                   n_out, p, ins, outs,
                                   &tape->collectives[tape->n_collectives]));
        tape->n_moved_bytes +=
            mesh_exchange_moved(tape->collectives[tape->n_collectives]);
        tape->n_collectives++;
    }
    tape->n_exchanges++;
    return BELL_OK;
}

bell_status
mesh_tape_exchange(struct mesh_tape *tape, const struct mesh_call *call,
                   enum uop_dtype dtype, uint64_t n_in, uint64_t n_out,
                   const struct rt_arg *in, const struct rt_arg *out)
{
    struct mesh_side ins[BELL_MESH_PLACES], outs[BELL_MESH_PLACES];

    BELL_TRY(find_sides(tape, in, ins));
    BELL_TRY(find_sides(tape, out, outs));
    if (in->slot != RT_SLOT_NONE)
        copy_sides(tape, in, ins, 0, false);
    BELL_TRY(add_collectives(tape, call, dtype, n_in, n_out, ins, outs));
    if (out->slot != RT_SLOT_NONE)
        copy_sides(tape, out, outs, 0, true);
    return BELL_OK;
}

bell_status
mesh_tape_bucket(struct mesh_tape *tape, const struct mesh_call *call,
                 enum uop_dtype dtype, const struct rt_arg *ins,
                 const struct rt_arg *outs, uint32_t n)
{
    struct mesh_side sides[BELL_MESH_PLACES];
    struct copied_side *side;
    uint64_t n_bytes = 0, n_elems, at;
    uint32_t i, p;

    for (i = 0; i < n; i++)
        n_bytes += ins[i].size_bytes;
    n_elems = n_bytes / uop_dtype_infos[dtype].size_bytes;
    BELL_TRY(add_side(tape, n_bytes, &side));
    for (p = 0; p < tape->rt->places->n; p++)
        sides[p] = (struct mesh_side){side->bufs[p], 0};
    for (i = 0, at = 0; i < n; at += ins[i++].size_bytes)
        copy_sides(tape, &ins[i], sides, at, false);
    BELL_TRY(
        add_collectives(tape, call, dtype, n_elems, n_elems, sides, sides));
    for (i = 0, at = 0; i < n; at += outs[i++].size_bytes)
        copy_sides(tape, &outs[i], sides, at, true);
    return BELL_OK;
}

bell_status
mesh_tape_end(struct mesh_tape *tape)
{
    return hcq_graph_end(tape->graph);
}

/* ---- again and again ----------------------------------------------------- */

bell_status
mesh_tape_set(struct mesh_tape *tape, uint32_t slot, uint32_t place,
              const struct hcq_buffer *buf, uint64_t offset)
{
    const struct slot *s = &tape->slots[slot];

    assert(slot < tape->n_slots);
    return s->size_bytes ? hcq_graph_set_buffer(tape->graph, s->numbers[place],
                                                buf, offset)
                         : BELL_OK;
}

/* The graph counts as work of place 0's queue. What it does on the others is in
 * the order of theirs, and an empty submission says what it is waited for by:
 * each place writes what is its own itself, and others look at nothing of it
 * but the memory of the tape. */
bell_status
mesh_tape_submit(struct mesh_tape *tape)
{
    struct rt_places *places = tape->rt->places;
    struct tensor_runtime *first = places->list[0];
    struct hcq_cs *cs;
    uint32_t p;

    if (tape->n_launches == 0 && tape->n_collectives == 0)
        return BELL_OK;
    BELL_TRY(hcq_graph_submit(tape->graph, &first->last_value));
    for (p = 1; p < places->n; p++) {
        BELL_TRY(hcq_queue_begin(places->list[p]->queue, &cs));
        BELL_TRY(hcq_cs_submit(cs, &places->list[p]->last_value));
        BELL_TRY(rt_keep_pace(places->list[p]));
    }
    first->stats.n_graphs++;
    first->stats.n_launches += tape->n_launches;
    first->stats.n_exchanges += tape->n_exchanges;
    first->stats.exchanged_bytes += tape->n_moved_bytes;
    first->stats.n_flops += tape->n_flops;
    first->stats.n_bytes += tape->n_bytes;
    return rt_keep_pace(first);
}
