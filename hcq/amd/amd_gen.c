/* The generations: everything that differs between families of chips, in one
 * table; what differs between chips of a family is in base/chip.c.
 * src: docs/hardware/amd.md, "Generations";
 * docs/hardware/amd-kernel.md, "Save area"; docs/hardware/amd-queues.md,
 * "Scratch", "Caches", "Copies (SDMA)". */
#include <string.h>

#include "base/bits.h"
#include "base/chip.h"
#include "hcq/amd/amd.h"
#include "hcq/amd/regs/amd_pm4.h"
#include "hcq/amd/regs/amd_sdma.h"

static_assert((int)AMD_SDMA_GEN_COUNT == (int)AMD_PM4_GEN_COUNT, "dialects");

/* Cache words: gfx9 has CP_COHER_CNTL, later ones GCR_CNTL.
 * src: docs/hardware/amd-queues.md, "Caches" */
#define GFX9_FULL     0x28c40000u
#define GFX9_LAUNCH   0x08400000u
#define GFX9_DIES     0x08c40000u
#define GFX9_RELEASE  0x00088000u
#define GFX10_FULL    0x0000c3f1u
#define GFX10_LAUNCH  0x000003f0u
#define GFX10_RELEASE 0x0070f000u
#define SDMA_UNCACHED (3u << 16)
/* Bytes of one DMA_DATA: its count has 26 bits, on gfx11 and gfx12 at most
 * 32767; with the alignment that is fastest. gfx940 and later CDNA shall not
 * use it. src: Mesa 25.0, si_cp_dma.c (cp_dma_max_byte_count), ac_gpu_info.c
 * (has_cp_dma) */
#define DMA_MAX_GFX9  (1u << 25)
#define DMA_MAX_GFX11 0x7fe0u

/* Fourth word of a scratch descriptor. src: docs/hardware/amd-queues.md,
 * "Scratch" */
#define SRD_GFX9         0x00ea4facu
#define SRD_GFX10_WAVE32 0x21c14facu
#define SRD_GFX10_WAVE64 0x21e14facu
/* src: docs/hardware/amd-code.md, "Objects" */
#define S_NOP      0xbf800000u
#define S_CODE_END 0xbf9f0000u

/* The same in all of gfx9, and from gfx10 on. */
#define GFX9                                                                   \
    .code_filler = S_NOP, .dialect = AMD_PM4_GEN_GFX9, .wave_lanes = 64,       \
    .scratch_unit_bytes = 1024, .scratch_size_bits = 13,                       \
    .save_bytes_per_wave = 8, .waves_per_cu = 40, .waves_per_array = 512,      \
    .acquire_full = GFX9_FULL, .acquire_launch = GFX9_LAUNCH,                  \
    .release_flags = GFX9_RELEASE, .max_lds_bytes = 65536
#define GFX10_ON                                                               \
    .code_filler = S_CODE_END, .wave_lanes = 32, .rsrc3_reg = 0x2e28,          \
    .sdma_fence_flags = SDMA_UNCACHED, .has_gcr = true,                        \
    .save_bytes_per_wave = 12, .waves_per_cu = 32, .acquire_full = GFX10_FULL, \
    .acquire_launch = GFX10_LAUNCH, .release_flags = GFX10_RELEASE,            \
    .max_lds_bytes = 65536

static const struct amd_gen gens[] = {
    {
        .family = "gfx906",
        GFX9,
        .srd_word3 = {SRD_GFX9},
        .dma_max_bytes = DMA_MAX_GFX9,
        .copies_by_compute = true,
    },
    {
        .family = "gfx90a",
        GFX9,
        .rsrc3_reg = 0x2e2d,
        .srd_word3 = {SRD_GFX9},
        .dma_max_bytes = DMA_MAX_GFX9,
    },
    {
        .family = "gfx942",
        GFX9,
        .rsrc3_reg = 0x2e2d,
        .architected_scratch = true,
        .uses_aql = true,
        .binds_pm4 = true,
        .move = &amd_move_gfx942,
        .acquire_dies = GFX9_DIES,
    },
    {
        .family = "gfx1010",
        GFX10_ON,
        .dialect = AMD_PM4_GEN_GFX10,
        .srd_word3 = {SRD_GFX10_WAVE64, SRD_GFX10_WAVE32},
        .scratch_unit_bytes = 1024,
        .scratch_size_bits = 13,
        .dma_max_bytes = DMA_MAX_GFX9,
        .copies_by_compute = true,
        .sdma_keeps_hdp = true,
        .keeps_host_reads = true, /* src: Linux 6.12, nv.c, hdp_v5_0.c */
        .max_stack_bytes = 0x7000,
    },
    {
        .family = "gfx1030",
        GFX10_ON,
        .dialect = AMD_PM4_GEN_GFX10,
        .srd_word3 = {SRD_GFX10_WAVE64, SRD_GFX10_WAVE32},
        .scratch_unit_bytes = 1024,
        .scratch_size_bits = 13,
        .dma_max_bytes = DMA_MAX_GFX9,
        .keeps_host_reads = true, /* src: Linux 6.12, hdp_v5_0.c */
        .max_stack_bytes = 0x7000,
    },
    {
        .family = "gfx1100",
        GFX10_ON,
        .dialect = AMD_PM4_GEN_GFX11,
        .architected_scratch = true,
        .scratch_unit_bytes = 256,
        .scratch_size_bits = 15,
        .scratch_waves_per_engine = true,
        .sets_priv = true,
        .dma_max_bytes = DMA_MAX_GFX11,
        .move = &amd_move_gfx1100,
    },
    {
        .family = "gfx1201",
        GFX10_ON,
        .dialect = AMD_PM4_GEN_GFX12,
        .architected_scratch = true,
        .scratch_unit_bytes = 256,
        .scratch_size_bits = 18,
        .scratch_waves_per_engine = true,
        .dma_max_bytes = DMA_MAX_GFX11,
        .move = &amd_move_gfx1201,
    },
};

const struct amd_gen *
amd_gen_find(uint32_t gfx_target_version)
{
    const struct chip_arch *chip = chip_amd_find(gfx_target_version);
    size_t i;

    for (i = 0; chip && i < ARRAY_LEN(gens); i++) {
        if (strcmp(gens[i].family, chip->amd.family) == 0)
            return &gens[i];
    }
    return NULL;
}
