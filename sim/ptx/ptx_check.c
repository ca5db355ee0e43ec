/* Which modifiers and types go together, and what a chip has.
 * src: docs/hardware/nvidia-code.md, "PTX instructions"; PTX ISA, as
 * remembered. */
#include "sim/ptx/ptx_internal.h"

static bool
is_bf16(unsigned type)
{
    return type == PX_BF16 || type == PX_BF16X2;
}

static bool
is_half_type(unsigned type)
{
    return type == PX_F16 || type == PX_F16X2 || is_bf16(type);
}

static const char *
check_half(const struct px_insn *in, uint32_t sm)
{
    bool bf16 = is_bf16(in->type);
    unsigned sat = in->mod[PX_MOD_SAT];

    if (bf16 && sm < 90 &&
        (in->op == PX_ADD || in->op == PX_SUB || in->op == PX_MUL ||
         in->op == PX_EX2 || in->op == PX_TANH))
        return "bf16 has this from sm_90 on";
    if (sat == PX_SATFINITE || (sat == PX_RELU && in->op != PX_FMA) ||
        (bf16 && sat == PX_SAT))
        return "this type has no such modifier";
    if (in->op == PX_EX2)
        return (in->mod[PX_MOD_FTZ] != 0) == bf16
                   ? NULL
                   : "ftz is for bf16 here, which needs it";
    if (bf16 && in->mod[PX_MOD_FTZ])
        return "bf16 has no such modifier";
    return NULL;
}

static const char *
check_float(const struct px_insn *in, uint32_t sm)
{
    bool wide = in->type == PX_F64, rounds = in->mod[PX_MOD_ROUND] != 0;
    bool approx = in->mod[PX_MOD_APPROX] != 0;

    if (in->mod[PX_MOD_HALF])
        return "floats have no halves";
    if (in->mod[PX_MOD_ROUND] > PX_RP)
        return "that rounding is for conversions";
    if (in->mod[PX_MOD_ROUND] > PX_RN)
        return "this simulator rounds to nearest only";
    if (in->mod[PX_MOD_FTZ] > 1)
        return "noftz is for atomics";
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
    if (is_half_type(in->type))
        return check_half(in, sm);
    if (in->mod[PX_MOD_SAT] > PX_SAT)
        return "this type has no such modifier";
    return NULL;
}

static const char *
check_int(const struct px_insn *in)
{
    if (in->op == PX_ADD || in->op == PX_SUB) {
        if (in->mod[PX_MOD_SAT] &&
            (in->mod[PX_MOD_SAT] != PX_SAT || in->type != PX_S32))
            return "only s32 saturates";
    } else if (in->mod[PX_MOD_SAT]) {
        return "integers have no such modifier";
    }
    if (in->mod[PX_MOD_ROUND] || in->mod[PX_MOD_FTZ] || in->mod[PX_MOD_NAN] ||
        in->mod[PX_MOD_APPROX])
        return "integers have no such modifier";
    if (in->op == PX_MUL && !in->mod[PX_MOD_HALF])
        return "lo, hi or wide is needed";
    if (in->mod[PX_MOD_HALF] == PX_WIDE &&
        (px_types[in->type].bits == 64 || in->op == PX_MUL24 ||
         in->op == PX_MAD24))
        return "there is no wider result";
    return NULL;
}

static const char *
check_cmp(const struct px_insn *in, uint32_t sm)
{
    unsigned cmp = in->mod[PX_MOD_CMP] - 1u;
    unsigned type = in->op == PX_SET ? in->type2 : in->type;
    char kind = px_types[type].kind;

    if (in->mod[PX_MOD_FTZ] > 1 || (in->mod[PX_MOD_FTZ] && type != PX_F32 &&
                                    type != PX_F16 && type != PX_F16X2))
        return "ftz is for f32 and f16";
    if (in->op == PX_SET && in->type != PX_U32 && in->type != PX_S32 &&
        in->type != PX_F32)
        return "set gives u32, s32 or f32";
    if (is_bf16(type) && sm < 90)
        return "bf16 has this from sm_90 on";
    if (kind == 'b' && cmp > PX_NE)
        return "bits are only equal or not";
    if ((kind == 'f' || kind == 'x') && cmp >= PX_LO)
        return "floats have no such comparison";
    if (kind == 's' && cmp > PX_GE)
        return "signed integers have no such comparison";
    if (kind == 'u' && cmp > PX_GE && cmp < PX_LO)
        return "integers have no such comparison";
    return NULL;
}

/* ---- conversions ---- */

static bool
is_small(unsigned type)
{
    return type == PX_E4M3X2 || type == PX_E5M2X2;
}

/* To and from pairs, and to tf32. */
static const char *
check_cvt_packed(const struct px_insn *in, uint32_t sm)
{
    unsigned round = in->mod[PX_MOD_ROUND], sat = in->mod[PX_MOD_SAT];

    if (in->mod[PX_MOD_FTZ])
        return "there is no such modifier here";
    if (is_small(in->type)) {
        if (sm < 89)
            return "8-bit floats come with sm_89";
        if (in->type2 != PX_F32 && in->type2 != PX_F16X2)
            return "there is no such conversion";
        return round == PX_RN && sat == PX_SATFINITE ? NULL
                                                     : "it is rn.satfinite";
    }
    if (is_small(in->type2)) {
        if (sm < 89)
            return "8-bit floats come with sm_89";
        return in->type == PX_F16X2 && round == PX_RN && sat != PX_SAT
                   ? NULL
                   : "it is rn, to f16x2";
    }
    if (in->type2 != PX_F32 || in->type2 == in->type)
        return "there is no such conversion";
    if (in->type == PX_TF32) {
        if (round == PX_RNA)
            return sat ? "it does not saturate" : NULL;
        if (sm < 90)
            return "before sm_90 it is rna";
    } else if (sat == PX_SAT || sat == PX_SATFINITE) {
        return "it does not saturate";
    }
    return round == PX_RN || round == PX_RZ ? NULL : "a rounding is needed";
}

/* What a cvt rounds: float to integer, to a shorter float, from integer. */
static const char *
check_cvt(const struct px_insn *in, uint32_t sm)
{
    const struct px_type_info *to = &px_types[in->type];
    const struct px_type_info *from = &px_types[in->type2];
    unsigned round = in->mod[PX_MOD_ROUND];
    bool to_float = to->kind == 'f', from_float = from->kind == 'f';

    if (to->kind == 'x' || from->kind == 'x')
        return check_cvt_packed(in, sm);
    if (in->mod[PX_MOD_SAT] > PX_SAT &&
        !(in->mod[PX_MOD_SAT] == PX_RELU && is_half_type(in->type) &&
          in->type2 == PX_F32))
        return "it has no such modifier";
    if (in->mod[PX_MOD_FTZ] > 1 ||
        (in->mod[PX_MOD_FTZ] && in->type != PX_F32 && in->type2 != PX_F32))
        return "ftz is for f32";
    if ((in->type == PX_BF16 && in->type2 != PX_F32 && sm < 90) ||
        (in->type2 == PX_BF16 && in->type != PX_F32 && sm < 90))
        return "before sm_90 bf16 comes from f32 and goes there only";
    if (round == PX_RNA)
        return "rna is for tf32";
    if (!to_float && !from_float)
        return round ? "integers are not rounded" : NULL;
    if (from_float && (!to_float || in->type == in->type2))
        return round < PX_RNI && !(to_float && !round)
                   ? "an integer rounding is needed"
                   : NULL;
    if (from_float && to->bits > from->bits)
        return round ? "nothing is rounded here" : NULL;
    if (round > PX_RP)
        return "that rounding is to integers";
    if (!from_float && round > PX_RN)
        return "this simulator rounds to nearest only";
    return round ? NULL : "a rounding is needed";
}

/* ---- memory ---- */

static const char *
check_memory_insn(const struct px_insn *in)
{
    uint32_t n = in->mod[PX_MOD_VEC] ? in->mod[PX_MOD_VEC] : 1;
    unsigned order = in->mod[PX_MOD_ORDER], space = in->mod[PX_MOD_SPACE];
    bool strong =
        order == PX_RELAXED || order == PX_ACQUIRE || order == PX_RELEASE;

    if (order == PX_SYNC || order == PX_UNI || order == PX_ACQ_REL ||
        order == PX_SC || (in->op == PX_LD && order == PX_RELEASE) ||
        (in->op == PX_ST && order == PX_ACQUIRE))
        return "memory is not accessed in that way";
    if (strong != (in->mod[PX_MOD_SCOPE] != 0))
        return "a scope belongs to relaxed, acquire and release, and they to "
               "one";
    if (strong && space != PX_GENERIC && space != PX_GLOBAL &&
        space != PX_SHARED)
        return "that memory has no order";
    if (in->mod[PX_MOD_CACHE] == 2 && (in->op == PX_ST || space != PX_GLOBAL))
        return "nc is for loads from global memory";
    if (in->op == PX_ST && (space == PX_PARAM || space == PX_CONST))
        return space == PX_PARAM ? "parameters are not written"
                                 : "constants are not written";
    if (n * px_types[in->type].bits > 128)
        return "an access has 16 bytes at most";
    return NULL;
}

static const char *
check_atom(const struct px_insn *in, uint32_t sm)
{
    char kind = px_types[in->type].kind;
    unsigned mode = in->mod[PX_MOD_MODE], order = in->mod[PX_MOD_ORDER];
    bool ok;

    if (in->mod[PX_MOD_SPACE] > PX_SHARED)
        return "atomics are for global and shared memory";
    if (order && order != PX_RELAXED && order != PX_ACQUIRE &&
        order != PX_RELEASE && order != PX_ACQ_REL)
        return "memory is not accessed in that way";
    if (is_bf16(in->type) && sm < 90)
        return "bf16 has this from sm_90 on";
    if ((in->mod[PX_MOD_FTZ] == 2) != is_half_type(in->type) ||
        in->mod[PX_MOD_FTZ] == 1)
        return "noftz is for halves, which need it";
    switch (mode) {
    case PX_ATOM_ADD:
        ok = kind != 'b' && in->type != PX_S64;
        break;
    case PX_ATOM_MIN:
    case PX_ATOM_MAX:
        ok = kind == 's' || kind == 'u';
        break;
    case PX_ATOM_INC:
    case PX_ATOM_DEC:
        ok = in->type == PX_U32;
        break;
    case PX_ATOM_CAS:
        ok = kind == 'b';
        break;
    default:
        ok = kind == 'b' && in->type != PX_B16;
        break;
    }
    if (in->op == PX_RED && (mode == PX_ATOM_EXCH || mode == PX_ATOM_CAS))
        return "red has no such operation";
    return ok ? NULL : "the atomic is not for this type";
}

/* ---- the others ---- */

static const char *
check_warp(const struct px_insn *in)
{
    unsigned mode = in->mod[PX_MOD_MODE];
    bool bits = in->type == PX_B32;

    if (in->op == PX_MATCH)
        return in->mod[PX_MOD_WRAP] == 3 ? NULL : "only its sync form is known";
    if (in->mod[PX_MOD_ORDER] != PX_SYNC)
        return "only its sync form is known";
    if (in->op == PX_VOTE && (mode == PX_VOTE_BALLOT) != bits)
        return "ballot is b32, the others pred";
    if (in->op == PX_REDUX && (mode >= PX_ATOM_AND) != bits)
        return "the instruction is not for this type";
    return NULL;
}

const char *
px_check_modifiers(const struct px_op_info *info, const struct px_insn *in,
                   uint32_t sm)
{
    uint32_t have = 0, i;
    char kind = px_types[in->type].kind;

    for (i = 0; i < PX_MOD_COUNT; i++)
        have |= in->mod[i] ? 1u << i : 0;
    if ((have & info->need) != info->need)
        return "a modifier is missing";
    switch (info->op) {
    case PX_CVT:
        return check_cvt(in, sm);
    case PX_SETP:
    case PX_SET:
        return check_cmp(in, sm);
    case PX_SHFL:
    case PX_VOTE:
    case PX_MATCH:
    case PX_REDUX:
        return check_warp(in);
    case PX_LD:
    case PX_ST:
        return check_memory_insn(in);
    case PX_ATOM:
    case PX_RED:
        return check_atom(in, sm);
    case PX_BRA:
    case PX_RET:
        return have && in->mod[PX_MOD_ORDER] != PX_UNI
                   ? "it has no such modifier"
                   : NULL;
    case PX_FENCE:
        return in->mod[PX_MOD_ORDER] && in->mod[PX_MOD_ORDER] != PX_ACQ_REL &&
                       in->mod[PX_MOD_ORDER] != PX_SC
                   ? "it has no such modifier"
                   : NULL;
    case PX_CVTA:
        return in->mod[PX_MOD_SPACE] == PX_CONST
                   ? "constants have no generic address here"
                   : NULL;
    case PX_SHF:
        return in->mod[PX_MOD_WRAP] == 3 ? "it has no such modifier" : NULL;
    default:
        break;
    }
    if (info->op > PX_SAD)
        return NULL;
    if (kind == 'f' || kind == 'x')
        return check_float(in, sm);
    return kind == 's' || kind == 'u' ? check_int(in) : NULL;
}
