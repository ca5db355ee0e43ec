/* Kernels as tools see them: those that were compiled for a context, and those
 * that come as text. */
#ifndef BELL_TENSOR_RUNTIME_IR_H
#define BELL_TENSOR_RUNTIME_IR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "doorbell/tensor.h"

/* What a kernel became. */
struct tensor_ir {
    char name[128];
    uint32_t grid[3], local[3];
    uint32_t n_params, n_vars;
    uint64_t binary_bytes;
    uint64_t lower_ns, compile_ns;
    double n_flops, n_bytes; /* of a launch */
};

/* The context's kernels in the order in which they were compiled, from 0; false:
 * there are no more. */
bool tensor_kernel_at(const struct bell_context *ctx, size_t number,
                      struct tensor_ir *out_ir);

/* Whether the device runs nothing: kernels are compiled for it alone. */
bool tensor_device_is_null(const struct bell_context *ctx);

/* Lowers the kernel of `text` (uops/print.c's form, stage K, as BELL_DEBUG=ir
 * prints it) for the context's device and compiles it; nothing is launched.
 * What BELL_DEBUG names is printed on the way. BELL_E_INVALID: the text is no
 * kernel; the message says where, or which node. */
BELL_MUST_CHECK bell_status tensor_compile_ir(struct bell_context *ctx,
                                              const char *text,
                                              struct tensor_ir *out_ir);

#endif
