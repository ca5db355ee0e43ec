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
#include "lower_kernels.h"
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
    if (op == UOP_EXP2 || op == UOP_LOG2 || op == UOP_SIN || op == UOP_COS ||
        op == UOP_RECIP || op == UOP_FLOORDIV || op == UOP_FLOORMOD)
        return false;
    if (uop_dtype_is_f8(dtype))
        return op == UOP_WHERE;
    if (uop_dtype_is_small(dtype))
        return op != UOP_FDIV && op != UOP_SQRT && op != UOP_TRUNC &&
               op != UOP_MULACC;
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
                op == UOP_MAX || op == UOP_MIN, false, what);
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
            if (!op_allowed(op, dtype))
                continue;
            for (k = 0; k < ARRAY_LEN(lane_counts); k++)
                check_alu(op, dtype, lane_counts[k], &rng);
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
    check_roots(&g, &root, 1, bufs, 2, false, false, what);
    free_bufs(bufs, 2);
    uop_graph_fini(&g);
}

/* BF16 comes from what F32 holds; the rest is decomposed. */
static bool
cast_allowed(enum uop_dtype from, enum uop_dtype to)
{
    if (from == to || uop_dtype_is_f8(from) || uop_dtype_is_f8(to))
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
            if (!cast_allowed(from, to))
                continue;
            for (k = 0; k < ARRAY_LEN(lane_counts); k++)
                check_cast(from, to, lane_counts[k], &rng);
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
                check_bitcast(from, to, 1 + next_random(&rng) % 8, &rng);
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
        check_constants(dtype);
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
    const struct uop *c = uop_const_int(g, like->dtype, value);

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
        op = (next_random(rng) % UOP_OP_COUNT);
        dtype = (1 + next_random(rng) % (UOP_DTYPE_COUNT - 1));
    } while (!op_allowed(op, dtype) || dtype == UOP_BF16 ||
             uop_dtype_is_f8(dtype));
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
    for (seed = 0; seed < 300; seed++)
        check_random(seed);
}

/* ---- kernels ---- */

static const int64_t sizes[][3] = {{1, 1, 1}, {5, 7, 3}, {16, 32, 48}};

/* A kernel of lower_kernels.c through the passes for a GPU. */
static void
check_kernel(const struct lk_case *c, const int64_t *d, bool no_opts)
{
    struct p_buf want[LK_MAX_BUFS], got[LK_MAX_BUFS];
    struct lower_target target;
    struct lower_program p;
    char err[256] = "", *text = NULL;
    struct lk k;

    assert_int_equal(render_ptx_lower_target(&ptx_check_target, &target),
                     BELL_OK);
    target.no_opts = no_opts;
    lk_init(&k, c, d, 11);
    lk_copy_bufs(&k, want);
    lk_copy_bufs(&k, got);
    assert_int_equal(k_run(k.sink, want, k.n_bufs, err, sizeof(err)), 0);
    if (lower_kernel(&k.g, k.sink, &target, &p) != BELL_OK ||
        render_ptx(&p, &ptx_check_target, &text) != BELL_OK)
        fail_msg("%s: %s", c->name, bell_error_last()->message);
    ptx_check_run(&p, text, got, (uint32_t)k.n_bufs, NULL, c->name);
    if (lk_compare(&k, want, got, err, sizeof(err)))
        fail_msg("%s: %s\n%s", c->name, err, text);
    if (d[0] == 5 && !no_opts)
        ptx_check_keep(&p, false);
    host_free(text);
    lk_free_copy(&k, want);
    lk_free_copy(&k, got);
    lk_fini(&k);
}

static void
test_kernels(void **state)
{
    size_t c, s;

    (void)state;
    for (c = 0; c < lk_n_cases; c++) {
        for (s = 0; s < ARRAY_LEN(sizes); s++) {
            if (s < 2 || strcmp(lk_cases[c].name, "conv-wide"))
                check_kernel(&lk_cases[c], sizes[s], true);
            check_kernel(&lk_cases[c], sizes[s], false);
        }
    }
}

/* ---- threads ---- */

/* Threads write what they have into shared memory, wait, and read what their
 * opposite wrote; only even ones store. With `big`, it has to be dynamic. */
static void
check_shared(bool big)
{
    struct uop_local local = {.id = 0, .n_elems = big ? 20000 : 64};
    const struct uop *tid, *memory, *v, *store, *barrier, *after, *gate, *begin;
    const struct uop *src[3], *roots[4], *n64, *index;
    int32_t out[128], in[128];
    struct p_buf bufs[2] = {{UOP_I32, 128, out}, {UOP_I32, 128, in}};
    struct lower_program p;
    struct uop_graph g;
    char *text;
    int i;

    for (i = 0; i < 128; i++) {
        in[i] = i * 3;
        out[i] = -1;
    }
    uop_graph_init(&g);
    n64 = mk_int(&g, 64);
    tid = mk(&g, UOP_SPECIAL, UOP_I64, 1, 4, 1, &n64);
    src[0] = mk_int(&g, 2);
    index = mk(&g, UOP_SPECIAL, UOP_I64, 1, 0, 1, src);
    index = uop_alu2(&g, UOP_ADD, uop_alu2(&g, UOP_MUL, index, n64), tid);
    v = mk_load(&g, mk_param(&g, 1, UOP_I32), index, 1, NULL, NULL);
    memory = uop_new(&g, UOP_LOCAL, UOP_I32, 1, (union uop_arg){.data = &local},
                     NULL, 0);
    store = mk_store(&g, memory, tid, v, NULL);
    barrier = mk(&g, UOP_BARRIER, UOP_VOID, 1, 0, 1, &store);
    src[0] = memory;
    src[1] = barrier;
    after = mk(&g, UOP_AFTER, UOP_I32, 1, 0, 2, src);
    v = mk_load(&g, after, uop_alu2(&g, UOP_SUB, mk_int(&g, 63), tid), 1, NULL,
                NULL);
    gate = uop_alu2(&g, UOP_IMOD, tid, mk_int(&g, 2));
    gate = uop_alu2(&g, UOP_CMPEQ, gate, mk_int(&g, 0));
    begin = mk(&g, UOP_IF, UOP_VOID, 1, 0, 1, &gate);
    roots[0] = begin;
    roots[1] = mk_store(&g, mk_param(&g, 0, UOP_I32), index, v, NULL);
    src[0] = begin;
    src[1] = roots[1];
    roots[2] = mk(&g, UOP_ENDIF, UOP_VOID, 1, 0, 2, src);
    program_of(&g, roots, 3, &p);
    p.local[0] = 64;
    p.grid[0] = 2;
    if (render_ptx(&p, &ptx_check_target, &text) != BELL_OK)
        fail_msg("%s", bell_error_last()->message);
    assert_int_equal(render_ptx_dynamic_bytes(&p), big ? 80000 : 0);
    assert_int_equal(strstr(text, ".extern .shared") != NULL, big);
    ptx_check_run(&p, text, bufs, 2, NULL, "shared memory");
    for (i = 0; i < 128; i++)
        assert_int_equal(out[i], i % 2 ? -1 : in[i / 64 * 64 + 63 - i % 64]);
    if (!big)
        ptx_check_keep(&p, false);
    host_free(text);
    program_free(&p);
    uop_graph_fini(&g);
}

static void
test_shared_memory(void **state)
{
    (void)state;
    check_shared(false);
    check_shared(true);
}

/* A loop whose extent is an argument, 0 to some, with a register variable. */
static void
test_extent_at_run_time(void **state)
{
    static const int64_t extents[] = {0, 1, 5, -3, INT64_C(1) << 33};
    const struct uop *var, *range, *acc, *get, *pair[2], *v, *root, *zero;
    struct lower_program p;
    struct uop_graph g;
    int64_t out, want;
    struct p_buf buf = {UOP_I64, 1, &out};
    char *text;
    size_t i;

    (void)state;
    uop_graph_init(&g);
    var = mk(&g, UOP_VAR, UOP_I64, 1, 1, 0, NULL);
    zero = mk_int(&g, 0);
    acc = mk(&g, UOP_ACC, UOP_I64, 1, 0, 1, &zero);
    pair[0] = var;
    pair[1] = mk_int(&g, 6);
    range = mk(&g, UOP_MIN, UOP_I64, 1, 0, 2, pair);
    range = mk(&g, UOP_RANGE, UOP_I64, 1, uop_range_arg(0, UOP_AXIS_LOOP), 1,
               &range);
    pair[0] = acc;
    pair[1] = range;
    get = mk(&g, UOP_ACC_GET, UOP_I64, 1, 0, 2, pair);
    pair[0] = get;
    pair[1] = range;
    v = mk(&g, UOP_ADD, UOP_I64, 1, 0, 2, pair);
    pair[0] = acc;
    pair[1] = v;
    v = mk(&g, UOP_ACC_SET, UOP_VOID, 1, 0, 2, pair);
    root = mk_end(&g, range, v);
    pair[0] = acc;
    pair[1] = root;
    v = mk(&g, UOP_ACC_GET, UOP_I64, 1, 0, 2, pair);
    root = mk_store(&g, mk_param(&g, 0, UOP_I64), mk_int(&g, 0), v, NULL);
    program_of(&g, &root, 1, &p);
    p.n_params = 1;
    p.n_vars = 1;
    assert_int_equal(render_ptx(&p, &ptx_check_target, &text), BELL_OK);
    for (i = 0; i < ARRAY_LEN(extents); i++) {
        int64_t n = extents[i] < 6 ? extents[i] : 6;
        out = -1;
        ptx_check_run(&p, text, &buf, 1, &extents[i], "extent");
        want = n > 0 ? n * (n - 1) / 2 : 0;
        assert_int_equal(out, want);
    }
    ptx_check_keep(&p, false);
    host_free(text);
    program_free(&p);
    uop_graph_fini(&g);
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
                offset == 4 && lanes == 7 && dtype % 3 == 0, what);
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
                check_memory(dtype, widths[w], 0, gates, &rng);
                check_memory(dtype, widths[w], 3, gates, &rng);
                check_memory(dtype, widths[w], 4, gates, &rng);
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
        program_of(&g, &root, 1, &p);
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
        program_of(&g, roots, n, &p);
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

    if (!op_allowed(op, dtype) ||
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

    if (!cast_allowed(from, to))
        return NULL;
    v = mk_load(g, mk_param(g, slot, from), mk_int(g, 1), 1, NULL, NULL);
    return mk(g, UOP_CAST, to, 1, 0, 1, &v);
}

static const struct uop *
make_bitcast(struct uop_graph *g, unsigned from, enum uop_dtype to,
             uint32_t slot)
{
    const struct uop *v;

    if (from == UOP_BOOL || to == UOP_BOOL ||
        uop_dtype_infos[from].size_bytes != uop_dtype_infos[to].size_bytes)
        return NULL;
    v = mk_load(g, mk_param(g, slot, from), mk_int(g, 1), 1, NULL, NULL);
    return mk(g, UOP_BITCAST, to, 1, 0, 1, &v);
}

/* All ops and conversions, and what the tests before this one kept. */
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
    program_of(g, &root, 1, out);
}

static void
test_out_of_memory(void **state)
{
    bell_status status = BELL_E_NO_MEMORY;
    struct lower_program p;
    struct uop_graph g;
    uint32_t nth;
    char *text;

    (void)state;
    uop_graph_init(&g);
    make_sum(&g, &p);
    for (nth = 1; status == BELL_E_NO_MEMORY && nth < 1000; nth++) {
        host_fail_after(nth, 1);
        status = render_ptx(&p, &ptx_check_target, &text);
        host_fail_after(0, 0);
    }
    assert_int_equal(status, BELL_OK);
    assert_true(nth > 5);
    host_free(text);
    program_free(&p);
    uop_graph_fini(&g);
}

/* The same bytes each time; no target but the known ones. */
static void
test_targets(void **state)
{
    struct ptx_target target = ptx_check_target;
    struct lower_target lower;
    struct lower_program p;
    struct uop_graph g;
    char *a, *b;

    (void)state;
    uop_graph_init(&g);
    make_sum(&g, &p);
    assert_int_equal(render_ptx(&p, &target, &a), BELL_OK);
    assert_int_equal(render_ptx(&p, &target, &b), BELL_OK);
    assert_string_equal(a, b);
    host_free(a);
    host_free(b);
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
        cmocka_unit_test(test_alu),
        cmocka_unit_test(test_cast),
        cmocka_unit_test(test_bitcast),
        cmocka_unit_test(test_constants),
        cmocka_unit_test(test_random),
        cmocka_unit_test(test_kernels),
        cmocka_unit_test(test_shared_memory),
        cmocka_unit_test(test_extent_at_run_time),
        cmocka_unit_test(test_memory),
        cmocka_unit_test(test_vector_forms),
        cmocka_unit_test(test_out_of_memory),
        cmocka_unit_test(test_targets),
        cmocka_unit_test(test_ptxas_errors),
        cmocka_unit_test(test_assembler),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
