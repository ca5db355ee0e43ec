/* Plans for any size: those of symbols, and those of a structure that comes
 * again with other sizes.
 *
 * When a structure comes for the second time, sums no floats, and all sizes
 * and offsets that differ from the first time are a * n + b of one size n, they
 * become expressions of n, a symbol of a table of the plan's own (uops/dim.h).
 * It gets the plan that it would have if the program had said so. Results are
 * those of constants to the bit: graphs that sum floats, in an order that is
 * that of a kernel's sizes, have a plan for each size.
 */
#ifndef BELL_TENSOR_RUNTIME_SIZES_H
#define BELL_TENSOR_RUNTIME_SIZES_H

#include <stdbool.h>

#include "base/status.h"

struct dim_table;
struct rt_plan;
struct tensor_runtime;

/* Is a plan for any size of the structure that is looked up one for its
 * values? */
bool rt_sizes_fit(const struct tensor_runtime *rt, const struct rt_plan *plan);
/* Makes the plan of plan->sink and the values looked up one for any size:
 * plan->symbols is 0 where nothing comes of it. */
BELL_MUST_CHECK bell_status rt_sizes_make(struct tensor_runtime *rt,
                                          struct rt_plan *plan);

/* Prepares the plan for sizes of the table. */
BELL_MUST_CHECK bell_status rt_sizes_count(struct rt_plan *plan,
                                           struct dim_table *table);
/* Takes the symbols' values from those looked up, which become the plan's: its
 * buffers get their sizes. */
BELL_MUST_CHECK bell_status rt_sizes_take(struct tensor_runtime *rt,
                                          struct rt_plan *plan);
/* They become what they can be at most. */
BELL_MUST_CHECK bell_status rt_sizes_place_most(struct rt_plan *plan);

#endif
