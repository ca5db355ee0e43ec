/* The OpenCL device: which of OpenCL's calls it makes, and that whatever it is
 * given by one goes back. Skipped where there is none. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "base/bits.h"
#include "base/thread.h"
#include "hcq/cl/ocl.h"

#define LONG_NS HCQ_TIMEOUT_NS

#define OK(call)                                                               \
    do {                                                                       \
        if ((call) != BELL_OK)                                                 \
            fail_msg("%s: %s", #call, bell_error_last()->message);             \
    } while (0)

static const char add_source[] =
    "kernel void add(global uchar *b0, ulong o0, global uchar *b1, ulong o1,\n"
    "                long n)\n"
    "{\n"
    "    global int *x = (global int *)(b1 + o1);\n"
    "    global int *y = (global int *)(b0 + o0);\n"
    "    size_t i = get_global_id(0);\n\n"
    "    if (i < n)\n"
    "        y[i] = x[i] + 1;\n"
    "}\n";

/* ---- OpenCL's functions, counted ---- */

static struct ocl_api real;
/* what there is of each, and how often some were called */
static _Atomic int n_events, n_mems, n_programs, n_kernels, n_queues;
static _Atomic int n_args, n_maps, n_unmaps, n_fills, n_copies, n_flushes;
static _Atomic int n_finishes, n_made; /* queues */
static _Atomic cl_int finish_error;

/* What is told of a marker's times, and when the marker was enqueued. */
static struct {
    bool is_faked;
    cl_int error; /* of when it ended */
    uint64_t queued, end;
    uint64_t begun_ns, done_ns;
} times;

#define NAP_NS 20000000u

static cl_int
noted(cl_int err, cl_event *event)
{
    if (err == CL_SUCCESS && event)
        n_events++;
    return err;
}

/* Launches by the thread that submits, and by others. */
static pthread_t submitter;
static _Atomic int n_own, n_others;

static cl_int
on_launch(cl_command_queue queue, cl_kernel kernel, cl_uint n_dims,
          const size_t *offset, const size_t *global, const size_t *local,
          cl_uint n, const cl_event *list, cl_event *event)
{
    if (pthread_equal(pthread_self(), submitter))
        n_own++;
    else
        n_others++;
    return noted(real.clEnqueueNDRangeKernel(queue, kernel, n_dims, offset,
                                             global, local, n, list, event),
                 event);
}

static cl_int
on_copy(cl_command_queue queue, cl_mem src, cl_mem dst, size_t src_at,
        size_t dst_at, size_t n_bytes, cl_uint n, const cl_event *list,
        cl_event *event)
{
    n_copies++;
    return noted(real.clEnqueueCopyBuffer(queue, src, dst, src_at, dst_at,
                                          n_bytes, n, list, event),
                 event);
}

static cl_int
on_fill(cl_command_queue queue, cl_mem mem, const void *pattern,
        size_t pattern_bytes, size_t at, size_t n_bytes, cl_uint n,
        const cl_event *list, cl_event *event)
{
    n_fills++;
    return noted(real.clEnqueueFillBuffer(queue, mem, pattern, pattern_bytes,
                                          at, n_bytes, n, list, event),
                 event);
}

static cl_int
on_marker(cl_command_queue queue, cl_uint n, const cl_event *list,
          cl_event *event)
{
    cl_int err;

    times.begun_ns = time_now_ns();
    if (times.is_faked)
        hcq_nap(NAP_NS);
    err = noted(real.clEnqueueMarkerWithWaitList(queue, n, list, event), event);
    times.done_ns = time_now_ns();
    return err;
}

static cl_int
on_times(cl_event event, cl_profiling_info what, size_t room, void *value,
         size_t *n)
{
    uint64_t told = what == CL_PROFILING_COMMAND_END ? times.end : times.queued;

    if (!times.is_faked)
        return real.clGetEventProfilingInfo(event, what, room, value, n);
    assert_int_equal(room, sizeof(told));
    memcpy(value, &told, sizeof(told));
    if (what == CL_PROFILING_COMMAND_END)
        times.end = times.queued; /* the next ends at once */
    return what == CL_PROFILING_COMMAND_END ? times.error : CL_SUCCESS;
}

static cl_int
on_finish(cl_command_queue queue)
{
    n_finishes++;
    return finish_error ? finish_error : real.clFinish(queue);
}

static void *
on_map(cl_command_queue queue, cl_mem mem, cl_bool blocking, cl_map_flags flags,
       size_t at, size_t n_bytes, cl_uint n, const cl_event *list,
       cl_event *event, cl_int *err)
{
    void *p = real.clEnqueueMapBuffer(queue, mem, blocking, flags, at, n_bytes,
                                      n, list, event, err);

    n_maps++;
    noted(*err, event);
    return p;
}

static cl_int
on_unmap(cl_command_queue queue, cl_mem mem, void *p, cl_uint n,
         const cl_event *list, cl_event *event)
{
    n_unmaps++;
    return noted(real.clEnqueueUnmapMemObject(queue, mem, p, n, list, event),
                 event);
}

static cl_int
on_release_event(cl_event event)
{
    n_events--;
    return real.clReleaseEvent(event);
}

static cl_mem
on_buffer(cl_context context, cl_mem_flags flags, size_t n_bytes, void *host,
          cl_int *err)
{
    cl_mem mem = real.clCreateBuffer(context, flags, n_bytes, host, err);

    n_mems += *err == CL_SUCCESS;
    return mem;
}

static cl_int
on_release_mem(cl_mem mem)
{
    n_mems--;
    return real.clReleaseMemObject(mem);
}

static cl_program
on_program(cl_context context, cl_uint n, const char **texts,
           const size_t *sizes, cl_int *err)
{
    cl_program program =
        real.clCreateProgramWithSource(context, n, texts, sizes, err);

    n_programs += *err == CL_SUCCESS;
    return program;
}

static cl_int
on_release_program(cl_program program)
{
    n_programs--;
    return real.clReleaseProgram(program);
}

static cl_kernel
on_kernel(cl_program program, const char *name, cl_int *err)
{
    cl_kernel kernel = real.clCreateKernel(program, name, err);

    n_kernels += *err == CL_SUCCESS;
    return kernel;
}

static cl_int
on_release_kernel(cl_kernel kernel)
{
    n_kernels--;
    return real.clReleaseKernel(kernel);
}

static cl_int
on_argument(cl_kernel kernel, cl_uint i, size_t n_bytes, const void *value)
{
    n_args++;
    return real.clSetKernelArg(kernel, i, n_bytes, value);
}

static cl_command_queue
on_queue(cl_context context, cl_device_id id, cl_command_queue_properties what,
         cl_int *err)
{
    cl_command_queue queue = real.clCreateCommandQueue(context, id, what, err);

    n_queues += *err == CL_SUCCESS;
    n_made++;
    return queue;
}

static cl_int
on_release_queue(cl_command_queue queue)
{
    n_queues--;
    return real.clReleaseCommandQueue(queue);
}

static cl_int
on_flush(cl_command_queue queue)
{
    n_flushes++;
    return real.clFlush(queue);
}

static struct hcq_device *
open_counted(const char *name)
{
    struct hcq_device *dev;
    struct ocl_api *api;
    bell_status status;

    status = hcq_device_open(name, &dev);
    if (status == BELL_E_NO_DEVICE || status == BELL_E_UNSUPPORTED) {
        print_message("%s\n", bell_error_last()->message);
        skip();
    }
    if (status != BELL_OK)
        fail_msg("%s", bell_error_last()->message);
    api = &ocl_device(dev)->api;
    real = *api;
    submitter = pthread_self();
    n_own = n_others = 0;
    n_events = n_mems = n_programs = n_kernels = 0;
    n_queues = 1; /* of reads and writes */
    api->clEnqueueNDRangeKernel = on_launch;
    api->clEnqueueCopyBuffer = on_copy;
    api->clEnqueueFillBuffer = on_fill;
    api->clEnqueueMarkerWithWaitList = on_marker;
    api->clEnqueueMapBuffer = on_map;
    api->clEnqueueUnmapMemObject = on_unmap;
    api->clReleaseEvent = on_release_event;
    api->clCreateBuffer = on_buffer;
    api->clReleaseMemObject = on_release_mem;
    api->clCreateProgramWithSource = on_program;
    api->clReleaseProgram = on_release_program;
    api->clCreateKernel = on_kernel;
    api->clReleaseKernel = on_release_kernel;
    api->clSetKernelArg = on_argument;
    api->clCreateCommandQueue = on_queue;
    api->clReleaseCommandQueue = on_release_queue;
    api->clFlush = on_flush;
    api->clFinish = on_finish;
    api->clGetEventProfilingInfo = on_times;
    return dev;
}

static void
close_counted(struct hcq_device *dev)
{
    hcq_device_close(dev);
    assert_int_equal(n_events, 0);
    assert_int_equal(n_mems, 0);
    assert_int_equal(n_programs, 0);
    assert_int_equal(n_kernels, 0);
    assert_int_equal(n_queues, 0);
}

/* ---- a queue, and memory of three kinds ---- */

struct rig {
    struct hcq_device *dev;
    struct hcq_queue *queue;
    struct hcq_buffer *buf, *seen, *pinned;
    struct hcq_program *prog;
    struct hcq_cs *cs;
    bool is_apart;
};

static int32_t pinned_memory[16];

static void
set_up(struct rig *r, bool is_apart)
{
    const struct hcq_program_desc desc = {
        .struct_size = sizeof(desc),
        .name = "add",
        .binary = add_source,
        .binary_size_bytes = strlen(add_source),
        .n_bufs = 2,
        .n_vals = 1,
    };

    r->is_apart = is_apart;
    r->dev = open_counted(is_apart ? "CL:0@apart" : "CL:0");
    OK(hcq_queue_create(r->dev, HCQ_QUEUE_COMPUTE, &r->queue));
    OK(hcq_buffer_create(r->dev, 64, 0, &r->buf));
    OK(hcq_buffer_create(r->dev, 64, HCQ_MEM_HOST_VISIBLE, &r->seen));
    OK(hcq_buffer_create_pinned(r->dev, pinned_memory, 64, &r->pinned));
    OK(hcq_program_create(r->dev, &desc, &r->prog));
    memset(r->seen->host, 0, 64);
    memset(pinned_memory, 0, 64);
}

static void
begin(struct rig *r)
{
    OK(hcq_queue_begin(r->queue, &r->cs));
    n_args = n_maps = n_unmaps = n_fills = n_copies = n_flushes = n_finishes =
        0;
}

static void
finish(struct rig *r)
{
    OK(hcq_cs_submit(r->cs, NULL));
    OK(hcq_queue_wait(r->queue, LONG_NS));
}

/* One launch; `args` of clSetKernelArg, `maps` of memory if it is apart. */
static void
launch(struct rig *r, uint64_t y, uint64_t x, uint64_t n, int args, int maps)
{
    static const uint32_t grid[3] = {2, 1, 1}, local[3] = {4, 1, 1};

    begin(r);
    hcq_cs_exec(r->cs, r->prog, (const uint64_t[]){y, x, n}, 3, grid, local);
    finish(r);
    assert_int_equal(n_args, args);
    assert_int_equal(n_maps, r->is_apart ? maps : 0);
    assert_int_equal(n_unmaps, r->is_apart ? maps : 0);
}

/* An argument is set when it is another one than the last time. */
static void
test_launches(void **state)
{
    struct rig r;
    int i;

    for (i = 0; i < 2; i++) {
        uint64_t buf, seen, pinned;

        set_up(&r, i == 1);
        buf = r.buf->va;
        seen = r.seen->va;
        pinned = r.pinned->va;
        launch(&r, buf, seen, 8, 5, 1);
        launch(&r, buf, seen, 8, 0, 1);
        launch(&r, buf, seen + 4, 8, 1, 1);
        launch(&r, buf + 8, seen + 4, 7, 2, 1);
        launch(&r, buf + 8, seen + 4, 7, 0, 1);
        launch(&r, seen + 8, buf + 4, 7, 2, 1);
        launch(&r, seen, seen + 32, 3, 4, 1);
        launch(&r, pinned, seen + 32, 3, 1, 2);
        launch(&r, pinned, 0, 0, 3, 1);
        launch(&r, pinned, 0, 0, 0, 1);
        launch(&r, pinned, seen, 8, 2, 2);
        /* memory anew, at what may be the same place */
        hcq_buffer_destroy(r.seen);
        hcq_memory_trim(r.dev);
        OK(hcq_buffer_create(r.dev, 64, HCQ_MEM_HOST_VISIBLE, &r.seen));
        ((int32_t *)r.seen->host)[1] = 41;
        launch(&r, pinned, r.seen->va, 8, 1, 2);
        assert_int_equal(pinned_memory[1], 42);
        assert_int_equal(n_kernels, 1);
        assert_true(n_flushes > 0);
        close_counted(r.dev);
    }
    (void)state;
}

/* Copies and fills; the rest of a fill, less than a pattern, goes byte by
 * byte. */
static void
test_transfers(void **state)
{
    static const struct {
        uint64_t n_bytes;
        int n_calls;
    } fills[] = {{4, 1}, {8, 1}, {11, 4}, {3, 3}, {1, 1}, {5, 2}};
    uint8_t *bytes;
    struct rig r;
    size_t k, i;
    int pass;

    for (pass = 0; pass < 2; pass++) {
        int maps = pass;

        set_up(&r, pass == 1);
        bytes = r.seen->host;
        for (k = 0; k < ARRAY_LEN(fills); k++) {
            memset(bytes, 0xee, 64);
            begin(&r);
            hcq_cs_fill(r.cs, r.seen->va + 4, 0x04030201, fills[k].n_bytes);
            finish(&r);
            assert_int_equal(n_fills, fills[k].n_calls);
            assert_int_equal(n_maps, maps);
            assert_int_equal(n_unmaps, maps);
            for (i = 0; i < 64; i++)
                assert_int_equal(bytes[i], i < 4 || i >= 4 + fills[k].n_bytes
                                               ? 0xee
                                               : (i - 4) % 4 + 1);
        }
        begin(&r);
        hcq_cs_write(r.cs, r.seen->va + 8, 0x1817161514131211, 64);
        hcq_cs_write(r.cs, r.seen->va + 16, 0x24232221, 32);
        finish(&r);
        assert_int_equal(n_fills, 2);
        for (i = 0; i < 8; i++)
            assert_int_equal(bytes[8 + i], 0x11 + i);
        for (i = 0; i < 4; i++)
            assert_int_equal(bytes[16 + i], 0x21 + i);
        begin(&r);
        hcq_cs_copy(r.cs, r.pinned->va + 3, r.seen->va + 8, 7);
        finish(&r);
        assert_int_equal(n_copies, 1);
        assert_int_equal(n_maps, 2 * maps);
        assert_int_equal(n_unmaps, 2 * maps);
        assert_memory_equal((uint8_t *)pinned_memory + 3, bytes + 8, 7);
        assert_int_equal(((uint8_t *)pinned_memory)[2], 0);
        assert_int_equal(((uint8_t *)pinned_memory)[10], 0);
        begin(&r);
        hcq_cs_copy(r.cs, r.seen->va + 40, r.seen->va + 8, 12);
        hcq_cs_copy(r.cs, r.buf->va, r.seen->va + 8, 12);
        hcq_cs_copy(r.cs, r.seen->va + 52, r.buf->va, 12);
        finish(&r);
        assert_int_equal(n_copies, 3);
        assert_int_equal(n_maps, 3 * maps);
        assert_int_equal(n_unmaps, 3 * maps);
        assert_memory_equal(bytes + 40, bytes + 8, 12);
        assert_memory_equal(bytes + 52, bytes + 8, 12);
        close_counted(r.dev);
    }
    (void)state;
}

/* More signals and timestamps at once than the queue keeps in mind, each after
 * what stands before it. */
static void
test_many_signals(void **state)
{
    static const uint32_t grid[3] = {2, 1, 1}, local[3] = {4, 1, 1};
    struct hcq_signal *sig, *time[2];
    uint64_t last = 0;
    struct rig r;
    int i, round;

    (void)state;
    set_up(&r, false);
    OK(hcq_signal_create(r.dev, 0, &sig));
    OK(hcq_signal_create(r.dev, 0, &time[0]));
    OK(hcq_signal_create(r.dev, 0, &time[1]));
    for (round = 0; round < 3; round++) {
        begin(&r);
        for (i = 1; i <= 300; i++) {
            if (i % 3 != 1)
                hcq_cs_exec(
                    r.cs, r.prog,
                    (const uint64_t[]){r.seen->va, r.buf->va, (uint64_t)i}, 3,
                    grid, local);
            hcq_cs_signal(r.cs, sig, (uint64_t)(1000 * round + i));
            if (i % 7 == 0)
                hcq_cs_timestamp(r.cs, time[i / 7 % 2]);
        }
        finish(&r);
        assert_int_equal(hcq_signal_value(sig), 1000 * round + 300);
        for (i = 0; i < 2; i++)
            assert_true(hcq_signal_timestamp(time[i]) > last);
        last = hcq_signal_timestamp(time[0]);
    }
    assert_true(hcq_signal_timestamp(time[1]) <= hcq_signal_timestamp(time[0]));
    close_counted(r.dev);
}

/* Nobody waits: the value comes all the same. */
static void
watch(const struct hcq_signal *sig, uint64_t value)
{
    uint64_t start_ns = time_now_ns();

    while (hcq_signal_value(sig) < value) {
        if (time_now_ns() - start_ns > LONG_NS)
            fail_msg("%llu, not %llu",
                     (unsigned long long)hcq_signal_value(sig),
                     (unsigned long long)value);
        hcq_nap(50000);
    }
}

static void
add_to(struct rig *r, uint64_t y, uint64_t x)
{
    static const uint32_t grid[3] = {2, 1, 1}, local[3] = {4, 1, 1};

    hcq_cs_exec(r->cs, r->prog, (const uint64_t[]){y, x, 8}, 3, grid, local);
}

/* Who makes OpenCL's calls: on the host's processor who submits, up to what may
 * have to wait; else the queue's thread. */
static void
test_who_calls(void **state)
{
    struct hcq_stream *stream;
    struct hcq_signal *sig;
    uint64_t value;
    struct rig r;

    (void)state;
    set_up(&r, false);
    OK(hcq_buffer_write(r.buf, 0, (const int32_t[8]){0}, 32));
    OK(hcq_signal_create(r.dev, 0, &sig));
    begin(&r);
    add_to(&r, r.seen->va, r.buf->va);
    OK(hcq_cs_submit(r.cs, &value));
    assert_int_equal(n_own, 1);
    watch(hcq_queue_timeline(r.queue), value);
    assert_int_equal(n_flushes, 1);

    /* the second launch waits, and so does what is submitted behind it */
    begin(&r);
    add_to(&r, r.seen->va, r.buf->va);
    hcq_cs_wait(r.cs, sig, 1);
    add_to(&r, r.seen->va, r.buf->va);
    OK(hcq_cs_submit(r.cs, NULL));
    begin(&r);
    add_to(&r, r.buf->va, r.seen->va);
    hcq_cs_signal(r.cs, sig, 2);
    OK(hcq_cs_submit(r.cs, &value));
    assert_int_equal(n_own, 2);
    assert_int_equal(n_others, 0);
    hcq_signal_set(sig, 1);
    watch(sig, 2);
    watch(hcq_queue_timeline(r.queue), value);
    assert_int_equal(n_own, 2);
    assert_int_equal(n_others, 2);

    /* a wait that is satisfied does not wait; the thread looks after a signal
     * of its own */
    begin(&r);
    hcq_cs_wait(r.cs, sig, 2);
    add_to(&r, r.seen->va, r.buf->va);
    hcq_cs_signal(r.cs, sig, 3);
    add_to(&r, r.seen->va, r.buf->va);
    OK(hcq_cs_submit(r.cs, &value));
    watch(hcq_queue_timeline(r.queue), value);
    assert_int_equal(hcq_signal_value(sig), 3);
    assert_int_equal(n_own, 3);
    assert_int_equal(n_others, 3);

    OK(hcq_stream_create(r.queue, "twice", &stream));
    r.cs = hcq_stream_cs(stream);
    add_to(&r, r.seen->va, r.buf->va);
    add_to(&r, r.seen->va, r.buf->va);
    OK(hcq_stream_end(stream));
    OK(hcq_stream_submit(stream, &value));
    assert_int_equal(n_own, 5);
    OK(hcq_queue_wait(r.queue, LONG_NS));
    assert_int_equal(((int32_t *)r.seen->host)[0], 3);
    hcq_stream_destroy(stream);
    close_counted(r.dev);

    set_up(&r, true);
    begin(&r);
    add_to(&r, r.buf->va, r.buf->va);
    finish(&r);
    assert_int_equal(n_own, 0);
    assert_int_equal(n_others, 1);
    close_counted(r.dev);
}

/* More submissions than may wait for events, of which nobody waits for one: all
 * run, in order. */
static void
test_many_submissions(void **state)
{
    struct rig r;
    uint32_t i;

    (void)state;
    set_up(&r, false);
    OK(hcq_buffer_write(r.buf, 0, (const int32_t[8]){0}, 32));
    for (i = 0; i < OCL_PENDING_MAX + 300; i++) {
        begin(&r);
        add_to(&r, i % 2 ? r.buf->va : r.seen->va,
               i % 2 ? r.seen->va : r.buf->va);
        OK(hcq_cs_submit(r.cs, NULL));
    }
    OK(hcq_queue_wait(r.queue, LONG_NS));
    assert_int_equal(n_own + n_others, i);
    /* seen = buf + 1, buf = seen + 1, from the first word of either, 0 */
    assert_int_equal(((int32_t *)r.seen->host)[0], i - 1);
    close_counted(r.dev);
}

/* Waits for the queue until that ends with these words, which it does soon. */
static void
expect_timeout(struct hcq_queue *queue, const char *words)
{
    int i;

    for (i = 0; i < 500; i++) {
        assert_int_equal(hcq_queue_wait(queue, 20000000), BELL_E_TIMEOUT);
        if (strstr(bell_error_last()->message, words))
            return;
    }
    fail_msg("no '%s' in: %s", words, bell_error_last()->message);
}

/* What a queue does while it does nothing. */
static void
test_reports(void **state)
{
    struct hcq_signal *sig;
    volatile uint32_t *word;
    char words[160];
    struct rig r;

    (void)state;
    set_up(&r, false);
    word = r.seen->host;
    OK(hcq_signal_create(r.dev, 0, &sig));
    OK(hcq_queue_begin(r.queue, &r.cs));
    hcq_cs_wait(r.cs, sig, 5);
    OK(hcq_cs_submit(r.cs, NULL));
    snprintf(words, sizeof(words),
             "CL:0/compute0: wait for signal 0x%llx >= 5, 6 words queued",
             (unsigned long long)sig->va);
    expect_timeout(r.queue, words);
    hcq_signal_set(sig, 5);
    OK(hcq_queue_wait(r.queue, LONG_NS));
    OK(hcq_queue_begin(r.queue, &r.cs));
    hcq_cs_poll(r.cs, r.seen->va + 12, 0xffffffff, 0x50);
    OK(hcq_cs_submit(r.cs, NULL));
    snprintf(words, sizeof(words),
             "CL:0/compute0: poll 0x%llx & 0xffffffff == 0x50, 7 words queued",
             (unsigned long long)r.seen->va + 12);
    expect_timeout(r.queue, words);
    word[3] = 0x50;
    OK(hcq_queue_wait(r.queue, LONG_NS));
    close_counted(r.dev);
}

/* Nothing is asked of OpenCL for no bytes, wherever, nor for a signal that is
 * there. */
static void
test_nothing(void **state)
{
    struct hcq_stream *stream;
    struct hcq_signal *sig;
    struct rig r;

    (void)state;
    set_up(&r, true);
    OK(hcq_signal_create(r.dev, 7, &sig));
    OK(hcq_stream_create(r.queue, "nothing", &stream));
    r.cs = hcq_stream_cs(stream);
    hcq_cs_copy(r.cs, r.seen->va, r.buf->va, 0);
    hcq_cs_copy(r.cs, 0x1234, 0x5678, 0);
    hcq_cs_fill(r.cs, r.seen->va, 1, 0);
    hcq_cs_fill(r.cs, 0x1234, 1, 0);
    OK(hcq_stream_end(stream));
    n_maps = n_unmaps = n_fills = n_copies = n_flushes = n_finishes = 0;
    OK(hcq_stream_submit(stream, NULL));
    OK(hcq_stream_wait(stream, LONG_NS));
    hcq_stream_destroy(stream);
    assert_int_equal(n_copies + n_fills + n_maps + n_unmaps, 0);
    assert_int_equal(n_flushes + n_finishes, 0);
    begin(&r);
    hcq_cs_fill(r.cs, r.seen->va, 1, 4);
    hcq_cs_wait(r.cs, sig, 7);
    hcq_cs_wait(r.cs, sig, 6);
    hcq_cs_barrier(r.cs);
    hcq_cs_fill(r.cs, r.seen->va, 1, 4);
    finish(&r);
    assert_int_equal(n_fills, 2);
    assert_int_equal(n_finishes, 0);
    hcq_signal_destroy(sig);
    close_counted(r.dev);
}

/* Which addresses are in a buffer, at its borders and those of its number. */
static void
test_places(void **state)
{
    static const uint64_t edges[] = {0, 1, 2, 63, 64, 65, 127, 128};
    struct ocl_device *dev;
    struct ocl_buffer *buf;
    uint64_t va, at;
    struct rig r;
    size_t i, k;

    (void)state;
    set_up(&r, false);
    dev = ocl_device(r.dev);
    va = r.seen->va;
    for (i = 0; i < ARRAY_LEN(edges); i++) {
        for (k = 0; k < ARRAY_LEN(edges); k++) {
            buf = ocl_lookup(dev, va + edges[i], edges[k], &at);
            assert_int_equal(buf != NULL, edges[i] + edges[k] <= 64);
            if (buf) {
                assert_ptr_equal(buf->host, r.seen->host);
                assert_int_equal(at, edges[i]);
            }
        }
        assert_null(ocl_lookup(dev, va + edges[i], UINT64_MAX, &at));
        assert_null(ocl_lookup(dev, va + edges[i], UINT64_MAX - 62, &at));
    }
    assert_null(ocl_lookup(dev, va - 1, 0, &at));
    assert_null(ocl_lookup(dev, va & ~OCL_VA_BIT, 1, &at));
    assert_null(ocl_lookup(dev, va | 1ull << 63, 1, &at));
    assert_null(ocl_lookup(dev, OCL_VA_BIT | 9ull << OCL_OFFSET_BITS, 0, &at));
    assert_null(ocl_lookup(dev, 2 * OCL_VA_BIT - 1, 0, &at));
    close_counted(r.dev);
}

enum access {
    COPY_TO,
    COPY_FROM,
    FILL,
    STORE_32,
    STORE_64,
    POLL,
    N_ACCESSES
};

static void
put_access(struct rig *r, enum access access, uint64_t va, uint64_t n)
{
    switch (access) {
    case COPY_TO:
        hcq_cs_copy(r->cs, va, r->seen->va, n);
        break;
    case COPY_FROM:
        hcq_cs_copy(r->cs, r->seen->va, va, n);
        break;
    case FILL:
        hcq_cs_fill(r->cs, va, 0, n);
        break;
    case STORE_32:
        hcq_cs_write(r->cs, va, 0, 32);
        break;
    case STORE_64:
        hcq_cs_write(r->cs, va, 0, 64);
        break;
    case POLL:
    case N_ACCESSES:
    default:
        hcq_cs_poll(r->cs, va, UINT32_MAX, 0);
        break;
    }
}

/* Every command that names memory, where it just ends in a buffer and behind
 * it. */
static void
test_ranges(void **state)
{
    static const struct {
        const char *name;
        uint64_t n;
    } rows[N_ACCESSES] = {{"copy", 12},   {"copy", 12},   {"fill", 12},
                          {"write32", 4}, {"write64", 8}, {"poll", 4}};
    struct hcq_fault fault;
    char want[128];
    struct rig r;
    unsigned i;

    (void)state;
    set_up(&r, false);
    for (i = 0; i < N_ACCESSES; i++) {
        uint64_t last = r.buf->va + 64 - rows[i].n;

        begin(&r);
        put_access(&r, (enum access)i, last, rows[i].n);
        finish(&r);
        last += i == STORE_64 ? 8 : i < FILL ? 1 : 4;
        begin(&r);
        put_access(&r, (enum access)i, last, rows[i].n);
        OK(hcq_cs_submit(r.cs, NULL));
        assert_int_equal(hcq_queue_wait(r.queue, LONG_NS), BELL_E_DEVICE_LOST);
        hcq_device_fault(r.dev, &fault);
        assert_int_equal(fault.kind, HCQ_FAULT_MEMORY);
        assert_true(fault.va == last && fault.last_group == 0);
        assert_string_equal(fault.queue, "CL:0/compute0");
        assert_string_equal(fault.program, rows[i].name);
        snprintf(want, sizeof(want),
                 "command '%s' on CL:0/compute0: no buffer has %u bytes at "
                 "0x%llx",
                 rows[i].name, (unsigned)rows[i].n, (unsigned long long)last);
        assert_string_equal(fault.text, want);
        OK(hcq_device_recover(r.dev));
    }
    close_counted(r.dev);
}

/* A timestamp of a marker that ends so long after it was enqueued; its
 * limits. */
static uint64_t
timestamp(struct rig *r, struct hcq_signal *sig, uint64_t after_ns,
          cl_int error, uint64_t *out_before, uint64_t *out_after)
{
    times.is_faked = true;
    times.error = error;
    times.queued = 1000;
    times.end = times.queued + after_ns;
    begin(r);
    hcq_cs_fill(r->cs, r->seen->va, 1, 4);
    hcq_cs_timestamp(r->cs, sig);
    *out_before = time_now_ns();
    finish(r);
    *out_after = time_now_ns();
    times.is_faked = false;
    return hcq_signal_timestamp(sig);
}

/* The marker's end is as long after it was enqueued as OpenCL says, which is in
 * the middle of that call; never later than now, nor before the last. */
static void
test_times(void **state)
{
    uint64_t at, last = 0, before, after;
    struct hcq_signal *sig, *second;
    bool is_middle = false;
    struct rig r;
    int i;

    (void)state;
    set_up(&r, false);
    OK(hcq_signal_create(r.dev, 0, &sig));
    (void)timestamp(&r, sig, 0, CL_SUCCESS, &before, &after); /* profiles now */
    for (i = 0; i < 50 && !is_middle; i++) { /* unless it is held up */
        at = timestamp(&r, sig, 0, CL_SUCCESS, &before, &after);
        assert_true(at >= before && at <= after && at >= last);
        is_middle =
            at > times.begun_ns + NAP_NS / 4 && at < times.done_ns - NAP_NS / 4;
        last = at;
    }
    assert_true(is_middle);
    /* so much later */
    at = timestamp(&r, sig, NAP_NS / 4, CL_SUCCESS, &before, &after);
    assert_true(at >= times.begun_ns + NAP_NS / 2 + NAP_NS / 4);
    /* later than now, and nothing told: now */
    at = timestamp(&r, sig, 1ull << 60, CL_SUCCESS, &before, &after);
    assert_true(at >= times.done_ns && at <= after);
    at =
        timestamp(&r, sig, 0, CL_PROFILING_INFO_NOT_AVAILABLE, &before, &after);
    assert_true(at >= times.done_ns && at <= after);
    at = timestamp(&r, sig, UINT64_MAX, CL_SUCCESS, &before, &after);
    assert_true(at >= times.done_ns && at <= after);
    /* two in one submission, the second of which is told to be before */
    OK(hcq_signal_create(r.dev, 0, &second));
    times.is_faked = true;
    times.end = 1ull << 60;
    begin(&r);
    hcq_cs_fill(r.cs, r.seen->va, 1, 4);
    hcq_cs_timestamp(r.cs, sig);
    hcq_cs_timestamp(r.cs, second);
    finish(&r);
    assert_true(hcq_signal_timestamp(sig) >= times.done_ns);
    assert_true(hcq_signal_timestamp(second) == hcq_signal_timestamp(sig));
    hcq_signal_destroy(second);
    times.is_faked = false;
    hcq_signal_destroy(sig);
    close_counted(r.dev);
}

/* A queue that keeps times takes the place of one whose work is done: after one
 * that cannot be waited for none is made. */
static void
test_times_fail(void **state)
{
    struct hcq_signal *sig;
    struct rig r;
    int made;

    (void)state;
    set_up(&r, false);
    OK(hcq_signal_create(r.dev, 0, &sig));
    made = n_made;
    finish_error = CL_OUT_OF_RESOURCES;
    begin(&r);
    hcq_cs_fill(r.cs, r.buf->va, 1, 64);
    hcq_cs_timestamp(r.cs, sig);
    OK(hcq_cs_submit(r.cs, NULL));
    assert_int_equal(hcq_queue_wait(r.queue, LONG_NS), BELL_E_DEVICE_LOST);
    finish_error = CL_SUCCESS;
    assert_non_null(strstr(bell_error_last()->message, "clFinish"));
    OK(hcq_device_recover(r.dev));
    assert_int_equal(n_made, made);
    begin(&r);
    hcq_cs_fill(r.cs, r.buf->va, 1, 64);
    hcq_cs_timestamp(r.cs, sig);
    finish(&r);
    assert_int_equal(n_made, made + 1);
    hcq_signal_destroy(sig);
    close_counted(r.dev);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_launches),
        cmocka_unit_test(test_transfers),
        cmocka_unit_test(test_who_calls),
        cmocka_unit_test(test_many_submissions),
        cmocka_unit_test(test_many_signals),
        cmocka_unit_test(test_reports),
        cmocka_unit_test(test_nothing),
        cmocka_unit_test(test_places),
        cmocka_unit_test(test_ranges),
        cmocka_unit_test(test_times),
        cmocka_unit_test(test_times_fail),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
