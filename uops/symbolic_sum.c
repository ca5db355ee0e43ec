/* Integer sums: canonical order, like terms, and quotient and remainder of one
 * value put together again. */
#include "uops/linear.h"
#include "uops/symbolic_internal.h"
#include "uops/uops_internal.h"

static bool
is_sum_like(const struct uop *u)
{
    return u->op == UOP_ADD || u->op == UOP_SUB || u->op == UOP_NEG ||
           u->op == UOP_BROADCAST;
}

/* The node a term multiplies by its coefficient. */
static const struct uop *
term_base(const struct uop *u)
{
    if (u->op == UOP_MUL && uop_scalar_const(u->src[1]))
        return u->src[0];
    return u;
}

/* Fast pre-check of an integer ADD: true when it is certainly canonical. */
static bool
is_canonical(const struct uop_graph *g, const struct uop *a,
             const struct uop *b)
{
    struct uop_bounds ba = uop_bounds(g, a), bb = uop_bounds(g, b);
    const struct uop *base, *last;

    if (a->lanes > 1 || ba.min == ba.max || is_sum_like(b))
        return false;
    if (uop_scalar_const(b))
        return !(a->op == UOP_ADD && uop_scalar_const(a->src[1])) &&
               a->op != UOP_SUB && a->op != UOP_NEG && b->arg.i != 0;
    if (bb.min == bb.max || a->op == UOP_SUB || a->op == UOP_NEG)
        return false;
    base = term_base(b);
    if (base->op == UOP_FLOORMOD || base->op == UOP_FLOORDIV ||
        is_sum_like(base))
        return false;
    last = a->op == UOP_ADD ? a->src[1] : a;
    if (uop_scalar_const(last))
        return false;
    return uop_order_key(term_base(last)) < uop_order_key(base);
}

/* z // d (% m) with constants d > 0, m > 0; m = 0 where there is no mod. */
struct quotient {
    const struct uop *z;
    int64_t d, m;
};

static bool
positive_const(const struct uop *u, int64_t *out)
{
    const struct uop *c = uop_scalar_const(u);

    if (!c || c->arg.i <= 0)
        return false;
    *out = c->arg.i;
    return true;
}

static bool
split_quotient(const struct uop *u, struct quotient *out)
{
    out->m = 0;
    if (u->op == UOP_FLOORMOD) {
        if (!positive_const(u->src[1], &out->m))
            return false;
        u = u->src[0];
    }
    if (u->op != UOP_FLOORDIV || !positive_const(u->src[1], &out->d))
        return false;
    out->z = u->src[0];
    return true;
}

/* True if p and q are the same without wrapping, but for a multiple of m. */
static bool
congruent(const struct uop_graph *g, const struct uop *p, const struct uop *q,
          int64_t m)
{
    struct uop_bounds b;
    struct lin lp, lq;

    if (p == q)
        return true;
    return lin_of(g, p, &lp) && lin_of(g, q, &lq) && lin_range(g, &lp, &b) &&
           lin_range(g, &lq, &b) && lin_congruent(&lp, &lq, m);
}

/* The value whose remainder by b is `rem` % b and whose quotient is `quot`
 * (cut by % m), or NULL:
 *   rem = z // a, quot = z' // (a*b) % m, z' = z mod a*b
 *       -> (z' // a) % (b*m)
 * where a may be 1, and without m. */
static const struct uop *
recombine(struct uop_graph *g, const struct uop *rem, int64_t b,
          const struct quotient *quot)
{
    const struct uop *z = rem, *r;
    int64_t a = 1, ab, bm = 0;

    if (rem->op == UOP_FLOORDIV && positive_const(rem->src[1], &a) &&
        !__builtin_mul_overflow(a, b, &ab) && ab == quot->d &&
        congruent(g, rem->src[0], quot->z, ab)) {
        z = rem->src[0];
    } else if (b == quot->d && congruent(g, rem, quot->z, b)) {
        a = 1;
    } else {
        return NULL;
    }
    if (quot->m && __builtin_mul_overflow(b, quot->m, &bm))
        return NULL;
    r = quot->z;
    if (a != 1)
        r = uop_alu2(g, UOP_FLOORDIV, r, sym_int_like(g, z, a));
    if (quot->m)
        r = uop_alu2(g, UOP_FLOORMOD, r, sym_int_like(g, z, bm));
    return r;
}

/* Replaces one pair x % b * s + x // b * (b*s) in `lin`; false if none. */
static bool
recombine_pair(struct uop_graph *g, struct lin *lin)
{
    uint32_t i, k;

    for (i = 0; i < lin->n; i++) {
        const struct uop *mod = lin->t[i].x;
        int64_t s = lin->t[i].c, b, bs;
        if (mod->op != UOP_FLOORMOD || !positive_const(mod->src[1], &b) ||
            __builtin_mul_overflow(b, s, &bs))
            continue;
        for (k = 0; k < lin->n; k++) {
            struct quotient quot;
            const struct uop *whole;
            if (k == i || lin->t[k].c != bs ||
                lin->t[k].x->lanes != mod->lanes ||
                !split_quotient(lin->t[k].x, &quot))
                continue;
            whole = recombine(g, mod->src[0], b, &quot);
            if (!whole || g->failed)
                continue;
            lin->t[i].c = lin->t[k].c = 0;
            lin_sort(lin);
            if (!lin_add(g, lin, whole, s))
                return false;
            lin_sort(lin);
            return true;
        }
    }
    return false;
}

const struct uop *
sym_sum(struct uop_graph *g, const struct rw_match *match)
{
    const struct uop *a = match->v[0], *b = match->v[1];
    struct lin lin;
    uint32_t i;

    if (is_canonical(g, a, b))
        return NULL;
    lin_const(&lin, a, 0);
    if (a->dtype == UOP_U64 || !lin_add(g, &lin, a, 1) ||
        !lin_add(g, &lin, b, 1))
        return NULL;
    lin_sort(&lin);
    for (i = 0; i < LIN_MAX_TERMS; i++) {
        if (!recombine_pair(g, &lin))
            break;
    }
    if (g->failed)
        return &uop_failed;
    return lin_rebuild(g, &lin, match->root);
}

/* Index arithmetic is bounded; values out of memory are not, and there a
 * product by a constant is cheaper left alone. */
static bool
is_bounded(const struct uop_graph *g, const struct uop *u)
{
    struct uop_bounds b = uop_bounds(g, u);
    struct uop_bounds all = uop_dtype_bounds(u->dtype);

    return b.min != all.min || b.max != all.max;
}

/* x*c, over the terms of x where that is index arithmetic. */
const struct uop *
sym_scale(struct uop_graph *g, const struct rw_match *match)
{
    const struct uop *a = match->v[0], *inner = NULL;
    int64_t c = uop_scalar_const(match->v[1])->arg.i;
    struct lin lin;

    lin_const(&lin, a, 0);
    if (a->dtype != UOP_U64 && lin_add(g, &lin, a, c)) {
        lin_sort(&lin);
        if (lin.n + (lin.k != 0) <= 1 || is_bounded(g, a))
            return lin_rebuild(g, &lin, match->root);
    }
    if (a->op == UOP_MUL)
        inner = uop_scalar_const(a->src[1]);
    if (!inner)
        return NULL;
    c = (int64_t)((uint64_t)c * (uint64_t)inner->arg.i);
    return uop_alu2(g, UOP_MUL, a->src[0],
                    uop_make_int(g, lin.dtype, a->lanes, c));
}

/* (x*c) * y -> (x*y) * c */
const struct uop *
sym_const_out(struct uop_graph *g, const struct rw_match *match)
{
    const struct uop *x = match->v[0], *c = match->v[1], *y = match->v[2];

    if (uop_scalar_const(y))
        return NULL;
    return uop_alu2(g, UOP_MUL, uop_alu2(g, UOP_MUL, x, y), c);
}
