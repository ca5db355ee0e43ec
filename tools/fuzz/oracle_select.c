/* The oracle: what is chosen by masks and indices. */
#include "tools/fuzz/oracle.h"

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

/* Every element goes back to where it comes from, the rest to the fill value. */
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

#define FLOATS "hwfd"
#define ALL    "hwfdcsilCSIL?"

/* clang-format off */
static const struct oracle_row rows[] = {
    {"nonzero", "@q:9; @c:3,4; @c:2,3,5; @n:0; @n:2,0; @c:; @c:3,4 i3 i-1; @c:3,4 i20 i7; @q:9 i0; @n:0 i2; @c: i2; @c:0,3 i2 i9", ALL, .define = define_nonzero},
    {"masked_select", "@x @b:1/?; @q:9 @b:9/?; @n:3,4 @b:4/?; @n:4 @b:3,4/?; @n:2,1,3 @b:5,1/?; @n: @b:/?; @n:0 @b:0/?; @q:9 @b:9/? i3; @n:3,4 @b:4/? i20 f2.5; @n:3,4 @b:3,1/? i20 @n:; @n:0 @b:0/? i2 @n:1; @n: @b:/? i0", ALL, .define = define_masked_select, .back = back_masked_select, .grad_ulps = 8},
};
/* clang-format on */

const struct oracle_table oracle_select = {rows, ARRAY_LEN(rows)};
