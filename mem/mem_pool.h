/* Device memory in large backing objects, given out in pieces.
 *
 * A buffer is two things with two owners, and this file keeps them apart:
 * - the *address range* on the device, from a mem_va that the pool borrows;
 * - the *backing*, a memory object of the kernel driver, owned by the pool.
 * The driver says how each is made (struct mem_pool_ops). Small requests
 * share a backing (a chunk); one of half a chunk or more gets its own. One
 * empty chunk is kept. One thread at a time.
 */
#ifndef BELL_MEM_MEM_POOL_H
#define BELL_MEM_MEM_POOL_H

#include <stdbool.h>
#include <stdint.h>

#include "base/status.h"
#include "mem/mem_va.h"

struct mem_pool; /* owned by who made it */

/* A memory object of the kernel driver. */
struct mem_backing {
    uint64_t handle; /* the driver's name for it */
    uint64_t size_bytes;
};

/* Each pair undoes the other; undoing does not fail. `user` is the driver's.
 * map_va puts a whole backing at va. */
struct mem_pool_ops {
    bell_status (*create)(void *user, uint64_t size_bytes,
                          struct mem_backing *out_backing);
    void (*destroy)(void *user, const struct mem_backing *backing);
    bell_status (*map_va)(void *user, const struct mem_backing *backing,
                          uint64_t va);
    void (*unmap_va)(void *user, const struct mem_backing *backing,
                     uint64_t va);
};

/* A piece that is out. Plain data; goes back with mem_pool_free. */
struct mem_piece {
    uint64_t va, size_bytes;
    uint64_t offset_bytes;      /* in the backing */
    struct mem_backing backing; /* copy of the chunk's */
    uint32_t chunk;             /* the pool's own */
    struct mem_range range;     /* within the chunk */
};

struct mem_pool_desc {
    uint64_t chunk_bytes;   /* a power of two */
    uint64_t align_bytes;   /* of backings in the address space; power of two */
    uint64_t granule_bytes; /* smallest piece; a power of two */
    struct mem_va *va;      /* borrowed; outlives the pool */
    const struct mem_pool_ops *ops;
    void *user;
};

BELL_MUST_CHECK bell_status mem_pool_create(const struct mem_pool_desc *desc,
                                            struct mem_pool **out_pool);
/* Gives back every backing; pieces that are out become invalid. The result
 * is how many those were. NULL is allowed. */
uint32_t mem_pool_destroy(struct mem_pool *pool);

/* align_bytes is a power of two, or 0 for the granule. */
BELL_MUST_CHECK bell_status mem_pool_alloc(struct mem_pool *pool,
                                           uint64_t size_bytes,
                                           uint64_t align_bytes,
                                           struct mem_piece *out_piece);
void mem_pool_free(struct mem_pool *pool, const struct mem_piece *piece);

/* Backings held, and pieces out. */
uint32_t mem_pool_backings(const struct mem_pool *pool);
uint32_t mem_pool_pieces(const struct mem_pool *pool);

#endif
