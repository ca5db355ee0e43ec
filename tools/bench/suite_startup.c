/* Bench: from nothing to a first result, and what compiling costs. */
#include <stdio.h>
#include <string.h>

#include "base/bits.h"
#include "base/thread.h"
#include "doorbell/ops.h"
#include "doorbell/tensor.h"
#include "tools/bench/bench.h"
#include "tools/tools.h"

/* ---- startup ------------------------------------------------------------- */

static bell_status
open_and_close(const char *device, double *out_ns)
{
    uint64_t start = time_now_ns();
    struct hcq_device *dev;

    BELL_TRY(hcq_device_open(device, &dev));
    *out_ns = (double)(time_now_ns() - start);
    hcq_device_close(dev);
    return BELL_OK;
}

/* A context, one kernel compiled and run, its value read. */
static bell_status
first_result(struct bench *b, double *out_ns)
{
    uint64_t start = time_now_ns();
    struct bell_context *ctx;
    bell_status status;
    double sum;

    BELL_TRY(tool_open_context(b->device, b->math, &ctx));
    b->allowed = bell_context_math(ctx);
    status = bell_item_f64(
        bell_sum(bell_add(bell_arange(ctx, 0, 1000, 1, BELL_FLOAT32),
                          bell_full(ctx, BELL_NO_DIMS, 1, BELL_FLOAT32)),
                 NULL, 0, false),
        &sum);
    *out_ns = (double)(time_now_ns() - start);
    bell_context_destroy(ctx);
    if (status == BELL_OK && sum != 500500)
        return bell_fail(BELL_E_INTERNAL, "the sum of 1..1000 came out as %g",
                         sum);
    return status;
}

bell_status
bench_startup(struct bench *b)
{
    double ns;

    bench_begin(b, BENCH_MS, "opening the device", "open");
    while (bench_goes_on(b, 5)) {
        BELL_TRY(open_and_close(b->device, &ns));
        bench_sample_ns(b, ns);
    }
    bench_end(b);
    bench_begin(b, BENCH_MS, "a context, a kernel, its result", "first_result");
    while (bench_goes_on(b, 5)) {
        BELL_TRY(first_result(b, &ns));
        bench_sample_ns(b, ns);
    }
    bench_end(b);
    return BELL_OK;
}

/* ---- compiling ----------------------------------------------------------- */

typedef struct bell_tensor *graph_fn(struct bell_context *ctx);

static struct bell_tensor *
graph_add(struct bell_context *ctx)
{
    return bell_add(bell_empty(ctx, BELL_DIMS(1000, 1000), BELL_FLOAT32),
                    bell_empty(ctx, BELL_DIMS(1000, 1000), BELL_FLOAT32));
}

static struct bell_tensor *
graph_softmax(struct bell_context *ctx)
{
    return bell_softmax(bell_empty(ctx, BELL_DIMS(256, 1000), BELL_FLOAT32),
                        -1);
}

static struct bell_tensor *
graph_matmul(struct bell_context *ctx)
{
    return bell_matmul(bell_empty(ctx, BELL_DIMS(512, 512), BELL_FLOAT32),
                       bell_empty(ctx, BELL_DIMS(512, 512), BELL_FLOAT32));
}

/* Attention and two dense layers, of float32. */
static struct bell_tensor *
graph_block(struct bell_context *ctx)
{
    struct bell_tensor *x = bell_empty(ctx, BELL_DIMS(64, 128), BELL_FLOAT32);
    struct bell_tensor *w[5], *y;
    unsigned i;

    for (i = 0; i < 5; i++)
        w[i] = bell_empty(ctx, BELL_DIMS(128, 128), BELL_FLOAT32);
    y = bell_layer_norm(x, 1, NULL, NULL, 1e-5);
    y = bell_scaled_dot_product_attention(
        bell_matmul(y, w[0]), bell_matmul(y, w[1]), bell_matmul(y, w[2]), NULL,
        0, false, 0);
    y = bell_add(x, y);
    return bell_add(
        y, bell_matmul(bell_relu(bell_matmul(
                           bell_layer_norm(y, 1, NULL, NULL, 1e-5), w[3])),
                       w[4]));
}

/* What a fresh context takes to make machine code of a graph. */
static bell_status
compile_once(struct bench *b, graph_fn *graph, double *out_ns)
{
    struct bell_context *ctx;
    struct bell_tensor *y;
    bell_status status;
    uint64_t start;

    BELL_TRY(tool_open_context(b->device, b->math, &ctx));
    b->allowed = bell_context_math(ctx);
    y = graph(ctx);
    start = time_now_ns();
    status = bell_compile(&y, 1);
    *out_ns = (double)(time_now_ns() - start);
    bell_context_destroy(ctx);
    return status;
}

/* The steps that a graph goes through: what a time is of. */
static const char *
find_steps(const struct hcq_device_info *info)
{
    bool is_simulated = (info->flags & HCQ_DEVICE_SIMULATED) != 0;

    if (strcmp(info->backend, "NV") == 0)
        return is_simulated ? "to PTX, no ptxas" : "to PTX, and ptxas";
    if (strcmp(info->backend, "CL") == 0)
        return "to OpenCL C, and its compiler";
    if (strcmp(info->backend, "QCOM") == 0)
        return "to Adreno's code";
    return "to LLVM's IR, and LLVM";
}

bell_status
bench_compile(struct bench *b)
{
    static const struct {
        const char *name, *what;
        graph_fn *graph;
    } rows[BENCH_COMPILED] = {
        {"compile_add", "x + y", graph_add},
        {"compile_softmax", "softmax of rows", graph_softmax},
        {"compile_matmul", "a matrix product", graph_matmul},
        {"compile_block", "a transformer's block", graph_block},
    };
    size_t i;
    double ns;

    for (i = 0; i < ARRAY_LEN(rows) && !bench_is_over(b); i++) {
        BELL_TRY(compile_once(b, rows[i].graph, &ns));
        snprintf(b->compiled[i], sizeof(b->compiled[i]), "%s: %s", rows[i].what,
                 find_steps(&b->info));
        bench_begin(b, BENCH_MS, b->compiled[i], "%s", rows[i].name);
        while (bench_goes_on(b, 3)) {
            BELL_TRY(compile_once(b, rows[i].graph, &ns));
            bench_sample_ns(b, ns);
        }
        bench_end(b);
    }
    return BELL_OK;
}
