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
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#include "base/interrupt.h"
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

/* ---- waits that the program ends ---- */

static int n_asked, end_at;

static int
count_asked(void *user)
{
    assert_ptr_equal(user, &end_at);
    return ++n_asked >= end_at;
}

static void *
wait_asked_by_nobody(void *user)
{
    (void)user;
    expect_fails(hcq_signal_wait(sig, 4, MS), BELL_E_TIMEOUT, "for 4");
    assert_false(interrupt_is_on());
    return NULL;
}

/* Asked again and again, and not too often; from its answer on no wait lasts;
 * what has come is there all the same. Other threads are asked by nobody. */
static void
test_interrupt(void **state)
{
    uint64_t start_ns = time_now_ns();
    pthread_t thread;

    (void)state;
    hcq_signal_set(sig, 3);
    n_asked = 0;
    end_at = 3;
    bell_interrupt_set(count_asked, &end_at);
    expect_fails(hcq_signal_wait(sig, 4, HCQ_WAIT_FOREVER), BELL_E_TIMEOUT,
                 "the program ended the wait");
    assert_int_equal(n_asked, 3);
    assert_true(time_now_ns() - start_ns >= 90 * MS);
    assert_true(interrupt_is_on());
    expect_fails(hcq_signal_wait(sig, 4, HCQ_WAIT_WHILE_MOVING), BELL_E_TIMEOUT,
                 "the program ended the wait");
    assert_int_equal(n_asked, 3);
    expect_ok(hcq_signal_wait(sig, 3, HCQ_WAIT_FOREVER));
    assert_int_equal(pthread_create(&thread, NULL, wait_asked_by_nobody, NULL),
                     0);
    assert_int_equal(pthread_join(thread, NULL), 0);
    /* what cleans up waits all the same */
    interrupt_hold();
    interrupt_hold();
    interrupt_release();
    assert_false(interrupt_is_on());
    expect_fails(hcq_signal_wait(sig, 4, 2 * MS), BELL_E_TIMEOUT, "waited ");
    if (strstr(bell_error_last()->message, "ended the wait"))
        fail_msg("a held wait was ended");
    interrupt_release();
    assert_true(interrupt_is_on());
    /* until it is set anew */
    bell_interrupt_set(count_asked, &end_at);
    assert_false(interrupt_is_on());
    end_at = INT32_MAX;
    expect_fails(hcq_signal_wait(sig, 4, 2 * MS), BELL_E_TIMEOUT, "waited ");
    bell_interrupt_set(NULL, NULL);
    n_asked = 0;
    expect_fails(hcq_signal_wait(sig, 4, 2 * MS), BELL_E_TIMEOUT, "waited ");
    assert_int_equal(n_asked, 0);
}

static uint64_t moved; /* the device's progress, and how fast it changes */
static uint64_t step;

static uint64_t
tell_moved(struct hcq_device *device)
{
    assert_ptr_equal(device, dev);
    return moved;
}

static void
sleep_shortly(struct hcq_signal *signal, uint64_t seen, uint64_t max_ns)
{
    struct timespec nap = {.tv_nsec = 1000000};

    assert_true(hcq_signal_value(signal) == seen && max_ns > 0);
    nanosleep(&nap, NULL);
    moved += step;
    if (++n_sleeps == 100)
        hcq_signal_set(signal, 9);
}

/* A device that moves is waited for, however long it takes; one that stands
 * still is reported after its limit, and at once from then on until it moves or
 * gets another limit. */
static void
test_while_moving(void **state)
{
    const struct hcq_device_ops *real = dev->ops;
    struct hcq_device_ops ops = *real;
    const char *for_limit = "nothing moved for";
    const char *since = "nothing moved since the report of that";

    (void)state;
    ops.signal_sleep = sleep_shortly;
    ops.progress = tell_moved;
    dev->ops = &ops;
    hcq_device_set_timeout(dev, 20 * MS);
    hcq_signal_set(sig, 3);
    step = 1;
    n_sleeps = 0;
    expect_ok(hcq_signal_wait(sig, 9, HCQ_WAIT_WHILE_MOVING)); /* 100 ms */
    assert_int_equal(n_sleeps, 100);
    hcq_signal_set(sig, 3);
    step = 0;
    n_sleeps = 1000;
    expect_fails(hcq_signal_wait(sig, 9, HCQ_WAIT_WHILE_MOVING), BELL_E_TIMEOUT,
                 for_limit);
    assert_non_null(strstr(bell_error_last()->message, "BELL_TIMEOUT"));
    assert_non_null(strstr(bell_error_last()->message, "0.02 s"));
    n_sleeps = 1000;
    expect_fails(hcq_signal_wait(sig, 9, HCQ_WAIT_WHILE_MOVING), BELL_E_TIMEOUT,
                 since);
    moved++;
    expect_fails(hcq_signal_wait(sig, 9, HCQ_WAIT_WHILE_MOVING), BELL_E_TIMEOUT,
                 for_limit);
    expect_fails(hcq_signal_wait(sig, 9, HCQ_WAIT_WHILE_MOVING), BELL_E_TIMEOUT,
                 since);
    hcq_device_set_timeout(dev, 30 * MS);
    expect_fails(hcq_signal_wait(sig, 9, HCQ_WAIT_WHILE_MOVING), BELL_E_TIMEOUT,
                 for_limit);
    /* other limits hold as they are given, and none is none */
    expect_fails(hcq_signal_wait(sig, 9, 0), BELL_E_TIMEOUT, "for 9");
    hcq_device_set_timeout(dev, HCQ_WAIT_FOREVER);
    n_sleeps = 0;
    expect_ok(hcq_signal_wait(sig, 9, HCQ_WAIT_WHILE_MOVING));
    dev->ops = real;
    hcq_device_set_timeout(dev, HCQ_TIMEOUT_NS);
}

/* BELL_TIMEOUT is the limit that a device is opened with. */
static void
test_environment(void **state)
{
    static const struct {
        const char *text;
        uint64_t want_ns; /* 0: refused */
    } rows[] = {
        {"0.25", 250 * MS},
        {"7", 7000 * MS},
        {"1e9", 1000000000000000000ull},
        {"0", HCQ_WAIT_FOREVER},
        {"off", HCQ_WAIT_FOREVER},
        {"", HCQ_TIMEOUT_NS},
        {"-1", 0},
        {"nan", 0},
        {"inf", 0},
        {"2e9", 0},
        {"3 s", 0},
        {"on", 0},
    };
    struct hcq_device *other;
    size_t i;

    (void)state;
    for (i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        setenv("BELL_TIMEOUT", rows[i].text, 1);
        if (!rows[i].want_ns) {
            expect_fails(hcq_device_open("CPU", &other), BELL_E_INVALID,
                         "BELL_TIMEOUT is '");
            continue;
        }
        expect_ok(hcq_device_open("CPU", &other));
        assert_true(atomic_load(&other->still_limit_ns) == rows[i].want_ns);
        hcq_device_close(other);
    }
    unsetenv("BELL_TIMEOUT");
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
        cmocka_unit_test(test_while_moving),
        cmocka_unit_test(test_environment),
        cmocka_unit_test(test_times_out),
        cmocka_unit_test(test_interrupt),
        cmocka_unit_test(signals_of_the_process),
        cmocka_unit_test(test_looks),
    };

    return cmocka_run_group_tests(tests, open_device, close_device);
}
