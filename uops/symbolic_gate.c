/* Conjunctions and disjunctions of conditions: what bounds an access by the
 * edges of what was padded. A condition that others imply goes, and each is
 * simplified by what the others say.
 */
#include "uops/linear.h"

#include <assert.h>

#include "uops/symbolic_internal.h"
#include "uops/uops_internal.h"

#include "base/bits.h"

#define MAX_GATES 16

/* One condition of a conjunction or disjunction. */
struct gate {
    const struct uop *u;
    const struct uop *x; /* what is compared with k, or NULL */
    int64_t k;
    bool is_upper; /* x < k, else k < x */
};

/* The exact form of a condition: sum < 0. */
struct gate_sum {
    bool known;
    struct lin lin;
};

struct gates {
    enum uop_op op; /* AND or OR */
    uint32_t n;
    struct gate v[MAX_GATES];
    bool decided, value; /* it is this constant */
};

static void
classify_term(const struct uop *u, struct gate *out)
{
    const struct uop *c;

    out->u = u;
    out->x = NULL;
    if (u->op != UOP_CMPLT || uop_is_float(u->src[0]) ||
        u->src[0]->dtype == UOP_U64)
        return;
    c = uop_scalar_const(u->src[1]);
    out->is_upper = c != NULL;
    out->x = c ? u->src[0] : u->src[1];
    if (!c)
        c = uop_scalar_const(u->src[0]);
    if (c)
        out->k = c->arg.i;
    else
        out->x = NULL;
}

static bool
is_negation(const struct uop *a, const struct uop *b)
{
    return a->op == UOP_XOR && a->src[0] == b &&
           uop_scalar_const(a->src[1]) != NULL;
}

static void
decide_gate(struct gates *gates, bool value)
{
    gates->decided = true;
    gates->value = value;
}

/* Bounds on one side of the same x: the one that the other implies goes.
 * True if `gate` adds nothing to, or took the place of, v[i]. */
static bool
merge_same_side(struct gates *gates, uint32_t i, const struct gate *gate)
{
    struct gate *old = &gates->v[i];
    bool stricter = gate->is_upper ? gate->k < old->k : gate->k > old->k;

    if (stricter == (gates->op == UOP_AND))
        *old = *gate;
    return true;
}

static bool
merge_gate(struct gates *gates, uint32_t i, const struct gate *gate)
{
    const struct gate *old = &gates->v[i], *low, *high;

    assert(i < gates->n);
    if (old->u == gate->u)
        return true;
    if (is_negation(old->u, gate->u) || is_negation(gate->u, old->u)) {
        decide_gate(gates, gates->op == UOP_OR);
        return true;
    }
    if (!gate->x || old->x != gate->x)
        return false;
    if (old->is_upper == gate->is_upper)
        return merge_same_side(gates, i, gate);
    high = gate->is_upper ? gate : old; /* low->k < x, x < high->k */
    low = gate->is_upper ? old : gate;
    if (gates->op == UOP_AND ? high->k == INT64_MIN || low->k >= high->k - 1
                             : low->k < high->k) {
        decide_gate(gates, gates->op == UOP_OR);
        return true;
    }
    return false;
}

static bool
add_gate_term(struct gates *gates, const struct uop *u)
{
    struct gate gate;
    uint32_t i;

    assert(gates->n <= MAX_GATES);
    classify_term(u, &gate);
    for (i = 0; i < gates->n && !gates->decided; i++) {
        if (merge_gate(gates, i, &gate))
            return true;
    }
    if (gates->n == MAX_GATES)
        return false;
    gates->v[gates->n++] = gate;
    return true;
}

/* Collects the conditions under nested nodes of gates->op. */
static bool
collect_gates(struct gates *gates, const struct uop *a, const struct uop *b)
{
    const struct uop *todo[2 * MAX_GATES];
    uint32_t n = 2;

    todo[0] = b;
    todo[1] = a;
    while (n && !gates->decided) {
        const struct uop *u = todo[--n];
        if (u->op != gates->op) {
            if (!add_gate_term(gates, u))
                return false;
            continue;
        }
        if (n + 2 > 2 * MAX_GATES)
            return false;
        todo[n++] = u->src[1];
        todo[n++] = u->src[0];
    }
    return true;
}

/* Adds lo <= x <= hi to the bounds known of x. */
static void
note_bounds(const struct uop_graph *g, struct sym_bounds *known,
            const struct uop *x, int64_t lo, int64_t hi)
{
    struct uop_bounds own = uop_bounds(g, x), *b;
    uint32_t i = 0;

    if (lo <= own.min && hi >= own.max)
        return;
    while (i < known->n && known->v[i].x != x)
        i++;
    if (i == SYM_MAX_BOUNDS)
        return;
    b = &known->v[i].b;
    if (i == known->n) {
        known->v[known->n++].x = x;
        *b = own;
    }
    if (lo > b->min)
        b->min = lo;
    if (hi < b->max)
        b->max = hi;
}

/* From sum < 0: what it says of each term's x. */
static void
note_terms(const struct uop_graph *g, struct sym_bounds *known,
           const struct lin *sum)
{
    struct uop_bounds all, one;
    uint32_t i;

    if (!lin_small_range(g, sum, &all))
        return;
    for (i = 0; i < sum->n; i++) {
        int64_t c = sum->t[i].c, limit;
        if (!lin_term_range(g, &sum->t[i], &one))
            continue;
        limit = -1 - (all.min - one.min); /* c*x <= limit */
        if (c > 0)
            note_bounds(g, known, sum->t[i].x, INT64_MIN, floor_div(limit, c));
        else
            note_bounds(g, known, sum->t[i].x, -floor_div(limit, -c),
                        INT64_MAX);
    }
}

static void
take_sum(const struct uop_graph *g, const struct uop *u, struct gate_sum *out)
{
    struct uop_bounds range;

    out->known = u->op == UOP_CMPLT && !uop_is_float(u->src[0]) &&
                 sym_difference(g, u->src[0], u->src[1], &out->lin, &range);
}

/* What the truth of a condition says about values. */
static void
note_gate(const struct uop_graph *g, struct sym_bounds *known,
          const struct gate *gate, const struct gate_sum *sum)
{
    const struct uop *u = gate->u, *c;

    if (u->op == UOP_CMPEQ && !uop_is_float(u->src[0]) &&
        u->src[0]->dtype != UOP_U64) {
        c = uop_scalar_const(u->src[1]);
        if (c)
            note_bounds(g, known, u->src[0], c->arg.i, c->arg.i);
        return;
    }
    if (gate->x && gate->is_upper && gate->k > INT64_MIN)
        note_bounds(g, known, gate->x, INT64_MIN, gate->k - 1);
    if (gate->x && !gate->is_upper && gate->k < INT64_MAX)
        note_bounds(g, known, gate->x, gate->k + 1, INT64_MAX);
    if (sum->known && sum->lin.n > 1)
        note_terms(g, known, &sum->lin);
}

/* What all conditions of a conjunction but one say. False if they cannot all
 * hold. */
static bool
note_others(const struct uop_graph *g, const struct gates *gates,
            const struct gate_sum *sums, uint32_t skip,
            struct sym_bounds *known)
{
    uint32_t i;

    known->n = 0;
    for (i = 0; i < gates->n; i++) {
        if (i != skip)
            note_gate(g, known, &gates->v[i], &sums[i]);
    }
    for (i = 0; i < known->n; i++) {
        if (known->v[i].b.min > known->v[i].b.max)
            return false;
    }
    return true;
}

static struct uop_bounds
known_bounds(const struct uop_graph *g, const struct sym_bounds *known,
             const struct uop *x)
{
    uint32_t i;

    for (i = 0; i < known->n; i++) {
        if (known->v[i].x == x)
            return known->v[i].b;
    }
    return uop_bounds(g, x);
}

/* Decides sum < 0 from what is known: 0, 1, or -1 if it does not follow. */
static int
decide_given(const struct uop_graph *g, const struct gate_sum *sum,
             const struct sym_bounds *known)
{
    int64_t lo = sum->lin.k, hi = sum->lin.k, p, q;
    uint32_t i;

    if (!sum->known)
        return -1;
    for (i = 0; i < sum->lin.n; i++) {
        const struct lin_term *term = &sum->lin.t[i];
        struct uop_bounds b = known_bounds(g, known, term->x);
        if (__builtin_mul_overflow(b.min, term->c, &p) ||
            __builtin_mul_overflow(b.max, term->c, &q) ||
            __builtin_add_overflow(lo, p < q ? p : q, &lo) ||
            __builtin_add_overflow(hi, p < q ? q : p, &hi))
            return -1;
    }
    if (hi < 0)
        return 1;
    return lo >= 0 ? 0 : -1;
}

static void
remove_gate(struct gates *gates, uint32_t i)
{
    for (i++; i < gates->n; i++)
        gates->v[i - 1] = gates->v[i];
    gates->n--;
}

/* Uses what the others say of condition i to drop, decide or simplify it.
 * False when nothing follows. */
static bool
use_others_on(struct uop_graph *g, struct gates *gates,
              const struct gate_sum *sums, uint32_t i)
{
    const struct uop *u = gates->v[i].u, *better;
    struct sym_bounds known;
    int truth;

    if (!note_others(g, gates, sums, i, &known)) {
        decide_gate(gates, false);
        return true;
    }
    truth = known.n ? decide_given(g, &sums[i], &known) : -1;
    if (truth == 0) {
        decide_gate(gates, false);
        return true;
    }
    better = truth == 1 ? NULL : sym_given(g, u, &known);
    if (better == u)
        return false;
    remove_gate(gates, i);
    if (better)
        collect_gates(gates, better, better);
    return true;
}

/* True where conditions may bear on each other although none compares the
 * same x: some x is more than a plain index. */
static bool
may_interact(const struct gates *gates)
{
    uint32_t i;

    for (i = 0; i < gates->n; i++) {
        const struct uop *x = gates->v[i].x;
        if (gates->v[i].u->op == UOP_CMPLT && (!x || x->n_src > 1))
            return true;
    }
    return false;
}

/* Simplifies each condition of a conjunction by what the others say. */
static void
use_others(struct uop_graph *g, struct gates *gates)
{
    struct gate_sum sums[MAX_GATES];
    bool changed = true;
    uint32_t i;

    if (!may_interact(gates))
        return;
    while (changed && gates->n > 1 && !gates->decided) {
        for (i = 0; i < gates->n; i++)
            take_sum(g, gates->v[i].u, &sums[i]);
        for (i = 0, changed = false; i < gates->n && !changed; i++)
            changed = use_others_on(g, gates, sums, i);
    }
}

void
sym_gate_bounds(const struct uop_graph *g, const struct uop *gate,
                struct sym_bounds *out)
{
    struct gate_sum sums[MAX_GATES];
    struct gates gates = {.op = UOP_AND};
    uint32_t i;

    out->n = 0;
    if (!collect_gates(&gates, gate, gate) || gates.decided)
        return;
    for (i = 0; i < gates.n; i++)
        take_sum(g, gates.v[i].u, &sums[i]);
    if (!note_others(g, &gates, sums, UINT32_MAX, out))
        out->n = 0;
}

static void
sort_gates(struct gates *gates)
{
    uint32_t i, k;

    for (i = 1; i < gates->n; i++) {
        struct gate gate = gates->v[i];
        for (k = i; k > 0 && gates->v[k - 1].u->id > gate.u->id; k--)
            gates->v[k] = gates->v[k - 1];
        gates->v[k] = gate;
    }
}

const struct uop *
sym_gates(struct uop_graph *g, const struct rw_match *match)
{
    const struct uop *a = match->v[0], *b = match->v[1], *src[2];
    struct gates gates = {.op = match->root->op};
    union uop_arg none = {.bits = 0};
    uint32_t i;

    assert(match->root->dtype == UOP_BOOL);
    if (!collect_gates(&gates, a, b))
        return NULL;
    if (gates.op == UOP_AND)
        use_others(g, &gates);
    if (gates.decided)
        return sym_bool(g, match->root, gates.value);
    sort_gates(&gates);
    src[0] = gates.v[0].u;
    for (i = 1; i < gates.n; i++) {
        src[1] = gates.v[i].u;
        if (i + 1 == gates.n && src[0] == a && src[1] == b)
            return NULL;
        src[0] =
            uop_new(g, gates.op, UOP_BOOL, match->root->lanes, none, src, 2);
    }
    return src[0];
}
