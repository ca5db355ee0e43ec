/* The instructions and the modifiers that each may have.
 * src: docs/hardware/nvidia-code.md, "PTX instructions"; the order of
 * modifiers: PTX ISA, as remembered. Which of them go together is in
 * ptx_check.c; instructions whose words come in an order of their own are read
 * by ptx_insn_more.c. */
#include "sim/ptx/ptx_internal.h"

#include <assert.h>
#include <string.h>

#include "base/bits.h"

const struct px_type_info px_types[PX_TYPE_COUNT] = {
    [PX_NONE] = {"", 0, ' '},          [PX_PRED] = {"pred", 1, 'p'},
    [PX_B8] = {"b8", 8, 'b'},          [PX_B16] = {"b16", 16, 'b'},
    [PX_B32] = {"b32", 32, 'b'},       [PX_B64] = {"b64", 64, 'b'},
    [PX_U8] = {"u8", 8, 'u'},          [PX_U16] = {"u16", 16, 'u'},
    [PX_U32] = {"u32", 32, 'u'},       [PX_U64] = {"u64", 64, 'u'},
    [PX_S8] = {"s8", 8, 's'},          [PX_S16] = {"s16", 16, 's'},
    [PX_S32] = {"s32", 32, 's'},       [PX_S64] = {"s64", 64, 's'},
    [PX_F16] = {"f16", 16, 'f'},       [PX_BF16] = {"bf16", 16, 'f'},
    [PX_F32] = {"f32", 32, 'f'},       [PX_F64] = {"f64", 64, 'f'},
    [PX_F16X2] = {"f16x2", 32, 'x'},   [PX_BF16X2] = {"bf16x2", 32, 'x'},
    [PX_TF32] = {"tf32", 32, 'x'},     [PX_E4M3] = {"e4m3", 8, 'x'},
    [PX_E5M2] = {"e5m2", 8, 'x'},      [PX_E4M3X2] = {"e4m3x2", 16, 'x'},
    [PX_E5M2X2] = {"e5m2x2", 16, 'x'},
};

#define BIT(x)   (1u << (x))
#define BITS     (BIT(PX_B16) | BIT(PX_B32) | BIT(PX_B64))
#define BITS8    (BITS | BIT(PX_B8))
#define SINT     (BIT(PX_S16) | BIT(PX_S32) | BIT(PX_S64))
#define UINT     (BIT(PX_U16) | BIT(PX_U32) | BIT(PX_U64))
#define INT      (SINT | UINT)
#define FLT      (BIT(PX_F32) | BIT(PX_F64))
#define F32      BIT(PX_F32)
#define ANY      (BITS | INT | FLT)
#define PRED     BIT(PX_PRED)
#define BYTES    (BIT(PX_U8) | BIT(PX_S8))
#define SMALL    (BIT(PX_F16) | BIT(PX_BF16))
#define HALVES   (SMALL | BIT(PX_F16X2) | BIT(PX_BF16X2))
#define TINY     (BIT(PX_E4M3X2) | BIT(PX_E5M2X2) | BIT(PX_TF32))
#define WORDS    (BIT(PX_B32) | BIT(PX_B64))
#define INT32    (BIT(PX_S32) | BIT(PX_U32))
#define INT3264  (INT32 | BIT(PX_S64) | BIT(PX_U64))
#define ATOMICS  (WORDS | BIT(PX_B16) | INT3264 | FLT | HALVES)
#define TYPE     BIT(PX_MOD_TYPE)
#define TYPE2    BIT(PX_MOD_TYPE2)
#define ROUND    BIT(PX_MOD_ROUND)
#define APPROX   BIT(PX_MOD_APPROX)
#define FTZ      BIT(PX_MOD_FTZ)
#define NAN_     BIT(PX_MOD_NAN)
#define SAT      BIT(PX_MOD_SAT)
#define HALF     BIT(PX_MOD_HALF)
#define CMP      BIT(PX_MOD_CMP)
#define BOOL     BIT(PX_MOD_BOOL)
#define SPACE    BIT(PX_MOD_SPACE)
#define CACHE    BIT(PX_MOD_CACHE)
#define VEC      BIT(PX_MOD_VEC)
#define MODE     BIT(PX_MOD_MODE)
#define WRAP     BIT(PX_MOD_WRAP)
#define ORDER    BIT(PX_MOD_ORDER)
#define SCOPE    BIT(PX_MOD_SCOPE)
#define TO       BIT(PX_MOD_TO)
#define ADDRESS  (ORDER | SCOPE | SPACE | CACHE)
#define ATOM_ALL (ORDER | SCOPE | SPACE | MODE | FTZ | TYPE)

/* clang-format off */
static const struct px_op_info ops[] = {
    {"add", PX_ADD, 2, ROUND | FTZ | SAT | TYPE, TYPE, INT | FLT | HALVES},
    {"sub", PX_SUB, 2, ROUND | FTZ | SAT | TYPE, TYPE, INT | FLT | HALVES},
    {"mul", PX_MUL, 2, HALF | ROUND | FTZ | SAT | TYPE, TYPE,
     INT | FLT | HALVES},
    {"mad", PX_MAD, 3, HALF | TYPE, HALF | TYPE, INT},
    {"mul24", PX_MUL24, 2, HALF | TYPE, HALF | TYPE, INT32},
    {"mad24", PX_MAD24, 3, HALF | TYPE, HALF | TYPE, INT32},
    {"fma", PX_FMA, 3, ROUND | FTZ | SAT | TYPE, ROUND | TYPE, FLT | HALVES},
    {"div", PX_DIV, 2, APPROX | ROUND | FTZ | TYPE, TYPE, INT | FLT},
    {"rem", PX_REM, 2, TYPE, TYPE, INT},
    {"min", PX_MIN, 2, FTZ | NAN_ | TYPE, TYPE, INT | FLT | HALVES},
    {"max", PX_MAX, 2, FTZ | NAN_ | TYPE, TYPE, INT | FLT | HALVES},
    {"neg", PX_NEG, 1, FTZ | TYPE, TYPE, SINT | FLT | HALVES},
    {"abs", PX_ABS, 1, FTZ | TYPE, TYPE, SINT | FLT | HALVES},
    {"copysign", PX_COPYSIGN, 2, TYPE, TYPE, FLT},
    {"rcp", PX_RCP, 1, APPROX | ROUND | FTZ | TYPE, TYPE, FLT},
    {"sqrt", PX_SQRT, 1, APPROX | ROUND | FTZ | TYPE, TYPE, FLT},
    {"rsqrt", PX_RSQRT, 1, APPROX | FTZ | TYPE, APPROX | TYPE, FLT},
    {"ex2", PX_EX2, 1, APPROX | FTZ | TYPE, APPROX | TYPE, F32 | HALVES},
    {"lg2", PX_LG2, 1, APPROX | FTZ | TYPE, APPROX | TYPE, F32},
    {"sin", PX_SIN, 1, APPROX | FTZ | TYPE, APPROX | TYPE, F32},
    {"cos", PX_COS, 1, APPROX | FTZ | TYPE, APPROX | TYPE, F32},
    {"tanh", PX_TANH, 1, APPROX | TYPE, APPROX | TYPE, F32 | HALVES},
    {"and", PX_AND, 2, TYPE, TYPE, BITS | PRED},
    {"or", PX_OR, 2, TYPE, TYPE, BITS | PRED},
    {"xor", PX_XOR, 2, TYPE, TYPE, BITS | PRED},
    {"not", PX_NOT, 1, TYPE, TYPE, BITS | PRED},
    {"lop3", PX_LOP3, 4, TYPE, TYPE, BIT(PX_B32)},
    {"shl", PX_SHL, 2, TYPE, TYPE, BITS},
    {"shr", PX_SHR, 2, TYPE, TYPE, BITS | INT},
    {"shf", PX_SHF, 3, MODE | WRAP | TYPE, MODE | WRAP | TYPE, BIT(PX_B32)},
    {"popc", PX_POPC, 1, TYPE, TYPE, WORDS},
    {"clz", PX_CLZ, 1, TYPE, TYPE, WORDS},
    {"brev", PX_BREV, 1, TYPE, TYPE, WORDS},
    {"bfind", PX_BFIND, 1, TYPE, TYPE, INT3264},
    {"bfe", PX_BFE, 3, TYPE, TYPE, INT3264},
    {"bfi", PX_BFI, 4, TYPE, TYPE, WORDS},
    {"prmt", PX_PRMT, 3, TYPE, TYPE, BIT(PX_B32)},
    {"dp4a", PX_DP4A, 3, TYPE | TYPE2, TYPE | TYPE2, INT32},
    {"sad", PX_SAD, 3, TYPE, TYPE, INT},
    {"setp", PX_SETP, 2, CMP | BOOL | FTZ | TYPE, CMP | TYPE, ANY | HALVES},
    {"set", PX_SET, 2, CMP | BOOL | FTZ | TYPE | TYPE2, CMP | TYPE | TYPE2,
     ANY | SMALL},
    {"testp", PX_TESTP, 1, MODE | TYPE, MODE | TYPE, FLT},
    {"isspacep", PX_ISSPACEP, 1, SPACE, SPACE, 0},
    {"selp", PX_SELP, 3, TYPE, TYPE, ANY},
    {"mov", PX_MOV, 1, TYPE, TYPE, ANY | PRED},
    {"cvt", PX_CVT, 1, ROUND | FTZ | SAT | TYPE | TYPE2, TYPE | TYPE2,
     INT | FLT | BYTES | HALVES | TINY},
    {"cvta", PX_CVTA, 1, TO | SPACE | TYPE, SPACE | TYPE,
     BIT(PX_U32) | BIT(PX_U64)},
    {"ld", PX_LD, 1, ADDRESS | VEC | TYPE, TYPE, ANY | BITS8 | BYTES},
    {"st", PX_ST, 1, ADDRESS | VEC | TYPE, TYPE, ANY | BITS8 | BYTES},
    {"prefetch", PX_PREFETCH, 1, SPACE | CACHE, CACHE, 0},
    {"prefetchu", PX_PREFETCH, 1, CACHE, CACHE, 0},
    {"atom", PX_ATOM, 2, ATOM_ALL, MODE | TYPE, ATOMICS},
    {"red", PX_RED, 2, ATOM_ALL, MODE | TYPE, ATOMICS},
    {"shfl", PX_SHFL, 3, ORDER | MODE | TYPE, ORDER | MODE | TYPE,
     BIT(PX_B32)},
    {"vote", PX_VOTE, 1, ORDER | MODE | TYPE, ORDER | MODE | TYPE,
     BIT(PX_PRED) | BIT(PX_B32)},
    {"match", PX_MATCH, 1, MODE | WRAP | TYPE, MODE | WRAP | TYPE, WORDS},
    {"redux", PX_REDUX, 1, ORDER | MODE | TYPE, ORDER | MODE | TYPE,
     INT32 | BIT(PX_B32)},
    {"activemask", PX_ACTIVEMASK, 0, TYPE, TYPE, BIT(PX_B32)},
    {"bra", PX_BRA, 0, ORDER, 0, 0},
    {"brx", PX_BRX, 1, 0, 0, 0},
    {"bar", PX_BAR, 0, 0, 0, 0},
    {"barrier", PX_BAR, 0, 0, 0, 0},
    {"membar", PX_FENCE, 0, SCOPE, SCOPE, 0},
    {"fence", PX_FENCE, 0, ORDER | SCOPE, SCOPE, 0},
    {"nanosleep", PX_NANOSLEEP, 1, TYPE, TYPE, BIT(PX_U32)},
    {"ret", PX_RET, 0, ORDER, 0, 0},
    {"exit", PX_EXIT, 0, 0, 0, 0},
    {"trap", PX_TRAP, 0, 0, 0, 0},
    {"mma", PX_MMA, 0, 0, 0, 0},
    {"ldmatrix", PX_LDMATRIX, 0, 0, 0, 0},
    {"stmatrix", PX_STMATRIX, 0, 0, 0, 0},
    {"cp", PX_COPY, 0, 0, 0, 0},
    {"wgmma", PX_WGMMA, 0, 0, 0, 0},
    {"mbarrier", PX_MBAR, 0, 0, 0, 0},
    {"multimem", PX_TEAM, 0, 0, 0, 0},
};

static const struct {
    const char *word;
    uint8_t mod, value;
} words[] = {
    {"eq", PX_MOD_CMP, PX_EQ + 1}, {"ne", PX_MOD_CMP, PX_NE + 1},
    {"lt", PX_MOD_CMP, PX_LT + 1}, {"le", PX_MOD_CMP, PX_LE + 1},
    {"gt", PX_MOD_CMP, PX_GT + 1}, {"ge", PX_MOD_CMP, PX_GE + 1},
    {"equ", PX_MOD_CMP, PX_EQU + 1}, {"neu", PX_MOD_CMP, PX_NEU + 1},
    {"ltu", PX_MOD_CMP, PX_LTU + 1}, {"leu", PX_MOD_CMP, PX_LEU + 1},
    {"gtu", PX_MOD_CMP, PX_GTU + 1}, {"geu", PX_MOD_CMP, PX_GEU + 1},
    {"num", PX_MOD_CMP, PX_NUM + 1}, {"nan", PX_MOD_CMP, PX_NAN + 1},
    {"lo", PX_MOD_CMP, PX_LO + 1}, {"ls", PX_MOD_CMP, PX_LS + 1},
    {"hi", PX_MOD_CMP, PX_HI + 1}, {"hs", PX_MOD_CMP, PX_HS + 1},
    {"and", PX_MOD_BOOL, PX_ATOM_AND}, {"or", PX_MOD_BOOL, PX_ATOM_OR},
    {"xor", PX_MOD_BOOL, PX_ATOM_XOR},
    {"lo", PX_MOD_HALF, PX_HALF_LO}, {"hi", PX_MOD_HALF, PX_HALF_HI},
    {"wide", PX_MOD_HALF, PX_WIDE},
    {"approx", PX_MOD_APPROX, 1}, {"full", PX_MOD_APPROX, 2},
    {"rn", PX_MOD_ROUND, PX_RN}, {"rz", PX_MOD_ROUND, PX_RZ},
    {"rm", PX_MOD_ROUND, PX_RM}, {"rp", PX_MOD_ROUND, PX_RP},
    {"rna", PX_MOD_ROUND, PX_RNA},
    {"rni", PX_MOD_ROUND, PX_RNI}, {"rzi", PX_MOD_ROUND, PX_RZI},
    {"rmi", PX_MOD_ROUND, PX_RMI}, {"rpi", PX_MOD_ROUND, PX_RPI},
    {"ftz", PX_MOD_FTZ, 1}, {"noftz", PX_MOD_FTZ, 2},
    {"NaN", PX_MOD_NAN, 1},
    {"sat", PX_MOD_SAT, PX_SAT}, {"satfinite", PX_MOD_SAT, PX_SATFINITE},
    {"relu", PX_MOD_SAT, PX_RELU},
    {"to", PX_MOD_TO, 1},
    {"global", PX_MOD_SPACE, PX_GLOBAL}, {"shared", PX_MOD_SPACE, PX_SHARED},
    {"shared::cta", PX_MOD_SPACE, PX_SHARED},
    {"local", PX_MOD_SPACE, PX_LOCAL}, {"param", PX_MOD_SPACE, PX_PARAM},
    {"const", PX_MOD_SPACE, PX_CONST},
    {"volatile", PX_MOD_ORDER, PX_VOLATILE},
    {"relaxed", PX_MOD_ORDER, PX_RELAXED},
    {"acquire", PX_MOD_ORDER, PX_ACQUIRE},
    {"release", PX_MOD_ORDER, PX_RELEASE},
    {"acq_rel", PX_MOD_ORDER, PX_ACQ_REL}, {"sc", PX_MOD_ORDER, PX_SC},
    {"weak", PX_MOD_ORDER, PX_WEAK},
    {"sync", PX_MOD_ORDER, PX_SYNC}, {"uni", PX_MOD_ORDER, PX_UNI},
    {"cta", PX_MOD_SCOPE, 1}, {"gpu", PX_MOD_SCOPE, 2},
    {"sys", PX_MOD_SCOPE, 3}, {"gl", PX_MOD_SCOPE, 4},
    {"cluster", PX_MOD_SCOPE, 5},
    {"nc", PX_MOD_CACHE, 2}, {"ca", PX_MOD_CACHE, 1}, {"cg", PX_MOD_CACHE, 1},
    {"cs", PX_MOD_CACHE, 1}, {"cv", PX_MOD_CACHE, 1}, {"lu", PX_MOD_CACHE, 1},
    {"wb", PX_MOD_CACHE, 1}, {"wt", PX_MOD_CACHE, 1},
    {"L1", PX_MOD_CACHE, 1}, {"L2", PX_MOD_CACHE, 1},
    {"L1::evict_normal", PX_MOD_CACHE, 1},
    {"L1::evict_unchanged", PX_MOD_CACHE, 1},
    {"L1::evict_first", PX_MOD_CACHE, 1}, {"L1::evict_last", PX_MOD_CACHE, 1},
    {"L1::no_allocate", PX_MOD_CACHE, 1},
    {"L2::evict_normal", PX_MOD_CACHE, 1},
    {"L2::evict_first", PX_MOD_CACHE, 1}, {"L2::evict_last", PX_MOD_CACHE, 1},
    {"L2::64B", PX_MOD_CACHE, 1}, {"L2::128B", PX_MOD_CACHE, 1},
    {"L2::256B", PX_MOD_CACHE, 1},
    {"clamp", PX_MOD_WRAP, 1}, {"wrap", PX_MOD_WRAP, 2},
    {"sync", PX_MOD_WRAP, 3},
    {"v2", PX_MOD_VEC, 2}, {"v4", PX_MOD_VEC, 4},
};

static const struct {
    const char *word;
    uint8_t op, value;
} modes[] = {
    {"add", PX_ATOM, PX_ATOM_ADD}, {"min", PX_ATOM, PX_ATOM_MIN},
    {"max", PX_ATOM, PX_ATOM_MAX}, {"and", PX_ATOM, PX_ATOM_AND},
    {"or", PX_ATOM, PX_ATOM_OR}, {"xor", PX_ATOM, PX_ATOM_XOR},
    {"exch", PX_ATOM, PX_ATOM_EXCH}, {"cas", PX_ATOM, PX_ATOM_CAS},
    {"inc", PX_ATOM, PX_ATOM_INC}, {"dec", PX_ATOM, PX_ATOM_DEC},
    {"add", PX_REDUX, PX_ATOM_ADD}, {"min", PX_REDUX, PX_ATOM_MIN},
    {"max", PX_REDUX, PX_ATOM_MAX}, {"and", PX_REDUX, PX_ATOM_AND},
    {"or", PX_REDUX, PX_ATOM_OR}, {"xor", PX_REDUX, PX_ATOM_XOR},
    {"up", PX_SHFL, PX_SHFL_UP}, {"down", PX_SHFL, PX_SHFL_DOWN},
    {"bfly", PX_SHFL, PX_SHFL_BFLY}, {"idx", PX_SHFL, PX_SHFL_IDX},
    {"all", PX_VOTE, PX_VOTE_ALL}, {"any", PX_VOTE, PX_VOTE_ANY},
    {"uni", PX_VOTE, PX_VOTE_UNI}, {"ballot", PX_VOTE, PX_VOTE_BALLOT},
    {"all", PX_MATCH, PX_VOTE_ALL}, {"any", PX_MATCH, PX_VOTE_ANY},
    {"l", PX_SHF, PX_SHF_L}, {"r", PX_SHF, PX_SHF_R},
    {"finite", PX_TESTP, PX_FINITE}, {"infinite", PX_TESTP, PX_INFINITE},
    {"number", PX_TESTP, PX_NUMBER_},
    {"notanumber", PX_TESTP, PX_NOTANUMBER},
    {"normal", PX_TESTP, PX_NORMAL}, {"subnormal", PX_TESTP, PX_SUBNORMAL},
};
/* clang-format on */

bool
px_is_word(const char *want, const char *word, size_t len)
{
    return strlen(want) == len && memcmp(want, word, len) == 0;
}

const struct px_op_info *
px_find_op(const char *name, size_t len)
{
    size_t i;

    for (i = 0; i < ARRAY_LEN(ops); i++) {
        if (px_is_word(ops[i].name, name, len))
            return &ops[i];
    }
    return NULL;
}

const char *
px_op_name(unsigned op)
{
    size_t i;

    assert(op < PX_OP_COUNT);
    for (i = 0; i < ARRAY_LEN(ops); i++) {
        if (ops[i].op == op)
            return ops[i].name;
    }
    switch (op) {
    case PX_BAR_ARRIVE:
    case PX_BAR_RED:
    case PX_WARPSYNC:
        return "bar";
    case PX_COMMIT:
    case PX_AWAIT:
    case PX_BOX:
        return "cp";
    case PX_MBAR_INIT:
    case PX_MBAR_EXPECT:
    case PX_MBAR_ARRIVE:
    case PX_MBAR_WAIT:
        return "mbarrier";
    case PX_MBAR_FENCE:
    case PX_PROXY_FENCE:
        return "fence";
    case PX_WGMMA_FENCE:
    case PX_WGMMA_COMMIT:
    case PX_WGMMA_AWAIT:
        return "wgmma";
    case PX_CALL:
        return "call";
    default: /* CLOCK PACK UNPACK */
        return "mov";
    }
}

static const char *
take_operand(const struct px_op_info *info, struct px_insn *in, int *order,
             unsigned mod, unsigned value)
{
    assert(mod < PX_MOD_COUNT);
    if (!(info->mods & BIT(mod)))
        return "the instruction has no such modifier";
    if ((int)mod < *order || ((int)mod == *order && mod != PX_MOD_CACHE))
        return "the modifier is repeated or out of order";
    *order = (int)mod;
    if (value > in->mod[mod])
        in->mod[mod] = (uint8_t)value;
    return NULL;
}

static const char *
take_type(const struct px_op_info *info, struct px_insn *in, int *order,
          unsigned type)
{
    assert(type < PX_TYPE_COUNT);
    if (!(info->types & BIT(type)))
        return info->types ? "the instruction is not for this type"
                           : "the instruction has no such modifier";
    if (in->type == PX_NONE) {
        in->type = (uint8_t)type;
        return take_operand(info, in, order, PX_MOD_TYPE, 1);
    }
    in->type2 = (uint8_t)type;
    return take_operand(info, in, order, PX_MOD_TYPE2, 1);
}

const char *
px_take_modifier(const struct px_op_info *info, struct px_insn *in, int *order,
                 const char *word, size_t len)
{
    unsigned kind = info->op == PX_RED ? PX_ATOM : info->op;
    size_t i;

    for (i = PX_PRED; i < PX_TYPE_COUNT; i++) {
        if (px_is_word(px_types[i].name, word, len))
            return take_type(info, in, order, (unsigned)i);
    }
    for (i = 0; i < ARRAY_LEN(modes); i++) {
        if (modes[i].op == kind && px_is_word(modes[i].word, word, len))
            return take_operand(info, in, order, PX_MOD_MODE, modes[i].value);
    }
    for (i = 0; i < ARRAY_LEN(words); i++) {
        if (px_is_word(words[i].word, word, len) &&
            info->mods & BIT(words[i].mod))
            return take_operand(info, in, order, words[i].mod, words[i].value);
    }
    return "the instruction has no such modifier";
}

enum px_run_kind
px_run_kind(const struct px_insn *in)
{
    assert(in->op < PX_OP_COUNT);
    switch (in->op) {
    case PX_BRA:
    case PX_BRX:
    case PX_RET:
    case PX_EXIT:
    case PX_TRAP:
    case PX_BAR:
    case PX_BAR_ARRIVE:
    case PX_BAR_RED:
        return PX_RUN_CONTROL;
    case PX_SHFL:
    case PX_VOTE:
    case PX_MATCH:
    case PX_REDUX:
    case PX_ACTIVEMASK:
    case PX_WARPSYNC:
    case PX_MMA:
    case PX_LDMATRIX:
    case PX_STMATRIX:
    case PX_WGMMA:
    case PX_WGMMA_FENCE:
    case PX_WGMMA_COMMIT:
    case PX_WGMMA_AWAIT:
        return PX_RUN_TOGETHER;
    default:
        return in->rows ? PX_RUN_ROWS : PX_RUN_OTHER;
    }
}
