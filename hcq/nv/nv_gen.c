/* The generations: everything that differs between them, in tables. */
#include "hcq/nv/nv_gen.h"

#include <stdio.h>

#include "base/bits.h"
#include "hcq/nv/regs/nv_cbank.h"
#include "hcq/nv/regs/nv_ce.h"
#include "hcq/nv/regs/nv_compute.h"
#include "hcq/nv/regs/nv_host.h"
#include "hcq/nv/regs/nv_qmd.h"
#include "ioctl/nv_uapi.h"

/* ---- launches ---------------------------------------------------------------- */

/* src: hw/nv/BRINGUP.md section 9 (which version, actions), CUBIN.md sections
 * 4 (shared memory), 6 (bank 0) */
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

/* ---- classes ----------------------------------------------------------------- */

/* Best first, up to one without a number. src: hw/nv/BRINGUP.md section 3;
 * semaphores of Hopper and later do not list ACQ_AND and ACQ_NOR (clc86f.h,
 * clca6f.h) */
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

    for (row = classes[kind]; row->number; row++) {
        for (i = 0; i < n; i++) {
            if (numbers[i] == row->number)
                return row;
        }
    }
    return NULL;
}

/* ---- chips --------------------------------------------------------------------- */

/* src: hw/nv/BRINGUP.md section 4, CUBIN.md section 4. 0x807, 0xa00: by the
 * same rule, not seen. */
static const struct nv_gen gens[] = {
    {0x800, 80, 163}, {0x806, 86, 99},   {0x807, 87, 163}, {0x809, 89, 99},
    {0x900, 90, 227}, {0xa00, 100, 227}, {0xa04, 120, 99},
};

bell_status
nv_gen_find(uint32_t sm_version, const struct nv_gen **out_gen)
{
    char known[80] = "";
    size_t i, used = 0;

    for (i = 0; i < ARRAY_LEN(gens); i++) {
        if (gens[i].sm_version == sm_version) {
            *out_gen = &gens[i];
            return BELL_OK;
        }
        used += (size_t)snprintf(known + used, sizeof(known) - used, "%ssm_%u",
                                 i ? ", " : "", gens[i].sm);
    }
    return bell_fail(BELL_E_UNSUPPORTED,
                     "the card's SM version is 0x%x, which is not known; known "
                     "are %s",
                     sm_version, known);
}

bool
nv_gen_runs(uint32_t code_sm, uint32_t chip_sm)
{
    return code_sm / 10 == chip_sm / 10 && code_sm <= chip_sm;
}
