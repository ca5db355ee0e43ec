/* Tensor operations beside plain C and OpenBLAS, in one process. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include "doorbell/stats.h"
#include "doorbell/tensor.h"
#include "tests/bench/bench.h"
#include "tests/bench/peers.h"

/* Everything a case needs; unused parts stay NULL. */
struct fixture {
    struct bell_context *ctx;
    struct bell_tensor *x, *y;
    struct bell_tensor *fence; /* reading it waits for all work before */
    struct bell_tensor *(*op)(struct bell_tensor *x, struct bell_tensor *y);
    float *hx, *hy, *hout;
    size_t n, rows, cols;
};

static float *
alloc_floats(size_t n)
{
    float *values = aligned_alloc(64, (n * sizeof(float) + 63) / 64 * 64);
    uint64_t state = 1;
    size_t i;

    if (!values)
        abort();
    for (i = 0; i < n; i++) {
        state = state * 6364136223846793005ull + 1442695040888963407ull;
        values[i] = (float)(state >> 40) / (float)(1 << 24) - 0.5f;
    }
    return values;
}

static struct bell_tensor *
upload(struct bell_context *ctx, const float *values, const int64_t *shape,
       uint32_t ndim)
{
    return bell_from_data(ctx, shape, ndim, BELL_FLOAT32, values);
}

static int
wait_for_work(struct fixture *f)
{
    double value;

    return bell_item_f64(f->fence, &value) != BELL_OK;
}

static int
run_op(void *user)
{
    struct fixture *f = user;
    int failed;

    if (bell_scope_begin(f->ctx) != BELL_OK)
        return 1;
    failed = bell_realize1(f->op(f->x, f->y)) != BELL_OK || wait_for_work(f);
    failed |= bell_scope_end(f->ctx) != BELL_OK;
    if (failed)
        fprintf(stderr, "%s\n", bell_error_last()->message);
    return failed;
}

static void
peer_run_add(void *user)
{
    struct fixture *f = user;
    peer_add(f->hout, f->hx, f->hy, f->n);
}

static void
peer_run_sum(void *user)
{
    struct fixture *f = user;
    f->hout[0] = peer_sum(f->hx, f->n);
}

static void
peer_run_softmax(void *user)
{
    struct fixture *f = user;
    peer_softmax(f->hout, f->hx, f->rows, f->cols);
}

static void
peer_run_layer_norm(void *user)
{
    struct fixture *f = user;
    peer_layer_norm(f->hout, f->hx, f->rows, f->cols);
}

static struct bell_tensor *
op_add(struct bell_tensor *x, struct bell_tensor *y)
{
    return bell_add(x, y);
}

static struct bell_tensor *
op_sum(struct bell_tensor *x, struct bell_tensor *y)
{
    (void)y;
    return bell_sum(x, BELL_NO_DIMS, false);
}

static struct bell_tensor *
op_softmax(struct bell_tensor *x, struct bell_tensor *y)
{
    (void)y;
    return bell_softmax(x, -1);
}

static struct bell_tensor *
op_layer_norm(struct bell_tensor *x, struct bell_tensor *y)
{
    (void)y;
    return bell_layer_norm(x, 1, NULL, NULL, 1e-5);
}

static void
fixture_fini(struct fixture *f)
{
    bell_tensor_release(f->x);
    bell_tensor_release(f->y);
    bell_tensor_release(f->fence);
    free(f->hx);
    free(f->hy);
    free(f->hout);
}

/* x and y of `rows` by `cols` floats (y only with `binary`). */
static struct fixture
make_fixture(struct bell_context *ctx, size_t rows, size_t cols, int binary)
{
    struct fixture f = {.ctx = ctx, .rows = rows, .cols = cols};

    f.n = rows * cols;
    f.hx = alloc_floats(f.n);
    f.hout = alloc_floats(f.n);
    f.x = upload(ctx, f.hx, BELL_DIMS((int64_t)rows, (int64_t)cols));
    if (binary) {
        f.hy = alloc_floats(f.n);
        f.y = upload(ctx, f.hy, BELL_DIMS((int64_t)rows, (int64_t)cols));
    }
    f.fence = bell_zeros(ctx, BELL_DIMS(1), BELL_FLOAT32);
    return f;
}

static void
bench_memory_ops(struct bench *bench, struct bell_context *ctx)
{
    static const struct {
        const char *name;
        size_t rows, cols;
        int binary;
        struct bell_tensor *(*op)(struct bell_tensor *, struct bell_tensor *);
        void (*peer)(void *);
        double bytes_per_elem;
    } ops[] = {
        {"add 64Mi", 8192, 8192, 1, op_add, peer_run_add, 12},
        {"sum 64Mi", 8192, 8192, 0, op_sum, peer_run_sum, 4},
        {"softmax 4096x4096", 4096, 4096, 0, op_softmax, peer_run_softmax, 8},
        {"layer_norm 4096x4096", 4096, 4096, 0, op_layer_norm,
         peer_run_layer_norm, 8},
    };
    size_t i;

    for (i = 0; i < sizeof(ops) / sizeof(ops[0]); i++) {
        struct fixture f;
        if (!bench_wants(bench, ops[i].name))
            continue;
        f = make_fixture(ctx, ops[i].rows, ops[i].cols, ops[i].binary);
        f.op = ops[i].op;
        bench_run(bench, &(struct bench_case){
                             .name = ops[i].name,
                             .ours = run_op,
                             .peer = ops[i].peer,
                             .peer_name = "plain C",
                             .user = &f,
                             .n_bytes = ops[i].bytes_per_elem * (double)f.n,
                         });
        fixture_fini(&f);
    }
}

/* One element: how long it takes from a call to its value. */
static int
run_small_add(void *user)
{
    struct fixture *f = user;
    double value;
    int failed;

    if (bell_scope_begin(f->ctx) != BELL_OK)
        return 1;
    failed = bell_item_f64(bell_add(f->x, f->y), &value) != BELL_OK;
    failed |= bell_scope_end(f->ctx) != BELL_OK;
    return failed;
}

static void
bench_small_add(struct bench *bench, struct bell_context *ctx)
{
    struct fixture f;

    if (!bench_wants(bench, "add 1"))
        return;
    f = make_fixture(ctx, 1, 1, 1);
    bench_run(bench, &(struct bench_case){
                         .name = "add 1", .ours = run_small_add, .user = &f});
    fixture_fini(&f);
}

/* ---- products --------------------------------------------------------- */

#if BELL_HAVE_OPENBLAS
#define BLAS_NAME "OpenBLAS"
#define BLAS(fn)  fn

static void
peer_run_matmul(void *user)
{
    struct fixture *f = user;
    peer_matmul(f->hout, f->hx, f->hy, (int)f->rows);
}

static void
peer_run_conv2d(void *user)
{
    struct fixture *f = user;
    struct peer_conv conv = {8, 64, 64, 56, 56, f->hout + 8 * 64 * 56 * 56};

    peer_conv2d(&conv, f->hout, f->hx, f->hy);
}
#else
#define BLAS_NAME NULL
#define BLAS(fn)  NULL
#endif

static struct bell_tensor *
op_matmul(struct bell_tensor *x, struct bell_tensor *y)
{
    return bell_matmul(x, y);
}

static struct bell_tensor *
op_conv2d(struct bell_tensor *x, struct bell_tensor *y)
{
    static const struct bell_conv_options opt = {.struct_size = sizeof(opt),
                                                 .padding = {1, 1}};

    return bell_conv2d(x, y, NULL, &opt);
}

static void
bench_matmul(struct bench *bench, struct bell_context *ctx, size_t n)
{
    struct fixture f;
    char name[32];

    snprintf(name, sizeof(name), "matmul %zu", n);
    if (!bench_wants(bench, name))
        return;
    f = make_fixture(ctx, n, n, 1);
    f.op = op_matmul;
    bench_run(bench, &(struct bench_case){
                         .name = name,
                         .ours = run_op,
                         .peer = BLAS(peer_run_matmul),
                         .peer_name = BLAS_NAME,
                         .user = &f,
                         .n_flops = 2.0 * (double)n * (double)n * (double)n,
                     });
    fixture_fini(&f);
}

static void
bench_conv2d(struct bench *bench, struct bell_context *ctx)
{
    struct fixture f = {.ctx = ctx, .op = op_conv2d};

    if (!bench_wants(bench, "conv2d 3x3"))
        return;
    f.hx = alloc_floats(8 * 64 * 56 * 56);
    f.hy = alloc_floats(64 * 64 * 9);
    /* The peer's result, and its columns after it. */
    f.hout = alloc_floats(8 * 64 * 56 * 56 + 9 * 64 * 56 * 56);
    f.x = upload(ctx, f.hx, BELL_DIMS(8, 64, 56, 56));
    f.y = upload(ctx, f.hy, BELL_DIMS(64, 64, 3, 3));
    f.fence = bell_zeros(ctx, BELL_DIMS(1), BELL_FLOAT32);
    bench_run(bench, &(struct bench_case){
                         .name = "conv2d 3x3 8x64x56x56",
                         .ours = run_op,
                         .peer = BLAS(peer_run_conv2d),
                         .peer_name = BLAS_NAME,
                         .user = &f,
                         .n_flops = 2.0 * 8 * 64 * 56 * 56 * 64 * 9,
                     });
    fixture_fini(&f);
}

/* ---- a training step -------------------------------------------------- */

#define MLP_LAYERS 3
#define MLP_BATCH  512
static const int mlp_sizes[MLP_LAYERS + 1] = {784, 512, 512, 10};

struct mlp {
    struct bell_context *ctx;
    struct bell_tensor *x, *labels;
    struct bell_tensor *params[2 * MLP_LAYERS]; /* weight, bias, weight, ... */
    struct bell_tensor *fence;
    float *hx;
    int32_t *hlabels;
#if BELL_HAVE_OPENBLAS
    struct peer_mlp peer;
#endif
};

static struct bell_tensor *
mlp_loss(struct mlp *mlp)
{
    struct bell_tensor *h = mlp->x;
    int i;

    for (i = 0; i < MLP_LAYERS; i++) {
        h = bell_add(bell_matmul(h, mlp->params[2 * i]),
                     mlp->params[2 * i + 1]);
        if (i < MLP_LAYERS - 1)
            h = bell_relu(h);
    }
    return bell_cross_entropy(h, mlp->labels, 0, BELL_IGNORE_NONE, BELL_MEAN);
}

static int
mlp_step(struct mlp *mlp)
{
    struct bell_tensor *grads[2 * MLP_LAYERS], *lr;
    int i;

    if (bell_gradient(mlp_loss(mlp), mlp->params, 2 * MLP_LAYERS, grads) !=
        BELL_OK)
        return 1;
    lr = bell_scalar(mlp->ctx, 0.01);
    for (i = 0; i < 2 * MLP_LAYERS; i++)
        bell_assign(mlp->params[i],
                    bell_sub(mlp->params[i], bell_mul(lr, grads[i])));
    return bell_realize(mlp->params, 2 * MLP_LAYERS) != BELL_OK;
}

static int
run_mlp(void *user)
{
    struct mlp *mlp = user;
    double value;
    int failed;

    if (bell_scope_begin(mlp->ctx) != BELL_OK)
        return 1;
    failed = mlp_step(mlp) || bell_item_f64(mlp->fence, &value) != BELL_OK;
    failed |= bell_scope_end(mlp->ctx) != BELL_OK;
    if (failed)
        fprintf(stderr, "%s\n", bell_error_last()->message);
    return failed;
}

#if BELL_HAVE_OPENBLAS
static void
peer_run_mlp(void *user)
{
    struct mlp *mlp = user;
    peer_mlp_step(&mlp->peer, mlp->hx, mlp->hlabels);
}

static void
peer_mlp_init(struct peer_mlp *peer)
{
    int i;

    *peer = (struct peer_mlp){.batch = MLP_BATCH, .lr = 0.01f};
    for (i = 0; i <= MLP_LAYERS; i++)
        peer->sizes[i] = mlp_sizes[i];
    for (i = 0; i < MLP_LAYERS; i++) {
        size_t n_weights = (size_t)(mlp_sizes[i] * mlp_sizes[i + 1]);
        size_t n_outs = (size_t)(MLP_BATCH * mlp_sizes[i + 1]);
        peer->weights[i] = alloc_floats(n_weights);
        peer->grads[i] = alloc_floats(n_weights);
        peer->biases[i] = alloc_floats((size_t)mlp_sizes[i + 1]);
        peer->outs[i] = alloc_floats(n_outs);
        peer->out_grads[i] = alloc_floats(n_outs);
    }
}

static void
peer_mlp_fini(struct peer_mlp *peer)
{
    int i;

    for (i = 0; i < MLP_LAYERS; i++) {
        free(peer->weights[i]);
        free(peer->grads[i]);
        free(peer->biases[i]);
        free(peer->outs[i]);
        free(peer->out_grads[i]);
    }
}
#endif

static void
bench_mlp(struct bench *bench, struct bell_context *ctx)
{
    struct mlp mlp = {.ctx = ctx};
    double n_flops = 0;
    int i;

    if (!bench_wants(bench, "mlp step"))
        return;
    mlp.hx = alloc_floats(MLP_BATCH * 784);
    mlp.hlabels = malloc(MLP_BATCH * sizeof(*mlp.hlabels));
    for (i = 0; mlp.hlabels && i < MLP_BATCH; i++)
        mlp.hlabels[i] = i % 10;
    mlp.x = upload(ctx, mlp.hx, BELL_DIMS(MLP_BATCH, 784));
    mlp.labels =
        bell_from_data(ctx, BELL_DIMS(MLP_BATCH), BELL_INT32, mlp.hlabels);
    mlp.fence = bell_zeros(ctx, BELL_DIMS(1), BELL_FLOAT32);
    for (i = 0; i < MLP_LAYERS; i++) {
        int64_t n_in = mlp_sizes[i], n_out = mlp_sizes[i + 1];
        mlp.params[2 * i] = bell_requires_grad(
            bell_glorot_uniform(ctx, BELL_DIMS(n_in, n_out), BELL_FLOAT32),
            true);
        mlp.params[2 * i + 1] = bell_requires_grad(
            bell_zeros(ctx, BELL_DIMS(n_out), BELL_FLOAT32), true);
        n_flops += (i ? 6.0 : 4.0) * MLP_BATCH * (double)(n_in * n_out);
    }
#if BELL_HAVE_OPENBLAS
    peer_mlp_init(&mlp.peer);
#endif
    bench_run(bench, &(struct bench_case){
                         .name = "mlp step 784-512-512-10 batch 512",
                         .ours = run_mlp,
                         .peer = BLAS(peer_run_mlp),
                         .peer_name = BLAS_NAME,
                         .user = &mlp,
                         .n_flops = n_flops,
                     });
#if BELL_HAVE_OPENBLAS
    peer_mlp_fini(&mlp.peer);
#endif
    free(mlp.hx);
    free(mlp.hlabels);
}

int
main(int argc, char **argv)
{
    struct bell_context *ctx;
    struct bench bench;

    bench_begin(&bench, argc, argv);
    if (bell_context_create(NULL, &ctx) != BELL_OK) {
        fprintf(stderr, "%s\n", bell_error_last()->message);
        return 1;
    }
    peers_init(bench.n_threads);
    bench_memory_ops(&bench, ctx);
    bench_small_add(&bench, ctx);
    bench_matmul(&bench, ctx, 512);
    bench_matmul(&bench, ctx, 1024);
    bench_matmul(&bench, ctx, 2048);
    bench_conv2d(&bench, ctx);
    bench_mlp(&bench, ctx);
    peers_fini();
    bell_context_destroy(ctx);
    return bench_end(&bench);
}
