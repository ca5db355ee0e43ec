/* The same without sqlite3: nothing is found, nothing is kept. */
#include "cache/cache.h"

#include <stdio.h>
#include <string.h>

void
cache_init(struct cache *out_cache)
{
    memset(out_cache, 0, sizeof(*out_cache));
    snprintf(out_cache->why_off, sizeof(out_cache->why_off),
             "built without sqlite3 (libsqlite3-dev)");
}

void
cache_find(struct cache *cache, struct cache_entry *entries, size_t n)
{
    (void)cache;
    (void)entries;
    (void)n;
}

void
cache_keep(struct cache *cache, const struct cache_entry *entries, size_t n)
{
    (void)cache;
    (void)entries;
    (void)n;
}

void
cache_drop(struct cache *cache, const struct cache_entry *entry)
{
    (void)cache;
    (void)entry;
}

bell_status
cache_summarize(struct cache *cache, struct cache_summary *out_summary)
{
    (void)cache;
    memset(out_summary, 0, sizeof(*out_summary));
    return BELL_OK;
}

bell_status
cache_clear(struct cache *cache)
{
    (void)cache;
    return BELL_OK;
}
