/* Linear forms: taking sums apart and putting them together. */
#include "uops/linear.h"

#include <assert.h>

#include "uops/uops_internal.h"

#include <string.h>

#define MAX_PENDING 48 /* nodes of one sum waiting to be looked into */

/* Coefficients wrap as the dtype's arithmetic does: sums are equal modulo 2^n,
 * also where they overflow on the way. */
static int64_t
wrap_mul(enum uop_dtype dtype, int64_t a, int64_t b)
{
    return uop_wrap_int(dtype, (int64_t)((uint64_t)a * (uint64_t)b));
}

static int64_t
wrap_add(enum uop_dtype dtype, int64_t a, int64_t b)
{
    return uop_wrap_int(dtype, (int64_t)((uint64_t)a + (uint64_t)b));
}

int64_t
int_gcd(int64_t a, int64_t b)
{
    uint64_t x = a < 0 ? 0 - (uint64_t)a : (uint64_t)a;
    uint64_t y = b < 0 ? 0 - (uint64_t)b : (uint64_t)b, t;

    while (y) {
        t = x % y;
        x = y;
        y = t;
    }
    return x > INT64_MAX ? 1 : (int64_t)x;
}

bool
uop_same_parts(const struct uop *a, const struct uop *b)
{
    return a == b ||
           (a->op == b->op && a->dtype == b->dtype && a->lanes == b->lanes &&
            a->arg.bits == b->arg.bits && a->n_src == b->n_src &&
            memcmp(a->src, b->src, a->n_src * sizeof(*a->src)) == 0);
}

bool
lin_add_term(struct lin *lin, const struct uop *x, int64_t c)
{
    uint32_t i;

    assert(lin->n <= LIN_MAX_TERMS);
    for (i = 0; i < lin->n; i++) {
        if (lin->t[i].x == x) {
            lin->t[i].c = wrap_add(lin->dtype, lin->t[i].c, c);
            return true;
        }
    }
    if (lin->n == LIN_MAX_TERMS)
        return false;
    lin->t[lin->n].x = x;
    lin->t[lin->n++].c = c;
    return true;
}

/* The coefficient and the node it multiplies, of a MUL by a constant. */
static const struct uop *
split_mul(const struct uop *u, int64_t *out_c)
{
    const struct uop *c;

    if (u->op != UOP_MUL || u->n_src != 2)
        return NULL;
    c = uop_scalar_const(u->src[1]);
    if (c) {
        *out_c = c->arg.i;
        return u->src[0];
    }
    c = uop_scalar_const(u->src[0]);
    if (c) {
        *out_c = c->arg.i;
        return u->src[1];
    }
    return NULL;
}

bool
lin_add(const struct uop_graph *g, struct lin *lin, const struct uop *u,
        int64_t c)
{
    struct lin_term todo[MAX_PENDING];
    bool is_signed = uop_dtype_infos[lin->dtype].is_signed;
    uint32_t n = 1;

    assert(u->dtype == lin->dtype || g->failed);
    todo[0].x = u;
    todo[0].c = c;
    while (n) {
        struct lin_term term = todo[--n];
        const struct uop *x = term.x, *inner;
        struct uop_bounds b = uop_bounds(g, x);
        int64_t factor;

        if (b.min == b.max) {
            lin->k = wrap_add(lin->dtype, lin->k,
                              wrap_mul(lin->dtype, term.c, b.min));
            continue;
        }
        if (n + 2 > MAX_PENDING)
            return false;
        inner = split_mul(x, &factor);
        if (inner) {
            todo[n].x = inner;
            todo[n++].c = wrap_mul(lin->dtype, term.c, factor);
        } else if (x->op == UOP_BROADCAST && x->n_src == 1) {
            todo[n].x = x->src[0];
            todo[n++].c = term.c;
        } else if (x->op == UOP_ADD || (x->op == UOP_SUB && is_signed)) {
            todo[n].x = x->src[1];
            todo[n++].c =
                x->op == UOP_ADD ? term.c : wrap_mul(lin->dtype, term.c, -1);
            todo[n].x = x->src[0];
            todo[n++].c = term.c;
        } else if (x->op == UOP_NEG && is_signed) {
            todo[n].x = x->src[0];
            todo[n++].c = wrap_mul(lin->dtype, term.c, -1);
        } else if (!lin_add_term(lin, x, term.c)) {
            return false;
        }
    }
    return true;
}

/* Broadcast scalars come before vectors. */
static bool
term_before(const struct lin_term *a, const struct lin_term *b)
{
    if ((a->x->lanes > 1) != (b->x->lanes > 1))
        return a->x->lanes == 1;
    return uop_order_key(a->x) < uop_order_key(b->x);
}

void
lin_sort(struct lin *lin)
{
    uint32_t i, k, n = 0;

    assert(lin->n <= LIN_MAX_TERMS);
    for (i = 0; i < lin->n; i++) {
        struct lin_term term = lin->t[i];
        if (term.c == 0)
            continue;
        for (k = n; k > 0 && term_before(&term, &lin->t[k - 1]); k--)
            lin->t[k] = lin->t[k - 1];
        lin->t[k] = term;
        n++;
    }
    lin->n = n;
}

void
lin_const(struct lin *lin, const struct uop *like, int64_t k)
{
    lin->dtype = like->dtype;
    lin->lanes = like->lanes;
    lin->n = 0;
    lin->k = k;
}

bool
lin_of(const struct uop_graph *g, const struct uop *u, struct lin *out)
{
    if (!uop_dtype_infos[u->dtype].is_int || u->dtype == UOP_U64)
        return false;
    lin_const(out, u, 0);
    if (!lin_add(g, out, u, 1))
        return false;
    lin_sort(out);
    return true;
}

/* The node for one term. */
static const struct uop *
build_term(struct uop_graph *g, const struct lin *lin,
           const struct lin_term *term)
{
    union uop_arg none = {.bits = 0};
    const struct uop *src[2] = {term->x, NULL};

    assert(term->c != 0);
    assert(term->x->dtype == lin->dtype);
    if (term->c == 1)
        return term->x;
    src[1] = uop_make_int(g, lin->dtype, term->x->lanes, term->c);
    return uop_new(g, UOP_MUL, lin->dtype, term->x->lanes, none, src, 2);
}

/* The left part of the sum, already built, plus one more operand. The last
 * ADD is not made but put into *last, whose sources are then valid. */
struct chain {
    const struct uop *sum, *next;
};

/* Sums lean to the left: an operand waits until the next one comes, so that
 * the last ADD can be compared with what is there before it is made. */
static void
push_operand(struct uop_graph *g, struct chain *chain, const struct uop *u)
{
    union uop_arg none = {.bits = 0};
    const struct uop *src[2] = {chain->sum, chain->next};

    if (!chain->sum) {
        chain->sum = u;
        return;
    }
    if (chain->next)
        chain->sum =
            uop_new(g, UOP_ADD, u->dtype, chain->sum->lanes, none, src, 2);
    chain->next = u;
}

static const struct uop *
finish_chain(struct uop_graph *g, const struct chain *chain)
{
    union uop_arg none = {.bits = 0};
    const struct uop *src[2] = {chain->sum, chain->next};

    if (!chain->next)
        return chain->sum;
    return uop_new(g, UOP_ADD, chain->sum->dtype, chain->sum->lanes, none, src,
                   2);
}

/* Scalars first, with the constant among them, then one BROADCAST, then
 * vectors: what is the same in all lanes is computed once. */
static struct chain
build_chain(struct uop_graph *g, const struct lin *lin)
{
    union uop_arg none = {.bits = 0};
    struct chain chain = {NULL, NULL};
    bool is_vector = lin->lanes > 1, k_done = lin->k == 0;
    uint32_t i;

    for (i = 0; i < lin->n; i++) {
        bool last_scalar = i + 1 == lin->n || lin->t[i + 1].x->lanes > 1;
        push_operand(g, &chain, build_term(g, lin, &lin->t[i]));
        if (!is_vector || lin->t[i].x->lanes > 1 || !last_scalar)
            continue;
        if (!k_done)
            push_operand(g, &chain, uop_make_int(g, lin->dtype, 1, lin->k));
        k_done = true;
        chain.sum = finish_chain(g, &chain);
        chain.next = NULL;
        chain.sum = uop_new(g, UOP_BROADCAST, lin->dtype, lin->lanes, none,
                            &chain.sum, 1);
    }
    if (!k_done || !chain.sum)
        push_operand(g, &chain,
                     uop_make_int(g, lin->dtype, lin->lanes, lin->k));
    return chain;
}

const struct uop *
lin_build(struct uop_graph *g, const struct lin *lin)
{
    struct chain chain = build_chain(g, lin);

    return finish_chain(g, &chain);
}

const struct uop *
lin_rebuild(struct uop_graph *g, const struct lin *lin, const struct uop *u)
{
    struct chain chain = build_chain(g, lin);

    assert(u->dtype == lin->dtype);
    if (chain.next && u->op == UOP_ADD && u->src[0] == chain.sum &&
        u->src[1] == chain.next)
        return NULL;
    if (!chain.next && uop_same_parts(chain.sum, u))
        return NULL;
    return finish_chain(g, &chain);
}

bool
lin_term_range(const struct uop_graph *g, const struct lin_term *term,
               struct uop_bounds *out)
{
    struct uop_bounds b = uop_bounds(g, term->x);
    int64_t lo, hi;

    assert(term->c != 0);
    if (__builtin_mul_overflow(b.min, term->c, &lo) ||
        __builtin_mul_overflow(b.max, term->c, &hi))
        return false;
    out->min = term->c < 0 ? hi : lo;
    out->max = term->c < 0 ? lo : hi;
    return true;
}

bool
lin_range(const struct uop_graph *g, const struct lin *lin,
          struct uop_bounds *out)
{
    struct uop_bounds all = uop_dtype_bounds(lin->dtype);
    struct uop_bounds sum = {lin->k, lin->k}, b;
    uint32_t i;

    for (i = 0; i < lin->n; i++) {
        if (!lin_term_range(g, &lin->t[i], &b) ||
            __builtin_add_overflow(sum.min, b.min, &sum.min) ||
            __builtin_add_overflow(sum.max, b.max, &sum.max))
            return false;
    }
    if (sum.min < all.min || sum.max > all.max)
        return false;
    *out = sum;
    return true;
}

bool
lin_small_range(const struct uop_graph *g, const struct lin *lin,
                struct uop_bounds *out)
{
    int64_t limit = uop_dtype_bounds(lin->dtype).max / 4;
    struct uop_bounds b;
    uint32_t i;

    if (!lin_range(g, lin, &b) || b.min < -limit || b.max > limit ||
        lin->k < -limit || lin->k > limit)
        return false;
    for (i = 0; i < lin->n; i++) {
        if (lin->t[i].c < -limit || lin->t[i].c > limit)
            return false;
    }
    *out = b;
    return true;
}

/* True if x - y is a multiple of m. */
static bool
differ_by_multiple(int64_t x, int64_t y, int64_t m)
{
    int64_t d;

    return !__builtin_sub_overflow(x, y, &d) && d % m == 0;
}

bool
lin_congruent(const struct lin *a, const struct lin *b, int64_t m)
{
    uint32_t i = 0, k = 0;

    assert(m > 0 && a->dtype == b->dtype);
    if (!differ_by_multiple(a->k, b->k, m))
        return false;
    while (i < a->n || k < b->n) {
        int64_t ca = 0, cb = 0;
        if (i < a->n && k < b->n && a->t[i].x == b->t[k].x) {
            ca = a->t[i++].c;
            cb = b->t[k++].c;
        } else if (k >= b->n || (i < a->n && term_before(&a->t[i], &b->t[k]))) {
            ca = a->t[i++].c;
        } else {
            cb = b->t[k++].c;
        }
        if (!differ_by_multiple(ca, cb, m))
            return false;
    }
    return true;
}

/* The constant in every lane of `u`; false where it is none. */
static bool
is_constant(const struct uop *u, int64_t *out_value)
{
    u = u->op == UOP_BROADCAST ? u->src[0] : u;
    *out_value = u->arg.i;
    return u->op == UOP_CONST;
}

bool
uop_index_steps(const struct uop *u, int64_t *out_first, int64_t *out_step)
{
    *out_step = u->lanes == 1;
    if (is_constant(u, out_first))
        return true;
    *out_first = 0;
    if (u->op == UOP_ADD) {
        if (!is_constant(u->src[0], out_first))
            return false;
        u = u->src[1];
    }
    *out_step = 1;
    if (u->op == UOP_MUL && is_constant(u->src[1], out_step))
        u = u->src[0];
    return u->op == UOP_RAMP;
}
