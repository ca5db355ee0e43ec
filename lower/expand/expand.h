/* From a kernel whose ranges have axis types to a program's graph: one SINK
 * over loops, register variables and vectors (stage P, not yet in order).
 *
 *   LOOP, REDUCE    loops
 *   GLOBAL          a coordinate of the grid, innermost range fastest
 *   LOCAL           some bits of the thread's number in its work-group
 *   GROUP           the same, for a reduction range: the threads' partial
 *                   results are joined in LOCAL memory, and each has the sum
 *   UPCAST, UNROLL  copies in registers. On a reduction range, UNROLL copies
 *                   go into one accumulator in order, UPCAST copies each have
 *                   one of their own
 *   VECTOR          lanes; on a reduction range, of the accumulator
 *
 * A value may vary with one VECTOR range at most. A STORE is done by one of
 * the threads and work-groups that have its value.
 */
#ifndef BELL_LOWER_EXPAND_EXPAND_H
#define BELL_LOWER_EXPAND_EXPAND_H

#include "lower/kernel/kernel.h"

/* `k` is canonical. Fills the program's grid, local and shared_bytes. */
BELL_MUST_CHECK bell_status expand_kernel(struct kernel *k,
                                          const struct uop **out_sink,
                                          struct lower_program *program);

#endif
