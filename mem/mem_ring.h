/* Bump allocator that goes round: for data that lives until the device has
 * passed a fence (pushbuffer pieces, staging, arguments).
 *
 * Offsets only; the memory is somebody else's. Pieces are given back in the
 * order they were taken, by fence values that grow. No allocation after init.
 * One thread at a time.
 */
#ifndef BELL_MEM_MEM_RING_H
#define BELL_MEM_MEM_RING_H

#include <stdbool.h>
#include <stdint.h>

#include "base/status.h"

/* Up to `end` is free once the fence has come to `value`. */
struct mem_ring_fence {
    uint64_t value, end;
};

struct mem_ring {
    uint64_t size_bytes;
    uint64_t head, tail; /* running totals; what is between them is in use */
    uint64_t fenced;     /* head when the last fence was put */
    struct mem_ring_fence *fences; /* owned: a power of two of them */
    uint32_t n_fences, first_fence, cap_fences;
};

/* A ring of size_bytes (a power of two) with up to max_fences (a power of
 * two) outstanding. */
BELL_MUST_CHECK bell_status mem_ring_init(struct mem_ring *ring,
                                          uint64_t size_bytes,
                                          uint32_t max_fences);
void mem_ring_fini(struct mem_ring *ring);

/* size_bytes in one piece at a multiple of align_bytes (a power of two, at
 * most the ring's size); false when there is no room now. */
bool mem_ring_alloc(struct mem_ring *ring, uint64_t size_bytes,
                    uint64_t align_bytes, uint64_t *out_offset);

/* What was taken since the last fence is free once the device has come to
 * `value`, which is larger than all before. With too many fences outstanding
 * it joins the newest one. */
void mem_ring_fence(struct mem_ring *ring, uint64_t value);

/* The device has come to `value`. */
void mem_ring_retire(struct mem_ring *ring, uint64_t value);

/* The fence value to wait for so that size_bytes more may fit, or 0 when
 * waiting for what is outstanding cannot help. */
uint64_t mem_ring_wait_value(const struct mem_ring *ring, uint64_t size_bytes,
                             uint64_t align_bytes);

#endif
