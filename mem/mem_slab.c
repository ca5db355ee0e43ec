/* Objects of one size. */
#include "mem/mem_slab.h"

#include <assert.h>

#include "base/alloc.h"
#include "base/bits.h"

#define NONE UINT32_MAX

struct page {
    void *piece;    /* NULL: the page is not in use */
    uint64_t *used; /* owned: one bit per object */
    uint32_t n_used;
    uint32_t hint;       /* no word before this one has room */
    uint32_t prev, next; /* among pages with room; next links unused ones */
};

struct mem_slab {
    const struct mem_slab_ops *ops;
    void *user;
    uint64_t object_bytes, piece_bytes;
    uint32_t n_objects, n_words; /* per page */
    struct page *pages;          /* owned */
    size_t cap_pages;
    uint32_t n_pages, n_pieces, n_empty, n_used;
    uint32_t roomy, spare; /* heads of the lists */
};

bell_status
mem_slab_create(uint64_t object_bytes, uint64_t piece_bytes,
                const struct mem_slab_ops *ops, void *user,
                struct mem_slab **out_slab)
{
    struct mem_slab *slab;

    if (!object_bytes || piece_bytes < object_bytes ||
        piece_bytes / object_bytes > UINT32_MAX / 2)
        return bell_fail(
            BELL_E_INVALID, "objects of %llu bytes in pieces of %llu",
            (unsigned long long)object_bytes, (unsigned long long)piece_bytes);
    slab = host_calloc(1, sizeof(*slab));
    if (!slab)
        return bell_fail(BELL_E_NO_MEMORY, "out of memory for a slab");
    slab->ops = ops;
    slab->user = user;
    slab->object_bytes = object_bytes;
    slab->piece_bytes = piece_bytes;
    slab->n_objects = (uint32_t)(piece_bytes / object_bytes);
    slab->n_words = (uint32_t)div_up(slab->n_objects, 64);
    slab->roomy = slab->spare = NONE;
    *out_slab = slab;
    return BELL_OK;
}

void
mem_slab_destroy(struct mem_slab *slab)
{
    uint32_t i;

    if (!slab)
        return;
    for (i = 0; i < slab->n_pages; i++) {
        if (slab->pages[i].piece)
            slab->ops->shrink(slab->user, slab->pages[i].piece);
        host_free(slab->pages[i].used);
    }
    host_free(slab->pages);
    host_free(slab);
}

static void
link_roomy(struct mem_slab *slab, uint32_t i)
{
    slab->pages[i].prev = NONE;
    slab->pages[i].next = slab->roomy;
    if (slab->roomy != NONE)
        slab->pages[slab->roomy].prev = i;
    slab->roomy = i;
}

static void
unlink_roomy(struct mem_slab *slab, uint32_t i)
{
    struct page *page = &slab->pages[i];

    if (page->prev != NONE)
        slab->pages[page->prev].next = page->next;
    else
        slab->roomy = page->next;
    if (page->next != NONE)
        slab->pages[page->next].prev = page->prev;
}

/* Gets a piece and makes a page with room of it. */
static bell_status
add_page(struct mem_slab *slab)
{
    uint32_t i = slab->spare;
    struct page page = {0};
    bell_status status;

    if (i == NONE &&
        host_grow((void **)&slab->pages, &slab->cap_pages,
                  (size_t)slab->n_pages + 1, sizeof(*slab->pages)) < 0)
        return bell_fail(BELL_E_NO_MEMORY, "out of memory for a slab");
    page.used = host_calloc(slab->n_words, sizeof(*page.used));
    if (!page.used)
        return bell_fail(BELL_E_NO_MEMORY, "out of memory for a slab");
    status = slab->ops->grow(slab->user, slab->piece_bytes, &page.piece);
    if (status != BELL_OK) {
        host_free(page.used);
        return status;
    }
    if (i == NONE)
        i = slab->n_pages++;
    else
        slab->spare = slab->pages[i].next;
    slab->pages[i] = page;
    slab->n_pieces++;
    slab->n_empty++;
    link_roomy(slab, i);
    return BELL_OK;
}

bell_status
mem_slab_alloc(struct mem_slab *slab, struct mem_slot *out_slot)
{
    struct page *page;
    uint32_t bit, index;

    if (slab->roomy == NONE)
        BELL_TRY(add_page(slab));
    page = &slab->pages[slab->roomy];
    while (page->used[page->hint] == UINT64_MAX)
        page->hint++;
    bit = (uint32_t)__builtin_ctzll(~page->used[page->hint]);
    index = page->hint * 64 + bit;
    assert(index < slab->n_objects);
    page->used[page->hint] |= 1ull << bit;
    *out_slot = (struct mem_slot){
        .piece = page->piece,
        .offset_bytes = index * slab->object_bytes,
        .page = slab->roomy,
        .index = index,
    };
    if (page->n_used++ == 0)
        slab->n_empty--;
    slab->n_used++;
    if (page->n_used == slab->n_objects)
        unlink_roomy(slab, slab->roomy);
    return BELL_OK;
}

void
mem_slab_free(struct mem_slab *slab, const struct mem_slot *slot)
{
    struct page *page = &slab->pages[slot->page];
    uint32_t word = slot->index / 64;

    assert(page->used[word] >> (slot->index % 64) & 1);
    page->used[word] &= ~(1ull << (slot->index % 64));
    if (page->hint > word)
        page->hint = word;
    slab->n_used--;
    if (page->n_used-- == slab->n_objects)
        link_roomy(slab, slot->page);
    if (page->n_used)
        return;
    if (slab->n_empty == 0) {
        slab->n_empty = 1;
        return;
    }
    unlink_roomy(slab, slot->page);
    slab->ops->shrink(slab->user, page->piece);
    host_free(page->used);
    *page = (struct page){.next = slab->spare};
    slab->spare = slot->page;
    slab->n_pieces--;
}

uint32_t
mem_slab_used(const struct mem_slab *slab)
{
    return slab->n_used;
}

uint32_t
mem_slab_pieces(const struct mem_slab *slab)
{
    return slab->n_pieces;
}
