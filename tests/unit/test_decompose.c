/* Decompositions, as machine code, against uop_const_eval of the op that was
 * there before: every op and conversion on every dtype, with and without the
 * target's multiply-add and F16. Accuracy of functions: test_math_ulp.c. */
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
#include "host_run.h"
#include "p_interp.h"

#define N 4096

static struct lower_target targets[2]; /* with all it has; with nothing */
static const unsigned lane_counts[] = {1, 16};

static int
setup(void **state)
{
    (void)state;
    if (render_host_target(&targets[0]) != BELL_OK)
        return -1;
    targets[1] = targets[0];
    targets[1].has_fma = targets[1].has_f16 = false;
    return 0;
}

/* One op on up to three inputs, before and after. */
struct op_case {
    enum uop_op op;
    enum uop_dtype in[3], out;
    uint32_t n_src;
    unsigned lanes;
    const struct lower_target *target;
    char what[96];
};

static void
name_case(struct op_case *c)
{
    snprintf(c->what, sizeof(c->what), "%s %s -> %s x%u%s",
             uop_op_infos[c->op].name, uop_dtype_infos[c->in[0]].short_name,
             uop_dtype_infos[c->out].short_name, c->lanes,
             c->target == &targets[1] ? " (plain target)" : "");
}

/* Nothing that lower.h rules out is left. */
static void
check_form(const struct op_case *c, const struct lower_program *p)
{
    uint32_t i;

    for (i = 0; i < p->n_ops; i++) {
        const struct uop *u = p->ops[i];
        bool small = u->n_src > 0 && uop_dtype_is_small(u->src[0]->dtype);
        switch (u->op) {
        case UOP_EXP2:
        case UOP_LOG2:
        case UOP_SIN:
        case UOP_COS:
        case UOP_POW:
        case UOP_FMOD:
        case UOP_FFLOORDIV:
        case UOP_RECIP:
        case UOP_FLOORDIV:
        case UOP_FLOORMOD:
            fail_msg("%s: %s is left", c->what, uop_op_infos[u->op].name);
            break;
        default:
            if (small && uop_has(u, UOP_FLAG_ALU) && u->op != UOP_WHERE)
                fail_msg("%s: %s on a small float is left", c->what,
                         uop_op_infos[u->op].name);
            break;
        }
    }
}

/* out[i] = op(in[i]...), N elements. */
static void
build_case(struct uop_graph *g, const struct op_case *c,
           struct lower_program *p)
{
    const struct uop *src[3], *range, *at, *root;
    uint32_t i;

    range = uop_range(g, 0, UOP_AXIS_LOOP, N / c->lanes);
    at = uop_alu2(g, UOP_MUL, range, mk_int(g, c->lanes));
    for (i = 0; i < c->n_src; i++)
        src[i] =
            mk_load(g, mk_param(g, 1 + i, c->in[i]), at, c->lanes, NULL, NULL);
    root = mk(g, c->op, c->out, c->lanes, 0, c->n_src, src);
    root = mk_store(g, mk_param(g, 0, c->out), at, root, NULL);
    root = mk_end(g, range, root);
    assert_int_equal(lower_decompose(g, &root, 1, c->target), BELL_OK);
    program_of(g, &root, 1, p);
    check_form(c, p);
}

static union uop_arg
expected(const struct op_case *c, const struct p_buf *in, size_t i)
{
    struct uop x = {.op = UOP_CONST, .lanes = 1}, y = x, z = x;
    struct uop *consts[3] = {&x, &y, &z};
    const struct uop *src[3] = {&x, &y, &z};
    union uop_arg out;
    uint32_t j;

    for (j = 0; j < c->n_src; j++) {
        consts[j]->dtype = (uint8_t)c->in[j];
        p_get(&in[j], i, &consts[j]->arg);
    }
    if (!uop_const_eval(c->op, c->out, src, c->n_src, &out))
        fail_msg("%s: no constant value", c->what);
    return out;
}

/* Relative error allowed of a result, 0: exact. */
static double
tolerance(const struct op_case *c)
{
    double ulp;

    if (!uop_dtype_infos[c->out].is_float)
        return 0;
    ulp = ldexp(1, -uop_dtype_infos[c->out].fraction_bits);
    switch ((unsigned)c->op) {
    case UOP_EXP2:
    case UOP_LOG2:
    case UOP_SIN:
    case UOP_COS:
        return c->out == UOP_F64 ? 4 * ulp : c->out == UOP_F32 ? 2 * ulp : ulp;
    case UOP_POW:
        if (c->out != UOP_F64)
            return ulp;
        return (c->target->has_fma ? 100 : 1000) * ulp;
    case UOP_MULACC: /* without a multiply-add: only what was not lost */
        return c->target->has_fma ? 0 : INFINITY;
    default:
        return 0;
    }
}

static bool
is_near(const struct op_case *c, union uop_arg got, union uop_arg want)
{
    double tol = tolerance(c);

    if (same_value(c->out, got, want))
        return true;
    if (tol == 0)
        return false;
    if (isnan(got.f) || isnan(want.f) || isinf(got.f) || isinf(want.f))
        return tol == INFINITY;
    if (signbit(got.f) != signbit(want.f) && tol != INFINITY)
        return false;
    return fabs(got.f - want.f) <=
           tol * fabs(want.f) +
               ldexp(1, uop_dtype_infos[c->out].min_exp -
                            uop_dtype_infos[c->out].fraction_bits);
}

static void
compare_case(const struct op_case *c, const struct p_buf *in,
             const struct p_buf *out)
{
    size_t i;

    for (i = 0; i < N; i++) {
        union uop_arg want = expected(c, in, i), got, x, y = {.bits = 0};
        p_get(out, i, &got);
        if (is_near(c, got, want))
            continue;
        p_get(&in[0], i, &x);
        if (c->n_src > 1)
            p_get(&in[1], i, &y);
        fail_msg("%s: of %a/%lld, %a/%lld got %a/%lld, want %a/%lld", c->what,
                 x.f, (long long)x.i, y.f, (long long)y.i, got.f,
                 (long long)got.i, want.f, (long long)want.i);
    }
}

/* Values around the middle of a dtype's range, for functions. */
static union uop_arg
plain_value(uint64_t *rng, enum uop_dtype dtype)
{
    union uop_arg a;

    if (!uop_dtype_infos[dtype].is_float || next_random(rng) % 4 == 0)
        return random_value(rng, dtype);
    a.f = (double)(int64_t)next_random(rng) * 0x1p-63 *
          exp2((double)(next_random(rng) % 8));
    a.f = uop_round_float(dtype, a.f);
    return a;
}

static void
run_case(struct op_case *c, uint64_t *rng)
{
    struct uop_graph g;
    struct lower_program p;
    struct p_buf bufs[4];
    void *ptrs[4];
    struct host_code code;
    uint32_t i;
    size_t k;

    name_case(c);
    for (i = 0; i <= c->n_src; i++) {
        bufs[i].dtype = i ? c->in[i - 1] : c->out;
        bufs[i].n_elems = N;
        bufs[i].data = host_calloc(N, 8);
        ptrs[i] = bufs[i].data;
        for (k = 0; k < N && i; k++)
            p_set(&bufs[i], k, plain_value(rng, bufs[i].dtype));
    }
    uop_graph_init(&g);
    build_case(&g, c, &p);
    host_compile(&p, c->target, &code);
    host_call(&code, &p, ptrs);
    compare_case(c, bufs + 1, &bufs[0]);
    host_release(&code);
    program_free(&p);
    uop_graph_fini(&g);
    for (i = 0; i <= c->n_src; i++)
        host_free(bufs[i].data);
}

static void
run_everywhere(struct op_case *c, uint64_t *rng)
{
    unsigned t, k;

    for (t = 0; t < 2; t++) {
        for (k = 0; k < ARRAY_LEN(lane_counts); k++) {
            c->target = &targets[t];
            c->lanes = lane_counts[k];
            run_case(c, rng);
        }
    }
}

static void
test_every_op(void **state)
{
    uint64_t rng = 1;
    unsigned op, dtype, i;

    (void)state;
    for (op = 0; op < UOP_OP_COUNT; op++) {
        unsigned flags = uop_op_infos[op].flags;
        for (dtype = UOP_BOOL; dtype < UOP_DTYPE_COUNT; dtype++) {
            bool flt = uop_dtype_infos[dtype].is_float;
            struct op_case c = {.op = op, .n_src = uop_op_infos[op].min_src};
            if (!(flags & UOP_FLAG_ALU) || ((flags & UOP_FLAG_FLT) && !flt) ||
                ((flags & UOP_FLAG_INT) && flt))
                continue;
            for (i = 0; i < 3; i++)
                c.in[i] = dtype;
            if (op == UOP_WHERE)
                c.in[0] = UOP_BOOL;
            c.out = flags & UOP_FLAG_CMP ? UOP_BOOL : dtype;
            run_everywhere(&c, &rng);
        }
    }
}

static void
test_every_cast(void **state)
{
    uint64_t rng = 2;
    unsigned from, to;

    (void)state;
    for (from = UOP_BOOL; from < UOP_DTYPE_COUNT; from++) {
        for (to = UOP_BOOL; to < UOP_DTYPE_COUNT; to++) {
            struct op_case c = {
                .op = UOP_CAST, .in = {from}, .out = to, .n_src = 1};
            run_everywhere(&c, &rng);
        }
    }
}

static const enum uop_dtype small_floats[] = {
    UOP_F16, UOP_BF16, UOP_F8E4M3, UOP_F8E5M2, UOP_F8E4M3Z, UOP_F8E5M2Z};

/* All values of a small float through one op. */
static void
check_all_of(enum uop_dtype from, enum uop_op op, enum uop_dtype to,
             const struct lower_target *target)
{
    struct op_case c = {.op = op,
                        .in = {from},
                        .out = to,
                        .n_src = 1,
                        .lanes = 16,
                        .target = target};
    struct p_buf in = {.dtype = from, .n_elems = N};
    struct p_buf out = {.dtype = to, .n_elems = N};
    struct uop_graph g;
    struct lower_program p;
    struct host_code code;
    size_t size = uop_dtype_infos[from].size_bytes;
    uint8_t *values = host_alloc(65536 * size);
    uint64_t results[N];
    unsigned i, n = size == 1 ? N : 65536; /* bytes: each several times */

    name_case(&c);
    for (i = 0; i < n; i++)
        memcpy(values + i * size, &i, size);
    uop_graph_init(&g);
    build_case(&g, &c, &p);
    host_compile(&p, target, &code);
    for (i = 0; i < n; i += N) {
        void *ptrs[2] = {results, values + i * size};
        in.data = values + i * size;
        out.data = results;
        host_call(&code, &p, ptrs);
        compare_case(&c, &in, &out);
    }
    host_release(&code);
    program_free(&p);
    uop_graph_fini(&g);
    host_free(values);
}

static void
test_all_small_floats(void **state)
{
    static const enum uop_op ops[] = {UOP_NEG,  UOP_RECIP, UOP_SQRT, UOP_EXP2,
                                      UOP_LOG2, UOP_SIN,   UOP_COS,  UOP_TRUNC};
    unsigned i, k, t, to;

    (void)state;
    for (i = 0; i < ARRAY_LEN(small_floats); i++) {
        enum uop_dtype small = small_floats[i];
        for (t = 0; t < 2; t++) {
            for (k = 0; k < ARRAY_LEN(ops); k++)
                check_all_of(small, ops[k], small, &targets[t]);
            for (to = UOP_BOOL; to < UOP_DTYPE_COUNT; to++)
                check_all_of(small, UOP_CAST, to, &targets[t]);
        }
    }
}

/* Values half way between two small floats, and just beside them: F64 must
 * round once. */
static void
test_narrow_once(void **state)
{
    unsigned s, t, i;

    (void)state;
    for (s = 0; s < ARRAY_LEN(small_floats); s++) {
        enum uop_dtype small = small_floats[s];
        for (t = 0; t < 2; t++) {
            struct op_case c = {.op = UOP_CAST,
                                .in = {UOP_F64},
                                .out = small,
                                .n_src = 1,
                                .lanes = 16,
                                .target = &targets[t]};
            double *x = host_alloc(N * sizeof(*x));
            uint16_t out[N];
            void *ptrs[2] = {out, x};
            struct p_buf in = {UOP_F64, N, x}, result = {small, N, out};
            struct uop_graph g;
            struct lower_program p;
            struct host_code code;
            uint64_t rng = 6;
            name_case(&c);
            for (i = 0; i < N; i++) {
                int bits = uop_dtype_infos[small].fraction_bits + 1;
                double m = (double)(next_random(&rng) >> (64 - bits)) + 0.5;
                x[i] = ldexp(m, (int)(next_random(&rng) % 48) - 36);
                if (i % 3)
                    x[i] = nextafter(x[i], i % 3 == 1 ? 0 : INFINITY);
                if (i % 2)
                    x[i] = -x[i];
            }
            uop_graph_init(&g);
            build_case(&g, &c, &p);
            host_compile(&p, c.target, &code);
            host_call(&code, &p, ptrs);
            compare_case(&c, &in, &result);
            host_release(&code);
            program_free(&p);
            uop_graph_fini(&g);
            host_free(x);
        }
    }
}

/* ---- absolute values ---- */

/* out[i] = max(x, -x) + 0 of 64 values, either way round: without a MAX. */
static void
check_abs(enum uop_dtype dtype, unsigned lanes, bool turned)
{
    static const double special[] = {0, -0.0, INFINITY, -INFINITY, NAN, 1e-310};
    const struct uop *range, *at, *x, *y, *root, *zero;
    struct p_buf in = {dtype, 64, NULL}, out = in;
    double in_data[64], out_data[64];
    void *ptrs[2] = {out_data, in_data};
    struct lower_program p;
    struct host_code code;
    struct uop_graph g;
    uint64_t rng = 9;
    uint32_t i;

    in.data = in_data;
    out.data = out_data;
    for (i = 0; i < 64; i++) {
        double r = (double)(int64_t)next_random(&rng) * 0x1p-40;
        union uop_arg v = {.f = i < ARRAY_LEN(special) ? special[i] : r};
        v.f = uop_round_float(dtype, v.f);
        p_set(&in, i, v);
    }
    uop_graph_init(&g);
    range = uop_range(&g, 0, UOP_AXIS_LOOP, 64 / lanes);
    at = uop_alu2(&g, UOP_MUL, range, mk_int(&g, lanes));
    x = mk_load(&g, mk_param(&g, 1, dtype), at, lanes, NULL, NULL);
    y = uop_alu1(&g, UOP_NEG, x);
    y = turned ? uop_alu2(&g, UOP_MAX, y, x) : uop_alu2(&g, UOP_MAX, x, y);
    zero = uop_const_float(&g, dtype, 0);
    root =
        uop_alu2(&g, UOP_ADD, y, lanes > 1 ? mk_splat(&g, zero, lanes) : zero);
    root = mk_store(&g, mk_param(&g, 0, dtype), at, root, NULL);
    root = mk_end(&g, range, root);
    assert_int_equal(lower_decompose(&g, &root, 1, &targets[0]), BELL_OK);
    program_of(&g, &root, 1, &p);
    for (i = 0; i < p.n_ops; i++)
        assert_int_not_equal(p.ops[i]->op, UOP_MAX);
    host_compile(&p, &targets[0], &code);
    host_call(&code, &p, ptrs);
    for (i = 0; i < 64; i++) {
        union uop_arg was, got;
        p_get(&in, i, &was);
        p_get(&out, i, &got);
        was.f = fabs(was.f);
        assert_true(same_value(dtype, got, was));
    }
    host_release(&code);
    program_free(&p);
    uop_graph_fini(&g);
}

static void
test_abs(void **state)
{
    unsigned i;

    (void)state;
    for (i = 0; i < 8; i++)
        check_abs(i & 1 ? UOP_F64 : UOP_F32, i & 2 ? 8 : 1, i & 4);
}

/* ---- divisions and shifts by constants and within bounds ---- */

/* out[i] = (float)((in[i] >> shift & mask) + c) by bits, where they fit. */
static void
check_masked(enum uop_dtype dtype, unsigned lanes, int64_t shift, int64_t mask,
             int64_t c, bool fits)
{
    struct lower_target target = targets[0];
    const struct uop *range, *at, *x, *root;
    struct uop_graph g;
    struct lower_program p;
    struct host_code code;
    uint32_t in[N], i;
    float out[N];
    void *ptrs[2] = {out, in};
    uint64_t rng = 5;
    bool has_cast = false;

    target.joins_bits = true;
    for (i = 0; i < N; i++)
        in[i] = (uint32_t)next_random(&rng);
    uop_graph_init(&g);
    range = uop_range(&g, 0, UOP_AXIS_LOOP, N / lanes);
    at = uop_alu2(&g, UOP_MUL, range, mk_int(&g, lanes));
    x = mk_load(&g, mk_param(&g, 1, dtype), at, lanes, NULL, NULL);
    x = uop_alu2(&g, UOP_SHR, x, uop_const_like(&g, x, shift));
    x = uop_alu2(&g, UOP_AND, x, uop_const_like(&g, x, mask));
    x = uop_alu2(&g, UOP_ADD, x, uop_const_like(&g, x, c));
    x = uop_cast(&g, x, UOP_F32);
    root = mk_store(&g, mk_param(&g, 0, UOP_F32), at, x, NULL);
    root = mk_end(&g, range, root);
    assert_int_equal(lower_decompose(&g, &root, 1, &target), BELL_OK);
    program_of(&g, &root, 1, &p);
    for (i = 0; i < p.n_ops; i++)
        has_cast |= p.ops[i]->op == UOP_CAST && p.ops[i]->dtype == UOP_F32;
    assert_int_equal(has_cast, !fits);
    host_compile(&p, &target, &code);
    host_call(&code, &p, ptrs);
    for (i = 0; i < N; i++) {
        uint32_t value =
            ((dtype == UOP_I32 ? (uint32_t)((int32_t)in[i] >> shift)
                               : in[i] >> shift) &
             (uint32_t)mask) +
            (uint32_t)c;
        float want = dtype == UOP_I32 ? (float)(int32_t)value : (float)value;
        if (memcmp(&out[i], &want, sizeof(want)) != 0)
            fail_msg("(%08x >> %lld & %llx) + %lld is %a, not %a", in[i],
                     (long long)shift, (unsigned long long)mask, (long long)c,
                     (double)out[i], (double)want);
    }
    host_release(&code);
    program_free(&p);
    uop_graph_fini(&g);
}

static void
test_masked_cast(void **state)
{
    static const struct {
        int64_t shift, mask, c;
        bool fits;
    } cases[] = {
        {0, 15, -8, true},         {4, 15, -8, true},
        {4, 15, 1, true},          {19, 15, -3, true},
        {0, 0x7fffff, -4, true},   {1, 0x3fffff, 5, true},
        {22, 1, -1, true},         {22, 1, 1, true},
        {21, 3, -3, true},         {20, 15, -1, false},
        {28, 15, -8, false},       {0, 0x800000, -1, false},
        {22, 1, -2, false},        {0, 255, -0x7fffff, true},
        {0, 255, 0x7fffff, true},  {0, 255, -0x800000, false},
        {0, 0x5555, 0x1234, true},
    };
    size_t i, j;

    (void)state;
    for (i = 0; i < ARRAY_LEN(cases); i++) {
        for (j = 0; j < ARRAY_LEN(lane_counts); j++)
            check_masked(UOP_I32, lane_counts[j], cases[i].shift, cases[i].mask,
                         cases[i].c, cases[i].fits);
    }
}

/* out[i] = op(i*mul + offset, y), all in I64; i is a RANGE, so that the
 * bounds are known. */
static void
check_bounded(enum uop_op op, int64_t mul, int64_t offset, int64_t y,
              unsigned lanes)
{
    struct uop_graph g;
    struct lower_program p;
    struct host_code code;
    const struct uop *r, *at, *x, *root, *pair[2];
    int64_t out[128];
    void *ptrs[1] = {out};
    unsigned i;

    uop_graph_init(&g);
    r = uop_range(&g, 0, UOP_AXIS_LOOP, 128 / lanes);
    at = uop_alu2(&g, UOP_MUL, r, mk_int(&g, lanes));
    x = at;
    if (lanes > 1) {
        pair[0] = mk(&g, UOP_RAMP, UOP_I64, lanes, 0, 0, NULL);
        pair[1] = mk_splat(&g, at, lanes);
        x = mk(&g, UOP_ADD, UOP_I64, lanes, 0, 2, pair);
    }
    x = uop_alu2(&g, UOP_MUL, x, uop_const_like(&g, x, mul));
    x = uop_alu2(&g, UOP_ADD, x, uop_const_like(&g, x, offset));
    x = uop_alu2(&g, op, x, uop_const_like(&g, x, y));
    root = mk_store(&g, mk_param(&g, 0, UOP_I64), at, x, NULL);
    root = mk_end(&g, r, root);
    assert_int_equal(lower_decompose(&g, &root, 1, &targets[0]), BELL_OK);
    program_of(&g, &root, 1, &p);
    host_compile(&p, &targets[0], &code);
    host_call(&code, &p, ptrs);
    for (i = 0; i < 128; i++) {
        struct uop a = {.op = UOP_CONST, .dtype = UOP_I64, .lanes = 1}, b = a;
        const struct uop *src[2] = {&a, &b};
        union uop_arg want;
        a.arg.i = (int64_t)((uint64_t)i * (uint64_t)mul + (uint64_t)offset);
        b.arg.i = y;
        assert_true(uop_const_eval(op, UOP_I64, src, 2, &want));
        if (out[i] != want.i)
            fail_msg("%s of %lld and %lld is %lld, not %lld",
                     uop_op_infos[op].name, (long long)a.arg.i, (long long)y,
                     (long long)out[i], (long long)want.i);
    }
    host_release(&code);
    program_free(&p);
    uop_graph_fini(&g);
}

static void
test_bounds(void **state)
{
    static const enum uop_op ops[] = {UOP_IDIV,     UOP_IMOD, UOP_FLOORDIV,
                                      UOP_FLOORMOD, UOP_SHL,  UOP_SHR};
    static const int64_t ys[] = {0, 1, -1, 2, 3, -3, 7, 8, 63, 64, 1 << 20};
    static const int64_t forms[][2] = {
        {1, 0}, {3, -190}, {-5, 2}, {1ll << 40, -(1ll << 45)}, {1, INT64_MIN}};
    unsigned o, y, f, k;

    (void)state;
    for (o = 0; o < ARRAY_LEN(ops); o++) {
        for (y = 0; y < ARRAY_LEN(ys); y++) {
            for (f = 0; f < ARRAY_LEN(forms); f++) {
                for (k = 0; k < 2; k++)
                    check_bounded(ops[o], forms[f][0], forms[f][1], ys[y],
                                  k ? 8 : 1);
            }
        }
    }
}

/* A division whose operands are known not to be negative needs no guards: a
 * shift or one unsigned division. */
static void
test_guards_left_out(void **state)
{
    static const int64_t ys[] = {8, 10};
    unsigned k;

    (void)state;
    for (k = 0; k < 2; k++) {
        struct uop_graph g;
        struct lower_program p;
        const struct uop *r, *x, *root;
        unsigned n_where = 0, n_div = 0, i;
        uop_graph_init(&g);
        r = uop_range(&g, 0, UOP_AXIS_LOOP, 1000);
        x = uop_alu2(&g, UOP_FLOORDIV, r, mk_int(&g, ys[k]));
        root = mk_store(&g, mk_param(&g, 0, UOP_I64), r, x, NULL);
        root = mk_end(&g, r, root);
        assert_int_equal(lower_decompose(&g, &root, 1, &targets[0]), BELL_OK);
        program_of(&g, &root, 1, &p);
        for (i = 0; i < p.n_ops; i++) {
            n_where += p.ops[i]->op == UOP_WHERE;
            n_div += p.ops[i]->op == UOP_IDIV;
            if (p.ops[i]->op == UOP_IDIV)
                assert_int_equal(p.ops[i]->dtype, UOP_U32);
        }
        assert_int_equal(n_where, 0);
        assert_int_equal(n_div, k);
        program_free(&p);
        uop_graph_fini(&g);
    }
}

/* On a GPU small numbers are divided by constants without a division. */
static void
check_gpu_division(enum uop_op op, int64_t n, int64_t c)
{
    struct lower_target gpu = targets[0];
    struct uop_graph g;
    struct lower_program p;
    struct host_code code;
    const struct uop *r, *root;
    int64_t *out = malloc((size_t)n * sizeof(*out)), i;
    void *ptrs[1] = {out};
    uint32_t k;

    assert_non_null(out);
    gpu.is_gpu = true;
    uop_graph_init(&g);
    r = uop_range(&g, 0, UOP_AXIS_LOOP, n);
    root = mk_store(&g, mk_param(&g, 0, UOP_I64), r,
                    uop_alu2(&g, op, r, mk_int(&g, c)), NULL);
    root = mk_end(&g, r, root);
    assert_int_equal(lower_decompose(&g, &root, 1, &gpu), BELL_OK);
    program_of(&g, &root, 1, &p);
    for (k = 0; k < p.n_ops; k++)
        assert_true(p.ops[k]->op != UOP_IDIV && p.ops[k]->op != UOP_IMOD);
    host_compile(&p, &targets[0], &code);
    host_call(&code, &p, ptrs);
    for (i = 0; i < n; i++) {
        if (out[i] != (op == UOP_FLOORDIV ? i / c : i % c))
            fail_msg("%s of %lld and %lld is %lld", uop_op_infos[op].name,
                     (long long)i, (long long)c, (long long)out[i]);
    }
    free(out);
    host_release(&code);
    program_free(&p);
    uop_graph_fini(&g);
}

static void
test_gpu_divisions(void **state)
{
    static const int64_t rows[][2] = {{130, 3},   {4096, 3},    {4097, 5},
                                      {1000, 7},  {3136, 56},   {1000, 641},
                                      {200, 199}, {16000, 127}, {30000, 3}};
    size_t i;

    (void)state;
    for (i = 0; i < ARRAY_LEN(rows); i++) {
        check_gpu_division(UOP_FLOORDIV, rows[i][0], rows[i][1]);
        check_gpu_division(UOP_FLOORMOD, rows[i][0], rows[i][1]);
    }
}

/* ---- the pass ---- */

/* Small floats are joined in F32 and rounded once. */
static void
test_lanes_reduce_small(void **state)
{
    struct uop_graph g;
    struct lower_program p;
    struct host_code code;
    const struct uop *root;
    uint16_t in[16], out = 0;
    void *ptrs[2] = {&out, in};
    unsigned i;

    (void)state;
    for (i = 0; i < 16; i++)
        in[i] = 0x6800; /* 2048: 2048 + 1 would be lost in F16 */
    in[3] = 0x3c00;
    in[4] = 0x3c00;
    uop_graph_init(&g);
    root = mk_load(&g, mk_param(&g, 1, UOP_F16), mk_int(&g, 0), 16, NULL, NULL);
    root = mk(&g, UOP_LANES_REDUCE, UOP_F16, 1, UOP_ADD, 1, &root);
    root = mk_store(&g, mk_param(&g, 0, UOP_F16), mk_int(&g, 0), root, NULL);
    assert_int_equal(lower_decompose(&g, &root, 1, &targets[0]), BELL_OK);
    program_of(&g, &root, 1, &p);
    host_compile(&p, &targets[0], &code);
    host_call(&code, &p, ptrs);
    assert_int_equal(out, 0x7700); /* 28674 to the nearest 16: 28672 */
    host_release(&code);
    program_free(&p);
    uop_graph_fini(&g);
}

/* A long chain, deep but linear, and every allocation failing once. */
static void
test_deep_and_out_of_memory(void **state)
{
    struct uop_graph g;
    const struct uop *x, *root;
    bell_status status = BELL_E_NO_MEMORY;
    uint64_t nth;
    int i;

    (void)state;
    uop_graph_init(&g);
    x = mk_load(&g, mk_param(&g, 1, UOP_BF16), mk_int(&g, 0), 1, NULL, NULL);
    for (i = 0; i < 100000; i++)
        x = mk(&g, i % 2 ? UOP_NEG : UOP_SQRT, UOP_BF16, 1, 0, 1, &x);
    root = mk_store(&g, mk_param(&g, 0, UOP_BF16), mk_int(&g, 0), x, NULL);
    assert_int_equal(lower_decompose(&g, &root, 1, &targets[0]), BELL_OK);
    uop_graph_fini(&g);

    for (nth = 1; status != BELL_OK; nth++) {
        assert_true(nth < 1000);
        uop_graph_init(&g);
        x = mk_load(&g, mk_param(&g, 1, UOP_F32), mk_int(&g, 0), 1, NULL, NULL);
        x = uop_alu1(&g, UOP_SIN, x);
        root = mk_store(&g, mk_param(&g, 0, UOP_F32), mk_int(&g, 0), x, NULL);
        host_fail_after(nth, 1);
        status = lower_decompose(&g, &root, 1, &targets[0]);
        host_fail_after(0, 0);
        assert_true(status == BELL_OK || status == BELL_E_NO_MEMORY);
        uop_graph_fini(&g);
    }
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_op),
        cmocka_unit_test(test_every_cast),
        cmocka_unit_test(test_all_small_floats),
        cmocka_unit_test(test_narrow_once),
        cmocka_unit_test(test_abs),
        cmocka_unit_test(test_masked_cast),
        cmocka_unit_test(test_bounds),
        cmocka_unit_test(test_guards_left_out),
        cmocka_unit_test(test_gpu_divisions),
        cmocka_unit_test(test_lanes_reduce_small),
        cmocka_unit_test(test_deep_and_out_of_memory),
    };

    return cmocka_run_group_tests(tests, setup, NULL);
}
