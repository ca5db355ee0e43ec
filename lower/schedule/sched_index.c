/* Movement ops as index arithmetic. */
#include "lower/schedule/sched_internal.h"

#include <assert.h>
#include <string.h>

#include "base/alloc.h"

uint64_t
sched_mask(struct sched *s, const struct uop *u)
{
    size_t i;

    if (u == &uop_failed)
        return 0;
    if (u->id >= s->n_masks) {
        size_t need = s->k->n_nodes;
        if (host_grow((void **)&s->masks, &s->cap_masks, need,
                      sizeof(*s->masks)) != 0) {
            s->k->failed = true;
            return 0;
        }
        for (i = s->n_masks; i < need; i++) {
            const struct uop *v = s->k->nodes[i];
            uint64_t mask = 0;
            uint32_t j;
            for (j = 0; j < v->n_src; j++)
                mask |= s->masks[v->src[j]->id];
            if (v->op == UOP_RANGE) /* sym_given's stand-ins have great ids,
                                     * and are of no kernel */
                mask |= 1ull << (uop_range_id(v) & 63);
            s->masks[i] = mask;
        }
        s->n_masks = need;
    }
    return s->masks[u->id];
}

/* ---- sizes ---- */

int64_t
sched_most(const struct uop_graph *g, int64_t d)
{
    int64_t min, max = d;

    if (dim_is_expr(d))
        dim_bounds(g->sizes, d, &min, &max);
    return max;
}

double
sched_numel(const struct uop_graph *g, const struct uop_dims *dims)
{
    double n = 1;
    uint32_t i;

    for (i = 0; i < dims->n; i++)
        n *= (double)sched_most(g, dims->d[i]);
    return n;
}

bool
sched_dims_vary(const struct uop_dims *dims)
{
    uint32_t i;

    for (i = 0; i < dims->n && !dim_is_expr(dims->d[i]); i++)
        continue;
    return i < dims->n;
}

static const struct uop *
number(struct sched *s, int64_t n)
{
    return uop_const_int(s->k, UOP_I64, n);
}

/* A VAR of known bounds. */
static const struct uop *
bounded_var(struct sched *s, int64_t n, int64_t min, int64_t max)
{
    const struct uop *src[2] = {number(s, min), number(s, max)};
    union uop_arg slot = {.i = SCHED_VAR_SLOT + n};

    return uop_new(s->k, UOP_VAR, UOP_I64, 1, slot, src, 2);
}

const struct uop *
sched_size(struct sched *s, int64_t d)
{
    const struct dim_table *t = s->g->sizes;
    const struct uop *vars[DIM_MAX_SYMBOLS];
    uint32_t i, used;

    if (!dim_is_expr(d))
        return number(s, d);
    used = dim_symbols(t, d);
    for (i = 0; i < DIM_MAX_SYMBOLS; i++)
        vars[i] = used >> i & 1
                      ? bounded_var(s, s->target->size_vars[i],
                                    t->symbols[i].min, t->symbols[i].max)
                      : NULL;
    return dim_uop(t, s->k, d, vars);
}

const struct uop *
sched_range(struct sched *s, uint32_t id, enum uop_axis axis, int64_t d)
{
    const struct uop *size = sched_size(s, d);
    union uop_arg arg = {.i = uop_range_arg(id, axis)};

    return uop_new(s->k, UOP_RANGE, UOP_I64, 1, arg, &size, 1);
}

/* ---- indices ---- */

struct sched_idx *
sched_idx_new(struct sched *s, uint32_t n)
{
    struct sched_idx *idx =
        arena_alloc(&s->scratch, sizeof(*idx) + n * sizeof(idx->e[0]));

    if (!idx) {
        s->k->failed = true;
        return NULL;
    }
    idx->n = n;
    idx->flat = false;
    return idx;
}

struct sched_idx *
sched_idx_ranges(struct sched *s, const struct uop_dims *dims,
                 const uint32_t *ids, enum uop_axis axis)
{
    struct sched_idx *idx = sched_idx_new(s, dims->n);
    uint32_t i;

    assert(dims->n <= SCHED_MAX_RANK);
    if (!idx)
        return NULL;
    for (i = 0; i < dims->n; i++) {
        idx->e[i] = dims->d[i] == 1 ? number(s, 0)
                                    : sched_range(s, ids[i], axis, dims->d[i]);
    }
    return idx;
}

/* Row-major number of axes begin..end-1 within their part of dims. */
static const struct uop *
linear_part(struct sched *s, const struct sched_idx *idx,
            const struct uop_dims *dims, uint32_t begin, uint32_t end)
{
    const struct uop *acc = NULL, *by = NULL; /* the part that varies */
    int64_t stride = 1;
    uint32_t i;

    assert(begin <= end && end <= dims->n);
    for (i = end; i-- > begin;) {
        const struct uop *e = idx->e[i];
        if (dims->d[i] == 1)
            continue;
        if (stride != 1)
            e = uop_alu2(s->k, UOP_MUL, e, number(s, stride));
        if (by)
            e = uop_alu2(s->k, UOP_MUL, e, by);
        acc = acc ? uop_alu2(s->k, UOP_ADD, e, acc) : e;
        if (!dim_is_expr(dims->d[i]))
            stride *= dims->d[i];
        else if (by)
            by = uop_alu2(s->k, UOP_MUL, by, sched_size(s, dims->d[i]));
        else
            by = sched_size(s, dims->d[i]);
    }
    return acc ? acc : number(s, 0);
}

const struct uop *
sched_idx_linear(struct sched *s, const struct sched_idx *idx,
                 const struct uop_dims *dims)
{
    assert(idx->n == (idx->flat ? 1 : dims->n));
    return idx->flat ? idx->e[0] : linear_part(s, idx, dims, 0, dims->n);
}

/* Splits an element number over axes begin..end-1 of dims into idx. */
static void
split_part(struct sched *s, const struct uop *linear,
           const struct uop_dims *dims, uint32_t begin, uint32_t end,
           struct sched_idx *idx)
{
    uint32_t i, first = end;

    assert(begin <= end && end <= dims->n && end <= idx->n);
    for (i = begin; i < end && first == end; i++) {
        if (dims->d[i] != 1)
            first = i;
    }
    for (i = end; i-- > begin;) {
        const struct uop *size = sched_size(s, dims->d[i]);
        if (dims->d[i] == 1) {
            idx->e[i] = number(s, 0);
        } else if (i == first) {
            idx->e[i] = linear;
        } else {
            idx->e[i] = uop_alu2(s->k, UOP_FLOORMOD, linear, size);
            linear = uop_alu2(s->k, UOP_FLOORDIV, linear, size);
        }
    }
}

/* A product of sizes, for all values and at most. */
struct product {
    int64_t d;
    double most;
};

static struct product
times(const struct sched *s, struct product p, int64_t d)
{
    return (struct product){dim_times(s->g->sizes, p.d, d),
                            p.most * (double)sched_most(s->g, d)};
}

/* RESHAPE: axes are taken in groups of equal product, so that an axis that
 * stays as it is keeps its index. */
static const struct sched_idx *
reshape_source(struct sched *s, const struct sched_idx *idx,
               const struct uop_dims *to, const struct uop_dims *from)
{
    struct sched_idx *out;
    uint32_t a = 0, b = 0, a0, b0;

    assert(idx->flat || idx->n == to->n);
    if (idx->flat || to == from)
        return idx;
    out = sched_idx_new(s, from->n);
    if (!out)
        return NULL;
    while (a < to->n || b < from->n) {
        struct product pa = {1, 1}, pb = {1, 1};
        a0 = a;
        b0 = b;
        if (a < to->n)
            pa = times(s, pa, to->d[a++]);
        if (b < from->n)
            pb = times(s, pb, from->d[b++]);
        while ((pa.d != pb.d || pa.d == DIM_BAD) &&
               (a < to->n || b < from->n)) {
            if (a < to->n && (pa.most <= pb.most || b == from->n))
                pa = times(s, pa, to->d[a++]);
            else
                pb = times(s, pb, from->d[b++]);
        }
        if (a - a0 == 1 && b - b0 == 1)
            out->e[b0] = idx->e[a0];
        else
            split_part(s, linear_part(s, idx, to, a0, a), from, b0, b, out);
    }
    return out;
}

/* The most that a - b can be. */
static int64_t
most_between(const struct sched *s, int64_t a, int64_t b)
{
    int64_t by = dim_less(s->g->sizes, a, b);

    return by == DIM_BAD ? DIM_LIMIT : sched_most(s->g, by);
}

/* What the movement of `arg` moves axis i by, on its way to numbers 0..room;
 * NULL: nothing. */
static const struct uop *
moved_by(struct sched *s, const struct uop_dims *arg, uint32_t rank, uint32_t i,
         int64_t room)
{
    int64_t step;

    if (arg->n == 2 * rank || arg->d[2 * (rank + i)] == 0)
        return NULL;
    step = arg->d[2 * (rank + i) + 1];
    return uop_alu2(s->k, UOP_MUL,
                    bounded_var(s, arg->d[2 * (rank + i)] - 1, 0, room / step),
                    number(s, step));
}

static const struct sched_idx *
pad_source(struct sched *s, const struct sched_idx *idx,
           const struct uop_dims *pad, const struct uop_dims *to,
           const struct uop **valid)
{
    struct sched_idx *out = sched_idx_new(s, idx->n);
    uint32_t i;

    assert(!idx->flat && pad->n >= 2 * idx->n);
    if (!out)
        return NULL;
    for (i = 0; i < idx->n; i++) {
        int64_t before = pad->d[2 * i], after = pad->d[2 * i + 1];
        const struct uop *e = idx->e[i], *gate;
        const struct uop *by =
            moved_by(s, pad, idx->n, i, most_between(s, after, 0));
        if (by) {
            e = uop_alu2(s->k, UOP_SUB, e, by);
            gate = uop_alu2(s->k, UOP_CMPLT, number(s, -1), e);
            *valid = sched_and(s, *valid, gate);
        }
        if (before) {
            gate = uop_alu2(
                s->k, UOP_CMPLT,
                uop_alu2(s->k, UOP_SUB, sched_size(s, before), number(s, 1)),
                e);
            *valid = sched_and(s, *valid, gate);
        }
        if (after) {
            gate = uop_alu2(s->k, UOP_CMPLT, e,
                            uop_alu2(s->k, UOP_SUB, sched_size(s, to->d[i]),
                                     sched_size(s, after)));
            *valid = sched_and(s, *valid, gate);
        }
        out->e[i] =
            before ? uop_alu2(s->k, UOP_SUB, e, sched_size(s, before)) : e;
    }
    return out;
}

const struct uop *
sched_and(struct sched *s, const struct uop *a, const struct uop *b)
{
    if (!a)
        return b;
    return b ? uop_alu2(s->k, UOP_AND, a, b) : a;
}

bool
sched_idx_same(const struct sched_idx *a, const struct sched_idx *b)
{
    return a == b || (a->n == b->n && a->flat == b->flat &&
                      memcmp(a->e, b->e, a->n * sizeof(a->e[0])) == 0);
}

/* A flat index as one of axes. */
static const struct sched_idx *
unflatten(struct sched *s, const struct sched_idx *idx,
          const struct uop_dims *dims)
{
    struct sched_idx *out;

    if (!idx->flat)
        return idx;
    out = sched_idx_new(s, dims->n);
    if (out)
        split_part(s, idx->e[0], dims, 0, dims->n, out);
    return out;
}

static const struct sched_idx *
move_source(struct sched *s, const struct uop *u, const struct sched_idx *idx,
            const struct uop_dims *from, const struct uop_dims *to,
            const struct uop **valid)
{
    struct sched_idx *out;
    uint32_t i;

    if (u->op == UOP_PAD)
        return pad_source(s, idx, u->arg.dims, to, valid);
    out = sched_idx_new(s, from->n);
    if (!out)
        return NULL;
    for (i = 0; i < from->n; i++) {
        const struct uop *e = idx->e[u->op == UOP_PERMUTE ? 0 : i], *by;
        if (u->op == UOP_PERMUTE) {
            out->e[u->arg.dims->d[i]] = idx->e[i];
            continue;
        }
        if (u->op == UOP_EXPAND && from->d[i] == 1 && to->d[i] != 1)
            e = number(s, 0);
        else if (u->op == UOP_SHRINK) {
            by = moved_by(s, u->arg.dims, from->n, i,
                          most_between(s, from->d[i], to->d[i]));
            if (!by && u->arg.dims->d[2 * i])
                by = sched_size(s, u->arg.dims->d[2 * i]);
            e = by ? uop_alu2(s->k, UOP_ADD, e, by) : e;
        } else if (u->op == UOP_FLIP && (u->arg.i >> i & 1))
            e = uop_alu2(s->k, UOP_SUB,
                         uop_alu2(s->k, UOP_SUB, sched_size(s, from->d[i]),
                                  number(s, 1)),
                         e);
        out->e[i] = e;
    }
    return out;
}

const struct sched_idx *
sched_idx_source(struct sched *s, const struct uop *u, uint32_t src,
                 const struct sched_idx *idx, const struct uop **valid)
{
    const struct uop_dims *to = uop_shape(s->g, u);
    const struct uop_dims *from = uop_shape(s->g, u->src[src]);

    assert(src < u->n_src);
    if (!uop_has(u, UOP_FLAG_MOVE) || from->n == 0) {
        /* a scalar constant is used at any shape */
        return from->n == 0 && !idx->flat && idx->n ? sched_idx_new(s, 0) : idx;
    }
    if (u->op == UOP_RESHAPE)
        return reshape_source(s, idx, to, from);
    idx = unflatten(s, idx, to);
    return idx ? move_source(s, u, idx, from, to, valid) : NULL;
}
