/* Launches: the descriptor (QMD) of a grid and its constant bank 0.
 *
 * Both have a template that is made when a program is loaded; a launch copies
 * them and sets grid, block, addresses and arguments. Which words those are
 * differs between generations (nv_gen.h). Nothing here knows queues.
 *
 * src: docs/hardware/nvidia-queues.md, "Launch descriptors";
 * docs/hardware/nvidia-code.md, "Shared memory", "Stacks",
 * "Constant bank 0", "Constant banks".
 */
#ifndef BELL_HCQ_NV_NV_QMD_H
#define BELL_HCQ_NV_NV_QMD_H

#include <stdbool.h>
#include <stdint.h>

#include "base/status.h"

struct nv_chip;
struct nv_launch;
struct nv_program;

#define NV_QMD_BANKS 8u
/* The parameters start below this in bank 0 (0x380 is the highest known). */
#define NV_BANK0_HEAD_MAX 4096u

/* All of a descriptor that launches of a program have in common. */
struct nv_qmd_desc {
    uint64_t program_va;
    uint32_t n_regs, n_barriers;
    uint32_t shared_bytes; /* with the reserve, aligned */
    uint32_t local_bytes;  /* of a thread, with the reserve; 0: none */
    uint32_t sass_version; /* 0x90; 0: not said */
    uint32_t min_smem_kib, target_smem_kib, max_smem_kib; /* of an SM */
    bool invalidate_textures; /* headers, samplers, data */
    bool invalidate_data;     /* the L1 cache */
    struct {
        uint64_t va;         /* of bank 0: set by launches */
        uint32_t size_bytes; /* a multiple of 16; 0: not bound */
    } banks[NV_QMD_BANKS];
};

/* Writes the whole descriptor. BELL_E_INVALID: a value that the descriptor
 * cannot hold, with the field's name. */
BELL_MUST_CHECK bell_status nv_qmd_template(const struct nv_launch *launch,
                                            const struct nv_qmd_desc *desc,
                                            uint32_t *qmd);

/* What a launch does when its grid is done. Zeroed: nothing. */
struct nv_after {
    bool links; /* schedules the launch that lies behind, which nobody sends */
    /* Else, where launch->releases: stores 64 bits, after all that the grid
     * stored is visible to everyone. 0: nothing. */
    uint64_t release_va, release_value;
};

/* The part of bank 0 in front of the parameters, launch->bank_bytes long.
 * not_of_block: bytes of the descriptor's shared memory that are not a
 * block's own. */
void nv_bank0_template(const struct nv_launch *launch,
                       const struct nv_chip *chip, uint32_t dynamic_shared,
                       uint32_t not_of_block, void *bank);

/* The smallest amount of an SM's shared memory, in KiB, that holds so many
 * bytes; at most max_kib. */
uint32_t nv_smem_kib(uint64_t bytes, uint32_t max_kib);

/* Where bank 0 lies behind the descriptor. */
uint32_t nv_launch_bank0(const struct nv_program *prog);
/* Sets data_bytes and what a launch becomes, of a program that has all else. */
void nv_launch_measure(struct nv_program *prog);

/* Writes descriptor and bank 0 of a launch to memory that the card sees at
 * `va`, in ascending order. n_args words of arguments. */
void nv_launch_write(const struct nv_program *prog, const uint32_t grid[3],
                     const uint32_t local[3], const uint64_t *args,
                     uint32_t n_args, uint64_t va, uint8_t *out,
                     const struct nv_after *after);

#endif
