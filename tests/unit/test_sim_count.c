/* What simulated cards count: the model of sectors and banks, kernels whose
 * counts are known, and the times that follow. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/chip.h"
#include "ioctl/sim_count.h"
#include "ptx_run.h"

/* Lanes' addresses: first, first + step, ... */
static void
spread(uint64_t addr[64], uint32_t n, uint64_t first, uint64_t step)
{
    uint32_t i;

    for (i = 0; i < n; i++)
        addr[i] = first + i * step;
}

static uint64_t
sectors(uint32_t n, uint64_t first, uint64_t step, uint32_t n_bytes)
{
    struct sim_counts c = {0};
    uint64_t addr[64], n_stores;

    spread(addr, n, first, step);
    sim_count_global(&c, addr, n, n_bytes, false);
    assert_int_equal(c.n_loads, 1);
    assert_int_equal(c.loaded_bytes, n * n_bytes);
    assert_int_equal(c.n_stores + c.store_sectors + c.stored_bytes, 0);
    for (n_stores = 1; n_stores <= 2; n_stores++) {
        sim_count_global(&c, addr, n, n_bytes, true);
        assert_int_equal(c.n_stores, n_stores);
        assert_int_equal(c.stored_bytes, n_stores * n * n_bytes);
        assert_int_equal(c.store_sectors, n_stores * c.load_sectors);
    }
    assert_int_equal(c.n_loads, 1);
    return c.load_sectors;
}

static void
test_sectors(void **state)
{
    (void)state;
    assert_int_equal(sectors(32, 0, 4, 4), 4);
    assert_int_equal(sectors(32, 4, 4, 4), 5);
    assert_int_equal(sectors(32, 0, 0, 4), 1);
    assert_int_equal(sectors(32, 0, 16, 16), 16);
    assert_int_equal(sectors(32, 0, 8, 4), 8);
    assert_int_equal(sectors(32, 0, 512, 2), 32);
    assert_int_equal(sectors(64, 0, 4096, 16), 64);
    assert_int_equal(sectors(2, 24, 64, 16), 4); /* across a sector's end */
    assert_int_equal(sectors(1, 31, 4, 1), 1);
    assert_int_equal(sectors(1, 31, 4, 2), 2); /* its last byte there */
    assert_int_equal(sectors(7, 0, 2, 2), 1);
}

/* Each number of a part comes to its own of the sum. */
static void
test_sum(void **state)
{
    struct sim_counts part, sum, none;
    const uint64_t *of_sum = (const void *)&sum;
    uint64_t *of_part = (void *)&part;
    size_t i, n = sizeof(part) / 8, first_flop, n_zero = 0;

    (void)state;
    first_flop = offsetof(struct sim_counts, matrix_flops) / 8;
    for (i = 0; i < n; i++)
        of_part[i] = 1000 + i;
    part.n_groups_run = part.n_groups = 7;
    for (i = 0; i < CHIP_RATE_COUNT; i++)
        part.matrix_flops[i] = 0.5 + (double)i;
    sim_count_begin(3);
    assert_true(sim_count_on(&part.n_groups));
    assert_int_equal(part.n_groups, 3);
    part.n_groups = 9;
    sim_count_add(&part);
    sim_count_add(&part);
    sim_count_take(&sum);
    sim_count_take(&none);
    sim_count_end();
    for (i = 0; i < n; i++) {
        if (i < first_flop || i >= first_flop + CHIP_RATE_COUNT)
            assert_int_equal(of_sum[i], 2 * of_part[i]);
        n_zero += ((const uint64_t *)(const void *)&none)[i] == 0;
    }
    for (i = 0; i < CHIP_RATE_COUNT; i++)
        assert_true(sum.matrix_flops[i] == 1 + 2 * (double)i);
    assert_int_equal(n_zero, n);
    assert_false(sim_count_on(&part.n_groups));
}

static uint64_t
wavefronts(uint32_t n, uint64_t step, uint32_t n_bytes, uint64_t least)
{
    struct sim_counts c = {0};
    uint64_t addr[64];

    spread(addr, n, 256, step);
    sim_count_shared(&c, addr, n, n_bytes);
    assert_int_equal(c.least_wavefronts, least);
    return c.n_wavefronts;
}

static void
test_wavefronts(void **state)
{
    (void)state;
    assert_int_equal(wavefronts(32, 4, 4, 1), 1);
    assert_int_equal(wavefronts(32, 0, 4, 1), 1); /* a broadcast */
    assert_int_equal(wavefronts(32, 8, 4, 1), 2);
    assert_int_equal(wavefronts(32, 128, 4, 1), 32);
    assert_int_equal(wavefronts(32, 132, 4, 1), 1); /* padded rows */
    assert_int_equal(wavefronts(32, 2, 2, 1), 1);
    assert_int_equal(wavefronts(32, 128, 1, 1), 32);
    assert_int_equal(wavefronts(32, 8, 8, 2), 2);
    assert_int_equal(wavefronts(32, 16, 16, 4), 4);
    assert_int_equal(wavefronts(32, 80, 16, 4), 4);
    assert_int_equal(wavefronts(32, 64, 16, 4), 16);
    assert_int_equal(wavefronts(64, 4, 4, 2), 2);
    assert_int_equal(wavefronts(8, 128, 16, 1), 8);
}

static void
test_steps(void **state)
{
    uint64_t n, n_run, most, step, i, at;
    uint32_t place, eighth;

    (void)state;
    assert_int_equal(sim_count_step(100, 0, &n_run), 1);
    assert_int_equal(n_run, 100);
    assert_int_equal(sim_count_step(100, 100, &n_run), 1);
    assert_int_equal(n_run, 100);
    for (n = 2; n < 300; n++) { /* none twice */
        bool seen[300] = {false};
        step = sim_count_step(n, n - 1, &n_run);
        assert_int_equal(n_run, n - 1);
        for (i = at = 0; i < n_run; i++, at = (at + step) % n) {
            assert_false(seen[at]);
            seen[at] = true;
        }
    }
    /* of 2^k groups, 16 of which differ, eight from all over and of eight
     * kinds, as many of the first half as of the second */
    for (n = 64, most = 8; n <= 1 << 20; n *= 2) {
        step = sim_count_step(n, most, &n_run);
        for (i = at = 0, place = eighth = 0; i < n_run; i++) {
            eighth |= 1u << (at * 8 / n);
            place |= 1u << (at % 16);
            at = (at + step) % n;
        }
        assert_true(__builtin_popcount(eighth) >= 5);
        assert_int_equal(__builtin_popcount(place), 8);
        assert_int_equal(__builtin_popcount(place & 0xff), 4);
    }
}

/* ---- a kernel ---- */

/* A transposition through shared memory without padding, half of whose lanes
 * then do something else. */
static const char body[] = PTX_KERNEL(
    PTX_START ".shared .align 16 .b8 s[4096];\n"
              "mov.u32 %r2, s; shl.b32 %r3, %r1, 7; add.u32 %r3, %r3, %r2;\n"
              "shl.b32 %r4, %r1, 2; add.u32 %r4, %r4, %r2;\n"
              "ld.global.u32 %r5, [%rd2];\n"
              "st.shared.u32 [%r3], %r5;\n" /* 32 wavefronts */
              "bar.sync 0;\n"
              "ld.shared.u32 %r6, [s];\n" /* 1 */
              "mul.wide.u32 %rd3, %r1, 64; add.u64 %rd3, %rd3, %rd1;\n"
              "st.global.u32 [%rd3], %r6;\n" /* 32 sectors */
              "mov.f32 %f0, 0f3F800000; fma.rn.f32 %f1, %f0, %f0, %f0;\n"
              "sqrt.rn.f32 %f1, %f1;\n"
              "setp.lt.u32 %p0, %r1, 16;\n"
              "@%p0 bra $half;\n"
              "add.f32 %f1, %f1, %f0;\n"
              "$half:\n"
              "setp.lt.u32 %p1, %r1, 32;\n"
              "@%p1 bra $all;\n"
              "$all: ret;");

static void
run_body(uint64_t most, struct sim_counts *out)
{
    static uint32_t data[32 * 16];
    struct ptx_run run = {.text = body,
                          .data = data,
                          .data_bytes = sizeof(data),
                          .blocks = 10,
                          .threads = 32};

    sim_count_begin(most);
    ptx_run_ok(&run);
    sim_count_take(out);
    sim_count_end();
}

static void
test_ptx_kernel(void **state)
{
    struct sim_counts c, part;

    (void)state;
    run_body(0, &c);
    assert_int_equal(c.n_groups, 10);
    assert_int_equal(c.n_groups_run, 10);
    assert_int_equal(c.n_loads, 10);
    assert_int_equal(c.loaded_bytes, 10 * 128);
    assert_int_equal(c.load_sectors, 10 * 4);
    assert_int_equal(c.n_stores, 10);
    assert_int_equal(c.store_sectors, 10 * 32);
    assert_int_equal(c.n_wavefronts, 10 * 33);
    assert_int_equal(c.least_wavefronts, 10 * 2);
    assert_int_equal(c.n_barriers, 10);
    assert_int_equal(c.n_branches, 20);
    assert_int_equal(c.n_divergent, 10);
    assert_int_equal(c.n_insns[SIM_INSN_FLOAT], 10 * 2);
    assert_int_equal(c.n_insns[SIM_INSN_SPECIAL], 10);
    assert_int_equal(c.n_insns[SIM_INSN_GLOBAL], 20);
    assert_int_equal(c.n_insns[SIM_INSN_SHARED], 20);
    assert_int_equal(c.n_insns[SIM_INSN_MATRIX], 0);
    /* three of the ten */
    run_body(3, &part);
    assert_int_equal(part.n_groups, 10);
    assert_int_equal(part.n_groups_run, 3);
    assert_int_equal(part.n_wavefronts, 33 * part.n_groups_run);
    /* nobody asks */
    sim_count_begin(0);
    sim_count_end();
    {
        static uint32_t data[32 * 16];
        struct ptx_run run = {.text = body,
                              .data = data,
                              .data_bytes = sizeof(data),
                              .blocks = 10,
                              .threads = 32};
        ptx_run_ok(&run);
    }
    sim_count_take(&c);
    assert_int_equal(c.n_groups, 0);
}

/* ---- times ---- */

static void
test_time(void **state)
{
    const struct chip *h100 = chip_find("h100");
    struct chip_work work = {.n_groups = 1320, .memory_bytes = 3352e6};
    struct chip_time t = chip_time(h100, &work);

    (void)state;
    assert_int_equal(t.limit, CHIP_TERM_MEMORY);
    assert_true(t.us > 999.9 && t.us < 1000.1);
    work.matrix_flops[CHIP_MATRIX_F16] = 989.4e12 * 2e-3;
    t = chip_time(h100, &work);
    assert_int_equal(t.limit, CHIP_TERM_MATRIX);
    assert_true(t.us > 1999 && t.us < 2001);
    /* one group more than the SMs divide: all wait for its SM */
    work.n_groups = 133;
    t = chip_time(h100, &work);
    assert_true(t.us > 2000 * 2 * 132 / 133.0 - 2 &&
                t.us < 2000 * 2 * 132 / 133.0 + 2);
    /* 4 instructions a clock and SM, at 1.98 GHz */
    work =
        (struct chip_work){.n_groups = 132, .n_insns = 132 * 4 * 1980.0 * 10};
    t = chip_time(h100, &work);
    assert_int_equal(t.limit, CHIP_TERM_ISSUE);
    assert_true(t.us > 9.99 && t.us < 10.01);
    work =
        (struct chip_work){.n_groups = 132, .n_wavefronts = 132 * 1980.0 * 10};
    t = chip_time(h100, &work);
    assert_int_equal(t.limit, CHIP_TERM_SHARED);
    assert_true(t.us > 9.99 && t.us < 10.01);
    work = (struct chip_work){.flops = 66.9e12 * 1e-3};
    t = chip_time(h100, &work);
    assert_int_equal(t.limit, CHIP_TERM_VECTOR);
    assert_true(t.us > 999 && t.us < 1001);
    assert_string_equal(chip_term_names[t.limit], "vectors");
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sum),        cmocka_unit_test(test_sectors),
        cmocka_unit_test(test_wavefronts), cmocka_unit_test(test_steps),
        cmocka_unit_test(test_ptx_kernel), cmocka_unit_test(test_time),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
