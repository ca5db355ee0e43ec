/* Layers, and optimisers against their formulas in plain C. */
#include "doorbell/nn.h"
#include "tests/unit/tensor_host.h"

#include <stdlib.h>

#include "base/alloc.h"

/* ---- layers ---- */

static void
test_linear(void **state)
{
    struct bell_params params = {0};
    struct bell_nn_linear layer;
    double *w, bias[2];
    size_t i;

    (void)state;
    assert_int_equal(bell_scope_begin(ctx), BELL_OK);
    assert_int_equal(bell_nn_linear_init(ctx, 100, 2, true, &layer), BELL_OK);
    assert_int_equal(bell_scope_end(ctx), BELL_OK); /* outlives the scope */
    EXPECT_SHAPE(layer.weight, 2, 100);
    w = malloc(200 * sizeof(*w));
    assert_non_null(w);
    assert_int_equal(bell_read_f64(layer.weight, w, 200), BELL_OK);
    for (i = 0; i < 200; i++)
        assert_true(fabs(w[i]) <= 0.1000001);
    assert_int_equal(bell_read_f64(layer.bias, bias, 2), BELL_OK);
    EXPECT_NEAR(bell_nn_linear(&layer, bell_one_hot(I(V(7), 1), 100)), 1e-6,
                w[7] + bias[0], w[107] + bias[1]);
    free(w);
    assert_int_equal(
        bell_params_add_module(&params, &bell_nn_linear_type, &layer), BELL_OK);
    assert_int_equal(params.n, 2);
    bell_params_fini(&params);
    bell_module_fini(&bell_nn_linear_type, &layer);
    assert_int_equal(bell_nn_linear_init(ctx, 3, 2, false, &layer), BELL_OK);
    assert_null(layer.bias);
    assert_int_equal(
        bell_params_add_module(&params, &bell_nn_linear_type, &layer), BELL_OK);
    assert_int_equal(params.n, 1);
    bell_params_fini(&params);
    bell_module_fini(&bell_nn_linear_type, &layer);
    EXPECT_STATUS(bell_nn_linear_init(ctx, 0, 2, true, &layer),
                  "bell_nn_linear_init: a size of 0, not greater than 0");
}

static void
test_other_layers(void **state)
{
    static const struct bell_conv_options opt = {
        .struct_size = sizeof(opt), .padding = {1, 1}, .groups = 2};
    struct bell_params params = {0};
    struct bell_nn_layer_norm norm;
    struct bell_nn_embedding table;
    struct bell_nn_conv conv;

    (void)state;
    assert_int_equal(bell_nn_conv2d_init(ctx, 4, 6, 3, 3, &opt, true, &conv),
                     BELL_OK);
    EXPECT_SHAPE(conv.weight, 6, 2, 3, 3);
    EXPECT_SHAPE(bell_nn_conv2d(&conv, noise(0, 1, BELL_DIMS(2, 4, 5, 5))), 2,
                 6, 5, 5);
    assert_int_equal(bell_params_add_module(&params, &bell_nn_conv_type, &conv),
                     BELL_OK);
    assert_int_equal(bell_nn_layer_norm_init(ctx, BELL_DIMS(3), &norm),
                     BELL_OK);
    EXPECT_NEAR(bell_nn_layer_norm(&norm, T(V(1, 2, 3), 1, 3)), 1e-5, -1.224735,
                0, 1.224735);
    assert_int_equal(
        bell_params_add_module(&params, &bell_nn_layer_norm_type, &norm),
        BELL_OK);
    assert_int_equal(bell_nn_embedding_init(ctx, 10, 4, &table), BELL_OK);
    EXPECT_SHAPE(bell_nn_embedding(&table, I(V(1, 2, 3), 3)), 3, 4);
    assert_int_equal(
        bell_params_add_module(&params, &bell_nn_embedding_type, &table),
        BELL_OK);
    assert_int_equal(params.n, 5);
    bell_params_fini(&params);
    bell_module_fini(&bell_nn_conv_type, &conv);
    bell_module_fini(&bell_nn_layer_norm_type, &norm);
    bell_module_fini(&bell_nn_embedding_type, &table);
    EXPECT_STATUS(bell_nn_conv2d_init(ctx, 3, 6, 3, 3, &opt, true, &conv),
                  "bell_nn_conv2d_init: 3 to 6 channels in 2 groups: the "
                  "groups must divide both");
}

static void
test_batch_norm(void **state)
{
    struct bell_tensor *x =
        bell_cast(T(V(1, 3, 5, 7, 10, 20, 30, 40), 2, 2, 2), BELL_FLOAT32);
    struct bell_params params = {0};
    struct bell_nn_batch_norm bn;
    struct bell_optimizer *opt;
    struct bell_tensor *y;
    size_t before;

    (void)state;
    /* channel 0: 1 3 10 20, channel 1: 5 7 30 40 */
    assert_int_equal(bell_nn_batch_norm_init(ctx, 2, &bn), BELL_OK);
    EXPECT_NEAR(bell_nn_batch_norm(&bn, x), 1e-3, 1, 3, 5, 7, 10, 20, 30, 40);
    EXPECT(bn.running_mean, 0, 0);
    bell_set_training(ctx, true);
    y = bell_nn_batch_norm(&bn, x);
    EXPECT_NEAR(bell_mean(y, BELL_DIMS(0, 2), false), 1e-6, 0, 0);
    EXPECT_NEAR(bell_var(y, BELL_DIMS(0, 2), false, 0), 1e-5, 1, 1);
    /* The statistics are computed with the step. */
    assert_false(bell_is_realized(bn.running_mean));
    assert_int_equal(
        bell_params_add_module(&params, &bell_nn_batch_norm_type, &bn),
        BELL_OK);
    assert_int_equal(params.n, 2);
    assert_int_equal(bell_sgd_create(params.tensors, 2,
                                     &BELL_OPTIONS(bell_sgd_options, .lr = 0.1),
                                     &opt),
                     BELL_OK);
    assert_int_equal(
        bell_backward(bell_sum(bell_square(y), BELL_NO_DIMS, false)), BELL_OK);
    before = host_realizes;
    assert_int_equal(bell_optimizer_step(opt, NULL, 0), BELL_OK);
    assert_int_equal(host_realizes, before + 1);
    assert_true(bell_is_realized(bn.running_mean));
    EXPECT_NEAR(bn.running_mean, 1e-6, 0.85, 2.05);
    EXPECT_NEAR(bn.running_var, 1e-5, 0.9 + 0.1 * 221.0 / 3,
                0.9 + 0.1 * 893.0 / 3);
    assert_null(bell_grad(bn.running_mean));
    EXPECT_NEAR(bn.weight, 1e-4, 1 - 0.1 * 8, 1 - 0.1 * 8);
    bell_set_training(ctx, false);
    EXPECT_ERROR(bell_nn_batch_norm(&bn, T(V(1), 1)),
                 "bell_nn_batch_norm: x float64 (1,) for 2 channels: expected "
                 "floats of 2 axes or more, and that size of axis 1");
    bell_optimizer_destroy(opt);
    bell_params_fini(&params);
    bell_module_fini(&bell_nn_batch_norm_type, &bn);
}

/* ---- optimisers ---- */

#define N_PARAM 3
#define N_STEPS 5

/* Parameters, gradients and states of a formula in plain C. */
struct plain {
    double p, g, s[3];
    int t;
};

typedef void formula_fn(struct plain *x);
typedef bell_status create_fn(struct bell_tensor *const *params, uint32_t n,
                              struct bell_optimizer **out_opt);

/* The gradient of sum(cos(p) * w) with w = 1, 2, 3. */
static void
check_formula(const char *name, create_fn *create, formula_fn *formula,
              enum bell_dtype dtype, double eps)
{
    struct plain x[N_PARAM] = {{.p = 0.5}, {.p = -1}, {.p = 2}};
    struct bell_tensor *p, *w, *loss;
    struct bell_optimizer *opt;
    double got[N_PARAM], value;
    int step, i;

    p = bell_cast(T(V(0.5, -1, 2), 3), dtype);
    w = bell_cast(T(V(1, 2, 3), 3), dtype);
    bell_requires_grad(p, true);
    assert_int_equal(create(&p, 1, &opt), BELL_OK);
    for (step = 0; step < N_STEPS; step++) {
        assert_int_equal(bell_scope_begin(ctx), BELL_OK);
        bell_optimizer_set_lr(opt, bell_optimizer_lr(opt) * 0.9);
        loss = bell_sum(bell_mul(bell_cos(p), w), BELL_NO_DIMS, false);
        bell_optimizer_zero_grad(opt);
        assert_int_equal(bell_backward(loss), BELL_OK);
        if (bell_optimizer_step(opt, &loss, 1) != BELL_OK) {
            print_error("%s: %s\n", name, bell_error_last()->message);
            fail();
        }
        assert_int_equal(bell_item_f64(loss, &value), BELL_OK);
        assert_int_equal(bell_scope_end(ctx), BELL_OK);
        assert_int_equal(bell_read_f64(p, got, N_PARAM), BELL_OK);
        for (i = 0; i < N_PARAM; i++) {
            x[i].g = -sin(x[i].p) * (i + 1);
            x[i].t = step + 1;
            formula(&x[i]);
            if (!(fabs(got[i] - x[i].p) <= eps)) {
                print_error("%s, step %d: %.12g, not %.12g\n", name, step + 1,
                            got[i], x[i].p);
                fail();
            }
        }
    }
    bell_optimizer_destroy(opt);
}

/* The learning rate of a step: 0.1 times 0.9 for each. */
static double
rate(const struct plain *x)
{
    return 0.1 * pow(0.9, x->t);
}

static void
sgd_formula(struct plain *x)
{
    x->p -= rate(x) * x->g;
}

static bell_status
sgd_create(struct bell_tensor *const *p, uint32_t n, struct bell_optimizer **o)
{
    return bell_sgd_create(p, n, &BELL_OPTIONS(bell_sgd_options, .lr = 0.1), o);
}

static void
momentum_formula(struct plain *x)
{
    double g = x->g + 0.01 * x->p;

    x->s[0] = x->t == 1 ? g : 0.8 * x->s[0] + 0.9 * g;
    x->p -= rate(x) * x->s[0];
}

static bell_status
momentum_create(struct bell_tensor *const *p, uint32_t n,
                struct bell_optimizer **o)
{
    return bell_sgd_create(p, n,
                           &BELL_OPTIONS(bell_sgd_options, .lr = 0.1,
                                         .momentum = 0.8, .dampening = 0.1,
                                         .weight_decay = 0.01),
                           o);
}

static void
nesterov_formula(struct plain *x)
{
    x->s[0] = 0.8 * x->s[0] + x->g;
    x->p -= rate(x) * (x->g + 0.8 * x->s[0]);
}

static bell_status
nesterov_create(struct bell_tensor *const *p, uint32_t n,
                struct bell_optimizer **o)
{
    return bell_sgd_create(p, n,
                           &BELL_OPTIONS(bell_sgd_options, .lr = 0.1,
                                         .momentum = 0.8, .nesterov = true),
                           o);
}

static void
adam_move(struct plain *x, double g)
{
    x->s[0] = 0.8 * x->s[0] + 0.2 * g;
    x->s[1] = 0.95 * x->s[1] + 0.05 * g * g;
    x->p -= rate(x) * (x->s[0] / (1 - pow(0.8, x->t))) /
            (sqrt(x->s[1] / (1 - pow(0.95, x->t))) + 1e-3);
}

static const struct bell_adam_options adam_options = {.struct_size =
                                                          sizeof(adam_options),
                                                      .lr = 0.1,
                                                      .beta1 = 0.8,
                                                      .beta2 = 0.95,
                                                      .eps = 1e-3,
                                                      .weight_decay = 0.02};

static void
adam_formula(struct plain *x)
{
    adam_move(x, x->g + 0.02 * x->p);
}

static bell_status
adam_create(struct bell_tensor *const *p, uint32_t n, struct bell_optimizer **o)
{
    return bell_adam_create(p, n, &adam_options, o);
}

static void
adamw_formula(struct plain *x)
{
    x->p *= 1 - rate(x) * 0.02;
    adam_move(x, x->g);
}

static bell_status
adamw_create(struct bell_tensor *const *p, uint32_t n,
             struct bell_optimizer **o)
{
    return bell_adamw_create(p, n, &adam_options, o);
}

static void
rmsprop_formula(struct plain *x)
{
    x->s[0] = 0.9 * x->s[0] + 0.1 * x->g * x->g;
    x->p -= rate(x) * x->g / (sqrt(x->s[0]) + 1e-3);
}

static bell_status
rmsprop_create(struct bell_tensor *const *p, uint32_t n,
               struct bell_optimizer **o)
{
    return bell_rmsprop_create(p, n,
                               &BELL_OPTIONS(bell_rmsprop_options, .lr = 0.1,
                                             .alpha = 0.9, .eps = 1e-3),
                               o);
}

static void
centered_formula(struct plain *x)
{
    double g = x->g + 0.03 * x->p;

    x->s[0] = 0.9 * x->s[0] + 0.1 * g * g;
    x->s[1] = 0.9 * x->s[1] + 0.1 * g;
    x->s[2] = 0.5 * x->s[2] + g / (sqrt(x->s[0] - x->s[1] * x->s[1]) + 1e-3);
    x->p -= rate(x) * x->s[2];
}

static bell_status
centered_create(struct bell_tensor *const *p, uint32_t n,
                struct bell_optimizer **o)
{
    return bell_rmsprop_create(p, n,
                               &BELL_OPTIONS(bell_rmsprop_options, .lr = 0.1,
                                             .alpha = 0.9, .eps = 1e-3,
                                             .weight_decay = 0.03,
                                             .momentum = 0.5, .centered = true),
                               o);
}

static void
test_formulas(void **state)
{
    static const struct {
        const char *name;
        create_fn *create;
        formula_fn *formula;
    } rows[] = {
        {"sgd", sgd_create, sgd_formula},
        {"sgd with momentum", momentum_create, momentum_formula},
        {"sgd, nesterov", nesterov_create, nesterov_formula},
        {"adam", adam_create, adam_formula},
        {"adamw", adamw_create, adamw_formula},
        {"rmsprop", rmsprop_create, rmsprop_formula},
        {"rmsprop, centered", centered_create, centered_formula},
    };
    size_t i;

    (void)state;
    for (i = 0; i < ARRAY_LEN(rows); i++) {
        check_formula(rows[i].name, rows[i].create, rows[i].formula,
                      BELL_FLOAT64, 1e-12);
        check_formula(rows[i].name, rows[i].create, rows[i].formula,
                      BELL_FLOAT32, 1e-5);
        check_formula(rows[i].name, rows[i].create, rows[i].formula,
                      BELL_BFLOAT16, 0.15);
    }
}

/* Every step's graph has the same nodes but for its leaves. */
static void
test_same_graph(void **state)
{
    struct bell_tensor *p = bell_requires_grad(T(V(1, 2), 2), true), *loss;
    struct bell_context_info info = {.struct_size = sizeof(info)};
    size_t grown[4], before;
    struct bell_optimizer *opt;
    int i;

    (void)state;
    assert_int_equal(adam_create(&p, 1, &opt), BELL_OK);
    for (i = 0; i < 4; i++) {
        bell_context_get_info(ctx, &info);
        before = info.n_graph_nodes;
        assert_int_equal(bell_scope_begin(ctx), BELL_OK);
        loss = bell_sum(bell_square(p), BELL_NO_DIMS, false);
        bell_optimizer_zero_grad(opt);
        assert_int_equal(bell_backward(loss), BELL_OK);
        assert_int_equal(bell_optimizer_step(opt, &loss, 1), BELL_OK);
        assert_int_equal(bell_scope_end(ctx), BELL_OK);
        bell_context_get_info(ctx, &info);
        grown[i] = info.n_graph_nodes - before;
    }
    /* Constants were made in the first step. */
    assert_int_equal(grown[1], grown[2]);
    assert_int_equal(grown[2], grown[3]);
    bell_optimizer_destroy(opt);
}

static void
test_optimizer_errors(void **state)
{
    struct bell_tensor *p = bell_requires_grad(T(V(1, 2), 2), true), *loss;
    struct bell_tensor *i = I(V(1), 1);
    struct bell_optimizer *opt;
    double values[2];

    (void)state;
    EXPECT_STATUS(bell_sgd_create(NULL, 0,
                                  &BELL_OPTIONS(bell_sgd_options, .lr = 0.1),
                                  &opt),
                  "bell_sgd_create: no parameters");
    EXPECT_STATUS(
        bell_sgd_create(&p, 1, &BELL_OPTIONS(bell_sgd_options, .lr = -1), &opt),
        "bell_sgd_create: lr is -1; expected 0 or more, and less than inf");
    EXPECT_STATUS(bell_sgd_create(&p, 1,
                                  &BELL_OPTIONS(bell_sgd_options, .lr = 1,
                                                .nesterov = true),
                                  &opt),
                  "bell_sgd_create: nesterov with momentum 0 and dampening 0; "
                  "it needs a momentum, and a dampening of 0");
    EXPECT_STATUS(
        bell_adam_create(&p, 1, &BELL_OPTIONS(bell_adam_options, .beta1 = 1.5),
                         &opt),
        "bell_adam_create: beta1 is 1.5; expected 0 or more, and less than 1");
    EXPECT_STATUS(
        bell_rmsprop_create(&i, 1, &BELL_OPTIONS(bell_rmsprop_options, .lr = 0),
                            &opt),
        "bell_rmsprop_create: parameter 0 is int64; a float dtype is "
        "needed");
    /* A step that fails moves nothing, and the next one does. */
    assert_int_equal(adam_create(&p, 1, &opt), BELL_OK);
    loss = bell_sum(bell_square(p), BELL_NO_DIMS, false);
    assert_int_equal(bell_backward(loss), BELL_OK);
    host_memory_left = false;
    EXPECT_STATUS(bell_optimizer_step(opt, &loss, 1),
                  "bell_optimizer_step: no room for 56 bytes");
    host_memory_left = true;
    EXPECT(p, 1, 2);
    host_fail_after(12, 0);
    assert_int_equal(bell_optimizer_step(opt, &loss, 1), BELL_E_NO_MEMORY);
    host_fail_after(0, 0);
    EXPECT(p, 1, 2);
    assert_int_equal(bell_optimizer_step(opt, &loss, 1), BELL_OK);
    assert_int_equal(bell_read_f64(p, values, 2), BELL_OK);
    assert_true(values[0] < 1 && values[1] < 2);
    bell_optimizer_destroy(opt);
    bell_optimizer_destroy(NULL);
}

int
main(void)
{
#define TEST(name)                                                             \
    cmocka_unit_test_setup_teardown(name, make_context, end_context)
    const struct CMUnitTest tests[] = {
        TEST(test_linear),     TEST(test_other_layers),
        TEST(test_batch_norm), TEST(test_formulas),
        TEST(test_same_graph), TEST(test_optimizer_errors),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
