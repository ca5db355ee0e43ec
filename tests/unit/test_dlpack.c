/* DLPack in and out: strides, dtypes, deleters, what is refused. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include <string.h>

#include "doorbell/dlpack.h"

static struct bell_context *ctx;
static unsigned n_deleted;

static void
count_deleted(struct bell_dl_managed *self)
{
    (void)self;
    n_deleted++;
}

/* float32 of (2, 3) */
static struct bell_dl_managed
make_managed(void *data, int64_t *shape, int64_t *strides)
{
    struct bell_dl_managed m;

    memset(&m, 0, sizeof(m));
    m.tensor.data = data;
    m.tensor.device.kind = BELL_DL_CPU;
    m.tensor.ndim = 2;
    m.tensor.dtype.code = BELL_DL_FLOAT;
    m.tensor.dtype.bits = 32;
    m.tensor.dtype.lanes = 1;
    m.tensor.shape = shape;
    m.tensor.strides = strides;
    m.deleter = count_deleted;
    return m;
}

static void
expect_values(struct bell_tensor *t, const double *want, size_t n)
{
    double got[16];
    size_t i;

    assert_int_equal(bell_read_f64(t, got, n), BELL_OK);
    for (i = 0; i < n; i++)
        assert_true(got[i] >= want[i] && got[i] <= want[i]);
}

static void
test_in(void **unused)
{
    float data[] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11};
    int64_t shape[] = {2, 3}, turned[] = {1, 2}, back[] = {3, -1};
    int64_t repeated[] = {0, 1}, none[] = {0, 3};
    struct bell_dl_managed m = make_managed(data, shape, NULL);

    (void)unused;
    n_deleted = 0;
    expect_values(bell_from_dlpack(ctx, &m), (double[]){0, 1, 2, 3, 4, 5}, 6);
    assert_int_equal(n_deleted, 1);
    m = make_managed(data, shape, turned);
    m.tensor.byte_offset = 8;
    expect_values(bell_from_dlpack(ctx, &m), (double[]){2, 4, 6, 3, 5, 7}, 6);
    m = make_managed(data + 2, shape, back);
    expect_values(bell_from_dlpack(ctx, &m), (double[]){2, 1, 0, 5, 4, 3}, 6);
    m = make_managed(data, shape, repeated);
    expect_values(bell_from_dlpack(ctx, &m), (double[]){0, 1, 2, 0, 1, 2}, 6);
    m = make_managed(NULL, none, NULL);
    assert_int_equal(bell_numel(bell_from_dlpack(ctx, &m)), 0);
    m = make_managed(data, shape, NULL);
    m.deleter = NULL;
    assert_false(bell_is_error(bell_from_dlpack(ctx, &m)));
    assert_int_equal(n_deleted, 5);
}

static void
expect_refused(struct bell_dl_managed *m, bell_status want, const char *part)
{
    unsigned before = n_deleted;

    assert_true(bell_is_error(bell_from_dlpack(ctx, m)));
    assert_int_equal(bell_context_status(ctx), want);
    if (!strstr(bell_error_last()->message, part))
        fail_msg("\"%s\" lacks \"%s\"", bell_error_last()->message, part);
    assert_int_equal(n_deleted, before + 1);
}

static void
test_refused(void **unused)
{
    float data[6] = {0};
    int64_t shape[] = {2, 3}, bad[] = {-2, 3}, big[] = {1ll << 40, 1ll << 40};
    struct bell_dl_managed m = make_managed(data, shape, NULL);
    struct bell_dl_managed_versioned v;

    (void)unused;
    m.tensor.device.kind = 2;
    expect_refused(&m, BELL_E_UNSUPPORTED, "device kind 2");
    m = make_managed(data, shape, NULL);
    m.tensor.dtype.lanes = 4;
    expect_refused(&m, BELL_E_UNSUPPORTED, "4 lanes");
    m.tensor.dtype.lanes = 1;
    m.tensor.dtype.code = 5;
    expect_refused(&m, BELL_E_UNSUPPORTED, "code 5");
    m = make_managed(data, bad, NULL);
    expect_refused(&m, BELL_E_INVALID, "size -2");
    m = make_managed(data, big, NULL);
    expect_refused(&m, BELL_E_IO, "more elements");
    m = make_managed(NULL, shape, NULL);
    expect_refused(&m, BELL_E_INVALID, "without data");
    m = make_managed(data, shape, NULL);
    m.tensor.ndim = 33;
    expect_refused(&m, BELL_E_INVALID, "33 axes");
    assert_true(bell_is_error(bell_from_dlpack(ctx, NULL)));
    assert_int_equal(bell_context_status(ctx), BELL_E_INVALID);
    memset(&v, 0, sizeof(v));
    v.version.major = 2;
    assert_true(bell_is_error(bell_from_dlpack_versioned(ctx, &v)));
    assert_int_equal(bell_context_status(ctx), BELL_E_UNSUPPORTED);
}

/* Every dtype out and in again, also behind the end of a context. */
static void
test_round_trip(void **unused)
{
    struct bell_dl_managed_versioned *v, *late = NULL;
    struct bell_dl_managed *m;
    uint8_t want[256], got[256];
    struct bell_context *other;
    struct bell_tensor *t, *again;
    int d;

    (void)unused;
    for (d = BELL_BOOL; d < BELL_DTYPE_COUNT; d++) {
        t = bell_cast(bell_randn(ctx, BELL_DIMS(3, 5), BELL_FLOAT32),
                      (enum bell_dtype)d);
        assert_int_equal(bell_read(t, want, bell_nbytes(t)), BELL_OK);
        assert_int_equal(bell_to_dlpack(t, &m), BELL_OK);
        assert_int_equal((uintptr_t)m->tensor.data % 256, 0);
        assert_int_equal(m->tensor.strides[0], 5);
        again = bell_from_dlpack(ctx, m);
        assert_int_equal(bell_dtype_of(again), d);
        assert_int_equal(bell_to_dlpack_versioned(again, &v), BELL_OK);
        assert_int_equal(v->version.major, 1);
        again = bell_from_dlpack_versioned(ctx, v);
        assert_int_equal(bell_read(again, got, bell_nbytes(t)), BELL_OK);
        assert_memory_equal(want, got, bell_nbytes(t));
    }
    assert_int_equal(bell_context_create("CPU", &other), BELL_OK);
    assert_int_equal(bell_to_dlpack_versioned(
                         bell_ones(other, BELL_DIMS(2, 0), BELL_FLOAT32), &v),
                     BELL_OK);
    v->deleter(v);
    assert_int_equal(bell_to_dlpack_versioned(
                         bell_ones(other, BELL_NO_DIMS, BELL_FLOAT64), &late),
                     BELL_OK);
    bell_context_destroy(other);
    assert_true(*(double *)late->tensor.data > 0.5);
    assert_int_equal(late->tensor.ndim, 0);
    late->deleter(late);
    assert_int_equal(
        bell_to_dlpack(bell_ones(ctx, BELL_NO_DIMS, BELL_INT8), NULL),
        BELL_E_INVALID);
}

static int
open_context(void **unused)
{
    (void)unused;
    return bell_context_create("CPU", &ctx);
}

static int
close_context(void **unused)
{
    (void)unused;
    bell_context_destroy(ctx);
    return 0;
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_in),
        cmocka_unit_test(test_refused),
        cmocka_unit_test(test_round_trip),
    };

    return cmocka_run_group_tests(tests, open_context, close_context);
}
