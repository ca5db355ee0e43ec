/* Shared by the files of uops/ only. */
#ifndef BELL_UOPS_UOPS_INTERNAL_H
#define BELL_UOPS_UOPS_INTERNAL_H

#include "uops/uop.h"

/* Bounds of a node from those of its sources (uops/bounds.c). Called by
 * uop_new before the node is in the side arrays; floats give the full
 * range. */
struct uop_bounds uop_compute_bounds(const struct uop_graph *g,
                                     const struct uop *u);

/* The CONST that every lane of `u` is, or NULL. */
static inline const struct uop *
uop_scalar_const(const struct uop *u)
{
    if (u->op == UOP_BROADCAST && u->n_src == 1)
        u = u->src[0];
    return u->op == UOP_CONST ? u : NULL;
}

/* A constant with `lanes` equal lanes. */
const struct uop *uop_make_const(struct uop_graph *g, enum uop_dtype dtype,
                                 uint16_t lanes, union uop_arg arg);
/* The same for an integer or bool, wrapped. */
const struct uop *uop_make_int(struct uop_graph *g, enum uop_dtype dtype,
                               uint16_t lanes, int64_t value);

/* Place of a node among the terms of a sum and the operands of a commutative
 * op: by its innermost RANGE, outer before inner, so that partial sums leave
 * inner loops; a RANGE before what is made of it; then by age. */
static inline uint64_t
uop_order_key(const struct uop *u)
{
    const struct uop *leaf = u;
    int i;

    for (i = 0; i < 8 && leaf->op != UOP_RANGE && leaf->n_src; i++) {
        bool right = leaf->op == UOP_ADD && leaf->src[1]->op != UOP_CONST;
        leaf = leaf->src[right];
    }
    if (leaf->op != UOP_RANGE)
        return 1ull << 62 | u->id;
    return (uint64_t)(uop_range_id(leaf) & 0xffffff) << 33 |
           (uint64_t)(leaf != u) << 32 | u->id;
}

#endif
