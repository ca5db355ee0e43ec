/* Scalar instructions. src: docs/hardware/amd-code.md, "Execution"; the
 * operations are the ISA's own, by name. */
#include "sim/amd/isa/wave_internal.h"

#include <assert.h>

static const uint32_t float_constants[9] = {
    0x3f000000, 0xbf000000, 0x3f800000, 0xbf800000, 0x40000000,
    0xc0000000, 0x40800000, 0xc0800000, 0x3e22f983,
};

uint32_t
wave_read_scalar(struct wave *w, const struct isa_insn *in, uint32_t code)
{
    if (code < 128)
        return w->s[code];
    if (code <= 192)
        return code - 128;
    if (code <= 208)
        return 192 - code;
    if (code >= 240 && code <= 248)
        return float_constants[code - 240];
    switch (code) {
    case ISA_LITERAL:
        return in->literal;
    case ISA_M0:
        return w->m0;
    case ISA_NULL:
        return 0;
    case 251: /* vccz */
        return w->s[ISA_VCC_LO] == 0 &&
               (w->group->n_lanes == 32 || w->s[ISA_VCC_LO + 1] == 0);
    case 252: /* execz */
        return wave_exec(w) == 0;
    case 253:
        return w->scc;
    default:
        wave_fail(w, AMD_WAVE_ILLEGAL, "scalar source %u", code);
        return 0;
    }
}

/* Literals have 32 bits. Signed operations extend their sign; others, moves
 * among them, put zeros above: LLVM 19 writes s_mov_b64 s[0:1], 0x80000000 for
 * 1 << 31. src: docs/hardware/amd-code.md, "Operands" */
static uint64_t
extend_literal(const struct isa_insn *in)
{
    bool is_signed = in->op == ISA_S_ASHR_I64 || in->op == ISA_S_BFE_I64 ||
                     in->op == ISA_S_CLS_I32_I64 ||
                     in->op == ISA_V_ASHRREV_I64 ||
                     in->op == ISA_V_MAD_I64_I32 ||
                     (in->op == ISA_V_CMP && in->type == ISA_I64);

    return is_signed ? (uint64_t)(int64_t)(int32_t)in->literal : in->literal;
}

uint64_t
wave_read_scalar64(struct wave *w, const struct isa_insn *in, uint32_t code)
{
    double constant;

    if (code < 127)
        return w->s[code] | (uint64_t)w->s[code + 1] << 32;
    if (code >= 193 && code <= 208)
        return (uint64_t)(int64_t)(int32_t)(192 - code);
    if (code == ISA_LITERAL)
        return extend_literal(in);
    if (wave_float_constant(code, &constant))
        return wave_u64(constant);
    if (code >= ISA_APERTURES && code < ISA_APERTURES + 4)
        return (uint64_t)(code < ISA_APERTURES + 2 ? WAVE_FLAT_LDS
                                                   : WAVE_FLAT_SCRATCH)
                   << 32 |
               ((code - ISA_APERTURES) & 1 ? UINT32_MAX : 0);
    return wave_read_scalar(w, in, code);
}

void
wave_write_scalar(struct wave *w, uint32_t code, uint32_t value)
{
    if (code < 128)
        w->s[code] = value;
    else if (code == ISA_M0)
        w->m0 = value;
    else if (code != ISA_NULL)
        wave_fail(w, AMD_WAVE_ILLEGAL, "scalar destination %u", code);
}

void
wave_write_scalar64(struct wave *w, uint32_t code, uint64_t value)
{
    wave_write_scalar(w, code, (uint32_t)value);
    if (code < 127)
        w->s[code + 1] = (uint32_t)(value >> 32);
}

uint64_t
wave_read_mask(struct wave *w, const struct isa_insn *in, uint32_t code)
{
    return w->group->n_lanes == 64 ? wave_read_scalar64(w, in, code)
                                   : wave_read_scalar(w, in, code);
}

void
wave_write_mask(struct wave *w, uint32_t code, uint64_t mask)
{
    if (w->group->n_lanes == 64)
        wave_write_scalar64(w, code, mask);
    else
        wave_write_scalar(w, code, (uint32_t)mask);
}

static uint32_t
reverse32(uint32_t a)
{
    uint32_t r = 0;
    int i;

    for (i = 0; i < 32; i++)
        r |= (a >> i & 1) << (31 - i);
    return r;
}

/* Leading bits that equal the sign, as s_cls counts; -1 where all do. */
static uint32_t
count_sign(uint64_t a, unsigned n_bits)
{
    unsigned i;

    assert(n_bits == 32 || n_bits == 64);
    for (i = 1; i < n_bits; i++) {
        if ((a >> (n_bits - 1 - i) & 1) != (a >> (n_bits - 1) & 1))
            return i;
    }
    return UINT32_MAX;
}

/* Each bit two times. */
static uint64_t
twice(uint32_t a)
{
    uint64_t r = 0;
    int i;

    for (i = 0; i < 32; i++)
        r |= (a >> i & 1) * (3ull << 2 * i);
    return r;
}

static bool
move_exec(struct wave *w, const struct isa_insn *in, uint64_t value,
          bool keeps_old)
{
    uint64_t old = wave_exec(w);
    bool is32 = w->group->n_lanes == 32;

    value &= w->group->all_lanes;
    if (keeps_old)
        wave_write_mask(w, in->sdst, old);
    else
        wave_write_mask(w, in->sdst, value);
    w->s[ISA_EXEC_LO] = (uint32_t)value;
    if (!is32)
        w->s[ISA_EXEC_LO + 1] = (uint32_t)(value >> 32);
    w->scc = value != 0;
    return true;
}

#define OUT32(value, sets)                                                     \
    do {                                                                       \
        uint32_t out_ = (value);                                               \
        wave_write_scalar(w, in->sdst, out_);                                  \
        if (sets)                                                              \
            w->scc = out_ != 0;                                                \
    } while (0);                                                               \
    return !w->group->failed
#define OUT64(value, sets)                                                     \
    do {                                                                       \
        uint64_t out_ = (value);                                               \
        wave_write_scalar64(w, in->sdst, out_);                                \
        if (sets)                                                              \
            w->scc = out_ != 0;                                                \
    } while (0);                                                               \
    return !w->group->failed

/* The group's own barrier, -1, is the only one. */
static bool
signal_barrier(struct wave *w, const struct isa_insn *in)
{
    const struct wave_group *g = w->group;
    uint32_t i;

    if (wave_read_scalar(w, in, in->src[0]) != UINT32_MAX)
        return wave_fail(w, AMD_WAVE_ILLEGAL, "%s of another barrier than -1",
                         isa_op_name(in->op));
    if (w->barrier == WAVE_SIGNALLED)
        return wave_fail(w, AMD_WAVE_BARRIER, "%s again, without a wait",
                         isa_op_name(in->op));
    if (in->op == ISA_S_BARRIER_SIGNAL_ISFIRST) {
        w->scc = 1;
        for (i = 0; i < g->n_waves; i++)
            w->scc &= g->waves[i].barrier != WAVE_SIGNALLED;
    }
    w->barrier = WAVE_SIGNALLED;
    return true;
}

static bool
sop1_32(struct wave *w, const struct isa_insn *in)
{
    uint32_t a = wave_read_scalar(w, in, in->src[0]);
    uint64_t exec = wave_exec(w);

    switch (in->op) {
    case ISA_S_NOP:
        return true;
    case ISA_S_BARRIER_SIGNAL:
    case ISA_S_BARRIER_SIGNAL_ISFIRST:
        return signal_barrier(w, in);
    case ISA_S_MOV_B32:
        OUT32(a, false);
    case ISA_S_CMOV_B32:
        if (w->scc)
            wave_write_scalar(w, in->sdst, a);
        return true;
    case ISA_S_NOT_B32:
        OUT32(~a, true);
    case ISA_S_BREV_B32:
        OUT32(reverse32(a), false);
    case ISA_S_BCNT0_I32_B32:
        OUT32(32 - (uint32_t)__builtin_popcount(a), true);
    case ISA_S_BCNT1_I32_B32:
        OUT32((uint32_t)__builtin_popcount(a), true);
    case ISA_S_FF0_I32_B32:
        OUT32(~a ? (uint32_t)__builtin_ctz(~a) : UINT32_MAX, false);
    case ISA_S_CTZ_I32_B32:
        OUT32(a ? (uint32_t)__builtin_ctz(a) : UINT32_MAX, false);
    case ISA_S_CLZ_I32_U32:
        OUT32(a ? (uint32_t)__builtin_clz(a) : UINT32_MAX, false);
    case ISA_S_CLS_I32:
        OUT32(count_sign(a, 32), false);
    case ISA_S_SEXT_I32_I8:
        OUT32((uint32_t)(int8_t)a, false);
    case ISA_S_SEXT_I32_I16:
        OUT32((uint32_t)(int16_t)a, false);
    case ISA_S_BITSET0_B32:
        OUT32(wave_read_scalar(w, in, in->sdst) & ~(1u << (a & 31)), false);
    case ISA_S_BITSET1_B32:
        OUT32(wave_read_scalar(w, in, in->sdst) | 1u << (a & 31), false);
    case ISA_S_ABS_I32:
        OUT32((int32_t)a < 0 ? 0 - a : a, true);
    case ISA_S_AND_SAVEEXEC_B32:
        return move_exec(w, in, a & exec, true);
    case ISA_S_OR_SAVEEXEC_B32:
        return move_exec(w, in, a | exec, true);
    case ISA_S_XOR_SAVEEXEC_B32:
        return move_exec(w, in, a ^ exec, true);
    case ISA_S_NAND_SAVEEXEC_B32:
        return move_exec(w, in, ~(a & exec), true);
    case ISA_S_NOR_SAVEEXEC_B32:
        return move_exec(w, in, ~(a | exec), true);
    case ISA_S_XNOR_SAVEEXEC_B32:
        return move_exec(w, in, ~(a ^ exec), true);
    case ISA_S_AND_NOT0_SAVEEXEC_B32:
        return move_exec(w, in, ~(uint64_t)a & exec, true);
    case ISA_S_OR_NOT0_SAVEEXEC_B32:
        return move_exec(w, in, ~(uint64_t)a | exec, true);
    case ISA_S_AND_NOT1_SAVEEXEC_B32:
        return move_exec(w, in, a & ~exec, true);
    case ISA_S_OR_NOT1_SAVEEXEC_B32:
        return move_exec(w, in, a | ~exec, true);
    case ISA_S_AND_NOT0_WREXEC_B32:
        return move_exec(w, in, ~(uint64_t)a & exec, false);
    case ISA_S_AND_NOT1_WREXEC_B32:
        return move_exec(w, in, a & ~exec, false);
    default:
        return wave_fail(w, AMD_WAVE_ILLEGAL, "%s is not known",
                         isa_op_name(in->op));
    }
}

/* False where the operation is not one on 64 bits. */
static bool
sop1_64(struct wave *w, const struct isa_insn *in, bool *out_known)
{
    uint64_t a, exec = wave_exec(w);

    *out_known = true;
    switch (in->op) {
    case ISA_S_GETPC_B64:
        OUT64(w->pc, false);
    case ISA_S_SETPC_B64:
        w->pc = wave_read_scalar64(w, in, in->src[0]);
        return true;
    case ISA_S_SWAPPC_B64:
        a = wave_read_scalar64(w, in, in->src[0]);
        wave_write_scalar64(w, in->sdst, w->pc);
        w->pc = a;
        return true;
    case ISA_S_BITREPLICATE_B64_B32:
        OUT64(twice(wave_read_scalar(w, in, in->src[0])), false);
    case ISA_S_BITSET0_B64:
    case ISA_S_BITSET1_B64: {
        uint64_t bit = 1ull << (wave_read_scalar(w, in, in->src[0]) & 63);
        uint64_t old = wave_read_scalar64(w, in, in->sdst);
        OUT64(in->op == ISA_S_BITSET0_B64 ? old & ~bit : old | bit, false);
    }
    default:
        break;
    }
    a = wave_read_scalar64(w, in, in->src[0]);
    switch (in->op) {
    case ISA_S_MOV_B64:
        OUT64(a, false);
    case ISA_S_CMOV_B64:
        if (w->scc)
            wave_write_scalar64(w, in->sdst, a);
        return true;
    case ISA_S_NOT_B64:
        OUT64(~a, true);
    case ISA_S_BREV_B64:
        OUT64((uint64_t)reverse32((uint32_t)a) << 32 |
                  reverse32((uint32_t)(a >> 32)),
              false);
    case ISA_S_BCNT0_I32_B64:
        OUT32(64 - (uint32_t)__builtin_popcountll(a), true);
    case ISA_S_BCNT1_I32_B64:
        OUT32((uint32_t)__builtin_popcountll(a), true);
    case ISA_S_FF0_I32_B64:
        OUT32(~a ? (uint32_t)__builtin_ctzll(~a) : UINT32_MAX, false);
    case ISA_S_CTZ_I32_B64:
        OUT32(a ? (uint32_t)__builtin_ctzll(a) : UINT32_MAX, false);
    case ISA_S_CLZ_I32_U64:
        OUT32(a ? (uint32_t)__builtin_clzll(a) : UINT32_MAX, false);
    case ISA_S_CLS_I32_I64:
        OUT32(count_sign(a, 64), false);
    case ISA_S_AND_SAVEEXEC_B64:
        return move_exec(w, in, a & exec, true);
    case ISA_S_OR_SAVEEXEC_B64:
        return move_exec(w, in, a | exec, true);
    case ISA_S_XOR_SAVEEXEC_B64:
        return move_exec(w, in, a ^ exec, true);
    case ISA_S_NAND_SAVEEXEC_B64:
        return move_exec(w, in, ~(a & exec), true);
    case ISA_S_NOR_SAVEEXEC_B64:
        return move_exec(w, in, ~(a | exec), true);
    case ISA_S_XNOR_SAVEEXEC_B64:
        return move_exec(w, in, ~(a ^ exec), true);
    case ISA_S_AND_NOT0_SAVEEXEC_B64:
        return move_exec(w, in, ~a & exec, true);
    case ISA_S_OR_NOT0_SAVEEXEC_B64:
        return move_exec(w, in, ~a | exec, true);
    case ISA_S_AND_NOT1_SAVEEXEC_B64:
        return move_exec(w, in, a & ~exec, true);
    case ISA_S_OR_NOT1_SAVEEXEC_B64:
        return move_exec(w, in, a | ~exec, true);
    case ISA_S_AND_NOT0_WREXEC_B64:
        return move_exec(w, in, ~a & exec, false);
    case ISA_S_AND_NOT1_WREXEC_B64:
        return move_exec(w, in, a & ~exec, false);
    default:
        *out_known = false;
        return false;
    }
}

static uint64_t
bit_field(uint64_t a, uint32_t offset, uint32_t width, unsigned n_bits,
          bool is_signed)
{
    uint64_t mask = width >= 64 ? UINT64_MAX : (1ull << width) - 1;
    uint64_t value;

    assert(n_bits == 32 || n_bits == 64);
    if (width == 0)
        return 0;
    if (is_signed && n_bits == 32)
        a = (uint64_t)(int64_t)(int32_t)a;
    value = is_signed ? (uint64_t)((int64_t)a >> offset) : a >> offset;
    value &= mask;
    if (is_signed && width < n_bits && value >> (width - 1) & 1)
        value |= ~mask;
    return n_bits == 32 ? (uint32_t)value : value;
}

static bool
sop2_arith(struct wave *w, const struct isa_insn *in, uint32_t a, uint32_t b)
{
    uint64_t wide;
    uint32_t out;

    switch (in->op) {
    case ISA_S_ADD_U32:
    case ISA_S_ADDC_U32:
        wide = (uint64_t)a + b + (in->op == ISA_S_ADDC_U32 ? w->scc : 0);
        w->scc = wide >> 32 != 0;
        break;
    case ISA_S_SUB_U32:
    case ISA_S_SUBB_U32:
        wide = (uint64_t)a - b - (in->op == ISA_S_SUBB_U32 ? w->scc : 0);
        w->scc = wide >> 32 != 0;
        break;
    case ISA_S_ADD_I32:
        out = a + b;
        w->scc = (~(a ^ b) & (a ^ out)) >> 31;
        wide = out;
        break;
    default: /* S_SUB_I32 */
        out = a - b;
        w->scc = ((a ^ b) & (a ^ out)) >> 31;
        wide = out;
        break;
    }
    wave_write_scalar(w, in->sdst, (uint32_t)wide);
    return !w->group->failed;
}

static bool
sop2_32(struct wave *w, const struct isa_insn *in)
{
    uint32_t a = wave_read_scalar(w, in, in->src[0]);
    uint32_t b = wave_read_scalar(w, in, in->src[1]);
    bool first;

    switch (in->op) {
    case ISA_S_ADD_U32:
    case ISA_S_SUB_U32:
    case ISA_S_ADD_I32:
    case ISA_S_SUB_I32:
    case ISA_S_ADDC_U32:
    case ISA_S_SUBB_U32:
        return sop2_arith(w, in, a, b);
    case ISA_S_ABSDIFF_I32: {
        int64_t diff = (int64_t)(int32_t)a - (int32_t)b;
        OUT32((uint32_t)(diff < 0 ? -diff : diff), true);
    }
    case ISA_S_MIN_I32:
        first = (int32_t)a < (int32_t)b;
        w->scc = first;
        OUT32(first ? a : b, false);
    case ISA_S_MIN_U32:
        w->scc = first = a < b;
        OUT32(first ? a : b, false);
    case ISA_S_MAX_I32:
        w->scc = first = (int32_t)a >= (int32_t)b;
        OUT32(first ? a : b, false);
    case ISA_S_MAX_U32:
        w->scc = first = a >= b;
        OUT32(first ? a : b, false);
    case ISA_S_CSELECT_B32:
        OUT32(w->scc ? a : b, false);
    case ISA_S_AND_B32:
        OUT32(a & b, true);
    case ISA_S_OR_B32:
        OUT32(a | b, true);
    case ISA_S_XOR_B32:
        OUT32(a ^ b, true);
    case ISA_S_AND_NOT1_B32:
        OUT32(a & ~b, true);
    case ISA_S_OR_NOT1_B32:
        OUT32(a | ~b, true);
    case ISA_S_NAND_B32:
        OUT32(~(a & b), true);
    case ISA_S_NOR_B32:
        OUT32(~(a | b), true);
    case ISA_S_XNOR_B32:
        OUT32(~(a ^ b), true);
    case ISA_S_LSHL_B32:
        OUT32(a << (b & 31), true);
    case ISA_S_LSHR_B32:
        OUT32(a >> (b & 31), true);
    case ISA_S_ASHR_I32:
        OUT32((uint32_t)((int32_t)a >> (b & 31)), true);
    case ISA_S_BFM_B32:
        OUT32(((1u << (a & 31)) - 1) << (b & 31), false);
    case ISA_S_MUL_I32:
        OUT32(a * b, false);
    case ISA_S_MUL_HI_U32:
        OUT32((uint32_t)((uint64_t)a * b >> 32), false);
    case ISA_S_MUL_HI_I32:
        OUT32((uint32_t)((int64_t)(int32_t)a * (int32_t)b >> 32), false);
    case ISA_S_BFE_U32:
        OUT32((uint32_t)bit_field(a, b & 31, b >> 16 & 0x7f, 32, false), true);
    case ISA_S_BFE_I32:
        OUT32((uint32_t)bit_field(a, b & 31, b >> 16 & 0x7f, 32, true), true);
    case ISA_S_LSHL1_ADD_U32:
    case ISA_S_LSHL2_ADD_U32:
    case ISA_S_LSHL3_ADD_U32:
    case ISA_S_LSHL4_ADD_U32: {
        unsigned shift = in->op == ISA_S_LSHL1_ADD_U32   ? 1
                         : in->op == ISA_S_LSHL2_ADD_U32 ? 2
                         : in->op == ISA_S_LSHL3_ADD_U32 ? 3
                                                         : 4;
        uint64_t sum = ((uint64_t)a << shift) + b;
        w->scc = sum >> 32 != 0;
        OUT32((uint32_t)sum, false);
    }
    case ISA_S_PACK_LL_B32_B16:
        OUT32((a & 0xffff) | b << 16, false);
    case ISA_S_PACK_LH_B32_B16:
        OUT32((a & 0xffff) | (b & 0xffff0000), false);
    case ISA_S_PACK_HH_B32_B16:
        OUT32(a >> 16 | (b & 0xffff0000), false);
    case ISA_S_PACK_HL_B32_B16:
        OUT32(a >> 16 | b << 16, false);
    default:
        return wave_fail(w, AMD_WAVE_ILLEGAL, "%s is not known",
                         isa_op_name(in->op));
    }
}

static bool
sop2_64(struct wave *w, const struct isa_insn *in, bool *out_known)
{
    uint64_t a = wave_read_scalar64(w, in, in->src[0]), b;
    uint32_t shift = wave_read_scalar(w, in, in->src[1]) & 63;
    uint32_t field = wave_read_scalar(w, in, in->src[1]);

    *out_known = true;
    switch (in->op) {
    case ISA_S_LSHL_B64:
        OUT64(a << shift, true);
    case ISA_S_LSHR_B64:
        OUT64(a >> shift, true);
    case ISA_S_ASHR_I64:
        OUT64((uint64_t)((int64_t)a >> shift), true);
    case ISA_S_BFE_U64:
        OUT64(bit_field(a, field & 63, field >> 16 & 0x7f, 64, false), true);
    case ISA_S_BFE_I64:
        OUT64(bit_field(a, field & 63, field >> 16 & 0x7f, 64, true), true);
    case ISA_S_BFM_B64:
        OUT64(((1ull << (wave_read_scalar(w, in, in->src[0]) & 63)) - 1)
                  << shift,
              false);
    default:
        break;
    }
    b = wave_read_scalar64(w, in, in->src[1]);
    switch (in->op) {
    case ISA_S_CSELECT_B64:
        OUT64(w->scc ? a : b, false);
    case ISA_S_AND_B64:
        OUT64(a & b, true);
    case ISA_S_OR_B64:
        OUT64(a | b, true);
    case ISA_S_XOR_B64:
        OUT64(a ^ b, true);
    case ISA_S_AND_NOT1_B64:
        OUT64(a & ~b, true);
    case ISA_S_OR_NOT1_B64:
        OUT64(a | ~b, true);
    case ISA_S_NAND_B64:
        OUT64(~(a & b), true);
    case ISA_S_NOR_B64:
        OUT64(~(a | b), true);
    case ISA_S_XNOR_B64:
        OUT64(~(a ^ b), true);
    case ISA_S_ADD_NC_U64:
        OUT64(a + b, false);
    case ISA_S_SUB_NC_U64:
        OUT64(a - b, false);
    case ISA_S_MUL_U64:
        OUT64(a * b, false);
    default:
        *out_known = false;
        return false;
    }
}

static bool
sopc(struct wave *w, const struct isa_insn *in)
{
    uint32_t a, b;
    uint64_t a64, b64;

    assert(in->format == ISA_SOPC);
    switch (in->op) {
    case ISA_S_CMP_EQ_U64:
    case ISA_S_CMP_LG_U64:
        a64 = wave_read_scalar64(w, in, in->src[0]);
        b64 = wave_read_scalar64(w, in, in->src[1]);
        w->scc = (a64 == b64) == (in->op == ISA_S_CMP_EQ_U64);
        return true;
    case ISA_S_BITCMP0_B64:
    case ISA_S_BITCMP1_B64:
        a64 = wave_read_scalar64(w, in, in->src[0]);
        b = wave_read_scalar(w, in, in->src[1]);
        w->scc = (a64 >> (b & 63) & 1) == (in->op == ISA_S_BITCMP1_B64);
        return true;
    default:
        break;
    }
    a = wave_read_scalar(w, in, in->src[0]);
    b = wave_read_scalar(w, in, in->src[1]);
#define COMPARE(name, expr)                                                    \
    case ISA_S_CMP_##name:                                                     \
        w->scc = (expr);                                                       \
        return true;
    switch (in->op) {
        COMPARE(EQ_I32, a == b)
        COMPARE(LG_I32, a != b)
        COMPARE(GT_I32, (int32_t)a > (int32_t)b)
        COMPARE(GE_I32, (int32_t)a >= (int32_t)b)
        COMPARE(LT_I32, (int32_t)a < (int32_t)b)
        COMPARE(LE_I32, (int32_t)a <= (int32_t)b)
        COMPARE(EQ_U32, a == b)
        COMPARE(LG_U32, a != b)
        COMPARE(GT_U32, a > b)
        COMPARE(GE_U32, a >= b)
        COMPARE(LT_U32, a < b)
        COMPARE(LE_U32, a <= b)
    case ISA_S_BITCMP0_B32:
    case ISA_S_BITCMP1_B32:
        w->scc = (a >> (b & 31) & 1) == (in->op == ISA_S_BITCMP1_B32);
        return true;
    default:
        return wave_fail(w, AMD_WAVE_ILLEGAL, "%s is not known",
                         isa_op_name(in->op));
    }
#undef COMPARE
}

/* A field of a hardware register: MODE, and where it is one, FLAT_SCRATCH.
 * src: LLVM 19's assembler (hwreg). */
static bool
get_register(struct wave *w, const struct isa_insn *in)
{
    uint32_t id = in->simm & 63, shift = in->simm >> 6 & 31, value;
    uint32_t n = (in->simm >> 11) + 1u;

    if (id == 1)
        value = w->mode;
    else if (id == 20 && isa_is_gfx10(w->group->gen))
        value = (uint32_t)w->flat;
    else if (id == 21 && isa_is_gfx10(w->group->gen))
        value = (uint32_t)(w->flat >> 32);
    else
        return wave_fail(w, AMD_WAVE_ILLEGAL, "S_GETREG of register %u", id);
    OUT32((uint32_t)(value >> shift & ((1ull << n) - 1)), false);
}

static bool
set_mode(struct wave *w, uint32_t mode)
{
    if (mode & 15)
        return wave_fail(w, AMD_WAVE_ILLEGAL,
                         "MODE 0x%x: only rounding to nearest is simulated",
                         mode);
    w->mode = mode;
    return true;
}

static bool
set_register(struct wave *w, const struct isa_insn *in, uint32_t value)
{
    uint32_t id = in->simm & 63, shift = in->simm >> 6 & 31;
    uint64_t mask = ((1ull << ((in->simm >> 11) + 1u)) - 1) << shift;
    uint32_t bits = (uint32_t)((uint64_t)value << shift & mask);

    if (id == 1)
        return set_mode(w, (w->mode & ~(uint32_t)mask) | bits);
    if (!isa_is_gfx10(w->group->gen) || (id != 20 && id != 21))
        return wave_fail(w, AMD_WAVE_ILLEGAL, "S_SETREG of register %u", id);
    shift = id == 20 ? 0 : 32;
    w->flat = (w->flat & ~(mask << shift)) | (uint64_t)bits << shift;
    return true;
}

static bool
sopk(struct wave *w, const struct isa_insn *in)
{
    uint32_t old = wave_read_scalar(w, in, in->sdst), out;
    int32_t imm = (int16_t)in->simm;
    uint32_t u = in->simm;

    assert(in->format == ISA_SOPK);
#define COMPARE(name, expr)                                                    \
    case ISA_S_CMPK_##name:                                                    \
        w->scc = (expr);                                                       \
        return true;
    switch (in->op) {
    case ISA_S_NOP: /* waits for counters */
        return true;
    case ISA_S_GETREG_B32:
        return get_register(w, in);
    case ISA_S_SETREG_B32:
        return set_register(w, in, old);
    case ISA_S_SETREG_IMM32_B32:
        return set_register(w, in, in->literal);
    case ISA_S_CALL_B64:
        wave_write_scalar64(w, in->sdst, w->pc);
        w->pc += (uint64_t)((int64_t)imm * 4);
        return !w->group->failed;
    case ISA_S_MOVK_I32:
        OUT32((uint32_t)imm, false);
    case ISA_S_CMOVK_I32:
        if (w->scc)
            wave_write_scalar(w, in->sdst, (uint32_t)imm);
        return true;
    case ISA_S_ADDK_I32:
        out = old + (uint32_t)imm;
        w->scc = (~(old ^ (uint32_t)imm) & (old ^ out)) >> 31;
        OUT32(out, false);
    case ISA_S_MULK_I32:
        OUT32(old * (uint32_t)imm, false);
        COMPARE(EQ_I32, (int32_t)old == imm)
        COMPARE(LG_I32, (int32_t)old != imm)
        COMPARE(GT_I32, (int32_t)old > imm)
        COMPARE(GE_I32, (int32_t)old >= imm)
        COMPARE(LT_I32, (int32_t)old < imm)
        COMPARE(LE_I32, (int32_t)old <= imm)
        COMPARE(EQ_U32, old == u)
        COMPARE(LG_U32, old != u)
        COMPARE(GT_U32, old > u)
        COMPARE(GE_U32, old >= u)
        COMPARE(LT_U32, old < u)
        COMPARE(LE_U32, old <= u)
    default:
        return wave_fail(w, AMD_WAVE_ILLEGAL, "%s is not known",
                         isa_op_name(in->op));
    }
#undef COMPARE
}

static bool
branch(struct wave *w, const struct isa_insn *in, bool taken)
{
    if (taken)
        w->pc += (uint64_t)((int64_t)(int16_t)in->simm * 4);
    return true;
}

static bool
wait_at_barrier(struct wave *w, const struct isa_insn *in)
{
    if (in->simm != 0xffff)
        return wave_fail(w, AMD_WAVE_ILLEGAL, "%s at another barrier than -1",
                         isa_op_name(in->op));
    if (w->barrier == WAVE_NOT_SIGNALLED)
        return wave_fail(w, AMD_WAVE_BARRIER, "%s without a signal",
                         isa_op_name(in->op));
    if (w->barrier == WAVE_SIGNALLED)
        w->state = WAVE_AT_BARRIER;
    else
        w->barrier = WAVE_NOT_SIGNALLED;
    return true;
}

static bool
sopp(struct wave *w, const struct isa_insn *in)
{
    uint64_t vcc = wave_read_mask(w, in, ISA_VCC_LO);

    assert(in->format == ISA_SOPP);
    switch (in->op) {
    case ISA_S_NOP:
        return true;
    case ISA_S_ENDPGM:
        w->state = WAVE_ENDED;
        return true;
    case ISA_S_BARRIER:
        w->state = WAVE_AT_BARRIER;
        return true;
    case ISA_S_BARRIER_WAIT:
        return wait_at_barrier(w, in);
    case ISA_S_ROUND_MODE:
        return set_mode(w, (w->mode & ~15u) | (in->simm & 15));
    case ISA_S_DENORM_MODE:
        return set_mode(w, (w->mode & ~0xf0u) | (in->simm & 15u) << 4);
    case ISA_S_TRAP:
        return wave_fail(w, AMD_WAVE_TRAP, "s_trap %u", in->simm);
    case ISA_S_BRANCH:
        return branch(w, in, true);
    case ISA_S_CBRANCH_SCC0:
        return branch(w, in, !w->scc);
    case ISA_S_CBRANCH_SCC1:
        return branch(w, in, w->scc != 0);
    case ISA_S_CBRANCH_VCCZ:
        return branch(w, in, vcc == 0);
    case ISA_S_CBRANCH_VCCNZ:
        return branch(w, in, vcc != 0);
    case ISA_S_CBRANCH_EXECZ:
        return branch(w, in, wave_exec(w) == 0);
    case ISA_S_CBRANCH_EXECNZ:
        return branch(w, in, wave_exec(w) != 0);
    default:
        return wave_fail(w, AMD_WAVE_ILLEGAL, "%s", isa_op_name(in->op));
    }
}

bool
wave_salu(struct wave *w, const struct isa_insn *in)
{
    bool known = false, good = false;

    if (w->group->gen >= ISA_GFX115)
        good = wave_salu_float(w, in, &known);
    if (known)
        return good;
    switch (in->format) {
    case ISA_SOP1:
        good = sop1_64(w, in, &known);
        return known ? good : sop1_32(w, in);
    case ISA_SOP2:
        good = sop2_64(w, in, &known);
        return known ? good : sop2_32(w, in);
    case ISA_SOPC:
        return sopc(w, in);
    case ISA_SOPK:
        return sopk(w, in);
    default:
        return sopp(w, in);
    }
}
