/* Comparisons of integer sums.
 *
 * Canonical comparisons: CMPLT(sum, const), CMPLT(const, sum) or
 * CMPLT(sum, sum + const) with positive coefficients and no constant on the
 * left; likewise CMPEQ and CMPNE, whose first term is on the left.
 */
#include "uops/linear.h"

#include <assert.h>

#include "uops/symbolic_internal.h"
#include "uops/uops_internal.h"

#include "base/bits.h"

const struct uop *
sym_bool(struct uop_graph *g, const struct uop *like, bool value)
{
    return uop_make_int(g, UOP_BOOL, like->lanes, value);
}

static int64_t
ceil_div(int64_t a, int64_t b)
{
    return -floor_div(-a, b);
}

bool
sym_difference(const struct uop_graph *g, const struct uop *a,
               const struct uop *b, struct lin *out, struct uop_bounds *out_b)
{
    struct lin right;
    uint32_t i;

    assert(a->dtype == b->dtype && a->lanes == b->lanes);
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
        return uop_alu2(g, UOP_CMPLT, sym_int_like(g, x, k - 1), x);
    return uop_alu2(g, UOP_CMPLT, x, sym_int_like(g, x, k));
}

const struct uop *
sym_less(struct uop_graph *g, const struct rw_match *match)
{
    const struct uop *a = match->v[0], *b = match->v[1], *r, *x, *y;
    struct lin sum, left, right;
    struct uop_bounds range;
    int64_t limit;

    if (!sym_difference(g, a, b, &sum, &range))
        return NULL;
    if (range.max < 0 || range.min >= 0)
        return sym_bool(g, a, range.max < 0);
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

    if (!sym_difference(g, a, b, &sum, &range))
        return NULL;
    if (range.max < 0 || range.min > 0)
        return sym_bool(g, a, !is_eq);
    k = -sum.k;
    f = divide_common(&sum);
    if (f == 0 || k % f)
        return sym_bool(g, a, (k == 0) == is_eq);
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
    return uop_alu2(g, match->root->op, x, y);
}

/* not (a < b) -> b < a + 1, by a constant where one side is one. */
const struct uop *
sym_not_less(struct uop_graph *g, const struct rw_match *match)
{
    const struct uop *a = match->v[0], *b = match->v[1];
    const struct uop *c = uop_scalar_const(b);
    enum uop_dtype dtype = a->dtype;

    if (dtype == UOP_U64)
        return NULL;
    if (c)
        return c->arg.i == uop_dtype_bounds(dtype).min
                   ? NULL
                   : uop_alu2(g, UOP_CMPLT, sym_int_like(g, a, c->arg.i - 1),
                              a);
    if (uop_bounds(g, a).max == uop_dtype_bounds(dtype).max)
        return NULL;
    return uop_alu2(g, UOP_CMPLT, b,
                    uop_alu2(g, UOP_ADD, a, sym_int_like(g, a, 1)));
}
