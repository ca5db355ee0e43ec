/* Kernel optimisation: a small language for splitting ranges, and the rules
 * that choose in it.
 *
 * A plan holds a tree of axes for every range of a kernel. A leaf becomes a
 * RANGE of its type; a split axis counts outer * factor + inner. Where the size
 * is not a multiple of the factor, the last tile of an output range moves back
 * and overlaps the one before (the values are the same); a reduction range is
 * to be peeled first (kernel_peel). On a GPU, and for a range that is open, the
 * last tile passes the end instead, and what lies there is gated away (struct
 * kernel_remap).
 *
 * Axes can also be folded: they become the digits of one axis that counts all
 * their combinations, which then is split like any other.
 */
#ifndef BELL_LOWER_OPT_OPT_H
#define BELL_LOWER_OPT_OPT_H

#include "lower/kernel/kernel.h"

#define OPT_MAX_AXES 192

/* One piece of a range. */
struct opt_axis {
    int64_t size;
    enum uop_axis type;
    uint32_t range;       /* of the kernel, whose piece it is */
    int32_t outer, inner; /* the parts, once split; else -1 */
    int32_t rank;         /* leaves with a smaller rank are further outside */
    int32_t flat;         /* the axis that it is a digit of; else -1 */
    int64_t below;        /* values of the digits that count faster */
    uint8_t shift;        /* LOCAL and GROUP: first bit of the thread number */
    bool staged;          /* of a tile in LOCAL memory (struct kernel) */
    bool packed;          /* likewise, on a CPU */
};

/* Leaves that a matrix instruction counts: as struct kernel_matrix. */
struct opt_matrix {
    bool on, wgmma, deep;
    struct uop_wmma shape;
    enum uop_dtype dtype;
    uint32_t half, row, col, pair, step; /* axes: struct kernel_matrix */
};

struct opt_plan {
    struct kernel *k;
    uint64_t open;    /* ranges that are: kernel_open */
    bool may_overlap; /* a value may be stored twice */
    bool pads;        /* tiles may pass the end, gated */
    bool zeros;       /* reductions' gates go to LOADs (struct kernel_remap) */
    struct opt_matrix matrix;
    uint32_t n_axes;
    struct opt_axis axes[OPT_MAX_AXES]; /* first those of whole ranges */
};

enum opt_side {
    OPT_INNER, /* the new piece counts fast: factor consecutive values */
    OPT_OUTER, /* the new piece counts slowly: factor consecutive tiles */
};

/* The plan in which every range is one axis of the type that it has. */
void opt_plan_init(struct opt_plan *plan, struct kernel *k);

/* On which side of an axis its work-groups count. An open range may have few
 * elements: each group has some of them all the same. */
static inline enum opt_side
opt_side_of_groups(const struct opt_plan *plan, uint32_t axis)
{
    return plan->open >> plan->axes[axis].range & 1 ? OPT_INNER : OPT_OUTER;
}

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

/* Gives the whole leaf of an output range the type LOCAL, one of a reduction
 * GROUP: it counts with the bits of the thread number from `shift` on. Its
 * size is a power of two. False where it does not fit. Axes may share bits,
 * unless a REDUCE over one of them depends on or runs over another. */
bool opt_thread(struct opt_plan *plan, uint32_t axis, uint32_t shift);

/* Makes n leaves, the slowest first, digits of one new leaf, *out_flat: all
 * of output ranges or all of ranges of one reduction, of constant size. One
 * leaf alone stays itself. False where it does not fit. */
bool opt_fold(struct opt_plan *plan, const uint32_t *axes, uint32_t n,
              uint32_t *out_flat);

/* Is the axis neither split nor folded? */
static inline bool
opt_is_leaf(const struct opt_plan *plan, uint32_t axis)
{
    return plan->axes[axis].outer < 0 && plan->axes[axis].flat < 0;
}

/* Would every value vary with one VECTOR axis at most? */
bool opt_vectors_fit(const struct opt_plan *plan);

/* Number of nodes after expansion, about. */
double opt_expanded_nodes(const struct opt_plan *plan);

/* Makes the kernel what the plan says. The plan is used up. */
BELL_MUST_CHECK bell_status opt_apply(struct opt_plan *plan);
/* Chooses and applies optimisations for k->target from an analytic model
 * (lower/opt/opt_rules.c). Canonical in, canonical out. BELL_DEBUG=opt prints
 * choices and reasons. */
BELL_MUST_CHECK bell_status opt_rules(struct kernel *k);

/* The same for a GPU (lower/opt/opt_gpu.c). */
BELL_MUST_CHECK bell_status opt_gpu_rules(struct kernel *k);

/* BELL_DEBUG=opt: what becomes of each range. */
void opt_log_plan(const struct opt_plan *plan);

#endif
