/* Conversions of one lane.
 *
 * Float to integer: PTX saturates, and gives 0 for NaN only where neither
 * side has 64 bits; there NaN is replaced by 0 first. 8 and 16 bits go by way
 * of 32 and are clamped. F16 and BF16 go by way of F32, which is exact from
 * them, and to them from integers because what F32 rounds is beyond F16.
 */
#include "render/ptx/ptx_internal.h"

#include <assert.h>
#include <stdio.h>

static struct ptx_opnd
convert(struct ptx_emit *e, const char *name, enum ptx_class cls,
        struct ptx_opnd a)
{
    struct ptx_opnd r = ptx_reg(e, cls);
    char fmt[40];

    snprintf(fmt, sizeof(fmt), "%s %%, %%", name);
    PTX_OP(e, fmt, r, ptx_in_reg(e, a));
    return r;
}

bool
ptx_can_cast(unsigned from, unsigned to)
{
    if (from != to && (uop_dtype_is_f8(from) || uop_dtype_is_f8(to)))
        return (from == UOP_F8E4M3 || from == UOP_F8E5M2) &&
               !uop_dtype_is_f8(to);
    if (to == UOP_BF16 && from != UOP_BF16)
        return from == UOP_F32 || from == UOP_F16 || from == UOP_BOOL ||
               (!uop_dtype_is_float(from) &&
                uop_dtype_infos[from].size_bytes == 1);
    return true;
}

static struct ptx_opnd
ptx_to_bool(struct ptx_emit *e, unsigned from, struct ptx_opnd a)
{
    struct ptx_opnd r = ptx_reg(e, PTX_PRED);

    if (from == UOP_F32)
        PTX_OP(e, "setp.neu.f32 %, %, 0f00000000", r, a);
    else if (from == UOP_F64)
        PTX_OP(e, "setp.neu.f64 %, %, 0d0000000000000000", r, a);
    else if (uop_dtype_infos[from].size_bytes == 8)
        PTX_OP(e, "setp.ne.s64 %, %, 0", r, a);
    else
        PTX_OP(e, "setp.ne.s32 %, %, 0", r, a);
    return r;
}

static struct ptx_opnd
from_bool(struct ptx_emit *e, unsigned to, struct ptx_opnd a)
{
    enum ptx_class cls = ptx_class_of(to);
    union uop_arg one = {.i = 1};
    struct ptx_opnd r = ptx_reg(e, cls);
    char fmt[40];

    if (uop_dtype_is_float(to))
        one.f = 1;
    snprintf(fmt, sizeof(fmt), "selp.%s %%, %%, %%, %%", ptx_class_type(cls));
    PTX_OP(e, fmt, r, ptx_const(to, one), ptx_imm(cls, 0), ptx_in_reg(e, a));
    return r;
}

/* Integer to integer: cut or extended. */
static struct ptx_opnd
int_to_int(struct ptx_emit *e, unsigned from, unsigned to, struct ptx_opnd a)
{
    unsigned from_size = uop_dtype_infos[from].size_bytes;
    unsigned to_size = uop_dtype_infos[to].size_bytes;
    bool is_signed = uop_dtype_infos[from].is_signed;
    struct ptx_opnd r;

    assert(!uop_dtype_is_float(from) && !uop_dtype_is_float(to) &&
           to != UOP_BOOL);
    if (to_size == 8 && from_size == 8)
        return a;
    if (to_size == 8)
        return convert(e, is_signed ? "cvt.s64.s32" : "cvt.u64.u32", PTX_B64,
                       a);
    if (from_size == 8)
        r = convert(e, "cvt.u32.u64", PTX_B32, a);
    else if (to_size == 4)
        return a;
    else {
        r = ptx_reg(e, PTX_B32);
        ptx_mov(e, r, a);
    }
    ptx_wrap(e, to, r);
    return r;
}

static struct ptx_opnd
int_to_float(struct ptx_emit *e, unsigned from, unsigned to, struct ptx_opnd a)
{
    bool wide = uop_dtype_infos[from].size_bytes == 8;
    bool is_signed = uop_dtype_infos[from].is_signed;
    char name[24];

    assert(!uop_dtype_is_float(from) && (to == UOP_F32 || to == UOP_F64));
    snprintf(name, sizeof(name), "cvt.rn.%s.%c%d",
             to == UOP_F64 ? "f64" : "f32", is_signed ? 's' : 'u',
             wide ? 64 : 32);
    return convert(e, name, ptx_class_of(to), a);
}

static struct ptx_opnd
clamp(struct ptx_emit *e, unsigned to, struct ptx_opnd r)
{
    struct uop_bounds b = uop_dtype_bounds(to);

    assert(uop_dtype_infos[to].size_bytes < 4);
    PTX_OP(e, "max.s32 %, %, %", r, r, ptx_imm(PTX_B32, (uint64_t)b.min));
    PTX_OP(e, "min.s32 %, %, %", r, r, ptx_imm(PTX_B32, (uint64_t)b.max));
    return r;
}

static struct ptx_opnd
ptx_float_to_int(struct ptx_emit *e, unsigned from, unsigned to,
                 struct ptx_opnd a)
{
    unsigned size = uop_dtype_infos[to].size_bytes;
    bool is_signed = uop_dtype_infos[to].is_signed || size < 4;
    bool from_f64 = from == UOP_F64;
    struct ptx_opnd p, number;
    char name[24];

    assert((from == UOP_F32 || from == UOP_F64) && !uop_dtype_is_float(to));
    a = ptx_in_reg(e, a);
    if (from_f64 || size == 8) {
        p = ptx_reg(e, PTX_PRED);
        number = ptx_reg(e, ptx_class_of(from));
        if (from_f64) {
            PTX_OP(e, "setp.num.f64 %, %, %", p, a, a);
            PTX_OP(e, "selp.f64 %, %, 0d0000000000000000, %", number, a, p);
        } else {
            PTX_OP(e, "setp.num.f32 %, %, %", p, a, a);
            PTX_OP(e, "selp.f32 %, %, 0f00000000, %", number, a, p);
        }
        a = number;
    }
    snprintf(name, sizeof(name), "cvt.rzi.%c%d.%s", is_signed ? 's' : 'u',
             size == 8 ? 64 : 32, from_f64 ? "f64" : "f32");
    a = convert(e, name, size == 8 ? PTX_B64 : PTX_B32, a);
    return size < 4 ? clamp(e, to, a) : a;
}

/* The register that an element is known to be part of. */
static struct ptx_opnd
word_of(struct ptx_opnd part)
{
    assert(part.word > 0);
    return (struct ptx_opnd){.cls = PTX_B32, .reg = part.word - 1};
}

/* From a small float: to F32. */
static struct ptx_opnd
from_small(struct ptx_emit *e, unsigned from, struct ptx_opnd a)
{
    struct ptx_opnd wide, r;

    assert(from == UOP_F16 || from == UOP_BF16);
    if (from == UOP_F16)
        return convert(e, "cvt.f32.f16", PTX_F32, a);
    wide = ptx_reg(e, PTX_B32);
    if (a.word && a.part)
        PTX_OP(e, "and.b32 %, %, 0xffff0000", wide, word_of(a));
    else if (a.word)
        PTX_OP(e, "shl.b32 %, %, 16", wide, word_of(a));
    else {
        PTX_OP(e, "cvt.u32.u16 %, %", wide, ptx_in_reg(e, a));
        PTX_OP(e, "shl.b32 %, %, 16", wide, wide);
    }
    r = ptx_reg(e, PTX_F32);
    PTX_OP(e, "mov.b32 %, %", r, wide);
    return r;
}

/* Two of 8 bits in the lower half of a register: as halves. */
static struct ptx_opnd
two_halves(struct ptx_emit *e, unsigned from, struct ptx_opnd half)
{
    struct ptx_opnd r = ptx_reg(e, PTX_B32);

    assert(from == UOP_F8E4M3 || from == UOP_F8E5M2);
    PTX_OP(e,
           from == UOP_F8E4M3 ? "cvt.rn.f16x2.e4m3x2 %, %"
                              : "cvt.rn.f16x2.e5m2x2 %, %",
           r, half);
    return r;
}

void
ptx_cast_f8(struct ptx_emit *e, unsigned from, const struct ptx_opnd *lanes,
            uint32_t n, struct ptx_opnd *out)
{
    struct ptx_opnd h[2], word;
    uint32_t i, j;

    for (i = 0; i + 4 <= n; i += 4) {
        h[0] = ptx_reg(e, PTX_B16);
        h[1] = ptx_reg(e, PTX_B16);
        PTX_OP(e, "mov.b32 {%, %}, %", h[0], h[1], ptx_pack(e, lanes + i, 4));
        for (j = 0; j < 4; j++)
            out[i + j] = ptx_reg(e, PTX_B16);
        for (j = 0; j < 4; j += 2)
            ptx_unpack(e, UOP_F16, two_halves(e, from, h[j / 2]), out + i + j);
    }
    for (; i < n; i++) {
        word = ptx_in_reg(e, lanes[i]);
        h[0] = convert(e, "cvt.u16.u32", PTX_B16, word);
        out[i] = convert(e, "cvt.u16.u32", PTX_B16, two_halves(e, from, h[0]));
    }
}

void
ptx_cast_pairs(struct ptx_emit *e, unsigned to, const struct ptx_opnd *lanes,
               uint32_t n, struct ptx_opnd *out)
{
    struct ptx_opnd word;
    uint32_t i, j;

    assert(n % 2 == 0 && (to == UOP_F16 || to == UOP_BF16));
    for (i = 0; i < n; i += 2) {
        word = ptx_reg(e, PTX_B32);
        PTX_OP(e,
               to == UOP_F16 ? "cvt.rn.f16x2.f32 %, %, %"
                             : "cvt.rn.bf16x2.f32 %, %, %",
               word, ptx_in_reg(e, lanes[i + 1]), ptx_in_reg(e, lanes[i]));
        for (j = 0; j < 2; j++)
            out[i + j] = (struct ptx_opnd){
                .cls = PTX_B16, .part = (uint8_t)j, .word = word.reg + 1};
    }
}

struct ptx_opnd
ptx_cast(struct ptx_emit *e, unsigned from, unsigned to, struct ptx_opnd a)
{
    if (from == to)
        return a;
    if (from == UOP_BOOL)
        return from_bool(e, to, a);
    if (from == UOP_F64 && to == UOP_F16)
        return convert(e, "cvt.rn.f16.f64", PTX_B16, a);
    if (from == UOP_F16 || from == UOP_BF16) {
        a = from_small(e, from, a);
        from = UOP_F32;
    }
    if (to == UOP_F16 || to == UOP_BF16) {
        if (from != UOP_F32)
            a = int_to_float(e, from, UOP_F32, a);
        return convert(e, to == UOP_F16 ? "cvt.rn.f16.f32" : "cvt.rn.bf16.f32",
                       PTX_B16, a);
    }
    if (from == to)
        return a;
    if (to == UOP_BOOL)
        return ptx_to_bool(e, from, ptx_in_reg(e, a));
    if (!uop_dtype_is_float(from))
        return uop_dtype_is_float(to) ? int_to_float(e, from, to, a)
                                      : int_to_int(e, from, to, a);
    if (!uop_dtype_is_float(to))
        return ptx_float_to_int(e, from, to, a);
    return to == UOP_F64 ? convert(e, "cvt.f64.f32", PTX_F64, a)
                         : convert(e, "cvt.rn.f32.f64", PTX_F32, a);
}
