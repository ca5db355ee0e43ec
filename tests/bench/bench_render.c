/* What the code generator makes of programs written as lower/ would: a matmul
 * tile, the functions, gathers; and how long LLVM takes for each.
 *
 * usage: bench_render [bench options]
 */
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "base/thread.h"
#include "tests/bench/bench.h"
#include "tests/unit/host_run.h"

#define MATMUL_N   1024
#define TILE_ROWS  8
#define TILE_COLS  2 /* vectors */
#define N_ELEMS    16384
#define N_COMPILES 31

/* A program, its code and its memory. */
struct kernel {
    struct uop_graph g;
    struct lower_program p;
    struct host_code code;
    struct lower_target target;
    void *bufs[3];
};

typedef void peer_fn(void *user);

static void
kernel_init(struct kernel *k)
{
    uop_graph_init(&k->g);
    if (render_host_target(&k->target) != BELL_OK)
        exit(1);
}

static void
kernel_fini(struct kernel *k)
{
    int i;

    for (i = 0; i < 3; i++)
        host_free(k->bufs[i]);
    host_release(&k->code);
    program_free(&k->p);
    uop_graph_fini(&k->g);
}

/* Memory, code, and the median time of making the code. */
static double
kernel_compile(struct kernel *k, size_t n_floats)
{
    double ms[N_COMPILES];
    size_t i, j;

    for (i = 0; i < 3; i++) {
        float *x = host_aligned(64, n_floats * sizeof(*x));
        if (!x)
            exit(1);
        for (j = 0; j < n_floats; j++)
            x[j] = (float)(j * 7919 % 1009) / 512 + 0.01f;
        k->bufs[i] = x;
    }
    for (i = 0; i < N_COMPILES; i++) {
        struct render_binary binary;
        uint64_t start = time_now_ns();
        if (render_host(&k->p, &k->target, &binary) != BELL_OK) {
            fprintf(stderr, "%s\n", bell_error_last()->message);
            exit(1);
        }
        ms[i] = (double)(time_now_ns() - start) * 1e-6;
        render_binary_fini(&binary);
    }
    host_compile(&k->p, &k->target, &k->code);
    return bench_median(ms, N_COMPILES);
}

static int
run_kernel(void *user)
{
    struct kernel *k = user;

    host_call(&k->code, &k->p, k->bufs);
    return 0;
}

static void
put_compile(struct bench *bench, const char *name, double ms)
{
    char label[64];

    snprintf(label, sizeof(label), "%s, machine code", name);
    json_object(&bench->json, NULL);
    json_str(&bench->json, "name", label);
    json_num(&bench->json, "time_ms", ms);
    json_end(&bench->json);
}

/* ---- matmul ----------------------------------------------------------- */

struct tile {
    const struct uop *acc[TILE_ROWS][TILE_COLS];
    const struct uop *row, *col; /* index of the tile's first elements */
};

static const struct uop *
special(struct uop_graph *g, unsigned axis, int64_t size)
{
    const struct uop *extent = mk_int(g, size);

    return mk(g, UOP_SPECIAL, UOP_I64, 1, axis, 1, &extent);
}

static const struct uop *
add_at(struct uop_graph *g, const struct uop *a, const struct uop *b, int64_t c)
{
    return uop_alu2(g, UOP_ADD, uop_alu2(g, UOP_ADD, a, b), mk_int(g, c));
}

static const struct uop *
get_acc(struct uop_graph *g, const struct uop *acc, const struct uop *after)
{
    const struct uop *src[2] = {acc, after};

    return mk(g, UOP_ACC_GET, UOP_F32, acc->lanes, 0, 2, src);
}

/* acc += a[row + i][k] * b[k][col + j] for the tile; the loop's END. */
static const struct uop *
tile_loop(struct uop_graph *g, struct tile *t, unsigned lanes)
{
    const struct uop *a = mk_param(g, 1, UOP_F32), *b = mk_param(g, 2, UOP_F32);
    const struct uop *k = uop_range(g, 0, UOP_AXIS_REDUCE, MATMUL_N), *at;
    const struct uop *right[TILE_COLS], *left, *set[1 + TILE_ROWS * TILE_COLS];
    uint32_t n = 0, i, j;

    set[n++] = k;
    at = uop_alu2(g, UOP_MUL, k, mk_int(g, MATMUL_N));
    for (j = 0; j < TILE_COLS; j++)
        right[j] =
            mk_load(g, b, add_at(g, at, t->col, j * lanes), lanes, NULL, NULL);
    for (i = 0; i < TILE_ROWS; i++) {
        left = mk_load(g, a, add_at(g, t->row, k, (int64_t)i * MATMUL_N), 1,
                       NULL, NULL);
        left = mk_splat(g, left, lanes);
        for (j = 0; j < TILE_COLS; j++) {
            const struct uop *src[2] = {t->acc[i][j], NULL};
            src[1] = uop_alu3(g, UOP_MULACC, left, right[j],
                              get_acc(g, t->acc[i][j], k));
            set[n++] = mk(g, UOP_ACC_SET, UOP_VOID, 1, 0, 2, src);
        }
    }
    return mk(g, UOP_END, UOP_VOID, 1, 0, n, set);
}

static void
build_matmul(struct kernel *k)
{
    struct uop_graph *g = &k->g;
    unsigned lanes = k->target.vector_bytes / 4, i, j, n = 0;
    const struct uop *zero = uop_const_float(g, UOP_F32, 0), *end, *to;
    const struct uop *store[TILE_ROWS * TILE_COLS], *out;
    struct tile t;

    out = mk_param(g, 0, UOP_F32);
    t.col = special(g, 0, MATMUL_N / (TILE_COLS * lanes));
    t.col = uop_alu2(g, UOP_MUL, t.col, mk_int(g, TILE_COLS * lanes));
    t.row = special(g, 1, MATMUL_N / TILE_ROWS);
    t.row = uop_alu2(g, UOP_MUL, t.row, mk_int(g, TILE_ROWS * MATMUL_N));
    zero = mk_splat(g, zero, lanes);
    for (i = 0; i < TILE_ROWS; i++) {
        for (j = 0; j < TILE_COLS; j++)
            t.acc[i][j] =
                mk(g, UOP_ACC, UOP_F32, lanes, i * TILE_COLS + j, 1, &zero);
    }
    end = tile_loop(g, &t, lanes);
    for (i = 0; i < TILE_ROWS; i++) {
        for (j = 0; j < TILE_COLS; j++) {
            to = add_at(g, t.row, t.col, i * MATMUL_N + j * lanes);
            store[n++] =
                mk_store(g, out, to, get_acc(g, t.acc[i][j], end), NULL);
        }
    }
    program_of(g, store, n, &k->p);
}

static void
bench_matmul(struct bench *bench)
{
    struct bench_case c = {.name = "matmul tile 8x2, 1024^3 float32",
                           .ours = run_kernel,
                           .n_flops = 2.0 * MATMUL_N * MATMUL_N * MATMUL_N};
    struct kernel k;

    if (!bench_wants(bench, c.name))
        return;
    kernel_init(&k);
    build_matmul(&k);
    put_compile(bench, c.name, kernel_compile(&k, (size_t)MATMUL_N * MATMUL_N));
    c.user = &k;
    bench_run(bench, &c);
    kernel_fini(&k);
}

/* ---- functions -------------------------------------------------------- */

static void
peer_exp2(void *user)
{
    struct kernel *k = user;
    float *out = k->bufs[2], *in = k->bufs[1];
    size_t i;

    for (i = 0; i < N_ELEMS; i++)
        out[i] = exp2f(in[i]);
}

static void
peer_log2(void *user)
{
    struct kernel *k = user;
    float *out = k->bufs[2], *in = k->bufs[1];
    size_t i;

    for (i = 0; i < N_ELEMS; i++)
        out[i] = log2f(in[i]);
}

static void
peer_sin(void *user)
{
    struct kernel *k = user;
    float *out = k->bufs[2], *in = k->bufs[1];
    size_t i;

    for (i = 0; i < N_ELEMS; i++)
        out[i] = sinf(in[i]);
}

/* out[i] = op(in[i]), in cache. */
static void
bench_function(struct bench *bench, enum uop_op op, peer_fn *peer)
{
    struct bench_case c = {.ours = run_kernel,
                           .peer = peer,
                           .peer_name = "C library",
                           .n_bytes = 8.0 * N_ELEMS};
    const struct uop *range, *at, *root;
    struct kernel k;
    unsigned lanes;
    char name[64];

    snprintf(name, sizeof(name), "%s of 16384 float32", uop_op_infos[op].name);
    c.name = name;
    if (!bench_wants(bench, name))
        return;
    kernel_init(&k);
    lanes = k.target.vector_bytes / 4;
    range = uop_range(&k.g, 0, UOP_AXIS_LOOP, N_ELEMS / lanes);
    at = uop_alu2(&k.g, UOP_MUL, range, mk_int(&k.g, lanes));
    root = mk_load(&k.g, mk_param(&k.g, 1, UOP_F32), at, lanes, NULL, NULL);
    root = mk(&k.g, op, UOP_F32, lanes, 0, 1, &root);
    root = mk_store(&k.g, mk_param(&k.g, 0, UOP_F32), at, root, NULL);
    root = mk_end(&k.g, range, root);
    if (lower_decompose(&k.g, &root, 1, &k.target) != BELL_OK)
        exit(1);
    program_of(&k.g, &root, 1, &k.p);
    put_compile(bench, name, kernel_compile(&k, N_ELEMS));
    c.user = &k;
    bench_run(bench, &c);
    kernel_fini(&k);
}

int
main(int argc, char **argv)
{
    struct bench bench;

    bench_begin(&bench, argc, argv);
    bench_matmul(&bench);
    bench_function(&bench, UOP_EXP2, peer_exp2);
    bench_function(&bench, UOP_LOG2, peer_log2);
    bench_function(&bench, UOP_SIN, peer_sin);
    return bench_end(&bench);
}
