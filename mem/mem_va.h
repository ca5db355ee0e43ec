/* Allocator of address ranges: GPU virtual addresses, or offsets in a large
 * object. It never touches the memory that it gives out.
 *
 * Two-level segregated fit: free ranges are in lists by size class (the
 * power of two, and 1/32 of it), found through bitmaps, so taking and giving
 * back cost about the same at any number of ranges. Neighbouring free ranges
 * merge at once. src: M. Masmano et al., "TLSF", ECRTS 2004.
 *
 * One thread at a time. Sizes and addresses are multiples of the granule.
 */
#ifndef BELL_MEM_MEM_VA_H
#define BELL_MEM_MEM_VA_H

#include <stdbool.h>
#include <stdint.h>

#include "base/status.h"

struct mem_va; /* owned by who made it */

/* A range that was given out. Plain data; goes back with mem_va_free. */
struct mem_range {
    uint64_t addr, size_bytes;
    uint32_t block; /* the allocator's own */
};

struct mem_va_stats {
    uint64_t total_bytes, free_bytes, largest_free_bytes;
    uint32_t n_used, n_free; /* ranges */
};

/* Manages [base, base + size_bytes); base and size are multiples of
 * granule_bytes, a power of two, and base + size does not wrap. */
BELL_MUST_CHECK bell_status mem_va_create(uint64_t base, uint64_t size_bytes,
                                          uint64_t granule_bytes,
                                          struct mem_va **out_va);
/* Ranges that are still out are forgotten. NULL is allowed. */
void mem_va_destroy(struct mem_va *va);

/* A range of at least size_bytes (rounded up to granules, not 0) at a
 * multiple of align_bytes (a power of two; 0 means one granule).
 * BELL_E_NO_MEMORY when there is none, or no host memory. */
BELL_MUST_CHECK bell_status mem_va_alloc(struct mem_va *va, uint64_t size_bytes,
                                         uint64_t align_bytes,
                                         struct mem_range *out_range);

/* Exactly [addr, addr + size_bytes): to reserve windows. BELL_E_INVALID when
 * any of it is out or beyond. Costs a walk over all ranges. */
BELL_MUST_CHECK bell_status mem_va_alloc_at(struct mem_va *va, uint64_t addr,
                                            uint64_t size_bytes,
                                            struct mem_range *out_range);

void mem_va_free(struct mem_va *va, const struct mem_range *range);

/* largest_free_bytes costs a walk over the largest class. */
void mem_va_stats(const struct mem_va *va, struct mem_va_stats *out_stats);

/* Walks everything and checks every invariant: in debug builds at the end. */
bool mem_va_check(const struct mem_va *va);

#endif
