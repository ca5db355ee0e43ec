/* Fourier transforms on nodes. Shared by the files of tensor/ only. Complex
 * numbers are planes: (batch, 2, n), real parts first. No scale. */
#ifndef BELL_TENSOR_OPS_FFT_H
#define BELL_TENSOR_OPS_FFT_H

#include "tensor/core/node.h"

/* The transform of (batch, 1 or 2, n), where one plane is of real numbers; sign
 * -1: forward.
 */
const struct uop *tn_fourier(struct bell_context *ctx, const struct uop *x,
                             int sign);
/* The n real numbers, (batch, 1, n), whose forward transform begins with u's n
 * / 2 + 1 numbers, times n. */
const struct uop *tn_fourier_real(struct bell_context *ctx, const struct uop *u,
                                  int64_t n);

#endif
