/* The caches of a simulated AMD die, which really hold old bytes. Each of four
 * compute units has a vector cache; each pair of them a scalar cache and, on
 * gfx10 and later, GL1; all share L2, behind which is memory. Bytes that a
 * kernel has loaded stay as they were until an acquire invalidates the cache
 * that holds them; its stores to memory that is not UC reach that memory when a
 * release writes L2 back, or when a line has to make room.
 *
 * Loads fill the vector or the scalar cache of their unit also from UC memory,
 * which only L2 leaves alone. Stores go to L2 and drop the line from the
 * storing unit's vector cache and its pair's GL1; other units, and the scalar
 * caches, keep what they have.
 *
 * Coherent loads pass by the vector caches, or past L2 too; coherent stores go
 * past L2 (AMD_ACCESS_*). Atomics work on memory, packets of the same queue and
 * die agree with L2. An instruction's fence is for its own unit and pair, and
 * L2; a packet's for all units.
 *
 * Harder than a card: every compute queue has its own set per die, L2 too. A
 * kernel that waits in one queue for a plain store of another one's kernel,
 * without fence instructions, waits for ever here. SDMA reads and writes memory
 * behind the caches, and its GCR packet does not reach them.
 *
 * Softer: groups run one after the other, an access over the end of a line is
 * stored through, memory of all kinds but UC is the same, what is dirty in
 * memory that is unmapped is dropped, an acquire or release of gfx9 that is
 * restricted to some kinds of lines (NC, WC, volatile) is for all of them
 * (later chips' restrictions are refused), scalar loads have no bits of
 * coherence, and s_icache_inv does nothing. Sizes and numbers are made up: no
 * source has them.
 *
 * One thread, the queue's, uses it between sim_walk_enter and sim_walk_leave.
 * src: docs/hardware/amd-queues.md, "Caches", "Several dies";
 * docs/hardware/amd-kernel.md, "Memory", "HDP", "Simulated rules". What units
 * share: LLVM 19, "User Guide for AMDGPU Backend", memory model. Not run on
 * hardware.
 */
#ifndef BELL_SIM_AMD_GPU_GPU_CACHE_H
#define BELL_SIM_AMD_GPU_GPU_CACHE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/status.h"
#include "sim/amd/isa/isa.h"
#include "sim/amd/isa/wave.h"
#include "sim/space.h"

#define AMDSIM_CACHE_CUS 4

/* What an acquire or release does: the same bits as enum isa_cache. */
enum amdsim_cache_op {
    AMDSIM_CACHE_INV_SCALAR = ISA_CACHE_INV_SCALAR,
    AMDSIM_CACHE_INV_VECTOR = ISA_CACHE_INV_VECTOR,
    AMDSIM_CACHE_INV_GL1 = ISA_CACHE_INV_GL1, /* gfx10 and later */
    AMDSIM_CACHE_INV_L2 = ISA_CACHE_INV_L2,   /* dirty bytes stay */
    AMDSIM_CACHE_WB_L2 = ISA_CACHE_WB_L2
};

struct amdsim_cache; /* of a queue on a die */

/* gfx: dialect of PM4. */
BELL_MUST_CHECK bell_status amdsim_cache_create(uint32_t gfx,
                                                struct amdsim_cache **out);
/* Dirty bytes are lost: AMDSIM_CACHE_WB_L2 comes first. */
void amdsim_cache_destroy(struct amdsim_cache *cache);

/* Accesses that follow are of this compute unit, less than AMDSIM_CACHE_CUS. */
void amdsim_cache_turn(struct amdsim_cache *cache, uint32_t cu);
/* Where a kernel's access of n_bytes (1 to 64) at va goes, whose memory is at
 * `host`, in one page with these flags. For loads, until the next call. */
void *amdsim_cache_at(struct amdsim_cache *cache, struct sim_walk *walk,
                      uint64_t va, void *host, uint32_t n_bytes,
                      uint32_t page_flags, enum amd_access access);
/* Packets touch that memory: L2 writes back what it has of it, and forgets
 * it. */
void amdsim_cache_yield(struct amdsim_cache *cache, struct sim_walk *walk,
                        const void *host, uint64_t n_bytes);
/* What a packet asks for, on all units; what an instruction asks for, on the
 * one whose turn it is. */
void amdsim_cache_do(struct amdsim_cache *cache, struct sim_walk *walk,
                     uint32_t ops);
void amdsim_cache_do_own(struct amdsim_cache *cache, struct sim_walk *walk,
                         uint32_t ops);

/* Operations of COHER_CNTL (gfx9) or GCR_CNTL in ACQUIRE_MEM, of the first
 * word of RELEASE_MEM, and of an AQL header's fences on a chip of so many
 * dies. */
uint32_t amdsim_cache_acquire_ops(uint32_t gfx, uint32_t word);
uint32_t amdsim_cache_release_ops(uint32_t gfx, uint32_t word);
uint32_t amdsim_cache_aql_acquire(uint32_t header, uint32_t n_xcc);
uint32_t amdsim_cache_aql_release(uint32_t header, uint32_t n_xcc);

#endif
