/* PTX for targets that ask for approximations: what may remain, that it is
 * as near as the header says, and that without asking nothing changes. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/bits.h"
#include "ptx_check.h"

#define N 512

struct row {
    enum uop_op op;
    const char *insn;
    double (*fn)(double);
    double from, to, relative, absolute;
};

static double
reciprocal(double x)
{
    return 1 / x;
}

static const struct row rows[] = {
    {UOP_EXP2, "ex2.approx.f32", exp2, -126, 127, 0x1p-22, 0},
    {UOP_LOG2, "lg2.approx.f32", log2, 0x1p-20, 1000, 0x1p-21, 0x1p-21},
    {UOP_SIN, "sin.approx.f32", sin, -65000, 65000, 0, 0x1p-20},
    {UOP_SIN, "sin.approx.f32", sin, -4, 4, 0, 0x1p-20},
    {UOP_COS, "cos.approx.f32", cos, -65000, 65000, 0, 0x1p-20},
    {UOP_COS, "cos.approx.f32", cos, -4, 4, 0, 0x1p-20},
    {UOP_RECIP, "rcp.approx.f32", reciprocal, 0.001, 1000, 0x1p-22, 0},
    {UOP_SQRT, "sqrt.approx.f32", sqrt, 0, 1000, 0x1p-22, 0},
};

static void
make_program(struct uop_graph *g, enum uop_op op, const struct uop **out_root,
             struct lower_program *p, const struct lower_target *target)
{
    const struct uop *range = uop_range(g, 0, UOP_AXIS_LOOP, N), *v;

    v = mk_load(g, mk_param(g, 1, UOP_F32), range, 1, NULL, NULL);
    v = mk(g, op, UOP_F32, 1, 0, 1, &v);
    *out_root =
        mk_end(g, range, mk_store(g, mk_param(g, 0, UOP_F32), range, v, NULL));
    if (target)
        assert_int_equal(lower_decompose(g, out_root, 1, target), BELL_OK);
    gpu_program_of(g, out_root, 1, p);
}

static void
check_row(const struct row *r)
{
    struct ptx_target target = {.sm = 90, .approx = true};
    struct lower_target lower;
    struct lower_program p;
    struct p_buf bufs[2];
    const struct uop *root;
    struct uop_graph g;
    char *text;
    int i;

    assert_int_equal(render_ptx_lower_target(&target, &lower), BELL_OK);
    assert_true(lower.is_approx);
    assert_false(lower.is_tf32 || lower.matrix_k[UOP_F32] != 0);
    uop_graph_init(&g);
    make_program(&g, r->op, &root, &p, &lower);
    check_buf(&bufs[0], UOP_F32, N, NULL);
    check_buf(&bufs[1], UOP_F32, N, NULL);
    for (i = 0; i < N; i++) {
        double x = r->from + (r->to - r->from) * i / (N - 1);
        p_set(&bufs[1], (size_t)i,
              (union uop_arg){.f = uop_round_float(UOP_F32, x)});
    }
    assert_int_equal(render_ptx(&p, &target, &text), BELL_OK);
    assert_non_null(strstr(text, r->insn));
    ptx_check_run(&p, text, bufs, 2, NULL, r->insn);
    for (i = 0; i < N; i++) {
        union uop_arg x, got;
        double want;
        p_get(&bufs[0], (size_t)i, &got);
        p_get(&bufs[1], (size_t)i, &x);
        want = r->fn(x.f);
        if (fabs(got.f - want) > r->absolute + r->relative * fabs(want))
            fail_msg("%s of %a is %a, not %a", r->insn, x.f, got.f, want);
    }
    ptx_check_keep(&p, true);
    host_free(text);
    program_free(&p);
    check_bufs_free(bufs, 2);
    uop_graph_fini(&g);
}

static void
test_approximations(void **state)
{
    size_t i;

    (void)state;
    for (i = 0; i < ARRAY_LEN(rows); i++)
        check_row(&rows[i]);
}

/* Whether the target makes every function of exact instructions. */
static void
expect_exact(const struct ptx_target *target, const struct lower_target *lower)
{
    size_t i;

    for (i = 0; i < ARRAY_LEN(rows); i++) {
        struct lower_program p;
        const struct uop *root;
        struct uop_graph g;
        char *text;
        uop_graph_init(&g);
        make_program(&g, rows[i].op, &root, &p, lower);
        assert_int_equal(render_ptx(&p, target, &text), BELL_OK);
        assert_null(strstr(text, "approx"));
        host_free(text);
        program_free(&p);
        uop_graph_fini(&g);
    }
}

/* An exact target takes none of them but what is left in results of halves,
 * and lowering leaves none. */
static void
test_exact(void **state)
{
    struct ptx_target target = {.sm = 90};
    struct lower_target lower;
    size_t i;

    (void)state;
    assert_int_equal(render_ptx_lower_target(&target, &lower), BELL_OK);
    assert_false(lower.is_approx || lower.matrix_k[UOP_F32] != 0);
    for (i = 0; i < ARRAY_LEN(rows); i++) {
        struct lower_program p;
        const struct uop *root;
        struct uop_graph g;
        char *text;
        if (rows[i].op == UOP_SQRT || rows[i].op == UOP_EXP2 ||
            rows[i].op == UOP_RECIP)
            continue;
        uop_graph_init(&g);
        make_program(&g, rows[i].op, &root, &p, NULL);
        assert_int_equal(render_ptx(&p, &target, &text), BELL_E_UNSUPPORTED);
        program_free(&p);
        uop_graph_fini(&g);
    }
    expect_exact(&target, &lower);
}

/* The two flags are apart: TF32 leaves functions exact. */
static void
test_tf32(void **state)
{
    struct ptx_target target = {.sm = 80, .tf32 = true};
    struct lower_target lower;

    (void)state;
    assert_int_equal(render_ptx_lower_target(&target, &lower), BELL_OK);
    assert_true(lower.is_tf32 && lower.matrix_k[UOP_F32] == 8);
    assert_false(lower.is_approx);
    assert_string_equal(lower.name, "sm_80-tf32");
    expect_exact(&target, &lower);
}

/* 1 / (1 + 2^x), or that of -|x|, rounded to bfloats; whole: stored as F32,
 * too. */
static const struct uop *
make_rounded(struct uop_graph *g, bool is_cut, bool is_whole)
{
    const struct uop *range = uop_range(g, 0, UOP_AXIS_LOOP, N), *x, *y,
                     *one = uop_const_float(g, UOP_F32, 1), *stores[2];

    x = mk_load(g, mk_param(g, 2, UOP_F32), range, 1, NULL, NULL);
    y = uop_alu2(g, UOP_MAX, x, uop_alu1(g, UOP_NEG, x));
    x = is_cut ? uop_alu1(g, UOP_NEG, y) : x;
    y = uop_alu2(g, UOP_ADD, one, uop_alu1(g, UOP_EXP2, x));
    y = uop_alu2(g, UOP_FDIV, one, y);
    stores[0] = mk_store(g, mk_param(g, 0, UOP_BF16), range,
                         uop_cast(g, y, UOP_BF16), NULL);
    stores[1] =
        mk_store(g, mk_param(g, 1, UOP_F32), range, is_whole ? y : one, NULL);
    y = mk(g, UOP_END, UOP_VOID, 1, 0, 3,
           (const struct uop *[]){range, stores[0], stores[1]});
    return y;
}

/* Without asking, exponentials of results that are rounded to halves, and
 * inverses where they are normal numbers. */
static void
test_rounded(void **state)
{
    static const struct {
        bool is_cut, is_whole;
        const char *exp2, *recip; /* NULL: neither */
    } forms[] = {
        {true, false, "ex2.approx.f32", "rcp.approx.ftz.f32"},
        {false, false, "ex2.approx.f32", "div.rn.f32"},
        {true, true, NULL, "div.rn.f32"},
    };
    struct ptx_target target = {.sm = 90};
    struct lower_target lower;
    size_t i;

    (void)state;
    assert_int_equal(render_ptx_lower_target(&target, &lower), BELL_OK);
    for (i = 0; i < ARRAY_LEN(forms); i++) {
        struct lower_program p;
        const struct uop *root;
        struct uop_graph g;
        char *text;
        uop_graph_init(&g);
        root = make_rounded(&g, forms[i].is_cut, forms[i].is_whole);
        assert_int_equal(lower_decompose(&g, &root, 1, &lower), BELL_OK);
        gpu_program_of(&g, &root, 1, &p);
        assert_int_equal(render_ptx(&p, &target, &text), BELL_OK);
        assert_true((strstr(text, "ex2") != NULL) == (forms[i].exp2 != NULL));
        assert_true(!forms[i].exp2 || strstr(text, forms[i].exp2));
        assert_non_null(strstr(text, forms[i].recip));
        host_free(text);
        program_free(&p);
        uop_graph_fini(&g);
    }
}

static void
test_assembler(void **state)
{
    (void)state;
    print_message("%u kernels assembled\n", ptx_check_assemble());
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_approximations), cmocka_unit_test(test_exact),
        cmocka_unit_test(test_tf32),           cmocka_unit_test(test_rounded),
        cmocka_unit_test(test_assembler),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
