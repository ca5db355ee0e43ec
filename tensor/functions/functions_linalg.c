/* The function table: factors of matrices, Fourier transforms. */
#include <string.h>

#include "base/bits.h"
#include "doorbell/fft.h"
#include "doorbell/linalg.h"
#include "tensor/functions/functions_internal.h"

#define A args->a

static struct bell_tensor *
call_qr(struct fn_args *args)
{
    bell_qr(A[0].t, &args->call->results[0], &args->call->results[1]);
    args->call->n_results = 2;
    return NULL;
}

static struct bell_tensor *
call_svd(struct fn_args *args)
{
    (A[1].b ? bell_svd_full : bell_svd)(A[0].t, &args->call->results[0],
                                        &args->call->results[1],
                                        &args->call->results[2]);
    args->call->n_results = 3;
    return NULL;
}

static struct bell_tensor *
call_slogdet(struct fn_args *args)
{
    bell_slogdet(A[0].t, &args->call->results[0], &args->call->results[1]);
    args->call->n_results = 2;
    return NULL;
}

/* Sets *upper to what parameter 1, 'L' or 'U', says; false after telling. */
static bool
take_triangle(struct fn_args *args, bool *upper)
{
    const char *text = A[1].str;

    *upper = text[0] == 'U' || text[0] == 'u';
    if (text[0] && !text[1] && strchr("ULul", text[0]))
        return true;
    fn_fail(args, "UPLO must be 'L' or 'U', got '%s'", text);
    return false;
}

static struct bell_tensor *
call_eigh(struct fn_args *args)
{
    bool upper;

    if (!take_triangle(args, &upper))
        return bell_error_tensor(args->ctx);
    bell_eigh(A[0].t, upper, &args->call->results[0], &args->call->results[1]);
    args->call->n_results = 2;
    return NULL;
}

static struct bell_tensor *
call_eigvalsh(struct fn_args *args)
{
    bool upper;

    if (!take_triangle(args, &upper))
        return bell_error_tensor(args->ctx);
    return bell_eigvalsh(A[0].t, upper);
}

static struct bell_tensor *
call_pinv(struct fn_args *args)
{
    return bell_pinv(A[0].t, A[1].given ? A[1].f : -1, A[2].b);
}

static struct bell_tensor *
call_matrix_rank(struct fn_args *args)
{
    return bell_matrix_rank(A[0].t, A[1].given ? A[1].f : -1, A[2].b);
}

/* 0 means "default" to the API: a number that is given is checked here. */
static bool
is_absent_or_positive(struct fn_args *args, uint32_t k)
{
    if (!A[k].given || A[k].i > 0)
        return true;
    fn_fail(args, "%s %lld is not positive", args->params->list[k].name,
            (long long)A[k].i);
    return false;
}

/* input, n, dim, norm */
static struct bell_tensor *
call_fft(struct fn_args *args)
{
    return is_absent_or_positive(args, 1) ? fn_forward(args)
                                          : bell_error_tensor(args->ctx);
}

/* The options that both have, from parameter 1 on: n_fft, hop_length,
 * win_length, window, center, normalized, onesided. False after a failure. */
static bool
take_stft_options(struct fn_args *args, struct bell_stft_options *out)
{
    *out = (struct bell_stft_options){.struct_size = sizeof(*out),
                                      .hop_length = A[2].i,
                                      .win_length = A[3].i,
                                      .window = A[4].t,
                                      .not_centered = !A[5].b,
                                      .normalized = A[6].b,
                                      .two_sided = !A[7].b};
    return is_absent_or_positive(args, 2) && is_absent_or_positive(args, 3);
}

static struct bell_tensor *
call_stft(struct fn_args *args)
{
    struct bell_stft_options options;

    if (!take_stft_options(args, &options))
        return bell_error_tensor(args->ctx);
    return bell_stft(A[0].t, A[1].i, &options);
}

static struct bell_tensor *
call_istft(struct fn_args *args)
{
    struct bell_stft_options options;

    if (!take_stft_options(args, &options) || !is_absent_or_positive(args, 8))
        return bell_error_tensor(args->ctx);
    return bell_istft(A[0].t, A[1].i, A[8].i, &options);
}

#define X       "input: tensor"
#define MATRIX  "Matrices"
#define FFT     "Fourier transforms"
#define FOURIER X ", n: int = None, dim: int = -1, norm: str = 'backward'"
#define WINDOWS                                                                \
    X ", n_fft: int, hop_length: int = None, win_length: int = None, "         \
      "window: tensor = None, center: bool = True, "                           \
      "normalized: bool = False, onesided: bool = True"

/* clang-format off */
static const struct fn_row rows[] = {
    {{"cholesky", X ", upper: bool = False",
      "triangular L with L @ L^T = input (upper: U^T @ U)", MATRIX},
     FN(tb, bell_cholesky)},
    {{"solve", X ", B: tensor", "X of input @ X = B", MATRIX},
     FN(tt, bell_solve)},
    {{"solve_triangular",
      X ", B: tensor, upper: bool, unitriangular: bool = False",
      "the same of a triangular input", MATRIX},
     FN(ttbb, bell_solve_triangular)},
    {{"inv", X, "inverse", MATRIX}, FN(t, bell_inv), .aliases = "inverse"},
    {{"det", X, "determinant", MATRIX}, FN(t, bell_det)},
    {{"qr", X, "orthonormal columns Q and upper triangular R with Q @ R = "
      "input; the reduced form", MATRIX, true}, .glue = call_qr},
    {{"svd", X ", full_matrices: bool = False", "U, S and Vh of U @ diag(S) @ "
      "Vh = input, as torch.linalg.svd", MATRIX, true}, .glue = call_svd},
    {{"svdvals", X, "S alone", MATRIX}, FN(t, bell_svdvals)},
    {{"eigh", X ", UPLO: str = 'L'", "ascending eigenvalues, and V of V @ "
      "diag(values) @ V^T = input, which is symmetric; one triangle is read",
      MATRIX, true}, .glue = call_eigh},
    {{"eigvalsh", X ", UPLO: str = 'L'", "the eigenvalues alone", MATRIX},
     .glue = call_eigvalsh},
    {{"slogdet", X, "the determinant's sign, and the logarithm of its magnitude",
      MATRIX, true}, .glue = call_slogdet},
    {{"pinv", X ", rtol: float = None, hermitian: bool = False",
      "pseudo-inverse", MATRIX}, .glue = call_pinv},
    {{"matrix_rank", X ", rtol: float = None, hermitian: bool = False",
      "how many singular values are above rtol times the greatest", MATRIX},
     .glue = call_matrix_rank},

    {{"fft", FOURIER, "Fourier transform of pairs (real, imaginary): the last "
      "axis, which dim does not count", FFT}, FN(tiae, bell_fft), .glue = call_fft},
    {{"ifft", FOURIER, "its inverse", FFT}, FN(tiae, bell_ifft), .glue = call_fft},
    {{"rfft", FOURIER, "the first n / 2 + 1 pairs of the transform of real "
      "numbers", FFT}, FN(tiae, bell_rfft), .glue = call_fft},
    {{"irfft", FOURIER, "its inverse: n real numbers", FFT},
     FN(tiae, bell_irfft), .glue = call_fft},
    {{"stft", WINDOWS, "transforms of windows of real numbers, mirrored at the "
      "ends if center", FFT}, .glue = call_stft},
    {{"istft", WINDOWS ", length: int = None", "its inverse, by least squares",
      FFT}, .glue = call_istft},
};
/* clang-format on */

const struct fn_table fn_table_linalg = {rows, ARRAY_LEN(rows)};
