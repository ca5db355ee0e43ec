/* bell_to between the devices of two contexts: test_to DEVICE DEVICE LOST, of
 * which one is lost at last, number 0 or 1. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/bits.h"
#include "doorbell/tensor.h"
#include "hcq/hcq_backend.h"
#include "tensor/core/tensor_internal.h"
#include "tensor/runtime/run.h"
#include "tests/unit/expect.h"

#define N       64
#define N_BIG   (3u * 1048576 + 5) /* bytes: several chunks */
#define LONG_NS (60ull * 1000000000)

static const char *names[2];
static struct bell_context *ctxs[2];
static int lost;

static int
open_both(void **state)
{
    int i;

    (void)state;
    for (i = 0; i < 2; i++)
        expect_ok(bell_context_create(names[i], &ctxs[i]));
    return 0;
}

static int
close_both(void **state)
{
    (void)state;
    bell_context_destroy(ctxs[1]);
    bell_context_destroy(ctxs[0]);
    return 0;
}

/* Whether values go by the devices alone. */
static bool
goes_alone(void)
{
    return !strstr(names[0], "msm") && !strstr(names[1], "msm");
}

/* first, first + 1 .. */
static struct bell_tensor *
numbers(struct bell_context *ctx, float first)
{
    float values[N];
    int i;

    for (i = 0; i < N; i++)
        values[i] = first + (float)i;
    return bell_from_data(ctx, BELL_DIMS(N), BELL_FLOAT32, values);
}

static void
expect_numbers(struct bell_tensor *t, float first, float step)
{
    float values[N];
    int i;

    expect_ok(bell_read(t, values, sizeof(values)));
    for (i = 0; i < N; i++)
        assert_true(values[i] == first + step * (float)i);
}

/* What the device does next waits for that. */
static struct hcq_signal *
hold(struct bell_context *ctx)
{
    struct tensor_runtime *rt = ctx->runtime;
    struct hcq_signal *gate;
    struct hcq_cs *cs;

    expect_ok(hcq_signal_create(rt->dev, 0, &gate));
    expect_ok(hcq_queue_begin(rt->queue, &cs));
    hcq_cs_wait(cs, gate, 1);
    expect_ok(hcq_cs_submit(cs, &rt->last_value));
    return gate;
}

static void
let_go(struct hcq_signal *gate)
{
    hcq_signal_set(gate, 1);
    expect_ok(hcq_device_synchronize(gate->dev, LONG_NS));
    hcq_signal_destroy(gate);
}

/* The producer is held up: all is queued, on both devices, and nobody
 * waited. */
static void
test_queued(void **state)
{
    struct bell_tensor *x, *y, *z;
    struct hcq_signal *gate;
    struct tensor_runtime *rt = ctxs[1]->runtime;

    (void)state;
    if (!goes_alone())
        skip();
    expect_ok(bell_scope_begin(ctxs[0]));
    expect_ok(bell_scope_begin(ctxs[1]));
    x = numbers(ctxs[0], 1);
    y = bell_add(x, x);
    expect_ok(bell_realize1(y));
    z = bell_to(bell_add(y, y), ctxs[1]); /* compiled */
    expect_numbers(bell_add(z, z), 8, 8);
    gate = hold(ctxs[0]);
    z = bell_to(bell_add(y, y), ctxs[1]);
    z = bell_add(z, z);
    expect_ok(bell_realize1(z));
    assert_true(hcq_signal_value(hcq_queue_timeline(rt->queue)) <
                rt->last_value);
    let_go(gate);
    expect_numbers(z, 8, 8);
    expect_ok(bell_scope_end(ctxs[1]));
    expect_ok(bell_scope_end(ctxs[0]));
}

/* The source goes on at once: it is written to, or released, behind the copy,
 * and its memory given to others. There and back. */
static void
test_many(void **state)
{
    struct bell_tensor *x, *y;
    int i;

    (void)state;
    for (i = 0; i < 30; i++) {
        expect_ok(bell_scope_begin(ctxs[0]));
        expect_ok(bell_scope_begin(ctxs[1]));
        x = numbers(ctxs[0], (float)i);
        y = bell_to(x, ctxs[1]);
        bell_assign(x, numbers(ctxs[0], -1000));
        expect_ok(bell_realize1(x));
        bell_tensor_release(x);
        x = bell_to(bell_add(y, y), ctxs[0]);
        bell_tensor_release(y);
        if (i % 3 == 0)
            expect_numbers(x, (float)(2 * i), 2);
        else
            expect_ok(bell_realize1(x));
        expect_ok(bell_scope_end(ctxs[1]));
        expect_ok(bell_scope_end(ctxs[0]));
    }
}

static void
test_big(void **state)
{
    uint8_t *bytes = malloc(N_BIG), *seen = malloc(N_BIG);
    struct bell_tensor *x;
    uint32_t i;

    (void)state;
    assert_true(bytes && seen);
    for (i = 0; i < N_BIG; i++)
        bytes[i] = (uint8_t)(i * 7 + i / 251);
    expect_ok(bell_scope_begin(ctxs[0]));
    expect_ok(bell_scope_begin(ctxs[1]));
    x = bell_from_data(ctxs[0], BELL_DIMS(N_BIG), BELL_UINT8, bytes);
    x = bell_to(bell_to(x, ctxs[1]), ctxs[0]);
    expect_ok(bell_read(x, seen, N_BIG));
    assert_memory_equal(bytes, seen, N_BIG);
    expect_ok(bell_scope_end(ctxs[1]));
    expect_ok(bell_scope_end(ctxs[0]));
    free(bytes);
    free(seen);
}

/* A context ends while the other one's device has not come that far. */
static void
test_close(void **state)
{
    struct bell_tensor *x, *y;
    int first, i;

    (void)state;
    for (first = 0; first < 2; first++) {
        for (i = 0; i < 5; i++) {
            x = numbers(ctxs[0], 5);
            expect_ok(bell_realize1(x));
            y = bell_to(x, ctxs[1]);
            expect_ok(bell_realize1(y));
        }
        bell_context_destroy(ctxs[first]);
        if (first == 0)
            expect_numbers(y, 5, 1);
        else
            expect_numbers(x, 5, 1);
        bell_context_destroy(ctxs[!first]);
        assert_int_equal(open_both(state), 0);
    }
}

/* The device that is to give values is lost, or the one that is to get them.
 * Some do not work again in this process. */
static void
test_lost(void **state)
{
    struct hcq_fault fault = {.kind = HCQ_FAULT_STREAM, .text = "lost by hand"};
    struct bell_tensor *x, *y;
    struct hcq_signal *gate;
    float values[N];

    (void)state;
    if (!goes_alone())
        skip();
    x = numbers(ctxs[0], 3);
    expect_ok(bell_realize1(x));
    gate = hold(ctxs[lost]);
    y = bell_to(x, ctxs[1]);
    expect_ok(bell_realize1(y));
    hcq_device_set_lost(gate->dev, &fault);
    if (lost == 0)
        expect_fails(bell_read(y, values, sizeof(values)), BELL_E_DEVICE_LOST,
                     "waits for values of");
    else
        expect_numbers(x, 3, 1);
    hcq_signal_set(gate, 1); /* which goes with its device */
}

int
main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_queued, open_both, close_both),
        cmocka_unit_test_setup_teardown(test_many, open_both, close_both),
        cmocka_unit_test_setup_teardown(test_big, open_both, close_both),
        cmocka_unit_test_setup_teardown(test_close, open_both, close_both),
        cmocka_unit_test_setup_teardown(test_lost, open_both, close_both),
    };

    if (argc != 4) {
        fprintf(stderr, "usage: test_to DEVICE DEVICE LOST\n");
        return 2;
    }
    names[0] = argv[1];
    names[1] = argv[2];
    lost = argv[3][0] == '1';
    return cmocka_run_group_tests(tests, NULL, NULL);
}
