/* A node is inside a loop iff it depends on the loop's RANGE other than
 * through its END. Ids are topological, and an END has a greater id than all
 * of its loop, so the nodes of one loop body in id order, with inner loops at
 * their ENDs, are in a right order. */
#include "lower/linearize.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"

#define NO_LOOP UINT32_MAX
/* observed: ptxas 13, sm_80, sm_90a and sm_120: products of 4096 and what is
 * done with them spill nothing with these */
#define EARLY_REGS 16 /* of what is loaded before a loop, for after it */
#define TURN_ELEMS 8  /* that are stored at a time behind a loop */

/* struct linear.marks, of what is done before a loop */
#define MARK_STAYS 1 /* in any case */
#define MARK_LOADS 2 /* where LOADs are, too: of all that stays also */
/* of what is done behind the loop and has no place yet */
#define MARK_LEFT 4

/* A loop, or (number n_loops) the whole program. */
struct loop {
    const struct uop *range, *end;
    uint64_t around;    /* loops whose RANGE it depends on */
    uint32_t depth;     /* 1 is outermost */
    uint32_t n_items;   /* nodes of its body, inner loops as their ENDs */
    uint32_t n_early;   /* of these up to the last inner loop */
    uint32_t end_early; /* place behind these */
    uint32_t n_waiting; /* registers of LOADs of these that could wait */
    const struct uop **items;
};

struct linear {
    struct uop_graph *g;
    const struct uop **nodes; /* by id, owned */
    size_t n_nodes;
    uint32_t *pos_of_id; /* owned */
    uint64_t *deps;      /* by place, owned: loops it is in */
    uint64_t stored;     /* PARAMs below 64 that are */
    uint8_t *body;       /* by place, owned: the loop whose item it is */
    uint8_t *marks;      /* by place, owned: of MARK_ */
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
        l->body[i] = (uint8_t)at;
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
            return bell_fail(BELL_E_NO_MEMORY,
                             "ordering %zu nodes: out of memory", l->n_nodes);
        loop->n_items = 0;
    }
    for (i = 0; i < l->n_nodes; i++) {
        const struct uop *u = l->nodes[i];
        struct loop *loop = &l->loops[l->body[i]];
        if (u->op != UOP_RANGE && u->op != UOP_SINK)
            loop->items[loop->n_items++] = u;
    }
    return BELL_OK;
}

/* ---- what waits for loops to be done ---- */

static uint32_t
list_place(const struct linear *l, const struct uop *u)
{
    return l->pos_of_id[u->id];
}

/* Registers of 4 bytes; a byte has one to itself. */
static uint32_t
registers(const struct uop *u)
{
    uint32_t bytes = uop_dtype_infos[u->dtype].size_bytes;

    return bytes == 1 ? u->lanes : (u->lanes * bytes + 3) / 4;
}

/* Is it a LOAD of what the program does not store? */
static bool
loads_constant(const struct linear *l, const struct uop *u)
{
    const struct uop *memory = u->op == UOP_LOAD ? uop_memory(u->src[0]) : u;

    return memory->op == UOP_PARAM && u->op == UOP_LOAD && memory->arg.i < 64 &&
           !(l->stored >> memory->arg.i & 1);
}

/* May it be done later than where its sources are there? */
static bool
can_wait(const struct linear *l, const struct uop *u)
{
    switch (u->op) {
    case UOP_CAST:
    case UOP_BITCAST:
    case UOP_BROADCAST:
    case UOP_LANES:
    case UOP_LANE:
    case UOP_RAMP:
    case UOP_LANES_REDUCE:
    case UOP_LANES_REPEAT:
    case UOP_BYTE_DOT:
        return true;
    case UOP_INDEX:
        return uop_memory(u)->op == UOP_PARAM;
    default:
        return uop_has(u, UOP_FLAG_ALU) || loads_constant(l, u);
    }
}

static bool
is_other_effect(const struct uop *u)
{
    return uop_has(u, UOP_FLAG_EFFECT) && u->op != UOP_STORE;
}

/* How much of each body is done up to its last loop: effects behind that, such
 * as waits, are so, too. */
static void
find_early(struct linear *l)
{
    uint32_t i, n, k;

    for (k = 0; k <= l->n_loops; k++) {
        struct loop *loop = &l->loops[k];
        i = loop->n_items;
        while (i > 0 && !is_other_effect(loop->items[i - 1]))
            i--;
        for (n = i; n > 0 && loop->items[n - 1]->op != UOP_END; n--)
            ;
        loop->n_early = n ? i : 0;
        loop->end_early = n ? list_place(l, loop->items[i - 1]) + 1 : 0;
    }
}

/* Marks what has to be done up to the last loop of its body: all that cannot
 * wait or is needed in a loop of the body, and what it is made of. */
static void
mark_early(struct linear *l)
{
    size_t i;
    uint32_t j;

    for (i = l->n_nodes; i-- > 0;) {
        const struct uop *u = l->nodes[i];
        struct loop *loop = &l->loops[l->body[i]];
        uint8_t mark = l->marks[i];

        if (i < loop->end_early && u->op != UOP_SINK) {
            if (!(mark & MARK_STAYS) && !can_wait(l, u))
                mark = MARK_STAYS | MARK_LOADS;
            if (u->op == UOP_LOAD && !(mark & MARK_STAYS))
                loop->n_waiting += registers(u);
            if (u->op == UOP_LOAD)
                mark |= MARK_LOADS;
            l->marks[i] = mark;
        }
        for (j = 0; j < u->n_src; j++) {
            uint32_t src = list_place(l, u->src[j]);
            if (l->body[src] == l->body[i])
                l->marks[src] |= mark;
            else if (l->loops[l->body[src]].depth < loop->depth)
                l->marks[src] |= MARK_STAYS | MARK_LOADS;
        }
    }
}

/* Puts what the last loop of the body, and all before it, can do without behind
 * it, so that it takes no registers meanwhile. Loads may come early, where they
 * are few. */
static bell_status
put_late(struct linear *l, struct loop *loop)
{
    uint8_t early = loop->n_waiting <= EARLY_REGS ? MARK_LOADS : MARK_STAYS;
    const struct uop **late;
    uint32_t i, n = 0, n_late = 0;

    if (!loop->n_early)
        return BELL_OK;
    late = arena_alloc(&l->g->arena, loop->n_early * sizeof(*late));
    if (!late)
        return bell_fail(BELL_E_NO_MEMORY, "ordering %zu nodes: out of memory",
                         l->n_nodes);
    for (i = 0; i < loop->n_early; i++) {
        if (l->marks[list_place(l, loop->items[i])] & early)
            loop->items[n++] = loop->items[i];
        else
            late[n_late++] = loop->items[i];
    }
    memcpy(loop->items + n, late, n_late * sizeof(*late));
    loop->n_early = n;
    return BELL_OK;
}

/* Is all that is done behind the last loop storing what takes LOADs, and of
 * what these do not take? */
static bool
only_stores(const struct linear *l, const struct loop *loop)
{
    uint32_t i, n = 0;
    bool loads = false;

    for (i = loop->n_early; i < loop->n_items; i++) {
        const struct uop *u = loop->items[i];
        n += u->op == UOP_STORE ? u->src[2]->lanes : 0;
        loads |= loads_constant(l, u);
        if ((u->op == UOP_STORE && uop_memory(u->src[0])->op != UOP_PARAM) ||
            (u->op == UOP_LOAD && !loads_constant(l, u) &&
             uop_memory(u->src[0])->op == UOP_PARAM))
            return false;
    }
    return loads && n > TURN_ELEMS;
}

/* Moves `u` and what it is made of, where that is left, to out[n..]. Returns
 * the new n. */
static uint32_t
take_marked(struct linear *l, const struct uop *u, const struct uop **out,
            uint32_t n)
{
    uint32_t i = n, j;

    out[n++] = u;
    l->marks[list_place(l, u)] &= (uint8_t)~MARK_LEFT;
    for (; i < n; i++) {
        for (j = 0; j < out[i]->n_src; j++) {
            const struct uop *src = out[i]->src[j];
            if (!(l->marks[list_place(l, src)] & MARK_LEFT))
                continue;
            l->marks[list_place(l, src)] &= (uint8_t)~MARK_LEFT;
            out[n++] = src;
        }
    }
    return n;
}

/* Behind the last loop: what is stored is loaded and computed a few STOREs at a
 * time. */
static bell_status
store_by_turns(struct linear *l, struct loop *loop)
{
    const struct uop **out;
    uint32_t i, n = 0, begin = 0, elems = 0;

    if (!loop->n_early || !only_stores(l, loop))
        return BELL_OK;
    out = arena_alloc(&l->g->arena,
                      (loop->n_items - loop->n_early) * sizeof(*out));
    if (!out)
        return bell_fail(BELL_E_NO_MEMORY, "ordering %zu nodes: out of memory",
                         l->n_nodes);
    for (i = loop->n_early; i < loop->n_items; i++)
        l->marks[list_place(l, loop->items[i])] |= MARK_LEFT;
    for (i = loop->n_early; i < loop->n_items; i++) {
        const struct uop *u = loop->items[i];
        if (u->op != UOP_STORE || !(l->marks[list_place(l, u)] & MARK_LEFT))
            continue;
        n = take_marked(l, u, out, n);
        elems += u->src[2]->lanes;
        if (elems < TURN_ELEMS)
            continue;
        qsort(out + begin, n - begin, sizeof(*out), uop_compare_ids);
        begin = n;
        elems = 0;
    }
    qsort(out + begin, n - begin, sizeof(*out), uop_compare_ids);
    begin = n;
    for (i = loop->n_early; i < loop->n_items; i++) { /* what nobody stores */
        uint8_t *mark = &l->marks[list_place(l, loop->items[i])];
        if (!(*mark & MARK_LEFT))
            continue;
        *mark &= (uint8_t)~MARK_LEFT;
        out[n++] = loop->items[i];
    }
    assert(n == loop->n_items - loop->n_early);
    memcpy(loop->items + loop->n_early, out, n * sizeof(*out));
    return BELL_OK;
}

static bell_status
order_list_items(struct linear *l)
{
    uint32_t i;

    for (i = 0; i < l->n_nodes; i++) {
        const struct uop *u = l->nodes[i];
        const struct uop *memory =
            u->op == UOP_STORE ? uop_memory(u->src[0]) : NULL;
        if (memory && memory->op == UOP_PARAM && memory->arg.i < 64)
            l->stored |= (uint64_t)1 << memory->arg.i;
    }
    find_early(l);
    mark_early(l);
    for (i = 0; i <= l->n_loops; i++) {
        BELL_TRY(put_late(l, &l->loops[i]));
        BELL_TRY(store_by_turns(l, &l->loops[i]));
    }
    return BELL_OK;
}

/* ---- the list ---- */

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
    BELL_TRY(order_list_items(l));
    ops = arena_alloc(&l->g->arena, l->n_nodes * sizeof(*ops));
    if (!ops)
        return bell_fail(BELL_E_NO_MEMORY, "ordering %zu nodes: out of memory",
                         l->n_nodes);
    *out_n_ops = flatten(l, ops);
    *out_ops = ops;
    return BELL_OK;
}

/* The nodes under `sink`, of which no condition is asked. */
static bell_status
linearize_all(struct uop_graph *g, const struct uop *sink,
              const struct uop ***out_ops, uint32_t *out_n_ops)
{
    struct linear l = {.g = g};
    bell_status status;

    assert(sink->op == UOP_SINK);
    BELL_TRY(uop_toposort(g, &sink, 1, &l.nodes, &l.n_nodes));
    l.pos_of_id = host_calloc((size_t)sink->id + 1, sizeof(*l.pos_of_id));
    l.deps = host_calloc(l.n_nodes, sizeof(*l.deps));
    l.body = host_alloc(l.n_nodes);
    l.marks = host_calloc(l.n_nodes, 1);
    if (!l.pos_of_id || !l.deps || !l.body || !l.marks)
        status = bell_fail(BELL_E_NO_MEMORY,
                           "ordering %zu nodes: out of memory", l.n_nodes);
    else
        status = linearize_sorted(&l, out_ops, out_n_ops);
    host_free(l.marks);
    host_free(l.body);
    host_free(l.deps);
    host_free(l.pos_of_id);
    host_free(l.nodes);
    return status;
}

/* The list becomes the condition, an IF, what is left of the list, an ENDIF. */
static bell_status
put_in_branch(struct uop_graph *g, const struct uop *begin,
              const struct uop ***ops, uint32_t *n_ops)
{
    const struct uop **head, **out;
    uint8_t *is_head = host_calloc(g->n_nodes, 1);
    uint32_t n = 0, i;
    size_t n_head, j;
    bell_status status;

    if (!is_head)
        return bell_fail(BELL_E_NO_MEMORY, "ordering %u nodes: out of memory",
                         *n_ops);
    status = uop_toposort(g, begin->src, 1, &head, &n_head);
    if (status != BELL_OK) {
        host_free(is_head);
        return status;
    }
    out = arena_alloc(&g->arena, (n_head + *n_ops + 2) * sizeof(*out));
    for (j = 0; out && j < n_head; j++) {
        assert(head[j]->op != UOP_RANGE && !uop_has(head[j], UOP_FLAG_EFFECT));
        is_head[head[j]->id] = 1;
        out[n++] = head[j];
    }
    if (out)
        out[n++] = begin;
    for (i = 0; out && i < *n_ops; i++) {
        if (!is_head[(*ops)[i]->id])
            out[n++] = (*ops)[i];
    }
    host_free(head);
    host_free(is_head);
    if (!out)
        return bell_fail(BELL_E_NO_MEMORY, "ordering %u nodes: out of memory",
                         *n_ops);
    out[n++] = uop_new(g, UOP_ENDIF, UOP_VOID, 1, (union uop_arg){.bits = 0},
                       &begin, 1);
    *ops = out;
    *n_ops = n;
    return uop_graph_status(g);
}

bell_status
linearize(struct uop_graph *g, const struct uop *sink,
          const struct uop ***out_ops, uint32_t *out_n_ops)
{
    const struct uop *branch = sink->n_src ? sink->src[0] : NULL;

    if (!branch || branch->op != UOP_ENDIF)
        return linearize_all(g, sink, out_ops, out_n_ops);
    assert(sink->n_src == 1 && branch->n_src == 2);
    BELL_TRY(linearize_all(g, branch->src[1], out_ops, out_n_ops));
    return put_in_branch(g, branch->src[0], out_ops, out_n_ops);
}
