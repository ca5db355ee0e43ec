/* What a launch shows to who steps through it: waves, instructions,
 * registers. */
#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "base/bits.h"
#include "ioctl/sim_step.h"
#include "sim/amd/isa/wave_internal.h"

#define N_SGPRS 106

static bool
read_memory(const struct sim_place *place, uint64_t va, void *out,
            uint32_t n_bytes)
{
    const struct wave *w = place->user;
    const struct amd_memory *memory = &w->group->launch->memory;

    return memory->peek(memory->user, va, out, n_bytes);
}

static void
name_scalar(struct sim_register *out, const char *name, unsigned n_bits,
            uint64_t value)
{
    snprintf(out->name, sizeof(out->name), "%s", name);
    out->n_bits = n_bits;
    out->n_lanes = 1;
    out->defined = 1;
    out->values[0] = value;
}

/* EXEC, VCC, M0, SCC; scalars; vectors; accumulators. */
static bool
find_register(const struct sim_place *place, uint32_t index,
              struct sim_register *out)
{
    const struct wave *w = place->user;
    const struct wave_group *g = w->group;
    char name[16];
    uint32_t lane, row;

    assert(index < UINT32_MAX);
    memset(out, 0, sizeof(*out));
    switch (index) {
    case 0:
        name_scalar(out, "exec", 64, wave_exec(w));
        return true;
    case 1:
        name_scalar(out, "vcc", 64,
                    w->s[ISA_VCC_LO] | (uint64_t)w->s[ISA_VCC_LO + 1] << 32);
        return true;
    case 2:
        name_scalar(out, "m0", 32, w->m0);
        return true;
    case 3:
        name_scalar(out, "scc", 1, w->scc);
        return true;
    default:
        index -= 4;
        break;
    }
    if (index < N_SGPRS) {
        snprintf(name, sizeof(name), "s%u", index);
        name_scalar(out, name, 32, w->s[index]);
        out->defined = w->s[index] != REGISTER_POISON;
        return true;
    }
    index -= N_SGPRS;
    if (index >= g->n_vgprs + g->n_acc)
        return false;
    row = index < g->n_vgprs ? index : ISA_ACC - ISA_VGPR + index - g->n_vgprs;
    snprintf(out->name, sizeof(out->name), "%c%u",
             index < g->n_vgprs ? 'v' : 'a',
             index < g->n_vgprs ? index : index - g->n_vgprs);
    out->n_bits = 32;
    out->n_lanes = g->n_lanes;
    for (lane = 0; lane < g->n_lanes; lane++) {
        out->values[lane] = w->v[row][lane];
        if (w->v[row][lane] != REGISTER_POISON)
            out->defined |= 1ull << lane;
    }
    return true;
}

static void
tell(struct wave *w, enum sim_stop kind, const struct isa_insn *in)
{
    const struct wave_group *g = w->group;
    uint32_t words[3] = {0};
    struct sim_place place = {.kind = kind,
                              .queue = "wave",
                              .va = in ? w->insn_pc : w->pc,
                              .format = in ? SIM_WORDS_CODE : SIM_WORDS_NONE,
                              .words = words,
                              .wave = w->number,
                              .text = in ? isa_op_name(in->op) : NULL,
                              .read = read_memory,
                              .find_register = find_register,
                              .user = w};

    if (in && in->n_dw <= ARRAY_LEN(words) &&
        read_memory(&place, place.va, words, 4u * in->n_dw))
        place.n_words = place.n_all = in->n_dw;
    memcpy(place.group, g->id, sizeof(place.group));
    memcpy(place.grid, g->launch->grid, sizeof(place.grid));
    memcpy(place.local, g->launch->local, sizeof(place.local));
    sim_step_tell(&place);
}

void
wave_step_begin(struct wave *w)
{
    if (sim_step_wants(SIM_STOP_WAVE))
        tell(w, SIM_STOP_WAVE, NULL);
}

void
wave_step_insn(struct wave *w, const struct isa_insn *in)
{
    if (sim_step_wants(SIM_STOP_INSN))
        tell(w, SIM_STOP_INSN, in);
}
