/* Interning, ids, walks, substitution, bounds that rules rely on, and failing
 * allocations. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "tests/unit/uop_sexp.h"
#include "uops/uop.h"

/* The most sources that an op must have. */
#define SRC_MOST 7

static const union uop_arg no_arg = {.bits = 0};

/* Sources, an arg and a shape that suit any op well enough to intern. */
static const struct uop *
any_node(struct uop_graph *g, enum uop_op op, uint32_t n_src, int64_t arg_i)
{
    const struct uop *src[SRC_MOST];
    union uop_arg arg = {.i = arg_i};
    uint32_t i;

    assert_true(n_src <= SRC_MOST);
    for (i = 0; i < SRC_MOST; i++)
        src[i] = uop_const_int(g, UOP_I64, (int64_t)i + 1);
    if (uop_op_infos[op].arg_kind == UOP_ARG_DIMS)
        arg.dims = uop_dims(g, &arg_i, 1);
    return uop_new(g, op, UOP_I64, 1, arg, src, n_src);
}

/* Same parts, same pointer; any part different, another. For every op. */
static void
test_interning(void **state)
{
    struct uop_graph g;
    int op;

    (void)state;
    uop_graph_init(&g);
    for (op = 0; op < UOP_OP_COUNT; op++) {
        uint32_t n = uop_op_infos[op].min_src;
        const struct uop *u = any_node(&g, op, n, 5), *v;
        assert_ptr_equal(u, any_node(&g, op, n, 5));
        v = any_node(&g, op, n, 6);
        assert_ptr_not_equal(u, v);
        assert_ptr_not_equal(u, uop_new(&g, op, UOP_I32, 1, u->arg, u->src, n));
        assert_ptr_not_equal(u, uop_new(&g, op, UOP_I64, 2, u->arg, u->src, n));
        if (n) {
            const struct uop *src[SRC_MOST];
            memcpy(src, u->src, n * sizeof(*src));
            src[n - 1] = v;
            assert_ptr_not_equal(u,
                                 uop_new(&g, op, UOP_I64, 1, u->arg, src, n));
        }
        assert_int_equal(u->op, op);
        assert_int_equal(u->n_src, n);
    }
    assert_int_equal(uop_graph_status(&g), BELL_OK);
    uop_graph_fini(&g);
}

static void
test_constants(void **state)
{
    struct uop_graph g;
    const struct uop *v;

    (void)state;
    uop_graph_init(&g);
    assert_ptr_equal(uop_const_float(&g, UOP_F32, NAN),
                     uop_const_float(&g, UOP_F32, -NAN));
    assert_ptr_not_equal(uop_const_float(&g, UOP_F32, 0.0),
                         uop_const_float(&g, UOP_F32, -0.0));
    assert_ptr_equal(uop_const_float(&g, UOP_F32, 0.1),
                     uop_const_float(&g, UOP_F32, (double)0.1f));
    assert_ptr_equal(uop_const_int(&g, UOP_I8, 256),
                     uop_const_int(&g, UOP_I8, 0));
    assert_ptr_equal(uop_const_int(&g, UOP_F16, 3),
                     uop_const_float(&g, UOP_F16, 3));
    v = uop_const_like(&g, sexp_build(&g, "a:f32x4", true), 2);
    assert_int_equal(v->lanes, 4);
    assert_int_equal(v->op, UOP_BROADCAST);
    uop_graph_fini(&g);
}

static void
test_toposort(void **state)
{
    const struct uop *roots[2], **list;
    struct uop_graph g;
    size_t n, i;
    uint32_t k;

    (void)state;
    uop_graph_init(&g);
    roots[0] = sexp_build(&g, "(ADD (MUL a:f32 b:f32) (SIN a:f32))", true);
    for (i = 0; i < 1000; i++) /* unreachable */
        uop_const_int(&g, UOP_I64, (int64_t)i);
    roots[1] = sexp_build(&g, "(SQRT b:f32)", true);
    assert_int_equal(uop_toposort(&g, roots, 2, &list, &n), BELL_OK);
    assert_int_equal(n, 2 * 2 + 1 + 4); /* PARAM, LOAD each; 0; four ops */
    for (i = 0; i < n; i++) {
        for (k = 0; k < list[i]->n_src; k++)
            assert_true(list[i]->src[k]->id < list[i]->id);
        assert_true(i == 0 || list[i - 1]->id < list[i]->id);
    }
    host_free(list);
    assert_int_equal(uop_toposort(&g, NULL, 0, &list, &n), BELL_OK);
    assert_int_equal(n, 0);
    host_free(list);
    uop_graph_fini(&g);
}

/* Equal structures have equal orders, whatever was made before. */
static void
test_canonical_order(void **state)
{
    static const char text[] = "(ADD (MUL a:f32 b:f32) (SUB b:f32 a:f32))";
    const struct uop *roots[2], **lists[2];
    struct uop_graph g[2];
    size_t n[2], i;
    uint32_t k;

    (void)state;
    uop_graph_init(&g[0]);
    uop_graph_init(&g[1]);
    roots[0] = sexp_build(&g[0], text, true);
    sexp_build(&g[1], "(SQRT (SUB b:f32 a:f32))", true);
    roots[1] = sexp_build(&g[1], text, true);
    for (i = 0; i < 2; i++)
        assert_int_equal(uop_canonical_order(roots[i], &lists[i], &n[i]),
                         BELL_OK);
    assert_int_equal(n[0], n[1]);
    assert_int_equal(n[0], 2 * 2 + 1 + 3);
    assert_ptr_equal(lists[0][n[0] - 1], roots[0]);
    for (i = 0; i < n[0]; i++) {
        const struct uop *a = lists[0][i], *b = lists[1][i];
        assert_int_equal(a->op, b->op);
        assert_int_equal(a->arg.bits, b->arg.bits);
        for (k = 0; k < a->n_src; k++) {
            size_t at = 0;
            while (at < i && lists[0][at] != a->src[k])
                at++;
            assert_true(at < i);
            assert_ptr_equal(lists[1][at], b->src[k]);
        }
    }
    for (i = 0; i < 2; i++) {
        host_free(lists[i]);
        uop_graph_fini(&g[i]);
    }
}

static void
test_substitute(void **state)
{
    const struct uop *roots[2], *from, *to, *kept;
    struct uop_graph g;
    char buf[100];

    (void)state;
    uop_graph_init(&g);
    roots[0] = sexp_build(&g, "(ADD (MUL r0:8 4) r1:4)", false);
    roots[1] = kept = sexp_build(&g, "(SIN a:f32)", false);
    from = sexp_build(&g, "r0:8", false);
    to = sexp_build(&g, "(FLOORDIV r2:32 4)", false);
    assert_int_equal(uop_substitute(&g, roots, 2, &from, &to, 1), BELL_OK);
    assert_string_equal(uop_expr_str(roots[0], buf, sizeof(buf)),
                        "r1 + r2//4*4");
    assert_ptr_equal(roots[1], kept);
    from = sexp_build(&g, "r1:4", false);
    to = sexp_build(&g, "(FLOORMOD r2:32 4)", false);
    assert_int_equal(uop_substitute(&g, roots, 2, &from, &to, 1), BELL_OK);
    assert_string_equal(uop_expr_str(roots[0], buf, sizeof(buf)), "r2");
    uop_graph_fini(&g);
}

/* A chain of a million nodes: no recursion, little time. */
static void
test_deep(void **state)
{
    const struct uop *u, *leaf, *to, **list;
    struct uop_graph g;
    uint32_t i;
    size_t n;

    (void)state;
    uop_graph_init(&g);
    leaf = u = sexp_build(&g, "a:f32", true);
    to = sexp_build(&g, "b:f32", true);
    for (i = 0; i < 1000000; i++)
        u = uop_new(&g, UOP_SIN, UOP_F32, 1, no_arg, &u, 1);
    assert_int_equal(uop_toposort(&g, &u, 1, &list, &n), BELL_OK);
    assert_int_equal(n, 1000003);
    host_free(list);
    assert_int_equal(uop_substitute(&g, &u, 1, &leaf, &to, 1), BELL_OK);
    assert_int_equal(uop_toposort(&g, &u, 1, &list, &n), BELL_OK);
    assert_int_equal(n, 1000003);
    host_free(list);
    uop_graph_fini(&g);
}

/* Bounds take memory where there are some, and are right among nodes that have
 * none. */
static void
test_sparse_bounds(void **state)
{
    const struct uop *u, *n, *m;
    struct uop_graph g;
    uint32_t i;

    (void)state;
    uop_graph_init(&g);
    u = uop_new(&g, UOP_PARAM, UOP_F32, 1, no_arg, NULL, 0);
    for (i = 0; i < 1000; i++)
        u = uop_new(&g, UOP_SIN, UOP_F32, 1, no_arg, &u, 1);
    assert_int_equal(g.cap_bounds, 0);
    n = uop_const_int(&g, UOP_I32, 7);
    assert_true(uop_bounds(&g, n).min == 7 && uop_bounds(&g, n).max == 7);
    for (i = 0; i < 1000; i++)
        u = uop_new(&g, UOP_SIN, UOP_F32, 1, no_arg, &u, 1);
    m = uop_const_int(&g, UOP_I32, 8);
    assert_true(uop_bounds(&g, n).min == 7 && uop_bounds(&g, n).max == 7);
    assert_true(uop_bounds(&g, m).min == 8 && uop_bounds(&g, m).max == 8);
    for (i = 0; i < g.n_nodes; i++) {
        u = g.nodes[i];
        if (u->dtype == UOP_F32)
            assert_true(uop_bounds(&g, u).min == INT64_MIN &&
                        uop_bounds(&g, u).max == INT64_MAX);
    }
    uop_graph_fini(&g);
}

static void
check_bounds(const char *text, int64_t lo, int64_t hi)
{
    const struct uop *u;
    struct uop_graph g;

    uop_graph_init(&g);
    u = sexp_build(&g, text, true);
    if (uop_bounds(&g, u).min != lo || uop_bounds(&g, u).max != hi)
        fail_msg("%s: %lld..%lld, not %lld..%lld", text,
                 (long long)uop_bounds(&g, u).min,
                 (long long)uop_bounds(&g, u).max, (long long)lo,
                 (long long)hi);
    uop_graph_fini(&g);
}

static void
check_float_range(const char *text, double lo, double hi)
{
    struct uop_float_range r;
    struct uop_graph g;

    uop_graph_init(&g);
    r = uop_float_range(sexp_build(&g, text, true));
    if (r.min != lo || r.max != hi)
        fail_msg("%s: %g..%g, not %g..%g", text, r.min, r.max, lo, hi);
    uop_graph_fini(&g);
}

static void
test_float_range(void **state)
{
    (void)state;
    check_float_range("a:f32", -INFINITY, INFINITY);
    check_float_range("r0:16", -INFINITY, INFINITY);
    check_float_range("2.5:f32", 2.5, 2.5);
    check_float_range("(BROADCAST.4 2.5:f32)", 2.5, 2.5);
    check_float_range("(EXP2 a:f32)", 0, INFINITY);
    check_float_range("(MIN a:f32 3.0:f32)", -INFINITY, 3);
    check_float_range("(MAX (MIN a:f32 3.0:f32) -2.0:f32)", -2, 3);
    check_float_range("(EXP2 (MAX (MIN a:f32 3.0:f32) -2.0:f32))", 0.25, 8);
    check_float_range("(MAX a:f32 (NEG a:f32))", 0, INFINITY);
    check_float_range("(ADD 1.0:f32 (EXP2 (NEG (MAX a:f32 (NEG a:f32)))))", 1,
                      2);
    check_float_range("(SUB 1.0:f32 (MIN (EXP2 a:f32) 4.0:f32))", -3, 1);
    check_float_range("(MUL (MAX a:f32 0.0:f32) -2.0:f32)", -INFINITY, 0);
    check_float_range("(MUL (EXP2 a:f32) (EXP2 b:f32))", -INFINITY, INFINITY);
    check_float_range("(MULACC (MIN (EXP2 a:f32) 2.0:f32) 3.0:f32 1.0:f32)", 1,
                      7);
    check_float_range("(WHERE c:bool 1.0:f32 -4.0:f32)", -4, 1);
    check_float_range("(BITCAST.f32 (AND (BITCAST.u32 a:f32) 2147483647:u32))",
                      0, INFINITY);
    check_float_range("(BITCAST.f32 (AND (BITCAST.u32 a:f32) 2147483646:u32))",
                      -INFINITY, INFINITY);
}

static void
test_bounds(void **state)
{
    (void)state;
    check_bounds("r0:16", 0, 15);
    check_bounds("r0:1", 0, 0);
    check_bounds("(ADD r0:16 3)", 3, 18);
    check_bounds("(SUB 15 r0:16)", 0, 15);
    check_bounds("(MUL (SUB r0:16 8) -3)", -21, 24);
    check_bounds("(FLOORDIV (SUB r0:16 8) 3)", -3, 2);
    check_bounds("(IDIV (SUB r0:16 8) 3)", -2, 2);
    check_bounds("(FLOORMOD (SUB r0:16 8) 3)", 0, 2);
    check_bounds("(FLOORMOD (ADD r0:3 8) 16)", 8, 10);
    check_bounds("(IMOD (SUB r0:16 8) 3)", -2, 2);
    check_bounds("(FLOORDIV r0:16 (ADD r1:4 1))", 0, 15);
    check_bounds("(FLOORDIV r0:16 r1:4)", INT64_MIN, INT64_MAX);
    check_bounds("(SHR r0:16 1)", 0, 7);
    /* r0 % 6, and what is none: 42 / 256 is below 1 / 6, 44 / 256 is too much
     * for 64 of 6 */
    check_bounds("(SUB r0:40 (MUL (SHR (MUL r0:40 43) 8) 6))", 0, 5);
    check_bounds("(SUB r0:40 (MUL (SHR (MUL r0:40 42) 8) 6))", -36, 39);
    check_bounds("(SUB r0:65 (MUL (SHR (MUL r0:65 44) 8) 6))", -66, 64);
    check_bounds("(SHL r0:16 2)", 0, 60);
    check_bounds("(AND r0:16 5)", 0, 5);
    check_bounds("(OR r0:16 5)", 5, 15);
    check_bounds("(MAX r0:16 5)", 5, 15);
    check_bounds("(WHERE a:bool r0:16 -4)", -4, 15);
    check_bounds("(CMPLT r0:16 16)", 1, 1);
    check_bounds("(CMPLT r0:16 15)", 0, 1);
    check_bounds("(CMPEQ r0:16 -1)", 0, 0);
    check_bounds("ramp8", 0, 7);
    check_bounds("(BROADCAST.4 r0:16)", 0, 15);
    check_bounds("(LANES r0:16 r1:4)", 0, 15);
    check_bounds("(CAST.u8 r0:16)", 0, 15);
    check_bounds("(CAST.u8 (SUB r0:16 1))", 0, 255);
    check_bounds("(CAST.bool (ADD r0:16 1))", 1, 1);
    check_bounds("a:i8", -128, 127);
    check_bounds("(ADD a:i8 1)", -128, 127);
    check_bounds("(ADD (CAST.i32 a:i8) 1)", -127, 128);
    check_bounds("(ADD a:u64 1)", 0, INT64_MAX);
    check_bounds("(CMPLT 9223372036854775807:u64 a:u64)", 0, 1);
    check_bounds("a:f32", INT64_MIN, INT64_MAX);
    check_bounds("(MUL (MUL r0:4000000000 4000000000) 4)", INT64_MIN,
                 INT64_MAX);
    check_bounds("(NEG a:i64)", INT64_MIN, INT64_MAX);
}

/* Fails each allocation in turn: the graph says so, nothing leaks, and nodes
 * made afterwards are the failed node. */
static void
test_no_memory(void **state)
{
    uint64_t nth;
    bool ok = false;

    (void)state;
    for (nth = 1; !ok; nth++) {
        const struct uop *u = NULL;
        struct uop_graph g;
        int64_t i;
        uop_graph_init(&g);
        host_fail_after(nth, 1);
        for (i = 0; i < 600; i++) {
            u = uop_const_int(&g, UOP_I64, i);
            u = uop_alu2(&g, UOP_ADD, u,
                         uop_range(&g, (uint32_t)i, UOP_AXIS_LOOP, 9));
            uop_dims(&g, &i, 1);
        }
        host_fail_after(0, 0);
        ok = !g.failed;
        assert_int_equal(uop_graph_status(&g), ok ? BELL_OK : BELL_E_NO_MEMORY);
        if (!ok) {
            const struct uop *list_root = u, **list;
            size_t n;
            assert_ptr_equal(u, &uop_failed);
            assert_ptr_equal(uop_alu2(&g, UOP_ADD, u, u), &uop_failed);
            assert_null(uop_dims(&g, &i, 1));
            assert_int_equal(uop_toposort(&g, &list_root, 1, &list, &n),
                             BELL_E_NO_MEMORY);
        }
        uop_graph_fini(&g);
    }
    assert_true(nth > 10);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_interning),
        cmocka_unit_test(test_constants),
        cmocka_unit_test(test_toposort),
        cmocka_unit_test(test_canonical_order),
        cmocka_unit_test(test_substitute),
        cmocka_unit_test(test_deep),
        cmocka_unit_test(test_bounds),
        cmocka_unit_test(test_sparse_bounds),
        cmocka_unit_test(test_float_range),
        cmocka_unit_test(test_no_memory),
    };

    return cmocka_run_group_tests_name("graph", tests, NULL, NULL);
}
