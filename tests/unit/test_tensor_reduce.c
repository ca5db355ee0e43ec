/* Reductions, scans, order, matrix products, convolution, pooling,
 * normalisation and losses against plain loops and hand-made values. */
#include "tests/unit/tensor_host.h"

#include <stdlib.h>

/* The elements of a tensor; the test's to free. */
static double *
read_all(struct bell_tensor *t)
{
    size_t n = (size_t)bell_numel(t);
    double *values = malloc((n + 1) * sizeof(*values));

    assert_non_null(values);
    if (bell_read_f64(t, values, n) != BELL_OK) {
        print_error("%s\n", bell_error_last()->message);
        fail();
    }
    return values;
}

static void
expect_all(int line, struct bell_tensor *t, const double *want, size_t n)
{
    expect_values(__FILE__, line, t, want, n, 1e-12);
}

/* ---- reductions ---- */

#define PRIME 65537 /* long enough to be reduced in parts */

static void
test_prime_lengths(void **state)
{
    static const enum bell_dtype dtypes[] = {BELL_FLOAT32, BELL_INT32,
                                             BELL_UINT8, BELL_FLOAT16};
    double *values = malloc(PRIME * sizeof(*values));
    struct bell_tensor *x, *three, *data;
    size_t i;

    (void)state;
    assert_non_null(values);
    for (i = 0; i < PRIME; i++)
        values[i] = i < PRIME - 2 ? 3 : 5;
    data = bell_from_data(ctx, BELL_DIMS(PRIME), BELL_FLOAT64, values);
    for (i = 0; i < ARRAY_LEN(dtypes); i++) {
        x = bell_cast(data, dtypes[i]);
        three = bell_scalar(ctx, 3);
        EXPECT(bell_min(x, BELL_NO_DIMS, false), 3);
        EXPECT(bell_max(x, BELL_NO_DIMS, false), 5);
        EXPECT(
            bell_max(bell_neg(bell_cast(x, BELL_INT32)), BELL_NO_DIMS, false),
            -3);
        EXPECT(bell_sum(bell_cast(x, BELL_INT32), BELL_NO_DIMS, false),
               3 * PRIME + 4);
        EXPECT(bell_mean(bell_cast(x, BELL_FLOAT32), BELL_NO_DIMS, false),
               (float)(3 + 4.0 / PRIME));
        EXPECT(bell_all(bell_eq(x, three), BELL_NO_DIMS, false), 0);
        EXPECT(bell_all(bell_ge(x, three), BELL_NO_DIMS, false), 1);
        EXPECT(bell_any(bell_lt(x, three), BELL_NO_DIMS, false), 0);
    }
    x = bell_unsqueeze(bell_cast(data, BELL_FLOAT32), 1);
    x = bell_mul(x, T(V(1, -2, 0), 3));
    EXPECT(bell_sum(x, BELL_DIMS(0), false), 3 * PRIME + 4, -6 * PRIME - 8, 0);
    EXPECT(bell_max(x, BELL_DIMS(0), false), 5, -6, 0);
    EXPECT(bell_prod(bell_sub(x, T(V(4, -5, -1), 3)), BELL_DIMS(0), false), -1,
           -25, 1);
    free(values);
}

static void
test_sums(void **state)
{
    struct bell_tensor *x = T(V(1, -2, 3, 4, 5, -6), 2, 3);
    struct bell_tensor *i = bell_cast(x, BELL_INT8);

    (void)state;
    EXPECT(bell_sum(x, BELL_NO_DIMS, false), 5);
    EXPECT(bell_sum(x, BELL_DIMS(0), false), 5, 3, -3);
    EXPECT_SHAPE(bell_sum(x, BELL_DIMS(-1), true), 2, 1);
    EXPECT(bell_prod(x, BELL_DIMS(1), false), -6, -120);
    EXPECT(bell_max(x, BELL_DIMS(1), false), 3, 5);
    EXPECT(bell_min(x, BELL_DIMS(0, 1), true), -6);
    EXPECT(bell_mean(x, BELL_DIMS(1), false), 2.0 / 3, 1);
    EXPECT(bell_var(x, BELL_DIMS(1), false, 1), 19.0 / 3, 37);
    EXPECT(bell_std(x, BELL_DIMS(1), false, 0), sqrt(38.0 / 9), sqrt(74.0 / 3));
    EXPECT(bell_var(T(V(3), 1), BELL_NO_DIMS, false, 1), NAN);
    EXPECT(bell_any(bell_lt(x, bell_scalar(ctx, -5)), BELL_DIMS(1), false), 0,
           1);
    EXPECT(bell_all(x, BELL_NO_DIMS, false), 1);
    EXPECT(bell_count_nonzero(bell_relu(x), BELL_DIMS(0)), 2, 1, 1);
    EXPECT(bell_norm(x, 2, BELL_NO_DIMS, false), sqrt(91));
    EXPECT(bell_norm(x, 1, BELL_DIMS(1), false), 6, 15);
    EXPECT(bell_norm(x, INFINITY, BELL_DIMS(1), false), 3, 6);
    EXPECT(bell_norm(x, -INFINITY, BELL_DIMS(1), false), 1, 4);
    EXPECT(bell_norm(x, 0, BELL_DIMS(1), false), 3, 3);
    EXPECT(bell_norm(x, 3, BELL_DIMS(1), false), cbrt(36), cbrt(405));
    EXPECT(bell_normalize(x, 1, 1, 1e-12), 1.0 / 6, -2.0 / 6, 3.0 / 6, 4.0 / 15,
           5.0 / 15, -6.0 / 15);
    /* integers */
    EXPECT(bell_sum(i, BELL_NO_DIMS, false), 5);
    assert_int_equal(bell_dtype_of(bell_sum(i, BELL_NO_DIMS, false)),
                     BELL_INT64);
    assert_int_equal(bell_dtype_of(bell_max(i, BELL_NO_DIMS, false)),
                     BELL_INT8);
    EXPECT(bell_sum(bell_cast(x, BELL_BOOL), BELL_NO_DIMS, false), 6);
    EXPECT(bell_max(bell_cast(x, BELL_BOOL), BELL_NO_DIMS, false), 1);
    /* many small float16 do not get stuck */
    EXPECT(bell_sum(bell_ones(ctx, BELL_DIMS(5000), BELL_FLOAT16), BELL_NO_DIMS,
                    false),
           5000);
    EXPECT(bell_mean(bell_full(ctx, BELL_DIMS(5000), 60, BELL_FLOAT16),
                     BELL_NO_DIMS, false),
           60);
    EXPECT(bell_max(T(V(1, NAN, 3), 3), BELL_NO_DIMS, false), NAN);
    EXPECT_ERROR(bell_max(bell_zeros(ctx, BELL_DIMS(2, 0), BELL_INT8),
                          BELL_DIMS(1), false),
                 "bell_max: over no elements, of shape (2, 0)");
    EXPECT_ERROR(bell_mean(i, BELL_NO_DIMS, false),
                 "bell_mean: of int8; a float dtype is needed, see bell_cast");
    EXPECT_ERROR(bell_sum(x, BELL_DIMS(2), false),
                 "bell_sum: axis 2 of a tensor of 2 axes; expected -2 to 1");
    EXPECT_ERROR(bell_sum(x, BELL_DIMS(0, -2), false),
                 "bell_sum: axis 0 is listed twice");
    EXPECT_ERROR(
        bell_norm(x, NAN, BELL_NO_DIMS, false),
        "bell_norm: the order is nan over shape (2, 3); expected a number");
    x = bell_zeros(ctx, BELL_DIMS(2, 0), BELL_FLOAT64);
    EXPECT_ERROR(bell_norm(x, -1, BELL_DIMS(1), false),
                 "bell_norm: of order -1 over no elements, of shape (2, 0); an "
                 "order from 0 on is needed, and not infinity");
    EXPECT_ERROR(bell_norm(x, -INFINITY, BELL_NO_DIMS, false),
                 "bell_norm: of order -inf over no elements, of shape (2, 0); "
                 "an order from 0 on is needed, and not infinity");
    EXPECT_ERROR(bell_normalize(x, -0.5, 1, 1e-12),
                 "bell_normalize: of order -0.5 over no elements, of shape "
                 "(2, 0); an order from 0 on is needed, and not infinity");
    EXPECT_SHAPE(bell_norm(x, -1, BELL_DIMS(0), false), 0);
    EXPECT(bell_norm(x, 0.5, BELL_DIMS(1), false), 0, 0);
}

static void
test_arg_extremes(void **state)
{
    struct bell_tensor *x = T(V(1, 5, 5, 3, 0, 0), 2, 3);

    (void)state;
    EXPECT(bell_argmax(x, 1, false), 1, 0);
    EXPECT(bell_argmin(x, 1, true), 0, 1);
    EXPECT_SHAPE(bell_argmin(x, 1, true), 2, 1);
    EXPECT(bell_argmax(x, BELL_FLAT, false), 1);
    EXPECT_SHAPE(bell_argmax(x, BELL_FLAT, true), 1, 1);
    EXPECT(bell_argmax(T(V(1, NAN, 9, NAN), 4), 0, false), 1);
    EXPECT(bell_argmax(bell_cast(x, BELL_BOOL), 0, false), 0, 0, 0);
    EXPECT(bell_argmin(bell_scalar(ctx, 2), -1, false), 0);
    assert_int_equal(bell_dtype_of(bell_argmax(x, 0, false)), BELL_INT64);
    EXPECT_ERROR(
        bell_argmax(bell_zeros(ctx, BELL_DIMS(0), BELL_INT8), 0, false),
        "bell_argmax: over no elements, of shape (0,)");
}

static void
test_softmax(void **state)
{
    struct bell_tensor *x = T(V(0, log(2), log(5), 1000, 1000, 999), 2, 3);
    double a = 1 / (2 + exp(-1)), inf = INFINITY;

    (void)state;
    EXPECT(bell_softmax(x, 1), 0.125, 0.25, 0.625, a, a, a * exp(-1));
    EXPECT(bell_log_softmax(x, -1), log(0.125), log(0.25), log(0.625), log(a),
           log(a), log(a) - 1);
    EXPECT(bell_softmin(T(V(0, log(2)), 2), 0), 2.0 / 3, 1.0 / 3);
    EXPECT(bell_logsumexp(x, BELL_DIMS(1), false), log(8), 1000 - log(a));
    EXPECT(bell_logsumexp(T(V(-INFINITY, -INFINITY, 1, INFINITY), 2, 2),
                          BELL_DIMS(1), false),
           -inf, inf);
    EXPECT(bell_softmax(bell_scalar(ctx, 3), 0), 1);
    EXPECT(bell_softmax(I(V(1, 1), 2), 0), 0.5, 0.5);
    assert_int_equal(bell_dtype_of(bell_softmax(I(V(1, 1), 2), 0)),
                     BELL_FLOAT32);
}

/* ---- scans and order ---- */

static void
test_scans(void **state)
{
    static const int64_t sizes[] = {1, 2, 63, 64, 65, 200, 4097};
    size_t k, i;

    (void)state;
    EXPECT(bell_cumsum(T(V(1, 2, 3, 4, 5, 6), 2, 3), 0), 1, 2, 3, 5, 7, 9);
    EXPECT(bell_cumprod(T(V(1, 2, 3, 4, 5, 6), 2, 3), 1), 1, 2, 6, 4, 20, 120);
    EXPECT(bell_cummin(T(V(3, 1, 2, 0), 4), -1), 3, 1, 1, 0);
    EXPECT(bell_cumsum(bell_cast(I(V(1, 0, 1), 3), BELL_BOOL), 0), 1, 1, 2);
    EXPECT(bell_cummax(bell_cast(I(V(0, 1, 0), 3), BELL_BOOL), 0), 0, 1, 1);
    EXPECT_SHAPE(bell_cumsum(bell_zeros(ctx, BELL_DIMS(0, 2), BELL_INT8), 0), 0,
                 2);
    EXPECT(bell_cumsum(bell_scalar(ctx, 2), 0), 2);
    for (k = 0; k < ARRAY_LEN(sizes); k++) {
        size_t n = (size_t)sizes[k];
        double *want = malloc(n * sizeof(*want)), *x, best = -INFINITY;
        double product = 1, sum = 0;
        struct bell_tensor *t = noise(-1.3, 1.2, BELL_DIMS(sizes[k]));
        assert_non_null(want);
        x = read_all(t);
        for (i = 0; i < n; i++)
            want[i] = sum += x[i];
        expect_all(__LINE__, bell_cumsum(t, 0), want, n);
        for (i = 0; i < n; i++)
            want[i] = product *= x[i];
        expect_all(__LINE__, bell_cumprod(t, 0), want, n);
        for (i = 0; i < n; i++)
            want[i] = best = x[i] > best ? x[i] : best;
        expect_all(__LINE__, bell_cummax(t, 0), want, n);
        free(want);
        free(x);
    }
}

static void
test_sorting(void **state)
{
    struct bell_tensor *x = T(V(3, 1, 2, 1, NAN, -5), 2, 3), *v, *i;

    (void)state;
    bell_sort(x, 1, false, &v, &i);
    EXPECT(v, 1, 2, 3, -5, 1, NAN);
    EXPECT(i, 1, 2, 0, 2, 0, 1);
    bell_sort(x, 1, true, &v, &i);
    EXPECT(v, 3, 2, 1, NAN, 1, -5);
    EXPECT(bell_argsort(I(V(2, 1, 2, 1), 4), 0, false), 1, 3, 0, 2);
    EXPECT(bell_argsort(I(V(2, 1, 2, 1), 4), 0, true), 0, 2, 1, 3);
    bell_topk(x, 2, 1, true, &v, &i);
    EXPECT(v, 3, 2, NAN, 1);
    EXPECT(i, 0, 2, 1, 0);
    bell_topk(T(V(3, 1, 2), 3), 1, 0, false, &v, NULL);
    EXPECT(v, 1);
    bell_sort(bell_cast(I(V(1, 0, 1), 3), BELL_BOOL), 0, false, &v, NULL);
    EXPECT(v, 0, 1, 1);
    bell_topk(x, 4, 1, true, &v, &i);
    EXPECT_ERROR(i, "bell_topk: k is 4, not in 0..3, the size of axis 1 of "
                    "(2, 3)");
    bell_topk(x, -1, 1, true, &v, &i);
    EXPECT_ERROR(v, "bell_topk: k is -1, not in 0..3, the size of axis 1 of "
                    "(2, 3)");
    x = bell_scalar(ctx, 3);
    bell_sort(x, -1, false, &v, &i);
    EXPECT(v, 3);
    EXPECT(i, 0);
    EXPECT(bell_argsort(x, 0, true), 0);
    bell_topk(x, 1, -1, true, &v, NULL);
    EXPECT(v, 3);
}

/* Sorts n values with NaN the greatest, stable, by insertion. */
static void
order_of(const double *x, size_t n, bool descending, size_t *out_order)
{
    size_t i, j;

    for (i = 0; i < n; i++) {
        for (j = i; j > 0; j--) {
            double a = x[out_order[j - 1]], b = x[i];
            bool before = descending ? b > a || (isnan(b) && !isnan(a))
                                     : b < a || (isnan(a) && !isnan(b));
            if (!before)
                break;
            out_order[j] = out_order[j - 1];
        }
        out_order[j] = i;
    }
}

/* Row 1 of t, along axis 1 of 3, in order. */
static void
expect_order(int line, struct bell_tensor *t, bool descending, int64_t k)
{
    size_t n = (size_t)bell_shape(t)[1], i, order[400];
    struct bell_tensor *values, *indices, *row;
    double *x, want[400], places[400];

    row = bell_select(bell_select(t, 2, 1), 0, 1);
    x = read_all(row);
    order_of(x, n, descending, order);
    for (i = 0; i < (size_t)k; i++) {
        want[i] = x[order[i]];
        places[i] = (double)order[i];
    }
    if (k == (int64_t)n)
        bell_sort(t, 1, descending, &values, &indices);
    else
        bell_topk(t, k, 1, descending, &values, &indices);
    values = bell_select(bell_select(values, 2, 1), 0, 1);
    indices = bell_select(bell_select(indices, 2, 1), 0, 1);
    expect_all(line, values, want, (size_t)k);
    expect_all(line, indices, places, (size_t)k);
    free(x);
}

/* Rows of all lengths, whose kernels do 1 to 4 stages: many equal elements,
 * the greatest and the least, NaN and zeros of both signs. */
static void
test_orders(void **state)
{
    static const int64_t sizes[] = {1, 2, 5, 8, 16, 31, 33, 130, 300};
    static const enum bell_dtype dtypes[] = {
        BELL_FLOAT32, BELL_FLOAT64, BELL_FLOAT16, BELL_INT8,
        BELL_INT32,   BELL_UINT32,  BELL_INT64,   BELL_UINT64,
    };
    size_t i, k;

    (void)state;
    for (i = 0; i < ARRAY_LEN(sizes); i++) {
        for (k = 0; k < ARRAY_LEN(dtypes); k++) {
            int64_t n = sizes[i];
            struct bell_tensor *t, *special;
            if (n > 33 ? k > 1 : n > 2 && (k + i) % 3)
                continue;
            t = bell_round(noise(-9, 9, BELL_DIMS(2, n, 2)));
            if (k < 3) {
                special = noise(0, 1, BELL_DIMS(2, n, 2));
                t = bell_where(bell_lt(special, bell_scalar(ctx, 0.2)),
                               bell_scalar(ctx, NAN), t);
                t = bell_where(bell_gt(special, bell_scalar(ctx, 0.8)),
                               bell_scalar(ctx, -0.0), t);
                t = bell_where(bell_lt(t, bell_scalar(ctx, -8)),
                               bell_scalar(ctx, -INFINITY), t);
            }
            t = bell_cast(t, dtypes[k]);
            if (k == 5) /* great ones, and great for 64 bits */
                t = bell_sub(t, bell_cast(bell_scalar(ctx, 5), dtypes[k]));
            else if (k > 5)
                t = bell_mul(
                    t, bell_cast(bell_scalar(ctx, k == 6 ? 0x1p59 : 0x1p60),
                                 dtypes[k]));
            expect_order(__LINE__, t, (i + k) % 2, n);
            if (n > 2 && (k < 2 || k == 5))
                expect_order(__LINE__, t, (i + k) % 2, k ? 2 : n / 2);
        }
    }
}

/* ---- matrix products ---- */

static void
test_matmul(void **state)
{
    struct bell_tensor *a = T(V(1, 2, 3, 4, 5, 6), 2, 3);
    struct bell_tensor *b = T(V(1, 0, -1, 2, 1, 1), 3, 2);
    struct bell_tensor *v = T(V(1, 2, 3), 3);

    (void)state;
    EXPECT(bell_matmul(a, b), 2, 7, 5, 16);
    EXPECT(bell_matmul(a, v), 14, 32);
    EXPECT(bell_matmul(v, b), 2, 7);
    EXPECT(bell_matmul(v, v), 14);
    assert_int_equal(bell_ndim(bell_matmul(v, v)), 0);
    EXPECT(bell_dot(v, v), 14);
    EXPECT(bell_outer(T(V(1, 2), 2), v), 1, 2, 3, 2, 4, 6);
    EXPECT_SHAPE(bell_matmul(noise(0, 1, BELL_DIMS(5, 1, 2, 3)),
                             noise(0, 1, BELL_DIMS(4, 3, 7))),
                 5, 4, 2, 7);
    EXPECT(bell_matmul(bell_stack(BELL_TENSORS(a, bell_neg(a)), 0), b), 2, 7, 5,
           16, -2, -7, -5, -16);
    EXPECT(bell_bmm(bell_unsqueeze(a, 0), bell_unsqueeze(b, 0)), 2, 7, 5, 16);
    EXPECT(bell_linear(a, bell_t(b), T(V(10, 20), 2)), 12, 27, 15, 36);
    EXPECT(bell_linear(v, bell_t(b), NULL), 2, 7);
    EXPECT(bell_matmul(bell_cast(a, BELL_INT8), bell_cast(b, BELL_INT8)), 2, 7,
           5, 16);
    /* float16 is added in float32 */
    EXPECT(bell_matmul(bell_ones(ctx, BELL_DIMS(1, 4096), BELL_FLOAT16),
                       bell_ones(ctx, BELL_DIMS(4096, 1), BELL_FLOAT16)),
           4096);
    EXPECT(bell_sum(bell_matmul(bell_zeros(ctx, BELL_DIMS(2, 0), BELL_FLOAT32),
                                bell_zeros(ctx, BELL_DIMS(0, 2), BELL_FLOAT32)),
                    BELL_NO_DIMS, false),
           0);
    EXPECT_ERROR(bell_matmul(bell_zeros(ctx, BELL_DIMS(3, 4), BELL_FLOAT32),
                             bell_zeros(ctx, BELL_DIMS(5, 6), BELL_FLOAT32)),
                 "bell_matmul: (3, 4) @ (5, 6): inner sizes 4 and 5 differ");
    EXPECT_ERROR(bell_matmul(a, bell_scalar(ctx, 1)),
                 "bell_matmul: (2, 3) @ (): a scalar has no inner axis");
    EXPECT_ERROR(bell_matmul(noise(0, 1, BELL_DIMS(2, 2, 3)),
                             noise(0, 1, BELL_DIMS(3, 3, 2))),
                 "bell_matmul: (2, 2, 3) @ (3, 3, 2): batch sizes do not "
                 "broadcast");
    EXPECT_ERROR(bell_dot(a, v),
                 "bell_dot: (2, 3) and (3,); one axis each is needed");
    EXPECT_ERROR(bell_bmm(a, b), "bell_bmm: (2, 3) and (3, 2); three axes each "
                                 "and one batch size are needed");
    EXPECT_ERROR(
        bell_linear(a, b, NULL),
        "bell_linear: x of shape (2, 3) by a weight of shape (3, 2): expected "
        "as many columns, in a weight of 2 axes, or of 1 without a bias");
    EXPECT_ERROR(bell_linear(a, a, v),
                 "bell_linear: a bias of shape (3,) with a weight of shape (2, "
                 "3): expected one element for each row");
}

static void
test_einsum(void **state)
{
    struct bell_tensor *a = T(V(1, 2, 3, 4, 5, 6), 2, 3);
    struct bell_tensor *b = T(V(1, 0, -1, 2, 1, 1), 3, 2);
    struct bell_tensor *s = T(V(1, 2, 3, 4), 2, 2);

    (void)state;
    EXPECT(bell_einsum("ij,jk->ik", BELL_TENSORS(a, b)), 2, 7, 5, 16);
    EXPECT(bell_einsum("ij, jk", BELL_TENSORS(a, b)), 2, 7, 5, 16);
    EXPECT(bell_einsum("ba", BELL_TENSORS(a)), 1, 4, 2, 5, 3, 6);
    EXPECT(bell_einsum("ij->", BELL_TENSORS(a)), 21);
    EXPECT(bell_einsum("ii->i", BELL_TENSORS(s)), 1, 4);
    EXPECT(bell_einsum("ii", BELL_TENSORS(s)), 5);
    EXPECT(bell_einsum("ij,jk,ki->", BELL_TENSORS(a, b, s)),
           2 + 16 * 4 + 7 * 3 + 5 * 2);
    EXPECT(bell_einsum("i,j->ji", BELL_TENSORS(T(V(1, 2), 2), T(V(3, 5), 2))),
           3, 6, 5, 10);
    EXPECT_ERROR(bell_einsum("ij,kl->il", BELL_TENSORS(a)),
                 "bell_einsum: \"ij,kl->il\", column 3: more operands than "
                 "tensors");
    EXPECT_ERROR(bell_einsum("ij->ij", BELL_TENSORS(a, b)),
                 "bell_einsum: \"ij->ij\", column 3: fewer operands than "
                 "tensors");
    EXPECT_ERROR(bell_einsum("ij,ij", BELL_TENSORS(a, b)),
                 "bell_einsum: \"ij,ij\", column 4: the letter has another "
                 "size before");
    EXPECT_ERROR(bell_einsum("ijk", BELL_TENSORS(a)),
                 "bell_einsum: \"ijk\", column 3: more letters than the "
                 "operand has axes");
    EXPECT_ERROR(bell_einsum("i->i", BELL_TENSORS(a)),
                 "bell_einsum: \"i->i\", column 2: fewer letters than the "
                 "operand has axes");
    EXPECT_ERROR(bell_einsum("i.j", BELL_TENSORS(a)),
                 "bell_einsum: \"i.j\", column 2: not a letter, \",\" or "
                 "\"->\"");
    EXPECT_ERROR(bell_einsum("ij->ik", BELL_TENSORS(a)),
                 "bell_einsum: \"ij->ik\", column 6: the letter is in no "
                 "operand");
    EXPECT_ERROR(bell_einsum("ij->ii", BELL_TENSORS(a)),
                 "bell_einsum: \"ij->ii\", column 6: the letter is in the "
                 "result already");
    EXPECT_ERROR(bell_einsum("ij=>i", BELL_TENSORS(a)),
                 "bell_einsum: \"ij=>i\", column 3: not a letter, \",\" or "
                 "\"->\"");
}

static void
test_attention(void **state)
{
    struct bell_tensor *q = noise(-1, 1, BELL_DIMS(2, 3, 4));
    struct bell_tensor *k = noise(-1, 1, BELL_DIMS(2, 5, 4));
    struct bell_tensor *v = noise(-1, 1, BELL_DIMS(2, 5, 2)), *mask;
    double *dq = read_all(q), *dk = read_all(k), *dv = read_all(v);
    double want[2 * 3 * 2];
    int b, i, j, d;

    (void)state;
    for (b = 0; b < 2; b++) {
        for (i = 0; i < 3; i++) {
            double sum = 0, *out = want + (b * 3 + i) * 2;
            out[0] = out[1] = 0;
            for (j = 0; j <= i; j++) {
                double score = 0;
                for (d = 0; d < 4; d++)
                    score += dq[(b * 3 + i) * 4 + d] * dk[(b * 5 + j) * 4 + d];
                score = exp(score / 2);
                sum += score;
                out[0] += score * dv[(b * 5 + j) * 2];
                out[1] += score * dv[(b * 5 + j) * 2 + 1];
            }
            out[0] /= sum;
            out[1] /= sum;
        }
    }
    expect_all(__LINE__,
               bell_scaled_dot_product_attention(q, k, v, NULL, 0, true, 0),
               want, 12);
    mask = bell_tril(bell_ones(ctx, BELL_DIMS(3, 5), BELL_BOOL), 0);
    expect_all(__LINE__,
               bell_scaled_dot_product_attention(q, k, v, mask, 0, false, 0.5),
               want, 12);
    EXPECT_ERROR(bell_scaled_dot_product_attention(q, v, v, NULL, 0, false, 0),
                 "bell_scaled_dot_product_attention: q (2, 3, 4), k (2, 5, 2), "
                 "v (2, 5, 2) of float64: expected floats, [.., n, d], [.., m, "
                 "d] and [.., m, e]");
    free(dq);
    free(dk);
    free(dv);
}

/* ---- convolution and pooling against plain loops ---- */

struct conv_numbers {
    int64_t n, c, h, w, o, kh, kw;
    struct bell_conv_options opt;
};

static double
at4(const double *x, int64_t c, int64_t h, int64_t w, int64_t i, int64_t j,
    int64_t y, int64_t z)
{
    return x[((i * c + j) * h + y) * w + z];
}

static void
check_conv(const struct conv_numbers *p)
{
    int64_t g = p->opt.groups, ci = p->c / g, co = p->o / g, i, o, y, x, q, r,
            s;
    int64_t oh = (p->h + 2 * p->opt.padding[0] + p->opt.padding_end[0] -
                  p->opt.dilation[0] * (p->kh - 1) - 1) /
                     p->opt.stride[0] +
                 1;
    int64_t ow = (p->w + 2 * p->opt.padding[1] + p->opt.padding_end[1] -
                  p->opt.dilation[1] * (p->kw - 1) - 1) /
                     p->opt.stride[1] +
                 1;
    struct bell_tensor *tx = noise(-1, 1, BELL_DIMS(p->n, p->c, p->h, p->w));
    struct bell_tensor *tw = noise(-1, 1, BELL_DIMS(p->o, ci, p->kh, p->kw));
    struct bell_tensor *tb = noise(-1, 1, BELL_DIMS(p->o));
    double *dx = read_all(tx), *dw = read_all(tw), *db = read_all(tb);
    double *want = malloc(sizeof(*want) * (size_t)(p->n * p->o * oh * ow));
    double *out = want;

    assert_non_null(want);
    for (i = 0; i < p->n; i++)
        for (o = 0; o < p->o; o++)
            for (y = 0; y < oh; y++)
                for (x = 0; x < ow; x++) {
                    double sum = db[o];
                    for (q = 0; q < ci; q++)
                        for (r = 0; r < p->kh; r++)
                            for (s = 0; s < p->kw; s++) {
                                int64_t yy = y * p->opt.stride[0] +
                                             r * p->opt.dilation[0] -
                                             p->opt.padding[0];
                                int64_t xx = x * p->opt.stride[1] +
                                             s * p->opt.dilation[1] -
                                             p->opt.padding[1];
                                if (yy >= 0 && yy < p->h && xx >= 0 &&
                                    xx < p->w)
                                    sum +=
                                        at4(dx, p->c, p->h, p->w, i,
                                            o / co * ci + q, yy, xx) *
                                        at4(dw, ci, p->kh, p->kw, o, q, r, s);
                            }
                    *out++ = sum;
                }
    EXPECT_SHAPE(bell_conv2d(tx, tw, tb, &p->opt), p->n, p->o, oh, ow);
    expect_all(__LINE__, bell_conv2d(tx, tw, tb, &p->opt), want,
               (size_t)(p->n * p->o * oh * ow));
    /* one image without an axis for several */
    EXPECT_SHAPE(bell_conv2d(bell_select(tx, 0, 0), tw, tb, &p->opt), p->o, oh,
                 ow);
    expect_all(__LINE__,
               bell_conv2d(bell_select(tx, 0, p->n - 1), tw, tb, &p->opt),
               want + (p->n - 1) * p->o * oh * ow, (size_t)(p->o * oh * ow));
    free(dx);
    free(dw);
    free(db);
    free(want);
}

#define CONV sizeof(struct bell_conv_options)

static void
test_conv2d(void **state)
{
    static const struct conv_numbers cases[] = {
        {1, 1, 3, 3, 1, 1, 1, {CONV, {1, 1}, {0, 0}, {1, 1}, 1, {0, 0}}},
        {2, 3, 5, 6, 4, 3, 3, {CONV, {1, 1}, {1, 1}, {1, 1}, 1, {0, 0}}},
        {2, 2, 7, 6, 3, 3, 2, {CONV, {2, 3}, {1, 0}, {1, 1}, 1, {0, 0}}},
        {1, 4, 8, 7, 6, 3, 3, {CONV, {1, 2}, {2, 1}, {2, 3}, 2, {0, 0}}},
        {2, 4, 5, 5, 4, 5, 5, {CONV, {1, 1}, {0, 0}, {1, 1}, 4, {0, 0}}},
        {1, 2, 6, 6, 2, 2, 2, {CONV, {2, 2}, {0, 0}, {1, 1}, 1, {0, 0}}},
        {1, 1, 28, 28, 2, 5, 5, {CONV, {2, 2}, {0, 0}, {1, 1}, 1, {0, 0}}},
        {1, 1, 4, 4, 1, 2, 2, {CONV, {3, 3}, {0, 0}, {2, 2}, 1, {0, 0}}},
        {2,
         2,
         5,
         4,
         3,
         2,
         3,
         {CONV, {1, 2}, {0, 2}, {1, 1}, 1, {0, 0}, {1, -1}}},
        {1,
         4,
         6,
         5,
         2,
         4,
         2,
         {CONV, {2, 1}, {1, 1}, {1, 3}, 2, {0, 0}, {2, -1}}},
        {1, 2, 6, 7, 2, 2, 3, {CONV, {1, 1}, {-1, -2}, {1, 1}, 1, {0, 0}}},
        {1,
         2,
         6,
         7,
         2,
         2,
         3,
         {CONV, {2, 1}, {-2, 1}, {1, 1}, 1, {0, 0}, {3, -3}}},
    };
    static const struct bell_conv_options wide = {.struct_size = sizeof(wide),
                                                  .stride = {-1, 1}};
    static const struct bell_conv_options cut = {
        .struct_size = sizeof(cut), .padding = {-5}, .padding_end = {12}};
    struct bell_tensor *x = noise(0, 1, BELL_DIMS(1, 2, 4, 4));
    struct bell_tensor *w = noise(0, 1, BELL_DIMS(3, 2, 5, 5));
    size_t i;

    (void)state;
    for (i = 0; i < ARRAY_LEN(cases); i++)
        check_conv(&cases[i]);
    EXPECT(bell_conv1d(
               T(V(1, 2, 3, 4, 5), 1, 1, 5), T(V(1, 10, 100), 1, 1, 3),
               T(V(0.5), 1),
               &BELL_OPTIONS(bell_conv_options, .stride = {2}, .padding = {1})),
           210.5, 432.5, 54.5);
    EXPECT_ERROR(bell_conv2d(x, w, NULL, NULL),
                 "bell_conv2d: a window of 5 elements must fit an axis of 4 "
                 "with a padding of 0");
    EXPECT_ERROR(bell_conv2d(x, noise(0, 1, BELL_DIMS(3, 3, 1, 1)), NULL, NULL),
                 "bell_conv2d: x of shape (1, 2, 4, 4) by a weight of shape "
                 "(3, 3, 1, 1) in 1 groups: expected 3 channels of x");
    EXPECT_ERROR(bell_conv2d(x, T(V(1), 1), NULL, NULL),
                 "bell_conv2d: x of shape (1, 2, 4, 4), weight of shape (1,); "
                 "4 axes each are needed");
    EXPECT_ERROR(
        bell_conv2d(x, w, NULL, &wide),
        "bell_conv2d: stride -1, padding 0, dilation 1: expected strides and "
        "dilations from 1, padding from -1048576, all up to 2^20");
    EXPECT_ERROR(bell_conv2d(x, w, NULL, &cut),
                 "bell_conv2d: a window of 5 elements must fit an axis of 4 "
                 "with a padding of -5");
    EXPECT_ERROR(
        bell_conv_transpose2d(x, w, NULL, &cut),
        "bell_conv_transpose2d: stride 1, padding -5, dilation 1: expected "
        "strides and dilations from 1, padding from 0, all up to 2^20");
    EXPECT_ERROR(
        bell_conv2d(x, noise(0, 1, BELL_DIMS(3, 2, 1, 1)), T(V(1), 1), NULL),
        "bell_conv2d: a bias of shape (1,) for 3 channels of the result; "
        "expected one element for each");
}

/* <conv(x), y> = <x, conv_transpose(y)> for every option. */
static void
test_conv_transpose(void **state)
{
    static const struct bell_conv_options opts[] = {
        {CONV, {1, 1}, {0, 0}, {1, 1}, 1, {0, 0}},
        {CONV, {2, 2}, {0, 0}, {1, 1}, 1, {0, 0}},
        {CONV, {2, 3}, {1, 0}, {1, 1}, 2, {0, 0}},
        {CONV, {1, 2}, {1, 1}, {2, 1}, 1, {0, 0}},
        {CONV, {3, 2}, {1, 2}, {2, 2}, 2, {0, 0}},
        {CONV, {4, 4}, {0, 0}, {1, 1}, 1, {0, 0}},
        {sizeof(struct bell_conv_options),
         {2, 1},
         {1, 1},
         {1, 2},
         2,
         {0, 0},
         {-1, 2}},
    };
    struct bell_tensor *x, *y, *w, *back, *diff;
    size_t i;

    (void)state;
    for (i = 0; i < ARRAY_LEN(opts); i++) {
        struct bell_conv_options opt = opts[i];
        int64_t k;
        x = noise(-1, 1, BELL_DIMS(2, 4, 9, 8));
        w = noise(-1, 1, BELL_DIMS(6, 4 / opt.groups, 3, 3));
        y = bell_conv2d(x, w, NULL, &opt);
        y = bell_sin(bell_mul_scalar(y, 3));
        for (k = 0; k < 2; k++) {
            int64_t back_size = (bell_size(y, 2 + (int)k) - 1) * opt.stride[k] -
                                2 * opt.padding[k] - opt.padding_end[k] +
                                opt.dilation[k] * 2 + 1;
            opt.output_padding[k] = bell_size(x, 2 + (int)k) - back_size;
        }
        back = bell_conv_transpose2d(y, w, NULL, &opt);
        EXPECT_SHAPE(back, 2, 4, 9, 8);
        diff = bell_sub(bell_sum(bell_mul(bell_conv2d(x, w, NULL, &opts[i]), y),
                                 BELL_NO_DIMS, false),
                        bell_sum(bell_mul(x, back), BELL_NO_DIMS, false));
        EXPECT_NEAR(diff, 1e-10, 0);
    }
    EXPECT(bell_conv_transpose2d(T(V(1, 2), 1, 1, 1, 2),
                                 T(V(1, 10), 1, 1, 1, 2), T(V(0.5), 1), NULL),
           1.5, 12.5, 20.5);
}

static void
check_pool(const struct bell_pool_options *o, int64_t h, int64_t w)
{
    struct bell_tensor *t = noise(-1, 1, BELL_DIMS(2, h, w));
    struct bell_tensor *max = bell_max_pool2d(t, o), *avg;
    bool plain = o->dilation[0] <= 1 && o->dilation[1] <= 1;
    int64_t oh = bell_size(max, 1), ow = bell_size(max, 2), n, y, x, p, q;
    int64_t d0 = o->dilation[0] ? o->dilation[0] : 1;
    int64_t d1 = o->dilation[1] ? o->dilation[1] : 1;
    int64_t s0 = o->stride[0] ? o->stride[0] : o->kernel[0];
    int64_t s1 = o->stride[1] ? o->stride[1] : o->kernel[1];
    double *in = read_all(t), *a = malloc(sizeof(*a) * (size_t)(2 * oh * ow));
    double *b = malloc(sizeof(*b) * (size_t)(2 * oh * ow));
    size_t at = 0;

    assert_true(a && b);
    for (n = 0; n < 2; n++)
        for (y = 0; y < oh; y++)
            for (x = 0; x < ow; x++, at++) {
                double best = -INFINITY, sum = 0;
                int64_t have = 0, with_pad = 0;
                for (p = 0; p < o->kernel[0]; p++)
                    for (q = 0; q < o->kernel[1]; q++) {
                        int64_t yy = y * s0 + p * d0 - o->padding[0];
                        int64_t xx = x * s1 + q * d1 - o->padding[1];
                        with_pad +=
                            yy < h + o->padding[0] && xx < w + o->padding[1];
                        if (yy < 0 || yy >= h || xx < 0 || xx >= w)
                            continue;
                        have++;
                        sum += in[(n * h + yy) * w + xx];
                        best = fmax(best, in[(n * h + yy) * w + xx]);
                    }
                a[at] = best;
                b[at] = sum / (double)(o->exclude_pad ? have : with_pad);
            }
    expect_all(__LINE__, max, a, at);
    if (plain) {
        avg = bell_avg_pool2d(t, o);
        expect_all(__LINE__, avg, b, at);
    }
    free(in);
    free(a);
    free(b);
}

static void
test_pooling(void **state)
{
    static const struct bell_pool_options opts[] = {
        {.struct_size = sizeof(struct bell_pool_options), .kernel = {2, 2}},
        {.struct_size = sizeof(struct bell_pool_options),
         .kernel = {3, 2},
         .stride = {1, 1}},
        {.struct_size = sizeof(struct bell_pool_options),
         .kernel = {3, 3},
         .stride = {2, 2},
         .padding = {1, 1}},
        {.struct_size = sizeof(struct bell_pool_options),
         .kernel = {2, 3},
         .stride = {3, 2},
         .ceil_mode = true},
        {.struct_size = sizeof(struct bell_pool_options),
         .kernel = {3, 3},
         .stride = {2, 3},
         .padding = {1, 1},
         .ceil_mode = true},
        {.struct_size = sizeof(struct bell_pool_options),
         .kernel = {3, 3},
         .stride = {2, 2},
         .padding = {1, 1},
         .ceil_mode = true,
         .exclude_pad = true},
        {.struct_size = sizeof(struct bell_pool_options),
         .kernel = {2, 2},
         .stride = {1, 2},
         .dilation = {2, 3}},
    };
    static const struct bell_pool_options bad = {
        .struct_size = sizeof(bad), .kernel = {2, 2}, .padding = {2, 0}};
    size_t i;

    (void)state;
    for (i = 0; i < ARRAY_LEN(opts); i++) {
        check_pool(&opts[i], 7, 8);
        check_pool(&opts[i], 5, 5);
    }
    EXPECT(bell_max_pool2d(I(V(1, -2, 3, -4), 2, 2), &opts[0]), 3);
    EXPECT_ERROR(bell_max_pool2d(T(V(1), 1), &opts[0]),
                 "bell_max_pool2d: x of shape (1,); 2 axes are needed");
    EXPECT_ERROR(bell_avg_pool2d(noise(0, 1, BELL_DIMS(4, 4)), &bad),
                 "bell_avg_pool2d: windows of 2 by 2, padding 2, dilation 1 "
                 "over (4, 4); sizes must be 1 to 2^20, and padding half a "
                 "window at most");
}

/* ---- normalisation ---- */

static void
test_norms(void **state)
{
    struct bell_tensor *x = T(V(1, 2, 3, 4, 6, 8), 2, 3);
    struct bell_tensor *w = T(V(1, 2, 3), 3), *b = T(V(10, 20, 30), 3);
    double r = sqrt(1.5), s = sqrt(2.0 / 3 + 1), t = sqrt(14.0 / 3);

    (void)state;
    EXPECT(bell_layer_norm(x, 1, NULL, NULL, 0), -r, 0, r, -r, 0, r);
    EXPECT(bell_layer_norm(x, 1, w, b, 0), 10 - r, 20, 30 + 3 * r, 10 - r, 20,
           30 + 3 * r);
    EXPECT(bell_index(bell_layer_norm(x, 1, NULL, NULL, 1),
                      BELL_ITEMS(bell_at(0))),
           -1 / s, 0, 1 / s);
    EXPECT(bell_mean(bell_layer_norm(x, 2, NULL, NULL, 0), BELL_NO_DIMS, false),
           0);
    EXPECT(bell_index(bell_rms_norm(x, w, 0), BELL_ITEMS(bell_at(0))), 1 / t,
           4 / t, 9 / t);
    EXPECT(bell_batch_norm(x, w, T(V(1, 4, 9), 3), NULL, b, 0), 10, 20, 30, 13,
           22, 30 + 5.0 / 3);
    EXPECT(bell_group_norm(T(V(1, 3, 5, 9), 1, 4), 2, NULL, NULL, 0), -1, 1, -1,
           1);
    EXPECT_ERROR(
        bell_layer_norm(x, 1, b, T(V(1), 1), 0),
        "bell_layer_norm: the last 1 axes of (2, 3), weight (3,), bias (1,): "
        "weight and bias must have the shape of these axes");
    EXPECT_ERROR(bell_batch_norm(x, w, NULL, NULL, NULL, 0),
                 "bell_batch_norm: x of shape (2, 3), mean (3,), var NULL, "
                 "weight NULL, bias NULL: expected 2 axes or more of x, and "
                 "one element for each channel (axis 1) in the others");
    EXPECT_ERROR(bell_group_norm(x, 2, NULL, NULL, 0),
                 "bell_group_norm: x of shape (2, 3) in 2 groups, weight NULL, "
                 "bias NULL: groups must divide the channels (axis 1), weight "
                 "and bias have one element for each");
    EXPECT_ERROR(bell_rms_norm(I(V(1), 1), NULL, 0),
                 "bell_rms_norm: of int64, not a float dtype");
}

/* ---- losses ---- */

static void
test_losses(void **state)
{
    struct bell_tensor *x = T(V(1, 4), 2), *y = T(V(2, 2), 2);
    struct bell_tensor *p = T(V(0.25, 1, 0), 3), *q = T(V(1, 1, 1), 3);
    struct bell_tensor *z = T(V(0, 1000, -1000), 3);

    (void)state;
    EXPECT(bell_mse_loss(x, y, BELL_MEAN), 2.5);
    EXPECT(bell_mse_loss(x, y, BELL_SUM), 5);
    EXPECT(bell_l1_loss(x, y, BELL_EACH), 1, 2);
    EXPECT(bell_huber_loss(x, y, 1.5, BELL_EACH), 0.5, 1.5 * (2 - 0.75));
    EXPECT(bell_binary_cross_entropy(p, q, BELL_EACH), log(4), 0, 100);
    EXPECT(bell_binary_cross_entropy_with_logits(z, q, NULL, BELL_EACH), log(2),
           0, 1000);
    EXPECT(bell_binary_cross_entropy_with_logits(z, bell_zeros_like(q, 0),
                                                 T(V(5), 1), BELL_EACH),
           log(2), 1000, 0);
    EXPECT_ERROR(bell_mse_loss(x, q, BELL_MEAN),
                 "bell_mse_loss: shapes (2,) and (3,) differ");
    EXPECT_ERROR(bell_l1_loss(x, y, (enum bell_reduction)5),
                 "bell_l1_loss: 5 is not a reduction");
    EXPECT_ERROR(bell_huber_loss(x, y, 0, BELL_MEAN),
                 "bell_huber_loss: delta is 0, not greater than 0");
}

static void
test_class_losses(void **state)
{
    /* log softmax of these is log(1/8), log(2/8), log(5/8) */
    struct bell_tensor *x =
        T(V(0, log(2), log(5), 7, 7 + log(2), 7 + log(5)), 2, 3);
    struct bell_tensor *t = I(V(2, 0), 2), *w = T(V(1, 2, 3), 3), *lp;
    double a = -log(0.625), b = -log(0.125), c = -log(0.25);
    double mean = (a + b + c) / 3;

    (void)state;
    EXPECT(bell_cross_entropy(x, t, 0, BELL_IGNORE_NONE, BELL_EACH), a, b);
    EXPECT(bell_cross_entropy(x, t, 0, BELL_IGNORE_NONE, BELL_MEAN),
           (a + b) / 2);
    EXPECT(bell_cross_entropy(x, t, 0, 0, BELL_MEAN), a);
    EXPECT(bell_cross_entropy(x, t, 0.3, BELL_IGNORE_NONE, BELL_EACH),
           0.7 * a + 0.3 * mean, 0.7 * b + 0.3 * mean);
    EXPECT(
        bell_cross_entropy(x, hidden(I(V(5, -100), 2)), 0.1, -100, BELL_EACH),
        0, 0);
    EXPECT(bell_cross_entropy(x, T(V(0, 0, 1, 0.5, 0.5, 0), 2, 3), 0,
                              BELL_IGNORE_NONE, BELL_EACH),
           a, (b + c) / 2);
    EXPECT(bell_cross_entropy(bell_select(x, 0, 0), bell_scalar_int(ctx, 1), 0,
                              BELL_IGNORE_NONE, BELL_SUM),
           c);
    lp = bell_log_softmax(x, 1);
    EXPECT(bell_nll_loss(lp, t, NULL, BELL_IGNORE_NONE, BELL_SUM), a + b);
    EXPECT(bell_nll_loss(lp, t, w, BELL_IGNORE_NONE, BELL_MEAN),
           (3 * a + b) / 4);
    EXPECT(bell_nll_loss(lp, t, w, 2, BELL_MEAN), b);
    /* a factor for each class: 1, 2, 3 */
    EXPECT(bell_weighted_cross_entropy(x, t, w, 0, BELL_IGNORE_NONE, BELL_EACH),
           3 * a, b);
    EXPECT(
        bell_weighted_cross_entropy(x, t, w, 0.3, BELL_IGNORE_NONE, BELL_MEAN),
        (0.7 * (3 * a + b) + 0.2 * (3 * a + 2 * c + b)) / 4);
    EXPECT(bell_weighted_cross_entropy(x, t, w, 0.3, 0, BELL_MEAN),
           (0.7 * 3 * a + 0.1 * (3 * a + 2 * c + b)) / 3);
    EXPECT(bell_weighted_cross_entropy(x, hidden(I(V(5, -1), 2)), w, 0.3, 7,
                                       BELL_EACH),
           0, 0);
    EXPECT(bell_weighted_cross_entropy(x, T(V(0, 0, 1, 0.5, 0.5, 0), 2, 3), w,
                                       0.3, BELL_IGNORE_NONE, BELL_MEAN),
           (0.7 * 3 * a + 0.7 * (b + 2 * c) / 2 + 0.2 * (3 * a + 2 * c + b)) /
               2);
    EXPECT_ERROR(
        bell_weighted_cross_entropy(x, t, x, 0, BELL_IGNORE_NONE, BELL_MEAN),
        "bell_weighted_cross_entropy: a weight of shape (2, 3) for (2, 3): "
        "expected one element for each of the classes, axis 1");
    /* images: classes are axis 1 */
    EXPECT(bell_cross_entropy(bell_unsqueeze(bell_t(x), 0), I(V(0, 1), 1, 2), 0,
                              BELL_IGNORE_NONE, BELL_EACH),
           b, c);
    EXPECT_ERROR(
        bell_cross_entropy(x, I(V(0, 1, 2), 3), 0, BELL_IGNORE_NONE, BELL_MEAN),
        "bell_cross_entropy: float64 (2, 3) with a target of int64 (3,): "
        "expected floats, and integers of that shape without the axis of the "
        "classes, or floats of the same shape");
    EXPECT_ERROR(bell_cross_entropy(x, t, 2, BELL_IGNORE_NONE, BELL_MEAN),
                 "bell_cross_entropy: label smoothing 2 is not in 0..1");
    EXPECT_ERROR(bell_nll_loss(x, x, NULL, BELL_IGNORE_NONE, BELL_MEAN),
                 "bell_nll_loss: float64 (2, 3) with a target of float64 (2, "
                 "3): expected floats, and integers of that shape without the "
                 "axis of the classes");
    EXPECT_ERROR(bell_nll_loss(x, t, t, BELL_IGNORE_NONE, BELL_MEAN),
                 "bell_nll_loss: a weight of shape (2,) for (2, 3): expected "
                 "one element for each of the classes, axis 1");
}

int
main(void)
{
#define TEST(name)                                                             \
    cmocka_unit_test_setup_teardown(name, make_context, end_context)
    const struct CMUnitTest tests[] = {
        TEST(test_prime_lengths), TEST(test_sums),   TEST(test_arg_extremes),
        TEST(test_softmax),       TEST(test_scans),  TEST(test_sorting),
        TEST(test_orders),        TEST(test_matmul), TEST(test_einsum),
        TEST(test_attention),     TEST(test_conv2d), TEST(test_conv_transpose),
        TEST(test_pooling),       TEST(test_norms),  TEST(test_losses),
        TEST(test_class_losses),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
