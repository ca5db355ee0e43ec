/* Lowering for AMD: every kernel gives, as machine code in the interpreter of
 * sim/, what its definition gives; and compiles for every chip. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <string.h>

#include "amdgpu_check.h"
#include "base/alloc.h"
#include "base/bits.h"
#include "lower_kernels.h"

enum how {
    COMPILE = 1, /* for every chip */
    RUN = 2,     /* on those that can be run */
};

/* The kernel against its definition, on a card with so many processors and
 * threads of a work-group. */
static void
check_kernel(const struct lk_case *c, const int64_t *d, uint64_t seed,
             uint32_t n_units, uint32_t n_threads, unsigned chip, int how)
{
    struct p_buf want[LK_MAX_BUFS], got[LK_MAX_BUFS];
    char err[BELL_ERROR_MESSAGE] = "", what[120];
    struct amdgpu_target amdgpu = amdgpu_check_target(chip);
    struct lower_target target;
    struct lower_program p;
    struct lk k;

    assert_int_equal(render_amdgpu_lower_target(&amdgpu, &target), BELL_OK);
    target.n_units = n_units;
    target.max_threads = n_threads;
    snprintf(what, sizeof(what), "%s (%d, %d, %d) on %u units of %u threads",
             c->name, (int)d[0], (int)d[1], (int)d[2], n_units, n_threads);
    lk_init(&k, c, d, seed);
    lk_copy_bufs(&k, want);
    assert_int_equal(k_run(k.sink, want, k.n_bufs, err, sizeof(err)), 0);
    if (lower_kernel(&k.g, k.sink, &target, &p) != BELL_OK)
        fail_msg("%s: %s", what, bell_error_last()->message);
    if (how & COMPILE)
        amdgpu_check_compile(&p, what);
    if (how & RUN) {
        lk_copy_bufs(&k, got);
        amdgpu_check_run(&p, chip, got, (uint32_t)k.n_bufs, NULL, what);
        if (lk_compare(&k, want, got, err, sizeof(err)))
            fail_msg("%s on %s: %s", what, amdgpu.gfx, err);
        lk_free_copy(&k, got);
    }
    lk_free_copy(&k, want);
    lk_fini(&k);
}

static void
test_all_kernels(void **state)
{
    static const int64_t sizes[][3] = {
        {1, 1, 1},    {7, 33, 5},  {16, 16, 16},
        {20, 31, 70}, {64, 64, 8}, {2, 300, 4},
    };
    size_t c, s;

    (void)state;
    for (c = 0; c < lk_n_cases; c++) {
        for (s = 0; s < ARRAY_LEN(sizes); s++) {
            unsigned chip = (unsigned)(c + s) % AMDGPU_N_RUN;
            check_kernel(&lk_cases[c], sizes[s], 7, 128, 1024, chip,
                         s == 1 ? COMPILE | RUN : RUN);
        }
    }
}

/* Halves sizes until the interpreter is done with them in no time. */
static void
shrink(int64_t *d)
{
    while (d[0] * d[1] * d[2] > 60000) {
        int most = d[0] >= d[1] && d[0] >= d[2] ? 0 : d[1] >= d[2] ? 1 : 2;
        d[most] = d[most] / 2 + 1;
    }
}

/* Sizes at and around those that tiles have. */
static void
test_random_sizes(void **state)
{
    static const int64_t near[] = {1,  2,  4,  8,  16,  24,
                                   32, 48, 64, 96, 128, 256};
    uint64_t rng = 5;
    size_t c, i, j;

    (void)state;
    for (c = 0; c < lk_n_cases; c++) {
        for (i = 0; i < 6; i++) {
            int64_t d[3];
            for (j = 0; j < 3; j++) {
                d[j] = near[lk_random(&rng) % (j == 1 ? 12 : 9)];
                d[j] += (int64_t)(lk_random(&rng) % 5) - 2;
                d[j] = d[j] < 1 ? 1 : d[j];
            }
            shrink(d);
            check_kernel(&lk_cases[c], d, i, 1 + (uint32_t)i % 4 * 6,
                         i % 3 ? 1024 : 16u << i % 5, (unsigned)(i + c) % 2,
                         RUN);
        }
    }
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_all_kernels),
        cmocka_unit_test(test_random_sizes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
