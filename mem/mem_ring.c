/* The ring. Positions are running totals: offset = total modulo size. */
#include "mem/mem_ring.h"

#include <string.h>

#include "base/alloc.h"
#include "base/bits.h"

bell_status
mem_ring_init(struct mem_ring *ring, uint64_t size_bytes, uint32_t max_fences)
{
    memset(ring, 0, sizeof(*ring));
    if (!is_pow2(size_bytes) || !is_pow2(max_fences))
        return bell_fail(BELL_E_INVALID,
                         "a ring of %llu bytes with %u fences: not powers of "
                         "two",
                         (unsigned long long)size_bytes, max_fences);
    ring->fences = host_calloc(max_fences, sizeof(*ring->fences));
    if (!ring->fences)
        return bell_fail(BELL_E_NO_MEMORY, "out of memory for a ring");
    ring->size_bytes = size_bytes;
    ring->cap_fences = max_fences;
    return BELL_OK;
}

void
mem_ring_fini(struct mem_ring *ring)
{
    host_free(ring->fences);
}

void
mem_ring_retire(struct mem_ring *ring, uint64_t value)
{
    while (ring->n_fences && mem_ring_fence_at(ring, 0)->value <= value) {
        ring->tail = mem_ring_fence_at(ring, 0)->end;
        ring->first_fence = (ring->first_fence + 1) & (ring->cap_fences - 1);
        ring->n_fences--;
    }
}

uint64_t
mem_ring_wait_value(const struct mem_ring *ring, uint64_t size_bytes,
                    uint64_t align_bytes)
{
    uint64_t end = mem_ring_start(ring, size_bytes, align_bytes) + size_bytes;
    uint32_t i;

    if (size_bytes > ring->size_bytes)
        return 0;
    for (i = 0; i < ring->n_fences; i++) {
        const struct mem_ring_fence *fence = mem_ring_fence_at(ring, i);
        bool empties = fence->end == ring->head;
        if (empties || end - fence->end <= ring->size_bytes)
            return fence->value;
    }
    return 0;
}
