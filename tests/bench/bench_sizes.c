/* Blocks of models of symbolic batch and sequence beside the same of plain
 * sizes: kernels, bits, and time at five sizes (tests/unit/size_models.h).
 *
 * usage: bench_sizes [bench options]
 * BELL_DEVICE: the device; BELL_WIDTH: of the blocks, 768 without.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/bits.h"
#include "base/thread.h"
#include "doorbell/ops.h"
#include "doorbell/stats.h"
#include "tests/bench/bench.h"
#include "tests/unit/size_models.h"

#define MAX_B     8
#define MAX_S     512
#define MAX_TURNS 101

static const int64_t sizes[][2] = {
    {4, 128}, {1, 512}, {8, 64}, {2, 37}, {3, 9}};

struct run {
    struct size_models models;
    struct bell_dim b, s;
    bool trains;
};

/* What a run made: results one after the other. */
struct results {
    float *v;
    size_t n, cap;
};

static bool
keep(struct results *r, struct bell_tensor *t)
{
    size_t n = (size_t)bell_numel(t);
    float *v = r->v;

    if (r->n + n > r->cap) {
        r->cap = 2 * (r->n + n);
        v = realloc(r->v, r->cap * sizeof(*v));
        if (!v)
            return false;
        r->v = v;
    }
    r->n += n;
    return bell_read(t, v + r->n - n, n * sizeof(*v)) == BELL_OK;
}

/* One step; milliseconds, to the first result; negative if it failed. */
static double
step(const struct run *run, struct bell_dim b, struct bell_dim s,
     struct results *r)
{
    struct bell_context *ctx = run->models.ctx;
    struct bell_tensor *out[SIZE_MODEL_MAX_OUT];
    uint64_t start = time_now_ns(), end = 0;
    uint32_t n, i;
    bool good = bell_scope_begin(ctx) == BELL_OK;

    r->n = 0;
    n = good ? size_models_step(&run->models, b, s, run->trains, out) : 0;
    good = n > 0 && bell_realize(out, n) == BELL_OK && keep(r, out[0]);
    end = time_now_ns();
    for (i = 1; good && i < n; i++)
        good = keep(r, out[i]);
    if (!good)
        fprintf(stderr, "%s\n", bell_error_last()->message);
    return bell_scope_end(ctx) == BELL_OK && good ? (double)(end - start) / 1e6
                                                  : -1;
}

static uint64_t
kernels_of(const struct run *run)
{
    struct bell_stats stats = {.struct_size = sizeof(stats)};

    bell_context_stats(run->models.ctx, &stats);
    return stats.n_kernels_planned;
}

static uint64_t
plans_of(const struct run *run)
{
    struct bell_stats stats = {.struct_size = sizeof(stats)};

    bell_context_stats(run->models.ctx, &stats);
    return stats.n_plans;
}

/* How many values differ in a bit; *out_worst: by how much of the greatest. */
static size_t
count_other(const struct results *a, const struct results *b, double *out_worst)
{
    double most = 0;
    size_t i, n = 0;

    *out_worst = 0;
    for (i = 0; i < a->n && i < b->n; i++) {
        double x = (double)a->v[i], y = (double)b->v[i];
        most = fabs(y) > most ? fabs(y) : most;
        if (memcmp(&a->v[i], &b->v[i], sizeof(*a->v)) == 0)
            continue;
        n++;
        if (!(fabs(x - y) <= *out_worst))
            *out_worst = fabs(x - y);
    }
    *out_worst /= most > 0 ? most : 1;
    return n + (a->n != b->n);
}

static int
compare_sizes(struct bench *bench, const struct run *run, const char *name)
{
    static double own[MAX_TURNS], plain[MAX_TURNS];
    struct results a = {0}, b = {0};
    uint64_t n_plain, n_own, n_plans;
    double worst;
    char text[96];
    size_t i, n, other;

    for (i = 0; i < ARRAY_LEN(sizes); i++) {
        struct bell_dim pb = bell_dim_of(sizes[i][0]),
                        ps = bell_dim_of(sizes[i][1]);
        uint64_t end;

        if (bell_symbol_set(run->models.ctx, run->b, sizes[i][0]) != BELL_OK ||
            bell_symbol_set(run->models.ctx, run->s, sizes[i][1]) != BELL_OK)
            return 1;
        n_plain = kernels_of(run);
        if (step(run, pb, ps, &b) < 0)
            return 1;
        n_plain = kernels_of(run) - n_plain;
        n_own = kernels_of(run);
        n_plans = plans_of(run);
        if (step(run, run->b, run->s, &a) < 0)
            return 1;
        n_own = kernels_of(run) - n_own;
        n_plans = plans_of(run) - n_plans;
        other = count_other(&a, &b, &worst);
        end = time_now_ns() + (uint64_t)(bench->seconds * 1e9);
        for (n = 0; n < MAX_TURNS && (n < 3 || time_now_ns() < end); n++) {
            own[n] = step(run, run->b, run->s, &a);
            plain[n] = step(run, pb, ps, &b);
            if (own[n] < 0 || plain[n] < 0)
                return 1;
        }
        snprintf(text, sizeof(text), "%s %dx%d", name, (int)sizes[i][0],
                 (int)sizes[i][1]);
        json_object(&bench->json, NULL);
        json_str(&bench->json, "name", text);
        json_uint(&bench->json, "plain_kernels", n_plain);
        json_uint(&bench->json, "new_plans", n_plans);
        json_uint(&bench->json, "new_kernels", n_own);
        json_uint(&bench->json, "values", b.n);
        json_uint(&bench->json, "other_bits", other);
        json_num(&bench->json, "worst", worst);
        json_num(&bench->json, "time_ms", bench_median(own, n));
        json_num(&bench->json, "plain_ms", bench_median(plain, n));
        json_num(&bench->json, "ratio",
                 bench_median(own, n) / bench_median(plain, n));
        json_end(&bench->json);
        fprintf(stderr,
                "%-22s kernels %3u, plain %3u; bits %8zu of %8zu (%.1e); "
                "%9.3f ms, plain %9.3f: %.2f\n",
                text, (unsigned)n_own, (unsigned)n_plain, other, b.n, worst,
                bench_median(own, n), bench_median(plain, n),
                bench_median(own, n) / bench_median(plain, n));
    }
    free(a.v);
    free(b.v);
    return 0;
}

static int
compare_model(struct bench *bench, const char *device, enum size_model kind,
              bool trains)
{
    const char *width = getenv("BELL_WIDTH");
    struct bell_context *ctx;
    struct run run = {.trains = trains};
    char name[64];
    int64_t wide = width ? strtoll(width, NULL, 10) : 768;
    int failed = 1;

    snprintf(name, sizeof(name), "%s %s", size_model_names[kind],
             trains ? "gradients" : "forward");
    if (!bench_wants(bench, name))
        return 0;
    if (bell_context_create(device, &ctx) != BELL_OK)
        return 1;
    run.b = bell_symbol(ctx, "b", 1, MAX_B);
    run.s = bell_symbol(ctx, "s", 1, MAX_S);
    if (size_models_init(&run.models, ctx, kind, wide, wide / 64, MAX_B, MAX_S))
        failed = compare_sizes(bench, &run, name);
    size_models_fini(&run.models);
    bell_context_destroy(ctx);
    return failed;
}

int
main(int argc, char **argv)
{
    const char *device = getenv("BELL_DEVICE");
    struct bench bench;
    int kind;

    bench_begin(&bench, argc, argv);
    for (kind = 0; kind < SIZE_MODEL_COUNT; kind++) {
        bench.n_failed += compare_model(&bench, device ? device : "CPU",
                                        (enum size_model)kind, false);
        bench.n_failed += compare_model(&bench, device ? device : "CPU",
                                        (enum size_model)kind, true);
    }
    return bench_end(&bench);
}
