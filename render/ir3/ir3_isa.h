/* Instructions of Adreno 6xx and 7xx shaders (ir3): 64-bit words from fields
 * and back, and as text. One table (ir3_isa.c) has for every instruction its
 * bits, its fields and how it is written; what encodes, decodes, prints and
 * reads is made of it. It says nothing of what instructions do or how long they
 * take.
 *
 * The text is that of Mesa's disassembler, so that others' listings can be
 * read. No state: any thread.
 *
 * src: Mesa 25.0, its assembler and disassembler asked word by word: 785
 * vectors, 221 encodings
 */
#ifndef BELL_RENDER_IR3_IR3_ISA_H
#define BELL_RENDER_IR3_IR3_ISA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"

/* Which generation's instructions. The third of the 7xx (a750) has those of the
 * others; its code differs, for constants do not come with launches there. */
enum ir3_gen {
    IR3_GEN_A6XX = 1u << 0,
    IR3_GEN_A7XX = 1u << 1,
    IR3_GEN_A7XX_3 = 1u << 2,
};

enum ir3_op {
    IR3_NOP,
    IR3_BKT,
    IR3_BR,
    IR3_BRAO,
    IR3_BRAA,
    IR3_BANY,
    IR3_BALL,
    IR3_JUMP,
    IR3_CALL,
    IR3_RET,
    IR3_GETLAST,
    IR3_KILL,
    IR3_GETONE,
    IR3_END,
    IR3_SHPS,
    IR3_SHPE,
    IR3_PREDT,
    IR3_PREDF,
    IR3_PREDE,
    IR3_MOV_GPR,
    IR3_MOV_RELGPR,
    IR3_MOV_RELCONST,
    IR3_MOV_CONST,
    IR3_MOV_IMMED,
    IR3_SWZ,
    IR3_GAT,
    IR3_SCT,
    IR3_MOVMSK,
    IR3_ADD_F,
    IR3_MIN_F,
    IR3_MAX_F,
    IR3_MUL_F,
    IR3_SIGN_F,
    IR3_CMPS_F,
    IR3_ABSNEG_F,
    IR3_CMPV_F,
    IR3_FLOOR_F,
    IR3_CEIL_F,
    IR3_RNDNE_F,
    IR3_RNDAZ_F,
    IR3_TRUNC_F,
    IR3_ADD_U,
    IR3_ADD_S,
    IR3_SUB_U,
    IR3_SUB_S,
    IR3_CMPS_U,
    IR3_CMPS_S,
    IR3_MIN_U,
    IR3_MIN_S,
    IR3_MAX_U,
    IR3_MAX_S,
    IR3_ABSNEG_S,
    IR3_AND_B,
    IR3_OR_B,
    IR3_NOT_B,
    IR3_XOR_B,
    IR3_CMPV_U,
    IR3_CMPV_S,
    IR3_MUL_U24,
    IR3_MUL_S24,
    IR3_MULL_U,
    IR3_BFREV_B,
    IR3_CLZ_S,
    IR3_CLZ_B,
    IR3_SHL_B,
    IR3_SHR_B,
    IR3_ASHR_B,
    IR3_MGEN_B,
    IR3_GETBIT_B,
    IR3_SETRM,
    IR3_CBITS_B,
    IR3_SHB,
    IR3_MSAD,
    IR3_MAD_U16,
    IR3_MADSH_U16,
    IR3_MAD_S16,
    IR3_MADSH_M16,
    IR3_MAD_U24,
    IR3_MAD_S24,
    IR3_MAD_F16,
    IR3_MAD_F32,
    IR3_SEL_B16,
    IR3_SHRM,
    IR3_SEL_B32,
    IR3_SHLM,
    IR3_SEL_S16,
    IR3_SHRG,
    IR3_SEL_S32,
    IR3_SHLG,
    IR3_SEL_F16,
    IR3_ANDG,
    IR3_SEL_F32,
    IR3_DP2ACC,
    IR3_DP4ACC,
    IR3_SAD_S16,
    IR3_WMM,
    IR3_WMM_ACCU,
    IR3_SAD_S32,
    IR3_RCP,
    IR3_RSQ,
    IR3_LOG2,
    IR3_EXP2,
    IR3_SIN,
    IR3_COS,
    IR3_SQRT,
    IR3_HRSQ,
    IR3_HLOG2,
    IR3_HEXP2,
    IR3_ISAM,
    IR3_SAM,
    IR3_GETSIZE,
    IR3_BRCST_ACTIVE,
    IR3_QUAD_SHUFFLE_BRCST,
    IR3_QUAD_SHUFFLE_HORIZ,
    IR3_QUAD_SHUFFLE_VERT,
    IR3_QUAD_SHUFFLE_DIAG,
    IR3_LDG,
    IR3_LDG_A_A6,
    IR3_LDG_A_A7,
    IR3_LDG_K,
    IR3_GETSPID,
    IR3_GETWID,
    IR3_LDIB_B,
    IR3_RESINFO_B,
    IR3_STIB_B,
    IR3_GETFIBERID,
    IR3_LDC,
    IR3_ATOMIC_B_ADD,
    IR3_ATOMIC_B_SUB,
    IR3_ATOMIC_B_XCHG,
    IR3_ATOMIC_B_CMPXCHG,
    IR3_ATOMIC_B_MIN,
    IR3_ATOMIC_B_MAX,
    IR3_ATOMIC_B_AND,
    IR3_ATOMIC_B_OR,
    IR3_ATOMIC_B_XOR,
    IR3_LDC_K,
    IR3_LDL,
    IR3_LDP,
    IR3_STG,
    IR3_STG_A_A6,
    IR3_STG_A_A7,
    IR3_STL,
    IR3_STP,
    IR3_LDLW,
    IR3_STLW,
    IR3_ATOMIC_ADD,
    IR3_ATOMIC_G_ADD,
    IR3_ATOMIC_SUB,
    IR3_ATOMIC_G_SUB,
    IR3_ATOMIC_XCHG,
    IR3_ATOMIC_G_XCHG,
    IR3_ATOMIC_INC,
    IR3_ATOMIC_G_INC,
    IR3_ATOMIC_DEC,
    IR3_ATOMIC_G_DEC,
    IR3_ATOMIC_CMPXCHG,
    IR3_ATOMIC_G_CMPXCHG,
    IR3_ATOMIC_MIN,
    IR3_ATOMIC_G_MIN,
    IR3_ATOMIC_MAX,
    IR3_ATOMIC_G_MAX,
    IR3_ATOMIC_AND,
    IR3_ATOMIC_G_AND,
    IR3_ATOMIC_OR,
    IR3_ATOMIC_G_OR,
    IR3_ATOMIC_XOR,
    IR3_ATOMIC_G_XOR,
    IR3_SHFL,
    IR3_STC,
    IR3_BAR,
    IR3_FENCE,
    IR3_SLEEP,
    IR3_ICINV,
    IR3_DCCLN,
    IR3_DCINV,
    IR3_CCINV,
    IR3_DCFLU,
    IR3_LOCK,
    IR3_UNLOCK,
    IR3_ALIAS,
    IR3_OP_COUNT,
};

/* What an instruction has beside its opcode; 0 where it has no such field. */
enum ir3_field {
    IR3_F_SY,     /* (sy): waits for what global memory and textures give */
    IR3_F_JP,     /* (jp): threads that wait here join */
    IR3_F_EQ,     /* (eq) */
    IR3_F_SS,     /* (ss): waits for SFU and local memory */
    IR3_F_REPEAT, /* once more so often */
    IR3_F_IMM,    /* an immediate; signed where it is a distance */
    IR3_F_COMP1,  /* a predicate by its component */
    IR3_F_INV1,   /* .. of which the opposite counts */
    IR3_F_COMP2,
    IR3_F_INV2,
    IR3_F_W,     /* of a cluster: 2 << W threads */
    IR3_F_ROUND, /* to zero, to even, up, down */
    IR3_F_SRC_TYPE,
    IR3_F_DST_REL, /* DST is a signed distance from a0.x */
    IR3_F_DST_TYPE,
    IR3_F_UL,
    IR3_F_SRC1_R, /* advances with REPEAT, or (nop) */
    IR3_F_DST,
    IR3_F_LAST, /* the register is read for the last time */
    IR3_F_SRC1,
    IR3_F_SRC3,
    IR3_F_SRC2,
    IR3_F_SRC4,
    IR3_F_FULL, /* sources of 32 bits */
    IR3_F_SRC2_R,
    IR3_F_EI,       /* (ei) */
    IR3_F_DST_CONV, /* the result is of the other width */
    IR3_F_SAT,      /* (sat) */
    IR3_F_COND,     /* of a comparison: lt le gt ge eq ne */
    IR3_F_SRC3_NEG,
    IR3_F_SRC2_NEG,
    IR3_F_SRC3_R,
    IR3_F_SRC1_NEG,
    IR3_F_PACK,
    IR3_F_SIGN,
    IR3_F_DST_FULL, /* wmm */
    IR3_F_S2EN,     /* descriptors are named by SRC3 */
    IR3_F_TYPE,
    IR3_F_WRMASK, /* components that are written */
    IR3_F_TEX,
    IR3_F_SAMP,
    IR3_F_NOT_1D,   /* two dimensions */
    IR3_F_SIZE,     /* components, as they are counted */
    IR3_F_OFF,      /* bytes beside an address */
    IR3_F_SHIFT,    /* of the index, beyond 4 bytes */
    IR3_F_IS_CONST, /* SRC1 is a constant */
    IR3_F_OFFSET,
    IR3_F_SLOT, /* of a descriptor */
    IR3_F_HAS_OFFSET,
    IR3_F_N,     /* components, less one */
    IR3_F_TYPED, /* through a format */
    IR3_F_DIM,   /* dimensions, less one */
    IR3_F_BINDLESS,
    IR3_F_MODE, /* of a descriptor's slot, or of a shuffle */
    IR3_F_BASE,
    IR3_F_IS_IMM, /* the number of a register is a value */
    IR3_F_U,      /* to a shared register */
    IR3_F_COMP,
    IR3_F_G,        /* fence: global */
    IR3_F_L,        /* fence: local */
    IR3_F_R,        /* fence: reads */
    IR3_F_W_FLAG,   /* fence: writes */
    IR3_F_DURATION, /* 1: long */
    IR3_F_ALL,      /* .all */
    IR3_F_SRC_REG_TYPE,
    IR3_F_TYPE_SIZE, /* 1: 32 bits */
    IR3_F_SCOPE,
    IR3_F_COUNT,
};

/* Codes of types, in TYPE, SRC_TYPE and DST_TYPE. */
enum ir3_type {
    IR3_TYPE_F16,
    IR3_TYPE_F32,
    IR3_TYPE_U16,
    IR3_TYPE_U32,
    IR3_TYPE_S16,
    IR3_TYPE_S32,
    IR3_TYPE_U8,
    IR3_TYPE_U8_32, /* 8 bits of memory in a whole register */
};

/* Is a value of the type in half a register? */
bool ir3_type_is_half(enum ir3_type type);

/* Numbers of registers: 4 n + component for rn.x ..; halves count alike. */
#define IR3_REG_SHARED 192u /* r48.x: one for all threads of a wave */
#define IR3_REG_A0     244u
#define IR3_REG_A1     245u
#define IR3_REG_P0     248u /* p0.x .. p0.w */
#define IR3_REG_NONE   252u

/* One instruction. A member for which its opcode has no field is 0. */
struct ir3_instr {
    enum ir3_op op;
    uint32_t f[IR3_F_COUNT];
};

/* The word; the fields fit what they go to (asserted). */
uint64_t ir3_encode(const struct ir3_instr *instr);

/* False: no instruction of that generation looks like this. Bits that
 * instructions of this kind do not use go to *out_unused (0: none is set). */
bool ir3_decode(enum ir3_gen gen, uint64_t word, struct ir3_instr *out_instr,
                uint64_t *out_unused);

/* Does the opcode have such a field? */
bool ir3_op_has(enum ir3_op op, enum ir3_field field);

/* Are the sources of this instruction of category 2 to 4, or what it stores or
 * makes, 16 bits wide? */
bool ir3_src_is_half(const struct ir3_instr *instr);
bool ir3_dst_is_half(const struct ir3_instr *instr);

/* Room for any instruction's text. */
#define IR3_TEXT_MAX 160

/* As text, "(sy)mad.f32 r0.x, r1.x, r2.x, r3.x". */
void ir3_print(const struct ir3_instr *instr, char buf[IR3_TEXT_MAX]);

/* From text; BELL_E_PARSE with what cannot be read. */
BELL_MUST_CHECK bell_status ir3_parse(enum ir3_gen gen, const char *text,
                                      struct ir3_instr *out_instr);

#endif
