/* Graphs as bound streams: making them, submitting.
 *
 * Between the queues of a submission stand signals, one for each queue
 * that another waits for. Their values are the moments of hcq_graph_order and
 * begin at 0 again with each submission; nobody looks at them then: the last
 * submission of these streams is over.
 */
#include "hcq/hcq_graph_internal.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/bits.h"
#include "base/interrupt.h"
#include "base/log.h"
#include "base/thread.h"
#include "hcq/hcq_order.h"
#include "hcq/hcq_packet.h"
#include "hcq/hcq_signal_pages.h"

/* More than any moment: who waits goes on. */
#define GRAPH_GO_ON ((uint64_t)UINT32_MAX)

/* So often who waits for several queues looks whether all of them go on.
 * guess */
#define LOOK_EVERY_NS 20000000ull

/* ---- making streams ---- */

/* The stream's patch point for a slot; HCQ_PATCH_NONE: the stream failed. */
static uint32_t
patch_of(const struct hcq_graph *graph, struct graph_copy *copy, uint32_t queue,
         uint32_t slot)
{
    uint32_t *patch = &copy->patches[queue][slot];

    assert(slot < graph->n_slots && copy->streams[queue]);
    if (*patch == HCQ_PATCH_NONE)
        *patch = hcq_stream_patch_point(copy->streams[queue],
                                        graph->names[slot].text);
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

    assert(command->kind == GRAPH_EXEC && command->n_args <= HCQ_ARGS_MAX);
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

    assert(command->n_args == (command->kind == GRAPH_FILL ? 1 : 2));
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
emit_step(const struct hcq_graph *graph, struct graph_copy *copy,
          const struct graph_command *command)
{
    const struct hcq_graph_arg *value = &graph->args[command->first_arg];
    struct hcq_cs *cs = hcq_stream_cs(copy->streams[command->queue]);

    assert(command->sig && command->n_args > 0);
    if (command->kind == GRAPH_AWAIT)
        hcq_cs_wait(cs, command->sig, value->value);
    else
        hcq_cs_signal(cs, command->sig, value->value);
    patch_arg(graph, copy, command->queue, HCQ_FIELD_VALUE, value);
}

/* The signal of queue `of`, as queue `queue` sees it. */
static const struct hcq_signal *
signal_for(const struct hcq_graph *graph, const struct graph_copy *copy,
           uint32_t queue, uint32_t of)
{
    if (!graph->aliases)
        return copy->signals[of];
    return &graph->aliases[((uint32_t)(copy - graph->copies) * graph->n_devs +
                            graph->dev_of[queue]) *
                               graph->n_queues +
                           of];
}

static void
emit_waits(const struct hcq_graph *graph, struct graph_copy *copy,
           uint32_t queue, uint32_t first, uint32_t n)
{
    uint32_t i;

    assert((size_t)first + n <= graph->n_waits);
    for (i = first; i < first + n; i++) {
        uint32_t of = graph->waits[i].queue;
        const struct hcq_signal *near = hcq_graph_near(graph, copy, of, queue);

        hcq_cs_wait(hcq_stream_cs(copy->streams[queue]),
                    near ? near : signal_for(graph, copy, queue, of),
                    graph->waits[i].moment);
    }
}

/* The queue has come to a moment: tells those that wait for it. */
static void
emit_moment(const struct hcq_graph *graph, struct graph_copy *copy,
            uint32_t queue, uint64_t waiters, uint64_t moment)
{
    struct hcq_cs *cs = hcq_stream_cs(copy->streams[queue]);
    bool any_far = false;

    for (; waiters; waiters &= waiters - 1) {
        const struct hcq_signal *near = hcq_graph_near(
            graph, copy, queue, (uint32_t)__builtin_ctzll(waiters));

        if (near)
            hcq_cs_signal(cs, near, moment);
        any_far |= !near;
    }
    if (!any_far)
        return;
    hcq_cs_signal(cs, copy->signals[queue], moment);
    copy->parts[queue].signal = copy->signals[queue]->host;
}

static void
emit_command(const struct hcq_graph *graph, struct graph_copy *copy, size_t at)
{
    const struct graph_command *command = &graph->commands[at];
    struct hcq_cs *cs = hcq_stream_cs(copy->streams[command->queue]);
    uint32_t i;

    assert(command->queue < graph->n_queues);
    assert((size_t)command->first_patch + command->n_patches <=
           graph->n_patches);
    emit_waits(graph, copy, command->queue, command->first_wait,
               command->n_waits);
    if (command->kind == GRAPH_EXEC)
        emit_exec(graph, copy, command);
    else if (command->sig)
        emit_step(graph, copy, command);
    else
        emit_transfer(graph, copy, command);
    for (i = 0; i < command->n_patches; i++) {
        const struct graph_patch *patch =
            &graph->patches[command->first_patch + i];
        hcq_cs_patch(cs, patch->field,
                     patch_of(graph, copy, command->queue, patch->slot),
                     patch->addend);
    }
    emit_moment(graph, copy, command->queue, command->waiters,
                (uint64_t)at + GRAPH_BEGIN + 1);
}

/* The devices that have something to do; NULL in the place of others. */
static void
find_used(const struct hcq_graph *graph,
          struct hcq_device *out_devs[HCQ_GRAPH_QUEUES_MAX])
{
    uint32_t q;

    memset(out_devs, 0, sizeof(out_devs[0]) * HCQ_GRAPH_QUEUES_MAX);
    for (q = 0; q < graph->n_queues; q++) {
        if (graph->is_used[q])
            out_devs[graph->dev_of[q]] = graph->queues[q]->dev;
    }
}

/* Whether each of them can use the signals of all others. */
static BELL_MUST_CHECK bell_status
reach_each_other(struct hcq_device *const *devs, uint32_t n, bool *out)
{
    uint32_t i, k;

    *out = true;
    for (i = 0; i < n && *out; i++)
        *out = !devs[i] || devs[i]->ops == devs[0]->ops;
    for (i = 0; i < n && *out; i++) {
        for (k = 0; k < n && *out; k++) {
            if (devs[i] && devs[k] && i != k)
                BELL_TRY(hcq_signal_reaches(devs[i], devs[k], out));
        }
    }
    return BELL_OK;
}

/* Signals in host memory, where devices do not reach each other's. */
static BELL_MUST_CHECK bell_status
share_signals(struct hcq_graph *graph)
{
    uint32_t n = GRAPH_COPIES * graph->n_queues, c, d, q;
    struct hcq_device *devs[HCQ_GRAPH_QUEUES_MAX];
    struct hcq_signal *alias;
    bool reach;

    find_used(graph, devs);
    assert(devs[0] == graph->queues[0]->dev);
    BELL_TRY(reach_each_other(devs, graph->n_devs, &reach));
    if (reach)
        return BELL_OK;
    BELL_TRY(hcq_shared_create(devs, graph->n_devs,
                               (uint64_t)n * HCQ_SIGNAL_BYTES,
                               &graph->signal_memory));
    graph->aliases = alias =
        host_calloc((size_t)n * graph->n_devs, sizeof(*alias));
    if (!alias)
        return bell_fail(BELL_E_NO_MEMORY,
                         "graph '%s': out of memory for %u signals",
                         graph->name, n);
    for (c = 0; c < GRAPH_COPIES; c++) {
        for (d = 0; d < graph->n_devs; d++) {
            for (q = 0; q < graph->n_queues; q++, alias++) {
                if (devs[d])
                    hcq_shared_signal(graph->signal_memory, d,
                                      (uint64_t)(c * graph->n_queues + q) *
                                          HCQ_SIGNAL_BYTES,
                                      alias);
            }
        }
    }
    return BELL_OK;
}

/* What a submission takes of queue `q`. */
static BELL_MUST_CHECK bell_status
create_parts(struct hcq_graph *graph, struct graph_copy *copy, uint32_t q)
{
    size_t n_bytes = graph->n_slots * sizeof(**copy->patches);
    size_t i;
    bool is_alone = graph->n_used == 1;

    assert(graph->is_used[q] && !copy->streams[q]);
    BELL_TRY(
        hcq_stream_create(graph->queues[q], graph->name, &copy->streams[q]));
    copy->parts[q] = (struct graph_part){
        .stream = copy->streams[q],
        .dev = graph->queues[q]->dev,
        .timeline = graph->queues[q]->timeline->host,
    };
    if (graph->aliases)
        copy->signals[q] = (struct hcq_signal *)signal_for(graph, copy, q, q);
    else if (!is_alone)
        BELL_TRY(
            hcq_signal_create(graph->queues[q]->dev, 0, &copy->signals[q]));
    copy->patches[q] = host_alloc(n_bytes);
    if (!copy->patches[q])
        return bell_fail(BELL_E_NO_MEMORY,
                         "graph '%s': out of memory for %zu slots", graph->name,
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

    for (q = 0; q < graph->n_queues; q++) {
        if (graph->is_used[q])
            BELL_TRY(create_parts(graph, copy, q));
    }
    BELL_TRY(hcq_graph_near_create(graph, copy));
    emit_moment(graph, copy, 0, graph->begin_waiters, GRAPH_BEGIN);
    for (i = 0; i < graph->n_commands; i++)
        emit_command(graph, copy, i);
    emit_waits(graph, copy, 0, (uint32_t)graph->n_waits - graph->n_last_waits,
               graph->n_last_waits);
    hcq_graph_near_emit_clear(graph, copy);
    for (q = 0; q < graph->n_queues; q++) {
        if (copy->streams[q])
            BELL_TRY(hcq_stream_end(copy->streams[q]));
    }
    return BELL_OK;
}

/* The slots of memory, those that are written first; false: out of memory. */
static bool
list_memory(const struct hcq_graph *graph, struct graph_sorted *out,
            bool by_home)
{
    uint32_t pass, i;

    out->ids = host_calloc(graph->n_slots, sizeof(*out->ids));
    if (!out->ids)
        return false;
    for (pass = 0; pass < 2; pass++) {
        for (i = 0; i < graph->n_slots; i++) {
            const struct graph_slot *slot = &graph->slots[i];
            bool is_written =
                by_home ? slot->is_home_written : slot->is_written;
            if (slot->dev && is_written == (pass == 0) &&
                (!by_home || (slot->has_home && slot->first == i)))
                out->ids[out->n++] = i;
        }
        if (pass == 0)
            out->n_written = out->n;
    }
    return true;
}

static BELL_MUST_CHECK bell_status
make_lists(struct hcq_graph *graph)
{
    bool ok;
    uint32_t i;

    ok = list_memory(graph, &graph->by_address, false) &&
         list_memory(graph, &graph->by_home, true);
    for (i = 0; i < GRAPH_LIST_COUNT; i++) {
        graph->lists[i] = host_calloc(graph->n_slots, sizeof(*graph->lists[i]));
        ok = ok && graph->lists[i];
    }
    if (!ok)
        return bell_fail(BELL_E_NO_MEMORY,
                         "graph '%s': out of memory for %zu slots", graph->name,
                         graph->n_slots);
    graph->n_unset = (uint32_t)graph->n_slots;
    return BELL_OK;
}

bell_status
hcq_graph_bind(struct hcq_graph *graph)
{
    uint32_t i;

    BELL_TRY(share_signals(graph));
    for (i = 0; i < GRAPH_COPIES; i++)
        BELL_TRY(bind_copy(graph, &graph->copies[i]));
    BELL_TRY(make_lists(graph));
    return BELL_OK;
}

/* ---- waiting ---- */

/* A stream of the copy that is not done, or NULL. The process is the graph's.
 */
static struct hcq_stream *
find_busy(const struct hcq_graph *graph, const struct graph_copy *copy)
{
    struct hcq_stream *busy = NULL;
    uint32_t q;

    for (q = 0; q < graph->n_queues && !busy; q++) {
        const struct graph_part *part = &copy->parts[q];

        if (part->stream &&
            __atomic_load_n(part->timeline, __ATOMIC_ACQUIRE) < part->value)
            busy = part->stream;
    }
    hcq_order_reads();
    return busy;
}

/* Lets queues go on that wait for one that does no more: its device is lost, it
 * was recovered, or it never got its part. The signals of one that is done may
 * say anything. Tells of a lost device. */
static BELL_MUST_CHECK bell_status
let_go_of_streams(struct hcq_graph *graph, struct graph_copy *copy)
{
    bell_status status = BELL_OK, one;
    uint32_t q;

    for (q = 0; q < graph->n_queues; q++) {
        if (!copy->signals[q])
            continue;
        one = hcq_device_status(graph->queues[q]->dev);
        if (one != BELL_OK)
            status = one;
        if (one != BELL_OK || !hcq_stream_busy(copy->streams[q])) {
            if (copy->parts[q].signal)
                hcq_signal_set(copy->signals[q], GRAPH_GO_ON);
            hcq_graph_near_set(graph, copy, q, GRAPH_GO_ON);
        }
    }
    return status;
}

/* Waits for all streams of the copy. */
static BELL_MUST_CHECK bell_status
wait_graph_copy(struct hcq_graph *graph, struct graph_copy *copy,
                uint64_t timeout_ns)
{
    uint64_t start_ns, waited_ns, slice_ns;
    struct hcq_stillness still = {0};
    struct hcq_stream *stream;
    bell_status status;

    assert(copy->streams[0]);
    if (graph->n_used == 1) {
        BELL_TRY(hcq_stream_wait(copy->streams[0], timeout_ns));
        return BELL_OK;
    }
    start_ns = time_now_ns();
    while ((stream = find_busy(graph, copy)) != NULL) {
        waited_ns = time_now_ns() - start_ns;
        slice_ns = waited_ns < timeout_ns ? timeout_ns - waited_ns : 0;
        if (slice_ns > LOOK_EVERY_NS)
            slice_ns = LOOK_EVERY_NS;
        if (timeout_ns == HCQ_WAIT_WHILE_MOVING &&
            hcq_all_stand_still(graph->queues, graph->n_queues, &still))
            slice_ns = 0;
        status = hcq_stream_wait(stream, slice_ns);
        if (status == BELL_OK)
            continue;
        if (status != BELL_E_TIMEOUT || slice_ns < LOOK_EVERY_NS ||
            interrupt_is_on()) {
            struct bell_error_hold hold;
            bell_error_prefix("graph '%s', after %.1f ms", graph->name,
                              (double)(time_now_ns() - start_ns) / 1e6);
            bell_error_hold(&hold);
            if (!interrupt_is_on()) /* they have not failed */
                (void)!let_go_of_streams(graph, copy);
            bell_error_release(&hold);
            return status;
        }
        BELL_TRY(let_go_of_streams(graph, copy));
    }
    return BELL_OK;
}

/* When one device is lost the others are let go on, and have to come to their
 * end before their streams go; another one may be lost meanwhile. */
static BELL_MUST_CHECK bell_status
outlast_lost(struct hcq_graph *graph, struct graph_copy *copy)
{
    struct hcq_stillness still = {0};
    bool is_busy = true;
    uint32_t q;

    while (is_busy) {
        (void)!let_go_of_streams(graph, copy);
        is_busy = false;
        for (q = 0; q < graph->n_queues; q++) {
            if (!copy->streams[q] || !hcq_stream_busy(copy->streams[q]) ||
                hcq_device_is_lost(graph->queues[q]->dev))
                continue;
            is_busy = true;
            (void)!hcq_stream_wait(copy->streams[q], LOOK_EVERY_NS);
        }
        if (is_busy &&
            hcq_all_stand_still(graph->queues, graph->n_queues, &still))
            return BELL_E_TIMEOUT;
    }
    return BELL_OK;
}

static void
free_copy(struct hcq_graph *graph, struct graph_copy *copy)
{
    struct bell_error_hold hold;
    bell_status status = BELL_OK;
    uint32_t q;

    bell_error_hold(&hold);
    interrupt_hold();
    if (copy->streams[0])
        status = wait_graph_copy(graph, copy, HCQ_WAIT_WHILE_MOVING);
    if (status == BELL_E_DEVICE_LOST)
        status = outlast_lost(graph, copy);
    interrupt_release();
    bell_error_release(&hold);
    if (status == BELL_E_TIMEOUT)
        graph->is_stuck = true;
    for (q = 0; q < graph->n_queues; q++) {
        if (status != BELL_E_TIMEOUT) {
            hcq_stream_destroy(copy->streams[q]);
            if (!graph->aliases)
                hcq_signal_destroy(copy->signals[q]);
        }
        host_free(copy->patches[q]);
    }
    if (status != BELL_E_TIMEOUT)
        hcq_graph_near_destroy(graph, copy);
    else
        host_free(copy->near);
    memset(copy, 0, sizeof(*copy));
}

void
hcq_graph_unbind(struct hcq_graph *graph)
{
    uint32_t i;

    for (i = 0; i < GRAPH_COPIES; i++)
        free_copy(graph, &graph->copies[i]);
    for (i = 0; i < GRAPH_LIST_COUNT; i++)
        host_free(graph->lists[i]);
    if (!graph->is_stuck)
        hcq_shared_destroy(graph->signal_memory);
    host_free(graph->aliases);
    host_free(graph->by_address.ids);
    host_free(graph->by_home.ids);
}

/* ---- submitting ---- */

/* Puts what changed into the streams of a copy that nothing runs, the last
 * change first. */
static BELL_MUST_CHECK bell_status
patch_copy(struct hcq_graph *graph, uint32_t which)
{
    const struct graph_copy *copy = &graph->copies[which];
    uint32_t *n = &graph->n_listed[which], q;

    assert(which < GRAPH_COPIES);
    while (*n) {
        uint32_t slot = graph->lists[which][*n - 1];
        assert(graph->slots[slot].lists & 1u << which);
        for (q = 0; q < graph->n_queues; q++) {
            if (copy->streams[q] && copy->patches[q][slot] != HCQ_PATCH_NONE)
                BELL_TRY(hcq_stream_put(copy->streams[q],
                                        copy->patches[q][slot],
                                        graph->slots[slot].value));
        }
        graph->slots[slot].lists &= (uint8_t) ~(1u << which);
        --*n;
    }
    return BELL_OK;
}

/* The copy for the next submission: the last one's where it is done, or nothing
 * of it has to change; so fewer values have to be put into it. */
static BELL_MUST_CHECK bell_status
choose_copy(struct hcq_graph *graph, uint32_t *out)
{
    uint32_t which = graph->last;

    assert(which < GRAPH_COPIES);
    *out = which;
    if (graph->n_used == 1 && graph->n_listed[which] == 0)
        return BELL_OK;
    if (!find_busy(graph, &graph->copies[which]))
        return BELL_OK;
    *out = which = (which + 1) % GRAPH_COPIES;
    if ((graph->n_used > 1 || graph->n_listed[which]) &&
        find_busy(graph, &graph->copies[which]))
        BELL_TRY(wait_graph_copy(graph, &graph->copies[which],
                                 graph->queues[0]->submit_timeout_ns));
    return BELL_OK;
}

/* What would have one of several queues refuse its part. */
static BELL_MUST_CHECK bell_status
check_parts(const struct hcq_graph *graph, struct graph_copy *copy)
{
    uint64_t epoch = 0;
    uint32_t q;

    for (q = 0; q < graph->n_queues; q++) {
        const struct graph_part *part = &copy->parts[q];

        if (!part->stream)
            continue;
        if (hcq_device_is_lost(part->dev))
            return hcq_lost_report(part->dev);
        if (part->stream->form && part->stream->form->n_too_large)
            return hcq_exec_refuse(part->stream);
        epoch += atomic_load_explicit(&part->dev->epoch, memory_order_relaxed);
    }
    if (copy->near)
        hcq_graph_near_check(graph, copy, epoch);
    return BELL_OK;
}

/* All signals begin anew, before any queue is told of its part. Nobody has to
 * be woken: they wait for more. */
static void
clear_signals(const struct hcq_graph *graph, const struct graph_copy *copy)
{
    uint32_t q;

    for (q = 0; q < graph->n_queues; q++) {
        if (copy->parts[q].signal)
            __atomic_store_n(copy->parts[q].signal, 0, __ATOMIC_RELAXED);
    }
    hcq_order_writes();
}

/* The first queue first: most of the work is there. */
static BELL_MUST_CHECK bell_status
submit_parts(struct hcq_graph *graph, struct graph_copy *copy, uint64_t *value)
{
    struct bell_error_hold hold;
    uint32_t q;

    assert(graph->n_used > 1 && copy->streams[0]);
    BELL_TRY(check_parts(graph, copy));
    clear_signals(graph, copy);
    BELL_TRY(hcq_stream_submit_part(copy->streams[0], value));
    copy->parts[0].value = *value;
    for (q = 1; q < graph->n_queues; q++) {
        struct graph_part *part = &copy->parts[q];

        if (!part->stream ||
            hcq_stream_submit_part(part->stream, &part->value) == BELL_OK)
            continue;
        graph->state = GRAPH_BROKEN;
        bell_error_prefix("graph '%s' has its part on %s, but not on %s: what "
                          "it writes is undefined",
                          graph->name, graph->queues[0]->name,
                          graph->queues[q]->name);
        bell_error_hold(&hold);
        (void)!let_go_of_streams(graph, copy);
        bell_error_release(&hold);
        return bell_error_last()->status;
    }
    if (LOG_ON(LOG_SYNC))
        BELL_TRY(wait_graph_copy(graph, copy, HCQ_WAIT_WHILE_MOVING));
    return BELL_OK;
}

static BELL_MUST_CHECK bell_status
submit_alone(struct graph_copy *copy, uint64_t *value)
{
    bell_status status = hcq_stream_submit(copy->streams[0], value);

    /* it may be under way although a wait behind it failed */
    copy->parts[0].value = copy->streams[0]->last_value;
    return status;
}

bell_status
hcq_graph_submit(struct hcq_graph *graph, uint64_t *out_value)
{
    bell_status status;
    uint64_t value;
    uint32_t which;

    if (graph->state != GRAPH_READY || graph->n_unset)
        return bell_fail(BELL_BAD_STATE, "graph '%s': %s", graph->name,
                         graph->state == GRAPH_BUILDING ? "it is not ended"
                         : graph->state == GRAPH_BROKEN
                             ? "it failed"
                             : "a slot has no value yet");
    BELL_TRY(hcq_check_process(graph->queues[0]->dev));
    if (graph->n_listed[GRAPH_UNSEEN])
        BELL_TRY(hcq_graph_check(graph));
    BELL_TRY(choose_copy(graph, &which));
    BELL_TRY(patch_copy(graph, which));
    interrupt_hold(); /* half a submission breaks a graph */
    status = graph->n_used > 1
                 ? submit_parts(graph, &graph->copies[which], &value)
                 : submit_alone(&graph->copies[which], &value);
    interrupt_release();
    BELL_TRY(status);
    graph->last = which;
    if (out_value)
        *out_value = value;
    return BELL_OK;
}

bool
hcq_graph_busy(const struct hcq_graph *graph)
{
    if (hcq_is_inherited(graph->queues[0]->dev))
        return false;
    return find_busy(graph, &graph->copies[0]) ||
           find_busy(graph, &graph->copies[1]);
}

bell_status
hcq_graph_wait(struct hcq_graph *graph, uint64_t timeout_ns)
{
    uint32_t i;

    BELL_TRY(hcq_check_process(graph->queues[0]->dev));
    for (i = 0; i < GRAPH_COPIES; i++) {
        if (graph->copies[i].streams[0])
            BELL_TRY(wait_graph_copy(graph, &graph->copies[i], timeout_ns));
    }
    return BELL_OK;
}
