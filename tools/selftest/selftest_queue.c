/* Selftest: the device, memory, queues and their commands; no kernels. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

#include "base/bits.h"
#include "base/thread.h"
#include "tools/selftest/selftest.h"

#define PAGE_BYTES 4096u
#define HUGE_BYTES (2u << 20) /* of large pages */

/* A word that no other place or run has. */
static uint32_t
pattern(const struct selftest *st, uint64_t i)
{
    return (uint32_t)((i + 1) * 2654435761u) ^ (uint32_t)(st->run << 7);
}

static void
fill_queue_words(const struct selftest *st, uint32_t *words, uint64_t n,
                 uint64_t first)
{
    uint64_t i;

    for (i = 0; i < n; i++)
        words[i] = pattern(st, first + i);
}

/* Compares words with the pattern; tells the first that differs. */
static enum selftest_verdict
check_words(struct selftest *st, const char *where, const uint32_t *words,
            uint64_t n, uint64_t first)
{
    uint64_t i, n_wrong = 0, at = 0;

    for (i = 0; i < n; i++) {
        if (words[i] != pattern(st, first + i) && n_wrong++ == 0)
            at = i;
    }
    if (n_wrong == 0)
        return SELFTEST_PASSED;
    return selftest_fail(
        st,
        "%s: %" PRIu64 " of %" PRIu64
        " words are wrong, the first at byte %" PRIu64 ": 0x%08x, not 0x%08x",
        where, n_wrong, n, 4 * at, words[at], pattern(st, first + at));
}

/* ---- device ---- */

static enum selftest_verdict
open_device(struct selftest *st)
{
    const struct hcq_device_info *info = &st->info;

    selftest_sent(st, "open %s", st->device);
    selftest_close_device(st);
    ST_OK(selftest_need_device(st));
    selftest_note(st, "%s: %s, %s, %" PRIu32 " units, %.1f GiB%s", info->name,
                  info->model, info->arch, info->n_units,
                  (double)info->memory_bytes / (double)(1u << 30),
                  info->flags & HCQ_DEVICE_SIMULATED ? ", simulated" : "");
    if (info->max_shared_bytes)
        selftest_note(st,
                      "blocks of %" PRIu32 " threads, %" PRIu32
                      " bytes of shared memory, grids of %" PRIu32 " x %" PRIu32
                      " x %" PRIu32,
                      info->max_local_total, info->max_shared_bytes,
                      info->max_grid[0], info->max_grid[1], info->max_grid[2]);
    return SELFTEST_PASSED;
}

static enum selftest_verdict
host_access(struct selftest *st)
{
    uint32_t words[PAGE_BYTES / 4], back[PAGE_BYTES / 4];
    struct hcq_buffer *buf;

    ST_OK(selftest_need_device(st));
    selftest_sent(st, "hcq_buffer_create of 1 MiB, 4 KiB written at its end "
                      "and read");
    ST_OK(selftest_buffer(st, 1u << 20, 0, &buf));
    fill_queue_words(st, words, ARRAY_LEN(words), 0);
    ST_OK(hcq_buffer_write(buf, (1u << 20) - sizeof(words), words,
                           sizeof(words)));
    memset(back, 0, sizeof(back));
    ST_OK(hcq_buffer_read(buf, (1u << 20) - sizeof(back), back, sizeof(back)));
    return check_words(st, "read back", back, ARRAY_LEN(back), 0);
}

/* ---- signals ---- */

/* Nothing but a semaphore release through the queue. */
static enum selftest_verdict
release_on(struct selftest *st, struct hcq_queue *queue, bool barrier)
{
    uint64_t want = (UINT64_C(7) << 32) + st->run + 5;
    struct hcq_signal *sig;
    struct hcq_cs *cs;
    uint64_t got;

    selftest_sent(st, "%s on %s: %srelease of 0x%" PRIx64, "one submission",
                  hcq_queue_name(queue), barrier ? "barrier, then " : "", want);
    ST_OK(selftest_signal(st, 1, &sig));
    ST_OK(hcq_queue_begin(queue, &cs));
    if (barrier)
        hcq_cs_barrier(cs);
    hcq_cs_signal(cs, sig, want);
    ST_OK(hcq_cs_submit(cs, NULL));
    ST_OK(hcq_signal_wait(sig, want, SELFTEST_WAIT_NS));
    got = hcq_signal_value(sig);
    if (got != want)
        return selftest_fail(st, "the value is 0x%" PRIx64 ", not 0x%" PRIx64,
                             got, want);
    ST_OK(hcq_queue_wait(queue, SELFTEST_WAIT_NS));
    return SELFTEST_PASSED;
}

static enum selftest_verdict
copy_release(struct selftest *st)
{
    ST_OK(selftest_need_device(st));
    return release_on(st, st->copy, false);
}

static enum selftest_verdict
compute_release(struct selftest *st)
{
    ST_OK(selftest_need_device(st));
    return release_on(st, st->compute, false);
}

static enum selftest_verdict
compute_idle(struct selftest *st)
{
    ST_OK(selftest_need_device(st));
    return release_on(st, st->compute, true);
}

static enum selftest_verdict
queues_wait(struct selftest *st)
{
    struct hcq_signal *sig;
    struct hcq_cs *cs;
    uint64_t i;

    ST_OK(selftest_need_device(st));
    selftest_sent(st, "16 releases that %s and %s wait for in turns",
                  hcq_queue_name(st->compute), hcq_queue_name(st->copy));
    ST_OK(selftest_signal(st, 0, &sig));
    for (i = 0; i < 16; i++) {
        ST_OK(hcq_queue_begin(i % 2 ? st->copy : st->compute, &cs));
        hcq_cs_wait(cs, sig, i);
        hcq_cs_signal(cs, sig, i + 1);
        ST_OK(hcq_cs_submit(cs, NULL));
    }
    ST_OK(hcq_signal_wait(sig, 16, SELFTEST_WAIT_NS));
    ST_OK(hcq_queue_wait(st->compute, SELFTEST_WAIT_NS));
    ST_OK(hcq_queue_wait(st->copy, SELFTEST_WAIT_NS));
    return SELFTEST_PASSED;
}

/* The other queue looks for the value that the one stores; a stream that is
 * given up before it is submitted stores nothing. */
static enum selftest_verdict
queues_poll(struct selftest *st)
{
    uint32_t words[2] = {0}, i;
    struct hcq_buffer *buf;
    struct hcq_cs *cs;

    ST_OK(selftest_need_device(st));
    ST_OK(selftest_buffer(st, sizeof(words), 0, &buf));
    ST_OK(hcq_buffer_write(buf, 0, words, sizeof(words)));
    selftest_sent(st, "16 words that %s writes and %s polls",
                  hcq_queue_name(st->compute), hcq_queue_name(st->copy));
    ST_OK(hcq_queue_begin(st->copy, &cs));
    for (i = 1; i <= 16; i++) {
        hcq_cs_poll(cs, buf->va, UINT32_MAX, i);
        hcq_cs_write(cs, buf->va + 4, i, 32);
    }
    ST_OK(hcq_cs_submit(cs, NULL));
    ST_OK(hcq_queue_begin(st->compute, &cs));
    hcq_cs_write(cs, buf->va, 17, 32);
    hcq_cs_discard(cs);
    ST_OK(hcq_queue_begin(st->compute, &cs));
    for (i = 1; i <= 16; i++) {
        hcq_cs_write(cs, buf->va, i, 32);
        hcq_cs_poll(cs, buf->va + 4, UINT32_MAX, i);
    }
    ST_OK(selftest_finish(st->compute, cs));
    ST_OK(hcq_queue_wait(st->copy, SELFTEST_WAIT_NS));
    ST_OK(hcq_buffer_read(buf, 0, words, sizeof(words)));
    if (words[0] != 16 || words[1] != 16)
        return selftest_fail(
            st, "the words are %" PRIu32 " and %" PRIu32 ", not 16", words[0],
            words[1]);
    return SELFTEST_PASSED;
}

/* ---- copies ---- */

/* Copies src[src_at ...] to dst[dst_at ...] on a queue. */
static bell_status
copy_range(struct hcq_queue *queue, const struct hcq_buffer *dst,
           uint64_t dst_at, const struct hcq_buffer *src, uint64_t src_at,
           uint64_t size_bytes)
{
    struct hcq_cs *cs;

    BELL_TRY(hcq_queue_begin(queue, &cs));
    hcq_cs_copy(cs, dst->va + dst_at, src->va + src_at, size_bytes);
    return selftest_finish(queue, cs);
}

static enum selftest_verdict
copy_page(struct selftest *st)
{
    uint32_t words[PAGE_BYTES / 4];
    struct hcq_buffer *src, *dst;

    ST_OK(selftest_need_device(st));
    ST_OK(selftest_buffer(st, PAGE_BYTES, 0, &src));
    ST_OK(selftest_buffer(st, PAGE_BYTES, 0, &dst));
    selftest_sent(st, "a copy of 4096 bytes from 0x%" PRIx64 " to 0x%" PRIx64,
                  src->va, dst->va);
    fill_queue_words(st, words, ARRAY_LEN(words), 0);
    ST_OK(hcq_buffer_write(src, 0, words, sizeof(words)));
    memset(words, 0, sizeof(words));
    ST_OK(hcq_buffer_write(dst, 0, words, sizeof(words)));
    ST_OK(copy_range(st->copy, dst, 0, src, 0, PAGE_BYTES));
    ST_OK(hcq_buffer_read(dst, 0, words, sizeof(words)));
    return check_words(st, "the copy", words, ARRAY_LEN(words), 0);
}

#define SIZES_BYTES 65536u

/* One size and pair of offsets; what lies around stays as it is. */
static enum selftest_verdict
copy_one_size(struct selftest *st, struct hcq_buffer *src,
              struct hcq_buffer *dst, uint8_t *host, unsigned dst_at,
              unsigned src_at, unsigned n)
{
    static const uint8_t blank = 0xa5;
    const uint8_t *from = host, *got = host + SIZES_BYTES;
    unsigned i;

    selftest_sent(st,
                  "a copy of %u bytes, source at 0x%" PRIx64
                  ", destination at 0x%" PRIx64,
                  n, src->va + src_at, dst->va + dst_at);
    memset(host + SIZES_BYTES, blank, SIZES_BYTES);
    ST_OK(hcq_buffer_write(dst, 0, host + SIZES_BYTES, SIZES_BYTES));
    ST_OK(copy_range(st->copy, dst, dst_at, src, src_at, n));
    ST_OK(hcq_buffer_read(dst, 0, host + SIZES_BYTES, SIZES_BYTES));
    for (i = 0; i < SIZES_BYTES; i++) {
        bool inside = i >= dst_at && i < dst_at + n;
        uint8_t want = inside ? from[i - dst_at + src_at] : blank;
        if (got[i] != want)
            return selftest_fail(st,
                                 "byte %u of the destination is 0x%02x, not "
                                 "0x%02x (the copy is [%u, %u))",
                                 i, got[i], want, dst_at, dst_at + n);
    }
    return SELFTEST_PASSED;
}

static enum selftest_verdict
copy_sizes(struct selftest *st)
{
    static const unsigned rows[][3] = {
        {0, 0, 1},     {1, 0, 3},     {0, 5, 7},        {3, 1, 64},
        {64, 0, 4095}, {4095, 1, 2},  {4097, 63, 8193}, {16, 32, 40000},
        {0, 0, 65536}, {13, 7, 31337}};
    struct hcq_buffer *src, *dst;
    uint32_t *host;
    size_t i;

    ST_OK(selftest_need_device(st));
    ST_OK(selftest_host(st, 2 * (uint64_t)SIZES_BYTES, &host));
    ST_OK(selftest_buffer(st, SIZES_BYTES, 0, &src));
    ST_OK(selftest_buffer(st, SIZES_BYTES, 0, &dst));
    fill_queue_words(st, host, SIZES_BYTES / 4, 0);
    ST_OK(hcq_buffer_write(src, 0, host, SIZES_BYTES));
    for (i = 0; i < ARRAY_LEN(rows); i++) {
        enum selftest_verdict verdict = copy_one_size(
            st, src, dst, (uint8_t *)host, rows[i][0], rows[i][1], rows[i][2]);
        if (verdict != SELFTEST_PASSED)
            return verdict;
    }
    return SELFTEST_PASSED;
}

#define LARGE_BYTES (8u << 20)

/* On a compute queue they may be a kernel's. */
static enum selftest_verdict
copy_large_on(struct selftest *st, struct hcq_queue *queue, uint32_t *host,
              unsigned seed)
{
    struct hcq_buffer *src, *dst;
    struct hcq_cs *cs;
    unsigned i;

    ST_OK(selftest_buffer(st, LARGE_BYTES, 0, &src));
    ST_OK(selftest_buffer(st, LARGE_BYTES, 0, &dst));
    selftest_sent(st, "8 copies of 1 MiB in one submission, on %s",
                  hcq_queue_name(queue));
    fill_queue_words(st, host, LARGE_BYTES / 4, seed);
    ST_OK(hcq_buffer_write(src, 0, host, LARGE_BYTES));
    ST_OK(hcq_queue_begin(queue, &cs));
    for (i = 0; i < 8; i++)
        hcq_cs_copy(cs, dst->va + (uint64_t)i * LARGE_BYTES / 8,
                    src->va + (uint64_t)i * LARGE_BYTES / 8, LARGE_BYTES / 8);
    ST_OK(selftest_finish(queue, cs));
    memset(host, 0, LARGE_BYTES);
    ST_OK(hcq_buffer_read(dst, 0, host, LARGE_BYTES));
    return check_words(st, "the copies", host, LARGE_BYTES / 4, seed);
}

static enum selftest_verdict
copy_large(struct selftest *st)
{
    enum selftest_verdict verdict;
    uint32_t *host;

    ST_OK(selftest_need_device(st));
    ST_OK(selftest_host(st, LARGE_BYTES, &host));
    verdict = copy_large_on(st, st->copy, host, 0);
    return verdict == SELFTEST_PASSED ? copy_large_on(st, st->compute, host, 1)
                                      : verdict;
}

static enum selftest_verdict
fill(struct selftest *st)
{
    uint32_t words[1024], i;
    struct hcq_buffer *buf;
    struct hcq_cs *cs;

    ST_OK(selftest_need_device(st));
    ST_OK(selftest_buffer(st, sizeof(words), 0, &buf));
    selftest_sent(st,
                  "fill of 4096 bytes at 0x%" PRIx64
                  " with 0x11223344, then of 402 from byte 400 with "
                  "0xdeadbeef, then 64 bits at 8",
                  buf->va);
    ST_OK(hcq_queue_begin(st->copy, &cs));
    hcq_cs_fill(cs, buf->va, 0x11223344, sizeof(words));
    hcq_cs_fill(cs, buf->va + 400, 0xdeadbeef, 402);
    hcq_cs_write(cs, buf->va + 8, UINT64_C(0x0102030405060708), 64);
    ST_OK(selftest_finish(st->copy, cs));
    ST_OK(hcq_buffer_read(buf, 0, words, sizeof(words)));
    for (i = 0; i < 1024; i++) {
        uint32_t want = i >= 100 && i < 200 ? 0xdeadbeef : 0x11223344;
        if (i == 200)
            want = 0x1122beef; /* the last two bytes of the second fill */
        if (i == 2)
            want = 0x05060708;
        if (i == 3)
            want = 0x01020304;
        if (words[i] != want)
            return selftest_fail(st, "word %u is 0x%08x, not 0x%08x", i,
                                 words[i], want);
    }
    return SELFTEST_PASSED;
}

/* ---- host memory ---- */

/* The device copies out of `host` what the CPU just wrote there, and back
 * into its second half, many times: stale cache lines show. */
static enum selftest_verdict
bounce(struct selftest *st, const struct hcq_buffer *host_buf, uint32_t *host,
       const char *what)
{
    struct hcq_buffer *there;
    unsigned round;

    ST_OK(selftest_buffer(st, PAGE_BYTES, 0, &there));
    for (round = 0; round < 64; round++) {
        enum selftest_verdict verdict;
        selftest_sent(st,
                      "%s at 0x%" PRIx64 ", round %u: 4 KiB to the device at "
                      "0x%" PRIx64 " and back to 0x%" PRIx64,
                      what, host_buf->va, round, there->va,
                      host_buf->va + PAGE_BYTES);
        fill_queue_words(st, host, PAGE_BYTES / 4, round * 31u);
        ST_OK(copy_range(st->copy, there, 0, host_buf, 0, PAGE_BYTES));
        ST_OK(copy_range(st->copy, host_buf, PAGE_BYTES, there, 0, PAGE_BYTES));
        verdict = check_words(st, "what came back", host + PAGE_BYTES / 4,
                              PAGE_BYTES / 4, round * 31u);
        if (verdict != SELFTEST_PASSED)
            return verdict;
    }
    return SELFTEST_PASSED;
}

static enum selftest_verdict
host_visible(struct selftest *st)
{
    struct hcq_buffer *buf;

    ST_OK(selftest_need_device(st));
    ST_OK(selftest_buffer(st, 2 * PAGE_BYTES, HCQ_MEM_HOST_VISIBLE, &buf));
    if (!buf->host)
        return selftest_fail(st, "a host-visible buffer without an address "
                                 "for the host");
    return bounce(st, buf, buf->host, "host-visible memory");
}

static enum selftest_verdict
pinned(struct selftest *st)
{
    struct hcq_buffer *buf;
    enum selftest_verdict verdict;
    uint32_t *memory;

    ST_OK(selftest_need_device(st));
    ST_OK(selftest_host(st, 2 * PAGE_BYTES, &memory));
    selftest_sent(st, "8 KiB of this process pinned");
    ST_OK(hcq_buffer_create_pinned(st->dev, memory, 2 * PAGE_BYTES, &buf));
    verdict = bounce(st, buf, memory, "pinned memory");
    hcq_buffer_destroy(buf);
    return verdict;
}

/* Sizes around and far beyond the largest pages of a kernel's tables. */
static const uint64_t large_bytes[] = {3u << 19, 2u << 20, 64u << 20,
                                       256u << 20};
#define N_LARGE ARRAY_LEN(large_bytes)

/* The first, a middle and the last page go to the device and come back. */
static enum selftest_verdict
check_edges(struct selftest *st, const struct hcq_buffer *buf, uint8_t *host,
            const struct hcq_buffer *there, const char *what)
{
    const uint64_t last = buf->size_bytes - PAGE_BYTES;
    const uint64_t places[] = {0, last / 2 / PAGE_BYTES * PAGE_BYTES, last};
    size_t i;

    for (i = 0; i < ARRAY_LEN(places); i++) {
        uint32_t *words = (uint32_t *)(void *)(host + places[i]);
        enum selftest_verdict verdict;

        selftest_sent(st,
                      "%" PRIu64 " bytes of %s at 0x%" PRIx64
                      ": the page at byte %" PRIu64 " to the device and back",
                      buf->size_bytes, what, buf->va, places[i]);
        fill_queue_words(st, words, PAGE_BYTES / 4, places[i]);
        ST_OK(copy_range(st->copy, there, 0, buf, places[i], PAGE_BYTES));
        memset(words, 0, PAGE_BYTES);
        ST_OK(copy_range(st->copy, buf, places[i], there, 0, PAGE_BYTES));
        verdict =
            check_words(st, "what came back", words, PAGE_BYTES / 4, places[i]);
        if (verdict != SELFTEST_PASSED)
            return verdict;
    }
    return SELFTEST_PASSED;
}

/* A buffer of each size, behind one whose size is not a multiple of large
 * pages; all are kept until the end. */
static enum selftest_verdict
large_visible(struct selftest *st, const struct hcq_buffer *there)
{
    struct hcq_buffer *buf;
    size_t i;

    for (i = 0; i < N_LARGE; i++) {
        enum selftest_verdict verdict;

        ST_OK(selftest_buffer(st, (1u << 20) + 5 * PAGE_BYTES,
                              HCQ_MEM_HOST_VISIBLE, &buf));
        selftest_sent(st, "a host-visible buffer of %" PRIu64 " bytes",
                      large_bytes[i]);
        ST_OK(selftest_buffer(st, large_bytes[i], HCQ_MEM_HOST_VISIBLE, &buf));
        verdict = check_edges(st, buf, buf->host, there, "host-visible memory");
        if (verdict != SELFTEST_PASSED)
            return verdict;
    }
    return SELFTEST_PASSED;
}

/* Pages from an odd one on, of an odd number. */
static enum selftest_verdict
large_pinned(struct selftest *st, const struct hcq_buffer *there,
             uint64_t size_bytes)
{
    size_t room = (size_t)size_bytes + 2 * HUGE_BYTES;
    enum selftest_verdict verdict;
    struct hcq_buffer *buf;
    uint8_t *memory, *at;

    memory = mmap(NULL, room, PROT_READ | PROT_WRITE,
                  MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED)
        return selftest_fail(st, "no memory on the host: %s", strerror(errno));
    at = (uint8_t *)(uintptr_t)align_up((uintptr_t)memory, HUGE_BYTES) +
         3 * PAGE_BYTES;
    selftest_sent(st, "%" PRIu64 " bytes of this process pinned, at %p",
                  size_bytes + PAGE_BYTES, (void *)at);
    if (hcq_buffer_create_pinned(st->dev, at, size_bytes + PAGE_BYTES, &buf) ==
        BELL_OK) {
        verdict = check_edges(st, buf, at, there, "pinned memory");
        hcq_buffer_destroy(buf);
    } else {
        verdict = selftest_error(st);
    }
    munmap(memory, room);
    return verdict;
}

static enum selftest_verdict
host_large(struct selftest *st)
{
    enum selftest_verdict verdict;
    struct hcq_buffer *there;
    size_t i;

    ST_OK(selftest_need_device(st));
    ST_OK(selftest_buffer(st, PAGE_BYTES, 0, &there));
    verdict = large_visible(st, there);
    for (i = 0; i < N_LARGE && verdict == SELFTEST_PASSED; i++)
        verdict = large_pinned(st, there, large_bytes[i]);
    return verdict;
}

/* ---- time, streams ---- */

static enum selftest_verdict
timestamps(struct selftest *st)
{
    uint64_t before, after, first, last;
    struct hcq_signal *a, *b;
    struct hcq_cs *cs;

    ST_OK(selftest_need_device(st));
    ST_OK(selftest_signal(st, 0, &a));
    ST_OK(selftest_signal(st, 0, &b));
    selftest_sent(st, "two timestamps in one submission on %s",
                  hcq_queue_name(st->compute));
    before = time_now_ns();
    ST_OK(hcq_queue_begin(st->compute, &cs));
    hcq_cs_timestamp(cs, a);
    hcq_cs_timestamp(cs, b);
    ST_OK(selftest_finish(st->compute, cs));
    after = time_now_ns();
    first = hcq_signal_timestamp(a);
    last = hcq_signal_timestamp(b);
    if (first == 0 || last < first)
        return selftest_fail(st, "%" PRIu64 " and then %" PRIu64 " ticks",
                             first, last);
    first = hcq_timestamp_to_ns(st->dev, first);
    last = hcq_timestamp_to_ns(st->dev, last);
    selftest_note(st, "submitted to the first: %.1f us; last to seen: %.1f us",
                  ((double)first - (double)before) / 1e3,
                  ((double)after - (double)last) / 1e3);
    /* Clocks of two sides agree to a millisecond at best. */
    if (first + 1000000 < before || last > after + 1000000)
        return selftest_fail(
            st,
            "on the host's clock they are %" PRId64
            " ns after the start and %" PRId64 " ns before the end",
            (int64_t)(first - before), (int64_t)(after - last));
    return SELFTEST_PASSED;
}

static enum selftest_verdict
bound_stream(struct selftest *st)
{
    uint32_t words[256], round, i, value_point, place_point;
    struct hcq_stream *stream;
    struct hcq_buffer *buf;
    struct hcq_cs *cs;

    ST_OK(selftest_need_device(st));
    ST_OK(selftest_buffer(st, sizeof(words), 0, &buf));
    selftest_sent(st, "a bound stream: a fill of 64 bytes, patched and "
                      "submitted 16 times");
    ST_OK(selftest_stream(st, st->compute, &stream));
    cs = hcq_stream_cs(stream);
    value_point = hcq_stream_patch_point(stream, "value");
    place_point = hcq_stream_patch_point(stream, "place");
    hcq_cs_fill(cs, buf->va, 0, 64);
    hcq_cs_patch(cs, HCQ_FIELD_VALUE, value_point, 0);
    hcq_cs_patch(cs, HCQ_FIELD_ADDR, place_point, 0);
    ST_OK(hcq_stream_end(stream));
    for (round = 0; round < 16; round++) {
        ST_OK(hcq_stream_patch(stream, value_point, pattern(st, round)));
        ST_OK(hcq_stream_patch(stream, place_point, buf->va + 64 * round));
        ST_OK(hcq_stream_submit(stream, NULL));
        ST_OK(hcq_stream_wait(stream, SELFTEST_WAIT_NS));
    }
    ST_OK(hcq_buffer_read(buf, 0, words, sizeof(words)));
    for (i = 0; i < 256; i++) {
        if (words[i] != pattern(st, i / 16))
            return selftest_fail(st, "word %u is 0x%08x, not 0x%08x", i,
                                 words[i], pattern(st, i / 16));
    }
    return SELFTEST_PASSED;
}

/* More submissions than the ring has entries. */
static enum selftest_verdict
ring_wraps(struct selftest *st)
{
    uint32_t i, n = 3000;
    struct hcq_buffer *buf;
    uint32_t word = 0;

    ST_OK(selftest_need_device(st));
    ST_OK(selftest_buffer(st, 64, 0, &buf));
    selftest_sent(st, "%u submissions of one write each on %s", n,
                  hcq_queue_name(st->compute));
    for (i = 1; i <= n; i++) {
        struct hcq_cs *cs;
        ST_OK(hcq_queue_begin(st->compute, &cs));
        hcq_cs_write(cs, buf->va, i, 32);
        ST_OK(hcq_cs_submit(cs, NULL));
    }
    ST_OK(hcq_queue_wait(st->compute, SELFTEST_WAIT_NS));
    ST_OK(hcq_buffer_read(buf, 0, &word, 4));
    if (word != n)
        return selftest_fail(st, "the last write left %u", word);
    return SELFTEST_PASSED;
}

/* ---- two devices ---- */

/* "AMD:1@sim:gfx942*2" for a card of the same machine. */
static bell_status
open_other(struct selftest *st, unsigned idx, struct hcq_device **out_dev)
{
    char name[SELFTEST_DEVICE_MAX];

    snprintf(name, sizeof(name), "%.15s:%u%s%.480s", st->backend, idx,
             st->interface[0] ? "@" : "", st->interface);
    return hcq_device_open(name, out_dev);
}

/* This device's copy queue reads the other's memory, when the other's queue
 * says that it has written it. */
static enum selftest_verdict
copy_across(struct selftest *st, struct hcq_queue *queue,
            struct hcq_buffer *theirs, struct hcq_buffer *seen)
{
    uint32_t words[PAGE_BYTES / 4], i, value = pattern(st, 9);
    struct hcq_signal *sig;
    struct hcq_buffer *dst;
    struct hcq_cs *cs;

    ST_OK(selftest_signal(st, 0, &sig));
    ST_OK(selftest_buffer(st, PAGE_BYTES, 0, &dst));
    selftest_sent(st,
                  "a fill on %s; %s waits for its signal and copies from "
                  "0x%" PRIx64 " to 0x%" PRIx64,
                  hcq_queue_name(queue), hcq_queue_name(st->copy), seen->va,
                  dst->va);
    ST_OK(hcq_queue_begin(st->copy, &cs));
    hcq_cs_wait(cs, sig, 1);
    hcq_cs_copy(cs, dst->va, seen->va, PAGE_BYTES);
    ST_OK(hcq_cs_submit(cs, NULL));
    ST_OK(hcq_queue_begin(queue, &cs));
    hcq_cs_fill(cs, theirs->va, value, PAGE_BYTES);
    hcq_cs_signal(cs, sig, 1);
    ST_OK(selftest_finish(queue, cs));
    ST_OK(hcq_queue_wait(st->copy, SELFTEST_WAIT_NS));
    ST_OK(hcq_buffer_read(dst, 0, words, sizeof(words)));
    for (i = 0; i < ARRAY_LEN(words); i++) {
        if (words[i] != value)
            return selftest_fail(st, "word %u is 0x%08x, not 0x%08x", i,
                                 words[i], value);
    }
    return SELFTEST_PASSED;
}

/* The other way: this device's copy queue writes the other's memory, and the
 * other's queue looks when this one's signal says so. */
static enum selftest_verdict
write_across(struct selftest *st, struct hcq_queue *queue,
             struct hcq_buffer *theirs, struct hcq_buffer *seen,
             struct hcq_buffer *there)
{
    uint32_t words[PAGE_BYTES / 4], i, value = pattern(st, 10);
    struct hcq_signal *sig;
    struct hcq_cs *cs;

    ST_OK(selftest_signal(st, 0, &sig));
    selftest_sent(st,
                  "a fill of 0x%" PRIx64 " on %s; %s waits for its signal and "
                  "copies the page",
                  seen->va, hcq_queue_name(st->copy), hcq_queue_name(queue));
    ST_OK(hcq_queue_begin(queue, &cs));
    hcq_cs_wait(cs, sig, 1);
    hcq_cs_copy(cs, there->va, theirs->va, PAGE_BYTES);
    ST_OK(hcq_cs_submit(cs, NULL));
    ST_OK(hcq_queue_begin(st->copy, &cs));
    hcq_cs_fill(cs, seen->va, value, PAGE_BYTES);
    hcq_cs_signal(cs, sig, 1);
    ST_OK(selftest_finish(st->copy, cs));
    ST_OK(hcq_queue_wait(queue, SELFTEST_WAIT_NS));
    ST_OK(hcq_buffer_read(there, 0, words, sizeof(words)));
    for (i = 0; i < ARRAY_LEN(words); i++) {
        if (words[i] != value)
            return selftest_fail(st, "word %u is 0x%08x, not 0x%08x", i,
                                 words[i], value);
    }
    return SELFTEST_PASSED;
}

/* A kernel of this device counts in the other's memory. */
static enum selftest_verdict
count_across(struct selftest *st, struct hcq_buffer *theirs,
             struct hcq_buffer *seen)
{
    enum {
        N_BLOCKS = 8,
        N_THREADS = 64
    };
    const uint32_t grid[3] = {N_BLOCKS, 1, 1}, local[3] = {N_THREADS, 1, 1};
    uint64_t args[1] = {seen->va};
    struct hcq_program *prog;
    struct hcq_cs *cs;
    uint32_t got[4];

    if (selftest_need_kernel(st, SELFTEST_ATOMICS, &prog) != BELL_OK)
        return bell_error_last()->status == BELL_E_UNSUPPORTED
                   ? SELFTEST_PASSED
                   : selftest_error(st);
    selftest_sent(st, "st_atomics on 0x%" PRIx64 ", %d blocks of %d threads",
                  seen->va, N_BLOCKS, N_THREADS);
    ST_OK(hcq_queue_begin(st->compute, &cs));
    hcq_cs_fill(cs, seen->va, 0, sizeof(got));
    hcq_cs_exec(cs, prog, args, 1, grid, local);
    ST_OK(selftest_finish(st->compute, cs));
    ST_OK(hcq_buffer_read(theirs, 0, got, sizeof(got)));
    if (got[0] != N_BLOCKS * N_THREADS)
        return selftest_fail(st, "the counter is %u, not %u", got[0],
                             N_BLOCKS * N_THREADS);
    return SELFTEST_PASSED;
}

static enum selftest_verdict
share_with(struct selftest *st, struct hcq_device *other, bool counts)
{
    struct hcq_queue *queue = NULL;
    struct hcq_buffer *theirs = NULL, *seen = NULL, *there = NULL;
    enum selftest_verdict verdict;

    if (hcq_queue_create(other, HCQ_QUEUE_COPY, &queue) != BELL_OK ||
        hcq_buffer_create(other, PAGE_BYTES, 0, &theirs) != BELL_OK ||
        hcq_buffer_create(other, PAGE_BYTES, 0, &there) != BELL_OK ||
        hcq_buffer_create_peer(st->dev, theirs, &seen) != BELL_OK)
        verdict = selftest_error(st);
    else
        verdict = copy_across(st, queue, theirs, seen);
    if (verdict == SELFTEST_PASSED)
        verdict = write_across(st, queue, theirs, seen, there);
    if (verdict == SELFTEST_PASSED && counts)
        verdict = count_across(st, theirs, seen);
    selftest_end_step(st);
    hcq_buffer_destroy(seen);
    hcq_buffer_destroy(there);
    hcq_buffer_destroy(theirs);
    hcq_queue_destroy(queue);
    return verdict;
}

/* A link between two devices is believed when data have gone over it. */
static enum selftest_verdict
prove_link(struct selftest *st, struct hcq_device *other, unsigned *n_peers)
{
    struct hcq_device_link link = {.struct_size = sizeof(link)};
    struct hcq_link_bytes bytes = {.struct_size = sizeof(bytes)};
    enum selftest_verdict verdict;

    ST_OK(hcq_device_get_link(st->dev, other, &link));
    selftest_note(st, "%s to %s: %s: %s", hcq_device_name(st->dev),
                  hcq_device_name(other), hcq_link_kind_name(link.kind),
                  link.reason);
    if (link.kind <= HCQ_LINK_HOST)
        return SELFTEST_PASSED;
    ++*n_peers;
    verdict = share_with(st, other, link.atomics);
    if (verdict == SELFTEST_PASSED &&
        hcq_device_link_bytes(st->dev, other, &bytes) == BELL_OK &&
        (bytes.copy_read < PAGE_BYTES || bytes.copy_written < PAGE_BYTES))
        return selftest_fail(st,
                             "%" PRIu64 " bytes were read and %" PRIu64
                             " written over the link, not a page of each",
                             bytes.copy_read, bytes.copy_written);
    return verdict;
}

static enum selftest_verdict
two_devices(struct selftest *st)
{
    enum selftest_verdict verdict = SELFTEST_PASSED;
    unsigned idx, n_others = 0, n_peers = 0;
    struct hcq_device *other;
    bell_status status = BELL_OK;

    ST_OK(selftest_need_device(st));
    selftest_sent(st, "the other devices of this machine");
    for (idx = 0; verdict == SELFTEST_PASSED; idx++) {
        if (idx == st->idx)
            continue;
        status = open_other(st, idx, &other);
        if (status == BELL_E_NO_DEVICE)
            break;
        ST_OK(status);
        n_others++;
        verdict = prove_link(st, other, &n_peers);
        hcq_device_close(other);
    }
    if (verdict == SELFTEST_PASSED && !n_others)
        return selftest_skip(st, "there is one device: %s",
                             bell_error_last()->message);
    if (verdict == SELFTEST_PASSED && !n_peers)
        return selftest_skip(st,
                             "no device reaches another's memory: %u are "
                             "there",
                             n_others + 1);
    return verdict;
}

const struct selftest_step selftest_queue_steps[] = {
    {"open-device", SELFTEST_ANY | SELFTEST_SLOW,
     "the driver finds the device, makes its objects, address space and "
     "channels",
     "the failing call and its status; BELL_DEBUG=ioctl shows all of them",
     open_device},
    {"host-access", SELFTEST_ANY,
     "the host writes and reads device memory through the driver",
     "the CPU mapping of device memory, or the staging copies where there is "
     "none",
     host_access},
    {"copy-release", SELFTEST_ANY,
     "a copy channel fetches what its ring names, and releases a semaphore",
     "GPPut in USERD, the work submit token, the doorbell window; then the "
     "ring entry and the semaphore's address",
     copy_release},
    {"copy-4k", SELFTEST_ANY, "the copy engine reads and writes device memory",
     "addresses of the copy, SET_OBJECT of the copy class, the notifier",
     copy_page},
    {"copy-sizes", SELFTEST_ANY,
     "copies of any size and alignment touch what they should and no more",
     "LINE_LENGTH_IN, and how a copy is cut into pieces", copy_sizes},
    {"copy-large", SELFTEST_ANY, "many large copies in one submission",
     "page tables beyond the first pages; copies that overlap in time",
     copy_large},
    {"fill", SELFTEST_ANY, "fills repeat their pattern; writes of 64 bits",
     "SET_REMAP_COMPONENTS; the tail of a fill", fill},
    {"host-visible", SELFTEST_ANY,
     "memory that both sides see: each sees what the other wrote, 64 rounds",
     "write combining, the fence before the doorbell, the release's flush",
     host_visible},
    {"pinned", SELFTEST_ANY,
     "pages of this process: the device snoops the CPU's caches, 64 rounds",
     "CACHE_SNOOP of the mapping, coherency flags of the memory object",
     pinned},
    {"host-large", SELFTEST_ANY,
     "host memory of 1.5 to 256 MiB, host-visible and pinned, at odd addresses",
     "the addresses: status 0x1a says that they were not free; page sizes and "
     "alignment of the virtual memory; locked memory (ulimit -l)",
     host_large},
    {"compute-release", SELFTEST_ANY,
     "a compute channel runs: a semaphore release alone",
     "the channel's group and engine; the token; scheduling", compute_release},
    {"compute-idle", SELFTEST_ANY,
     "the compute object is bound; a release waits for the engine to be idle",
     "SET_OBJECT's class, the notifier (13, 32 or 69)", compute_idle},
    {"queues-wait", SELFTEST_ANY, "two channels wait for each other's releases",
     "acquires on the host engine: SEM_EXECUTE's operation and payload size",
     queues_wait},
    {"queues-poll", SELFTEST_ANY, "a channel looks for what another one stores",
     "acquires of 32 bits on the host engine; where stores of it go",
     queues_poll},
    {"timestamps", SELFTEST_ANY, "the device's clock runs and is the host's",
     "the timer correlation; the record's place beside the value", timestamps},
    {"bound-stream", SELFTEST_ANY,
     "a stream that is built once runs again with patched values",
     "the patch points; caches of the pushbuffer", bound_stream},
    {"ring-wraps", SELFTEST_ANY,
     "the ring goes round: more submissions than entries",
     "GPGet, room in the ring, the put pointer modulo the entries", ring_wraps},
    {"two-devices", SELFTEST_ANY | SELFTEST_SLOW,
     "this device and each other one: data both ways, signals, atomics",
     "doorbell devices says what is between them; copies go through the host "
     "where they cannot reach each other",
     two_devices},
    {NULL, 0, NULL, NULL, NULL},
};
