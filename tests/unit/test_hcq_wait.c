/* hcq/hcq_signal.c: how a wait ends. The device is the CPU's with operations
 * of the test's own where that is what counts.
 */
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/thread.h"
#include "hcq/hcq_backend.h"
#include "tests/unit/expect.h"

#define MS 1000000ull

static struct hcq_device *dev;
static struct hcq_signal *sig;
static int n_looks, n_sleeps;
static int lost_at; /* at which look the device is found to be lost */

static int
open_device(void **state)
{
    (void)state;
    expect_ok(hcq_device_open("CPU", &dev));
    expect_ok(hcq_signal_create(dev, 3, &sig));
    return 0;
}

static int
close_device(void **state)
{
    (void)state;
    hcq_device_close(dev);
    return 0;
}

static void
look(struct hcq_device *device)
{
    struct hcq_fault fault = {.kind = HCQ_FAULT_STREAM};

    if (++n_looks != lost_at)
        return;
    snprintf(fault.text, sizeof(fault.text), "found by look %d", n_looks);
    hcq_device_set_lost(device, &fault);
}

static void
sleep_once(struct hcq_signal *signal, uint64_t seen, uint64_t max_ns)
{
    assert_true(signal == sig && seen == hcq_signal_value(sig));
    assert_true(max_ns > 0);
    n_sleeps++;
    if (n_sleeps == 5)
        hcq_signal_set(sig, 9);
}

/* After each sleep the device is looked at, which ends the wait where it is
 * lost; without that operation nobody looks. */
static void
test_looks(void **state)
{
    const struct hcq_device_ops *real = dev->ops;
    struct hcq_device_ops ops = *real;

    (void)state;
    ops.signal_sleep = sleep_once;
    ops.check = look;
    dev->ops = &ops;
    n_looks = n_sleeps = 0;
    expect_ok(hcq_signal_wait(sig, 9, HCQ_WAIT_FOREVER));
    assert_int_equal(n_sleeps, 5);
    assert_int_equal(n_looks, 5);
    hcq_signal_set(sig, 3);
    ops.check = NULL;
    n_looks = n_sleeps = 0;
    expect_ok(hcq_signal_wait(sig, 9, 60000 * MS));
    assert_int_equal(n_sleeps, 5);
    assert_int_equal(n_looks, 0);
    hcq_signal_set(sig, 3);
    ops.check = look;
    n_looks = n_sleeps = 0;
    lost_at = 2;
    expect_fails(hcq_signal_wait(sig, 9, HCQ_WAIT_FOREVER), BELL_E_DEVICE_LOST,
                 "found by look 2");
    assert_int_equal(n_sleeps, 2);
    /* whoever waits for what has come is not told */
    expect_ok(hcq_signal_wait(sig, 3, 0));
    expect_fails(hcq_signal_wait(sig, 4, 0), BELL_E_DEVICE_LOST,
                 "found by look 2");
    /* nor is there a queue to wait for */
    expect_fails(hcq_device_synchronize(dev, 0), BELL_E_DEVICE_LOST,
                 "found by look 2");
    expect_ok(hcq_device_recover(dev));
    n_looks = 0;
    lost_at = 1;
    expect_fails(hcq_device_synchronize(dev, 0), BELL_E_DEVICE_LOST,
                 "found by look 1");
    dev->ops = real;
    expect_ok(hcq_device_recover(dev));
    expect_ok(hcq_device_synchronize(dev, 0));
}

static void
test_times_out(void **state)
{
    uint64_t start_ns = time_now_ns(), waited_ns;

    (void)state;
    hcq_signal_set(sig, 3);
    expect_fails(hcq_signal_wait(sig, 4, 20 * MS), BELL_E_TIMEOUT,
                 "is 3, waited ");
    waited_ns = time_now_ns() - start_ns;
    assert_true(waited_ns >= 20 * MS);
    expect_fails(hcq_signal_wait(sig, 4, 0), BELL_E_TIMEOUT, "for 4");
    expect_ok(hcq_signal_wait(sig, 3, 0));
    expect_fails(hcq_signal_wait(NULL, 4, 0), BELL_E_INVALID, "NULL");
}

/* Threads of the device block signals; whoever makes them does not. */
static void
signals_of_the_process(void **state)
{
    struct hcq_device *other;
    struct hcq_queue *own;
    sigset_t none, after;
    int number;

    (void)state;
    sigemptyset(&none);
    assert_int_equal(pthread_sigmask(SIG_SETMASK, &none, NULL), 0);
    assert_int_equal(hcq_device_open("CPU", &other), BELL_OK);
    assert_int_equal(hcq_queue_create(other, HCQ_QUEUE_COMPUTE, &own), BELL_OK);
    assert_int_equal(pthread_sigmask(SIG_SETMASK, NULL, &after), 0);
    for (number = 1; number < 32; number++)
        assert_false(sigismember(&after, number));
    hcq_queue_destroy(own);
    hcq_device_close(other);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_times_out),
        cmocka_unit_test(signals_of_the_process),
        cmocka_unit_test(test_looks),
    };

    return cmocka_run_group_tests(tests, open_device, close_device);
}
