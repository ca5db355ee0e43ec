/* Copies with their axes in another order, element for element: blocks that are
 * exchanged in registers, sizes that these do not divide, odd ones, and such as
 * are computed with others that lie as they are stored. On the device that
 * BELL_DEVICE names. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdlib.h>

#include "doorbell/ops.h"

/* The shape; the last axis but one and the last are exchanged. */
static const struct row {
    int64_t d[3];
    enum bell_dtype dtype;
} rows[] = {
    {{7, 256, 136}, BELL_BFLOAT16}, {{5, 24, 196}, BELL_FLOAT16},
    {{25, 72, 49}, BELL_BFLOAT16},  {{40, 64, 9}, BELL_FLOAT16},
    {{1, 264, 1040}, BELL_FLOAT32}, {{9, 40, 25}, BELL_FLOAT32},
    {{2, 130, 134}, BELL_FLOAT16},  {{9, 96, 176}, BELL_INT8},
    {{11, 48, 21}, BELL_UINT8},     {{3, 50, 64}, BELL_FLOAT64},
    {{2, 67, 131}, BELL_INT16},     {{17, 8, 224}, BELL_INT32},
};

/* The value of element (b, i, j): different ones beside each other, exact in
 * every dtype. */
static double
value_at(int64_t b, int64_t i, int64_t j)
{
    return (double)((b * 29 + i * 13 + j * 7) % 113);
}

static void
check(struct bell_context *ctx, const struct row *r, bool computed)
{
    int64_t n = r->d[0] * r->d[1] * r->d[2], b, i, j, at = 0;
    double *v = malloc((size_t)n * sizeof(*v));
    struct bell_tensor *x, *y;

    assert_non_null(v);
    assert_int_equal(bell_scope_begin(ctx), BELL_OK);
    for (b = 0; b < r->d[0]; b++) {
        for (i = 0; i < r->d[1]; i++) {
            for (j = 0; j < r->d[2]; j++)
                v[at++] = value_at(b, i, j);
        }
    }
    x = bell_contiguous(
        bell_cast(bell_from_data(ctx, r->d, 3, BELL_FLOAT64, v), r->dtype));
    assert_int_equal(bell_realize1(x), BELL_OK);
    y = bell_permute(x, BELL_DIMS(0, 2, 1));
    if (computed) {
        struct bell_tensor *z =
            bell_reshape(x, BELL_DIMS(r->d[0], r->d[2], r->d[1]));
        y = bell_maximum(y, z);
    }
    if (bell_read_f64(bell_contiguous(y), v, (size_t)n) != BELL_OK)
        fail_msg("%s", bell_error_last()->message);
    for (at = 0; at < n; at++) {
        int64_t plane = r->d[1] * r->d[2], in = at % plane;
        double want = value_at(at / plane, in % r->d[1], in / r->d[1]);
        double other = value_at(at / plane, in / r->d[2], in % r->d[2]);
        if (computed && other > want)
            want = other;
        if (v[at] != want)
            fail_msg("%d: element %lld is %g, not %g", (int)(r - rows),
                     (long long)at, v[at], want);
    }
    free(v);
    assert_int_equal(bell_scope_end(ctx), BELL_OK);
}

static void
test_turned(void **state)
{
    struct bell_context *ctx;
    size_t i;

    (void)state;
    if (bell_context_create(NULL, &ctx) != BELL_OK)
        fail_msg("%s", bell_error_last()->message);
    for (i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        check(ctx, &rows[i], false);
        check(ctx, &rows[i], true);
    }
    bell_context_destroy(ctx);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_turned)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
