/* What a graph of half a million nodes takes while it is made and realized, and
 * that it gives what it should.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cmocka.h>

#include "doorbell/ops.h"
#include "doorbell/tensor.h"
#include "tests/unit/sanitized.h"

/* Close below a power of two: what grows by doubling is nearly full. */
#define N_NODES    520000
#define NODE_BYTES 560 /* observed: 516 to 542 on a busy CPU, 2026-11-30 */

static size_t
resident_bytes(void)
{
    FILE *file = fopen("/proc/self/statm", "r");
    unsigned long all, resident;

    assert_non_null(file);
    assert_int_equal(fscanf(file, "%lu %lu", &all, &resident), 2);
    fclose(file);
    return resident * (size_t)sysconf(_SC_PAGESIZE);
}

static size_t
most_bytes(void)
{
    struct rusage usage;

    assert_int_equal(getrusage(RUSAGE_SELF, &usage), 0);
    return (size_t)usage.ru_maxrss * 1024;
}

static void
test_chain(void **state)
{
    struct bell_tensor *x, *one;
    struct bell_context *ctx;
    size_t before, taken;
    float got[4];
    uint32_t i;

    (void)state;
    assert_int_equal(bell_context_create("CPU", &ctx), BELL_OK);
    one = bell_ones(ctx, BELL_DIMS(4), BELL_FLOAT32);
    x = bell_zeros(ctx, BELL_DIMS(4), BELL_FLOAT32);
    assert_int_equal(bell_realize1(one), BELL_OK);
    assert_int_equal(bell_realize1(x), BELL_OK);
    before = resident_bytes(); /* with the compiler */
    for (i = 0; i < N_NODES; i++)
        x = bell_add(x, one);
    assert_int_equal(bell_realize1(x), BELL_OK);
    taken = (most_bytes() - before) / N_NODES;
    assert_int_equal(bell_read(x, got, sizeof(got)), BELL_OK);
    for (i = 0; i < 4; i++)
        assert_true(got[i] == N_NODES);
    bell_context_destroy(ctx);
    print_message("# %zu bytes a node\n", taken);
    if (!IS_SANITIZED)
        assert_true(taken <= NODE_BYTES);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_chain)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
