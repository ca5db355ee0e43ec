/* The same work in plain C and, where there is one, with OpenBLAS: what the
 * benchmarks compare with. Compiled for this very processor, with the
 * arithmetic freedom a compiler needs to vectorise sums (-ffast-math).
 * Matrices are row-major float32.
 */
#ifndef BELL_TESTS_BENCH_PEERS_H
#define BELL_TESTS_BENCH_PEERS_H

#include <stddef.h>
#include <stdint.h>

/* Starts the worker threads that every function here uses. */
void peers_init(unsigned n_threads);
void peers_fini(void);

void peer_add(float *out, const float *x, const float *y, size_t n);
float peer_sum(const float *x, size_t n);
/* Over the last axis of [rows, cols]. */
void peer_softmax(float *out, const float *x, size_t rows, size_t cols);
void peer_layer_norm(float *out, const float *x, size_t rows, size_t cols);

#if BELL_HAVE_OPENBLAS
/* out[n, n] = x @ y. */
void peer_matmul(float *out, const float *x, const float *y, int n);

/* 3x3, stride 1, padding 1, by im2col; `cols` has room for one image's
 * columns: 9 * c_in * h * w. */
struct peer_conv {
    int n, c_in, c_out, h, w;
    float *cols;
};
void peer_conv2d(const struct peer_conv *conv, float *out, const float *x,
                 const float *weight);

/* A training step of an MLP with ReLU, softmax cross-entropy and SGD.
 * sizes[0..n_layers]; weight i is [sizes[i], sizes[i+1]]. */
#define PEER_MLP_LAYERS 3
struct peer_mlp {
    int batch;
    int sizes[PEER_MLP_LAYERS + 1];
    float lr;
    float *weights[PEER_MLP_LAYERS], *biases[PEER_MLP_LAYERS];
    float *grads[PEER_MLP_LAYERS]; /* as the weights */
    float *outs[PEER_MLP_LAYERS];  /* [batch, sizes[i+1]] */
    float *out_grads[PEER_MLP_LAYERS];
};
/* Returns the mean loss. */
float peer_mlp_step(const struct peer_mlp *mlp, const float *x,
                    const int32_t *labels);
#endif

#endif
