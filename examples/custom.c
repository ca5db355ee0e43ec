/* A function with a gradient of its own: rounding to steps of 1/4, through
 * which training learns as if it did not round (docs/how-to/custom.md). */
#include <doorbell/custom.h>
#include <doorbell/jit.h>
#include <doorbell/optim.h>
#include <stdio.h>

static struct bell_tensor *
quantise(struct bell_context *ctx, void *user, struct bell_tensor *const *in,
         uint32_t n_in)
{
    const double *step = user;

    (void)ctx;
    (void)n_in;
    return bell_mul_scalar(bell_round(bell_mul_scalar(in[0], 1 / *step)),
                           *step);
}

/* d out / d in is taken for 1. */
static bell_status
pass_on(struct bell_context *ctx, void *user, struct bell_tensor *const *in,
        uint32_t n_in, struct bell_tensor *out, struct bell_tensor *grad,
        struct bell_tensor **out_grads)
{
    (void)ctx;
    (void)user;
    (void)in;
    (void)n_in;
    (void)out;
    out_grads[0] = grad;
    return BELL_OK;
}

static double step = 0.25;

struct training {
    struct bell_tensor *w, *wanted;
    struct bell_optimizer *opt;
};

/* One step: the loss of rounded weights, and what it changes. */
static bell_status
train(struct bell_context *ctx, void *user, struct bell_tensor *const *in,
      struct bell_tensor **out)
{
    struct bell_custom_desc rounded = {
        .struct_size = sizeof(rounded),
        .name = "quantise",
        .forward = quantise,
        .backward = pass_on,
        .user = &step,
    };
    struct training *t = user;
    struct bell_tensor *q = bell_custom(&rounded, &t->w, 1);
    struct bell_tensor *d = bell_sub(bell_mul(q, in[0]), t->wanted);
    bell_status status;

    (void)ctx;
    out[0] = bell_sum(bell_mul(d, d), BELL_NO_DIMS, false);
    bell_optimizer_zero_grad(t->opt);
    status = bell_backward(out[0]);
    return status == BELL_OK ? bell_optimizer_step(t->opt, out, 1) : status;
}

static bell_status
run(struct bell_context *ctx)
{
    struct training t = {0};
    struct bell_jit_desc desc = {sizeof(desc), "train", train, &t, 1, 1};
    struct bell_tensor *x, *loss = NULL;
    struct bell_jit *jit = NULL;
    float value = -1, w[3];
    bell_status status;

    t.w = bell_requires_grad(bell_zeros(ctx, BELL_DIMS(3), BELL_FLOAT32), true);
    t.wanted = bell_from_data(ctx, BELL_DIMS(3), BELL_FLOAT32,
                              (float[]){1.5f, -0.5f, 2.0f});
    x = bell_full(ctx, BELL_DIMS(3), 2, BELL_FLOAT32);
    status = bell_sgd_create(
        &t.w, 1, &BELL_OPTIONS(bell_sgd_options, .lr = 0.05), &t.opt);
    if (status == BELL_OK)
        status = bell_jit_create(ctx, &desc, &jit);
    for (int i = 0; i < 20 && status == BELL_OK; i++)
        status = bell_jit_call(jit, &x, &loss);
    if (status == BELL_OK)
        status = bell_read(loss, &value, sizeof(value));
    if (status == BELL_OK)
        status = bell_read(t.w, w, sizeof(w));
    if (status == BELL_OK)
        printf("loss %.3f, weights %.2f %.2f %.2f\n", value, w[0], w[1], w[2]);
    bell_jit_destroy(jit);
    bell_optimizer_destroy(t.opt);
    return status;
}

int
main(void)
{
    struct bell_context *ctx = NULL;
    bell_status status = bell_context_create(NULL, &ctx);

    if (status == BELL_OK)
        status = run(ctx);
    if (status != BELL_OK)
        fprintf(stderr, "%s\n", bell_error_last()->message);
    bell_context_destroy(ctx);
    return bell_status_exit_code(status);
}
