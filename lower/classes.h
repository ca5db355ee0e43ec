/* Size classes of a kernel whose loops end at arguments.
 *
 * Lowering chooses tiles and work-groups for the most that an argument can be.
 * A kernel for smaller sizes is the same kernel with smaller bounds: its class
 * is how often the bound is divided before the size no longer fits. So it
 * depends on the sizes alone, and with it the order of sums.
 */
#ifndef BELL_LOWER_CLASSES_H
#define BELL_LOWER_CLASSES_H

#include "uops/uop.h"

#define LOWER_CLASS_VARS 4  /* arguments that have classes */
#define LOWER_CLASSES    64 /* of a kernel at most */

struct lower_classes {
    uint32_t n_vars;
    uint32_t slots[LOWER_CLASS_VARS];
    uint32_t n[LOWER_CLASS_VARS];   /* classes of each argument */
    int64_t most[LOWER_CLASS_VARS]; /* its bound */
    const struct uop *vars[LOWER_CLASS_VARS];
    uint32_t count; /* classes of all: the product of theirs, or 1 */
};

/* The arguments that bound loops of the kernel under `sink`, a node of `g`. One
 * class where nothing is reduced, as no tiles are chosen. */
BELL_MUST_CHECK bell_status lower_classes_find(const struct uop_graph *g,
                                               const struct uop *sink,
                                               struct lower_classes *out);

/* The class of a launch with these words by slot, below c->count; 0 is that of
 * the bounds. */
uint32_t lower_class_of(const struct lower_classes *c, const uint64_t *words);

/* The kernel for sizes of class `number`, in `g`. */
BELL_MUST_CHECK bell_status lower_class_sink(struct uop_graph *g,
                                             const struct uop *sink,
                                             const struct lower_classes *c,
                                             uint32_t number,
                                             const struct uop **out_sink);

#endif
