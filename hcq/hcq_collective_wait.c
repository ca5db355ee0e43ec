/* Waiting for collectives, and which rank keeps the others. */
#include "hcq/hcq_collective_internal.h"

#include <stdarg.h>
#include <stdio.h>

#include "hcq/hcq_graph_internal.h"

/* Where a queue has come to. */
struct standing {
    const struct graph_command *command; /* that is not done; or NULL */
    uint32_t for_queue; /* whose moment it waits for; n_queues: none's */
};

/* The older of the submissions that run on the queue; NULL: none does. */
static const struct graph_copy *
find_running(const struct hcq_graph *graph, uint32_t queue)
{
    uint32_t i;

    for (i = 1; i <= GRAPH_COPIES; i++) {
        const struct graph_copy *copy =
            &graph->copies[(graph->last + i) % GRAPH_COPIES];

        if (copy->streams[queue] && hcq_stream_busy(copy->streams[queue]))
            return copy;
    }
    return NULL;
}

/* The last moment of the queue that others were told of. A waiter that has come
 * to its end has been told of all that it waited for, and keeps nothing. */
static uint64_t
reached(const struct hcq_graph *graph, const struct graph_copy *copy,
        uint32_t queue)
{
    uint64_t most =
        copy->signals[queue] ? hcq_signal_value(copy->signals[queue]) : 0;
    uint32_t w;

    for (w = 0; w < graph->n_queues; w++) {
        const struct hcq_signal *near = hcq_graph_near(graph, copy, queue, w);
        uint64_t value =
            near && !hcq_device_is_lost(near->dev) ? hcq_signal_value(near) : 0;

        most = value > most ? value : most;
    }
    return most;
}

/* Who is lost waits for nobody. */
static bool
is_told(const struct hcq_graph *graph, const struct graph_copy *copy,
        uint32_t waiter, const struct graph_wait *wait)
{
    const struct hcq_signal *sig =
        hcq_graph_near(graph, copy, wait->queue, waiter);

    if (!sig)
        sig = copy->signals[wait->queue];
    return sig && (hcq_device_is_lost(sig->dev) ||
                   hcq_signal_value(sig) >= wait->moment);
}

/* A moment that has not come of these waits; NULL: all have. */
static const struct graph_wait *
find_open(const struct hcq_graph *graph, const struct graph_copy *copy,
          uint32_t queue, size_t first, uint32_t n)
{
    uint32_t i;

    for (i = 0; i < n; i++) {
        const struct graph_wait *wait = &graph->waits[first + i];

        if (!is_told(graph, copy, queue, wait))
            return wait;
    }
    return NULL;
}

/* Commands that nobody waits for do not tell that they are done: it stands at
 * the first that may not be, unless a later one, or the end, waits for another
 * queue. */
static struct standing
find_standing(const struct hcq_graph *graph, const struct graph_copy *copy,
              uint32_t queue)
{
    struct standing at = {NULL, graph->n_queues};
    uint64_t seen = reached(graph, copy, queue);
    const struct graph_wait *wait = NULL;
    size_t i;

    for (i = 0; i < graph->n_commands && !wait; i++) {
        const struct graph_command *command = &graph->commands[i];

        if (command->queue != queue || i + GRAPH_BEGIN + 1 <= seen)
            continue;
        wait = find_open(graph, copy, queue, command->first_wait,
                         command->n_waits);
        if (!at.command)
            at.command = command;
        if (!wait && command->waiters)
            return at;
    }
    if (!wait && queue == 0)
        wait = find_open(graph, copy, 0, graph->n_waits - graph->n_last_waits,
                         graph->n_last_waits);
    if (wait)
        at.for_queue = wait->queue;
    return at;
}

static uint32_t
rank_of(const struct hcq_collective *c, const struct hcq_device *dev)
{
    uint32_t r;

    for (r = 0; r < c->task.n && c->ranks[r].dev != dev; r++)
        continue;
    return r;
}

struct text {
    char bytes[224];
    size_t used;
};

__attribute__((format(printf, 2, 3))) static void
put(struct text *text, const char *fmt, ...)
{
    size_t room = sizeof(text->bytes) - text->used;
    va_list args;
    int n;

    va_start(args, fmt);
    n = vsnprintf(text->bytes + text->used, room, fmt, args);
    va_end(args);
    text->used += n < 0 ? 0 : (size_t)n < room ? (size_t)n : room - 1;
}

static void
put_rank(struct text *text, const struct hcq_collective *c, uint32_t r)
{
    put(text, "; rank %u (%s) ", r, hcq_device_name(c->ranks[r].dev));
}

/* Ranks that wait for nobody, or those that wait for another one. */
static void
list_busy(const struct hcq_collective *c, const struct hcq_graph *graph,
          bool waiters, struct text *text)
{
    uint32_t q, rank, other;

    for (q = 0; q < graph->n_queues; q++) {
        const struct graph_copy *copy = find_running(graph, q);
        struct standing at;

        rank = rank_of(c, graph->queues[q]->dev);
        if (!copy || rank == c->task.n)
            continue;
        at = find_standing(graph, copy, q);
        other = at.for_queue == graph->n_queues
                    ? rank
                    : rank_of(c, graph->queues[at.for_queue]->dev);
        if (waiters != (other != rank) || (!waiters && !at.command))
            continue;
        put_rank(text, c, rank);
        if (waiters)
            put(text, "waits for rank %u", other);
        else
            put(text, "has not done command %zu of %zu, %s",
                (size_t)(at.command - graph->commands) + 1, graph->n_commands,
                at.command->kind == GRAPH_EXEC   ? at.command->prog->name
                : at.command->kind == GRAPH_COPY ? "copy"
                                                 : "fill");
    }
}

bell_status
hcq_collective_wait(const struct hcq_collective *c, struct hcq_graph *graph,
                    uint64_t timeout_ns)
{
    bell_status status = hcq_graph_wait(graph, timeout_ns);
    struct text text = {.used = 0};
    uint32_t r;

    if (status == BELL_OK)
        return BELL_OK;
    text.bytes[0] = '\0';
    for (r = 0; r < c->task.n; r++) {
        if (!hcq_device_is_lost(c->ranks[r].dev))
            continue;
        put_rank(&text, c, r);
        put(&text, "is lost");
    }
    if (status == BELL_E_TIMEOUT) {
        list_busy(c, graph, false, &text);
        list_busy(c, graph, true, &text);
    }
    bell_error_prefix(
        "%s%s%s of %u x %llu %s, %s%s", c->name, c->name[0] ? ": " : "",
        hcq_collective_kind_name(c->task.kind), c->task.n,
        (unsigned long long)c->task.count, hcq_dtype_name(c->task.dtype),
        hcq_collective_algorithm_name(c->info.algorithm), text.bytes);
    return status;
}
