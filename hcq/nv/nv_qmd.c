/* Launch descriptors of three versions, and constant bank 0. */
#include "hcq/nv/nv_qmd.h"

#include <assert.h>
#include <string.h>

#include "base/bits.h"
#include "hcq/nv/nv_command.h"
#include "hcq/nv/regs/nv_cbank.h"
#include "hcq/nv/regs/nv_compute.h"
#include "hcq/nv/regs/nv_qmd.h"

/* src: hw/nv/BRINGUP.md section 9 (which version, actions), CUBIN.md sections
 * 4 (shared memory), 6 (bank 0) */
static const struct nv_launch launches[] = {
    {
        .major = 3,
        .qmd_dw = NV_QMD_V3_DW,
        .action = NV_COMPUTE_PCAS_ACTION_INVALIDATE_COPY_SCHEDULE,
        .shared_align = 0x80,
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
    },
    {
        .major = 4,
        .releases = true,
        .qmd_dw = NV_QMD_V4_DW,
        .action = NV_COMPUTE_PCAS_ACTION_INVALIDATE_PREFETCH_COPY_SCHEDULE,
        .shared_align = 0x100,
        .reserve_in_static = true,
        .has_sass_version = true,
        .has_textures = true,
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
    },
    {
        .major = 5,
        .qmd_dw = NV_QMD_V5_DW,
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
    },
};

const struct nv_launch *
nv_launch_find(uint32_t major)
{
    size_t i;

    for (i = 0; i < ARRAY_LEN(launches); i++) {
        if (launches[i].major == major)
            return &launches[i];
    }
    return NULL;
}

/* ---- shared memory of an SM ------------------------------------------------ */

/* The sizes that an SM's shared memory can have; less than 32 KiB would hold
 * fewer blocks than an SM runs, each has 1 KiB. src: hw/nv/CUBIN.md section 4
 */
static const uint16_t smem_sizes_kib[] = {32, 64, 100, 132, 164, 196, 228};

uint32_t
nv_smem_kib(uint64_t bytes, uint32_t max_kib)
{
    size_t i;

    for (i = 0; i < ARRAY_LEN(smem_sizes_kib); i++) {
        if (smem_sizes_kib[i] >= max_kib)
            break;
        if (smem_sizes_kib[i] * 1024ull >= bytes)
            return smem_sizes_kib[i];
    }
    return max_kib;
}

/* As the descriptor says it. */
static uint32_t
smem_config(uint32_t kib)
{
    return kib / 4 + 1;
}

/* ---- descriptors ------------------------------------------------------------- */

static bell_status
template_v3(const struct nv_qmd_desc *d, uint32_t *qmd)
{
    struct nv_qmd_v3 q = {
        .qmd_group_id = 0x3f,
        .sm_global_caching_enable = true,
        .invalidate_texture_header_cache = d->invalidate_textures,
        .invalidate_texture_sampler_cache = d->invalidate_textures,
        .invalidate_texture_data_cache = d->invalidate_textures,
        .invalidate_shader_data_cache = d->invalidate_data,
        .api_visible_call_limit = NV_QMD_CALL_LIMIT_NO_CHECK,
        .sampler_index = NV_QMD_SAMPLER_INDEX_INDEPENDENTLY,
        .cwd_membar_type = NV_QMD_MEMBAR_L1_SYSMEMBAR,
        .shared_memory_size = d->shared_bytes,
        .min_smem_config = smem_config(d->min_smem_kib),
        .max_smem_config = smem_config(d->max_smem_kib),
        .target_smem_config = smem_config(d->target_smem_kib),
        .local_high_size = d->local_bytes,
        .register_count = d->n_regs,
        .barrier_count = d->n_barriers,
        .program_address = d->program_va,
        .sass_version = d->sass_version,
    };
    unsigned i;

    for (i = 0; i < NV_QMD_BANKS; i++) {
        q.cbuf_valid[i] = q.cbuf_invalidate[i] = d->banks[i].size_bytes != 0;
        q.cbuf_addr[i] = d->banks[i].va;
        q.cbuf_size[i] = d->banks[i].size_bytes;
    }
    BELL_TRY(nv_try_qmd_v3(&q, qmd));
    return BELL_OK;
}

static bell_status
template_v4(const struct nv_qmd_desc *d, uint32_t *qmd)
{
    struct nv_qmd_v4 q = {
        .qmd_type = NV_QMD_TYPE_GRID_CTA,
        .cbuf_prefetch[0] = NV_QMD_CBUF_PREFETCH_PREFETCH_PRE,
        .invalidate_texture_header_cache = d->invalidate_textures,
        .invalidate_texture_sampler_cache = d->invalidate_textures,
        .invalidate_texture_data_cache = d->invalidate_textures,
        .invalidate_shader_data_cache = d->invalidate_data,
        .api_visible_call_limit = NV_QMD_CALL_LIMIT_NO_CHECK,
        .sampler_index = NV_QMD_SAMPLER_INDEX_INDEPENDENTLY,
        .cwd_membar_type = NV_QMD_MEMBAR_L1_SYSMEMBAR,
        .shared_memory_size = d->shared_bytes,
        .min_smem_config = smem_config(d->min_smem_kib),
        .max_smem_config = smem_config(d->max_smem_kib),
        .target_smem_config = smem_config(d->target_smem_kib),
        .local_high_size = d->local_bytes,
        .register_count = d->n_regs,
        .barrier_count = d->n_barriers,
        .program_address = d->program_va,
        .sass_version = d->sass_version,
    };
    unsigned i;

    for (i = 0; i < NV_QMD_BANKS; i++) {
        q.cbuf_valid[i] = q.cbuf_invalidate[i] = d->banks[i].size_bytes != 0;
        q.cbuf_addr[i] = d->banks[i].va;
        q.cbuf_size[i] = d->banks[i].size_bytes;
    }
    BELL_TRY(nv_try_qmd_v4(&q, qmd));
    return BELL_OK;
}

static bell_status
template_v5(const struct nv_qmd_desc *d, uint32_t *qmd)
{
    struct nv_qmd_v5 q = {
        .qmd_type = NV_QMD_TYPE_GRID_CTA,
        .qmd_group_id = 0x1f,
        .invalidate_texture_header_cache = d->invalidate_textures,
        .invalidate_texture_sampler_cache = d->invalidate_textures,
        .invalidate_texture_data_cache = d->invalidate_textures,
        .invalidate_shader_data_cache = d->invalidate_data,
        .api_visible_call_limit = NV_QMD_CALL_LIMIT_NO_CHECK,
        .sampler_index = NV_QMD_SAMPLER_INDEX_INDEPENDENTLY,
        .cwd_membar_type = NV_QMD_MEMBAR_L1_SYSMEMBAR,
        .shared_memory_size = d->shared_bytes,
        .min_smem_config = smem_config(d->min_smem_kib),
        .max_smem_config = smem_config(d->max_smem_kib),
        .target_smem_config = smem_config(d->target_smem_kib),
        .local_high_size = d->local_bytes,
        .register_count = d->n_regs,
        .barrier_count = d->n_barriers,
        .program_address = d->program_va,
        .sass_version = d->sass_version,
    };
    unsigned i;

    for (i = 0; i < NV_QMD_BANKS; i++) {
        q.cbuf_valid[i] = q.cbuf_invalidate[i] = d->banks[i].size_bytes != 0;
        q.cbuf_addr[i] = d->banks[i].va;
        q.cbuf_size[i] = d->banks[i].size_bytes;
    }
    BELL_TRY(nv_try_qmd_v5(&q, qmd));
    return BELL_OK;
}

bell_status
nv_qmd_template(const struct nv_launch *launch, const struct nv_qmd_desc *desc,
                uint32_t *qmd)
{
    if (launch->major == 3)
        BELL_TRY(template_v3(desc, qmd));
    else if (launch->major == 4)
        BELL_TRY(template_v4(desc, qmd));
    else
        BELL_TRY(template_v5(desc, qmd));
    return BELL_OK;
}

static inline void
set_v3(uint32_t *qmd, const uint32_t grid[3], const uint32_t local[3],
       uint64_t bank0_va)
{
    nv_set_qmd_v3_grid_width(qmd, grid[0]);
    nv_set_qmd_v3_grid_height(qmd, grid[1]);
    nv_set_qmd_v3_grid_depth(qmd, grid[2]);
    nv_set_qmd_v3_cta_x(qmd, local[0]);
    nv_set_qmd_v3_cta_y(qmd, local[1]);
    nv_set_qmd_v3_cta_z(qmd, local[2]);
    nv_set_qmd_v3_cbuf_addr(qmd, 0, bank0_va);
}

static inline void
set_v4(uint32_t *qmd, const uint32_t grid[3], const uint32_t local[3],
       uint64_t bank0_va)
{
    nv_set_qmd_v4_grid_width(qmd, grid[0]);
    nv_set_qmd_v4_grid_height(qmd, grid[1]);
    nv_set_qmd_v4_grid_depth(qmd, grid[2]);
    nv_set_qmd_v4_cta_x(qmd, local[0]);
    nv_set_qmd_v4_cta_y(qmd, local[1]);
    nv_set_qmd_v4_cta_z(qmd, local[2]);
    nv_set_qmd_v4_cbuf_addr(qmd, 0, bank0_va);
}

static inline void
set_v5(uint32_t *qmd, const uint32_t grid[3], const uint32_t local[3],
       uint64_t bank0_va)
{
    nv_set_qmd_v5_grid_width(qmd, grid[0]);
    nv_set_qmd_v5_grid_height(qmd, grid[1]);
    nv_set_qmd_v5_grid_depth(qmd, grid[2]);
    nv_set_qmd_v5_cta_x(qmd, local[0]);
    nv_set_qmd_v5_cta_y(qmd, local[1]);
    nv_set_qmd_v5_cta_z(qmd, local[2]);
    nv_set_qmd_v5_cbuf_addr(qmd, 0, bank0_va);
}

void
nv_qmd_set(const struct nv_launch *launch, uint32_t *qmd,
           const uint32_t grid[3], const uint32_t local[3], uint64_t bank0_va)
{
    if (launch->major == 3)
        set_v3(qmd, grid, local, bank0_va);
    else if (launch->major == 4)
        set_v4(qmd, grid, local, bank0_va);
    else
        set_v5(qmd, grid, local, bank0_va);
}

/* ---- chains ------------------------------------------------------------------ */

/* Schedules the next descriptor from memory, not from the scheduler's copy,
 * which may be of an earlier launch there; reads it ahead. src: hcq/nv/regs/
 * nv_qmd.regs for Hopper; tinygrad chains with action SCHEDULE on Ampere, Ada
 * and Blackwell; guess: that INVALIDATE_COPY_SCHEDULE does as well there. */
static inline void
link_v3(uint32_t *qmd, uint64_t next_va)
{
    nv_set_qmd_v3_dependent_qmd0_pointer(qmd, (uint32_t)(next_va >> 8));
    nv_set_qmd_v3_dependent_qmd0_enable(qmd, true);
    nv_set_qmd_v3_dependent_qmd0_action(
        qmd, NV_QMD_DEPENDENT_ACTION_QMD_INVALIDATE_COPY_SCHEDULE);
    nv_set_qmd_v3_dependent_qmd0_prefetch(qmd, true);
}

/* The next one's membar is of the system; this one's need only be of the card,
 * and the next may be set up meanwhile. observed: H100, 2026-11-22: libcuda's
 * descriptors of a graph say so */
static inline void
link_v4(uint32_t *qmd, uint64_t next_va)
{
    nv_set_qmd_v4_dependent_qmd0_pointer(qmd, (uint32_t)(next_va >> 8));
    nv_set_qmd_v4_dependent_qmd_enable(qmd, 0, true);
    nv_set_qmd_v4_dependent_qmd_action(
        qmd, 0, NV_QMD_DEPENDENT_ACTION_QMD_INVALIDATE_COPY_SCHEDULE);
    nv_set_qmd_v4_dependent_qmd_prefetch(qmd, 0, true);
    nv_set_qmd_v4_cwd_membar_type(qmd, NV_QMD_MEMBAR_L1_MEMBAR);
    nv_set_qmd_v4_membar_chasing(qmd, true);
}

static inline void
link_v5(uint32_t *qmd, uint64_t next_va)
{
    nv_set_qmd_v5_dependent_qmd_pointer(qmd, 0, (uint32_t)(next_va >> 8));
    nv_set_qmd_v5_dependent_qmd_enable(qmd, 0, true);
    nv_set_qmd_v5_dependent_qmd_action(
        qmd, 0, NV_QMD_DEPENDENT_ACTION_QMD_INVALIDATE_COPY_SCHEDULE);
    nv_set_qmd_v5_dependent_qmd_prefetch(qmd, 0, true);
}

static void
put_link(const struct nv_launch *launch, uint32_t *qmd, uint64_t next_va)
{
    if (launch->major == 3)
        link_v3(qmd, next_va);
    else if (launch->major == 4)
        link_v4(qmd, next_va);
    else
        link_v5(qmd, next_va);
}

/* After the descriptor's own membar. observed: H100, 2026-11-22: libcuda's
 * launches do so, and it is 0.8 us sooner than a release of the host engine
 * that waits for idle. */
static inline void
release_v4(uint32_t *qmd, const struct nv_after *after)
{
    nv_set_qmd_v4_release_enable(qmd, 0, true);
    nv_set_qmd_v4_release_structure_size(
        qmd, 0, NV_QMD_RELEASE_SIZE_SEMAPHORE_TWO_WORDS);
    nv_set_qmd_v4_release_payload64b(qmd, 0, true);
    nv_set_qmd_v4_release_semaphore0_addr(qmd, after->release_va);
    nv_set_qmd_v4_release_semaphore0_payload(qmd, after->release_value);
}

/* ---- constant bank 0 ---------------------------------------------------------- */

void
nv_bank0_template(const struct nv_launch *launch, const struct nv_chip *chip,
                  uint32_t dynamic_shared, uint32_t not_of_block, void *bank)
{
    const uint32_t stack = NV_CBANK_STACK_POINTER;
    uint8_t *bytes = bank;

    memset(bytes, 0, launch->bank_bytes);
    memcpy(bytes + launch->shared_window, &chip->shared_window, 8);
    memcpy(bytes + launch->local_window, &chip->local_window, 8);
    memcpy(bytes + launch->stack, &stack, 4);
    memcpy(bytes + launch->dynamic_shared, &dynamic_shared, 4);
    memcpy(bytes + launch->total_shared, &not_of_block, 4);
    memcpy(bytes + launch->n_sm, &chip->n_sm, 4);
}

/* ---- a launch -------------------------------------------------------------------- */

uint32_t
nv_launch_bank0(const struct nv_program *prog)
{
    return (uint32_t)align_up(prog->launch->qmd_dw * 4, NV_UNIT_BYTES);
}

uint32_t
nv_launch_bytes(const struct nv_program *prog)
{
    return nv_launch_bank0(prog) +
           (uint32_t)align_up(prog->bank0_bytes, NV_UNIT_BYTES);
}

void
nv_launch_write(const struct nv_program *prog, const uint32_t grid[3],
                const uint32_t local[3], const uint64_t *args, uint32_t n_args,
                uint64_t va, uint8_t *out, const struct nv_after *after)
{
    const struct nv_launch *launch = prog->launch;
    uint32_t qmd[NV_QMD_MAX_DW];
    uint64_t bank[(NV_BANK0_HEAD_MAX + HCQ_ARGS_MAX * 8) / 8 + 2];
    uint8_t *bytes = (uint8_t *)bank;
    uint32_t bank_at = nv_launch_bank0(prog);
    uint64_t param_va = va + bank_at + prog->param_offset;

    assert(prog->param_offset <= NV_BANK0_HEAD_MAX && n_args <= HCQ_ARGS_MAX);
    memcpy(qmd, prog->qmd, launch->qmd_dw * 4);
    nv_qmd_set(launch, qmd, grid, local, va + bank_at);
    if (after->links)
        put_link(launch, qmd, va + prog->data_bytes);
    else if (after->release_va)
        release_v4(qmd, after);
    memcpy(out, qmd, launch->qmd_dw * 4);

    memcpy(bytes, prog->bank0, prog->param_offset);
    memcpy(bytes + launch->ntid, local, 12);
    memcpy(bytes + launch->nctaid, grid, 12);
    if (launch->param_address)
        memcpy(bytes + launch->param_address, &param_va, 8);
    if (n_args)
        memcpy(bytes + prog->param_offset, args, n_args * 8);
    /* What follows the parameters up to the bank's size. */
    memset(bytes + prog->param_offset + n_args * 8, 0,
           prog->bank0_bytes - prog->param_offset - n_args * 8);
    memcpy(out + bank_at, bytes, prog->bank0_bytes);
}
