/* Graphs as bound streams: making them, setting slots, submitting.
 *
 * Between the queues of a submission stand signals, one for each queue
 * that another waits for. Their values are the moments of hcq_graph_order and
 * begin at 0 again with each submission; nobody looks at them then: the last
 * submission of these streams is over.
 */
#include "hcq/hcq_graph_internal.h"

#include <stdio.h>
#include <string.h>

#include "base/alloc.h"

/* More than any moment: who waits goes on. */
#define GRAPH_GO_ON ((uint64_t)UINT32_MAX)

/* ---- making streams ---- */

/* The stream's patch point for a slot; HCQ_PATCH_NONE: the stream failed. */
static uint32_t
patch_of(const struct hcq_graph *graph, struct graph_copy *copy, uint32_t queue,
         uint32_t slot)
{
    uint32_t *patch = &copy->patches[queue][slot];

    if (*patch == HCQ_PATCH_NONE)
        *patch = hcq_stream_patch_point(copy->streams[queue],
                                        graph->slots[slot].name);
    return *patch;
}

static void
patch_arg(const struct hcq_graph *graph, struct graph_copy *copy,
          uint32_t queue, unsigned field, const struct hcq_graph_arg *arg)
{
    if (arg->slot != HCQ_SLOT_NONE)
        hcq_cs_patch(hcq_stream_cs(copy->streams[queue]), field,
                     patch_of(graph, copy, queue, arg->slot),
                     (int64_t)arg->value);
}

static void
emit_exec(const struct hcq_graph *graph, struct graph_copy *copy,
          const struct graph_command *command)
{
    const struct hcq_graph_arg *args = &graph->args[command->first_arg];
    uint64_t words[HCQ_ARGS_MAX];
    uint32_t i;

    for (i = 0; i < command->n_args; i++)
        words[i] = args[i].value;
    hcq_cs_exec(hcq_stream_cs(copy->streams[command->queue]), command->prog,
                words, command->n_args, command->grid,
                command->has_local ? command->local : NULL);
    for (i = 0; i < command->n_args; i++)
        patch_arg(graph, copy, command->queue, HCQ_FIELD_ARG + i, &args[i]);
}

static void
emit_transfer(const struct hcq_graph *graph, struct graph_copy *copy,
              const struct graph_command *command)
{
    const struct hcq_graph_arg *args = &graph->args[command->first_arg];
    struct hcq_cs *cs = hcq_stream_cs(copy->streams[command->queue]);

    if (command->kind == GRAPH_FILL) {
        hcq_cs_fill(cs, args[0].value, command->pattern, command->size_bytes);
        patch_arg(graph, copy, command->queue, HCQ_FIELD_ADDR, &args[0]);
        return;
    }
    hcq_cs_copy(cs, args[0].value, args[1].value, command->size_bytes);
    patch_arg(graph, copy, command->queue, HCQ_FIELD_DST, &args[0]);
    patch_arg(graph, copy, command->queue, HCQ_FIELD_SRC, &args[1]);
}

static void
emit_waits(const struct hcq_graph *graph, struct graph_copy *copy,
           uint32_t queue, uint32_t first, uint32_t n)
{
    uint32_t i;

    for (i = first; i < first + n; i++)
        hcq_cs_wait(hcq_stream_cs(copy->streams[queue]),
                    copy->signals[graph->waits[i].queue],
                    graph->waits[i].moment);
}

static void
emit_command(const struct hcq_graph *graph, struct graph_copy *copy, size_t at)
{
    const struct graph_command *command = &graph->commands[at];
    struct hcq_cs *cs = hcq_stream_cs(copy->streams[command->queue]);
    uint32_t i;

    emit_waits(graph, copy, command->queue, command->first_wait,
               command->n_waits);
    if (command->kind == GRAPH_EXEC)
        emit_exec(graph, copy, command);
    else
        emit_transfer(graph, copy, command);
    for (i = 0; i < command->n_patches; i++) {
        const struct graph_patch *patch =
            &graph->patches[command->first_patch + i];
        hcq_cs_patch(cs, patch->field,
                     patch_of(graph, copy, command->queue, patch->slot),
                     patch->addend);
    }
    if (command->signals)
        hcq_cs_signal(cs, copy->signals[command->queue],
                      (uint64_t)at + GRAPH_BEGIN + 1);
}

/* What a submission takes of queue `q`. */
static BELL_MUST_CHECK bell_status
create_parts(struct hcq_graph *graph, struct graph_copy *copy, uint32_t q)
{
    size_t n_bytes = (graph->n_slots + 1) * sizeof(**copy->patches);
    size_t i;
    bool is_alone = graph->n_used == 1;

    BELL_TRY(
        hcq_stream_create(graph->queues[q], graph->name, &copy->streams[q]));
    if (!is_alone)
        BELL_TRY(
            hcq_signal_create(graph->queues[q]->dev, 0, &copy->signals[q]));
    copy->patches[q] = host_alloc(n_bytes);
    if (!copy->patches[q])
        return bell_fail(BELL_E_NO_MEMORY,
                         "graph '%s': no memory for %zu slots", graph->name,
                         graph->n_slots);
    for (i = 0; i < graph->n_slots; i++)
        copy->patches[q][i] = HCQ_PATCH_NONE;
    return BELL_OK;
}

static BELL_MUST_CHECK bell_status
bind_copy(struct hcq_graph *graph, struct graph_copy *copy)
{
    uint32_t q;
    size_t i;

    copy->dirty = host_calloc(graph->n_slots + 1, sizeof(*copy->dirty));
    copy->is_dirty = host_calloc(graph->n_slots + 1, sizeof(*copy->is_dirty));
    if (!copy->dirty || !copy->is_dirty)
        return bell_fail(BELL_E_NO_MEMORY,
                         "graph '%s': no memory for %zu slots", graph->name,
                         graph->n_slots);
    for (q = 0; q < graph->n_queues; q++) {
        if (graph->is_used[q])
            BELL_TRY(create_parts(graph, copy, q));
    }
    if (graph->begin_signals)
        hcq_cs_signal(hcq_stream_cs(copy->streams[0]), copy->signals[0],
                      GRAPH_BEGIN);
    for (i = 0; i < graph->n_commands; i++)
        emit_command(graph, copy, i);
    emit_waits(graph, copy, 0, (uint32_t)graph->n_waits - graph->n_last_waits,
               graph->n_last_waits);
    for (q = 0; q < graph->n_queues; q++) {
        if (copy->streams[q])
            BELL_TRY(hcq_stream_end(copy->streams[q]));
    }
    return BELL_OK;
}

bell_status
hcq_graph_bind(struct hcq_graph *graph)
{
    uint32_t i;

    for (i = 0; i < GRAPH_COPIES; i++)
        BELL_TRY(bind_copy(graph, &graph->copies[i]));
    graph->n_unset = (uint32_t)graph->n_slots;
    return BELL_OK;
}

/* Lets what waits go on, wherever it stands. */
static void
let_go(struct hcq_graph *graph, struct graph_copy *copy)
{
    uint32_t q;

    for (q = 0; q < graph->n_queues; q++) {
        if (copy->signals[q])
            hcq_signal_set(copy->signals[q], GRAPH_GO_ON);
    }
}

/* What does not end, or is on a lost device, is not waited for further. */
static void
wait_streams(struct hcq_graph *graph, struct graph_copy *copy)
{
    struct bell_error_hold hold;
    uint32_t q;

    bell_error_hold(&hold);
    for (q = 0; q < graph->n_queues; q++) {
        if (copy->streams[q] &&
            hcq_stream_wait(copy->streams[q], HCQ_TIMEOUT_NS) != BELL_OK)
            break;
    }
    bell_error_release(&hold);
}

void
hcq_graph_unbind(struct hcq_graph *graph)
{
    uint32_t i, q;

    for (i = 0; i < GRAPH_COPIES; i++) {
        struct graph_copy *copy = &graph->copies[i];
        wait_streams(graph, copy);
        for (q = 0; q < graph->n_queues; q++) {
            hcq_stream_destroy(copy->streams[q]);
            hcq_signal_destroy(copy->signals[q]);
            host_free(copy->patches[q]);
        }
        host_free(copy->dirty);
        host_free(copy->is_dirty);
        memset(copy, 0, sizeof(*copy));
    }
}

/* ---- slots ---- */

bell_status
hcq_graph_set(struct hcq_graph *graph, uint32_t slot, uint64_t value)
{
    struct graph_slot *s;
    uint32_t i;

    if (graph->state != GRAPH_READY || slot >= graph->n_slots)
        return bell_fail(BELL_BAD_STATE, "graph '%s': slot %u: %s", graph->name,
                         slot,
                         graph->state != GRAPH_READY ? "the graph is not built"
                                                     : "there is none");
    s = &graph->slots[slot];
    if (s->is_set && s->value == value)
        return BELL_OK;
    graph->n_unset -= !s->is_set;
    s->is_set = true;
    s->value = value;
    for (i = 0; i < GRAPH_COPIES; i++) {
        struct graph_copy *copy = &graph->copies[i];
        if (copy->is_dirty[slot])
            continue;
        copy->is_dirty[slot] = true;
        copy->dirty[copy->n_dirty++] = slot;
    }
    return BELL_OK;
}

/* Do the fixed ranges, which are in order, meet begin..end-1? */
static const struct graph_range *
find_range(const struct graph_range *ranges, size_t n, uint64_t begin,
           uint64_t end)
{
    size_t first = 0, last = n;

    while (first < last) {
        size_t mid = first + (last - first) / 2;
        if (ranges[mid].end <= begin)
            first = mid + 1;
        else
            last = mid;
    }
    return first < n && ranges[first].begin < end ? &ranges[first] : NULL;
}

/* The first slot that `slot` may not meet and meets; HCQ_SLOT_NONE: none. */
static uint32_t
find_overlap(const struct hcq_graph *graph, uint32_t slot)
{
    const struct graph_slot *a = &graph->slots[slot], *b;
    uint32_t i;

    for (i = 0; i < graph->n_slots; i++) {
        b = &graph->slots[i];
        if (i != slot && b->is_set && b->size_bytes &&
            (a->is_written || b->is_written) &&
            a->value < b->value + b->size_bytes &&
            b->value < a->value + a->size_bytes)
            return i;
    }
    return HCQ_SLOT_NONE;
}

static BELL_MUST_CHECK bell_status
check_slot(const struct hcq_graph *graph, uint32_t slot)
{
    const struct graph_slot *s = &graph->slots[slot];
    const struct graph_range *range;
    uint64_t end = s->value + s->size_bytes;
    uint32_t other;

    if (!s->size_bytes)
        return BELL_OK;
    if (end < s->value)
        return bell_fail(BELL_BAD_VALUE,
                         "graph '%s': slot '%s' at 0x%llx, of %llu bytes, goes "
                         "beyond all addresses",
                         graph->name, s->name, (unsigned long long)s->value,
                         (unsigned long long)s->size_bytes);
    other = find_overlap(graph, slot);
    if (other != HCQ_SLOT_NONE)
        return bell_fail(
            BELL_BAD_VALUE,
            "graph '%s': slot '%s' at 0x%llx, of %llu bytes, and slot '%s' at "
            "0x%llx overlap, and one is written",
            graph->name, s->name, (unsigned long long)s->value,
            (unsigned long long)s->size_bytes, graph->slots[other].name,
            (unsigned long long)graph->slots[other].value);
    range = find_range(graph->written, graph->n_written, s->value, end);
    if (!range && s->is_written)
        range = find_range(graph->read, graph->n_read, s->value, end);
    if (range)
        return bell_fail(
            BELL_BAD_VALUE,
            "graph '%s': slot '%s' at 0x%llx, of %llu bytes, overlaps "
            "0x%llx to 0x%llx, which the graph uses too, and one is written",
            graph->name, s->name, (unsigned long long)s->value,
            (unsigned long long)s->size_bytes, (unsigned long long)range->begin,
            (unsigned long long)range->end);
    return BELL_OK;
}

/* Puts what changed into the streams, the last change first. */
static BELL_MUST_CHECK bell_status
patch_copy(struct hcq_graph *graph, struct graph_copy *copy)
{
    uint32_t i, q;

    for (i = 0; i < copy->n_dirty && !(graph->flags & HCQ_GRAPH_TRUSTED); i++)
        BELL_TRY(check_slot(graph, copy->dirty[i]));
    while (copy->n_dirty) {
        uint32_t slot = copy->dirty[copy->n_dirty - 1];
        for (q = 0; q < graph->n_queues; q++) {
            if (copy->streams[q] && copy->patches[q][slot] != HCQ_PATCH_NONE)
                BELL_TRY(hcq_stream_patch(copy->streams[q],
                                          copy->patches[q][slot],
                                          graph->slots[slot].value));
        }
        copy->is_dirty[slot] = false;
        copy->n_dirty--;
    }
    return BELL_OK;
}

/* ---- submitting ---- */

static bool
is_over(const struct hcq_graph *graph, const struct graph_copy *copy)
{
    return hcq_signal_value(graph->queues[0]->timeline) >= copy->last_value;
}

/* The first queue first: most of the work is there. */
static BELL_MUST_CHECK bell_status
submit_copy(struct hcq_graph *graph, struct graph_copy *copy)
{
    bell_status status;
    uint32_t q;

    for (q = 0; q < graph->n_queues; q++) {
        if (copy->signals[q])
            hcq_signal_set(copy->signals[q], 0);
    }
    BELL_TRY(hcq_stream_submit(copy->streams[0], &copy->last_value));
    for (q = 1; q < graph->n_queues; q++) {
        if (!copy->streams[q])
            continue;
        status = hcq_stream_submit(copy->streams[q], NULL);
        if (status == BELL_OK)
            continue;
        graph->state = GRAPH_BROKEN;
        let_go(graph, copy);
        return status;
    }
    return BELL_OK;
}

bell_status
hcq_graph_submit(struct hcq_graph *graph, uint64_t *out_value)
{
    struct graph_copy *copy = &graph->copies[graph->next];
    struct hcq_queue *queue = graph->queues[0];

    if (graph->state != GRAPH_READY || graph->n_unset)
        return bell_fail(BELL_BAD_STATE, "graph '%s': %s", graph->name,
                         graph->state == GRAPH_BUILDING ? "it is not ended"
                         : graph->state == GRAPH_BROKEN
                             ? "it failed"
                             : "a slot has no value yet");
    BELL_TRY(hcq_check_process(queue->dev));
    if ((copy->n_dirty || graph->n_used > 1) && !is_over(graph, copy))
        BELL_TRY(hcq_signal_wait(queue->timeline, copy->last_value,
                                 queue->submit_timeout_ns));
    BELL_TRY(patch_copy(graph, copy));
    BELL_TRY(submit_copy(graph, copy));
    graph->next = (graph->next + 1) % GRAPH_COPIES;
    if (out_value)
        *out_value = copy->last_value;
    return BELL_OK;
}

bool
hcq_graph_busy(const struct hcq_graph *graph)
{
    uint32_t i;

    for (i = 0; i < GRAPH_COPIES; i++) {
        if (!is_over(graph, &graph->copies[i]))
            return true;
    }
    return false;
}

bell_status
hcq_graph_wait(struct hcq_graph *graph, uint64_t timeout_ns)
{
    uint64_t last = 0;
    uint32_t i;

    for (i = 0; i < GRAPH_COPIES; i++) {
        if (graph->copies[i].last_value > last)
            last = graph->copies[i].last_value;
    }
    BELL_TRY(hcq_signal_wait(graph->queues[0]->timeline, last, timeout_ns));
    return BELL_OK;
}
