/* Arithmetic on F16 and BF16 as it is: two lanes in an instruction where
 * there are two. */
#include "render/ptx/ptx_internal.h"

#include <assert.h>
#include <stdio.h>

static const char *
name_of(unsigned op)
{
    switch (op) {
    case UOP_ADD:
        return "add.rn";
    case UOP_SUB:
        return "sub.rn";
    case UOP_MUL:
        return "mul.rn";
    case UOP_MAX:
        return "max.NaN";
    case UOP_MIN:
        return "min.NaN";
    case UOP_NEG:
        return "neg";
    case UOP_CMPLT:
        return "setp.lt";
    case UOP_CMPEQ:
        return "setp.eq";
    case UOP_CMPNE:
        return "setp.neu";
    default:
        return NULL;
    }
}

bool
ptx_has_half(const struct ptx_emit *e, unsigned op, unsigned dtype)
{
    return name_of(op) && (dtype == UOP_F16 || e->features & PTX_HAS_BF16_MATH);
}

/* "add.rn.f16x2 %, %, %" */
static void
write_format(char *fmt, size_t size_bytes, const struct uop *u, bool pair)
{
    assert(name_of(u->op) && u->n_src <= 2);
    snprintf(fmt, size_bytes, "%s.%s%s %%, %%%s", name_of(u->op),
             u->src[0]->dtype == UOP_F16 ? "f16" : "bf16", pair ? "x2" : "",
             u->n_src > 1 ? ", %" : "");
}

/* Lanes `lane` and the next one, which know their word afterwards. */
static void
emit_pair(struct ptx_emit *e, const struct uop *u, const struct ptx_value *v,
          uint32_t lane, struct ptx_opnd *out)
{
    struct ptx_opnd o[3];
    char fmt[48];
    uint32_t i;

    assert(lane + 1 < u->lanes && !uop_has(u, UOP_FLAG_CMP));
    for (i = 0; i < u->n_src; i++)
        o[1 + i] = ptx_pack(e, v[i].lanes + lane, 2);
    o[0] = ptx_reg(e, PTX_B32);
    write_format(fmt, sizeof(fmt), u, true);
    ptx_op(e, fmt, o);
    out[0] = ptx_reg(e, PTX_B16);
    out[1] = ptx_reg(e, PTX_B16);
    PTX_OP(e, "mov.b32 {%, %}, %", out[0], out[1], o[0]);
    out[0].word = out[1].word = o[0].reg + 1;
    out[1].part = 1;
}

void
ptx_emit_half(struct ptx_emit *e, const struct uop *u,
              const struct ptx_value *v, struct ptx_opnd *out)
{
    bool compares = uop_has(u, UOP_FLAG_CMP);
    struct ptx_opnd o[3];
    char fmt[48];
    uint32_t lane, i;

    assert(ptx_has_half(e, u->op, u->src[0]->dtype));
    for (lane = 0; lane < u->lanes;) {
        if (!compares && lane + 1 < u->lanes) {
            emit_pair(e, u, v, lane, out + lane);
            lane += 2;
            continue;
        }
        for (i = 0; i < u->n_src; i++)
            o[1 + i] = ptx_in_reg(e, v[i].lanes[lane]);
        o[0] = out[lane] = ptx_reg(e, compares ? PTX_PRED : PTX_B16);
        write_format(fmt, sizeof(fmt), u, false);
        ptx_op(e, fmt, o);
        lane++;
    }
}
