/* Conditional code for what is rarely needed. */
#ifndef BELL_LOWER_BRANCH_H
#define BELL_LOWER_BRANCH_H

#include "uops/uop.h"

/* Puts what only WHEREs with one condition take, where it holds, between an IF
 * and its ENDIF, if that is much: it is then computed only where the condition
 * holds (of a vector: in some lane). The results are the same. `ops` are a
 * program in order, as linearize makes it; so are *out_ops, in g's arena. */
BELL_MUST_CHECK bell_status lower_branch(struct uop_graph *g,
                                         const struct uop *const *ops,
                                         uint32_t n_ops,
                                         const struct uop ***out_ops,
                                         uint32_t *out_n_ops);

#endif
