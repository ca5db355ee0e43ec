/* Running results along axes of a symbol's size: by one plan, which gives the
 * bits of plain sizes, whatever the bound and the size are. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/bits.h"
#include "doorbell/dim.h"
#include "doorbell/ops.h"
#include "doorbell/stats.h"
#include "doorbell/tensor.h"
#include "tests/unit/expect.h"
#include "tests/unit/sanitized.h"

#define MOST_SIZE  16384
#define MOST_ELEMS 65536

static const struct {
    const char *name;
    struct bell_tensor *(*call)(struct bell_tensor *, int);
    bool adds; /* on a GPU in an order of the size's class */
} functions[] = {
    {"cumsum", bell_cumsum, true},
    {"cumprod", bell_cumprod, true},
    {"cummax", bell_cummax, false},
    {"cummin", bell_cummin, false},
    {"logcumsumexp", bell_logcumsumexp, false},
};

/* What lies around the axis. */
static const int64_t around[][2] = {{1, 1}, {3, 1}, {64, 1}, {1, 3}, {2, 33}};

/* On either side of vectors, of blocks, and of blocks of blocks. */
static const int64_t sizes[] = {1,  2,  3,   4,   5,   7,    8,    9,    15,
                                16, 17, 31,  32,  33,  47,   48,   49,   63,
                                64, 65, 255, 256, 257, 2047, 2048, 2049, 16384};

/* Zeros in some places, so that what overflows before or after them shows; 1
 * and more elsewhere. */
static void
fill(float *v, size_t n)
{
    size_t i;

    for (i = 0; i < n; i++)
        v[i] = i * 31 % 97 == 0 ? 0
                                : 0.1f + 2.7f * (float)(i * 7919 % 1009) / 1009;
}

static void
read_running(struct bell_context *ctx, size_t f, const struct bell_dim *d,
             enum bell_dtype dtype, const float *data, double *out, size_t n)
{
    struct bell_tensor *x;

    expect_ok(bell_scope_begin(ctx));
    x = bell_from_data(ctx, BELL_SHAPE(d[0], d[1], d[2]), BELL_FLOAT32, data);
    x = functions[f].call(bell_cast(x, dtype), 1);
    expect_ok(bell_read_f64(x, out, n));
    expect_ok(bell_scope_end(ctx));
}

/* All sizes up to a bound. */
static void
compare(const char *device, size_t f, const int64_t *at, int64_t bound,
        enum bell_dtype dtype)
{
    static double want[MOST_ELEMS], got[MOST_ELEMS];
    static float data[MOST_ELEMS];
    struct bell_stats stats = {.struct_size = sizeof(stats)};
    struct bell_context *plain, *ctx;
    struct bell_dim n;
    uint64_t n_plans = 0;
    size_t i, k;

    fill(data, MOST_ELEMS);
    expect_ok(bell_context_create(device, &plain));
    expect_ok(bell_context_create(device, &ctx));
    n = bell_symbol(ctx, "n", 1, bound);
    for (i = 0; i < ARRAY_LEN(sizes) && sizes[i] <= bound; i++) {
        struct bell_dim d[] = {bell_dim_of(at[0]), bell_dim_of(sizes[i]),
                               bell_dim_of(at[1])};
        size_t count = (size_t)(at[0] * sizes[i] * at[1]);

        if (count > MOST_ELEMS)
            break;
        read_running(plain, f, d, dtype, data, want, count);
        d[1] = n;
        expect_ok(bell_symbol_set(ctx, n, sizes[i]));
        read_running(ctx, f, d, dtype, data, got, count);
        for (k = 0; k < count; k++) {
            if (memcmp(&got[k], &want[k], sizeof(got[k])) &&
                !(got[k] != got[k] && want[k] != want[k]))
                fail_msg("%s, %s of %dx%dx%d, bound %d: element %d is %a, of "
                         "plain sizes %a",
                         device, functions[f].name, (int)at[0], (int)sizes[i],
                         (int)at[1], (int)bound, (int)k, got[k], want[k]);
        }
        bell_context_stats(ctx, &stats);
        if (n_plans && stats.n_plans > n_plans)
            fail_msg("%s: %d made a plan", functions[f].name, (int)sizes[i]);
        n_plans = stats.n_plans;
    }
    bell_context_destroy(ctx);
    bell_context_destroy(plain);
}

static void
test_cpu(void **state)
{
    static const int64_t bounds[] = {7, 16, 17, 65, 257, MOST_SIZE};
    size_t f, a, b;

    (void)state;
    for (f = 0; f < ARRAY_LEN(functions); f++) {
        for (a = 0; a < (IS_SANITIZED ? 2 : ARRAY_LEN(around)); a++) {
            for (b = 0; b < ARRAY_LEN(bounds); b++) {
                if (bounds[b] < MOST_SIZE || a == 0)
                    compare("CPU", f, around[a], bounds[b], BELL_FLOAT32);
            }
        }
        compare("CPU", f, around[1], 65, BELL_FLOAT64);
        compare("CPU", f, around[1], 65, BELL_FLOAT16);
        if (functions[f].call != bell_logcumsumexp)
            compare("CPU", f, around[1], 65, BELL_INT8);
    }
}

static void
test_gpu(void **state)
{
    size_t f;

    (void)state;
    for (f = 0; f < ARRAY_LEN(functions) && !IS_SANITIZED; f++) {
        if (!functions[f].adds)
            compare("NV@sim:sm_90", f, around[1], 65, BELL_FLOAT32);
    }
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_cpu),
        cmocka_unit_test(test_gpu),
    };

    return cmocka_run_group_tests_name("scan_sizes", tests, NULL, NULL);
}
