/* What of a small graph is the number of rows that it takes of its tensors.
 *
 * What takes few rows, the first ones, is likely to take more each time, or
 * others (rt_vary_guess). Which sizes then follow, one graph says: those of the
 * axes that are the rows, on their way through what keeps axes as they are.
 * Where rows are put together with others or become part of another axis,
 * nothing is guessed.
 */
#ifndef BELL_TENSOR_RUNTIME_ROWS_H
#define BELL_TENSOR_RUNTIME_ROWS_H

#include "base/status.h"
#include "tensor/runtime/sizes.h"

struct rt_plan;
struct tensor_runtime;

/* Fills in places[], by size of the form of the plan's graph, and offsets[]:
 * which of its values are where the rows begin that *out_rows are taken of.
 * *out_n_offsets is 0 where nothing is guessed. */
BELL_MUST_CHECK bell_status rt_rows_find(const struct tensor_runtime *rt,
                                         const struct rt_plan *plan,
                                         struct rt_extent *places,
                                         uint32_t offsets[RT_MAX_OFFSETS],
                                         uint32_t *out_n_offsets,
                                         int64_t *out_rows);

#endif
