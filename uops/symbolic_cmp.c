/* Comparisons of integer sums, and conjunctions of them (gates).
 *
 * Canonical comparisons: CMPLT(sum, const), CMPLT(const, sum) or
 * CMPLT(sum, sum + const) with positive coefficients and no constant on the
 * left; likewise CMPEQ and CMPNE, whose first term is on the left.
 */
#include "uops/linear.h"
#include "uops/symbolic_internal.h"
#include "uops/uops_internal.h"

#include "base/bits.h"

#define MAX_GATES 16

static const struct uop *
make_bool(struct uop_graph *g, const struct uop *like, bool value)
{
    return uop_make_int(g, UOP_BOOL, like->lanes, value);
}

static const struct uop *
like_int(struct uop_graph *g, const struct uop *like, int64_t value)
{
    return uop_make_int(g, (enum uop_dtype)like->dtype, like->lanes, value);
}

static int64_t
ceil_div(int64_t a, int64_t b)
{
    return -floor_div(-a, b);
}

/* a - b as exact integers, with its bounds. */
static bool
difference(const struct uop_graph *g, const struct uop *a, const struct uop *b,
           struct lin *out, struct uop_bounds *out_b)
{
    struct lin right;
    uint32_t i;

    if (!uop_dtype_infos[a->dtype].is_signed || !lin_of(g, a, out) ||
        !lin_small_range(g, out, out_b) || !lin_of(g, b, &right) ||
        !lin_small_range(g, &right, out_b))
        return false;
    out->k -= right.k;
    for (i = 0; i < right.n; i++) {
        if (!lin_add_term(out, right.t[i].x, -right.t[i].c))
            return false;
    }
    lin_sort(out);
    return lin_small_range(g, out, out_b);
}

/* Divides all coefficients by what they share; returns it. */
static int64_t
divide_common(struct lin *lin)
{
    int64_t f = 0;
    uint32_t i;

    for (i = 0; i < lin->n; i++)
        f = int_gcd(f, lin->t[i].c);
    for (i = 0; i < lin->n && f > 1; i++)
        lin->t[i].c /= f;
    return f;
}

/* sum < limit, where terms that f does not divide cannot change the outcome:
 * drops them and divides by f. */
static bool
drop_low_terms(const struct uop_graph *g, struct lin *sum, int64_t f,
               int64_t *limit)
{
    struct lin low = *sum, high = *sum;
    struct uop_bounds b;
    uint32_t i;

    low.n = high.n = 0;
    for (i = 0; i < sum->n; i++) {
        struct lin *to = sum->t[i].c % f ? &low : &high;
        to->t[to->n++] = sum->t[i];
    }
    low.k = 0;
    if (low.n == 0 || high.n == 0 || !lin_small_range(g, &low, &b) ||
        ceil_div(*limit - b.min, f) != ceil_div(*limit - b.max, f))
        return false;
    for (i = 0; i < high.n; i++)
        high.t[i].c /= f;
    *limit = ceil_div(*limit - b.min, f);
    *sum = high;
    return true;
}

/* Brings sum < limit (sum->k is 0) to the smallest coefficients. */
static void
reduce_less(const struct uop_graph *g, struct lin *sum, int64_t *limit)
{
    bool changed = true;
    uint32_t i;

    while (changed) {
        int64_t f = divide_common(sum);
        *limit = ceil_div(*limit, f);
        changed = false;
        for (i = 0; i < sum->n && !changed; i++) {
            f = sum->t[i].c < 0 ? -sum->t[i].c : sum->t[i].c;
            changed = f > 1 && drop_low_terms(g, sum, f, limit);
        }
    }
}

/* Positive terms to `left`, the others negated to `right`. */
static void
split_signs(const struct lin *sum, struct lin *left, struct lin *right)
{
    uint32_t i;

    *left = *right = *sum;
    left->n = right->n = 0;
    left->k = right->k = 0;
    for (i = 0; i < sum->n; i++) {
        struct lin *to = sum->t[i].c > 0 ? left : right;
        to->t[to->n] = sum->t[i];
        if (to == right)
            to->t[to->n].c = -to->t[to->n].c;
        to->n++;
    }
}

/* x // c < limit and limit < x // c without the division; NULL if the sum is
 * not one such term. */
static const struct uop *
less_of_quotient(struct uop_graph *g, const struct lin *sum, int64_t limit)
{
    const struct uop *x = sum->t[0].x, *c;
    int64_t k;

    if (sum->n != 1 || x->op != UOP_FLOORDIV || x->lanes != sum->lanes)
        return NULL;
    c = uop_scalar_const(x->src[1]);
    if (!c || c->arg.i <= 0)
        return NULL;
    if (sum->t[0].c < 0) /* -limit < x // c */
        limit = 1 - limit;
    if (__builtin_mul_overflow(limit, c->arg.i, &k) ||
        k <= uop_dtype_bounds(sum->dtype).min ||
        k > uop_dtype_bounds(sum->dtype).max)
        return NULL;
    x = x->src[0];
    if (sum->t[0].c < 0)
        return uop_alu2(g, UOP_CMPLT, like_int(g, x, k - 1), x);
    return uop_alu2(g, UOP_CMPLT, x, like_int(g, x, k));
}

const struct uop *
sym_less(struct uop_graph *g, const struct rw_match *match)
{
    const struct uop *a = match->v[0], *b = match->v[1], *r, *x, *y;
    struct lin sum, left, right;
    struct uop_bounds range;
    int64_t limit;

    if (!difference(g, a, b, &sum, &range))
        return NULL;
    if (range.max < 0 || range.min >= 0)
        return make_bool(g, a, range.max < 0);
    limit = -sum.k;
    sum.k = 0;
    reduce_less(g, &sum, &limit);
    r = less_of_quotient(g, &sum, limit);
    if (r)
        return r;
    split_signs(&sum, &left, &right);
    if (left.n == 0)
        left.k = -limit;
    else
        right.k = limit;
    x = lin_build(g, &left);
    y = lin_build(g, &right);
    return x == a && y == b ? NULL : uop_alu2(g, UOP_CMPLT, x, y);
}

const struct uop *
sym_equal(struct uop_graph *g, const struct rw_match *match)
{
    const struct uop *a = match->v[0], *b = match->v[1], *x, *y;
    bool is_eq = match->root->op == UOP_CMPEQ;
    struct lin sum, left, right;
    struct uop_bounds range;
    int64_t f, k;
    uint32_t i;

    if (!difference(g, a, b, &sum, &range))
        return NULL;
    if (range.max < 0 || range.min > 0)
        return make_bool(g, a, !is_eq);
    k = -sum.k;
    f = divide_common(&sum);
    if (f == 0 || k % f)
        return make_bool(g, a, (k == 0) == is_eq);
    k /= f;
    if (sum.t[0].c < 0) {
        k = -k;
        for (i = 0; i < sum.n; i++)
            sum.t[i].c = -sum.t[i].c;
    }
    split_signs(&sum, &left, &right);
    right.k = k;
    x = lin_build(g, &left);
    y = lin_build(g, &right);
    if ((x == a && y == b) || (x == b && y == a))
        return NULL;
    return uop_alu2(g, (enum uop_op)match->root->op, x, y);
}

/* not (a < b) -> b < a + 1, by a constant where one side is one. */
const struct uop *
sym_not_less(struct uop_graph *g, const struct rw_match *match)
{
    const struct uop *a = match->v[0], *b = match->v[1];
    const struct uop *c = uop_scalar_const(b);
    enum uop_dtype dtype = (enum uop_dtype)a->dtype;

    if (dtype == UOP_U64)
        return NULL;
    if (c)
        return c->arg.i == uop_dtype_bounds(dtype).min
                   ? NULL
                   : uop_alu2(g, UOP_CMPLT, like_int(g, a, c->arg.i - 1), a);
    if (uop_bounds(g, a).max == uop_dtype_bounds(dtype).max)
        return NULL;
    return uop_alu2(g, UOP_CMPLT, b,
                    uop_alu2(g, UOP_ADD, a, like_int(g, a, 1)));
}

/* One condition of a conjunction or disjunction. */
struct gate {
    const struct uop *u;
    const struct uop *x; /* what is compared with k, or NULL */
    int64_t k;
    bool is_upper; /* x < k, else k < x */
};

struct gates {
    enum uop_op op; /* AND or OR */
    uint32_t n;
    struct gate v[MAX_GATES];
    bool decided, value; /* it is this constant */
};

static void
classify(const struct uop *u, struct gate *out)
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
decide(struct gates *gates, bool value)
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

    if (old->u == gate->u)
        return true;
    if (is_negation(old->u, gate->u) || is_negation(gate->u, old->u)) {
        decide(gates, gates->op == UOP_OR);
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
        decide(gates, gates->op == UOP_OR);
        return true;
    }
    return false;
}

static bool
add_gate(struct gates *gates, const struct uop *u)
{
    struct gate gate;
    uint32_t i;

    classify(u, &gate);
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
collect(struct gates *gates, const struct uop *a, const struct uop *b)
{
    const struct uop *todo[2 * MAX_GATES];
    uint32_t n = 2;

    todo[0] = b;
    todo[1] = a;
    while (n && !gates->decided) {
        const struct uop *u = todo[--n];
        if (u->op != gates->op) {
            if (!add_gate(gates, u))
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

/* Bounds of a term's x, given the other conditions of a conjunction. */
static struct uop_bounds
given_bounds(const struct uop_graph *g, const struct gates *gates,
             uint32_t skip, const struct uop *x)
{
    struct uop_bounds b = uop_bounds(g, x);
    uint32_t i;

    for (i = 0; i < gates->n; i++) {
        const struct gate *gate = &gates->v[i];
        if (i == skip || gate->x != x || gate->k == INT64_MIN)
            continue;
        if (gate->is_upper && gate->k <= b.max)
            b.max = gate->k - 1;
        if (!gate->is_upper && gate->k >= b.min)
            b.min = gate->k + 1;
    }
    return b;
}

/* Decides condition i, a CMPLT of sums, from the others: -1 unknown. */
static int
decide_given(const struct uop_graph *g, const struct gates *gates, uint32_t i)
{
    const struct uop *u = gates->v[i].u;
    struct uop_bounds range, b;
    int64_t lo, hi, p, q;
    struct lin sum;
    uint32_t k;

    if (u->op != UOP_CMPLT || uop_is_float(u->src[0]) ||
        !difference(g, u->src[0], u->src[1], &sum, &range) || sum.n < 2)
        return -1;
    lo = hi = sum.k;
    for (k = 0; k < sum.n; k++) {
        b = given_bounds(g, gates, i, sum.t[k].x);
        if (b.min > b.max || __builtin_mul_overflow(b.min, sum.t[k].c, &p) ||
            __builtin_mul_overflow(b.max, sum.t[k].c, &q) ||
            __builtin_add_overflow(lo, p < q ? p : q, &lo) ||
            __builtin_add_overflow(hi, p < q ? q : p, &hi))
            return -1;
    }
    if (hi < 0)
        return 1;
    return lo >= 0 ? 0 : -1;
}

static void
drop_implied(const struct uop_graph *g, struct gates *gates)
{
    uint32_t i = 0, k;

    while (i < gates->n && gates->n > 1 && !gates->decided) {
        int known = decide_given(g, gates, i);
        if (known == 0) {
            decide(gates, false);
        } else if (known == 1) {
            for (k = i + 1; k < gates->n; k++)
                gates->v[k - 1] = gates->v[k];
            gates->n--;
            i = 0;
        } else {
            i++;
        }
    }
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
    struct gates gates = {.op = (enum uop_op)match->root->op};
    union uop_arg none = {.bits = 0};
    uint32_t i;

    if (!collect(&gates, a, b))
        return NULL;
    if (gates.op == UOP_AND)
        drop_implied(g, &gates);
    if (gates.decided)
        return make_bool(g, match->root, gates.value);
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
