/* Contexts, scopes, handles, the first-error record, collection of dead
 * buffers and nodes, and running out of memory at every allocation. */
#include "tests/unit/tensor_host.h"

#include <stdlib.h>

#include "base/alloc.h"
#include "tensor/core/tensor_internal.h"

/* ---- scopes ---- */

static size_t
count_tensors(void)
{
    struct bell_context_info info = {.struct_size = sizeof(info)};

    bell_context_get_info(ctx, &info);
    return info.n_tensors;
}

static void
test_scopes(void **state)
{
    struct bell_tensor *a, *b, *c;

    (void)state;
    a = T(V(1, 2), 2);
    assert_int_equal(bell_scope_begin(ctx), BELL_OK);
    b = bell_add(a, a);
    assert_int_equal(bell_scope_begin(ctx), BELL_OK);
    c = bell_keep(bell_mul(b, a));
    bell_add(c, c);
    assert_int_equal(count_tensors(), 4);
    assert_int_equal(bell_scope_end(ctx), BELL_OK);
    assert_int_equal(count_tensors(), 3);
    EXPECT(c, 2, 8);
    bell_keep(c);
    bell_keep(c); /* further than the context's own scope it does not go */
    assert_int_equal(bell_scope_end(ctx), BELL_OK);
    assert_int_equal(count_tensors(), 2);
    EXPECT(c, 2, 8);
    bell_tensor_release(c);
    bell_tensor_release(NULL);
    bell_tensor_release(bell_error_tensor(ctx));
    assert_int_equal(count_tensors(), 1);
    /* Kept for ever, from any depth. */
    assert_int_equal(bell_scope_begin(ctx), BELL_OK);
    assert_int_equal(bell_scope_begin(ctx), BELL_OK);
    c = bell_keep_forever(bell_mul(a, a));
    assert_int_equal(bell_scope_end(ctx), BELL_OK);
    assert_int_equal(bell_scope_end(ctx), BELL_OK);
    EXPECT(c, 1, 4);
    EXPECT_STATUS(bell_scope_end(ctx),
                  "bell_scope_end: no scope was begun that is still open");
}

static void
test_handles(void **state)
{
    struct bell_tensor *a = T(V(1, 2), 2), *b, *old;
    double values[2] = {7, 8};

    (void)state;
    old = bell_alias(a);
    b = bell_add(a, a);
    assert_ptr_equal(bell_assign(a, bell_mul_scalar(a, 10)), a);
    EXPECT(b, 2, 4); /* what was computed from a keeps its value */
    EXPECT(a, 10, 20);
    EXPECT(old, 1, 2);
    EXPECT_ERROR(bell_assign(a, T(V(1, 2, 3), 3)),
                 "bell_assign: a value of shape (3,) to a tensor of shape "
                 "(2,): the shapes must be equal");
    EXPECT_ERROR(bell_assign(a, bell_cast(a, BELL_FLOAT32)),
                 "bell_assign: a value of float32 to a tensor of float64: the "
                 "dtypes must be equal; see bell_cast");
    assert_int_equal(bell_write(a, values, sizeof(values)), BELL_OK);
    EXPECT(a, 7, 8);
    EXPECT_STATUS(bell_write(a, values, 8),
                  "bell_write: 8 bytes to a tensor of shape (2,), float64, "
                  "which has 16");
    assert_true(bell_is_realized(a));
    assert_true(bell_is_realized(bell_reshape(a, BELL_DIMS(1, 2))));
    assert_false(bell_is_realized(bell_neg(a)));
    assert_ptr_equal(bell_context_of(a), ctx);
    assert_string_equal(bell_context_device(ctx), "HOST");
    assert_int_equal(bell_numel(a), 2);
    assert_int_equal(bell_nbytes(a), 16);
    assert_int_equal(bell_size(a, -1), 2);
    assert_int_equal(bell_size(a, 1), -1);
    assert_false(bell_set_training(ctx, true));
    assert_true(bell_set_training(ctx, false));
}

/* A root that is the reshape of a leaf shares its buffer. */
static void
test_reshaped_leaf(void **state)
{
    struct bell_tensor *a = T(V(1, 2, 3, 4), 4), *b;

    (void)state;
    b = bell_reshape(a, BELL_DIMS(2, 2));
    assert_int_equal(bell_realize1(b), BELL_OK);
    EXPECT(b, 1, 2, 3, 4);
    EXPECT_SHAPE(b, 2, 2);
    EXPECT(bell_t(b), 1, 3, 2, 4);
}

static void
test_reading(void **state)
{
    struct bell_tensor *t;
    int64_t ints[3];
    double one;
    float f32[3];
    uint16_t f16[3] = {0x3c00, 0xc400, 0x0001}, bf16[3] = {0x3f80, 0xc040, 1};
    uint8_t bytes[3] = {0, 1, 255};

    (void)state;
    t = bell_from_data(ctx, BELL_DIMS(3), BELL_FLOAT16, f16);
    EXPECT(t, 1, -4, 0x1p-24);
    EXPECT(bell_from_data(ctx, BELL_DIMS(3), BELL_BFLOAT16, bf16), 1, -3,
           0x1p-133);
    EXPECT(bell_from_data(ctx, BELL_DIMS(3), BELL_INT8, bytes), 0, 1, -1);
    EXPECT(bell_from_data(ctx, BELL_DIMS(3), BELL_UINT8, bytes), 0, 1, 255);
    EXPECT(
        bell_from_data(ctx, BELL_NO_DIMS, BELL_UINT64, &(uint64_t){UINT64_MAX}),
        0x1p64);
    EXPECT(bell_scalar(ctx, 0.1), (double)0.1f);
    t = T(V(1.9, -1.9, NAN), 3);
    assert_int_equal(bell_read_i64(t, ints, 3), BELL_OK);
    assert_int_equal(ints[0], 1);
    assert_int_equal(ints[1], -1);
    assert_int_equal(ints[2], 0);
    EXPECT_STATUS(bell_read(t, f32, sizeof(f32)),
                  "bell_read: 12 bytes of room for a tensor of shape (3,), "
                  "float64, which has 24");
    EXPECT_STATUS(bell_item_f64(t, &one),
                  "bell_item_f64: room for 1 elements of a tensor of shape "
                  "(3,), which has 3");
    EXPECT_STATUS(bell_read(NULL, f32, 4), "bell_read: the tensor is NULL");
    assert_int_equal(bell_realize(NULL, 0), BELL_OK);
    assert_int_equal(bell_compile(NULL, 0), BELL_OK);
}

/* Compiling leaves tensors as they are, lazy ones and those in memory. */
static void
test_compile(void **state)
{
    struct bell_tensor *a = T(V(1, 2), 2), *b = bell_add(a, a);
    size_t n_before = host_realizes;

    (void)state;
    assert_int_equal(bell_compile((struct bell_tensor *[]){a, b}, 2), BELL_OK);
    assert_int_equal(host_realizes, n_before);
    assert_true(bell_is_realized(a));
    assert_false(bell_is_realized(b));
    EXPECT(b, 2, 4);
    EXPECT_STATUS(bell_compile((struct bell_tensor *[]){a, NULL}, 2),
                  "bell_compile: the tensor is NULL");
}

/* ---- errors ---- */

static void
test_error_tensor(void **state)
{
    struct bell_tensor *a = T(V(1, 2), 2), *bad;
    double value;

    (void)state;
    bad = bell_add(a, T(V(1, 2, 3), 3));
    assert_ptr_equal(bad, bell_error_tensor(ctx));
    assert_true(bell_is_error(bad));
    /* It passes through, and a second failure does not take its place. */
    assert_ptr_equal(bell_relu(bell_matmul(bad, a)), bad);
    assert_ptr_equal(bell_reshape(a, BELL_DIMS(7)), bad);
    assert_ptr_equal(bell_keep(bad), bad);
    EXPECT_STATUS(bell_read(a, &value, 8),
                  "bell_add: shapes (2,) and (3,) do not broadcast");
    /* Reported once. */
    EXPECT(a, 1, 2);
    EXPECT_STATUS(bell_item_f64(bad, &value),
                  "bell_item_f64: the tensor is the result of a call that "
                  "failed before");
    assert_int_equal(bell_context_status(ctx), BELL_OK);
    /* A scope ends in any case, and reports. */
    assert_int_equal(bell_scope_begin(ctx), BELL_OK);
    bell_permute(a, BELL_DIMS(1));
    EXPECT_STATUS(
        bell_scope_end(ctx),
        "bell_permute: axis 1 of a tensor of 1 axes; expected -1 to 0");
    /* NULL operands. */
    EXPECT_ERROR(bell_add(a, NULL), "bell_add: tensor argument 2 is NULL");
    assert_null(bell_neg(NULL));
    assert_string_equal(bell_error_last()->message,
                        "bell_neg: tensor argument 1 is NULL");
    assert_null(bell_neg(bell_zeros(NULL, BELL_DIMS(1), BELL_FLOAT32)));
    assert_true(bell_is_error(NULL));
}

static void
test_two_contexts(void **state)
{
    struct bell_context *other;
    struct bell_tensor *a = T(V(1), 1), *b;

    (void)state;
    assert_int_equal(bell_context_create("OTHER", &other), BELL_OK);
    assert_string_equal(bell_context_device(other), "OTHER");
    b = bell_ones(other, BELL_DIMS(1), BELL_FLOAT64);
    EXPECT_ERROR(bell_add(a, b), "bell_add: tensor arguments 1 and 2 are of "
                                 "different contexts");
    EXPECT_STATUS(bell_realize((struct bell_tensor *[]){a, b}, 2),
                  "bell_realize: tensors 0 and 1 are of different contexts");
    bell_context_destroy(other);
    bell_context_destroy(NULL);
}

static void
test_sizes(void **state)
{
    struct bell_tensor *a, *b;

    (void)state;
    EXPECT_ERROR(
        bell_zeros(ctx, BELL_DIMS(1ll << 40, 1ll << 40), BELL_FLOAT32),
        "bell_zeros: shape (1099511627776, 1099511627776) is too large");
    EXPECT_ERROR(bell_zeros(ctx, BELL_DIMS(2, -1), BELL_FLOAT32),
                 "bell_zeros: shape (2, -1) has a negative size");
    EXPECT_ERROR(bell_zeros(ctx, (int64_t[33]){0}, 33, BELL_FLOAT32),
                 "bell_zeros: 33 axes, more than 32");
    EXPECT_ERROR(bell_zeros(ctx, BELL_DIMS(2), (enum bell_dtype)99),
                 "bell_zeros: 99 is not a dtype");
    /* Broadcasting may make what does not fit. */
    a = bell_expand(T(V(1), 1, 1), BELL_DIMS(1ll << 40, 1));
    b = bell_expand(T(V(1), 1, 1), BELL_DIMS(1, 1ll << 40));
    EXPECT_ERROR(bell_add(a, b),
                 "bell_add: a value of shape (1099511627776, 1099511627776) "
                 "is too large");
    EXPECT_ERROR(bell_from_data(ctx, BELL_DIMS(3), BELL_FLOAT32, NULL),
                 "bell_from_data: data is NULL");
    host_memory_left = false;
    EXPECT_ERROR(bell_empty(ctx, BELL_DIMS(3), BELL_FLOAT32),
                 "bell_empty: no room for 12 bytes");
    host_memory_left = true;
    /* Nothing is a size. */
    a = bell_zeros(ctx, BELL_DIMS(0, 3), BELL_FLOAT64);
    EXPECT_SHAPE(bell_add(a, T(V(1, 2, 3), 3)), 0, 3);
    EXPECT(bell_sum(a, BELL_DIMS(0), false), 0, 0, 0);
    EXPECT(bell_prod(a, BELL_NO_DIMS, false), 1);
    assert_int_equal(bell_read(a, NULL, 0), BELL_OK);
}

/* ---- collection ---- */

/* A training loop's memory: each step's buffers go with the next steps. */
static void
test_dead_buffers(void **state)
{
    enum {
        N = 1 << 16,
        STEPS = 50
    };
    struct bell_context_info info = {.struct_size = sizeof(info)};
    struct bell_tensor *w, *x;
    double *values = calloc(N, sizeof(*values));
    size_t most = 0, i;

    (void)state;
    assert_non_null(values);
    w = tensor_of(values, BELL_DIMS(N));
    for (i = 0; i < STEPS; i++) {
        assert_int_equal(bell_scope_begin(ctx), BELL_OK);
        x = tensor_of(values, BELL_DIMS(N));
        bell_assign(w, bell_add_scalar(bell_add(w, x), 1));
        assert_int_equal(bell_realize1(w), BELL_OK);
        assert_int_equal(bell_scope_end(ctx), BELL_OK);
        bell_context_get_info(ctx, &info);
        most = info.buffer_bytes > most ? info.buffer_bytes : most;
    }
    assert_in_range(most, 0, 8 * N * sizeof(double));
    assert_int_equal(bell_read(w, values, N * sizeof(double)), BELL_OK);
    assert_true(values[0] == STEPS && values[N - 1] == STEPS);
    free(values);
}

/* The graph does not grow with the number of steps, and what lives survives
 * its compaction, gradient rules included. */
static void
test_compaction(void **state)
{
    struct bell_tensor *x = T(V(-1, 0.5, 2), 3), *y, *z, *grad;
    struct bell_context_info info = {.struct_size = sizeof(info)};
    int i, j;

    (void)state;
    y = bell_sum(bell_tanh(x), BELL_NO_DIMS, false);
    z = bell_index(x, BELL_ITEMS(bell_slice(BELL_NONE, BELL_NONE, -1)));
    bell_requires_grad(x, true);
    for (i = 0; i < 3000; i++) {
        struct bell_tensor *t;
        assert_int_equal(bell_scope_begin(ctx), BELL_OK);
        t = x;
        for (j = 0; j < 100; j++)
            t = bell_add_scalar(t, i * 100 + j + 0.5);
        assert_int_equal(bell_scope_end(ctx), BELL_OK);
    }
    bell_context_get_info(ctx, &info);
    assert_in_range(info.n_compactions, 20, 80);
    assert_in_range(info.n_graph_nodes, 10, 150000);
    EXPECT(z, 2, 0.5, -1);
    assert_int_equal(bell_gradient(y, &x, 1, &grad), BELL_OK);
    EXPECT(grad, 1 - tanh(1) * tanh(1), 1 - tanh(0.5) * tanh(0.5),
           1 - tanh(2) * tanh(2));
    assert_int_equal(bell_backward(y), BELL_OK);
    EXPECT(bell_grad(x), 1 - tanh(1) * tanh(1), 1 - tanh(0.5) * tanh(0.5),
           1 - tanh(2) * tanh(2));
}

/* A chain of a million nodes is built, differentiated and copied without
 * recursion. */
static void
test_deep_graph(void **state)
{
    struct bell_tensor *x = T(V(1, 2), 2), *y = x, *t, *grad;
    struct bell_context_info info = {.struct_size = sizeof(info)};
    int i;

    (void)state;
    for (i = 0; i < 400000; i++) {
        t = bell_mul(y, x);
        if (y != x)
            bell_tensor_release(y);
        y = bell_sub(t, x);
        bell_tensor_release(t);
    }
    bell_context_get_info(ctx, &info);
    assert_true(info.n_graph_nodes > 800000);
    assert_int_equal(bell_vjp(y, x, &x, 1, &grad), BELL_OK);
    bell_tensor_release(grad);
    bell_tensor_release(y);
    /* Walking what is left has to be paid for by more work. */
    for (i = 0; i < 250000; i++)
        bell_tensor_release(bell_add_scalar(x, i));
    bell_context_get_info(ctx, &info);
    assert_in_range(info.n_graph_nodes, 1, 200000);
}

/* ---- memory ---- */

/* A program that touches most of the module. */
static bell_status
run_program(void)
{
    static const struct bell_conv_options conv = {
        .struct_size = sizeof(conv), .stride = {2, 2}, .padding = {1, 1}};
    struct bell_tensor *x, *w, *y, *parts[2], *loss;
    double values[2 * 1 * 4 * 4] = {0}, value;
    struct bell_context *own;
    bell_status status;

    BELL_TRY(bell_context_create(NULL, &own));
    status = bell_scope_begin(own);
    x = bell_from_data(own, BELL_DIMS(2, 1, 4, 4), BELL_FLOAT64, values);
    w = bell_requires_grad(
        bell_uniform(own, BELL_DIMS(2, 1, 3, 3), -1, 1, BELL_FLOAT64), true);
    y = bell_relu(bell_conv2d(x, w, NULL, &conv));
    y = bell_cumsum(bell_reshape(y, BELL_DIMS(2, -1)), 1);
    bell_split(y, (int64_t[]){3, 5}, 2, 1, parts);
    y = bell_cat((struct bell_tensor *[]){parts[1], bell_tanh(parts[0])}, 2, 1);
    y = bell_gather(y, 1, bell_argsort(y, 1, true));
    loss = bell_mean(bell_log_softmax(y, 1), BELL_NO_DIMS, false);
    if (status == BELL_OK)
        status = bell_backward(loss);
    if (status == BELL_OK)
        status = bell_realize((struct bell_tensor *[]){loss, bell_grad(w)}, 2);
    if (status == BELL_OK)
        status = bell_item_f64(loss, &value);
    if (status == BELL_OK)
        status = bell_scope_end(own);
    bell_context_destroy(own);
    return status;
}

static void
test_out_of_memory(void **state)
{
    bell_status status = BELL_E_NO_MEMORY;
    uint64_t n = 0, n_allocs;

    (void)state;
    n_allocs = host_alloc_count();
    assert_int_equal(run_program(), BELL_OK);
    n_allocs = host_alloc_count() - n_allocs;
    /* Every allocation fails once, alone and with all that follow. */
    for (n = 1; n <= n_allocs; n++) {
        host_fail_after(n, 0);
        status = run_program();
        host_fail_after(0, 0);
        assert_int_equal(status, BELL_E_NO_MEMORY);
    }
    for (n = 1; n <= n_allocs; n++) {
        host_fail_after(n, 1);
        status = run_program();
        host_fail_after(0, 0);
        /* A collection that finds no memory is left for later. */
        assert_true(status == BELL_E_NO_MEMORY || status == BELL_OK);
    }
}

/* After a failure the context goes on. */
static void
test_recovery(void **state)
{
    struct bell_tensor *x = T(V(1, 2), 2), *y = x;
    int i;

    (void)state;
    host_fail_after(1, 0);
    for (i = 0; i < 1000 && !bell_is_error(y); i++)
        y = bell_add_scalar(y, i);
    host_fail_after(0, 0);
    assert_true(bell_is_error(y));
    assert_int_equal(bell_context_status(ctx), BELL_E_NO_MEMORY);
    EXPECT(bell_add(x, x), 2, 4);
}

int
main(void)
{
#define TEST(name)                                                             \
    cmocka_unit_test_setup_teardown(name, make_context, end_context)
    const struct CMUnitTest tests[] = {
        TEST(test_scopes),        TEST(test_handles),
        TEST(test_reshaped_leaf), TEST(test_reading),
        TEST(test_error_tensor),  TEST(test_two_contexts),
        TEST(test_sizes),         TEST(test_dead_buffers),
        TEST(test_compaction),    TEST(test_deep_graph),
        TEST(test_out_of_memory), TEST(test_recovery),
        TEST(test_compile),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
