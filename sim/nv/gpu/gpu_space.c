/* Address spaces: the simulated cards' common page tables. */
#include "sim/nv/gpu/gpu_internal.h"

#include <assert.h>

#include "base/alloc.h"
#include "base/bits.h"

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
    return is_write && (flags & SIM_PAGE_READ_ONLY) ? NULL : host;
}
