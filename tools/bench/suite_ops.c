/* Bench: what programs are made of, on tensors; and how a row of tensors is
 * measured. */
#include <stdio.h>

#include "base/bits.h"
#include "base/thread.h"
#include "doorbell/ops.h"
#include "doorbell/tensor.h"
#include "tools/bench/bench.h"
#include "tools/tools.h"

/* ---- a row of tensors ---------------------------------------------------- */

struct op_run {
    struct bell_context *ctx;
    const struct bench_job *job;
    struct bell_tensor *in[BENCH_INPUTS_MAX], *fence;
};

/* One result in a scope of its own; reading the fence waits for it. */
static bell_status
run_once(struct op_run *run, double *out_ns)
{
    uint64_t start = time_now_ns();
    bell_status status, ended;
    double zero;

    BELL_TRY(bell_scope_begin(run->ctx));
    status = bell_realize1(run->job->make(run->ctx, run->in, run->job->user));
    if (status == BELL_OK)
        status = bell_item_f64(run->fence, &zero);
    *out_ns = (double)(time_now_ns() - start);
    ended = bell_scope_end(run->ctx);
    return status != BELL_OK ? status : ended;
}

static bell_status
make_op_inputs(struct op_run *run)
{
    size_t i;

    for (i = 0; i < BENCH_INPUTS_MAX && run->job->in[i].shape; i++) {
        const struct bench_input *in = &run->job->in[i];
        struct bell_tensor *x =
            bell_rand(run->ctx, in->shape, in->ndim, BELL_FLOAT32);

        run->in[i] = bell_cast(bell_mul_scalar(x, in->scale), in->dtype);
        BELL_TRY(bell_realize1(run->in[i]));
    }
    run->fence = bell_zeros(run->ctx, BELL_DIMS(1), BELL_FLOAT32);
    return bell_realize1(run->fence);
}

static bell_status
time_runs(struct bench *b, struct op_run *run)
{
    double ns;
    int i;

    BELL_TRY(make_op_inputs(run));
    /* two: the second still has the first one's result beside it, and so the
     * last buffer whose pages are new */
    for (i = 0; i < 2; i++)
        BELL_TRY(run_once(run, &ns));
    b->start_ns = time_now_ns(); /* compiling is not a part of it */
    while (bench_goes_on(b, 3)) {
        BELL_TRY(run_once(run, &ns));
        bench_sample_ns(b, ns);
    }
    bench_end(b);
    return BELL_OK;
}

bell_status
bench_run_job(struct bench *b, const struct bench_job *job)
{
    struct op_run run = {.job = job};
    bell_status status;
    uint32_t math;

    bench_work(b, job->flops, job->bytes, job->ceiling);
    if (!bench_is_wanted(b))
        return BELL_OK;
    BELL_TRY(tool_open_context(b->device, b->math, &run.ctx));
    b->allowed = math = bell_context_math(run.ctx);
    status = bell_context_set_math(run.ctx, math | job->math);
    if (status == BELL_OK &&
        (!job->math || (job->math & ~math & bell_context_device_math(run.ctx))))
        status = time_runs(b, &run);
    bell_context_destroy(run.ctx);
    return bench_unless_lacking(b, status);
}

/* ---- the operations ------------------------------------------------------ */

#define MAKE(name, expression)                                                 \
    static struct bell_tensor *name(struct bell_context *ctx,                  \
                                    struct bell_tensor *const *in,             \
                                    const void *user)                          \
    {                                                                          \
        (void)ctx;                                                             \
        (void)user;                                                            \
        return expression;                                                     \
    }

static const int64_t first_axis[] = {0}, last_axis[] = {1};

MAKE(make_add, bell_add(in[0], in[1]))
MAKE(make_softmax, bell_softmax(in[0], -1))
MAKE(make_layer_norm, bell_layer_norm(in[0], 1, NULL, NULL, 1e-5))
MAKE(make_sum_rows, bell_sum(in[0], last_axis, 1, false))
MAKE(make_sum_columns, bell_sum(in[0], first_axis, 1, false))
MAKE(make_max, bell_max(in[0], NULL, 0, false))
MAKE(make_transpose, bell_contiguous(bell_t(in[0])))
MAKE(make_attention,
     bell_scaled_dot_product_attention(in[0], in[1], in[2], NULL, 0, false, 0))
MAKE(make_conv, bell_conv2d(in[0], in[1], NULL, NULL))

static bell_status
table_rows(struct bench *b)
{
    const int64_t n = b->is_small ? 64 : 8192, shape[2] = {n, n};
    const double bytes = 4.0 * (double)(n * n);
    const struct {
        const char *name, *what;
        bench_make_fn *make;
        double bytes, flops; /* operations of an element, exp as one */
        bool has_two;
    } rows[] = {
        {"add", "x + y, float32 (bytes read and written)", make_add, 3 * bytes,
         1, true},
        {"softmax", "softmax of rows (bytes read and written)", make_softmax,
         2 * bytes, 5, false},
        {"layer_norm", "layernorm of rows (bytes read and written)",
         make_layer_norm, 2 * bytes, 6, false},
        {"sum_rows", "sums of rows (bytes read)", make_sum_rows, bytes, 1,
         false},
        {"sum_columns", "sums of columns (bytes read)", make_sum_columns, bytes,
         1, false},
        {"max", "the largest of all (bytes read)", make_max, bytes, 1, false},
        {"transpose", "stored transposed (bytes read and written)",
         make_transpose, 2 * bytes, 0, false},
    };
    size_t i;

    for (i = 0; i < ARRAY_LEN(rows) && !bench_is_over(b); i++) {
        const struct bench_job job = {
            .make = rows[i].make,
            .in = {{shape, 2, BELL_FLOAT32, 1},
                   {rows[i].has_two ? shape : NULL, 2, BELL_FLOAT32, 1}},
            .flops = rows[i].flops * (double)(n * n),
            .bytes = rows[i].bytes,
            .ceiling = BENCH_CEILING_MEMORY,
        };

        bench_begin(b, BENCH_GB_S, rows[i].what, "%s", rows[i].name);
        BELL_TRY(bench_run_job(b, &job));
    }
    return BELL_OK;
}

static bell_status
attention_row(struct bench *b)
{
    bool is_host = (b->info.flags & HCQ_DEVICE_HOST_CPU) != 0;
    const int64_t heads = b->is_small ? 1 : is_host ? 4 : 32;
    const int64_t length = b->is_small ? 32 : is_host ? 512 : 4096;
    const int64_t width = b->is_small ? 16 : 64;
    const int64_t shape[3] = {heads, length, width};
    enum bell_dtype dtype = is_host ? BELL_FLOAT32 : BELL_FLOAT16;
    const struct bench_job job = {
        .make = make_attention,
        .in = {{shape, 3, dtype, 1},
               {shape, 3, dtype, 1},
               {shape, 3, dtype, 1}},
        .flops = 4.0 * (double)(heads * length * length * width),
        .bytes = 4.0 * (double)(heads * length * width) *
                 (double)bell_dtype_size(dtype),
        .ceiling = is_host ? BENCH_CEILING_F32 : BENCH_CEILING_F16,
    };

    bench_begin(b, BENCH_GFLOPS, "attention of several heads",
                "attention_%s_%dx%dx%d", is_host ? "f32" : "f16", (int)heads,
                (int)length, (int)width);
    return bench_run_job(b, &job);
}

static bell_status
conv_row(struct bench *b)
{
    const int64_t batch = b->is_small ? 1 : 16, size = b->is_small ? 8 : 56;
    const int64_t channels = b->is_small ? 4 : 64, out = size - 2;
    const int64_t x[4] = {batch, channels, size, size};
    const int64_t w[4] = {channels, channels, 3, 3};
    const struct bench_job job = {
        .make = make_conv,
        .in = {{x, 4, BELL_FLOAT32, 1}, {w, 4, BELL_FLOAT32, 1}},
        .flops =
            18.0 * (double)(batch * channels * channels) * (double)(out * out),
        .bytes = 4.0 * (double)(batch * channels) *
                 (double)(size * size + out * out),
        .ceiling = BENCH_CEILING_F32,
    };

    bench_begin(b, BENCH_GFLOPS, "convolution of 3 x 3, float32",
                "conv_f32_%dx%dx%d", (int)batch, (int)channels, (int)size);
    return bench_run_job(b, &job);
}

bell_status
bench_ops(struct bench *b)
{
    BELL_TRY(table_rows(b));
    if (!bench_is_over(b))
        BELL_TRY(attention_row(b));
    return bench_is_over(b) ? BELL_OK : conv_row(b);
}
