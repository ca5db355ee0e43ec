/* Fits a small network to a sine on several devices: each has a part of the
 * batch, and the parameters are whole on all. The same program runs on one
 * device, and on others: example_mesh NV:0,NV:1 */
#include <doorbell/mesh.h>
#include <doorbell/nn.h>
#include <doorbell/optim.h>
#include <doorbell/tensor.h>
#include <stdio.h>

#define STEPS 200

static bell_status
make_net(struct bell_context *ctx, struct bell_nn_linear *hidden,
         struct bell_nn_linear *last, struct bell_optimizer **out_opt)
{
    const struct bell_adam_options options = {.struct_size = sizeof(options),
                                              .lr = 0.02};
    bell_status status;

    bell_manual_seed(ctx, 1);
    status = bell_nn_linear_init(ctx, 1, 32, true, hidden);
    if (status == BELL_OK)
        status = bell_nn_linear_init(ctx, 32, 1, true, last);
    if (status == BELL_OK)
        status = bell_adam_create(BELL_TENSORS(hidden->weight, hidden->bias,
                                               last->weight, last->bias),
                                  &options, out_opt);
    return status;
}

static bell_status
train(struct bell_context *ctx)
{
    struct bell_layout layout = {.struct_size = sizeof(layout)};
    struct bell_nn_linear hidden, last;
    struct bell_optimizer *opt;
    struct bell_tensor *x, *y, *loss;
    double value = 0;
    bell_status status = make_net(ctx, &hidden, &last, &opt);
    int i;

    x = bell_reshape(bell_linspace(ctx, -3, 3, 64, BELL_FLOAT32),
                     BELL_DIMS(64, 1));
    x = bell_shard(x, "data", 0);
    y = bell_sin(x);
    if (status == BELL_OK)
        status = bell_realize(BELL_TENSORS(x, y));
    if (status == BELL_OK)
        status = bell_layout_of(x, &layout);
    if (status != BELL_OK)
        return status;
    printf("%u places, %llu of %llu bytes of x on each\n",
           bell_mesh_places(ctx), (unsigned long long)layout.place_bytes,
           (unsigned long long)bell_nbytes(x));
    for (i = 0; i <= STEPS && status == BELL_OK; i++) {
        bell_scope_begin(ctx);
        loss = bell_nn_linear(&last, bell_tanh(bell_nn_linear(&hidden, x)));
        loss = bell_mse_loss(loss, y, BELL_MEAN);
        bell_optimizer_zero_grad(opt);
        status = bell_backward(loss);
        if (status == BELL_OK)
            status = bell_optimizer_step(opt, &loss, 1);
        if (status == BELL_OK)
            status = bell_item_f64(loss, &value);
        if (i % 100 == 0)
            printf("step %d: loss %.3f\n", i, value);
        bell_scope_end(ctx);
    }
    return status;
}

int
main(int argc, char **argv)
{
    const char *devices = argc > 1 ? argv[1] : "CPU:0,CPU:1";
    struct bell_context *ctx;
    bell_status status = bell_context_create(devices, &ctx);

    if (status == BELL_OK) {
        status = train(ctx);
        bell_context_destroy(ctx);
    }
    if (status != BELL_OK)
        fprintf(stderr, "%s\n", bell_error_last()->message);
    return status != BELL_OK;
}
