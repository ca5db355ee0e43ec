/* The address space as the resource manager keeps it: no nvidia-uvm.
 *
 * Each memory object gets a carrier, an object for its range of addresses,
 * and is put there. The carrier is made at the address that we chose, and the
 * mapping asks for the same. src: docs/hardware/nvidia-kernel.md,
 * "Address spaces" (path B), "GPU mappings".
 *
 * Unless told otherwise, RM takes 2 MiB pages for a carrier of that size or
 * more, whatever will lie behind it, and moves an address that is not a
 * multiple of theirs down instead of refusing it: into its neighbour. So that
 * of host memory asks for 4 KiB pages, and forces the alignment: without that
 * RM aligns to the pages of compression, too. src:
 * NVIDIA/open-gpu-kernel-modules 535 to 595: memmgrDeterminePageSize,
 * memmgrAllocResources, gvaspaceApplyDefaultAlignment
 */
#include <assert.h>

#include "hcq/nv/nv_control.h"
#include "ioctl/nv_uapi.h"

/* NV_MEMORY_ALLOCATION_PARAMS of a carrier */
#define CARRIER_FLAGS                                                          \
    (1u << 0 /* IGNORE_BANK */ | 1u << 4 /* FIXED_ADDRESS */ |                 \
     1u << 14 /* HANDLE_PROVIDED */ | 1u << 19 /* VIRTUAL */)
#define CARRIER_ATTR    (1u << 25 /* LOCATION PCI */ | 1u << 27 /* NONCONTIG */)
#define FORCE_ALIGNMENT (1u << 8)  /* flags */
#define PAGE_SIZE_4K    (1u << 23) /* attr */
#define HOST_PAGE_BYTES 4096u

/* NVOS46 flags */
#define DMA_FIXED_OFFSET (1u << 15)
#define DMA_SNOOP        (1u << 4)
#define DMA_PAGES_4K     (1u << 8)
#define DMA_PAGES_2M     (4u << 8) /* a team's: else of 512 MiB */
#define DMA_P2P_NOSLI    (2u << 20)

static bell_status
rm_vm_open(struct nv_device *dev)
{
    struct nv_control *control = dev->control;
    struct nv_vaspace_alloc params = {0}; /* index 0: a new one */

    control->va_first = NV_VA_FIRST;
    control->va_bytes = NV_VA_END - NV_VA_FIRST;
    BELL_TRY(nv_rm_alloc(dev->rm, dev->rm->device, FERMI_VASPACE_A,
                         NV_S_NV_VASPACE_ALLOC, &params, &control->vaspace));
    return BELL_OK;
}

static void
rm_vm_close(struct nv_device *dev)
{
    struct nv_control *control = dev->control;

    nv_rm_free(dev->rm, dev->rm->device, control->vaspace);
    control->vaspace = 0;
}

static bell_status
rm_vm_map(struct nv_device *dev, struct nv_backing *backing, uint64_t va)
{
    bool is_shared = backing->kind == NV_BACKING_SHARED && !backing->is_host;
    bool is_team = backing->kind == NV_BACKING_TEAM;
    bool is_video = backing->kind == NV_MEM_VIDEO ||
                    backing->kind == NV_MEM_VISIBLE || is_shared || is_team;
    bool is_peers = is_shared && backing->parent != dev->rm->device;
    struct nv_memory_alloc params = {
        .owner = dev->rm->client,
        .flags = CARRIER_FLAGS | (is_video ? 0 : FORCE_ALIGNMENT),
        .attr = CARRIER_ATTR | (is_video ? 0 : PAGE_SIZE_4K),
        .size = backing->size_bytes,
        .alignment = is_video ? NV_HUGE_BYTES : HOST_PAGE_BYTES,
        .offset = va,
        .hVASpace = dev->control->vaspace,
    };
    /* Host memory without snooping: the card and the CPU's caches see
     * different things. src: docs/hardware/nvidia-kernel.md,
     * "GPU mappings" */
    uint32_t flags =
        DMA_FIXED_OFFSET | (is_video ? 0 : DMA_SNOOP | DMA_PAGES_4K) |
        (is_team ? DMA_PAGES_2M : 0) | (is_peers ? DMA_P2P_NOSLI : 0);
    bell_status status;

    assert(!backing->carrier && va % params.alignment == 0);
    status = nv_rm_alloc(dev->rm, dev->rm->device, NV50_MEMORY_VIRTUAL,
                         NV_S_NV_MEMORY_ALLOC, &params, &backing->carrier);
    if (status == BELL_OK)
        status = nv_rm_map_dma(dev->rm, backing->carrier, backing->memory, va,
                               backing->size_bytes, flags);
    if (status == BELL_OK)
        return BELL_OK;
    bell_error_prefix("0x%llx bytes at 0x%llx in pages of %s",
                      (unsigned long long)backing->size_bytes,
                      (unsigned long long)va, is_video ? "2 MiB" : "4 KiB");
    nv_rm_free(dev->rm, dev->rm->device, backing->carrier);
    backing->carrier = 0;
    return status;
}

static void
rm_vm_unmap(struct nv_device *dev, struct nv_backing *backing)
{
    assert(backing->carrier);
    nv_rm_unmap_dma(dev->rm, backing->carrier, backing->memory, backing->va,
                    backing->size_bytes);
    nv_rm_free(dev->rm, dev->rm->device, backing->carrier);
    backing->carrier = 0;
}

static bell_status
rm_vm_add_channel(struct nv_device *dev, uint32_t channel,
                  struct mem_range *out_window)
{
    (void)dev;
    (void)channel;
    (void)out_window;
    return BELL_OK;
}

static void
rm_vm_remove_channel(struct nv_device *dev, uint32_t channel,
                     struct mem_range *window)
{
    (void)dev;
    (void)channel;
    (void)window;
}

/* A subdevice of the other card, and the object that pairs it with ours: while
 * it lives, memory below the other device may be mapped.
 * src: docs/hardware/nvidia-kernel.md, "Peers" */
static bell_status
rm_vm_add_peer(struct nv_device *dev, struct nv_device *owner,
               struct nv_peer *peer)
{
    struct nv2080_alloc subdevice = {0};
    struct nv503b_alloc pair = {.hSubDevice = dev->rm->subdevice};

    (void)owner;
    BELL_TRY(nv_rm_alloc(dev->rm, peer->device, NV20_SUBDEVICE_0,
                         NV_S_NV2080_ALLOC, &subdevice, &peer->subdevice));
    pair.hPeerSubDevice = peer->subdevice;
    BELL_TRY(nv_rm_alloc(dev->rm, dev->rm->client, NV50_P2P, NV_S_NV503B_ALLOC,
                         &pair, &peer->pairing));
    return BELL_OK;
}

const struct nv_vm_ops nv_vm_rm = {
    .name = "rm",
    .open = rm_vm_open,
    .close = rm_vm_close,
    .map = rm_vm_map,
    .unmap = rm_vm_unmap,
    .add_channel = rm_vm_add_channel,
    .remove_channel = rm_vm_remove_channel,
    .add_peer = rm_vm_add_peer,
};
