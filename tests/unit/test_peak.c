/* The memory of training steps: what their plans take is little more than what
 * is alive at once. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/bits.h"
#include "doorbell/nn.h"
#include "doorbell/ops.h"
#include "doorbell/stats.h"
#include "doorbell/tensor.h"
#include "tests/unit/expect.h"

#define WIDTH  128
#define HEADS  4
#define STEPS  64 /* of the sequence */
#define LAYERS 12
#define WORDS  512
#define BATCH  512

static const char *const devices[] = {"CPU", "NV@null:h100", "AMD@null:mi300x"};

static struct bell_context *ctx;
static struct bell_tensor *params[16 * LAYERS + 16];
static uint32_t n_params;

static struct bell_tensor *
input(enum bell_dtype dtype, const int64_t *shape, uint32_t ndim)
{
    struct bell_tensor *x =
        bell_cast(bell_full(ctx, shape, ndim, 0.01, BELL_FLOAT32), dtype);

    x = bell_contiguous(x);
    expect_ok(bell_realize1(x));
    return x;
}
#define INPUT(dtype, ...) input(dtype, BELL_DIMS(__VA_ARGS__))

static struct bell_tensor *
param(const int64_t *shape, uint32_t ndim)
{
    struct bell_tensor *x =
        bell_requires_grad(input(BELL_FLOAT32, shape, ndim), true);

    params[n_params++] = x;
    return x;
}
#define PARAM(...) param(BELL_DIMS(__VA_ARGS__))

static struct bell_tensor *
linear(struct bell_tensor *x, int64_t in, int64_t out)
{
    struct bell_tensor *w = PARAM(out, in);

    return bell_linear(x, w, PARAM(out));
}

static struct bell_tensor *
norm(struct bell_tensor *x)
{
    struct bell_tensor *w = PARAM(WIDTH);

    return bell_layer_norm(x, 1, w, PARAM(WIDTH), 1e-5);
}

static struct bell_tensor *
heads(struct bell_tensor *x)
{
    x = bell_reshape(linear(x, WIDTH, WIDTH),
                     BELL_DIMS(1, STEPS, HEADS, WIDTH / HEADS));
    return bell_permute(x, (int64_t[]){0, 2, 1, 3}, 4);
}

static struct bell_tensor *
block(struct bell_tensor *x)
{
    struct bell_tensor *y = norm(x), *q = heads(y), *k = heads(y);

    y = bell_scaled_dot_product_attention(q, k, heads(y), NULL, 0, true, 0);
    y = bell_reshape(bell_permute(y, (int64_t[]){0, 2, 1, 3}, 4),
                     BELL_DIMS(STEPS, WIDTH));
    x = bell_add(x, linear(y, WIDTH, WIDTH));
    y = bell_gelu(linear(norm(x), WIDTH, 4 * WIDTH), true);
    return bell_add(x, linear(y, 4 * WIDTH, WIDTH));
}

static struct bell_tensor *
transformer(void)
{
    struct bell_tensor *x = INPUT(BELL_FLOAT32, STEPS, WIDTH);
    struct bell_tensor *y = INPUT(BELL_INT32, STEPS);
    int i;

    for (i = 0; i < LAYERS; i++)
        x = block(x);
    x = bell_linear(norm(x), PARAM(WORDS, WIDTH), NULL);
    return bell_cross_entropy(x, y, 0, BELL_IGNORE_NONE, BELL_MEAN);
}

static struct bell_tensor *
conv(struct bell_tensor *x, int64_t in, int64_t out, int64_t size)
{
    struct bell_tensor *w = PARAM(out, in, size, size);

    return bell_relu(bell_conv2d(x, w, PARAM(out), NULL));
}

static struct bell_tensor *
digits(void)
{
    static const struct bell_pool_options pairs = {.struct_size = sizeof(pairs),
                                                   .kernel = {2, 2}};
    struct bell_tensor *x = INPUT(BELL_FLOAT32, BATCH, 1, 28, 28);
    struct bell_tensor *y = INPUT(BELL_INT32, BATCH);

    x = bell_max_pool2d(conv(conv(x, 1, 32, 5), 32, 32, 5), &pairs);
    x = bell_max_pool2d(conv(conv(x, 32, 64, 3), 64, 64, 3), &pairs);
    x = linear(bell_reshape(x, BELL_DIMS(BATCH, 576)), 576, 10);
    return bell_cross_entropy(x, y, 0, BELL_IGNORE_NONE, BELL_MEAN);
}

static void
check_step(const char *device, const char *what,
           struct bell_tensor *(*build)(void))
{
    static const struct bell_adam_options options = {
        .struct_size = sizeof(options), .lr = 1e-3};
    struct bell_optimizer *opt;
    struct bell_tensor *loss;
    struct bell_stats stats = {.struct_size = sizeof(stats)};

    expect_ok(bell_context_create(device, &ctx));
    n_params = 0;
    loss = build();
    expect_ok(bell_adam_create(params, n_params, &options, &opt));
    expect_ok(bell_backward(loss));
    expect_ok(bell_optimizer_step(opt, &loss, 1));
    bell_context_stats(ctx, &stats);
    print_message("%s on %s: %.2f MB of results, %.2f MB between, of which "
                  "%.2f are alive at once: %.4f times as much\n",
                  what, device, (double)stats.result_bytes * 1e-6,
                  (double)stats.scratch_bytes * 1e-6,
                  (double)stats.alive_bytes * 1e-6,
                  (double)stats.scratch_bytes / (double)stats.alive_bytes);
    assert_true(stats.alive_bytes > 1000000);
    assert_true((double)stats.scratch_bytes <= 1.1 * (double)stats.alive_bytes);
    assert_int_equal(stats.peak_bytes,
                     stats.scratch_bytes + stats.result_bytes);
    bell_optimizer_destroy(opt);
    bell_context_destroy(ctx);
}

static void
test_steps(void **state)
{
    size_t i;

    (void)state;
    for (i = 0; i < ARRAY_LEN(devices); i++) {
        check_step(devices[i], "12 layers", transformer);
        check_step(devices[i], "conv on MNIST", digits);
    }
}

/* Products that could share a launch, each read twice: all at once they would
 * take eight times the memory of one. */
static void
test_launches(void **state)
{
    static const int64_t last = 1;
    struct bell_tensor *a, *x, *out[8];
    struct bell_stats stats = {.struct_size = sizeof(stats)};
    size_t i, k;

    (void)state;
    for (i = 0; i < ARRAY_LEN(devices); i++) {
        expect_ok(bell_context_create(devices[i], &ctx));
        a = bell_empty(ctx, BELL_DIMS(2048, 64), BELL_FLOAT32);
        expect_ok(bell_realize1(a));
        for (k = 0; k < ARRAY_LEN(out); k++) {
            x = bell_empty(ctx, BELL_DIMS(64, 4096), BELL_FLOAT32);
            expect_ok(bell_realize1(x));
            x = bell_matmul(a, x);
            out[k] = bell_add(bell_max(x, &last, 1, false),
                              bell_sum(x, &last, 1, false));
        }
        expect_ok(bell_compile(out, ARRAY_LEN(out)));
        bell_context_stats(ctx, &stats);
        print_message("products on %s: %.2f MB in %d kernels\n", devices[i],
                      (double)stats.scratch_bytes * 1e-6,
                      (int)stats.n_kernels_planned);
        assert_true(stats.scratch_bytes >= 2048 * 4096 * 4);
        assert_true(stats.scratch_bytes <= 3 * 2048 * 4096 * 4 + 100000);
        bell_context_destroy(ctx);
    }
}

static struct bell_tensor *
gelu(struct bell_tensor *x)
{
    return bell_gelu(x, false);
}

static struct bell_tensor *
gelu_tanh(struct bell_tensor *x)
{
    return bell_gelu(x, true);
}

/* An activation between two products keeps its input and its result for the way
 * back, and nothing that lies between; with the gradient of one of them that is
 * three at once. */
static void
test_activations(void **state)
{
    static struct bell_tensor *(*const acts[])(struct bell_tensor *) = {
        gelu, gelu_tanh, bell_silu, bell_mish};
    const uint64_t wide = 256 * 2048 * 4, narrow = 256 * 512 * 4;
    struct bell_tensor *x, *w[3], *g[3];
    struct bell_stats stats = {.struct_size = sizeof(stats)};
    size_t i, k;

    (void)state;
    for (i = 0; i < ARRAY_LEN(devices) * ARRAY_LEN(acts); i++) {
        const char *device = devices[i % ARRAY_LEN(devices)];
        expect_ok(bell_context_create(device, &ctx));
        x = bell_empty(ctx, BELL_DIMS(256, 512), BELL_FLOAT32);
        w[0] = bell_empty(ctx, BELL_DIMS(512, 2048), BELL_FLOAT32);
        w[1] = bell_empty(ctx, BELL_DIMS(2048), BELL_FLOAT32);
        w[2] = bell_empty(ctx, BELL_DIMS(2048, 512), BELL_FLOAT32);
        expect_ok(bell_realize1(x));
        expect_ok(bell_realize(w, 3));
        k = i / ARRAY_LEN(devices);
        x = acts[k](bell_add(bell_matmul(x, w[0]), w[1]));
        x = bell_matmul(x, w[2]);
        x = bell_sum(bell_mul(x, x), BELL_NO_DIMS, false);
        expect_ok(bell_gradient(x, w, 3, g));
        expect_ok(bell_compile(g, 3));
        bell_context_stats(ctx, &stats);
        print_message("activation %zu on %s: %.2f MB in %d kernels\n", k,
                      device, (double)stats.scratch_bytes * 1e-6,
                      (int)stats.n_kernels_planned);
        assert_true(stats.scratch_bytes >= 2 * wide);
        assert_true(stats.scratch_bytes <= 3 * wide + 2 * narrow + 100000);
        bell_context_destroy(ctx);
    }
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_steps),
        cmocka_unit_test(test_launches),
        cmocka_unit_test(test_activations),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
