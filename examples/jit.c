/* Learns to tell two bits apart (exclusive or), each step of training one call
 * of a jit: forward, backward and Adam, found once and replayed. */
#include <doorbell/jit.h>
#include <doorbell/nn.h>
#include <doorbell/tensor.h>
#include <stdio.h>

struct net {
    struct bell_nn_linear hidden, last;
    struct bell_optimizer *opt;
};

static bell_status
predict(struct bell_context *ctx, void *user, struct bell_tensor *const *in,
        struct bell_tensor **out)
{
    struct net *net = user;

    (void)ctx;
    out[0] = bell_sigmoid(bell_nn_linear(
        &net->last, bell_tanh(bell_nn_linear(&net->hidden, in[0]))));
    return BELL_OK;
}

/* What it changes, the parameters and Adam's own tensors, is found. */
static bell_status
train(struct bell_context *ctx, void *user, struct bell_tensor *const *in,
      struct bell_tensor **out)
{
    struct net *net = user;
    bell_status status = predict(ctx, user, in, out);

    out[0] = bell_mse_loss(out[0], in[1], BELL_MEAN);
    bell_optimizer_zero_grad(net->opt);
    if (status == BELL_OK)
        status = bell_backward(out[0]);
    return status == BELL_OK ? bell_optimizer_step(net->opt, out, 1) : status;
}

static bell_status
make_net(struct bell_context *ctx, struct net *net)
{
    const struct bell_adam_options options = {.struct_size = sizeof(options),
                                              .lr = 0.05};
    bell_status status;

    bell_manual_seed(ctx, 1);
    status = bell_nn_linear_init(ctx, 2, 8, true, &net->hidden);
    if (status == BELL_OK)
        status = bell_nn_linear_init(ctx, 8, 1, true, &net->last);
    if (status == BELL_OK)
        status =
            bell_adam_create(BELL_TENSORS(net->hidden.weight, net->hidden.bias,
                                          net->last.weight, net->last.bias),
                             &options, &net->opt);
    return status;
}

static bell_status
run(struct bell_context *ctx, struct net *net)
{
    static const float bits[4][2] = {{0, 0}, {0, 1}, {1, 0}, {1, 1}};
    static const float want[4] = {0, 1, 1, 0};
    struct bell_jit_desc step = {sizeof(step), "train", train, net, 2, 1};
    struct bell_jit_desc guess = {sizeof(guess), "predict", predict, net, 1, 1};
    struct bell_jit *train_jit = NULL, *predict_jit = NULL;
    struct bell_tensor *in[2], *out;
    float answers[4];

    in[0] = bell_from_data(ctx, BELL_DIMS(4, 2), BELL_FLOAT32, bits);
    in[1] = bell_from_data(ctx, BELL_DIMS(4, 1), BELL_FLOAT32, want);
    bell_status status = bell_jit_create(ctx, &step, &train_jit);
    if (status == BELL_OK)
        status = bell_jit_create(ctx, &guess, &predict_jit);
    for (int i = 0; i < 400 && status == BELL_OK; i++) {
        status = bell_jit_call(train_jit, in, &out);
        if (status == BELL_OK)
            bell_tensor_release(out);
    }
    if (status == BELL_OK)
        status = bell_jit_call(predict_jit, in, &out);
    if (status == BELL_OK)
        status = bell_read(out, answers, sizeof(answers));
    for (int i = 0; i < 4 && status == BELL_OK; i++)
        printf("%.0f xor %.0f = %.0f\n", bits[i][0], bits[i][1], answers[i]);
    bell_jit_destroy(train_jit);
    bell_jit_destroy(predict_jit);
    return status;
}

int
main(void)
{
    struct bell_context *ctx = NULL;
    struct net net = {0};
    bell_status status = bell_context_create(NULL, &ctx);

    if (status == BELL_OK)
        status = make_net(ctx, &net);
    if (status == BELL_OK)
        status = run(ctx, &net);
    if (status != BELL_OK)
        fprintf(stderr, "%s\n", bell_error_last()->message);
    bell_optimizer_destroy(net.opt);
    bell_context_destroy(ctx);
    return bell_status_exit_code(status);
}
