/* The caches of a simulated AMD die, which really hold old bytes: a scalar
 * cache, a vector cache, behind it GL1 on gfx10 and later, and L2. What a
 * kernel has loaded stays as it was until an acquire invalidates the cache that
 * holds it; what it stores to memory that is not UC reaches that memory when a
 * release writes L2 back, or when a line has to make room.
 *
 * Loads fill scalar and vector cache also from UC memory, which only L2 leaves
 * alone. Stores drop the line of the vector caches, not that of the scalar one.
 * Atomics, and packets of the same queue and die, agree with L2.
 *
 * Harder than a card: every compute queue has its own set per die, L2 too. A
 * kernel that waits in one queue for a plain store of another one's kernel,
 * without fence instructions, waits for ever here. Softer: an instruction that
 * invalidates or writes back does it with everything, an access over the end
 * of a line is stored through, loads with bits of coherence pass by the vector
 * caches only and those of stores are not looked at, memory of all kinds but UC is the same, and what is dirty in
 * memory that is unmapped is dropped. Sizes are made up: the facts have none.
 *
 * Of one thread, the queue's, between sim_walk_enter and sim_walk_leave.
 * src: hw/amd/BRINGUP.md 3, 8, 9, 13; pm4.csv (ACQUIRE_MEM, RELEASE_MEM).
 */
#ifndef BELL_SIM_AMD_GPU_CACHE_H
#define BELL_SIM_AMD_GPU_CACHE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/status.h"
#include "sim/amd/wave.h"
#include "sim/space.h"

/* What an acquire or release does. */
enum amdgpu_cache_op {
    AMDGPU_CACHE_INV_SCALAR = 1u << 0,
    AMDGPU_CACHE_INV_VECTOR = 1u << 1,
    AMDGPU_CACHE_INV_GL1 = 1u << 2, /* gfx10 and later */
    AMDGPU_CACHE_INV_L2 = 1u << 3,  /* dirty bytes stay */
    AMDGPU_CACHE_WB_L2 = 1u << 4,
    AMDGPU_CACHE_ALL = 0x1f
};

struct amdgpu_cache; /* of a queue on a die */

/* gfx: dialect of PM4. */
BELL_MUST_CHECK bell_status amdgpu_cache_create(uint32_t gfx,
                                                struct amdgpu_cache **out);
/* What is dirty is lost: AMDGPU_CACHE_WB_L2 comes first. */
void amdgpu_cache_destroy(struct amdgpu_cache *cache);

/* Where a kernel's access of n_bytes (1 to 64) at va goes, whose memory is at
 * `host`, in one page with these flags. For loads, until the next call. */
void *amdgpu_cache_at(struct amdgpu_cache *cache, struct sim_walk *walk,
                      uint64_t va, void *host, uint32_t n_bytes,
                      uint32_t page_flags, enum amd_access access);
/* Packets touch that memory: L2 writes back what it has of it, and forgets
 * it. */
void amdgpu_cache_yield(struct amdgpu_cache *cache, struct sim_walk *walk,
                        const void *host, uint64_t n_bytes);
void amdgpu_cache_do(struct amdgpu_cache *cache, struct sim_walk *walk,
                     uint32_t ops);

/* Operations of COHER_CNTL (gfx9) or GCR_CNTL in ACQUIRE_MEM, of the first
 * word of RELEASE_MEM, and of an AQL header's fences on a chip of so many
 * dies. */
uint32_t amdgpu_cache_acquire_ops(uint32_t gfx, uint32_t word);
uint32_t amdgpu_cache_release_ops(uint32_t gfx, uint32_t word);
uint32_t amdgpu_cache_aql_acquire(uint32_t header, uint32_t n_xcc);
uint32_t amdgpu_cache_aql_release(uint32_t header, uint32_t n_xcc);

#endif
