/* Weights in a file's blocks: what a jitted function reads of them is the
 * blocks, and a tensor that stops being one is what it became. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "doorbell/files.h"
#include "doorbell/jit.h"
#include "doorbell/ops.h"

#define ROWS    48
#define COLUMNS 1024
#define BLOCKS  (ROWS * COLUMNS / 32)

struct fixture {
    struct bell_context *ctx;
    struct bell_tensor *w;
    float x[COLUMNS], values[ROWS][COLUMNS];
    bool realizes; /* w, in the function */
};

static void
put(FILE *out, uint64_t value, size_t n_bytes)
{
    assert_int_equal(fwrite(&value, n_bytes, 1, out), 1);
}

/* A GGUF file of the tensor w, Q4_0 of scale 1/4. */
static void
write_file(const char *path, struct fixture *f)
{
    FILE *out = fopen(path, "wb");
    uint32_t seed = 7, at, i;
    uint8_t q;

    assert_non_null(out);
    put(out, 0x46554747, 4);
    put(out, 3, 4);
    put(out, 1, 8);
    put(out, 0, 8);
    put(out, 1, 8);
    put(out, 'w', 1);
    put(out, 2, 4);
    put(out, COLUMNS, 8);
    put(out, ROWS, 8);
    put(out, 2, 4);
    put(out, 0, 8);
    while (ftell(out) % 32)
        put(out, 0, 1);
    for (at = 0; at < BLOCKS; at++) {
        float *to = &f->values[0][0] + (size_t)at * 32;
        put(out, 0x3400, 2);
        for (i = 0; i < 16; i++) {
            seed = seed * 1664525u + 1013904223u;
            q = (uint8_t)(seed >> 24);
            put(out, q, 1);
            to[i] = 0.25f * (float)((q & 15) - 8);
            to[i + 16] = 0.25f * (float)((q >> 4) - 8);
        }
    }
    assert_int_equal(fclose(out), 0);
}

static int
setup(void **state)
{
    static struct fixture f;
    struct bell_file *file;
    char path[64];
    int i;

    memset(&f, 0, sizeof(f));
    snprintf(path, sizeof(path), "/tmp/bell_packed_%d", (int)getpid());
    write_file(path, &f);
    for (i = 0; i < COLUMNS; i++)
        f.x[i] = (float)(i % 13 - 6);
    assert_int_equal(bell_context_create("CPU", &f.ctx), BELL_OK);
    assert_int_equal(bell_file_open(path, &file), BELL_OK);
    f.w = bell_keep_forever(bell_file_tensor(f.ctx, file, "w"));
    bell_file_close(file);
    unlink(path);
    *state = &f;
    return 0;
}

static int
teardown(void **state)
{
    struct fixture *f = *state;

    bell_context_destroy(f->ctx);
    return 0;
}

static bell_status
multiply(struct bell_context *ctx, void *user, struct bell_tensor *const *in,
         struct bell_tensor **out)
{
    struct fixture *f = user;

    (void)ctx;
    if (f->realizes && bell_realize1(f->w) != BELL_OK)
        return bell_error_last()->status;
    out[0] = bell_linear(in[0], f->w, NULL);
    return BELL_OK;
}

static struct bell_jit *
make_jit(struct fixture *f)
{
    struct bell_jit_desc desc = {
        .struct_size = sizeof(desc),
        .name = "multiply",
        .fn = multiply,
        .user = f,
        .n_in = 1,
        .n_out = 1,
    };
    struct bell_jit *jit;

    assert_int_equal(bell_jit_create(f->ctx, &desc, &jit), BELL_OK);
    return jit;
}

/* A call gives x W' times `factor`, exactly: all are small numbers. */
static void
expect_product(struct fixture *f, struct bell_jit *jit, float factor)
{
    struct bell_tensor *x, *y;
    float got[ROWS], want;
    int i, j;

    assert_int_equal(bell_scope_begin(f->ctx), BELL_OK);
    x = bell_from_data(f->ctx, BELL_DIMS(1, COLUMNS), BELL_FLOAT32, f->x);
    if (bell_jit_call(jit, &x, &y) != BELL_OK ||
        bell_read(y, got, sizeof(got)) != BELL_OK)
        fail_msg("%s", bell_error_last()->message);
    for (i = 0; i < ROWS; i++) {
        for (want = 0, j = 0; j < COLUMNS; j++)
            want += f->x[j] * f->values[i][j] * factor;
        if (got[i] != want)
            fail_msg("row %d: %g, not %g", i, (double)got[i], (double)want);
    }
    assert_int_equal(bell_scope_end(f->ctx), BELL_OK);
}

/* Kernels read 4 bits a weight, and nothing has the others. */
static void
test_stays_packed(void **state)
{
    struct fixture *f = *state;
    struct bell_jit *jit = make_jit(f);
    struct bell_jit_info info = {.struct_size = sizeof(info)};

    expect_product(f, jit, 1);
    expect_product(f, jit, 1);
    bell_jit_get_info(jit, &info);
    assert_int_equal(info.n_captures, 1);
    assert_int_equal(info.n_kernels, 1);
    assert_int_equal(info.n_used, 0);
    assert_in_range(info.held_bytes, ROWS * COLUMNS / 2,
                    ROWS * COLUMNS * 5 / 8 + 4096);
    bell_jit_destroy(jit);
}

/* A new value, assigned outside, is what later calls use. */
static void
test_assigned(void **state)
{
    struct fixture *f = *state;
    struct bell_jit *jit = make_jit(f);
    struct bell_jit_info info = {.struct_size = sizeof(info)};

    expect_product(f, jit, 1);
    bell_assign(f->w, bell_mul(f->w, bell_scalar(f->ctx, 2)));
    expect_product(f, jit, 2);
    bell_assign(f->w, bell_mul(f->w, bell_scalar(f->ctx, 2)));
    expect_product(f, jit, 4);
    bell_jit_get_info(jit, &info);
    assert_int_equal(info.n_captures, 2);
    assert_int_equal(info.n_used, 1);
    bell_jit_destroy(jit);
}

/* The function may ask for the values at once. */
static void
test_realized_inside(void **state)
{
    struct fixture *f = *state;
    struct bell_jit *jit = make_jit(f);

    f->realizes = true;
    expect_product(f, jit, 1);
    expect_product(f, jit, 1);
    bell_jit_destroy(jit);
}

/* One that needs gradients is a tensor like any other. */
static void
test_requires_grad(void **state)
{
    struct fixture *f = *state;
    struct bell_jit *jit = make_jit(f);
    struct bell_jit_info info = {.struct_size = sizeof(info)};

    expect_product(f, jit, 1);
    bell_requires_grad(f->w, true);
    expect_product(f, jit, 1);
    bell_jit_get_info(jit, &info);
    assert_int_equal(info.n_captures, 2);
    assert_int_equal(info.n_used, 1);
    bell_jit_destroy(jit);
}

/* ---- many rows, of which the CPU makes sums by products of bytes ---- */

#define MANY (ROWS + 29)

/* Weights in blocks like a file's: 4 bits, and a scale of 2^-4 to 2^3. */
struct blocks {
    uint8_t bytes[MANY][COLUMNS / 2];
    float scale[MANY][COLUMNS / 32];
    double weight[MANY][COLUMNS];
};

static void
fill_blocks(struct blocks *b)
{
    uint32_t seed = 3, i, j;

    for (i = 0; i < MANY; i++) {
        for (j = 0; j < COLUMNS / 2; j++) {
            double *w = &b->weight[i][j / 16 * 32 + j % 16];
            seed = seed * 1664525u + 1013904223u;
            b->bytes[i][j] = (uint8_t)(seed >> 24);
            if (j % 16 == 0)
                b->scale[i][j / 16] = ldexpf(1, (int)(seed >> 20 & 7) - 4);
            w[0] = (double)b->scale[i][j / 16] * ((b->bytes[i][j] & 15) - 8);
            w[16] = (double)b->scale[i][j / 16] * ((b->bytes[i][j] >> 4) - 8);
        }
    }
}

/* y = weights x */
static void
multiply_blocks(struct fixture *f, const struct blocks *b, const float *x,
                float *y)
{
    int64_t n = (int64_t)MANY * COLUMNS / 32;
    struct bell_context *ctx = f->ctx;
    struct bell_tensor *q, *shift, *w, *in;

    assert_int_equal(bell_scope_begin(ctx), BELL_OK);
    q = bell_from_data(ctx, BELL_DIMS(n, 1, 16), BELL_UINT8, b->bytes);
    shift = bell_mul(bell_arange(ctx, 0, 2, 1, BELL_INT32),
                     bell_scalar_int(ctx, 4));
    q = bell_rshift(bell_cast(q, BELL_INT32),
                    bell_reshape(shift, BELL_DIMS(2, 1)));
    q = bell_sub(bell_bitwise_and(q, bell_scalar_int(ctx, 15)),
                 bell_scalar_int(ctx, 8));
    w = bell_from_data(ctx, BELL_DIMS(n, 1, 1), BELL_FLOAT32, b->scale);
    w = bell_mul(w, bell_cast(q, BELL_FLOAT32));
    w = bell_reshape(w, BELL_DIMS(MANY, COLUMNS));
    in = bell_from_data(ctx, BELL_DIMS(1, COLUMNS), BELL_FLOAT32, x);
    if (bell_read(bell_linear(in, w, NULL), y, MANY * sizeof(*y)) != BELL_OK)
        fail_msg("%s", bell_error_last()->message);
    assert_int_equal(bell_scope_end(ctx), BELL_OK);
}

/* As far off as the rounding of the sum and of the activations allows, among
 * the least numbers of F32 some of these. */
static void
expect_sums(const struct blocks *b, const float *x, const float *y)
{
    int i, j;

    for (i = 0; i < MANY; i++) {
        double want = 0, terms = 0, digits = 0, most = 0, weights = 0;
        for (j = 0; j < COLUMNS; j++) {
            most = j % 32 ? fmax(most, fabs(x[j])) : fabs(x[j]);
            weights = (j % 32 ? weights : 0) + fabs(b->weight[i][j]);
            want += b->weight[i][j] * x[j];
            terms += fabs(b->weight[i][j] * x[j]);
            digits += j % 32 == 31 ? most * weights : 0;
        }
        if (!(fabs(y[i] - want) <=
              0x1p-20 * terms + 0x1p-23 * digits + 0x1p-140))
            fail_msg("row %d: %.9g, not %.9g", i, (double)y[i], want);
    }
}

static float
any_float(uint32_t *seed)
{
    *seed = *seed * 1664525u + 1013904223u;
    return (float)(*seed >> 8) * 0x1p-23f - 1;
}

static void
test_many_rows(void **state)
{
    static const float scales[] = {1, 0x1p100f, 0x1p-100f, 0x1p-140f, 0};
    static struct blocks b;
    struct fixture *f = *state;
    float x[COLUMNS], y[MANY];
    uint32_t seed = 1;
    size_t s;
    int i;

    fill_blocks(&b);
    for (s = 0; s < sizeof(scales) / sizeof(scales[0]); s++) {
        for (i = 0; i < COLUMNS; i++)
            x[i] = scales[s] * any_float(&seed);
        multiply_blocks(f, &b, x, y);
        expect_sums(&b, x, y);
    }
    for (i = 0; i < COLUMNS; i++) /* far from each other, blocks of zeros */
        x[i] = i / 32 % 3 ? ldexpf(any_float(&seed), i * 7 % 60 - 30) : 0;
    multiply_blocks(f, &b, x, y);
    expect_sums(&b, x, y);
    for (i = 0; i < COLUMNS; i++) /* the ends of the digits */
        x[i] = ldexpf(1 - 0x1p-24f * (float)(i % 3), 12 + i % 2) *
               (float)(i % 4 < 2 ? 1 : -1);
    multiply_blocks(f, &b, x, y);
    expect_sums(&b, x, y);
    for (s = 0; s < 2; s++) { /* one is none */
        for (i = 0; i < COLUMNS; i++)
            x[i] = 1;
        x[77] = s ? NAN : INFINITY;
        multiply_blocks(f, &b, x, y);
        for (i = 0; i < MANY; i++)
            assert_false(isfinite(y[i]));
    }
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_stays_packed, setup, teardown),
        cmocka_unit_test_setup_teardown(test_assigned, setup, teardown),
        cmocka_unit_test_setup_teardown(test_realized_inside, setup, teardown),
        cmocka_unit_test_setup_teardown(test_requires_grad, setup, teardown),
        cmocka_unit_test_setup_teardown(test_many_rows, setup, teardown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
