/* Selftest: the compiler's kernels. Tensors, and random programs against the
 * reference evaluator. */
#include <inttypes.h>
#include <math.h>

#include "base/alloc.h"
#include "doorbell/ops.h"
#include "doorbell/stats.h"
#include "doorbell/tensor.h"
#include "tools/fuzz/fuzz.h"
#include "tools/selftest/selftest.h"
#include "tools/tools.h"

#define N 48

/* softmax(x @ w + b) along rows, by the definition. */
static void
softmax_rows(const float *x, const float *w, const float *b, double *out)
{
    size_t i, j, k;

    for (i = 0; i < N; i++) {
        double sum = 0;
        for (j = 0; j < N; j++) {
            double z = b[j];
            for (k = 0; k < N; k++)
                z += (double)x[i * N + k] * (double)w[k * N + j];
            out[i * N + j] = exp(z);
            sum += out[i * N + j];
        }
        for (j = 0; j < N; j++)
            out[i * N + j] /= sum;
    }
}

static bell_status
compute_tensor(const char *device, const float *x, const float *w,
               const float *b, float *out)
{
    const int64_t square[2] = {N, N}, row[1] = {N};
    struct bell_context *ctx;
    bell_status status;

    BELL_TRY(tool_open_context(device, "exact", &ctx));
    status = bell_read(
        bell_softmax(
            bell_add(
                bell_matmul(bell_from_data(ctx, square, 2, BELL_FLOAT32, x),
                            bell_from_data(ctx, square, 2, BELL_FLOAT32, w)),
                bell_from_data(ctx, row, 1, BELL_FLOAT32, b)),
            -1),
        out, sizeof(float) * N * N);
    bell_context_destroy(ctx);
    return status;
}

static enum selftest_verdict
tensors(struct selftest *st)
{
    static float x[N * N], w[N * N], b[N], got[N * N];
    static double want[N * N];
    struct fuzz_rng rng = fuzz_rng(7 + st->run);
    size_t i;

    /* Tensors have an opening of their own. */
    selftest_close_device(st);
    selftest_sent(st, "softmax(x @ w + b) of %dx%d float32", N, N);
    for (i = 0; i < N * N; i++) {
        x[i] = (float)fuzz_uniform(&rng, -1, 1);
        w[i] = (float)fuzz_uniform(&rng, -1, 1);
        b[i % N] = (float)fuzz_uniform(&rng, -1, 1);
    }
    softmax_rows(x, w, b, want);
    ST_OK(compute_tensor(st->device, x, w, b, got));
    for (i = 0; i < N * N; i++) {
        if (fabs((double)got[i] - want[i]) > 1e-5)
            return selftest_fail(st, "element %zu is %.9g, not %.9g", i,
                                 (double)got[i], want[i]);
    }
    return SELFTEST_PASSED;
}

/* ---- random programs ---- */

#define KERNELS_WANTED       1000
#define PROGRAMS_PER_OPENING 64
#define REFUSED_MAX          16 /* with none that ran: nothing can be compiled */

struct random_run {
    struct bell_context *ctx;
    struct fuzz_program prog;
    struct fuzz_verdict verdict;
    bool lacks_f64;
    uint64_t n_programs, n_compared, n_refused;
    uint64_t n_kernels; /* of contexts that are gone */
};

static bell_status
fresh_context(struct selftest *st, struct random_run *run)
{
    struct bell_stats stats = {.struct_size = sizeof(stats)};

    if (run->ctx) {
        bell_context_stats(run->ctx, &stats);
        run->n_kernels += stats.n_kernels_compiled;
    }
    return fuzz_fresh_context(&run->ctx, st->device);
}

static uint64_t
kernels_so_far(const struct random_run *run)
{
    struct bell_stats stats = {.struct_size = sizeof(stats)};

    bell_context_stats(run->ctx, &stats);
    return run->n_kernels + stats.n_kernels_compiled;
}

static bool
is_enough(const struct selftest *st, const struct random_run *run)
{
    if (st->n_programs)
        return run->n_programs >= (uint64_t)st->n_programs;
    return kernels_so_far(run) >= KERNELS_WANTED;
}

static enum selftest_verdict
random_in(struct selftest *st, struct random_run *run)
{
    uint64_t seed;

    selftest_close_device(st);
    ST_OK(fresh_context(st, run));
    ST_OK(fuzz_ask_f64(run->ctx, &run->lacks_f64));
    while (!is_enough(st, run)) {
        seed = hash_add(hash_mix(st->run + 1), run->n_programs);
        if (run->n_programs++ % PROGRAMS_PER_OPENING == 0)
            ST_OK(fresh_context(st, run));
        ST_OK(fuzz_generate(run->ctx, seed, 12, false, run->lacks_f64, -1,
                            FUZZ_SHAPES_ANY, &run->prog));
        if (run->prog.n_roots == 0)
            continue;
        selftest_sent(st, "random program %" PRIu64 " (seed 0x%" PRIx64 ")",
                      run->n_programs - 1, seed);
        bell_error_clear();
        ST_OK(fuzz_run(run->ctx, &run->prog, &run->verdict));
        run->n_compared += run->verdict.n_compared;
        run->n_refused += run->verdict.refused;
        if (run->n_compared == 0 && run->n_refused >= REFUSED_MAX)
            return selftest_skip(st, "%s", bell_error_last()->message);
        if (run->verdict.failed)
            return selftest_fail(st, "%s", run->verdict.what);
    }
    selftest_note(st,
                  "%" PRIu64 " programs, %" PRIu64 " kernels, %" PRIu64
                  " elements compared, %" PRIu64 " refused for float64",
                  run->n_programs, kernels_so_far(run), run->n_compared,
                  run->n_refused);
    return SELFTEST_PASSED;
}

static enum selftest_verdict
random_programs(struct selftest *st)
{
    struct random_run *run = host_calloc(1, sizeof(*run));
    enum selftest_verdict verdict;

    if (!run)
        return selftest_fail(st, "no memory on the host");
    verdict = random_in(st, run);
    bell_context_destroy(run->ctx);
    host_free(run);
    return verdict;
}

const struct selftest_step selftest_tensor_steps[] = {
    {"tensors", SELFTEST_ANY | SELFTEST_SLOW,
     "an expression is compiled, loaded and run: softmax(x @ w + b)",
     "BELL_DEBUG=render shows the kernels; `doorbell kernel` times them; "
     "ptxas is needed for cards",
     tensors},
    {"random-kernels", SELFTEST_ANY | SELFTEST_ONCE,
     "random programs agree with the reference evaluator",
     "`doorbell fuzz` finds such a program again, shrinks it and prints it "
     "as C",
     random_programs},
    {NULL, 0, NULL, NULL, NULL},
};
