/* Bundles whose kernels are searched for: what is found is written, computes
 * the same, and can be searched for again; IR that is none, or of another
 * kernel, is refused or not taken. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "doorbell/jit.h"
#include "doorbell/ops.h"
#include "hcq/hcq_bundle.h"
#include "hcq/hcq_bundle_format.h"
#include "tensor/runtime/runtime.h"

#define SIDE   64
#define N      (SIDE * SIDE)
#define DEVICE "NV@sim:sm_90"
#define ROOM   (64 * BUNDLE_PAGE)

static char from_path[64], to_path[64];
static uint32_t n_told, n_counted, n_wrong;
static char why[128];
static volatile sig_atomic_t has_enough;

static void
expect_ok(bell_status status)
{
    if (status != BELL_OK)
        fail_msg("%s", bell_error_last()->message);
}

static void
hear(void *user, const struct tensor_tuned *t)
{
    (void)user;
    n_told++;
    n_wrong += t->n_wrong;
    snprintf(why, sizeof(why), "%s", t->why_not ? t->why_not : "");
}

static void
begin_count(void *user)
{
    (void)user;
}

/* Each is better than those before. */
static void
end_count(void *user, struct chip_work *out_work)
{
    (void)user;
    out_work->n_insns = 1e9 / ++n_counted;
    has_enough = n_counted > 12;
}

static const struct tensor_tune tune = {.beam = 2,
                                        .seconds = 20,
                                        .stop = &has_enough,
                                        .tell = hear,
                                        .count_begin = begin_count,
                                        .count_end = end_count};

/* Small integers: sums of products are exact in any order. */
static void
fill(float *data, uint32_t seed)
{
    int i;

    for (i = 0; i < N; i++) {
        seed = seed * 1664525 + 1013904223;
        data[i] = (float)(seed >> 29);
    }
}

static bell_status
product(struct bell_context *ctx, void *user, struct bell_tensor *const *in,
        struct bell_tensor **out)
{
    (void)ctx;
    out[0] = bell_matmul(in[0], user);
    return BELL_OK;
}

static void
save(bool is_tunable)
{
    static const char *const targets[] = {DEVICE};
    struct bell_jit_desc desc = {sizeof(desc), "product", product, NULL, 1, 1};
    struct bell_jit_save_desc where = {.struct_size = sizeof(where),
                                       .targets = targets,
                                       .n_targets = 1,
                                       .is_tunable = is_tunable};
    struct bell_context *ctx;
    struct bell_tensor *in;
    struct bell_jit *jit;
    float data[N];

    expect_ok(bell_context_create("CPU", &ctx));
    fill(data, 2);
    desc.user = bell_from_data(ctx, BELL_DIMS(SIDE, SIDE), BELL_FLOAT32, data);
    in = bell_zeros(ctx, BELL_DIMS(SIDE, SIDE), BELL_FLOAT32);
    expect_ok(bell_jit_create(ctx, &desc, &jit));
    expect_ok(bell_jit_save(jit, &in, &where, from_path));
    bell_jit_destroy(jit);
    bell_context_destroy(ctx);
}

static bell_status
search(const char *from, const char *to, uint32_t *out_n_new)
{
    struct bell_context *ctx;
    bell_status status;

    n_told = n_counted = n_wrong = 0;
    has_enough = 0;
    why[0] = 0;
    expect_ok(bell_context_create(DEVICE, &ctx));
    tensor_tune_set(ctx, &tune);
    status = tensor_tune_bundle(ctx, from, to, out_n_new);
    bell_context_destroy(ctx);
    return status;
}

static void
check_product(const char *path)
{
    static float x[N], w[N], y[N];
    struct hcq_bundle *bundle;
    struct hcq_device *dev;
    int i, j, k;

    fill(x, 1);
    fill(w, 2);
    expect_ok(hcq_device_open(DEVICE, &dev));
    expect_ok(hcq_bundle_open(dev, path, &bundle));
    expect_ok(hcq_bundle_write(bundle,
                               hcq_bundle_find(bundle, HCQ_BUNDLE_INPUT, "in0"),
                               x, sizeof(x)));
    expect_ok(hcq_bundle_run(bundle, NULL));
    expect_ok(hcq_bundle_read(
        bundle, hcq_bundle_find(bundle, HCQ_BUNDLE_OUTPUT, "out0"), y,
        sizeof(y)));
    for (i = 0; i < SIDE; i += 7) {
        for (j = 0; j < SIDE; j++) {
            float sum = 0;
            for (k = 0; k < SIDE; k++)
                sum += x[i * SIDE + k] * w[k * SIDE + j];
            assert_true(sum == y[i * SIDE + j]);
        }
    }
    hcq_bundle_close(bundle);
    hcq_device_close(dev);
}

static uint8_t *
read_file(const char *path, size_t *out_n)
{
    uint8_t *data = aligned_alloc(BUNDLE_PAGE, ROOM);
    FILE *file = fopen(path, "rb");

    assert_non_null(data);
    assert_non_null(file);
    memset(data, 0, ROOM);
    *out_n = fread(data, 1, ROOM, file);
    assert_true(*out_n > 0 && *out_n < ROOM);
    fclose(file);
    return data;
}

static void
write_file(const char *path, const uint8_t *data, size_t n)
{
    FILE *file = fopen(path, "wb");

    assert_non_null(file);
    assert_int_equal(fwrite(data, 1, n, file), n);
    assert_int_equal(fclose(file), 0);
}

static void
test_written(void **state)
{
    const struct bundle_header_2 *h;
    uint8_t *before, *after;
    uint32_t n_new, again;
    size_t n, m;

    (void)state;
    save(true);
    check_product(from_path);
    expect_ok(search(from_path, to_path, &n_new));
    assert_int_equal(n_told, 1);
    assert_string_equal(why, "");
    assert_int_equal(n_new, 1);
    assert_int_equal(n_wrong, 0);
    check_product(to_path);
    before = read_file(from_path, &n);
    after = read_file(to_path, &m);
    h = (const void *)before;
    assert_int_equal(h->header.version, BUNDLE_WITH_IR);
    assert_memory_equal(
        before + h->ir.offset,
        after +
            ((const struct bundle_header_2 *)(const void *)after)->ir.offset,
        h->ir.size_bytes);
    assert_true(n != m || memcmp(before, after, n) != 0);
    /* again, and where it is */
    expect_ok(search(to_path, to_path, &again));
    assert_int_equal(n_told, 1);
    check_product(to_path);
    free(before);
    free(after);
}

static void
test_no_ir(void **state)
{
    uint32_t n_new;
    uint8_t *data;
    size_t n;

    (void)state;
    save(false);
    data = read_file(from_path, &n);
    assert_int_equal(((struct bundle_header *)(void *)data)->version,
                     BUNDLE_VERSION);
    assert_int_equal(search(from_path, to_path, &n_new), BELL_E_UNSUPPORTED);
    assert_non_null(strstr(bell_error_last()->message, "--tunable"));
    bell_error_clear();
    free(data);
    remove(from_path);
    assert_int_equal(mkfifo(from_path, 0600), 0);
    assert_int_equal(search(from_path, to_path, &n_new), BELL_E_IO);
    assert_non_null(strstr(bell_error_last()->message, "got a FIFO"));
    bell_error_clear();
    remove(from_path);
}

static void
seal(uint8_t *data)
{
    struct bundle_header_2 *h = (void *)data;
    uint32_t i;

    for (i = 0; i < BUNDLE_SECTION_COUNT; i++) {
        struct bundle_section *s = &h->header.sections[i];
        s->checksum = bundle_checksum(data + s->offset, s->size_bytes);
    }
    if (h->ir.offset < ROOM && h->ir.size_bytes < ROOM - h->ir.offset)
        h->ir.checksum = bundle_checksum(data + h->ir.offset, h->ir.size_bytes);
    h->header.checksum = 0;
    h->header.checksum = bundle_checksum(h, sizeof(*h));
}

/* Each byte of the IR in turn becomes another: no search ends the process, none
 * is taken that computes something else. */
static void
test_hostile(void **state)
{
    struct bundle_kernel *kernel;
    struct bundle_header_2 *h;
    uint8_t *data, *copy;
    size_t n, i, n_refused = 0;
    uint32_t n_new;
    char *text;

    (void)state;
    save(true);
    data = read_file(from_path, &n);
    copy = aligned_alloc(BUNDLE_PAGE, ROOM);
    assert_non_null(copy);
    h = (void *)copy;
#define TRY(change, text)                                                      \
    do {                                                                       \
        memcpy(copy, data, ROOM);                                              \
        kernel = (void *)(copy + h->header.sections[BUNDLE_KERNELS].offset);   \
        change;                                                                \
        seal(copy);                                                            \
        write_file(from_path, copy, n);                                        \
        assert_int_equal(search(from_path, to_path, &n_new), BELL_E_IO);       \
        if (!strstr(bell_error_last()->message, text))                         \
            fail_msg("'%s' is not in '%s'", text, bell_error_last()->message); \
        bell_error_clear();                                                    \
    } while (0)
    TRY(kernel->ir = (uint32_t)h->ir.size_bytes, "has its IR at");
    TRY(kernel->ir = UINT32_MAX, "has its IR at");
    TRY(copy[h->ir.offset] = 'x', "begin with an empty text");
    TRY(copy[h->ir.offset + h->ir.size_bytes - 1] = 'x', "each is to end");
    TRY(h->ir.size_bytes = 0, "begin with an empty text");
    TRY(h->ir.offset = n, "they are to lie");
    TRY(h->ir.size_bytes = UINT64_MAX, "they are to lie");
    TRY(h->header.n_sections = BUNDLE_SECTION_COUNT, "8 sections, not 9");
    TRY(copy[h->ir.offset + 1] = '(', "its IR");
    TRY(copy[h->ir.offset + 5] = 0, "its IR");
    for (i = 1; i < h->ir.size_bytes - 1; i += 11) {
        memcpy(copy, data, ROOM);
        text = (char *)copy + h->ir.offset;
        text[i] = text[i] == '9' ? '1' : (char)(text[i] + 1);
        seal(copy);
        write_file(from_path, copy, n);
        if (search(from_path, to_path, &n_new) != BELL_OK)
            n_refused++;
        else
            check_product(to_path);
        bell_error_clear();
    }
    assert_true(n_refused > 0);
    free(data);
    free(copy);
}

static int
remove_files(void **state)
{
    (void)state;
    unlink(from_path);
    unlink(to_path);
    return 0;
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_written),
        cmocka_unit_test(test_no_ir),
        cmocka_unit_test(test_hostile),
    };

    snprintf(from_path, sizeof(from_path), "/tmp/bell_tune_%d", (int)getpid());
    snprintf(to_path, sizeof(to_path), "/tmp/bell_tuned_%d", (int)getpid());
    setenv("BELL_CACHE", "off", 1);
    return cmocka_run_group_tests(tests, NULL, remove_files);
}
