/* What the layers' files share. */
#ifndef BELL_TENSOR_TRAIN_NN_H
#define BELL_TENSOR_TRAIN_NN_H

#include "doorbell/nn.h"

/* A parameter of its own: kept, marked for gradients. */
struct bell_tensor *nn_param(struct bell_tensor *t);
/* A parameter of float32, uniform in +-bound. */
struct bell_tensor *nn_uniform(struct bell_context *ctx, const int64_t *shape,
                               uint32_t ndim, double bound);
/* What an _init call does first: the context is alive, nothing is NULL. */
BELL_MUST_CHECK bell_status nn_begin_init(const char *call,
                                          const struct bell_context *ctx,
                                          const void *options,
                                          const void *out_layer);
/* What a call on x without a layer returns. */
struct bell_tensor *nn_no_layer(const char *call, struct bell_tensor *x);
/* Sizes of a layer are 1 at least. */
BELL_MUST_CHECK bell_status nn_check_sizes(const char *call,
                                           const int64_t *sizes, uint32_t n);
/* Reports what went wrong while a layer was made; then its tensors go. */
BELL_MUST_CHECK bell_status nn_finish(struct bell_context *ctx,
                                      const struct bell_module_type *type,
                                      void *layer);

/* A call on x that is made of others: what they give belongs to a scope of its
 * own until nn_end, which moves n results (NULL is skipped) to the scope of the
 * call. False: x cannot be used, and *out is what the call returns. */
bool nn_begin(const char *call, struct bell_tensor *x,
              struct bell_tensor **out);
void nn_end(struct bell_context *ctx, struct bell_tensor *const *results,
            uint32_t n);

#endif
