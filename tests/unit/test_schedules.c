/* Schedules as data: what the rules choose is one that makes the same program
 * again, and others compute the same values. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "base/alloc.h"
#include "lower/tune.h"
#include "lower_kernels.h"
#include "sanitized.h"

/* Random schedules in all. */
#define N_RANDOM (IS_SANITIZED ? 100 : 500)
#define MAX_NEAR 256

static const struct lower_target targets[] = {
    {.name = "wide",
     .vector_bytes = 64,
     .n_vector_regs = 32,
     .n_threads = 2,
     .l1_bytes = 32768,
     .l2_bytes = 1 << 20,
     .max_packed_bytes = 2 << 20,
     .has_fma = true},
    {.name = "narrow",
     .vector_bytes = 16,
     .n_vector_regs = 16,
     .n_threads = 4,
     .l1_bytes = 32768,
     .l2_bytes = 1 << 18},
    {.name = "gpu",
     .vector_bytes = 16,
     .n_vector_regs = 32,
     .has_fma = true,
     .is_gpu = true,
     .warp_lanes = 32,
     .n_units = 4,
     .max_threads = 256,
     .max_regs = 255,
     .max_shared_bytes = 48 << 10,
     .max_grid = {1 << 20, 65535, 65535}},
    {.name = "matrix",
     .vector_bytes = 16,
     .n_vector_regs = 32,
     .has_fma = true,
     .is_gpu = true,
     .warp_lanes = 32,
     .n_units = 4,
     .max_threads = 256,
     .max_regs = 255,
     .max_shared_bytes = 48 << 10,
     .max_grid = {1 << 20, 65535, 65535},
     .matrix_k = {[UOP_F16] = 16, [UOP_BF16] = 16, [UOP_F64] = 4},
     .matrix_layout = UOP_WMMA_NV},
};
#define N_TARGETS (sizeof(targets) / sizeof(targets[0]))

static int64_t
pick(uint64_t *rng, int64_t n)
{
    return (int64_t)(lk_random(rng) % (uint64_t)n);
}

/* Large enough for every form of the rules, odd and even. */
static void
pick_dims(uint64_t *rng, int64_t *d, bool large)
{
    static const int64_t small[] = {3, 5, 7, 8, 16, 17, 24, 33};
    static const int64_t big[] = {64, 96, 100, 112, 128, 130};
    int i;

    for (i = 0; i < 3; i++)
        d[i] = large ? big[pick(rng, 6)] : small[pick(rng, 8)];
}

static void
print_program(const struct lk *k, const struct lower_program *p, char **out)
{
    assert_int_equal(uop_print(&k->g, p->ops, p->n_ops, out), BELL_OK);
}

/* ---- what the rules choose ---- */

static uint32_t
check_round_trip(const struct lk_case *c, const int64_t *d,
                 const struct lower_target *target)
{
    char text[LOWER_SCHEDULE_TEXT], again[LOWER_SCHEDULE_TEXT], *one, *two;
    struct lower_made made, made_again;
    struct lower_schedule schedule;
    struct lower_program p;
    struct lk k;

    lk_build(&k, c, d);
    assert_int_equal(lower_kernel_by(&k.g, k.sink, target, NULL, &made, &p),
                     BELL_OK);
    print_program(&k, &p, &one);
    lk_fini(&k);
    lower_schedule_print(&made.schedule, text);
    if (lower_schedule_parse(text, &schedule) != BELL_OK)
        fail_msg("%s: %s", text, bell_error_last()->message);
    lk_build(&k, c, d);
    if (lower_kernel_by(&k.g, k.sink, target, &schedule, &made_again, &p) !=
        BELL_OK)
        fail_msg("%s on %s: %s: %s", c->name, target->name, text,
                 bell_error_last()->message);
    lower_schedule_print(&made_again.schedule, again);
    assert_string_equal(again, text);
    print_program(&k, &p, &two);
    if (strcmp(one, two) != 0)
        fail_msg("%s on %s: %s makes another program", c->name, target->name,
                 text);
    lk_fini(&k);
    host_free(one);
    host_free(two);
    return made.schedule.n_actions > 0;
}

static void
test_rules_are_schedules(void **state)
{
    uint32_t n = 0;
    uint64_t rng = 1;
    size_t c, t;
    int i;

    (void)state;
    for (c = 0; c < lk_n_cases; c++) {
        for (t = 0; t < N_TARGETS; t++) {
            for (i = 0; i < 2; i++) {
                int64_t d[3];
                pick_dims(&rng, d, i > 0);
                n += check_round_trip(&lk_cases[c], d, &targets[t]);
            }
        }
    }
    assert_true(n > 100); /* few are too small to have a choice */
}

/* The kernel by that schedule is what it is. */
static void
check_told(const struct lk_case *c, const int64_t *d,
           const struct lower_target *target, const char *text)
{
    struct p_buf want[LK_MAX_BUFS], got[LK_MAX_BUFS];
    char err[BELL_ERROR_MESSAGE] = "";
    struct lower_schedule schedule;
    struct lower_program p;
    struct lk k;

    lk_init(&k, c, d, 1);
    lk_copy_bufs(&k, want);
    lk_copy_bufs(&k, got);
    assert_int_equal(k_run(k.sink, want, k.n_bufs, err, sizeof(err)), 0);
    assert_int_equal(lower_schedule_parse(text, &schedule), BELL_OK);
    if (lower_kernel_by(&k.g, k.sink, target, &schedule, NULL, &p) != BELL_OK ||
        p_run(&p, got, k.n_bufs, err, sizeof(err)) ||
        lk_compare(&k, want, got, err, sizeof(err)))
        fail_msg("%s: %s%s", text, err, bell_error_last()->message);
    lk_free_copy(&k, want);
    lk_free_copy(&k, got);
    lk_fini(&k);
}

/* Ranges of outputs that are joined: by the rules, and as told. */
static void
test_folds(void **state)
{
    static const char *const bad[] = {
        "loops; fold 0 0", "loops; fold 0 4", "loops; fold 9 0",
        "loops; fold 0 2; fold 2 3",
        "loops; fold 0 1; fold 0 1; fold 0 1; fold 0 1"};
    static const char *const good[] = {
        "loops; fold 0 1", "loops; fold 2 0; vector 1 4",
        "loops; fold 3 1; fold 0 2; upcast 1 3", "loops; fold 0 3; grid 2 4"};
    const int64_t d[3] = {64, 7, 7}, few[3] = {1, 4, 3};
    const struct lk_case *c = lk_find("conv-many");
    char text[LOWER_SCHEDULE_TEXT];
    struct lower_schedule schedule;
    struct lower_made made;
    struct lower_program p;
    struct lk k;
    size_t i;

    (void)state;
    assert_int_equal(check_round_trip(c, d, &targets[0]), 1);
    lk_build(&k, c, d);
    assert_int_equal(
        lower_kernel_by(&k.g, k.sink, &targets[0], NULL, &made, &p), BELL_OK);
    lower_schedule_print(&made.schedule, text);
    assert_non_null(strstr(text, "product 0; fold 0 2; fold 1 2; "));
    assert_int_equal(made.n_ranges, 2 + 2);
    lk_fini(&k);
    for (i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        lk_build(&k, c, d);
        assert_int_equal(lower_schedule_parse(bad[i], &schedule), BELL_OK);
        assert_int_equal(
            lower_kernel_by(&k.g, k.sink, &targets[0], &schedule, NULL, &p),
            BELL_E_INVALID);
        lk_fini(&k);
    }
    for (i = 0; i < sizeof(good) / sizeof(good[0]); i++)
        check_told(c, few, &targets[0], good[i]);
}

/* Sums of whole rows, and of as many as the loop over them has. */
static void
test_rows(void **state)
{
    static const char *const told[] = {
        "loops; vector 0 16; upcast 0 2; unroll 1 64",
        "loops; vector 0 16; upcast 0 16",
        "loops; vector 0 8; upcast 0 4; unroll 1 2; grid 0 3",
        "loops; vector 0 16; upcast 0 3; unroll 1 16; order 0 0",
        "loops; vector 0 16; unroll 1 4; grid 0 38",
    };
    const int64_t d[3] = {64, 600};
    struct lower_target target = targets[0];
    size_t i;

    (void)state;
    target.l2_bytes = 1 << 15;
    target.max_packed_bytes = 1 << 16;
    for (target.n_threads = 1; target.n_threads <= 64; target.n_threads *= 4)
        assert_int_equal(check_round_trip(lk_find("max-cols"), d, &target), 1);
    for (i = 0; i < sizeof(told) / sizeof(told[0]); i++)
        check_told(lk_find("max-cols"), d, &target, told[i]);
}

/* ---- others ---- */

/* Steps to a random neighbour; one that is none stays where it is. */
static bool
step(const struct lk_case *c, const int64_t *d,
     const struct lower_target *target, struct lower_made *made, uint64_t *rng)
{
    struct lower_schedule *near = calloc(MAX_NEAR, sizeof(*near));
    struct lower_made next;
    struct lower_program p;
    bell_status status;
    struct lk k;
    uint32_t n;

    assert_non_null(near);
    n = lower_neighbours(made, target, near, MAX_NEAR);
    if (n) {
        lk_build(&k, c, d);
        status = lower_kernel_by(&k.g, k.sink, target, &near[pick(rng, n)],
                                 &next, &p);
        lk_fini(&k);
        if (status == BELL_OK)
            *made = next;
        else if (status != BELL_E_INVALID)
            fail_msg("%s on %s: %s", c->name, target->name,
                     bell_error_last()->message);
        else
            n = 0;
    }
    free(near);
    return n > 0;
}

static bool
check_random(uint64_t seed)
{
    const struct lower_target *target = &targets[seed % N_TARGETS];
    uint64_t rng = seed * 77;
    const struct lk_case *c = &lk_cases[pick(&rng, (int64_t)lk_n_cases)];
    bool large = seed % 192 == 5;
    struct p_buf want[LK_MAX_BUFS], got[LK_MAX_BUFS];
    char err[BELL_ERROR_MESSAGE] = "", text[LOWER_SCHEDULE_TEXT];
    struct lower_schedule others[4];
    struct lower_program p;
    struct lower_made made;
    uint32_t n_steps = 0, i, n;
    int64_t d[3];
    struct lk k;

    if (large) { /* for a CPU's products, which need work */
        c = lk_find(seed % 384 == 5 ? "matmul-nn" : "matmul-tt");
        target = &targets[0];
    }
    pick_dims(&rng, d, large);
    lk_build(&k, c, d);
    n = lower_alternatives(target, others, 4);
    i = (uint32_t)pick(&rng, 2 * n + 2);
    assert_int_equal(lower_kernel_by(&k.g, k.sink, target,
                                     i < n ? &others[i] : NULL, &made, &p),
                     BELL_OK);
    lk_fini(&k);
    for (i = 0; i < 4; i++)
        n_steps += step(c, d, target, &made, &rng);
    if (!n_steps)
        return false;
    lk_init(&k, c, d, seed);
    lk_copy_bufs(&k, want);
    lk_copy_bufs(&k, got);
    lower_schedule_print(&made.schedule, text);
    assert_int_equal(k_run(k.sink, want, k.n_bufs, err, sizeof(err)), 0);
    assert_int_equal(
        lower_kernel_by(&k.g, k.sink, target, &made.schedule, NULL, &p),
        BELL_OK);
    if (p_run(&p, got, k.n_bufs, err, sizeof(err)) ||
        lk_compare(&k, want, got, err, sizeof(err)))
        fail_msg("%s (%d, %d, %d) on %s, seed %llu: %s: %s", c->name, (int)d[0],
                 (int)d[1], (int)d[2], target->name, (unsigned long long)seed,
                 text, err);
    lk_free_copy(&k, want);
    lk_free_copy(&k, got);
    lk_fini(&k);
    return true;
}

static void
test_random_schedules(void **state)
{
    uint64_t seed;
    uint32_t n = 0;

    (void)state;
    for (seed = 1; n < N_RANDOM; seed++) {
        assert_true(seed < 10 * N_RANDOM);
        n += check_random(seed);
    }
}

/* ---- what is refused ---- */

static void
test_bad_text(void **state)
{
    static const char *const bad[] = {
        "",
        ";",
        "loop",
        "loops 1",
        "vector 1",
        "vector 1 x",
        "vector 1 4 ",
        "vector  1 4",
        "vector -1 4",
        "upcast 0 99999999999",
        "loops;;grid 0 2",
    };
    struct lower_schedule schedule;
    char text[4096] = "grid 0 2";
    size_t i;

    (void)state;
    for (i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        if (lower_schedule_parse(bad[i], &schedule) != BELL_E_INVALID)
            fail_msg("'%s' was taken", bad[i]);
    }
    for (i = 0; i < LOWER_MAX_ACTIONS; i++)
        strcat(text, "; grid 0 2");
    assert_int_equal(lower_schedule_parse(text, &schedule), BELL_E_INVALID);
    assert_int_equal(lower_schedule_parse("loops; grid 0 2", &schedule),
                     BELL_OK);
    assert_int_equal(schedule.n_actions, 2);
}

static void
test_not_of_this_kernel(void **state)
{
    static const struct {
        const char *name, *text;
        size_t target;
    } rows[] = {
        {"matmul-nn", "loops; vector 9 16", 0},
        {"matmul-nn", "loops; upcast 0 1000", 0},
        {"matmul-nn", "loops; unroll 0 2", 0},
        {"matmul-nn", "loops; unroll 2 3", 0},
        {"matmul-nn", "loops; vector 0 16; vector 1 16", 0},
        {"matmul-nn", "loops; grid 2 4", 0},
        {"matmul-nn", "loops; grid 0 1000", 0},
        {"matmul-nn", "loops; upcast 0 64; upcast 1 64", 0},
        {"matmul-nn", "product 2", 0},
        {"matmul-nn", "product 0; upcast 0 64; upcast 1 4", 0},
        {"matmul-nn", "tile 64 64 4 4 16", 0},
        {"softmax", "product 0", 0},
        {"matmul-nn", "loops; vector 1 16", 2},
        {"matmul-nn", "tile 63 64 4 4 16", 2},
        {"matmul-nn", "tile 256 256 4 4 16", 2},
        {"matmul-nn", "tile 128 128 8 8 64", 2},
        {"matmul-nn", "matrix 1 2 1 1 1", 2},
        {"matmul-f16", "matrix 8 8 1 1 1", 3},
        {"matmul-f16", "matrix 1 1 8 8 1", 3},
        {"matmul-f16", "wgmma 4 1 1 16 4", 3},
        {"softmax", "team 3 1 1 0", 2},
        {"softmax", "team 4096 1 1 0", 2},
        {"add", "rows 64 256", 2},
        {"add", "rows 4 4096", 2},
    };
    const int64_t d[3] = {128, 128, 128};
    struct lower_schedule schedule;
    struct lower_program p;
    struct lk k;
    size_t i;

    (void)state;
    for (i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        lk_build(&k, lk_find(rows[i].name), d);
        assert_int_equal(lower_schedule_parse(rows[i].text, &schedule),
                         BELL_OK);
        if (lower_kernel_by(&k.g, k.sink, &targets[rows[i].target], &schedule,
                            NULL, &p) != BELL_E_INVALID)
            fail_msg("%s: '%s' was taken", rows[i].name, rows[i].text);
        lk_fini(&k);
    }
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_rules_are_schedules),
        cmocka_unit_test(test_folds),
        cmocka_unit_test(test_rows),
        cmocka_unit_test(test_random_schedules),
        cmocka_unit_test(test_bad_text),
        cmocka_unit_test(test_not_of_this_kernel),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
