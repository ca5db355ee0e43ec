/* Convolution on nodes. Shared by the files of tensor/ only. */
#ifndef BELL_TENSOR_OPS_CONV_H
#define BELL_TENSOR_OPS_CONV_H

#include "tensor/core/rules.h"
#include "tensor/core/node.h"

/* Numbers of a convolution over 1 to 3 axes; all checked. */
struct conv_shape {
    uint32_t n_axes;
    int64_t stride[3], padding[3], dilation[3];
    int64_t groups;
};

/* With two axes: out[n, g * O + o, y, x] = sum over i, p, q of
 *   x[n, g * I + i, y * stride + p * dilation - padding, ..] *
 *   w[g * O + o, i, p, q]. With a rule for its gradient. `wide`: float32 of
 * floats of 8 and 16 bits, for one that adds to it before it rounds. */
const struct uop *tn_conv(struct bell_context *ctx, const struct uop *x,
                          const struct uop *w, const struct conv_shape *s,
                          bool wide);
/* The adjoint of tn_conv in x, for y of its result's shape; `want` are the
 * sizes of the axes of x. */
const struct uop *tn_conv_back_x(struct bell_context *ctx, const struct uop *y,
                                 const struct uop *w,
                                 const struct conv_shape *s,
                                 const int64_t *want, bool wide);
/* The adjoint in w, whose windows are of such sizes. */
const struct uop *tn_conv_back_w(struct bell_context *ctx, const struct uop *x,
                                 const struct uop *y,
                                 const struct conv_shape *s,
                                 const int64_t *window);
/* x as sources of n results on each axis and of no more: a transposed
 * convolution may be asked for more elements at an end than its results reach.
 * Padding that becomes part of x is taken from *s. */
const struct uop *tn_conv_reached(struct bell_context *ctx, const struct uop *x,
                                  struct conv_shape *s, const int64_t *n,
                                  const int64_t *window);

/* Sums over the elements of n equal parts of an axis, those in part too. The
 * adjoint is the same from n back to the size. */
const struct uop *tn_overlap(struct bell_context *ctx, const struct uop *u,
                             uint32_t axis, int64_t n);

/* A rule's numbers and back. */
void conv_to_rule(const struct conv_shape *s, int64_t p[TENSOR_RULE_NUMBERS]);
void conv_from_rule(const int64_t p[TENSOR_RULE_NUMBERS],
                    struct conv_shape *out_s);

/* The adjoint of an axis that was resized (interpolate.c). */
const struct uop *tn_resize_back(struct bell_context *ctx,
                                 const struct tensor_rule *rule,
                                 const struct uop *g);

#endif
