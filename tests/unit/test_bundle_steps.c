/* Bundles whose kernels say how many steps they take: those of few run on the
 * thread that submits them, also out of a file, which is hostile.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "doorbell/dim.h"
#include "doorbell/jit.h"
#include "doorbell/module.h"
#include "doorbell/ops.h"
#include "doorbell/tensor.h"
#include "hcq/hcq_bundle.h"
#include "hcq/hcq_bundle_format.h"
#include "hcq/hcq_feed.h"

#define FILE_MAX ((size_t)1 << 20)
#define N        1      /* elements of few */
#define MANY     100000 /* elements that a loop goes through */

static void
expect_ok(bell_status status)
{
    if (status != BELL_OK)
        fail_msg("%s", bell_error_last()->message);
}

static const char *
temp_path(void)
{
    static char path[64];

    snprintf(path, sizeof(path), "/tmp/bell_steps_%d", (int)getpid());
    return path;
}

/* x * x + 1 */
static bell_status
square(struct bell_context *ctx, void *user, struct bell_tensor *const *in,
       struct bell_tensor **out)
{
    (void)ctx;
    (void)user;
    out[0] = bell_add_scalar(bell_mul(in[0], in[0]), 1);
    return BELL_OK;
}

/* A bundle of square() for n elements, in memory of FILE_MAX bytes (free it).
 */
static uint8_t *
make_bundle(const char *const *targets, uint32_t n_targets, int64_t n,
            size_t *out_bytes)
{
    struct bell_jit_desc desc = {sizeof(desc), "square", square, NULL, 1, 1};
    struct bell_jit_save_desc save = {.struct_size = sizeof(save),
                                      .targets = targets,
                                      .n_targets = n_targets};
    uint8_t *data = aligned_alloc(BUNDLE_PAGE, FILE_MAX);
    struct bell_context *ctx;
    struct bell_tensor *x;
    struct bell_jit *jit;
    FILE *file;

    assert_non_null(data);
    expect_ok(bell_context_create("CPU", &ctx));
    x = bell_ones(ctx, BELL_DIMS(n), BELL_FLOAT32);
    expect_ok(bell_jit_create(ctx, &desc, &jit));
    expect_ok(bell_jit_save(jit, &x, &save, temp_path()));
    bell_jit_destroy(jit);
    bell_context_destroy(ctx);
    file = fopen(temp_path(), "rb");
    assert_non_null(file);
    *out_bytes = fread(data, 1, FILE_MAX, file);
    assert_true(*out_bytes > 0 && *out_bytes < FILE_MAX);
    fclose(file);
    unlink(temp_path());
    return data;
}

static struct bundle_kernel *
kernels_of(uint8_t *data)
{
    const struct bundle_header *h = (void *)data;

    return (void *)(data + h->sections[BUNDLE_KERNELS].offset);
}

/* The checksums made right again. */
static void
seal(uint8_t *data)
{
    struct bundle_header_2 *h = (void *)data;
    uint32_t n = BUNDLE_SECTION_COUNT + (h->header.version >= BUNDLE_WITH_IR),
             i;

    for (i = 0; i < n; i++) {
        struct bundle_section *s =
            i == BUNDLE_IR ? &h->ir : &h->header.sections[i];
        s->checksum = bundle_checksum(data + s->offset, s->size_bytes);
    }
    h->header.checksum = 0;
    h->header.checksum = bundle_checksum(
        h, n > BUNDLE_SECTION_COUNT ? sizeof(*h) : sizeof(h->header));
}

/* The thread of the queue has given back all that it did. */
static void
settle(struct hcq_queue *queue)
{
    const struct hcq_feed *feed = hcq_feed(queue);

    expect_ok(hcq_queue_wait(queue, HCQ_TIMEOUT_NS));
    while (atomic_load(&feed->read) != atomic_load(&feed->write))
        continue;
}

/* Runs it on the processor. With `is_here` it is to be done when it was
 * submitted. */
static void
run(const uint8_t *data, size_t bytes, bool is_here)
{
    const float x[N] = {-3};
    struct hcq_bundle *bundle;
    struct hcq_device *dev;
    uint64_t value;
    float y[N];
    int turn, i;

    expect_ok(hcq_device_open("CPU", &dev));
    expect_ok(hcq_bundle_open_memory(dev, data, bytes, &bundle));
    for (turn = 0; turn < 3; turn++) {
        expect_ok(hcq_bundle_write(
            bundle, hcq_bundle_find(bundle, HCQ_BUNDLE_INPUT, "in0"), x,
            sizeof(x)));
        settle(hcq_bundle_queue(bundle));
        expect_ok(hcq_bundle_run(bundle, &value));
        if (is_here &&
            hcq_signal_value(hcq_bundle_queue(bundle)->timeline) < value)
            fail_msg("a kernel of few steps was handed over");
        expect_ok(hcq_bundle_read(
            bundle, hcq_bundle_find(bundle, HCQ_BUNDLE_OUTPUT, "out0"), y,
            sizeof(y)));
        for (i = 0; i < N; i++)
            assert_true(y[i] == x[i] * x[i] + 1);
    }
    hcq_bundle_close(bundle);
    hcq_device_close(dev);
}

/* Each target's kernel is one. */
static void
test_steps(void **state)
{
    static const char *const both[] = {"NV@sim:sm_90", "CPU"};
    const struct bundle_header *h;
    uint8_t *data;
    size_t bytes;

    (void)state;
    data = make_bundle(both, 2, N, &bytes);
    h = (void *)data;
    assert_int_equal(h->version, BUNDLE_STEPS);
    assert_int_equal(kernels_of(data)[0].max_steps, 0);
    assert_in_range(kernels_of(data)[1].max_steps, 1, 256);
    run(data, bytes, true);
    free(data);
    /* without the steps it is what earlier versions had */
    data = make_bundle(both, 1, N, &bytes);
    h = (void *)data;
    assert_int_equal(h->version, BUNDLE_VERSION);
    free(data);
    data = make_bundle(both + 1, 1, MANY, &bytes);
    h = (void *)data;
    assert_int_equal(h->version, BUNDLE_VERSION);
    assert_int_equal(kernels_of(data)->max_steps, 0);
    free(data);
}

static void
test_hostile(void **state)
{
    static const char *const targets[] = {"CPU"};
    uint8_t *data, *copy = aligned_alloc(BUNDLE_PAGE, FILE_MAX);
    struct hcq_bundle *bundle;
    struct bundle_header *h = (void *)copy;
    struct hcq_device *dev;
    uint32_t version, steps;
    size_t bytes;

    (void)state;
    assert_non_null(copy);
    data = make_bundle(targets, 1, N, &bytes);
    expect_ok(hcq_device_open("CPU", &dev));
    /* whatever it says, it runs: too few steps, too many, none */
    for (steps = 0; steps <= UINT16_MAX; steps += 13107) {
        memcpy(copy, data, bytes);
        kernels_of(copy)->max_steps = (uint16_t)steps;
        seal(copy);
        run(copy, bytes, false);
    }
    for (version = BUNDLE_WITH_IR; version < BUNDLE_STEPS; version++) {
        memcpy(copy, data, bytes);
        h->version = version;
        seal(copy);
        if (hcq_bundle_open_memory(dev, copy, bytes, &bundle) != BELL_E_IO ||
            !strstr(bell_error_last()->message,
                    "steps, in a bundle of version"))
            fail_msg("version %u: %s", version, bell_error_last()->message);
        kernels_of(copy)->max_steps = 0;
        seal(copy);
        run(copy, bytes, false);
    }
    memcpy(copy, data, bytes);
    kernels_of(copy)->n_vals = UINT16_MAX;
    seal(copy);
    if (hcq_bundle_open_memory(dev, copy, bytes, &bundle) != BELL_E_IO ||
        !strstr(bell_error_last()->message, "2 arguments, not 65537"))
        fail_msg("%s", bell_error_last()->message);
    bell_error_clear();
    hcq_device_close(dev);
    free(copy);
    free(data);
}

/* The function's state and weights have plain sizes. */
static bell_status
add_kept(struct bell_context *ctx, void *user, struct bell_tensor *const *in,
         struct bell_tensor **out)
{
    (void)ctx;
    out[0] = bell_sum(bell_mul(in[0], user), BELL_DIMS(0), false);
    return BELL_OK;
}

static void
test_symbolic_weight(void **state)
{
    static const char *const targets[] = {"CPU"};
    struct bell_jit_desc desc = {sizeof(desc), "kept", add_kept, NULL, 1, 1};
    struct bell_jit_save_desc save = {
        .struct_size = sizeof(save), .targets = targets, .n_targets = 1};
    struct bell_state names = {0};
    struct bell_context *ctx;
    struct bell_tensor *x, *w;
    struct bell_jit *jit;
    struct bell_dim n;
    int named;

    (void)state;
    expect_ok(bell_context_create("CPU", &ctx));
    n = bell_symbol(ctx, "n", 1, 8);
    expect_ok(bell_symbol_set(ctx, n, 4));
    x = bell_narrow(bell_ones(ctx, BELL_DIMS(8), BELL_FLOAT32), 0, 0, n);
    w = bell_contiguous(bell_mul_scalar(x, 2));
    desc.user = w;
    expect_ok(bell_state_add(&names, NULL, "w", BELL_STATE_PARAM, w));
    for (named = 0; named < 2; named++) {
        save.state = named ? &names : NULL;
        expect_ok(bell_jit_create(ctx, &desc, &jit));
        if (bell_jit_save(jit, &x, &save, temp_path()) != BELL_E_UNSUPPORTED ||
            !strstr(bell_error_last()->message,
                    named ? "weight 'w', which the function uses, has a size "
                            "of the symbol 'n'"
                          : "weight '(without a name)'"))
            fail_msg("%s", bell_error_last()->message);
        bell_error_clear();
        bell_jit_destroy(jit);
    }
    bell_state_fini(&names);
    bell_context_destroy(ctx);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_steps),
        cmocka_unit_test(test_hostile),
        cmocka_unit_test(test_symbolic_weight),
    };

    return cmocka_run_group_tests_name("bundle_steps", tests, NULL, NULL);
}
