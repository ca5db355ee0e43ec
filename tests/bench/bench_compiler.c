/* What the compiler costs: graph nodes, scheduling, lowering, machine code,
 * steps that differ in a number, and a whole process from start to first
 * result, compiling and not.
 *
 * usage: bench_compiler [bench options] with BENCH_START naming bench_start
 */
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/thread.h"
#include "doorbell/ops.h"
#include "doorbell/stats.h"
#include "doorbell/tensor.h"
#include "lower/schedule/schedule.h"
#include "tests/bench/bench.h"
#include "uops/uop.h"

#define N_NODES   1000000
#define N_KERNELS 24
#define N_STARTS  21

static void
put_number(struct bench *bench, const char *name, const char *key, double value)
{
    json_object(&bench->json, NULL);
    json_str(&bench->json, "name", name);
    json_num(&bench->json, key, value);
    json_end(&bench->json);
}

static void
fail(struct bench *bench, const char *name)
{
    fprintf(stderr, "%s: %s\n", name, bell_error_last()->message);
    bench->n_failed++;
}

/* ---- the graph -------------------------------------------------------- */

/* Leaf `number` of a numbered graph (lower/schedule/schedule.h), 1024
 * floats. */
static const struct uop *
make_leaf(struct uop_graph *g, int64_t number)
{
    int64_t dims[2] = {number, 1024};
    union uop_arg arg = {.bits = 0};

    arg.dims = uop_dims(g, dims, 2);
    return uop_new_shaped(g, UOP_BUFFER, UOP_F32, arg, NULL, 0,
                          uop_dims(g, dims + 1, 1));
}

/* A chain x+y, (x+y)*y, ... of n elementwise nodes over two buffers. */
static const struct uop *
make_chain(struct uop_graph *g, size_t n)
{
    const struct uop *x = make_leaf(g, 0), *y = make_leaf(g, 1);
    const struct uop_dims *shape = uop_shape(g, x);
    size_t i;

    for (i = 0; i < n; i++) {
        const struct uop *src[2] = {x, y};
        x = uop_new_shaped(g, i % 2 ? UOP_MUL : UOP_ADD, UOP_F32,
                           (union uop_arg){.bits = 0}, src, 2, shape);
    }
    return x;
}

static void
bench_nodes(struct bench *bench)
{
    struct sched_target target = {.n_parallel = bench->n_threads};
    struct uop_graph graph, kernels;
    struct sched_plan plan;
    const struct uop *root;
    uint64_t start, made, again, done;
    bell_status status;

    if (!bench_wants(bench, "graph"))
        return;
    uop_graph_init(&graph);
    uop_graph_init(&kernels);
    start = time_now_ns();
    root = make_chain(&graph, N_NODES);
    made = time_now_ns();
    if (make_chain(&graph, N_NODES) != root || graph.failed)
        bench->n_failed++;
    again = time_now_ns();
    status = sched_build(&graph, &root, 1, &target, &kernels, &plan);
    done = time_now_ns();
    put_number(bench, "graph node, new", "time_ns",
               (double)(made - start) / N_NODES);
    put_number(bench, "graph node, found", "time_ns",
               (double)(again - made) / N_NODES);
    if (status == BELL_OK)
        put_number(bench, "graph of 1,000,000 nodes, schedule", "time_s",
                   (double)(done - again) / 1e9);
    else
        fail(bench, "schedule of a long chain");
    uop_graph_fini(&graph);
    uop_graph_fini(&kernels);
}

/* ---- kernels ---------------------------------------------------------- */

/* Graphs of one or a few kernels, of sizes that nothing else here uses. */
static struct bell_tensor *
make_work(struct bell_context *ctx, unsigned nth)
{
    int64_t n = 64 + (int64_t)nth;
    struct bell_tensor *x = bell_empty(ctx, BELL_DIMS(n, 48), BELL_FLOAT32);
    struct bell_tensor *y = bell_empty(ctx, BELL_DIMS(48, n), BELL_FLOAT32);

    x = bell_add(x, bell_scalar(ctx, 0.5));
    switch (nth % 8) {
    case 0:
        return bell_matmul(x, y);
    case 1:
        return bell_softmax(x, -1);
    case 2:
        return bell_sum(x, BELL_DIMS(0), false);
    case 3:
        return bell_gelu(bell_mul(x, x), false);
    case 4:
        return bell_layer_norm(x, 1, NULL, NULL, 1e-5);
    case 5:
        return bell_relu(
            bell_add(bell_matmul(x, y), bell_sum(x, BELL_DIMS(1), true)));
    case 6:
        return bell_max(x, BELL_DIMS(1), false);
    default:
        return bell_sin(bell_exp(x));
    }
}

static void
bench_kernels(struct bench *bench)
{
    double schedule[N_KERNELS], lower[N_KERNELS], compile[N_KERNELS];
    struct bell_stats before = {.struct_size = sizeof(before)},
                      after = {.struct_size = sizeof(after)};
    struct bell_context *ctx;
    unsigned i, n = 0;

    if (!bench_wants(bench, "kernel"))
        return;
    if (bell_context_create(NULL, &ctx) != BELL_OK) {
        fail(bench, "kernels");
        return;
    }
    for (i = 0; i < N_KERNELS; i++) {
        double n_kernels;
        bell_context_stats(ctx, &before);
        if (bell_realize1(make_work(ctx, i)) != BELL_OK)
            fail(bench, "kernels");
        bell_context_stats(ctx, &after);
        n_kernels =
            (double)(after.n_kernels_compiled - before.n_kernels_compiled);
        if (n_kernels == 0 ||
            after.n_kernels_planned - before.n_kernels_planned != n_kernels)
            continue;
        schedule[n] =
            (double)(after.schedule_ns - before.schedule_ns) / 1e3 / n_kernels;
        lower[n] = (double)(after.lower_ns - before.lower_ns) / 1e3 / n_kernels;
        compile[n] =
            (double)(after.compile_ns - before.compile_ns) / 1e6 / n_kernels;
        n++;
    }
    if (n < N_KERNELS / 2)
        fail(bench, "kernels: too few are new");
    put_number(bench, "kernel, schedule", "time_us", bench_median(schedule, n));
    put_number(bench, "kernel, lower", "time_us", bench_median(lower, n));
    put_number(bench, "kernel, machine code", "time_ms",
               bench_median(compile, n));
    bell_context_destroy(ctx);
}

/* ---- steps that differ in a number or a slice -------------------------- */

#define N_STEPS 64 /* the first few compile */

static double
time_step(struct bench *bench, struct bell_context *ctx, struct bell_tensor *x,
          int64_t row, double number)
{
    uint64_t start = time_now_ns();
    bell_status status = bell_scope_begin(ctx);
    float out[64];

    if (status == BELL_OK)
        status = bell_read(bell_mul_scalar(bell_narrow(x, 0, row, 64), number),
                           out, sizeof(out));
    if (status == BELL_OK)
        status = bell_scope_end(ctx);
    if (status != BELL_OK)
        fail(bench, "step");
    return (double)(time_now_ns() - start) / 1e3;
}

/* Turn by turn: the same step again, with another number, another slice. */
static void
bench_steps(struct bench *bench)
{
    double same[N_STEPS], number[N_STEPS], slice[N_STEPS];
    struct bell_context *ctx;
    struct bell_tensor *x;
    int i;

    if (!bench_wants(bench, "step"))
        return;
    if (bell_context_create(NULL, &ctx) != BELL_OK) {
        fail(bench, "steps");
        return;
    }
    x = bell_zeros(ctx, BELL_DIMS(64 * N_STEPS), BELL_FLOAT32);
    if (bell_realize1(x) != BELL_OK)
        fail(bench, "steps");
    for (i = 0; i < N_STEPS; i++) {
        same[i] = time_step(bench, ctx, x, 64, 3);
        number[i] = time_step(bench, ctx, x, 64, 4 + i);
        slice[i] = time_step(bench, ctx, x, 64 * i, 3);
    }
    put_number(bench, "step, the same again", "time_us",
               bench_median(same, N_STEPS));
    put_number(bench, "step, another number", "time_us",
               bench_median(number, N_STEPS));
    put_number(bench, "step, another slice", "time_us",
               bench_median(slice, N_STEPS));
    bell_context_destroy(ctx);
}

/* ---- a whole process -------------------------------------------------- */

extern char **environ;

/* Milliseconds from starting the program to its end; negative if it failed. */
static double
time_program(const char *path)
{
    char *argv[] = {(char *)(uintptr_t)path, NULL};
    uint64_t start = time_now_ns();
    int status = 0;
    pid_t pid;

    if (posix_spawn(&pid, path, NULL, NULL, argv, environ) != 0 ||
        waitpid(pid, &status, 0) != pid || status != 0)
        return -1;
    return (double)(time_now_ns() - start) / 1e6;
}

static void
measure_start(struct bench *bench, const char *path, const char *what)
{
    double ms[N_STARTS];
    unsigned i;

    for (i = 0; i < N_STARTS; i++) {
        ms[i] = time_program(path);
        if (ms[i] < 0) {
            fprintf(stderr, "%s failed\n", path);
            bench->n_failed++;
            return;
        }
    }
    put_number(bench, what, "time_ms", bench_median(ms, N_STARTS));
}

/* Compiling, and finding the kernel on disk. */
static void
bench_start(struct bench *bench)
{
    const char *path = getenv("BENCH_START");
    char folder[] = "/tmp/bell-bench-XXXXXX", command[64];

    if (!bench_wants(bench, "process start") || !path)
        return;
    setenv("BELL_CACHE", "off", 1);
    measure_start(bench, path, "process start to first result");
    if (!mkdtemp(folder))
        return;
    setenv("BELL_CACHE", folder, 1);
    if (time_program(path) >= 0)
        measure_start(bench, path, "process start to first result, again");
    setenv("BELL_CACHE", "off", 1);
    snprintf(command, sizeof(command), "rm -rf %s", folder);
    if (system(command) != 0)
        fprintf(stderr, "%s failed\n", command);
}

int
main(int argc, char **argv)
{
    struct bench bench;

    bench_begin(&bench, argc, argv);
    bench_start(&bench);
    bench_nodes(&bench);
    bench_kernels(&bench);
    bench_steps(&bench);
    return bench_end(&bench);
}
