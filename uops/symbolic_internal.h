/* The builders of the symbolic rules, shared by the files symbolic*.c. Each
 * is a rw_build_fn: NULL where it has nothing better. */
#ifndef BELL_UOPS_SYMBOLIC_INTERNAL_H
#define BELL_UOPS_SYMBOLIC_INTERNAL_H

#include "uops/rewrite.h"

/* Fast pre-check of an integer ADD: true when it is certainly canonical. */
bool sym_sum_is_canonical(const struct uop_graph *g, const struct uop *a,
                          const struct uop *b);

/* symbolic_sum.c */
rw_build_fn sym_sum, sym_scale, sym_const_out;
/* symbolic_div.c */
rw_build_fn sym_floordiv, sym_floormod;
/* symbolic_cmp.c */
rw_build_fn sym_less, sym_equal, sym_not_less, sym_gates;
/* symbolic_vec.c */
rw_build_fn sym_broadcast, sym_lane;
/* A better form of LANES `u`, which has any number of sources and so no
 * pattern; or NULL. */
const struct uop *sym_lanes(struct uop_graph *g, const struct uop *u);
/* An op on BROADCASTs only, done once on the scalars; or NULL. */
const struct uop *sym_spread(struct uop_graph *g, enum uop_op op,
                             enum uop_dtype dtype, uint16_t lanes,
                             union uop_arg arg, const struct uop *const *src,
                             uint32_t n_src);

#endif
