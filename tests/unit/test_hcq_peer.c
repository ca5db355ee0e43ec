/* hcq/hcq_peer.c on devices without links of their own: what the CPU's devices,
 * those that run nothing and mixed pairs say of each other, and that the kind
 * says what hcq_buffer_create_peer does.
 */
#include "tests/unit/expect.h"

#include "hcq/hcq.h"

static struct hcq_device *cpu, *cpu2, *null, *card;

static int
open_devices(void **state)
{
    (void)state;
    expect_ok(hcq_device_open("CPU", &cpu));
    expect_ok(hcq_device_open("CPU", &cpu2));
    expect_ok(hcq_device_open("NV@null:sm_90", &null));
    expect_ok(hcq_device_open("NV@sim:sm_90", &card));
    return 0;
}

static int
close_devices(void **state)
{
    (void)state;
    hcq_device_close(cpu);
    hcq_device_close(cpu2);
    hcq_device_close(null);
    hcq_device_close(card);
    return 0;
}

static struct hcq_device_link
link_of(struct hcq_device *dev, struct hcq_device *other)
{
    struct hcq_device_link link = {.struct_size = sizeof(link)};

    expect_ok(hcq_device_get_link(dev, other, &link));
    assert_int_equal(link.struct_size, sizeof(link));
    return link;
}

static void
check(struct hcq_device *dev, struct hcq_device *other, enum hcq_link_kind kind,
      const char *reason)
{
    struct hcq_device_link link = link_of(dev, other);
    bool direct = kind > HCQ_LINK_HOST;

    assert_string_equal(hcq_link_kind_name(link.kind),
                        hcq_link_kind_name(kind));
    assert_int_equal(link.reads, direct);
    assert_int_equal(link.writes, direct);
    assert_int_equal(link.atomics, direct);
    assert_int_equal(link.hops, kind == HCQ_LINK_HOST ? 2 : 0);
    if (!strstr(link.reason, reason))
        fail_msg("\"%s\" is not in \"%s\"", reason, link.reason);
}

static void
pairs(void **state)
{
    (void)state;
    check(cpu, cpu, HCQ_LINK_SELF, "one device");
    check(card, card, HCQ_LINK_SELF, "one device");
    check(cpu, cpu2, HCQ_LINK_SELF, "the host's memory");
    check(cpu2, cpu, HCQ_LINK_SELF, "the host's memory");
    check(cpu, card, HCQ_LINK_HOST, "CPU:0 and NV:0@sim:sm_90 have different");
    check(card, cpu, HCQ_LINK_HOST, "NV:0@sim:sm_90 and CPU:0 have different");
    check(null, cpu, HCQ_LINK_NONE, "NV:0@null:sm_90 compiles kernels");
    check(card, null, HCQ_LINK_NONE, "NV:0@null:sm_90 compiles kernels");
}

/* What a kind promises is what a buffer gets. */
static void
kind_is_true(void **state)
{
    struct hcq_device *devs[] = {cpu, cpu2, card};
    size_t i, k;

    (void)state;
    for (i = 0; i < 3; i++) {
        struct hcq_buffer *buf;

        expect_ok(hcq_buffer_create(devs[i], 4096, 0, &buf));
        for (k = 0; k < 3; k++) {
            struct hcq_device_link link = link_of(devs[k], devs[i]);
            struct hcq_buffer *peer = NULL;

            assert_int_equal(hcq_buffer_create_peer(devs[k], buf, &peer) ==
                                 BELL_OK,
                             link.kind > HCQ_LINK_HOST);
            hcq_buffer_destroy(peer);
        }
        hcq_buffer_destroy(buf);
    }
}

/* A caller that knows fewer fields gets those, and nothing behind them. */
static void
short_structure(void **state)
{
    struct hcq_device_link link;
    struct hcq_device_link old;

    (void)state;
    memset(&link, 0x5a, sizeof(link));
    link.struct_size = offsetof(struct hcq_device_link, engines);
    old = link;
    expect_ok(hcq_device_get_link(cpu, card, &link));
    assert_int_equal(link.kind, HCQ_LINK_HOST);
    assert_int_equal(link.hops, 2);
    assert_memory_equal((char *)&link + link.struct_size,
                        (char *)&old + link.struct_size,
                        sizeof(link) - link.struct_size);
}

static void
refusals(void **state)
{
    struct hcq_device_link link = {.struct_size = sizeof(link)};

    (void)state;
    expect_fails(hcq_device_get_link(NULL, cpu, &link), BELL_E_INVALID,
                 "the device is NULL");
    expect_fails(hcq_device_get_link(cpu, NULL, &link), BELL_E_INVALID,
                 "the other device is NULL");
    expect_fails(hcq_device_get_link(cpu, cpu, NULL), BELL_E_INVALID,
                 "the result is NULL");
    assert_string_equal(hcq_link_kind_name(HCQ_LINK_KIND_COUNT), "unknown");
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pairs),
        cmocka_unit_test(kind_is_true),
        cmocka_unit_test(short_structure),
        cmocka_unit_test(refusals),
    };

    return cmocka_run_group_tests(tests, open_devices, close_devices);
}
