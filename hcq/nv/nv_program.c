/* Programs: a cubin in the card's memory, and the templates of its launches.
 */
#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/bits.h"
#include "hcq/nv/nv_command.h"
#include "hcq/nv/nv_cubin.h"
#include "hcq/nv/nv_qmd.h"

/* src: docs/hardware/nvidia-code.md, "Shared memory", "Stacks", "Loading",
 * "Limits of a multiprocessor" */
#define RESERVED_SHARED_BYTES 0x400u
#define STACK_RESERVE_BYTES   0x240u
#define REGS_PER_SM           65536u
#define REG_UNIT              256u /* registers are given to warps in these */
#define WARP_THREADS          32u
#define WARPS_STEP            4u
#define BLOCKS_PER_SM         32u
#define THREADS_MAX           1024u

static struct nv_program *
nv_program_from(struct hcq_program_base *base)
{
    return HCQ_CONTAINER(base, struct nv_program, base);
}

/* ---- what the program asks for, against what the chip has ---------------- */

static bell_status
check_chip(const struct nv_device *dev, const struct nv_cubin *cubin)
{
    if (nv_gen_runs(cubin->sm, dev->chip.sm))
        return BELL_OK;
    return bell_fail(BELL_E_INVALID,
                     "program '%s': machine code for sm_%u does not run on %s, "
                     "which is sm_%u",
                     cubin->name, cubin->sm, dev->base.info.name, dev->chip.sm);
}

/* Arguments are words of 8 bytes, one after the other. */
static bell_status
check_params(const struct nv_cubin *cubin, const struct hcq_program_desc *desc)
{
    uint32_t n = desc->n_bufs + desc->n_vals, i;

    if (cubin->n_params != n)
        return bell_fail(BELL_E_INVALID,
                         "program '%s': the kernel takes %u parameters, %u + "
                         "%u arguments are described",
                         cubin->name, cubin->n_params, desc->n_bufs,
                         desc->n_vals);
    for (i = 0; i < n; i++) {
        if (cubin->params[i].size_bytes != 8 ||
            cubin->params[i].offset != i * 8)
            return bell_fail(BELL_E_INVALID,
                             "program '%s': parameter %u has %u bytes at %u; "
                             "8 at %u are needed",
                             cubin->name, i, cubin->params[i].size_bytes,
                             cubin->params[i].offset, i * 8);
    }
    return BELL_OK;
}

/* The size of a block: as the cubin or the descriptor says. */
static bell_status
set_local(struct nv_program *prog, const struct nv_cubin *cubin)
{
    uint32_t *local = prog->base.pub.local;

    if (!cubin->local[0])
        return BELL_OK;
    if (local[0] && memcmp(local, cubin->local, sizeof(cubin->local)) != 0)
        return bell_fail(BELL_E_INVALID,
                         "program '%s': local size %ux%ux%u, the kernel was "
                         "compiled for %ux%ux%u",
                         cubin->name, local[0], local[1], local[2],
                         cubin->local[0], cubin->local[1], cubin->local[2]);
    memcpy(local, cubin->local, sizeof(cubin->local));
    return BELL_OK;
}

/* Warps that fit in an SM beside each other. */
static uint32_t
warps_by_regs(uint32_t n_regs)
{
    uint32_t per_warp = (uint32_t)align_up(n_regs * WARP_THREADS, REG_UNIT);

    assert(n_regs > 0);
    return REGS_PER_SM / per_warp / WARPS_STEP * WARPS_STEP;
}

/* Threads of a block, from the cubin's bound and its registers. */
static bell_status
set_threads(struct nv_program *prog, const struct nv_cubin *cubin)
{
    const uint32_t *local = prog->base.pub.local;
    uint32_t limit = warps_by_regs(cubin->n_regs) * WARP_THREADS;

    if (limit > THREADS_MAX)
        limit = THREADS_MAX;
    if (cubin->max_threads && cubin->max_threads < limit)
        limit = cubin->max_threads;
    if (local[0] * local[1] * local[2] > limit)
        return bell_fail(BELL_E_INVALID,
                         "program '%s': %ux%ux%u threads in a block; with %u "
                         "registers, and as compiled, it takes %u",
                         cubin->name, local[0], local[1], local[2],
                         cubin->n_regs, limit);
    prog->n_regs = cubin->n_regs;
    prog->n_barriers = cubin->n_barriers;
    prog->base.max_local_total = limit;
    return BELL_OK;
}

static bell_status
set_shared(struct nv_program *prog, const struct nv_device *dev,
           const struct nv_cubin *cubin, uint32_t dynamic_bytes)
{
    uint32_t in_static =
        prog->launch->reserve_in_static ? RESERVED_SHARED_BYTES : 0;
    uint64_t limit = dev->chip.max_shared_bytes + RESERVED_SHARED_BYTES;

    assert(prog->launch);
    prog->shared_bytes =
        cubin->shared_bytes + RESERVED_SHARED_BYTES -
        (cubin->shared_bytes < in_static ? cubin->shared_bytes : in_static);
    if ((uint64_t)prog->shared_bytes + dynamic_bytes <= limit)
        return BELL_OK;
    return bell_fail(BELL_E_INVALID,
                     "program '%s': %u + %u bytes of shared memory, static and "
                     "dynamic; a block on %s has %u",
                     cubin->name, prog->shared_bytes - RESERVED_SHARED_BYTES,
                     dynamic_bytes, dev->base.info.name,
                     dev->chip.max_shared_bytes);
}

static bell_status
set_bank0(struct nv_program *prog, const struct nv_cubin *cubin)
{
    prog->param_offset = cubin->param_offset;
    prog->param_bytes = cubin->param_bytes;
    if (cubin->param_offset < prog->launch->bank_bytes ||
        cubin->param_offset > NV_BANK0_HEAD_MAX)
        return bell_fail(BELL_E_INVALID,
                         "program '%s': parameters at 0x%x of constant bank 0; "
                         "0x%x to 0x%x are possible",
                         cubin->name, cubin->param_offset,
                         prog->launch->bank_bytes, NV_BANK0_HEAD_MAX);
    /* check_params counted them; what is behind the last one is not ours. */
    if (cubin->param_bytes != cubin->n_params * 8)
        return bell_fail(BELL_E_INVALID,
                         "program '%s': %u bytes for %u parameters",
                         cubin->name, cubin->param_bytes, cubin->n_params);
    prog->bank0_bytes =
        (uint32_t)align_up(cubin->param_offset + cubin->param_bytes, 16);
    nv_launch_measure(prog);
    return BELL_OK;
}

static bell_status
set_needs(struct nv_program *prog, const struct nv_device *dev,
          const struct nv_cubin *cubin, const struct hcq_program_desc *desc)
{
    BELL_TRY(check_chip(dev, cubin));
    BELL_TRY(check_params(cubin, desc));
    BELL_TRY(set_local(prog, cubin));
    BELL_TRY(set_threads(prog, cubin));
    BELL_TRY(set_shared(prog, dev, cubin, desc->shared_bytes));
    BELL_TRY(set_bank0(prog, cubin));
    if (cubin->stack_bytes)
        prog->stack_bytes =
            (uint32_t)align_up(cubin->stack_bytes + STACK_RESERVE_BYTES, 32);
    return BELL_OK;
}

/* ---- memory -------------------------------------------------------------- */

/* The module into memory that the card executes from. */
static bell_status
nv_code_upload(struct nv_program *prog, struct nv_device *dev,
               const struct nv_cubin *cubin)
{
    uint8_t *image;
    bell_status status;

    assert(cubin->total_bytes >= cubin->image_bytes);
    BELL_TRY(nv_mem_alloc(dev, cubin->total_bytes, NV_CUBIN_ALIGN,
                          NV_MEM_VISIBLE, &prog->code));
    image = host_alloc((size_t)cubin->image_bytes);
    if (!image)
        return bell_fail(BELL_E_NO_MEMORY,
                         "program '%s': out of memory for %llu bytes",
                         cubin->name, (unsigned long long)cubin->image_bytes);
    memcpy(image, cubin->data, cubin->places ? 0 : cubin->image_bytes);
    status =
        cubin->places ? nv_cubin_link(cubin, prog->code.va, image) : BELL_OK;
    if (status == BELL_OK && !(dev->base.info.flags & HCQ_DEVICE_SIMULATED) &&
        cubin->places && /* then more than these bytes follow */
        memcmp(image + cubin->entry_offset, "BELL PTX", 8) == 0)
        status = bell_fail(BELL_E_INVALID,
                           "program '%s' is PTX for a simulated card; %s is "
                           "none: assemble it with ptxas",
                           cubin->name, dev->base.info.name);
    if (status == BELL_OK) {
        memcpy(prog->code.cpu, image, (size_t)cubin->image_bytes);
        memset((uint8_t *)prog->code.cpu + cubin->image_bytes, 0,
               (size_t)(cubin->total_bytes - cubin->image_bytes));
    }
    host_free(image);
    return status;
}

/* ---- templates ----------------------------------------------------------- */

/* Blocks that an SM runs at once, as far as shared memory lets it. */
static uint32_t
blocks_per_sm(const struct nv_program *prog, const struct nv_chip *chip)
{
    const uint32_t *local = prog->base.pub.local;
    uint32_t threads =
        local[0] ? local[0] * local[1] * local[2] : prog->base.max_local_total;
    uint32_t warps = (threads + WARP_THREADS - 1) / WARP_THREADS;
    uint32_t fit = warps_by_regs(prog->n_regs);
    uint32_t n =
        (fit < chip->max_warps_per_sm ? fit : chip->max_warps_per_sm) / warps;

    assert(n > 0); /* set_threads */
    return n < BLOCKS_PER_SM ? n : BLOCKS_PER_SM;
}

static bell_status
make_templates(struct nv_program *prog, const struct nv_device *dev,
               const struct nv_cubin *cubin, uint32_t dynamic_bytes)
{
    const struct nv_launch *launch = prog->launch;
    const struct nv_chip *chip = &dev->chip;
    uint32_t shared = (uint32_t)align_up(prog->shared_bytes + dynamic_bytes,
                                         launch->shared_align);
    uint32_t max_kib = (chip->max_shared_bytes + RESERVED_SHARED_BYTES) / 1024;
    struct nv_qmd_desc desc = {
        .program_va = prog->base.pub.code_va,
        .n_regs = prog->n_regs,
        .n_barriers = prog->n_barriers,
        .shared_bytes = shared,
        .local_bytes = prog->stack_bytes,
        .sass_version =
            launch->has_sass_version ? chip->sm / 10 << 4 | chip->sm % 10 : 0,
        .min_smem_kib = nv_smem_kib(shared, max_kib),
        .target_smem_kib =
            nv_smem_kib((uint64_t)shared * blocks_per_sm(prog, chip), max_kib),
        .max_smem_kib = max_kib,
        .invalidate_textures = launch->has_textures,
        .invalidate_data = true,
    };
    uint32_t i;

    assert(prog->base.max_local_total > 0 && prog->code.va);
    for (i = 1; i < NV_QMD_BANKS; i++) {
        if (!cubin->banks[i].size_bytes)
            continue;
        desc.banks[i].va = prog->code.va + cubin->banks[i].offset;
        desc.banks[i].size_bytes =
            (uint32_t)align_up(cubin->banks[i].size_bytes, 16);
    }
    desc.banks[0].size_bytes = prog->bank0_bytes;
    prog->qmd = host_calloc(1, nv_launch_bank0(prog)); /* what is before it */
    prog->bank0 = host_calloc(1, prog->param_offset);
    if (!prog->qmd || !prog->bank0)
        return bell_fail(BELL_E_NO_MEMORY, "program '%s': out of memory",
                         cubin->name);
    BELL_TRY(nv_qmd_template(launch, &desc, prog->qmd));
    /* %total_smem_size is in units of 128 bytes, without the reserve. */
    shared -= (uint32_t)align_up(
        prog->shared_bytes - RESERVED_SHARED_BYTES + dynamic_bytes, 128);
    nv_bank0_template(launch, chip, dynamic_bytes, shared, prog->bank0);
    return BELL_OK;
}

/* ---- life ---------------------------------------------------------------- */

static bell_status
nv_code_load(struct nv_program *prog, struct nv_device *dev,
             const struct nv_cubin *cubin, const struct hcq_program_desc *desc)
{
    assert(!prog->code.size_bytes);
    prog->launch = dev->chip.compute->launch;
    BELL_TRY(set_needs(prog, dev, cubin, desc));
    BELL_TRY(nv_code_upload(prog, dev, cubin));
    prog->base.pub.code_va = prog->code.va + cubin->entry_offset;
    prog->base.pub.code_size_bytes = cubin->total_bytes;
    BELL_TRY(make_templates(prog, dev, cubin, desc->shared_bytes));
    if (prog->stack_bytes)
        BELL_TRY(nv_local_grow(dev, prog->stack_bytes));
    /* Queues invalidate their caches before the next launch. */
    atomic_fetch_add_explicit(&dev->code_epoch, 1, memory_order_release);
    return BELL_OK;
}

bell_status
nv_program_load(struct nv_device *dev, const struct hcq_program_desc *desc,
                const struct nv_cubin *cubin, struct nv_program **out_prog)
{
    struct nv_program *prog = host_calloc(1, sizeof(*prog));
    bell_status status;

    if (!prog)
        return bell_fail(BELL_E_NO_MEMORY, "program '%s': out of memory",
                         desc->name);
    hcq_program_init(&prog->base, &dev->base, desc);
    status = nv_code_load(prog, dev, cubin, desc);
    if (status != BELL_OK) {
        nv_program_destroy(&prog->base);
        return status;
    }
    *out_prog = prog;
    return BELL_OK;
}

bell_status
nv_program_create(struct hcq_device *base_dev,
                  const struct hcq_program_desc *desc,
                  struct hcq_program_base **out_prog)
{
    struct nv_program *prog;
    struct nv_cubin cubin;
    bell_status status;

    BELL_TRY(nv_cubin_open(desc->binary, desc->binary_size_bytes, desc->name,
                           desc->entry ? desc->entry : desc->name, &cubin));
    status = nv_program_load(nv_device_of(base_dev), desc, &cubin, &prog);
    nv_cubin_close(&cubin);
    if (status != BELL_OK)
        return status;
    *out_prog = &prog->base;
    return BELL_OK;
}

void
nv_program_destroy(struct hcq_program_base *base)
{
    struct nv_program *prog = nv_program_from(base);

    nv_mem_free(nv_device_of(base->pub.dev), &prog->code);
    host_free(prog->qmd);
    host_free(prog->bank0);
    host_free(prog);
}

const struct nv_program *
nv_program_at(struct nv_device *dev, uint64_t va)
{
    struct hcq_link *link;

    for (link = dev->base.programs.next; link != &dev->base.programs;
         link = link->next) {
        struct nv_program *prog =
            nv_program_from(HCQ_CONTAINER(link, struct hcq_program_base, link));

        if (va - prog->code.va < prog->code.size_bytes)
            return prog;
    }
    return dev->move && va - dev->move->code.va < dev->move->code.size_bytes
               ? dev->move
               : NULL;
}
