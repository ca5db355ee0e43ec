/* Simplification under a condition.
 *
 * Each x that the condition bounds more tightly is replaced by a new RANGE of
 * just that extent, plus the lower bound; the expression is rebuilt, which
 * simplifies it with the tighter bounds, and then x is put back. Only small
 * expressions with divisions are worth it; no memory but the graph's is used.
 */
#include "uops/symbolic_internal.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "uops/uops_internal.h"

#define MAX_EXPR 96        /* nodes of an expression that is looked into */
#define N_SLOTS  256       /* of the node set; a power of two */
#define FIRST_ID 0xff0000u /* ids of the new RANGEs */

/* The nodes under an expression and what each becomes. */
struct nodes {
    uint32_t n;
    const struct uop *list[MAX_EXPR]; /* by id after sort_nodes */
    struct {
        const struct uop *u, *to;
    } slots[N_SLOTS];
};

static uint32_t
given_slot(const struct nodes *nodes, const struct uop *u)
{
    uint32_t at = (u->id * 0x9e3779b1u) >> 24;

    assert(nodes->n <= MAX_EXPR);
    while (nodes->slots[at].u && nodes->slots[at].u != u)
        at = (at + 1) & (N_SLOTS - 1);
    return at;
}

static bool
add_given_node(struct nodes *nodes, const struct uop *u)
{
    uint32_t at = given_slot(nodes, u);

    if (nodes->slots[at].u)
        return true;
    if (nodes->n == MAX_EXPR)
        return false;
    nodes->slots[at].u = u;
    nodes->slots[at].to = NULL;
    nodes->list[nodes->n++] = u;
    return true;
}

/* Arithmetic can be computed anywhere. Nodes below others stay as they are: a
 * LOAD in the expression is done whether the condition holds or not. */
static bool
is_arithmetic(const struct uop *u)
{
    return u->n_src <= MAX_EXPR &&
           (uop_has(u, UOP_FLAG_ALU) || u->op == UOP_CAST ||
            u->op == UOP_BROADCAST || u->op == UOP_LANE || u->op == UOP_LANES);
}

/* Collects the arithmetic under `root` and what it is made of, sources first;
 * false if there are many nodes. */
static bool
collect_given_nodes(struct nodes *nodes, const struct uop *root)
{
    uint32_t i, k;

    nodes->n = 0;
    memset(nodes->slots, 0, sizeof(nodes->slots));
    if (!add_given_node(nodes, root))
        return false;
    for (i = 0; i < nodes->n; i++) {
        const struct uop *u = nodes->list[i];
        for (k = 0; is_arithmetic(u) && k < u->n_src; k++) {
            if (!add_given_node(nodes, u->src[k]))
                return false;
        }
    }
    qsort(nodes->list, nodes->n, sizeof(nodes->list[0]), uop_compare_ids);
    return true;
}

static bool
is_division(const struct uop *u)
{
    return u->op == UOP_FLOORDIV || u->op == UOP_FLOORMOD ||
           u->op == UOP_IDIV || u->op == UOP_IMOD;
}

static bool
has_division(const struct nodes *nodes)
{
    uint32_t i;

    for (i = 0; i < nodes->n; i++) {
        if (is_division(nodes->list[i]))
            return true;
    }
    return false;
}

/* Rough cost: divisions count most, constants nothing. */
static uint32_t
cost_of(const struct nodes *nodes)
{
    uint32_t cost = 0, i;

    for (i = 0; i < nodes->n; i++) {
        if (nodes->list[i]->op != UOP_CONST)
            cost += is_division(nodes->list[i]) ? 8 : 1;
    }
    return cost;
}

/* Few expressions share so much that a walk along all paths is long. */
bool
sym_has_division(const struct uop *expr)
{
    const struct uop *stack[MAX_EXPR];
    struct nodes nodes;
    bool found = false;
    uint32_t n = 1, n_seen, n_src, i;

    stack[0] = expr;
    for (n_seen = 0; n > 0 && n_seen < MAX_EXPR; n_seen++) {
        const struct uop *u = stack[--n];
        found |= is_division(u);
        n_src = is_arithmetic(u) ? u->n_src : 0;
        if (n + n_src > MAX_EXPR) {
            n = MAX_EXPR;
            break;
        }
        for (i = 0; i < n_src; i++)
            stack[n++] = u->src[i];
    }
    if (n == 0)
        return found;
    return collect_given_nodes(&nodes, expr) && has_division(&nodes);
}

/* Rebuilds the last node of the list with the replacements in slots[].to. */
static const struct uop *
rebuild_given(struct uop_graph *g, struct nodes *nodes)
{
    const struct uop *src[MAX_EXPR], *r = NULL;
    uint32_t i, k;

    assert(nodes->n > 0);
    for (i = 0; i < nodes->n; i++) {
        const struct uop *u = nodes->list[i];
        uint32_t at = given_slot(nodes, u);
        bool changed = false;
        r = nodes->slots[at].to;
        if (!r) {
            for (k = 0; is_arithmetic(u) && k < u->n_src; k++) {
                src[k] = nodes->slots[given_slot(nodes, u->src[k])].to;
                changed |= src[k] != u->src[k];
            }
            r = changed ? uop_make(g, u->op, u->dtype, u->lanes, u->arg, src,
                                   u->n_src)
                        : u;
        }
        nodes->slots[at].to = r;
    }
    return r;
}

static void
replace(struct nodes *nodes, const struct uop *u, const struct uop *to)
{
    uint32_t at = given_slot(nodes, u);

    if (nodes->slots[at].u)
        nodes->slots[at].to = to;
}

/* A stand-in for x with the bounds b: range + b.min. NULL if it is of no
 * use. */
static const struct uop *
stand_in(struct uop_graph *g, const struct uop *x, struct uop_bounds b,
         uint32_t number, const struct uop **out_range)
{
    int64_t extent;

    *out_range = NULL;
    if (x->dtype != UOP_I64 || x->lanes != 1 || b.min > b.max ||
        __builtin_sub_overflow(b.max, b.min, &extent) || extent == INT64_MAX)
        return NULL;
    if (extent == 0)
        return uop_const_int(g, UOP_I64, b.min);
    *out_range = uop_range(g, FIRST_ID + number, UOP_AXIS_LOOP, extent + 1);
    return uop_alu2(g, UOP_ADD, *out_range, uop_const_int(g, UOP_I64, b.min));
}

const struct uop *
sym_given(struct uop_graph *g, const struct uop *expr,
          const struct sym_bounds *known)
{
    const struct uop *ranges[SYM_MAX_BOUNDS], *r;
    struct nodes nodes;
    uint32_t i, cost;

    if (known->n == 0 || !collect_given_nodes(&nodes, expr) ||
        !has_division(&nodes))
        return expr;
    cost = cost_of(&nodes);
    for (i = 0; i < known->n; i++) {
        const struct uop *x = known->v[i].x, *to;
        to = stand_in(g, x, known->v[i].b, i, &ranges[i]);
        if (to)
            replace(&nodes, x, to);
    }
    r = rebuild_given(g, &nodes);
    if (r == expr || g->failed || !collect_given_nodes(&nodes, r))
        return expr;
    for (i = 0; i < known->n; i++) {
        const struct uop *x = known->v[i].x;
        if (ranges[i])
            replace(&nodes, ranges[i],
                    uop_alu2(g, UOP_SUB, x,
                             uop_const_int(g, UOP_I64, known->v[i].b.min)));
    }
    r = rebuild_given(g, &nodes);
    if (g->failed || !collect_given_nodes(&nodes, r) || cost_of(&nodes) >= cost)
        return expr;
    return r;
}
