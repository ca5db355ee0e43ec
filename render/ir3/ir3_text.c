/* Instructions as text, and from it.
 *
 * Flags stand first: (sy)(ss)(jp)(eq)(ul)(sat)(rptN)(nopN). Then the row's
 * text, in which %x stands for what the directive x below prints and reads. A
 * register that is half of one is "hr1.x".
 */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/bits.h"
#include "render/ir3/ir3_internal.h"
#include "render/ir3/ir3_token.h"

static const char *const type_names[] = {"f16", "f32", "u16", "u32",
                                         "s16", "s32", "u8",  "u8_32"};
static const char *const cond_names[] = {"lt", "le", "gt", "ge", "eq", "ne"};
static const char *const round_names[] = {"", "(even)", "(pos_infinity)",
                                          "(neg_infinity)"};
static const char *const mode_names[] = {"imm", "uniform", "nonuniform"};
static const char *const shuffle_names[] = {NULL, "xor", "up",  "down",
                                            NULL, NULL,  "rup", "rdown"};
static const char *const scope_names[] = {"tex", "rt", "mem", "mem.rt"};
static const char *const sign_names[] = {"unsigned", "mixed"};
static const char *const pack_names[] = {"low", "high"};
static const char *const sleep_names[] = {"s", "l"};
static const char *const cache_names[] = {"shr", "all"};
/* What floats of 4 bits stand for. */
static const char *const float_names[] = {
    "0.0",  "0.5",       "1.0",     "2.0",        "e",        "pi",
    "1/pi", "1/log2(e)", "log2(e)", "1/log2(10)", "log2(10)", "4.0"};

/* Forms of an operand of categories 2 and 4, in bits 13:11. */
enum form16 {
    FORM_GPR,
    FORM_RELATIVE,
    FORM_CONST, /* and 3 */
    FORM_INT = 4,
    FORM_FLOAT,
};
#define IS_REL_CONST (1u << 10) /* of a relative one */
#define IS_LAST      (1u << 10) /* of a register */
#define IS_HALF_IMM  (1u << 10) /* of a float */

/* Sources of one instruction are equally wide. */
static bool
note_src(struct ir3_in *in, bool is_half)
{
    if (in->has_src_half && in->src_half != is_half)
        return false;
    in->has_src_half = true;
    in->src_half = is_half;
    return true;
}

static bool
eat_sign(struct ir3_in *in, bool *out_abs, bool *out_neg)
{
    bool is_both = ir3_eat(in, "(absneg)");

    *out_neg = is_both || ir3_eat(in, "(neg)");
    *out_abs = is_both || ir3_eat(in, "(abs)");
    return true;
}

/* The mark that a source advances, or what (nop) has of it. */
static enum ir3_field
mark_of(enum ir3_field src)
{
    return src == IR3_F_SRC1   ? IR3_F_SRC1_R
           : src == IR3_F_SRC2 ? IR3_F_SRC2_R
                               : IR3_F_SRC3_R;
}

/* ---- operands of categories 2 and 4: 16 bits ---- */

static bool
form16_is_known(uint32_t v, bool is_half)
{
    switch (v >> 11 & 7) {
    case FORM_GPR:
        return (v & 0x300) == 0;
    case FORM_RELATIVE:
    case FORM_INT:
        return true;
    case FORM_CONST:
        return true;
    case FORM_FLOAT:
        return (v & 0x3f0) == 0 && !(v & IS_HALF_IMM) == !is_half &&
               (v & 15) < ARRAY_LEN(float_names);
    default:
        return false;
    }
}

static void
print_src16(struct ir3_out *o, const struct ir3_instr *in)
{
    bool is_half = ir3_src_is_half(in), advances = in->f[mark_of(o->field)];
    uint32_t v = in->f[o->field];

    /* where nothing repeats the mark is (nop)'s, if the opcode has that */
    if (advances && (in->f[IR3_F_REPEAT] || !ir3_op_has(in->op, IR3_F_SRC2_R)))
        ir3_put(o, "(r)");
    ir3_put_sign(o, v >> 15 & 1, v >> 14 & 1);
    switch (v >> 11 & 7) {
    case FORM_GPR:
        ir3_put(o, "%s", v & IS_LAST ? "(last)" : "");
        ir3_put_reg(o, v & 0xff, is_half);
        break;
    case FORM_RELATIVE:
        ir3_put_relative(o, v & IS_REL_CONST ? 'c' : 'r',
                         ir3_sign_extend(v & 0x3ff, 10), is_half);
        break;
    case FORM_INT:
        ir3_put(o, is_half ? "h(%d)" : "%d", ir3_sign_extend(v & 0x7ff, 11));
        break;
    case FORM_FLOAT:
        ir3_put(o, "%s(%s)", v & IS_HALF_IMM ? "h" : "", float_names[v & 15]);
        break;
    default:
        ir3_put_const(o, v & 0x7ff, is_half);
    }
}

/* "(2.0)" or "h(5)", after its h. */
static bool
eat_imm16(struct ir3_in *in, bool is_half, uint32_t *out)
{
    const char *start = in->p;
    uint32_t value;
    int64_t number;

    if (!ir3_eat(in, "("))
        return false;
    if (is_half && ir3_eat_int(in, -1024, 1023, &number) && ir3_eat(in, ")")) {
        *out = FORM_INT << 11 | ((uint32_t)number & 0x7ff);
        return true;
    }
    in->p = start + 1;
    if (!ir3_eat_name(in, float_names, ARRAY_LEN(float_names), &value))
        return false;
    *out = FORM_FLOAT << 11 | (is_half ? IS_HALF_IMM : 0) | value;
    return ir3_eat(in, ")");
}

static bool
parse_src16(struct ir3_in *in)
{
    enum ir3_field field = in->field;
    bool is_abs, is_neg, is_half, is_last;
    uint32_t v = 0, id;
    int64_t number;

    in->instr->f[mark_of(field)] |= ir3_eat(in, "(r)");
    eat_sign(in, &is_abs, &is_neg);
    is_last = ir3_eat(in, "(last)");
    if (!is_last && ir3_eat_int(in, -1024, 1023, &number)) {
        v = FORM_INT << 11 | ((uint32_t)number & 0x7ff);
        if (!note_src(in, false))
            return false;
    } else {
        const char *start = in->p;
        is_half = ir3_eat(in, "h");
        if (eat_imm16(in, is_half, &v)) {
            ;
        } else if (ir3_eat_file(in, 'c', 2047, &id)) {
            v = FORM_CONST << 11 | id;
        } else if (ir3_eat_relative(in, 'r', 10, &id)) {
            v = FORM_RELATIVE << 11 | id;
        } else if (ir3_eat_relative(in, 'c', 10, &id)) {
            v = FORM_RELATIVE << 11 | IS_REL_CONST | id;
        } else {
            in->p = start;
            if (!ir3_eat_reg(in, &id, &is_half))
                return false;
            v = id | (is_last ? IS_LAST : 0);
        }
        if (!note_src(in, is_half))
            return false;
    }
    in->instr->f[field] = v | (uint32_t)is_abs << 15 | (uint32_t)is_neg << 14;
    return true;
}

/* ---- operands of category 3: 13 bits, the second one a register's 8 ---- */

#define IMM13 (1u << 12) /* of shrm and its like; of others a constant */

static bool
has_imm13(enum ir3_op op)
{
    return ir3_rows[op].match >> 13 & 1;
}

static bool
form13_is_known(enum ir3_op op, uint32_t v)
{
    if (v & IMM13)
        return has_imm13(op) || !(v & 0x800);
    return (v & 0x800) || (v & 0x300) == 0;
}

static void
print_src13(struct ir3_out *o, const struct ir3_instr *in)
{
    bool is_half = ir3_src_is_half(in), is_first = o->field == IR3_F_SRC1;
    uint32_t v = in->f[o->field];

    if (in->f[mark_of(o->field)] && (in->f[IR3_F_REPEAT] || !is_first))
        ir3_put(o, "(r)");
    ir3_put_sign(o, false, in->f[is_first ? IR3_F_SRC1_NEG : IR3_F_SRC3_NEG]);
    if ((v & IMM13) && has_imm13(in->op)) {
        ir3_put(o, "%u", v & 0xfff);
    } else if (v & IMM13) {
        ir3_put_const(o, v & 0x7ff, is_half);
    } else if (v & 0x800) {
        ir3_put_relative(o, v & IS_REL_CONST ? 'c' : 'r',
                         ir3_sign_extend(v & 0x3ff, 10), is_half);
    } else {
        ir3_put(o, "%s", v & IS_LAST ? "(last)" : "");
        ir3_put_reg(o, v & 0xff, is_half);
    }
}

static bool
parse_src13(struct ir3_in *in)
{
    enum ir3_field field = in->field;
    enum ir3_field neg = field == IR3_F_SRC1 ? IR3_F_SRC1_NEG : IR3_F_SRC3_NEG;
    bool is_half, is_last;
    uint32_t v, id;
    int64_t number;
    const char *start;

    in->instr->f[mark_of(field)] |= ir3_eat(in, "(r)");
    in->instr->f[neg] = ir3_eat(in, "(neg)");
    is_last = ir3_eat(in, "(last)");
    if (has_imm13(in->instr->op) && ir3_eat_int(in, 0, 4095, &number)) {
        in->instr->f[field] = IMM13 | (uint32_t)number;
        return true;
    }
    start = in->p;
    is_half = ir3_eat(in, "h");
    if (ir3_eat_file(in, 'c', 2047, &id)) {
        if (has_imm13(in->instr->op))
            return false;
        v = IMM13 | id;
    } else if (ir3_eat_relative(in, 'r', 10, &id)) {
        v = 0x800 | id;
    } else if (ir3_eat_relative(in, 'c', 10, &id)) {
        v = 0x800 | IS_REL_CONST | id;
    } else {
        in->p = start;
        if (!ir3_eat_reg(in, &id, &is_half))
            return false;
        v = id | (is_last ? IS_LAST : 0);
    }
    in->instr->f[field] = v;
    return note_src(in, is_half);
}

/* ---- directives ---- */

static void
print_mov(struct ir3_out *o, const struct ir3_instr *in)
{
    uint32_t from = in->f[IR3_F_SRC_TYPE], to = in->f[IR3_F_DST_TYPE];

    if (in->f[IR3_F_DST] == IR3_REG_A0 && !in->f[IR3_F_DST_REL] &&
        from == IR3_TYPE_S16 && to == IR3_TYPE_S16)
        ir3_put(o, "mova");
    else if (in->f[IR3_F_DST] == IR3_REG_A1 && !in->f[IR3_F_DST_REL] &&
             from == IR3_TYPE_U16 && to == IR3_TYPE_U16)
        ir3_put(o, "mova1");
    else
        ir3_put(o, "%s.%s%s", from == to ? "mov" : "cov", type_names[from],
                type_names[to]);
}

static bool
eat_types(struct ir3_in *in)
{
    return ir3_eat_name(in, type_names, ARRAY_LEN(type_names),
                        &in->instr->f[IR3_F_SRC_TYPE]) &&
           ir3_eat_name(in, type_names, ARRAY_LEN(type_names),
                        &in->instr->f[IR3_F_DST_TYPE]);
}

static bool
parse_mov(struct ir3_in *in)
{
    uint32_t *f = in->instr->f;

    if (ir3_eat(in, "mova1")) {
        f[IR3_F_SRC_TYPE] = f[IR3_F_DST_TYPE] = IR3_TYPE_U16;
        return true;
    }
    if (ir3_eat(in, "mova")) {
        f[IR3_F_SRC_TYPE] = f[IR3_F_DST_TYPE] = IR3_TYPE_S16;
        return true;
    }
    if (ir3_eat(in, "mov."))
        return eat_types(in) && f[IR3_F_SRC_TYPE] == f[IR3_F_DST_TYPE];
    return ir3_eat(in, "cov.") && eat_types(in) &&
           f[IR3_F_SRC_TYPE] != f[IR3_F_DST_TYPE];
}

static void
print_mov_dst(struct ir3_out *o, const struct ir3_instr *in)
{
    bool is_half = ir3_dst_is_half(in);
    uint32_t dst = in->f[IR3_F_DST];

    ir3_put(o, "%s", round_names[in->f[IR3_F_ROUND]]);
    if (in->f[IR3_F_DST_REL])
        ir3_put_relative(o, 'r', ir3_sign_extend(dst, 8), is_half);
    else
        ir3_put_reg(o, dst,
                    is_half && (dst < IR3_REG_A0 || dst >= IR3_REG_NONE));
}

static bool
parse_mov_dst(struct ir3_in *in)
{
    uint32_t *f = in->instr->f, round = 0, id;
    const char *start;
    bool is_half;

    if (ir3_eat_name(in, round_names, ARRAY_LEN(round_names), &round) &&
        !ir3_op_has(in->instr->op, IR3_F_ROUND))
        return false;
    f[IR3_F_ROUND] = round;
    start = in->p;
    is_half = ir3_eat(in, "h");
    if (ir3_eat_relative(in, 'r', 8, &id)) {
        f[IR3_F_DST] = id;
        f[IR3_F_DST_REL] = 1;
        return ir3_op_has(in->instr->op, IR3_F_DST_REL);
    }
    in->p = start;
    if (!ir3_eat_reg(in, &f[IR3_F_DST], &is_half))
        return false;
    return ir3_op_has(in->instr->op, IR3_F_DST_TYPE) == false ||
           f[IR3_F_DST] >= IR3_REG_A0 || is_half == ir3_dst_is_half(in->instr);
}

static enum uop_dtype
float_dtype(const struct ir3_instr *in)
{
    return in->f[IR3_F_SRC_TYPE] == IR3_TYPE_F16 ? UOP_F16 : UOP_F32;
}

static void
print_mov_imm(struct ir3_out *o, const struct ir3_instr *in)
{
    uint32_t v = in->f[IR3_F_SRC1];

    switch ((enum ir3_type)in->f[IR3_F_SRC_TYPE]) {
    case IR3_TYPE_F16:
        if (v > 0xffff) { /* more than halves hold: bits as they are */
            ir3_put(o, "0x%x", v);
            break;
        }
        ir3_put(o, "h");
        ir3_put_float(o, v, UOP_F16);
        break;
    case IR3_TYPE_F32:
        ir3_put_float(o, v, UOP_F32);
        break;
    case IR3_TYPE_S32:
        ir3_put(o, "%d", (int32_t)v);
        break;
    case IR3_TYPE_S16:
        if (v <= 0xffff) {
            ir3_put(o, "%d", ir3_sign_extend(v, 16));
            break;
        }
        ir3_put(o, "0x%x", v);
        break;
    case IR3_TYPE_U16:
    case IR3_TYPE_U32:
    case IR3_TYPE_U8:
    case IR3_TYPE_U8_32:
        ir3_put(o, v > 0xffff ? "0x%x" : "%u", v);
    }
}

static bool
parse_mov_imm(struct ir3_in *in)
{
    enum ir3_type type = (enum ir3_type)in->instr->f[IR3_F_SRC_TYPE];
    bool is_hex = strncmp(in->p, "0x", 2) == 0;
    uint32_t *v = &in->instr->f[IR3_F_SRC1];
    int64_t value;

    if (!is_hex && (type == IR3_TYPE_F16 || type == IR3_TYPE_F32))
        return (type == IR3_TYPE_F32 || ir3_eat(in, "h")) &&
               ir3_eat_float(in, float_dtype(in->instr), v);
    if (!ir3_eat_int(in, INT32_MIN, UINT32_MAX, &value))
        return false;
    *v = (uint32_t)value;
    if (type == IR3_TYPE_S16 && !is_hex)
        *v &= 0xffff;
    return true;
}

static void
print_mov_gpr(struct ir3_out *o, const struct ir3_instr *in)
{
    ir3_put(o, "%s%s", in->f[IR3_F_SRC1_R] ? "(r)" : "",
            in->f[IR3_F_LAST] ? "(last)" : "");
    ir3_put_reg(o, in->f[IR3_F_SRC1], ir3_src_is_half(in));
}

static bool
parse_mov_gpr(struct ir3_in *in)
{
    in->instr->f[IR3_F_SRC1_R] = ir3_eat(in, "(r)");
    in->instr->f[IR3_F_LAST] = ir3_eat(in, "(last)");
    return ir3_eat_wide(in, IR3_F_SRC1, ir3_src_is_half(in->instr));
}

static void
print_mov_rel(struct ir3_out *o, const struct ir3_instr *in)
{
    ir3_put(o, "%s", in->f[IR3_F_SRC1_R] ? "(r)" : "");
    ir3_put_relative(o, in->op == IR3_MOV_RELCONST ? 'c' : 'r',
                     ir3_sign_extend(in->f[IR3_F_SRC1], 10),
                     ir3_src_is_half(in));
}

static bool
parse_mov_rel(struct ir3_in *in)
{
    char file = in->instr->op == IR3_MOV_RELCONST ? 'c' : 'r';

    in->instr->f[IR3_F_SRC1_R] = ir3_eat(in, "(r)");
    return ir3_eat(in, "h") == ir3_src_is_half(in->instr) &&
           ir3_eat_relative(in, file, 10, &in->instr->f[IR3_F_SRC1]);
}

static void
print_alu_dst(struct ir3_out *o, const struct ir3_instr *in)
{
    ir3_put(o, "%s", in->f[IR3_F_EI] ? "(ei)" : "");
    ir3_put_reg(o, in->f[IR3_F_DST], ir3_dst_is_half(in));
}

static bool
parse_alu_dst(struct ir3_in *in)
{
    in->instr->f[IR3_F_EI] = ir3_eat(in, "(ei)");
    in->has_dst_half = true;
    return ir3_eat_reg(in, &in->instr->f[IR3_F_DST], &in->dst_half);
}

static void
print_predicate(struct ir3_out *o, const struct ir3_instr *in)
{
    ir3_put(o, "%sp0.%c",
            in->f[o->field == IR3_F_COMP1 ? IR3_F_INV1 : IR3_F_INV2] ? "!" : "",
            "xyzw"[in->f[o->field]]);
}

static bool
parse_predicate(struct ir3_in *in)
{
    uint32_t *f = in->instr->f;

    f[in->field == IR3_F_COMP1 ? IR3_F_INV1 : IR3_F_INV2] = ir3_eat(in, "!");
    return ir3_eat(in, "p0.") && ir3_eat_component(in, &f[in->field]);
}

static void
print_mask(struct ir3_out *o, const struct ir3_instr *in)
{
    unsigned i;

    ir3_put(o, "(%s)(", type_names[in->f[IR3_F_TYPE]]);
    for (i = 0; i < 4; i++) {
        if (in->f[IR3_F_WRMASK] >> i & 1)
            ir3_put(o, "%c", "xyzw"[i]);
    }
    ir3_put(o, ")");
}

static bool
parse_mask(struct ir3_in *in)
{
    uint32_t component;

    if (!ir3_eat(in, "(") ||
        !ir3_eat_name(in, type_names, ARRAY_LEN(type_names),
                      &in->instr->f[IR3_F_TYPE]) ||
        !ir3_eat(in, ")("))
        return false;
    while (ir3_eat_component(in, &component))
        in->instr->f[IR3_F_WRMASK] |= 1u << component;
    return ir3_eat(in, ")");
}

/* Descriptors that a register names; its number is where TEX and SAMP are. */
static void
print_texture_flags(struct ir3_out *o, const struct ir3_instr *in)
{
    if (ir3_op_has(in->op, IR3_F_NOT_1D) && !in->f[IR3_F_NOT_1D])
        ir3_put(o, ".1d");
    if (in->f[IR3_F_S2EN])
        ir3_put(o, in->f[IR3_F_TEX] >> 4 ? ".s2en.mode%u" : ".s2en.uniform",
                in->f[IR3_F_TEX] >> 4);
}

static bool
parse_texture_flags(struct ir3_in *in)
{
    uint32_t *f = in->instr->f;
    int64_t mode = 0;

    if (ir3_op_has(in->instr->op, IR3_F_NOT_1D))
        f[IR3_F_NOT_1D] = !ir3_eat(in, ".1d");
    if (ir3_eat(in, ".s2en.mode")) {
        if (!ir3_eat_int(in, 1, 7, &mode))
            return false;
        f[IR3_F_S2EN] = 1;
    } else if (ir3_eat(in, ".s2en.uniform")) {
        f[IR3_F_S2EN] = 1;
    }
    f[IR3_F_TEX] = (uint32_t)mode << 4;
    return true;
}

static void
print_textures(struct ir3_out *o, const struct ir3_instr *in)
{
    uint32_t tex = in->f[IR3_F_TEX], samp = in->f[IR3_F_SAMP];

    if (in->f[IR3_F_S2EN])
        ir3_put_reg(o, (tex & 15) << 4 | samp, true);
    else
        ir3_put(o, "s#%u, t#%u", samp, tex);
}

static bool
parse_textures(struct ir3_in *in)
{
    uint32_t *f = in->instr->f, id;
    bool is_half;

    if (!f[IR3_F_S2EN])
        return ir3_eat(in, "s#") && ir3_eat_field(in, IR3_F_SAMP, 15) &&
               ir3_eat(in, ", t#") && ir3_eat_field(in, IR3_F_TEX, 127);
    if (!ir3_eat_reg(in, &id, &is_half) || !is_half)
        return false;
    f[IR3_F_SAMP] = id & 15;
    f[IR3_F_TEX] |= id >> 4;
    return true;
}

/* A distance in bytes, of 13 bits. */
static void
print_offset(struct ir3_out *o, const struct ir3_instr *in)
{
    int32_t offset = ir3_sign_extend(in->f[IR3_F_OFF], 13);

    if (offset)
        ir3_put(o, "%+d", offset);
}

static bool
parse_offset(struct ir3_in *in)
{
    int64_t offset = 0;

    if (*in->p == '-' || ir3_eat(in, "+")) {
        if (!ir3_eat_int(in, -4096, 4095, &offset))
            return false;
    }
    in->instr->f[IR3_F_OFF] = (uint32_t)offset & 0x1fff;
    return true;
}

/* Beside an address of a6xx: "(r1.w+1)<<2", or "r1.w<<5+2<<2". */
static void
print_index(struct ir3_out *o, const struct ir3_instr *in)
{
    uint32_t shift = in->f[IR3_F_SHIFT], off = in->f[IR3_F_OFF];

    ir3_put(o, shift ? "" : "(");
    ir3_put_reg(o, in->f[IR3_F_SRC2], false);
    if (shift)
        ir3_put(o, "<<%u", 2 + shift);
    if (off)
        ir3_put(o, shift ? "+%u<<2" : "+%u", off);
    ir3_put(o, shift ? "" : ")<<2");
}

static bool
parse_index(struct ir3_in *in)
{
    bool is_sum = ir3_eat(in, "(");
    int64_t shift;

    if (!ir3_eat_wide(in, IR3_F_SRC2, false))
        return false;
    if (!is_sum) {
        if (!ir3_eat(in, "<<") || !ir3_eat_int(in, 3, 5, &shift))
            return false;
        in->instr->f[IR3_F_SHIFT] = (uint32_t)shift - 2;
    }
    if (ir3_eat(in, "+") &&
        (!ir3_eat_field(in, IR3_F_OFF, 3) || (!is_sum && !ir3_eat(in, "<<2"))))
        return false;
    return !is_sum || ir3_eat(in, ")<<2");
}

/* "c[16]", "c[a1.x+136]" */
static void
print_const_dst(struct ir3_out *o, const struct ir3_instr *in)
{
    uint32_t dst = in->f[IR3_F_DST] & 0xff;

    if (!(in->f[IR3_F_DST] >> 8))
        ir3_put(o, "c[%u]", dst);
    else if (dst)
        ir3_put(o, "c[a1.x+%u]", dst);
    else
        ir3_put(o, "c[a1.x]");
}

static bool
parse_const_dst(struct ir3_in *in)
{
    uint32_t *dst = &in->instr->f[IR3_F_DST];
    int64_t value = 0;

    if (!ir3_eat(in, "c["))
        return false;
    if (ir3_eat(in, "a1.x")) {
        if (ir3_eat(in, "+") && !ir3_eat_int(in, 0, 255, &value))
            return false;
        *dst = 1u << 8 | (uint32_t)value;
    } else if (!ir3_eat_field(in, IR3_F_DST, 255)) {
        return false;
    }
    return ir3_eat(in, "]");
}

/* ".untyped.1d.u32.1" */
static void
print_shape(struct ir3_out *o, const struct ir3_instr *in)
{
    ir3_put(o, ".%s.%ud.%s.%u", in->f[IR3_F_TYPED] ? "typed" : "untyped",
            in->f[IR3_F_DIM] + 1, type_names[in->f[IR3_F_TYPE]],
            in->f[IR3_F_N] + 1);
}

static bool
parse_number_and_one(struct ir3_in *in, enum ir3_field field, int64_t max)
{
    int64_t value;

    if (!ir3_eat_int(in, 1, max, &value))
        return false;
    in->instr->f[field] = (uint32_t)value - 1;
    return true;
}

static bool
parse_shape(struct ir3_in *in)
{
    in->instr->f[IR3_F_TYPED] = ir3_eat(in, ".typed");
    if (!in->instr->f[IR3_F_TYPED] && !ir3_eat(in, ".untyped"))
        return false;
    return ir3_eat(in, ".") && parse_number_and_one(in, IR3_F_DIM, 4) &&
           ir3_eat(in, "d.") &&
           ir3_eat_name(in, type_names, ARRAY_LEN(type_names),
                        &in->instr->f[IR3_F_TYPE]) &&
           ir3_eat(in, ".") && parse_number_and_one(in, IR3_F_N, 4);
}

/* ".imm.base0" */
static void
print_mode(struct ir3_out *o, const struct ir3_instr *in)
{
    ir3_put(o, ".%s", mode_names[in->f[IR3_F_MODE]]);
    if (in->f[IR3_F_BINDLESS])
        ir3_put(o, ".base%u", in->f[IR3_F_BASE]);
}

static bool
parse_mode(struct ir3_in *in)
{
    if (!ir3_eat(in, ".") ||
        !ir3_eat_name(in, mode_names, ARRAY_LEN(mode_names),
                      &in->instr->f[IR3_F_MODE]))
        return false;
    in->instr->f[IR3_F_BINDLESS] = ir3_eat(in, ".base");
    return !in->instr->f[IR3_F_BINDLESS] || ir3_eat_field(in, IR3_F_BASE, 7);
}

static void
print_slot(struct ir3_out *o, const struct ir3_instr *in)
{
    if (in->f[IR3_F_MODE] == 0)
        ir3_put(o, "%u", in->f[IR3_F_SLOT]);
    else
        ir3_put_reg(o, in->f[IR3_F_SLOT], false);
}

static bool
parse_slot(struct ir3_in *in)
{
    return in->instr->f[IR3_F_MODE] == 0 ? ir3_eat_field(in, IR3_F_SLOT, 255)
                                         : ir3_eat_wide(in, IR3_F_SLOT, false);
}

/* A register, or the value that its number is. */
static void
print_reg_or_value(struct ir3_out *o, const struct ir3_instr *in)
{
    if (in->f[IR3_F_IS_IMM])
        ir3_put(o, "%u", in->f[o->field]);
    else
        ir3_put_reg(o, in->f[o->field], false);
}

static bool
parse_reg_or_value(struct ir3_in *in)
{
    in->instr->f[IR3_F_IS_IMM] = *in->p >= '0' && *in->p <= '9';
    return in->instr->f[IR3_F_IS_IMM] ? ir3_eat_field(in, in->field, 255)
                                      : ir3_eat_wide(in, in->field, false);
}

static void
print_alias_src(struct ir3_out *o, const struct ir3_instr *in)
{
    uint32_t v = in->f[IR3_F_IMM];
    bool is_half = !in->f[IR3_F_TYPE_SIZE];

    if (in->f[IR3_F_SRC_REG_TYPE] == 0)
        ir3_put_reg(o, v & 0xff, is_half);
    else if (in->f[IR3_F_SRC_REG_TYPE] == 1)
        ir3_put_const(o, v & 0x7ff, is_half);
    else if (!in->f[IR3_F_TYPE])
        ir3_put_float(o, v, UOP_F32);
    else
        ir3_put(o, "%u", v);
}

static bool
parse_alias_src(struct ir3_in *in)
{
    uint32_t *f = in->instr->f;
    const char *start = in->p;
    bool is_half = ir3_eat(in, "h");
    int64_t value;

    f[IR3_F_SRC_REG_TYPE] = 1;
    if (ir3_eat_file(in, 'c', 2047, &f[IR3_F_IMM]))
        return is_half == !f[IR3_F_TYPE_SIZE];
    in->p = start;
    f[IR3_F_SRC_REG_TYPE] = 2;
    if (!f[IR3_F_TYPE] && ir3_eat_float(in, UOP_F32, &f[IR3_F_IMM]))
        return true;
    if (f[IR3_F_TYPE] && ir3_eat_int(in, 0, UINT32_MAX, &value)) {
        f[IR3_F_IMM] = (uint32_t)value;
        return true;
    }
    f[IR3_F_SRC_REG_TYPE] = 0;
    return ir3_eat_wide(in, IR3_F_IMM, !f[IR3_F_TYPE_SIZE]);
}

static const struct {
    enum ir3_field field;
    const char *text;
} fence_flags[] = {
    {IR3_F_G, ".g"}, {IR3_F_L, ".l"}, {IR3_F_R, ".r"}, {IR3_F_W_FLAG, ".w"}};

static void
print_fence(struct ir3_out *o, const struct ir3_instr *in)
{
    unsigned i;

    for (i = 0; i < ARRAY_LEN(fence_flags); i++)
        ir3_put(o, "%s",
                in->f[fence_flags[i].field] ? fence_flags[i].text : "");
}

static bool
parse_fence(struct ir3_in *in)
{
    unsigned i;

    for (i = 0; i < ARRAY_LEN(fence_flags); i++)
        in->instr->f[fence_flags[i].field] = ir3_eat(in, fence_flags[i].text);
    return true;
}

static void
print_alias(struct ir3_out *o, const struct ir3_instr *in)
{
    ir3_put(o, ".%s.%s%s.%u", scope_names[in->f[IR3_F_SCOPE]],
            in->f[IR3_F_TYPE] ? "b" : "f", in->f[IR3_F_TYPE_SIZE] ? "32" : "16",
            in->f[IR3_F_N]);
}

static bool
parse_alias(struct ir3_in *in)
{
    uint32_t *f = in->instr->f;

    if (!ir3_eat(in, ".") ||
        !ir3_eat_name(in, scope_names, ARRAY_LEN(scope_names), &f[IR3_F_SCOPE]))
        return false;
    f[IR3_F_TYPE] = ir3_eat(in, ".b");
    if (!f[IR3_F_TYPE] && !ir3_eat(in, ".f"))
        return false;
    f[IR3_F_TYPE_SIZE] = ir3_eat(in, "32");
    return (f[IR3_F_TYPE_SIZE] || ir3_eat(in, "16")) && ir3_eat(in, ".") &&
           ir3_eat_field(in, IR3_F_N, 15);
}

static void
print_cluster(struct ir3_out *o, const struct ir3_instr *in)
{
    if (in->op == IR3_MOVMSK)
        ir3_put(o, "%u", 32 * (in->f[IR3_F_REPEAT] + 1));
    else
        ir3_put(o, "%u", 2u << in->f[IR3_F_W]);
}

static bool
parse_cluster(struct ir3_in *in)
{
    int64_t value;

    if (!ir3_eat_int(in, 2, 256, &value))
        return false;
    if (in->instr->op == IR3_MOVMSK) {
        in->instr->f[IR3_F_REPEAT] = (uint32_t)value / 32 - 1;
        return value % 32 == 0;
    }
    in->instr->f[IR3_F_W] = log2_floor((uint64_t)value) - 1;
    return is_pow2((uint64_t)value);
}

static void
print_count(struct ir3_out *o, const struct ir3_instr *in)
{
    ir3_put(o, "%u",
            ir3_op_has(in->op, IR3_F_SIZE) ? in->f[IR3_F_SIZE]
                                           : in->f[IR3_F_N] + 1);
}

static bool
parse_count(struct ir3_in *in)
{
    return ir3_op_has(in->instr->op, IR3_F_SIZE)
               ? ir3_eat_field(in, IR3_F_SIZE, 255)
               : parse_number_and_one(in, IR3_F_N, 256);
}

static void
print_ldc(struct ir3_out *o, const struct ir3_instr *in)
{
    ir3_put(o, "%s.offset%u.%u", in->f[IR3_F_U] ? ".u" : "", in->f[IR3_F_COMP],
            in->f[IR3_F_N] + 1);
    print_mode(o, in);
}

static bool
parse_ldc(struct ir3_in *in)
{
    in->instr->f[IR3_F_U] = ir3_eat(in, ".u");
    return ir3_eat(in, ".offset") && ir3_eat_field(in, IR3_F_COMP, 3) &&
           ir3_eat(in, ".") && parse_number_and_one(in, IR3_F_N, 4) &&
           parse_mode(in);
}

static void
print_image(struct ir3_out *o, const struct ir3_instr *in)
{
    print_shape(o, in);
    print_mode(o, in);
}

static bool
parse_image(struct ir3_in *in)
{
    return parse_shape(in) && parse_mode(in);
}

static void
print_image_offset(struct ir3_out *o, const struct ir3_instr *in)
{
    if (in->f[IR3_F_HAS_OFFSET])
        ir3_put(o, "+%u", in->f[IR3_F_OFFSET]);
}

static bool
parse_image_offset(struct ir3_in *in)
{
    in->instr->f[IR3_F_HAS_OFFSET] = ir3_eat(in, "+");
    return !in->instr->f[IR3_F_HAS_OFFSET] ||
           ir3_eat_field(in, IR3_F_OFFSET, 127);
}

static void
print_base(struct ir3_out *o, const struct ir3_instr *in)
{
    if (in->f[IR3_F_IS_CONST])
        ir3_put_const(o, in->f[IR3_F_SRC1], false);
    else
        ir3_put_reg(o, in->f[IR3_F_SRC1], false);
}

static bool
parse_base(struct ir3_in *in)
{
    in->instr->f[IR3_F_IS_CONST] = *in->p == 'c';
    return *in->p == 'c' ? ir3_eat_file(in, 'c', 255, &in->instr->f[IR3_F_SRC1])
                         : ir3_eat_wide(in, IR3_F_SRC1, false);
}

static void
print_mov_const(struct ir3_out *o, const struct ir3_instr *in)
{
    ir3_put(o, "%s", in->f[IR3_F_SRC1_R] ? "(r)" : "");
    ir3_put_const(o, in->f[IR3_F_SRC1], ir3_src_is_half(in));
}

static bool
parse_mov_const(struct ir3_in *in)
{
    in->instr->f[IR3_F_SRC1_R] = ir3_eat(in, "(r)");
    return ir3_eat(in, "h") == ir3_src_is_half(in->instr) &&
           ir3_eat_file(in, 'c', 2047, &in->instr->f[IR3_F_SRC1]);
}

static void
print_types(struct ir3_out *o, const struct ir3_instr *in)
{
    ir3_put(o, ".%s%s", type_names[in->f[IR3_F_SRC_TYPE]],
            type_names[in->f[IR3_F_DST_TYPE]]);
}

static bool
parse_types(struct ir3_in *in)
{
    return ir3_eat(in, ".") && eat_types(in);
}

/* The second source of category 3 is a register, always. */
static void
print_src2(struct ir3_out *o, const struct ir3_instr *in)
{
    ir3_put(o, "%s", in->f[IR3_F_SRC2_R] && in->f[IR3_F_REPEAT] ? "(r)" : "");
    ir3_put_sign(o, false, in->f[IR3_F_SRC2_NEG]);
    ir3_put_reg(o, in->f[IR3_F_SRC2], ir3_src_is_half(in));
}

static bool
parse_src2(struct ir3_in *in)
{
    uint32_t *f = in->instr->f;
    bool is_half;

    f[IR3_F_SRC2_R] |= ir3_eat(in, "(r)");
    f[IR3_F_SRC2_NEG] = ir3_eat(in, "(neg)");
    return ir3_eat_reg(in, &f[IR3_F_SRC2], &is_half) && note_src(in, is_half);
}

/* Directives that are more than one field. */
static const struct pair {
    char code;
    void (*print)(struct ir3_out *o, const struct ir3_instr *in);
    bool (*parse)(struct ir3_in *in);
    enum ir3_field field; /* the main one, where several are like this */
} pairs[] = {
    {'m', print_mov, parse_mov, 0},
    {'v', print_types, parse_types, 0},
    {'D', print_mov_dst, parse_mov_dst, 0},
    {'a', print_mov_gpr, parse_mov_gpr, 0},
    {'g', print_mov_rel, parse_mov_rel, 0},
    {'c', print_mov_const, parse_mov_const, 0},
    {'I', print_mov_imm, parse_mov_imm, 0},
    {'d', print_alu_dst, parse_alu_dst, 0},
    {'A', print_src16, parse_src16, IR3_F_SRC1},
    {'B', print_src16, parse_src16, IR3_F_SRC2},
    {'P', print_src13, parse_src13, IR3_F_SRC1},
    {'Q', print_src2, parse_src2, 0},
    {'R', print_src13, parse_src13, IR3_F_SRC3},
    {'p', print_predicate, parse_predicate, IR3_F_COMP1},
    {'q', print_predicate, parse_predicate, IR3_F_COMP2},
    {'w', print_cluster, parse_cluster, 0},
    {'t', print_mask, parse_mask, 0},
    {'o', print_texture_flags, parse_texture_flags, 0},
    {'l', print_textures, parse_textures, 0},
    {'_', print_base, parse_base, 0},
    {'r', print_reg_or_value, parse_reg_or_value, IR3_F_SRC1},
    {'S', print_reg_or_value, parse_reg_or_value, IR3_F_SRC2},
    {'+', print_offset, parse_offset, 0},
    {'*', print_image_offset, parse_image_offset, 0},
    {'~', print_index, parse_index, 0},
    {'n', print_count, parse_count, 0},
    {'C', print_const_dst, parse_const_dst, 0},
    {'b', print_image, parse_image, 0},
    {'z', print_shape, parse_shape, 0},
    {'h', print_ldc, parse_ldc, 0},
    {'M', print_mode, parse_mode, 0},
    {'L', print_slot, parse_slot, 0},
    {'G', print_fence, parse_fence, 0},
    {'Y', print_alias, parse_alias, 0},
    {'Z', print_alias_src, parse_alias_src, 0},
};

/* Directives that are one field. */
static const struct single {
    char code;
    enum single_kind {
        REG,       /* a register, whole */
        REG_SRC,   /* as wide as sources are, or what is stored */
        REG_DST,   /* as wide as the result */
        REG_TYPED, /* as wide as SRC_TYPE, or whole */
        REG_LAX,   /* written whole (as Mesa does) and read either way */
        NUMBER,    /* 0 to the field's greatest */
        SIGNED,    /* 32 bits */
        NAME,      /* of names, from 0 on */
    } kind;
    enum ir3_field field;
    const char *const *names;
    unsigned n_names;
} singles[] = {
    {'1', REG_TYPED, IR3_F_SRC1, NULL, 0},
    {'2', REG_TYPED, IR3_F_SRC2, NULL, 0},
    {'3', REG_TYPED, IR3_F_SRC3, NULL, 0},
    {'4', REG_TYPED, IR3_F_SRC4, NULL, 0},
    {'u', REG_SRC, IR3_F_SRC1, NULL, 0},
    {'y', REG_SRC, IR3_F_SRC2, NULL, 0},
    {'H', REG_SRC, IR3_F_SRC3, NULL, 0},
    {'E', REG_DST, IR3_F_DST, NULL, 0},
    {'U', REG_DST, IR3_F_SRC1, NULL, 0},
    {'e', REG, IR3_F_DST, NULL, 0},
    {'K', REG, IR3_F_SRC1, NULL, 0},
    {'F', REG_LAX, IR3_F_DST, NULL, 0},
    {'J', REG_LAX, IR3_F_SRC3, NULL, 0},
    {'x', NUMBER, IR3_F_TEX, NULL, 0},
    {'O', NUMBER, IR3_F_OFF, NULL, 0},
    {'i', SIGNED, IR3_F_IMM, NULL, 0},
    {'f', NAME, IR3_F_COND, cond_names, ARRAY_LEN(cond_names)},
    {'T', NAME, IR3_F_TYPE, type_names, ARRAY_LEN(type_names)},
    {'N', NAME, IR3_F_MODE, shuffle_names, ARRAY_LEN(shuffle_names)},
    {'<', NAME, IR3_F_SIGN, sign_names, ARRAY_LEN(sign_names)},
    {'>', NAME, IR3_F_PACK, pack_names, ARRAY_LEN(pack_names)},
    {'j', NAME, IR3_F_DURATION, sleep_names, ARRAY_LEN(sleep_names)},
    {'V', NAME, IR3_F_ALL, cache_names, ARRAY_LEN(cache_names)},
};

static void
print_single(struct ir3_out *o, const struct ir3_instr *in,
             const struct single *d)
{
    uint32_t value = in->f[d->field];

    switch (d->kind) {
    case REG:
    case REG_LAX:
        ir3_put_reg(o, value, false);
        break;
    case REG_SRC:
        ir3_put_reg(o, value, ir3_src_is_half(in));
        break;
    case REG_DST:
        ir3_put_reg(o, value, ir3_dst_is_half(in));
        break;
    case REG_TYPED:
        ir3_put_reg(o, value,
                    ir3_op_has(in->op, IR3_F_SRC_TYPE) && ir3_src_is_half(in));
        break;
    case NUMBER:
        ir3_put(o, "%u", value);
        break;
    case SIGNED:
        ir3_put(o, "%d", (int32_t)value);
        break;
    case NAME:
        ir3_put(o, ".%s", d->names[value]);
    }
}

static bool
parse_single(struct ir3_in *in, const struct single *d)
{
    struct ir3_instr *instr = in->instr;
    bool is_half;
    int64_t value;

    switch (d->kind) {
    case REG:
        return ir3_eat_wide(in, d->field, false);
    case REG_LAX:
        return ir3_eat_reg(in, &instr->f[d->field], &is_half) &&
               (!is_half || ir3_dst_is_half(instr));
    case REG_SRC:
        /* either the type says how wide, or this does */
        if (ir3_op_has(instr->op, IR3_F_FULL))
            return ir3_eat_reg(in, &instr->f[d->field], &is_half) &&
                   note_src(in, is_half);
        return ir3_eat_wide(in, d->field, ir3_src_is_half(instr));
    case REG_DST:
        return ir3_eat_wide(in, d->field, ir3_dst_is_half(instr));
    case REG_TYPED:
        return ir3_eat_wide(in, d->field,
                            ir3_op_has(instr->op, IR3_F_SRC_TYPE) &&
                                ir3_src_is_half(instr));
    case NUMBER:
        return ir3_eat_field(in, d->field, UINT32_MAX);
    case SIGNED:
        if (!ir3_eat_int(in, INT32_MIN, INT32_MAX, &value))
            return false;
        instr->f[d->field] = (uint32_t)value;
        return true;
    case NAME:
        return ir3_eat(in, ".") &&
               ir3_eat_name(in, d->names, d->n_names, &instr->f[d->field]);
    }
    return false;
}

static const struct pair *
find_pair(char code)
{
    unsigned i;

    for (i = 0; i < ARRAY_LEN(pairs); i++) {
        if (pairs[i].code == code)
            return &pairs[i];
    }
    return NULL;
}

static const struct single *
find_single(char code)
{
    unsigned i;

    for (i = 0; singles[i].code != code; i++)
        assert(i + 1 < ARRAY_LEN(singles));
    return &singles[i];
}

static void
print_directive(struct ir3_out *o, const struct ir3_instr *in, char code)
{
    const struct pair *pair = find_pair(code);

    if (pair) {
        o->field = pair->field;
        pair->print(o, in);
    } else {
        print_single(o, in, find_single(code));
    }
}

static bool
parse_directive(struct ir3_in *in, char code)
{
    const struct pair *pair = find_pair(code);

    if (!pair)
        return parse_single(in, find_single(code));
    in->field = pair->field;
    return pair->parse(in);
}

/* ---- whole instructions ---- */

/* Cycles to wait after it: where nothing repeats, the marks that registers
 * advance say so. */
static uint32_t
n_nops(const struct ir3_instr *in)
{
    if (in->f[IR3_F_REPEAT] || !ir3_op_has(in->op, IR3_F_SRC2_R))
        return 0;
    return in->f[IR3_F_SRC1_R] + 2 * in->f[IR3_F_SRC2_R];
}

static const struct {
    enum ir3_field field;
    const char *text;
} flags[] = {
    {IR3_F_SY, "(sy)"}, {IR3_F_SS, "(ss)"}, {IR3_F_JP, "(jp)"},
    {IR3_F_EQ, "(eq)"}, {IR3_F_UL, "(ul)"}, {IR3_F_SAT, "(sat)"},
};

void
ir3_print(const struct ir3_instr *instr, char buf[IR3_TEXT_MAX])
{
    struct ir3_out out = {.buf = buf};
    const char *p;
    unsigned i;

    buf[0] = '\0';
    for (i = 0; i < ARRAY_LEN(flags); i++)
        ir3_put(&out, "%s", instr->f[flags[i].field] ? flags[i].text : "");
    if (instr->f[IR3_F_REPEAT] && instr->op != IR3_MOVMSK)
        ir3_put(&out, "(rpt%u)", instr->f[IR3_F_REPEAT]);
    if (n_nops(instr))
        ir3_put(&out, "(nop%u) ", n_nops(instr));
    for (p = ir3_rows[instr->op].text; *p; p++) {
        if (*p == '%')
            print_directive(&out, instr, *++p);
        else
            ir3_put(&out, "%c", *p);
    }
}

static bool
parse_flags(struct ir3_in *in)
{
    uint32_t *f = in->instr->f;
    bool is_more = true;
    int64_t n;
    unsigned i;

    while (is_more) {
        is_more = false;
        for (i = 0; i < ARRAY_LEN(flags); i++) {
            if (ir3_eat(in, flags[i].text)) {
                f[flags[i].field] = 1;
                is_more = true;
            }
        }
        if (ir3_eat(in, "(rpt")) {
            if (!ir3_eat_int(in, 0, 7, &n) || !ir3_eat(in, ")"))
                return false;
            f[IR3_F_REPEAT] = (uint32_t)n;
            is_more = true;
        }
        if (ir3_eat(in, "(nop")) {
            if (!ir3_eat_int(in, 0, 3, &n) || !ir3_eat(in, ")"))
                return false;
            f[IR3_F_SRC1_R] = (uint32_t)n & 1;
            f[IR3_F_SRC2_R] = (uint32_t)n >> 1;
            is_more = true;
        }
    }
    while (ir3_eat(in, " "))
        ;
    return true;
}

/* Widths that operands had, as the fields say them. */
static bool
set_widths(struct ir3_in *in)
{
    struct ir3_instr *instr = in->instr;
    uint32_t *f = instr->f;
    bool is_half;

    if (ir3_op_has(instr->op, IR3_F_FULL))
        f[IR3_F_FULL] = !(in->has_src_half ? in->src_half : in->dst_half);
    else if (in->has_src_half && in->src_half != ir3_src_is_half(instr))
        return false;
    if (!in->has_dst_half)
        return true;
    is_half = in->dst_half;
    if (f[IR3_F_DST] >= IR3_REG_A0 && f[IR3_F_DST] < IR3_REG_NONE)
        return true;
    if (ir3_op_has(instr->op, IR3_F_DST_FULL))
        f[IR3_F_DST_FULL] = !is_half;
    else if (ir3_op_has(instr->op, IR3_F_DST_CONV))
        f[IR3_F_DST_CONV] = is_half != ir3_src_is_half(instr);
    return is_half == ir3_dst_is_half(instr);
}

/* Does what was read fit? */
static bool
fits(const struct ir3_instr *instr)
{
    const struct ir3_row *row = &ir3_rows[instr->op];
    uint8_t n_bits[IR3_F_COUNT] = {0};
    unsigned i;

    for (i = 0; i < row->n_places; i++)
        n_bits[row->places[i].field] =
            (uint8_t)(n_bits[row->places[i].field] + row->places[i].n_bits);
    for (i = 0; i < IR3_F_COUNT; i++) {
        if (n_bits[i] < 32 && instr->f[i] >> n_bits[i])
            return false;
    }
    return ir3_operands_are_known(instr);
}

static bool
parse_row(struct ir3_in *in)
{
    const char *p;

    for (p = ir3_rows[in->instr->op].text; *p; p++) {
        if (*p == '%') {
            if (!parse_directive(in, *++p))
                return false;
        } else if (*in->p++ != *p) {
            return false;
        }
    }
    while (*in->p == ' ' || *in->p == '\n')
        in->p++;
    return *in->p == '\0' && set_widths(in) && fits(in->instr);
}

bell_status
ir3_parse(enum ir3_gen gen, const char *text, struct ir3_instr *out_instr)
{
    struct ir3_instr start = {0}, instr;
    struct ir3_in in = {.p = text, .instr = &start}, row;
    unsigned op;

    if (parse_flags(&in)) {
        for (op = 0; op < IR3_OP_COUNT; op++) {
            if (!(ir3_rows[op].gens & gen))
                continue;
            instr = start;
            instr.op = (enum ir3_op)op;
            row = in;
            row.instr = &instr;
            if (parse_row(&row)) {
                *out_instr = instr;
                return BELL_OK;
            }
        }
    }
    return bell_fail(BELL_E_INVALID, "ir3: no instruction is '%s'", text);
}

bool
ir3_operands_are_known(const struct ir3_instr *instr)
{
    const uint32_t *f = instr->f;
    const char *p;

    for (p = ir3_rows[instr->op].text; *p; p++) {
        if (*p != '%')
            continue;
        switch (*++p) {
        case 'A':
            if (!form16_is_known(f[IR3_F_SRC1], ir3_src_is_half(instr)))
                return false;
            break;
        case 'B':
            if (!form16_is_known(f[IR3_F_SRC2], ir3_src_is_half(instr)))
                return false;
            break;
        case 'P':
            if (!form13_is_known(instr->op, f[IR3_F_SRC1]))
                return false;
            break;
        case 'R':
            if (!form13_is_known(instr->op, f[IR3_F_SRC3]))
                return false;
            break;
        case 'f':
            if (f[IR3_F_COND] >= ARRAY_LEN(cond_names))
                return false;
            break;
        case 'b':
        case 'h':
        case 'M':
            if (f[IR3_F_MODE] >= ARRAY_LEN(mode_names))
                return false;
            break;
        case 'Z':
            if (f[IR3_F_SRC_REG_TYPE] > 2)
                return false;
            break;
        case 'N':
            if (!shuffle_names[f[IR3_F_MODE]])
                return false;
            break;
        }
    }
    return true;
}
