/* Bump allocator: blocks double up to 1 MiB. */
#include "base/arena.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"

#define ARENA_ALIGN     16u
#define ARENA_MIN_BLOCK 4096u
#define ARENA_MAX_BLOCK (1u << 20)

struct arena_block {
    struct arena_block *next;
    size_t size_bytes; /* of the data part */
    _Alignas(16) uint8_t data[];
};

void
arena_init(struct arena *arena)
{
    memset(arena, 0, sizeof(*arena));
}

void
arena_fini(struct arena *arena)
{
    struct arena_block *block = arena->blocks;

    while (block) {
        struct arena_block *next = block->next;
        host_free(block);
        block = next;
    }
    memset(arena, 0, sizeof(*arena));
}

static int
add_block(struct arena *arena, size_t size_bytes)
{
    size_t want =
        arena->blocks ? arena->blocks->size_bytes * 2 : ARENA_MIN_BLOCK;
    struct arena_block *block;

    if (want > ARENA_MAX_BLOCK)
        want = ARENA_MAX_BLOCK;
    if (want < size_bytes)
        want = size_bytes;
    if (want > SIZE_MAX - sizeof(*block))
        return -1;
    block = host_alloc(sizeof(*block) + want);
    if (!block)
        return -1;
    block->next = arena->blocks;
    block->size_bytes = want;
    arena->blocks = block;
    arena->cur = block->data;
    arena->end = block->data + want;
    return 0;
}

void *
arena_alloc(struct arena *arena, size_t size_bytes)
{
    size_t rounded =
        (size_bytes + ARENA_ALIGN - 1) & ~(size_t)(ARENA_ALIGN - 1);
    void *ptr;

    if (rounded < size_bytes) {
        arena->failed = 1;
        return NULL;
    }
    if ((size_t)(arena->end - arena->cur) < rounded &&
        add_block(arena, rounded) != 0) {
        arena->failed = 1;
        return NULL;
    }
    ptr = arena->cur;
    arena->cur += rounded;
    arena->used_bytes += rounded;
    return ptr;
}

void *
arena_calloc(struct arena *arena, size_t count, size_t size_bytes)
{
    void *ptr;

    if (size_bytes && count > SIZE_MAX / size_bytes) {
        arena->failed = 1;
        return NULL;
    }
    ptr = arena_alloc(arena, count * size_bytes);
    if (ptr)
        memset(ptr, 0, count * size_bytes);
    return ptr;
}

void *
arena_copy(struct arena *arena, const void *data, size_t size_bytes)
{
    void *ptr = arena_alloc(arena, size_bytes);

    if (ptr && size_bytes)
        memcpy(ptr, data, size_bytes);
    return ptr;
}

char *
arena_printf(struct arena *arena, const char *fmt, ...)
{
    va_list args;
    char *text;
    int len;

    va_start(args, fmt);
    len = vsnprintf(NULL, 0, fmt, args);
    va_end(args);
    if (len < 0)
        return NULL;
    text = arena_alloc(arena, (size_t)len + 1);
    if (!text)
        return NULL;
    va_start(args, fmt);
    vsnprintf(text, (size_t)len + 1, fmt, args);
    va_end(args);
    return text;
}
