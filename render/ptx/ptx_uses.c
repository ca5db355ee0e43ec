/* What becomes of values, found before code is made.
 *
 * An ACC_GET is a copy of a variable only where something reads it after the
 * variable was set again; else it is that variable. A CAST to halves that
 * matrix instructions alone read is made two at a time, in the words that they
 * take, without a register for each.
 */
#include "render/ptx/ptx_internal.h"

#include <assert.h>

/* What is known of the ops behind the present one. */
struct uses {
    struct ptx_emit *e;
    /* By id: the last op that reads it, or what may be in the same registers;
     * the first op that sets an ACC << 32 | the loop that it is in. A loop that
     * sets it is, for what is outside, one op where it begins. */
    struct map last, sets;
    uint32_t *accs, n_accs; /* ids of those with `sets` */
    bool failed;
};

/* Is its result perhaps in the registers of a source? */
static bool
may_share(const struct uop *u)
{
    switch (u->op) {
    case UOP_LANE:
    case UOP_LANES:
    case UOP_BROADCAST:
    case UOP_CAST:
    case UOP_BITCAST:
    case UOP_NEG:
        return true;
    default:
        return false;
    }
}

static bool
is_packable(const struct uop *u)
{
    return u->op == UOP_CAST && u->lanes % 2 == 0 &&
           (u->dtype == UOP_F16 || u->dtype == UOP_BF16) &&
           u->src[0]->dtype == UOP_F32;
}

static void
put(struct uses *s, struct map *map, const struct uop *u, uint64_t value)
{
    s->failed |= map_put(map, u->id, value) < 0;
}

static void
note_sources(struct uses *s, const struct uop *u, uint32_t at)
{
    const uint64_t *old, *own = may_share(u) ? map_get(&s->last, u->id) : NULL;
    uint64_t last = own && *own > at ? *own : at;
    uint32_t i;

    for (i = 0; i < u->n_src; i++) {
        const struct uop *src = u->src[i];
        if (is_packable(src) && !(u->op == UOP_WMMA && i < 2) &&
            u->op != UOP_WGMMA_HELD)
            put(s, &s->e->split, src, 1);
        if (!may_share(src) && src->op != UOP_ACC_GET)
            continue;
        old = map_get(&s->last, src->id);
        if (!old || *old < last)
            put(s, &s->last, src, last);
    }
}

static void
note_set(struct uses *s, uint32_t acc, uint32_t at, uint32_t loop)
{
    assert(s->n_accs <= s->e->prog->n_ops);
    if (!map_get(&s->sets, acc))
        s->accs[s->n_accs++] = acc;
    s->failed |= map_put(&s->sets, acc, (uint64_t)at << 32 | loop) < 0;
}

/* The loop begins, which is in loop `outer`. */
static void
leave_loop(struct uses *s, uint32_t at, uint32_t loop, uint32_t outer)
{
    uint32_t i;

    assert(outer != loop);
    for (i = 0; i < s->n_accs && !s->failed; i++) {
        if ((uint32_t)*map_get(&s->sets, s->accs[i]) == loop)
            note_set(s, s->accs[i], at, outer);
    }
}

/* What sets it next is in the same loop, behind what reads it. */
static void
note_get(struct uses *s, const struct uop *u, uint32_t loop)
{
    const uint64_t *set = map_get(&s->sets, uop_memory(u->src[0])->id),
                   *last = map_get(&s->last, u->id);

    assert(u->op == UOP_ACC_GET);
    if (!set || ((uint32_t)*set == loop && (!last || *last <= *set >> 32)))
        put(s, &s->e->in_place, u, 1);
}

bell_status
ptx_find_uses(struct ptx_emit *e)
{
    struct uses s = {.e = e};
    uint32_t at, i, n_loops = 0, *loops;

    loops = arena_alloc(&e->arena, (e->prog->n_ops + 1) * sizeof(*loops));
    s.accs = arena_alloc(&e->arena, (e->prog->n_ops + 1) * sizeof(*s.accs));
    if (!loops || !s.accs)
        return ptx_no_memory(e);
    map_init(&s.last);
    map_init(&s.sets);
    loops[0] = 0;
    for (at = e->prog->n_ops; at-- > 0;) {
        const struct uop *u = e->ops[at];
        if (u->op == UOP_END) {
            loops[++n_loops] = at + 1;
        } else if (u->op == UOP_RANGE && n_loops) {
            n_loops--;
            leave_loop(&s, at, loops[n_loops + 1], loops[n_loops]);
        } else if (u->op == UOP_ACC_GET) {
            note_get(&s, u, loops[n_loops]);
        }
        for (i = 0; i < u->n_src && u->op != UOP_ACC_GET; i++) {
            const struct uop *acc = uop_memory(u->src[i]);
            if (acc->op == UOP_ACC)
                note_set(&s, acc->id, at, loops[n_loops]);
        }
        note_sources(&s, u, at);
    }
    map_fini(&s.last);
    map_fini(&s.sets);
    return s.failed ? ptx_no_memory(e) : BELL_OK;
}

bool
ptx_is_in_place(const struct ptx_emit *e, const struct uop *get)
{
    assert(get->op == UOP_ACC_GET);
    return map_get(&e->in_place, get->id) != NULL;
}

bool
ptx_is_packed(const struct ptx_emit *e, const struct uop *u)
{
    return is_packable(u) && !map_get(&e->split, u->id);
}
