/* Objects of one size in larger pieces: signals, notifiers, small tables.
 *
 * Gives out (piece, index) pairs; the pieces are the caller's. A bitmap per
 * piece says which objects are out, and pieces with room are in a list, so
 * taking and giving back are constant time. One thread at a time.
 */
#ifndef BELL_MEM_MEM_SLAB_H
#define BELL_MEM_MEM_SLAB_H

#include <stdbool.h>
#include <stdint.h>

#include "base/status.h"

struct mem_slab; /* owned by who made it */

/* An object that is out. */
struct mem_slot {
    void *piece; /* as the caller's `grow` gave it */
    uint64_t offset_bytes;
    uint32_t page, index; /* the slab's own */
};

/* Makes a piece of piece_bytes, and destroys one. */
struct mem_slab_ops {
    bell_status (*grow)(void *user, uint64_t piece_bytes, void **out_piece);
    void (*shrink)(void *user, void *piece);
};

/* object_bytes is a multiple of the alignment that is wanted; a piece holds
 * at least one object. One empty piece is kept, further ones go back. */
BELL_MUST_CHECK bell_status mem_slab_create(uint64_t object_bytes,
                                            uint64_t piece_bytes,
                                            const struct mem_slab_ops *ops,
                                            void *user,
                                            struct mem_slab **out_slab);
/* Gives every piece back; objects that are out become invalid. */
void mem_slab_destroy(struct mem_slab *slab);

BELL_MUST_CHECK bell_status mem_slab_alloc(struct mem_slab *slab,
                                           struct mem_slot *out_slot);
void mem_slab_free(struct mem_slab *slab, const struct mem_slot *slot);

/* Objects that are out, and pieces held. */
uint32_t mem_slab_used(const struct mem_slab *slab);
uint32_t mem_slab_pieces(const struct mem_slab *slab);

#endif
