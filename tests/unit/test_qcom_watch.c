/* What hcq/qcom tells those who record it, by both of Adreno's kernel drivers:
 * a run on a simulated chip is recorded and replayed, a run that submits
 * something else is told from it.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "hcq/hcq.h"
#include "ioctl/cassette.h"
#include "ioctl/kio.h"

#define SIZE_BYTES 4096u
#define SUBMITS    5u

/* No wait of a test that passes takes so long. */
#define LONG_NS (60ull * 1000000000)

static const char *const chips[] = {"a630", "a740", "a740-msm", "a750"};

/* Copies, fresh and bound, each waited for. The result is the first failure;
 * out: the words that the last copy leaves. */
static bell_status
run(const char *device, uint32_t copy_bytes, uint32_t *out)
{
    struct hcq_buffer *from = NULL, *to = NULL;
    struct hcq_queue *queue = NULL;
    struct hcq_device *dev = NULL;
    struct hcq_stream *stream = NULL;
    struct hcq_cs *cs;
    bell_status status;
    uint32_t i;

    status = hcq_device_open(device, &dev);
    if (status == BELL_OK)
        status = hcq_queue_create(dev, HCQ_QUEUE_COMPUTE, &queue);
    if (status == BELL_OK)
        status =
            hcq_buffer_create(dev, SIZE_BYTES, HCQ_MEM_HOST_VISIBLE, &from);
    if (status == BELL_OK)
        status = hcq_buffer_create(dev, SIZE_BYTES, HCQ_MEM_HOST_VISIBLE, &to);
    for (i = 0; i < SUBMITS && status == BELL_OK; i++) {
        status = hcq_queue_begin(queue, &cs);
        if (status != BELL_OK)
            break;
        hcq_cs_fill(cs, from->va, i + 1, 64);
        hcq_cs_copy(cs, to->va, from->va, copy_bytes);
        status = hcq_cs_submit(cs, NULL);
        if (status == BELL_OK)
            status = hcq_queue_wait(queue, LONG_NS);
    }
    if (status == BELL_OK)
        status = hcq_stream_create(queue, "bound", &stream);
    if (status == BELL_OK) {
        hcq_cs_fill(hcq_stream_cs(stream), from->va, 77, 64);
        hcq_cs_copy(hcq_stream_cs(stream), to->va, from->va, copy_bytes);
        status = hcq_stream_end(stream);
    }
    for (i = 0; i < SUBMITS && status == BELL_OK; i++) {
        status = hcq_stream_submit(stream, NULL);
        if (status == BELL_OK)
            status = hcq_stream_wait(stream, LONG_NS);
    }
    if (status == BELL_OK)
        status = hcq_buffer_read(to, 0, out, 64);
    if (status == BELL_OK) { /* else closing drops what hangs */
        hcq_stream_destroy(stream);
        hcq_buffer_destroy(to);
        hcq_buffer_destroy(from);
        hcq_queue_destroy(queue);
    }
    hcq_device_close(dev);
    return status;
}

/* Every submission tells its buffers before it and the signals twice, the
 * second time with what the chip wrote. */
static void
expect_told(const char *path)
{
    struct cas_reader *reader;
    uint32_t i, k, n_push = 0, n_pushed = 0, n_signals = 0, n_places = 0;
    uint64_t place = 0;

    assert_int_equal(cas_reader_open(path, &reader), BELL_OK);
    for (i = 0; i < cas_reader_count(reader); i++) {
        const struct cas_record *r = cas_reader_get(reader, i);
        uint32_t here = 0;

        if (r->kind != CAS_DOORBELL)
            continue;
        for (k = 0; k < r->n_blobs; k++) {
            const struct cas_blob *b = &r->blobs[k];

            assert_true(b->size_bytes > 0 && b->addr > 0);
            if (b->extra == KIO_REGION_PUSH) {
                assert_int_equal(b->size_bytes % 4, 0);
                n_places += place != b->addr - b->cpu;
                place = b->addr - b->cpu;
                here++;
            } else {
                assert_int_equal(b->extra, KIO_REGION_SIGNAL);
                n_signals++;
            }
        }
        n_push += here;
        n_pushed += here > 0;
    }
    /* a bound stream's is beside that of what frames it */
    assert_true(n_pushed >= 2 * SUBMITS && n_push > n_pushed);
    assert_true(n_signals >= 2 * n_pushed);
    /* fresh ones lie in one memory, bound ones in another */
    assert_true(n_places < 2 + 2 * SUBMITS);
    cas_reader_close(reader);
}

static void
records_and_replays(void **state)
{
    char path[64], record[128], replay[96];
    uint32_t words[16];
    size_t c, i;

    (void)state;
    snprintf(path, sizeof(path), "/tmp/bell-qcom-watch-%ld.cas",
             (long)getpid());
    snprintf(replay, sizeof(replay), "QCOM@replay:%s", path);
    for (c = 0; c < sizeof(chips) / sizeof(chips[0]); c++) {
        snprintf(record, sizeof(record), "QCOM@record:%s@sim:%s", path,
                 chips[c]);
        if (run(record, SIZE_BYTES, words) != BELL_OK)
            fail_msg("%s: %s", chips[c], bell_error_last()->message);
        for (i = 0; i < 16; i++)
            assert_int_equal(words[i], 77);
        expect_told(path);
        if (run(replay, SIZE_BYTES, words) != BELL_OK)
            fail_msg("%s: %s", chips[c], bell_error_last()->message);
        /* other words in a buffer */
        assert_int_not_equal(run(replay, SIZE_BYTES / 2, words), BELL_OK);
        if (!strstr(bell_error_last()->message, "recorded 0x"))
            fail_msg("%s: %s", chips[c], bell_error_last()->message);
    }
    unlink(path);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(records_and_replays),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
