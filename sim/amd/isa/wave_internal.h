/* Shared by the files that run AMD code: the state of a wave. */
#ifndef BELL_SIM_AMD_ISA_WAVE_INTERNAL_H
#define BELL_SIM_AMD_ISA_WAVE_INTERNAL_H

#include "ioctl/sim_count.h"
#include "sim/amd/isa/wave.h"

#define WAVE_LANES_MAX 64
/* What registers that the ABI leaves undefined start with. */
#define REGISTER_POISON 0xfeedc0deu

typedef uint32_t wave_row[WAVE_LANES_MAX];

struct wave_group;

/* A wave's state at a barrier that is in two parts (gfx12). */
enum wave_barrier {
    WAVE_NOT_SIGNALLED,
    WAVE_SIGNALLED,
    WAVE_MAY_PASS
};

enum wave_state {
    WAVE_RUNS,
    WAVE_AT_BARRIER,
    WAVE_ENDED
};

struct wave {
    struct wave_group *group;
    wave_row *v;     /* n_vgprs, then from 256 on the accumulation registers */
    uint32_t s[128]; /* by operand code: scalars, VCC, trap temporaries, EXEC */
    uint32_t m0, scc, number, cu;
    uint64_t pc, insn_pc;   /* the next one, the one that runs */
    struct code_page *page; /* where pc was last; NULL: to be looked up */
    uint64_t page_number;
    enum wave_state state;
    bool has_begun;
    enum wave_barrier barrier;
    uint32_t mode;    /* register MODE: rounding, denormals */
    uint64_t flat;    /* gfx10: register FLAT_SCR */
    uint8_t *scratch; /* scratch_bytes of every lane; NULL: by a buffer */
};

/* The group that runs, and all that its waves share. */
struct wave_group {
    const struct amd_launch *launch;
    struct amd_wave_report *report;
    struct amd_code *code;
    enum isa_gen gen;
    uint32_t n_lanes; /* of a wave: 32 or 64 */
    uint64_t all_lanes;
    uint32_t n_vgprs, n_acc;
    uint32_t id[3];
    uint32_t turn; /* of the compute units: counts groups */
    uint8_t *lds;
    uint32_t lds_bytes;
    struct wave *waves;
    uint32_t n_waves;
    bool failed;
    struct wave_counts *counts; /* NULL: nobody asks */
    bool is_stepped;            /* somebody looks at waves or instructions */
};

/* Who steps through the launch is told of a wave that begins, and of an
 * instruction, at insn_pc (wave_look.c). */
void wave_step_begin(struct wave *w);
void wave_step_insn(struct wave *w, const struct isa_insn *in);

/* What is counted, and where the lanes of the instruction that runs have
 * touched memory and LDS so far. */
struct wave_counts {
    struct sim_counts sum;
    uint64_t global[8 * WAVE_LANES_MAX], lds[2 * WAVE_LANES_MAX];
    uint32_t n_global, n_lds;
};

/* A lane touches memory, or LDS; the instruction is done (wave_count.c). */
void wave_count_lane(struct wave_counts *c, uint64_t at, bool is_lds);
void wave_count_insn(struct wave *w, const struct isa_insn *in);

static inline uint64_t
wave_exec(const struct wave *w)
{
    uint64_t exec = w->s[ISA_EXEC_LO];

    if (w->group->n_lanes == 64)
        exec |= (uint64_t)w->s[ISA_EXEC_LO + 1] << 32;
    return exec;
}

/* Whether denormals of F32 are flushed. */
static inline bool
wave_flushes(const struct wave *w)
{
    return (w->mode >> 4 & 3) == 0;
}

/* Writes report and error once. Returns false. */
bool wave_fail(struct wave *w, enum amd_wave_fault fault, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

/* Scalar operands. Masks are as wide as a wave. */
uint32_t wave_read_scalar(struct wave *w, const struct isa_insn *in,
                          uint32_t code);
uint64_t wave_read_scalar64(struct wave *w, const struct isa_insn *in,
                            uint32_t code);
/* Upper halves of flat addresses that are of LDS, and of scratch, as KFD has
 * them. src: Linux 6.12, kfd_flat_memory.c */
#define WAVE_FLAT_LDS     0x10000u
#define WAVE_FLAT_SCRATCH 0x20000u

/* The inline float constants as a double; true where code is one. */
bool wave_float_constant(uint32_t code, double *out);
void wave_write_scalar(struct wave *w, uint32_t code, uint32_t value);
void wave_write_scalar64(struct wave *w, uint32_t code, uint64_t value);
uint64_t wave_read_mask(struct wave *w, const struct isa_insn *in,
                        uint32_t code);
void wave_write_mask(struct wave *w, uint32_t code, uint64_t mask);

/* The 32-bit values of a source in all lanes: a register, or a constant
 * spread into `buf`. */
const uint32_t *wave_read(struct wave *w, const struct isa_insn *in,
                          uint32_t code, wave_row buf);
/* Whether `n` registers from `reg` on (accumulation ones from 256) exist. */
bool wave_has_registers(struct wave *w, uint32_t reg, uint32_t n);

/* Each executes an instruction of its formats; false after a fault. pc is
 * behind the instruction already. */
bool wave_salu(struct wave *w, const struct isa_insn *in);
bool wave_valu(struct wave *w, const struct isa_insn *in);
bool wave_packed(struct wave *w, const struct isa_insn *in);
bool wave_matrix(struct wave *w, const struct isa_insn *in);
bool wave_smem(struct wave *w, const struct isa_insn *in);
bool wave_ds(struct wave *w, const struct isa_insn *in);
bool wave_flat(struct wave *w, const struct isa_insn *in);
bool wave_buffer(struct wave *w, const struct isa_insn *in);
/* Floats in scalar registers; out_known: whether the operation is one. */
bool wave_salu_float(struct wave *w, const struct isa_insn *in,
                     bool *out_known);

/* The decoded instruction at pc, or NULL after a fault. */
const struct isa_insn *wave_fetch(struct wave *w);
/* M_CACHE. */
bool wave_cache(struct wave *w, const struct isa_insn *in);

/* Numbers. Conversions round to nearest even. */
float wave_half_to_float(uint32_t bits);
uint32_t wave_float_to_half(float value);
uint32_t wave_double_to_half(double value);
uint32_t wave_float_to_half_rtz(float value);
uint32_t wave_float_to_bf16(float value);
float wave_min_f32(float a, float b);
float wave_max_f32(float a, float b);

/* 8-bit floats. Those of gfx942 have no infinities and no negative zero, and
 * one NaN; gfx12 has those of the Open Compute Project, whose bf8 has
 * infinities and whose fp8 has none. A value that is too large becomes a NaN,
 * or an infinity where there is one. */
struct wave_fp8 {
    bool is_bf8, is_ocp;
};
float wave_fp8_to_float(uint32_t bits, struct wave_fp8 format);
uint32_t wave_float_to_fp8(float value, struct wave_fp8 format);

static inline float
wave_f32(uint32_t bits)
{
    union {
        uint32_t u;
        float f;
    } x = {.u = bits};

    return x.f;
}

static inline uint32_t
wave_u32(float value)
{
    union {
        float f;
        uint32_t u;
    } x = {.f = value};

    return x.u;
}

static inline double
wave_f64(uint64_t bits)
{
    union {
        uint64_t u;
        double f;
    } x = {.u = bits};

    return x.f;
}

static inline uint64_t
wave_u64(double value)
{
    union {
        double f;
        uint64_t u;
    } x = {.f = value};

    return x.u;
}

#endif
