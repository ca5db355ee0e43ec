/* Programs as AMD machine code, interpreted, against the interpreter of
 * programs; for every op, dtype and width. And what is refused. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/lsan_interface.h>
#endif

#include "amdgpu_check.h"
#include "base/alloc.h"
#include "base/bits.h"
#include "host_run.h"

#define N 96 /* elements of most buffers */

static const unsigned lane_counts[] = {1, 4, 12};

/* Checks the program of a list of roots. With `all`, every chip's code
 * generator sees it too. */
static void
check_roots(struct uop_graph *g, const struct uop *const *roots, uint32_t n,
            const struct p_buf *bufs, uint32_t n_bufs, bool zeros, bool all,
            const char *what)
{
    struct lower_program p;

    program_of(g, roots, n, &p);
    amdgpu_check_program(&p, bufs, n_bufs, zeros, what);
    if (all)
        amdgpu_check_compile(&p, what);
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
    if (uop_dtype_is_small(dtype))
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
    amdgpu_check_buf(&bufs[0], result, N, NULL);
    for (i = 0; i < info->min_src; i++) {
        enum uop_dtype in = op == UOP_WHERE && i == 0 ? UOP_BOOL : dtype;
        amdgpu_check_buf(&bufs[1 + i], in, N, rng);
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
                op == UOP_MAX || op == UOP_MIN, dtype == UOP_F64, what);
    free_bufs(bufs, 1 + info->min_src);
    uop_graph_fini(&g);
}

static void
test_alu(void **state)
{
    uint64_t rng = 1;
    unsigned op, dtype, k = 0;

    (void)state;
    for (op = 0; op < UOP_OP_COUNT; op++) {
        for (dtype = UOP_BOOL; dtype < UOP_DTYPE_COUNT; dtype++) {
            if (!op_allowed(op, dtype))
                continue;
            check_alu(op, dtype, lane_counts[k++ % 3], &rng);
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
    amdgpu_check_buf(&bufs[0], to, N, NULL);
    amdgpu_check_buf(&bufs[1], from, N, rng);
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

/* Those of BF16, and F64 to F16, are decomposed. */
static bool
cast_allowed(enum uop_dtype from, enum uop_dtype to)
{
    if (from == to || from == UOP_BF16 || to == UOP_BF16 ||
        uop_dtype_is_f8(from) || uop_dtype_is_f8(to))
        return false;
    return from != UOP_F64 || to != UOP_F16;
}

static void
test_cast(void **state)
{
    uint64_t rng = 2;
    unsigned from, to, k = 0;

    (void)state;
    for (from = UOP_BOOL; from < UOP_DTYPE_COUNT; from++) {
        for (to = UOP_BOOL; to < UOP_DTYPE_COUNT; to++) {
            if (!cast_allowed(from, to))
                continue;
            check_cast(from, to, lane_counts[k++ % 3], &rng);
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
    amdgpu_check_buf(&buf, dtype, ARRAY_LEN(floats), NULL);
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
    } while (!op_allowed(op, dtype) || uop_dtype_is_small(dtype));
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
        amdgpu_check_buf(&bufs[1 + i], ins[i], N, &rng);
        pool[n++] =
            mk_load(&g, mk_param(&g, 1 + i, ins[i]), at, lanes, NULL, NULL);
    }
    pool[n++] = lanes > 1 ? mk_splat(&g, range, lanes) : range;
    while (n < ARRAY_LEN(pool)) {
        pool[n] = random_node(&g, pool, n, &rng);
        n++;
    }
    value = pool[n - 1];
    amdgpu_check_buf(&bufs[0], value->dtype, N, NULL);
    root = mk_store(&g, mk_param(&g, 0, value->dtype), at, value, NULL);
    root = mk_end(&g, range, root);
    snprintf(what, sizeof(what), "random program %llu",
             (unsigned long long)seed);
    check_roots(&g, &root, 1, bufs, 5, true, seed % 16 == 0, what);
    free_bufs(bufs, 5);
    uop_graph_fini(&g);
}

static void
test_random(void **state)
{
    uint64_t seed;

    (void)state;
    for (seed = 0; seed < 48; seed++)
        check_random(seed);
}

/* Of numbers that were negative before they were made wide and unsigned, by
 * small ones. */
static void
check_unsigned_quotient(enum uop_op op, enum uop_dtype from, enum uop_dtype to)
{
    struct uop_graph g;
    const struct uop *range, *a, *b, *root;
    struct p_buf bufs[3];
    uint64_t rng = 11;

    uop_graph_init(&g);
    range = uop_range(&g, 0, UOP_AXIS_LOOP, N);
    amdgpu_check_buf(&bufs[0], to, N, NULL);
    amdgpu_check_buf(&bufs[1], from, N, &rng);
    amdgpu_check_buf(&bufs[2], UOP_U8, N, &rng);
    a = mk_load(&g, mk_param(&g, 1, from), range, 1, NULL, NULL);
    b = mk_load(&g, mk_param(&g, 2, UOP_U8), range, 1, NULL, NULL);
    b = cast_to(&g, b, to);
    b = uop_alu2(&g, UOP_AND, b, wide_const(&g, b, 6));
    b = uop_alu2(&g, UOP_ADD, b, wide_const(&g, b, 1));
    a = uop_alu2(&g, op, cast_to(&g, a, to), b);
    root = mk_store(&g, mk_param(&g, 0, to), range, a, NULL);
    root = mk_end(&g, range, root);
    check_roots(&g, &root, 1, bufs, 3, true, false, "unsigned quotient");
    free_bufs(bufs, 3);
    uop_graph_fini(&g);
}

static void
test_unsigned_quotients(void **state)
{
    (void)state;
    check_unsigned_quotient(UOP_IDIV, UOP_I32, UOP_U64);
    check_unsigned_quotient(UOP_IMOD, UOP_I32, UOP_U64);
    check_unsigned_quotient(UOP_IDIV, UOP_I16, UOP_U32);
    check_unsigned_quotient(UOP_IMOD, UOP_I8, UOP_U32);
}

/* ---- threads ---- */

/* Threads write what they have into shared memory, wait, and read what their
 * opposite wrote; only even ones store. */
static void
check_shared(uint32_t n_elems)
{
    struct uop_local local = {.id = 0, .n_elems = n_elems};
    const struct uop *tid, *memory, *v, *store, *barrier, *after, *gate, *begin;
    const struct uop *src[3], *roots[4], *n64, *index;
    int32_t out[128], in[128];
    struct p_buf bufs[2] = {{UOP_I32, 128, out}, {UOP_I32, 128, in}};
    struct lower_program p;
    struct uop_graph g;
    unsigned chip;
    int i;

    for (i = 0; i < 128; i++)
        in[i] = i * 3;
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
    for (chip = 0; chip < AMDGPU_N_CHIPS; chip++) {
        for (i = 0; i < 128; i++)
            out[i] = -1;
        amdgpu_check_run(&p, chip, bufs, 2, NULL, "shared memory");
        for (i = 0; i < 128; i++)
            assert_int_equal(out[i],
                             i % 2 ? -1 : in[i / 64 * 64 + 63 - i % 64]);
    }
    p.shared_bytes = n_elems * 4;
    amdgpu_check_compile(&p, "shared memory");
    program_free(&p);
    uop_graph_fini(&g);
}

static void
test_shared_memory(void **state)
{
    (void)state;
    check_shared(64);
    check_shared(16384);
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
    for (i = 0; i < ARRAY_LEN(extents); i++) {
        int64_t n = extents[i] < 6 ? extents[i] : 6;
        out = -1;
        amdgpu_check_run(&p, (unsigned)i % AMDGPU_N_CHIPS, &buf, 1, &extents[i],
                         "extent");
        want = n > 0 ? n * (n - 1) / 2 : 0;
        assert_int_equal(out, want);
    }
    program_free(&p);
    uop_graph_fini(&g);
}

/* ---- memory ---- */

/* A LOAD and STORE at some offset and width, with and without a gate. */
static void
check_memory(enum uop_dtype dtype, unsigned lanes, int64_t offset,
             unsigned gates, uint64_t *rng)
{
    const struct uop *range, *at, *gate = NULL, *other, *v, *root, *index;
    const struct uop *pair[2];
    struct uop_graph g;
    struct p_buf bufs[3];
    char what[80];

    uop_graph_init(&g);
    amdgpu_check_buf(&bufs[0], dtype, N + 16, rng);
    amdgpu_check_buf(&bufs[1], dtype, N + 16, rng);
    amdgpu_check_buf(&bufs[2], UOP_BOOL, N + 16, rng);
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
    snprintf(what, sizeof(what), "memory %s x%u + %d, gates %u",
             uop_dtype_infos[dtype].short_name, lanes, (int)offset, gates);
    check_roots(&g, &root, 1, bufs, 3, false, dtype % 3 == 0 && lanes == 7,
                what);
    free_bufs(bufs, 3);
    uop_graph_fini(&g);
}

static void
test_memory(void **state)
{
    static const unsigned widths[] = {1, 2, 4, 7, 16};
    static const int64_t offsets[] = {0, 3, 4};
    uint64_t rng = 9;
    unsigned dtype, w, gates;

    (void)state;
    for (dtype = UOP_BOOL; dtype < UOP_DTYPE_COUNT; dtype++) {
        for (w = 0; w < ARRAY_LEN(widths); w++) {
            for (gates = 0; gates < 3; gates++) {
                check_memory(dtype, widths[w], offsets[(w + gates) % 3], gates,
                             &rng);
            }
        }
    }
}

/* Products of bytes that are added: LLVM 19 makes one instruction of four, and
 * of more than four neighbours a wrong one. */
static void
check_dot(enum uop_dtype dtype, unsigned n, int64_t stride, uint64_t *rng)
{
    const struct uop *a, *b, *sum = NULL, *root;
    struct uop_graph g;
    struct p_buf bufs[3];
    unsigned i;

    uop_graph_init(&g);
    for (i = 0; i < 3; i++)
        amdgpu_check_buf(&bufs[i], dtype, N, rng);
    for (i = 0; i < n; i++) {
        a = mk_load(&g, mk_param(&g, 1, dtype), mk_int(&g, i), 1, NULL, NULL);
        b = mk_load(&g, mk_param(&g, 2, dtype), mk_int(&g, i * stride), 1, NULL,
                    NULL);
        a = uop_alu2(&g, UOP_MUL, a, b);
        sum = sum ? uop_alu2(&g, UOP_ADD, a, sum) : a;
    }
    root = mk_store(&g, mk_param(&g, 0, dtype), mk_int(&g, 0), sum, NULL);
    check_roots(&g, &root, 1, bufs, 3, false, false,
                uop_dtype_infos[dtype].short_name);
    free_bufs(bufs, 3);
    uop_graph_fini(&g);
}

static void
test_dot(void **state)
{
    static const unsigned lengths[] = {4, 5, 8, 9, 17, 32};
    uint64_t rng = 11;
    size_t i;

    (void)state;
    for (i = 0; i < ARRAY_LEN(lengths); i++) {
        check_dot(UOP_U8, lengths[i], 2, &rng);
        check_dot(UOP_I8, lengths[i], 2, &rng);
        check_dot(UOP_U8, lengths[i], 1, &rng);
        check_dot(UOP_I8, lengths[i], 3, &rng);
    }
}

/* ---- matrix instructions ---- */

/* Element i of what this thread has of an operand, in the buffer of a slot. */
static const struct uop *
get_part(struct uop_graph *g, const struct uop *thread, uint32_t slot,
         enum uop_dtype dtype, uint32_t lanes)
{
    const struct uop *at = uop_alu2(g, UOP_MUL, thread, mk_int(g, lanes));

    return mk_load(g, mk_param(g, slot, dtype), at, lanes, NULL, NULL);
}

/* Values for operand i, thread after thread: floats, or all bits of integers.
 * The halves of a gfx11 warp have the same of A and B. */
static void
fill_part(struct p_buf *buf, struct uop_wmma w, bool copies, uint64_t *rng)
{
    size_t half = buf->n_elems / 2, j;

    for (j = 0; j < buf->n_elems; j++) {
        double v = (double)(next_random(rng) >> 52) * 0x1p-11 - 1;
        union uop_arg a = {.f = uop_round_float(buf->dtype, v)};
        if (!uop_dtype_infos[buf->dtype].is_float)
            a.i = (int32_t)(next_random(rng) >> 32);
        if (w.layout == UOP_WMMA_RDNA3 && copies && j >= half)
            p_get(buf, j - half, &a);
        p_set(buf, j, a);
    }
}

static void
expect_close(const struct p_buf *got, const struct p_buf *want,
             const char *what)
{
    union uop_arg a, b;
    size_t i;

    for (i = 0; i < want->n_elems; i++) {
        p_get(want, i, &a);
        p_get(got, i, &b);
        if (!uop_dtype_infos[want->dtype].is_float && a.i != b.i)
            fail_msg("%s: element %zu is %lld, not %lld", what, i,
                     (long long)b.i, (long long)a.i);
        if (uop_dtype_infos[want->dtype].is_float && !(fabs(a.f - b.f) <= 1e-5))
            fail_msg("%s: element %zu is %g, not %g", what, i, b.f, a.f);
    }
}

/* One instruction, whose operands lie in memory thread after thread. */
static void
check_matrix(unsigned chip, struct uop_wmma w, enum uop_dtype dtype,
             enum uop_dtype other, uint64_t *rng)
{
    enum uop_dtype sum = uop_wmma_sum(dtype);
    const enum uop_dtype dtypes[4] = {sum, dtype, other, sum};
    const uint32_t n = uop_wmma_threads(w),
                   lanes[4] = {uop_wmma_lanes(w, UOP_WMMA_C),
                               uop_wmma_lanes(w, UOP_WMMA_A),
                               uop_wmma_lanes(w, UOP_WMMA_B),
                               uop_wmma_lanes(w, UOP_WMMA_C)};
    const struct uop *extent, *thread, *src[3], *d, *root;
    struct p_buf bufs[4], got[4];
    struct lower_program p;
    struct uop_graph g;
    char err[256];
    uint32_t i;

    uop_graph_init(&g);
    extent = mk_int(&g, n);
    thread = mk(&g, UOP_SPECIAL, UOP_I64, 1, 4, 1, &extent);
    for (i = 0; i < 4; i++) {
        amdgpu_check_buf(&bufs[i], dtypes[i], n * lanes[i], NULL);
        fill_part(&bufs[i], w, i == 1 || i == 2, rng);
        amdgpu_check_buf(&got[i], dtypes[i], n * lanes[i], NULL);
        memcpy(got[i].data, bufs[i].data,
               n * lanes[i] * uop_dtype_infos[dtypes[i]].size_bytes);
        if (i)
            src[i - 1] = get_part(&g, thread, i, dtypes[i], lanes[i]);
    }
    d = mk(&g, UOP_WMMA, sum, lanes[0], uop_wmma_arg(w), 3, src);
    root = uop_alu2(&g, UOP_MUL, thread, mk_int(&g, lanes[0]));
    root = mk_store(&g, mk_param(&g, 0, sum), root, d, NULL);
    program_of(&g, &root, 1, &p);
    p.local[0] = n;
    if (p_run(&p, bufs, 4, err, sizeof(err)) != 0)
        fail_msg("%s", err);
    amdgpu_check_run(&p, chip, got, 4, NULL, "a matrix instruction");
    expect_close(&got[0], &bufs[0], uop_dtype_infos[dtype].name);
    for (i = 0; i < 4; i++) {
        free(bufs[i].data);
        free(got[i].data);
    }
    program_free(&p);
    uop_graph_fini(&g);
}

/* Each layout's elements lie where uops/wmma.h says. */
static void
test_matrix_instructions(void **state)
{
    static const struct uop_wmma mfma16 = {UOP_WMMA_CDNA, 16, 16, 16},
                                 mfma4 = {UOP_WMMA_CDNA, 16, 16, 4},
                                 mfma32 = {UOP_WMMA_CDNA, 16, 16, 32},
                                 wmma16 = {UOP_WMMA_RDNA3, 16, 16, 16},
                                 wmma12 = {UOP_WMMA_RDNA4, 16, 16, 16};
    uint64_t rng = 21;

    (void)state;
    check_matrix(0, mfma16, UOP_F16, UOP_F16, &rng);
    check_matrix(0, mfma16, UOP_BF16, UOP_BF16, &rng);
    check_matrix(0, mfma4, UOP_F32, UOP_F32, &rng);
    check_matrix(0, mfma4, UOP_F64, UOP_F64, &rng);
    check_matrix(1, wmma16, UOP_F16, UOP_F16, &rng);
    check_matrix(1, wmma16, UOP_BF16, UOP_BF16, &rng);
    check_matrix(0, mfma32, UOP_I8, UOP_I8, &rng);
    check_matrix(0, mfma32, UOP_F8E4M3Z, UOP_F8E4M3Z, &rng);
    check_matrix(0, mfma32, UOP_F8E5M2Z, UOP_F8E5M2Z, &rng);
    check_matrix(0, mfma32, UOP_F8E4M3Z, UOP_F8E5M2Z, &rng);
    check_matrix(0, mfma32, UOP_F8E5M2Z, UOP_F8E4M3Z, &rng);
    check_matrix(1, wmma16, UOP_I8, UOP_I8, &rng);
    check_matrix(1, wmma16, UOP_U8, UOP_U8, &rng);
    check_matrix(1, wmma16, UOP_I8, UOP_U8, &rng);
    check_matrix(1, wmma16, UOP_U8, UOP_I8, &rng);
    check_matrix(2, mfma16, UOP_I8, UOP_I8, &rng);
    check_matrix(2, mfma16, UOP_BF16, UOP_BF16, &rng);
    check_matrix(2, mfma4, UOP_F32, UOP_F32, &rng);
    check_matrix(2, mfma4, UOP_F64, UOP_F64, &rng);
    check_matrix(4, wmma12, UOP_F16, UOP_F16, &rng);
    check_matrix(4, wmma12, UOP_BF16, UOP_BF16, &rng);
    check_matrix(4, wmma12, UOP_I8, UOP_I8, &rng);
    check_matrix(4, wmma12, UOP_I8, UOP_U8, &rng);
    check_matrix(4, wmma12, UOP_F8E4M3, UOP_F8E4M3, &rng);
    check_matrix(4, wmma12, UOP_F8E5M2, UOP_F8E4M3, &rng);
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
    struct amdgpu_target target = amdgpu_check_target(0);
    bell_status status = BELL_E_NO_MEMORY;
    struct render_binary binary;
    struct lower_program p;
    struct uop_graph g;
    uint32_t nth;

    (void)state;
    uop_graph_init(&g);
    make_sum(&g, &p);
    for (nth = 1; status == BELL_E_NO_MEMORY && nth < 1000; nth++) {
        host_fail_after(nth, 1);
        status = render_amdgpu(&p, &target, &binary);
        host_fail_after(0, 0);
    }
    assert_int_equal(status, BELL_OK);
    assert_true(nth > 5);
    render_binary_fini(&binary);
    program_free(&p);
    uop_graph_fini(&g);
}

/* The same bytes each time; no target but the known ones. */
static void
test_targets(void **state)
{
    struct amdgpu_target target = amdgpu_check_target(1);
    struct render_binary a, b;
    struct lower_target lower;
    struct lower_program p;
    struct uop_graph g;
    char *text;

    (void)state;
    uop_graph_init(&g);
    make_sum(&g, &p);
    assert_int_equal(render_amdgpu(&p, &target, &a), BELL_OK);
    assert_int_equal(render_amdgpu(&p, &target, &b), BELL_OK);
    assert_int_equal(a.size_bytes, b.size_bytes);
    assert_memory_equal(a.data, b.data, a.size_bytes);
    render_binary_fini(&a);
    render_binary_fini(&b);
    assert_int_equal(render_amdgpu_text(&p, &target, &text), BELL_OK);
    assert_non_null(strstr(text, "define amdgpu_kernel void @kernel"));
    host_free(text);
    assert_int_equal(render_amdgpu_asm(&p, &target, &text), BELL_OK);
    assert_non_null(strstr(text, "s_endpgm"));
    host_free(text);
    snprintf(target.gfx, sizeof(target.gfx), "gfx803");
    assert_int_equal(render_amdgpu(&p, &target, &a), BELL_E_UNSUPPORTED);
    assert_non_null(strstr(bell_error_last()->message, "known: gfx90a"));
    assert_int_equal(render_amdgpu_lower_target(&target, &lower),
                     BELL_E_UNSUPPORTED);
    program_free(&p);
    uop_graph_fini(&g);
}

/* What LLVM cannot do is an error with its words, not the end of the
 * process; the next kernel compiles. */
static void
test_bad_ir(void **state)
{
    static const struct {
        const char *ir, *words;
    } rows[] = {
        {"define amdgpu_kernel void @k( {", "expected type"},
        {"declare float @llvm.amdgcn.cvt.f32.fp8(i32, i32)\n"
         "define amdgpu_kernel void @k(ptr addrspace(1) %p, i32 %x) {\n"
         "  %f = call float @llvm.amdgcn.cvt.f32.fp8(i32 %x, i32 0)\n"
         "  store float %f, ptr addrspace(1) %p\n  ret void\n}\n",
         "select"},
        {"declare double @llvm.exp2.f64(double)\n"
         "define amdgpu_kernel void @k(ptr addrspace(1) %p, double %x) {\n"
         "  %f = call double @llvm.exp2.f64(double %x)\n"
         "  store double %f, ptr addrspace(1) %p\n  ret void\n}\n",
         "exp2"},
        {"declare void @outside()\n"
         "define amdgpu_kernel void @k() {\n"
         "  call void @outside()\n  ret void\n}\n",
         "outside"},
    };
    struct amdgpu_target target = amdgpu_check_target(1);
    struct render_binary binary;
    bell_status status;
    size_t i;

    (void)state;
    for (i = 0; i < ARRAY_LEN(rows); i++) {
#if defined(__SANITIZE_ADDRESS__)
        __lsan_disable(); /* what LLVM held when it gave up is lost */
#endif
        status = render_amdgpu_ir(rows[i].ir, "k", &target, &binary);
#if defined(__SANITIZE_ADDRESS__)
        __lsan_enable();
#endif
        assert_int_equal(status, BELL_E_COMPILE);
        if (!strstr(bell_error_last()->message, rows[i].words))
            fail_msg("row %zu: %s", i, bell_error_last()->message);
    }
    assert_int_equal(
        render_amdgpu_ir("define amdgpu_kernel void @k() { ret void }", "k",
                         &target, &binary),
        BELL_OK);
    render_binary_fini(&binary);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_alu),
        cmocka_unit_test(test_cast),
        cmocka_unit_test(test_constants),
        cmocka_unit_test(test_random),
        cmocka_unit_test(test_unsigned_quotients),
        cmocka_unit_test(test_shared_memory),
        cmocka_unit_test(test_extent_at_run_time),
        cmocka_unit_test(test_memory),
        cmocka_unit_test(test_dot),
        cmocka_unit_test(test_matrix_instructions),
        cmocka_unit_test(test_out_of_memory),
        cmocka_unit_test(test_targets),
        cmocka_unit_test(test_bad_ir),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
