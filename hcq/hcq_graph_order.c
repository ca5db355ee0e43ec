/* The order of a graph's commands: which queue does what, and what waits for
 * what.
 *
 * A queue does its commands in order. So of all commands of another queue with
 * which one conflicts only the last has to be waited for, and none that is
 * known to be done: each queue knows up to which moment each other one has
 * come, and learns what a queue knew from waiting for it.
 *
 * Commands of different devices wait for each other where they share memory.
 * That is looked up in the devices' buffers. A slot with a home is memory of
 * its own, which all of its views share. Nothing is known of other slots, and
 * of addresses in no buffer: such commands wait for all of other devices, and
 * those for them.
 *
 * The borders of all ranges divide addresses into pieces, those of each slot
 * on their own. Over the pieces stands a tree, which for a run of pieces gives
 * the last command of each queue that read or wrote there, in log n steps.
 */
#include "hcq/hcq_graph_internal.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/bits.h"

#define SPACE_DEV (HCQ_SLOT_NONE - 1)        /* of a home, this or one below */
#define MAX_HOMES (HCQ_GRAPH_QUEUES_MAX + 1) /* devices, and the host, NULL */

/* Devices without a queue in the graph whose memory its devices see; further
 * ones' memory is taken for that of who uses it. */
#define MAX_STRANGERS HCQ_GRAPH_QUEUES_MAX
#define MAX_OWNERS    (HCQ_GRAPH_QUEUES_MAX + MAX_STRANGERS)

/* A transfer of fewer bytes is not worth the signals. guess */
#define MIN_COPY_BYTES 16384

/* A border: slot, then address. */
struct border {
    uint32_t space;
    uint64_t at;
};

/* For each node of the tree what was noted for all of its pieces, and the
 * greatest that was noted for any. */
struct tree {
    uint32_t *all, *any; /* owned */
};

enum tree_of {
    WRITES,
    READS,
    TREE_COUNT
};

struct order {
    struct hcq_graph *graph;
    struct border *places; /* owned; by argument: where it begins */
    uint8_t *owners;       /* owned; by argument: number + 1; 0: not known */
    struct hcq_device *strangers[MAX_STRANGERS]; /* numbered behind graph's */
    uint32_t n_strangers;
    bool *is_known; /* owned; by command: all of its memory */
    const struct hcq_device *homes[MAX_HOMES];
    uint32_t n_homes;
    /* By device and the one whose memory it copies: its copy queue + 1; 0: not
     * looked for. */
    uint8_t routes[HCQ_GRAPH_QUEUES_MAX][MAX_OWNERS];
    uint32_t
        unknown[HCQ_GRAPH_QUEUES_MAX]; /* moment of the last such command */
    struct border *borders;            /* owned; sorted */
    size_t n_borders;
    size_t n_pieces; /* a power of two */
    struct tree trees[HCQ_GRAPH_QUEUES_MAX][TREE_COUNT];
    /* The moment of each queue that a queue knows to be over. */
    uint32_t known[HCQ_GRAPH_QUEUES_MAX][HCQ_GRAPH_QUEUES_MAX];
    uint32_t last[HCQ_GRAPH_QUEUES_MAX]; /* moment of its last command */
    uint32_t *then; /* owned; what its queue knew at each command's end */
};

static uint32_t
moment_of(size_t command)
{
    return (uint32_t)command + GRAPH_BEGIN + 1;
}

/* ---- places ---- */

static int
by_address(const void *a, const void *b)
{
    const struct hcq_home *x = a, *y = b;

    return x->va < y->va ? -1 : x->va > y->va;
}

/* The last that begins at `va` or before, if all of the range is in it. */
static const struct hcq_home *
find_home(const struct hcq_home *homes, size_t n, uint64_t va,
          uint64_t size_bytes)
{
    size_t first = 0, last = n;

    while (first < last) {
        size_t mid = first + (last - first) / 2;
        if (homes[mid].va <= va)
            first = mid + 1;
        else
            last = mid;
    }
    if (first == 0 || va - homes[first - 1].va > homes[first - 1].size_bytes ||
        size_bytes > homes[first - 1].size_bytes - (va - homes[first - 1].va))
        return NULL;
    return &homes[first - 1];
}

/* The space of a home's memory; HCQ_SLOT_NONE: there are too many. */
static uint32_t
space_of(struct order *o, const struct hcq_device *dev)
{
    uint32_t i;

    assert(o->n_homes <= MAX_HOMES);
    for (i = 0; i < o->n_homes && o->homes[i] != dev; i++)
        continue;
    if (i == MAX_HOMES)
        return HCQ_SLOT_NONE;
    if (i == o->n_homes)
        o->homes[o->n_homes++] = dev;
    return SPACE_DEV - i;
}

/* The number of a device: of the graph, or another whose memory is used there;
 * MAX_OWNERS: there are too many. */
static uint32_t
number_owner(struct order *o, struct hcq_device *dev)
{
    uint32_t at = hcq_graph_device(o->graph, dev), i;

    if (at < o->graph->n_devs)
        return at;
    for (i = 0; i < o->n_strangers && o->strangers[i] != dev; i++)
        continue;
    if (i == MAX_STRANGERS)
        return MAX_OWNERS;
    if (i == o->n_strangers)
        o->strangers[o->n_strangers++] = dev;
    return o->graph->n_devs + i;
}

/* Whether it matters to a graph of one device whose memory it copies. */
static bool
has_several_copy_queues(const struct hcq_graph *graph)
{
    uint32_t i, n = 0;

    for (i = 0; i < graph->n_queues; i++)
        n += graph->queues[i]->kind == HCQ_QUEUE_COPY;
    return n > 1;
}

/* Fills in whose the device's fixed memory is and, in a graph of several
 * devices, where. False: not where, for all of it. */
static bool
place_device(struct order *o, const struct hcq_device *dev,
             const struct hcq_home *homes, size_t n_homes)
{
    const struct hcq_graph *graph = o->graph;
    bool is_known = graph->n_devs > 1;
    size_t i;
    uint32_t k, number;

    for (i = 0; i < graph->n_commands; i++) {
        const struct graph_command *command = &graph->commands[i];
        for (k = 0; k < command->n_args && command->dev == dev; k++) {
            uint32_t at = command->first_arg + k;
            const struct hcq_graph_arg *arg = &graph->args[at];
            const struct hcq_home *home;
            if (!arg->access || !arg->size_bytes || arg->slot != HCQ_SLOT_NONE)
                continue;
            home = find_home(homes, n_homes, arg->value, arg->size_bytes);
            number = home ? number_owner(o, home->owner) : MAX_OWNERS;
            if (number < MAX_OWNERS)
                o->owners[at] = (uint8_t)(number + 1);
            is_known = is_known && home;
            if (!is_known)
                continue;
            o->places[at].space = space_of(o, home->dev);
            o->places[at].at = home->at + (arg->value - home->va);
            is_known = o->places[at].space != HCQ_SLOT_NONE;
        }
    }
    return is_known;
}

/* A command is known if its device's memory is, and it has none of a slot
 * without a home. */
static void
mark_known(struct order *o, const struct hcq_device *dev)
{
    const struct hcq_graph *graph = o->graph;
    size_t i;
    uint32_t k;

    for (i = 0; i < graph->n_commands; i++) {
        const struct graph_command *command = &graph->commands[i];
        if (command->dev != dev)
            continue;
        o->is_known[i] = true;
        for (k = 0; k < command->n_args; k++) {
            const struct hcq_graph_arg *arg =
                &graph->args[command->first_arg + k];
            if (arg->access && arg->slot != HCQ_SLOT_NONE &&
                !graph->slots[arg->slot].has_home)
                o->is_known[i] = false;
        }
    }
}

static void
place_by_address(struct order *o, const struct hcq_device *dev)
{
    const struct hcq_graph *graph = o->graph;
    size_t i;
    uint32_t k;

    for (i = 0; i < graph->n_commands; i++) {
        const struct graph_command *command = &graph->commands[i];
        for (k = 0; k < command->n_args && (!dev || command->dev == dev); k++) {
            uint32_t at = command->first_arg + k;
            uint32_t slot = graph->args[at].slot;
            o->places[at] = (struct border){
                slot == HCQ_SLOT_NONE ? slot : graph->slots[slot].first,
                graph->args[at].value};
        }
    }
}

static_assert(MAX_OWNERS < UINT8_MAX, "numbers of owners");

/* Memory is known by its address, or, where there are several devices, by where
 * it is. */
static bool
find_places(struct order *o)
{
    const struct hcq_graph *graph = o->graph;
    struct hcq_home *homes;
    uint32_t d;
    size_t n;

    o->places = host_calloc(graph->n_args, sizeof(*o->places));
    o->owners = host_calloc(graph->n_args, sizeof(*o->owners));
    o->is_known = host_calloc(graph->n_commands, sizeof(*o->is_known));
    if (!o->places || !o->owners || !o->is_known)
        return false;
    place_by_address(o, NULL);
    if (graph->n_devs < 2 && !has_several_copy_queues(graph))
        return true;
    for (d = 0; d < graph->n_devs; d++) {
        struct hcq_device *dev = graph->devs[d];
        n = hcq_memory_homes(dev, NULL, 0);
        homes = host_calloc(n + 1, sizeof(*homes));
        if (!homes)
            return false;
        if (hcq_memory_homes(dev, homes, n) == n) {
            qsort(homes, n, sizeof(*homes), by_address);
            if (place_device(o, dev, homes, n))
                mark_known(o, dev);
            else
                place_by_address(o, dev);
        }
        host_free(homes);
    }
    return true;
}

/* ---- pieces ---- */

static int
by_place(const void *a, const void *b)
{
    const struct border *x = a, *y = b;

    if (x->space != y->space)
        return x->space < y->space ? -1 : 1;
    return x->at < y->at ? -1 : x->at > y->at;
}

static size_t
find_border(const struct order *o, uint32_t space, uint64_t at)
{
    struct border key = {space, at};
    size_t first = 0, last = o->n_borders;

    while (first < last) {
        size_t mid = first + (last - first) / 2;
        if (by_place(&o->borders[mid], &key) < 0)
            first = mid + 1;
        else
            last = mid;
    }
    assert(first < o->n_borders && by_place(&o->borders[first], &key) == 0);
    return first;
}

static bool
find_borders(struct order *o)
{
    const struct hcq_graph *graph = o->graph;
    size_t i, n = 0;

    o->borders = host_calloc(2 * graph->n_args, sizeof(*o->borders));
    if (!o->borders)
        return false;
    for (i = 0; i < graph->n_args; i++) {
        const struct hcq_graph_arg *arg = &graph->args[i];
        if (!arg->access || !arg->size_bytes)
            continue;
        o->borders[n++] = o->places[i];
        o->borders[n] = o->places[i];
        o->borders[n++].at += arg->size_bytes;
    }
    qsort(o->borders, n, sizeof(*o->borders), by_place);
    for (i = 0; i < n; i++) {
        if (o->n_borders == 0 ||
            by_place(&o->borders[i], &o->borders[o->n_borders - 1]) != 0)
            o->borders[o->n_borders++] = o->borders[i];
    }
    /* each border begins one, but for the last */
    for (o->n_pieces = 1; o->n_pieces < o->n_borders;)
        o->n_pieces *= 2;
    assert(is_pow2(o->n_pieces) && o->n_pieces >= o->n_borders);
    return true;
}

static bool
make_trees(struct order *o)
{
    uint32_t q, i;

    for (q = 0; q < o->graph->n_queues; q++) {
        for (i = 0; i < TREE_COUNT; i++) {
            struct tree *tree = &o->trees[q][i];
            tree->all = host_calloc(2 * o->n_pieces, sizeof(*tree->all));
            tree->any = host_calloc(2 * o->n_pieces, sizeof(*tree->any));
            if (!tree->all || !tree->any)
                return false;
        }
    }
    return true;
}

static void
clear_trees(struct order *o)
{
    uint32_t q, i;

    for (q = 0; q < o->graph->n_queues; q++) {
        for (i = 0; i < TREE_COUNT; i++) {
            struct tree *tree = &o->trees[q][i];
            memset(tree->all, 0, 2 * o->n_pieces * sizeof(*tree->all));
            memset(tree->any, 0, 2 * o->n_pieces * sizeof(*tree->any));
        }
    }
}

static void
note_at(struct tree *tree, size_t node, uint32_t moment)
{
    assert(node > 0 && moment > 0);
    if (tree->all[node] < moment)
        tree->all[node] = moment;
    for (; node && tree->any[node] < moment; node /= 2)
        tree->any[node] = moment;
}

/* For the pieces first..last-1, of which there is one at least. */
static void
note(const struct order *o, struct tree *tree, size_t first, size_t last,
     uint32_t moment)
{
    size_t l = first + o->n_pieces, r = last + o->n_pieces;

    assert(first < last && last <= o->n_pieces);
    for (; l < r; l /= 2, r /= 2) {
        if (l & 1)
            note_at(tree, l++, moment);
        if (r & 1)
            note_at(tree, --r, moment);
    }
}

static uint32_t
greater(uint32_t a, uint32_t b)
{
    return a > b ? a : b;
}

/* A node above pieces that lie inside contains the first or the last. */
static uint32_t
find_last(const struct order *o, const struct tree *tree, size_t first,
          size_t last)
{
    size_t l = first + o->n_pieces, r = last + o->n_pieces, node;
    uint32_t found = 0;

    assert(first < last && last <= o->n_pieces);
    for (node = l; node; node /= 2)
        found = greater(found, tree->all[node]);
    for (node = r - 1; node; node /= 2)
        found = greater(found, tree->all[node]);
    for (; l < r; l /= 2, r /= 2) {
        if (l & 1)
            found = greater(found, tree->any[l++]);
        if (r & 1)
            found = greater(found, tree->any[--r]);
    }
    return found;
}

/* ---- conflicts ---- */

/* The last moment of each queue at which something conflicted with the command,
 * as far as that is known; then notes what it does, on `queue`, at `moment`. */
static void
find_conflicts(const struct order *o, const struct graph_command *command,
               uint32_t queue, uint32_t moment, uint32_t *out_moments)
{
    const struct hcq_graph *graph = o->graph;
    uint32_t i, q;
    bool notes;

    assert(queue < graph->n_queues &&
           graph->queues[queue]->dev == command->dev);
    for (q = 0; q < graph->n_queues; q++)
        out_moments[q] = 0;
    for (notes = false;; notes = true) {
        for (i = 0; i < command->n_args; i++) {
            const struct hcq_graph_arg *arg =
                &graph->args[command->first_arg + i];
            const struct border *place;
            size_t first, last;
            if (!arg->access || !arg->size_bytes)
                continue;
            place = &o->places[command->first_arg + i];
            first = find_border(o, place->space, place->at);
            last = find_border(o, place->space, place->at + arg->size_bytes);
            for (q = 0; q < graph->n_queues && !notes; q++) {
                const struct tree *trees = o->trees[q];
                if (graph->queues[q]->dev != command->dev &&
                    !o->is_known[command - graph->commands])
                    continue;
                out_moments[q] = greater(
                    out_moments[q], find_last(o, &trees[WRITES], first, last));
                if (arg->access & HCQ_ACCESS_WRITE)
                    out_moments[q] =
                        greater(out_moments[q],
                                find_last(o, &trees[READS], first, last));
            }
            if (notes && arg->access & HCQ_ACCESS_WRITE)
                note(o, (struct tree *)&o->trees[queue][WRITES], first, last,
                     moment);
            if (notes && arg->access & HCQ_ACCESS_READ)
                note(o, (struct tree *)&o->trees[queue][READS], first, last,
                     moment);
        }
        if (notes)
            return;
    }
}

/* ---- queues ---- */

/* The device's compute queue, or the first one. */
static uint32_t
compute_queue_of(const struct hcq_graph *graph, const struct hcq_device *dev)
{
    uint32_t i, found = UINT32_MAX;

    for (i = 0; i < graph->n_queues; i++) {
        if (graph->queues[i]->dev != dev)
            continue;
        if (graph->queues[i]->kind == HCQ_QUEUE_COMPUTE)
            return i;
        if (found == UINT32_MAX)
            found = i;
    }
    assert(found < graph->n_queues);
    return found;
}

/* The n-th copy queue of the device that has one of the engines (0: any), and
 * how many there are. */
static uint32_t
count_copy_queues(const struct hcq_graph *graph, const struct hcq_device *dev,
                  uint32_t engines, uint32_t n, uint32_t *out_queue)
{
    uint32_t i, found = 0;

    for (i = 0; i < graph->n_queues; i++) {
        const struct hcq_queue *queue = graph->queues[i];
        if (queue->dev != dev || queue->kind != HCQ_QUEUE_COPY ||
            (engines && !(queue->engines & engines)))
            continue;
        if (found++ == n)
            *out_queue = i;
    }
    return found;
}

/* The copy queue of device `at` for memory of device `other`: by the engines of
 * the link between them, else each device another. Links count from the one
 * behind `at`, so that it is the same on all devices of a ring; those to others
 * come behind them. */
static uint32_t
find_route(struct order *o, uint32_t at, uint32_t other)
{
    struct hcq_device_link link = {.struct_size = sizeof(link)};
    const struct hcq_graph *graph = o->graph;
    struct bell_error_hold hold;
    uint32_t n, engines = 0, queue = 0, n_devs = graph->n_devs;
    bool is_stranger = other >= n_devs;
    uint32_t rank =
        is_stranger ? other - at - 1 : (other + n_devs - at - 1) % n_devs;

    assert(at < n_devs && other < n_devs + o->n_strangers);
    n = count_copy_queues(graph, o->graph->devs[at], 0, 0, &queue);
    if (n > 1 && at != other) {
        bell_error_hold(&hold); /* nobody knows: any will do */
        if (hcq_device_get_link(graph->devs[at],
                                is_stranger ? o->strangers[other - n_devs]
                                            : graph->devs[other],
                                &link) == BELL_OK)
            engines = link.engines;
        bell_error_release(&hold);
        if (!count_copy_queues(graph, o->graph->devs[at], engines, 0, &queue))
            engines = 0;
        n = count_copy_queues(graph, o->graph->devs[at], engines, 0, &queue);
        count_copy_queues(graph, o->graph->devs[at], engines, rank % n, &queue);
    }
    return n ? queue : compute_queue_of(graph, o->graph->devs[at]);
}

/* Whose memory an argument is, by number; that of `dev` where nobody knows. */
static uint32_t
owner_of(const struct order *o, uint32_t dev, uint32_t arg)
{
    const struct hcq_graph *graph = o->graph;
    uint32_t slot = graph->args[arg].slot, owner;

    if (slot != HCQ_SLOT_NONE) {
        owner =
            hcq_graph_device(graph, graph->slots[graph->slots[slot].first].dev);
        return owner < graph->n_devs ? owner : dev;
    }
    return o->owners[arg] ? o->owners[arg] - 1u : dev;
}

/* The copy queue that a transfer takes, if any. */
static uint32_t
route_of(struct order *o, const struct graph_command *command)
{
    uint32_t dev = hcq_graph_device(o->graph, command->dev), other = dev, k;

    assert(command->kind != GRAPH_EXEC && dev < o->graph->n_devs);
    for (k = 0; k < command->n_args && other == dev; k++)
        other = owner_of(o, dev, command->first_arg + k);
    if (!o->routes[dev][other])
        o->routes[dev][other] = (uint8_t)(find_route(o, dev, other) + 1);
    return o->routes[dev][other] - 1u;
}

/* What choose_queues knows of a command. */
struct choice {
    uint32_t first, last; /* it may run beside the commands first..last-1 */
    uint32_t n_execs;     /* before it */
    uint32_t route;       /* of a transfer that is large enough */
    uint32_t rival;       /* the last transfer before it of its device that
                           * takes another route; or UINT32_MAX */
};

#define NO_ROUTE UINT32_MAX

/* Between which commands each may run: those that conflict with it on its
 * device, one before it and one behind it. */
static void
find_windows(struct order *o, struct choice *choices)
{
    const struct hcq_graph *graph = o->graph;
    uint32_t moments[HCQ_GRAPH_QUEUES_MAX];
    size_t n = graph->n_commands, i;

    for (i = 0; i < n; i++) {
        const struct graph_command *command = &graph->commands[i];
        find_conflicts(o, command, command->queue, moment_of(i), moments);
        choices[i].first = moments[command->queue]
                               ? moments[command->queue] - moment_of(0) + 1
                               : 0;
    }
    clear_trees(o);
    for (i = n; i-- > 0;) {
        const struct graph_command *command = &graph->commands[i];
        /* moments count from the end here */
        find_conflicts(o, command, command->queue, moment_of(n - 1 - i),
                       moments);
        choices[i].last =
            moments[command->queue]
                ? (uint32_t)(n - 1) - (moments[command->queue] - moment_of(0))
                : (uint32_t)n;
    }
    clear_trees(o);
}

/* Which transfers are worth a copy queue, and which that is. */
static void
find_rivals(struct order *o, struct choice *choices)
{
    const struct hcq_graph *graph = o->graph;
    uint32_t last[HCQ_GRAPH_QUEUES_MAX], q;
    size_t i;

    memset(last, 0xff, sizeof(last));
    for (i = 0; i < graph->n_commands; i++) {
        const struct graph_command *command = &graph->commands[i];
        struct choice *choice = &choices[i];
        choice->route = choice->rival = NO_ROUTE;
        if ((command->kind != GRAPH_COPY && command->kind != GRAPH_FILL) ||
            command->size_bytes < MIN_COPY_BYTES)
            continue;
        choice->route = route_of(o, command);
        for (q = 0; q < graph->n_queues; q++) {
            if (q != choice->route && last[q] != NO_ROUTE &&
                graph->queues[q]->dev == command->dev &&
                (choice->rival == NO_ROUTE || last[q] > choice->rival))
                choice->rival = last[q];
        }
        last[choice->route] = (uint32_t)i;
    }
}

/* The transfer i and one before it that takes another route may run at the same
 * time: both go to their copy queues. */
static void
pair_rivals(struct hcq_graph *graph, const struct choice *choices)
{
    size_t i;

    for (i = 0; i < graph->n_commands; i++) {
        uint32_t rival = choices[i].rival;
        if (rival == NO_ROUTE || rival < choices[i].first)
            continue;
        graph->commands[i].queue = choices[i].route;
        graph->commands[rival].queue = choices[rival].route;
    }
}

/* Transfers go to a copy queue where a kernel may run meanwhile, or another
 * transfer of the device that goes to another one, or where the device has no
 * kernels in the graph. */
static bool
choose_queues(struct order *o)
{
    struct hcq_graph *graph = o->graph;
    bool has_kernels[HCQ_GRAPH_QUEUES_MAX] = {false};
    size_t n = graph->n_commands, i;
    struct choice *choices = host_calloc(n + 1, sizeof(*choices));

    if (!choices)
        return false;
    for (i = 0; i < n; i++) {
        struct graph_command *command = &graph->commands[i];
        bool is_exec = command->kind == GRAPH_EXEC;
        command->queue = compute_queue_of(graph, command->dev);
        choices[i + 1].n_execs = choices[i].n_execs + is_exec;
        has_kernels[command->queue] |= is_exec;
    }
    find_windows(o, choices);
    find_rivals(o, choices);
    for (i = 0; i < n; i++) {
        const struct choice *c = &choices[i];
        if (c->route != NO_ROUTE &&
            (choices[c->last].n_execs > choices[c->first].n_execs ||
             !has_kernels[graph->commands[i].queue]))
            graph->commands[i].queue = c->route;
    }
    pair_rivals(graph, choices);
    for (i = 0; i < n; i++) {
        struct graph_command *command = &graph->commands[i];
        if (command->sig)
            command->queue = command->on_queue;
    }
    host_free(choices);
    return true;
}

/* ---- waits ---- */

/* `queue` waits until a moment of `of`, unless it knows it to be over. */
static bool
add_wait(struct order *o, uint32_t queue, uint32_t of, uint32_t moment)
{
    struct hcq_graph *graph = o->graph;
    uint32_t i;

    assert(queue != of && moment >= GRAPH_BEGIN);
    if (o->known[queue][of] >= moment)
        return true;
    if (host_grow((void **)&graph->waits, &graph->cap_waits, graph->n_waits + 1,
                  sizeof(*graph->waits)) != 0)
        return false;
    graph->waits[graph->n_waits++] = (struct graph_wait){of, moment};
    o->known[queue][of] = moment;
    if (moment == GRAPH_BEGIN) {
        graph->begin_waiters |= 1ull << queue;
        return true;
    }
    graph->commands[moment - moment_of(0)].waiters |= 1ull << queue;
    for (i = 0; i < graph->n_queues; i++)
        o->known[queue][i] = greater(
            o->known[queue][i],
            o->then[(size_t)(moment - moment_of(0)) * graph->n_queues + i]);
    return true;
}

/* Waits for these moments, the latest first: it may tell of the others. */
static bool
add_waits(struct order *o, uint32_t queue, uint32_t *moments)
{
    uint32_t of, i;

    moments[queue] = 0;
    for (;;) {
        for (of = 0, i = 1; i < o->graph->n_queues; i++) {
            if (moments[i] > moments[of])
                of = i;
        }
        if (moments[of] == 0)
            return true;
        if (!add_wait(o, queue, of, moments[of]))
            return false;
        moments[of] = 0;
    }
}

static bool
order_command(struct order *o, size_t at)
{
    struct hcq_graph *graph = o->graph;
    struct graph_command *command = &graph->commands[at];
    uint32_t moments[HCQ_GRAPH_QUEUES_MAX], q, queue = command->queue;

    assert(o->last[queue] < moment_of(at));
    find_conflicts(o, command, queue, moment_of(at), moments);
    for (q = 0; q < graph->n_queues; q++) {
        if (graph->queues[q]->dev != command->dev)
            moments[q] = greater(moments[q],
                                 o->is_known[at] ? o->unknown[q] : o->last[q]);
    }
    moments[0] = greater(moments[0], GRAPH_BEGIN);
    command->first_wait = (uint32_t)graph->n_waits;
    if (!add_waits(o, queue, moments))
        return false;
    command->n_waits = (uint32_t)graph->n_waits - command->first_wait;
    o->last[queue] = o->known[queue][queue] = moment_of(at);
    if (!o->is_known[at])
        o->unknown[queue] = moment_of(at);
    memcpy(&o->then[at * graph->n_queues], o->known[queue],
           graph->n_queues * sizeof(*o->then));
    return true;
}

static bool
order_commands(struct order *o)
{
    struct hcq_graph *graph = o->graph;
    uint32_t moments[HCQ_GRAPH_QUEUES_MAX];
    size_t i;

    o->then =
        host_calloc(graph->n_commands * graph->n_queues, sizeof(*o->then));
    if (!o->then || !find_places(o) || !find_borders(o) || !make_trees(o) ||
        !choose_queues(o))
        return false;
    for (i = 0; i < graph->n_commands; i++) {
        if (!order_command(o, i))
            return false;
    }
    memcpy(moments, o->last, sizeof(moments));
    i = graph->n_waits;
    if (!add_waits(o, 0, moments))
        return false;
    graph->n_last_waits = (uint32_t)(graph->n_waits - i);
    return true;
}

/* ---- what is fixed ---- */

static int
by_begin(const void *a, const void *b)
{
    const struct graph_range *x = a, *y = b;

    if (x->dev != y->dev)
        return x->dev < y->dev ? -1 : 1;
    return x->begin < y->begin ? -1 : x->begin > y->begin;
}

/* Sorts them, and joins those that meet. */
static void
join_ranges(struct graph_ranges *ranges)
{
    struct graph_range *list = ranges->list;
    size_t kept = 0, i;

    qsort(list, ranges->n, sizeof(*list), by_begin);
    for (i = 0; i < ranges->n; i++) {
        if (kept && list[i].dev == list[kept - 1].dev &&
            list[i].begin <= list[kept - 1].end) {
            if (list[i].end > list[kept - 1].end)
                list[kept - 1].end = list[i].end;
        } else {
            list[kept++] = list[i];
        }
    }
    ranges->n = kept;
}

/* The fixed ranges with that access, as their devices see them, or, of those
 * that have one, by home; false: out of memory. */
static bool
gather_ranges(const struct order *o, uint32_t access, bool by_home,
              struct graph_ranges *out)
{
    const struct hcq_graph *graph = o->graph;
    size_t i;
    uint32_t k;

    out->list = host_calloc(graph->n_args, sizeof(*out->list));
    if (!out->list)
        return false;
    for (i = 0; i < graph->n_commands; i++) {
        const struct graph_command *command = &graph->commands[i];
        for (k = 0; k < command->n_args; k++) {
            uint32_t at = command->first_arg + k;
            const struct hcq_graph_arg *arg = &graph->args[at];
            const struct border *place = &o->places[at];
            const struct hcq_device *dev = command->dev;
            uint64_t begin = arg->value;
            if (!(arg->access & access) || arg->slot != HCQ_SLOT_NONE ||
                !arg->size_bytes)
                continue;
            if (by_home && place->space == HCQ_SLOT_NONE)
                continue;
            if (by_home) {
                dev = o->homes[SPACE_DEV - place->space];
                begin = place->at;
            }
            out->list[out->n++] =
                (struct graph_range){dev, begin, begin + arg->size_bytes};
        }
    }
    join_ranges(out);
    return true;
}

/* By home only where something is compared so. */
static bool
gather_all_ranges(const struct order *o)
{
    struct hcq_graph *graph = o->graph;
    bool by_home = false;
    size_t i;

    for (i = 0; i < graph->n_slots; i++)
        by_home = by_home || graph->slots[i].has_home;
    return gather_ranges(o, HCQ_ACCESS_WRITE, false, &graph->written) &&
           gather_ranges(o, HCQ_ACCESS_READ, false, &graph->read) &&
           (!by_home ||
            (gather_ranges(o, HCQ_ACCESS_WRITE, true, &graph->home_written) &&
             gather_ranges(o, HCQ_ACCESS_READ, true, &graph->home_read)));
}

/* Whose memory slots are for, and which is written. */
static bell_status
find_users(struct hcq_graph *graph)
{
    uint32_t i;
    size_t at;

    for (at = 0; at < graph->n_commands; at++) {
        const struct graph_command *command = &graph->commands[at];
        for (i = 0; i < command->n_args; i++) {
            const struct hcq_graph_arg *arg =
                &graph->args[command->first_arg + i];
            struct graph_slot *slot;
            if (!arg->access || arg->slot == HCQ_SLOT_NONE)
                continue;
            slot = &graph->slots[arg->slot];
            if (slot->dev && slot->dev != command->dev)
                return bell_fail(BELL_BAD_VALUE,
                                 "graph '%s': slot '%s' is used on %s and %s: "
                                 "an address is one device's, hcq_graph_view "
                                 "gives the other's",
                                 graph->name,
                                 graph->names[slot - graph->slots].text,
                                 slot->dev->info.name, command->dev->info.name);
            slot->dev = command->dev;
            if (arg->access & HCQ_ACCESS_WRITE)
                slot->is_written = graph->slots[slot->first].is_home_written =
                    true;
        }
    }
    return BELL_OK;
}

bell_status
hcq_graph_order(struct hcq_graph *graph)
{
    struct order o = {.graph = graph};
    uint32_t q, i;
    bool ok = order_commands(&o) && gather_all_ranges(&o);
    size_t at;

    for (q = 0; q < graph->n_queues; q++) {
        for (i = 0; i < TREE_COUNT; i++) {
            host_free(o.trees[q][i].all);
            host_free(o.trees[q][i].any);
        }
    }
    host_free(o.borders);
    host_free(o.places);
    host_free(o.owners);
    host_free(o.is_known);
    host_free(o.then);
    if (!ok)
        return bell_fail(BELL_E_NO_MEMORY,
                         "graph '%s': out of memory to order %zu commands",
                         graph->name, graph->n_commands);
    BELL_TRY(find_users(graph));
    graph->is_used[0] = true;
    for (at = 0; at < graph->n_commands; at++)
        graph->is_used[graph->commands[at].queue] = true;
    for (q = 0; q < graph->n_queues; q++)
        graph->n_used += graph->is_used[q];
    return BELL_OK;
}
