/* Fourier transforms against sums in the test's own words. */
#include "doorbell/fft.h"
#include "tests/unit/tensor_host.h"

#define MAX 4096

static double in[2 * MAX], out[2 * MAX];
static uint64_t state_of_noise;

static double
number(void)
{
    state_of_noise =
        state_of_noise * 6364136223846793005u + 1442695040888963407u;
    return (double)(int64_t)state_of_noise * 0x1p-63;
}

/* rows x n pairs of in[] to out[]; angles are reduced as integers. */
static void
dft(int64_t rows, int64_t n, int sign, double scale)
{
    int64_t r, k, j;

    for (r = 0; r < rows; r++) {
        for (k = 0; k < n; k++) {
            long double re = 0, im = 0;
            for (j = 0; j < n; j++) {
                long double a = sign * 6.28318530717958647692528676656L *
                                (long double)(j * k % n) / (long double)n;
                const double *x = &in[2 * (r * n + j)];

                re += x[0] * cosl(a) - x[1] * sinl(a);
                im += x[0] * sinl(a) + x[1] * cosl(a);
            }
            out[2 * (r * n + k)] = (double)(re * scale);
            out[2 * (r * n + k) + 1] = (double)(im * scale);
        }
    }
}

static void
fill(int64_t n)
{
    int64_t i;

    for (i = 0; i < 2 * n; i++)
        in[i] = number();
}

/* Small, all primes and powers; of two radices; primes beyond a product
 * (Bluestein), and such factors. */
static const int64_t lengths[] = {1,   2,   3,   4,   5,   7,    8,   12,  16,
                                  31,  64,  65,  96,  100, 127,  128, 143, 251,
                                  257, 263, 360, 514, 521, 1000, 1024};

/* One length of each kind remains. */
static bool
is_skipped(int64_t n)
{
    return n != 1 && n != 5 && n != 12 && n != 65 && n != 127;
}

static void
check(struct bell_tensor *t, int64_t n_values, double eps)
{
    expect_values(__FILE__, __LINE__, t, out, (size_t)n_values, eps);
}

static void
test_complex(void **state)
{
    size_t i;

    (void)state;
    for (i = 0; i < ARRAY_LEN(lengths); i++) {
        int64_t n = lengths[i], rows = n > 256 ? 1 : 3;
        double eps = 3e-14 * sqrt((double)n);
        struct bell_tensor *x;

        if (is_slow_device() && is_skipped(n))
            continue;
        assert_int_equal(bell_scope_begin(ctx), BELL_OK);
        fill(rows * n);
        x = tensor_of(in, BELL_DIMS(rows, n, 2));
        dft(rows, n, -1, 1);
        check(bell_fft(x, 0, -1, NULL), 2 * rows * n, eps);
        dft(rows, n, 1, 1 / (double)n);
        check(bell_ifft(x, 0, -1, "backward"), 2 * rows * n, eps);
        assert_int_equal(bell_scope_end(ctx), BELL_OK);
    }
}

static void
test_real(void **state)
{
    double halves[2 * MAX];
    size_t i;
    int64_t j;

    (void)state;
    for (i = 0; i < ARRAY_LEN(lengths); i++) {
        int64_t n = lengths[i], half = n / 2 + 1;
        double eps = 3e-14 * sqrt((double)n), reals[MAX];
        struct bell_tensor *x, *y;

        if (is_slow_device() && is_skipped(n))
            continue;
        assert_int_equal(bell_scope_begin(ctx), BELL_OK);
        fill(n);
        for (j = 0; j < n; j++) {
            reals[j] = in[2 * j];
            in[2 * j + 1] = 0;
        }
        x = tensor_of(reals, BELL_DIMS(n));
        dft(1, n, -1, 1);
        memcpy(halves, out, sizeof(halves));
        y = bell_rfft(x, 0, 0, NULL);
        EXPECT_SHAPE(y, half, 2);
        check(y, 2 * half, eps);
        memcpy(out, reals, sizeof(reals));
        check(bell_irfft(bell_rfft(x, 0, -1, NULL), n, -1, NULL), n, eps);
        check(bell_irfft(tensor_of(halves, BELL_DIMS(half, 2)), n, 0, NULL), n,
              eps);
        assert_int_equal(bell_scope_end(ctx), BELL_OK);
    }
}

/* Axes before the last, lengths cut and filled, norms. */
static void
test_arguments(void **state)
{
    struct bell_tensor *x;

    (void)state;
    /* numpy.fft.fft([1 + 2j, 3 - 1j, 0.5], n, norm=...) */
    x = T(V(1, 2, 3, -1, 0.5, 0), 3, 2);
    EXPECT_NEAR(bell_fft(x, 2, 0, NULL), 1e-14, 4, 1, -2, 3);
    EXPECT_NEAR(bell_fft(x, 4, 0, NULL), 1e-14, 4.5, 1, -0.5, -1, -1.5, 3, 1.5,
                5);
    EXPECT_NEAR(bell_fft(x, 4, 0, "ortho"), 1e-14, 2.25, 0.5, -0.25, -0.5,
                -0.75, 1.5, 0.75, 2.5);
    EXPECT_NEAR(bell_fft(x, 4, 0, "forward"), 1e-14, 1.125, 0.25, -0.125, -0.25,
                -0.375, 0.75, 0.375, 1.25);
    EXPECT_NEAR(bell_ifft(x, 2, 0, "forward"), 1e-14, 4, 1, -2, 3);
    EXPECT_NEAR(bell_ifft(x, 2, 0, NULL), 1e-14, 2, 0.5, -1, 1.5);
    /* imaginary parts of the ends count for nothing */
    x = T(V(1, 7, 2, 1, 3, 7), 3, 2);
    EXPECT_NEAR(bell_irfft(x, 0, -1, NULL), 1e-14, 2, -1, 0, 0);
    /* the first axis of two: columns (1, 3), (2, 4) */
    x = T(V(1, 2, 3, 4), 2, 2);
    EXPECT_NEAR(bell_rfft(x, 0, 0, NULL), 1e-14, 4, 0, 6, 0, -2, 0, -2, 0);
    EXPECT_NEAR(bell_rfft(I(V(1, 2, 3), 3), 0, 0, NULL), 1e-6, 6, 0, -1.5,
                0.86602540378443865);
    x = bell_zeros(ctx, BELL_DIMS(0, 5, 2), BELL_FLOAT64);
    EXPECT_SHAPE(bell_fft(x, 0, 1, NULL), 0, 5, 2);
    EXPECT_SHAPE(bell_irfft(x, 0, 1, NULL), 0, 8);
}

/* The gradient of sum(w * F x) is F^T w. */
static void
test_gradient(void **state)
{
    static const int64_t few[] = {6, 96, 257};
    size_t i;

    (void)state;
    for (i = 0; i < ARRAY_LEN(few); i++) {
        int64_t n = few[i], j;
        struct bell_tensor *w, *x, *g;
        double weights[2 * MAX];

        fill(n);
        x = tensor_of(in, BELL_DIMS(n, 2));
        fill(n);
        memcpy(weights, in, sizeof(weights));
        w = tensor_of(in, BELL_DIMS(n, 2));
        assert_int_equal(
            bell_gradient(bell_sum(bell_mul(w, bell_fft(x, 0, 0, NULL)),
                                   BELL_NO_DIMS, false),
                          &x, 1, &g),
            BELL_OK);
        dft(1, n, 1, 1); /* F is symmetric: its adjoint is the conjugate */
        check(g, 2 * n, 1e-12);
        for (j = 0; j < n; j++) /* the same of irfft(rfft(x)): x */
            out[j] = weights[j];
        x = tensor_of(in, BELL_DIMS(n));
        w = tensor_of(weights, BELL_DIMS(n));
        g = bell_irfft(bell_rfft(x, 0, 0, NULL), n, 0, NULL);
        assert_int_equal(
            bell_gradient(bell_sum(bell_mul(w, g), BELL_NO_DIMS, false), &x, 1,
                          &g),
            BELL_OK);
        check(g, n, 1e-12);
    }
}

static void
test_refused(void **state)
{
    struct bell_tensor *x = T(V(1, 2, 3), 3), *y = T(V(1, 2), 1, 2);

    (void)state;
    EXPECT_ERROR(bell_fft(x, 0, 0, NULL),
                 "bell_fft: (3,): the last axis of complex numbers is 2, real "
                 "and imaginary part");
    EXPECT_ERROR(bell_ifft(T(V(1, 2), 2), 0, 0, NULL),
                 "bell_ifft: (2,): no axis to transform");
    EXPECT_ERROR(bell_rfft(x, -4, 0, NULL),
                 "bell_rfft: (3,): a transform of -4 numbers; 1 to 1073741824 "
                 "are possible");
    EXPECT_ERROR(bell_irfft(y, 0, 0, NULL),
                 "bell_irfft: (1, 2): a transform of 0 numbers; 1 to "
                 "1073741824 are possible");
    EXPECT_ERROR(bell_fft(y, 0, 0, "euclid"),
                 "bell_fft: norm 'euclid'; backward, forward and ortho are "
                 "known");
    assert_ptr_equal(bell_fft(y, 0, 1, NULL), bell_error_tensor(ctx));
    assert_int_equal(bell_context_status(ctx), BELL_E_INVALID);
}

/* ---- windows ---- */

/* out[] of n samples in in[] (reals) as bell_stft has them; how many
 * numbers. */
static int64_t
stft_of(int64_t n, int64_t n_fft, int64_t hop, const double *window,
        int64_t win_length, const struct bell_stft_options *o)
{
    int64_t margin = o->not_centered ? 0 : n_fft / 2, w, k, j;
    int64_t n_bins = o->two_sided ? n_fft : n_fft / 2 + 1;
    int64_t n_frames = 1 + (n + 2 * margin - n_fft) / hop;
    int64_t begin = (n_fft - win_length) / 2;

    for (w = 0; w < n_frames; w++) {
        for (k = 0; k < n_bins; k++) {
            double re = 0, im = 0, *to = &out[2 * (k * n_frames + w)];
            for (j = 0; j < win_length; j++) {
                int64_t at = w * hop + begin + j - margin;
                double a = -2 * 3.14159265358979323846 *
                           (double)(k * (begin + j) % n_fft) / (double)n_fft;
                at = at < 0 ? -at : at;
                at = at >= n ? 2 * (n - 1) - at : at;
                re += in[at] * window[j] * cos(a);
                im += in[at] * window[j] * sin(a);
            }
            to[0] = re / (o->normalized ? sqrt((double)n_fft) : 1);
            to[1] = im / (o->normalized ? sqrt((double)n_fft) : 1);
        }
    }
    return 2 * n_bins * n_frames;
}

static void
test_stft(void **state)
{
    /* samples, n_fft, hop_length, win_length */
    static const int64_t rows[][4] = {
        {9, 4, 0, 0}, {20, 8, 3, 0},     {20, 8, 8, 5}, {31, 5, 2, 4},
        {7, 1, 1, 0}, {200, 64, 16, 50}, {12, 2, 5, 1}};
    double window[64];
    size_t i;
    int k;

    (void)state;
    for (i = 0; i < 8 * ARRAY_LEN(rows); i++) {
        const int64_t *r = rows[i / 8];
        int64_t length = r[3] ? r[3] : r[1], hop = r[2] ? r[2] : r[1] / 4;
        struct bell_stft_options o = {.struct_size = sizeof(o),
                                      .hop_length = r[2],
                                      .win_length = r[3],
                                      .not_centered = i & 1,
                                      .normalized = i & 2,
                                      .two_sided = i & 4};
        struct bell_tensor *x, *y, *g;
        int64_t n_values, n_frames;
        double sum;

        if (is_slow_device() && i % 9)
            continue;
        assert_int_equal(bell_scope_begin(ctx), BELL_OK);
        fill(r[0]);
        for (k = 0; k < length; k++)
            window[k] = i % 3 ? 1 : 0.6 + 0.4 * number();
        x = tensor_of(in, BELL_DIMS(r[0]));
        if (i % 3 == 0)
            o.window = tensor_of(window, BELL_DIMS(length));
        y = bell_stft(x, r[1], &o);
        /* the sum of squares is half of what its gradient makes of x */
        assert_int_equal(
            bell_gradient(bell_sum(bell_mul(y, y), BELL_NO_DIMS, false), &x, 1,
                          &g),
            BELL_OK);
        assert_int_equal(
            bell_item_f64(bell_sum(bell_mul(y, y), BELL_NO_DIMS, false), &sum),
            BELL_OK);
        n_values = stft_of(r[0], r[1], hop, window, length, &o);
        n_frames = bell_size(y, 1);
        EXPECT_SHAPE(y, o.two_sided ? r[1] : r[1] / 2 + 1, n_frames, 2);
        check(y, n_values, 1e-12);
        EXPECT_NEAR(bell_sum(bell_mul(g, x), BELL_NO_DIMS, false), 1e-10,
                    2 * sum);
        /* and back, as far as windows reach */
        if (hop <= length && (!o.not_centered || length == r[1])) {
            int64_t n = r[1] + hop * (n_frames - 1) -
                        2 * (o.not_centered ? 0 : r[1] / 2);
            memcpy(out, in, (size_t)r[0] * sizeof(*out));
            check(bell_narrow(bell_istft(y, r[1], 0, &o), 0, 0,
                              n < r[0] ? n : r[0]),
                  n < r[0] ? n : r[0], 1e-11);
        }
        assert_int_equal(bell_scope_end(ctx), BELL_OK);
    }
}

/* torch.stft and torch.istft, of values that are not the inverse of
 * anything. */
static void
test_stft_torch(void **state)
{
    struct bell_stft_options o = {.struct_size = sizeof(o), .hop_length = 2};
    struct bell_tensor *x = T(V(1, 2, -1, 0.5, 3, -2, 0, 1), 8), *y;

    (void)state;
    o.window = T(V(0.25, 1, 1, 0.25), 4);
    EXPECT_NEAR(bell_stft(x, 4, &o), 1e-14, 3.25, 0.0, 1.375, 0.0, 2.75, 0.0,
                -1.0, 0.0, 0.5, 0.0, -1.25, -1.5, 1.25, -1.875, -3.25, -1.0,
                0.75, 2.25, 0.0, -1.5, -1.75, 0.0, -2.875, 0.0, 2.75, 0.0, 2.5,
                0.0, -0.5, 0.0);
    y = T(V(1, 2, -1, 0.5, 3, -2, 0, 1, 4, 2, -3, 1), 3, 2, 2);
    EXPECT_NEAR(bell_istft(y, 4, 0, &o), 1e-14, -0.47058823529411764,
                -0.4117647058823529);
    EXPECT_NEAR(bell_istft(y, 4, 3, &o), 1e-14, -0.47058823529411764,
                -0.4117647058823529, -1.0);
    o.not_centered = true;
    EXPECT_NEAR(bell_istft(y, 4, 8, &o), 1e-14, 11.0, 0.25,
                -0.47058823529411764, -0.4117647058823529, -1.0, 4.0, 0.0, 0.0);
    x = bell_zeros(ctx, BELL_DIMS(2, 0, 8), BELL_FLOAT32);
    EXPECT_SHAPE(bell_stft(x, 4, NULL), 2, 0, 3, 9, 2);
    EXPECT_SHAPE(bell_istft(bell_stft(x, 4, NULL), 4, 0, NULL), 2, 0, 8);
}

static void
test_stft_refused(void **state)
{
    struct bell_stft_options o = {.struct_size = sizeof(o), .win_length = 5};
    struct bell_tensor *x = T(V(1, 2, 3), 3);

    (void)state;
    EXPECT_ERROR(bell_stft(x, 8, NULL),
                 "bell_stft: (3,): too short for transforms of 8");
    EXPECT_ERROR(bell_stft(x, 4, &o),
                 "bell_stft: windows of 5 in transforms of 4, every 1: "
                 "expected 1 <= win_length <= n_fft, and hop_length from 1");
    o.win_length = 0;
    o.window = x;
    EXPECT_ERROR(bell_stft(x, 4, &o), "bell_stft: a window of shape (3,), (4,) "
                                      "is needed");
    EXPECT_ERROR(bell_istft(x, 4, 0, NULL), "bell_istft: (3,): too few axes");
    EXPECT_ERROR(bell_istft(bell_zeros(ctx, BELL_DIMS(4, 2, 2), BELL_FLOAT32),
                            4, 0, NULL),
                 "bell_istft: (4, 2, 2): (.., 3, frames, 2) are needed for "
                 "transforms of 4");
    EXPECT_ERROR(
        bell_istft(bell_zeros(ctx, BELL_DIMS(3, 1, 2), BELL_FLOAT32), 4, 0,
                   NULL),
        "bell_istft: (3, 1, 2): a result of 0 samples; expected 1 or more");
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_complex, make_context,
                                        end_context),
        cmocka_unit_test_setup_teardown(test_real, make_context, end_context),
        cmocka_unit_test_setup_teardown(test_arguments, make_context,
                                        end_context),
        cmocka_unit_test_setup_teardown(test_gradient, make_context,
                                        end_context),
        cmocka_unit_test_setup_teardown(test_stft, make_context, end_context),
        cmocka_unit_test_setup_teardown(test_stft_torch, make_context,
                                        end_context),
        cmocka_unit_test_setup_teardown(test_stft_refused, make_context,
                                        end_context),
        cmocka_unit_test_setup_teardown(test_refused, make_context,
                                        end_context),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
