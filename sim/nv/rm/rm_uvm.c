/* The unified memory driver (nvidia-uvm), as far as it serves spaces that are
 * mapped from outside: external ranges, channels, peers, semaphore pools.
 * Managed memory and page faults are not simulated.
 *
 * src: docs/hardware/nvidia-kernel.md, "UVM"; nvidia-uvm of
 * NVIDIA/open-gpu-kernel-modules at 580.142, the functions named below. Leads:
 * calls before INITIALIZE get ILLEGAL_ACTION; how much of the checks comes in
 * which order.
 */
#include "sim/nv/rm/rm.h"

#include <assert.h>
#include <errno.h>
#include <string.h>

#include "base/alloc.h"
#include "base/bits.h"
#include "ioctl/nv_uapi.h"

#define INIT_FLAGS    3u
#define MAP_READ_ONLY 3u

/* Addresses: for memory from outside, of a semaphore pool, or reflected to the
 * card's scheduler. */
struct ext_range {
    struct ext_range *next;
    uint64_t base, length;
    struct rm_mem *pool; /* counted */
    bool is_reflected;
};

#define MAX_GROUPS 256u
/* UVM's own channels, on each device that it knows. src: observed: H100,
 * 2026-11-22 */
#define UVM_CHANNELS 6u

/* What hangs on one /dev/nvidia-uvm file. */
struct rm_uvm {
    bool initialized, is_mm;
    uint64_t flags;
    uint32_t registered;                 /* cards, as bits */
    uint32_t peers[RM_MAX_CARDS];        /* of each: cards it may reach */
    struct rm_vas *spaces[RM_MAX_CARDS]; /* counted */
    struct ext_range *ranges;            /* owned */
    uint64_t groups[MAX_GROUPS / 64];    /* of ranges: those that live */
    struct rm_channel **chans;           /* owned array */
    size_t n_chans, cap_chans;
};

/* A call in progress. */
struct uvm_call {
    struct rm_machine *machine;
    struct rm_process *process;
    struct rm_uvm *uvm;
    void *params;
};

/* ---- life ---- */

struct rm_uvm *
rm_uvm_create(void)
{
    return host_calloc(1, sizeof(struct rm_uvm));
}

static void
drop_space(struct rm_uvm *uvm, uint32_t card)
{
    struct rm_vas *vas = uvm->spaces[card];

    assert(card < ARRAY_LEN(uvm->spaces));
    if (!vas)
        return;
    uvm->spaces[card] = NULL;
    vas->uvm = NULL;
    rm_vas_release(vas);
}

/* Both ways. */
static void
switch_peers(struct rm_machine *machine, struct rm_uvm *uvm, uint32_t a,
             uint32_t b)
{
    bool enable = !(uvm->peers[a] & 1u << b);

    uvm->peers[a] ^= 1u << b;
    uvm->peers[b] ^= 1u << a;
    if (enable)
        rm_peering_add(machine, a, b);
    else
        rm_peering_remove(machine, a, b);
}

static void
drop_peers_of(struct rm_machine *machine, struct rm_uvm *uvm, uint32_t card)
{
    uint32_t i;

    for (i = 0; i < RM_MAX_CARDS; i++) {
        if (uvm->peers[card] & 1u << i)
            switch_peers(machine, uvm, card, i);
    }
}

void
rm_uvm_destroy(struct rm_process *process, struct rm_uvm *uvm)
{
    uint32_t i;

    while (uvm->n_chans)
        rm_uvm_forget_channel(uvm, uvm->chans[0]);
    rm_maps_forget(process->machine, NULL, uvm);
    for (i = 0; i < RM_MAX_CARDS; i++) {
        drop_peers_of(process->machine, uvm, i);
        drop_space(uvm, i);
    }
    while (uvm->ranges) {
        struct ext_range *range = uvm->ranges;
        uvm->ranges = range->next;
        rm_mem_release(range->pool);
        host_free(range);
    }
    host_free(uvm->chans);
    host_free(uvm);
}

void
rm_uvm_forget_channel(struct rm_uvm *uvm, struct rm_channel *channel)
{
    size_t i;

    for (i = 0; i < uvm->n_chans; i++) {
        if (uvm->chans[i] == channel)
            uvm->chans[i] = uvm->chans[--uvm->n_chans];
    }
    channel->uvm = NULL;
}

/* ---- looking up ---- */

static enum rm_status
find_uvm_card(const struct uvm_call *c, const uint8_t *uuid,
              struct rm_card **out_card)
{
    uint32_t i;

    for (i = 0; i < c->machine->n_cards; i++) {
        if (memcmp(c->machine->cards[i].uuid, uuid, 16) == 0) {
            *out_card = &c->machine->cards[i];
            return RM_OK;
        }
    }
    return rm_refuse(RM_INVALID_DEVICE, "UVM: no card of that UUID");
}

static enum rm_status
find_registered(const struct uvm_call *c, const uint8_t *uuid,
                struct rm_card **out_card)
{
    enum rm_status status = find_uvm_card(c, uuid, out_card);

    if (status == RM_OK && !(c->uvm->registered & 1u << (*out_card)->index))
        return rm_refuse(RM_INVALID_DEVICE, "UVM: card %u is not registered",
                         (*out_card)->index);
    return status;
}

/* An object of RM's, through a control file. */
static enum rm_status
find_object(const struct uvm_call *c, int fd, uint32_t client_handle,
            uint32_t handle, enum rm_kind kind, struct rm_object **out_object)
{
    int idx;
    struct rm_file *file = rm_file_of(c->process, fd, &idx);
    struct rm_client *client;

    if (!file || file->kind != RM_FILE_CTL)
        return rm_refuse(RM_INVALID_ARGUMENT,
                         "UVM: rmCtrlFd %d is not a control file", fd);
    client = rm_client_find(c->process, idx, client_handle);
    if (!client)
        return rm_refuse(RM_INVALID_CLIENT, "UVM: no client 0x%x on file %d",
                         client_handle, fd);
    *out_object = rm_find_kind(client, handle, kind);
    if (!*out_object)
        return rm_refuse(RM_INVALID_OBJECT_HANDLE,
                         "UVM: 0x%x is not an object of that kind", handle);
    return RM_OK;
}

/* Whether a window of addresses is free of ranges and channels' windows. A
 * group's channels share their context and so its window. observed: H100,
 * 2026-11-22 */
static bool
is_window_free(const struct rm_uvm *uvm, const struct rm_group *group,
               uint64_t base, uint64_t length)
{
    const struct ext_range *range;
    size_t i;

    for (range = uvm->ranges; range; range = range->next) {
        if (rm_ranges_meet(base, length, range->base, range->length))
            return false;
    }
    for (i = 0; i < uvm->n_chans; i++) {
        const struct rm_channel *chan = uvm->chans[i];
        if (chan->group == group && base == chan->uvm_base)
            continue;
        if (rm_ranges_meet(base, length, chan->uvm_base, chan->uvm_bytes))
            return false;
    }
    return true;
}

static bool
uvm_is_window(uint64_t base, uint64_t length)
{
    return base && length && base % RM_PAGE_BYTES == 0 &&
           length % RM_PAGE_BYTES == 0 && base + length > base;
}

/* ---- start ---- */

static enum rm_status
initialize(struct uvm_call *c)
{
    const struct uvm_initialize *p = c->params;
    struct rm_uvm *uvm = c->uvm;

    if (p->flags & ~(uint64_t)INIT_FLAGS)
        return rm_refuse(RM_INVALID_ARGUMENT, "UVM_INITIALIZE flags 0x%llx",
                         (unsigned long long)p->flags);
    if (uvm->is_mm || (uvm->initialized && uvm->flags != p->flags))
        return rm_refuse(RM_INVALID_STATE,
                         "this UVM file was initialized otherwise");
    uvm->initialized = true;
    uvm->flags = p->flags;
    return RM_OK;
}

static enum rm_status
mm_initialize(struct uvm_call *c)
{
    const struct uvm_mm_initialize *p = c->params;
    const struct rm_file *file = rm_file_of(c->process, p->uvmFd, NULL);

    if (!file || file->kind != RM_FILE_UVM || !file->uvm->initialized ||
        file->uvm == c->uvm)
        return rm_refuse(
            RM_INVALID_ARGUMENT,
            "UVM_MM_INITIALIZE: file %d is not an initialized space", p->uvmFd);
    if (c->uvm->initialized)
        return rm_refuse(RM_INVALID_STATE,
                         "UVM_MM_INITIALIZE on a file that is a space");
    c->uvm->is_mm = true;
    return RM_OK;
}

/* How UVM sees a link: it knows of BAR1's kind since branch 590, and took it
 * for PCIe before. src: nvGpuOpsGetP2PCaps of both; UVM_GPU_LINK_PCIE_BAR1 is
 * in 590.48.01 and not in 580.142 */
static enum rm_link
link_of(const struct uvm_call *c, uint32_t a, uint32_t b)
{
    enum rm_link link = rm_link_of(c->machine, a, b);

    return link == RM_LINK_BAR1 && c->machine->abi.major < 590 ? RM_LINK_PCIE
                                                               : link;
}

/* Peers that need no call. src: uvm_va_space.c, register_gpu_peers */
static void
register_peers(struct uvm_call *c, uint32_t card)
{
    uint32_t i;

    for (i = 0; i < c->machine->n_cards; i++) {
        if (i != card && (c->uvm->registered & 1u << i) &&
            link_of(c, card, i) > RM_LINK_PCIE)
            switch_peers(c->machine, c->uvm, card, i);
    }
}

static enum rm_status
register_gpu(struct uvm_call *c)
{
    struct uvm_register_gpu *p = c->params;
    struct rm_card *card;
    enum rm_status status = find_uvm_card(c, p->gpu_uuid, &card);

    if (status != RM_OK)
        return status;
    if (!card->n_attached)
        return rm_refuse(RM_INVALID_DEVICE, "UVM: card %u is not attached",
                         card->index);
    if (p->hSmcPartRef)
        return rm_refuse(RM_NOT_SUPPORTED, "UVM: partitions");
    /* src: uvm_gpu.c, get_gpu_caps; nv_gpu_ops.c, _gpuGetFabricStatus */
    if (c->machine->no_fabric && rm_has_nvlink(c->machine, card->index))
        return rm_refuse(RM_FABRIC_NOT_READY,
                         "UVM: nobody has configured card %u's links",
                         card->index);
    /* src: uvm_va_space.c, uvm_va_space_register_gpu */
    if (c->uvm->registered & 1u << card->index)
        return rm_refuse(RM_INVALID_DEVICE,
                         "UVM: card %u is registered already", card->index);
    if (!card->has_uvm)
        nvgpu_skip_channels(card->gpu, UVM_CHANNELS);
    card->has_uvm = true;
    register_peers(c, card->index);
    c->uvm->registered |= 1u << card->index;
    p->numaEnabled = 0;
    p->numaNodeId = -1;
    return RM_OK;
}

static enum rm_status
map_pool(struct uvm_call *c, struct rm_vas *vas, const struct ext_range *range)
{
    const struct rm_map_desc d = {
        .va = range->base,
        .size_bytes = range->length,
        .snooped = true,
        .mem = range->pool,
        .uvm = c->uvm,
    };

    return vas ? rm_map_add(vas, &d) : RM_OK;
}

static enum rm_status
uvm_register_space(struct uvm_call *c)
{
    const struct uvm_register_gpu_vaspace *p = c->params;
    const struct ext_range *range;
    struct rm_object *object;
    struct rm_card *card;
    enum rm_status status = find_registered(c, p->gpuUuid, &card);

    if (status == RM_OK)
        status = find_object(c, p->rmCtrlFd, p->hClient, p->hVaSpace,
                             RM_KIND_VAS, &object);
    if (status != RM_OK)
        return status;
    if (object->card != card)
        return rm_refuse(RM_INVALID_DEVICE, "UVM: space 0x%x is not of card %u",
                         p->hVaSpace, card->index);
    if (!object->vas->external)
        return rm_refuse(RM_INVALID_FLAGS,
                         "UVM: space 0x%x is not IS_EXTERNALLY_OWNED",
                         p->hVaSpace);
    if (c->uvm->spaces[card->index] || object->vas->uvm)
        return rm_refuse(RM_INVALID_DEVICE,
                         "UVM: card %u has a space, or 0x%x has an owner",
                         card->index, p->hVaSpace);
    for (range = c->uvm->ranges; range && status == RM_OK; range = range->next)
        status = range->pool ? map_pool(c, object->vas, range) : RM_OK;
    if (status != RM_OK)
        return status;
    rm_vas_retain(object->vas);
    object->vas->uvm = c->uvm;
    c->uvm->spaces[card->index] = object->vas;
    return RM_OK;
}

/* Mappings of one card that lie in a window. */
static void
drop_maps(struct uvm_call *c, uint32_t card, uint64_t base, uint64_t length)
{
    struct rm_vas *vas = c->uvm->spaces[card];
    struct rm_map *map, *next;

    for (map = vas ? vas->maps : NULL; map; map = next) {
        next = map->next;
        if (map->uvm == c->uvm && map->va >= base && map->va - base < length)
            rm_map_remove(vas, map);
    }
}

static void
forget_space(struct uvm_call *c, uint32_t card)
{
    size_t i;

    for (i = c->uvm->n_chans; i-- > 0;) {
        if (c->uvm->chans[i]->vas == c->uvm->spaces[card])
            rm_uvm_forget_channel(c->uvm, c->uvm->chans[i]);
    }
    drop_maps(c, card, 0, UINT64_MAX);
    drop_space(c->uvm, card);
}

static enum rm_status
unregister_space(struct uvm_call *c)
{
    const struct uvm_unregister_gpu_vaspace *p = c->params;
    struct rm_card *card;
    enum rm_status status = find_registered(c, p->gpuUuid, &card);

    if (status != RM_OK)
        return status;
    if (!c->uvm->spaces[card->index])
        return rm_refuse(RM_INVALID_DEVICE, "UVM: card %u has no space",
                         card->index);
    forget_space(c, card->index);
    return RM_OK;
}

/* Mappings of one card's memory by another. */
static void
drop_maps_of(struct uvm_call *c, uint32_t card, uint32_t owner)
{
    struct rm_vas *vas = c->uvm->spaces[card];
    struct rm_map *map, *next;

    for (map = vas ? vas->maps : NULL; map; map = next) {
        next = map->next;
        if (map->uvm == c->uvm && map->mem->card &&
            map->mem->card->index == owner)
            rm_map_remove(vas, map);
    }
}

/* Its space goes, what others have mapped of its memory, then its peers. src:
 * uvm_va_space.c, unregister_gpu; va_range_unregister_gpu_external */
static enum rm_status
unregister_gpu(struct uvm_call *c)
{
    const struct uvm_unregister_gpu *p = c->params;
    struct rm_card *card;
    enum rm_status status = find_registered(c, p->gpu_uuid, &card);
    uint32_t i;

    if (status != RM_OK)
        return status;
    if (c->uvm->spaces[card->index])
        forget_space(c, card->index);
    for (i = 0; i < c->machine->n_cards; i++)
        drop_maps_of(c, i, card->index);
    drop_peers_of(c->machine, c->uvm, card->index);
    c->uvm->registered &= ~(1u << card->index);
    return RM_OK;
}

/* ---- channels ---- */

/* Engines that share the graphics engine's runlist count as graphics, and are
 * none. */
static enum rm_status
check_engine(const struct uvm_call *c, const struct rm_channel *channel)
{
    uint32_t idx;

    if (!channel->has_object)
        return rm_refuse(RM_INVALID_STATE,
                         "UVM: the channel has no object yet");
    if (rm_copy_engine_idx(c->machine, channel->group->engine, &idx) &&
        (c->machine->chip->grce_mask >> idx & 1))
        return rm_refuse(RM_INVALID_OBJECT,
                         "UVM: copy engine %u shares the graphics runlist",
                         idx);
    return RM_OK;
}

static enum rm_status
check_window(const struct uvm_call *c, const struct uvm_register_channel *p,
             const struct rm_group *group)
{
    bool is_graphics = group->engine == RM_ENGINE_GR0;
    uint32_t bits = c->machine->chip->sm >= 90 ? 57 : 40;

    if (!is_graphics && !p->length)
        return RM_OK;
    if (!uvm_is_window(p->base, p->length) ||
        (is_graphics && p->length < RM_CONTEXT_BYTES))
        return rm_refuse(
            RM_INVALID_ADDRESS, "UVM: channel window 0x%llx, 0x%llx bytes",
            (unsigned long long)p->base, (unsigned long long)p->length);
    if ((p->base + p->length - 1) >> bits)
        return rm_refuse(RM_OUT_OF_RANGE,
                         "UVM: channel window ends at 0x%llx, beyond 2^%u",
                         (unsigned long long)(p->base + p->length), bits);
    if (!is_window_free(c->uvm, group, p->base, p->length))
        return rm_refuse(RM_UVM_ADDRESS_IN_USE,
                         "UVM: channel window 0x%llx meets something",
                         (unsigned long long)p->base);
    return RM_OK;
}

static enum rm_status
register_channel(struct uvm_call *c)
{
    const struct uvm_register_channel *p = c->params;
    struct rm_object *object;
    struct rm_channel *channel;
    struct rm_card *card;
    enum rm_status status = find_registered(c, p->gpuUuid, &card);

    if (status == RM_OK)
        status = find_object(c, p->rmCtrlFd, p->hClient, p->hChannel,
                             RM_KIND_CHANNEL, &object);
    if (status != RM_OK)
        return status;
    channel = object->channel;
    if (channel->uvm || !c->uvm->spaces[card->index] ||
        channel->vas != c->uvm->spaces[card->index])
        return rm_refuse(RM_INVALID_CHANNEL,
                         "UVM: channel 0x%x is registered, or not of a space "
                         "that is",
                         p->hChannel);
    status = check_engine(c, channel);
    if (status == RM_OK)
        status = check_window(c, p, channel->group);
    if (status != RM_OK)
        return status;
    if (host_grow((void **)&c->uvm->chans, &c->uvm->cap_chans,
                  c->uvm->n_chans + 1, sizeof(*c->uvm->chans)) < 0)
        return RM_NO_MEMORY;
    c->uvm->chans[c->uvm->n_chans++] = channel;
    channel->uvm = c->uvm;
    channel->uvm_base = p->base;
    channel->uvm_bytes = p->length;
    return RM_OK;
}

/* No control file is named: any client of the process. */
static enum rm_status
unregister_channel(struct uvm_call *c)
{
    const struct uvm_unregister_channel *p = c->params;
    struct rm_client *client = rm_client_any(c->machine, p->hClient);
    struct rm_object *object;

    if (!client || client->process != c->process)
        return rm_refuse(RM_INVALID_CLIENT, "UVM: no client 0x%x", p->hClient);
    object = rm_find_kind(client, p->hChannel, RM_KIND_CHANNEL);
    if (!object || object->channel->uvm != c->uvm)
        return rm_refuse(RM_INVALID_CHANNEL,
                         "UVM: channel 0x%x is not registered", p->hChannel);
    rm_uvm_forget_channel(c->uvm, object->channel);
    return RM_OK;
}

/* ---- peers ---- */

/* Only of links over PCIe: others come with the registration.
 * src: uvm_va_space.c, retain_pcie_peers_from_uuids and
 * uvm_va_space_pcie_peer_enabled; uvm_gpu.c, uvm_gpu_retain_pcie_peer_access */
static enum rm_status
set_peers(struct uvm_call *c, const uint8_t *uuid_a, const uint8_t *uuid_b,
          bool enable)
{
    struct rm_card *a, *b;
    enum rm_link link;
    enum rm_status status = find_registered(c, uuid_a, &a);

    if (status == RM_OK)
        status = find_registered(c, uuid_b, &b);
    if (status != RM_OK)
        return status;
    if (a == b)
        return rm_refuse(RM_INVALID_DEVICE, "UVM: card %u with itself",
                         a->index);
    link = link_of(c, a->index, b->index);
    if (enable && link == RM_LINK_NONE)
        return rm_refuse(RM_NOT_SUPPORTED, "UVM: cards %u and %u have no link",
                         a->index, b->index);
    if (link != RM_LINK_PCIE)
        return rm_refuse(RM_INVALID_DEVICE,
                         "UVM: the link of cards %u and %u is not PCIe's",
                         a->index, b->index);
    if (!(c->uvm->peers[a->index] & 1u << b->index) != enable)
        return rm_refuse(
            RM_INVALID_DEVICE, "UVM: peer access between cards %u and %u %s",
            a->index, b->index, enable ? "is there" : "is not there");
    switch_peers(c->machine, c->uvm, a->index, b->index);
    return RM_OK;
}

static enum rm_status
enable_peers(struct uvm_call *c)
{
    const struct uvm_enable_peer_access *p = c->params;

    return set_peers(c, p->gpuUuidA, p->gpuUuidB, true);
}

/* Mappings of each other's memory go. src:
 * uvm_va_range_disable_peer_external */
static enum rm_status
disable_peers(struct uvm_call *c)
{
    const struct uvm_disable_peer_access *p = c->params;
    enum rm_status status = set_peers(c, p->gpuUuidA, p->gpuUuidB, false);
    struct rm_card *a, *b;

    if (status != RM_OK || find_registered(c, p->gpuUuidA, &a) != RM_OK ||
        find_registered(c, p->gpuUuidB, &b) != RM_OK)
        return status;
    drop_maps_of(c, a->index, b->index);
    drop_maps_of(c, b->index, a->index);
    return RM_OK;
}

/* ---- ranges ---- */

static enum rm_status
add_range(struct uvm_call *c, uint64_t base, uint64_t length,
          struct ext_range **out_range)
{
    struct ext_range *range;

    if (!uvm_is_window(base, length))
        return rm_refuse(RM_INVALID_ADDRESS, "UVM: range 0x%llx, 0x%llx bytes",
                         (unsigned long long)base, (unsigned long long)length);
    if (!is_window_free(c->uvm, NULL, base, length))
        return rm_refuse(RM_UVM_ADDRESS_IN_USE,
                         "UVM: 0x%llx, 0x%llx bytes meets something",
                         (unsigned long long)base, (unsigned long long)length);
    range = host_calloc(1, sizeof(*range));
    if (!range)
        return RM_NO_MEMORY;
    *range = (struct ext_range){c->uvm->ranges, base, length, NULL, false};
    c->uvm->ranges = range;
    *out_range = range;
    return RM_OK;
}

static enum rm_status
create_range(struct uvm_call *c)
{
    const struct uvm_create_external_range *p = c->params;
    struct ext_range *range;

    return add_range(c, p->base, p->length, &range);
}

/* The range for memory from outside that holds all of a window. */
static struct ext_range *
range_of(struct rm_uvm *uvm, uint64_t base, uint64_t length)
{
    struct ext_range *range;

    for (range = uvm->ranges; range; range = range->next) {
        if (!range->pool && !range->is_reflected && base >= range->base &&
            length <= range->length &&
            base - range->base <= range->length - length)
            return range;
    }
    return NULL;
}

static enum rm_status
map_for(struct uvm_call *c, const struct uvm_map_external_alloc *p, uint32_t i,
        struct rm_mem *mem)
{
    struct rm_map_desc d = {
        .va = p->base,
        .size_bytes = p->length,
        .offset_bytes = p->offset,
        .read_only = p->perGpuAttributes[i].gpuMappingType == MAP_READ_ONLY,
        .snooped = true,
        .mem = mem,
        .uvm = c->uvm,
    };
    struct rm_card *card;
    enum rm_status status =
        find_registered(c, p->perGpuAttributes[i].gpuUuid, &card);

    if (status != RM_OK)
        return status;
    if (!c->uvm->spaces[card->index])
        return rm_refuse(RM_INVALID_DEVICE, "UVM: card %u has no space",
                         card->index);
    if (p->perGpuAttributes[i].gpuMappingType > MAP_READ_ONLY ||
        p->perGpuAttributes[i].gpuCachingType > 2)
        return rm_refuse(RM_INVALID_ARGUMENT,
                         "UVM: mapping type %u, caching %u",
                         p->perGpuAttributes[i].gpuMappingType,
                         p->perGpuAttributes[i].gpuCachingType);
    status = rm_team_check(mem, card);
    if (status != RM_OK)
        return status;
    if (mem->card && mem->card != card &&
        !(c->uvm->peers[card->index] & 1u << mem->card->index))
        return rm_refuse(RM_INVALID_DEVICE,
                         "UVM: card %u has no peer access to card %u",
                         card->index, mem->card->index);
    return rm_map_add(c->uvm->spaces[card->index], &d);
}

static enum rm_status
check_external(const struct uvm_call *c, const struct uvm_map_external_alloc *p,
               const struct rm_mem *mem)
{
    uint64_t max = c->machine->abi.major < 550 ? 32 : 256;

    if (p->gpuAttributesCount == 0 || p->gpuAttributesCount > max)
        return rm_refuse(RM_INVALID_ARGUMENT, "UVM: attributes of %llu cards",
                         (unsigned long long)p->gpuAttributesCount);
    if (!uvm_is_window(p->base, p->length) ||
        (p->base | p->length | p->offset) % mem->page_bytes)
        return rm_refuse(RM_INVALID_ADDRESS,
                         "UVM: base 0x%llx, length 0x%llx, offset 0x%llx: not "
                         "all multiples of the page, 0x%x",
                         (unsigned long long)p->base,
                         (unsigned long long)p->length,
                         (unsigned long long)p->offset, mem->page_bytes);
    if (!range_of(c->uvm, p->base, p->length))
        return rm_refuse(RM_INVALID_ADDRESS,
                         "UVM: 0x%llx is in no external range",
                         (unsigned long long)p->base);
    return RM_OK;
}

static enum rm_status
uvm_map_external(struct uvm_call *c)
{
    const struct uvm_map_external_alloc *p = c->params;
    struct rm_object *memory;
    struct rm_card *card;
    uint32_t i, k;
    enum rm_status status = find_object(c, p->rmCtrlFd, p->hClient, p->hMemory,
                                        RM_KIND_MEMORY, &memory);

    if (status == RM_OK)
        status = check_external(c, p, memory->mem);
    for (i = 0; status == RM_OK && i < p->gpuAttributesCount; i++) {
        status = map_for(c, p, i, memory->mem);
        if (status == RM_OK)
            continue;
        for (k = 0; k < i; k++) {
            if (find_uvm_card(c, p->perGpuAttributes[k].gpuUuid, &card) ==
                RM_OK)
                drop_maps(c, card->index, p->base, p->length);
        }
    }
    return status;
}

static enum rm_status
unmap_external(struct uvm_call *c)
{
    const struct uvm_unmap_external *p = c->params;
    struct rm_card *card;
    enum rm_status status = find_registered(c, p->gpuUuid, &card);

    if (status != RM_OK)
        return status;
    if (!uvm_is_window(p->base, p->length) ||
        !range_of(c->uvm, p->base, p->length))
        return rm_refuse(RM_INVALID_ADDRESS,
                         "UVM: 0x%llx is in no external range",
                         (unsigned long long)p->base);
    drop_maps(c, card->index, p->base, p->length);
    return RM_OK;
}

/* The length, which newer branches do not have, must be the range's. */
static enum rm_status
uvm_free_range(struct uvm_call *c, uint64_t base, uint64_t length)
{
    struct ext_range **link = &c->uvm->ranges, *range;
    uint32_t i;

    assert(c->uvm);
    while (*link && (*link)->base != base)
        link = &(*link)->next;
    range = *link;
    if (!range || (length && length != range->length))
        return rm_refuse(RM_INVALID_ADDRESS,
                         "UVM: no range 0x%llx of 0x%llx bytes",
                         (unsigned long long)base, (unsigned long long)length);
    for (i = 0; i < c->machine->n_cards; i++)
        drop_maps(c, i, range->base, range->length);
    *link = range->next;
    rm_mem_release(range->pool);
    host_free(range);
    return RM_OK;
}

static enum rm_status
free_external(struct uvm_call *c)
{
    const struct uvm_free *p = c->params;
    uint64_t length = 0;

    /* The newest layout lacks the field: it is read as it was passed. */
    if (c->machine->abi.major < 590) {
        length =
            ((const struct uvm_free_535 *)(void *)c->machine->wire)->length;
        if (!length)
            return rm_refuse(RM_INVALID_ADDRESS, "UVM_FREE of no length");
    }
    return uvm_free_range(c, p->base, length);
}

/* ---- pools and other ranges ---- */

/* Host memory that all cards of the file see at its address, and the process
 * too, once it maps the file there. src: uvm_api_alloc_semaphore_pool */
static enum rm_status
alloc_pool(struct uvm_call *c)
{
    const struct uvm_alloc_semaphore_pool *p = c->params;
    struct ext_range *range;
    enum rm_status status;
    uint32_t i;

    if (p->gpuAttributesCount > (c->machine->abi.major < 550 ? 32u : 256u))
        return rm_refuse(RM_INVALID_ARGUMENT, "UVM: attributes of %llu cards",
                         (unsigned long long)p->gpuAttributesCount);
    status = add_range(c, p->base, p->length, &range);
    if (status != RM_OK)
        return status;
    status = rm_mem_create_system(c->machine, p->length, &range->pool);
    for (i = 0; status == RM_OK && i < c->machine->n_cards; i++)
        status = map_pool(c, c->uvm->spaces[i], range);
    if (status != RM_OK)
        (void)uvm_free_range(c, p->base, 0);
    return status;
}

struct rm_mem *
rm_uvm_pool(struct rm_uvm *uvm, uint64_t base, uint64_t length)
{
    const struct ext_range *range;

    for (range = uvm->ranges; range; range = range->next) {
        if (range->base == base && range->length == length)
            return range->pool;
    }
    return NULL;
}

/* src: uvm_map_sked_reflected_range */
static enum rm_status
reflect_range(struct uvm_call *c)
{
    const struct uvm_map_dynamic_parallelism_region *p = c->params;
    struct ext_range *range;
    struct rm_card *card;
    enum rm_status status = find_registered(c, p->gpuUuid, &card);

    if (status != RM_OK)
        return status;
    if (!c->uvm->spaces[card->index])
        return rm_refuse(RM_INVALID_DEVICE, "UVM: card %u has no space",
                         card->index);
    if ((p->length != RM_PAGE_BYTES && p->length != RM_BIG_BYTES &&
         p->length != RM_HUGE_BYTES) ||
        p->base % p->length)
        return rm_refuse(
            RM_INVALID_ADDRESS, "UVM: 0x%llx, 0x%llx bytes is not a page",
            (unsigned long long)p->base, (unsigned long long)p->length);
    status = add_range(c, p->base, p->length, &range);
    if (status == RM_OK)
        range->is_reflected = true;
    return status;
}

/* src: uvm_api_validate_va_range */
static enum rm_status
validate_range(struct uvm_call *c)
{
    const struct uvm_validate_va_range *p = c->params;
    const struct ext_range *range;

    for (range = c->uvm->ranges; range; range = range->next) {
        if (range->base == p->base && range->length == p->length)
            return RM_OK;
    }
    return RM_INVALID_ADDRESS;
}

/* Groups are of managed ranges, of which there are none. */
static enum rm_status
create_group(struct uvm_call *c)
{
    struct uvm_create_range_group *p = c->params;
    uint32_t i;

    for (i = 1; i < MAX_GROUPS; i++) {
        uint64_t *word = &c->uvm->groups[i / 64];
        if (*word >> i % 64 & 1)
            continue;
        *word |= UINT64_C(1) << i % 64;
        p->rangeGroupId = i;
        return RM_OK;
    }
    return RM_NO_MEMORY;
}

static enum rm_status
destroy_group(struct uvm_call *c)
{
    const struct uvm_destroy_range_group *p = c->params;
    uint64_t i = p->rangeGroupId;

    if (i >= MAX_GROUPS || !(c->uvm->groups[i / 64] >> i % 64 & 1))
        return rm_refuse(RM_OBJECT_NOT_FOUND, "UVM: no range group 0x%llx",
                         (unsigned long long)i);
    c->uvm->groups[i / 64] &= ~(UINT64_C(1) << i % 64);
    return RM_OK;
}

static enum rm_status
pageable_access(struct uvm_call *c)
{
    struct uvm_pageable_mem_access *p = c->params;

    p->pageableMemAccess = 0;
    return RM_OK;
}

/* ---- dispatch ---- */

static const struct uvm_row {
    uint32_t number, struct_id;
    bool before_init;
    enum rm_status (*fn)(struct uvm_call *c);
} rows[] = {
    {UVM_INITIALIZE, NV_S_UVM_INITIALIZE, true, initialize},
    {UVM_MM_INITIALIZE, NV_S_UVM_MM_INITIALIZE, true, mm_initialize},
    {UVM_REGISTER_GPU, NV_S_UVM_REGISTER_GPU, false, register_gpu},
    {UVM_UNREGISTER_GPU, NV_S_UVM_UNREGISTER_GPU, false, unregister_gpu},
    {UVM_REGISTER_GPU_VASPACE, NV_S_UVM_REGISTER_GPU_VASPACE, false,
     uvm_register_space},
    {UVM_UNREGISTER_GPU_VASPACE, NV_S_UVM_UNREGISTER_GPU_VASPACE, false,
     unregister_space},
    {UVM_REGISTER_CHANNEL, NV_S_UVM_REGISTER_CHANNEL, false, register_channel},
    {UVM_UNREGISTER_CHANNEL, NV_S_UVM_UNREGISTER_CHANNEL, false,
     unregister_channel},
    {UVM_ENABLE_PEER_ACCESS, NV_S_UVM_ENABLE_PEER_ACCESS, false, enable_peers},
    {UVM_DISABLE_PEER_ACCESS, NV_S_UVM_DISABLE_PEER_ACCESS, false,
     disable_peers},
    {UVM_CREATE_EXTERNAL_RANGE, NV_S_UVM_CREATE_EXTERNAL_RANGE, false,
     create_range},
    {UVM_MAP_EXTERNAL_ALLOCATION, NV_S_UVM_MAP_EXTERNAL_ALLOC, false,
     uvm_map_external},
    {UVM_UNMAP_EXTERNAL, NV_S_UVM_UNMAP_EXTERNAL, false, unmap_external},
    {UVM_FREE, NV_S_UVM_FREE, false, free_external},
    {UVM_ALLOC_SEMAPHORE_POOL, NV_S_UVM_ALLOC_SEMAPHORE_POOL, false,
     alloc_pool},
    {UVM_MAP_DYNAMIC_PARALLELISM_REGION,
     NV_S_UVM_MAP_DYNAMIC_PARALLELISM_REGION, false, reflect_range},
    {UVM_VALIDATE_VA_RANGE, NV_S_UVM_VALIDATE_VA_RANGE, false, validate_range},
    {UVM_CREATE_RANGE_GROUP, NV_S_UVM_CREATE_RANGE_GROUP, false, create_group},
    {UVM_DESTROY_RANGE_GROUP, NV_S_UVM_DESTROY_RANGE_GROUP, false,
     destroy_group},
    {UVM_PAGEABLE_MEM_ACCESS, NV_S_UVM_PAGEABLE_MEM_ACCESS, false,
     pageable_access},
};

/* The call's size is not in the request: as much as the branch's struct has is
 * copied. */
static int
call_uvm_row(struct uvm_call *c, const struct uvm_row *row, void *arg)
{
    struct rm_machine *machine = c->machine;
    const struct kio_struct *desc =
        nv_struct(machine->abi.branch, row->struct_id);
    const struct kio_struct *newest =
        nv_struct(NV_BRANCH_NEWEST, row->struct_id);
    enum rm_status status;

    if (!rm_user_read(machine->wire, (uintptr_t)arg, desc->size_bytes))
        return rm_fail(EFAULT, "argument of UVM call 0x%x at %p", row->number,
                       arg);
    nv_wire_unpack(&machine->abi, row->struct_id, machine->wire,
                   machine->params);
    c->params = machine->params;
    if (!row->before_init && !c->uvm->initialized)
        status = rm_refuse(RM_ILLEGAL_ACTION,
                           "UVM call 0x%x before UVM_INITIALIZE", row->number);
    else
        status = row->fn(c);
    kio_struct_put(newest, machine->params, newest->size_bytes, "rmStatus",
                   (uint64_t)status);
    rm_wire_answer(machine, row->struct_id);
    if (!rm_user_write((uintptr_t)arg, machine->wire, desc->size_bytes))
        return rm_fail(EFAULT, "argument of UVM call 0x%x at %p", row->number,
                       arg);
    return 0;
}

int
rm_uvm_ioctl(struct rm_process *process, int file, unsigned long request,
             void *arg)
{
    struct uvm_call c = {process->machine, process, process->files[file].uvm,
                         NULL};
    /* src: google/gvisor, nvproxy/version.go: removed in 610.43.02 */
    bool has_groups = process->machine->abi.major < 610;
    size_t i;

    for (i = 0; i < ARRAY_LEN(rows); i++) {
        if (rows[i].number == request &&
            (has_groups || (request != UVM_CREATE_RANGE_GROUP &&
                            request != UVM_DESTROY_RANGE_GROUP)))
            return call_uvm_row(&c, &rows[i], arg);
    }
    return rm_fail(EINVAL, "UVM call 0x%lx is not known", request);
}
