/* A kernel from text, run by itself. */
#ifndef BELL_TOOLS_KERNEL_RUN_H
#define BELL_TOOLS_KERNEL_RUN_H

#include "tensor/runtime/ir.h"

/* Compiles the kernel for the context's device and launches it n_runs times on
 * buffers of random floats, as large as its indices ask for, numbers 1.
 * *out_us: the median of its times, by the device's clock. BELL_E_UNSUPPORTED:
 * nothing says how much of a buffer it accesses, or the device runs nothing. */
BELL_MUST_CHECK bell_status kernel_run_text(struct bell_context *ctx,
                                            const char *text, int64_t n_runs,
                                            struct tensor_ir *out_ir,
                                            double *out_us);

#endif
