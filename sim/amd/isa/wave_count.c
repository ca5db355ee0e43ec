/* What a launch does, counted; nothing of it is called while nobody asks. */
#include "sim/amd/isa/wave_internal.h"

#include <assert.h>
#include <string.h>

#include "base/bits.h"

void
wave_count_lane(struct wave_counts *c, uint64_t at, bool is_lds)
{
    assert(c->n_global <= 8 * WAVE_LANES_MAX && c->n_lds <= 2 * WAVE_LANES_MAX);
    if (is_lds && c->n_lds < ARRAY_LEN(c->lds))
        c->lds[c->n_lds++] = at;
    else if (!is_lds && c->n_global < ARRAY_LEN(c->global))
        c->global[c->n_global++] = at;
}

/* Whether the name has one of the words, up to a space each. */
static bool
has_word(const char *name, const char *words)
{
    char word[16];
    size_t n;

    for (; *words; words += n + (words[n] == ' ')) {
        n = strcspn(words, " ");
        memcpy(word, words, n);
        word[n] = '\0';
        if (strstr(name, word))
            return true;
    }
    return false;
}

/* Vector instructions are known by their names: V_PK_FMA_F32. */
static enum sim_insn
class_of_vector(const char *name)
{
    if (has_word(name, "MFMA WMMA"))
        return SIM_INSN_MATRIX;
    if (has_word(name, "CMP CVT MOV CNDMASK"))
        return SIM_INSN_OTHER;
    if (has_word(name, "RCP RSQ SQRT EXP LOG SIN COS DIV_"))
        return SIM_INSN_SPECIAL;
    return has_word(name, "_F16 _F32 _F64 _BF16") ? SIM_INSN_FLOAT
                                                  : SIM_INSN_OTHER;
}

static enum sim_insn
class_of_insn(const struct isa_insn *in)
{
    switch ((enum isa_format)in->format) {
    case ISA_SOP1:
    case ISA_SOP2:
    case ISA_SOPC:
    case ISA_SOPK:
    case ISA_SMEM:
        return SIM_INSN_SCALAR;
    case ISA_SOPP:
        return SIM_INSN_CONTROL;
    case ISA_VOP1:
    case ISA_VOP2:
    case ISA_VOPC:
    case ISA_VOP3:
    case ISA_VOPD:
    case ISA_VOP3P:
        return class_of_vector(isa_op_name(in->op));
    case ISA_DS:
        return SIM_INSN_SHARED;
    case ISA_FLAT:
        return in->segment == ISA_SEG_SCRATCH ? SIM_INSN_LOCAL
                                              : SIM_INSN_GLOBAL;
    case ISA_MUBUF: /* of our code, scratch alone */
        return SIM_INSN_LOCAL;
    case ISA_FORMAT_COUNT:
        break;
    }
    return SIM_INSN_OTHER;
}

/* Eight lanes of a wave of 64 read 16 bytes each at a time, and not those that
 * follow each other: 0-3 with 20-23, 4-7 with 16-19, and so on; all else goes
 * by consecutive lanes. src: AMD's members of the projects, for gfx942: Triton,
 * pull request 11365 (2026-08); shark-ai, amdgpu_kernel_optimization_guide.md
 * (2025-08). lead: gfx90a, and RDNA, whose lanes we take to be consecutive */
static uint32_t
lane_of_read(uint32_t i)
{
    return i >> 5 << 5 | ((i >> 2 & 1) ^ (i >> 3 & 1)) << 2 |
           (i >> 2 & 1) << 4 | (i >> 4 & 1) << 3 | (i & 3);
}

/* Two elements of a lane are two accesses. */
static void
count_lds(struct wave *w, const struct isa_insn *in)
{
    struct wave_counts *c = w->group->counts;
    uint32_t each = in->mem_flags & ISA_MEM_TWO ? 2 : 1, part, i, lane;
    uint32_t n = c->n_lds / each;
    bool apart = isa_is_gfx9(w->group->gen) && in->op == ISA_M_LOAD &&
                 in->bytes == 16 && n == WAVE_LANES_MAX;
    uint64_t at[WAVE_LANES_MAX];

    for (part = 0; part < each; part++) {
        for (i = 0; i < n; i++) {
            lane = apart ? lane_of_read(i) : i;
            at[i] = c->lds[lane * each + part];
        }
        sim_count_shared(&c->sum, at, n, in->bytes);
    }
}

void
wave_count_insn(struct wave *w, const struct isa_insn *in)
{
    struct wave_counts *c = w->group->counts;
    const char *name = isa_op_name(in->op);

    c->sum.n_insns[class_of_insn(in)]++;
    if (c->n_global)
        sim_count_global(&c->sum, c->global, c->n_global, in->bytes,
                         in->op != ISA_M_LOAD);
    if (c->n_lds)
        count_lds(w, in);
    c->n_global = c->n_lds = 0;
    /* lanes part where a comparison becomes EXEC, and a branch goes round what
     * none of them does */
    if (strncmp(name, "S_CBRANCH", 9) == 0)
        c->sum.n_branches++;
    if (strstr(name, "SAVEEXEC") && wave_exec(w) != 0 &&
        wave_exec(w) != w->group->all_lanes)
        c->sum.n_divergent++;
}
