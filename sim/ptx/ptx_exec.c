/* Runs a kernel: blocks one after the other, the warps of a block in turns;
 * control flow and barriers. */
#include "sim/ptx/ptx_exec.h"

#include <assert.h>
#include <stdatomic.h>
#include <string.h>

#define TURN 256 /* instructions of a warp before the next one's */

/* ---- groups ---- */

/* Lanes of the group for which the guard holds; false after a fault. */
static inline bool
guarded(struct px_run *r, const struct px_warp *w, const struct px_insn *in,
        uint32_t mask, uint32_t *out_mask)
{
    const uint32_t *p;

    if (in->guard == PX_NO_ROW) {
        *out_mask = mask;
        return true;
    }
    p = px_read(r, w, in, (struct px_ref){in->guard, 1}, mask);
    if (!p)
        return false;
    *out_mask = mask & (in->guard_negated ? ~*p : *p);
    return true;
}

/* Lanes `mask` leave group g for another place. */
static struct px_group *
split(struct px_warp *w, uint32_t g, uint32_t mask, uint32_t pc)
{
    struct px_group *group = &w->groups[g];

    assert(g < w->n_groups && mask && !(mask & ~w->groups[g].mask));
    assert(w->n_groups < PX_LANES || mask == w->groups[g].mask);
    if (mask == group->mask) {
        group->pc = pc;
        return group;
    }
    group->mask &= ~mask;
    group->pc++;
    w->groups[w->n_groups] = (struct px_group){.pc = pc, .mask = mask};
    return &w->groups[w->n_groups++];
}

/* Those that wait for lanes look again: some have come or left. */
static void
wake(struct px_warp *w)
{
    uint32_t i;

    for (i = 0; i < w->n_groups; i++) {
        if (w->groups[i].waits == PX_FOR_LANES)
            w->groups[i].waits = PX_RUNS;
    }
}

static void
leave_loop(struct px_run *r, struct px_warp *w, uint32_t g, uint32_t mask)
{
    struct px_group *group = &w->groups[g];

    assert(g < w->n_groups && !(mask & ~w->live));
    group->mask &= ~mask;
    group->pc++;
    w->live &= ~mask;
    r->n_exited += (uint32_t)__builtin_popcount(mask);
    if (!group->mask)
        *group = w->groups[--w->n_groups];
    if (mask)
        wake(w);
}

/* Joins groups that are at the same place. */
static void
merge(struct px_warp *w)
{
    uint32_t i, j;

    assert(w->n_groups <= PX_LANES);
    for (i = 0; i < w->n_groups; i++) {
        for (j = i + 1; j < w->n_groups;) {
            if (w->groups[i].pc != w->groups[j].pc ||
                w->groups[i].waits != w->groups[j].waits) {
                j++;
                continue;
            }
            w->groups[i].mask |= w->groups[j].mask;
            if (w->groups[i].waits == PX_FOR_LANES)
                w->groups[i].waits = PX_RUNS;
            w->groups[j] = w->groups[--w->n_groups];
        }
    }
}

/* The group that can run and is at the lowest place, which brings lanes
 * together again; now and then the one at the highest, as lanes may wait for
 * what it does. n_groups: none. */
static uint32_t
choose(const struct px_warp *w)
{
    uint32_t best = w->n_groups, i;
    bool highest = w->n_turns % 4 == 3;

    for (i = 0; i < w->n_groups; i++) {
        if (w->groups[i].waits == PX_RUNS &&
            (best == w->n_groups ||
             (w->groups[i].pc < w->groups[best].pc) != highest))
            best = i;
    }
    return best;
}

/* ---- control flow ---- */

/* Each lane to its own label. */
static void
branch_by_table(struct px_run *r, struct px_warp *w, uint32_t g, uint32_t mask,
                const struct px_insn *in)
{
    const uint32_t *index = px_read(r, w, in, in->src[0], mask);
    const uint32_t *table = r->kernel->targets + in->target;
    uint32_t left = mask, lane, same, i;

    assert(in->op == PX_BRX);
    if (!index)
        return;
    while (left) {
        lane = px_first(left);
        if (index[lane] >= (uint64_t)in->offset) {
            px_fault(r, w, lane, in, SIM_PTX_OUT_OF_RANGE, index[lane],
                     "branches past the end of its table");
            return;
        }
        for (same = 0, i = lane; i < PX_LANES; i++) {
            if (left >> i & 1 && index[i] == index[lane])
                same |= 1u << i;
        }
        left &= ~same;
        if (left || w->groups[g].mask != same) {
            w->groups[g].mask &= ~same;
            w->groups[w->n_groups++] =
                (struct px_group){.pc = table[index[lane]], .mask = same};
        } else {
            w->groups[g].pc = table[index[lane]];
            return;
        }
    }
    w->groups[g].pc++; /* those that the guard left out */
}

/* What lanes do together, where all are here. */
static void
collective(struct px_run *r, struct px_warp *w, uint32_t g, uint32_t mask,
           const struct px_insn *in)
{
    assert(mask && g < w->n_groups);
    if (px_members_here(r, w, in, mask)) {
        px_do_collective(r, w, in, mask);
        w->groups[g].pc++;
        return;
    }
    split(w, g, mask, w->groups[g].pc)->waits = PX_FOR_LANES;
}

static void
control(struct px_run *r, struct px_warp *w, uint32_t g, uint32_t mask,
        const struct px_insn *in)
{
    assert(mask && g < w->n_groups);
    assert(g < w->n_groups && mask);
    switch (in->op) {
    case PX_BRA:
        split(w, g, mask, in->target);
        break;
    case PX_BRX:
        branch_by_table(r, w, g, mask, in);
        break;
    case PX_RET:
    case PX_EXIT:
        leave_loop(r, w, g, mask);
        break;
    case PX_TRAP:
        px_fault(r, w, px_first(mask), in, SIM_PTX_TRAP, 0, "a trap");
        break;
    case PX_BAR_ARRIVE:
        r->n_arrived[in->offset] += (uint32_t)__builtin_popcount(mask);
        w->groups[g].pc++;
        break;
    default: /* BAR BAR_RED */
        split(w, g, mask, w->groups[g].pc)->waits = PX_AT_BARRIER;
        break;
    }
}

static uint32_t
count_lanes(uint32_t mask)
{
    return mask == PX_FULL ? PX_LANES : (uint32_t)__builtin_popcount(mask);
}

/* One instruction of a group. */
static void
step(struct px_run *r, struct px_warp *w, uint32_t g)
{
    struct px_group *group = &w->groups[g];
    const struct px_insn *in = &r->kernel->code[group->pc];
    uint32_t mask;

    assert(w->groups[g].pc < r->kernel->n_code);
    if (!guarded(r, w, in, group->mask, &mask))
        return;
    r->report->n_lane_ops += count_lanes(mask);
    if (__builtin_expect(r->counts != NULL, 0))
        px_count_step(r->counts, in, mask, group->mask);
    if (!mask) {
        group->pc++;
    } else if (in->run == PX_RUN_ROWS) {
        px_do_rows(r, w, in, mask);
        group->pc++;
    } else if (in->run == PX_RUN_OTHER) {
        px_do(r, w, in, mask);
        group->pc++;
    } else if (in->run == PX_RUN_CONTROL) {
        control(r, w, g, mask, in);
    } else {
        collective(r, w, g, mask, in);
    }
    if (w->n_groups > 1)
        merge(w);
}

/* ---- turns ---- */

/* Why the launch ends before its end; SIM_PTX_OK: it goes on. */
static enum sim_ptx_fault
must_end(const struct px_run *r)
{
    const struct sim_ptx_launch *l = r->launch;

    if (l->stop && atomic_load_explicit(l->stop, memory_order_relaxed))
        return SIM_PTX_STOPPED;
    if (l->max_warp_steps && r->report->n_warp_steps >= l->max_warp_steps)
        return SIM_PTX_HUNG;
    return SIM_PTX_OK;
}

static void
end_early(struct px_run *r, const struct px_warp *w, uint32_t g,
          enum sim_ptx_fault fault)
{
    assert(g < w->n_groups);
    px_fault(r, w, px_first(w->groups[g].mask),
             &r->kernel->code[w->groups[g].pc], fault, 0,
             fault == SIM_PTX_STOPPED
                 ? "told to stop"
                 : "still runs after so many instructions");
}

/* Runs a warp for a turn; true if it did something. */
static bool
run_warp(struct px_run *r, struct px_warp *w)
{
    enum sim_ptx_fault end = must_end(r);
    uint32_t n, g;

    assert(w->n_groups <= PX_LANES);
    if (__builtin_expect(r->is_stepped, 0) && w->n_turns == 0)
        px_step_warp(r, w);
    for (n = 0; n < TURN && !r->failed; n++) {
        g = w->n_groups == 1 && w->groups[0].waits == PX_RUNS ? 0 : choose(w);
        if (g == w->n_groups)
            break;
        if (end != SIM_PTX_OK) {
            end_early(r, w, g, end);
            return true;
        }
        r->report->n_warp_steps++;
        if (__builtin_expect(r->is_stepped, 0))
            px_step_insn(r, w, g);
        step(r, w, g);
    }
    w->n_turns++;
    return n > 0;
}

/* ---- barriers ---- */

/* What bar.red gives: of all that wait, who says yes. */
struct verdict {
    uint32_t n_yes, n;
};

static bool
waits_at(const struct px_run *r, const struct px_group *g, int64_t id)
{
    return g->waits == PX_AT_BARRIER && r->kernel->code[g->pc].offset == id;
}

static uint32_t
count_waiting(struct px_run *r, int64_t id, struct verdict *v)
{
    uint32_t i, g, n = r->n_arrived[id];

    assert(id >= 0 && id < 16);
    for (i = 0; i < r->n_warps; i++) {
        const struct px_warp *w = &r->warps[i];
        for (g = 0; g < w->n_groups; g++) {
            const struct px_insn *in = &r->kernel->code[w->groups[g].pc];
            uint32_t mask = w->groups[g].mask;
            const uint32_t *p;
            if (!waits_at(r, &w->groups[g], id))
                continue;
            n += (uint32_t)__builtin_popcount(mask);
            if (in->op != PX_BAR_RED)
                continue;
            p = px_read(r, w, in, in->src[0], mask);
            if (!p)
                return 0;
            v->n += (uint32_t)__builtin_popcount(mask);
            v->n_yes += (uint32_t)__builtin_popcount(
                mask & (in->src2_negated ? ~*p : *p));
        }
    }
    return n;
}

static void
give_verdict(struct px_warp *w, const struct px_insn *in, uint32_t mask,
             const struct verdict *v)
{
    uint32_t *row, lane;

    assert(mask);
    if (in->mod[PX_MOD_MODE] == PX_ATOM_POPC) {
        row = px_write(w, in->dst, mask);
        for (lane = 0; lane < PX_LANES; lane++)
            row[lane] = mask >> lane & 1 ? v->n_yes : row[lane];
    } else {
        px_set_pred(w, in->dst, mask,
                    in->mod[PX_MOD_MODE] == PX_ATOM_AND
                        ? (v->n_yes == v->n ? PX_FULL : 0)
                        : (v->n_yes ? PX_FULL : 0));
    }
}

/* Lets go barrier `id` if enough wait there; true if it did. */
static bool
open_barrier(struct px_run *r, int64_t id, uint32_t want)
{
    struct verdict v = {0, 0};
    uint32_t i, g;

    assert(want > 0);
    if (count_waiting(r, id, &v) != want || r->failed)
        return false;
    for (i = 0; i < r->n_warps; i++) {
        struct px_warp *w = &r->warps[i];
        for (g = 0; g < w->n_groups; g++) {
            struct px_group *group = &w->groups[g];
            const struct px_insn *in = &r->kernel->code[group->pc];
            if (!waits_at(r, group, id))
                continue;
            if (in->op == PX_BAR_RED)
                give_verdict(w, in, group->mask, &v);
            group->waits = PX_RUNS;
            group->pc++;
        }
        merge(w);
    }
    r->n_arrived[id] = 0;
    if (r->counts)
        r->counts->n_barriers++;
    px_shared_barrier(r);
    return true;
}

static void
nobody_comes(struct px_run *r)
{
    const struct px_group *g = NULL;
    const struct px_warp *w = r->warps;
    const char *what = "waits for lanes that wait elsewhere";
    uint32_t i;

    for (i = 0; i < r->n_warps && !g; i++) {
        w = &r->warps[i];
        g = w->n_groups ? &w->groups[0] : NULL;
    }
    if (!g)
        return;
    if (g->waits == PX_AT_BARRIER)
        what = r->n_exited ? "waits for threads that have left"
                           : "waits for threads that wait elsewhere";
    px_fault(r, w, px_first(g->mask), &r->kernel->code[g->pc], SIM_PTX_BARRIER,
             0, what);
}

/* No warp can run: opens a barrier, or says that none can be. All threads of
 * a block are those that have not left. */
static void
meet_barrier(struct px_run *r)
{
    uint32_t i, g;

    for (i = 0; i < r->n_warps; i++) {
        const struct px_warp *w = &r->warps[i];
        for (g = 0; g < w->n_groups && !r->failed; g++) {
            const struct px_insn *in = &r->kernel->code[w->groups[g].pc];
            if (w->groups[g].waits == PX_AT_BARRIER &&
                open_barrier(r, in->offset,
                             in->target ? in->target
                                        : r->n_threads - r->n_exited))
                return;
        }
    }
    if (!r->failed)
        nobody_comes(r);
}

/* ---- blocks ---- */

void
px_run_block(struct px_run *r)
{
    const struct sim_ptx_mem *mem = &r->launch->mem;
    uint32_t i;
    bool busy;

    assert(r->n_warps * PX_LANES >= r->n_threads);
    while (r->n_exited < r->n_threads && !r->failed) {
        busy = false;
        for (i = 0; i < r->n_warps && !r->failed; i++) {
            if (r->warps[i].n_groups == 0)
                continue;
            if (mem->pause && mem->pause(mem->user))
                memset(r->tlb, 0, sizeof(r->tlb));
            busy |= run_warp(r, &r->warps[i]);
        }
        if (!busy)
            meet_barrier(r);
    }
}
