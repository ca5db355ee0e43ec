/* Memory that only work in flight still uses is handed to what is queued
 * behind that work: a loop that does not wait needs no more than one that
 * does. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdlib.h>

#include "doorbell/ops.h"
#include "doorbell/tensor.h"
#include "tensor/runtime/runtime.h"
#include "tensor/core/tensor_internal.h"

#define N_ELEMS (1 << 20) /* of a tensor: the host is far ahead of the card */
#define N_RUNS  12

static struct bell_context *ctx;

static struct bell_tensor *
filled(double value)
{
    struct bell_tensor *x =
        bell_full(ctx, BELL_DIMS(N_ELEMS), value, BELL_FLOAT32);

    assert_int_equal(bell_realize1(x), BELL_OK);
    return x;
}

/* Results that nobody keeps. */
static void
run_ahead(struct bell_tensor *x)
{
    int i;

    for (i = 0; i < N_RUNS; i++) {
        assert_int_equal(bell_scope_begin(ctx), BELL_OK);
        assert_int_equal(bell_realize1(bell_add(x, bell_scalar(ctx, i))),
                         BELL_OK);
        assert_int_equal(bell_scope_end(ctx), BELL_OK);
    }
}

static void
test_reuse(void **state)
{
    static float host[N_ELEMS];
    const struct tensor_runtime *rt;
    struct bell_tensor *x, *y, *z;
    uint64_t live, cached;
    double first, last;
    int i;

    (void)state;
    assert_int_equal(bell_context_create("NV@sim:sm_90", &ctx), BELL_OK);
    rt = ctx->runtime;
    x = filled(1);
    run_ahead(x);
    hcq_memory_usage(rt->dev, &live, &cached);
    assert_true(live + cached <= 4ull * N_ELEMS * sizeof(float));
    /* A result in such memory, and values from the host. */
    y = bell_add(x, bell_scalar(ctx, 41));
    assert_int_equal(bell_realize1(y), BELL_OK);
    run_ahead(x);
    for (i = 0; i < N_ELEMS; i++)
        host[i] = 7;
    z = bell_from_data(ctx, BELL_DIMS(N_ELEMS), BELL_FLOAT32, host);
    assert_int_equal(bell_item_f64(bell_mean(z, BELL_NO_DIMS, false), &last),
                     BELL_OK);
    assert_int_equal(bell_item_f64(bell_mean(y, BELL_NO_DIMS, false), &first),
                     BELL_OK);
    assert_true(first == 42 && last == 7);
    bell_context_destroy(ctx);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_reuse),
    };

    return cmocka_run_group_tests_name("reuse", tests, NULL, NULL);
}
