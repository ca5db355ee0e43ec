/* Shared by the files that run PTX: the state of one launch. */
#ifndef BELL_SIM_NV_PTX_EXEC_H
#define BELL_SIM_NV_PTX_EXEC_H

#include "sim/nv/ptx_internal.h"

#define PX_LANES 32

typedef uint64_t px_row[PX_LANES];

/* Lanes of a warp at one instruction. */
struct px_group {
    uint32_t pc, mask;
    bool waits; /* at the barrier that pc is */
};

struct px_warp {
    px_row *rows;      /* registers */
    uint32_t *defined; /* lanes that have written each */
    uint8_t *local;    /* local_bytes of every lane */
    struct px_group groups[PX_LANES];
    uint32_t n_groups, number;
};

struct px_run {
    const struct px_kernel *kernel;
    const struct sim_ptx_launch *launch;
    struct sim_ptx_report *report;
    px_row *consts; /* each constant in all lanes */
    uint8_t *shared;
    uint32_t shared_bytes, n_threads, n_warps, n_exited;
    uint32_t block[3];
    struct px_warp *warps;
    bool failed;
};

/* Writes report and error once. */
void px_fault(struct px_run *r, const struct px_warp *w, uint32_t lane,
              const struct px_insn *in, enum sim_ptx_fault fault, uint64_t va,
              const char *what);

/* The 32 values of an operand; NULL, after a fault, where a lane of `mask`
 * has not written it. */
const uint64_t *px_read(struct px_run *r, const struct px_warp *w,
                        const struct px_insn *in, int32_t row, uint32_t mask);
/* The place for results of these lanes. */
uint64_t *px_write(struct px_warp *w, int32_t row, uint32_t mask);

/* ld, st, atom, red (ptx_mem.c). */
void px_access(struct px_run *r, struct px_warp *w, const struct px_insn *in,
               uint32_t mask);

#endif
