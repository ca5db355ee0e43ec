/* The table of slots. No locks: a chunk is taken by one exchange of its owner,
 * so that a fork in between leaves nothing held. */
#include "tensor/core/handle.h"

#include <stdio.h>

#include "base/alloc.h"

static_assert(sizeof(uintptr_t) == 8, "a handle is a number of 64 bits");

#define GENERATION_ONE ((uintptr_t)1 << HANDLE_GENERATION_SHIFT)
#define PLACE_MASK     (GENERATION_ONE - 1)

struct tensor_chunk *_Atomic handle_chunks[HANDLE_CHUNKS];
static _Atomic uint32_t n_handle_chunks; /* begun to be filled in */
static _Atomic uint32_t n_free_chunks;   /* without an owner, about */

static uintptr_t
generation(uintptr_t bits)
{
    return bits & ~PLACE_MASK;
}

/* ---- chunks ---- */

/* Handles with generations up to this one are of owners before. The owner is
 * known before that is: who reads a rank above the floor reads the owner. */
static void
set_floor(struct tensor_chunk *chunk, uintptr_t top)
{
    atomic_store_explicit(&chunk->floor, handle_rank(top | PLACE_MASK),
                          memory_order_release);
}

static bool
take_free(struct tensor_chunk *chunk, struct bell_context *ctx)
{
    bool is_free = true;
    uintptr_t top = 0;
    size_t i;

    if (!chunk ||
        !atomic_compare_exchange_strong(&chunk->is_free, &is_free, false))
        return false;
    n_free_chunks--;
    for (i = 0; i < HANDLE_SLOTS; i++) {
        uintptr_t at = generation(chunk->slots[i].self);
        top = at > top ? at : top;
    }
    chunk->ctx = ctx;
    set_floor(chunk, top);
    return true;
}

static struct tensor_chunk *
add_chunk(struct bell_context *ctx)
{
    struct tensor_chunk *chunk = host_calloc(1, sizeof(*chunk));
    size_t i;

    if (!chunk)
        return NULL;
    chunk->number = n_handle_chunks++;
    if (chunk->number >= HANDLE_CHUNKS) {
        n_handle_chunks--;
        host_free(chunk);
        return NULL;
    }
    for (i = 0; i < HANDLE_SLOTS; i++)
        chunk->slots[i].self =
            (uintptr_t)chunk->number << HANDLE_CHUNK_SHIFT | i << 1;
    chunk->ctx = ctx;
    set_floor(chunk, 0);
    atomic_store_explicit(&handle_chunks[chunk->number], chunk,
                          memory_order_release);
    return chunk;
}

struct tensor_chunk *
handle_take_chunk(struct bell_context *ctx, uint32_t first)
{
    uint32_t i, n = n_handle_chunks;

    for (i = first; n_free_chunks > 0 && i < n && i < HANDLE_CHUNKS; i++) {
        if (take_free(handle_chunks[i], ctx))
            return handle_chunks[i];
    }
    return add_chunk(ctx);
}

void
handle_drop_chunk(struct tensor_chunk *chunk, const char *call)
{
    size_t i;

    for (i = 0; i < HANDLE_SLOTS; i++) {
        if (chunk->slots[i].self & 1)
            (void)handle_end(&chunk->slots[i], call);
    }
    chunk->next = NULL;
    n_free_chunks++;
    atomic_store_explicit(&chunk->floor, UINTPTR_MAX, memory_order_relaxed);
    atomic_store_explicit(&chunk->is_free, true, memory_order_release);
}

/* ---- slots ---- */

/* Above every generation of its own and of the chunk's owners before. */
void
handle_begin(struct tensor *slot)
{
    uintptr_t bits = atomic_load_explicit(&slot->self, memory_order_relaxed);
    const struct tensor_chunk *chunk =
        handle_chunks[(bits & PLACE_MASK) >> HANDLE_CHUNK_SHIFT];
    uintptr_t last = generation(bits), floor = generation(chunk->floor << 1);

    assert(!(bits & 1));
    if (last < floor)
        last = floor;
    atomic_store_explicit(&slot->ended_by, NULL, memory_order_relaxed);
    atomic_store_explicit(&slot->self,
                          (last + GENERATION_ONE) | (bits & PLACE_MASK) | 1,
                          memory_order_relaxed);
}

bool
handle_end(struct tensor *slot, const char *call)
{
    uintptr_t bits = atomic_load_explicit(&slot->self, memory_order_relaxed);

    assert(bits & 1);
    atomic_store_explicit(&slot->ended_by, call, memory_order_relaxed);
    atomic_store_explicit(&slot->self, bits & ~(uintptr_t)1,
                          memory_order_relaxed);
    return generation(bits) < ~PLACE_MASK - GENERATION_ONE;
}

/* ---- handles that do not live ---- */

struct bell_context *
handle_context(const struct bell_tensor *t)
{
    uintptr_t bits = (uintptr_t)t;
    struct bell_context *ctx = handle_owner(t);

    if (!ctx || generation(bits) > generation(handle_slot(bits)->self))
        return NULL;
    return ctx;
}

bool
handle_is_past(const struct bell_tensor *t)
{
    uintptr_t bits = (uintptr_t)t;
    struct tensor *slot = handle_slot(bits);
    uintptr_t self = slot ? slot->self : 0;

    return bits & 1 && generation(bits) != 0 && self != bits &&
           generation(bits) <= generation(self);
}

const char *
handle_fate(const struct bell_tensor *t, char *buf, size_t size_bytes)
{
    uintptr_t bits = (uintptr_t)t;
    struct tensor *slot = handle_slot(bits);
    uintptr_t self = slot ? slot->self : 0;
    const char *call = slot ? slot->ended_by : NULL;
    const struct tensor_chunk *chunk =
        handle_chunks[(bits & PLACE_MASK) >> HANDLE_CHUNK_SHIFT];

    if (!t)
        return "is NULL";
    if (!(bits & 1) || generation(bits) == 0 ||
        generation(bits) > generation(self))
        return "is no tensor";
    if (generation(bits) < generation(self) || !call)
        return handle_rank(bits) <= chunk->floor
                   ? "is of a context that was destroyed"
                   : "was ended long ago";
    snprintf(buf, size_bytes, "was ended by %s", call);
    return buf;
}
