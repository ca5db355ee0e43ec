/* Running sums in one kernel, and products, maxima and minima ("sums" below):
 *
 *   out[i] = sum over j of (i < j ? 0 : x of j)
 *
 * which is how a SCAN is written as a kernel: without this, each sum would be
 * of all elements. Here a work-group goes along the axis once, tile by tile,
 * with the sum of what is behind it.
 */
#ifndef BELL_LOWER_SCAN_SCAN_H
#define BELL_LOWER_SCAN_SCAN_H

#include "lower/kernel/kernel.h"

/* A kernel that is running sums. */
struct scan {
    const struct uop *store;
    const struct uop *sum;   /* the REDUCE; what is stored is that, or a CAST */
    const struct uop *value; /* x, a function of j and the other ranges */
    uint32_t at, from;       /* numbers of the ranges i and j */
    enum uop_op op;
    bool back; /* it is j < i ? 0: sums begin at the end */
};

/* Is it? The kernel as scheduled, also where sizes vary. */
bool scan_find(const struct kernel *k, struct scan *out);

/* In place of expand_kernel. */
BELL_MUST_CHECK bell_status expand_scan(struct kernel *k, const struct scan *s,
                                        const struct uop **out_sink,
                                        struct lower_program *program);

#endif
