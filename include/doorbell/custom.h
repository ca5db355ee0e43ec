/* Functions with gradients of the caller's own, and kernels.
 *
 * A custom function is made of the library's calls, like any other: it is
 * lazy, joins kernels with what is around it, and is captured by a bell_jit.
 * Its gradient is what `backward` makes, not what its calls would give. See
 * docs/how-to/custom.md.
 */
#ifndef BELL_DOORBELL_CUSTOM_H
#define BELL_DOORBELL_CUSTOM_H

#include "doorbell/tensor.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Both functions run in a scope of their own, which ends with them, on the
 * thread of the call that asks for them. The tensors that they are given are
 * that scope's, and detached from nothing: gradients have gradients. They do
 * not destroy the context. */
struct bell_custom_desc {
    uint32_t struct_size; /* sizeof(struct bell_custom_desc) */
    const char *name;     /* for messages; NULL: "custom" */
    /* The value. Called once, by bell_custom. NULL: a failure, which is then
     * the last call's. */
    struct bell_tensor *(*forward)(struct bell_context *ctx, void *user,
                                   struct bell_tensor *const *in,
                                   uint32_t n_in);
    /* From d loss / d out, `grad`, those of the inputs: out_grads[i] is of
     * in[i]'s shape and a float dtype, or left NULL, which is zero. Called by
     * each bell_gradient, bell_vjp or bell_backward that goes through `out`,
     * once. What it returns but BELL_OK, they return. */
    bell_status (*backward)(struct bell_context *ctx, void *user,
                            struct bell_tensor *const *in, uint32_t n_in,
                            struct bell_tensor *out, struct bell_tensor *grad,
                            struct bell_tensor **out_grads);
    void *user;
    /* NULL, or called once for each bell_custom that was given a description:
     * when no gradient will be asked of it any more, with its context at the
     * latest. It calls nothing of the library. */
    void (*release)(void *user);
};

/* forward's result for n_in >= 1 inputs of one context, with backward as its
 * gradient; of any dtype, but only floats have one. `desc` is copied, `user`
 * stays the caller's. Fails: a struct_size that is too small; no forward or backward; what forward fails with;
 * a result that is NULL, was ended or is of another context; scopes that
 * forward began and did not end. */
BELL_API struct bell_tensor *bell_custom(const struct bell_custom_desc *desc,
                                         struct bell_tensor *const *in,
                                         uint32_t n_in);

/* The same for several results, of any shapes and dtypes. */
struct bell_custom_many_desc {
    uint32_t struct_size; /* sizeof(struct bell_custom_many_desc) */
    const char *name;     /* for messages; NULL: "custom" */
    uint32_t n_out;       /* results, 1 or more */
    /* The values, out[0] to out[n_out - 1], which may be one another or inputs.
     * Called once, by bell_custom_many. */
    bell_status (*forward)(struct bell_context *ctx, void *user,
                           struct bell_tensor *const *in, uint32_t n_in,
                           struct bell_tensor **out);
    /* As bell_custom_desc's. grads[k] is d loss / d out[k]: zeros where the loss
     * does not depend on it, NULL where out[k] is of no float dtype. Called
     * once for all results by each bell_gradient, bell_vjp or bell_backward
     * that goes through one of them. */
    bell_status (*backward)(struct bell_context *ctx, void *user,
                            struct bell_tensor *const *in, uint32_t n_in,
                            struct bell_tensor *const *out,
                            struct bell_tensor *const *grads,
                            struct bell_tensor **out_grads);
    void *user;
    void (*release)(void *user); /* as bell_custom_desc's */
};

/* out[0] to out[desc->n_out - 1]: forward's results for n_in >= 1 inputs of one
 * context, with backward as their gradient. Fails as bell_custom does, or for
 * n_out = 0: all of out[] is then the error tensor. */
BELL_API void bell_custom_many(const struct bell_custom_many_desc *desc,
                               struct bell_tensor *const *in, uint32_t n_in,
                               struct bell_tensor **out);

/* ---- kernels ---- */

/* What a kernel is written in. Its arguments and how it is launched:
 * docs/reference/kernel-interface.md, of the device that it is for. */
enum bell_kernel_form {
    BELL_KERNEL_OBJECT, /* machine code: a relocatable object for the CPU, a
                         * code object for AMD, a cubin for NVIDIA */
    BELL_KERNEL_PTX,    /* text, for NVIDIA */
    BELL_KERNEL_LLVM,   /* LLVM IR as text, for the CPU and AMD; compiled as it
                         * is, so optimised before */
    BELL_KERNEL_C,      /* text, for the CPU, by the C compiler of the machine
                         * ($CC, cc, gcc or clang): -O3 -ffreestanding
                         * -ffp-contract=off */
};

/* A kernel for one kind of device. */
struct bell_kernel_code {
    const char *device; /* "CPU", "NV", "AMD"; or of one chip alone:
                         * "AMD:gfx1100", "NV:sm_90" */
    enum bell_kernel_form form;
    const void *code;
    size_t n_bytes;          /* 0: a text that a zero ends */
    uint32_t grid[3];        /* work-groups; a 0 is 1 */
    uint32_t local[3];       /* work-items in each; a 0 is 1. CPU: 1, 1, 1 */
    uint32_t n_shared_bytes; /* of shared memory, given at launch */
};

/* A result. */
struct bell_kernel_result {
    const int64_t *shape;
    uint32_t ndim;
    enum bell_dtype dtype;
};

/* The most arguments of a kernel: results, inputs and values. */
#define BELL_MAX_KERNEL_ARGS 64

/* A kernel: its arguments are the addresses of its results, then those of its
 * inputs, then `values`. All are row-major and do not overlap; a bool is a byte,
 * 0 or 1. Addresses are multiples of 64, but for bell_from_blob's as it was
 * given them. */
struct bell_kernel_desc {
    uint32_t struct_size; /* sizeof(struct bell_kernel_desc) */
    const char *name;     /* the function's, in all of the codes */
    const struct bell_kernel_code *codes; /* the first for the device is used */
    uint32_t n_codes;
    const struct bell_kernel_result *results; /* 1 or more, with elements */
    uint32_t n_out;
    const int64_t *values; /* or NULL */
    uint32_t n_values;
};

/* out[0] to out[n_out - 1]: the results of a kernel of the caller's. Everything
 * is copied. Lazy as any other call: the kernel runs when a result is needed,
 * after what makes its inputs, once for all results; it is captured by a bell_jit
 * and saved in bundles. The same description again is the same kernel, compiled
 * once in a context; another, by its values alone, is one more, which the context
 * keeps: what changes from call to call belongs in an input. It has no gradient:
 * bell_custom gives it one.
 *
 * It writes every element of its results and nothing else, and its results depend
 * on its inputs and values alone. Nothing can check that.
 *
 * Fails, with all of out[] the error tensor: a description without what it has to
 * have, or of too many arguments; no code for the device; an input without
 * elements. What the compiler or the device says of the code fails the call that
 * realises. n_in may be 0. */
BELL_API void bell_custom_kernel(struct bell_context *ctx,
                                 const struct bell_kernel_desc *desc,
                                 struct bell_tensor *const *in, uint32_t n_in,
                                 struct bell_tensor **out);

#ifdef __cplusplus
}
#endif
#endif
