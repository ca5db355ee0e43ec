/* Batches that are filled and sent ahead: each item where it belongs, whatever
 * is under way; orders; what is refused. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/bits.h"
#include "base/status.h"
#include "doorbell/jit.h"
#include "doorbell/loader.h"
#include "doorbell/ops.h"

static const char *const devices[] = {"CPU", "NV@sim:sm_90", "AMD@sim:gfx942"};

static void
expect_ok(bell_status status)
{
    if (status != BELL_OK)
        fail_msg("%s", bell_error_last()->message);
}

static void
expect_error(bell_status status, const char *text)
{
    assert_int_not_equal(status, BELL_OK);
    if (!strstr(bell_error_last()->message, text))
        fail_msg("'%s' is not in '%s'", text, bell_error_last()->message);
    bell_error_clear();
}

static struct bell_context *
open_device(const char *device)
{
    struct bell_context *ctx;

    expect_ok(bell_context_create(device, &ctx));
    return ctx;
}

/* Item i is (i, i + 0.5) and 3 i. */
#define MAX_ITEMS 1000
static float pairs[MAX_ITEMS][2];
static int64_t triples[MAX_ITEMS];

static const struct bell_loader_field arrays[] = {
    {BELL_FLOAT32, 1, {2}, pairs},
    {BELL_INT64, 0, {0}, triples},
};

static int
make_data(void **state)
{
    int i;

    (void)state;
    for (i = 0; i < MAX_ITEMS; i++) {
        pairs[i][0] = (float)i;
        pairs[i][1] = (float)i + 0.5f;
        triples[i] = 3 * i;
    }
    return 0;
}

static struct bell_loader_desc
describe(int64_t n_items, int64_t n_batch)
{
    return (struct bell_loader_desc){.struct_size =
                                         sizeof(struct bell_loader_desc),
                                     .name = "data",
                                     .n_items = n_items,
                                     .n_batch = n_batch,
                                     .fields = arrays,
                                     .n_fields = ARRAY_LEN(arrays)};
}

static struct bell_loader *
make_loader(struct bell_context *ctx, const struct bell_loader_desc *desc)
{
    struct bell_loader *loader;

    expect_ok(bell_loader_create(ctx, desc, &loader));
    return loader;
}

/* The items of the next batch, which are what they are to be. */
static int64_t
next_items(struct bell_loader *loader, int64_t *items)
{
    float got[MAX_ITEMS][2];
    struct bell_tensor *out[2];
    int64_t n, i;

    expect_ok(bell_loader_next(loader, out, &n));
    if (n == 0) {
        assert_true(!out[0] && !out[1]);
        return 0;
    }
    assert_int_equal(bell_ndim(out[0]), 2);
    assert_int_equal(bell_size(out[0], 0), n);
    assert_int_equal(bell_ndim(out[1]), 1);
    expect_ok(bell_read(out[0], got, (size_t)n * sizeof(got[0])));
    expect_ok(bell_read(out[1], items, (size_t)n * sizeof(*items)));
    for (i = 0; i < n; i++) {
        items[i] /= 3;
        assert_true(got[i][0] == (float)items[i]);
        assert_true(got[i][1] == (float)items[i] + 0.5f);
    }
    bell_tensor_release(out[0]);
    bell_tensor_release(out[1]);
    return n;
}

/* ---- orders ---- */

static void
test_in_order(void **state)
{
    int64_t items[MAX_ITEMS], n, i, epoch, place;
    struct bell_loader_desc desc = describe(10, 4);
    struct bell_loader_info info = {.struct_size = sizeof(info)};
    uint32_t k, drop;

    (void)state;
    for (k = 0; k < 2 * ARRAY_LEN(devices); k++) {
        struct bell_context *ctx = open_device(devices[k / 2]);
        struct bell_loader *loader;

        drop = k % 2;
        desc.drop_last = drop != 0;
        loader = make_loader(ctx, &desc);
        for (epoch = 0; epoch < 5; epoch++) {
            for (place = 0; (n = next_items(loader, items)) > 0; place += n) {
                for (i = 0; i < n; i++)
                    assert_int_equal(items[i], place + i);
                bell_loader_get_info(loader, &info);
                assert_int_equal(info.n_batches, 3 - drop);
            }
            assert_int_equal(place, drop ? 8 : 10);
            bell_loader_get_info(loader, &info);
            assert_true(info.epoch == epoch + 1 && info.batch == 0);
        }
        bell_loader_destroy(loader);
        bell_context_destroy(ctx);
    }
}

/* The order of an epoch; also that it is one. */
static void
read_epoch(struct bell_loader *loader, int64_t n_items, int64_t *order)
{
    static bool seen[MAX_ITEMS];
    int64_t at = 0, n, i;

    memset(seen, 0, sizeof(seen));
    while ((n = next_items(loader, order + at)) > 0)
        at += n;
    assert_int_equal(at, n_items);
    for (i = 0; i < n_items; i++) {
        assert_true(order[i] >= 0 && order[i] < n_items && !seen[order[i]]);
        seen[order[i]] = true;
    }
}

static void
test_shuffled(void **state)
{
    static const int64_t sizes[] = {1, 2, 3, 4, 5, 16, 17, 63, 65, 257, 1000};
    int64_t a[MAX_ITEMS + 1], b[MAX_ITEMS + 1], first[MAX_ITEMS + 1];
    struct bell_context *ctx = open_device("CPU");
    uint32_t k;

    (void)state;
    for (k = 0; k < ARRAY_LEN(sizes); k++) {
        struct bell_loader_desc desc = describe(sizes[k], 1 + sizes[k] / 7);
        struct bell_loader *loader, *same, *other;
        size_t n_bytes = (size_t)sizes[k] * sizeof(*a);

        desc.shuffled = true;
        loader = make_loader(ctx, &desc);
        desc.n_threads = 3; /* which makes no difference */
        desc.n_ahead = 5;
        same = make_loader(ctx, &desc);
        desc.seed = 1;
        other = make_loader(ctx, &desc);
        read_epoch(loader, sizes[k], first);
        read_epoch(same, sizes[k], b);
        assert_memory_equal(first, b, n_bytes);
        read_epoch(loader, sizes[k], a);
        read_epoch(other, sizes[k], b);
        if (sizes[k] > 16) {
            assert_memory_not_equal(a, first, n_bytes);
            assert_memory_not_equal(b, first, n_bytes);
        }
        read_epoch(same, sizes[k], b);
        assert_memory_equal(a, b, n_bytes);
        expect_ok(bell_loader_seek(same, 0, 0));
        read_epoch(same, sizes[k], b);
        assert_memory_equal(first, b, n_bytes);
        bell_loader_destroy(loader);
        bell_loader_destroy(same);
        bell_loader_destroy(other);
    }
    bell_context_destroy(ctx);
}

/* Each item is in each place as often as any other, within six deviations. */
static void
test_evenly(void **state)
{
    enum {
        N = 5,
        EPOCHS = 3000
    };
    struct bell_context *ctx = open_device("CPU");
    struct bell_loader_desc desc = describe(N, N);
    int64_t order[N + 1], count[N][N] = {{0}}, epoch, i, k;
    struct bell_loader *loader;

    (void)state;
    desc.shuffled = true;
    loader = make_loader(ctx, &desc);
    for (epoch = 0; epoch < EPOCHS; epoch++) {
        read_epoch(loader, N, order);
        for (i = 0; i < N; i++)
            count[i][order[i]]++;
    }
    for (i = 0; i < N; i++) {
        for (k = 0; k < N; k++)
            assert_true(fabs((double)count[i][k] - EPOCHS / N) <
                        6 * sqrt(EPOCHS * 0.16));
    }
    bell_loader_destroy(loader);
    bell_context_destroy(ctx);
}

static void
test_seek(void **state)
{
    struct bell_context *ctx = open_device("CPU");
    struct bell_loader_desc desc = describe(100, 8);
    int64_t order[3][MAX_ITEMS], items[MAX_ITEMS], n, i;
    struct bell_loader_info info = {.struct_size = sizeof(info)};
    struct bell_loader *loader;

    (void)state;
    desc.shuffled = true;
    loader = make_loader(ctx, &desc);
    for (i = 0; i < 3; i++)
        read_epoch(loader, 100, order[i]);
    for (i = 0; i < 60; i++) {
        int64_t epoch = rand() % 3, batch = rand() % 13;

        expect_ok(bell_loader_seek(loader, epoch, batch));
        bell_loader_get_info(loader, &info);
        assert_true(info.epoch == epoch && info.batch == batch);
        n = next_items(loader, items);
        assert_int_equal(n, batch == 12 ? 4 : 8);
        assert_memory_equal(items, order[epoch] + 8 * batch,
                            (size_t)n * sizeof(*items));
    }
    expect_error(bell_loader_seek(loader, 0, 13),
                 "batch 13 of epoch 0; 'data' has 13 an epoch");
    expect_error(bell_loader_seek(loader, -1, 0), "epoch -1");
    expect_error(bell_loader_seek(loader, INT64_MAX, 0), "epoch 9223");
    bell_loader_destroy(loader);
    bell_context_destroy(ctx);
}

/* ---- functions that fill ---- */

static bell_status
fill_noise(void *user, int64_t item, void *const *out)
{
    uint8_t *bytes = out[0];
    uint32_t i;

    assert_null(out[1]);
    for (i = 0; i < *(const uint32_t *)user; i++)
        bytes[i] = (uint8_t)(item * 7 + i);
    return BELL_OK;
}

/* Batches are used while others are filled and sent; memory is used again. */
static void
test_ahead(void **state)
{
    uint32_t k, i, n_bytes = 3001, n_steps = 120;

    (void)state;
    for (k = 0; k < ARRAY_LEN(devices); k++) {
        const struct bell_loader_field fields[] = {
            {BELL_UINT8, 1, {n_bytes}, NULL},
            {BELL_INT64, 0, {0}, triples},
        };
        struct bell_context *ctx = open_device(devices[k]);
        struct bell_loader_desc desc = describe(MAX_ITEMS, 7);
        struct bell_tensor *out[2], *sums[120];
        struct bell_loader *loader;
        int64_t n, number, place;

        desc.fields = fields;
        desc.fill = fill_noise;
        desc.user = &n_bytes;
        desc.n_threads = 3;
        desc.n_ahead = 4;
        loader = make_loader(ctx, &desc);
        for (i = 0; i < n_steps; i++) {
            expect_ok(bell_loader_next(loader, out, &n));
            assert_int_equal(n, 7);
            /* of each item, the sum of its bytes and what goes with it */
            sums[i] = bell_add(
                bell_sum(bell_cast(out[0], BELL_INT64), BELL_DIMS(1), false),
                bell_mul_scalar(out[1], 1000000));
            expect_ok(bell_realize(&sums[i], 1));
            bell_tensor_release(out[0]);
            bell_tensor_release(out[1]);
        }
        for (i = 0; i < n_steps; i++) {
            int64_t got[7], want, b;

            expect_ok(bell_read(sums[i], got, sizeof(got)));
            for (place = 0; place < 7; place++) {
                number = 7 * (int64_t)i + place;
                want = 3000000 * number;
                for (b = 0; b < n_bytes; b++)
                    want += (uint8_t)(number * 7 + b);
                assert_int_equal(got[place], want);
            }
        }
        bell_loader_destroy(loader);
        bell_context_destroy(ctx);
    }
}

/* A batch comes to memory that queued work still uses, here scratch memory of
 * its very size: after that work. */
static void
test_memory_again(void **state)
{
    enum {
        N = 992
    };
    int64_t items[MAX_ITEMS], side[2], got;
    uint32_t k, i;

    (void)state;
    for (k = 0; k < ARRAY_LEN(devices); k++) {
        struct bell_context *ctx = open_device(devices[k]);
        struct bell_loader_desc desc = describe(N, N);
        struct bell_loader *loader = make_loader(ctx, &desc);
        struct bell_tensor *x, *slow, *y;

        side[0] = side[1] = k > 0 ? 64 : 768;
        x = bell_from_data(ctx, BELL_DIMS(N), BELL_INT64, triples);
        for (i = 0; i < 6; i++) {
            slow = bell_ones(ctx, side, 2, BELL_FLOAT32);
            slow = bell_contiguous(slow);
            expect_ok(bell_realize(&slow, 1));
            slow = bell_sum(bell_matmul(slow, slow), BELL_NO_DIMS, false);
            slow = bell_mul_scalar(bell_cast(slow, BELL_INT64), 0);
            expect_ok(bell_realize(&slow, 1));
            y = bell_contiguous(bell_add(x, slow));
            y = bell_sum(bell_mul(y, bell_flip(y, BELL_DIMS(0))), BELL_NO_DIMS,
                         false);
            expect_ok(bell_realize(&y, 1));
            (void)next_items(loader, items);
            expect_ok(bell_read(y, &got, sizeof(got)));
            /* 9 i (n - 1 - i), summed */
            assert_int_equal(got, 9ll * N * (N - 1) * (N - 2) / 6);
            (void)next_items(loader, items);
        }
        bell_loader_destroy(loader);
        bell_context_destroy(ctx);
    }
}

static bell_status
fill_but_one(void *user, int64_t item, void *const *out)
{
    *(float *)out[0] = (float)item;
    if (item != *(const int64_t *)user)
        return BELL_OK;
    return item % 2 ? BELL_E_IO : bell_fail(BELL_E_NO_MEMORY, "no room left");
}

static void
test_fill_fails(void **state)
{
    static const struct bell_loader_field field = {BELL_FLOAT32, 0, {0}, NULL};
    struct bell_context *ctx = open_device("CPU");
    struct bell_loader_desc desc = describe(40, 5);
    struct bell_loader *loader;
    struct bell_tensor *out;
    int64_t bad, n, i;

    (void)state;
    desc.fields = &field;
    desc.n_fields = 1;
    desc.fill = fill_but_one;
    desc.user = &bad;
    for (bad = 22; bad < 24; bad++) {
        loader = make_loader(ctx, &desc);
        for (i = 0; i < 4; i++) {
            expect_ok(bell_loader_next(loader, &out, &n));
            assert_int_equal(n, 5);
        }
        for (i = 0; i < 3; i++) {
            bell_status status = bell_loader_next(loader, &out, &n);
            assert_int_equal(status, bad % 2 ? BELL_E_IO : BELL_E_NO_MEMORY);
            expect_error(status, bad % 2 ? "'data': item 23: it has failed"
                                         : "'data': item 22: no room left");
            assert_true(!out && n == 0);
        }
        expect_ok(bell_loader_seek(loader, 0, 5));
        expect_ok(bell_loader_next(loader, &out, &n));
        assert_int_equal(n, 5);
        bell_loader_destroy(loader);
    }
    bell_context_destroy(ctx);
}

/* ---- life ---- */

static void
test_ends(void **state)
{
    struct bell_loader_desc desc = describe(MAX_ITEMS, 50);
    struct bell_tensor *out[2];
    struct bell_loader *loader;
    int64_t n;
    uint32_t i;

    (void)state;
    desc.n_threads = 4;
    desc.n_ahead = 6;
    for (i = 0; i < 60; i++) {
        struct bell_context *ctx =
            open_device(devices[i % 10 == 9 ? i / 10 % 3 : 0]);

        loader = make_loader(ctx, &desc);
        if (i % 3)
            expect_ok(bell_loader_next(loader, out, &n));
        if (i % 2)
            bell_loader_destroy(loader);
        bell_context_destroy(ctx);
        if (i % 2)
            continue;
        expect_error(bell_loader_next(loader, out, &n),
                     "the context of 'data' was destroyed");
        bell_loader_destroy(loader);
        expect_error(bell_loader_next(loader, out, &n),
                     "bell_loader_next: the loader was destroyed");
        bell_loader_destroy(loader);
        bell_error_clear();
    }
    bell_loader_destroy(NULL);
    expect_error(bell_loader_next(NULL, out, &n), "the loader is NULL");
}

/* The n-th allocation fails, for all n: an error that says so, and nothing is
 * lost (the sanitizers look). */
static bell_status
live(struct bell_context *ctx)
{
    struct bell_loader_desc desc = describe(100, 9);
    struct bell_loader *loader;
    struct bell_tensor *out[2];
    bell_status status;
    int64_t n;
    int i;

    BELL_TRY(bell_loader_create(ctx, &desc, &loader));
    status = bell_loader_next(loader, out, &n);
    for (i = 0; i < 4 && status == BELL_OK; i++) {
        if (i == 2)
            status = bell_loader_seek(loader, 1, 3);
        if (status == BELL_OK)
            status = bell_loader_next(loader, out, &n);
    }
    bell_loader_destroy(loader);
    return status;
}

static void
test_no_memory(void **state)
{
    struct bell_context *ctx = open_device("CPU");
    uint32_t n, n_good = 0, n_bad = 0;

    (void)state;
    expect_ok(live(ctx));
    for (n = 1; n_good < 20; n++) {
        bell_status status;

        expect_ok(bell_scope_begin(ctx));
        host_fail_after(n, 1);
        status = live(ctx);
        host_fail_after(0, 0);
        if (status != BELL_OK) {
            expect_error(status, "memory");
            n_bad++;
        }
        n_good = status == BELL_OK ? n_good + 1 : 0;
        (void)bell_scope_end(ctx);
        bell_error_clear();
    }
    assert_true(n_bad >= 10);
    expect_ok(live(ctx));
    bell_context_destroy(ctx);
}

/* ---- what is refused ---- */

static void
refuse(struct bell_context *ctx, const struct bell_loader_desc *desc,
       const char *text)
{
    struct bell_loader *loader = (struct bell_loader *)desc;

    expect_error(bell_loader_create(ctx, desc, &loader), text);
    assert_null(loader);
}

static void
test_refused(void **state)
{
    struct bell_context *ctx = open_device("CPU");
    const struct bell_loader_desc good = describe(10, 3);
    struct bell_loader_field field = arrays[0];
    struct bell_loader_desc desc = good;
    struct bell_loader *loader;
    struct bell_tensor *out[2];
    int64_t n;

    (void)state;
    refuse(ctx, NULL, "the description is NULL");
    refuse(NULL, &good, "the context is NULL");
    expect_error(bell_loader_create(ctx, &good, NULL), "the result is NULL");
    desc.struct_size--;
    refuse(ctx, &desc, "struct_size is ");
    desc = good, desc.n_items = 0;
    refuse(ctx, &desc, "batches of 3 of 0 items");
    desc = good, desc.n_batch = 0;
    refuse(ctx, &desc, "batches of 0 of 10 items");
    desc = good, desc.n_batch = 11, desc.drop_last = true;
    refuse(ctx, &desc, "batches of 11 of 10 items");
    desc = good, desc.n_fields = 0;
    refuse(ctx, &desc, "0 fields");
    desc = good, desc.n_fields = 17;
    refuse(ctx, &desc, "17 fields");
    desc = good, desc.fields = NULL;
    refuse(ctx, &desc, "0 fields");
    desc = good, desc.n_threads = 65;
    refuse(ctx, &desc, "65 threads");
    desc = good, desc.n_ahead = 65;
    refuse(ctx, &desc, "65 batches ahead");
    desc = good, desc.n_fields = 1, desc.fields = &field;
    field.data = NULL;
    refuse(ctx, &desc, "field 0 has no data");
    field = arrays[0], field.dtype = BELL_DEFAULT;
    refuse(ctx, &desc, "dtype 0");
    field = arrays[0], field.ndim = BELL_MAX_RANK;
    refuse(ctx, &desc, "axes");
    field = arrays[0], field.shape[0] = -1;
    refuse(ctx, &desc, "an axis of -1");
    field.shape[0] = INT64_MAX / 2;
    refuse(ctx, &desc, "field 0");
    field.shape[0] = INT64_MAX / 64;
    refuse(ctx, &desc, "a batch of 3 items of");
    loader = make_loader(ctx, &good);
    expect_error(bell_loader_next(loader, NULL, &n), "room for a batch");
    expect_error(bell_loader_next(loader, out, NULL), "number of items");
    assert_int_equal(next_items(loader, (int64_t[MAX_ITEMS]){0}), 3);
    bell_loader_destroy(loader);
    bell_context_destroy(ctx);
}

static bell_status
use_inside(struct bell_context *ctx, void *user, struct bell_tensor *const *in,
           struct bell_tensor **out)
{
    struct bell_tensor *batch[2];
    int64_t n;

    (void)ctx;
    out[0] = bell_neg(in[0]);
    return bell_loader_next(user, batch, &n);
}

/* Batches are inputs of a captured function, which cannot fetch them. */
static void
test_with_jit(void **state)
{
    uint32_t k;

    (void)state;
    for (k = 0; k < ARRAY_LEN(devices); k++) {
        struct bell_context *ctx = open_device(devices[k]);
        struct bell_loader_desc desc = describe(10, 5);
        struct bell_loader *loader = make_loader(ctx, &desc);
        struct bell_jit_desc inside = {sizeof(inside), "inside", use_inside,
                                       loader,         1,        1};
        struct bell_tensor *batch[2], *out;
        struct bell_jit *jit;
        int64_t n;

        expect_ok(bell_loader_next(loader, batch, &n));
        expect_ok(bell_jit_create(ctx, &inside, &jit));
        expect_error(bell_jit_call(jit, batch, &out),
                     "inside a captured function");
        bell_jit_destroy(jit);
        assert_int_equal(next_items(loader, (int64_t[MAX_ITEMS]){0}), 5);
        bell_loader_destroy(loader);
        bell_context_destroy(ctx);
    }
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_in_order),   cmocka_unit_test(test_shuffled),
        cmocka_unit_test(test_evenly),     cmocka_unit_test(test_seek),
        cmocka_unit_test(test_ahead),      cmocka_unit_test(test_memory_again),
        cmocka_unit_test(test_fill_fails), cmocka_unit_test(test_ends),
        cmocka_unit_test(test_no_memory),  cmocka_unit_test(test_refused),
        cmocka_unit_test(test_with_jit),
    };

    return cmocka_run_group_tests(tests, make_data, NULL);
}
