/* The generations: everything that differs between them, in tables. */
#include "hcq/nv/nv_gen.h"

#include <assert.h>
#include <stddef.h>

#include "base/bits.h"
#include "base/chip.h"
#include "hcq/nv/regs/nv_cbank.h"
#include "hcq/nv/regs/nv_ce.h"
#include "hcq/nv/regs/nv_compute.h"
#include "hcq/nv/regs/nv_host.h"
#include "hcq/nv/regs/nv_qmd.h"
#include "ioctl/nv_uapi.h"

/* ---- launches ------------------------------------------------------------ */

/* src: docs/hardware/nvidia-queues.md, "Launch descriptors", "Launch";
 * docs/hardware/nvidia-code.md, "Shared memory", "Constant bank 0" */
static const struct nv_launch ampere = {
    .gen = NV_QMD_GEN_V3,
    .group = 0x3f,
    .action = NV_COMPUTE_PCAS_ACTION_INVALIDATE_COPY_SCHEDULE,
    .shared_align = 0x80,
    .caches_global = true,
    .has_sass_version = true,
    .has_textures = true,
    .bank_bytes = sizeof(struct nv_cbank_sm80),
    .ntid = NV_CBANK_SM80_NTID,
    .nctaid = NV_CBANK_SM80_NCTAID,
    .shared_window = NV_CBANK_SM80_SHARED_WINDOW,
    .local_window = NV_CBANK_SM80_LOCAL_WINDOW,
    .stack = NV_CBANK_SM80_STACK,
    .dynamic_shared = NV_CBANK_SM80_DYNAMIC_SHARED,
    .total_shared = NV_CBANK_SM80_TOTAL_SHARED,
    .n_sm = NV_CBANK_SM80_NSMID,
};
/* Releases and chains are as libcuda's. observed: H100, 2026-11-22 */
static const struct nv_launch hopper = {
    .gen = NV_QMD_GEN_V4,
    .qmd_type = NV_QMD_TYPE_GRID_CTA,
    .bank0_prefetch = NV_QMD_CBUF_PREFETCH_PREFETCH_PRE,
    .action = NV_COMPUTE_PCAS_ACTION_INVALIDATE_PREFETCH_COPY_SCHEDULE,
    .shared_align = 0x100,
    .reserve_in_static = true,
    .has_sass_version = true,
    .has_textures = true,
    .releases = true,
    .chases = true,
    .bank_bytes = sizeof(struct nv_cbank_sm90),
    .ntid = NV_CBANK_SM90_NTID,
    .nctaid = NV_CBANK_SM90_NCTAID,
    .shared_window = NV_CBANK_SM90_SHARED_WINDOW,
    .local_window = NV_CBANK_SM90_LOCAL_WINDOW,
    .stack = NV_CBANK_SM90_STACK,
    .dynamic_shared = NV_CBANK_SM90_DYNAMIC_SHARED,
    .total_shared = NV_CBANK_SM90_TOTAL_SHARED,
    .n_sm = NV_CBANK_SM90_NSMID,
    .param_address = NV_CBANK_SM90_PARAM_ADDRESS,
};
static const struct nv_launch blackwell = {
    .gen = NV_QMD_GEN_V5,
    .qmd_type = NV_QMD_TYPE_GRID_CTA,
    .group = 0x1f,
    .action = NV_COMPUTE_PCAS_ACTION_INVALIDATE_PREFETCH_COPY_SCHEDULE,
    .shared_align = 0x100,
    .reserve_in_static = true,
    .bank_bytes = sizeof(struct nv_cbank_sm100),
    .ntid = NV_CBANK_SM100_NTID,
    .nctaid = NV_CBANK_SM100_NCTAID,
    .shared_window = NV_CBANK_SM100_SHARED_WINDOW,
    .local_window = NV_CBANK_SM100_LOCAL_WINDOW,
    .stack = NV_CBANK_SM100_STACK,
    .dynamic_shared = NV_CBANK_SM100_DYNAMIC_SHARED,
    .total_shared = NV_CBANK_SM100_TOTAL_SHARED,
    .n_sm = NV_CBANK_SM100_NSMID,
    .param_address = NV_CBANK_SM100_PARAM_ADDRESS,
};

/* ---- classes ------------------------------------------------------------- */

/* Best first, up to one without a number. src: docs/hardware/nvidia-kernel.md,
 * "Classes"; semaphores of Hopper and later do not list ACQ_AND and ACQ_NOR
 * (open-gpu-doc, clc86f.h, clca6f.h) */
/* clang-format off */
static const struct nv_class classes[NV_CLASS_KIND_COUNT][7] = {
    [NV_CLASS_HOST] = {
        {BLACKWELL_CHANNEL_GPFIFO_B, NV_HOST_GEN_CA6F, 57, .unproven = true},
        {BLACKWELL_CHANNEL_GPFIFO_A, NV_HOST_GEN_C96F, 57, .has_mem_op = true,
         .unproven = true},
        {HOPPER_CHANNEL_GPFIFO_A, NV_HOST_GEN_C86F, 57, .has_mem_op = true},
        {AMPERE_CHANNEL_GPFIFO_A, NV_HOST_GEN_C56F, 40, .has_mem_op = true,
         .polls_bits = true},
    },
    [NV_CLASS_COMPUTE] = {
        {BLACKWELL_COMPUTE_B, NV_COMPUTE_GEN_CEC0, .launch = &blackwell},
        {BLACKWELL_COMPUTE_A, NV_COMPUTE_GEN_CDC0, .launch = &blackwell},
        {HOPPER_COMPUTE_A, NV_COMPUTE_GEN_CBC0, .launch = &hopper},
        {ADA_COMPUTE_A, NV_COMPUTE_GEN_C9C0, .launch = &ampere},
        {AMPERE_COMPUTE_B, NV_COMPUTE_GEN_C7C0, .launch = &ampere},
        {AMPERE_COMPUTE_A, NV_COMPUTE_GEN_C6C0, .launch = &ampere},
    },
    [NV_CLASS_COPY] = {
        {BLACKWELL_DMA_COPY_B, NV_CE_GEN_CAB5, 57},
        {BLACKWELL_DMA_COPY_A, NV_CE_GEN_C9B5, 57},
        {HOPPER_DMA_COPY_A, NV_CE_GEN_C8B5, 57},
        {AMPERE_DMA_COPY_B, NV_CE_GEN_C7B5, 49},
        {AMPERE_DMA_COPY_A, NV_CE_GEN_C6B5, 49},
    },
    [NV_CLASS_USERMODE] = {
        {BLACKWELL_USERMODE_A, .has_bar1 = true},
        {HOPPER_USERMODE_A, .has_bar1 = true},
        {AMPERE_USERMODE_A},
        {TURING_USERMODE_A},
        {VOLTA_USERMODE_A},
    },
};
/* clang-format on */

const struct nv_class *
nv_class_best(enum nv_class_kind kind, const uint32_t *numbers, uint32_t n)
{
    const struct nv_class *row;
    uint32_t i;

    assert(kind < NV_CLASS_KIND_COUNT);
    for (row = classes[kind]; row->number; row++) {
        for (i = 0; i < n; i++) {
            if (numbers[i] == row->number)
                return row;
        }
    }
    return NULL;
}

/* ---- chips --------------------------------------------------------------- */

/* The lowest chip of each class first. Versions are those of the hardware, as
 * NVIDIA's ctrl2080gr.h lists them: it has 8_02 and no 8_00, and says that 12_x
 * replaces 10_04. src: docs/hardware/nvidia-kernel.md, "Queries";
 * docs/hardware/nvidia-code.md, "Shared memory"; guess: which classes
 * 0x807, 0xa01 and 0xa03 come with, and that 0xa01 is sm_101; an A100's 0x802
 * has not been seen. */
static const struct nv_gen gens[] = {
    {0x802, AMPERE_COMPUTE_A, 80, 80, 163},
    {0x800, AMPERE_COMPUTE_A, 80, 80, 163},
    {0x806, AMPERE_COMPUTE_B, 86, 86, 99},
    {0x807, AMPERE_COMPUTE_B, 87, 86, 163},
    {0x809, ADA_COMPUTE_A, 89, 89, 99},
    {0x900, HOPPER_COMPUTE_A, 90, 90, 227},
    {0xa00, BLACKWELL_COMPUTE_A, 100, 100, 227},
    {0xa01, BLACKWELL_COMPUTE_A, 101, 100, 227},
    {0xa03, BLACKWELL_COMPUTE_A, 103, 100, 227},
    {0xa04, BLACKWELL_COMPUTE_B, 120, 120, 99},
    {0xc00, BLACKWELL_COMPUTE_B, 120, 120, 99},
    {0xc01, BLACKWELL_COMPUTE_B, 121, 120, 99},
};

const struct nv_gen *
nv_gen_find(uint32_t sm_version, uint32_t compute_class, bool *out_known)
{
    const struct nv_gen *lowest = NULL;
    size_t i;

    for (i = 0; i < ARRAY_LEN(gens); i++) {
        if (gens[i].compute_class != compute_class)
            continue;
        *out_known = gens[i].sm_version == sm_version;
        if (*out_known)
            return &gens[i];
        if (!lowest)
            lowest = &gens[i];
    }
    assert(lowest); /* every class of the table above has a chip */
    return lowest;
}

/* src: NVIDIA's class headers (clc3c0.h, clc5c0.h) */
static const struct {
    uint32_t compute_class;
    const char *chip;
} too_old[] = {
    {0xc5c0, "sm_75"},
    {0xc3c0, "sm_70"},
};

const char *
nv_gen_too_old(const uint32_t *numbers, uint32_t n)
{
    size_t i;
    uint32_t k;

    for (i = 0; i < ARRAY_LEN(too_old); i++) {
        for (k = 0; k < n; k++) {
            if (numbers[k] == too_old[i].compute_class)
                return chip_why_refused(too_old[i].chip);
        }
    }
    return NULL;
}

bool
nv_gen_runs(uint32_t code_sm, uint32_t chip_sm)
{
    return code_sm / 10 == chip_sm / 10 && code_sm <= chip_sm;
}
