/* Combining by index, masks, extremes with places, order statistics, counts,
 * sampling, distances against plain loops and PyTorch's values. */
#include "tests/unit/sanitized.h"
#include "tests/unit/tensor_host.h"

#include <stdio.h>
#include <stdlib.h>

#ifdef HAVE_RUNTIME
#include "doorbell/stats.h"
#endif

/* ---- numbers of the test's own ---- */

static uint32_t lcg_state = 7;

static uint32_t
next_number(uint32_t below)
{
    lcg_state = lcg_state * 1664525u + 1013904223u;
    return (uint32_t)(((uint64_t)lcg_state * below) >> 32);
}

/* n integers in low..low + count - 1; the test's to free. */
static int64_t *
some_ints(size_t n, int64_t low, uint32_t count)
{
    int64_t *v = malloc((n + 1) * sizeof(*v));
    size_t i;

    assert_non_null(v);
    for (i = 0; i < n; i++)
        v[i] = low + (int64_t)next_number(count);
    return v;
}

/* n multiples of 1/4, so that there are equal ones. */
static double *
some_values(size_t n)
{
    double *v = malloc((n + 1) * sizeof(*v));
    size_t i;

    assert_non_null(v);
    for (i = 0; i < n; i++)
        v[i] = 0.25 * (double)next_number(17) - 2;
    return v;
}

/* ---- scatter ---- */

struct scatter_case {
    int64_t x[3], index[3]; /* shapes; along axis 1 */
};

static const char *const ways[] = {"last", "sum",  "prod",
                                   "mean", "amax", "amin"};

/* By definition, in order. count is scratch of x's size. */
static void
scatter_loop(const struct scatter_case *c, enum bell_combine way, bool self,
             const double *x, const int64_t *index, const double *v,
             double *out, double *count)
{
    int64_t a, k, b, size = c->x[1];
    size_t n = (size_t)(c->x[0] * c->x[1] * c->x[2]), i;

    for (i = 0; i < n; i++) {
        out[i] = x[i];
        count[i] = self && way != BELL_COMBINE_LAST;
    }
    for (a = 0; a < c->index[0]; a++) {
        for (k = 0; k < c->index[1]; k++) {
            for (b = 0; b < c->index[2]; b++) {
                int64_t from = (a * c->index[1] + k) * c->index[2] + b;
                int64_t to = index[from] < 0 ? index[from] + size : index[from];
                size_t at = (size_t)((a * size + to) * c->x[2] + b);
                double e = v[from], *o = &out[at];
                if (count[at] == 0 || way == BELL_COMBINE_LAST)
                    *o = e;
                else if (way == BELL_COMBINE_PROD)
                    *o *= e;
                else if (way == BELL_COMBINE_AMAX)
                    *o = e > *o ? e : *o;
                else if (way == BELL_COMBINE_AMIN)
                    *o = e < *o ? e : *o;
                else
                    *o += e;
                count[at]++;
            }
        }
    }
    for (i = 0; i < n && way == BELL_COMBINE_MEAN; i++)
        out[i] /= count[i] > 0 ? count[i] : 1;
}

static void
check_scatter(const struct scatter_case *c, enum bell_combine way, bool self)
{
    size_t n = (size_t)(c->x[0] * c->x[1] * c->x[2]);
    size_t m = (size_t)(c->index[0] * c->index[1] * c->index[2]);
    double *x = some_values(n), *v = some_values(m);
    double *want = malloc((n + 1) * sizeof(*want)), *count;
    int64_t *index = some_ints(m, c->x[1] ? -c->x[1] : 0,
                               c->x[1] ? 2 * (uint32_t)c->x[1] : 1);
    struct bell_tensor *got;

    count = malloc((n + 1) * sizeof(*count));
    assert_true(want && count);
    scatter_loop(c, way, self, x, index, v, want, count);
    got = bell_scatter_reduce(tensor_of(x, c->x, 3), 1,
                              ints_of(index, c->index, 3),
                              tensor_of(v, c->index, 3), way, self);
    print_message("%s of %lld by %lld\n", ways[way], (long long)c->x[1],
                  (long long)c->index[1]);
    expect_values(__FILE__, __LINE__, got, want, n, 1e-12);
    free(x);
    free(v);
    free(want);
    free(count);
    free(index);
}

/* Sizes that are looked through and sizes that are ordered, odd and empty
 * ones. */
static void
test_scatter_reduce(void **state)
{
    static const struct scatter_case cases[] = {
        {{1, 5, 1}, {1, 7, 1}},     {{2, 4, 6}, {2, 3, 5}},
        {{2, 1, 3}, {2, 9, 2}},     {{1, 40, 1}, {1, 33, 1}},
        {{1, 601, 1}, {1, 700, 1}}, {{2, 300, 3}, {2, 301, 2}},
        {{2, 3, 4}, {2, 0, 4}},     {{0, 3, 4}, {0, 2, 4}},
    };
    size_t i, way;

    (void)state;
    for (i = 0; i < ARRAY_LEN(cases); i++) {
        for (way = 0; way < ARRAY_LEN(ways); way++) {
            check_scatter(&cases[i], (enum bell_combine)way, true);
            check_scatter(&cases[i], (enum bell_combine)way, false);
        }
    }
}

static void
test_scatter_kinds(void **state)
{
    struct bell_tensor *x = I(V(10, 20, 30), 3), *i = I(V(0, 0, 2, 0), 4);
    struct bell_tensor *v = I(V(1, 2, -5, 4), 4), *b;

    (void)state;
    /* integers: means are rounded down */
    EXPECT(bell_scatter_reduce(x, 0, i, v, BELL_COMBINE_MEAN, true), 4, 20, 12);
    EXPECT(bell_scatter_reduce(x, 0, i, v, BELL_COMBINE_MEAN, false), 2, 20,
           -5);
    EXPECT(bell_scatter_reduce(x, 0, i, v, BELL_COMBINE_AMIN, true), 1, 20, -5);
    assert_int_equal(
        bell_dtype_of(bell_scatter_reduce(x, 0, i, v, BELL_COMBINE_MEAN, true)),
        BELL_INT64);
    b = bell_scatter_reduce(bell_cast(I(V(0, 1, 0), 3), BELL_BOOL), 0,
                            I(V(0, 1), 2), bell_cast(I(V(1, 0), 2), BELL_BOOL),
                            BELL_COMBINE_AMAX, true);
    EXPECT(b, 1, 1, 0);
    /* NaN is in what it goes to, and only there */
    EXPECT(bell_scatter_reduce(T(V(1, 2), 2), 0, I(V(0, 0), 2), T(V(NAN, 3), 2),
                               BELL_COMBINE_AMAX, true),
           NAN, 2);
    /* halves are added in float32 */
    EXPECT(bell_scatter_add(bell_zeros(ctx, BELL_DIMS(1), BELL_FLOAT16), 0,
                            bell_zeros(ctx, BELL_DIMS(5000), BELL_INT64),
                            bell_ones(ctx, BELL_DIMS(5000), BELL_FLOAT16)),
           5000);
    EXPECT_ERROR(bell_scatter_reduce(x, 0, i, v, (enum bell_combine)9, true),
                 "bell_scatter_reduce: 9 is not a way to combine");
    EXPECT_ERROR(bell_scatter_reduce(x, 0, i, T(V(1, 2, 3, 4), 4),
                                     BELL_COMBINE_SUM, true),
                 "bell_scatter_reduce: values of float64 into a tensor of "
                 "int64: the dtypes must be equal; see bell_cast");
    EXPECT_ERROR(bell_scatter_reduce(bell_cast(x, BELL_BOOL), 0, i,
                                     bell_cast(v, BELL_BOOL), BELL_COMBINE_MEAN,
                                     true),
                 "bell_scatter_reduce: bool has no mean; see bell_cast");
}

/* Gradients where many go to few: against what is known of each way. Many
 * enough to be ordered. */
static void
test_scatter_gradients(void **state)
{
    enum {
        N = 700,
        S = 500
    };
    static double v[N], g[S], want[N], most[S], n[S];
    int64_t *index = some_ints(N, 0, S);
    struct bell_tensor *x, *src, *out, *grad[2];
    size_t i;

    (void)state;
    for (i = 0; i < S; i++) {
        g[i] = 0.5 + 0.25 * (double)next_number(9);
        most[i] = -INFINITY;
    }
    for (i = 0; i < N; i++) {
        v[i] = 0.25 * (double)(1 + next_number(6));
        most[index[i]] = fmax(most[index[i]], v[i]);
    }
    for (i = 0; i < N; i++)
        n[index[i]] += v[i] == most[index[i]];
    x = bell_zeros(ctx, BELL_DIMS(S), BELL_FLOAT64);
    src = tensor_of(v, BELL_DIMS(N));
    out = bell_scatter_reduce(x, 0, ints_of(index, BELL_DIMS(N)), src,
                              BELL_COMBINE_AMAX, false);
    assert_int_equal(bell_vjp(out, tensor_of(g, BELL_DIMS(S)), &src, 1, grad),
                     BELL_OK);
    for (i = 0; i < N; i++)
        want[i] = v[i] == most[index[i]] ? g[index[i]] / n[index[i]] : 0;
    expect_values(__FILE__, __LINE__, grad[0], want, N, 1e-12);
    out = bell_scatter_add(x, 0, ints_of(index, BELL_DIMS(N)), src);
    assert_int_equal(bell_vjp(out, tensor_of(g, BELL_DIMS(S)), &src, 1, grad),
                     BELL_OK);
    for (i = 0; i < N; i++)
        want[i] = g[index[i]];
    expect_values(__FILE__, __LINE__, grad[0], want, N, 1e-12);
    /* and back: what a gather takes, its gradient adds */
    src = tensor_of(g, BELL_DIMS(S));
    out = bell_gather(src, 0, ints_of(index, BELL_DIMS(N)));
    assert_int_equal(bell_vjp(out, tensor_of(v, BELL_DIMS(N)), &src, 1, grad),
                     BELL_OK);
    memset(most, 0, sizeof(most));
    for (i = 0; i < N; i++)
        most[index[i]] += v[i];
    expect_values(__FILE__, __LINE__, grad[0], most, S, 1e-12);
    free(index);
}

/* ---- index_put, masks ---- */

#define AT(x, ...)     bell_index(x, BELL_ITEMS(__VA_ARGS__))
#define PUT(x, v, ...) bell_index_put(x, BELL_ITEMS(__VA_ARGS__), v)
#define ADD(x, v, ...) bell_index_put_add(x, BELL_ITEMS(__VA_ARGS__), v)
#define BITS(values, ...)                                                      \
    bell_cast(ints_of((int64_t[])V values, BELL_DIMS(__VA_ARGS__)), BELL_BOOL)

static struct bell_tensor *
bit(bool value)
{
    return bell_full(ctx, BELL_NO_DIMS, value, BELL_BOOL);
}

static void
test_index_put(void **state)
{
    struct bell_tensor *x = T(V(1, 2, 3, 4, 5, 6), 2, 3);
    struct bell_tensor *rows = I(V(1, 0, 1), 3), *columns = I(V(2, 0, 2), 3);

    (void)state;
    EXPECT(PUT(x, T(V(7, 8, 9), 3), bell_by(rows), bell_by(columns)), 8, 2, 3,
           4, 5, 9);
    EXPECT(ADD(x, T(V(7, 8, 9), 3), bell_by(rows), bell_by(columns)), 9, 2, 3,
           4, 5, 22);
    EXPECT(ADD(x, T(V(10), 1), bell_whole(), bell_by(columns)), 11, 2, 23, 14,
           5, 26);
    EXPECT(ADD(x, T(V(1, 2, 3), 3), bell_at(1)), 1, 2, 3, 5, 7, 9);
    EXPECT(PUT(x, T(V(0), 1), bell_by(I(V(-1), 1)), bell_slice(1, 3, 1)), 1, 2,
           3, 4, 0, 0);
    EXPECT(PUT(x, T(V(9), 1), bell_by(I(V(0), 0))), 1, 2, 3, 4, 5, 6);
    EXPECT_ERROR(PUT(x, T(V(7, 8), 2), bell_by(rows), bell_by(columns)),
                 "bell_index_put: a value of shape (2,) into (3,): it must "
                 "broadcast to that");
}

/* An index tensor of rank 0 is an integer: it does not move the axes of others,
 * which it is beside or apart from. */
static void
test_rank_0_items(void **state)
{
    struct bell_index_item zero = bell_by(bell_scalar_int(ctx, 0));
    struct bell_index_item two = bell_by(I(V(1, 0), 2)), all = bell_whole();
    struct bell_index_item one = bell_new_axis();
    struct bell_tensor *x;

    (void)state;
    x = bell_reshape(bell_arange(ctx, 0, 24, 1, BELL_FLOAT32),
                     BELL_DIMS(2, 3, 4));
    EXPECT_SHAPE(AT(x, zero, all, two), 3, 2);
    EXPECT(AT(x, zero, all, two), 1, 0, 5, 4, 9, 8);
    EXPECT_SHAPE(AT(x, zero, bell_ellipsis(), two), 3, 2);
    EXPECT_SHAPE(AT(x, two, all, zero), 2, 3);
    EXPECT_SHAPE(AT(x, all, zero, two), 2, 2);
    EXPECT_SHAPE(AT(x, zero, two), 2, 4);
    EXPECT_SHAPE(AT(x, zero, one, two), 1, 2, 4);
    EXPECT_SHAPE(AT(x, one, zero, all, two), 1, 3, 2);
    EXPECT_SHAPE(AT(x, zero, all, one, two), 3, 1, 2);
    EXPECT_SHAPE(AT(x, zero, one, bell_at(1), two), 1, 2);
    EXPECT_SHAPE(AT(x, all, two, one, zero), 2, 2, 1);
    EXPECT_SHAPE(AT(x, zero, all, zero), 3);
    EXPECT_SHAPE(AT(x, zero, all, zero, one), 3, 1);
    EXPECT_SHAPE(AT(x, bell_by(I(V(0), 1)), all, two), 2, 3);
    EXPECT_SHAPE(AT(x, bell_by(bit(1)), all, two), 2, 2, 4);
    EXPECT(AT(PUT(x, T(V(1, 2, 3, 4, 5, 6), 3, 2), zero, all, two), zero), 2, 1,
           2, 3, 4, 3, 6, 7, 6, 5, 10, 11);
    EXPECT(AT(ADD(x, T(V(1, 2, 3, 4, 5, 6), 3, 2), zero, all, two), zero), 2, 2,
           2, 3, 8, 8, 6, 7, 14, 14, 10, 11);
}

/* An element that is put somewhere keeps the sign of zero, where each place
 * looks at all elements and where they are ordered. */
static void
test_signed_zeros(void **state)
{
    enum {
        MANY = 700
    };
    static double none[MANY], have[MANY];
    static int64_t place[MANY];
    struct bell_tensor *x = T(V(1, 2, 3), 3), *v = T(V(-0.0, 5), 2), *many;
    struct bell_tensor *i = I(V(1, 0), 2), *t[6];
    size_t k;

    (void)state;
    t[0] = bell_scatter(x, 0, i, v);
    t[1] =
        bell_scatter(x, 0, i, bell_full(ctx, BELL_DIMS(2), -0.0, BELL_FLOAT64));
    t[2] = PUT(x, v, bell_by(i));
    t[3] = PUT(x, bell_scalar(ctx, -0.0), bell_by(i));
    t[4] = PUT(x, bell_scalar(ctx, -0.0), bell_at(1));
    t[5] = bell_scatter(bell_cast(x, BELL_FLOAT16), 0, hidden(i),
                        bell_cast(v, BELL_FLOAT16));
    for (k = 0; k < ARRAY_LEN(t); k++) {
        assert_int_equal(bell_read_f64(bell_cast(t[k], BELL_FLOAT64), have, 3),
                         BELL_OK);
        if (have[1] != 0 || !signbit(have[1]) || have[2] != 3)
            fail_msg("%zu: %g %g %g", k, have[0], have[1], have[2]);
    }
    for (k = 0; k < MANY; k++) {
        none[k] = -0.0;
        place[k] = (int64_t)(k * 3 % MANY);
    }
    many = bell_scatter(bell_ones(ctx, BELL_DIMS(MANY), BELL_FLOAT64), 0,
                        ints_of(place, BELL_DIMS(MANY)),
                        tensor_of(none, BELL_DIMS(MANY)));
    assert_int_equal(bell_read_f64(many, have, MANY), BELL_OK);
    for (k = 0; k < MANY; k++)
        assert_true(have[k] == 0 && signbit(have[k]));
}

static void
test_masks(void **state)
{
    struct bell_tensor *x = T(V(1, 2, 3, 4, 5, 6), 2, 3);
    struct bell_tensor *m = BITS((1, 0, 0, 0, 1, 1), 2, 3), *none, *grad;

    (void)state;
    none = bell_zeros(ctx, BELL_DIMS(2, 3), BELL_BOOL);
    EXPECT(bell_nonzero(m), 0, 0, 1, 1, 1, 2);
    EXPECT_SHAPE(bell_nonzero(m), 3, 2);
    EXPECT_SHAPE(bell_nonzero(none), 0, 2);
    EXPECT_SHAPE(bell_nonzero(bell_scalar(ctx, 2)), 1, 0);
    EXPECT_SHAPE(bell_nonzero(bell_scalar(ctx, 0)), 0, 0);
    EXPECT_SHAPE(bell_nonzero(bell_zeros(ctx, BELL_DIMS(0, 3), BELL_INT8)), 0,
                 2);
    EXPECT(bell_nonzero(T(V(0, NAN, -0.0, 1e-300), 4)), 1, 3);
    EXPECT(bell_masked_select(x, m), 1, 5, 6);
    EXPECT(bell_masked_select(x, BITS((0, 1, 0), 3)), 2, 5);
    EXPECT_SHAPE(bell_masked_select(x, none), 0);
    EXPECT(AT(x, bell_by(m)), 1, 5, 6);
    EXPECT(AT(x, bell_whole(), bell_by(BITS((1, 0, 1), 3))), 1, 3, 4, 6);
    EXPECT(AT(x, bell_by(BITS((0, 1), 2)), bell_by(I(V(2), 1))), 6);
    EXPECT(AT(x, bell_ellipsis(), bell_by(BITS((0, 0, 1), 3))), 3, 6);
    EXPECT_SHAPE(AT(x, bell_by(BITS((0, 0), 2))), 0, 3);
    EXPECT(PUT(x, bell_scalar(ctx, 0), bell_by(m)), 0, 2, 3, 4, 0, 0);
    EXPECT(ADD(x, bell_scalar(ctx, 1), bell_by(BITS((0, 1), 2))), 1, 2, 3, 5, 6,
           7);
    EXPECT(PUT(x, T(V(7, 8, 9), 3), bell_by(m)), 7, 2, 3, 4, 8, 9);
    assert_int_equal(
        bell_vjp(bell_masked_select(x, m), T(V(7, 8, 9), 3), &x, 1, &grad),
        BELL_OK);
    EXPECT(grad, 7, 0, 0, 0, 8, 9);
    /* shape (): a new axis of size 1 or 0 */
    EXPECT_SHAPE(AT(x, bell_by(bit(1))), 1, 2, 3);
    EXPECT(AT(x, bell_by(bit(1))), 1, 2, 3, 4, 5, 6);
    EXPECT_SHAPE(AT(x, bell_by(bit(0))), 0, 2, 3);
    EXPECT_SHAPE(AT(x, bell_whole(), bell_by(bit(1))), 2, 1, 3);
    EXPECT_SHAPE(AT(x, bell_ellipsis(), bell_by(bit(0))), 2, 3, 0);
    EXPECT(AT(x, bell_at(1), bell_by(bit(1)), bell_slice(1, 3, 1)), 5, 6);
    EXPECT(AT(x, bell_by(bit(1)), bell_by(I(V(1, 0), 2))), 4, 5, 6, 1, 2, 3);
    EXPECT_SHAPE(AT(bell_sum(x, BELL_NO_DIMS, false), bell_by(bit(1))), 1);
    EXPECT(PUT(x, bell_scalar(ctx, 9), bell_by(bit(1))), 9, 9, 9, 9, 9, 9);
    EXPECT(PUT(x, bell_scalar(ctx, 9), bell_by(bit(0))), 1, 2, 3, 4, 5, 6);
    EXPECT(PUT(x, T(V(7, 8, 9), 3), bell_by(bit(1)), bell_at(1)), 1, 2, 3, 7, 8,
           9);
    EXPECT(ADD(x, T(V(1, 2, 3), 3), bell_by(bit(0))), 1, 2, 3, 4, 5, 6);
    EXPECT_ERROR(AT(x, bell_by(BITS((1, 0, 1), 3))),
                 "bell_index: item 0: a mask of shape (3,) for axis 0 of (2, "
                 "3): the sizes must be equal");
    EXPECT_ERROR(AT(x, bell_by(m), bell_at(0)),
                 "bell_index: too many indices: 3 for (2, 3)");
    EXPECT_ERROR(bell_masked_select(x, x),
                 "bell_masked_select: a mask of float64 (2, 3) for (2, 3): "
                 "expected bool, and shapes that broadcast");
}

/* The first `size`, then a fill value. */
static void
test_sized(void **state)
{
    struct bell_tensor *x = T(V(1, 2, 3, 4, 5, 6), 2, 3), *fill, *of[2];
    struct bell_tensor *m = BITS((1, 0, 0, 0, 1, 1), 2, 3), *none, *out;

    (void)state;
    none = bell_zeros(ctx, BELL_DIMS(2, 3), BELL_BOOL);
    EXPECT(bell_nonzero_sized(m, 2, 7), 0, 0, 1, 1);
    EXPECT(bell_nonzero_sized(m, 3, 7), 0, 0, 1, 1, 1, 2);
    EXPECT(bell_nonzero_sized(m, 5, -1), 0, 0, 1, 1, 1, 2, -1, -1, -1, -1);
    EXPECT_SHAPE(bell_nonzero_sized(m, 5, -1), 5, 2);
    EXPECT(bell_nonzero_sized(none, 2, 9), 9, 9, 9, 9);
    EXPECT_SHAPE(bell_nonzero_sized(m, 0, 9), 0, 2);
    EXPECT_SHAPE(bell_nonzero_sized(bell_scalar(ctx, 2), 3, 0), 3, 0);
    EXPECT(bell_nonzero_sized(T(V(0), 0), 2, 4), 4, 4);
    EXPECT(bell_nonzero_sized(T(V(0, NAN, -0.0, 1e-300), 4), 3, -5), 1, 3, -5);
    EXPECT(bell_masked_select_sized(x, m, 2, NULL), 1, 5);
    EXPECT(bell_masked_select_sized(x, m, 5, NULL), 1, 5, 6, 0, 0);
    EXPECT(bell_masked_select_sized(x, BITS((0, 1, 0), 3), 3, T(V(8), 1)), 2, 5,
           8);
    EXPECT(bell_masked_select_sized(x, none, 2, bell_scalar(ctx, -3)), -3, -3);
    EXPECT_SHAPE(bell_masked_select_sized(x, m, 0, NULL), 0);
    EXPECT(bell_masked_select_sized(T(V(0), 0), BITS((0), 1), 1,
                                    bell_scalar(ctx, 6)),
           6);
    /* above 2^53, as x's integers */
    out = bell_masked_select_sized(I(V(INT64_MAX, 1), 2), BITS((1, 0), 2), 2,
                                   bell_scalar_int(ctx, INT64_MIN));
    out = bell_eq(out, I(V(INT64_MAX, INT64_MIN), 2));
    EXPECT(out, 1, 1);
    of[0] = x;
    of[1] = fill = T(V(0), 1);
    assert_int_equal(bell_vjp(bell_masked_select_sized(x, m, 5, fill),
                              T(V(7, 8, 9, 10, 11), 5), of, 2, of),
                     BELL_OK);
    EXPECT(of[0], 7, 0, 0, 0, 8, 9);
    EXPECT(of[1], 21);
    EXPECT_ERROR(bell_nonzero_sized(m, -1, 0),
                 "bell_nonzero_sized: the size is -1; expected 0 or more");
    EXPECT_ERROR(bell_masked_select_sized(x, m, 2, T(V(1, 2), 2)),
                 "bell_masked_select_sized: size 2, a fill value of shape "
                 "(2,): expected 0 or more, and one element");
}

/* Each place as often as a tensor says. */
static void
test_repeated(void **state)
{
    struct bell_tensor *x = T(V(1, 2, 3, 4, 5, 6), 2, 3), *grad;
    struct bell_tensor *counts = I(V(2, 0, 1), 3), *y;

    (void)state;
    EXPECT(bell_repeat_interleave_by(x, counts, 1, -1), 1, 1, 3, 4, 4, 6);
    EXPECT(bell_repeat_interleave_by(x, I(V(0, 2), 2), -2, -1), 4, 5, 6, 4, 5,
           6);
    EXPECT(
        bell_repeat_interleave_by(x, I(V(1, 0, 0, 3, 0, 1), 6), BELL_FLAT, -1),
        1, 4, 4, 4, 6);
    EXPECT(
        bell_repeat_interleave_by(x, bell_cast(I(V(2), 1), BELL_INT8), 0, -1),
        1, 2, 3, 1, 2, 3, 4, 5, 6, 4, 5, 6);
    y = bell_scalar_int(ctx, 2);
    EXPECT(bell_repeat_interleave_by(T(V(3, 4), 2), y, 0, -1), 3, 3, 4, 4);
    EXPECT_SHAPE(bell_repeat_interleave_by(x, I(V(0, 0, 0), 3), 1, -1), 2, 0);
    y = bell_repeat_interleave_by(bell_scalar(ctx, 7), I(V(2), 1), BELL_FLAT,
                                  -1);
    EXPECT(y, 7, 7);
    /* of a given size, the counts hidden */
    EXPECT(bell_repeat_interleave_by(x, hidden(counts), 1, 3), 1, 1, 3, 4, 4,
           6);
    EXPECT(bell_repeat_interleave_by(x, hidden(counts), 1, 4), 1, 1, 3, 0, 4, 4,
           6, 0);
    EXPECT(bell_repeat_interleave_by(x, hidden(counts), 1, 2), 1, 1, 4, 4);
    EXPECT(bell_repeat_interleave_by(T(V(0), 0), I(V(0), 0), 0, 2), 0, 0);
    y = bell_repeat_interleave_by(x, hidden(counts), 1, -1);
    assert_int_equal(bell_vjp(y, T(V(1, 2, 3, 4, 5, 6), 2, 3), &x, 1, &grad),
                     BELL_OK);
    EXPECT(grad, 3, 0, 3, 9, 0, 6);
    EXPECT_ERROR(bell_repeat_interleave_by(x, I(V(1, -1, 1), 3), 1, -1),
                 "bell_repeat_interleave_by: a count of -1, 1 in all: expected "
                 "counts of 0 or more, and fewer in all");
    EXPECT_ERROR(
        bell_repeat_interleave_by(x, I(V(1, 1), 2), 1, -1),
        "bell_repeat_interleave_by: counts of shape (2,) for axis 1 of (2, 3): "
        "expected one count, or one for each element of the axis");
    EXPECT_ERROR(bell_repeat_interleave_by(x, x, 1, -1),
                 "bell_repeat_interleave_by: the counts are float64, not an "
                 "integer dtype");
    EXPECT_ERROR(
        bell_repeat_interleave_by(bell_scalar(ctx, 7), counts, 0, -1),
        "bell_repeat_interleave_by: counts of shape (3,) for axis 0 of (): "
        "expected one count, or one for each element of the axis");
}

static void
test_unique(void **state)
{
    struct bell_tensor *v, *i, *c;
    enum {
        N = 3000
    };
    double *x = some_values(N), want[17], counts[17] = {0};
    size_t k;

    (void)state;
    bell_unique(I(V(3, 1, 3, 2, 1, 3), 2, 3), &v, &i, &c);
    EXPECT(v, 1, 2, 3);
    EXPECT(i, 2, 0, 2, 1, 0, 2);
    EXPECT_SHAPE(i, 2, 3);
    EXPECT(c, 2, 1, 3);
    bell_unique(T(V(NAN, 1, NAN), 3), &v, NULL, &c);
    EXPECT(v, 1, NAN, NAN);
    EXPECT(c, 1, 1, 1);
    bell_unique(bell_zeros(ctx, BELL_DIMS(0), BELL_INT32), &v, &i, &c);
    EXPECT_SHAPE(v, 0);
    EXPECT_SHAPE(c, 0);
    bell_unique_consecutive(I(V(1, 1, 2, 1, 1, 1), 6), &v, &i, &c);
    EXPECT(v, 1, 2, 1);
    EXPECT(i, 0, 0, 1, 2, 2, 2);
    EXPECT(c, 2, 1, 3);
    for (k = 0; k < 17; k++)
        want[k] = 0.25 * (double)k - 2;
    for (k = 0; k < N; k++)
        counts[(size_t)(4 * x[k] + 8)]++;
    bell_unique(tensor_of(x, BELL_DIMS(N)), &v, &i, &c);
    expect_values(__FILE__, __LINE__, v, want, 17, 0);
    expect_values(__FILE__, __LINE__, c, counts, 17, 0);
    expect_values(__FILE__, __LINE__, bell_index_select(v, 0, i), x, N, 0);
    free(x);
    EXPECT(bell_bincount(I(V(1, 4, 1, 0), 4), NULL, 0), 1, 2, 0, 0, 1);
    EXPECT(bell_bincount(I(V(1, 4, 1, 0), 4), T(V(.5, 1, 2, 3), 4), 7), 3, 2.5,
           0, 0, 1, 0, 0);
    EXPECT(bell_bincount(bell_zeros(ctx, BELL_DIMS(0), BELL_INT64), NULL, 2), 0,
           0);
    EXPECT_ERROR(bell_bincount(I(V(1, -4), 2), NULL, 0),
                 "bell_bincount: -4 is not a place to count at");
    EXPECT_ERROR(bell_bincount(T(V(1), 1), NULL, 0),
                 "bell_bincount: of float64 (1,), weights NULL, at least 0 "
                 "long; rank 1 of integers is needed");
}

/* ---- extremes ---- */

static void
test_extremes_at(void **state)
{
    struct bell_tensor *x = T(V(1, 5, 5, 3, NAN, NAN), 2, 3), *v, *i, *grad;
    struct bell_tensor *y = T(V(2, 2, 1, 3, 3), 5);

    (void)state;
    bell_max_at(x, 1, false, &v, &i);
    EXPECT(v, 5, NAN);
    EXPECT(i, 1, 1);
    bell_min_at(x, 0, true, &v, &i);
    EXPECT(v, 1, NAN, NAN);
    EXPECT(i, 0, 1, 1);
    EXPECT_SHAPE(v, 1, 3);
    bell_cummax_at(y, 0, &v, &i);
    EXPECT(v, 2, 2, 2, 3, 3);
    EXPECT(i, 0, 1, 1, 3, 4);
    bell_cummin_at(T(V(3, NAN, 1, NAN), 4), 0, &v, &i);
    EXPECT(v, 3, NAN, NAN, NAN);
    EXPECT(i, 0, 1, 1, 3);
    bell_max_at(y, 0, false, &v, &i);
    assert_int_equal(bell_gradient(v, &y, 1, &grad), BELL_OK);
    EXPECT(grad, 0, 0, 0, 1, 0);
    bell_cummax_at(y, 0, &v, &i);
    assert_int_equal(bell_vjp(v, T(V(1, 2, 4, 8, 16), 5), &y, 1, &grad),
                     BELL_OK);
    EXPECT(grad, 1, 6, 0, 8, 16);
    bell_max_at(bell_scalar(ctx, 4), 0, false, &v, &i);
    EXPECT(v, 4);
    EXPECT(i, 0);
    bell_cummax_at(bell_zeros(ctx, BELL_DIMS(2, 0), BELL_INT8), 1, &v, &i);
    EXPECT_SHAPE(i, 2, 0);
    bell_max_at(bell_zeros(ctx, BELL_DIMS(2, 0), BELL_INT8), 1, false, &v, &i);
    EXPECT_ERROR(i, "bell_max_at: over no elements, of shape (2, 0)");
}

static void
test_logcumsumexp(void **state)
{
    enum {
        N = 321
    };
    static double x[N], want[N];
    double sum = 0, inf = INFINITY;
    struct bell_tensor *t, *grad;
    size_t i;

    (void)state;
    for (i = 0; i < N; i++) {
        x[i] = 0.01 * (double)next_number(900) - 4;
        want[i] = log(sum += exp(x[i]));
    }
    expect_values(__FILE__, __LINE__,
                  bell_logcumsumexp(tensor_of(x, BELL_DIMS(N)), 0), want, N,
                  1e-12);
    EXPECT(bell_logcumsumexp(T(V(-INFINITY, 1000, 1000, -INFINITY), 4), 0),
           -inf, 1000, 1000 + log(2), 1000 + log(2));
    t = T(V(-INFINITY, 0, 0), 3);
    assert_int_equal(
        bell_vjp(bell_logcumsumexp(t, 0), T(V(1, 1, 1), 3), &t, 1, &grad),
        BELL_OK);
    EXPECT(grad, 0, 1.5, 0.5);
    EXPECT(bell_logcumsumexp(I(V(0, 0), 2), 0), 0, (double)logf(2));
    /* what is far too great for exp, before an infinity and beside one */
    for (i = 0; i < 2; i++) {
        t = T(V(i ? 1e308 : 800, INFINITY, -1e308), 3);
        assert_int_equal(
            bell_vjp(bell_logcumsumexp(t, 0), T(V(1, 0, 0), 3), &t, 1, &grad),
            BELL_OK);
        EXPECT(grad, 1, NAN, 0);
        assert_int_equal(
            bell_gradient(bell_logsumexp(t, NULL, 0, false), &t, 1, &grad),
            BELL_OK);
        EXPECT(grad, 0, NAN, 0);
        EXPECT(bell_logcumsumexp(t, 0), i ? 1e308 : 800, INFINITY, INFINITY);
    }
}

/* ---- order statistics ---- */

static void
test_quantiles(void **state)
{
    struct bell_tensor *x = T(V(4, 1, 3, 2, NAN, 5, 1, 1), 2, 4), *grad;
    struct bell_tensor *half = T(V(.5), 1), *q = T(V(0, .4, 1), 3);

    (void)state;
    EXPECT(bell_quantile(x, q, 1, false, BELL_LINEAR), 1, NAN, 2.2, NAN, 4,
           NAN);
    EXPECT_SHAPE(bell_quantile(x, q, 1, true, BELL_LINEAR), 3, 2, 1);
    EXPECT(bell_nanquantile(x, q, 1, false, BELL_LINEAR), 1, 1, 2.2, 1, 4, 5);
    EXPECT(bell_nanquantile(x, bell_select(half, 0, 0), BELL_FLAT, false,
                            BELL_LOWER),
           2);
    EXPECT_SHAPE(bell_nanquantile(x, half, BELL_FLAT, true, BELL_LOWER), 1, 1,
                 1);
    x = T(V(4, 1, 3, 2), 4);
    EXPECT(bell_quantile(x, half, 0, false, BELL_LOWER), 2);
    EXPECT(bell_quantile(x, half, 0, false, BELL_HIGHER), 3);
    EXPECT(bell_quantile(x, half, 0, false, BELL_NEAREST), 3);
    EXPECT(bell_quantile(x, half, 0, false, BELL_MIDPOINT), 2.5);
    EXPECT(bell_quantile(x, T(V(-.1, 1.1, NAN), 3), 0, false, BELL_LINEAR), NAN,
           NAN, NAN);
    EXPECT(
        bell_quantile(T(V(INFINITY, INFINITY), 2), half, 0, false, BELL_LINEAR),
        INFINITY);
    assert_int_equal(
        bell_gradient(bell_sum(bell_quantile(x, q, 0, false, BELL_LINEAR),
                               BELL_NO_DIMS, false),
                      &x, 1, &grad),
        BELL_OK);
    EXPECT(grad, 1, 1, .2, .8);
    /* equal elements are two, each with its share */
    x = T(V(1, -0.0, 1, 0, INFINITY, INFINITY), 6);
    assert_int_equal(
        bell_gradient(
            bell_sum(bell_quantile(x, T(V(.52, .9), 2), 0, false, BELL_LINEAR),
                     BELL_NO_DIMS, false),
            &x, 1, &grad),
        BELL_OK);
    EXPECT_NEAR(grad, 1e-9, .4, 0, .6, 0, .5, .5);
    EXPECT_ERROR(bell_quantile(I(V(1), 1), half, 0, false, BELL_LINEAR),
                 "bell_quantile: of int64 (1,), shares float64 (1,); floats "
                 "are needed, the shares in a list");
    EXPECT_ERROR(
        bell_quantile(bell_zeros(ctx, BELL_DIMS(0), BELL_FLOAT32), half, 0,
                      false, BELL_LINEAR),
        "bell_quantile: over no elements, of shape (0,); expected 1 to 2^32");
}

static void
test_order_statistics(void **state)
{
    struct bell_tensor *x = T(V(4, 1, 3, 2, NAN, 5, 1, 1), 2, 4), *v, *i;

    (void)state;
    bell_median(x, 1, false, &v, &i);
    EXPECT(v, 2, NAN);
    EXPECT(i, 3, 0);
    bell_nanmedian(x, 1, true, &v, &i);
    EXPECT(v, 2, 1);
    EXPECT_SHAPE(i, 2, 1);
    bell_nanmedian(T(V(NAN, NAN), 2), 0, false, &v, &i);
    EXPECT(v, NAN);
    EXPECT(i, 0);
    bell_median(I(V(5, 3, 9, 1), 4), BELL_FLAT, false, &v, NULL);
    EXPECT(v, 3);
    bell_kthvalue(x, 2, 1, false, &v, &i);
    EXPECT(v, 2, 1);
    EXPECT(i, 3, 3);
    bell_kthvalue(x, 5, 1, false, &v, &i);
    EXPECT_ERROR(
        v,
        "bell_kthvalue: k is 5; expected 1 to 4, the elements along the axis");
    bell_mode(I(V(3, 1, 3, 1, 2, 2, 7, 7), 2, 4), 1, false, &v, &i);
    EXPECT(v, 1, 2);
    EXPECT(i, 3, 1);
    bell_mode(T(V(0.5), 1), 0, true, &v, NULL);
    EXPECT(v, 0.5);
    EXPECT(bell_searchsorted(T(V(1, 3, 3, 5, NAN), 5), T(V(0, 3, 6, NAN), 4),
                             false),
           0, 1, 4, 4);
    EXPECT(bell_searchsorted(T(V(1, 3, 3, 5, NAN), 5), T(V(0, 3, 6, NAN), 4),
                             true),
           0, 3, 4, 5);
    EXPECT(bell_searchsorted(I(V(1, 2, 5, 7), 2, 2), I(V(2, 6), 2, 1), false),
           1, 1);
    EXPECT(bell_searchsorted(bell_zeros(ctx, BELL_DIMS(0), BELL_FLOAT64),
                             T(V(1), 1), false),
           0);
    EXPECT_ERROR(bell_searchsorted(I(V(1, 2, 5, 7), 2, 2), I(V(2, 6), 2), true),
                 "bell_searchsorted: values of shape (2,) in (2, 2): the axes "
                 "before the last must be equal");
    EXPECT(bell_histc(T(V(0, 1, 1.5, 2, 3, -1, NAN), 7), 2, 0, 2), 1, 3);
    EXPECT(bell_histc(T(V(1, 2, 3, 5), 4), 4, 0, 0), 1, 1, 1, 1);
    EXPECT(bell_histc(T(V(2, 2), 2), 2, 0, 0), 0, 2);
    EXPECT_ERROR(bell_histc(T(V(2, 2), 2), 0, 0, 0),
                 "bell_histc: float64 in 0 bins from 0 to 0: expected floats, "
                 "1 bin or more, finite ends and low <= high");
}

/* ---- sampling ---- */

/* How often each is drawn, near its share: 4 standard deviations. */
static void
test_multinomial(void **state)
{
    static const double weights[] = {0, 1, 2, 0, 5, 2};
    enum {
        N = 20000
    };
    struct bell_tensor *w = tensor_of(weights, BELL_DIMS(6)), *rows;
    static int64_t draws[N];
    double n[6] = {0};
    size_t i, k;

    (void)state;
    bell_manual_seed(ctx, 3);
    assert_int_equal(bell_read_i64(bell_multinomial(w, N, true), draws, N),
                     BELL_OK);
    for (i = 0; i < N; i++) {
        assert_in_range(draws[i], 0, 5);
        n[draws[i]]++;
    }
    for (i = 0; i < 6; i++) {
        double p = weights[i] / 10, sd = sqrt(N * p * (1 - p));
        assert_true(fabs(n[i] - N * p) <= 4 * sd);
    }
    /* without: each row has different ones, the first as often as its share */
    rows = bell_expand(w, BELL_DIMS(1000, 6));
    assert_int_equal(
        bell_read_i64(bell_multinomial(rows, 4, false), draws, 4000), BELL_OK);
    memset(n, 0, sizeof(n));
    for (i = 0; i < 1000; i++) {
        unsigned seen = 0;
        for (k = 0; k < 4; k++) {
            assert_true(weights[draws[4 * i + k]] > 0);
            seen |= 1u << draws[4 * i + k];
        }
        assert_int_equal(seen, 0x36);
        n[draws[4 * i]]++;
    }
    for (i = 0; i < 6; i++) {
        double p = weights[i] / 10, sd = sqrt(1000 * p * (1 - p));
        assert_true(fabs(n[i] - 1000 * p) <= 4 * sd);
    }
    EXPECT(
        bell_multinomial(bell_zeros(ctx, BELL_DIMS(2), BELL_FLOAT32), 1, true),
        -1);
    assert_int_equal(bell_read_i64(bell_multinomial(w, 6, false), draws, 6),
                     BELL_OK);
    assert_true(draws[4] == -1 && draws[5] == -1 && draws[3] >= 0);
    EXPECT_ERROR(bell_multinomial(w, 7, false),
                 "bell_multinomial: 7 draws without replacement from weights "
                 "of shape (6,), which has fewer in a row");
    EXPECT_ERROR(bell_multinomial(w, 0, true),
                 "bell_multinomial: 0 draws from weights of shape (6,); at "
                 "least 1 is needed");
    EXPECT_ERROR(bell_multinomial(I(V(1, 2), 2), 1, true),
                 "bell_multinomial: weights of int64 (2,); a float dtype, one "
                 "axis or two and 1 to 2^32 weights in a row are needed");
    /* a row with a weight that is not one has nothing to draw */
    rows = T(V(1, -1, 2, 1, 1, 1, 1, NAN, 1, INFINITY, 1, 1), 4, 3);
    for (i = 0; i < 2; i++) {
        assert_int_equal(
            bell_read_i64(bell_multinomial(rows, 3, i == 0), draws, 12),
            BELL_OK);
        for (k = 0; k < 12; k++)
            assert_true(k / 3 == 1 ? draws[k] >= 0 : draws[k] == -1);
    }
}

/* ---- products, distances, losses ---- */

static void
test_products(void **state)
{
    struct bell_tensor *x = T(V(0, 0, 3, 4), 2, 2), *y = T(V(0, 0, 6, 8), 2, 2);
    struct bell_tensor *a = T(V(1, 2, 3, 4, 5, 6), 2, 3), *grad;

    (void)state;
    EXPECT(bell_cdist(x, y, 2), 0, 10, 5, 5);
    EXPECT(bell_cdist(x, y, 1), 0, 14, 7, 7);
    EXPECT(bell_cdist(x, y, INFINITY), 0, 8, 4, 4);
    EXPECT(bell_cdist(x, y, 0), 0, 2, 2, 2);
    EXPECT(bell_cdist(x, y, 3), 0, cbrt(728), cbrt(91), cbrt(91));
    EXPECT_SHAPE(bell_cdist(bell_zeros(ctx, BELL_DIMS(5, 1, 2, 3), BELL_INT8),
                            bell_zeros(ctx, BELL_DIMS(4, 7, 3), BELL_INT8), 2),
                 5, 4, 2, 7);
    /* at 0 the distance has no slope */
    assert_int_equal(
        bell_gradient(bell_sum(bell_cdist(x, y, 2), BELL_NO_DIMS, false), &x, 1,
                      &grad),
        BELL_OK);
    EXPECT(grad, -.6, -.8, 0, 0);
    EXPECT(bell_tensordot(a, a, (int64_t[]){0, 1}, (int64_t[]){0, 1}, 2), 91);
    EXPECT(bell_tensordot(a, x, (int64_t[]){0}, (int64_t[]){-1}, 1), 0, 19, 0,
           26, 0, 33);
    EXPECT_SHAPE(bell_tensordot(a, x, NULL, NULL, 0), 2, 3, 2, 2);
    EXPECT(bell_kron(T(V(1, 2), 2), T(V(1, 10), 1, 2)), 1, 10, 2, 20);
    EXPECT(bell_kron(x, T(V(1, 2), 2, 1)), 0, 0, 0, 0, 3, 4, 6, 8);
    EXPECT_ERROR(bell_cdist(x, a, 2),
                 "bell_cdist: (2, 2) and (2, 3): expected [.., n, d] and [.., "
                 "m, d], of fewer than 32 axes");
    EXPECT_ERROR(bell_cdist(x, y, -1),
                 "bell_cdist: the order is -1; expected 0 or more");
    EXPECT_ERROR(bell_tensordot(a, x, (int64_t[]){1}, (int64_t[]){1}, 1),
                 "bell_tensordot: axis 1 of (2, 3) with axis 1 of (2, 2): the "
                 "sizes must be equal, and each axis be named once");
}

static void
test_losses(void **state)
{
    struct bell_tensor *x = T(V(0, 1, 2, 3), 4), *y = T(V(0, 1.5, 0, 3), 4);
    struct bell_tensor *p = T(V(0, .5, .25, .25), 4), *grad;

    (void)state;
    EXPECT(bell_smooth_l1_loss(x, y, 1, BELL_EACH), 0, .125, 1.5, 0);
    EXPECT(bell_smooth_l1_loss(x, y, 0, BELL_SUM), 2.5);
    EXPECT(bell_smooth_l1_loss(x, y, 4, BELL_MEAN), (.03125 + .5) / 4);
    EXPECT(bell_kl_div(x, p, false, BELL_EACH), 0, .5 * (log(.5) - 1),
           .25 * (log(.25) - 2), .25 * (log(.25) - 3));
    EXPECT(bell_kl_div(x, y, true, BELL_SUM), exp(1.5) * .5 - 2);
    EXPECT(bell_kl_div(x, y, true, BELL_BATCH_MEAN), (exp(1.5) * .5 - 2) / 4);
    assert_int_equal(
        bell_gradient(bell_kl_div(x, p, false, BELL_SUM), &p, 1, &grad),
        BELL_OK);
    EXPECT(grad, 0, log(.5), log(.25) - 1, log(.25) - 2);
    EXPECT_ERROR(bell_smooth_l1_loss(x, y, -1, BELL_MEAN),
                 "bell_smooth_l1_loss: beta is -1, less than 0");
}

/* ---- out of range ---- */

/* An error where the host knows the index; else with BELL_CHECK=index. */
static void
expect_out_of_range(struct bell_tensor *(*hide)(struct bell_tensor *t))
{
    struct bell_tensor *x = T(V(1, 2, 3, 4, 5, 6), 2, 3);
    struct bell_tensor *i = hide(I(V(0, 3), 2, 1)), *c = hide(I(V(-100, 7), 2));

    EXPECT_ERROR(bell_gather(x, 1, i),
                 "bell_gather: index 3 is out of bounds for axis 1 of size 3");
    EXPECT_ERROR(
        bell_index_select(x, 0, hide(I(V(0, -3), 2))),
        "bell_index_select: index -3 is out of bounds for axis 0 of size 2");
    EXPECT_ERROR(bell_take(x, hide(I(V(6), 1))),
                 "bell_take: index 6 is out of bounds for axis 0 of size 6");
    EXPECT_ERROR(
        bell_embedding(i, x),
        "bell_embedding: index 3 is out of bounds for axis 0 of size 2");
    EXPECT_ERROR(AT(x, bell_whole(), bell_by(i)),
                 "bell_index: index 3 is out of bounds for axis 1 of size 3");
    EXPECT_ERROR(
        PUT(x, x, bell_at(0), bell_by(i)),
        "bell_index_put: index 3 is out of bounds for axis 1 of size 3");
    EXPECT_ERROR(
        bell_scatter_add(x, 1, i, T(V(1, 2), 2, 1)),
        "bell_scatter_add: index 3 is out of bounds for axis 1 of size 3");
    EXPECT_ERROR(
        bell_one_hot(hide(I(V(2, -1), 2)), 3),
        "bell_one_hot: class -1 is out of bounds for axis 1 of size 3");
    EXPECT_ERROR(
        bell_cross_entropy(x, c, 0, -100, BELL_MEAN),
        "bell_cross_entropy: class 7 is out of bounds for axis 1 of size 3");
    EXPECT_ERROR(
        bell_nll_loss(x, c, NULL, BELL_IGNORE_NONE, BELL_MEAN),
        "bell_nll_loss: class -100 is out of bounds for axis 1 of size 3");
    /* and those in range are not */
    EXPECT(bell_gather(x, 1, hide(I(V(-3, 2), 2, 1))), 1, 6);
    EXPECT(bell_nll_loss(x, hide(I(V(-100, 2), 2)), NULL, -100, BELL_SUM), -6);
}

static struct bell_tensor *
as_given(struct bell_tensor *t)
{
    return t;
}

static void
test_out_of_range(void **state)
{
    struct bell_tensor *x = T(V(1, 2, 3, 4), 4), *i = I(V(1, 2), 2);
    struct bell_context *before = ctx;

    expect_out_of_range(as_given);
    /* data that is written over is not known any more */
    i = bell_assign_slice(i, BELL_DIMS(1), I(V(9), 1));
    EXPECT(bell_take(x, i), 2, 0);
    EXPECT(bell_take(x, hidden(I(V(4), 1))), 0);
    assert_int_equal(setenv("BELL_CHECK", "index", 1), 0);
    assert_int_equal(make_context(state), 0);
    expect_out_of_range(hidden);
    assert_int_equal(end_context(state), 0);
    assert_int_equal(setenv("BELL_CHECK", "indices", 1), 0);
    EXPECT_STATUS(bell_context_create(NULL, &ctx),
                  "BELL_CHECK: 'indices' is not known, but index is");
    assert_int_equal(unsetenv("BELL_CHECK"), 0);
    ctx = before;
}

/* The one index that is out of range is found wherever it stands, among any
 * number of any type. */
static void
test_range_of_many(void **state)
{
    static const int64_t counts[] = {1, 2, 63, 64, 65, 127, 128, 129, 300};
    struct bell_tensor *x = bell_arange(ctx, 0, 100, 1, BELL_FLOAT32);
    const int64_t wrong[] = {100, -101};
    static const char *const errors[] = {
        "bell_take: index 100 is out of bounds for axis 0 of size 100",
        "bell_take: index -101 is out of bounds for axis 0 of size 100"};
    uint8_t data[300 * 8];
    enum bell_dtype dtype;
    size_t c, at, size, k;

    (void)state;
    for (dtype = BELL_INT8; dtype <= BELL_INT64; dtype++) {
        size = bell_dtype_size(dtype);
        for (c = 0; c < sizeof(counts) / sizeof(*counts); c++)
            for (at = 0; at < 3; at++)
                for (k = 0; k < 2; k++) {
                    if (k == 1 && (dtype - BELL_INT8) % 2 == 1)
                        continue; /* has no sign */
                    memset(data, 0, sizeof(data));
                    memcpy(data + (uint64_t)(counts[c] - 1) * at / 2 * size,
                           &wrong[k], size);
                    EXPECT_ERROR(bell_take(x, bell_from_data(ctx, &counts[c], 1,
                                                             dtype, data)),
                                 errors[k]);
                }
    }
}

/* Reductions with many loops are sorted: they are not part of the kernels that
 * exchange. */
static void
test_sorted_reductions(void **state)
{
    static const int64_t sizes[] = {1, 2, 17, 40};
    double values[40], sorted[40];
    int64_t places[40];
    uint32_t k, i;

    (void)state;
    for (k = 0; k < ARRAY_LEN(sizes); k++) {
        uint32_t n = (uint32_t)sizes[k];
        struct bell_tensor *x = noise(-1, 1, BELL_DIMS(2, 3, n, 2));
        struct bell_tensor *a;

        a = bell_var(x, BELL_DIMS(0, 1, 3), false, 1);
        assert_int_equal(bell_read_f64(a, values, n), BELL_OK);
        a = bell_var(bell_neg(x), BELL_DIMS(0, 1, 3), false, 1);
        a = bell_argsort(a, 0, false);
        assert_int_equal(bell_read(a, places, n * sizeof(*places)), BELL_OK);
        for (i = 0; i < n; i++) {
            assert_true(places[i] >= 0 && places[i] < n);
            sorted[i] = values[places[i]];
            assert_true(i == 0 || sorted[i - 1] < sorted[i]);
        }
    }
}

/* The reference evaluator launches nothing. */
static uint64_t
n_launches(void)
{
#ifdef HAVE_RUNTIME
    struct bell_stats stats = {.struct_size = sizeof(stats)};

    bell_context_stats(ctx, &stats);
    return stats.n_launches;
#else
    return 0;
#endif
}

/* Few places, many elements: looked at one by one, in a kernel or two. */
static void
test_few_places(void **state)
{
    enum {
        N = 6000,
        PLACES = 120
    };
    int64_t *index = some_ints(N, 0, PLACES);
    double *v = some_values(N), sums[PLACES] = {0}, counts[PLACES] = {0};
    double got[PLACES];
    struct bell_tensor *i, *x;
    uint64_t before;
    size_t k;

    (void)state;
    for (k = 0; k < N; k++) {
        sums[index[k]] += v[k];
        counts[index[k]]++;
    }
    i = bell_from_data(ctx, BELL_DIMS(N), BELL_INT64, index);
    x = bell_scatter_add(bell_zeros(ctx, BELL_DIMS(PLACES), BELL_FLOAT64), 0, i,
                         bell_from_data(ctx, BELL_DIMS(N), BELL_FLOAT64, v));
    before = n_launches();
    assert_int_equal(bell_read_f64(x, got, PLACES), BELL_OK);
    for (k = 0; k < PLACES; k++)
        assert_float_equal(got[k], sums[k], 1e-9);
    x = bell_add(bell_cast(i, BELL_FLOAT64), bell_scalar(ctx, 0.5));
    x = bell_histc(x, PLACES, 0, PLACES);
    assert_int_equal(bell_read_f64(x, got, PLACES), BELL_OK);
    for (k = 0; k < PLACES; k++)
        assert_float_equal(got[k], counts[k], 0);
    assert_in_range(n_launches() - before, 0, 6);
    free(index);
    free(v);
}

/* ---- found without ordering ---- */

/* x's dtype, n x 2: few and many different ones, extremes. */
static struct bell_tensor *
make_disorder(enum bell_dtype dtype, int64_t n, uint32_t kind)
{
    static const double odd[] = {NAN, INFINITY, -INFINITY, 0.0, -0.0, 1e-320,
                                 NAN, 1e300,    -1e300,    -1,  0.5,  127};
    double *v = malloc((size_t)n * 2 * sizeof(*v));
    int64_t *i = malloc((size_t)n * 2 * sizeof(*i)), k;
    bool is_float =
        dtype == BELL_FLOAT16 || dtype == BELL_FLOAT32 || dtype == BELL_FLOAT64;
    struct bell_tensor *x;

    assert_true(v && i);
    for (k = 0; k < n * 2; k++) {
        uint32_t r = next_number(1u << 30);
        i[k] = kind == 0 ? (int64_t)((uint64_t)next_number(1u << 31) << 33 | r)
               : kind == 1 ? (int64_t)(r % 3) - 1
               : kind == 2 ? k
                           : (r & 1 ? INT64_MIN : INT64_MAX);
        v[k] = kind == 0   ? (r & 1 ? 1 : -1) * ldexp(r, (int)(r % 60) - 60)
               : kind == 3 ? odd[r % ARRAY_LEN(odd)]
                           : (double)i[k];
    }
    x = is_float ? bell_from_data(ctx, BELL_DIMS(n, 2), BELL_FLOAT64, v)
                 : bell_from_data(ctx, BELL_DIMS(n, 2), BELL_INT64, i);
    free(v);
    free(i);
    return bell_contiguous(bell_cast(x, dtype));
}

static void
read_one(struct bell_tensor *x, uint64_t *out)
{
    *out = 0;
    assert_int_equal(
        bell_read(x, out, (size_t)bell_dtype_size(bell_dtype_of(x))), BELL_OK);
}

/* The k-th element of a column is the one at k in order: the same element of
 * equal ones, to the bit. */
static void
check_found(struct bell_tensor *x, int64_t k)
{
    struct bell_tensor *v, *i, *order = bell_argsort(x, 0, false);
    uint64_t got, want;
    int64_t c;

    bell_kthvalue(x, k, 0, false, &v, &i);
    for (c = 0; c < 2; c++) {
        read_one(bell_select(bell_select(order, 0, k - 1), 0, c), &want);
        read_one(bell_select(i, 0, c), &got);
        assert_int_equal(got, want);
        read_one(bell_select(bell_select(x, 0, (int64_t)want), 0, c), &want);
        read_one(bell_select(v, 0, c), &got);
        assert_int_equal(got, want);
    }
}

static void
test_found(void **state)
{
    static const enum bell_dtype dtypes[] = {
        BELL_FLOAT32, BELL_FLOAT64, BELL_FLOAT16, BELL_INT64, BELL_UINT64,
        BELL_INT32,   BELL_UINT32,  BELL_INT8,    BELL_UINT8, BELL_BOOL,
    };
    const int64_t n = 2049;
    uint32_t d, kind;

    (void)state;
    for (d = 0; d < ARRAY_LEN(dtypes);
         d += is_slow_device() ? 3 + 2 * IS_SANITIZED : 1) {
        for (kind = 0; kind < 4; kind += d < 3 ? 1 : 3) {
            print_message("%s %u\n", bell_dtype_name(dtypes[d]), kind);
            check_found(make_disorder(dtypes[d], n, kind), kind == 1   ? 1
                                                           : kind == 2 ? n
                                                                       : n / 2);
        }
    }
}

/* Three shares are found, seven are taken of what is in order. */
static void
test_found_quantiles(void **state)
{
    static const double shares[] = {0.25, 0.5, 0.9, 0, 1, 0.1, 0.111};
    struct bell_tensor *x = make_disorder(BELL_FLOAT32, 2100, 1), *few, *many;
    struct bell_tensor *q3 = tensor_of(shares, BELL_DIMS(3)), *g[2];
    struct bell_tensor *q7 = tensor_of(shares, BELL_DIMS(7));
    double got[6], want[6], sum;
    uint64_t before;
    int way, k;

    (void)state;
    x = bell_add(x,
                 bell_mul_scalar(make_disorder(BELL_FLOAT32, 2100, 2), 1e-9));
    for (way = BELL_LINEAR; way <= BELL_MIDPOINT; way++) {
        few = bell_quantile(x, q3, 0, false, (enum bell_interpolation)way);
        many = bell_quantile(x, q7, 0, false, (enum bell_interpolation)way);
        many = bell_narrow(many, 0, 0, 3);
        assert_int_equal(bell_read_f64(few, got, 6), BELL_OK);
        assert_int_equal(bell_read_f64(many, want, 6), BELL_OK);
        for (k = 0; k < 6; k++)
            assert_float_equal(got[k], want[k], 0);
        assert_int_equal(
            bell_gradient(bell_sum(few, BELL_NO_DIMS, false), &x, 1, &g[0]),
            BELL_OK);
        assert_int_equal(
            bell_gradient(bell_sum(many, BELL_NO_DIMS, false), &x, 1, &g[1]),
            BELL_OK);
        few = bell_sum(bell_abs(bell_sub(g[0], g[1])), BELL_NO_DIMS, false);
        assert_int_equal(bell_read_f64(few, &sum, 1), BELL_OK);
        assert_float_equal(sum, 0, 0);
    }
    before = n_launches();
    bell_median(x, 0, false, &few, NULL);
    assert_int_equal(bell_read_f64(few, got, 2), BELL_OK);
    assert_in_range(n_launches() - before, 0, 36);
}

int
main(void)
{
#define TEST(name)                                                             \
    cmocka_unit_test_setup_teardown(name, make_context, end_context)
    const struct CMUnitTest tests[] = {
        TEST(test_scatter_reduce),
        TEST(test_scatter_kinds),
        TEST(test_scatter_gradients),
        TEST(test_index_put),
        TEST(test_rank_0_items),
        TEST(test_signed_zeros),
        TEST(test_masks),
        TEST(test_sized),
        TEST(test_repeated),
        TEST(test_unique),
        TEST(test_extremes_at),
        TEST(test_logcumsumexp),
        TEST(test_quantiles),
        TEST(test_order_statistics),
        TEST(test_multinomial),
        TEST(test_products),
        TEST(test_losses),
        TEST(test_out_of_range),
        TEST(test_range_of_many),
        TEST(test_few_places),
        TEST(test_found),
        TEST(test_found_quantiles),
        cmocka_unit_test_setup_teardown(test_sorted_reductions, make_context,
                                        end_context),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
