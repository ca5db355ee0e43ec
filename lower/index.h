/* From indices to addresses: the last pass over nodes (index.c). */
#ifndef BELL_LOWER_INDEX_H
#define BELL_LOWER_INDEX_H

#include "lower/lower.h"

/* Rebuilds a program, in place of its roots, with INDEXes, and with I32 indices
 * where the target wants them and they fit. Linear. */
BELL_MUST_CHECK bell_status lower_index(struct uop_graph *g,
                                        const struct uop **roots,
                                        size_t n_roots,
                                        const struct lower_target *target);

#endif
