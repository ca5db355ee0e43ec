/* Bench: the most operations a second: multiply-adds of vectors, products of
 * matrices by dtype, and operations for each byte of memory. */
#include <stdio.h>

#include "base/bits.h"
#include "base/thread.h"
#include "doorbell/ops.h"
#include "doorbell/tensor.h"
#include "tools/bench/bench.h"

/* ---- by hand ------------------------------------------------------------- */

static bell_status
time_fma(struct bench *b, struct hcq_program *fma, struct hcq_buffer *buf,
         uint32_t n_groups, uint32_t n_threads)
{
    const uint64_t n_rounds = b->is_small ? 2 : 16384;
    const uint64_t args[2] = {buf->va, n_rounds};
    const uint32_t grid[3] = {n_groups, 1, 1}, local[3] = {n_threads, 1, 1};
    double flops = (double)n_groups * n_threads * (double)n_rounds *
                   selftest_fma_flops(&b->info);
    bool warm = false;

    bench_begin(b, BENCH_GFLOPS, "multiply-adds of registers, float32",
                "fma_f32");
    bench_work(b, flops, 0, BENCH_CEILING_F32);
    while (bench_goes_on(b, 5)) {
        uint64_t start = time_now_ns();
        struct hcq_cs *cs;

        BELL_TRY(hcq_queue_begin(b->compute, &cs));
        hcq_cs_exec(cs, fma, args, 2, grid, local);
        BELL_TRY(hcq_cs_submit(cs, NULL));
        BELL_TRY(hcq_queue_wait(b->compute, BENCH_WAIT_NS));
        if (warm)
            bench_sample_ns(b, (double)(time_now_ns() - start));
        warm = true;
    }
    bench_end(b);
    return BELL_OK;
}

static bell_status
fma_row(struct bench *b)
{
    bool is_host = (b->info.flags & HCQ_DEVICE_HOST_MEMORY) != 0;
    uint32_t n_threads = is_host ? 1 : 256;
    uint32_t n_groups = b->info.n_units * (b->is_small ? 1 : 32);
    struct hcq_program *fma;
    struct hcq_buffer *buf;
    bell_status status;

    BELL_TRY(bench_load(b, SELFTEST_FMA, &fma));
    if (!fma) {
        bench_lacks(b, BENCH_GFLOPS, "multiply-adds of registers, float32",
                    "fma_f32", "there is no kernel by hand for it");
        return BELL_OK;
    }
    status = hcq_buffer_create(b->dev, 4ull * n_groups * n_threads, 0, &buf);
    if (status == BELL_OK) {
        status = time_fma(b, fma, buf, n_groups, n_threads);
        hcq_buffer_destroy(buf);
    }
    hcq_program_destroy(fma);
    return status;
}

/* ---- operations for each byte -------------------------------------------- */

struct chain {
    unsigned n; /* multiplications and additions, one each, of an element */
};

static struct bell_tensor *
make_chain(struct bell_context *ctx, struct bell_tensor *const *in,
           const void *user)
{
    const struct chain *chain = user;
    struct bell_tensor *x = in[0];
    unsigned i;

    (void)ctx;
    for (i = 0; i < chain->n; i++)
        x = bell_add(bell_mul(x, in[0]), in[0]);
    return x;
}

static bell_status
intensity_rows(struct bench *b)
{
    const int64_t n = b->is_small ? 1 << 12 : 1 << 24;
    static const unsigned lengths[] = {1, 4, 16, 64, 256};
    size_t i;

    for (i = 0; i < ARRAY_LEN(lengths) && !bench_is_over(b); i++) {
        const struct chain chain = {lengths[i]};
        const struct bench_job job = {
            .make = make_chain,
            .user = &chain,
            .in = {{&n, 1, BELL_FLOAT32, 0.5}},
            .flops = 2.0 * chain.n * (double)n,
            .bytes = 8.0 * (double)n,
            .ceiling = BENCH_CEILING_F32,
        };

        bench_begin(b, BENCH_GFLOPS,
                    "float32 elements read, computed with, written",
                    "intensity_%g", 2.0 * chain.n / 8);
        BELL_TRY(bench_run_job(b, &job));
    }
    return BELL_OK;
}

/* ---- matrices ------------------------------------------------------------ */

static struct bell_tensor *
make_matmul(struct bell_context *ctx, struct bell_tensor *const *in,
            const void *user)
{
    (void)ctx;
    (void)user;
    return bell_matmul(in[0], in[1]);
}

bell_status
bench_flops(struct bench *b)
{
    static const struct {
        enum bell_dtype dtype;
        enum bench_ceiling ceiling;
        const char *name;
    } kinds[] = {
        {BELL_FLOAT64, BENCH_CEILING_F64, "peak_matrix_f64"},
        {BELL_FLOAT16, BENCH_CEILING_F16, "peak_matrix_f16"},
    };
    const int64_t n = b->is_small                           ? 64
                      : b->info.flags & HCQ_DEVICE_HOST_CPU ? 512
                                                            : 4096;
    const int64_t shape[2] = {n, n};
    size_t i;

    BELL_TRY(fma_row(b));
    for (i = 0; i < ARRAY_LEN(kinds) && !bench_is_over(b); i++) {
        const struct bench_job job = {
            .make = make_matmul,
            .in = {{shape, 2, kinds[i].dtype, 1},
                   {shape, 2, kinds[i].dtype, 1}},
            .flops = 2.0 * (double)(n * n * n),
            .bytes =
                3.0 * (double)(n * n) * (double)bell_dtype_size(kinds[i].dtype),
            .ceiling = kinds[i].ceiling,
        };

        bench_begin(b, BENCH_GFLOPS, "a large matrix product", "%s",
                    kinds[i].name);
        BELL_TRY(bench_run_job(b, &job));
    }
    return bench_is_over(b) ? BELL_OK : intensity_rows(b);
}

/* ---- gemm ---------------------------------------------------------------- */

struct shape {
    int64_t m, k, n; /* [m, k] by [k, n] */
};

static const struct shape shapes[] = {
    {1024, 1024, 1024}, {2048, 2048, 2048}, {4096, 4096, 4096},
    {8192, 8192, 8192}, {8, 4096, 16384},   {4096, 1024, 4096},
    {1000, 1000, 1000}, {16384, 512, 512},
};

struct gemm_kind {
    enum bell_dtype dtype;
    uint32_t math;
    const char *name;
    enum bench_ceiling ceiling;
};

static bell_status
gemm_row(struct bench *b, const struct gemm_kind *kind, const struct shape *s)
{
    const int64_t x[2] = {s->m, s->k}, y[2] = {s->k, s->n};
    const double size = (double)bell_dtype_size(kind->dtype);
    const struct bench_job job = {
        .make = make_matmul,
        .in = {{x, 2, kind->dtype, 1}, {y, 2, kind->dtype, 1}},
        .math = kind->math,
        .flops = 2.0 * (double)s->m * (double)s->k * (double)s->n,
        .bytes = size * (double)(s->m * s->k + s->k * s->n + s->m * s->n),
        .ceiling = kind->ceiling,
    };

    if (s->m == s->k && s->k == s->n)
        bench_begin(b, BENCH_GFLOPS, "square matrix product", "gemm_%s_%d",
                    kind->name, (int)s->n);
    else
        bench_begin(b, BENCH_GFLOPS, "matrix product, m x k by k x n",
                    "gemm_%s_%dx%dx%d", kind->name, (int)s->m, (int)s->k,
                    (int)s->n);
    return bench_run_job(b, &job);
}

/* The worst of the shapes and their geometric mean. */
static void
sum_up(struct bench *b, const struct gemm_kind *kind, size_t first)
{
    double worst = 0, product = 1;
    size_t n = 0, i;

    for (i = first; i < b->n_rows; i++) {
        double value = b->rows[i].median;

        if (b->rows[i].why_not[0])
            continue;
        worst = n == 0 || value < worst ? value : worst;
        product = product * bench_root(value, b->n_rows - first);
        n++;
    }
    if (n < 2)
        return;
    bench_derive(b, BENCH_GFLOPS, "the slowest of the shapes", worst,
                 "gemm_%s_worst", kind->name);
    bench_derive(b, BENCH_GFLOPS, "geometric mean of the shapes", product,
                 "gemm_%s_mean", kind->name);
}

bell_status
bench_gemm(struct bench *b)
{
    static const struct gemm_kind kinds[] = {
        {BELL_FLOAT32, BELL_MATH_EXACT, "f32", BENCH_CEILING_F32},
        {BELL_FLOAT32, BELL_MATH_TF32, "tf32", BENCH_CEILING_TF32},
        {BELL_FLOAT16, BELL_MATH_EXACT, "f16", BENCH_CEILING_F16},
        {BELL_BFLOAT16, BELL_MATH_EXACT, "bf16", BENCH_CEILING_F16},
        /* to float32 */
        {BELL_FLOAT8_E4M3FN, BELL_MATH_EXACT, "e4m3", BENCH_CEILING_8},
    };
    static const struct shape small = {64, 64, 64};
    bool is_host = (b->info.flags & HCQ_DEVICE_HOST_CPU) != 0;
    /* A CPU has no tensor cores to wait for, and only converts the 8-bit
     * floats, the last kind. */
    size_t n_kinds = ARRAY_LEN(kinds) - is_host, i, k;

    for (i = 0; i < n_kinds; i++) {
        size_t first = b->n_rows;

        for (k = 0; k < ARRAY_LEN(shapes) && !bench_is_over(b); k++) {
            double flops = 2.0 * (double)shapes[k].m * (double)shapes[k].k *
                           (double)shapes[k].n;

            if (b->is_small && k > 0)
                break;
            if (is_host && flops > 2.2e9)
                continue;
            BELL_TRY(gemm_row(b, &kinds[i], b->is_small ? &small : &shapes[k]));
        }
        sum_up(b, &kinds[i], first);
    }
    return BELL_OK;
}
