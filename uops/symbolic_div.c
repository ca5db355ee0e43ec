/* FLOORDIV and FLOORMOD of an integer sum by a constant c > 1.
 *
 * All identities are those of exact integers; they hold for the nodes because
 * the range of the sum is known to stay inside the dtype (lin_range).
 */
#include "uops/linear.h"
#include "uops/symbolic_internal.h"
#include "uops/uops_internal.h"

#include "base/bits.h"

/* A numerator: its form and its exact bounds. */
struct numer {
    struct lin lin;
    struct uop_bounds b;
};

static const struct uop *
div_by(struct uop_graph *g, const struct uop *x, int64_t c)
{
    return uop_alu2(g, UOP_FLOORDIV, x, sym_int_like(g, x, c));
}

static const struct uop *
mod_by(struct uop_graph *g, const struct uop *x, int64_t c)
{
    return uop_alu2(g, UOP_FLOORMOD, x, sym_int_like(g, x, c));
}

static bool
take_numer(const struct uop_graph *g, const struct uop *a, struct numer *out)
{
    return lin_of(g, a, &out->lin) && lin_small_range(g, &out->lin, &out->b);
}

/* The sum of the terms of `from` with coefficients reduced modulo c, k too.
 * How: 0 keeps those that c does not divide, 1 takes residues in 0..c-1,
 * 2 the residues of least magnitude. */
static void
reduce_terms(const struct lin *from, int64_t c, int how, struct lin *out)
{
    uint32_t i;

    *out = *from;
    out->n = 0;
    out->k = floor_mod(from->k, c);
    for (i = 0; i < from->n; i++) {
        int64_t r = floor_mod(from->t[i].c, c);
        if (r == 0)
            continue;
        if (how == 0)
            r = from->t[i].c;
        else if (how == 2 && r > c - r)
            r -= c;
        out->t[out->n].x = from->t[i].x;
        out->t[out->n++].c = r;
    }
}

/* (a - rest) / c, which is exact. */
static void
exact_quotient(const struct lin *a, const struct lin *rest, int64_t c,
               struct lin *out)
{
    uint32_t i, k = 0;

    *out = *a;
    out->n = 0;
    out->k = (a->k - rest->k) / c;
    for (i = 0; i < a->n; i++) {
        int64_t coef = a->t[i].c;
        if (k < rest->n && rest->t[k].x == a->t[i].x)
            coef -= rest->t[k++].c;
        if (coef == 0)
            continue;
        out->t[out->n].x = a->t[i].x;
        out->t[out->n++].c = coef / c;
    }
}

/* Finds rest with a = c*quot + rest + shift, 0 <= rest+shift... < c: that is
 * a // c = quot and a % c = rest. False where no residues are that small. */
static bool
divide_fully(const struct uop_graph *g, const struct lin *a, int64_t c,
             struct lin *out_quot, struct lin *out_rest)
{
    struct uop_bounds b;
    int64_t m;
    int how;

    for (how = 0; how < 3; how++) {
        reduce_terms(a, c, how, out_rest);
        if (!lin_small_range(g, out_rest, &b) ||
            floor_div(b.min, c) != floor_div(b.max, c))
            continue;
        m = floor_div(b.min, c);
        exact_quotient(a, out_rest, c, out_quot);
        if (__builtin_add_overflow(out_quot->k, m, &out_quot->k) ||
            __builtin_sub_overflow(out_rest->k, m * c, &out_rest->k))
            continue;
        return true;
    }
    return false;
}

/* Splits a = f*high + low with 0 <= low < f, where low has the terms that f
 * does not divide. False where low is not that small. */
static bool
split_low(const struct uop_graph *g, const struct lin *a, int64_t f,
          struct lin *out_high, struct lin *out_low)
{
    struct uop_bounds b;
    int64_t m;

    reduce_terms(a, f, 0, out_low);
    if (!lin_small_range(g, out_low, &b) ||
        floor_div(b.min, f) != floor_div(b.max, f))
        return false;
    m = floor_div(b.min, f);
    exact_quotient(a, out_low, f, out_high);
    out_low->k -= m * f;
    return !__builtin_add_overflow(out_high->k, m, &out_high->k) &&
           out_high->n > 0;
}

/* Tries the factors that c shares with a coefficient, greatest first. */
static int64_t
split_by_factor(const struct uop_graph *g, const struct lin *a, int64_t c,
                struct lin *out_high, struct lin *out_low)
{
    int64_t below = c, f, best;
    uint32_t i;

    for (;;) {
        best = 1;
        for (i = 0; i < a->n; i++) {
            f = int_gcd(a->t[i].c, c);
            if (f < below && f > best)
                best = f;
        }
        if (best == 1)
            return 0;
        if (split_low(g, a, best, out_high, out_low))
            return best;
        below = best;
    }
}

/* Takes q*c out of k so that the least value of the sum is in 0..c-1. */
static bool
shift_const(const struct uop_graph *g, struct lin *lin, int64_t c,
            int64_t *out_q)
{
    struct uop_bounds b;

    if (!lin_small_range(g, lin, &b))
        return false;
    *out_q = floor_div(b.min, c);
    lin->k -= *out_q * c;
    return lin_small_range(g, lin, &b);
}

/* (x // b + k) // c -> (x + k*b) // (b*c), and
 * (x % (c*m)) // c -> (x // c) % m */
static const struct uop *
div_nested(struct uop_graph *g, const struct numer *a, int64_t c)
{
    const struct uop *x = a->lin.t[0].x, *k;
    struct uop_bounds range;
    int64_t b, bc, kb;
    struct lin lin;

    if (a->lin.n != 1 || a->lin.t[0].c != 1 ||
        (x->op != UOP_FLOORDIV && x->op != UOP_FLOORMOD) ||
        x->lanes != a->lin.lanes || !uop_scalar_const(x->src[1]))
        return NULL;
    b = uop_scalar_const(x->src[1])->arg.i;
    if (b <= 0)
        return NULL;
    if (x->op == UOP_FLOORMOD) {
        if (a->lin.k != 0 || b % c != 0)
            return NULL;
        return mod_by(g, div_by(g, x->src[0], c), b / c);
    }
    if (__builtin_mul_overflow(b, c, &bc) ||
        __builtin_mul_overflow(b, a->lin.k, &kb) ||
        bc > uop_dtype_bounds(a->lin.dtype).max ||
        !lin_of(g, x->src[0], &lin) ||
        __builtin_add_overflow(lin.k, kb, &lin.k) ||
        !lin_small_range(g, &lin, &range))
        return NULL;
    k = sym_int_like(g, x, kb);
    return div_by(g, uop_alu2(g, UOP_ADD, x->src[0], k), bc);
}

/* a // c = quot + rest // c, taking out what c divides. */
static const struct uop *
div_partly(struct uop_graph *g, const struct numer *a, int64_t c)
{
    struct lin quot, rest;
    int64_t q;

    reduce_terms(&a->lin, c, 0, &rest);
    exact_quotient(&a->lin, &rest, c, &quot);
    if (!shift_const(g, &rest, c, &q))
        return NULL;
    quot.k += q;
    if (quot.n == 0 && quot.k == 0)
        return NULL;
    return uop_alu2(g, UOP_ADD, lin_build(g, &quot),
                    div_by(g, lin_build(g, &rest), c));
}

const struct uop *
sym_floordiv(struct uop_graph *g, const struct rw_match *match)
{
    const struct uop *x = match->v[0], *r;
    int64_t c = uop_scalar_const(match->v[1])->arg.i, f;
    struct lin quot, rest;
    struct numer a;

    if (c <= 1 || !take_numer(g, x, &a))
        return NULL;
    r = div_nested(g, &a, c);
    if (r)
        return r;
    if (divide_fully(g, &a.lin, c, &quot, &rest))
        return lin_build(g, &quot);
    f = split_by_factor(g, &a.lin, c, &quot, &rest);
    if (f)
        return div_by(g, lin_build(g, &quot), c / f);
    r = div_partly(g, &a, c);
    if (r)
        return r;
    r = lin_build(g, &a.lin);
    return r == x ? NULL : div_by(g, r, c);
}

/* Replaces c' * (z % m) by c' * z where c divides c'*m. */
static void
open_mods(const struct uop_graph *g, struct numer *a, int64_t c)
{
    uint32_t i = 0;

    while (i < a->lin.n) {
        const struct uop *x = a->lin.t[i].x, *m;
        int64_t coef = a->lin.t[i].c, product;
        struct numer next;
        m = x->op == UOP_FLOORMOD ? uop_scalar_const(x->src[1]) : NULL;
        if (!m || m->arg.i <= 0 || x->lanes != a->lin.lanes ||
            __builtin_mul_overflow(coef, m->arg.i, &product) ||
            product % c != 0) {
            i++;
            continue;
        }
        next.lin = a->lin;
        next.lin.t[i].c = 0;
        if (!lin_add(g, &next.lin, x->src[0], coef)) {
            i++;
            continue;
        }
        lin_sort(&next.lin);
        if (!lin_small_range(g, &next.lin, &next.b)) {
            i++;
            continue;
        }
        *a = next;
        i = 0;
    }
}

/* f*high + low where a = f*high' + low and high = high' % (c/f). */
static const struct uop *
mod_by_factor(struct uop_graph *g, const struct lin *high,
              const struct lin *low, int64_t f, int64_t c)
{
    const struct uop *r = mod_by(g, lin_build(g, high), c / f);

    r = uop_alu2(g, UOP_MUL, r, sym_int_like(g, r, f));
    return uop_alu2(g, UOP_ADD, r, lin_build(g, low));
}

/* Drops multiples of c from the coefficients and the constant. */
static void
shrink_terms(const struct uop_graph *g, struct lin *lin, int64_t c)
{
    struct lin small = *lin;
    int64_t q;
    uint32_t i;

    for (i = 0; i < small.n; i++)
        small.t[i].c %= c; /* keeps the sign */
    lin_sort(&small);
    small.k = floor_mod(small.k, c);
    if (shift_const(g, &small, c, &q))
        *lin = small;
}

const struct uop *
sym_floormod(struct uop_graph *g, const struct rw_match *match)
{
    const struct uop *x = match->v[0], *r;
    int64_t c = uop_scalar_const(match->v[1])->arg.i, f;
    struct lin quot, rest;
    struct numer a;

    if (c <= 1 || !take_numer(g, x, &a))
        return NULL;
    open_mods(g, &a, c);
    if (divide_fully(g, &a.lin, c, &quot, &rest))
        return lin_build(g, &rest);
    f = split_by_factor(g, &a.lin, c, &quot, &rest);
    if (f)
        return mod_by_factor(g, &quot, &rest, f, c);
    shrink_terms(g, &a.lin, c);
    r = lin_build(g, &a.lin);
    return r == x ? NULL : mod_by(g, r, c);
}
