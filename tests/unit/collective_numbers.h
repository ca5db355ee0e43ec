/* Inputs of collectives, and their sums by plain loops.
 *
 * Made once for a dtype, for memory of 64 MiB too: so loops are of the kind
 * that compilers turn into vector instructions.
 */
#ifndef BELL_TESTS_UNIT_COLLECTIVE_NUMBERS_H
#define BELL_TESTS_UNIT_COLLECTIVE_NUMBERS_H

#include "hcq/hcq_collective.h"

uint64_t numbers_random(uint64_t *state);

/* Elements from the begin of the memory on: floats of both signs, from 2^-6 to
 * 2^6, any words of integers. `whole`: floats are whole, and so small that sums
 * in any order are the same. Bytes behind the last element are 0. */
void numbers_fill(enum hcq_dtype dtype, bool whole, uint8_t *to,
                  uint64_t n_bytes, uint64_t *state);

/* Element by element the sum of n terms, in their order; float16 and bfloat16
 * in float32, rounded once; booleans: whether any is set. */
void numbers_sum(enum hcq_dtype dtype, uint8_t *const *terms, uint32_t n,
                 uint64_t n_bytes, uint8_t *to);

#endif
