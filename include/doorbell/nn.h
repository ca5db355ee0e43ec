/* Layers with their parameters. Optimisers are in optim.h.
 *
 * A layer is a plain structure of tensors, a module (module.h) of the type that
 * has its name: bell_nn_linear_type. Its _init call makes the tensors, in
 * float32, with PyTorch's defaults and the context's generator, and marks them
 * for bell_backward; they live until bell_module_fini of the layer, or of the
 * module that it is in, or the end of their context. A layer is applied to x by
 * the call of its own name. What differs in training (dropout, batch norm) goes
 * by bell_set_training. A training step is:
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

/* Frees the list; the tensors stay. NULL is allowed. */
BELL_API void bell_params_fini(struct bell_params *params);
/* Appends t; NULL is skipped. */
BELL_API BELL_MUST_CHECK bell_status bell_params_add(struct bell_params *params,
                                                     struct bell_tensor *t);
/* Appends the parameters of a module's list, each tensor once, also where it
 * has several names. */
BELL_API BELL_MUST_CHECK bell_status bell_params_add_state(
    struct bell_params *params, const struct bell_state *state);
/* The same of a module. */
BELL_API BELL_MUST_CHECK bell_status
bell_params_add_module(struct bell_params *params,
                       const struct bell_module_type *type, const void *module);

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
/* x[.., in] to [.., out]. */
BELL_API struct bell_tensor *bell_nn_linear(const struct bell_nn_linear *layer,
                                            struct bell_tensor *x);

/* bell_conv1d to bell_conv3d with a weight [out, in / groups, k..], and
 * bell_conv_transpose1d to 3d with a weight [in, out / groups, k..]. */
struct bell_nn_conv {
    struct bell_tensor *weight, *bias; /* bias [out], or NULL */
    struct bell_conv_options options;
};
/* Names of its members. */
BELL_API extern const struct bell_module_type bell_nn_conv_type;
/* options: NULL for the defaults. Uniform in +-1 / sqrt(n), with n elements of
 * the weight at each first index. */
BELL_API BELL_MUST_CHECK bell_status
bell_nn_conv1d_init(struct bell_context *ctx, int64_t in, int64_t out,
                    int64_t k, const struct bell_conv_options *options,
                    bool with_bias, struct bell_nn_conv *out_layer);
/* The same with two axes. */
BELL_API BELL_MUST_CHECK bell_status bell_nn_conv2d_init(
    struct bell_context *ctx, int64_t in, int64_t out, int64_t kh, int64_t kw,
    const struct bell_conv_options *options, bool with_bias,
    struct bell_nn_conv *out_layer);
/* The same with three axes. */
BELL_API BELL_MUST_CHECK bell_status bell_nn_conv3d_init(
    struct bell_context *ctx, int64_t in, int64_t out, const int64_t kernel[3],
    const struct bell_conv_options *options, bool with_bias,
    struct bell_nn_conv *out_layer);
/* The first of them, transposed. */
BELL_API BELL_MUST_CHECK bell_status bell_nn_conv_transpose1d_init(
    struct bell_context *ctx, int64_t in, int64_t out, int64_t k,
    const struct bell_conv_options *options, bool with_bias,
    struct bell_nn_conv *out_layer);
/* The one with two axes, transposed. */
BELL_API BELL_MUST_CHECK bell_status bell_nn_conv_transpose2d_init(
    struct bell_context *ctx, int64_t in, int64_t out, int64_t kh, int64_t kw,
    const struct bell_conv_options *options, bool with_bias,
    struct bell_nn_conv *out_layer);
/* The one with three axes, transposed. */
BELL_API BELL_MUST_CHECK bell_status bell_nn_conv_transpose3d_init(
    struct bell_context *ctx, int64_t in, int64_t out, const int64_t kernel[3],
    const struct bell_conv_options *options, bool with_bias,
    struct bell_nn_conv *out_layer);
/* x[n, in, l] to [n, out, ..], as bell_conv1d. */
BELL_API struct bell_tensor *bell_nn_conv1d(const struct bell_nn_conv *layer,
                                            struct bell_tensor *x);
/* x[n, in, h, w] to [n, out, ..], as bell_conv2d. */
BELL_API struct bell_tensor *bell_nn_conv2d(const struct bell_nn_conv *layer,
                                            struct bell_tensor *x);
/* x[n, in, d, h, w] to [n, out, ..], as bell_conv3d. */
BELL_API struct bell_tensor *bell_nn_conv3d(const struct bell_nn_conv *layer,
                                            struct bell_tensor *x);
/* x[n, in, l] to [n, out, ..], as bell_conv_transpose1d. */
BELL_API struct bell_tensor *
bell_nn_conv_transpose1d(const struct bell_nn_conv *layer,
                         struct bell_tensor *x);
/* x[n, in, d, h, w] to [n, out, ..], as bell_conv_transpose3d. */
BELL_API struct bell_tensor *
bell_nn_conv_transpose3d(const struct bell_nn_conv *layer,
                         struct bell_tensor *x);
/* x[n, in, h, w] to [n, out, ..], as bell_conv_transpose2d. */
BELL_API struct bell_tensor *
bell_nn_conv_transpose2d(const struct bell_nn_conv *layer,
                         struct bell_tensor *x);

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
/* x normalised, of its shape; x has two axes at least. */
BELL_API struct bell_tensor *
bell_nn_batch_norm(const struct bell_nn_batch_norm *layer,
                   struct bell_tensor *x);

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
/* x normalised, of its shape, which ends in that of the layer. */
BELL_API struct bell_tensor *
bell_nn_layer_norm(const struct bell_nn_layer_norm *layer,
                   struct bell_tensor *x);

/* bell_group_norm. */
struct bell_nn_group_norm {
    struct bell_tensor *weight, *bias; /* [c] */
    int64_t n_groups;
    double eps; /* 1e-5 */
};
/* Names of its members. */
BELL_API extern const struct bell_module_type bell_nn_group_norm_type;
/* weight is 1 at first, bias 0. */
BELL_API BELL_MUST_CHECK bell_status
bell_nn_group_norm_init(struct bell_context *ctx, int64_t n_groups,
                        int64_t channels, struct bell_nn_group_norm *out_layer);
/* x[n, c, ..] normalised, of its shape. */
BELL_API struct bell_tensor *
bell_nn_group_norm(const struct bell_nn_group_norm *layer,
                   struct bell_tensor *x);

/* x[n, c, ..] normalised over the axes after c, by its own statistics
 * always. */
struct bell_nn_instance_norm {
    struct bell_tensor *weight, *bias; /* [c], or NULL */
    double eps;                        /* 1e-5 */
};
/* Names of its members. */
BELL_API extern const struct bell_module_type bell_nn_instance_norm_type;
/* is_affine: with a weight, 1 at first, and a bias, 0. */
BELL_API BELL_MUST_CHECK bell_status bell_nn_instance_norm_init(
    struct bell_context *ctx, int64_t channels, bool is_affine,
    struct bell_nn_instance_norm *out_layer);
/* x normalised, of its shape, of three axes at least. */
BELL_API struct bell_tensor *
bell_nn_instance_norm(const struct bell_nn_instance_norm *layer,
                      struct bell_tensor *x);

/* bell_rms_norm over the last axes. */
struct bell_nn_rms_norm {
    struct bell_tensor *weight; /* [shape] */
    double eps;
};
/* Names of its members. */
BELL_API extern const struct bell_module_type bell_nn_rms_norm_type;
/* For x[.., shape]; weight is 1 at first. */
BELL_API BELL_MUST_CHECK bell_status bell_nn_rms_norm_init(
    struct bell_context *ctx, const int64_t *shape, uint32_t ndim, double eps,
    struct bell_nn_rms_norm *out_layer);
/* x normalised, of its shape, which ends in that of the layer. */
BELL_API struct bell_tensor *
bell_nn_rms_norm(const struct bell_nn_rms_norm *layer, struct bell_tensor *x);

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
/* Rows by number: x[..], of integers, to [.., size]. */
BELL_API struct bell_tensor *
bell_nn_embedding(const struct bell_nn_embedding *layer, struct bell_tensor *x);

/* ---- recurrent layers ---- */

/* A cell's parameters, gates one after the other: i, f, g, o of an LSTM;
 * r, z, n of a GRU. */
struct bell_nn_cell {
    struct bell_tensor *weight_ih, *weight_hh; /* [gates h, in], [gates h, h] */
    struct bell_tensor *bias_ih, *bias_hh;     /* [gates h], or NULL */
};
/* Names of its members. */
BELL_API extern const struct bell_module_type bell_nn_cell_type;
/* Uniform in +-1 / sqrt(hidden). */
BELL_API BELL_MUST_CHECK bell_status
bell_nn_lstm_cell_init(struct bell_context *ctx, int64_t in, int64_t hidden,
                       bool with_bias, struct bell_nn_cell *out_cell);
/* The same for a GRU. */
BELL_API BELL_MUST_CHECK bell_status
bell_nn_gru_cell_init(struct bell_context *ctx, int64_t in, int64_t hidden,
                      bool with_bias, struct bell_nn_cell *out_cell);
/* One step: x[n, in], h[n, hidden], c[n, hidden] to the next c (*out_c), and
 * the next h. */
BELL_API struct bell_tensor *bell_nn_lstm_cell(const struct bell_nn_cell *cell,
                                               struct bell_tensor *x,
                                               struct bell_tensor *h,
                                               struct bell_tensor *c,
                                               struct bell_tensor **out_c);
/* One step: x[n, in] and h[n, hidden] to the next h. */
BELL_API struct bell_tensor *bell_nn_gru_cell(const struct bell_nn_cell *cell,
                                              struct bell_tensor *x,
                                              struct bell_tensor *h);

struct bell_nn_rnn_options {
    uint32_t struct_size; /* sizeof(struct bell_nn_rnn_options) */
    int64_t in, hidden;
    uint32_t n_layers; /* 0 means 1; at most BELL_NN_RNN_LAYERS */
    bool is_bidirectional;
    bool is_batch_first; /* x[n, l, in], not x[l, n, in] */
    bool without_bias;
    double dropout; /* of what goes from layer to layer */
};
#define BELL_NN_RNN_LAYERS 8

/* Layers of cells. Names are PyTorch's: weight_ih_l0, weight_ih_l0_reverse. */
struct bell_nn_rnn {
    /* Layer k has 2 k, and 2 k + 1 for the reverse direction. */
    struct bell_nn_cell cells[2 * BELL_NN_RNN_LAYERS];
    struct bell_nn_rnn_options options;
};
/* Names of its members. */
BELL_API extern const struct bell_module_type bell_nn_rnn_type;
/* Its cells are those of an LSTM. */
BELL_API BELL_MUST_CHECK bell_status bell_nn_lstm_init(
    struct bell_context *ctx, const struct bell_nn_rnn_options *options,
    struct bell_nn_rnn *out_layer);
/* Its cells are those of a GRU. */
BELL_API BELL_MUST_CHECK bell_status bell_nn_gru_init(
    struct bell_context *ctx, const struct bell_nn_rnn_options *options,
    struct bell_nn_rnn *out_layer);
/* x[l, n, in] to the last layer's h of all steps, [l, n, d hidden], d being 2
 * if it is bidirectional. h0, c0: [layers d, n, hidden], or NULL for zeros.
 * out_h, out_c: NULL, or what the cells end with, of the same shape. The graph
 * grows with l. */
BELL_API struct bell_tensor *
bell_nn_lstm(const struct bell_nn_rnn *layer, struct bell_tensor *x,
             struct bell_tensor *h0, struct bell_tensor *c0,
             struct bell_tensor **out_h, struct bell_tensor **out_c);
/* The same without c. */
BELL_API struct bell_tensor *bell_nn_gru(const struct bell_nn_rnn *layer,
                                         struct bell_tensor *x,
                                         struct bell_tensor *h0,
                                         struct bell_tensor **out_h);

/* ---- attention ---- */

/* Several heads of attention. */
struct bell_nn_attention {
    struct bell_nn_linear wq, wk, wv, wo;
    int64_t n_heads, n_kv_heads;
    double dropout; /* of the weights, while training */
};
/* Names of its members. */
BELL_API extern const struct bell_module_type bell_nn_attention_type;
struct bell_nn_attention_options {
    uint32_t struct_size; /* sizeof(struct bell_nn_attention_options) */
    int64_t size, n_heads;
    int64_t n_kv_heads; /* each for several of q; 0 means n_heads */
    double dropout;
    bool without_bias;
};
/* As PyTorch's MultiheadAttention: uniform in +-sqrt(6 / (size + rows)), rows
 * being those of wq, wk and wv together; biases 0; wo as bell_nn_linear. */
BELL_API BELL_MUST_CHECK bell_status bell_nn_attention_init(
    struct bell_context *ctx, const struct bell_nn_attention_options *options,
    struct bell_nn_attention *out_layer);
/* x[n, l, size] attends to y[n, s, size] (NULL: to itself) and becomes
 * [n, l, size]. mask: NULL, bool (true: take part) or float, broadcast to
 * [n, heads, l, s]. is_causal: position i sees j <= i; not with a mask. */
BELL_API struct bell_tensor *
bell_nn_attention(const struct bell_nn_attention *layer, struct bell_tensor *x,
                  struct bell_tensor *y, struct bell_tensor *mask,
                  bool is_causal);

/* Keys and values of what was attended to so far. */
struct bell_nn_kv_cache {
    struct bell_tensor *k, *v; /* [n, kv heads, room, head size] */
    int64_t length;            /* of what is in it; may be made smaller */
};
/* Names of its members. */
BELL_API extern const struct bell_module_type bell_nn_kv_cache_type;
/* Room for so many positions of n sequences. */
BELL_API BELL_MUST_CHECK bell_status bell_nn_kv_cache_init(
    struct bell_context *ctx, const struct bell_nn_attention *layer, int64_t n,
    int64_t room, struct bell_nn_kv_cache *out_cache);
/* x[n, l, size], the next l positions, attends causally to all so far and
 * itself, and its keys and values are added. No gradient flows through them,
 * and a function that is captured cannot do it: the place is the host's. The
 * same graph, and so nothing to compile, for every place. */
BELL_API struct bell_tensor *
bell_nn_attention_next(const struct bell_nn_attention *layer,
                       struct bell_nn_kv_cache *cache, struct bell_tensor *x);

/* A transformer's layer, attention and two linear layers. */
struct bell_nn_transformer {
    struct bell_nn_attention attn;
    struct bell_nn_linear linear1, linear2;
    struct bell_nn_layer_norm norm1, norm2;
    double dropout;
    bool is_norm_first, is_relu;
};
/* Names of its members. */
BELL_API extern const struct bell_module_type bell_nn_transformer_type;
struct bell_nn_transformer_options {
    uint32_t struct_size; /* sizeof(struct bell_nn_transformer_options) */
    int64_t size, n_heads;
    int64_t n_kv_heads; /* 0 means n_heads */
    int64_t hidden;     /* of the linear layers; 0 means 4 size */
    double dropout;
    bool is_norm_first; /* norms before, not after each half */
    bool is_relu;       /* not gelu */
};
/* Each part with its own defaults. */
BELL_API BELL_MUST_CHECK bell_status bell_nn_transformer_init(
    struct bell_context *ctx, const struct bell_nn_transformer_options *options,
    struct bell_nn_transformer *out_layer);
/* x[n, l, size] to the same; mask and is_causal as bell_nn_attention. */
BELL_API struct bell_tensor *
bell_nn_transformer(const struct bell_nn_transformer *layer,
                    struct bell_tensor *x, struct bell_tensor *mask,
                    bool is_causal);
/* The same of the next positions, with a cache: as bell_nn_attention_next. */
BELL_API struct bell_tensor *
bell_nn_transformer_next(const struct bell_nn_transformer *layer,
                         struct bell_nn_kv_cache *cache, struct bell_tensor *x);

#ifdef __cplusplus
}
#endif
#endif
