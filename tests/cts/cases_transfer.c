/* Copies, fills, writes, polls. */
#include "cts.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "hcq/hcq_backend.h"

/* Copies size bytes between odd offsets and compares, borders included. */
static void
check_copy(struct cts *t, struct hcq_queue *queue, uint64_t size,
           uint64_t src_off, uint64_t dst_off)
{
    uint64_t total = size + 64;
    struct hcq_buffer *src = cts_buffer(t, total), *dst = cts_buffer(t, total);
    unsigned char *in = malloc(total), *out = malloc(total);
    struct hcq_cs *cs = cts_begin(queue);

    CHECK(in && out, "test memory");
    cts_pattern(in, total, (unsigned)(size + src_off));
    memset(out, 0x11, total);
    OK(hcq_buffer_write(src, 0, in, total));
    OK(hcq_buffer_write(dst, 0, out, total));
    hcq_cs_copy(cs, dst->va + dst_off, src->va + src_off, size);
    cts_finish(queue, cs);
    OK(hcq_buffer_read(dst, 0, out, total));
    CHECK(memcmp(out + dst_off, in + src_off, size) == 0,
          "%zu bytes, offsets %zu and %zu", (size_t)size, (size_t)src_off,
          (size_t)dst_off);
    CHECK(dst_off == 0 || out[dst_off - 1] == 0x11, "before it");
    CHECK(out[dst_off + size] == 0x11, "after it");
    hcq_buffer_destroy(src);
    hcq_buffer_destroy(dst);
    free(in);
    free(out);
}

static void
copies(struct cts *t)
{
    static const uint64_t sizes[] = {0,
                                     1,
                                     2,
                                     3,
                                     7,
                                     15,
                                     16,
                                     31,
                                     63,
                                     64,
                                     65,
                                     255,
                                     4095,
                                     4096,
                                     4097,
                                     9999,
                                     (1 << 18) - 1,
                                     1 << 18,
                                     262145,
                                     (2 << 20),
                                     (2 << 20) + 1};
    struct hcq_queue *queues[2] = {t->queue, t->copy};
    size_t s, q;

    for (q = 0; q < 2; q++) {
        for (s = 0; s < ARRAY_LEN(sizes); s++) {
            check_copy(t, queues[q], sizes[s], 0, 0);
            check_copy(t, queues[q], sizes[s], 1, 0);
            check_copy(t, queues[q], sizes[s], 3, 13);
        }
    }
}

/* The queue's copy may be a simulated kernel's, which sanitizers make slow: a
 * sixteenth of it has the same parts. */
static void
copy_64_mib(struct cts *t)
{
    const unsigned bytes = CTS_ASAN || CTS_TSAN ? 4u << 20 : 64u << 20;

    check_copy(t, t->copy, 64u << 20, 0, 0);
    check_copy(t, t->queue, bytes - 5, 1, 7);
}

/* Large transfers within a device may be a kernel's: every alignment of both
 * ends, lengths beside multiples of what it takes at once, and nothing written
 * outside. One submission does all, in order, and sees all of what it did. */
#define EDGE      64u
#define BIG_BYTES ((128u << 10) + 3 * EDGE)

static void
large_at_any_alignment(struct cts *t)
{
    struct hcq_buffer *src = cts_buffer(t, BIG_BYTES + EDGE);
    struct hcq_buffer *dst = cts_buffer(t, BIG_BYTES + 2 * EDGE);
    struct hcq_buffer *seen = cts_buffer(t, BIG_BYTES + 2 * EDGE);
    unsigned char *in = malloc(BIG_BYTES + EDGE);
    unsigned char *want = malloc(BIG_BYTES + 2 * EDGE);
    unsigned char *out = malloc(BIG_BYTES + 2 * EDGE);
    const uint32_t pattern = 0xd4c3b2a1;
    const unsigned step = CTS_EVERY(5); /* odd: both orders */
    unsigned i, j;

    CHECK(in && want && out, "test memory");
    cts_pattern(in, BIG_BYTES + EDGE, 5);
    OK(hcq_buffer_write(src, 0, in, BIG_BYTES + EDGE));
    for (i = 0; i < EDGE; i += step) {
        uint64_t from = i, to = i * 37 % EDGE, size = BIG_BYTES - i * 3;
        uint64_t at = (i * 5 % EDGE) & ~3u, n = BIG_BYTES - i * 5;
        struct hcq_cs *cs = cts_begin(t->queue);

        hcq_cs_fill(cs, dst->va, 0x11111111, BIG_BYTES + 2 * EDGE);
        if (i % 2)
            hcq_cs_fill(cs, dst->va + at, pattern, n);
        hcq_cs_copy(cs, dst->va + to, src->va + from, size);
        if (i % 2 == 0)
            hcq_cs_fill(cs, dst->va + at, pattern, n);
        hcq_cs_copy(cs, seen->va, dst->va, BIG_BYTES + 2 * EDGE);
        cts_finish(t->queue, cs);
        memset(want, 0x11, BIG_BYTES + 2 * EDGE);
        if (i % 2 == 0)
            memcpy(want + to, in + from, size);
        for (j = 0; j < n; j++)
            want[at + j] = (unsigned char)(pattern >> j % 4 * 8);
        if (i % 2)
            memcpy(want + to, in + from, size);
        OK(hcq_buffer_read(seen, 0, out, BIG_BYTES + 2 * EDGE));
        for (j = 0; j < BIG_BYTES + 2 * EDGE; j++)
            CHECK(out[j] == want[j],
                  "byte %u: 0x%02x, not 0x%02x; %zu bytes from %zu to %zu, "
                  "%zu filled at %zu",
                  j, out[j], want[j], (size_t)size, (size_t)from, (size_t)to,
                  (size_t)n, (size_t)at);
    }
    free(in);
    free(want);
    free(out);
}

/* Up to the last byte of memory of its own, of which nothing behind is mapped;
 * the source ends there as well. */
static void
large_to_the_end(struct cts *t)
{
    uint64_t size = 16u << 20, n = 256u << 10, i;
    struct hcq_buffer *src = cts_buffer(t, size), *dst = cts_buffer(t, size);
    unsigned char *in = malloc(n), *out = malloc(n);
    const uint64_t step = CTS_EVERY(5);
    struct hcq_cs *cs;

    CHECK(in && out, "test memory");
    cts_pattern(in, n, 9);
    OK(hcq_buffer_write(src, size - n, in, n));
    for (i = 1; i < 20; i += step) {
        cs = cts_begin(t->queue);
        hcq_cs_fill(cs, dst->va + size - n, 0x11111111, n);
        hcq_cs_copy(cs, dst->va + size - n + i, src->va + size - n + i, n - i);
        cts_finish(t->queue, cs);
        OK(hcq_buffer_read(dst, size - n, out, n));
        CHECK(out[i - 1] == 0x11 && memcmp(out + i, in + i, n - i) == 0, "%zu",
              (size_t)i);
        cs = cts_begin(t->queue);
        hcq_cs_copy(cs, dst->va + size - n, src->va + size - n + i, n - i);
        cts_finish(t->queue, cs);
        OK(hcq_buffer_read(dst, size - n, out, n));
        CHECK(memcmp(out, in + i, n - i) == 0 &&
                  memcmp(out + n - i, in + n - i, i) == 0,
              "%zu", (size_t)i);
    }
    free(in);
    free(out);
}

/* Through staging memory in pieces: any alignment of the host's memory, sizes
 * beside those of pieces; what lies around stays. */
static void
large_from_the_host(struct cts *t)
{
    static const uint64_t sizes[] = {65537, (256u << 10) - 1, (512u << 10) + 63,
                                     (2u << 20) + 5, (3u << 20) + 17};
    uint64_t total = (3u << 20) + 2 * EDGE + 17;
    struct hcq_buffer *buf = cts_buffer(t, 16u << 20);
    unsigned char *in = malloc(total), *out = malloc(total);
    unsigned i;

    CHECK(in && out, "test memory");
    for (i = 0; i < 20; i++) {
        uint64_t n = sizes[i % ARRAY_LEN(sizes)], at = i * 7 % EDGE;

        cts_pattern(in, total, i + 1);
        memset(out, 0x11, total);
        OK(hcq_buffer_write(buf, 0, out, total));
        OK(hcq_buffer_write(buf, at, in + i, n));
        OK(hcq_buffer_read(buf, at, out + EDGE - i, n));
        CHECK(memcmp(out + EDGE - i, in + i, n) == 0, "%zu bytes", (size_t)n);
        CHECK(out[EDGE - i - 1] == 0x11 && out[EDGE - i + n] == 0x11, "around");
        OK(hcq_buffer_read(buf, 0, out, total));
        CHECK((at == 0 || out[at - 1] == 0x11) && out[at + n] == 0x11,
              "around %zu bytes on the device", (size_t)n);
    }
    free(in);
    free(out);
}

/* A kernel's results are copied, and copies are a kernel's input. */
static void
large_between_kernels(struct cts *t)
{
    struct hcq_program *prog = cts_program(t, CTS_ADD_ONE);
    uint64_t n = 1u << 15; /* of 4 bytes */
    struct hcq_buffer *a = cts_ints(t, n, 0), *b = cts_ints(t, n, 0);
    struct hcq_stream *stream;
    struct hcq_cs *cs;
    int i;

    OK(hcq_stream_create(t->queue, "copies", &stream));
    cs = hcq_stream_cs(stream);
    for (i = 0; i < 4; i++) {
        cts_exec(cs, prog, 8, ARGS(a->va, a->va, n / 8));
        hcq_cs_copy(cs, b->va, a->va, n * 4);
        cts_exec(cs, prog, 8, ARGS(b->va, b->va, n / 8));
        hcq_cs_copy(cs, a->va, b->va, n * 4);
    }
    OK(hcq_stream_end(stream));
    for (i = 1; i <= 3; i++) {
        OK(hcq_stream_submit(stream, NULL));
        OK(hcq_stream_wait(stream, LONG_NS));
        CHECK(cts_int(a, 0) == 8 * i && cts_int(a, n / 2) == 8 * i &&
                  cts_int(b, n - 1) == 8 * i,
              "%d, %d, %d", cts_int(a, 0), cts_int(a, n / 2),
              cts_int(b, n - 1));
    }
}

/* One byte at a time from the host, with device copies in between: nothing
 * may be staged where an earlier copy still reads. */
static void
small_copies(struct cts *t)
{
    struct hcq_buffer *a = cts_buffer(t, 256), *b = cts_buffer(t, 256);
    struct hcq_signal *sig = cts_signal(t, 0);
    unsigned char out[256];
    unsigned i;

    for (i = 0; i < 256; i++) {
        unsigned char byte = (unsigned char)(i * 7);
        struct hcq_cs *cs;

        OK(hcq_buffer_write(a, i, &byte, 1));
        cs = cts_begin(t->copy);
        hcq_cs_barrier(cs);
        hcq_cs_copy(cs, b->va + i, a->va + i, 1);
        hcq_cs_signal(cs, sig, i + 1);
        OK(hcq_cs_submit(cs, NULL));
        if (i % 16 == 15) {
            OK(hcq_signal_wait(sig, i + 1, LONG_NS));
            OK(hcq_buffer_read(b, i, out, 1));
            CHECK(out[0] == byte, "%u", i);
        }
    }
    OK(hcq_queue_wait(t->copy, LONG_NS));
    OK(hcq_buffer_read(b, 0, out, 256));
    for (i = 0; i < 256; i++)
        CHECK(out[i] == (unsigned char)(i * 7), "%u", i);
}

/* A chain of copies through many buffers: order within a queue. */
static void
copy_chain(struct cts *t)
{
    struct hcq_buffer *bufs[32];
    struct hcq_cs *cs;
    size_t i;

    for (i = 0; i < ARRAY_LEN(bufs); i++)
        bufs[i] = cts_ints(t, 1000, (int32_t)i);
    cs = cts_begin(t->copy);
    for (i = 1; i < ARRAY_LEN(bufs); i++)
        hcq_cs_copy(cs, bufs[i]->va, bufs[i - 1]->va, 4000);
    cts_finish(t->copy, cs);
    CHECK(cts_int(bufs[31], 0) == 0 && cts_int(bufs[31], 999) == 0, "%d",
          cts_int(bufs[31], 0));
}

static void
fills(struct cts *t)
{
    static const uint64_t sizes[] = {
        0, 1, 2, 3, 4, 5, 64, 4093, 4096, 99999, (3 << 20) + 2};
    const uint32_t pattern = 0xd4c3b2a1;
    struct hcq_queue *queues[2] = {t->queue, t->copy};
    size_t s, q;

    for (q = 0; q < 2; q++) {
        for (s = 0; s < ARRAY_LEN(sizes); s++) {
            uint64_t size = sizes[s], total = size + 16, i;
            struct hcq_buffer *buf = cts_buffer(t, total);
            unsigned char *out = malloc(total);
            struct hcq_cs *cs = cts_begin(queues[q]);

            CHECK(out, "test memory");
            memset(out, 0x11, total);
            OK(hcq_buffer_write(buf, 0, out, total));
            hcq_cs_fill(cs, buf->va + 8, pattern, size);
            cts_finish(queues[q], cs);
            OK(hcq_buffer_read(buf, 0, out, total));
            for (i = 0; i < size; i++)
                CHECK(out[8 + i] == (unsigned char)(pattern >> i % 4 * 8),
                      "size %zu, byte %zu", (size_t)size, (size_t)i);
            CHECK(out[7] == 0x11 && out[8 + size] == 0x11, "border");
            hcq_buffer_destroy(buf);
            free(out);
        }
    }
}

static void
writes(struct cts *t)
{
    struct hcq_buffer *buf = cts_buffer(t, 64);
    struct hcq_cs *cs = cts_begin(t->queue);
    unsigned char zero[64] = {0};
    uint64_t seen[8];

    OK(hcq_buffer_write(buf, 0, zero, 64));
    hcq_cs_write(cs, buf->va, 0x1122334455667788, 64);
    hcq_cs_write(cs, buf->va + 8, 0xffffffff, 32);
    hcq_cs_write(cs, buf->va + 20, 0xaabbccdd, 32);
    cts_finish(t->queue, cs);
    cs = cts_begin(t->copy);
    hcq_cs_write(cs, buf->va + 32, UINT64_MAX, 64);
    cts_finish(t->copy, cs);
    OK(hcq_buffer_read(buf, 0, seen, 64));
    CHECK(seen[0] == 0x1122334455667788, "64 bits");
    CHECK(seen[1] == 0xffffffff && seen[2] == 0xaabbccddull << 32, "32 bits");
    CHECK(seen[3] == 0 && seen[4] == UINT64_MAX && seen[5] == 0, "others");
}

/* Bits alone, where the device can: else they are refused, and polls of whole
 * words stand for them. */
static void
polls(struct cts *t)
{
    struct hcq_queue *queues[2] = {t->queue, t->copy};
    struct hcq_signal *sig = cts_signal(t, 0);
    bool bits = (t->info.flags & HCQ_DEVICE_POLL_MASKS) != 0;
    uint32_t all = UINT32_MAX;
    struct hcq_buffer *buf;
    int i;

    OK(hcq_buffer_create(t->dev, 64, HCQ_MEM_HOST_VISIBLE, &buf));
    for (i = 0; i < 2; i++) {
        uint32_t *word = (uint32_t *)buf->host + i;
        uint64_t at = (uint64_t)i * 10;
        struct hcq_cs *cs = cts_begin(queues[i]);

        if (!bits) {
            hcq_cs_poll(cs, buf->va, 0x30, 0x30);
            FAILS(hcq_cs_submit(cs, NULL), BELL_E_UNSUPPORTED,
                  "poll of the bits 0x30");
            cs = cts_begin(queues[i]);
        }
        __atomic_store_n(word, 0xf0, __ATOMIC_RELEASE);
        hcq_cs_poll(cs, buf->va + (uint64_t)i * 4, bits ? 0x30 : all,
                    bits ? 0x30 : 0xf0); /* set */
        hcq_cs_signal(cs, sig, at + 1);
        hcq_cs_poll(cs, buf->va + (uint64_t)i * 4, bits ? 0x80 : all,
                    bits ? 0 : 0x70); /* clear */
        hcq_cs_signal(cs, sig, at + 2);
        hcq_cs_poll(cs, buf->va + (uint64_t)i * 4, UINT32_MAX, 0xabcd0123);
        hcq_cs_signal(cs, sig, at + 3);
        OK(hcq_cs_submit(cs, NULL));
        OK(hcq_signal_wait(sig, at + 1, LONG_NS));
        HANGS(hcq_signal_wait(sig, at + 2, 10 * MS_NS), "poll");
        __atomic_store_n(word, 0x70, __ATOMIC_RELEASE);
        OK(hcq_signal_wait(sig, at + 2, LONG_NS));
        HANGS(hcq_signal_wait(sig, at + 3, 5 * MS_NS), "0xabcd0123");
        __atomic_store_n(word, 0xabcd0123, __ATOMIC_RELEASE);
        OK(hcq_signal_wait(sig, at + 3, LONG_NS));
        OK(hcq_queue_wait(queues[i], LONG_NS));
    }
}

/* A queue polls what the other one writes. */
static void
poll_other_queue(struct cts *t)
{
    struct hcq_buffer *buf = cts_ints(t, 16, 0);
    struct hcq_cs *cs = cts_begin(t->queue);
    int i;

    for (i = 1; i <= 50; i++) {
        hcq_cs_poll(cs, buf->va, UINT32_MAX, (uint32_t)i);
        hcq_cs_write(cs, buf->va + 32, (uint32_t)i, 32);
    }
    OK(hcq_cs_submit(cs, NULL));
    cs = cts_begin(t->copy);
    for (i = 1; i <= 50; i++) {
        hcq_cs_write(cs, buf->va, (uint32_t)i, 32);
        hcq_cs_poll(cs, buf->va + 32, UINT32_MAX, (uint32_t)i);
    }
    cts_finish(t->copy, cs);
    OK(hcq_queue_wait(t->queue, LONG_NS));
}

/* A kernel's result is copied out by the copy queue and used again. */
static void
copy_after_exec(struct cts *t)
{
    struct hcq_program *prog = cts_program(t, CTS_ADD_ONE);
    struct hcq_buffer *a = cts_ints(t, 4096, 0), *b = cts_ints(t, 4096, 0);
    struct hcq_signal *sig = cts_signal(t, 0);
    uint64_t v = 0;
    int i;

    for (i = 0; i < 100; i++) {
        struct hcq_cs *cs = cts_begin(t->queue);

        hcq_cs_wait(cs, sig, v);
        hcq_cs_barrier(cs);
        cts_exec(cs, prog, 8, ARGS(a->va, a->va, 512));
        hcq_cs_signal(cs, sig, ++v);
        OK(hcq_cs_submit(cs, NULL));
        cs = cts_begin(t->copy);
        hcq_cs_wait(cs, sig, v);
        hcq_cs_copy(cs, b->va, a->va, 4096 * 4);
        hcq_cs_copy(cs, a->va, b->va, 4096 * 4);
        hcq_cs_signal(cs, sig, ++v);
        OK(hcq_cs_submit(cs, NULL));
    }
    OK(hcq_device_synchronize(t->dev, LONG_NS));
    CHECK(cts_int(b, 0) == 100 && cts_int(a, 4095) == 100, "%d", cts_int(b, 0));
}

static void
misaligned(struct cts *t)
{
    struct hcq_cs *cs = cts_begin(t->queue);

    hcq_cs_fill(cs, 0x1002, 0, 4);
    FAILS(hcq_cs_submit(cs, NULL), BELL_E_INVALID, "fill at 0x1002");
    cs = cts_begin(t->queue);
    hcq_cs_write(cs, 0x1004, 0, 64);
    FAILS(hcq_cs_submit(cs, NULL), BELL_E_INVALID, "write at 0x1004");
    cs = cts_begin(t->queue);
    hcq_cs_write(cs, 0x1000, 0, 16);
    FAILS(hcq_cs_submit(cs, NULL), BELL_E_INVALID, "16 bits");
    cs = cts_begin(t->queue);
    hcq_cs_write(cs, 0x1000, 1ull << 32, 32);
    FAILS(hcq_cs_submit(cs, NULL), BELL_E_INVALID, "0x100000000");
    cs = cts_begin(t->queue);
    hcq_cs_poll(cs, 0x1001, 1, 1);
    FAILS(hcq_cs_submit(cs, NULL), BELL_E_INVALID, "poll at 0x1001");
}

/* Either side of a transfer that ends behind the last address. */
static void
beyond_all_addresses(struct cts *t)
{
    struct hcq_buffer *buf = cts_buffer(t, 64);
    struct hcq_queue *queues[2] = {t->queue, t->copy};
    const uint64_t last = UINT64_MAX - 63;
    int i;

    for (i = 0; i < 2; i++) {
        struct hcq_cs *cs = cts_begin(queues[i]);

        hcq_cs_copy(cs, buf->va, last, 64);
        FAILS(hcq_cs_submit(cs, NULL), BELL_E_INVALID, "copy from of 64 bytes");
        cs = cts_begin(queues[i]);
        hcq_cs_copy(cs, last, buf->va, 64);
        FAILS(hcq_cs_submit(cs, NULL), BELL_E_INVALID, "copy to of 64 bytes");
        cs = cts_begin(queues[i]);
        hcq_cs_fill(cs, last, 0, 64);
        FAILS(hcq_cs_submit(cs, NULL), BELL_E_INVALID, "fill of 64 bytes");
    }
    hcq_buffer_destroy(buf);
}

/* ---- words of the card's own ---- */

/* A word that does nothing, by the queue's dialect; 0: it has no words. */
static uint32_t
idle_word(const struct hcq_queue *queue, uint32_t words[2])
{
    static const uint32_t idle[][2] = {
        [HCQ_WORDS_NV] = {0x20010002, 0}, /* the host's NOP, of one word */
        [HCQ_WORDS_PM4] = {0xffff1000, 0xffff1000},
        [HCQ_WORDS_SDMA] = {0, 0},
        [HCQ_WORDS_PKT7] = {0x70108000, 0x70108000}, /* NOP */
    };

    memcpy(words, idle[queue->words], sizeof(idle[0]));
    return queue->words != HCQ_WORDS_NONE ? 2 : 0;
}

/* Between other commands, fresh and bound, as many as one call takes; what is
 * refused leaves the queue as it was. */
static void
raw_words(struct cts *t)
{
    struct hcq_queue *queues[2] = {t->queue, t->copy};
    struct hcq_buffer *buf = cts_buffer(t, 64);
    uint32_t words[HCQ_WORDS_MAX + 1], n, i, k;
    struct hcq_stream *stream;
    struct hcq_cs *cs;

    for (i = 0; i < 2; i++) {
        n = idle_word(queues[i], words);
        cs = cts_begin(queues[i]);
        if (!n) {
            hcq_cs_words(cs, words, 1, 0);
            FAILS(hcq_cs_submit(cs, NULL), BELL_E_UNSUPPORTED, "words");
            continue;
        }
        for (k = 2; k < HCQ_WORDS_MAX + 1; k++)
            words[k] = words[k % 2];
        hcq_cs_fill(cs, buf->va, 1, 32);
        hcq_cs_words(cs, words, 2, 0);
        hcq_cs_words(cs, words, 0, 0);
        hcq_cs_words(cs, words, HCQ_WORDS_MAX, 0);
        hcq_cs_words(cs, words, 2, HCQ_WORDS_UNCHECKED);
        hcq_cs_fill(cs, buf->va + 32, 2, 32);
        cts_finish(queues[i], cs);
        if (!(t->info.flags & HCQ_DEVICE_NULL))
            CHECK(cts_int(buf, 7) == 1 && cts_int(buf, 8) == 2, "%d",
                  cts_int(buf, 8));

        cs = cts_begin(queues[i]);
        hcq_cs_words(cs, words, HCQ_WORDS_MAX + 1, HCQ_WORDS_UNCHECKED);
        FAILS(hcq_cs_submit(cs, NULL), BELL_E_INVALID, "257 words");
        cs = cts_begin(queues[i]);
        hcq_cs_words(cs, NULL, 1, 0);
        FAILS(hcq_cs_submit(cs, NULL), BELL_E_INVALID, "NULL");
        cs = cts_begin(queues[i]);
        hcq_cs_words(cs, (const uint32_t[]){0xfffffff3}, 1, 0);
        FAILS(hcq_cs_submit(cs, NULL), BELL_E_INVALID, "fffffff3");

        OK(hcq_stream_create(queues[i], "words", &stream));
        cs = hcq_stream_cs(stream);
        hcq_cs_words(cs, words, HCQ_WORDS_MAX, 0);
        hcq_cs_fill(cs, buf->va, 3, 32);
        hcq_cs_words(cs, words, 2, 0);
        OK(hcq_stream_end(stream));
        for (k = 0; k < 5; k++)
            OK(hcq_stream_submit(stream, NULL));
        OK(hcq_stream_wait(stream, LONG_NS));
        hcq_stream_destroy(stream);
        if (!(t->info.flags & HCQ_DEVICE_NULL))
            CHECK(cts_int(buf, 0) == 3, "%d", cts_int(buf, 0));
    }
}

const struct cts_case cts_transfer_cases[] = {
    {"copy sizes and offsets", copies},
    {"copy 64 MiB", copy_64_mib},
    {"copy and fill, large, at any alignment", large_at_any_alignment},
    {"copy, large, to the end of memory", large_to_the_end},
    {"copy, large, between kernels", large_between_kernels},
    {"write and read, large, at any alignment", large_from_the_host},
    {"copy single bytes between host writes", small_copies},
    {"copy chain", copy_chain},
    {"copy after exec on another queue", copy_after_exec},
    {"fill", fills},
    {"write 32 and 64 bits", writes},
    {"poll set and clear", polls},
    {"poll another queue's writes", poll_other_queue},
    {"misaligned commands are refused", misaligned},
    {"copy and fill beyond all addresses", beyond_all_addresses},
    {"words of the card's own", raw_words},
    {NULL, NULL},
};
