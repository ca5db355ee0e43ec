/* The oracle: what is chosen by masks and indices. */
#include "tools/fuzz/oracle.h"

#include <math.h>
#include <string.h>

#include "base/bits.h"

/* ---- masks ---- */

/* The places of what is not 0 (NaN is not), a row each; or just the first of
 * them, then rows of the fill value. */
static void
define_nonzero(struct oracle *o)
{
    const struct oracle_array *x = oracle_t(o, 0);
    int64_t at[BELL_MAX_RANK] = {0}, d[2] = {0, x->rank};
    struct oracle_array *out;
    size_t k, n = 0;
    uint32_t i;

    for (k = 0; k < x->n; k++)
        d[0] += x->v[k] != 0;
    if (o->a[1].given)
        d[0] = oracle_int(o, 1);
    out = oracle_out(o, BELL_INT64, d, 2);
    for (k = 0; k < x->n && n < out->n; k++) {
        for (i = 0; x->v[k] != 0 && i < x->rank; i++)
            out->v[n++] = at[i];
        oracle_next(at, x->d, x->rank);
    }
    for (; n < out->n; n++)
        out->v[n] = (long double)oracle_int(o, 2);
}

/* The places in x of what a mask chooses, both broadcast, in row-major order:
 * x->n or more are as good as none. Returns how many there are. */
static size_t
find_chosen(struct oracle *o, size_t **out_places)
{
    struct oracle_array *both[2] = {oracle_t(o, 0), oracle_t(o, 1)};
    int64_t d[BELL_MAX_RANK], at[BELL_MAX_RANK] = {0};
    uint32_t rank = oracle_broadcast(both, 2, d), i;
    size_t n = 1, k, count = 0;

    for (i = 0; i < rank; i++)
        n *= (size_t)d[i];
    *out_places = arena_calloc(o->arena, n + 1, sizeof(**out_places));
    for (k = 0; *out_places && k < n; k++) {
        if (both[1]->v[oracle_spread(both[1], at, rank)] != 0)
            (*out_places)[count++] = oracle_spread(both[0], at, rank);
        oracle_next(at, d, rank);
    }
    return count;
}

static void
define_masked_select(struct oracle *o)
{
    const struct oracle_array *x = oracle_t(o, 0);
    long double fill = o->a[3].t ? o->a[3].t->v[0] : o->a[3].f;
    struct oracle_array *out;
    size_t *places, count = find_chosen(o, &places), k;
    int64_t size = o->a[2].given ? oracle_int(o, 2) : (int64_t)count;

    out = oracle_out(o, x->dtype, &size, 1);
    for (k = 0; k < out->n; k++)
        out->v[k] = k < count ? x->v[places[k]]
                              : oracle_convert(BELL_FLOAT64, x->dtype, fill);
}

/* Every element goes back to where it comes from, the rest to the fill
 * value. */
static void
back_masked_select(struct oracle *o)
{
    const struct oracle_array *x = oracle_t(o, 0), *g = o->adjoint[0];
    size_t *places, count = find_chosen(o, &places), k;

    o->gradient[0] = oracle_like(o, x->dtype, x);
    oracle_scales(o, o->gradient[0]);
    if (o->a[3].t && oracle_is_float(o->a[3].t->dtype)) {
        o->gradient[3] = oracle_like(o, o->a[3].t->dtype, o->a[3].t);
        oracle_scales(o, o->gradient[3]);
    }
    for (k = 0; k < g->n; k++) {
        struct oracle_array *to = o->gradient[k < count ? 0 : 3];
        size_t at = k < count ? places[k] : 0;
        if (!to)
            continue;
        to->v[at] += g->v[k];
        to->scale[at] += g->v[k] < 0 ? -g->v[k] : g->v[k];
    }
}

/* ---- elements that are taken ---- */

/* Each element of a result is one of parameter `param`, or 0. */
struct taken {
    uint32_t param, rank;
    int64_t d[BELL_MAX_RANK];
    size_t n, *from;
};

static void
size_taken(struct oracle *o, struct taken *t)
{
    uint32_t i;

    t->n = 1;
    for (i = 0; i < t->rank; i++)
        t->n *= (size_t)t->d[i];
    t->from = arena_calloc(o->arena, t->n + 1, sizeof(*t->from));
}

static void
give_taken(struct oracle *o, const struct taken *t)
{
    const struct oracle_array *x = oracle_t(o, t->param);
    struct oracle_array *out = oracle_out(o, x->dtype, t->d, t->rank);
    size_t k;

    for (k = 0; k < t->n; k++)
        out->v[k] = x->v[t->from[k]];
}

static struct oracle_array *
new_select_gradient(struct oracle *o, uint32_t k)
{
    const struct oracle_array *t = oracle_t(o, k);

    o->gradient[k] = oracle_like(o, t->dtype, t);
    oracle_scales(o, o->gradient[k]);
    return o->gradient[k];
}

static void
back_taken(struct oracle *o, const struct taken *t)
{
    struct oracle_array *gradient = new_select_gradient(o, t->param);
    size_t k;

    for (k = 0; k < t->n; k++)
        oracle_add_term(gradient, t->from[k], o->adjoint[0]->v[k]);
}

/* An index counted from the end, where it is negative. */
static int64_t
index_in(long double v, int64_t size)
{
    return (int64_t)v + (v < 0 ? size : 0);
}

/* The size of an axis, of a scalar's 1. */
static int64_t
size_of(const struct oracle_array *t, uint32_t axis)
{
    return axis < t->rank ? t->d[axis] : 1;
}

static void
take_select(struct oracle *o, struct taken *t)
{
    const struct oracle_array *x = oracle_t(o, 0);
    uint32_t axis = oracle_axis(o, 1, x), i;
    int64_t at[BELL_MAX_RANK] = {0}, from[BELL_MAX_RANK];
    size_t k;

    for (i = 0; i < x->rank; i++) {
        if (i != axis)
            t->d[t->rank++] = x->d[i];
    }
    size_taken(o, t);
    for (k = 0; k < t->n; k++) {
        for (i = 0; i < x->rank; i++)
            from[i] = i == axis ? index_in(oracle_num(o, 2), x->d[axis])
                                : at[i - (i > axis)];
        t->from[k] = oracle_flat(x, from);
        oracle_next(at, t->d, t->rank);
    }
}

static void
take_narrow(struct oracle *o, struct taken *t)
{
    const struct oracle_array *x = oracle_t(o, 0);
    uint32_t axis = oracle_axis(o, 1, x);
    int64_t at[BELL_MAX_RANK] = {0}, from[BELL_MAX_RANK];
    size_t k;

    t->rank = x->rank;
    memcpy(t->d, x->d, sizeof(t->d));
    t->d[axis] = oracle_int(o, 3);
    size_taken(o, t);
    for (k = 0; k < t->n; k++) {
        memcpy(from, at, sizeof(from));
        from[axis] += index_in(oracle_num(o, 2), x->d[axis]);
        t->from[k] = oracle_flat(x, from);
        oracle_next(at, t->d, t->rank);
    }
}

/* Along an axis the index, else the place itself. Here and below, where one of
 * both is a scalar it counts as one element. */
static void
take_along(struct taken *t, struct oracle *o, const struct oracle_array *x,
           const struct oracle_array *index, uint32_t axis)
{
    int64_t at[BELL_MAX_RANK] = {0}, from[BELL_MAX_RANK];
    size_t k;

    size_taken(o, t);
    for (k = 0; k < t->n; k++) {
        memcpy(from, at, sizeof(from));
        from[axis] = index_in(index->v[k], size_of(x, axis));
        t->from[k] = oracle_flat(x, from);
        oracle_next(at, t->d, t->rank);
    }
}

static void
take_gather(struct oracle *o, struct taken *t)
{
    const struct oracle_array *index = oracle_t(o, 2);

    t->rank = index->rank;
    memcpy(t->d, index->d, sizeof(t->d));
    take_along(t, o, oracle_t(o, 0), index, oracle_axis(o, 1, oracle_t(o, 0)));
}

static void
take_flat(struct oracle *o, struct taken *t)
{
    const struct oracle_array *x = oracle_t(o, 0), *index = oracle_t(o, 1);
    size_t k;

    t->rank = index->rank;
    memcpy(t->d, index->d, sizeof(t->d));
    size_taken(o, t);
    for (k = 0; k < t->n; k++)
        t->from[k] = (size_t)index_in(index->v[k], (int64_t)x->n);
}

/* The other axes of both are broadcast. */
static void
take_along_dim(struct oracle *o, struct taken *t)
{
    const struct oracle_array *x = oracle_t(o, 0), *index = oracle_t(o, 1);
    int64_t at[BELL_MAX_RANK] = {0}, from[BELL_MAX_RANK];
    uint32_t axis, i;
    size_t k;

    if (!o->a[2].given) {
        take_flat(o, t);
        t->rank = 1;
        t->d[0] = (int64_t)t->n;
        return;
    }
    axis = oracle_axis(o, 2, x);
    t->rank = x->rank;
    for (i = 0; i < x->rank; i++)
        t->d[i] = i == axis      ? index->d[i]
                  : x->d[i] == 1 ? index->d[i]
                                 : x->d[i];
    size_taken(o, t);
    for (k = 0; k < t->n; k++) {
        for (i = 0; i < x->rank; i++)
            from[i] = x->d[i] == 1 ? 0 : at[i];
        if (x->rank)
            from[axis] = index_in(index->v[oracle_spread(index, at, t->rank)],
                                  x->d[axis]);
        t->from[k] = oracle_flat(x, from);
        oracle_next(at, t->d, t->rank);
    }
}

static void
take_rows(struct oracle *o, struct taken *t)
{
    const struct oracle_array *x = oracle_t(o, 0), *index = oracle_t(o, 2);
    uint32_t axis = oracle_axis(o, 1, x);
    int64_t at[BELL_MAX_RANK] = {0}, from[BELL_MAX_RANK];
    size_t k;

    t->rank = x->rank;
    memcpy(t->d, x->d, sizeof(t->d));
    if (x->rank)
        t->d[axis] = (int64_t)index->n;
    size_taken(o, t);
    for (k = 0; k < t->n; k++) {
        memcpy(from, at, sizeof(from));
        from[axis] =
            index_in(index->v[x->rank ? at[axis] : 0], size_of(x, axis));
        t->from[k] = oracle_flat(x, from);
        oracle_next(at, t->d, t->rank);
    }
}

static void
take_embedding(struct oracle *o, struct taken *t)
{
    const struct oracle_array *index = oracle_t(o, 0), *w = oracle_t(o, 1);
    size_t k, width = (size_t)w->d[1];

    t->param = 1;
    t->rank = index->rank + 1;
    memcpy(t->d, index->d, sizeof(t->d));
    t->d[index->rank] = w->d[1];
    size_taken(o, t);
    for (k = 0; k < t->n; k++)
        t->from[k] = (size_t)index->v[k / width] * width + k % width;
}

#define TAKEN(name)                                                            \
    static void define_##name(struct oracle *o)                                \
    {                                                                          \
        struct taken t = {0};                                                  \
        name(o, &t);                                                           \
        give_taken(o, &t);                                                     \
    }                                                                          \
    static void back_##name(struct oracle *o)                                  \
    {                                                                          \
        struct taken t = {0};                                                  \
        name(o, &t);                                                           \
        back_taken(o, &t);                                                     \
    }
TAKEN(take_select)
TAKEN(take_narrow)
TAKEN(take_gather)
TAKEN(take_flat)
TAKEN(take_along_dim)
TAKEN(take_rows)
TAKEN(take_embedding)

static void
define_one_hot(struct oracle *o)
{
    const struct oracle_array *x = oracle_t(o, 0);
    int64_t d[BELL_MAX_RANK], n = oracle_int(o, 1);
    struct oracle_array *out;
    size_t k;

    memcpy(d, x->d, sizeof(d));
    d[x->rank] = n;
    out = oracle_out(o, BELL_INT64, d, x->rank + 1);
    for (k = 0; k < x->n; k++)
        out->v[k * (size_t)n + (size_t)x->v[k]] = 1;
}

/* ---- elements that are put ---- */

enum way {
    LAST,
    SUM,
    PROD,
    MEAN,
    AMAX,
    AMIN
};

/* Element from[k] of parameter `param` goes to place to[k] of input, where what
 * comes together is combined, input's own element first if `own`. */
struct puts {
    uint32_t param;
    size_t n, *to, *from;
    enum way way;
    bool own;
    long double factor; /* of what is put */
};

static void
size_puts(struct oracle *o, struct puts *p, size_t n)
{
    p->n = n;
    p->factor = 1;
    p->to = arena_calloc(o->arena, n + 1, sizeof(*p->to));
    p->from = arena_calloc(o->arena, n + 1, sizeof(*p->from));
}

static long double
put_value(const struct oracle *o, const struct puts *p, size_t k)
{
    const struct oracle_array *src = oracle_t(o, p->param);

    return p->factor * oracle_convert(src->dtype, oracle_t(o, 0)->dtype,
                                      src->v[p->from[k]]);
}

/* Integers wrap at once: their sums are longer than long double. */
static long double
combine(enum bell_dtype dtype, enum way way, long double a, long double b)
{
    uint64_t p = oracle_bits(a), q = oracle_bits(b);

    if (way <= MEAN && way != LAST && !oracle_is_float(dtype))
        return oracle_of_bits(dtype, way == PROD ? p * q : p + q);
    if (way == PROD)
        return a * b;
    if (way == SUM || way == MEAN)
        return a + b;
    if (way == LAST || isnan(b))
        return b;
    return isnan(a) || (way == AMAX ? a >= b : a <= b) ? a : b;
}

static void
give_puts(struct oracle *o, const struct puts *p)
{
    const struct oracle_array *x = oracle_t(o, 0);
    struct oracle_array *out = oracle_out(o, x->dtype, x->d, x->rank);
    size_t k, *count = arena_calloc(o->arena, x->n + 1, sizeof(*count));

    oracle_scales(o, out);
    for (k = 0; count && k < x->n; k++) {
        out->v[k] = x->v[k];
        out->scale[k] = fabsl(x->v[k]);
        count[k] = p->own;
    }
    for (k = 0; count && k < p->n; k++) {
        long double v = put_value(o, p, k), *to = &out->v[p->to[k]];
        *to = count[p->to[k]]++ ? combine(x->dtype, p->way, *to, v) : v;
        out->scale[p->to[k]] += fabsl(v);
    }
    for (k = 0; count && k < x->n; k++) {
        if (p->way == MEAN && count[k] > 1) {
            out->v[k] /= count[k];
            if (!oracle_is_float(x->dtype))
                out->v[k] = floorl(out->v[k]);
        }
        if (!oracle_is_float(x->dtype))
            out->v[k] = oracle_round(x->dtype, out->v[k]);
    }
    if (p->way != SUM && p->way != MEAN)
        out->scale = NULL;
}

/* The slope of what place `to` has by the element of number `mine` among those
 * that are put there; `mine` is p->n: by input's own. */
static long double
slope_of_put(const struct oracle *o, const struct puts *p, size_t to,
             size_t mine)
{
    const struct oracle_array *x = oracle_t(o, 0);
    long double v = mine == p->n ? x->v[to] : put_value(o, p, mine);
    long double all = 0, others = 1, count = 0, equal = 0, any = p->own;
    size_t k, last = p->n;

    for (k = 0; k < p->n; k++)
        any += p->to[k] == to;
    for (k = 0; k <= p->n; k++) {
        bool is_own = k == p->n;
        long double w;
        if (is_own ? !p->own && any > 0 : p->to[k] != to)
            continue;
        w = is_own ? x->v[to] : put_value(o, p, k);
        all = count++ > 0 ? combine(x->dtype, p->way, all, w) : w;
        others *= k == mine ? 1 : w;
        equal += w == v;
        last = is_own ? last : k;
    }
    if (mine == p->n && !p->own && any > 0)
        return 0;
    if (isnan(all))
        return ORACLE_ANY;
    return p->way == LAST   ? mine == last
           : p->way == SUM  ? p->factor
           : p->way == PROD ? others
           : p->way == MEAN ? 1 / count
           : v == all       ? 1 / equal
                            : 0;
}

static void
back_puts(struct oracle *o, const struct puts *p)
{
    struct oracle_array *of_x = new_select_gradient(o, 0), *of_src = NULL;
    const struct oracle_array *g = o->adjoint[0];
    size_t k;

    if (oracle_is_float(oracle_t(o, p->param)->dtype))
        of_src = new_select_gradient(o, p->param);
    for (k = 0; k < of_x->n; k++) {
        long double slope = slope_of_put(o, p, k, p->n);
        if (p->way == SUM && slope != 0)
            slope = 1;
        oracle_add_term(of_x, k, slope == ORACLE_ANY ? slope : slope * g->v[k]);
    }
    for (k = 0; of_src && k < p->n; k++) {
        long double slope = slope_of_put(o, p, p->to[k], k);
        oracle_add_term(of_src, p->from[k],
                        slope == ORACLE_ANY ? slope : slope * g->v[p->to[k]]);
    }
}

static enum way
way_of(const char *word)
{
    static const struct {
        const char *word;
        enum way way;
    } words[] = {{"add", SUM},   {"multiply", PROD}, {"sum", SUM},
                 {"prod", PROD}, {"mean", MEAN},     {"amax", AMAX},
                 {"amin", AMIN}};
    size_t i;

    for (i = 0; i < ARRAY_LEN(words); i++) {
        if (strcmp(words[i].word, word) == 0)
            return words[i].way;
    }
    return LAST;
}

/* scatter and its relatives: input, dim, index, src, how. */
static void
put_scatter(struct oracle *o, struct puts *p)
{
    const struct oracle_array *x = oracle_t(o, 0), *index = oracle_t(o, 2);
    const struct oracle_array *src;
    uint32_t axis = oracle_axis(o, 1, x);
    int64_t at[BELL_MAX_RANK] = {0}, to[BELL_MAX_RANK];
    const char *name = o->row->name;
    size_t k;

    if (!oracle_t(o, 3)) { /* a number */
        o->a[3].t = oracle_new(o, BELL_FLOAT64, NULL, 0);
        o->a[3].t->v[0] = o->a[3].f;
    }
    src = oracle_t(o, 3);
    size_puts(o, p, index->n);
    p->param = 3;
    p->way = strcmp(name, "scatter_add") == 0 ? SUM
             : o->a[4].given                  ? way_of(o->a[4].str)
                                              : LAST;
    p->own = strcmp(name, "scatter_reduce") == 0 ? oracle_flag(o, 5)
                                                 : p->way != LAST;
    for (k = 0; k < index->n; k++) {
        memcpy(to, at, sizeof(to));
        to[axis] = index_in(index->v[k], size_of(x, axis));
        p->to[k] = oracle_flat(x, to);
        p->from[k] = src->rank == index->rank ? oracle_flat(src, at) : 0;
        oracle_next(at, index->d, index->rank);
    }
}

/* index_add and index_copy: input, dim, index, source, alpha. */
static void
put_rows(struct oracle *o, struct puts *p)
{
    const struct oracle_array *x = oracle_t(o, 0), *index = oracle_t(o, 2);
    const struct oracle_array *src = oracle_t(o, 3);
    bool adds = strcmp(o->row->name, "index_add") == 0;
    uint32_t axis = oracle_axis(o, 1, x);
    int64_t at[BELL_MAX_RANK] = {0}, to[BELL_MAX_RANK];
    size_t k;

    size_puts(o, p, src->n);
    p->param = 3;
    p->way = adds ? SUM : LAST;
    p->own = adds;
    if (adds)
        p->factor = oracle_num(o, 4);
    for (k = 0; k < src->n; k++) {
        memcpy(to, at, sizeof(to));
        to[axis] =
            index_in(index->v[src->rank ? at[axis] : 0], size_of(x, axis));
        p->to[k] = oracle_flat(x, to);
        p->from[k] = k;
        oracle_next(at, src->d, src->rank);
    }
}

/* index_put: input, indices of the first axes, values, accumulate. */
static void
put_indexed(struct oracle *o, struct puts *p)
{
    const struct oracle_array *x = oracle_t(o, 0), *values = oracle_t(o, 2);
    const struct oracle_arg *list = &o->a[1];
    struct oracle_array *indices[BELL_MAX_RANK];
    int64_t d[BELL_MAX_RANK], at[BELL_MAX_RANK] = {0}, to[BELL_MAX_RANK];
    uint32_t rank, outer, i;
    size_t n = 1, k;

    for (i = 0; i < list->n; i++)
        indices[i] = list->items[i].t;
    outer = rank = oracle_broadcast(indices, list->n, d);
    for (i = list->n; i < x->rank; i++)
        d[rank++] = x->d[i];
    for (i = 0; i < rank; i++)
        n *= (size_t)d[i];
    size_puts(o, p, n);
    p->param = 2;
    p->way = oracle_flag(o, 3) ? SUM : LAST;
    p->own = p->way == SUM;
    for (k = 0; k < n; k++) {
        for (i = 0; i < x->rank; i++)
            to[i] =
                i < list->n
                    ? index_in(
                          indices[i]->v[oracle_spread(indices[i], at, outer)],
                          x->d[i])
                    : at[outer + i - list->n];
        p->to[k] = oracle_flat(x, to);
        p->from[k] = oracle_spread(values, at, rank);
        oracle_next(at, d, rank);
    }
}

static void
put_slice(struct oracle *o, struct puts *p)
{
    const struct oracle_array *x = oracle_t(o, 0), *v = oracle_t(o, 2);
    int64_t at[BELL_MAX_RANK] = {0}, to[BELL_MAX_RANK];
    const int64_t *begin;
    uint32_t n, i;
    size_t k;

    begin = oracle_ints(o, 1, &n);
    size_puts(o, p, v->n);
    p->param = 2;
    for (k = 0; k < v->n; k++) {
        for (i = 0; i < x->rank; i++)
            to[i] = at[i] + begin[i];
        p->to[k] = oracle_flat(x, to);
        p->from[k] = k;
        oracle_next(at, v->d, v->rank);
    }
}

#define PUTS(name)                                                             \
    static void define_##name(struct oracle *o)                                \
    {                                                                          \
        struct puts p = {0};                                                   \
        name(o, &p);                                                           \
        give_puts(o, &p);                                                      \
    }
#define PUTS_BACK(name)                                                        \
    PUTS(name)                                                                 \
    static void back_##name(struct oracle *o)                                  \
    {                                                                          \
        struct puts p = {0};                                                   \
        name(o, &p);                                                           \
        back_puts(o, &p);                                                      \
    }
PUTS_BACK(put_scatter)
PUTS_BACK(put_rows)
PUTS_BACK(put_indexed)
PUTS(put_slice)

static void
define_masked_fill(struct oracle *o)
{
    const struct oracle_array *x = oracle_t(o, 0), *mask = oracle_t(o, 1);
    struct oracle_array *out = oracle_out(o, x->dtype, x->d, x->rank);
    long double fill =
        o->a[2].kind == BELL_VALUE_FLOAT
            ? oracle_convert(BELL_FLOAT64, x->dtype, oracle_num(o, 2))
            : oracle_round(x->dtype, (long double)oracle_int(o, 2));
    int64_t at[BELL_MAX_RANK] = {0};
    size_t k;

    for (k = 0; k < out->n; k++) {
        out->v[k] =
            mask->v[oracle_spread(mask, at, x->rank)] != 0 ? fill : x->v[k];
        oracle_next(at, x->d, x->rank);
    }
}

static void
back_masked_fill(struct oracle *o)
{
    const struct oracle_array *x = oracle_t(o, 0), *mask = oracle_t(o, 1);
    struct oracle_array *gradient = new_select_gradient(o, 0);
    int64_t at[BELL_MAX_RANK] = {0};
    size_t k;

    for (k = 0; k < x->n; k++) {
        if (mask->v[oracle_spread(mask, at, x->rank)] == 0)
            oracle_add_term(gradient, k, o->adjoint[0]->v[k]);
        oracle_next(at, x->d, x->rank);
    }
}

#define FLOATS "hwfd"
#define ALL    "hwfdcsilCSIL?"

#define SOME       "hwfdcilCL?"
#define SUMMED     "hwfdcilCL"
#define TAKE(name) .define = define_##name, .back = back_##name, .grad_ulps = 4
#define PUT(name)                                                              \
    .define = define_##name, .back = back_##name, .ulps = 4, .grad_ulps = 6

/* clang-format off */
static const struct oracle_row rows[] = {
    {"nonzero", "@q:9; @c:3,4; @c:2,3,5; @n:0; @n:2,0; @c:; @c:3,4 i3 i-1; @c:3,4 i20 i7; @q:9 i0; @n:0 i2; @c: i2; @c:0,3 i2 i9", ALL, .define = define_nonzero},
    {"masked_select", "@x @b:1/?; @q:9 @b:9/?; @n:3,4 @b:4/?; @n:4 @b:3,4/?; @n:2,1,3 @b:5,1/?; @n: @b:/?; @n:0 @b:0/?; @q:9 @b:9/? i3; @n:3,4 @b:4/? i20 f2.1; @n:3,4 @b:3,1/? i20 @n:; @n:0 @b:0/? i2 @n:1; @n: @b:/? i0", ALL, .define = define_masked_select, .back = back_masked_select, .grad_ulps = 8},
    {"select", "@q:9 i0 i-9; @n:3,4 i1 i-2; @n:3,4 i-2 i2; @n:2,3,4 i-1 i0; @n:2,0,3 i0 i1", SOME, TAKE(take_select)},
    {"narrow", "@q:9 i0 i3 i5; @n:3,4 i1 i1 i2; @n:3,4 i-2 i0 i3; @n:3,4 i1 i-3 i2; @n:5 i0 i5 i0; @n:0,3 i0 i0 i0", SOME, TAKE(take_narrow)},
    {"gather", "@q:9 i0 @w9:20; @n:3,4 i1 @w4:3,2; @n:3,4 i0 @w3:5,4/i; @n:3,4 i-2 @i3:1,2; @n:2,3,4 i1 @w3:2,2,4; @n:3,4 i1 @i4:3,0; @n:0,4 i1 @i4:0,2; @n: i0 @i1:; @n: i-1 @w1:3; @n:4 i0 @w4:", SOME, TAKE(take_gather)},
    {"index_select", "@q:9 i0 @w9:20; @n:3,4 i0 @w3:5; @n:3,4 i-1 @i4:2/i; @n:3,4 i1 @i4:0; @n:0,3 i1 @i3:4; @n:5 i0 @w5:; @n: i0 @i1:1; @n: i-1 @i1:", SOME, TAKE(take_rows)},
    {"take", "@q:9 @w9:20; @n:3,4 @w12:2,5; @n:5 @i5:/i; @n: @w1:3; @n:3 @i3:0", SOME, TAKE(take_flat)},
    {"take_along_dim", "@q:9 @w9:20; @n:3,4 @w12:5; @n:3,4 @w4:3,2 i1; @n:3,4 @i3:1,4 i0; @n:3,4 @i3:2,1 i0; @n:1,4 @i4:3,2 i-1; @n:3,4 @i4:3,0 i1; @n: @i1: i0; @n: @w1:3", SOME, TAKE(take_along_dim)},
    {"embedding", "@i5:3 @n:5,4; @i5:2,3/i @q:5,1; @i1: @n:1,3; @i5:0 @n:5,2; @i3:9 @n:3,0", "hwfd", TAKE(take_embedding)},
    {"one_hot", "@i5:7 i5; @i3:2,2/i i4; @i1: i1; @i5:0 i5; @i9:2/C i20; @i9:5/c i9", "l", .define = define_one_hot},
    {"masked_fill", "@x @b:1 f0.1; @q:9 @b:9 i-3; @n:3,4 @b:4 f-2; @n:3,4 @b:3,1 i7; @n: @b: i0; @n:0 @b:1 i1", "hwfd", .define = define_masked_fill, .back = back_masked_fill},
    {"assign_slice", "@q:9 l2 @q:5; @n:3,4 l1,2 @n:2,2; @n:3,4 l0,0 @n:3,4; @n:3,4 l3,1 @n:0,2; @n:0 l0 @n:0", SOME, .define = define_put_slice},
    {"scatter", "@q:9 i0 @w9:20 @q:20; @n:3,4 i1 @w4:3,2 @n:3,3; @n:3,4 i0 @w3:5,4/i @n:6,4; @n:2,3,4 i-2 @w3:2,2,3 @n:2,2,4; @n:3,4 i0 @i3:2,4 f0.1; @n:3,4 i1 @i4:3,0 @n:3,0; @n: i0 @i1: @n:; @n: i-1 @w1:3 @n:3; @n:4 i0 @w4: @n:; @n:3,4 i1 @w4:3,3 @n:3,3 s'add'; @n:3,4 i0 @w3:2,3 @n:2,3 s'multiply'", SUMMED, PUT(put_scatter)},
    {"scatter_add", "@n:9 i0 @w9:30 @n:30; @n:3,4 i1 @w4:3,2 @n:3,3; @n:3,4 i0 @w3:5,4/i @n:6,4; @n:2,3,4 i-2 @w3:2,2,3 @n:2,2,4; @n:3,4 i1 @i4:3,0 @n:3,0; @n: i0 @i1: @n:; @n: i0 @w1:3 @n:3; @n:4 i0 @w4: @n:", SUMMED, PUT(put_scatter)},
    {"scatter_reduce", "@n:3,4 i1 @w4:3,5 @n:3,5 s'sum'; @n:3,4 i1 @w4:3,5 @n:3,5 s'sum' b0; @c:3,4 i1 @w4:3,3 @c:3,3 s'prod'; @n:3,4 i0 @w3:4,4 @n:4,4 s'prod' b0; @n:3,4 i0 @w3:4,4 @n:4,4 s'mean'; @n:3,4 i0 @w3:4,4 @n:4,4 s'mean' b0; @c:3,4 i1 @w4:3,5 @c:3,5 s'amax'; @q:9 i0 @w9:20 @q:20 s'amax'; @q:9 i0 @w9:20 @q:20 s'amin' b0; @c:3,4 i-2 @w3:5,4 @c:5,4 s'amin'; @n:3,4 i1 @i4:3,0 @n:3,0 s'amax' b0; @n: i0 @i1: @n: s'mean'; @n: i0 @w1:3 @n:3 s'prod'", "hfdilC", PUT(put_scatter)},
    {"index_add", "@n:3,4 i0 @w3:5 @n:5,4; @n:3,4 i-1 @w4:2/i @n:3,2 f-2.5; @n:9 i0 @w9:30 @n:30; @n:3,4 i1 @i4:0 @n:3,0; @n: i0 @i1:1 @n:; @n: i-1 @i1: @n:; @n:4 i0 @w4: @n:", "hwfd", PUT(put_rows)},
    {"index_copy", "@n:3,4 i0 @w3:5 @n:5,4; @n:3,4 i-1 @w4:2/i @n:3,2; @q:9 i0 @w9:30 @q:30; @n:3,4 i1 @i4:0 @n:3,0; @n: i0 @i1:1 @n:; @n: i-1 @i1: @n:; @n:4 i0 @w4: @n:", SOME, PUT(put_rows)},
    {"index_put", "@q:9 ( @w9:20 ) @q:20; @n:3,4 ( @w3:5 ) @n:5,4; @n:3,4 ( @w3:2,1 @w4:3 ) @n:2,3; @n:3,4 ( @w3:2,1 @w4:3 ) @n:3 b1; @n:3,4 ( @w3:7/i ) @n: b1; @n:2,3,4 ( @w2: @w3:3 ) @n:1,4 b1; @n:3,4 ( @i3:0 ) @n:4", SUMMED, PUT(put_indexed)},
};
/* clang-format on */

const struct oracle_table oracle_select = {rows, ARRAY_LEN(rows)};
