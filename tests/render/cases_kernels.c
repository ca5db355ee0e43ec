/* Every kernel of lower_kernels.h through the passes and as machine code: what
 * the rules choose for each target gives what the kernel's definition gives,
 * and does in the interpreter of programs, which sees races and bad barriers.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <string.h>

#include "base/bits.h"
#include "lower_kernels.h"
#include "render_check.h"

/* Fewer sizes where everything takes ten times as long. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define N_SIZES  3
#define N_RANDOM 1
#else
#define N_SIZES  9
#define N_RANDOM 4
#endif

/* A card, or what there is of the host (all 0). */
struct machine {
    unsigned chip;
    uint32_t n_units, n_threads; /* processors; of a work-group */
    bool no_opts;
};

/* How a kernel is run: any of these. */
enum how {
    AS_PROGRAM = 1,
    AS_CODE = 2,
    KEEP = 4,
};

static void
check_kernel(const struct lk_case *c, const int64_t *d, uint64_t seed,
             struct machine m, int how)
{
    struct p_buf want[LK_MAX_BUFS], got[LK_MAX_BUFS];
    char err[BELL_ERROR_MESSAGE] = "", what[160];
    struct lower_target target;
    struct lower_program p;
    struct lk k;
    int pass;

    snprintf(what, sizeof(what),
             "%s (%d, %d, %d) on %s, %u units of %u threads%s", c->name,
             (int)d[0], (int)d[1], (int)d[2], backend->chips[m.chip], m.n_units,
             m.n_threads, m.no_opts ? ", no_opts" : "");
    if (backend->lower_target(m.chip, &target) != BELL_OK)
        fail_msg("%s: %s", what, bell_error_last()->message);
    target.no_opts = m.no_opts;
    if (backend->is_gpu) {
        target.n_units = m.n_units;
        target.max_threads = m.n_threads;
    }
    lk_init(&k, c, d, seed);
    lk_copy_bufs(&k, want);
    assert_int_equal(k_run(k.sink, want, k.n_bufs, err, sizeof(err)), 0);
    if (lower_kernel(&k.g, k.sink, &target, &p) != BELL_OK)
        fail_msg("%s: %s", what, bell_error_last()->message);
    if (!check_can(backend, &p))
        how &= AS_PROGRAM;
    if (how & KEEP)
        backend->keep(&p, m.chip, what);
    for (pass = AS_PROGRAM; pass <= AS_CODE; pass++) {
        struct p_buf guarded[LK_MAX_BUFS];
        if (!(how & pass))
            continue;
        lk_copy_bufs(&k, got);
        if (pass == AS_PROGRAM) {
            if (p_run(&p, got, k.n_bufs, err, sizeof(err)))
                fail_msg("%s: %s", what, err);
        } else {
            check_bufs_copy(guarded, got, (uint32_t)k.n_bufs);
            backend->run(&p, m.chip, guarded, (uint32_t)k.n_bufs, NULL, what);
        }
        if (lk_compare(&k, want, pass == AS_CODE ? guarded : got, err,
                       sizeof(err)))
            fail_msg("%s%s: %s", what, pass == AS_CODE ? "" : " as a program",
                     err);
        if (pass == AS_CODE)
            check_bufs_free(guarded, (uint32_t)k.n_bufs);
        lk_free_copy(&k, got);
    }
    lk_free_copy(&k, want);
    lk_fini(&k);
}

/* On every chip, or where that takes long, on one in turn; the program of
 * every chip where it is small. */
static void
test_all_kernels(void **state)
{
    static const int64_t sizes[9][3] = {
        {5, 19, 4},  {33, 1, 17}, {1, 1, 1},    {64, 64, 8}, {20, 31, 70},
        {2, 300, 4}, {7, 33, 5},  {16, 32, 48}, {67, 19, 4},
    };
    unsigned chip, turn = 0;
    size_t c, s;

    (void)state;
    for (c = 0; c < lk_n_cases; c++) {
        for (s = 0; s < (backend->is_gpu ? N_SIZES - 2 : N_SIZES); s++) {
            turn++;
            /* Where a compiler takes long, each kernel in one size. */
            if (backend->thin > 16 && s != c % (N_SIZES - 2))
                continue;
            for (chip = 0; chip < backend->n_targets; chip++) {
                bool in_turn = turn % backend->n_targets == chip;
                struct machine m = {chip, 128, 1024, false};
                int how =
                    s == 0 || (in_turn && backend->is_gpu) ? AS_PROGRAM : 0;
                if (in_turn || backend->thin == 1)
                    how |= AS_CODE;
                if (s == 0)
                    how |= KEEP;
                if (how)
                    check_kernel(&lk_cases[c], sizes[s], 7, m, how);
                m.no_opts = true;
                if (in_turn && s < (backend->thin == 1 ? 3 : 1))
                    check_kernel(&lk_cases[c], sizes[s], 11, m, AS_CODE);
            }
        }
    }
}

/* Halves sizes until an interpreter is done with them in no time. */
static void
shrink(int64_t *d)
{
    while (d[0] * d[1] * d[2] > 12000) {
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
    size_t step = backend->thin > 32 ? 3 : 1, c, i, j;
    uint64_t rng = 5;

    (void)state;
    for (c = 0; c < lk_n_cases; c += step) {
        for (i = 0; i < N_RANDOM; i += (backend->thin + 1) / 2) {
            struct machine m = {(unsigned)(i + c) % backend->n_targets,
                                1 + (uint32_t)i % 4 * 6,
                                i % 3 ? 1024 : 16u << i % 5, false};
            int64_t d[3];
            for (j = 0; j < 3; j++) {
                d[j] = near[lk_random(&rng) % (j == 1 ? 12 : 9)];
                d[j] += (int64_t)(lk_random(&rng) % 5) - 2;
                d[j] = d[j] < 1 ? 1 : d[j];
            }
            shrink(d);
            check_kernel(&lk_cases[c], d, i, m, i % 2 ? AS_PROGRAM : AS_CODE);
        }
    }
}

int
kernel_cases(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_all_kernels),
        cmocka_unit_test(test_random_sizes),
    };
    return cmocka_run_group_tests_name("kernels", tests, NULL, NULL);
}
