/* Functions with gradients of the caller's own.
 *
 * A custom function is made of the library's calls, like any other: it is
 * lazy, joins kernels with what is around it, and is captured by a bell_jit.
 * Its gradient is what `backward` makes, not what its calls would give. See
 * docs/custom.md.
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

#ifdef __cplusplus
}
#endif
#endif
