/* Tensors without elements through the calls: each gives a shape, or refuses
 * with a message; what has elements is computed. */
#include "tests/unit/tensor_host.h"

static struct bell_tensor *
empty(const int64_t *shape, uint32_t ndim)
{
    return bell_zeros(ctx, shape, ndim, BELL_FLOAT64);
}
#define E(...) empty(BELL_DIMS(__VA_ARGS__))

/* From memory: nothing that could be folded. */
static struct bell_tensor *
empty_leaf(const int64_t *shape, uint32_t ndim)
{
    return bell_from_data(ctx, shape, ndim, BELL_FLOAT64, NULL);
}
#define L(...) empty_leaf(BELL_DIMS(__VA_ARGS__))

static void
test_shapes(void **state)
{
    struct bell_tensor *x = L(0, 3), *parts[2];

    (void)state;
    EXPECT_SHAPE(bell_exp(x), 0, 3);
    EXPECT_SHAPE(bell_add(x, T(V(1, 2, 3), 3)), 0, 3);
    EXPECT_SHAPE(bell_where(bell_lt(x, x), x, x), 0, 3);
    EXPECT_SHAPE(bell_t(x), 3, 0);
    EXPECT_SHAPE(bell_flip(x, BELL_NO_DIMS), 0, 3);
    EXPECT_SHAPE(bell_repeat(x, BELL_DIMS(2, 2)), 0, 6);
    EXPECT_SHAPE(bell_repeat_interleave(x, 2, 1), 0, 6);
    EXPECT_SHAPE(bell_repeat_interleave(T(V(1), 1), 0, 0), 0);
    EXPECT_SHAPE(bell_roll(x, 1, 0), 0, 3);
    EXPECT_SHAPE(bell_tril(x, 0), 0, 3);
    EXPECT_SHAPE(bell_diag(L(0)), 0, 0);
    EXPECT_SHAPE(bell_diag(L(0, 0)), 0);
    EXPECT_SHAPE(bell_cat(BELL_TENSORS(x, x), 1), 0, 6);
    EXPECT_SHAPE(bell_stack(BELL_TENSORS(x, x), 0), 2, 0, 3);
    EXPECT_SHAPE(bell_index(x, BELL_ITEMS(bell_slice(0, 5, 2))), 0, 3);
    EXPECT_SHAPE(bell_softmax(x, 0), 0, 3);
    EXPECT_SHAPE(bell_softmax(x, 1), 0, 3);
    EXPECT_SHAPE(bell_cumsum(x, 1), 0, 3);
    EXPECT_SHAPE(bell_max(x, BELL_DIMS(1), false), 0);
    EXPECT_SHAPE(bell_argmax(x, 1, false), 0);
    EXPECT_SHAPE(bell_layer_norm(x, 1, NULL, NULL, 1e-5), 0, 3);
    EXPECT_SHAPE(bell_matmul(x, T(V(1, 2, 3), 3)), 0);
    EXPECT_SHAPE(bell_matmul(L(2, 0), L(0, 3)), 2, 3);
    EXPECT_SHAPE(bell_linear(x, noise(0, 1, BELL_DIMS(2, 3)), NULL), 0, 2);
    EXPECT_SHAPE(bell_einsum("ij,jk", BELL_TENSORS(x, L(3, 0))), 0, 0);
    EXPECT_SHAPE(bell_gather(T(V(1, 2), 2), 0, I(V(0), 0)), 0);
    EXPECT_SHAPE(bell_embedding(I(V(0), 0), noise(0, 1, BELL_DIMS(4, 2))), 0,
                 2);
    EXPECT_SHAPE(bell_one_hot(I(V(0), 0), 3), 0, 3);
    EXPECT_SHAPE(bell_one_hot(hidden(I(V(0), 1)), 0), 1, 0);
    EXPECT_SHAPE(bell_rand(ctx, BELL_DIMS(0, 2), BELL_DEFAULT), 0, 2);
    EXPECT_SHAPE(bell_randn(ctx, BELL_DIMS(0), BELL_FLOAT64), 0);
    EXPECT_SHAPE(bell_randint(ctx, 0, 2, BELL_DIMS(0), BELL_DEFAULT), 0);
    EXPECT_SHAPE(bell_randperm(ctx, 0), 0);
    EXPECT_SHAPE(bell_eye(ctx, 0, 3, BELL_DEFAULT), 0, 3);
    EXPECT_SHAPE(bell_conv2d(L(0, 1, 4, 4), noise(0, 1, BELL_DIMS(2, 1, 3, 3)),
                             NULL, NULL),
                 0, 2, 2, 2);
    bell_sort(x, 0, false, &parts[0], &parts[1]);
    EXPECT_SHAPE(parts[0], 0, 3);
    assert_int_equal(bell_chunk(x, 2, 0, parts), 2);
    EXPECT_SHAPE(parts[1], 0, 3);
    assert_int_equal(bell_realize1(bell_exp(x)), BELL_OK);
    assert_int_equal(bell_read(bell_mul(x, x), NULL, 0), BELL_OK);
}

static void
test_values(void **state)
{
    struct bell_tensor *x = L(0, 2), *grad;

    (void)state;
    EXPECT(bell_sum(x, BELL_DIMS(0), false), 0, 0);
    EXPECT(bell_prod(bell_exp(x), BELL_DIMS(0), false), 1, 1);
    EXPECT(bell_any(x, BELL_NO_DIMS, false), 0);
    EXPECT(bell_all(x, BELL_NO_DIMS, false), 1);
    EXPECT(bell_mean(x, BELL_DIMS(0), false), NAN, NAN);
    EXPECT(bell_logsumexp(x, BELL_DIMS(0), false), -INFINITY, -INFINITY);
    EXPECT(bell_norm(x, 2, BELL_NO_DIMS, false), 0);
    EXPECT(bell_pad(x, BELL_DIMS(0, 0, 1, 0), 7), 7, 7);
    EXPECT(bell_cat(BELL_TENSORS(x, T(V(1, 2), 1, 2), L(0, 2)), 0), 1, 2);
    EXPECT(bell_matmul(L(2, 0), L(0, 1)), 0, 0);
    EXPECT(bell_linear(L(1, 0), L(2, 0), T(V(3, 4), 2)), 3, 4);
    EXPECT(bell_gather(L(0), 0, hidden(I(V(0, 5), 2))), 0, 0);
    EXPECT(bell_scatter(T(V(1, 2), 2), 0, I(V(0), 0), L(0)), 1, 2);
    EXPECT(bell_einsum("ij->j", BELL_TENSORS(x)), 0, 0);
    EXPECT(bell_mse_loss(x, x, BELL_SUM), 0);
    EXPECT(bell_mse_loss(x, x, BELL_MEAN), NAN);
    /* gradients through nothing */
    x = T(V(1, 2), 2);
    assert_int_equal(
        bell_gradient(bell_sum(bell_narrow(x, 0, 1, 0), BELL_NO_DIMS, false),
                      &x, 1, &grad),
        BELL_OK);
    EXPECT(grad, 0, 0);
}

static void
test_refusals(void **state)
{
    static const struct bell_pool_options pool = {.struct_size = sizeof(pool),
                                                  .kernel = {2, 2}};

    (void)state;
    EXPECT_ERROR(bell_max(E(2, 0), BELL_DIMS(1), false),
                 "bell_max: over no elements, of shape (2, 0)");
    EXPECT_ERROR(bell_argmin(E(0, 2), 0, false),
                 "bell_argmin: over no elements, of shape (0, 2)");
    EXPECT_ERROR(bell_norm(E(0), INFINITY, BELL_NO_DIMS, false),
                 "bell_norm: of order inf over no elements, of shape (0,); an "
                 "order from 0 on is needed, and not infinity");
    EXPECT_ERROR(
        bell_index(E(0, 2), BELL_ITEMS(bell_at(0))),
        "bell_index: item 0: index 0 is out of bounds for an axis of size 0");
    EXPECT_ERROR(bell_conv2d(E(1, 1, 0, 4), noise(0, 1, BELL_DIMS(1, 1, 1, 1)),
                             NULL, NULL),
                 "bell_conv2d: a window of 1 elements must fit an axis of 0 "
                 "with a padding of 0");
    EXPECT_ERROR(bell_conv2d(E(1, 1, 4, 4), E(0, 1, 1, 1), NULL, NULL),
                 "bell_conv2d: a weight of shape (0, 1, 1, 1) has no elements");
    EXPECT_ERROR(bell_max_pool2d(E(1, 0, 4), &pool),
                 "bell_max_pool2d: windows of 2 by 2, padding 0, dilation 1 "
                 "over (1, 0, 4); an axis is shorter than a window");
    EXPECT_ERROR(bell_reshape(E(0, 3), BELL_DIMS(-1, 0)),
                 "bell_reshape: (0, 3) to (-1, 0): both must have the same "
                 "number of elements, and one size at most may be -1");
    EXPECT_ERROR(bell_unfold(E(0), 0, 1, 1),
                 "bell_unfold: windows of 1 by 1 along axis 0 of (0,): a "
                 "window must fit, and the step must be 1 or more");
}

int
main(void)
{
#define TEST(name)                                                             \
    cmocka_unit_test_setup_teardown(name, make_context, end_context)
    const struct CMUnitTest tests[] = {
        TEST(test_shapes),
        TEST(test_values),
        TEST(test_refusals),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
