/* hcq/nv/nv_link.c and peers of both models of addresses, on simulated boxes of
 * every kind of link: what is said of a link is true of memory, and what moves
 * is counted.
 */
#include <stdio.h>
#include <stdlib.h>

#include "tests/unit/expect.h"

#include "base/bits.h"
#include "hcq/hcq.h"
#include "sim/nv/sim_nv.h"

#define BYTES (3u << 20)

struct box {
    struct hcq_device *devs[2];
};

static struct box
open_box(const char *spec)
{
    struct box box;
    char name[96];
    unsigned i;

    for (i = 0; i < 2; i++) {
        snprintf(name, sizeof(name), "NV:%u@sim:%s", i, spec);
        expect_ok(hcq_device_open(name, &box.devs[i]));
    }
    return box;
}

static void
close_box(struct box *box)
{
    hcq_device_close(box->devs[0]);
    hcq_device_close(box->devs[1]);
    assert_false(sim_nv_machine_exists());
}

static struct hcq_device_link
link_of(struct hcq_device *dev, struct hcq_device *other)
{
    struct hcq_device_link link = {.struct_size = sizeof(link)};

    expect_ok(hcq_device_get_link(dev, other, &link));
    return link;
}

static struct hcq_link_bytes
moved(struct hcq_device *dev, struct hcq_device *other)
{
    struct hcq_link_bytes bytes = {.struct_size = sizeof(bytes)};

    expect_ok(hcq_device_link_bytes(dev, other, &bytes));
    return bytes;
}

/* The first card copies from the second one's memory, and to it. */
static void
move_between(struct box *box, enum hcq_queue_kind kind)
{
    struct hcq_device *dev = box->devs[0], *owner = box->devs[1];
    struct hcq_link_bytes before = moved(dev, owner), after;
    struct hcq_buffer *theirs, *seen, *mine;
    uint8_t *data = malloc(BYTES), *got = malloc(BYTES);
    struct hcq_queue *queue;
    struct hcq_cs *cs;
    size_t i;

    for (i = 0; i < BYTES; i++)
        data[i] = (uint8_t)(i * 7 + i / 251);
    expect_ok(hcq_buffer_create(owner, 2 * BYTES, 0, &theirs));
    expect_ok(hcq_buffer_create_peer(dev, theirs, &seen));
    expect_ok(hcq_buffer_create(dev, BYTES, 0, &mine));
    expect_ok(hcq_buffer_write(theirs, 0, data, BYTES));
    expect_ok(hcq_queue_create(dev, kind, &queue));
    expect_ok(hcq_queue_begin(queue, &cs));
    hcq_cs_copy(cs, mine->va, seen->va, BYTES);
    hcq_cs_copy(cs, seen->va + BYTES, mine->va, BYTES / 2);
    expect_ok(hcq_cs_submit(cs, NULL));
    expect_ok(hcq_queue_wait(queue, HCQ_TIMEOUT_NS));
    expect_ok(hcq_buffer_read(theirs, BYTES, got, BYTES / 2));
    assert_memory_equal(got, data, BYTES / 2);
    after = moved(dev, owner);
    assert_int_equal(after.copy_read + after.kernel_read - before.copy_read -
                         before.kernel_read,
                     BYTES);
    assert_int_equal(after.copy_written + after.kernel_written -
                         before.copy_written - before.kernel_written,
                     BYTES / 2);
    if (kind == HCQ_QUEUE_COPY)
        assert_int_equal(after.kernel_read, before.kernel_read);
    assert_int_equal(moved(owner, dev).copy_read, 0);
    hcq_queue_destroy(queue);
    hcq_buffer_destroy(mine);
    hcq_buffer_destroy(seen);
    hcq_buffer_destroy(theirs);
    free(data);
    free(got);
}

static void
stay_apart(struct box *box, const char *why)
{
    struct hcq_buffer *theirs, *seen;

    expect_ok(hcq_buffer_create(box->devs[1], BYTES, 0, &theirs));
    expect_fails(hcq_buffer_create_peer(box->devs[0], theirs, &seen),
                 BELL_E_UNSUPPORTED, why);
    hcq_buffer_destroy(theirs);
    /* host memory is there for all */
    expect_ok(
        hcq_buffer_create(box->devs[1], BYTES, HCQ_MEM_HOST_VISIBLE, &theirs));
    expect_ok(hcq_buffer_create_peer(box->devs[0], theirs, &seen));
    hcq_buffer_destroy(seen);
    hcq_buffer_destroy(theirs);
}

static const struct row {
    const char *spec;
    enum hcq_link_kind kind;
    bool atomics;
    uint64_t gb_s; /* rounded down */
    const char *reason;
} rows[] = {
    {"h100*2", HCQ_LINK_NVLINK, true, 450, "18 NVLinks of 25 GB/s"},
    {"a100*2", HCQ_LINK_NVLINK, true, 300, "12 NVLinks of 25 GB/s"},
    {"b200*2", HCQ_LINK_NVLINK, true, 900, "18 NVLinks of 50 GB/s"},
    {"sm_90*2,branch=535", HCQ_LINK_NVLINK, true, 450, "NVLink"},
    {"sm_90*2,branch=610", HCQ_LINK_NVLINK, true, 450, "NVLink"},
    {"l40s*2", HCQ_LINK_PCIE, false, 63, "PCI Express"},
    {"h100*2,link=pcie,branch=595", HCQ_LINK_PCIE, false, 63, "PCI Express"},
    {"sm_120*2,branch=580", HCQ_LINK_BAR1, false, 63, "BAR1"},
    {"sm_120*2,branch=595", HCQ_LINK_BAR1, false, 63, "BAR1"},
    {"rtx4090*2", HCQ_LINK_HOST, false, 0, "this kind of card"},
    {"h100*2,link=0-1:none", HCQ_LINK_HOST, false, 0, "this kind of card"},
};

static void
check_rows(void)
{
    size_t i;

    for (i = 0; i < ARRAY_LEN(rows); i++) {
        const struct row *row = &rows[i];
        struct box box = open_box(row->spec);
        struct hcq_device_link link = link_of(box.devs[0], box.devs[1]);
        bool direct = row->kind > HCQ_LINK_HOST;

        if (link.kind != row->kind || !strstr(link.reason, row->reason))
            fail_msg("%s: %s, %s", row->spec, hcq_link_kind_name(link.kind),
                     link.reason);
        assert_int_equal(link.reads, direct);
        assert_int_equal(link.writes, direct);
        assert_int_equal(link.atomics, row->atomics);
        assert_int_equal(link.hops, direct ? 1 : 2);
        assert_int_equal(link.bytes_per_s / 1000000000u, row->gb_s);
        if (direct) {
            move_between(&box, HCQ_QUEUE_COPY);
            move_between(&box, HCQ_QUEUE_COMPUTE);
        } else {
            stay_apart(&box, row->reason);
        }
        close_box(&box);
    }
}

/* UVM keeps the addresses from here on; a sanitizer may have them. */
static void
begin_uvm(void)
{
    struct hcq_device *dev;
    bell_status status;

    setenv("BELL_NV_VM", "uvm", 1);
    status = hcq_device_open("NV@sim:sm_90", &dev);
    if (status == BELL_E_UNSUPPORTED) {
        unsetenv("BELL_NV_VM");
        skip();
    }
    expect_ok(status);
    hcq_device_close(dev);
}

static void
kinds_of_links(void **state)
{
    (void)state;
    check_rows();
}

static void
kinds_through_uvm(void **state)
{
    (void)state;
    begin_uvm();
    check_rows();
    unsetenv("BELL_NV_VM");
}

/* Behind switches that nobody has configured each card is alone. */
static void
no_fabric(void **state)
{
    struct box box = open_box("h100*2,fabric=absent");
    struct hcq_device_link link = link_of(box.devs[0], box.devs[1]);

    (void)state;
    assert_int_equal(link.kind, HCQ_LINK_HOST);
    assert_non_null(strstr(link.reason, "fabric manager"));
    stay_apart(&box, "fabric manager");
    close_box(&box);
}

/* And UVM takes none. */
static void
no_fabric_through_uvm(void **state)
{
    struct hcq_device *dev;

    (void)state;
    begin_uvm();
    expect_fails(hcq_device_open("NV:0@sim:h100*2,fabric=absent", &dev),
                 BELL_E_KERNEL, "fabric manager");
    unsetenv("BELL_NV_VM");
}

static void
no_links(void **state)
{
    struct hcq_device *a, *again, *other;
    struct hcq_link_bytes bytes = {.struct_size = sizeof(bytes)};

    (void)state;
    expect_ok(hcq_device_open("NV@sim:sm_90*2", &a));
    expect_ok(hcq_device_open("NV@sim:sm_90*2", &again));
    expect_ok(hcq_device_open("NV@sim:sm_80", &other));
    assert_int_equal(link_of(a, again).kind, HCQ_LINK_SELF);
    assert_int_equal(link_of(a, other).kind, HCQ_LINK_HOST);
    assert_non_null(strstr(link_of(a, other).reason, "different machines"));
    expect_fails(hcq_device_link_bytes(a, other, &bytes), BELL_E_UNSUPPORTED,
                 "nobody counts");
    hcq_device_close(other);
    hcq_device_close(again);
    hcq_device_close(a);
}

/* A box of large cards is open at once, each with all of its memory, where UVM
 * keeps the addresses. */
static void
whole_boxes(void **state)
{
    static const char *const specs[] = {"h200*8", "a100*8", "b200*8"};
    size_t i;
    unsigned k;

    (void)state;
    begin_uvm();
    for (i = 0; i < ARRAY_LEN(specs); i++) {
        struct hcq_device_info info = {.struct_size = sizeof(info)};
        struct hcq_buffer *bufs[8], *seen;
        struct hcq_device *devs[8];
        char name[64];

        for (k = 0; k < 8; k++) {
            snprintf(name, sizeof(name), "NV:%u@sim:%s", k, specs[i]);
            expect_ok(hcq_device_open(name, &devs[k]));
            hcq_device_info(devs[k], &info);
            expect_ok(hcq_buffer_create(devs[k], info.memory_bytes / 10 * 9, 0,
                                        &bufs[k]));
        }
        /* the first one sees all of the last one's */
        expect_ok(hcq_buffer_create_peer(devs[0], bufs[7], &seen));
        hcq_buffer_destroy(seen);
        for (k = 0; k < 8; k++)
            hcq_device_close(devs[k]);
    }
    unsetenv("BELL_NV_VM");
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(kinds_of_links),
        cmocka_unit_test(kinds_through_uvm),
        cmocka_unit_test(no_fabric),
        cmocka_unit_test(no_fabric_through_uvm),
        cmocka_unit_test(no_links),
        cmocka_unit_test(whole_boxes),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
