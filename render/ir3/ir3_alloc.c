/* Registers of the chip for virtual ones: in the order in which they begin to
 * live, the first that is free. What finds none sends those that live longest
 * to private memory, or arguments back to where they came from, and all begins
 * anew.
 *
 * A register lives from the first place where it is set to the last where it is
 * used, and to the end of a loop that it was there before. Loops are branches
 * back; everything else goes forward.
 */
#include "render/ir3/ir3_emit.h"

#include <assert.h>
#include <stdlib.h>

#include "base/bits.h"

#define N_REGS      192u
#define N_HALF_REGS 96u /* whole ones that halves lie in */
#define WAVE        64u
#define FREE_REGS   32u   /* 16 waves fit with so many, of each chip */
#define N_SPILLS    8u    /* at a time */
#define MAX_SLOTS   1000u /* of 4 bytes: what an instruction reaches */

static bool
is_memory(enum ir3_op op)
{
    return op == IR3_LDG || op == IR3_LDL || op == IR3_LDP;
}

static void
touch(struct ir3_vreg *v, uint32_t at)
{
    assert(v->n >= 1 && v->n <= 4);
    if (v->first > at)
        v->first = at;
    if (v->last < at)
        v->last = at;
}

/* Places are twice an instruction's number, plus one for what it sets. A load
 * reads its address late: that one lives on until the result is there. */
static void
find_lives(struct ir3_emit *e)
{
    uint32_t i, j;

    for (i = 0; i < e->n_vregs; i++) {
        e->vregs[i].first = UINT32_MAX;
        e->vregs[i].last = 0;
    }
    for (i = 0; i < e->n_insns; i++) {
        const struct ir3_insn *in = &e->insns[i];
        if (in->dst.kind == IR3_REG)
            touch(&e->vregs[in->dst.v], 2 * i + 1);
        for (j = 0; j < ARRAY_LEN(in->src); j++) {
            if (in->src[j].kind == IR3_REG)
                touch(&e->vregs[in->src[j].v], 2 * i + is_memory(in->op));
        }
    }
    if (e->vregs[e->tid.v].first != UINT32_MAX)
        e->vregs[e->tid.v].first = 0; /* the chip sets it */
}

/* Ends of loops in order: inner ones before those around them. */
static bell_status
extend_lives(struct ir3_emit *e)
{
    uint32_t *at = arena_alloc(&e->arena, (e->n_labels + 1) * sizeof(*at));
    uint32_t i, k, top;

    if (!at)
        return bell_fail(BELL_E_NO_MEMORY, "rendering %s: out of memory",
                         e->prog->name);
    for (i = 0; i < e->n_insns; i++) {
        if (e->insns[i].op == IR3_OP_COUNT)
            at[e->insns[i].off] = i;
    }
    /* a label behind the branch is met later: it is not a loop's */
    for (i = 0; i < e->n_insns; i++) {
        if (e->insns[i].op != IR3_BR || at[e->insns[i].off] > i)
            continue;
        top = 2 * at[e->insns[i].off];
        for (k = 1; k < e->n_vregs; k++) {
            struct ir3_vreg *v = &e->vregs[k];
            if (v->first < top && v->last >= top && v->last < 2 * i + 1)
                v->last = 2 * i + 1;
        }
    }
    return BELL_OK;
}

/* ---- the scan ---- */

struct scan {
    struct ir3_emit *e;
    uint32_t limit;         /* registers that there are */
    uint32_t owner[N_REGS]; /* virtual register; 0: free */
    uint32_t *order, n;     /* by where they begin */
    uint32_t *active, n_active;
    bool rotates;
    uint32_t high; /* behind the last that was used, or costs nothing */
    uint32_t next; /* behind the newest */
};

/* A work-group's waves are on a unit at once, else those that wait for the
 * others wait for ever: the more there are, the fewer registers each has. A
 * unit has four times this many for two waves. src:
 * docs/hardware/adreno-queues.md, "Occupancy"; docs/hardware/adreno.md, "Chips"
 * (64 is the least of Adreno 6xx: a650, a660, a690) */
static uint32_t
register_limit(const struct ir3_emit *e)
{
    const uint32_t *local = e->prog->local;
    uint32_t n_vec4 = e->gen == IR3_GEN_A6XX ? 64 : 96;
    uint32_t n_waves =
        (uint32_t)div_up((uint64_t)local[0] * local[1] * local[2], WAVE);
    uint32_t n = 4 * (2 * n_vec4 / n_waves);

    assert(n_waves > 0);
    return n < N_REGS ? n : N_REGS;
}

static uint32_t
width(const struct ir3_vreg *v)
{
    return v->is_half ? (v->n + 1u) / 2 : v->n;
}

static uint32_t
place_of(const struct ir3_vreg *v)
{
    return v->is_half ? (uint32_t)v->reg / 2 : (uint32_t)v->reg;
}

static void
expire(struct scan *s, uint32_t now)
{
    uint32_t i, k, n = 0;

    for (i = 0; i < s->n_active; i++) {
        const struct ir3_vreg *v = &s->e->vregs[s->active[i]];
        if (v->last >= now) {
            s->active[n++] = s->active[i];
            continue;
        }
        for (k = 0; k < width(v); k++)
            s->owner[place_of(v) + k] = 0;
    }
    s->n_active = n;
}

static bool
is_free(const struct scan *s, uint32_t at, uint32_t n, uint32_t limit)
{
    uint32_t k;

    for (k = 0; k < n; k++) {
        if (at + k >= limit || s->owner[at + k])
            return false;
    }
    return true;
}

/* Where it fits, or N_REGS. Single ones go round through those that were in use
 * before: a register that was just free can be set only behind who read it, so
 * that order is left to be chosen (ir3_schedule.c). */
static uint32_t
find_free(const struct scan *s, const struct ir3_vreg *v)
{
    uint32_t limit =
        v->is_half && s->limit > N_HALF_REGS ? N_HALF_REGS : s->limit;
    uint32_t n = width(v), at;

    if (v->hint && s->e->vregs[v->hint - 1].reg >= 0 && !v->is_half &&
        !s->e->vregs[v->hint - 1].is_half) {
        at = (uint32_t)s->e->vregs[v->hint - 1].reg;
        if (is_free(s, at, n, limit))
            return at;
    }
    for (at = s->next; s->rotates && n == 1 && at < s->high; at++) {
        if (is_free(s, at, n, limit))
            return at;
    }
    for (at = 0; at + n <= limit; at++) {
        if (is_free(s, at, n, limit))
            return at;
    }
    return N_REGS;
}

static void
take(struct scan *s, uint32_t number, uint32_t at)
{
    struct ir3_vreg *v = &s->e->vregs[number];
    uint32_t k;

    assert(is_free(s, at, width(v), s->limit) && v->reg < 0);
    v->reg = (int32_t)(v->is_half ? 2 * at : at);
    for (k = 0; k < width(v); k++)
        s->owner[at + k] = number;
    s->active[s->n_active++] = number;
    if (s->high < at + width(v))
        s->high = at + width(v);
    s->next = at + width(v);
}

static bool
can_spill(const struct ir3_emit *e, uint32_t number)
{
    const struct ir3_vreg *v = &e->vregs[number];

    return (v->n == 1 || v->is_arg) && !v->is_half && !v->is_scratch &&
           !v->is_spilled && v->last - v->first > 8;
}

/* Arguments, which nobody has to store, before others; then those that live
 * longest. */
static bool
spills_before(const struct ir3_vreg *v, const struct ir3_vreg *other)
{
    return v->is_arg != other->is_arg ? v->is_arg : v->last > other->last;
}

/* Marks some of those that live from here on. */
static bool
choose_spills(struct scan *s, uint32_t number)
{
    struct ir3_emit *e = s->e;
    uint32_t n, i, best;

    assert(!s->rotates);
    for (n = 0; n < N_SPILLS; n++) {
        best = can_spill(e, number) ? number : 0;
        for (i = 0; i < s->n_active; i++) {
            if (can_spill(e, s->active[i]) &&
                (!best ||
                 spills_before(&e->vregs[s->active[i]], &e->vregs[best])))
                best = s->active[i];
        }
        if (!best)
            break;
        e->vregs[best].is_spilled = true;
        if (e->vregs[best].is_arg)
            continue;
        e->vregs[best].slot = e->private_bytes / 4;
        e->private_bytes += 4;
    }
    return n > 0 && e->private_bytes / 4 <= MAX_SLOTS;
}

static int
by_first(const void *a, const void *b, void *user)
{
    const struct ir3_vreg *vregs = user;
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;

    if (vregs[x].first != vregs[y].first)
        return vregs[x].first < vregs[y].first ? -1 : 1;
    return x < y ? -1 : x > y;
}

/* *out_done is false where there was not room for all; if not `rotates`, some
 * were marked to be spilled then. */
static bell_status
scan_all(struct ir3_emit *e, bool rotates, bool *out_done)
{
    struct scan s = {.e = e, .limit = register_limit(e), .rotates = rotates};
    uint32_t i, at;

    s.high = s.limit < FREE_REGS ? s.limit : FREE_REGS;
    s.order = arena_alloc(&e->arena, e->n_vregs * sizeof(*s.order));
    s.active = arena_alloc(&e->arena, e->n_vregs * sizeof(*s.active));
    if (!s.order || !s.active)
        return bell_fail(BELL_E_NO_MEMORY, "rendering %s: out of memory",
                         e->prog->name);
    for (i = 1; i < e->n_vregs; i++) {
        if (e->vregs[i].first != UINT32_MAX)
            s.order[s.n++] = i;
        e->vregs[i].reg = -1;
    }
    qsort_r(s.order, s.n, sizeof(*s.order), by_first, e->vregs);
    *out_done = true;
    for (i = 0; i < s.n; i++) {
        struct ir3_vreg *v = &e->vregs[s.order[i]];
        expire(&s, v->first);
        at = s.order[i] == e->tid.v ? 0 : find_free(&s, v);
        if (at != N_REGS) {
            take(&s, s.order[i], at);
            continue;
        }
        *out_done = false;
        if (rotates || choose_spills(&s, s.order[i]))
            return BELL_OK;
        return bell_fail(BELL_E_COMPILE,
                         "%s: more values at once than registers and private "
                         "memory hold",
                         e->prog->name);
    }
    return BELL_OK;
}

/* ---- spilling ---- */

static void
add_spill(struct ir3_emit *e, enum ir3_op op, struct ir3_opnd value,
          uint32_t slot)
{
    struct ir3_insn *in = ir3_add(e, op);

    assert(slot < MAX_SLOTS && (op == IR3_LDP || op == IR3_STP));
    assert(e->zero.kind == IR3_REG);
    in->type = IR3_TYPE_U32;
    in->n = 1;
    in->off = (int32_t)(4 * slot);
    in->src[0] = e->zero;
    if (op == IR3_LDP)
        in->dst = value;
    else
        in->src[1] = value;
}

static struct ir3_opnd
ir3_scratch(struct ir3_emit *e, unsigned n)
{
    struct ir3_opnd r = ir3_vreg_new(e, n, false);

    if (!e->failed)
        e->vregs[r.v].is_scratch = true;
    return r;
}

/* `o`, which is spilled, in a register of its own: as many neighbours as the
 * source is. */
static struct ir3_opnd
fetch(struct ir3_emit *e, struct ir3_opnd o, unsigned n)
{
    uint32_t slot = e->vregs[o.v].slot;
    bool is_arg = e->vregs[o.v].is_arg;
    struct ir3_opnd r = ir3_scratch(e, is_arg ? n : 1);

    assert(e->vregs[o.v].is_spilled && (is_arg || n == 1));
    if (is_arg)
        ir3_load_args(e, r, slot + o.comp, n);
    else
        add_spill(e, IR3_LDP, r, slot);
    r.neg = o.neg;
    r.abs = o.abs;
    return r;
}

/* All instructions again, with loads and stores around the spilled. */
static bell_status
spill(struct ir3_emit *e)
{
    const struct ir3_insn *old = e->insns;
    uint32_t n_old = e->n_insns, i, j;
    bool is_first = e->private_bytes && e->zero.kind == IR3_NONE;

    e->insns = NULL;
    e->n_insns = e->cap_insns = 0;
    if (is_first) {
        e->zero = ir3_scratch(e, 1);
        ir3_move(e, e->zero, ir3_imm(0));
    }
    for (i = 0; i < n_old && !e->failed; i++) {
        struct ir3_insn in = old[i];
        uint32_t slot = 0;
        bool stores = false;
        for (j = 0; j < ARRAY_LEN(in.src); j++) {
            struct ir3_opnd *o = &in.src[j];
            if (o->kind == IR3_REG && e->vregs[o->v].is_spilled)
                *o = fetch(e, *o, ir3_source_width(&in, j));
        }
        if (in.dst.kind == IR3_REG && e->vregs[in.dst.v].is_spilled) {
            if (e->vregs[in.dst.v].is_arg)
                continue; /* it is loaded where it is used */
            slot = e->vregs[in.dst.v].slot;
            in.dst = ir3_scratch(e, 1);
            stores = true;
        }
        *ir3_add(e, in.op) = in;
        if (stores)
            add_spill(e, IR3_STP, in.dst, slot);
    }
    if (e->failed)
        return bell_fail(BELL_E_NO_MEMORY, "rendering %s: out of memory",
                         e->prog->name);
    /* those spilled are used no more */
    return BELL_OK;
}

bell_status
ir3_alloc(struct ir3_emit *e)
{
    bool rotates = true, done = false;

    while (!done) {
        find_lives(e);
        BELL_TRY(extend_lives(e));
        BELL_TRY(scan_all(e, rotates, &done));
        if (!done && !rotates)
            BELL_TRY(spill(e));
        rotates = false; /* holes cost room */
    }
    return BELL_OK;
}
