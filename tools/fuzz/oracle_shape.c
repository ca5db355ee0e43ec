/* The oracle: elements moved, repeated, joined and split. Values are copies, so
 * they are equal to the bit, and so are gradients: sums of a few halves. */
#include "tools/fuzz/oracle.h"

#include <ctype.h>
#include <string.h>

#include "base/bits.h"

/* ---- gradients ---- */

/* Every tensor among the arguments, but for integers that say which elements of
 * the first are meant. */
static uint32_t
list_leaves(const struct oracle *o, struct oracle_array **list)
{
    uint32_t n = 0, k, i;

    for (k = 0; k < BELL_MAX_PARAMS; k++) {
        if (o->a[k].t && (k == 0 || oracle_is_float(o->a[k].t->dtype)))
            list[n++] = o->a[k].t;
        for (i = 0; i < o->a[k].n; i++) {
            if (o->a[k].items[i].t)
                list[n++] = o->a[k].items[i].t;
        }
    }
    return n;
}

/* The definition, of leaves that number their elements from 1, says where each
 * element of a result comes from: its adjoint goes there. */
static void
back_moved(struct oracle *o)
{
    struct oracle_array *leaves[BELL_MAX_PARAMS + 16];
    long double *was[BELL_MAX_PARAMS + 16];
    uint32_t n = list_leaves(o, leaves), i, r;
    struct oracle numbered = *o;
    size_t k, last = 0;

    for (i = 0; i < n; i++) {
        was[i] = leaves[i]->v;
        leaves[i]->gradient = oracle_like(o, leaves[i]->dtype, leaves[i]);
        leaves[i]->v = oracle_like(o, leaves[i]->dtype, leaves[i])->v;
        for (k = 0; k < leaves[i]->n; k++)
            leaves[i]->v[k] = ++last;
    }
    numbered.n_out = 0;
    o->row->define(&numbered);
    for (r = 0; r < o->n_out; r++) {
        for (k = 0; o->adjoint[r] && k < o->adjoint[r]->n; k++) {
            size_t from = (size_t)numbered.out[r]->v[k];
            for (i = 0; from && from > leaves[i]->n; i++)
                from -= leaves[i]->n;
            if (from)
                leaves[i]->gradient->v[from - 1] += o->adjoint[r]->v[k];
        }
    }
    for (i = 0; i < n; i++)
        leaves[i]->v = was[i];
}

/* ---- shapes ---- */

/* The same elements in a shape. */
static void
give(struct oracle *o, const int64_t *d, uint32_t rank)
{
    const struct oracle_array *x = oracle_t(o, 0);
    struct oracle_array *out = oracle_out(o, x->dtype, d, rank);

    memcpy(out->v, x->v, x->n * sizeof(*x->v));
}

static uint32_t
axis_of(int64_t axis, uint32_t rank)
{
    return (uint32_t)(axis < 0 ? axis + rank : axis);
}

/* One of them may be -1: what is left. */
static void
find_size(int64_t *d, uint32_t n, int64_t all)
{
    int64_t known = 1;
    uint32_t i, unknown = n;

    for (i = 0; i < n; i++) {
        if (d[i] < 0)
            unknown = i;
        else
            known *= d[i];
    }
    if (unknown < n)
        d[unknown] = all / known;
}

static void
define_reshape(struct oracle *o)
{
    uint32_t n;
    int64_t d[BELL_MAX_RANK];
    const int64_t *sizes = oracle_ints(o, 1, &n);

    memcpy(d, sizes, n * sizeof(*d));
    find_size(d, n, (int64_t)oracle_t(o, 0)->n);
    give(o, d, n);
}

static void
define_flatten(struct oracle *o)
{
    const struct oracle_array *x = oracle_t(o, 0);
    bool all = o->row->name[0] == 'r' || x->rank == 0;
    uint32_t first = all ? 0 : oracle_axis(o, 1, x), i, n = 0;
    uint32_t last = all ? x->rank : oracle_axis(o, 2, x);
    int64_t d[BELL_MAX_RANK];

    if (x->rank == 0)
        d[n++] = 1;
    for (i = 0; i < x->rank; i++) {
        if (i <= first || i > last)
            d[n++] = x->d[i];
        else
            d[n - 1] *= x->d[i];
    }
    give(o, d, n);
}

static void
define_unflatten(struct oracle *o)
{
    const struct oracle_array *x = oracle_t(o, 0);
    uint32_t axis = oracle_axis(o, 1, x), n, i, k, rank = 0;
    const int64_t *sizes = oracle_ints(o, 2, &n);
    int64_t d[BELL_MAX_RANK];

    for (i = 0; i < x->rank; i++) {
        if (i != axis) {
            d[rank++] = x->d[i];
            continue;
        }
        for (k = 0; k < n; k++)
            d[rank + k] = sizes[k];
        find_size(d + rank, n, x->d[i]);
        rank += n;
    }
    give(o, d, rank);
}

static void
define_squeeze(struct oracle *o)
{
    const struct oracle_array *x = oracle_t(o, 0);
    uint32_t mask = oracle_axes(o, 1, x), i, n = 0;
    int64_t d[BELL_MAX_RANK];

    for (i = 0; i < x->rank; i++) {
        if (x->d[i] != 1 || !(mask & 1u << i))
            d[n++] = x->d[i];
    }
    give(o, d, n);
}

static void
define_unsqueeze(struct oracle *o)
{
    const struct oracle_array *x = oracle_t(o, 0);
    uint32_t axis = axis_of(oracle_int(o, 1), x->rank + 1), i, n = 0;
    int64_t d[BELL_MAX_RANK];

    for (i = 0; i <= x->rank; i++) {
        if (i == axis)
            d[n++] = 1;
        if (i < x->rank)
            d[n++] = x->d[i];
    }
    give(o, d, n);
}

/* ---- axes ---- */

/* Axis i of the result is axis order[i] of x. */
static void
give_permuted(struct oracle *o, const uint32_t *order)
{
    const struct oracle_array *x = oracle_t(o, 0);
    int64_t d[BELL_MAX_RANK], at[BELL_MAX_RANK] = {0}, from[BELL_MAX_RANK];
    struct oracle_array *out;
    uint32_t i;
    size_t k = 0;

    for (i = 0; i < x->rank; i++)
        d[i] = x->d[order[i]];
    out = oracle_out(o, x->dtype, d, x->rank);
    if (out->n == 0)
        return;
    do {
        for (i = 0; i < x->rank; i++)
            from[order[i]] = at[i];
        out->v[k++] = x->v[oracle_flat(x, from)];
    } while (oracle_next(at, d, x->rank));
}

static void
define_permute(struct oracle *o)
{
    const struct oracle_array *x = oracle_t(o, 0);
    uint32_t order[BELL_MAX_RANK], n, i;
    const int64_t *dims = oracle_ints(o, 1, &n);

    for (i = 0; i < n; i++)
        order[i] = axis_of(dims[i], x->rank);
    give_permuted(o, order);
}

/* Two axes: of t and mT the last two, if there are. */
static void
define_transpose(struct oracle *o)
{
    const struct oracle_array *x = oracle_t(o, 0);
    bool named = o->row->name[1] == 'r';
    uint32_t order[BELL_MAX_RANK], i, a, b;

    for (i = 0; i < x->rank; i++)
        order[i] = i;
    if (x->rank > (named ? 0u : 1u)) {
        a = named ? oracle_axis(o, 1, x) : x->rank - 2;
        b = named ? oracle_axis(o, 2, x) : x->rank - 1;
        order[a] = b;
        order[b] = a;
    }
    give_permuted(o, order);
}

static void
define_movedim(struct oracle *o)
{
    const struct oracle_array *x = oracle_t(o, 0);
    uint32_t from = oracle_axis(o, 1, x), to = oracle_axis(o, 2, x);
    uint32_t order[BELL_MAX_RANK], i, other = 0;

    for (i = 0; i < x->rank; i++) {
        if (i == to) {
            order[i] = from;
            continue;
        }
        other += other == from;
        order[i] = other++;
    }
    give_permuted(o, order);
}

/* ---- copies ---- */

/* Where place `at` of the result comes from; false: it is 0. */
typedef bool source_fn(const struct oracle *o, const struct oracle_array *x,
                       const int64_t *at, int64_t *from);

static void
give_from(struct oracle *o, const int64_t *d, uint32_t rank, source_fn *fn)
{
    const struct oracle_array *x = oracle_t(o, 0);
    struct oracle_array *out = oracle_out(o, x->dtype, d, rank);
    int64_t at[BELL_MAX_RANK] = {0}, from[BELL_MAX_RANK];
    size_t k = 0;

    if (out->n == 0)
        return;
    do {
        if (fn(o, x, at, from))
            out->v[k] = x->v[oracle_flat(x, from)];
        k++;
    } while (oracle_next(at, d, rank));
}

static void
define_expand(struct oracle *o)
{
    const struct oracle_array *x = oracle_t(o, 0);
    int64_t d[BELL_MAX_RANK], at[BELL_MAX_RANK] = {0};
    struct oracle_array *out;
    uint32_t n, i;
    const int64_t *sizes = oracle_ints(o, 1, &n);
    size_t k = 0;

    for (i = 0; i < n; i++)
        d[i] = sizes[i] < 0 ? x->d[i - (n - x->rank)] : sizes[i];
    out = oracle_out(o, x->dtype, d, n);
    if (out->n == 0)
        return;
    do {
        out->v[k++] = x->v[oracle_spread(x, at, n)];
    } while (oracle_next(at, d, n));
}

static bool
from_flipped(const struct oracle *o, const struct oracle_array *x,
             const int64_t *at, int64_t *from)
{
    const char *name = o->row->name;
    uint32_t mask = name[4] == 'l' ? 2 : name[4] == 'u' ? 1 : 0, i;

    for (i = 0; !name[4] && i < o->a[1].n; i++)
        mask |= 1u << axis_of(o->a[1].items[i].i, x->rank);
    for (i = 0; i < x->rank; i++)
        from[i] = mask & 1u << i ? x->d[i] - 1 - at[i] : at[i];
    return true;
}

static void
define_flip(struct oracle *o)
{
    give_from(o, oracle_t(o, 0)->d, oracle_t(o, 0)->rank, from_flipped);
}

static void
define_roll(struct oracle *o)
{
    const struct oracle_array *x = oracle_t(o, 0);
    struct oracle_array *out = oracle_out(o, x->dtype, x->d, x->rank);
    int64_t at[BELL_MAX_RANK] = {0}, to[BELL_MAX_RANK];
    uint32_t n, n_axes, i;
    const int64_t *shifts = oracle_ints(o, 1, &n);
    const int64_t *axes = oracle_ints(o, 2, &n_axes);
    int64_t size = (int64_t)x->n;
    size_t k = 0;

    for (; n_axes == 0 && k < x->n; k++) {
        int64_t place = ((int64_t)k + shifts[0]) % size;
        out->v[place < 0 ? place + size : place] = x->v[k];
    }
    if (x->n == 0 || n_axes == 0)
        return;
    do {
        memcpy(to, at, sizeof(to));
        for (i = 0; i < n; i++) {
            uint32_t axis = axis_of(axes[i], x->rank);
            to[axis] = (to[axis] + shifts[i]) % x->d[axis];
            to[axis] += to[axis] < 0 ? x->d[axis] : 0;
        }
        out->v[oracle_flat(out, to)] = x->v[k++];
    } while (oracle_next(at, x->d, x->rank));
}

static bool
from_repeated(const struct oracle *o, const struct oracle_array *x,
              const int64_t *at, int64_t *from)
{
    uint32_t n = o->a[1].n > x->rank ? o->a[1].n : x->rank, i;

    for (i = 0; i < x->rank; i++)
        from[i] = at[n - x->rank + i] % x->d[i];
    return true;
}

static void
define_repeat(struct oracle *o)
{
    const struct oracle_array *x = oracle_t(o, 0);
    uint32_t n, rank, i;
    const int64_t *counts = oracle_ints(o, 1, &n);
    int64_t d[BELL_MAX_RANK];

    rank = n > x->rank ? n : x->rank;
    for (i = 0; i < rank; i++) {
        d[i] = i < rank - x->rank ? 1 : x->d[i - (rank - x->rank)];
        d[i] *= i < rank - n ? 1 : counts[i - (rank - n)];
    }
    give_from(o, d, rank, from_repeated);
}

static void
define_repeat_interleave(struct oracle *o)
{
    const struct oracle_array *x = oracle_t(o, 0);
    const struct oracle_array *counts = oracle_t(o, 1);
    int64_t times = oracle_int(o, 1), d[BELL_MAX_RANK] = {0}, total = 0;
    uint32_t axis = o->a[2].given ? oracle_axis(o, 2, x) : 0;
    uint32_t rank = o->a[2].given ? x->rank : 1;
    size_t before = 1, along = x->n, behind = 1, k, row;
    struct oracle_array *out;

    d[0] = (int64_t)x->n;
    if (o->a[2].given) {
        memcpy(d, x->d, sizeof(d));
        oracle_split(x, axis, &before, &along, &behind);
    }
    for (k = 0; k < along; k++)
        total += counts ? (int64_t)counts->v[counts->n == 1 ? 0 : k] : times;
    d[axis] = o->a[3].given ? oracle_int(o, 3) : total;
    out = oracle_out(o, x->dtype, d, rank);
    for (k = 0; k < out->n; k++) {
        int64_t place = (int64_t)(k / behind) % d[axis];
        for (row = 0; row < along; row++) {
            place -=
                counts ? (int64_t)counts->v[counts->n == 1 ? 0 : row] : times;
            if (place < 0)
                break;
        }
        if (row == along) /* more than the counts come to */
            continue;
        row += k / behind / (size_t)d[axis] * along;
        out->v[k] = x->v[row * behind + k % behind];
    }
}

/* ---- diagonals ---- */

static bool
from_triangle(const struct oracle *o, const struct oracle_array *x,
              const int64_t *at, int64_t *from)
{
    int64_t below = at[x->rank - 1] - at[x->rank - 2];

    memcpy(from, at, x->rank * sizeof(*from));
    return o->row->name[3] == 'l' ? below <= oracle_int(o, 1)
                                  : below >= oracle_int(o, 1);
}

static void
define_triangle(struct oracle *o)
{
    give_from(o, oracle_t(o, 0)->d, oracle_t(o, 0)->rank, from_triangle);
}

static bool
from_diag(const struct oracle *o, const struct oracle_array *x,
          const int64_t *at, int64_t *from)
{
    int64_t k = oracle_int(o, 1);

    from[0] = at[0] - (k < 0 ? k : 0);
    from[1] = at[0] + (k > 0 ? k : 0);
    if (x->rank == 2)
        return true;
    from[0] = at[0] + (k < 0 ? k : 0);
    return at[1] - at[0] == k;
}

static void
define_diag(struct oracle *o)
{
    const struct oracle_array *x = oracle_t(o, 0);
    int64_t k = oracle_int(o, 1), n = x->d[0] + (k < 0 ? -k : k);
    int64_t d[2] = {n, n}, rows, columns;

    if (x->rank == 2) {
        rows = x->d[0] + (k < 0 ? k : 0);
        columns = x->d[1] - (k > 0 ? k : 0);
        d[0] = rows < columns ? rows : columns;
        d[0] = d[0] < 0 ? 0 : d[0];
    }
    give_from(o, d, x->rank == 2 ? 1 : 2, from_diag);
}

static bool
from_diagonal(const struct oracle *o, const struct oracle_array *x,
              const int64_t *at, int64_t *from)
{
    uint32_t a = oracle_axis(o, 2, x), b = oracle_axis(o, 3, x), i, n = 0;
    int64_t offset = oracle_int(o, 1), k = at[x->rank - 2];

    for (i = 0; i < x->rank; i++) {
        if (i != a && i != b)
            from[i] = at[n++];
    }
    from[a] = k + (offset < 0 ? -offset : 0);
    from[b] = k + (offset > 0 ? offset : 0);
    return true;
}

static void
define_diagonal(struct oracle *o)
{
    const struct oracle_array *x = oracle_t(o, 0);
    uint32_t a = oracle_axis(o, 2, x), b = oracle_axis(o, 3, x), i, n = 0;
    int64_t offset = oracle_int(o, 1), d[BELL_MAX_RANK];
    int64_t rows = x->d[a] + (offset < 0 ? offset : 0);
    int64_t columns = x->d[b] - (offset > 0 ? offset : 0);
    int64_t size = rows < columns ? rows : columns;

    for (i = 0; i < x->rank; i++) {
        if (i != a && i != b)
            d[n++] = x->d[i];
    }
    d[n++] = size > 0 ? size : 0;
    give_from(o, d, n, from_diagonal);
}

static void
define_trace(struct oracle *o)
{
    const struct oracle_array *x = oracle_t(o, 0);
    bool f = oracle_is_float(x->dtype);
    struct oracle_array *out =
        oracle_out(o, f ? x->dtype : BELL_INT64, NULL, 0);
    int64_t i;

    oracle_scales(o, out);
    for (i = 0; i < x->d[0] && i < x->d[1]; i++) {
        long double v = x->v[i * x->d[1] + i];
        out->v[0] += v;
        out->scale[0] += v < 0 ? -v : v;
    }
    if (!f)
        out->v[0] = oracle_round(BELL_INT64, out->v[0]);
}

/* ---- windows, blocks ---- */

static bool
from_window(const struct oracle *o, const struct oracle_array *x,
            const int64_t *at, int64_t *from)
{
    uint32_t axis = oracle_axis(o, 1, x);

    memcpy(from, at, x->rank * sizeof(*from));
    if (x->rank)
        from[axis] = at[axis] * oracle_int(o, 3) + at[x->rank];
    return true;
}

static void
define_unfold(struct oracle *o)
{
    const struct oracle_array *x = oracle_t(o, 0);
    int64_t d[BELL_MAX_RANK];

    memcpy(d, x->d, sizeof(d));
    if (x->rank)
        d[oracle_axis(o, 1, x)] =
            (x->d[oracle_axis(o, 1, x)] - oracle_int(o, 2)) / oracle_int(o, 3) +
            1;
    d[x->rank] = oracle_int(o, 2);
    give_from(o, d, x->rank + 1, from_window);
}

/* ---- axes by name ---- */

struct named {
    char name[16];
    int64_t size, at;
};

struct names {
    struct named list[2 * BELL_MAX_RANK];
    uint32_t n;
};

static struct named *
named(struct names *names, const char *text, size_t len)
{
    uint32_t i;

    for (i = 0; i < names->n; i++) {
        if (strlen(names->list[i].name) == len &&
            memcmp(names->list[i].name, text, len) == 0)
            return &names->list[i];
    }
    memcpy(names->list[i].name, text, len);
    names->list[i].name[len] = 0;
    names->list[i].size = len == 1 && text[0] == '1' ? 1 : -1;
    names->n++;
    return &names->list[i];
}

/* One side: which name is in which group. */
struct side {
    struct named *names[2 * BELL_MAX_RANK];
    uint32_t group[2 * BELL_MAX_RANK], n, n_groups;
};

static const char *
read_side(const char *at, struct names *names, struct side *side)
{
    bool inside = false;
    size_t len;

    memset(side, 0, sizeof(*side));
    for (; *at && *at != '-'; at += len) {
        len = 1;
        if (*at == '(')
            inside = true;
        side->n_groups += *at == ')';
        if (*at == ')')
            inside = false;
        if (!isalnum((unsigned char)*at))
            continue;
        while (isalnum((unsigned char)at[len]))
            len++;
        side->names[side->n] = named(names, at, len);
        side->group[side->n++] = side->n_groups;
        side->n_groups += !inside;
    }
    return *at ? at + 2 : at;
}

/* In each group at most one size is unknown. */
static void
find_sizes(struct side *side, const struct oracle_array *x)
{
    uint32_t g, i;

    for (g = 0; g < side->n_groups; g++) {
        int64_t known = 1;
        for (i = 0; i < side->n; i++) {
            if (side->group[i] == g && side->names[i]->size >= 0)
                known *= side->names[i]->size;
        }
        for (i = 0; i < side->n; i++) {
            if (side->group[i] == g && side->names[i]->size < 0)
                side->names[i]->size = x->d[g] / known;
        }
    }
}

static void
define_rearrange(struct oracle *o)
{
    const struct oracle_array *x = oracle_t(o, 0);
    int64_t d[BELL_MAX_RANK], at[BELL_MAX_RANK] = {0}, from[BELL_MAX_RANK];
    struct names names = {.n = 0};
    struct side left, right;
    struct oracle_array *out;
    const char *text;
    uint32_t i;
    size_t k = 0;

    for (i = 0; i < o->n_extra; i++)
        named(&names, o->extra[i].name, strlen(o->extra[i].name))->size =
            o->extra[i].value;
    text = read_side(o->a[1].str, &names, &left);
    find_sizes(&left, x);
    read_side(text, &names, &right);
    for (i = 0; i < right.n_groups; i++)
        d[i] = 1;
    for (i = 0; i < right.n; i++)
        d[right.group[i]] *= right.names[i]->size;
    out = oracle_out(o, x->dtype, d, right.n_groups);
    do {
        int64_t rest[BELL_MAX_RANK];
        memcpy(rest, at, sizeof(rest));
        for (i = right.n; i-- > 0;) {
            right.names[i]->at = rest[right.group[i]] % right.names[i]->size;
            rest[right.group[i]] /= right.names[i]->size;
        }
        memset(from, 0, sizeof(from));
        for (i = 0; i < left.n; i++)
            from[left.group[i]] =
                from[left.group[i]] * left.names[i]->size + left.names[i]->at;
        out->v[k++] = x->v[oracle_flat(x, from)];
    } while (oracle_next(at, d, right.n_groups));
}

/* ---- joining and splitting ---- */

static void
define_cat(struct oracle *o)
{
    const struct oracle_arg *a = &o->a[0];
    const struct oracle_array *x = a->items[0].t;
    bool stacks = o->row->name[0] == 's';
    uint32_t rank = x->rank + stacks, axis, i;
    size_t before = 1, behind = 1, along = 0, start = 0, k;
    enum bell_dtype dtype = x->dtype;
    struct oracle_array *out;
    int64_t d[BELL_MAX_RANK];

    axis = axis_of(oracle_int(o, 1), rank);
    for (i = 0; i < axis; i++)
        before *= (size_t)(d[i] = x->d[i]);
    for (i = axis + 1; i < rank; i++)
        behind *= (size_t)(d[i] = x->d[i - stacks]);
    for (i = 0; i < a->n; i++) {
        along += stacks ? 1 : (size_t)a->items[i].t->d[axis];
        dtype = oracle_promote(dtype, a->items[i].t->dtype);
    }
    d[axis] = (int64_t)along;
    out = oracle_out(o, dtype, d, rank);
    for (i = 0; i < a->n; i++) {
        const struct oracle_array *t = a->items[i].t;
        size_t size = stacks ? 1 : (size_t)t->d[axis], run = size * behind;
        for (k = 0; k < before * run; k++)
            out->v[(k / run * along + start) * behind + k % run] =
                oracle_round(dtype, t->v[k]);
        start += size;
    }
}

/* Places start..start+size-1 of an axis; `drop`: without the axis. */
static void
give_part(struct oracle *o, uint32_t axis, int64_t start, int64_t size,
          bool drop)
{
    const struct oracle_array *x = oracle_t(o, 0);
    size_t before, along, behind, k, run;
    struct oracle_array *out;
    int64_t d[BELL_MAX_RANK];
    uint32_t i, rank = 0;

    for (i = 0; i < x->rank; i++) {
        if (i != axis || !drop)
            d[rank++] = i == axis ? size : x->d[i];
    }
    out = oracle_out(o, x->dtype, d, rank);
    oracle_split(x, axis, &before, &along, &behind);
    run = (size_t)size * behind;
    for (k = 0; k < out->n; k++)
        out->v[k] = x->v[(k / run * along + (size_t)start) * behind + k % run];
}

static void
define_split(struct oracle *o)
{
    const struct oracle_array *x = oracle_t(o, 0);
    uint32_t axis = oracle_axis(o, 2, x), n, i;
    const int64_t *sizes = oracle_ints(o, 1, &n);
    int64_t all = x->d[axis], size = sizes[0], start = 0;

    if (o->row->name[0] == 'c') /* chunk: how many */
        size = (all + size - 1) / size;
    if (o->a[1].kind == BELL_VALUE_LIST) {
        for (i = 0; i < n; start += sizes[i++])
            give_part(o, axis, start, sizes[i], false);
        return;
    }
    if (all == 0 && o->row->name[0] == 'c') {
        for (i = 0; (int64_t)i < sizes[0]; i++)
            give_part(o, axis, 0, 0, false);
        return;
    }
    do {
        give_part(o, axis, start, size < all - start ? size : all - start,
                  false);
        start += size;
    } while (start < all);
}

static void
define_unbind(struct oracle *o)
{
    const struct oracle_array *x = oracle_t(o, 0);
    uint32_t axis = oracle_axis(o, 1, x);
    int64_t i;

    for (i = 0; i < x->d[axis]; i++)
        give_part(o, axis, i, 1, true);
}

/* 'xy': the first two axes are swapped. A scalar has size 1. */
static void
define_meshgrid(struct oracle *o)
{
    const struct oracle_arg *a = &o->a[0];
    bool turned = o->a[1].str[0] == 'x' && a->n > 1;
    int64_t d[BELL_MAX_RANK], at[BELL_MAX_RANK] = {0};
    uint32_t i, axis;

    for (i = 0; i < a->n; i++)
        d[turned && i < 2 ? 1 - i : i] = (int64_t)a->items[i].t->n;
    for (i = 0; i < a->n; i++) {
        const struct oracle_array *t = a->items[i].t;
        struct oracle_array *out = oracle_out(o, t->dtype, d, a->n);
        size_t k = 0;
        axis = turned && i < 2 ? 1 - i : i;
        if (out->n == 0)
            continue;
        do {
            out->v[k++] = t->v[at[axis]];
        } while (oracle_next(at, d, a->n));
    }
}

#define ALL    "hwfdcsilCSIL?"
#define MOVED  .back = back_moved
#define SPLITS "@n:7,3 i3; @n:2,7 i2 i1; @n:7 i9; @n:6 i2; @q:3,5 i2 dim=i-1; "

/* clang-format off */
static const struct oracle_row rows[] = {
    {"reshape", "@n:3,4 l2,6; @q:3,4 l-1; @n:3,4 l2,-1,3; @n: l1; @n: l; @n:1 l; @n:0,3 l3,0; @n:2,3,4 l4,6", ALL, .define = define_reshape, MOVED},
    {"permute", "@n:; @n:3,4 l1,0; @q:2,3,4 l2,0,1; @n:2,3,4 l-1,1,0; @n:5 l0; @n: l; @n:0,3 l1,0; @n:2,3,1,4 l3,1,2,0", ALL, .define = define_permute, MOVED},
    {"transpose", "@n:3,4 i0 i1; @q:2,3,4 i0 i-1; @n:2,3,4 i1 i1; @n:0,3 i0 i1; @n:5 i0 i-1; @n: i0 i0", ALL, .define = define_transpose, MOVED},
    {"t", "@n:3,4; @q:5; @n:; @n:0,3", ALL, .define = define_transpose, MOVED},
    {"mT", "@n:3,4; @q:2,3,4; @n:2,0,3; @n:2,1,3,4", ALL, .define = define_transpose, MOVED},
    {"movedim", "@n:3,4 i0 i1; @q:2,3,4 i0 i2; @n:2,3,4,2 i3 i1; @n:2,3,4 i-1 i-3; @n:0,3 i1 i0; @n:5 i0 i0", ALL, .define = define_movedim, MOVED},
    {"expand", "@n:3,1 l3,4; @q:3,1 l-1,2; @n:3 l2,4,3; @n: l2,3; @n: l; @n:1 l0; @n:1,3 l2,5,3", ALL, .define = define_expand, MOVED},
    {"squeeze", "@n:1,3,1; @q:1,3,1 l0; @n:1,3,1 l-1,0; @n:3,4 l1; @n:; @n:1,0", ALL, .define = define_squeeze, MOVED},
    {"unsqueeze", "@n:3,4 i0; @q:3,4 i-1; @n:3,4 i1; @n: i0; @n: i-1; @n:0,3 i2", ALL, .define = define_unsqueeze, MOVED},
    {"flatten", "@n:2,3,4; @q:2,3,4 i1; @n:2,3,4 i0 i1; @n:2,3,4 i-2 i-1; @n:; @n:0,3; @n:5", ALL, .define = define_flatten, MOVED},
    {"ravel", "@n:2,3,4; @q:5; @n:; @n:0,3", ALL, .define = define_flatten, MOVED},
    {"unflatten", "@n:2,12 i1 l3,4; @q:12,2 i0 l2,-1,3; @n:6 i-1 l2,3; @n:0,3 i1 l3,1", ALL, .define = define_unflatten, MOVED},
    {"flip", "@n:3,4 l0; @q:3,4 l1; @n:2,3,4 l0,2; @n:2,3,4 l-2; @n:5 l0; @n:0,3 l0,1; @n:3 l; @n: l", ALL, .define = define_flip, MOVED},
    {"fliplr", "@n:3,4; @q:2,3,4; @n:0,3", ALL, .define = define_flip, MOVED},
    {"flipud", "@n:3,4; @q:5; @n:0,3", ALL, .define = define_flip, MOVED},
    {"roll", "@n:3,4 l1; @q:3,4 l-2 l1; @n:3,4 l1,-1 l0,1; @n:5 l7 l0; @n:5 l-13; @n:0,3 l1 l0; @n: l1; @n:3,4 l1,2 l1,1; @n:5 l0 l0", ALL, .define = define_roll, MOVED},
    {"repeat", "@n:3 l2; @q:3,4 l2,1; @n:3 l2,3; @n:3,4 l1,0; @n: l3; @n: l; @n:0,3 l2,2; @n:2,3 l2,1,2", ALL, .define = define_repeat, MOVED},
    {"tile", "@n:3 l2; @q:3,4 l2; @n:3 l2,3; @n: l3; @n:0,3 l2,2; @n:2,3,2 l2,1", ALL, .define = define_repeat, MOVED},
    {"repeat_interleave", "@n:3 i2; @q:3,4 i2; @n:3,4 i3 i0; @n:3,4 i2 i-1; @n:2,3,2 i2 i1; @n: i3; @n:0,3 i2 i1; @n:3 i0; @n:3 i1 i0; @q:3,4 @i3:4 i1; @n:3,4 @i3:12; @n:3,4 @i3:3/i i-2; @n:2,3,2 @i4:3 i1 i9; @n:3,4 @i4: i0; @n:3 @i4:1 i0 i3; @n:3 @i1:3; @n: @i4:1; @n:0,3 @i3:0 i0; @n:0,3 @i3:3 i1; @n:0 @i3:0 i0 i2; @n:4 i2 i0 i8", ALL, .define = define_repeat_interleave, MOVED},
    {"tril", "@n:4,4; @q:3,5; @q:5,3 i1; @n:2,3,4 i-1; @n:3,3 i5; @n:3,3 i-5; @n:0,3; @n:2,0,3", ALL, .define = define_triangle, MOVED},
    {"triu", "@n:4,4; @q:3,5; @q:5,3 i1; @n:2,3,4 i-1; @n:3,3 i5; @n:3,3 i-5; @n:0,3; @n:2,0,3", ALL, .define = define_triangle, MOVED},
    {"diag", "@n:4; @q:4; @n:3,5; @q:5,3; @n:1; @n:0; @n:0,3; @n:3 i1; @q:2 i-2; @n:3,5 i1; @n:3,5 i-1; @n:3,5 i4; @n:3,5 i-3; @n:3,5 i9; @n:0 i2; @n:2 diagonal=i0", ALL, .define = define_diag, MOVED},
    {"diagonal", "@n:4,4; @q:3,5 i1; @n:5,3 i-1; @n:2,3,4 i0 i1 i2; @n:2,3,4 i1 i-1 i0; @n:3,3 i3; @n:3,3 i-7; @n:0,3", ALL, .define = define_diagonal, MOVED},
    {"trace", "@n:4,4; @q:3,5; @n:5,3; @n:1,1; @n:0,3; @n:0,0", "hwfdcsilCSI", .define = define_trace, .ulps = 4, .grad_ulps = 1, .flags = ORACLE_SCALED | ORACLE_ZERO | ORACLE_GRAD},
    {"rearrange", "@n:3,4 s'a~b~->~b~a'; @q:2,3,4 s'b~h~w~->~b~(h~w)'; @n:2,12 s'b~(h~w)~->~w~b~h' h=i3; @n:2,3,4 s'a~b~c~->~(c~a)~b'; @n:6,4 s'(a~b)~(c~d)~->~a~c~(b~d)' a=i2 d=i2; @n:2,3 s'a~b~->~a~1~b'; @n:2,1,3 s'a~1~b~->~(b~a)'", ALL, .define = define_rearrange, MOVED},
    {"unfold", "@n:7 i0 i3 i2; @q:7 i0 i2 i1; @n:3,7 i1 i3 i1; @n:7,3 i0 i2 i3; @n:2,5,3 i-2 i2 i2; @n:4 i0 i4 i1; @n: i0 i1 i1; @n:3 i0 i1 i5; @n: i0 i0 i1", ALL, .define = define_unfold, MOVED},
    {"cat", "( @n:2,3 @n:4,3 ); ( @q:2,3 @q:2,1 ) i1; ( @n:3 ); ( @n:2,3 @n:2,4 @n:2,1 ) i-1; ( @n:0,3 @n:2,3 ); ( @n:3/f @n:2/l ); ( @n:3/h @n:2/w ); ( @n:3/c @b:2 ); ( @n:3/d @n:2/f ); ( @n:3/C @n:2/c )", ALL, .define = define_cat, MOVED},
    {"stack", "( @n:2,3 @n:2,3 ); ( @q:2,3 @q:2,3 ) i1; ( @n:3 ); ( @n:2,3 @n:2,3 @n:2,3 ) i-1; ( @n: @n: ); ( @n:0,3 @n:0,3 ); ( @n:3/f @n:3/h )", ALL, .define = define_cat, MOVED},
    {"split", SPLITS "@n:7,3 l2,5; @n:2,7 l1,0,6 i1; @n:0,3 i2; @n:0,3 i0; @n:5 i5", ALL, .define = define_split, MOVED},
    {"chunk", SPLITS "@n:0,3 i2; @n:5 i1; @n:5 i5; @n:5 i4", ALL, .define = define_split, MOVED},
    {"unbind", "@n:3,4; @q:3,4 i1; @n:2,3,2 i-2; @n:5; @n:2,0; @n:1,3", ALL, .define = define_unbind, MOVED},
    {"meshgrid", "( @n:3 @n:4 ); ( @q:3 @q:4 ) s'xy'; ( @n:3 ); ( @n:2 @n:3 @n:4 ) s'xy'; ( @n:2 @n:3 @n:2 ); ( @n:0 @n:3 ); ( @n: @n:3 ); ( @n: ) s'xy'; ( @n: @n: )", ALL, .define = define_meshgrid, MOVED},
};
/* clang-format on */

const struct oracle_table oracle_shape = {rows, ARRAY_LEN(rows)};
