/* Page tables: five levels of 512 entries, pages of 4 KiB and 2 MiB. Pages of
 * 64 KiB are sixteen small ones. */
#include "sim/space.h"

#include <assert.h>
#include <sched.h>
#include <string.h>

#include "base/alloc.h"
#include "base/bits.h"

#define VA_BITS     57
#define N_LEVELS    5
#define N_ENTRIES   512u
#define SMALL_SHIFT 12
#define PAGE_BYTES  4096u
#define BIG_SHIFT   21
#define BIG_BYTES   ((uint64_t)1 << BIG_SHIFT)
#define BIG_LEVEL   3 /* of the tables: the last but one */

/* An entry is 0, a table's address, or a page's host address with these. */
#define LEAF  1u
#define FLAGS ((uint64_t)PAGE_BYTES - 1)

static uint64_t *
table_at(uint64_t entry)
{
    return (uint64_t *)(uintptr_t)entry;
}

static unsigned
level_index(uint64_t va, unsigned level)
{
    assert(level < N_LEVELS);
    return (unsigned)(va >> (SMALL_SHIFT + 9 * (N_LEVELS - 1 - level))) &
           (N_ENTRIES - 1);
}

/* ---- life ---- */

bell_status
sim_space_create(struct sim_space **out_space)
{
    struct sim_space *space = host_calloc(1, sizeof(*space));

    if (!space || pthread_rwlock_init(&space->lock, NULL)) {
        host_free(space);
        return bell_fail(BELL_E_NO_MEMORY, "address space: out of memory");
    }
    *out_space = space;
    return BELL_OK;
}

/* As deep as there are levels. */
static void
free_table(uint64_t *table, unsigned level)
{
    unsigned i;

    for (i = 0; i < N_ENTRIES && level < N_LEVELS - 1; i++) {
        if (table[i] && !(table[i] & LEAF))
            free_table(table_at(table[i]), level + 1);
    }
    host_free(table);
}

void
sim_space_destroy(struct sim_space *space)
{
    if (!space)
        return;
    if (space->root)
        free_table(space->root, 0);
    pthread_rwlock_destroy(&space->lock);
    host_free(space);
}

uint64_t
sim_space_mapped(const struct sim_space *space)
{
    return atomic_load(&space->mapped_bytes);
}

/* ---- changes ---- */

static void
begin_change(struct sim_space *space)
{
    atomic_fetch_add(&space->n_changing, 1);
    pthread_rwlock_wrlock(&space->lock);
}

static void
end_change(struct sim_space *space)
{
    atomic_fetch_sub(&space->n_changing, 1);
    pthread_rwlock_unlock(&space->lock);
}

/* The entry for va in a table of that level, or, where a page or nothing is
 * above it, the entry of that. With `make`, tables are made on the way; NULL
 * without memory. */
static uint64_t *
table_entry(struct sim_space *space, uint64_t va, unsigned level, bool make,
            unsigned *out_level)
{
    uint64_t *table = space->root, *entry;
    unsigned at;

    for (at = 0;; at++) {
        entry = &table[level_index(va, at)];
        *out_level = at;
        if (at == level || (*entry & LEAF) || (!*entry && !make))
            return entry;
        if (!*entry)
            *entry = (uint64_t)(uintptr_t)host_calloc(N_ENTRIES, 8);
        if (!*entry)
            return NULL;
        table = table_at(*entry);
    }
}

/* Bytes that an entry of the level stands for. */
static uint64_t
level_bytes(unsigned level)
{
    return (uint64_t)1 << (SMALL_SHIFT + 9 * (N_LEVELS - 1 - level));
}

static bool
is_range_free(struct sim_space *space, uint64_t va, uint64_t end)
{
    unsigned level;

    while (va < end) {
        const uint64_t *entry =
            table_entry(space, va, N_LEVELS - 1, false, &level);
        if (*entry)
            return false;
        va = (va & ~(level_bytes(level) - 1)) + level_bytes(level);
    }
    return true;
}

static void
clear_range(struct sim_space *space, uint64_t va, uint64_t end)
{
    unsigned level;

    while (va < end) {
        uint64_t *entry = table_entry(space, va, N_LEVELS - 1, false, &level);
        if (*entry) {
            atomic_fetch_sub(&space->mapped_bytes, level_bytes(level));
            *entry = 0;
        }
        va = (va & ~(level_bytes(level) - 1)) + level_bytes(level);
    }
}

static bell_status
space_fill(struct sim_space *space, uint64_t va, uint64_t host, uint64_t end,
           uint32_t page_bytes, uint64_t flags)
{
    unsigned want = page_bytes == BIG_BYTES ? BIG_LEVEL : N_LEVELS - 1, level;
    uint64_t start = va, step = level_bytes(want);

    assert(va < end);
    while (va < end) {
        uint64_t *entry = table_entry(space, va, want, true, &level);
        if (entry && *entry) {
            /* tables of small pages that are gone */
            free_table(table_at(*entry), level + 1);
            *entry = 0;
        }
        if (!entry) {
            clear_range(space, start, va);
            return bell_fail(BELL_E_NO_MEMORY,
                             "page tables for 0x%llx: out of memory",
                             (unsigned long long)va);
        }
        *entry = host | flags;
        atomic_fetch_add(&space->mapped_bytes, step);
        va += step;
        host += step;
    }
    return BELL_OK;
}

static bell_status
map_locked(struct sim_space *space, uint64_t va, uint64_t host,
           uint64_t size_bytes, uint32_t page_bytes, uint32_t flags)
{
    if (!space->root)
        space->root = host_calloc(N_ENTRIES, sizeof(*space->root));
    if (!space->root)
        return bell_fail(BELL_E_NO_MEMORY, "page tables: out of memory");
    if (!is_range_free(space, va, va + size_bytes))
        return bell_fail(
            BELL_E_INVALID, "something is mapped in 0x%llx..0x%llx already",
            (unsigned long long)va, (unsigned long long)(va + size_bytes));
    return space_fill(space, va, host, va + size_bytes, page_bytes,
                      LEAF | (flags & (FLAGS - 1)));
}

bell_status
sim_space_map(struct sim_space *space, uint64_t va, void *host,
              uint64_t size_bytes, uint32_t page_bytes, uint32_t flags)
{
    uint64_t at = (uint64_t)(uintptr_t)host, end = (uint64_t)1 << VA_BITS;
    bell_status status;

    if (page_bytes != PAGE_BYTES && page_bytes != 65536 &&
        page_bytes != BIG_BYTES)
        return bell_fail(BELL_E_INVALID, "pages of %u bytes", page_bytes);
    if (((va | size_bytes) & (page_bytes - 1)) || (at & FLAGS) || !host ||
        size_bytes == 0 || va >= end || size_bytes > end - va)
        return bell_fail(BELL_E_INVALID,
                         "mapping of 0x%llx bytes at 0x%llx: not in pages of "
                         "%u bytes, or out of range",
                         (unsigned long long)size_bytes, (unsigned long long)va,
                         page_bytes);
    begin_change(space);
    status = map_locked(space, va, at, size_bytes, page_bytes, flags);
    end_change(space);
    return status;
}

void
sim_space_unmap(struct sim_space *space, uint64_t va, uint64_t size_bytes)
{
    uint64_t end = (uint64_t)1 << VA_BITS;

    assert(va % 4096 == 0 && size_bytes % 4096 == 0);
    if (va >= end)
        return;
    if (size_bytes < end - va)
        end = va + size_bytes;
    begin_change(space);
    if (space->root)
        clear_range(space, va, end);
    space->generation++;
    end_change(space);
}

/* ---- walks ---- */

void
sim_walk_init(struct sim_walk *walk, struct sim_space *space)
{
    memset(walk, 0, sizeof(*walk));
    walk->space = space;
}

void
sim_walk_enter(struct sim_walk *walk)
{
    struct sim_space *space = walk->space;

    /* changes go first: readers alone would never let them in */
    while (atomic_load(&space->n_changing))
        sched_yield();
    pthread_rwlock_rdlock(&space->lock);
    if (walk->generation == space->generation)
        return;
    memset(walk->small, 0, sizeof(walk->small));
    memset(walk->big, 0, sizeof(walk->big));
    walk->generation = space->generation;
}

void
sim_walk_leave(struct sim_walk *walk)
{
    pthread_rwlock_unlock(&walk->space->lock);
}

bool
sim_walk_pause(struct sim_walk *walk)
{
    if (!atomic_load_explicit(&walk->space->n_changing, memory_order_relaxed))
        return false;
    sim_walk_leave(walk);
    sim_walk_enter(walk);
    return true;
}

/* The page that va is in; 0: none. */
static uint64_t
look_up(struct sim_walk *walk, uint64_t va, unsigned *out_shift)
{
    uint64_t big = (va >> BIG_SHIFT) + 1, small = (va >> SMALL_SHIFT) + 1;
    unsigned b = (unsigned)big % ARRAY_LEN(walk->big),
             s = (unsigned)small % ARRAY_LEN(walk->small), level;
    uint64_t entry;

    *out_shift = BIG_SHIFT;
    if (walk->big[b].tag == big)
        return walk->big[b].leaf;
    if (walk->small[s].tag == small) {
        *out_shift = SMALL_SHIFT;
        return walk->small[s].leaf;
    }
    if (!walk->space->root || va >> VA_BITS)
        return 0;
    entry = *table_entry(walk->space, va, N_LEVELS - 1, false, &level);
    if (!(entry & LEAF))
        return 0;
    if (level == BIG_LEVEL) {
        walk->big[b].tag = big;
        walk->big[b].leaf = entry;
    } else {
        *out_shift = SMALL_SHIFT;
        walk->small[s].tag = small;
        walk->small[s].leaf = entry;
    }
    return entry;
}

void *
sim_walk_span(struct sim_walk *walk, uint64_t va, uint64_t *out_bytes,
              uint32_t *out_flags)
{
    unsigned shift;
    uint64_t leaf = look_up(walk, va, &shift), offset;

    assert(walk->space);
    *out_bytes = 0;
    *out_flags = 0;
    if (!leaf)
        return NULL;
    offset = va & (((uint64_t)1 << shift) - 1);
    *out_bytes = ((uint64_t)1 << shift) - offset;
    *out_flags = (uint32_t)(leaf & FLAGS) & ~LEAF;
    return (void *)(uintptr_t)((leaf & ~FLAGS) + offset);
}
