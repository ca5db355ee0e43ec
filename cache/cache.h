/* Values under keys, in a file of the user's that outlives the process: what
 * was compiled once is found by the next one.
 *
 * Keys are compared whole, so a value is never one of another key; a checksum
 * covers both. A damaged file is dropped, and told once a process. Several
 * processes may use the file at once, and be killed at any time. Nothing here
 * fails a program: where there is no cache, nothing is found and nothing is
 * kept. docs/explanation/cache.md says whom it trusts.
 *
 * The file is opened for a call and closed by it, so nothing of it is inherited
 * by a fork. Thread safe: one call at a time.
 */
#ifndef BELL_CACHE_CACHE_H
#define BELL_CACHE_CACHE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"

#define CACHE_PATH_MAX 1024

/* A program's cache. Plain data, nothing to be ended. */
struct cache {
    char folder[CACHE_PATH_MAX]; /* no link in it; empty: none */
    char file[CACHE_PATH_MAX];
    char why_off[400];  /* empty: there is one */
    uint64_t max_bytes; /* of the file; the longest unused go first */
    bool is_readonly;   /* nothing is kept, nothing locked */
    bool keeps_nothing; /* keeping failed, and that was told */
    bool was_renewed;   /* a damaged file was replaced: once a program */
};

/* A value and its key. */
struct cache_entry {
    const void *key;
    size_t key_bytes;
    const char *kind; /* of a key one only; for who looks at what is there */
    void *value;      /* found: host_free it; to be kept: the caller's */
    size_t value_bytes;
};

/* The folder is $BELL_CACHE ("off": none), $XDG_CACHE_HOME/doorbell or
 * $HOME/.cache/doorbell; it is made. None for a program with privileges, and
 * where the folder is not the user's own and private: that is told once. */
void cache_init(struct cache *out_cache);

/* Fills in the values of those that are there. Those that have one already are
 * left alone. */
void cache_find(struct cache *cache, struct cache_entry *entries, size_t n);

/* Keeps those that have a value; what was there under the key goes. */
void cache_keep(struct cache *cache, const struct cache_entry *entries,
                size_t n);

/* Drops one whose value turned out to be of no use, and tells so. */
void cache_drop(struct cache *cache, const struct cache_entry *entry);

/* What is there of one kind. */
struct cache_kind {
    char kind[64];
    uint64_t n, n_bytes;
};

#define CACHE_KINDS_MAX 64

struct cache_summary {
    uint64_t n, n_bytes, file_bytes;
    int64_t oldest_use_s; /* seconds since 1970; 0: nothing is there */
    uint32_t n_kinds;     /* the largest come first; others are counted above */
    struct cache_kind kinds[CACHE_KINDS_MAX];
};

/* A cache that is off, or not yet there, is empty. */
BELL_MUST_CHECK bell_status cache_summarize(struct cache *cache,
                                            struct cache_summary *out_summary);

/* Removes the files, those of other versions too. BELL_E_TIMEOUT: others keep
 * it busy. */
BELL_MUST_CHECK bell_status cache_clear(struct cache *cache);

#endif
