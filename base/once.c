/* Objects at addresses that are used once.
 *
 * Regions come from the heap and stay on a list: leak checkers look through
 * them for what objects hold.
 */
#include "base/once.h"

#include <stdatomic.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>

#include "base/alloc.h"
#include "base/bits.h"

#define ONCE_PAGES 64u /* of a region */
#define ONCE_BYTES (ONCE_PAGES * ONCE_PAGE_BYTES)

struct once_region {
    struct once_region *next;
    _Atomic size_t n_used; /* pages; more where one did not find room */
    uint8_t *pages;
    _Atomic uint32_t kinds[ONCE_PAGES]; /* of the objects that begin there */
    void *_Atomic parents[ONCE_PAGES];
};

static struct once_region *_Atomic once_regions;
_Atomic uintptr_t once_known[ONCE_KNOWN];

static size_t
pages_of(size_t size_bytes)
{
    return align_up(size_bytes, ONCE_PAGE_BYTES) / ONCE_PAGE_BYTES;
}

/* A region that nobody else sees yet, with n pages taken. */
static struct once_region *
make_region(size_t n)
{
    size_t n_pages = n > ONCE_PAGES ? n : ONCE_PAGES;
    struct once_region *region = host_calloc(1, sizeof(*region));

    if (region)
        region->pages =
            host_aligned(ONCE_PAGE_BYTES, n_pages * ONCE_PAGE_BYTES);
    if (!region || !region->pages) {
        host_free(region);
        return NULL;
    }
    region->n_used = n;
    return region;
}

void *
once_alloc(size_t size_bytes, uint32_t kind, void *parent)
{
    struct once_region *region = once_regions;
    size_t n = pages_of(size_bytes), at = 0;

    if (region)
        at = atomic_fetch_add(&region->n_used, n);
    if (!region || at + n > ONCE_PAGES) {
        region = make_region(n);
        if (!region)
            return NULL;
        at = 0;
        region->next = once_regions;
        while (
            !atomic_compare_exchange_weak(&once_regions, &region->next, region))
            continue;
    }
    atomic_store_explicit(&region->parents[at], parent, memory_order_relaxed);
    atomic_store_explicit(&region->kinds[at], kind, memory_order_release);
    return memset(region->pages + at * ONCE_PAGE_BYTES, 0, n * ONCE_PAGE_BYTES);
}

struct once_mark
once_find(const void *address)
{
    const struct once_region *region = once_regions;
    uintptr_t bits = (uintptr_t)address, at = 0;
    struct once_mark mark = {0};

    while (region && (at = bits - (uintptr_t)region->pages) >= ONCE_BYTES)
        region = region->next;
    if (!region || at % ONCE_PAGE_BYTES != 0)
        return mark;
    at /= ONCE_PAGE_BYTES;
    mark.kind = atomic_load_explicit(&region->kinds[at], memory_order_acquire);
    mark.parent =
        atomic_load_explicit(&region->parents[at], memory_order_relaxed);
    if (mark.kind)
        atomic_store_explicit(&once_known[bits / ONCE_PAGE_BYTES % ONCE_KNOWN],
                              bits | mark.kind, memory_order_relaxed);
    return mark;
}

/* Cleared first: where the system does not take the pages, they stay. */
void
once_end(void *object, size_t size_bytes)
{
    if (!object)
        return;
    memset(object, 0, size_bytes);
    (void)madvise(object, pages_of(size_bytes) * ONCE_PAGE_BYTES,
                  MADV_DONTNEED);
}
