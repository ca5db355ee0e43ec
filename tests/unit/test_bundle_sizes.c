/* Functions of inputs whose sizes vary: a jit that is given plain sizes, and
 * the bundle that it is saved as, on every target; what is refused, by call and
 * byte by byte. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/bits.h"
#include "doorbell/dim.h"
#include "doorbell/jit.h"
#include "doorbell/tensor.h"
#include "hcq/hcq_bundle.h"
#include "hcq/hcq_bundle_format.h"

#define N     9
#define M     5
#define COLS  4
#define N_OUT 4
#define MOST  512

static const char *const devices[] = {"CPU", "NV@sim:sm_90", "AMD@sim:gfx942",
                                      "AMD@sim:gfx1100"};
static const int64_t sizes[][2] = {{2, 3}, {9, 1}, {1, 5}, {5, 5}, {2, 3}};

static void
expect_ok(bell_status status)
{
    if (status != BELL_OK)
        fail_msg("%s", bell_error_last()->message);
}

static void
expect_refused(bell_status status, const char *text)
{
    if (status == BELL_OK || !strstr(bell_error_last()->message, text))
        fail_msg("'%s' is not in '%s'", text, bell_error_last()->message);
    bell_error_clear();
}

static const char *
temp_path(void)
{
    static char path[64];

    snprintf(path, sizeof(path), "/tmp/bell_sizes_%d", (int)getpid());
    return path;
}

static void
fill(float *data, size_t n, uint32_t seed)
{
    size_t i;

    for (i = 0; i < n; i++) {
        seed = seed * 1664525u + 1013904223u;
        data[i] = (float)(int32_t)seed * 0x1p-33f;
    }
}

/* x[n, COLS] and y[m, n]: sizes of both, their sum, square and half. */
static bell_status
step(struct bell_context *ctx, void *user, struct bell_tensor *const *in,
     struct bell_tensor **out)
{
    struct bell_tensor *x = in[0], *y = in[1], *z;
    struct bell_dim n = bell_dim_at(x, 0), half;
    struct bell_tensor *list[] = {
        x, bell_neg(x), bell_ones(ctx, BELL_DIMS(1, COLS), BELL_FLOAT32)};

    (void)user;
    out[0] = bell_softmax(bell_matmul(y, x), -1);
    out[1] = bell_cat(list, 3, 0);
    z = bell_mul(bell_unsqueeze(bell_sum(x, BELL_DIMS(1), false), 1),
                 bell_unsqueeze(bell_sum(y, BELL_DIMS(0), false), 0));
    out[2] = bell_reshape(z, BELL_DIMS(-1));
    half = bell_dim_floordiv(ctx, bell_dim_add(ctx, n, 1), 2);
    out[3] = bell_add(
        bell_unsqueeze(
            bell_arange_dims(ctx, bell_dim_of(0), half, BELL_FLOAT32), 1),
        bell_narrow(x, 0, 0, 1));
    return BELL_OK;
}

static void
make_inputs(struct bell_context *ctx, int64_t n, int64_t m,
            struct bell_tensor **in)
{
    float x[N * COLS], y[M * N];

    fill(x, (size_t)(n * COLS), (uint32_t)n);
    fill(y, (size_t)(m * n), (uint32_t)m + 100);
    in[0] = bell_from_data(ctx, BELL_DIMS(n, COLS), BELL_FLOAT32, x);
    in[1] = bell_from_data(ctx, BELL_DIMS(m, n), BELL_FLOAT32, y);
}

struct rig {
    struct bell_context *ctx;
    struct bell_dim n, m;
    struct bell_jit *jit;
    struct bell_tensor *in[2]; /* of the sizes of symbols */
};

/* A jit whose first call has the sizes of symbols. */
static void
open_rig(struct rig *r, const char *device)
{
    struct bell_jit_desc desc = {sizeof(desc), "step", step, NULL, 2, N_OUT};
    struct bell_tensor *out[N_OUT];

    expect_ok(bell_context_create(device, &r->ctx));
    r->n = bell_symbol(r->ctx, "n", 1, N);
    r->m = bell_symbol(r->ctx, "m", 1, M);
    r->in[0] = bell_zeros(r->ctx, BELL_SHAPE(r->n, COLS), BELL_FLOAT32);
    r->in[1] = bell_zeros(r->ctx, BELL_SHAPE(r->m, r->n), BELL_FLOAT32);
    expect_ok(bell_jit_create(r->ctx, &desc, &r->jit));
    expect_ok(bell_jit_call(r->jit, r->in, out));
}

static void
close_rig(struct rig *r)
{
    bell_jit_destroy(r->jit);
    bell_context_destroy(r->ctx);
}

static size_t
read_all(struct bell_tensor **out, float *into)
{
    size_t n = 0, i;

    for (i = 0; i < N_OUT; i++) {
        assert_true(n + bell_numel(out[i]) <= MOST);
        expect_ok(bell_read(out[i], into + n, (size_t)bell_nbytes(out[i])));
        n += (size_t)bell_numel(out[i]);
    }
    return n;
}

/* A call with plain sizes gives what the function gives of them, and captures
 * nothing again; the symbols stay what they are. */
static void
test_jit(void **state)
{
    struct bell_tensor *in[2], *out[N_OUT], *more[N_OUT];
    struct bell_jit_info info = {.struct_size = sizeof(info)};
    static float got[MOST], want[MOST];
    struct rig r;
    size_t d, i, k, count;
    int64_t now;

    (void)state;
    for (d = 0; d < ARRAY_LEN(devices); d++) {
        open_rig(&r, devices[d]);
        expect_ok(bell_symbol_set(r.ctx, r.n, 7));
        for (i = 0; i < ARRAY_LEN(sizes); i++) {
            make_inputs(r.ctx, sizes[i][0], sizes[i][1], in);
            expect_ok(bell_jit_call(r.jit, in, out));
            assert_int_equal(bell_size(out[1], 0), 2 * sizes[i][0] + 1);
            assert_int_equal(bell_size(out[3], 0), (sizes[i][0] + 1) / 2);
            expect_ok(step(r.ctx, NULL, in, more));
            count = read_all(out, got);
            assert_int_equal(read_all(more, want), count);
            for (k = 0; k < count; k++) {
                if (!(fabsf(got[k] - want[k]) < 1e-5f))
                    fail_msg("%s, %d and %d, element %d: %g, not %g",
                             devices[d], (int)sizes[i][0], (int)sizes[i][1],
                             (int)k, (double)got[k], (double)want[k]);
            }
        }
        expect_ok(bell_dim_now(r.ctx, r.n, &now));
        assert_int_equal(now, 7);
        bell_jit_get_info(r.jit, &info);
        assert_int_equal(info.n_captures, 1);
        close_rig(&r);
    }
}

static bell_status
call_inside(struct bell_context *ctx, void *user, struct bell_tensor *const *in,
            struct bell_tensor **out)
{
    struct rig *r = user;

    (void)ctx;
    return bell_jit_call(r->jit, in, out);
}

static void
test_jit_refused(void **state)
{
    struct bell_jit_desc outer = {sizeof(outer), "outer", call_inside,
                                  NULL,          2,       N_OUT};
    struct bell_tensor *in[2], *wrong[2], *out[N_OUT];
    struct bell_jit *jit;
    struct rig r;

    (void)state;
    open_rig(&r, "CPU");
    make_inputs(r.ctx, 3, 2, in);
    wrong[0] = bell_zeros(r.ctx, BELL_DIMS(N + 1, COLS), BELL_FLOAT32);
    wrong[1] = in[1];
    expect_refused(
        bell_jit_call(r.jit, wrong, out),
        "input 0 of 'step', axis 0: 10 elements; n goes from 1 to 9");
    wrong[0] = in[0];
    wrong[1] = bell_zeros(r.ctx, BELL_DIMS(2, 4), BELL_FLOAT32);
    expect_refused(bell_jit_call(r.jit, wrong, out),
                   "input 0 of 'step', axis 0: 3 elements; n is 4 with the "
                   "other axes, and goes from 1 to 9");
    wrong[1] = bell_zeros(r.ctx, BELL_DIMS(2, 3, 1), BELL_FLOAT32);
    expect_refused(bell_jit_call(r.jit, wrong, out), "input 1 of 'step' is ");
    wrong[0] = bell_zeros(r.ctx, BELL_DIMS(3, COLS + 1), BELL_FLOAT32);
    expect_refused(bell_jit_call(r.jit, wrong, out), "(n, 4)");
    /* one of plain sizes, one of those that the symbols have by now */
    expect_ok(bell_symbol_set(r.ctx, r.n, 3));
    expect_ok(bell_symbol_set(r.ctx, r.m, 2));
    wrong[0] = bell_ones(r.ctx, BELL_SHAPE(r.n, COLS), BELL_FLOAT32);
    wrong[1] = in[1];
    expect_ok(bell_jit_call(r.jit, wrong, out));
    wrong[1] = bell_zeros(r.ctx, BELL_DIMS(2, 4), BELL_FLOAT32);
    expect_refused(bell_jit_call(r.jit, wrong, out), "n is 4 with the other");
    expect_ok(bell_jit_call(r.jit, in, out));
    /* in a function that is captured for all values */
    outer.user = &r;
    expect_ok(bell_jit_create(r.ctx, &outer, &jit));
    expect_refused(bell_jit_call(jit, in, out),
                   "'step' has sizes of symbols, and is given numbers");
    bell_jit_destroy(jit);
    close_rig(&r);
}

/* ---- bundles ---- */

static void
save(struct rig *r, const char *const *targets, uint32_t n_targets)
{
    static const char *const names[] = {"x", "y"};
    struct bell_jit_save_desc desc = {.struct_size = sizeof(desc),
                                      .targets = targets,
                                      .n_targets = n_targets,
                                      .in_names = names};

    expect_ok(bell_jit_save(r->jit, r->in, &desc, temp_path()));
}

static uint32_t
find(const struct hcq_bundle *b, enum hcq_bundle_kind kind, const char *name)
{
    uint32_t i = hcq_bundle_find(b, kind, name);

    assert_int_not_equal(i, HCQ_BUNDLE_NONE);
    return i;
}

static void
fit(struct hcq_bundle *b, uint32_t value, uint64_t rows, uint64_t columns)
{
    const uint64_t shape[] = {rows, columns};

    expect_ok(hcq_bundle_fit(b, value, shape, 2));
}

static size_t
run_sizes(struct hcq_bundle *b, int64_t n, int64_t m, float *got)
{
    uint32_t x = find(b, HCQ_BUNDLE_INPUT, "x"),
             y = find(b, HCQ_BUNDLE_INPUT, "y"), i;
    float data[N * COLS + M * N];
    size_t count = 0;
    char name[8];

    fill(data, (size_t)(n * COLS), (uint32_t)n);
    fit(b, x, (uint64_t)n, COLS);
    expect_ok(hcq_bundle_write(b, x, data, sizeof(float) * (size_t)(n * COLS)));
    fill(data, (size_t)(m * n), (uint32_t)m + 100);
    fit(b, y, (uint64_t)m, (uint64_t)n);
    expect_ok(hcq_bundle_write(b, y, data, sizeof(float) * (size_t)(m * n)));
    expect_ok(hcq_bundle_run(b, NULL));
    for (i = 0; i < N_OUT; i++) {
        const struct hcq_bundle_value *v;

        snprintf(name, sizeof(name), "out%u", i);
        v = hcq_bundle_value(b, find(b, HCQ_BUNDLE_OUTPUT, name));
        assert_true(count + v->size_bytes / 4 <= MOST);
        expect_ok(hcq_bundle_read(b, find(b, HCQ_BUNDLE_OUTPUT, name),
                                  got + count, v->size_bytes));
        count += v->size_bytes / 4;
    }
    return count;
}

/* To the bit what the jit gives. */
static void
test_bundle(void **state)
{
    static float want[ARRAY_LEN(sizes)][MOST], got[MOST];
    struct bell_tensor *in[2], *out[N_OUT];
    size_t d, i, n[ARRAY_LEN(sizes)];
    struct hcq_bundle *b;
    struct hcq_device *dev;
    struct rig r;

    (void)state;
    for (d = 0; d < ARRAY_LEN(devices); d++) {
        open_rig(&r, devices[d]);
        if (d == 0)
            save(&r, devices, ARRAY_LEN(devices));
        for (i = 0; i < ARRAY_LEN(sizes); i++) {
            make_inputs(r.ctx, sizes[i][0], sizes[i][1], in);
            expect_ok(bell_jit_call(r.jit, in, out));
            n[i] = read_all(out, want[i]);
        }
        close_rig(&r);
        expect_ok(hcq_device_open(devices[d], &dev));
        expect_ok(hcq_bundle_open(dev, temp_path(), &b));
        for (i = 0; i < ARRAY_LEN(sizes); i++) {
            assert_int_equal(run_sizes(b, sizes[i][0], sizes[i][1], got), n[i]);
            if (memcmp(got, want[i], n[i] * sizeof(*got)) != 0)
                fail_msg("%s: %d and %d", devices[d], (int)sizes[i][0],
                         (int)sizes[i][1]);
        }
        hcq_bundle_close(b);
        hcq_device_close(dev);
    }
    unlink(temp_path());
}

static void
test_bundle_refused(void **state)
{
    static const float zeros[N * COLS];
    const struct hcq_bundle_value *v;
    uint64_t min, max, shape[3] = {N + 1, COLS, 1};
    struct hcq_buffer *buf;
    struct hcq_bundle *b;
    struct hcq_device *dev;
    uint32_t x, y, out;
    int64_t n = 3;
    struct rig r;

    (void)state;
    open_rig(&r, "CPU");
    save(&r, devices, 1);
    close_rig(&r);
    expect_ok(hcq_device_open("CPU", &dev));
    expect_ok(hcq_bundle_open(dev, temp_path(), &b));
    unlink(temp_path());
    x = find(b, HCQ_BUNDLE_INPUT, "x");
    y = find(b, HCQ_BUNDLE_INPUT, "y");
    out = find(b, HCQ_BUNDLE_OUTPUT, "out1");
    assert_string_equal(hcq_bundle_axis(b, x, 0, &min, &max), "n");
    assert_int_equal(min, 1);
    assert_int_equal(max, N);
    assert_null(hcq_bundle_axis(b, x, 1, &min, &max));
    assert_int_equal(max, COLS);
    assert_string_equal(hcq_bundle_axis(b, out, 0, &min, &max), "2*n + 1");
    assert_int_equal(max, 2 * N + 1);
    v = hcq_bundle_value(b, x);
    assert_int_equal(v->shape[0], 1); /* the symbol's least */
    expect_refused(hcq_bundle_fit(b, x, shape, 2),
                   "'x', axis 0: 10 elements; n goes from 1 to 9");
    expect_refused(hcq_bundle_fit(b, x, shape, 3), "'x' has 2 axes, not 3");
    shape[0] = UINT64_MAX;
    expect_refused(hcq_bundle_fit(b, x, shape, 2), "n goes from 1 to 9");
    shape[0] = 0;
    expect_refused(hcq_bundle_fit(b, x, shape, 2), "axis 0: 0 elements; n");
    shape[0] = 3;
    shape[1] = COLS + 1;
    expect_refused(hcq_bundle_fit(b, x, shape, 2),
                   "'x', axis 1: 5 elements, not 4");
    assert_int_equal(v->shape[0], 1); /* as it was */
    shape[0] = 8;
    shape[1] = COLS;
    expect_refused(hcq_bundle_fit(b, out, shape, 2),
                   "'out1', axis 0: 8 elements; 2*n + 1 is 3 with");
    shape[0] = 7; /* 2 n + 1 */
    expect_ok(hcq_bundle_fit(b, out, shape, 2));
    assert_int_equal(v->shape[0], 3);
    expect_refused(hcq_bundle_fit(b, UINT32_MAX, shape, 2), "value 4294967295");
    expect_ok(hcq_bundle_write(b, x, zeros, 3 * COLS * sizeof(float)));
    expect_refused(hcq_bundle_write(b, x, zeros, 4 * COLS * sizeof(float)),
                   "'x' has 48 bytes, 64 are to be written");
    fit(b, y, 2, 4);
    expect_ok(hcq_bundle_write(b, y, zeros, 8 * sizeof(float)));
    expect_refused(hcq_bundle_run(b, NULL),
                   "'x' was written with 48 bytes, before its sizes changed: "
                   "64 by now");
    expect_ok(
        hcq_bundle_write(b, find(b, HCQ_BUNDLE_SYMBOL, "n"), &n, sizeof(n)));
    fit(b, y, 2, 3);
    expect_ok(hcq_bundle_write(b, y, zeros, 6 * sizeof(float)));
    expect_ok(hcq_bundle_run(b, NULL));
    /* what is bound has room for all */
    expect_ok(hcq_buffer_create(dev, (N - 1) * COLS * sizeof(float),
                                HCQ_MEM_DEVICE, &buf));
    expect_refused(hcq_bundle_bind(b, x, buf, 0), "'x', 144 bytes, from 0 of");
    hcq_buffer_destroy(buf);
    hcq_bundle_close(b);
    hcq_device_close(dev);
}

/* ---- byte by byte ---- */

#define FILE_MAX ((size_t)64 * BUNDLE_PAGE)

static uint8_t *
read_file(size_t *out_n)
{
    FILE *file = fopen(temp_path(), "rb");
    uint8_t *data = aligned_alloc(BUNDLE_PAGE, FILE_MAX);

    assert_non_null(file);
    assert_non_null(data);
    *out_n = fread(data, 1, FILE_MAX, file);
    assert_true(*out_n > sizeof(struct bundle_header_2) && *out_n < FILE_MAX);
    fclose(file);
    unlink(temp_path());
    return data;
}

/* The checksums made right again: what a person who means harm would do. */
static void
seal(uint8_t *data)
{
    struct bundle_header_2 *h = (void *)data;
    uint32_t i;

    for (i = 0; i <= BUNDLE_IR; i++) {
        struct bundle_section *s =
            i == BUNDLE_IR ? &h->ir : &h->header.sections[i];
        s->checksum = bundle_checksum(data + s->offset, s->size_bytes);
    }
    h->header.checksum = 0;
    h->header.checksum = bundle_checksum(h, sizeof(*h));
}

static struct bundle_value *
find_row(uint8_t *data, enum bundle_kind kind, const char *name)
{
    const struct bundle_header *h = (void *)data;
    const char *names = (const char *)data + h->sections[BUNDLE_NAMES].offset;
    struct bundle_value *v = (void *)(data + h->sections[BUNDLE_VALUES].offset);

    while (v->kind != kind || strcmp(names + v->name, name) != 0)
        v++;
    return v;
}

/* Each change is refused, with checksums that fit. */
static void
test_hostile(void **state)
{
    struct bundle_value *values, *x, *out, *twice, *half, *n_value;
    struct hcq_bundle *b;
    struct hcq_device *dev;
    struct bundle_header *h;
    uint8_t *data, *copy;
    struct rig r;
    size_t n;

    (void)state;
    open_rig(&r, "CPU");
    save(&r, devices, 1);
    close_rig(&r);
    data = read_file(&n);
    copy = aligned_alloc(BUNDLE_PAGE, FILE_MAX);
    assert_non_null(copy);
    memcpy(copy, data, n);
    h = (void *)copy;
    assert_int_equal(h->version, BUNDLE_SIZES);
    values = (void *)(copy + h->sections[BUNDLE_VALUES].offset);
    x = find_row(copy, BUNDLE_INPUT, "x");
    out = find_row(copy, BUNDLE_OUTPUT, "out1");
    n_value = find_row(copy, BUNDLE_SYMBOL, "n");
    twice = find_row(copy, BUNDLE_SIZE, "2*n + 1");
    half =
        &values[BUNDLE_NUMBER(find_row(copy, BUNDLE_OUTPUT, "out3")->shape[0])];
    assert_int_equal(half->kind, BUNDLE_SIZE);
    assert_int_equal(half->shape[0], BUNDLE_FLOORDIV);
    expect_ok(hcq_device_open("CPU", &dev));
    expect_ok(hcq_bundle_open_memory(dev, copy, n, &b));
    hcq_bundle_close(b);
#define TRY(change, text)                                                      \
    do {                                                                       \
        memcpy(copy, data, n);                                                 \
        change;                                                                \
        seal(copy);                                                            \
        expect_refused(hcq_bundle_open_memory(dev, copy, n, &b), text);        \
    } while (0)
#define OF(row) BUNDLE_OF((uint64_t)((row)-values))
    TRY(h->version = BUNDLE_SYMBOLS, "kind 5");
    /* an axis: no value, no size, too large, less than 1, not the bytes */
    TRY(x->shape[0] = BUNDLE_OF(0xffffffffu), "'x' is too large at axis 0");
    TRY(x->shape[0] = OF(x), "'x' is too large at axis 0");
    TRY(x->shape[0] = OF(out), "'x' is too large at axis 0");
    TRY(x->shape[0] = OF(n_value) | (uint64_t)1 << 40, "'x' is too large");
    TRY(x->shape[0] = UINT64_MAX, "'x' is too large at axis 0");
    TRY(n_value->shape[0] = 0, "is said to go from");
    TRY(n_value->shape[1] = N + 1, "is said to go from");
    TRY(x->size_bytes += 4, "its shape asks for 144");
    TRY(x->size_bytes = 4 * COLS, "its shape asks for 144");
    TRY(x->kind = BUNDLE_STATE, "'x' is too large at axis 0");
    /* a size: an operation, operands behind it, itself, a tensor, bounds */
    TRY(twice->shape[0] = BUNDLE_SIZE_OP_COUNT, "operation 6 of");
    TRY(twice->shape[0] = UINT64_MAX, "operation 18446744073709551615 of");
    TRY(twice->shape[0] = BUNDLE_MUL, "is said to go from 3 to 19");
    TRY(twice->shape[1] = OF(twice), "size '2*n + 1' has dtype 8");
    TRY(twice->shape[1] = OF(twice + 1), "size '2*n + 1' has dtype 8");
    TRY(twice->shape[1] = OF(x), "size '2*n + 1' has dtype 8");
    TRY(twice->shape[2] = (uint64_t)BUNDLE_SIZE_MAX, "has dtype 8");
    TRY(twice->shape[2] = (uint64_t)-BUNDLE_SIZE_MAX, "has dtype 8");
    TRY(twice->shape[2] = (uint64_t)BUNDLE_SIZE_MAX - 1, "is said to go");
    TRY(twice->shape[3] = 0, "is said to go from 0 to 19");
    TRY(twice->shape[4] = 18, "is said to go from 3 to 18");
    TRY(twice->shape[4] = 20, "is said to go from 3 to 20");
    TRY(half->shape[2] = 0, "is said to go from");
    TRY(half->shape[2] = (uint64_t)-1, "is said to go from");
    TRY((half->shape[0] = BUNDLE_MOD, half->shape[3] = 0, half->shape[4] = 1),
        "is too large at axis 0");
    TRY(twice->ndim = 1, "'2*n + 1'");
    TRY((twice->dtype = 12, twice->size_bytes = 4), "has dtype 12");
    TRY(twice->data_offset = 0, "bytes at 0x0 of");
#undef TRY
    hcq_device_close(dev);
    free(data);
    free(copy);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_jit),     cmocka_unit_test(test_jit_refused),
        cmocka_unit_test(test_bundle),  cmocka_unit_test(test_bundle_refused),
        cmocka_unit_test(test_hostile),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
