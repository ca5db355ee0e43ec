/* Contexts and fork: a child that uses its parent's context is told, whatever
 * it destroys; its own works; the parent reads right values afterwards. */
#include <pthread.h>
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

#include "doorbell/custom.h"
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

/* A thread that is inside a context until `may_go`. */
struct visitor {
    struct bell_context *ctx;
    int is_in[2], may_go[2];
};

static struct bell_tensor *
wait_inside(struct bell_context *ctx, void *user, struct bell_tensor *const *in,
            uint32_t n_in)
{
    struct visitor *v = user;
    char byte = 0;

    (void)ctx;
    (void)n_in;
    if (write(v->is_in[1], &byte, 1) != 1 || read(v->may_go[0], &byte, 1) != 1)
        return NULL;
    return bell_neg(in[0]);
}

static bell_status
no_gradient(struct bell_context *ctx, void *user, struct bell_tensor *const *in,
            uint32_t n_in, struct bell_tensor *out, struct bell_tensor *grad,
            struct bell_tensor **out_grads)
{
    (void)ctx;
    (void)user;
    (void)in;
    (void)n_in;
    (void)out;
    (void)grad;
    (void)out_grads;
    return BELL_OK;
}

static void *
visit(void *arg)
{
    struct visitor *v = arg;
    const struct bell_custom_desc desc = {.struct_size = sizeof(desc),
                                          .name = "wait",
                                          .forward = wait_inside,
                                          .backward = no_gradient,
                                          .user = v};
    struct bell_tensor *x = bell_ones(v->ctx, BELL_DIMS(3), BELL_FLOAT32);
    double value = 0;

    x = bell_sum(bell_custom(&desc, &x, 1), BELL_NO_DIMS, false);
    if (bell_item_f64(x, &value) != BELL_OK || value != -3)
        return arg;
    return NULL;
}

static int
child_of_visited(struct bell_context *ctx, struct bell_tensor *kept)
{
    float data[3] = {1, 2, 3};
    int bad;

    bad = told(bell_read(kept, data, sizeof(data)));
    bad += told(bell_realize1(bell_add(kept, kept)));
    bell_tensor_release(kept);
    bell_context_destroy(ctx);
    return bad;
}

/* A thread that was inside at the fork is not in the child, where no call says
 * that one is. */
static void
of_a_context_in_use(void **state)
{
    struct visitor v;
    struct bell_tensor *kept;
    pthread_t thread;
    void *failed = NULL;
    char byte = 0;
    int status = 0;
    pid_t child;

    (void)state;
    expect_ok(bell_context_create("CPU", &v.ctx));
    kept = bell_full(v.ctx, BELL_DIMS(3), 7, BELL_FLOAT32);
    expect_ok(bell_realize1(kept));
    assert_int_equal(pipe(v.is_in) | pipe(v.may_go), 0);
    assert_int_equal(pthread_create(&thread, NULL, visit, &v), 0);
    assert_int_equal(read(v.is_in[0], &byte, 1), 1);
    fflush(NULL);
    child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        alarm(120);
        _exit(child_of_visited(v.ctx, kept));
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
    assert_int_equal(bell_realize1(kept), BELL_E_INVALID);
    assert_int_equal(bell_error_last()->reason, BELL_REASON_THREAD);
    assert_int_equal(write(v.may_go[1], &byte, 1), 1);
    assert_int_equal(pthread_join(thread, &failed), 0);
    assert_null(failed);
    bell_context_destroy(v.ctx);
    close(v.is_in[0]);
    close(v.is_in[1]);
    close(v.may_go[0]);
    close(v.may_go[1]);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(on_cpu),
        cmocka_unit_test(on_nv),
        cmocka_unit_test(on_amd),
        cmocka_unit_test(of_a_context_in_use),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
