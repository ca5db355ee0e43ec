/* Layers with their parameters. Optimisers are in optim.h.
 *
 * A layer is a plain structure of tensors that live until its _fini call (or
 * the end of their context). Its _init call makes them, with PyTorch's
 * defaults, and marks them for bell_backward. A layer is applied to x by the
 * call of its own name. It is a module (module.h) of the type of its name:
 * bell_nn_linear_type. A training step is:
 *
 *     bell_scope_begin(ctx);
 *     loss = bell_cross_entropy(forward(x), y, 0, BELL_IGNORE_NONE, BELL_MEAN);
 *     bell_optimizer_zero_grad(opt);
 *     bell_backward(loss);
 *     bell_optimizer_step(opt, &loss, 1);    one computation of it all
 *     bell_item_f64(loss, &value);
 *     bell_scope_end(ctx);
 *
 * Every step builds the same graph, so that it is compiled once: what changes
 * from step to step (rates, random keys, data) is in small tensors of its own.
 */
#ifndef BELL_DOORBELL_NN_H
#define BELL_DOORBELL_NN_H

#include "doorbell/module.h"
#include "doorbell/optim.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- lists of parameters ---- */

/* Tensors, not owned; the array is (bell_params_fini). Start with {0}. */
struct bell_params {
    struct bell_tensor **tensors;
    uint32_t n;
    size_t cap;
};

/* Frees the list; the tensors stay. */
BELL_API void bell_params_fini(struct bell_params *params);
/* Appends t; NULL is skipped. */
BELL_API BELL_MUST_CHECK bell_status bell_params_add(struct bell_params *params,
                                                     struct bell_tensor *t);
/* Appends the parameters of a module's list, each tensor once, also where it
 * has several names. */
BELL_API BELL_MUST_CHECK bell_status bell_params_add_state(
    struct bell_params *params, const struct bell_state *state);

/* ---- layers ---- */

/* y[.., o] = sum_i x[.., i] weight[o, i] + bias[o]. */
struct bell_nn_linear {
    struct bell_tensor *weight; /* [out, in] */
    struct bell_tensor *bias;   /* [out], or NULL */
};
/* Names of its members. */
BELL_API extern const struct bell_module_type bell_nn_linear_type;
/* Uniform in +-1 / sqrt(in). */
BELL_API BELL_MUST_CHECK bell_status
bell_nn_linear_init(struct bell_context *ctx, int64_t in, int64_t out,
                    bool with_bias, struct bell_nn_linear *out_layer);
/* Releases the parameters. Before the context's end. */
BELL_API void bell_nn_linear_fini(struct bell_nn_linear *layer);
/* x[.., in] to [.., out]. */
BELL_API struct bell_tensor *bell_nn_linear(const struct bell_nn_linear *layer,
                                            struct bell_tensor *x);
/* Adds weight and, where there is one, bias to the list. */
BELL_API BELL_MUST_CHECK bell_status bell_nn_linear_params(
    const struct bell_nn_linear *layer, struct bell_params *params);

/* bell_conv2d with a weight [out, in / groups, kh, kw]. */
struct bell_nn_conv2d {
    struct bell_tensor *weight, *bias; /* bias [out], or NULL */
    struct bell_conv_options options;
};
/* Names of its members. */
BELL_API extern const struct bell_module_type bell_nn_conv2d_type;
/* options: NULL for the defaults. Uniform in +-1 / sqrt(in / groups kh kw). */
BELL_API BELL_MUST_CHECK bell_status bell_nn_conv2d_init(
    struct bell_context *ctx, int64_t in, int64_t out, int64_t kh, int64_t kw,
    const struct bell_conv_options *options, bool with_bias,
    struct bell_nn_conv2d *out_layer);
/* Releases the parameters. Before the context's end. */
BELL_API void bell_nn_conv2d_fini(struct bell_nn_conv2d *layer);
/* x[n, in, h, w] to [n, out, ..], as bell_conv2d. */
BELL_API struct bell_tensor *bell_nn_conv2d(const struct bell_nn_conv2d *layer,
                                            struct bell_tensor *x);
/* Adds weight and, where there is one, bias to the list. */
BELL_API BELL_MUST_CHECK bell_status bell_nn_conv2d_params(
    const struct bell_nn_conv2d *layer, struct bell_params *params);

/* x[n, c, ..] normalised over all axes but c. While the context is training,
 * by the batch's mean and variance, which are blended into the running ones;
 * else by the running ones. The running ones are computed with the next
 * bell_optimizer_step. */
struct bell_nn_batch_norm {
    struct bell_tensor *weight, *bias;              /* [c] */
    struct bell_tensor *running_mean, *running_var; /* [c] */
    double momentum, eps;                           /* 0.1, 1e-5 */
};
/* Names of its members. */
BELL_API extern const struct bell_module_type bell_nn_batch_norm_type;
/* weight and running_var are 1 at first, bias and running_mean 0. */
BELL_API BELL_MUST_CHECK bell_status
bell_nn_batch_norm_init(struct bell_context *ctx, int64_t channels,
                        struct bell_nn_batch_norm *out_layer);
/* Releases parameters and statistics. Before the context's end. */
BELL_API void bell_nn_batch_norm_fini(struct bell_nn_batch_norm *layer);
/* x normalised, of its shape; x has two axes at least. */
BELL_API struct bell_tensor *
bell_nn_batch_norm(const struct bell_nn_batch_norm *layer,
                   struct bell_tensor *x);
/* weight and bias; the running statistics are no parameters. */
BELL_API BELL_MUST_CHECK bell_status bell_nn_batch_norm_params(
    const struct bell_nn_batch_norm *layer, struct bell_params *params);

/* bell_layer_norm over the last axes. */
struct bell_nn_layer_norm {
    struct bell_tensor *weight, *bias;
    double eps; /* 1e-5 */
};
/* Names of its members. */
BELL_API extern const struct bell_module_type bell_nn_layer_norm_type;
/* For x[.., shape]; weight is 1 at first, bias 0. */
BELL_API BELL_MUST_CHECK bell_status
bell_nn_layer_norm_init(struct bell_context *ctx, const int64_t *shape,
                        uint32_t ndim, struct bell_nn_layer_norm *out_layer);
/* Releases the parameters. Before the context's end. */
BELL_API void bell_nn_layer_norm_fini(struct bell_nn_layer_norm *layer);
/* x normalised, of its shape, which ends in that of the layer. */
BELL_API struct bell_tensor *
bell_nn_layer_norm(const struct bell_nn_layer_norm *layer,
                   struct bell_tensor *x);
/* Adds weight and bias to the list. */
BELL_API BELL_MUST_CHECK bell_status bell_nn_layer_norm_params(
    const struct bell_nn_layer_norm *layer, struct bell_params *params);

/* bell_embedding: standard normal rows. */
struct bell_nn_embedding {
    struct bell_tensor *weight; /* [count, size] */
};
/* Names of its members. */
BELL_API extern const struct bell_module_type bell_nn_embedding_type;
/* A table of `count` rows of `size` floats. */
BELL_API BELL_MUST_CHECK bell_status
bell_nn_embedding_init(struct bell_context *ctx, int64_t count, int64_t size,
                       struct bell_nn_embedding *out_layer);
/* Releases the table. Before the context's end. */
BELL_API void bell_nn_embedding_fini(struct bell_nn_embedding *layer);
/* Rows by number: x[..], of integers, to [.., size]. */
BELL_API struct bell_tensor *
bell_nn_embedding(const struct bell_nn_embedding *layer, struct bell_tensor *x);
/* Adds the table to the list. */
BELL_API BELL_MUST_CHECK bell_status bell_nn_embedding_params(
    const struct bell_nn_embedding *layer, struct bell_params *params);

#ifdef __cplusplus
}
#endif
#endif
