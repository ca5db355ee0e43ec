/* Bump allocator for data with one common lifetime: graphs, schedules.
 * Not thread safe. Pointers are 16-byte aligned and live as long as it.
 */
#ifndef BELL_BASE_ARENA_H
#define BELL_BASE_ARENA_H

#include <stddef.h>
#include <stdint.h>

struct arena_block;

struct arena {
    struct arena_block *blocks; /* newest first; owned */
    uint8_t *cur, *end;         /* free part of the newest block */
    size_t used_bytes;          /* handed out so far */
    int failed;                 /* sticky: an allocation failed */
};

void arena_init(struct arena *arena);
void arena_fini(struct arena *arena);

/* `size_bytes` uninitialised bytes, or NULL when out of memory. */
void *arena_alloc(struct arena *arena, size_t size_bytes);
/* The same, zeroed; count times size is checked for overflow. */
void *arena_calloc(struct arena *arena, size_t count, size_t size_bytes);
/* A copy of `size_bytes` bytes at `data`. */
void *arena_copy(struct arena *arena, const void *data, size_t size_bytes);
/* A formatted string. */
char *arena_printf(struct arena *arena, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));

#endif
