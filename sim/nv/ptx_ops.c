/* The instructions and the modifiers that each may have. src: hw/nv/PTX.md
 * and, for the order of modifiers, the PTX ISA as remembered there. */
#include "sim/nv/ptx_internal.h"

#include <string.h>

#include "base/bits.h"

const struct px_type_info px_types[PX_TYPE_COUNT] = {
    [PX_NONE] = {"", 0, ' '},    [PX_PRED] = {"pred", 1, 'p'},
    [PX_B8] = {"b8", 8, 'b'},    [PX_B16] = {"b16", 16, 'b'},
    [PX_B32] = {"b32", 32, 'b'}, [PX_B64] = {"b64", 64, 'b'},
    [PX_U8] = {"u8", 8, 'u'},    [PX_U16] = {"u16", 16, 'u'},
    [PX_U32] = {"u32", 32, 'u'}, [PX_U64] = {"u64", 64, 'u'},
    [PX_S8] = {"s8", 8, 's'},    [PX_S16] = {"s16", 16, 's'},
    [PX_S32] = {"s32", 32, 's'}, [PX_S64] = {"s64", 64, 's'},
    [PX_F16] = {"f16", 16, 'f'}, [PX_BF16] = {"bf16", 16, 'f'},
    [PX_F32] = {"f32", 32, 'f'}, [PX_F64] = {"f64", 64, 'f'},
};

#define BIT(x)  (1u << (x))
#define BITS    (BIT(PX_B16) | BIT(PX_B32) | BIT(PX_B64))
#define BITS8   (BITS | BIT(PX_B8))
#define SINT    (BIT(PX_S16) | BIT(PX_S32) | BIT(PX_S64))
#define UINT    (BIT(PX_U16) | BIT(PX_U32) | BIT(PX_U64))
#define INT     (SINT | UINT)
#define FLT     (BIT(PX_F32) | BIT(PX_F64))
#define F32     BIT(PX_F32)
#define ANY     (BITS | INT | FLT)
#define PRED    BIT(PX_PRED)
#define BYTES   (BIT(PX_U8) | BIT(PX_S8))
#define SMALL   (BIT(PX_F16) | BIT(PX_BF16))
#define WORDS   (BIT(PX_B32) | BIT(PX_B64))
#define TYPE    BIT(PX_MOD_TYPE)
#define TYPE2   BIT(PX_MOD_TYPE2)
#define ROUND   BIT(PX_MOD_ROUND)
#define APPROX  BIT(PX_MOD_APPROX)
#define FTZ     BIT(PX_MOD_FTZ)
#define NAN_    BIT(PX_MOD_NAN)
#define SAT     BIT(PX_MOD_SAT)
#define HALF    BIT(PX_MOD_HALF)
#define CMP     BIT(PX_MOD_CMP)
#define BOOL    BIT(PX_MOD_BOOL)
#define SPACE   BIT(PX_MOD_SPACE)
#define CACHE   BIT(PX_MOD_CACHE)
#define VEC     BIT(PX_MOD_VEC)
#define MODE    BIT(PX_MOD_MODE)
#define ORDER   BIT(PX_MOD_ORDER)
#define SCOPE   BIT(PX_MOD_SCOPE)
#define TO      BIT(PX_MOD_TO)
#define ADDRESS (ORDER | SCOPE | SPACE | CACHE)

/* clang-format off */
static const struct px_op_info ops[] = {
    {"add", PX_ADD, 2, ROUND | FTZ | SAT | TYPE, TYPE, INT | FLT},
    {"sub", PX_SUB, 2, ROUND | FTZ | SAT | TYPE, TYPE, INT | FLT},
    {"mul", PX_MUL, 2, HALF | ROUND | FTZ | SAT | TYPE, TYPE, INT | FLT},
    {"mad", PX_MAD, 3, HALF | TYPE, HALF | TYPE, INT},
    {"fma", PX_FMA, 3, ROUND | FTZ | SAT | TYPE, ROUND | TYPE, FLT},
    {"div", PX_DIV, 2, APPROX | ROUND | FTZ | TYPE, TYPE, INT | FLT},
    {"rem", PX_REM, 2, TYPE, TYPE, INT},
    {"min", PX_MIN, 2, FTZ | NAN_ | TYPE, TYPE, INT | FLT},
    {"max", PX_MAX, 2, FTZ | NAN_ | TYPE, TYPE, INT | FLT},
    {"neg", PX_NEG, 1, FTZ | TYPE, TYPE, SINT | FLT},
    {"abs", PX_ABS, 1, FTZ | TYPE, TYPE, SINT | FLT},
    {"rcp", PX_RCP, 1, APPROX | ROUND | FTZ | TYPE, TYPE, FLT},
    {"sqrt", PX_SQRT, 1, APPROX | ROUND | FTZ | TYPE, TYPE, FLT},
    {"rsqrt", PX_RSQRT, 1, APPROX | FTZ | TYPE, APPROX | TYPE, FLT},
    {"ex2", PX_EX2, 1, APPROX | FTZ | TYPE, APPROX | TYPE, F32},
    {"lg2", PX_LG2, 1, APPROX | FTZ | TYPE, APPROX | TYPE, F32},
    {"sin", PX_SIN, 1, APPROX | FTZ | TYPE, APPROX | TYPE, F32},
    {"cos", PX_COS, 1, APPROX | FTZ | TYPE, APPROX | TYPE, F32},
    {"tanh", PX_TANH, 1, APPROX | TYPE, APPROX | TYPE, F32},
    {"and", PX_AND, 2, TYPE, TYPE, BITS | PRED},
    {"or", PX_OR, 2, TYPE, TYPE, BITS | PRED},
    {"xor", PX_XOR, 2, TYPE, TYPE, BITS | PRED},
    {"not", PX_NOT, 1, TYPE, TYPE, BITS | PRED},
    {"shl", PX_SHL, 2, TYPE, TYPE, BITS},
    {"shr", PX_SHR, 2, TYPE, TYPE, BITS | INT},
    {"popc", PX_POPC, 1, TYPE, TYPE, WORDS},
    {"clz", PX_CLZ, 1, TYPE, TYPE, WORDS},
    {"brev", PX_BREV, 1, TYPE, TYPE, WORDS},
    {"setp", PX_SETP, 2, CMP | BOOL | FTZ | TYPE, CMP | TYPE, ANY},
    {"selp", PX_SELP, 3, TYPE, TYPE, ANY},
    {"mov", PX_MOV, 1, TYPE, TYPE, ANY | PRED},
    {"cvt", PX_CVT, 1, ROUND | FTZ | SAT | TYPE | TYPE2, TYPE | TYPE2,
     INT | FLT | BYTES | SMALL},
    {"cvta", PX_CVTA, 1, TO | SPACE | TYPE, SPACE | TYPE,
     BIT(PX_U32) | BIT(PX_U64)},
    {"ld", PX_LD, 1, ADDRESS | VEC | TYPE, TYPE, ANY | BITS8 | BYTES},
    {"st", PX_ST, 1, ADDRESS | VEC | TYPE, TYPE, ANY | BITS8 | BYTES},
    {"atom", PX_ATOM, 2, ORDER | SCOPE | SPACE | MODE | TYPE, MODE | TYPE,
     WORDS | BIT(PX_S32) | BIT(PX_S64) | BIT(PX_U32) | BIT(PX_U64) | FLT},
    {"red", PX_RED, 2, ORDER | SCOPE | SPACE | MODE | TYPE, MODE | TYPE,
     WORDS | BIT(PX_S32) | BIT(PX_S64) | BIT(PX_U32) | BIT(PX_U64) | FLT},
    {"shfl", PX_SHFL, 3, ORDER | MODE | TYPE, ORDER | MODE | TYPE,
     BIT(PX_B32)},
    {"bra", PX_BRA, 0, ORDER, 0, 0},
    {"bar", PX_BAR, 0, ORDER, ORDER, 0},
    {"membar", PX_FENCE, 0, SCOPE, SCOPE, 0},
    {"fence", PX_FENCE, 0, ORDER | SCOPE, SCOPE, 0},
    {"ret", PX_RET, 0, 0, 0, 0},
    {"exit", PX_EXIT, 0, 0, 0, 0},
    {"trap", PX_TRAP, 0, 0, 0, 0},
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
    {"rni", PX_MOD_ROUND, PX_RNI}, {"rzi", PX_MOD_ROUND, PX_RZI},
    {"rmi", PX_MOD_ROUND, PX_RMI}, {"rpi", PX_MOD_ROUND, PX_RPI},
    {"ftz", PX_MOD_FTZ, 1}, {"NaN", PX_MOD_NAN, 1}, {"sat", PX_MOD_SAT, 1},
    {"to", PX_MOD_TO, 1},
    {"global", PX_MOD_SPACE, PX_GLOBAL}, {"shared", PX_MOD_SPACE, PX_SHARED},
    {"shared::cta", PX_MOD_SPACE, PX_SHARED},
    {"local", PX_MOD_SPACE, PX_LOCAL}, {"param", PX_MOD_SPACE, PX_PARAM},
    {"volatile", PX_MOD_ORDER, 1}, {"relaxed", PX_MOD_ORDER, 1},
    {"acquire", PX_MOD_ORDER, 1}, {"release", PX_MOD_ORDER, 1},
    {"acq_rel", PX_MOD_ORDER, 1}, {"sc", PX_MOD_ORDER, 1},
    {"sync", PX_MOD_ORDER, 2}, {"uni", PX_MOD_ORDER, 3},
    {"cta", PX_MOD_SCOPE, 1}, {"gpu", PX_MOD_SCOPE, 1},
    {"sys", PX_MOD_SCOPE, 1}, {"gl", PX_MOD_SCOPE, 1},
    {"nc", PX_MOD_CACHE, 1}, {"ca", PX_MOD_CACHE, 1}, {"cg", PX_MOD_CACHE, 1},
    {"cs", PX_MOD_CACHE, 1}, {"cv", PX_MOD_CACHE, 1}, {"lu", PX_MOD_CACHE, 1},
    {"wb", PX_MOD_CACHE, 1}, {"wt", PX_MOD_CACHE, 1},
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
    {"up", PX_SHFL, PX_SHFL_UP}, {"down", PX_SHFL, PX_SHFL_DOWN},
    {"bfly", PX_SHFL, PX_SHFL_BFLY}, {"idx", PX_SHFL, PX_SHFL_IDX},
};
/* clang-format on */

static bool
is_word(const char *want, const char *word, size_t len)
{
    return strlen(want) == len && memcmp(want, word, len) == 0;
}

const struct px_op_info *
px_find_op(const char *name, size_t len)
{
    size_t i;

    for (i = 0; i < ARRAY_LEN(ops); i++) {
        if (is_word(ops[i].name, name, len))
            return &ops[i];
    }
    return NULL;
}

const char *
px_op_name(unsigned op)
{
    size_t i;

    for (i = 0; i < ARRAY_LEN(ops); i++) {
        if (ops[i].op == op)
            return ops[i].name;
    }
    return "mov";
}

static const char *
take(const struct px_op_info *info, struct px_insn *in, int *order,
     unsigned mod, unsigned value)
{
    if (!(info->mods & BIT(mod)))
        return "the instruction has no such modifier";
    if ((int)mod <= *order)
        return "the modifier is repeated or out of order";
    *order = (int)mod;
    in->mod[mod] = (uint8_t)value;
    return NULL;
}

static const char *
take_type(const struct px_op_info *info, struct px_insn *in, int *order,
          unsigned type)
{
    if (in->type == PX_NONE) {
        in->type = (uint8_t)type;
        if (!(info->types & BIT(type)))
            return "the instruction is not for this type";
        return take(info, in, order, PX_MOD_TYPE, 1);
    }
    in->type2 = (uint8_t)type;
    if (!(info->types & BIT(type)))
        return "the instruction is not for this type";
    return take(info, in, order, PX_MOD_TYPE2, 1);
}

const char *
px_take_modifier(const struct px_op_info *info, struct px_insn *in, int *order,
                 const char *word, size_t len)
{
    unsigned kind = info->op == PX_RED ? PX_ATOM : info->op;
    size_t i;

    for (i = PX_PRED; i < PX_TYPE_COUNT; i++) {
        if (is_word(px_types[i].name, word, len))
            return take_type(info, in, order, (unsigned)i);
    }
    for (i = 0; i < ARRAY_LEN(modes); i++) {
        if (modes[i].op == kind && is_word(modes[i].word, word, len))
            return take(info, in, order, PX_MOD_MODE, modes[i].value);
    }
    for (i = 0; i < ARRAY_LEN(words); i++) {
        if (is_word(words[i].word, word, len) && info->mods & BIT(words[i].mod))
            return take(info, in, order, words[i].mod, words[i].value);
    }
    return "the instruction has no such modifier";
}

/* ---- which modifiers go together ---- */

static const char *
check_float(const struct px_op_info *info, const struct px_insn *in)
{
    bool wide = in->type == PX_F64, rounds = in->mod[PX_MOD_ROUND] != 0;
    bool approx = in->mod[PX_MOD_APPROX] != 0;

    if (in->mod[PX_MOD_HALF])
        return "floats have no halves";
    if (in->mod[PX_MOD_ROUND] > PX_RP)
        return "that rounding is for conversions to integers";
    if (in->mod[PX_MOD_ROUND] > PX_RN)
        return "this simulator rounds to nearest only";
    if (wide &&
        (in->mod[PX_MOD_FTZ] || in->mod[PX_MOD_SAT] || in->mod[PX_MOD_NAN]))
        return "f64 has no such modifier";
    if (in->op != PX_DIV && in->mod[PX_MOD_APPROX] == 2)
        return "full is for div";
    if (in->op == PX_DIV || in->op == PX_RCP || in->op == PX_SQRT) {
        if (rounds == approx)
            return "either a rounding or an approximation is needed";
        if (wide && approx)
            return "f64 has no such approximation";
    }
    (void)info;
    return NULL;
}

static const char *
check_int(const struct px_insn *in)
{
    if (in->mod[PX_MOD_ROUND] || in->mod[PX_MOD_FTZ] || in->mod[PX_MOD_SAT] ||
        in->mod[PX_MOD_NAN] || in->mod[PX_MOD_APPROX])
        return "integers have no such modifier";
    if (in->op == PX_MUL && !in->mod[PX_MOD_HALF])
        return "lo, hi or wide is needed";
    if (in->mod[PX_MOD_HALF] == PX_WIDE && px_types[in->type].bits == 64)
        return "there is no wider result";
    return NULL;
}

static const char *
check_cmp(const struct px_insn *in)
{
    unsigned cmp = in->mod[PX_MOD_CMP] - 1u;
    char kind = px_types[in->type].kind;

    if (kind == 'b' && cmp > PX_NE)
        return "bits are only equal or not";
    if (kind == 'f' && cmp >= PX_LO)
        return "floats have no such comparison";
    if (kind == 's' && cmp > PX_GE)
        return "signed integers have no such comparison";
    if (kind == 'u' && cmp > PX_GE && cmp < PX_LO)
        return "integers have no such comparison";
    return NULL;
}

/* What a cvt rounds: float to integer, to a shorter float, from integer. */
static const char *
check_cvt(const struct px_insn *in)
{
    const struct px_type_info *to = &px_types[in->type];
    const struct px_type_info *from = &px_types[in->type2];
    unsigned round = in->mod[PX_MOD_ROUND];
    bool to_float = to->kind == 'f', from_float = from->kind == 'f';

    if (in->mod[PX_MOD_SAT])
        return "this simulator does not saturate conversions";
    if (in->mod[PX_MOD_FTZ] && in->type != PX_F32 && in->type2 != PX_F32)
        return "ftz is for f32";
    if (!to_float && !from_float)
        return round ? "integers are not rounded" : NULL;
    if (from_float && (!to_float || in->type == in->type2))
        return round < PX_RNI && !(to_float && !round)
                   ? "an integer rounding is needed"
                   : NULL;
    if (from_float && to->bits > from->bits)
        return round ? "nothing is rounded here" : NULL;
    if (from_float && to->bits == from->bits)
        return "there is no such conversion";
    if (in->type == PX_BF16 && in->type2 != PX_F32)
        return "bf16 comes from f32 only";
    if (round > PX_RN)
        return "this simulator rounds to nearest only";
    return round == PX_RN ? NULL : "a rounding is needed";
}

const char *
px_check_modifiers(const struct px_op_info *info, const struct px_insn *in)
{
    uint32_t have = 0, i;
    char kind = px_types[in->type].kind;

    for (i = 0; i < PX_MOD_COUNT; i++)
        have |= in->mod[i] ? BIT(i) : 0;
    if ((have & info->need) != info->need)
        return "a modifier is missing";
    if (info->op == PX_CVT)
        return check_cvt(in);
    if (info->op == PX_SETP) {
        if (in->mod[PX_MOD_FTZ] && in->type != PX_F32)
            return "ftz is for f32";
        return check_cmp(in);
    }
    if ((info->op == PX_BAR || info->op == PX_SHFL) &&
        in->mod[PX_MOD_ORDER] != 2)
        return "only its sync form is known";
    if (info->op == PX_BRA && have && in->mod[PX_MOD_ORDER] != 3)
        return "bra has no such modifier";
    if (info->mods & SPACE && in->mod[PX_MOD_ORDER] > 1)
        return "memory is not accessed in that way";
    if (info->op == PX_LD || info->op == PX_ST) {
        uint32_t n = in->mod[PX_MOD_VEC] ? in->mod[PX_MOD_VEC] : 1;
        if (n * px_types[in->type].bits > 128)
            return "an access has 16 bytes at most";
        return NULL;
    }
    if (info->op >= PX_SELP)
        return NULL;
    if (kind == 'f')
        return check_float(info, in);
    return kind == 's' || kind == 'u' ? check_int(in) : NULL;
}
