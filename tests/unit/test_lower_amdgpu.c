/* Lowering for AMD: every kernel gives, as machine code in the interpreter of
 * sim/, what its definition gives; and for every chip it compiles, and gives
 * that in the interpreter of programs. */
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

/* Sizes of every kernel: fewer where everything takes ten times as long. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define N_SIZES  2
#define N_RANDOM 1
#define ODD_SIZE 5, 19, 4
#else
#define N_SIZES  6
#define N_RANDOM 6
#define ODD_SIZE 7, 33, 5
#endif

/* A card with a chip. */
struct card {
    uint32_t n_units, n_threads; /* processors; of a work-group */
    unsigned chip;
};

enum how {
    COMPILE = 1, /* also as a program */
    RUN = 2,
};

/* The kernel against its definition. */
static void
check_kernel(const struct lk_case *c, const int64_t *d, uint64_t seed,
             struct card card, enum how how)
{
    struct p_buf want[LK_MAX_BUFS], got[LK_MAX_BUFS];
    char err[BELL_ERROR_MESSAGE] = "", what[120];
    struct amdgpu_target amdgpu = amdgpu_check_target(card.chip);
    struct lower_target target;
    struct lower_program p;
    struct lk k;

    assert_int_equal(render_amdgpu_lower_target(&amdgpu, &target), BELL_OK);
    target.n_units = card.n_units;
    target.max_threads = card.n_threads;
    snprintf(what, sizeof(what), "%s (%d, %d, %d) on %u units of %u threads",
             c->name, (int)d[0], (int)d[1], (int)d[2], card.n_units,
             card.n_threads);
    lk_init(&k, c, d, seed);
    lk_copy_bufs(&k, want);
    assert_int_equal(k_run(k.sink, want, k.n_bufs, err, sizeof(err)), 0);
    if (lower_kernel(&k.g, k.sink, &target, &p) != BELL_OK)
        fail_msg("%s: %s", what, bell_error_last()->message);
    lk_copy_bufs(&k, got);
    if (how == RUN) {
        amdgpu_check_run(&p, card.chip, got, (uint32_t)k.n_bufs, NULL, what);
    } else {
        amdgpu_check_compile_on(&p, card.chip, what);
        assert_int_equal(p_run(&p, got, (uint32_t)k.n_bufs, err, sizeof(err)),
                         0);
    }
    if (lk_compare(&k, want, got, err, sizeof(err)))
        fail_msg("%s on %s: %s", what, amdgpu.gfx, err);
    lk_free_copy(&k, got);
    lk_free_copy(&k, want);
    lk_fini(&k);
}

static void
test_all_kernels(void **state)
{
    static const int64_t sizes[][3] = {
        {1, 1, 1},    {ODD_SIZE},  {16, 16, 16},
        {20, 31, 70}, {64, 64, 8}, {2, 300, 4},
    };
    size_t c, s;

    (void)state;
    for (c = 0; c < lk_n_cases; c++) {
        for (s = 0; s < N_SIZES; s++) {
            struct card card = {128, 1024, (unsigned)(c + s) % AMDGPU_N_CHIPS};
            check_kernel(&lk_cases[c], sizes[s], 7, card, RUN);
        }
        for (s = 0; s < AMDGPU_N_CHIPS; s++) {
            struct card card = {128, 1024, (unsigned)s};
            check_kernel(&lk_cases[c], sizes[1], 7, card, COMPILE);
            if (!strncmp(lk_cases[c].name, "matmul", 6))
                check_kernel(&lk_cases[c], sizes[3], 7, card, COMPILE);
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
        for (i = 0; i < N_RANDOM; i++) {
            int64_t d[3];
            for (j = 0; j < 3; j++) {
                d[j] = near[lk_random(&rng) % (j == 1 ? 12 : 9)];
                d[j] += (int64_t)(lk_random(&rng) % 5) - 2;
                d[j] = d[j] < 1 ? 1 : d[j];
            }
            shrink(d);
            check_kernel(&lk_cases[c], d, i,
                         (struct card){1 + (uint32_t)i % 4 * 6,
                                       i % 3 ? 1024 : 16u << i % 5,
                                       (unsigned)(i + c) % 2},
                         RUN);
        }
    }
}

static void
compile_tf32(const struct lower_program *p, const struct amdgpu_target *amdgpu)
{
    struct render_binary binary;

    if (render_amdgpu(p, amdgpu, &binary) != BELL_OK)
        fail_msg("%s", bell_error_last()->message);
    render_binary_fini(&binary);
}

/* Products are by matrix instructions where the chip has those that lose
 * nothing, and where TF32 is allowed by others too. */
static void
test_matrix_instructions(void **state)
{
    static const struct {
        const char *kernel;
        uint8_t k[AMDGPU_N_CHIPS]; /* steps; in the order of amdgpu_chips */
        bool tf32;
    } rows[] = {
        {"matmul-f16", {16, 16, 0, 0, 16}, false},
        {"matmul-f16", {16, 16, 16, 0, 16}, true},
        {"matmul-nn", {8, 0, 4, 0, 0}, true},
        {"matmul-bf16", {16, 16, 16, 0, 16}, false},
        {"matmul-nn", {4, 0, 4, 0, 0}, false},
        {"matmul-f64", {4, 0, 4, 0, 0}, false},
        {"matmul-i8", {32, 16, 16, 0, 16}, false},
        {"matmul-u8", {0, 16, 0, 0, 16}, false},
        {"matmul-ocp8", {16, 16, 16, 0, 16}, false}, /* as halves or bfloats */
        {"matmul-fnuz8", {32, 16, 16, 0, 16}, false},
    };
    static const int64_t d[3] = {512, 512, 512};
    unsigned chip;
    size_t i;

    (void)state;
    for (i = 0; i < ARRAY_LEN(rows); i++) {
        for (chip = 0; chip < AMDGPU_N_CHIPS; chip++) {
            struct amdgpu_target amdgpu = amdgpu_check_target(chip);
            struct lower_target target;
            struct lower_program p;
            uint32_t n = 0, at;
            bool fits = true;
            struct lk k;

            amdgpu.tf32 = rows[i].tf32;
            assert_int_equal(render_amdgpu_lower_target(&amdgpu, &target),
                             BELL_OK);
            lk_build(&k, lk_find(rows[i].kernel), d);
            assert_int_equal(lower_kernel(&k.g, k.sink, &target, &p), BELL_OK);
            for (at = 0; at < p.n_ops; at++) {
                if (p.ops[at]->op != UOP_WMMA)
                    continue;
                n++;
                fits &= uop_wmma_shape(p.ops[at]->arg.i).k == rows[i].k[chip];
            }
            if (rows[i].tf32 && n > 0)
                compile_tf32(&p, &amdgpu);
            if ((n > 0) != (rows[i].k[chip] > 0) || !fits)
                fail_msg("%s on %s: %u matrix instructions", rows[i].kernel,
                         amdgpu.gfx, n);
            assert_true(p.shared_bytes <= target.max_shared_bytes);
            lk_fini(&k);
        }
    }
}

/* 8-bit floats: gfx942 has instructions for those of its own, gfx1201 for the
 * others; elsewhere they are halves or bfloats in LOCAL memory. */
static void
test_f8(void **state)
{
    static const char *const names[] = {"matmul-ocp8", "matmul-fnuz8"};
    static const int64_t d[3] = {20, 31, 40};
    struct card card = {128, 1024, 0};
    size_t i;

    (void)state;
    for (i = 0; i < 2; i++) {
        for (card.chip = 0; card.chip < AMDGPU_N_CHIPS; card.chip++)
            check_kernel(lk_find(names[i]), d, 5, card, RUN);
    }
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_all_kernels),
        cmocka_unit_test(test_random_sizes),
        cmocka_unit_test(test_matrix_instructions),
        cmocka_unit_test(test_f8),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
