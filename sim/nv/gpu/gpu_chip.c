/* The chips: what a card of each generation has, cut down in size; and h100,
 * which is as large as the card that tests/hw/h100 was recorded on.
 *
 * src: docs/hardware/nvidia-kernel.md, "Classes", "Queries";
 * docs/hardware/nvidia-code.md, "Shared memory". Numbers of GPCs and bytes are
 * small: the simulated cards are. GH100's classes and engines, and all of
 * h100: observed: H100 SXM5 80 GB, 2026-11-22.
 */
#include "sim/nv/gpu/gpu.h"

#include <assert.h>
#include <string.h>

#include "base/bits.h"

#define GIB ((uint64_t)1 << 30)

static const uint32_t ga100_classes[] = {
    0x0070, 0x0079, 0x00de, 0x2080, 0x50a0, 0x83de, 0x9067, 0x90f1, 0xa06c,
    0xc361, 0xc36f, 0xc461, 0xc46f, 0xc561, 0xc56f, 0xc6b5, 0xc6c0,
};

static const uint32_t ga102_classes[] = {
    0x0070, 0x0079, 0x00de, 0x2080, 0x50a0, 0x83de, 0x9067, 0x90f1, 0xa06c,
    0xc361, 0xc36f, 0xc461, 0xc46f, 0xc561, 0xc56f, 0xc7b5, 0xc7c0,
};

static const uint32_t ad102_classes[] = {
    0x0070, 0x0079, 0x00de, 0x2080, 0x50a0, 0x83de, 0x9067, 0x90f1, 0xa06c,
    0xc361, 0xc36f, 0xc461, 0xc46f, 0xc561, 0xc56f, 0xc7b5, 0xc9c0,
};

static const uint32_t gh100_classes[] = {
    0x0100, 0x0101, 0x0002, 0x0080, 0x0005, 0x0078, 0x007e, 0x0079, 0x0081,
    0x003e, 0x0071, 0x0000, 0x0041, 0x0001, 0x2080, 0xc639, 0xc638, 0xc640,
    0xc637, 0x000f, 0x906f, 0x90cc, 0x83de, 0xc863, 0x0090, 0xb1cc, 0xb2cc,
    0xc763, 0x900e, 0x0020, 0x0092, 0x90ce, 0x00f3, 0x0076, 0x00b1, 0x0082,
    0x0083, 0x00c2, 0x003f, 0x0004, 0x2081, 0x2082, 0x208f, 0x30f1, 0x00db,
    0x402c, 0x9010, 0xa0bc, 0xa0bd, 0x0050, 0xcbca, 0x90cd, 0x00f1, 0x00e0,
    0x0042, 0x00f8, 0x00fb, 0x00f9, 0x00fe, 0x00fd, 0x00da, 0xc574, 0xc365,
    0xc56f, 0xc561, 0x9067, 0x902d, 0x90f1, 0x844c, 0x90e7, 0x90e6, 0x9074,
    0x9096, 0xc076, 0xcb97, 0xc86f, 0xcbc0, 0xc8b5, 0xcba2, 0xc661, 0xa06c,
    0xa080, 0xa140, 0xc369, 0x0060, 0x0040, 0x0070, 0x007d, 0x5080, 0x50a0,
    0x503b, 0x503c, 0xa081, 0xa084, 0xb8b0, 0xb8d1, 0xb8fa, 0xcb33, 0x00de,
    0xc46f, 0xc461, 0xc36f, 0xc361,
};

/* Two graphics copy engines, and three of their own. */
static const struct nvgpu_copy_engine gh100_copies[] = {
    {0, 0x03e3}, {0, 0x03e3}, {1, 0x03e2}, {3, 0x03e2}, {10, 0x03e0},
};

static const struct nvgpu_info gh100_gr[] = {
    {0x00, 8},    {0x01, 0},      {0x02, 0},    {0x03, 0x200}, {0x04, 0},
    {0x05, 0x10}, {0x06, 0},      {0x0a, 0},    {0x0b, 0},     {0x0f, 0xa0},
    {0x10, 0xa0}, {0x11, 0x20},   {0x12, 0x20}, {0x13, 0},     {0x15, 0xc},
    {0x16, 4},    {0x18, 1},      {0x19, 8},    {0x1a, 1},     {0x1b, 0x18},
    {0x1c, 3},    {0x1d, 0x4200}, {0x1e, 3},    {0x1f, 6},     {0x21, 0},
    {0x22, 0},    {0x23, 0x210},  {0x24, 8},    {0x25, 0x18},  {0x26, 8},
    {0x27, 4},    {0x28, 2},      {0x29, 1},    {0x2a, 9},     {0x2b, 2},
    {0x2c, 0x40}, {0x2d, 2},      {0x2e, 0x40}, {0x2f, 0x10},  {0x30, 1},
    {0x31, 3},    {0x32, 4},      {0x33, 0},    {0x34, 0xf},   {0x35, 8},
    {0x36, 8},    {0x37, 8},      {0x38, 0},    {0x39, 0},
};

/* NVDEC1 to 7, software, SEC2, and what decodes pictures. */
static const uint8_t gh100_engines[] = {
    0x14, 0x15, 0x16, 0x17, 0x18, 0x19, 0x1a, 0x22, 0x26,
    0x2b, 0x2d, 0x2e, 0x2f, 0x30, 0x31, 0x32, 0x33, 0,
};

static const uint16_t h100_tpcs[] = {0x1ff, 0x1bf, 0x1bf, 0x1bf,
                                     0x1bf, 0x1ff, 0x1f7, 0x1bf};

static const uint32_t gb100_classes[] = {
    0x0070, 0x0079, 0x00de, 0x2080, 0x50a0, 0x83de, 0x9067,
    0x90f1, 0xa06c, 0xc361, 0xc36f, 0xc461, 0xc46f, 0xc561,
    0xc56f, 0xc661, 0xc86f, 0xc96f, 0xc9b5, 0xcdc0,
};

static const uint32_t gb202_classes[] = {
    0x0070, 0x0079, 0x00de, 0x2080, 0x50a0, 0x83de, 0x9067, 0x90f1,
    0xa06c, 0xc361, 0xc36f, 0xc461, 0xc46f, 0xc561, 0xc56f, 0xc661,
    0xc761, 0xc86f, 0xc96f, 0xca6f, 0xcab5, 0xcec0,
};

#define CLASSES(list) .classes = (list), .n_classes = ARRAY_LEN(list)

#define GH100                                                                  \
    .sm = 90, .sm_version = 0x900, .architecture = 0x180, .implementation = 0, \
    .pci_device = 0x2330, .gpfifo_class = 0xc86f, .compute_class = 0xcbc0,     \
    .copy_class = 0xc8b5, .usermode_class = 0xc661, CLASSES(gh100_classes),    \
    .qmd_major = 4, .n_sm_per_tpc = 2, .max_warps_per_sm = 64,                 \
    .sub_revision = 3, .n_copy_engines = ARRAY_LEN(gh100_copies),              \
    .grce_mask = 0x3, .copy_engines = gh100_copies,                            \
    .other_engines = gh100_engines, .gr_info = gh100_gr,                       \
    .n_gr_info = ARRAY_LEN(gh100_gr), .max_shared_bytes = 228 * 1024,          \
    .host_va_bits = 57, .bar0_overtakes = true,                                \
    .compr_page_bytes = 128 * 1024, .l2_bytes = 50u << 20

/* A board with few units, which is quick to simulate. */
#define SMALL                                                                  \
    .n_gpc = 2, .n_tpc_per_gpc = 2, .n_tpc = 4, .vidmem_bytes = 8 * GIB,       \
    .bar1_bytes = 8 * GIB

/* Implementations and PCI numbers are of the smallest board of each. Pages of
 * compression: 64 KiB on a GA106 (src: kayfabe's capture of 0x20800a1c); guess:
 * 128 KiB on later ones, so that who depends on less is found. Rings in BAR0:
 * src: NVIDIA/open-gpu-kernel-modules 580.142, kbusFlushPcieForBar0Doorbell,
 * which does something from GH100 on. */
static const struct nvgpu_chip chips[] = {
    {
        .name = "sm_80",
        .board = "Simulated GA100",
        .sm = 80,
        .sm_version = 0x802, /* src: ctrl2080gr.h, which lists no 8_00 */
        .architecture = 0x170,
        .implementation = 0,
        .pci_device = 0x20b0,
        .gpfifo_class = 0xc56f,
        .compute_class = 0xc6c0,
        .copy_class = 0xc6b5,
        .usermode_class = 0xc561,
        CLASSES(ga100_classes),
        .qmd_major = 3,
        SMALL,
        .n_sm_per_tpc = 2,
        .max_warps_per_sm = 64,
        .n_copy_engines = 10,
        .grce_mask = 0x3,
        .max_shared_bytes = 164 * 1024,
        .host_va_bits = 40,
        .compr_page_bytes = 64 * 1024,
        .l2_bytes = 40u << 20, /* src: the GA100 white paper */
    },
    {
        .name = "sm_86",
        .board = "Simulated GA102",
        .sm = 86,
        .sm_version = 0x806,
        .architecture = 0x170,
        .implementation = 2,
        .pci_device = 0x2204, /* GeForce RTX 3090. src: pci.ids */
        .gpfifo_class = 0xc56f,
        .compute_class = 0xc7c0,
        .copy_class = 0xc7b5,
        .usermode_class = 0xc561,
        CLASSES(ga102_classes),
        .qmd_major = 3,
        SMALL,
        .n_sm_per_tpc = 2,
        .max_warps_per_sm = 48,
        .n_copy_engines = 5,
        .grce_mask = 0x3, /* guess: as GA100's */
        .max_shared_bytes = 100 * 1024,
        .host_va_bits = 40,
        .compr_page_bytes = 64 * 1024,
        .l2_bytes = 6u << 20, /* src: the GA102 white paper, RTX 3090 */
    },
    {
        .name = "sm_89",
        .board = "Simulated AD102",
        .sm = 89,
        .sm_version = 0x809,
        .architecture = 0x190, /* src: ctrl2080mc.h, as the implementation */
        .implementation = 2,
        .pci_device = 0x2684, /* GeForce RTX 4090. src: pci.ids */
        .gpfifo_class = 0xc56f,
        .compute_class = 0xc9c0,
        .copy_class = 0xc7b5,
        .usermode_class = 0xc561,
        CLASSES(ad102_classes),
        .qmd_major = 3,
        SMALL,
        .n_sm_per_tpc = 2,
        .max_warps_per_sm = 48,
        .n_copy_engines = 5,
        .grce_mask = 0x3, /* guess: as GA100's */
        .max_shared_bytes = 100 * 1024,
        .host_va_bits = 40,
        .compr_page_bytes = 128 * 1024,
        .l2_bytes = 72u << 20, /* src: the Ada white paper, RTX 4090 */
    },
    {
        .name = "sm_90",
        .board = "Simulated GH100",
        GH100,
        SMALL,
    },
    {
        .name = "h100",
        .board = "NVIDIA H100 80GB HBM3",
        GH100,
        .n_gpc = ARRAY_LEN(h100_tpcs),
        .n_tpc_per_gpc = 9,
        .n_tpc = 66,
        .tpc_masks = h100_tpcs,
        .vidmem_bytes = (uint64_t)0x4f2dc00 << 10,
        .ram_bytes = (uint64_t)0x4fa5c00 << 10,
        .usable_bytes = (uint64_t)0x4f62ec0 << 10,
        .bar1_bytes = 128 * GIB,
    },
    {
        .name = "sm_100",
        .board = "Simulated GB100",
        .sm = 100,
        .sm_version = 0xa00,
        .architecture = 0x1a0,
        .implementation = 0,
        .pci_device = 0x2901, /* B200. src: pci.ids */
        .gpfifo_class = 0xc96f,
        .compute_class = 0xcdc0,
        .copy_class = 0xc9b5,
        .usermode_class = 0xc661,
        CLASSES(gb100_classes),
        .qmd_major = 5,
        SMALL,
        .n_sm_per_tpc = 2,
        .max_warps_per_sm = 64,
        .n_copy_engines = 20,
        .grce_mask = 0x1, /* guess: as GB202's */
        .max_shared_bytes = 228 * 1024,
        .host_va_bits = 57,
        .bar0_overtakes = true,
        .compr_page_bytes = 128 * 1024,
        .l2_bytes = 126u << 20, /* guess: of B200 */
    },
    {
        .name = "sm_120",
        .board = "Simulated GB202",
        .sm = 120,
        .sm_version = 0xa04,
        .architecture = 0x1b0,
        .implementation = 2,
        .pci_device = 0x2b85,
        .gpfifo_class = 0xca6f,
        .compute_class = 0xcec0,
        .copy_class = 0xcab5,
        .usermode_class = 0xc761,
        CLASSES(gb202_classes),
        .qmd_major = 5,
        SMALL,
        .n_sm_per_tpc = 2,
        .max_warps_per_sm = 48,
        .n_copy_engines = 8,
        .grce_mask = 0x1,
        .max_shared_bytes = 100 * 1024,
        .host_va_bits = 57,
        .bar0_overtakes = true,
        .compr_page_bytes = 128 * 1024,
        .l2_bytes = 96u << 20, /* guess: of the largest board */
    },
};

const struct nvgpu_chip *
nvgpu_chip_find(const char *name, uint32_t number)
{
    size_t i;

    if (!name)
        return number < ARRAY_LEN(chips) ? &chips[number] : NULL;
    for (i = 0; i < ARRAY_LEN(chips); i++) {
        if (strcmp(chips[i].name, name) == 0)
            return &chips[i];
    }
    return NULL;
}

bool
nvgpu_has_class(const struct nvgpu_chip *chip, uint32_t nv_class)
{
    uint32_t i;

    for (i = 0; i < chip->n_classes; i++) {
        if (chip->classes[i] == nv_class)
            return true;
    }
    return false;
}

uint32_t
nvgpu_tpc_mask(const struct nvgpu_chip *chip, uint32_t gpc)
{
    uint32_t left = chip->n_tpc - gpc * chip->n_tpc_per_gpc;

    assert(gpc * chip->n_tpc_per_gpc <= chip->n_tpc);
    if (chip->tpc_masks)
        return chip->tpc_masks[gpc];
    return (1u << (left < chip->n_tpc_per_gpc ? left : chip->n_tpc_per_gpc)) -
           1;
}
