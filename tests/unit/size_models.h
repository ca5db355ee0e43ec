/* Blocks of known models over batches and sequences of any sizes: a BERT-like
 * encoder layer, a GPT-2 block, a Llama block, and their gradients. Shared by
 * the test of kernels and bits and by the bench of times. */
#ifndef BELL_TESTS_UNIT_SIZE_MODELS_H
#define BELL_TESTS_UNIT_SIZE_MODELS_H

#include "doorbell/dim.h"
#include "doorbell/nn.h"
#include "doorbell/tensor.h"

enum size_model {
    SIZE_MODEL_BERT,  /* norms behind, a mask of what is padding, GELU */
    SIZE_MODEL_GPT2,  /* norms in front, causal, GELU */
    SIZE_MODEL_LLAMA, /* RMS norms, rotated places, grouped heads, SwiGLU */
    SIZE_MODEL_COUNT,
};

extern const char *const size_model_names[SIZE_MODEL_COUNT];

/* One block, of one context. */
struct size_models {
    struct bell_context *ctx;
    enum size_model kind;
    int64_t width, n_heads, max_b, max_s;
    struct bell_nn_transformer layer;
    struct bell_nn_rms_norm norms[2];
    struct bell_nn_linear gate;
    struct bell_tensor *x, *kept, *cosines, *sines; /* of the greatest sizes */
};

/* Makes and realizes it. False: it failed, bell_error_last says how. */
bool size_models_init(struct size_models *m, struct bell_context *ctx,
                      enum size_model kind, int64_t width, int64_t n_heads,
                      int64_t max_b, int64_t max_s);
void size_models_fini(struct size_models *m);

#define SIZE_MODEL_MAX_OUT 16

/* Results for a batch of b and sequences of s: what the block makes of x; with
 * `trains` the mean of the squares of that and x, and gradients to x and to all
 * weights. Returns how many, 0 after a failure. */
uint32_t size_models_step(const struct size_models *m, struct bell_dim b,
                          struct bell_dim s, bool trains,
                          struct bell_tensor *out[SIZE_MODEL_MAX_OUT]);

#endif
