/* Bundles: the same bits as the jit that was saved, on every target of one
 * file; state; what is refused, byte by byte. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/bits.h"
#include "doorbell/dim.h"
#include "doorbell/jit.h"
#include "doorbell/ops.h"
#include "doorbell/optim.h"
#include "hcq/hcq_bundle.h"
#include "hcq/hcq_bundle_format.h"

static const char *const devices[] = {"CPU", "NV@sim:sm_90", "AMD@sim:gfx942",
                                      "AMD@sim:gfx1100"};

static void
expect_ok(bell_status status)
{
    if (status != BELL_OK)
        fail_msg("%s", bell_error_last()->message);
}

static void
expect_error(bell_status status, bell_status wanted, const char *text)
{
    assert_int_equal(status, wanted);
    if (!strstr(bell_error_last()->message, text))
        fail_msg("'%s' is not in '%s'", text, bell_error_last()->message);
    bell_error_clear();
}

typedef bell_status fn_type(struct bell_context *ctx, void *user,
                            struct bell_tensor *const *in,
                            struct bell_tensor **out);

/* A file in the folder for temporary ones, which ends with the test. */
static const char *
temp_path(void)
{
    static char path[64];

    snprintf(path, sizeof(path), "/tmp/bell_bundle_%d", (int)getpid());
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

static struct bell_tensor *
make(struct bell_context *ctx, int64_t rows, int64_t columns, uint32_t seed)
{
    int64_t d[2] = {rows, columns};
    size_t n = (size_t)(rows * columns);
    float *data = malloc(n * sizeof(*data));
    struct bell_tensor *t;

    assert_non_null(data);
    fill(data, n, seed);
    t = bell_from_data(ctx, d, 2, BELL_FLOAT32, data);
    free(data);
    return t;
}

static void
save(struct bell_jit *jit, struct bell_tensor *const *in,
     const char *const *targets, uint32_t n_targets)
{
    struct bell_jit_save_desc desc = {.struct_size = sizeof(desc),
                                      .targets = targets,
                                      .n_targets = n_targets};

    expect_ok(bell_jit_save(jit, in, &desc, temp_path()));
}

static struct hcq_bundle *
open_bundle(const char *device, struct hcq_device **out_dev)
{
    struct hcq_bundle *bundle;

    expect_ok(hcq_device_open(device, out_dev));
    expect_ok(hcq_bundle_open(*out_dev, temp_path(), &bundle));
    return bundle;
}

static uint32_t
find(const struct hcq_bundle *bundle, enum hcq_bundle_kind kind,
     const char *name)
{
    uint32_t i = hcq_bundle_find(bundle, kind, name);

    assert_int_not_equal(i, HCQ_BUNDLE_NONE);
    return i;
}

/* ---- the network of the MNIST demo, and a block of a transformer ---- */

#define BATCH 4

struct net {
    struct bell_tensor *w[8];
    uint32_t n;
};

static bell_status
mlp(struct bell_context *ctx, void *user, struct bell_tensor *const *in,
    struct bell_tensor **out)
{
    struct net *net = user;
    struct bell_tensor *x = in[0];
    uint32_t i;

    (void)ctx;
    for (i = 0; i < net->n; i += 2) {
        x = bell_add(bell_matmul(x, net->w[i]), net->w[i + 1]);
        if (i + 2 < net->n)
            x = bell_relu(x);
    }
    out[0] = x;
    out[1] = bell_argmax(x, 1, false);
    return BELL_OK;
}

static void
make_mlp(struct bell_context *ctx, struct net *net)
{
    static const int64_t sizes[] = {784, 256, 128, 10};
    uint32_t i;

    net->n = 6;
    for (i = 0; i < 3; i++) {
        net->w[2 * i] = make(ctx, sizes[i], sizes[i + 1], i + 1);
        net->w[2 * i + 1] = make(ctx, 1, sizes[i + 1], i + 50);
    }
}

#define WIDTH 32

static bell_status
block(struct bell_context *ctx, void *user, struct bell_tensor *const *in,
      struct bell_tensor **out)
{
    struct net *net = user;
    struct bell_tensor *x = bell_rms_norm(in[0], NULL, 1e-5);
    struct bell_tensor *q = bell_matmul(x, net->w[0]);
    struct bell_tensor *k = bell_matmul(x, net->w[1]);
    struct bell_tensor *v = bell_matmul(x, net->w[2]);
    struct bell_tensor *y;

    (void)ctx;
    y = bell_matmul(bell_softmax(bell_matmul(q, bell_t(k)), 1), v);
    y = bell_add(in[0], bell_matmul(y, net->w[3]));
    out[0] = bell_add(
        y, bell_matmul(bell_relu(bell_matmul(y, net->w[4])), net->w[5]));
    out[1] = bell_sum(out[0], BELL_NO_DIMS, false);
    return BELL_OK;
}

static void
make_block(struct bell_context *ctx, struct net *net)
{
    uint32_t i;

    net->n = 6;
    for (i = 0; i < 4; i++)
        net->w[i] = make(ctx, WIDTH, WIDTH, i + 7);
    net->w[4] = make(ctx, WIDTH, 64, 90);
    net->w[5] = make(ctx, 64, WIDTH, 91);
}

static const struct model {
    void (*make)(struct bell_context *ctx, struct net *net);
    fn_type *fn;
    int64_t rows, columns;
} models[] = {
    {make_mlp, mlp, BATCH, 784},
    {make_block, block, 16, WIDTH},
};

/* What the jit gives on the device. */
static void
run_jit(const struct model *model, const char *device, uint8_t *out[2],
        size_t n_bytes[2])
{
    struct bell_jit_desc desc = {sizeof(desc), "net", model->fn, NULL, 1, 2};
    struct bell_tensor *in, *result[2];
    struct bell_context *ctx;
    struct bell_jit *jit;
    struct net net;
    int i;

    expect_ok(bell_context_create(device, &ctx));
    model->make(ctx, &net);
    in = make(ctx, model->rows, model->columns, 99);
    desc.user = &net;
    expect_ok(bell_jit_create(ctx, &desc, &jit));
    expect_ok(bell_jit_call(jit, &in, result));
    for (i = 0; i < 2; i++) {
        n_bytes[i] = (size_t)bell_nbytes(result[i]);
        out[i] = malloc(n_bytes[i]);
        assert_non_null(out[i]);
        expect_ok(bell_read(result[i], out[i], n_bytes[i]));
    }
    if (strcmp(device, "CPU") == 0)
        save(jit, &in, devices, ARRAY_LEN(devices));
    bell_jit_destroy(jit);
    bell_context_destroy(ctx);
}

static void
run_bundle(const struct model *model, const char *device, uint8_t *want[2],
           const size_t n_bytes[2])
{
    size_t n = (size_t)(model->rows * model->columns);
    float *x = malloc(n * sizeof(*x));
    struct hcq_bundle *bundle;
    struct hcq_device *dev;
    struct hcq_bundle_info info = {.struct_size = sizeof(info)};
    uint8_t *got;
    int i, again;

    assert_non_null(x);
    fill(x, n, 99);
    bundle = open_bundle(device, &dev);
    hcq_bundle_get_info(bundle, &info);
    assert_int_equal(info.weights_in_place, strcmp(device, "CPU") == 0);
    expect_error(hcq_bundle_run(bundle, NULL), BELL_E_INVALID,
                 "input 'in0' was not set");
    expect_ok(hcq_bundle_write(bundle, find(bundle, HCQ_BUNDLE_INPUT, "in0"), x,
                               n * sizeof(*x)));
    for (again = 0; again < 2; again++) {
        expect_ok(hcq_bundle_run(bundle, NULL));
        for (i = 0; i < 2; i++) {
            got = malloc(n_bytes[i]);
            assert_non_null(got);
            expect_ok(hcq_bundle_read(
                bundle, find(bundle, HCQ_BUNDLE_OUTPUT, i ? "out1" : "out0"),
                got, n_bytes[i]));
            if (memcmp(got, want[i], n_bytes[i]) != 0)
                fail_msg("%s: output %d differs", device, i);
            free(got);
        }
    }
    hcq_bundle_close(bundle);
    hcq_device_close(dev);
    free(x);
}

static void
test_same_bits(void **state)
{
    uint8_t *want[2];
    size_t n_bytes[2], m, d;

    (void)state;
    for (m = 0; m < ARRAY_LEN(models); m++) {
        for (d = 0; d < ARRAY_LEN(devices); d++) {
            run_jit(&models[m], devices[d], want, n_bytes);
            run_bundle(&models[m], devices[d], want, n_bytes);
            free(want[0]);
            free(want[1]);
        }
    }
    unlink(temp_path());
}

/* ---- state ---- */

struct cache {
    struct bell_tensor *rows, *count, *last, *table;
};

/* A row is put at the place that the count says; what was there before goes
 * into an output; two tensors change places. */
static bell_status
remember(struct bell_context *ctx, void *user, struct bell_tensor *const *in,
         struct bell_tensor **out)
{
    struct cache *c = user;
    struct bell_tensor *before = bell_alias(c->last);
    const float three = 3;

    bell_assign_slice(c->rows, (int64_t[]){1, 0}, 2, in[0]);
    bell_assign(c->last, c->count);
    bell_assign(c->count, bell_add(before, bell_add(c->count, c->table)));
    out[0] =
        bell_mul(c->rows, bell_from_data(ctx, NULL, 0, BELL_FLOAT32, &three));
    out[1] = before;
    out[2] = in[0];
    return BELL_OK;
}

#define CALLS 3

static void
test_state(void **state)
{
    struct bell_jit_desc desc = {sizeof(desc), "cache", remember, NULL, 1, 3};
    float want[CALLS][12 + 4 + 4], got[12 + 4 + 4], x[4];
    struct bell_tensor *in, *out[3];
    struct bell_context *ctx;
    struct hcq_bundle *bundle;
    struct hcq_device *dev;
    struct bell_jit *jit;
    struct cache cache;
    size_t d;
    int i;

    (void)state;
    for (d = 0; d < ARRAY_LEN(devices); d++) {
        expect_ok(bell_context_create(devices[d], &ctx));
        cache.rows = make(ctx, 3, 4, 1);
        cache.count = make(ctx, 1, 4, 2);
        cache.last = make(ctx, 1, 4, 3);
        cache.table = make(ctx, 1, 4, 4);
        desc.user = &cache;
        expect_ok(bell_jit_create(ctx, &desc, &jit));
        in = make(ctx, 1, 4, 10);
        save(jit, &in, &devices[d], 1);
        for (i = 0; i < CALLS; i++) {
            in = make(ctx, 1, 4, (uint32_t)i + 10);
            expect_ok(bell_jit_call(jit, &in, out));
            expect_ok(bell_read(out[0], want[i], 48));
            expect_ok(bell_read(out[1], want[i] + 12, 16));
            expect_ok(bell_read(out[2], want[i] + 16, 16));
        }
        bell_jit_destroy(jit);
        bell_context_destroy(ctx);
        bundle = open_bundle(devices[d], &dev);
        for (i = 0; i < CALLS; i++) {
            fill(x, 4, (uint32_t)i + 10);
            expect_ok(hcq_bundle_write(
                bundle, find(bundle, HCQ_BUNDLE_INPUT, "in0"), x, sizeof(x)));
            expect_ok(hcq_bundle_run(bundle, NULL));
            expect_ok(hcq_bundle_read(
                bundle, find(bundle, HCQ_BUNDLE_OUTPUT, "out0"), got, 48));
            expect_ok(hcq_bundle_read(
                bundle, find(bundle, HCQ_BUNDLE_OUTPUT, "out1"), got + 12, 16));
            expect_ok(hcq_bundle_read(
                bundle, find(bundle, HCQ_BUNDLE_OUTPUT, "out2"), got + 16, 16));
            assert_memory_equal(got, want[i], sizeof(got));
        }
        hcq_bundle_close(bundle);
        hcq_device_close(dev);
    }
    unlink(temp_path());
}

/* ---- symbols ---- */

#define ROWS 24
#define COLS 20

struct grows {
    struct bell_tensor *rows;
    struct bell_dim n, at;
};

/* A row goes into a cache in place, behind those so far, of which the result is
 * made: a step of decoding. Another cache has it where `at` says. */
static bell_status
decode(struct bell_context *ctx, void *user, struct bell_tensor *const *in,
       struct bell_tensor **out)
{
    struct grows *g = user;
    struct bell_tensor *seen, *scores;

    bell_assign_slice(g->rows, BELL_SHAPE(bell_dim_sub(ctx, g->n, 1), 0),
                      in[0]);
    seen = bell_narrow(g->rows, 0, 0, g->n);
    scores = bell_softmax(bell_matmul(in[0], bell_t(seen)), -1);
    out[0] = bell_matmul(scores, seen);
    out[1] = bell_add(
        bell_narrow(g->rows, 0,
                    bell_dim_add(ctx, bell_dim_mul(ctx, g->at, 2), 1), 3),
        bell_dim_value(ctx, bell_dim_sub(ctx, bell_dim_mul(ctx, g->n, 3), 2),
                       BELL_DEFAULT));
    return BELL_OK;
}

static const int64_t lengths[] = {1, 2, 7, 3, 23, ROWS};

static void
write_symbol(struct hcq_bundle *bundle, const char *name, int64_t value)
{
    expect_ok(hcq_bundle_write(bundle, find(bundle, HCQ_BUNDLE_SYMBOL, name),
                               &value, sizeof(value)));
}

static void
check_symbols(struct hcq_bundle *bundle)
{
    uint32_t n = find(bundle, HCQ_BUNDLE_SYMBOL, "n");
    const struct hcq_bundle_value *v = hcq_bundle_value(bundle, n);
    int64_t word;

    assert_int_equal(v->ndim, 0);
    assert_int_equal(v->shape[0], 1);
    assert_int_equal(v->shape[1], ROWS);
    for (word = 0; word <= ROWS + 1; word += ROWS + 1)
        expect_error(hcq_bundle_write(bundle, n, &word, sizeof(word)),
                     BELL_E_INVALID, "it goes from 1 to 24");
    word = -1;
    expect_error(hcq_bundle_write(bundle, n, &word, sizeof(word)),
                 BELL_E_INVALID, "'n' = -1; it goes from 1 to 24");
    expect_error(hcq_bundle_write(bundle, n, &word, 4), BELL_E_INVALID,
                 "'n' has 8 bytes, 4 are to be written");
    expect_error(hcq_bundle_read(bundle, n, &word, sizeof(word)),
                 BELL_E_INVALID, "'n' is not to be read");
    expect_error(hcq_bundle_bind(bundle, n, NULL, 0), BELL_E_INVALID,
                 "'n' is not to be bound");
}

static void
run_lengths(const char *device, float want[][4 * COLS])
{
    struct hcq_bundle_info info = {.struct_size = sizeof(info)};
    struct hcq_bundle *bundle;
    struct hcq_device *dev;
    float x[COLS], got[4 * COLS];
    size_t i;

    bundle = open_bundle(device, &dev);
    check_symbols(bundle);
    hcq_bundle_get_info(bundle, &info);
    for (i = 0; i < ARRAY_LEN(lengths); i++) {
        write_symbol(bundle, "n", lengths[i]);
        write_symbol(bundle, "at", (int64_t)i);
        fill(x, COLS, (uint32_t)i + 10);
        expect_ok(hcq_bundle_write(bundle, 0, x, sizeof(x)));
        expect_ok(hcq_bundle_run(bundle, NULL));
        expect_ok(hcq_bundle_read(bundle, 1, got, COLS * sizeof(*got)));
        expect_ok(
            hcq_bundle_read(bundle, 2, got + COLS, 3 * COLS * sizeof(*got)));
        if (memcmp(got, want[i], sizeof(got)) != 0)
            fail_msg("%s: of %d rows", device, (int)lengths[i]);
    }
    hcq_bundle_close(bundle);
    hcq_device_close(dev);
}

static void
test_symbols(void **state)
{
    struct bell_jit_desc desc = {sizeof(desc), "decode", decode, NULL, 1, 2};
    static float want[ARRAY_LEN(lengths)][4 * COLS];
    struct bell_tensor *in, *out[2];
    struct bell_context *ctx;
    struct bell_jit *jit;
    struct grows grows;
    size_t d, i;

    (void)state;
    for (d = 0; d < ARRAY_LEN(devices); d++) {
        expect_ok(bell_context_create(devices[d], &ctx));
        grows.rows = make(ctx, ROWS, COLS, 3);
        bell_symbol(ctx, "other", 0, 5);
        grows.n = bell_symbol(ctx, "n", 1, ROWS);
        grows.at = bell_symbol(ctx, "at", 0, 10);
        desc.user = &grows;
        expect_ok(bell_jit_create(ctx, &desc, &jit));
        in = make(ctx, 1, COLS, 10);
        save(jit, &in, devices, ARRAY_LEN(devices));
        for (i = 0; i < ARRAY_LEN(lengths); i++) {
            expect_ok(bell_symbol_set(ctx, grows.n, lengths[i]));
            expect_ok(bell_symbol_set(ctx, grows.at, (int64_t)i));
            in = make(ctx, 1, COLS, (uint32_t)i + 10);
            expect_ok(bell_jit_call(jit, &in, out));
            expect_ok(bell_read(out[0], want[i], COLS * sizeof(float)));
            expect_ok(
                bell_read(out[1], want[i] + COLS, 3 * COLS * sizeof(float)));
        }
        bell_jit_destroy(jit);
        bell_context_destroy(ctx);
        run_lengths(devices[d], want);
    }
    unlink(temp_path());
}

static bell_status
vary(struct bell_context *ctx, void *user, struct bell_tensor *const *in,
     struct bell_tensor **out)
{
    const struct grows *g = user;

    (void)ctx;
    out[0] = bell_add(bell_narrow(in[0], 0, 0, g->n),
                      bell_narrow(in[0], 0, g->at, 1));
    return BELL_OK;
}

static bell_status
slide(struct bell_context *ctx, void *user, struct bell_tensor *const *in,
      struct bell_tensor **out)
{
    const struct grows *g = user;

    (void)ctx;
    out[0] = bell_add(bell_narrow(in[0], 0, g->at, 1),
                      bell_narrow(in[0], 0, g->n, 1));
    return BELL_OK;
}

/* What was saved last, which the caller frees. */
static uint8_t *
read_bundle(size_t *out_n)
{
    FILE *file = fopen(temp_path(), "rb");
    uint8_t *data = aligned_alloc(BUNDLE_PAGE, 64 * BUNDLE_PAGE);

    assert_non_null(file);
    assert_non_null(data);
    *out_n = fread(data, 1, 64 * BUNDLE_PAGE, file);
    assert_true(*out_n > sizeof(struct bundle_header));
    assert_true(*out_n < 64 * BUNDLE_PAGE);
    fclose(file);
    unlink(temp_path());
    return data;
}

/* The checksums made right again: what a person who means harm would do. */
static void
seal(uint8_t *data)
{
    struct bundle_header *h = (void *)data;
    struct bundle_header_2 *h2 = (void *)data;
    uint32_t n = BUNDLE_SECTION_COUNT + (h->version >= BUNDLE_WITH_IR), i;

    for (i = 0; i < n; i++) {
        struct bundle_section *s = i == BUNDLE_IR ? &h2->ir : &h->sections[i];
        if (s->offset <= h->file_bytes &&
            s->size_bytes <= h->file_bytes - s->offset)
            s->checksum = bundle_checksum(data + s->offset, s->size_bytes);
    }
    h->checksum = 0;
    h->checksum =
        bundle_checksum(h, n > BUNDLE_SECTION_COUNT ? sizeof(*h2) : sizeof(*h));
}

#define ROW(type, section)                                                     \
    ((type *)(void *)(copy + h->sections[section].offset))

/* Rows of symbols that are not as they are to be. */
static void
test_symbols_hostile(void **state)
{
    struct bell_jit_desc desc = {sizeof(desc), "decode", decode, NULL, 1, 2};
    struct bundle_value *values, *n_value = NULL;
    struct bundle_arg *args, *word = NULL, *memory = NULL;
    struct hcq_bundle *bundle;
    struct bundle_header *h;
    struct bell_context *ctx;
    struct hcq_device *dev;
    struct bell_tensor *in;
    struct bell_jit *jit;
    struct grows grows;
    uint8_t *data, *copy;
    size_t n, i;

    (void)state;
    expect_ok(bell_context_create("CPU", &ctx));
    grows.rows = make(ctx, ROWS, COLS, 3);
    grows.n = bell_symbol(ctx, "n", 1, ROWS);
    grows.at = bell_symbol(ctx, "at", 0, 10);
    desc.user = &grows;
    expect_ok(bell_jit_create(ctx, &desc, &jit));
    in = make(ctx, 1, COLS, 10);
    save(jit, &in, devices, 1);
    bell_jit_destroy(jit);
    bell_context_destroy(ctx);
    data = read_bundle(&n);
    copy = aligned_alloc(BUNDLE_PAGE, 64 * BUNDLE_PAGE);
    assert_non_null(copy);
    memcpy(copy, data, n);
    h = (void *)copy;
    assert_int_equal(h->version, BUNDLE_SYMBOLS);
    values = ROW(struct bundle_value, BUNDLE_VALUES);
    args = ROW(struct bundle_arg, BUNDLE_ARGS);
    for (i = 0; values[i].kind != BUNDLE_SYMBOL; i++)
        continue;
    n_value = &values[i];
    for (i = 0; !word || !memory; i++) {
        if (args[i].place == BUNDLE_TIMES)
            word = &args[i];
        if (args[i].place == BUNDLE_VALUE)
            memory = &args[i];
    }
    expect_ok(hcq_device_open("CPU", &dev));
    expect_ok(hcq_bundle_open_memory(dev, copy, n, &bundle));
    hcq_bundle_close(bundle);
#define TRY(change, text)                                                      \
    do {                                                                       \
        memcpy(copy, data, n);                                                 \
        change;                                                                \
        seal(copy);                                                            \
        expect_error(hcq_bundle_open_memory(dev, copy, n, &bundle), BELL_E_IO, \
                     text);                                                    \
    } while (0)
    TRY(h->version = BUNDLE_WITH_IR, "kind 4");
    TRY((n_value->dtype = 12, n_value->size_bytes = 4), "has dtype 12, 0 axes");
    TRY((n_value->ndim = 1, n_value->size_bytes *= n_value->shape[0]),
        "has dtype 8, 1 axes");
    TRY(n_value->shape[0] = n_value->shape[1] + 1, "25 to 24");
    TRY(n_value->shape[1] = BUNDLE_SYMBOL_MAX + 1, "1 to 1048577");
    TRY(n_value->data_offset = 0, "bytes at 0x0 of");
    TRY(n_value->kind = BUNDLE_STATE, "for a word");
    TRY(word->value = 0, "value 0 of");
    TRY(word->value = 1u << 31, "for a word");
    TRY(word->access = BUNDLE_READ, "a word of 0 bytes, access 1");
    TRY(memory->value = (uint32_t)(n_value - values), "for memory");
    TRY(memory->times = 1, "for memory");
#undef TRY
    hcq_device_close(dev);
    free(data);
    free(copy);
}

static void
test_symbols_refused(void **state)
{
    const struct bell_jit_save_desc desc = {
        .struct_size = sizeof(desc), .targets = devices, .n_targets = 1};
    struct bell_jit_desc of = {sizeof(of), "vary", vary, NULL, 1, 1};
    struct bell_context *ctx;
    struct bell_tensor *in;
    struct grows grows;
    struct bell_jit *jit;

    (void)state;
    expect_ok(bell_context_create("CPU", &ctx));
    in = make(ctx, ROWS, COLS, 3);
    grows.n = bell_symbol(ctx, "n", 1, ROWS - 1);
    grows.at = bell_symbol(ctx, "n", 0, 10);
    of.user = &grows;
    expect_ok(bell_jit_create(ctx, &of, &jit));
    expect_error(bell_jit_save(jit, &in, &desc, temp_path()), BELL_E_INVALID,
                 "two symbols are called 'n'");
    bell_jit_destroy(jit);
    of.fn = slide;
    expect_ok(bell_jit_create(ctx, &of, &jit));
    expect_error(bell_jit_save(jit, &in, &desc, temp_path()), BELL_E_INVALID,
                 "two symbols are called 'n'");
    bell_jit_destroy(jit);
    bell_context_destroy(ctx);
}

/* ---- trainings ---- */

/* A net with dropout, of which Adam moves one matrix, another in a group of its
 * own, and SGD with momentum the bias. */
struct training {
    struct bell_tensor *w[3];
    struct bell_optimizer *adam, *sgd;
    bool training;
};

static bell_status
train(struct bell_context *ctx, void *user, struct bell_tensor *const *in,
      struct bell_tensor **out)
{
    struct training *t = user;
    struct bell_tensor *x = bell_tanh(bell_matmul(in[0], t->w[0]));

    (void)ctx;
    x = bell_add(bell_matmul(bell_dropout(x, 0.25), t->w[1]), t->w[2]);
    x = bell_sub(bell_dropout(x, 0.1), in[1]);
    out[0] = bell_mean(bell_mul(x, x), BELL_NO_DIMS, false);
    if (bell_backward(out[0]) != BELL_OK ||
        bell_optimizer_step(t->adam, NULL, 0) != BELL_OK)
        return bell_error_last()->status;
    if (t->sgd && bell_optimizer_step(t->sgd, out, 1) != BELL_OK)
        return bell_error_last()->status;
    bell_optimizer_zero_grad(t->adam);
    if (t->sgd)
        bell_optimizer_zero_grad(t->sgd);
    return BELL_OK;
}

static void
make_weights(struct bell_context *ctx, struct training *t)
{
    uint32_t i;

    t->w[0] = make(ctx, 5, 6, 1);
    t->w[1] = make(ctx, 6, 3, 2);
    t->w[2] = make(ctx, 1, 3, 3);
    for (i = 0; i < 3; i++)
        bell_requires_grad(t->w[i], i < 2 || t->training);
}

static void
make_training(struct bell_context *ctx, struct training *t)
{
    const struct bell_schedule schedule = {.struct_size = sizeof(schedule),
                                           .kind = BELL_SCHEDULE_COSINE,
                                           .n_steps = 6,
                                           .low = 0.1,
                                           .n_warmup = 2,
                                           .warmup_from = 0.5};
    const struct bell_adam_options adam = {
        .struct_size = sizeof(adam), .lr = 0.05, .beta2 = 0.95};
    const struct bell_sgd_options sgd = {.struct_size = sizeof(sgd),
                                         .lr = 0.1,
                                         .momentum = 0.9,
                                         .dampening = 0.5};
    const struct bell_group_options group = {
        .struct_size = sizeof(group), .lr = 0.01, .weight_decay = 0.1};

    bell_manual_seed(ctx, 0x123456789ab);
    t->training = true;
    make_weights(ctx, t);
    expect_ok(bell_adam_create(t->w, 1, &adam, &t->adam));
    expect_ok(bell_optimizer_add_group(t->adam, t->w + 1, 1, &group));
    expect_ok(bell_optimizer_set_schedule(t->adam, &schedule));
    expect_ok(bell_sgd_create(t->w + 2, 1, &sgd, &t->sgd));
}

#define STEPS 12

/* Whatever state of a bundle has `n` floats that are `want`. */
static void
expect_state(struct hcq_bundle *bundle, const float *want, uint64_t n,
             const char *device)
{
    const struct hcq_bundle_value *v;
    float got[32];
    uint32_t i;

    for (i = 0; (v = hcq_bundle_value(bundle, i)); i++) {
        if (v->kind != HCQ_BUNDLE_STATE || v->size_bytes != n * sizeof(*got))
            continue;
        expect_ok(hcq_bundle_read(bundle, i, got, v->size_bytes));
        if (memcmp(got, want, v->size_bytes) == 0)
            return;
    }
    fail_msg("%s: no state is the parameter of %d numbers", device, (int)n);
}

static void
run_training(const char *device, const float *losses, float params[3][32])
{
    static const uint64_t sizes[3] = {30, 18, 3};
    struct hcq_bundle *bundle;
    struct hcq_device *dev;
    uint32_t words[4] = {5, 6, UINT32_MAX, 7}, random, i;
    float x[20], y[12], loss;
    int64_t n_steps;

    bundle = open_bundle(device, &dev);
    for (i = 0; i < STEPS; i++) {
        fill(x, 20, i + 20);
        fill(y, 12, i + 50);
        expect_ok(hcq_bundle_write(bundle, 0, x, sizeof(x)));
        expect_ok(hcq_bundle_write(bundle, 1, y, sizeof(y)));
        expect_ok(hcq_bundle_run(bundle, NULL));
        expect_ok(hcq_bundle_read(bundle, 2, &loss, sizeof(loss)));
        if (memcmp(&loss, &losses[i], sizeof(loss)) != 0)
            fail_msg("%s: step %u: %a, not %a", device, i, (double)loss,
                     (double)losses[i]);
    }
    for (i = 0; i < 3; i++)
        expect_state(bundle, params[i], sizes[i], device);
    for (i = 0; i < 2; i++) {
        expect_ok(hcq_bundle_read(
            bundle, find(bundle, HCQ_BUNDLE_STATE, i ? "steps1" : "steps0"),
            &n_steps, sizeof(n_steps)));
        assert_int_equal(n_steps, STEPS);
    }
    /* the number of the next call of two a step is of 64 bits */
    random = find(bundle, HCQ_BUNDLE_STATE, "random");
    expect_ok(hcq_bundle_write(bundle, random, words, sizeof(words)));
    expect_ok(hcq_bundle_run(bundle, NULL));
    expect_ok(hcq_bundle_read(bundle, random, words, sizeof(words)));
    assert_int_equal(words[0], 5);
    assert_int_equal(words[1], 6);
    assert_int_equal(words[2], 1);
    assert_int_equal(words[3], 8);
    hcq_bundle_close(bundle);
    hcq_device_close(dev);
}

/* It goes on as the jit does, from where that is when it is saved. */
static void
test_training(void **state)
{
    struct bell_jit_desc desc = {sizeof(desc), "train", train, NULL, 2, 1};
    float losses[STEPS], params[3][32];
    struct bell_tensor *in[2], *loss;
    struct bell_context *ctx;
    struct training t;
    struct bell_jit *jit;
    size_t d;
    uint32_t i;

    (void)state;
    for (d = 0; d < ARRAY_LEN(devices); d++) {
        expect_ok(bell_context_create(devices[d], &ctx));
        make_training(ctx, &t);
        bell_set_training(ctx, true);
        desc.user = &t;
        expect_ok(bell_jit_create(ctx, &desc, &jit));
        for (i = 0; i < STEPS + 2; i++) {
            if (i == 2)
                save(jit, in, devices, ARRAY_LEN(devices));
            in[0] = make(ctx, 4, 5, i + 18);
            in[1] = make(ctx, 4, 3, i + 48);
            expect_ok(bell_jit_call(jit, in, &loss));
            if (i >= 2)
                expect_ok(bell_read(loss, &losses[i - 2], sizeof(float)));
        }
        for (i = 0; i < 3; i++)
            expect_ok(
                bell_read(t.w[i], params[i], (size_t)bell_nbytes(t.w[i])));
        bell_jit_destroy(jit);
        bell_optimizer_destroy(t.adam);
        bell_optimizer_destroy(t.sgd);
        bell_context_destroy(ctx);
        run_training(devices[d], losses, params);
    }
    unlink(temp_path());
}

/* Saving it without the n-th allocation: an error, no file, and all goes on. */
static void
test_training_starved(void **state)
{
    struct bell_jit_desc desc = {sizeof(desc), "train", train, NULL, 2, 1};
    const struct bell_jit_save_desc where = {
        .struct_size = sizeof(where), .targets = devices, .n_targets = 1};
    struct bell_tensor *in[2];
    struct bell_context *ctx;
    struct training t;
    struct bell_jit *jit;
    bell_status status = BELL_E_NO_MEMORY;
    uint64_t n;

    (void)state;
    expect_ok(bell_context_create("CPU", &ctx));
    make_training(ctx, &t);
    bell_set_training(ctx, true);
    desc.user = &t;
    in[0] = make(ctx, 4, 5, 18);
    in[1] = make(ctx, 4, 3, 48);
    expect_ok(bell_jit_create(ctx, &desc, &jit));
    for (n = 1; status != BELL_OK; n += 1 + n / 4) {
        host_fail_after(n, 1);
        status = bell_jit_save(jit, in, &where, temp_path());
        host_fail_after(0, 0);
        if (status == BELL_OK)
            break;
        assert_int_equal(status, BELL_E_NO_MEMORY);
        assert_int_not_equal(access(temp_path(), F_OK), 0);
        bell_error_clear();
    }
    unlink(temp_path());
    expect_ok(bell_jit_call(jit, in, in));
    bell_jit_destroy(jit);
    bell_optimizer_destroy(t.adam);
    bell_optimizer_destroy(t.sgd);
    bell_context_destroy(ctx);
}

/* ---- what is refused ---- */

static bell_status
add_one(struct bell_context *ctx, void *user, struct bell_tensor *const *in,
        struct bell_tensor **out)
{
    struct bell_tensor **w = user;

    (void)ctx;
    out[0] = bell_add(in[0], *w);
    return BELL_OK;
}

/* A small one for the CPU, at a page; *out_n bytes. */
static uint8_t *
small_bundle(size_t *out_n)
{
    struct bell_jit_desc desc = {sizeof(desc), "add", add_one, NULL, 1, 1};
    struct bell_tensor *in, *w;
    struct bell_context *ctx;
    struct bell_jit *jit;

    expect_ok(bell_context_create("CPU", &ctx));
    in = make(ctx, 2, 3, 1);
    w = make(ctx, 2, 3, 2);
    desc.user = &w;
    expect_ok(bell_jit_create(ctx, &desc, &jit));
    save(jit, &in, devices, 1);
    bell_jit_destroy(jit);
    bell_context_destroy(ctx);
    return read_bundle(out_n);
}

/* Opened and run: an error that says why, or the right result. */
static bell_status
try_bundle(struct hcq_device *dev, const uint8_t *data, size_t n)
{
    float x[6], w[6], y[6];
    struct hcq_bundle *bundle;
    bell_status status = hcq_bundle_open_memory(dev, data, n, &bundle);
    int i;

    if (status != BELL_OK) {
        assert_true(bell_error_last()->message[0] != 0);
        bell_error_clear();
        return status;
    }
    fill(x, 6, 5);
    fill(w, 6, 2);
    expect_ok(hcq_bundle_write(bundle, 0, x, sizeof(x)));
    expect_ok(hcq_bundle_run(bundle, NULL));
    expect_ok(hcq_bundle_read(bundle, 1, y, sizeof(y)));
    for (i = 0; i < 6; i++)
        assert_true(y[i] == x[i] + w[i]);
    hcq_bundle_close(bundle);
    return BELL_OK;
}

/* Cut at every size, and every bit flipped. */
static void
test_damaged(void **state)
{
    struct hcq_device *dev;
    size_t n, i, n_good = 0;
    uint8_t *data = small_bundle(&n), *copy;
    const struct bundle_header *header = (const void *)data;
    size_t n_padding = n - sizeof(*header);

    (void)state;
    for (i = 0; i < BUNDLE_SECTION_COUNT; i++)
        n_padding -= header->sections[i].size_bytes;
    copy = aligned_alloc(BUNDLE_PAGE, 64 * BUNDLE_PAGE);
    assert_non_null(copy);
    expect_ok(hcq_device_open("CPU", &dev));
    assert_int_equal(try_bundle(dev, data, n), BELL_OK);
    for (i = 0; i < n; i++) {
        memcpy(copy, data, i);
        assert_int_not_equal(try_bundle(dev, copy, i), BELL_OK);
    }
    memcpy(copy, data, n);
    for (i = 0; i < n; i++) {
        copy[i] ^= (uint8_t)(1u << i % 8);
        n_good += try_bundle(dev, copy, n) == BELL_OK;
        copy[i] = data[i];
    }
    assert_int_equal(n_good, n_padding);
    memset(copy + n, 0, 8);
    assert_int_equal(try_bundle(dev, copy, n + 8), BELL_E_IO);
    hcq_device_close(dev);
    free(data);
    free(copy);
}

static void
test_hostile(void **state)
{
    struct hcq_device *dev;
    struct hcq_bundle *bundle;
    size_t n, i;
    uint8_t *data = small_bundle(&n), *copy;
    struct bundle_header *h;

    (void)state;
    copy = aligned_alloc(BUNDLE_PAGE, 64 * BUNDLE_PAGE);
    assert_non_null(copy);
    h = (void *)copy;
    expect_ok(hcq_device_open("CPU", &dev));
    expect_error(hcq_bundle_open_memory(dev, data + 1, n, &bundle),
                 BELL_E_INVALID, "not a multiple of 4096");
#define TRY(change, status, text)                                              \
    do {                                                                       \
        memcpy(copy, data, n);                                                 \
        change;                                                                \
        seal(copy);                                                            \
        expect_error(hcq_bundle_open_memory(dev, copy, n, &bundle), status,    \
                     text);                                                    \
    } while (0)
    TRY(h->magic[1] ^= 1, BELL_E_IO, "not a bundle");
    TRY(h->version = 6, BELL_E_UNSUPPORTED, "version 6; 1 to 5 are read");
    TRY(h->version = 0, BELL_E_UNSUPPORTED, "version 0; 1 to 5 are read");
    TRY(h->version = BUNDLE_WITH_IR, BELL_E_IO, "8 sections, not 9");
    TRY(h->n_sections++, BELL_E_IO, "9 sections");
    TRY(h->file_bytes++, BELL_E_IO, "cut short");
    for (i = 0; i < BUNDLE_SECTION_COUNT; i++) {
        TRY(h->sections[i].offset = n, BELL_E_IO, "they are to lie");
        TRY(h->sections[i].offset = UINT64_MAX - 63, BELL_E_IO,
            "they are to lie");
        TRY(h->sections[i].offset += 8, BELL_E_IO, "they are to lie");
        TRY(h->sections[i].size_bytes = UINT64_MAX, BELL_E_IO,
            "they are to lie");
    }
    TRY(h->sections[BUNDLE_VALUES].size_bytes--, BELL_E_IO, "for rows of 96");
    TRY(h->sections[BUNDLE_DATA].size_bytes -= 64, BELL_E_IO, "of data");
    TRY(copy[h->sections[BUNDLE_NAMES].offset] = 'x', BELL_E_IO,
        "begin with an empty name");
    TRY(copy[h->sections[BUNDLE_NAMES].offset + 1] = 7, BELL_E_IO,
        "character 0x07");
    TRY(ROW(struct bundle_value, BUNDLE_VALUES)->name = 1u << 30, BELL_E_IO,
        "name 0x40000000");
    TRY(ROW(struct bundle_value, BUNDLE_VALUES)->kind = 4, BELL_E_IO, "kind 4");
    TRY(ROW(struct bundle_value, BUNDLE_VALUES)->dtype = 0, BELL_E_IO,
        "dtype 0");
    TRY(ROW(struct bundle_value, BUNDLE_VALUES)->ndim = 9, BELL_E_IO, "9 axes");
    TRY(ROW(struct bundle_value, BUNDLE_VALUES)->shape[0] = 3, BELL_E_IO,
        "its shape asks for 36");
    TRY(ROW(struct bundle_value, BUNDLE_VALUES)->shape[0] = (uint64_t)1 << 62,
        BELL_E_IO, "too large at axis");
    TRY(ROW(struct bundle_value, BUNDLE_VALUES)->data_offset = 0, BELL_E_IO,
        "bytes at 0x0 of");
    TRY(ROW(struct bundle_value, BUNDLE_VALUES)[2].data_offset = 64, BELL_E_IO,
        "bytes at 0x40 of");
    TRY(ROW(struct bundle_value, BUNDLE_VALUES)[2].data_offset = BUNDLE_NO_DATA,
        BELL_E_IO, "bytes at 0xffffffffffffffff of");
    TRY(ROW(struct bundle_kernel, BUNDLE_KERNELS)->object_offset = 64,
        BELL_E_IO, "of objects");
    TRY(ROW(struct bundle_kernel, BUNDLE_KERNELS)->object_bytes = 0,
        BELL_E_INVALID, "no binary");
    TRY(ROW(struct bundle_kernel, BUNDLE_KERNELS)->n_bufs = UINT32_MAX,
        BELL_E_IO, "arguments, not");
    TRY(ROW(struct bundle_kernel, BUNDLE_KERNELS)->shared_bytes = 1u << 31,
        BELL_E_INVALID, "shared memory");
    TRY(ROW(struct bundle_target, BUNDLE_TARGETS)->arch++, BELL_E_UNSUPPORTED,
        "it is for CPU");
    TRY(ROW(struct bundle_target, BUNDLE_TARGETS)->arch = 1u << 31, BELL_E_IO,
        "names");
    TRY(ROW(struct bundle_target, BUNDLE_TARGETS)->form = 9, BELL_E_IO,
        "form 9");
    TRY(ROW(struct bundle_target, BUNDLE_TARGETS)->n_kernels = UINT32_MAX,
        BELL_E_IO, "kernels 0 + 4294967295");
    TRY(ROW(struct bundle_target, BUNDLE_TARGETS)->first_command = UINT32_MAX,
        BELL_E_IO, "commands 4294967295 + 1");
    TRY(ROW(struct bundle_command, BUNDLE_COMMANDS)->op = 3, BELL_E_IO, "op 3");
    TRY(ROW(struct bundle_command, BUNDLE_COMMANDS)->kernel = 1, BELL_E_IO,
        "kernel 1 of 1");
    TRY(ROW(struct bundle_command, BUNDLE_COMMANDS)->grid[1] = 0, BELL_E_IO,
        "a grid of");
    TRY(ROW(struct bundle_command, BUNDLE_COMMANDS)->first_arg = UINT32_MAX,
        BELL_E_IO, "arguments 4294967295 +");
    TRY(ROW(struct bundle_command, BUNDLE_COMMANDS)->n_args = 1, BELL_E_IO,
        "1 arguments, not 3");
    TRY(ROW(struct bundle_arg, BUNDLE_ARGS)->place = 9, BELL_E_IO, "place 9");
    TRY(ROW(struct bundle_arg, BUNDLE_ARGS)->place = BUNDLE_WORD, BELL_E_IO,
        "for memory");
    TRY(ROW(struct bundle_arg, BUNDLE_ARGS)->value = 99, BELL_E_IO,
        "value 99 of 3");
    TRY(ROW(struct bundle_arg, BUNDLE_ARGS)->value = 0, BELL_E_IO,
        "access 2 to value 0");
    TRY(ROW(struct bundle_arg, BUNDLE_ARGS)->access = 0, BELL_E_IO, "access 0");
    TRY(ROW(struct bundle_arg, BUNDLE_ARGS)->offset = 4, BELL_E_IO,
        "24 bytes at 0x4 of 24");
    TRY(ROW(struct bundle_arg, BUNDLE_ARGS)->offset = UINT64_MAX, BELL_E_IO,
        "24 bytes at 0xffffffffffffffff of 24");
    TRY(ROW(struct bundle_arg, BUNDLE_ARGS)->size_bytes = UINT64_MAX, BELL_E_IO,
        "18446744073709551615 bytes at");
    hcq_device_close(dev);
    expect_ok(hcq_device_open("AMD@sim:gfx1100", &dev));
    expect_error(hcq_bundle_open_memory(dev, data, n, &bundle),
                 BELL_E_UNSUPPORTED, "is AMD gfx1100");
    hcq_device_close(dev);
    free(data);
    free(copy);
}

/* Calls that do not fit the bundle, and functions that none can hold. */
static void
test_misuse(void **state)
{
    struct bell_jit_desc desc = {sizeof(desc), "train", train, NULL, 2, 1};
    struct bell_jit_save_desc where = {
        .struct_size = sizeof(where), .targets = devices, .n_targets = 1};
    struct hcq_device *dev;
    struct hcq_bundle *bundle;
    struct bell_context *ctx;
    const struct bell_adagrad_options adagrad = {
        .struct_size = sizeof(adagrad), .lr = 0.1, .lr_decay = 0.1};
    struct training t = {.training = false};
    struct bell_tensor *in[2];
    struct hcq_buffer *buf;
    struct bell_jit *jit;
    uint64_t value;
    float x[16] = {0};
    size_t n;
    uint8_t *data = small_bundle(&n);

    (void)state;
    expect_ok(bell_context_create("CPU", &ctx));
    make_weights(ctx, &t);
    expect_ok(bell_adagrad_create(t.w, 2, &adagrad, &t.adam));
    in[0] = make(ctx, 4, 5, 1);
    in[1] = make(ctx, 4, 3, 1);
    desc.user = &t;
    expect_ok(bell_jit_create(ctx, &desc, &jit));
    expect_error(bell_jit_save(jit, in, &where, temp_path()),
                 BELL_E_UNSUPPORTED, "an optimiser's rates go on changing");
    where.n_steps = 3;
    expect_ok(bell_jit_save(jit, in, &where, temp_path()));
    unlink(temp_path());
    where.n_targets = 0;
    expect_error(bell_jit_save(jit, in, &where, temp_path()), BELL_E_INVALID,
                 "no targets");
    bell_jit_destroy(jit);
    bell_optimizer_destroy(t.adam);
    bell_context_destroy(ctx);
    assert_int_not_equal(access(temp_path(), F_OK), 0);

    expect_ok(hcq_device_open("CPU", &dev));
    expect_error(hcq_bundle_open(dev, "/nonexistent/x", &bundle), BELL_E_IO,
                 "No such file");
    expect_error(hcq_bundle_open(dev, "/tmp", &bundle), BELL_E_IO,
                 "expected a regular file");
    expect_ok(hcq_bundle_open_memory(dev, data, n, &bundle));
    expect_error(hcq_bundle_write(bundle, 0, x, 20), BELL_E_INVALID,
                 "'in0' has 24 bytes, 20 are");
    expect_error(hcq_bundle_write(bundle, 1, x, 24), BELL_E_INVALID,
                 "'out0' is not to be written");
    expect_error(hcq_bundle_write(bundle, 3, x, 24), BELL_E_INVALID,
                 "no value 3");
    expect_error(hcq_bundle_bind(bundle, 2, NULL, 0), BELL_E_INVALID,
                 "'weight0' is not to be bound");
    expect_ok(hcq_buffer_create(dev, 128, 0, &buf));
    expect_error(hcq_bundle_bind(bundle, 0, buf, 120), BELL_E_INVALID,
                 "from 120 of 128");
    expect_error(hcq_bundle_bind(bundle, 0, buf, 4), BELL_E_INVALID,
                 "multiple of 64");
    fill(x, 6, 3);
    expect_ok(hcq_buffer_write(buf, 0, x, 24));
    expect_ok(hcq_bundle_bind(bundle, 0, buf, 0));
    expect_ok(hcq_bundle_bind(bundle, 1, buf, 64));
    expect_ok(hcq_bundle_run(bundle, &value));
    expect_ok(hcq_signal_wait(hcq_queue_timeline(hcq_bundle_queue(bundle)),
                              value, HCQ_TIMEOUT_NS));
    expect_error(hcq_bundle_read(bundle, 1, x, 24), BELL_E_INVALID,
                 "buffer of the caller's");
    expect_ok(hcq_buffer_read(buf, 64, x + 6, 24));
    fill(x + 12, 1, 2);
    assert_true(x[6] == x[0] + x[12]);
    expect_ok(hcq_bundle_bind(bundle, 0, NULL, 0));
    expect_error(hcq_bundle_run(bundle, NULL), BELL_E_INVALID, "was not set");
    hcq_bundle_close(bundle);
    hcq_buffer_destroy(buf);
    hcq_device_close(dev);
    free(data);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_same_bits),
        cmocka_unit_test(test_state),
        cmocka_unit_test(test_damaged),
        cmocka_unit_test(test_hostile),
        cmocka_unit_test(test_misuse),
        cmocka_unit_test(test_symbols),
        cmocka_unit_test(test_symbols_refused),
        cmocka_unit_test(test_training),
        cmocka_unit_test(test_training_starved),
        cmocka_unit_test(test_symbols_hostile),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
