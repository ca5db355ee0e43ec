/* Shared by the files factor*.c: parts of factors. Nodes are as in factor.h. */
#ifndef BELL_TENSOR_OPS_FACTOR_INTERNAL_H
#define BELL_TENSOR_OPS_FACTOR_INTERNAL_H

#include "tensor/ops/factor.h"

/* The most columns that are done without blocks: by tn_cholesky and
 * tn_substitute, by tn_reflect and tn_qr. */
#define FACTOR_MAX_TRIANGLE  128
#define FACTOR_MAX_REFLECTED 64

/* Columns that a kernel of Cholesky's does: each thread does again what they
 * have in common. */
#define CHOLESKY_COLUMNS 4

/* Where along axis `axis` of n the number is less than `end`: of rank 3. */
const struct uop *tn_is_before(struct bell_context *ctx, uint32_t axis,
                               int64_t n, int64_t end);

/* Columns from, from + 1, ... of t (m, n), m >= n, whose first n rows are the
 * square part: finished, and taken off the others. */
const struct uop *tn_cholesky_step(struct bell_context *ctx,
                                   const struct uop *t, int64_t from);
/* The v of the reflections that make a (m, n), m >= n, upper triangular, below
 * ones on the diagonal; a column of zeros: there is none. *out_sign
 * (batch, 1, 1): their determinant. */
const struct uop *tn_reflect_block(struct bell_context *ctx,
                                   const struct uop *a,
                                   const struct uop **out_sign);

/* factor_blocks.c: tn_cholesky, tn_substitute, tn_reflect of square matrices,
 * and tn_qr. */
const struct uop *tn_cholesky_blocks(struct bell_context *ctx,
                                     const struct uop *a);
const struct uop *tn_substitute_blocks(struct bell_context *ctx,
                                       const struct uop *t,
                                       const struct uop *y);
struct tn_reflected tn_reflect_blocks(struct bell_context *ctx,
                                      const struct uop *a, const struct uop *b);
struct tn_factors tn_qr_blocks(struct bell_context *ctx, const struct uop *a,
                               bool full);

#endif
