/* Shared by the files of the PTX interpreter. */
#ifndef BELL_SIM_NV_PTX_INTERNAL_H
#define BELL_SIM_NV_PTX_INTERNAL_H

#include "base/arena.h"
#include "base/map.h"
#include "sim/nv/ptx.h"

/* ---- decoded form ---- */

enum px_type {
    PX_NONE,
    PX_PRED,
    PX_B8,
    PX_B16,
    PX_B32,
    PX_B64,
    PX_U8,
    PX_U16,
    PX_U32,
    PX_U64,
    PX_S8,
    PX_S16,
    PX_S32,
    PX_S64,
    PX_F16,
    PX_BF16,
    PX_F32,
    PX_F64,
    PX_TYPE_COUNT
};

enum px_op {
    PX_ADD,
    PX_SUB,
    PX_MUL,
    PX_MAD,
    PX_FMA,
    PX_DIV,
    PX_REM,
    PX_MIN,
    PX_MAX,
    PX_NEG,
    PX_ABS,
    PX_RCP,
    PX_SQRT,
    PX_RSQRT,
    PX_EX2,
    PX_LG2,
    PX_SIN,
    PX_COS,
    PX_TANH,
    PX_AND,
    PX_OR,
    PX_XOR,
    PX_NOT,
    PX_SHL,
    PX_SHR,
    PX_POPC,
    PX_CLZ,
    PX_BREV,
    PX_SETP,
    PX_SELP,
    PX_MOV,
    PX_CVT,
    PX_CVTA,
    PX_LD,
    PX_ST,
    PX_ATOM,
    PX_RED,
    PX_SHFL,
    PX_BRA,
    PX_BAR,
    PX_FENCE,
    PX_RET,
    PX_EXIT,
    PX_TRAP,
    PX_PACK,   /* mov d, {a, b} */
    PX_UNPACK, /* mov {a, b}, s */
    PX_OP_COUNT
};

enum px_space {
    PX_GENERIC,
    PX_GLOBAL,
    PX_SHARED,
    PX_LOCAL,
    PX_PARAM,
    PX_SPACE_COUNT
};

/* Values of modifiers. */
enum px_cmp {
    PX_EQ,
    PX_NE,
    PX_LT,
    PX_LE,
    PX_GT,
    PX_GE,
    PX_EQU,
    PX_NEU,
    PX_LTU,
    PX_LEU,
    PX_GTU,
    PX_GEU,
    PX_NUM,
    PX_NAN,
    PX_LO, /* unsigned, of bits */
    PX_LS,
    PX_HI,
    PX_HS,
};
enum px_half {
    PX_HALF_LO = 1,
    PX_HALF_HI,
    PX_WIDE
};
enum px_round {
    PX_RN = 1,
    PX_RZ,
    PX_RM,
    PX_RP,
    PX_RNI,
    PX_RZI,
    PX_RMI,
    PX_RPI
};
enum px_atom {
    PX_ATOM_ADD = 1,
    PX_ATOM_MIN,
    PX_ATOM_MAX,
    PX_ATOM_AND,
    PX_ATOM_OR,
    PX_ATOM_XOR,
    PX_ATOM_EXCH,
    PX_ATOM_CAS,
};
enum px_shfl {
    PX_SHFL_UP = 1,
    PX_SHFL_DOWN,
    PX_SHFL_BFLY,
    PX_SHFL_IDX
};

/* Kinds of modifiers, in the order in which an instruction may have them. */
enum px_mod {
    PX_MOD_ORDER, /* volatile, relaxed, sync: no effect here */
    PX_MOD_SCOPE,
    PX_MOD_TO,
    PX_MOD_SPACE,
    PX_MOD_CACHE,
    PX_MOD_MODE, /* of atom and shfl */
    PX_MOD_VEC,
    PX_MOD_CMP,
    PX_MOD_BOOL,
    PX_MOD_HALF,
    PX_MOD_APPROX, /* approx, full */
    PX_MOD_ROUND,
    PX_MOD_FTZ,
    PX_MOD_NAN,
    PX_MOD_SAT,
    PX_MOD_TYPE,
    PX_MOD_TYPE2,
    PX_MOD_COUNT
};

#define PX_MAX_VEC 4
#define PX_NO_ROW  INT32_MIN

/* An instruction. Operands are rows: of the registers from 0 on, of the
 * constants as ~row. */
struct px_insn {
    uint8_t op;                /* enum px_op */
    uint8_t type, type2;       /* enum px_type; type2: source of cvt */
    uint8_t mod[PX_MOD_COUNT]; /* value of each modifier; 0: absent */
    uint8_t n_vec, n_src;
    uint8_t dst_bits;                 /* width of the destination register */
    bool guard_negated, src2_negated; /* src2: setp's */
    int32_t guard;                    /* row, or PX_NO_ROW */
    int32_t dst, dst2;                /* rows, or PX_NO_ROW */
    int32_t src[3];
    int32_t vec[PX_MAX_VEC];
    int64_t offset;  /* of an address: src[0] + offset */
    uint32_t target; /* of a branch; barrier's threads (0: all) */
    uint32_t line;
};

/* Special registers are rows filled when a warp starts. */
enum px_special {
    PX_TID_X,
    PX_TID_Y,
    PX_TID_Z,
    PX_NTID_X,
    PX_NTID_Y,
    PX_NTID_Z,
    PX_CTAID_X,
    PX_CTAID_Y,
    PX_CTAID_Z,
    PX_NCTAID_X,
    PX_NCTAID_Y,
    PX_NCTAID_Z,
    PX_LANEID,
    PX_WARPID,
    PX_NWARPID,
    PX_SPECIAL_COUNT
};

struct px_const {
    uint64_t bits;
    bool is_dynamic_shared; /* plus where dynamic shared memory begins */
};

struct px_kernel {
    char *name;
    struct px_insn *code;
    size_t n_code, cap_code;
    struct px_const *consts;
    size_t n_consts, cap_consts;
    struct map const_index; /* bits -> number, of plain ones */
    uint32_t n_rows;        /* the first are the special registers */
    uint32_t param_bytes, shared_bytes, local_bytes;
    uint32_t reqntid[3], maxntid[3];
};

struct sim_ptx_module {
    struct arena arena;
    struct px_kernel *kernels;
    size_t n_kernels, cap_kernels;
    uint32_t sm;
};

/* ---- facts about types and instructions (ptx_ops.c) ---- */

struct px_type_info {
    const char *name; /* without the dot */
    uint8_t bits;
    char kind; /* 'p' 'b' 'u' 's' 'f' */
};
extern const struct px_type_info px_types[PX_TYPE_COUNT];

struct px_op_info {
    const char *name;
    uint8_t op;    /* enum px_op */
    uint8_t n_src; /* registers or constants */
    uint32_t mods; /* bits of enum px_mod: allowed */
    uint32_t need; /* the same: required */
    uint32_t types;
};

/* NULL where there is none. */
const struct px_op_info *px_find_op(const char *name, size_t len);
/* Takes one modifier (without its dot) into `in`. NULL, or what is wrong. */
const char *px_take_modifier(const struct px_op_info *info, struct px_insn *in,
                             int *order, const char *word, size_t len);
/* Checks the whole set. NULL, or what is wrong. */
const char *px_check_modifiers(const struct px_op_info *info,
                               const struct px_insn *in);
const char *px_op_name(unsigned op);

static inline uint64_t
px_mask(unsigned bits)
{
    return bits >= 64 ? UINT64_MAX : ((uint64_t)1 << bits) - 1;
}

static inline int64_t
px_sign_extend(uint64_t x, unsigned bits)
{
    return (int64_t)(x << (64 - bits)) >> (64 - bits);
}

/* ---- arithmetic on one lane (ptx_alu.c, ptx_cvt.c) ---- */

/* Result of anything that is neither memory nor control. */
uint64_t px_eval(const struct px_insn *in, uint64_t a, uint64_t b, uint64_t c);
uint64_t px_eval_cvt(const struct px_insn *in, uint64_t a);
/* What an atomic leaves in memory. */
uint64_t px_eval_atom(const struct px_insn *in, uint64_t old, uint64_t b,
                      uint64_t c);

/* ---- text (ptx_lex.c) ---- */

enum px_token {
    PX_END,
    PX_WORD,   /* add %r1 $loop */
    PX_DOT,    /* .f32: the word without its dot */
    PX_NUMBER, /* integer, or float given as bits */
    PX_PUNCT,
    PX_STRING,
    PX_BAD,
};

struct px_lex {
    const char *at;
    uint32_t line;
    enum px_token token;
    const char *word; /* of the token */
    size_t len;
    uint64_t number;
    char punct;
    uint8_t float_bits; /* 32 or 64 for 0f and 0d */
    bool is_glued;      /* no blank before it */
};

void px_lex_init(struct px_lex *lex, const char *text);
void px_lex_next(struct px_lex *lex);

#endif
