/* One layer of a network, relu(x @ w + b): the program that
 * docs/explanation/architecture.md follows through the house. */
#include <doorbell/tensor.h>
#include <stdio.h>

static float x[512][784], w[784][512], b[512], y[512][512];

int
main(void)
{
    struct bell_context *ctx = NULL;
    bell_status status = bell_context_create(NULL, &ctx);

    for (int i = 0; i < 512; i++) {
        for (int j = 0; j < 784; j++)
            x[i][j] = w[j][i] = (float)(i + j) / 1024;
        b[i] = (float)i;
    }
    if (status == BELL_OK) {
        struct bell_tensor *layer = bell_relu(bell_add(
            bell_matmul(
                bell_from_data(ctx, BELL_DIMS(512, 784), BELL_FLOAT32, x),
                bell_from_data(ctx, BELL_DIMS(784, 512), BELL_FLOAT32, w)),
            bell_from_data(ctx, BELL_DIMS(512), BELL_FLOAT32, b)));

        status = bell_read(layer, y, sizeof(y));
    }
    if (status == BELL_OK)
        printf("%s: %.2f %.2f\n", bell_context_device(ctx), y[0][0],
               y[511][511]);
    else
        fprintf(stderr, "%s\n", bell_error_last()->message);
    bell_context_destroy(ctx);
    return bell_status_exit_code(status);
}
