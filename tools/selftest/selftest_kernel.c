/* Selftest: kernels, from one thread that stores a number to shared memory,
 * stacks and atomics. */
#include <inttypes.h>

#include "base/bits.h"
#include "tools/selftest/selftest.h"

/* One launch on the compute queue, waited for. */
static bell_status
launch_selftest(struct selftest *st, struct hcq_program *prog,
                const uint64_t *args, uint32_t n_args, const uint32_t grid[3],
                const uint32_t local[3])
{
    struct hcq_cs *cs;

    BELL_TRY(hcq_queue_begin(st->compute, &cs));
    hcq_cs_exec(cs, prog, args, n_args, grid, local);
    return selftest_finish(st->compute, cs);
}

#define DIM3(x, y, z) ((const uint32_t[3]){x, y, z})

/* Filled with 0xab. */
static bell_status
fresh_buffer(struct selftest *st, uint64_t size_bytes,
             struct hcq_buffer **out_buf)
{
    struct hcq_cs *cs;

    BELL_TRY(selftest_buffer(st, size_bytes, 0, out_buf));
    BELL_TRY(hcq_queue_begin(st->compute, &cs));
    hcq_cs_fill(cs, (*out_buf)->va, 0xabababab, size_bytes);
    return selftest_finish(st->compute, cs);
}

enum selftest_verdict
selftest_check_alive(struct selftest *st)
{
    uint64_t want = UINT64_C(0x1122334455667788) + st->run, got[2] = {0, 0};
    struct hcq_program *prog;
    struct hcq_buffer *buf;
    uint64_t args[2];

    ST_OK(selftest_need_kernel(st, SELFTEST_STORE, &prog));
    ST_OK(fresh_buffer(st, 16, &buf));
    args[0] = buf->va;
    args[1] = want;
    selftest_sent(st,
                  "st_store, 1 block of 1 thread, code at 0x%" PRIx64
                  ": stores 0x%" PRIx64 " at 0x%" PRIx64,
                  prog->code_va, want, buf->va);
    ST_OK(launch_selftest(st, prog, args, 2, DIM3(1, 1, 1), DIM3(1, 1, 1)));
    ST_OK(hcq_buffer_read(buf, 0, got, sizeof(got)));
    if (got[0] != want || got[1] != UINT64_C(0xabababababababab))
        return selftest_fail(st, "memory is 0x%" PRIx64 " 0x%" PRIx64, got[0],
                             got[1]);
    return SELFTEST_PASSED;
}

/* ---- grids ---- */

/* SELFTEST_NUMBER over a grid: every thread once. */
static enum selftest_verdict
number_grid(struct selftest *st, const uint32_t grid[3],
            const uint32_t local[3])
{
    uint32_t n = grid[0] * grid[1] * grid[2] * local[0] * local[1] * local[2];
    uint32_t i, n_wrong = 0, first = 0, *host;
    struct hcq_program *prog;
    struct hcq_buffer *buf;
    uint64_t args[2];

    ST_OK(selftest_need_kernel(st, SELFTEST_NUMBER, &prog));
    ST_OK(selftest_host(st, 4ull * n, &host));
    ST_OK(fresh_buffer(st, 4ull * n, &buf));
    args[0] = buf->va;
    args[1] = st->run + 1;
    selftest_sent(st, "st_number, %ux%ux%u blocks of %ux%ux%u threads", grid[0],
                  grid[1], grid[2], local[0], local[1], local[2]);
    ST_OK(launch_selftest(st, prog, args, 2, grid, local));
    ST_OK(hcq_buffer_read(buf, 0, host, 4ull * n));
    for (i = 0; i < n; i++) {
        if (host[i] != (uint32_t)(3 * i + st->run + 1) && n_wrong++ == 0)
            first = i;
    }
    if (n_wrong)
        return selftest_fail(st,
                             "%u of %u threads left something else; thread %u "
                             "0x%x, not 0x%x",
                             n_wrong, n, first, host[first],
                             (uint32_t)(3 * first + st->run + 1));
    return SELFTEST_PASSED;
}

/* Blocks for every multiprocessor, and some more. */
static enum selftest_verdict
blocks(struct selftest *st)
{
    uint32_t n;

    ST_OK(selftest_need_device(st));
    n = st->info.n_units * 2 + 5;
    return number_grid(st, DIM3(n < 4096 ? n : 4096, 1, 1), DIM3(32, 1, 1));
}

static enum selftest_verdict
sizes(struct selftest *st)
{
    static const uint32_t rows[][6] = {
        {1, 1, 1, 1, 1, 1},  {3, 1, 1, 33, 1, 1},   {2, 3, 4, 5, 6, 7},
        {1, 7, 1, 1, 31, 2}, {5, 1, 2, 1024, 1, 1}, {1, 1, 3, 2, 8, 64},
    };
    size_t i;

    ST_OK(selftest_need_device(st));
    for (i = 0; i < ARRAY_LEN(rows); i++) {
        enum selftest_verdict verdict;
        if (rows[i][3] * rows[i][4] * rows[i][5] > st->info.max_local_total)
            continue;
        verdict = number_grid(st, rows[i], rows[i] + 3);
        if (verdict != SELFTEST_PASSED)
            return verdict;
    }
    return SELFTEST_PASSED;
}

static enum selftest_verdict
dims(struct selftest *st)
{
    static const uint32_t grid[3] = {2, 3, 2}, local[3] = {4, 2, 3};
    static const char *const names[] = {"tid", "ctaid", "ntid", "nctaid"};
    uint32_t words[12 * 24 * 12], t, k;
    struct hcq_program *prog;
    struct hcq_buffer *buf;
    uint64_t args[1];

    ST_OK(selftest_need_kernel(st, SELFTEST_DIMS, &prog));
    ST_OK(fresh_buffer(st, sizeof(words), &buf));
    args[0] = buf->va;
    selftest_sent(st, "st_dims, 2x3x2 blocks of 4x2x3 threads");
    ST_OK(launch_selftest(st, prog, args, 1, grid, local));
    ST_OK(hcq_buffer_read(buf, 0, words, sizeof(words)));
    for (t = 0; t < 12 * 24; t++) {
        uint32_t block = t / 24, in = t % 24;
        const uint32_t want[12] = {
            in % 4,   in / 4 % 2, in / 8,   block % 2, block / 2 % 3, block / 6,
            local[0], local[1],   local[2], grid[0],   grid[1],       grid[2]};
        for (k = 0; k < 12; k++) {
            if (words[12 * t + k] != want[k])
                return selftest_fail(st, "thread %u: %s.%c is %u, not %u", t,
                                     names[k / 3], "xyz"[k % 3],
                                     words[12 * t + k], want[k]);
        }
    }
    return SELFTEST_PASSED;
}

/* ---- shared and local memory ---- */

static enum selftest_verdict
shared(struct selftest *st)
{
    uint32_t words[1024], i;
    struct hcq_program *prog;
    struct hcq_buffer *in, *out;
    uint64_t args[2];

    ST_OK(selftest_need_kernel(st, SELFTEST_SHARED, &prog));
    ST_OK(selftest_buffer(st, sizeof(words), 0, &in));
    ST_OK(fresh_buffer(st, sizeof(words), &out));
    for (i = 0; i < 1024; i++)
        words[i] = i * 2654435761u + (uint32_t)st->run;
    ST_OK(hcq_buffer_write(in, 0, words, sizeof(words)));
    args[0] = out->va;
    args[1] = in->va;
    selftest_sent(st, "st_shared, 4 blocks of 256 threads, %u bytes shared",
                  prog->shared_bytes);
    ST_OK(launch_selftest(st, prog, args, 2, DIM3(4, 1, 1), DIM3(256, 1, 1)));
    ST_OK(hcq_buffer_read(out, 0, words, sizeof(words)));
    for (i = 0; i < 1024; i++) {
        uint32_t from = i / 256 * 256 + 255 - i % 256;
        uint32_t want = from * 2654435761u + (uint32_t)st->run;
        if (words[i] != want)
            return selftest_fail(st, "word %u is 0x%x, not 0x%x", i, words[i],
                                 want);
    }
    return SELFTEST_PASSED;
}

/* All the shared memory that a block can have. */
static enum selftest_verdict
dynamic(struct selftest *st)
{
    uint32_t n_bytes, threads = 256, got[3], block, at;
    struct hcq_program *prog;
    struct hcq_buffer *buf;
    struct hcq_cs *cs;
    uint64_t args[2];

    ST_OK(selftest_need_kernel(st, SELFTEST_DYNAMIC, &prog));
    n_bytes = st->info.max_shared_bytes;
    ST_OK(selftest_buffer(st, sizeof(got), 0, &buf));
    ST_OK(hcq_queue_begin(st->compute, &cs));
    hcq_cs_fill(cs, buf->va, 0, sizeof(got));
    args[0] = buf->va;
    args[1] = n_bytes;
    selftest_sent(st, "st_dynamic, 3 blocks of 256 threads, %u bytes shared",
                  n_bytes);
    hcq_cs_exec(cs, prog, args, 2, DIM3(3, 1, 1), DIM3(threads, 1, 1));
    ST_OK(selftest_finish(st->compute, cs));
    ST_OK(hcq_buffer_read(buf, 0, got, sizeof(got)));
    for (block = 0; block < 3; block++) {
        uint32_t want = 0;
        for (at = 0; at < n_bytes; at += 4)
            want += 7 * block + at;
        if (got[block] != want)
            return selftest_fail(st, "block %u summed 0x%x, not 0x%x", block,
                                 got[block], want);
    }
    return SELFTEST_PASSED;
}

static enum selftest_verdict
stack(struct selftest *st)
{
    uint32_t n_blocks, n, i, *host;
    struct hcq_program *prog;
    struct hcq_buffer *buf;
    uint64_t args[2];

    ST_OK(selftest_need_kernel(st, SELFTEST_STACK, &prog));
    n_blocks = st->info.flags & HCQ_DEVICE_SIMULATED ? 4 : st->info.n_units;
    n = n_blocks * 64;
    ST_OK(selftest_host(st, 4ull * n, &host));
    ST_OK(fresh_buffer(st, 4ull * n, &buf));
    args[0] = buf->va;
    args[1] = st->run;
    selftest_sent(st, "st_stack, %u blocks of 64 threads, 1 KiB each",
                  n_blocks);
    ST_OK(launch_selftest(st, prog, args, 2, DIM3(n_blocks, 1, 1),
                          DIM3(64, 1, 1)));
    ST_OK(hcq_buffer_read(buf, 0, host, 4ull * n));
    for (i = 0; i < n; i++) {
        uint32_t want = 5 * (255 * 256 / 2) + 256 * i;
        if (host[i] != want)
            return selftest_fail(st, "thread %u summed 0x%x, not 0x%x", i,
                                 host[i], want);
    }
    return SELFTEST_PASSED;
}

static enum selftest_verdict
barriers(struct selftest *st)
{
    uint32_t threads, i, *host;
    struct hcq_program *prog;
    struct hcq_buffer *buf;
    uint64_t args[2];

    ST_OK(selftest_need_kernel(st, SELFTEST_BARRIERS, &prog));
    threads = st->info.max_local_total < 1024 ? st->info.max_local_total : 1024;
    ST_OK(selftest_host(st, 8ull * threads, &host));
    ST_OK(fresh_buffer(st, 8ull * threads, &buf));
    args[0] = buf->va;
    args[1] = st->run;
    selftest_sent(st, "st_barriers, 2 blocks of %u threads, 128 barriers",
                  threads);
    ST_OK(
        launch_selftest(st, prog, args, 2, DIM3(2, 1, 1), DIM3(threads, 1, 1)));
    ST_OK(hcq_buffer_read(buf, 0, host, 8ull * threads));
    for (i = 0; i < 2 * threads; i++) {
        uint32_t block = i / threads, in = i % threads;
        uint32_t want = block * threads + (in + 64) % threads;
        if (host[i] != (uint32_t)(want + st->run))
            return selftest_fail(st, "thread %u has %u, not %u", i, host[i],
                                 (uint32_t)(want + st->run));
    }
    return SELFTEST_PASSED;
}

/* ---- atomics, wide accesses ---- */

static enum selftest_verdict
atomics(struct selftest *st)
{
    enum {
        N_BLOCKS = 16,
        N_THREADS = 128
    };
    static const uint32_t want[4] = {N_BLOCKS * N_THREADS,
                                     2 * N_BLOCKS * N_THREADS, 5 * N_BLOCKS,
                                     N_BLOCKS * N_THREADS - 1};
    uint32_t got[4], i;
    struct hcq_program *prog;
    struct hcq_buffer *buf;
    struct hcq_cs *cs;
    uint64_t args[1];

    ST_OK(selftest_need_kernel(st, SELFTEST_ATOMICS, &prog));
    ST_OK(selftest_buffer(st, sizeof(got), 0, &buf));
    ST_OK(hcq_queue_begin(st->compute, &cs));
    hcq_cs_fill(cs, buf->va, 0, sizeof(got));
    args[0] = buf->va;
    selftest_sent(st, "st_atomics, %d blocks of %d threads", N_BLOCKS,
                  N_THREADS);
    hcq_cs_exec(cs, prog, args, 1, DIM3(N_BLOCKS, 1, 1), DIM3(N_THREADS, 1, 1));
    ST_OK(selftest_finish(st->compute, cs));
    ST_OK(hcq_buffer_read(buf, 0, got, sizeof(got)));
    for (i = 0; i < 4; i++) {
        if (got[i] != want[i])
            return selftest_fail(st, "counter %u is %u, not %u", i, got[i],
                                 want[i]);
    }
    return SELFTEST_PASSED;
}

static enum selftest_verdict
wide(struct selftest *st)
{
    uint32_t words[2048], i;
    struct hcq_program *prog;
    struct hcq_buffer *in, *out;
    uint64_t args[2];

    ST_OK(selftest_need_kernel(st, SELFTEST_WIDE, &prog));
    ST_OK(selftest_buffer(st, sizeof(words), 0, &in));
    ST_OK(fresh_buffer(st, sizeof(words), &out));
    for (i = 0; i < 2048; i++)
        words[i] = i * 40503u ^ (uint32_t)st->run;
    ST_OK(hcq_buffer_write(in, 0, words, sizeof(words)));
    args[0] = out->va;
    args[1] = in->va;
    selftest_sent(st, "st_wide, 4 blocks of 128 threads, 16 bytes each");
    ST_OK(launch_selftest(st, prog, args, 2, DIM3(4, 1, 1), DIM3(128, 1, 1)));
    ST_OK(hcq_buffer_read(out, 0, words, sizeof(words)));
    for (i = 0; i < 2048; i++) {
        if (words[i] != (i * 40503u ^ (uint32_t)st->run))
            return selftest_fail(st, "word %u is 0x%x, not 0x%x", i, words[i],
                                 i * 40503u ^ (uint32_t)st->run);
    }
    return SELFTEST_PASSED;
}

/* ---- order ---- */

/* Each of 64 launches moves the number on: one that starts before the last is
 * done is seen. */
static enum selftest_verdict
chain(struct selftest *st)
{
    enum {
        N = 64
    };
    uint64_t first = UINT64_C(0x5000000000) + st->run, got[N + 1];
    struct hcq_program *prog;
    struct hcq_buffer *buf;
    struct hcq_cs *cs;
    uint64_t args[2];
    unsigned i;

    ST_OK(selftest_need_kernel(st, SELFTEST_LOAD, &prog));
    ST_OK(fresh_buffer(st, sizeof(got), &buf));
    ST_OK(hcq_buffer_write(buf, 0, &first, sizeof(first)));
    selftest_sent(st,
                  "%d launches of st_load in one submission, each reads "
                  "what the one before stored",
                  N);
    ST_OK(hcq_queue_begin(st->compute, &cs));
    for (i = 0; i < N; i++) {
        args[0] = buf->va + 8 * (i + 1);
        args[1] = buf->va + 8 * i;
        hcq_cs_exec(cs, prog, args, 2, DIM3(1, 1, 1), DIM3(1, 1, 1));
    }
    ST_OK(selftest_finish(st->compute, cs));
    ST_OK(hcq_buffer_read(buf, 0, got, sizeof(got)));
    for (i = 0; i <= N; i++) {
        if (got[i] != first)
            return selftest_fail(
                st, "launch %u stored 0x%" PRIx64 ", not 0x%" PRIx64, i, got[i],
                first);
    }
    return SELFTEST_PASSED;
}

/* Kernel, copy by the other channel, kernel: 8 rounds. */
static enum selftest_verdict
across_queues(struct selftest *st)
{
    uint64_t args[2], got = 0, want = UINT64_C(0x77000000) + st->run;
    struct hcq_buffer *a, *b, *c;
    struct hcq_program *prog;
    struct hcq_signal *sig;
    struct hcq_cs *cs;
    uint64_t i;

    ST_OK(selftest_need_kernel(st, SELFTEST_LOAD, &prog));
    ST_OK(fresh_buffer(st, 64, &a));
    ST_OK(fresh_buffer(st, 64, &b));
    ST_OK(fresh_buffer(st, 64, &c));
    ST_OK(selftest_signal(st, 0, &sig));
    ST_OK(hcq_buffer_write(a, 0, &want, 8));
    selftest_sent(st, "8 rounds: a kernel moves a number to b, the copy "
                      "channel to c, a kernel back to a");
    for (i = 0; i < 8; i++) {
        ST_OK(hcq_queue_begin(st->compute, &cs));
        args[0] = b->va;
        args[1] = i ? c->va : a->va;
        hcq_cs_wait(cs, sig, 2 * i);
        hcq_cs_exec(cs, prog, args, 2, DIM3(1, 1, 1), DIM3(1, 1, 1));
        hcq_cs_fill(cs, a->va, (uint32_t)i, 8);
        hcq_cs_signal(cs, sig, 2 * i + 1);
        ST_OK(hcq_cs_submit(cs, NULL));
        ST_OK(hcq_queue_begin(st->copy, &cs));
        hcq_cs_wait(cs, sig, 2 * i + 1);
        hcq_cs_copy(cs, c->va, b->va, 64);
        hcq_cs_fill(cs, b->va, 0xdead0000u + (uint32_t)i, 64);
        hcq_cs_signal(cs, sig, 2 * i + 2);
        ST_OK(hcq_cs_submit(cs, NULL));
    }
    ST_OK(hcq_signal_wait(sig, 16, SELFTEST_WAIT_NS));
    ST_OK(hcq_buffer_read(c, 0, &got, 8));
    if (got != want)
        return selftest_fail(st, "0x%" PRIx64 " arrived, not 0x%" PRIx64, got,
                             want);
    return SELFTEST_PASSED;
}

/* A bound stream of two launches; argument and grid patched. */
static enum selftest_verdict
stream(struct selftest *st)
{
    uint32_t round, i, to, value, grid, *host;
    struct hcq_program *prog;
    struct hcq_stream *stream;
    struct hcq_buffer *buf;
    struct hcq_cs *cs;
    uint64_t args[2];

    ST_OK(selftest_need_kernel(st, SELFTEST_NUMBER, &prog));
    ST_OK(selftest_host(st, 8 * 4096, &host));
    ST_OK(fresh_buffer(st, 8 * 4096, &buf));
    selftest_sent(st, "a bound stream: st_number with its address, value and "
                      "grid patched, 8 times");
    ST_OK(selftest_stream(st, st->compute, &stream));
    cs = hcq_stream_cs(stream);
    to = hcq_stream_patch_point(stream, "to");
    value = hcq_stream_patch_point(stream, "value");
    grid = hcq_stream_patch_point(stream, "grid");
    args[0] = buf->va;
    args[1] = 0;
    hcq_cs_exec(cs, prog, args, 2, DIM3(1, 1, 1), DIM3(64, 1, 1));
    hcq_cs_patch(cs, HCQ_FIELD_ARG, to, 0);
    hcq_cs_patch(cs, HCQ_FIELD_ARG + 1, value, 0);
    hcq_cs_patch(cs, HCQ_FIELD_GRID, grid, 0);
    ST_OK(hcq_stream_end(stream));
    for (round = 0; round < 8; round++) {
        ST_OK(hcq_stream_patch(stream, to, buf->va + 4096 * round));
        ST_OK(hcq_stream_patch(stream, value, 1000 * round));
        ST_OK(hcq_stream_patch(stream, grid, 1 + round % 8));
        ST_OK(hcq_stream_submit(stream, NULL));
        ST_OK(hcq_stream_wait(stream, SELFTEST_WAIT_NS));
    }
    ST_OK(hcq_buffer_read(buf, 0, host, 8 * 4096));
    for (i = 0; i < 8 * 1024; i++) {
        uint32_t in = i % 1024, want = 0xabababab;
        round = i / 1024;
        if (in < 64 * (1 + round % 8))
            want = 3 * in + 1000 * round;
        if (host[i] != want)
            return selftest_fail(st, "round %u, word %u: 0x%x, not 0x%x", round,
                                 in, host[i], want);
    }
    return SELFTEST_PASSED;
}

/* Rows of words: each launch adds the row before to the next one, which other
 * units of the device wrote. A block that runs twice, not at all, or before the
 * launch before is over leaves another sum. */
#define STEP_BLOCKS 512u
#define STEP_ROWS   33u

static void
emit_steps(struct hcq_cs *cs, const struct hcq_program *prog,
           const struct hcq_buffer *buf)
{
    uint64_t args[2];
    uint32_t row;

    for (row = 1; row < STEP_ROWS; row++) {
        args[0] = buf->va + 4ull * row * STEP_BLOCKS;
        args[1] = args[0] - 4 * STEP_BLOCKS;
        hcq_cs_exec(cs, prog, args, 2, DIM3(STEP_BLOCKS, 1, 1), DIM3(1, 1, 1));
    }
}

/* What row `row` holds after `times` runs of all launches; row 0 stays 0, and
 * all blocks of a row have the same. */
static uint32_t
step_sum(uint32_t row, uint32_t times)
{
    uint32_t sums[STEP_ROWS] = {0}, i;

    while (times--) {
        for (i = 1; i < STEP_ROWS; i++)
            sums[i] += sums[i - 1] + 1;
    }
    return sums[row];
}

/* Bound, fresh and bound again. */
static enum selftest_verdict
bound_launches(struct selftest *st)
{
    const uint64_t n_bytes = 4ull * STEP_ROWS * STEP_BLOCKS;
    struct hcq_program *prog;
    struct hcq_stream *stream;
    struct hcq_buffer *buf;
    struct hcq_cs *cs;
    uint32_t i, *host;

    ST_OK(selftest_need_kernel(st, SELFTEST_STEP, &prog));
    ST_OK(selftest_host(st, n_bytes, &host));
    ST_OK(selftest_buffer(st, n_bytes, 0, &buf));
    selftest_sent(st,
                  "a bound stream of %u launches of st_step, %u blocks each, "
                  "twice, and the same launches fresh between",
                  STEP_ROWS - 1, STEP_BLOCKS);
    ST_OK(selftest_stream(st, st->compute, &stream));
    emit_steps(hcq_stream_cs(stream), prog, buf);
    ST_OK(hcq_stream_end(stream));
    ST_OK(hcq_queue_begin(st->compute, &cs));
    hcq_cs_fill(cs, buf->va, 0, n_bytes);
    ST_OK(hcq_cs_submit(cs, NULL));
    ST_OK(hcq_stream_submit(stream, NULL));
    ST_OK(hcq_queue_begin(st->compute, &cs));
    emit_steps(cs, prog, buf);
    ST_OK(hcq_cs_submit(cs, NULL));
    ST_OK(hcq_stream_submit(stream, NULL));
    ST_OK(hcq_queue_wait(st->compute, SELFTEST_WAIT_NS));
    ST_OK(hcq_buffer_read(buf, 0, host, n_bytes));
    for (i = 0; i < STEP_ROWS * STEP_BLOCKS; i++) {
        uint32_t row = i / STEP_BLOCKS, want = step_sum(row, 3);

        if (host[i] != want)
            return selftest_fail(st, "launch %u, block %u: %u, not %u", row,
                                 i % STEP_BLOCKS, host[i], want);
    }
    return SELFTEST_PASSED;
}

#define LOOK_QMD                                                               \
    "the launch descriptor: `doorbell decode --what qmd`; the notifier's "     \
    "code: 13 SM exception, 31 MMU fault, 69 class error"

const struct selftest_step selftest_kernel_steps[] = {
    {"store", SELFTEST_CARD,
     "a launch descriptor is taken, code is fetched, one thread stores",
     LOOK_QMD "; constant bank 0: parameters, memory descriptor 0",
     selftest_check_alive},
    {"blocks", SELFTEST_CARD, "more blocks than multiprocessors, each once",
     "GRID_WIDTH; the rasterisation order does not matter", blocks},
    {"sizes", SELFTEST_CARD,
     "grids and blocks of three axes, up to 1024 threads",
     "CTA_THREAD_DIMENSION, GRID_HEIGHT, GRID_DEPTH", sizes},
    {"dims", SELFTEST_CARD,
     "kernels read their place: tid, ctaid, ntid, nctaid",
     "constant bank 0: ntid and nctaid are words that the driver writes", dims},
    {"wide-access", SELFTEST_CARD, "loads and stores of 16 bytes", LOOK_QMD,
     wide},
    {"shared", SELFTEST_CARD, "shared memory and a barrier",
     "SHARED_MEMORY_SIZE with its 1 KiB reserve, SM_CONFIG sizes, "
     "BARRIER_COUNT, the shared window",
     shared},
    {"shared-all", SELFTEST_CARD, "all the shared memory that a block can have",
     "MAX and TARGET SM_CONFIG_SHARED_MEM_SIZE; the carve-out's steps",
     dynamic},
    {"stack", SELFTEST_CARD, "local memory: each thread has its own",
     "SET_SHADER_LOCAL_MEMORY and its size per TPC, the initial stack "
     "pointer in constant bank 0, SHADER_LOCAL_MEMORY_HIGH_SIZE",
     stack},
    {"barriers", SELFTEST_CARD, "128 barriers of blocks of 1024 threads",
     "BARRIER_COUNT; warps that pass a barrier early", barriers},
    {"atomics", SELFTEST_CARD,
     "atomics on global and shared memory; compare-and-swap", LOOK_QMD,
     atomics},
    {"chain", SELFTEST_CARD, "a launch sees what the one before stored",
     "waits between dependent launches; cache invalidation in the QMD", chain},
    {"across-queues", SELFTEST_CARD,
     "kernels and copies on two channels in turns, ordered by semaphores",
     "release with WFI and flush; L2 and the copy engine", across_queues},
    {"kernel-stream", SELFTEST_CARD,
     "a bound stream with a launch: argument and grid patched",
     "the QMD's and the bank's caches: SEND_SIGNALING_PCAS2_B's action",
     stream},
    {"bound-launches", SELFTEST_CARD,
     "launches of a bound stream: each block once, one launch after the other",
     "waits between dependent launches of a stream; its words, replayed",
     bound_launches},
    {NULL, 0, NULL, NULL, NULL},
};
