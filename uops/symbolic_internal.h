/* The builders of the symbolic rules, shared by the files symbolic*.c. Each
 * is a rw_build_fn: NULL where it has nothing better. */
#ifndef BELL_UOPS_SYMBOLIC_INTERNAL_H
#define BELL_UOPS_SYMBOLIC_INTERNAL_H

#include "uops/linear.h"
#include "uops/rewrite.h"
#include "uops/uops_internal.h"

/* A constant with the dtype and the lanes of `like`. */
static inline const struct uop *
sym_int_like(struct uop_graph *g, const struct uop *like, int64_t value)
{
    return uop_make_int(g, like->dtype, like->lanes, value);
}

/* symbolic_sum.c */
rw_build_fn sym_sum, sym_scale, sym_const_out;
/* symbolic_div.c */
rw_build_fn sym_floordiv, sym_floormod;
/* symbolic_cmp.c */
rw_build_fn sym_less, sym_equal, sym_not_less;
/* A bool constant with the lanes of `like`. */
const struct uop *sym_bool(struct uop_graph *g, const struct uop *like,
                           bool value);
/* a - b as exact integers and its bounds; false where that might wrap. */
bool sym_difference(const struct uop_graph *g, const struct uop *a,
                    const struct uop *b, struct lin *out,
                    struct uop_bounds *out_b);

/* symbolic_gate.c */
rw_build_fn sym_gates;

/* Bounds that hold where some condition does. */
#define SYM_MAX_BOUNDS 16
struct sym_bounds {
    uint32_t n;
    struct {
        const struct uop *x;
        struct uop_bounds b; /* empty where the condition never holds */
    } v[SYM_MAX_BOUNDS];
};
/* What the truth of `gate` says. */
void sym_gate_bounds(const struct uop_graph *g, const struct uop *gate,
                     struct sym_bounds *out);

/* symbolic_given.c */
/* True if sym_given may do something: a small expression with a division. */
bool sym_has_division(const struct uop *expr);
/* `expr`, simplified as if the bounds held everywhere; itself where that does
 * not make it cheaper. */
const struct uop *sym_given(struct uop_graph *g, const struct uop *expr,
                            const struct sym_bounds *known);
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
