/* Launches that are queued again and again. */
#include "tensor/runtime/tape.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "hcq/hcq_graph.h"
#include "tensor/runtime/classes.h"
#include "tensor/runtime/run.h"

#define MAX_GRAPHS 8 /* of one tape: what its kernels were for its last sizes */

struct launch {
    uint32_t kernel, first, n_args; /* arguments, in tape->args */
    uint32_t now;                   /* the kernel that it is for these sizes */
    const char *text;               /* what it computes; or NULL */
};

struct slot {
    uint64_t value;
    uint64_t size_bytes; /* of memory behind it; 0: a word */
    uint32_t number;     /* of the graphs' */
    bool is_used;
};

/* The launches with some kernels. */
struct taped {
    struct hcq_graph *graph; /* or NULL */
    uint64_t kernels;        /* hash of their numbers */
    uint64_t *sent;          /* by slot: what it has */
};

struct rt_tape {
    struct tensor_runtime *rt;
    struct launch *launches;
    size_t n_launches, cap_launches;
    struct rt_arg *args;
    size_t n_args, cap_args;
    struct slot *slots;
    uint32_t n_slots;
    struct taped graphs[MAX_GRAPHS];
    uint32_t n_graphs; /* made so far; a new one takes the oldest's place */
    bool was_queued, varies;
    bool has_classes;        /* a kernel has */
    double n_flops, n_bytes; /* of all launches */
};

bell_status
rt_tape_create(struct tensor_runtime *rt, uint32_t n_slots, bool varies,
               struct rt_tape **out_tape)
{
    struct rt_tape *tape = host_calloc(1, sizeof(*tape));

    if (tape)
        tape->slots = host_calloc((size_t)n_slots + 1, sizeof(*tape->slots));
    if (!tape || !tape->slots) {
        host_free(tape);
        return bell_fail(BELL_E_NO_MEMORY, "out of memory for %u slots",
                         n_slots);
    }
    tape->rt = rt;
    tape->n_slots = n_slots;
    tape->varies = varies;
    *out_tape = tape;
    return BELL_OK;
}

static void
free_taped(struct taped *taped)
{
    hcq_graph_destroy(taped->graph);
    host_free(taped->sent);
    *taped = (struct taped){NULL, 0, NULL};
}

void
rt_tape_destroy(struct rt_tape *tape)
{
    uint32_t i;

    if (!tape)
        return;
    for (i = 0; i < MAX_GRAPHS; i++)
        free_taped(&tape->graphs[i]);
    host_free(tape->launches);
    host_free(tape->args);
    host_free(tape->slots);
    host_free(tape);
}

static void
note_slot(struct rt_tape *tape, const struct rt_arg *arg)
{
    struct slot *slot;
    uint64_t end = arg->value + arg->size_bytes;

    if (arg->slot >= RT_SLOT_KEPT)
        return;
    assert(arg->slot < tape->n_slots);
    slot = &tape->slots[arg->slot];
    slot->is_used = true;
    if (arg->size_bytes && end > slot->size_bytes)
        slot->size_bytes = end;
}

bell_status
rt_tape_add(struct rt_tape *tape, uint32_t kernel, const char *text,
            const struct rt_arg *args, uint32_t n_args)
{
    const struct rt_kernel *k = &tape->rt->kernel_list[kernel];
    uint32_t i;

    assert(n_args >= rt_n_args(k));
    if (host_grow((void **)&tape->launches, &tape->cap_launches,
                  tape->n_launches + 1, sizeof(*tape->launches)) != 0 ||
        host_grow((void **)&tape->args, &tape->cap_args,
                  tape->n_args + n_args + 1, sizeof(*tape->args)) != 0)
        return bell_fail(BELL_E_NO_MEMORY, "out of memory for %zu launches",
                         tape->n_launches + 1);
    tape->launches[tape->n_launches++] =
        (struct launch){kernel, (uint32_t)tape->n_args, n_args, kernel, text};
    tape->has_classes |= k->classes != NULL;
    memcpy(tape->args + tape->n_args, args, n_args * sizeof(*args));
    tape->n_args += n_args;
    for (i = 0; i < n_args; i++)
        note_slot(tape, &args[i]);
    tape->n_flops += k->facts.n_flops;
    tape->n_bytes += k->facts.n_bytes;
    return BELL_OK;
}

void
rt_tape_set(struct rt_tape *tape, uint32_t slot, uint64_t value)
{
    assert(slot < tape->n_slots);
    tape->slots[slot].value = value;
}

static void
resolve_args(const struct rt_tape *tape, const struct launch *launch,
             uint64_t *out)
{
    const struct rt_arg *args = tape->args + launch->first;
    uint32_t i;

    for (i = 0; i < launch->n_args; i++)
        out[i] = args[i].value + (args[i].slot == RT_SLOT_NONE
                                      ? 0
                                      : tape->slots[args[i].slot].value);
}

/* ---- as a graph ---- */

static void
add_to_graph(struct rt_tape *tape, struct hcq_graph *graph,
             const struct launch *launch)
{
    const struct rt_kernel *k = &tape->rt->kernel_list[launch->now];
    struct hcq_graph_arg args[SCHED_MAX_PARAMS];
    uint32_t i;

    for (i = 0; i < rt_n_args(k); i++) {
        const struct rt_arg *arg = &tape->args[launch->first + i];
        uint32_t access = HCQ_ACCESS_READ;
        /* the program's buffers are those that are left of the kernel's */
        if (arg->is_written)
            access |= HCQ_ACCESS_WRITE; /* some read it first */
        args[i] = (struct hcq_graph_arg){
            .access = arg->size_bytes ? access : HCQ_ACCESS_NONE,
            .slot = arg->slot == RT_SLOT_NONE ? HCQ_SLOT_NONE
                                              : tape->slots[arg->slot].number,
            .value = arg->value,
            .size_bytes = arg->size_bytes,
        };
    }
    hcq_graph_exec(graph, k->program, args, rt_n_args(k), k->facts.grid,
                   k->facts.local);
}

static bell_status
make_graph(struct rt_tape *tape, struct taped *out)
{
    const struct hcq_graph_desc desc = {
        .struct_size = sizeof(desc),
        .flags = tape->varies ? HCQ_GRAPH_TRUSTED : 0,
        .name = "tape",
        .queues = &tape->rt->queue,
        .n_queues = 1,
    };
    struct hcq_graph *graph;
    bell_status status;
    char name[32];
    size_t i;

    out->sent = host_calloc((size_t)tape->n_slots + 1, sizeof(*out->sent));
    if (!out->sent)
        return bell_fail(BELL_E_NO_MEMORY, "out of memory for %u slots",
                         tape->n_slots);
    BELL_TRY(hcq_graph_create(&desc, &graph));
    for (i = 0; i < tape->n_slots; i++) {
        struct slot *slot = &tape->slots[i];
        if (!slot->is_used)
            continue;
        snprintf(name, sizeof(name), "slot %zu", i);
        slot->number = hcq_graph_slot(graph, name, slot->size_bytes);
    }
    for (i = 0; i < tape->n_launches; i++)
        add_to_graph(tape, graph, &tape->launches[i]);
    status = hcq_graph_end(graph);
    for (i = 0; i < tape->n_slots && status == BELL_OK; i++) {
        struct slot *slot = &tape->slots[i];
        if (slot->is_used)
            status = hcq_graph_set(graph, slot->number, slot->value);
        out->sent[i] = slot->value;
    }
    if (status != BELL_OK) {
        hcq_graph_destroy(graph);
        return status;
    }
    out->graph = graph;
    return BELL_OK;
}

/* The graph of these kernels, new or not. */
static bell_status
find_graph(struct rt_tape *tape, uint64_t kernels, struct taped **out)
{
    struct taped *taped;
    bell_status status;
    uint32_t i;

    for (i = 0; i < MAX_GRAPHS; i++) {
        *out = &tape->graphs[i];
        if ((*out)->graph && (*out)->kernels == kernels)
            return BELL_OK;
    }
    *out = taped = &tape->graphs[tape->n_graphs % MAX_GRAPHS];
    free_taped(taped);
    status = make_graph(tape, taped);
    if (status != BELL_OK) {
        free_taped(taped);
        return status;
    }
    taped->kernels = kernels;
    tape->n_graphs++;
    return BELL_OK;
}

/* Chooses kernels for the sizes that the slots have; gives a hash of them. */
static bell_status
choose_kernels(struct rt_tape *tape, uint64_t *out_hash)
{
    uint64_t args[SCHED_MAX_PARAMS];
    size_t i;

    *out_hash = 0;
    for (i = 0; i < tape->n_launches && tape->has_classes; i++) {
        struct launch *launch = &tape->launches[i];

        resolve_args(tape, launch, args);
        BELL_TRY(rt_class_kernel(tape->rt, NULL, launch->kernel, args, NULL,
                                 NULL, &launch->now));
        *out_hash = hash_add(*out_hash, launch->now);
    }
    return BELL_OK;
}

static bell_status
submit_graph(struct rt_tape *tape, uint64_t kernels)
{
    struct taped *taped;
    uint32_t i;

    BELL_TRY(find_graph(tape, kernels, &taped));
    for (i = 0; i < tape->n_slots; i++) {
        struct slot *slot = &tape->slots[i];
        if (slot->value == taped->sent[i] || !slot->is_used)
            continue;
        BELL_TRY(hcq_graph_set(taped->graph, slot->number, slot->value));
        taped->sent[i] = slot->value;
    }
    BELL_TRY(hcq_graph_submit(taped->graph, &tape->rt->last_value));
    tape->rt->stats.n_graphs++;
    return rt_keep_pace(tape->rt);
}

/* Launch by launch. */
static bell_status
submit_launches(struct rt_tape *tape)
{
    uint64_t args[SCHED_MAX_PARAMS];
    struct rt_queue queue;
    size_t i;

    rt_queue_begin(tape->rt, &queue);
    for (i = 0; i < tape->n_launches; i++) {
        const struct launch *launch = &tape->launches[i];
        resolve_args(tape, launch, args);
        BELL_TRY(rt_queue_kernel(&queue, launch->now, launch->text, args));
    }
    return rt_queue_end(&queue);
}

/* Where each kernel is waited for, watched or told there is no graph. */
bell_status
rt_tape_submit(struct rt_tape *tape)
{
    struct tensor_runtime *rt = tape->rt;
    uint64_t kernels;

    if (tape->n_launches == 0)
        return BELL_OK;
    BELL_TRY(choose_kernels(tape, &kernels));
    if (tape->was_queued && !rt_tells(rt))
        BELL_TRY(submit_graph(tape, kernels));
    else
        BELL_TRY(submit_launches(tape));
    tape->was_queued = true;
    rt->stats.n_launches += tape->n_launches;
    rt->stats.n_flops += tape->n_flops;
    rt->stats.n_bytes += tape->n_bytes;
    return BELL_OK;
}

bool
rt_tape_launch(const struct rt_tape *tape, size_t i, uint32_t *out_kernel,
               const struct rt_arg **out_args, uint32_t *out_n)
{
    if (i >= tape->n_launches)
        return false;
    *out_kernel = tape->launches[i].kernel;
    *out_args = tape->args + tape->launches[i].first;
    *out_n = rt_n_args(&tape->rt->kernel_list[*out_kernel]);
    return true;
}
