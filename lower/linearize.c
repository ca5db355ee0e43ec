/* A node is inside a loop iff it depends on the loop's RANGE other than
 * through its END. Ids are topological, and an END has a greater id than all
 * of its loop, so the nodes of one loop body in id order, with inner loops at
 * their ENDs, are in a right order. */
#include "lower/linearize.h"

#include <assert.h>
#include <string.h>

#include "base/alloc.h"

#define NO_LOOP UINT32_MAX

/* A loop, or (number n_loops) the whole program. */
struct loop {
    const struct uop *range, *end;
    uint64_t around;  /* loops whose RANGE it depends on */
    uint32_t depth;   /* 1 is outermost */
    uint32_t n_items; /* nodes of its body, inner loops as their ENDs */
    const struct uop **items;
};

struct linear {
    struct uop_graph *g;
    const struct uop **nodes; /* by id, owned */
    size_t n_nodes;
    uint32_t *pos_of_id; /* owned */
    uint64_t *deps;      /* by place, owned: loops it is in */
    struct loop loops[LINEARIZE_MAX_LOOPS + 1];
    uint32_t n_loops;
};

static uint32_t
loop_of_range(const struct linear *l, const struct uop *range)
{
    uint32_t i;

    assert(range->op == UOP_RANGE);
    for (i = 0; i < l->n_loops; i++) {
        if (l->loops[i].range == range)
            return i;
    }
    return NO_LOOP;
}

static bell_status
find_loops(struct linear *l)
{
    size_t i;

    for (i = 0; i < l->n_nodes; i++) {
        const struct uop *u = l->nodes[i];
        l->pos_of_id[u->id] = (uint32_t)i;
        if (u->op != UOP_RANGE)
            continue;
        if (l->n_loops == LINEARIZE_MAX_LOOPS)
            return bell_fail(BELL_E_INTERNAL, "a program of more than %d loops",
                             LINEARIZE_MAX_LOOPS);
        l->loops[l->n_loops++].range = u;
    }
    return BELL_OK;
}

static bell_status
find_deps(struct linear *l)
{
    size_t i;
    uint32_t j;

    for (i = 0; i < l->n_nodes; i++) {
        const struct uop *u = l->nodes[i];
        uint64_t deps = 0;
        for (j = 0; j < u->n_src; j++)
            deps |= l->deps[l->pos_of_id[u->src[j]->id]];
        if (u->op == UOP_RANGE) {
            deps |= (uint64_t)1 << loop_of_range(l, u);
        } else if (u->op == UOP_END) {
            uint32_t loop = loop_of_range(l, u->src[0]);
            if (loop == NO_LOOP || l->loops[loop].end)
                return bell_fail(BELL_E_INTERNAL,
                                 "END %u closes no loop of its own", u->id);
            deps &= ~((uint64_t)1 << loop);
            l->loops[loop].end = u;
            l->loops[loop].around = deps;
        }
        l->deps[i] = deps;
    }
    for (j = 0; j < l->n_loops; j++) {
        if (!l->loops[j].end)
            return bell_fail(BELL_E_INTERNAL, "RANGE %u has no END",
                             l->loops[j].range->id);
    }
    return BELL_OK;
}

/* The deepest loop of the set; the program where it is empty. */
static uint32_t
innermost(const struct linear *l, uint64_t set)
{
    uint32_t best = l->n_loops;

    for (; set; set &= set - 1) {
        uint32_t loop = (uint32_t)__builtin_ctzll(set);
        if (l->loops[loop].depth > l->loops[best].depth)
            best = loop;
    }
    return best;
}

/* Depths, outer loops first: an outer loop's END has the greater id. Every
 * set of loops around something must be a chain. */
static bell_status
find_depths(struct linear *l)
{
    size_t i;

    assert(l->n_loops <= LINEARIZE_MAX_LOOPS);
    for (i = l->n_nodes; i-- > 0;) {
        const struct uop *u = l->nodes[i];
        struct loop *loop;
        uint32_t outer;
        if (u->op != UOP_END)
            continue;
        loop = &l->loops[loop_of_range(l, u->src[0])];
        outer = innermost(l, loop->around);
        loop->depth = l->loops[outer].depth + 1;
        if (outer != l->n_loops)
            loop->around |= l->loops[outer].around;
    }
    return BELL_OK;
}

static bell_status
fill_items(struct linear *l)
{
    size_t i;
    uint32_t j;

    assert(l->n_loops <= LINEARIZE_MAX_LOOPS);
    for (i = 0; i < l->n_nodes; i++) {
        const struct uop *u = l->nodes[i];
        uint32_t at = innermost(l, l->deps[i]);
        uint64_t bit = at < l->n_loops ? (uint64_t)1 << at : 0;
        if (l->deps[i] & ~(l->loops[at].around | bit))
            return bell_fail(BELL_E_INTERNAL,
                             "node %u is in loops that do not nest", u->id);
        if (u->op != UOP_RANGE && u->op != UOP_SINK)
            l->loops[at].n_items++;
    }
    for (j = 0; j <= l->n_loops; j++) {
        struct loop *loop = &l->loops[j];
        loop->items = arena_alloc(&l->g->arena,
                                  (loop->n_items + 1) * sizeof(*loop->items));
        if (!loop->items)
            return bell_fail(BELL_E_NO_MEMORY, "ordering %zu nodes",
                             l->n_nodes);
        loop->n_items = 0;
    }
    for (i = 0; i < l->n_nodes; i++) {
        const struct uop *u = l->nodes[i];
        struct loop *loop = &l->loops[innermost(l, l->deps[i])];
        if (u->op != UOP_RANGE && u->op != UOP_SINK)
            loop->items[loop->n_items++] = u;
    }
    return BELL_OK;
}

/* Writes all items in order, entering a loop where its END stands. */
static uint32_t
flatten(const struct linear *l, const struct uop **ops)
{
    uint32_t stack[LINEARIZE_MAX_LOOPS + 1], at[LINEARIZE_MAX_LOOPS + 1];
    uint32_t depth = 0, n = 0;

    stack[0] = l->n_loops;
    at[0] = 0;
    for (;;) {
        const struct loop *loop = &l->loops[stack[depth]];
        const struct uop *u;
        if (at[depth] == loop->n_items) {
            if (depth == 0)
                return n;
            ops[n++] = loop->end;
            depth--;
            continue;
        }
        u = loop->items[at[depth]++];
        if (u->op != UOP_END) {
            ops[n++] = u;
            continue;
        }
        depth++;
        stack[depth] = loop_of_range(l, u->src[0]);
        at[depth] = 0;
        ops[n++] = l->loops[stack[depth]].range;
    }
}

static bell_status
linearize_sorted(struct linear *l, const struct uop ***out_ops,
                 uint32_t *out_n_ops)
{
    const struct uop **ops;

    BELL_TRY(find_loops(l));
    BELL_TRY(find_deps(l));
    BELL_TRY(find_depths(l));
    BELL_TRY(fill_items(l));
    ops = arena_alloc(&l->g->arena, l->n_nodes * sizeof(*ops));
    if (!ops)
        return bell_fail(BELL_E_NO_MEMORY, "ordering %zu nodes", l->n_nodes);
    *out_n_ops = flatten(l, ops);
    *out_ops = ops;
    return BELL_OK;
}

bell_status
linearize(struct uop_graph *g, const struct uop *sink,
          const struct uop ***out_ops, uint32_t *out_n_ops)
{
    struct linear l = {.g = g};
    bell_status status;

    assert(sink->op == UOP_SINK);
    BELL_TRY(uop_toposort(g, &sink, 1, &l.nodes, &l.n_nodes));
    l.pos_of_id = host_calloc((size_t)sink->id + 1, sizeof(*l.pos_of_id));
    l.deps = host_calloc(l.n_nodes, sizeof(*l.deps));
    if (!l.pos_of_id || !l.deps)
        status = bell_fail(BELL_E_NO_MEMORY, "ordering %zu nodes", l.n_nodes);
    else
        status = linearize_sorted(&l, out_ops, out_n_ops);
    host_free(l.deps);
    host_free(l.pos_of_id);
    host_free(l.nodes);
    return status;
}
