/* The address space as nvidia-uvm keeps it, chosen by BELL_NV_VM=uvm.
 *
 * The space belongs to UVM: memory gets an external range at the address that
 * we chose, and channels are registered before they are scheduled, with a
 * window of addresses for what the driver keeps for them. What both the CPU
 * and the card see lies at the same address for both: other addresses are
 * known to give wrong data at times. So our addresses are reserved in the
 * process, and CPU mappings land there.
 * src: docs/hardware/nvidia-kernel.md, "UVM"
 */
#include <assert.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>

#include "base/alloc.h"
#include "base/bits.h"
#include "base/log.h"
#include "hcq/nv/nv_control.h"
#include "ioctl/nv_uapi.h"

#define UVM_PATH "/dev/nvidia-uvm"

/* NV_VASPACE_ALLOCATION_PARAMETERS */
#define SPACE_FAULTING (1u << 6)
#define SPACE_EXTERNAL (1u << 3)

/* NV2080_CTRL_GPU_GET_GID_INFO */
#define GID_BINARY 2u
#define UUID_BYTES 16u

#define MAP_READ_WRITE_ATOMIC 1u

/* For the context of a graphics channel, of which no size is documented: only
 * addresses are taken. lead: tinygrad's 64 MiB, and room. */
#define WINDOW_BYTES (512u << 20)

#define STATUS_INVALID_DEVICE   0x26u
#define STATUS_FABRIC_NOT_READY 0x81u

/* The addresses that each opening of a card reserves, where all engines reach:
 * as many as are free, and no more than lets eight cards have theirs. */
#define SPACE_BYTES     (64ull << 30)
#define SPACE_MIN_BYTES (8ull << 30)
/* Channels' windows, which the CPU never sees, lie after all of them. */
#define WINDOWS_FIRST 0xd000000000ull

/* Beyond those: large buffers, and those of all cards of a box that this one
 * sees. guess: programs have nothing there; where they do, it is left alone.
 * Up to 2^47 the addresses are not UVM's own.
 * src: docs/hardware/nvidia-kernel.md, "UVM" */
#define FAR_FIRST    0x200000000000ull
#define FAR_END      0x600000000000ull
#define FAR_MEMORIES 10u
#define FAR_TRIES    256u

struct nv_uvm {
    struct kio_file space, mm; /* the second keeps the first's memory alive */
    uint8_t uuid[UUID_BYTES];
    uint32_t registered;    /* cards, by instance, as bits */
    void *reserved;         /* NULL: not */
    struct mem_va *windows; /* owned; control->lock */
};

/* ---- life ---------------------------------------------------------------- */

static bell_status
read_uuid(struct nv_device *dev, uint8_t *out_uuid)
{
    struct nv2080_gpu_get_gid_info gid = {
        .flags = GID_BINARY,
        .length = UUID_BYTES,
    };

    BELL_TRY(nv_rm_control(dev->rm, dev->rm->subdevice,
                           NV2080_CTRL_CMD_GPU_GET_GID_INFO,
                           NV_S_NV2080_GPU_GET_GID_INFO, &gid));
    memcpy(out_uuid, gid.data, UUID_BYTES);
    return BELL_OK;
}

/* Opens the node twice and starts UVM on the first. */
static bell_status
start_uvm(struct nv_device *dev, struct nv_uvm *uvm)
{
    struct uvm_initialize init = {0};
    struct uvm_mm_initialize mm = {0};
    uint32_t vendor;

    BELL_TRY(kio_open(dev->kio, UVM_PATH, O_RDWR, &uvm->space));
    BELL_TRY(kio_ioctl(&uvm->space, UVM_INITIALIZE, &init));
    BELL_TRY(kio_open(dev->kio, UVM_PATH, O_RDWR, &uvm->mm));
    mm.uvmFd = uvm->space.fd;
    /* Kernels without that feature refuse it, and do without. */
    BELL_TRY(kio_ioctl_status(&uvm->mm, UVM_MM_INITIALIZE, &mm, &vendor));
    return BELL_OK;
}

static bell_status
register_card(struct nv_device *dev, struct nv_uvm *uvm)
{
    struct uvm_register_gpu params = {.rmCtrlFd = -1};
    bell_status status;

    BELL_TRY(read_uuid(dev, uvm->uuid));
    memcpy(params.gpu_uuid, uvm->uuid, UUID_BYTES);
    status = kio_ioctl(&uvm->space, UVM_REGISTER_GPU, &params);
    if (status != BELL_OK) {
        if (params.rmStatus == STATUS_FABRIC_NOT_READY)
            bell_error_prefix(NV_NO_FABRIC);
        return status;
    }
    memcpy(uvm->uuid, params.gpu_uuid, UUID_BYTES); /* it may differ */
    return BELL_OK;
}

static bell_status
register_space(struct nv_device *dev, struct nv_uvm *uvm)
{
    struct nv_control *control = dev->control;
    struct nv_vaspace_alloc space = {.flags = SPACE_EXTERNAL | SPACE_FAULTING};
    struct uvm_register_gpu_vaspace params = {
        .rmCtrlFd = dev->rm->ctl.fd,
        .hClient = dev->rm->client,
    };

    BELL_TRY(nv_rm_alloc(dev->rm, dev->rm->device, FERMI_VASPACE_A,
                         NV_S_NV_VASPACE_ALLOC, &space, &control->vaspace));
    memcpy(params.gpuUuid, uvm->uuid, UUID_BYTES);
    params.hVaSpace = control->vaspace;
    BELL_TRY(kio_ioctl(&uvm->space, UVM_REGISTER_GPU_VASPACE, &params));
    return BELL_OK;
}

/* Tries to get exactly those addresses of the process. */
static bool
reserve_at(struct nv_device *dev, uint64_t va, uint64_t size_bytes)
{
    void *want = (void *)(uintptr_t)va, *got;

    if (kio_mmap(dev->kio, NULL, want, (size_t)size_bytes, PROT_NONE,
                 MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE |
                     MAP_FIXED_NOREPLACE,
                 0, &got) != BELL_OK)
        return false;
    if (got == want)
        return true;
    kio_munmap(dev->kio, got, (size_t)size_bytes); /* kernels before 4.17 */
    return false;
}

/* Some in [first, end); 0: there are none. */
static uint64_t
reserve_in(struct nv_device *dev, uint64_t first, uint64_t end,
           uint64_t size_bytes)
{
    uint64_t va;
    unsigned i;

    for (va = align_up(first, NV_HUGE_BYTES), i = 0;
         va + size_bytes <= end && i < FAR_TRIES; va += size_bytes, i++) {
        if (reserve_at(dev, va, size_bytes))
            return va;
    }
    return 0;
}

/* Nobody else in the process may get our addresses: other openings of a card,
 * and other cards, have others. */
static bell_status
reserve_addresses(struct nv_device *dev, struct nv_uvm *uvm)
{
    struct nv_control *control = dev->control;
    uint64_t size_bytes, va = 0;

    for (size_bytes = SPACE_BYTES; size_bytes >= SPACE_MIN_BYTES && !va;
         size_bytes /= 2) {
        va = reserve_in(dev, NV_VA_FIRST, WINDOWS_FIRST, size_bytes);
        uvm->reserved = (void *)(uintptr_t)va;
        control->va_first = va;
        control->va_bytes = size_bytes;
    }
    if (!va)
        return bell_fail(BELL_E_UNSUPPORTED,
                         "the UVM model needs %llu GiB of addresses between "
                         "0x%llx and 0x%llx of this process, and they are in "
                         "use",
                         SPACE_MIN_BYTES >> 30, NV_VA_FIRST, WINDOWS_FIRST);
    size_bytes =
        align_up(dev->base.info.memory_bytes * FAR_MEMORIES, NV_HUGE_BYTES);
    control->far_first = reserve_in(dev, FAR_FIRST, FAR_END, size_bytes);
    if (control->far_first)
        control->far_bytes = size_bytes;
    else
        LOG(LOG_MEM, "%s has no %llu bytes of far addresses",
            dev->base.info.name, (unsigned long long)size_bytes);
    return BELL_OK;
}

static bell_status
uvm_vm_open(struct nv_device *dev)
{
    struct nv_uvm *uvm = host_calloc(1, sizeof(*uvm));

    assert(!dev->control->uvm);
    if (!uvm)
        return bell_fail(BELL_E_NO_MEMORY, "out of memory for a UVM space");
    uvm->space.fd = uvm->mm.fd = -1;
    dev->control->uvm = uvm; /* uvm_vm_close gives it back */
    BELL_TRY(mem_va_create(WINDOWS_FIRST, NV_VA_END - WINDOWS_FIRST,
                           NV_HUGE_BYTES, &uvm->windows));
    BELL_TRY(reserve_addresses(dev, uvm));
    BELL_TRY(start_uvm(dev, uvm));
    BELL_TRY(register_card(dev, uvm));
    BELL_TRY(register_space(dev, uvm));
    return BELL_OK;
}

static void
uvm_vm_close(struct nv_device *dev)
{
    struct nv_control *control = dev->control;
    struct nv_uvm *uvm = dev->control->uvm;

    if (!uvm)
        return;
    /* Closing the file ends the registrations. */
    kio_close(&uvm->mm);
    kio_close(&uvm->space);
    nv_rm_free(dev->rm, dev->rm->device, control->vaspace);
    control->vaspace = 0;
    if (uvm->reserved)
        kio_munmap(dev->kio, uvm->reserved, (size_t)control->va_bytes);
    if (control->far_bytes)
        kio_munmap(dev->kio, (void *)(uintptr_t)control->far_first,
                   (size_t)control->far_bytes);
    mem_va_destroy(uvm->windows);
    control->uvm = NULL;
    host_free(uvm);
}

/* Also a card that was registered before an error came in between: twice is
 * refused. */
static bell_status
register_peer(struct nv_uvm *uvm, uint32_t instance, const uint8_t *uuid)
{
    struct uvm_register_gpu gpu = {.rmCtrlFd = -1};

    assert(instance < NV_RM_MAX_CARDS);
    if (uvm->registered >> instance & 1)
        return BELL_OK;
    memcpy(gpu.gpu_uuid, uuid, UUID_BYTES);
    BELL_TRY(kio_ioctl(&uvm->space, UVM_REGISTER_GPU, &gpu));
    uvm->registered |= 1u << instance;
    return BELL_OK;
}

/* The other card, too, is one of our UVM space. Peers by NVLink or BAR1 are so
 * from then on, and the call that asks for peers refuses them; it is for links
 * of PCIe alone. What can be mapped, the mapping tells.
 * src: docs/hardware/nvidia-kernel.md, "Peers" */
static bell_status
uvm_vm_add_peer(struct nv_device *dev, struct nv_device *owner,
                struct nv_peer *peer)
{
    struct uvm_enable_peer_access access = {0};
    struct nv_uvm *uvm = dev->control->uvm;
    uint8_t uuid[UUID_BYTES];
    struct bell_error_hold hold;
    bell_status status;

    BELL_TRY(read_uuid(owner, uuid));
    BELL_TRY(register_peer(uvm, peer->instance, uuid));
    memcpy(access.gpuUuidA, uvm->uuid, UUID_BYTES);
    memcpy(access.gpuUuidB, uuid, UUID_BYTES);
    bell_error_hold(&hold);
    status = kio_ioctl(&uvm->space, UVM_ENABLE_PEER_ACCESS, &access);
    if (status != BELL_OK && access.rmStatus == STATUS_INVALID_DEVICE) {
        bell_error_release(&hold);
        return BELL_OK;
    }
    return status;
}

/* ---- memory -------------------------------------------------------------- */

static void
free_range(struct nv_device *dev, uint64_t va, uint64_t size_bytes)
{
    struct uvm_free_535 old = {.base = va, .length = size_bytes};
    struct uvm_free call = {.base = va};
    bool is_old = nv_wire_bytes(&dev->rm->abi, NV_S_UVM_FREE) == sizeof(old);

    assert(va && size_bytes > 0);
    if (!kio_ioctl_give_back(&dev->control->uvm->space, UVM_FREE,
                             is_old ? (void *)&old : (void *)&call))
        LOG(LOG_IOCTL, "UVM range at 0x%llx stays", (unsigned long long)va);
}

static bell_status
map_external(struct nv_device *dev, const struct nv_backing *backing,
             uint64_t va)
{
    struct nv_uvm *uvm = dev->control->uvm;
    struct uvm_map_external_alloc call;
    uint64_t wire[sizeof(call) / 8];

    assert(nv_wire_bytes(&dev->rm->abi, NV_S_UVM_MAP_EXTERNAL_ALLOC) <=
           sizeof(wire));
    memset(&call, 0, sizeof(call));
    call.base = va;
    call.length = backing->size_bytes;
    memcpy(call.perGpuAttributes[0].gpuUuid, uvm->uuid, UUID_BYTES);
    call.perGpuAttributes[0].gpuMappingType = MAP_READ_WRITE_ATOMIC;
    call.gpuAttributesCount = 1;
    call.rmCtrlFd = dev->rm->ctl.fd;
    call.hClient = dev->rm->client;
    call.hMemory = backing->memory;
    nv_wire_pack(&dev->rm->abi, NV_S_UVM_MAP_EXTERNAL_ALLOC, &call, wire);
    BELL_TRY(kio_ioctl(&uvm->space, UVM_MAP_EXTERNAL_ALLOCATION, wire));
    return BELL_OK;
}

static bell_status
uvm_vm_map(struct nv_device *dev, struct nv_backing *backing, uint64_t va)
{
    struct uvm_create_external_range range = {
        .base = va,
        .length = backing->size_bytes,
    };
    bell_status status;

    BELL_TRY(kio_ioctl(&dev->control->uvm->space, UVM_CREATE_EXTERNAL_RANGE,
                       &range));
    status = map_external(dev, backing, va);
    if (status != BELL_OK) {
        free_range(dev, va, backing->size_bytes);
        return status;
    }
    return BELL_OK;
}

static void
uvm_vm_unmap(struct nv_device *dev, struct nv_backing *backing)
{
    free_range(dev, backing->va, backing->size_bytes);
}

/* ---- channels ------------------------------------------------------------ */

static bell_status
register_channel(struct nv_device *dev, uint32_t channel,
                 const struct mem_range *window)
{
    struct nv_uvm *uvm = dev->control->uvm;
    struct uvm_register_channel call = {
        .rmCtrlFd = dev->rm->ctl.fd,
        .hClient = dev->rm->client,
        .hChannel = channel,
        .base = window->addr,
        .length = window->size_bytes,
    };

    memcpy(call.gpuUuid, uvm->uuid, UUID_BYTES);
    BELL_TRY(kio_ioctl(&uvm->space, UVM_REGISTER_CHANNEL, &call));
    return BELL_OK;
}

static void
give_window_back(struct nv_device *dev, struct mem_range *window)
{
    struct nv_control *control = dev->control;

    assert(window->size_bytes == WINDOW_BYTES);
    pthread_mutex_lock(&control->lock);
    mem_va_free(dev->control->uvm->windows, window);
    pthread_mutex_unlock(&control->lock);
}

static bell_status
uvm_vm_add_channel(struct nv_device *dev, uint32_t channel,
                   struct mem_range *out_window)
{
    struct nv_control *control = dev->control;
    struct mem_range window;
    bell_status status;

    pthread_mutex_lock(&control->lock);
    status = mem_va_alloc(dev->control->uvm->windows, WINDOW_BYTES, 0, &window);
    pthread_mutex_unlock(&control->lock);
    BELL_TRY(status);
    status = register_channel(dev, channel, &window);
    if (status != BELL_OK) {
        give_window_back(dev, &window);
        return status;
    }
    *out_window = window;
    return BELL_OK;
}

static void
uvm_vm_remove_channel(struct nv_device *dev, uint32_t channel,
                      struct mem_range *window)
{
    struct nv_uvm *uvm = dev->control->uvm;
    struct uvm_unregister_channel_535 old = {
        .hClient = dev->rm->client,
        .hChannel = channel,
    };
    struct uvm_unregister_channel call = {
        .hClient = dev->rm->client,
        .hChannel = channel,
    };
    bool is_old = nv_wire_bytes(&dev->rm->abi, NV_S_UVM_UNREGISTER_CHANNEL) ==
                  sizeof(old);

    memcpy(old.gpuUuid, uvm->uuid, UUID_BYTES);
    if (!kio_ioctl_give_back(&uvm->space, UVM_UNREGISTER_CHANNEL,
                             is_old ? (void *)&old : (void *)&call))
        LOG(LOG_IOCTL, "channel 0x%x stays registered", channel);
    give_window_back(dev, window);
}

const struct nv_vm_ops nv_vm_uvm = {
    .name = "uvm",
    .open = uvm_vm_open,
    .close = uvm_vm_close,
    .map = uvm_vm_map,
    .unmap = uvm_vm_unmap,
    .add_channel = uvm_vm_add_channel,
    .remove_channel = uvm_vm_remove_channel,
    .add_peer = uvm_vm_add_peer,
    .same_address = true,
};
