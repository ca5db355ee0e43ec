/* What the host spends on a call of a jit, beside the same without: an addition
 * from its call to its value, steps of training, and inputs that changed. Turn
 * by turn; medians. Null devices run nothing: what is left is the host's part.
 *
 * usage: bench_jit [bench options]
 * BELL_DEVICE: one device more, a card for example.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/thread.h"
#include "doorbell/jit.h"
#include "doorbell/nn.h"
#include "doorbell/ops.h"
#include "tests/bench/bench.h"

#define N_TURNS 2001
#define N_WARM  3
#define LAYERS  3
#define N_IN    32

static const int sizes[LAYERS + 1] = {16, 32, 32, 10};
#define BATCH 8

struct model {
    struct bell_context *ctx;
    struct bell_tensor *in[2];
    struct bell_nn_linear layers[LAYERS];
    struct bell_params params;
    struct bell_optimizer *opt;
    bool reads; /* the result, and so waits */
};

static void
put_time(struct bench *bench, const char *name, const char *device, double us)
{
    char text[96];

    snprintf(text, sizeof(text), "%s %s", name, device);
    json_object(&bench->json, NULL);
    json_str(&bench->json, "name", text);
    json_num(&bench->json, "time_us", us);
    json_end(&bench->json);
}

static bell_status
add(struct bell_context *ctx, void *user, struct bell_tensor *const *in,
    struct bell_tensor **out)
{
    (void)ctx;
    (void)user;
    out[0] = bell_add(in[0], in[1]);
    return BELL_OK;
}

static bell_status
train(struct bell_context *ctx, void *user, struct bell_tensor *const *in,
      struct bell_tensor **out)
{
    struct model *m = user;
    struct bell_tensor *h = in[0];
    bell_status status;
    int i;

    (void)ctx;
    for (i = 0; i < LAYERS; i++) {
        h = bell_nn_linear(&m->layers[i], h);
        if (i < LAYERS - 1)
            h = bell_relu(h);
    }
    out[0] = bell_cross_entropy(h, in[1], 0, BELL_IGNORE_NONE, BELL_MEAN);
    bell_optimizer_zero_grad(m->opt);
    status = bell_backward(out[0]);
    return status == BELL_OK ? bell_optimizer_step(m->opt, out, 1) : status;
}

/* Microseconds of one turn; negative if it failed. */
static double
time_turn(struct model *m, struct bell_jit *jit,
          bell_status (*fn)(struct bell_context *ctx, void *user,
                            struct bell_tensor *const *in,
                            struct bell_tensor **out))
{
    uint64_t start = time_now_ns();
    struct bell_tensor *out;
    bell_status status, end;
    float value;

    if (bell_scope_begin(m->ctx) != BELL_OK)
        return -1;
    status = jit ? bell_jit_call(jit, m->in, &out) : fn(m->ctx, m, m->in, &out);
    if (status == BELL_OK)
        status = m->reads ? bell_read(out, &value, sizeof(value))
                          : bell_realize1(out);
    end = bell_scope_end(m->ctx);
    return status == BELL_OK && end == BELL_OK
               ? (double)(time_now_ns() - start) / 1e3
               : -1;
}

static void
time_both(struct bench *bench, struct model *m, const char *name,
          bell_status (*fn)(struct bell_context *ctx, void *user,
                            struct bell_tensor *const *in,
                            struct bell_tensor **out))
{
    static double plain[N_TURNS], jitted[N_TURNS];
    struct bell_jit_desc desc = {sizeof(desc), name, fn, m, 2, 1};
    struct bell_jit *jit;
    char text[64];
    bool failed = bell_jit_create(m->ctx, &desc, &jit) != BELL_OK;
    int i;

    for (i = -N_WARM; i < N_TURNS && !failed; i++) {
        int at = i < 0 ? 0 : i;
        plain[at] = time_turn(m, NULL, fn);
        jitted[at] = time_turn(m, jit, fn);
        failed = plain[at] < 0 || jitted[at] < 0;
    }
    if (failed) {
        fprintf(stderr, "%s: %s\n", name, bell_error_last()->message);
        bench->n_failed++;
    } else {
        put_time(bench, name, bell_context_device(m->ctx),
                 bench_median(plain, N_TURNS));
        snprintf(text, sizeof(text), "%s, jit", name);
        put_time(bench, text, bell_context_device(m->ctx),
                 bench_median(jitted, N_TURNS));
    }
    bell_jit_destroy(jit);
}

static bell_status
add_all(struct bell_context *ctx, void *user, struct bell_tensor *const *in,
        struct bell_tensor **out)
{
    int i;

    (void)ctx;
    (void)user;
    out[0] = in[0];
    for (i = 1; i < N_IN; i++)
        out[0] = bell_add(out[0], in[i]);
    return BELL_OK;
}

/* Nanoseconds of a call; what it queues is then waited for, so that nothing is
 * under way in the next. Negative if it failed. */
static double
time_call(struct bell_context *ctx, struct bell_jit *jit,
          struct bell_tensor *const *in)
{
    struct bell_tensor *out;
    bell_status status, end;
    uint64_t start, n_ns;
    float value[2];

    if (bell_scope_begin(ctx) != BELL_OK)
        return -1;
    start = time_now_ns();
    status = bell_jit_call(jit, in, &out);
    n_ns = time_now_ns() - start;
    if (status == BELL_OK && !strstr(bell_context_device(ctx), "@null"))
        status = bell_read(out, value, sizeof(value));
    end = bell_scope_end(ctx);
    return status == BELL_OK && end == BELL_OK ? (double)n_ns : -1;
}

/* Inputs of two places; of each turn's three calls the first has one input
 * elsewhere than the call before, the second the others, the third none. */
static bool
time_turns(struct bell_context *ctx, struct bell_jit *jit,
           struct bell_tensor *in[2][N_IN], double *const times[3])
{
    struct bell_tensor *now[N_IN];
    int i, k;

    memcpy(now, in[1], sizeof(now));
    for (i = -N_WARM; i < N_TURNS; i++) {
        now[0] = in[i & 1][0];
        for (k = 0; k < 3; k++) {
            double ns = time_call(ctx, jit, now);
            if (ns < 0)
                return false;
            times[k][i < 0 ? 0 : i] = ns;
            memcpy(now, in[i & 1], sizeof(now));
        }
    }
    return true;
}

static void
time_inputs(struct bench *bench, struct bell_context *ctx)
{
    static const char *const names[] = {
        "call of 32 inputs, one of another place",
        "call of 32 inputs, 31 of another place",
        "call of 32 inputs, the same"};
    static double one[N_TURNS], others[N_TURNS], none[N_TURNS];
    double *const times[] = {one, others, none};
    struct bell_jit_desc desc = {sizeof(desc), "add_all", add_all,
                                 NULL,         N_IN,      1};
    struct bell_tensor *in[2][N_IN];
    struct bell_jit *jit;
    bool failed = bell_jit_create(ctx, &desc, &jit) != BELL_OK;
    int i, k;

    for (i = 0; i < 2 && !failed; i++) {
        for (k = 0; k < N_IN; k++)
            in[i][k] = bell_full(ctx, BELL_DIMS(2), k, BELL_FLOAT32);
        failed = bell_realize(in[i], N_IN) != BELL_OK;
    }
    if (failed || !time_turns(ctx, jit, in, times)) {
        fprintf(stderr, "inputs: %s\n", bell_error_last()->message);
        bench->n_failed++;
    } else {
        static double each[N_TURNS];

        for (i = 0; i < N_TURNS; i++)
            each[i] = (others[i] - one[i]) / (N_IN - 2);
        for (i = 0; i < 3; i++)
            put_time(bench, names[i], bell_context_device(ctx),
                     bench_median(times[i], N_TURNS) / 1e3);
        put_time(bench, "one more input of another place",
                 bell_context_device(ctx), bench_median(each, N_TURNS) / 1e3);
    }
    bell_jit_destroy(jit);
}

static bell_status
init_model(struct model *m)
{
    static const float x[BATCH * 16] = {1, 2, 3};
    static const int32_t y[BATCH] = {1, 2, 3};
    const struct bell_sgd_options sgd = {.struct_size = sizeof(sgd),
                                         .lr = 0.01};
    int i;

    for (i = 0; i < LAYERS; i++) {
        BELL_TRY(bell_nn_linear_init(m->ctx, sizes[i], sizes[i + 1], true,
                                     &m->layers[i]));
        BELL_TRY(bell_params_add_module(&m->params, &bell_nn_linear_type,
                                        &m->layers[i]));
    }
    BELL_TRY(bell_sgd_create(m->params.tensors, m->params.n, &sgd, &m->opt));
    m->in[0] = bell_from_data(m->ctx, BELL_DIMS(BATCH, 16), BELL_FLOAT32, x);
    m->in[1] = bell_from_data(m->ctx, BELL_DIMS(BATCH), BELL_INT32, y);
    return bell_context_status(m->ctx);
}

static void
bench_device(struct bench *bench, const char *device, bool reads)
{
    struct model m = {.reads = reads};

    if (!bench_wants(bench, device))
        return;
    if (bell_context_create(device, &m.ctx) != BELL_OK) {
        fprintf(stderr, "%s: %s\n", device, bell_error_last()->message);
        return; /* built without */
    }
    m.in[0] = bell_ones(m.ctx, BELL_DIMS(1), BELL_FLOAT32);
    m.in[1] = bell_full(m.ctx, BELL_DIMS(1), 2, BELL_FLOAT32);
    if (bell_realize(m.in, 2) == BELL_OK)
        time_both(bench, &m, "add 1", add);
    time_inputs(bench, m.ctx);
    if (init_model(&m) == BELL_OK)
        time_both(bench, &m, "mlp step", train);
    else
        fprintf(stderr, "%s: %s\n", device, bell_error_last()->message);
    bell_optimizer_destroy(m.opt);
    bell_params_fini(&m.params);
    bell_context_destroy(m.ctx);
}

/* Commands as on a card, written into a simulated one's queues. */
static void
bench_inputs(struct bench *bench, const char *device)
{
    struct bell_context *ctx;

    if (!bench_wants(bench, device))
        return;
    if (bell_context_create(device, &ctx) != BELL_OK) {
        fprintf(stderr, "%s: %s\n", device, bell_error_last()->message);
        return; /* built without */
    }
    time_inputs(bench, ctx);
    bell_context_destroy(ctx);
}

int
main(int argc, char **argv)
{
    struct bench bench;

    bench_begin(&bench, argc, argv);
    bench_device(&bench, "CPU", true);
    bench_device(&bench, "NV@null:sm_90", false);
    bench_device(&bench, "AMD@null:gfx1100", false);
    if (getenv("BELL_DEVICE"))
        bench_device(&bench, getenv("BELL_DEVICE"), true);
    bench_inputs(&bench, "NV@sim:sm_90");
    bench_inputs(&bench, "AMD@sim:gfx1100");
    bench_inputs(&bench, "AMD@sim:gfx942");
    return bench_end(&bench);
}
