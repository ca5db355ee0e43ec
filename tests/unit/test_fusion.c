/* What programs become on GPUs of the size that real ones have: how many
 * kernels, and whether products are made of matrix instructions. Nothing runs:
 * they are compiled only. Limits are what is reached today. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/bits.h"
#include "base/log.h"
#include "doorbell/nn.h"
#include "doorbell/ops.h"
#include "doorbell/stats.h"
#include "doorbell/tensor.h"
#include "tensor/runtime/ir.h"
#include "tensor/runtime/runtime.h"
#include "tensor/core/tensor_internal.h"
#include "tests/unit/expect.h"

/* Kernels, at most, on NVIDIA's and AMD's chips. */
static const struct device {
    const char *name;
    const char *matrix[3]; /* one of them begins a matrix instruction */
    uint32_t attention, block, backward, mlp, adam, token;
} devices[] = {
    {"NV@null:h100", {"wgmma.mma_async", "mma.sync"}, 1, 7, 24, 12, 0, 9},
    {"AMD@null:mi300x", {"llvm.amdgcn.mfma."}, 1, 7, 23, 12, 0, 9},
    {"AMD@null:rx7900xtx", {"llvm.amdgcn.wmma."}, 1, 7, 23, 12, 0, 9},
};

static const struct device *device;
static struct bell_context *ctx;

static void
set_up(const struct device *which)
{
    device = which;
    expect_ok(bell_context_create(which->name, &ctx));
}

static struct bell_tensor *
input(const int64_t *shape, uint32_t ndim)
{
    struct bell_tensor *x = bell_empty(ctx, shape, ndim, BELL_BFLOAT16);

    expect_ok(bell_realize1(x));
    return x;
}
#define INPUT(...) input(BELL_DIMS(__VA_ARGS__))

static uint64_t
n_planned(void)
{
    struct bell_stats stats = {.struct_size = sizeof(stats)};

    bell_context_stats(ctx, &stats);
    return stats.n_kernels_planned;
}

static void
check_most(const char *what, uint64_t n_now, uint64_t most)
{
    int64_t n = (int64_t)n_now; /* beyond others: fewer, perhaps */

    if (getenv("BELL_TEST_COUNTS"))
        print_message("%s: %s: %d kernels\n", device->name, what, (int)n);
    if (n > (int64_t)most)
        fail_msg("%s on %s: %d kernels, not %d", what, bell_context_device(ctx),
                 (int)n, (int)most);
}

static void
expect_kernels(const char *what, struct bell_tensor *t, uint64_t most)
{
    uint64_t before = n_planned();

    expect_ok(bell_compile(&t, 1));
    check_most(what, n_planned() - before, most);
}

/* ---- programs ---- */

/* The parameters of a block of GPT-2's, and what it is applied to. */
struct block {
    struct bell_tensor *x, *ln[2][2], *w[6], *b[6];
};

enum {
    Q,
    K,
    V,
    OUT,
    UP,
    DOWN
};

static void
make_block(struct block *p, int64_t n)
{
    int i;

    p->x = INPUT(n, 768);
    for (i = 0; i < 6; i++) {
        p->w[i] = i == UP     ? INPUT(3072, 768)
                  : i == DOWN ? INPUT(768, 3072)
                              : INPUT(768, 768);
        p->b[i] = i == UP ? INPUT(3072) : INPUT(768);
    }
    for (i = 0; i < 4; i++)
        p->ln[i / 2][i % 2] = INPUT(768);
}

/* n x 768, of heads: 12 of n x 64. */
static struct bell_tensor *
heads(struct bell_tensor *x, int64_t n)
{
    return bell_permute(bell_reshape(x, BELL_DIMS(1, n, 12, 64)),
                        (int64_t[]){0, 2, 1, 3}, 4);
}

static struct bell_tensor *
block(const struct block *p)
{
    int64_t n = bell_shape(p->x)[0];
    struct bell_tensor *x = p->x, *y, *part[3];
    int i;

    y = bell_layer_norm(x, 1, p->ln[0][0], p->ln[0][1], 1e-5);
    for (i = Q; i <= V; i++)
        part[i] = heads(bell_linear(y, p->w[i], p->b[i]), n);
    y = bell_scaled_dot_product_attention(part[Q], part[K], part[V], NULL, 0,
                                          true, 0);
    y = bell_reshape(bell_permute(y, (int64_t[]){0, 2, 1, 3}, 4),
                     BELL_DIMS(n, 768));
    x = bell_add(x, bell_linear(y, p->w[OUT], p->b[OUT]));
    y = bell_layer_norm(x, 1, p->ln[1][0], p->ln[1][1], 1e-5);
    y = bell_gelu(bell_linear(y, p->w[UP], p->b[UP]), true);
    return bell_add(x, bell_linear(y, p->w[DOWN], p->b[DOWN]));
}

/* Fills list with all of them; how many. */
static uint32_t
block_params(const struct block *p, struct bell_tensor *list[16])
{
    uint32_t n = 0, i;

    for (i = 0; i < 4; i++)
        list[n++] = p->ln[i / 2][i % 2];
    for (i = 0; i < 6; i++) {
        list[n++] = p->w[i];
        list[n++] = p->b[i];
    }
    return n;
}

/* The result and the gradients of all parameters and of x. */
static uint32_t
block_gradients(const struct block *p, struct bell_tensor *out[18])
{
    struct bell_tensor *params[17], *y = block(p);
    uint32_t n = block_params(p, params);

    params[n++] = p->x;
    expect_ok(bell_vjp(y, INPUT(bell_shape(y)[0], 768), params, n, out));
    out[n++] = y;
    return n;
}

/* ---- kernels ---- */

static void
test_rows(void **state)
{
    struct bell_tensor *x, *w;
    size_t i;

    (void)state;
    for (i = 0; i < ARRAY_LEN(devices); i++) {
        set_up(&devices[i]);
        x = INPUT(4096, 4096);
        w = INPUT(4096, 4096);
        expect_kernels("softmax", bell_softmax(x, -1), 1);
        expect_kernels("log_softmax", bell_log_softmax(x, -1), 1);
        expect_kernels("layer_norm", bell_layer_norm(x, 1, NULL, NULL, 1e-5),
                       1);
        expect_kernels("rms_norm", bell_rms_norm(x, NULL, 1e-5), 1);
        expect_kernels("argmax", bell_argmax(x, -1, false), 1);
        expect_kernels("softmax of a product",
                       bell_softmax(bell_matmul(x, w), -1), 2);
        expect_kernels("attention",
                       bell_scaled_dot_product_attention(
                           INPUT(16, 2048, 128), INPUT(16, 2048, 128),
                           INPUT(16, 2048, 128), NULL, 0, false, 0),
                       device->attention);
        bell_context_destroy(ctx);
    }
}

/* ---- products ---- */

#define MAX_KERNELS 160

/* What is seen of the kernels as they are rendered, in their order. */
struct seen {
    size_t n;
    uint32_t n_matrix[MAX_KERNELS];
};

static void
look_at_line(void *user, const char *line)
{
    struct seen *seen = user;
    size_t i;

    if (strncmp(line, "render: ", 8) != 0 ||
        strncmp(line, "render: LLVM", 12) == 0)
        return;
    line += 8;
    if (line[0] != ' ' && line[strlen(line) - 1] == ':') {
        assert_true(seen->n < MAX_KERNELS);
        seen->n++;
        return;
    }
    for (i = 0; i < ARRAY_LEN(device->matrix); i++) {
        if (device->matrix[i] && strstr(line, device->matrix[i]) &&
            !strstr(line, "declare"))
            seen->n_matrix[seen->n - 1]++;
    }
}

/* Kernels that do more than so many operations for a byte are products. */
#define PRODUCT_INTENSITY 24

/* Compiles them; of the kernels, those that are the same counted once, at least
 * so many have matrix instructions, and at most so many products have none. */
static void
check_products(const char *what, struct bell_tensor *const *tensors, size_t n,
               uint32_t least, uint32_t most_without)
{
    struct seen seen = {0};
    uint32_t mask = log_mask;
    struct tensor_ir ir;
    uint32_t n_products = 0, n_without = 0;
    size_t first = 0, i;

    while (tensor_kernel_at(ctx, first, &ir))
        first++;
    bell_log_set(look_at_line, &seen);
    log_mask = LOG_RENDER;
    expect_ok(bell_compile(tensors, n));
    log_mask = mask;
    bell_log_set(NULL, NULL);
    for (i = 0; tensor_kernel_at(ctx, first + i, &ir); i++) {
        assert_true(i < seen.n);
        if (getenv("BELL_TEST_COUNTS"))
            print_message("  %s: %u, %.0f flops, %.1f a byte\n", ir.name,
                          seen.n_matrix[i], ir.n_flops,
                          ir.n_flops / ir.n_bytes);
        n_products += seen.n_matrix[i] > 0;
        n_without +=
            !seen.n_matrix[i] && ir.n_flops > PRODUCT_INTENSITY * ir.n_bytes;
    }
    assert_int_equal(i, seen.n);
    if (n_without > most_without)
        fail_msg("%s on %s: %u products have no matrix instruction, not %u",
                 what, device->name, n_without, most_without);
    if (n_products < least)
        fail_msg("%s on %s: %u kernels are products, not %u", what,
                 device->name, n_products, least);
}

/* ---- running sums ---- */

struct loads {
    uint32_t n, n_wide;
};

static void
look_at_load(void *user, const char *line)
{
    struct loads *loads = user;

    loads->n += strstr(line, "ld.global") != NULL;
    loads->n_wide += strstr(line, "ld.global.v4.b32") != NULL;
}

/* Running sums go over what they are of once, whatever the axis, 16 bytes a
 * load; of one long row, whose parts are summed first, twice. */
static void
test_running_sums(void **state)
{
    double once = 2 * 2.0 * 4096 * 4096;
    struct loads loads = {0};
    uint32_t mask = log_mask;
    struct bell_tensor *x, *y;
    struct tensor_ir ir;
    size_t i, n;

    (void)state;
    for (i = 0; i < ARRAY_LEN(devices); i++) {
        set_up(&devices[i]);
        x = INPUT(4096, 4096);
        y = bell_cumsum(x, 1);
        bell_log_set(look_at_load, &loads);
        log_mask = LOG_RENDER;
        expect_kernels("sums of rows", y, 1);
        log_mask = mask;
        bell_log_set(NULL, NULL);
        assert_int_equal(loads.n, loads.n_wide);
        if (i == 0)
            assert_int_not_equal(loads.n, 0);
        expect_kernels("sums of columns", bell_cumsum(x, 0), 1);
        for (n = 0; tensor_kernel_at(ctx, n, &ir); n++) {
            assert_true(ir.n_bytes == once);
            assert_true(ir.n_flops < 2 * once);
        }
        assert_int_equal(n, 2);
        expect_kernels("sums of a long row", bell_cumsum(INPUT(1 << 22), 0), 3);
        bell_context_destroy(ctx);
    }
}

/* ---- tiles ---- */

struct wanted {
    const char *line;
    bool is_there;
};

static void
look_for_line(void *user, const char *line)
{
    struct wanted *wanted = user;

    wanted->is_there |= strstr(line, wanted->line) != NULL;
}

/* Does the convolution's kernel print such a line of how it is made? */
static void
check_conv_line(int64_t channels, int64_t side, enum bell_dtype dtype,
                const char *line, bool is_there)
{
    const struct bell_conv_options options = {.struct_size = sizeof(options),
                                              .padding = {1, 1}};
    struct wanted wanted = {line, false};
    uint32_t mask = log_mask;
    struct bell_tensor *y = bell_conv2d(
        bell_cast(INPUT(32, channels, side, side), dtype),
        bell_cast(INPUT(channels, channels, 3, 3), dtype), NULL, &options);

    bell_log_set(look_for_line, &wanted);
    log_mask = LOG_OPT;
    expect_ok(bell_compile(&y, 1));
    log_mask = mask;
    bell_log_set(NULL, NULL);
    if (wanted.is_there != is_there)
        fail_msg("%s: %s '%s'", bell_context_device(ctx),
                 is_there ? "no" : "there is", line);
}

/* Tiles that an H100 was faster with than with those that it would have
 * else. */
static void
test_tiles(void **state)
{
    (void)state;
    set_up(&devices[0]);
    check_conv_line(256, 14, BELL_FLOAT32, "tiles of 64 x 64 of 256 x 6272",
                    true);
    check_conv_line(512, 7, BELL_BFLOAT16,
                    "matrix tiles of 128 x 64 of 512 x 1568", true);
    bell_context_destroy(ctx);
}

/* Channels that are not whole steps of matrix instructions: copies of image and
 * filters have zeros up to the next multiple of 16, but for multiples of 4
 * where those are many, and on RDNA for few filters alone. By the model,
 * without that 61 took 2 to 3 times as long as 64 do. */
static void
test_odd_channels(void **state)
{
    static const char *const names[] = {"NV@null:h100", "NV@null:a100",
                                        "AMD@null:mi300x"};
    size_t i;

    (void)state;
    expect_ok(bell_context_create("AMD@null:rx7900xtx", &ctx));
    check_conv_line(31, 14, BELL_BFLOAT16, "of 31 x 6272, 32 of 288 steps",
                    true);
    check_conv_line(22, 14, BELL_BFLOAT16, "of 22 x 6272, 32 of 288 steps",
                    true);
    check_conv_line(17, 14, BELL_BFLOAT16, "of 153 steps", true);
    check_conv_line(61, 14, BELL_BFLOAT16, "of 549 steps", true);
    bell_context_destroy(ctx);
    for (i = 0; i < ARRAY_LEN(names); i++) {
        expect_ok(bell_context_create(names[i], &ctx));
        check_conv_line(61, 14, BELL_BFLOAT16, "of 61 x 6272, 64 of 576 steps",
                        true);
        check_conv_line(31, 14, BELL_BFLOAT16, "of 31 x 6272, 64 of 288 steps",
                        true);
        check_conv_line(24, 14, BELL_BFLOAT16, "of 24 x 6272, 64 of 288 steps",
                        true);
        check_conv_line(17, 14, BELL_BFLOAT16, "of 17 x 6272, 64 of 288 steps",
                        true);
        check_conv_line(
            20, 14, BELL_BFLOAT16,
            i == 2 ? "of 20 x 6272, 64 of 288 steps" : "of 180 steps", true);
        check_conv_line(61, 14, BELL_FLOAT32, "of 576 steps", false);
        bell_context_destroy(ctx);
    }
}

/* Weights in float32, a product in bfloat16: rounded once, not where each is
 * read, so that matrix instructions take them. */
static void
test_rounded_factor(void **state)
{
    struct bell_tensor *w, *y;
    uint64_t before;
    size_t i;

    (void)state;
    for (i = 0; i < ARRAY_LEN(devices); i++) {
        set_up(&devices[i]);
        w = bell_empty(ctx, BELL_DIMS(1024, 1024), BELL_FLOAT32);
        expect_ok(bell_realize1(w));
        y = bell_matmul(INPUT(1024, 1024), bell_cast(w, BELL_BFLOAT16));
        before = n_planned();
        check_products("a rounded factor", &y, 1, 1, 0);
        check_most("a rounded factor", n_planned() - before, 2);
        bell_context_destroy(ctx);
    }
}

/* Factors of large products with odd rows are stored in rows of 16 bytes'
 * multiples first, where that is worth it. */
static void
test_odd_rows(void **state)
{
    static const struct {
        int64_t m, n, k;
        bool turn_x, turn_y;
        uint64_t kernels;
    } cases[] = {
        {4095, 4097, 4099, false, true, 2},
        {4095, 4097, 4099, false, false, 2},
        {4096, 4096, 5025, false, false, 2}, /* y, too: zeros are behind */
        {5025, 4096, 1024, true, false, 2},
        {4100, 1024, 1024, false, true, 1},  /* rows are as wanted */
        {1024, 1024, 1032, false, false, 0}, /* 2 where nothing copies */
        {1024, 1024, 1040, false, false, 1},
        {200, 16383, 4095, false, true, 1}, /* each element is used by few */
        {1023, 1025, 255, false, true, 1},
    };
    struct bell_tensor *x, *y;
    uint64_t before;
    size_t i, j;

    (void)state;
    for (j = 0; j < ARRAY_LEN(devices); j++) {
        set_up(&devices[j]);
        for (i = 0; i < ARRAY_LEN(cases); i++) {
            int64_t m = cases[i].m, n = cases[i].n, k = cases[i].k;
            uint64_t kernels = cases[i].kernels;
            if (kernels == 0)
                kernels = strncmp(device->name, "AMD", 3) == 0 ? 2 : 1;
            x = cases[i].turn_x ? bell_transpose(INPUT(k, m), 0, 1)
                                : INPUT(m, k);
            y = cases[i].turn_y ? bell_transpose(INPUT(n, k), 0, 1)
                                : INPUT(k, n);
            x = bell_matmul(x, y);
            before = n_planned();
            check_products("a product of odd rows", &x, 1, i == 0, 0);
            before = n_planned() - before; /* copies are one launch or two */
            if (before < kernels || before > (kernels > 1 ? 3 : 1))
                fail_msg("%d x %d x %d on %s: %d kernels, not %d", (int)m,
                         (int)n, (int)k, device->name, (int)before,
                         (int)kernels);
        }
        bell_context_destroy(ctx);
    }
}

/* In TF32 a factor that lies across the sum is turned by a kernel of its own,
 * but not for few rows. */
static void
test_turned_factor(void **state)
{
    static const struct {
        int64_t rows;
        bool turned;
        uint64_t kernels;
    } cases[] = {{2048, false, 2}, {2048, true, 1}, {512, false, 1}};
    struct bell_tensor *x, *w;
    uint64_t before;
    size_t i;

    (void)state;
    set_up(&devices[0]);
    expect_ok(bell_context_set_math(ctx, BELL_MATH_TF32));
    for (i = 0; i < ARRAY_LEN(cases); i++) {
        x = bell_empty(ctx, BELL_DIMS(cases[i].rows, 768), BELL_FLOAT32);
        w = bell_empty(ctx, BELL_DIMS(768, 768), BELL_FLOAT32);
        expect_ok(bell_realize1(x));
        expect_ok(bell_realize1(w));
        if (cases[i].turned)
            w = bell_transpose(w, 0, 1);
        x = bell_matmul(x, w);
        before = n_planned();
        expect_ok(bell_compile(&x, 1));
        assert_int_equal(n_planned() - before, cases[i].kernels);
    }
    /* what was made float32 is multiplied as what it was */
    x = bell_empty(ctx, BELL_DIMS(2048, 768), BELL_FLOAT8_E4M3FN);
    w = bell_empty(ctx, BELL_DIMS(768, 768), BELL_FLOAT8_E4M3FN);
    expect_ok(bell_realize1(x));
    expect_ok(bell_realize1(w));
    x = bell_matmul(bell_cast(x, BELL_FLOAT32), bell_cast(w, BELL_FLOAT32));
    before = n_planned();
    check_products("float32 of 8 bits", &x, 1, 1, 0);
    assert_int_equal(n_planned() - before, 1);
    bell_context_destroy(ctx);
}

/* float32, exactly: fewer tiles than a GPU has processors are parts of the sum,
 * which are added, where it is long enough. */
static void
test_parts_of_words(void **state)
{
    static const struct {
        int64_t m, n, k;
        uint64_t kernels;
    } cases[] = {
        {1024, 1024, 4096, 2}, {1024, 1024, 2048, 1}, {2048, 2048, 4096, 1}};
    struct bell_tensor *x, *w;
    uint64_t before;
    size_t i;

    (void)state;
    set_up(&devices[0]);
    for (i = 0; i < ARRAY_LEN(cases); i++) {
        x = bell_empty(ctx, BELL_DIMS(cases[i].m, cases[i].k), BELL_FLOAT32);
        w = bell_empty(ctx, BELL_DIMS(cases[i].k, cases[i].n), BELL_FLOAT32);
        expect_ok(bell_realize1(x));
        expect_ok(bell_realize1(w));
        x = bell_matmul(x, w);
        before = n_planned();
        expect_ok(bell_compile(&x, 1));
        assert_int_equal(n_planned() - before, cases[i].kernels);
    }
    bell_context_destroy(ctx);
}

/* On a CPU, which packs columns but not rows, only rows that lie across the sum
 * of many columns are, and rows of whole pages move apart. */
static void
test_turned_rows(void **state)
{
    static const struct {
        bool x, w;
        int64_t columns, steps;
        uint64_t kernels;
    } cases[] = {
        {true, false, 2048, 1000, 2}, {true, true, 2048, 1000, 2},
        {false, true, 2048, 1000, 1}, {true, false, 512, 1000, 2},
        {true, false, 256, 1000, 1},  {false, false, 2048, 1024, 2},
        {false, true, 2048, 1024, 2}, {false, false, 512, 1024, 1},
        {true, false, 2048, 1024, 3}, {false, false, 2048, 512, 1},
    };
    struct bell_tensor *x, *w;
    uint64_t before;
    size_t i;

    (void)state;
    expect_ok(bell_context_create("CPU@null:x86-64-v4", &ctx));
    for (i = 0; i < ARRAY_LEN(cases); i++) {
        int64_t n = cases[i].columns, k = cases[i].steps;
        x = cases[i].x ? bell_empty(ctx, BELL_DIMS(k, 1000), BELL_FLOAT32)
                       : bell_empty(ctx, BELL_DIMS(1000, k), BELL_FLOAT32);
        w = cases[i].w ? bell_empty(ctx, BELL_DIMS(n, k), BELL_FLOAT32)
                       : bell_empty(ctx, BELL_DIMS(k, n), BELL_FLOAT32);
        expect_ok(bell_realize1(x));
        expect_ok(bell_realize1(w));
        x = bell_matmul(cases[i].x ? bell_transpose(x, 0, 1) : x,
                        cases[i].w ? bell_transpose(w, 0, 1) : w);
        before = n_planned();
        expect_ok(bell_compile(&x, 1));
        assert_int_equal(n_planned() - before, cases[i].kernels);
    }
    bell_context_destroy(ctx);
}

static void
test_block(void **state)
{
    struct bell_tensor *out[18];
    struct block p;
    uint64_t before;
    uint32_t n;
    size_t i;

    (void)state;
    for (i = 0; i < ARRAY_LEN(devices); i++) {
        set_up(&devices[i]);
        make_block(&p, 1024);
        ctx->runtime->sched_target.packs_for = NULL; /* each by itself */
        out[0] = block(&p);
        check_products("a block", out, 1, 5, 0);
        n = block_gradients(&p, out);
        check_products("a block's gradients", out, n, 14, 0);
        bell_context_destroy(ctx);
        set_up(&devices[i]);
        make_block(&p, 1024);
        before = n_planned();
        out[0] = block(&p);
        check_products("a block", out, 1, 4, 0);
        check_most("a block", n_planned() - before, device->block);
        before = n_planned();
        n = block_gradients(&p, out);
        check_products("a block's gradients", out, n, 9, 0);
        check_most("a block's gradients", n_planned() - before,
                   device->backward);
        bell_context_destroy(ctx);
    }
}

/* A layer and its gradients in one go: products that may share a launch, of
 * more matrices that are copied by the card than any one has. */
static void
test_layer(void **state)
{
    struct bell_tensor *out[4], *given[3];
    size_t i;

    (void)state;
    for (i = 0; i < ARRAY_LEN(devices); i++) {
        set_up(&devices[i]);
        given[0] = INPUT(8192, 1024);
        given[1] = INPUT(4096, 1024);
        given[2] = INPUT(4096);
        out[3] = bell_linear(given[0], given[1], given[2]);
        expect_ok(bell_vjp(out[3], INPUT(8192, 4096), given, 3, out));
        check_products("a layer's gradients", out, 4, 1, 0);
        bell_context_destroy(ctx);
    }
}

/* ---- a token ---- */

enum {
    WIDE = 4096,
    N_HEADS = 32,
    N_PAIRS = 8, /* heads of keys and values */
    HEAD = 128,
    INNER = 14336,
    N_KEYS = 4096
};

/* Neighbours of each row of x as points, turned. */
static struct bell_tensor *
turn(struct bell_tensor *x, struct bell_tensor *cosine,
     struct bell_tensor *sine, int64_t n)
{
    struct bell_tensor *a, *b;

    x = bell_reshape(x, BELL_DIMS(n, HEAD / 2, 2));
    a = bell_select(x, 2, 0);
    b = bell_select(x, 2, 1);
    x = bell_stack(
        BELL_TENSORS(bell_sub(bell_mul(a, cosine), bell_mul(b, sine)),
                     bell_add(bell_mul(a, sine), bell_mul(b, cosine))),
        2);
    return bell_cast(bell_reshape(x, BELL_DIMS(n, HEAD)), BELL_BFLOAT16);
}

/* A layer of Llama-8B for one token behind up to N_KEYS others: what it gives,
 * and rows for the caches. */
static void
make_token(struct bell_tensor *out[3])
{
    struct bell_tensor *x = INPUT(1, WIDE), *h, *q, *k, *v, *cosine, *sine,
                       *own, *seen;

    cosine = bell_cast(INPUT(1, HEAD / 2), BELL_FLOAT32);
    sine = bell_cast(INPUT(1, HEAD / 2), BELL_FLOAT32);
    own = bell_cast(INPUT(N_KEYS, 1), BELL_BOOL);
    seen = bell_cast(INPUT(1, N_KEYS), BELL_BOOL);
    expect_ok(
        bell_realize((struct bell_tensor *[]){cosine, sine, own, seen}, 4));
    h = bell_rms_norm(x, INPUT(WIDE), 1e-5);
    q = bell_reshape(bell_linear(h, INPUT(WIDE, WIDE), NULL),
                     BELL_DIMS(N_HEADS, HEAD));
    q = bell_reshape(turn(q, cosine, sine, N_HEADS),
                     BELL_DIMS(N_PAIRS, N_HEADS / N_PAIRS, HEAD));
    k = bell_reshape(bell_linear(h, INPUT(N_PAIRS * HEAD, WIDE), NULL),
                     BELL_DIMS(N_PAIRS, HEAD));
    k = bell_reshape(turn(k, cosine, sine, N_PAIRS),
                     BELL_DIMS(N_PAIRS, 1, HEAD));
    v = bell_reshape(bell_linear(h, INPUT(N_PAIRS * HEAD, WIDE), NULL),
                     BELL_DIMS(N_PAIRS, 1, HEAD));
    out[1] = k;
    out[2] = v;
    k = bell_where(own, k, INPUT(N_PAIRS, N_KEYS, HEAD));
    v = bell_where(own, v, INPUT(N_PAIRS, N_KEYS, HEAD));
    h = bell_scaled_dot_product_attention(q, k, v, seen, 0, false, 0);
    h = bell_linear(bell_reshape(h, BELL_DIMS(1, WIDE)), INPUT(WIDE, WIDE),
                    NULL);
    x = bell_add(x, h);
    h = bell_rms_norm(x, INPUT(WIDE), 1e-5);
    h = bell_mul(bell_silu(bell_linear(h, INPUT(INNER, WIDE), NULL)),
                 bell_linear(h, INPUT(INNER, WIDE), NULL));
    out[0] = bell_add(x, bell_linear(h, INPUT(WIDE, INNER), NULL));
}

static void
test_token(void **state)
{
    struct bell_tensor *out[3];
    uint64_t before;
    size_t i;

    (void)state;
    for (i = 0; i < ARRAY_LEN(devices); i++) {
        set_up(&devices[i]);
        make_token(out);
        before = n_planned();
        expect_ok(bell_compile(out, 3));
        check_most("a layer for a token", n_planned() - before, device->token);
        bell_context_destroy(ctx);
    }
}

/* ---- steps ---- */

static void
test_mlp_step(void **state)
{
    static const int64_t sizes[] = {784, 512, 512, 10};
    const struct bell_sgd_options options = {.struct_size = sizeof(options),
                                             .lr = 0.1};
    struct bell_tensor *params[6], *x, *loss;
    struct bell_optimizer *opt;
    uint64_t before;
    size_t i, k;

    (void)state;
    for (i = 0; i < ARRAY_LEN(devices); i++) {
        set_up(&devices[i]);
        x = bell_empty(ctx, BELL_DIMS(128, 784), BELL_FLOAT32);
        for (k = 0; k < 3; k++) {
            params[2 * k] = bell_requires_grad(
                bell_empty(ctx, BELL_DIMS(sizes[k + 1], sizes[k]),
                           BELL_FLOAT32),
                true);
            params[2 * k + 1] = bell_requires_grad(
                bell_empty(ctx, BELL_DIMS(sizes[k + 1]), BELL_FLOAT32), true);
        }
        expect_ok(bell_sgd_create(params, 6, &options, &opt));
        for (k = 0; k < 3; k++) {
            x = bell_linear(x, params[2 * k], params[2 * k + 1]);
            if (k < 2)
                x = bell_relu(x);
        }
        loss =
            bell_cross_entropy(x, bell_empty(ctx, BELL_DIMS(128), BELL_INT64),
                               0, BELL_IGNORE_NONE, BELL_MEAN);
        before = n_planned();
        expect_ok(bell_backward(loss));
        expect_ok(bell_optimizer_step(opt, &loss, 1));
        check_most("a step of an MLP", n_planned() - before, device->mlp);
        bell_optimizer_destroy(opt);
        bell_context_destroy(ctx);
    }
}

/* Kernels of a step of the block beyond those of its gradients. */
static void
test_adam(void **state)
{
    const struct bell_adam_options options = {.struct_size = sizeof(options),
                                              .lr = 1e-3};
    struct bell_tensor *params[17], *loss;
    struct bell_optimizer *opt;
    struct block p;
    uint64_t before, gradients;
    uint32_t n, k;

    (void)state;
    set_up(&devices[0]);
    make_block(&p, 128);
    n = block_params(&p, params);
    for (k = 0; k < n; k++)
        bell_requires_grad(params[k], true);
    loss = bell_sum(block(&p), NULL, 0, false);
    expect_ok(bell_backward(loss));
    for (k = 0; k < n; k++)
        params[k] = bell_grad(params[k]);
    params[n] = loss;
    before = n_planned();
    expect_ok(bell_compile(params, n + 1));
    gradients = n_planned() - before;
    block_params(&p, params);
    expect_ok(bell_adam_create(params, n, &options, &opt));
    before = n_planned();
    expect_ok(bell_optimizer_step(opt, &loss, 1));
    check_most("Adam of a block, beyond its gradients",
               n_planned() - before - gradients, device->adam);
    bell_optimizer_destroy(opt);
    bell_context_destroy(ctx);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_rows),
        cmocka_unit_test(test_running_sums),
        cmocka_unit_test(test_tiles),
        cmocka_unit_test(test_odd_channels),
        cmocka_unit_test(test_rounded_factor),
        cmocka_unit_test(test_odd_rows),
        cmocka_unit_test(test_turned_factor),
        cmocka_unit_test(test_parts_of_words),
        cmocka_unit_test(test_turned_rows),
        cmocka_unit_test(test_block),
        cmocka_unit_test(test_layer),
        cmocka_unit_test(test_token),
        cmocka_unit_test(test_mlp_step),
        cmocka_unit_test(test_adam),
    };

    return cmocka_run_group_tests_name("fusion", tests, NULL, NULL);
}
