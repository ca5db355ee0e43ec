/* Host code against the interpreter, op by op and in random programs: memory
 * forms, loops, variables, grids, what is refused, running out of memory. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/lsan_interface.h>
#endif

#include "base/alloc.h"
#include "base/bits.h"
#include "base/map.h"
#include "host_run.h"
#include "p_interp.h"
#include "render/llvm_api.h"
#include "render/render_internal.h"

#define N 256 /* elements of most buffers */

static const unsigned lane_counts[] = {1, 4, 16};

static struct lower_target target;

static int
setup(void **state)
{
    (void)state;
    return render_host_target(&target) == BELL_OK ? 0 : -1;
}

/* ---- buffers ---- */

static size_t
buf_bytes(const struct p_buf *buf)
{
    return buf->n_elems * uop_dtype_infos[buf->dtype].size_bytes;
}

static void
buf_make(struct p_buf *buf, unsigned dtype, size_t n)
{
    buf->dtype = (enum uop_dtype)dtype;
    buf->n_elems = n;
    buf->data = guarded_alloc(n * uop_dtype_infos[dtype].size_bytes);
}

static void
buf_random(struct p_buf *buf, uint64_t *rng)
{
    size_t i;

    for (i = 0; i < buf->n_elems; i++)
        p_set(buf, i, random_value(rng, buf->dtype));
}

static void
buf_free(struct p_buf *buf)
{
    guarded_free(buf->data, buf_bytes(buf));
}

static void
buf_copy(struct p_buf *to, const struct p_buf *from)
{
    buf_make(to, from->dtype, from->n_elems);
    memcpy(to->data, from->data, buf_bytes(from));
}

static void
expect_same(const struct p_buf *got, const struct p_buf *want, bool zeros,
            const char *what)
{
    size_t i;

    for (i = 0; i < want->n_elems; i++) {
        union uop_arg a, b;
        p_get(got, i, &a);
        p_get(want, i, &b);
        if (same_value(want->dtype, a, b, zeros))
            continue;
        if (uop_dtype_infos[want->dtype].is_float)
            fail_msg("%s: element %zu is %a, not %a", what, i, a.f, b.f);
        fail_msg("%s: element %zu is %lld, not %lld", what, i, (long long)a.i,
                 (long long)b.i);
    }
}

/* Runs a program both ways on copies of the buffers and compares them all. */
static void
check_program(const struct lower_program *p, const struct p_buf *bufs,
              uint32_t n_bufs, bool zeros, const char *what)
{
    struct p_buf mine[8], ref[8];
    void *ptrs[8];
    char err[256];
    struct host_code code;
    uint32_t i;

    for (i = 0; i < n_bufs; i++) {
        buf_copy(&mine[i], &bufs[i]);
        buf_copy(&ref[i], &bufs[i]);
        ptrs[i] = mine[i].data;
    }
    if (p_run(p, ref, n_bufs, err, sizeof(err)) != 0)
        fail_msg("%s: %s", what, err);
    host_compile(p, &target, &code);
    host_call(&code, p, ptrs);
    host_release(&code);
    for (i = 0; i < n_bufs; i++) {
        expect_same(&mine[i], &ref[i], zeros, what);
        buf_free(&mine[i]);
        buf_free(&ref[i]);
    }
}

static void
check_roots(struct uop_graph *g, const struct uop *const *roots, uint32_t n,
            const struct p_buf *bufs, uint32_t n_bufs, bool zeros,
            const char *what)
{
    struct lower_program p;

    program_of(g, roots, n, &p);
    check_program(&p, bufs, n_bufs, zeros, what);
    program_free(&p);
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
    if (dtype == UOP_F16 || dtype == UOP_BF16)
        return op == UOP_WHERE;
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
    buf_make(&bufs[0], result, N);
    for (i = 0; i < info->min_src; i++) {
        enum uop_dtype in = op == UOP_WHERE && i == 0 ? UOP_BOOL : dtype;
        buf_make(&bufs[1 + i], in, N);
        buf_random(&bufs[1 + i], rng);
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
                op == UOP_MAX || op == UOP_MIN, what);
    for (i = 0; i <= info->min_src; i++)
        buf_free(&bufs[i]);
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
        buf_make(&bufs[j], UOP_F32, N);
        buf_random(&bufs[j], rng);
    }
    range = uop_range(&g, 0, UOP_AXIS_LOOP, N / 16);
    at = uop_alu2(&g, UOP_MUL, range, mk_int(&g, 16));
    src[!at_src] = mk_load(&g, mk_param(&g, 1, UOP_F32), at, 16, NULL, NULL);
    src[at_src] = mk_splat(&g, uop_const_float(&g, UOP_F32, value), 16);
    root = mk(&g, op, UOP_F32, 16, 0, 2, src);
    root = mk_store(&g, mk_param(&g, 0, UOP_F32), at, root, NULL);
    root = mk_end(&g, range, root);
    check_roots(&g, &root, 1, bufs, 2, true, "extreme");
    buf_free(&bufs[0]);
    buf_free(&bufs[1]);
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
    buf_make(&bufs[0], to, N);
    buf_make(&bufs[1], from, N);
    buf_random(&bufs[1], rng);
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
    buf_free(&bufs[0]);
    buf_free(&bufs[1]);
    uop_graph_fini(&g);
}

static bool
cast_allowed(enum uop_dtype from, enum uop_dtype to)
{
    if (from == to || from == UOP_BF16 || to == UOP_BF16 ||
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
                check_bitcast((enum uop_dtype)from, (enum uop_dtype)to,
                              lane_counts[k], &rng);
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
    buf_make(&buf, dtype, ARRAY_LEN(floats));
    for (i = 0; i < ARRAY_LEN(floats); i++) {
        const struct uop *c;
        if (uop_dtype_infos[dtype].is_float)
            c = uop_const_float(&g, dtype, floats[i]);
        else
            c = uop_const_int(&g, dtype, (int64_t)hash_mix(i) >> (i & 63));
        roots[i] = mk_store(&g, mk_param(&g, 0, dtype), mk_int(&g, (int64_t)i),
                            c, NULL);
    }
    check_roots(&g, roots, ARRAY_LEN(floats), &buf, 1, false,
                uop_dtype_infos[dtype].name);
    buf_free(&buf);
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
    buf_make(&bufs[0], UOP_I32, 40);
    buf_random(&bufs[0], &rng);
    buf_make(&bufs[1], UOP_I32, 5);
    buf_random(&bufs[1], &rng);
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
    check_roots(&g, roots, 5, bufs, 2, false, "lanes");
    buf_free(&bufs[0]);
    buf_free(&bufs[1]);
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

/* ---- memory ---- */

/* What a gated access looks like. */
struct access_form {
    unsigned lanes;
    bool gather;      /* as many indices as lanes */
    unsigned gate;    /* 0: none, 1: of one lane, 2: of every lane */
    bool const_other; /* the value beside the gate is a constant */
};

/* base + stride * (0, 1, 2...), written so that nobody recognises it. */
static const struct uop *
ramp_from(struct uop_graph *g, const struct uop *base, unsigned lanes,
          unsigned stride)
{
    const struct uop *src[2];

    src[0] = mk(g, UOP_RAMP, UOP_I64, lanes, 0, 0, NULL);
    src[1] = mk_splat(g, mk_int(g, stride), lanes);
    src[0] = mk(g, UOP_MUL, UOP_I64, lanes, 0, 2, src);
    src[1] = mk_splat(g, base, lanes);
    src[0] = mk(g, UOP_ADD, UOP_I64, lanes, 0, 2, src);
    src[1] = mk_splat(g, mk_int(g, 0), lanes);
    return mk(g, UOP_OR, UOP_I64, lanes, 0, 2, src);
}

/* An access that ends, by its gate, three elements (or, with one gate for all
 * lanes, three vectors) before N; the buffer ends there too. */
static void
check_access(enum uop_dtype dtype, const struct access_form *f, bool store)
{
    int64_t n = f->gate == 1   ? N - 3 * (int64_t)f->lanes
                : f->gate == 2 ? N - 3
                               : N;
    unsigned stride = f->gather && f->gate == 2 ? 3 : 1;
    const struct uop *range, *base, *index, *gate = NULL, *other = NULL;
    const struct uop *in, *out, *root;
    struct uop_graph g;
    struct p_buf bufs[2];
    uint64_t rng = dtype;
    char what[96];

    uop_graph_init(&g);
    buf_make(&bufs[0], dtype, store ? (size_t)n : N);
    buf_make(&bufs[1], dtype, store ? N : (size_t)n);
    buf_random(&bufs[0], &rng);
    buf_random(&bufs[1], &rng);
    out = mk_param(&g, 0, dtype);
    in = mk_param(&g, 1, dtype);
    range = uop_range(&g, 0, UOP_AXIS_LOOP, N / f->lanes);
    base = uop_alu2(&g, UOP_MUL, range, mk_int(&g, f->lanes));
    index = f->gather ? ramp_from(&g, base, f->lanes, stride) : base;
    if (f->gate == 1)
        gate = uop_alu2(&g, UOP_CMPLT, base, mk_int(&g, n));
    if (f->gate == 2)
        gate = uop_alu2(&g, UOP_CMPLT, ramp_from(&g, base, f->lanes, stride),
                        mk_splat(&g, mk_int(&g, n), f->lanes));
    if (gate && f->const_other)
        other = mk_splat(&g, uop_const_float(&g, dtype, 3), f->lanes);
    else if (gate)
        other = mk_splat(&g, mk_load(&g, in, mk_int(&g, 1), 1, NULL, NULL),
                         f->lanes);
    if (store)
        root = mk_store(&g, out, index,
                        mk_load(&g, in, base, f->lanes, NULL, NULL), gate);
    else
        root = mk_store(&g, out, base,
                        mk_load(&g, in, index, f->lanes, other, gate), NULL);
    root = mk_end(&g, range, root);
    snprintf(what, sizeof(what), "%s %s x%u%s gate %u%s",
             store ? "store" : "load", uop_dtype_infos[dtype].short_name,
             f->lanes, f->gather ? " gather" : "", f->gate,
             f->const_other ? " const" : "");
    check_roots(&g, &root, 1, bufs, 2, false, what);
    buf_free(&bufs[0]);
    buf_free(&bufs[1]);
    uop_graph_fini(&g);
}

static void
test_memory(void **state)
{
    unsigned dtype, form, k;

    (void)state;
    for (dtype = UOP_BOOL; dtype < UOP_DTYPE_COUNT; dtype++) {
        for (k = 0; k < ARRAY_LEN(lane_counts); k++) {
            for (form = 0; form < 24; form++) {
                struct access_form f = {.lanes = lane_counts[k],
                                        .gather = form & 1,
                                        .gate = form / 2 % 3,
                                        .const_other = form / 6 % 2};
                bool store = form >= 12;
                if ((f.lanes == 1 && (f.gather || f.gate == 2)) ||
                    (f.const_other && (store || !f.gate)))
                    continue;
                check_access((enum uop_dtype)dtype, &f, store);
            }
        }
    }
}

/* Index vectors with steps of -5 to 5, ungated and gated, and one that is no
 * such thing; the buffer ends with the last element. */
static void
check_steps(enum uop_dtype dtype, unsigned lanes, int64_t step, bool gated,
            bool store)
{
    int64_t low = step < 0 ? step * ((int64_t)lanes - 1) : 0, span;
    const struct uop *index, *gate = NULL, *other = NULL, *pair[2], *root;
    const struct uop *in, *out;
    struct uop_graph g;
    struct p_buf bufs[2];
    uint64_t rng = lanes;
    char what[64];

    span = (step < 0 ? -step : step) * ((int64_t)lanes - 1) + 1;
    uop_graph_init(&g);
    buf_make(&bufs[0], dtype, store ? (size_t)span : lanes);
    buf_make(&bufs[1], dtype, store ? lanes : (size_t)span);
    buf_random(&bufs[0], &rng);
    buf_random(&bufs[1], &rng);
    out = mk_param(&g, 0, dtype);
    in = mk_param(&g, 1, dtype);
    index = mk(&g, UOP_RAMP, UOP_I64, lanes, 0, 0, NULL);
    if (gated) {
        pair[0] = mk_splat(&g, mk_int(&g, 3), lanes);
        pair[1] = index;
        gate = mk(&g, UOP_CMPLT, UOP_BOOL, lanes, 0, 2, pair);
        other = mk_splat(&g, uop_const_float(&g, dtype, 1), lanes);
    }
    pair[0] = index;
    pair[1] = mk_splat(&g, mk_int(&g, step), lanes);
    pair[1] = mk(&g, UOP_MUL, UOP_I64, lanes, 0, 2, pair);
    pair[0] = mk_splat(&g, mk_int(&g, -low), lanes);
    index = mk(&g, UOP_ADD, UOP_I64, lanes, 0, 2, pair);
    if (store)
        root =
            mk_store(&g, out, index,
                     mk_load(&g, in, mk_int(&g, 0), lanes, NULL, NULL), gate);
    else
        root = mk_store(&g, out, mk_int(&g, 0),
                        mk_load(&g, in, index, lanes, other, gate), NULL);
    snprintf(what, sizeof(what), "%s %s x%u step %d%s",
             store ? "store" : "load", uop_dtype_infos[dtype].short_name, lanes,
             (int)step, gated ? " gated" : "");
    check_roots(&g, &root, 1, bufs, 2, false, what);
    buf_free(&bufs[0]);
    buf_free(&bufs[1]);
    uop_graph_fini(&g);
}

static void
test_steps(void **state)
{
    static const enum uop_dtype dtypes[] = {UOP_BOOL, UOP_F16, UOP_F32,
                                            UOP_F64};
    static const unsigned widths[] = {2, 3, 8, 16};
    unsigned d, w, form;
    int64_t step;

    (void)state;
    for (d = 0; d < ARRAY_LEN(dtypes); d++) {
        for (w = 0; w < ARRAY_LEN(widths); w++) {
            for (step = -5; step <= 5; step++) {
                for (form = 0; form < 4; form++)
                    check_steps(dtypes[d], widths[w], step, form & 1, form & 2);
            }
        }
    }
}

/* ---- loops and variables ---- */

static const struct uop *
acc_get(struct uop_graph *g, const struct uop *acc, const struct uop *after)
{
    const struct uop *src[2] = {acc, after};

    return mk(g, UOP_ACC_GET, acc->dtype, acc->lanes, 0, 2, src);
}

static const struct uop *
acc_set(struct uop_graph *g, const struct uop *acc, const struct uop *value)
{
    const struct uop *src[2] = {acc, value};

    return mk(g, UOP_ACC_SET, UOP_VOID, 1, 0, 2, src);
}

static const struct uop *
acc_new(struct uop_graph *g, int64_t id, const struct uop *first,
        const struct uop *outside_of)
{
    const struct uop *src[2] = {first, outside_of};

    return mk(g, UOP_ACC, first->dtype, first->lanes, id, 2, src);
}

/* c[i] = i + sum over j of (sum over k of a[j] * b[k]): a variable of the
 * outer loop and one that each of its steps begins anew. */
static void
test_nested_loops(void **state)
{
    struct uop_graph g;
    const struct uop *i, *j, *k, *total, *part, *v, *end, *root, *a, *b;
    struct p_buf bufs[3];
    uint64_t rng = 10;
    unsigned n;

    (void)state;
    uop_graph_init(&g);
    for (n = 0; n < 3; n++) {
        buf_make(&bufs[n], UOP_I64, n == 0 ? 8 : 4 + n);
        buf_random(&bufs[n], &rng);
    }
    i = uop_range(&g, 0, UOP_AXIS_LOOP, 8);
    total = acc_new(&g, 0, i, i);
    j = uop_range(&g, 1, UOP_AXIS_REDUCE, 5);
    a = mk_load(&g, mk_param(&g, 1, UOP_I64), j, 1, NULL, NULL);
    part = acc_new(&g, 1, mk_int(&g, 0), j);
    k = uop_range(&g, 2, UOP_AXIS_REDUCE, 6);
    b = mk_load(&g, mk_param(&g, 2, UOP_I64), k, 1, NULL, NULL);
    v = uop_alu2(&g, UOP_ADD, acc_get(&g, part, k),
                 uop_alu2(&g, UOP_MUL, a, b));
    end = mk_end(&g, k, acc_set(&g, part, v));
    v = acc_get(&g, part, end);
    v = uop_alu2(&g, UOP_ADD, acc_get(&g, total, j), v);
    end = mk_end(&g, j, acc_set(&g, total, v));
    v = acc_get(&g, total, end);
    root = mk_end(&g, i, mk_store(&g, mk_param(&g, 0, UOP_I64), i, v, NULL));
    check_roots(&g, &root, 1, bufs, 3, false, "nested");
    for (n = 0; n < 3; n++)
        buf_free(&bufs[n]);
    uop_graph_fini(&g);
}

/* A vector variable over a loop whose extent comes from memory. */
static void
check_extent(int64_t n)
{
    struct uop_graph g;
    const struct uop *extent, *r, *acc, *v, *root;
    struct p_buf bufs[3];
    uint64_t rng = 11;
    size_t i;

    uop_graph_init(&g);
    buf_make(&bufs[0], UOP_F32, 4);
    buf_make(&bufs[1], UOP_F32, 16);
    buf_make(&bufs[2], UOP_I64, 1);
    buf_random(&bufs[0], &rng);
    for (i = 0; i < 16; i++)
        p_set(&bufs[1], i, (union uop_arg){.f = (double)i});
    p_set(&bufs[2], 0, (union uop_arg){.i = n});
    extent =
        mk_load(&g, mk_param(&g, 2, UOP_I64), mk_int(&g, 0), 1, NULL, NULL);
    v = mk_splat(&g, uop_const_float(&g, UOP_F32, 1), 4);
    acc = mk(&g, UOP_ACC, UOP_F32, 4, 0, 1, &v);
    r = mk(&g, UOP_RANGE, UOP_I64, 1, uop_range_arg(0, UOP_AXIS_REDUCE), 1,
           &extent);
    v = mk_load(&g, mk_param(&g, 1, UOP_F32),
                uop_alu2(&g, UOP_MUL, r, mk_int(&g, 4)), 4, NULL, NULL);
    v = uop_alu2(&g, UOP_ADD, acc_get(&g, acc, r), v);
    v = acc_get(&g, acc, mk_end(&g, r, acc_set(&g, acc, v)));
    root = mk_store(&g, mk_param(&g, 0, UOP_F32), mk_int(&g, 0), v, NULL);
    check_roots(&g, &root, 1, bufs, 3, false, "extent");
    for (i = 0; i < 3; i++)
        buf_free(&bufs[i]);
    uop_graph_fini(&g);
}

static void
test_extent_at_run_time(void **state)
{
    int64_t n;

    (void)state;
    for (n = -1; n <= 4; n++)
        check_extent(n);
}

/* ---- grid and arguments ---- */

/* out[z][y][x] = x + 10 y + 100 z + var, by pieces of the grid. */
static void
check_grid(const int64_t *dims)
{
    static const int64_t weight[3] = {1, 10, 100};
    struct uop_graph g;
    const struct uop *at = NULL, *value, *root;
    struct lower_program p;
    struct host_code code;
    int64_t out[120], n = dims[0] * dims[1] * dims[2], step = 1, i;
    uint64_t args[2] = {(uint64_t)(uintptr_t)out, 7}, first;
    unsigned d;

    uop_graph_init(&g);
    value = mk(&g, UOP_VAR, UOP_I64, 1, 1, 0, NULL);
    for (d = 0; d < 3; d++) {
        const struct uop *size = mk_int(&g, dims[d]);
        const struct uop *s = mk(&g, UOP_SPECIAL, UOP_I64, 1, d, 1, &size);
        const struct uop *term = uop_alu2(&g, UOP_MUL, s, mk_int(&g, step));
        at = at ? uop_alu2(&g, UOP_ADD, at, term) : term;
        step *= dims[d];
        term = uop_alu2(&g, UOP_MUL, s, mk_int(&g, weight[d]));
        value = uop_alu2(&g, UOP_ADD, value, term);
    }
    root = mk_store(&g, mk_param(&g, 0, UOP_I64), at, value, NULL);
    program_of(&g, &root, 1, &p);
    for (d = 0; d < 3; d++)
        p.grid[d] = (uint32_t)dims[d];
    host_compile(&p, &target, &code);
    for (i = 0; i < n; i++)
        out[i] = -1;
    for (first = 0; first < (uint64_t)n; first += 5) {
        uint64_t last = first + 5 < (uint64_t)n ? first + 5 : (uint64_t)n;
        code.fn(args, p.grid, first, first);
        assert_int_equal(out[first], -1); /* an empty piece does nothing */
        code.fn(args, p.grid, first, last);
    }
    for (i = 0; i < n; i++)
        assert_int_equal(out[i], i % dims[0] + 10 * (i / dims[0] % dims[1]) +
                                     100 * (i / dims[0] / dims[1]) + 7);
    host_release(&code);
    program_free(&p);
    uop_graph_fini(&g);
}

static void
test_grid(void **state)
{
    static const int64_t dims[][3] = {{1, 1, 1}, {7, 1, 1}, {1, 6, 1},
                                      {1, 1, 5}, {4, 6, 1}, {3, 1, 8},
                                      {1, 8, 8}, {4, 5, 6}};
    size_t i;

    (void)state;
    for (i = 0; i < ARRAY_LEN(dims); i++)
        check_grid(dims[i]);
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
        op = (enum uop_op)(next_random(rng) % UOP_OP_COUNT);
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
    buf_make(&bufs[0], UOP_I64, N);
    for (i = 0; i < 4; i++) {
        buf_make(&bufs[1 + i], ins[i], N);
        buf_random(&bufs[1 + i], &rng);
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
    check_roots(&g, &root, 1, bufs, 5, false, what);
    for (i = 0; i < 5; i++)
        buf_free(&bufs[i]);
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

/* ---- what is refused ---- */

static void
expect_refusal(struct uop_graph *g, const struct uop *const *roots, uint32_t n,
               bell_status want, const char *words)
{
    struct render_binary binary;
    struct lower_program p;

    program_of(g, roots, n, &p);
    assert_int_equal(render_host(&p, &target, &binary), want);
    if (!strstr(bell_error_last()->message, words))
        fail_msg("\"%s\" does not say \"%s\"", bell_error_last()->message,
                 words);
    program_free(&p);
}

static void
test_refused_ops(void **state)
{
    struct uop_graph g;
    const struct uop *root, *v, *out;

    (void)state;
    uop_graph_init(&g);
    out = mk_param(&g, 0, UOP_F32);
    v = mk_load(&g, mk_param(&g, 1, UOP_F32), mk_int(&g, 0), 1, NULL, NULL);
    root = mk_store(&g, out, mk_int(&g, 0), uop_alu1(&g, UOP_SIN, v), NULL);
    expect_refusal(&g, &root, 1, BELL_E_UNSUPPORTED, "SIN");
    root = mk(&g, UOP_BARRIER, UOP_VOID, 1, 0, 0, NULL);
    expect_refusal(&g, &root, 1, BELL_E_UNSUPPORTED, "BARRIER");
    v = uop_alu2(&g, UOP_CMPLT, v, v);
    root = mk(&g, UOP_IF, UOP_VOID, 1, 0, 1, &v);
    expect_refusal(&g, &root, 1, BELL_E_UNSUPPORTED, "IF");
    v = mk_load(&g, mk_param(&g, 1, UOP_F16), mk_int(&g, 0), 1, NULL, NULL);
    v = uop_alu2(&g, UOP_MUL, v, v);
    root = mk_store(&g, mk_param(&g, 0, UOP_F16), mk_int(&g, 0), v, NULL);
    expect_refusal(&g, &root, 1, BELL_E_UNSUPPORTED, "widened");
    uop_graph_fini(&g);
}

static void
test_refused_shapes(void **state)
{
    struct uop_graph g;
    const struct uop *root, *v, *src[2], *range, *out;
    struct lower_program p;
    struct render_binary binary;

    (void)state;
    uop_graph_init(&g);
    out = mk_param(&g, 0, UOP_I64);
    /* a value from inside a loop, used after it */
    range = uop_range(&g, 0, UOP_AXIS_LOOP, 4);
    v = mk_load(&g, mk_param(&g, 1, UOP_I64), range, 1, NULL, NULL);
    root = mk_end(&g, range, mk_store(&g, out, range, v, NULL));
    src[0] = root;
    src[1] = mk_store(&g, out, mk_int(&g, 9), v, NULL);
    expect_refusal(&g, src, 2, BELL_E_INTERNAL, "no value");
    expect_refusal(&g, &range, 1, BELL_E_INTERNAL, "not closed");
    program_of(&g, &root, 1, &p);
    p.local[0] = 2;
    assert_int_equal(render_host(&p, &target, &binary), BELL_E_UNSUPPORTED);
    program_free(&p);
    uop_graph_fini(&g);
}

/* ---- objects ---- */

static void
make_simple(struct uop_graph *g, struct lower_program *p)
{
    const struct uop *v, *root;

    uop_graph_init(g);
    v = mk_load(g, mk_param(g, 1, UOP_F32), mk_int(g, 0), 16, NULL, NULL);
    v = uop_alu2(g, UOP_MUL, v,
                 mk_splat(g, uop_const_float(g, UOP_F32, 1.7), 16));
    root = mk_store(g, mk_param(g, 0, UOP_F32), mk_int(g, 0), v, NULL);
    program_of(g, &root, 1, p);
}

/* Zeroes every pair of bytes, which makes the function's own symbol undefined
 * at one place and breaks headers at others, and cuts the object everywhere:
 * the check survives, and names the symbol. */
static void
test_object_check(void **state)
{
    struct uop_graph g;
    struct lower_program p;
    struct render_binary binary, part;
    size_t i, n_named = 0, n_refused = 0;

    (void)state;
    make_simple(&g, &p);
    assert_int_equal(render_host(&p, &target, &binary), BELL_OK);
    assert_int_equal(render_check_object(&binary), BELL_OK);
    for (i = 0; i + 2 <= binary.size_bytes; i++) {
        uint8_t *at = (uint8_t *)binary.data + i, old[2] = {at[0], at[1]};
        at[0] = at[1] = 0;
        if (render_check_object(&binary) != BELL_OK) {
            n_refused++;
            n_named +=
                strstr(bell_error_last()->message, "needs kernel") != NULL;
        }
        at[0] = old[0];
        at[1] = old[1];
    }
    assert_true(n_named > 0 && n_refused > n_named);
    for (i = 0; i < binary.size_bytes; i += 3) {
        part.size_bytes = i;
        part.data = host_alloc(i + 1);
        memcpy(part.data, binary.data, i);
        assert_true(render_check_object(&part) != BELL_OK);
        render_binary_fini(&part);
    }
    render_binary_fini(&binary);
    program_free(&p);
    uop_graph_fini(&g);
}

static void
test_text(void **state)
{
    struct uop_graph g;
    struct lower_program p;
    char *text;

    (void)state;
    make_simple(&g, &p);
    assert_int_equal(render_host_text(&p, &target, &text), BELL_OK);
    assert_non_null(strstr(text, "define void @kernel("));
    assert_non_null(strstr(text, "fmul <16 x float>"));
    assert_non_null(strstr(text, "!noalias"));
    host_free(text);
    program_free(&p);
    uop_graph_fini(&g);
}

static void
test_target(void **state)
{
    struct lower_target again;

    (void)state;
    assert_int_equal(render_host_target(&again), BELL_OK);
    assert_string_equal(again.name, target.name);
    assert_true(strlen(target.name) > 8);
    assert_true(target.vector_bytes >= 16 && target.vector_bytes <= 64);
    assert_true(target.n_vector_regs == 16 || target.n_vector_regs == 32);
    assert_true(target.n_threads >= 1);
    assert_true(target.l1_bytes >= 8192 && target.l2_bytes >= target.l1_bytes);
}

/* ---- robustness ---- */

/* Every allocation of a rendering fails once; each failure is clean. */
static void
test_out_of_memory(void **state)
{
    struct uop_graph g;
    struct lower_program p;
    struct render_binary binary;
    uint64_t nth;
    bell_status status = BELL_E_NO_MEMORY;

    (void)state;
    make_simple(&g, &p);
    for (nth = 1; status != BELL_OK; nth++) {
        assert_true(nth < 100);
        host_fail_after(nth, 1);
        status = render_host(&p, &target, &binary);
        host_fail_after(0, 0);
        assert_true(status == BELL_OK || status == BELL_E_NO_MEMORY);
    }
    assert_true(nth > 5);
    render_binary_fini(&binary);
    program_free(&p);
    uop_graph_fini(&g);
}

/* What LLVM thinks fatal does not end the process, and rendering goes on. */
#if defined(__x86_64__)
static void
make_bad_machine(void *arg)
{
    const struct llvm_api *ll = arg;
    char *triple = ll->GetDefaultTargetTriple(), *message = NULL;
    LLVMTargetRef t;

    if (ll->GetTargetFromTriple(triple, &t, &message) == 0)
        ll->CreateTargetMachine(t, triple, "", "", LLVMCodeGenLevelDefault,
                                LLVMRelocPIC, LLVMCodeModelTiny);
}

static void
test_fatal_error(void **state)
{
    const struct llvm_api *ll;
    struct llvm_api copy;
    struct uop_graph g;
    struct lower_program p;
    struct render_binary binary;
    bell_status status;

    (void)state;
    assert_int_equal(llvm_api_get(&ll), BELL_OK);
    copy = *ll;
#if defined(__SANITIZE_ADDRESS__)
    __lsan_disable(); /* what LLVM held is lost, as told */
#endif
    status = llvm_guard(make_bad_machine, &copy);
#if defined(__SANITIZE_ADDRESS__)
    __lsan_enable();
#endif
    assert_int_equal(status, BELL_E_COMPILE);
    assert_non_null(strstr(bell_error_last()->message, "tiny"));
    make_simple(&g, &p);
    assert_int_equal(render_host(&p, &target, &binary), BELL_OK);
    render_binary_fini(&binary);
    program_free(&p);
    uop_graph_fini(&g);
}
#endif

static void *
render_many(void *arg)
{
    struct uop_graph g;
    struct lower_program p;
    int i;

    make_simple(&g, &p);
    for (i = 0; i < 20; i++) {
        struct render_binary binary;
        if (render_host(&p, &target, &binary) != BELL_OK)
            return arg;
        render_binary_fini(&binary);
    }
    program_free(&p);
    uop_graph_fini(&g);
    return NULL;
}

static void
test_threads(void **state)
{
    pthread_t threads[4];
    size_t i;

    (void)state;
    for (i = 0; i < 4; i++)
        assert_int_equal(
            pthread_create(&threads[i], NULL, render_many, threads), 0);
    for (i = 0; i < 4; i++) {
        void *result;
        pthread_join(threads[i], &result);
        assert_null(result);
    }
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_target),
        cmocka_unit_test(test_alu),
        cmocka_unit_test(test_extreme_with_constant),
        cmocka_unit_test(test_cast),
        cmocka_unit_test(test_bitcast),
        cmocka_unit_test(test_constants),
        cmocka_unit_test(test_lanes),
        cmocka_unit_test(test_lanes_reduce_order),
        cmocka_unit_test(test_memory),
        cmocka_unit_test(test_steps),
        cmocka_unit_test(test_nested_loops),
        cmocka_unit_test(test_extent_at_run_time),
        cmocka_unit_test(test_grid),
        cmocka_unit_test(test_random),
        cmocka_unit_test(test_refused_ops),
        cmocka_unit_test(test_refused_shapes),
        cmocka_unit_test(test_object_check),
        cmocka_unit_test(test_text),
        cmocka_unit_test(test_out_of_memory),
#if defined(__x86_64__)
        cmocka_unit_test(test_fatal_error),
#endif
        cmocka_unit_test(test_threads),
    };

    return cmocka_run_group_tests(tests, setup, NULL);
}
