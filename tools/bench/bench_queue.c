/* Bench: launches, replays, copies and fills, on queues alone. */
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

#include "base/alloc.h"
#include "base/bits.h"
#include "base/thread.h"
#include "tools/bench/bench.h"

#define NO_KERNEL "there is no kernel by hand for it"

static double
us_since(uint64_t start_ns)
{
    return (double)(time_now_ns() - start_ns) / 1e3;
}

/* ---- launches ---- */

/* One command of the kind that is measured: a kernel of one thread, or if
 * `to` is 0 none at all. */
static void
emit(struct bench *b, struct hcq_cs *cs, uint64_t to)
{
    const uint64_t args[2] = {to, 7};
    const uint32_t one[3] = {1, 1, 1};

    if (to)
        hcq_cs_exec(cs, b->store, args, 2, one, one);
}

static bell_status
submit_and_wait(struct bench *b, uint64_t to)
{
    uint64_t value;
    struct hcq_cs *cs;

    BELL_TRY(hcq_queue_begin(b->compute, &cs));
    emit(b, cs, to);
    BELL_TRY(hcq_cs_submit(cs, &value));
    return hcq_signal_wait(hcq_queue_timeline(b->compute), value,
                           BENCH_WAIT_NS);
}

static bell_status
time_waits(struct bench *b, uint64_t to)
{
    unsigned i;

    for (i = 0; i < 20; i++)
        BELL_TRY(submit_and_wait(b, to));
    bench_begin(b);
    while (bench_goes_on(b, 200)) {
        uint64_t start = time_now_ns();
        BELL_TRY(submit_and_wait(b, to));
        bench_sample(b, us_since(start));
    }
    return BELL_OK;
}

bell_status
bench_launch(struct bench *b)
{
    struct hcq_buffer *buf;
    bell_status status;

    BELL_TRY(time_waits(b, 0));
    bench_end(b, BENCH_US, "an empty submission, waited for", "submit_wait");
    if (!b->store) {
        bench_lacks(b, BENCH_US, "a kernel of one thread, waited for",
                    "launch_wait", NO_KERNEL);
        return BELL_OK;
    }
    BELL_TRY(hcq_buffer_create(b->dev, 4096, 0, &buf));
    status = time_waits(b, buf->va);
    if (status == BELL_OK)
        bench_end(b, BENCH_US, "a kernel of one thread, waited for",
                  "launch_wait");
    hcq_buffer_destroy(buf);
    return status;
}

/* ---- rate ---- */

#define BATCH 128 /* submissions that always find room */

/* Host time of each of a batch of fresh submissions, or of a bound stream. */
static bell_status
time_batches(struct bench *b, uint64_t to, struct hcq_stream *stream)
{
    bench_begin(b);
    while (bench_goes_on(b, 20)) {
        uint64_t start = time_now_ns();
        unsigned i;
        for (i = 0; i < BATCH; i++) {
            struct hcq_cs *cs;
            if (stream) {
                BELL_TRY(hcq_stream_submit(stream, NULL));
                continue;
            }
            BELL_TRY(hcq_queue_begin(b->compute, &cs));
            emit(b, cs, to);
            BELL_TRY(hcq_cs_submit(cs, NULL));
        }
        bench_sample(b, us_since(start) * 1e3 / BATCH);
        BELL_TRY(hcq_queue_wait(b->compute, BENCH_WAIT_NS));
    }
    return BELL_OK;
}

/* Launches a second, those that wait for room included. */
static bell_status
time_flood(struct bench *b, uint64_t to)
{
    unsigned n = b->is_small ? 512 : 4096, i;

    bench_begin(b);
    while (bench_goes_on(b, 5)) {
        uint64_t start = time_now_ns();
        for (i = 0; i < n; i++) {
            struct hcq_cs *cs;
            BELL_TRY(hcq_queue_begin(b->compute, &cs));
            emit(b, cs, to);
            BELL_TRY(hcq_cs_submit(cs, NULL));
        }
        BELL_TRY(hcq_queue_wait(b->compute, BENCH_WAIT_NS));
        bench_sample(b, n * 1e3 / us_since(start));
    }
    return BELL_OK;
}

static bell_status
build_stream(struct bench *b, uint64_t to, unsigned n,
             struct hcq_stream **out_stream)
{
    bell_status status;
    unsigned i;

    BELL_TRY(hcq_stream_create(b->compute, "bench", out_stream));
    for (i = 0; i < n; i++)
        emit(b, hcq_stream_cs(*out_stream), to);
    status = hcq_stream_end(*out_stream);
    if (status != BELL_OK)
        hcq_stream_destroy(*out_stream);
    return status;
}

static bell_status
rate_rows(struct bench *b, uint64_t to)
{
    struct hcq_stream *stream;
    bell_status status;

    BELL_TRY(time_batches(b, to, NULL));
    bench_end(b, BENCH_NS,
              to ? "host time of a fresh launch"
                 : "host time of a fresh submission",
              to ? "launch_fresh_host" : "submit_fresh_host");
    BELL_TRY(build_stream(b, to, 1, &stream));
    status = time_batches(b, 0, stream);
    if (status == BELL_OK)
        status = hcq_stream_wait(stream, BENCH_WAIT_NS);
    hcq_stream_destroy(stream);
    BELL_TRY(status);
    bench_end(b, BENCH_NS, "host time of a bound launch",
              to ? "launch_bound_host" : "submit_bound_host");
    BELL_TRY(time_flood(b, to));
    bench_end(b, BENCH_KILO_S, "launches a second, all done",
              to ? "launch_rate" : "submit_rate");
    return BELL_OK;
}

bell_status
bench_rate(struct bench *b)
{
    struct hcq_buffer *buf;
    bell_status status;

    if (!b->store) {
        bench_lacks(b, BENCH_NS, "host time of a fresh launch",
                    "launch_fresh_host", NO_KERNEL);
        return rate_rows(b, 0);
    }
    BELL_TRY(hcq_buffer_create(b->dev, 4096, 0, &buf));
    status = rate_rows(b, buf->va);
    hcq_buffer_destroy(buf);
    return status;
}

/* ---- replay ---- */

static bell_status
time_replay(struct bench *b, struct hcq_stream *stream, unsigned n_kernels)
{
    unsigned i;

    for (i = 0; i < 2; i++) {
        BELL_TRY(hcq_stream_submit(stream, NULL));
        BELL_TRY(hcq_stream_wait(stream, BENCH_WAIT_NS));
    }
    bench_begin(b);
    while (bench_goes_on(b, 5)) {
        uint64_t start = time_now_ns();
        BELL_TRY(hcq_stream_submit(stream, NULL));
        BELL_TRY(hcq_stream_wait(stream, BENCH_WAIT_NS));
        bench_sample(b, us_since(start) / n_kernels);
    }
    return BELL_OK;
}

bell_status
bench_replay(struct bench *b)
{
    static const unsigned sizes[] = {10, 100, 1000};
    struct hcq_stream *stream;
    struct hcq_buffer *buf;
    bell_status status = BELL_OK;
    size_t i;

    if (!b->store) {
        bench_lacks(b, BENCH_US, "a bound stream of kernels, per kernel",
                    "replay_per_kernel", NO_KERNEL);
        return BELL_OK;
    }
    BELL_TRY(hcq_buffer_create(b->dev, 4096, 0, &buf));
    for (i = 0; i < ARRAY_LEN(sizes) && status == BELL_OK; i++) {
        status = build_stream(b, buf->va, sizes[i], &stream);
        if (status != BELL_OK)
            break;
        status = time_replay(b, stream, sizes[i]);
        hcq_stream_destroy(stream);
        if (status == BELL_OK)
            bench_end(b, BENCH_US, "a bound stream of kernels, per kernel",
                      "replay_%u_per_kernel", sizes[i]);
    }
    hcq_buffer_destroy(buf);
    return status;
}

/* ---- copies ---- */

static void
name_size(uint64_t n_bytes, char out[16])
{
    if (n_bytes >= 1u << 20)
        snprintf(out, 16, "%uMiB", (unsigned)(n_bytes >> 20) & 0xfffff);
    else
        snprintf(out, 16, "%uKiB", (unsigned)(n_bytes >> 10) & 0xfffff);
}

/* One copy, waited for. */
static bell_status
time_copies(struct bench *b, struct hcq_queue *queue, uint64_t dst_va,
            uint64_t src_va, uint64_t n_bytes)
{
    bool warm = false;

    bench_begin(b);
    while (bench_goes_on(b, 5)) {
        uint64_t start = time_now_ns(), value;
        struct hcq_cs *cs;
        BELL_TRY(hcq_queue_begin(queue, &cs));
        hcq_cs_copy(cs, dst_va, src_va, n_bytes);
        BELL_TRY(hcq_cs_submit(cs, &value));
        BELL_TRY(
            hcq_signal_wait(hcq_queue_timeline(queue), value, BENCH_WAIT_NS));
        if (warm)
            bench_sample(b, (double)n_bytes / 1e3 / us_since(start));
        warm = true;
    }
    return BELL_OK;
}

/* The driver's own way between pageable memory and a buffer. */
static bell_status
time_access(struct bench *b, struct hcq_buffer *buf, void *host,
            uint64_t n_bytes, bool write)
{
    bool warm = false;

    bench_begin(b);
    while (bench_goes_on(b, 5)) {
        uint64_t start = time_now_ns();
        if (write)
            BELL_TRY(hcq_buffer_write(buf, 0, host, n_bytes));
        else
            BELL_TRY(hcq_buffer_read(buf, 0, host, n_bytes));
        if (warm)
            bench_sample(b, (double)n_bytes / 1e3 / us_since(start));
        warm = true;
    }
    return BELL_OK;
}

/* Within the device by a compute queue, which has the faster way where there
 * are two; to and from the host by a copy queue. */
static bell_status
copy_rows(struct bench *b, struct hcq_buffer *one, struct hcq_buffer *other,
          struct hcq_buffer *pinned, void *host, uint64_t n_bytes)
{
    char size[16];

    name_size(n_bytes, size);
    BELL_TRY(time_copies(b, b->compute, other->va, one->va, n_bytes));
    bench_end(b, BENCH_GB_S, "device to device (bytes copied)", "copy_d2d_%s",
              size);
    BELL_TRY(time_copies(b, b->copy, one->va, pinned->va, n_bytes));
    bench_end(b, BENCH_GB_S, "pinned host memory to device", "copy_h2d_%s",
              size);
    BELL_TRY(time_copies(b, b->copy, pinned->va, one->va, n_bytes));
    bench_end(b, BENCH_GB_S, "device to pinned host memory", "copy_d2h_%s",
              size);
    BELL_TRY(time_access(b, one, host, n_bytes, true));
    bench_end(b, BENCH_GB_S, "hcq_buffer_write", "write_%s", size);
    BELL_TRY(time_access(b, one, host, n_bytes, false));
    bench_end(b, BENCH_GB_S, "hcq_buffer_read", "read_%s", size);
    return BELL_OK;
}

static bell_status
copy_all_sizes(struct bench *b, struct hcq_buffer *one,
               struct hcq_buffer *other, struct hcq_buffer *pinned, void *host,
               uint64_t max_bytes)
{
    uint64_t n_bytes;

    for (n_bytes = 4096; n_bytes <= max_bytes; n_bytes *= 16)
        BELL_TRY(copy_rows(b, one, other, pinned, host, n_bytes));
    return BELL_OK;
}

bell_status
bench_copy(struct bench *b)
{
    uint64_t max_bytes = b->is_small ? 1u << 20 : 256u << 20;
    struct hcq_buffer *one = NULL, *other = NULL, *pinned = NULL;
    void *host = host_aligned(4096, max_bytes);
    bell_status status;

    if (!host)
        return bell_fail(BELL_E_NO_MEMORY, "no memory for copies of %llu bytes",
                         (unsigned long long)max_bytes);
    memset(host, 1, max_bytes);
    status = hcq_buffer_create(b->dev, max_bytes, 0, &one);
    if (status == BELL_OK)
        status = hcq_buffer_create(b->dev, max_bytes, 0, &other);
    if (status == BELL_OK)
        status = hcq_buffer_create_pinned(b->dev, host, max_bytes, &pinned);
    if (status == BELL_OK)
        status = copy_all_sizes(b, one, other, pinned, host, max_bytes);
    hcq_buffer_destroy(pinned);
    hcq_buffer_destroy(other);
    hcq_buffer_destroy(one);
    host_free(host);
    return status;
}

/* ---- memory ---- */

/* Making host memory of a size for the device and giving it back: pages of
 * this process, or else the driver's. Its addresses are no multiples of large
 * pages. */
static bell_status
time_making(struct bench *b, uint8_t *pages, uint64_t n_bytes)
{
    bench_begin(b);
    while (bench_goes_on(b, 5)) {
        uint64_t start = time_now_ns();
        struct hcq_buffer *buf;
        if (pages)
            BELL_TRY(hcq_buffer_create_pinned(b->dev, pages, n_bytes, &buf));
        else
            BELL_TRY(
                hcq_buffer_create(b->dev, n_bytes, HCQ_MEM_HOST_VISIBLE, &buf));
        hcq_buffer_destroy(buf);
        hcq_memory_trim(b->dev);
        bench_sample(b, us_since(start));
    }
    return BELL_OK;
}

static bell_status
host_rows(struct bench *b, uint8_t *pages)
{
    static const uint64_t sizes[] = {3u << 19, 2u << 20, 64u << 20, 256u << 20};
    struct hcq_buffer *odd;
    size_t i;

    for (i = 0; i < ARRAY_LEN(sizes); i++) {
        double mib = (double)sizes[i] / (1u << 20);
        bell_status status;

        BELL_TRY(hcq_buffer_create(b->dev, (1u << 20) + 5 * 4096,
                                   HCQ_MEM_HOST_VISIBLE, &odd));
        status = time_making(b, NULL, sizes[i]);
        if (status == BELL_OK) {
            bench_end(b, BENCH_US, "host-visible buffer, made and destroyed",
                      "alloc_visible_%gMiB", mib);
            status = time_making(b, pages, sizes[i]);
        }
        if (status == BELL_OK)
            bench_end(b, BENCH_US, "host memory pinned and let go", "pin_%gMiB",
                      mib);
        hcq_buffer_destroy(odd);
        BELL_TRY(status);
    }
    return BELL_OK;
}

static bell_status
bench_host_memory(struct bench *b)
{
    const size_t huge = 2u << 20, room = (256u << 20) + 2 * huge;
    bell_status status;
    uintptr_t at;
    void *memory = mmap(NULL, room, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

    if (memory == MAP_FAILED)
        return bell_fail(BELL_E_NO_MEMORY, "no memory to be pinned");
    at = align_up((uintptr_t)memory, huge) + 3 * 4096;
    status = host_rows(b, (uint8_t *)at);
    munmap(memory, room);
    return status;
}

bell_status
bench_memory(struct bench *b)
{
    uint64_t n_bytes = b->is_small ? 4u << 20 : 512u << 20;
    struct hcq_buffer *buf;
    bell_status status = BELL_OK;
    bool warm = false;

    BELL_TRY(hcq_buffer_create(b->dev, n_bytes, 0, &buf));
    bench_begin(b);
    while (status == BELL_OK && bench_goes_on(b, 5)) {
        uint64_t start = time_now_ns();
        struct hcq_cs *cs;
        status = hcq_queue_begin(b->compute, &cs);
        if (status != BELL_OK)
            break;
        hcq_cs_fill(cs, buf->va, 0x12345678, n_bytes);
        status = hcq_cs_submit(cs, NULL);
        if (status == BELL_OK)
            status = hcq_queue_wait(b->compute, BENCH_WAIT_NS);
        if (warm)
            bench_sample(b, (double)n_bytes / 1e3 / us_since(start));
        warm = true;
    }
    if (status == BELL_OK)
        bench_end(b, BENCH_GB_S, "fill of a large buffer (bytes written)",
                  "fill");
    hcq_buffer_destroy(buf);
    BELL_TRY(status);
    return bench_host_memory(b);
}
