/* Factors of matrices: what they are made of gives the matrix back, they have
 * the form that they are to have, and gradients are differences. */
#include "doorbell/linalg.h"
#include "tests/unit/sanitized.h"
#include "tests/unit/tensor_host.h"

#define MAX 65536

/* What may be lost in float32 and float64: times the size. */
static const enum bell_dtype dtypes[] = {BELL_FLOAT32, BELL_FLOAT64};

static double
epsilon(enum bell_dtype dtype)
{
    return dtype == BELL_FLOAT32 ? 0x1p-23 : 0x1p-52;
}

static void
get(struct bell_tensor *t, double *out)
{
    assert_true(bell_numel(t) <= MAX);
    assert_int_equal(bell_read_f64(t, out, (size_t)bell_numel(t)), BELL_OK);
}

/* The greatest magnitude of a - b; NaN counts as infinite. */
static double
distance(struct bell_tensor *a, struct bell_tensor *b)
{
    static double values[MAX];
    double most = 0;
    uint64_t i;

    a = bell_sub(bell_cast(a, BELL_FLOAT64), bell_cast(b, BELL_FLOAT64));
    get(a, values);
    for (i = 0; i < bell_numel(a); i++) {
        double v = fabs(values[i]);
        most = v <= most ? most : v;
        most = isnan(v) ? (double)INFINITY : most;
    }
    return most;
}

/* a @ b in float64. */
static struct bell_tensor *
product(struct bell_tensor *a, struct bell_tensor *b)
{
    return bell_matmul(bell_cast(a, BELL_FLOAT64), bell_cast(b, BELL_FLOAT64));
}

static struct bell_tensor *
unit(int64_t n)
{
    return bell_eye(ctx, n, n, BELL_FLOAT64);
}

#define EXPECT_CLOSE(a, b, most)                                               \
    do {                                                                       \
        double gone_ = distance(a, b), most_ = most;                           \
        if (!(gone_ <= most_))                                                 \
            fail_msg("%s:%d: %g of %g", __FILE__, __LINE__, gone_, most_);     \
    } while (0)

/* The sum over both axes of a square, plus n on the diagonal. */
static struct bell_tensor *
positive(int64_t batch, int64_t n, enum bell_dtype dtype)
{
    struct bell_tensor *x = noise(-1, 1, BELL_DIMS(batch, n, n));

    x = bell_add(product(x, bell_t(x)), unit(n));
    return bell_cast(x, dtype);
}

static const int64_t sizes[] = {1, 2, 3, 4, 5, 8, 13, 33};

static size_t
n_sizes(void)
{
    return is_slow_device() || IS_SANITIZED ? 4 : ARRAY_LEN(sizes);
}

static void
test_cholesky(void **state)
{
    size_t i, k;

    (void)state;
    for (i = 0; i < n_sizes() * 2; i++) {
        int64_t n = sizes[i / 2];
        enum bell_dtype dtype = dtypes[i % 2];
        struct bell_tensor *x, *l;
        double eps = 4 * (double)n * epsilon(dtype);

        bell_scope_begin(ctx);
        x = positive(2, n, dtype);
        l = bell_cholesky(x, false);
        assert_int_equal(bell_dtype_of(l), dtype);
        EXPECT_CLOSE(product(l, bell_t(l)), x, eps * (double)n);
        EXPECT_CLOSE(bell_tril(l, 0), l, 0);
        EXPECT_CLOSE(bell_t(bell_cholesky(x, true)), l, eps);
        /* the other triangle is not read */
        x = bell_where(
            bell_cast(bell_triu(bell_ones_like(x, BELL_DEFAULT), 1), BELL_BOOL),
            bell_full_like(x, NAN, BELL_DEFAULT), x);
        EXPECT_CLOSE(bell_cholesky(x, false), l, 0);
        assert_int_equal(bell_scope_end(ctx), BELL_OK);
    }
    /* numpy.linalg.cholesky */
    EXPECT(bell_cholesky(T(V(4, 2, 2, 5), 2, 2), false), 2, 0, 1, 2);
    {
        /* the first is not positive from its second column on */
        double out[18];
        get(bell_cholesky(
                T(V(1, 0, 0, 0, -1, 0, 0, 0, 1, 4, 0, 0, 0, 4, 0, 0, 0, 4), 2,
                  3, 3),
                false),
            out);
        assert_true(out[0] == 1 && isnan(out[4]));
        for (k = 9; k < 18; k++)
            assert_true(out[k] == ((k - 9) % 4 == 0 ? 2 : 0));
    }
}

static void
test_triangular(void **state)
{
    size_t i;

    (void)state;
    for (i = 0; i < n_sizes() * 2; i++) {
        int64_t n = sizes[i / 2];
        enum bell_dtype dtype = dtypes[i % 2];
        double eps = 64 * (double)n * epsilon(dtype);
        struct bell_tensor *t, *b, *x, *nan, *low;

        bell_scope_begin(ctx);
        t = bell_add(noise(-0.2, 0.2, BELL_DIMS(2, n, n)), unit(n));
        t = bell_cast(t, dtype);
        b = bell_cast(noise(-1, 1, BELL_DIMS(3, 1, n, 3)), dtype);
        nan = bell_full_like(t, NAN, BELL_DEFAULT);
        low = bell_tril(bell_ones_like(t, BELL_BOOL), 0);
        x = bell_solve_triangular(bell_where(low, t, nan), b, false, false);
        EXPECT_SHAPE(x, 3, 2, n, 3);
        EXPECT_CLOSE(product(bell_tril(t, 0), x),
                     bell_expand(b, BELL_DIMS(3, 2, n, 3)), eps);
        low = bell_tril(bell_ones_like(t, BELL_BOOL), -1);
        x = bell_solve_triangular(bell_where(low, nan, t), b, true, false);
        EXPECT_CLOSE(product(bell_triu(t, 0), x),
                     bell_expand(b, BELL_DIMS(3, 2, n, 3)), eps);
        x = bell_solve_triangular(bell_where(low, t, nan), b, false, true);
        EXPECT_CLOSE(product(bell_add(bell_tril(t, -1), unit(n)), x),
                     bell_expand(b, BELL_DIMS(3, 2, n, 3)), eps);
        assert_int_equal(bell_scope_end(ctx), BELL_OK);
    }
    EXPECT(bell_solve_triangular(T(V(2, 0, 1, 0), 2, 2), T(V(4, 3), 2, 1),
                                 false, false),
           2, (double)INFINITY);
}

static void
test_solve(void **state)
{
    size_t i;

    (void)state;
    for (i = 0; i < n_sizes() * 2; i++) {
        int64_t n = sizes[i / 2];
        enum bell_dtype dtype = dtypes[i % 2];
        struct bell_tensor *a, *b, *x, *size;
        double eps = 16 * epsilon(dtype);

        bell_scope_begin(ctx);
        a = bell_cast(noise(-1, 1, BELL_DIMS(2, n, n)), dtype);
        b = bell_cast(noise(-1, 1, BELL_DIMS(1, n, 2)), dtype);
        x = bell_solve(a, b);
        EXPECT_SHAPE(x, 2, n, 2);
        /* backward stable: the residual is small against |a| |x| */
        size = bell_max(bell_abs(x), BELL_DIMS(1, 2), true);
        size = bell_add_scalar(bell_mul_scalar(size, (double)n), 1);
        EXPECT_CLOSE(bell_div(bell_sub(product(a, x), b), size),
                     bell_zeros(ctx, BELL_DIMS(1), BELL_FLOAT64),
                     eps * (double)n);
        x = bell_inv(a);
        size = bell_max(bell_abs(x), BELL_DIMS(1, 2), true);
        size = bell_add_scalar(bell_mul_scalar(size, (double)n), 1);
        EXPECT_CLOSE(bell_div(bell_sub(product(a, x), unit(n)), size),
                     bell_zeros(ctx, BELL_DIMS(1), BELL_FLOAT64),
                     eps * (double)n);
        assert_int_equal(bell_scope_end(ctx), BELL_OK);
    }
    /* vectors; what is large and small; what has no zero to divide by where
     * elimination without pivots had */
    EXPECT(bell_solve(T(V(0, 1, 1, 0), 2, 2), T(V(3, 5), 2)), 5, 3);
    EXPECT(bell_solve(T(V(0, 2e300, 1e300, 0, 2, 0, 0, 2), 2, 2, 2),
                      T(V(2e300, 5e300, 2, 4), 2, 2)),
           5, 1, 1, 2);
    EXPECT_NEAR(bell_solve(I(V(2, 1, 1, 3), 2, 2), I(V(3, 5), 2)), 1e-6, 0.8,
                1.4);
    /* singular: of its own matrix alone */
    EXPECT(bell_narrow(bell_solve(T(V(0, 0, 0, 0, 1, 0, 0, 1), 2, 2, 2),
                                  T(V(1, 2, 3, 4), 2, 2, 1)),
                       0, 1, 1),
           3, 4);
    EXPECT(bell_inv(T(V(0, 0, 0, 1), 1, 2, 2)), INFINITY, NAN, 0, 1);
}

static void
test_det(void **state)
{
    (void)state;
    /* numpy.linalg.det */
    EXPECT_NEAR(bell_det(T(V(1, 2, 3, 4), 2, 2)), 1e-14, -2);
    EXPECT_NEAR(bell_det(T(V(0, 1, 0, 0, 0, 1, 1, 0, 0), 3, 3)), 1e-14, 1);
    EXPECT_NEAR(bell_det(T(V(2, 0, 0, 3, 0, 1, 1, 0, 5, 1, 2, 3), 3, 2, 2)),
                1e-13, 6, -1, 13);
    EXPECT_NEAR(
        bell_det(T(V(3, 1, -2, 4, 0, 5, 1, 1, 7, -3, 2, 6, 8, 1, 1, 2), 4, 4)),
        1e-12, -740);
    EXPECT(bell_det(T(V(0, 0, 0, 0), 2, 2)), 0);
    EXPECT(bell_det(T(V(-7), 1, 1)), -7);
}

/* The k-th kind of a hard matrix. */
#define KINDS 7
static struct bell_tensor *
hard(int kind, int64_t m, int64_t n)
{
    struct bell_tensor *x = noise(-1, 1, BELL_DIMS(2, m, n)), *i, *j;

    i = bell_reshape(bell_arange(ctx, 0, (double)m, 1, BELL_FLOAT64),
                     BELL_DIMS(-1, 1));
    j = bell_arange(ctx, 0, (double)n, 1, BELL_FLOAT64);
    switch (kind) {
    case 1: /* columns that fall off */
        return bell_mul(x, bell_exp(bell_mul_scalar(j, -0.7)));
    case 2: /* Hilbert's: nearly dependent */
        x = bell_reciprocal(bell_add_scalar(bell_add(i, j), 1));
        return bell_expand(x, BELL_DIMS(2, m, n));
    case 3: /* of rank 1 */
        x = bell_mul(bell_add_scalar(i, 1), bell_sub_scalar(j, 2.5));
        return bell_expand(x, BELL_DIMS(2, m, n));
    case 4:
        return bell_zeros_like(x, BELL_DEFAULT);
    case 5: /* equal singular values */
        return bell_expand(bell_cast(bell_eq(i, j), BELL_FLOAT64),
                           BELL_DIMS(2, m, n));
    case 6: /* rows that grow, a column that is twice */
        x = bell_mul(x, bell_exp(bell_mul_scalar(i, 0.5)));
        return n < 2 ? x
                     : bell_cat(BELL_TENSORS(bell_narrow(x, -1, 1, n - 1),
                                             bell_narrow(x, -1, n - 1, 1)),
                                -1);
    default:
        return x;
    }
}

static const int64_t shapes[][2] = {
    {1, 1}, {1, 4},  {4, 1},  {2, 2},   {3, 3},  {5, 3},   {3, 5},
    {8, 8}, {11, 7}, {7, 11}, {10, 10}, {40, 6}, {24, 24}, {32, 32}};

static double
most_of(struct bell_tensor *x)
{
    return distance(x, bell_zeros(ctx, BELL_DIMS(1), BELL_FLOAT64));
}

static void
check_qr(struct bell_tensor *x, double eps)
{
    int64_t m = bell_size(x, 1), n = bell_size(x, 2), k = m < n ? m : n;
    struct bell_tensor *q, *r;

    bell_qr(x, &q, &r);
    EXPECT_SHAPE(q, 2, m, k);
    EXPECT_SHAPE(r, 2, k, n);
    EXPECT_CLOSE(product(q, r), x, eps * most_of(x));
    EXPECT_CLOSE(product(bell_t(q), q), unit(k), eps);
    EXPECT_CLOSE(bell_triu(r, 0), r, 0);
}

static void
check_svd(struct bell_tensor *x, double eps)
{
    int64_t m = bell_size(x, 1), n = bell_size(x, 2), k = m < n ? m : n;
    struct bell_tensor *u, *s, *v, *us;
    double values[2 * 32];
    int64_t i;

    bell_svd(x, &u, &s, &v);
    EXPECT_SHAPE(u, 2, m, k);
    EXPECT_SHAPE(s, 2, k);
    EXPECT_SHAPE(v, 2, k, n);
    us = bell_mul(u, bell_unsqueeze(s, 1));
    EXPECT_CLOSE(product(us, v), x, eps * most_of(x));
    EXPECT_CLOSE(product(bell_t(u), u), unit(k), eps);
    EXPECT_CLOSE(product(v, bell_t(v)), unit(k), eps);
    get(s, values);
    for (i = 0; i < 2 * k; i++)
        assert_true(values[i] >= 0 &&
                    (i % k == 0 || values[i] <= values[i - 1]));
}

/* Leaves out cases of qr and svd on slow devices. */
static bool
is_left_out(const int64_t *d, size_t i)
{
    return (is_slow_device() && (d[0] * d[1] > 16 || i % 5)) ||
           (IS_SANITIZED && i % 5);
}

static void
test_qr(void **state)
{
    struct bell_tensor *q, *r;
    size_t i;

    (void)state;
    for (i = 0; i < 2 * KINDS * ARRAY_LEN(shapes); i++) {
        const int64_t *d = shapes[i / (2 * KINDS)];
        enum bell_dtype dtype = dtypes[i % 2];

        if (is_left_out(d, i))
            continue;
        bell_scope_begin(ctx);
        check_qr(bell_cast(hard((int)(i / 2 % KINDS), d[0], d[1]), dtype),
                 8 * (double)(d[0] + d[1]) * epsilon(dtype));
        assert_int_equal(bell_scope_end(ctx), BELL_OK);
    }
    /* numpy.linalg.qr */
    bell_qr(T(V(1, 2, 3, 4, 5, 6), 3, 2), &q, &r);
    EXPECT_NEAR(q, 1e-14, -0.16903085094570325, 0.8970852271450607,
                -0.50709255283710986, 0.27602622373694136, -0.84515425472851657,
                -0.345032779671177);
    EXPECT_NEAR(r, 1e-14, -5.9160797830996161, -7.437357441610946, 0,
                0.828078671210825);
}

static struct bell_tensor *
number(double value)
{
    return bell_full(ctx, BELL_NO_DIMS, value, BELL_FLOAT64);
}

/* Sizes that are done in blocks, of which the last is not whole: for compiled
 * kernels. */
#define LARGE (IS_SANITIZED ? 130 : 150)

static bool
is_interpreted(void)
{
#ifdef HAVE_RUNTIME
    return is_slow_device();
#else
    return true;
#endif
}

/* The second matrix is not positive definite from column 100 on, which spoils
 * its own columns alone. */
static void
test_large_cholesky(void **state)
{
    const int64_t n = LARGE;
    const double eps = 8 * (double)n * epsilon(BELL_FLOAT32);
    struct bell_tensor *x, *l, *good, *bad, *i;

    (void)state;
    if (is_interpreted())
        return;
    i = bell_arange(ctx, 0, (double)n, 1, BELL_FLOAT64);
    x = positive(1, n, BELL_FLOAT32);
    bad = bell_where(bell_eq(i, number(100)), bell_neg(unit(n)), unit(n));
    bad = bell_cast(bell_unsqueeze(bad, 0), BELL_FLOAT32);
    l = bell_cholesky(bell_cat(BELL_TENSORS(x, bad), 0), false);
    good = bell_narrow(l, 0, 0, 1);
    EXPECT_CLOSE(product(good, bell_t(good)), x, eps * (double)n);
    EXPECT_CLOSE(bell_tril(good, 0), good, 0);
    bad = bell_select(l, 0, 1);
    EXPECT_CLOSE(bell_narrow(bad, 1, 0, 100), bell_narrow(unit(n), 1, 0, 100),
                 0);
    bad = bell_diagonal(bell_cast(bell_isnan(bad), BELL_FLOAT64), 0, 0, 1);
    EXPECT_CLOSE(bad, bell_cast(bell_ge(i, number(100)), BELL_FLOAT64), 0);
}

static void
test_large_systems(void **state)
{
    const int64_t n = LARGE;
    const double eps = 8 * (double)n * epsilon(BELL_FLOAT32);
    struct bell_tensor *x, *b, *y, *nan, *second;
    double at[2];

    (void)state;
    if (is_interpreted())
        return;
    x = bell_add(noise(-0.06, 0.06, BELL_DIMS(2, n, n)), unit(n));
    x = bell_cast(x, BELL_FLOAT32);
    b = bell_cast(noise(-1, 1, BELL_DIMS(n, 3)), BELL_FLOAT32);
    nan = bell_full_like(x, NAN, BELL_DEFAULT);
    y = bell_where(bell_tril(bell_ones_like(x, BELL_BOOL), 0), x, nan);
    y = bell_solve_triangular(y, b, false, false);
    EXPECT_CLOSE(product(bell_tril(x, 0), y),
                 bell_expand(b, BELL_DIMS(2, n, 3)), eps);
    y = bell_solve_triangular(x, b, true, true);
    EXPECT_CLOSE(product(bell_add(bell_triu(x, 1), unit(n)), y),
                 bell_expand(b, BELL_DIMS(2, n, 3)), eps);
    x = bell_cast(noise(-1, 1, BELL_DIMS(2, n, n)), BELL_FLOAT32);
    second = bell_eq(bell_arange(ctx, 0, 2, 1, BELL_FLOAT64), number(1));
    second = bell_reshape(second, BELL_DIMS(2, 1, 1));
    y = bell_narrow(bell_inv(bell_where(second, nan, x)), 0, 0, 1);
    EXPECT_CLOSE(product(bell_narrow(x, 0, 0, 1), y), unit(n),
                 8 * eps * most_of(y));
    /* one -1, and a cycle of all rows */
    x = bell_arange(ctx, 0, (double)n, 1, BELL_FLOAT64);
    x = bell_where(bell_eq(x, number(77)), bell_neg(unit(n)), unit(n));
    y = bell_det(bell_stack(BELL_TENSORS(bell_roll(x, 1, 0), unit(n)), 0));
    get(y, at);
    assert_true(fabs(at[0] - (n % 2 ? -1 : 1)) < 1e-12);
    assert_true(fabs(at[1] - 1) < 1e-12);
}

static void
test_large_qr(void **state)
{
    const int64_t n = LARGE;
    const double eps = 8 * (double)n * epsilon(BELL_FLOAT32);
    struct bell_tensor *x, *q, *r, *q_few, *r_few;

    (void)state;
    if (is_interpreted())
        return;
    check_qr(bell_cast(hard(0, n, n), BELL_FLOAT32), eps);
    /* LAPACK's signs: those of fewer columns */
    x = hard(0, n, 70);
    bell_qr(x, &q, &r);
    bell_qr(bell_narrow(x, 2, 0, 60), &q_few, &r_few);
    EXPECT_CLOSE(bell_narrow(q, 2, 0, 60), q_few, 1e-12);
    if (IS_SANITIZED)
        return;
    check_qr(hard(6, n + 50, n), eps * 0x1p-29);
    check_qr(bell_cast(hard(1, 80, n), BELL_FLOAT32), eps);
    check_qr(bell_cast(hard(3, n, 70), BELL_FLOAT32), eps);
    check_qr(bell_cast(hard(4, n, 70), BELL_FLOAT32), eps);
}

static void
test_svd(void **state)
{
    struct bell_tensor *u, *s, *v;
    size_t i;

    (void)state;
    for (i = 0; i < 2 * KINDS * ARRAY_LEN(shapes); i++) {
        const int64_t *d = shapes[i / (2 * KINDS)];
        enum bell_dtype dtype = dtypes[i % 2];

        if (is_left_out(d, i))
            continue;
        bell_scope_begin(ctx);
        check_svd(bell_cast(hard((int)(i / 2 % KINDS), d[0], d[1]), dtype),
                  8 * (double)(d[0] + d[1]) * epsilon(dtype));
        assert_int_equal(bell_scope_end(ctx), BELL_OK);
    }
    /* numpy.linalg.svd */
    bell_svd(T(V(1, 2, 3, 4, 5, 6), 2, 3), &u, &s, &v);
    EXPECT_NEAR(s, 1e-14, 9.50803200069572, 0.7728696356734839);
    bell_svd(T(V(3, 0, 0, -2), 2, 2), &u, &s, &v);
    EXPECT_NEAR(s, 1e-14, 3, 2);
}

static void
check_eigh(struct bell_tensor *x, double eps)
{
    int64_t n = bell_size(x, 1), i;
    struct bell_tensor *values, *v, *nan = bell_full_like(x, NAN, BELL_DEFAULT);
    double numbers[64], size;

    bell_eigh(x, false, &values, &v);
    EXPECT_SHAPE(values, 2, n);
    EXPECT_SHAPE(v, 2, n, n);
    size = most_of(values) + 1e-30;
    EXPECT_CLOSE(
        product(bell_mul(bell_cast(v, BELL_FLOAT64), bell_unsqueeze(values, 1)),
                bell_t(v)),
        x, eps * size);
    EXPECT_CLOSE(product(bell_t(v), v), unit(n), eps);
    get(values, numbers);
    for (i = 1; i < 2 * n; i++)
        assert_true(i % n == 0 || numbers[i] >= numbers[i - 1]);
    /* one triangle is read */
    EXPECT_CLOSE(
        bell_eigvalsh(
            bell_where(bell_tril(bell_ones_like(x, BELL_BOOL), 0), x, nan),
            false),
        values, 0);
    EXPECT_CLOSE(
        bell_eigvalsh(
            bell_where(bell_triu(bell_ones_like(x, BELL_BOOL), 0), x, nan),
            true),
        values, 0);
}

/* More columns than are turned as they are, and tall. */
static void
test_large_turns(void **state)
{
    struct bell_tensor *x, *exact, *u, *s, *v;

    (void)state;
    if (is_interpreted() || IS_SANITIZED)
        return;
    exact = hard(0, 90, 66);
    x = bell_cast(exact, BELL_FLOAT32);
    bell_svd(x, &u, &s, &v);
    EXPECT_CLOSE(product(bell_mul(u, bell_unsqueeze(s, 1)), v), x,
                 64 * epsilon(BELL_FLOAT32));
    EXPECT_CLOSE(product(bell_t(u), u), unit(66), 32 * epsilon(BELL_FLOAT32));
    EXPECT_CLOSE(product(v, bell_t(v)), unit(66), 32 * epsilon(BELL_FLOAT32));
    x = product(bell_t(exact), exact);
    bell_eigh(bell_cast(x, BELL_FLOAT32), false, &s, &v);
    EXPECT_CLOSE(s, bell_flip(bell_square(bell_svdvals(exact)), BELL_DIMS(1)),
                 0.01);
    EXPECT_CLOSE(product(bell_t(v), v), unit(66), 32 * epsilon(BELL_FLOAT32));
}

static void
test_eigh(void **state)
{
    struct bell_tensor *values, *v, *x;
    size_t i;

    (void)state;
    for (i = 0; i < 2 * KINDS * 3; i++) {
        static const int64_t few[] = {1, 3, 8};
        int64_t n = few[i / (2 * KINDS)];
        enum bell_dtype dtype = dtypes[i % 2];

        if (is_left_out((const int64_t[]){n, n}, i))
            continue;
        bell_scope_begin(ctx);
        x = hard((int)(i / 2 % KINDS), n, n);
        x = bell_cast(bell_add(x, bell_t(x)), dtype);
        check_eigh(x, 16 * (double)n * epsilon(dtype));
        assert_int_equal(bell_scope_end(ctx), BELL_OK);
    }
    /* numpy.linalg.eigh */
    bell_eigh(T(V(2, 1, 1, 3), 2, 2), false, &values, &v);
    EXPECT_NEAR(values, 1e-14, 1.381966011250105, 3.618033988749895);
    EXPECT_NEAR(bell_abs(v), 1e-14, 0.8506508083520399, 0.5257311121191336,
                0.5257311121191336, 0.8506508083520399);
    EXPECT(bell_eigvalsh(T(V(3, 0, 0, -2, 1, 0, 0, 1), 2, 2, 2), false), -2, 3,
           1, 1);
    /* NaN and infinities spoil their own */
    EXPECT(bell_eigvalsh(T(V(NAN, 0, 0, 1, 5, 0, 0, 1), 2, 2, 2), false), NAN,
           NAN, 1, 5);
    EXPECT(bell_eigvalsh(I(V(2, 0, 0, 1), 2, 2), true), 1, 2);
}

static void
test_more_factors(void **state)
{
    struct bell_tensor *x, *u, *s, *v, *sign, *size;

    (void)state;
    /* numpy.linalg.slogdet */
    bell_slogdet(
        T(V(1, 2, 3, 4, 0, 1, 0, 0, 3, 0, 0, 2, NAN, 0, 0, 1), 4, 2, 2), &sign,
        &size);
    EXPECT_NEAR(sign, 1e-14, -1, 0, 1, NAN);
    EXPECT_NEAR(size, 1e-14, 0.6931471805599455, -INFINITY, 1.791759469228055,
                NAN);
    bell_slogdet(bell_mul_scalar(unit(8), 1e-60), &sign, &size);
    EXPECT(sign, 1);
    EXPECT_NEAR(size, 1e-10, -8 * 60 * log(10));
    /* numpy.linalg.pinv */
    EXPECT_NEAR(bell_pinv(T(V(1, 2, 3, 4, 5, 6), 3, 2), -1, false), 1e-14,
                -1.3333333333333333, -0.3333333333333333, 0.6666666666666667,
                1.0833333333333333, 0.3333333333333333, -0.4166666666666667);
    EXPECT_NEAR(bell_pinv(T(V(1, 1, 1, 1), 2, 2), -1, true), 1e-14, 0.25, 0.25,
                0.25, 0.25);
    EXPECT_NEAR(bell_pinv(T(V(4, 0, 0, 1), 2, 2), 0.3, false), 1e-14, 0.25, 0,
                0, 0);
    EXPECT(bell_pinv(T(V(0, 0, 0, 0), 2, 2), -1, false), 0, 0, 0, 0);
    x = T(V(1, 2, 2, 4, 3, 0, 0, 3, 0, 0, 0, 0), 3, 2, 2);
    EXPECT(bell_matrix_rank(x, -1, false), 1, 2, 0);
    EXPECT(bell_matrix_rank(x, -1, true), 1, 2, 0);
    EXPECT(bell_matrix_rank(T(V(4, 0, 0, 1), 2, 2), 0.25, false), 1);
    EXPECT(bell_svdvals(T(V(3, 0, 0, -2), 2, 2)), 3, 2);
    /* square factors, also of a matrix of rank 1 */
    x = hard(3, 5, 2);
    bell_svd_full(x, &u, &s, &v);
    EXPECT_SHAPE(u, 2, 5, 5);
    EXPECT_SHAPE(v, 2, 2, 2);
    EXPECT_CLOSE(product(bell_t(u), u), unit(5), 1e-13);
    EXPECT_CLOSE(
        product(bell_mul(bell_narrow(u, 2, 0, 2), bell_unsqueeze(s, 1)), v), x,
        1e-12);
    bell_svd_full(bell_t(x), &u, &s, &v);
    EXPECT_SHAPE(u, 2, 2, 2);
    EXPECT_CLOSE(product(v, bell_t(v)), unit(5), 1e-13);
}

/* ---- gradients ---- */

typedef struct bell_tensor *make_loss(struct bell_tensor *const *x);

/* The same weights for every element of a result, by its place. */
static struct bell_tensor *
weigh(struct bell_tensor *y)
{
    struct bell_tensor *w =
        bell_arange(ctx, 0, (double)bell_numel(y), 1, BELL_FLOAT64);

    w = bell_sin(bell_mul_scalar(bell_add_scalar(w, 1), 1.7));
    return bell_sum(bell_mul(y, bell_reshape(w, bell_shape(y), bell_ndim(y))),
                    BELL_NO_DIMS, false);
}

static struct bell_tensor *
loss_cholesky(struct bell_tensor *const *x)
{
    struct bell_tensor *a = bell_add(x[0], bell_t(x[0]));

    return bell_add(weigh(bell_cholesky(a, false)),
                    weigh(bell_cholesky(a, true)));
}

static struct bell_tensor *
loss_triangular(struct bell_tensor *const *x)
{
    return bell_add(weigh(bell_solve_triangular(x[0], x[1], false, false)),
                    weigh(bell_solve_triangular(x[0], x[1], true, true)));
}

static struct bell_tensor *
loss_solve(struct bell_tensor *const *x)
{
    return weigh(bell_solve(x[0], x[1]));
}

static struct bell_tensor *
loss_inv(struct bell_tensor *const *x)
{
    return bell_add(weigh(bell_inv(x[0])), weigh(bell_det(x[0])));
}

static struct bell_tensor *
loss_qr(struct bell_tensor *const *x)
{
    struct bell_tensor *q, *r;

    bell_qr(x[0], &q, &r);
    return bell_add(weigh(q), weigh(r));
}

/* What does not depend on the signs of both. */
static struct bell_tensor *
loss_svd(struct bell_tensor *const *x)
{
    struct bell_tensor *u, *s, *v, *uu, *vv;

    bell_svd(x[0], &u, &s, &v);
    uu = weigh(bell_square(u));
    vv = weigh(bell_square(v));
    return bell_add(bell_add(weigh(s), bell_mul_scalar(uu, 0.7)),
                    bell_add(vv, weigh(bell_matmul(u, v))));
}

/* Central differences of each element. */
static void
check_gradient(make_loss *loss, struct bell_tensor *const *x, uint32_t n)
{
    struct bell_tensor *g[2] = {NULL, NULL}, *moved[2];
    double values[64], got[64], ends[2];
    const double step = 1e-5;
    uint32_t i, k, side;

    assert_int_equal(bell_gradient(loss(x), x, n, g), BELL_OK);
    for (i = 0; i < n; i++) {
        get(x[i], values);
        get(g[i], got);
        for (k = 0; k < bell_numel(x[i]); k++) {
            double was = values[k], want;
            bell_scope_begin(ctx);
            for (side = 0; side < 2; side++) {
                values[k] = was + (side ? step : -step);
                moved[0] = x[0];
                moved[1] = n > 1 ? x[1] : NULL;
                moved[i] = tensor_of(values, bell_shape(x[i]), bell_ndim(x[i]));
                assert_int_equal(bell_item_f64(loss(moved), &ends[side]),
                                 BELL_OK);
            }
            values[k] = was;
            assert_int_equal(bell_scope_end(ctx), BELL_OK);
            want = (ends[1] - ends[0]) / (2 * step);
            if (!(fabs(got[k] - want) <= 1e-6 * (1 + fabs(want))))
                fail_msg("input %u, element %u: %g for %g", i, k, got[k], want);
        }
    }
}

/* Invariant to signs of vectors. */
static struct bell_tensor *
loss_eigh(struct bell_tensor *const *x)
{
    struct bell_tensor *a = bell_add(x[0], bell_t(x[0])), *values, *v;

    bell_eigh(a, true, &values, &v);
    return bell_add(weigh(values), weigh(bell_square(v)));
}

static struct bell_tensor *
loss_slogdet(struct bell_tensor *const *x)
{
    struct bell_tensor *sign, *size;

    bell_slogdet(x[0], &sign, &size);
    return bell_add(weigh(size), weigh(sign));
}

static struct bell_tensor *
loss_pinv(struct bell_tensor *const *x)
{
    return weigh(bell_pinv(x[0], -1, false));
}

static struct bell_tensor *
loss_det(struct bell_tensor *const *x)
{
    return weigh(bell_det(x[0]));
}

/* Gradients where a formula divides by 0: of the values alone, and of a
 * singular matrix' determinant, where PyTorch has them. */
static void
test_edge_gradients(void **state)
{
    struct bell_tensor *x = T(V(2, 0, 0, 2), 2, 2), *u, *s, *v, *g;

    (void)state;
    bell_svd(x, &u, &s, &v);
    s = bell_sum(s, BELL_NO_DIMS, false);
    assert_int_equal(bell_gradient(s, &x, 1, &g), BELL_OK);
    EXPECT_NEAR(g, 1e-14, 1, 0, 0, 1);
    s = bell_sum(bell_eigvalsh(x, false), BELL_NO_DIMS, false);
    assert_int_equal(bell_gradient(s, &x, 1, &g), BELL_OK);
    EXPECT_NEAR(g, 1e-14, 1, 0, 0, 1);
    x = T(V(3, 0, 0, 0, 0, 0), 3, 2);
    s = bell_sum(bell_square(bell_svdvals(x)), BELL_NO_DIMS, false);
    assert_int_equal(bell_gradient(s, &x, 1, &g), BELL_OK);
    EXPECT_NEAR(g, 1e-14, 6, 0, 0, 0, 0, 0);
    /* cofactors: of rank 2, 1 and 0 */
    x = T(V(1, 2, 3, 4, 5, 6, 7, 8, 9), 3, 3);
    check_gradient(loss_det, &x, 1);
    x = T(V(0, 1, 0, 0, 0, 1, 0, 0, 0), 3, 3);
    check_gradient(loss_det, &x, 1);
    x = T(V(1, 2, 2, 4, 0, 0, 0, 0, 3, 0, 0, 0), 3, 2, 2);
    check_gradient(loss_det, &x, 1);
    x = T(V(1, 2, 3, 2, 4, 6, 3, 6, 9), 3, 3);
    check_gradient(loss_det, &x, 1);
    x = T(V(0), 1, 1);
    check_gradient(loss_det, &x, 1);
    /* of constant rank 1: that of t x y^T by t */
    x = T(V(2, 2, 2, 2), 2, 2);
    s = bell_sum(bell_pinv(x, -1, false), BELL_NO_DIMS, false);
    assert_int_equal(bell_gradient(s, &x, 1, &g), BELL_OK);
    EXPECT_NEAR(bell_sum(g, BELL_NO_DIMS, false), 1e-13, -0.25);
}

static void
test_gradients(void **state)
{
    struct bell_tensor *x[2];

    (void)state;
    x[0] = bell_add(noise(-0.3, 0.3, BELL_DIMS(2, 3, 3)), unit(3));
    x[1] = noise(-1, 1, BELL_DIMS(3, 2));
    check_gradient(loss_cholesky, x, 1);
    if (is_slow_device())
        return;
    check_gradient(loss_triangular, x, 2);
    check_gradient(loss_solve, x, 2);
    check_gradient(loss_inv, x, 1);
    check_gradient(loss_eigh, x, 1);
    check_gradient(loss_slogdet, x, 1);
    check_gradient(loss_pinv, x, 1);
    check_gradient(loss_qr, x, 1);
    check_gradient(loss_svd, x, 1);
    x[0] = noise(-1, 1, BELL_DIMS(4, 2));
    check_gradient(loss_pinv, x, 1);
    check_gradient(loss_qr, x, 1);
    check_gradient(loss_svd, x, 1);
    x[0] = noise(-1, 1, BELL_DIMS(2, 4));
    check_gradient(loss_pinv, x, 1);
    check_gradient(loss_qr, x, 1);
    check_gradient(loss_svd, x, 1);
}

/* The gradient of a gradient: d^2 / dx^2 of 1 / x. */
static void
test_twice(void **state)
{
    struct bell_tensor *x = T(V(2), 1, 1), *g, *h;

    (void)state;
    assert_int_equal(bell_gradient(weigh(bell_inv(x)), &x, 1, &g), BELL_OK);
    assert_int_equal(bell_gradient(bell_sum(g, BELL_NO_DIMS, false), &x, 1, &h),
                     BELL_OK);
    EXPECT_NEAR(h, 1e-14, sin(1.7) * 2 / 8);
}

static void
test_empty(void **state)
{
    struct bell_tensor *x = bell_zeros(ctx, BELL_DIMS(3, 0, 0), BELL_FLOAT64);
    struct bell_tensor *a, *b, *c;

    (void)state;
    EXPECT_SHAPE(bell_cholesky(x, false), 3, 0, 0);
    EXPECT(bell_det(x), 1, 1, 1);
    EXPECT_SHAPE(bell_inv(x), 3, 0, 0);
    EXPECT_SHAPE(bell_solve(x, bell_zeros(ctx, BELL_DIMS(0, 4), BELL_FLOAT64)),
                 3, 0, 4);
    EXPECT_SHAPE(bell_eigvalsh(x, false), 3, 0);
    EXPECT_SHAPE(bell_pinv(x, -1, true), 3, 0, 0);
    EXPECT(bell_matrix_rank(x, -1, false), 0, 0, 0);
    bell_slogdet(x, &a, &b);
    EXPECT(a, 1, 1, 1);
    EXPECT(b, 0, 0, 0);
    x = bell_zeros(ctx, BELL_DIMS(0, 3, 2), BELL_FLOAT64);
    EXPECT_SHAPE(bell_pinv(x, -1, false), 0, 2, 3);
    EXPECT_SHAPE(bell_matrix_rank(x, -1, false), 0);
    bell_svd_full(x, &a, &b, &c);
    EXPECT_SHAPE(a, 0, 3, 3);
    bell_qr(x, &a, &b);
    EXPECT_SHAPE(a, 0, 3, 2);
    EXPECT_SHAPE(b, 0, 2, 2);
    x = bell_zeros(ctx, BELL_DIMS(2, 3, 0), BELL_FLOAT64);
    bell_qr(x, &a, &b);
    EXPECT_SHAPE(a, 2, 3, 0);
    bell_svd(x, &a, &b, &c);
    EXPECT_SHAPE(a, 2, 3, 0);
    EXPECT_SHAPE(b, 2, 0);
    EXPECT_SHAPE(c, 2, 0, 0);
    x = bell_zeros(ctx, BELL_DIMS(2, 2), BELL_FLOAT64);
    EXPECT_SHAPE(bell_solve(x, bell_zeros(ctx, BELL_DIMS(2, 0), BELL_FLOAT64)),
                 2, 0);
}

static void
test_refused(void **state)
{
    struct bell_tensor *x = T(V(1, 2, 3, 4, 5, 6), 2, 3), *q, *r = NULL, *s;

    (void)state;
    EXPECT_ERROR(bell_cholesky(x, false),
                 "bell_cholesky: (2, 3): the matrix is not square");
    EXPECT_ERROR(bell_det(T(V(1, 2), 2)),
                 "bell_det: (2,): a matrix has two axes");
    EXPECT_ERROR(bell_solve(T(V(1, 0, 0, 1), 2, 2), T(V(1, 2, 3), 3)),
                 "bell_solve: (2, 2) and (3,) do not make systems of "
                 "equations");
    EXPECT_ERROR(bell_inv(bell_zeros(ctx, BELL_DIMS(1025, 1025), BELL_FLOAT32)),
                 "bell_inv: (1025, 1025): matrices of up to 1024 x 1024 are "
                 "possible");
    bell_qr(bell_zeros(ctx, BELL_DIMS(1025, 3), BELL_FLOAT32), &q, &r);
    EXPECT_ERROR(q, "bell_qr: (1025, 3): matrices of up to 1024 x 1024 are "
                    "possible");
    assert_true(bell_is_error(r));
    bell_svd(bell_zeros(ctx, BELL_DIMS(33, 1025), BELL_FLOAT32), &q, &r, &s);
    EXPECT_ERROR(q, "bell_svd: (33, 1025): matrices of up to 1024 x 1024 are "
                    "possible");
    bell_eigh(x, false, &q, &r);
    EXPECT_ERROR(q, "bell_eigh: (2, 3): the matrix is not square");
    bell_slogdet(x, &q, &r);
    EXPECT_ERROR(r, "bell_slogdet: (2, 3): the matrix is not square");
    EXPECT_ERROR(bell_pinv(x, -1, true),
                 "bell_pinv: (2, 3): the matrix is not square");
    bell_eigh(x, false, NULL, &r);
    assert_true(bell_is_error(r));
    q = r = NULL;
    bell_svd(x, NULL, &r, &s);
    assert_true(bell_is_error(r) && bell_is_error(s));
    q = r = NULL;
    bell_svd(x, &q, &r, NULL);
    assert_true(bell_is_error(q) && bell_is_error(r));
    assert_int_equal(bell_context_status(ctx), BELL_E_INVALID);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_cholesky, make_context,
                                        end_context),
        cmocka_unit_test_setup_teardown(test_triangular, make_context,
                                        end_context),
        cmocka_unit_test_setup_teardown(test_solve, make_context, end_context),
        cmocka_unit_test_setup_teardown(test_det, make_context, end_context),
        cmocka_unit_test_setup_teardown(test_qr, make_context, end_context),
        cmocka_unit_test_setup_teardown(test_large_cholesky, make_context,
                                        end_context),
        cmocka_unit_test_setup_teardown(test_large_systems, make_context,
                                        end_context),
        cmocka_unit_test_setup_teardown(test_large_qr, make_context,
                                        end_context),
        cmocka_unit_test_setup_teardown(test_svd, make_context, end_context),
        cmocka_unit_test_setup_teardown(test_large_turns, make_context,
                                        end_context),
        cmocka_unit_test_setup_teardown(test_eigh, make_context, end_context),
        cmocka_unit_test_setup_teardown(test_more_factors, make_context,
                                        end_context),
        cmocka_unit_test_setup_teardown(test_gradients, make_context,
                                        end_context),
        cmocka_unit_test_setup_teardown(test_edge_gradients, make_context,
                                        end_context),
        cmocka_unit_test_setup_teardown(test_twice, make_context, end_context),
        cmocka_unit_test_setup_teardown(test_empty, make_context, end_context),
        cmocka_unit_test_setup_teardown(test_refused, make_context,
                                        end_context),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
