/* Words of Adreno's shaders to instructions. */
#include <string.h>

#include "base/alloc.h"
#include "base/bits.h"
#include "sim/qcom/isa/shader_internal.h"

/* clang-format off */
const struct shader_row shader_rows[SHADER_OP_COUNT] = {
#define ROW(name, text, layout, gens, mask, match, unused, half)               \
    [SHADER_##name] = {text, SHADER_AS_##layout, gens, mask, match, unused, half},
#include "sim/qcom/isa/shader_rows.def"
#undef ROW
};
/* clang-format on */

static uint32_t
bits_of(uint64_t word, unsigned hi, unsigned lo)
{
    return (uint32_t)(word >> lo & ((2ull << (hi - lo)) - 1));
}

static int32_t
signed_of(uint32_t value, unsigned n_bits)
{
    return (int32_t)(value << (32 - n_bits)) >> (32 - n_bits);
}

bool
shader_type_is_half(uint32_t type)
{
    return type == SHADER_F16 || type == SHADER_U16 || type == SHADER_S16 ||
           type == SHADER_U8;
}

static struct shader_operand
register_of(uint32_t reg, bool is_half)
{
    return (struct shader_operand){
        .kind = reg == SHADER_NO_REG ? SHADER_NO_OPERAND : SHADER_GPR,
        .v = reg,
        .is_half = is_half};
}

static struct shader_operand
relative_of(uint32_t v, bool is_half)
{
    return (struct shader_operand){.kind = v >> 10 & 1 ? SHADER_REL_CONST
                                                       : SHADER_REL_GPR,
                                   .v = (uint32_t)signed_of(v & 0x3ff, 10),
                                   .is_half = is_half};
}

/* Decodes an operand of categories 2 and 4. */
static bool
decode_16(uint32_t v, bool is_half, struct shader_operand *out)
{
    static const float table[] = {0.0f,        0.5f,        1.0f,
                                  2.0f,        2.71828183f, 3.14159265f,
                                  0.31830989f, 0.69314718f, 1.44269504f,
                                  0.30102999f, 3.32192809f, 4.0f};

    switch (v >> 11 & 7) {
    case 0:
        if (v & 0x300)
            return false;
        *out = register_of(v & 0xff, is_half);
        break;
    case 1:
        *out = relative_of(v, is_half);
        break;
    case 2:
        *out = (struct shader_operand){
            .kind = SHADER_CONST, .v = v & 0x7ff, .is_half = is_half};
        break;
    case 4:
        *out = (struct shader_operand){.kind = SHADER_IMM,
                                       .v = (uint32_t)signed_of(v & 0x7ff, 11)};
        break;
    case 5:
        if ((v & 0x3f0) || (v & 15) >= ARRAY_LEN(table) ||
            (v >> 10 & 1) != is_half)
            return false;
        *out = (struct shader_operand){.kind = SHADER_IMM, .is_float = true};
        memcpy(&out->v, &table[v & 15], 4);
        if (is_half)
            out->v = shader_float_to_half(table[v & 15]);
        break;
    default:
        return false;
    }
    out->neg = v >> 14 & 1;
    out->abs = v >> 15 & 1;
    return true;
}

/* Decodes an operand of category 3; the other variant has immediates in place
 * of constants. */
static bool
decode_13(uint32_t v, bool is_half, bool has_imm, struct shader_operand *out)
{
    if (v & 0x1000 && has_imm)
        *out = (struct shader_operand){.kind = SHADER_IMM, .v = v & 0xfff};
    else if (v & 0x1000)
        *out = (struct shader_operand){
            .kind = SHADER_CONST, .v = v & 0x7ff, .is_half = is_half};
    else if (v & 0x800)
        *out = relative_of(v, is_half);
    else if (v & 0x300)
        return false;
    else
        *out = register_of(v & 0xff, is_half);
    return true;
}

static void
decode_flow(uint64_t w, struct shader_insn *in)
{
    in->imm = (int32_t)bits_of(w, 31, 0);
    in->repeat = (uint8_t)bits_of(w, 42, 40);
    in->comp1 = (uint8_t)bits_of(w, 54, 53);
    in->inv1 = bits_of(w, 52, 52);
    in->comp2 = (uint8_t)bits_of(w, 47, 46);
    in->inv2 = bits_of(w, 45, 45);
}

static bool
decode_move(uint64_t w, struct shader_insn *in)
{
    bool is_half;

    in->type = (uint8_t)bits_of(w, 48, 46);
    in->src_type = (uint8_t)bits_of(w, 52, 50);
    in->round = (uint8_t)bits_of(w, 56, 55);
    in->dst = bits_of(w, 39, 32);
    in->dst_half = shader_type_is_half(in->type);
    in->dst_rel = bits_of(w, 49, 49);
    in->repeat = (uint8_t)bits_of(w, 41, 40);
    is_half = shader_type_is_half(in->src_type);
    switch ((int)in->op) {
    case SHADER_MOV_GPR:
        in->src[0] = register_of(bits_of(w, 7, 0), is_half);
        break;
    case SHADER_MOV_RELGPR:
    case SHADER_MOV_RELCONST:
        in->src[0] = relative_of(bits_of(w, 11, 0), is_half);
        break;
    case SHADER_MOV_CONST:
        in->src[0] = (struct shader_operand){
            .kind = SHADER_CONST, .v = bits_of(w, 10, 0), .is_half = is_half};
        break;
    default:
        in->src[0] =
            (struct shader_operand){.kind = SHADER_IMM, .v = bits_of(w, 31, 0)};
    }
    in->src[0].advances = bits_of(w, 43, 43);
    return true;
}

static bool
decode_alu2(uint64_t w, struct shader_insn *in)
{
    bool is_half = !bits_of(w, 52, 52) || shader_rows[in->op].is_half;

    in->dst = bits_of(w, 39, 32);
    in->dst_half = is_half != bits_of(w, 46, 46);
    in->repeat = (uint8_t)bits_of(w, 41, 40);
    in->sat = bits_of(w, 42, 42);
    in->ei = in->cat == 2 && bits_of(w, 47, 47);
    in->cond = (uint8_t)bits_of(w, 50, 48);
    if (!decode_16(bits_of(w, 15, 0), is_half, &in->src[0]))
        return false;
    if (in->layout == SHADER_AS_ALU2 &&
        !decode_16(bits_of(w, 31, 16), is_half, &in->src[1]))
        return false;
    in->src[0].advances = bits_of(w, 43, 43);
    if (in->cat == 2)
        in->src[1].advances = bits_of(w, 51, 51);
    return true;
}

static bool
decode_alu3(uint64_t w, struct shader_insn *in)
{
    bool other = in->layout == SHADER_AS_ALU3B;
    bool is_half = other ? !bits_of(w, 42, 42) : shader_rows[in->op].is_half;

    in->dst = bits_of(w, 39, 32);
    in->dst_half = is_half != bits_of(w, 46, 46);
    in->repeat = (uint8_t)bits_of(w, 41, 40);
    in->sat = !other && bits_of(w, 42, 42);
    if (!decode_13(bits_of(w, 12, 0), is_half, other, &in->src[0]) ||
        !decode_13(bits_of(w, 28, 16), is_half, other, &in->src[2]))
        return false;
    in->src[1] = register_of(bits_of(w, 54, 47), is_half);
    in->src[0].neg = bits_of(w, 14, 14);
    in->src[1].neg = bits_of(w, 30, 30);
    in->src[2].neg = bits_of(w, 31, 31);
    in->src[0].advances = bits_of(w, 43, 43);
    in->src[1].advances = bits_of(w, 15, 15);
    in->src[2].advances = bits_of(w, 29, 29);
    return in->src[1].kind == SHADER_GPR && in->src[1].v < SHADER_FULLS;
}

/* Address in src[0], index in src[1], data in src[2]. */
static bool
decode_memory(enum shader_gen gen, uint64_t w, struct shader_insn *in)
{
    bool is_half;

    in->type = (uint8_t)bits_of(w, 51, 49);
    is_half = shader_type_is_half(in->type);
    in->dst_half = is_half;
    in->dst = SHADER_NO_REG;
    switch ((int)in->layout) {
    case SHADER_AS_LDG:
    case SHADER_AS_LDL:
        in->n = (uint8_t)(in->layout == SHADER_AS_LDG ? bits_of(w, 26, 24)
                                                      : bits_of(w, 31, 24));
        in->src[0] = register_of(bits_of(w, 21, 14), false);
        in->imm = signed_of(bits_of(w, 13, 1), 13);
        in->dst = bits_of(w, 39, 32);
        break;
    case SHADER_AS_STG:
    case SHADER_AS_STL:
        in->n = (uint8_t)(in->layout == SHADER_AS_STG ? bits_of(w, 26, 24)
                                                      : bits_of(w, 31, 24));
        in->src[0] = register_of(bits_of(w, 48, 41), false);
        in->src[2] = register_of(bits_of(w, 8, 1), is_half);
        in->imm = signed_of(bits_of(w, 13, 9) << 8 | bits_of(w, 39, 32), 13);
        break;
    case SHADER_AS_LDG_A6:
    case SHADER_AS_STG_A6:
        in->n = (uint8_t)bits_of(w, 26, 24);
        in->shift = (uint8_t)bits_of(w, 13, 12);
        in->imm = (int32_t)bits_of(w, 10, 9);
        break;
    case SHADER_AS_LDG_A7:
    case SHADER_AS_STG_A7:
        in->n = (uint8_t)bits_of(w, 26, 24);
        in->base_is_const = bits_of(w, 13, 13);
        in->imm =
            (int32_t)(in->layout == SHADER_AS_LDG_A7 ? bits_of(w, 48, 41)
                                                     : bits_of(w, 21, 14));
        break;
    case SHADER_AS_ATOMIC_AT:
        in->n = (uint8_t)(bits_of(w, 13, 12) + 1);
        in->dims = (uint8_t)(bits_of(w, 10, 9) + 1);
        in->typed = bits_of(w, 11, 11);
        in->src[0] = register_of(bits_of(w, 21, 14), false);
        in->src[2] = register_of(bits_of(w, 31, 24), is_half);
        in->dst = bits_of(w, 39, 32);
        if (bits_of(w, 23, 22))
            return false;
        break;
    case SHADER_AS_BY_SLOT:
        in->n = (uint8_t)(bits_of(w, 13, 12) + 1);
        in->dims = (uint8_t)(bits_of(w, 10, 9) + 1);
        in->typed = bits_of(w, 11, 11);
        in->slot_mode = (uint8_t)bits_of(w, 7, 6);
        in->slot = bits_of(w, 48, 41);
        in->src[0] = register_of(bits_of(w, 31, 24), false);
        in->dst = bits_of(w, 39, 32);
        if (bits_of(w, 8, 8) || bits_of(w, 3, 1))
            return false;
        if (in->op == SHADER_LDIB_B || in->op == SHADER_STIB_B)
            in->has_offset = bits_of(w, 23, 23);
        in->src[2] = register_of(in->dst, is_half);
        if (in->op == SHADER_STIB_B)
            in->dst = SHADER_NO_REG;
        else if (in->op == SHADER_LDIB_B)
            in->src[2].kind = SHADER_NO_OPERAND;
        break;
    case SHADER_AS_LDC:
        in->type = SHADER_U32;
        in->dst_half = false;
        in->n = (uint8_t)(bits_of(w, 13, 12) + 1);
        in->comp1 = (uint8_t)bits_of(w, 10, 9);
        in->slot_mode = (uint8_t)bits_of(w, 7, 6);
        in->slot = bits_of(w, 48, 41);
        in->src[0] = register_of(bits_of(w, 31, 24), false);
        if (bits_of(w, 23, 23))
            in->src[0] = (struct shader_operand){.kind = SHADER_IMM,
                                                 .v = bits_of(w, 31, 24)};
        in->dst = bits_of(w, 39, 32);
        /* to a shared register, and without a number of its own */
        if (bits_of(w, 11, 11) || bits_of(w, 8, 8) || bits_of(w, 3, 1) ||
            in->slot_mode == 3)
            return false;
        break;
    case SHADER_AS_INFO:
        in->n = 1;
        in->dst = bits_of(w, 39, 32);
        in->slot = bits_of(w, 48, 41);
        break;
    }
    if (in->op == SHADER_LDG_A_A6 || in->op == SHADER_LDG_A_A7) {
        in->src[0] = register_of(bits_of(w, 21, 14), false);
        in->src[1] = register_of(bits_of(w, 8, 1), false);
        in->dst = bits_of(w, 39, 32);
    } else if (in->op == SHADER_STG_A_A6 || in->op == SHADER_STG_A_A7) {
        in->src[0] = register_of(bits_of(w, 48, 41), false);
        in->src[1] = register_of(bits_of(w, 39, 32), false);
        in->src[2] = register_of(bits_of(w, 8, 1), is_half);
    }
    if (in->base_is_const)
        in->src[0].kind = SHADER_CONST;
    (void)gen;
    return in->n >= 1 && in->n <= 4;
}

bool
shader_decode(enum shader_gen gen, uint64_t word, struct shader_insn *in)
{
    const struct shader_row *row = NULL;
    unsigned op;

    memset(in, 0, sizeof(*in));
    for (op = 0; op < SHADER_OP_COUNT; op++) {
        row = &shader_rows[op];
        if ((row->gens & gen) && (word & row->mask) == row->match)
            break;
    }
    if (op == SHADER_OP_COUNT || (word & row->unused))
        return false;
    in->word = word;
    in->op = (enum shader_op)op;
    in->layout = row->layout;
    in->cat = (uint8_t)(word >> 61);
    in->sy = bits_of(word, 60, 60);
    in->jp = bits_of(word, 59, 59);
    in->ss = in->cat != 5 && in->cat != 6 && bits_of(word, 44, 44);
    in->dst = SHADER_NO_REG;
    switch ((int)in->layout) {
    case SHADER_AS_FLOW:
        decode_flow(word, in);
        break;
    case SHADER_AS_MOVE:
        if (!decode_move(word, in))
            return false;
        break;
    case SHADER_AS_ALU1:
    case SHADER_AS_ALU2:
    case SHADER_AS_SFU:
        if (!decode_alu2(word, in))
            return false;
        break;
    case SHADER_AS_ALU3:
    case SHADER_AS_ALU3B:
        if (!decode_alu3(word, in))
            return false;
        break;
    case SHADER_AS_SYNC:
        in->mode = (uint8_t)bits_of(word, 54, 51); /* g, l, r, w */
        break;
    case SHADER_AS_SWIZZLE:
    case SHADER_AS_MOVMSK:
    case SHADER_AS_OTHER:
        break;
    case SHADER_AS_LDG:
    case SHADER_AS_LDG_A6:
    case SHADER_AS_LDG_A7:
    case SHADER_AS_STG:
    case SHADER_AS_STG_A6:
    case SHADER_AS_STG_A7:
    case SHADER_AS_LDL:
    case SHADER_AS_STL:
    case SHADER_AS_ATOMIC_AT:
    case SHADER_AS_BY_SLOT:
    case SHADER_AS_LDC:
    case SHADER_AS_INFO:
        if (!decode_memory(gen, word, in))
            return false;
        break;
    }
    /* what says which sources advance, says how long to wait where nothing is
     * repeated */
    if ((in->cat == 2 || in->cat == 3) && in->repeat == 0) {
        in->nops =
            (uint8_t)(in->src[0].advances + 2 * (in->src[1].advances ? 1 : 0));
        in->src[0].advances = in->src[1].advances = false;
    }
    shader_list_touches(in);
    return true;
}

bell_status
shader_code_create(enum shader_gen gen, const uint64_t *words, uint32_t n,
                   struct shader_code **out_code)
{
    struct shader_code *code =
        host_calloc(1, sizeof(*code) + (size_t)n * sizeof(code->insns[0]));
    uint32_t i;

    if (code)
        code->words = host_alloc((size_t)n * 8);
    if (!code || !code->words) {
        shader_code_destroy(code);
        return bell_fail(BELL_E_NO_MEMORY, "out of memory for %u instructions",
                         n);
    }
    memcpy(code->words, words, (size_t)n * 8);
    code->gen = gen;
    code->n = n;
    for (i = 0; i < n; i++) {
        if (!shader_decode(gen, words[i], &code->insns[i])) {
            shader_code_destroy(code);
            return bell_fail(
                BELL_E_INVALID,
                "word %u of the code is not an instruction: %016llx", i,
                (unsigned long long)words[i]);
        }
    }
    *out_code = code;
    return BELL_OK;
}

void
shader_code_destroy(struct shader_code *code)
{
    if (code)
        host_free(code->words);
    host_free(code);
}

bool
shader_code_is(const struct shader_code *code, const uint64_t *words,
               uint32_t n)
{
    return code->n == n && memcmp(code->words, words, (size_t)n * 8) == 0;
}
