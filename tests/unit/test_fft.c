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
        cmocka_unit_test_setup_teardown(test_refused, make_context,
                                        end_context),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
