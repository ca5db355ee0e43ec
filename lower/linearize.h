/* From a program's graph to a list in an order that can be run. */
#ifndef BELL_LOWER_LINEARIZE_H
#define BELL_LOWER_LINEARIZE_H

#include "uops/uop.h"

#define LINEARIZE_MAX_LOOPS 64

/* Orders the nodes under `sink` (stage P; the SINK itself is left out): loops
 * nest, and every node stands in the outermost loop that its sources allow,
 * so that what does not vary is computed once, behind loops that do without it;
 * what is stored behind a loop is made a few STOREs at a time. *out_ops is in
 * g's arena.
 *
 * The one source of `sink` may be an ENDIF of a SINK, to say that all of the
 * program is done where a condition holds that no loop is needed for: that is
 * computed first. */
BELL_MUST_CHECK bell_status linearize(struct uop_graph *g,
                                      const struct uop *sink,
                                      const struct uop ***out_ops,
                                      uint32_t *out_n_ops);

#endif
