/* tools/bench: what rows say of passes. Another run of the same lies within the
 * interval that is printed; one burst of samples does not make it narrow; a
 * sample is many steps of the clock. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/bits.h"
#include "tools/bench/bench.h"

#define SAMPLES 40
#define PAIRS   300

enum moments {
    NORMAL,
    EXPONENTIAL,
    TWO_VALUES, /* a thread sleeps, or spins: by pass the one or the other */
    MOMENTS_COUNT
};

static double
draw(uint64_t *state)
{
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return ((double)(*state >> 11) + 1) / 9007199254740993.0;
}

/* What a pass takes, for 1 that it might. */
static double
draw_pass(uint64_t *state, enum moments moments)
{
    double u = draw(state), v = draw(state);

    switch (moments) {
    case NORMAL:
        return 1 + 0.05 * sqrt(-2 * log(u)) * cos(6.283185307179586 * v);
    case EXPONENTIAL:
        return 1 - 0.2 * log(u);
    case TWO_VALUES:
        return (u < 0.5 ? 1 : 2) + 0.01 * v;
    case MOMENTS_COUNT:
        break;
    }
    return 1;
}

/* A run of n passes, of which each sample has little noise of its own. */
static struct bench_row
make_run(struct bench *b, uint64_t *state, unsigned n, enum moments moments)
{
    size_t i;

    b->n_rows = 0;
    b->n_passes = n;
    for (b->pass = 0; b->pass < n; b->pass++) {
        double level = draw_pass(state, moments);

        bench_begin(b, BENCH_US, "a row", "row");
        for (i = 0; i < SAMPLES; i++)
            bench_sample(b, level * (1 + 0.001 * draw(state)));
        bench_end(b);
    }
    assert_int_equal(b->n_rows, 1);
    assert_int_equal(b->rows[0].n_passes, n);
    assert_int_equal(b->rows[0].n_runs, n * SAMPLES);
    return b->rows[0];
}

static struct bench *
new_bench(void)
{
    struct bench *b = calloc(1, sizeof(*b));

    assert_non_null(b);
    b->slow_down = 1;
    return b;
}

/* At least 93 of 100 pairs of runs of the same lie within each other's
 * interval. */
static void
test_interval(void **state)
{
    static const unsigned passes[] = {4, 5, 6, 7, 8, 10, 12};
    struct bench *b = new_bench();
    uint64_t seed = 1;
    size_t i, k, moments;

    (void)state;
    for (moments = 0; moments < MOMENTS_COUNT; moments++) {
        for (i = 0; i < ARRAY_LEN(passes); i++) {
            size_t n_within = 0;

            for (k = 0; k < PAIRS; k++) {
                struct bench_row x =
                    make_run(b, &seed, passes[i], (enum moments)moments);
                struct bench_row y =
                    make_run(b, &seed, passes[i], (enum moments)moments);

                assert_true(x.low <= x.median && x.median <= x.high);
                n_within += x.low <= y.median && y.median <= x.high &&
                            y.low <= x.median && x.median <= y.high;
            }
            /* of two values few passes may all have had the one */
            if ((double)n_within <
                (moments == TWO_VALUES && passes[i] < 6 ? 0.75 : 0.93) * PAIRS)
                fail_msg("of kind %zu, %u passes: %zu of %d", moments,
                         passes[i], n_within, PAIRS);
        }
    }
    free(b);
}

/* Many samples of few passes say nothing of other passes. */
static void
test_few_passes(void **state)
{
    struct bench *b = new_bench();
    uint64_t seed = 1;
    unsigned n;

    (void)state;
    for (n = 1; n < BENCH_PASSES_MIN; n++) {
        struct bench_row row = make_run(b, &seed, n, NORMAL);

        assert_false(isfinite(row.interval_percent));
        assert_true(row.is_noisy);
    }
    free(b);
}

/* A pass with many samples has no more to say than one with few. */
static void
test_weights(void **state)
{
    struct bench *b = new_bench();
    size_t i, n;

    (void)state;
    b->n_passes = 5;
    for (b->pass = 0; b->pass < 5; b->pass++) {
        n = b->pass == 4 ? 1000 : 3;
        bench_begin(b, BENCH_US, "a row", "row");
        for (i = 0; i < n; i++)
            bench_sample(b, b->pass == 4 ? 9 : 1);
        bench_end(b);
    }
    assert_true(b->rows[0].median == 1);
    assert_true(b->rows[0].p99 == 9);
    free(b);
}

/* Runs of one step of the clock, which come out as one or as two of them: what
 * is kept of them has a hundred steps, in later passes from the start. */
static void
test_clock(void **state)
{
    struct bench *b = new_bench();
    uint64_t seed = 1;

    (void)state;
    b->tick_ns = 20;
    b->n_passes = 6;
    for (b->pass = 0; b->pass < 6; b->pass++) {
        bench_begin(b, BENCH_NS, "a row", "row");
        while (b->n_samples < SAMPLES) {
            double ns = 31.0 * bench_batch(b);
            double steps = floor(ns / 20 + draw(&seed));

            assert_true(b->pass == 0 || steps >= 60);
            bench_sample_batch(b, steps * 20, 1);
        }
        bench_end(b);
    }
    if (fabs(b->rows[0].median / 31 - 1) > 0.02)
        fail_msg("a median of %g", b->rows[0].median);
    free(b);
}

/* A run that ends before all passes are over has what there is. */
static void
test_ends_early(void **state)
{
    struct bench *b = new_bench();

    (void)state;
    b->n_passes = 6;
    bench_begin(b, BENCH_US, "a row", "row");
    bench_sample(b, 3);
    bench_end(b);
    assert_true(b->rows[0].median == 0);
    bench_finish(b);
    assert_true(b->rows[0].median == 3);
    assert_null(b->rows[0].taken);
    free(b);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_interval),   cmocka_unit_test(test_few_passes),
        cmocka_unit_test(test_weights),    cmocka_unit_test(test_clock),
        cmocka_unit_test(test_ends_early),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
