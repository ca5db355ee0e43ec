/* What a struct bell_tensor * is.
 *
 * It points to nothing: it is a number, of a slot in a table of the process and
 * of the slot's generation, with the low bit set, so that it is not an address
 * of anything. A slot is used again only with the next generation, and the
 * table never gives memory back, so every handle there ever was can be asked
 * for at any time, from any thread: it lives, or the slot says which call ended
 * it.
 *
 *     bit 0: 1; 1..8: slot of its chunk; 9..26: chunk; 27..63: generation
 *
 * Chunks belong to one context while that lives, and to the next one that
 * needs slots after that.
 */
#ifndef BELL_TENSOR_CORE_HANDLE_H
#define BELL_TENSOR_CORE_HANDLE_H

#include <assert.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "uops/uop.h"

struct bell_context;
struct bell_tensor;

#define HANDLE_CHUNK_SHIFT      9
#define HANDLE_GENERATION_SHIFT 27
#define HANDLE_SLOTS            256u /* in a chunk */
#define HANDLE_CHUNKS           (1u << 18)

/* The slot of a handle that lives. One that does not is on its context's list
 * of free slots, or in a chunk without a context. */
struct tensor {
    /* Its handle; with the low bit clear: of the last one, which was ended. */
    _Atomic uintptr_t self;
    const char *_Atomic ended_by; /* the call, a string that stays; or NULL */
    struct bell_context *ctx;
    const struct uop *uop;        /* in ctx->graph */
    const struct uop_dims *shape; /* of uop, () for CONST; in ctx->graph */
    enum uop_dtype dtype;         /* of uop */
    uint32_t flags;               /* enum tensor_flag */
    uint32_t scope;               /* depth of the scope it belongs to */
    uint32_t input;               /* of a jit: scratch of bell_jit_call */
    uint32_t label;               /* of its module: number of the scope that its
                                   * name is (label.h); 0: none */
    struct bell_tensor *grad;     /* owned, in the same scope; or NULL */
    struct tensor *prev, *next;   /* list of the scope, or of free slots */
    uint64_t serial;              /* which of the context's handles it is */
};

struct tensor_chunk {
    struct bell_context *_Atomic ctx; /* its last owner */
    _Atomic uintptr_t floor; /* handle_rank of all handles up to this one: they
                              * are of owners before */
    _Atomic bool is_free;    /* it has no owner */
    struct tensor_chunk *next; /* of the owner's */
    uint32_t number;           /* in handle_chunks */
    struct tensor slots[HANDLE_SLOTS];
};

/* Orders the handles of a chunk by age, above all numbers that are none. */
static inline uintptr_t
handle_rank(uintptr_t bits)
{
    return bits >> 1 | bits << 63;
}

/* Filled from the front; what is in stays. */
extern struct tensor_chunk *_Atomic handle_chunks[HANDLE_CHUNKS];

/* The slot that a number names, whether its generation is this or not. */
static inline struct tensor *
handle_slot(uintptr_t bits)
{
    struct tensor_chunk *chunk = atomic_load_explicit(
        &handle_chunks[(bits >> HANDLE_CHUNK_SHIFT) & (HANDLE_CHUNKS - 1)],
        memory_order_acquire);

    return chunk ? &chunk->slots[(bits >> 1) & (HANDLE_SLOTS - 1)] : NULL;
}

/* The tensor, or NULL where `t` is NULL, was ended, or never was a handle. */
static inline struct tensor *
handle_find(const struct bell_tensor *t)
{
    struct tensor *slot = handle_slot((uintptr_t)t);

    if (!slot ||
        atomic_load_explicit(&slot->self, memory_order_relaxed) !=
            (uintptr_t)t ||
        !((uintptr_t)t & 1))
        return NULL;
    return slot;
}

/* The context that a handle is, or was, of; NULL where that is gone or `t` is
 * not a handle. Unlike handle_context it believes generations that are yet to
 * come.
 */
static inline struct bell_context *
handle_owner(const struct bell_tensor *t)
{
    const struct tensor_chunk *chunk = atomic_load_explicit(
        &handle_chunks[((uintptr_t)t >> HANDLE_CHUNK_SHIFT) &
                       (HANDLE_CHUNKS - 1)],
        memory_order_acquire);
    struct bell_context *owner;

    if (__builtin_expect(!chunk || handle_rank((uintptr_t)t) <=
                                       atomic_load_explicit(
                                           &chunk->floor, memory_order_acquire),
                         0))
        return NULL;
    owner = atomic_load_explicit(&chunk->ctx, memory_order_relaxed);
    if (!owner)
        __builtin_unreachable(); /* set before the floor is */
    return owner;
}

/* The tensor of a handle that lives: checked when the library was given it. */
static inline struct tensor *
tensor_at(const struct bell_tensor *t)
{
    struct tensor *slot = handle_slot((uintptr_t)t);

    assert(slot && slot->self == (uintptr_t)t);
    return slot;
}

/* The handle of a tensor. */
static inline struct bell_tensor *
handle_of(const struct tensor *slot)
{
    /* The one place where a number becomes a handle. */
    return (struct bell_tensor *)atomic_load_explicit(
        &((struct tensor *)(uintptr_t)slot)->self, memory_order_relaxed);
}

/* ---- handle.c ---- */

/* A chunk whose owner is `ctx` from now on, whose slots are all free. NULL when
 * out of memory. `first`: no chunk before this one is looked at. */
struct tensor_chunk *handle_take_chunk(struct bell_context *ctx,
                                       uint32_t first);
/* Ends what lives in it by `call`, and gives it up. */
void handle_drop_chunk(struct tensor_chunk *chunk, const char *call);
/* Gives a free slot its next generation: it lives. */
void handle_begin(struct tensor *slot);
/* Ends its generation by `call`, a string that stays. False where that was the
 * last one: the slot is not used again. */
bool handle_end(struct tensor *slot, const char *call);
/* The context that a handle is, or was, of; NULL where that is gone or it never
 * was a handle. */
struct bell_context *handle_context(const struct bell_tensor *t);
/* Whether it is a handle that was ended, by a call or with its context. */
bool handle_is_past(const struct bell_tensor *t);
/* What became of a handle that does not live: "was ended by bell_scope_end". */
const char *handle_fate(const struct bell_tensor *t, char *buf,
                        size_t size_bytes);
#define HANDLE_FATE 96

#endif
