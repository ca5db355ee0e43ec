/* A network trained with the layers and optimisers, as a user would: it
 * learns, and every step is the same graph. */
#include "doorbell/nn.h"
#include "tests/unit/tensor_host.h"

#define N_POINTS 64

struct net {
    struct bell_nn_conv conv;
    struct bell_nn_batch_norm norm;
    struct bell_nn_linear hidden, last;
    struct bell_params params;
};

static void
make_net(struct net *net)
{
    static const struct bell_conv_options opt = {
        .struct_size = sizeof(opt), .stride = {2, 2}, .padding = {1, 1}};

    memset(net, 0, sizeof(*net));
    assert_int_equal(
        bell_nn_conv2d_init(ctx, 1, 4, 3, 3, &opt, true, &net->conv), BELL_OK);
    assert_int_equal(bell_nn_batch_norm_init(ctx, 4, &net->norm), BELL_OK);
    assert_int_equal(bell_nn_linear_init(ctx, 16, 24, true, &net->hidden),
                     BELL_OK);
    assert_int_equal(bell_nn_linear_init(ctx, 24, 2, true, &net->last),
                     BELL_OK);
    assert_int_equal(
        bell_params_add_module(&net->params, &bell_nn_conv_type, &net->conv),
        BELL_OK);
    assert_int_equal(bell_params_add_module(
                         &net->params, &bell_nn_batch_norm_type, &net->norm),
                     BELL_OK);
    assert_int_equal(bell_params_add_module(&net->params, &bell_nn_linear_type,
                                            &net->hidden),
                     BELL_OK);
    assert_int_equal(
        bell_params_add_module(&net->params, &bell_nn_linear_type, &net->last),
        BELL_OK);
}

static void
free_net(struct net *net)
{
    bell_params_fini(&net->params);
    bell_module_fini(&bell_nn_conv_type, &net->conv);
    bell_module_fini(&bell_nn_batch_norm_type, &net->norm);
    bell_module_fini(&bell_nn_linear_type, &net->hidden);
    bell_module_fini(&bell_nn_linear_type, &net->last);
}

static struct bell_tensor *
forward(struct net *net, struct bell_tensor *x)
{
    x = bell_relu(
        bell_nn_batch_norm(&net->norm, bell_nn_conv2d(&net->conv, x)));
    x = bell_flatten(x, 1, -1);
    x = bell_dropout(bell_relu(bell_nn_linear(&net->hidden, x)), 0.1);
    return bell_nn_linear(&net->last, x);
}

/* Images of 4x4 noise; the class tells whether their left half is brighter. */
static void
make_data(float *images, int32_t *labels)
{
    uint32_t seed = 1;
    int i, k;

    for (i = 0; i < N_POINTS; i++) {
        float sum = 0;
        for (k = 0; k < 16; k++) {
            seed = seed * 1664525 + 1013904223;
            images[i * 16 + k] = (float)(seed >> 8) / (1 << 24) - 0.5f;
            sum += k % 4 < 2 ? images[i * 16 + k] : -images[i * 16 + k];
        }
        labels[i] = sum > 0;
    }
}

static double
train_step(struct net *net, struct bell_optimizer *opt, const float *images,
           const int32_t *labels)
{
    struct bell_tensor *x, *y, *loss;
    double value;

    assert_int_equal(bell_scope_begin(ctx), BELL_OK);
    x = bell_from_data(ctx, BELL_DIMS(N_POINTS, 1, 4, 4), BELL_FLOAT32, images);
    y = bell_from_data(ctx, BELL_DIMS(N_POINTS), BELL_INT32, labels);
    loss =
        bell_cross_entropy(forward(net, x), y, 0, BELL_IGNORE_NONE, BELL_MEAN);
    bell_optimizer_zero_grad(opt);
    if (bell_backward(loss) != BELL_OK ||
        bell_optimizer_step(opt, &loss, 1) != BELL_OK ||
        bell_item_f64(loss, &value) != BELL_OK) {
        print_error("%s\n", bell_error_last()->message);
        fail();
    }
    assert_int_equal(bell_scope_end(ctx), BELL_OK);
    return value;
}

static double
accuracy(struct net *net, const float *images, const int32_t *labels)
{
    struct bell_tensor *x, *y, *right;
    double value;

    assert_int_equal(bell_scope_begin(ctx), BELL_OK);
    x = bell_from_data(ctx, BELL_DIMS(N_POINTS, 1, 4, 4), BELL_FLOAT32, images);
    y = bell_from_data(ctx, BELL_DIMS(N_POINTS), BELL_INT32, labels);
    right = bell_eq(bell_argmax(forward(net, x), 1, false), y);
    right = bell_mean(bell_cast(right, BELL_FLOAT32), BELL_NO_DIMS, false);
    assert_int_equal(bell_item_f64(right, &value), BELL_OK);
    assert_int_equal(bell_scope_end(ctx), BELL_OK);
    return value;
}

static void
test_training(void **state)
{
    enum {
        STEPS = 60
    };
    static float images[N_POINTS * 16];
    static int32_t labels[N_POINTS];
    struct bell_context_info info = {.struct_size = sizeof(info)};
    struct bell_optimizer *opt;
    double first = 0, last = 0;
    struct net net;
    int i;

    (void)state;
    make_data(images, labels);
    bell_manual_seed(ctx, 3);
    make_net(&net);
    assert_int_equal(
        bell_adam_create(net.params.tensors, net.params.n,
                         &BELL_OPTIONS(bell_adam_options, .lr = 0.02), &opt),
        BELL_OK);
    bell_set_training(ctx, true);
    for (i = 0; i < STEPS; i++) {
        last = train_step(&net, opt, images, labels);
        first = i ? first : last;
    }
    bell_context_get_info(ctx, &info);
    bell_set_training(ctx, false);
    assert_true(first > 0.5 && last < 0.25);
    assert_true(accuracy(&net, images, labels) > 0.95);
    /* Handles do not pile up, and dead buffers go as they come. */
    assert_in_range(info.n_tensors, 1, 60);
    assert_in_range(info.n_buffers, 1, 400);
    bell_optimizer_destroy(opt);
    free_net(&net);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_training, make_context,
                                        end_context),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
