/* Shared by the files of the PTX interpreter: the decoded form. */
#ifndef BELL_SIM_PTX_PTX_INTERNAL_H
#define BELL_SIM_PTX_PTX_INTERNAL_H

#include "base/arena.h"
#include "base/map.h"
#include "sim/ptx/ptx.h"

#define PX_LANES 32

/* ---- types and instructions ---- */

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
    PX_F16X2,
    PX_BF16X2,
    PX_TF32,
    PX_E4M3,
    PX_E5M2,
    PX_E4M3X2,
    PX_E5M2X2,
    PX_TYPE_COUNT
};

enum px_op {
    PX_ADD,
    PX_SUB,
    PX_MUL,
    PX_MAD,
    PX_MUL24,
    PX_MAD24,
    PX_FMA,
    PX_DIV,
    PX_REM,
    PX_MIN,
    PX_MAX,
    PX_NEG,
    PX_ABS,
    PX_COPYSIGN,
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
    PX_LOP3,
    PX_SHL,
    PX_SHR,
    PX_SHF,
    PX_POPC,
    PX_CLZ,
    PX_BREV,
    PX_BFIND,
    PX_BFE,
    PX_BFI,
    PX_PRMT,
    PX_DP4A,
    PX_SAD,
    /* from here on check_float and check_int have nothing to say */
    PX_SETP,
    PX_SET,
    PX_TESTP,
    PX_ISSPACEP,
    PX_SELP,
    PX_MOV,
    PX_CLOCK, /* mov from a register that changes */
    PX_CVT,
    PX_CVTA,
    PX_LD,
    PX_ST,
    PX_PREFETCH,
    PX_ATOM,
    PX_RED,
    PX_SHFL,
    PX_VOTE,
    PX_MATCH,
    PX_REDUX,
    PX_ACTIVEMASK,
    PX_WARPSYNC,
    PX_BRA,
    PX_BRX,
    PX_CALL,
    PX_BAR,
    PX_BAR_ARRIVE,
    PX_BAR_RED,
    PX_FENCE,
    PX_NANOSLEEP,
    PX_RET,
    PX_EXIT,
    PX_TRAP,
    PX_PACK,   /* mov d, {a, b, ...} */
    PX_UNPACK, /* mov {a, b, ...}, s */
    PX_MMA,
    PX_LDMATRIX,
    PX_STMATRIX,
    PX_COPY,        /* cp.async */
    PX_COMMIT,      /* cp.async.commit_group */
    PX_AWAIT,       /* cp.async.wait_group, wait_all */
    PX_PROXY_FENCE, /* fence.proxy.async, fence.proxy.alias */
    PX_WGMMA,
    PX_WGMMA_FENCE,
    PX_WGMMA_COMMIT,
    PX_WGMMA_AWAIT,
    PX_TEAM, /* multimem.ld_reduce, .st, .red: enum px_team_mode */
    PX_MBAR, /* mbarrier: one of the next */
    PX_MBAR_INIT,
    PX_MBAR_EXPECT, /* expect_tx */
    PX_MBAR_ARRIVE,
    PX_MBAR_WAIT,  /* try_wait.parity */
    PX_MBAR_FENCE, /* fence.mbarrier_init */
    PX_BOX,        /* cp.async.bulk.tensor */
    PX_OP_COUNT
};

enum px_space {
    PX_GENERIC,
    PX_GLOBAL,
    PX_SHARED,
    PX_LOCAL,
    PX_PARAM,
    PX_CONST,
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
    PX_RNA, /* to nearest, ties away from zero */
    PX_RNI,
    PX_RZI,
    PX_RMI,
    PX_RPI
};
enum px_sat {
    PX_SAT = 1,
    PX_SATFINITE,
    PX_RELU
};
enum px_order {
    PX_VOLATILE = 1,
    PX_SYNC,
    PX_UNI,
    PX_RELAXED,
    PX_ACQUIRE,
    PX_RELEASE,
    PX_ACQ_REL,
    PX_SC,
    PX_WEAK
};
/* Operations of atom, red, redux, bar.red and the logic of setp. */
enum px_atom {
    PX_ATOM_ADD = 1,
    PX_ATOM_MIN,
    PX_ATOM_MAX,
    PX_ATOM_AND,
    PX_ATOM_OR,
    PX_ATOM_XOR,
    PX_ATOM_EXCH,
    PX_ATOM_CAS,
    PX_ATOM_INC,
    PX_ATOM_DEC,
    PX_ATOM_POPC,
};
enum px_shfl {
    PX_SHFL_UP = 1,
    PX_SHFL_DOWN,
    PX_SHFL_BFLY,
    PX_SHFL_IDX
};
enum px_vote {
    PX_VOTE_ALL = 1,
    PX_VOTE_ANY,
    PX_VOTE_UNI,
    PX_VOTE_BALLOT
};
enum px_shf {
    PX_SHF_L = 1,
    PX_SHF_R
};
enum px_testp {
    PX_FINITE = 1,
    PX_INFINITE,
    PX_NUMBER_,
    PX_NOTANUMBER,
    PX_NORMAL,
    PX_SUBNORMAL
};

/* Kinds of modifiers, in the order in which an instruction may have them. */
enum px_mod {
    PX_MOD_ORDER, /* enum px_order */
    PX_MOD_SCOPE,
    PX_MOD_TO,
    PX_MOD_SPACE,
    PX_MOD_CACHE, /* 1: what caches do; 2: nc too. May be repeated */
    PX_MOD_MODE,  /* of atom, shfl, vote, ... */
    PX_MOD_WRAP,  /* of shf: 1 clamp, 2 wrap; of match: the second word */
    PX_MOD_VEC,
    PX_MOD_CMP,
    PX_MOD_BOOL,
    PX_MOD_HALF,
    PX_MOD_APPROX, /* approx, full */
    PX_MOD_ROUND,
    PX_MOD_FTZ, /* 1 ftz, 2 noftz */
    PX_MOD_NAN,
    PX_MOD_SAT, /* enum px_sat */
    PX_MOD_TYPE,
    PX_MOD_TYPE2,
    PX_MOD_COUNT
};

#define PX_MAX_VEC 4

/* What multimem does, in PX_MOD_BOOL; its operation is in PX_MOD_MODE, as an
 * atomic's, and in PX_MOD_HALF whether halves are added in float32. */
enum px_team_mode {
    PX_TEAM_LOAD = 1,
    PX_TEAM_STORE,
    PX_TEAM_RED
};
#define PX_NO_ROW INT32_MIN

/* An operand. Rows hold the 32 lanes of a register: 32 words, or, in two
 * rows one after the other, 32 double words; of a predicate, one bit of each
 * lane in the first word. Registers have rows from 0 on, constants ~number. */
struct px_ref {
    int32_t row;
    uint8_t bits; /* 1, 16, 32, 64 */
};

/* How an instruction is run: the common kinds first. */
enum px_run_kind {
    PX_RUN_ROWS, /* by `rows`, of one to three sources */
    PX_RUN_OTHER,
    PX_RUN_TOGETHER, /* by the lanes of a warp together */
    PX_RUN_CONTROL,
};

/* Works on all 32 lanes; `c` of selp is the predicate. `dst` may be a source.
 */
typedef void (*px_rows_fn)(void *dst, const void *a, const void *b,
                           const void *c);
/* A comparison on all 32 lanes. */
typedef uint32_t (*px_test_fn)(const void *a, const void *b);

/* A flag of wgmma's offset: threads hold A. */
#define PX_WGMMA_HELD 4

/* An instruction. */
struct px_insn {
    uint8_t op;                /* enum px_op */
    uint8_t type, type2;       /* enum px_type; type2: source of cvt, set */
    uint8_t mod[PX_MOD_COUNT]; /* value of each modifier; 0: absent */
    uint8_t n_src, n_vec;
    bool guard_negated, src2_negated; /* src2: setp's, bar.red's */
    int32_t guard;                    /* row, or PX_NO_ROW */
    struct px_ref dst, dst2, src[4];
    uint32_t vec_at; /* n_vec operands in the kernel's pool */
    px_rows_fn rows; /* or NULL: lane by lane */
    uint8_t run;     /* enum px_run_kind */
    px_test_fn test; /* the same, of setp and set */
    int64_t offset;  /* of an address: src[0] + offset; barrier's number */
    uint32_t target; /* of a branch; barrier's threads (0: all) */
    uint32_t line;
};

/* Special registers. Those before PX_CLOCK_FIRST are rows filled when a warp
 * starts, where a kernel uses them. */
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
    PX_SMID,
    PX_NSMID,
    PX_LANEMASK_EQ,
    PX_LANEMASK_LT,
    PX_LANEMASK_LE,
    PX_LANEMASK_GT,
    PX_LANEMASK_GE,
    PX_DYNAMIC_SMEM,
    PX_TOTAL_SMEM,
    PX_GRIDID, /* 64 bits */
    PX_CLOCK_FIRST,
    PX_CLOCK_LO = PX_CLOCK_FIRST,
    PX_CLOCK_HI,
    PX_CLOCK64, /* 64 bits */
    PX_TIMER_LO,
    PX_TIMER_HI,
    PX_TIMER, /* 64 bits */
    PX_SPECIAL_COUNT
};

enum px_base { /* what is added to a constant when it is launched */
    PX_BASE_NONE,
    PX_BASE_DYNAMIC, /* where dynamic shared memory begins */
    PX_BASE_GLOBAL   /* the launch's global_base */
};

struct px_const {
    uint64_t bits;
    uint8_t width; /* 1, 32 or 64 */
    uint8_t base;  /* enum px_base */
};

/* Registers that one declaration made: %name, or %name0 on. */
struct px_declared {
    char name[24];
    uint32_t at, count; /* first row */
    uint8_t bits;
    bool is_family;
};

struct px_kernel {
    char *name;
    struct px_declared *declared; /* owned */
    size_t n_declared, cap_declared;
    struct px_insn *code;
    size_t n_code, cap_code;
    struct px_ref *pool;
    size_t n_pool, cap_pool;
    struct px_const *consts;
    size_t n_consts, cap_consts;
    struct map const_index; /* of bits and width -> number, of plain ones */
    uint32_t *targets;      /* of brx: tables of places in the code */
    size_t n_targets, cap_targets;
    int32_t specials[PX_SPECIAL_COUNT]; /* rows, or PX_NO_ROW */
    uint32_t n_rows, n_regs;
    uint32_t param_bytes, shared_bytes, local_bytes;
    uint32_t reqntid[3], maxntid[3];
    /* Threads may wait for each other other than at barriers of all, so that
     * what they do in shared memory cannot be judged. */
    bool has_shared_sync;
    bool has_wgmma, has_bulk;
    bool has_nc; /* ld.global.nc */
    bool uses_const, uses_global;
};

/* An image of variables. */
struct px_image {
    uint8_t *data; /* owned */
    size_t cap;
    uint32_t n_bytes, align;
    bool is_not_zero;
};

struct sim_ptx_module {
    struct arena arena;
    struct px_kernel *kernels;
    size_t n_kernels, cap_kernels;
    struct px_image consts, globals;
    uint32_t sm;
    bool is_arch_specific; /* sm_90a */
};

/* ---- facts about types and instructions (ptx_ops.c, ptx_check.c) ---- */

struct px_type_info {
    const char *name; /* without the dot */
    uint8_t bits;
    char kind; /* 'p' 'b' 'u' 's' 'f', 'x': two halves */
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
/* Checks the whole set, for a chip. NULL, or what is wrong. */
const char *px_check_modifiers(const struct px_op_info *info,
                               const struct px_insn *in, uint32_t sm);
const char *px_op_name(unsigned op);
/* How a decoded instruction is run. */
enum px_run_kind px_run_kind(const struct px_insn *in);
bool px_is_word(const char *want, const char *word, size_t len);

/* How the instruction is done on all lanes at once (ptx_rows.c); NULL: lane
 * by lane. */
px_rows_fn px_find_rows(const struct px_insn *in);
px_test_fn px_find_test(const struct px_insn *in);

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

/* ---- arithmetic on one lane (ptx_alu.c, ptx_float.c, ptx_cvt.c) ---- */

/* Result of anything that is neither memory nor control nor of predicates.
 * s: the values of the sources, zeros above their bits. */
uint64_t px_eval(const struct px_insn *in, const uint64_t s[4]);
/* Does the comparison of setp or set, or testp, hold? */
bool px_eval_test(const struct px_insn *in, uint64_t a, uint64_t b);
uint64_t px_eval_cvt(const struct px_insn *in, uint64_t a, uint64_t b);
/* What an atomic leaves in memory. */
uint64_t px_eval_atom(const struct px_insn *in, uint64_t old, uint64_t b,
                      uint64_t c);

/* Floats of any type, as a F64 that holds them exactly; rounded to nearest. */
double px_decode(unsigned type, uint64_t bits);
uint64_t px_encode(unsigned type, double d);
/* The same with a rounding (PX_RN, PX_RZ, PX_RM, PX_RP) and enum px_sat. */
uint64_t px_encode_rounded(unsigned type, double d, unsigned round,
                           unsigned sat);
/* An operation on floats of `type`, which is neither F32X2 nor packed. */
uint64_t px_float_op(const struct px_insn *in, unsigned type, uint64_t a,
                     uint64_t b, uint64_t c);
bool px_float_test(unsigned cmp, double a, double b);
float px_flushed(const struct px_insn *in, float f);

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
    uint8_t float_bits; /* 32 or 64 for 0f and 0d; else 0 */
    bool is_glued;      /* no blank before it */
};

void px_lex_init(struct px_lex *lex, const char *text);
void px_lex_next(struct px_lex *lex);

#endif
