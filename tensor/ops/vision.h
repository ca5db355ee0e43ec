/* Resampling on nodes. Shared by the files of tensor/ only. */
#ifndef BELL_TENSOR_OPS_VISION_H
#define BELL_TENSOR_OPS_VISION_H

#include "tensor/core/node.h"

/* The weight that Keys' cubic convolution (constant -0.75, as PyTorch's) gives
 * a neighbour at a distance x of at most 1 (near), of 1 to 2. */
const struct uop *tn_cubic_weight(struct bell_context *ctx, const struct uop *x,
                                  bool near);

#endif
