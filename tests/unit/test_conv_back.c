/* Convolutions with a stride from results to sources, at sizes where a CPU
 * takes a convolution for each phase: against loops, and how many products are
 * made. The CPU's queue only. */
#include "tests/unit/tensor_host.h"

#include <stdlib.h>

#include "doorbell/stats.h"

/* Two axes; of the sources' sizes what is not given is what results reach. */
static const struct shape {
    int64_t n, groups, from,
        to; /* channels of results and sources in a group */
    int64_t in[2], window[2], stride[2], padding[2], dilation[2], extra[2];
    bool is_cut; /* no products with zeros but for odd ends */
} shapes[] = {
    {2, 1, 32, 16, {20, 20}, {3, 3}, {2, 2}, {1, 1}, {1, 1}, {1, 1}, true},
    {2, 1, 16, 32, {20, 21}, {3, 3}, {2, 2}, {0, 1}, {1, 1}, {0, 0}, true},
    {1, 1, 64, 3, {40, 40}, {7, 7}, {2, 2}, {3, 3}, {1, 1}, {1, 1}, true},
    {2, 1, 48, 48, {14, 14}, {1, 1}, {2, 2}, {0, 0}, {1, 1}, {1, 0}, true},
    {1, 2, 16, 24, {30, 9}, {5, 3}, {3, 2}, {4, 2}, {1, 1}, {2, 1}, true},
    {1, 1, 24, 24, {24, 24}, {3, 4}, {2, 3}, {1, 0}, {1, 1}, {0, 2}, true},
    {1, 1, 8, 500, {1, 300}, {1, 3}, {1, 2}, {0, 1}, {1, 1}, {0, 0}, true},
    {1, 1, 24, 24, {20, 20}, {3, 3}, {2, 2}, {2, 0}, {2, 1}, {1, 0}, false},
    {1, 1, 24, 24, {20, 20}, {2, 4}, {2, 2}, {0, 1}, {1, 1}, {0, 0}, true},
    {1, 1, 24, 24, {9, 7}, {7, 3}, {5, 4}, {2, 1}, {1, 1}, {0, 1}, true},
    {1, 2, 3, 5, {4, 6}, {5, 4}, {3, 3}, {2, 0}, {1, 1}, {1, 2}, false},
};

#define MOST 400000

static float x[MOST], w[MOST], v[MOST], got[MOST], want[MOST];

/* Whole numbers, whose sums are exact. */
static void
fill(float *values, int64_t n, uint64_t *rng)
{
    int64_t i;

    assert_true(n <= MOST);
    for (i = 0; i < n; i++) {
        *rng = *rng * 6364136223846793005u + 1442695040888963407u;
        values[i] = (float)(int64_t)(*rng >> 61) - 3;
    }
}

/* Into source c of image n and group g what result o has of it. */
static void
scatter(const struct shape *s, const int64_t *out, const float *from,
        const float *by, float *to)
{
    int64_t y, p, z, q;

    for (y = 0; y < s->in[0]; y++) {
        for (p = 0; p < s->window[0]; p++) {
            int64_t at = y * s->stride[0] + p * s->dilation[0] - s->padding[0];
            for (z = 0; at >= 0 && at < out[0] && z < s->in[1]; z++) {
                for (q = 0; q < s->window[1]; q++) {
                    int64_t b =
                        z * s->stride[1] + q * s->dilation[1] - s->padding[1];
                    if (b >= 0 && b < out[1])
                        to[at * out[1] + b] +=
                            from[y * s->in[1] + z] * by[p * s->window[1] + q];
                }
            }
        }
    }
}

static void
expect_loops(const struct shape *s, const int64_t *out)
{
    int64_t size = s->in[0] * s->in[1], taps = s->window[0] * s->window[1];
    int64_t area = out[0] * out[1], n, g, o, c, from, to;

    memset(want, 0, sizeof(want));
    for (n = 0; n < s->n; n++) {
        for (g = 0; g < s->groups; g++) {
            for (o = 0; o < s->from; o++) {
                for (c = 0; c < s->to; c++) {
                    from = (n * s->groups + g) * s->from + o;
                    to = (n * s->groups + g) * s->to + c;
                    scatter(s, out, x + from * size,
                            w + ((g * s->from + o) * s->to + c) * taps,
                            want + to * area);
                }
            }
        }
    }
}

static double
dot(const float *a, const float *b, int64_t n)
{
    double sum = 0;
    int64_t i;

    for (i = 0; i < n; i++)
        sum += (double)a[i] * (double)b[i];
    return sum;
}

/* y is linear in a and in b: with either's gradient, by v, the product of the
 * two is that of y and v. */
static void
expect_gradients(struct bell_tensor *y, struct bell_tensor *a,
                 struct bell_tensor *b, double product)
{
    struct bell_tensor *loss, *grads[2];

    loss = bell_sum(bell_mul(y, bell_from_data(ctx, bell_shape(y), bell_ndim(y),
                                               BELL_FLOAT32, v)),
                    BELL_NO_DIMS, false);
    assert_int_equal(
        bell_gradient(loss, (struct bell_tensor *[]){a, b}, 2, grads), BELL_OK);
    assert_int_equal(bell_read(grads[0], got, bell_nbytes(a)), BELL_OK);
    assert_true(dot(got, x, (int64_t)bell_numel(a)) == product);
    assert_int_equal(bell_read(grads[1], got, bell_nbytes(b)), BELL_OK);
    assert_true(dot(got, w, (int64_t)bell_numel(b)) == product);
}

static void
test_back(void **state)
{
    struct bell_conv_options options;
    struct bell_stats stats = {.struct_size = sizeof(stats)};
    struct bell_tensor *a, *b, *y;
    int64_t out[2], count, i;
    uint64_t rng = 7;
    double before, products, operations;
    size_t k, axis;

    (void)state;
    for (k = 0; k < ARRAY_LEN(shapes); k++) {
        const struct shape *s = &shapes[k];
        int64_t taps = s->window[0] * s->window[1];
        memset(&options, 0, sizeof(options));
        options.struct_size = sizeof(options);
        options.groups = s->groups;
        for (axis = 0; axis < 2; axis++) {
            options.stride[axis] = s->stride[axis];
            options.padding[axis] = s->padding[axis];
            options.dilation[axis] = s->dilation[axis];
            options.output_padding[axis] = s->extra[axis];
            out[axis] =
                (s->in[axis] - 1) * s->stride[axis] - 2 * s->padding[axis] +
                s->dilation[axis] * (s->window[axis] - 1) + 1 + s->extra[axis];
        }
        fill(x, s->n * s->groups * s->from * s->in[0] * s->in[1], &rng);
        fill(w, s->groups * s->from * s->to * taps, &rng);
        count = s->n * s->groups * s->to * out[0] * out[1];
        assert_true(count <= MOST);
        expect_loops(s, out);
        a = bell_from_data(
            ctx, BELL_DIMS(s->n, s->groups * s->from, s->in[0], s->in[1]),
            BELL_FLOAT32, x);
        b = bell_from_data(
            ctx,
            BELL_DIMS(s->groups * s->from, s->to, s->window[0], s->window[1]),
            BELL_FLOAT32, w);
        y = bell_conv_transpose2d(a, b, NULL, &options);
        bell_context_stats(ctx, &stats);
        before = stats.n_flops;
        assert_int_equal(bell_read(y, got, (size_t)count * 4), BELL_OK);
        bell_context_stats(ctx, &stats);
        operations = stats.n_flops - before;
        for (i = 0; i < count; i++) {
            if (got[i] != want[i])
                fail_msg("row %zu, element %lld: %g, not %g", k, (long long)i,
                         (double)got[i], (double)want[i]);
        }
        if (k % 3 == 0) {
            fill(v, count, &rng);
            y = bell_conv_transpose2d(a, b, NULL, &options);
            expect_gradients(y, a, b, dot(want, v, count));
        }
        products = (double)(s->n * s->groups * s->from * s->to * taps) *
                   (double)(s->in[0] * s->in[1]);
        if (s->is_cut && operations > 2.4 * products)
            fail_msg("row %zu: %.3g operations for %.3g products", k,
                     operations, products);
    }
}

/* An infinity among the results of a strided convolution reaches the sources
 * that an offset of the window takes there, and makes NaN of no other. */
static void
test_infinite(void **state)
{
    struct bell_conv_options options = {
        .struct_size = sizeof(options), .stride = {3, 2}, .padding = {1, 1}};
    struct bell_tensor *a, *b, *y, *seed, *grad;
    int64_t i, p, q;

    (void)state;
    for (i = 0; i < 12 * 9; i++)
        x[i] = 1;
    for (i = 0; i < 2 * 3; i++)
        w[i] = 1;
    memset(v, 0, sizeof(v));
    memset(want, 0, sizeof(want));
    a = bell_from_data(ctx, BELL_DIMS(1, 1, 12, 9), BELL_FLOAT32, x);
    b = bell_from_data(ctx, BELL_DIMS(1, 1, 2, 3), BELL_FLOAT32, w);
    y = bell_conv2d(a, b, NULL, &options);
    assert_true(bell_shape(y)[2] == 5 && bell_shape(y)[3] == 5);
    v[2 * 5 + 3] = INFINITY; /* of sources 5 and 6, 5 to 7 */
    for (p = 5; p < 7; p++) {
        for (q = 5; q < 8; q++)
            want[p * 9 + q] = INFINITY;
    }
    seed = bell_from_data(ctx, BELL_DIMS(1, 1, 5, 5), BELL_FLOAT32, v);
    assert_int_equal(bell_vjp(y, seed, &a, 1, &grad), BELL_OK);
    assert_int_equal(bell_read(grad, got, 12 * 9 * sizeof(*got)), BELL_OK);
    for (i = 0; i < 12 * 9; i++) {
        if (got[i] != want[i])
            fail_msg("source %lld: %g, not %g", (long long)i, (double)got[i],
                     (double)want[i]);
    }
}

/* More elements at an end than a stride, which a dilation allows: results reach
 * none of them. One axis is so, the other has a stride that does not divide the
 * window, and a convolution for each phase. */
static void
test_extra(void **state)
{
    static struct shape s = {1,      1,      1,      1,      {1, 2}, {1, 3},
                             {1, 2}, {0, 1}, {1, 1}, {0, 1}, false};
    struct bell_conv_options options = {.struct_size = sizeof(options)};
    int64_t out[2], count, k, axis;
    struct bell_tensor *a, *b, *y;
    uint64_t rng = 3;

    (void)state;
    for (k = 0; k < 3 * 3 * 2 * 2 * 2; k++) {
        s.stride[0] = 1 + k % 3;
        s.dilation[0] = 1 + k / 3 % 3;
        s.padding[0] = k / 9 % 2;
        s.window[0] = 1 + k / 18 % 2;
        s.in[0] = 1 + k / 36 % 2;
        s.extra[0] =
            s.stride[0] > s.dilation[0] ? s.stride[0] - 1 : s.dilation[0] - 1;
        for (axis = 0; axis < 2; axis++) {
            options.stride[axis] = s.stride[axis];
            options.padding[axis] = s.padding[axis];
            options.dilation[axis] = s.dilation[axis];
            options.output_padding[axis] = s.extra[axis];
            out[axis] =
                (s.in[axis] - 1) * s.stride[axis] - 2 * s.padding[axis] +
                s.dilation[axis] * (s.window[axis] - 1) + 1 + s.extra[axis];
        }
        count = out[0] * out[1];
        if (out[0] < 1)
            continue;
        fill(x, s.in[0] * s.in[1], &rng);
        fill(w, s.window[0] * s.window[1], &rng);
        fill(v, count, &rng);
        expect_loops(&s, out);
        a = bell_from_data(ctx, BELL_DIMS(1, 1, s.in[0], s.in[1]), BELL_FLOAT32,
                           x);
        b = bell_from_data(ctx, BELL_DIMS(1, 1, s.window[0], s.window[1]),
                           BELL_FLOAT32, w);
        y = bell_conv_transpose2d(a, b, NULL, &options);
        expect_gradients(y, a, b, dot(want, v, count));
        assert_int_equal(bell_read(y, got, (size_t)count * 4), BELL_OK);
        for (axis = 0; axis < count; axis++)
            assert_true(got[axis] == want[axis]);
    }
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_infinite, make_context,
                                        end_context),
        cmocka_unit_test_setup_teardown(test_back, make_context, end_context),
        cmocka_unit_test_setup_teardown(test_extra, make_context, end_context),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
