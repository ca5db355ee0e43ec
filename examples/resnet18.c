/* ResNet-18, its weights by torchvision's names, forward and in training.
 * usage: resnet18 FILE.safetensors, which has "input" and "target", too. */
#include <doorbell/files.h>
#include <doorbell/nn.h>
#include <stdio.h>

struct pair {
    struct bell_nn_conv conv;
    struct bell_nn_batch_norm bn;
};
struct block {
    struct pair first, second, down; /* down may be empty */
};
static const struct bell_module_field block_fields[] = {
    BELL_CHILD_AS("conv1", struct block, first.conv, &bell_nn_conv_type),
    BELL_CHILD_AS("bn1", struct block, first.bn, &bell_nn_batch_norm_type),
    BELL_CHILD_AS("conv2", struct block, second.conv, &bell_nn_conv_type),
    BELL_CHILD_AS("bn2", struct block, second.bn, &bell_nn_batch_norm_type),
    BELL_CHILD_AS("downsample.0", struct block, down.conv, &bell_nn_conv_type),
    BELL_CHILD_AS("downsample.1", struct block, down.bn,
                  &bell_nn_batch_norm_type),
};
static const struct bell_module_type block_type =
    BELL_MODULE_TYPE(struct block, block_fields);

struct resnet {
    struct pair stem;
    struct block layers[4][2];
    struct bell_nn_linear fc;
};
static const struct bell_module_field resnet_fields[] = {
    BELL_CHILD_AS("conv1", struct resnet, stem.conv, &bell_nn_conv_type),
    BELL_CHILD_AS("bn1", struct resnet, stem.bn, &bell_nn_batch_norm_type),
    BELL_CHILDREN_AS("layer1", struct resnet, layers[0], &block_type),
    BELL_CHILDREN_AS("layer2", struct resnet, layers[1], &block_type),
    BELL_CHILDREN_AS("layer3", struct resnet, layers[2], &block_type),
    BELL_CHILDREN_AS("layer4", struct resnet, layers[3], &block_type),
    BELL_CHILD(struct resnet, fc, &bell_nn_linear_type),
};
static const struct bell_module_type resnet_type =
    BELL_MODULE_TYPE(struct resnet, resnet_fields);

static bool
init_pair(struct bell_context *ctx, int64_t in, int64_t out, int64_t k,
          int64_t stride, struct pair *p)
{
    const struct bell_conv_options o = {.struct_size = sizeof(o),
                                        .stride = {stride, stride},
                                        .padding = {k / 2, k / 2}};

    return !bell_nn_conv2d_init(ctx, in, out, k, k, &o, false, &p->conv) &&
           !bell_nn_batch_norm_init(ctx, out, &p->bn);
}

static bool
init_resnet(struct bell_context *ctx, struct resnet *net)
{
    bool ok = init_pair(ctx, 3, 64, 7, 2, &net->stem);

    for (int64_t i = 0, in = 64, out; i < 8 && ok; i++, in = out) {
        struct block *b = &net->layers[i / 2][i % 2];
        int64_t stride = i > 1 && i % 2 == 0 ? 2 : 1;

        out = (int64_t)64 << i / 2;
        ok = init_pair(ctx, in, out, 3, stride, &b->first) &&
             init_pair(ctx, out, out, 3, 1, &b->second) &&
             (stride == 1 || init_pair(ctx, in, out, 1, stride, &b->down));
    }
    return ok && bell_nn_linear_init(ctx, 512, 10, true, &net->fc) == BELL_OK;
}

static struct bell_tensor *
run_pair(const struct pair *p, struct bell_tensor *x)
{
    return bell_nn_batch_norm(&p->bn, bell_nn_conv2d(&p->conv, x));
}

static struct bell_tensor *
run_resnet(const struct resnet *net, struct bell_tensor *x)
{
    const struct bell_pool_options pool = {.struct_size = sizeof(pool),
                                           .kernel = {3, 3},
                                           .stride = {2, 2},
                                           .padding = {1, 1}};

    x = bell_max_pool2d(bell_relu(run_pair(&net->stem, x)), &pool);
    for (int i = 0; i < 8; i++) {
        const struct block *b = &net->layers[i / 2][i % 2];
        struct bell_tensor *y = bell_relu(run_pair(&b->first, x));

        x = b->down.conv.weight ? run_pair(&b->down, x) : x;
        x = bell_relu(bell_add(run_pair(&b->second, y), x));
    }
    return bell_nn_linear(&net->fc, bell_mean(x, BELL_DIMS(2, 3), false));
}

static void
show(const char *name, struct bell_tensor *t)
{
    double norm;

    if (!bell_item_f64(bell_norm(t, 2, BELL_NO_DIMS, false), &norm))
        printf("%s %.7g\n", name, norm);
}

static bell_status
train(struct bell_context *ctx, struct bell_file *file, struct resnet *net,
      const struct bell_state *state, struct bell_optimizer *opt)
{
    struct bell_tensor *x = bell_file_tensor(ctx, file, "input");
    struct bell_tensor *target = bell_file_tensor(ctx, file, "target"), *loss;

    for (uint32_t i = 0; i < state->n; i++)
        bell_assign(state->items[i].tensor,
                    bell_file_tensor(ctx, file, state->items[i].name));
    show("logits", run_resnet(net, x));
    bell_set_training(ctx, true);
    loss = bell_cross_entropy(run_resnet(net, x), target, 0, BELL_IGNORE_NONE,
                              BELL_MEAN);
    if (!bell_backward(loss) && !bell_optimizer_step(opt, &loss, 1))
        show("loss", loss);
    for (uint32_t i = 0; i < state->n; i++)
        show(state->items[i].name, state->items[i].tensor);
    return bell_error_last()->status;
}

int
main(int argc, char **argv)
{
    const struct bell_sgd_options sgd = {.struct_size = sizeof(sgd),
                                         .lr = 0.01};
    struct bell_context *ctx = NULL;
    struct bell_file *file = NULL;
    struct bell_optimizer *opt = NULL;
    struct bell_params params = {0};
    struct bell_state state = {0};
    struct resnet net = {0};

    if (bell_context_create(NULL, &ctx) != BELL_OK ||
        bell_file_open(argc > 1 ? argv[1] : "", &file) != BELL_OK ||
        !init_resnet(ctx, &net) ||
        bell_module_state(&resnet_type, &net, NULL, &state) != BELL_OK ||
        bell_params_add_state(&params, &state) != BELL_OK ||
        bell_sgd_create(params.tensors, params.n, &sgd, &opt) != BELL_OK ||
        train(ctx, file, &net, &state, opt) != BELL_OK)
        fprintf(stderr, "%s\n", bell_error_last()->message);
    bell_optimizer_destroy(opt);
    bell_params_fini(&params);
    bell_state_fini(&state);
    bell_file_close(file);
    bell_context_destroy(ctx);
    return bell_status_exit_code(bell_error_last()->status);
}
