/* The function table: factors of matrices, Fourier transforms. */
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
    bell_svd(A[0].t, &args->call->results[0], &args->call->results[1],
             &args->call->results[2]);
    args->call->n_results = 3;
    return NULL;
}

#define X       "input: tensor"
#define MATRIX  "Matrices"
#define FFT     "Fourier transforms"
#define FOURIER X ", n: int = None, dim: int = -1, norm: str = 'backward'"

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
    {{"svd", X, "U, S and Vh of U @ diag(S) @ Vh = input, as torch.linalg.svd "
      "without full_matrices", MATRIX, true}, .glue = call_svd},

    {{"fft", FOURIER, "Fourier transform of pairs (real, imaginary): the last "
      "axis, which dim does not count", FFT}, FN(tiae, bell_fft)},
    {{"ifft", FOURIER, "its inverse", FFT}, FN(tiae, bell_ifft)},
    {{"rfft", FOURIER, "the first n / 2 + 1 pairs of the transform of real "
      "numbers", FFT}, FN(tiae, bell_rfft)},
    {{"irfft", FOURIER, "its inverse: n real numbers", FFT},
     FN(tiae, bell_irfft)},
};
/* clang-format on */

const struct fn_table fn_table_linalg = {rows, ARRAY_LEN(rows)};
