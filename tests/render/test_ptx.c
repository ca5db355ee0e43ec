/* PTX alone: how wide accesses are, every op and conversion through ptxas for
 * every architecture, targets, and ptxas that is missing or complains. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/bits.h"
#include "ptx_check.h"

/* ---- memory ---- */

/* Accesses are as wide as the index's divisor allows, and no wider. */
static void
test_vector_forms(void **state)
{
    static const struct {
        unsigned lanes;
        int64_t scale, offset;
        const char *has, *lacks;
        enum uop_dtype dtype; /* 0: F32 */
    } rows[] = {
        {4, 4, 0, "ld.global.v4.f32", "ld.global.v2", 0},
        {4, 4, 2, "ld.global.v2.f32", ".v4", 0},
        {4, 4, 1, "ld.global.v2.f32", ".v4", 0},
        {4, 1, 0, "ld.global.f32", ".v2", 0},
        {8, 8, 4, "[%rd1+32]", ".v2", 0},
        {2, 6, 0, "ld.global.v2.f32", ".v4", 0},
        {8, 8, 0, "ld.global.v4.b32", "global.b16", UOP_F16},
        {8, 4, 0, "ld.global.v2.b32", ".v4", UOP_BF16},
        {6, 6, 0, "ld.global.b32", ".v2", UOP_F16},
        {5, 8, 0, "st.global.b16", ".v4", UOP_F16},
        {16, 16, 0, "st.global.v4.b32", "mov.b32 %r3, {", UOP_BF16},
    };
    size_t i;

    (void)state;
    for (i = 0; i < ARRAY_LEN(rows); i++) {
        const struct uop *range, *at, *v, *root;
        struct lower_program p;
        struct uop_graph g;
        char *text;
        unsigned dtype = rows[i].dtype ? rows[i].dtype : UOP_F32;
        uop_graph_init(&g);
        range = uop_range(&g, 0, UOP_AXIS_LOOP, 6);
        at = uop_alu2(&g, UOP_MUL, range, mk_int(&g, rows[i].scale));
        at = uop_alu2(&g, UOP_ADD, at, mk_int(&g, rows[i].offset));
        v = mk_load(&g, mk_param(&g, 1, dtype), at, rows[i].lanes, NULL, NULL);
        root = mk_store(&g, mk_param(&g, 0, dtype), at, v, NULL);
        root = mk_end(&g, range, root);
        gpu_program_of(&g, &root, 1, &p);
        assert_int_equal(render_ptx(&p, &ptx_check_target, &text), BELL_OK);
        if (!strstr(text, rows[i].has) || strstr(text, rows[i].lacks))
            fail_msg("row %zu:\n%s", i, text);
        host_free(text);
        program_free(&p);
        uop_graph_fini(&g);
    }
}

/* One kernel with what `make` gives for every pair of dtypes it takes. */
static void
keep_all(unsigned what, bool approx,
         const struct uop *(*make)(struct uop_graph *g, unsigned what,
                                   enum uop_dtype dtype, uint32_t slot))
{
    const struct uop *roots[UOP_DTYPE_COUNT];
    struct lower_program p;
    struct uop_graph g;
    unsigned dtype;
    uint32_t n = 0;

    uop_graph_init(&g);
    for (dtype = UOP_BOOL; dtype < UOP_DTYPE_COUNT; dtype++) {
        const struct uop *v = make(&g, what, dtype, 4 * n);
        if (!v)
            continue;
        roots[n] = mk_store(&g, mk_param(&g, 4 * n + 3, v->dtype),
                            mk_int(&g, 0), v, NULL);
        n++;
    }
    if (n) {
        gpu_program_of(&g, roots, n, &p);
        ptx_check_keep(&p, approx);
        program_free(&p);
    }
    uop_graph_fini(&g);
}

static const struct uop *
make_alu(struct uop_graph *g, unsigned op, enum uop_dtype dtype, uint32_t slot)
{
    const struct uop_op_info *info = &uop_op_infos[op];
    const struct uop *src[3];
    uint32_t i;

    if (!(alu_is_kept(op, dtype) && backend_ptx.has_alu(op, dtype)) ||
        (dtype == UOP_BF16 && op != UOP_WHERE)) /* not before sm_90 */
        return NULL;
    for (i = 0; i < info->min_src; i++) {
        unsigned in = op == UOP_WHERE && i == 0 ? UOP_BOOL : dtype;
        src[i] =
            mk_load(g, mk_param(g, slot + i, in), mk_int(g, 1), 1, NULL, NULL);
    }
    return mk(g, op, info->flags & UOP_FLAG_CMP ? UOP_BOOL : dtype, 1, 0,
              info->min_src, src);
}

static const struct uop *
make_cast(struct uop_graph *g, unsigned from, enum uop_dtype to, uint32_t slot)
{
    const struct uop *v;

    if (from == to || uop_dtype_is_f8(from) || uop_dtype_is_f8(to) ||
        !backend_ptx.has_cast(from, to))
        return NULL;
    v = mk_load(g, mk_param(g, slot, from), mk_int(g, 1), 1, NULL, NULL);
    return mk(g, UOP_CAST, to, 1, 0, 1, &v);
}

static const struct uop *
make_bitcast(struct uop_graph *g, unsigned from, enum uop_dtype to,
             uint32_t slot)
{
    const struct uop *v;

    if (uop_dtype_infos[from].size_bytes != uop_dtype_infos[to].size_bytes)
        return NULL;
    v = mk_load(g, mk_param(g, slot, from), mk_int(g, 1), 1, NULL, NULL);
    return mk(g, UOP_BITCAST, to, 1, 0, 1, &v);
}

/* All ops and conversions. */
static void
test_assembler(void **state)
{
    unsigned i;
    uint32_t n;

    (void)state;
    for (i = 0; i < UOP_OP_COUNT; i++)
        keep_all(i, false, make_alu);
    keep_all(UOP_FDIV, true, make_alu);
    keep_all(UOP_SQRT, true, make_alu);
    for (i = UOP_BOOL; i < UOP_DTYPE_COUNT; i++) {
        keep_all(i, false, make_cast);
        keep_all(i, false, make_bitcast);
    }
    n = ptx_check_assemble();
    if (!n) {
        print_message("not assembled: %s\n", bell_error_last()->message);
        skip();
    }
    print_message("%u kernels assembled for 6 architectures\n", n);
}

/* ---- errors ---- */

static void
make_sum(struct uop_graph *g, struct lower_program *out)
{
    const struct uop *range, *at, *v, *root;

    range = uop_range(g, 0, UOP_AXIS_LOOP, 6);
    at = uop_alu2(g, UOP_MUL, range, mk_int(g, 4));
    v = mk_load(g, mk_param(g, 1, UOP_F32), at, 4, NULL, NULL);
    v = mk(g, UOP_LANES_REDUCE, UOP_F32, 1, UOP_ADD, 1, &v);
    root = mk_store(g, mk_param(g, 0, UOP_F32), at, v, NULL);
    root = mk_end(g, range, root);
    gpu_program_of(g, &root, 1, out);
}

/* Registers that are wanted are asked for as work-groups of an SM: so few that
 * each thread may have them, and no more than any chip has. */
static void
test_wanted_registers(void **state)
{
    static const struct {
        uint32_t threads, want;
        const char *groups; /* NULL: nothing is said */
    } rows[] = {
        {256, 0, NULL},
        {256, 64, ".minnctapersm 4\n"},
        {256, 65, ".minnctapersm 3\n"},
        {1024, 72, ".minnctapersm 1\n"},
        {32, 40, ".minnctapersm 16\n"},
        {1024, 16, ".minnctapersm 2\n"}, /* 2048 threads of an SM */
    };
    size_t i;

    (void)state;
    for (i = 0; i < ARRAY_LEN(rows); i++) {
        struct lower_program p;
        struct uop_graph g;
        char *text;
        uop_graph_init(&g);
        make_sum(&g, &p);
        p.local[0] = rows[i].threads;
        p.want_regs = rows[i].want;
        assert_int_equal(render_ptx(&p, &ptx_check_target, &text), BELL_OK);
        if (rows[i].groups)
            assert_non_null(strstr(text, rows[i].groups));
        else
            assert_null(strstr(text, "minnctapersm"));
        ptx_check_keep(&p, true);
        host_free(text);
        program_free(&p);
        uop_graph_fini(&g);
    }
}

/* No target but the known ones. */
static void
test_targets(void **state)
{
    struct ptx_target target = ptx_check_target;
    struct lower_target lower;
    struct lower_program p;
    struct uop_graph g;
    char *a;

    (void)state;
    uop_graph_init(&g);
    make_sum(&g, &p);
    target.sm = 90;
    target.is_arch_specific = true;
    assert_int_equal(render_ptx(&p, &target, &a), BELL_OK);
    assert_non_null(strstr(a, ".version 8.0\n.target sm_90a\n"));
    host_free(a);
    target.sm = 80;
    assert_int_equal(render_ptx(&p, &target, &a), BELL_E_UNSUPPORTED);
    assert_non_null(strstr(bell_error_last()->message, "known: sm_80"));
    assert_int_equal(render_ptx_lower_target(&target, &lower),
                     BELL_E_UNSUPPORTED);
    p.ops[p.n_ops - 1] = mk(&g, UOP_WMMA, UOP_F32, 1, 0, 0, NULL);
    assert_int_equal(render_ptx(&p, &ptx_check_target, &a), BELL_E_UNSUPPORTED);
    program_free(&p);
    uop_graph_fini(&g);
}

/* No ptxas, and one that complains. */
static void
test_ptxas_errors(void **state)
{
    const char *old = getenv("BELL_PTXAS");
    struct render_binary cubin;
    char path[1024];

    (void)state;
    setenv("BELL_PTXAS", "/nonexistent/ptxas", 1);
    assert_int_equal(render_ptxas("", &ptx_check_target, &cubin),
                     BELL_E_UNSUPPORTED);
    setenv("BELL_PTXAS", "/bin/false", 1);
    assert_int_equal(render_ptxas("", &ptx_check_target, &cubin),
                     BELL_E_COMPILE);
    setenv("BELL_PTXAS", "/bin/true", 1);
    assert_int_equal(render_ptxas("", &ptx_check_target, &cubin),
                     BELL_E_COMPILE);
    assert_non_null(strstr(bell_error_last()->message, "no cubin"));
    if (old)
        setenv("BELL_PTXAS", old, 1);
    else
        unsetenv("BELL_PTXAS");
    if (render_ptxas_find(path, sizeof(path)) != BELL_OK)
        return;
    assert_int_equal(render_ptxas(".version 7.0\n.target sm_80\nfrob;\n",
                                  &ptx_check_target, &cubin),
                     BELL_E_COMPILE);
    assert_non_null(strstr(bell_error_last()->message, "line 3"));
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_vector_forms),
        cmocka_unit_test(test_wanted_registers),
        cmocka_unit_test(test_targets),
        cmocka_unit_test(test_ptxas_errors),
        cmocka_unit_test(test_assembler),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
