/* The n-th kernel call fails, once or with all that follow it (clean-up too),
 * for n over the whole life of a context that trains one step: the error names
 * the call that failed first, the next context works, and neither the process
 * nor the simulated kernel keeps anything.
 *
 * Sanitizers try a part of the calls, all with BELL_TEST_FAULTS=all. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/bits.h"
#include "doorbell/nn.h"
#include "doorbell/ops.h"
#include "doorbell/tensor.h"
#include "sim/nv/sim_nv.h"
#include "tests/unit/expect.h"
#include "tests/unit/sanitized.h"
#include "tests/unit/sim_kept.h"
#include "tests/unit/usage.h"

/* This many runs in a row without an error: nothing is left that could fail. */
#define GOOD_ENOUGH 12u
#define CALLS_MAX   2000u
/* After the last call that must work: what a life ends with. */
#define CLEAN_UP_CALLS 120u
/* The heap may grow once, where another way was taken. */
#define HEAP_MAPS 2u

/* In a row, calls that may fail without harm: what is known without them is
 * less exact (the driver's version, a better clock), or another way is
 * taken. */
#define HARMLESS_MAX 4u
/* EPERM in the list of KFD's nodes: cards that are not for this user. */
#define KFD_NODES_MAX 256u

#define STEP (IS_SANITIZED ? 7u : 1u)

static bell_status
train(const char *name, double *out_loss)
{
    struct bell_context *ctx = NULL;
    struct bell_tensor *x, *w, *loss;
    bell_status status;

    BELL_TRY(bell_context_create(name, &ctx));
    x = bell_linspace(ctx, -1, 1, 24, BELL_FLOAT32);
    w = bell_full(ctx, BELL_DIMS(24), 0.5, BELL_FLOAT32);
    w = bell_requires_grad(w, true);
    loss = bell_sum(bell_square(bell_mul(x, w)), BELL_NO_DIMS, false);
    status = bell_backward(loss);
    if (status == BELL_OK) {
        (void)bell_assign(
            w, bell_sub(w, bell_mul(bell_grad(w), bell_scalar(ctx, 0.1))));
        loss = bell_sum(bell_square(bell_mul(x, w)), BELL_NO_DIMS, false);
        status = bell_item_f64(loss, out_loss);
    }
    bell_context_destroy(ctx);
    return status;
}

/* The number that the message tells; 0: none. */
static unsigned
told_call(void)
{
    const char *at = strstr(bell_error_last()->message, "planned for call ");

    return at ? (unsigned)strtoul(at + strlen("planned for call "), NULL, 10)
              : 0;
}

static bool
names_clean_up(const char *message)
{
    static const char *const calls[] = {"FREE", "UNMAP", "DESTROY", "munmap"};
    size_t i;

    for (i = 0; i < ARRAY_LEN(calls); i++) {
        if (strstr(message, calls[i]))
            return true;
    }
    return false;
}

static enum bell_reason
reason_of(const char *action)
{
    return strcmp(action, "ENOMEM") == 0  ? BELL_REASON_MEMORY
           : strcmp(action, "EPERM") == 0 ? BELL_REASON_PERMISSION
                                          : BELL_REASON_NONE;
}

static const char *
kind_of(const char *action)
{
    return strchr(action, '=') ? "ioctl" : "any";
}

/* No context is open: the simulated kernels have no more than they keep of a
 * process. */
static void
expect_kernel_empty(const char *name)
{
    if (sim_nv_machine_exists())
        fail_msg("%s: the simulated machine is still there", name);
    expect_kept();
}

/* One error for n = first, first + step, ... and all calls after. Returns the
 * last n that led to an error. */
static unsigned
fail_all(const char *backend, const char *card, const char *action,
         unsigned first, unsigned step, double loss)
{
    unsigned n, told, last = 0, n_good = 0, n_bad = 0, n_exact = 0;
    struct usage before = {0, 0};
    enum bell_reason want = reason_of(action);
    unsigned harmless = HARMLESS_MAX + (strcmp(backend, "AMD") == 0 &&
                                                strcmp(action, "EPERM") == 0
                                            ? KFD_NODES_MAX
                                            : 0);
    char name[128];

    for (n = first; n_good < GOOD_ENOUGH; n += n_good ? 1 : step) {
        const char *message = bell_error_last()->message;
        double got = 0;
        bell_status status;

        snprintf(name, sizeof(name), "%s@fault:%s:%u+=%s@sim:%s", backend,
                 kind_of(action), n, action, card);
        bell_error_clear();
        status = train(name, &got);
        expect_kernel_empty(name);
        if (status == BELL_OK) {
            assert_true(got == loss);
            /* what it did without is not told */
            if (bell_error_last()->status != BELL_OK)
                fail_msg("%s: works, tells: %s", name, message);
            n_good++;
            continue;
        }
        told = told_call();
        if (told < n || told > n + harmless || names_clean_up(message))
            fail_msg("%s: told: %s", name, message);
        if (want != BELL_REASON_NONE && bell_error_last()->reason != want)
            fail_msg("%s: reason %s: %s", name,
                     bell_reason_name(bell_error_last()->reason), message);
        n_good = 0;
        last = n;
        n_exact += told == n;
        if (++n_bad == 3)
            before = usage_now();
        assert_true(n < CALLS_MAX);
    }
    if (step == 1) /* too few others say nothing */
        assert_true(n_exact * 2 > n_bad);
    usage_expect(before, n_bad / 2, name);
    return last;
}

/* The n-th call alone, for n up to `last` and over the clean-up. A life that
 * ends well has found another way, or none was needed. */
static void
fail_once(const char *backend, const char *card, const char *action,
          unsigned first, unsigned step, unsigned last, double loss)
{
    enum bell_reason want = reason_of(action);
    struct usage before = {0, 0};
    unsigned n, n_bad = 0;
    char name[128];

    for (n = first; n <= last + CLEAN_UP_CALLS; n += step) {
        const char *message = bell_error_last()->message;
        double got = 0;
        bell_status status;

        snprintf(name, sizeof(name), "%s@fault:%s:%u=%s@sim:%s", backend,
                 kind_of(action), n, action, card);
        bell_error_clear();
        status = train(name, &got);
        expect_kernel_empty(name);
        if (n <= first + step)
            before = usage_now();
        if (status == BELL_OK) {
            assert_true(got == loss);
            if (bell_error_last()->status != BELL_OK)
                fail_msg("%s: works, tells: %s", name, message);
            continue;
        }
        if (told_call() != n || names_clean_up(message))
            fail_msg("%s: told: %s", name, message);
        if (want != BELL_REASON_NONE && bell_error_last()->reason != want)
            fail_msg("%s: reason %s: %s", name,
                     bell_reason_name(bell_error_last()->reason), message);
        n_bad++;
    }
    assert_true(n_bad * step * 3 > last);
    usage_expect(before, HEAP_MAPS, name);
}

static void
fail_card(const char *backend, const char *card, const char *const *actions,
          unsigned n_actions)
{
    const char *text = getenv("BELL_TEST_FAULTS");
    unsigned step = text && strcmp(text, "all") == 0 ? 1 : STEP, i;
    char name[64];
    double loss;

    snprintf(name, sizeof(name), "%s@sim:%s", backend, card);
    expect_ok(train(name, &loss));
    for (i = 0; i < n_actions; i++) {
        unsigned last = fail_all(backend, card, actions[i],
                                 step == 1 ? 1 : 1 + i, step, loss);
        fail_once(backend, card, actions[i], 1 + i % step, step, last, loss);
    }
}

static const char *const actions[] = {
    "EIO", "ENOMEM", "ENODEV", "EPERM", "status=0x51", /* of NVIDIA's alone */
};
static const char *const amd_actions[] = {
    "EIO", "ENOMEM", "ENODEV", "EPERM", "EINVAL", /* what KFD says most */
};

static void
nv(void **state)
{
    (void)state;
    fail_card("NV", "sm_90", actions, ARRAY_LEN(actions));
}

static void
amd(void **state)
{
    (void)state;
    fail_card("AMD", "gfx1100", amd_actions, ARRAY_LEN(amd_actions));
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nv),
        cmocka_unit_test(amd),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
