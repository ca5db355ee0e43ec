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

#define ONCE_PAGE_BYTES 4096u
#define ONCE_PAGES      64u /* of a region */

struct once_region {
    struct once_region *next;
    _Atomic size_t n_used; /* pages; more where one did not find room */
    uint8_t *pages;
};

static struct once_region *_Atomic once_regions;

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
once_alloc(size_t size_bytes)
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
    return memset(region->pages + at * ONCE_PAGE_BYTES, 0, n * ONCE_PAGE_BYTES);
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
