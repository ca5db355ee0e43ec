/* Bench: launches, waited for and not, and replays; on queues alone. */
#include <math.h>
#include <stdio.h>
#include <time.h>

#include "base/bits.h"
#include "base/thread.h"
#include "tools/bench/bench.h"

#define NO_KERNEL "there is no kernel by hand for it"
#define BATCH     128 /* submissions that always find room */
#define WARM      32  /* of them that are not timed */
/* Longer than a thread spins that waits for a signal (50 us on the CPU). */
#define HOLD_NS 100000

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

/* ---- one launch, waited for ---------------------------------------------- */

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
time_waits(struct bench *b, uint64_t to, const char *what, const char *name)
{
    unsigned i;

    for (i = 0; i < 20; i++)
        BELL_TRY(submit_and_wait(b, to));
    bench_begin(b, BENCH_US, what, "%s", name);
    bench_keep_bins(b);
    while (bench_goes_on(b, 200)) {
        unsigned n = bench_batch(b);
        uint64_t start = time_now_ns();

        for (i = 0; i < n; i++)
            BELL_TRY(submit_and_wait(b, to));
        bench_sample_batch(b, ns_since(start), 1);
    }
    bench_end(b);
    return BELL_OK;
}

/* ---- rate ---------------------------------------------------------------- */

struct batch {
    struct bench *b;
    uint64_t to;
    struct hcq_stream *stream; /* NULL: fresh submissions */
    struct hcq_signal *go;
    uint64_t value;
    double ns, sums_ns; /* of a submission; of sums beside them */
};

/* A batch of submissions, of which the first WARM are not timed: the caches
 * hold what others left in them. The device stands still until `go` has the
 * value, its thread asleep where it is one, and takes nothing away from the
 * host. */
static bell_status
make_batch(struct batch *batch)
{
    const struct timespec hold = {.tv_nsec = HOLD_NS};
    struct bench *b = batch->b;
    double sums_ns;
    struct hcq_cs *cs;
    uint64_t start = 0;
    unsigned i;

    BELL_TRY(hcq_queue_begin(b->compute, &cs));
    hcq_cs_wait(cs, batch->go, batch->value);
    BELL_TRY(hcq_cs_submit(cs, NULL));
    nanosleep(&hold, NULL);
    sums_ns = bench_host_sums();
    for (i = 0; i < BATCH; i++) {
        if (i == WARM)
            start = time_now_ns();
        if (batch->stream) {
            BELL_TRY(hcq_stream_submit(batch->stream, NULL));
            continue;
        }
        BELL_TRY(hcq_queue_begin(b->compute, &cs));
        emit(b, cs, batch->to);
        BELL_TRY(hcq_cs_submit(cs, NULL));
    }
    batch->ns = ns_since(start) / (BATCH - WARM);
    batch->sums_ns = fmax(sums_ns, bench_host_sums());
    return BELL_OK;
}

/* With the stack that much further down. Code that takes some nanoseconds takes
 * a third more (measured) where its words on the stack and in a queue have
 * addresses that are alike in their low 12 bits, which each process would have
 * or not: Intel's optimization manual calls it 4K aliasing. */
static bell_status __attribute__((noinline))
make_batch_lower(struct batch *batch, uint64_t depth)
{
    char room[464];
    bell_status status;

    __asm__ volatile("" : : "r"(room) : "memory");
    status = depth ? make_batch_lower(batch, depth - 1) : make_batch(batch);
    __asm__ volatile("" : : "r"(room) : "memory"); /* it is there until now */
    return status;
}

#define DEPTHS 8 /* a page of it */

/* Host time of each of a batch of fresh submissions, or of a bound stream; the
 * row has begun. */
static bell_status
time_batches(struct bench *b, uint64_t to, struct hcq_stream *stream)
{
    struct batch batch = {b, to, stream, NULL, 0, 0, 0};
    bell_status status, ended;

    BELL_TRY(hcq_signal_create(b->dev, 0, &batch.go));
    status = BELL_OK;
    while (status == BELL_OK && bench_goes_on(b, 100)) {
        batch.value++;
        status = make_batch_lower(&batch, batch.value % DEPTHS);
        hcq_signal_set(batch.go, batch.value);
        ended = hcq_queue_wait(b->compute, BENCH_WAIT_NS);
        if (status == BELL_OK)
            status = ended;
        if (status == BELL_OK)
            bench_sample_beside(b, batch.ns, batch.sums_ns);
    }
    hcq_signal_destroy(batch.go);
    if (status == BELL_OK)
        bench_end(b);
    return status;
}

/* Launches a second, those that wait for room included. */
static bell_status
time_flood(struct bench *b, uint64_t to)
{
    unsigned n = b->is_small ? 512 : 4096, i;

    bench_begin(b, BENCH_KILO_S, "launches a second, all done",
                to ? "launch_rate" : "submit_rate");
    while (bench_goes_on(b, 5)) {
        uint64_t start = time_now_ns();

        for (i = 0; i < n; i++) {
            struct hcq_cs *cs;

            BELL_TRY(hcq_queue_begin(b->compute, &cs));
            emit(b, cs, to);
            BELL_TRY(hcq_cs_submit(cs, NULL));
        }
        BELL_TRY(hcq_queue_wait(b->compute, BENCH_WAIT_NS));
        bench_sample(b, n * 1e6 / ns_since(start));
    }
    bench_end(b);
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

    bench_begin(b, BENCH_NS,
                to ? "host time of a fresh launch"
                   : "host time of a fresh submission",
                to ? "launch_fresh_host" : "submit_fresh_host");
    bench_alone(b);
    BELL_TRY(time_batches(b, to, NULL));
    BELL_TRY(build_stream(b, to, 1, &stream));
    bench_begin(b, BENCH_NS, "host time of a bound launch",
                to ? "launch_bound_host" : "submit_bound_host");
    bench_alone(b);
    status = time_batches(b, 0, stream);
    if (status == BELL_OK)
        status = hcq_stream_wait(stream, BENCH_WAIT_NS);
    hcq_stream_destroy(stream);
    BELL_TRY(status);
    return time_flood(b, to);
}

/* ---- replay -------------------------------------------------------------- */

static bell_status
time_replay(struct bench *b, struct hcq_stream *stream, unsigned n_kernels)
{
    unsigned i;

    for (i = 0; i < 2; i++) {
        BELL_TRY(hcq_stream_submit(stream, NULL));
        BELL_TRY(hcq_stream_wait(stream, BENCH_WAIT_NS));
    }
    bench_begin(b, BENCH_US, "a bound stream of kernels, per kernel",
                "replay_%u_per_kernel", n_kernels);
    while (bench_goes_on(b, 5)) {
        unsigned n = bench_batch(b);
        uint64_t start = time_now_ns();

        for (i = 0; i < n; i++) {
            BELL_TRY(hcq_stream_submit(stream, NULL));
            BELL_TRY(hcq_stream_wait(stream, BENCH_WAIT_NS));
        }
        bench_sample_batch(b, ns_since(start), n_kernels);
    }
    bench_end(b);
    return BELL_OK;
}

static bell_status
replay_rows(struct bench *b, uint64_t to)
{
    static const unsigned sizes[] = {1,   4,   10,   16,   64,
                                     100, 256, 1000, 1024, 4096};
    struct hcq_stream *stream;
    size_t i;

    for (i = 0; i < ARRAY_LEN(sizes) && !bench_is_over(b); i++) {
        bell_status status;

        BELL_TRY(build_stream(b, to, sizes[i], &stream));
        status = time_replay(b, stream, sizes[i]);
        hcq_stream_destroy(stream);
        BELL_TRY(status);
    }
    return BELL_OK;
}

/* ---- a count that must be right ------------------------------------------ */

/* Kernels that each add 3 to a number, fresh and in a bound stream of several:
 * a launch that is lost, or done twice, shows. */
static bell_status
count_launches(struct bench *b, struct hcq_buffer *buf)
{
    const unsigned n_fresh = 1000, n_bound = 64, n_replays = 25;
    const uint64_t args[2] = {buf->va, 3}, zero = 0;
    const uint32_t one[3] = {1, 1, 1};
    const uint64_t want = 3ull * (n_fresh + n_bound * n_replays);
    struct hcq_stream *stream;
    bell_status status = BELL_OK;
    uint64_t sum = 0;
    unsigned i;

    BELL_TRY(hcq_buffer_write(buf, 0, &zero, sizeof(zero)));
    for (i = 0; i < n_fresh; i++) {
        struct hcq_cs *cs;

        BELL_TRY(hcq_queue_begin(b->compute, &cs));
        hcq_cs_exec(cs, b->count, args, 2, one, one);
        BELL_TRY(hcq_cs_submit(cs, NULL));
    }
    BELL_TRY(hcq_stream_create(b->compute, "count", &stream));
    for (i = 0; i < n_bound; i++)
        hcq_cs_exec(hcq_stream_cs(stream), b->count, args, 2, one, one);
    status = hcq_stream_end(stream);
    for (i = 0; i < n_replays && status == BELL_OK; i++)
        status = hcq_stream_submit(stream, NULL);
    if (status == BELL_OK)
        status = hcq_stream_wait(stream, BENCH_WAIT_NS);
    hcq_stream_destroy(stream);
    if (status == BELL_OK)
        status = hcq_queue_wait(b->compute, BENCH_WAIT_NS);
    BELL_TRY(status);
    BELL_TRY(hcq_buffer_read(buf, 0, &sum, sizeof(sum)));
    if (sum != want)
        return bell_fail(BELL_E_INTERNAL,
                         "%u launches that add 3 each made %llu, not %llu",
                         n_fresh + n_bound * n_replays, (unsigned long long)sum,
                         (unsigned long long)want);
    return BELL_OK;
}

static bell_status
time_counting(struct bench *b, struct hcq_buffer *buf)
{
    bench_begin(b, BENCH_MS, "2600 launches whose count is right",
                "counted_launches");
    while (bench_goes_on(b, 3)) {
        uint64_t start = time_now_ns();

        BELL_TRY(count_launches(b, buf));
        bench_sample_ns(b, ns_since(start));
    }
    bench_end(b);
    return BELL_OK;
}

/* ---- all ----------------------------------------------------------------- */

static bell_status
kernel_rows(struct bench *b, struct hcq_buffer *buf)
{
    BELL_TRY(time_waits(b, buf->va, "a kernel of one thread, waited for",
                        "launch_wait"));
    BELL_TRY(rate_rows(b, buf->va));
    BELL_TRY(replay_rows(b, buf->va));
    return bench_is_over(b) ? BELL_OK : time_counting(b, buf);
}

bell_status
bench_launch(struct bench *b)
{
    struct hcq_buffer *buf;
    bell_status status;

    BELL_TRY(
        time_waits(b, 0, "an empty submission, waited for", "submit_wait"));
    if (!b->store || !b->count) {
        bench_lacks(b, BENCH_US, "a kernel of one thread, waited for",
                    "launch_wait", NO_KERNEL);
        return rate_rows(b, 0);
    }
    BELL_TRY(hcq_buffer_create(b->dev, 4096, 0, &buf));
    status = kernel_rows(b, buf);
    hcq_buffer_destroy(buf);
    return status;
}
