/* WMMA: mma.sync, and WMMA_ROWS: ldmatrix. A thread's parts lie in the lanes of
 * the sources as the instruction wants them in its registers (uop_wmma_place):
 * elements of 8 and 16 bits four and two in a register, F32 rounded to TF32 on
 * the way in. src: docs/hardware/nvidia-code.md, "Matrix shapes", "Matrix
 * fragments" */
#include "render/ptx/ptx_internal.h"

#include <assert.h>
#include <stdio.h>

#include "base/bits.h"
#include "uops/wmma.h"

#define MAX_REGS 20 /* of all operands: D, A, B, C */

/* What mma.sync knows of what lower/ asks for. */
static const struct {
    uint8_t in, out; /* dtypes of A and B (or one that mixes), of C and D */
    uint8_t m, n, k;
    uint8_t needs; /* PTX_HAS_ */
} forms[] = {
    {UOP_F16, UOP_F32, 16, 8, 16, 0},
    {UOP_F16, UOP_F32, 16, 8, 8, 0},
    {UOP_BF16, UOP_F32, 16, 8, 16, 0},
    {UOP_BF16, UOP_F32, 16, 8, 8, 0},
    {UOP_F32, UOP_F32, 16, 8, 8, 0},
    {UOP_F32, UOP_F32, 16, 8, 4, 0},
    {UOP_F64, UOP_F64, 8, 8, 4, 0},
    {UOP_F64, UOP_F64, 16, 8, 4, PTX_HAS_F64_ROWS},
    {UOP_F64, UOP_F64, 16, 8, 8, PTX_HAS_F64_ROWS},
    {UOP_F64, UOP_F64, 16, 8, 16, PTX_HAS_F64_ROWS},
    {UOP_I8, UOP_I32, 16, 8, 32, 0},
    {UOP_I8, UOP_I32, 16, 8, 16, 0},
    {UOP_F8E4M3, UOP_F32, 16, 8, 32, PTX_HAS_F8},
};

#define F8_VERSION 84 /* of PTX, times ten, that has 8-bit floats here */

/* As the instruction calls them. */
static const char *const type_names[UOP_DTYPE_COUNT] = {
    [UOP_F16] = "f16",     [UOP_BF16] = "bf16",   [UOP_F32] = "tf32",
    [UOP_F64] = "f64",     [UOP_I8] = "s8",       [UOP_U8] = "u8",
    [UOP_F8E4M3] = "e4m3", [UOP_F8E5M2] = "e5m2",
};

static bool
is_known(const struct ptx_emit *e, const struct uop *u, struct uop_wmma w)
{
    enum uop_dtype a = u->src[0]->dtype, b = u->src[1]->dtype;
    size_t i;

    for (i = 0; i < ARRAY_LEN(forms); i++) {
        if (w.layout == UOP_WMMA_NV && forms[i].out == u->dtype &&
            uop_wmma_mixes(forms[i].in, a) && uop_wmma_mixes(a, b) &&
            forms[i].m == w.m && forms[i].n == w.n && forms[i].k == w.k &&
            !(forms[i].needs & ~e->features))
            return true;
    }
    return false;
}

/* The lanes of A or B as registers; how many there are. */
static uint32_t
pack(struct ptx_emit *e, const struct uop *u, const struct ptx_value *v,
     struct ptx_opnd *out)
{
    uint32_t step = ptx_packed(u->dtype), i, n = 0;

    assert(u->lanes % step == 0);
    for (i = 0; i < u->lanes; i += step, n++) {
        if (step > 1) {
            out[n] = ptx_pack(e, v->lanes + i, step);
        } else if (u->dtype == UOP_F32) {
            out[n] = ptx_reg(e, PTX_B32);
            PTX_OP(e, "cvt.rna.tf32.f32 %, %", out[n],
                   ptx_in_reg(e, v->lanes[i]));
        } else {
            out[n] = ptx_in_reg(e, v->lanes[i]);
        }
    }
    return n;
}

/* "{%, %}" of n operands. */
static size_t
put_list(char *buf, size_t size, uint32_t n)
{
    size_t at = 0;
    uint32_t i;

    for (i = 0; i < n; i++)
        at += (size_t)snprintf(buf + at, size - at, "%s%%", i ? ", " : "{");
    return at + (size_t)snprintf(buf + at, size - at, "}");
}

bell_status
ptx_emit_wmma(struct ptx_emit *e, const struct uop *u,
              const struct ptx_value *v, struct ptx_opnd *out)
{
    struct uop_wmma w = uop_wmma_shape(u->arg.i);
    const char *sum = uop_dtype_infos[u->dtype].is_float
                          ? u->dtype == UOP_F64 ? "f64" : "f32"
                          : "s32";
    struct ptx_opnd o[MAX_REGS];
    char fmt[200];
    uint32_t n, i, count;
    size_t at;

    if (u->n_src != 3 || !is_known(e, u, w))
        return ptx_refuse(e, u, "no such matrix instruction");
    if (uop_dtype_is_f8(u->src[0]->dtype) && e->min_version < F8_VERSION)
        e->min_version = F8_VERSION;
    at = (size_t)snprintf(fmt, sizeof(fmt),
                          "mma.sync.aligned.m%un%uk%u.row.col.%s.%s.%s.%s ",
                          w.m, w.n, w.k, sum, type_names[u->src[0]->dtype],
                          type_names[u->src[1]->dtype], sum);
    for (n = 0; n < u->lanes; n++)
        o[n] = out[n] = ptx_reg(e, ptx_class_of(u->dtype));
    at += put_list(fmt + at, sizeof(fmt) - at, n);
    for (i = 0; i < 3; i++) {
        count = 0;
        if (i < 2)
            count = pack(e, u->src[i], &v[i], o + n);
        for (; i == 2 && count < u->lanes; count++) {
            struct ptx_opnd c = v[i].lanes[count];
            bool again = count && c.is_imm && v[i].lanes[count - 1].is_imm &&
                         c.bits == v[i].lanes[count - 1].bits;
            o[n + count] = again ? o[n + count - 1] : ptx_in_reg(e, c);
        }
        n += count;
        at += (size_t)snprintf(fmt + at, sizeof(fmt) - at, ", ");
        at += put_list(fmt + at, sizeof(fmt) - at, count);
    }
    assert(n <= MAX_REGS && at < sizeof(fmt));
    ptx_op(e, fmt, o);
    return BELL_OK;
}

/* By ldmatrix, whose threads name rows of 16 bytes. The lanes are parts of
 * words with no registers of their own: matrix instructions take the words. */
bell_status
ptx_emit_rows(struct ptx_emit *e, const struct uop *u, struct ptx_value *out)
{
    uint32_t step = ptx_packed(u->dtype), n = u->lanes / step, i;
    struct ptx_opnd *lanes = arena_calloc(&e->arena, u->lanes, sizeof(*lanes));
    struct ptx_opnd o[5];
    char fmt[120], list[24];
    struct ptx_place at;

    if (!lanes)
        return ptx_no_memory(e);
    if (step == 1 || n > 4)
        return ptx_refuse(e, u, "no such matrix instruction");
    for (i = 0; i < n; i++)
        o[i] = ptx_reg(e, PTX_B32);
    BELL_TRY(ptx_find_place(e, u, 0, &at));
    assert(at.memory->op == UOP_LOCAL);
    o[n] = at.base;
    put_list(list, sizeof(list), n);
    snprintf(fmt, sizeof(fmt),
             "ldmatrix.sync.aligned.m8n8.x%u%s.shared.b16 %s, [%%+%lld]", n,
             u->arg.i ? ".trans" : "", list,
             (long long)at.first * at.elem_bytes);
    ptx_op(e, fmt, o);
    for (i = 0; i < u->lanes; i++)
        lanes[i] = (struct ptx_opnd){.cls = (uint8_t)ptx_class_of(u->dtype),
                                     .part = (uint8_t)(i % step),
                                     .word = o[i / step].reg + 1};
    *out = (struct ptx_value){.lanes = lanes};
    return BELL_OK;
}
