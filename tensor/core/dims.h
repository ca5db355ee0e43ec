/* Sizes of a context that are expressions of symbols, as words among numbers
 * (uops/dim.h), and the public calls on them.
 *
 * Functions take tensors with such axes where they say so (tensor_takes); the
 * others compute with sizes as numbers, and refuse.
 */
#ifndef BELL_TENSOR_CORE_DIMS_H
#define BELL_TENSOR_CORE_DIMS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "doorbell/dim.h"
#include "uops/dim.h"

/* Is one of them an expression? */
bool dims_in(const int64_t *d, uint32_t n);
/* A number, or an expression of the table? */
bool dims_known(const struct dim_table *t, int64_t d);
/* Are begin and length at least 0, a length that varies at least 1, and
 * begin + length at most size, for all values? */
bool dims_is_slice(struct dim_table *t, int64_t begin, int64_t length,
                   int64_t size);
/* The product of what the sizes are now. */
uint64_t dims_numel(const struct dim_table *t, const int64_t *d, uint32_t n);
/* The product of the most that they can be; -1: more than TN_MAX_NUMEL. */
int64_t dims_most(const struct dim_table *t, const int64_t *d, uint32_t n);
/* Are there as many elements, for all values? */
bool dims_same_numel(struct dim_table *t, const int64_t *a, uint32_t n_a,
                     const int64_t *b, uint32_t n_b);
/* What `from` elements make with the sizes d[0..n-1], of which that of -1 is
 * left out; -1: nothing. */
int64_t dims_quotient(struct dim_table *t, const int64_t *from, uint32_t n_from,
                      const int64_t *d, uint32_t n);

#endif
