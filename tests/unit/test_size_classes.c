/* Kernels for sizes far below a symbol's bound, on GPUs: the class of a size
 * depends on it alone, and with it the bits, by a jit too. At a class's bound
 * they are those of the plain size. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include "base/bits.h"
#include "doorbell/dim.h"
#include "doorbell/jit.h"
#include "doorbell/ops.h"
#include "doorbell/stats.h"

#define MOST  64
#define WIDTH 64
#define BYTES (MOST * WIDTH * sizeof(uint16_t))

static const char *const devices[] = {"NV@sim:sm_90", "AMD@sim:gfx942",
                                      "QCOM@sim:a740"};

/* In an order that meets each class twice, with others between; bounds of
 * classes are powers of two. */
static const int64_t sizes[] = {64, 16, 10, 64, 5, 10, 16};

struct layer {
    struct bell_context *ctx;
    struct bell_tensor *x, *w;
    struct bell_dim n;
};

static struct bell_tensor *
values(struct bell_context *ctx, int64_t rows)
{
    uint16_t *data = malloc((size_t)rows * WIDTH * sizeof(*data));
    struct bell_tensor *t;
    int64_t i;

    assert_non_null(data);
    for (i = 0; i < rows * WIDTH; i++) /* bfloat16, 0.5 to 2 in both signs */
        data[i] =
            (uint16_t)(0x3f00 + i * 7919 % 0xff + (i * 31 % 7 < 3) * 0x8000);
    t = bell_from_data(ctx, BELL_DIMS(rows, WIDTH), BELL_BFLOAT16, data);
    free(data);
    return t;
}

/* A product and a softmax over the n keys: rows and sums are of n. */
static struct bell_tensor *
layer(const struct layer *l, struct bell_dim n)
{
    struct bell_tensor *x = bell_narrow(l->x, 0, 0, n);
    struct bell_tensor *y = bell_matmul(x, l->w);

    y = bell_matmul(y, bell_transpose(x, 0, 1));
    return bell_matmul(bell_softmax(y, -1), x);
}

static void
begin(struct layer *l, const char *device)
{
    assert_int_equal(bell_context_create(device, &l->ctx), BELL_OK);
    l->x = values(l->ctx, MOST);
    l->w = values(l->ctx, WIDTH);
    assert_int_equal(bell_realize1(l->x), BELL_OK);
    assert_int_equal(bell_realize1(l->w), BELL_OK);
    l->n = bell_symbol(l->ctx, "n", 1, MOST);
}

static void
run(const struct layer *l, struct bell_dim n, int64_t now, void *out)
{
    assert_int_equal(bell_scope_begin(l->ctx), BELL_OK);
    assert_int_equal(bell_symbol_set(l->ctx, l->n, now), BELL_OK);
    assert_int_equal(
        bell_read(layer(l, n), out, (size_t)now * WIDTH * sizeof(uint16_t)),
        BELL_OK);
    assert_int_equal(bell_scope_end(l->ctx), BELL_OK);
}

static bell_status
captured(struct bell_context *ctx, void *user, struct bell_tensor *const *in,
         struct bell_tensor **out)
{
    const struct layer *l = user;

    (void)ctx, (void)in;
    out[0] = layer(l, l->n);
    return BELL_OK;
}

static uint64_t
count_plans(const struct layer *l, uint64_t *kernels)
{
    struct bell_stats stats = {.struct_size = sizeof(stats)};

    bell_context_stats(l->ctx, &stats);
    *kernels = stats.n_kernels_compiled + stats.n_kernels_found;
    return stats.n_plans;
}

static void
test_device(const char *device)
{
    static uint16_t got[ARRAY_LEN(sizes)][BYTES / 2], want[BYTES / 2];
    uint64_t n_plans, n_kernels[ARRAY_LEN(sizes)];
    struct bell_jit_desc desc = {.struct_size = sizeof(desc),
                                 .name = "layer",
                                 .fn = captured,
                                 .n_out = 1};
    struct bell_jit *jit;
    struct bell_tensor *y;
    struct layer l, plain;
    size_t i, k, bytes;

    begin(&l, device);
    begin(&plain, device);
    for (i = 0; i < ARRAY_LEN(sizes); i++) {
        bytes = (size_t)sizes[i] * WIDTH * sizeof(uint16_t);
        run(&l, l.n, sizes[i], got[i]);
        n_plans = count_plans(&l, &n_kernels[i]);
        assert_int_equal(n_plans, 1);
        for (k = 0; k < i && sizes[k] != sizes[i]; k++)
            continue;
        if (k < i) { /* nothing is compiled, and the bits are those */
            assert_int_equal(n_kernels[i], n_kernels[i - 1]);
            assert_memory_equal(got[i], got[k], bytes);
        }
        if ((sizes[i] & (sizes[i] - 1)) == 0) {
            run(&plain, bell_dim_of(sizes[i]), sizes[i], want);
            assert_memory_equal(got[i], want, bytes);
        }
    }
    assert_true(n_kernels[1] > n_kernels[0]);
    assert_int_equal(n_kernels[2], n_kernels[1]);
    desc.user = &l;
    assert_int_equal(bell_jit_create(l.ctx, &desc, &jit), BELL_OK);
    for (i = 0; i < ARRAY_LEN(sizes); i++) {
        bytes = (size_t)sizes[i] * WIDTH * sizeof(uint16_t);
        assert_int_equal(bell_symbol_set(l.ctx, l.n, sizes[i]), BELL_OK);
        assert_int_equal(bell_jit_call(jit, NULL, &y), BELL_OK);
        assert_int_equal(bell_read(y, want, bytes), BELL_OK);
        assert_memory_equal(got[i], want, bytes);
    }
    bell_jit_destroy(jit);
    bell_context_destroy(l.ctx);
    bell_context_destroy(plain.ctx);
}

static void
test_classes(void **state)
{
    size_t i;

    (void)state;
    for (i = 0; i < ARRAY_LEN(devices); i++)
        test_device(devices[i]);
}

/* Two kernels that share a launch for the bounds, and cannot for 17 of 34. */
static void
test_launch(void **state)
{
    static uint8_t bytes[34];
    static float values[32 * 34];
    struct bell_context *ctx;
    struct bell_tensor *y[2];
    struct bell_dim n;
    int64_t now, sum, i;

    (void)state;
    for (i = 0; i < 34; i++)
        bytes[i] = (uint8_t)(i % 5);
    assert_int_equal(bell_context_create("NV@sim:sm_90", &ctx), BELL_OK);
    n = bell_symbol(ctx, "n", 3, 34);
    for (now = 34; now > 2; now -= 17 - (now < 34) * 3) {
        assert_int_equal(bell_symbol_set(ctx, n, now), BELL_OK);
        y[0] = bell_cumsum(
            bell_from_data(ctx, BELL_SHAPE(n, 1), BELL_UINT8, bytes), 0);
        y[1] = bell_var(
            bell_from_data(ctx, BELL_SHAPE(32, n), BELL_FLOAT32, values),
            BELL_DIMS(0), true, 0);
        if (bell_realize(y, 2) != BELL_OK)
            fail_msg("%d: %s", (int)now, bell_error_last()->message);
        for (i = 0, sum = 0; i < now; i++)
            sum += bytes[i];
        assert_int_equal(bell_item_i64(bell_max(y[0], BELL_NO_DIMS, false), &i),
                         BELL_OK);
        assert_int_equal(i, sum);
    }
    bell_context_destroy(ctx);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_classes),
        cmocka_unit_test(test_launch),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
