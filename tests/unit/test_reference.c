/* The reference evaluator against values computed by hand: every op of the
 * tensor graph, every dtype's rounding, errors, memory. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "base/bits.h"
#include "reference/reference.h"
#include "sanitized.h"

/* ---- building graphs -------------------------------------------------- */

static struct uop_graph graph;

static int
set_up(void **state)
{
    (void)state;
    uop_graph_init(&graph);
    return 0;
}

static int
tear_down(void **state)
{
    (void)state;
    uop_graph_fini(&graph);
    host_fail_after(0, 0);
    return 0;
}

#define DIMS(...)                                                              \
    uop_dims(&graph, (int64_t[]){__VA_ARGS__},                                 \
             sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t))
#define SCALAR uop_dims(&graph, (int64_t[]){0}, 0)

/* A leaf whose elements are `values`, of the storage type of `dtype`. */
static const struct uop *
leaf(enum uop_dtype dtype, const struct uop_dims *shape, const void *values)
{
    union uop_arg arg = {.data = values};

    return uop_new_shaped(&graph, UOP_BUFFER, dtype, arg, NULL, 0, shape);
}

static bell_status
fill_leaf(void *user, const struct uop *u, struct ref_array *array)
{
    (void)user;
    ref_from_bytes(array, u->arg.data);
    return BELL_OK;
}

#define F64S(shape, ...)                                                       \
    leaf(UOP_F64, shape,                                                       \
         arena_copy(&graph.arena, (double[]){__VA_ARGS__},                     \
                    sizeof((double[]){__VA_ARGS__})))
#define F32S(shape, ...)                                                       \
    leaf(UOP_F32, shape,                                                       \
         arena_copy(&graph.arena, (float[]){__VA_ARGS__},                      \
                    sizeof((float[]){__VA_ARGS__})))
#define I32S(shape, ...)                                                       \
    leaf(UOP_I32, shape,                                                       \
         arena_copy(&graph.arena, (int32_t[]){__VA_ARGS__},                    \
                    sizeof((int32_t[]){__VA_ARGS__})))
#define I8S(shape, ...)                                                        \
    leaf(UOP_I8, shape,                                                        \
         arena_copy(&graph.arena, (int8_t[]){__VA_ARGS__},                     \
                    sizeof((int8_t[]){__VA_ARGS__})))
#define U8S(shape, ...)                                                        \
    leaf(UOP_U8, shape,                                                        \
         arena_copy(&graph.arena, (uint8_t[]){__VA_ARGS__},                    \
                    sizeof((uint8_t[]){__VA_ARGS__})))
#define U64S(shape, ...)                                                       \
    leaf(UOP_U64, shape,                                                       \
         arena_copy(&graph.arena, (uint64_t[]){__VA_ARGS__},                   \
                    sizeof((uint64_t[]){__VA_ARGS__})))
#define I64S(shape, ...)                                                       \
    leaf(UOP_I64, shape,                                                       \
         arena_copy(&graph.arena, (int64_t[]){__VA_ARGS__},                    \
                    sizeof((int64_t[]){__VA_ARGS__})))
#define BOOLS(shape, ...)                                                      \
    leaf(UOP_BOOL, shape,                                                      \
         arena_copy(&graph.arena, (uint8_t[]){__VA_ARGS__},                    \
                    sizeof((uint8_t[]){__VA_ARGS__})))

static const struct uop *
op1(enum uop_op op, const struct uop *a)
{
    union uop_arg arg = {.bits = 0};

    return uop_new_shaped(&graph, op, a->dtype, arg, &a, 1,
                          uop_shape(&graph, a));
}

static const struct uop *
op2(enum uop_op op, const struct uop *a, const struct uop *b)
{
    const struct uop *src[] = {a, b};
    union uop_arg arg = {.bits = 0};
    bool cmp = (uop_op_infos[op].flags & UOP_FLAG_CMP) != 0;

    return uop_new_shaped(&graph, op, cmp ? UOP_BOOL : a->dtype, arg, src, 2,
                          uop_shape(&graph, a->op == UOP_CONST ? b : a));
}

static const struct uop *
multiply_add(const struct uop *a, const struct uop *b, const struct uop *c)
{
    const struct uop *src[] = {a, b, c};
    union uop_arg arg = {.bits = 0};

    return uop_new_shaped(&graph, UOP_MULACC, a->dtype, arg, src, 3,
                          uop_shape(&graph, a));
}

static const struct uop *
convert(enum uop_op op, enum uop_dtype dtype, const struct uop *a)
{
    union uop_arg arg = {.bits = 0};

    return uop_new_shaped(&graph, op, dtype, arg, &a, 1, uop_shape(&graph, a));
}

static const struct uop *
move(enum uop_op op, const struct uop *a, const struct uop_dims *shape,
     const struct uop_dims *dims)
{
    union uop_arg arg = {.dims = dims};

    return uop_new_shaped(&graph, op, a->dtype, arg, &a, 1, shape);
}

static const struct uop *
with_int(enum uop_op op, const struct uop *a, const struct uop_dims *shape,
         int64_t i)
{
    union uop_arg arg = {.i = i};

    return uop_new_shaped(&graph, op, a->dtype, arg, &a, 1, shape);
}

static const struct uop *
reduce(enum uop_op op, const struct uop *a, const struct uop_dims *shape,
       uint32_t axes)
{
    return with_int(UOP_REDUCE_AXIS, a, shape, uop_reduce_arg(op, axes));
}

/* ---- checking --------------------------------------------------------- */

static struct ref_array
eval(const struct uop *u)
{
    struct ref_array out;

    assert_int_equal(ref_eval(&graph, &u, 1, fill_leaf, NULL, NULL, &out),
                     BELL_OK);
    assert_int_equal(out.dtype, u->dtype);
    return out;
}

static void
check_floats(const struct uop *u, const double *want, size_t n, int line)
{
    struct ref_array out = eval(u);
    size_t k;

    assert_true(uop_dtype_infos[out.dtype].is_float);
    assert_int_equal(out.n, n);
    for (k = 0; k < n; k++) {
        bool same = isnan(want[k])
                        ? isnan(out.f[k]) != 0
                        : out.f[k] == want[k] &&
                              !signbit(out.f[k]) == !signbit(want[k]);
        if (!same)
            fail_msg("line %d, element %zu: %.17g, not %.17g", line, k,
                     out.f[k], want[k]);
    }
    ref_array_fini(&out);
}

static void
check_ints(const struct uop *u, const int64_t *want, size_t n, int line)
{
    struct ref_array out = eval(u);
    size_t k;

    assert_false(uop_dtype_infos[out.dtype].is_float);
    assert_int_equal(out.n, n);
    for (k = 0; k < n; k++) {
        if (out.i[k] != want[k])
            fail_msg("line %d, element %zu: %lld, not %lld", line, k,
                     (long long)out.i[k], (long long)want[k]);
    }
    ref_array_fini(&out);
}

#define FLOATS(u, ...)                                                         \
    check_floats(u, (double[]){__VA_ARGS__},                                   \
                 sizeof((double[]){__VA_ARGS__}) / sizeof(double), __LINE__)
#define INTS(u, ...)                                                           \
    check_ints(u, (int64_t[]){__VA_ARGS__},                                    \
               sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t), __LINE__)

static void
refuses(const struct uop *u, const char *what)
{
    struct ref_array out = {.n = 77};
    bell_status status = ref_eval(&graph, &u, 1, fill_leaf, NULL, NULL, &out);

    assert_int_equal(status, BELL_E_INVALID);
    assert_non_null(strstr(bell_error_last()->message, what));
    assert_int_equal(out.n, 77);
}

/* ---- leaves and movement ---------------------------------------------- */

static void
test_leaves(void **state)
{
    union uop_arg five = {.i = 5};
    const struct uop *iota;

    (void)state;
    INTS(uop_const_int(&graph, UOP_I8, 200), -56);
    INTS(uop_const_int(&graph, UOP_U64, -1), -1);
    FLOATS(uop_const_float(&graph, UOP_F16, 0.1), 0.0999755859375);
    FLOATS(F32S(DIMS(2, 2), 1, -2.5f, 0, 1e30f), 1, -2.5, 0, 1e30f);
    INTS(I8S(DIMS(3), -128, 0, 127), -128, 0, 127);
    INTS(BOOLS(DIMS(3), 0, 1, 7), 0, 1, 1);
    iota = uop_new_shaped(&graph, UOP_IOTA, UOP_I64, five, NULL, 0, DIMS(5));
    INTS(iota, 0, 1, 2, 3, 4);
    iota = uop_new_shaped(&graph, UOP_IOTA, UOP_F32, five, NULL, 0, DIMS(5));
    FLOATS(iota, 0, 1, 2, 3, 4);
}

static void
test_reshape_permute(void **state)
{
    const struct uop *x = I32S(DIMS(2, 3), 1, 2, 3, 4, 5, 6);
    const struct uop *y = I32S(DIMS(2, 1, 2), 1, 2, 3, 4);

    (void)state;
    INTS(move(UOP_RESHAPE, x, DIMS(3, 2), DIMS(3, 2)), 1, 2, 3, 4, 5, 6);
    INTS(move(UOP_PERMUTE, x, DIMS(3, 2), DIMS(1, 0)), 1, 4, 2, 5, 3, 6);
    INTS(move(UOP_PERMUTE, y, DIMS(2, 2, 1), DIMS(2, 0, 1)), 1, 3, 2, 4);
    INTS(move(UOP_RESHAPE, uop_const_int(&graph, UOP_I32, 9), DIMS(1, 1),
              DIMS(1, 1)),
         9);
}

static void
test_expand_pad_shrink_flip(void **state)
{
    const struct uop *row = I32S(DIMS(1, 3), 1, 2, 3);
    const struct uop *x = I32S(DIMS(2, 3), 1, 2, 3, 4, 5, 6);

    (void)state;
    INTS(move(UOP_EXPAND, row, DIMS(2, 3), DIMS(2, 3)), 1, 2, 3, 1, 2, 3);
    INTS(move(UOP_PAD, row, DIMS(2, 6), DIMS(1, 0, 2, 1)), 0, 0, 0, 0, 0, 0, 0,
         0, 1, 2, 3, 0);
    INTS(move(UOP_SHRINK, x, DIMS(1, 2), DIMS(1, 2, 1, 3)), 5, 6);
    INTS(with_int(UOP_FLIP, x, DIMS(2, 3), 1), 4, 5, 6, 1, 2, 3);
    INTS(with_int(UOP_FLIP, x, DIMS(2, 3), 2), 3, 2, 1, 6, 5, 4);
    INTS(with_int(UOP_FLIP, x, DIMS(2, 3), 3), 6, 5, 4, 3, 2, 1);
    FLOATS(move(UOP_PAD, F32S(DIMS(1), 2), DIMS(3), DIMS(1, 1)), 0, 2, 0);
}

static void
test_empty(void **state)
{
    const struct uop *none = leaf(UOP_F32, DIMS(2, 0), "");
    struct ref_array out;

    (void)state;
    out = eval(op1(UOP_NEG, none));
    assert_int_equal(out.n, 0);
    ref_array_fini(&out);
    FLOATS(reduce(UOP_ADD, none, DIMS(2, 1), 2), 0, 0);
    FLOATS(reduce(UOP_MUL, none, DIMS(2, 1), 2), 1, 1);
    FLOATS(reduce(UOP_MAX, none, DIMS(2, 1), 2), -INFINITY, -INFINITY);
    FLOATS(reduce(UOP_MIN, none, DIMS(2, 1), 2), INFINITY, INFINITY);
    INTS(reduce(UOP_MAX, leaf(UOP_I8, DIMS(0), ""), DIMS(1), 1), -128);
    INTS(reduce(UOP_MIN, leaf(UOP_I8, DIMS(0), ""), DIMS(1), 1), 127);
    INTS(reduce(UOP_MIN, leaf(UOP_U64, DIMS(0), ""), DIMS(1), 1), -1);
    INTS(reduce(UOP_MIN, leaf(UOP_BOOL, DIMS(0), ""), DIMS(1), 1), 1);
    INTS(reduce(UOP_AND, leaf(UOP_U8, DIMS(0), ""), DIMS(1), 1), 255);
    FLOATS(move(UOP_PAD, none, DIMS(2, 2), DIMS(0, 0, 1, 1)), 0, 0, 0, 0);
}

static void
test_reduce(void **state)
{
    const struct uop *x = I32S(DIMS(2, 3), 1, -2, 3, 4, 5, 6);
    const struct uop *f = F32S(DIMS(2, 2), 1, NAN, -3, 4);

    (void)state;
    INTS(reduce(UOP_ADD, x, DIMS(2, 1), 2), 2, 15);
    INTS(reduce(UOP_ADD, x, DIMS(1, 3), 1), 5, 3, 9);
    INTS(reduce(UOP_ADD, x, DIMS(1, 1), 3), 17);
    INTS(reduce(UOP_MUL, x, DIMS(2, 1), 2), -6, 120);
    INTS(reduce(UOP_MAX, x, DIMS(1, 3), 1), 4, 5, 6);
    INTS(reduce(UOP_MIN, x, DIMS(2, 1), 2), -2, 4);
    INTS(reduce(UOP_XOR, x, DIMS(2, 1), 2), 1 ^ -2 ^ 3, 4 ^ 5 ^ 6);
    INTS(reduce(UOP_OR, U8S(DIMS(3), 1, 4, 8), DIMS(1), 1), 13);
    INTS(reduce(UOP_AND, U8S(DIMS(3), 7, 14, 6), DIMS(1), 1), 6);
    INTS(reduce(UOP_ADD, I8S(DIMS(2), 100, 100), DIMS(1), 1), -56);
    INTS(reduce(UOP_ADD, BOOLS(DIMS(2), 1, 1), DIMS(1), 1), 1);
    INTS(reduce(UOP_MUL, BOOLS(DIMS(2), 1, 0), DIMS(1), 1), 0);
    INTS(reduce(UOP_MAX, U64S(DIMS(2), 1, ~0ull), DIMS(1), 1), -1);
    FLOATS(reduce(UOP_MAX, f, DIMS(2, 1), 2), NAN, 4);
    FLOATS(reduce(UOP_MIN, f, DIMS(2, 1), 2), NAN, -3);
    FLOATS(reduce(UOP_ADD, f, DIMS(1, 2), 1), -2, NAN);
    /* rounded once: in float32 each 1 would be lost */
    FLOATS(reduce(UOP_ADD, F32S(DIMS(3), 16777216, 1, 1), DIMS(1), 1),
           16777218);
    /* compensated: the 1 survives 1e17 - 1e17 */
    FLOATS(reduce(UOP_ADD, F64S(DIMS(3), 1e17, 1, -1e17), DIMS(1), 1), 1);
    FLOATS(reduce(UOP_ADD, F64S(DIMS(2), INFINITY, 1), DIMS(1), 1), INFINITY);
    FLOATS(reduce(UOP_ADD, F64S(DIMS(2), INFINITY, -INFINITY), DIMS(1), 1),
           NAN);
    INTS(reduce(UOP_ADD, x, DIMS(2, 3), 0), 1, -2, 3, 4, 5, 6);
    FLOATS(reduce(UOP_MUL, F64S(DIMS(2), -1, 0), DIMS(1), 1), -0.0);
}

static const struct uop *
gather(const struct uop *x, const struct uop *index, int64_t axis)
{
    const struct uop *src[] = {x, index};
    union uop_arg arg = {.i = axis};

    return uop_new_shaped(&graph, UOP_GATHER, x->dtype, arg, src, 2,
                          uop_shape(&graph, index));
}

static void
test_gather(void **state)
{
    const struct uop *x = I32S(DIMS(2, 3), 1, 2, 3, 4, 5, 6);

    (void)state;
    INTS(gather(x, I32S(DIMS(2, 2), 0, 2, -1, -3), 1), 1, 3, 6, 4);
    INTS(gather(x, I32S(DIMS(1, 3), 1, 0, -2), 0), 4, 2, 3);
    INTS(gather(x, I64S(DIMS(1, 3), 2, -3, 1), 0), 0, 0, 6);
    INTS(gather(x, U64S(DIMS(1, 3), 1, ~0ull, 0), 0), 4, 0, 3);
    INTS(gather(x, U8S(DIMS(2, 1), 255, 2), 1), 0, 6);
}

static const struct uop *
exchange(const struct uop *x, int64_t bitonic)
{
    union uop_arg arg = {.i = bitonic};

    return uop_new_shaped(&graph, UOP_SORT_AXIS, x->dtype, arg, &x, 1,
                          uop_shape(&graph, x));
}

static void
test_exchange(void **state)
{
    (void)state;
    INTS(exchange(I32S(DIMS(1, 4, 2), 4, 1, 3, 2, 2, 3, -1, 4), 0), -1, 1, 2, 2,
         3, 3, 4, 4);
    INTS(exchange(I32S(DIMS(2, 2, 1), 4, 1, 2, 3), 0), 1, 4, 2, 3);
    INTS(exchange(I32S(DIMS(1, 4, 1), 1, 3, 4, 2), 1), 1, 2, 3, 4);
    /* not bitonic: 2 steps apart, then 1 */
    INTS(exchange(I32S(DIMS(1, 4, 1), 3, 1, 2, 4), 1), 1, 2, 3, 4);
    INTS(exchange(I32S(DIMS(1, 4, 1), 4, 1, 3, 2), 1), 1, 3, 2, 4);
    INTS(exchange(U64S(DIMS(1, 2, 1), ~0ull, 1), 0), 1, -1);
}

static void
test_copies(void **state)
{
    const struct uop *x = F32S(DIMS(2), 1.5f, -0.0f);

    (void)state;
    FLOATS(op1(UOP_CONTIGUOUS, x), 1.5, -0.0);
    FLOATS(op1(UOP_DETACH, x), 1.5, -0.0);
    FLOATS(op1(UOP_LAYOUT, x), 1.5, -0.0);
}

/* ---- conversions ------------------------------------------------------ */

static void
test_cast_to_int(void **state)
{
    const struct uop *x =
        F64S(DIMS(7), 1.9, -1.9, 300, -300, NAN, INFINITY, -INFINITY);
    const struct uop *i = I32S(DIMS(4), 300, -1, 256, 0);
    const struct uop *y = F64S(DIMS(3), 1.8e19, -1, 9.3e18);

    (void)state;
    INTS(convert(UOP_CAST, UOP_I8, x), 1, -1, 127, -128, 0, 127, -128);
    INTS(convert(UOP_CAST, UOP_U8, x), 1, 0, 255, 0, 0, 255, 0);
    INTS(convert(UOP_CAST, UOP_I64, x), 1, -1, 300, -300, 0, INT64_MAX,
         INT64_MIN);
    INTS(convert(UOP_CAST, UOP_U64, x), 1, 0, 300, 0, 0, -1, 0);
    INTS(convert(UOP_CAST, UOP_U64, y), (int64_t)18000000000000000000ull, 0,
         (int64_t)9300000000000000000ull);
    INTS(convert(UOP_CAST, UOP_I64, y), INT64_MAX, -1, INT64_MAX);
    INTS(convert(UOP_CAST, UOP_BOOL, x), 1, 1, 1, 1, 1, 1, 1);
    INTS(convert(UOP_CAST, UOP_BOOL, F32S(DIMS(2), 0, 1e-40f)), 0, 1);
    INTS(convert(UOP_CAST, UOP_I8, i), 44, -1, 0, 0);
    INTS(convert(UOP_CAST, UOP_U16, i), 300, 65535, 256, 0);
    INTS(convert(UOP_CAST, UOP_U64, i), 300, -1, 256, 0);
    INTS(convert(UOP_CAST, UOP_BOOL, i), 1, 1, 1, 0);
    INTS(convert(UOP_CAST, UOP_I32, BOOLS(DIMS(2), 1, 0)), 1, 0);
}

static void
test_cast_to_float(void **state)
{
    int64_t tie = (1ll << 60) + (1ll << 52) + 1; /* above a bfloat16 tie */
    const struct uop *big = U64S(DIMS(2), ~0ull, 1ull << 63);
    const struct uop *x = F64S(DIMS(4), 1.0 / 3, 70000, 1e-8, -NAN);

    (void)state;
    FLOATS(convert(UOP_CAST, UOP_F64, big), 18446744073709551616.0,
           9223372036854775808.0);
    FLOATS(convert(UOP_CAST, UOP_F64, I64S(DIMS(1), -1)), -1);
    FLOATS(convert(UOP_CAST, UOP_F32, I32S(DIMS(2), 16777217, 16777219)),
           16777216, 16777220);
    FLOATS(convert(UOP_CAST, UOP_BF16, I64S(DIMS(1), tie)), 0x1.02p60);
    FLOATS(convert(UOP_CAST, UOP_BF16, I64S(DIMS(1), tie - 1)), 0x1p60);
    FLOATS(convert(UOP_CAST, UOP_F32, x), (double)(1.0f / 3), 70000,
           (double)1e-8f, NAN);
    FLOATS(convert(UOP_CAST, UOP_F16, x), 0x1.554p-2, INFINITY, 0, NAN);
    FLOATS(convert(UOP_CAST, UOP_BF16, x), 0x1.56p-2, 70144, 0x1.58p-27, NAN);
    FLOATS(convert(UOP_CAST, UOP_F16, F64S(DIMS(2), 65519, 65520)), 65504,
           INFINITY);
    /* half of the smallest subnormal ties to 0, above it does not */
    FLOATS(convert(UOP_CAST, UOP_F16, F64S(DIMS(2), 0x1p-25, 0x1.8p-25)), 0,
           0x1p-24);
}

static void
test_bitcast(void **state)
{
    (void)state;
    INTS(convert(UOP_BITCAST, UOP_I32, F32S(DIMS(2), 1, -0.0f)), 0x3f800000,
         INT32_MIN);
    FLOATS(convert(UOP_BITCAST, UOP_F32, I32S(DIMS(1), 0x40490fdb)),
           (double)3.14159274f);
    FLOATS(convert(UOP_BITCAST, UOP_F64, I64S(DIMS(1), 0x3ff8000000000000)),
           1.5);
    INTS(convert(UOP_BITCAST, UOP_U8, I8S(DIMS(1), -1)), 255);
    INTS(convert(UOP_BITCAST, UOP_U16,
                 convert(UOP_CAST, UOP_F16,
                         F64S(DIMS(5), 1, -2, 0x1p-24, 65504, INFINITY))),
         0x3c00, 0xc000, 1, 0x7bff, 0x7c00);
    INTS(convert(UOP_BITCAST, UOP_U16,
                 convert(UOP_CAST, UOP_BF16, F64S(DIMS(2), 1, -2))),
         0x3f80, 0xc000);
}

/* Every 16-bit pattern decodes, rounds to itself and encodes to itself. */
static void
test_small_floats(void **state)
{
    static const enum uop_dtype types[] = {UOP_F16, UOP_BF16};
    size_t t;
    uint32_t bits;

    (void)state;
    for (t = 0; t < ARRAY_LEN(types); t++) {
        for (bits = 0; bits < 0x10000; bits++) {
            double value = uop_float_value(types[t], bits);
            if (isnan(value))
                continue;
            assert_true(uop_round_float(types[t], value) == value);
            assert_int_equal(uop_float_bits(types[t], value), bits);
        }
    }
    assert_true(isnan(uop_float_value(UOP_F16, 0x7e00)));
    assert_int_equal(uop_float_bits(UOP_F16, NAN) & 0x7fff, 0x7e00);
    assert_int_equal(uop_float_bits(UOP_BF16, NAN) & 0x7fff, 0x7fc0);
}

/* ---- arithmetic ------------------------------------------------------- */

static void
test_unary(void **state)
{
    const struct uop *x = F64S(DIMS(4), 4, 0.25, 1, -2.5);

    (void)state;
    FLOATS(op1(UOP_NEG, x), -4, -0.25, -1, 2.5);
    INTS(op1(UOP_NEG, I8S(DIMS(2), -128, 5)), -128, -5);
    INTS(op1(UOP_NEG, U8S(DIMS(2), 1, 0)), 255, 0);
    FLOATS(op1(UOP_RECIP, x), 0.25, 4, 1, -0.4);
    FLOATS(op1(UOP_RECIP, F32S(DIMS(2), 0, 3)), INFINITY, (double)(1 / 3.0f));
    FLOATS(op1(UOP_SQRT, x), 2, 0.5, 1, NAN);
    FLOATS(op1(UOP_EXP2, x), 16, 0x1.306fe0a31b715p0, 2, exp2(-2.5));
    FLOATS(op1(UOP_LOG2, x), 2, -2, 0, NAN);
    FLOATS(op1(UOP_LOG2, F32S(DIMS(1), 0)), -INFINITY);
    FLOATS(op1(UOP_SIN, F64S(DIMS(2), 0, 1)), 0, 0x1.aed548f090ceep-1);
    FLOATS(op1(UOP_COS, F64S(DIMS(2), 0, 1)), 1, 0x1.14a280fb5068cp-1);
    FLOATS(op1(UOP_TRUNC, F64S(DIMS(3), 2.9, -2.9, -0.5)), 2, -2, -0.0);
}

static void
test_float_binary(void **state)
{
    const struct uop *x = F32S(DIMS(3), 1, 3, NAN);
    const struct uop *y = F32S(DIMS(3), 3, -2, 1);

    (void)state;
    FLOATS(op2(UOP_ADD, x, y), 4, 1, NAN);
    FLOATS(op2(UOP_SUB, x, y), -2, 5, NAN);
    FLOATS(op2(UOP_MUL, x, y), 3, -6, NAN);
    FLOATS(op2(UOP_FDIV, x, y), (double)(1 / 3.0f), -1.5, NAN);
    FLOATS(op2(UOP_MAX, x, y), 3, 3, NAN);
    FLOATS(op2(UOP_MIN, x, y), 1, -2, NAN);
    FLOATS(op2(UOP_POW, x, y), 1, (double)(1 / 9.0f), NAN);
    FLOATS(op2(UOP_POW, F64S(DIMS(3), 0, -8, NAN), F64S(DIMS(3), -1, 3, 0)),
           INFINITY, -512, 1);
    INTS(op2(UOP_CMPLT, x, y), 1, 0, 0);
    INTS(op2(UOP_CMPEQ, x, x), 1, 1, 0);
    INTS(op2(UOP_CMPNE, x, x), 0, 0, 1);
    /* 2049 has no float16, so each sum is rounded */
    FLOATS(op2(UOP_ADD, convert(UOP_CAST, UOP_F16, F64S(DIMS(1), 2048)),
               uop_const_float(&graph, UOP_F16, 1)),
           2048);
    FLOATS(op2(UOP_MUL, F32S(DIMS(2), 1e30f, 1e-30f),
               F32S(DIMS(2), 1e30f, 1e-30f)),
           INFINITY, 0);
}

static void
test_int_binary(void **state)
{
    const struct uop *x = I8S(DIMS(6), 7, -7, 7, -128, 5, 0);
    const struct uop *y = I8S(DIMS(6), 2, 2, -2, -1, 0, 3);

    (void)state;
    INTS(op2(UOP_ADD, x, y), 9, -5, 5, 127, 5, 3);
    INTS(op2(UOP_SUB, x, y), 5, -9, 9, -127, 5, -3);
    INTS(op2(UOP_MUL, x, y), 14, -14, -14, -128, 0, 0);
    INTS(op2(UOP_IDIV, x, y), 3, -3, -3, -128, 0, 0);
    INTS(op2(UOP_IMOD, x, y), 1, -1, 1, 0, 0, 0);
    INTS(op2(UOP_FLOORDIV, x, y), 3, -4, -4, -128, 0, 0);
    INTS(op2(UOP_FLOORMOD, x, y), 1, 1, -1, 0, 0, 0);
    INTS(op2(UOP_MAX, x, y), 7, 2, 7, -1, 5, 3);
    INTS(op2(UOP_MIN, x, y), 2, -7, -2, -128, 0, 0);
    INTS(op2(UOP_AND, x, y), 2, 0, 6, -128, 0, 0);
    INTS(op2(UOP_OR, x, y), 7, -5, -1, -1, 5, 3);
    INTS(op2(UOP_XOR, x, y), 5, -5, -7, 127, 5, 3);
    INTS(op2(UOP_SHL, x, y), 28, -28, 0, 0, 5, 0);
    INTS(op2(UOP_SHR, x, y), 1, -2, 0, -1, 5, 0);
    INTS(op2(UOP_CMPLT, x, y), 0, 1, 0, 1, 0, 1);
    INTS(op2(UOP_SHL, U8S(DIMS(3), 1, 255, 1), U8S(DIMS(3), 7, 4, 8)), 128, 240,
         0);
    INTS(op2(UOP_SHR, U8S(DIMS(2), 255, 255), U8S(DIMS(2), 4, 8)), 15, 0);
    INTS(op2(UOP_IDIV, I64S(DIMS(1), INT64_MIN), I64S(DIMS(1), -1)), INT64_MIN);
}

static void
test_unsigned_64(void **state)
{
    const struct uop *x = U64S(DIMS(3), ~0ull, 1, 1ull << 63);
    const struct uop *y = U64S(DIMS(3), 10, ~0ull, 3);

    (void)state;
    INTS(op2(UOP_IDIV, x, y), (int64_t)(~0ull / 10), 0,
         (int64_t)((1ull << 63) / 3));
    INTS(op2(UOP_FLOORMOD, x, y), 5, 1, 2);
    INTS(op2(UOP_CMPLT, x, y), 0, 1, 0);
    INTS(op2(UOP_MAX, x, y), -1, -1, INT64_MIN);
    INTS(op2(UOP_MIN, x, y), 10, 1, 3);
    INTS(op2(UOP_SHR, x, uop_const_int(&graph, UOP_U64, 63)), 1, 0, 1);
}

static void
test_bool(void **state)
{
    const struct uop *x = BOOLS(DIMS(4), 0, 0, 1, 1);
    const struct uop *y = BOOLS(DIMS(4), 0, 1, 0, 1);

    (void)state;
    INTS(op2(UOP_ADD, x, y), 0, 1, 1, 1);
    INTS(op2(UOP_MUL, x, y), 0, 0, 0, 1);
    INTS(op2(UOP_MAX, x, y), 0, 1, 1, 1);
    INTS(op2(UOP_MIN, x, y), 0, 0, 0, 1);
    INTS(op2(UOP_AND, x, y), 0, 0, 0, 1);
    INTS(op2(UOP_OR, x, y), 0, 1, 1, 1);
    INTS(op2(UOP_XOR, x, y), 0, 1, 1, 0);
    INTS(op2(UOP_CMPLT, x, y), 0, 1, 0, 0);
    INTS(op2(UOP_CMPEQ, x, y), 1, 0, 0, 1);
    INTS(op2(UOP_CMPNE, x, y), 0, 1, 1, 0);
}

static const struct uop *
where(const struct uop *c, const struct uop *x, const struct uop *y,
      const struct uop_dims *shape)
{
    const struct uop *src[] = {c, x, y};
    union uop_arg arg = {.bits = 0};

    return uop_new_shaped(&graph, UOP_WHERE, x->dtype, arg, src, 3, shape);
}

static void
test_where(void **state)
{
    const struct uop *c = BOOLS(DIMS(3), 1, 0, 1);
    const struct uop *x = F32S(DIMS(3), 1, 2, NAN);

    (void)state;
    FLOATS(where(c, x, op1(UOP_NEG, x), DIMS(3)), 1, -2, NAN);
    FLOATS(where(c, uop_const_float(&graph, UOP_F32, 8), x, DIMS(3)), 8, 2, 8);
    INTS(where(uop_const_int(&graph, UOP_BOOL, 0), I32S(DIMS(2), 1, 2),
               uop_const_int(&graph, UOP_I32, 5), DIMS(2)),
         5, 5);
}

/* The compiler's constant folding and the reference say the same. */
static void
test_agrees_with_folding(void **state)
{
    static const int64_t ints[] = {0,   1,    -1,        2,         3,  7, 100,
                                   127, -128, INT64_MIN, INT64_MAX, 63, 64};
    static const double floats[] = {0,  1,   -1,       0.5,       3.25,
                                    -7, 1e4, INFINITY, -INFINITY, NAN};
    unsigned op, dtype;
    size_t i, j, n_checked = 0;

    (void)state;
    for (op = 0; op < UOP_OP_COUNT; op++) {
        const struct uop_op_info *info = &uop_op_infos[op];
        if (!(info->flags & UOP_FLAG_T) || !(info->flags & UOP_FLAG_ALU) ||
            info->max_src != 2)
            continue;
        for (dtype = UOP_I8; dtype < UOP_DTYPE_COUNT; dtype++) {
            bool is_float = uop_dtype_infos[dtype].is_float;
            size_t n = is_float ? ARRAY_LEN(floats) : ARRAY_LEN(ints);
            if (is_float ? info->flags & UOP_FLAG_INT
                         : info->flags & UOP_FLAG_FLT)
                continue;
            for (i = 0; i < n * n; i++) {
                const struct uop *src[2];
                union uop_arg folded;
                const struct uop *u;
                struct ref_array out;
                for (j = 0; j < 2; j++) {
                    size_t k = j ? i % n : i / n;
                    src[j] = is_float
                                 ? uop_const_float(&graph, dtype, floats[k])
                                 : uop_const_int(&graph, dtype, ints[k]);
                }
                u = op2(op, src[0], src[1]);
                if (!uop_const_eval(op, u->dtype, src, 2, &folded))
                    continue;
                out = eval(u);
                if (uop_is_float(u) ? isnan(folded.f) ? !isnan(out.f[0])
                                                      : folded.f != out.f[0]
                                    : folded.i != out.i[0])
                    fail_msg("%s %s: %a %lld folds to %a %lld", info->name,
                             uop_dtype_infos[dtype].name, out.f[0],
                             (long long)out.i[0], folded.f,
                             (long long)folded.i);
                ref_array_fini(&out);
                n_checked++;
            }
        }
    }
    assert_true(n_checked > 5000);
}

/* ---- whole graphs, errors, memory ------------------------------------- */

static void
test_shared_roots(void **state)
{
    const struct uop *x = I32S(DIMS(2), 3, 4), *y, *roots[4];
    struct ref_array out[4];
    size_t i;

    (void)state;
    y = op2(UOP_MUL, x, x);
    roots[0] = y;
    roots[1] = op2(UOP_ADD, y, x);
    roots[2] = y;
    roots[3] = x;
    assert_int_equal(ref_eval(&graph, roots, 4, fill_leaf, NULL, NULL, out),
                     BELL_OK);
    assert_int_equal(out[0].i[1], 16);
    assert_int_equal(out[1].i[1], 20);
    assert_int_equal(out[2].i[0], 9);
    assert_int_equal(out[3].i[0], 3);
    assert_ptr_not_equal(out[0].data, out[2].data);
    for (i = 0; i < 4; i++)
        ref_array_fini(&out[i]);
}

static void
test_long_chain(void **state)
{
    const struct uop *x = I64S(DIMS(2), 5, -5);
    const struct uop *one = uop_const_int(&graph, UOP_I64, 1), *y = x;
    size_t i;

    (void)state;
    for (i = 0; i < (IS_SANITIZED ? 100000 : 1000000); i++)
        y = op2(i % 2 ? UOP_ADD : UOP_SUB, y, one);
    y = op2(UOP_SUB, y, y);
    INTS(y, 0, 0);
}

static void
test_errors(void **state)
{
    const struct uop *x = I32S(DIMS(2, 3), 1, 2, 3, 4, 5, 6);
    const struct uop *f = F32S(DIMS(2, 3), 1, 2, 3, 4, 5, 6);
    union uop_arg none = {.bits = 0};

    (void)state;
    refuses(move(UOP_RESHAPE, x, DIMS(5), DIMS(5)), "size or dtype");
    refuses(move(UOP_PERMUTE, x, DIMS(3, 2), DIMS(0, 1)), "does not fit");
    refuses(move(UOP_PERMUTE, x, DIMS(3, 2), DIMS(1, 7)), "does not fit");
    refuses(move(UOP_PAD, x, DIMS(3, 3), DIMS(1, 0)), "number of arguments");
    refuses(move(UOP_SHRINK, x, DIMS(2, 3), DIMS(0, 2, 1, 4)), "does not fit");
    refuses(move(UOP_EXPAND, x, DIMS(4, 3), DIMS(4, 3)), "does not fit");
    refuses(op2(UOP_ADD, x, f), "dtypes differ");
    refuses(op2(UOP_ADD, x, I32S(DIMS(2), 1, 2)), "shape");
    refuses(op2(UOP_IDIV, f, f), "not an op on this dtype");
    refuses(op1(UOP_SQRT, x), "not an op on this dtype");
    refuses(convert(UOP_BITCAST, UOP_I8, x), "different sizes");
    refuses(reduce(UOP_SUB, x, DIMS(2, 1), 2), "not associative");
    refuses(reduce(UOP_ADD, x, DIMS(2, 3), 2), "reduced axes");
    refuses(gather(x, I32S(DIMS(2, 4), 0, 0, 0, 0, 0, 0, 0, 0), 0), "larger");
    refuses(gather(x, F32S(DIMS(1, 1), 0), 0), "index is not of an integer");
    refuses(uop_new_shaped(&graph, UOP_SINK, UOP_VOID, none, &x, 1, NULL),
            "no value");
    refuses(uop_new(&graph, UOP_RANGE, UOP_I64, 1, none, &x, 1),
            "not an op with a value");
}

/* The least and the greatest of 40 noisy evaluations of element 0. */
static void
spread_by(struct ref_noise noise, const struct uop *u, double *low,
          double *high)
{
    struct ref_array out;

    *low = INFINITY;
    *high = -INFINITY;
    for (noise.seed = 0; noise.seed < 40; noise.seed++) {
        assert_int_equal(ref_eval(&graph, &u, 1, fill_leaf, NULL, &noise, &out),
                         BELL_OK);
        *low = out.f[0] < *low ? out.f[0] : *low;
        *high = out.f[0] > *high ? out.f[0] : *high;
        ref_array_fini(&out);
    }
}

static void
spread(const struct uop *u, double ulps, double *low, double *high)
{
    spread_by((struct ref_noise){.ulps = ulps}, u, low, high);
}

/* Is element 0 NaN, or a finite number, in some of 40 noisy evaluations? */
static bool
any_of(const struct uop *u, bool finite)
{
    struct ref_noise noise = {.ulps = 1};
    struct ref_array out;
    bool any = false;

    for (noise.seed = 0; noise.seed < 40; noise.seed++) {
        assert_int_equal(ref_eval(&graph, &u, 1, fill_leaf, NULL, &noise, &out),
                         BELL_OK);
        any |= finite ? isfinite(out.f[0]) : isnan(out.f[0]);
        ref_array_fini(&out);
    }
    return any;
}

/* With even seeds equal rows stay equal: a tie of their sums is one. */
static void
test_noise_of_equal_rows(void **state)
{
    const struct uop *x = F32S(DIMS(2, 2), 0.1f, 0.7f, 0.1f, 0.7f);
    const struct uop *sums = reduce(UOP_ADD, op2(UOP_MUL, x, x), DIMS(2, 1), 2);
    struct ref_noise noise = {.ulps = 1};
    struct ref_array out;
    bool differ = false;

    (void)state;
    for (noise.seed = 0; noise.seed < 40; noise.seed++) {
        assert_int_equal(
            ref_eval(&graph, &sums, 1, fill_leaf, NULL, &noise, &out), BELL_OK);
        assert_true(noise.seed & 1 || out.f[0] == out.f[1]);
        differ |= out.f[0] != out.f[1];
        ref_array_fini(&out);
    }
    assert_true(differ);
}

/* On a device that flushes, sums and products of subnormal numbers may be 0;
 * every other operation on them is exact. */
static void
test_noise_flushes(void **state)
{
    const float tiny = 0x1p-130f;
    const struct uop *x, *y, *sums[3];
    struct ref_noise flushing = {.flushes_f32 = true};
    double low, high;
    unsigned i;

    (void)state;
    x = F32S(DIMS(2), tiny, tiny);
    y = F32S(DIMS(2), 0x1p+100, 0x1p+100);
    sums[0] = op2(UOP_MUL, x, y);
    sums[1] = op2(UOP_MUL, op2(UOP_ADD, x, x), y);
    sums[2] = op2(UOP_MUL, reduce(UOP_ADD, x, DIMS(1), 1), F32S(DIMS(1), 1));
    for (i = 0; i < 3; i++) {
        spread_by(flushing, sums[i], &low, &high);
        assert_true(low <= 0 && high > 0);
        spread_by((struct ref_noise){.ulps = 0}, sums[i], &low, &high);
        assert_true(low == high && low > 0);
    }
    spread_by(flushing, op2(UOP_MAX, x, op1(UOP_NEG, x)), &low, &high);
    assert_true(low == (double)tiny && high == low);
    spread_by(flushing, op2(UOP_FDIV, x, F32S(DIMS(2), 3, 3)), &low, &high);
    assert_true(low > 0);
    spread_by(flushing, op1(UOP_LOG2, x), &low, &high);
    assert_true(low == -130 && high == -130);
    spread_by(flushing, op2(UOP_ADD, F32S(DIMS(1), NAN), F32S(DIMS(1), 1)),
              &low, &high);
    assert_true(low > high); /* always NaN, which neither bound takes */
    /* of another dtype the same numbers are normal, or kept */
    x = convert(UOP_CAST, UOP_F64, x);
    spread_by(flushing, op2(UOP_ADD, x, x), &low, &high);
    assert_true(low == 2 * (double)tiny && high == low);
}

/* The bits of element 0 as a number that float32 has nearly. */
static const struct uop *
bits_as_float(const struct uop *u)
{
    return convert(UOP_CAST, UOP_F32, convert(UOP_BITCAST, UOP_U32, u));
}

/* Where a device may group elements in another way, either zero comes to an
 * operation that asks for its sign, and a product too large for the dtype may
 * meet a 0 first. No other value moves, so a wrong one is still seen. */
static void
test_noise_regroups(void **state)
{
    const struct ref_noise plain = {0}, regroups = {.regroups = true};
    const struct uop *zero = F32S(DIMS(1), 0), *four = F32S(DIMS(1), 4);
    const struct uop *one = F32S(DIMS(1), 1), *product;
    double low, high;

    (void)state;
    spread_by(plain, op1(UOP_RECIP, zero), &low, &high);
    assert_true(low == INFINITY && high == INFINITY);
    spread_by(regroups, op1(UOP_RECIP, zero), &low, &high);
    assert_true(low == -INFINITY && high == INFINITY);
    spread_by(regroups, op2(UOP_FDIV, one, zero), &low, &high);
    assert_true(low == -INFINITY && high == INFINITY);
    spread_by(plain, bits_as_float(zero), &low, &high);
    assert_true(low == 0 && high == 0);
    spread_by(regroups, bits_as_float(zero), &low, &high);
    assert_true(low == 0 && high == 0x1p+31);
    /* other numbers keep value and bits */
    spread_by(regroups, op1(UOP_RECIP, four), &low, &high);
    assert_true(low == 0.25 && high == 0.25);
    spread_by(regroups, op2(UOP_FDIV, zero, four), &low, &high);
    assert_true(low == 0 && high == 0);
    spread_by(regroups, bits_as_float(four), &low, &high);
    assert_true(low == 0x40800000 && high == low);
    /* a NaN's bits are several, in any noise */
    spread_by(plain, bits_as_float(F32S(DIMS(1), NAN)), &low, &high);
    assert_true(low < high);
    /* factors that overflow before a 0, and factors that do not */
    product = reduce(UOP_MUL, F32S(DIMS(3), 3e38f, 3e38f, 0), DIMS(1), 1);
    spread_by(regroups, product, &low, &high);
    assert_true(low == 0 && high > 3e38);
    product = reduce(UOP_MUL, F32S(DIMS(3), 1e19f, 1e19f, 0), DIMS(1), 1);
    spread_by(regroups, product, &low, &high);
    assert_true(low == 0 && high == 0);
    assert_false(any_of(product, false));
}

static void
test_noise(void **state)
{
    const struct uop *x = F32S(DIMS(2), 3, 7), *y;
    double low, high, third = (double)(1 / 3.0f);
    float rows[24][3];
    unsigned i;

    (void)state;
    /* exact results stay */
    spread(op2(UOP_MUL, x, x), 1, &low, &high);
    assert_true(low == 9 && high == 9);
    spread(reduce(UOP_ADD, x, DIMS(1), 1), 1, &low, &high);
    assert_true(low == 10 && high == 10);
    /* others move by one unit in the last place, not more */
    spread(op1(UOP_RECIP, x), 1, &low, &high);
    assert_true(low < third && high > third);
    assert_true(high - low <= 2 * third * 0x1p-22);
    /* a whole quotient is exact while the dtype has its neighbours */
    y = F32S(DIMS(2), 0x1.fffffep+24f, 0);
    spread(op2(UOP_FFLOORDIV, y, x), 1, &low, &high);
    assert_true(low == high);
    y = F32S(DIMS(2), 0x1.fffffep+40f, 0);
    spread(op2(UOP_FFLOORDIV, y, x), 1, &low, &high);
    assert_true(low < high && high - low <= high * 0x1p-22);
    /* x^1 is x; other powers are off by as much as any function */
    spread(op2(UOP_POW, x, F32S(DIMS(2), 1, 1)), 1, &low, &high);
    assert_true(low == 3 && high == 3);
    spread(op2(UOP_POW, x, F32S(DIMS(2), 60.5f, 0)), 1, &low, &high);
    assert_true(low < high && high - low <= high * 0x1p-20);
    /* what follows multiplies it: (x / 3 * 3 - x) is all error */
    y = op2(UOP_SUB, op2(UOP_MUL, op1(UOP_RECIP, x), x),
            uop_const_float(&graph, UOP_F32, 1));
    spread(y, 1, &low, &high);
    assert_true(high - low > 0x1p-24 && high - low < 0x1p-21);
    /* a MULACC rounds its product where there is no such instruction */
    y = F32S(DIMS(2), 1 / 3.0f, 0);
    y = multiply_add(y, y, op1(UOP_NEG, op2(UOP_MUL, y, y)));
    spread(y, 0, &low, &high);
    assert_true(low == high && low != 0);
    spread_by((struct ref_noise){.lacks_fma = true}, y, &low, &high);
    assert_true(low == 0 && high == 0);
    /* a sum that cancels is as uncertain as its parts are large */
    y = reduce(UOP_ADD, F32S(DIMS(3), 1e7f + 1.5f, -1e7f, 0.1f), DIMS(1), 1);
    spread(y, 1, &low, &high);
    assert_true(high - low > 0.5);
    /* a product whose first factors are below all numbers may be 0 when the
     * infinity comes */
    y = reduce(UOP_MUL, F32S(DIMS(3), 0.5f, 0x1p-126f, INFINITY), DIMS(1), 1);
    assert_true(any_of(y, false));
    y = reduce(UOP_MUL, F32S(DIMS(3), 0.5f, 0.25f, INFINITY), DIMS(1), 1);
    assert_false(any_of(y, false));
    /* so what is NaN, an infinite product by 0, may be 0 */
    y = reduce(UOP_MUL, F32S(DIMS(4), 0x1p-90f, 0x1p-90f, 3e38f, 3e38f),
               DIMS(1), 1);
    y = op2(UOP_MUL, op2(UOP_MUL, y, F32S(DIMS(1), INFINITY)),
            F32S(DIMS(1), 0));
    assert_false(any_of(y, true));
    y = reduce(UOP_MUL, F32S(DIMS(5), 0x1p-90f, 0x1p-90f, 3e38f, 3e38f, 3e38f),
               DIMS(1), 1);
    y = op2(UOP_MUL, y, F32S(DIMS(1), 0));
    assert_true(any_of(y, true));
    /* a sum that is at the border need not be infinite */
    y = reduce(UOP_ADD, F32S(DIMS(3), 0x1.fffffep+127f, 0x1p+104f, 1), DIMS(1),
               1);
    y = op2(UOP_MUL, y, F32S(DIMS(1), 0));
    assert_true(any_of(y, true));
    /* a product that only overflows on its way need not */
    y = reduce(UOP_MUL, F32S(DIMS(3), 3e38f, 1.25f, -0.125f), DIMS(1), 1);
    assert_true(any_of(y, true));
    y = reduce(UOP_MUL, F32S(DIMS(3), 3e38f, 1.25f, -1.0f), DIMS(1), 1);
    assert_false(any_of(y, true));
    /* of many sums that may be no number by their order, at times none is so */
    for (i = 0; i < 24; i++)
        memcpy(rows[i], (float[3]){3e38f, 3e38f, -3e38f}, sizeof(rows[i]));
    y = reduce(UOP_ADD, leaf(UOP_F32, DIMS(24, 3), rows), DIMS(24, 1), 2);
    assert_true(any_of(y, false));
    spread(reduce(UOP_MAX, y, DIMS(1, 1), 1), 1, &low, &high);
    assert_true(high > 2e38);
    /* what overflows need not */
    spread(op2(UOP_MUL, F32S(DIMS(1), 3e38f), F32S(DIMS(1), 10)), 1, &low,
           &high);
    assert_true(isfinite(low) && isinf(high));
}

static bell_status
refuse_leaf(void *user, const struct uop *u, struct ref_array *array)
{
    (void)user;
    (void)u;
    (void)array;
    return bell_fail(BELL_E_IO, "leaf is gone");
}

/* Fails at each allocation in turn: a clean error, nothing leaks. */
static void
test_no_memory(void **state)
{
    const struct uop *x = F32S(DIMS(2, 2), 1, 2, 3, 4);
    const struct uop *roots[2] = {
        reduce(UOP_ADD, op2(UOP_MUL, x, x), DIMS(2, 1), 2), x};
    struct ref_array out[2];
    bell_status status = BELL_E_NO_MEMORY;
    uint64_t nth;

    (void)state;
    for (nth = 1; status != BELL_OK; nth++) {
        host_fail_after(nth, 1);
        status = ref_eval(&graph, roots, 2, fill_leaf, NULL, NULL, out);
        host_fail_after(0, 0);
        assert_true(status == BELL_OK || status == BELL_E_NO_MEMORY);
        assert_true(nth < 100);
    }
    assert_true(nth > 5);
    assert_true(out[0].f[1] == 25);
    ref_array_fini(&out[0]);
    ref_array_fini(&out[1]);
    assert_int_equal(ref_eval(&graph, roots, 2, refuse_leaf, NULL, NULL, out),
                     BELL_E_IO);
}

static void
test_bytes(void **state)
{
    unsigned dtype;
    uint8_t bytes[16], back[16];
    struct ref_array array = {.n = 2};
    size_t i;

    (void)state;
    for (i = 0; i < sizeof(bytes); i++)
        bytes[i] = (uint8_t)(17 * i + 5);
    for (dtype = UOP_I8; dtype < UOP_DTYPE_COUNT; dtype++) {
        size_t size = 2u * uop_dtype_infos[dtype].size_bytes;
        int64_t store[2];
        array.dtype = dtype;
        array.i = store;
        memset(back, 0, sizeof(back));
        ref_from_bytes(&array, bytes);
        ref_to_bytes(&array, back);
        assert_memory_equal(bytes, back, size);
    }
}

int
main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(test_leaves),
        TEST(test_reshape_permute),
        TEST(test_expand_pad_shrink_flip),
        TEST(test_empty),
        TEST(test_reduce),
        TEST(test_exchange),
        TEST(test_gather),
        TEST(test_copies),
        TEST(test_cast_to_int),
        TEST(test_cast_to_float),
        TEST(test_bitcast),
        TEST(test_small_floats),
        TEST(test_unary),
        TEST(test_float_binary),
        TEST(test_int_binary),
        TEST(test_unsigned_64),
        TEST(test_bool),
        TEST(test_where),
        TEST(test_agrees_with_folding),
        TEST(test_shared_roots),
        TEST(test_long_chain),
        TEST(test_errors),
        TEST(test_noise),
        TEST(test_noise_flushes),
        TEST(test_noise_of_equal_rows),
        TEST(test_noise_regroups),
        TEST(test_no_memory),
        TEST(test_bytes),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
