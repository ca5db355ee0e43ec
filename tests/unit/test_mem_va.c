/* mem/mem_va: random traces against a naive map of granules, alignment,
 * fixed ranges, failing memory, and cost that does not grow.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "base/bits.h"
#include "base/map.h"
#include "base/thread.h"
#include "mem/mem_va.h"

#define BASE       0x200000000ull
#define GRANULE    0x1000ull
#define N_GRANULES 1024u
#define N_OUT      128u

static uint64_t
next_random(uint64_t *seed)
{
    *seed += 0x9e3779b97f4a7c15ull;
    return hash_mix(*seed);
}

/* The model: who holds each granule, 0 for nobody. */
struct model {
    uint32_t owner[N_GRANULES];
};

static void
model_set(struct model *model, const struct mem_range *range, uint32_t from,
          uint32_t to)
{
    uint64_t i, first = (range->addr - BASE) / GRANULE;

    assert_true(range->addr >= BASE);
    assert_true(first + range->size_bytes / GRANULE <= N_GRANULES);
    for (i = 0; i < range->size_bytes / GRANULE; i++) {
        assert_int_equal(model->owner[first + i], from);
        model->owner[first + i] = to;
    }
}

/* Sizes up to 32 have a class each; above, 32 classes each doubling. */
static uint64_t
class_bytes(uint64_t n)
{
    uint64_t step = 1;

    while (n / step >= 64)
        step *= 2;
    return n < 32 ? 1 : step;
}

static uint64_t
round_up(uint64_t n)
{
    uint64_t step = class_bytes(n);

    return (n + step - 1) / step * step;
}

/* What the model knows of a request before it is made. */
struct chance {
    int must,
        can; /* there is a run of a class that is sure to do; one at all */
    uint64_t best; /* the smallest class that is sure to hold the size */
};

static void
model_run(uint64_t first, uint64_t run, uint64_t n, uint64_t align,
          struct chance *chance)
{
    uint64_t at = (BASE + first * GRANULE + align - 1) / align * align;
    uint64_t slack = align > GRANULE ? align / GRANULE - 1 : 0;
    uint64_t class = run / class_bytes(run) * class_bytes(run);

    chance->can |= at + n * GRANULE <= BASE + (first + run) * GRANULE;
    chance->must |= run >= round_up(n + slack);
    if (run >= round_up(n) && class < chance->best)
        chance->best = class;
}

static struct chance
model_chance(const struct model *model, uint64_t size, uint64_t align)
{
    struct chance chance = {.best = UINT64_MAX};
    uint64_t n = (size + GRANULE - 1) / GRANULE, i, run = 0;

    for (i = 0; i <= N_GRANULES; i++) {
        if (i < N_GRANULES && !model->owner[i]) {
            run++;
            continue;
        }
        if (run)
            model_run(i - run, run, n, align, &chance);
        run = 0;
    }
    return chance;
}

/* The class of the free run that holds a range. */
static uint64_t
model_class_at(const struct model *model, const struct mem_range *range)
{
    uint64_t first = (range->addr - BASE) / GRANULE, last = first;

    while (first > 0 && !model->owner[first - 1])
        first--;
    while (last < N_GRANULES && !model->owner[last])
        last++;
    last -= first;
    return last / class_bytes(last) * class_bytes(last);
}

static void
check_stats(const struct mem_va *va, const struct model *model, uint32_t n_used)
{
    uint64_t i, run = 0, largest = 0, n_granules = 0;
    struct mem_va_stats stats;
    uint32_t n_runs = 0;

    for (i = 0; i < N_GRANULES; i++) {
        run = model->owner[i] ? 0 : run + 1;
        n_granules += !model->owner[i];
        n_runs += run == 1;
        largest = run > largest ? run : largest;
    }
    mem_va_stats(va, &stats);
    assert_int_equal(stats.total_bytes, N_GRANULES * GRANULE);
    assert_int_equal(stats.free_bytes, n_granules * GRANULE);
    assert_int_equal(stats.largest_free_bytes, largest * GRANULE);
    assert_int_equal(stats.n_used, n_used);
    assert_int_equal(stats.n_free, n_runs);
}

static void
random_trace(uint64_t seed, uint64_t max_granules)
{
    struct mem_range out[N_OUT] = {{0}};
    struct model *model = calloc(1, sizeof(*model));
    struct mem_va *va;
    uint32_t n_used = 0;
    unsigned step;

    assert_int_equal(mem_va_create(BASE, N_GRANULES * GRANULE, GRANULE, &va),
                     BELL_OK);
    for (step = 0; step < 4000; step++) {
        uint32_t i = (uint32_t)(next_random(&seed) % N_OUT);
        if (out[i].size_bytes) {
            model_set(model, &out[i], i + 1, 0);
            mem_va_free(va, &out[i]);
            out[i].size_bytes = 0;
            n_used--;
        } else {
            uint64_t size = next_random(&seed) % (max_granules * GRANULE) + 1;
            uint64_t align = 1ull << (next_random(&seed) % 17);
            struct chance chance = model_chance(model, size, align);
            if (mem_va_alloc(va, size, align, &out[i]) != BELL_OK) {
                assert_false(chance.must);
                continue;
            }
            assert_true(chance.can);
            assert_true(out[i].size_bytes >= size);
            assert_true(out[i].size_bytes < size + GRANULE);
            assert_int_equal(out[i].addr & (align - 1), 0);
            if (align <= GRANULE)
                assert_int_equal(model_class_at(model, &out[i]), chance.best);
            model_set(model, &out[i], 0, i + 1);
            n_used++;
        }
        if (step % 10 == 0) {
            assert_true(mem_va_check(va));
            check_stats(va, model, n_used);
        }
    }
    assert_true(mem_va_check(va));
    mem_va_destroy(va);
    free(model);
}

static void
test_random(void **state)
{
    uint64_t seed;

    (void)state;
    for (seed = 1; seed <= 20; seed++)
        random_trace(seed, seed % 2 ? 40 : seed * 10);
}

static void
test_merges_whole(void **state)
{
    struct mem_range out[64];
    struct mem_va_stats stats;
    struct mem_va *va;
    uint32_t i;

    (void)state;
    assert_int_equal(mem_va_create(0, 64 * 4096, 4096, &va), BELL_OK);
    for (i = 0; i < 64; i++)
        assert_int_equal(mem_va_alloc(va, 4096, 0, &out[i]), BELL_OK);
    assert_int_equal(mem_va_alloc(va, 1, 0, &out[0]), BELL_E_NO_MEMORY);
    for (i = 0; i < 64; i += 2)
        mem_va_free(va, &out[i]);
    mem_va_stats(va, &stats);
    assert_int_equal(stats.n_free, 32);
    assert_int_equal(stats.largest_free_bytes, 4096);
    for (i = 1; i < 64; i += 2)
        mem_va_free(va, &out[i]);
    mem_va_stats(va, &stats);
    assert_int_equal(stats.n_free, 1);
    assert_int_equal(stats.n_used, 0);
    assert_int_equal(stats.largest_free_bytes, 64 * 4096);
    assert_true(mem_va_check(va));
    mem_va_destroy(va);
}

static void
test_fixed(void **state)
{
    struct mem_range window, all, low, high;
    struct mem_va *va;

    (void)state;
    assert_int_equal(mem_va_create(0x10000, 0x100000, 0x1000, &va), BELL_OK);
    assert_int_equal(mem_va_alloc_at(va, 0x80000, 0x10000, &window), BELL_OK);
    assert_int_equal(window.addr, 0x80000);
    assert_int_equal(mem_va_alloc_at(va, 0x88000, 0x1000, &all),
                     BELL_E_INVALID);
    assert_int_equal(mem_va_alloc_at(va, 0x7f000, 0x2000, &all),
                     BELL_E_INVALID);
    assert_int_equal(mem_va_alloc_at(va, 0x10f000, 0x2000, &all),
                     BELL_E_INVALID);
    assert_int_equal(mem_va_alloc_at(va, 0xf000, 0x1000, &all), BELL_E_INVALID);
    assert_int_equal(mem_va_alloc_at(va, 0x80800, 0x1000, &all),
                     BELL_E_INVALID);
    assert_int_equal(mem_va_alloc_at(va, 0x90000, 0x1000, &high), BELL_OK);
    mem_va_free(va, &high);
    assert_int_equal(mem_va_alloc_at(va, 0x10000, 0x1000, &low), BELL_OK);
    assert_int_equal(mem_va_alloc_at(va, 0x10f000, 0x1000, &high), BELL_OK);
    assert_true(mem_va_check(va));
    mem_va_free(va, &low);
    mem_va_free(va, &high);
    mem_va_free(va, &window);
    assert_int_equal(mem_va_alloc_at(va, 0x10000, 0x100000, &all), BELL_OK);
    assert_true(mem_va_check(va));
    mem_va_destroy(va);
}

/* Granules of a byte: alignment is asked of addresses, wherever a block begins.
 */
static void
test_bytes(void **state)
{
    static const struct {
        uint64_t size, align, addr;
    } rows[] = {{1, 1, 3}, {2, 2, 4}, {5, 16, 16}, {3, 8, 8}, {1, 0, 6}};
    struct mem_range out;
    struct mem_va *va;
    size_t i;

    (void)state;
    assert_int_equal(mem_va_create(3, 100, 1, &va), BELL_OK);
    for (i = 0; i < ARRAY_LEN(rows); i++) {
        assert_int_equal(mem_va_alloc(va, rows[i].size, rows[i].align, &out),
                         BELL_OK);
        assert_int_equal(out.addr, rows[i].addr);
        assert_int_equal(out.size_bytes, rows[i].size);
    }
    assert_true(mem_va_check(va));
    mem_va_destroy(va);
}

/* The space of a 57-bit card, and the largest there is. */
static void
test_large(void **state)
{
    struct mem_range a, b;
    struct mem_va *va;

    (void)state;
    assert_int_equal(mem_va_create(0, 1ull << 57, 4096, &va), BELL_OK);
    assert_int_equal(mem_va_alloc(va, 1ull << 40, 1ull << 40, &a), BELL_OK);
    assert_int_equal(mem_va_alloc(va, 1ull << 56, 1ull << 32, &b), BELL_OK);
    assert_true(mem_va_check(va));
    assert_int_equal(mem_va_alloc(va, 1ull << 57, 0, &b), BELL_E_NO_MEMORY);
    assert_int_equal(mem_va_alloc(va, UINT64_MAX, 0, &b), BELL_E_NO_MEMORY);
    assert_int_equal(mem_va_alloc(va, 4096, 1ull << 63, &b), BELL_E_NO_MEMORY);
    mem_va_destroy(va);
    assert_int_equal(mem_va_create(0, 1ull << 63, 1, &va), BELL_OK);
    assert_int_equal(mem_va_alloc(va, (1ull << 63) - 1, 0, &a), BELL_OK);
    assert_int_equal(mem_va_alloc(va, 1, 0, &b), BELL_OK);
    assert_true(mem_va_check(va));
    mem_va_destroy(va);
}

static void
test_refuses(void **state)
{
    struct mem_range range;
    struct mem_va *va;

    (void)state;
    assert_int_equal(mem_va_create(0, 0, 4096, &va), BELL_E_INVALID);
    assert_int_equal(mem_va_create(0, 4096, 3, &va), BELL_E_INVALID);
    assert_int_equal(mem_va_create(1, 4096, 4096, &va), BELL_E_INVALID);
    assert_int_equal(mem_va_create(0 - 4096ull, 8192, 4096, &va),
                     BELL_E_INVALID);
    assert_int_equal(mem_va_create(0, 4096, 4096, &va), BELL_OK);
    assert_int_equal(mem_va_alloc(va, 0, 0, &range), BELL_E_INVALID);
    assert_int_equal(mem_va_alloc(va, 1, 8192 + 1, &range), BELL_E_INVALID);
    mem_va_destroy(va);
}

static void
test_memory_failures(void **state)
{
    uint64_t nth;

    (void)state;
    for (nth = 1;; nth++) {
        struct mem_range out[64];
        struct mem_va *va;
        bell_status status;
        unsigned i;
        host_fail_after(nth, 0);
        status = mem_va_create(0, 1 << 20, 4096, &va);
        if (status != BELL_OK) {
            assert_int_equal(status, BELL_E_NO_MEMORY);
            host_fail_after(0, 0);
            continue;
        }
        for (i = 0; i < 64 && status == BELL_OK; i++)
            status = mem_va_alloc(va, 4096, 8192, &out[i]);
        host_fail_after(0, 0);
        assert_true(mem_va_check(va));
        mem_va_destroy(va);
        if (status == BELL_OK)
            break;
        assert_int_equal(status, BELL_E_NO_MEMORY);
    }
    assert_true(nth > 2);
}

/* Nanoseconds per pair of calls with n ranges out. */
static double
cost(uint32_t n)
{
    struct mem_range *out = calloc(n, sizeof(*out)), range;
    uint64_t seed = 7, start;
    struct mem_va *va;
    uint32_t i;

    assert_int_equal(mem_va_create(0, 1ull << 47, 4096, &va), BELL_OK);
    for (i = 0; i < n; i++)
        assert_int_equal(
            mem_va_alloc(va, next_random(&seed) % 1000000 + 1, 0, &out[i]),
            BELL_OK);
    for (i = 0; i < n; i += 2)
        mem_va_free(va, &out[i]);
    start = time_now_ns();
    for (i = 0; i < 20000; i++) {
        assert_int_equal(
            mem_va_alloc(va, next_random(&seed) % 1000000 + 1, 0, &range),
            BELL_OK);
        mem_va_free(va, &range);
    }
    start = time_now_ns() - start;
    mem_va_destroy(va);
    free(out);
    return (double)start / 20000;
}

static void
test_constant_cost(void **state)
{
    double few = cost(100), many = cost(100000);

    (void)state;
    print_message("# %.0f ns with 100 ranges, %.0f ns with 100000\n", few,
                  many);
    /* Caches cost a little; a walk would cost a thousand times. */
    assert_true(many < few * 20 + 5000);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_random),
        cmocka_unit_test(test_merges_whole),
        cmocka_unit_test(test_fixed),
        cmocka_unit_test(test_bytes),
        cmocka_unit_test(test_large),
        cmocka_unit_test(test_refuses),
        cmocka_unit_test(test_memory_failures),
        cmocka_unit_test(test_constant_cost),
    };

    return cmocka_run_group_tests_name("mem_va", tests, NULL, NULL);
}
