/* Calls to the resource manager. src: docs/hardware/nvidia-kernel.md, "Device
 * files", "Calls", "Object tree", "Memory objects", "CPU mappings". */
#include "hcq/nv/nv_rm.h"

#include <assert.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

#include "base/alloc.h"
#include "base/bits.h"
#include "base/log.h"
#include "ioctl/nv_uapi.h"

#define CTL_PATH "/dev/nvidiactl"

/* Our handles start here; the driver's own choices lie elsewhere. */
#define FIRST_HANDLE 0xbe110000u

/* RM copies the size that it knows for a class, whatever we say: the buffer
 * is larger than every class's. */
#define ALLOC_PARAMS_BYTES 512

/* The largest of the controls that are used, in any branch. */
#define CONTROL_PARAMS_BYTES 14336

/* Flags of NVOS02. src: docs/hardware/nvidia-kernel.md, "Memory objects" */
#define OS02_NONCONTIG (1u << 4)
#define OS02_CACHED    (1u << 12)
#define OS02_NO_MAP    (1u << 30)
#define OS33_READ_ONLY 1u

/* NVOS32, of a dma-buf. src: NVIDIA/open-gpu-kernel-modules 580.142, nvos.h;
 * nvkms-surface.c, which imports so */
#define OS32_NO_MAP        (1u << 15) /* flags: MAP_NOT_REQUIRED */
#define OS32_PCI           (1u << 25) /* attr: LOCATION */
#define OS32_NONCONTIG     (1u << 27) /* PHYSICALITY */
#define OS32_WRITE_BACK    (5u << 29) /* COHERENCY */
#define OS32_NOT_CACHEABLE (2u << 2)  /* attr2: by the card */
#define OS_FILE_HANDLE     4u         /* descriptorType */

#define STATUS_NO_MEMORY     0x51u
#define STATUS_NOT_SUPPORTED 0x56u

/* ---- objects ------------------------------------------------------------- */

static uint32_t
next_handle(struct nv_rm *rm)
{
    return FIRST_HANDLE + atomic_fetch_add(&rm->last_handle, 1) + 1;
}

static bell_status
check_known(const struct nv_abi *abi, uint32_t struct_id, const char *what)
{
    if (nv_struct(abi->branch, struct_id))
        return BELL_OK;
    return bell_fail(BELL_E_UNSUPPORTED, "%s is not known to driver branch %u",
                     what ? what : "the call", abi->major);
}

bell_status
nv_rm_alloc(struct nv_rm *rm, uint32_t parent, uint32_t nv_class,
            uint32_t struct_id, void *params, uint32_t *out_handle)
{
    uint64_t wire[ALLOC_PARAMS_BYTES / 8] = {0};
    struct nv_os64 call = {
        .hRoot = rm->client,
        .hObjectParent = parent,
        .hClass = nv_class,
    };

    if (params) {
        BELL_TRY(check_known(&rm->abi, struct_id, nv_class_name(nv_class)));
        assert(nv_wire_bytes(&rm->abi, struct_id) <= sizeof(wire));
        nv_wire_pack(&rm->abi, struct_id, params, wire);
        call.pAllocParms = (uintptr_t)wire;
        call.paramsSize = nv_wire_bytes(&rm->abi, struct_id);
    }
    /* The client itself is the one object whose handle the driver picks. */
    if (rm->client)
        call.hObjectNew = next_handle(rm);
    BELL_TRY(
        kio_ioctl(&rm->ctl, nv_request(NV_ESC_RM_ALLOC, sizeof(call)), &call));
    if (params)
        nv_wire_unpack(&rm->abi, struct_id, wire, params);
    *out_handle = call.hObjectNew;
    return BELL_OK;
}

void
nv_rm_free(struct nv_rm *rm, uint32_t parent, uint32_t handle)
{
    struct nv_os00 call = {
        .hRoot = rm->client,
        .hObjectParent = parent,
        .hObjectOld = handle,
    };

    if (handle &&
        !kio_ioctl_give_back(&rm->ctl, nv_request(NV_ESC_RM_FREE, sizeof(call)),
                             &call))
        LOG(LOG_IOCTL, "object 0x%x stays", handle);
}

/* status NULL: one that is not 0 is a failure. */
static bell_status
call_control(struct nv_rm *rm, uint32_t object, uint32_t command,
             uint32_t struct_id, void *params, uint32_t *status)
{
    uint64_t wire[CONTROL_PARAMS_BYTES / 8];
    struct nv_os54 call = {
        .hClient = rm->client,
        .hObject = object,
        .cmd = command,
        .params = (uintptr_t)wire,
    };
    unsigned long request = nv_request(NV_ESC_RM_CONTROL, sizeof(call));

    BELL_TRY(check_known(&rm->abi, struct_id, nv_control_name(command)));
    call.paramsSize = nv_wire_bytes(&rm->abi, struct_id);
    assert(call.paramsSize <= sizeof(wire));
    memset(wire, 0, call.paramsSize);
    nv_wire_pack(&rm->abi, struct_id, params, wire);
    if (status)
        BELL_TRY(kio_ioctl_status(&rm->ctl, request, &call, status));
    else
        BELL_TRY(kio_ioctl(&rm->ctl, request, &call));
    nv_wire_unpack(&rm->abi, struct_id, wire, params);
    return BELL_OK;
}

bell_status
nv_rm_control(struct nv_rm *rm, uint32_t object, uint32_t command,
              uint32_t struct_id, void *params)
{
    return call_control(rm, object, command, struct_id, params, NULL);
}

bell_status
nv_rm_control_status(struct nv_rm *rm, uint32_t object, uint32_t command,
                     uint32_t struct_id, void *params, uint32_t *out_status)
{
    return call_control(rm, object, command, struct_id, params, out_status);
}

bell_status
nv_rm_command(struct nv_rm *rm, uint32_t object, uint32_t command)
{
    struct nv_os54 call = {
        .hClient = rm->client,
        .hObject = object,
        .cmd = command,
    };

    return kio_ioctl(&rm->ctl, nv_request(NV_ESC_RM_CONTROL, sizeof(call)),
                     &call);
}

bell_status
nv_rm_dup(struct nv_rm *rm, uint32_t parent, uint32_t source_client,
          uint32_t source_object, uint32_t *out_handle)
{
    struct nv_os55 call = {
        .hClient = rm->client,
        .hParent = parent,
        .hObject = next_handle(rm),
        .hClientSrc = source_client,
        .hObjectSrc = source_object,
    };

    BELL_TRY(kio_ioctl(&rm->ctl, nv_request(NV_ESC_RM_DUP_OBJECT, sizeof(call)),
                       &call));
    *out_handle = call.hObject;
    return BELL_OK;
}

/* ---- for the CPU --------------------------------------------------------- */

/* Maps the file that the driver tied the memory to. The mapping keeps it
 * alive, so its number is given back: there are more buffers than numbers.
 * lead: that the driver does not mind is how Linux treats files, unproven. */
static bell_status
map_file(struct nv_rm *rm, int prot, void *addr, struct nv_rm_mapping *map)
{
    assert(map->size_bytes > 0 && map->file.fd >= 0);
    BELL_TRY(kio_mmap(rm->kio, &map->file, addr, (size_t)map->size_bytes, prot,
                      MAP_SHARED | (addr ? MAP_FIXED : 0), 0, &map->cpu));
    map->reserved = addr != NULL;
    kio_close(&map->file);
    return BELL_OK;
}

/* Tells the driver that a mapping is gone. Not needed where the memory goes
 * too, so a refusal is not a failure. */
static void
forget_mapping(struct nv_rm *rm, const struct nv_rm_mapping *map)
{
    struct nv_os34 call = {
        .hClient = rm->client,
        .hDevice = map->parent,
        .hMemory = map->memory,
        .pLinearAddress = map->linear,
    };

    if (!kio_ioctl_give_back(
            &rm->ctl, nv_request(NV_ESC_RM_UNMAP_MEMORY, sizeof(call)), &call))
        LOG(LOG_IOCTL, "mapping of 0x%x stays until it is freed", map->memory);
}

#define CONFIDENTIAL                                                           \
    "confidential computing is on, with which the card's memory cannot be "    \
    "mapped: not supported"

/* Asked at opening, and where memory cannot be mapped: the refusal, status
 * 0x56, does not say that this is why. Anyone may ask.
 * src: NVIDIA/open-gpu-kernel-modules 580.142, mapping_cpu.c, ctrlcb33.h */
static bool
is_confidential(struct nv_rm *rm)
{
    struct nvcb33_system_get_capabilities caps = {0};
    struct bell_error_hold hold;
    uint32_t object = 0;

    bell_error_hold(&hold);
    if (nv_rm_alloc(rm, rm->client, NV_CONFIDENTIAL_COMPUTE, 0, NULL,
                    &object) == BELL_OK &&
        nv_rm_control(rm, object,
                      NV_CONF_COMPUTE_CTRL_CMD_SYSTEM_GET_CAPABILITIES,
                      NV_S_NVCB33_SYSTEM_GET_CAPABILITIES, &caps) != BELL_OK)
        memset(&caps, 0, sizeof(caps));
    nv_rm_free(rm, rm->client, object);
    bell_error_release(&hold);
    return caps.ccFeature || caps.multiGpuMode;
}

bell_status
nv_rm_check_confidential(struct nv_rm *rm)
{
    if (!is_confidential(rm))
        return BELL_OK;
    return bell_fail(BELL_E_UNSUPPORTED,
                     CONFIDENTIAL "; NVIDIA's gpu-admin-tools switch it off "
                                  "(--set-cc-mode=off)");
}

bell_status
nv_rm_map(struct nv_rm *rm, uint32_t parent, uint32_t memory,
          uint64_t offset_bytes, uint64_t size_bytes, unsigned flags,
          void *addr, struct nv_rm_mapping *out_map)
{
    bool system = flags & NV_RM_MAP_SYSTEM;
    bool read_only = flags & NV_RM_MAP_READ_ONLY;
    struct nv_rm_mapping map = {
        .size_bytes = size_bytes,
        .parent = parent,
        .memory = memory,
    };
    struct nv_os33_fd call = {
        .params =
            {
                .hClient = rm->client,
                .hDevice = parent,
                .hMemory = memory,
                .offset = offset_bytes,
                .length = size_bytes,
                .flags = read_only ? OS33_READ_ONLY : 0,
            },
    };
    bell_status status;

    BELL_TRY(kio_open(rm->kio, system ? CTL_PATH : rm->node_path, O_RDWR,
                      &map.file));
    call.fd = map.file.fd;
    status = kio_ioctl(&rm->ctl, nv_request(NV_ESC_RM_MAP_MEMORY, sizeof(call)),
                       &call);
    if (status != BELL_OK) {
        if (!system && is_confidential(rm))
            bell_error_prefix(CONFIDENTIAL);
        goto fail_file;
    }
    map.linear = call.params.pLinearAddress;
    status = map_file(rm, PROT_READ | (read_only ? 0 : PROT_WRITE), addr, &map);
    if (status != BELL_OK)
        goto fail_mapping;
    *out_map = map;
    return BELL_OK;
fail_mapping:
    forget_mapping(rm, &map);
fail_file:
    kio_close(&map.file);
    return status;
}

/* Puts what nobody may touch back in place of a mapping. If that fails twice
 * the mapping stays: a hole would be given to others. */
static void
reserve_again(struct nv_rm *rm, const struct nv_rm_mapping *map)
{
    const int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED;
    struct bell_error_hold hold;
    unsigned i;
    void *cpu;

    assert(map->cpu && map->reserved);
    bell_error_hold(&hold);
    for (i = 0; i < 2; i++) {
        if (kio_mmap(rm->kio, NULL, map->cpu, (size_t)map->size_bytes,
                     PROT_NONE, flags, 0, &cpu) == BELL_OK)
            break;
    }
    bell_error_release(&hold);
}

void
nv_rm_unmap(struct nv_rm *rm, struct nv_rm_mapping *map)
{
    if (map->cpu && map->reserved)
        reserve_again(rm, map);
    else if (map->cpu)
        kio_munmap(rm->kio, map->cpu, (size_t)map->size_bytes);
    if (map->cpu && map->memory)
        forget_mapping(rm, map);
    kio_close(&map->file);
    *map = (struct nv_rm_mapping){0};
}

/* ---- host memory --------------------------------------------------------- */

/* NV_ESC_RM_ALLOC_MEMORY, which goes to the card's node. */
static bell_status
alloc_memory(struct nv_rm *rm, uint32_t nv_class, uint32_t flags, void *pages,
             uint64_t size_bytes, int fd, uint32_t *out_memory)
{
    struct nv_os02_fd call = {
        .params =
            {
                .hRoot = rm->client,
                .hObjectParent = rm->device,
                .hObjectNew = next_handle(rm),
                .hClass = nv_class,
                .flags = flags,
                .pMemory = (uintptr_t)pages,
                .limit = size_bytes - 1,
            },
        .fd = fd,
    };

    assert(size_bytes > 0);
    BELL_TRY(kio_ioctl(
        &rm->node, nv_request(NV_ESC_RM_ALLOC_MEMORY, sizeof(call)), &call));
    *out_memory = call.params.hObjectNew;
    return BELL_OK;
}

bell_status
nv_rm_alloc_system(struct nv_rm *rm, uint64_t size_bytes, uint32_t *out_memory,
                   struct nv_rm_mapping *out_map)
{
    struct nv_rm_mapping map = {.size_bytes = size_bytes};
    bell_status status;

    BELL_TRY(kio_open(rm->kio, CTL_PATH, O_RDWR, &map.file));
    status = alloc_memory(rm, NV01_MEMORY_SYSTEM, OS02_NONCONTIG | OS02_CACHED,
                          NULL, size_bytes, map.file.fd, out_memory);
    if (status != BELL_OK) {
        kio_close(&map.file);
        return status;
    }
    *out_map = map;
    return BELL_OK;
}

bell_status
nv_rm_map_system(struct nv_rm *rm, void *addr, struct nv_rm_mapping *map)
{
    return map_file(rm, PROT_READ | PROT_WRITE, addr, map);
}

bell_status
nv_rm_pin(struct nv_rm *rm, void *pages, uint64_t size_bytes,
          uint32_t *out_memory)
{
    return alloc_memory(rm, NV01_MEMORY_SYSTEM_OS_DESCRIPTOR,
                        OS02_NONCONTIG | OS02_CACHED | OS02_NO_MAP, pages,
                        size_bytes, -1, out_memory);
}

/* ---- memory of other processes and drivers ------------------------------- */

/* src: docs/hardware/nvidia-kernel.md, "Memory by descriptors" */
bell_status
nv_rm_export(struct nv_rm *rm, uint32_t memory, uint64_t size_bytes,
             int *out_fd)
{
    struct nv_export_to_dma_buf_fd call = {
        .fd = -1,
        .hClient = rm->client,
        .totalObjects = 1,
        .numObjects = 1,
        .totalSize = size_bytes,
        .handles = {memory},
        .sizes = {size_bytes},
    };
    uint32_t n_bytes = nv_wire_bytes(&rm->abi, NV_S_NV_EXPORT_TO_DMA_BUF_FD);
    uint64_t wire[sizeof(call) / 8];
    uint32_t status = 0;

    assert(n_bytes <= sizeof(wire));
    nv_wire_pack(&rm->abi, NV_S_NV_EXPORT_TO_DMA_BUF_FD, &call, wire);
    BELL_TRY(kio_ioctl_status(&rm->node,
                              nv_request(NV_ESC_EXPORT_TO_DMABUF_FD, n_bytes),
                              wire, &status));
    nv_wire_unpack(&rm->abi, NV_S_NV_EXPORT_TO_DMA_BUF_FD, wire, &call);
    if (status == STATUS_NOT_SUPPORTED)
        return bell_fail(BELL_E_UNSUPPORTED,
                         "NVIDIA's driver makes no dma-bufs of this card's "
                         "memory: its kernel has none, or confidential "
                         "computing is on");
    if (status == STATUS_NO_MEMORY)
        return bell_fail(BELL_E_NO_MEMORY,
                         "out of memory for a dma-buf of memory 0x%x", memory);
    if (status || call.fd < 0)
        return bell_fail(BELL_E_KERNEL,
                         "a dma-buf of memory 0x%x: status 0x%x, descriptor %d",
                         memory, status, call.fd);
    *out_fd = call.fd;
    return BELL_OK;
}

bell_status
nv_rm_import(struct nv_rm *rm, int fd, uint64_t size_bytes,
             uint32_t *out_memory)
{
    struct nv_os_desc_alloc params = {
        .flags = OS32_NO_MAP,
        .attr = OS32_PCI | OS32_NONCONTIG | OS32_WRITE_BACK,
        .attr2 = OS32_NOT_CACHEABLE,
        .descriptor = (uint64_t)fd,
        .limit = size_bytes - 1,
        .descriptorType = OS_FILE_HANDLE,
    };

    assert(fd >= 0 && size_bytes > 0);
    return nv_rm_alloc(rm, rm->device, NV01_MEMORY_SYSTEM_OS_DESCRIPTOR,
                       NV_S_NV_OS_DESC_ALLOC, &params, out_memory);
}

/* ---- for the card -------------------------------------------------------- */

bell_status
nv_rm_map_dma(struct nv_rm *rm, uint32_t carrier, uint32_t memory, uint64_t va,
              uint64_t size_bytes, uint32_t flags)
{
    struct nv_os46 call = {
        .hClient = rm->client,
        .hDevice = rm->device,
        .hDma = carrier,
        .hMemory = memory,
        .length = size_bytes,
        .flags = flags,
        .dmaOffset = va,
    };
    uint64_t wire[sizeof(call) / 8];
    uint32_t n_bytes = nv_wire_bytes(&rm->abi, NV_S_NV_OS46);

    assert(n_bytes <= sizeof(wire));
    nv_wire_pack(&rm->abi, NV_S_NV_OS46, &call, wire);
    BELL_TRY(kio_ioctl(&rm->ctl, nv_request(NV_ESC_RM_MAP_MEMORY_DMA, n_bytes),
                       wire));
    nv_wire_unpack(&rm->abi, NV_S_NV_OS46, wire, &call);
    if (call.dmaOffset != va) {
        nv_rm_unmap_dma(rm, carrier, memory, call.dmaOffset, size_bytes);
        return bell_fail(
            BELL_E_KERNEL, "memory 0x%x: mapped at 0x%llx, asked for 0x%llx",
            memory, (unsigned long long)call.dmaOffset, (unsigned long long)va);
    }
    return BELL_OK;
}

void
nv_rm_unmap_dma(struct nv_rm *rm, uint32_t carrier, uint32_t memory,
                uint64_t va, uint64_t size_bytes)
{
    struct nv_os47 call = {
        .hClient = rm->client,
        .hDevice = rm->device,
        .hDma = carrier,
        .hMemory = memory,
        .dmaOffset = va,
        .size = size_bytes,
    };
    uint64_t wire[sizeof(call) / 8];
    uint32_t n_bytes = nv_wire_bytes(&rm->abi, NV_S_NV_OS47);

    assert(n_bytes <= sizeof(wire));
    nv_wire_pack(&rm->abi, NV_S_NV_OS47, &call, wire);
    if (!kio_ioctl_give_back(
            &rm->ctl, nv_request(NV_ESC_RM_UNMAP_MEMORY_DMA, n_bytes), wire))
        LOG(LOG_IOCTL, "memory 0x%x stays mapped at 0x%llx", memory,
            (unsigned long long)va);
}

/* ---- cards --------------------------------------------------------------- */

static void
name_node(uint32_t minor, char out_path[NV_RM_PATH_BYTES])
{
    snprintf(out_path, NV_RM_PATH_BYTES, "/dev/nvidia%u", minor);
}

/* The driver lists all cards of the machine, also in a container that was given
 * some of their nodes. src: NVIDIA/open-gpu-kernel-modules 580.142, nv.c,
 * NV_ESC_CARD_INFO */
static bell_status
list_cards(const struct kio_file *ctl, struct nv_rm_card *out_cards,
           uint32_t *out_n)
{
    struct nv_card_info infos[NV_RM_MAX_CARDS];
    struct bell_error first = {.status = BELL_OK};
    uint32_t i, n = 0, n_refused = 0;
    char path[NV_RM_PATH_BYTES];
    struct bell_error_hold hold;

    memset(infos, 0, sizeof(infos));
    BELL_TRY(
        kio_ioctl(ctl, nv_request(NV_ESC_CARD_INFO, sizeof(infos)), infos));
    bell_error_hold(&hold);
    for (i = 0; i < NV_RM_MAX_CARDS; i++) {
        if (!infos[i].valid)
            continue;
        name_node(infos[i].minor_number, path);
        if (kio_may_open(ctl->kio, path) != BELL_OK) {
            LOG(LOG_EXEC, "an NVIDIA card is passed over: %s",
                bell_error_last()->message);
            if (n_refused++ == 0)
                first = *bell_error_last();
            continue;
        }
        out_cards[n++] = (struct nv_rm_card){
            .gpu_id = infos[i].gpu_id,
            .minor = infos[i].minor_number,
            .domain = infos[i].pci_info.domain,
            .bus = infos[i].pci_info.bus,
            .slot = infos[i].pci_info.slot,
            .pci_device = infos[i].pci_info.device_id,
            .bar1_bytes = infos[i].fb_size,
        };
    }
    bell_error_release(&hold);
    if (n == 0 && n_refused)
        return bell_fail_errno(BELL_E_PERMISSION, first.sys_errno,
                               "this process may open none of the driver's "
                               "cards, %u in all: %s",
                               n_refused, first.message);
    *out_n = n;
    return BELL_OK;
}

bell_status
nv_rm_list(struct kio *kio, struct nv_rm_card out_cards[NV_RM_MAX_CARDS],
           uint32_t *out_n, struct nv_abi *out_abi)
{
    struct kio_file ctl;
    bell_status status;

    BELL_TRY(kio_open(kio, CTL_PATH, O_RDWR, &ctl));
    status = nv_abi_detect(kio, out_abi);
    if (status == BELL_OK)
        status = list_cards(&ctl, out_cards, out_n);
    kio_close(&ctl);
    return status;
}

/* ---- life ---------------------------------------------------------------- */

static bell_status
find_rm_card(struct nv_rm *rm, uint32_t idx)
{
    struct nv_rm_card cards[NV_RM_MAX_CARDS];
    uint32_t n;

    BELL_TRY(list_cards(&rm->ctl, cards, &n));
    if (idx >= n)
        return bell_fail(BELL_E_NO_DEVICE, "no card %u; there %s %u", idx,
                         n == 1 ? "is" : "are", n);
    rm->card = cards[idx];
    return BELL_OK;
}

/* The card's node, opened and tied to the control node. The first opening
 * starts the card, which takes seconds. */
static bell_status
open_node(struct nv_rm *rm)
{
    struct nv_register_fd call = {.ctl_fd = rm->ctl.fd};

    name_node(rm->card.minor, rm->node_path);
    BELL_TRY(kio_open(rm->kio, rm->node_path, O_RDWR, &rm->node));
    BELL_TRY(kio_ioctl(&rm->node, nv_request(NV_ESC_REGISTER_FD, sizeof(call)),
                       &call));
    return BELL_OK;
}

bell_status
nv_rm_alloc_device(struct nv_rm *rm, uint32_t instance, uint32_t *out_device)
{
    struct nv0080_alloc params = {
        .deviceId = instance,
        .hClientShare = rm->client,
    };

    BELL_TRY(nv_rm_alloc(rm, rm->client, NV01_DEVICE_0, NV_S_NV0080_ALLOC,
                         &params, out_device));
    return BELL_OK;
}

static bell_status
make_device(struct nv_rm *rm)
{
    struct nv0000_gpu_get_id_info_v2 id = {.gpuId = rm->card.gpu_id};
    struct nv2080_alloc subdevice = {0};

    BELL_TRY(nv_rm_control(rm, rm->client, NV0000_CTRL_CMD_GPU_GET_ID_INFO_V2,
                           NV_S_NV0000_GPU_GET_ID_INFO_V2, &id));
    rm->instance = id.deviceInstance;
    subdevice.subDeviceId = id.subDeviceInstance;
    BELL_TRY(nv_rm_alloc_device(rm, rm->instance, &rm->device));
    BELL_TRY(nv_rm_alloc(rm, rm->device, NV20_SUBDEVICE_0, NV_S_NV2080_ALLOC,
                         &subdevice, &rm->subdevice));
    return BELL_OK;
}

static bell_status
open_rm(struct nv_rm *rm, uint32_t idx)
{
    BELL_TRY(nv_abi_detect(rm->kio, &rm->abi));
    BELL_TRY(kio_open(rm->kio, CTL_PATH, O_RDWR, &rm->ctl));
    BELL_TRY(nv_rm_alloc(rm, 0, NV01_ROOT_CLIENT, 0, NULL, &rm->client));
    BELL_TRY(find_rm_card(rm, idx));
    BELL_TRY(open_node(rm));
    BELL_TRY(make_device(rm));
    return BELL_OK;
}

bell_status
nv_rm_create(struct kio *kio, uint32_t idx, struct nv_rm **out_rm)
{
    struct nv_rm *rm = host_calloc(1, sizeof(*rm));
    bell_status status;

    if (!rm)
        return bell_fail(BELL_E_NO_MEMORY, "out of memory for a client");
    rm->kio = kio;
    rm->ctl.fd = rm->node.fd = -1;
    status = open_rm(rm, idx);
    if (status != BELL_OK) {
        nv_rm_destroy(rm);
        return status;
    }
    *out_rm = rm;
    return BELL_OK;
}

void
nv_rm_destroy(struct nv_rm *rm)
{
    if (!rm)
        return;
    nv_rm_free(rm, 0, rm->client);
    kio_close(&rm->node);
    kio_close(&rm->ctl);
    host_free(rm);
}
