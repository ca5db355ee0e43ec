/* A transformer learns a text byte by byte, then writes on from its beginning.
 * usage: transformer TEXT STEPS BYTES */
#include <doorbell/jit.h>
#include <doorbell/nn.h>
#include <stdio.h>
#include <stdlib.h>

enum {
    BATCH = 16,
    LENGTH = 64, /* bytes that it sees */
    SIZE = 128,
    LAYERS = 2,
    MAX_TEXT = 1 << 20
};

struct net {
    struct bell_nn_embedding bytes, places;
    struct bell_nn_transformer layers[LAYERS];
    struct bell_nn_layer_norm norm;
    struct bell_nn_linear scores;
    struct bell_optimizer *opt;
    struct bell_tensor *text; /* what it learns */
};
static const struct bell_module_field net_fields[] = {
    BELL_CHILD(struct net, bytes, &bell_nn_embedding_type),
    BELL_CHILD(struct net, places, &bell_nn_embedding_type),
    BELL_CHILDREN(struct net, layers, &bell_nn_transformer_type),
    BELL_CHILD(struct net, norm, &bell_nn_layer_norm_type),
    BELL_CHILD(struct net, scores, &bell_nn_linear_type),
};
static const struct bell_module_type net_type =
    BELL_MODULE_TYPE(struct net, net_fields);

static bell_status
init_net(struct bell_context *ctx, struct net *net, int n_steps)
{
    const struct bell_nn_transformer_options layer = {.struct_size =
                                                          sizeof(layer),
                                                      .size = SIZE,
                                                      .n_heads = 4,
                                                      .is_norm_first = true};
    const struct bell_schedule cycle = {.struct_size = sizeof(cycle),
                                        .kind = BELL_SCHEDULE_ONE_CYCLE,
                                        .n_steps = n_steps};
    const struct bell_adam_options adam = {.struct_size = sizeof(adam),
                                           .lr = 0.004};
    struct bell_params params = {0};
    bell_status status = BELL_OK;

    bell_manual_seed(ctx, 1);
    for (int i = 0; i < LAYERS && !status; i++)
        status = bell_nn_transformer_init(ctx, &layer, &net->layers[i]);
    if (status || bell_nn_embedding_init(ctx, 256, SIZE, &net->bytes) ||
        bell_nn_embedding_init(ctx, LENGTH, SIZE, &net->places) ||
        bell_nn_layer_norm_init(ctx, BELL_DIMS(SIZE), &net->norm) ||
        bell_nn_linear_init(ctx, SIZE, 256, true, &net->scores) ||
        bell_params_add_module(&params, &net_type, net))
        return bell_error_last()->status;
    status = bell_adamw_create(params.tensors, params.n, &adam, &net->opt);
    bell_params_fini(&params);
    return status ? status : bell_optimizer_set_schedule(net->opt, &cycle);
}

/* Bytes [n, LENGTH] to scores of the bytes behind each, [n, LENGTH, 256]. */
static struct bell_tensor *
run_net(const struct net *net, struct bell_tensor *x)
{
    x = bell_add(bell_nn_embedding(&net->bytes, x), net->places.weight);
    for (int i = 0; i < LAYERS; i++)
        x = bell_nn_transformer(&net->layers[i], x, NULL, true);
    return bell_nn_linear(&net->scores, bell_nn_layer_norm(&net->norm, x));
}

/* A step with pieces of the text by chance. */
static bell_status
step(struct bell_context *ctx, void *user, struct bell_tensor *const *in,
     struct bell_tensor **out)
{
    struct net *net = user;
    int64_t n = bell_size(net->text, 0) - LENGTH;
    struct bell_tensor *at, *pieces, *y;

    (void)in;
    at = bell_add(bell_randint(ctx, 0, n, BELL_DIMS(BATCH, 1), BELL_INT64),
                  bell_arange(ctx, 0, LENGTH + 1, 1, BELL_INT64));
    pieces = bell_index_select(net->text, 0, bell_flatten(at, 0, 1));
    pieces = bell_reshape(pieces, BELL_DIMS(BATCH, LENGTH + 1));
    y = bell_flatten(bell_narrow(pieces, 1, 1, LENGTH), 0, 1);
    out[0] = run_net(net, bell_narrow(pieces, 1, 0, LENGTH));
    out[0] = bell_cross_entropy(bell_flatten(out[0], 0, 1), y, 0,
                                BELL_IGNORE_NONE, BELL_MEAN);
    bell_optimizer_zero_grad(net->opt);
    if (bell_backward(out[0]))
        return bell_error_last()->status;
    return bell_optimizer_step(net->opt, out, 1);
}

/* Learns, then writes bytes behind the text's first ones, by chance as their
 * scores say. */
static bell_status
run(struct bell_context *ctx, struct net *net, int n_steps, uint8_t *text,
    int n_bytes)
{
    const struct bell_jit_desc desc = {sizeof(desc), "step", step, net, 0, 1};
    struct bell_jit *jit = NULL;
    struct bell_tensor *x;
    double value = 0;
    bell_status status = init_net(ctx, net, n_steps);

    status = status ? status : bell_jit_create(ctx, &desc, &jit);
    for (int i = 1; i <= n_steps && !status; i++) {
        status = bell_jit_call(jit, NULL, &x);
        if (!status && i % 100 == 0) {
            status = bell_item_f64(x, &value);
            fprintf(stderr, "step %d: %.3f nats a byte\n", i, value);
        }
        bell_tensor_release(x);
    }
    for (int i = 0; i < n_bytes && !status; i++) {
        bell_scope_begin(ctx);
        x = bell_from_data(ctx, BELL_DIMS(1, LENGTH), BELL_UINT8, text + i);
        x = bell_select(run_net(net, x), 1, LENGTH - 1);
        x = bell_multinomial(bell_softmax(x, 1), 1, true);
        status = bell_item_f64(x, &value);
        bell_scope_end(ctx);
        putchar(text[LENGTH + i] = (uint8_t)value);
    }
    bell_jit_destroy(jit);
    return status;
}

int
main(int argc, char **argv)
{
    static uint8_t text[2 * MAX_TEXT];
    FILE *file = argc == 4 ? fopen(argv[1], "rb") : NULL;
    size_t n = file ? fread(text, 1, MAX_TEXT, file) : 0;
    struct bell_context *ctx = NULL;
    struct net net = {0};

    if (n <= LENGTH)
        return fprintf(stderr, "usage: transformer TEXT STEPS BYTES\n"), 2;
    fclose(file);
    if (bell_context_create(NULL, &ctx) == BELL_OK) {
        net.text = bell_from_data(ctx, BELL_DIMS((int64_t)n), BELL_UINT8, text);
        (void)run(ctx, &net, atoi(argv[2]), text, atoi(argv[3]) % MAX_TEXT);
    }
    if (bell_error_last()->status)
        fprintf(stderr, "%s\n", bell_error_last()->message);
    bell_optimizer_destroy(net.opt);
    bell_context_destroy(ctx);
    return bell_status_exit_code(bell_error_last()->status);
}
