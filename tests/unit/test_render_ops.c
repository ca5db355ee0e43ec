/* Arithmetic, conversions and lanes as host code against the interpreter, op
 * by op on every dtype, and random programs of them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/bits.h"
#include "base/map.h"
#include "host_check.h"

#define N 256 /* elements of most buffers */

static const unsigned lane_counts[] = {1, 4, 16};

static struct lower_target target;

static int
setup(void **state)
{
    (void)state;
    return render_host_target(&target) == BELL_OK ? 0 : -1;
}

/* ---- arithmetic ---- */

/* What is in ops.def for stage P and yet decomposed before. */
static bool
is_decomposed(enum uop_op op, bool boolean)
{
    switch ((unsigned)op) {
    case UOP_EXP2:
    case UOP_LOG2:
    case UOP_SIN:
    case UOP_COS:
    case UOP_RECIP:
    case UOP_FLOORDIV:
    case UOP_FLOORMOD:
        return true;
    case UOP_NEG:
    case UOP_SUB:
    case UOP_IDIV:
    case UOP_IMOD:
    case UOP_SHL:
    case UOP_SHR:
    case UOP_MULACC:
        return boolean;
    default:
        return false;
    }
}

/* Whether programs for the host may hold this op on this dtype. */
static bool
op_allowed(enum uop_op op, enum uop_dtype dtype)
{
    unsigned flags = uop_op_infos[op].flags;
    bool flt = uop_dtype_infos[dtype].is_float;

    if (!(flags & UOP_FLAG_ALU) || !(flags & UOP_FLAG_P))
        return false;
    if (((flags & UOP_FLAG_FLT) && !flt) || ((flags & UOP_FLAG_INT) && flt))
        return false;
    if (uop_dtype_is_small(dtype))
        return op == UOP_WHERE;
    if (op == UOP_MULACC && flt && !target.has_fma)
        return false;
    return !is_decomposed(op, dtype == UOP_BOOL);
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
    check_buf_make(&bufs[0], result, N);
    for (i = 0; i < info->min_src; i++) {
        enum uop_dtype in = op == UOP_WHERE && i == 0 ? UOP_BOOL : dtype;
        check_buf_make(&bufs[1 + i], in, N);
        check_buf_random(&bufs[1 + i], rng);
        if (i == 1 && (info->flags & UOP_FLAG_INT) && dtype != UOP_BOOL)
            tame_operands(op, &bufs[2], rng);
        src[i] = mk_load(&g, mk_param(&g, 1 + i, in), at, lanes, NULL, NULL);
    }
    root = mk(&g, op, result, lanes, 0, info->min_src, src);
    root = mk_store(&g, mk_param(&g, 0, result), at, root, NULL);
    root = mk_end(&g, range, root);
    snprintf(what, sizeof(what), "%s %s x%u", info->name,
             uop_dtype_infos[dtype].short_name, lanes);
    check_roots(&g, &target, &root, 1, bufs, 1 + info->min_src,
                op == UOP_MAX || op == UOP_MIN, what);
    for (i = 0; i <= info->min_src; i++)
        check_buf_free(&bufs[i]);
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

/* MAX and MIN beside a constant take a shorter way. */
static void
check_extreme(enum uop_op op, double value, unsigned at_src, uint64_t *rng)
{
    const struct uop *src[2], *range, *at, *root;
    struct uop_graph g;
    struct p_buf bufs[2];
    unsigned j;

    uop_graph_init(&g);
    for (j = 0; j < 2; j++) {
        check_buf_make(&bufs[j], UOP_F32, N);
        check_buf_random(&bufs[j], rng);
    }
    range = uop_range(&g, 0, UOP_AXIS_LOOP, N / 16);
    at = uop_alu2(&g, UOP_MUL, range, mk_int(&g, 16));
    src[!at_src] = mk_load(&g, mk_param(&g, 1, UOP_F32), at, 16, NULL, NULL);
    src[at_src] = mk_splat(&g, uop_const_float(&g, UOP_F32, value), 16);
    root = mk(&g, op, UOP_F32, 16, 0, 2, src);
    root = mk_store(&g, mk_param(&g, 0, UOP_F32), at, root, NULL);
    root = mk_end(&g, range, root);
    check_roots(&g, &target, &root, 1, bufs, 2, true, "extreme");
    check_buf_free(&bufs[0]);
    check_buf_free(&bufs[1]);
    uop_graph_fini(&g);
}

static void
test_extreme_with_constant(void **state)
{
    static const double consts[] = {0.0, 1.5, -INFINITY, NAN};
    uint64_t rng = 5;
    unsigned i, at_src;

    (void)state;
    for (i = 0; i < ARRAY_LEN(consts); i++) {
        for (at_src = 0; at_src < 2; at_src++) {
            check_extreme(UOP_MAX, consts[i], at_src, &rng);
            check_extreme(UOP_MIN, consts[i], at_src, &rng);
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
    check_buf_make(&bufs[0], to, N);
    check_buf_make(&bufs[1], from, N);
    check_buf_random(&bufs[1], rng);
    range = uop_range(&g, 0, UOP_AXIS_LOOP, N / lanes);
    at = uop_alu2(&g, UOP_MUL, range, mk_int(&g, lanes));
    root = mk_load(&g, mk_param(&g, 1, from), at, lanes, NULL, NULL);
    root = mk(&g, UOP_CAST, to, lanes, 0, 1, &root);
    root = mk_store(&g, mk_param(&g, 0, to), at, root, NULL);
    root = mk_end(&g, range, root);
    snprintf(what, sizeof(what), "cast %s to %s x%u",
             uop_dtype_infos[from].short_name, uop_dtype_infos[to].short_name,
             lanes);
    check_roots(&g, &target, &root, 1, bufs, 2, false, what);
    check_buf_free(&bufs[0]);
    check_buf_free(&bufs[1]);
    uop_graph_fini(&g);
}

static bool
cast_allowed(enum uop_dtype from, enum uop_dtype to)
{
    if (from == to || from == UOP_BF16 || to == UOP_BF16 ||
        uop_dtype_is_f8(from) || uop_dtype_is_f8(to) ||
        (from == UOP_F64 && to == UOP_F16))
        return false;
    return target.has_f16 || (from != UOP_F16 && to != UOP_F16);
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
    void *bufs[2] = {out, in};
    const struct uop *root;
    struct host_code code;
    struct lower_program p;
    struct uop_graph g;

    for (i = 0; i < 32; i++)
        in[i] = next_random(rng);
    uop_graph_init(&g);
    root = mk_load(&g, mk_param(&g, 1, from), mk_int(&g, 1), lanes, NULL, NULL);
    root = mk(&g, UOP_BITCAST, to, lanes, 0, 1, &root);
    root = mk_store(&g, mk_param(&g, 0, to), mk_int(&g, 1), root, NULL);
    program_of(&g, &root, 1, &p);
    host_compile(&p, &target, &code);
    host_call(&code, &p, bufs);
    assert_memory_equal((char *)out + bytes, (char *)in + bytes, bytes * lanes);
    host_release(&code);
    program_free(&p);
    uop_graph_fini(&g);
}

/* BITCAST keeps every bit, of NaNs too. */
static void
test_bitcast(void **state)
{
    uint64_t rng = 3;
    unsigned from, to, k;

    (void)state;
    for (from = UOP_I8; from < UOP_DTYPE_COUNT; from++) {
        for (to = UOP_I8; to < UOP_DTYPE_COUNT; to++) {
            if (uop_dtype_infos[from].size_bytes !=
                uop_dtype_infos[to].size_bytes)
                continue;
            for (k = 0; k < ARRAY_LEN(lane_counts); k++)
                check_bitcast(from, to, lane_counts[k], &rng);
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
    check_buf_make(&buf, dtype, ARRAY_LEN(floats));
    for (i = 0; i < ARRAY_LEN(floats); i++) {
        const struct uop *c;
        if (uop_dtype_infos[dtype].is_float)
            c = uop_const_float(&g, dtype, floats[i]);
        else
            c = uop_const_int(&g, dtype, (int64_t)hash_mix(i) >> (i & 63));
        roots[i] = mk_store(&g, mk_param(&g, 0, dtype), mk_int(&g, (int64_t)i),
                            c, NULL);
    }
    check_roots(&g, &target, roots, ARRAY_LEN(floats), &buf, 1, false,
                uop_dtype_infos[dtype].name);
    check_buf_free(&buf);
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

/* ---- lanes ---- */

static void
test_lanes(void **state)
{
    struct uop_graph g;
    const struct uop *in, *v, *lane[5], *both[2], *roots[5], *out;
    struct p_buf bufs[2];
    uint64_t rng = 8;
    unsigned i;

    (void)state;
    uop_graph_init(&g);
    check_buf_make(&bufs[0], UOP_I32, 40);
    check_buf_random(&bufs[0], &rng);
    check_buf_make(&bufs[1], UOP_I32, 5);
    check_buf_random(&bufs[1], &rng);
    out = mk_param(&g, 0, UOP_I32);
    in = mk_load(&g, mk_param(&g, 1, UOP_I32), mk_int(&g, 0), 5, NULL, NULL);
    for (i = 0; i < 5; i++)
        lane[i] = mk(&g, UOP_LANE, UOP_I32, 1, 4 - (int)i, 1, &in);
    v = mk(&g, UOP_LANES, UOP_I32, 5, 0, 5, lane);
    roots[0] = mk_store(&g, out, mk_int(&g, 0), v, NULL);
    both[0] = v;
    both[1] = mk(&g, UOP_RAMP, UOP_I32, 5, 0, 0, NULL);
    v = mk(&g, UOP_ADD, UOP_I32, 5, 0, 2, both);
    roots[1] = mk_store(&g, out, mk_int(&g, 7), v, NULL);
    v = mk_splat(&g, lane[1], 8);
    roots[2] = mk_store(&g, out, mk_int(&g, 14), v, NULL);
    v = mk(&g, UOP_LANES_REDUCE, UOP_I32, 1, UOP_ADD, 1, &in);
    roots[3] = mk_store(&g, out, mk_int(&g, 30), v, NULL);
    v = mk(&g, UOP_LANES_REDUCE, UOP_I32, 1, UOP_MAX, 1, &in);
    roots[4] = mk_store(&g, out, mk_int(&g, 31), v, NULL);
    check_roots(&g, &target, roots, 5, bufs, 2, false, "lanes");
    check_buf_free(&bufs[0]);
    check_buf_free(&bufs[1]);
    uop_graph_fini(&g);
}

/* The order that LANES_REDUCE promises, in plain C. */
static float
sum_as_documented(const float *x, unsigned n)
{
    float v[64];
    unsigned p = 1, i, half;

    while (p * 2 <= n)
        p *= 2;
    memcpy(v, x, p * sizeof(*v));
    for (half = p / 2; half >= 1; half /= 2) {
        for (i = 0; i < half; i++)
            v[i] += v[half + i];
    }
    for (i = p; i < n; i++)
        v[0] += x[i];
    return v[0];
}

static void
check_reduce_order(float *in, unsigned width)
{
    float out = 0;
    void *bufs[2] = {&out, in};
    const struct uop *root;
    struct host_code code;
    struct lower_program p;
    struct uop_graph g;

    uop_graph_init(&g);
    root =
        mk_load(&g, mk_param(&g, 1, UOP_F32), mk_int(&g, 0), width, NULL, NULL);
    root = mk(&g, UOP_LANES_REDUCE, UOP_F32, 1, UOP_ADD, 1, &root);
    root = mk_store(&g, mk_param(&g, 0, UOP_F32), mk_int(&g, 0), root, NULL);
    program_of(&g, &root, 1, &p);
    host_compile(&p, &target, &code);
    host_call(&code, &p, bufs);
    assert_true(out == sum_as_documented(in, width));
    host_release(&code);
    program_free(&p);
    uop_graph_fini(&g);
}

static void
test_lanes_reduce_order(void **state)
{
    static const unsigned widths[] = {2, 3, 4, 7, 8, 12, 16, 31, 32, 64};
    uint64_t rng = 4;
    float in[64];
    size_t i;

    (void)state;
    for (i = 0; i < 64; i++)
        in[i] = (float)((double)(int64_t)next_random(&rng) * 0x1p-60);
    for (i = 0; i < ARRAY_LEN(widths); i++)
        check_reduce_order(in, widths[i]);
}

/* ---- random programs ---- */

static const struct uop *
cast_to(struct uop_graph *g, const struct uop *u, enum uop_dtype dtype)
{
    if (u->dtype == dtype)
        return u;
    return mk(g, UOP_CAST, dtype, u->lanes, 0, 1, &u);
}

/* A random op on values that are there; sources are made to fit by CAST. */
static const struct uop *
random_node(struct uop_graph *g, const struct uop *const *pool, unsigned n,
            uint64_t *rng)
{
    static const enum uop_dtype dtypes[] = {UOP_BOOL, UOP_I8,  UOP_U8,  UOP_I16,
                                            UOP_U16,  UOP_I32, UOP_U32, UOP_I64,
                                            UOP_U64,  UOP_F32, UOP_F64};
    const struct uop *src[3];
    enum uop_dtype dtype, result;
    enum uop_op op;
    unsigned i;

    do {
        op = (next_random(rng) % UOP_OP_COUNT);
        dtype = dtypes[next_random(rng) % ARRAY_LEN(dtypes)];
    } while (!op_allowed(op, dtype));
    for (i = 0; i < uop_op_infos[op].min_src; i++)
        src[i] = cast_to(g, pool[next_random(rng) % n],
                         op == UOP_WHERE && i == 0 ? UOP_BOOL : dtype);
    if (op == UOP_IDIV || op == UOP_IMOD) { /* 1..7 */
        src[1] = uop_alu2(g, UOP_AND, src[1], uop_const_like(g, src[1], 6));
        src[1] = uop_alu2(g, UOP_ADD, src[1], uop_const_like(g, src[1], 1));
    }
    if (op == UOP_SHL || op == UOP_SHR)
        src[1] = uop_alu2(g, UOP_AND, src[1], uop_const_like(g, src[1], 7));
    result = uop_op_infos[op].flags & UOP_FLAG_CMP ? UOP_BOOL : dtype;
    return mk(g, op, result, src[0]->lanes, 0, uop_op_infos[op].min_src, src);
}

static void
check_random(uint64_t seed)
{
    static const enum uop_dtype ins[] = {UOP_F32, UOP_I32, UOP_F64, UOP_U8};
    struct uop_graph g;
    const struct uop *pool[30], *range, *at, *value, *root;
    uint64_t rng = seed * 77 + 5;
    unsigned lanes = lane_counts[seed % 3], n = 0, i;
    struct p_buf bufs[5];
    char what[64];

    uop_graph_init(&g);
    range = uop_range(&g, 0, UOP_AXIS_LOOP, N / lanes);
    at = uop_alu2(&g, UOP_MUL, range, mk_int(&g, lanes));
    check_buf_make(&bufs[0], UOP_I64, N);
    for (i = 0; i < 4; i++) {
        check_buf_make(&bufs[1 + i], ins[i], N);
        check_buf_random(&bufs[1 + i], &rng);
        pool[n++] =
            mk_load(&g, mk_param(&g, 1 + i, ins[i]), at, lanes, NULL, NULL);
    }
    for (; n < ARRAY_LEN(pool); n++)
        pool[n] = random_node(&g, pool, n, &rng);
    value = cast_to(&g, pool[4], UOP_I64);
    for (i = 5; i < n; i++)
        value = uop_alu2(&g, UOP_XOR, value, cast_to(&g, pool[i], UOP_I64));
    root = mk_store(&g, mk_param(&g, 0, UOP_I64), at, value, NULL);
    root = mk_end(&g, range, root);
    snprintf(what, sizeof(what), "random %llu", (unsigned long long)seed);
    check_roots(&g, &target, &root, 1, bufs, 5, false, what);
    for (i = 0; i < 5; i++)
        check_buf_free(&bufs[i]);
    uop_graph_fini(&g);
}

static void
test_random(void **state)
{
    uint64_t seed;

    (void)state;
    for (seed = 0; seed < 150; seed++)
        check_random(seed);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_alu),
        cmocka_unit_test(test_extreme_with_constant),
        cmocka_unit_test(test_cast),
        cmocka_unit_test(test_bitcast),
        cmocka_unit_test(test_constants),
        cmocka_unit_test(test_lanes),
        cmocka_unit_test(test_lanes_reduce_order),
        cmocka_unit_test(test_random),
    };

    return cmocka_run_group_tests(tests, setup, NULL);
}
