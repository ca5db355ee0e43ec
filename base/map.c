/* Open-addressing hash map. */
#include "base/map.h"

#include <string.h>

#include "base/alloc.h"

void
map_init(struct map *map)
{
    memset(map, 0, sizeof(*map));
}

void
map_fini(struct map *map)
{
    host_free(map->slots);
    memset(map, 0, sizeof(*map));
}

void
map_clear(struct map *map)
{
    if (map->slots)
        memset(map->slots, 0, map->n_slots * sizeof(*map->slots));
    map->n_used = 0;
}

static struct map_slot *
find_slot(const struct map *map, uint64_t key)
{
    size_t mask = map->n_slots - 1;
    size_t i = hash_mix(key) & mask;

    while (map->slots[i].used && map->slots[i].key != key)
        i = (i + 1) & mask;
    return &map->slots[i];
}

uint64_t *
map_get(const struct map *map, uint64_t key)
{
    struct map_slot *slot;

    if (map->n_used == 0)
        return NULL;
    slot = find_slot(map, key);
    return slot->used ? &slot->value : NULL;
}

static int
grow_map(struct map *map)
{
    struct map bigger;
    size_t i;

    bigger.n_slots = map->n_slots ? map->n_slots * 2 : 16;
    bigger.n_used = map->n_used;
    bigger.slots = host_calloc(bigger.n_slots, sizeof(*bigger.slots));
    if (!bigger.slots)
        return -1;
    for (i = 0; i < map->n_slots; i++) {
        if (map->slots[i].used)
            *find_slot(&bigger, map->slots[i].key) = map->slots[i];
    }
    host_free(map->slots);
    *map = bigger;
    return 0;
}

int
map_put(struct map *map, uint64_t key, uint64_t value)
{
    struct map_slot *slot;

    if ((map->n_used + 1) * 4 > map->n_slots * 3 && grow_map(map) != 0)
        return -1;
    slot = find_slot(map, key);
    map->n_used += !slot->used;
    slot->used = 1;
    slot->key = key;
    slot->value = value;
    return 0;
}

uint64_t
hash_bytes(const void *data, size_t size_bytes, uint64_t seed)
{
    const uint8_t *bytes = data;
    uint64_t hash = hash_mix(seed ^ size_bytes), word;

    while (size_bytes >= 8) {
        memcpy(&word, bytes, 8);
        hash = hash_add(hash, word);
        bytes += 8;
        size_bytes -= 8;
    }
    word = 0;
    if (size_bytes)
        memcpy(&word, bytes, size_bytes);
    return hash_add(hash, word);
}
