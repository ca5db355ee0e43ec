/* Shared by the files of cache/ only. */
#ifndef BELL_CACHE_CACHE_INTERNAL_H
#define BELL_CACHE_CACHE_INTERNAL_H

#include "cache/cache.h"

/* What is told once a process each. */
enum cache_said {
    CACHE_SAID_FOLDER = 1u << 0,
    CACHE_SAID_DAMAGED = 1u << 1,
    CACHE_SAID_FAILED = 1u << 2,
};

/* One line, whatever BELL_DEBUG says: the first time; from then on with
 * BELL_DEBUG=cache alone. */
void cache_say(enum cache_said what, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));

/* Sets folder, or why_off. */
void cache_find_folder(struct cache *cache);

/* Whether a file that is there is the user's own, with no other name and
 * nobody else's to write. */
bool cache_file_is_own(const char *path);

#endif
