/* Kernels as tools see them: those that were compiled for a context, and those
 * that come as text. */
#ifndef BELL_TENSOR_RUNTIME_IR_H
#define BELL_TENSOR_RUNTIME_IR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/chip.h"
#include "doorbell/tensor.h"
#include "render/render.h"

#define TENSOR_IR_PARAMS 64

/* What a kernel became. */
struct tensor_ir {
    char name[128];
    uint32_t grid[3], local[3];
    uint32_t n_params, n_vars;
    uint64_t binary_bytes;
    uint64_t lower_ns, compile_ns;
    double n_flops, n_bytes; /* of a launch */
    /* Bytes that a launch may access of each parameter; 0: nothing says how
     * many. For kernels from text. */
    uint64_t param_bytes[TENSOR_IR_PARAMS];
    bool is_float_var
        [TENSOR_IR_PARAMS]; /* of the number behind the parameters */
};

struct hcq_program;

/* The context's kernels in the order in which they were compiled, from 0;
 * false: there are no more. */
bool tensor_kernel_at(const struct bell_context *ctx, size_t number,
                      struct tensor_ir *out_ir);

/* Whether the device runs nothing: kernels are compiled for it alone. */
bool tensor_device_is_null(const struct bell_context *ctx);

/* The context's device, which belongs to it: for looking at. */
struct hcq_device;
struct hcq_device *tensor_device(const struct bell_context *ctx);

/* What a kernel for a GPU takes, and does in matrix instructions. */
struct tensor_usage {
    struct render_usage usage;
    bool is_estimated; /* by us: there is no ptxas */
    bool has_matrix;
    enum chip_rate matrix_rate; /* the rate that they have */
};

/* Lowers kernel `number` again and asks its assembler. BELL_E_UNSUPPORTED on
 * devices that are not a GPU. */
BELL_MUST_CHECK bell_status tensor_kernel_usage(const struct bell_context *ctx,
                                                size_t number,
                                                struct tensor_usage *out_usage);

/* Waits for all work. From then on kernels run one at a time, and `fn` is
 * called after each with its number; NULL: no more. */
BELL_MUST_CHECK bell_status tensor_watch_kernels(struct bell_context *ctx,
                                                 void (*fn)(void *user,
                                                            size_t number),
                                                 void *user);

/* Lowers the kernel of `text` (uops/print.c's form, stage K, as BELL_DEBUG=ir
 * prints it) for the context's device and compiles it; nothing is launched.
 * What BELL_DEBUG names is printed on the way. BELL_E_INVALID: the text is not
 * a kernel; the message says where, or which node. */
BELL_MUST_CHECK bell_status tensor_compile_ir(struct bell_context *ctx,
                                              const char *text,
                                              struct tensor_ir *out_ir);

/* The same, loaded: a program of the context's device, for
 * hcq_program_destroy. */
BELL_MUST_CHECK bell_status tensor_load_ir(struct bell_context *ctx,
                                           const char *text,
                                           struct tensor_ir *out_ir,
                                           struct hcq_program **out_program);

#endif
