/* Lowering without optimisations, and the parts that come before them:
 * every kernel, run as a program, must give what its definition gives. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#include "base/alloc.h"
#include "lower/expand/expand.h"
#include "lower/kernel/kernel.h"
#include "lower/index.h"
#include "lower/linearize.h"
#include "lower_kernels.h"
#include "sanitized.h"

static const struct lower_target plain = {
    .name = "plain", .n_threads = 1, .no_opts = true};

static const struct lower_target wide = {.name = "wide",
                                         .vector_bytes = 64,
                                         .n_vector_regs = 32,
                                         .n_threads = 2,
                                         .l1_bytes = 32768,
                                         .l2_bytes = 1 << 20,
                                         .has_fma = true,
                                         .joins_bits = true};

static const struct lower_target narrow = {.name = "narrow",
                                           .vector_bytes = 16,
                                           .n_vector_regs = 16,
                                           .n_threads = 4,
                                           .l1_bytes = 32768,
                                           .l2_bytes = 1 << 18};

static const int64_t sizes[][3] = {
    {1, 1, 1},    {3, 5, 2},    {4, 16, 8},  {7, 33, 5},
    {16, 16, 16}, {1, 40, 3},   {33, 1, 17}, {2, 100, 4},
    {13, 64, 9},  {20, 31, 70}, {64, 3, 3},  {5, 129, 12},
};

#define N_SIZES (IS_SANITIZED ? 6 : sizeof(sizes) / sizeof(sizes[0]))

/* The kernel for every target against its definition. */
static void
check_kernel(const struct lk_case *c, const int64_t *d,
             const struct lower_target *const *targets, size_t n_targets)
{
    struct lk k;
    struct p_buf want[LK_MAX_BUFS], got[LK_MAX_BUFS];
    char err[BELL_ERROR_MESSAGE] = "";
    size_t i;

    lk_init(&k, c, d, 7);
    lk_copy_bufs(&k, want);
    assert_int_equal(k_run(k.sink, want, k.n_bufs, err, sizeof(err)), 0);
    for (i = 0; i < n_targets; i++) {
        struct lower_program p;
        int bad;
        lk_copy_bufs(&k, got);
        bad = lower_kernel(&k.g, k.sink, targets[i], &p) != BELL_OK;
        if (bad)
            snprintf(err, sizeof(err), "%s", bell_error_last()->message);
        else
            bad = p_run(&p, got, k.n_bufs, err, sizeof(err)) ||
                  lk_compare(&k, want, got, err, sizeof(err));
        if (bad)
            fail_msg("%s (%d, %d, %d) on %s: %s", c->name, (int)d[0], (int)d[1],
                     (int)d[2], targets[i]->name, err);
        lk_free_copy(&k, got);
    }
    lk_free_copy(&k, want);
    lk_fini(&k);
}

static void
test_results(void **state)
{
    static const struct lower_target *const targets[] = {&plain, &wide,
                                                         &narrow};
    size_t c, s;

    (void)state;
    for (c = 0; c < lk_n_cases; c++) {
        for (s = 0; s < N_SIZES; s++)
            check_kernel(&lk_cases[c], sizes[s], targets, 3);
    }
}

/* Products that are large enough to pack their operands, where there is room
 * for a few panels, or for one or none. */
static void
test_packed_products(void **state)
{
    static const char *const names[] = {
        "matmul-nn",  "matmul-tn",  "matmul-nt",   "matmul-tt", "matmul-i32",
        "matmul-f16", "matmul-f64", "matmul-bf16", "matmul-i8",
    };
    static const int64_t dims[][3] = {{61, 131, 150}, {200, 35, 150}};
    struct lower_target roomy = wide, small = narrow;
    const struct lower_target *const targets[] = {&roomy, &small};
    size_t c, s;

    (void)state;
    roomy.max_packed_bytes = 1 << 20;
    small.max_packed_bytes = 25000;
    for (c = 0; c < sizeof(names) / sizeof(names[0]); c++) {
        for (s = 0; s < sizeof(dims) / sizeof(dims[0]); s++) {
            if (!IS_SANITIZED || s == c % 2)
                check_kernel(lk_find(names[c]), dims[s], targets, 2);
        }
    }
}

/* Position and number of loops of a program. */
static uint32_t
count_ops(const struct lower_program *p, enum uop_op op)
{
    uint32_t i, n = 0;

    for (i = 0; i < p->n_ops; i++)
        n += p->ops[i]->op == op;
    return n;
}

/* Sums over the rows of matrices, which are larger than the caches: whole rows,
 * of as many work-groups as there are threads, or as the first cache wants. */
static void
test_rows(void **state)
{
    static const struct {
        const char *name;
        int64_t d[3];
        bool whole;
    } cases[] = {
        {"max-cols", {64, 600}, true},
        {"max-cols", {67, 523}, true},
        {"max-cols", {40, 9000}, true},
        {"max-cols", {64, 64}, false},
        {"matmul-nn", {1, 600, 64}, true},
        {"matmul-f64", {1, 300, 72}, true},
        {"matmul-i32", {1, 523, 66}, true},
        {"matmul-f16", {1, 600, 33}, true},
        {"matmul-residual", {1, 600, 40}, true},
        {"matmul-batch", {3, 600, 64}, false},
        {"matmul-nn", {2, 600, 64}, false},
        {"matmul-nn", {1, 600, 16}, false},
    };
    struct lower_target one = wide, few = narrow, many = wide;
    const struct lower_target *const targets[] = {&one, &few, &many};
    struct lower_program p;
    struct lk k;
    size_t c, t;

    (void)state;
    one.n_threads = 1;
    many.n_threads = 64;
    one.max_packed_bytes = few.max_packed_bytes = 1 << 20;
    many.max_packed_bytes = 1 << 20;
    few.has_f16 = true;
    one.l2_bytes = few.l2_bytes = many.l2_bytes = 32768;
    for (c = 0; c < sizeof(cases) / sizeof(cases[0]); c++) {
        check_kernel(lk_find(cases[c].name), cases[c].d, targets, 3);
        for (t = 0; t < 3; t++) {
            lk_build(&k, lk_find(cases[c].name), cases[c].d);
            assert_int_equal(lower_kernel(&k.g, k.sink, targets[t], &p),
                             BELL_OK);
            if (count_ops(&p, UOP_LOCAL) != cases[c].whole)
                fail_msg("%s, number %zu on %s: whole rows are %sread",
                         cases[c].name, c, targets[t]->name,
                         cases[c].whole ? "not " : "");
            lk_fini(&k);
        }
    }
}

static void
lower_case(struct lk *k, const char *name, const int64_t *d,
           const struct lower_target *target, struct lower_program *p)
{
    lk_init(k, lk_find(name), d, 1);
    assert_int_equal(lower_kernel(&k->g, k->sink, target, p), BELL_OK);
}

/* Sums by products of bytes, four rows at a time and with rows that are not a
 * whole number of these: 24 products, and 6 that fill an array. Few rows, whose
 * sums are not worth it, and no room for the arrays. */
static void
test_byte_dots(void **state)
{
    static const struct {
        int64_t d[3];
        uint32_t max_packed_bytes, want;
    } cases[] = {
        {{67, 32, 0}, 1 << 20, 30}, {{128, 36, 0}, 5000, 30},
        {{40, 64, 0}, 1 << 20, 0},  {{67, 34, 0}, 1 << 20, 0},
        {{67, 32, 0}, 4000, 0},
    };
    struct lower_target target = wide;
    const struct lower_target *const targets[] = {&target};
    struct lower_program p;
    struct lk k;
    size_t i;

    (void)state;
    target.has_byte_dots = true;
    for (i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        target.max_packed_bytes = cases[i].max_packed_bytes;
        lower_case(&k, "blocks", cases[i].d, &target, &p);
        assert_int_equal(count_ops(&p, UOP_BYTE_DOT), cases[i].want);
        lk_fini(&k);
        if (!IS_SANITIZED || i < 2)
            check_kernel(lk_find("blocks"), cases[i].d, targets, 1);
    }
}

/* Depth of the loop that each ACC stands in, in program order. */
static void
acc_depths(const struct lower_program *p, int *depths, int max)
{
    uint32_t i;
    int depth = 0, n = 0;

    for (i = 0; i < p->n_ops; i++) {
        if (p->ops[i]->op == UOP_RANGE)
            depth++;
        else if (p->ops[i]->op == UOP_END)
            depth--;
        else if (p->ops[i]->op == UOP_ACC && n < max)
            depths[n++] = depth;
    }
}

static void
test_hoisted(void **state)
{
    static const int64_t d[3] = {6, 10, 0};
    struct lower_program p;
    struct lk k;
    int depths[2] = {-1, -1};

    (void)state;
    lower_case(&k, "softmax", d, &plain, &p);
    assert_int_equal(count_ops(&p, UOP_RANGE), 4);
    acc_depths(&p, depths, 2);
    assert_int_equal(depths[0], 1);
    assert_int_equal(depths[1], 1);
    assert_string_equal(p.name, "r_6_10_10_10");
    lk_fini(&k);
}

/* Integers multiply for great angles alone, and these are in branches: one for
 * the angles, of which there are a sine and a cosine, one for the row's sum,
 * one for what is stored. */
static void
test_branches(void **state)
{
    static const int64_t d[3] = {6, 40, 0};
    static const struct lower_target *const targets[] = {&plain, &wide};
    struct lower_program p;
    struct lk k;
    uint32_t i, t, n_products;
    bool inside;

    (void)state;
    for (t = 0; t < 2; t++) {
        lower_case(&k, "angles", d, targets[t], &p);
        assert_true(count_ops(&p, UOP_IF) >= 3);
        assert_int_equal(count_ops(&p, UOP_IF), count_ops(&p, UOP_ENDIF));
        inside = false;
        n_products = 0;
        for (i = 0; i < p.n_ops; i++) {
            const struct uop *u = p.ops[i];
            inside = u->op == UOP_IF || (inside && u->op != UOP_ENDIF);
            n_products += inside && u->op == UOP_MUL && u->dtype == UOP_U64;
            if (u->op == UOP_MUL && u->dtype == UOP_U64)
                assert_true(inside);
        }
        assert_true(n_products >= 6);
        lk_fini(&k);
    }
}

static void
test_shared_loop(void **state)
{
    static const int64_t d[3] = {6, 10, 0};
    struct lower_program p;
    struct lk k;

    (void)state;
    lower_case(&k, "moments", d, &plain, &p);
    assert_int_equal(count_ops(&p, UOP_RANGE), 2);
    assert_int_equal(count_ops(&p, UOP_ACC), 2);
    assert_int_equal(count_ops(&p, UOP_STORE), 2);
    assert_int_equal(count_ops(&p, UOP_LOAD), 1);
    lk_fini(&k);
}

static void
test_unit_loops_vanish(void **state)
{
    static const int64_t d[3] = {1, 1, 1};
    struct lower_program p;
    struct lk k;
    size_t c;

    (void)state;
    for (c = 0; c < lk_n_cases; c++) {
        if (!strncmp(lk_cases[c].name, "conv", 4) ||
            !strcmp(lk_cases[c].name, "matmul-batch") ||
            !strcmp(lk_cases[c].name, "blocks") ||
            !strcmp(lk_cases[c].name, "pad"))
            continue; /* sizes of their own */
        lower_case(&k, lk_cases[c].name, d, &plain, &p);
        assert_int_equal(count_ops(&p, UOP_RANGE), 0);
        if (!count_ops(&p, UOP_IF))
            assert_int_equal(count_ops(&p, UOP_ACC), 0);
        assert_int_equal(p.grid[0] * p.grid[1] * p.grid[2], 1);
        lk_fini(&k);
    }
}

static void
test_invariant_code_outside(void **state)
{
    static const int64_t d[3] = {6, 10, 5};
    struct lower_program p;
    struct lk k;
    uint32_t i;
    int depth = 0, load_depths[2] = {-1, -1}, n = 0;

    (void)state;
    lower_case(&k, "hoist", d, &plain, &p);
    for (i = 0; i < p.n_ops; i++) {
        depth += p.ops[i]->op == UOP_RANGE;
        depth -= p.ops[i]->op == UOP_END;
        if (p.ops[i]->op == UOP_LOAD && n < 2)
            load_depths[n++] = depth;
    }
    assert_int_equal(n, 2);
    assert_int_equal(load_depths[0] + load_depths[1], 2);
    lk_fini(&k);
}

static void
test_estimates(void **state)
{
    static const int64_t d[3] = {8, 16, 32};
    struct lower_program p;
    struct lk k;

    (void)state;
    lower_case(&k, "matmul-nn", d, &plain, &p);
    assert_true(p.n_flops == 2.0 * 8 * 16 * 32);
    assert_true(p.n_bytes == 4.0 * (8 * 32 + 32 * 16 + 8 * 16));
    assert_int_equal(p.n_params, 3);
    assert_int_equal(p.n_vars, 0);
    assert_string_equal(p.name, "r_8_16_32");
    lk_fini(&k);
    /* what is read twice comes once, by every LOAD or window */
    lower_case(&k, "softmax", d, &plain, &p);
    assert_true(p.n_bytes == 4.0 * (8 * 16 + 8 * 16));
    lk_fini(&k);
    lower_case(&k, "conv", d, &plain, &p);
    assert_true(p.n_bytes == /* and what indices pass the edges by */
                4.0 * (8 * 16 * 32 + 2 * 33 + 5 * 8 * 9 + 5 * 16 * 32));
    lk_fini(&k);
}

static void
test_empty_reduce(void **state)
{
    static const int64_t d[3] = {3, 0, 0};
    struct p_buf got[LK_MAX_BUFS];
    struct lower_program p;
    union uop_arg x;
    char err[256];
    struct lk k;

    (void)state;
    lower_case(&k, "sum-rows", d, &plain, &p);
    lk_copy_bufs(&k, got);
    assert_int_equal(p_run(&p, got, k.n_bufs, err, sizeof(err)), 0);
    p_get(&got[0], 2, &x);
    assert_true(x.f == 0);
    lk_free_copy(&k, got);
    lk_fini(&k);
}

/* Row sums of a matrix whose sizes are arguments. */
static void
test_sizes_as_arguments(void **state)
{
    enum {
        ROWS = 7,
        COLS = 19
    };
    static const union uop_arg none = {.bits = 0};
    float in[ROWS * COLS], out[ROWS], want;
    const struct p_buf bufs[4] = {{UOP_F32, ROWS, out},
                                  {UOP_F32, ROWS * COLS, in},
                                  {UOP_I64, ROWS, NULL},
                                  {UOP_I64, COLS, NULL}};
    const struct uop *n[2], *r[2], *src[3], *p[2], *x;
    struct lower_program program;
    struct uop_graph g;
    char err[256] = "";
    int i, j;

    (void)state;
    uop_graph_init(&g);
    for (i = 0; i < 2; i++) {
        union uop_arg slot = {.i = i}, var = {.i = 2 + i},
                      range = {
                          .i = uop_range_arg((uint32_t)i, i ? UOP_AXIS_REDUCE
                                                            : UOP_AXIS_LOOP)};
        p[i] = uop_new(&g, UOP_PARAM, UOP_F32, 1, slot, NULL, 0);
        n[i] = uop_new(&g, UOP_VAR, UOP_I64, 1, var, NULL, 0);
        r[i] = uop_new(&g, UOP_RANGE, UOP_I64, 1, range, &n[i], 1);
    }
    src[0] = p[1];
    src[1] = uop_alu2(&g, UOP_ADD, uop_alu2(&g, UOP_MUL, r[0], n[1]), r[1]);
    src[0] = uop_make(&g, UOP_LOAD, UOP_F32, 1, none, src, 2);
    src[1] = r[1];
    x = uop_make(&g, UOP_REDUCE, UOP_F32, 1, (union uop_arg){.i = UOP_ADD}, src,
                 2);
    src[0] = p[0];
    src[1] = r[0];
    src[2] = x;
    x = uop_make(&g, UOP_STORE, UOP_VOID, 1, none, src, 3);
    x = uop_make(&g, UOP_SINK, UOP_VOID, 1, none, &x, 1);
    if (lower_kernel(&g, x, &wide, &program) != BELL_OK)
        fail_msg("%s", bell_error_last()->message);
    assert_int_equal(program.n_params, 2);
    assert_int_equal(program.n_vars, 2);
    assert_string_equal(program.name, "r_n_n");
    for (i = 0; i < ROWS * COLS; i++)
        in[i] = (float)(i % 11);
    if (p_run(&program, bufs, 4, err, sizeof(err)))
        fail_msg("%s", err);
    for (i = 0; i < ROWS; i++) {
        for (j = 0, want = 0; j < COLS; j++)
            want += in[i * COLS + j];
        assert_true(out[i] == want);
    }
    uop_graph_fini(&g);
}

/* Rows and columns of an argument's number: x, or x^T, or the columns' sums. */
static const struct uop *
square_kernel(struct uop_graph *g, int kind)
{
    static const union uop_arg none = {.bits = 0};
    const struct uop *n, *r[2], *p[2], *src[3], *x, *at[2];
    int i;

    src[0] = uop_const_int(g, UOP_I64, 1);
    src[1] = uop_const_int(g, UOP_I64, 2048);
    n = uop_new(g, UOP_VAR, UOP_I64, 1, (union uop_arg){.i = 2}, src, 2);
    for (i = 0; i < 2; i++) {
        enum uop_axis axis = kind == 2 && i ? UOP_AXIS_REDUCE : UOP_AXIS_LOOP;
        union uop_arg slot = {.i = i},
                      range = {.i = uop_range_arg((uint32_t)i, axis)};
        p[i] = uop_new(g, UOP_PARAM, UOP_F32, 1, slot, NULL, 0);
        r[i] = uop_new(g, UOP_RANGE, UOP_I64, 1, range, &n, 1);
    }
    for (i = 0; i < 2; i++)
        at[i] = uop_alu2(g, UOP_ADD, uop_alu2(g, UOP_MUL, r[i], n), r[1 - i]);
    src[0] = p[1];
    src[1] = at[kind != 0];
    x = uop_make(g, UOP_LOAD, UOP_F32, 1, none, src, 2);
    if (kind == 2) {
        src[0] = x;
        src[1] = r[1];
        x = uop_make(g, UOP_REDUCE, UOP_F32, 1, (union uop_arg){.i = UOP_ADD},
                     src, 2);
    }
    src[0] = p[0];
    src[1] = kind == 2 ? r[0] : at[0];
    src[2] = x;
    x = uop_make(g, UOP_STORE, UOP_VOID, 1, none, src, 3);
    return uop_make(g, UOP_SINK, UOP_VOID, 1, none, &x, 1);
}

/* Loops that work-groups and vectors are split from end at the size, not at
 * its bound. */
static void
test_loops_end(void **state)
{
    enum {
        N = 64
    };
    static float in[N * N], out[N * N];
    const struct p_buf bufs[3] = {
        {UOP_F32, N * N, out}, {UOP_F32, N * N, in}, {UOP_I64, N, NULL}};
    struct lower_target one = wide, many = wide;
    const struct lower_target *targets[] = {&one, &many, &narrow};
    struct lower_program program;
    struct uop_graph g;
    uint64_t turns = 0;
    char err[256] = "";
    size_t t;
    int kind, i, j;

    (void)state;
    one.n_threads = 1;
    one.max_packed_bytes = many.max_packed_bytes = 1 << 20;
    one.l2_bytes = many.l2_bytes = 32768;
    many.n_threads = 4;
    for (i = 0; i < N * N; i++)
        in[i] = (float)(i % 11);
    for (kind = 0; kind < 3; kind++) {
        for (t = 0; t < sizeof(targets) / sizeof(targets[0]); t++) {
            uop_graph_init(&g);
            if (lower_kernel(&g, square_kernel(&g, kind), targets[t],
                             &program) != BELL_OK)
                fail_msg("%s", bell_error_last()->message);
            memset(out, 0, sizeof(out));
            if (p_run_counting(&program, bufs, 3, &turns, err, sizeof(err)))
                fail_msg("%s", err);
            for (i = 0; i < (kind == 2 ? 1 : N); i++) {
                for (j = 0; j < N; j++) {
                    float want = in[kind ? j * N + i : i * N + j];
                    int k;
                    for (k = 0, want = kind == 2 ? 0 : want; kind == 2 && k < N;
                         k++)
                        want += in[k * N + j];
                    assert_true(out[i * N + j] == want);
                }
            }
            if (turns > N * N / 8)
                fail_msg("kind %d on target %zu: %llu turns for %d elements",
                         kind, t, (unsigned long long)turns, N * N);
            uop_graph_fini(&g);
        }
    }
}

/* Every allocation fails once: a clean error, then success. */
static void
test_out_of_memory(void **state)
{
    static const char *const names[] = {"matmul-nn", "softmax-shared", "conv",
                                        "blocks"};
    static const int64_t d[][3] = {
        {4, 33, 9}, {4, 33, 9}, {4, 33, 9}, {64, 32, 0}};
    struct lower_target target = wide;
    size_t i;

    (void)state;
    target.has_byte_dots = true;
    target.max_packed_bytes = 1 << 14;
    for (i = 0; i < 4; i++) {
        bell_status status = BELL_E_NO_MEMORY;
        uint64_t nth;
        for (nth = 1; status != BELL_OK; nth++) {
            struct lower_program p;
            struct lk k;
            lk_init(&k, lk_find(names[i]), d[i], 1);
            host_fail_after(nth, 1);
            status = lower_kernel(&k.g, k.sink, &target, &p);
            host_fail_after(0, 0);
            lk_fini(&k);
            assert_true(status == BELL_OK || status == BELL_E_NO_MEMORY);
            assert_true(nth < 10000);
        }
    }
}

/* ---- indices ---- */

/* in[4 r + 1] + in[4 r + 2] to out[4 r], r below an extent. */
static const struct uop *
index_program(struct uop_graph *g, bool at_run_time)
{
    union uop_arg arg[3] = {{.i = 0}, {.i = 1}, {.i = 2}};
    const struct uop *out, *in, *r, *at, *src[3], *x[2];
    uint32_t i;

    out = uop_new(g, UOP_PARAM, UOP_F32, 1, arg[0], NULL, 0);
    in = uop_new(g, UOP_PARAM, UOP_F32, 1, arg[1], NULL, 0);
    src[0] = at_run_time ? uop_new(g, UOP_VAR, UOP_I64, 1, arg[2], NULL, 0)
                         : uop_const_int(g, UOP_I64, 8);
    r = uop_new(g, UOP_RANGE, UOP_I64, 1,
                (union uop_arg){.i = uop_range_arg(0, UOP_AXIS_LOOP)}, src, 1);
    at = uop_alu2(g, UOP_MUL, r, uop_const_int(g, UOP_I64, 4));
    for (i = 0; i < 2; i++) {
        src[0] = in;
        src[1] = uop_alu2(g, UOP_ADD, at, uop_const_int(g, UOP_I64, 1 + i));
        x[i] = uop_new(g, UOP_LOAD, UOP_F32, 1, arg[0], src, 2);
    }
    src[0] = out;
    src[1] = at;
    src[2] = uop_alu2(g, UOP_ADD, x[0], x[1]);
    src[1] = uop_new(g, UOP_STORE, UOP_VOID, 1, arg[0], src, 3);
    src[0] = r;
    return uop_new(g, UOP_END, UOP_VOID, 1, arg[0], src, 2);
}

/* Accesses share INDEXes, which say what divides them; they are narrow where
 * the target wants that and they are known to fit. */
static void
test_index(void **state)
{
    struct lower_target target = {.narrow_index = false};
    const struct uop *root, **list;
    struct uop_graph g;
    uint32_t i, n_index;
    size_t n, j;

    (void)state;
    for (i = 0; i < 4; i++) {
        enum uop_dtype dtype = i == 1 ? UOP_I32 : UOP_I64;
        target.narrow_index = i & 1;
        uop_graph_init(&g);
        root = index_program(&g, i >= 2);
        assert_int_equal(lower_index(&g, &root, 1, &target), BELL_OK);
        assert_int_equal(uop_validate(&g, &root, 1, UOP_STAGE_P), BELL_OK);
        assert_int_equal(uop_toposort(&g, &root, 1, &list, &n), BELL_OK);
        for (n_index = 0, j = 0; j < n; j++) {
            const struct uop *u = list[j];
            if (u->op == UOP_RANGE)
                assert_int_equal(u->dtype, dtype);
            if (u->op == UOP_LOAD || u->op == UOP_STORE) {
                assert_int_equal(u->src[0]->op, UOP_INDEX);
                assert_int_equal(u->src[1]->op, UOP_CONST);
            }
            if (u->op != UOP_INDEX)
                continue;
            n_index++;
            assert_int_equal(u->src[1]->dtype, dtype);
            assert_int_equal(uop_index_align(u), 4);
            assert_int_equal(uop_index_is_short(u), i < 2);
        }
        assert_int_equal(n_index, 2);
        host_free(list);
        uop_graph_fini(&g);
    }
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_results),
        cmocka_unit_test(test_packed_products),
        cmocka_unit_test(test_rows),
        cmocka_unit_test(test_byte_dots),
        cmocka_unit_test(test_hoisted),
        cmocka_unit_test(test_branches),
        cmocka_unit_test(test_shared_loop),
        cmocka_unit_test(test_unit_loops_vanish),
        cmocka_unit_test(test_invariant_code_outside),
        cmocka_unit_test(test_estimates),
        cmocka_unit_test(test_empty_reduce),
        cmocka_unit_test(test_sizes_as_arguments),
        cmocka_unit_test(test_loops_end),
        cmocka_unit_test(test_index),
        cmocka_unit_test(test_out_of_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
