/* Vectors: moving lanes in and out, and the affine form
 * BROADCAST(base) + RAMP*c. */
#include "uops/linear.h"
#include "uops/symbolic_internal.h"
#include "uops/uops_internal.h"

/* A BROADCAST to one lane is its source. */
const struct uop *
sym_broadcast(struct uop_graph *g, const struct rw_match *match)
{
    (void)g;
    return match->root->lanes == 1 ? match->v[0] : NULL;
}

/* Lane i of an affine vector: every vector term is a RAMP. */
static const struct uop *
lane_of_affine(struct uop_graph *g, const struct uop *v, int64_t i)
{
    const struct uop *r;
    struct lin lin;
    uint32_t k, n = 0;

    if (!lin_of(g, v, &lin))
        return NULL;
    for (k = 0; k < lin.n; k++) {
        if (lin.t[k].x->lanes == 1) {
            lin.t[n++] = lin.t[k];
        } else if (lin.t[k].x->op == UOP_RAMP) {
            uint64_t add = (uint64_t)lin.t[k].c * (uint64_t)i;
            lin.k = uop_wrap_int(lin.dtype, (int64_t)((uint64_t)lin.k + add));
        } else {
            return NULL;
        }
    }
    lin.n = n;
    lin.lanes = 1;
    r = lin_build(g, &lin);
    return r;
}

const struct uop *
sym_lane(struct uop_graph *g, const struct rw_match *match)
{
    const struct uop *v = match->v[0];
    int64_t i = match->root->arg.i;

    if (v->lanes == 1)
        return v;
    if (v->op == UOP_BROADCAST)
        return v->src[0];
    if (v->op == UOP_LANES && i >= 0 && (uint64_t)i < v->n_src)
        return v->src[i];
    if (i < 0 || i >= v->lanes)
        return NULL;
    return lane_of_affine(g, v, i);
}

/* All lanes of one vector, in order. */
static const struct uop *
lanes_of_one(const struct uop *u)
{
    const struct uop *v;
    uint32_t i;

    if (u->src[0]->op != UOP_LANE)
        return NULL;
    v = u->src[0]->src[0];
    if (v->lanes != u->n_src || v->dtype != u->dtype)
        return NULL;
    for (i = 0; i < u->n_src; i++) {
        if (u->src[i]->op != UOP_LANE || u->src[i]->src[0] != v ||
            u->src[i]->arg.i != (int64_t)i)
            return NULL;
    }
    return v;
}

/* Integers base, base + c, base + 2c, ... */
static const struct uop *
lanes_affine(struct uop_graph *g, const struct uop *u)
{
    union uop_arg none = {.bits = 0};
    struct lin base, diff;
    const struct uop *ramp;
    int64_t step = 0;
    uint32_t i;

    if (!lin_of(g, u->src[0], &base))
        return NULL;
    for (i = 1; i < u->n_src; i++) {
        lin_const(&diff, u->src[0], 0);
        if (!lin_add(g, &diff, u->src[i], 1) ||
            !lin_add(g, &diff, u->src[i - 1], -1))
            return NULL;
        lin_sort(&diff);
        if (diff.n || (i > 1 && diff.k != step))
            return NULL;
        step = diff.k;
    }
    ramp = uop_new(g, UOP_RAMP, base.dtype, u->lanes, none, NULL, 0);
    base.lanes = u->lanes;
    if (!lin_add_term(&base, ramp, step))
        return NULL;
    lin_sort(&base);
    return lin_build(g, &base);
}

const struct uop *
sym_lanes(struct uop_graph *g, const struct uop *u)
{
    union uop_arg none = {.bits = 0};
    const struct uop *r;
    uint32_t i;

    for (i = 1; i < u->n_src && u->src[i] == u->src[0]; i++) {
    }
    if (i == u->n_src)
        return uop_new(g, UOP_BROADCAST, u->dtype, u->lanes, none, &u->src[0],
                       1);
    r = lanes_of_one(u);
    return r ? r : lanes_affine(g, u);
}

const struct uop *
sym_spread(struct uop_graph *g, enum uop_op op, enum uop_dtype dtype,
           uint16_t lanes, union uop_arg arg, const struct uop *const *src,
           uint32_t n_src)
{
    const struct uop *scalars[3], *r;
    union uop_arg none = {.bits = 0};
    uint32_t i;

    if (n_src > 3)
        return NULL;
    for (i = 0; i < n_src; i++) {
        if (src[i]->op != UOP_BROADCAST)
            return NULL;
        scalars[i] = src[i]->src[0];
    }
    r = uop_make(g, op, dtype, 1, arg, scalars, n_src);
    return uop_new(g, UOP_BROADCAST, dtype, lanes, none, &r, 1);
}
