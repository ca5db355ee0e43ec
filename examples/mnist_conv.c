/* A conv net learns MNIST's digits, nine tenths of two files that are not
 * compressed, and is tested on the rest. usage: mnist_conv IMAGES LABELS
 * STEPS */
#include <doorbell/jit.h>
#include <doorbell/nn.h>
#include <stdio.h>
#include <stdlib.h>

enum {
    BATCH = 100,
    PIXELS = 28 * 28,
    MAX_IMAGES = 70000
};

struct net {
    struct bell_nn_conv conv1, conv2;
    struct bell_nn_linear fc1, fc2;
    struct bell_optimizer *opt;
    struct bell_tensor *x, *y; /* what it learns */
};
static const struct bell_module_field net_fields[] = {
    BELL_CHILD(struct net, conv1, &bell_nn_conv_type),
    BELL_CHILD(struct net, conv2, &bell_nn_conv_type),
    BELL_CHILD(struct net, fc1, &bell_nn_linear_type),
    BELL_CHILD(struct net, fc2, &bell_nn_linear_type),
};
static const struct bell_module_type net_type =
    BELL_MODULE_TYPE(struct net, net_fields);

static bell_status
init_net(struct bell_context *ctx, struct net *net, int64_t n_steps)
{
    const struct bell_schedule schedule = {.struct_size = sizeof(schedule),
                                           .kind = BELL_SCHEDULE_ONE_CYCLE,
                                           .n_steps = n_steps};
    const struct bell_adam_options adam = {.struct_size = sizeof(adam),
                                           .lr = 0.003};
    struct bell_params params = {0};
    bell_status status;

    bell_manual_seed(ctx, 1);
    if (bell_nn_conv2d_init(ctx, 1, 16, 5, 5, NULL, true, &net->conv1) ||
        bell_nn_conv2d_init(ctx, 16, 32, 5, 5, NULL, true, &net->conv2) ||
        bell_nn_linear_init(ctx, 32 * 16, 128, true, &net->fc1) ||
        bell_nn_linear_init(ctx, 128, 10, true, &net->fc2) ||
        bell_params_add_module(&params, &net_type, net))
        return bell_error_last()->status;
    status = bell_adamw_create(params.tensors, params.n, &adam, &net->opt);
    bell_params_fini(&params);
    return status ? status : bell_optimizer_set_schedule(net->opt, &schedule);
}

/* Bytes [n, 1, 28, 28] to the classes' scores. */
static struct bell_tensor *
run_net(const struct net *net, struct bell_tensor *x)
{
    const struct bell_pool_options two = {.struct_size = sizeof(two),
                                          .kernel = {2, 2}};

    x = bell_div_scalar(bell_cast(x, BELL_FLOAT32), 255);
    x = bell_max_pool2d(bell_relu(bell_nn_conv2d(&net->conv1, x)), &two);
    x = bell_max_pool2d(bell_relu(bell_nn_conv2d(&net->conv2, x)), &two);
    x = bell_dropout(bell_flatten(x, 1, -1), 0.3);
    return bell_nn_linear(&net->fc2, bell_relu(bell_nn_linear(&net->fc1, x)));
}

/* A step with images by chance. It is captured once. */
static bell_status
step(struct bell_context *ctx, void *user, struct bell_tensor *const *in,
     struct bell_tensor **out)
{
    struct net *net = user;
    int64_t n = bell_size(net->x, 0);
    struct bell_tensor *some =
        bell_randint(ctx, 0, n, BELL_DIMS(BATCH), BELL_INT64);
    struct bell_tensor *x = bell_index_select(net->x, 0, some);
    bell_status status;

    (void)in;
    out[0] =
        bell_cross_entropy(run_net(net, x), bell_index_select(net->y, 0, some),
                           0, BELL_IGNORE_NONE, BELL_MEAN);
    bell_optimizer_zero_grad(net->opt);
    status = bell_backward(out[0]);
    return status ? status : bell_optimizer_step(net->opt, out, 1);
}

static bell_status
run(struct bell_context *ctx, struct bell_tensor *x, struct bell_tensor *y,
    int64_t n_steps)
{
    int64_t n = bell_size(x, 0), n_train = n / 10 * 9, n_test = n - n_train;
    struct net net = {.x = bell_contiguous(bell_narrow(x, 0, 0, n_train)),
                      .y = bell_contiguous(bell_narrow(y, 0, 0, n_train))};
    const struct bell_jit_desc desc = {sizeof(desc), "step", step, &net, 0, 1};
    struct bell_jit *jit = NULL;
    struct bell_tensor *loss;
    double right = 0;
    bell_status status = init_net(ctx, &net, n_steps);

    status = status ? status : bell_jit_create(ctx, &desc, &jit);
    bell_set_training(ctx, true);
    for (int64_t i = 0; i < n_steps && !status; i++) {
        status = bell_jit_call(jit, NULL, &loss);
        bell_tensor_release(loss);
    }
    bell_set_training(ctx, false);
    x = run_net(&net, bell_narrow(x, 0, n_train, n_test));
    x = bell_eq(bell_argmax(x, 1, false), bell_narrow(y, 0, n_train, n_test));
    x = bell_mean(bell_cast(x, BELL_FLOAT32), BELL_NO_DIMS, false);
    status = status ? status : bell_item_f64(x, &right);
    printf("%.4f right\n", right);
    bell_jit_destroy(jit);
    bell_optimizer_destroy(net.opt);
    return status;
}

/* The bytes of a file after its header. */
static size_t
read_bytes(const char *path, size_t header, uint8_t *out, size_t room)
{
    FILE *file = fopen(path, "rb");
    size_t n = file ? fread(out, 1, header, file) : 0;

    n = n == header ? fread(out, 1, room, file) : 0;
    if (file)
        fclose(file);
    return n;
}

int
main(int argc, char **argv)
{
    static uint8_t images[MAX_IMAGES * PIXELS], labels[MAX_IMAGES];
    struct bell_context *ctx = NULL;
    struct bell_tensor *x, *y;
    int64_t n = 0;

    if (argc == 4)
        n = (int64_t)read_bytes(argv[2], 8, labels, sizeof(labels));
    if (n < 10 * BATCH ||
        read_bytes(argv[1], 16, images, sizeof(images)) != (size_t)n * PIXELS)
        return fprintf(stderr, "mnist_conv IMAGES LABELS STEPS\n"), 2;
    if (bell_context_create(NULL, &ctx) == BELL_OK) {
        x = bell_from_data(ctx, BELL_DIMS(n, 1, 28, 28), BELL_UINT8, images);
        y = bell_from_data(ctx, BELL_DIMS(n), BELL_UINT8, labels);
        (void)run(ctx, x, y, atoi(argv[3]));
    }
    if (bell_error_last()->status)
        fprintf(stderr, "%s\n", bell_error_last()->message);
    bell_context_destroy(ctx);
    return bell_status_exit_code(bell_error_last()->status);
}
