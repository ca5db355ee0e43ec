/* Suballocation of backing objects. */
#include "mem/mem_pool.h"

#include <assert.h>

#include "base/alloc.h"
#include "base/bits.h"

#define NONE UINT32_MAX

struct chunk {
    struct mem_backing backing;
    struct mem_range va;  /* of the whole backing */
    struct mem_va *space; /* owned: offsets within; NULL: the chunk is unused */
    uint32_t n_pieces;
    bool dedicated;
    uint32_t next_unused;
};

struct mem_pool {
    struct mem_pool_desc desc;
    struct chunk *chunks; /* owned */
    size_t cap_chunks;
    uint32_t n_chunks, unused;
    uint32_t recent; /* where the last piece came from */
    uint32_t n_backings, n_pieces, n_empty;
};

bell_status
mem_pool_create(const struct mem_pool_desc *desc, struct mem_pool **out_pool)
{
    struct mem_pool *pool;

    if (!is_pow2(desc->chunk_bytes) || !is_pow2(desc->align_bytes) ||
        !is_pow2(desc->granule_bytes) ||
        desc->granule_bytes > desc->chunk_bytes)
        return bell_fail(BELL_E_INVALID,
                         "a pool of chunks of %llu bytes in granules of %llu, "
                         "aligned to %llu",
                         (unsigned long long)desc->chunk_bytes,
                         (unsigned long long)desc->granule_bytes,
                         (unsigned long long)desc->align_bytes);
    pool = host_calloc(1, sizeof(*pool));
    if (!pool)
        return bell_fail(BELL_E_NO_MEMORY, "out of memory for a pool");
    pool->desc = *desc;
    pool->unused = pool->recent = NONE;
    *out_pool = pool;
    return BELL_OK;
}

/* ---- chunks ----------------------------------------------------------- */

/* Gives back all that a chunk holds. */
static void
release_chunk(struct mem_pool *pool, uint32_t i)
{
    const struct mem_pool_desc *desc = &pool->desc;
    struct chunk *chunk = &pool->chunks[i];

    assert(i < pool->n_chunks);
    desc->ops->unmap_va(desc->user, &chunk->backing, chunk->va.addr);
    mem_va_free(desc->va, &chunk->va);
    desc->ops->destroy(desc->user, &chunk->backing);
    mem_va_destroy(chunk->space);
    *chunk = (struct chunk){.next_unused = pool->unused};
    pool->unused = i;
    pool->n_backings--;
}

/* Makes backing, address range and space of a chunk, in that order. */
static bell_status
fill_chunk(const struct mem_pool_desc *desc, uint64_t size_bytes,
           uint64_t align_bytes, struct chunk *chunk)
{
    bell_status status;

    assert(is_pow2(align_bytes) && size_bytes > 0);
    BELL_TRY(desc->ops->create(desc->user, size_bytes, &chunk->backing));
    status = mem_va_alloc(desc->va, size_bytes, align_bytes, &chunk->va);
    if (status != BELL_OK)
        goto fail_backing;
    status = mem_va_create(0, size_bytes, desc->granule_bytes, &chunk->space);
    if (status != BELL_OK)
        goto fail_va;
    status = desc->ops->map_va(desc->user, &chunk->backing, chunk->va.addr);
    if (status != BELL_OK)
        goto fail_space;
    return BELL_OK;
fail_space:
    mem_va_destroy(chunk->space);
fail_va:
    mem_va_free(desc->va, &chunk->va);
fail_backing:
    desc->ops->destroy(desc->user, &chunk->backing);
    return status;
}

static bell_status
pool_add_chunk(struct mem_pool *pool, uint64_t size_bytes, uint64_t align_bytes,
               uint32_t *out_chunk)
{
    struct chunk chunk = {0};
    uint32_t i = pool->unused;

    if (i == NONE &&
        host_grow((void **)&pool->chunks, &pool->cap_chunks,
                  (size_t)pool->n_chunks + 1, sizeof(*pool->chunks)) < 0)
        return bell_fail(BELL_E_NO_MEMORY, "out of memory for a pool");
    if (align_bytes < pool->desc.align_bytes)
        align_bytes = pool->desc.align_bytes;
    BELL_TRY(fill_chunk(&pool->desc, size_bytes, align_bytes, &chunk));
    if (i == NONE)
        i = pool->n_chunks++;
    else
        pool->unused = pool->chunks[i].next_unused;
    pool->chunks[i] = chunk;
    pool->n_backings++;
    pool->n_empty++;
    *out_chunk = i;
    return BELL_OK;
}

uint32_t
mem_pool_destroy(struct mem_pool *pool)
{
    uint32_t i, n_lost;

    if (!pool)
        return 0;
    n_lost = pool->n_pieces;
    for (i = 0; i < pool->n_chunks; i++) {
        if (pool->chunks[i].space)
            release_chunk(pool, i);
    }
    host_free(pool->chunks);
    host_free(pool);
    return n_lost;
}

/* ---- pieces ----------------------------------------------------------- */

/* Whether a chunk can hold this much: its free bytes say no at once. */
static bool
may_hold(const struct chunk *chunk, uint64_t size_bytes)
{
    struct mem_va_stats stats;

    if (!chunk->space || chunk->dedicated)
        return false;
    mem_va_stats(chunk->space, &stats);
    return stats.largest_free_bytes >= size_bytes;
}

/* A piece of chunk i, or false. The chunk's alignment in the address space
 * carries over to offsets up to itself. */
static bool
take_from(struct mem_pool *pool, uint32_t i, uint64_t size_bytes,
          uint64_t align_bytes, struct mem_range *out_range)
{
    if (!may_hold(&pool->chunks[i], size_bytes))
        return false;
    return mem_va_alloc(pool->chunks[i].space, size_bytes, align_bytes,
                        out_range) == BELL_OK;
}

static void
fill_piece(struct mem_pool *pool, uint32_t i, const struct mem_range *range,
           struct mem_piece *out)
{
    struct chunk *chunk = &pool->chunks[i];

    *out = (struct mem_piece){
        .va = chunk->va.addr + range->addr,
        .size_bytes = range->size_bytes,
        .offset_bytes = range->addr,
        .backing = chunk->backing,
        .chunk = i,
        .range = *range,
    };
    if (chunk->n_pieces++ == 0)
        pool->n_empty--;
    pool->n_pieces++;
}

bell_status
mem_pool_alloc(struct mem_pool *pool, uint64_t size_bytes, uint64_t align_bytes,
               struct mem_piece *out_piece)
{
    const struct mem_pool_desc *desc = &pool->desc;
    struct mem_range range;
    uint64_t backing_bytes = desc->chunk_bytes;
    bell_status status;
    bool dedicated;
    uint32_t i;

    if (align_bytes < desc->granule_bytes)
        align_bytes = desc->granule_bytes;
    if (!size_bytes || !is_pow2(align_bytes) || size_bytes > UINT64_MAX / 2)
        return bell_fail(BELL_E_INVALID, "a piece of %llu bytes",
                         (unsigned long long)size_bytes);
    dedicated =
        size_bytes >= desc->chunk_bytes / 2 || align_bytes > desc->align_bytes;
    if (!dedicated) {
        i = pool->recent;
        if (i != NONE && take_from(pool, i, size_bytes, align_bytes, &range))
            goto found;
        for (i = 0; i < pool->n_chunks; i++) {
            if (take_from(pool, i, size_bytes, align_bytes, &range))
                goto found;
        }
    } else {
        backing_bytes =
            align_up(size_bytes, desc->align_bytes > desc->granule_bytes
                                     ? desc->align_bytes
                                     : desc->granule_bytes);
    }
    BELL_TRY(pool_add_chunk(pool, backing_bytes, align_bytes, &i));
    pool->chunks[i].dedicated = dedicated;
    /* All of a space cannot be searched for: its size class may be a step
     * smaller than the one that a search starts in. */
    status = dedicated ? mem_va_alloc_at(pool->chunks[i].space, 0,
                                         backing_bytes, &range)
                       : mem_va_alloc(pool->chunks[i].space, size_bytes,
                                      align_bytes, &range);
    if (status != BELL_OK) {
        pool->n_empty--;
        release_chunk(pool, i);
        return bell_fail(BELL_E_NO_MEMORY, "out of memory for a piece");
    }
found:
    if (!dedicated)
        pool->recent = i;
    fill_piece(pool, i, &range, out_piece);
    return BELL_OK;
}

void
mem_pool_free(struct mem_pool *pool, const struct mem_piece *piece)
{
    struct chunk *chunk = &pool->chunks[piece->chunk];

    assert(chunk->space && chunk->n_pieces);
    mem_va_free(chunk->space, &piece->range);
    pool->n_pieces--;
    if (--chunk->n_pieces)
        return;
    pool->n_empty++;
    if (chunk->dedicated || pool->n_empty > 1) {
        pool->n_empty--;
        release_chunk(pool, piece->chunk);
    }
}

uint32_t
mem_pool_backings(const struct mem_pool *pool)
{
    return pool->n_backings;
}

uint32_t
mem_pool_pieces(const struct mem_pool *pool)
{
    return pool->n_pieces;
}
