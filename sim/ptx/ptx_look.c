/* What a launch shows to who steps through it: warps, instructions,
 * registers. */
#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "ioctl/sim_step.h"
#include "sim/ptx/ptx_exec.h"

/* What a place is told of. */
struct looked {
    const struct px_run *run;
    const struct px_warp *warp;
    uint32_t mask; /* lanes at the instruction */
};

static bool
read_memory(const struct sim_place *place, uint64_t va, void *out,
            uint32_t n_bytes)
{
    const struct looked *at = place->user;
    const struct sim_ptx_mem *mem = &at->run->launch->mem;

    return mem->peek(mem->user, va, out, n_bytes);
}

static void
fill(const struct looked *at, uint32_t row, struct sim_register *out)
{
    uint32_t lane;

    assert(row < at->run->kernel->n_rows);
    out->defined = at->warp->defined[row];
    out->n_lanes = PX_LANES;
    for (lane = 0; lane < PX_LANES; lane++)
        out->values[lane] = px_get(at->warp->rows[row], out->n_bits, lane);
}

/* Those that a lane has written, in the order of their declarations. */
static bool
find_register(const struct sim_place *place, uint32_t index,
              struct sim_register *out)
{
    const struct looked *at = place->user;
    const struct px_kernel *k = at->run->kernel;
    uint32_t i;
    size_t d;

    assert(index < UINT32_MAX);
    memset(out, 0, sizeof(*out));
    if (index == 0) { /* which lanes are where the place says */
        snprintf(out->name, sizeof(out->name), "active");
        out->n_bits = 32;
        out->n_lanes = 1;
        out->defined = 1;
        out->values[0] = at->mask;
        return true;
    }
    index--;
    for (d = 0; d < k->n_declared; d++) {
        const struct px_declared *of = &k->declared[d];
        uint32_t rows = of->bits == 64 ? 2 : 1;

        for (i = 0; i < of->count; i++) {
            uint32_t row = of->at + i * rows;

            if (at->warp->defined[row] == 0 || index-- > 0)
                continue;
            if (of->is_family)
                snprintf(out->name, sizeof(out->name), "%.20s%u", of->name, i);
            else
                snprintf(out->name, sizeof(out->name), "%s", of->name);
            out->n_bits = of->bits;
            fill(at, row, out);
            return true;
        }
    }
    return false;
}

static const char *
line_of(const char *text, uint32_t line)
{
    for (; text && line > 1; line--) {
        text = strchr(text, '\n');
        text = text ? text + 1 : NULL;
    }
    return text ? text + strspn(text, " \t") : NULL;
}

static void
tell(struct px_run *r, const struct px_warp *w, enum sim_stop kind, uint32_t pc,
     uint32_t mask)
{
    struct looked at = {r, w, mask};
    struct sim_place place = {
        .kind = kind,
        .queue = "warp",
        .kernel = r->kernel->name,
        .va = r->kernel->code[pc].line,
        .wave = w->number,
        .text = line_of(r->launch->text, r->kernel->code[pc].line),
        .read = read_memory,
        .find_register = find_register,
        .user = &at};

    assert(pc < r->kernel->n_code);
    memcpy(place.group, r->block, sizeof(place.group));
    memcpy(place.grid, r->launch->grid, sizeof(place.grid));
    memcpy(place.local, r->launch->block, sizeof(place.local));
    sim_step_tell(&place);
}

void
px_step_warp(struct px_run *r, const struct px_warp *w)
{
    if (w->n_groups && sim_step_wants(SIM_STOP_WAVE))
        tell(r, w, SIM_STOP_WAVE, w->groups[0].pc, w->live);
}

void
px_step_insn(struct px_run *r, const struct px_warp *w, uint32_t g)
{
    if (sim_step_wants(SIM_STOP_INSN))
        tell(r, w, SIM_STOP_INSN, w->groups[g].pc, w->groups[g].mask);
}
