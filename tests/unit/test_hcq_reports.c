/* What a device says of work that is under way: every queue's commands, cut
 * off anywhere; and nothing once it is done.
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

#include "base/bits.h"
#include "base/log.h"
#include "base/thread.h"
#include "hcq/hcq_backend.h"
#include "tests/unit/expect.h"

enum {
    N_QUEUES = 3
};

/* The text with every hexadecimal number as '#': addresses. */
static void
without_addresses(const char *text, char *out, size_t size_bytes)
{
    size_t n = 0;

    while (*text && n + 1 < size_bytes) {
        size_t digits = strncmp(text, "0x", 2) == 0
                            ? 2 + strspn(text + 2, "0123456789abcdef")
                            : 0;

        out[n++] = digits ? '#' : *text;
        text += digits ? digits : 1;
    }
    out[n] = '\0';
}

/* The same at two looks: whoever works has come to where it waits. */
static void
look_when_still(struct hcq_device *dev, char *text, size_t size_bytes)
{
    char before[4096];
    int i;

    dev->ops->describe(dev, text, size_bytes);
    for (i = 0; i < 200; i++) {
        snprintf(before, sizeof(before), "%s", text);
        usleep(5000);
        dev->ops->describe(dev, text, size_bytes);
        if (strcmp(before, text) == 0 && !strstr(text, "starting") && i > 4)
            return;
    }
}

static void
submit_waits(struct hcq_queue *queue, struct hcq_signal *sig, unsigned n)
{
    struct hcq_cs *cs;
    uint64_t value;
    unsigned i;

    for (i = 0; i < n; i++) {
        expect_ok(hcq_queue_begin(queue, &cs));
        hcq_cs_wait(cs, sig, 5);
        hcq_cs_timestamp(cs, sig);
        hcq_cs_signal(cs, sig, 6 + i);
        expect_ok(hcq_cs_submit(cs, &value));
    }
}

static void
check_device(const char *name, const char *expected)
{
    static const unsigned n_submissions[N_QUEUES] = {1, 0, 6};
    struct hcq_queue *queues[N_QUEUES];
    struct hcq_signal *sig[N_QUEUES];
    char whole[4096], text[4096], plain[4096];
    struct hcq_device *dev;
    unsigned i;
    size_t n;

    expect_ok(hcq_device_open(name, &dev));
    dev->ops->describe(dev, text, sizeof(text));
    assert_string_equal(text, "");
    for (i = 0; i < N_QUEUES; i++) {
        expect_ok(hcq_queue_create(dev, HCQ_QUEUE_COMPUTE, &queues[i]));
        expect_ok(hcq_signal_create(dev, 0, &sig[i]));
        submit_waits(queues[i], sig[i], n_submissions[i]);
    }
    look_when_still(dev, whole, sizeof(whole));
    without_addresses(whole, plain, sizeof(plain));
    assert_string_equal(plain, expected);
    for (n = 1; n < strlen(whole) + 3; n++) {
        memset(text, 'x', sizeof(text));
        dev->ops->describe(dev, text, n);
        assert_true(strlen(text) < n);
        assert_memory_equal(text, whole, strlen(text));
        assert_true(strlen(text) + 1 == n || strcmp(text, whole) == 0);
        assert_int_equal(text[n], 'x');
    }
    for (i = 0; i < N_QUEUES; i++) {
        hcq_signal_set(sig[i], 5);
        expect_ok(hcq_queue_wait(queues[i], HCQ_TIMEOUT_NS));
    }
    /* who signals takes its words off the ring a little later */
    for (i = 0; i < 10000 && text[0]; i++) {
        usleep(1000);
        dev->ops->describe(dev, text, sizeof(text));
    }
    assert_string_equal(text, "");
    for (i = 0; i < N_QUEUES; i++) {
        hcq_queue_destroy(queues[i]);
        hcq_signal_destroy(sig[i]);
    }
    hcq_device_close(dev);
}

static void
test_cpu(void **state)
{
    (void)state;
    check_device("CPU", "CPU:0/compute0: wait for signal # >= 5, 11 words "
                        "queued; CPU:0/compute2: wait for signal # >= 5, 66 "
                        "words queued");
}

/* Four submissions are told, and how many there are. */
static void
check_card(const char *name, const char *full_name)
{
    char text[4096];
    size_t n;
    int i;

    n = (size_t)snprintf(text, sizeof(text),
                         "%s/compute0: wait for signal # >= 5, timestamp #, "
                         "signal # = 6; %s/compute2: ",
                         full_name, full_name);
    for (i = 6; i < 10; i++)
        n += (size_t)snprintf(
            text + n, sizeof(text) - n,
            "wait for signal # >= 5, timestamp #, signal # = %d, ", i);
    snprintf(text + n, sizeof(text) - n, "6 submissions not done");
    check_device(name, text);
}

static void
test_cards(void **state)
{
    (void)state;
    check_card("NV@sim:sm_90", "NV:0@sim:sm_90");
    check_card("AMD@sim:gfx1100", "AMD:0@sim:gfx1100");
    check_card("AMD@sim:gfx942", "AMD:0@sim:gfx942");
}

/* ---- ticks --------------------------------------------------------------- */

static struct hcq_clock_pair clock_now;
static unsigned n_compared;

static bell_status
compare_clocks(struct hcq_device *dev, struct hcq_clock_pair *out_pair)
{
    (void)dev;
    n_compared++;
    *out_pair = clock_now;
    return BELL_OK;
}

/* Ticks of 10 ns. A measurement over half a second counts for more than the
 * driver's word; a comparison older than a second is made again. */
static void
test_ticks(void **state)
{
    static const struct hcq_device_ops ops = {.compare_clocks = compare_clocks},
                                       none = {.compare_clocks = NULL};
    const uint64_t now = time_now_ns(), half = 500000000;
    struct hcq_device dev = {.ops = &none,
                             .clock_lock = PTHREAD_MUTEX_INITIALIZER,
                             .info = {.timestamp_hz = 100000000}};

    (void)state;
    assert_int_equal(hcq_timestamp_to_ns(&dev, 12345), 12345);
    dev.ops = &ops;
    dev.first_clock = dev.last_clock = (struct hcq_clock_pair){1000, now};
    assert_int_equal(hcq_timestamp_to_ns(&dev, 1000), now);
    assert_int_equal(hcq_timestamp_to_ns(&dev, 1007), now + 70);
    assert_int_equal(hcq_timestamp_to_ns(&dev, 993), now - 70);
    assert_int_equal(n_compared, 0);
    /* 20 ns a tick, as measured, but only over longer than half a second */
    dev.first_clock.host_ns = now - half;
    dev.last_clock = (struct hcq_clock_pair){1000 + half / 20, now};
    assert_int_equal(hcq_timestamp_to_ns(&dev, 1100), now - half + 1000);
    dev.first_clock.host_ns = now - half - 20;
    dev.last_clock.ticks++;
    assert_int_equal(hcq_timestamp_to_ns(&dev, 1100), now - half - 20 + 2000);
    assert_int_equal(hcq_timestamp_to_ns(&dev, 900), now - half - 20 - 2000);
    assert_int_equal(n_compared, 0);
    /* half a second ago is not long ago, two are */
    dev.first_clock.host_ns = dev.last_clock.host_ns = now - half;
    dev.last_clock.ticks = 1000;
    assert_int_equal(hcq_timestamp_to_ns(&dev, 1001), now - half + 10);
    assert_int_equal(n_compared, 0);
    dev.first_clock.host_ns = dev.last_clock.host_ns = now - 4 * half;
    clock_now = (struct hcq_clock_pair){1000 + 4 * half / 12,
                                        now - 4 * half + 4 * half / 12 * 12};
    assert_int_equal(hcq_timestamp_to_ns(&dev, 2000), now - 4 * half + 12000);
    assert_int_equal(n_compared, 1);
    assert_int_equal(dev.last_clock.ticks, clock_now.ticks);
}

/* Backends without devices are not a failure: the last one stays. */
static void
test_enumerate_keeps_error(void **state)
{
    struct hcq_device_desc list[16];
    struct hcq_device *dev;
    size_t n, all;

    (void)state;
    expect_fails(hcq_device_open("NV@null:none", &dev), BELL_E_NO_DEVICE,
                 "'none'");
    expect_ok(hcq_device_enumerate(NULL, 0, &all));
    assert_true(all >= 1 && all < ARRAY_LEN(list));
    memset(list, 0xee, sizeof(list));
    expect_ok(hcq_device_enumerate(list, all - 1, &n));
    assert_int_equal(n, all);
    assert_int_equal(((uint8_t *)&list[all - 1])[0], 0xee);
    expect_ok(hcq_device_enumerate(list, ARRAY_LEN(list), &n));
    assert_int_equal(n, all);
    assert_string_equal(list[n - 1].backend, "CPU");
    assert_non_null(strstr(bell_error_last()->message, "'none'"));
    expect_fails(hcq_device_enumerate(NULL, 1, &n), BELL_E_INVALID, "no place");
    expect_fails(hcq_device_enumerate(list, 1, NULL), BELL_E_INVALID,
                 "no place");
}

/* ---- losing a device ----------------------------------------------------- */

static unsigned n_lines, n_wakes;

static void
count_line(void *user, const char *line)
{
    assert_string_equal(line, user);
    n_lines++;
}

static void
count_wake(struct hcq_signal *sig)
{
    assert_non_null(sig);
    n_wakes++;
}

/* The first reason counts, and is told once; whoever sleeps is woken. */
static void
test_lost_once(void **state)
{
    static const struct hcq_device_ops ops = {.signal_wake = count_wake};
    static char line[] = "sync: fake lost: the first";
    const struct hcq_fault faults[] = {
        {.kind = HCQ_FAULT_MEMORY, .text = "the first"},
        {.kind = HCQ_FAULT_STREAM, .text = "another"}};
    struct hcq_device dev = {.ops = &ops,
                             .info = {.name = "fake"},
                             .lock = PTHREAD_MUTEX_INITIALIZER};

    (void)state;
    hcq_link_init(&dev.signals);
    bell_log_set(count_line, line);
    log_mask = LOG_SYNC;
    assert_false(hcq_device_is_lost(&dev));
    hcq_device_set_lost(&dev, &faults[0]);
    assert_true(hcq_device_is_lost(&dev));
    hcq_device_set_lost(&dev, &faults[1]);
    hcq_device_set_cut_off(&dev, "a third");
    log_mask = 0;
    bell_log_set(NULL, NULL);
    assert_int_equal(n_lines, 1);
    assert_int_equal(n_wakes, 0);
    assert_int_equal(dev.fault.kind, HCQ_FAULT_MEMORY);
    assert_string_equal(dev.fault.text, "the first");
}

/* Each command in turn; the result is how many bytes from va on it touches. */
static uint64_t
emit_at_end(struct hcq_cs *cs, unsigned i, const struct hcq_signal *sig,
            uint64_t va)
{
    switch (i) {
    case 0:
        hcq_cs_wait(cs, sig, 0);
        return 8;
    case 1:
        hcq_cs_signal(cs, sig, 0);
        return 8;
    case 2:
        hcq_cs_timestamp(cs, sig);
        return 8 * (sig->dev->timestamp_word + 1);
    case 3:
        hcq_cs_poll(cs, va, UINT32_MAX, 0);
        return 4;
    case 4:
        hcq_cs_write(cs, va, 0, 32);
        return 4;
    case 5:
        hcq_cs_write(cs, va, 0, 64);
        return 8;
    case 6:
        hcq_cs_fill(cs, va, 0, 12);
        return 12;
    case 7:
        hcq_cs_copy(cs, va, va + 256, 99);
        return 256 + 99;
    default:
        hcq_cs_copy(cs, va + 256, va, 99);
        return 256 + 99;
    }
}

/* A command's last byte is the last that a queue can address, or just not. */
static void
ends_of_addresses(void **state)
{
    struct hcq_device *dev;
    struct hcq_queue *queue;
    struct hcq_signal *sig;
    struct hcq_buffer *buf;
    struct hcq_cs *cs;
    uint64_t end, bytes;
    unsigned i;

    (void)state;
    expect_ok(hcq_device_open("CPU", &dev));
    expect_ok(hcq_queue_create(dev, HCQ_QUEUE_COMPUTE, &queue));
    expect_ok(hcq_signal_create(dev, 0, &sig));
    expect_ok(hcq_buffer_create(dev, 4096, 0, &buf));
    memset(buf->host, 0, 4096);
    for (i = 0; i < 9; i++) {
        end = i < 3 ? sig->va : buf->va;
        expect_ok(hcq_queue_begin(queue, &cs));
        bytes = emit_at_end(cs, i, sig, buf->va);
        hcq_cs_discard(cs);
        queue->sync_va_end = queue->copy_va_end = end + bytes;
        expect_ok(hcq_queue_begin(queue, &cs));
        emit_at_end(cs, i, sig, buf->va);
        expect_ok(hcq_cs_submit(cs, NULL));
        queue->sync_va_end = queue->copy_va_end = end + bytes - 1;
        expect_ok(hcq_queue_begin(queue, &cs));
        emit_at_end(cs, i, sig, buf->va);
        expect_fails(hcq_cs_submit(cs, NULL), BELL_E_INVALID,
                     "addresses less than");
        queue->sync_va_end = queue->copy_va_end = UINT64_MAX;
    }
    expect_ok(hcq_queue_wait(queue, UINT64_MAX));
    hcq_buffer_destroy(buf);
    hcq_signal_destroy(sig);
    hcq_queue_destroy(queue);
    hcq_device_close(dev);
}

/* Which characters a name may have, and how many. */
static void
names_of_devices(void **state)
{
    static const char good[] = "09AZaz", bad[] = "/;@[`{";
    struct hcq_device *dev;
    char text[32];
    size_t i;

    (void)state;
    for (i = 0; i + 1 < sizeof(good); i++) {
        snprintf(text, sizeof(text), "X%cY", good[i]);
        expect_fails(hcq_device_open(text, &dev), BELL_E_NO_DEVICE, "known: ");
        if (i >= 2)
            expect_fails(hcq_device_open(text + 1, &dev), BELL_E_NO_DEVICE,
                         "known: ");
    }
    for (i = 0; i + 1 < sizeof(bad); i++) {
        if (bad[i] == '@') /* ends the name */
            continue;
        snprintf(text, sizeof(text), "X%cY", bad[i]);
        expect_fails(hcq_device_open(text, &dev), BELL_E_INVALID, "letters");
        expect_fails(hcq_device_open(text + 1, &dev), BELL_E_INVALID,
                     "letters");
    }
    expect_fails(hcq_device_open("ABCDEFGHIJKLMNO", &dev), BELL_E_NO_DEVICE,
                 "known: ");
    expect_fails(hcq_device_open("ABCDEFGHIJKLMNOP", &dev), BELL_E_INVALID,
                 "too long");
    expect_fails(hcq_device_open("CPU:/", &dev), BELL_E_INVALID, "no index");
    expect_fails(hcq_device_open("CPU::", &dev), BELL_E_INVALID, "no index");
    expect_fails(hcq_device_open("CPU:9/", &dev), BELL_E_INVALID,
                 "not a number");
    expect_fails(hcq_device_open("CPU:0910", &dev), BELL_E_NO_DEVICE,
                 "CPU:910;");
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_cpu),
        cmocka_unit_test(test_cards),
        cmocka_unit_test(test_ticks),
        cmocka_unit_test(test_lost_once),
        cmocka_unit_test(names_of_devices),
        cmocka_unit_test(ends_of_addresses),
        cmocka_unit_test(test_enumerate_keeps_error),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
