/* Convolution on nodes. Shared by the files of tensor/ only. */
#ifndef BELL_TENSOR_CONV_H
#define BELL_TENSOR_CONV_H

#include "tensor/node.h"

/* Numbers of a 2d convolution; all checked. */
struct conv_shape {
    int64_t stride[2], padding[2], dilation[2];
    int64_t groups;
};

/* out[n, g * O + o, y, x] = sum over i, p, q of
 *   x[n, g * I + i, y * stride + p * dilation - padding, ..] *
 *   w[g * O + o, i, p, q]. With a rule for its gradient. */
const struct uop *tn_conv2d(struct bell_context *ctx, const struct uop *x,
                            const struct uop *w, const struct conv_shape *s);
/* The adjoint of tn_conv2d in x, for y of conv2d's result shape; the result
 * has sizes h, w. */
const struct uop *tn_conv2d_back_x(struct bell_context *ctx,
                                   const struct uop *y, const struct uop *w,
                                   const struct conv_shape *s, int64_t height,
                                   int64_t width);
/* The adjoint in w, whose windows are kh by kw. */
const struct uop *tn_conv2d_back_w(struct bell_context *ctx,
                                   const struct uop *x, const struct uop *y,
                                   const struct conv_shape *s, int64_t kh,
                                   int64_t kw);

/* A rule's numbers and back. */
void conv_to_rule(const struct conv_shape *s, int64_t p[8]);
void conv_from_rule(const int64_t p[8], struct conv_shape *out_s);

#endif
