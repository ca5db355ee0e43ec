/* Kinds of machines that a card is in: a small window, a virtual function, a
 * window that keeps what was read, the host's memory, partitions.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/bits.h"
#include "hcq/amd/amd_kfd.h"
#include "sim/amd/sim_amd.h"
#include "tests/unit/expect.h"

static struct amd_device *
open_amd(const char *name)
{
    struct hcq_device *dev = NULL;

    if (hcq_device_open(name, &dev) != BELL_OK)
        fail_msg("%s: %s", name, bell_error_last()->message);
    return amd_device_of(dev);
}

/* A virtual function has no page of the HDP: sim_kept.h's rule, but for
 * that. */
static void
close_amd(struct amd_device *dev)
{
    struct sim_amd_usage u;

    hcq_device_close(&dev->base);
    sim_amd_usage_all(&u);
    assert_int_equal(u.queues, 0);
    assert_int_equal(u.files, u.processes + u.spaces);
    assert_true(u.buffers <= u.processes + u.spaces);
    assert_int_equal(u.va_mapped_bytes, 0x8000ull * u.spaces);
}

/* Bytes of a buffer through the host: as written, at any place and size, and
 * those beside them as before. */
static void
bytes_come_back(struct hcq_buffer *buf, uint8_t *want, uint64_t size_bytes)
{
    static const struct {
        uint64_t at, n;
    } pieces[] = {{0, 1},        {1, 3},         {4095, 2},
                  {5000, 20000}, {70001, 16384}, {100, 256 * 1024},
                  {7, 700000}};
    uint8_t *got = malloc(size_bytes);
    size_t i, k;

    assert_non_null(got);
    for (i = 0; i < ARRAY_LEN(pieces); i++) {
        for (k = 0; k < pieces[i].n; k++)
            want[pieces[i].at + k] = (uint8_t)(k * 7 + i + (k >> 9));
        expect_ok(hcq_buffer_write(buf, pieces[i].at, want + pieces[i].at,
                                   pieces[i].n));
        memset(got, 0, size_bytes);
        expect_ok(hcq_buffer_read(buf, 0, got, size_bytes));
        assert_memory_equal(got, want, size_bytes);
        expect_ok(hcq_buffer_read(buf, pieces[i].at, got, pieces[i].n));
        assert_memory_equal(got, want + pieces[i].at, pieces[i].n);
    }
    free(got);
}

/* Without resizable BAR: what the host writes and reads goes by an engine; the
 * CPU has no mapping, other cards reach nothing, and a lost device says so. */
static void
small_window(void **state)
{
    const struct hcq_fault fault = {.kind = HCQ_FAULT_MEMORY, .text = "lost"};
    const uint64_t size_bytes = 3 * 256 * 1024 + 5;
    struct amd_device *dev = open_amd("AMD:0@sim:gfx1100*2,bar=256");
    struct amd_device *other = open_amd("AMD:1@sim:gfx1100*2,bar=256");
    struct hcq_buffer *buf, *visible, *peer;
    uint8_t *want = calloc(1, size_bytes), byte = 1;

    (void)state;
    assert_non_null(want);
    assert_false(dev->topology.large_bar);
    expect_ok(hcq_buffer_create(&dev->base, size_bytes, 0, &buf));
    expect_ok(hcq_buffer_create(&dev->base, size_bytes, HCQ_MEM_HOST_VISIBLE,
                                &visible));
    assert_null(buf->host);
    expect_ok(hcq_buffer_write(buf, 0, want, size_bytes));
    bytes_come_back(buf, want, size_bytes);
    memset(want, 0, size_bytes);
    memset(visible->host, 0, size_bytes);
    bytes_come_back(visible, want, size_bytes);
    assert_memory_equal(visible->host, want, size_bytes);
    assert_int_equal(hcq_buffer_create_peer(&other->base, buf, &peer),
                     BELL_E_UNSUPPORTED);
    assert_non_null(strstr(bell_error_last()->message, "resizable BAR"));
    expect_ok(hcq_buffer_create_peer(&other->base, visible, &peer));
    hcq_buffer_destroy(peer);
    hcq_device_set_lost(&dev->base, &fault);
    assert_int_equal(hcq_buffer_read(buf, 0, &byte, 1), BELL_E_DEVICE_LOST);
    assert_int_equal(hcq_buffer_write(buf, 0, &byte, 1), BELL_E_DEVICE_LOST);
    expect_ok(hcq_buffer_read(visible, 0, &byte, 1));
    hcq_buffer_destroy(visible);
    hcq_buffer_destroy(buf);
    hcq_device_close(&other->base);
    close_amd(dev);
    free(want);
}

/* No page to flush the window with: what was written is read back. Sensors are
 * refused, which is not a failure of the kernel. */
static void
virtual_function(void **state)
{
    const uint64_t size_bytes = 3 * 256 * 1024 + 5;
    struct amd_device *dev = open_amd("AMD@sim:gfx942,vf");
    uint8_t *want = calloc(1, size_bytes);
    struct hcq_buffer *buf;
    uint32_t mhz = 7;

    (void)state;
    assert_non_null(want);
    assert_null(dev->process->cards[dev->card].hdp);
    expect_fails(hcq_device_clock_mhz(&dev->base, &mhz), BELL_E_UNSUPPORTED,
                 "no sensor");
    assert_int_equal(mhz, 7);
    expect_ok(hcq_buffer_create(&dev->base, size_bytes, 0, &buf));
    expect_ok(hcq_buffer_write(buf, 0, want, size_bytes));
    bytes_come_back(buf, want, size_bytes);
    hcq_buffer_destroy(buf);
    close_amd(dev);
    free(want);
}

/* The simulated card holds back what the host stores by itself, until it reads
 * that or a queue flushes the window: where accesses can be seen. */
static void
stores_wait(void **state)
{
    struct amd_device *dev = open_amd("AMD@sim:gfx1100,vf");
    struct hcq_buffer *buf, *copy;
    volatile uint32_t *window;
    uint32_t word[2] = {0};
    struct hcq_signal *begun;
    struct hcq_queue *queue;
    struct hcq_cs *cs;
    uint64_t value;

    (void)state;
    expect_ok(hcq_buffer_create(&dev->base, 8192, 0, &buf));
    expect_ok(hcq_buffer_create(&dev->base, 8192, 0, &copy));
    expect_ok(hcq_buffer_write(buf, 4096, word, sizeof(word)));
    expect_ok(hcq_queue_create(&dev->base, HCQ_QUEUE_COMPUTE, &queue));
    expect_ok(hcq_signal_create(&dev->base, 0, &begun));
    expect_ok(hcq_queue_begin(queue, &cs));
    hcq_cs_signal(cs, begun, 1);
    hcq_cs_poll(cs, buf->va + 4096, UINT32_MAX, 1);
    expect_ok(hcq_cs_submit(cs, &value));
    expect_ok(hcq_signal_wait(begun, 1, HCQ_TIMEOUT_NS));
    window = (volatile uint32_t *)(uintptr_t)(buf->va + 4096);
    window[0] = 1;
    window[1] = 7;
#if defined(__x86_64__)
    expect_fails(hcq_signal_wait(hcq_queue_timeline(queue), value, 1000000),
                 BELL_E_TIMEOUT, "");
#endif
    assert_int_equal(window[1], 7);
    expect_ok(hcq_queue_wait(queue, HCQ_TIMEOUT_NS));
    window[1] = 8;
    expect_ok(hcq_queue_begin(queue, &cs));
    hcq_cs_copy(cs, copy->va, buf->va + 4096, sizeof(word));
    expect_ok(hcq_cs_submit(cs, NULL));
    expect_ok(hcq_queue_wait(queue, HCQ_TIMEOUT_NS));
    expect_ok(hcq_buffer_read(copy, 0, word, sizeof(word)));
    assert_int_equal(word[0], 1);
    assert_int_equal(word[1], 8);
    hcq_queue_destroy(queue);
    hcq_signal_destroy(begun);
    hcq_buffer_destroy(copy);
    hcq_buffer_destroy(buf);
    close_amd(dev);
}

/* A queue waits for a word of the card's memory that the host then writes. */
static void
host_store_is_polled(void **state)
{
    static const char *const names[] = {
        "AMD@sim:gfx942,vf", "AMD@sim:gfx1100,vf", "AMD@sim:gfx1100,bar=256"};
    static const enum hcq_queue_kind kinds[] = {HCQ_QUEUE_COMPUTE,
                                                HCQ_QUEUE_COPY};
    size_t i;

    (void)state;
    for (i = 0; i < 2 * ARRAY_LEN(names); i++) {
        struct amd_device *dev = open_amd(names[i / 2]);
        uint32_t zero[2] = {0}, one = 1;
        struct hcq_signal *begun;
        struct hcq_queue *queue;
        struct hcq_buffer *buf;
        struct hcq_cs *cs;
        uint64_t value;

        expect_ok(hcq_buffer_create(&dev->base, 4096, 0, &buf));
        expect_ok(hcq_buffer_write(buf, 0, zero, sizeof(zero)));
        expect_ok(hcq_queue_create(&dev->base, kinds[i % 2], &queue));
        expect_ok(hcq_signal_create(&dev->base, 0, &begun));
        expect_ok(hcq_queue_begin(queue, &cs));
        hcq_cs_signal(cs, begun, 1); /* what it flushes first, is flushed */
        hcq_cs_poll(cs, buf->va, UINT32_MAX, 1);
        expect_ok(hcq_cs_submit(cs, &value));
        expect_fails(hcq_signal_wait(hcq_queue_timeline(queue), value, 1000000),
                     BELL_E_TIMEOUT, "");
        expect_ok(hcq_signal_wait(begun, 1, HCQ_TIMEOUT_NS));
        expect_ok(hcq_buffer_write(buf, 0, &one, sizeof(one)));
        expect_ok(hcq_queue_wait(queue, HCQ_TIMEOUT_NS));
        hcq_queue_destroy(queue);
        hcq_signal_destroy(begun);
        hcq_buffer_destroy(buf);
        close_amd(dev);
    }
}

/* The windows of RX 5000 and 6000 keep what was read: they are flushed before,
 * too. Reads of host memory and by an engine need none. */
static void
reads_flush(void **state)
{
    static const struct {
        const char *name;
        uint32_t flags;
        uint64_t n_bytes;
        bool flushes;
    } cases[] = {
        {"AMD@sim:gfx1030", 0, 64, true},
        {"AMD@sim:gfx1030", HCQ_MEM_HOST_VISIBLE, 64, false},
        {"AMD@sim:gfx1030", 0, 32768, false},
        {"AMD@sim:gfx1010", 0, 64, true},
        {"AMD@sim:gfx1100", 0, 64, false},
        {"AMD@sim:gfx90a", 0, 64, false},
    };
    uint8_t *data = calloc(1, 65536);
    size_t i;

    (void)state;
    assert_non_null(data);
    for (i = 0; i < ARRAY_LEN(cases); i++) {
        struct amd_device *dev = open_amd(cases[i].name);
        struct hcq_buffer *buf;

        expect_ok(hcq_buffer_create(&dev->base, 65536, cases[i].flags, &buf));
        expect_ok(hcq_buffer_write(buf, 0, data, 65536));
        dev->process->cards[dev->card].hdp[0] = 0;
        expect_ok(hcq_buffer_read(buf, 0, data, cases[i].n_bytes));
        assert_int_equal(dev->process->cards[dev->card].hdp[0],
                         cases[i].flushes);
        hcq_buffer_destroy(buf);
        close_amd(dev);
    }
    free(data);
}

/* A card whose memory is the host's flushes no window, as its simulated one
 * insists; large reads are the CPU's. One limit is for the card's memory and
 * for what is pinned of the host's. */
static void
host_memory(void **state)
{
    const uint64_t size_bytes = 3 * 256 * 1024 + 5, large_bytes = 40ull << 30;
    struct amd_device *dev = open_amd("AMD@sim:mi300a");
    uint8_t *want = calloc(1, size_bytes);
    struct amd_mem mem = {.size_bytes = 0};
    struct hcq_buffer *buf, *large;
    struct hcq_queue *queue;
    struct hcq_cs *cs;
    size_t i;

    (void)state;
    assert_non_null(want);
    assert_true(dev->topology.has_host_memory);
    assert_true(dev->topology.large_bar);
    assert_null(dev->process->cards[dev->card].hdp);
    assert_int_equal(dev->base.info.memory_bytes, 64ull << 30);
    expect_ok(hcq_buffer_create(&dev->base, size_bytes, 0, &buf));
    expect_ok(hcq_buffer_write(buf, 0, want, size_bytes));
    bytes_come_back(buf, want, size_bytes);
    assert_null(dev->control->reader.channel.dev);
    for (i = 0; i < 2; i++) {
        expect_ok(hcq_queue_create(
            &dev->base, i ? HCQ_QUEUE_COPY : HCQ_QUEUE_COMPUTE, &queue));
        expect_ok(hcq_queue_begin(queue, &cs));
        hcq_cs_fill(cs, buf->va, 0x5a5a5a5a, 4096);
        expect_ok(hcq_cs_submit(cs, NULL));
        expect_ok(hcq_queue_wait(queue, HCQ_TIMEOUT_NS));
        expect_ok(hcq_buffer_read(buf, 4095, want, 1));
        assert_int_equal(want[0], 0x5a);
        hcq_queue_destroy(queue);
    }
    expect_ok(hcq_buffer_create(&dev->base, large_bytes, 0, &large));
    expect_fails(amd_mem_alloc(dev, large_bytes, AMD_MEM_GTT, &mem),
                 BELL_E_NO_MEMORY, "memory is the host's");
    hcq_buffer_destroy(large);
    hcq_buffer_destroy(buf);
    close_amd(dev);
    free(want);
}

/* The first card's memory, copied by the second. */
static void
copy_across(struct amd_device *a, struct amd_device *b)
{
    uint32_t want[256], got[256] = {0};
    struct hcq_buffer *buf, *peer, *local;
    struct hcq_queue *queue;
    struct hcq_cs *cs;
    size_t i;

    for (i = 0; i < ARRAY_LEN(want); i++)
        want[i] = (uint32_t)i * 0x9e3779b9u;
    expect_ok(hcq_buffer_create(&a->base, sizeof(want), 0, &buf));
    expect_ok(hcq_buffer_create(&b->base, sizeof(want), 0, &local));
    expect_ok(hcq_buffer_create_peer(&b->base, buf, &peer));
    expect_ok(hcq_buffer_write(buf, 0, want, sizeof(want)));
    expect_ok(hcq_queue_create(&b->base, HCQ_QUEUE_COPY, &queue));
    expect_ok(hcq_queue_begin(queue, &cs));
    hcq_cs_copy(cs, local->va, peer->va, sizeof(want));
    expect_ok(hcq_cs_submit(cs, NULL));
    expect_ok(hcq_queue_wait(queue, HCQ_TIMEOUT_NS));
    expect_ok(hcq_buffer_read(local, 0, got, sizeof(got)));
    assert_memory_equal(got, want, sizeof(want));
    hcq_queue_destroy(queue);
    hcq_buffer_destroy(peer);
    hcq_buffer_destroy(local);
    hcq_buffer_destroy(buf);
}

/* Partitions are cards: each is told by its GPU's place and its own number, and
 * the last of 64 shares memory with others. */
static void
partitions(void **state)
{
    struct amd_device *a = open_amd("AMD:0@sim:gfx942*8,cpx");
    struct amd_device *b = open_amd("AMD:31@sim:gfx942*8,cpx");
    struct amd_device *whole = open_amd("AMD:1@sim:gfx942*2");

    (void)state;
    assert_string_equal(a->base.info.model,
                        "Simulated gfx942, part 0 of 0000:03:00.0");
    assert_string_equal(b->base.info.model,
                        "Simulated gfx942, part 3 of 0000:0a:00.0");
    assert_string_equal(whole->base.info.model, "Simulated gfx942");
    assert_int_equal(a->topology.n_xcc, 1);
    hcq_device_close(&whole->base);
    hcq_device_close(&b->base);
    close_amd(a);
    a = open_amd("AMD:2@sim:mi300x*8,cpx");
    b = open_amd("AMD:63@sim:mi300x*8,cpx");
    copy_across(a, b);
    copy_across(b, a);
    hcq_device_close(&b->base);
    close_amd(a);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(small_window), cmocka_unit_test(virtual_function),
        cmocka_unit_test(stores_wait),  cmocka_unit_test(host_store_is_polled),
        cmocka_unit_test(reads_flush),  cmocka_unit_test(host_memory),
        cmocka_unit_test(partitions),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
