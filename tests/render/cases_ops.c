/* Arithmetic, conversions, constants and lanes: op by op on every dtype, and
 * random programs of them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/bits.h"
#include "render_check.h"

#define N 96 /* elements of most buffers */

static const unsigned widths[] = {1, 4, 12, 16};

/* Leaves most cases out where they are many and a compiler takes longest. */
static bool
is_skipped(void)
{
    static unsigned turn;

    return backend->thin > 16 && turn++ % 5 != 0;
}

/* The k-th width of a case, or where that takes long, one in turn and no
 * more; 0 after the last. */
static unsigned
width_at(unsigned k)
{
    static unsigned turn;

    if (backend->thin > 1)
        return k || is_skipped() ? 0 : widths[turn++ % ARRAY_LEN(widths)];
    return k < ARRAY_LEN(widths) ? widths[k] : 0;
}

static bool
op_allowed(enum uop_op op, enum uop_dtype dtype)
{
    return alu_is_kept(op, dtype) && backend->has_alu(op, dtype);
}

/* ---- arithmetic ---- */

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
    check_buf(&bufs[0], result, N, NULL);
    for (i = 0; i < info->min_src; i++) {
        enum uop_dtype in = op == UOP_WHERE && i == 0 ? UOP_BOOL : dtype;
        check_buf(&bufs[1 + i], in, N, rng);
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
                dtype == UOP_F64 && backend->thin > 1, what);
    check_bufs_free(bufs, 1 + info->min_src);
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
            for (k = 0; k < ARRAY_LEN(widths); k++) {
                unsigned lanes = width_at(k);
                if (lanes)
                    check_alu(op, dtype, lanes, &rng);
            }
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

    uop_graph_init(&g);
    check_buf(&bufs[0], UOP_F32, N, rng);
    check_buf(&bufs[1], UOP_F32, N, rng);
    range = uop_range(&g, 0, UOP_AXIS_LOOP, N / 16);
    at = uop_alu2(&g, UOP_MUL, range, mk_int(&g, 16));
    src[!at_src] = mk_load(&g, mk_param(&g, 1, UOP_F32), at, 16, NULL, NULL);
    src[at_src] = mk_splat(&g, uop_const_float(&g, UOP_F32, value), 16);
    root = mk(&g, op, UOP_F32, 16, 0, 2, src);
    root = mk_store(&g, mk_param(&g, 0, UOP_F32), at, root, NULL);
    root = mk_end(&g, range, root);
    check_roots(&g, &root, 1, bufs, 2, false, "extreme");
    check_bufs_free(bufs, 2);
    uop_graph_fini(&g);
}

static void
test_extreme_with_constant(void **state)
{
    static const double consts[] = {0.0, -0.0, 1.5, -INFINITY, NAN};
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

/* ---- borders ---- */

/* Where float32 changes its rules: the ends of the subnormal numbers, of the
 * normal ones, and numbers whose quotients and roots lie there. */
static const float borders[] = {0,
                                -0.0f,
                                0x1p-149f,
                                -0x1p-149f,
                                0x1.8p-148f,
                                -0x1p-140f,
                                0x1.fcp-134f,
                                0x1p-127f,
                                -0x1p-127f,
                                0x1.fffffcp-127f,
                                0x1p-126f,
                                -0x1p-126f,
                                0x1.8p-126f,
                                0x1.fffffep-126f,
                                0x1p-125f,
                                -0x1.2p-102f,
                                0x1p-64f,
                                0x1p-24f,
                                0.5f,
                                1,
                                -1,
                                1.5f,
                                -3,
                                0x1.fffffep+0f,
                                0x1.8p+22f,
                                -0x1p+23f,
                                0x1p+64f,
                                0x1.4p+125f,
                                -0x1.2p+127f,
                                0x1.fffffep+127f,
                                INFINITY,
                                -INFINITY,
                                NAN,
                                0x1p-142f,
                                0x1.555554p-128f};

#define N_BORDERS ARRAY_LEN(borders)

/* `value`: NULL, or a constant in place of the source `at_src`. */
static void
check_borders(enum uop_op op, const float *value, unsigned at_src)
{
    bool is_compare = uop_op_infos[op].flags & UOP_FLAG_CMP;
    uint32_t n_src = uop_op_infos[op].min_src, i, k;
    size_t n = n_src < 2 || value ? N_BORDERS : N_BORDERS * N_BORDERS;
    const struct uop *src[2], *range, *root;
    enum uop_dtype result = is_compare ? UOP_BOOL : UOP_F32;
    struct uop_graph g;
    struct p_buf bufs[3];
    char what[64];

    uop_graph_init(&g);
    check_buf(&bufs[0], result, n, NULL);
    range = uop_range(&g, 0, UOP_AXIS_LOOP, (int64_t)n);
    for (i = 0; i < n_src; i++) {
        check_buf(&bufs[1 + i], UOP_F32, n, NULL);
        for (k = 0; k < n; k++) {
            union uop_arg x = {
                .f = (double)borders[i ? k / N_BORDERS : k % N_BORDERS]};
            if (value)
                x.f = (double)borders[k];
            p_set(&bufs[1 + i], k, x);
        }
        src[i] = value && at_src == i
                     ? uop_const_float(&g, UOP_F32, (double)*value)
                     : mk_load(&g, mk_param(&g, 1 + i, UOP_F32), range, 1, NULL,
                               NULL);
    }
    root = mk(&g, op, result, 1, 0, n_src, src);
    root = mk_store(&g, mk_param(&g, 0, result), range, root, NULL);
    root = mk_end(&g, range, root);
    snprintf(what, sizeof(what), "borders of %s", uop_op_infos[op].name);
    check_roots(&g, &root, 1, bufs, 1 + n_src, false, what);
    check_bufs_free(bufs, 1 + n_src);
    uop_graph_fini(&g);
}

static void
test_borders(void **state)
{
    unsigned op, i, step = backend->thin >= 16 ? 23 : backend->thin > 1 ? 5 : 2;

    (void)state;
    for (op = 0; op < UOP_OP_COUNT; op++) {
        if (!op_allowed(op, UOP_F32) || uop_op_infos[op].min_src > 2)
            continue;
        check_borders(op, NULL, 0);
        for (i = 0; i < 2 * N_BORDERS && uop_op_infos[op].min_src == 2; i++) {
            if (i % step == 0 && !is_skipped())
                check_borders(op, &borders[i / 2], i % 2);
        }
    }
}

/* Numbers of float64 that are not a float32, around those. */
static void
test_cast_borders(void **state)
{
    static const double parts[] = {0.5, 0.75, 1, 1 + 0x1p-52, 1.25, 1.5, 1.75};
    const struct uop *range, *root;
    size_t n = N_BORDERS * ARRAY_LEN(parts), i;
    struct uop_graph g;
    struct p_buf bufs[2];
    union uop_arg value;

    (void)state;
    if (!backend->has_cast(UOP_F64, UOP_F32))
        return;
    uop_graph_init(&g);
    check_buf(&bufs[0], UOP_F32, n, NULL);
    check_buf(&bufs[1], UOP_F64, n, NULL);
    for (i = 0; i < n; i++) {
        value.f = (double)borders[i % N_BORDERS] * parts[i / N_BORDERS];
        p_set(&bufs[1], i, value);
    }
    range = uop_range(&g, 0, UOP_AXIS_LOOP, (int64_t)n);
    root = mk_load(&g, mk_param(&g, 1, UOP_F64), range, 1, NULL, NULL);
    root = mk(&g, UOP_CAST, UOP_F32, 1, 0, 1, &root);
    root = mk_store(&g, mk_param(&g, 0, UOP_F32), range, root, NULL);
    root = mk_end(&g, range, root);
    check_roots(&g, &root, 1, bufs, 2, false, "borders of a cast");
    check_bufs_free(bufs, 2);
    uop_graph_fini(&g);
}

/* The floats before powers of 4, and the largest: the root is the float before
 * a power of 2, where units change. */
static void
test_root_below_power(void **state)
{
    const struct uop *range, *root;
    struct uop_graph g;
    struct p_buf bufs[2];
    union uop_arg value;
    int i;

    (void)state;
    if (!op_allowed(UOP_SQRT, UOP_F32))
        return;
    uop_graph_init(&g);
    check_buf(&bufs[0], UOP_F32, N, NULL);
    check_buf(&bufs[1], UOP_F32, N, NULL);
    for (i = 0; i < N; i++) {
        value.f = (double)nextafterf(ldexpf(1, 128 - 2 * (i % 124)), 0);
        p_set(&bufs[1], (size_t)i, value);
    }
    range = uop_range(&g, 0, UOP_AXIS_LOOP, N);
    root = mk_load(&g, mk_param(&g, 1, UOP_F32), range, 1, NULL, NULL);
    root = mk(&g, UOP_SQRT, UOP_F32, 1, 0, 1, &root);
    root = mk_store(&g, mk_param(&g, 0, UOP_F32), range, root, NULL);
    root = mk_end(&g, range, root);
    check_roots(&g, &root, 1, bufs, 2, false, "root below a power");
    check_bufs_free(bufs, 2);
    uop_graph_fini(&g);
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
    check_buf(&bufs[0], to, N, NULL);
    check_buf(&bufs[1], from, N, rng);
    range = uop_range(&g, 0, UOP_AXIS_LOOP, N / lanes);
    at = uop_alu2(&g, UOP_MUL, range, mk_int(&g, lanes));
    root = mk_load(&g, mk_param(&g, 1, from), at, lanes, NULL, NULL);
    root = mk(&g, UOP_CAST, to, lanes, 0, 1, &root);
    root = mk_store(&g, mk_param(&g, 0, to), at, root, NULL);
    root = mk_end(&g, range, root);
    snprintf(what, sizeof(what), "cast %s to %s x%u",
             uop_dtype_infos[from].short_name, uop_dtype_infos[to].short_name,
             lanes);
    check_roots(&g, &root, 1, bufs, 2, false, what);
    check_bufs_free(bufs, 2);
    uop_graph_fini(&g);
}

static void
test_cast(void **state)
{
    uint64_t rng = 2;
    unsigned from, to, k;

    (void)state;
    for (from = UOP_BOOL; from < UOP_DTYPE_COUNT; from++) {
        for (to = UOP_BOOL; to < UOP_DTYPE_COUNT; to++) {
            if (from == to || uop_dtype_is_f8(from) || uop_dtype_is_f8(to) ||
                !backend->has_cast(from, to))
                continue;
            for (k = 0; k < ARRAY_LEN(widths); k++) {
                unsigned lanes = width_at(k);
                if (lanes)
                    check_cast(from, to, lanes, &rng);
            }
        }
    }
}

/* The interpreter of programs may change a NaN: bytes are compared. */
static void
check_bitcast(enum uop_dtype from, enum uop_dtype to, unsigned lanes,
              uint64_t *rng)
{
    size_t bytes = uop_dtype_infos[from].size_bytes, i;
    uint64_t in[32], out[32] = {0};
    struct p_buf bufs[2] = {{to, 32, out}, {from, 32, in}};
    unsigned chips[8], n_chips = check_chips(backend, chips), c;
    const struct uop *root;
    struct lower_program p;
    struct uop_graph g;

    for (i = 0; i < 32; i++) {
        in[i] = next_random(rng);
        if (from == UOP_BOOL || to == UOP_BOOL)
            in[i] &= 0x0101010101010101; /* what a bool's byte is */
    }
    uop_graph_init(&g);
    root = mk_load(&g, mk_param(&g, 1, from), mk_int(&g, 1), lanes, NULL, NULL);
    root = mk(&g, UOP_BITCAST, to, lanes, 0, 1, &root);
    root = mk_store(&g, mk_param(&g, 0, to), mk_int(&g, 1), root, NULL);
    program_of(&g, &root, 1, &p);
    for (c = 0; c < n_chips && check_can(backend, &p); c++) {
        memset(out, 0, sizeof(out));
        backend->run(&p, chips[c], bufs, 2, NULL, "bitcast");
        assert_memory_equal((char *)out + bytes, (char *)in + bytes,
                            bytes * lanes);
    }
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
    for (from = UOP_BOOL; from < UOP_DTYPE_COUNT; from++) {
        for (to = UOP_BOOL; to < UOP_DTYPE_COUNT; to++) {
            if (uop_dtype_infos[from].size_bytes ==
                    uop_dtype_infos[to].size_bytes &&
                !is_skipped())
                check_bitcast(from, to, 1 + next_random(&rng) % 16, &rng);
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
    check_buf(&buf, dtype, ARRAY_LEN(floats), NULL);
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
    check_roots(&g, roots, ARRAY_LEN(floats), &buf, 1, true,
                uop_dtype_infos[dtype].name);
    check_bufs_free(&buf, 1);
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
    check_buf(&bufs[0], UOP_I32, 40, &rng);
    check_buf(&bufs[1], UOP_I32, 5, &rng);
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
    check_roots(&g, roots, 5, bufs, 2, true, "lanes");
    check_bufs_free(bufs, 2);
    uop_graph_fini(&g);
}

/* 0 / 0 in lanes that a constant mask makes 0. */
static void
test_lanes_masked(void **state)
{
    struct uop_graph g;
    const struct uop *zero, *first, *side[2], *mask[4], *src[3], *lane[4], *v;
    struct p_buf bufs[3];
    uint64_t rng = 9;
    unsigned i, k;

    (void)state;
    uop_graph_init(&g);
    for (k = 0; k < 3; k++)
        check_buf(&bufs[k], UOP_F32, 4, &rng);
    zero = uop_const_float(&g, UOP_F32, 0);
    for (k = 0; k < 2; k++) {
        first = mk_load(&g, mk_param(&g, 1 + (int)k, UOP_F32), mk_int(&g, 0), 1,
                        NULL, NULL);
        for (i = 0; i < 4; i++)
            lane[i] = i ? zero : first;
        side[k] = mk(&g, UOP_LANES, UOP_F32, 4, 0, 4, lane);
    }
    for (i = 0; i < 4; i++)
        mask[i] = uop_const_int(&g, UOP_BOOL, i == 0);
    src[0] = mk(&g, UOP_LANES, UOP_BOOL, 4, 0, 4, mask);
    src[1] = mk(&g, UOP_FDIV, UOP_F32, 4, 0, 2, side);
    src[2] = mk_splat(&g, zero, 4);
    v = mk(&g, UOP_WHERE, UOP_F32, 4, 0, 3, src);
    v = mk_store(&g, mk_param(&g, 0, UOP_F32), mk_int(&g, 0), v, NULL);
    check_roots(&g, &v, 1, bufs, 3, true, "0 / 0 behind a mask");
    check_bufs_free(bufs, 3);
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
check_reduce_order(float *in, unsigned lanes)
{
    unsigned chips[8], n_chips = check_chips(backend, chips), c;
    float out = 0;
    struct p_buf bufs[2] = {{UOP_F32, 1, &out}, {UOP_F32, lanes, in}};
    const struct uop *root;
    struct lower_program p;
    struct uop_graph g;

    uop_graph_init(&g);
    root =
        mk_load(&g, mk_param(&g, 1, UOP_F32), mk_int(&g, 0), lanes, NULL, NULL);
    root = mk(&g, UOP_LANES_REDUCE, UOP_F32, 1, UOP_ADD, 1, &root);
    root = mk_store(&g, mk_param(&g, 0, UOP_F32), mk_int(&g, 0), root, NULL);
    program_of(&g, &root, 1, &p);
    for (c = 0; c < n_chips; c++) {
        out = 0;
        backend->run(&p, chips[c], bufs, 2, NULL, "the sum of lanes");
        assert_true(out == sum_as_documented(in, lanes));
    }
    program_free(&p);
    uop_graph_fini(&g);
}

static void
test_lanes_reduce_order(void **state)
{
    static const unsigned n_lanes[] = {2, 3, 4, 7, 8, 12, 16, 31, 32, 64};
    uint64_t rng = 4;
    float in[64];
    size_t i;

    (void)state;
    for (i = 0; i < 64; i++)
        in[i] = (float)((double)(int64_t)next_random(&rng) * 0x1p-60);
    for (i = 0; i < ARRAY_LEN(n_lanes); i++)
        check_reduce_order(in, n_lanes[i]);
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

/* Whether values of the dtype may be made into, and of, every other. */
static bool
is_castable(enum uop_dtype dtype)
{
    return !uop_dtype_is_f8(dtype) && dtype != UOP_BF16 &&
           (dtype != UOP_F16 || (backend->has_cast(UOP_F16, UOP_F64) &&
                                 backend->has_cast(UOP_F64, UOP_F16)));
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
        dtype = (enum uop_dtype)(UOP_BOOL + next_random(rng) %
                                                (UOP_DTYPE_COUNT - UOP_BOOL));
    } while (!op_allowed(op, dtype) || !is_castable(dtype));
    for (i = 0; i < uop_op_infos[op].min_src; i++)
        src[i] = cast_to(g, pool[next_random(rng) % n],
                         op == UOP_WHERE && i == 0 ? UOP_BOOL : dtype);
    if (op == UOP_IDIV || op == UOP_IMOD || op == UOP_SHL || op == UOP_SHR) {
        pair[0] = src[1]; /* 1..7 */
        pair[1] = wide_const(g, src[1], 6);
        src[1] = mk(g, UOP_AND, dtype, src[1]->lanes, 0, 2, pair);
        pair[0] = src[1];
        pair[1] = wide_const(g, src[1], 1);
        src[1] = mk(g, UOP_ADD, dtype, src[1]->lanes, 0, 2, pair);
    }
    return mk(g, op, uop_op_infos[op].flags & UOP_FLAG_CMP ? UOP_BOOL : dtype,
              src[0]->lanes, 0, uop_op_infos[op].min_src, src);
}

#define MAX_RANDOM_NODES 120u

/* Nodes that are all used: the result is of what each of them gives. */
static void
check_random(uint64_t seed, unsigned n_nodes)
{
    static const enum uop_dtype all[] = {UOP_F32, UOP_I32, UOP_F64, UOP_U8};
    static const enum uop_dtype some[] = {UOP_F32, UOP_I32, UOP_I64, UOP_U8};
    const enum uop_dtype *ins = backend->lacks_f64 ? some : all;
    struct uop_graph g;
    const struct uop *pool[MAX_RANDOM_NODES], *range, *at, *value, *root;
    uint64_t rng = seed * 77 + 5;
    unsigned lanes = widths[seed % ARRAY_LEN(widths)], n = 0, i;
    struct p_buf bufs[5];
    char what[64];

    uop_graph_init(&g);
    range = uop_range(&g, 0, UOP_AXIS_LOOP, N / lanes);
    at = uop_alu2(&g, UOP_MUL, range, mk_int(&g, lanes));
    check_buf(&bufs[0], UOP_I64, N, NULL);
    for (i = 0; i < 4; i++) {
        check_buf(&bufs[1 + i], ins[i], N, &rng);
        pool[n++] =
            mk_load(&g, mk_param(&g, 1 + i, ins[i]), at, lanes, NULL, NULL);
    }
    pool[n++] = mk_splat(&g, range, lanes);
    for (; n < n_nodes; n++)
        pool[n] = random_node(&g, pool, n, &rng);
    value = pool[4];
    for (i = 5; i < n; i++)
        value = uop_alu2(&g, UOP_XOR, value, cast_to(&g, pool[i], UOP_I64));
    root = mk_store(&g, mk_param(&g, 0, UOP_I64), at, value, NULL);
    root = mk_end(&g, range, root);
    snprintf(what, sizeof(what), "random program %llu",
             (unsigned long long)seed);
    check_roots(&g, &root, 1, bufs, 5, seed % 16 == 0, what);
    check_bufs_free(bufs, 5);
    uop_graph_fini(&g);
}

static void
test_random(void **state)
{
    uint64_t seed;

    (void)state;
    for (seed = 0; seed < 240 / backend->thin; seed++)
        check_random(seed, 30);
}

/* So many, and of more nodes, as far as they can be kept at once. */
static void
test_many(void **state)
{
    uint64_t n = *(const uint64_t *)*state, seed;

    for (seed = 1000; seed < 1000 + n; seed++) {
        unsigned most = 480 / widths[seed % ARRAY_LEN(widths)];

        most = most < MAX_RANDOM_NODES ? most : MAX_RANDOM_NODES;
        check_random(seed, 10 + (unsigned)(seed / 4 % (most - 9)));
    }
}

/* -1, 0, 1 or 2, by the bytes of a buffer. */
static const struct uop *
load_small(struct uop_graph *g, unsigned slot, const struct uop *at,
           unsigned lanes)
{
    const struct uop *u =
        mk_load(g, mk_param(g, slot, UOP_U8), at, lanes, NULL, NULL);

    u = cast_to(g, u, UOP_I32);
    u = uop_alu2(g, UOP_AND, u, wide_const(g, u, 3));
    u = uop_alu2(g, UOP_ADD, u, wide_const(g, u, -1));
    return cast_to(g, u, UOP_F32);
}

/* A product that is rounded to F16 keeps the sign of its zeros, which LLVM
 * loses on AMD. */
static void
check_half_product(unsigned lanes, bool negated)
{
    struct uop_graph g;
    const struct uop *range, *at, *value, *root;
    struct p_buf bufs[3];
    uint64_t rng = 3;

    uop_graph_init(&g);
    range = uop_range(&g, 0, UOP_AXIS_LOOP, N / lanes);
    at = uop_alu2(&g, UOP_MUL, range, mk_int(&g, lanes));
    check_buf(&bufs[0], UOP_U16, N, NULL);
    check_buf(&bufs[1], UOP_U8, N, &rng);
    check_buf(&bufs[2], UOP_U8, N, &rng);
    value = uop_alu2(&g, UOP_MUL, load_small(&g, 1, at, lanes),
                     load_small(&g, 2, at, lanes));
    if (negated)
        value = mk(&g, UOP_NEG, UOP_F32, lanes, 0, 1, &value);
    value = cast_to(&g, value, UOP_F16);
    value = mk(&g, UOP_BITCAST, UOP_U16, lanes, 0, 1, &value);
    root = mk_store(&g, mk_param(&g, 0, UOP_U16), at, value, NULL);
    root = mk_end(&g, range, root);
    check_roots(&g, &root, 1, bufs, 3, false, "half product");
    check_bufs_free(bufs, 3);
    uop_graph_fini(&g);
}

static void
test_half_product(void **state)
{
    unsigned i;

    (void)state;
    for (i = 0;
         i < 2 * ARRAY_LEN(widths) && backend->has_cast(UOP_F32, UOP_F16); i++)
        check_half_product(widths[i / 2], i % 2);
}

/* Divides numbers that were negative before they were made wide and unsigned by
 * small ones: LLVM 19 divides too narrowly on AMD. */
static void
check_unsigned_quotient(enum uop_op op, enum uop_dtype from, enum uop_dtype to)
{
    struct uop_graph g;
    const struct uop *range, *a, *b, *root;
    struct p_buf bufs[3];
    uint64_t rng = 11;

    uop_graph_init(&g);
    range = uop_range(&g, 0, UOP_AXIS_LOOP, N);
    check_buf(&bufs[0], to, N, NULL);
    check_buf(&bufs[1], from, N, &rng);
    check_buf(&bufs[2], UOP_U8, N, &rng);
    a = mk_load(&g, mk_param(&g, 1, from), range, 1, NULL, NULL);
    b = mk_load(&g, mk_param(&g, 2, UOP_U8), range, 1, NULL, NULL);
    b = cast_to(&g, b, to);
    b = uop_alu2(&g, UOP_AND, b, wide_const(&g, b, 6));
    b = uop_alu2(&g, UOP_ADD, b, wide_const(&g, b, 1));
    a = uop_alu2(&g, op, cast_to(&g, a, to), b);
    root = mk_store(&g, mk_param(&g, 0, to), range, a, NULL);
    root = mk_end(&g, range, root);
    check_roots(&g, &root, 1, bufs, 3, false, "unsigned quotient");
    check_bufs_free(bufs, 3);
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

/* Products of bytes that are added: LLVM 19 makes one instruction of four for
 * AMD, and of more than four neighbours a wrong one. */
static void
check_dot(enum uop_dtype dtype, unsigned n, int64_t stride, uint64_t *rng)
{
    const struct uop *a, *b, *sum = NULL, *root;
    struct uop_graph g;
    struct p_buf bufs[3];
    unsigned i;

    uop_graph_init(&g);
    for (i = 0; i < 3; i++)
        check_buf(&bufs[i], dtype, N, rng);
    for (i = 0; i < n; i++) {
        a = mk_load(&g, mk_param(&g, 1, dtype), mk_int(&g, i), 1, NULL, NULL);
        b = mk_load(&g, mk_param(&g, 2, dtype), mk_int(&g, i * stride), 1, NULL,
                    NULL);
        a = uop_alu2(&g, UOP_MUL, a, b);
        sum = sum ? uop_alu2(&g, UOP_ADD, a, sum) : a;
    }
    root = mk_store(&g, mk_param(&g, 0, dtype), mk_int(&g, 0), sum, NULL);
    check_roots(&g, &root, 1, bufs, 3, false,
                uop_dtype_infos[dtype].short_name);
    check_bufs_free(bufs, 3);
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

/* Comparison 0 to 3 of x: above 0, not 0, 0, equal to the number. */
static const struct uop *
compare_bit(struct uop_graph *g, unsigned how, const struct uop *x,
            int64_t number)
{
    const struct uop *zero = wide_const(g, x, 0);

    switch (how) {
    case 0:
        return uop_alu2(g, UOP_CMPLT, zero, x);
    case 1:
        return uop_alu2(g, UOP_CMPNE, x, zero);
    case 2:
        return uop_alu2(g, UOP_CMPEQ, x, zero);
    default:
        return uop_alu2(g, UOP_CMPEQ, x, wide_const(g, x, number));
    }
}

/* A number that is 0 or *out_number, as the lowest bit of v is 0 or 1. */
static const struct uop *
one_bit(struct uop_graph *g, unsigned how, const struct uop *v,
        int64_t *out_number)
{
    const struct uop *bit = uop_alu2(g, UOP_AND, v, wide_const(g, v, 1));

    *out_number = how == 2 || how == 3 ? 4 : 1;
    if (how == 1)
        return uop_alu2(g, UOP_IMOD,
                        uop_alu2(g, UOP_AND, v, wide_const(g, v, 7)),
                        wide_const(g, v, 2));
    if (how == 2)
        return uop_alu2(g, UOP_MUL, bit, wide_const(g, v, 4));
    if (how == 3)
        return uop_alu2(g, UOP_AND,
                        uop_alu2(g, UOP_SHL, v, wide_const(g, v, 2)),
                        wide_const(g, v, 4));
    return bit;
}

/* Two comparisons of one bit, which is the same for all of a wave. The first
 * selects a value, the second another value, and gates a store. LLVM's AMDGPU
 * back end makes one instruction of both, and may invert the first. */
static void
check_bit_compared(unsigned bit, unsigned first, unsigned second, bool swap,
                   enum uop_dtype dtype)
{
    const struct uop *v, *x, *a, *b, *roots[6];
    struct uop_graph g;
    struct p_buf bufs[2];
    int64_t number, i;
    char what[64];

    uop_graph_init(&g);
    check_buf(&bufs[0], UOP_I32, 6, NULL);
    check_buf(&bufs[1], dtype, 2, NULL);
    for (i = 0; i < 2; i++) {
        p_set(&bufs[1], (size_t)i, (union uop_arg){.i = 2 + i});
        v = mk_load(&g, mk_param(&g, 1, dtype), mk_int(&g, i), 1, NULL, NULL);
        x = one_bit(&g, bit, v, &number);
        a = compare_bit(&g, first, x, number);
        b = compare_bit(&g, second, x, number);
        v = mk_param(&g, 0, UOP_I32);
        a = uop_alu3(&g, UOP_WHERE, a, uop_const_int(&g, UOP_I32, 17),
                     uop_const_int(&g, UOP_I32, 99));
        roots[3 * i + swap] = mk_store(&g, v, mk_int(&g, 3 * i), a, NULL);
        a = uop_alu3(&g, UOP_WHERE, b, uop_const_int(&g, UOP_I32, 5),
                     uop_const_int(&g, UOP_I32, 7));
        roots[3 * i + !swap] = mk_store(&g, v, mk_int(&g, 3 * i + 1), a, NULL);
        roots[3 * i + 2] = mk_store(&g, v, mk_int(&g, 3 * i + 2),
                                    uop_const_int(&g, UOP_I32, 3), b);
    }
    snprintf(what, sizeof(what), "bit %u compared by %u and %u", bit, first,
             second);
    check_roots(&g, roots, 6, bufs, 2, false, what);
    check_bufs_free(bufs, 2);
    uop_graph_fini(&g);
}

static void
test_bit_compared_twice(void **state)
{
    unsigned bit, i;

    (void)state;
    for (bit = 0; bit < 4; bit++) {
        for (i = 0; i < 16; i++) {
            if (i / 4 != i % 4 && !is_skipped())
                check_bit_compared(bit, i / 4, i % 4, i & 1,
                                   bit & 1 ? UOP_I32 : UOP_I16);
        }
    }
}

int
ops_cases(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_alu),
        cmocka_unit_test(test_extreme_with_constant),
        cmocka_unit_test(test_borders),
        cmocka_unit_test(test_cast_borders),
        cmocka_unit_test(test_root_below_power),
        cmocka_unit_test(test_cast),
        cmocka_unit_test(test_bitcast),
        cmocka_unit_test(test_constants),
        cmocka_unit_test(test_lanes),
        cmocka_unit_test(test_lanes_masked),
        cmocka_unit_test(test_lanes_reduce_order),
        cmocka_unit_test(test_half_product),
        cmocka_unit_test(test_random),
        cmocka_unit_test(test_unsigned_quotients),
        cmocka_unit_test(test_dot),
        cmocka_unit_test(test_bit_compared_twice),
    };
    return cmocka_run_group_tests_name("ops", tests, NULL, NULL);
}

int
random_cases(uint64_t n)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_prestate(test_many, &n),
    };
    return cmocka_run_group_tests_name("random", tests, NULL, NULL);
}
