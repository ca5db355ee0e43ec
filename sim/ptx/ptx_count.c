/* What a launch does, counted; nothing of it is called while nobody asks. */
#include "sim/ptx/ptx_exec.h"

#include <assert.h>

static bool
is_float(unsigned type)
{
    return (type >= PX_F16 && type <= PX_BF16X2) || type == PX_TF32;
}

/* The kind of an access by its state space. */
static enum sim_insn
class_of_space(unsigned space)
{
    assert(space < PX_SPACE_COUNT);
    switch (space) {
    case PX_SHARED:
        return SIM_INSN_SHARED;
    case PX_LOCAL:
        return SIM_INSN_LOCAL;
    case PX_PARAM:
    case PX_CONST:
        return SIM_INSN_OTHER;
    default:
        return SIM_INSN_GLOBAL;
    }
}

static enum sim_insn
class_of(const struct px_insn *in)
{
    assert(in->op < PX_OP_COUNT);
    switch (in->op) {
    case PX_LD:
    case PX_ST:
    case PX_ATOM:
    case PX_RED:
        return class_of_space(in->mod[PX_MOD_SPACE]);
    case PX_COPY:
    case PX_PREFETCH:
    case PX_TEAM:
        return SIM_INSN_GLOBAL;
    case PX_LDMATRIX:
    case PX_STMATRIX:
        return SIM_INSN_SHARED;
    case PX_MMA:
    case PX_WGMMA:
        return SIM_INSN_MATRIX;
    case PX_DIV:
    case PX_RCP:
    case PX_SQRT:
    case PX_RSQRT:
    case PX_EX2:
    case PX_LG2:
    case PX_SIN:
    case PX_COS:
    case PX_TANH:
        return is_float(in->type) ? SIM_INSN_SPECIAL : SIM_INSN_OTHER;
    case PX_ADD:
    case PX_SUB:
    case PX_MUL:
    case PX_MAD:
    case PX_FMA:
    case PX_MIN:
    case PX_MAX:
    case PX_NEG:
    case PX_ABS:
        return is_float(in->type) ? SIM_INSN_FLOAT : SIM_INSN_OTHER;
    case PX_BAR:
    case PX_BAR_ARRIVE:
    case PX_BAR_RED:
    case PX_FENCE:
    case PX_COMMIT:
    case PX_AWAIT:
    case PX_PROXY_FENCE:
    case PX_WGMMA_FENCE:
    case PX_WGMMA_COMMIT:
    case PX_WGMMA_AWAIT:
    case PX_BRA:
    case PX_BRX:
    case PX_RET:
    case PX_EXIT:
    case PX_WARPSYNC:
        return SIM_INSN_CONTROL;
    default:
        return SIM_INSN_OTHER;
    }
}

void
px_count_step(struct sim_counts *c, const struct px_insn *in, uint32_t mask,
              uint32_t group)
{
    c->n_insns[class_of(in)]++;
    if (in->op == PX_BRA && in->guard != PX_NO_ROW) {
        c->n_branches++;
        c->n_divergent += mask != 0 && mask != group;
    }
}

void
px_count_matrix(struct sim_counts *c, unsigned type, double flops)
{
    enum chip_rate rate = type == PX_F64                      ? CHIP_MATRIX_F64
                          : type == PX_TF32                   ? CHIP_MATRIX_TF32
                          : type == PX_F16 || type == PX_BF16 ? CHIP_MATRIX_F16
                                                              : CHIP_MATRIX_8;

    c->matrix_flops[rate] += flops;
}

void
px_count_access(struct sim_counts *c, const struct px_span *s,
                const uint64_t addr[PX_LANES], bool is_shared)
{
    uint64_t of_mask[PX_LANES];
    uint32_t left, n = 0;

    for (left = s->mask; left; left &= left - 1)
        of_mask[n++] = addr[px_first(left)];
    if (is_shared)
        sim_count_shared(c, of_mask, n, s->n_bytes);
    else
        sim_count_global(c, of_mask, n, s->n_bytes, s->is_write);
}
