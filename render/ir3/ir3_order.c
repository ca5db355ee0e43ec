/* Puts what is computed next to where it is used.
 *
 * A program lists values as early as may be: all that the unrolled steps of a
 * sum load from local memory stand before the first of its additions, and would
 * need more registers than there are. Here every value but those of sums and of
 * global memory waits for its first user, or for the end of the stretch of code
 * without loops, conditions and barriers that it stands in.
 */
#include "render/ir3/ir3_emit.h"

#include <assert.h>

struct reorder {
    struct ir3_emit *e;
    const struct uop *const *ops;
    uint32_t n;
    struct map place; /* uop id -> place in ops */
    bool *waits;      /* by place */
    uint32_t *list;   /* places of those that wait, in order */
    uint32_t n_list;
    uint32_t *stack; /* of places whose sources are looked at */
    const struct uop **out;
    uint32_t n_out;
};

static bool
is_end(const struct uop *u)
{
    return u->op == UOP_RANGE || u->op == UOP_END || u->op == UOP_IF ||
           u->op == UOP_ENDIF || u->op == UOP_BARRIER;
}

/* May it wait? A LOAD from global memory is under way meanwhile. */
static bool
can_wait(const struct ir3_emit *e, const struct uop *u)
{
    if (uop_has(u, UOP_FLAG_EFFECT) || is_end(u) || u->op == UOP_ACC ||
        u->op == UOP_ACC_GET || u->op == UOP_AFTER || u->op == UOP_SPECIAL ||
        map_get(&e->sums, u->id))
        return false;
    return u->op != UOP_LOAD || uop_memory(u->src[0])->op == UOP_LOCAL;
}

/* The op at a place, behind those of its sources that wait. */
static void
release(struct reorder *r, uint32_t at)
{
    uint32_t n = 0, j;

    assert(!r->waits[at]);
    r->stack[n++] = at;
    while (n) {
        const struct uop *u = r->ops[r->stack[n - 1]];
        const uint64_t *src = NULL;
        for (j = 0; j < u->n_src; j++) {
            src = map_get(&r->place, u->src[j]->id);
            if (src && r->waits[*src])
                break;
        }
        if (j == u->n_src) {
            r->out[r->n_out++] = r->ops[r->stack[--n]];
            continue;
        }
        /* one at a time: what is on the stack waits for it */
        r->waits[*src] = false;
        r->stack[n++] = (uint32_t)*src;
    }
}

/* All that wait, or those that read the memory. */
static void
release_all(struct reorder *r, const struct uop *memory)
{
    uint32_t i, n = 0;

    for (i = 0; i < r->n_list; i++) {
        uint32_t at = r->list[i];
        if (!r->waits[at])
            continue;
        if (memory && (r->ops[at]->op != UOP_LOAD ||
                       uop_memory(r->ops[at]->src[0]) != memory)) {
            r->list[n++] = at;
            continue;
        }
        r->waits[at] = false;
        release(r, at);
    }
    r->n_list = n;
}

static void
reorder(struct reorder *r)
{
    uint32_t i;

    assert(r->n_out == 0 && r->n_list == 0);
    for (i = 0; i < r->n; i++) {
        const struct uop *u = r->ops[i];
        if (can_wait(r->e, u)) {
            r->waits[i] = true;
            r->list[r->n_list++] = i;
            continue;
        }
        if (is_end(u))
            release_all(r, NULL);
        else if (u->op == UOP_STORE)
            release_all(r, uop_memory(u->src[0]));
        release(r, i);
    }
    release_all(r, NULL);
}

bell_status
ir3_order(struct ir3_emit *e, const struct uop *const **ops)
{
    uint32_t n = e->prog->n_ops, i;
    struct reorder r = {.e = e, .ops = *ops, .n = n};
    bool ok;

    r.waits = arena_calloc(&e->arena, n + 1, sizeof(*r.waits));
    r.list = arena_alloc(&e->arena, (n + 1) * sizeof(*r.list));
    r.stack = arena_alloc(&e->arena, (n + 1) * sizeof(*r.stack));
    r.out = arena_alloc(&e->arena, (n + 1) * sizeof(*r.out));
    ok = r.waits && r.list && r.stack && r.out;
    map_init(&r.place);
    for (i = 0; i < n && ok; i++)
        ok = map_put(&r.place, r.ops[i]->id, i) >= 0;
    if (ok)
        reorder(&r);
    map_fini(&r.place);
    if (!ok)
        return bell_fail(BELL_E_NO_MEMORY, "rendering %s: out of memory",
                         e->prog->name);
    assert(r.n_out == n);
    *ops = r.out;
    return BELL_OK;
}
