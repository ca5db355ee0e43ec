/* Outputs of kernels in the memory of what they read.
 *
 * A kernel does so by one slot that it loads from and stores to; two slots at
 * one address it never has: other passes and renderers take slots for memory
 * that does not overlap.
 */
#ifndef BELL_LOWER_SCHEDULE_OVERWRITE_H
#define BELL_LOWER_SCHEDULE_OVERWRITE_H

#include "lower/schedule/schedule.h"

/* May output slot `out` of the kernel under `sink`, or of the kernels of one
 * launch, lie in the memory of its input slot `in`, if nothing behind it reads
 * what was there? True promises that
 *   - all LOADs from `in`, in one kernel, are at the index of the one STORE to
 *     `out`, which names each element once, and of its dtype: an element is
 *     read only by what computes its own new value;
 *   - the kernel has no REDUCE: no work is shared, and no bit changes;
 *   - the value stored is made of what is loaded, so that the LOAD comes first
 *     in whatever lowering makes of it;
 *   - no other kernel of the launch touches either slot.
 * It says nothing of sizes: `in` must have all elements that `out` has. */
BELL_MUST_CHECK bell_status sched_may_overwrite(const struct uop_graph *k,
                                                const struct uop *sink,
                                                uint32_t out, uint32_t in,
                                                bool *out_may);

/* Where that is so: makes of the item one whose slot `out` is loaded from
 * instead of `in`. Slots behind `in` move down by one, bufs[] with them; the
 * memory of bufs[out] is to hold the old values before the launch, and has the
 * new ones after it. It is another kernel, to be compiled anew. */
BELL_MUST_CHECK bell_status sched_overwrite(struct uop_graph *k,
                                            struct sched_item *item,
                                            uint32_t out, uint32_t in);

#endif
