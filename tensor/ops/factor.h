/* Factors of batches of matrices, on nodes. Shared by the files of tensor/
 * only. Nodes are (batch, rows, columns), of float32 or float64.
 *
 * Work that goes from column to column is one kernel for each, or for each few
 * of them; where that can be, it is the same kernel again.
 */
#ifndef BELL_TENSOR_OPS_FACTOR_H
#define BELL_TENSOR_OPS_FACTOR_H

#include "tensor/core/node.h"

/* Where the column is the row's number and `first` more: (1, rows, columns). */
const struct uop *tn_is_diagonal(struct bell_context *ctx, int64_t rows,
                                 int64_t columns, int64_t first);

/* Unit matrices (batch, n, n) of a's dtype, one for each of a's. */
const struct uop *tn_unit_matrix(struct bell_context *ctx, const struct uop *a,
                                 int64_t n);

/* The power of two that is no more than a matrix's greatest magnitude, and more
 * than half of it: (batch, 1, 1); 1 of zeros and of what is all but zero. */
const struct uop *tn_scale(struct bell_context *ctx, const struct uop *a);

/* Householder's: what reflections that make a (m, n), m >= n, upper triangular
 * make of a and b (m, p). */
struct tn_reflected {
    const struct uop *r;    /* (batch, n, n), zeros below the diagonal */
    const struct uop *b;    /* (batch, m, p) */
    const struct uop *sign; /* (batch, 1, 1): the reflections' determinant */
};
struct tn_reflected tn_reflect(struct bell_context *ctx, const struct uop *a,
                               const struct uop *b);

/* a (m, n) = q (m, n) @ r (n, n), m >= n; `full`: q (m, m), of which these are
 * the first columns. */
struct tn_factors {
    const struct uop *q, *r;
};
struct tn_factors tn_qr(struct bell_context *ctx, const struct uop *a,
                        bool full);

/* L of a = L L^T, from a's lower triangle; zeros above. NaN from the first
 * column on that is not positive definite. */
const struct uop *tn_cholesky(struct bell_context *ctx, const struct uop *a);

/* x of t x = y, where t is lower triangular; what is above its diagonal is not
 * read. */
const struct uop *tn_substitute(struct bell_context *ctx, const struct uop *t,
                                const struct uop *y);

/* a (m, n) = u diag(s) v^T, m >= n: u (m, n), s (batch, 1, n) descending,
 * v (n, n); `full`: u (m, m), of which these are the first columns. */
struct tn_singular {
    const struct uop *u, *s, *v;
};
struct tn_singular tn_svd(struct bell_context *ctx, const struct uop *a,
                          bool full);

/* a = v diag(values) v^T, a symmetric: values (batch, 1, n) ascending,
 * v (n, n) of orthonormal columns. */
struct tn_eigen {
    const struct uop *values, *v;
};
struct tn_eigen tn_eigh(struct bell_context *ctx, const struct uop *a);

#endif
