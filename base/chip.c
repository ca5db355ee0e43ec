/* One row is all that a chip needs: drivers, renderers, simulated cards and
 * tools have tables by family only.
 *
 * src: of sm_NN: CUDA C++ Programming Guide, "Technical Specifications per
 * Compute Capability", and docs/hardware/nvidia-code.md, "Limits of a
 * multiprocessor" (registers, warps, groups); of gfxNNN: LLVM, "User Guide for
 * AMDGPU Backend" (granules), the ISA guides of Vega 7nm, CDNA 1 to 3 and RDNA
 * 1 to 4 (registers, waves, LDS).
 *
 * Rates per clock: lead. Machines: observed: LLVM 19's assembler. Registers of
 * RDNA's units: Linux, kfd_queue.c (kfd_get_vgpr_size_per_cu; gfx1151's since
 * December 2025). Versions of gfxNNN's parts: Linux, amdgpu_discovery.c and
 * kfd_device.c, L2: kfd_crat.c; lead: of RDNA's, which version of the copy
 * engine and bus interface goes with which chip, engines' numbers, and the
 * arrangement of units. PCI numbers: pci.ids.
 *
 * Products, src: NVIDIA's white papers on A100, H100 (table "comparison of A100
 * and H100"; matrix rates are at 1830 MHz, others at 1980), Ada (appendix A)
 * and RTX Blackwell (appendix A), data sheets of H200 and L40S; AMD's data
 * sheets of MI210, MI300A, MI300X and MI325X, product pages of RX 6900 XT, RX
 * 7900 XTX and RX 9070 XT; NVIDIA's white paper on GA102 (RTX 3090).
 *
 * lead: RTX 3060 and 4060, MI50, MI100, RX 5700 XT, 6600, 6700 XT, 7600, 7800
 * XT, 9060 XT and Ryzen AI Max+ 395 (strixhalo), which were not looked up;
 * pci.ids of Debian 12 has the PCI numbers of RTX 3060, MI50, MI100, RX 5700
 * XT, 6600, 6700 XT and 7600.
 *
 * h100's units, memory, L2: observed: H100 SXM5 80 GB, 2026-11-22. h200's L2:
 * observed: H200, 2026-10-28, as the vendor's runtime has it. lead: what of the
 * others no card of ours has told, which is everything; guess: L2 of B200 and
 * sm_100's rates, L40S's float16, bfloat16 and int32 as Ada's others have them,
 * CDNA's float16 as its pairs of float32.
 *
 * Adreno, src: Mesa 25.0, freedreno_devices.py (docs/hardware/adreno.md,
 * "Chips", "Static registers"): SPs, four registers of a pair of waves, local
 * memory, static registers; X1-85 has 256 constants. guess: that X1-45 has as
 * few; of simulated cards, clocks, memory of tiles and whether memory is
 * coherent, which differs between boards: one of each kind is here. Rates are
 * not known.
 *
 * Bytes of L2 a clock, src: A100's white paper (guess: H100, H200, B200 have
 * as much; 5.5 to 7.4 TB/s are measured of an H100's 10), CDNA 2's and 3's
 * white papers (128 a channel of 16 or 32 in each die).
 */
#include "base/chip.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/bits.h"

#define KIB 1024u
#define MIB (1024ull * 1024)
#define GIB (1024ull * MIB)

/* clang-format off */
#define NV_UNIT .backend = "NV", .n_units = 8, .warp_lanes = 32,               \
    .n_regs = 65536, .reg_granule = 8, .shared_reserve_bytes = 1024,           \
    .shared_granule = 128, .n_issue = 4
#define AMD_UNIT .backend = "AMD", .shared_bytes = 64 * KIB,                   \
    .group_shared_bytes = 64 * KIB, .shared_granule = 512
/* Four SIMDs of 512 registers of 64 lanes, which take four clocks for an
 * instruction. */
#define CDNA_UNIT AMD_UNIT, .warp_lanes = 64, .max_warps = 32,                 \
    .max_groups = 16, .n_regs = 4 * 512 * 64, .reg_granule = 8, .n_issue = 1
#define GCN_UNIT AMD_UNIT, .n_units = 8, .warp_lanes = 64, .max_warps = 40,    \
    .max_groups = 16, .n_regs = 4 * 256 * 64, .reg_granule = 4, .n_issue = 1
#define RDNA_UNIT AMD_UNIT, .warp_lanes = 32, .max_warps = 32,                 \
    .max_groups = 16, .n_issue = 2
#define RDNA1_UNIT AMD_UNIT, .n_units = 8, .warp_lanes = 32, .max_warps = 40,  \
    .max_groups = 16, .n_issue = 2, .n_regs = 2 * 1024 * 32, .reg_granule = 8
/* Two SIMDs of 1024 or 1536 registers of 32 lanes, given out by so many. */
#define RDNA2_UNIT RDNA_UNIT, .n_regs = 2 * 1024 * 32, .reg_granule = 16
#define RDNA3_LARGE_UNIT RDNA_UNIT, .n_regs = 2 * 1536 * 32, .reg_granule = 24

/* Machine, units of the largest card and their arrangement, copy engines,
 * versions of graphics core, copy engine and bus interface, PCI number, L2. */
#define AMD_CHIP(of, mach, units, arrays, per_engine, engines, queues, gc,     \
                 sdma, nbif, pci, l2)                                          \
    .family = (of), .machine = (mach), .max_units = (units),  \
    .n_arrays = (arrays), .arrays_per_engine = (per_engine),                   \
    .n_sdma = (engines), .n_sdma_queues = (queues), .gc_version = (gc),        \
    .sdma_version = (sdma), .nbif_version = (nbif), .pci_device = (pci),       \
    .l2_kib = (l2)

/* guess: an instruction a clock */
#define ADRENO_UNIT(vec4) .backend = "QCOM", .warp_lanes = 64,                 \
    .max_warps = 32, .max_groups = 32, .n_regs = (vec4) * 4 * 128,             \
    .reg_granule = 4, .shared_bytes = 32 * KIB,                                \
    .group_shared_bytes = 32 * KIB, .shared_granule = 1024, .n_issue = 1

/* Ids name core, major and minor up to a730, and mean nothing from then on. */
#define REVISIONS 0xffffff00u

static const struct chip_arch archs[] = {
    {.name = "sm_80", NV_UNIT, .max_warps = 64, .max_groups = 32,
     .shared_bytes = 164 * KIB, .group_shared_bytes = 163 * KIB},
    {.name = "sm_86", NV_UNIT, .max_warps = 48, .max_groups = 16,
     .shared_bytes = 100 * KIB, .group_shared_bytes = 99 * KIB},
    {.name = "sm_89", NV_UNIT, .max_warps = 48, .max_groups = 24,
     .shared_bytes = 100 * KIB, .group_shared_bytes = 99 * KIB},
    {.name = "sm_90", NV_UNIT, .max_warps = 64, .max_groups = 32,
     .shared_bytes = 228 * KIB, .group_shared_bytes = 227 * KIB},
    {.name = "sm_100", NV_UNIT, .max_warps = 64, .max_groups = 32,
     .shared_bytes = 228 * KIB, .group_shared_bytes = 227 * KIB},
    {.name = "sm_120", NV_UNIT, .max_warps = 48, .max_groups = 24,
     .shared_bytes = 100 * KIB, .group_shared_bytes = 99 * KIB},
    {.name = "gfx906", GCN_UNIT, .amd = {AMD_CHIP("gfx906", 0x2f, 64, 4, 1, 2,
     8, 90400, 40200, 70400, 0x66af, 4096)}},
    {.name = "gfx908", GCN_UNIT, .amd = {AMD_CHIP("gfx906", 0x30, 120, 8, 1, 8,
     8, 90401, 40202, 70401, 0x738c, 8192), .n_acc_regs = 4 * 256 * 64}},
    {.name = "gfx90a", CDNA_UNIT, .n_units = 8, .amd = {AMD_CHIP("gfx90a",
     0x3f, 104, 8, 1, 5, 8, 90402, 40400, 70404, 0x740f, 8192)}},
    {.name = "gfx942", CDNA_UNIT, .n_units = 16, .amd = {AMD_CHIP("gfx942",
     0x4c, 304, 32, 1, 16, 8, 90403, 40402, 70900, 0x74a1, 4096)}},
    {.name = "gfx1010", RDNA1_UNIT, .amd = {AMD_CHIP("gfx1010", 0x33, 40, 4, 2,
     2, 8, 100110, 50000, 20300, 0x731f, 4096), .lacks_dot = true}},
    {.name = "gfx1011", RDNA1_UNIT, .amd = {AMD_CHIP("gfx1010", 0x34, 40, 4, 2,
     2, 8, 100102, 50005, 20302, 0x7360, 4096)}},
    {.name = "gfx1012", RDNA1_UNIT, .amd = {AMD_CHIP("gfx1010", 0x35, 24, 2, 2,
     2, 8, 100101, 50002, 20301, 0x7340, 2048)}},
    {.name = "gfx1030", RDNA2_UNIT, .n_units = 8, .amd = {AMD_CHIP("gfx1030",
     0x36, 80, 8, 2, 4, 8, 100300, 50200, 30300, 0x73bf, 4096)}},
    {.name = "gfx1031", RDNA2_UNIT, .n_units = 8, .amd = {AMD_CHIP("gfx1030",
     0x37, 40, 4, 2, 2, 8, 100302, 50202, 30301, 0x73df, 3072)}},
    {.name = "gfx1032", RDNA2_UNIT, .n_units = 8, .amd = {AMD_CHIP("gfx1030",
     0x38, 32, 4, 2, 2, 8, 100304, 50204, 30302, 0x73ff, 2048)}},
    {.name = "gfx1033", RDNA2_UNIT, .n_units = 8, .amd = {AMD_CHIP("gfx1030",
     0x39, 8, 1, 1, 1, 2, 100301, 50201, 70200, 0x163f, 1024), .is_apu = true}},
    {.name = "gfx1034", RDNA2_UNIT, .n_units = 8, .amd = {AMD_CHIP("gfx1030",
     0x3e, 16, 2, 2, 1, 8, 100305, 50205, 30303, 0x743f, 1024)}},
    {.name = "gfx1035", RDNA2_UNIT, .n_units = 8, .amd = {AMD_CHIP("gfx1030",
     0x3d, 12, 2, 2, 1, 2, 100303, 50203, 70300, 0x1681, 2048), .is_apu = true}},
    {.name = "gfx1036", RDNA2_UNIT, .n_units = 2, .amd = {AMD_CHIP("gfx1030",
     0x45, 2, 1, 1, 1, 2, 100306, 50206, 70500, 0x164e, 256), .is_apu = true}},
    {.name = "gfx1100", RDNA3_LARGE_UNIT, .n_units = 8, .amd = {AMD_CHIP(
     "gfx1100", 0x41, 96, 12, 2, 2, 6, 110000, 60000, 40300, 0x744c, 6144)}},
    {.name = "gfx1101", RDNA3_LARGE_UNIT, .n_units = 8, .amd = {AMD_CHIP(
     "gfx1100", 0x46, 60, 6, 2, 2, 6, 110003, 60003, 40301, 0x747e, 4096)}},
    {.name = "gfx1102", RDNA2_UNIT, .n_units = 8, .amd = {AMD_CHIP("gfx1100",
     0x47, 32, 4, 2, 2, 6, 110002, 60002, 40300, 0x7480, 2048)}},
    {.name = "gfx1103", RDNA2_UNIT, .n_units = 8, .amd = {AMD_CHIP("gfx1100",
     0x44, 12, 2, 2, 1, 6, 110001, 60001, 70700, 0x15bf, 2048), .is_apu = true}},
    {.name = "gfx1150", RDNA2_UNIT, .n_units = 8, .amd = {AMD_CHIP("gfx1100",
     0x43, 16, 2, 2, 1, 6, 110500, 60100, 71100, 0x150e, 2048), .is_apu = true}},
    {.name = "gfx1151", RDNA3_LARGE_UNIT, .n_units = 8, .amd = {AMD_CHIP(
     "gfx1100", 0x4a, 40, 4, 2, 1, 6, 110501, 60101, 71101, 0x1586, 2048),
     .is_apu = true, .old_save_bytes = 0x40000}},
    {.name = "gfx1152", RDNA2_UNIT, .n_units = 8, .amd = {AMD_CHIP("gfx1100",
     0x55, 8, 2, 2, 1, 6, 110502, 60102, 71103, 0x1114, 1024), .is_apu = true}},
    {.name = "gfx1200", RDNA3_LARGE_UNIT, .n_units = 8, .amd = {AMD_CHIP(
     "gfx1201", 0x48, 32, 4, 2, 2, 6, 120000, 70000, 60301, 0x7590, 4096)}},
    {.name = "gfx1201", RDNA3_LARGE_UNIT, .n_units = 8, .amd = {AMD_CHIP(
     "gfx1201", 0x4e, 64, 8, 2, 2, 6, 120001, 70001, 60301, 0x7550, 8192)}},
    {.name = "a618", ADRENO_UNIT(96), .n_units = 1, .adreno = {CHIP_A6XX,
     0x06010800, REVISIONS, 2048, 96, 64, false, false, 0, 0x108000,
     0x430, 0x80000, 1, 4, false, 512, 825}},
    {.name = "a619", ADRENO_UNIT(96), .n_units = 1, .adreno = {CHIP_A6XX,
     0x06010900, REVISIONS, 2048, 96, 64, false, false, 0, 0x108000,
     0x430, 0x80000, 1, 4, false, 512, 950}},
    {.name = "a630", ADRENO_UNIT(96), .n_units = 2, .adreno = {CHIP_A6XX,
     0x06030000, REVISIONS, 2048, 96, 64, false, false, 0, 0x108000,
     0x1430, 0x80000, 0x10000001, 4, false, 1024, 710}},
    {.name = "a635", ADRENO_UNIT(64), .n_units = 2, .adreno = {CHIP_A6XX,
     0x06030500, REVISIONS, 4096, 64, 127, true, false, 6, 0x5008000,
     0x1400, 0, 1, 0x84, false, 512, 812}},
    {.name = "a640", ADRENO_UNIT(96), .n_units = 2, .adreno = {CHIP_A6XX,
     0x06040000, REVISIONS, 8192, 96, 64, false, false, 0, 0x8000,
     0x420, 0, 1, 4, false, 1024, 675}},
    {.name = "a650", ADRENO_UNIT(64), .n_units = 3, .adreno = {CHIP_A6XX,
     0x06050000, REVISIONS, 4096, 64, 127, false, false, 0x1000000, 0x1008000,
     0x1400, 0, 1, 4, true, 1152, 670}},
    {.name = "a660", ADRENO_UNIT(64), .n_units = 3, .adreno = {CHIP_A6XX,
     0x06060000, REVISIONS, 4096, 64, 127, true, false, 0x1000000, 0x5008000,
     0x1400, 0, 1, 0x84, true, 1536, 840}},
    {.name = "a663", ADRENO_UNIT(64), .n_units = 3, .adreno = {CHIP_A6XX,
     0x06060300, REVISIONS, 8192, 64, 127, true, false, 6, 0x5008000,
     0x1400, 0, 1, 0x84, true, 1536, 800}},
    {.name = "a680", ADRENO_UNIT(96), .n_units = 4, .adreno = {CHIP_A6XX,
     0x06080000, REVISIONS, 8192, 96, 64, false, false, 0, 0x108000,
     0x1430, 0, 1, 4, false, 2048, 670}},
    {.name = "a690", ADRENO_UNIT(64), .n_units = 8, .adreno = {CHIP_A6XX,
     0x06090000, REVISIONS, 4096, 64, 127, true, true, 0x1200000, 0x4c00000,
     0x1400, 0, 1, 0x84, true, 4096, 690}},
    {.name = "a730", ADRENO_UNIT(96), .n_units = 4, .adreno = {CHIP_A7XX,
     0x07030001, UINT32_MAX, 4096, 96, 127, false, false, 0x10000000, 0x1000000,
     0x1440, 0, 0x3200000, 0x84, true, 2048, 818}},
    {.name = "x1-45", ADRENO_UNIT(96), .n_units = 3, .adreno = {CHIP_A7XX_FEW,
     0x43030c00, UINT32_MAX, 4096, 96, 127, false, false, 0x10000000, 0x11100000,
     0x10001400, 0, 0, 0x84, true, 1536, 1107}},
    {.name = "a740", ADRENO_UNIT(96), .n_units = 6, .adreno = {CHIP_A7XX,
     0x43050a01, UINT32_MAX, 4096, 96, 127, false, false, 0x10000000, 0x11100000,
     0x10001400, 0, 0, 0x84, true, 3072, 680}},
    {.name = "x1-85", ADRENO_UNIT(96), .n_units = 6, .adreno = {CHIP_A7XX_FEW,
     0x43050c01, UINT32_MAX, 4096, 96, 127, false, false, 0x10000000, 0x11100000,
     0x10001400, 0, 0, 0x84, true, 3072, 1500}},
    {.name = "a750", ADRENO_UNIT(96), .n_units = 6, .adreno = {CHIP_A7XX_3,
     0x43051401, UINT32_MAX, 4096, 96, 127, false, false, 0x10000000, 0x11100000,
     0x10000400, 0, 0x40000000, 0, false, 3072, 770}},
    /* guess: threads of a desktop */
    {.name = "x86-64-v2", .backend = "CPU", .n_units = 8},
    {.name = "x86-64-v3", .backend = "CPU", .n_units = 8},
    {.name = "x86-64-v4", .backend = "CPU", .n_units = 8},
    {.name = "armv8-a", .backend = "CPU", .n_units = 8},
    {.name = "armv8.2-a", .backend = "CPU", .n_units = 8},
    {.name = "armv8.6-a", .backend = "CPU", .n_units = 8},
};

/* guess: what an H100 has for each SM, and RDNA's arrays give */
#define UNKNOWN_L2(n_units) ((n_units) * 38)

/* F32, F64, then matrices: F16, TF32, F32, F64, 8 bits; then vectors again:
 * F16, BF16, I32 */
#define H100_RATES {66.9, 33.5, 989.4, 494.7, 0, 66.9, 1978.9, 133.8, 133.8, 33.5}
#define MI300X_RATES {163.4, 81.7, 1307.4, 653.7, 163.4, 163.4, 2614.9, 163.4, 0, 0}

static const struct chip products[] = {
    {"a100", "sm_80", "NVIDIA A100-SXM4-80GB", 0x20b2, 108, 1410,
     80 * GIB, 40 * MIB, 5120, 2039,
     {19.5, 9.7, 311.9, 156.0, 0, 19.5, 623.7, 78.0, 39.0, 19.5}},
    {"rtx3090", "sm_86", "NVIDIA GeForce RTX 3090", 0x2204, 82, 1695,
     24 * GIB, 6 * MIB, UNKNOWN_L2(82), 936,
     {35.6, 0.56, 71.0, 35.6, 0, 0, 284.0, 35.6, 35.6, 17.8}},
    {"rtx3060", "sm_86", "NVIDIA GeForce RTX 3060", 0x2503, 28, 1777,
     12 * GIB, 3 * MIB, UNKNOWN_L2(28), 360,
     {12.7, 0.2, 25.5, 12.7, 0, 0, 101.9, 12.7, 12.7, 6.4}},
    {"rtx4060", "sm_89", "NVIDIA GeForce RTX 4060", 0x2882, 24, 2460,
     8 * GIB, 24 * MIB, UNKNOWN_L2(24), 272,
     {15.1, 0.24, 30.2, 15.1, 0, 0, 120.9, 15.1, 15.1, 7.6}},
    {"rtx4090", "sm_89", "NVIDIA GeForce RTX 4090", 0x2684, 128, 2520,
     24 * GIB, 72 * MIB, UNKNOWN_L2(128), 1008,
     {82.6, 1.3, 165.2, 82.6, 0, 0, 660.6, 82.6, 82.6, 41.3}},
    {"l40s", "sm_89", "NVIDIA L40S", 0x26b9, 142, 2520,
     48 * GIB, 96 * MIB, UNKNOWN_L2(142), 864,
     {91.6, 1.4, 362.1, 183.0, 0, 0, 733.0, 91.6, 91.6, 45.8}},
    {"h100", "sm_90", "NVIDIA H100 80GB HBM3", 0x2330, 132, 1980,
     (uint64_t)0x4fa5c00 << 10, 50 * MIB, 5120, 3352, H100_RATES},
    {"h200", "sm_90", "NVIDIA H200", 0x2335, 132, 1980,
     141 * GIB, 60 * MIB, 5120, 4800, H100_RATES},
    {"b200", "sm_100", "NVIDIA B200", 0x2901, 148, 1965,
     180 * GIB, 126 * MIB, 5120, 8000,
     {74.5, 37.2, 2250, 1125, 0, 37.2, 4500, 148.9, 148.9, 37.2}},
    {"rtx5090", "sm_120", "NVIDIA GeForce RTX 5090", 0x2b85, 170, 2407,
     32 * GIB, 96 * MIB, UNKNOWN_L2(170), 1792,
     {104.8, 1.6, 209.5, 104.8, 0, 0, 838.0, 104.8, 104.8, 104.8}},
    {"mi50", "gfx906", "AMD Instinct MI50", 0x66a1, 60, 1725,
     32 * GIB, 4 * MIB, UNKNOWN_L2(60), 1024,
     {13.3, 6.6, 0, 0, 0, 0, 0, 26.5, 0, 0}},
    {"mi100", "gfx908", "AMD Instinct MI100", 0x738c, 120, 1502,
     32 * GIB, 8 * MIB, UNKNOWN_L2(120), 1229,
     {23.1, 11.5, 184.6, 0, 46.1, 0, 184.6, 46.1, 0, 0}},
    {"rx5700xt", "gfx1010", "AMD Radeon RX 5700 XT", 0x731f, 40, 1905,
     8 * GIB, 4 * MIB, UNKNOWN_L2(40), 448,
     {9.8, 0.61, 0, 0, 0, 0, 0, 19.5, 0, 0}},
    {"mi210", "gfx90a", "AMD Instinct MI210", 0x740f, 104, 1700,
     64 * GIB, 8 * MIB, 4096, 1638,
     {22.6, 22.6, 181.0, 0, 45.3, 45.3, 181.0, 45.3, 0, 0}},
    {"mi300x", "gfx942", "AMD Instinct MI300X", 0x74a1, 304, 2100,
     192 * GIB, 32 * MIB, 16384, 5325, MI300X_RATES},
    /* memory: half of 128 GiB, which is what Linux gives unless told */
    {"mi300a", "gfx942", "AMD Instinct MI300A", 0x74a0, 228, 2100,
     64 * GIB, 24 * MIB, 12288, 5300,
     {122.6, 61.3, 980.6, 490.3, 122.6, 122.6, 1961.2, 122.6, 0, 0}, true},
    {"mi325x", "gfx942", "AMD Instinct MI325X", 0x74a5, 304, 2100,
     256 * GIB, 32 * MIB, 16384, 6000, MI300X_RATES},
    {"rx6900xt", "gfx1030", "AMD Radeon RX 6900 XT", 0x73bf, 80, 2250,
     16 * GIB, 4 * MIB, UNKNOWN_L2(80), 512,
     {23.0, 1.4, 0, 0, 0, 0, 0, 46.1, 0, 0}},
    {"rx6700xt", "gfx1031", "AMD Radeon RX 6700 XT", 0x73df, 40, 2581,
     12 * GIB, 3 * MIB, UNKNOWN_L2(40), 384,
     {13.2, 0.83, 0, 0, 0, 0, 0, 26.4, 0, 0}},
    {"rx6600", "gfx1032", "AMD Radeon RX 6600", 0x73ff, 28, 2491,
     8 * GIB, 2 * MIB, UNKNOWN_L2(28), 224,
     {8.9, 0.56, 0, 0, 0, 0, 0, 17.9, 0, 0}},
    {"rx7900xtx", "gfx1100", "AMD Radeon RX 7900 XTX", 0x744c, 96, 2500,
     24 * GIB, 6 * MIB, UNKNOWN_L2(96), 960,
     {61.4, 1.9, 122.8, 0, 0, 0, 122.8, 122.8, 0, 0}},
    {"rx7800xt", "gfx1101", "AMD Radeon RX 7800 XT", 0x747e, 60, 2430,
     16 * GIB, 4 * MIB, UNKNOWN_L2(60), 624,
     {37.3, 1.2, 74.6, 0, 0, 0, 74.6, 74.6, 0, 0}},
    {"rx7600", "gfx1102", "AMD Radeon RX 7600", 0x7480, 32, 2655,
     8 * GIB, 2 * MIB, UNKNOWN_L2(32), 288,
     {21.7, 0.68, 43.5, 0, 0, 0, 43.5, 43.5, 0, 0}},
    /* memory: half of 128 GiB, which is what Linux gives unless told */
    {"strixhalo", "gfx1151", "AMD Radeon 8060S", 0x1586, 40, 2900,
     64 * GIB, 2 * MIB, UNKNOWN_L2(40), 256,
     {29.7, 0.93, 59.4, 0, 0, 0, 59.4, 59.4, 0, 0}},
    {"rx9060xt", "gfx1200", "AMD Radeon RX 9060 XT", 0x7590, 32, 3130,
     16 * GIB, 4 * MIB, UNKNOWN_L2(32), 320,
     {25.6, 0.4, 102.6, 0, 0, 0, 205.1, 51.3, 0, 0}},
    {"rx9070xt", "gfx1201", "AMD Radeon RX 9070 XT", 0x7550, 64, 2970,
     16 * GIB, 8 * MIB, UNKNOWN_L2(64), 640,
     {48.7, 0.76, 194.6, 0, 0, 0, 389.2, 97.3, 0, 0}},
};
/* clang-format on */

/* src: links and their rates: NVIDIA's white papers on A100 (NVLink 3: 12 links
 * of 25 GB/s in each direction) and H100 (NVLink 4: 18 of 25), 2020 and 2022;
 * data sheets of H200 and B200 (900 and 1800 GB/s of 18 links, both directions
 * together). Without links: docs/hardware/nvidia-kernel.md, "Peers"; GeForce
 * cards cannot map each other's memory under NVIDIA's driver (lead). */
static const struct chip_link links[] = {
    {"a100", "nvlink", 12, 25},   {"sm_80", "nvlink", 12, 25},
    {"h100", "nvlink", 18, 25},   {"h200", "nvlink", 18, 25},
    {"sm_90", "nvlink", 18, 25},  {"b200", "nvlink", 18, 50},
    {"sm_100", "nvlink", 18, 50}, {"l40s", "pcie", 0, 0},
    {"sm_86", "pcie", 0, 0},      {"sm_89", "pcie", 0, 0},
    {"sm_120", "bar1", 0, 0},     {"rtx3060", "none", 0, 0},
    {"rtx3090", "none", 0, 0},    {"rtx4060", "none", 0, 0},
    {"rtx4090", "none", 0, 0},    {"rtx5090", "none", 0, 0},
};

const struct chip_link *
chip_link_find(const char *name)
{
    const struct chip *chip = chip_find(name);
    size_t i;

    for (i = 0; i < ARRAY_LEN(links); i++) {
        if (strcmp(links[i].name, name) == 0)
            return &links[i];
    }
    return chip ? chip_link_find(chip->arch) : NULL;
}

const struct chip_arch *
chip_arch_find(const char *name)
{
    size_t i;

    for (i = 0; i < ARRAY_LEN(archs); i++) {
        if (strcmp(archs[i].name, name) == 0)
            return &archs[i];
    }
    return NULL;
}

/* Names have major version, then minor and step as a hexadecimal digit each. */
static void
name_amd(uint32_t version, char name[24])
{
    snprintf(name, 24, "gfx%u%x%x", version / 10000, version / 100 % 100,
             version % 100);
}

const struct chip_arch *
chip_amd_find(uint32_t gfx_target_version)
{
    char name[24];

    name_amd(gfx_target_version, name);
    return chip_arch_find(name);
}

uint32_t
chip_amd_version(const struct chip_arch *arch)
{
    unsigned long n = strtoul(arch->name + strlen("gfx"), NULL, 16), major;

    /* the major version's digits are decimal ones */
    major = (n >> 12 & 0xf) * 10 + (n >> 8 & 0xf);
    return (uint32_t)(major * 10000 + (n >> 4 & 0xf) * 100 + (n & 0xf));
}

const struct chip_arch *
chip_amd_of_machine(uint32_t machine)
{
    size_t i;

    for (i = 0; i < ARRAY_LEN(archs); i++) {
        if (archs[i].amd.family && archs[i].amd.machine == machine)
            return &archs[i];
    }
    return NULL;
}

const struct chip_arch *
chip_adreno_find(uint32_t chip_id)
{
    size_t i;

    for (i = 0; i < ARRAY_LEN(archs); i++) {
        const struct chip_adreno *adreno = &archs[i].adreno;

        if (adreno->gen && (chip_id & adreno->id_mask) == adreno->id)
            return &archs[i];
    }
    return NULL;
}

/* Chips that exist, and that no row is enough for. */
static const struct {
    const char *name, *why;
} refused[] = {
    {"sm_70", "sm_70 (V100) takes launch descriptors of version 2, which this "
              "driver does not write"},
    {"sm_75", "sm_75 (RTX 20, GTX 16, T4) takes launch descriptors of version "
              "2, which this driver does not write"},
    {"gfx950", "gfx950 (MI350X, MI355X) needs LLVM 20 or later, and launches "
               "with 160 KiB of LDS"},
    {"gfx1153", "gfx1153 (Radeon 820M, 840M) needs LLVM 20 or later"},
    {"a610", "a610 has 16 KiB of local memory and no waves of 128 threads; the "
             "compiler needs 32 KiB and both waves"},
    {"a702", "a702 has waves of 16 threads and 16 KiB of local memory; the "
             "compiler needs 64 and 32 KiB"},
    {"a8xx", "Adreno 8xx has other packets and shaders, which no driver here "
             "writes"},
};

const char *
chip_why_refused(const char *name)
{
    size_t i;

    for (i = 0; i < ARRAY_LEN(refused); i++) {
        if (strcmp(refused[i].name, name) == 0)
            return refused[i].why;
    }
    return NULL;
}

const struct chip *
chip_at(size_t number)
{
    return number < ARRAY_LEN(products) ? &products[number] : NULL;
}

/* The product of the name that is the text's first n bytes. */
static const struct chip *
find_product(const char *text, size_t n)
{
    size_t i;

    for (i = 0; i < ARRAY_LEN(products); i++) {
        if (strlen(products[i].name) == n &&
            memcmp(products[i].name, text, n) == 0)
            return &products[i];
    }
    return NULL;
}

const struct chip *
chip_find(const char *name)
{
    return find_product(name, strlen(name));
}

const struct chip *
chip_of_device(const char *name, const char *model)
{
    const char *form = strrchr(name, '@');
    size_t i;

    if (form &&
        (strncmp(form, "@sim:", 5) == 0 || strncmp(form, "@null:", 6) == 0)) {
        form = strchr(form, ':') + 1;
        return find_product(form, strcspn(form, "*,"));
    }
    for (i = 0; i < ARRAY_LEN(products); i++) {
        if (strcmp(products[i].board, model) == 0)
            return &products[i];
    }
    return NULL;
}

void
chip_arch_list(const char *backend, char *text, size_t size_bytes)
{
    size_t i, used = 0;

    text[0] = '\0';
    for (i = 0; i < ARRAY_LEN(archs) && used < size_bytes; i++) {
        if (strcmp(archs[i].backend, backend) == 0)
            used += (size_t)snprintf(text + used, size_bytes - used, "%s%s",
                                     used ? ", " : "", archs[i].name);
    }
}

void
chip_list(const char *backend, char *text, size_t size_bytes)
{
    size_t i, used = 0;

    text[0] = '\0';
    for (i = 0; i < ARRAY_LEN(archs) + ARRAY_LEN(products); i++) {
        const struct chip *chip =
            i < ARRAY_LEN(archs) ? NULL : &products[i - ARRAY_LEN(archs)];
        const struct chip_arch *arch =
            chip ? chip_arch_find(chip->arch) : &archs[i];

        if (strcmp(arch->backend, backend) == 0 && used < size_bytes)
            used += (size_t)snprintf(text + used, size_bytes - used, "%s%s",
                                     used ? ", " : "",
                                     chip ? chip->name : arch->name);
    }
}

void
chip_amd_why_not(uint32_t gfx_target_version, char *text, size_t size_bytes)
{
    const char *why;
    char name[24];

    name_amd(gfx_target_version, name);
    why = chip_why_refused(name);
    if (why)
        snprintf(text, size_bytes, "%s", why);
    else
        snprintf(text, size_bytes, "generation %u is not known",
                 gfx_target_version);
}

/* src: Mesa's freedreno_devices.py, Linux 7.3's a6xx_catalog.c */
const char *
chip_why_refused_adreno(uint32_t chip_id)
{
    static const struct {
        uint32_t id, mask;
        const char *name;
    } rows[] = {
        {0x06010000, REVISIONS, "a610"},  {0x07000200, REVISIONS, "a702"},
        {0x07000400, REVISIONS, "a702"},  {0x07002000, REVISIONS, "a702"},
        {0x43020100, UINT32_MAX, "a702"}, {0x44000000, 0xff000000, "a8xx"},
    };
    size_t i;

    for (i = 0; i < ARRAY_LEN(rows); i++) {
        if ((chip_id & rows[i].mask) == rows[i].id)
            return chip_why_refused(rows[i].name);
    }
    return NULL;
}

struct chip_occupancy
chip_occupancy(const struct chip_arch *arch, uint32_t n_threads,
               uint32_t n_regs, uint32_t shared_bytes)
{
    uint32_t warps = (uint32_t)div_up(n_threads, arch->warp_lanes);
    uint64_t regs;
    uint64_t shared = align_up(shared_bytes + arch->shared_reserve_bytes,
                               arch->shared_granule);
    struct chip_occupancy o = {.n_groups = arch->max_groups, .limit = "groups"};

    regs = div_up(n_regs ? n_regs : 1, arch->reg_granule) * arch->reg_granule *
           warps * arch->warp_lanes;
    if (arch->max_warps / warps < o.n_groups) {
        o.n_groups = arch->max_warps / warps;
        o.limit = "threads";
    }
    if (arch->n_regs / regs < o.n_groups) {
        o.n_groups = (uint32_t)(arch->n_regs / regs);
        o.limit = "registers";
    }
    if (shared_bytes && arch->shared_bytes / shared < o.n_groups) {
        o.n_groups = (uint32_t)(arch->shared_bytes / shared);
        o.limit = "shared memory";
    }
    o.n_warps = o.n_groups * warps;
    return o;
}

/* ---- time ---- */

const char *const chip_term_names[CHIP_TERM_COUNT] = {
    [CHIP_TERM_MEMORY] = "memory",  [CHIP_TERM_L2] = "L2",
    [CHIP_TERM_ISSUE] = "issue",    [CHIP_TERM_SHARED] = "shared memory",
    [CHIP_TERM_VECTOR] = "vectors", [CHIP_TERM_MATRIX] = "matrices",
};

struct chip_time
chip_time(const struct chip *chip, const struct chip_work *work)
{
    const struct chip_arch *arch = chip_arch_find(chip->arch);
    double units = chip->n_units, hz = chip->clock_mhz * 1e6;
    double groups = (double)work->n_groups, per_unit, *us;
    struct chip_time t = {0};
    int i;

    /* units that have nothing to do while the last ones work */
    per_unit = work->n_groups
                   ? (double)div_up(work->n_groups, chip->n_units) / groups
                   : 1 / units;
    us = t.term_us;
    us[CHIP_TERM_MEMORY] = work->memory_bytes / chip->memory_gb_s * 1e-3;
    us[CHIP_TERM_L2] = work->sector_bytes / (chip->l2_clk_bytes * hz) * 1e6;
    us[CHIP_TERM_ISSUE] = work->n_insns * per_unit / (arch->n_issue * hz) * 1e6;
    us[CHIP_TERM_SHARED] = work->n_wavefronts * per_unit / hz * 1e6;
    us[CHIP_TERM_VECTOR] =
        work->flops * per_unit * units / chip->rate[CHIP_F32] * 1e-6;
    for (i = 0; i < CHIP_RATE_COUNT; i++) {
        double rate = chip->rate[i] > 0 ? chip->rate[i] : chip->rate[CHIP_F32];

        us[CHIP_TERM_MATRIX] +=
            work->matrix_flops[i] * per_unit * units / rate * 1e-6;
    }
    for (i = 0; i < CHIP_TERM_COUNT; i++) {
        if (us[i] > us[t.limit])
            t.limit = (enum chip_term)i;
    }
    t.us = us[t.limit];
    return t;
}
