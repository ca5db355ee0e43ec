/* Matrix products on nodes. Shared by the files of tensor/ only. */
#ifndef BELL_TENSOR_OPS_MATMUL_H
#define BELL_TENSOR_OPS_MATMUL_H

#include "tensor/core/node.h"

/* Sum over the axes of the product of a and b, which broadcast; floats of
 * 8 and 16 bits are multiplied and added in float32, integers of 8 in int32. */
const struct uop *tn_sum_product(struct bell_context *ctx, const struct uop *a,
                                 const struct uop *b, uint32_t axis_mask);
/* The same without the rounding of floats of 8 and 16 bits: float32. */
const struct uop *tn_sum_product_wide(struct bell_context *ctx,
                                      const struct uop *a, const struct uop *b,
                                      uint32_t axis_mask);
/* a[.., i, j] @ b[.., j, k], batch axes broadcast; ranks at least 2. */
const struct uop *tn_matmul(struct bell_context *ctx, const struct uop *a,
                            const struct uop *b);

#endif
