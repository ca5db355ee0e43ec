/* Factors of matrices, and what is solved with them.
 *
 * A matrix is the last two axes of a tensor; the axes before are a batch, and
 * of two tensors they broadcast. Halves are computed in float32, integers
 * become float32. Nothing is read: a matrix that has no result is no error, but
 * gives infinities and NaN, in its own part of the result alone. Sizes are
 * bounded: the number of kernels grows with them. docs/linalg.md has both.
 *
 * Gradients follow, of any order, where the result is a function of the matrix:
 * of bell_qr with independent columns, of bell_svd with singular values that
 * differ. Elsewhere they are infinities and NaN.
 */
#ifndef BELL_DOORBELL_LINALG_H
#define BELL_DOORBELL_LINALG_H

#include "doorbell/tensor.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Greatest numbers of rows and columns. */
#define BELL_MAX_MATRIX   1024
#define BELL_MAX_SINGULAR 32 /* bell_svd: of the lesser of both */

/* The lower triangular L (upper: its transpose) with L @ L^T = x, of x's lower
 * (upper) triangle; the other is not read. NaN from the first column on that
 * says that x is not positive definite. */
BELL_API struct bell_tensor *bell_cholesky(struct bell_tensor *x, bool upper);

/* X of triangle @ X = b; with `upper` of its upper triangle, else of its lower
 * one. The other is not read, nor is the diagonal where it is `unit`: 1. */
BELL_API struct bell_tensor *bell_solve_triangular(struct bell_tensor *triangle,
                                                   struct bell_tensor *b,
                                                   bool upper, bool unit);

/* X of x @ X = b. A b of rank 1, or of x's shape without the last axis, is of
 * vectors, and so is X then. By bell_qr's reflections: no pivots. */
BELL_API struct bell_tensor *bell_solve(struct bell_tensor *x,
                                        struct bell_tensor *b);
/* The inverse: bell_solve of the unit matrix. */
BELL_API struct bell_tensor *bell_inv(struct bell_tensor *x);
/* The determinant, one number for each matrix. */
BELL_API struct bell_tensor *bell_det(struct bell_tensor *x);

/* x (m, n) = Q @ R, where k is the lesser of m and n: Q (m, k), of orthonormal
 * columns, and R (k, n), upper triangular, with LAPACK's signs. */
BELL_API void bell_qr(struct bell_tensor *x, struct bell_tensor **out_q,
                      struct bell_tensor **out_r);
/* x (m, n) = U @ diag(S) @ VH, where k is the lesser of m and n: U (m, k) of
 * orthonormal columns, S (k) falling, VH (k, n) of orthonormal rows. Which of
 * both signs a column of U and its row of VH have is not said. */
BELL_API void bell_svd(struct bell_tensor *x, struct bell_tensor **out_u,
                       struct bell_tensor **out_s, struct bell_tensor **out_vh);

#ifdef __cplusplus
}
#endif
#endif
