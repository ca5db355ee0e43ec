/* Putting keys in order in one kernel:
 *
 *   out[.., i, ..] = ORDER(x of j, the range j, the range i)
 *
 * which is how an EXCHANGE of more keys than a thread has registers for is
 * written as a kernel. A work-group has one row of keys in LOCAL memory, or
 * several short ones.
 */
#ifndef BELL_LOWER_SCAN_ORDER_H
#define BELL_LOWER_SCAN_ORDER_H

#include "lower/kernel/kernel.h"

/* A kernel that is that. */
struct order {
    const struct uop *store;
    const struct uop *value; /* x, a function of j and the other ranges */
    uint32_t at, from;       /* numbers of the ranges i and j */
    bool bitonic;            /* as of EXCHANGE */
};

/* Is it? The kernel as scheduled, also where the number of rows varies. */
bool order_find(const struct kernel *k, struct order *out);

/* In place of expand_kernel. */
BELL_MUST_CHECK bell_status expand_order(struct kernel *k,
                                         const struct order *o,
                                         const struct uop **out_sink,
                                         struct lower_program *program);

#endif
