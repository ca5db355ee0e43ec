/* Places for values in one piece of memory: those that are not alive at once
 * share it.
 */
#ifndef BELL_TENSOR_RUNTIME_PLACE_H
#define BELL_TENSOR_RUNTIME_PLACE_H

#include <stdint.h>

#include "base/status.h"

/* A value, alive from item `first` to item `last` of a list. */
struct rt_span {
    uint32_t first, last;
    uint64_t size_bytes; /* not 0 */
    uint64_t offset;     /* its place */
};

/* Gives each of n values an offset, none overlapping another's that is alive
 * with it; *out_bytes is the end of them all. It takes the best of several
 * ways, near-linear in n. Offsets are sums of sizes. */
BELL_MUST_CHECK bell_status rt_place_spans(struct rt_span *spans, uint32_t n,
                                           uint32_t n_items,
                                           uint64_t *out_bytes);

/* Adds bytes to those that are alive in items first..last, of alive[], which
 * has one item more than the list; and makes them absolute, and gives the most
 * that are alive at once. */
void rt_span_add(uint64_t *alive, uint32_t first, uint32_t last,
                 uint64_t n_bytes);
uint64_t rt_span_sum(uint64_t *alive, uint32_t n);

#endif
