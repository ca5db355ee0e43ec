/* Two steps of training a small classifier, for recording and replaying:
 * matrix products, a reduction, gradients, an optimizer's states.
 *
 * usage: train_step DEVICE [HIDDEN]     HIDDEN: units of the layer within, 16
 */
#include <doorbell/nn.h>
#include <doorbell/ops.h>
#include <doorbell/tensor.h>
#include <stdio.h>
#include <stdlib.h>

enum {
    ROWS = 24,
    IN = 12,
    CLASSES = 5,
    STEPS = 2
};

static bell_status
train(struct bell_context *ctx, int64_t hidden, double *out_loss)
{
    static const struct bell_adam_options options = {
        .struct_size = sizeof(options), .lr = 0.05};
    struct bell_tensor *x = bell_randn(ctx, BELL_DIMS(ROWS, IN), BELL_FLOAT32);
    struct bell_tensor *y =
        bell_randint(ctx, 0, CLASSES, BELL_DIMS(ROWS), BELL_INT32);
    struct bell_tensor *w[2] = {
        bell_requires_grad(bell_randn(ctx, BELL_DIMS(IN, hidden), BELL_FLOAT32),
                           true),
        bell_requires_grad(
            bell_randn(ctx, BELL_DIMS(hidden, CLASSES), BELL_FLOAT32), true)};
    struct bell_optimizer *opt = NULL;
    bell_status status = bell_adam_create(w, 2, &options, &opt);

    for (int step = 0; step < STEPS && status == BELL_OK; step++) {
        struct bell_tensor *loss = bell_cross_entropy(
            bell_matmul(bell_relu(bell_matmul(x, w[0])), w[1]), y, 0,
            BELL_IGNORE_NONE, BELL_MEAN);
        bell_optimizer_zero_grad(opt);
        status = bell_backward(loss);
        if (status == BELL_OK)
            status = bell_optimizer_step(opt, &loss, 1);
        if (status == BELL_OK)
            status = bell_item_f64(loss, out_loss);
    }
    bell_optimizer_destroy(opt);
    return status;
}

int
main(int argc, char **argv)
{
    struct bell_context *ctx = NULL;
    bell_status status = bell_context_create(argc > 1 ? argv[1] : NULL, &ctx);
    double loss = 0;

    if (status == BELL_OK) {
        bell_manual_seed(ctx, 1);
        status = train(ctx, argc > 2 ? atoi(argv[2]) : 16, &loss);
    }
    if (status == BELL_OK)
        printf("loss %.6f\n", loss);
    else
        fprintf(stderr, "%s\n", bell_error_last()->message);
    bell_context_destroy(ctx);
    return bell_status_exit_code(status);
}
