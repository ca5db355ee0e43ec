/* GPT-2, its weights by HuggingFace's names, forward and in training.
 * usage: gpt2 FILE.safetensors [HEADS], which has "input" and "target", too. */
#include <doorbell/files.h>
#include <doorbell/nn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Tensors by name, which training changes. */
struct gpt2 {
    struct bell_state state;
    int64_t heads;
};

/* All tensors of the file but the example's own, and masks, which old files
 * have. */
static bell_status
load(struct bell_context *ctx, struct bell_file *file, struct gpt2 *net)
{
    bell_status status = BELL_OK;

    for (uint32_t i = 0; i < bell_file_count(file) && !status; i++) {
        const char *name = bell_file_at(file, i)->name;
        if (strcmp(name, "input") != 0 && strcmp(name, "target") != 0 &&
            !strstr(name, ".attn.bias"))
            status = bell_state_add(
                &net->state, NULL, name, BELL_STATE_PARAM,
                bell_requires_grad(bell_file_tensor(ctx, file, name), true));
    }
    return status;
}

/* "wte.weight", or of layer i; NULL, an error where it is used: there is
 * none. */
static struct bell_tensor *
get(const struct gpt2 *net, int i, const char *layer, const char *part)
{
    const struct bell_state_item *item;
    char name[96];

    if (i < 0)
        snprintf(name, sizeof(name), "%s.%s", layer, part);
    else
        snprintf(name, sizeof(name), "h.%d.%s.%s", i, layer, part);
    item = bell_state_find(&net->state, name);
    return item ? item->tensor : NULL;
}

/* A projection, whose weight is [in, out]. */
static struct bell_tensor *
project(const struct gpt2 *net, int i, const char *layer, struct bell_tensor *x)
{
    return bell_add(bell_matmul(x, get(net, i, layer, "weight")),
                    get(net, i, layer, "bias"));
}

static struct bell_tensor *
norm(const struct gpt2 *net, int i, const char *layer, struct bell_tensor *x)
{
    return bell_nn_layer_norm(
        &(struct bell_nn_layer_norm){get(net, i, layer, "weight"),
                                     get(net, i, layer, "bias"), 1e-5},
        x);
}

static struct bell_tensor *
attend(const struct gpt2 *net, struct bell_tensor *qkv)
{
    int64_t n = bell_size(qkv, 0), t = bell_size(qkv, 1);
    int64_t dim = bell_size(qkv, 2) / 3;
    struct bell_tensor *x;

    qkv = bell_reshape(qkv, BELL_DIMS(n, t, 3, net->heads, dim / net->heads));
    qkv = bell_permute(qkv, BELL_DIMS(2, 0, 3, 1, 4));
    x = bell_scaled_dot_product_attention(
        bell_select(qkv, 0, 0), bell_select(qkv, 0, 1), bell_select(qkv, 0, 2),
        NULL, 0, true, 0);
    return bell_reshape(bell_transpose(x, 1, 2), BELL_DIMS(n, t, dim));
}

/* Tokens [n, t] to logits [n t, tokens]; the output layer is wte's. */
static struct bell_tensor *
run_gpt2(const struct gpt2 *net, struct bell_tensor *tokens)
{
    struct bell_tensor *wte = get(net, -1, "wte", "weight"), *x, *y;

    y = bell_narrow(get(net, -1, "wpe", "weight"), 0, 0, bell_size(tokens, 1));
    x = bell_add(bell_embedding(tokens, wte), y);
    for (int i = 0; get(net, i, "ln_1", "weight"); i++) {
        y = project(net, i, "attn.c_attn", norm(net, i, "ln_1", x));
        x = bell_add(x, project(net, i, "attn.c_proj", attend(net, y)));
        y = project(net, i, "mlp.c_fc", norm(net, i, "ln_2", x));
        x = bell_add(x, project(net, i, "mlp.c_proj", bell_gelu(y, true)));
    }
    return bell_flatten(bell_linear(norm(net, -1, "ln_f", x), wte, NULL), 0, 1);
}

static bool
show(const char *name, struct bell_tensor *t)
{
    double n;
    bool ok = !bell_item_f64(bell_norm(t, 2, BELL_NO_DIMS, false), &n);

    return ok && printf("%s %.7g\n", name, n) > 0;
}

static void
train(const struct gpt2 *net, struct bell_tensor *x, struct bell_tensor *y,
      struct bell_optimizer *opt)
{
    struct bell_tensor *loss;
    bool ok = show("logits", run_gpt2(net, x));

    loss = bell_cross_entropy(run_gpt2(net, x), bell_flatten(y, 0, 1), 0,
                              BELL_IGNORE_NONE, BELL_MEAN);
    ok = ok && !bell_backward(loss) && !bell_optimizer_step(opt, &loss, 1) &&
         show("loss", loss);
    for (uint32_t i = 0; i < net->state.n && ok; i++)
        ok = show(net->state.items[i].name, net->state.items[i].tensor);
}

int
main(int argc, char **argv)
{
    const struct bell_sgd_options sgd = {.struct_size = sizeof(sgd),
                                         .lr = 0.01};
    struct gpt2 net = {.heads = argc > 2 ? atoi(argv[2]) : 12};
    struct bell_context *ctx = NULL;
    struct bell_file *file = NULL;
    struct bell_optimizer *opt = NULL;
    struct bell_params params = {0};

    if (argc < 2 || net.heads < 1) {
        fprintf(stderr, "usage: gpt2 FILE.safetensors [HEADS]\n");
        return 2;
    }
    if (!bell_context_create(NULL, &ctx) && !bell_file_open(argv[1], &file) &&
        !load(ctx, file, &net) && !bell_params_add_state(&params, &net.state) &&
        !bell_sgd_create(params.tensors, params.n, &sgd, &opt))
        train(&net, bell_file_tensor(ctx, file, "input"),
              bell_file_tensor(ctx, file, "target"), opt);
    if (bell_error_last()->status)
        fprintf(stderr, "%s\n", bell_error_last()->message);
    bell_optimizer_destroy(opt);
    bell_params_fini(&params);
    bell_state_fini(&net.state);
    bell_file_close(file);
    bell_context_destroy(ctx);
    return bell_status_exit_code(bell_error_last()->status);
}
