/* Two-level segregated fit over address ranges. */
#include "mem/mem_va.h"

#include <assert.h>
#include <string.h>

#include "base/alloc.h"
#include "base/bits.h"

#define SL_LOG2 5u
#define N_SL    (1u << SL_LOG2)
#define N_FL    60u
#define NONE    UINT32_MAX

/* A range, free or out. Neighbours in address order form a list; free ones
 * are also in the list of their class, unused ones in a list of spares. */
struct block {
    uint64_t addr, size; /* size in granules, addr too (from 0) */
    uint32_t prev, next;
    uint32_t free_prev, free_next;
    bool is_free;
};

struct mem_va {
    uint64_t base, n_granules;
    unsigned granule_log2;
    struct block *blocks; /* owned */
    size_t cap_blocks;
    uint32_t n_blocks; /* ever used */
    uint32_t spare;    /* head of unused blocks; free_next links them */
    uint32_t first;    /* lowest address */
    uint32_t n_out, n_free;
    uint64_t free_granules;
    uint64_t fl_map;
    uint32_t sl_map[N_FL];
    uint32_t heads[N_FL][N_SL];
};

/* ---- classes ---------------------------------------------------------- */

/* The class that a free range of this size belongs to. */
static void
class_of(uint64_t size, unsigned *fl, unsigned *sl)
{
    unsigned log2;

    assert(size > 0);
    if (size < N_SL) {
        *fl = 0;
        *sl = (unsigned)size;
        return;
    }
    log2 = log2_floor(size);
    *fl = log2 - SL_LOG2 + 1;
    *sl = (unsigned)(size >> (log2 - SL_LOG2)) & (N_SL - 1);
}

/* The first class all of whose ranges hold this size. */
static void
class_holding(uint64_t size, unsigned *fl, unsigned *sl)
{
    if (size >= N_SL)
        size += (1ull << (log2_floor(size) - SL_LOG2)) - 1;
    class_of(size, fl, sl);
}

static void
put_free(struct mem_va *va, uint32_t i)
{
    struct block *b = &va->blocks[i];
    unsigned fl, sl;

    class_of(b->size, &fl, &sl);
    b->is_free = true;
    b->free_prev = NONE;
    b->free_next = va->heads[fl][sl];
    if (b->free_next != NONE)
        va->blocks[b->free_next].free_prev = i;
    va->heads[fl][sl] = i;
    va->fl_map |= 1ull << fl;
    va->sl_map[fl] |= 1u << sl;
    va->n_free++;
    va->free_granules += b->size;
}

static void
va_take_free(struct mem_va *va, uint32_t i)
{
    struct block *b = &va->blocks[i];
    unsigned fl, sl;

    class_of(b->size, &fl, &sl);
    if (b->free_prev != NONE)
        va->blocks[b->free_prev].free_next = b->free_next;
    else
        va->heads[fl][sl] = b->free_next;
    if (b->free_next != NONE)
        va->blocks[b->free_next].free_prev = b->free_prev;
    if (va->heads[fl][sl] == NONE) {
        va->sl_map[fl] &= ~(1u << sl);
        if (!va->sl_map[fl])
            va->fl_map &= ~(1ull << fl);
    }
    b->is_free = false;
    va->n_free--;
    va->free_granules -= b->size;
}

/* A free range that holds this size, or NONE. */
static uint32_t
find_free(const struct mem_va *va, uint64_t size)
{
    unsigned fl, sl;
    uint64_t fls;
    uint32_t sls;

    class_holding(size, &fl, &sl);
    if (fl >= N_FL)
        return NONE;
    sls = va->sl_map[fl] & (UINT32_MAX << sl);
    if (!sls) {
        fls = va->fl_map & (UINT64_MAX << (fl + 1)); /* N_FL is below 64 */
        if (!fls)
            return NONE;
        fl = (unsigned)__builtin_ctzll(fls);
        sls = va->sl_map[fl];
    }
    return va->heads[fl][__builtin_ctz(sls)];
}

/* ---- blocks ----------------------------------------------------------- */

/* Makes sure that n more blocks can be had without failing. */
static bool
reserve_blocks(struct mem_va *va, uint32_t n)
{
    uint32_t i = va->spare;

    while (n && i != NONE) {
        i = va->blocks[i].free_next;
        n--;
    }
    if (va->n_blocks > NONE - 1 - n)
        return false;
    return host_grow((void **)&va->blocks, &va->cap_blocks,
                     (size_t)va->n_blocks + n, sizeof(*va->blocks)) == 0;
}

static uint32_t
new_block(struct mem_va *va)
{
    uint32_t i = va->spare;

    if (i == NONE)
        return va->n_blocks++;
    va->spare = va->blocks[i].free_next;
    return i;
}

static void
drop_block(struct mem_va *va, uint32_t i)
{
    va->blocks[i].free_next = va->spare;
    va->blocks[i].is_free = false;
    va->blocks[i].size = 0;
    va->spare = i;
}

/* Cuts block i after `size` granules; the rest becomes a new block, which is
 * returned. Neither is in a free list. Blocks were reserved. */
static uint32_t
va_cut(struct mem_va *va, uint32_t i, uint64_t size)
{
    uint32_t r = new_block(va);
    struct block *b = &va->blocks[i], *rest = &va->blocks[r];

    assert(b->size > size && size > 0);
    *rest = (struct block){
        .addr = b->addr + size,
        .size = b->size - size,
        .prev = i,
        .next = b->next,
    };
    if (rest->next != NONE)
        va->blocks[rest->next].prev = r;
    b->next = r;
    b->size = size;
    return r;
}

/* Joins block i with its higher neighbour, which is dropped. */
static void
join_next(struct mem_va *va, uint32_t i)
{
    uint32_t n = va->blocks[i].next;

    va->blocks[i].size += va->blocks[n].size;
    va->blocks[i].next = va->blocks[n].next;
    if (va->blocks[i].next != NONE)
        va->blocks[va->blocks[i].next].prev = i;
    drop_block(va, n);
}

/* Takes [addr, addr + size) out of the free block i that holds it. */
static uint32_t
carve(struct mem_va *va, uint32_t i, uint64_t addr, uint64_t size)
{
    uint32_t low = i;

    va_take_free(va, i);
    if (addr > va->blocks[i].addr) {
        i = va_cut(va, low, addr - va->blocks[low].addr);
        put_free(va, low);
    }
    if (va->blocks[i].size > size)
        put_free(va, va_cut(va, i, size));
    va->n_out++;
    return i;
}

/* ---- life ------------------------------------------------------------- */

bell_status
mem_va_create(uint64_t base, uint64_t size_bytes, uint64_t granule_bytes,
              struct mem_va **out_va)
{
    struct mem_va *va;

    if (!is_pow2(granule_bytes) || !size_bytes ||
        (base | size_bytes) & (granule_bytes - 1) ||
        base + (size_bytes - 1) < base)
        return bell_fail(BELL_E_INVALID,
                         "address space 0x%llx + 0x%llx in granules of 0x%llx",
                         (unsigned long long)base,
                         (unsigned long long)size_bytes,
                         (unsigned long long)granule_bytes);
    va = host_calloc(1, sizeof(*va));
    if (!va)
        return bell_fail(BELL_E_NO_MEMORY, "out of memory for addresses");
    va->base = base;
    va->granule_log2 = log2_floor(granule_bytes);
    va->n_granules = size_bytes >> va->granule_log2;
    va->spare = va->first = NONE;
    memset(va->heads, 0xff, sizeof(va->heads));
    if (!reserve_blocks(va, 1)) {
        host_free(va);
        return bell_fail(BELL_E_NO_MEMORY, "out of memory for addresses");
    }
    va->first = new_block(va);
    va->blocks[va->first] =
        (struct block){.size = va->n_granules, .prev = NONE, .next = NONE};
    put_free(va, va->first);
    *out_va = va;
    return BELL_OK;
}

void
mem_va_destroy(struct mem_va *va)
{
    if (!va)
        return;
    assert(mem_va_check(va));
    host_free(va->blocks);
    host_free(va);
}

/* ---- taking and giving back ------------------------------------------- */

static void
fill_range(const struct mem_va *va, uint32_t i, struct mem_range *out)
{
    out->addr = va->base + (va->blocks[i].addr << va->granule_log2);
    out->size_bytes = va->blocks[i].size << va->granule_log2;
    out->block = i;
}

/* The first multiple of the alignment in block i from which `size` granules
 * fit; alignment counts from address 0, not from the base. */
static bool
fits_aligned(const struct mem_va *va, uint32_t i, uint64_t size,
             uint64_t align_bytes, uint64_t *out_addr)
{
    const struct block *b = &va->blocks[i];
    uint64_t from = va->base + (b->addr << va->granule_log2), pad;

    pad = (0 - from) & (align_bytes - 1);
    pad >>= va->granule_log2;
    if (pad > b->size || b->size - pad < size)
        return false;
    *out_addr = b->addr + pad;
    return true;
}

bell_status
mem_va_alloc(struct mem_va *va, uint64_t size_bytes, uint64_t align_bytes,
             struct mem_range *out_range)
{
    uint64_t granule = 1ull << va->granule_log2, size, slack, addr;
    uint32_t i;

    if (align_bytes < granule)
        align_bytes = granule;
    if (!size_bytes || !is_pow2(align_bytes))
        return bell_fail(
            BELL_E_INVALID, "a range of %llu bytes aligned to %llu",
            (unsigned long long)size_bytes, (unsigned long long)align_bytes);
    size = ((size_bytes - 1) >> va->granule_log2) + 1;
    slack = (align_bytes >> va->granule_log2) - 1;
    if (!reserve_blocks(va, 2))
        return bell_fail(BELL_E_NO_MEMORY, "out of memory for addresses");
    /* Most often the first that is large enough is aligned as well. */
    i = size <= va->n_granules ? find_free(va, size) : NONE;
    if (i == NONE || !fits_aligned(va, i, size, align_bytes, &addr)) {
        i = slack <= va->n_granules && size <= va->n_granules - slack
                ? find_free(va, size + slack)
                : NONE;
        if (i == NONE || !fits_aligned(va, i, size, align_bytes, &addr))
            return bell_fail(
                BELL_E_NO_MEMORY,
                "out of memory: no free range of %llu bytes aligned to %llu: "
                "%llu bytes are free in %u pieces",
                (unsigned long long)size_bytes, (unsigned long long)align_bytes,
                (unsigned long long)(va->free_granules << va->granule_log2),
                va->n_free);
    }
    fill_range(va, carve(va, i, addr, size), out_range);
    return BELL_OK;
}

bell_status
mem_va_alloc_at(struct mem_va *va, uint64_t addr, uint64_t size_bytes,
                struct mem_range *out_range)
{
    uint64_t granule = 1ull << va->granule_log2, from, size;
    uint32_t i;

    if (!size_bytes || (addr | size_bytes) & (granule - 1) || addr < va->base)
        return bell_fail(BELL_E_INVALID, "the range 0x%llx + 0x%llx",
                         (unsigned long long)addr,
                         (unsigned long long)size_bytes);
    from = (addr - va->base) >> va->granule_log2;
    size = size_bytes >> va->granule_log2;
    if (!reserve_blocks(va, 2))
        return bell_fail(BELL_E_NO_MEMORY, "out of memory for addresses");
    for (i = va->first; i != NONE; i = va->blocks[i].next) {
        const struct block *b = &va->blocks[i];
        if (from < b->addr || from - b->addr >= b->size)
            continue;
        if (!b->is_free || b->size - (from - b->addr) < size)
            break;
        fill_range(va, carve(va, i, from, size), out_range);
        return BELL_OK;
    }
    return bell_fail(BELL_E_INVALID, "the range 0x%llx + 0x%llx is not free",
                     (unsigned long long)addr, (unsigned long long)size_bytes);
}

void
mem_va_free(struct mem_va *va, const struct mem_range *range)
{
    uint32_t i = range->block, next, prev;

    assert(i < va->n_blocks && !va->blocks[i].is_free && va->blocks[i].size);
    assert(va->base + (va->blocks[i].addr << va->granule_log2) == range->addr);
    va->n_out--;
    next = va->blocks[i].next;
    prev = va->blocks[i].prev;
    if (next != NONE && va->blocks[next].is_free) {
        va_take_free(va, next);
        join_next(va, i);
    }
    if (prev != NONE && va->blocks[prev].is_free) {
        va_take_free(va, prev);
        join_next(va, prev);
        i = prev;
    }
    put_free(va, i);
}

/* ---- looking ---------------------------------------------------------- */

void
mem_va_stats(const struct mem_va *va, struct mem_va_stats *out_stats)
{
    uint64_t largest = 0;
    unsigned fl, sl;
    uint32_t i;

    if (va->fl_map) {
        fl = log2_floor(va->fl_map);
        sl = log2_floor(va->sl_map[fl]);
        for (i = va->heads[fl][sl]; i != NONE; i = va->blocks[i].free_next)
            largest =
                va->blocks[i].size > largest ? va->blocks[i].size : largest;
    }
    *out_stats = (struct mem_va_stats){
        .total_bytes = va->n_granules << va->granule_log2,
        .free_bytes = va->free_granules << va->granule_log2,
        .largest_free_bytes = largest << va->granule_log2,
        .n_used = va->n_out,
        .n_free = va->n_free,
    };
}

bool
mem_va_check(const struct mem_va *va)
{
    uint64_t at = 0, free_granules = 0;
    uint32_t i, prev = NONE, n_out = 0, n_free = 0, in_lists = 0;
    unsigned fl, sl;

    for (i = va->first; i != NONE; prev = i, i = va->blocks[i].next) {
        const struct block *b = &va->blocks[i];
        if (b->addr != at || !b->size || b->prev != prev)
            return false;
        if (b->is_free && prev != NONE && va->blocks[prev].is_free)
            return false; /* unmerged */
        at += b->size;
        n_free += b->is_free;
        n_out += !b->is_free;
        free_granules += b->is_free ? b->size : 0;
    }
    for (fl = 0; fl < N_FL; fl++) {
        for (sl = 0; sl < N_SL; sl++) {
            bool bit = (va->sl_map[fl] >> sl & 1) != 0;
            if (bit != (va->heads[fl][sl] != NONE))
                return false;
            for (i = va->heads[fl][sl]; i != NONE;
                 i = va->blocks[i].free_next) {
                unsigned f, s;
                class_of(va->blocks[i].size, &f, &s);
                if (f != fl || s != sl || !va->blocks[i].is_free)
                    return false;
                in_lists++;
            }
        }
        if ((va->fl_map >> fl & 1) != (va->sl_map[fl] != 0))
            return false;
    }
    return at == va->n_granules && n_out == va->n_out && n_free == va->n_free &&
           in_lists == n_free && free_granules == va->free_granules;
}
