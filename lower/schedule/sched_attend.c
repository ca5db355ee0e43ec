/* Attention: softmax(x) @ v, where x is made of q @ k.T element by element.
 *
 * A softmax that is a product's factor is E * (1 / L), rounded perhaps. First
 * the division moves behind the product, to what becomes the root; then nothing
 * between the scores and the root is stored, and its kernel is attention
 * (lower/attention/attention.h).
 *
 * E, L and the maximum M may be used for one thing else: factors of other
 * products, made of the scores element by element and perhaps of another such
 * product, as gradients are. These kernels compute the scores again; the first
 * keeps M and L for them, so that no matrix of scores is stored.
 */
#include "lower/schedule/sched_internal.h"

#include <assert.h>
#include <string.h>

#include "base/alloc.h"
#include "lower/lower.h"

#define MAX_DEPTH  16 /* movement ops and conversions above a factor */
#define MIN_ROWS   16 /* of queries */
#define FEW_KEYS   32 /* that fewer queries take at least */
#define FEW_BY_FEW 64 /* that they take at most on a CPU */
#define PART_KEYS  128
#define PART_ITEMS 128 /* work-items */
#define MAX_WIDE   256
#define MAX_STACK  64 /* nodes between the scores and the maximum */

/* One candidate; nodes of the tensor graph. */
struct match {
    const struct uop *out; /* the product with v */
    const struct uop *exp, *max, *score;
    const struct uop *inverse; /* 1 / L, as E is; NULL: behind the product */
    uint32_t side;             /* of out's factors, E's */
    const struct uop *chain[MAX_DEPTH]; /* from that factor to E */
    uint32_t n_chain;
};

static bool
is_sum_of_products(const struct uop *u)
{
    return u->op == UOP_REDUCE_AXIS && uop_reduce_op(u) == UOP_ADD &&
           u->dtype == UOP_F32 && u->src[0]->op == UOP_MUL;
}

static bool
is_moved(const struct uop *u)
{
    return u->op == UOP_EXPAND || u->op == UOP_RESHAPE ||
           u->op == UOP_PERMUTE || u->op == UOP_SHRINK || u->op == UOP_DETACH;
}

/* What was only moved. */
static const struct uop *
still(const struct uop *u)
{
    while (is_moved(u))
        u = u->src[0];
    return u;
}

/* Is it a product of factors of a kind that the target attends to? */
static bool
is_attend_product(const struct sched *s, const struct uop *u)
{
    uint32_t i, kinds = s->target->attends;

    for (i = 0; i < 2 && is_sum_of_products(u); i++) {
        const struct uop *x = still(u->src[0]->src[i]);
        bool half = x->op == UOP_CAST && (x->src[0]->dtype == UOP_F16 ||
                                          x->src[0]->dtype == UOP_BF16);
        if (!(kinds & (half ? LOWER_ATTENDS_HALVES : LOWER_ATTENDS_WORDS)))
            return false;
    }
    return i == 2;
}

/* How many elements, for all values of symbols; DIM_BAD: not known. */
static int64_t
numel(const struct uop_graph *g, const struct uop *u)
{
    const struct uop_dims *dims = uop_shape(g, u);

    return dim_product(g->sizes, dims->d, dims->n);
}

static bool
as_many(const struct uop_graph *g, const struct uop *a, const struct uop *b)
{
    int64_t n = numel(g, a);

    return n != DIM_BAD && n == numel(g, b);
}

/* How many elements there can be. */
static int64_t
most_elems(const struct uop_graph *g, const struct uop *u)
{
    return (int64_t)sched_numel(g, uop_shape(g, u));
}

/* The one such product that u is made of, element by element. */
static const struct uop *
find_score(const struct sched *s, const struct uop *u)
{
    const struct uop *stack[MAX_STACK], *score = NULL;
    uint32_t n = 0, i;

    for (stack[n++] = u; n;) {
        u = stack[--n];
        if (is_attend_product(s, u)) {
            if (score && score != u)
                return NULL;
            score = u;
            continue;
        }
        if (!uop_has(u, UOP_FLAG_ALU) && u->op != UOP_CAST && !is_moved(u))
            continue;
        for (i = 0; i < u->n_src; i++) {
            if (n == MAX_STACK)
                return NULL;
            stack[n++] = u->src[i];
        }
    }
    return score;
}

/* Is u E, of a maximum over one axis? */
static bool
find_attend_exp(const struct sched *s, const struct uop *u, struct match *m)
{
    const struct uop *diff;

    m->exp = u;
    if (u->op != UOP_EXP2 || u->dtype != UOP_F32)
        return false;
    diff = u->src[0];
    if (diff->op == UOP_MUL && diff->src[1]->op == UOP_CONST)
        diff = diff->src[0];
    if (diff->op != UOP_SUB)
        return false;
    m->max = still(diff->src[1]);
    if (m->max->op != UOP_REDUCE_AXIS || uop_reduce_op(m->max) != UOP_MAX ||
        m->max->src[0] != diff->src[0])
        return false;
    m->score = find_score(s, diff->src[0]);
    return m->score != NULL;
}

/* Is u the inverse of what is added up of m->exp? */
static bool
is_inverse(const struct match *m, const struct uop *u)
{
    u = still(u);
    if (u->op != UOP_RECIP)
        return false;
    u = still(u->src[0]);
    return u->op == UOP_REDUCE_AXIS && uop_reduce_op(u) == UOP_ADD &&
           u->src[0] == m->exp && uop_reduce_axes(u) == uop_reduce_axes(m->max);
}

/* Axis *axis of u's source, or the inner part of it that is `size` long, is in
 * which of u's? False: in none alone. */
static bool
move_axis(const struct uop_graph *g, const struct uop *u, int64_t size,
          uint32_t *axis)
{
    const struct uop_dims *from = uop_shape(g, u->src[0]),
                          *to = uop_shape(g, u);
    int64_t inner = 1, have = 1;
    uint32_t i, from_axis = *axis;

    if (u->op == UOP_PERMUTE) {
        for (i = 0; u->arg.dims->d[i] != (int64_t)*axis; i++)
            ;
        *axis = i;
    } else if (u->op == UOP_RESHAPE) {
        for (i = from->n; --i > *axis;)
            inner = dim_times(g->sizes, inner, from->d[i]);
        for (i = to->n; i > 0 && (have != inner || to->d[i - 1] == 1); i--)
            have = dim_times(g->sizes, have, to->d[i - 1]);
        if (i == 0 || inner == DIM_BAD)
            return false;
        *axis = i - 1;
        return g->sizes ? dim_floormod(g->sizes, to->d[*axis], size) == 0
                        : to->d[*axis] % size == 0;
    }
    return to->d[*axis] == from->d[from_axis];
}

/* Is the sum over the keys, E's last axis? */
static bool
is_over_keys(const struct sched *s, const struct match *m)
{
    uint32_t axis = uop_shape(s->g, m->exp)->n - 1, i;
    int64_t size = uop_shape(s->g, m->exp)->d[axis];

    for (i = m->n_chain; i-- > 0;) {
        if (size == 0 || !move_axis(s->g, m->chain[i], size, &axis))
            return false;
    }
    return uop_reduce_axes(m->out) == 1u << axis &&
           uop_shape(s->g, m->out->src[0])->d[axis] == size;
}

/* Is factor `side` of the product E, or E / L, as halves? */
static bool
find_factor(const struct sched *s, const struct uop *out, uint32_t side,
            struct match *m)
{
    const struct uop *u = out->src[0]->src[side];
    uint32_t i;

    assert(side < 2);
    *m = (struct match){.out = out, .side = side};
    while (is_moved(u) || u->op == UOP_CAST) {
        if (m->n_chain == MAX_DEPTH)
            return false;
        m->chain[m->n_chain++] = u;
        u = u->src[0];
    }
    if (find_attend_exp(s, u, m))
        return true;
    for (i = 0; u->op == UOP_MUL && i < 2; i++) {
        if (find_attend_exp(s, u->src[i], m) && is_inverse(m, u->src[1 - i])) {
            m->inverse = u->src[1 - i];
            return true;
        }
    }
    return false;
}

/* Do sizes make it worth while? (The exact conditions are known only when the
 * kernel is there.) */
static bool
fits_attention(const struct sched *s, const struct match *m)
{
    const struct uop_graph *g = s->g;
    const struct uop_dims *rows = uop_shape(g, m->max);
    uint32_t axes = uop_reduce_axes(m->max), last = rows->n - 1;
    int64_t n = most_elems(g, m->max), n_rows;

    if (rows->n < 2 || axes != 1u << last || !n || !most_elems(g, m->score))
        return false;
    n_rows = sched_most(g, rows->d[last - 1]);
    return (n_rows >= MIN_ROWS ||
            (s->target->attends & LOWER_ATTENDS_SMALL && n_rows >= 2 &&
             most_elems(g, m->exp) / n <= FEW_BY_FEW) ||
            (s->target->attends & LOWER_ATTENDS_FEW &&
             most_elems(g, m->exp) / n >= FEW_KEYS)) &&
           most_elems(g, m->out) / n <= MAX_WIDE &&
           most_elems(g, m->score->src[0]) / most_elems(g, m->score) <=
               MAX_WIDE;
}

static bool
find_match(const struct sched *s, const struct uop *u, struct match *m)
{
    uint32_t side;

    if (!is_attend_product(s, u))
        return false;
    for (side = 0; side < 2; side++) {
        if (find_factor(s, u, side, m) && fits_attention(s, m) &&
            is_over_keys(s, m))
            return true;
    }
    return false;
}

/* ---- what else uses it ---- */

/* A graph in order, sources first. */
struct list {
    const struct uop **u;
    size_t n;
    uint32_t *place; /* by id */
    uint8_t *marks;  /* by place: enum mark */
    uint8_t *below;  /* by place: of what the root is made */
};

enum mark {
    MARK_NONE,
    MARK_INNER, /* of the scores' size or a row's, made of them */
    MARK_SCORE, /* they, and what is combined with them */
    MARK_BACK,  /* another product that what is inner is a factor of */
};

static bool
is_inner(const struct list *l, const struct uop *u)
{
    uint8_t mark = l->marks[l->place[u->id]];

    return mark == MARK_INNER || mark == MARK_SCORE;
}

/* The sum of products of what is inner, and larger there, with what is not. */
static bool
is_back(const struct sched *s, const struct list *l, const struct match *m,
        const struct uop *u)
{
    return s->target->attends & LOWER_ATTENDS_BACK && is_sum_of_products(u) &&
           is_inner(l, u->src[0]->src[0]) != is_inner(l, u->src[0]->src[1]) &&
           most_elems(s->g, u->src[0]) > most_elems(s->g, m->score);
}

/* Products below u that are combined with the scores, element by element,
 * become inner. *out_more: one was not. */
static bool
add_scores(const struct sched *s, struct list *l, const struct match *m,
           const struct uop *u, bool *out_more)
{
    const struct uop *stack[MAX_STACK];
    uint32_t n = 0, n_seen = 0, i;

    for (stack[n++] = u; n;) {
        u = stack[--n];
        if (is_inner(l, u))
            continue;
        if (is_attend_product(s, u) && as_many(s->g, u, m->score)) {
            l->marks[l->place[u->id]] = MARK_SCORE;
            *out_more = true;
            continue;
        }
        if ((!uop_has(u, UOP_FLAG_ALU) && u->op != UOP_CAST && !is_moved(u)) ||
            !as_many(s->g, u, m->score))
            continue;
        for (i = 0; i < u->n_src; i++) {
            if (n == MAX_STACK || n_seen++ == MAX_STACK)
                return false;
            stack[n++] = u->src[i];
        }
    }
    return true;
}

/* Marks what is made of the scores, up to the products that it is a factor of.
 * `root` is what is made of m->out, or m->out. False where something else is
 * made of it, or it is asked for. *out_back: there are other products. */
static bool
mark_once(const struct sched *s, struct list *l, const struct match *m,
          const struct uop *root, bool *out_more, bool *out_back)
{
    size_t i;
    uint32_t j;

    *out_more = *out_back = false;
    for (i = 0; i < l->n; i++) {
        const struct uop *u = l->u[i];
        bool made = false;
        for (j = 0; j < u->n_src; j++)
            made |= is_inner(l, u->src[j]);
        if (!made || u == m->out || u == root || l->marks[i] == MARK_SCORE)
            continue;
        if (is_back(s, l, m, u)) {
            l->marks[i] = MARK_BACK;
            *out_back = true;
            continue;
        }
        if (!uop_has(u, UOP_FLAG_ALU) && u->op != UOP_CAST && !is_moved(u) &&
            u != m->max &&
            (u->op != UOP_REDUCE_AXIS || uop_reduce_op(u) != UOP_ADD ||
             u->src[0] != m->exp ||
             uop_reduce_axes(u) != uop_reduce_axes(m->max)))
            return false;
        l->marks[i] = MARK_INNER;
        for (j = 0; j < u->n_src && s->target->attends & LOWER_ATTENDS_BACK;
             j++) {
            if (as_many(s->g, u, m->score) &&
                !add_scores(s, l, m, u->src[j], out_more))
                return false;
        }
    }
    return true;
}

static bool
mark_inner(const struct sched *s, struct list *l, const struct match *m,
           const struct uop *root, const struct uop *const *roots,
           uint32_t n_roots, bool *out_back)
{
    bool more;
    uint32_t j;

    memset(l->marks, MARK_NONE, l->n);
    l->marks[l->place[m->score->id]] = MARK_SCORE;
    do {
        if (!mark_once(s, l, m, root, &more, out_back))
            return false;
    } while (more);
    for (j = 0; j < n_roots; j++) {
        if (is_inner(l, still(roots[j])) || is_inner(l, roots[j]))
            return false;
    }
    return is_inner(l, m->exp);
}

/* The same where L and M are used for something else, whatever it is: they are
 * kept for it. */
static bool
mark_kept(struct list *l, const struct match *m, const struct uop *root)
{
    size_t i;
    uint32_t j;

    memset(l->marks, MARK_NONE, l->n);
    memset(l->below, 0, l->n);
    l->below[l->place[root->id]] = 1;
    for (i = l->place[root->id] + 1; i-- > 0;) {
        for (j = 0; j < l->u[i]->n_src && l->below[i]; j++)
            l->below[l->place[l->u[i]->src[j]->id]] = 1;
    }
    l->marks[l->place[m->score->id]] = MARK_SCORE;
    for (i = 0; i < l->n; i++) {
        const struct uop *u = l->u[i];
        bool made = false, kept = true;
        for (j = 0; j < u->n_src; j++) {
            bool inner = is_inner(l, u->src[j]);
            made |= inner;
            kept &= !inner || u->src[j] == m->max ||
                    (u->src[j]->op == UOP_REDUCE_AXIS &&
                     u->src[j]->src[0] == m->exp);
        }
        if (!made || u == m->out || u == root)
            continue;
        if (l->below[i])
            l->marks[i] = MARK_INNER;
        else if (!kept)
            return false;
    }
    return is_inner(l, m->exp);
}

static bell_status
init_list(struct sched *s, const struct uop *const *roots, uint32_t n_roots,
          struct list *l)
{
    size_t i;

    BELL_TRY(uop_toposort(s->g, roots, n_roots, &l->u, &l->n));
    l->place = sched_numbers(s, s->g->n_nodes);
    l->marks = arena_alloc(&s->scratch, l->n + 1);
    l->below = arena_alloc(&s->scratch, l->n + 1);
    if (!l->place || !l->marks || !l->below)
        return sched_no_memory(s);
    for (i = 0; i < l->n; i++)
        l->place[l->u[i]->id] = (uint32_t)i;
    return BELL_OK;
}

/* ---- moving the division ---- */

static const struct uop *
shaped(struct sched *s, const struct uop *like, enum uop_op op,
       enum uop_dtype dtype, union uop_arg arg, const struct uop *a,
       const struct uop *b)
{
    const struct uop *src[2] = {a, b};

    return uop_new_shaped(s->g, op, dtype, arg, src, b ? 2 : 1,
                          uop_shape(s->g, like));
}

/* The product of E with v, times the inverse; to[] has what nodes became. */
static const struct uop *
divide_behind(struct sched *s, const struct match *m,
              const struct uop *const *to, const struct list *l)
{
    const struct uop *exp = to[l->place[m->exp->id]], *v, *product = m->out;
    const struct uop *inverse = to[l->place[m->inverse->id]];
    const union uop_arg no_arg = {.bits = 0};
    uint32_t i;

    for (i = m->n_chain; i-- > 0;) {
        const struct uop *u = m->chain[i];
        exp = shaped(s, u, u->op, u->dtype, u->arg, exp, NULL);
        if (u->op != UOP_CAST)
            inverse = shaped(s, u, u->op, UOP_F32, u->arg, inverse, NULL);
    }
    v = to[l->place[product->src[0]->src[1 - m->side]->id]];
    product = shaped(s, product->src[0], UOP_MUL, UOP_F32, no_arg,
                     m->side ? v : exp, m->side ? exp : v);
    product =
        shaped(s, m->out, UOP_REDUCE_AXIS, UOP_F32, m->out->arg, product, NULL);
    /* it is the same along the keys */
    inverse = sched_first(s->g, inverse, uop_shape(s->g, m->out)->d);
    return sched_each(s->g, UOP_MUL, UOP_F32, product, inverse);
}

/* ---- parts ---- */

/* u, n times along its last axis but `back`. */
static const struct uop *
repeat(struct sched *s, const struct uop *u, uint32_t back, int64_t n)
{
    const struct uop_dims *from = uop_shape(s->g, u);
    int64_t d[SCHED_MAX_RANK];

    if (s->g->failed)
        return &uop_failed;
    memcpy(d, from->d, from->n * sizeof(*d));
    d[from->n - 1 - back] = n;
    return sched_expand(s->g, u, uop_dims(s->g, d, from->n));
}

/* u, reduced along that axis. */
static const struct uop *
fold(struct sched *s, enum uop_op op, const struct uop *u, uint32_t back)
{
    return s->g->failed
               ? &uop_failed
               : sched_reduce(s->g, op, u,
                              1u << (uop_shape(s->g, u)->n - 1 - back));
}

/* Into how many parts to cut the keys, so that each has a work-group, and there
 * are work-groups for all units: PART_ITEMS of them are worth less than what
 * joining them takes. 1: not at all. guess: not tried on a card. */
static int64_t
count_parts(const struct sched *s, const struct match *m)
{
    const struct uop_dims *from = uop_shape(s->g, m->exp);
    const struct uop *v = still(m->out->src[0]->src[1 - m->side]);
    int64_t keys = from->d[from->n - 1], parts, best = 1, rows, most, groups;

    assert(m->n_chain <= MAX_DEPTH);
    rows = from->n > 1 ? from->d[from->n - 2] : 1;
    if (!(s->target->attends & LOWER_ATTENDS_FEW) || rows > MIN_ROWS ||
        from->n + 1 > SCHED_MAX_RANK ||
        uop_shape(s->g, m->out)->n + 1 > SCHED_MAX_RANK ||
        sched_dims_vary(from) || sched_dims_vary(uop_shape(s->g, m->out)))
        return 1;
    if (v->op == UOP_CAST)
        v = still(v->src[0]);
    /* work-groups without parts: of each, all keys and columns */
    groups = most_elems(s->g, v) /
             (keys * (most_elems(s->g, m->out) / most_elems(s->g, m->max)));
    most = keys / PART_KEYS;
    for (parts = 2; parts <= most; parts++) {
        if (keys % parts)
            continue;
        best = parts;
        if (groups * parts * PART_ITEMS >= s->target->n_parallel)
            break;
    }
    return groups < 1 || groups * PART_ITEMS >= s->target->n_parallel ? 1
                                                                      : best;
}

struct parts {
    const struct match *m;
    int64_t n, length;
    uint32_t axis;                  /* of the product, the keys */
    const struct uop_dims *scores;  /* E's, cut */
    const struct uop_dims *product; /* its own, cut: the parts, then the axes
                                     * it has, of which the keys are fewer */
};

/* What has the product's shape, cut. The parts are in front: what is stored of
 * each lies together. */
static const struct uop *
cut_product(struct sched *s, const struct parts *p, const struct uop *u)
{
    int64_t d[SCHED_MAX_RANK], order[SCHED_MAX_RANK];
    uint32_t i;

    for (i = 0; i < p->product->n; i++) {
        order[i] = i == 0 ? p->axis : i <= p->axis ? i - 1 : i;
        d[order[i]] = p->product->d[i];
    }
    u = sched_reshape(s->g, u, d, p->product->n);
    return sched_permute(s->g, u, order);
}

/* A value of each part of each row, or one of each score, as the product is
 * that is cut. */
static const struct uop *
carry(struct sched *s, const struct parts *p, const struct uop *u, bool cast)
{
    const struct uop_dims *whole = uop_shape(s->g, p->m->exp);
    uint32_t i;

    if (uop_shape(s->g, u) != p->scores)
        u = repeat(s, u, 0, p->length);
    u = sched_reshape(s->g, u, whole->d, whole->n);
    for (i = p->m->n_chain; i-- > 0;) {
        const struct uop *c = p->m->chain[i];
        if (cast || c->op != UOP_CAST)
            u = shaped(s, c, c->op, cast ? c->dtype : UOP_F32, c->arg, u, NULL);
    }
    return cut_product(s, p, u);
}

/* The same, once for each part. */
static const struct uop *
carry_once(struct sched *s, const struct parts *p, const struct uop *u)
{
    int64_t d[SCHED_MAX_RANK];

    memcpy(d, p->product->d, p->product->n * sizeof(*d));
    d[p->axis + 1] = 1;
    return sched_first(s->g, carry(s, p, u, false), d);
}

/* The axis is cut into parts, which become axis `at`, in front of it. */
static const struct uop_dims *
cut_axis(struct sched *s, const struct uop_dims *dims, uint32_t axis,
         uint32_t at, int64_t parts)
{
    int64_t d[SCHED_MAX_RANK + 1];
    uint32_t i;

    assert(at <= axis);
    for (i = 0; i <= dims->n; i++)
        d[i] = dims->d[i > at ? i - 1 : i];
    d[at] = parts;
    d[axis + 1] /= parts;
    return uop_dims(s->g, d, dims->n + 1);
}

static const struct uop *
alu(struct sched *s, enum uop_op op, const struct uop *a, const struct uop *b)
{
    return sched_each(s->g, op, UOP_F32, a, b);
}

/* E of x - max: max has x's shape. */
static const struct uop *
make_exp(struct sched *s, const struct match *m, const struct uop *x,
         const struct uop *max)
{
    const struct uop *was = m->exp->src[0];

    x = alu(s, UOP_SUB, x, max);
    if (was->op == UOP_MUL)
        x = alu(s, UOP_MUL, x, was->src[1]);
    return alu(s, UOP_EXP2, x, NULL);
}

/* u where it is a mean of something, else 0. */
static const struct uop *
if_any(struct sched *s, const struct uop *u, const struct uop *sum)
{
    const union uop_arg none = {.bits = 0};
    const struct uop *src[3] = {NULL, u, NULL};

    src[2] = uop_new_shaped(s->g, UOP_CONST, UOP_F32, (union uop_arg){.f = 0},
                            NULL, 0, uop_dims(s->g, NULL, 0));
    src[0] = shaped(s, u, UOP_CMPLT, UOP_BOOL, none, src[2], sum);
    return uop_new_shaped(s->g, UOP_WHERE, UOP_F32, none, src, 3,
                          uop_shape(s->g, u));
}

/* Attention of each part of the keys for itself, and their means by what each
 * has of all E: parts that none of was seen have none. to[] has what nodes
 * became. */
static const struct uop *
attend_parts(struct sched *s, const struct match *m,
             const struct uop *const *to, const struct list *l, int64_t n)
{
    const struct uop *product = m->out->src[0], *was = m->exp->src[0], *x, *v,
                     *max, *exp, *sum, *out, *share, *all;
    const struct uop_dims *whole = uop_shape(s->g, m->exp);
    uint32_t axis = 31u - (uint32_t)__builtin_clz(uop_reduce_axes(m->out));
    struct parts p = {.m = m, .n = n, .axis = axis};

    p.scores = cut_axis(s, whole, whole->n - 1, whole->n - 1, n);
    p.product = cut_axis(s, uop_shape(s->g, product), axis, 0, n);
    if (!p.scores || !p.product)
        return &uop_failed;
    p.length = p.scores->d[p.scores->n - 1];
    if (was->op == UOP_MUL)
        was = was->src[0];
    x = sched_reshape(s->g, to[l->place[was->src[0]->id]], p.scores->d,
                      p.scores->n);
    max = fold(s, UOP_MAX, x, 0);
    exp = make_exp(s, m, x, repeat(s, max, 0, p.length));
    sum = fold(s, UOP_ADD, exp, 0);
    v = to[l->place[product->src[1 - m->side]->id]];
    v = cut_product(s, &p, v);
    x = carry(s, &p, exp, true);
    out = alu(s, UOP_MUL, m->side ? v : x, m->side ? x : v);
    out = sched_reduce(s->g, UOP_ADD, out, 1u << (axis + 1));
    out = alu(s, UOP_MUL, out, carry_once(s, &p, alu(s, UOP_RECIP, sum, NULL)));
    /* the share of each part */
    all = repeat(s, fold(s, UOP_MAX, max, 1), 1, n);
    share = alu(s, UOP_MUL, sum, make_exp(s, m, max, all));
    all = repeat(s, fold(s, UOP_ADD, share, 1), 1, n);
    share = alu(s, UOP_MUL, share, alu(s, UOP_RECIP, all, NULL));
    out = alu(s, UOP_MUL, if_any(s, out, carry_once(s, &p, sum)),
              carry_once(s, &p, share));
    out = sched_reduce(s->g, UOP_ADD, out, 1);
    return sched_reshape(s->g, out, uop_shape(s->g, m->out)->d,
                         uop_shape(s->g, m->out)->n);
}

/* The sum over several axes, of heads that share what it is the gradient of:
 * over the last first, which the scores have, as its own kernel has it. */
static const struct uop *
split_sum(struct sched *s, const struct uop *u)
{
    uint32_t axes = uop_reduce_axes(u),
             last = 1u << (31 - (uint32_t)__builtin_clz(axes));

    return sched_reduce(s->g, UOP_ADD,
                        sched_reduce(s->g, UOP_ADD, u->src[0], last),
                        axes & ~last);
}

static bell_status
rewrite(struct sched *s, struct list *l, const struct uop **roots,
        uint32_t n_roots)
{
    const struct uop **to = arena_alloc(&s->scratch, l->n * sizeof(*to) + 1);
    uint8_t *splits = arena_calloc(&s->scratch, l->n + 1, 1);
    struct match m;
    uint32_t j, axes;
    size_t i, k;

    if (!to || !splits)
        return sched_no_memory(s);
    for (i = 0; i < l->n && !s->g->failed; i++) {
        const struct uop *u = l->u[i], *src[UOP_MAX_CALL_SRC];
        bool changed = false, back;
        s->g->mark = uop_mark(s->g, u);
        for (j = 0; j < u->n_src && j < UOP_MAX_CALL_SRC; j++) {
            src[j] = to[l->place[u->src[j]->id]];
            changed |= src[j] != u->src[j];
        }
        to[i] = changed ? uop_new_shaped(s->g, u->op, u->dtype, u->arg, src,
                                         u->n_src, uop_shape(s->g, u))
                        : u;
        if (find_match(s, u, &m) && m.inverse &&
            mark_inner(s, l, &m, u, roots, n_roots, &back)) {
            /* attention whose scores gradients make again is not in parts */
            int64_t parts = back ? 1 : count_parts(s, &m);
            to[i] = parts > 1 ? attend_parts(s, &m, to, l, parts)
                              : divide_behind(s, &m, to, l);
            for (k = i; k < l->n; k++)
                splits[k] |= l->marks[k] == MARK_BACK;
        }
        axes = splits[i] ? uop_reduce_axes(u) : 0;
        if (axes & (axes - 1))
            to[i] = split_sum(s, to[i]);
    }
    for (j = 0; j < n_roots && !s->g->failed; j++)
        roots[j] = to[l->place[roots[j]->id]];
    return uop_graph_status(s->g);
}

bell_status
sched_attend(struct sched *s, const struct uop **roots, uint32_t n_roots)
{
    struct list l = {.u = NULL};
    bell_status status;

    if (!s->target->attends)
        return BELL_OK;
    status = init_list(s, roots, n_roots, &l);
    if (status == BELL_OK)
        status = rewrite(s, &l, roots, n_roots);
    host_free(l.u);
    return status;
}

/* ---- marking ---- */

/* The one user of the product: its product with the inverse. */
static const struct uop *
find_root(const struct list *l, const struct match *m)
{
    const struct uop *root = NULL;
    size_t i;
    uint32_t j;

    for (i = l->place[m->out->id]; i < l->n; i++) {
        for (j = 0; j < l->u[i]->n_src; j++) {
            if (l->u[i]->src[j] != m->out)
                continue;
            if (root || l->u[i]->op != UOP_MUL ||
                !is_inverse(m, l->u[i]->src[1 - j]))
                return NULL;
            root = l->u[i];
        }
    }
    return root;
}

static void
note(const struct list *l, const struct match *m, const struct uop *root,
     bool keeps, uint8_t *out_roles)
{
    size_t i;

    for (i = 0; i < l->n; i++) {
        const struct uop *u = l->u[i];
        if (u == root)
            out_roles[i] = SCHED_ATTEND_ROOT;
        else if (u == m->out)
            out_roles[i] = SCHED_ATTEND_KEYS;
        else if (l->marks[i] == MARK_BACK)
            out_roles[i] = SCHED_ATTEND_BACK;
        else if (l->marks[i] == MARK_INNER && u->op == UOP_REDUCE_AXIS)
            out_roles[i] = keeps ? SCHED_ATTEND_KEPT : SCHED_ATTEND_KEYS;
        else if (l->marks[i] != MARK_NONE)
            out_roles[i] = SCHED_ATTEND_INNER;
    }
}

bell_status
sched_attend_roles(struct sched *s, const struct uop *const *roots,
                   uint32_t n_roots, uint8_t **out_roles)
{
    struct list l = {.u = NULL};
    const struct uop *root;
    bell_status status;
    struct match m;
    uint8_t *roles;
    bool keeps;
    size_t i;

    *out_roles = NULL;
    if (!s->target->attends)
        return BELL_OK;
    status = init_list(s, roots, n_roots, &l);
    roles = status == BELL_OK ? arena_calloc(&s->scratch, l.n + 1, 1) : NULL;
    if (status == BELL_OK && !roles)
        status = sched_no_memory(s);
    for (i = 0; status == BELL_OK && i < l.n; i++) {
        if (!find_match(s, l.u[i], &m) || m.inverse)
            continue;
        root = find_root(&l, &m);
        if (root && mark_inner(s, &l, &m, root, roots, n_roots, &keeps))
            note(&l, &m, root, keeps, roles);
        else if (root && s->target->attends & LOWER_ATTENDS_FEW &&
                 mark_kept(&l, &m, root))
            note(&l, &m, root, true, roles);
    }
    host_free(l.u);
    *out_roles = roles;
    return status;
}
