/* Windows over one and three axes, and borders, against plain loops; what two
 * axes do is test_tensor_reduce's. */
#include "tests/unit/tensor_host.h"

#include <math.h>
#include <stdlib.h>

#include "doorbell/vision.h"

static double *
read_all(struct bell_tensor *t)
{
    size_t n = (size_t)bell_numel(t);
    double *values = malloc((n + 1) * sizeof(*values));

    assert_non_null(values);
    assert_int_equal(bell_read_f64(t, values, n), BELL_OK);
    return values;
}

/* ---- convolution ---- */

/* A row of a table of options. */
#define SIZED(type) .struct_size = sizeof(struct type)

static const struct bell_conv_options deep[] = {
    {SIZED(bell_conv_options), .stride = {1, 1, 1}},
    {SIZED(bell_conv_options), .stride = {2, 1, 3}, .padding = {1, 0, 2},
     .dilation = {1, 2, 1}},
    {SIZED(bell_conv_options), .stride = {1, 2, 1}, .padding = {0, 1, 1},
     .groups = 2},
};

static void
check_deep(const struct bell_conv_options *o)
{
    const int64_t size[3] = {4, 6, 5}, k[3] = {2, 3, 2};
    int64_t g = o->groups ? o->groups : 1, n[3], at[3], p[3], q[3], c, i, a;
    struct bell_tensor *x = noise(-1, 1, BELL_DIMS(1, 2 * g, 4, 6, 5)),
                       *w = noise(-1, 1, BELL_DIMS(2 * g, 2, 2, 3, 2)), *y;
    double *dx = read_all(x), *dw = read_all(w), *want;
    size_t j = 0;

    for (a = 0; a < 3; a++)
        n[a] = (size[a] + 2 * o->padding[a] -
                (o->dilation[a] ? o->dilation[a] : 1) * (k[a] - 1) - 1) /
                   o->stride[a] +
               1;
    want = calloc((size_t)(2 * g * n[0] * n[1] * n[2]), sizeof(*want));
    assert_non_null(want);
    for (c = 0; c < 2 * g; c++)
        for (i = 0; i < n[0] * n[1] * n[2]; i++, j++) {
            int64_t ic, r;
            at[0] = i / (n[1] * n[2]);
            at[1] = i / n[2] % n[1];
            at[2] = i % n[2];
            for (ic = 0; ic < 2; ic++)
                for (r = 0; r < k[0] * k[1] * k[2]; r++) {
                    bool in = true;
                    p[0] = r / (k[1] * k[2]);
                    p[1] = r / k[2] % k[1];
                    p[2] = r % k[2];
                    for (a = 0; a < 3; a++) {
                        q[a] = at[a] * o->stride[a] +
                               p[a] * (o->dilation[a] ? o->dilation[a] : 1) -
                               o->padding[a];
                        in &= q[a] >= 0 && q[a] < size[a];
                    }
                    if (in)
                        want[j] +=
                            dx[(((c / 2) * 2 + ic) * size[0] + q[0]) * 30 +
                               q[1] * 5 + q[2]] *
                            dw[(c * 2 + ic) * 12 + r];
                }
        }
    y = bell_conv3d(x, w, NULL, o);
    EXPECT_SHAPE(y, 1, 2 * g, n[0], n[1], n[2]);
    expect_values(__FILE__, __LINE__, y, want, j, 1e-12);
    free(dx);
    free(dw);
    free(want);
}

/* <conv(x), y> = <x, conv_transpose(y)> */
static void
test_deep(void **state)
{
    size_t i;
    int k;

    (void)state;
    for (i = 0; i < ARRAY_LEN(deep); i++) {
        struct bell_conv_options o = deep[i];
        int64_t g = o.groups ? o.groups : 1;
        struct bell_tensor *x = noise(-1, 1, BELL_DIMS(1, 2 * g, 4, 6, 5)),
                           *w = noise(-1, 1, BELL_DIMS(2 * g, 2, 2, 3, 2)),
                           *y = bell_conv3d(x, w, NULL, &o), *t, *diff;
        check_deep(&o);
        for (k = 0; k < 3; k++)
            o.output_padding[k] =
                bell_size(x, 2 + k) -
                ((bell_size(y, 2 + k) - 1) * o.stride[k] - 2 * o.padding[k] +
                 (o.dilation[k] ? o.dilation[k] : 1) *
                     (bell_size(w, 2 + k) - 1) +
                 1);
        t = bell_conv_transpose3d(bell_sin(y), w, NULL, &o);
        EXPECT_SHAPE(t, 1, 2 * g, 4, 6, 5);
        diff = bell_sub(bell_sum(bell_mul(y, bell_sin(y)), BELL_NO_DIMS, false),
                        bell_sum(bell_mul(x, t), BELL_NO_DIMS, false));
        EXPECT_NEAR(diff, 1e-10, 0);
    }
    EXPECT(bell_conv_transpose1d(T(V(1, 2, 3), 1, 1, 3), T(V(1, 10), 1, 1, 2),
                                 T(V(0.5), 1),
                                 &BELL_OPTIONS(bell_conv_options, .stride = {3},
                                               .output_padding = {1})),
           1.5, 10.5, 0.5, 2.5, 20.5, 0.5, 3.5, 30.5, 0.5);
    EXPECT_SHAPE(
        bell_conv_transpose1d(noise(0, 1, BELL_DIMS(1, 1, 1)),
                              noise(0, 1, BELL_DIMS(1, 2, 2)), NULL,
                              &BELL_OPTIONS(bell_conv_options, .padding = {1})),
        1, 2, 0);
    EXPECT_ERROR(bell_conv3d(noise(0, 1, BELL_DIMS(1, 1, 3, 3, 3)),
                             noise(0, 1, BELL_DIMS(1, 1, 1, 4, 1)), NULL, NULL),
                 "bell_conv3d: a window of 4 elements must fit an axis of 3 "
                 "with a padding of 0");
}

/* ---- pools ---- */

/* Pools the axes one after the other, the last of x each time. */
static struct bell_tensor *
one_by_one(struct bell_tensor *x, const struct bell_pool_options *o, bool max)
{
    static const int64_t turn[4] = {0, 2, 3, 1};
    int i;

    for (i = 0; i < 3; i++) {
        struct bell_pool_options one = {.struct_size = sizeof(one),
                                        .kernel = {o->kernel[i]},
                                        .stride = {o->stride[i]},
                                        .padding = {o->padding[i]},
                                        .ceil_mode = o->ceil_mode,
                                        .exclude_pad = o->exclude_pad};
        x = bell_permute(x, turn, 4);
        x = max ? bell_max_pool1d(x, &one) : bell_avg_pool1d(x, &one);
    }
    return x;
}

static void
test_pools(void **state)
{
    static const struct bell_pool_options opts[] = {
        {SIZED(bell_pool_options), .kernel = {2, 2, 2}},
        {SIZED(bell_pool_options), .kernel = {3, 2, 1}, .stride = {1, 2, 2},
         .padding = {1, 0, 0}},
        {SIZED(bell_pool_options), .kernel = {2, 3, 3}, .padding = {1, 1, 1},
         .ceil_mode = true},
        {SIZED(bell_pool_options), .kernel = {2, 3, 3}, .padding = {1, 1, 0},
         .exclude_pad = true},
    };
    static const struct bell_pool_options five = {.struct_size = sizeof(five),
                                                  .kernel = {5}};
    size_t i;

    (void)state;
    EXPECT(bell_max_pool1d(T(V(1, 5, 2, 4, 3), 5), &opts[0]), 5, 4);
    EXPECT(bell_avg_pool1d(T(V(1, 5, 2, 4, 3), 5), &opts[0]), 3, 3);
    for (i = 0; i < ARRAY_LEN(opts); i++) {
        struct bell_tensor *x = noise(-1, 1, BELL_DIMS(2, 5, 6, 7));
        double *want = read_all(one_by_one(x, &opts[i], true));
        struct bell_tensor *y = bell_max_pool3d(x, &opts[i]);
        expect_values(__FILE__, __LINE__, y, want, (size_t)bell_numel(y), 0);
        free(want);
        want = read_all(one_by_one(x, &opts[i], false));
        y = bell_avg_pool3d(x, &opts[i]);
        expect_values(__FILE__, __LINE__, y, want, (size_t)bell_numel(y),
                      1e-12);
        free(want);
    }
    EXPECT_ERROR(bell_max_pool1d(T(V(1, 2), 2), &five),
                 "bell_max_pool1d: windows of 5 by 5, padding 0, dilation 1 "
                 "over (2,); an axis is shorter than a window");
    EXPECT_ERROR(bell_max_pool3d(T(V(1, 2), 2), &opts[0]),
                 "bell_max_pool3d: x of shape (2,); 3 axes are needed");
}

static void
test_adaptive(void **state)
{
    static const int64_t sizes[] = {1, 2, 3, 5, 7, 9, 14};
    size_t i;

    (void)state;
    for (i = 0; i < ARRAY_LEN(sizes); i++) {
        int64_t n = sizes[i], o, j, r;
        struct bell_tensor *x = noise(-1, 1, BELL_DIMS(3, 7));
        double *in = read_all(x), want[3 * 14];
        for (r = 0; r < 3; r++)
            for (o = 0; o < n; o++) {
                int64_t first = o * 7 / n, end = ((o + 1) * 7 + n - 1) / n;
                want[r * n + o] = 0;
                for (j = first; j < end; j++)
                    want[r * n + o] += in[r * 7 + j] / (double)(end - first);
            }
        expect_values(__FILE__, __LINE__,
                      bell_adaptive_avg_pool(x, BELL_DIMS(n)), want,
                      (size_t)(3 * n), 1e-12);
        free(in);
    }
    /* An infinity shows in its own windows alone. */
    EXPECT(bell_narrow(bell_adaptive_avg_pool(T(V(INFINITY, 1, 2, 3, 4), 5),
                                              BELL_DIMS(3)),
                       0, 1, 2),
           2, 3.5);
    EXPECT_SHAPE(bell_adaptive_avg_pool(noise(0, 1, BELL_DIMS(2, 3, 4, 5)),
                                        BELL_DIMS(2, 0, 3)),
                 2, 2, 4, 3);
    EXPECT_ERROR(bell_adaptive_avg_pool(T(V(1, 2), 2), BELL_DIMS(-1)),
                 "bell_adaptive_avg_pool: axis 0 of (2,) to a size of -1: "
                 "expected 0 to 2^20, and 0 of an empty axis");
    EXPECT_ERROR(bell_adaptive_avg_pool(T(V(1, 2), 2), BELL_DIMS(1, 1)),
                 "bell_adaptive_avg_pool: x of shape (2,) to 2 sizes: expected "
                 "an axis for each size");
}

/* ---- borders ---- */

/* The element of an axis of n with pads[2] that element i comes from: a cut
 * axis does not go round. */
static int64_t
source(int64_t i, int64_t n, const int64_t *pads, enum bell_pad_mode mode)
{
    int64_t first = pads[0] < 0 ? -pads[0] : 0;
    int64_t left = n - first - (pads[1] < 0 ? -pads[1] : 0);

    switch (mode) {
    case BELL_PAD_REFLECT:
        i = i < 0 ? -i : i;
        return i >= n ? 2 * (n - 1) - i : i;
    case BELL_PAD_REPLICATE:
        return i < 0 ? 0 : i >= n ? n - 1 : i;
    case BELL_PAD_CIRCULAR:
        return first + (i - first + left) % left;
    }
    return 0;
}

static void
test_borders(void **state)
{
    static const int64_t pads[][4] = {
        {0, 0, 0, 0}, {2, 1, 0, 0},   {1, 3, 2, 2},   {-1, 2, 1, -2},
        {3, 3, 2, 0}, {3, -1, -1, 2}, {-1, -1, 1, -1}};
    struct bell_tensor *x = noise(-1, 1, BELL_DIMS(3, 4));
    double *in = read_all(x), want[100];
    size_t i;
    int mode;

    (void)state;
    for (mode = BELL_PAD_REFLECT; mode <= BELL_PAD_CIRCULAR; mode++)
        for (i = 0; i < ARRAY_LEN(pads); i++) {
            const int64_t *p = pads[i];
            int64_t y, z;
            size_t n = 0;
            for (y = -p[2]; y < 3 + p[3]; y++)
                for (z = -p[0]; z < 4 + p[1]; z++)
                    want[n++] =
                        in[source(y, 3, p + 2, (enum bell_pad_mode)mode) * 4 +
                           source(z, 4, p, (enum bell_pad_mode)mode)];
            expect_values(__FILE__, __LINE__,
                          bell_pad_with(x, p, 4, (enum bell_pad_mode)mode),
                          want, n, 0);
        }
    free(in);
    EXPECT_ERROR(bell_pad_with(x, BELL_DIMS(4, -1), BELL_PAD_CIRCULAR),
                 "bell_pad_with: 4 elements before axis 1 of (3, 4); at most 3 "
                 "are possible");
    EXPECT_ERROR(bell_pad_with(x, BELL_DIMS(0, 4), BELL_PAD_REFLECT),
                 "bell_pad_with: 4 elements after axis 1 of (3, 4); at most 3 "
                 "are possible");
    EXPECT_ERROR(bell_pad_with(x, BELL_DIMS(0, 0, 4, 0), BELL_PAD_CIRCULAR),
                 "bell_pad_with: 4 elements before axis 0 of (3, 4); at most 3 "
                 "are possible");
    EXPECT_ERROR(bell_pad_with(noise(0, 1, BELL_DIMS(0)), BELL_DIMS(1, 0),
                               BELL_PAD_REPLICATE),
                 "bell_pad_with: 1 elements before axis 0 of (0,); at most 0 "
                 "are possible");
    EXPECT_ERROR(bell_pad_with(x, BELL_DIMS(1, 1), (enum bell_pad_mode)7),
                 "bell_pad_with: mode 7 is not an enum bell_pad_mode");
}

/* ---- other sizes ---- */

static double
cubic_weight(double x)
{
    const double a = -0.75;

    x = fabs(x);
    if (x <= 1)
        return ((a + 2) * x - (a + 3)) * x * x + 1;
    return x < 2 ? ((a * x - 5 * a) * x + 8 * a) * x - 4 * a : 0;
}

/* Element i of m that x's n elements are resized to. */
static double
resized(const double *x, int64_t n, int64_t m, int64_t i,
        enum bell_resize_mode mode, bool align)
{
    double at = align ? m > 1 ? (double)(i * (n - 1)) / (double)(m - 1) : 0
                      : ((double)i + 0.5) * (double)n / (double)m - 0.5;
    double sum = 0, from;
    int64_t k, j;

    if (mode == BELL_RESIZE_NEAREST || mode == BELL_RESIZE_EXACT)
        return x[(2 * i + (mode == BELL_RESIZE_EXACT)) * n / (2 * m)];
    if (mode == BELL_RESIZE_LINEAR)
        at = fmax(at, 0);
    from = floor(at);
    for (k = (int64_t)from - 1; k < (int64_t)from + 3; k++) {
        double d = fabs(at - (double)k),
               w = mode == BELL_RESIZE_CUBIC ? cubic_weight(d) : fmax(1 - d, 0);
        j = k < 0 ? 0 : k >= n ? n - 1 : k;
        sum += w * x[j];
    }
    return sum;
}

static void
test_sizes(void **state)
{
    static const int64_t sizes[] = {1, 2, 3, 5, 7, 10, 15};
    struct bell_tensor *x = noise(-1, 1, BELL_DIMS(2, 5));
    double *in = read_all(x), want[2 * 15];
    size_t i;
    int mode, align;

    (void)state;
    for (mode = BELL_RESIZE_NEAREST; mode <= BELL_RESIZE_CUBIC; mode++)
        for (align = 0; align < (mode < BELL_RESIZE_LINEAR ? 1 : 2); align++)
            for (i = 0; i < ARRAY_LEN(sizes); i++) {
                int64_t n = sizes[i], r, o;
                for (r = 0; r < 2; r++)
                    for (o = 0; o < n; o++)
                        want[r * n + o] =
                            resized(in + r * 5, 5, n, o,
                                    (enum bell_resize_mode)mode, align);
                expect_values(__FILE__, __LINE__,
                              bell_interpolate(x, BELL_DIMS(n),
                                               (enum bell_resize_mode)mode,
                                               align, 0),
                              want, (size_t)(2 * n), 1e-12);
            }
    free(in);
    EXPECT(bell_interpolate(I(V(1, 2, 3), 3), BELL_DIMS(7), BELL_RESIZE_NEAREST,
                            false, 2.5),
           1, 1, 1, 2, 2, 3, 3);
    EXPECT_ERROR(
        bell_interpolate(x, BELL_DIMS(0), BELL_RESIZE_LINEAR, false, 0),
        "bell_interpolate: axis 1 of (2, 5) to a size of 0: expected 1 to "
        "2^24, of an axis that is not empty");
    EXPECT_ERROR(
        bell_interpolate(x, BELL_DIMS(1, 2, 3), BELL_RESIZE_LINEAR, false, 0),
        "bell_interpolate: x of shape (2, 5) to 3 sizes: expected an axis for "
        "each size");
    EXPECT_ERROR(bell_interpolate(x, BELL_DIMS(3), BELL_RESIZE_EXACT, true, 0),
                 "bell_interpolate: corners of nearest elements cannot be "
                 "aligned");
    EXPECT_ERROR(bell_interpolate(I(V(1, 2), 2), BELL_DIMS(3),
                                  BELL_RESIZE_CUBIC, false, 0),
                 "bell_interpolate: of int64, not a float dtype or uint8");
    EXPECT_ERROR(
        bell_interpolate(x, BELL_DIMS(3), BELL_RESIZE_LINEAR, false, -1),
        "bell_interpolate: the scale is -1; expected a finite one, 0 or more");
}

/* A scale for each axis, weights that reach farther, bytes. */
static void
test_resize(void **state)
{
    struct bell_resize_options opt = {.struct_size = sizeof(opt),
                                      .mode = BELL_RESIZE_LINEAR,
                                      .antialias = true};
    struct bell_tensor *x = T(V(1, 2, 4, 8), 1, 4), *bytes;
    double far = 1 / 1.75;

    (void)state;
    EXPECT(bell_resize(x, BELL_DIMS(2), &opt), (0.75 + 1.5 + 1) * far,
           (0.5 + 3 + 6) * far);
    /* an element without weight has no part in the sum */
    EXPECT(bell_resize(T(V(1, 2, 4, INFINITY), 1, 4), BELL_DIMS(2), &opt),
           (0.75 + 1.5 + 1) * far, INFINITY);
    EXPECT(bell_resize(x, BELL_DIMS(8), &opt), 1, 1.25, 1.75, 2.5, 3.5, 5, 7,
           8);
    bytes = bell_cast(x, BELL_UINT8);
    EXPECT(bell_resize(bytes, BELL_DIMS(2), &opt), 2, 5);
    opt.antialias = false;
    EXPECT(bell_resize(bytes, BELL_DIMS(8), &opt), 1, 1, 2, 3, 4, 5, 7, 8);
    opt.mode = BELL_RESIZE_CUBIC; /* beyond both ends of a byte */
    bytes = bell_cast(T(V(0, 0, 255, 255), 4), BELL_UINT8);
    EXPECT(bell_resize(bytes, BELL_DIMS(8), &opt), 0, 0, 0, 58, 197, 255, 255,
           255);
    opt.mode = BELL_RESIZE_NEAREST;
    opt.scale[0] = 0.6;
    opt.scale[1] = 2.5;
    EXPECT(bell_resize(T(V(1, 2, 3, 4, 5, 6, 7, 8, 9), 3, 3), BELL_DIMS(1, 7),
                       &opt),
           1, 1, 1, 2, 2, 3, 3);
    opt.antialias = true;
    EXPECT_ERROR(bell_resize(x, BELL_DIMS(3), &opt),
                 "bell_resize: nearest elements without an antialiased form");
    opt.struct_size = 4;
    EXPECT_ERROR(
        bell_resize(x, BELL_DIMS(3), &opt),
        "bell_resize: the options' struct_size is 4, not their size, 40");
}

/* ---- where the greatest are ---- */

static void
test_indices(void **state)
{
    static const struct bell_pool_options two = {.struct_size = sizeof(two),
                                                 .kernel = {2, 2}};
    static const struct bell_pool_options three = {.struct_size = sizeof(three),
                                                   .kernel = {3},
                                                   .stride = {2},
                                                   .padding = {1}};
    struct bell_tensor *v, *at;
    double low = -INFINITY;

    (void)state;
    /* of equal ones the first, of NaN the last, no border */
    bell_max_pool_indices(T(V(5, 5, 1, NAN, NAN, low, low, low, low), 1, 9), 1,
                          &three, &v, &at);
    EXPECT(v, 5, NAN, NAN, low, low);
    EXPECT(at, 0, 3, 4, 5, 7);
    bell_max_pool_indices(I(V(1, 2, 3, 4, 9, 8, 7, 6, 0, 0, 0, 1), 3, 4), 2,
                          &two, &v, &at);
    EXPECT(v, 9, 7);
    EXPECT(at, 4, 6);
    EXPECT(bell_max_unpool(v, at, BELL_DIMS(2, 4)), 0, 0, 0, 0, 9, 0, 7, 0);
    bell_max_pool_indices(noise(-1, 1, BELL_DIMS(2, 3, 4)), 4, &two, &v, &at);
    EXPECT_ERROR(v, "bell_max_pool_indices: 4 axes, not 1 to 3");
    EXPECT_ERROR(
        bell_max_unpool(T(V(1, 2), 2), I(V(0, 4), 2), BELL_DIMS(4)),
        "bell_max_unpool: index 4 is out of bounds for axis 0 of size 4");
    EXPECT_ERROR(
        bell_max_unpool(T(V(1, 2), 2), I(V(0), 1), BELL_DIMS(4)),
        "bell_max_unpool: x of shape (2,) with indices of shape (1,) to 1 "
        "sizes: the shapes must be equal, with an axis for each size");
    EXPECT(bell_max_unpool(T(V(1, 2, 3), 3), hidden(I(V(1, -1, 9), 3)),
                           BELL_DIMS(4)),
           0, 1, 0, 0);
}

/* ---- points and regions ---- */

static void
test_grid(void **state)
{
    struct bell_tensor *x = T(V(1, 2, 3, 4, 5, 6), 1, 1, 2, 3);
    /* x, y: the centre; the left edge; outside */
    struct bell_tensor *g = T(V(0, 0, -1, -0.5, 1.5, 0.5), 1, 1, 3, 2);
    enum bell_resize_mode linear = BELL_RESIZE_LINEAR;

    (void)state;
    EXPECT(bell_grid_sample(x, g, linear, BELL_GRID_ZEROS, false), 3.5, 0.5, 0);
    EXPECT(bell_grid_sample(x, g, linear, BELL_GRID_BORDER, false), 3.5, 1, 6);
    EXPECT(bell_grid_sample(x, g, linear, BELL_GRID_REFLECT, false), 3.5, 1,
           5.75);
    EXPECT(bell_grid_sample(x, g, linear, BELL_GRID_REFLECT, true), 3.5, 1.75,
           4.75);
    EXPECT(bell_grid_sample(x, g, BELL_RESIZE_NEAREST, BELL_GRID_ZEROS, false),
           2, 1, 0);
    EXPECT(bell_grid_sample(bell_unsqueeze(x, 2), T(V(0, 0, 0), 1, 1, 1, 1, 3),
                            linear, BELL_GRID_ZEROS, false),
           3.5);
    /* NaN counts as -1; what is infinitely far is outside */
    EXPECT(bell_grid_sample(
               x, T(V(NAN, NAN, INFINITY, 0, -INFINITY, 1), 1, 1, 3, 2), linear,
               BELL_GRID_ZEROS, true),
           1, 0, 0);
    EXPECT(bell_grid_sample(T(V(1), 1, 1, 1, 1), g, linear, BELL_GRID_REFLECT,
                            true),
           1, 1, 1);
    EXPECT_SHAPE(bell_grid_sample(
                     x, bell_zeros(ctx, BELL_DIMS(1, 0, 3, 2), BELL_FLOAT64),
                     BELL_RESIZE_CUBIC, BELL_GRID_ZEROS, false),
                 1, 1, 0, 3);
    EXPECT_ERROR(
        bell_grid_sample(x, x, linear, BELL_GRID_ZEROS, false),
        "bell_grid_sample: x of shape (1, 1, 2, 3) at a grid of shape (1, 1, "
        "2, 3): expected [n, c, h, w] and [n, .., .., 2], or [n, c, d, h, w] "
        "and [n, .., .., .., 3], and no axis of an image empty");
}

static void
test_regions(void **state)
{
    struct bell_tensor *x = T(V(0, 1, 2, 3, 4, 5, 6, 7, 8), 1, 1, 3, 3);
    struct bell_tensor *box = T(V(0, 0, 0, 2, 2), 1, 5);
    struct bell_tensor *boxes =
        T(V(0, 0, 2, 2, 0, 0, 2, 1.5, 5, 5, 6, 6, 0, 1, 2, 3), 4, 4);

    (void)state;
    /* points in the middle of quarters; as many as there are elements */
    EXPECT(bell_roi_align(x, box, (int64_t[]){2, 2}, 1, 1, false), 2, 3, 5, 6);
    EXPECT(bell_roi_align(x, box, (int64_t[]){1, 1}, 1, 0, false), 4);
    EXPECT(bell_roi_align(x, box, (int64_t[]){1, 1}, 1, 0, true), 2);
    EXPECT(bell_roi_align(x, T(V(0, 9, 9, 11, 11), 1, 5), (int64_t[]){1, 1}, 1,
                          2, false),
           0);
    EXPECT_ERROR(bell_roi_align(x, boxes, (int64_t[]){1, 1}, 1, 2, false),
                 "bell_roi_align: x of shape (1, 1, 3, 3), boxes of shape (4, "
                 "4), not [n, c, h, w] and [k, 5]");
    /* overlaps with the first: 0.75, 0, 1 / 3 */
    EXPECT(bell_nms(boxes, T(V(3, 2, 1, 3), 4), 0.5), 0, 3, 2);
    EXPECT(bell_nms(boxes, T(V(3, 2, 1, 3), 4), 0.75), 0, 3, 1, 2);
    EXPECT(bell_nms(boxes, T(V(1, 2, NAN, 0), 4), 0.1), 2, 1);
    EXPECT_SHAPE(bell_nms(bell_zeros(ctx, BELL_DIMS(0, 4), BELL_FLOAT32),
                          bell_zeros(ctx, BELL_DIMS(0), BELL_FLOAT32), 0.5),
                 0);
    EXPECT_ERROR(bell_nms(boxes, T(V(1), 1), 0.5),
                 "bell_nms: boxes of shape (4, 4), scores of shape (1,), not "
                 "[k, 4] and [k]");
}

int
main(void)
{
#define TEST(name)                                                             \
    cmocka_unit_test_setup_teardown(name, make_context, end_context)
    const struct CMUnitTest tests[] = {
        TEST(test_deep),    TEST(test_pools), TEST(test_adaptive),
        TEST(test_borders), TEST(test_sizes), TEST(test_resize),
        TEST(test_indices), TEST(test_grid),  TEST(test_regions),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
