/* hcq/hcq_facts.c: what tools may know of devices, cards and gauges. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/bits.h"
#include "hcq/hcq_facts.h"
#include "tests/unit/expect.h"

/* Names and numbers, in the order in which they were told. */
struct told {
    char text[200];
    unsigned n, n_left; /* n_left: how many are taken */
};

static bell_status
keep_fact(void *user, const struct hcq_fact *fact)
{
    struct told *told = user;
    size_t n = strlen(told->text);

    if (told->n == told->n_left)
        return bell_fail(BELL_E_IO, "that is enough");
    told->n++;
    snprintf(told->text + n, sizeof(told->text) - n,
             fact->is_class ? "%s=%llx " : "%s=%llu ", fact->name,
             (unsigned long long)fact->value);
    return BELL_OK;
}

static const struct {
    const char *device, *facts;
    bool is_unproven, counts_all; /* memory of every process */
    const char *assumed;          /* begins so; NULL: nothing is */
} rows[] = {
    {"NV@sim:sm_90", "host=c86f compute=cbc0 copy=c8b5 ", false, true},
    {"NV@sim:sm_120,sm=0xc77", "host=ca6f compute=cec0 copy=cab5 ", true, true,
     "SM version 0xc77 is not known: the device is used as sm_120"},
    {"NV@sim:sm_120", "host=ca6f compute=cec0 copy=cab5 ", true, true},
    {"AMD@sim:gfx942", "xcc=4 sdma=2 sdma_xgmi=14 ", false, true},
    {"AMD@sim:gfx1100", "xcc=1 sdma=2 sdma_xgmi=0 ", false, true},
    {"QCOM@sim:a740", "", false, false},
    {"NV@null:h100", "", false, false},
    {"CPU", "", false, false},
};

/* The drivers that are built are asked; others are passed over. */
static struct hcq_device *
open_row(size_t i)
{
    struct hcq_device *dev = NULL;

    if (hcq_device_open(rows[i].device, &dev) != BELL_OK)
        print_message("%s: %s\n", rows[i].device, bell_error_last()->message);
    return dev;
}

static void
devices_tell_their_engines(void **state)
{
    char text[160];
    size_t i;

    (void)state;
    for (i = 0; i < ARRAY_LEN(rows); i++) {
        struct told all = {.n_left = 10}, one = {.n_left = 1};
        struct hcq_device *dev = open_row(i);

        if (!dev)
            continue;
        expect_ok(hcq_device_facts(dev, keep_fact, &all));
        assert_string_equal(all.text, rows[i].facts);
        assert_int_equal(hcq_device_unproven(dev)[0] != '\0',
                         rows[i].is_unproven);
        hcq_device_assumed(dev, text, sizeof(text));
        if (rows[i].assumed)
            assert_non_null(strstr(text, rows[i].assumed));
        else
            assert_string_equal(text, "");
        if (all.n > 1)
            expect_fails(hcq_device_facts(dev, keep_fact, &one), BELL_E_IO,
                         "that is enough");
        hcq_device_close(dev);
    }
}

static void
gauges_see_memory(void **state)
{
    size_t i;

    (void)state;
    for (i = 0; i < ARRAY_LEN(rows); i++) {
        struct hcq_reading before = {.struct_size = sizeof(before)}, after;
        struct hcq_device *dev = open_row(i);
        const uint64_t size_bytes = 64u << 20;
        struct hcq_gauge *gauge;
        struct hcq_buffer *buf;

        if (!dev)
            continue;
        after = before;
        expect_ok(hcq_gauge_of(dev, &gauge));
        expect_ok(hcq_gauge_read(gauge, &before));
        expect_ok(hcq_buffer_create(dev, size_bytes, 0, &buf));
        expect_ok(hcq_gauge_read(gauge, &after));
        assert_true(after.used_bytes >= before.used_bytes + size_bytes);
        if (rows[i].counts_all)
            assert_true(after.memory_bytes >= after.used_bytes);
        hcq_buffer_destroy(buf);
        hcq_gauge_close(gauge);
        hcq_device_close(dev);
    }
    hcq_gauge_close(NULL);
}

/* Members for which a caller has no room are left alone. */
static void
short_readings_are_filled_as_far(void **state)
{
    struct hcq_reading reading = {
        .struct_size = offsetof(struct hcq_reading, used_bytes),
        .used_bytes = 77,
    };
    struct hcq_device *dev = open_row(ARRAY_LEN(rows) - 1);
    struct hcq_gauge *gauge;

    (void)state;
    if (!dev)
        skip();
    expect_ok(hcq_gauge_of(dev, &gauge));
    expect_ok(hcq_gauge_read(gauge, &reading));
    assert_int_equal(reading.used_bytes, 77);
    hcq_gauge_close(gauge);
    hcq_device_close(dev);
}

static void
some_backends_have_no_cards(void **state)
{
    struct hcq_card cards[HCQ_CARDS_MAX];
    struct hcq_gauge *gauge;
    size_t n;

    (void)state;
    expect_fails(hcq_card_list("CPU", cards, &n), BELL_E_UNSUPPORTED,
                 "CPU has no list of cards");
    expect_fails(hcq_gauge_open("CPU", 0, &gauge), BELL_E_UNSUPPORTED,
                 "not open");
    expect_fails(hcq_gauge_open("AMD", 0, &gauge), BELL_E_UNSUPPORTED,
                 "not open");
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(devices_tell_their_engines),
        cmocka_unit_test(gauges_see_memory),
        cmocka_unit_test(short_readings_are_filled_as_far),
        cmocka_unit_test(some_backends_have_no_cards),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
