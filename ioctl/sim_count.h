/* What the simulated cards count while they run kernels: between those who want
 * to know and sim/. Counting is off until it is begun; one asks at a time. A
 * kernel's work is counted, not time. Threads: any.
 */
#ifndef BELL_IOCTL_SIM_COUNT_H
#define BELL_IOCTL_SIM_COUNT_H

#include <stdbool.h>
#include <stdint.h>

#include "base/chip.h"

/* Kinds of instructions, of a warp or wave: of PTX on NVIDIA's cards, which
 * ptxas makes more or fewer of; of the machine on AMD's. */
enum sim_insn {
    SIM_INSN_FLOAT,
    SIM_INSN_SPECIAL, /* roots, quotients, exponentials, sines */
    SIM_INSN_OTHER,   /* integers, moves, conversions, comparisons */
    SIM_INSN_SCALAR,  /* AMD: once a wave */
    SIM_INSN_MATRIX,
    SIM_INSN_GLOBAL, /* memory: loads, stores, atomics */
    SIM_INSN_SHARED,
    SIM_INSN_LOCAL,   /* a thread's own memory: spills, arrays */
    SIM_INSN_CONTROL, /* branches, barriers, waits */
    SIM_INSN_COUNT
};

struct sim_counts {
    uint64_t n_groups, n_groups_run; /* work-groups; those that were run */
    uint64_t n_insns[SIM_INSN_COUNT];
    double matrix_flops[CHIP_RATE_COUNT];
    /* Global memory: bytes that lanes asked for, 32-byte sectors of each
     * instruction that they are in. */
    uint64_t loaded_bytes, stored_bytes, load_sectors, store_sectors;
    uint64_t n_loads, n_stores; /* instructions */
    /* Shared memory: passes of 128 bytes that the banks take, and would take if
     * each bank were asked for one word at a time. */
    uint64_t n_wavefronts, least_wavefronts;
    uint64_t n_barriers; /* of a work-group */
    uint64_t n_branches, n_divergent;
};

/* From now on kernels are counted, all of their work-groups or, if
 * `most_groups` is not 0, only so many of them, spread over all places and over
 * what recurs among them, as tiles of rows do: the others are not run, results
 * are wrong. */
void sim_count_begin(uint64_t most_groups);
/* What was counted since, or since the last such call. */
void sim_count_take(struct sim_counts *out_counts);
void sim_count_end(void);

/* For sim/. Whether kernels are counted, and how many groups of each are
 * run. */
bool sim_count_on(uint64_t *out_most_groups);
/* How far the next of n groups is that is run, modulo n; *out_n_run is how many
 * are, from the first on. */
uint64_t sim_count_step(uint64_t n_groups, uint64_t most_groups,
                        uint64_t *out_n_run);
void sim_count_add(const struct sim_counts *part);
/* An access of an instruction: of n lanes, each of n_bytes at its address. */
void sim_count_global(struct sim_counts *counts, const uint64_t *addr,
                      uint32_t n, uint32_t n_bytes, bool is_write);
void sim_count_shared(struct sim_counts *counts, const uint64_t *addr,
                      uint32_t n, uint32_t n_bytes);

#endif
