/* Gradients: of marked tensors, of any tensors, and of a gradient itself. */
#include <doorbell/tensor.h>
#include <stdio.h>

/* Prints a tensor of at most eight elements. */
static void
show(const char *name, struct bell_tensor *t)
{
    double values[8] = {0};
    size_t n = (size_t)bell_numel(t);

    if (bell_read_f64(t, values, n) != BELL_OK)
        return;
    printf("%-8s", name);
    for (size_t i = 0; i < n; i++)
        printf(" %6.3f", values[i]);
    printf("\n");
}

/* bell_backward adds to the gradient of every marked tensor. */
static bell_status
by_backward(struct bell_context *ctx)
{
    const float numbers[] = {1, 2, 3};
    struct bell_tensor *w =
        bell_from_data(ctx, BELL_DIMS(3), BELL_FLOAT32, numbers);
    struct bell_tensor *loss;
    bell_status status;

    bell_requires_grad(w, true);
    loss = bell_sum(bell_square(w), BELL_NO_DIMS, false);
    status = bell_backward(loss);
    if (status == BELL_OK)
        show("2 w", bell_grad(w));
    if (status == BELL_OK) /* gradients add up until bell_zero_grad */
        status = bell_backward(bell_sum(w, BELL_NO_DIMS, false));
    if (status == BELL_OK)
        show("2 w + 1", bell_grad(w));
    bell_zero_grad(w);
    return status;
}

/* bell_gradient gives gradients as tensors, which can be differentiated. */
static bell_status
of_gradients(struct bell_context *ctx)
{
    struct bell_tensor *x = bell_linspace(ctx, 0, 1, 3, BELL_FLOAT64);
    struct bell_tensor *y = bell_sum(bell_sin(x), BELL_NO_DIMS, false);
    struct bell_tensor *first, *second;
    bell_status status = bell_gradient(y, &x, 1, &first);

    if (status == BELL_OK)
        status =
            bell_gradient(bell_sum(first, BELL_NO_DIMS, false), &x, 1, &second);
    if (status != BELL_OK)
        return status;
    show("cos x", first);
    show("-sin x", second);
    return BELL_OK;
}

int
main(void)
{
    struct bell_context *ctx = NULL;
    bell_status status = bell_context_create(NULL, &ctx);

    if (status == BELL_OK)
        status = by_backward(ctx);
    if (status == BELL_OK)
        status = of_gradients(ctx);
    if (status == BELL_OK)
        status = bell_context_status(ctx);
    if (status != BELL_OK)
        fprintf(stderr, "%s\n", bell_error_last()->message);
    bell_context_destroy(ctx);
    return bell_status_exit_code(status);
}
