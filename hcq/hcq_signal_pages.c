/* Memory for signals: see hcq_signal_pages.h. */
#include "hcq/hcq_signal_pages.h"

#include <assert.h>
#include <pthread.h>
#include <string.h>

#include "base/alloc.h"
#include "mem/mem_slab.h"

struct page {
    struct page *next;
    struct hcq_signal_page page;
    /* of those that are out */
    struct mem_slot slots[HCQ_SIGNAL_PAGE_BYTES / HCQ_SIGNAL_BYTES];
};

struct hcq_signal_pages {
    const struct hcq_signal_page_ops *ops;
    void *user;
    pthread_mutex_t lock; /* all below */
    struct mem_slab *slab;
    struct page *first; /* owned by the slab */
};

static bell_status
grow_pages(void *user, uint64_t piece_bytes, void **out_piece)
{
    struct hcq_signal_pages *pages = user;
    struct page *page = host_calloc(1, sizeof(*page));
    bell_status status;

    (void)piece_bytes;
    if (!page)
        return bell_fail(BELL_E_NO_MEMORY, "out of memory for signals");
    status = pages->ops->alloc(pages->user, &page->page);
    if (status != BELL_OK) {
        host_free(page);
        return status;
    }
    page->next = pages->first;
    pages->first = page;
    *out_piece = page;
    return BELL_OK;
}

static void
shrink_pages(void *user, void *piece)
{
    struct hcq_signal_pages *pages = user;
    struct page **at = &pages->first, *page = piece;

    while (*at != page)
        at = &(*at)->next;
    *at = page->next;
    pages->ops->release(pages->user, &page->page);
    host_free(page);
}

bell_status
hcq_signal_pages_create(const struct hcq_signal_page_ops *ops, void *user,
                        struct hcq_signal_pages **out_pages)
{
    static const struct mem_slab_ops slab_ops = {
        .grow = grow_pages,
        .shrink = shrink_pages,
    };
    struct hcq_signal_pages *pages = host_calloc(1, sizeof(*pages));
    bell_status status;

    if (!pages)
        return bell_fail(BELL_E_NO_MEMORY, "out of memory for signals");
    pages->ops = ops;
    pages->user = user;
    status = mem_slab_create(HCQ_SIGNAL_BYTES, HCQ_SIGNAL_PAGE_BYTES, &slab_ops,
                             pages, &pages->slab);
    if (status != BELL_OK) {
        host_free(pages);
        return status;
    }
    pthread_mutex_init(&pages->lock, NULL);
    *out_pages = pages;
    return BELL_OK;
}

void
hcq_signal_pages_destroy(struct hcq_signal_pages *pages)
{
    if (!pages)
        return;
    mem_slab_destroy(pages->slab);
    pthread_mutex_destroy(&pages->lock);
    host_free(pages);
}

bell_status
hcq_signal_pages_alloc(struct hcq_signal_pages *pages, uint64_t *out_va,
                       uint64_t **out_host)
{
    struct page *page;
    struct mem_slot slot;
    bell_status status;

    pthread_mutex_lock(&pages->lock);
    status = mem_slab_alloc(pages->slab, &slot);
    if (status == BELL_OK) {
        assert(slot.offset_bytes % HCQ_SIGNAL_BYTES == 0);
        page = slot.piece;
        page->slots[slot.offset_bytes / HCQ_SIGNAL_BYTES] = slot;
        *out_va = page->page.va + slot.offset_bytes;
        *out_host = (uint64_t *)(void *)(page->page.host + slot.offset_bytes);
        memset(*out_host, 0, HCQ_SIGNAL_BYTES);
    }
    pthread_mutex_unlock(&pages->lock);
    return status;
}

void
hcq_signal_pages_free(struct hcq_signal_pages *pages, uint64_t va)
{
    struct page *page;
    struct mem_slot slot;

    pthread_mutex_lock(&pages->lock);
    page = pages->first;
    while (page && va - page->page.va >= HCQ_SIGNAL_PAGE_BYTES)
        page = page->next;
    if (page) {
        slot = page->slots[(va - page->page.va) / HCQ_SIGNAL_BYTES];
        assert(slot.piece == page);
        mem_slab_free(pages->slab, &slot);
    }
    pthread_mutex_unlock(&pages->lock);
}

void
hcq_signal_pages_each(struct hcq_signal_pages *pages, hcq_signal_page_fn *fn,
                      void *user)
{
    const struct page *page;

    pthread_mutex_lock(&pages->lock);
    for (page = pages->first; page; page = page->next)
        fn(user, &page->page);
    pthread_mutex_unlock(&pages->lock);
}
