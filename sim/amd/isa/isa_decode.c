/* Instruction words to isa_insn. src: docs/hardware/amd-code.md,
 * "Instruction formats", "Operands". */
#include "sim/amd/isa/isa.h"

#include <assert.h>
#include <string.h>

#include "base/bits.h"

/* Formats of the opcode tables; flat and scratch share GLOBAL's numbers. */
enum table_format {
    T_SOP1,
    T_SOP2,
    T_SOPC,
    T_SOPK,
    T_SOPP,
    T_SMEM,
    T_VOP1,
    T_VOP2,
    T_VOPC,
    T_VOP3,
    T_VOP3P,
    T_DS,
    T_GLOBAL,
    T_MUBUF
};

struct row {
    uint8_t format, a, flags, type;
    uint16_t op;
    uint16_t numbers[ISA_GEN_COUNT]; /* NONE: no such operation */
};

#define NONE UINT16_MAX
#define ISA_ROW(format, op, a, flags, type, ...)                               \
    {T_##format, a, flags, type, ISA_##op, {__VA_ARGS__}},

static const struct row rows[] = {
#include "sim/amd/isa/isa_rows.def"
};

static const char *const op_names[ISA_OP_COUNT] = {
#define ISA_OP(name) [ISA_##name] = #name,
#include "sim/amd/isa/isa_ops.def"
#undef ISA_OP
};

const char *
isa_op_name(uint32_t op)
{
    return op < ISA_OP_COUNT ? op_names[op] : "?";
}

/* The instruction being taken apart. */
struct decoder {
    enum isa_gen gen;
    bool gfx9; /* gfx90a, gfx942 */
    const uint32_t *words;
    uint32_t n_dw; /* available */
    struct isa_insn *out;
    const char *why;
};

static uint32_t
enc_field(const struct decoder *d, unsigned hi, unsigned lo)
{
    uint64_t value = d->words[lo / 32];

    assert(lo <= hi && hi - lo < 32);
    if (hi / 32 != lo / 32)
        value |= (uint64_t)d->words[lo / 32 + 1] << 32;
    return (uint32_t)(value >> lo % 32 & ((1ull << (hi - lo + 1)) - 1));
}

static int32_t
sign_extend(uint32_t value, unsigned n_bits)
{
    assert(n_bits > 0 && n_bits <= 32);
    return (int32_t)(value << (32 - n_bits)) >> (32 - n_bits);
}

static bool
refuse_insn(struct decoder *d, const char *why)
{
    d->why = why;
    return false;
}

static bool
enc_needs(struct decoder *d, uint32_t n_dw)
{
    assert(n_dw <= 3);
    return n_dw <= d->n_dw || refuse_insn(d, "cut off");
}

static const struct row *
find_opcode(struct decoder *d, uint32_t format, uint32_t number)
{
    size_t i;

    for (i = 0; i < ARRAY_LEN(rows); i++) {
        if (rows[i].format == format && rows[i].numbers[d->gen] == number)
            return &rows[i];
    }
    d->why = "unknown opcode";
    return NULL;
}

static bool
take_row(struct decoder *d, uint32_t format, uint32_t number)
{
    const struct row *row = find_opcode(d, format, number);
    struct isa_insn *in = d->out;

    if (!row)
        return false;
    in->op = row->op;
    in->type = row->type;
    if (row->op == ISA_V_CMP || row->op == ISA_V_CMP_CLASS ||
        row->op == ISA_S_CMP) {
        in->cond = row->a;
        in->is_x = row->flags != 0;
    } else {
        in->bytes = row->a;
        in->mem_flags = row->flags;
    }
    return true;
}

/* A scalar or 9-bit source as the rest of the interpreter numbers it. */
static uint32_t
operand(const struct decoder *d, uint32_t code)
{
    if (code == 124)
        return d->gen <= ISA_GFX10 ? ISA_M0 : ISA_NULL;
    if (code == 125 && !d->gfx9)
        return isa_is_gfx10(d->gen) ? ISA_NULL : ISA_M0;
    return code;
}

static void
add_source(struct decoder *d, uint32_t code)
{
    assert(d->out->n_src < 3);
    d->out->src[d->out->n_src++] = operand(d, code);
}

/* Takes the literal that follows, if a source asks for one. */
static bool
take_literal(struct decoder *d)
{
    struct isa_insn *in = d->out;
    uint32_t i;

    assert(d->out->n_dw <= d->n_dw);
    for (i = 0; i < in->n_src; i++) {
        if (in->src[i] != ISA_LITERAL)
            continue;
        if (!enc_needs(d, in->n_dw + 1u))
            return false;
        in->literal = d->words[in->n_dw++];
        return true;
    }
    return true;
}

/* Operations that always have a constant behind them. */
static bool
is_k(uint32_t op)
{
    switch (op) {
    case ISA_V_FMAMK_F32:
    case ISA_V_FMAAK_F32:
    case ISA_V_FMAMK_F16:
    case ISA_V_FMAAK_F16:
    case ISA_V_MADMK_F32:
    case ISA_V_MADAK_F32:
    case ISA_V_MADMK_F16:
    case ISA_V_MADAK_F16:
    case ISA_S_FMAMK_F32:
    case ISA_S_FMAAK_F32:
        return true;
    default:
        return false;
    }
}

static bool
take_constant(struct decoder *d)
{
    if (!enc_needs(d, d->out->n_dw + 1u))
        return false;
    d->out->literal = d->words[d->out->n_dw++];
    return true;
}

static bool
decode_sop(struct decoder *d)
{
    struct isa_insn *in = d->out;
    uint32_t w = d->words[0];

    in->n_dw = 1;
    in->simm = (uint16_t)w;
    in->sdst = operand(d, w >> 16 & 0x7f);
    switch (w >> 23) {
    case 0x17d:
        in->format = ISA_SOP1;
        add_source(d, w & 0xff);
        return take_row(d, T_SOP1, w >> 8 & 0xff) && take_literal(d);
    case 0x17e:
        in->format = ISA_SOPC;
        add_source(d, w & 0xff);
        add_source(d, w >> 8 & 0xff);
        return take_row(d, T_SOPC, w >> 16 & 0x7f) && take_literal(d);
    case 0x17f:
        in->format = ISA_SOPP;
        return take_row(d, T_SOPP, w >> 16 & 0x7f);
    default:
        break;
    }
    if (w >> 28 == 0xb) {
        in->format = ISA_SOPK;
        if (!take_row(d, T_SOPK, w >> 23 & 0x1f))
            return false;
        return in->op != ISA_S_SETREG_IMM32_B32 || take_constant(d);
    }
    in->format = ISA_SOP2;
    add_source(d, w & 0xff);
    add_source(d, w >> 8 & 0xff);
    if (!take_row(d, T_SOP2, w >> 23 & 0x7f))
        return false;
    return is_k(in->op) ? take_constant(d) : take_literal(d);
}

static bool
decode_smem(struct decoder *d)
{
    struct isa_insn *in = d->out;
    bool gfx12 = d->gen == ISA_GFX12;

    in->format = ISA_SMEM;
    in->n_dw = 2;
    if (!enc_needs(d, 2) ||
        !take_row(d, T_SMEM,
                  gfx12 ? enc_field(d, 18, 13) : enc_field(d, 25, 18)))
        return false;
    in->sdst = operand(d, enc_field(d, 12, 6));
    in->src[0] = enc_field(d, 5, 0) * 2;
    in->src[1] = ISA_NO_SOURCE;
    in->offset = gfx12 ? sign_extend(enc_field(d, 55, 32), 24)
                       : sign_extend(enc_field(d, 52, 32), 21);
    if (!d->gfx9) {
        in->src[1] = operand(d, enc_field(d, 63, 57));
        if (in->src[1] == ISA_NULL)
            in->src[1] = ISA_NO_SOURCE;
    } else if (enc_field(d, 14, 14)) {
        in->src[1] = operand(d, enc_field(d, 63, 57));
    }
    if (d->gfx9 && !enc_field(d, 17, 17)) {
        if (in->src[1] == ISA_NO_SOURCE)
            in->src[1] = operand(d, enc_field(d, 38, 32));
        in->offset = 0;
    }
    in->n_src = 2;
    return true;
}

/* What stands in for the first source: DPP or SDWA. */
static bool
take_extra(struct decoder *d)
{
    struct isa_insn *in = d->out;
    uint32_t code = in->src[0];

    if (in->n_src == 0)
        return true;
    in->has_dpp = code == 250;
    in->has_dpp8 = !d->gfx9 && (code == 233 || code == 234);
    in->has_sdwa = d->gen <= ISA_GFX10 && code == 249;
    if (!in->has_dpp && !in->has_dpp8 && !in->has_sdwa)
        return true;
    if (!enc_needs(d, in->n_dw + 1u))
        return false;
    in->extra = d->words[in->n_dw++];
    in->src[0] = ISA_VGPR + (in->extra & 0xff);
    if (in->has_dpp && !in->is_e64) {
        in->neg = (uint8_t)((in->extra >> 20 & 1) | (in->extra >> 22 & 1) << 1);
        in->abs = (uint8_t)((in->extra >> 21 & 1) | (in->extra >> 23 & 1) << 1);
    }
    if (in->has_sdwa) {
        in->neg = (uint8_t)((in->extra >> 20 & 1) | (in->extra >> 28 & 1) << 1);
        in->abs = (uint8_t)((in->extra >> 21 & 1) | (in->extra >> 29 & 1) << 1);
        if (in->format != ISA_VOPC) {
            in->clamp = in->extra >> 13 & 1;
            in->omod = in->extra >> 14 & 3;
        } else if (in->extra >> 15 & 1) {
            in->sdst = operand(d, in->extra >> 8 & 0x7f);
        }
        if (in->extra >> 23 & 1)
            in->src[0] = operand(d, in->extra & 0xff);
        if (in->n_src > 1 && in->extra >> 31)
            in->src[1] -= ISA_VGPR;
    }
    return true;
}

static bool
decode_vop(struct decoder *d)
{
    struct isa_insn *in = d->out;
    uint32_t w = d->words[0];

    in->n_dw = 1;
    in->sdst = ISA_VCC_LO;
    add_source(d, w & 0x1ff);
    in->dst = w >> 17 & 0xff;
    if (w >> 25 == 0x3f) {
        in->format = ISA_VOP1;
        if (!take_row(d, T_VOP1, w >> 9 & 0xff))
            return false;
        in->sdst = operand(d, in->dst & 0x7f); /* v_readfirstlane */
        return take_extra(d) && take_literal(d);
    }
    add_source(d, ISA_VGPR + (w >> 9 & 0xff));
    if (w >> 25 == 0x3e) {
        in->format = ISA_VOPC;
        return take_row(d, T_VOPC, w >> 17 & 0xff) && take_extra(d) &&
               take_literal(d);
    }
    in->format = ISA_VOP2;
    if (!take_row(d, T_VOP2, w >> 25 & 0x3f))
        return false;
    if (is_k(in->op))
        return take_constant(d);
    return take_extra(d) && take_literal(d);
}

static bool
has_sdst(uint32_t op)
{
    switch (op) {
    case ISA_V_ADD_CO_U32:
    case ISA_V_SUB_CO_U32:
    case ISA_V_SUBREV_CO_U32:
    case ISA_V_ADD_CO_CI_U32:
    case ISA_V_SUB_CO_CI_U32:
    case ISA_V_SUBREV_CO_CI_U32:
    case ISA_V_DIV_SCALE_F32:
    case ISA_V_DIV_SCALE_F64:
    case ISA_V_MAD_U64_U32:
    case ISA_V_MAD_I64_I32:
        return true;
    default:
        return false;
    }
}

/* The row of an operation in its long form. */
static bool
take_vop3_row(struct decoder *d, uint32_t number)
{
    uint32_t first1 = d->gfx9 ? 0x140 : 0x180;
    uint32_t end1 = d->gfx9 ? 0x1c0 : 0x200;

    if (number < 0x100)
        return take_row(d, T_VOPC, number);
    if (number < 0x140)
        return take_row(d, T_VOP2, number - 0x100);
    if (number >= first1 && number < end1)
        return take_row(d, T_VOP1, number - first1);
    return take_row(d, T_VOP3, number);
}

static bool
decode_vop3(struct decoder *d)
{
    struct isa_insn *in = d->out;

    in->format = ISA_VOP3;
    in->is_e64 = true;
    in->n_dw = 2;
    if (!enc_needs(d, 2) || !take_vop3_row(d, enc_field(d, 25, 16)))
        return false;
    in->dst = enc_field(d, 7, 0);
    in->sdst = operand(d, in->dst & 0x7f);
    add_source(d, enc_field(d, 40, 32));
    add_source(d, enc_field(d, 49, 41));
    add_source(d, enc_field(d, 58, 50));
    in->omod = (uint8_t)enc_field(d, 60, 59);
    in->neg = (uint8_t)enc_field(d, 63, 61);
    in->clamp = enc_field(d, 15, 15) != 0;
    if (has_sdst(in->op)) {
        in->sdst = operand(d, enc_field(d, 14, 8));
    } else {
        in->abs = (uint8_t)enc_field(d, 10, 8);
        in->opsel = (uint8_t)enc_field(d, 14, 11);
    }
    return take_extra(d) && take_literal(d);
}

static bool
decode_vop3p(struct decoder *d)
{
    struct isa_insn *in = d->out;
    bool mai;

    in->format = ISA_VOP3P;
    in->is_e64 = true;
    in->n_dw = 2;
    if (!enc_needs(d, 2) || !take_row(d, T_VOP3P, enc_field(d, 22, 16)))
        return false;
    in->dst = enc_field(d, 7, 0);
    add_source(d, enc_field(d, 40, 32));
    add_source(d, enc_field(d, 49, 41));
    add_source(d, enc_field(d, 58, 50));
    mai = d->gfx9 && enc_field(d, 22, 16) >= 0x3e;
    if (mai) {
        in->acc_cd = d->gen == ISA_GFX908 || enc_field(d, 15, 15);
        in->extra = enc_field(d, 10, 8) | enc_field(d, 14, 11) << 4 |
                    enc_field(d, 63, 61) << 8;
        if (in->op == ISA_V_ACCVGPR_READ_B32 ||
            in->op == ISA_V_ACCVGPR_WRITE_B32)
            in->acc_cd = in->op == ISA_V_ACCVGPR_WRITE_B32;
        if (enc_field(d, 59, 59) && in->src[0] >= ISA_VGPR &&
            in->op != ISA_V_ACCVGPR_WRITE_B32)
            in->src[0] += ISA_ACC - ISA_VGPR;
        if (enc_field(d, 60, 60) && in->src[1] >= ISA_VGPR)
            in->src[1] += ISA_ACC - ISA_VGPR;
        if (in->acc_cd && in->src[2] >= ISA_VGPR)
            in->src[2] += ISA_ACC - ISA_VGPR;
        return take_literal(d);
    }
    in->neg = (uint8_t)enc_field(d, 63, 61);
    in->neg_hi = (uint8_t)enc_field(d, 10, 8);
    in->opsel = (uint8_t)enc_field(d, 13, 11);
    in->opsel_hi = (uint8_t)(enc_field(d, 60, 59) | enc_field(d, 14, 14) << 2);
    in->clamp = enc_field(d, 15, 15) != 0;
    return take_extra(d) && take_literal(d);
}

/* src: docs/hardware/amd-code.md, "Instruction formats"; LLVM 19's assembler */
#define DUAL_DOT2ACC 0xc /* not of gfx1201 */
static const uint16_t dual_ops[0x13] = {
    [0x0] = ISA_V_FMAC_F32,    [0x1] = ISA_V_FMAAK_F32,
    [0x2] = ISA_V_FMAMK_F32,   [0x3] = ISA_V_MUL_F32,
    [0x4] = ISA_V_ADD_F32,     [0x5] = ISA_V_SUB_F32,
    [0x6] = ISA_V_SUBREV_F32,  [0x8] = ISA_V_MOV_B32,
    [0x9] = ISA_V_CNDMASK_B32, [0xa] = ISA_V_MAX_F32,
    [0xb] = ISA_V_MIN_F32,     [DUAL_DOT2ACC] = ISA_V_DOT2ACC_F32_F16,
    [0x10] = ISA_V_ADD_NC_U32, [0x11] = ISA_V_LSHLREV_B32,
    [0x12] = ISA_V_AND_B32,
};

static bool
decode_vopd(struct decoder *d)
{
    struct isa_insn *in = d->out;
    uint32_t x, y;
    bool literal;

    in->format = ISA_VOPD;
    in->n_dw = 2;
    if (!enc_needs(d, 2))
        return false;
    x = enc_field(d, 25, 22);
    y = enc_field(d, 21, 17);
    if (y >= ARRAY_LEN(dual_ops) || !dual_ops[x] || !dual_ops[y] ||
        (d->gen == ISA_GFX12 && (x == DUAL_DOT2ACC || y == DUAL_DOT2ACC)))
        return refuse_insn(d, "unknown dual opcode");
    in->op = dual_ops[x];
    in->op_y = dual_ops[y];
    in->dst = enc_field(d, 63, 56);
    in->dst_y = enc_field(d, 55, 49) * 2 + (~in->dst & 1);
    in->sdst = ISA_VCC_LO;
    add_source(d, enc_field(d, 8, 0));
    add_source(d, ISA_VGPR + enc_field(d, 16, 9));
    in->src_y[0] = operand(d, enc_field(d, 40, 32));
    in->src_y[1] = ISA_VGPR + enc_field(d, 48, 41);
    literal = in->src[0] == ISA_LITERAL || in->src_y[0] == ISA_LITERAL ||
              is_k(in->op) || is_k(in->op_y);
    if (literal) {
        if (!enc_needs(d, 3))
            return false;
        in->literal = d->words[in->n_dw++];
    }
    return true;
}

static bool
decode_ds(struct decoder *d)
{
    struct isa_insn *in = d->out;
    bool gfx9 = d->gfx9;
    uint32_t file;

    in->format = ISA_DS;
    in->n_dw = 2;
    if (!enc_needs(d, 2) ||
        !take_row(d, T_DS, gfx9 ? enc_field(d, 24, 17) : enc_field(d, 25, 18)))
        return false;
    if (gfx9 ? enc_field(d, 16, 16) : enc_field(d, 17, 17))
        return refuse_insn(d, "global data share");
    file = gfx9 && enc_field(d, 25, 25) ? ISA_ACC : ISA_VGPR;
    in->dst = enc_field(d, 63, 56) + (file == ISA_ACC ? 256 : 0);
    in->src[0] = ISA_VGPR + enc_field(d, 39, 32);
    in->src[1] = file + enc_field(d, 47, 40);
    in->src[2] = file + enc_field(d, 55, 48);
    in->n_src = 3;
    in->offset = (int32_t)enc_field(d, 7, 0);
    in->offset1 = (int32_t)enc_field(d, 15, 8);
    if (!(in->mem_flags & ISA_MEM_TWO))
        in->offset |= in->offset1 << 8;
    return true;
}

/* Who else an access is for. gfx942: sc1 says the other dies of the card, or
 * more; sc0 alone says the group, which has one cache. gfx90a, gfx1030 and
 * gfx1100: glc passes by the vector caches of loads; stores always do, and dlc
 * and slc (nt) are hints of what to keep. gfx1201 has scopes: the unit, a group
 * of units, the card, and all.
 * src: LLVM 19's code for loads and stores of each scope. */
static void
take_scope(struct decoder *d)
{
    struct isa_insn *in = d->out;
    bool loads = in->op == ISA_M_LOAD, fresh = false, past = false;

    if (!loads && in->op != ISA_M_STORE)
        return;
    if (d->gen == ISA_GFX12) {
        fresh = enc_field(d, 51, 50) != 0;
        past = enc_field(d, 51, 50) == 3;
    } else if (d->gen == ISA_GFX942) {
        past = enc_field(d, 25, 25) != 0;
    } else {
        fresh =
            isa_is_gfx11(d->gen) ? enc_field(d, 14, 14) : enc_field(d, 16, 16);
    }
    if (past)
        in->mem_flags |= ISA_MEM_PAST;
    else if (fresh && loads)
        in->mem_flags |= ISA_MEM_FRESH;
}

/* VFLAT, VSCRATCH, VGLOBAL. */
static bool
decode_flat12(struct decoder *d)
{
    struct isa_insn *in = d->out;
    uint32_t scope;

    in->format = ISA_FLAT;
    in->n_dw = 3;
    if (!enc_needs(d, 3) || !take_row(d, T_GLOBAL, enc_field(d, 21, 14)))
        return false;
    in->segment = (uint8_t)enc_field(d, 25, 24); /* as the enum has them */
    in->sve = enc_field(d, 49, 49);
    in->dst = enc_field(d, 39, 32);
    in->src[0] = ISA_VGPR + enc_field(d, 71, 64);
    in->src[1] = ISA_VGPR + enc_field(d, 62, 55);
    in->src[2] = operand(d, enc_field(d, 6, 0));
    if (in->src[2] == ISA_NULL)
        in->src[2] = ISA_NO_SOURCE;
    in->n_src = 3;
    in->offset = sign_extend(enc_field(d, 95, 72), 24);
    scope = enc_field(d, 51, 50);
    if (in->op == ISA_M_CACHE) { /* GL1 is of a few units, L2 the card's */
        static const uint8_t caches[4] = {
            0, ISA_CACHE_INV_VECTOR, ISA_CACHE_INV_VECTOR | ISA_CACHE_INV_GL1,
            0xff};

        in->mem_flags &= caches[scope];
        return true;
    }
    if (in->op != ISA_M_LOAD && in->op != ISA_M_STORE && enc_field(d, 52, 52))
        in->mem_flags |= ISA_MEM_RETURN;
    if (in->segment != ISA_SEG_SCRATCH)
        take_scope(d);
    return true;
}

/* The signed bits of an offset; flat addresses of older chips have none. */
static int32_t
flat_offset(const struct decoder *d)
{
    bool flat = d->out->segment == ISA_SEG_FLAT;

    if (isa_is_gfx10(d->gen))
        return flat ? (int32_t)enc_field(d, 10, 0)
                    : sign_extend(enc_field(d, 11, 0), 12);
    if (d->gfx9 && flat)
        return (int32_t)enc_field(d, 11, 0);
    return sign_extend(enc_field(d, 12, 0), 13);
}

static bool
decode_flat(struct decoder *d)
{
    struct isa_insn *in = d->out;
    bool gfx11 = isa_is_gfx11(d->gen), returns;
    uint32_t file, saddr, none;

    in->format = ISA_FLAT;
    in->n_dw = 2;
    if (!enc_needs(d, 2) || !take_row(d, T_GLOBAL, enc_field(d, 24, 18)))
        return false;
    in->segment =
        (uint8_t)(gfx11 ? enc_field(d, 17, 16) : enc_field(d, 15, 14));
    file = d->gfx9 && enc_field(d, 55, 55) ? ISA_ACC : ISA_VGPR;
    in->dst = enc_field(d, 63, 56) + (file == ISA_ACC ? 256 : 0);
    in->src[0] = ISA_VGPR + enc_field(d, 39, 32);
    in->src[1] = file + enc_field(d, 47, 40);
    in->n_src = 3;
    saddr = enc_field(d, 54, 48);
    none = d->gfx9 ? 0x7f : gfx11 ? 0x7c : 0x7d;
    in->src[2] = saddr == none || in->segment == ISA_SEG_FLAT
                     ? ISA_NO_SOURCE
                     : operand(d, saddr);
    in->sve = gfx11                  ? enc_field(d, 55, 55)
              : d->gen == ISA_GFX942 ? enc_field(d, 13, 13)
                                     : saddr == none;
    if (isa_is_gfx10(d->gen) && saddr == 0x7f)
        in->src[2] = ISA_NO_SOURCE; /* scratch by the offset alone */
    in->offset = flat_offset(d);
    returns = gfx11 ? enc_field(d, 14, 14) : enc_field(d, 16, 16);
    if (in->op != ISA_M_LOAD && in->op != ISA_M_STORE && returns)
        in->mem_flags |= ISA_MEM_RETURN;
    if (in->segment != ISA_SEG_SCRATCH)
        take_scope(d);
    return true;
}

/* Buffers: a descriptor in four scalar registers, and what is added. */
static bool
decode_vbuffer(struct decoder *d)
{
    struct isa_insn *in = d->out;

    in->format = ISA_MUBUF;
    in->n_dw = 3;
    if (!enc_needs(d, 3) || !take_row(d, T_MUBUF, enc_field(d, 21, 14)))
        return false;
    if (enc_field(d, 22, 22))
        return refuse_insn(d, "texture fail enable");
    in->dst = enc_field(d, 39, 32);
    in->src[0] = ISA_VGPR + enc_field(d, 71, 64);
    in->src[1] = ISA_VGPR + in->dst;
    in->src[2] = operand(d, enc_field(d, 6, 0));
    in->n_src = 3;
    in->sdst = enc_field(d, 49, 41);
    in->offset = (int32_t)enc_field(d, 95, 72);
    in->offen = enc_field(d, 62, 62) != 0;
    in->idxen = enc_field(d, 63, 63) != 0;
    if (in->op != ISA_M_LOAD && in->op != ISA_M_STORE && enc_field(d, 52, 52))
        in->mem_flags |= ISA_MEM_RETURN;
    take_scope(d);
    return true;
}

/* What buffer_inv and buffer_wbl2 of gfx942 do depends on the scope: between
 * dies with sc1, within a group (sc0) only where a cache is not the group's
 * alone. */
static bool
decode_mubuf(struct decoder *d)
{
    struct isa_insn *in = d->out;
    bool gfx11 = isa_is_gfx11(d->gen), coherent;
    uint32_t file;

    in->format = ISA_MUBUF;
    in->n_dw = 2;
    if (!enc_needs(d, 2) ||
        !take_row(d, T_MUBUF,
                  d->gfx9 ? enc_field(d, 24, 18) : enc_field(d, 25, 18)))
        return false;
    if (in->op == ISA_M_CACHE) {
        if (d->gen == ISA_GFX942 && in->mem_flags != ISA_CACHE_INV_VECTOR &&
            !enc_field(d, 15, 15))
            in->mem_flags &=
                (uint8_t)(enc_field(d, 14, 14) ? ISA_CACHE_INV_VECTOR : 0);
        return true;
    }
    if (gfx11 ? enc_field(d, 53, 53) : enc_field(d, 16, 16))
        return refuse_insn(d, "texture fail enable, or loads to LDS");
    file = d->gfx9 && enc_field(d, 55, 55) ? ISA_ACC : ISA_VGPR;
    in->dst = enc_field(d, 47, 40) + (file == ISA_ACC ? 256 : 0);
    in->src[0] = ISA_VGPR + enc_field(d, 39, 32);
    in->src[1] = file + enc_field(d, 47, 40);
    in->src[2] = operand(d, enc_field(d, 63, 56));
    in->n_src = 3;
    in->sdst = enc_field(d, 52, 48) * 4;
    in->offset = (int32_t)enc_field(d, 11, 0);
    in->offen = gfx11 ? enc_field(d, 54, 54) : enc_field(d, 12, 12);
    in->idxen = gfx11 ? enc_field(d, 55, 55) : enc_field(d, 13, 13);
    coherent = enc_field(d, 14, 14) != 0;
    if (in->op != ISA_M_LOAD && in->op != ISA_M_STORE)
        in->mem_flags |= coherent ? ISA_MEM_RETURN : 0;
    else if (d->gen == ISA_GFX942)
        in->mem_flags |= enc_field(d, 15, 15) ? ISA_MEM_PAST : 0;
    else if (in->op == ISA_M_LOAD && coherent)
        in->mem_flags |= ISA_MEM_FRESH;
    return true;
}

static bool
decode_long(struct decoder *d)
{
    uint32_t w = d->words[0];
    bool gfx12 = d->gen == ISA_GFX12;

    switch (w >> 26) {
    case 0x30:
        return d->gfx9 ? decode_smem(d) : refuse_insn(d, "no format");
    case 0x31:
        return gfx12 ? decode_vbuffer(d) : refuse_insn(d, "no format");
    case 0x32:
        return d->gen >= ISA_GFX11 ? decode_vopd(d)
                                   : refuse_insn(d, "no format");
    case 0x33:
        return !d->gfx9 && w >> 24 == 0xcc ? decode_vop3p(d)
                                           : refuse_insn(d, "no format");
    case 0x34:
        if (!d->gfx9)
            return refuse_insn(d, "no format");
        return w >> 23 == 0x1a7 ? decode_vop3p(d) : decode_vop3(d);
    case 0x35:
        return d->gfx9 ? refuse_insn(d, "no format") : decode_vop3(d);
    case 0x36:
        return decode_ds(d);
    case 0x37:
        return gfx12 ? refuse_insn(d, "no format") : decode_flat(d);
    case 0x38:
        return gfx12 ? refuse_insn(d, "no format") : decode_mubuf(d);
    case 0x3b:
        return gfx12 && (w >> 24 & 3) < 3 ? decode_flat12(d)
                                          : refuse_insn(d, "no format");
    case 0x3d:
        return d->gfx9 ? refuse_insn(d, "no format") : decode_smem(d);
    default:
        return refuse_insn(d, "no format");
    }
}

bool
isa_decode(enum isa_gen gen, const uint32_t *words, uint32_t n_dw,
           struct isa_insn *out, const char **out_why)
{
    struct decoder d = {.gen = gen,
                        .gfx9 = isa_is_gfx9(gen),
                        .words = words,
                        .n_dw = n_dw,
                        .out = out};
    bool good;

    assert(gen < ISA_GEN_COUNT);
    memset(out, 0, sizeof(*out));
    if (n_dw == 0)
        good = refuse_insn(&d, "cut off");
    else if (words[0] >> 31 == 0)
        good = decode_vop(&d);
    else if (words[0] >> 30 == 2)
        good = decode_sop(&d);
    else
        good = decode_long(&d);
    *out_why = d.why;
    return good;
}
