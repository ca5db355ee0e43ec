/* The chips: what a card of each generation has, cut down in size.
 *
 * src: hw/nv/BRINGUP.md section 3 (classes), 4 (architecture, SM versions), 6
 * (shared memory sizes: CUBIN.md section 4). Numbers of GPCs, engines and
 * bytes are small: the simulated cards are.
 */
#include "sim/nv/gpu.h"

#include <string.h>

#include "base/bits.h"

#define GIB ((uint64_t)1 << 30)

static const uint32_t ga100_classes[] = {
    0x0070, 0x0079, 0x2080, 0x50a0, 0x83de, 0x9067, 0x90f1, 0xa06c, 0xc361,
    0xc36f, 0xc461, 0xc46f, 0xc561, 0xc56f, 0xc6b5, 0xc6c0, 0,
};

static const uint32_t gh100_classes[] = {
    0x0070, 0x0079, 0x2080, 0x50a0, 0x83de, 0x9067, 0x90f1,
    0xa06c, 0xc361, 0xc36f, 0xc461, 0xc46f, 0xc561, 0xc56f,
    0xc661, 0xc86f, 0xc8b5, 0xcbc0, 0,
};

static const uint32_t gb202_classes[] = {
    0x0070, 0x0079, 0x2080, 0x50a0, 0x83de, 0x9067, 0x90f1, 0xa06c,
    0xc361, 0xc36f, 0xc461, 0xc46f, 0xc561, 0xc56f, 0xc661, 0xc761,
    0xc86f, 0xc96f, 0xca6f, 0xcab5, 0xcec0, 0,
};

/* Implementations and PCI numbers are of the smallest board of each. Pages of
 * compression: 64 KiB on a GA106 (src: kayfabe's captured 0x20800a1c); guess:
 * 128 KiB on later ones, so that who depends on less is found. Rings in BAR0:
 * src: NVIDIA/open-gpu-kernel-modules, kbusFlushPcieForBar0Doorbell, which does
 * something from GH100 on. */
static const struct nvgpu_chip chips[] = {
    {
        .name = "sm_80",
        .board = "Simulated GA100",
        .sm = 80,
        .sm_version = 0x800,
        .architecture = 0x170,
        .implementation = 0,
        .pci_device = 0x20b0,
        .gpfifo_class = 0xc56f,
        .compute_class = 0xc6c0,
        .copy_class = 0xc6b5,
        .usermode_class = 0xc561,
        .classes = ga100_classes,
        .qmd_major = 3,
        .n_gpc = 2,
        .n_tpc_per_gpc = 2,
        .n_tpc = 4,
        .n_sm_per_tpc = 2,
        .max_warps_per_sm = 64,
        .n_copy_engines = 10,
        .grce_mask = 0x3,
        .max_shared_bytes = 164 * 1024,
        .host_va_bits = 40,
        .compr_page_bytes = 64 * 1024,
        .vidmem_bytes = 8 * GIB,
        .bar1_bytes = 8 * GIB,
    },
    {
        .name = "sm_90",
        .board = "Simulated GH100",
        .sm = 90,
        .sm_version = 0x900,
        .architecture = 0x180,
        .implementation = 0,
        .pci_device = 0x2330,
        .gpfifo_class = 0xc86f,
        .compute_class = 0xcbc0,
        .copy_class = 0xc8b5,
        .usermode_class = 0xc661,
        .classes = gh100_classes,
        .qmd_major = 4,
        .n_gpc = 2,
        .n_tpc_per_gpc = 2,
        .n_tpc = 4,
        .n_sm_per_tpc = 2,
        .max_warps_per_sm = 64,
        .n_copy_engines = 10,
        .grce_mask = 0x3,
        .max_shared_bytes = 228 * 1024,
        .host_va_bits = 57,
        .bar0_overtakes = true,
        .compr_page_bytes = 128 * 1024,
        .vidmem_bytes = 8 * GIB,
        .bar1_bytes = 8 * GIB,
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
        .classes = gb202_classes,
        .qmd_major = 5,
        .n_gpc = 2,
        .n_tpc_per_gpc = 2,
        .n_tpc = 4,
        .n_sm_per_tpc = 2,
        .max_warps_per_sm = 48,
        .n_copy_engines = 8,
        .grce_mask = 0x1,
        .max_shared_bytes = 100 * 1024,
        .host_va_bits = 57,
        .bar0_overtakes = true,
        .compr_page_bytes = 128 * 1024,
        .vidmem_bytes = 8 * GIB,
        .bar1_bytes = 8 * GIB,
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
