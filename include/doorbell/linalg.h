/* Factors of matrices, and what is solved with them.
 *
 * A matrix is the last two axes of a tensor; the axes before are a batch, and
 * of two tensors they broadcast. Halves are computed in float32, integers
 * become float32. Nothing is read: a matrix that has no result is no error, but
 * gives infinities and NaN, in its own part of the result alone. Sizes are
 * bounded: the number of kernels grows with them. docs/reference/linalg.md has
 * both.
 *
 * Gradients follow, of any order, where the result is a function of the matrix:
 * bell_qr with independent columns, and the vectors of bell_svd and bell_eigh
 * with values that differ. Singular values and eigenvalues always have one.
 * Elsewhere gradients are infinities and NaN. Those of symmetric matrices are
 * symmetric.
 */
#ifndef BELL_DOORBELL_LINALG_H
#define BELL_DOORBELL_LINALG_H

#include "doorbell/tensor.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The greatest number of rows and of columns. */
#define BELL_MAX_MATRIX 1024

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
/* The determinant, one number for each matrix. Its gradient is the matrix of
 * cofactors, also for a singular matrix; second gradients need a regular one. */
BELL_API struct bell_tensor *bell_det(struct bell_tensor *x);
/* Its sign (1, -1, 0) and the logarithm of its magnitude; a singular matrix has 0
 * and -infinity. The logarithm's gradient is the transposed inverse; the sign
 * has none. */
BELL_API void bell_slogdet(struct bell_tensor *x, struct bell_tensor **out_sign,
                           struct bell_tensor **out_log);

/* x (m, n) = Q @ R, where k is the lesser of m and n: Q (m, k), of orthonormal
 * columns, and R (k, n), upper triangular, with LAPACK's signs. */
BELL_API void bell_qr(struct bell_tensor *x, struct bell_tensor **out_q,
                      struct bell_tensor **out_r);
/* x (m, n) = U @ diag(S) @ VH, where k is the lesser of m and n: U (m, k) of
 * orthonormal columns, S (k) falling, VH (k, n) of orthonormal rows. Which of
 * both signs a column of U and its row of VH have is not said. */
BELL_API void bell_svd(struct bell_tensor *x, struct bell_tensor **out_u,
                       struct bell_tensor **out_s, struct bell_tensor **out_vh);
/* The same with square U (m, m) and VH (n, n). The additional columns and rows
 * have no gradient. */
BELL_API void bell_svd_full(struct bell_tensor *x, struct bell_tensor **out_u,
                            struct bell_tensor **out_s,
                            struct bell_tensor **out_vh);
/* The singular values alone, (k), falling. */
BELL_API struct bell_tensor *bell_svdvals(struct bell_tensor *x);

/* The eigenvalues (n), ascending, and orthonormal eigenvectors V (n, n) of a
 * symmetric x = V @ diag(values) @ V^T. The signs of V's columns are unspecified.
 * Reads the lower triangle of x, or with `upper` the upper one. */
BELL_API void bell_eigh(struct bell_tensor *x, bool upper,
                        struct bell_tensor **out_values,
                        struct bell_tensor **out_v);
/* The values alone. */
BELL_API struct bell_tensor *bell_eigvalsh(struct bell_tensor *x, bool upper);

/* The pseudo-inverse (n, m) of x (m, n). Singular values that are at most rtol
 * times the greatest count as 0; with rtol < 0 rtol is the greater of m and n
 * times the dtype's epsilon (of float32 for halves). `hermitian`: x is
 * symmetric, of which the lower triangle is read, and eigenvalues take the place
 * of singular values. The gradient is that of a constant rank. */
BELL_API struct bell_tensor *bell_pinv(struct bell_tensor *x, double rtol,
                                       bool hermitian);
/* How many singular values are greater than rtol times the greatest, int64; rtol
 * and `hermitian` as of bell_pinv. */
BELL_API struct bell_tensor *bell_matrix_rank(struct bell_tensor *x,
                                              double rtol, bool hermitian);

#ifdef __cplusplus
}
#endif
#endif
