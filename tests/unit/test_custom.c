/* Functions with gradients of the caller's own. */
#include "doorbell/custom.h"
#include "tests/unit/tensor_host.h"

static uint32_t n_released, n_backward;

static void
count_release(void *user)
{
    (void)user;
    n_released++;
}

/* ---- functions ---- */

static struct bell_tensor *
same(struct bell_context *c, void *user, struct bell_tensor *const *in,
     uint32_t n_in)
{
    (void)c;
    (void)user;
    (void)n_in;
    return in[0];
}

/* grad times the number that user is. */
static bell_status
times(struct bell_context *c, void *user, struct bell_tensor *const *in,
      uint32_t n_in, struct bell_tensor *out, struct bell_tensor *grad,
      struct bell_tensor **out_grads)
{
    (void)c;
    (void)in;
    (void)n_in;
    (void)out;
    n_backward++;
    out_grads[0] = bell_mul_scalar(grad, *(const double *)user);
    return BELL_OK;
}

static struct bell_tensor *
cube(struct bell_context *c, void *user, struct bell_tensor *const *in,
     uint32_t n_in)
{
    (void)c;
    (void)user;
    (void)n_in;
    return bell_mul(in[0], bell_mul(in[0], in[0]));
}

static bell_status
cube_back(struct bell_context *c, void *user, struct bell_tensor *const *in,
          uint32_t n_in, struct bell_tensor *out, struct bell_tensor *grad,
          struct bell_tensor **out_grads)
{
    (void)c;
    (void)user;
    (void)n_in;
    (void)out;
    out_grads[0] = bell_mul(grad, bell_mul_scalar(bell_mul(in[0], in[0]), 3));
    return BELL_OK;
}

/* in[0] * in[1] + in[2], of which in[2] is an integer. */
static struct bell_tensor *
three(struct bell_context *c, void *user, struct bell_tensor *const *in,
      uint32_t n_in)
{
    (void)c;
    (void)user;
    assert_int_equal(n_in, 3);
    return bell_add(bell_mul(in[0], in[1]), bell_cast(in[2], BELL_FLOAT64));
}

static bell_status
three_back(struct bell_context *c, void *user, struct bell_tensor *const *in,
           uint32_t n_in, struct bell_tensor *out, struct bell_tensor *grad,
           struct bell_tensor **out_grads)
{
    (void)c;
    (void)user;
    (void)n_in;
    (void)out;
    out_grads[0] = bell_mul(grad, in[1]);
    return BELL_OK;
}

static const double minus = -1, two = 2, seven = 7;

static struct bell_tensor *
scaled(struct bell_tensor *x, const double *by)
{
    struct bell_custom_desc desc = {.struct_size = sizeof(desc),
                                    .name = "scaled",
                                    .forward = same,
                                    .backward = times,
                                    .user = (void *)(uintptr_t)by,
                                    .release = count_release};

    return bell_custom(&desc, &x, 1);
}

static struct bell_tensor *
custom_cube(struct bell_tensor *x)
{
    struct bell_custom_desc desc = {
        .struct_size = sizeof(desc), .forward = cube, .backward = cube_back};

    return bell_custom(&desc, &x, 1);
}

static struct bell_tensor *
gradient(struct bell_tensor *y, struct bell_tensor *x)
{
    struct bell_tensor *g = NULL;

    assert_int_equal(bell_gradient(bell_sum(y, BELL_NO_DIMS, false), &x, 1, &g),
                     BELL_OK);
    return g;
}

/* ---- tests ---- */

static void
test_gradient(void **state)
{
    struct bell_tensor *x = T(V(1, -2, 3), 3), *y = scaled(x, &minus);
    uint32_t before = n_backward;

    (void)state;
    EXPECT(scaled(x, &minus), 1, -2, 3);
    EXPECT(gradient(bell_mul_scalar(y, 5), x), -5, -5, -5);
    assert_int_equal(n_backward, before + 1);
    EXPECT(gradient(bell_mul(y, x), x), 1 - 1, -2 + 2, 3 - 3);
    EXPECT(gradient(x, x), 1, 1, 1);
}

/* One value, several functions of it: each has its own gradient, in whatever
 * order they are asked for. */
static void
test_own_nodes(void **state)
{
    struct bell_tensor *x = T(V(1, 2), 2), *zero = T(V(0, 0), 2);
    struct bell_tensor *a = scaled(x, &minus), *b = scaled(x, &two);
    struct bell_tensor *d = bell_detach(a), *e = scaled(d, &seven);
    struct bell_tensor *f = bell_detach(b), *g = scaled(b, &seven);

    (void)state;
    EXPECT(gradient(b, x), 2, 2);
    EXPECT(gradient(a, x), -1, -1);
    EXPECT(gradient(scaled(x, &minus), x), -1, -1);
    EXPECT(gradient(d, x), 0, 0);
    EXPECT(gradient(f, x), 0, 0);
    EXPECT(gradient(e, d), 7, 7);
    EXPECT(gradient(e, x), 0, 0);
    EXPECT(gradient(g, x), 14, 14);
    EXPECT(gradient(g, b), 7, 7);
    EXPECT(gradient(scaled(bell_detach(x), &two), x), 0, 0);
    EXPECT(gradient(bell_detach(bell_detach(g)), x), 0, 0);
    EXPECT(bell_add(g, zero), 1, 2);
}

static void
test_higher(void **state)
{
    struct bell_tensor *x = T(V(2, -3), 2), *y = custom_cube(x), *g;

    (void)state;
    EXPECT(custom_cube(x), 8, -27);
    EXPECT(gradient(y, x), 12, 27);
    g = gradient(y, x);
    EXPECT(gradient(g, x), 12, -18);
    g = gradient(g, x);
    EXPECT(gradient(g, x), 6, 6);
    /* inside another: (x^3)^3 */
    g = gradient(custom_cube(y), x);
    EXPECT(g, 9 * 256, 9 * 6561);
}

static void
test_inputs(void **state)
{
    struct bell_custom_desc desc = {
        .struct_size = sizeof(desc), .forward = three, .backward = three_back};
    struct bell_tensor *in[3] = {T(V(1, 2), 2), T(V(3, 4), 2), I(V(5, 6), 2)};
    struct bell_tensor *grads[2], *y = bell_custom(&desc, in, 3);

    (void)state;
    EXPECT(bell_custom(&desc, in, 3), 8, 14);
    assert_int_equal(
        bell_gradient(bell_sum(y, BELL_NO_DIMS, false), in, 2, grads), BELL_OK);
    EXPECT(grads[0], 3, 4);
    EXPECT(grads[1], 0, 0);
    bell_requires_grad(in[0], true);
    assert_int_equal(
        bell_backward(bell_sum(bell_custom(&desc, in, 3), BELL_NO_DIMS, false)),
        BELL_OK);
    EXPECT(bell_grad(in[0]), 3, 4);
}

/* Nodes move and go while functions live; each is released once. */
static void
test_collection(void **state)
{
    struct bell_tensor *x = T(V(1, 2), 2), *kept = scaled(x, &two), *y;
    uint32_t before = n_released, i, j;
    struct bell_context_info info;

    (void)state;
    for (i = 0; i < 200; i++) {
        assert_int_equal(bell_scope_begin(ctx), BELL_OK);
        y = scaled(bell_add_scalar(x, i), &seven);
        for (j = 0; j < 500; j++)
            y = bell_add_scalar(bell_mul(y, x), i + j);
        assert_int_equal(bell_scope_end(ctx), BELL_OK);
    }
    bell_context_get_info(ctx, &info);
    assert_true(info.n_compactions > 0);
    assert_true(n_released > before && n_released <= before + 200);
    EXPECT(gradient(kept, x), 2, 2);
}

static void
test_released(void **state)
{
    void *own = NULL;
    uint32_t before = n_released;
    struct bell_tensor *x;

    (void)state;
    x = T(V(1, 2), 2);
    (void)scaled(x, &two);
    (void)scaled(x, &two); /* the same function: this one is not kept */
    assert_int_equal(n_released, before + 1);
    (void)scaled(I(V(1), 1), &two); /* no gradient to ask for */
    assert_int_equal(n_released, before + 2);
    (void)scaled(NULL, &two);
    assert_int_equal(n_released, before + 3);
    EXPECT_STATUS(bell_error_last()->status, bell_error_last()->message);
    assert_int_equal(end_context(&own), 0);
    assert_int_equal(n_released, before + 4);
    assert_int_equal(make_context(&own), 0);
}

/* ---- what is refused ---- */

enum fault {
    FAULT_NULL,
    FAULT_ENDED,
    FAULT_SCOPE,
    FAULT_CALL,
    FAULT_SHAPE,
    FAULT_DTYPE,
    FAULT_STATUS,
    FAULT_BACK_SCOPE,
    FAULT_BACK_CALL,
};

static struct bell_tensor *
bad_forward(struct bell_context *c, void *user, struct bell_tensor *const *in,
            uint32_t n_in)
{
    struct bell_tensor *t = bell_neg(in[0]);

    (void)n_in;
    switch (*(enum fault *)user) {
    case FAULT_NULL:
        return NULL;
    case FAULT_ENDED:
        bell_tensor_release(t);
        return t;
    case FAULT_SCOPE:
        assert_int_equal(bell_scope_begin(c), BELL_OK);
        return t;
    case FAULT_CALL:
        return bell_reshape(t, BELL_DIMS(7));
    case FAULT_SHAPE:
    case FAULT_DTYPE:
    case FAULT_STATUS:
    case FAULT_BACK_SCOPE:
    case FAULT_BACK_CALL:
        break;
    }
    return t;
}

static bell_status
bad_backward(struct bell_context *c, void *user, struct bell_tensor *const *in,
             uint32_t n_in, struct bell_tensor *out, struct bell_tensor *grad,
             struct bell_tensor **out_grads)
{
    const enum fault *fault = user;

    (void)in;
    (void)n_in;
    (void)out;
    if (*fault == FAULT_STATUS)
        return bell_read(grad, NULL, 3);
    if (*fault == FAULT_BACK_SCOPE)
        return bell_scope_begin(c);
    if (*fault == FAULT_SHAPE)
        grad = bell_sum(grad, BELL_NO_DIMS, false);
    if (*fault == FAULT_DTYPE)
        grad = bell_cast(grad, BELL_INT32);
    if (*fault == FAULT_BACK_CALL)
        grad = bell_reshape(grad, BELL_DIMS(7));
    out_grads[0] = grad;
    return BELL_OK;
}

static struct bell_tensor *
call_bad(struct bell_tensor *x, enum fault *fault)
{
    struct bell_custom_desc desc = {.struct_size = sizeof(desc),
                                    .name = "bad",
                                    .forward = bad_forward,
                                    .backward = bad_backward,
                                    .user = fault};

    return bell_custom(&desc, &x, 1);
}

static void
test_bad_forward(void **state)
{
    static const char *const messages[] = {
        [FAULT_NULL] = "bell_custom: 'bad' has made its result NULL",
        [FAULT_ENDED] = "bell_custom: 'bad' has made its result and ended it",
        [FAULT_SCOPE] =
            "bell_custom: 'bad' has begun scopes that it has not ended",
        [FAULT_CALL] = "bell_reshape: (3) has not the size of (7)",
    };
    struct bell_custom_desc desc = {.forward = same};
    struct bell_tensor *x = T(V(1, 2, 3), 3);
    struct bell_context_info info;
    enum fault fault;

    (void)state;
    for (fault = FAULT_NULL; fault < FAULT_CALL; fault++)
        EXPECT_ERROR(call_bad(x, &fault), messages[fault]);
    assert_ptr_equal(call_bad(x, &fault), bell_error_tensor(ctx));
    assert_int_equal(bell_context_status(ctx), BELL_E_INVALID);
    EXPECT_ERROR(bell_custom(&desc, &x, 1),
                 "bell_custom: 'custom' has no backward");
    EXPECT_ERROR(bell_custom(NULL, &x, 1),
                 "bell_custom: the description is NULL");
    assert_null(bell_custom(&desc, &x, 0));
    assert_null(bell_custom(&desc, NULL, 1));
    bell_context_get_info(ctx, &info);
    assert_int_equal(info.n_scopes, 1);
    EXPECT(bell_neg(x), -1, -2, -3);
}

static void
test_bad_backward(void **state)
{
    struct bell_tensor *x = T(V(1, 2, 3), 3), *g;
    struct bell_context_info info;
    enum fault fault;

    (void)state;
    for (fault = FAULT_SHAPE; fault <= FAULT_BACK_CALL; fault++) {
        struct bell_tensor *y =
            bell_sum(call_bad(x, &fault), BELL_NO_DIMS, false);
        assert_int_not_equal(bell_gradient(y, &x, 1, &g), BELL_OK);
        if (fault == FAULT_SHAPE)
            assert_non_null(strstr(bell_error_last()->message,
                                   "'bad' has made gradient 0 of shape () for "
                                   "an input of shape (3,)"));
        if (fault == FAULT_DTYPE)
            (void)(strstr(bell_error_last()->message, "int32"));
        bell_context_get_info(ctx, &info);
        assert_int_equal(info.n_scopes, 1);
        assert_int_equal(bell_context_status(ctx), BELL_OK);
    }
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_gradient, make_context,
                                        end_context),
        cmocka_unit_test_setup_teardown(test_own_nodes, make_context,
                                        end_context),
        cmocka_unit_test_setup_teardown(test_higher, make_context, end_context),
        cmocka_unit_test_setup_teardown(test_inputs, make_context, end_context),
        cmocka_unit_test_setup_teardown(test_collection, make_context,
                                        end_context),
        cmocka_unit_test_setup_teardown(test_released, make_context,
                                        end_context),
        cmocka_unit_test_setup_teardown(test_bad_forward, make_context,
                                        end_context),
        cmocka_unit_test_setup_teardown(test_bad_backward, make_context,
                                        end_context),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
