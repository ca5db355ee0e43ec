/* Building graphs: slots and commands. */
#include "hcq/hcq_graph_internal.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"

void
hcq_graph_fail(struct hcq_graph *graph, bell_status status)
{
    assert(status != BELL_OK);
    if (graph->status != BELL_OK)
        return;
    graph->status = status;
    graph->error = *bell_error_last();
}

static bool
graph_takes_commands(struct hcq_graph *graph)
{
    if (graph->state == GRAPH_BUILDING)
        return graph->status == BELL_OK;
    hcq_graph_fail(
        graph, bell_fail(BELL_BAD_STATE, "graph '%s' is built", graph->name));
    return false;
}

static bool
is_good_queue(const struct hcq_graph_desc *desc, uint32_t at)
{
    struct hcq_queue *queue = desc->queues[at];
    uint32_t i;

    if (!queue || (at == 0 && queue->kind != HCQ_QUEUE_COMPUTE))
        return false;
    for (i = 0; i < at; i++) {
        if (desc->queues[i] == queue ||
            (desc->queues[i]->dev == queue->dev &&
             queue->kind == HCQ_QUEUE_COMPUTE &&
             desc->queues[i]->kind == HCQ_QUEUE_COMPUTE))
            return false;
    }
    return true;
}

uint32_t
hcq_graph_device(const struct hcq_graph *graph, const struct hcq_device *dev)
{
    uint32_t i;

    for (i = 0; i < graph->n_devs && graph->devs[i] != dev; i++)
        continue;
    return i;
}

bell_status
hcq_graph_create(const struct hcq_graph_desc *desc,
                 struct hcq_graph **out_graph)
{
    struct hcq_graph *graph;
    uint32_t i;

    if (!desc || !out_graph || !desc->queues || !desc->n_queues)
        return bell_fail(BELL_BAD_MISSING, "graph create: %s",
                         !out_graph ? "the result is NULL"
                                    : "there are no queues");
    if (desc->struct_size < sizeof(*desc) ||
        (desc->flags & ~(uint32_t)HCQ_GRAPH_TRUSTED))
        return bell_fail(BELL_BAD_VALUE,
                         "graph create: a descriptor of %u bytes, %zu are "
                         "known, with flags 0x%x",
                         desc->struct_size, sizeof(*desc), desc->flags);
    if (desc->n_queues > HCQ_GRAPH_QUEUES_MAX)
        return bell_fail(BELL_BAD_SIZE, "graph create: %u queues, at most %u",
                         desc->n_queues, HCQ_GRAPH_QUEUES_MAX);
    for (i = 0; i < desc->n_queues; i++) {
        if (!is_good_queue(desc, i))
            return bell_fail(BELL_BAD_VALUE,
                             "graph create: queue %u is NULL, the first and no "
                             "compute queue, there already, or a second "
                             "compute queue of the device",
                             i);
        BELL_TRY(hcq_check_process(desc->queues[i]->dev));
    }
    graph = host_calloc(1, sizeof(*graph));
    if (!graph)
        return bell_fail(BELL_E_NO_MEMORY, "out of memory for a graph");
    snprintf(graph->name, sizeof(graph->name), "%s",
             desc->name ? desc->name : "");
    graph->flags = desc->flags;
    graph->n_queues = desc->n_queues;
    memcpy(graph->queues, desc->queues, desc->n_queues * sizeof(*desc->queues));
    for (i = 0; i < graph->n_queues; i++) {
        struct hcq_device *dev = graph->queues[i]->dev;
        uint32_t at = hcq_graph_device(graph, dev);
        if (at == graph->n_devs)
            graph->devs[graph->n_devs++] = dev;
        graph->dev_of[i] = (uint8_t)at;
    }
    *out_graph = graph;
    return BELL_OK;
}

void
hcq_graph_destroy(struct hcq_graph *graph)
{
    if (!graph)
        return;
    if (!hcq_is_inherited(graph->queues[0]->dev))
        hcq_graph_unbind(graph);
    hcq_graph_free_stages(graph);
    map_fini(&graph->slot_of);
    host_free(graph->slots);
    host_free(graph->names);
    host_free(graph->commands);
    host_free(graph->args);
    host_free(graph->patches);
    host_free(graph->waits);
    host_free(graph->written.list);
    host_free(graph->read.list);
    host_free(graph->home_written.list);
    host_free(graph->home_read.list);
    host_free(graph);
}

/* ---- slots ---- */

static bool
has_queue(const struct hcq_graph *graph, const struct hcq_device *dev,
          bool runs_kernels)
{
    uint32_t i;

    for (i = 0; i < graph->n_queues; i++) {
        if (graph->queues[i]->dev == dev &&
            (!runs_kernels || graph->queues[i]->kind == HCQ_QUEUE_COMPUTE))
            return true;
    }
    return false;
}

uint32_t
hcq_graph_find_slot(const struct hcq_graph *graph, const char *name)
{
    const uint64_t *first =
        map_get(&graph->slot_of, hash_bytes(name, strlen(name), 0));
    uint32_t i;

    /* others behind it have the same hash, or are of other names */
    for (i = first ? (uint32_t)*first : UINT32_MAX; i < graph->n_slots; i++) {
        if (strcmp(graph->names[i].text, name) == 0)
            return i;
    }
    return HCQ_SLOT_NONE;
}

uint32_t
hcq_graph_slot(struct hcq_graph *graph, const char *name, uint64_t size_bytes)
{
    struct graph_slot *slot;
    uint64_t hash;

    if (!graph_takes_commands(graph))
        return HCQ_SLOT_NONE;
    if (!name || !name[0] || strlen(name) >= sizeof(graph->names->text) ||
        hcq_graph_find_slot(graph, name) != HCQ_SLOT_NONE) {
        hcq_graph_fail(graph,
                       bell_fail(BELL_BAD_NAME,
                                 "graph '%s': slot '%.70s': the name is empty, "
                                 "too long or taken",
                                 graph->name, name ? name : ""));
        return HCQ_SLOT_NONE;
    }
    hash = hash_bytes(name, strlen(name), 0);
    if (host_grow((void **)&graph->slots, &graph->cap_slots, graph->n_slots + 1,
                  sizeof(*graph->slots)) != 0 ||
        host_grow((void **)&graph->names, &graph->cap_names, graph->n_slots + 1,
                  sizeof(*graph->names)) != 0 ||
        (!map_get(&graph->slot_of, hash) &&
         map_put(&graph->slot_of, hash, graph->n_slots) != 0)) {
        hcq_graph_fail(graph,
                       bell_fail(BELL_E_NO_MEMORY,
                                 "graph '%s': out of memory for slot %zu",
                                 graph->name, graph->n_slots));
        return HCQ_SLOT_NONE;
    }
    slot = &graph->slots[graph->n_slots];
    memset(slot, 0, sizeof(*slot));
    memcpy(graph->names[graph->n_slots].text, name, strlen(name) + 1);
    slot->size_bytes = size_bytes;
    slot->max = UINT64_MAX - size_bytes;
    slot->first = (uint32_t)graph->n_slots;
    slot->next_view = HCQ_SLOT_NONE;
    return (uint32_t)graph->n_slots++;
}

uint32_t
hcq_graph_slot_on(struct hcq_graph *graph, const char *name,
                  uint64_t size_bytes, struct hcq_device *dev)
{
    uint32_t slot;

    if (!graph_takes_commands(graph))
        return HCQ_SLOT_NONE;
    if (!dev || !size_bytes || !has_queue(graph, dev, false)) {
        hcq_graph_fail(
            graph,
            bell_fail(BELL_BAD_VALUE,
                      "graph '%s': slot '%.70s' of %llu bytes on %s: it has "
                      "no bytes, or the graph no queue of the device",
                      graph->name, name ? name : "",
                      (unsigned long long)size_bytes,
                      dev ? hcq_device_name(dev) : "no device"));
        return HCQ_SLOT_NONE;
    }
    slot = hcq_graph_slot(graph, name, size_bytes);
    if (slot == HCQ_SLOT_NONE)
        return slot;
    graph->slots[slot].dev = dev;
    graph->slots[slot].has_home = true;
    return slot;
}

uint32_t
hcq_graph_view(struct hcq_graph *graph, uint32_t slot, struct hcq_device *dev)
{
    char name[HCQ_NAME_MAX];
    uint32_t view, first;

    if (!graph_takes_commands(graph))
        return HCQ_SLOT_NONE;
    if (slot >= graph->n_slots || !graph->slots[slot].has_home || !dev ||
        !has_queue(graph, dev, false)) {
        hcq_graph_fail(
            graph,
            bell_fail(BELL_BAD_VALUE,
                      "graph '%s': view of slot %u for %s: the slot has no "
                      "home (hcq_graph_slot_on), or the graph no queue of "
                      "the device",
                      graph->name, slot,
                      dev ? hcq_device_name(dev) : "no device"));
        return HCQ_SLOT_NONE;
    }
    first = graph->slots[slot].first;
    for (view = first; view != HCQ_SLOT_NONE;
         view = graph->slots[view].next_view) {
        if (graph->slots[view].dev == dev)
            return view;
    }
    snprintf(name, sizeof(name), "%.44s, view %u", graph->names[first].text,
             (uint32_t)graph->n_slots);
    view = hcq_graph_slot(graph, name, graph->slots[first].size_bytes);
    if (view == HCQ_SLOT_NONE)
        return view;
    graph->slots[view].dev = dev;
    graph->slots[view].has_home = true;
    graph->slots[view].first = first;
    graph->slots[view].next_view = graph->slots[first].next_view;
    graph->slots[first].next_view = view;
    return view;
}

/* ---- commands ---- */

/* Lies it in its slot, or, without one, below the end of addresses? */
static bool
arg_fits(const struct hcq_graph *graph, const struct hcq_graph_arg *arg)
{
    bool is_memory = arg->access != HCQ_ACCESS_NONE;
    uint64_t end;

    if (arg->access & ~(uint32_t)(HCQ_ACCESS_READ | HCQ_ACCESS_WRITE))
        return false;
    if (arg->slot == HCQ_SLOT_NONE)
        return !is_memory ||
               !__builtin_add_overflow(arg->value, arg->size_bytes, &end);
    if (arg->slot >= graph->n_slots)
        return false;
    if (!is_memory)
        return graph->slots[arg->slot].size_bytes == 0;
    return graph->slots[arg->slot].size_bytes != 0 &&
           !__builtin_add_overflow(arg->value, arg->size_bytes, &end) &&
           end <= graph->slots[arg->slot].size_bytes;
}

/* A command with room for its arguments; NULL after an error. */
static struct graph_command *
add_command(struct hcq_graph *graph, enum graph_kind kind,
            struct hcq_device *dev, const struct hcq_graph_arg *const *args,
            uint32_t n_args)
{
    struct graph_command *command;
    uint32_t i;

    assert(n_args <= HCQ_ARGS_MAX);
    if (!graph_takes_commands(graph))
        return NULL;
    for (i = 0; i < n_args; i++) {
        if (!args[i] || !arg_fits(graph, args[i])) {
            hcq_graph_fail(
                graph,
                bell_fail(BELL_BAD_VALUE,
                          "graph '%s': command %zu, argument %u: no such "
                          "slot, one of words for memory or the other way "
                          "round, or beyond its end",
                          graph->name, graph->n_commands, i));
            return NULL;
        }
    }
    if (!has_queue(graph, dev, kind == GRAPH_EXEC)) {
        hcq_graph_fail(graph,
                       bell_fail(BELL_BAD_VALUE,
                                 "graph '%s': command %zu: no %squeue of %s",
                                 graph->name, graph->n_commands,
                                 kind == GRAPH_EXEC ? "compute " : "",
                                 hcq_device_name(dev)));
        return NULL;
    }
    if (graph->n_commands >= UINT32_MAX / 4 ||
        host_grow((void **)&graph->commands, &graph->cap_commands,
                  graph->n_commands + 1, sizeof(*graph->commands)) != 0 ||
        host_grow((void **)&graph->args, &graph->cap_args,
                  graph->n_args + n_args, sizeof(*graph->args)) != 0) {
        hcq_graph_fail(graph,
                       bell_fail(BELL_E_NO_MEMORY,
                                 "graph '%s': out of memory for command %zu",
                                 graph->name, graph->n_commands));
        return NULL;
    }
    command = &graph->commands[graph->n_commands++];
    memset(command, 0, sizeof(*command));
    command->kind = kind;
    command->dev = dev;
    command->first_arg = (uint32_t)graph->n_args;
    command->n_args = n_args;
    command->first_patch = (uint32_t)graph->n_patches;
    for (i = 0; i < n_args; i++)
        graph->args[graph->n_args++] = *args[i];
    return command;
}

void
hcq_graph_exec(struct hcq_graph *graph, const struct hcq_program *prog,
               const struct hcq_graph_arg *args, uint32_t n_args,
               const uint32_t grid[3], const uint32_t local[3])
{
    const struct hcq_graph_arg *list[HCQ_ARGS_MAX];
    struct graph_command *command;
    uint32_t i;

    if (!graph_takes_commands(graph))
        return;
    if (!prog || !grid || n_args > HCQ_ARGS_MAX || (n_args && !args)) {
        hcq_graph_fail(graph,
                       bell_fail(BELL_BAD_VALUE,
                                 "graph '%s': exec %zu: no program, grid or "
                                 "arguments, or %u arguments, more than %u",
                                 graph->name, graph->n_commands, n_args,
                                 HCQ_ARGS_MAX));
        return;
    }
    for (i = 0; i < n_args; i++)
        list[i] = &args[i];
    command = add_command(graph, GRAPH_EXEC, prog->dev, list, n_args);
    if (!command)
        return;
    command->prog = prog;
    memcpy(command->grid, grid, sizeof(command->grid));
    command->has_local = local != NULL;
    if (local)
        memcpy(command->local, local, sizeof(command->local));
}

/* Adds a copy, or without `src` a fill. */
static struct graph_command *
add_transfer(struct hcq_graph *graph, struct hcq_device *dev,
             const struct hcq_graph_arg *dst, const struct hcq_graph_arg *src,
             uint64_t size_bytes)
{
    struct hcq_graph_arg sides[2];
    const struct hcq_graph_arg *list[2] = {&sides[0], &sides[1]};
    struct graph_command *command;

    if (!graph_takes_commands(graph))
        return NULL;
    sides[0] = *dst;
    sides[0].access = HCQ_ACCESS_WRITE;
    sides[1] = src ? *src : *dst;
    sides[1].access = HCQ_ACCESS_READ;
    if (sides[0].size_bytes < size_bytes || sides[1].size_bytes < size_bytes) {
        hcq_graph_fail(graph,
                       bell_fail(BELL_BAD_SIZE,
                                 "graph '%s': command %zu: %llu bytes, of %llu "
                                 "and %llu",
                                 graph->name, graph->n_commands,
                                 (unsigned long long)size_bytes,
                                 (unsigned long long)sides[0].size_bytes,
                                 (unsigned long long)sides[1].size_bytes));
        return NULL;
    }
    command = add_command(graph, src ? GRAPH_COPY : GRAPH_FILL,
                          dev ? dev : graph->queues[0]->dev, list, src ? 2 : 1);
    if (command)
        command->size_bytes = size_bytes;
    return command;
}

void
hcq_graph_copy(struct hcq_graph *graph, struct hcq_device *dev,
               const struct hcq_graph_arg *dst, const struct hcq_graph_arg *src,
               uint64_t size_bytes)
{
    if (!dst || !src) {
        hcq_graph_fail(graph, bell_fail(BELL_BAD_MISSING,
                                        "graph '%s': copy: %s is NULL",
                                        graph->name, dst ? "src" : "dst"));
        return;
    }
    add_transfer(graph, dev, dst, src, size_bytes);
}

void
hcq_graph_fill(struct hcq_graph *graph, struct hcq_device *dev,
               const struct hcq_graph_arg *dst, uint32_t pattern,
               uint64_t size_bytes)
{
    struct graph_command *command;

    if (!dst) {
        hcq_graph_fail(graph,
                       bell_fail(BELL_BAD_MISSING,
                                 "graph '%s': fill: dst is NULL", graph->name));
        return;
    }
    command = add_transfer(graph, dev, dst, NULL, size_bytes);
    if (command)
        command->pattern = pattern;
}

/* Adds a step of the host's. */
static void
add_step(struct hcq_graph *graph, enum graph_kind kind, struct hcq_queue *queue,
         const struct hcq_signal *sig, const struct hcq_graph_arg *value,
         const struct hcq_graph_arg *memory, uint32_t n_memory)
{
    const struct hcq_graph_arg *list[HCQ_ARGS_MAX];
    struct graph_command *command;
    uint32_t q, i;

    if (!graph_takes_commands(graph))
        return;
    if (!queue)
        queue = graph->queues[0];
    for (q = 0; q < graph->n_queues && graph->queues[q] != queue; q++)
        continue;
    if (q == graph->n_queues || !sig || !value || n_memory >= HCQ_ARGS_MAX ||
        (n_memory && !memory) || value->access != HCQ_ACCESS_NONE) {
        hcq_graph_fail(
            graph,
            bell_fail(BELL_BAD_VALUE, "graph '%s': command %zu: %s",
                      graph->name, graph->n_commands,
                      q == graph->n_queues ? "the queue is not the graph's"
                      : !sig               ? "the signal is NULL"
                      : n_memory >= HCQ_ARGS_MAX
                          ? "more arguments than a command takes"
                          : "the value is not a word, or the memory is NULL"));
        return;
    }
    list[0] = value;
    for (i = 0; i < n_memory; i++)
        list[1 + i] = &memory[i];
    command = add_command(graph, kind, queue->dev, list, 1 + n_memory);
    if (!command)
        return;
    command->sig = sig;
    command->on_queue = q;
}

void
hcq_graph_await(struct hcq_graph *graph, struct hcq_queue *queue,
                const struct hcq_signal *sig, const struct hcq_graph_arg *value,
                const struct hcq_graph_arg *memory, uint32_t n_memory)
{
    add_step(graph, GRAPH_AWAIT, queue, sig, value, memory, n_memory);
}

void
hcq_graph_tell(struct hcq_graph *graph, struct hcq_queue *queue,
               const struct hcq_signal *sig, const struct hcq_graph_arg *value,
               const struct hcq_graph_arg *memory, uint32_t n_memory)
{
    add_step(graph, GRAPH_TELL, queue, sig, value, memory, n_memory);
}

/* A size that is the slot's word + addend stays within what the arguments of
 * the command say; false: no word makes it so. */
static bool
bound_size(const struct hcq_graph *graph, const struct graph_command *command,
           struct graph_slot *slot, int64_t addend)
{
    uint64_t most = UINT64_MAX;
    uint32_t i;

    assert(slot->size_bytes == 0);
    for (i = 0; i < command->n_args; i++) {
        uint64_t size = graph->args[command->first_arg + i].size_bytes;
        most = size < most ? size : most;
    }
    if (addend > 0 && (uint64_t)addend > most)
        return false;
    most -= (uint64_t)addend;
    if (most < slot->max)
        slot->max = most;
    return true;
}

void
hcq_graph_patch(struct hcq_graph *graph, unsigned field, uint32_t slot,
                int64_t addend)
{
    struct graph_patch *patch;

    if (!graph_takes_commands(graph))
        return;
    if (graph->n_commands == 0 || slot >= graph->n_slots ||
        graph->slots[slot].size_bytes || field >= HCQ_FIELD_ARG ||
        field == HCQ_FIELD_ADDR || field == HCQ_FIELD_DST ||
        field == HCQ_FIELD_SRC) {
        hcq_graph_fail(
            graph,
            bell_fail(BELL_BAD_VALUE,
                      "graph '%s': patch of field %u by slot %u: "
                      "nothing was added, it is not a slot of a word, or "
                      "the field is an address",
                      graph->name, field, slot));
        return;
    }
    if (field == HCQ_FIELD_SIZE &&
        !bound_size(graph, &graph->commands[graph->n_commands - 1],
                    &graph->slots[slot], addend)) {
        hcq_graph_fail(
            graph,
            bell_fail(BELL_BAD_SIZE,
                      "graph '%s': patch of a size by slot '%s': %lld "
                      "bytes and more, which the arguments do not have",
                      graph->name, graph->names[slot].text, (long long)addend));
        return;
    }
    if (host_grow((void **)&graph->patches, &graph->cap_patches,
                  graph->n_patches + 1, sizeof(*graph->patches)) != 0) {
        hcq_graph_fail(graph,
                       bell_fail(BELL_E_NO_MEMORY,
                                 "graph '%s': out of memory for patch %zu",
                                 graph->name, graph->n_patches));
        return;
    }
    patch = &graph->patches[graph->n_patches++];
    *patch = (struct graph_patch){(uint32_t)graph->n_commands - 1, field, slot,
                                  addend};
    graph->commands[patch->command].n_patches++;
}

bell_status
hcq_graph_end(struct hcq_graph *graph)
{
    bell_status status = graph->status;

    if (graph->state != GRAPH_BUILDING)
        return bell_fail(BELL_BAD_STATE, "graph '%s' is not being built",
                         graph->name);
    graph->state = GRAPH_BROKEN;
    if (status != BELL_OK)
        return bell_error_set(&graph->error);
    BELL_TRY(hcq_check_process(graph->queues[0]->dev));
    BELL_TRY(hcq_graph_order(graph));
    assert(graph->n_used > 0 && graph->is_used[0]);
    BELL_TRY(hcq_graph_bind(graph));
    graph->state = GRAPH_READY;
    return BELL_OK;
}

void
hcq_graph_get_info(const struct hcq_graph *graph,
                   struct hcq_graph_info *out_info)
{
    struct hcq_graph_info info = {
        .n_commands = (uint32_t)graph->n_commands,
        .n_slots = (uint32_t)graph->n_slots,
        .n_queues = graph->n_used,
        .n_signals = graph->begin_waiters != 0,
        .n_waits = (uint32_t)graph->n_waits,
    };
    size_t i;

    for (i = 0; i < graph->n_commands; i++) {
        const struct graph_command *command = &graph->commands[i];
        info.n_signals += command->waiters != 0;
        info.n_copies += graph->queues[command->queue]->kind == HCQ_QUEUE_COPY;
    }
    hcq_give_info(out_info, &info, sizeof(info));
}
