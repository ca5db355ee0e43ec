/* Learns the sine, and saves what it has learned as a bundle for each of the
 * devices that are named: bundle.c runs it, without a compiler. */
#include <doorbell/jit.h>
#include <doorbell/module.h>
#include <doorbell/nn.h>
#include <doorbell/tensor.h>
#include <stdio.h>
#include <stdlib.h>

#define BATCH 64

struct net {
    struct bell_nn_linear first, second, last;
    struct bell_optimizer *opt;
};

/* What the weights are called: "first.weight", "first.bias".. */
static const struct bell_module_field net_fields[] = {
    BELL_CHILD(struct net, first, &bell_nn_linear_type),
    BELL_CHILD(struct net, second, &bell_nn_linear_type),
    BELL_CHILD(struct net, last, &bell_nn_linear_type),
};
static const struct bell_module_type net_type =
    BELL_MODULE_TYPE(struct net, net_fields);

/* x[n, 1] to its sine. */
static struct bell_tensor *
sine(const struct net *net, struct bell_tensor *x)
{
    x = bell_tanh(bell_nn_linear(&net->first, x));
    x = bell_tanh(bell_nn_linear(&net->second, x));
    return bell_nn_linear(&net->last, x);
}

static bell_status
predict(struct bell_context *ctx, void *user, struct bell_tensor *const *in,
        struct bell_tensor **out)
{
    (void)ctx;
    out[0] = sine(user, in[0]);
    return BELL_OK;
}

/* A step on points that the device draws, from -pi to pi. */
static bell_status
train(struct bell_context *ctx, void *user, struct bell_tensor *const *in,
      struct bell_tensor **out)
{
    struct net *net = user;
    struct bell_tensor *x;

    (void)in;
    x = bell_mul_scalar(bell_rand(ctx, BELL_DIMS(BATCH, 1), BELL_FLOAT32),
                        6.28318531);
    x = bell_add_scalar(x, -3.14159265);
    out[0] = bell_mse_loss(sine(net, x), bell_sin(x), BELL_MEAN);
    bell_optimizer_zero_grad(net->opt);
    if (bell_backward(out[0]) != BELL_OK)
        return bell_error_last()->status;
    return bell_optimizer_step(net->opt, out, 1);
}

static bell_status
make_net(struct bell_context *ctx, struct net *net)
{
    const struct bell_adam_options options = {.struct_size = sizeof(options),
                                              .lr = 0.01};
    bell_status status;

    bell_manual_seed(ctx, 1);
    status = bell_nn_linear_init(ctx, 1, 32, true, &net->first);
    if (status == BELL_OK)
        status = bell_nn_linear_init(ctx, 32, 32, true, &net->second);
    if (status == BELL_OK)
        status = bell_nn_linear_init(ctx, 32, 1, true, &net->last);
    if (status == BELL_OK)
        status = bell_adam_create(
            BELL_TENSORS(net->first.weight, net->first.bias, net->second.weight,
                         net->second.bias, net->last.weight, net->last.bias),
            &options, &net->opt);
    return status;
}

static bell_status
learn(struct bell_context *ctx, struct net *net)
{
    const struct bell_jit_desc desc = {sizeof(desc), "train", train, net, 0, 1};
    struct bell_jit *jit;
    struct bell_tensor *loss;
    bell_status status = bell_jit_create(ctx, &desc, &jit);

    for (int i = 0; i < 1000 && status == BELL_OK; i++) {
        status = bell_jit_call(jit, NULL, &loss);
        if (status == BELL_OK)
            bell_tensor_release(loss);
    }
    bell_jit_destroy(jit);
    return status;
}

/* The bundle has an input x[16, 1] and an output y[16, 1]; the parameters are
 * its weights. */
static bell_status
save(struct bell_context *ctx, struct net *net, const char *path,
     const char *const *targets, uint32_t n_targets)
{
    static const char *const in_name = "x", *const out_name = "y";
    const struct bell_jit_desc desc = {sizeof(desc), "sine", predict,
                                       net,          1,      1};
    struct bell_state names = {0};
    struct bell_jit_save_desc file = {
        .struct_size = sizeof(file),
        .targets = targets,
        .n_targets = n_targets,
        .in_names = &in_name,
        .out_names = &out_name,
        .state = &names,
    };
    struct bell_tensor *x = bell_zeros(ctx, BELL_DIMS(16, 1), BELL_FLOAT32);
    struct bell_jit *jit;
    bell_status status = bell_jit_create(ctx, &desc, &jit);

    if (status == BELL_OK)
        status = bell_module_state(&net_type, net, NULL, &names);
    if (status == BELL_OK)
        status = bell_jit_save(jit, &x, &file, path);
    bell_state_fini(&names);
    bell_jit_destroy(jit);
    return status;
}

int
main(int argc, char **argv)
{
    struct bell_context *ctx = NULL;
    struct net net = {0};
    bell_status status;

    if (argc < 3) {
        fprintf(stderr, "usage: bundle_save FILE TARGET..\n");
        return EXIT_FAILURE;
    }
    status = bell_context_create(NULL, &ctx);
    if (status == BELL_OK)
        status = make_net(ctx, &net);
    if (status == BELL_OK)
        status = learn(ctx, &net);
    if (status == BELL_OK)
        status = save(ctx, &net, argv[1], (const char *const *)argv + 2,
                      (uint32_t)argc - 2);
    if (status != BELL_OK)
        fprintf(stderr, "%s\n", bell_error_last()->message);
    bell_optimizer_destroy(net.opt);
    bell_context_destroy(ctx);
    return bell_status_exit_code(status);
}
