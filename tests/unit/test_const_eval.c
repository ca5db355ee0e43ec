/* What the ops mean on numbers: rounding, wrapping, the corners. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/bits.h"
#include "uops/uop.h"

static int
setup(void **state)
{
    static struct uop_graph g;

    uop_graph_init(&g);
    *state = &g;
    return 0;
}

static int
teardown(void **state)
{
    uop_graph_fini(*state);
    return 0;
}

static int64_t
eval_int(struct uop_graph *g, enum uop_op op, enum uop_dtype dtype, int64_t a,
         int64_t b)
{
    const struct uop *src[2];
    union uop_arg arg = {.i = 0};

    src[0] = uop_const_int(g, dtype, a);
    src[1] = uop_const_int(g, dtype, b);
    assert_true(uop_const_eval(
        op, uop_op_infos[op].flags & UOP_FLAG_CMP ? UOP_BOOL : dtype, src,
        uop_op_infos[op].min_src, &arg));
    return arg.i;
}

static double
eval_float(struct uop_graph *g, enum uop_op op, enum uop_dtype dtype, double a,
           double b)
{
    const struct uop *src[2];
    union uop_arg arg = {.i = 0};

    src[0] = uop_const_float(g, dtype, a);
    src[1] = uop_const_float(g, dtype, b);
    assert_true(uop_const_eval(op, dtype, src, uop_op_infos[op].min_src, &arg));
    return arg.f;
}

static union uop_arg
convert(enum uop_op op, const struct uop *x, enum uop_dtype to)
{
    union uop_arg arg = {.i = 0};

    assert_true(uop_const_eval(op, to, &x, 1, &arg));
    return arg;
}

static void
test_int_corners(void **state)
{
    static const struct {
        enum uop_op op;
        enum uop_dtype dtype;
        int64_t a, b, want;
    } rows[] = {
        {UOP_ADD, UOP_I8, 127, 1, -128},
        {UOP_ADD, UOP_U8, 255, 1, 0},
        {UOP_ADD, UOP_I64, INT64_MAX, 1, INT64_MIN},
        {UOP_ADD, UOP_BOOL, 1, 1, 1},
        {UOP_MUL, UOP_BOOL, 1, 0, 0},
        {UOP_MUL, UOP_I16, 256, 256, 0},
        {UOP_SUB, UOP_U32, 0, 1, UINT32_MAX},
        {UOP_NEG, UOP_I8, -128, 0, -128},
        {UOP_NEG, UOP_U8, 1, 0, 255},
        {UOP_IDIV, UOP_I32, -7, 2, -3},
        {UOP_IDIV, UOP_I32, 7, 0, 0},
        {UOP_IDIV, UOP_I32, INT32_MIN, -1, INT32_MIN},
        {UOP_IDIV, UOP_I64, INT64_MIN, -1, INT64_MIN},
        {UOP_IDIV, UOP_U64, -1, 2, INT64_MAX},
        {UOP_IMOD, UOP_I32, -7, 2, -1},
        {UOP_IMOD, UOP_I32, 7, 0, 0},
        {UOP_IMOD, UOP_I64, INT64_MIN, -1, 0},
        {UOP_FLOORDIV, UOP_I32, -7, 2, -4},
        {UOP_FLOORDIV, UOP_I32, 7, -2, -4},
        {UOP_FLOORDIV, UOP_I32, 7, 0, 0},
        {UOP_FLOORDIV, UOP_I8, -128, -1, -128},
        {UOP_FLOORMOD, UOP_I32, -7, 2, 1},
        {UOP_FLOORMOD, UOP_I32, 7, -2, -1},
        {UOP_FLOORMOD, UOP_I32, 7, 0, 0},
        {UOP_FLOORMOD, UOP_U64, -1, 10, 5},
        {UOP_MAX, UOP_U64, -1, 1, -1},
        {UOP_MIN, UOP_U64, -1, 1, 1},
        {UOP_MAX, UOP_I64, -1, 1, 1},
        {UOP_SHL, UOP_I32, 1, 31, INT32_MIN},
        {UOP_SHL, UOP_I32, 1, 32, 0},
        {UOP_SHL, UOP_I32, 1, -1, 0},
        {UOP_SHL, UOP_U8, 255, 4, 240},
        {UOP_SHR, UOP_I32, -8, 1, -4},
        {UOP_SHR, UOP_I32, -8, 32, -1},
        {UOP_SHR, UOP_I32, 8, 32, 0},
        {UOP_SHR, UOP_U64, -1, 63, 1},
        {UOP_SHR, UOP_U8, 255, 8, 0},
        {UOP_AND, UOP_I8, -1, 15, 15},
        {UOP_OR, UOP_BOOL, 0, 1, 1},
        {UOP_XOR, UOP_BOOL, 1, 1, 0},
        {UOP_CMPLT, UOP_U64, -1, 1, 0},
        {UOP_CMPLT, UOP_I64, -1, 1, 1},
        {UOP_CMPEQ, UOP_I8, 256, 0, 1},
        {UOP_CMPNE, UOP_I8, 256, 0, 0},
    };
    size_t i;

    for (i = 0; i < ARRAY_LEN(rows); i++) {
        int64_t got =
            eval_int(*state, rows[i].op, rows[i].dtype, rows[i].a, rows[i].b);
        if (got != rows[i].want)
            fail_msg("%s %s %lld %lld = %lld, not %lld",
                     uop_op_infos[rows[i].op].name,
                     uop_dtype_infos[rows[i].dtype].name, (long long)rows[i].a,
                     (long long)rows[i].b, (long long)got,
                     (long long)rows[i].want);
    }
}

/* Quotient and remainder belong together for all pairs of int8. */
static void
test_division_law(void **state)
{
    int64_t a, b;

    for (a = -128; a < 128; a++) {
        for (b = -128; b < 128; b++) {
            int64_t q = eval_int(*state, UOP_FLOORDIV, UOP_I8, a, b);
            int64_t r = eval_int(*state, UOP_FLOORMOD, UOP_I8, a, b);
            int64_t tq = eval_int(*state, UOP_IDIV, UOP_I8, a, b);
            int64_t tr = eval_int(*state, UOP_IMOD, UOP_I8, a, b);
            if (b == 0) {
                assert_true(q == 0 && r == 0 && tq == 0 && tr == 0);
                continue;
            }
            assert_int_equal((int8_t)(q * b + r), a);
            assert_int_equal((int8_t)(tq * b + tr), a);
            assert_true(b > 0 ? r >= 0 && r < b : r <= 0 && r > b);
            assert_true(tr == 0 || (tr < 0) == (a < 0));
        }
    }
}

static void
test_rounding(void **state)
{
    (void)state;
    /* ties to even, at the edge of infinity, subnormals */
    assert_true(uop_round_float(UOP_F16, 2049) == 2048);
    assert_true(uop_round_float(UOP_F16, 2051) == 2052);
    assert_true(uop_round_float(UOP_F16, 65519.99) == 65504);
    assert_true(isinf(uop_round_float(UOP_F16, 65520)));
    assert_true(uop_round_float(UOP_F16, 0x1p-25) == 0);
    assert_true(uop_round_float(UOP_F16, 0x1.8p-25) == 0x1p-24);
    assert_true(uop_round_float(UOP_F16, 0x1.8p-24) == 0x1p-23);
    assert_true(signbit(uop_round_float(UOP_F16, -0x1p-30)));
    assert_true(uop_round_float(UOP_BF16, 257) == 256);
    assert_true(uop_round_float(UOP_BF16, 259) == 260);
    assert_true(isinf(uop_round_float(UOP_BF16, 0x1.ffp127)));
    assert_true(uop_round_float(UOP_BF16, 0x1p-133) == 0x1p-133);
    assert_true(uop_round_float(UOP_BF16, 0x1p-134) == 0);
    assert_true(uop_round_float(UOP_F32, 16777217) == 16777216);
    assert_true(uop_round_float(UOP_F64, 0.1) == 0.1);
    assert_true(isnan(uop_round_float(UOP_F16, NAN)));
    assert_int_equal(uop_wrap_int(UOP_I8, 200), -56);
    assert_int_equal(uop_wrap_int(UOP_BOOL, 2), 1);
}

/* What the 256 codes of an 8-bit float are. src: OCP 8-bit Floating Point
 * Specification, table 1; docs/hardware/amd-code.md, "Vector operations": fnuz
 * is one power of two lower, and 0x80 is its NaN. */
static double
f8_value(enum uop_dtype dtype, unsigned code)
{
    bool is_fnuz = dtype == UOP_F8E4M3Z || dtype == UOP_F8E5M2Z;
    bool is_e4 = dtype == UOP_F8E4M3 || dtype == UOP_F8E4M3Z;
    unsigned size = code & 127;
    int n = is_e4 ? 8 : 4, exp = (int)size / n, bias = is_e4 ? 7 : 15;
    double frac = (double)(size % (unsigned)n) / n, value;

    if (is_fnuz && code == 128)
        return NAN;
    if (!is_fnuz && (is_e4 ? size == 127 : size > 124))
        return NAN;
    if (!is_fnuz && !is_e4 && size == 124)
        return code > 127 ? -INFINITY : INFINITY;
    bias += is_fnuz;
    value = exp ? ldexp(1 + frac, exp - bias) : ldexp(frac, 1 - bias);
    return code > 127 ? -value : value;
}

/* Rounded by looking at all codes: the nearest, of two the even one. */
static void
check_f8_rounding(enum uop_dtype dtype, double x)
{
    double best = NAN, got = uop_round_float(dtype, x), greatest = 0, value;
    unsigned code, best_code = 0;

    for (code = 0; code < 128; code++) {
        value = f8_value(dtype, code);
        if (!isfinite(value))
            continue;
        greatest = fmax(greatest, value);
        if (isnan(best) || fabs(value - fabs(x)) < fabs(best - fabs(x)) ||
            (fabs(value - fabs(x)) == fabs(best - fabs(x)) && code % 2 == 0)) {
            best = value;
            best_code = code;
        }
    }
    /* one more, of which there is no code, is the first that is too large */
    value = greatest + (greatest - f8_value(dtype, best_code - 1));
    if (best == greatest &&
        (fabs(x) - greatest > value - fabs(x) ||
         (fabs(x) - greatest == value - fabs(x) && best_code % 2)))
        best = dtype == UOP_F8E5M2 ? INFINITY : NAN;
    if (isnan(best) ? !isnan(got) : fabs(got) != best)
        fail_msg("%a as %s is %a, not %a", x, uop_dtype_infos[dtype].name, got,
                 copysign(best, x));
    if (best != 0 && !isnan(best))
        assert_int_equal(signbit(got) != 0, signbit(x) != 0);
}

static void
test_8_bit_floats(void **state)
{
    static const enum uop_dtype dtypes[] = {UOP_F8E4M3, UOP_F8E5M2, UOP_F8E4M3Z,
                                            UOP_F8E5M2Z};
    unsigned d, code, i;

    (void)state;
    for (d = 0; d < 4; d++) {
        enum uop_dtype dtype = dtypes[d];
        for (code = 0; code < 256; code++) {
            double want = f8_value(dtype, code), next;
            double got = uop_float_value(dtype, code);
            if (isnan(want) ? !isnan(got)
                            : got != want || signbit(got) != signbit(want))
                fail_msg("%s %u is %a, not %a", uop_dtype_infos[dtype].name,
                         code, got, want);
            if (!isfinite(want))
                continue;
            assert_int_equal(uop_float_bits(dtype, want), code);
            assert_true(uop_round_float(dtype, want) == want);
            next = f8_value(dtype, code + 1);
            if (code % 128 == 127 || !isfinite(next))
                next = want * 2;
            for (i = 0; i <= 8; i++)
                check_f8_rounding(dtype, want + (next - want) * i / 8);
        }
        assert_true(isnan(uop_float_value(dtype, uop_float_bits(dtype, NAN))));
        assert_true(isnan(uop_round_float(dtype, -INFINITY)) ==
                    (dtype != UOP_F8E5M2));
    }
    assert_true(uop_round_float(UOP_F8E4M3, 464) == 448);
    assert_true(isnan(uop_round_float(UOP_F8E4M3, 464.1)));
    assert_true(uop_round_float(UOP_F8E4M3Z, 247.9) == 240);
    assert_true(isnan(uop_round_float(UOP_F8E4M3Z, 248)));
    assert_false(signbit(uop_round_float(UOP_F8E4M3Z, -0.0)));
}

static void
test_float_ops(void **state)
{
    struct uop_graph *g = *state;

    assert_true(isnan(eval_float(g, UOP_MAX, UOP_F32, NAN, 1)));
    assert_true(isnan(eval_float(g, UOP_MIN, UOP_F32, 1, NAN)));
    assert_false(signbit(eval_float(g, UOP_MAX, UOP_F32, -0.0, 0.0)));
    assert_true(signbit(eval_float(g, UOP_MIN, UOP_F32, 0.0, -0.0)));
    assert_true(eval_float(g, UOP_LOG2, UOP_F32, 0, 0) == -INFINITY);
    assert_true(isnan(eval_float(g, UOP_LOG2, UOP_F32, -1, 0)));
    assert_true(eval_float(g, UOP_TRUNC, UOP_F32, -2.7, 0) == -2);
    assert_true(eval_float(g, UOP_FDIV, UOP_F32, 1, 0) == INFINITY);
    assert_true(eval_float(g, UOP_ADD, UOP_F16, 2048, 1) == 2048);
    assert_true(eval_float(g, UOP_MUL, UOP_F32, 0x1.000002p0, 0x1.000002p0) ==
                (double)(0x1.000002p0f * 0x1.000002p0f));
    assert_true(eval_float(g, UOP_POW, UOP_F64, 2, 10) == 1024);
    assert_true(eval_float(g, UOP_EXP2, UOP_F16, 16, 0) == INFINITY);
    assert_true(eval_float(g, UOP_SQRT, UOP_F32, 2, 0) == (double)sqrtf(2));
    assert_true(eval_float(g, UOP_RECIP, UOP_F64, -0.0, 0) == -INFINITY);
}

static void
test_mulacc(void **state)
{
    struct uop_graph *g = *state;
    const struct uop *src[3];
    union uop_arg arg;

    src[0] = src[1] = uop_const_float(g, UOP_F32, 0x1.000002p0);
    src[2] = uop_const_float(g, UOP_F32, -0x1.000004p0);
    assert_true(uop_const_eval(UOP_MULACC, UOP_F32, src, 3, &arg));
    assert_true(arg.f == 0x1p-46);
    src[0] = uop_const_int(g, UOP_I8, 100);
    src[1] = uop_const_int(g, UOP_I8, 3);
    src[2] = uop_const_int(g, UOP_I8, 7);
    assert_true(uop_const_eval(UOP_MULACC, UOP_I8, src, 3, &arg));
    assert_int_equal(arg.i, (int8_t)307);
    src[0] = uop_const_int(g, UOP_BOOL, 0);
    assert_true(uop_const_eval(UOP_WHERE, UOP_I8, src, 3, &arg));
    assert_int_equal(arg.i, 7);
}

static void
test_casts(void **state)
{
    struct uop_graph *g = *state;
    const struct uop *big = uop_const_float(g, UOP_F64, 1e30);
    const struct uop *nan = uop_const_float(g, UOP_F32, NAN);

    assert_int_equal(convert(UOP_CAST, big, UOP_I8).i, 127);
    assert_int_equal(convert(UOP_CAST, big, UOP_I64).i, INT64_MAX);
    assert_true(convert(UOP_CAST, big, UOP_U64).i == -1);
    assert_int_equal(
        convert(UOP_CAST, uop_const_float(g, UOP_F32, -1e30), UOP_I64).i,
        INT64_MIN);
    assert_int_equal(
        convert(UOP_CAST, uop_const_float(g, UOP_F32, -5), UOP_U8).i, 0);
    assert_int_equal(
        convert(UOP_CAST, uop_const_float(g, UOP_F32, -1.9), UOP_I32).i, -1);
    assert_int_equal(convert(UOP_CAST, nan, UOP_I32).i, 0);
    assert_int_equal(convert(UOP_CAST, nan, UOP_BOOL).i, 1);
    assert_int_equal(
        convert(UOP_CAST, uop_const_float(g, UOP_F32, -0.0), UOP_BOOL).i, 0);
    assert_int_equal(
        convert(UOP_CAST, uop_const_int(g, UOP_I32, 300), UOP_U8).i, 44);
    assert_int_equal(
        convert(UOP_CAST, uop_const_int(g, UOP_I32, 256), UOP_BOOL).i, 1);
    /* int64 to float32 rounds once: through double this would be a tie */
    assert_true(
        convert(UOP_CAST,
                uop_const_int(g, UOP_I64, (1ll << 60) + (1ll << 36) + 1),
                UOP_F32)
            .f == 0x1p60 + 0x1p37);
    assert_true(convert(UOP_CAST, uop_const_int(g, UOP_U64, -1), UOP_F64).f ==
                0x1p64);
    assert_true(
        isinf(convert(UOP_CAST, uop_const_int(g, UOP_I32, 70000), UOP_F16).f));
    assert_true(
        convert(UOP_CAST, uop_const_float(g, UOP_F64, 0.1), UOP_F32).f ==
        (double)0.1f);
}

/* Every float16 and bfloat16 value goes to bits and back. */
static void
test_bitcasts(void **state)
{
    struct uop_graph *g = *state;
    static const enum uop_dtype types[] = {UOP_F16, UOP_BF16};
    union uop_arg f, back;
    int64_t bits;
    size_t t;

    for (t = 0; t < 2; t++) {
        for (bits = 0; bits < 65536; bits++) {
            const struct uop *x = uop_const_int(g, UOP_U16, bits);
            if (!uop_const_eval(UOP_BITCAST, types[t], &x, 1, &f))
                continue; /* NaN */
            assert_true(uop_round_float(types[t], f.f) == f.f);
            x = uop_const_float(g, types[t], f.f);
            assert_true(uop_const_eval(UOP_BITCAST, UOP_U16, &x, 1, &back));
            assert_int_equal(back.i, bits);
        }
    }
    f = convert(UOP_BITCAST, uop_const_float(g, UOP_F32, 1), UOP_I32);
    assert_int_equal(f.i, 0x3f800000);
    f = convert(UOP_BITCAST, uop_const_float(g, UOP_F64, -2), UOP_U64);
    assert_true((uint64_t)f.i == 0xc000000000000000ull);
    f = convert(UOP_BITCAST, uop_const_int(g, UOP_I32, -1), UOP_U32);
    assert_int_equal(f.i, UINT32_MAX);
}

/* No value: sources that are not constants, ops that have none. */
static void
test_refusals(void **state)
{
    struct uop_graph *g = *state;
    const struct uop *src[3];
    union uop_arg arg;

    src[0] = uop_const_int(g, UOP_I32, 1);
    src[1] = uop_range(g, 0, UOP_AXIS_LOOP, 4);
    src[2] = src[0];
    assert_false(uop_const_eval(UOP_ADD, UOP_I32, src, 2, &arg));
    assert_false(uop_const_eval(UOP_RECIP, UOP_I32, src, 1, &arg));
    assert_false(uop_const_eval(UOP_BITCAST, UOP_I64, src, 1, &arg));
    src[0] = uop_const_float(g, UOP_F32, NAN);
    assert_false(uop_const_eval(UOP_BITCAST, UOP_I32, src, 1, &arg));
    assert_false(uop_const_eval(UOP_AND, UOP_F32, src, 2, &arg));
    src[0] = &uop_failed;
    assert_false(uop_const_eval(UOP_NEG, UOP_VOID, src, 1, &arg));
}

/* Each ALU op and conversion has a value on constants of a dtype it takes. */
static void
test_every_op(void **state)
{
    struct uop_graph *g = *state;
    int op;

    for (op = 0; op < UOP_OP_COUNT; op++) {
        unsigned flags = uop_op_infos[op].flags, i;
        enum uop_dtype dtype = flags & UOP_FLAG_FLT ? UOP_F32 : UOP_I32;
        const struct uop *src[3];
        union uop_arg arg;
        bool alu =
            (flags & UOP_FLAG_ALU) || op == UOP_CAST || op == UOP_BITCAST;
        for (i = 0; i < 3; i++)
            src[i] = uop_const_int(g, dtype, 1);
        if (op == UOP_WHERE)
            src[0] = uop_const_int(g, UOP_BOOL, 1);
        assert_int_equal(
            uop_const_eval(op, dtype, src, uop_op_infos[op].min_src, &arg),
            alu);
    }
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_int_corners, setup, teardown),
        cmocka_unit_test_setup_teardown(test_division_law, setup, teardown),
        cmocka_unit_test_setup_teardown(test_rounding, setup, teardown),
        cmocka_unit_test_setup_teardown(test_8_bit_floats, setup, teardown),
        cmocka_unit_test_setup_teardown(test_float_ops, setup, teardown),
        cmocka_unit_test_setup_teardown(test_mulacc, setup, teardown),
        cmocka_unit_test_setup_teardown(test_casts, setup, teardown),
        cmocka_unit_test_setup_teardown(test_bitcasts, setup, teardown),
        cmocka_unit_test_setup_teardown(test_refusals, setup, teardown),
        cmocka_unit_test_setup_teardown(test_every_op, setup, teardown),
    };

    return cmocka_run_group_tests_name("const_eval", tests, NULL, NULL);
}
