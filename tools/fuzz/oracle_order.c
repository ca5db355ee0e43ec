/* The oracle: extremes, order statistics, counts. */
#include "tools/fuzz/oracle.h"

#include <math.h>
#include <string.h>

#include "base/bits.h"

/* ---- lines ---- */

/* A reduced tensor: the places of the elements of each result, in order. */
struct lines {
    const struct oracle_array *x;
    int64_t d[BELL_MAX_RANK]; /* of the results */
    uint32_t rank;
    size_t n, len, *at; /* at[line * len + k] */
};

/* Finds lines along the axes in `mask`, which `keep` leaves with size 1. */
static struct lines
find_lines(struct oracle *o, uint32_t mask, bool keep)
{
    const struct oracle_array *x = oracle_t(o, 0);
    struct lines t = {.x = x, .n = 1, .len = 1};
    int64_t at[BELL_MAX_RANK] = {0};
    size_t k, *used;
    uint32_t i;

    for (i = 0; i < x->rank; i++) {
        if (mask & 1u << i) {
            t.len *= (size_t)x->d[i];
            if (keep)
                t.d[t.rank++] = 1;
        } else {
            t.n *= (size_t)x->d[i];
            t.d[t.rank++] = x->d[i];
        }
    }
    t.at = arena_calloc(o->arena, x->n + 1, sizeof(*t.at));
    used = arena_calloc(o->arena, t.n + 1, sizeof(*used));
    for (k = 0; used && k < x->n; k++) {
        size_t line = 0;
        for (i = 0; i < x->rank; i++) {
            if (!(mask & 1u << i))
                line = line * (size_t)x->d[i] + (size_t)at[i];
        }
        t.at[line * t.len + used[line]++] = k;
        oracle_next(at, x->d, x->rank);
    }
    return t;
}

/* Element k of a line. */
static long double
value_at(const struct lines *t, size_t line, size_t k)
{
    return t->x->v[t->at[line * t->len + k]];
}

static bool
is_before(long double a, long double b)
{
    return !isnan(a) && (isnan(b) || a < b);
}

/* The numbers of a line's elements in ascending order, NaN last; equal ones
 * stay in order. */
static size_t *
order_line(struct oracle *o, const struct lines *t, size_t line)
{
    size_t *order = arena_calloc(o->arena, t->len + 1, sizeof(*order)), i, k;

    for (i = 0; order && i < t->len; i++) {
        for (k = i; k > 0 && is_before(value_at(t, line, i),
                                       value_at(t, line, order[k - 1]));
             k--)
            order[k] = order[k - 1];
        order[k] = i;
    }
    return order;
}

/* An element of each line, and which it is: `pick` says. */
typedef size_t pick_fn(struct oracle *o, const struct lines *t, size_t line);

static void
give_picked(struct oracle *o, const struct lines *t, pick_fn *pick,
            bool with_index)
{
    struct oracle_array *values = oracle_out(o, t->x->dtype, t->d, t->rank);
    struct oracle_array *index =
        with_index ? oracle_out(o, BELL_INT64, t->d, t->rank) : NULL;
    size_t i;

    for (i = 0; i < t->n; i++) {
        size_t k = pick(o, t, i);
        values->v[i] = value_at(t, i, k);
        if (index)
            index->v[i] = k;
    }
}

static struct oracle_array *
new_order_gradient(struct oracle *o)
{
    const struct oracle_array *x = oracle_t(o, 0);

    o->gradient[0] = oracle_like(o, x->dtype, x);
    oracle_scales(o, o->gradient[0]);
    return o->gradient[0];
}

/* To what is picked; a NaN has no slope. */
static void
back_picked(struct oracle *o, const struct lines *t, pick_fn *pick)
{
    struct oracle_array *gradient = new_order_gradient(o);
    size_t i, k;

    for (i = 0; o->adjoint[0] && i < t->n; i++) {
        size_t mine = pick(o, t, i);
        oracle_add_term(gradient, t->at[i * t->len + mine],
                        o->adjoint[0]->v[i]);
        for (k = 0; isnan(value_at(t, i, mine)) && k < t->len; k++)
            gradient->v[t->at[i * t->len + k]] = ORACLE_ANY;
    }
}

/* ---- extremes ---- */

/* The first of the greatest or smallest, or the first NaN. */
static size_t
pick_extreme(const struct lines *t, size_t line, bool most)
{
    size_t k, best = 0;

    for (k = 1; k < t->len && !isnan(value_at(t, line, best)); k++) {
        long double v = value_at(t, line, k), b = value_at(t, line, best);
        if (isnan(v) || (most ? v > b : v < b))
            best = k;
    }
    return best;
}

static size_t
pick_most(struct oracle *o, const struct lines *t, size_t line)
{
    (void)o;
    return pick_extreme(t, line, true);
}

static size_t
pick_least(struct oracle *o, const struct lines *t, size_t line)
{
    (void)o;
    return pick_extreme(t, line, false);
}

static bool
is_of_most(const struct oracle *o)
{
    return strstr(o->row->name, "max") != NULL;
}

/* max and min of one axis tell where; amax and amin do not. */
static bool
tells_where(const struct oracle *o)
{
    return o->row->name[0] == 'm' && o->a[1].given &&
           o->a[1].kind == BELL_VALUE_INT;
}

static struct lines
lines_of_axes(struct oracle *o)
{
    return find_lines(o, oracle_axes(o, 1, oracle_t(o, 0)), oracle_flag(o, 2));
}

static void
define_extreme(struct oracle *o)
{
    struct lines t = lines_of_axes(o);

    give_picked(o, &t, is_of_most(o) ? pick_most : pick_least, tells_where(o));
}

/* Shared by equal ones. */
static void
share(struct oracle *o, const struct lines *t, bool most,
      const struct oracle_array *g, struct oracle_array *gradient)
{
    size_t i, k, n;

    (void)o;
    for (i = 0; i < t->n; i++) {
        long double v = value_at(t, i, pick_extreme(t, i, most));
        for (n = 0, k = 0; k < t->len; k++)
            n += value_at(t, i, k) == v;
        for (k = 0; k < t->len; k++) {
            size_t at = t->at[i * t->len + k];
            if (isnan(v))
                gradient->v[at] = ORACLE_ANY;
            else if (value_at(t, i, k) == v)
                oracle_add_term(gradient, at, g->v[i] / n);
        }
    }
}

static void
back_extreme(struct oracle *o)
{
    struct lines t = lines_of_axes(o);

    if (tells_where(o))
        back_picked(o, &t, is_of_most(o) ? pick_most : pick_least);
    else
        share(o, &t, is_of_most(o), o->adjoint[0], new_order_gradient(o));
}

static void
define_aminmax(struct oracle *o)
{
    struct lines t = lines_of_axes(o);

    give_picked(o, &t, pick_least, false);
    give_picked(o, &t, pick_most, false);
}

static void
back_aminmax(struct oracle *o)
{
    struct lines t = lines_of_axes(o);
    bool most = o->adjoint[1] != NULL;

    share(o, &t, most, o->adjoint[most], new_order_gradient(o));
}

/* ---- running extremes ---- */

/* For each element of x the last of the greatest, or NaN, so far. */
static size_t *
find_running(struct oracle *o)
{
    const struct oracle_array *x = oracle_t(o, 0);
    uint32_t axis = oracle_axis(o, 1, x);
    struct lines t = find_lines(o, x->rank ? 1u << axis : 0, false);
    size_t *best = arena_calloc(o->arena, x->n + 1, sizeof(*best)), i, k, last;
    bool most = is_of_most(o);

    for (i = 0; best && i < t.n; i++) {
        for (last = k = 0; k < t.len; k++) {
            long double v = value_at(&t, i, k), b = value_at(&t, i, last);
            if (isnan(v) || (!isnan(b) && (most ? v >= b : v <= b)))
                last = k;
            best[t.at[i * t.len + k]] = last;
        }
    }
    return best;
}

/* The place of number `along` of the line that place k is in. */
static size_t
place_along(const struct oracle *o, size_t k, size_t along)
{
    const struct oracle_array *x = oracle_t(o, 0);
    size_t before, size = 1, behind = 1;

    if (x->rank)
        oracle_split(x, oracle_axis(o, 1, x), &before, &size, &behind);
    return (k / behind / size * size + along) * behind + k % behind;
}

static void
define_running(struct oracle *o)
{
    const struct oracle_array *x = oracle_t(o, 0);
    struct oracle_array *values = oracle_like(o, x->dtype, x), *index;
    size_t *best = find_running(o), k;

    values = oracle_out(o, x->dtype, x->d, x->rank);
    index = oracle_out(o, BELL_INT64, x->d, x->rank);
    for (k = 0; k < x->n; k++) {
        values->v[k] = x->v[place_along(o, k, best[k])];
        index->v[k] = best[k];
    }
}

static void
back_running(struct oracle *o)
{
    const struct oracle_array *x = oracle_t(o, 0);
    struct oracle_array *gradient = new_order_gradient(o);
    size_t *best = find_running(o), k;

    for (k = 0; k < x->n; k++)
        oracle_add_term(gradient, place_along(o, k, best[k]),
                        o->adjoint[0]->v[k]);
}

/* ---- order statistics ---- */

/* The first NaN, or the lower of the middle ones; `skips`: of what is not NaN,
 * if there is something. */
static size_t
pick_middle(struct oracle *o, const struct lines *t, size_t line)
{
    bool skips = o->row->name[0] == 'n';
    size_t *order = order_line(o, t, line), n = 0;

    while (n < t->len && !isnan(value_at(t, line, order[n])))
        n++;
    if (n < t->len && (!skips || n == 0))
        return order[n];
    return order[(n - 1) / 2];
}

static size_t
pick_kth(struct oracle *o, const struct lines *t, size_t line)
{
    return order_line(o, t, line)[oracle_int(o, 1) - 1];
}

/* The last of the most frequent, of several the smallest. */
static size_t
pick_mode(struct oracle *o, const struct lines *t, size_t line)
{
    size_t *order = order_line(o, t, line), best = 0, most = 0, i, k;

    for (i = 0; i < t->len; i = k) {
        long double v = value_at(t, line, order[i]);
        for (k = i + 1; k < t->len && value_at(t, line, order[k]) == v; k++)
            ;
        if (k - i > most) {
            most = k - i;
            best = order[k - 1];
        }
    }
    return best;
}

/* Along parameter `p`, or of all where that is not given; then keepdim. */
static struct lines
lines_of_axis(struct oracle *o, uint32_t p)
{
    const struct oracle_array *x = oracle_t(o, 0);
    uint32_t mask = (1u << x->rank) - 1;

    if (o->a[p].given && x->rank)
        mask = 1u << oracle_axis(o, p, x);
    return find_lines(o, mask, oracle_flag(o, p + 1));
}

static void
define_median(struct oracle *o)
{
    struct lines t = lines_of_axis(o, 1);

    if (t.len == 0) /* of all that there is: NaN */
        oracle_out(o, t.x->dtype, t.d, t.rank)->v[0] = (long double)NAN;
    else
        give_picked(o, &t, pick_middle, o->a[1].given);
}

/* Without an axis elements that equal the median share its gradient. */
static void
share_picked(struct oracle *o, const struct lines *t, pick_fn *pick)
{
    struct oracle_array *gradient = new_order_gradient(o);
    long double v = value_at(t, 0, pick(o, t, 0));
    size_t k, n = 0;

    for (k = 0; k < t->len; k++)
        n += value_at(t, 0, k) == v;
    for (k = 0; k < t->len; k++) {
        if (isnan(v))
            gradient->v[k] = ORACLE_ANY;
        else if (value_at(t, 0, k) == v)
            oracle_add_term(gradient, k, o->adjoint[0]->v[0] / n);
    }
}

static void
back_median(struct oracle *o)
{
    struct lines t = lines_of_axis(o, 1);

    if (o->a[1].given)
        back_picked(o, &t, pick_middle);
    else if (t.len && o->adjoint[0])
        share_picked(o, &t, pick_middle);
}

static void
define_mode(struct oracle *o)
{
    struct lines t = lines_of_axis(o, 1);

    give_picked(o, &t, pick_mode, true);
}

static void
back_mode(struct oracle *o)
{
    struct lines t = lines_of_axis(o, 1);

    back_picked(o, &t, pick_mode);
}

static void
define_kth(struct oracle *o)
{
    struct lines t = lines_of_axis(o, 2);

    give_picked(o, &t, pick_kth, true);
}

static void
back_kth(struct oracle *o)
{
    struct lines t = lines_of_axis(o, 2);

    back_picked(o, &t, pick_kth);
}

/* Between which elements of a line a share q lies: the numbers of both, and how
 * far it is from the first; false where it is NaN. */
static bool
find_share(struct oracle *o, const struct lines *t, size_t line, long double q,
           size_t *low, size_t *high, long double *weight)
{
    bool skips = o->row->name[0] == 'n';
    size_t *order = order_line(o, t, line), n = 0, k;
    const char *how = o->a[4].str;
    long double place;

    while (n < t->len && !isnan(value_at(t, line, order[n])))
        n++;
    if (n == 0 || (n < t->len && !skips) || !(q >= 0 && q <= 1))
        return false;
    place = q * (long double)(n - 1);
    if (how[0] == 'n')
        place = rintl(place);
    if (how[0] == 'h')
        place = ceill(place);
    if (how[0] == 'l' && how[1] == 'o')
        place = floorl(place);
    k = (size_t)floorl(place);
    *weight = place - k;
    if (how[0] == 'm')
        *weight = *weight > 0 ? 0.5L : 0;
    *low = order[k];
    *high = order[*weight > 0 ? k + 1 : k];
    return true;
}

static void
define_quantile(struct oracle *o)
{
    struct lines t = lines_of_axis(o, 2);
    const struct oracle_array *q = oracle_t(o, 1);
    int64_t d[BELL_MAX_RANK];
    size_t n_q = q ? q->n : 1, i, j, low, high;
    uint32_t more = q && q->rank;
    struct oracle_array *out;
    long double w;

    d[0] = (int64_t)n_q;
    memcpy(d + more, t.d, t.rank * sizeof(*d));
    out = oracle_out(o, t.x->dtype, d, t.rank + more);
    oracle_scales(o, out);
    for (j = 0; j < n_q; j++) {
        long double share = q ? q->v[j] : oracle_num(o, 1);
        for (i = 0; i < t.n; i++) {
            long double *to = &out->v[j * t.n + i], a, b;
            if (!find_share(o, &t, i, share, &low, &high, &w)) {
                *to = (long double)NAN;
                continue;
            }
            a = value_at(&t, i, low);
            b = value_at(&t, i, high);
            *to = w == 0 ? a : a + w * (b - a);
            if (w != 0) /* the share is a rounded product */
                out->scale[j * t.n + i] =
                    (fabsl(a) + fabsl(b)) * (long double)t.len;
        }
    }
}

static void
back_quantile(struct oracle *o)
{
    struct lines t = lines_of_axis(o, 2);
    const struct oracle_array *q = oracle_t(o, 1);
    struct oracle_array *gradient = new_order_gradient(o);
    size_t n_q = q ? q->n : 1, i, j, k, low, high;
    long double w;

    for (j = 0; j < n_q; j++) {
        long double share = q ? q->v[j] : oracle_num(o, 1);
        for (i = 0; i < t.n; i++) {
            long double g = o->adjoint[0]->v[j * t.n + i];
            if (find_share(o, &t, i, share, &low, &high, &w)) {
                oracle_add_term(gradient, t.at[i * t.len + low], (1 - w) * g);
                oracle_add_term(gradient, t.at[i * t.len + high], w * g);
                continue;
            }
            for (k = 0; k < t.len; k++)
                gradient->v[t.at[i * t.len + k]] = ORACLE_ANY;
        }
    }
}

/* ---- searches ---- */

/* How many come before each; bucketize has its operands the other way round. */
static void
define_search(struct oracle *o)
{
    bool swapped = o->row->name[0] == 'b', right = oracle_flag(o, 2);
    const struct oracle_array *sorted = oracle_t(o, swapped ? 1 : 0);
    const struct oracle_array *v = oracle_t(o, swapped ? 0 : 1);
    struct oracle_array *out = oracle_out(o, BELL_INT64, v->d, v->rank);
    size_t n = (size_t)sorted->d[sorted->rank - 1], i, k;
    size_t along = v->rank ? (size_t)v->d[v->rank - 1] : 1;

    for (i = 0; i < v->n; i++) {
        size_t row = sorted->rank > 1 ? i / along * n : 0;
        for (k = 0; k < n; k++) {
            long double s = sorted->v[row + k];
            bool before = is_before(s, v->v[i]);
            if (right)
                before = !is_before(v->v[i], s);
            out->v[i] += before;
        }
    }
}

/* ---- counts ---- */

static void
define_histc(struct oracle *o)
{
    const struct oracle_array *x = oracle_t(o, 0);
    long double low = oracle_num(o, 2), high = oracle_num(o, 3);
    int64_t n = oracle_int(o, 1);
    struct oracle_array *out = oracle_out(o, x->dtype, &n, 1);
    size_t k;

    for (k = 0; k < x->n && oracle_num(o, 2) == oracle_num(o, 3); k++) {
        low = k == 0 || x->v[k] < low ? x->v[k] : low;
        high = k == 0 || x->v[k] > high ? x->v[k] : high;
    }
    if (low == high) {
        low -= 1;
        high += 1;
    }
    for (k = 0; k < x->n; k++) {
        long double place = (x->v[k] - low) / (high - low) * n;
        if (place >= 0 && place <= n)
            out->v[place == n ? n - 1 : (int64_t)place]++;
    }
}

static void
define_bincount(struct oracle *o)
{
    const struct oracle_array *x = oracle_t(o, 0), *w = oracle_t(o, 1);
    int64_t n = oracle_int(o, 2);
    enum bell_dtype dtype = !w                          ? BELL_INT64
                            : oracle_is_float(w->dtype) ? w->dtype
                                                        : BELL_FLOAT64;
    struct oracle_array *out;
    size_t k;

    for (k = 0; k < x->n; k++)
        n = x->v[k] >= n ? (int64_t)x->v[k] + 1 : n;
    out = oracle_out(o, dtype, &n, 1);
    oracle_scales(o, out);
    for (k = 0; k < x->n; k++) {
        long double v = w ? w->v[k] : 1;
        out->v[(size_t)x->v[k]] += v;
        out->scale[(size_t)x->v[k]] += fabsl(v);
    }
}

/* The first of each run of equal elements, in ascending order or as they are;
 * the run that each is in; and how long it is. NaN equals nothing. */
static void
define_unique(struct oracle *o)
{
    struct lines t = find_lines(o, (1u << oracle_t(o, 0)->rank) - 1, false);
    bool sorts = !strstr(o->row->name, "consecutive");
    size_t *order = order_line(o, &t, 0), k, run = 0;
    size_t *runs = arena_calloc(o->arena, t.len + 1, sizeof(*runs));
    struct oracle_array *values, *inverse = NULL, *counts = NULL;
    uint32_t p = sorts ? 2 : 1;
    int64_t n;

    for (k = 0; k < t.len; k++) {
        order[k] = sorts ? order[k] : k;
        if (k > 0 && value_at(&t, 0, order[k]) != value_at(&t, 0, order[k - 1]))
            run++;
        runs[k] = run;
    }
    n = t.len ? (int64_t)run + 1 : 0;
    values = oracle_out(o, t.x->dtype, &n, 1);
    if (oracle_flag(o, p))
        inverse = oracle_out(o, BELL_INT64, t.x->d, t.x->rank);
    if (oracle_flag(o, p + 1))
        counts = oracle_out(o, BELL_INT64, &n, 1);
    for (k = t.len; k-- > 0;) {
        values->v[runs[k]] = value_at(&t, 0, order[k]);
        if (inverse)
            inverse->v[order[k]] = runs[k];
        if (counts)
            counts->v[runs[k]]++;
    }
}

/* ---- running logarithm of sums ---- */

static void
define_logcumsumexp(struct oracle *o)
{
    const struct oracle_array *x = oracle_t(o, 0);
    struct oracle_array *out =
        oracle_out(o, oracle_float(x->dtype), x->d, x->rank);
    uint32_t axis = oracle_axis(o, 1, x);
    struct lines t = find_lines(o, x->rank ? 1u << axis : 0, false);
    size_t i, k, j;

    for (i = 0; i < t.n; i++) {
        for (k = 0; k < t.len; k++) {
            long double most = -(long double)INFINITY, sum = 0;
            for (j = 0; j <= k; j++)
                most = fmaxl(most, value_at(&t, i, j));
            for (j = 0; j <= k; j++) {
                long double v = value_at(&t, i, j);
                sum += v == most ? 1 : expl(v - most);
            }
            out->v[t.at[i * t.len + k]] = most + logl(sum);
        }
    }
}

#define FLOATS  "hwfd"
#define FEW     "hfdilC" /* where kernels take long to compile */
#define NUMBERS "hwfdcilCL"
#define ALL     NUMBERS "?"
#define PICK(name)                                                             \
    .define = define_##name, .back = back_##name, .grad_ulps = 4,              \
    .flags = ORACLE_ZERO
#define REDUCED                                                                \
    "@q:9; @n:3,4; @c:3,4 l0; @c:2,3,4 l-1,0 b1; @q:4,9 l1; @n:; @n: l0; "     \
    "@n:0,3 l1; @n:5,1 l1"
#define WHERE                                                                  \
    "@q:9 i0; @c:3,4 i1; @c:2,3,4 i-2 b1; @q:6,9 i1; @n: i0; @n: i-1; @n:0,3 " \
    "i1; @n:5,1 i1"
#define MIDDLE "@c:9; @c:3,4 keepdim=b1; @b:12; @n:; "
#define SHARES                                                                 \
    "@n:9 f0.3; @c:9 f0.3; @n:9 f0.25; @n:3,5 f0.5 i1; @n:3,5 @p:2 i0 b1; "    \
    "@q:9 f0.5; "                                                              \
    "@n:2,9 @u:3 i-1; @n:5 f0; @n:5 f1; @n:5 f1.5; @n: f0.3; @n:1,3 f0.7 i0; " \
    "@n:9 f0.3 -  b0 s'lower'; @n:9 f0.3 - b0 s'higher'; @n:9 f0.3 - b0 "      \
    "s'nearest'; @n:4,6 f0.5 i1 b0 s'nearest'; @n:9 f0.3 - b0 s'midpoint'; "   \
    "@q:6,9 f0.3 i1; @n:0,3 f0.5 i1"

/* clang-format off */
static const struct oracle_row rows[] = {
    {"max", REDUCED "; " WHERE, ALL, PICK(extreme)},
    {"min", REDUCED "; " WHERE, ALL, PICK(extreme)},
    {"amax", REDUCED "; @c:3,4 i1", ALL, PICK(extreme)},
    {"amin", REDUCED "; @c:3,4 i1", ALL, PICK(extreme)},
    {"aminmax", REDUCED "; @c:3,4 i1", ALL, PICK(aminmax)},
    {"cummax", "@q:20 i0; @c:3,4 i1; @c:2,5,3 i-2; @n: i0; @n:0,3 i1; @n:3,0 i1", ALL, PICK(running)},
    {"cummin", "@q:20 i0; @c:3,4 i1; @c:2,5,3 i-2; @n: i0; @n:0,3 i1; @n:3,0 i1", ALL, PICK(running)},
    {"median", "@n:9; @n:3,4; @q:9; " MIDDLE WHERE, FEW, PICK(median)},
    {"nanmedian", "@n:9; @n:3,4; @q:9; " MIDDLE WHERE, FEW, PICK(median)},
    {"mode", "@q:9; @c:3,9 i0; @c:3,9; @c:2,9,2 i1 b1; @n:; @n: i0; @n:0,3", FEW, PICK(mode)},
    {"kthvalue", "@q:9 i1; @q:9 i5; @q:9 i9; @c:3,9 i4 i1; @c:5,3 i2 i0 b1; @n: i1; @n: i1 i-1; @n:0,3 i2", NUMBERS, PICK(kth)},
    {"quantile", SHARES, FLOATS, .define = define_quantile, .back = back_quantile, .ulps = 2, .grad_ulps = 64, .flags = ORACLE_ZERO},
    {"nanquantile", SHARES, FLOATS, .define = define_quantile, .back = back_quantile, .ulps = 2, .grad_ulps = 64, .flags = ORACLE_ZERO},
    {"searchsorted", "@a:9 @w9:20; @a:9 @q:9; @a:9 @c:2,3 b1; @a:2,5 @c:2,7; @a:2,5 @q:2,7 b1; @e:4 @e:3; @e:4 @e:3 b1; @a:5 @n:; @n:0 @n:3; @a:4 @n:0", NUMBERS, .define = define_search},
    {"bucketize", "@w9:20 @a:9; @q:9 @a:9; @c:2,3 @a:9 b1; @e:3 @e:4; @e:3 @e:4 b1; @n: @a:5; @n:3 @n:0", NUMBERS, .define = define_search},
    {"histc", "@c:30 i5; @c:30 i4 f-2 f2; @n:40 i3 f-0.5 f0.7; @e:5 i2; @n:3,4 i1; @c:6 i3 f-1 f5", FLOATS, .define = define_histc},
    {"bincount", "@i9:30/l; @i9:30/i - i20; @i5:9/C; @i5:9 @n:9; @i5:9/c @c:9/i; @i1:3; @i3:0; @i3:0 - i4; @i3:4 @n:4 i7", FLOATS, .define = define_bincount, .ulps = 2},
    {"unique", "@q:20; @c:3,4; @c:3,4 b1 b1 b1; @q:9 b1 b1; @n:9 return_counts=b1; @n:; @n:0; @n:0,3 b1 b1 b1; @e:5 b1 b0 b1", FEW, .define = define_unique, .flags = ORACLE_ZERO},
    {"unique_consecutive", "@q:20; @c:3,4; @c:3,9 b1 b1; @q:9 b1; @n:; @n:0; @n:0,3 b1 b1; @e:5 b0 b1", ALL, .define = define_unique, .flags = ORACLE_ZERO},
    {"logcumsumexp", "@n:9 i0; @n:3,4 i1; @n:2,5,3 i-2; @n: i0; @n:0,3 i1", FLOATS, .define = define_logcumsumexp, .ulps = 8, .scale = 1, .grad_ulps = 16, .flags = ORACLE_SCALED | ORACLE_GRAD},
};
/* clang-format on */

const struct oracle_table oracle_order = {rows, ARRAY_LEN(rows)};
