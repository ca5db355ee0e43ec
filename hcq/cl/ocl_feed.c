/* What packets do, on a queue's thread (hcq_feed.h): OpenCL's calls. Signals
 * are stored when the commands before them are complete.
 *
 * Commands are enqueued as they come; what waits for their end (`pending`) is
 * looked after when there is nothing to enqueue, when a command cannot be
 * enqueued before, when somebody waits, and now and then. An error of OpenCL
 * loses the device.
 */
#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "base/thread.h"
#include "hcq/cl/ocl.h"

#define LOOK_EVERY    16u /* signals between looks at the oldest */
#define STOP_LIMIT_NS 2000000000ull
/* For a thread whose queue's submitter does the work: the time between looks at
 * what is pending, and how long it stays awake so when nothing is. Waking it
 * costs a launch some microseconds. */
#define NAP_NS  100000ull
#define CALM_NS 2000000ull

static struct ocl_device *
cl_device_of(struct ocl_queue *queue)
{
    return ocl_device(queue->feed.base.dev);
}

/* ---- faults; each returns false: the queue does not go on ---- */

static bool
lose_cl_device(struct ocl_queue *queue, const char *call, cl_int error,
               const struct hcq_program_base *prog)
{
    struct hcq_fault fault = {.kind = HCQ_FAULT_INTERFACE};

    snprintf(fault.queue, sizeof(fault.queue), "%s", queue->feed.base.name);
    snprintf(fault.program, sizeof(fault.program), "%s",
             prog ? prog->pub.name : "");
    snprintf(fault.text, sizeof(fault.text), "%s%s%s on %s: %s: %s (%d)",
             prog ? "kernel '" : "a command", prog ? prog->pub.name : "",
             prog ? "'" : "", queue->feed.base.name, call,
             ocl_error_name(error), (int)error);
    hcq_device_set_lost(queue->feed.base.dev, &fault);
    return false;
}

/* `exec` is NULL for another command, `what`. */
static bool
lose_address(struct ocl_queue *queue, const char *what,
             const struct hcq_exec *exec, uint64_t va, uint64_t size_bytes)
{
    const char *name = exec ? exec->prog->pub.name : what;
    struct hcq_fault fault = {.kind = HCQ_FAULT_MEMORY, .va = va};

    if (exec)
        fault.last_group =
            (uint64_t)exec->grid[0] * exec->grid[1] * exec->grid[2];
    snprintf(fault.queue, sizeof(fault.queue), "%s", queue->feed.base.name);
    snprintf(fault.program, sizeof(fault.program), "%s", name);
    snprintf(fault.text, sizeof(fault.text),
             "%s '%s' on %s: no buffer has %llu bytes at 0x%llx",
             exec ? "kernel" : "command", name, queue->feed.base.name,
             (unsigned long long)size_bytes, (unsigned long long)va);
    hcq_device_set_lost(queue->feed.base.dev, &fault);
    return false;
}

/* ---- what waits for events ---- */

static void
publish_cl(const struct ocl_pending *p)
{
    assert(p->slot);
    __atomic_store_n(&p->slot->value, p->value, __ATOMIC_SEQ_CST);
    hcq_slot_wake(p->slot);
}

/* The marker's end on the host's clock: OpenCL says how long after it was
 * enqueued that was, on the device's own. Timestamps of a queue do not go
 * back. */
static uint64_t
end_of(struct ocl_queue *queue, const struct ocl_pending *p)
{
    struct ocl_api *api = &cl_device_of(queue)->api;
    uint64_t now_ns = time_now_ns(), at_ns = now_ns;
    cl_ulong queued = 0, end = 0;

    if (OCL(api, clGetEventProfilingInfo, p->event, CL_PROFILING_COMMAND_QUEUED,
            sizeof(queued), &queued, NULL) == CL_SUCCESS &&
        OCL(api, clGetEventProfilingInfo, p->event, CL_PROFILING_COMMAND_END,
            sizeof(end), &end, NULL) == CL_SUCCESS &&
        end >= queued)
        at_ns = p->host_ns + (end - queued);
    if (at_ns > now_ns)
        at_ns = now_ns;
    if (at_ns < queue->last_time_ns)
        at_ns = queue->last_time_ns;
    queue->last_time_ns = at_ns;
    return at_ns;
}

static bool
try_hold(struct ocl_queue *queue)
{
    return !atomic_exchange(&queue->finishing, 1);
}

/* The thread alone has it for long. */
static void
hold(struct ocl_queue *queue)
{
    while (!try_hold(queue))
        hcq_spin(UINT64_MAX);
}

static void
let_go_of_cl(struct ocl_queue *queue)
{
    assert(atomic_load_explicit(&queue->finishing, memory_order_relaxed));
    atomic_store(&queue->finishing, 0);
}

static uint32_t
n_pending(struct ocl_queue *queue)
{
    return atomic_load(&queue->n_pushed) - atomic_load(&queue->n_done);
}

/* Whether what it waits for is complete, or failed. */
static cl_int
look_at(struct ocl_queue *queue, const struct ocl_pending *p, cl_int *out_state)
{
    *out_state = CL_COMPLETE; /* without an event: when those before it are */
    return p->event ? OCL(&cl_device_of(queue)->api, clGetEventInfo, p->event,
                          CL_EVENT_COMMAND_EXECUTION_STATUS, sizeof(*out_state),
                          out_state, NULL)
                    : CL_SUCCESS;
}

/* In their order. */
static void
publish_both(struct ocl_pending *passed, const struct ocl_pending *p)
{
    if (passed->slot)
        publish_cl(passed);
    passed->slot = NULL;
    publish_cl(p);
}

/* Finishes the oldest commands that are complete, with `finishing` held. A
 * timeline gets its last value alone: nobody would see the others. */
static bool
finish_done(struct ocl_queue *queue)
{
    struct hcq_slot *timeline = ocl_slot(queue->feed.base.timeline);
    struct ocl_pending passed = {.slot = NULL};
    uint32_t n_done = atomic_load(&queue->n_done);
    cl_int err = CL_SUCCESS, state;
    bool ok = true;

    assert(atomic_load_explicit(&queue->finishing, memory_order_relaxed));
    while (ok && n_done != atomic_load(&queue->n_pushed)) {
        struct ocl_pending *p = &queue->pending[n_done % OCL_PENDING_MAX];

        err = look_at(queue, p, &state);
        if (err == CL_SUCCESS && state > CL_COMPLETE)
            break;
        if (err == CL_SUCCESS && state < 0)
            err = state;
        if (err != CL_SUCCESS) {
            ok = lose_cl_device(queue, "clWaitForEvents", err, p->prog);
            break;
        }
        if (p->host_ns)
            __atomic_store_n(&p->slot->timestamp,
                             p->event ? end_of(queue, p) : time_now_ns(),
                             __ATOMIC_RELEASE);
        else if (p->slot == timeline)
            passed = *p;
        else
            publish_both(&passed, p);
        if (p->event)
            cl_device_of(queue)->api.clReleaseEvent(p->event);
        p->event = NULL;
        n_done++;
    }
    if (passed.slot)
        publish_cl(&passed);
    /* only now: who finds nothing pending stores a value at once (push) */
    atomic_store(&queue->n_done, n_done);
    return ok;
}

/* Waits for the event of the first that stores so much into the timeline, or
 * the last, if none does, and for 0 of the oldest; held. Those before it are
 * complete then. */
static bool
wait_for_cl(struct ocl_queue *queue, uint64_t value)
{
    struct hcq_slot *timeline = ocl_slot(queue->feed.base.timeline);
    uint32_t i = atomic_load(&queue->n_done);
    uint32_t end = atomic_load(&queue->n_pushed);
    const struct ocl_pending *p = NULL;
    cl_event event = NULL;
    cl_int err;

    assert(atomic_load_explicit(&queue->finishing, memory_order_relaxed));
    for (; i != end; i++) {
        p = &queue->pending[i % OCL_PENDING_MAX];
        event = p->event ? p->event : event;
        if (event && value == 0)
            break;
        if (p->slot == timeline && !p->host_ns && p->value >= value)
            break;
    }
    if (!event)
        return finish_done(queue);
    p = &queue->pending[atomic_load(&queue->n_done) % OCL_PENDING_MAX];
    atomic_store_explicit(&queue->feed.now.prog, p->prog, memory_order_relaxed);
    err = OCL(&cl_device_of(queue)->api, clWaitForEvents, 1, &event);
    if (err != CL_SUCCESS &&
        err != CL_EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST)
        return lose_cl_device(queue, "clWaitForEvents", err, p->prog);
    return finish_done(queue);
}

static bool
flush(struct ocl_queue *queue)
{
    cl_int err;

    if (!atomic_exchange(&queue->unflushed, false))
        return true;
    err = OCL(&cl_device_of(queue)->api, clFlush, queue->cl);
    return err == CL_SUCCESS ||
           lose_cl_device(queue, "clFlush", err, queue->last_prog);
}

/* The last command's event is this one. */
static void
take_over(struct ocl_queue *queue, cl_event event)
{
    if (queue->last)
        cl_device_of(queue)->api.clReleaseEvent(queue->last);
    queue->last = event;
    queue->is_open = false;
}

/* Everything that was enqueued is complete then. */
static bool
finish_all(struct ocl_queue *queue)
{
    bool ok = flush(queue);
    cl_int err;

    hold(queue);
    while (ok && n_pending(queue))
        ok = wait_for_cl(queue, UINT64_MAX);
    let_go_of_cl(queue);
    if (!ok)
        return false;
    if (!queue->last && !queue->is_open)
        return true;
    err = OCL(&cl_device_of(queue)->api, clFinish, queue->cl);
    take_over(queue, NULL);
    return err == CL_SUCCESS ||
           lose_cl_device(queue, "clFinish", err, queue->last_prog);
}

/* `event` is taken over. */
static bool
push(struct ocl_queue *queue, cl_event event, struct hcq_slot *slot,
     uint64_t value, uint64_t host_ns)
{
    struct ocl_pending p = {event, slot, value, host_ns, queue->last_prog};
    uint32_t n_pushed = atomic_load(&queue->n_pushed);
    bool ok = true;

    assert(slot && n_pending(queue) < OCL_PENDING_MAX);
    if (!event && !n_pending(queue)) {
        if (host_ns)
            __atomic_store_n(&slot->timestamp, time_now_ns(), __ATOMIC_RELEASE);
        else
            publish_cl(&p);
        return true;
    }
    queue->pending[n_pushed % OCL_PENDING_MAX] = p;
    atomic_store(&queue->n_pushed, ++n_pushed);
    if (!atomic_load_explicit(&queue->feed.here, memory_order_relaxed))
        queue->prompt_to = n_pushed;
    if (n_pending(queue) == OCL_PENDING_MAX) {
        hold(queue);
        ok = flush(queue) && wait_for_cl(queue, 0);
        let_go_of_cl(queue);
    } else if (n_pushed % LOOK_EVERY == 0 && try_hold(queue)) {
        ok = finish_done(queue);
        let_go_of_cl(queue);
    }
    return ok;
}

/* A command was enqueued, with this event, or without one. */
static void
note_command(struct ocl_queue *queue, cl_event event,
             const struct hcq_program_base *prog)
{
    take_over(queue, event);
    queue->is_open = !event;
    queue->last_prog = prog;
    atomic_store(&queue->unflushed, true);
}

/* An event of its own, which ends behind all commands before. */
static bool
put_marker(struct ocl_queue *queue)
{
    cl_event event = NULL;
    cl_int err = OCL(&cl_device_of(queue)->api, clEnqueueMarkerWithWaitList,
                     queue->cl, 0, NULL, &event);

    if (err != CL_SUCCESS)
        return lose_cl_device(queue, "clEnqueueMarkerWithWaitList", err,
                              queue->last_prog);
    note_command(queue, event, queue->last_prog);
    return true;
}

/* ---- memory that the host sees, of a device that is apart ---- */

static bool
is_mapped(struct ocl_queue *queue, const struct ocl_buffer *buf)
{
    return buf->host && buf->mem && cl_device_of(queue)->is_apart;
}

static bool
give_to_device(struct ocl_queue *queue, const struct ocl_buffer *buf)
{
    cl_int err;

    if (!is_mapped(queue, buf))
        return true;
    err = OCL(&cl_device_of(queue)->api, clEnqueueUnmapMemObject, queue->cl,
              buf->mem, buf->host, 0, NULL, NULL);
    return err == CL_SUCCESS || lose_cl_device(queue, "clEnqueueUnmapMemObject",
                                               err, queue->last_prog);
}

static bool
give_to_host(struct ocl_queue *queue, const struct ocl_buffer *buf,
             const struct hcq_program_base *prog)
{
    cl_event event = NULL;
    cl_int err;

    if (!is_mapped(queue, buf))
        return true;
    (void)OCL_NEW(&cl_device_of(queue)->api, &err, clEnqueueMapBuffer,
                  queue->cl, buf->mem, CL_FALSE, CL_MAP_READ | CL_MAP_WRITE, 0,
                  (size_t)buf->size_bytes, 0, NULL, &event);
    if (err != CL_SUCCESS)
        return lose_cl_device(queue, "clEnqueueMapBuffer", err, prog);
    note_command(queue, event, prog);
    return true;
}

/* ---- who waits ---- */

/* The thread of the timeline's queue waits for events, not naps. */
static void
want(struct hcq_slot *slot, uint64_t value)
{
    struct ocl_queue *queue = slot->feed ? ocl_queue(&slot->feed->base) : NULL;
    uint64_t wanted;

    if (!queue)
        return;
    wanted = atomic_load(&queue->wanted);
    while (value < wanted &&
           !atomic_compare_exchange_weak(&queue->wanted, &wanted, value)) {
    }
    hcq_feed_wake(&queue->feed);
}

/* What a report says; held. */
static void
tell_now(struct ocl_queue *queue)
{
    const struct ocl_pending *p =
        &queue->pending[atomic_load(&queue->n_done) % OCL_PENDING_MAX];
    bool busy = n_pending(queue) != 0;

    assert(atomic_load_explicit(&queue->finishing, memory_order_relaxed));
    atomic_store_explicit(&queue->feed.now.prog, busy ? p->prog : NULL,
                          memory_order_relaxed);
    atomic_store_explicit(&queue->feed.now.op, busy ? HCQ_OP_EXEC : 0,
                          memory_order_relaxed);
}

void
ocl_signal_help(struct hcq_signal *sig, uint64_t value, bool sleeps)
{
    struct hcq_feed *feed = ocl_slot(sig)->feed;
    struct ocl_queue *queue;

    if (!feed || hcq_feed_must_stop(feed))
        return;
    queue = ocl_queue(&feed->base);
    if (sleeps) {
        want(ocl_slot(sig), value);
    } else if (n_pending(queue) && try_hold(queue)) {
        (void)finish_done(queue); /* a failure loses the device */
        tell_now(queue);
        let_go_of_cl(queue);
    }
}

/* ---- commands ---- */

static bool
run_wait(struct ocl_queue *queue, struct hcq_slot *slot, uint64_t value)
{
    if (__atomic_load_n(&slot->value, __ATOMIC_ACQUIRE) >= value)
        return true;
    want(slot, value);
    return finish_all(queue) && hcq_feed_wait(&queue->feed, slot, value);
}

/* Memory has no wake-up: looks ever less often, down to 1 kHz. */
static bool
run_poll(struct ocl_queue *queue, uint64_t va, uint32_t mask, uint32_t value)
{
    struct ocl_device *dev = cl_device_of(queue);
    uint64_t offset, nap_ns = 10000;
    struct ocl_buffer *buf;
    uint32_t seen;
    cl_int err;

    if (!finish_all(queue))
        return false;
    buf = ocl_lookup(dev, va, 4, &offset);
    if (!buf)
        return lose_address(queue, hcq_op_name(HCQ_OP_POLL), NULL, va, 4);
    for (;;) {
        if (buf->host) {
            seen = __atomic_load_n((uint32_t *)((char *)buf->host + offset),
                                   __ATOMIC_ACQUIRE);
        } else {
            err = OCL(&dev->api, clEnqueueReadBuffer, queue->cl, buf->mem,
                      CL_TRUE, (size_t)offset, 4, &seen, 0, NULL, NULL);
            if (err != CL_SUCCESS)
                return lose_cl_device(queue, "clEnqueueReadBuffer", err, NULL);
        }
        if ((seen & mask) == value)
            return true;
        if (hcq_feed_must_stop(&queue->feed))
            return false;
        hcq_nap(nap_ns);
        nap_ns = nap_ns < 500000 ? nap_ns * 2 : 1000000;
    }
}

static bool
run_signal(struct ocl_queue *queue, struct hcq_slot *slot, uint64_t value)
{
    cl_event event;

    if (queue->is_open && !put_marker(queue))
        return false;
    event = queue->last;
    queue->last = NULL;
    return push(queue, event, slot, value, 0);
}

/* A queue that keeps the times of its commands in place of one that does
 * not. */
static bool
begin_profile(struct ocl_queue *queue)
{
    struct ocl_device *dev = cl_device_of(queue);
    cl_command_queue cl;
    cl_int err;

    if (queue->profiles)
        return true;
    if (!finish_all(queue))
        return false;
    cl = OCL_NEW(&dev->api, &err, clCreateCommandQueue, dev->context,
                 dev->found.id, CL_QUEUE_PROFILING_ENABLE);
    if (err != CL_SUCCESS)
        return lose_cl_device(queue, "clCreateCommandQueue", err, NULL);
    dev->api.clReleaseCommandQueue(queue->cl);
    queue->cl = cl;
    queue->profiles = true;
    return true;
}

/* A marker of its own, whose end is behind that of all commands before. */
static bool
run_timestamp(struct ocl_queue *queue, struct hcq_slot *slot)
{
    uint64_t before_ns;
    cl_event event;

    if (!begin_profile(queue))
        return false;
    before_ns = time_now_ns();
    if (!queue->last && !queue->is_open && !n_pending(queue))
        return push(queue, NULL, slot, 0, before_ns);
    if (!put_marker(queue))
        return false;
    event = queue->last;
    queue->last = NULL;
    return push(queue, event, slot, 0,
                before_ns + (time_now_ns() - before_ns) / 2);
}

static bool
run_copy(struct ocl_queue *queue, uint64_t dst, uint64_t src, uint64_t n_bytes)
{
    struct ocl_device *dev = cl_device_of(queue);
    const char *name = hcq_op_name(HCQ_OP_COPY);
    struct ocl_buffer *to, *from;
    uint64_t to_at, from_at;
    cl_event event = NULL;
    cl_int err;

    if (n_bytes == 0)
        return true;
    to = ocl_lookup(dev, dst, n_bytes, &to_at);
    if (!to)
        return lose_address(queue, name, NULL, dst, n_bytes);
    from = ocl_lookup(dev, src, n_bytes, &from_at);
    if (!from)
        return lose_address(queue, name, NULL, src, n_bytes);
    if (!give_to_device(queue, to) ||
        (from != to && !give_to_device(queue, from)))
        return false;
    err = OCL(&dev->api, clEnqueueCopyBuffer, queue->cl, from->mem, to->mem,
              (size_t)from_at, (size_t)to_at, (size_t)n_bytes, 0, NULL, &event);
    if (err != CL_SUCCESS)
        return lose_cl_device(queue, "clEnqueueCopyBuffer", err, NULL);
    note_command(queue, event, NULL);
    return give_to_host(queue, to, NULL) &&
           (from == to || give_to_host(queue, from, NULL));
}

/* One clEnqueueFillBuffer. */
static bool
fill_part(struct ocl_queue *queue, const struct ocl_buffer *buf,
          const void *pattern, size_t pattern_bytes, uint64_t offset,
          uint64_t n_bytes)
{
    cl_event event = NULL;
    cl_int err;

    assert(n_bytes > 0 && n_bytes % pattern_bytes == 0);
    err = OCL(&cl_device_of(queue)->api, clEnqueueFillBuffer, queue->cl,
              buf->mem, pattern, pattern_bytes, (size_t)offset, (size_t)n_bytes,
              0, NULL, &event);
    if (err != CL_SUCCESS)
        return lose_cl_device(queue, "clEnqueueFillBuffer", err, NULL);
    note_command(queue, event, NULL);
    return true;
}

/* Runs FILL and WRITE. The last bytes, where they are less than a pattern, go
 * one by one. */
static bool
run_fill(struct ocl_queue *queue, unsigned op, uint64_t va, const void *pattern,
         size_t pattern_bytes, uint64_t n_bytes)
{
    uint64_t whole = n_bytes - n_bytes % pattern_bytes, offset, i;
    const unsigned char *bytes = pattern;
    struct ocl_buffer *buf;

    assert(pattern_bytes == 4 || pattern_bytes == 8);
    if (n_bytes == 0)
        return true;
    buf = ocl_lookup(cl_device_of(queue), va, n_bytes, &offset);
    if (!buf)
        return lose_address(queue, hcq_op_name(op), NULL, va, n_bytes);
    if (!give_to_device(queue, buf))
        return false;
    if (whole && !fill_part(queue, buf, pattern, pattern_bytes, offset, whole))
        return false;
    for (i = whole; i < n_bytes; i++) {
        if (!fill_part(queue, buf, &bytes[i - whole], 1, offset + i, 1))
            return false;
    }
    return give_to_host(queue, buf, NULL);
}

/* ---- launches ---- */

/* The program's kernel for this queue: made when it is first wanted. */
static struct ocl_kernel *
kernel_of(struct ocl_queue *queue, const struct hcq_exec *exec)
{
    struct ocl_program *prog = ocl_program(exec->prog);
    struct ocl_kernel *k = &prog->kernels[queue->slot];
    uint32_t n_words = prog->base.pub.n_bufs + prog->base.pub.n_vals;
    struct ocl_api *api = &cl_device_of(queue)->api;
    cl_int err;

    assert(queue->slot < OCL_QUEUES_MAX);
    if (k->kernel)
        return k;
    k->kernel = OCL_NEW(api, &err, clCreateKernel, prog->program, prog->entry);
    if (err == CL_SUCCESS && prog->takes_shared) {
        err =
            OCL(api, clSetKernelArg, k->kernel, prog->base.pub.n_bufs + n_words,
                prog->base.pub.shared_bytes, NULL);
        if (err != CL_SUCCESS) {
            api->clReleaseKernel(k->kernel);
            k->kernel = NULL;
        }
    }
    if (err == CL_SUCCESS)
        return k;
    lose_cl_device(queue, "clCreateKernel", err, exec->prog);
    return NULL;
}

/* Buffer `i`: the memory object and the offset in it, where either is not what
 * it was given last. An address of 0 is not a buffer. */
static bool
set_buffer(struct ocl_queue *queue, struct ocl_kernel *k,
           const struct hcq_exec *exec, uint32_t i, struct ocl_buffer **out_buf)
{
    struct ocl_device *dev = cl_device_of(queue);
    uint64_t va = exec->args[i], offset = 0, serial = 0;
    struct ocl_given *given = &k->seen[i];
    struct ocl_buffer *buf = NULL;
    cl_mem mem = NULL;
    cl_int err = CL_SUCCESS;

    assert(i < exec->prog->pub.n_bufs);
    if (va) {
        buf = ocl_lookup(dev, va, 0, &offset);
        if (!buf)
            return lose_address(queue, NULL, exec, va, 0);
        mem = buf->mem;
        serial = buf->serial;
    }
    *out_buf = buf;
    if (!given->is_set || given->serial != serial)
        err =
            OCL(&dev->api, clSetKernelArg, k->kernel, 2 * i, sizeof(mem), &mem);
    if (err == CL_SUCCESS && (!given->is_set || given->word != offset))
        err = OCL(&dev->api, clSetKernelArg, k->kernel, 2 * i + 1,
                  sizeof(offset), &offset);
    *given = (struct ocl_given){offset, serial, err == CL_SUCCESS};
    return err == CL_SUCCESS ||
           lose_cl_device(queue, "clSetKernelArg", err, exec->prog);
}

/* Which of the buffers were given already in this launch: an argument may name
 * one twice. */
static bool
is_first(struct ocl_buffer *const *bufs, uint32_t i)
{
    uint32_t k;

    for (k = 0; k < i; k++) {
        if (bufs[k] == bufs[i])
            return false;
    }
    return true;
}

static bool
run_exec(struct ocl_queue *queue, const struct hcq_exec *exec, bool wants_event)
{
    const struct hcq_program *pub = &exec->prog->pub;
    struct ocl_device *dev = cl_device_of(queue);
    struct ocl_buffer *bufs[HCQ_ARGS_MAX];
    struct ocl_kernel *k = kernel_of(queue, exec);
    size_t global[3], local[3];
    cl_event event = NULL;
    cl_int err;
    uint32_t i;

    if (!k)
        return false;
    assert(hcq_exec_args(exec) == pub->n_bufs + pub->n_vals);
    for (i = 0; i < pub->n_bufs; i++) {
        if (!set_buffer(queue, k, exec, i, &bufs[i]))
            return false;
    }
    for (i = pub->n_bufs; i < pub->n_bufs + pub->n_vals; i++) {
        struct ocl_given *given = &k->seen[i];

        if (given->is_set && given->word == exec->args[i])
            continue;
        err = OCL(&dev->api, clSetKernelArg, k->kernel, pub->n_bufs + i, 8,
                  &exec->args[i]);
        *given = (struct ocl_given){exec->args[i], 0, err == CL_SUCCESS};
        if (err != CL_SUCCESS)
            return lose_cl_device(queue, "clSetKernelArg", err, exec->prog);
    }
    for (i = 0; i < pub->n_bufs && dev->is_apart; i++) {
        if (bufs[i] && is_first(bufs, i) && !give_to_device(queue, bufs[i]))
            return false;
    }
    for (i = 0; i < 3; i++) {
        local[i] = exec->local[i];
        global[i] = (size_t)exec->grid[i] * exec->local[i];
    }
    err = OCL(&dev->api, clEnqueueNDRangeKernel, queue->cl, k->kernel, 3, NULL,
              global, local, 0, NULL, wants_event ? &event : NULL);
    if (err != CL_SUCCESS)
        return lose_cl_device(queue, "clEnqueueNDRangeKernel", err, exec->prog);
    note_command(queue, event, exec->prog);
    for (i = 0; i < pub->n_bufs && dev->is_apart; i++) {
        if (bufs[i] && is_first(bufs, i) &&
            !give_to_host(queue, bufs[i], exec->prog))
            return false;
    }
    return true;
}

/* ---- packets ---- */

static bool
run_cl_packet(struct hcq_feed *feed, const struct hcq_packet *packet)
{
    struct ocl_queue *queue = ocl_queue(&feed->base);
    unsigned op = packet->head.op;
    const uint64_t *word = packet->word;
    /* not every packet has a word */
    uint64_t first = packet->head.n_dw > HCQ_HEAD_DW ? word[0] : 0;
    void *at = (void *)(uintptr_t)first;
    unsigned next;
    uint32_t low;

    switch (op) {
    case HCQ_OP_WAIT:
        return run_wait(queue, at, word[1]);
    case HCQ_OP_POLL:
        return run_poll(queue, first, (uint32_t)word[1], (uint32_t)word[2]);
    case HCQ_OP_SIGNAL:
        return run_signal(queue, at, word[1]);
    case HCQ_OP_TIMESTAMP:
        return run_timestamp(queue, at);
    case HCQ_OP_BARRIER: /* the queue is in order */
        return true;
    case HCQ_OP_EXEC:
        next = hcq_feed_next_op(feed, packet);
        return run_exec(queue, hcq_exec_of(packet),
                        next == 0 || next == HCQ_OP_SIGNAL);
    case HCQ_OP_COPY:
        return run_copy(queue, first, word[1], word[2]);
    case HCQ_OP_FILL:
        low = (uint32_t)word[1];
        return run_fill(queue, op, first, &low, 4, word[2]);
    case HCQ_OP_WRITE32:
        low = (uint32_t)word[1];
        return run_fill(queue, op, first, &low, 4, 4);
    case HCQ_OP_WRITE64:
        return run_fill(queue, op, first, &word[1], 8, 8);
    default:
        return hcq_feed_lose_stream(feed, packet);
    }
}

/* What waits for nothing, and is not one signal too many. Signals but the
 * timeline's are for others, whom the thread serves at once. */
static bool
is_short(struct hcq_feed *feed, const struct hcq_packet *packet)
{
    struct ocl_queue *queue = ocl_queue(&feed->base);
    /* not every packet has a word */
    uint64_t va = packet->head.n_dw > HCQ_HEAD_DW ? packet->word[0] : 0;
    const struct hcq_slot *slot = (const void *)(uintptr_t)va;

    switch ((enum hcq_op)packet->head.op) {
    case HCQ_OP_WAIT:
        return __atomic_load_n(&slot->value, __ATOMIC_ACQUIRE) >=
               packet->word[1];
    case HCQ_OP_SIGNAL:
        return slot->feed == feed && n_pending(queue) < OCL_PENDING_MAX - 1;
    case HCQ_OP_BARRIER:
    case HCQ_OP_EXEC:
    case HCQ_OP_COPY:
    case HCQ_OP_FILL:
    case HCQ_OP_WRITE32:
    case HCQ_OP_WRITE64:
        return true;
    case HCQ_OP_POLL:
    case HCQ_OP_TIMESTAMP:
    case HCQ_OP_WORDS:
    case HCQ_OP_CALL:
    case HCQ_OP_COUNT:
    default:
        return false;
    }
}

/* Behind what a submitter ran. */
static void
end_here(struct hcq_feed *feed)
{
    struct ocl_queue *queue = ocl_queue(&feed->base);
    bool busy = n_pending(queue) != 0;

    (void)flush(queue); /* a failure loses the device */
    atomic_store_explicit(&feed->now.prog, busy ? queue->last_prog : NULL,
                          memory_order_relaxed);
    atomic_store_explicit(&feed->now.op, busy ? HCQ_OP_EXEC : 0,
                          memory_order_relaxed);
}

/* Nothing is pending: the thread stays awake for a while. */
static bool
calm_down(struct ocl_queue *queue)
{
    uint32_t n = atomic_load(&queue->n_done);
    uint64_t now_ns = time_now_ns();

    if (queue->calm_at != n || !queue->calm_ns) {
        queue->calm_at = n;
        queue->calm_ns = now_ns;
    }
    if (now_ns - queue->calm_ns >= CALM_NS) {
        queue->calm_ns = 0;
        return false;
    }
    hcq_feed_nap(&queue->feed, NAP_NS);
    return true;
}

/* Ends a part of what is pending. Where the submitter does the work, only what
 * is complete, but for somebody who sleeps. */
static bool
finish_part(struct hcq_feed *feed, bool *out_more)
{
    struct ocl_queue *queue = ocl_queue(&feed->base);
    uint64_t wanted = 0;
    bool ok;

    if (!flush(queue))
        return false;
    *out_more = n_pending(queue) != 0;
    if (!*out_more) {
        atomic_store(&queue->wanted, UINT64_MAX);
        atomic_store_explicit(&feed->now.op, 0, memory_order_relaxed);
        *out_more = feed->runs_here && calm_down(queue);
        return true;
    }
    if (feed->runs_here &&
        (int32_t)(queue->prompt_to - atomic_load(&queue->n_done)) <= 0)
        wanted = atomic_exchange(&queue->wanted, UINT64_MAX);
    hold(queue);
    tell_now(queue);
    ok = wanted == UINT64_MAX ? finish_done(queue) : wait_for_cl(queue, wanted);
    let_go_of_cl(queue);
    if (ok && wanted == UINT64_MAX && atomic_load(&queue->wanted) == wanted &&
        n_pending(queue))
        hcq_feed_nap(feed, NAP_NS);
    return ok;
}

/* Enqueued commands are done, and nobody is told: the queue was stopped. */
static void
drop_pending(struct hcq_feed *feed)
{
    struct ocl_queue *queue = ocl_queue(&feed->base);
    struct ocl_api *api = &cl_device_of(queue)->api;

    hold(queue);
    (void)api->clFinish(queue->cl);
    while (n_pending(queue)) {
        struct ocl_pending *p =
            &queue->pending[atomic_load(&queue->n_done) % OCL_PENDING_MAX];

        if (p->event)
            api->clReleaseEvent(p->event);
        p->event = NULL;
        atomic_fetch_add(&queue->n_done, 1);
    }
    let_go_of_cl(queue);
    take_over(queue, NULL);
    atomic_store(&queue->unflushed, false);
    queue->last_prog = NULL;
    atomic_store(&feed->now.prog, NULL);
    atomic_store(&feed->now.op, 0);
}

static void
tell_progress(struct hcq_feed *feed, char *text, size_t size_bytes)
{
    (void)feed;
    snprintf(text, size_bytes, "or what OpenCL has before it");
}

const struct hcq_feed_ops ocl_feed_ops = {
    .run = run_cl_packet,
    .is_short = is_short,
    .end_here = end_here,
    .finish = finish_part,
    .drop = drop_pending,
    .progress = tell_progress,
    .stop_limit_ns = STOP_LIMIT_NS,
    .stop_note = ": OpenCL cannot end a kernel that runs",
};
