/* Address spaces: the simulated cards' common page tables. */
#include "sim/nv/gpu/gpu_internal.h"

#include <assert.h>

#include "base/alloc.h"
#include "base/bits.h"
#include "sim/links.h"

bell_status
nvgpu_space_create(struct nvgpu *gpu, struct nvgpu_space **out_space)
{
    struct nvgpu_space *space = host_calloc(1, sizeof(*space));
    bell_status status;

    (void)gpu;
    if (!space)
        return bell_fail(BELL_E_NO_MEMORY, "address space: out of memory");
    status = sim_space_create(&space->pages);
    if (status != BELL_OK) {
        host_free(space);
        return status;
    }
    *out_space = space;
    return BELL_OK;
}

void
nvgpu_space_destroy(struct nvgpu_space *space)
{
    if (!space)
        return;
    sim_space_destroy(space->pages);
    host_free(space);
}

bell_status
nvgpu_space_map(struct nvgpu_space *space, uint64_t va, void *host,
                uint64_t size_bytes, uint32_t page_bytes, uint32_t flags)
{
    uint32_t page_flags = 0;

    assert(is_pow2(page_bytes));
    if (flags & NVGPU_MAP_READ_ONLY)
        page_flags |= SIM_PAGE_READ_ONLY;
    if (flags & NVGPU_MAP_SYSTEM)
        page_flags |= SIM_PAGE_SYSTEM;
    if (flags & NVGPU_MAP_TEAM)
        page_flags |= SIM_PAGE_TEAM;
    page_flags |= flags & NVGPU_MAP_PEER_MASK;
    return sim_space_map(space->pages, va, host, size_bytes, page_bytes,
                         page_flags);
}

void
nvgpu_space_unmap(struct nvgpu_space *space, uint64_t va, uint64_t size_bytes)
{
    sim_space_unmap(space->pages, va, size_bytes);
}

uint64_t
nvgpu_space_mapped(const struct nvgpu_space *space)
{
    return sim_space_mapped(space->pages);
}

void *
nvgpu_span(struct nvgpu_chan *chan, uint64_t va, bool is_write,
           uint64_t *out_bytes)
{
    uint32_t flags;
    void *host = sim_walk_span(&chan->walk, va, out_bytes, &flags);

    assert(out_bytes);
    chan->span_owner = SIM_PAGE_OWNER(flags);
    if (flags & SIM_PAGE_TEAM)
        return NULL;
    return is_write && (flags & SIM_PAGE_READ_ONLY) ? NULL : host;
}

/* The memory of each card of the team at that offset; 0: one has none. */
static uint32_t
list_members(struct nvgpu_team *team, uint64_t offset, uint32_t n_bytes,
             uint8_t *out[NVGPU_TEAM_MAX], uint32_t cards[NVGPU_TEAM_MAX])
{
    uint32_t found = 0, n = 0;
    size_t i;

    for (i = 0; i < team->n_pieces; i++) {
        const struct nvgpu_team_piece *p = &team->pieces[i];

        if (!p->host || offset < p->offset || n_bytes > p->size_bytes ||
            offset - p->offset > p->size_bytes - n_bytes)
            continue;
        assert(n < NVGPU_TEAM_MAX);
        out[n] = p->host + (offset - p->offset);
        cards[n++] = p->card;
        found |= 1u << p->card;
    }
    return found == team->cards ? n : 0;
}

uint32_t
nvgpu_team_at(struct nvgpu_chan *chan, uint64_t va, uint32_t n_bytes,
              bool is_write, uint8_t *out[NVGPU_TEAM_MAX])
{
    uint32_t cards[NVGPU_TEAM_MAX], flags, n, i;
    const struct nvgpu_team_page *page;
    struct nvgpu *gpu = chan->gpu;
    uint64_t bytes, at;
    uint8_t *host = sim_walk_span(&chan->walk, va, &bytes, &flags);

    if (!host || !(flags & SIM_PAGE_TEAM) || bytes < n_bytes ||
        (is_write && (flags & SIM_PAGE_READ_ONLY)))
        return 0;
    at = (uintptr_t)host % NVGPU_TEAM_PAGE_BYTES;
    page = (const struct nvgpu_team_page *)(const void *)(host - at);
    pthread_rwlock_rdlock(&page->team->lock);
    n = list_members(page->team, page->offset + at, n_bytes, out, cards);
    pthread_rwlock_unlock(&page->team->lock);
    for (i = 0; i < n && gpu->traffic; i++) {
        if (cards[i] != gpu->index)
            sim_links_add(gpu->traffic, gpu->index, cards[i], SIM_LINK_KERNEL,
                          is_write, n_bytes);
    }
    return n;
}

void
nvgpu_count_data(struct nvgpu_chan *chan, uint64_t va, uint64_t bytes,
                 bool is_write, bool by_kernel)
{
    struct nvgpu *gpu = chan->gpu;
    uint32_t flags;
    uint64_t n;
    int owner;

    if (!gpu->traffic || !sim_walk_span(&chan->walk, va, &n, &flags))
        return;
    owner = SIM_PAGE_OWNER(flags);
    if (owner >= 0)
        sim_links_add(gpu->traffic, gpu->index, (uint32_t)owner,
                      by_kernel ? SIM_LINK_KERNEL : SIM_LINK_COPY, is_write,
                      bytes);
}
