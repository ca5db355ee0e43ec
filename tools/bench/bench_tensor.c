/* Bench: from nothing to a first result, and the compiler's kernels. */
#include <stdio.h>
#include <string.h>

#include "base/bits.h"
#include "base/thread.h"
#include "doorbell/ops.h"
#include "doorbell/stats.h"
#include "doorbell/tensor.h"
#include "tools/bench/bench.h"
#include "tools/tools.h"

static double
ms_since(uint64_t start_ns)
{
    return (double)(time_now_ns() - start_ns) / 1e6;
}

/* ---- start ---- */

static bell_status
open_and_close(const char *device, double *out_ms)
{
    uint64_t start = time_now_ns();
    struct hcq_device *dev;

    BELL_TRY(hcq_device_open(device, &dev));
    *out_ms = ms_since(start);
    hcq_device_close(dev);
    return BELL_OK;
}

/* A context, one kernel compiled and run, its value read. */
static bell_status
first_result(const struct bench *b, double *out_ms)
{
    uint64_t start = time_now_ns();
    struct bell_context *ctx;
    bell_status status;
    double sum;

    BELL_TRY(tool_open_context(b->device, b->math, &ctx));
    status = bell_item_f64(
        bell_sum(bell_add(bell_arange(ctx, 0, 1000, 1, BELL_FLOAT32),
                          bell_full(ctx, BELL_NO_DIMS, 1, BELL_FLOAT32)),
                 NULL, 0, false),
        &sum);
    *out_ms = ms_since(start);
    bell_context_destroy(ctx);
    if (status == BELL_OK && sum != 500500)
        return bell_fail(BELL_E_INTERNAL, "the sum of 1..1000 came out as %g",
                         sum);
    return status;
}

bell_status
bench_start(struct bench *b)
{
    double ms;

    bench_begin(b);
    while (bench_goes_on(b, 5)) {
        BELL_TRY(open_and_close(b->device, &ms));
        bench_sample(b, ms);
    }
    bench_end(b, BENCH_MS, "opening the device", "open");
    bench_begin(b);
    while (bench_goes_on(b, 5)) {
        BELL_TRY(first_result(b, &ms));
        bench_sample(b, ms);
    }
    bench_end(b, BENCH_MS, "a context, a kernel, its result", "first_result");
    return BELL_OK;
}

/* ---- kernels on tensors ---- */

/* What is computed from the two inputs. */
typedef struct bell_tensor *make_fn(struct bell_tensor *x,
                                    struct bell_tensor *y);

struct job {
    struct bell_context *ctx;
    struct bell_tensor *x, *y, *fence;
    make_fn *make;
};

/* One result in a scope of its own; reading the fence waits for it. */
static bell_status
run_job(struct job *job, double *out_us)
{
    uint64_t start = time_now_ns();
    bell_status status, ended;
    double zero;

    BELL_TRY(bell_scope_begin(job->ctx));
    status = bell_realize1(job->make(job->x, job->y));
    if (status == BELL_OK)
        status = bell_item_f64(job->fence, &zero);
    *out_us = (double)(time_now_ns() - start) / 1e3;
    ended = bell_scope_end(job->ctx);
    return status != BELL_OK ? status : ended;
}

/* `work` is bytes or operations of one run; the row is in thousands of them
 * by microseconds: GB/s or GFLOP/s. */
static bell_status
time_job(struct bench *b, struct job *job, double work)
{
    double us;
    int i;

    for (i = 0; i < 2; i++)
        BELL_TRY(run_job(job, &us));
    bench_begin(b);
    while (bench_goes_on(b, 3)) {
        BELL_TRY(run_job(job, &us));
        bench_sample(b, work / 1e3 / us);
    }
    return BELL_OK;
}

static bell_status
fill_job(struct job *job, const int64_t *x_shape, const int64_t *y_shape,
         uint32_t ndim, enum bell_dtype dtype)
{
    job->x = bell_cast(bell_rand(job->ctx, x_shape, ndim, BELL_FLOAT32), dtype);
    job->y = bell_cast(bell_rand(job->ctx, y_shape, ndim, BELL_FLOAT32), dtype);
    job->fence = bell_zeros(job->ctx, BELL_DIMS(1), BELL_FLOAT32);
    BELL_TRY(bell_realize1(job->x));
    BELL_TRY(bell_realize1(job->y));
    return bell_realize1(job->fence);
}

static struct bell_tensor *
make_add(struct bell_tensor *x, struct bell_tensor *y)
{
    return bell_add(x, y);
}

static struct bell_tensor *
make_softmax(struct bell_tensor *x, struct bell_tensor *y)
{
    (void)y;
    return bell_softmax(x, -1);
}

static struct bell_tensor *
make_matmul(struct bell_tensor *x, struct bell_tensor *y)
{
    return bell_matmul(x, y);
}

/* What one row is of. */
struct shape_job {
    make_fn *make;
    const int64_t *shape; /* of both inputs */
    enum bell_dtype dtype;
    uint32_t math; /* allowed besides what --math says */
    double work;   /* see time_job */
};

/* The samples of a job with its own context; none if the device does not
 * tell that math from the other. */
static bell_status
sample_job(struct bench *b, const struct shape_job *of)
{
    struct job job = {.make = of->make};
    uint32_t math;
    bell_status status;

    BELL_TRY(tool_open_context(b->device, b->math, &job.ctx));
    b->allowed = math = bell_context_math(job.ctx);
    bench_begin(b);
    status = bell_context_set_math(job.ctx, math | of->math);
    if (of->math && !(of->math & ~math & bell_context_device_math(job.ctx))) {
        bell_context_destroy(job.ctx);
        return status;
    }
    if (status == BELL_OK)
        status = fill_job(&job, of->shape, of->shape, 2, of->dtype);
    if (status == BELL_OK)
        status = time_job(b, &job, of->work);
    bell_context_destroy(job.ctx);
    return status;
}

bell_status
bench_elementwise(struct bench *b)
{
    const int64_t n = b->is_small ? 64 : 8192;
    const int64_t shape[2] = {n, n};
    double bytes = 4.0 * (double)(n * n);

    const struct shape_job add = {
        .make = make_add,
        .shape = shape,
        .dtype = BELL_FLOAT32,
        .work = 3 * bytes,
    };
    const struct shape_job softmax = {
        .make = make_softmax,
        .shape = shape,
        .dtype = BELL_FLOAT32,
        .work = 2 * bytes,
    };

    BELL_TRY(sample_job(b, &add));
    bench_end(b, BENCH_GB_S, "x + y, float32 (bytes read and written)", "add");
    BELL_TRY(sample_job(b, &softmax));
    bench_end(b, BENCH_GB_S, "softmax of rows (bytes read and written)",
              "softmax");
    return BELL_OK;
}

bell_status
bench_gemm(struct bench *b)
{
    static const struct {
        enum bell_dtype dtype;
        uint32_t math;
        const char *name;
    } kinds[] = {
        {BELL_FLOAT32, BELL_MATH_EXACT, "f32"},
        {BELL_FLOAT32, BELL_MATH_TF32, "tf32"},
        {BELL_FLOAT16, BELL_MATH_EXACT, "f16"},
        {BELL_BFLOAT16, BELL_MATH_EXACT, "bf16"},
        {BELL_FLOAT8_E4M3FN, BELL_MATH_EXACT, "e4m3"}, /* to float32 */
    };
    static const int64_t sizes[] = {1024, 2048, 4096, 8192};
    size_t n_sizes = ARRAY_LEN(sizes), n_kinds = ARRAY_LEN(kinds), i, k;

    /* A CPU has no tensor cores to wait for, and only converts the 8-bit floats,
     * the last kind. */
    if (b->info.flags & HCQ_DEVICE_HOST_MEMORY) {
        n_sizes = 1;
        n_kinds--;
    }
    for (i = 0; i < n_kinds; i++) {
        for (k = 0; k < (b->is_small ? 1 : n_sizes); k++) {
            int64_t n = b->is_small ? 64 : sizes[k];
            const int64_t shape[2] = {n, n};
            const struct shape_job job = {
                .make = make_matmul,
                .shape = shape,
                .dtype = kinds[i].dtype,
                .math = kinds[i].math,
                .work = 2.0 * (double)(n * n * n),
            };
            BELL_TRY(sample_job(b, &job));
            bench_end(b, BENCH_GFLOPS, "square matrix product", "gemm_%s_%d",
                      kinds[i].name, (int)n);
        }
    }
    return BELL_OK;
}
