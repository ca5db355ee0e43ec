/* Attention and blocks of models of symbolic sizes beside the same of plain
 * ones: the time that a simulated chip needs at least, of all kernels
 * (docs/explanation/simulator.md).
 *
 * usage: bench_size_chips [bench options]
 * --filter takes a size too, "bert gradients 4x128"; that of the bounds is run
 * in any case.
 * BELL_DEVICE: NV@sim:h100 without. BELL_EACH: prints each kernel's time.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/bits.h"
#include "base/chip.h"
#include "doorbell/ops.h"
#include "doorbell/stats.h"
#include "ioctl/sim_count.h"
#include "tensor/runtime/ir.h"
#include "tests/bench/bench.h"
#include "tests/unit/size_models.h"

#define MAX_SIZES   4
#define SOME_GROUPS 24
#define MAX_KERNELS 128

enum what {
    ATTENTION,
    PRODUCT, /* of all columns of q by weights */
    CAUSAL,
    DECODE,           /* one query, the last */
    TRAINED,          /* causal, with gradients */
    FORWARD,          /* a block of a model */
    FORWARD_GRADIENTS /* and gradients to all weights */
};

static const struct layer {
    const char *name;
    enum what what;
    enum size_model model;
    int64_t heads, of_keys, d;   /* of a model, d is the width */
    int64_t sizes[MAX_SIZES][2]; /* batch, sequence; first the bounds */
} layers[] = {
    {"attention 12 x 64",
     ATTENTION,
     0,
     12,
     12,
     64,
     {{8, 512}, {4, 128}, {1, 512}, {8, 64}}},
    {"product 512 x 512",
     PRODUCT,
     0,
     1,
     1,
     512,
     {{8, 512}, {4, 128}, {8, 64}, {3, 384}}},
    {"causal 12 x 64",
     CAUSAL,
     0,
     12,
     12,
     64,
     {{8, 512}, {4, 128}, {1, 512}, {8, 64}}},
    {"causal 32 of 8 x 128",
     CAUSAL,
     0,
     32,
     8,
     128,
     {{2, 2048}, {1, 2048}, {1, 512}}},
    {"decode 32 of 8 x 128",
     DECODE,
     0,
     32,
     8,
     128,
     {{8, 4096}, {1, 4096}, {8, 512}, {1, 512}}},
    {"gradients 12 x 64",
     TRAINED,
     0,
     12,
     12,
     64,
     {{8, 512}, {4, 128}, {8, 64}}},
    {"bert",
     FORWARD,
     SIZE_MODEL_BERT,
     12,
     12,
     768,
     {{8, 512}, {4, 128}, {1, 512}, {8, 64}}},
    {"gpt2",
     FORWARD,
     SIZE_MODEL_GPT2,
     12,
     12,
     768,
     {{8, 512}, {4, 128}, {1, 512}, {8, 64}}},
    {"llama",
     FORWARD,
     SIZE_MODEL_LLAMA,
     12,
     12,
     768,
     {{8, 512}, {4, 128}, {1, 512}, {8, 64}}},
    {"bert gradients",
     FORWARD_GRADIENTS,
     SIZE_MODEL_BERT,
     12,
     12,
     768,
     {{8, 512}, {4, 128}}},
    {"gpt2 gradients",
     FORWARD_GRADIENTS,
     SIZE_MODEL_GPT2,
     12,
     12,
     768,
     {{8, 512}, {4, 128}}},
    {"llama gradients",
     FORWARD_GRADIENTS,
     SIZE_MODEL_LLAMA,
     12,
     12,
     768,
     {{8, 512}, {4, 128}}},
};

struct run {
    const struct layer *layer;
    struct bell_context *ctx;
    struct bell_tensor *q, *k, *v;
    struct size_models models;
    const struct chip *chip;
    /* of the present step */
    double us;
    uint32_t n_kernels;
    /* Bytes that each kernel of the plain sizes has to move: of a symbol they
     * are only known for the bound. */
    double n_bytes[MAX_KERNELS];
    uint32_t n_plain; /* 0 while these are run */
    double share;     /* of the rows that there can be, those that there are */
    double class_share;          /* the same of those of its size class */
    char names[MAX_KERNELS][64]; /* of the kernels at the bounds */
    bool is_bound;               /* these are the sizes now */
    bool prints;
};

static struct bell_tensor *
first(struct bell_tensor *t, struct bell_dim b, struct bell_dim s)
{
    return bell_narrow(bell_narrow(t, 0, 0, b), 2, 0, s);
}

static struct bell_tensor *
zeros(struct bell_context *ctx, int64_t b, int64_t heads, int64_t s, int64_t d)
{
    uint16_t *data = calloc((size_t)(b * heads * s * d), sizeof(*data));
    struct bell_tensor *t = NULL;

    if (data)
        t = bell_from_data(ctx, BELL_DIMS(b, heads, s, d), BELL_BFLOAT16, data);
    free(data);
    return t && bell_realize1(t) == BELL_OK ? t : NULL;
}

/* Results; how many. */
static uint32_t
build(const struct run *run, struct bell_dim b, struct bell_dim s,
      struct bell_tensor *out[SIZE_MODEL_MAX_OUT])
{
    const struct layer *l = run->layer;
    struct bell_tensor *of[3], *loss;

    if (l->what >= FORWARD)
        return size_models_step(&run->models, b, s,
                                l->what == FORWARD_GRADIENTS, out);
    of[0] = first(run->q, b, s);
    of[1] = first(run->k, b, s);
    of[2] = first(run->v, b, s);
    if (l->what == DECODE)
        of[0] = bell_narrow(of[0], 2, 0, bell_dim_of(1));
    if (l->what == PRODUCT) {
        of[1] = bell_narrow(run->k, 0, 0, bell_dim_of(1));
        of[1] = bell_narrow(of[1], 2, 0, bell_dim_of(l->d));
        out[0] = bell_matmul(of[0], of[1]);
        return 1;
    }
    out[0] = bell_scaled_dot_product_attention(
        of[0], of[1], of[2], NULL, 0, l->what != ATTENTION && l->what != DECODE,
        0);
    if (l->what != TRAINED)
        return 1;
    loss = bell_cast(out[0], BELL_FLOAT32);
    loss = bell_sum(bell_mul(loss, loss), BELL_NO_DIMS, false);
    return bell_gradient(loss, of, 3, out + 1) == BELL_OK ? 4 : 0;
}

/* Behind each kernel. */
static void
add_kernel(void *user, size_t number)
{
    struct run *run = user;
    struct chip_work work = {0};
    struct sim_counts c;
    struct tensor_ir ir;
    struct chip_time time;
    double scale;
    int i;

    sim_count_take(&c);
    if (!tensor_kernel_at(run->ctx, number, &ir) || !c.n_groups_run ||
        run->n_kernels == MAX_KERNELS)
        return;
    if (run->n_plain)
        ir.n_bytes = run->n_bytes[run->n_kernels];
    else
        run->n_bytes[run->n_kernels] = ir.n_bytes;
    scale = (double)c.n_groups / (double)c.n_groups_run;
    work.n_groups = c.n_groups;
    if (run->n_plain && run->is_bound)
        snprintf(run->names[run->n_kernels], sizeof(run->names[0]), "%.63s",
                 ir.name);
    if (run->n_plain) /* groups without rows have nothing to do */
        work.n_groups = (uint64_t)ceil(
            (double)c.n_groups * (!strcmp(ir.name, run->names[run->n_kernels])
                                      ? run->share
                                      : run->class_share));
    work.memory_bytes = work.sector_bytes =
        32.0 * (double)(c.load_sectors + c.store_sectors) * scale;
    if (ir.n_bytes < work.memory_bytes)
        work.memory_bytes = ir.n_bytes;
    work.n_wavefronts = (double)c.n_wavefronts * scale;
    for (i = 0; i < SIM_INSN_COUNT; i++)
        work.n_insns += i == SIM_INSN_SCALAR ? 0 : (double)c.n_insns[i] * scale;
    for (i = 0; i < CHIP_RATE_COUNT; i++)
        work.matrix_flops[i] = c.matrix_flops[i] * scale;
    time = chip_time(run->chip, &work);
    run->us += time.us;
    run->n_kernels++;
    if (run->prints)
        fprintf(stderr, "    %9.2f us by %s: %s, %llu groups\n", time.us,
                chip_term_names[time.limit], ir.name,
                (unsigned long long)work.n_groups);
}

/* The chip's time for one step, of which so many work-groups of each kernel
 * are run, 0: all; negative: it failed. */
static double
step(struct run *run, uint64_t n_groups, struct bell_dim b, struct bell_dim s)
{
    struct bell_tensor *out[SIZE_MODEL_MAX_OUT];
    bool good;
    uint32_t n;

    run->us = 0;
    run->n_kernels = 0;
    good = bell_scope_begin(run->ctx) == BELL_OK;
    n = good ? build(run, b, s, out) : 0;
    good = n && tensor_watch_kernels(run->ctx, add_kernel, run) == BELL_OK;
    sim_count_begin(n_groups);
    good = good && bell_realize(out, n) == BELL_OK;
    sim_count_end();
    good = tensor_watch_kernels(run->ctx, NULL, NULL) == BELL_OK && good;
    if (!good)
        fprintf(stderr, "%s\n", bell_error_last()->message);
    return bell_scope_end(run->ctx) == BELL_OK && good ? run->us : -1;
}

/* The bound of a size's class (lower/classes.h). */
static double
class_of(const struct layer *l, size_t i, int axis)
{
    int64_t most = l->sizes[0][axis];

    while (most > 1 && l->sizes[i][axis] <= (most + 1) / 2)
        most = (most + 1) / 2;
    return (double)most;
}

static int
compare_layer(struct bench *bench, struct run *run, struct bell_dim b,
              struct bell_dim s)
{
    const struct layer *l = run->layer;
    size_t i;

    for (i = 0; i < MAX_SIZES && l->sizes[i][0]; i++) {
        double plain, own;
        /* with fewer values some groups have nothing to do: all are run */
        uint64_t n_groups = i == 0 ? SOME_GROUPS : 0;
        uint32_t n_plain;
        char name[96];

        if (bell_symbol_set(run->ctx, b, l->sizes[i][0]) != BELL_OK ||
            bell_symbol_set(run->ctx, s, l->sizes[i][1]) != BELL_OK)
            return 1;
        snprintf(name, sizeof(name), "%s %dx%d", l->name, (int)l->sizes[i][0],
                 (int)l->sizes[i][1]);
        if (i > 0 && !bench_wants(bench, name))
            continue;
        run->n_plain = 0;
        run->is_bound = i == 0;
        run->share = (double)l->sizes[i][0] / (double)l->sizes[0][0];
        if (l->what != DECODE)
            run->share *= (double)l->sizes[i][1] / (double)l->sizes[0][1];
        run->class_share = (double)l->sizes[i][0] / class_of(l, i, 0);
        if (l->what != DECODE)
            run->class_share *= (double)l->sizes[i][1] / class_of(l, i, 1);
        plain = step(run, n_groups, bell_dim_of(l->sizes[i][0]),
                     bell_dim_of(l->sizes[i][1]));
        run->n_plain = n_plain = run->n_kernels;
        own = step(run, n_groups, b, s);
        if (plain < 0 || own < 0)
            return 1;
        json_object(&bench->json, NULL);
        json_str(&bench->json, "name", name);
        json_uint(&bench->json, "plain_launches", n_plain);
        json_uint(&bench->json, "launches", run->n_kernels);
        json_num(&bench->json, "plain_us", plain);
        json_num(&bench->json, "us", own);
        json_num(&bench->json, "ratio", own / plain);
        json_end(&bench->json);
        fprintf(stderr,
                "%-30s kernels %3u, plain %3u; %9.2f us, plain %9.2f: %.2f\n",
                name, run->n_kernels, n_plain, own, plain, own / plain);
    }
    return 0;
}

static int
run_layer(struct bench *bench, const struct layer *l, const char *device)
{
    struct run run = {.layer = l, .prints = getenv("BELL_EACH") != NULL};
    int64_t most_b = l->sizes[0][0], most_s = l->sizes[0][1];
    struct bell_dim b, s;
    bool good, is_wanted = false;
    char name[96];
    int failed = 1;
    size_t i;

    for (i = 0; i < MAX_SIZES && l->sizes[i][0]; i++) {
        snprintf(name, sizeof(name), "%s %dx%d", l->name, (int)l->sizes[i][0],
                 (int)l->sizes[i][1]);
        is_wanted |= bench_wants(bench, name);
    }
    if (!is_wanted)
        return 0;
    run.chip = chip_of_device(device, "");
    if (!run.chip || bell_context_create(device, &run.ctx) != BELL_OK) {
        fprintf(stderr, "%s: is not a simulated chip that is known\n", device);
        return 1;
    }
    b = bell_symbol(run.ctx, "b", 1, most_b);
    s = bell_symbol(run.ctx, "s", 1, most_s);
    if (l->what >= FORWARD) {
        good = size_models_init(&run.models, run.ctx, l->model, l->d, l->heads,
                                most_b, most_s);
    } else {
        run.q = zeros(run.ctx, most_b, l->heads, most_s, l->d);
        run.k = zeros(run.ctx, most_b, l->of_keys, most_s, l->d);
        run.v = zeros(run.ctx, most_b, l->of_keys, most_s, l->d);
        good = run.q && run.k && run.v;
    }
    if (good)
        failed = compare_layer(bench, &run, b, s);
    if (l->what >= FORWARD)
        size_models_fini(&run.models);
    bell_context_destroy(run.ctx);
    return failed;
}

int
main(int argc, char **argv)
{
    const char *device = getenv("BELL_DEVICE");
    struct bench bench;
    size_t i;

    bench_begin(&bench, argc, argv);
    for (i = 0; i < ARRAY_LEN(layers); i++)
        bench.n_failed +=
            run_layer(&bench, &layers[i], device ? device : "NV@sim:h100");
    return bench_end(&bench);
}
