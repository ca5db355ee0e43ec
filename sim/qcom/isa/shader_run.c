/* Waves and work-groups of Adreno's shaders: who runs when, where threads part
 * and meet.
 *
 * src: docs/hardware/adreno-code.md, "Control flow", "Barriers";
 * docs/hardware/adreno-queues.md, "Numbers of items"
 */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "sim/qcom/isa/shader_internal.h"

#define SLICE 48u /* instructions of a wave, before another has its turn */

static void
describe(struct shader_wave *w, const struct shader_insn *in, char *text,
         size_t cap)
{
    const struct shader_group *g = w->group;
    const struct shader_code *code = g->launch->code;

    snprintf(text, cap, "instruction %u, %s (%016llx), group %u %u %u, wave %u",
             in ? (unsigned)(in - code->insns) : w->pc,
             in ? shader_rows[in->op].text : "none",
             in ? (unsigned long long)in->word : 0ull, g->id[0], g->id[1],
             g->id[2], w->index);
}

bool
shader_fail(struct shader_wave *w, const struct shader_insn *in,
            const char *fmt, ...)
{
    struct shader_report *r = w->group->report;
    char what[160], where[160];
    va_list args;

    if (r->fault != SHADER_OK)
        return false;
    va_start(args, fmt);
    vsnprintf(what, sizeof(what), fmt, args);
    va_end(args);
    describe(w, in, where, sizeof(where));
    r->fault = SHADER_BAD;
    snprintf(r->text, sizeof(r->text), "%s: %s", where, what);
    return false;
}

bool
shader_fail_memory(struct shader_wave *w, const struct shader_insn *in,
                   uint64_t va, bool is_write)
{
    struct shader_report *r = w->group->report;

    if (r->fault != SHADER_OK)
        return false;
    (void)shader_fail(w, in, "0x%llx is not mapped%s", (unsigned long long)va,
                      is_write ? " to be written" : "");
    r->fault = SHADER_MEMORY;
    r->va = va;
    r->is_write = is_write;
    return false;
}

static bool
is_empty(const struct shader_mask *m)
{
    return !(m->w[0] | m->w[1]);
}

static bool
is_same(const struct shader_mask *a, const struct shader_mask *b)
{
    return a->w[0] == b->w[0] && a->w[1] == b->w[1];
}

/* ---- threads that part and meet ---- */

static bool
park(struct shader_wave *w, const struct shader_insn *in, uint32_t pc,
     struct shader_mask lanes)
{
    uint32_t i;

    for (i = 0; i < w->n_parked; i++) {
        if (w->parked[i].pc == pc) {
            w->parked[i].lanes.w[0] |= lanes.w[0];
            w->parked[i].lanes.w[1] |= lanes.w[1];
            shader_pipe_merge(&w->parked[i].pipe, &w->pipe);
            return true;
        }
    }
    if (w->n_parked >= w->group->launch->branch_depth ||
        w->n_parked >= SHADER_MAX_PARKED)
        return shader_fail(w, in, "threads wait at more than %u places",
                           w->group->launch->branch_depth);
    w->parked[w->n_parked].pc = pc;
    w->parked[w->n_parked].pipe = w->pipe;
    w->parked[w->n_parked++].lanes = lanes;
    return true;
}

/* Those with the lowest pc run; who stands there joins them. */
static bool
settle(struct shader_wave *w, const struct shader_insn *in)
{
    uint32_t best = 0, i;
    struct shader_parked those;
    int32_t now = w->pipe.now;

    if (w->n_parked == 0)
        return true;
    for (i = 1; i < w->n_parked; i++)
        best = w->parked[i].pc < w->parked[best].pc ? i : best;
    if (!is_empty(&w->active) && w->parked[best].pc > w->pc)
        return true;
    those = w->parked[best];
    w->parked[best] = w->parked[--w->n_parked];
    if (!is_empty(&w->active) && those.pc < w->pc) {
        if (!park(w, in, w->pc, w->active))
            return false;
        w->active = (struct shader_mask){{0}};
    }
    if (is_empty(&w->active))
        w->pipe = those.pipe;
    else
        shader_pipe_merge(&w->pipe, &those.pipe);
    w->pipe.now = now;
    w->active.w[0] |= those.lanes.w[0];
    w->active.w[1] |= those.lanes.w[1];
    w->pc = those.pc;
    w->must_join = true;
    return true;
}

/* Those of `taken` go to another place. */
static bool
part(struct shader_wave *w, const struct shader_insn *in,
     struct shader_mask taken, uint32_t target)
{
    struct shader_mask rest = {
        {w->active.w[0] & ~taken.w[0], w->active.w[1] & ~taken.w[1]}};
    uint32_t next = w->pc + 1;

    if (w->is_predicated)
        return shader_fail(w, in, "a branch within a predication");
    if (w->group->counts) {
        w->group->counts->n_branches++;
        w->group->counts->n_divergent += !is_empty(&rest) && !is_empty(&taken);
    }
    if (is_empty(&taken) || is_empty(&rest)) {
        w->pc = is_empty(&taken) ? next : target;
        return true;
    }
    if (target <= next) {
        w->active = taken;
        w->pc = target;
        return park(w, in, next, rest);
    }
    w->active = rest;
    w->pc = next;
    return park(w, in, target, taken);
}

static bool
predicate(struct shader_wave *w, const struct shader_insn *in, uint32_t comp,
          bool inverted, struct shader_mask *out)
{
    if (!(w->p_set >> comp & 1))
        return shader_fail(w, in, "p0.%c is read and was never set",
                           "xyzw"[comp]);
    *out = w->p[comp];
    if (inverted) {
        out->w[0] = ~out->w[0];
        out->w[1] = ~out->w[1];
    }
    out->w[0] &= w->active.w[0];
    out->w[1] &= w->active.w[1];
    return true;
}

static bool
branch(struct shader_wave *w, const struct shader_insn *in)
{
    uint32_t target = w->pc + (uint32_t)in->imm;
    struct shader_mask a, b;

    if (!predicate(w, in, in->comp1, in->inv1, &a))
        return false;
    switch ((int)in->op) {
    case SHADER_BRAO:
    case SHADER_BRAA:
        if (!predicate(w, in, in->comp2, in->inv2, &b))
            return false;
        if (in->op == SHADER_BRAO)
            a = (struct shader_mask){{a.w[0] | b.w[0], a.w[1] | b.w[1]}};
        else
            a = (struct shader_mask){{a.w[0] & b.w[0], a.w[1] & b.w[1]}};
        break;
    case SHADER_BANY:
        a = is_empty(&a) ? a : w->active;
        break;
    case SHADER_BALL:
        a = is_same(&a, &w->active) ? a : (struct shader_mask){{0}};
        break;
    }
    return part(w, in, a, target);
}

/* All but the first go on elsewhere. */
static bool
elect(struct shader_wave *w, const struct shader_insn *in)
{
    struct shader_mask others = w->active;

    if (others.w[0])
        others.w[0] &= others.w[0] - 1;
    else
        others.w[1] &= others.w[1] - 1;
    return part(w, in, others, w->pc + (uint32_t)in->imm);
}

static bool
predication(struct shader_wave *w, const struct shader_insn *in)
{
    int32_t now = w->pipe.now, quiet = w->pipe.quiet_until;
    struct shader_pipe aside;
    struct shader_mask lanes;

    if (in->op == SHADER_PREDE) {
        if (!w->is_predicated)
            return shader_fail(w, in, "ends no predication");
        shader_pipe_merge(&w->pipe, &w->aside);
        w->active = w->outer;
        w->is_predicated = false;
    } else if (!w->is_predicated) {
        w->aside = w->pipe;
        w->outer = w->active;
        w->is_predicated = true;
    } else {
        aside = w->aside;
        w->aside = w->pipe;
        w->pipe = aside;
    }
    w->pipe.now = now;
    w->pipe.quiet_until = quiet;
    if (w->is_predicated) {
        w->active = w->outer;
        if (!predicate(w, in, 0, in->op == SHADER_PREDF, &lanes))
            return false;
        w->active = lanes;
    }
    w->pc++;
    return true;
}

static bool
finish_threads(struct shader_wave *w, const struct shader_insn *in)
{
    if (w->group->launch->ends_locked && w->locked != 2)
        return shader_fail(w, in, "no lock and unlock before it");
    if (w->is_predicated)
        return shader_fail(w, in, "within a predication");
    w->all.w[0] &= ~w->active.w[0];
    w->all.w[1] &= ~w->active.w[1];
    w->active = (struct shader_mask){{0}};
    w->has_ended = w->n_parked == 0;
    return true;
}

static bool
flow(struct shader_wave *w, const struct shader_insn *in)
{
    switch ((int)in->op) {
    case SHADER_NOP:
    case SHADER_SHPS:
    case SHADER_SHPE:
        w->pc++;
        return true;
    case SHADER_BR:
    case SHADER_BRAO:
    case SHADER_BRAA:
    case SHADER_BANY:
    case SHADER_BALL:
        return branch(w, in);
    case SHADER_JUMP:
        if (w->is_predicated)
            return shader_fail(w, in, "a jump within a predication");
        w->pc += (uint32_t)in->imm;
        return true;
    case SHADER_GETONE:
        return elect(w, in);
    case SHADER_PREDT:
    case SHADER_PREDF:
    case SHADER_PREDE:
        return predication(w, in);
    case SHADER_END:
        return finish_threads(w, in);
    }
    return shader_fail(w, in, "is not known here");
}

static bool
synchronise(struct shader_wave *w, const struct shader_insn *in)
{
    switch ((int)in->op) {
    case SHADER_BAR:
        if (!is_same(&w->active, &w->all) || w->is_predicated)
            return shader_fail(w, in, "not all threads of the wave reach it");
        w->at_barrier = true;
        break;
    case SHADER_LOCK:
        if (!in->ss || !in->sy)
            return shader_fail(w, in, "without (sy)(ss)");
        w->locked = 1;
        break;
    case SHADER_UNLOCK:
        if (w->locked != 1)
            return shader_fail(w, in, "without a lock");
        w->locked = 2;
        break;
    case SHADER_FENCE:
    case SHADER_CCINV:
        break;
    default:
        return shader_fail(w, in, "is not known here");
    }
    w->pc++;
    return true;
}

/* ---- waves ---- */

static enum sim_insn
class_of(const struct shader_insn *in)
{
    switch (in->cat) {
    case 0:
    case 7:
        return SIM_INSN_CONTROL;
    case 1:
        return SIM_INSN_OTHER;
    case 2:
        return in->op <= SHADER_TRUNC_F ? SIM_INSN_FLOAT : SIM_INSN_OTHER;
    case 3:
        return in->op == SHADER_MAD_F32 || in->op == SHADER_MAD_F16
                   ? SIM_INSN_FLOAT
                   : SIM_INSN_OTHER;
    case 4:
        return SIM_INSN_SPECIAL;
    default:
        if (in->op == SHADER_LDC) /* elsewhere an instruction may not be a
                                   * constant */
            return SIM_INSN_OTHER;
        if (in->op == SHADER_LDP || in->op == SHADER_STP)
            return SIM_INSN_LOCAL;
        return in->op == SHADER_LDL || in->op == SHADER_STL ||
                       (in->layout == SHADER_AS_ATOMIC_AT &&
                        !(in->word >> 52 & 1))
                   ? SIM_INSN_SHARED
                   : SIM_INSN_GLOBAL;
    }
}

static bool
execute(struct shader_wave *w, const struct shader_insn *in)
{
    bool ok;

    switch ((int)in->layout) {
    case SHADER_AS_FLOW:
        return flow(w, in);
    case SHADER_AS_SYNC:
        return synchronise(w, in);
    case SHADER_AS_OTHER:
        return shader_fail(w, in, "is not known here");
    case SHADER_AS_MOVE:
    case SHADER_AS_SWIZZLE:
    case SHADER_MOVMSK:
    case SHADER_AS_ALU1:
    case SHADER_AS_ALU2:
    case SHADER_AS_ALU3:
    case SHADER_AS_ALU3B:
    case SHADER_AS_SFU:
        ok = shader_alu(w, in);
        break;
    default:
        ok = shader_memory(w, in);
    }
    w->pc++;
    return ok;
}

/* Up to n instructions. */
static bool
run_slice(struct shader_wave *w, uint32_t n)
{
    struct shader_group *g = w->group;
    const struct shader_code *code = g->launch->code;
    const struct shader_insn *in;

    while (n-- && !w->has_ended && !w->at_barrier) {
        if (w->pc >= code->n)
            return shader_fail(w, NULL, "runs out of the code");
        in = &code->insns[w->pc];
        if (w->must_join && !in->jp)
            return shader_fail(w, in, "threads meet without (jp)");
        w->must_join = false;
        g->report->n_insns++;
        if (g->counts)
            g->counts->n_insns[class_of(in)]++;
        if (!shader_issue(w, in) || !execute(w, in) ||
            (!w->is_predicated && !settle(w, in)))
            return false;
    }
    return true;
}

/* A register of three numbers, or one, that a thread finds at its beginning. */
static void
preset(struct shader_wave *w, uint32_t reg, uint32_t lane, const uint32_t *v,
       uint32_t n)
{
    uint32_t i;

    for (i = 0; reg != SHADER_NO_REG && i < n; i++, reg++) {
        if (reg >= SHADER_FULLS && reg < SHADER_FULLS + SHADER_SHAREDS) {
            w->shared[reg - SHADER_FULLS] = v[i];
            w->shared_set |= 1u << (reg - SHADER_FULLS);
        } else if (reg < SHADER_FULLS) {
            w->r[reg][lane] = v[i];
            w->set[2 * reg].w[lane / 64] |= 1ull << (lane & 63);
            w->set[2 * reg + 1].w[lane / 64] |= 1ull << (lane & 63);
        }
    }
}

static void
begin_wave(struct shader_group *g, uint32_t index)
{
    const struct shader_launch *l = g->launch;
    struct shader_wave *w = &g->waves[index];
    uint32_t first = index * l->lanes, lane, t, offset[3];

    w->group = g;
    w->index = index;
    w->n_lanes = l->lanes;
    w->pc = 0;
    w->all = (struct shader_mask){{0}};
    w->is_predicated = w->at_barrier = w->has_ended = w->must_join = false;
    w->locked = 0;
    w->n_parked = 0;
    w->shared_set = w->p_set = 0;
    memset(w->set, 0, sizeof(w->set));
    memset(w->a0, 0, sizeof(w->a0));
    shader_pipe_init(&w->pipe);
    for (t = 0; t < 3; t++)
        offset[t] = g->id[t] * l->local[t];
    preset(w, l->group_id, 0, g->id, 3);
    preset(w, l->group_size, 0, l->local, 3);
    preset(w, l->group_offset, 0, offset, 3);
    for (lane = 0; lane < l->lanes && first + lane < g->n_threads; lane++) {
        uint32_t id[3];
        t = first + lane;
        id[0] = t % l->local[0];
        id[1] = t / l->local[0] % l->local[1];
        id[2] = t / l->local[0] / l->local[1];
        w->all.w[lane / 64] |= 1ull << (lane & 63);
        preset(w, l->local_id, lane, id, 3);
        preset(w, l->linear_id, lane, &t, 1);
    }
    w->active = w->all;
}

/* ---- groups ---- */

static uint32_t
next_random(struct shader_group *g)
{
    g->random = g->random * 1664525u + 1013904223u;
    return g->random >> 8;
}

/* All wait: they go on; some have ended: nothing comes. */
static bool
release(struct shader_group *g)
{
    uint32_t i;

    for (i = 0; i < g->n_waves; i++) {
        if (!g->waves[i].at_barrier) {
            (void)shader_fail(&g->waves[i], NULL,
                              "some wait at a barrier for those that ended");
            g->report->fault = SHADER_HUNG;
            return false;
        }
    }
    for (i = 0; i < g->n_waves; i++)
        g->waves[i].at_barrier = false;
    if (g->counts)
        g->counts->n_barriers++;
    return true;
}

static bool
is_out_of_time(struct shader_group *g)
{
    const struct shader_launch *l = g->launch;

    if (l->stop && atomic_load_explicit(l->stop, memory_order_relaxed)) {
        g->report->fault = SHADER_STOPPED;
        snprintf(g->report->text, sizeof(g->report->text), "it was stopped");
        return true;
    }
    if (l->max_insns && g->report->n_insns - g->insns_before > l->max_insns) {
        (void)shader_fail(
            &g->waves[0], NULL, "%llu instructions and no end",
            (unsigned long long)(g->report->n_insns - g->insns_before));
        g->report->fault = SHADER_HUNG;
        return true;
    }
    return false;
}

static bool
run_group(struct shader_group *g)
{
    uint32_t i, first, n_ended;
    bool ran;

    memset(g->shared, 0xa5, sizeof(g->shared));
    g->insns_before = g->report->n_insns;
    for (i = 0; i < g->n_waves; i++)
        begin_wave(g, i);
    do {
        if (is_out_of_time(g))
            return false;
        ran = false;
        n_ended = 0;
        first = next_random(g) % g->n_waves;
        for (i = 0; i < g->n_waves; i++) {
            struct shader_wave *w = &g->waves[(first + i) % g->n_waves];
            if (!w->has_ended && !w->at_barrier) {
                ran = true;
                if (!run_slice(w, g->n_waves == 1
                                      ? 100000
                                      : SLICE + next_random(g) % SLICE))
                    return false;
            }
            n_ended += w->has_ended;
        }
        if (!ran && n_ended < g->n_waves && !release(g))
            return false;
    } while (n_ended < g->n_waves);
    return true;
}

static bool
check_launch(const struct shader_launch *l, struct shader_report *report)
{
    uint64_t n = (uint64_t)l->local[0] * l->local[1] * l->local[2];
    const char *why = NULL;

    if (n == 0 || n > SHADER_MAX_LOCAL || l->local[0] > SHADER_MAX_LOCAL ||
        l->local[1] > SHADER_MAX_LOCAL || l->local[2] > SHADER_MAX_LOCAL)
        why = "a work-group of no threads, or of more than 1024";
    else if (l->lanes != 64 && l->lanes != 128)
        why = "waves of neither 64 nor 128 threads";
    else if ((n + l->lanes - 1) / l->lanes > l->n_waves_max)
        why = "a work-group that does not fit a processor";
    else if (l->shared_bytes > sizeof(((struct shader_group *)0)->shared))
        why = "more local memory than there is";
    if (!why)
        return true;
    report->fault = SHADER_BAD;
    snprintf(report->text, sizeof(report->text), "%s", why);
    return false;
}

enum shader_fault
shader_run(const struct shader_launch *launch, struct shader_report *report)
{
    struct shader_group *g;
    struct sim_counts counts;
    uint64_t n, most = 0, n_run, step, i, at = 0;
    bool counts_on = sim_count_on(&most);

    memset(report, 0, sizeof(*report));
    if (!check_launch(launch, report))
        return report->fault;
    n = (uint64_t)launch->grid[0] * launch->grid[1] * launch->grid[2];
    g = host_calloc(1, sizeof(*g));
    if (g) {
        g->launch = launch;
        g->report = report;
        g->n_threads = launch->local[0] * launch->local[1] * launch->local[2];
        g->n_waves = (g->n_threads + launch->lanes - 1) / launch->lanes;
        g->random = (uint32_t)launch->seed;
        g->waves = host_calloc(g->n_waves, sizeof(*g->waves));
    }
    if (!g || !g->waves) {
        host_free(g);
        report->fault = SHADER_NO_ROOM;
        snprintf(report->text, sizeof(report->text), "no memory for waves");
        return report->fault;
    }
    n_run = n;
    step = 1;
    if (counts_on) {
        memset(&counts, 0, sizeof(counts));
        counts.n_groups = n;
        g->counts = &counts;
        step = sim_count_step(n, most, &n_run);
    }
    for (i = 0; i < n_run && report->fault == SHADER_OK; i++) {
        g->number = (uint32_t)at;
        g->id[0] = (uint32_t)(at % launch->grid[0]);
        g->id[1] = (uint32_t)(at / launch->grid[0] % launch->grid[1]);
        g->id[2] = (uint32_t)(at / launch->grid[0] / launch->grid[1]);
        (void)run_group(g);
        if (g->counts)
            counts.n_groups_run++;
        at = (at + step) % n;
    }
    if (counts_on)
        sim_count_add(&counts);
    host_free(g->waves);
    host_free(g);
    return report->fault;
}
