/* Networks for 28x28 images and their training, with the public API alone. */
#include "examples/demo/demo.h"

#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "base/bits.h"
#include "base/thread.h"
#include "doorbell/mesh.h"
#include "tools/tools.h"

/* ---- models ----------------------------------------------------------- */

/* The layers of either model; those it lacks stay empty. */
struct net {
    struct bell_nn_conv conv1, conv2;
    struct bell_nn_linear fc1, fc2, fc3;
    struct bell_params params;
};

static bell_status
init_mlp(struct bell_context *ctx, struct net *net)
{
    BELL_TRY(bell_nn_linear_init(ctx, DIGITS_PIXELS, 256, true, &net->fc1));
    BELL_TRY(bell_nn_linear_init(ctx, 256, 128, true, &net->fc2));
    BELL_TRY(bell_nn_linear_init(ctx, 128, 10, true, &net->fc3));
    BELL_TRY(
        bell_params_add_module(&net->params, &bell_nn_linear_type, &net->fc1));
    BELL_TRY(
        bell_params_add_module(&net->params, &bell_nn_linear_type, &net->fc2));
    return bell_params_add_module(&net->params, &bell_nn_linear_type,
                                  &net->fc3);
}

static struct bell_tensor *
forward_mlp(const struct net *net, struct bell_tensor *x)
{
    x = bell_reshape(x, BELL_DIMS(bell_size(x, 0), DIGITS_PIXELS));
    x = bell_relu(bell_nn_linear(&net->fc1, x));
    x = bell_relu(bell_nn_linear(&net->fc2, x));
    return bell_nn_linear(&net->fc3, x);
}

static bell_status
init_conv(struct bell_context *ctx, struct net *net)
{
    static const struct bell_conv_options by_two = {
        .struct_size = sizeof(by_two), .stride = {2, 2}};

    BELL_TRY(bell_nn_conv2d_init(ctx, 1, 16, 5, 5, &by_two, true, &net->conv1));
    BELL_TRY(bell_nn_conv2d_init(ctx, 16, 32, 3, 3, NULL, true, &net->conv2));
    BELL_TRY(bell_nn_linear_init(ctx, 32 * 4 * 4, 64, true, &net->fc1));
    BELL_TRY(bell_nn_linear_init(ctx, 64, 10, true, &net->fc2));
    BELL_TRY(
        bell_params_add_module(&net->params, &bell_nn_conv_type, &net->conv1));
    BELL_TRY(
        bell_params_add_module(&net->params, &bell_nn_conv_type, &net->conv2));
    BELL_TRY(
        bell_params_add_module(&net->params, &bell_nn_linear_type, &net->fc1));
    return bell_params_add_module(&net->params, &bell_nn_linear_type,
                                  &net->fc2);
}

static struct bell_tensor *
forward_conv(const struct net *net, struct bell_tensor *x)
{
    static const struct bell_pool_options pairs = {.struct_size = sizeof(pairs),
                                                   .kernel = {2, 2}};

    x = bell_relu(bell_nn_conv2d(&net->conv1, x));
    x = bell_max_pool2d(x, &pairs);
    x = bell_relu(bell_nn_conv2d(&net->conv2, x));
    x = bell_reshape(x, BELL_DIMS(bell_size(x, 0), -1));
    x = bell_relu(bell_nn_linear(&net->fc1, x));
    return bell_nn_linear(&net->fc2, x);
}

static const struct demo_model models[] = {
    {
        .name = "mlp",
        .shape = "784-256-128-10",
        .init = init_mlp,
        .forward = forward_mlp,
        .epochs = 15,
        .batch = 128,
        .learning_rate = 0.004,
        .max_shift = 1,
    },
    {
        .name = "conv",
        .shape = "conv 5x5/2 16, pool 2, conv 3x3 32, 64-10",
        .init = init_conv,
        .forward = forward_conv,
        .epochs = 24,
        .batch = 128,
        .learning_rate = 0.01,
        .max_shift = 2,
    },
};

const struct demo_model *
demo_model_find(const char *name)
{
    size_t i;

    for (i = 0; i < ARRAY_LEN(models); i++) {
        if (strcmp(models[i].name, name) == 0)
            return &models[i];
    }
    return NULL;
}

/* ---- training --------------------------------------------------------- */

/* State of a training. The tensors belong to the context. */
struct train {
    struct bell_context *ctx;
    struct demo_run *run;
    struct net net;
    struct bell_optimizer *optimizer; /* owned */
    struct rng rng;
    uint32_t *order; /* n_train image numbers, shuffled every epoch; owned */
    size_t next;     /* first of order that is not used yet */
    uint8_t *images; /* of a batch; owned */
    int32_t *labels; /* of a batch; owned */
};

/* Pairs of layers on devices along "model": outputs of the first one, inputs of
 * the second. */
static bell_status
share_layers(struct net *net)
{
    static const struct bell_shard_rule rules[] = {
        {"fc1.*", "model", 0},
        {"fc2.weight", "model", 1},
    };
    struct bell_state state = {0};
    bell_status status =
        bell_module_state(&bell_nn_linear_type, &net->fc1, "fc1", &state);

    if (status == BELL_OK)
        status =
            bell_module_state(&bell_nn_linear_type, &net->fc2, "fc2", &state);
    if (status == BELL_OK)
        status = bell_state_shard(&state, rules, ARRAY_LEN(rules));
    bell_state_fini(&state);
    return status;
}

static bell_status
make_net(struct train *train)
{
    static const struct bell_adam_options opt = {
        .struct_size = sizeof(opt), .lr = 1e-3, .beta2 = 0.99};
    struct bell_params *params = &train->net.params;
    uint32_t i;

    bell_manual_seed(train->ctx, train->run->seed);
    BELL_TRY(train->run->model->init(train->ctx, &train->net));
    if (train->run->mesh.layers)
        BELL_TRY(share_layers(&train->net));
    for (i = 0; i < params->n; i++)
        train->run->n_parameters += (int64_t)bell_numel(params->tensors[i]);
    BELL_TRY(
        bell_adam_create(params->tensors, params->n, &opt, &train->optimizer));
    if (train->run->mesh.zero == 0)
        return BELL_OK;
    return bell_optimizer_shard(train->optimizer, "data",
                                (enum bell_shard_kind)train->run->mesh.zero);
}

static void
shuffle(struct train *train)
{
    size_t n = train->run->data->n_train, i;

    for (i = n - 1; i > 0; i--) {
        size_t j = rng_below(&train->rng, (uint32_t)i + 1);
        uint32_t other = train->order[j];
        train->order[j] = train->order[i];
        train->order[i] = other;
    }
    train->next = 0;
}

/* Images n, 0..255, as the network takes them. Each device of the context has
 * some of them. */
static struct bell_tensor *
upload_images(struct bell_context *ctx, const uint8_t *images, int64_t n)
{
    struct bell_tensor *x = bell_from_data(
        ctx, BELL_DIMS(n, 1, DIGITS_SIDE, DIGITS_SIDE), BELL_UINT8, images);

    x = bell_shard(x, "data", 0);
    return bell_div(bell_cast(x, BELL_FLOAT32), bell_scalar(ctx, 255));
}

/* The next batch's loss. */
static struct bell_tensor *
batch_loss(struct train *train)
{
    struct demo_run *run = train->run;
    struct bell_tensor *x, *y;

    if (train->next + (size_t)run->batch > run->data->n_train)
        shuffle(train);
    demo_data_batch(run->data, train->order + train->next, (size_t)run->batch,
                    run->model->max_shift, &train->rng, train->images,
                    train->labels);
    train->next += (size_t)run->batch;
    x = upload_images(train->ctx, train->images, run->batch);
    y = bell_from_data(train->ctx, BELL_DIMS(run->batch), BELL_INT32,
                       train->labels);
    y = bell_shard(y, "data", 0);
    return bell_cross_entropy(run->model->forward(&train->net, x), y, 0,
                              BELL_IGNORE_NONE, BELL_MEAN);
}

/* A tenth of the steps warm up, the rest slow down. */
static double
rate_at(const struct train *train, int64_t step, int64_t n_steps)
{
    double at = (double)(step + 1) / (double)n_steps;
    double rate = train->run->model->learning_rate;

    return at < 0.1 ? rate * at / 0.1 : rate * fmax(0.02, (1 - at) / 0.9);
}

/* One step; out_loss, if wanted, is read, which waits for the step. */
static bell_status
take_demo_step(struct train *train, double rate, double *out_loss)
{
    struct bell_tensor *loss = batch_loss(train);

    bell_optimizer_zero_grad(train->optimizer);
    bell_optimizer_set_lr(train->optimizer, rate);
    BELL_TRY(bell_backward(loss));
    BELL_TRY(bell_optimizer_step(train->optimizer, &loss, 1));
    return out_loss ? bell_item_f64(loss, out_loss) : BELL_OK;
}

/* As take_step, in a scope of its own. */
static bell_status
take_scoped_step(struct train *train, double rate, double *out_loss)
{
    bell_status status, ended;

    BELL_TRY(bell_scope_begin(train->ctx));
    status = take_demo_step(train, rate, out_loss);
    ended = bell_scope_end(train->ctx);
    return status != BELL_OK ? status : ended;
}

static bell_status
run_demo_steps(struct train *train)
{
    struct demo_run *run = train->run;
    int64_t per_epoch = (int64_t)run->data->n_train / run->batch;
    int64_t n_steps = run->n_steps ? run->n_steps : run->epochs * per_epoch;
    uint64_t start = time_now_ns(), first_end = start, end;
    int64_t i;

    for (i = 0; i < n_steps; i++) {
        bool is_read = i == 0 || (i + 1) % per_epoch == 0 || i + 1 == n_steps;
        BELL_TRY(take_scoped_step(train, rate_at(train, i, n_steps),
                                  is_read ? &run->loss : NULL));
        if (i == 0)
            first_end = time_now_ns();
        if (i % 8 == 0)
            tool_progress("step %lld of %lld, loss %.4f", (long long)i + 1,
                          (long long)n_steps, run->loss);
    }
    end = time_now_ns();
    tool_progress(NULL);
    run->n_steps_done = n_steps;
    run->train_s = (double)(end - start) / 1e9;
    run->first_step_ms = (double)(first_end - start) / 1e6;
    if (n_steps > 1)
        run->step_ms = (double)(end - first_end) / 1e6 / (double)(n_steps - 1);
    return BELL_OK;
}

/* ---- testing ---------------------------------------------------------- */

static bell_status
count_right(struct train *train, int64_t *out_n)
{
    const struct demo_data *data = train->run->data;
    int64_t n = (int64_t)data->n_test;
    struct bell_tensor *x, *y, *guess;

    x = upload_images(train->ctx, data->test_images, n);
    y = bell_from_data(train->ctx, BELL_DIMS(n), BELL_UINT8, data->test_labels);
    guess = bell_argmax(train->run->model->forward(&train->net, x), 1, false);
    return bell_item_i64(bell_sum(bell_eq(guess, y), BELL_NO_DIMS, false),
                         out_n);
}

static bell_status
test_params(struct train *train)
{
    uint64_t start = time_now_ns();
    bell_status status, ended;
    int64_t n_right = 0;

    BELL_TRY(bell_scope_begin(train->ctx));
    status = count_right(train, &n_right);
    ended = bell_scope_end(train->ctx);
    if (status == BELL_OK)
        status = ended;
    train->run->test_s = (double)(time_now_ns() - start) / 1e9;
    train->run->test_accuracy =
        (double)n_right / (double)train->run->data->n_test;
    return status;
}

static bell_status
train_and_test(struct train *train)
{
    size_t n = train->run->data->n_train, i;
    size_t batch = (size_t)train->run->batch;

    train->order = host_calloc(n, sizeof(*train->order));
    train->images = host_alloc(batch * DIGITS_PIXELS);
    train->labels = host_calloc(batch, sizeof(*train->labels));
    if (!train->order || !train->images || !train->labels)
        return bell_fail(BELL_E_NO_MEMORY,
                         "out of memory for a batch of %zu images", batch);
    for (i = 0; i < n; i++)
        train->order[i] = (uint32_t)i;
    shuffle(train);
    BELL_TRY(make_net(train));
    BELL_TRY(run_demo_steps(train));
    demo_data_end_training(train->run->data);
    return test_params(train);
}

bell_status
demo_train(struct bell_context *ctx, struct demo_run *run)
{
    struct train train = {.ctx = ctx, .run = run, .rng.state = run->seed};
    bell_status status = train_and_test(&train);

    bell_optimizer_destroy(train.optimizer);
    bell_params_fini(&train.net.params);
    host_free(train.order);
    host_free(train.images);
    host_free(train.labels);
    return status;
}
