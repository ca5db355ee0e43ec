/* Sizes as polynomials over symbols. */
#include "uops/dim.h"

#include <assert.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/bits.h"
#include "uops/uop.h"

/* Bounds end there: sums of a few do not overflow. */
#define DIM_FAR ((int64_t)1 << 58)

/* One that is being made. */
struct poly {
    uint32_t n;
    const char *bad; /* why it is not a size; NULL: it is one */
    struct dim_term terms[DIM_MAX_TERMS];
};

void
dim_table_init(struct dim_table *t)
{
    memset(t, 0, sizeof(*t));
    arena_init(&t->arena);
    map_init(&t->map);
    t->why = "";
}

void
dim_table_fini(struct dim_table *t)
{
    host_free(t->exprs);
    host_free(t->atoms);
    arena_fini(&t->arena);
    map_fini(&t->map);
}

static int64_t
bad(struct dim_table *t, const char *why)
{
    t->why = why;
    return DIM_BAD;
}

const char *
dim_why(const struct dim_table *t)
{
    return t->why;
}

static const struct dim_expr *
expr_of(const struct dim_table *t, int64_t d)
{
    assert(dim_is_expr(d) && dim_number(d) < t->n_exprs);
    return &t->exprs[dim_number(d)];
}

/* ---- bounds ------------------------------------------------------------ */

static int64_t
clamp(int64_t x)
{
    return x > DIM_FAR ? DIM_FAR : x < -DIM_FAR ? -DIM_FAR : x;
}

static int64_t
add_far(int64_t a, int64_t b)
{
    return clamp(a + b); /* both are clamped */
}

static int64_t
mul_far(int64_t a, int64_t b)
{
    int64_t x;

    if (__builtin_mul_overflow(a, b, &x))
        return (a < 0) == (b < 0) ? DIM_FAR : -DIM_FAR;
    return clamp(x);
}

struct interval {
    int64_t min, max;
};

static struct interval
mul_interval(struct interval a, struct interval b)
{
    int64_t x[4] = {mul_far(a.min, b.min), mul_far(a.min, b.max),
                    mul_far(a.max, b.min), mul_far(a.max, b.max)};
    struct interval out = {x[0], x[0]};
    uint32_t i;

    for (i = 1; i < 4; i++) {
        out.min = x[i] < out.min ? x[i] : out.min;
        out.max = x[i] > out.max ? x[i] : out.max;
    }
    return out;
}

/* Bounds of symbols, by number; NULL: their own. */
struct given {
    const int64_t *min, *max;
};

static struct interval expr_interval(const struct dim_table *t, int64_t d,
                                     const struct given *given);

static int64_t
least(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static int64_t
most(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

static struct interval
bound_atom(const struct dim_table *t, const struct dim_atom *atom,
           const struct given *given)
{
    struct interval a, b;

    if (atom->kind == DIM_SYMBOL)
        return given
                   ? (struct interval){given->min[atom->a], given->max[atom->a]}
                   : (struct interval){atom->min, atom->max};
    a = expr_interval(t, atom->a, given);
    b = expr_interval(t, atom->b, given);
    switch ((int)atom->kind) {
    case DIM_FLOORDIV:
        return (struct interval){floor_div(a.min, a.min < 0 ? b.min : b.max),
                                 floor_div(a.max, a.max < 0 ? b.max : b.min)};
    case DIM_FLOORMOD:
        return (struct interval){0, a.min >= 0 ? least(a.max, b.max - 1)
                                               : b.max - 1};
    case DIM_MIN:
        return (struct interval){least(a.min, b.min), least(a.max, b.max)};
    default:
        return (struct interval){most(a.min, b.min), most(a.max, b.max)};
    }
}

static struct interval
atom_interval(const struct dim_table *t, uint32_t atom,
              const struct given *given)
{
    const struct dim_atom *a = &t->atoms[atom];

    return given ? bound_atom(t, a, given) : (struct interval){a->min, a->max};
}

static struct interval
term_interval(const struct dim_table *t, const struct dim_term *term,
              const struct given *given)
{
    struct interval out = {clamp(term->c), clamp(term->c)};
    uint32_t i;

    for (i = 0; i < term->n; i++)
        out = mul_interval(out, atom_interval(t, term->atoms[i], given));
    return out;
}

static struct interval
sum_interval(const struct dim_table *t, const struct dim_term *terms,
             uint32_t n, const struct given *given)
{
    struct interval out = {0, 0};
    uint32_t i;

    for (i = 0; i < n; i++) {
        struct interval term = term_interval(t, &terms[i], given);

        out.min = add_far(out.min, term.min);
        out.max = add_far(out.max, term.max);
    }
    return out;
}

/* Takes one atom out of the term; false: it has none. */
static bool
take_atom(struct dim_term *term, uint32_t atom)
{
    uint32_t i;

    for (i = 0; i < term->n && term->atoms[i] != atom; i++)
        continue;
    if (i == term->n)
        return false;
    term->n--;
    for (; i < term->n; i++)
        term->atoms[i] = term->atoms[i + 1];
    term->atoms[term->n] = 0;
    return true;
}

/* The terms of n * n - n alone tell less than n * (n - 1): an atom that every
 * term but the number has is taken out. */
static struct interval
poly_interval(const struct dim_table *t, const struct poly *p,
              const struct given *given)
{
    struct interval out = sum_interval(t, p->terms, p->n, given), by;
    struct poly rest = *p;
    uint32_t n = p->n, i, k;
    int64_t number = 0;

    if (n && p->terms[n - 1].n == 0)
        number = clamp(p->terms[--n].c);
    for (i = 0; n > 1 && i < p->terms[0].n; i++) {
        uint32_t atom = p->terms[0].atoms[i];

        memcpy(rest.terms, p->terms, n * sizeof(*rest.terms));
        for (k = 0; k < n && take_atom(&rest.terms[k], atom); k++)
            continue;
        if (k < n)
            continue;
        by = mul_interval(atom_interval(t, atom, given),
                          sum_interval(t, rest.terms, n, given));
        by.min = add_far(by.min, number);
        by.max = add_far(by.max, number);
        out.min = by.min > out.min ? by.min : out.min;
        out.max = by.max < out.max ? by.max : out.max;
    }
    return out;
}

/* ---- polynomials ------------------------------------------------------- */

/* Higher degrees first. */
static int
order_terms(const struct dim_term *a, const struct dim_term *b)
{
    uint32_t i;

    if (a->n != b->n)
        return a->n > b->n ? -1 : 1;
    for (i = 0; i < a->n; i++) {
        if (a->atoms[i] != b->atoms[i])
            return a->atoms[i] < b->atoms[i] ? -1 : 1;
    }
    return 0;
}

static void
add_term(struct poly *p, const struct dim_term *term)
{
    uint32_t i;

    for (i = 0; i < p->n && order_terms(&p->terms[i], term) < 0; i++)
        continue;
    if (i < p->n && order_terms(&p->terms[i], term) == 0) {
        p->terms[i].c += term->c; /* both are below DIM_LIMIT */
        if (!dim_is_number(p->terms[i].c))
            p->bad = "its numbers are too large";
        if (p->terms[i].c == 0) {
            p->n--;
            memmove(&p->terms[i], &p->terms[i + 1],
                    (p->n - i) * sizeof(*p->terms));
        }
        return;
    }
    if (p->n == DIM_MAX_TERMS) {
        p->bad = "it is a sum of too many terms";
        return;
    }
    memmove(&p->terms[i + 1], &p->terms[i], (p->n - i) * sizeof(*p->terms));
    p->terms[i] = *term;
    p->n++;
}

static void
read_poly(const struct dim_table *t, int64_t d, struct poly *out)
{
    out->n = 0;
    out->bad = NULL;
    if (dim_is_expr(d)) {
        out->n = expr_of(t, d)->n;
        memcpy(out->terms, expr_of(t, d)->terms, out->n * sizeof(*out->terms));
    } else if (!dim_is_number(d)) {
        out->bad = d == DIM_BAD ? t->why : "its numbers are too large";
    } else if (d) {
        out->terms[0] = (struct dim_term){.c = d};
        out->n = 1;
    }
}

static struct interval
expr_interval(const struct dim_table *t, int64_t d, const struct given *given)
{
    struct poly p;

    if (!dim_is_expr(d))
        return (struct interval){d, d};
    if (!given)
        return (struct interval){expr_of(t, d)->min, expr_of(t, d)->max};
    read_poly(t, d, &p);
    return poly_interval(t, &p, given);
}

void
dim_bounds(const struct dim_table *t, int64_t d, int64_t *out_min,
           int64_t *out_max)
{
    struct interval bounds = expr_interval(t, d, NULL);

    assert(d != DIM_BAD);
    *out_min = bounds.min;
    *out_max = bounds.max;
}

void
dim_bounds_within(const struct dim_table *t, int64_t d, const int64_t *min,
                  const int64_t *max, int64_t *out_min, int64_t *out_max)
{
    const struct given given = {min, max};
    struct interval bounds = expr_interval(t, d, &given);

    assert(d != DIM_BAD);
    *out_min = bounds.min;
    *out_max = bounds.max;
}

/* The product of two terms; false, and why in p, if it is none. */
static bool
mul_terms(struct poly *p, const struct dim_term *a, const struct dim_term *b,
          struct dim_term *out)
{
    uint32_t i = 0, k = 0;

    memset(out, 0, sizeof(*out));
    if (__builtin_mul_overflow(a->c, b->c, &out->c) || !dim_is_number(out->c)) {
        p->bad = "its numbers are too large";
        return false;
    }
    if (a->n + b->n > DIM_MAX_DEGREE) {
        p->bad = "it is a product of too many symbols";
        return false;
    }
    while (i < a->n || k < b->n) {
        bool first = k == b->n || (i < a->n && a->atoms[i] <= b->atoms[k]);

        out->atoms[out->n++] = first ? a->atoms[i++] : b->atoms[k++];
    }
    return true;
}

/* out += by * p */
static void
add_poly(struct poly *out, const struct poly *p, const struct dim_term *by)
{
    struct dim_term term;
    uint32_t i;

    if (p->bad)
        out->bad = p->bad;
    for (i = 0; i < p->n && !out->bad; i++) {
        if (mul_terms(out, &p->terms[i], by, &term))
            add_term(out, &term);
    }
}

/* The term over one that divides it; false: it does not. */
static bool
divide_terms(const struct dim_term *a, const struct dim_term *b,
             struct dim_term *out)
{
    uint32_t i;

    *out = *a;
    if (b->c == 0 || a->c % b->c)
        return false;
    out->c = a->c / b->c;
    for (i = 0; i < b->n; i++) {
        if (!take_atom(out, b->atoms[i]))
            return false;
    }
    return true;
}

/* Moves the terms that `by`, a term, divides from p into q, over it. */
static void
split_terms(struct poly *p, const struct dim_term *by, struct poly *q)
{
    struct poly rest = {.n = 0};
    struct dim_term term;
    uint32_t i;

    for (i = 0; i < p->n && !q->bad; i++) {
        if (divide_terms(&p->terms[i], by, &term)) {
            add_term(q, &term);
            continue;
        }
        term = p->terms[i];
        if (by->n == 0) { /* c = b * k + a rest from 0 to b - 1 */
            int64_t m = term.c % by->c;

            m += m < 0 ? by->c : 0;
            term.c = (term.c - m) / by->c;
            if (term.c)
                add_term(q, &term);
            term.c = m;
        }
        add_term(&rest, &term);
    }
    *p = rest;
}

/* Looks for the expression, or keeps it. */
static int64_t
keep_poly(struct dim_table *t, const struct poly *p)
{
    uint64_t hash = p->n, *at, next;
    struct interval bounds;
    uint32_t i, k;

    if (p->bad)
        return bad(t, p->bad);
    if (p->n == 0)
        return 0;
    if (p->n == 1 && p->terms[0].n == 0)
        return p->terms[0].c;
    for (i = 0; i < p->n; i++) {
        hash = hash_add(hash, (uint64_t)p->terms[i].c);
        for (k = 0; k < p->terms[i].n; k++)
            hash = hash_add(hash, p->terms[i].atoms[k]);
    }
    /* The next one of the same hash is at the hash of it. */
    for (next = hash; (at = map_get(&t->map, next)) != NULL;
         next = hash_mix(next)) {
        const struct dim_expr *e = &t->exprs[*at];

        for (i = 0;
             i < p->n && e->n == p->n && e->terms[i].c == p->terms[i].c &&
             order_terms(&e->terms[i], &p->terms[i]) == 0;
             i++)
            continue;
        if (i == p->n && e->n == p->n)
            return dim_word(*at);
    }
    if (host_grow((void **)&t->exprs, &t->cap_exprs, t->n_exprs + 1,
                  sizeof(*t->exprs)) != 0)
        return bad(t, "out of memory");
    bounds = poly_interval(t, p, NULL);
    t->exprs[t->n_exprs] = (struct dim_expr){
        .terms = arena_copy(&t->arena, p->terms, p->n * sizeof(*p->terms)),
        .n = p->n,
        .min = bounds.min,
        .max = bounds.max,
    };
    if (!t->exprs[t->n_exprs].terms || map_put(&t->map, next, t->n_exprs) != 0)
        return bad(t, "out of memory");
    return dim_word(t->n_exprs++);
}

/* ---- atoms ------------------------------------------------------------- */

static uint32_t
depth_of(const struct dim_table *t, int64_t d)
{
    uint32_t depth = 0, i, k;

    for (i = 0; dim_is_expr(d) && i < expr_of(t, d)->n; i++) {
        const struct dim_term *term = &expr_of(t, d)->terms[i];

        for (k = 0; k < term->n; k++) {
            uint32_t at = t->atoms[term->atoms[k]].depth;

            depth = at > depth ? at : depth;
        }
    }
    return depth;
}

/* The size that is the atom alone. */
static int64_t
keep_atom(struct dim_table *t, struct dim_atom atom)
{
    struct poly p = {.n = 1, .terms = {{.c = 1, .n = 1}}};
    struct interval bounds;
    size_t i;

    for (i = 0; i < t->n_atoms; i++) {
        if (t->atoms[i].kind == atom.kind && t->atoms[i].a == atom.a &&
            t->atoms[i].b == atom.b)
            break;
    }
    p.terms[0].atoms[0] = (uint32_t)i;
    if (i < t->n_atoms)
        return keep_poly(t, &p);
    if (host_grow((void **)&t->atoms, &t->cap_atoms, i + 1,
                  sizeof(*t->atoms)) != 0)
        return bad(t, "out of memory");
    if (atom.kind != DIM_SYMBOL) {
        uint32_t a = depth_of(t, atom.a), b = depth_of(t, atom.b);

        atom.depth = 1 + (a > b ? a : b);
        if (atom.depth > DIM_MAX_DEPTH)
            return bad(t, "it has quotients of too many quotients");
    }
    bounds = bound_atom(t, &atom, NULL);
    atom.min = bounds.min;
    atom.max = bounds.max;
    t->atoms[t->n_atoms++] = atom;
    return keep_poly(t, &p);
}

int64_t
dim_symbol(struct dim_table *t, const char *name, int64_t min, int64_t max)
{
    struct dim_symbol *s = &t->symbols[t->n_symbols];
    struct dim_atom atom = {
        .kind = DIM_SYMBOL, .a = t->n_symbols, .min = min, .max = max};
    int64_t d;

    if (!dim_is_number(min) || !dim_is_number(max) || min > max)
        return bad(t, "its bounds are none");
    if (t->n_symbols == DIM_MAX_SYMBOLS)
        return bad(t, "there are too many symbols");
    d = keep_atom(t, atom);
    if (d == DIM_BAD)
        return d;
    *s = (struct dim_symbol){.min = min, .max = max, .value = min, .dim = d};
    snprintf(s->name, sizeof(s->name), "%s", name ? name : "n");
    t->n_symbols++;
    return d;
}

/* The atom that d is, alone; NULL: it is none. */
static const struct dim_atom *
atom_of(const struct dim_table *t, int64_t d)
{
    const struct dim_expr *e = dim_is_expr(d) ? expr_of(t, d) : NULL;

    return e && e->n == 1 && e->terms[0].c == 1 && e->terms[0].n == 1
               ? &t->atoms[e->terms[0].atoms[0]]
               : NULL;
}

int
dim_symbol_of(const struct dim_table *t, int64_t d)
{
    const struct dim_atom *atom = atom_of(t, d);

    return atom && atom->kind == DIM_SYMBOL ? (int)atom->a : -1;
}

bool
dim_is_linear(const struct dim_table *t, int64_t d, uint32_t *out_symbol,
              int64_t *out_a, int64_t *out_b)
{
    const struct dim_expr *e = dim_is_expr(d) ? expr_of(t, d) : NULL;
    const struct dim_atom *atom;

    if (!e || e->terms[0].n != 1 || e->n > 2 || (e->n == 2 && e->terms[1].n))
        return false;
    atom = &t->atoms[e->terms[0].atoms[0]];
    *out_symbol = (uint32_t)atom->a;
    *out_a = e->terms[0].c;
    *out_b = e->n == 2 ? e->terms[1].c : 0;
    return atom->kind == DIM_SYMBOL;
}

/* ---- arithmetic -------------------------------------------------------- */

/* Apart from the ways for numbers below, whose frames are small. */
static __attribute__((noinline)) int64_t
add_polys(struct dim_table *t, int64_t a, int64_t b, int64_t c)
{
    const struct dim_term by = {.c = c};
    struct poly x, y;

    read_poly(t, a, &x);
    read_poly(t, b, &y);
    if (!x.bad)
        add_poly(&x, &y, &by);
    return keep_poly(t, &x);
}

int64_t
dim_of_term(struct dim_table *t, const struct dim_term *term)
{
    struct poly p = {.n = 1, .terms = {*term}};

    return keep_poly(t, &p);
}

static __attribute__((noinline)) int64_t
multiply_polys(struct dim_table *t, int64_t a, int64_t b)
{
    struct poly x, y, out = {.n = 0};
    uint32_t i;

    read_poly(t, a, &x);
    read_poly(t, b, &y);
    out.bad = x.bad;
    for (i = 0; i < x.n && !out.bad; i++)
        add_poly(&out, &y, &x.terms[i]);
    if (y.bad)
        out.bad = y.bad;
    return keep_poly(t, &out);
}

int64_t
dim_add(struct dim_table *t, int64_t a, int64_t b)
{
    if (dim_is_number(a) && dim_is_number(b) && dim_is_number(a + b))
        return a + b;
    return add_polys(t, a, b, 1);
}

int64_t
dim_sub(struct dim_table *t, int64_t a, int64_t b)
{
    if (dim_is_number(a) && dim_is_number(b) && dim_is_number(a - b))
        return a - b;
    return add_polys(t, a, b, -1);
}

int64_t
dim_mul(struct dim_table *t, int64_t a, int64_t b)
{
    int64_t plain;

    if (dim_is_number(a) && dim_is_number(b) &&
        !__builtin_mul_overflow(a, b, &plain) && dim_is_number(plain))
        return plain;
    return multiply_polys(t, a, b);
}

int64_t
dim_product(struct dim_table *t, const int64_t *d, uint32_t n)
{
    int64_t product = 1;
    uint32_t i;

    for (i = 0; i < n; i++)
        product = dim_times(t, product, d[i]);
    return product;
}

/* By leading terms: what is exact ends at 0. */
int64_t
dim_divide(struct dim_table *t, int64_t a, int64_t b)
{
    struct poly p, d, q = {.n = 0};
    struct dim_term term;

    read_poly(t, a, &p);
    read_poly(t, b, &d);
    if (p.bad || d.bad)
        return bad(t, p.bad ? p.bad : d.bad);
    while (p.n && !p.bad && !q.bad) {
        if (!d.n || !divide_terms(&p.terms[0], &d.terms[0], &term))
            return bad(t, "one does not divide the other");
        add_term(&q, &term);
        term.c = -term.c;
        add_poly(&p, &d, &term);
    }
    q.bad = p.bad ? p.bad : q.bad;
    return keep_poly(t, &q);
}

/* a = b * q + r: q and r as far as they are known. False: they are the whole
 * answer, 0 <= r < b. */
static bool
divide_part(struct dim_table *t, int64_t a, int64_t b, int64_t *out_q,
            int64_t *out_r)
{
    struct poly p, d, q = {.n = 0};
    int64_t min, max, unused;

    *out_q = *out_r = DIM_BAD;
    read_poly(t, a, &p);
    read_poly(t, b, &d);
    if (p.bad || d.bad) {
        (void)bad(t, p.bad ? p.bad : d.bad);
        return false;
    }
    dim_bounds(t, b, &min, &max);
    if (min < 1) {
        (void)bad(t, "a divisor may be 0 or less");
        return false;
    }
    *out_q = dim_divide(t, a, b);
    *out_r = 0;
    if (*out_q != DIM_BAD)
        return false;
    if (d.n == 1)
        split_terms(&p, &d.terms[0], &q);
    *out_q = keep_poly(t, &q);
    *out_r = keep_poly(t, &p);
    if (*out_q == DIM_BAD || *out_r == DIM_BAD)
        return false;
    dim_bounds(t, *out_r, &min, &unused);
    return min < 0 || dim_at_most(t, dim_add(t, *out_r, 1), b) != DIM_ALWAYS;
}

int64_t
dim_floordiv(struct dim_table *t, int64_t a, int64_t b)
{
    int64_t q, r;

    if (!divide_part(t, a, b, &q, &r))
        return r == DIM_BAD ? DIM_BAD : q;
    return dim_add(
        t, q,
        keep_atom(t, (struct dim_atom){.kind = DIM_FLOORDIV, .a = r, .b = b}));
}

int64_t
dim_floormod(struct dim_table *t, int64_t a, int64_t b)
{
    int64_t q, r;

    if (!divide_part(t, a, b, &q, &r))
        return q == DIM_BAD ? DIM_BAD : r;
    return keep_atom(t,
                     (struct dim_atom){.kind = DIM_FLOORMOD, .a = r, .b = b});
}

enum dim_answer
dim_at_most(struct dim_table *t, int64_t a, int64_t b)
{
    int64_t by = dim_sub(t, b, a), min, max;

    if (by == DIM_BAD)
        return DIM_UNKNOWN;
    dim_bounds(t, by, &min, &max);
    return min >= 0 ? DIM_ALWAYS : max < 0 ? DIM_NEVER : DIM_UNKNOWN;
}

enum dim_answer
dim_equal(struct dim_table *t, int64_t a, int64_t b)
{
    int64_t by = dim_sub(t, b, a), min, max;

    if (by == DIM_BAD)
        return DIM_UNKNOWN;
    dim_bounds(t, by, &min, &max);
    if (min == 0 && max == 0)
        return DIM_ALWAYS;
    return min > 0 || max < 0 ? DIM_NEVER : DIM_UNKNOWN;
}

static int64_t
choose(struct dim_table *t, int64_t a, int64_t b, enum dim_atom_kind kind)
{
    enum dim_answer up = dim_at_most(t, a, b), down;

    if (a == DIM_BAD || b == DIM_BAD)
        return DIM_BAD;
    if (up == DIM_ALWAYS)
        return kind == DIM_MIN ? a : b;
    down = dim_at_most(t, b, a);
    if (down == DIM_ALWAYS)
        return kind == DIM_MIN ? b : a;
    return keep_atom(t, a < b
                            ? (struct dim_atom){.kind = kind, .a = a, .b = b}
                            : (struct dim_atom){.kind = kind, .a = b, .b = a});
}

int64_t
dim_min(struct dim_table *t, int64_t a, int64_t b)
{
    return choose(t, a, b, DIM_MIN);
}

int64_t
dim_max(struct dim_table *t, int64_t a, int64_t b)
{
    return choose(t, a, b, DIM_MAX);
}

/* ---- what is made of them ---------------------------------------------- */

static int64_t
atom_value(const struct dim_table *t, const struct dim_atom *atom,
           const int64_t *values)
{
    int64_t a, b;

    if (atom->kind == DIM_SYMBOL)
        return values ? values[atom->a] : t->symbols[atom->a].value;
    a = dim_value(t, atom->a, values);
    b = dim_value(t, atom->b, values);
    switch ((int)atom->kind) {
    case DIM_FLOORDIV:
        return floor_div(a, b);
    case DIM_FLOORMOD:
        return a - floor_div(a, b) * b;
    case DIM_MIN:
        return a < b ? a : b;
    default:
        return a > b ? a : b;
    }
}

int64_t
dim_value(const struct dim_table *t, int64_t d, const int64_t *values)
{
    const struct dim_expr *e;
    int64_t sum = 0;
    uint32_t i, k;

    if (!dim_is_expr(d))
        return d;
    e = expr_of(t, d);
    for (i = 0; i < e->n; i++) {
        int64_t x = e->terms[i].c;

        for (k = 0; k < e->terms[i].n; k++)
            x = mul_far(x,
                        atom_value(t, &t->atoms[e->terms[i].atoms[k]], values));
        sum = add_far(sum, clamp(x));
    }
    return sum;
}

uint32_t
dim_symbols(const struct dim_table *t, int64_t d)
{
    const struct dim_expr *e;
    uint32_t found = 0, i, k;

    if (!dim_is_expr(d))
        return 0;
    e = expr_of(t, d);
    for (i = 0; i < e->n; i++) {
        for (k = 0; k < e->terms[i].n; k++) {
            const struct dim_atom *atom = &t->atoms[e->terms[i].atoms[k]];

            found |= atom->kind == DIM_SYMBOL
                         ? 1u << atom->a
                         : dim_symbols(t, atom->a) | dim_symbols(t, atom->b);
        }
    }
    return found;
}

static const struct uop *
atom_uop(const struct dim_table *t, struct uop_graph *g,
         const struct dim_atom *atom, const struct uop *const *vars)
{
    static const enum uop_op ops[] = {
        [DIM_FLOORDIV] = UOP_FLOORDIV,
        [DIM_FLOORMOD] = UOP_FLOORMOD,
        [DIM_MIN] = UOP_MIN,
        [DIM_MAX] = UOP_MAX,
    };

    if (atom->kind == DIM_SYMBOL)
        return vars[atom->a];
    return uop_alu2(g, ops[atom->kind], dim_uop(t, g, atom->a, vars),
                    dim_uop(t, g, atom->b, vars));
}

const struct uop *
dim_uop(const struct dim_table *t, struct uop_graph *g, int64_t d,
        const struct uop *const *vars)
{
    const struct uop *sum = NULL, *u;
    const struct dim_expr *e;
    uint32_t i, k;

    if (!dim_is_expr(d))
        return uop_const_int(g, UOP_I64, d);
    e = expr_of(t, d);
    for (i = 0; i < e->n; i++) {
        const struct dim_term *term = &e->terms[i];

        u = NULL;
        for (k = 0; k < term->n; k++) {
            const struct uop *by =
                atom_uop(t, g, &t->atoms[term->atoms[k]], vars);

            u = u ? uop_alu2(g, UOP_MUL, u, by) : by;
        }
        if (!u)
            u = uop_const_int(g, UOP_I64, term->c);
        else if (term->c != 1)
            u = uop_alu2(g, UOP_MUL, u, uop_const_int(g, UOP_I64, term->c));
        sum = sum ? uop_alu2(g, UOP_ADD, sum, u) : u;
    }
    return sum;
}

/* ---- text -------------------------------------------------------------- */

struct writer {
    const struct dim_table *t;
    char *text;
    size_t size, at;
};

static void write_dim(struct writer *w, int64_t d);

__attribute__((format(printf, 2, 3))) static void
put(struct writer *w, const char *fmt, ...)
{
    va_list args;
    int n;

    if (w->at >= w->size)
        return;
    va_start(args, fmt);
    n = vsnprintf(w->text + w->at, w->size - w->at, fmt, args);
    va_end(args);
    w->at += n > 0 ? (size_t)n : 0;
}

/* An operand of // or %. */
static void
write_operand(struct writer *w, int64_t d)
{
    bool is_sum = dim_is_expr(d) && (expr_of(w->t, d)->n > 1 ||
                                     expr_of(w->t, d)->terms[0].c != 1 ||
                                     expr_of(w->t, d)->terms[0].n > 1);

    put(w, "%s", is_sum ? "(" : "");
    write_dim(w, d);
    put(w, "%s", is_sum ? ")" : "");
}

static void
write_atom(struct writer *w, const struct dim_atom *atom)
{
    switch (atom->kind) {
    case DIM_SYMBOL:
        put(w, "%s", w->t->symbols[atom->a].name);
        return;
    case DIM_FLOORDIV:
    case DIM_FLOORMOD:
        put(w, "(");
        write_operand(w, atom->a);
        put(w, atom->kind == DIM_FLOORDIV ? "//" : "%%");
        write_operand(w, atom->b);
        put(w, ")");
        return;
    case DIM_MIN:
    case DIM_MAX:
        put(w, atom->kind == DIM_MIN ? "min(" : "max(");
        write_dim(w, atom->a);
        put(w, ", ");
        write_dim(w, atom->b);
        put(w, ")");
        return;
    }
}

static void
write_dim(struct writer *w, int64_t d)
{
    const struct dim_expr *e;
    uint32_t i, k;

    if (!dim_is_expr(d)) {
        put(w, "%" PRId64, d);
        return;
    }
    e = expr_of(w->t, d);
    for (i = 0; i < e->n; i++) {
        const struct dim_term *term = &e->terms[i];
        int64_t c = i && term->c < 0 ? -term->c : term->c;

        if (i)
            put(w, term->c < 0 ? " - " : " + ");
        if (c == -1 && term->n)
            put(w, "-");
        else if (c != 1 || !term->n)
            put(w, term->n ? "%" PRId64 "*" : "%" PRId64, c);
        for (k = 0; k < term->n; k++) {
            put(w, "%s", k ? "*" : "");
            write_atom(w, &w->t->atoms[term->atoms[k]]);
        }
    }
}

void
dim_print(const struct dim_table *t, int64_t d, char *text, size_t size_bytes)
{
    struct writer w = {.t = t, .text = text, .size = size_bytes};

    if (size_bytes)
        text[0] = 0;
    if (d == DIM_BAD)
        put(&w, "?");
    else
        write_dim(&w, d);
}
