/* Chips by name: the table, occupancy, and the devices that are made of it,
 * simulated or null. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "base/bits.h"
#include "base/chip.h"
#include "base/thread.h"
#include "hcq/amd/amd.h"
#include "hcq/hcq.h"
#include "hcq/nv/nv_gen.h"

/* ---- the table ---- */

static void
test_table(void **state)
{
    const struct chip *chip;
    size_t i, k;

    (void)state;
    for (i = 0; (chip = chip_at(i)); i++) {
        const struct chip_arch *arch = chip_arch_find(chip->arch);

        assert_non_null(arch);
        assert_ptr_equal(chip_find(chip->name), chip);
        assert_null(chip_arch_find(chip->name));
        assert_true(chip->n_units > arch->n_units);
        assert_true(chip->memory_gb_s > 200 && chip->clock_mhz > 1000);
        assert_true(chip->memory_bytes >= (uint64_t)8 << 30);
        for (k = 0; k < CHIP_RATE_COUNT; k++)
            assert_true(chip->rate[k] >= 0 && chip->rate[k] < 5000);
        /* a fused multiply-add a lane and clock, or two; within the clocks that
         * boards run at */
        assert_true(chip->rate[CHIP_F32] * 1e12 >
                    0.95 * 2 * 64 * chip->n_units * chip->clock_mhz * 1e6);
        assert_true(chip->rate[CHIP_F32] * 1e12 <
                    1.05 * 2 * 256 * chip->n_units * chip->clock_mhz * 1e6);
    }
    assert_null(chip_find("sm_90"));
    assert_null(chip_arch_find("h10"));
}

static void
test_of_device(void **state)
{
    const struct chip *chip;
    size_t i;

    (void)state;
    for (i = 0; (chip = chip_at(i)) != NULL; i++)
        assert_ptr_equal(chip_of_device("NV:0", chip->board), chip);
    assert_ptr_equal(chip_of_device("NV:0@nullify", chip_at(0)->board),
                     chip_at(0));
    assert_string_equal(chip_of_device("NV:0@sim:h100,branch=580", "")->name,
                        "h100");
    assert_string_equal(chip_of_device("NV:0@sim:h200*2", "")->name, "h200");
    assert_string_equal(chip_of_device("AMD:0@null:mi300x", "")->name,
                        "mi300x");
    assert_string_equal(
        chip_of_device("NV:0@record:a.cas@sim:rtx4090", "")->name, "rtx4090");
    assert_string_equal(chip_of_device("NV:0", "NVIDIA H100 80GB HBM3")->name,
                        "h100");
    assert_null(chip_of_device("NV:0@sim:sm_90", "NVIDIA H100 80GB HBM3"));
    assert_null(chip_of_device("CPU:0", "a processor"));
    assert_null(chip_of_device("NV:0@simply", "a card"));
    assert_null(chip_of_device("NV:0@replay:h100", ""));
    assert_null(chip_of_device("NV:0@sim:h1001", ""));
    assert_null(chip_of_device("NV:0@sim:h10", ""));
    assert_string_equal(chip_of_device("NV:0@replay:x", "NVIDIA H200")->name,
                        "h200");
}

static void
check_occupancy(const char *arch, uint32_t n_threads, uint32_t n_regs,
                uint32_t shared_bytes, uint32_t n_groups, const char *limit)
{
    struct chip_occupancy o =
        chip_occupancy(chip_arch_find(arch), n_threads, n_regs, shared_bytes);

    assert_int_equal(o.n_groups, n_groups);
    assert_int_equal(o.n_warps,
                     n_groups *
                         div_up(n_threads, chip_arch_find(arch)->warp_lanes));
    assert_string_equal(o.limit, limit);
}

/* What NVIDIA's occupancy calculator gives, by its formula. */
static void
test_occupancy(void **state)
{
    (void)state;
    check_occupancy("sm_90", 256, 32, 0, 8, "threads");
    check_occupancy("sm_90", 256, 128, 0, 2, "registers");
    check_occupancy("sm_90", 256, 129, 0, 1, "registers");
    check_occupancy("sm_90", 32, 16, 0, 32, "groups");
    check_occupancy("sm_90", 128, 90, 227 * 1024, 1, "shared memory");
    check_occupancy("sm_90", 128, 90, 113 * 1024, 2, "shared memory");
    check_occupancy("sm_90", 128, 90, 228 * 1024, 0, "shared memory");
    check_occupancy("sm_89", 256, 40, 0, 6, "threads");
    check_occupancy("sm_90", 1024, 128, 0, 0, "registers");
    /* none is as one; all that a unit has, to the last */
    check_occupancy("sm_90", 1024, 0, 0, 2, "threads");
    check_occupancy("sm_90", 1024, 64, 0, 1, "registers");
    check_occupancy("sm_90", 1024, 32, 0, 2, "threads");
    check_occupancy("sm_90", 64, 32, 0, 32, "groups");
    check_occupancy("sm_90", 65, 32, 0, 21, "threads");
    check_occupancy("sm_90", 64, 33, 0, 25, "registers");
    check_occupancy("sm_90", 32, 16, 6 * 1024 + 128, 32, "groups");
    check_occupancy("sm_90", 32, 16, 6 * 1024 + 129, 31, "shared memory");
    check_occupancy("gfx942", 64, 0, 4096, 16, "groups");
    check_occupancy("gfx942", 64, 0, 4097, 14, "shared memory");
    /* AMD: waves of 512 registers of a SIMD */
    check_occupancy("gfx942", 256, 64, 0, 8, "threads");
    check_occupancy("gfx942", 256, 136, 40960, 1, "shared memory");
    check_occupancy("gfx942", 256, 136, 0, 3, "registers");
    check_occupancy("gfx1100", 256, 252, 0, 1, "registers");
    check_occupancy("gfx1100", 128, 252, 0, 2, "registers");
}

/* Every figure again: a change of one must be meant. */
static const char *const arch_rows[] = {
    "sm_80 NV 8: 32 64 32, 65536 8, 167936 166912 1024 128, 4",
    "sm_86 NV 8: 32 48 16, 65536 8, 102400 101376 1024 128, 4",
    "sm_89 NV 8: 32 48 24, 65536 8, 102400 101376 1024 128, 4",
    "sm_90 NV 8: 32 64 32, 65536 8, 233472 232448 1024 128, 4",
    "sm_100 NV 8: 32 64 32, 65536 8, 233472 232448 1024 128, 4",
    "sm_120 NV 8: 32 48 24, 65536 8, 102400 101376 1024 128, 4",
    "gfx906 AMD 8: 64 40 16, 65536 4, 65536 65536 0 512, 1",
    "gfx908 AMD 8: 64 40 16, 65536 4, 65536 65536 0 512, 1",
    "gfx90a AMD 8: 64 32 16, 131072 8, 65536 65536 0 512, 1",
    "gfx942 AMD 16: 64 32 16, 131072 8, 65536 65536 0 512, 1",
    "gfx1010 AMD 8: 32 40 16, 65536 8, 65536 65536 0 512, 2",
    "gfx1011 AMD 8: 32 40 16, 65536 8, 65536 65536 0 512, 2",
    "gfx1012 AMD 8: 32 40 16, 65536 8, 65536 65536 0 512, 2",
    "gfx1030 AMD 8: 32 32 16, 65536 16, 65536 65536 0 512, 2",
    "gfx1031 AMD 8: 32 32 16, 65536 16, 65536 65536 0 512, 2",
    "gfx1032 AMD 8: 32 32 16, 65536 16, 65536 65536 0 512, 2",
    "gfx1033 AMD 8: 32 32 16, 65536 16, 65536 65536 0 512, 2",
    "gfx1034 AMD 8: 32 32 16, 65536 16, 65536 65536 0 512, 2",
    "gfx1035 AMD 8: 32 32 16, 65536 16, 65536 65536 0 512, 2",
    "gfx1036 AMD 2: 32 32 16, 65536 16, 65536 65536 0 512, 2",
    "gfx1100 AMD 8: 32 32 16, 98304 24, 65536 65536 0 512, 2",
    "gfx1101 AMD 8: 32 32 16, 98304 24, 65536 65536 0 512, 2",
    "gfx1102 AMD 8: 32 32 16, 65536 16, 65536 65536 0 512, 2",
    "gfx1103 AMD 8: 32 32 16, 65536 16, 65536 65536 0 512, 2",
    "gfx1150 AMD 8: 32 32 16, 65536 16, 65536 65536 0 512, 2",
    "gfx1151 AMD 8: 32 32 16, 98304 24, 65536 65536 0 512, 2",
    "gfx1152 AMD 8: 32 32 16, 65536 16, 65536 65536 0 512, 2",
    "gfx1200 AMD 8: 32 32 16, 98304 24, 65536 65536 0 512, 2",
    "gfx1201 AMD 8: 32 32 16, 98304 24, 65536 65536 0 512, 2",
    "a618 QCOM 1: 64 32 32, 49152 4, 32768 32768 0 1024, 1",
    "a619 QCOM 1: 64 32 32, 49152 4, 32768 32768 0 1024, 1",
    "a630 QCOM 2: 64 32 32, 49152 4, 32768 32768 0 1024, 1",
    "a635 QCOM 2: 64 32 32, 32768 4, 32768 32768 0 1024, 1",
    "a640 QCOM 2: 64 32 32, 49152 4, 32768 32768 0 1024, 1",
    "a650 QCOM 3: 64 32 32, 32768 4, 32768 32768 0 1024, 1",
    "a660 QCOM 3: 64 32 32, 32768 4, 32768 32768 0 1024, 1",
    "a663 QCOM 3: 64 32 32, 32768 4, 32768 32768 0 1024, 1",
    "a680 QCOM 4: 64 32 32, 49152 4, 32768 32768 0 1024, 1",
    "a690 QCOM 8: 64 32 32, 32768 4, 32768 32768 0 1024, 1",
    "a730 QCOM 4: 64 32 32, 49152 4, 32768 32768 0 1024, 1",
    "x1-45 QCOM 3: 64 32 32, 49152 4, 32768 32768 0 1024, 1",
    "a740 QCOM 6: 64 32 32, 49152 4, 32768 32768 0 1024, 1",
    "x1-85 QCOM 6: 64 32 32, 49152 4, 32768 32768 0 1024, 1",
    "a750 QCOM 6: 64 32 32, 49152 4, 32768 32768 0 1024, 1",
    "x86-64-v2 CPU 8: 0 0 0, 0 0, 0 0 0 0, 0",
    "x86-64-v3 CPU 8: 0 0 0, 0 0, 0 0 0 0, 0",
    "x86-64-v4 CPU 8: 0 0 0, 0 0, 0 0 0 0, 0",
    "armv8-a CPU 8: 0 0 0, 0 0, 0 0 0 0, 0",
    "armv8.2-a CPU 8: 0 0 0, 0 0, 0 0 0 0, 0",
    "armv8.6-a CPU 8: 0 0 0, 0 0, 0 0 0 0, 0",
};

static const char *const chip_rows[] = {
    "a100 sm_80 NVIDIA A100-SXM4-80GB 20b2: "
    "108 1410, 85899345920 41943040 5120 2039, 19.5 9.7 311.9 156 0 19.5 623.7 "
    "78 39 19.5",
    "rtx3090 sm_86 NVIDIA GeForce RTX 3090 2204: "
    "82 1695, 25769803776 6291456 3116 936, 35.6 0.56 71 35.6 0 0 284 "
    "35.6 35.6 17.8",
    "rtx3060 sm_86 NVIDIA GeForce RTX 3060 2503: "
    "28 1777, 12884901888 3145728 1064 360, 12.7 0.2 25.5 12.7 0 0 101.9 "
    "12.7 12.7 6.4",
    "rtx4060 sm_89 NVIDIA GeForce RTX 4060 2882: "
    "24 2460, 8589934592 25165824 912 272, 15.1 0.24 30.2 15.1 0 0 120.9 "
    "15.1 15.1 7.6",
    "rtx4090 sm_89 NVIDIA GeForce RTX 4090 2684: "
    "128 2520, 25769803776 75497472 4864 1008, 82.6 1.3 165.2 82.6 0 0 660.6 "
    "82.6 82.6 41.3",
    "l40s sm_89 NVIDIA L40S 26b9: "
    "142 2520, 51539607552 100663296 5396 864, 91.6 1.4 362.1 183 0 0 733 "
    "91.6 91.6 45.8",
    "h100 sm_90 NVIDIA H100 80GB HBM3 2330: "
    "132 1980, 85520809984 52428800 5120 3352, 66.9 33.5 989.4 494.7 0 66.9 "
    "1978.9 "
    "133.8 133.8 33.5",
    "h200 sm_90 NVIDIA H200 2335: "
    "132 1980, 151397597184 62914560 5120 4800, 66.9 33.5 989.4 494.7 0 66.9 "
    "1978.9 "
    "133.8 133.8 33.5",
    "b200 sm_100 NVIDIA B200 2901: "
    "148 1965, 193273528320 132120576 5120 8000, 74.5 37.2 2250 1125 0 37.2 "
    "4500 "
    "148.9 148.9 37.2",
    "rtx5090 sm_120 NVIDIA GeForce RTX 5090 2b85: "
    "170 2407, 34359738368 100663296 6460 1792, 104.8 1.6 209.5 104.8 0 0 838 "
    "104.8 104.8 104.8",
    "mi50 gfx906 AMD Instinct MI50 66a1: "
    "60 1725, 34359738368 4194304 2280 1024, 13.3 6.6 0 0 0 0 0 26.5 0 0",
    "mi100 gfx908 AMD Instinct MI100 738c: "
    "120 1502, 34359738368 8388608 4560 1229, 23.1 11.5 184.6 0 46.1 0 184.6 "
    "46.1 0 0",
    "rx5700xt gfx1010 AMD Radeon RX 5700 XT 731f: "
    "40 1905, 8589934592 4194304 1520 448, 9.8 0.61 0 0 0 0 0 19.5 0 0",
    "mi210 gfx90a AMD Instinct MI210 740f: "
    "104 1700, 68719476736 8388608 4096 1638, 22.6 22.6 181 0 45.3 45.3 181 "
    "45.3 0 0",
    "mi300x gfx942 AMD Instinct MI300X 74a1: "
    "304 2100, 206158430208 33554432 16384 5325, 163.4 81.7 1307.4 653.7 163.4 "
    "163.4 "
    "2614.9 "
    "163.4 0 0",
    "mi300a gfx942 AMD Instinct MI300A 74a0: "
    "228 2100, 68719476736 25165824 12288 5300, 122.6 61.3 980.6 490.3 122.6 "
    "122.6 "
    "1961.2 "
    "122.6 0 0",
    "mi325x gfx942 AMD Instinct MI325X 74a5: "
    "304 2100, 274877906944 33554432 16384 6000, 163.4 81.7 1307.4 653.7 163.4 "
    "163.4 "
    "2614.9 "
    "163.4 0 0",
    "rx6900xt gfx1030 AMD Radeon RX 6900 XT 73bf: "
    "80 2250, 17179869184 4194304 3040 512, 23 1.4 0 0 0 0 0 "
    "46.1 0 0",
    "rx6700xt gfx1031 AMD Radeon RX 6700 XT 73df: "
    "40 2581, 12884901888 3145728 1520 384, 13.2 0.83 0 0 0 0 0 26.4 0 0",
    "rx6600 gfx1032 AMD Radeon RX 6600 73ff: "
    "28 2491, 8589934592 2097152 1064 224, 8.9 0.56 0 0 0 0 0 17.9 0 0",
    "rx7900xtx gfx1100 AMD Radeon RX 7900 XTX 744c: "
    "96 2500, 25769803776 6291456 3648 960, 61.4 1.9 122.8 0 0 0 122.8 "
    "122.8 0 0",
    "rx7800xt gfx1101 AMD Radeon RX 7800 XT 747e: "
    "60 2430, 17179869184 4194304 2280 624, 37.3 1.2 74.6 0 0 0 74.6 74.6 0 0",
    "rx7600 gfx1102 AMD Radeon RX 7600 7480: "
    "32 2655, 8589934592 2097152 1216 288, 21.7 0.68 43.5 0 0 0 43.5 43.5 0 0",
    "strixhalo gfx1151 AMD Radeon 8060S 1586: "
    "40 2900, 68719476736 2097152 1520 256, 29.7 0.93 59.4 0 0 0 59.4 59.4 0 "
    "0",
    "rx9060xt gfx1200 AMD Radeon RX 9060 XT 7590: "
    "32 3130, 17179869184 4194304 1216 320, 25.6 0.4 102.6 0 0 0 205.1 51.3 0 "
    "0",
    "rx9070xt gfx1201 AMD Radeon RX 9070 XT 7550: "
    "64 2970, 17179869184 8388608 2432 640, 48.7 0.76 194.6 0 0 0 389.2 "
    "97.3 0 0",
};

static void
test_figures(void **state)
{
    const struct chip *chip;
    char row[256];
    size_t i, k, n;

    (void)state;
    for (i = 0; i < ARRAY_LEN(arch_rows); i++) {
        const struct chip_arch *arch;

        snprintf(row, sizeof(row), "%.*s", (int)strcspn(arch_rows[i], " "),
                 arch_rows[i]);
        arch = chip_arch_find(row);
        assert_non_null(arch);
        snprintf(row, sizeof(row), "%s %s %u: %u %u %u, %u %u, %u %u %u %u, %u",
                 arch->name, arch->backend, arch->n_units, arch->warp_lanes,
                 arch->max_warps, arch->max_groups, arch->n_regs,
                 arch->reg_granule, arch->shared_bytes,
                 arch->group_shared_bytes, arch->shared_reserve_bytes,
                 arch->shared_granule, arch->n_issue);
        assert_string_equal(row, arch_rows[i]);
    }
    for (i = 0; i < ARRAY_LEN(chip_rows); i++) {
        chip = chip_at(i);
        assert_non_null(chip);
        n = (size_t)snprintf(row, sizeof(row),
                             "%s %s %s %x: %u %u, %llu %llu %u %g,", chip->name,
                             chip->arch, chip->board, chip->pci_device,
                             chip->n_units, chip->clock_mhz,
                             (unsigned long long)chip->memory_bytes,
                             (unsigned long long)chip->l2_bytes,
                             chip->l2_clk_bytes, chip->memory_gb_s);
        for (k = 0; k < CHIP_RATE_COUNT; k++)
            n += (size_t)snprintf(row + n, sizeof(row) - n, " %g",
                                  chip->rate[k]);
        assert_string_equal(row, chip_rows[i]);
    }
    assert_null(chip_at(i));
}

/* The drivers' tables: what a card's generation changes. */
static const struct {
    uint32_t version, compute_class;
    const char *row;
} nv_gen_rows[] = {
    {0x800, 0xc6c0, "0x800: sm_80 80, 163 KiB"},
    {0x802, 0xc6c0, "0x802: sm_80 80, 163 KiB"},
    {0x806, 0xc7c0, "0x806: sm_86 86, 99 KiB"},
    {0x807, 0xc7c0, "0x807: sm_87 86, 163 KiB"},
    {0x809, 0xc9c0, "0x809: sm_89 89, 99 KiB"},
    {0x900, 0xcbc0, "0x900: sm_90 90, 227 KiB"},
    {0xa00, 0xcdc0, "0xa00: sm_100 100, 227 KiB"},
    {0xa01, 0xcdc0, "0xa01: sm_101 100, 227 KiB"},
    {0xa03, 0xcdc0, "0xa03: sm_103 100, 227 KiB"},
    {0xa04, 0xcec0, "0xa04: sm_120 120, 99 KiB"},
    {0xc00, 0xcec0, "0xc00: sm_120 120, 99 KiB"},
    {0xc01, 0xcec0, "0xc01: sm_121 120, 99 KiB"},
#define N_KNOWN_NV 12u /* of those above; then the lowest of the class */
    {0x801, 0xc6c0, "0x802: sm_80 80, 163 KiB"},
    {0x808, 0xc7c0, "0x806: sm_86 86, 99 KiB"},
    {0xd07, 0xc9c0, "0x809: sm_89 89, 99 KiB"},
    {0x901, 0xcbc0, "0x900: sm_90 90, 227 KiB"},
    {0xa02, 0xcdc0, "0xa00: sm_100 100, 227 KiB"},
    {0xc02, 0xcec0, "0xa04: sm_120 120, 99 KiB"},
    /* known, with another class */
    {0x900, 0xcec0, "0xa04: sm_120 120, 99 KiB"},
};
static const char *const nv_class_rows[] = {
    "0 ca6f: 3 57 0010",
    "0 c96f: 2 57 1010",
    "0 c86f: 1 57 1000",
    "0 c56f: 0 40 1100",
    "1 cec0: 5 0 0000, 2 2 1f 0 a 100 010000: 380 360 370 2f0 2f8 37c "
    "2ac 16c 2d0 348",
    "1 cdc0: 4 0 0000, 2 2 1f 0 a 100 010000: 380 360 370 2f0 2f8 37c "
    "2ac 16c 2d0 348",
    "1 cbc0: 3 0 0000, 1 2 0 1 a 100 011111: 210 0 c 18 20 28 2c 114 "
    "10c 198",
    "1 c9c0: 2 0 0000, 0 0 3f 0 3 80 101100: 160 0 c 18 20 28 2c 114 10c 0",
    "1 c7c0: 1 0 0000, 0 0 3f 0 3 80 101100: 160 0 c 18 20 28 2c 114 10c 0",
    "1 c6c0: 0 0 0000, 0 0 3f 0 3 80 101100: 160 0 c 18 20 28 2c 114 10c 0",
    "2 cab5: 4 57 0000",
    "2 c9b5: 3 57 0000",
    "2 c8b5: 2 57 0000",
    "2 c7b5: 1 49 0000",
    "2 c6b5: 0 49 0000",
    "3 c761: 0 0 0001",
    "3 c661: 0 0 0001",
    "3 c561: 0 0 0000",
    "3 c461: 0 0 0000",
    "3 c361: 0 0 0000",
};
static const char *const amd_gen_rows[] = {
    "gfx906: bf800000 0 64 0, 0 ea4fac 0 1024 13 0, 00 2000000 0 0 0, 8 40 512 "
    "0, 28c40000 8400000 88000, 65536",
    "gfx1010: bf9f0000 1 32 2e28, 0 21e14fac 21c14fac 1024 13 0, 00 2000000 0 "
    "30000 1, 12 32 0 7000, c3f1 3f0 70f000, 65536",
    "gfx90a: bf800000 0 64 2e2d, 0 ea4fac 0 1024 13 0, 00 2000000 0 "
    "0 0, 8 40 512 0, 28c40000 8400000 88000, 65536",
    "gfx942: bf800000 0 64 2e2d, 1 0 0 1024 13 0, 10 0 1 0 0, "
    "8 40 512 0, 28c40000 8400000 88000, 65536",
    "gfx1030: bf9f0000 1 32 2e28, 0 21e14fac 21c14fac 1024 13 0, 00 "
    "2000000 0 30000 1, 12 32 0 7000, c3f1 3f0 70f000, 65536",
    "gfx1100: bf9f0000 2 32 2e28, 1 0 0 256 15 1, 01 7fe0 1 30000 "
    "1, 12 32 0 0, c3f1 3f0 70f000, 65536",
    "gfx1201: bf9f0000 3 32 2e28, 1 0 0 256 18 1, 00 7fe0 1 30000 "
    "1, 12 32 0 0, c3f1 3f0 70f000, 65536",
};

static void
test_nv_generations(void **state)
{
    static const uint32_t turing[] = {0xc361, 0xc46f, 0xc5b5, 0xc5c0};
    const struct nv_gen *gen;
    bool is_known;
    char row[512];
    uint32_t kind, number;
    const struct nv_class *c;
    size_t i, n = 0;

    (void)state;
    for (i = 0; i < ARRAY_LEN(nv_gen_rows); i++) {
        gen = nv_gen_find(nv_gen_rows[i].version, nv_gen_rows[i].compute_class,
                          &is_known);
        assert_int_equal(is_known, i < N_KNOWN_NV);
        snprintf(row, sizeof(row), "0x%x: sm_%u %u, %u KiB", gen->sm_version,
                 gen->sm, gen->code_sm, gen->max_shared_kib);
        assert_string_equal(row, nv_gen_rows[i].row);
        /* that code is made for, and runs */
        snprintf(row, sizeof(row), "sm_%u", gen->code_sm);
        assert_non_null(chip_arch_find(row));
        assert_true(nv_gen_runs(gen->code_sm, gen->sm));
    }
    assert_non_null(
        strstr(nv_gen_too_old(turing, ARRAY_LEN(turing)), "sm_75 (RTX 20"));
    assert_null(nv_gen_too_old(turing, 3));
    for (kind = 0; kind < NV_CLASS_KIND_COUNT; kind++) {
        for (number = 0x10000; number-- > 1;) {
            c = nv_class_best((enum nv_class_kind)kind, &number, 1);
            if (!c)
                continue;
            assert_int_equal(c->number, number);
            snprintf(row, sizeof(row), "%u %x: %u %u %u%u%u%u", kind, number,
                     c->gen, c->va_bits, c->has_mem_op, c->polls_bits,
                     c->unproven, c->has_bar1);
            if (c->launch) {
                const struct nv_launch *l = c->launch;
                size_t used = strlen(row);

                snprintf(row + used, sizeof(row) - used,
                         ", %u %u %x %u %x %x %u%u%u%u%u%u: %x %x %x %x %x %x "
                         "%x %x %x %x",
                         l->gen, l->qmd_type, l->group, l->bank0_prefetch,
                         l->action, l->shared_align, l->caches_global,
                         l->reserve_in_static, l->has_sass_version,
                         l->has_textures, l->releases, l->chases, l->bank_bytes,
                         l->ntid, l->nctaid, l->shared_window, l->local_window,
                         l->stack, l->dynamic_shared, l->total_shared, l->n_sm,
                         l->param_address);
            }
            assert_true(n < ARRAY_LEN(nv_class_rows));
            assert_string_equal(row, nv_class_rows[n]);
            n++;
        }
    }
    assert_int_equal(n, ARRAY_LEN(nv_class_rows));
    assert_true(nv_gen_runs(80, 89) && nv_gen_runs(86, 86));
    assert_false(nv_gen_runs(89, 86) || nv_gen_runs(89, 90));
    assert_false(nv_gen_runs(90, 100) || nv_gen_runs(100, 90));
}

/* AMD's chips: version, machine and vector registers' bytes as LLVM 19's
 * assembler (-mcpu=NAME) and Linux (kfd_queue.c, kfd_get_vgpr_size_per_cu) have
 * them. */
static const struct {
    const char *name, *family;
    uint32_t version, machine, vgpr_bytes;
    bool is_apu;
} amd_chips[] = {
    {"gfx906", "gfx906", 90006, 0x2f, 0x40000, false},
    {"gfx908", "gfx906", 90008, 0x30, 0x80000, false},
    {"gfx90a", "gfx90a", 90010, 0x3f, 0x80000, false},
    {"gfx942", "gfx942", 90402, 0x4c, 0x80000, false},
    {"gfx1010", "gfx1010", 100100, 0x33, 0x40000, false},
    {"gfx1011", "gfx1010", 100101, 0x34, 0x40000, false},
    {"gfx1012", "gfx1010", 100102, 0x35, 0x40000, false},
    {"gfx1030", "gfx1030", 100300, 0x36, 0x40000, false},
    {"gfx1031", "gfx1030", 100301, 0x37, 0x40000, false},
    {"gfx1032", "gfx1030", 100302, 0x38, 0x40000, false},
    {"gfx1033", "gfx1030", 100303, 0x39, 0x40000, true},
    {"gfx1034", "gfx1030", 100304, 0x3e, 0x40000, false},
    {"gfx1035", "gfx1030", 100305, 0x3d, 0x40000, true},
    {"gfx1036", "gfx1030", 100306, 0x45, 0x40000, true},
    {"gfx1100", "gfx1100", 110000, 0x41, 0x60000, false},
    {"gfx1101", "gfx1100", 110001, 0x46, 0x60000, false},
    {"gfx1102", "gfx1100", 110002, 0x47, 0x40000, false},
    {"gfx1103", "gfx1100", 110003, 0x44, 0x40000, true},
    {"gfx1150", "gfx1100", 110500, 0x43, 0x40000, true},
    {"gfx1151", "gfx1100", 110501, 0x4a, 0x60000, true},
    {"gfx1152", "gfx1100", 110502, 0x55, 0x40000, true},
    {"gfx1200", "gfx1201", 120000, 0x48, 0x60000, false},
    {"gfx1201", "gfx1201", 120001, 0x4e, 0x60000, false},
};

static void
test_amd_chips(void **state)
{
    const struct chip_arch *chip;
    char known[512];
    size_t i, k, n = 0;

    (void)state;
    for (i = 0; i < ARRAY_LEN(amd_chips); i++) {
        chip = chip_arch_find(amd_chips[i].name);
        assert_non_null(chip);
        assert_string_equal(chip->amd.family, amd_chips[i].family);
        assert_ptr_equal(chip_amd_find(amd_chips[i].version), chip);
        assert_int_equal(chip_amd_version(chip), amd_chips[i].version);
        assert_ptr_equal(chip_amd_of_machine(amd_chips[i].machine), chip);
        assert_int_equal((chip->n_regs + chip->amd.n_acc_regs) * 4,
                         amd_chips[i].vgpr_bytes);
        assert_int_equal(chip->amd.is_apu, amd_chips[i].is_apu);
        assert_null(chip_why_refused(chip->name));
        /* arrays of equal units, in whole engines */
        assert_true(chip->amd.n_arrays && chip->amd.arrays_per_engine);
        assert_int_equal(chip->amd.n_arrays % chip->amd.arrays_per_engine, 0);
        assert_int_equal(chip->n_units %
                             (chip->amd.n_arrays < 4 ? chip->amd.n_arrays : 4),
                         0);
        assert_true(chip->amd.max_units >= chip->n_units);
        assert_true(chip->amd.n_sdma && chip->amd.n_sdma_queues >= 2);
        assert_true(chip->amd.gc_version / 10000 ==
                    amd_chips[i].version / 10000);
        assert_true(chip->amd.sdma_version && chip->amd.nbif_version);
        assert_true(chip->amd.l2_kib && chip->amd.pci_device);
        assert_non_null(amd_gen_find(amd_chips[i].version));
        for (k = 0; k < i; k++)
            assert_int_not_equal(amd_chips[k].machine, amd_chips[i].machine);
    }
    /* the line of names has these alone */
    chip_arch_list("AMD", known, sizeof(known));
    for (i = 0; i < ARRAY_LEN(amd_chips); i++)
        n += strlen(amd_chips[i].name) + (i ? 2 : 0);
    assert_int_equal(strlen(known), n);
    assert_null(chip_amd_find(90011));
    assert_null(chip_amd_find(0));
    assert_null(chip_amd_of_machine(0x40));
    assert_non_null(strstr(chip_why_refused("gfx950"), "LLVM 20"));
    assert_null(amd_gen_find(90500));
}

static void
test_amd_generations(void **state)
{
    static const uint32_t versions[] = {90006,  100100, 90010, 90402,
                                        100300, 110000, 120001};
    char row[512];
    size_t i;

    (void)state;
    for (i = 0; i < ARRAY_LEN(versions); i++) {
        const struct amd_gen *g = amd_gen_find(versions[i]);

        assert_non_null(g);
        snprintf(row, sizeof(row),
                 "%s: %x %u %u %x, %u %x %x %u %u %u, %u%u %x %u %x %u, "
                 "%u %u %u %x, %x %x %x, %u",
                 g->family, g->code_filler, g->dialect, g->wave_lanes,
                 g->rsrc3_reg, g->architected_scratch, g->srd_word3[0],
                 g->srd_word3[1], g->scratch_unit_bytes, g->scratch_size_bits,
                 g->scratch_waves_per_engine, g->uses_aql, g->sets_priv,
                 g->dma_max_bytes, g->move != NULL, g->sdma_fence_flags,
                 g->has_gcr, g->save_bytes_per_wave, g->waves_per_cu,
                 g->waves_per_array, g->max_stack_bytes, g->acquire_full,
                 g->acquire_launch, g->release_flags, g->max_lds_bytes);
        assert_string_equal(row, amd_gen_rows[i]);
    }
    assert_null(amd_gen_find(90011));
}

static void
assert_near(double value, double expected)
{
    assert_true(value >= expected * (1 - 1e-9));
    assert_true(value <= expected * (1 + 1e-9));
}

/* Each term alone, of figures that are round, and which one is the limit. */
static void
check_time(const struct chip_work *work, enum chip_term limit, double us)
{
    struct chip chip = {.arch = "gfx1100",
                        .n_units = 10,
                        .clock_mhz = 1000,
                        .memory_gb_s = 500,
                        .l2_clk_bytes = 2000,
                        .rate = {[CHIP_F32] = 4, [CHIP_MATRIX_F16] = 80}};
    struct chip_time t = chip_time(&chip, work);
    int i;

    assert_int_equal(t.limit, limit);
    assert_near(t.us, us);
    for (i = 0; i < CHIP_TERM_COUNT; i++)
        assert_near(t.term_us[i], i == (int)limit ? us : 0);
}

static void
test_time(void **state)
{
    struct chip_work many = {.n_groups = 1, .flops = 4e6, .memory_bytes = 5e8};
    struct chip_time t;

    (void)state;
    check_time(&(struct chip_work){.memory_bytes = 1e6}, CHIP_TERM_MEMORY, 2);
    check_time(&(struct chip_work){.sector_bytes = 6e6}, CHIP_TERM_L2, 3);
    /* ten units of two instructions a clock each */
    check_time(&(struct chip_work){.n_insns = 1e5}, CHIP_TERM_ISSUE, 5);
    check_time(&(struct chip_work){.n_wavefronts = 7e4}, CHIP_TERM_SHARED, 7);
    check_time(&(struct chip_work){.flops = 44e6}, CHIP_TERM_VECTOR, 11);
    check_time(
        &(struct chip_work){
            .matrix_flops = {[CHIP_MATRIX_F16] = 8e8, [CHIP_MATRIX_8] = 4e6}},
        CHIP_TERM_MATRIX, 11); /* without units for it: as vectors */
    /* the groups of the unit that has most */
    check_time(&(struct chip_work){.n_groups = 1, .flops = 4e6},
               CHIP_TERM_VECTOR, 10);
    check_time(&(struct chip_work){.n_groups = 10, .n_wavefronts = 1e4},
               CHIP_TERM_SHARED, 1);
    check_time(&(struct chip_work){.n_groups = 11, .n_insns = 11000},
               CHIP_TERM_ISSUE, 1);
    check_time(&(struct chip_work){.n_groups = 11,
                                   .matrix_flops = {[CHIP_F32] = 44e6}},
               CHIP_TERM_MATRIX, 20);
    t = chip_time(chip_find("h100"), &many);
    assert_int_equal(t.limit, CHIP_TERM_MEMORY);
    assert_true(t.us > t.term_us[CHIP_TERM_VECTOR] &&
                t.term_us[CHIP_TERM_VECTOR] > 0);
    t = chip_time(chip_find("h100"), &(struct chip_work){0});
    assert_true(t.us == 0 && t.limit == CHIP_TERM_MEMORY);
    assert_string_equal(chip_term_names[CHIP_TERM_MATRIX], "matrices");
    assert_string_equal(chip_term_names[CHIP_TERM_SHARED], "shared memory");
}

static void
test_list(void **state)
{
    char text[256], whole[512];
    size_t n;

    (void)state;
    chip_list("CPU", whole, sizeof(whole));
    assert_string_equal(whole, "x86-64-v2, x86-64-v3, x86-64-v4, "
                               "armv8-a, armv8.2-a, armv8.6-a");
    for (n = 1; n < 40; n++) { /* as much as there is room for */
        memset(text, 'x', sizeof(text));
        chip_list("CPU", text, n);
        assert_true(strlen(text) < n);
        assert_memory_equal(text, whole, strlen(text));
        assert_true(strlen(text) + 1 == n || strcmp(text, whole) == 0);
        assert_true(text[n] == 'x');
    }
    chip_arch_list("AMD", text, sizeof(text));
    assert_string_equal(text,
                        "gfx906, gfx908, gfx90a, gfx942, gfx1010, gfx1011, "
                        "gfx1012, gfx1030, gfx1031, gfx1032, gfx1033, gfx1034, "
                        "gfx1035, gfx1036, gfx1100, gfx1101, gfx1102, gfx1103, "
                        "gfx1150, gfx1151, gfx1152, gfx1200, gfx1201");
    n = strlen(text);
    chip_list("AMD", whole, sizeof(whole));
    assert_memory_equal(text, whole, n);
    assert_memory_equal(whole + n, ", mi50, mi100, ", 15);
    chip_list("NV", text, 20);
    assert_string_equal(text, "sm_80, sm_86, sm_89");
    chip_list("none", text, sizeof(text));
    assert_string_equal(text, "");
}

/* ---- devices ---- */

static void
get_info(const char *name, struct hcq_device_info *out_info)
{
    struct hcq_device *dev;

    memset(out_info, 0, sizeof(*out_info));
    out_info->struct_size = sizeof(*out_info);
    assert_int_equal(hcq_device_open(name, &dev), BELL_OK);
    hcq_device_info(dev, out_info);
    assert_string_equal(out_info->name, hcq_device_name(dev));
    hcq_device_close(dev);
}

static void
compare(const char *backend, const char *chip)
{
    struct hcq_device_info sim, null;
    char name[64];
    int i;

    snprintf(name, sizeof(name), "%s@sim:%s", backend, chip);
    get_info(name, &sim);
    snprintf(name, sizeof(name), "%s@null:%s", backend, chip);
    get_info(name, &null);
    assert_string_equal(sim.arch, null.arch);
    assert_string_equal(sim.backend, null.backend);
    assert_int_equal(sim.n_units, null.n_units);
    for (i = 0; i < 3; i++) {
        assert_int_equal(sim.max_grid[i], null.max_grid[i]);
        assert_int_equal(sim.max_local[i], null.max_local[i]);
    }
    assert_int_equal(sim.max_local_total, null.max_local_total);
    assert_int_equal(sim.max_shared_bytes, null.max_shared_bytes);
    assert_int_equal(sim.max_args, null.max_args);
    assert_true(null.flags & HCQ_DEVICE_NULL);
    assert_false(sim.flags & HCQ_DEVICE_NULL);
    if (strcmp(chip, "h100") != 0) { /* which is as the card was recorded */
        assert_int_equal(sim.memory_bytes, null.memory_bytes);
    }
}

/* Code for a null device is the code for the simulated one. */
static void
test_null_is_as_sim(void **state)
{
    static const char *const backends[] = {"NV", "AMD"};
    char chips[640], *chip, *rest;
    size_t i;

    (void)state;
    for (i = 0; i < ARRAY_LEN(backends); i++) {
        chip_list(backends[i], chips, sizeof(chips));
        assert_true(strlen(chips) + 1 < sizeof(chips));
        for (chip = strtok_r(chips, ", ", &rest); chip;
             chip = strtok_r(NULL, ", ", &rest))
            compare(backends[i], chip);
    }
}

/* All that devices say which run nothing, also those that no card is
 * simulated of. */
static void
test_null_info(void **state)
{
    static const char *const rows[] = {
        "QCOM:0@null:a740 QCOM a740 a740, compiled for, not run: "
        "6, 65535 65535 65535, 1024 1024 1024 1024, 32768 8589934592, "
        "1000000000",
        "CPU:0@null:x86-64-v3 CPU x86-64-v3 x86-64-v3, compiled for, not run: "
        "8, 2147483647 65535 65535, 1 1 1 1, 0 8589934592, 1000000000",
        "NV:0@null:a100 NV sm_80 NVIDIA A100-SXM4-80GB, compiled for, not "
        "run: 108, 2147483647 65535 65535, 1024 1024 64 1024, 166912 "
        "85899345920, 1000000000",
        "AMD:0@null:gfx1100 AMD gfx1100 gfx1100, compiled for, not run: "
        "8, 4194303 65535 65535, 1024 1024 1024 1024, 65536 8589934592, "
        "1000000000",
    };
    struct hcq_device_info info;
    char name[64], row[256];
    size_t i;

    (void)state;
    for (i = 0; i < ARRAY_LEN(rows); i++) {
        snprintf(name, sizeof(name), "%.*s", (int)strcspn(rows[i], " "),
                 rows[i]);
        get_info(name, &info);
        snprintf(row, sizeof(row),
                 "%s %s %s %s: %u, %u %u %u, %u %u %u %u, %u %llu, %llu",
                 info.name, info.backend, info.arch, info.model, info.n_units,
                 info.max_grid[0], info.max_grid[1], info.max_grid[2],
                 info.max_local[0], info.max_local[1], info.max_local[2],
                 info.max_local_total, info.max_shared_bytes,
                 (unsigned long long)info.memory_bytes,
                 (unsigned long long)info.timestamp_hz);
        assert_string_equal(row, rows[i]);
        assert_int_equal(info.flags, HCQ_DEVICE_SIMULATED | HCQ_DEVICE_NULL);
        assert_true(info.max_buffer_bytes == info.memory_bytes);
    }
}

static void
expect_none(const char *name, const char *word)
{
    struct hcq_device *dev = NULL;

    assert_int_equal(hcq_device_open(name, &dev), BELL_E_NO_DEVICE);
    assert_null(dev);
    assert_non_null(strstr(bell_error_last()->message, word));
}

static void
test_bad_names(void **state)
{
    (void)state;
    expect_none("NV@null:h101", "sm_120, a100");
    expect_none("NV@null:mi300x", "rtx5090");
    expect_none("AMD@null:", "rx9070xt");
    expect_none("CPU@null:h100", "x86-64-v4");
    expect_none("NV:1@null:h100", "there is NV:0");
    expect_none("NV@sim:h101", "rtx5090");
    expect_none("NV@sim:mi300x", "rtx5090");
    expect_none("NV@sim:sm_75", "rtx5090");
    expect_none("AMD@sim:h100", "mi300x");
    expect_none("NV@nul:h100", "null");
}

/* Commands complete, and nothing is there to be read. */
static void
test_null_runs_nothing(void **state)
{
    struct hcq_program_desc desc = {.struct_size = sizeof(desc),
                                    .name = "k",
                                    .binary = "x",
                                    .binary_size_bytes = 1,
                                    .n_bufs = 1,
                                    .local = {32, 1, 1}};
    const uint32_t grid[3] = {4, 1, 1}, local[3] = {32, 1, 1};
    struct hcq_device *dev;
    struct hcq_queue *queue;
    struct hcq_buffer *buf, *other;
    struct hcq_program *prog;
    struct hcq_signal *sig;
    struct hcq_stream *stream;
    struct hcq_cs *cs;
    uint64_t value, live, cached, word = 7;
    int i;

    (void)state;
    assert_int_equal(hcq_device_open("NV@null:h100", &dev), BELL_OK);
    assert_int_equal(hcq_queue_create(dev, HCQ_QUEUE_COMPUTE, &queue), BELL_OK);
    assert_int_equal(hcq_signal_create(dev, 3, &sig), BELL_OK);
    assert_int_equal(hcq_buffer_create(dev, 100, 0, &buf), BELL_OK);
    assert_null(buf->host);
    assert_int_equal(hcq_buffer_create(dev, 8, HCQ_MEM_HOST_VISIBLE, &other),
                     BELL_E_UNSUPPORTED);
    assert_int_equal(hcq_buffer_create(dev, (uint64_t)200 << 30, 0, &other),
                     BELL_E_NO_MEMORY);
    assert_int_equal(hcq_buffer_create(dev, (uint64_t)60 << 30, 0, &other),
                     BELL_OK);
    assert_true(other->va >= buf->va + 100 || other->va + 100 <= buf->va);
    assert_true(buf->va >= 4096 && buf->va % 64 == 0);
    hcq_buffer_destroy(other);
    assert_int_equal(hcq_buffer_create_pinned(dev, &word, 8, &other), BELL_OK);
    assert_true(other->va == (uintptr_t)&word && other->host == &word);
    hcq_buffer_destroy(other);
    hcq_memory_trim(dev);
    hcq_memory_usage(dev, &live, &cached);
    assert_int_equal(cached, 0);
    assert_int_equal(hcq_buffer_create(dev, (uint64_t)60 << 30, 0, &other),
                     BELL_OK);
    hcq_buffer_destroy(other);
    hcq_memory_trim(dev);
    assert_int_equal(hcq_program_create(dev, &desc, &prog), BELL_OK);
    for (i = 1; i <= 2; i++) {
        uint64_t before_ns = time_now_ns();

        assert_int_equal(hcq_queue_begin(queue, &cs), BELL_OK);
        hcq_cs_exec(cs, prog, &buf->va, 1, grid, local);
        hcq_cs_timestamp(cs, sig);
        hcq_cs_signal(cs, sig, 10u + (unsigned)i);
        assert_int_equal(hcq_cs_submit(cs, &value), BELL_OK);
        assert_int_equal(value, i);
        assert_int_equal(hcq_queue_wait(queue, HCQ_TIMEOUT_NS), BELL_OK);
        assert_int_equal(hcq_signal_value(sig), 10 + i);
        assert_true(hcq_signal_timestamp(sig) >= before_ns &&
                    hcq_signal_timestamp(sig) <= time_now_ns());
    }
    assert_int_equal(hcq_stream_create(queue, "s", &stream), BELL_OK);
    cs = hcq_stream_cs(stream);
    hcq_cs_exec(cs, prog, &buf->va, 1, grid, local);
    hcq_cs_signal(cs, sig, 20);
    assert_int_equal(hcq_stream_end(stream), BELL_OK);
    assert_int_equal(hcq_stream_submit(stream, &value), BELL_OK);
    assert_int_equal(hcq_queue_wait(queue, HCQ_TIMEOUT_NS), BELL_OK);
    assert_int_equal(hcq_signal_value(sig), 20);
    /* a wait that nothing will end times out */
    assert_int_equal(hcq_signal_wait(sig, 99, 1000000), BELL_E_TIMEOUT);
    assert_int_equal(hcq_buffer_write(buf, 0, &word, sizeof(word)), BELL_OK);
    assert_int_equal(hcq_buffer_read(buf, 0, &word, sizeof(word)),
                     BELL_E_UNSUPPORTED);
    assert_non_null(strstr(bell_error_last()->message, "runs none"));
    assert_int_equal(word, 7);
    assert_int_equal(hcq_device_recover(dev), BELL_OK);
    hcq_stream_destroy(stream);
    hcq_queue_destroy(queue);
    hcq_program_destroy(prog);
    hcq_signal_destroy(sig);
    hcq_buffer_destroy(buf);
    hcq_device_close(dev);
}

/* What a null device refuses, and what it still takes. */
static void
test_null_limits(void **state)
{
    struct hcq_queue_desc desc = {.struct_size = sizeof(desc),
                                  .kind = HCQ_QUEUE_COMPUTE};
    struct hcq_device_info info = {.struct_size = sizeof(info)};
    struct hcq_device *dev, *cpu;
    struct hcq_buffer *buf, *most, *last;
    struct hcq_queue *queue;
    struct hcq_signal *sig, *own;
    struct hcq_cs *cs;
    uint64_t live, cached;
    void *page = aligned_alloc(4096, 8192);

    (void)state;
    assert_int_equal(hcq_device_open("AMD@null:gfx1100", &dev), BELL_OK);
    assert_int_equal(hcq_device_open("CPU", &cpu), BELL_OK);
    hcq_device_info(dev, &info);
    /* all of its memory, and not a page more */
    assert_int_equal(hcq_buffer_create(dev, info.memory_bytes / 2, 0, &buf),
                     BELL_OK);
    assert_int_equal(hcq_buffer_create(dev, info.memory_bytes / 2, 0, &most),
                     BELL_OK);
    hcq_memory_usage(dev, &live, &cached);
    assert_int_equal(live, info.memory_bytes);
    assert_int_equal(hcq_buffer_create(dev, 1, 0, &last), BELL_E_NO_MEMORY);
    hcq_buffer_destroy(most);
    hcq_memory_trim(dev);
    assert_int_equal(hcq_buffer_create(dev, 1, 0, &last), BELL_OK);
    assert_int_equal(hcq_buffer_create(dev, info.memory_bytes / 2, 0, &most),
                     BELL_E_NO_MEMORY);
    hcq_buffer_destroy(last);
    hcq_buffer_destroy(buf);
    /* memory of ours stays where it is */
    assert_int_equal(hcq_buffer_create_pinned(dev, page, 8192, &buf), BELL_OK);
    assert_int_equal(buf->va, (uintptr_t)page);
    assert_ptr_equal(buf->host, page);
    hcq_buffer_destroy(buf);
    /* queues */
    desc.ring_size_bytes = 1u << 31;
    assert_int_equal(hcq_queue_create_with(dev, &desc, &queue), BELL_E_INVALID);
    assert_non_null(strstr(bell_error_last()->message, "to 1073741824 are"));
    /* signals of its own alone */
    assert_int_equal(hcq_queue_create(dev, HCQ_QUEUE_COMPUTE, &queue), BELL_OK);
    assert_int_equal(hcq_signal_create(cpu, 0, &sig), BELL_OK);
    assert_int_equal(hcq_signal_create(dev, 5, &own), BELL_OK);
    assert_int_equal(hcq_queue_begin(queue, &cs), BELL_OK);
    hcq_cs_wait(cs, own, 5);
    hcq_cs_signal(cs, sig, 7);
    assert_int_equal(hcq_cs_submit(cs, &live), BELL_E_UNSUPPORTED);
    assert_non_null(
        strstr(bell_error_last()->message, "cannot use a signal of CPU"));
    hcq_signal_destroy(sig);
    hcq_signal_destroy(own);
    hcq_queue_destroy(queue);
    hcq_device_close(cpu);
    hcq_device_close(dev);
    free(page);
}

static bell_status
null_work(void)
{
    struct hcq_program_desc desc = {.struct_size = sizeof(desc),
                                    .name = "k",
                                    .binary = "xyz",
                                    .binary_size_bytes = 3,
                                    .local = {1, 1, 1}};
    struct hcq_program *prog = NULL;
    struct hcq_queue *queue = NULL;
    struct hcq_signal *sig = NULL;
    struct hcq_device *dev;
    bell_status status;

    BELL_TRY(hcq_device_open("CPU@null:x86-64-v3", &dev));
    status = hcq_queue_create(dev, HCQ_QUEUE_COPY, &queue);
    if (status == BELL_OK)
        status = hcq_signal_create(dev, 1, &sig);
    if (status == BELL_OK)
        status = hcq_program_create(dev, &desc, &prog);
    if (status == BELL_OK)
        assert_int_equal(prog->code_size_bytes, 3);
    hcq_program_destroy(prog);
    hcq_signal_destroy(sig);
    hcq_queue_destroy(queue);
    hcq_device_close(dev);
    return status;
}

/* Every allocation failing in turn: told, and nothing is left. */
static void
test_null_no_memory(void **state)
{
    bell_status status;
    uint64_t nth;

    (void)state;
    for (nth = 1, status = BELL_E_NO_MEMORY; status != BELL_OK; nth++) {
        host_fail_after(nth, 0);
        status = null_work();
        host_fail_after(0, 0);
        if (status != BELL_OK)
            assert_int_equal(status, BELL_E_NO_MEMORY);
    }
    assert_true(nth > 6);
}

/* The host's processor as the kernel has it. */
static void
test_cpu_model(void **state)
{
    FILE *file = fopen("/proc/cpuinfo", "r");
    struct hcq_device_info info;
    char line[4096];

    (void)state;
    get_info("CPU", &info);
    while (file && fgets(line, sizeof(line), file)) {
        line[strcspn(line, "\n")] = '\0';
        if (strncmp(line, "model name\t: ", 13) == 0) {
            assert_memory_equal(line + 13, info.model, strlen(info.model));
            assert_true(strlen(info.model) == strlen(line + 13) ||
                        strlen(info.model) == sizeof(info.model) - 1);
        }
        if (strncmp(line, "flags", 5) == 0)
            assert_int_equal(
                strcmp(info.arch, "x86-64-v4") == 0,
                strstr(line, " avx512f ") && strstr(line, " avx512bw ") &&
                    strstr(line, " avx512dq ") && strstr(line, " avx512vl ") &&
                    strstr(line, " avx2 "));
    }
    if (file)
        fclose(file);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_table),
        cmocka_unit_test(test_of_device),
        cmocka_unit_test(test_occupancy),
        cmocka_unit_test(test_figures),
        cmocka_unit_test(test_nv_generations),
        cmocka_unit_test(test_amd_chips),
        cmocka_unit_test(test_amd_generations),
        cmocka_unit_test(test_time),
        cmocka_unit_test(test_list),
        cmocka_unit_test(test_null_info),
        cmocka_unit_test(test_null_is_as_sim),
        cmocka_unit_test(test_bad_names),
        cmocka_unit_test(test_null_runs_nothing),
        cmocka_unit_test(test_null_limits),
        cmocka_unit_test(test_null_no_memory),
        cmocka_unit_test(test_cpu_model),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
