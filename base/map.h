/* Hash map from a 64-bit key to a 64-bit value; open addressing, linear
 * probing, grows at 3/4 full. Not thread safe. Strings and structures are
 * keyed by their hash, and the caller compares what it finds.
 */
#ifndef BELL_BASE_MAP_H
#define BELL_BASE_MAP_H

#include <stddef.h>
#include <stdint.h>

struct map_slot {
    uint64_t key, value;
    uint32_t used;
};

struct map {
    struct map_slot *slots; /* owned; a power of two of them */
    size_t n_slots, n_used;
};

void map_init(struct map *map);
void map_fini(struct map *map);
/* Forgets every entry, keeps the storage. */
void map_clear(struct map *map);
/* A pointer to the key's value, or NULL. Valid until the next map_put. */
uint64_t *map_get(const struct map *map, uint64_t key);
/* Inserts or replaces. 0, or -1 when out of memory (map unchanged). */
int map_put(struct map *map, uint64_t key, uint64_t value);

/* A good 64-bit mix of x (finaliser of SplitMix64). */
static inline uint64_t
hash_mix(uint64_t x)
{
    x ^= x >> 30;
    x *= 0xbf58476d1ce4e5b9ull;
    x ^= x >> 27;
    x *= 0x94d049bb133111ebull;
    x ^= x >> 31;
    return x;
}

/* Combines a running hash with one more value. */
static inline uint64_t
hash_add(uint64_t hash, uint64_t x)
{
    return hash_mix(hash * 0x9e3779b97f4a7c15ull + x + 1);
}

/* Hash of a byte string. */
uint64_t hash_bytes(const void *data, size_t size_bytes, uint64_t seed);

#endif
