/* Kernels that do not wait for each other in one launch, on the device that
 * BELL_DEVICE names: the same bits as each in a launch of its own, and fewer
 * launches. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/bits.h"
#include "doorbell/nn.h"
#include "doorbell/ops.h"
#include "doorbell/stats.h"
#include "doorbell/tensor.h"
#include "tensor/runtime/runtime.h"
#include "tensor/core/tensor_internal.h"
#include "tests/unit/expect.h"

#define MAX_OUT 80

static struct bell_context *ctx;
static const struct lower_target *packs_for;
static uint32_t noise;

static uint64_t
n_launches(void)
{
    struct bell_stats stats = {.struct_size = sizeof(stats)};

    bell_context_stats(ctx, &stats);
    return stats.n_launches;
}

/* Numbers from -9 to 9, others each time. */
static struct bell_tensor *
given(enum bell_dtype dtype, const int64_t *shape, uint32_t ndim)
{
    struct bell_tensor *x;
    size_t n = 1, i;
    float *data;

    for (i = 0; i < ndim; i++)
        n *= (size_t)shape[i];
    data = malloc(n * sizeof(*data));
    assert_non_null(data);
    for (i = 0; i < n; i++) {
        noise = noise * 1103515245u + 12345u;
        data[i] = (float)(noise >> 8 & 0xffff) / 3641 - 9;
    }
    x = bell_cast(bell_from_data(ctx, shape, ndim, BELL_FLOAT32, data), dtype);
    free(data);
    expect_ok(bell_realize1(x));
    return x;
}
#define GIVEN(dtype, ...) given(dtype, BELL_DIMS(__VA_ARGS__))

/* What a program makes, from the same seed. */
struct made {
    void *data[MAX_OUT];
    size_t n_bytes[MAX_OUT];
    uint32_t n;
    uint64_t n_launches;
};

typedef uint32_t program(struct bell_tensor **out);

static void
run(program *make, bool packs, struct made *made)
{
    struct bell_tensor *out[MAX_OUT];
    uint64_t before;
    uint32_t i;

    expect_ok(bell_context_create(NULL, &ctx));
    noise = 7;
    expect_ok(bell_realize1(bell_zeros(ctx, BELL_DIMS(1), BELL_FLOAT32)));
    packs_for = ctx->runtime->sched_target.packs_for;
    if (!packs)
        ctx->runtime->sched_target.packs_for = NULL;
    made->n = make(out);
    before = n_launches();
    expect_ok(bell_realize(out, made->n));
    made->n_launches = n_launches() - before;
    for (i = 0; i < made->n; i++) {
        made->n_bytes[i] =
            (size_t)bell_numel(out[i]) * bell_dtype_size(bell_dtype_of(out[i]));
        made->data[i] = malloc(made->n_bytes[i] + 1);
        assert_non_null(made->data[i]);
        expect_ok(bell_read(out[i], made->data[i], made->n_bytes[i]));
    }
    bell_context_destroy(ctx);
}

/* Packs save at least so many launches where there are any. */
static void
compare(program *make, uint64_t least)
{
    struct made with, without;
    uint32_t i;

    run(make, true, &with);
    run(make, false, &without);
    assert_int_equal(with.n, without.n);
    for (i = 0; i < with.n; i++) {
        assert_int_equal(with.n_bytes[i], without.n_bytes[i]);
        if (memcmp(with.data[i], without.data[i], with.n_bytes[i]) != 0)
            fail_msg("output %u is another one", i);
        free(with.data[i]);
        free(without.data[i]);
    }
    if (packs_for && with.n_launches + least > without.n_launches)
        fail_msg("%u launches, %u without packs", (unsigned)with.n_launches,
                 (unsigned)without.n_launches);
    if (!packs_for)
        assert_int_equal(with.n_launches, without.n_launches);
}

/* ---- programs ---- */

/* Elementwise, of every width of number, of sizes that no group divides. */
static uint32_t
dtypes(struct bell_tensor **out)
{
    static const enum bell_dtype list[] = {
        BELL_FLOAT32, BELL_FLOAT16, BELL_BFLOAT16, BELL_INT8,
        BELL_INT64,   BELL_UINT16,  BELL_BOOL};
    uint32_t n = 0;
    size_t i;

    for (i = 0; i < ARRAY_LEN(list); i++) {
        struct bell_tensor *x = GIVEN(list[i], 3 + (int64_t)i * 37, 5);
        out[n++] = list[i] == BELL_BOOL ? bell_logical_not(x)
                                        : bell_add(x, bell_mul(x, x));
    }
    return n;
}

/* One element beside many; nothing at all; an input of several kernels. */
static uint32_t
sizes(struct bell_tensor **out)
{
    struct bell_tensor *x = GIVEN(BELL_FLOAT32, 100003);
    struct bell_tensor *one = GIVEN(BELL_FLOAT32, 1);
    struct bell_tensor *none = bell_zeros(ctx, BELL_DIMS(0, 4), BELL_FLOAT32);

    out[0] = bell_add_scalar(x, 1);
    out[1] = bell_exp(one);
    out[2] = bell_add_scalar(none, 1);
    out[3] = bell_mul(bell_narrow(x, 0, 5, 77), one);
    out[4] = bell_flip(x, (int64_t[]){0}, 1);
    return 5;
}

/* Work-groups that work together beside those that do not: reductions of rows,
 * of columns, of all; softmaxes. */
static uint32_t
reductions(struct bell_tensor **out)
{
    struct bell_tensor *x = GIVEN(BELL_FLOAT32, 65, 300);
    struct bell_tensor *y = GIVEN(BELL_FLOAT32, 7, 1031);
    struct bell_tensor *h = GIVEN(BELL_FLOAT16, 33, 129);

    out[0] = bell_sum(x, (int64_t[]){1}, 1, false);
    out[1] = bell_max(y, (int64_t[]){0}, 1, false);
    out[2] = bell_softmax(y, 1);
    out[3] = bell_sum(h, NULL, 0, false);
    out[4] = bell_argmax(h, 1, false);
    out[5] = bell_relu(x);
    out[6] = bell_cumsum(y, 1);
    out[7] = bell_sin(x); /* with a branch, for great angles */
    out[8] = bell_cos(x);
    return 9;
}

/* One condition for branches in several loops: rows' maxima, their sums, what
 * is stored. */
static uint32_t
conditions(struct bell_tensor **out)
{
    struct bell_tensor *x = GIVEN(BELL_FLOAT16, 31, 2, 1);
    struct bell_tensor *is_turned = GIVEN(BELL_BOOL, 1, 1, 1);
    struct bell_tensor *turned = bell_roll(bell_cast(x, BELL_UINT32), 5, -2);

    out[0] = bell_softmax(bell_where(is_turned, turned, x), 0);
    out[1] = bell_add_scalar(x, 1);
    return 2;
}

/* Products with and without matrix instructions, in packs of their own. */
static uint32_t
products(struct bell_tensor **out)
{
    struct bell_tensor *x = GIVEN(BELL_FLOAT16, 64, 96);
    struct bell_tensor *y = GIVEN(BELL_BFLOAT16, 50, 70);
    uint32_t i;

    for (i = 0; i < 3; i++)
        out[i] = bell_matmul(x, GIVEN(BELL_FLOAT16, 96, 32 << i));
    out[3] = bell_matmul(y, GIVEN(BELL_BFLOAT16, 70, 33));
    out[4] =
        bell_matmul(GIVEN(BELL_FLOAT32, 20, 30), GIVEN(BELL_FLOAT32, 30, 10));
    out[5] = bell_add_scalar(y, 1);
    return 6;
}

/* Rows of kernels that wait for each other, beside others; memory of what was
 * read last is somebody else's soon. */
static uint32_t
chains(struct bell_tensor **out)
{
    uint32_t i, k;

    for (i = 0; i < 4; i++) {
        struct bell_tensor *x = GIVEN(BELL_FLOAT32, 9 + i, 200);
        for (k = 0; k < 2 + i; k++) {
            struct bell_tensor *sum = bell_sum(x, (int64_t[]){1}, 1, true);
            x = bell_contiguous(bell_sub(x, bell_mul_scalar(sum, 0.004)));
        }
        out[i] = x;
    }
    return 4;
}

/* More kernels, and buffers, than a launch takes. */
static uint32_t
many(struct bell_tensor **out)
{
    uint32_t i;

    for (i = 0; i < MAX_OUT; i++)
        out[i] = bell_mul(GIVEN(BELL_FLOAT32, 33), GIVEN(BELL_FLOAT32, 33));
    return MAX_OUT;
}

static void
packs(void **state)
{
    (void)state;
    compare(dtypes, 5);
    compare(sizes, 2);
    compare(reductions, 3);
    compare(conditions, 1);
    compare(products, 1);
    compare(chains, 4);
    compare(many, MAX_OUT - 4);
}

/* Steps of an optimiser whose numbers change: from the second on they are
 * arguments of the launch. The parameters are stored to while they are read. */
static double
train(bool with_packs)
{
    const struct bell_adam_options options = {.struct_size = sizeof(options),
                                              .lr = 0.01};
    struct bell_tensor *params[4], *x, *loss;
    struct bell_optimizer *opt;
    double last = 0;
    int i, step;

    expect_ok(bell_context_create(NULL, &ctx));
    noise = 3;
    for (i = 0; i < 4; i += 2) {
        params[i] = bell_requires_grad(GIVEN(BELL_FLOAT32, 20, 20), true);
        params[i + 1] = bell_requires_grad(GIVEN(BELL_FLOAT32, 20), true);
    }
    if (!with_packs)
        ctx->runtime->sched_target.packs_for = NULL;
    expect_ok(bell_adam_create(params, 4, &options, &opt));
    for (step = 0; step < 4; step++) {
        x = GIVEN(BELL_FLOAT32, 16, 20);
        for (i = 0; i < 4; i += 2)
            x = bell_tanh(bell_linear(x, params[i], params[i + 1]));
        loss = bell_mean(bell_mul(x, x), NULL, 0, false);
        expect_ok(bell_backward(loss));
        expect_ok(bell_optimizer_step(opt, &loss, 1));
        expect_ok(bell_read_f64(loss, &last, 1));
    }
    bell_optimizer_destroy(opt);
    bell_context_destroy(ctx);
    return last;
}

static void
steps(void **state)
{
    double with = train(true), without = train(false);

    (void)state;
    assert_memory_equal(&with, &without, sizeof(with));
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(packs),
        cmocka_unit_test(steps),
    };

    return cmocka_run_group_tests_name("pack", tests, NULL, NULL);
}
