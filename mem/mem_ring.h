/* Bump allocator that goes round: for data that lives until the device has
 * passed a fence (pushbuffer pieces, staging, arguments).
 *
 * Offsets only; the memory is somebody else's. Pieces are given back in the
 * order they were taken, by fence values that grow. No allocation after init.
 * One thread at a time.
 */
#ifndef BELL_MEM_MEM_RING_H
#define BELL_MEM_MEM_RING_H

#include <assert.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/bits.h"
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

/* Where a piece would start: aligned, and not over the end. */
static inline uint64_t
mem_ring_start(const struct mem_ring *ring, uint64_t size_bytes,
               uint64_t align_bytes)
{
    uint64_t start = align_up(ring->head, align_bytes);
    uint64_t offset = start & (ring->size_bytes - 1);

    if (offset + size_bytes > ring->size_bytes)
        start += ring->size_bytes - offset;
    return start;
}

/* size_bytes in one piece at a multiple of align_bytes (a power of two, at
 * most the ring's size); false when there is no room now. */
static inline bool
mem_ring_alloc(struct mem_ring *ring, uint64_t size_bytes, uint64_t align_bytes,
               uint64_t *out_offset)
{
    uint64_t start;

    assert(is_pow2(align_bytes) && align_bytes <= ring->size_bytes);
    if (size_bytes > ring->size_bytes)
        return false;
    start = mem_ring_start(ring, size_bytes, align_bytes);
    if (start + size_bytes - ring->tail > ring->size_bytes) {
        /* Nothing in use: begin at offset 0, whatever the remainder. */
        if (ring->tail != ring->head || ring->n_fences)
            return false;
        start = align_up(ring->head, ring->size_bytes);
        ring->tail = ring->fenced = start;
    }
    ring->head = start + size_bytes;
    *out_offset = start & (ring->size_bytes - 1);
    return true;
}

/* The i-th oldest fence. */
static inline struct mem_ring_fence *
mem_ring_fence_at(const struct mem_ring *ring, uint32_t i)
{
    return &ring->fences[(ring->first_fence + i) & (ring->cap_fences - 1)];
}

/* Chunks that were taken since the last fence are free once the device has come
 * to `value`, which is larger than all before. With too many fences outstanding
 * it joins the newest one. */
static inline void
mem_ring_fence(struct mem_ring *ring, uint64_t value)
{
    if (ring->head == ring->fenced)
        return;
    if (ring->n_fences < ring->cap_fences)
        ring->n_fences++;
    *mem_ring_fence_at(ring, ring->n_fences - 1) =
        (struct mem_ring_fence){value, ring->head};
    ring->fenced = ring->head;
}

/* The device has come to `value`. */
void mem_ring_retire(struct mem_ring *ring, uint64_t value);

/* The fence value to wait for so that size_bytes more may fit, or 0 when
 * waiting for what is outstanding cannot help. */
uint64_t mem_ring_wait_value(const struct mem_ring *ring, uint64_t size_bytes,
                             uint64_t align_bytes);

#endif
