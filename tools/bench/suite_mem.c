/* Bench: the device's memory: bandwidth by kind of access and by size, that
 * which threads of a group share, latency by a chase of pointers, fills, and
 * the making of host memory. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

#include "base/alloc.h"
#include "base/bits.h"
#include "base/thread.h"
#include "doorbell/ops.h"
#include "doorbell/tensor.h"
#include "tools/bench/bench.h"

#define LINE_BYTES 128u       /* of the chase: at least a cache line's step */
#define WARM_STEPS (1u << 19) /* at most, before it is timed */

/* ---- host memory --------------------------------------------------------- */

static bell_status
make_once(struct bench *b, uint8_t *pages, uint64_t n_bytes)
{
    struct hcq_buffer *buf;

    if (pages)
        BELL_TRY(hcq_buffer_create_pinned(b->dev, pages, n_bytes, &buf));
    else
        BELL_TRY(
            hcq_buffer_create(b->dev, n_bytes, HCQ_MEM_HOST_VISIBLE, &buf));
    hcq_buffer_destroy(buf);
    hcq_memory_trim(b->dev);
    return BELL_OK;
}

/* Making host memory of a size for the device and giving it back: pages of this
 * process, or else the driver's. Its addresses are not multiples of large
 * pages. The row has begun. */
static bell_status
time_making(struct bench *b, uint8_t *pages, uint64_t n_bytes)
{
    while (bench_goes_on(b, 5)) {
        unsigned n = bench_batch(b), i;
        uint64_t start = time_now_ns();

        for (i = 0; i < n; i++)
            BELL_TRY(make_once(b, pages, n_bytes));
        bench_sample_batch(b, ns_since(start), 1);
    }
    bench_end(b);
    return BELL_OK;
}

static bell_status
host_rows(struct bench *b, uint8_t *pages)
{
    static const uint64_t sizes[] = {3u << 19, 2u << 20, 64u << 20, 256u << 20};
    struct hcq_buffer *odd;
    size_t i;

    for (i = 0; i < ARRAY_LEN(sizes) && !bench_is_over(b); i++) {
        double mib = (double)sizes[i] / (1u << 20);
        bell_status status;

        BELL_TRY(hcq_buffer_create(b->dev, (1u << 20) + 5 * 4096,
                                   HCQ_MEM_HOST_VISIBLE, &odd));
        bench_begin(b, BENCH_US, "host-visible buffer, made and destroyed",
                    "alloc_visible_%gMiB", mib);
        status = time_making(b, NULL, sizes[i]);
        bench_begin(b, BENCH_US, "host memory pinned and let go", "pin_%gMiB",
                    mib);
        if (status == BELL_OK)
            status = bench_unless_lacking(b, time_making(b, pages, sizes[i]));
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
        return bell_fail_errno(BELL_E_NO_MEMORY, errno,
                               "out of memory to be pinned: %s",
                               strerror(errno));
    at = align_up((uintptr_t)memory, huge) + 3 * 4096;
    status = host_rows(b, (uint8_t *)at);
    munmap(memory, room);
    return status;
}

/* ---- fills --------------------------------------------------------------- */

static bell_status
fill_once(struct bench *b, struct hcq_buffer *buf)
{
    struct hcq_cs *cs;

    BELL_TRY(hcq_queue_begin(b->compute, &cs));
    hcq_cs_fill(cs, buf->va, 0x12345678, buf->size_bytes);
    BELL_TRY(hcq_cs_submit(cs, NULL));
    return hcq_queue_wait(b->compute, BENCH_WAIT_NS);
}

static bell_status
fill_row(struct bench *b)
{
    uint64_t n_bytes = b->is_small ? 4u << 20 : 512u << 20;
    struct hcq_buffer *buf;
    bell_status status;

    bench_begin(b, BENCH_GB_S, "fill of a large buffer (bytes written)",
                "fill");
    if (!bench_is_wanted(b))
        return BELL_OK;
    BELL_TRY(hcq_buffer_create(b->dev, n_bytes, 0, &buf));
    status = fill_once(b, buf);
    b->start_ns = time_now_ns(); /* preparing is not a part of it */
    bench_work(b, 0, (double)n_bytes, BENCH_CEILING_MEMORY);
    while (status == BELL_OK && bench_goes_on(b, 5)) {
        uint64_t start = time_now_ns();

        status = fill_once(b, buf);
        bench_sample_ns(b, ns_since(start));
    }
    if (status == BELL_OK)
        bench_end(b);
    hcq_buffer_destroy(buf);
    return status;
}

/* ---- latency ------------------------------------------------------------- */

/* A cycle through all lines but the first in random order; each line begins
 * with where the next is, in bytes, the first with where the walk begins. */
static void
write_cycle(uint64_t *words, uint64_t n_lines)
{
    const size_t step = LINE_BYTES / 8;
    uint64_t state = 0x9e3779b97f4a7c15u, i;

    for (i = 1; i < n_lines; i++)
        words[i * step] = i;
    for (i = n_lines - 1; i > 1; i--) { /* Sattolo: one cycle of all */
        uint64_t k, other;

        state = state * 6364136223846793005u + 1442695040888963407u;
        k = 1 + (state >> 33) % (i - 1);
        other = words[k * step];
        words[k * step] = words[i * step];
        words[i * step] = other;
    }
    words[0] = 1;
    for (i = 0; i < n_lines; i++)
        words[i * step] *= LINE_BYTES;
}

static uint64_t
follow(const uint64_t *words, uint64_t n_steps)
{
    uint64_t at = 0;

    while (n_steps-- > 0)
        at = words[at / 8];
    return at;
}

static bell_status
chase_once(struct bench *b, struct hcq_program *chase, struct hcq_buffer *buf,
           uint64_t n_steps)
{
    const uint64_t args[2] = {buf->va, n_steps};
    const uint32_t one[3] = {1, 1, 1};
    struct hcq_cs *cs;

    BELL_TRY(hcq_queue_begin(b->compute, &cs));
    hcq_cs_exec(cs, chase, args, 2, one, one);
    BELL_TRY(hcq_cs_submit(cs, NULL));
    return hcq_queue_wait(b->compute, BENCH_WAIT_NS);
}

/* The next walk goes on where this one ended: else a buffer larger than a cache
 * would be in it after the first. *out_end: there. */
static bell_status
go_on(struct hcq_buffer *buf, uint64_t *out_end)
{
    BELL_TRY(hcq_buffer_read(buf, 8, out_end, sizeof(*out_end)));
    return hcq_buffer_write(buf, 0, out_end, sizeof(*out_end));
}

/* The row has begun. */
static bell_status
time_chase(struct bench *b, struct hcq_program *chase, struct hcq_buffer *buf,
           const uint64_t *words, uint64_t n_bytes)
{
    /* enough that the launch is below a percent of it */
    uint64_t n_steps = b->is_small                           ? 256
                       : b->info.flags & HCQ_DEVICE_HOST_CPU ? 1u << 18
                                                             : 1u << 14;
    uint64_t end = 0, n_lines = n_bytes / LINE_BYTES;
    uint64_t warm = n_lines < WARM_STEPS ? n_lines : WARM_STEPS;

    BELL_TRY(hcq_buffer_write(buf, 0, words, n_bytes));
    BELL_TRY(chase_once(b, chase, buf, warm));
    BELL_TRY(go_on(buf, &end));
    if (end != follow(words, warm))
        return bell_fail(BELL_E_INTERNAL,
                         "a chase of %llu steps ended at %llu, not at %llu",
                         (unsigned long long)warm, (unsigned long long)end,
                         (unsigned long long)follow(words, warm));
    b->start_ns = time_now_ns(); /* making the cycle is not a part of it */
    while (bench_goes_on(b, 5)) {
        uint64_t start = time_now_ns();

        BELL_TRY(chase_once(b, chase, buf, n_steps));
        bench_sample_ns(b, ns_since(start) / (double)n_steps);
        BELL_TRY(go_on(buf, &end));
    }
    bench_end(b);
    return BELL_OK;
}

static bell_status
chase_rows(struct bench *b, struct hcq_program *chase)
{
    static const uint64_t sizes[] = {16u << 10, 256u << 10, 4u << 20, 32u << 20,
                                     256u << 20};
    size_t n = b->is_small ? 1 : ARRAY_LEN(sizes), i;
    bell_status status = BELL_OK;

    for (i = 0; i < n && status == BELL_OK && !bench_is_over(b); i++) {
        bool is_large = sizes[i] >= 1u << 20;
        struct hcq_buffer *buf = NULL;
        uint64_t *words;

        bench_begin(b, BENCH_NS, "a load that the next one waits for",
                    is_large ? "latency_%uMiB" : "latency_%uKiB",
                    (unsigned)(sizes[i] >> (is_large ? 20 : 10)));
        if (!bench_is_wanted(b))
            continue;
        words = host_aligned(4096, sizes[i]);
        if (!words)
            return bell_fail(BELL_E_NO_MEMORY, "out of memory for a chase");
        memset(words, 0, sizes[i]);
        write_cycle(words, sizes[i] / LINE_BYTES);
        status = hcq_buffer_create(b->dev, sizes[i], 0, &buf);
        if (status == BELL_OK)
            status = time_chase(b, chase, buf, words, sizes[i]);
        hcq_buffer_destroy(buf);
        host_free(words);
    }
    return status;
}

static bell_status
latency_rows(struct bench *b)
{
    struct hcq_program *chase;
    bell_status status;

    BELL_TRY(bench_load(b, SELFTEST_CHASE, &chase));
    if (!chase) {
        bench_lacks(b, BENCH_NS, "a load that the next one waits for",
                    "latency", "there is no kernel by hand for it");
        return BELL_OK;
    }
    status = chase_rows(b, chase);
    hcq_program_destroy(chase);
    return status;
}

/* ---- shared memory ------------------------------------------------------- */

#define READS_THREADS 256u

static bell_status
check_reads(struct hcq_buffer *buf, uint64_t n_rounds)
{
    uint32_t sums[READS_THREADS], thread;
    uint64_t i;

    BELL_TRY(hcq_buffer_read(buf, buf->size_bytes - sizeof(sums), sums,
                             sizeof(sums)));
    for (thread = 0; thread < READS_THREADS; thread++) {
        uint32_t want = 0;

        for (i = 0; i < 4 * n_rounds; i++)
            want += 16 * (uint32_t)((thread + i) % READS_THREADS) + 6;
        if (sums[thread] != want)
            return bell_fail(BELL_E_INTERNAL,
                             "shared memory: thread %u read a sum of %u, not "
                             "of %u",
                             thread, sums[thread], want);
    }
    return BELL_OK;
}

/* The row has begun; buf: a word for each thread. */
static bell_status
time_reads(struct bench *b, struct hcq_program *reads, struct hcq_buffer *buf,
           uint64_t n_rounds)
{
    const uint64_t args[2] = {buf->va, n_rounds};
    const uint32_t local[3] = {READS_THREADS, 1, 1};
    const uint32_t grid[3] = {(uint32_t)(buf->size_bytes / (4 * READS_THREADS)),
                              1, 1};
    bool warm = false;

    while (bench_goes_on(b, 5)) {
        uint64_t start = time_now_ns();
        struct hcq_cs *cs;

        BELL_TRY(hcq_queue_begin(b->compute, &cs));
        hcq_cs_exec(cs, reads, args, 2, grid, local);
        BELL_TRY(hcq_cs_submit(cs, NULL));
        BELL_TRY(hcq_queue_wait(b->compute, BENCH_WAIT_NS));
        if (warm)
            bench_sample_ns(b, ns_since(start));
        warm = true;
    }
    BELL_TRY(check_reads(buf, n_rounds));
    bench_end(b);
    return BELL_OK;
}

static bell_status
shared_row(struct bench *b)
{
    static const char what[] = "shared memory of groups (bytes read)";
    const uint64_t n_rounds = b->is_small ? 16 : 1 << 14;
    const uint64_t n_threads =
        (uint64_t)b->info.n_units * (b->is_small ? 1 : 8) * READS_THREADS;
    struct hcq_program *reads;
    struct hcq_buffer *buf = NULL;
    bell_status status;

    BELL_TRY(bench_load(b, SELFTEST_READS, &reads));
    if (!reads) {
        bench_lacks(b, BENCH_GB_S, what, "mem_shared",
                    "there is no kernel by hand for it");
        return BELL_OK;
    }
    bench_begin(b, BENCH_GB_S, what, "mem_shared");
    bench_work(b, 0, 64.0 * (double)n_rounds * (double)n_threads,
               BENCH_CEILING_NONE);
    status = hcq_buffer_create(b->dev, 4 * n_threads, 0, &buf);
    if (status == BELL_OK)
        status = time_reads(b, reads, buf, n_rounds);
    hcq_buffer_destroy(buf);
    hcq_program_destroy(reads);
    return status;
}

/* ---- bandwidth ----------------------------------------------------------- */

static struct bell_tensor *
make_read(struct bell_context *ctx, struct bell_tensor *const *in,
          const void *user)
{
    (void)ctx;
    (void)user;
    return bell_sum(in[0], NULL, 0, false);
}

static struct bell_tensor *
make_write(struct bell_context *ctx, struct bell_tensor *const *in,
           const void *user)
{
    const int64_t *n = user;

    (void)ctx;
    return bell_add_scalar(bell_expand(in[0], n, 1), 1);
}

static struct bell_tensor *
make_triad(struct bell_context *ctx, struct bell_tensor *const *in,
           const void *user)
{
    (void)ctx;
    (void)user;
    return bell_add(in[0], bell_mul_scalar(in[1], 3));
}

static struct bell_tensor *
make_random(struct bell_context *ctx, struct bell_tensor *const *in,
            const void *user)
{
    (void)ctx;
    (void)user;
    return bell_take(in[0], in[1]);
}

/* A word of each line of 64 bytes. */
static struct bell_tensor *
make_strided(struct bell_context *ctx, struct bell_tensor *const *in,
             const void *user)
{
    const int64_t *n = user;
    const int64_t lines[2] = {*n / 16, 16};

    (void)ctx;
    return bell_sum(bell_narrow(bell_reshape(in[0], lines, 2), 1, 0, 1), NULL,
                    0, false);
}

static bell_status
bandwidth_rows(struct bench *b)
{
    const int64_t n = b->is_small ? 1 << 14 : 1 << 26, one = 1;
    const int64_t n_random = n / 4;
    const double bytes = 4.0 * (double)n;
    const struct {
        const char *name, *what;
        bench_make_fn *make;
        const int64_t *x, *y;
        double bytes, flops, y_scale; /* flops of an element */
        enum bench_ceiling ceiling;
    } rows[] = {
        {"mem_read", "sum of a vector (bytes read)", make_read, &n, NULL, bytes,
         1, 0, BENCH_CEILING_MEMORY},
        {"mem_write", "a number to all of a vector (bytes written)", make_write,
         &one, NULL, bytes, 0, 0, BENCH_CEILING_MEMORY},
        {"mem_triad", "x + 3 y (bytes read and written)", make_triad, &n, &n,
         3 * bytes, 2, 0, BENCH_CEILING_MEMORY},
        {"mem_random", "words at random places (4 bytes each counted)",
         make_random, &n, &n_random, 4.0 * (double)n_random, 0, (double)n - 1,
         BENCH_CEILING_NONE},
        {"mem_strided", "a word of each 64 bytes (4 bytes each counted)",
         make_strided, &n, NULL, bytes / 16, 0, 0, BENCH_CEILING_NONE},
    };
    size_t i;

    for (i = 0; i < ARRAY_LEN(rows) && !bench_is_over(b); i++) {
        struct bench_job job = {
            .make = rows[i].make,
            .user = &n,
            .in = {{rows[i].x, 1, BELL_FLOAT32, 1},
                   {rows[i].y, 1,
                    rows[i].y_scale > 0 ? BELL_INT32 : BELL_FLOAT32,
                    rows[i].y_scale}},
            .flops = rows[i].flops * (double)n,
            .bytes = rows[i].bytes,
            .ceiling = rows[i].ceiling,
        };

        bench_begin(b, BENCH_GB_S, rows[i].what, "%s", rows[i].name);
        BELL_TRY(bench_run_job(b, &job));
    }
    return BELL_OK;
}

/* Caches show as steps. */
static bell_status
size_rows(struct bench *b)
{
    int64_t n, most = b->is_small ? 1 << 14 : 1 << 26;

    for (n = 1 << 12; n <= most && !bench_is_over(b); n *= 4) {
        const struct bench_job job = {
            .make = make_triad,
            .in = {{&n, 1, BELL_FLOAT32, 1}, {&n, 1, BELL_FLOAT32, 1}},
            .flops = 2.0 * (double)n,
            .bytes = 12.0 * (double)n,
            .ceiling = BENCH_CEILING_NONE,
        };

        bench_begin(b, BENCH_GB_S, "x + 3 y by size (bytes of all three)",
                    "triad_%dKiB", (int)(n * 12 >> 10));
        BELL_TRY(bench_run_job(b, &job));
    }
    return BELL_OK;
}

bell_status
bench_mem(struct bench *b)
{
    BELL_TRY(bandwidth_rows(b));
    BELL_TRY(size_rows(b));
    BELL_TRY(shared_row(b));
    BELL_TRY(latency_rows(b));
    BELL_TRY(fill_row(b));
    return bench_is_over(b) ? BELL_OK : bench_host_memory(b);
}
