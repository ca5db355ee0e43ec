/* Programs as PTX, interpreted, against the interpreter of programs; and the
 * same texts through ptxas for every architecture, where there is ptxas. */
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

#define N 96 /* elements of most buffers */

static const unsigned lane_counts[] = {1, 4, 12};

/* Checks the program of a list of roots. With `keep`, ptxas sees it too. */
static void
check_roots(struct uop_graph *g, const struct uop *const *roots, uint32_t n,
            const struct p_buf *bufs, uint32_t n_bufs, bool zeros, bool keep,
            const char *what)
{
    struct lower_program p;

    program_of(g, roots, n, &p);
    ptx_check_program(&p, bufs, n_bufs, zeros, what);
    if (keep)
        ptx_check_keep(&p, false);
    program_free(&p);
}

static void
free_bufs(struct p_buf *bufs, uint32_t n)
{
    uint32_t i;

    for (i = 0; i < n; i++)
        free(bufs[i].data);
}

/* ---- arithmetic ---- */

/* Whether programs for a GPU may hold this op on this dtype. */
static bool
op_allowed(enum uop_op op, enum uop_dtype dtype)
{
    unsigned flags = uop_op_infos[op].flags;
    bool flt = uop_dtype_infos[dtype].is_float;

    if (!(flags & UOP_FLAG_ALU) || !(flags & UOP_FLAG_P))
        return false;
    if (((flags & UOP_FLAG_FLT) && !flt) || ((flags & UOP_FLAG_INT) && flt))
        return false;
    if (op == UOP_EXP2 || op == UOP_LOG2 || op == UOP_SIN || op == UOP_RECIP ||
        op == UOP_FLOORDIV || op == UOP_FLOORMOD)
        return false;
    if (dtype == UOP_F16 || dtype == UOP_BF16)
        return op == UOP_WHERE;
    return dtype != UOP_BOOL || !(op == UOP_IDIV || op == UOP_IMOD ||
                                  op == UOP_SHL || op == UOP_SHR);
}

/* Operands within what the program form promises. */
static void
tame_operands(enum uop_op op, struct p_buf *y, uint64_t *rng)
{
    unsigned bits = uop_dtype_infos[y->dtype].size_bytes * 8;
    size_t i;

    for (i = 0; i < y->n_elems; i++) {
        union uop_arg a;
        p_get(y, i, &a);
        if (op == UOP_SHL || op == UOP_SHR)
            a.i = (int64_t)(next_random(rng) % bits);
        else if ((op == UOP_IDIV || op == UOP_IMOD) && (a.i == 0 || a.i == -1))
            a.i = 3;
        p_set(y, i, a);
    }
}

static void
check_alu(enum uop_op op, enum uop_dtype dtype, unsigned lanes, uint64_t *rng)
{
    const struct uop_op_info *info = &uop_op_infos[op];
    enum uop_dtype result = info->flags & UOP_FLAG_CMP ? UOP_BOOL : dtype;
    const struct uop *src[3], *range, *at, *root;
    struct uop_graph g;
    struct p_buf bufs[4];
    char what[64];
    uint32_t i;

    uop_graph_init(&g);
    range = uop_range(&g, 0, UOP_AXIS_LOOP, N / lanes);
    at = uop_alu2(&g, UOP_MUL, range, mk_int(&g, lanes));
    ptx_check_buf(&bufs[0], result, N, NULL);
    for (i = 0; i < info->min_src; i++) {
        enum uop_dtype in = op == UOP_WHERE && i == 0 ? UOP_BOOL : dtype;
        ptx_check_buf(&bufs[1 + i], in, N, rng);
        if (i == 1 && (info->flags & UOP_FLAG_INT) && dtype != UOP_BOOL)
            tame_operands(op, &bufs[2], rng);
        src[i] = mk_load(&g, mk_param(&g, 1 + i, in), at, lanes, NULL, NULL);
    }
    root = mk(&g, op, result, lanes, 0, info->min_src, src);
    root = mk_store(&g, mk_param(&g, 0, result), at, root, NULL);
    root = mk_end(&g, range, root);
    snprintf(what, sizeof(what), "%s %s x%u", info->name,
             uop_dtype_infos[dtype].short_name, lanes);
    check_roots(&g, &root, 1, bufs, 1 + info->min_src,
                op == UOP_MAX || op == UOP_MIN, lanes == 1, what);
    free_bufs(bufs, 1 + info->min_src);
    uop_graph_fini(&g);
}

static void
test_alu(void **state)
{
    uint64_t rng = 1;
    unsigned op, dtype, k;

    (void)state;
    for (op = 0; op < UOP_OP_COUNT; op++) {
        for (dtype = UOP_BOOL; dtype < UOP_DTYPE_COUNT; dtype++) {
            if (!op_allowed((enum uop_op)op, (enum uop_dtype)dtype))
                continue;
            for (k = 0; k < ARRAY_LEN(lane_counts); k++)
                check_alu((enum uop_op)op, (enum uop_dtype)dtype,
                          lane_counts[k], &rng);
        }
    }
}

/* ---- conversions ---- */

static void
check_cast(enum uop_dtype from, enum uop_dtype to, unsigned lanes,
           uint64_t *rng)
{
    const struct uop *range, *at, *root;
    struct uop_graph g;
    struct p_buf bufs[2];
    char what[64];

    uop_graph_init(&g);
    ptx_check_buf(&bufs[0], to, N, NULL);
    ptx_check_buf(&bufs[1], from, N, rng);
    range = uop_range(&g, 0, UOP_AXIS_LOOP, N / lanes);
    at = uop_alu2(&g, UOP_MUL, range, mk_int(&g, lanes));
    root = mk_load(&g, mk_param(&g, 1, from), at, lanes, NULL, NULL);
    root = mk(&g, UOP_CAST, to, lanes, 0, 1, &root);
    root = mk_store(&g, mk_param(&g, 0, to), at, root, NULL);
    root = mk_end(&g, range, root);
    snprintf(what, sizeof(what), "cast %s to %s x%u",
             uop_dtype_infos[from].short_name, uop_dtype_infos[to].short_name,
             lanes);
    check_roots(&g, &root, 1, bufs, 2, false, lanes == 1, what);
    free_bufs(bufs, 2);
    uop_graph_fini(&g);
}

/* BF16 comes from what F32 holds; the rest is decomposed. */
static bool
cast_allowed(enum uop_dtype from, enum uop_dtype to)
{
    if (from == to)
        return false;
    return to != UOP_BF16 || from == UOP_F32 || from == UOP_F16 ||
           from == UOP_I8 || from == UOP_U8 || from == UOP_BOOL;
}

static void
test_cast(void **state)
{
    uint64_t rng = 2;
    unsigned from, to, k;

    (void)state;
    for (from = UOP_BOOL; from < UOP_DTYPE_COUNT; from++) {
        for (to = UOP_BOOL; to < UOP_DTYPE_COUNT; to++) {
            if (!cast_allowed((enum uop_dtype)from, (enum uop_dtype)to))
                continue;
            for (k = 0; k < ARRAY_LEN(lane_counts); k++)
                check_cast((enum uop_dtype)from, (enum uop_dtype)to,
                           lane_counts[k], &rng);
        }
    }
}

static void
check_bitcast(enum uop_dtype from, enum uop_dtype to, unsigned lanes,
              uint64_t *rng)
{
    size_t bytes = uop_dtype_infos[from].size_bytes, i;
    uint64_t in[32], out[32] = {0};
    struct p_buf bufs[2] = {{to, 32, out}, {from, 32, in}};
    const struct uop *root;
    struct lower_program p;
    struct uop_graph g;
    char *text;

    for (i = 0; i < 32; i++)
        in[i] = next_random(rng);
    uop_graph_init(&g);
    root = mk_load(&g, mk_param(&g, 1, from), mk_int(&g, 1), lanes, NULL, NULL);
    root = mk(&g, UOP_BITCAST, to, lanes, 0, 1, &root);
    root = mk_store(&g, mk_param(&g, 0, to), mk_int(&g, 1), root, NULL);
    program_of(&g, &root, 1, &p);
    assert_int_equal(render_ptx(&p, &ptx_check_target, &text), BELL_OK);
    ptx_check_run(&p, text, bufs, 2, NULL, "bitcast");
    assert_memory_equal((char *)out + bytes, (char *)in + bytes, bytes * lanes);
    ptx_check_keep(&p, false);
    host_free(text);
    program_free(&p);
    uop_graph_fini(&g);
}

/* BITCAST keeps every bit, of NaNs too. */
static void
test_bitcast(void **state)
{
    uint64_t rng = 3;
    unsigned from, to;

    (void)state;
    for (from = UOP_I8; from < UOP_DTYPE_COUNT; from++) {
        for (to = UOP_I8; to < UOP_DTYPE_COUNT; to++) {
            if (uop_dtype_infos[from].size_bytes ==
                uop_dtype_infos[to].size_bytes)
                check_bitcast((enum uop_dtype)from, (enum uop_dtype)to,
                              1 + next_random(&rng) % 8, &rng);
        }
    }
}

/* Constants of every dtype arrive bit for bit. */
static void
check_constants(enum uop_dtype dtype)
{
    static const double floats[] = {0.0,  -0.0,      1.0,       -2.5,
                                    NAN,  INFINITY,  -INFINITY, 0x1p-24,
                                    3e-6, 0x1p-1074, 0x1p-149,  65504};
    const struct uop *roots[ARRAY_LEN(floats)];
    struct uop_graph g;
    struct p_buf buf;
    size_t i;

    uop_graph_init(&g);
    ptx_check_buf(&buf, dtype, ARRAY_LEN(floats), NULL);
    for (i = 0; i < ARRAY_LEN(floats); i++) {
        const struct uop *c;
        if (uop_dtype_infos[dtype].is_float)
            c = uop_const_float(&g, dtype, floats[i]);
        else
            c = uop_const_int(
                &g, dtype, (int64_t)(next_random(&(uint64_t){i}) >> (i * 5)));
        roots[i] = mk_store(&g, mk_param(&g, 0, dtype), mk_int(&g, (int64_t)i),
                            c, NULL);
    }
    check_roots(&g, roots, ARRAY_LEN(floats), &buf, 1, false, true,
                uop_dtype_infos[dtype].name);
    free(buf.data);
    uop_graph_fini(&g);
}

static void
test_constants(void **state)
{
    unsigned dtype;

    (void)state;
    for (dtype = UOP_BOOL; dtype < UOP_DTYPE_COUNT; dtype++)
        check_constants((enum uop_dtype)dtype);
}

/* ---- random programs ---- */

static const struct uop *
cast_to(struct uop_graph *g, const struct uop *u, enum uop_dtype dtype)
{
    if (u->dtype == dtype)
        return u;
    return mk(g, UOP_CAST, dtype, u->lanes, 0, 1, &u);
}

/* A constant as wide as `like`. */
static const struct uop *
wide_const(struct uop_graph *g, const struct uop *like, int64_t value)
{
    const struct uop *c = uop_const_int(g, (enum uop_dtype)like->dtype, value);

    return like->lanes > 1 ? mk_splat(g, c, like->lanes) : c;
}

/* A random op on values that are there; sources are made to fit by CAST. */
static const struct uop *
random_node(struct uop_graph *g, const struct uop *const *pool, unsigned n,
            uint64_t *rng)
{
    const struct uop *src[3], *pair[2];
    enum uop_dtype dtype;
    enum uop_op op;
    unsigned i;

    do {
        op = (enum uop_op)(next_random(rng) % UOP_OP_COUNT);
        dtype = (enum uop_dtype)(1 + next_random(rng) % (UOP_DTYPE_COUNT - 1));
    } while (!op_allowed(op, dtype) || dtype == UOP_BF16);
    for (i = 0; i < uop_op_infos[op].min_src; i++)
        src[i] = cast_to(g, pool[next_random(rng) % n],
                         op == UOP_WHERE && i == 0 ? UOP_BOOL : dtype);
    if (op == UOP_IDIV || op == UOP_IMOD || op == UOP_SHL || op == UOP_SHR) {
        pair[0] = src[1];
        pair[1] = wide_const(g, src[1], 6);
        src[1] = mk(g, UOP_AND, dtype, src[1]->lanes, 0, 2, pair);
        pair[0] = src[1];
        pair[1] = wide_const(g, src[1], 1);
        src[1] = mk(g, UOP_ADD, dtype, src[1]->lanes, 0, 2, pair);
    }
    return mk(g, op, uop_op_infos[op].flags & UOP_FLAG_CMP ? UOP_BOOL : dtype,
              src[0]->lanes, 0, uop_op_infos[op].min_src, src);
}

static void
check_random(uint64_t seed)
{
    static const enum uop_dtype ins[] = {UOP_F32, UOP_I32, UOP_I64, UOP_U8};
    struct uop_graph g;
    const struct uop *pool[30], *range, *at, *value, *root;
    uint64_t rng = seed * 77 + 5;
    unsigned lanes = lane_counts[seed % 3], n = 0, i;
    struct p_buf bufs[5];
    char what[64];

    uop_graph_init(&g);
    range = uop_range(&g, 0, UOP_AXIS_LOOP, N / lanes);
    at = uop_alu2(&g, UOP_MUL, range, mk_int(&g, lanes));
    for (i = 0; i < 4; i++) {
        ptx_check_buf(&bufs[1 + i], ins[i], N, &rng);
        pool[n++] =
            mk_load(&g, mk_param(&g, 1 + i, ins[i]), at, lanes, NULL, NULL);
    }
    pool[n++] = lanes > 1 ? mk_splat(&g, range, lanes) : range;
    while (n < ARRAY_LEN(pool)) {
        pool[n] = random_node(&g, pool, n, &rng);
        n++;
    }
    value = pool[n - 1];
    ptx_check_buf(&bufs[0], value->dtype, N, NULL);
    root = mk_store(&g, mk_param(&g, 0, value->dtype), at, value, NULL);
    root = mk_end(&g, range, root);
    snprintf(what, sizeof(what), "random program %llu",
             (unsigned long long)seed);
    check_roots(&g, &root, 1, bufs, 5, true, seed % 64 == 0, what);
    free_bufs(bufs, 5);
    uop_graph_fini(&g);
}

static void
test_random(void **state)
{
    uint64_t seed;

    (void)state;
    for (seed = 0; seed < 600; seed++)
        check_random(seed);
}

/* ---- memory ---- */

/* A LOAD and STORE at some offset and width, with and without a gate. */
static void
check_memory(enum uop_dtype dtype, unsigned lanes, int64_t offset, int gates,
             uint64_t *rng)
{
    const struct uop *range, *at, *gate = NULL, *other, *v, *root, *index;
    const struct uop *pair[2];
    struct uop_graph g;
    struct p_buf bufs[3];
    char what[80];

    uop_graph_init(&g);
    ptx_check_buf(&bufs[0], dtype, N + 16, rng);
    ptx_check_buf(&bufs[1], dtype, N + 16, rng);
    ptx_check_buf(&bufs[2], UOP_BOOL, N + 16, rng);
    range = uop_range(&g, 0, UOP_AXIS_LOOP, 6);
    at = uop_alu2(&g, UOP_MUL, range, mk_int(&g, 8));
    index = uop_alu2(&g, UOP_ADD, at, mk_int(&g, offset));
    if (gates)
        gate = mk_load(&g, mk_param(&g, 2, UOP_BOOL), at,
                       gates == 1 ? 1 : lanes, NULL, NULL);
    other = uop_dtype_infos[dtype].is_float ? uop_const_float(&g, dtype, 2.5)
                                            : uop_const_int(&g, dtype, 1);
    other = lanes > 1 ? mk_splat(&g, other, lanes) : other;
    if (lanes > 1 && gates == 2) { /* a gather, backwards */
        pair[0] = mk_splat(&g, uop_alu2(&g, UOP_ADD, index, mk_int(&g, lanes)),
                           lanes);
        pair[1] = mk(&g, UOP_RAMP, UOP_I64, lanes, 0, 0, NULL);
        index = mk(&g, UOP_SUB, UOP_I64, lanes, 0, 2, pair);
    }
    v = mk_load(&g, mk_param(&g, 1, dtype), index, lanes, gate ? other : NULL,
                gate);
    root = mk_store(&g, mk_param(&g, 0, dtype), index, v, gate);
    root = mk_end(&g, range, root);
    snprintf(what, sizeof(what), "memory %s x%u + %d, gates %d",
             uop_dtype_infos[dtype].short_name, lanes, (int)offset, gates);
    check_roots(&g, &root, 1, bufs, 3, false,
                offset == 4 && (lanes == 4 || lanes == 7), what);
    free_bufs(bufs, 3);
    uop_graph_fini(&g);
}

static void
test_memory(void **state)
{
    static const unsigned widths[] = {1, 2, 3, 4, 7, 8, 16};
    uint64_t rng = 9;
    unsigned dtype, w;
    int gates;

    (void)state;
    for (dtype = UOP_BOOL; dtype < UOP_DTYPE_COUNT; dtype++) {
        for (w = 0; w < ARRAY_LEN(widths); w++) {
            for (gates = 0; gates < 3; gates++) {
                check_memory((enum uop_dtype)dtype, widths[w], 0, gates, &rng);
                check_memory((enum uop_dtype)dtype, widths[w], 3, gates, &rng);
                check_memory((enum uop_dtype)dtype, widths[w], 4, gates, &rng);
            }
        }
    }
}

/* Accesses are as wide as the index's divisor allows, and no wider. */
static void
test_vector_forms(void **state)
{
    static const struct {
        unsigned lanes;
        int64_t scale, offset;
        const char *has, *lacks;
    } rows[] = {
        {4, 4, 0, "ld.global.v4.f32", "ld.global.v2"},
        {4, 4, 2, "ld.global.v2.f32", ".v4"},
        {4, 4, 1, "ld.global.v2.f32", ".v4"},
        {4, 1, 0, "ld.global.f32", ".v2"},
        {8, 8, 4, "[%rd1+32]", ".v2"},
        {2, 6, 0, "ld.global.v2.f32", ".v4"},
    };
    size_t i;

    (void)state;
    for (i = 0; i < ARRAY_LEN(rows); i++) {
        const struct uop *range, *at, *v, *root;
        struct lower_program p;
        struct uop_graph g;
        char *text;
        uop_graph_init(&g);
        range = uop_range(&g, 0, UOP_AXIS_LOOP, 6);
        at = uop_alu2(&g, UOP_MUL, range, mk_int(&g, rows[i].scale));
        at = uop_alu2(&g, UOP_ADD, at, mk_int(&g, rows[i].offset));
        v = mk_load(&g, mk_param(&g, 1, UOP_F32), at, rows[i].lanes, NULL,
                    NULL);
        root = mk_store(&g, mk_param(&g, 0, UOP_F32), at, v, NULL);
        root = mk_end(&g, range, root);
        program_of(&g, &root, 1, &p);
        assert_int_equal(render_ptx(&p, &ptx_check_target, &text), BELL_OK);
        if (!strstr(text, rows[i].has) || strstr(text, rows[i].lacks))
            fail_msg("row %zu:\n%s", i, text);
        host_free(text);
        program_free(&p);
        uop_graph_fini(&g);
    }
}

/* What the tests before this one kept. */
static void
test_assembler(void **state)
{
    uint32_t n = ptx_check_assemble();

    (void)state;
    if (!n) {
        print_message("not assembled: %s\n", bell_error_last()->message);
        skip();
    }
    print_message("%u kernels assembled for 6 architectures\n", n);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_alu),          cmocka_unit_test(test_cast),
        cmocka_unit_test(test_bitcast),      cmocka_unit_test(test_constants),
        cmocka_unit_test(test_random),       cmocka_unit_test(test_memory),
        cmocka_unit_test(test_vector_forms), cmocka_unit_test(test_assembler),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
