/* Shared by the files of uops/ only. */
#ifndef BELL_UOPS_UOPS_INTERNAL_H
#define BELL_UOPS_UOPS_INTERNAL_H

#include "uops/uop.h"

/* Bounds of a node from those of its sources (uops/bounds.c). Called by
 * uop_new before the node is in the side arrays; floats give the full
 * range. */
struct uop_bounds uop_compute_bounds(const struct uop_graph *g,
                                     const struct uop *u);

#endif
