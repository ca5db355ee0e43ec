/* Why calls are refused: the reason beside the status, for each kind. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "base/status.h"
#include "doorbell/ops.h"
#include "doorbell/tensor.h"

static struct bell_context *ctx;

static int
setup(void **state)
{
    (void)state;
    return bell_context_create(NULL, &ctx) != BELL_OK;
}

static int
teardown(void **state)
{
    (void)state;
    bell_context_destroy(ctx);
    return 0;
}

/* The call, which gave `status`, was refused for this reason. */
static void
expect_why(const char *call, bell_status status, enum bell_reason want)
{
    const struct bell_error *error = bell_error_last();

    if (status == BELL_OK || error->reason != want)
        fail_msg("%s: %s, reason %s, not %s: %s", call,
                 bell_status_name(status), bell_reason_name(error->reason),
                 bell_reason_name(want), error->message);
    assert_int_equal(status, error->status);
}

#define WHY_STATUS(call, want) expect_why(#call, (call), BELL_REASON_##want)
/* For calls that give a tensor. */
#define WHY(call, want)                                                        \
    expect_why(#call, ((void)(call), bell_context_status(ctx)),                \
               BELL_REASON_##want)

static void
tensors(void **state)
{
    struct bell_tensor *x = bell_ones(ctx, BELL_DIMS(2, 3), BELL_FLOAT32);
    struct bell_tensor *i = bell_zeros(ctx, BELL_DIMS(2, 3), BELL_INT64);
    struct bell_tensor *y = bell_ones(ctx, BELL_DIMS(5, 5), BELL_FLOAT32);
    const int64_t twice[] = {0, 0}, none[] = {3}, bounds[] = {0, 5, 0, 3};

    (void)state;
    WHY(bell_matmul(x, x), SHAPE);
    WHY(bell_add(x, y), SHAPE);
    WHY(bell_reshape(x, BELL_DIMS(4)), SHAPE);
    WHY(bell_full(ctx, BELL_DIMS(-1), 0, BELL_FLOAT32), SHAPE);
    WHY(bell_assign(x, y), SHAPE);
    WHY(bell_bitwise_and(x, x), DTYPE);
    WHY(bell_where(x, x, x), DTYPE);
    WHY(bell_cast(x, (enum bell_dtype)99), DTYPE);
    WHY(bell_bitcast(x, BELL_FLOAT64), DTYPE);
    WHY(bell_one_hot(x, 3), DTYPE);
    WHY(bell_gather(x, 0, x), DTYPE);
    WHY(bell_assign(x, i), DTYPE);
    WHY(bell_requires_grad(i, true), DTYPE);
    WHY(bell_sum(x, none, 1, false), AXIS);
    WHY(bell_sum(x, twice, 2, false), AXIS);
    WHY(bell_permute(x, twice, 2), AXIS);
    WHY(bell_select(x, 0, 7), INDEX);
    WHY(bell_narrow(x, 0, 1, 9), INDEX);
    WHY(bell_shrink(x, bounds, 4), INDEX);
    WHY(bell_one_hot(i, -1), VALUE);
    WHY(bell_arange(ctx, 0, 1, 0, BELL_FLOAT32), VALUE);
    WHY(bell_dropout(x, 3), VALUE);
    WHY(bell_add(x, NULL), MISSING);
    WHY(bell_clamp(x, NULL, NULL), MISSING);
    WHY(bell_from_data(ctx, BELL_DIMS(2), BELL_FLOAT32, NULL), MISSING);
}

static void
statuses(void **state)
{
    struct bell_tensor *x = bell_ones(ctx, BELL_DIMS(2, 3), BELL_FLOAT32);
    struct bell_context *other;
    struct bell_tensor *y;
    float data[4] = {0};
    uint32_t math;

    (void)state;
    assert_int_equal(bell_context_create(NULL, &other), BELL_OK);
    y = bell_ones(other, BELL_DIMS(2, 3), BELL_FLOAT32);
    WHY(bell_add(x, y), CONTEXT);
    bell_context_destroy(other);
    WHY_STATUS(bell_read(x, data, sizeof(data)), SIZE);
    WHY_STATUS(bell_write(x, data, sizeof(data)), SIZE);
    WHY_STATUS(bell_read(NULL, data, sizeof(data)), MISSING);
    WHY_STATUS(bell_math_parse("tf16", &math), NAME);
    WHY_STATUS(bell_context_set_math(ctx, 1u << 30), VALUE);
    WHY_STATUS(bell_scope_end(ctx), STATE);
    WHY_STATUS(bell_read(bell_error_tensor(ctx), data, sizeof(data)), STATE);
    WHY_STATUS(bell_backward(x), SHAPE);
    host_fail_after(1, 0);
    WHY_STATUS(bell_context_create(NULL, &other), MEMORY);
    host_fail_after(0, 0);
}

/* Those that come of the status, and the words. */
static void
names(void **state)
{
    int i;

    (void)state;
    assert_int_equal(bell_fail(BELL_E_INVALID, "x"), BELL_E_INVALID);
    assert_int_equal(bell_error_last()->reason, BELL_REASON_ARGUMENT);
    assert_int_equal(bell_fail(BELL_E_DEVICE_LOST, "x"), BELL_E_DEVICE_LOST);
    assert_int_equal(bell_error_last()->reason, BELL_REASON_LOST);
    assert_int_equal(
        bell_fail(BELL_WHY(BELL_E_UNSUPPORTED, BELL_REASON_DTYPE), "x"),
        BELL_E_UNSUPPORTED);
    assert_int_equal(bell_error_last()->reason, BELL_REASON_DTYPE);
    bell_error_clear();
    assert_int_equal(bell_error_last()->reason, BELL_REASON_NONE);
    for (i = 0; i < BELL_REASON_COUNT; i++)
        assert_true(strlen(bell_reason_name((enum bell_reason)i)) > 1);
    assert_string_equal(bell_reason_name(BELL_REASON_PROCESS), "process");
    assert_string_equal(bell_reason_name(BELL_REASON_INTERNAL), "internal");
    assert_string_equal(bell_reason_name((enum bell_reason)99), "unknown");
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(tensors, setup, teardown),
        cmocka_unit_test_setup_teardown(statuses, setup, teardown),
        cmocka_unit_test(names),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
