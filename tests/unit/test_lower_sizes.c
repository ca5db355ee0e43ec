/* Kernels of two symbols beside the same of plain sizes: they give the same. On
 * a processor they take hardly more turns of loops, on a GPU sums have the
 * tiles and matrix instructions that those of the bounds have.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "base/bits.h"
#include "lower/tune.h"
#include "lower_kernels.h"
#include "sanitized.h"

enum {
    MAX_B = 4,
    MAX_N = 96,
    COLS = 64, /* of rows, and of what they are multiplied by */
    ROOM = MAX_B * MAX_N * COLS,
    FEW_ROWS = 48, /* plain sizes have other tiles for fewer */
};

static const struct lower_target one = {.name = "one thread",
                                        .vector_bytes = 64,
                                        .n_vector_regs = 32,
                                        .n_threads = 1,
                                        .l1_bytes = 32768,
                                        .l2_bytes = 1 << 20,
                                        .max_packed_bytes = 2 << 20,
                                        .has_fma = true,
                                        .joins_bits = true};
static const struct lower_target narrow = {.name = "16 bytes, four threads",
                                           .vector_bytes = 16,
                                           .n_vector_regs = 16,
                                           .n_threads = 4,
                                           .l1_bytes = 32768,
                                           .l2_bytes = 1 << 18,
                                           .max_packed_bytes = 2 << 20};

static const struct lower_target gpus[] = {
    {.name = "tiles",
     .vector_bytes = 16,
     .n_vector_regs = 32,
     .has_fma = true,
     .is_gpu = true,
     .warp_lanes = 32,
     .n_units = 4,
     .max_threads = 256,
     .max_regs = 255,
     .max_shared_bytes = 48 << 10,
     .max_grid = {1 << 20, 65535, 65535}},
    {.name = "matrices",
     .vector_bytes = 16,
     .n_vector_regs = 32,
     .has_fma = true,
     .is_gpu = true,
     .warp_lanes = 32,
     .n_units = 4,
     .max_threads = 256,
     .max_regs = 255,
     .max_shared_bytes = 48 << 10,
     .max_grid = {1 << 20, 65535, 65535},
     .matrix_k = {[UOP_F32] = 8},
     .matrix_layout = UOP_WMMA_NV},
};

static const union uop_arg none = {.bits = 0};

/* Sizes, and what a kernel is made of. */
struct maker {
    struct uop_graph g;
    const struct uop *size[2]; /* b, n: numbers or VARs */
    uint32_t n_ranges;
};

static const struct uop *
range(struct maker *m, enum uop_axis axis, const struct uop *size)
{
    union uop_arg arg = {.i = uop_range_arg(m->n_ranges++, axis)};

    return uop_new(&m->g, UOP_RANGE, UOP_I64, 1, arg, &size, 1);
}

static const struct uop *
number(struct maker *m, int64_t x)
{
    return uop_const_int(&m->g, UOP_I64, x);
}

/* a * by + b */
static const struct uop *
step_by(struct maker *m, const struct uop *a, const struct uop *by,
        const struct uop *b)
{
    return uop_alu2(&m->g, UOP_ADD, uop_alu2(&m->g, UOP_MUL, a, by), b);
}

static const struct uop *
load(struct maker *m, int slot, const struct uop *at)
{
    const struct uop *src[2] = {NULL, at};

    src[0] = uop_new(&m->g, UOP_PARAM, UOP_F32, 1, (union uop_arg){.i = slot},
                     NULL, 0);
    return uop_make(&m->g, UOP_LOAD, UOP_F32, 1, none, src, 2);
}

static const struct uop *
sink(struct maker *m, const struct uop *at, const struct uop *x)
{
    const struct uop *src[3] = {NULL, at, x};

    src[0] =
        uop_new(&m->g, UOP_PARAM, UOP_F32, 1, (union uop_arg){.i = 0}, NULL, 0);
    x = uop_make(&m->g, UOP_STORE, UOP_VOID, 1, none, src, 3);
    return uop_make(&m->g, UOP_SINK, UOP_VOID, 1, none, &x, 1);
}

static const struct uop *
sum(struct maker *m, const struct uop *x, const struct uop *const *over,
    uint32_t n)
{
    const struct uop *src[3] = {x};
    uint32_t i;

    for (i = 0; i < n; i++)
        src[1 + i] = over[i];
    return uop_make(&m->g, UOP_REDUCE, UOP_F32, 1,
                    (union uop_arg){.i = UOP_ADD}, src, 1 + n);
}

/* y[b][n][c] = x[b][n][c] * x[b][n][c] */
static const struct uop *
make_squares(struct maker *m)
{
    const struct uop *b = range(m, UOP_AXIS_LOOP, m->size[0]),
                     *n = range(m, UOP_AXIS_LOOP, m->size[1]),
                     *c = range(m, UOP_AXIS_LOOP, number(m, COLS)), *at, *x;

    at = step_by(m, step_by(m, b, m->size[1], n), number(m, COLS), c);
    x = load(m, 1, at);
    return sink(m, at, uop_alu2(&m->g, UOP_MUL, x, x));
}

/* The same, and a value of each n more. */
static const struct uop *
make_shared(struct maker *m)
{
    const struct uop *b = range(m, UOP_AXIS_LOOP, m->size[0]),
                     *n = range(m, UOP_AXIS_LOOP, m->size[1]),
                     *c = range(m, UOP_AXIS_LOOP, number(m, COLS)), *at, *x;

    at = step_by(m, step_by(m, b, m->size[1], n), number(m, COLS), c);
    x = load(m, 1, at);
    x = uop_alu2(&m->g, UOP_ADD, uop_alu2(&m->g, UOP_MUL, x, x),
                 load(m, 2, step_by(m, n, number(m, COLS), c)));
    return sink(m, at, x);
}

/* y[b][n][c] = sum over k of x[b][n][k] * w[c][k] */
static const struct uop *
make_rows(struct maker *m)
{
    const struct uop *b = range(m, UOP_AXIS_LOOP, m->size[0]),
                     *n = range(m, UOP_AXIS_LOOP, m->size[1]),
                     *c = range(m, UOP_AXIS_LOOP, number(m, COLS)),
                     *k = range(m, UOP_AXIS_REDUCE, number(m, COLS)), *row, *x;

    row = step_by(m, b, m->size[1], n);
    x = uop_alu2(&m->g, UOP_MUL,
                 load(m, 1, step_by(m, row, number(m, COLS), k)),
                 load(m, 2, step_by(m, c, number(m, COLS), k)));
    return sink(m, step_by(m, row, number(m, COLS), c), sum(m, x, &k, 1));
}

enum sum {
    PRODUCTS,
    TURNED,  /* z[n][b][j] */
    SCALED,  /* twice that */
    SHIFTED, /* one more of each x: no 0 behind the sizes */
    SQUARES, /* of x and z, summed */
};

/* y[i][j] = sum over b and n of x[b][n][i] * z[b][n][j], or so. */
static const struct uop *
make_sum(struct maker *m, enum sum what)
{
    const struct uop *i = range(m, UOP_AXIS_LOOP, number(m, COLS)),
                     *j = range(m, UOP_AXIS_LOOP, number(m, COLS)),
                     *over[2] = {range(m, UOP_AXIS_REDUCE, m->size[0]),
                                 range(m, UOP_AXIS_REDUCE, m->size[1])},
                     *row, *other, *x, *z;

    row = step_by(m, over[0], m->size[1], over[1]);
    other = what == TURNED ? step_by(m, over[1], m->size[0], over[0]) : row;
    x = load(m, 1, step_by(m, row, number(m, COLS), i));
    z = load(m, 2, step_by(m, other, number(m, COLS), j));
    if (what == SHIFTED)
        x = uop_alu2(&m->g, UOP_ADD, x, uop_const_float(&m->g, UOP_F32, 1));
    x = uop_alu2(&m->g, what == SQUARES ? UOP_ADD : UOP_MUL, x, z);
    if (what == SQUARES)
        x = uop_alu2(&m->g, UOP_MUL, x, x);
    if (what == SCALED)
        x = uop_alu2(&m->g, UOP_MUL, x, uop_const_float(&m->g, UOP_F32, 2));
    return sink(m, step_by(m, i, number(m, COLS), j), sum(m, x, over, 2));
}

static const struct uop *
make_products(struct maker *m)
{
    return make_sum(m, PRODUCTS);
}

static const struct uop *
make_turned(struct maker *m)
{
    return make_sum(m, TURNED);
}

static const struct uop *
make_scaled(struct maker *m)
{
    return make_sum(m, SCALED);
}

static const struct uop *
make_shifted(struct maker *m)
{
    return make_sum(m, SHIFTED);
}

static const struct uop *
make_sum_squares(struct maker *m)
{
    return make_sum(m, SQUARES);
}

/* Loops of plain sums are unrolled by four. Those that end at a symbol take as
 * many turns as there are steps. */
static const struct {
    const char *name;
    const struct uop *(*make)(struct maker *m);
    double most; /* turns, over those of plain sizes */
} kinds[] = {
    {"squares", make_squares, 1},   {"shared", make_shared, 1},
    {"rows", make_rows, 1.1},       {"products", make_products, 4.1},
    {"turned", make_turned, 4.1},   {"scaled", make_scaled, 4.1},
    {"shifted", make_shifted, 4.1}, {"sum of squares", make_sum_squares, 4.1},
};

static bool
is_sum(size_t kind)
{
    return kind >= 3;
}

static bool
has_arrays(const struct lower_program *program)
{
    uint32_t i;

    for (i = 0; i < program->n_ops; i++) {
        if (program->ops[i]->op == UOP_LOCAL)
            return true;
    }
    return false;
}

/* Runs the kernel at sizes, by the rules and by the schedule that they made;
 * the turns that its loops take. */
static uint64_t
run(size_t kind, const struct lower_target *target, int64_t b, int64_t n,
    bool symbolic, struct p_buf *bufs, bool *out_packs)
{
    struct lower_program program;
    struct lower_made made;
    struct maker m = {.n_ranges = 0};
    const struct uop *root;
    uint64_t turns[2] = {0};
    char err[256] = "";
    int i;

    uop_graph_init(&m.g);
    for (i = 0; i < 2; i++) {
        const struct uop *bounds[2] = {number(&m, 0),
                                       number(&m, i ? MAX_N : MAX_B)};
        m.size[i] = symbolic ? uop_new(&m.g, UOP_VAR, UOP_I64, 1,
                                       (union uop_arg){.i = 3 + i}, bounds, 2)
                             : number(&m, i ? n : b);
    }
    bufs[3].n_elems = (size_t)b;
    bufs[4].n_elems = (size_t)n;
    root = kinds[kind].make(&m);
    for (i = 0; i < 2; i++) {
        if (lower_kernel_by(&m.g, root, target, i ? &made.schedule : NULL,
                            i ? NULL : &made, &program) != BELL_OK ||
            p_run_counting(&program, bufs, symbolic ? 5 : 3, &turns[i], err,
                           sizeof(err)))
            fail_msg("%s on %s, %d x %d%s: %s", kinds[kind].name, target->name,
                     (int)b, (int)n, i ? ", as made" : "",
                     err[0] ? err : bell_error_last()->message);
    }
    if (turns[1] != turns[0])
        fail_msg("%s on %s, %d x %d: %d turns, %d by the schedule made",
                 kinds[kind].name, target->name, (int)b, (int)n, (int)turns[0],
                 (int)turns[1]);
    *out_packs = has_arrays(&program);
    uop_graph_fini(&m.g);
    return turns[0];
}

static void
test_turns(void **state)
{
    static const int64_t sizes[][2] = {
        {1, 1}, {2, 5}, {4, 13}, {3, 33}, {4, 96}};
    const struct lower_target *targets[] = {&one, &narrow};
    float *v = calloc(4 * ROOM, sizeof(*v));
    struct p_buf bufs[5] = {{UOP_F32, ROOM, v},
                            {UOP_F32, ROOM, v + ROOM},
                            {UOP_F32, ROOM, v + 2 * ROOM},
                            {UOP_I64, 0, NULL},
                            {UOP_I64, 0, NULL}};
    size_t kind, t, i, at;
    uint64_t plain, own;
    bool packs, plain_packs;

    (void)state;
    assert_non_null(v);
    for (at = ROOM; at < 3 * ROOM; at++)
        v[at] = (float)(at * 7919 % 13) - 6;
    for (kind = 0; kind < ARRAY_LEN(kinds); kind++) {
        for (t = 0; t < ARRAY_LEN(targets); t++) {
            for (i = 0; i < ARRAY_LEN(sizes) - (IS_SANITIZED ? 1 : 0); i++) {
                memset(v, 0, ROOM * sizeof(*v));
                plain = run(kind, targets[t], sizes[i][0], sizes[i][1], false,
                            bufs, &plain_packs);
                memcpy(v + 3 * ROOM, v, ROOM * sizeof(*v));
                memset(v, 0, ROOM * sizeof(*v));
                own = run(kind, targets[t], sizes[i][0], sizes[i][1], true,
                          bufs, &packs);
                for (at = 0; at < ROOM; at++)
                    assert_true(v[at] == v[at + 3 * ROOM]);
                if (sizes[i][0] * sizes[i][1] < FEW_ROWS)
                    continue;
                if ((double)own > kinds[kind].most * (double)plain ||
                    (sizes[i][0] * sizes[i][1] == MAX_B * MAX_N &&
                     packs != plain_packs))
                    fail_msg("%s on %s, %d x %d: %d turns, of plain sizes %d; "
                             "packed: %d, %d",
                             kinds[kind].name, targets[t]->name,
                             (int)sizes[i][0], (int)sizes[i][1], (int)own,
                             (int)plain, packs, plain_packs);
            }
        }
    }
    free(v);
}

/* A sum's schedule for b x n, and its results. */
static void
run_gpu(size_t kind, const struct lower_target *target, int64_t b, int64_t n,
        bool symbolic, struct p_buf *bufs, char *schedule)
{
    struct lower_program program;
    struct lower_made made;
    struct maker m = {.n_ranges = 0};
    char err[256] = "";
    int i;

    uop_graph_init(&m.g);
    for (i = 0; i < 2; i++) {
        const struct uop *bounds[2] = {number(&m, 1),
                                       number(&m, i ? MAX_N : MAX_B)};
        m.size[i] = symbolic ? uop_new(&m.g, UOP_VAR, UOP_I64, 1,
                                       (union uop_arg){.i = 3 + i}, bounds, 2)
                             : number(&m, i ? n : b);
    }
    bufs[3].n_elems = (size_t)b;
    bufs[4].n_elems = (size_t)n;
    if (lower_kernel_by(&m.g, kinds[kind].make(&m), target, NULL, &made,
                        &program) != BELL_OK ||
        p_run(&program, bufs, symbolic ? 5 : 3, err, sizeof(err)))
        fail_msg("%s by %s, %d x %d: %s", kinds[kind].name, target->name,
                 (int)b, (int)n, err[0] ? err : bell_error_last()->message);
    lower_schedule_print(&made.schedule, schedule);
    uop_graph_fini(&m.g);
}

/* Sums of products whose factors are 0 behind the sizes are sums of products
 * still; others leave out what is there. */
static void
test_gpu(void **state)
{
    static const int64_t sizes[][2] = {{4, 96}, {2, 5}, {3, 33}};
    static char text[2][LOWER_SCHEDULE_TEXT];
    float *v = calloc(4 * ROOM, sizeof(*v));
    struct p_buf bufs[5] = {{UOP_F32, ROOM, v},
                            {UOP_F32, ROOM, v + ROOM},
                            {UOP_F32, ROOM, v + 2 * ROOM},
                            {UOP_I64, 0, NULL},
                            {UOP_I64, 0, NULL}};
    size_t kind, t, i, at;

    (void)state;
    assert_non_null(v);
    for (at = ROOM; at < 3 * ROOM; at++)
        v[at] = (float)(at * 7919 % 13) - 6;
    for (kind = 0; kind < ARRAY_LEN(kinds); kind++) {
        for (t = 0; is_sum(kind) && t < ARRAY_LEN(gpus); t++) {
            for (i = 0; i < ARRAY_LEN(sizes); i++) {
                run_gpu(kind, &gpus[t], sizes[i][0], sizes[i][1], false, bufs,
                        text[0]);
                memcpy(v + 3 * ROOM, v, ROOM * sizeof(*v));
                memset(v, 0, ROOM * sizeof(*v));
                run_gpu(kind, &gpus[t], sizes[i][0], sizes[i][1], true, bufs,
                        text[1]);
                if (memcmp(v, v + 3 * ROOM, COLS * COLS * sizeof(*v)) != 0)
                    fail_msg("%s by %s, %d x %d: other results",
                             kinds[kind].name, gpus[t].name, (int)sizes[i][0],
                             (int)sizes[i][1]);
                if (i == 0 && strcmp(text[0], text[1]) != 0)
                    fail_msg("%s by %s: %s, of plain sizes %s",
                             kinds[kind].name, gpus[t].name, text[1], text[0]);
            }
        }
    }
    free(v);
}

/* A sum over nothing is 0. */
static void
test_nothing(void **state)
{
    float *v = calloc(3 * ROOM, sizeof(*v));
    struct p_buf bufs[5] = {{UOP_F32, ROOM, v},
                            {UOP_F32, ROOM, v + ROOM},
                            {UOP_F32, ROOM, v + 2 * ROOM},
                            {UOP_I64, 0, NULL},
                            {UOP_I64, 0, NULL}};
    size_t kind, i;
    bool packs;

    (void)state;
    assert_non_null(v);
    for (kind = 0; kind < ARRAY_LEN(kinds); kind++) {
        for (i = 0; i < ROOM; i++)
            v[i] = 5;
        (void)run(kind, &one, 0, 7, true, bufs, &packs);
        for (i = 0; i < ROOM; i++)
            assert_true(v[i] == (is_sum(kind) && i < COLS * COLS ? 0 : 5));
    }
    free(v);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_turns),
        cmocka_unit_test(test_nothing),
        cmocka_unit_test(test_gpu),
    };

    return cmocka_run_group_tests_name("lower_sizes", tests, NULL, NULL);
}
