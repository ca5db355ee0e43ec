/* Learns y = 2x + 1 from examples, by gradient descent. */
#include <doorbell/tensor.h>
#include <stdio.h>

static bell_status
train(struct bell_context *ctx, struct bell_tensor *x, struct bell_tensor *y,
      struct bell_tensor *line[2])
{
    struct bell_tensor *guess = bell_add(bell_mul(line[0], x), line[1]);
    struct bell_tensor *loss = bell_mse_loss(guess, y, BELL_MEAN), *grad[2];
    bell_status status = bell_gradient(loss, line, 2, grad);

    for (int i = 0; i < 2 && status == BELL_OK; i++)
        bell_assign(
            line[i],
            bell_sub(line[i], bell_mul(grad[i], bell_scalar(ctx, 0.5))));
    return status == BELL_OK ? bell_realize(line, 2) : status;
}

int
main(void)
{
    struct bell_context *ctx = NULL;
    bell_status status = bell_context_create(NULL, &ctx);
    double slope = 0, offset = 0;

    if (status == BELL_OK) {
        struct bell_tensor *x = bell_linspace(ctx, -1, 1, 64, BELL_FLOAT32);
        struct bell_tensor *y =
            bell_add(bell_mul(x, bell_scalar(ctx, 2)), bell_scalar(ctx, 1));
        struct bell_tensor *line[2];

        for (int i = 0; i < 2; i++)
            line[i] = bell_requires_grad(
                bell_zeros(ctx, BELL_NO_DIMS, BELL_FLOAT32), true);

        for (int step = 0; step < 50 && status == BELL_OK; step++)
            status = train(ctx, x, y, line);
        if (status == BELL_OK)
            status = bell_item_f64(line[0], &slope);
        if (status == BELL_OK)
            status = bell_item_f64(line[1], &offset);
        if (status == BELL_OK)
            printf("%s: y = %.2fx + %.2f\n", bell_context_device(ctx), slope,
                   offset);
    }
    if (status != BELL_OK)
        fprintf(stderr, "%s\n", bell_error_last()->message);
    bell_context_destroy(ctx);
    return bell_status_exit_code(status);
}
