/* The search for schedules: what a candidate does ends no search, what is found
 * is right, and kept. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/bits.h"
#include "doorbell/ops.h"
#include "doorbell/stats.h"
#include "doorbell/tensor.h"
#include "tensor/runtime/runtime.h"
#include "tensor/core/tensor_internal.h"

#define SIDE 64

static struct tensor_tuned told; /* the last; its texts are gone */
static char best[LOWER_SCHEDULE_TEXT];
static uint32_t n_told, n_counted;
static volatile sig_atomic_t has_enough;

static void
hear(void *user, const struct tensor_tuned *t)
{
    (void)user;
    told = *t;
    snprintf(best, sizeof(best), "%s", t->why_rules ? "rules" : t->best);
    n_told++;
}

static void
begin_count(void *user)
{
    (void)user;
}

/* Each is better than those before, so that all are run and compared. */
static void
end_count(void *user, struct chip_work *out_work)
{
    (void)user;
    out_work->n_insns = 1e9 / ++n_counted;
    has_enough = n_counted > 24;
}

/* A matrix of small integers: sums of products are exact in any order. */
static struct bell_tensor *
matrix(struct bell_context *ctx, float *host, uint32_t seed)
{
    struct bell_tensor *t;
    int i;

    for (i = 0; i < SIDE * SIDE; i++) {
        seed = seed * 1664525 + 1013904223;
        host[i] = (float)(seed >> 29);
    }
    t = bell_from_data(ctx, BELL_DIMS(SIDE, SIDE), BELL_FLOAT32, host);
    assert_non_null(t);
    return t;
}

/* x @ w, compared with what it is. */
static void
run_product(struct bell_context *ctx)
{
    static float x[SIDE * SIDE], w[SIDE * SIDE], y[SIDE * SIDE];
    struct bell_tensor *product =
        bell_matmul(matrix(ctx, x, 1), matrix(ctx, w, 2));
    int i, j, k;

    if (bell_read(product, y, sizeof(y)) != BELL_OK)
        fail_msg("%s", bell_error_last()->message);
    for (i = 0; i < SIDE; i += 7) {
        for (j = 0; j < SIDE; j++) {
            float sum = 0;
            for (k = 0; k < SIDE; k++)
                sum += x[i * SIDE + k] * w[k * SIDE + j];
            assert_true(sum == y[i * SIDE + j]);
        }
    }
}

static struct bell_context *
open_device(const char *device)
{
    struct bell_context *ctx;

    if (bell_context_create(device, &ctx) != BELL_OK)
        fail_msg("%s", bell_error_last()->message);
    n_told = n_counted = 0;
    has_enough = 0;
    return ctx;
}

static void
check_failures(const char *device, uint32_t bad_address)
{
    const struct tensor_tune tune = {.beam = 2,
                                     .seconds = 20,
                                     .stop = &has_enough,
                                     .tell = hear,
                                     .count_begin = begin_count,
                                     .count_end = end_count,
                                     .bad_address = bad_address,
                                     .never_ends = 5};
    struct bell_context *ctx = open_device(device);

    tensor_tune_set(ctx, &tune);
    run_product(ctx);
    assert_int_equal(n_told, 1);
    assert_null(told.why_not);
    assert_int_equal(told.n_faulted, bad_address ? 1 : 0);
    assert_int_equal(told.n_hung, 1);
    assert_int_equal(told.n_wrong, 0);
    assert_true(told.n_tried > 8);
    if (told.by == TENSOR_TUNE_COUNTED)
        assert_null(told.why_rules);
    bell_context_destroy(ctx);
}

static void
test_failures_of_nv(void **state)
{
    (void)state;
    check_failures("NV@sim:sm_90", 3);
}

static void
test_failures_of_amd(void **state)
{
    (void)state;
    check_failures("AMD@sim:gfx1100", 0);
    check_failures("AMD@sim:gfx1100,kfd=1.19", 3);
}

/* KFD lets a process that faulted, or whose card was reset, go on no more: so
 * does the search, which has found nothing. */
static void
test_fault_of_amd(void **state)
{
    static const struct {
        const char *device;
        uint32_t bad_address;
    } cases[] = {{"AMD@fault:poll:1=EIO@sim:gfx1100", 3},
                 {"AMD@fault:poll:2=EIO@sim:gfx1100,reset=9", 0}};
    static float x[SIDE * SIDE], w[SIDE * SIDE];
    size_t i;

    (void)state;
    for (i = 0; i < ARRAY_LEN(cases); i++) {
        const struct tensor_tune tune = {.beam = 2,
                                         .seconds = 20,
                                         .stop = &has_enough,
                                         .tell = hear,
                                         .count_begin = begin_count,
                                         .count_end = end_count,
                                         .bad_address = cases[i].bad_address};
        struct bell_context *ctx = open_device(cases[i].device);
        struct bell_tensor *product;

        tensor_tune_set(ctx, &tune);
        product = bell_matmul(matrix(ctx, x, 1), matrix(ctx, w, 2));
        assert_int_equal(bell_compile(&product, 1), BELL_E_DEVICE_LOST);
        if (!strstr(bell_error_last()->message, "start the program anew"))
            fail_msg("%s", bell_error_last()->message);
        assert_int_equal(n_told, 0);
        bell_context_destroy(ctx);
    }
}

static void
test_failures_of_cpu(void **state)
{
    (void)state;
    check_failures("CPU", 3);
}

/* A schedule that was found is used by the next program that asks for as good a
 * search or a worse one; without BELL_BEAM nothing is. */
static void
test_kept(void **state)
{
    const struct tensor_tune tune = {.beam = 4,
                                     .seconds = 20,
                                     .stop = &has_enough,
                                     .tell = hear,
                                     .count_begin = begin_count,
                                     .count_end = end_count};
    char folder[64] = "/tmp/bell-search-XXXXXX", command[128];
    const struct tensor_runtime *rt;
    struct bell_context *ctx;
    struct bell_stats stats = {.struct_size = sizeof(stats)};
    char text[LOWER_SCHEDULE_TEXT];
    int i;

    (void)state;
    assert_non_null(mkdtemp(folder));
    setenv("BELL_CACHE", folder, 1);
    ctx = open_device("NV@sim:sm_90");
    tensor_tune_set(ctx, &tune);
    run_product(ctx);
    assert_int_equal(n_told, 1);
    assert_string_not_equal(best, "rules");
    bell_context_destroy(ctx);
    for (i = 0; i < 3; i++) { /* without, with fewer, as many */
        static const char *const beams[] = {"off", "2", "4"};
        setenv("BELL_BEAM", beams[i], 1);
        ctx = open_device("NV@sim:sm_90");
        rt = ctx->runtime;
        run_product(ctx);
        assert_int_equal(rt->n_schedules, i > 0);
        if (i > 0) {
            lower_schedule_print(&rt->schedules[0], text);
            assert_string_equal(text, best);
        }
        bell_context_stats(ctx, &stats); /* of the rules the first time */
        assert_int_equal(stats.n_kernels_compiled, i == 0);
        assert_int_equal(stats.n_kernels_found, i > 0);
        bell_context_destroy(ctx);
    }
    unsetenv("BELL_BEAM");
    setenv("BELL_CACHE", "off", 1);
    snprintf(command, sizeof(command), "rm -rf %s", folder);
    assert_int_equal(system(command), 0);
}

static void
test_bad_beam(void **state)
{
    static const char *const bad[] = {"x", "-1", "65", "4x", " 4"};
    struct bell_context *ctx;
    size_t i;

    (void)state;
    for (i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        setenv("BELL_BEAM", bad[i], 1);
        assert_int_equal(bell_context_create("CPU", &ctx), BELL_E_INVALID);
        assert_non_null(strstr(bell_error_last()->message, "BELL_BEAM"));
    }
    unsetenv("BELL_BEAM");
}

/* The time is over before anything can be tried. */
static void
test_no_time(void **state)
{
    const struct tensor_tune tune = {.beam = 4, .seconds = 1e-9, .tell = hear};
    struct bell_context *ctx = open_device("CPU");

    (void)state;
    tensor_tune_set(ctx, &tune);
    run_product(ctx);
    assert_int_equal(n_told, 1);
    assert_int_equal(told.n_tried, 0);
    bell_context_destroy(ctx);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_failures_of_nv),
        cmocka_unit_test(test_failures_of_amd),
        cmocka_unit_test(test_fault_of_amd),
        cmocka_unit_test(test_failures_of_cpu),
        cmocka_unit_test(test_kept),
        cmocka_unit_test(test_bad_beam),
        cmocka_unit_test(test_no_time),
    };

    setenv("BELL_CACHE", "off", 1);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
