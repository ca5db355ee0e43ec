/* How many kernels programs become on GPUs of the size that real ones have.
 * Nothing runs: they are compiled only. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "base/bits.h"
#include "doorbell/ops.h"
#include "doorbell/stats.h"
#include "doorbell/tensor.h"
#include "tests/unit/expect.h"

static const char *const devices[] = {"NV@sim:sm_90,sms=132", "AMD@sim:gfx942"};

static struct bell_context *ctx;

static struct bell_tensor *
input(const int64_t *shape, uint32_t ndim)
{
    struct bell_tensor *x = bell_empty(ctx, shape, ndim, BELL_BFLOAT16);

    expect_ok(bell_realize1(x));
    return x;
}
#define INPUT(...) input(BELL_DIMS(__VA_ARGS__))

static void
expect_kernels(const char *what, struct bell_tensor *t, uint64_t most)
{
    struct bell_stats before, after;

    bell_context_stats(ctx, &before);
    expect_ok(bell_compile(&t, 1));
    bell_context_stats(ctx, &after);
    after.n_kernels_planned -= before.n_kernels_planned;
    if (after.n_kernels_planned > most)
        fail_msg("%s on %s: %d kernels, not %d", what, bell_context_device(ctx),
                 (int)after.n_kernels_planned, (int)most);
}

/* n x 768, of heads: 12 of n x 64. */
static struct bell_tensor *
heads(struct bell_tensor *x, int64_t n)
{
    return bell_permute(bell_reshape(x, BELL_DIMS(1, n, 12, 64)),
                        (int64_t[]){0, 2, 1, 3}, 4);
}

/* A block of GPT-2's, forward. */
static struct bell_tensor *
block(int64_t n)
{
    struct bell_tensor *x = INPUT(n, 768), *y, *part[3];
    int i;

    y = bell_layer_norm(x, 1, INPUT(768), INPUT(768), 1e-5);
    for (i = 0; i < 3; i++)
        part[i] = heads(bell_linear(y, INPUT(768, 768), INPUT(768)), n);
    y = bell_scaled_dot_product_attention(part[0], part[1], part[2], NULL, 0,
                                          true, 0);
    y = bell_reshape(bell_permute(y, (int64_t[]){0, 2, 1, 3}, 4),
                     BELL_DIMS(n, 768));
    x = bell_add(x, bell_linear(y, INPUT(768, 768), INPUT(768)));
    y = bell_layer_norm(x, 1, INPUT(768), INPUT(768), 1e-5);
    y = bell_gelu(bell_linear(y, INPUT(3072, 768), INPUT(3072)), true);
    return bell_add(x, bell_linear(y, INPUT(768, 3072), INPUT(768)));
}

static void
test_kernels(void **state)
{
    size_t i;

    (void)state;
    for (i = 0; i < ARRAY_LEN(devices); i++) {
        struct bell_tensor *x, *w;
        expect_ok(bell_context_create(devices[i], &ctx));
        x = INPUT(4096, 4096);
        w = INPUT(4096, 4096);
        expect_kernels("softmax", bell_softmax(x, -1), 1);
        expect_kernels("log_softmax", bell_log_softmax(x, -1), 1);
        expect_kernels("layer_norm", bell_layer_norm(x, 1, NULL, NULL, 1e-5),
                       1);
        expect_kernels("rms_norm", bell_rms_norm(x, NULL, 1e-5), 1);
        expect_kernels("argmax", bell_argmax(x, -1, false), 1);
        expect_kernels("softmax of a product",
                       bell_softmax(bell_matmul(x, w), -1), 2);
        expect_kernels("attention",
                       bell_scaled_dot_product_attention(
                           INPUT(16, 2048, 128), INPUT(16, 2048, 128),
                           INPUT(16, 2048, 128), NULL, 0, false, 0),
                       3);
        expect_kernels("a block", block(1024), 11);
        bell_context_destroy(ctx);
    }
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_kernels),
    };

    return cmocka_run_group_tests_name("fusion", tests, NULL, NULL);
}
