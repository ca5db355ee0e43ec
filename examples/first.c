/* A first program: a layer's output, from tensors to numbers. */
#include <doorbell/tensor.h>
#include <stdio.h>

int
main(void)
{
    struct bell_context *ctx;
    float p[3] = {0};

    if (bell_context_create(NULL, &ctx) == BELL_OK) {
        struct bell_tensor *x = bell_linspace(ctx, 0, 1, 4, BELL_FLOAT32);
        struct bell_tensor *w = bell_ones(ctx, BELL_DIMS(4, 3), BELL_FLOAT32);
        struct bell_tensor *b = bell_arange(ctx, 0, 3, 1, BELL_FLOAT32);
        struct bell_tensor *y = bell_add(bell_matmul(x, w), b);

        if (bell_read(bell_softmax(y, -1), p, sizeof(p)) == BELL_OK)
            printf("%s: %.4f %.4f %.4f\n", bell_context_device(ctx), p[0], p[1],
                   p[2]);
        bell_context_destroy(ctx);
    }
    if (bell_error_last()->status != BELL_OK)
        fprintf(stderr, "%s\n", bell_error_last()->message);
    return bell_status_exit_code(bell_error_last()->status);
}
