/* Shared by the files of the interpreter of Adreno's shaders. */
#ifndef BELL_SIM_QCOM_ISA_SHADER_INTERNAL_H
#define BELL_SIM_QCOM_ISA_SHADER_INTERNAL_H

#include "ioctl/sim_count.h"
#include "sim/qcom/isa/shader.h"

/* How an instruction's fields lie. */
enum shader_layout {
    SHADER_AS_FLOW,
    SHADER_AS_MOVE,
    SHADER_AS_SWIZZLE,
    SHADER_AS_MOVMSK,
    SHADER_AS_ALU1,
    SHADER_AS_ALU2,
    SHADER_AS_ALU3,
    SHADER_AS_ALU3B, /* shifts and masks of three */
    SHADER_AS_SFU,
    SHADER_AS_LDG,
    SHADER_AS_LDG_A6,
    SHADER_AS_LDG_A7,
    SHADER_AS_STG,
    SHADER_AS_STG_A6,
    SHADER_AS_STG_A7,
    SHADER_AS_LDL,
    SHADER_AS_STL,
    SHADER_AS_ATOMIC_AT,
    SHADER_AS_BY_SLOT,
    SHADER_AS_LDC,
    SHADER_AS_INFO,
    SHADER_AS_SYNC,
    SHADER_AS_OTHER /* none that is run */
};

enum shader_op {
#define ROW(name, text, layout, gens, mask, match, unused, half) SHADER_##name,
#include "sim/qcom/isa/shader_rows.def"
#undef ROW
    SHADER_OP_COUNT
};

struct shader_row {
    const char *text;
    enum shader_layout layout;
    uint32_t gens;
    uint64_t mask, match, unused;
    bool is_half;
};

extern const struct shader_row shader_rows[SHADER_OP_COUNT];

/* Types of data. */
enum shader_type {
    SHADER_F16,
    SHADER_F32,
    SHADER_U16,
    SHADER_U32,
    SHADER_S16,
    SHADER_S32,
    SHADER_U8,
    SHADER_U8_32
};

#define SHADER_FULLS   192u /* registers of a thread */
#define SHADER_STORED  288u /* with halves that are by themselves */
#define SHADER_HALVES  (2 * SHADER_STORED)
#define SHADER_SHAREDS 32u /* r48.x to r55.w */
#define SHADER_A0      244u
#define SHADER_A1      245u
#define SHADER_P0      248u

/* Places that hazards are about: halves, shared registers, a0.x, a1.x, p0. */
#define SHADER_AT_SHARED SHADER_HALVES
#define SHADER_AT_A0     (SHADER_AT_SHARED + SHADER_SHAREDS)
#define SHADER_AT_P0     (SHADER_AT_A0 + 2)
#define SHADER_PLACES    (SHADER_AT_P0 + 4)

struct shader_operand {
    enum shader_operand_kind {
        SHADER_NO_OPERAND,
        SHADER_GPR,
        SHADER_CONST,
        SHADER_REL_GPR,
        SHADER_REL_CONST,
        SHADER_IMM /* an integer or bits of a float */
    } kind : 8;
    bool is_half, neg, abs, advances, is_float;
    uint32_t v; /* a register, a constant, a value, a distance from a0.x */
};

/* Places that an instruction reads or writes. */
struct shader_touch {
    uint16_t at, n;
    bool is_half, is_write, is_late, is_third, advances;
};

struct shader_insn {
    uint64_t word;
    enum shader_op op;
    enum shader_layout layout;
    uint8_t cat;
    bool sy, ss, jp, sat, ei, inv1, inv2;
    uint8_t repeat, nops, cond, type, src_type, round;
    uint8_t comp1, comp2;
    uint8_t n;     /* components of memory */
    uint8_t shift; /* of an index, on 6xx */
    uint8_t mode, dims, slot_mode;
    bool dst_half, dst_rel, typed, has_offset, index_is_imm, base_is_const;
    uint32_t dst;  /* a register */
    int32_t imm;   /* a branch's distance, an offset in bytes */
    uint32_t slot; /* or the register with it */
    struct shader_operand src[4];
    unsigned n_touches;
    struct shader_touch touches[8];
};

struct shader_code {
    enum shader_gen gen;
    uint32_t n;
    uint64_t *words;            /* owned */
    struct shader_insn insns[]; /* n */
};

#define SHADER_MAX_LANES  128u
#define SHADER_MAX_PARKED 65u

/* Threads of a wave, a bit each. */
struct shader_mask {
    uint64_t w[2];
};

/* A wave's pipeline, for threads that run together: accesses of others to their
 * own part of a register are not a hazard. */
struct shader_pipe {
    int32_t now;
    int32_t done[SHADER_PLACES];
    bool was_half[SHADER_PLACES], was_scalar[SHADER_PLACES];
    uint8_t pending[SHADER_PLACES]; /* enum shader_pending */
    bool any_ss, any_sy;            /* of pending */
    int32_t quiet_until;            /* nothing but nops before */
    bool local_open, global_open;   /* memory that no flag has waited for */
    bool local_stored;              /* .. and that no fence has ordered */
};

enum shader_pending {
    SHADER_WAIT_SS = 1u << 0,
    SHADER_WAIT_SY = 1u << 1,
    SHADER_READ_SS = 1u << 2, /* still to be read: (ss) says that it was */
    SHADER_READ_SY = 1u << 3, /* .. or (sy) */
};

struct shader_wave {
    struct shader_group *group;
    uint32_t index, n_lanes;
    uint32_t pc;
    struct shader_mask all, active, outer; /* outer: of a predication */
    bool is_predicated, at_barrier, has_ended;
    bool must_join; /* threads meet at pc */
    uint8_t locked; /* 1: by lock, 2: and unlock behind it */
    struct shader_parked {
        uint32_t pc;
        struct shader_mask lanes;
        struct shader_pipe pipe;
    } parked[SHADER_MAX_PARKED];
    uint32_t n_parked;
    uint32_t r[SHADER_STORED][SHADER_MAX_LANES];
    struct shader_mask set[SHADER_HALVES];
    uint32_t shared[SHADER_SHAREDS];
    uint32_t shared_set;
    int16_t a0[SHADER_MAX_LANES];
    uint32_t a1;
    struct shader_mask p[4];
    uint32_t p_set;
    struct shader_pipe pipe;
    struct shader_pipe aside; /* of those that a predication leaves out */
};

struct shader_group {
    const struct shader_launch *launch;
    struct shader_report *report;
    uint32_t id[3], number, n_threads;
    uint64_t insns_before; /* of the launch, when it began */
    uint32_t n_waves;
    struct shader_wave *waves; /* owned */
    uint8_t shared[32768];
    struct sim_counts *counts; /* NULL: nobody asks */
    uint32_t random;
};

/* Where a half is, in halves of what is stored. */
static inline uint32_t
shader_half_at(const struct shader_launch *l, uint32_t half)
{
    return half + (l->has_own_halves ? 2 * SHADER_FULLS : 0);
}

static inline bool
shader_lane_on(const struct shader_mask *mask, uint32_t lane)
{
    return mask->w[lane / 64] >> (lane & 63) & 1;
}

/* Stops the group with a text; false. */
bool shader_fail(struct shader_wave *w, const struct shader_insn *in,
                 const char *fmt, ...) __attribute__((format(printf, 3, 4)));
/* The same of memory that is not mapped. */
bool shader_fail_memory(struct shader_wave *w, const struct shader_insn *in,
                        uint64_t va, bool is_write);

/* ---- shader_decode.c ---- */

bool shader_decode(enum shader_gen gen, uint64_t word, struct shader_insn *out);
/* Is the type 16 bits or fewer in a register? */
bool shader_type_is_half(uint32_t type);

/* ---- shader_hazard.c ---- */

void shader_list_touches(struct shader_insn *in);
void shader_pipe_init(struct shader_pipe *pipe);
/* Threads of `other` join. */
void shader_pipe_merge(struct shader_pipe *pipe,
                       const struct shader_pipe *other);
/* Before an instruction is executed: is it too early? Then what it leaves
 * under way. */
bool shader_issue(struct shader_wave *w, const struct shader_insn *in);

/* ---- shader_operand.c ---- */

/* A source's values, without sign and size of the operation; the registers
 * must have been set. `step`: how often the instruction was repeated. */
bool shader_source(struct shader_wave *w, const struct shader_insn *in,
                   const struct shader_operand *o, uint32_t step,
                   uint32_t *out);
/* Registers one by one. */
bool shader_get(struct shader_wave *w, const struct shader_insn *in,
                uint32_t reg, bool is_half, uint32_t *out);
bool shader_put(struct shader_wave *w, const struct shader_insn *in,
                uint32_t reg, bool is_half, const uint32_t *values);
float shader_half_to_float(uint32_t bits);
uint32_t shader_float_to_half(float value);

/* ---- shader_alu.c, shader_memory.c ---- */

/* Moves, conversions, arithmetic. */
bool shader_alu(struct shader_wave *w, const struct shader_insn *in);
bool shader_memory(struct shader_wave *w, const struct shader_insn *in);

#endif
