/* How often shared memory is asked for, beside the least that the bytes take if
 * each bank is asked for one word at a time, whether loads are of 16 bytes, and
 * whether what heads share is loaded once: of kernels for chips of the size
 * that real ones have, a few of whose work-groups are run. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/bits.h"
#include "doorbell/ops.h"
#include "doorbell/tensor.h"
#include "ioctl/sim_count.h"
#include "tensor/runtime/ir.h"
#include "tests/unit/expect.h"

static struct bell_context *ctx;
static uint32_t n_checked; /* kernels that use shared memory */
static uint32_t n_lanes;   /* whose loads are of 16 bytes each; 0: not asked */

static struct bell_tensor *
input(const int64_t *shape, uint32_t ndim, enum bell_dtype dtype)
{
    struct bell_tensor *x = bell_empty(ctx, shape, ndim, dtype);

    expect_ok(bell_realize1(x));
    return x;
}

static void
check_kernel(void *user, size_t number)
{
    struct sim_counts c;

    sim_count_take(&c);
    if (!c.least_wavefronts)
        return;
    print_message("%s: %s: kernel %zu: %.3g wavefronts, %.2f of the least\n",
                  bell_context_device(ctx), (const char *)user, number,
                  (double)c.n_wavefronts,
                  (double)c.n_wavefronts / (double)c.least_wavefronts);
    n_checked++;
    if (n_lanes && c.n_insns[SIM_INSN_MATRIX] &&
        c.loaded_bytes < (uint64_t)16 * n_lanes * c.n_loads)
        fail_msg("%s: %.1f bytes a load", (const char *)user,
                 (double)c.loaded_bytes / (double)c.n_loads / n_lanes);
    if (10 * c.n_wavefronts > 11 * c.least_wavefronts)
        fail_msg("%s: %llu wavefronts, at least %llu", (const char *)user,
                 (unsigned long long)c.n_wavefronts,
                 (unsigned long long)c.least_wavefronts);
}

/* Each kernel, at most 1.1 times the least. */
static void
expect_few(const char *what, struct bell_tensor *t)
{
    n_checked = 0;
    expect_ok(tensor_watch_kernels(ctx, check_kernel, (void *)(uintptr_t)what));
    sim_count_begin(2);
    expect_ok(bell_realize1(t));
    sim_count_end();
    expect_ok(tensor_watch_kernels(ctx, NULL, NULL));
    assert_true(n_checked > 0);
}

static void
check_attention(enum bell_dtype dtype, int64_t size)
{
    struct bell_tensor *x[3], *y;
    uint32_t i;

    for (i = 0; i < 3; i++)
        x[i] = input(BELL_DIMS(1, 80, 128, size), dtype);
    y = bell_scaled_dot_product_attention(x[0], x[1], x[2], NULL, 0, size == 64,
                                          0);
    expect_few("attention", y);
}

static void
test_attention(void **state)
{
    static const char *const devices[] = {"AMD@sim:mi300x", "AMD@sim:rx7900xtx",
                                          "AMD@sim:gfx1201", "NV@sim:a100"};
    uint32_t i;

    (void)state;
    for (i = 0; i < ARRAY_LEN(devices); i++) {
        expect_ok(bell_context_create(devices[i], &ctx));
        check_attention(BELL_BFLOAT16, 64);
        check_attention(BELL_BFLOAT16, 128);
        check_attention(BELL_FLOAT32, 64);
        if (i != 2) {
            check_attention(BELL_BFLOAT16, 32);
            check_attention(BELL_BFLOAT16, 96);
        }
        if (i == 3) {
            check_attention(BELL_BFLOAT16, 48);
            check_attention(BELL_BFLOAT16, 80);
        }
        bell_context_destroy(ctx);
    }
}

/* ---- heads that share keys ---- */

static double n_loaded; /* bytes, by all work-groups */

static void
add_loaded(void *user, size_t number)
{
    struct sim_counts c;

    (void)user;
    (void)number;
    sim_count_take(&c);
    n_loaded +=
        (double)c.loaded_bytes * (double)c.n_groups / (double)c.n_groups_run;
}

/* How a user may write it. */
enum way {
    REPEATED, /* repeat_interleave of k and v */
    BY_HAND,  /* softmax(q @ k.T * s) @ v of expanded ones */
    FOLDED,   /* q's heads as two axes */
    WAYS
};

static struct bell_tensor *
attend_shared(enum way way, struct bell_tensor *const x[3], int64_t group)
{
    const int64_t *q = bell_shape(x[0]), *k = bell_shape(x[1]);
    struct bell_tensor *y[3] = {x[0], x[1], x[2]};
    int64_t i;

    if (way == FOLDED)
        y[0] = bell_reshape(x[0], BELL_DIMS(k[1], group, q[2], q[3]));
    for (i = 1; i < 3; i++) {
        if (way == REPEATED) {
            y[i] = bell_repeat_interleave(x[i], group, 1);
            continue;
        }
        y[i] = bell_reshape(x[i], BELL_DIMS(k[1], 1, k[2], k[3]));
        if (way == FOLDED)
            continue;
        y[i] = bell_expand(y[i], BELL_DIMS(k[1], group, k[2], k[3]));
        y[i] = bell_reshape(y[i], BELL_DIMS(1, q[1], k[2], k[3]));
    }
    if (way != BY_HAND)
        return bell_scaled_dot_product_attention(y[0], y[1], y[2], NULL, 0,
                                                 false, 0);
    y[0] = bell_matmul(y[0], bell_transpose(y[1], 2, 3));
    y[0] = bell_softmax(bell_mul(y[0], bell_scalar(ctx, 0.125)), -1);
    return bell_matmul(y[0], y[2]);
}

/* k and v of all heads are loaded about once; beside them a work-group loads
 * its queries, and results of parts are joined. */
static void
check_shared(const char *device, int64_t heads, int64_t group, int64_t queries,
             int64_t keys, int64_t size)
{
    struct bell_tensor *x[3];
    double least;
    int way;

    expect_ok(bell_context_create(device, &ctx));
    x[0] = input(BELL_DIMS(1, heads, queries, size), BELL_BFLOAT16);
    x[1] = input(BELL_DIMS(1, heads / group, keys, size), BELL_BFLOAT16);
    x[2] = input(BELL_DIMS(1, heads / group, keys, size), BELL_BFLOAT16);
    least = 2 * 2 * (double)(heads / group * keys * size);
    for (way = 0; way < WAYS; way++) {
        struct bell_tensor *y = attend_shared((enum way)way, x, group);
        n_loaded = 0;
        expect_ok(tensor_watch_kernels(ctx, add_loaded, NULL));
        sim_count_begin(4);
        expect_ok(bell_realize1(y));
        sim_count_end();
        expect_ok(tensor_watch_kernels(ctx, NULL, NULL));
        print_message("%s, %d heads, %d share keys, way %d: %.2f of the least "
                      "bytes\n",
                      device, (int)heads, (int)group, way, n_loaded / least);
        if (n_loaded > 1.5 * least)
            fail_msg("%.4g bytes loaded, keys and values are %.4g", n_loaded,
                     least);
    }
    bell_context_destroy(ctx);
}

static void
test_shared_keys(void **state)
{
    static const char *const devices[] = {"NV@sim:h100", "AMD@sim:mi300x"};
    uint32_t i;

    (void)state;
    for (i = 0; i < ARRAY_LEN(devices); i++) {
        check_shared(devices[i], 32, 4, 1, 8192, 128);
        check_shared(devices[i], 64, 8, 1, 32768, 64);
        check_shared(devices[i], 24, 3, 2, 4096, 128);
    }
}

/* ---- products ---- */

static void
check_product(enum bell_dtype dtype, int64_t n_rows, bool turn_x, bool turn_w)
{
    struct bell_tensor *x, *w;
    int64_t n = n_rows < 16 ? 4096 : 2048, k = n_rows < 16 ? 4096 : 512;

    x = turn_x ? input(BELL_DIMS(k, n_rows), dtype)
               : input(BELL_DIMS(n_rows, k), dtype);
    w = turn_w ? input(BELL_DIMS(n, k), dtype) : input(BELL_DIMS(k, n), dtype);
    expect_few(turn_x   ? "x.T @ w"
               : turn_w ? "x @ w.T"
                        : "x @ w",
               bell_matmul(turn_x ? bell_t(x) : x, turn_w ? bell_t(w) : w));
}

static void
check_conv(int64_t channels, int64_t size, int64_t window, int64_t stride)
{
    struct bell_conv_options options = {.struct_size = sizeof(options),
                                        .stride = {stride, stride},
                                        .padding = {window / 2, window / 2}};
    struct bell_tensor *x, *w;

    x = input(BELL_DIMS(8, channels, size, size), BELL_BFLOAT16);
    w = input(BELL_DIMS(64, channels, window, window), BELL_BFLOAT16);
    expect_few("conv2d", bell_conv2d(x, w, NULL, &options));
}

/* Products as they are written, and turned; a convolution that is one. */
static void
check_wide(uint32_t lanes)
{
    n_lanes = lanes;
    check_product(BELL_BFLOAT16, 2048, false, false);
    check_product(BELL_BFLOAT16, 2048, false, true);
    check_product(BELL_BFLOAT16, 2048, true, false);
    check_conv(64, 56, 1, 1);
    n_lanes = 0;
}

static void
test_products(void **state)
{
    (void)state;
    expect_ok(bell_context_create("AMD@sim:mi300x", &ctx));
    check_wide(64);
    check_product(BELL_BFLOAT16, 8, false, false);
    check_product(BELL_BFLOAT16, 16, false, false);
    check_product(BELL_FLOAT32, 2048, false, false);
    check_product(BELL_INT8, 2048, false, true);
    check_conv(3, 64, 7, 2);
    check_conv(64, 28, 3, 1); /* copied channels last */
    bell_context_destroy(ctx);
    expect_ok(bell_context_create("AMD@sim:rx7900xtx", &ctx));
    check_wide(32);
    check_product(BELL_BFLOAT16, 8, false, true);
    check_conv(64, 56, 3, 1);
    check_conv(3, 64, 7, 2);
    bell_context_destroy(ctx);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_attention),
        cmocka_unit_test(test_shared_keys),
        cmocka_unit_test(test_products),
    };

    return cmocka_run_group_tests_name("wavefronts", tests, NULL, NULL);
}
