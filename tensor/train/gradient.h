/* Gradients of the tensor graph. */
#ifndef BELL_TENSOR_TRAIN_GRADIENT_H
#define BELL_TENSOR_TRAIN_GRADIENT_H

#include "tensor/core/tensor_internal.h"

/* Adjoints of `targets` for the adjoint `seed` of `root`; NULL where root
 * does not depend on a target. */
BELL_MUST_CHECK bell_status tensor_gradient(struct bell_context *ctx,
                                            const struct uop *root,
                                            const struct uop *seed,
                                            const struct uop *const *targets,
                                            uint32_t n, const struct uop **out);

#endif
