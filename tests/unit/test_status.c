/* base/status: the error record. */
#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "base/status.h"

static bell_status
inner(int n)
{
    if (n < 0)
        return bell_fail(BELL_E_INVALID, "n=%d is negative", n);
    return BELL_OK;
}

static bell_status
outer(int n)
{
    BELL_TRY(inner(n));
    return BELL_OK;
}

static void
test_record_and_frames(void **state)
{
    const struct bell_error *error = bell_error_last();

    (void)state;
    bell_error_clear();
    assert_int_equal(error->status, BELL_OK);
    assert_int_equal(outer(1), BELL_OK);
    errno = ENOENT;
    assert_int_equal(outer(-4), BELL_E_INVALID);
    assert_int_equal(error->status, BELL_E_INVALID);
    assert_int_equal(error->sys_errno, 0); /* no call to the system failed */
    assert_int_equal(errno, ENOENT);
    assert_string_equal(error->message, "n=-4 is negative");
    assert_int_equal(error->n_frames, 2);
    assert_string_equal(error->frames[0], "inner");
    assert_string_equal(error->frames[1], "outer");
    bell_error_clear();
    assert_int_equal(error->status, BELL_OK);
}

static void
test_frames_are_bounded(void **state)
{
    int i;

    (void)state;
    assert_int_equal(inner(-1), BELL_E_INVALID);
    for (i = 0; i < 100; i++)
        bell_error_frame("again");
    assert_int_equal(bell_error_last()->n_frames, BELL_ERROR_FRAMES);
}

static void
test_long_messages(void **state)
{
    const struct bell_error *error = bell_error_last();
    char text[2000];
    int i;

    (void)state;
    memset(text, 'x', sizeof(text) - 1);
    text[sizeof(text) - 1] = '\0';
    assert_int_equal(bell_fail(BELL_E_IO, "%s", text), BELL_E_IO);
    assert_int_equal(strlen(error->message), BELL_ERROR_MESSAGE - 1);
    for (i = 0; i < 100; i++)
        bell_error_prefix("at %d", i);
    assert_true(strlen(error->message) < BELL_ERROR_MESSAGE);
    assert_int_equal(strncmp(error->message, "at 99: at 98: ", 14), 0);
    bell_error_prefix("%s", text);
    assert_true(strlen(error->message) < BELL_ERROR_MESSAGE);
    /* what is before stays whole, what is behind is cut at its end */
    for (i = 0; i < (int)sizeof(text) - 1; i++)
        text[i] = (char)('a' + i % 26);
    for (i = 0; i < BELL_ERROR_MESSAGE + 3; i++) {
        int room = BELL_ERROR_MESSAGE - 3 - i;
        assert_int_equal(bell_fail(BELL_E_IO, "%s", text), BELL_E_IO);
        bell_error_prefix("%.*s", i, text + 1);
        if (room < 0) { /* none for it: left out */
            assert_int_equal(
                strncmp(error->message, text, BELL_ERROR_MESSAGE - 1), 0);
        } else {
            assert_int_equal(strncmp(error->message, text + 1, (size_t)i), 0);
            assert_int_equal(strncmp(error->message + i, ": ", 2), 0);
            assert_int_equal(
                strncmp(error->message + i + 2, text, (size_t)room), 0);
        }
        assert_int_equal(strlen(error->message), BELL_ERROR_MESSAGE - 1);
    }
}

static void
test_prefix(void **state)
{
    (void)state;
    assert_int_equal(inner(-1), BELL_E_INVALID);
    bell_error_prefix("column %d", 3);
    assert_string_equal(bell_error_last()->message,
                        "column 3: n=-1 is negative");
}

static void *
fail_elsewhere(void *out)
{
    if (inner(-9) != BELL_OK)
        *(struct bell_error *)out = *bell_error_last();
    return NULL;
}

static void
test_records_are_per_thread(void **state)
{
    struct bell_error other = {.status = BELL_OK};
    pthread_t thread;

    (void)state;
    bell_error_clear();
    assert_int_equal(pthread_create(&thread, NULL, fail_elsewhere, &other), 0);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_int_equal(bell_error_last()->status, BELL_OK);
    assert_int_equal(bell_error_set(&other), BELL_E_INVALID);
    assert_string_equal(bell_error_last()->message, "n=-9 is negative");
}

/* A failure while things are given back is counted and replaces nothing. */
static void
test_clean_up_keeps_the_cause(void **state)
{
    const struct bell_error *error = bell_error_last();
    struct bell_error_hold outer_hold, inner_hold;

    (void)state;
    assert_int_equal(bell_fail_errno(BELL_E_IO, ENOSPC, "the cause"),
                     BELL_E_IO);
    bell_error_hold(&outer_hold);
    assert_int_equal(inner(-2), BELL_E_INVALID);
    assert_string_equal(error->message, "n=-2 is negative");
    bell_error_hold(&inner_hold);
    assert_int_equal(inner(-3), BELL_E_INVALID);
    bell_error_release(&inner_hold);
    assert_string_equal(error->message, "n=-2 is negative");
    assert_int_equal(error->n_suppressed, 1);
    bell_error_release(&outer_hold);
    assert_int_equal(error->status, BELL_E_IO);
    assert_int_equal(error->sys_errno, ENOSPC);
    assert_string_equal(error->message, "the cause");
    assert_string_equal(error->frames[0], __func__);
    assert_int_equal(error->n_suppressed, 2);
    assert_int_equal(inner(-1), BELL_E_INVALID);
    assert_int_equal(error->n_suppressed, 0);
}

static void
test_works_without_memory(void **state)
{
    (void)state;
    host_fail_after(1, 0);
    assert_int_equal(outer(-2), BELL_E_INVALID);
    host_fail_after(0, 0);
    assert_string_equal(bell_error_last()->message, "n=-2 is negative");
}

static void
test_names_and_exit_codes(void **state)
{
    /* as include/ and docs/ tell programs and scripts */
    static const struct {
        int exit_code;
        enum bell_reason reason;
    } expected[BELL_STATUS_COUNT] = {
        [BELL_OK] = {0, BELL_REASON_NONE},
        [BELL_E_INVALID] = {2, BELL_REASON_ARGUMENT},
        [BELL_E_NO_MEMORY] = {1, BELL_REASON_MEMORY},
        [BELL_E_NO_DEVICE] = {3, BELL_REASON_DEVICE},
        [BELL_E_PERMISSION] = {4, BELL_REASON_PERMISSION},
        [BELL_E_IO] = {1, BELL_REASON_IO},
        [BELL_E_KERNEL] = {1, BELL_REASON_KERNEL},
        [BELL_E_TIMEOUT] = {5, BELL_REASON_TIMEOUT},
        [BELL_E_DEVICE_LOST] = {5, BELL_REASON_LOST},
        [BELL_E_UNSUPPORTED] = {6, BELL_REASON_UNSUPPORTED},
        [BELL_E_COMPILE] = {1, BELL_REASON_COMPILE},
        [BELL_E_INTERNAL] = {1, BELL_REASON_INTERNAL},
    };
    int i, j;

    (void)state;
    for (i = 0; i < BELL_STATUS_COUNT; i++) {
        int code = bell_status_exit_code((bell_status)i);
        assert_true(i == BELL_OK ? code == 0 : code >= 1 && code <= 6);
        for (j = 0; j < i; j++)
            assert_string_not_equal(bell_status_name((bell_status)i),
                                    bell_status_name((bell_status)j));
    }
    for (i = 0; i < BELL_STATUS_COUNT; i++) {
        assert_int_equal(bell_status_exit_code((bell_status)i),
                         expected[i].exit_code);
        assert_int_equal(bell_fail((bell_status)i, "why"), i);
        assert_int_equal(bell_error_last()->reason, expected[i].reason);
    }
    for (i = 1; i < BELL_REASON_COUNT; i++) { /* a reason that is given */
        assert_int_equal(bell_fail(BELL_WHY(BELL_E_IO, i), "why"), BELL_E_IO);
        assert_int_equal(bell_error_last()->reason, i);
    }
    assert_int_equal(bell_status_exit_code((bell_status)1000), 1);
    assert_string_equal(bell_status_name((bell_status)-1), "unknown status");
    assert_string_equal(bell_status_name((bell_status)BELL_STATUS_COUNT),
                        "unknown status");
}

static void
test_version(void **state)
{
    char text[32];

    (void)state;
    snprintf(text, sizeof(text), "%d.%d.%d", BELL_VERSION_MAJOR,
             BELL_VERSION_MINOR, BELL_VERSION_PATCH);
    assert_string_equal(BELL_VERSION, text);
    assert_string_equal(BELL_VERSION, PROJECT_VERSION);
    assert_string_equal(bell_version(), BELL_VERSION);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_record_and_frames),
        cmocka_unit_test(test_frames_are_bounded),
        cmocka_unit_test(test_long_messages),
        cmocka_unit_test(test_prefix),
        cmocka_unit_test(test_records_are_per_thread),
        cmocka_unit_test(test_clean_up_keeps_the_cause),
        cmocka_unit_test(test_works_without_memory),
        cmocka_unit_test(test_names_and_exit_codes),
        cmocka_unit_test(test_version),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
