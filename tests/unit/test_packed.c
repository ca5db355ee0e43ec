/* Weights in a file's blocks: what a jitted function reads of them is the
 * blocks, and a tensor that stops being one is what it became. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

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
    struct bell_jit_info info;

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
    struct bell_jit_info info;

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
    struct bell_jit_info info;

    expect_product(f, jit, 1);
    bell_requires_grad(f->w, true);
    expect_product(f, jit, 1);
    bell_jit_get_info(jit, &info);
    assert_int_equal(info.n_captures, 2);
    assert_int_equal(info.n_used, 1);
    bell_jit_destroy(jit);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_stays_packed, setup, teardown),
        cmocka_unit_test_setup_teardown(test_assigned, setup, teardown),
        cmocka_unit_test_setup_teardown(test_realized_inside, setup, teardown),
        cmocka_unit_test_setup_teardown(test_requires_grad, setup, teardown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
