/* Blocks of models of symbolic batch and sequence (size_models.h): one plan,
 * about as many kernels as plain sizes have, and what plain sizes give: forward
 * on a CPU to the bit, where products are large enough to be packed. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/bits.h"
#include "doorbell/ops.h"
#include "doorbell/stats.h"
#include "tests/unit/sanitized.h"
#include "tests/unit/size_models.h"

#define MAX_SIZES 5
#define N_ROOM    (1 << 19)

static const struct machine {
    const char *device;
    int64_t width, n_heads, max_b, max_s;
    int64_t sizes[MAX_SIZES][2];
    double most; /* kernels, of those of plain sizes */
    bool same;   /* forward, to the bit */
} machines[] = {
    {"CPU",
     128,
     2,
     4,
     64,
     {{4, 64}, {3, 60}, {3, 53}, {2, 64}, {4, 49}},
     1.1,
     true},
    {"CPU", 32, 2, 4, 24, {{2, 5}, {4, 24}, {3, 2}}, 1.25, false},
    {"NV@sim:sm_90", 32, 2, 2, 18, {{2, 18}, {2, 5}}, 1.1, false},
    {"AMD@sim:gfx942", 32, 2, 2, 18, {{2, 18}}, 1.1, false},
};

/* Results one after the other. */
struct results {
    float v[N_ROOM];
    size_t n;
    uint64_t plans, kernels;
};

static void
compute(const struct size_models *m, struct bell_dim b, struct bell_dim s,
        bool trains, struct results *r)
{
    struct bell_stats before = {.struct_size = sizeof(before)},
                      after = {.struct_size = sizeof(after)};
    struct bell_tensor *out[SIZE_MODEL_MAX_OUT];
    uint32_t count, i;
    size_t n;

    bell_context_stats(m->ctx, &before);
    assert_int_equal(bell_scope_begin(m->ctx), BELL_OK);
    count = size_models_step(m, b, s, trains, out);
    if (count == 0 || bell_realize(out, count) != BELL_OK)
        fail_msg("%s", bell_error_last()->message);
    for (r->n = 0, i = 0; i < count; i++, r->n += n) {
        n = (size_t)bell_numel(out[i]);
        assert_true(r->n + n <= N_ROOM);
        assert_int_equal(bell_read(out[i], r->v + r->n, n * sizeof(*r->v)),
                         BELL_OK);
    }
    assert_int_equal(bell_scope_end(m->ctx), BELL_OK);
    bell_context_stats(m->ctx, &after);
    r->plans = after.n_plans - before.n_plans;
    r->kernels = after.n_kernels_planned - before.n_kernels_planned;
}

/* How many differ in a bit; more than another order of sums gives is a
 * failure. */
static size_t
count_other(const struct results *got, const struct results *want,
            const char *name)
{
    double most = 0;
    size_t i, n = 0;

    assert_int_equal(got->n, want->n);
    for (i = 0; i < want->n; i++)
        most = fmax(most, fabs((double)want->v[i]));
    for (i = 0; i < want->n; i++) {
        double x = (double)got->v[i], y = (double)want->v[i];
        if (!(fabs(x - y) <= 3e-5 * (most + fabs(y))))
            fail_msg("%s, element %zu: %g, not %g", name, i, x, y);
        n += memcmp(&got->v[i], &want->v[i], sizeof(*got->v)) != 0;
    }
    return n;
}

static void
compare(const struct machine *on, const struct size_models *m,
        struct bell_dim b, struct bell_dim s, bool trains)
{
    static struct results want, got;
    char name[96];
    size_t i, n;

    for (i = 0; i < MAX_SIZES && on->sizes[i][0]; i++) {
        snprintf(name, sizeof(name), "%s, %s %s %dx%d", on->device,
                 size_model_names[m->kind], trains ? "gradients" : "forward",
                 (int)on->sizes[i][0], (int)on->sizes[i][1]);
        compute(m, bell_dim_of(on->sizes[i][0]), bell_dim_of(on->sizes[i][1]),
                trains, &want);
        assert_int_equal(bell_symbol_set(m->ctx, b, on->sizes[i][0]), BELL_OK);
        assert_int_equal(bell_symbol_set(m->ctx, s, on->sizes[i][1]), BELL_OK);
        compute(m, b, s, trains, &got);
        if (got.plans != (i == 0))
            fail_msg("%s: %d plans", name, (int)got.plans);
        if (i == 0)
            print_message("%s: %d kernels, %d of plain sizes\n", name,
                          (int)got.kernels, (int)want.kernels);
        if (i == 0 && (double)got.kernels > on->most * (double)want.kernels)
            fail_msg("%s: %d kernels, %d of plain sizes", name,
                     (int)got.kernels, (int)want.kernels);
        n = count_other(&got, &want, name);
        if (on->same && !trains && n)
            fail_msg("%s: %zu of %zu values have other bits", name, n, want.n);
    }
}

static void
run_machine(const struct machine *on)
{
    struct bell_context *ctx;
    struct size_models m;
    struct bell_dim b, s;
    int kind;

    for (kind = 0; kind < SIZE_MODEL_COUNT; kind++) {
        assert_int_equal(bell_context_create(on->device, &ctx), BELL_OK);
        b = bell_symbol(ctx, "b", 1, on->max_b);
        s = bell_symbol(ctx, "s", 1, on->max_s);
        assert_true(size_models_init(&m, ctx, (enum size_model)kind, on->width,
                                     on->n_heads, on->max_b, on->max_s));
        compare(on, &m, b, s, false);
        compare(on, &m, b, s, true);
        size_models_fini(&m);
        bell_context_destroy(ctx);
    }
}

static void
test_host(void **state)
{
    (void)state;
    run_machine(&machines[1]);
    if (!IS_SANITIZED)
        run_machine(&machines[0]);
}

static void
test_gpu(void **state)
{
    (void)state;
    if (IS_SANITIZED)
        return;
    run_machine(&machines[2]);
    run_machine(&machines[3]);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_host),
        cmocka_unit_test(test_gpu),
    };

    return cmocka_run_group_tests_name("size_models", tests, NULL, NULL);
}
