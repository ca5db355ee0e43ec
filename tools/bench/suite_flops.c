/* Bench: the most operations a second: multiply-adds and dot products of
 * registers, products of matrices by dtype, and operations for each byte of
 * memory. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/bits.h"
#include "base/thread.h"
#include "doorbell/ops.h"
#include "doorbell/tensor.h"
#include "tools/bench/bench.h"
#include "tools/chain/chain.h"

/* ---- of registers -------------------------------------------------------- */

/* All results of a launch, which the buffer held none of before. */
static bell_status
check_chain(const struct chain *chain, struct hcq_buffer *buf,
            uint64_t n_rounds)
{
    uint64_t want[CHAIN_RESULTS], n = buf->size_bytes / chain->result_bytes, i;
    uint8_t *results = host_alloc(buf->size_bytes);
    bell_status status;

    if (!results)
        return bell_fail(BELL_E_NO_MEMORY, "out of memory for results");
    status = hcq_buffer_read(buf, 0, results, buf->size_bytes);
    for (i = 0; i < CHAIN_RESULTS; i++)
        want[i] = chain_result(chain, (uint32_t)i, n_rounds);
    for (i = 0; status == BELL_OK && i < n; i++) {
        uint64_t thread = i % chain->n_threads, got = 0;

        memcpy(&got, results + i * chain->result_bytes, chain->result_bytes);
        if (got != want[thread % CHAIN_RESULTS])
            status =
                bell_fail(BELL_E_INTERNAL,
                          "%s: thread %llu of group %llu stored %llx, not "
                          "%llx",
                          chain->name, (unsigned long long)thread,
                          (unsigned long long)(i / chain->n_threads),
                          (unsigned long long)got,
                          (unsigned long long)want[thread % CHAIN_RESULTS]);
    }
    host_free(results);
    return status;
}

/* The row has begun. */
static bell_status
time_chain(struct bench *b, const struct chain *chain, struct hcq_buffer *buf,
           uint64_t n_rounds, uint32_t n_groups)
{
    bool warm = false;

    while (bench_goes_on(b, 5)) {
        uint64_t start = time_now_ns();
        struct hcq_cs *cs;

        BELL_TRY(hcq_queue_begin(b->compute, &cs));
        if (!warm)
            hcq_cs_fill(cs, buf->va, 0xffffffff, buf->size_bytes);
        chain_launch(chain, cs, buf->va, n_rounds, n_groups);
        BELL_TRY(hcq_cs_submit(cs, NULL));
        BELL_TRY(hcq_queue_wait(b->compute, BENCH_WAIT_NS));
        if (warm)
            bench_sample_ns(b, (double)(time_now_ns() - start));
        else
            BELL_TRY(check_chain(chain, buf, n_rounds));
        warm = true;
    }
    BELL_TRY(check_chain(chain, buf, n_rounds));
    bench_end(b);
    return BELL_OK;
}

static bell_status
chain_row(struct bench *b, enum chain_kind kind, enum bench_ceiling ceiling)
{
    /* some milliseconds; cards made for pictures have a 64th of the rate for
     * float64 */
    const uint64_t n_rounds = b->is_small             ? 2
                              : kind == CHAIN_FMA_F64 ? 4096
                                                      : 16384;
    const uint32_t n_groups = b->info.n_units * (b->is_small ? 1 : 32);
    struct hcq_buffer *buf;
    struct chain chain;
    bell_status status;

    bench_begin(b, BENCH_GFLOPS, chain_texts[kind], "%s", chain_names[kind]);
    if (!bench_is_wanted(b))
        return BELL_OK;
    status = chain_load(b->dev, kind, &chain);
    if (status != BELL_OK)
        return bench_unless_lacking(b, status);
    bench_work(b, chain.ops * (double)n_rounds * n_groups * chain.n_threads, 0,
               ceiling);
    status = hcq_buffer_create(
        b->dev, (uint64_t)n_groups * chain.n_threads * chain.result_bytes, 0,
        &buf);
    if (status == BELL_OK) {
        b->start_ns = time_now_ns(); /* compiling is not a part of it */
        status = time_chain(b, &chain, buf, n_rounds, n_groups);
        hcq_buffer_destroy(buf);
    }
    hcq_program_destroy(chain.prog);
    return status;
}

static bell_status
chain_rows(struct bench *b)
{
    static const enum bench_ceiling ceilings[CHAIN_KIND_COUNT] = {
        [CHAIN_FMA_F32] = BENCH_CEILING_F32,
        [CHAIN_FMA_F32X2] = BENCH_CEILING_NONE,
        [CHAIN_FMA_F64] = BENCH_CEILING_VECTOR_F64,
        [CHAIN_FMA_F16] = BENCH_CEILING_VECTOR_F16,
        [CHAIN_FMA_BF16] = BENCH_CEILING_VECTOR_BF16,
        [CHAIN_MAD_I32] = BENCH_CEILING_I32,
        [CHAIN_DOT_I8] = BENCH_CEILING_NONE,
        [CHAIN_DOT_F16] = BENCH_CEILING_NONE,
        [CHAIN_DOT_BF16] = BENCH_CEILING_NONE,
    };
    int kind;

    for (kind = 0; kind < CHAIN_KIND_COUNT && !bench_is_over(b); kind++)
        BELL_TRY(chain_row(b, (enum chain_kind)kind, ceilings[kind]));
    return BELL_OK;
}

/* ---- operations for each byte -------------------------------------------- */

#define CHAINS 8 /* of an element, at most: none waits for another */

/* *user multiplications and additions, one each, of an element: in chains that
 * end in a sum, which is a part of them. Each link adds the next chain, so that
 * no order of the kernel can finish one chain before it begins the others: a
 * processor looks ahead some hundred instructions, and GPUs hardly at all. */
static struct bell_tensor *
make_chain(struct bell_context *ctx, struct bell_tensor *const *in,
           const void *user)
{
    const unsigned *n = user;
    unsigned n_chains = *n < CHAINS ? (*n + 1) / 2 : CHAINS, i;
    struct bell_tensor *x[CHAINS];

    (void)ctx;
    for (i = 0; i < n_chains; i++)
        x[i] = bell_mul_scalar(in[0], 1.125 + 0.125 * i);
    for (i = n_chains; i < *n; i++)
        x[i % n_chains] =
            bell_add(bell_mul(x[i % n_chains], in[0]), x[(i + 1) % n_chains]);
    for (i = 1; i < n_chains; i++)
        x[0] = bell_add(x[0], x[i]);
    return bell_add_scalar(x[0], 1);
}

static bell_status
intensity_rows(struct bench *b)
{
    const int64_t n = b->is_small ? 1 << 12 : 1 << 24;
    static const unsigned lengths[] = {1, 4, 16, 64, 256};
    size_t i;

    for (i = 0; i < ARRAY_LEN(lengths) && !bench_is_over(b); i++) {
        const struct bench_job job = {
            .make = make_chain,
            .user = &lengths[i],
            .in = {{&n, 1, BELL_FLOAT32, 0.5}},
            .flops = 2.0 * lengths[i] * (double)n,
            .bytes = 8.0 * (double)n,
            .ceiling = BENCH_CEILING_F32,
        };

        bench_begin(b, BENCH_GFLOPS,
                    "float32 elements read, computed with, written",
                    "intensity_%g", 2.0 * lengths[i] / 8);
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

static bell_status
matrix_rows(struct bench *b)
{
    static const struct {
        enum bell_dtype dtype;
        uint32_t math;
        double scale;
        enum bench_ceiling ceiling;
        const char *name;
    } kinds[] = {
        {BELL_FLOAT64, BELL_MATH_EXACT, 1, BENCH_CEILING_F64, "f64"},
        {BELL_FLOAT32, BELL_MATH_TF32, 1, BENCH_CEILING_TF32, "tf32"},
        {BELL_FLOAT16, BELL_MATH_EXACT, 1, BENCH_CEILING_F16, "f16"},
        {BELL_BFLOAT16, BELL_MATH_EXACT, 1, BENCH_CEILING_F16, "bf16"},
        {BELL_INT8, BELL_MATH_EXACT, 100, BENCH_CEILING_8, "i8"},
        /* a CPU only converts them */
        {BELL_FLOAT8_E4M3FN, BELL_MATH_EXACT, 1, BENCH_CEILING_8, "e4m3"},
    };
    bool is_host = (b->info.flags & HCQ_DEVICE_HOST_CPU) != 0;
    const int64_t n = b->is_small ? 64 : is_host ? 512 : 4096;
    const int64_t shape[2] = {n, n};
    size_t n_kinds = ARRAY_LEN(kinds) - is_host, i;

    for (i = 0; i < n_kinds && !bench_is_over(b); i++) {
        const struct bench_job job = {
            .make = make_matmul,
            .in = {{shape, 2, kinds[i].dtype, kinds[i].scale},
                   {shape, 2, kinds[i].dtype, kinds[i].scale}},
            .math = kinds[i].math,
            .flops = 2.0 * (double)(n * n * n),
            .bytes =
                3.0 * (double)(n * n) * (double)bell_dtype_size(kinds[i].dtype),
            .ceiling = kinds[i].ceiling,
        };

        bench_begin(b, BENCH_GFLOPS, "a large matrix product", "peak_matrix_%s",
                    kinds[i].name);
        BELL_TRY(bench_run_job(b, &job));
    }
    return BELL_OK;
}

bell_status
bench_flops(struct bench *b)
{
    BELL_TRY(chain_rows(b));
    BELL_TRY(matrix_rows(b));
    return bench_is_over(b) ? BELL_OK : intensity_rows(b);
}

/* ---- gemm ---------------------------------------------------------------- */

struct shape {
    int64_t m, k, n; /* [m, k] by [k, n] */
};

static const struct shape shapes[] = {
    {1024, 1024, 1024}, {2048, 2048, 2048}, {4096, 4096, 4096},
    {8192, 8192, 8192}, {8, 4096, 16384},   {4096, 1024, 4096},
    {1000, 1000, 1000}, {16384, 512, 512},  {1023, 1025, 1021},
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
sum_up(struct bench *b, const struct gemm_kind *kind)
{
    double worst = 0, logs = 0, product;
    char start[48];
    size_t n = 0, i;

    if (!bench_is_last_pass(b))
        return;
    snprintf(start, sizeof(start), "gemm_%s_", kind->name);
    for (i = 0; i < b->n_rows; i++) {
        const struct bench_row *row = &b->rows[i];

        if (row->why_not[0] || row->is_derived ||
            strncmp(row->name, start, strlen(start)) != 0)
            continue;
        worst = n == 0 || row->median < worst ? row->median : worst;
        logs += log(row->median);
        n++;
    }
    if (n < 2)
        return;
    product = exp(logs / (double)n);
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
    /* one of whole tiles, one that is off all of them */
    static const struct shape small[] = {{64, 64, 64}, {33, 35, 37}};
    bool is_host = (b->info.flags & HCQ_DEVICE_HOST_CPU) != 0;
    /* A CPU has no tensor cores to wait for, and only converts the 8-bit
     * floats, the last kind. */
    size_t n_kinds = ARRAY_LEN(kinds) - is_host, i, k;

    for (i = 0; i < n_kinds; i++) {
        for (k = 0; k < ARRAY_LEN(shapes) && !bench_is_over(b); k++) {
            double flops = 2.0 * (double)shapes[k].m * (double)shapes[k].k *
                           (double)shapes[k].n;

            if (b->is_small && k == ARRAY_LEN(small))
                break;
            if (is_host && flops > 2.2e9)
                continue;
            BELL_TRY(
                gemm_row(b, &kinds[i], b->is_small ? &small[k] : &shapes[k]));
        }
        sum_up(b, &kinds[i]);
    }
    return BELL_OK;
}
