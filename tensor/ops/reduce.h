/* Reductions on nodes that several files use. Shared by the files of tensor/
 * only. Reduced axes stay with size 1. */
#ifndef BELL_TENSOR_OPS_REDUCE_H
#define BELL_TENSOR_OPS_REDUCE_H

#include "tensor/core/node.h"

/* Sum over the axes divided by the number of elements; float. */
const struct uop *tn_mean(struct bell_context *ctx, const struct uop *u,
                          uint32_t axis_mask);
/* Mean of squared distances from the mean. */
const struct uop *tn_var(struct bell_context *ctx, const struct uop *u,
                         uint32_t axis_mask, double correction);
/* exp(u - max) over its sum; u - max - log of it. */
const struct uop *tn_softmax(struct bell_context *ctx, const struct uop *u,
                             uint32_t axis);
const struct uop *tn_log_softmax(struct bell_context *ctx, const struct uop *u,
                                 uint32_t axis);
/* The number that is subtracted before exp, of the maximum m: no gradient, and
 * finite, so that no infinity is subtracted from one. Below an infinite maximum
 * exp is 0, and not infinite. */
const struct uop *tn_log_base(struct bell_context *ctx, const struct uop *m);
/* log of the sum of exp; an infinite maximum is the result. */
const struct uop *tn_logsumexp(struct bell_context *ctx, const struct uop *u,
                               uint32_t axis_mask);
/* (sum |u|^p)^(1/p); p may be 0, INFINITY and -INFINITY. u is a float; float32
 * of halves. */
const struct uop *tn_norm(struct bell_context *ctx, const struct uop *u,
                          double p, uint32_t axis_mask);
/* Number of elements that are reduced to one. */
int64_t tn_reduced_count(const struct bell_context *ctx, const struct uop *u,
                         uint32_t axis_mask);

#endif
