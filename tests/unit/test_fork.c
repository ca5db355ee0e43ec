/* Contexts and fork: a child that uses its parent's context is told, whatever
 * it destroys; its own works; the parent reads right values afterwards. */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "doorbell/ops.h"
#include "doorbell/tensor.h"
#include "tests/unit/expect.h"

#if defined(__SANITIZE_THREAD__)
#define MAY_START_THREADS 0 /* in a child of a process with threads */
#else
#define MAY_START_THREADS 1
#endif

static double
sum_of_squares(struct bell_context *ctx, int64_t n)
{
    struct bell_tensor *x = bell_ones(ctx, BELL_DIMS(n), BELL_FLOAT32);
    double value = 0;

    x = bell_add(x, x);
    expect_ok(
        bell_item_f64(bell_sum(bell_mul(x, x), BELL_NO_DIMS, false), &value));
    return value;
}

static int
told(bell_status status)
{
    if (status == BELL_E_INVALID &&
        bell_error_last()->reason == BELL_REASON_PROCESS &&
        strstr(bell_error_last()->message, "before a fork"))
        return 0;
    fprintf(stderr, "child: %s: %s\n", bell_status_name(status),
            bell_error_last()->message);
    return 1;
}

static int
child_main(struct bell_context *ctx, struct bell_tensor *kept, const char *name)
{
    struct bell_context *own = NULL;
    float data[3] = {1, 2, 3};
    double value;
    int bad = 0;

    bad += told(bell_item_f64(
        bell_sum(bell_mul(kept, kept), BELL_NO_DIMS, false), &value));
    bad += told(bell_read(kept, data, sizeof(data)));
    bad += told(bell_write(kept, data, sizeof(data)));
    (void)bell_from_data(ctx, BELL_DIMS(3), BELL_FLOAT32, data);
    bad += told(bell_context_status(ctx));
    bell_tensor_release(kept);
    bell_context_destroy(ctx);
    if (!MAY_START_THREADS)
        return bad;
    if (bell_context_create(name, &own) != BELL_OK ||
        bell_item_f64(bell_sum(bell_ones(own, BELL_DIMS(5), BELL_FLOAT32),
                               BELL_NO_DIMS, false),
                      &value) != BELL_OK ||
        value != 5) {
        fprintf(stderr, "child: its own: %s\n", bell_error_last()->message);
        bad += 100;
    }
    bell_context_destroy(own);
    return bad;
}

static void
fork_with(const char *name)
{
    struct bell_context *ctx = NULL;
    struct bell_tensor *kept;
    float data[3] = {0};
    int status = 0, i;
    pid_t child;

    expect_ok(bell_context_create(name, &ctx));
    kept = bell_full(ctx, BELL_DIMS(3), 7, BELL_FLOAT32);
    expect_ok(bell_realize1(kept));
    assert_true(sum_of_squares(ctx, 3) == 12);
    for (i = 0; i < 2; i++) {
        fflush(NULL);
        child = fork();
        assert_true(child >= 0);
        if (child == 0) {
            alarm(120);
            _exit(child_main(ctx, kept, name));
        }
        assert_int_equal(waitpid(child, &status, 0), child);
        if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
            fail_msg("%s: the child ended by signal %d, code %d", name,
                     WIFSIGNALED(status) ? WTERMSIG(status) : 0,
                     WEXITSTATUS(status));
        assert_true(sum_of_squares(ctx, 3 + i) == 12 + 4 * i);
        expect_ok(bell_read(kept, data, sizeof(data)));
        assert_true(data[0] == 7 && data[2] == 7);
    }
    bell_context_destroy(ctx);
}

static void
on_cpu(void **state)
{
    (void)state;
    fork_with("CPU");
}

static void
on_nv(void **state)
{
    (void)state;
    fork_with("NV@sim:sm_90");
    fork_with("NV@sim:sm_120");
}

static void
on_amd(void **state)
{
    (void)state;
    fork_with("AMD@sim:gfx1100");
    fork_with("AMD@sim:gfx942");
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(on_cpu),
        cmocka_unit_test(on_nv),
        cmocka_unit_test(on_amd),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
