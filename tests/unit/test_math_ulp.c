/* How many units in the last place exp2, log2, sin, cos and pow are off, over
 * the whole range: every exponent, subnormals, huge arguments, neighbourhoods
 * of the hard points. Prints what it finds. References are the C library's
 * functions of the next wider type. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <float.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/bits.h"
#include "base/map.h"
#include "host_run.h"
#include "p_interp.h"
#include "sanitized.h"

#define CHUNK 65536

#define CHUNKS_F32 (IS_SANITIZED ? 16 : 160) /* 10 Mi values */
#define CHUNKS_F64 (IS_SANITIZED ? 2 : 16)

static struct lower_target targets[3]; /* with multiply-add, without it, and
                                        * without float64 */

static int
setup(void **state)
{
    (void)state;
    if (render_host_target(&targets[0]) != BELL_OK)
        return -1;
    targets[1] = targets[0];
    targets[1].has_fma = false;
    targets[2] = targets[1];
    targets[2].lacks_f64 = true;
    targets[2].flushes_f32 = true; /* whether the processor does or not */
    return 0;
}

/* A function compiled: out[i] = op(a[i] [, b[i]]) for CHUNK elements. */
struct function {
    struct uop_graph g;
    struct lower_program p;
    struct host_code code;
    enum uop_op op;
    enum uop_dtype dtype;
    void *bufs[3];
};

static void
function_make(struct function *f, enum uop_op op, enum uop_dtype dtype,
              const struct lower_target *target)
{
    const struct uop *src[2], *range, *at, *root;
    uint32_t n = uop_op_infos[op].min_src, lanes, i;

    f->op = op;
    f->dtype = dtype;
    uop_graph_init(&f->g);
    lanes = target->vector_bytes / uop_dtype_infos[dtype].size_bytes;
    range = uop_range(&f->g, 0, UOP_AXIS_LOOP, CHUNK / lanes);
    at = uop_alu2(&f->g, UOP_MUL, range, mk_int(&f->g, lanes));
    for (i = 0; i < n; i++)
        src[i] = mk_load(&f->g, mk_param(&f->g, 1 + i, dtype), at, lanes, NULL,
                         NULL);
    root = mk(&f->g, op, dtype, lanes, 0, n, src);
    root = mk_store(&f->g, mk_param(&f->g, 0, dtype), at, root, NULL);
    root = mk_end(&f->g, range, root);
    assert_int_equal(lower_decompose(&f->g, &root, 1, target), BELL_OK);
    program_of(&f->g, &root, 1, &f->p);
    host_compile(&f->p, target, &f->code);
    for (i = 0; i < 3; i++)
        f->bufs[i] = host_aligned(64, CHUNK * 8);
}

static void
function_free(struct function *f)
{
    int i;

    for (i = 0; i < 3; i++)
        host_free(f->bufs[i]);
    host_release(&f->code);
    program_free(&f->p);
    uop_graph_fini(&f->g);
}

/* ---- arguments ---- */

/* Every exponent equally often, both signs. */
static float
any_f32(uint64_t *rng)
{
    uint32_t bits = (uint32_t)(next_random(rng) >> 32);
    float x;

    memcpy(&x, &bits, 4);
    return x;
}

static double
any_f64(uint64_t *rng)
{
    uint64_t bits = next_random(rng);
    double x;

    memcpy(&x, &bits, 8);
    return x;
}

/* Half of the arguments where the function is interesting, half anywhere. */
static double
argument(enum uop_op op, bool is_f64, uint64_t *rng)
{
    double r = (double)(int64_t)next_random(rng) * 0x1p-63; /* -1..1 */
    uint64_t how = next_random(rng) % 4;

    if (how >= 2)
        return is_f64 ? any_f64(rng) : (double)any_f32(rng);
    switch ((unsigned)op) {
    case UOP_EXP2:
        return r * (how ? 2 : is_f64 ? 1100 : 160);
    case UOP_LOG2:
        return how ? 1 + r * 0.75 : fabs(r) * 100;
    default: /* SIN: around multiples of pi/2, and up to the bound */
        if (how) {
            double k = (double)(next_random(rng) % 8192);
            return k * M_PI_2 * (1 + r * 0x1p-20);
        }
        return r * (is_f64 ? 0x1p21 : 0x1p14);
    }
}

/* ---- errors ---- */

static double
f32_reference(enum uop_op op, double x)
{
    return op == UOP_EXP2   ? exp2(x)
           : op == UOP_LOG2 ? log2(x)
           : op == UOP_SIN  ? sin(x)
                            : cos(x);
}

static long double
f64_reference(enum uop_op op, double x)
{
    return op == UOP_EXP2   ? exp2l((long double)x)
           : op == UOP_LOG2 ? log2l((long double)x)
           : op == UOP_SIN  ? sinl((long double)x)
                            : cosl((long double)x);
}

/* |got - want| in units of want's last place in a format of `fraction` bits
 * whose smallest normal exponent is `min_exp`; -1 where NaN or infinity are
 * not as they should be. */
static double
ulps(long double got, long double want, int fraction, int min_exp, int max_exp)
{
    int exp;

    if (isnan(want) || isnan(got))
        return isnan(want) && isnan(got) ? 0 : -1;
    if (fabsl(want) >= ldexpl(2 - ldexpl(1, -fraction - 1), max_exp))
        want = want > 0 ? INFINITY : -INFINITY; /* rounds to it */
    if (isinf(want) || isinf(got))
        return want == got ? 0 : -1;
    if (want == 0)
        return got == 0 ? 0 : (double)ldexpl(fabsl(got), fraction - min_exp);
    frexpl(want, &exp);
    exp = exp - 1 < min_exp ? min_exp : exp - 1;
    return (double)ldexpl(fabsl(got - want), fraction - exp);
}

struct worst {
    double ulp, x, y;
};

static void
note(struct worst *w, double ulp, double x, double y)
{
    if (ulp < 0)
        fail_msg("NaN or infinity is wrong for %a, %a", x, y);
    if (ulp > w->ulp)
        *w = (struct worst){ulp, x, y};
}

static void
report(const struct function *f, const struct lower_target *target,
       const struct worst *w, size_t n, double limit)
{
    print_message("%s %s%s: %.3f ulp at %a, %a, of %zu values\n",
                  uop_op_infos[f->op].name,
                  uop_dtype_infos[f->dtype].short_name,
                  target->has_fma     ? ""
                  : target->lacks_f64 ? " without multiply-add and float64"
                                      : " without multiply-add",
                  w->ulp, w->x, w->y, n);
    assert_true(w->ulp <= limit);
}

static void
check_f32(enum uop_op op, const struct lower_target *target, unsigned chunks,
          double limit)
{
    struct function f;
    struct worst w = {0};
    uint64_t rng = op;
    float *out, *in;
    unsigned c, i;

    function_make(&f, op, UOP_F32, target);
    out = f.bufs[0];
    in = f.bufs[1];
    for (c = 0; c < chunks; c++) {
        for (i = 0; i < CHUNK; i++)
            in[i] = (float)argument(op, false, &rng);
        host_call(&f.code, &f.p, f.bufs);
        for (i = 0; i < CHUNK; i++)
            note(&w,
                 ulps(out[i], f32_reference(op, (double)in[i]), 23, -126, 127),
                 (double)in[i], 0);
    }
    report(&f, target, &w, (size_t)chunks * CHUNK, limit);
    function_free(&f);
}

static void
check_f64(enum uop_op op, const struct lower_target *target, unsigned chunks,
          double limit)
{
    struct function f;
    struct worst w = {0};
    uint64_t rng = op;
    double *out, *in;
    unsigned c, i;

    function_make(&f, op, UOP_F64, target);
    out = f.bufs[0];
    in = f.bufs[1];
    for (c = 0; c < chunks; c++) {
        for (i = 0; i < CHUNK; i++)
            in[i] = argument(op, true, &rng);
        host_call(&f.code, &f.p, f.bufs);
        for (i = 0; i < CHUNK; i++)
            note(&w, ulps(out[i], f64_reference(op, in[i]), 52, -1022, 1023),
                 in[i], 0);
    }
    report(&f, target, &w, (size_t)chunks * CHUNK, limit);
    function_free(&f);
}

static void
test_f32(void **state)
{
    static const enum uop_op ops[] = {UOP_EXP2, UOP_LOG2, UOP_SIN, UOP_COS};
    unsigned i;

    (void)state;
    for (i = 0; i < ARRAY_LEN(ops); i++) {
        check_f32(ops[i], &targets[0], CHUNKS_F32, 2);
        check_f32(ops[i], &targets[1], CHUNKS_F32 / 8, 2);
        check_f32(ops[i], &targets[2], CHUNKS_F32 / 8, 2);
    }
}

/* Where sums and products take subnormal numbers for 0: 0 where the result is
 * subnormal, and else as exact as ever. */
static void
test_f32_flushing(void **state)
{
    static const enum uop_op ops[] = {UOP_EXP2, UOP_LOG2, UOP_SIN, UOP_COS,
                                      UOP_POW};
    static float data[3][CHUNK];
    struct p_buf bufs[3];
    char err[256];
    unsigned i, k;

    (void)state;
    for (k = 0; k < 3; k++)
        bufs[k] = (struct p_buf){UOP_F32, CHUNK, data[k]};
    for (i = 0; i < CHUNK; i++) { /* every subnormal exponent */
        uint32_t bits = (i & 1) << 31 | (i * 2654435761u >> 9) >> i / 2 % 25;
        memcpy(&data[1][i], &bits, 4);
        data[2][i] = i % 3 ? 0.25f : -0.125f;
    }
    for (k = 0; k < ARRAY_LEN(ops); k++) {
        struct function f;
        struct worst w = {0};
        function_make(&f, ops[k], UOP_F32, &targets[2]);
        if (p_run_flushing(&f.p, bufs, f.p.n_params, err, sizeof(err)) != 0)
            fail_msg("%s", err);
        for (i = 0; i < CHUNK; i++) {
            double x = (double)data[1][i], y = (double)data[2][i];
            double want =
                ops[k] == UOP_POW ? pow(x, y) : f32_reference(ops[k], x);
            if (fabs(want) < 0x1p-126 && data[0][i] == 0)
                continue;
            note(&w, ulps(data[0][i], want, 23, -126, 127), x, y);
        }
        report(&f, &targets[2], &w, CHUNK, 2);
        function_free(&f);
    }
}

static double
quotient_down(double x, double y)
{
    double r = fmod(x, y), q = (x - r) / y; /* exact but where it is great */

    if (isinf(x))
        return (double)NAN;
    return r != 0 && (r < 0) != (y < 0) ? q - 1 : q;
}

/* Remainders are exact there, and of the quotients those that a float holds
 * with its neighbours. */
static void
test_remainders_flushing(void **state)
{
    static float data[3][CHUNK];
    struct p_buf bufs[3];
    char err[256];
    uint64_t rng = 5;
    unsigned i, k;

    (void)state;
    for (k = 0; k < 3; k++)
        bufs[k] = (struct p_buf){UOP_F32, CHUNK, data[k]};
    for (i = 0; i < CHUNK; i++) {
        do
            data[1][i] = any_f32(&rng);
        while (isnan(data[1][i])); /* its bits are for others to test */
        do
            data[2][i] = any_f32(&rng);
        while (isnan(data[2][i]));
        if (i % 2) /* of about the same size */
            data[2][i] = data[1][i] / (float)(1 + next_random(&rng) % 99);
        if (i % 4 > 1) { /* subnormal, or nearly so */
            data[1][i] = ldexpf(frexpf(data[1][i], &(int){0}), -126 - i % 20);
            data[2][i] = ldexpf(frexpf(data[2][i], &(int){0}), -120 - i % 29);
        }
    }
    for (k = 0; k < 2; k++) {
        struct function f;
        function_make(&f, k ? UOP_FFLOORDIV : UOP_FMOD, UOP_F32, &targets[2]);
        if (p_run_flushing(&f.p, bufs, 3, err, sizeof(err)) != 0)
            fail_msg("%s", err);
        for (i = 0; i < CHUNK; i++) {
            double x = (double)data[1][i], y = (double)data[2][i];
            double want = k ? quotient_down(x, y) : fmod(x, y);
            double got = (double)data[0][i];
            if (k && !(fabs(want) < 0x1p24))
                continue;
            if (got != want && !(isnan(got) && isnan(want)))
                fail_msg("%s of %a and %a is %a, not %a",
                         uop_op_infos[f.op].name, x, y, got, want);
        }
        function_free(&f);
    }
}

/* Whole powers of two and their logarithms, the sine and the cosine of 0: what
 * the dtype holds is met to the bit, which comparisons and casts ask about. */
static void
test_exact(void **state)
{
    static const struct {
        enum uop_op op;
        double (*want)(double);
    } ops[] = {
        {UOP_EXP2, exp2}, {UOP_LOG2, log2}, {UOP_SIN, sin}, {UOP_COS, cos}};
    unsigned k, t, i;

    (void)state;
    for (k = 0; k < ARRAY_LEN(ops); k++) {
        for (t = 0; t < 2 * ARRAY_LEN(targets) - 1; t++) {
            bool is_f64 = t >= ARRAY_LEN(targets);
            int least = is_f64 ? -1074 : -149, most = is_f64 ? 1023 : 127;
            struct function f;
            function_make(&f, ops[k].op, is_f64 ? UOP_F64 : UOP_F32,
                          &targets[t % ARRAY_LEN(targets)]);
            for (i = 0; i < CHUNK; i++) {
                double x = least + (int)i % (most - least + 1);
                if (ops[k].op == UOP_LOG2)
                    x = ldexp(1, (int)x);
                else if (ops[k].op != UOP_EXP2)
                    x = i % 2 ? 0.0 : -0.0;
                if (is_f64)
                    ((double *)f.bufs[1])[i] = x;
                else
                    ((float *)f.bufs[1])[i] = (float)x;
            }
            host_call(&f.code, &f.p, f.bufs);
            for (i = 0; i < CHUNK; i++) {
                double x = is_f64 ? ((double *)f.bufs[1])[i]
                                  : (double)((float *)f.bufs[1])[i];
                double got = is_f64 ? ((double *)f.bufs[0])[i]
                                    : (double)((float *)f.bufs[0])[i];
                if (got != ops[k].want(x))
                    fail_msg("%s of %a is %a", uop_op_infos[f.op].name, x, got);
            }
            function_free(&f);
        }
    }
}

/* Floats next to multiples of pi/2, where little is left of them, and on both
 * sides of where the reductions change. */
static void
test_f32_near_quarters(void **state)
{
    struct function f;
    struct worst w;
    unsigned t, i;
    float *x, *y;

    (void)state;
    for (t = 0; t < 2 * ARRAY_LEN(targets); t++) {
        enum uop_op op = t % 2 ? UOP_SIN : UOP_COS;
        const struct lower_target *target = &targets[t / 2];
        memset(&w, 0, sizeof(w));
        function_make(&f, op, UOP_F32, target);
        x = f.bufs[1];
        y = f.bufs[0];
        for (i = 0; i < CHUNK; i++) {
            x[i] = (float)(i / 4 * 1.57079632679489661923);
            x[i] = i % 4 == 1   ? nextafterf(x[i], 0)
                   : i % 4 == 2 ? nextafterf(x[i], INFINITY)
                   : i % 4 == 3 ? ldexpf(x[i], 20 + (int)(i % 64))
                                : x[i];
        }
        host_call(&f.code, &f.p, f.bufs);
        for (i = 0; i < CHUNK; i++)
            note(&w, ulps(y[i], f32_reference(op, (double)x[i]), 23, -126, 127),
                 (double)x[i], 0);
        report(&f, target, &w, CHUNK, 2);
        function_free(&f);
    }
}

static void
test_f64(void **state)
{
    static const enum uop_op ops[] = {UOP_EXP2, UOP_LOG2, UOP_SIN, UOP_COS};
    unsigned i;

    (void)state;
    for (i = 0; i < ARRAY_LEN(ops); i++) {
        check_f64(ops[i], &targets[0], CHUNKS_F64, 4);
        check_f64(ops[i], &targets[1], CHUNKS_F64 / 2, 4);
    }
}

/* Every positive exponent of huge arguments, where reduction is all. */
static void
test_sin_huge(void **state)
{
    unsigned t;

    (void)state;
    for (t = 0; t < 4; t++) {
        enum uop_op op = t < 2 ? UOP_SIN : UOP_COS;
        struct function f;
        struct worst w = {0};
        uint64_t rng = 9;
        unsigned i;
        double *x, *y;
        function_make(&f, op, UOP_F64, &targets[t % 2]);
        x = f.bufs[1];
        y = f.bufs[0];
        for (i = 0; i < CHUNK; i++) {
            double m = 1 + (double)(next_random(&rng) >> 12) * 0x1p-52;
            x[i] = ldexp(m, (int)(i % 1024));
        }
        x[0] = 0x1.6ac5b262ca1ffp+849; /* the double nearest to a multiple */
        host_call(&f.code, &f.p, f.bufs);
        for (i = 0; i < CHUNK; i++)
            note(&w, ulps(y[i], f64_reference(op, x[i]), 52, -1022, 1023), x[i],
                 0);
        report(&f, &targets[t % 2], &w, CHUNK, 4);
        function_free(&f);
    }
}

/* ---- pow ---- */

static double
pow_base(uint64_t *rng, bool is_f64)
{
    double r = (double)(int64_t)next_random(rng) * 0x1p-63;

    switch (next_random(rng) % 3) {
    case 0:
        return 1 + r * 0.1;
    case 1:
        return r * 20;
    default:
        return is_f64 ? fabs(any_f64(rng)) : fabs((double)any_f32(rng));
    }
}

static double
pow_exponent(uint64_t *rng, double base, double range)
{
    double r = (double)(int64_t)next_random(rng) * 0x1p-63;
    double l = fabs(log2(fabs(base)));

    if (next_random(rng) % 4 == 0 || !(l > 0) || isinf(l))
        return nearbyint(r * 20);
    return r * range / l; /* results over the whole range */
}

static void
check_pow(enum uop_dtype dtype, const struct lower_target *target,
          unsigned chunks, double limit)
{
    bool is_f64 = dtype == UOP_F64;
    struct function f;
    struct worst w = {0};
    uint64_t rng = 12;
    unsigned c, i;

    function_make(&f, UOP_POW, dtype, target);
    for (c = 0; c < chunks; c++) {
        for (i = 0; i < CHUNK; i++) {
            double x = pow_base(&rng, is_f64);
            double y = pow_exponent(&rng, x, is_f64 ? 1100 : 160);
            if (is_f64) {
                ((double *)f.bufs[1])[i] = x;
                ((double *)f.bufs[2])[i] = y;
            } else {
                ((float *)f.bufs[1])[i] = (float)x;
                ((float *)f.bufs[2])[i] = (float)y;
            }
        }
        host_call(&f.code, &f.p, f.bufs);
        for (i = 0; i < CHUNK; i++) {
            double x = is_f64 ? ((double *)f.bufs[1])[i]
                              : (double)((float *)f.bufs[1])[i];
            double y = is_f64 ? ((double *)f.bufs[2])[i]
                              : (double)((float *)f.bufs[2])[i];
            double e = is_f64 ? ulps(((double *)f.bufs[0])[i],
                                     powl((long double)x, (long double)y), 52,
                                     -1022, 1023)
                              : ulps(((float *)f.bufs[0])[i], pow(x, y), 23,
                                     -126, 127);
            note(&w, e, x, y);
        }
    }
    report(&f, target, &w, (size_t)chunks * CHUNK, limit);
    function_free(&f);
}

static void
test_pow(void **state)
{
    (void)state;
    check_pow(UOP_F32, &targets[0], CHUNKS_F64, 1);
    check_pow(UOP_F32, &targets[1], CHUNKS_F64, 1);
    check_pow(UOP_F32, &targets[2], CHUNKS_F64, 1);
    check_pow(UOP_F64, &targets[0], CHUNKS_F64, 1);
    check_pow(UOP_F64, &targets[1], CHUNKS_F64, 1);
}

/* A case whose result the dtype holds: x^0, x^1, or (m 2^k)^n, its root of
 * power 1/2 or 1/4, or its reciprocal. Fails where the numbers do not fit. */
static bool
draw_exact(uint64_t *rng, bool is_f64, double *x, double *y, double *want)
{
    int bits = is_f64 ? 53 : 24, least = is_f64 ? -1074 : -149, k, n, i;
    double most = is_f64 ? DBL_MAX : (double)FLT_MAX, m, power = 1;
    uint64_t how = next_random(rng) % 8;

    *x = is_f64 ? any_f64(rng) : (double)any_f32(rng);
    if (how < 3) {
        *y = how > 0;
        *want = how > 0 ? *x : 1;
        return !isnan(*x);
    }
    n = (int)(next_random(rng) % 24);
    m = (double)(next_random(rng) % (how == 3 ? 2 : 1u << 12) | 1);
    k = (int)(next_random(rng) % 64) - 32;
    for (i = 0; i < n; i++)
        power *= m; /* exact while it fits */
    if (power > ldexp(1, bits) || k * n < least)
        return false;
    power = ldexp(power, k * n);
    m = ldexp(next_random(rng) % 2 ? m : -m, k);
    if (n % 2 && m < 0)
        power = -power;
    *x = m;
    *y = n;
    *want = power;
    if (how == 4 && (n == 2 || n == 4)) {
        *x = power;
        *y = 1.0 / n;
        *want = fabs(m);
    }
    if (how == 5) { /* a power of two alone has a reciprocal */
        *y = -n;
        *want = 1 / power;
        if (fabs(frexp(m, &i)) != 0.5)
            return false;
    }
    return fabs(*x) <= most && fabs(power) <= most && fabs(*want) <= most &&
           fabs(*want) >= ldexp(1, least);
}

/* A result that the dtype holds is that, to the bit. */
static void
test_pow_exact(void **state)
{
    unsigned d, t, i;

    (void)state;
    for (d = 0; d < 2; d++) {
        for (t = 0; t < (d ? 2 : 3); t++) {
            struct function f;
            static double want[CHUNK];
            double *x64, *y64, *got64, x, y, got;
            float *x32, *y32, *got32;
            uint64_t rng = 31 + t;
            function_make(&f, UOP_POW, d ? UOP_F64 : UOP_F32, &targets[t]);
            got32 = f.bufs[0], got64 = f.bufs[0];
            x32 = f.bufs[1], x64 = f.bufs[1];
            y32 = f.bufs[2], y64 = f.bufs[2];
            for (i = 0; i < CHUNK; i++) {
                while (!draw_exact(&rng, d, &x, &y, &want[i]))
                    continue;
                if (d)
                    x64[i] = x, y64[i] = y;
                else
                    x32[i] = (float)x, y32[i] = (float)y;
            }
            host_call(&f.code, &f.p, f.bufs);
            for (i = 0; i < CHUNK; i++) {
                x = d ? x64[i] : (double)x32[i];
                y = d ? y64[i] : (double)y32[i];
                got = d ? got64[i] : (double)got32[i];
                if (got != want[i] || signbit(got) != signbit(want[i]))
                    fail_msg("%s %u: pow(%a, %a) is %a, not %a",
                             d ? "f64" : "f32", t, x, y, got, want[i]);
            }
            function_free(&f);
        }
    }
}

/* All pairs of awkward values. */
static void
test_pow_specials(void **state)
{
    static const double v[] = {0.0,
                               -0.0,
                               1.0,
                               -1.0,
                               2.0,
                               -2.0,
                               0.5,
                               -0.5,
                               3.0,
                               -3.0,
                               2.5,
                               -2.5,
                               NAN,
                               7.0,
                               -8.0,
                               INFINITY,
                               -INFINITY,
                               1e30,
                               -1e30,
                               0x1p-149,
                               0x1p53,
                               0x1p52,
                               -0x1p60,
                               4503599627370497.0,
                               9007199254740993.0};
    static const enum uop_dtype dtypes[] = {UOP_F32, UOP_F64};
    unsigned d, t, i, j, n = ARRAY_LEN(v);

    (void)state;
    for (d = 0; d < 2; d++) {
        for (t = 0; t < (d ? 2 : 3); t++) {
            struct function f;
            function_make(&f, UOP_POW, dtypes[d], &targets[t]);
            memset(f.bufs[1], 0, CHUNK * 8);
            memset(f.bufs[2], 0, CHUNK * 8);
            for (i = 0; i < n * n; i++) {
                if (d) {
                    ((double *)f.bufs[1])[i] = v[i / n];
                    ((double *)f.bufs[2])[i] = v[i % n];
                } else {
                    ((float *)f.bufs[1])[i] = (float)v[i / n];
                    ((float *)f.bufs[2])[i] = (float)v[i % n];
                }
            }
            host_call(&f.code, &f.p, f.bufs);
            for (i = 0; i < n; i++) {
                for (j = 0; j < n; j++) {
                    double got, want;
                    if (d) {
                        got = ((double *)f.bufs[0])[i * n + j];
                        want = pow(v[i], v[j]);
                    } else {
                        got = (double)((float *)f.bufs[0])[i * n + j];
                        want = (double)(float)pow((double)(float)v[i],
                                                  (double)(float)v[j]);
                    }
                    if (isnan(want)
                            ? !isnan(got)
                            : signbit(got) != signbit(want) ||
                                  !(got == want ||
                                    fabs(got - want) <= 1e-6 * fabs(want)))
                        fail_msg("pow(%a, %a) is %a, not %a", v[i], v[j], got,
                                 want);
                }
            }
            function_free(&f);
        }
    }
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_f32),
        cmocka_unit_test(test_f32_flushing),
        cmocka_unit_test(test_remainders_flushing),
        cmocka_unit_test(test_exact),
        cmocka_unit_test(test_f32_near_quarters),
        cmocka_unit_test(test_f64),
        cmocka_unit_test(test_sin_huge),
        cmocka_unit_test(test_pow),
        cmocka_unit_test(test_pow_exact),
        cmocka_unit_test(test_pow_specials),
    };

    return cmocka_run_group_tests(tests, setup, NULL);
}
