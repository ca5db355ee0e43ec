/* How often shared memory is asked for, beside the least that the bytes take
 * were no bank asked for two words at once: of kernels for chips of the size
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
                                          "AMD@sim:gfx1201", "NV@sim:h100"};
    uint32_t i;

    (void)state;
    for (i = 0; i < ARRAY_LEN(devices); i++) {
        expect_ok(bell_context_create(devices[i], &ctx));
        check_attention(BELL_BFLOAT16, 64);
        check_attention(BELL_BFLOAT16, 128);
        check_attention(BELL_FLOAT32, 64);
        if (i < 2) {
            check_attention(BELL_BFLOAT16, 32);
            check_attention(BELL_BFLOAT16, 96);
        }
        bell_context_destroy(ctx);
    }
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_attention),
    };

    return cmocka_run_group_tests_name("wavefronts", tests, NULL, NULL);
}
