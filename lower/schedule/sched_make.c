/* Nodes of the tensor graph, with the shapes that they have. */
#include "lower/schedule/sched_internal.h"

#include <assert.h>
#include <string.h>

static const struct uop *
make_shaped(struct uop_graph *g, enum uop_op op, union uop_arg arg,
            const struct uop *u, const int64_t *d, uint32_t n)
{
    return uop_new_shaped(g, op, u->dtype, arg, &u, 1, uop_dims(g, d, n));
}

const struct uop *
sched_reshape(struct uop_graph *g, const struct uop *u, const int64_t *d,
              uint32_t n)
{
    union uop_arg arg = {.dims = uop_dims(g, d, n)};

    return uop_new_shaped(g, UOP_RESHAPE, u->dtype, arg, &u, 1, arg.dims);
}

const struct uop *
sched_expand(struct uop_graph *g, const struct uop *u,
             const struct uop_dims *to)
{
    union uop_arg arg = {.dims = to};

    return uop_new_shaped(g, UOP_EXPAND, u->dtype, arg, &u, 1, to);
}

const struct uop *
sched_permute(struct uop_graph *g, const struct uop *u, const int64_t *order)
{
    const struct uop_dims *from = uop_shape(g, u);
    int64_t d[SCHED_MAX_RANK + 1];
    union uop_arg arg;
    uint32_t i;

    if (g->failed)
        return &uop_failed;
    for (i = 0; i < from->n; i++)
        d[i] = from->d[order[i]];
    arg.dims = uop_dims(g, order, from->n);
    return make_shaped(g, UOP_PERMUTE, arg, u, d, from->n);
}

const struct uop *
sched_first(struct uop_graph *g, const struct uop *u, const int64_t *d)
{
    int64_t pairs[2 * (SCHED_MAX_RANK + 1)] = {0};
    uint32_t n = g->failed ? 0 : uop_shape(g, u)->n, i;
    union uop_arg arg;

    for (i = 0; i < n; i++)
        pairs[2 * i + 1] = d[i];
    arg.dims = uop_dims(g, pairs, 2 * n);
    return make_shaped(g, UOP_SHRINK, arg, u, d, n);
}

const struct uop *
sched_pad(struct uop_graph *g, const struct uop *u, uint32_t axis, int64_t size)
{
    int64_t d[SCHED_MAX_RANK], pairs[2 * SCHED_MAX_RANK] = {0};
    const struct uop_dims *from = uop_shape(g, u);
    union uop_arg arg;

    if (g->failed)
        return &uop_failed;
    assert(axis < from->n && size >= from->d[axis]);
    if (from->d[axis] == size)
        return u;
    memcpy(d, from->d, from->n * sizeof(*d));
    d[axis] = size;
    pairs[2 * axis + 1] = size - from->d[axis];
    arg.dims = uop_dims(g, pairs, 2 * from->n);
    return make_shaped(g, UOP_PAD, arg, u, d, from->n);
}

const struct uop *
sched_reduce(struct uop_graph *g, enum uop_op op, const struct uop *u,
             uint32_t axes)
{
    const struct uop_dims *from = uop_shape(g, u);
    union uop_arg arg = {.i = uop_reduce_arg(op, axes)};
    int64_t d[SCHED_MAX_RANK + 1];
    uint32_t i;

    if (g->failed)
        return &uop_failed;
    for (i = 0; i < from->n; i++)
        d[i] = axes >> i & 1 ? 1 : from->d[i];
    return make_shaped(g, UOP_REDUCE_AXIS, arg, u, d, from->n);
}

const struct uop *
sched_each(struct uop_graph *g, enum uop_op op, enum uop_dtype dtype,
           const struct uop *a, const struct uop *b)
{
    const union uop_arg no_arg = {.bits = 0};
    const struct uop *src[2] = {a, b};

    return uop_new_shaped(g, op, dtype, no_arg, src, b ? 2 : 1,
                          uop_shape(g, a));
}
