/* An interpreter of Adreno's shaders (ir3): what the simulated Adreno cards
 * run.
 *
 * 64 or 128 threads are a wave, whose instructions are issued one a cycle. The
 * chips do not wait for results: each has a cycle from which it can be read, or
 * a flag that must be waited for. A register that would be read or overwritten
 * too early is an error here, with the instruction's text; so are registers
 * that were never set, what lies beyond the sizes that the launch gives,
 * threads that part and meet without (jp).
 *
 * Approximations are off by a unit in the last place, on purpose. A
 * work-group's waves run in turns, in an order that changes.
 *
 * Not here: textures, matrices, packed products, writes to constants.
 *
 * src: docs/hardware/adreno-code.md. Not run on hardware.
 */
#ifndef BELL_SIM_QCOM_ISA_SHADER_H
#define BELL_SIM_QCOM_ISA_SHADER_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"

enum shader_gen {
    SHADER_A6XX = 1u << 0,
    SHADER_A7XX = 1u << 1,
};

/* Decoded instructions. */
struct shader_code;

/* Decodes `n` words, a multiple of 16. BELL_E_INVALID names the first that is
 * not an instruction; *out_code is destroyed with shader_code_destroy (NULL is
 * allowed). */
BELL_MUST_CHECK bell_status shader_code_create(enum shader_gen gen,
                                               const uint64_t *words,
                                               uint32_t n,
                                               struct shader_code **out_code);
void shader_code_destroy(struct shader_code *code);
/* Is it of these words? */
bool shader_code_is(const struct shader_code *code, const uint64_t *words,
                    uint32_t n);

/* What memory is touched for. */
enum shader_access {
    SHADER_LOAD,
    SHADER_STORE,
    SHADER_ATOMIC
};

/* Where memory is: the host address of n_bytes (1 to 16, within 64 that are
 * aligned) at a device address, or NULL, which is a fault. A store goes there
 * as soon as the call returns. */
struct shader_memory {
    void *(*at)(void *user, uint64_t va, uint32_t n_bytes,
                enum shader_access access);
    void *user;
};

/* A buffer behind a descriptor's slot; elements are 32 bits or 16. */
struct shader_slot {
    uint64_t va;
    uint32_t n_elems, elem_bytes;
};

/* Constants in memory, 16 bytes each; none: there is no such buffer. */
struct shader_ubo {
    uint64_t va;
    uint32_t n_vec4;
};

#define SHADER_NO_REG    252u /* of a launch's registers: it has none */
#define SHADER_MAX_LOCAL 1024u

/* A launch as the registers describe it. */
struct shader_launch {
    const struct shader_code *code;
    uint32_t lanes;        /* of a wave: 64 or 128 */
    uint32_t n_full_vec4;  /* registers, four to one */
    uint32_t n_half_vec4;  /* of halves */
    bool has_own_halves;   /* that do not lie in the full ones */
    uint32_t n_waves_max;  /* of a work-group, at once */
    uint32_t branch_depth; /* places where threads wait at once */
    uint32_t shared_bytes;
    /* Private memory: of a thread; of a processor; processors; threads of each;
     * a wave's words side by side. */
    uint64_t private_va;
    uint32_t private_bytes, private_sp_bytes, n_sps, sp_threads;
    bool private_by_wave;
    /* Constants of 32 bits; a bit for each four that were loaded; NULL: all. */
    const uint32_t *consts;
    const uint64_t *consts_set;
    uint32_t n_consts;
    bool demotes; /* a half of a constant is converted */
    const struct shader_ubo *ubos;
    uint32_t n_ubos;
    const struct shader_slot *slots;
    uint32_t n_slots;
    /* Registers that are set: three numbers each; the last is one. */
    uint8_t local_id, group_id, group_size, group_offset, linear_id;
    uint32_t grid[3], local[3];
    bool needs_predication_gaps;  /* prede and predf must be followed by nops */
    bool ends_locked;             /* lock and unlock come before the end */
    uint64_t max_insns;           /* of a work-group's waves; 0: no limit */
    const _Atomic uint32_t *stop; /* may be NULL: ends when it is not 0 */
    uint64_t seed;                /* order of the waves */
    struct shader_memory memory;
};

enum shader_fault {
    SHADER_OK,
    SHADER_BAD,     /* the launch, an instruction, a hazard */
    SHADER_MEMORY,  /* an address that is not mapped */
    SHADER_HUNG,    /* max_insns, or a barrier that not all reach */
    SHADER_STOPPED, /* the flag */
    SHADER_NO_ROOM  /* of the simulator */
};

/* What happened. */
struct shader_report {
    enum shader_fault fault;
    uint64_t va;
    bool is_write;
    uint64_t n_insns;
    char text[384];
};

/* Runs all groups. Stores before a fault stay. */
enum shader_fault shader_run(const struct shader_launch *launch,
                             struct shader_report *out_report);

#endif
