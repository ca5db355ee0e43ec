/* hcq/hcq_memory.c on the CPU's device: size classes, what is kept of freed
 * buffers and for how much, the device's budget, and what is refused.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "base/bits.h"
#include "base/log.h"
#include "base/map.h"
#include "hcq/hcq_backend.h"
#include "hcq/hcq_signal_pages.h"
#include "ioctl/kio.h"
#include "mem/mem_pool.h"
#include "mem/mem_va.h"
#include "tests/unit/expect.h"
#include "tests/unit/sanitized.h"

#define MIB (1ull << 20)

static struct hcq_device *dev;

static int
open_device(void **state)
{
    (void)state;
    return hcq_device_open("CPU", &dev) == BELL_OK ? 0 : -1;
}

static int
close_device(void **state)
{
    (void)state;
    hcq_device_close(dev);
    return 0;
}

static void
check_usage(uint64_t live_bytes, uint64_t cached_bytes)
{
    uint64_t live = 1, cached = 1;

    hcq_memory_usage(dev, &live, &cached);
    assert_int_equal(live, live_bytes);
    assert_int_equal(cached, cached_bytes);
}

static struct hcq_buffer *
create(uint64_t size_bytes)
{
    struct hcq_buffer *buf = NULL;

    expect_ok(hcq_buffer_create(dev, size_bytes, 0, &buf));
    assert_int_equal(buf->size_bytes, size_bytes);
    return buf;
}

static void
refused(bell_status got, bell_status want, const char *part)
{
    assert_int_equal(got, want);
    if (!strstr(bell_error_last()->message, part))
        fail_msg("\"%s\" is not in \"%s\"", part, bell_error_last()->message);
}

/* Where a page of 2 MiB may lie, from that size on: in the first 4 KiB of one,
 * and two buffers at differing places of them. */
static void
huge_pages(void **state)
{
    struct hcq_buffer *buf = create(2 * MIB), *more = create(5 * MIB);

    (void)state;
    assert_true(buf->va % (2 * MIB) < 4096);
    assert_true(more->va % (2 * MIB) < 4096);
    assert_true(buf->va % 4096 != more->va % 4096);
    hcq_buffer_destroy(buf);
    hcq_buffer_destroy(more);
}

/* ---- classes ------------------------------------------------------------- */

/* Eighths of powers of two; what is freed serves its class alone. */
static void
classes(void **state)
{
    static const struct {
        uint64_t size_bytes, class_bytes;
    } rows[] = {
        {0, 64},
        {1, 64},
        {64, 64},
        {65, 72},
        {72, 72},
        {73, 80},
        {120, 120},
        {121, 128},
        {128, 128},
        {129, 144},
        {1000, 1024},
        {4096, 4096},
        {4097, 4608},
        {4608, 4608},
        {4609, 5120},
        {MIB, MIB},
        {MIB - 1, MIB},
        {MIB + 1, MIB * 9 / 8},
        {MIB * 15 / 8 + 1, 2 * MIB},
    };
    size_t i;

    (void)state;
    for (i = 0; i < ARRAY_LEN(rows); i++) {
        const uint64_t n = rows[i].class_bytes;
        struct hcq_buffer *buf = create(rows[i].size_bytes), *same, *other;
        uint64_t va = buf->va;

        check_usage(n, 0);
        hcq_buffer_destroy(buf);
        check_usage(0, n);
        other = create(n + 1); /* the next class */
        assert_int_not_equal(other->va, va);
        same = create(n);
        assert_int_equal(same->va, va);
        hcq_buffer_destroy(same);
        hcq_buffer_destroy(other);
        hcq_memory_trim(dev);
        check_usage(0, 0);
    }
}

/* The one that was freed last is taken first, and each once. */
static void
taken_once(void **state)
{
    struct hcq_buffer *bufs[3];
    uint64_t va[3];
    size_t i;

    (void)state;
    for (i = 0; i < 3; i++) {
        bufs[i] = create(4096);
        va[i] = bufs[i]->va;
    }
    check_usage(3 * 4096, 0);
    for (i = 0; i < 3; i++)
        hcq_buffer_destroy(bufs[i]);
    check_usage(0, 3 * 4096);
    for (i = 3; i-- > 0;) {
        bufs[i] = create(4000);
        assert_int_equal(bufs[i]->va, va[i]);
        check_usage((3 - i) * 4096, i * 4096);
    }
    for (i = 0; i < 3; i++)
        hcq_buffer_destroy(bufs[i]);
}

/* Only so much is kept; what would be more goes back at once. */
static void
kept_bytes(void **state)
{
    struct hcq_buffer *bufs[3];
    size_t i;

    (void)state;
    dev->cache_limit_bytes = 2 * 4096;
    for (i = 0; i < 3; i++)
        bufs[i] = create(4096);
    for (i = 0; i < 3; i++)
        hcq_buffer_destroy(bufs[i]);
    check_usage(0, 2 * 4096);
    hcq_memory_trim(dev);
    check_usage(0, 0);
    hcq_buffer_destroy(NULL);
}

/* Kept memory takes, with that in use, twice the most that ever was in use;
 * where a new buffer would be more, all that is kept goes back. */
static void
never_again(void **state)
{
    struct hcq_buffer *bufs[3];
    uint64_t live, cached, n;
    size_t i;

    (void)state;
    dev->info.memory_bytes = 1024 * MIB;
    for (i = 0; i < 3; i++)
        bufs[i] = create(MIB);
    for (i = 0; i < 3; i++)
        hcq_buffer_destroy(bufs[i]);
    hcq_buffer_destroy(create(2 * MIB));
    hcq_buffer_destroy(create(MIB * 7 / 8));
    hcq_buffer_destroy(create(MIB / 8));
    check_usage(0, 6 * MIB);
    hcq_buffer_destroy(create(MIB)); /* nothing new */
    check_usage(0, 6 * MIB);
    hcq_buffer_destroy(create(64));
    check_usage(0, 64);
    bufs[0] = create(5 * MIB); /* more than there ever was */
    check_usage(5 * MIB, 64);
    hcq_buffer_destroy(bufs[0]);
    for (n = 4096; n <= 3 * MIB; n += 4096) {
        hcq_buffer_destroy(create(n));
        hcq_memory_usage(dev, &live, &cached);
        assert_in_range(live + cached, n, 10 * MIB);
    }
}

/* Little is kept, however little is in use. */
static void
never_again_small(void **state)
{
    uint64_t n;

    (void)state;
    dev->info.memory_bytes = 1024 * MIB;
    for (n = 9; n <= 12; n++)
        hcq_buffer_destroy(create(MIB * n / 16));
    hcq_buffer_destroy(create(MIB * 22 / 16));
    check_usage(0, 4 * MIB);
    hcq_buffer_destroy(create(64));
    check_usage(0, 64);
}

/* ---- budgets ------------------------------------------------------------- */

/* Kept memory gives way to requests; memory in use does not. */
static void
budget(void **state)
{
    struct hcq_buffer *a, *b = NULL, *kept;

    (void)state;
    dev->info.memory_bytes = 3 * 4096;
    a = create(4096);
    kept = create(4096);
    hcq_buffer_destroy(kept);
    check_usage(4096, 4096);
    b = create(6144); /* with the one that is kept too much */
    check_usage(4096 + 6144, 0);
    hcq_buffer_destroy(b);
    hcq_memory_trim(dev);
    b = create(8192);
    check_usage(3 * 4096, 0);
    refused(
        hcq_buffer_create(dev, 1, 0, &kept), BELL_E_NO_MEMORY,
        "out of memory for a buffer of 1 bytes: 12288 of 12288 bytes are in "
        "use");
    hcq_buffer_destroy(a);
    refused(hcq_buffer_create(dev, 4097, 0, &kept), BELL_E_NO_MEMORY,
            "of 4097 bytes: 8192 of 12288");
    check_usage(8192, 0); /* what was kept went for nothing */
    hcq_buffer_destroy(b);
    dev->info.max_buffer_bytes = 4096;
    hcq_buffer_destroy(create(4096));
    refused(hcq_buffer_create(dev, 4097, 0, &kept), BELL_E_NO_MEMORY,
            "a buffer of 4097 bytes is more than the 4096 that one may have");
}

/* The smallest of eighths of powers of two that holds so many bytes. */
static uint64_t
class_of(uint64_t size_bytes)
{
    uint64_t eighth, k;

    for (eighth = 8;; eighth *= 2) {
        for (k = 8; k < 16; k++) {
            if (eighth * k >= size_bytes)
                return eighth * k;
        }
    }
}

enum {
    N_LIVE = 24,
    N_KEPT = 256
};

/* Random buffers within small budgets: one that is kept serves its class; all
 * that is kept gives way as soon as it is too much with what is asked for, and
 * not before; what is in use never; and only so much is kept. */
static void
budget_random(void **state)
{
    static const uint64_t limits[] = {0, 512, 1024, 4096, UINT64_MAX};
    struct hcq_buffer *bufs[N_LIVE] = {NULL};
    uint64_t live = 0, cached = 0, seed = 1, kept[N_KEPT];
    unsigned step, i, k, n_kept = 0, n_refused = 0, n_at_border = 0;

    (void)state;
    dev->info.memory_bytes = 4096;
    for (step = 0; step < 20000; step++) {
        uint64_t size = (hash_mix(++seed) % 64 + 1) * 16, n = class_of(size);
        bool is_refused = false;

        dev->cache_limit_bytes = limits[step / 1000 % ARRAY_LEN(limits)];
        i = (unsigned)(hash_mix(++seed) % N_LIVE);
        if (bufs[i]) {
            n = class_of(bufs[i]->size_bytes);
            hcq_buffer_destroy(bufs[i]);
            bufs[i] = NULL;
            live -= n;
            if (cached + n <= dev->cache_limit_bytes) {
                cached += n;
                assert_true(n_kept < N_KEPT);
                kept[n_kept++] = n;
            }
            check_usage(live, cached);
            continue;
        }
        for (k = 0; k < n_kept && kept[k] != n; k++)
            ;
        if (k < n_kept) {
            kept[k] = kept[--n_kept];
            cached -= n;
        } else {
            n_at_border += live + cached + n == dev->info.memory_bytes;
            if (live + cached + n > dev->info.memory_bytes)
                n_kept = 0, cached = 0;
            is_refused = live + n > dev->info.memory_bytes;
        }
        if (is_refused) {
            n_refused++;
            assert_int_equal(hcq_buffer_create(dev, size, 0, &bufs[i]),
                             BELL_E_NO_MEMORY);
            assert_null(bufs[i]);
        } else {
            bufs[i] = create(size);
            live += n;
        }
        check_usage(live, cached);
    }
    for (i = 0; i < N_LIVE; i++)
        hcq_buffer_destroy(bufs[i]);
    assert_true(n_refused > 100 && n_at_border > 10);
}

static void
no_memory(void **state)
{
    struct hcq_buffer *buf = NULL;
    uint8_t bytes[64];

    (void)state;
    host_fail_after(1, 1);
    refused(hcq_buffer_create(dev, 5000, 0, &buf), BELL_E_NO_MEMORY,
            "out of memory for a buffer of 5000 bytes");
    host_fail_after(1, 1);
    refused(hcq_buffer_create_pinned(dev, bytes, sizeof(bytes), &buf),
            BELL_E_NO_MEMORY, "out of memory for a buffer");
    host_fail_after(0, 0);
    check_usage(0, 0);
    assert_null(buf);
}

/* ---- somebody else's memory ---------------------------------------------- */

/* It counts for nothing, and nothing of it is kept. */
static void
pinned(void **state)
{
    uint8_t bytes[64];
    struct hcq_buffer *buf, *peer;

    (void)state;
    expect_ok(hcq_buffer_create_pinned(dev, bytes, sizeof(bytes), &buf));
    check_usage(0, 0);
    assert_ptr_equal(buf->host, bytes);
    assert_int_equal(buf->size_bytes, sizeof(bytes));
    assert_int_equal(buf->flags, HCQ_MEM_HOST_VISIBLE);
    memset(bytes, 1, sizeof(bytes));
    expect_ok(hcq_buffer_write(buf, 8, "\5\6", 2));
    assert_int_equal(bytes[7], 1);
    assert_int_equal(bytes[8], 5);
    assert_int_equal(bytes[9], 6);
    assert_int_equal(bytes[10], 1);
    expect_ok(hcq_buffer_create_peer(dev, buf, &peer));
    assert_ptr_equal(peer->host, bytes);
    assert_int_equal(peer->size_bytes, sizeof(bytes));
    hcq_buffer_destroy(peer);
    hcq_buffer_destroy(buf);
    check_usage(0, 0);
}

/* ---- refused ------------------------------------------------------------- */

static void
ranges(void **state)
{
    struct hcq_buffer *buf = create(100);
    uint8_t bytes[100] = {0};

    (void)state;
    expect_ok(hcq_buffer_write(buf, 0, bytes, 100));
    expect_ok(hcq_buffer_write(buf, 99, bytes, 1));
    expect_ok(hcq_buffer_write(buf, 100, bytes, 0));
    expect_ok(hcq_buffer_write(buf, 100, NULL, 0));
    expect_ok(hcq_buffer_read(buf, 1, bytes, 99));
    refused(hcq_buffer_write(buf, 0, bytes, 101), BELL_E_INVALID,
            "bytes 0 to 101 of a buffer of 100");
    refused(hcq_buffer_write(buf, 100, bytes, 1), BELL_E_INVALID,
            "bytes 100 to 101 of");
    refused(hcq_buffer_read(buf, 101, bytes, 0), BELL_E_INVALID,
            "bytes 101 to 101 of");
    refused(hcq_buffer_read(buf, 1, bytes, UINT64_MAX), BELL_E_INVALID,
            "of a buffer of 100");
    refused(hcq_buffer_read(buf, 0, NULL, 1), BELL_E_INVALID,
            "the data is NULL");
    refused(hcq_buffer_write(NULL, 0, bytes, 1), BELL_E_INVALID,
            "the buffer is NULL");
    hcq_buffer_destroy(buf);
}

static void
arguments(void **state)
{
    struct hcq_buffer *buf = create(64), *out = NULL;
    uint8_t bytes[64];

    (void)state;
    refused(hcq_buffer_create(NULL, 1, 0, &out), BELL_E_INVALID, "the device");
    refused(hcq_buffer_create(dev, 1, 0, NULL), BELL_E_INVALID, "the result");
    refused(hcq_buffer_create(dev, 1, 1u << 30, &out), BELL_E_INVALID,
            "unknown buffer flags 0x40000000");
    refused(hcq_buffer_create_pinned(NULL, bytes, 1, &out), BELL_E_INVALID,
            "the device");
    refused(hcq_buffer_create_pinned(dev, NULL, 1, &out), BELL_E_INVALID,
            "the memory");
    refused(hcq_buffer_create_pinned(dev, bytes, 1, NULL), BELL_E_INVALID,
            "the result");
    refused(hcq_buffer_create_pinned(dev, bytes, UINT64_MAX, &out),
            BELL_E_INVALID, "wrap around");
    refused(hcq_buffer_create_peer(NULL, buf, &out), BELL_E_INVALID,
            "the device");
    refused(hcq_buffer_create_peer(dev, NULL, &out), BELL_E_INVALID,
            "the buffer");
    refused(hcq_buffer_create_peer(dev, buf, NULL), BELL_E_INVALID,
            "the result");
    assert_null(out);
    hcq_buffer_destroy(buf);
}

/* Fresh and reused memory looks used, where that is asked for. */
static void
poison(void **state)
{
    struct hcq_buffer *buf;
    int i, k;

    (void)state;
    for (i = 0; i < 2; i++) {
        expect_ok(hcq_buffer_create(dev, 100, HCQ_MEM_POISON, &buf));
        for (k = 0; k < 100; k++)
            assert_int_equal(((uint8_t *)buf->host)[k], 0xcb);
        memset(buf->host, 0, 100);
        hcq_buffer_destroy(buf);
    }
}

static void
add_line(void *user, const char *line)
{
    size_t len = strlen(user);

    snprintf((char *)user + len, 4096 - len, "%s\n", line);
}

/* What a closed device still had is listed, and freed. */
static void
left_at_close(void **state)
{
    char text[4096] = "";
    const char *kinds[] = {"queue left: CPU:", "stream left: step",
                           "signal left: ", "buffer left: 100 bytes"};
    struct hcq_device *closed;
    struct hcq_queue *queue;
    struct hcq_stream *stream;
    struct hcq_signal *sig;
    struct hcq_buffer *buf;
    size_t i;

    (void)state;
    expect_ok(hcq_device_open("CPU", &closed));
    expect_ok(hcq_queue_create(closed, HCQ_QUEUE_COMPUTE, &queue));
    expect_ok(hcq_stream_create(queue, "lost", &stream));
    hcq_queue_destroy(queue); /* with its streams */
    expect_ok(hcq_queue_create(closed, HCQ_QUEUE_COMPUTE, &queue));
    expect_ok(hcq_stream_create(queue, "step", &stream));
    expect_ok(hcq_signal_create(closed, 0, &sig));
    expect_ok(hcq_buffer_create(closed, 100, 0, &buf));
    bell_log_set(add_line, text);
    log_mask = LOG_MEM;
    hcq_device_close(closed);
    log_mask = 0;
    bell_log_set(NULL, NULL);
    assert_null(strstr(text, "lost"));
    for (i = 0; i < sizeof(kinds) / sizeof(*kinds); i++) {
        if (!strstr(text, kinds[i]))
            fail_msg("no \"%s\" in: %s", kinds[i], text);
    }
}

/* Clean-up after a failure destroys what was never made. */
static void
nothing_to_destroy(void **state)
{
    (void)state;
    hcq_buffer_destroy(NULL);
    hcq_signal_destroy(NULL);
    hcq_program_destroy(NULL);
    hcq_stream_destroy(NULL);
    hcq_queue_destroy(NULL);
    hcq_device_close(NULL);
    hcq_signal_pages_destroy(NULL);
    mem_va_destroy(NULL);
    assert_int_equal(mem_pool_destroy(NULL), 0);
    kio_destroy(NULL);
}

/* ---- pages of signals ---------------------------------------------------- */

/* Each page lies before the ones that were made earlier, without a gap. */
struct page_maker {
    uint64_t next_va;
    unsigned n_pages, n_left;
};

static bell_status
make_page(void *user, struct hcq_signal_page *out_page)
{
    struct page_maker *maker = user;

    if (!maker->n_left)
        return bell_fail(BELL_E_NO_MEMORY, "no more pages");
    maker->n_left--;
    maker->n_pages++;
    maker->next_va -= HCQ_SIGNAL_PAGE_BYTES;
    out_page->va = maker->next_va;
    out_page->host = malloc(HCQ_SIGNAL_PAGE_BYTES);
    memset(out_page->host, 0xee, HCQ_SIGNAL_PAGE_BYTES);
    return BELL_OK;
}

static void
release_page(void *user, const struct hcq_signal_page *page)
{
    struct page_maker *maker = user;

    maker->n_pages--;
    free(page->host);
}

static void
count_page(void *user, const struct hcq_signal_page *page)
{
    unsigned *n = user;

    assert_non_null(page->host);
    ++*n;
}

static void
pages_of_signals(void **state)
{
    static const struct hcq_signal_page_ops ops = {.alloc = make_page,
                                                   .release = release_page};
    enum {
        EACH = HCQ_SIGNAL_PAGE_BYTES / HCQ_SIGNAL_BYTES
    };
    struct page_maker maker = {1 << 30, 0, 3};
    struct hcq_signal_pages *pages;
    uint64_t va[3 * EACH], *host[3 * EACH];
    unsigned i, k, n = 0;

    (void)state;
    expect_ok(hcq_signal_pages_create(&ops, &maker, &pages));
    for (i = 0; i < 3 * EACH; i++) {
        expect_ok(hcq_signal_pages_alloc(pages, &va[i], &host[i]));
        for (k = 0; k < HCQ_SIGNAL_BYTES / 8; k++)
            assert_int_equal(host[i][k], 0);
        memset(host[i], 1 + (int)i, HCQ_SIGNAL_BYTES);
        assert_int_equal(maker.n_pages, i / EACH + 1);
        assert_true(va[i] >= maker.next_va && va[i] < 1 << 30);
    }
    for (i = 0; i < 3 * EACH; i++)
        assert_int_equal((uint8_t)host[i][0], (uint8_t)(1 + i));
    assert_int_equal(hcq_signal_pages_alloc(pages, &va[0], &host[0]),
                     BELL_E_NO_MEMORY);
    hcq_signal_pages_each(pages, count_page, &n);
    assert_int_equal(n, 3);
    hcq_signal_pages_free(pages, 1 << 30); /* nobody's */
    hcq_signal_pages_free(pages, maker.next_va - HCQ_SIGNAL_BYTES);
    /* The first of each page, then all of the middle one. */
    for (i = 0; i < 3; i++) {
        uint64_t at = maker.next_va + i * HCQ_SIGNAL_PAGE_BYTES, got;

        hcq_signal_pages_free(pages, at);
        expect_ok(hcq_signal_pages_alloc(pages, &got, &host[0]));
        assert_int_equal(got, at);
    }
    for (i = 0; i < EACH; i++)
        hcq_signal_pages_free(pages, maker.next_va + HCQ_SIGNAL_PAGE_BYTES +
                                         i * HCQ_SIGNAL_BYTES);
    for (i = 0; i < EACH; i++)
        hcq_signal_pages_free(pages, maker.next_va + i * HCQ_SIGNAL_BYTES);
    assert_int_equal(maker.n_pages, 2);
    hcq_signal_pages_destroy(pages);
    assert_int_equal(maker.n_pages, 0);
}

/* ---- the CPU's ----------------------------------------------------------- */

/* Bytes that are mapped, and the line that an address is in. */
static uint64_t
mapped_bytes(void)
{
    FILE *file = fopen("/proc/self/statm", "r");
    unsigned long pages = 0;

    assert_int_equal(fscanf(file, "%lu", &pages), 1);
    fclose(file);
    return (uint64_t)pages * 4096;
}

/* A queue that there is no memory for leaves nothing. Rings are large here, so
 * that one is seen. */
static void
no_memory_for_queues(void **state)
{
    const struct hcq_queue_desc desc = {
        .struct_size = sizeof(desc),
        .kind = HCQ_QUEUE_COMPUTE,
        .ring_size_bytes = (uint32_t)(64 * MIB),
    };
    struct hcq_queue *queue = NULL;
    uint64_t before, n;
    int i;

    (void)state;
    expect_ok(hcq_queue_create_with(dev, &desc, &queue));
    hcq_queue_destroy(queue);
    before = mapped_bytes();
    for (n = 1, queue = NULL; !queue; n++) {
        for (i = 0; i < 4 && !queue; i++) {
            bell_status status;

            host_fail_after(n, 1);
            status = hcq_queue_create_with(dev, &desc, &queue);
            host_fail_after(0, 0);
            assert_int_equal(status, queue ? BELL_OK : BELL_E_NO_MEMORY);
        }
    }
    assert_true(n > 4);
    hcq_queue_destroy(queue);
    /* sanitizers keep for a while what is freed, and see leaks themselves */
    if (!IS_SANITIZED)
        assert_true(mapped_bytes() < before + 256 * MIB);
}

/* Around each size from which on memory is taken otherwise: what is mapped is
 * what was asked for, to the page, and one for where in it big ones begin, and
 * given back. Aligned for huge pages where it may have one. */
static void
host_memory(void **state)
{
    const struct hcq_device_ops *ops = dev->ops;
    uint64_t around, i, before, during, bytes;

    (void)state;
    for (around = 1ull << 16; around <= 16 * MIB; around *= 2) {
        for (i = 0; i < 5; i++) {
            static const int64_t steps[5] = {-4096, -1, 0, 1, 4097};
            struct hcq_backing mem;

            bytes = around + (uint64_t)steps[i];
            before = mapped_bytes();
            expect_ok(ops->mem_alloc(dev, bytes, 0, &mem));
            during = mapped_bytes();
            assert_true(mem.size_bytes >= bytes &&
                        mem.size_bytes < bytes + 4096);
            assert_true(mem.va == (uintptr_t)mem.host && mem.va % 64 == 0);
            memset(mem.host, 1, (size_t)bytes);
            if (bytes >= 4 * MIB) {
                assert_int_equal(during - before, align_up(bytes, 4096) + 4096);
                assert_true(mem.va % (2 * MIB) < 4096);
            }
            ops->mem_free(dev, &mem);
            if (bytes >= 4 * MIB)
                assert_int_equal(mapped_bytes(), before);
        }
    }
}

#if defined(__x86_64__)
/* Whether /proc/cpuinfo's flags have all of these. */
static bool
has_flags(const char *flags, const char *const *names)
{
    char word[32];

    for (; *names; names++) {
        snprintf(word, sizeof(word), " %s ", *names);
        if (!strstr(flags, word))
            return false;
    }
    return true;
}

/* The processor as the kernel tells it. */
static void
processor(void **state)
{
    static const char *const v3[] = {"avx2", "fma", "bmi1", "bmi2", NULL};
    static const char *const v4[] = {"avx512f",  "avx512bw", "avx512cd",
                                     "avx512dq", "avx512vl", NULL};
    char line[8192], model[128] = "", flags[8192] = "";
    FILE *file = fopen("/proc/cpuinfo", "r");
    bool is_v3;

    (void)state;
    while (file && fgets(line, sizeof(line), file) && !flags[0]) {
        line[strcspn(line, "\n")] = ' ';
        if (strncmp(line, "model name\t: ", 13) == 0)
            snprintf(model, sizeof(model), "%.*s", (int)strlen(line + 13) - 1,
                     line + 13);
        if (strncmp(line, "flags\t", 6) == 0)
            snprintf(flags, sizeof(flags), "%s", line);
    }
    if (file)
        fclose(file);
    assert_int_equal(dev->info.memory_bytes,
                     (uint64_t)sysconf(_SC_PHYS_PAGES) * 4096);
    assert_int_equal(dev->info.max_buffer_bytes, dev->info.memory_bytes);
    assert_int_equal(dev->info.timestamp_hz, 1000000000);
    if (!model[0] || !flags[0])
        skip();
    is_v3 = has_flags(flags, v3);
    assert_string_equal(dev->info.arch,
                        is_v3 && has_flags(flags, v4) ? "x86-64-v4"
                        : is_v3                       ? "x86-64-v3"
                        : strstr(flags, " sse4_2 ")   ? "x86-64-v2"
                                                      : "x86-64");
    assert_string_equal(dev->info.model, model);
}
#endif

/* A process has room for so many threads that run kernels of CPU devices, a
 * queue's submitter among them, and for no more; one that ended makes place for
 * another. */
static void
threads(void **state)
{
    struct hcq_device *half, *other_half;
    struct hcq_queue *queue, *other;
    int i;

    (void)state;
    setenv("BELL_THREADS", "1024", 1);
    expect_ok(hcq_device_open("CPU", &half));
    expect_ok(hcq_device_open("CPU", &other_half));
    unsetenv("BELL_THREADS");
    for (i = 0; i < 3; i++) { /* 1,023 helpers each, and two */
        expect_ok(hcq_queue_create(half, HCQ_QUEUE_COMPUTE, &queue));
        refused(hcq_queue_create(other_half, HCQ_QUEUE_COMPUTE, &other),
                BELL_E_UNSUPPORTED,
                "CPU:0: more than 2048 threads of CPU devices");
        hcq_queue_destroy(queue);
    }
    hcq_device_close(other_half);
    hcq_device_close(half);
}

#define TEST(name)                                                             \
    cmocka_unit_test_setup_teardown(name, open_device, close_device)

int
main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(huge_pages),
        TEST(classes),
        TEST(taken_once),
        TEST(kept_bytes),
        TEST(never_again),
        TEST(never_again_small),
        TEST(budget),
        TEST(budget_random),
        TEST(no_memory),
        TEST(pinned),
        TEST(ranges),
        TEST(arguments),
        TEST(poison),
        TEST(left_at_close),
        TEST(nothing_to_destroy),
        TEST(no_memory_for_queues),
        TEST(host_memory),
#if defined(__x86_64__)
        TEST(processor),
#endif
        cmocka_unit_test(threads),
        cmocka_unit_test(pages_of_signals),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
