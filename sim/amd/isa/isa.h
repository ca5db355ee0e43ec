/* Instructions of AMD's compute chips, taken apart.
 *
 * An instruction is decoded once into a struct whose operation has the same
 * number on every generation. Opcode numbers are in isa_rows.def, which
 * tools/amdisa.py writes; field positions in isa_decode.c.
 * src: docs/hardware/amd-code.md, "Instruction formats", "Operands"; opcode
 * numbers, and fields of gfx1030, as LLVM 19 has them.
 */
#ifndef BELL_SIM_AMD_ISA_ISA_H
#define BELL_SIM_AMD_ISA_ISA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum isa_gen {
    ISA_GFX906, /* up to gfx942: waves of 64 */
    ISA_GFX908, /* that with accumulation registers of their own */
    ISA_GFX90A,
    ISA_GFX942,
    ISA_GFX101, /* gfx101x; from here on waves of 32, or 64 */
    ISA_GFX10,  /* gfx103x */
    ISA_GFX11,  /* gfx1100 */
    ISA_GFX115, /* gfx1150: that with floats in scalar registers */
    ISA_GFX12,  /* gfx1201 */
    ISA_GEN_COUNT
};

static inline bool
isa_is_gfx9(enum isa_gen gen)
{
    return gen <= ISA_GFX942;
}

static inline bool
isa_is_gfx11(enum isa_gen gen)
{
    return gen == ISA_GFX11 || gen == ISA_GFX115;
}

static inline bool
isa_is_gfx10(enum isa_gen gen)
{
    return gen == ISA_GFX101 || gen == ISA_GFX10;
}

/* One file of registers for all, which launches part; before, accumulation
 * registers are as many as others, or there are none. */
static inline bool
isa_has_one_file(enum isa_gen gen)
{
    return gen == ISA_GFX90A || gen == ISA_GFX942;
}

/* Vector registers of so many are given out together. */
static inline uint32_t
isa_register_granule(enum isa_gen gen, bool wave32)
{
    return isa_has_one_file(gen) || wave32 ? 8 : 4;
}

/* Kernels have scratch by a buffer descriptor in their first registers. */
static inline bool
isa_has_scratch_buffer(enum isa_gen gen)
{
    return gen <= ISA_GFX90A || isa_is_gfx10(gen);
}

enum isa_format {
    ISA_SOP1,
    ISA_SOP2,
    ISA_SOPC,
    ISA_SOPK,
    ISA_SOPP,
    ISA_SMEM,
    ISA_VOP1,
    ISA_VOP2,
    ISA_VOPC,
    ISA_VOP3,
    ISA_VOP3P,
    ISA_VOPD,
    ISA_DS,
    ISA_FLAT, /* flat, global and scratch: see segment */
    ISA_MUBUF,
    ISA_FORMAT_COUNT
};

/* Operations. Compares and memory operations are families: what they compare
 * or move is in the instruction's own fields. */
enum isa_op {
#define ISA_OP(name) ISA_##name,
#include "sim/amd/isa/isa_ops.def"
#undef ISA_OP
    ISA_OP_COUNT
};

/* Types that compares and atomics work on. */
enum isa_type {
    ISA_F16,
    ISA_F32,
    ISA_F64,
    ISA_I16,
    ISA_U16,
    ISA_I32,
    ISA_U32,
    ISA_I64,
    ISA_U64,
    ISA_PK_F16,
    ISA_PK_BF16
};

/* V_CMP: which outcomes are true, and whether EXEC is written. */
enum isa_cond {
    ISA_LT = 1,
    ISA_EQ = 2,
    ISA_GT = 4,
    ISA_UNORDERED = 8, /* either is a NaN */
};

enum isa_segment {
    ISA_SEG_FLAT,
    ISA_SEG_SCRATCH,
    ISA_SEG_GLOBAL
};

enum isa_memory_flag {
    ISA_MEM_SIGNED = 1u << 0, /* loads: sign-extend */
    ISA_MEM_LOW = 1u << 1,    /* d16: the low half of the register alone */
    ISA_MEM_HIGH = 1u << 2,   /* d16: the high half alone */
    ISA_MEM_RETURN = 1u << 3, /* atomics: the value before */
    ISA_MEM_TWO = 1u << 4,    /* LDS: two elements */
    ISA_MEM_ST64 = 1u << 5,   /* LDS: offsets count 64 elements */
    ISA_MEM_FRESH = 1u << 6,  /* loads: not out of the vector caches */
    ISA_MEM_PAST = 1u << 7,   /* loads, stores: past L2, to memory */
};

/* M_CACHE's action, in mem_flags. */
enum isa_cache {
    ISA_CACHE_INV_SCALAR = 1u << 0,
    ISA_CACHE_INV_VECTOR = 1u << 1,
    ISA_CACHE_INV_GL1 = 1u << 2, /* gfx10 and later */
    ISA_CACHE_INV_L2 = 1u << 3,
    ISA_CACHE_WB_L2 = 1u << 4,
};

/* Operand codes as in the instruction word. src: docs/hardware/amd-code.md,
 * "Operands" */
#define ISA_VCC_LO    106
#define ISA_TTMP      108     /* trap temporaries */
#define ISA_M0        0x10000 /* after decoding, on all generations */
#define ISA_NULL      0x10001
#define ISA_EXEC_LO   126
#define ISA_APERTURES 235 /* of LDS, its end; of scratch, its end */
#define ISA_LITERAL   255
#define ISA_VGPR      256
#define ISA_ACC       512 /* accumulation registers, after decoding */
#define ISA_NO_SOURCE 0x10002

struct isa_insn {
    uint16_t op;    /* enum isa_op */
    uint8_t format; /* enum isa_format */
    uint8_t n_dw;
    uint8_t n_src;
    uint8_t type;       /* enum isa_type, of families */
    uint8_t cond;       /* compares */
    bool is_x;          /* compares: EXEC is written */
    uint32_t dst, sdst; /* vdst without ISA_VGPR; scalar code */
    uint32_t src[3];
    uint32_t literal;
    /* vector modifiers */
    uint8_t neg, abs, opsel, neg_hi, opsel_hi, omod;
    bool clamp;
    bool acc_cd, has_dpp8, has_dpp, has_sdwa;
    bool is_e64;    /* a mask operand is named, not VCC */
    uint32_t extra; /* DPP or SDWA dword; VOP3P-MAI: cbsz, abid, blgp */
    /* memory */
    int32_t offset, offset1;
    uint8_t segment, bytes; /* of one lane */
    uint8_t mem_flags;
    /* Scratch: a lane has an address. MUBUF: the sources are the address, the
     * data and the offset; sdst is the descriptor. */
    bool sve, offen, idxen;
    /* VOPD: the second half */
    uint16_t op_y;
    uint32_t dst_y, src_y[2];
    uint16_t simm;
};

/* Decodes the instruction at `words` (up to n_dw of them, at most 3 are
 * looked at). False: not an instruction that is known; *out_why is static. */
bool isa_decode(enum isa_gen gen, const uint32_t *words, uint32_t n_dw,
                struct isa_insn *out, const char **out_why);

/* "V_ADD_F32". */
const char *isa_op_name(uint32_t op);

#endif
