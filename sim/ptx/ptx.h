/* A PTX interpreter: what the simulated NVIDIA cards run.
 *
 * Written from docs/hardware/nvidia-code.md, not from our renderer. A module is
 * parsed and decoded once; a launch runs its blocks one after the other, the
 * warps of a block in turns, 32 lanes at a time with the lanes at the lowest
 * instruction first, which brings diverged lanes together again.
 *
 * It is strict. These are errors when parsing: an unknown instruction or
 * modifier, one that the chip or the version does not have, an undeclared
 * register, one of the wrong type or width. These are errors when running:
 *
 * - a register that is read before it is written;
 * - a misaligned or unmapped address;
 * - shared memory that is read before it is written, used by two warps without
 *   a barrier between, or touched while cp.async still copies to it;
 * - a barrier or a warp's instruction to which not all come.
 *
 * Errors name line and instruction.
 *
 * What it knows: arithmetic, logic and comparisons of integers, F32, F64, F16,
 * BF16 and pairs of these; bit fields, prmt, lop3, shf, dp4a; conversions, to
 * TF32 and pairs of 8-bit floats too; ld, st, atom, red, prefetch in all state
 * spaces; shfl, vote, match, redux, activemask; bra, brx, barriers of blocks
 * and warps; mma, ldmatrix, stmatrix, cp.async; wgmma; mbarriers and bulk
 * copies of tensors to shared memory; multimem; special registers; variables of
 * the module; nested scopes.
 *
 * Not: calls, clusters. Float arithmetic rounds to nearest; other roundings are
 * refused but in conversions. The approximations are off by a unit in the last
 * place at most, which their bounds allow.
 */
#ifndef BELL_SIM_PTX_PTX_H
#define BELL_SIM_PTX_PTX_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"

/* A parsed module. Immutable: any number of threads may launch from it. */
struct sim_ptx_module;

#define SIM_PTX_TEAM_MAX 8

/* Where a launch finds global memory: the host address of `n_bytes` (1 to 16)
 * at a virtual address, or NULL, which is a fault. Called from the launching
 * thread. */
struct sim_ptx_mem {
    void *(*at)(void *user, uint64_t va, uint32_t n_bytes, bool is_write);
    void *user;
    /* A power of two of at least 16: every aligned piece of that many bytes is
     * contiguous in host memory and all of it may be accessed alike, so that
     * `at` need not be asked for each access. 0: nothing of the kind. */
    uint32_t page_bytes;
    /* NULL, or called every few hundred instructions. True: what `at` gave is
     * forgotten and asked for again. (A card whose mappings change while a
     * kernel runs lets go of its lock here.) */
    bool (*pause)(void *user);
    /* The same, before each block; it may take its time. */
    bool (*next_block)(void *user);
    /* NULL, or called for data accesses once *crosses is set, which `at` does:
     * that many bytes at va were found. The card counts what is another's. */
    void (*count)(void *user, uint64_t va, uint32_t n_bytes, bool is_write);
    const bool *crosses;
    /* For multimem: where the memory of each member of a team lies at the
     * team's address va, n_bytes each. How many; 0: a fault. NULL: no teams. */
    uint32_t (*team)(void *user, uint64_t va, uint32_t n_bytes, bool is_write,
                     uint8_t *out[SIM_PTX_TEAM_MAX]);
    /* For who steps through the launch: copies memory, false where it is not
     * mapped. NULL: there is nothing to be seen. */
    bool (*peek)(void *user, uint64_t va, void *out, uint32_t n_bytes);
};

struct sim_ptx_launch {
    const char *kernel; /* NULL: the module's first */
    const void *args;   /* the parameters as they lie in memory */
    size_t args_bytes;
    uint32_t grid[3], block[3];
    uint32_t dynamic_shared_bytes;
    /* Windows of generic addresses, 16 MiB each; 0: there are none. */
    uint64_t shared_window_va, local_window_va;
    uint64_t max_warp_steps; /* instructions of warps; 0: no limit */
    /* Not NULL: when it is not 0 the launch ends with SIM_PTX_STOPPED, at
     * most a few thousand instructions later. */
    const _Atomic uint32_t *stop;
    /* The module's .const and .global variables, as sim_ptx_module_info tells
     * of them: host memory that holds the first, the address of the others. */
    const void *const_bank;
    size_t const_bytes;
    uint64_t global_base;
    uint32_t sm_id, n_sm; /* %smid (of the first block), SMs; 0, 0: one */
    /* %nsmid and %total_smem_size where the launch tells them; NULL: n_sm, and
     * what the kernel needs. */
    const uint32_t *told_n_sm, *told_total_shared;
    uint64_t grid_id; /* %gridid */
    const char
        *text; /* that the module was parsed from, for who steps; or NULL */
    uint64_t (*time_ns)(void *user); /* %globaltimer, gets mem.user; NULL: the
                                      * host's monotonic clock */
    struct sim_ptx_mem mem;
};

enum sim_ptx_fault {
    SIM_PTX_OK,
    SIM_PTX_BAD_LAUNCH, /* sizes or arguments do not fit the kernel */
    SIM_PTX_UNMAPPED,   /* global address without memory behind it */
    SIM_PTX_MISALIGNED,
    SIM_PTX_OUT_OF_RANGE, /* of shared, local or parameter memory */
    SIM_PTX_UNDEFINED,    /* a register read before it was written */
    SIM_PTX_BARRIER,      /* not reached by all */
    SIM_PTX_HUNG,         /* max_warp_steps */
    SIM_PTX_STOPPED,      /* *stop */
    SIM_PTX_TRAP,         /* the instruction */
    SIM_PTX_RACE,         /* shared memory used without a barrier between */
};

/* What happened. Filled by every launch that starts. */
struct sim_ptx_report {
    enum sim_ptx_fault fault;
    uint32_t line; /* of the instruction that faulted */
    uint64_t va;   /* address that faulted */
    bool is_write;
    uint32_t block[3], thread[3];      /* who */
    uint64_t n_warp_steps, n_lane_ops; /* work done */
};

/* Variables of a module outside of its kernels. `init` belongs to the module
 * and holds all of them, the zeros too, laid out in order of declaration. */
struct sim_ptx_module_info {
    uint32_t n_kernels;
    uint32_t const_bytes, const_align; /* 0, 1: there are none */
    const void *const_init;
    uint32_t global_bytes, global_align;
    const void *global_init;
    bool is_global_zero; /* all of global_init is */
};
void sim_ptx_module_info(const struct sim_ptx_module *module,
                         struct sim_ptx_module_info *out_info);

/* What a launch needs to know of a kernel. */
struct sim_ptx_kernel_info {
    const char *name; /* the module's */
    uint32_t param_bytes, shared_bytes, local_bytes, n_regs;
    uint32_t reqntid[3]; /* 0: any */
    /* What the code reads of %ntid and %nctaid: bit i is axis i of the first,
     * bit 3 + i of the second. */
    uint32_t reads_dims;
};

/* BELL_E_COMPILE, with the line, where the text is not what it should be. */
BELL_MUST_CHECK bell_status sim_ptx_parse(const char *text,
                                          struct sim_ptx_module **out_module);
void sim_ptx_destroy(struct sim_ptx_module *module);

/* False where there is no such kernel; by number from 0 if `name` is NULL. */
bool sim_ptx_kernel(const struct sim_ptx_module *module, const char *name,
                    uint32_t number, struct sim_ptx_kernel_info *out_info);

/* Runs the whole grid. A fault is BELL_E_DEVICE_LOST (BELL_E_TIMEOUT for
 * SIM_PTX_HUNG and SIM_PTX_STOPPED, BELL_E_INVALID for SIM_PTX_BAD_LAUNCH) and
 * leaves what was written until then. */
BELL_MUST_CHECK bell_status sim_ptx_run(const struct sim_ptx_module *module,
                                        const struct sim_ptx_launch *launch,
                                        struct sim_ptx_report *out_report);

#endif
