/* Signals of a graph in the memory of the device that waits: a queue that looks
 * at a word again and again then looks into its own memory, and only the one
 * write crosses the bus.
 *
 * There is one for each pair of queues, so that several waiters are told by a
 * write each. That is less work than one word in host memory from four or so
 * on (guess): writes do not wait for each other, and looks into host memory are
 * round trips that share the bus.
 *
 * The writer is the only one who stores while it runs; behind its last wait the
 * waiter sets the word to 0 for the next submission, which a store of the
 * host's could not do: on the way through the device's window it would have to
 * be waited for, once a submission. The last value that is written is the last
 * that is waited for, so nothing is written behind that.
 *
 * Order: a release comes behind the data of its queue wherever both go. NVIDIA:
 * it waits for idle and a barrier of the whole system. Between PCIe cards
 * posted writes of one card to another keep their order (PCI Express Base
 * Specification 5.0, 2.4.1). AMD: RELEASE_MEM waits for the write-back of
 * caches. Waiters that poll their own memory while a peer writes to it: lead,
 * seen on simulated cards alone; docs/how-to/graphs.md.
 */
#include "hcq/hcq_graph_internal.h"

#include <assert.h>

#include "base/alloc.h"
#include "hcq/hcq_signal_pages.h"

/* In a signal's memory, behind what any driver has there. */
#define SPARE_OFFSET (HCQ_SIGNAL_BYTES / 2)

/* ---- which --------------------------------------------------------------- */

enum reach {
    REACH_UNKNOWN,
    REACH_NO,
    REACH_YES
};

/* Between devices, by number: asked once. */
struct near_search {
    struct hcq_graph *graph;
    uint32_t n_pairs; /* that have a signal */
    uint8_t *reach;   /* owned: [writer * n_devs + waiter], enum reach */
};

static bool
writes_to(struct near_search *s, uint32_t writer, uint32_t waiter)
{
    struct hcq_device_link link = {.struct_size = sizeof(link)};
    const struct hcq_graph *graph = s->graph;
    uint8_t *reach = &s->reach[writer * graph->n_devs + waiter];
    struct bell_error_hold hold;

    if (*reach != REACH_UNKNOWN)
        return *reach == REACH_YES;
    bell_error_hold(&hold); /* nobody knows: it does not */
    *reach =
        graph->devs[waiter]->ops->signal_alloc_near &&
                hcq_device_get_link(graph->devs[writer], graph->devs[waiter],
                                    &link) == BELL_OK &&
                link.kind > HCQ_LINK_HOST && link.writes
            ? REACH_YES
            : REACH_NO;
    bell_error_release(&hold);
    return *reach == REACH_YES;
}

/* Whether the engine addresses it when it waits or signals. */
static bool
takes_address(const struct hcq_queue *queue, uint64_t va)
{
    return va <= queue->sync_va_end - HCQ_SIGNAL_BYTES;
}

/* The pair's signal, unless it has one. A machine that refuses the memory, or
 * the way to it, is one that has the signal in host memory. */
static BELL_MUST_CHECK bell_status
add_pair(struct near_search *s, struct graph_copy *copy, uint32_t queue,
         uint32_t waiter)
{
    struct hcq_graph *graph = s->graph;
    struct hcq_signal **near = &copy->near[queue * graph->n_queues + waiter];
    uint32_t writer = graph->dev_of[queue];
    struct hcq_device *dev = graph->queues[waiter]->dev;
    struct bell_error_hold hold;
    bell_status status;
    uint64_t va;

    if (*near || writer == graph->dev_of[waiter] ||
        !graph->queues[waiter]->clears_signals ||
        !writes_to(s, writer, graph->dev_of[waiter]))
        return BELL_OK;
    bell_error_hold(&hold);
    status = hcq_signal_create_near(dev, near);
    if (status == BELL_OK) {
        status = dev->ops->signal_map(graph->devs[writer], *near, &va);
        if (status == BELL_OK &&
            !(takes_address(graph->queues[queue], va) &&
              takes_address(graph->queues[waiter], (*near)->va)))
            status = BELL_E_UNSUPPORTED;
        if (status != BELL_OK) {
            hcq_signal_destroy(*near);
            *near = NULL;
        }
    }
    if (status != BELL_OK && status != BELL_E_UNSUPPORTED &&
        status != BELL_E_NO_MEMORY)
        return status;
    if (status != BELL_OK)
        s->reach[writer * graph->n_devs + graph->dev_of[waiter]] = REACH_NO;
    s->n_pairs += status == BELL_OK;
    bell_error_release(&hold);
    return BELL_OK;
}

static BELL_MUST_CHECK bell_status
add_pairs(struct near_search *s, struct graph_copy *copy)
{
    const struct hcq_graph *graph = s->graph;
    size_t first = graph->n_waits - graph->n_last_waits, i;
    uint32_t k;

    for (i = 0; i < graph->n_commands; i++) {
        const struct graph_command *command = &graph->commands[i];

        for (k = 0; k < command->n_waits; k++)
            BELL_TRY(add_pair(s, copy,
                              graph->waits[command->first_wait + k].queue,
                              command->queue));
    }
    for (i = first; i < graph->n_waits; i++)
        BELL_TRY(add_pair(s, copy, graph->waits[i].queue, 0));
    return BELL_OK;
}

bell_status
hcq_graph_near_create(struct hcq_graph *graph, struct graph_copy *copy)
{
    size_t n_pairs = (size_t)graph->n_queues * graph->n_queues;
    struct near_search s = {.graph = graph};
    bell_status status;

    assert(!copy->near);
    if (graph->aliases || graph->n_devs < 2)
        return BELL_OK;
    s.reach = host_calloc((size_t)graph->n_devs * graph->n_devs, 1);
    copy->near = host_calloc(n_pairs, sizeof(*copy->near));
    copy->is_near_dirty = true; /* not settled */
    if (!s.reach || !copy->near)
        status = bell_fail(BELL_E_NO_MEMORY,
                           "graph '%s': out of memory for %zu signals",
                           graph->name, n_pairs);
    else
        status = add_pairs(&s, copy);
    host_free(s.reach);
    if (status == BELL_OK && !s.n_pairs)
        hcq_graph_near_destroy(graph, copy);
    return status;
}

/* ---- use ----------------------------------------------------------------- */

void
hcq_graph_near_destroy(struct hcq_graph *graph, struct graph_copy *copy)
{
    size_t n_pairs = (size_t)graph->n_queues * graph->n_queues, i;

    for (i = 0; copy->near && i < n_pairs; i++)
        hcq_signal_destroy(copy->near[i]);
    host_free(copy->near);
    copy->near = NULL;
}

/* For one waiter. The write is to a word of the signal's that nobody reads. */
static void
emit_clear(const struct hcq_graph *graph, struct graph_copy *copy,
           uint32_t waiter)
{
    bool is_first = graph->queues[waiter]->clears_behind_write;
    uint32_t q;

    for (q = 0; q < graph->n_queues; q++) {
        const struct hcq_signal *near = hcq_graph_near(graph, copy, q, waiter);
        struct hcq_cs *cs;

        if (!near)
            continue;
        cs = hcq_stream_cs(copy->streams[waiter]);
        if (is_first)
            hcq_cs_write(cs, near->va + SPARE_OFFSET, 0, 64);
        is_first = false;
        hcq_cs_signal(cs, near, 0);
    }
}

void
hcq_graph_near_emit_clear(const struct hcq_graph *graph,
                          struct graph_copy *copy)
{
    uint32_t w;

    for (w = 0; w < graph->n_queues; w++)
        emit_clear(graph, copy, w);
}

void
hcq_graph_near_set(const struct hcq_graph *graph, struct graph_copy *copy,
                   uint32_t of, uint64_t value)
{
    uint32_t w;

    for (w = 0; w < graph->n_queues; w++) {
        struct hcq_signal *near = hcq_graph_near(graph, copy, of, w);

        if (!near)
            continue;
        copy->is_near_dirty = true;
        if (hcq_device_is_lost(near->dev))
            continue; /* nobody waits there; its memory may be gone */
        hcq_signal_set(near, value);
        near->dev->ops->signal_settle(near->dev, near);
    }
}

void
hcq_graph_near_check(const struct hcq_graph *graph, struct graph_copy *copy,
                     uint64_t epoch)
{
    uint32_t q;

    if (__builtin_expect(!copy->is_near_dirty && copy->near_epoch == epoch, 1))
        return;
    for (q = 0; q < graph->n_queues; q++)
        hcq_graph_near_set(graph, copy, q, 0);
    copy->is_near_dirty = false;
    copy->near_epoch = epoch;
}
