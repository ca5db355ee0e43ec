/* Address spaces: which addresses are held, and what is mapped where.
 *
 * src: docs/hardware/nvidia-kernel.md, "Address spaces", "Bring-up" (step 8),
 * "GPU mappings"; carriers: NVIDIA/open-gpu-kernel-modules 580.142, the
 * functions named below, which do the same from 535 to 595.
 *
 * Leads: where RM chooses in a space; the statuses for an overlap of mappings
 * (INVALID_ARGUMENT, which a second mapping in one carrier is known to give),
 * for a misaligned mapping (INVALID_OFFSET) and for one in a space that is
 * UVM's (NOT_SUPPORTED); that host memory below another card's device wants an
 * object of its own below this one's (RM_DUP_OBJECT) before it can be mapped.
 */
#include "sim/nv/rm/rm.h"

#include <assert.h>
#include <string.h>

#include "base/alloc.h"
#include "base/bits.h"
#include "ioctl/nv_uapi.h"

/* Where a space starts that the caller does not say it of. src: observed: H100,
 * 2026-11-22 */
#define FIRST_VA ((uint64_t)1 << 20)

/* NV_VASPACE_ALLOCATION_PARAMETERS */
#define VAS_EXTERNAL (1u << 3)
#define VAS_PAGEABLE (1u << 6)
/* NV_MEMORY_ALLOCATION_PARAMS */
#define ATTR_PAGE(a)         ((a) >> 23 & 3) /* 0: default, 4K, big, huge */
#define LOCATION_ANY         3u
#define FLAG_FIXED_ADDRESS   0x10u
#define FLAG_ALIGNMENT_HINT  0x80u
#define FLAG_ALIGNMENT_FORCE 0x100u
#define FLAG_USE_BEGIN_END   0x20000u
#define FLAG_VIRTUAL         0x80000u
/* NVOS46 */
#define OS46_ACCESS(f) ((f)&3)
#define OS46_SNOOP     (1u << 4)
#define OS46_PAGE(f)   ((f) >> 8 & 15)
#define OS46_FIXED     (1u << 15)
#define OS46_P2P(f)    ((f) >> 20 & 3)
#define OS46_P2P_NOSLI 2u
#define OS46_KNOWN                                                             \
    (3u | OS46_SNOOP | 15u << 8 | OS46_FIXED | 3u << 17 | 3u << 20)

/* ---- spaces ---- */

enum rm_status
rm_vas_create(struct rm_card *card, bool external, uint64_t start, uint64_t end,
              struct rm_vas **out_vas)
{
    struct rm_machine *machine = card->machine;
    struct rm_vas *vas = host_calloc(1, sizeof(*vas));

    if (!vas)
        return RM_NO_MEMORY;
    if (nvgpu_space_create(card->gpu, &vas->space) != BELL_OK) {
        host_free(vas);
        return RM_NO_MEMORY;
    }
    vas->refs = 1;
    vas->card = card;
    vas->external = external;
    vas->start = start ? start : FIRST_VA;
    vas->end = end ? end : (uint64_t)1 << (machine->chip->sm >= 90 ? 57 : 49);
    vas->next = machine->spaces;
    machine->spaces = vas;
    *out_vas = vas;
    return RM_OK;
}

void
rm_vas_retain(struct rm_vas *vas)
{
    assert(vas->refs > 0);
    vas->refs++;
}

void
rm_vas_release(struct rm_vas *vas)
{
    struct rm_vas **link;

    if (!vas || --vas->refs > 0)
        return;
    while (vas->maps)
        rm_map_remove(vas, vas->maps);
    while (vas->ranges) {
        struct rm_range *range = vas->ranges;
        vas->ranges = range->next;
        host_free(range);
    }
    for (link = &vas->card->machine->spaces; *link != vas;)
        link = &(*link)->next;
    *link = vas->next;
    nvgpu_space_destroy(vas->space);
    host_free(vas);
}

enum rm_status
rm_alloc_vas(struct rm_alloc *a)
{
    struct nv_vaspace_alloc *params = a->params;
    enum rm_status status;
    uint64_t end = 0;

    if (params->index != 0)
        return rm_refuse(RM_NOT_SUPPORTED, "address space of index %u",
                         params->index);
    if (params->flags & ~(VAS_EXTERNAL | VAS_PAGEABLE))
        return rm_refuse(RM_INVALID_FLAGS, "address space flags 0x%x",
                         params->flags);
    if (params->vaSize && params->vaBase + params->vaSize < params->vaBase)
        return rm_refuse(RM_INVALID_ARGUMENT, "address space wraps around");
    if (params->vaSize)
        end = params->vaBase + params->vaSize;
    status = rm_vas_create(a->object->card, params->flags & VAS_EXTERNAL,
                           params->vaBase, end, &a->object->vas);
    if (status != RM_OK)
        return status;
    params->vaBase = a->object->vas->start;
    params->vaSize = a->object->vas->end - a->object->vas->start;
    return RM_OK;
}

/* ---- addresses ---- */

/* The lowest free address in [lo, hi) for that many bytes; 0: there is none.
 * Both lists are in order of address. */
static uint64_t
choose_va(const struct rm_vas *vas, uint64_t size_bytes, uint64_t align_bytes,
          uint64_t lo, uint64_t hi)
{
    const struct rm_range *r = vas->ranges;
    const struct rm_map *m = vas->maps;
    uint64_t va = align_up(lo, align_bytes);

    for (;;) {
        while (r && r->va + r->size_bytes <= va)
            r = r->next;
        while (m && m->va + m->size_bytes <= va)
            m = m->next;
        if (va >= hi || size_bytes > hi - va)
            return 0;
        if (r && rm_ranges_meet(va, size_bytes, r->va, r->size_bytes))
            va = align_up(r->va + r->size_bytes, align_bytes);
        else if (m && rm_ranges_meet(va, size_bytes, m->va, m->size_bytes))
            va = align_up(m->va + m->size_bytes, align_bytes);
        else
            return va;
    }
}

static enum rm_status
hold_range(struct rm_vas *vas, uint64_t va, uint64_t size_bytes)
{
    struct rm_range **link = &vas->ranges, *range;

    assert(size_bytes > 0);
    while (*link && (*link)->va + (*link)->size_bytes <= va)
        link = &(*link)->next;
    if (*link &&
        rm_ranges_meet(va, size_bytes, (*link)->va, (*link)->size_bytes))
        return rm_refuse(
            RM_INVALID_ARGUMENT, "0x%llx..0x%llx meets a range that is held",
            (unsigned long long)va, (unsigned long long)(va + size_bytes));
    range = host_calloc(1, sizeof(*range));
    if (!range)
        return RM_NO_MEMORY;
    *range = (struct rm_range){*link, va, size_bytes};
    *link = range;
    return RM_OK;
}

static void
drop_range(struct rm_vas *vas, uint64_t va)
{
    struct rm_range **link = &vas->ranges, *range;

    while (*link && (*link)->va != va)
        link = &(*link)->next;
    range = *link;
    if (range)
        *link = range->next;
    host_free(range);
}

/* ---- carriers ---- */

/* The pages that RM thinks of for a carrier, whatever will lie behind it.
 * src: _memmgrPickDefaultGpuPageSize */
static uint32_t
carrier_page(const struct nv_memory_alloc *params)
{
    switch (ATTR_PAGE(params->attr)) {
    case 1:
        return RM_PAGE_BYTES;
    case 2:
        return RM_BIG_BYTES;
    case 3:
        return RM_HUGE_BYTES;
    default:
        return params->size >= RM_HUGE_BYTES ? RM_HUGE_BYTES : RM_BIG_BYTES;
    }
}

/* What a carrier takes: RM's arithmetic, in its order. */
static enum rm_status
place_carrier(struct rm_alloc *a, struct rm_vas *vas,
              struct nv_memory_alloc *params, uint64_t *out_va)
{
    const uint32_t force = params->flags & FLAG_ALIGNMENT_FORCE;
    uint32_t page = carrier_page(params);
    uint64_t compr = a->machine->chip->compr_page_bytes, align = RM_PAGE_BYTES;
    uint64_t size, lo = vas->start, end = vas->end, va;

    /* memUtilsInitFBAllocInfo: without a flag, `alignment` means nothing */
    if (force || (params->flags & FLAG_ALIGNMENT_HINT))
        align = params->alignment;
    if (align && !is_pow2(align)) /* lead */
        return rm_refuse(RM_INVALID_ARGUMENT, "alignment 0x%llx",
                         (unsigned long long)align);
    /* memmgrAllocDetermineAlignment_GM107 */
    size = align_up(params->size, page);
    if (align && (align >= page ? align % page == 0 : page % align == 0))
        align = align > page ? align : page;
    else if (align && force)
        return rm_refuse(RM_INVALID_ARGUMENT,
                         "alignment 0x%llx is forced, pages have 0x%x",
                         (unsigned long long)align, page);
    else
        align = page;
    /* memmgrAllocResources_IMPL, virtmemAllocResources: an address that is
     * not aligned moves down by what it is off; the size stays */
    if (params->flags & FLAG_FIXED_ADDRESS) {
        lo = params->offset - params->offset % align;
        end = lo + size;
    } else if (params->flags & FLAG_USE_BEGIN_END) {
        lo = params->rangeLo;
        end = params->rangeHi + 1;
    }
    /* gvaspaceApplyDefaultAlignment_IMPL */
    if (!force && align < compr)
        align = compr;
    /* gvaspaceAlloc_IMPL: the range is clipped, and one of its free addresses
     * is taken; virtmemAllocResources has one status for all that fails */
    lo = lo > vas->start ? lo : vas->start;
    end = end < vas->end ? end : vas->end;
    va = lo < end ? choose_va(vas, size, align, lo, end) : 0;
    if (!va || vas->external)
        return rm_refuse(RM_INSUFFICIENT_RESOURCES,
                         "no 0x%llx addresses, aligned to 0x%llx, are free in "
                         "0x%llx..0x%llx%s",
                         (unsigned long long)size, (unsigned long long)align,
                         (unsigned long long)lo, (unsigned long long)end,
                         vas->external ? ": the space is UVM's" : "");
    a->object->size_bytes = size;
    params->alignment = align;
    *out_va = va;
    return hold_range(vas, va, size);
}

/* What the caller did not restrict says where RM looked. */
static void
answer_carrier(const struct rm_object *object, const struct rm_vas *vas,
               struct nv_memory_alloc *params)
{
    bool any_page = ATTR_PAGE(params->attr) == 0;

    if (params->flags & FLAG_FIXED_ADDRESS) {
        params->rangeLo = object->va;
        params->rangeHi = object->va + object->size_bytes - 1;
    } else if (!(params->flags & FLAG_USE_BEGIN_END)) {
        params->rangeLo = vas->start;
        params->rangeHi = vas->end - 1;
    }
    params->attr =
        (params->attr & ~RM_ATTR_LOCATION(3)) | RM_ATTR_LOCATION(LOCATION_ANY);
    rm_answer_attr(params, carrier_page(params));
    params->attr |= RM_ATTR_PHYSICALITY(RM_CONTIGUOUS);
    if (any_page)
        params->attr &= ~RM_ATTR_PAGE(3);
    params->offset = object->va;
    params->size = object->size_bytes;
    params->limit = object->size_bytes - 1;
}

enum rm_status
rm_alloc_virtual(struct rm_alloc *a)
{
    struct nv_memory_alloc *params = a->params;
    struct rm_object *object = a->object;
    enum rm_status status;
    struct rm_vas *vas;

    if (!(params->flags & FLAG_VIRTUAL))
        return rm_refuse(RM_INVALID_FLAGS, "flags 0x%x: not VIRTUAL",
                         params->flags);
    if (!params->size || params->size > (uint64_t)1 << 57)
        return rm_refuse(RM_INVALID_ARGUMENT, "virtual memory of 0x%llx bytes",
                         (unsigned long long)params->size);
    status = rm_vas_of(a->client, a->parent, params->hVASpace, &vas);
    if (status != RM_OK)
        return status;
    status = place_carrier(a, vas, params, &object->va);
    if (status != RM_OK)
        return status;
    rm_vas_retain(vas);
    object->vas = vas;
    object->has_range = true;
    answer_carrier(object, vas, params);
    return RM_OK;
}

/* Class 0x70: addresses are held only while something is mapped. */
enum rm_status
rm_alloc_dynamic(struct rm_alloc *a)
{
    struct nv_memory_virtual_alloc *params = a->params;
    struct rm_vas *vas;
    enum rm_status status =
        rm_vas_of(a->client, a->parent, params->hVASpace, &vas);
    uint64_t va, end;

    if (status != RM_OK)
        return status;
    va = params->offset > vas->start ? params->offset : vas->start;
    end = params->limit && params->limit < vas->end ? params->limit + 1
                                                    : vas->end;
    if (va >= end)
        return rm_refuse(RM_INVALID_LIMIT, "virtual memory 0x%llx..0x%llx",
                         (unsigned long long)params->offset,
                         (unsigned long long)params->limit);
    rm_vas_retain(vas);
    a->object->vas = vas;
    a->object->va = va;
    a->object->size_bytes = end - va;
    params->offset = va;
    params->limit = end - 1;
    return RM_OK;
}

void
rm_carrier_fini(struct rm_object *object)
{
    if (object->has_range)
        drop_range(object->vas, object->va);
}

/* ---- mappings ---- */

/* The link at which a mapping at va belongs. */
static struct rm_map **
map_place(struct rm_vas *vas, uint64_t va)
{
    struct rm_map **link = &vas->maps;

    while (*link && (*link)->va + (*link)->size_bytes <= va)
        link = &(*link)->next;
    return link;
}

struct rm_map *
rm_map_find(struct rm_vas *vas, uint64_t va)
{
    struct rm_map *map = *map_place(vas, va);

    return map && va >= map->va ? map : NULL;
}

/* Page size and rounded size, or why not. */
static enum rm_status
check_map(const struct rm_map_desc *d, uint32_t *out_page, uint64_t *out_bytes)
{
    uint32_t page = d->page_bytes ? d->page_bytes : d->mem->page_bytes;
    uint64_t size_bytes = align_up(d->size_bytes, page);

    if (page > d->mem->page_bytes)
        return rm_refuse(RM_INVALID_ARGUMENT,
                         "pages of 0x%x bytes for memory of 0x%x", page,
                         d->mem->page_bytes);
    if (d->va % page || d->offset_bytes % page)
        return rm_refuse(RM_INVALID_OFFSET,
                         "virtual address 0x%llx, offset 0x%llx not "
                         "compatible with page size 0x%x",
                         (unsigned long long)d->va,
                         (unsigned long long)d->offset_bytes, page);
    if (!d->size_bytes || d->offset_bytes > d->mem->size_bytes ||
        size_bytes > d->mem->size_bytes - d->offset_bytes)
        return rm_refuse(RM_INVALID_LIMIT,
                         "0x%llx bytes at offset 0x%llx of memory of 0x%llx",
                         (unsigned long long)d->size_bytes,
                         (unsigned long long)d->offset_bytes,
                         (unsigned long long)d->mem->size_bytes);
    *out_page = page;
    *out_bytes = size_bytes;
    return RM_OK;
}

static uint32_t
map_flags(const struct rm_vas *vas, const struct rm_map_desc *d)
{
    uint32_t flags = d->read_only ? NVGPU_MAP_READ_ONLY : 0;

    if (d->mem->card && d->mem->card != vas->card)
        flags |= NVGPU_MAP_PEER(d->mem->card->index);
    if (d->mem->team)
        flags |= NVGPU_MAP_TEAM;
    else if (d->mem->kind != RM_MEM_VIDEO)
        flags |= NVGPU_MAP_SYSTEM | (d->snooped ? NVGPU_MAP_SNOOPED : 0);
    return flags;
}

enum rm_status
rm_map_add(struct rm_vas *vas, const struct rm_map_desc *d)
{
    struct rm_map **link = map_place(vas, d->va), *map;
    uint64_t size_bytes;
    uint32_t page;
    enum rm_status status = check_map(d, &page, &size_bytes);

    if (status != RM_OK)
        return status;
    if (d->va < vas->start || d->va >= vas->end ||
        size_bytes > vas->end - d->va)
        return rm_refuse(RM_INVALID_ADDRESS, "0x%llx is beyond the space",
                         (unsigned long long)d->va);
    if (*link &&
        rm_ranges_meet(d->va, size_bytes, (*link)->va, (*link)->size_bytes))
        return rm_refuse(
            RM_INVALID_ARGUMENT, "0x%llx..0x%llx: memory is mapped at 0x%llx",
            (unsigned long long)d->va, (unsigned long long)(d->va + size_bytes),
            (unsigned long long)(*link)->va);
    map = host_calloc(1, sizeof(*map));
    if (!map)
        return RM_NO_MEMORY;
    if (nvgpu_space_map(vas->space, d->va, d->mem->host + d->offset_bytes,
                        size_bytes, page, map_flags(vas, d)) != BELL_OK) {
        host_free(map);
        return rm_refuse(RM_NO_MEMORY, "%s", bell_error_last()->message);
    }
    rm_mem_retain(d->mem);
    *map = (struct rm_map){
        .next = *link,
        .va = d->va,
        .size_bytes = size_bytes,
        .mem = d->mem,
        .memory = d->memory,
        .carrier = d->carrier,
        .uvm = d->uvm,
    };
    *link = map;
    return RM_OK;
}

void
rm_map_remove(struct rm_vas *vas, struct rm_map *map)
{
    struct rm_map **link = &vas->maps;

    while (*link != map)
        link = &(*link)->next;
    *link = map->next;
    nvgpu_space_unmap(vas->space, map->va, map->size_bytes);
    rm_mem_release(map->mem);
    host_free(map);
}

void
rm_maps_forget(struct rm_machine *machine, const struct rm_object *object,
               const struct rm_uvm *uvm)
{
    struct rm_vas *vas;
    struct rm_map *map, *next;

    for (vas = machine->spaces; vas; vas = vas->next) {
        for (map = vas->maps; map; map = next) {
            next = map->next;
            if ((object && (map->memory == object || map->carrier == object)) ||
                (uvm && map->uvm == uvm))
                rm_map_remove(vas, map);
        }
    }
}

/* ---- RM_MAP_MEMORY_DMA ---- */

/* RM takes the number of any peer on NVLink for it, and where there is none
 * maps what it should not. src: kbusGetNvSwitchPeerId_GA100 */
static enum rm_status
check_team(const struct rm_card *card, const struct rm_mem *mem)
{
    enum rm_status status = rm_team_check(mem, card);
    uint32_t i;

    for (i = 0; status == RM_OK && i < card->machine->n_cards; i++) {
        if (card->machine->n_peerings[card->index][i])
            return RM_OK;
    }
    return status != RM_OK
               ? status
               : rm_refuse(RM_INVALID_STATE,
                           "card %u has no peer: the real driver would map "
                           "other memory",
                           card->index);
}

static enum rm_status
find_dma(struct rm_process *process, int file, uint32_t client_handle,
         uint32_t device, uint32_t dma, uint32_t memory,
         struct rm_object **out_carrier, struct rm_object **out_memory)
{
    struct rm_client *client = rm_client_find(process, file, client_handle);
    struct rm_object *parent;

    if (!client)
        return rm_refuse(RM_INVALID_CLIENT,
                         "no client 0x%x was made on this file", client_handle);
    parent = rm_find(client, device);
    if (!parent ||
        (parent->kind != RM_KIND_DEVICE && parent->kind != RM_KIND_SUBDEVICE))
        return rm_refuse(RM_INVALID_DEVICE, "0x%x is not a device", device);
    *out_carrier = rm_find_kind(client, dma, RM_KIND_CARRIER);
    if (!*out_carrier)
        return rm_refuse(RM_INVALID_OBJECT_HANDLE, "0x%x is not virtual memory",
                         dma);
    *out_memory = rm_find_kind(client, memory, RM_KIND_MEMORY);
    if (!*out_memory)
        return rm_refuse(RM_INVALID_OBJECT_HANDLE, "0x%x is not memory",
                         memory);
    if ((*out_carrier)->card != parent->card)
        return rm_refuse(RM_INVALID_DEVICE,
                         "virtual memory 0x%x is not of device 0x%x", dma,
                         device);
    if ((*out_memory)->mem->team)
        return check_team(parent->card, (*out_memory)->mem);
    if ((*out_memory)->card != parent->card && !(*out_memory)->mem->card)
        return rm_refuse(RM_INVALID_OBJECT_PARENT,
                         "host memory 0x%x hangs below another card's device: "
                         "RM_DUP_OBJECT makes an object of this one's",
                         memory);
    return RM_OK;
}

/* Another card's memory: below a device of that card, with the flag for peers,
 * while the cards are some. Otherwise the real driver takes the address of
 * that memory for one of the card's own.
 * src: virt_mem_allocator_gm107.c, dmaAllocMapping_GM107; mem.c,
 * memGetMemInterMapParams_IMPL */
static enum rm_status
check_peer(const struct rm_object *carrier, const struct rm_object *memory,
           uint32_t flags)
{
    const struct rm_card *owner = memory->mem->card, *card = carrier->card;
    uint32_t p2p = OS46_P2P(flags);

    if (p2p && p2p != OS46_P2P_NOSLI)
        return rm_refuse(RM_NOT_SUPPORTED, "peers of SLI: flags 0x%x", flags);
    if (p2p && !owner)
        return rm_refuse(RM_INVALID_ARGUMENT, "peers' flag with host memory");
    if (!owner || owner == card)
        return p2p ? rm_refuse(RM_INVALID_STATE,
                               "card %u is not a peer of itself", card->index)
                   : RM_OK;
    if (memory->card != owner || !p2p)
        return rm_refuse(RM_INVALID_STATE,
                         "memory 0x%x is card %u's: %s, the real driver would "
                         "map other memory",
                         memory->handle, owner->index,
                         p2p ? "below this card's device"
                             : "without the flag for peers");
    if (!card->machine->n_peerings[card->index][owner->index])
        return rm_refuse(RM_INVALID_STATE, "cards %u and %u are not peers",
                         card->index, owner->index);
    return RM_OK;
}

static enum rm_status
check_os46(const struct rm_object *carrier, const struct nv_os46 *call,
           uint32_t *out_page)
{
    static const uint32_t pages[] = {0, RM_PAGE_BYTES, RM_BIG_BYTES, 0,
                                     RM_HUGE_BYTES};
    uint32_t page = OS46_PAGE(call->flags);

    if ((call->flags & ~OS46_KNOWN) || OS46_ACCESS(call->flags) > 1 ||
        page == 3 || page >= ARRAY_LEN(pages) || call->flags2 ||
        call->kindOverride)
        return rm_refuse(RM_INVALID_FLAGS, "flags 0x%x, 0x%x, kind %u",
                         call->flags, call->flags2, call->kindOverride);
    if (carrier->vas->external)
        return rm_refuse(RM_NOT_SUPPORTED,
                         "the space is UVM's: RM maps nothing in it");
    *out_page = pages[page];
    return RM_OK;
}

/* Where it goes: what the caller fixed, or what is free. */
static enum rm_status
choose_place(const struct rm_object *carrier, const struct nv_os46 *call,
             struct rm_map_desc *d)
{
    uint32_t page = d->page_bytes ? d->page_bytes : d->mem->page_bytes;
    uint64_t end = carrier->va + carrier->size_bytes;

    if (call->flags & OS46_FIXED)
        d->va = call->dmaOffset;
    else if (carrier->has_range)
        d->va = carrier->va; /* a second one meets the first */
    else
        d->va = choose_va(carrier->vas, align_up(d->size_bytes, page), page,
                          carrier->va, end);
    if (!d->va)
        return rm_refuse(RM_NO_MEMORY, "no free addresses in 0x%x",
                         carrier->handle);
    if (d->va < carrier->va || d->va >= end || d->size_bytes > end - d->va)
        return rm_refuse(RM_INVALID_ARGUMENT,
                         "0x%llx bytes at 0x%llx are not in virtual memory "
                         "0x%x, 0x%llx..0x%llx",
                         (unsigned long long)d->size_bytes,
                         (unsigned long long)d->va, carrier->handle,
                         (unsigned long long)carrier->va,
                         (unsigned long long)end);
    return RM_OK;
}

enum rm_status
rm_map_memory_dma(struct rm_process *process, int file, struct nv_os46 *call)
{
    struct rm_object *carrier, *memory;
    struct rm_map_desc d = {
        .size_bytes = call->length,
        .offset_bytes = call->offset,
        .read_only = OS46_ACCESS(call->flags) == 1,
        .snooped = call->flags & OS46_SNOOP,
    };
    enum rm_status status =
        find_dma(process, file, call->hClient, call->hDevice, call->hDma,
                 call->hMemory, &carrier, &memory);

    if (status == RM_OK)
        status = check_os46(carrier, call, &d.page_bytes);
    if (status == RM_OK)
        status = check_peer(carrier, memory, call->flags);
    if (status != RM_OK)
        return status;
    d.mem = memory->mem;
    d.memory = memory;
    d.carrier = carrier;
    status = choose_place(carrier, call, &d);
    if (status == RM_OK)
        status = rm_map_add(carrier->vas, &d);
    if (status == RM_OK)
        call->dmaOffset = d.va;
    return status;
}

enum rm_status
rm_unmap_memory_dma(struct rm_process *process, int file,
                    const struct nv_os47 *call)
{
    struct rm_object *carrier, *memory;
    struct rm_map *map;
    enum rm_status status =
        find_dma(process, file, call->hClient, call->hDevice, call->hDma,
                 call->hMemory, &carrier, &memory);

    if (status != RM_OK)
        return status;
    map = rm_map_find(carrier->vas, call->dmaOffset);
    if (!map || map->va != call->dmaOffset || map->carrier != carrier ||
        map->memory != memory)
        return rm_refuse(RM_INVALID_OFFSET,
                         "memory 0x%x is not mapped at 0x%llx through 0x%x",
                         memory->handle, (unsigned long long)call->dmaOffset,
                         carrier->handle);
    if (call->size && align_up(call->size, RM_PAGE_BYTES) != map->size_bytes &&
        call->size != map->size_bytes)
        return rm_refuse(RM_NOT_SUPPORTED, "unmapping 0x%llx of 0x%llx bytes",
                         (unsigned long long)call->size,
                         (unsigned long long)map->size_bytes);
    rm_map_remove(carrier->vas, map);
    return RM_OK;
}
