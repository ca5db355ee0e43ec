/* An interpreter of AMD machine code: what the simulated AMD cards run.
 *
 * A work-group's waves run in turns, in an order that changes from turn to
 * turn; groups run one after the other, dealt to compute units from a random
 * one on. Units of gfx10 and later are in pairs, and a group has both of a pair
 * unless its kernel asks for one (RSRC1.WGP_MODE is 0). Each instruction works
 * on all lanes of a wave. Instructions are
 * decoded once and kept, as an instruction cache does: code that changes
 * afterwards is not seen before amd_code_invalidate.
 *
 * Registers that the ABI leaves undefined start with a pattern. Anything that
 * is not known is an error that names the instruction, its words, its address
 * and its place in the kernel.
 *
 * src: docs/hardware/amd-code.md. Not run on hardware.
 */
#ifndef BELL_SIM_AMD_ISA_WAVE_H
#define BELL_SIM_AMD_ISA_WAVE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"
#include "sim/amd/isa/isa.h"

/* Why memory is touched: caches differ. */
enum amd_access {
    AMD_ACCESS_FETCH,  /* instructions */
    AMD_ACCESS_SCALAR, /* s_load */
    AMD_ACCESS_LOAD,
    AMD_ACCESS_LOAD_FRESH, /* not out of the vector caches */
    AMD_ACCESS_LOAD_PAST,  /* out of memory itself, past L2 */
    AMD_ACCESS_STORE,
    AMD_ACCESS_STORE_PAST, /* to memory itself, past L2 */
    AMD_ACCESS_ATOMIC
};

static inline bool
amd_access_writes(enum amd_access access)
{
    return access >= AMD_ACCESS_STORE;
}

/* Where global memory is: the host address of n_bytes (1 to 64) at a device
 * address, or NULL, which is a fault. Called from the running thread. A store
 * goes to that address as soon as the call returns. */
struct amd_memory {
    void *(*at)(void *user, uint64_t va, uint32_t n_bytes,
                enum amd_access access);
    void *user;
    /* Says that the following accesses are those of a wave on this compute
     * unit, from 0; may be NULL. */
    void (*turn)(void *user, uint32_t cu);
    /* An instruction that invalidates or writes back caches of that unit (enum
     * isa_cache); may be NULL. */
    void (*fence)(void *user, uint32_t ops);
    /* For who steps through the launch: copies memory, false where it is not
     * mapped. NULL: there is nothing to be seen. */
    bool (*peek)(void *user, uint64_t va, void *out, uint32_t n_bytes);
};

/* Decoded instructions by address: one per card. */
struct amd_code;

BELL_MUST_CHECK bell_status amd_code_create(enum isa_gen gen,
                                            struct amd_code **out_code);
void amd_code_destroy(struct amd_code *code);
/* Forgets everything, as an invalidation of the instruction cache does. */
void amd_code_invalidate(struct amd_code *code);

/* A dispatch as the registers describe it. */
struct amd_launch {
    uint64_t pc; /* of the first instruction */
    uint32_t rsrc1, rsrc2, rsrc3;
    uint32_t user_data[32];
    bool wave32;                /* gfx10 and later */
    uint32_t grid[3], local[3]; /* groups; work-items of a group */
    /* Groups first, first + step, ... of the linear order run here: one of
     * several dies. 0, 1: all. */
    uint32_t first_group, group_step;
    uint32_t n_cus;         /* even; 0: one for all */
    uint32_t scratch_bytes; /* of a lane */
    /* Where scratch is by a buffer (isa_has_scratch_buffer): how many waves it
     * has room for, and how much of it is a wave's. */
    uint32_t scratch_waves, scratch_wave_bytes;
    uint64_t max_insns;           /* of waves; 0: no limit */
    const _Atomic uint32_t *stop; /* may be NULL: ends when it is not 0 */
    uint64_t seed;                /* order of the waves, the first unit */
    struct amd_memory memory;
};

enum amd_wave_fault {
    AMD_WAVE_OK,
    AMD_WAVE_BAD_LAUNCH,
    AMD_WAVE_ILLEGAL,  /* an instruction that is not known */
    AMD_WAVE_FETCH,    /* code that is not mapped */
    AMD_WAVE_UNMAPPED, /* memory that is not mapped */
    AMD_WAVE_MISALIGNED,
    AMD_WAVE_RANGE,   /* outside of LDS, scratch or the registers */
    AMD_WAVE_TRAP,    /* s_trap */
    AMD_WAVE_BARRIER, /* waves wait for one that does not come */
    AMD_WAVE_HUNG,    /* max_insns */
    AMD_WAVE_STOPPED  /* the flag */
};

/* What happened. Filled by every launch that starts. */
struct amd_wave_report {
    enum amd_wave_fault fault;
    uint64_t pc, va;
    bool is_write;
    uint32_t group[3], wave, lane;
    uint64_t n_insns, n_lane_ops; /* work done */
};

/* Runs all groups. A fault is BELL_E_DEVICE_LOST (BELL_E_TIMEOUT for HUNG and
 * STOPPED, BELL_E_INVALID for BAD_LAUNCH) and leaves what was written. */
BELL_MUST_CHECK bell_status amd_wave_run(struct amd_code *code,
                                         const struct amd_launch *launch,
                                         struct amd_wave_report *out_report);

#endif
