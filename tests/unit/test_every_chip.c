/* Every chip that code is made for, simulated, in one process: a sum, a
 * product of float16 matrices, which matrix units do where there are some, and
 * a copy queue that has to wait. Whole suites run on one chip of a family; this
 * is what the others get. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/chip.h"
#include "doorbell/ops.h"
#include "doorbell/tensor.h"
#include "hcq/hcq.h"
#include "tests/unit/expect.h"

#define N_SUM  1000
#define M_ROWS 16

#define LONG_NS  (30ull * 1000000000)
#define SHORT_NS 1000000ull

static struct bell_context *ctx;

/* Whole numbers that any order of adding gives exactly, in float16 too. */
static struct bell_tensor *
whole_numbers(const int64_t *shape, uint32_t ndim, size_t n, int modulus,
              enum bell_dtype dtype)
{
    float host[N_SUM];
    size_t i;

    assert_true(n <= N_SUM);
    for (i = 0; i < n; i++)
        host[i] = (float)((int)i % modulus - modulus / 2);
    return bell_cast(bell_from_data(ctx, shape, ndim, BELL_FLOAT32, host),
                     dtype);
}

static void
check_sum(const char *device)
{
    struct bell_tensor *x =
        whole_numbers(BELL_DIMS(N_SUM), N_SUM, 7, BELL_FLOAT32);
    double sum = 0, got = 0;
    int i;

    for (i = 0; i < N_SUM; i++)
        sum += i % 7 - 3;
    expect_ok(bell_read_f64(bell_sum(x, NULL, 0, false), &got, 1));
    if (got != sum)
        fail_msg("%s: a sum is %g, not %g", device, got, sum);
}

static void
check_product(const char *device)
{
    struct bell_tensor *a, *b;
    double got[M_ROWS * M_ROWS];
    size_t i, j, k, n = M_ROWS * M_ROWS;

    a = whole_numbers(BELL_DIMS(M_ROWS, M_ROWS), n, 5, BELL_FLOAT16);
    b = whole_numbers(BELL_DIMS(M_ROWS, M_ROWS), n, 3, BELL_FLOAT16);
    expect_ok(bell_read_f64(bell_matmul(a, b), got, n));
    for (i = 0; i < M_ROWS; i++) {
        for (j = 0; j < M_ROWS; j++) {
            double sum = 0;

            for (k = 0; k < M_ROWS; k++)
                sum += ((double)((i * M_ROWS + k) % 5) - 2) *
                       ((double)((k * M_ROWS + j) % 3) - 1);
            if (got[i * M_ROWS + j] != sum)
                fail_msg("%s: a product is %g at %zu, %zu, not %g", device,
                         got[i * M_ROWS + j], i, j, sum);
        }
    }
}

/* A copy queue waits until the host has set what it waits for. */
static void
check_waiting_copies(const char *device)
{
    struct hcq_device *dev;
    struct hcq_queue *queue;
    struct hcq_signal *sig, *done;
    struct hcq_cs *cs;

    expect_ok(hcq_device_open(device, &dev));
    expect_ok(hcq_queue_create(dev, HCQ_QUEUE_COPY, &queue));
    expect_ok(hcq_signal_create(dev, 0, &sig));
    expect_ok(hcq_signal_create(dev, 0, &done));
    expect_ok(hcq_queue_begin(queue, &cs));
    hcq_cs_wait(cs, sig, 1);
    hcq_cs_signal(cs, done, 1);
    expect_ok(hcq_cs_submit(cs, NULL));
    if (hcq_signal_wait(done, 1, SHORT_NS) != BELL_E_TIMEOUT)
        fail_msg("%s: a copy queue did not wait", device);
    hcq_signal_set(sig, 1);
    expect_ok(hcq_signal_wait(done, 1, LONG_NS));
    expect_ok(hcq_queue_wait(queue, LONG_NS));
    hcq_device_close(dev);
}

static void
check_backend(const char *backend)
{
    char chips[512], device[64], *name, *rest = NULL;

    chip_arch_list(backend, chips, sizeof(chips));
    assert_true(strlen(chips) + 1 < sizeof(chips));
    for (name = strtok_r(chips, ", ", &rest); name;
         name = strtok_r(NULL, ", ", &rest)) {
        snprintf(device, sizeof(device), "%s@sim:%s", backend, name);
        expect_ok(bell_context_create(device, &ctx));
        check_sum(device);
        check_product(device);
        bell_context_destroy(ctx);
        check_waiting_copies(device);
    }
}

static void
test_amd(void **state)
{
    (void)state;
    check_backend("AMD");
}

static void
test_nv(void **state)
{
    (void)state;
    check_backend("NV");
}

static void
test_qcom(void **state)
{
    (void)state;
    check_backend("QCOM");
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_amd),
        cmocka_unit_test(test_nv),
        cmocka_unit_test(test_qcom),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
