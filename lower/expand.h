/* From a kernel whose ranges have axis types to a program's graph: one SINK
 * over loops, register variables and vectors (stage P, not yet in order).
 *
 *   LOOP, REDUCE    loops
 *   GLOBAL          a coordinate of the grid, innermost range fastest
 *   UPCAST, UNROLL  copies in registers. On a reduction range, UNROLL copies
 *                   go into one accumulator in order, UPCAST copies each have
 *                   one of their own
 *   VECTOR          lanes; on a reduction range, of the accumulator
 *
 * A value may vary with one VECTOR range at most.
 */
#ifndef BELL_LOWER_EXPAND_H
#define BELL_LOWER_EXPAND_H

#include "lower/kernel.h"

/* `k` is canonical. grid[] gets the extents, 1 where unused. */
BELL_MUST_CHECK bell_status expand_kernel(struct kernel *k,
                                          const struct uop **out_sink,
                                          uint32_t grid[3]);

#endif
