/* Kernel optimisation: a small language for splitting ranges, and the rules
 * that choose in it.
 *
 * A plan holds a tree of axes for every range of a kernel. A leaf becomes a
 * RANGE of its type; a split axis counts outer * factor + inner. Where the
 * size is no multiple of the factor, the last tile of an output range moves
 * back and overlaps the one before (the values are the same); a reduction
 * range is to be peeled first (kernel_peel).
 */
#ifndef BELL_LOWER_OPT_H
#define BELL_LOWER_OPT_H

#include "lower/kernel.h"

#define OPT_MAX_AXES 192

/* One piece of a range. */
struct opt_axis {
    int64_t size;
    enum uop_axis type;
    uint32_t range;       /* of the kernel, whose piece it is */
    int32_t outer, inner; /* the parts, once split; else -1 */
    int32_t rank;         /* leaves with a smaller rank are further outside */
};

struct opt_plan {
    struct kernel *k;
    bool may_overlap; /* a value may be stored twice */
    uint32_t n_axes;
    struct opt_axis axes[OPT_MAX_AXES]; /* first those of whole ranges */
};

enum opt_side {
    OPT_INNER, /* the new piece counts fast: factor consecutive values */
    OPT_OUTER, /* the new piece counts slowly: factor consecutive tiles */
};

/* The plan in which every range is one axis of the type that it has. */
void opt_plan_init(struct opt_plan *plan, struct kernel *k);

/* Splits the leaf `axis`: a new piece of `factor` values and type `type` on
 * one side, the rest, of the old type, on the other. Refused (false, nothing
 * changed) where the language cannot say it: a size that is not constant, a
 * factor that does not divide a reduction, a type that does not fit the
 * range. *out_new and *out_rest (may be NULL) are the numbers of the parts. */
bool opt_split(struct opt_plan *plan, uint32_t axis, int64_t factor,
               enum uop_axis type, enum opt_side side, uint32_t *out_new,
               uint32_t *out_rest);

/* Gives the whole leaf a type. False where it does not fit. */
bool opt_retype(struct opt_plan *plan, uint32_t axis, enum uop_axis type);

/* Would every value vary with one VECTOR axis at most? */
bool opt_vectors_fit(const struct opt_plan *plan);

/* Number of nodes after expansion, about. */
double opt_expanded_nodes(const struct opt_plan *plan);

/* Makes the kernel what the plan says. The plan is used up. */
BELL_MUST_CHECK bell_status opt_apply(struct opt_plan *plan);
/* Chooses and applies optimisations for k->target from an analytic model
 * (lower/opt_rules.c). Canonical in, canonical out. BELL_DEBUG=opt prints
 * choices and reasons. */
BELL_MUST_CHECK bell_status opt_rules(struct kernel *k);

#endif
