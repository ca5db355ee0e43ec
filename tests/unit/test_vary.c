/* Numbers and offsets that differ from step to step are arguments of kernels:
 * a loop compiles them once, and gets what constants would give, to the
 * bit. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "base/bits.h"
#include "base/log.h"
#include "doorbell/nn.h"
#include "doorbell/ops.h"
#include "doorbell/stats.h"
#include "doorbell/tensor.h"
#include "tensor/runtime/runtime.h"
#include "tensor/core/tensor_internal.h"

#define N_ROWS      80
#define N_COLS      24
#define MAX_OUT     16384
#define LENGTH_COLS 16

/* What a step does with x (N_ROWS, N_COLS) and its number. */
typedef struct bell_tensor *step_fn(struct bell_tensor *x, int i);

static struct bell_tensor *
matrix(struct bell_context *ctx)
{
    static float values[N_ROWS * N_COLS];
    int i;

    for (i = 0; i < N_ROWS * N_COLS; i++)
        values[i] = (float)((i * 7919) % 1000) / 37 - 11;
    return bell_from_data(ctx, BELL_DIMS(N_ROWS, N_COLS), BELL_FLOAT32, values);
}

static size_t
run_step(struct bell_context *ctx, struct bell_tensor *x, step_fn *step, int i,
         void *out)
{
    struct bell_tensor *y;
    size_t size;

    assert_int_equal(bell_scope_begin(ctx), BELL_OK);
    y = step(x, i);
    size = (size_t)bell_nbytes(y);
    assert_true(size <= MAX_OUT);
    if (bell_read(y, out, size) != BELL_OK)
        fail_msg("step %d: %s", i, bell_error_last()->message);
    assert_int_equal(bell_scope_end(ctx), BELL_OK);
    return size;
}

/* Runs `n` steps; each is that of a context that has seen no other. Returns
 * the kernels compiled. */
static uint64_t
run_steps(const char *device, step_fn *step, int n)
{
    static uint8_t got[MAX_OUT], want[MAX_OUT];
    struct bell_context *ctx, *fresh;
    struct bell_stats stats = {.struct_size = sizeof(stats)};
    struct bell_tensor *x;
    size_t size;
    int i;

    assert_int_equal(bell_context_create(device, &ctx), BELL_OK);
    x = matrix(ctx);
    for (i = 0; i < n; i++) {
        size = run_step(ctx, x, step, i, got);
        assert_int_equal(bell_context_create(device, &fresh), BELL_OK);
        assert_int_equal(run_step(fresh, matrix(fresh), step, i, want), size);
        bell_context_destroy(fresh);
        if (memcmp(got, want, size) != 0)
            fail_msg("%s: step %d is other than alone", device, i);
    }
    bell_context_stats(ctx, &stats);
    bell_context_destroy(ctx);
    return stats.n_kernels_compiled;
}

static struct bell_tensor *
scaled(struct bell_tensor *x, int i)
{
    return bell_mul_scalar(x, 0.37 * i);
}

/* Times one is nothing to do. */
static struct bell_tensor *
scaled_from_one(struct bell_tensor *x, int i)
{
    return bell_mul_scalar(x, 0.37 * i - 1);
}

static struct bell_tensor *
shifted(struct bell_tensor *x, int i)
{
    return bell_sub_scalar(bell_exp(bell_add_scalar(x, -2 - i)), 0.7 * i + 1);
}

static struct bell_tensor *
sliced(struct bell_tensor *x, int i)
{
    return bell_mul_scalar(bell_narrow(x, 0, i * 16, 16), 3);
}

/* Rows that begin anywhere: 24 elements each. */
static struct bell_tensor *
rows_from(struct bell_tensor *x, int i)
{
    return bell_sum(bell_narrow(x, 0, 3 * i, 7), BELL_DIMS(1), false);
}

/* Columns: loads are no wider than what divides the offset. */
static struct bell_tensor *
columns_from(struct bell_tensor *x, int i)
{
    return bell_exp(bell_narrow(x, 1, 4 * (i % 5), 8));
}

static struct bell_tensor *
columns_odd(struct bell_tensor *x, int i)
{
    return bell_sum(bell_narrow(x, 1, 3 * i % 16, 8), BELL_DIMS(0), false);
}

/* A slice is put elsewhere; the gradient does the same the other way. */
static struct bell_tensor *
moved(struct bell_tensor *x, int i)
{
    const int64_t pads[] = {0, 0, i, 12 - i};

    return bell_sum(bell_pad(bell_narrow(x, 0, 2 * i, 9), pads, 4, 0.5),
                    BELL_DIMS(1), false);
}

static struct bell_tensor *
gradient(struct bell_tensor *x, int i)
{
    struct bell_tensor *loss, *dx;

    loss =
        bell_sum(bell_square(bell_narrow(x, 0, 8 * i, 8)), BELL_NO_DIMS, false);
    assert_int_equal(bell_gradient(loss, &x, 1, &dx), BELL_OK);
    return bell_sum(bell_mul_scalar(dx, 0.1 / (1 + i)), BELL_DIMS(1), false);
}

static struct bell_tensor *
product(struct bell_tensor *x, int i)
{
    return bell_matmul(bell_narrow(x, 0, i * 8, 8),
                       bell_transpose(bell_narrow(x, 0, 40 - i * 4, 20), 0, 1));
}

/* Numbers of other kinds: integers, halves, one that is an exponent. */
static struct bell_tensor *
mixed(struct bell_tensor *x, int i)
{
    struct bell_context *c = bell_context_of(x);
    struct bell_tensor *n = bell_arange(c, i, i + N_COLS, 1, BELL_INT32);
    struct bell_tensor *h =
        bell_mul_scalar(bell_cast(x, BELL_FLOAT16), 0.3 * i);

    n = bell_remainder(n, bell_scalar_int(c, i + 2));
    return bell_sum(bell_add(bell_pow_scalar(bell_abs(bell_mul(h, n)), 2),
                             bell_full(c, BELL_DIMS(1), i, BELL_FLOAT64)),
                    BELL_DIMS(0), false);
}

static void
check_loops(const char *device, bool by_factor)
{
    static const struct {
        const char *name;
        step_fn *step;
        int n;
        uint64_t most; /* kernels: with constants, then with arguments, but for
                        * what is an argument at once */
    } loops[] = {
        {"numbers", scaled, 7, 1},
        {"numbers from -1", scaled_from_one, 7, 2},
        {"terms", shifted, 5, 1},
        {"slices", sliced, 5, 1},
        {"rows", rows_from, 9, 1},
        {"columns", columns_from, 5, 2},
        {"odd columns", columns_odd, 6, 2},
        {"pads", moved, 6, 2},
        {"gradient", gradient, 6, 2},
        {"products", product, 6, 3},
        {"kinds of numbers", mixed, 5, 3},
    };
    size_t k;

    for (k = 0; k < ARRAY_LEN(loops); k++) {
        uint64_t n = run_steps(device, loops[k].step, loops[k].n);

        if (n > loops[k].most + by_factor)
            fail_msg("%s: %s: %u kernels", device, loops[k].name, (unsigned)n);
    }
}

static void
test_loops(void **state)
{
    (void)state;
    check_loops("CPU", false);
    check_loops("NV@sim:sm_80", false);
    check_loops("AMD@sim:gfx942", false);
    check_loops("AMD@sim:gfx1100", false);
    /* where it matters which factor of two an offset has */
    check_loops("NV@sim:sm_90", true);
}

/* ---- sizes ---- */

static struct bell_tensor *
growing(struct bell_tensor *x, int i)
{
    return bell_neg(bell_narrow(x, 0, 0, 2 + i));
}

static struct bell_tensor *
appended(struct bell_tensor *x, int i)
{
    struct bell_tensor *parts[2] = {bell_narrow(x, 0, i, 2 + i),
                                    bell_narrow(x, 0, 7 * i, 1)};

    return bell_cat(parts, 2, 0);
}

static struct bell_tensor *
rows_normed(struct bell_tensor *x, int i)
{
    x = bell_layer_norm(bell_narrow(x, 0, 0, 2 + i), 1, NULL, NULL, 1e-5);
    return bell_max(x, BELL_DIMS(0), false);
}

/* Sizes that are products of it, and strides that vary. */
static struct bell_tensor *
heads(struct bell_tensor *x, int i)
{
    static const int64_t order[] = {1, 0, 2};

    x = bell_reshape(bell_narrow(x, 0, 0, 2 + i), BELL_DIMS(2 + i, 4, 6));
    x = bell_flip(bell_permute(x, order, 3), BELL_DIMS(1));
    return bell_transpose(bell_reshape(x, BELL_DIMS(4 * (2 + i), 6)), 0, 1);
}

static struct bell_tensor *
greatest(struct bell_tensor *x, int i)
{
    return bell_argmax(bell_narrow(x, 0, 0, 3 + 2 * i), 0, false);
}

static struct bell_tensor *
whole_numbers(struct bell_tensor *x, int i)
{
    x = bell_cast(bell_narrow(x, 0, 0, 9 - i), BELL_INT32);
    return bell_sum(x, BELL_DIMS(0), false);
}

static struct bell_tensor *
means(struct bell_tensor *x, int i)
{
    return bell_mean(bell_narrow(x, 0, 0, 2 + i), BELL_DIMS(0), false);
}

/* A token against all before it. */
static struct bell_tensor *
attended(struct bell_tensor *x, int i)
{
    struct bell_tensor *keys = bell_narrow(x, 0, 0, 2 + i), *scores;

    scores =
        bell_matmul(bell_narrow(x, 0, 2 + i, 1), bell_transpose(keys, 0, 1));
    return bell_matmul(bell_softmax(bell_mul_scalar(scores, 0.01), 1), keys);
}

static struct bell_tensor *
masked(struct bell_tensor *x, int i)
{
    x = bell_narrow(x, 0, 0, 2 + i);
    x = bell_mul_scalar(bell_matmul(x, bell_transpose(x, 0, 1)), 0.01);
    return bell_softmax(bell_tril(x, 0), 1);
}

/* A gradient that is a sum over what grows. */
static struct bell_tensor *
learned(struct bell_tensor *x, int i)
{
    struct bell_tensor *w = bell_narrow(x, 0, 40, N_COLS), *loss, *dw;

    w = bell_mul_scalar(w, 0.01);
    loss = bell_matmul(bell_mul_scalar(bell_narrow(x, 0, 0, 2 + i), 0.1), w);
    loss = bell_sum(bell_square(loss), BELL_NO_DIMS, false);
    assert_int_equal(bell_gradient(loss, &w, 1, &dw), BELL_OK);
    return bell_mul_scalar(dw, 0.01);
}

/* From one row on. */
static struct bell_tensor *
widest(struct bell_tensor *x, int i)
{
    x = bell_mul_scalar(bell_narrow(x, 0, 0, 1 + i), 0.3);
    return bell_sub(x, bell_max(x, BELL_DIMS(1), true));
}

/* More than a sequence is likely to begin with, and not from the first on. */
static struct bell_tensor *
from_eight(struct bell_tensor *x, int i)
{
    return bell_neg(bell_narrow(x, 0, 0, 8 + i));
}

static struct bell_tensor *
from_behind(struct bell_tensor *x, int i)
{
    return bell_neg(bell_narrow(x, 0, 40 - i, 2 + i));
}

/* Other rows, and more of them. */
static struct bell_tensor *
anywhere_grown(struct bell_tensor *x, int i)
{
    x = bell_narrow(x, 0, 5 * i, 3 + i);
    return bell_mul_scalar(bell_max(x, BELL_DIMS(1), true), i + 0.5);
}

/* Zeros of both signs, which compare equal: 0 is the greatest in any order. */
static struct bell_tensor *
zeros(struct bell_tensor *x, int i)
{
    static float values[N_ROWS * N_COLS];
    int k;

    for (k = 0; k < N_ROWS * N_COLS; k++)
        values[k] = k * 7919 % 1000 % 3 ? 0.0f : -0.0f;
    x = bell_from_data(bell_context_of(x), BELL_DIMS(N_ROWS, N_COLS),
                       BELL_FLOAT32, values);
    return bell_max(bell_narrow(x, 0, 0, 2 + i), BELL_DIMS(0), false);
}

/* Two tensors that grow. */
static struct bell_tensor *
both_grown(struct bell_tensor *x, int i)
{
    struct bell_tensor *y = matrix(bell_context_of(x));

    y = bell_relu(bell_narrow(y, 0, 4 * i, 2 + i));
    return bell_minimum(bell_narrow(x, 0, 2 * i, 2 + i), bell_add(y, y));
}

/* Sizes that recur are arguments of the second plan, where no floats are
 * summed; else each has kernels of its own. */
static void
check_sizes(const char *device)
{
    static const struct {
        const char *name;
        step_fn *step;
        uint64_t most;
    } loops[] = {
        {"growing", growing, 2},
        {"appended", appended, 3},
        {"widest", widest, 3},
        {"from eight", from_eight, 2},
        {"from behind", from_behind, 2},
        {"rows and more", anywhere_grown, 2},
        {"zeros", zeros, 2},
        {"of two", both_grown, 2},
        {"rows", rows_normed, 11},
        {"heads", heads, 2},
        {"greatest", greatest, 2},
        {"whole numbers", whole_numbers, 2},
        {"means", means, 7},
        {"attention", attended, 28},
        {"masked", masked, 14},
        {"gradient", learned, 21},
    };
    size_t k;

    for (k = 0; k < ARRAY_LEN(loops); k++) {
        uint64_t n = run_steps(device, loops[k].step, 7);

        if (n > loops[k].most)
            fail_msg("%s: %s: %u kernels", device, loops[k].name, (unsigned)n);
    }
}

static void
test_sizes(void **state)
{
    (void)state;
    check_sizes("CPU");
    check_sizes("NV@sim:sm_90");
    check_sizes("AMD@sim:gfx1100");
}

static struct bell_tensor *
anywhere(struct bell_tensor *x, int i)
{
    return bell_mul_scalar(bell_narrow(x, 0, i * 7 % 70, 4), i / 3.0 + 40);
}

/* A matrix instruction takes rows as they lie, if they begin well: a plan with
 * arguments is for those that do, another for others. */
static void
test_wide(void **state)
{
    static const int begins[] = {0, 8, 24, 3, 5, 40, 16, 11};
    static uint16_t x_bits[256 * 304], y_bits[256 * 512];
    static float got[256 * 512], want[256 * 512];
    struct bell_context *ctx[2];
    struct bell_tensor *x, *y;
    float *out[2] = {got, want};
    size_t i, k;

    (void)state;
    for (i = 0; i < ARRAY_LEN(x_bits); i++)
        x_bits[i] = (uint16_t)(0x3800 + i * 7919 % 1024);
    for (i = 0; i < ARRAY_LEN(y_bits); i++)
        y_bits[i] = (uint16_t)(0xb400 + i * 31 % 1024);
    assert_int_equal(bell_context_create("NV@sim:sm_90", &ctx[0]), BELL_OK);
    for (i = 0; i < ARRAY_LEN(begins); i++) {
        assert_int_equal(bell_context_create("NV@sim:sm_90", &ctx[1]), BELL_OK);
        for (k = 0; k < 2; k++) {
            x = bell_from_data(ctx[k], BELL_DIMS(256, 304), BELL_FLOAT16,
                               x_bits);
            y = bell_from_data(ctx[k], BELL_DIMS(256, 512), BELL_FLOAT16,
                               y_bits);
            y = bell_matmul(bell_narrow(x, 1, begins[i], 256), y);
            y = bell_cast(y, BELL_FLOAT32);
            assert_int_equal(bell_read(y, out[k], sizeof(got)), BELL_OK);
        }
        assert_memory_equal(got, want, sizeof(got));
        bell_context_destroy(ctx[1]);
    }
    assert_int_equal(((struct tensor_runtime *)ctx[0]->runtime)->n_plans, 4);
    bell_context_destroy(ctx[0]);
}

#define N_IMAGES 96
#define N_BATCH  16
#define N_TRAIN  20

/* A step of training on part `i` of the images: sliced, or by index. */
static double
train_step(struct bell_tensor *images, struct bell_tensor *labels,
           struct bell_nn_linear *layers, struct bell_optimizer *opt, int i,
           bool by_index)
{
    struct bell_context *c = bell_context_of(images);
    struct bell_tensor *x, *y, *at, *loss;
    int32_t rows[N_BATCH];
    double value;
    int k;

    assert_int_equal(bell_scope_begin(c), BELL_OK);
    i = i % (N_IMAGES / N_BATCH) * N_BATCH;
    for (k = 0; k < N_BATCH; k++)
        rows[k] = i + k;
    if (by_index) {
        at = bell_from_data(c, BELL_DIMS(N_BATCH), BELL_INT32, rows);
        x = bell_index_select(images, 0, at);
        y = bell_index_select(labels, 0, at);
    } else {
        x = bell_narrow(images, 0, i, N_BATCH);
        y = bell_narrow(labels, 0, i, N_BATCH);
    }
    x = bell_relu(bell_nn_linear(&layers[0], x));
    x = bell_relu(bell_nn_linear(&layers[1], x));
    loss = bell_cross_entropy(bell_nn_linear(&layers[2], x), y, 0,
                              BELL_IGNORE_NONE, BELL_MEAN);
    bell_optimizer_zero_grad(opt);
    assert_int_equal(bell_backward(loss), BELL_OK);
    assert_int_equal(bell_optimizer_step(opt, &loss, 1), BELL_OK);
    assert_int_equal(bell_item_f64(loss, &value), BELL_OK);
    assert_int_equal(bell_scope_end(c), BELL_OK);
    return value;
}

/* Trains for 20 steps. Returns the kernels compiled; *out_late: in the last
 * eleven steps. */
static uint64_t
train(const char *device, bool by_index, double *losses, uint64_t *out_late)
{
    static const int64_t sizes[] = {49, 32, 24, 10};
    static float images[N_IMAGES * 49];
    int32_t labels[N_IMAGES];
    struct bell_nn_linear layers[3];
    struct bell_params params = {0};
    struct bell_optimizer *opt;
    struct bell_tensor *x, *y;
    struct bell_stats early = {.struct_size = sizeof(early)},
                      late = {.struct_size = sizeof(late)};
    struct bell_context *c;
    int i;

    for (i = 0; i < N_IMAGES * 49; i++)
        images[i] = (float)(i * 7919 % 1000) / 1000;
    for (i = 0; i < N_IMAGES; i++)
        labels[i] = i % 10;
    assert_int_equal(bell_context_create(device, &c), BELL_OK);
    for (i = 0; i < 3; i++) {
        assert_int_equal(
            bell_nn_linear_init(c, sizes[i], sizes[i + 1], true, &layers[i]),
            BELL_OK);
        assert_int_equal(
            bell_params_add_module(&params, &bell_nn_linear_type, &layers[i]),
            BELL_OK);
    }
    assert_int_equal(
        bell_adam_create(params.tensors, params.n,
                         &BELL_OPTIONS(bell_adam_options, .lr = 0.02), &opt),
        BELL_OK);
    x = bell_from_data(c, BELL_DIMS(N_IMAGES, 49), BELL_FLOAT32, images);
    y = bell_from_data(c, BELL_DIMS(N_IMAGES), BELL_INT32, labels);
    for (i = 0; i < N_TRAIN; i++) {
        losses[i] = train_step(x, y, layers, opt, i, by_index);
        if (i == 8)
            bell_context_stats(c, &early);
    }
    bell_context_stats(c, &late);
    *out_late = late.n_kernels_compiled - early.n_kernels_compiled;
    bell_optimizer_destroy(opt);
    bell_params_fini(&params);
    for (i = 0; i < 3; i++)
        bell_module_fini(&bell_nn_linear_type, &layers[i]);
    bell_context_destroy(c);
    return late.n_kernels_compiled;
}

/* Batches by slices: compiled in the first steps, as those by index are. */
static void
test_train(void **state)
{
    static const char *const devices[] = {"CPU", "NV@sim:sm_90",
                                          "AMD@sim:gfx1100"};
    double sliced_losses[N_TRAIN], losses[N_TRAIN];
    uint64_t n_sliced, n, late;
    size_t d;
    int i;

    (void)state;
    for (d = 0; d < ARRAY_LEN(devices); d++) {
        n = train(devices[d], true, losses, &late);
        assert_int_equal(late, 0);
        n_sliced = train(devices[d], false, sliced_losses, &late);
        assert_int_equal(late, 0);
        /* what reads a slice, with constants and with arguments: the first
         * layer, its gradient, the loss, where those are kernels of their
         * own */
        if (n_sliced < n || n_sliced > n + 3)
            fail_msg("%s: %u kernels by index, %u sliced", devices[d],
                     (unsigned)n, (unsigned)n_sliced);
        for (i = 0; i < N_TRAIN; i++)
            assert_true(fabs(sliced_losses[i] - losses[i]) < 1e-5);
    }
}

/* The memory that is kept for a structure does not grow with its values. */
static void
test_memory(void **state)
{
    size_t n_nodes = 0, n_kernel_nodes = 0;
    const struct tensor_runtime *rt;
    struct bell_context *ctx;
    struct bell_tensor *x;
    float out[MAX_OUT / 4];
    int i;

    (void)state;
    assert_int_equal(bell_context_create("CPU", &ctx), BELL_OK);
    rt = ctx->runtime;
    x = matrix(ctx);
    for (i = 0; i < 2000; i++) {
        run_step(ctx, x, anywhere, i, out);
        if (i == 10) {
            n_nodes = rt->graphs.n_nodes;
            n_kernel_nodes = rt->kernels.n_nodes;
        }
    }
    assert_int_equal(rt->graphs.n_nodes, n_nodes);
    assert_int_equal(rt->kernels.n_nodes, n_kernel_nodes);
    assert_int_equal(rt->n_plans, 2);
    assert_int_equal(rt->n_kernels, 2);
    bell_context_destroy(ctx);
}

/* Nor with its sizes: the device holds no more memory for results that are gone
 * with many sizes than with few. */
static void
check_lengths(bool from_first, size_t n_plans)
{
    static float values[2048 * LENGTH_COLS], out[2048 * LENGTH_COLS];
    size_t n_nodes = 0, n_kernel_nodes = 0;
    const struct tensor_runtime *rt;
    struct bell_context *ctx;
    struct bell_tensor *x, *y;
    uint64_t live, cached;
    int i, k;

    for (i = 0; i < 2048 * LENGTH_COLS; i++)
        values[i] = (float)i / 7;
    assert_int_equal(bell_context_create("CPU", &ctx), BELL_OK);
    rt = ctx->runtime;
    x = bell_from_data(ctx, BELL_DIMS(2048, LENGTH_COLS), BELL_FLOAT32, values);
    for (i = 2; i < 2002; i++) {
        const float *want =
            from_first ? values : &values[(2048 - i) * LENGTH_COLS];
        int n = i * LENGTH_COLS;

        assert_int_equal(bell_scope_begin(ctx), BELL_OK);
        y = bell_narrow(x, 0, from_first ? 0 : 2048 - i, i);
        y = bell_mul_scalar(y, 2);
        assert_int_equal(bell_read(y, out, (size_t)n * sizeof(*out)), BELL_OK);
        assert_int_equal(bell_scope_end(ctx), BELL_OK);
        for (k = 0; k < n && out[k] == 2 * want[k]; k++)
            ;
        assert_int_equal(k, n);
        hcq_memory_usage(rt->dev, &live, &cached);
        assert_in_range(live + cached, 1, 4 << 20);
        if (i == 12) {
            n_nodes = rt->graphs.n_nodes;
            n_kernel_nodes = rt->kernels.n_nodes;
        }
    }
    assert_int_equal(rt->graphs.n_nodes, n_nodes);
    assert_int_equal(rt->kernels.n_nodes, n_kernel_nodes);
    assert_int_equal(rt->n_plans, n_plans);
    assert_int_equal(rt->n_kernels, n_plans);
    bell_context_destroy(ctx);
}

/* A loop whose lengths are compiled each, since floats add up: one structure
 * for all of them. */
static void
check_compiled(void)
{
    const struct tensor_runtime *rt;
    struct bell_context *ctx;
    float out[N_COLS];
    struct bell_tensor *x;
    size_t n_nodes = 0;
    int i;

    assert_int_equal(bell_context_create("CPU", &ctx), BELL_OK);
    rt = ctx->runtime;
    x = matrix(ctx);
    for (i = 2; i < 32; i++) {
        struct bell_tensor *y = bell_narrow(x, 0, 0, (int64_t)i);

        y = bell_sum(bell_mul_scalar(y, 2), BELL_DIMS(0), false);
        assert_int_equal(bell_read(y, out, sizeof(out)), BELL_OK);
        n_nodes = i == 2 ? rt->graphs.n_nodes : n_nodes;
        assert_int_equal(rt->graphs.n_nodes, n_nodes);
    }
    assert_int_equal(rt->n_plans, 30);
    bell_context_destroy(ctx);
}

static void
test_lengths(void **state)
{
    (void)state;
    check_compiled();
    check_lengths(true, 2);
    check_lengths(false, 2);
}

/* Where 2^x is e^x, and an exponent that makes a power a product, are
 * constants again; so is what has been one. */
static void
test_kept(void **state)
{
    static const double numbers[] = {1.25,     3,    1.4426950408889634,  0.5,
                                     INFINITY, 1.25, -1.4426950408889634, 7};
    float got[N_ROWS * N_COLS], want[N_ROWS * N_COLS];
    struct bell_context *ctx, *fresh;
    struct bell_tensor *x, *y;
    size_t i;

    (void)state;
    assert_int_equal(bell_context_create("CPU", &ctx), BELL_OK);
    x = matrix(ctx);
    for (i = 0; i < ARRAY_LEN(numbers); i++) {
        assert_int_equal(bell_context_create("CPU", &fresh), BELL_OK);
        y = bell_exp2(bell_mul_scalar(matrix(fresh), numbers[i]));
        assert_int_equal(bell_read(y, want, sizeof(want)), BELL_OK);
        bell_context_destroy(fresh);
        y = bell_exp2(bell_mul_scalar(x, numbers[i]));
        assert_int_equal(bell_read(y, got, sizeof(got)), BELL_OK);
        assert_memory_equal(got, want, sizeof(got));
    }
    assert_int_equal(((struct tensor_runtime *)ctx->runtime)->n_plans, 4);
    bell_context_destroy(ctx);
}

static char said[4096];

static void
keep_line(void *user, const char *line)
{
    (void)user;
    if (strlen(said) + strlen(line) + 2 < sizeof(said))
        strcat(strcat(said, line), "\n");
}

/* A size that is the product of two. */
static struct bell_tensor *
pairs(struct bell_tensor *x, int i)
{
    x = bell_narrow(bell_narrow(x, 0, 0, i), 1, 0, 1);
    x = bell_add(x, bell_transpose(x, 0, 1));
    return bell_reshape(x, BELL_DIMS((int64_t)i * i));
}

/* BELL_DEBUG=plan; and without it, once, that sizes make a program compile. */
static void
test_told(void **state)
{
    uint32_t mask = log_mask;
    struct bell_context *ctx;
    struct bell_tensor *x;
    const char *first;
    int i;

    (void)state;
    bell_log_set(keep_line, NULL);
    assert_int_equal(bell_context_create("CPU", &ctx), BELL_OK);
    x = matrix(ctx);
    log_mask |= LOG_PLAN;
    for (i = 0; i < 3; i++)
        assert_int_equal(bell_realize1(columns_from(x, i)), BELL_OK);
    assert_non_null(strstr(said, "plan 0, 1 kernels: a new graph of "));
    assert_non_null(strstr(said, "plan 1, 1 kernels: as plan 0, but for the "
                                 "offset 4, an argument now"));
    assert_null(strstr(said, "plan 2"));
    for (i = 0; i < 4; i++)
        assert_int_equal(bell_realize1(growing(x, i)), BELL_OK);
    assert_non_null(strstr(said, "plan 2, 1 kernels: a new graph of "));
    for (i = 0; i < 4; i++)
        assert_int_equal(bell_realize1(heads(x, i)), BELL_OK);
    assert_non_null(strstr(said, "as plan 4, but of any size up to 80, an "
                                 "argument now: bell_narrow"));
    assert_null(strstr(said, "plan 6"));
    log_mask = mask & ~(uint32_t)LOG_PLAN;
    said[0] = 0;
    for (i = 2; i < 50; i++)
        assert_int_equal(bell_realize1(pairs(x, i)), BELL_OK);
    first = strstr(said, "differ in sizes alone");
    assert_non_null(first);
    assert_non_null(strstr(said, "bell_narrow"));
    assert_null(strstr(first + 1, "differ in sizes alone"));
    bell_context_destroy(ctx);
    bell_log_set(NULL, NULL);
    log_mask = mask;
}

/* One axis grows as the other one shrinks: a smaller size needs more memory. */
static void
test_shrinking(void **state)
{
    static const int rows[] = {60, 56, 52, 40, 20, 12, 4, 33};
    static const int64_t axis[] = {0};
    static float values[N_ROWS * N_ROWS];
    struct bell_context *ctx;
    struct bell_tensor *x;
    double got, want;
    size_t i, k, n;

    (void)state;
    assert_int_equal(bell_context_create("CPU", &ctx), BELL_OK);
    for (i = 0; i < ARRAY_LEN(rows); i++) {
        n = (size_t)rows[i] * (size_t)(66 - rows[i]);
        for (want = 0, k = 0; k < n; k++) {
            values[k] = (float)((k * 7919) % 1000);
            want += values[k] + 1;
        }
        x = bell_from_data(ctx, BELL_DIMS(rows[i], 66 - rows[i]), BELL_FLOAT32,
                           values);
        x = bell_contiguous(bell_add_scalar(bell_cast(x, BELL_INT32), 1));
        x = bell_contiguous(bell_flip(x, axis, 1));
        x = bell_sum(bell_contiguous(x), BELL_NO_DIMS, false);
        if (bell_item_f64(x, &got) != BELL_OK)
            fail_msg("%d rows: %s", rows[i], bell_error_last()->message);
        assert_true(got == want);
    }
    assert_int_equal(((struct tensor_runtime *)ctx->runtime)->n_plans, 2);
    bell_context_destroy(ctx);
}

/* Beyond the bound another plan is for more. */
static void
test_bound(void **state)
{
    static const int rows[] = {3, 4, 2048, 2049, 5, 9000, 2050};
    static float values[9000], out[9000];
    struct bell_context *ctx;
    struct bell_tensor *x;
    size_t i;
    int k;

    (void)state;
    for (k = 0; k < 9000; k++)
        values[k] = (float)k;
    assert_int_equal(bell_context_create("CPU", &ctx), BELL_OK);
    for (i = 0; i < ARRAY_LEN(rows); i++) {
        size_t size = (size_t)rows[i] * sizeof(*out);

        x = bell_from_data(ctx, BELL_DIMS(rows[i]), BELL_FLOAT32, values);
        assert_int_equal(bell_read(bell_neg(x), out, size), BELL_OK);
        for (k = 0; k < rows[i]; k++)
            assert_true(out[k] == -values[k]);
    }
    assert_int_equal(((struct tensor_runtime *)ctx->runtime)->n_plans, 3);
    bell_context_destroy(ctx);
}

/* A plan for any size without memory at each place: it is made the next time,
 * or another one instead. */
static void
test_no_memory(void **state)
{
    struct bell_context *ctx;
    struct bell_tensor *x, *y;
    bell_status status;
    unsigned nth, n_good = 0;

    (void)state;
    for (nth = 1; n_good < 40; nth++) {
        assert_int_equal(bell_context_create("NV@null:sm_90", &ctx), BELL_OK);
        x = matrix(ctx);
        assert_int_equal(bell_realize1(growing(x, 0)), BELL_OK);
        y = growing(x, 1);
        host_fail_after(nth, 1);
        status = bell_realize1(y);
        host_fail_after(0, 0);
        n_good = status == BELL_OK ? n_good + 1 : 0;
        if (status != BELL_OK)
            assert_int_equal(status, BELL_E_NO_MEMORY);
        assert_int_equal(bell_realize1(growing(x, 1)), BELL_OK);
        assert_int_equal(bell_realize1(growing(x, 2)), BELL_OK);
        assert_in_range(((struct tensor_runtime *)ctx->runtime)->n_plans, 2, 3);
        bell_context_destroy(ctx);
    }
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_loops),     cmocka_unit_test(test_wide),
        cmocka_unit_test(test_train),     cmocka_unit_test(test_memory),
        cmocka_unit_test(test_sizes),     cmocka_unit_test(test_lengths),
        cmocka_unit_test(test_kept),      cmocka_unit_test(test_told),
        cmocka_unit_test(test_shrinking), cmocka_unit_test(test_bound),
        cmocka_unit_test(test_no_memory),
    };

    return cmocka_run_group_tests_name("vary", tests, NULL, NULL);
}
