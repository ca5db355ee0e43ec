/* Launch descriptors and constant bank 0. */
#include "hcq/nv/nv_qmd.h"

#include <assert.h>
#include <string.h>

#include "base/bits.h"
#include "hcq/nv/nv_command.h"
#include "hcq/nv/regs/nv_cbank.h"
#include "hcq/nv/regs/nv_qmd.h"

/* ---- shared memory of an SM ---------------------------------------------- */

/* The sizes that an SM's shared memory can have; less than 32 KiB would hold
 * fewer blocks than an SM runs, each has 1 KiB.
 * src: docs/hardware/nvidia-code.md, "Shared memory" */
static const uint16_t smem_sizes_kib[] = {32, 64, 100, 132, 164, 196, 228};

uint32_t
nv_smem_kib(uint64_t bytes, uint32_t max_kib)
{
    size_t i;

    assert(max_kib >= smem_sizes_kib[0] && max_kib % 4 == 0);
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

/* ---- descriptors --------------------------------------------------------- */

bell_status
nv_qmd_template(const struct nv_launch *launch, const struct nv_qmd_desc *desc,
                uint32_t *qmd)
{
    struct nv_qmd_launch q = {
        .qmd_type = launch->qmd_type,
        .qmd_group_id = launch->group,
        .sm_global_caching_enable = launch->caches_global,
        .cbuf_prefetch[0] = launch->bank0_prefetch,
        .invalidate_texture_header_cache = desc->invalidate_textures,
        .invalidate_texture_sampler_cache = desc->invalidate_textures,
        .invalidate_texture_data_cache = desc->invalidate_textures,
        .invalidate_shader_data_cache = desc->invalidate_data,
        .api_visible_call_limit = NV_QMD_CALL_LIMIT_NO_CHECK,
        .sampler_index = NV_QMD_SAMPLER_INDEX_INDEPENDENTLY,
        .cwd_membar_type = NV_QMD_MEMBAR_L1_SYSMEMBAR,
        .shared_memory_size = desc->shared_bytes,
        .min_smem_config = smem_config(desc->min_smem_kib),
        .max_smem_config = smem_config(desc->max_smem_kib),
        .target_smem_config = smem_config(desc->target_smem_kib),
        .local_high_size = desc->local_bytes,
        .register_count = desc->n_regs,
        .barrier_count = desc->n_barriers,
        .program_address = desc->program_va,
        .sass_version = desc->sass_version,
    };
    unsigned i;

    for (i = 0; i < NV_QMD_BANKS; i++) {
        q.cbuf_valid[i] = q.cbuf_invalidate[i] = desc->banks[i].size_bytes != 0;
        q.cbuf_addr[i] = desc->banks[i].va;
        q.cbuf_size[i] = desc->banks[i].size_bytes;
    }
    BELL_TRY(nv_try_qmd_launch(launch->gen, &q, qmd));
    return BELL_OK;
}

/* Schedules the next descriptor from memory, not from the scheduler's copy,
 * which may be of an earlier launch there; reads it ahead. The next one's
 * membar is of the system. src: hcq/nv/regs/nv_qmd.regs for Hopper (observed:
 * H100, 2026-11-22: libcuda's descriptors of a graph say so); tinygrad 0.14
 * chains with action SCHEDULE on Ampere, Ada and Blackwell; guess: that
 * INVALIDATE_COPY_SCHEDULE does as well there. */
static inline void
put_link(enum nv_qmd_gen gen, const struct nv_launch *launch, uint32_t *qmd,
         uint64_t next_va)
{
    assert(next_va % NV_UNIT_BYTES == 0);
    nv_set_qmd_launch_dependent_qmd0_pointer(gen, qmd,
                                             (uint32_t)(next_va >> 8));
    nv_set_qmd_launch_dependent_qmd_enable(gen, qmd, 0, true);
    nv_set_qmd_launch_dependent_qmd_action(
        gen, qmd, 0, NV_QMD_DEPENDENT_ACTION_QMD_INVALIDATE_COPY_SCHEDULE);
    nv_set_qmd_launch_dependent_qmd_prefetch(gen, qmd, 0, true);
    if (launch->chases) {
        nv_set_qmd_launch_cwd_membar_type(gen, qmd, NV_QMD_MEMBAR_L1_MEMBAR);
        nv_set_qmd_launch_membar_chasing(gen, qmd, true);
    }
}

/* After the descriptor's own membar. observed: H100, 2026-11-22: libcuda's
 * launches do so, and it is 0.8 us sooner than a release of the host engine
 * that waits for idle. */
static inline void
put_qmd_release(enum nv_qmd_gen gen, uint32_t *qmd,
                const struct nv_after *after)
{
    nv_set_qmd_launch_release0_enable(gen, qmd, true);
    nv_set_qmd_launch_release0_size(gen, qmd,
                                    NV_QMD_RELEASE_SIZE_SEMAPHORE_TWO_WORDS);
    nv_set_qmd_launch_release0_payload64b(gen, qmd, true);
    nv_set_qmd_launch_release0_addr(gen, qmd, after->release_va);
    nv_set_qmd_launch_release0_payload(gen, qmd, after->release_value);
}

/* ---- constant bank 0 ----------------------------------------------------- */

void
nv_bank0_template(const struct nv_launch *launch, const struct nv_chip *chip,
                  uint32_t dynamic_shared, uint32_t not_of_block, void *bank)
{
    const uint32_t stack = NV_CBANK_STACK_POINTER;
    uint8_t *bytes = bank;

    assert(launch->n_sm + 4u <= launch->bank_bytes);
    memset(bytes, 0, launch->bank_bytes);
    memcpy(bytes + launch->shared_window, &chip->shared_window, 8);
    memcpy(bytes + launch->local_window, &chip->local_window, 8);
    memcpy(bytes + launch->stack, &stack, 4);
    memcpy(bytes + launch->dynamic_shared, &dynamic_shared, 4);
    memcpy(bytes + launch->total_shared, &not_of_block, 4);
    memcpy(bytes + launch->n_sm, &chip->n_sm, 4);
}

/* ---- a launch ------------------------------------------------------------ */

uint32_t
nv_launch_bank0(const struct nv_program *prog)
{
    return (uint32_t)align_up(nv_size_qmd_launch(prog->launch->gen) * 4ull,
                              NV_UNIT_BYTES);
}

void
nv_launch_measure(struct nv_program *prog)
{
    assert(prog->param_offset <= prog->bank0_bytes);
    prog->data_bytes = nv_launch_bank0(prog) +
                       (uint32_t)align_up(prog->bank0_bytes, NV_UNIT_BYTES);
    prog->base.extent = (struct hcq_extent){
        .n_dw = NV_LAUNCH_DW,
        .n_units = prog->data_bytes / NV_UNIT_BYTES,
    };
    prog->base.bound = prog->base.extent;
}

/* What of a descriptor is a launch's own. */
struct launch_fields {
    const uint32_t *grid, *local;
    uint64_t bank_va, next_va;
    const struct nv_after *after;
};

static inline __attribute__((always_inline)) void
set_fields(enum nv_qmd_gen gen, const struct nv_launch *launch, uint32_t *qmd,
           const struct launch_fields *f)
{
    nv_set_qmd_launch_grid_width(gen, qmd, f->grid[0]);
    nv_set_qmd_launch_grid_height(gen, qmd, f->grid[1]);
    nv_set_qmd_launch_grid_depth(gen, qmd, f->grid[2]);
    nv_set_qmd_launch_cta_x(gen, qmd, f->local[0]);
    nv_set_qmd_launch_cta_y(gen, qmd, f->local[1]);
    nv_set_qmd_launch_cta_z(gen, qmd, f->local[2]);
    nv_set_qmd_launch_cbuf_addr(gen, qmd, 0, f->bank_va);
    if (f->after->links)
        put_link(gen, launch, qmd, f->next_va);
    else if (f->after->release_va)
        put_qmd_release(gen, qmd, f->after);
}

#define LINE_BYTES 64u

/* Whole lines. The compiler's own copy of so many bytes is one instruction,
 * which takes long to begin. */
static inline __attribute__((always_inline)) void
copy_lines(void *to, const void *from, uint32_t n_bytes)
{
    uint32_t i;

    assert(n_bytes % LINE_BYTES == 0);
#pragma GCC unroll 8
    for (i = 0; i < n_bytes; i += LINE_BYTES)
        memcpy((uint8_t *)to + i, (const uint8_t *)from + i, LINE_BYTES);
}

/* One for each column of the descriptor: its size, and the positions in it, are
 * constants there. */
#define PUT_DESCRIPTOR(gen)                                                    \
    static void put_descriptor_##gen(const struct nv_program *prog,            \
                                     const struct launch_fields *f, void *out) \
    {                                                                          \
        uint32_t qmd[NV_QMD_LAUNCH_DW];                                        \
        uint32_t n_bytes = nv_size_qmd_launch((enum nv_qmd_gen)gen) * 4;       \
                                                                               \
        copy_lines(qmd, prog->qmd, n_bytes);                                   \
        set_fields((enum nv_qmd_gen)gen, prog->launch, qmd, f);                \
        copy_lines(out, qmd, n_bytes);                                         \
    }
PUT_DESCRIPTOR(0)
PUT_DESCRIPTOR(1)
PUT_DESCRIPTOR(2)

static void (*const put_descriptor[])(const struct nv_program *prog,
                                      const struct launch_fields *f,
                                      void *out) = {
    put_descriptor_0,
    put_descriptor_1,
    put_descriptor_2,
};
static_assert(ARRAY_LEN(put_descriptor) == NV_QMD_GEN_COUNT, "columns");

/* Bank 0 up to the parameters: the template, and in their order among it the
 * sizes, which are in one line, and the parameters' address. */
static inline void
put_bank0_head(const struct nv_program *prog, const struct launch_fields *f,
               uint64_t param_va, uint8_t *out)
{
    const struct nv_launch *launch = prog->launch;
    const uint8_t *from = (const void *)prog->bank0;
    uint32_t line_at = launch->ntid & -LINE_BYTES, at = line_at + LINE_BYTES;
    uint32_t address_at = launch->param_address;
    uint8_t line[LINE_BYTES];

    assert(launch->nctaid + 12 <= at && at <= prog->param_offset);
    if (line_at)
        memcpy(out, from, line_at);
    memcpy(line, from + line_at, sizeof(line));
    memcpy(line + launch->ntid - line_at, f->local, 12);
    memcpy(line + launch->nctaid - line_at, f->grid, 12);
    if (address_at > line_at && address_at < at)
        memcpy(line + address_at - line_at, &param_va, 8);
    memcpy(out + line_at, line, sizeof(line));
    if (address_at >= at) {
        memcpy(out + at, from + at, address_at - at);
        memcpy(out + address_at, &param_va, 8);
        at = address_at + 8;
    }
    memcpy(out + at, from + at, prog->param_offset - at);
}

void
nv_launch_write(const struct nv_program *prog, const uint32_t grid[3],
                const uint32_t local[3], const uint64_t *args, uint32_t n_args,
                uint64_t va, uint8_t *out, const struct nv_after *after)
{
    uint32_t bank_at = nv_launch_bank0(prog), n_left, i;
    const struct launch_fields fields = {
        .grid = grid,
        .local = local,
        .bank_va = va + bank_at,
        .next_va = va + prog->data_bytes,
        .after = after,
    };

    assert(n_args <= HCQ_ARGS_MAX);
    assert(va % NV_UNIT_BYTES == 0);
    assert(prog->param_offset + n_args * 8 <= prog->bank0_bytes);
    put_descriptor[prog->launch->gen](prog, &fields, out);
    out += bank_at;
    put_bank0_head(prog, &fields, fields.bank_va + prog->param_offset, out);
    out += prog->param_offset;
    for (i = 0; i < n_args; i++)
        memcpy(out + i * 8, &args[i], 8);
    /* What follows the parameters up to the bank's size. */
    n_left = prog->bank0_bytes - prog->param_offset - n_args * 8;
    if (n_left)
        memset(out + n_args * 8, 0, n_left);
}
