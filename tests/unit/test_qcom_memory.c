/* Memory of hcq/qcom on simulated chips: bytes that share a cache line with
 * what the chip stored, words that are polled, memory of the host, signals of
 * other devices, how much may be under way, and what is refused.
 */
#include "tests/unit/expect.h"

#include <sched.h>
#include <stdlib.h>

#include "base/bits.h"
#include "hcq/qcom/qcom.h"
#include "ioctl/kio_fault.h"

#define SIZE_BYTES 8192u

/* No wait of a test that passes takes so long. */
#define LONG_NS (60ull * 1000000000)

/* The first needs its cache lines moved. */
static const char *const cards[] = {"QCOM@sim:a630", "QCOM@sim:a740",
                                    "QCOM@sim:a740-msm"};

struct rig {
    struct hcq_device *dev;
    struct hcq_queue *queue;
};

static struct rig
open_rig(const char *card)
{
    struct rig r;

    expect_ok(hcq_device_open(card, &r.dev));
    expect_ok(hcq_queue_create(r.dev, HCQ_QUEUE_COMPUTE, &r.queue));
    return r;
}

static void
close_rig(struct rig *r)
{
    hcq_queue_destroy(r->queue);
    hcq_device_close(r->dev);
}

static void
finish(struct rig *r, struct hcq_cs *cs)
{
    expect_ok(hcq_cs_submit(cs, NULL));
    expect_ok(hcq_queue_wait(r->queue, LONG_NS));
}

/* Writes and reads of odd ranges leave alone what the chip stored beside them,
 * and what was written reaches the chip. */
static void
odd_ranges(const char *card, uint32_t flags)
{
    static const uint32_t ranges[][2] = {
        /* offset, bytes */
        {0, 1},    {61, 5},   {64, 64},        {127, 1}, {100, 200}, {128, 63},
        {191, 66}, {4095, 2}, {0, SIZE_BYTES}, {65, 0},  {8191, 1}};
    static uint8_t want[SIZE_BYTES], got[SIZE_BYTES + 1], data[SIZE_BYTES];
    struct rig r = open_rig(card);
    struct hcq_buffer *buf, *copy;
    struct hcq_cs *cs;
    uint32_t i, k;

    expect_ok(hcq_buffer_create(r.dev, SIZE_BYTES, flags, &buf));
    expect_ok(hcq_buffer_create(r.dev, SIZE_BYTES, flags, &copy));
    for (i = 0; i < ARRAY_LEN(ranges); i++) {
        const uint32_t at = ranges[i][0], n = ranges[i][1];

        expect_ok(hcq_queue_begin(r.queue, &cs));
        hcq_cs_fill(cs, buf->va, 0x01010101u * (i + 1), SIZE_BYTES);
        finish(&r, cs);
        memset(want, (int)i + 1, sizeof(want));
        for (k = 0; k < n; k++)
            want[at + k] = data[k] = (uint8_t)(0x80 + i + k);
        expect_ok(hcq_buffer_write(buf, at, data, n));
        memset(got, 0, sizeof(got));
        expect_ok(hcq_buffer_read(buf, 0, got, SIZE_BYTES));
        assert_memory_equal(got, want, SIZE_BYTES);
        expect_ok(hcq_queue_begin(r.queue, &cs));
        hcq_cs_copy(cs, copy->va, buf->va, SIZE_BYTES);
        finish(&r, cs);
        memset(got, 0xff, sizeof(got));
        expect_ok(hcq_buffer_read(copy, at, got, n));
        assert_memory_equal(got, data, n);
        assert_int_equal(got[n], 0xff);
        expect_ok(hcq_buffer_read(copy, 0, got, SIZE_BYTES));
        assert_memory_equal(got, want, SIZE_BYTES);
    }
    hcq_buffer_destroy(copy);
    hcq_buffer_destroy(buf);
    close_rig(&r);
}

static void
bytes(void **state)
{
    size_t c;

    (void)state;
    for (c = 0; c < ARRAY_LEN(cards); c++) {
        odd_ranges(cards[c], 0);
        odd_ranges(cards[c], HCQ_MEM_HOST_VISIBLE);
    }
}

/* A queue that polls a word sees what another's work stores there. */
static void
polls(void **state)
{
    size_t c;

    (void)state;
    for (c = 0; c < ARRAY_LEN(cards); c++) {
        struct rig r = open_rig(cards[c]);
        struct hcq_queue *first = r.queue, *second;
        struct hcq_buffer *buf;
        struct hcq_signal *done;
        struct hcq_cs *cs;
        uint64_t value = 0;
        uint32_t at;

        expect_ok(hcq_queue_create(r.dev, HCQ_QUEUE_COMPUTE, &second));
        expect_ok(hcq_buffer_create(r.dev, SIZE_BYTES, 0, &buf));
        expect_ok(hcq_signal_create(r.dev, 0, &done));
        expect_ok(hcq_queue_begin(first, &cs));
        hcq_cs_fill(cs, buf->va, 3, SIZE_BYTES);
        finish(&r, cs);
        for (at = 60; at < SIZE_BYTES; at += 2716) {
            expect_ok(hcq_queue_begin(first, &cs));
            hcq_cs_poll(cs, buf->va + at, UINT32_MAX, 9);
            hcq_cs_signal(cs, done, ++value);
            expect_ok(hcq_cs_submit(cs, NULL));
            expect_fails(hcq_signal_wait(done, value, 5000000), BELL_E_TIMEOUT,
                         "");
            expect_ok(hcq_queue_begin(second, &cs));
            hcq_cs_write(cs, buf->va + at, 9, 32);
            expect_ok(hcq_cs_submit(cs, NULL));
            expect_ok(hcq_signal_wait(done, value, LONG_NS));
            expect_ok(hcq_queue_wait(first, LONG_NS));
            expect_ok(hcq_queue_wait(second, LONG_NS));
        }
        hcq_signal_destroy(done);
        hcq_buffer_destroy(buf);
        hcq_queue_destroy(second);
        close_rig(&r);
    }
}

/* Memory of the host at any place, where the chip sees the CPU's caches. */
static void
pins(void **state)
{
    static const uint32_t ranges[][2] = {{0, 4096},    {12, 1000}, {4090, 16},
                                         {4096, 4096}, {8192, 0},  {1, 8191}};
    struct rig r = open_rig("QCOM@sim:a740");
    uint8_t *memory = aligned_alloc(4096, 12288);
    struct hcq_buffer *buf, *pinned;
    struct hcq_cs *cs;
    uint32_t i, k;

    (void)state;
    assert_non_null(memory);
    expect_ok(hcq_buffer_create(r.dev, 12288, 0, &buf));
    for (i = 0; i < ARRAY_LEN(ranges); i++) {
        const uint32_t at = ranges[i][0], n = ranges[i][1];

        for (k = 0; k < 12288; k++)
            memory[k] = (uint8_t)(k * 7 + i);
        expect_ok(hcq_buffer_create_pinned(r.dev, memory + at, n, &pinned));
        assert_ptr_equal(pinned->host, memory + at);
        assert_int_equal(pinned->va % 4096, at % 4096);
        expect_ok(hcq_queue_begin(r.queue, &cs));
        hcq_cs_copy(cs, buf->va + at, pinned->va, n);
        finish(&r, cs);
        memset(memory + at, 0, n);
        expect_ok(hcq_queue_begin(r.queue, &cs));
        hcq_cs_copy(cs, pinned->va, buf->va + at, n);
        finish(&r, cs);
        for (k = 0; k < 12288; k++)
            assert_int_equal(memory[k], (uint8_t)(k * 7 + i));
        hcq_buffer_destroy(pinned);
    }
    hcq_buffer_destroy(buf);
    close_rig(&r);
    r = open_rig("QCOM@sim:a630");
    expect_fails(hcq_buffer_create_pinned(r.dev, memory, 4096, &pinned),
                 BELL_E_UNSUPPORTED, "pinned");
    close_rig(&r);
    r = open_rig("QCOM@sim:a740-msm");
    expect_fails(hcq_buffer_create_pinned(r.dev, memory, 4096, &pinned),
                 BELL_E_UNSUPPORTED, "msm has no call");
    close_rig(&r);
    free(memory);
}

/* A chip waits for another's signal by the host, and sets none of it. */
static void
signals_of_others(void **state)
{
    struct rig r = open_rig("QCOM@sim:a740"), other = open_rig("QCOM@sim:a740");
    struct hcq_device *cpu;
    struct hcq_signal *done, *sig, *foreign;
    struct hcq_cs *cs;

    (void)state;
    expect_ok(hcq_device_open("CPU", &cpu));
    expect_ok(hcq_signal_create(r.dev, 0, &done));
    expect_ok(hcq_signal_create(other.dev, 0, &sig));
    expect_ok(hcq_signal_create(cpu, 0, &foreign));
    expect_ok(hcq_queue_begin(r.queue, &cs));
    hcq_cs_wait(cs, sig, 5);
    hcq_cs_signal(cs, done, 1);
    expect_ok(hcq_cs_submit(cs, NULL));
    expect_fails(hcq_signal_wait(done, 1, 30000000), BELL_E_TIMEOUT, "");
    expect_ok(hcq_queue_begin(other.queue, &cs));
    hcq_cs_signal(cs, sig, 5);
    finish(&other, cs);
    expect_ok(hcq_signal_wait(done, 1, LONG_NS));
    expect_ok(hcq_queue_wait(r.queue, LONG_NS));
    expect_ok(hcq_queue_begin(r.queue, &cs));
    hcq_cs_signal(cs, sig, 6);
    expect_fails(hcq_cs_submit(cs, NULL), BELL_E_UNSUPPORTED,
                 "signal of another device's signal");
    expect_ok(hcq_queue_begin(r.queue, &cs));
    hcq_cs_timestamp(cs, sig);
    expect_fails(hcq_cs_submit(cs, NULL), BELL_E_UNSUPPORTED,
                 "timestamp of another device's signal");
    expect_ok(hcq_queue_begin(r.queue, &cs));
    hcq_cs_wait(cs, foreign, 1);
    expect_fails(hcq_cs_submit(cs, NULL), BELL_E_UNSUPPORTED,
                 "cannot use a signal of");
    assert_int_equal(hcq_signal_value(sig), 5);
    hcq_signal_destroy(foreign);
    hcq_signal_destroy(sig);
    hcq_signal_destroy(done);
    hcq_device_close(cpu);
    close_rig(&other);
    close_rig(&r);
}

/* Whose memory a range is in, at the borders of all there is, as one look at
 * each tells it. */
static void
places_of_memory(void **state)
{
    static const uint64_t sizes[] = {0,
                                     1,
                                     2,
                                     4096,
                                     SIZE_BYTES - 1,
                                     SIZE_BYTES,
                                     SIZE_BYTES + 1,
                                     3 * SIZE_BYTES,
                                     UINT64_MAX - 1,
                                     UINT64_MAX};
    static const int64_t steps[] = {-4097, -4096, -2, -1, 0, 1, 2, 4096, 4097};
    struct rig r = open_rig("QCOM@sim:a740");
    struct qcom_device *dev = qcom_device_of(r.dev);
    struct hcq_buffer *bufs[5];
    unsigned n_found = 0, n_none = 0;
    size_t b, s, k;

    (void)state;
    for (b = 0; b < ARRAY_LEN(bufs); b++)
        expect_ok(hcq_buffer_create(r.dev, SIZE_BYTES << b % 2, 0, &bufs[b]));
    /* one goes, others close up */
    hcq_buffer_destroy(bufs[2]);
    bufs[2] = NULL;
    hcq_memory_trim(r.dev);
    for (b = 0; b < 2 * ARRAY_LEN(bufs); b++) {
        const struct hcq_buffer *buf = bufs[b / 2];

        for (s = 0; buf && s < ARRAY_LEN(steps) * ARRAY_LEN(sizes); s++) {
            uint64_t size = sizes[s / ARRAY_LEN(steps)];
            uint64_t va = buf->va + (b % 2 ? buf->size_bytes : 0) +
                          (uint64_t)steps[s % ARRAY_LEN(steps)];
            const struct qcom_mem *want = NULL;
            struct qcom_mem got;
            uint8_t *cpu;

            for (k = 0; k < dev->n_maps; k++) {
                const struct qcom_mem *mem = dev->maps[k].mem;

                /* where two touch, the higher */
                if (va >= mem->va && va <= mem->va + mem->size_bytes &&
                    size <= mem->va + mem->size_bytes - va)
                    want = mem;
            }
            if (qcom_mem_find(dev, va, size, &got, &cpu)) {
                assert_non_null(want);
                assert_int_equal(got.va, want->va);
                assert_ptr_equal(cpu, (uint8_t *)want->cpu + (va - want->va));
                n_found++;
            } else {
                assert_null(want);
                n_none++;
            }
        }
    }
    assert_true(n_found > 50 && n_none > 50);
    for (b = 0; b < ARRAY_LEN(bufs); b++)
        hcq_buffer_destroy(bufs[b]);
    close_rig(&r);
}

/* Bound streams of waits: no more of them are under way than the queue has
 * pieces for, which they fill to the last or would by one too many, and none
 * overtakes another. */
static void
pieces(void **state)
{
    const struct hcq_queue_desc desc = {.struct_size = sizeof(desc),
                                        .kind = HCQ_QUEUE_COMPUTE,
                                        .submit_timeout_ns = 20000000};
    static const uint32_t n_waits[] = {100, 126, 111};
    struct rig r = open_rig("QCOM@sim:a740");
    uint32_t k, n, i, got[2];
    struct hcq_stream *stream;
    struct hcq_queue *queue;
    struct hcq_buffer *buf;
    struct hcq_signal *go;
    bell_status status;

    (void)state;
    expect_ok(hcq_queue_create_with(r.dev, &desc, &queue));
    expect_ok(hcq_signal_create(r.dev, 0, &go));
    expect_ok(hcq_buffer_create(r.dev, SIZE_BYTES, 0, &buf));
    for (k = 0; k < ARRAY_LEN(n_waits); k++) {
        expect_ok(hcq_stream_create(queue, "waits", &stream));
        for (i = 0; i < n_waits[k]; i++)
            hcq_cs_wait(hcq_stream_cs(stream), go, k + 1);
        hcq_cs_fill(hcq_stream_cs(stream), buf->va, 0x77777777 + k, 8);
        expect_ok(hcq_stream_end(stream));
        n = 0;
        while ((status = hcq_stream_submit(stream, NULL)) == BELL_OK)
            n++;
        expect_fails(status, BELL_E_TIMEOUT, "no room for");
        /* before the waits, from each wait on, the signal */
        assert_int_equal(n, QCOM_FEED_PIECES / (1 + n_waits[k] + 1));
        hcq_signal_set(go, k + 1);
        expect_ok(hcq_queue_wait(queue, LONG_NS));
        expect_ok(hcq_stream_submit(stream, NULL));
        expect_ok(hcq_stream_wait(stream, LONG_NS));
        expect_ok(hcq_buffer_read(buf, 0, got, sizeof(got)));
        assert_int_equal(got[1], 0x77777777 + k);
        hcq_stream_destroy(stream);
    }
    hcq_buffer_destroy(buf);
    hcq_signal_destroy(go);
    hcq_queue_destroy(queue);
    close_rig(&r);
}

/* The last pieces are a fresh submission's, if it takes no more of them. */
static void
last_pieces(void **state)
{
    const struct hcq_queue_desc desc = {.struct_size = sizeof(desc),
                                        .kind = HCQ_QUEUE_COMPUTE,
                                        .submit_timeout_ns = 20000000};
    struct rig r = open_rig("QCOM@sim:a740");
    struct hcq_stream *stream;
    struct hcq_queue *queue;
    struct hcq_signal *go;
    struct hcq_cs *cs;
    uint32_t i, k;

    (void)state;
    expect_ok(hcq_queue_create_with(r.dev, &desc, &queue));
    expect_ok(hcq_signal_create(r.dev, 0, &go));
    expect_ok(hcq_stream_create(queue, "waits", &stream));
    for (i = 0; i < 126; i++)
        hcq_cs_wait(hcq_stream_cs(stream), go, 1);
    expect_ok(hcq_stream_end(stream));
    for (i = 0; i < QCOM_FEED_PIECES / 128 - 1; i++)
        expect_ok(hcq_stream_submit(stream, NULL));
    for (k = 128; k >= 127; k--) { /* waits, and what is before them */
        expect_ok(hcq_queue_begin(queue, &cs));
        for (i = 0; i < k; i++)
            hcq_cs_wait(cs, go, 1);
        if (k == 128)
            expect_fails(hcq_cs_submit(cs, NULL), BELL_E_TIMEOUT,
                         "and 129 waits in a ring of");
        else
            expect_ok(hcq_cs_submit(cs, NULL));
    }
    hcq_signal_set(go, 1);
    expect_ok(hcq_queue_wait(queue, LONG_NS));
    hcq_stream_destroy(stream);
    hcq_signal_destroy(go);
    hcq_queue_destroy(queue);
    close_rig(&r);
}

/* Looking for faults leaves the thread's error as it is, found or not, and
 * where the kernel does not answer. */
static void
errors_stay(void **state)
{
    static const char *const names[] = {
        "QCOM@fault:poll:1000000=EIO@sim:a740",
        "QCOM@fault:poll:1000000=EIO@sim:a740-msm"};
    static const char *const plans[] = {
        "poll:1000000=EIO",
        "IOCTL_KGSL_DEVICE_GETPROPERTY:1+=EIO,DRM_IOCTL_MSM_SUBMITQUEUE_QUERY:1"
        "+=EIO"};
    size_t i, k;

    (void)state;
    for (i = 0; i < 2 * ARRAY_LEN(names); i++) {
        struct rig r = open_rig(names[i / 2]);
        struct qcom_device *dev = qcom_device_of(r.dev);
        struct qcom_fault_record record = {0};

        expect_ok(kio_fault_set(dev->kio, plans[i % 2]));
        for (k = 0; k < 3; k++) {
            expect_fails(bell_fail(BELL_E_IO, "before %zu", k), BELL_E_IO, "");
            assert_false(dev->kernel->faulted(
                dev, &qcom_queue_of(r.queue)->feed.context, &record));
            assert_int_equal(bell_error_last()->status, BELL_E_IO);
            assert_int_equal(bell_error_last()->message[7], '0' + k);
        }
        expect_ok(kio_fault_set(dev->kio, plans[0]));
        close_rig(&r);
    }
}

/* A submission behind one that waits is left to the thread that looks at that
 * one: while it has the lock, nobody waits for it. */
static void
left_to_the_feed(void **state)
{
    size_t c;

    (void)state;
    for (c = 0; c < ARRAY_LEN(cards); c++) {
        struct rig r = open_rig(cards[c]);
        struct qcom_feed *feed = &qcom_queue_of(r.queue)->feed;
        struct hcq_signal *go;
        struct hcq_buffer *buf;
        struct hcq_cs *cs;
        uint32_t value, i;

        expect_ok(hcq_buffer_create(r.dev, SIZE_BYTES, 0, &buf));
        expect_ok(hcq_signal_create(r.dev, 0, &go));
        expect_ok(hcq_queue_begin(r.queue, &cs));
        hcq_cs_wait(cs, go, 1);
        hcq_cs_fill(cs, buf->va, 1, 4);
        expect_ok(hcq_cs_submit(cs, NULL));
        while (!feed->is_awake)
            sched_yield();
        pthread_mutex_lock(&feed->lock);
        for (i = 2; i < 5; i++) {
            expect_ok(hcq_queue_begin(r.queue, &cs));
            hcq_cs_fill(cs, buf->va, i, 4);
            expect_ok(hcq_cs_submit(cs, NULL));
        }
        pthread_mutex_unlock(&feed->lock);
        hcq_signal_set(go, 1);
        expect_ok(hcq_queue_wait(r.queue, LONG_NS));
        expect_ok(hcq_buffer_read(buf, 0, &value, sizeof(value)));
        assert_int_equal(value, 4);
        hcq_signal_destroy(go);
        hcq_buffer_destroy(buf);
        close_rig(&r);
    }
}

static void
refused(void **state)
{
    struct rig r = open_rig("QCOM@sim:a740");
    struct hcq_buffer *buf;
    struct hcq_cs *cs;

    (void)state;
    expect_fails(hcq_buffer_create(r.dev, 1ull << 46, 0, &buf),
                 BELL_E_NO_MEMORY, "70368744177664 bytes");
    expect_ok(hcq_buffer_create(r.dev, SIZE_BYTES, 0, &buf));
    expect_ok(hcq_queue_begin(r.queue, &cs));
    hcq_cs_fill(cs, buf->va, 7, 64);
    finish(&r, cs);
    hcq_buffer_destroy(buf);
    close_rig(&r);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bytes),
        cmocka_unit_test(polls),
        cmocka_unit_test(pins),
        cmocka_unit_test(signals_of_others),
        cmocka_unit_test(places_of_memory),
        cmocka_unit_test(pieces),
        cmocka_unit_test(last_pieces),
        cmocka_unit_test(errors_stay),
        cmocka_unit_test(left_to_the_feed),
        cmocka_unit_test(refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
