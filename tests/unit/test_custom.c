/* Functions with gradients of the caller's own. */
#include <stdio.h>

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

/* ---- several results ---- */

/* in[0] * in[1], in[0] + in[1] and whether in[0] is less, as integers. */
static bell_status
several(struct bell_context *c, void *user, struct bell_tensor *const *in,
        uint32_t n_in, struct bell_tensor **out)
{
    (void)c;
    (void)user;
    assert_int_equal(n_in, 2);
    out[0] = bell_cast(bell_lt(in[0], in[1]), BELL_INT32);
    out[1] = bell_mul(in[0], in[1]);
    out[2] = bell_add(in[0], in[1]);
    return BELL_OK;
}

/* Twice what it is, which nothing but this says. */
static bell_status
several_back(struct bell_context *c, void *user, struct bell_tensor *const *in,
             uint32_t n_in, struct bell_tensor *const *out,
             struct bell_tensor *const *grads, struct bell_tensor **out_grads)
{
    uint32_t i;

    (void)c;
    (void)user;
    (void)n_in;
    n_backward++;
    assert_null(grads[0]);
    assert_true(bell_dtype_of(out[0]) == BELL_INT32);
    for (i = 0; i < 2; i++)
        out_grads[i] = bell_mul_scalar(
            bell_add(bell_mul(grads[1], in[1 - i]), grads[2]), 2);
    return BELL_OK;
}

static void
custom_several(struct bell_tensor *const *in, struct bell_tensor **out)
{
    struct bell_custom_many_desc desc = {.struct_size = sizeof(desc),
                                         .name = "several",
                                         .n_out = 3,
                                         .forward = several,
                                         .backward = several_back,
                                         .release = count_release};

    bell_custom_many(&desc, in, 2, out);
}

static void
test_several(void **state)
{
    struct bell_tensor *in[2] = {T(V(1, -2, 3), 3), T(V(4, 5, -6), 3)};
    struct bell_tensor *out[3], *again[3], *grads[2], *y;
    uint32_t before, released = n_released;

    (void)state;
    custom_several(in, out);
    EXPECT(out[1], 4, -10, -18);
    EXPECT(out[2], 5, 3, -3);
    EXPECT(bell_cast(out[0], BELL_FLOAT64), 1, 1, 0);
    custom_several(in, out);
    custom_several(in, again);
    assert_true(n_released == released + 2);

    /* one result alone, then both, in one call of backward */
    before = n_backward;
    EXPECT(gradient(out[2], in[0]), 2, 2, 2);
    EXPECT(gradient(out[1], in[0]), 8, 10, -12);
    assert_int_equal(n_backward, before + 2);
    y = bell_add(bell_mul(out[1], out[2]), again[1]);
    assert_int_equal(
        bell_gradient(bell_sum(y, BELL_NO_DIMS, false), in, 2, grads), BELL_OK);
    assert_int_equal(n_backward, before + 3);
    EXPECT(grads[0], 2 * ((5 + 1) * 4 + 4), 2 * ((3 + 1) * 5 - 10),
           2 * ((-3 + 1) * -6 - 18));
    EXPECT(grads[1], 2 * ((5 + 1) * 1 + 4), 2 * ((3 + 1) * -2 - 10),
           2 * ((-3 + 1) * 3 - 18));

    /* by a result, past it, and of a gradient */
    EXPECT(gradient(bell_mul(out[1], out[1]), out[1]), 8, -20, -36);
    EXPECT(gradient(out[1], out[2]), 0, 0, 0);
    y = gradient(out[1], in[0]);
    EXPECT(gradient(y, in[1]), 2, 2, 2);
    EXPECT(gradient(bell_detach(out[1]), in[0]), 0, 0, 0);
}

/* All results are one node, and an input. */
static bell_status
one_twice(struct bell_context *c, void *user, struct bell_tensor *const *in,
          uint32_t n_in, struct bell_tensor **out)
{
    (void)c;
    (void)user;
    (void)n_in;
    out[0] = out[1] = in[0];
    return BELL_OK;
}

static bell_status
one_twice_back(struct bell_context *c, void *user,
               struct bell_tensor *const *in, uint32_t n_in,
               struct bell_tensor *const *out, struct bell_tensor *const *grads,
               struct bell_tensor **out_grads)
{
    (void)c;
    (void)user;
    (void)in;
    (void)n_in;
    (void)out;
    out_grads[0] = bell_sub(grads[0], bell_mul_scalar(grads[1], 3));
    return BELL_OK;
}

static void
test_several_same(void **state)
{
    struct bell_custom_many_desc desc = {.struct_size = sizeof(desc),
                                         .n_out = 2,
                                         .forward = one_twice,
                                         .backward = one_twice_back};
    struct bell_tensor *x = bell_detach(T(V(1, 2), 2)), *out[2], *next[2];

    (void)state;
    bell_custom_many(&desc, &x, 1, out);
    EXPECT(gradient(out[0], x), 1, 1);
    EXPECT(gradient(out[1], x), -3, -3);
    EXPECT(gradient(bell_add(out[0], out[1]), x), -2, -2);
    EXPECT(gradient(bell_detach(out[0]), x), 0, 0);
    bell_custom_many(&desc, &out[1], 1, next);
    EXPECT(gradient(next[1], x), 9, 9);
    EXPECT(gradient(next[0], out[1]), 1, 1);
    EXPECT(gradient(scaled(next[0], &two), x), -6, -6);
}

/* A result that is asked for lives on when the others are gone. */
static void
test_several_collected(void **state)
{
    struct bell_tensor *in[2] = {T(V(1, 2), 2), T(V(3, 4), 2)}, *out[3], *y;
    uint32_t before = n_released, i, j;
    struct bell_context_info info = {.struct_size = sizeof(info)};

    (void)state;
    custom_several(in, out);
    bell_tensor_release(out[0]);
    bell_tensor_release(out[1]);
    for (i = 0; i < 200; i++) {
        struct bell_tensor *own[2] = {in[0], in[1]}, *made[3];
        assert_int_equal(bell_scope_begin(ctx), BELL_OK);
        own[0] = bell_add_scalar(in[0], i);
        custom_several(own, made);
        for (y = made[2], j = 0; j < 500; j++)
            y = bell_add_scalar(bell_mul(y, in[1]), i + j);
        assert_int_equal(bell_scope_end(ctx), BELL_OK);
    }
    bell_context_get_info(ctx, &info);
    assert_true(info.n_compactions > 0);
    assert_true(n_released > before && n_released <= before + 200);
    EXPECT(gradient(out[2], in[0]), 2, 2);
}

enum many_fault {
    MANY_NULL,
    MANY_ENDED,
    MANY_SCOPE,
    MANY_STATUS,
    MANY_CALL,
    MANY_SHAPE,
};

static bell_status
bad_several(struct bell_context *c, void *user, struct bell_tensor *const *in,
            uint32_t n_in, struct bell_tensor **out)
{
    (void)n_in;
    out[0] = out[1] = bell_neg(in[0]);
    switch (*(enum many_fault *)user) {
    case MANY_NULL:
        out[1] = NULL;
        break;
    case MANY_ENDED:
        bell_tensor_release(out[0]);
        break;
    case MANY_SCOPE:
        return bell_scope_begin(c);
    case MANY_STATUS:
        return BELL_E_IO;
    case MANY_CALL:
        out[1] = bell_reshape(in[0], BELL_DIMS(7));
        break;
    case MANY_SHAPE:
        break;
    }
    return BELL_OK;
}

static bell_status
bad_several_back(struct bell_context *c, void *user,
                 struct bell_tensor *const *in, uint32_t n_in,
                 struct bell_tensor *const *out,
                 struct bell_tensor *const *grads,
                 struct bell_tensor **out_grads)
{
    (void)c;
    (void)user;
    (void)in;
    (void)n_in;
    (void)out;
    out_grads[0] = bell_sum(grads[0], BELL_NO_DIMS, false);
    return BELL_OK;
}

static void
test_bad_several(void **state)
{
    static const char *const messages[] = {
        [MANY_NULL] = "bell_custom_many: 'bad' has made result 1 NULL",
        [MANY_ENDED] = "bell_custom_many: 'bad' has made result 0 and ended it",
        [MANY_SCOPE] =
            "bell_custom_many: 'bad' has begun scopes that it has not ended",
        [MANY_STATUS] = "bell_custom_many: 'bad' has failed",
        [MANY_CALL] = "bell_reshape: (3,) to (7,): both must have the same "
                      "number of elements, and one size at most may be -1",
    };
    enum many_fault fault = MANY_NULL;
    struct bell_custom_many_desc desc = {.struct_size = sizeof(desc),
                                         .name = "bad",
                                         .n_out = 2,
                                         .forward = bad_several,
                                         .backward = bad_several_back,
                                         .user = &fault,
                                         .release = count_release};
    struct bell_tensor *x = T(V(1, 2, 3), 3), *out[2], *g;
    uint32_t before = n_released;
    struct bell_context_info info = {.struct_size = sizeof(info)};

    (void)state;
    for (; fault <= MANY_CALL; fault++) {
        bell_error_clear();
        bell_custom_many(&desc, &x, 1, out);
        assert_ptr_equal(out[0], bell_error_tensor(ctx));
        EXPECT_ERROR(out[1], messages[fault]);
        assert_int_equal(n_released, before + fault + 1);
    }
    bell_custom_many(&desc, &x, 1, out);
    assert_int_equal(
        bell_gradient(bell_sum(out[1], BELL_NO_DIMS, false), &x, 1, &g),
        BELL_E_INVALID);
    assert_non_null(strstr(bell_error_last()->message,
                           "'bad' has made gradient 0 of shape () for"));
    desc.n_out = 0;
    bell_custom_many(&desc, &x, 1, NULL);
    assert_non_null(strstr(bell_error_last()->message, "results is NULL"));
    bell_custom_many(&desc, &x, 1, out);
    EXPECT_ERROR(bell_error_tensor(ctx),
                 "bell_custom_many: 'bad' has no results");
    bell_custom_many(NULL, &x, 1, out);
    EXPECT_ERROR(bell_error_tensor(ctx),
                 "bell_custom_many: the description is NULL");
    desc.n_out = 2;
    bell_custom_many(&desc, &x, 0, out);
    assert_null(out[0]);
    bell_context_get_info(ctx, &info);
    assert_int_equal(info.n_scopes, 1);
    EXPECT(bell_neg(x), -1, -2, -3);
}

/* Nodes move and go while functions live; each is released once. */
static void
test_collection(void **state)
{
    struct bell_tensor *x = T(V(1, 2), 2), *kept = scaled(x, &two), *y;
    uint32_t before = n_released, i, j;
    struct bell_context_info info = {.struct_size = sizeof(info)};

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
    struct bell_custom_desc desc = {
        .struct_size = sizeof(desc), .forward = same, .release = count_release};
    uint32_t before = n_released;
    struct bell_tensor *x = T(V(1, 2, 3), 3);
    struct bell_context_info info = {.struct_size = sizeof(info)};
    enum fault fault;
    char want[96];

    (void)state;
    for (fault = FAULT_NULL; fault < FAULT_CALL; fault++)
        EXPECT_ERROR(call_bad(x, &fault), messages[fault]);
    assert_ptr_equal(call_bad(x, &fault), bell_error_tensor(ctx));
    assert_int_equal(bell_context_status(ctx), BELL_E_INVALID);
    EXPECT_ERROR(bell_custom(&desc, &x, 1),
                 "bell_custom: 'custom' has no backward");
    desc.struct_size = 0;
    snprintf(want, sizeof(want),
             "bell_custom: the description's struct_size is 0, not its size, "
             "%zu",
             sizeof(desc));
    EXPECT_ERROR(bell_custom(&desc, &x, 1), want);
    assert_int_equal(n_released, before + 2);
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
    struct bell_context_info info = {.struct_size = sizeof(info)};
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
        cmocka_unit_test_setup_teardown(test_several, make_context,
                                        end_context),
        cmocka_unit_test_setup_teardown(test_several_same, make_context,
                                        end_context),
        cmocka_unit_test_setup_teardown(test_several_collected, make_context,
                                        end_context),
        cmocka_unit_test_setup_teardown(test_bad_several, make_context,
                                        end_context),
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
