/* Moves what is only needed after a loop to behind it.
 *
 * A program lists every value in the outermost loop that it can be in, and
 * there as early as may be: the values that an epilogue loads and the indices
 * of its stores stand before the loop of the reduction and would fill its
 * registers. Code generators do not move loads across loops, so we do.
 *
 * Values that come from register variables stay: behind the loop their
 * sources would have to be kept instead.
 *
 * Programs list all LOADs of a body before what is done with them, too. Where a
 * code generator keeps about the order that it finds, as LLVM does for
 * processors, it keeps all of them in registers, or on the stack: there each
 * goes to its first use.
 */
#include "render/render_internal.h"

#include <assert.h>
#include <string.h>

#include "base/arena.h"
#include "base/map.h"

#define NOWHERE UINT32_MAX

/* A program under examination; arrays are by place in the list. */
struct order {
    const struct uop *const *ops;
    uint32_t n;
    struct map place;     /* uop id -> place */
    uint32_t *home;       /* innermost loop or conditional code around: place of
                           * its RANGE or IF, + 1 */
    uint32_t *n_loops;    /* RANGEs before this place */
    uint32_t *first_use;  /* place before which the value is needed */
    uint32_t *target;     /* where the op goes: before that place */
    uint32_t *next_store; /* by slot: nearest STORE behind the present place */
    uint32_t local_slot;  /* stands for all LOCAL memory */
    bool is_late;         /* LOADs go to their first use in a body, too */
    bool *is_fixed;       /* comes from a register variable, or has effects */
};

/* The place, in loop `home`, of what contains place `at`: itself, or the
 * RANGE of a loop or the IF around it. */
static uint32_t
place_in(const struct order *o, uint32_t at, uint32_t home)
{
    uint32_t loop = o->home[at];

    assert(at < o->n);
    while (loop != home) {
        if (loop == 0)
            return 0; /* not inside: a broken program */
        at = loop - 1;
        loop = o->home[at];
    }
    return at;
}

/* Fills place, home, n_loops and is_fixed. */
static bool
look_forward(struct order *o)
{
    uint32_t loop = 0, n_loops = 0, i, j;

    for (i = 0; i < o->n; i++) {
        const struct uop *u = o->ops[i];
        bool fixed = u->op == UOP_ACC_GET || u->op == UOP_RANGE ||
                     u->op == UOP_ACC || uop_has(u, UOP_FLAG_EFFECT);
        if ((u->op == UOP_END || u->op == UOP_ENDIF) && loop)
            loop = o->home[loop - 1];
        o->home[i] = loop;
        o->n_loops[i] = n_loops;
        /* the place of a LOAD is not a value: STOREs tell where it may go */
        for (j = o->is_late && u->op == UOP_LOAD; j < u->n_src && !fixed; j++) {
            const uint64_t *src = map_get(&o->place, u->src[j]->id);
            /* a loop's index is not a variable; it only cannot move itself */
            fixed = src && o->is_fixed[*src] && u->src[j]->op != UOP_RANGE;
        }
        o->is_fixed[i] = fixed;
        if (u->op == UOP_RANGE || u->op == UOP_IF)
            loop = i + 1;
        n_loops += u->op == UOP_RANGE;
        if (map_put(&o->place, u->id, i) < 0)
            return false;
    }
    return true;
}

/* The slot of memory, or NOWHERE. */
static uint32_t
slot_of(const struct order *o, const struct uop *place)
{
    const struct uop *memory = uop_memory(place);

    assert(memory->op != UOP_PARAM || memory->arg.i < o->local_slot);
    if (memory->op == UOP_PARAM)
        return (uint32_t)memory->arg.i;
    return memory->op == UOP_LOCAL && o->is_late ? o->local_slot : NOWHERE;
}

/* The op goes to its first use, if a loop lies between and no STORE to the
 * memory that it reads. */
static uint32_t
choose_target(const struct order *o, uint32_t i)
{
    const struct uop *u = o->ops[i];
    bool late = o->is_late && (u->op == UOP_LOAD || u->op == UOP_BROADCAST);
    uint32_t use = o->first_use[i], slot;

    assert(i < o->n);
    if (o->is_fixed[i] || use == NOWHERE || use <= i ||
        (o->n_loops[use] == o->n_loops[i] && !late))
        return i;
    if (u->op != UOP_LOAD)
        return use;
    slot = slot_of(o, u->src[0]);
    return slot == NOWHERE || o->next_store[slot] < use ? i : use;
}

/* Fills target, from the last op to the first, so that users come first. */
static void
look_back(struct order *o)
{
    uint32_t i, j;

    for (i = o->n; i-- > 0;) {
        const struct uop *u = o->ops[i];
        o->target[i] = choose_target(o, i);
        if (u->op == UOP_TILE_MATMUL)
            o->next_store[o->local_slot] = i;
        else if (u->op == UOP_STORE && slot_of(o, u->src[0]) != NOWHERE)
            o->next_store[slot_of(o, u->src[0])] = i;
        for (j = 0; j < u->n_src; j++) {
            const uint64_t *src = map_get(&o->place, u->src[j]->id);
            uint32_t use;
            if (!src || *src >= i)
                continue;
            use = place_in(o, o->target[i], o->home[*src]);
            if (use < o->first_use[*src])
                o->first_use[*src] = use;
        }
    }
}

/* The list by target, ops of one target in their old order: a counting sort.
 * The op that stands at a place comes last there. */
static void
sort_ops(const struct order *o, uint32_t *count, const struct uop **out)
{
    uint32_t i, at = 0, n;

    memset(count, 0, o->n * sizeof(*count));
    for (i = 0; i < o->n; i++)
        count[o->target[i]]++;
    for (i = 0; i < o->n; i++) {
        n = count[i];
        count[i] = at;
        at += n;
    }
    assert(at == o->n);
    for (i = 0; i < o->n; i++)
        out[count[o->target[i]]++] = o->ops[i];
}

static bool
alloc_order(struct order *o, struct arena *arena, uint32_t n_slots)
{
    uint32_t i;

    o->home = arena_alloc(arena, o->n * sizeof(*o->home));
    o->n_loops = arena_alloc(arena, o->n * sizeof(*o->n_loops));
    o->first_use = arena_alloc(arena, o->n * sizeof(*o->first_use));
    o->target = arena_alloc(arena, o->n * sizeof(*o->target));
    o->next_store = arena_alloc(arena, n_slots * sizeof(*o->next_store));
    o->is_fixed = arena_alloc(arena, o->n * sizeof(*o->is_fixed));
    if (arena->failed)
        return false;
    for (i = 0; i < o->n; i++)
        o->first_use[i] = NOWHERE;
    for (i = 0; i < n_slots; i++)
        o->next_store[i] = NOWHERE;
    return true;
}

bell_status
render_order(const struct lower_program *program, bool is_late,
             struct arena *arena, const struct uop *const **out_ops)
{
    struct order o = {.ops = program->ops,
                      .n = program->n_ops,
                      .local_slot = program->n_params,
                      .is_late = is_late};
    const struct uop **ops;
    uint32_t i;
    bool ok;

    *out_ops = program->ops;
    for (i = 0; i < o.n; i++) {
        if (o.ops[i]->op == UOP_BARRIER)
            return BELL_OK;
    }
    ops = arena_alloc(arena, (o.n + 1) * sizeof(*ops));
    map_init(&o.place);
    ok = ops && alloc_order(&o, arena, program->n_params + 1) &&
         look_forward(&o);
    if (ok) {
        look_back(&o);
        sort_ops(&o, o.first_use, ops);
    }
    map_fini(&o.place);
    if (!ok)
        return bell_fail(BELL_E_NO_MEMORY, "ordering %s: out of memory",
                         program->name);
    *out_ops = ops;
    return BELL_OK;
}
