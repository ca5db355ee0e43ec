/* What hcq/nv tells those who record it: a run on a simulated card is
 * recorded and replayed, a run that submits something else is told from it.
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

#include "hcq/hcq.h"
#include "hcq/nv/regs/nv_host.h"
#include "ioctl/cassette.h"
#include "ioctl/kio.h"
#include "render/ptx/nv_container.h"

#define SIZE_BYTES 4096u

/* No wait of a test that passes takes so long. */
#define LONG_NS (60ull * 1000000000)

/* Some copies, each waited for. The result is the first failure. */
static bell_status
run(const char *device, enum hcq_queue_kind kind, uint32_t copy_bytes)
{
    struct hcq_buffer *from, *to;
    struct hcq_queue *queue;
    struct hcq_device *dev = NULL;
    struct hcq_cs *cs;
    bell_status status;
    int i;

    status = hcq_device_open(device, &dev);
    if (status == BELL_OK)
        status = hcq_queue_create(dev, kind, &queue);
    if (status == BELL_OK)
        status =
            hcq_buffer_create(dev, SIZE_BYTES, HCQ_MEM_HOST_VISIBLE, &from);
    if (status == BELL_OK)
        status = hcq_buffer_create(dev, SIZE_BYTES, HCQ_MEM_HOST_VISIBLE, &to);
    for (i = 0; i < 5 && status == BELL_OK; i++) {
        status = hcq_queue_begin(queue, &cs);
        if (status == BELL_OK) {
            hcq_cs_copy(cs, to->va, from->va, copy_bytes);
            hcq_cs_fill(cs, from->va, (uint32_t)i, 64);
            status = hcq_cs_submit(cs, NULL);
        }
        if (status == BELL_OK)
            status = hcq_queue_wait(queue, LONG_NS);
    }
    if (status == BELL_OK) { /* else closing drops what hangs */
        hcq_buffer_destroy(to);
        hcq_buffer_destroy(from);
        hcq_queue_destroy(queue);
    }
    hcq_device_close(dev);
    return status;
}

/* So many launches in a row, the last of which has so many groups. */
static bell_status
run_row(const char *device, uint32_t n, uint32_t groups)
{
    const struct nv_container_desc d = {
        .entry = "nop",
        .n_regs = 16,
        .sm = 90,
        .text = ".version 7.8\n.target sm_90\n.address_size 64\n"
                ".visible .entry nop()\n{\n\tret;\n}\n",
    };
    const uint32_t one[3] = {1, 1, 1}, last[3] = {groups, 1, 1};
    struct hcq_program_desc desc = {.struct_size = sizeof(desc), .name = "nop"};
    struct render_binary binary;
    struct hcq_program *prog;
    struct hcq_device *dev = NULL;
    struct hcq_queue *queue;
    struct hcq_stream *stream;
    bell_status status;

    assert_int_equal(render_nv_container(&d, &binary), BELL_OK);
    desc.binary = binary.data;
    desc.binary_size_bytes = binary.size_bytes;
    status = hcq_device_open(device, &dev);
    if (status == BELL_OK)
        status = hcq_queue_create(dev, HCQ_QUEUE_COMPUTE, &queue);
    if (status == BELL_OK)
        status = hcq_program_create(dev, &desc, &prog);
    if (status == BELL_OK)
        status = hcq_stream_create(queue, "row", &stream);
    if (status == BELL_OK) {
        for (; n > 0; n--)
            hcq_cs_exec(hcq_stream_cs(stream), prog, NULL, 0,
                        n > 1 ? one : last, NULL);
        status = hcq_stream_end(stream);
    }
    if (status == BELL_OK)
        status = hcq_stream_submit(stream, NULL);
    if (status == BELL_OK)
        status = hcq_queue_wait(queue, LONG_NS);
    render_binary_fini(&binary);
    hcq_device_close(dev);
    return status;
}

/* Also the descriptors that no method names. */
static void
records_chains(void **state)
{
    char path[64], record[128], replay[96];
    struct cas_reader *reader;
    uint32_t i, k, n = 0;

    (void)state;
    snprintf(path, sizeof(path), "/tmp/bell-chain-%ld.cas", (long)getpid());
    snprintf(record, sizeof(record), "NV@record:%s@sim:sm_90", path);
    snprintf(replay, sizeof(replay), "NV@replay:%s", path);
    /* more than a doorbell tells of, and then few */
    if (run_row(record, 300, 3) != BELL_OK ||
        run_row(replay, 300, 3) != BELL_OK)
        fail_msg("%s", bell_error_last()->message);
    if (run_row(record, 3, 3) != BELL_OK || run_row(replay, 3, 3) != BELL_OK)
        fail_msg("%s", bell_error_last()->message);
    /* each descriptor of the row, and no more */
    assert_int_equal(cas_reader_open(path, &reader), BELL_OK);
    for (i = 0; i < cas_reader_count(reader); i++) {
        const struct cas_record *r = cas_reader_get(reader, i);

        for (k = 0; r->kind == CAS_DOORBELL && k < r->n_blobs; k++)
            n += r->blobs[k].extra == KIO_REGION_DESCRIPTOR;
    }
    cas_reader_close(reader);
    assert_int_equal(n, 3);
    assert_int_equal(run_row(replay, 3, 4), BELL_E_DEVICE_LOST);
    assert_non_null(strstr(bell_error_last()->message, "recorded 0x"));
    unlink(path);
}

/* Every entry of a ring is told once, at its place, also those behind its end.
 */
static void
tells_every_entry(void **state)
{
    enum {
        N = NV_HOST_RING_ENTRIES + 101 /* odd */
    };
    char path[64], record[128];
    struct cas_reader *reader;
    struct hcq_device *dev;
    struct hcq_queue *queue;
    struct hcq_signal *sig;
    struct hcq_stream *stream;
    struct hcq_cs *cs;
    uint64_t base = 0, n_told = 0, n_bells = 0, n_split = 0;
    uint32_t i, k;

    (void)state;
    snprintf(path, sizeof(path), "/tmp/bell-entries-%ld.cas", (long)getpid());
    snprintf(record, sizeof(record), "NV@record:%s@sim:sm_90", path);
    assert_int_equal(hcq_device_open(record, &dev), BELL_OK);
    assert_int_equal(hcq_queue_create(dev, HCQ_QUEUE_COMPUTE, &queue), BELL_OK);
    assert_int_equal(hcq_signal_create(dev, 0, &sig), BELL_OK);
    for (i = 1; i <= N; i++) {
        assert_int_equal(hcq_queue_begin(queue, &cs), BELL_OK);
        hcq_cs_signal(cs, sig, i);
        assert_int_equal(hcq_cs_submit(cs, NULL), BELL_OK);
        assert_int_equal(hcq_queue_wait(queue, LONG_NS), BELL_OK);
    }
    assert_int_equal(hcq_signal_value(sig), N);
    /* two entries each, the second of which once is the ring's first */
    assert_int_equal(hcq_stream_create(queue, "s", &stream), BELL_OK);
    hcq_cs_signal(hcq_stream_cs(stream), sig, N + 1);
    assert_int_equal(hcq_stream_end(stream), BELL_OK);
    for (i = 1; i <= N; i++) {
        assert_int_equal(hcq_stream_submit(stream, NULL), BELL_OK);
        assert_int_equal(hcq_queue_wait(queue, LONG_NS), BELL_OK);
    }
    assert_int_equal(hcq_signal_value(sig), N + 1);
    hcq_stream_destroy(stream);
    hcq_signal_destroy(sig);
    hcq_queue_destroy(queue);
    hcq_device_close(dev);
    assert_int_equal(cas_reader_open(path, &reader), BELL_OK);
    for (i = 0; i < cas_reader_count(reader); i++) {
        const struct cas_record *r = cas_reader_get(reader, i);

        if (r->kind != CAS_DOORBELL)
            continue;
        n_bells++;
        n_split += r->n_blobs > 1 && r->blobs[0].extra == KIO_REGION_RING &&
                   r->blobs[1].extra == KIO_REGION_RING;
        for (k = 0; k < r->n_blobs; k++) {
            const struct cas_blob *b = &r->blobs[k];

            if (b->extra != KIO_REGION_RING)
                continue;
            base = n_told ? base : b->addr;
            assert_int_equal(b->addr, base + n_told % NV_HOST_RING_ENTRIES * 8);
            assert_int_equal(b->size_bytes % 8, 0);
            n_told += b->size_bytes / 8;
        }
    }
    assert_true(n_bells >= 2 * N && n_told >= 3 * N && n_split);
    cas_reader_close(reader);
    unlink(path);
}

/* Recorded submissions are awaited for a while: most of it is done when the
 * call returns, however the end of a submission is told. */
static void
waits_for_what_it_tells(void **state)
{
    enum {
        N = 50
    };
    static const enum hcq_queue_kind kinds[] = {HCQ_QUEUE_COPY,
                                                HCQ_QUEUE_COMPUTE};
    char path[64], record[128];
    size_t k;

    (void)state;
    snprintf(path, sizeof(path), "/tmp/bell-settle-%ld.cas", (long)getpid());
    snprintf(record, sizeof(record), "NV@record:%s@sim:sm_90", path);
    for (k = 0; k < 2; k++) {
        struct hcq_device *dev;
        struct hcq_queue *queue;
        struct hcq_signal *sig;
        struct hcq_cs *cs;
        unsigned i, n_done = 0;

        assert_int_equal(hcq_device_open(record, &dev), BELL_OK);
        assert_int_equal(hcq_queue_create(dev, kinds[k], &queue), BELL_OK);
        assert_int_equal(hcq_signal_create(dev, 0, &sig), BELL_OK);
        for (i = 1; i <= N; i++) {
            assert_int_equal(hcq_queue_begin(queue, &cs), BELL_OK);
            hcq_cs_signal(cs, sig, i);
            assert_int_equal(hcq_cs_submit(cs, NULL), BELL_OK);
            n_done += hcq_signal_value(sig) == i;
            assert_int_equal(hcq_queue_wait(queue, LONG_NS), BELL_OK);
        }
        assert_true(n_done > N / 2);
        hcq_signal_destroy(sig);
        hcq_queue_destroy(queue);
        hcq_device_close(dev);
    }
    unlink(path);
}

static void
records_and_replays(void **state)
{
    static const enum hcq_queue_kind kinds[] = {HCQ_QUEUE_COPY,
                                                HCQ_QUEUE_COMPUTE};
    static const struct {
        const char *chip, *variable, *value;
    } ways[] = {
        {"sm_90", "BELL_NV_DOORBELL", "bar0"},
        {"sm_90", "BELL_NV_VM", "uvm"},
        {"sm_80", NULL, NULL},
        {"sm_89", NULL, NULL},
        {"sm_90", NULL, NULL},
        {"sm_120", NULL, NULL}, /* the last one's recording is used below */
    };
    char path[64], record[128], replay[96];
    bell_status status;
    unsigned i;

    (void)state;
    snprintf(path, sizeof(path), "/tmp/bell-watch-%ld.cas", (long)getpid());
    snprintf(replay, sizeof(replay), "NV@replay:%s", path);
    for (i = 0; i < 2 * sizeof(ways) / sizeof(ways[0]); i++) {
        const char *variable = ways[i / 2].variable;

        if (variable)
            setenv(variable, ways[i / 2].value, 1);
        snprintf(record, sizeof(record), "NV@record:%s@sim:%s", path,
                 ways[i / 2].chip);
        status = run(record, kinds[i % 2], SIZE_BYTES);
        if (status == BELL_E_UNSUPPORTED && variable) {
            unsetenv(variable); /* a sanitizer has UVM's addresses */
            continue;
        }
        if (status != BELL_OK)
            fail_msg("%s", bell_error_last()->message);
        if (run(replay, kinds[i % 2], SIZE_BYTES) != BELL_OK)
            fail_msg("%s", bell_error_last()->message);
        if (variable)
            unsetenv(variable);
    }
    /* Other words in the pushbuffer: nobody waits for a card that does not
     * answer, and the wait tells what differs. */
    assert_int_equal(run(replay, HCQ_QUEUE_COMPUTE, SIZE_BYTES / 2),
                     BELL_E_DEVICE_LOST);
    assert_non_null(strstr(bell_error_last()->message, "recorded 0x"));
    unlink(path);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tells_every_entry),
        cmocka_unit_test(waits_for_what_it_tells),
        cmocka_unit_test(records_and_replays),
        cmocka_unit_test(records_chains),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
