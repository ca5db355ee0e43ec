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
    return is_write && (flags & SIM_PAGE_READ_ONLY) ? NULL : host;
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
