/* Tensors in the caller's memory, and of other contexts. */
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>

#include "tests/unit/tensor_host.h"

static uint32_t n_released;

static void
count_release(void *user)
{
    (*(uint32_t *)user)++;
}

/* n doubles that end where memory does: whoever reads more faults. */
static double *
map_at_end(size_t n, void **out_map)
{
    size_t bytes = (n * sizeof(double) + 63) / 64 * 64;
    uint8_t *map = mmap(NULL, 8192, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    assert_true(map != MAP_FAILED && bytes <= 4096);
    assert_int_equal(mprotect(map + 4096, 4096, PROT_NONE), 0);
    *out_map = map;
    return (double *)(void *)(map + 4096 - bytes);
}

static void
test_no_copy(void **state)
{
    struct bell_tensor *x, *y;
    uint32_t before = n_released;
    double *data;
    void *map;
    int i;

    (void)state;
    data = map_at_end(8, &map);
    for (i = 0; i < 8; i++)
        data[i] = i;
    assert_int_equal(bell_scope_begin(ctx), BELL_OK);
    x = bell_from_blob(ctx, BELL_DIMS(2, 4), BELL_FLOAT64, data, count_release,
                       &n_released);
    assert_true(bell_is_realized(x));
    EXPECT(x, 0, 1, 2, 3, 4, 5, 6, 7);
    EXPECT(bell_sum(x, (int64_t[]){1}, 1, false), 6, 22);
    data[0] = 100; /* not a copy */
    EXPECT(bell_sum(x, (int64_t[]){1}, 1, false), 106, 22);
    y = bell_mul(x, x);
    assert_int_equal(bell_realize(&y, 1), BELL_OK);
    assert_int_equal(bell_scope_end(ctx), BELL_OK);
    assert_int_equal(end_context(state), 0);
    assert_int_equal(n_released, before + 1);
    assert_true(data[0] == 100 && data[7] == 7);
    assert_int_equal(munmap(map, 8192), 0);
    assert_int_equal(make_context(state), 0);
}

/* Queued work may still read what no tensor is any more; other tensors never
 * get the memory. */
static void
test_released(void **state)
{
    uint32_t before = n_released;
    size_t bytes = 1 << 20, i;
    struct bell_tensor *sum;
    uint32_t *data[4];
    int k;

    (void)state;
    sum = bell_zeros(ctx, BELL_NO_DIMS, BELL_INT64);
    for (k = 0; k < 4; k++) {
        data[k] = aligned_alloc(64, bytes);
        assert_non_null(data[k]);
        for (i = 0; i < bytes / 4; i++)
            data[k][i] = (uint32_t)k;
        assert_int_equal(bell_scope_begin(ctx), BELL_OK);
        sum = bell_add(
            sum, bell_sum(bell_cast(
                              bell_from_blob(ctx, BELL_DIMS((int64_t)bytes / 4),
                                             BELL_UINT32, data[k],
                                             count_release, &n_released),
                              BELL_INT64),
                          BELL_NO_DIMS, false));
        assert_int_equal(bell_realize(&sum, 1), BELL_OK);
        (void)bell_keep(sum);
        assert_int_equal(bell_scope_end(ctx), BELL_OK);
    }
    assert_true(n_released > before);
    for (k = 0; k < 4; k++)
        assert_int_equal(bell_realize(&(struct bell_tensor *){bell_full(
                                          ctx, BELL_DIMS((int64_t)bytes / 4), 9,
                                          BELL_INT32)},
                                      1),
                         BELL_OK);
    EXPECT(bell_cast(sum, BELL_FLOAT64), 6.0 * (double)(bytes / 4));
    assert_int_equal(end_context(state), 0);
    assert_int_equal(n_released, before + 4);
    for (k = 0; k < 4; k++) {
        assert_int_equal(data[k][0], k);
        assert_int_equal(data[k][bytes / 4 - 1], k);
        free(data[k]);
    }
    assert_int_equal(make_context(state), 0);
}

/* Memory that is aligned to an element is read where it is, and never written:
 * kernels store to what is aligned to 64 bytes. Products are large enough for
 * vectors and tiles. */
static void
test_unaligned(void **state)
{
    static _Alignas(64) float data[64 * 64 + 16];
    struct bell_tensor *x, *y, *sums;
    int64_t n = 64 * 64, i;
    uint32_t at, before;
    double want = 0;

    (void)state;
    for (at = 1; at < 16; at += at < 4 ? 1 : 3) {
        before = n_released;
        want = 0;
        for (i = 0; i < n; i++) {
            data[at + i] = (float)(i % 7 - 3);
            want += (double)data[at + i] * data[at + i];
        }
        assert_int_equal(bell_scope_begin(ctx), BELL_OK);
        x = bell_from_blob(ctx, BELL_DIMS(64, 64), BELL_FLOAT32, data + at,
                           count_release, &n_released);
        EXPECT(bell_sum(bell_mul(x, x), BELL_NO_DIMS, false), want);
        y = bell_matmul(x, bell_t(x)); /* its trace */
        sums = bell_sum(bell_diagonal(y, 0, 0, 1), BELL_NO_DIMS, false);
        EXPECT(bell_cast(sums, BELL_FLOAT64), want);
        EXPECT(bell_sum(bell_cast(bell_flip(x, BELL_DIMS(1)), BELL_FLOAT64),
                        BELL_NO_DIMS, false),
               -3);
        /* nobody else sees it: aligned, it would be written in place */
        x = bell_from_blob(ctx, BELL_DIMS(64, 64), BELL_FLOAT32, data + at,
                           count_release, &n_released);
        x = bell_assign_slice(
            x, BELL_DIMS(0, 0),
            bell_full(ctx, BELL_DIMS(64, 64), 2, BELL_FLOAT32));
        EXPECT(bell_sum(x, BELL_NO_DIMS, false), 2.0 * (double)n);
        for (i = 0; i < n; i++)
            assert_true(data[at + i] == (float)(i % 7 - 3));
        assert_int_equal(bell_scope_end(ctx), BELL_OK);
        assert_int_equal(end_context(state), 0);
        assert_int_equal(n_released, before + 2);
        assert_int_equal(make_context(state), 0);
    }
}

static void
test_refused(void **state)
{
    static _Alignas(64) double data[10];
    uint32_t before = n_released;
    char message[128];

    (void)state;
    EXPECT_ERROR(
        bell_from_blob(ctx, BELL_DIMS(3), BELL_FLOAT64, NULL, NULL, NULL),
        "bell_from_blob: data is NULL");
    snprintf(message, sizeof(message),
             "bell_from_blob: data at %p is not aligned to 8 bytes",
             (void *)((char *)data + 4));
    EXPECT_ERROR(bell_from_blob(ctx, BELL_DIMS(3), BELL_FLOAT64,
                                (char *)data + 4, count_release, &n_released),
                 message);
    assert_int_equal(n_released, before);
    EXPECT_SHAPE(bell_from_blob(ctx, BELL_DIMS(0, 3), BELL_FLOAT64, NULL,
                                count_release, &n_released),
                 0, 3);
    assert_int_equal(n_released, before + 1);
    EXPECT(bell_from_blob(ctx, BELL_DIMS(2), BELL_FLOAT64, data, NULL, NULL), 0,
           0);
}

static void
test_to(void **state)
{
    struct bell_context *first = ctx, *second;
    struct bell_tensor *x, *y, *g;
    void *own = NULL;

    (void)state;
    assert_int_equal(make_context(&own), 0);
    second = ctx;
    ctx = first;
    x = T(V(1, 2, 3, 4, 5, 6), 2, 3);
    y = bell_to(bell_mul(x, x), second);
    assert_int_equal(bell_context_status(second), BELL_OK);
    EXPECT_SHAPE(y, 2, 3);
    EXPECT(bell_neg(y), -1, -4, -9, -16, -25, -36);
    EXPECT(bell_to(bell_to(I(V(7, -8), 2), second), first), 7, -8);
    EXPECT_SHAPE(bell_to(bell_zeros(first, BELL_DIMS(0, 2), BELL_INT8), second),
                 0, 2);
    /* of its own context: the gradient goes on */
    assert_int_equal(bell_gradient(bell_sum(bell_to(bell_mul(x, x), first),
                                            BELL_NO_DIMS, false),
                                   &x, 1, &g),
                     BELL_OK);
    EXPECT(g, 2, 4, 6, 8, 10, 12);
    /* a failure goes with the value */
    y = bell_to(bell_reshape(x, BELL_DIMS(5)), second);
    assert_ptr_equal(y, bell_error_tensor(second));
    assert_int_equal(bell_context_status(second), BELL_E_INVALID);
    assert_int_equal(bell_context_status(first), BELL_OK);
    assert_null(bell_to(x, NULL));
    assert_ptr_equal(bell_to(NULL, second), bell_error_tensor(second));
    assert_int_equal(bell_context_status(second), BELL_E_INVALID);
    bell_context_destroy(second);
    assert_null(bell_to(x, second));
    ctx = first;
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_no_copy, make_context,
                                        end_context),
        cmocka_unit_test_setup_teardown(test_released, make_context,
                                        end_context),
        cmocka_unit_test_setup_teardown(test_unaligned, make_context,
                                        end_context),
        cmocka_unit_test_setup_teardown(test_refused, make_context,
                                        end_context),
        cmocka_unit_test_setup_teardown(test_to, make_context, end_context),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
