/* Blocks of models of symbolic batch and sequence beside the same of plain
 * sizes: kernels, bits, and time at five sizes (tests/unit/size_models.h).
 *
 * usage: bench_sizes [bench options]
 * BELL_DEVICE: the device; BELL_WIDTH: of the blocks, 768 without.
 * --filter takes a size too: "bert gradients 4x128".
 *
 * "ratio" is of the processor's time that the whole process took, which on a
 * CPU with --threads 1 does not depend on what else the machine does;
 * "wall_ratio" is of the clock's.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

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

/* Milliseconds, of the clock and of the process on processors. */
struct step_time {
    double wall, cpu;
};

/* Times of the turns of one size. */
struct turns {
    double wall[MAX_TURNS], cpu[MAX_TURNS];
};

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

static double
cpu_ms(void)
{
    struct timespec now;

    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return (double)now.tv_sec * 1e3 + (double)now.tv_nsec / 1e6;
}

/* One step, to the first result; false if it failed. */
static bool
step(const struct run *run, struct bell_dim b, struct bell_dim s,
     struct results *r, struct step_time *took)
{
    struct bell_context *ctx = run->models.ctx;
    struct bell_tensor *out[SIZE_MODEL_MAX_OUT];
    uint64_t start = time_now_ns();
    double cpu = cpu_ms();
    uint32_t n, i;
    bool good = bell_scope_begin(ctx) == BELL_OK;

    r->n = 0;
    n = good ? size_models_step(&run->models, b, s, run->trains, out) : 0;
    good = n > 0 && bell_realize(out, n) == BELL_OK && keep(r, out[0]);
    took->wall = (double)(time_now_ns() - start) / 1e6;
    took->cpu = cpu_ms() - cpu;
    for (i = 1; good && i < n; i++)
        good = keep(r, out[i]);
    if (!good)
        fprintf(stderr, "%s\n", bell_error_last()->message);
    return bell_scope_end(ctx) == BELL_OK && good;
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

static void
write_times(struct bench *bench, struct turns *own, struct turns *plain,
            size_t n)
{
    double own_cpu = bench_median(own->cpu, n),
           plain_cpu = bench_median(plain->cpu, n),
           own_wall = bench_median(own->wall, n),
           plain_wall = bench_median(plain->wall, n);

    json_num(&bench->json, "time_ms", own_wall);
    json_num(&bench->json, "plain_ms", plain_wall);
    json_num(&bench->json, "wall_ratio", own_wall / plain_wall);
    json_num(&bench->json, "cpu_ms", own_cpu);
    json_num(&bench->json, "plain_cpu_ms", plain_cpu);
    json_num(&bench->json, "ratio", own_cpu / plain_cpu);
    json_end(&bench->json);
    fprintf(stderr, "%8.2f ms, plain %8.2f: %.2f; clock %.2f\n", own_cpu,
            plain_cpu, own_cpu / plain_cpu, own_wall / plain_wall);
}

static int
compare_size(struct bench *bench, const struct run *run, const char *text,
             const int64_t size[2])
{
    static struct turns own, plain;
    struct bell_dim b = bell_dim_of(size[0]), s = bell_dim_of(size[1]);
    struct results of_own = {0}, of_plain = {0};
    uint64_t end, n_plain, n_own, n_plans;
    struct step_time t, p;
    size_t n = 0, other;
    double worst = 0;
    bool good;

    n_plain = kernels_of(run);
    good = bell_symbol_set(run->models.ctx, run->b, size[0]) == BELL_OK &&
           bell_symbol_set(run->models.ctx, run->s, size[1]) == BELL_OK &&
           step(run, b, s, &of_plain, &p);
    n_own = kernels_of(run);
    n_plans = plans_of(run);
    good = good && step(run, run->b, run->s, &of_own, &t);
    other = good ? count_other(&of_own, &of_plain, &worst) : 0;
    json_object(&bench->json, NULL);
    json_str(&bench->json, "name", text);
    json_uint(&bench->json, "plain_kernels", n_own - n_plain);
    json_uint(&bench->json, "new_plans", plans_of(run) - n_plans);
    json_uint(&bench->json, "new_kernels", kernels_of(run) - n_own);
    json_uint(&bench->json, "values", of_plain.n);
    json_uint(&bench->json, "other_bits", other);
    json_num(&bench->json, "worst", worst);
    fprintf(stderr, "%-22s kernels %2u, plain %2u; bits %7zu of %7zu (%.1e); ",
            text, (unsigned)(kernels_of(run) - n_own),
            (unsigned)(n_own - n_plain), other, of_plain.n, worst);
    end = time_now_ns() + (uint64_t)(bench->seconds * 1e9);
    for (; good && n < MAX_TURNS && (n < 3 || time_now_ns() < end); n++) {
        good = step(run, run->b, run->s, &of_own, &t) &&
               step(run, b, s, &of_plain, &p);
        own.wall[n] = t.wall;
        own.cpu[n] = t.cpu;
        plain.wall[n] = p.wall;
        plain.cpu[n] = p.cpu;
    }
    write_times(bench, &own, &plain, n);
    free(of_own.v);
    free(of_plain.v);
    return !good;
}

static int
compare_model(struct bench *bench, const char *device, enum size_model kind,
              bool trains)
{
    const char *width = getenv("BELL_WIDTH");
    struct bell_context *ctx;
    struct run run = {.trains = trains};
    char names[ARRAY_LEN(sizes)][96];
    int64_t wide = width ? strtoll(width, NULL, 10) : 768;
    int failed = 1, n_wanted = 0;
    size_t i;

    for (i = 0; i < ARRAY_LEN(sizes); i++) {
        snprintf(names[i], sizeof(names[i]), "%s %s %dx%d",
                 size_model_names[kind], trains ? "gradients" : "forward",
                 (int)sizes[i][0], (int)sizes[i][1]);
        n_wanted += bench_wants(bench, names[i]);
    }
    if (!n_wanted)
        return 0;
    if (bell_context_create(device, &ctx) != BELL_OK)
        return 1;
    run.b = bell_symbol(ctx, "b", 1, MAX_B);
    run.s = bell_symbol(ctx, "s", 1, MAX_S);
    if (size_models_init(&run.models, ctx, kind, wide, wide / 64, MAX_B, MAX_S))
        failed = 0;
    for (i = 0; !failed && i < ARRAY_LEN(sizes); i++) {
        if (bench_wants(bench, names[i]))
            failed = compare_size(bench, &run, names[i], sizes[i]);
    }
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
