/* Plain loops over a small thread pool, and OpenBLAS calls. */
#include "tests/bench/peers.h"

#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#if BELL_HAVE_OPENBLAS
#include <cblas.h>
#endif

/* ---- thread pool ------------------------------------------------------ */

typedef void part_fn(void *user, size_t first, size_t last, unsigned part);

#define MAX_THREADS 64

static struct {
    pthread_mutex_t lock;
    pthread_cond_t start, done;
    pthread_t threads[MAX_THREADS];
    unsigned n_threads, n_busy;
    uint64_t generation;
    int stop;
    part_fn *fn;
    void *user;
    size_t n;
} pool = {.lock = PTHREAD_MUTEX_INITIALIZER,
          .start = PTHREAD_COND_INITIALIZER,
          .done = PTHREAD_COND_INITIALIZER,
          .n_threads = 1};

static void
run_part(unsigned part)
{
    size_t first = pool.n * part / pool.n_threads;
    size_t last = pool.n * (part + 1) / pool.n_threads;

    pool.fn(pool.user, first, last, part);
}

static void *
work(void *arg)
{
    unsigned part = (unsigned)(uintptr_t)arg;
    uint64_t seen = 0;

    for (;;) {
        pthread_mutex_lock(&pool.lock);
        while (pool.generation == seen && !pool.stop)
            pthread_cond_wait(&pool.start, &pool.lock);
        seen = pool.generation;
        pthread_mutex_unlock(&pool.lock);
        if (pool.stop)
            return NULL;
        run_part(part);
        pthread_mutex_lock(&pool.lock);
        if (--pool.n_busy == 0)
            pthread_cond_signal(&pool.done);
        pthread_mutex_unlock(&pool.lock);
    }
}

void
peers_init(unsigned n_threads)
{
    unsigned i;

    pool.n_threads = n_threads < MAX_THREADS ? n_threads : MAX_THREADS;
    for (i = 1; i < pool.n_threads; i++) {
        if (pthread_create(&pool.threads[i], NULL, work, (void *)(uintptr_t)i))
            abort();
    }
#if BELL_HAVE_OPENBLAS
    openblas_set_num_threads((int)n_threads);
#endif
}

void
peers_fini(void)
{
    unsigned i;

    pthread_mutex_lock(&pool.lock);
    pool.stop = 1;
    pthread_cond_broadcast(&pool.start);
    pthread_mutex_unlock(&pool.lock);
    for (i = 1; i < pool.n_threads; i++)
        pthread_join(pool.threads[i], NULL);
}

/* fn over 0..n-1, in one part for each thread. */
static void
run_parallel(part_fn *fn, void *user, size_t n)
{
    pthread_mutex_lock(&pool.lock);
    pool.fn = fn;
    pool.user = user;
    pool.n = n;
    pool.n_busy = pool.n_threads - 1;
    pool.generation++;
    pthread_cond_broadcast(&pool.start);
    pthread_mutex_unlock(&pool.lock);
    run_part(0);
    pthread_mutex_lock(&pool.lock);
    while (pool.n_busy)
        pthread_cond_wait(&pool.done, &pool.lock);
    pthread_mutex_unlock(&pool.lock);
}

/* ---- plain loops ------------------------------------------------------ */

struct loop {
    float *restrict out;
    const float *restrict x, *restrict y;
    size_t cols;
    double sums[MAX_THREADS];
};

static void
add_part(void *user, size_t first, size_t last, unsigned part)
{
    const struct loop *loop = user;
    float *restrict out = loop->out;
    const float *restrict x = loop->x, *restrict y = loop->y;
    size_t i;

    (void)part;
    for (i = first; i < last; i++)
        out[i] = x[i] + y[i];
}

void
peer_add(float *out, const float *x, const float *y, size_t n)
{
    struct loop loop = {.out = out, .x = x, .y = y};
    run_parallel(add_part, &loop, n);
}

static void
sum_part(void *user, size_t first, size_t last, unsigned part)
{
    struct loop *loop = user;
    float sum = 0;
    size_t i;

    for (i = first; i < last; i++)
        sum += loop->x[i];
    loop->sums[part] = (double)sum;
}

float
peer_sum(const float *x, size_t n)
{
    struct loop loop = {.x = x};
    double sum = 0;
    unsigned i;

    run_parallel(sum_part, &loop, n);
    for (i = 0; i < pool.n_threads; i++)
        sum += loop.sums[i];
    return (float)sum;
}

static void
softmax_part(void *user, size_t first, size_t last, unsigned part)
{
    const struct loop *loop = user;
    size_t row, i, n = loop->cols;

    (void)part;
    for (row = first; row < last; row++) {
        const float *restrict x = loop->x + row * n;
        float *restrict out = loop->out + row * n;
        float max = x[0], sum = 0;
        for (i = 1; i < n; i++)
            max = x[i] > max ? x[i] : max;
        for (i = 0; i < n; i++) {
            out[i] = expf(x[i] - max);
            sum += out[i];
        }
        sum = 1.0f / sum;
        for (i = 0; i < n; i++)
            out[i] *= sum;
    }
}

void
peer_softmax(float *out, const float *x, size_t rows, size_t cols)
{
    struct loop loop = {.out = out, .x = x, .cols = cols};
    run_parallel(softmax_part, &loop, rows);
}

static void
layer_norm_part(void *user, size_t first, size_t last, unsigned part)
{
    const struct loop *loop = user;
    size_t row, i, n = loop->cols;

    (void)part;
    for (row = first; row < last; row++) {
        const float *restrict x = loop->x + row * n;
        float *restrict out = loop->out + row * n;
        float mean = 0, var = 0, scale;
        for (i = 0; i < n; i++)
            mean += x[i];
        mean /= (float)n;
        for (i = 0; i < n; i++)
            var += (x[i] - mean) * (x[i] - mean);
        scale = 1.0f / sqrtf(var / (float)n + 1e-5f);
        for (i = 0; i < n; i++)
            out[i] = (x[i] - mean) * scale;
    }
}

void
peer_layer_norm(float *out, const float *x, size_t rows, size_t cols)
{
    struct loop loop = {.out = out, .x = x, .cols = cols};
    run_parallel(layer_norm_part, &loop, rows);
}

#if BELL_HAVE_OPENBLAS

/* ---- OpenBLAS --------------------------------------------------------- */

void
peer_matmul(float *out, const float *x, const float *y, int n)
{
    cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, n, n, n, 1, x, n, y,
                n, 0, out, n);
}

struct columns {
    const struct peer_conv *conv;
    const float *x; /* one image */
};

/* Rows [first, last) of the 9 * c_in rows of columns. */
static void
columns_part(void *user, size_t first, size_t last, unsigned part)
{
    const struct columns *columns = user;
    int h = columns->conv->h, w = columns->conv->w;
    size_t row;

    (void)part;
    for (row = first; row < last; row++) {
        const float *x = columns->x + row / 9 * (size_t)(h * w);
        float *out = columns->conv->cols + row * (size_t)(h * w);
        int dy = (int)(row % 9) / 3 - 1, dx = (int)(row % 3) - 1, i, j;
        for (i = 0; i < h; i++) {
            for (j = 0; j < w; j++) {
                int y = i + dy, z = j + dx;
                int inside = y >= 0 && y < h && z >= 0 && z < w;
                out[i * w + j] = inside ? x[y * w + z] : 0;
            }
        }
    }
}

void
peer_conv2d(const struct peer_conv *conv, float *out, const float *x,
            const float *weight)
{
    int pixels = conv->h * conv->w, depth = 9 * conv->c_in, i;

    for (i = 0; i < conv->n; i++) {
        struct columns columns = {conv, x + (size_t)i *
                                                (size_t)(conv->c_in * pixels)};
        run_parallel(columns_part, &columns, (size_t)depth);
        cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, conv->c_out,
                    pixels, depth, 1, weight, depth, conv->cols, pixels, 0,
                    out + (size_t)i * (size_t)(conv->c_out * pixels), pixels);
    }
}

/* outs[i] = act(in @ weight + bias) */
static void
forward_layer(const struct peer_mlp *mlp, int i, const float *in)
{
    int n_in = mlp->sizes[i], n_out = mlp->sizes[i + 1], row, j;
    float *out = mlp->outs[i];
    int is_last = i == PEER_MLP_LAYERS - 1;

    cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, mlp->batch, n_out,
                n_in, 1, in, n_in, mlp->weights[i], n_out, 0, out, n_out);
    for (row = 0; row < mlp->batch; row++) {
        float *restrict o = out + (size_t)row * (size_t)n_out;
        const float *restrict b = mlp->biases[i];
        for (j = 0; j < n_out; j++) {
            float v = o[j] + b[j];
            o[j] = v > 0 || is_last ? v : 0;
        }
    }
}

/* Gradient of the mean cross-entropy in the last out_grads. */
static float
loss_and_grad(const struct peer_mlp *mlp, const int32_t *labels)
{
    int n = mlp->sizes[PEER_MLP_LAYERS], row, j;
    float total = 0;

    for (row = 0; row < mlp->batch; row++) {
        const float *o = mlp->outs[PEER_MLP_LAYERS - 1] + row * n;
        float *g = mlp->out_grads[PEER_MLP_LAYERS - 1] + row * n;
        float max = o[0], sum = 0;
        for (j = 1; j < n; j++)
            max = o[j] > max ? o[j] : max;
        for (j = 0; j < n; j++) {
            g[j] = expf(o[j] - max);
            sum += g[j];
        }
        for (j = 0; j < n; j++)
            g[j] = g[j] / sum / (float)mlp->batch;
        total += logf(sum) + max - o[labels[row]];
        g[labels[row]] -= 1.0f / (float)mlp->batch;
    }
    return total / (float)mlp->batch;
}

static void
update_layer(const struct peer_mlp *mlp, int i)
{
    int n_in = mlp->sizes[i], n_out = mlp->sizes[i + 1], row, j;
    float *restrict w = mlp->weights[i];
    const float *restrict g = mlp->grads[i];

    for (j = 0; j < n_in * n_out; j++)
        w[j] -= mlp->lr * g[j];
    for (row = 0; row < mlp->batch; row++) {
        const float *og = mlp->out_grads[i] + (size_t)row * (size_t)n_out;
        for (j = 0; j < n_out; j++)
            mlp->biases[i][j] -= mlp->lr * og[j];
    }
}

static void
backward_layer(const struct peer_mlp *mlp, int i, const float *in)
{
    int n_in = mlp->sizes[i], n_out = mlp->sizes[i + 1], j;
    const float *og = mlp->out_grads[i];

    cblas_sgemm(CblasRowMajor, CblasTrans, CblasNoTrans, n_in, n_out,
                mlp->batch, 1, in, n_in, og, n_out, 0, mlp->grads[i], n_out);
    if (i > 0) {
        float *restrict g = mlp->out_grads[i - 1];
        const float *restrict o = mlp->outs[i - 1];
        cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasTrans, mlp->batch, n_in,
                    n_out, 1, og, n_out, mlp->weights[i], n_out, 0, g, n_in);
        for (j = 0; j < mlp->batch * n_in; j++)
            g[j] = o[j] > 0 ? g[j] : 0;
    }
    update_layer(mlp, i);
}

float
peer_mlp_step(const struct peer_mlp *mlp, const float *x, const int32_t *labels)
{
    float loss;
    int i;

    for (i = 0; i < PEER_MLP_LAYERS; i++)
        forward_layer(mlp, i, i ? mlp->outs[i - 1] : x);
    loss = loss_and_grad(mlp, labels);
    for (i = PEER_MLP_LAYERS - 1; i >= 0; i--)
        backward_layer(mlp, i, i ? mlp->outs[i - 1] : x);
    return loss;
}

#endif
