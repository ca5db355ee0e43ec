/* Networks for 28x28 images and their training, with the public API alone. */
#include "tools/demo.h"

#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "base/bits.h"
#include "base/thread.h"
#include "tools/tools.h"

/* ---- models ----------------------------------------------------------- */

static struct bell_tensor *
forward_mlp(struct bell_tensor *const *p, struct bell_tensor *x)
{
    x = bell_reshape(x, BELL_DIMS(bell_size(x, 0), DIGITS_PIXELS));
    x = bell_relu(bell_linear(x, p[0], p[1]));
    x = bell_relu(bell_linear(x, p[2], p[3]));
    return bell_linear(x, p[4], p[5]);
}

static struct bell_tensor *
forward_conv(struct bell_tensor *const *p, struct bell_tensor *x)
{
    static const struct bell_conv_options opt = {.stride = {2, 2}};

    x = bell_relu(bell_conv2d(x, p[0], p[1], &opt));
    x = bell_relu(bell_conv2d(x, p[2], p[3], &opt));
    x = bell_reshape(x, BELL_DIMS(bell_size(x, 0), -1));
    x = bell_relu(bell_linear(x, p[4], p[5]));
    return bell_linear(x, p[6], p[7]);
}

static const struct demo_param mlp_params[] = {
    {{256, 784}, 2, 784}, {{256}, 1, 784},     {{128, 256}, 2, 256},
    {{128}, 1, 256},      {{10, 128}, 2, 128}, {{10}, 1, 128},
};

static const struct demo_param conv_params[] = {
    {{16, 1, 5, 5}, 4, 25}, {{16}, 1, 25},       {{32, 16, 3, 3}, 4, 144},
    {{32}, 1, 144},         {{64, 800}, 2, 800}, {{64}, 1, 800},
    {{10, 64}, 2, 64},      {{10}, 1, 64},
};

static const struct demo_model models[] = {
    {
        .name = "mlp",
        .shape = "784-256-128-10",
        .forward = forward_mlp,
        .params = mlp_params,
        .n_params = ARRAY_LEN(mlp_params),
        .epochs = 15,
        .batch = 128,
        .learning_rate = 0.004,
        .max_shift = 1,
    },
    {
        .name = "conv",
        .shape = "conv 5x5/2 16, conv 3x3/2 32, 64-10",
        .forward = forward_conv,
        .params = conv_params,
        .n_params = ARRAY_LEN(conv_params),
        .epochs = 16,
        .batch = 256,
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

/* State of a training. */
struct train {
    struct bell_context *ctx;
    struct demo_run *run;
    uint32_t n; /* parameters */
    /* params, then the two moments of Adam, then the loss: what a step
     * computes together */
    struct bell_tensor *state[3 * DEMO_MAX_PARAMS + 1];
    struct rng rng;
    uint32_t *order; /* n_train image numbers, shuffled every epoch; owned */
    size_t next;     /* first of order that is not used yet */
    uint8_t *images; /* of a batch; owned */
    int32_t *labels; /* of a batch; owned */
};

static bell_status
make_params(struct train *train)
{
    const struct demo_model *model = train->run->model;
    struct bell_context *ctx = train->ctx;
    uint32_t i, n = model->n_params;

    train->n = n;
    bell_manual_seed(ctx, train->run->seed);
    for (i = 0; i < n; i++) {
        const struct demo_param *param = &model->params[i];
        double limit = 1 / sqrt((double)param->fan_in);
        train->state[i] =
            bell_requires_grad(bell_uniform(ctx, param->shape, param->ndim,
                                            -limit, limit, BELL_FLOAT32),
                               true);
        train->state[n + i] =
            bell_zeros(ctx, param->shape, param->ndim, BELL_FLOAT32);
        train->state[2 * n + i] =
            bell_zeros(ctx, param->shape, param->ndim, BELL_FLOAT32);
        train->run->n_parameters += (int64_t)bell_numel(train->state[i]);
    }
    train->state[3 * n] = bell_zeros(ctx, BELL_NO_DIMS, BELL_FLOAT32);
    return bell_realize(train->state, 3 * n + 1);
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

/* Images n, 0..255, as the network takes them. */
static struct bell_tensor *
upload_images(struct bell_context *ctx, const uint8_t *images, int64_t n)
{
    struct bell_tensor *x = bell_from_data(
        ctx, BELL_UINT8, BELL_DIMS(n, 1, DIGITS_SIDE, DIGITS_SIDE), images);

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
    y = bell_from_data(train->ctx, BELL_INT32, BELL_DIMS(run->batch),
                       train->labels);
    return bell_cross_entropy(run->model->forward(train->state, x), y, 0,
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

/* x = a * x + (1 - a) * y */
static struct bell_tensor *
blend(struct bell_tensor *x, struct bell_tensor *y, double a)
{
    struct bell_context *ctx = bell_context_of(x);

    return bell_assign(x, bell_add(bell_mul(x, bell_scalar(ctx, a)),
                                   bell_mul(y, bell_scalar(ctx, 1 - a))));
}

/* One step of Adam. `rate`, a tensor so that its value is no part of the
 * kernels, has the bias corrections in it. */
static void
update_params(struct train *train, struct bell_tensor *const *grads,
              struct bell_tensor *rate)
{
    uint32_t i, n = train->n;

    for (i = 0; i < n; i++) {
        struct bell_tensor *p = train->state[i], *m = train->state[n + i];
        struct bell_tensor *v = train->state[2 * n + i], *root;
        m = blend(m, grads[i], 0.9);
        v = blend(v, bell_mul(grads[i], grads[i]), 0.99);
        root = bell_add(bell_sqrt(v), bell_scalar(train->ctx, 1e-8));
        bell_assign(p, bell_sub(p, bell_mul(rate, bell_div(m, root))));
    }
}

static bell_status
take_step(struct train *train, int64_t step, int64_t n_steps)
{
    struct bell_tensor *grads[DEMO_MAX_PARAMS], *loss, *rate_tensor;
    double t = (double)(step + 1);
    float rate = (float)(rate_at(train, step, n_steps) *
                         sqrt(1 - pow(0.99, t)) / (1 - pow(0.9, t)));

    loss = batch_loss(train);
    BELL_TRY(bell_gradient(loss, train->state, train->n, grads));
    rate_tensor = bell_from_data(train->ctx, BELL_FLOAT32, BELL_NO_DIMS, &rate);
    update_params(train, grads, rate_tensor);
    bell_assign(train->state[3 * train->n], loss);
    return bell_realize(train->state, 3 * train->n + 1);
}

/* As take_step, in a scope of its own. */
static bell_status
take_scoped_step(struct train *train, int64_t step, int64_t n_steps)
{
    bell_status status, ended;

    BELL_TRY(bell_scope_begin(train->ctx));
    status = take_step(train, step, n_steps);
    ended = bell_scope_end(train->ctx);
    return status != BELL_OK ? status : ended;
}

static bell_status
read_loss(struct train *train)
{
    return bell_item_f64(train->state[3 * train->n], &train->run->loss);
}

static bell_status
run_steps(struct train *train)
{
    struct demo_run *run = train->run;
    int64_t per_epoch = (int64_t)run->data->n_train / run->batch;
    int64_t n_steps = run->n_steps ? run->n_steps : run->epochs * per_epoch;
    uint64_t start = time_now_ns(), first_end = start, end;
    int64_t i;

    for (i = 0; i < n_steps; i++) {
        BELL_TRY(take_scoped_step(train, i, n_steps));
        if (i == 0 || (i + 1) % per_epoch == 0 || i + 1 == n_steps)
            BELL_TRY(read_loss(train));
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

    x = upload_images(train->ctx, data->images + data->n_train * DIGITS_PIXELS,
                      n);
    y = bell_from_data(train->ctx, BELL_UINT8, BELL_DIMS(n),
                       data->labels + data->n_train);
    guess = bell_argmax(train->run->model->forward(train->state, x), 1, false);
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
    BELL_TRY(make_params(train));
    BELL_TRY(run_steps(train));
    return test_params(train);
}

bell_status
demo_train(struct bell_context *ctx, struct demo_run *run)
{
    struct train train = {.ctx = ctx, .run = run, .rng.state = run->seed};
    bell_status status = train_and_test(&train);

    host_free(train.order);
    host_free(train.images);
    host_free(train.labels);
    return status;
}
