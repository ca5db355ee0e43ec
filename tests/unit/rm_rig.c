/* Bringing a simulated card up by hand. */
#include "rm_rig.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/bits.h"
#include "ioctl/nv_uapi.h"
#include "sim/nv/sim_nv.h"

jmp_buf *rig_give_up;

static void
is_true(bool value)
{
    if (!value && rig_give_up)
        longjmp(*rig_give_up, 1);
    assert_true(value);
}

/* A status of either kind. */
static void
is_zero(unsigned value)
{
    if (value && rig_give_up)
        longjmp(*rig_give_up, 1);
    assert_int_equal(value, 0);
}

/* ---- calls --------------------------------------------------------------- */

uint32_t
rig_escape(const struct rig *rig, const struct kio_file *file, uint32_t number,
           uint32_t struct_id, void *newest)
{
    uint64_t wire[32];
    uint32_t n = nv_wire_bytes(&rig->abi, struct_id), vendor = 0;

    is_true(n <= sizeof(wire));
    nv_wire_pack(&rig->abi, struct_id, newest, wire);
    is_zero(kio_ioctl_status(file, nv_request(number, n), wire, &vendor));
    nv_wire_unpack(&rig->abi, struct_id, wire, newest);
    return vendor;
}

/* Parameters of the branch's size in a zeroed buffer of 512 bytes. */
uint32_t
rig_alloc(const struct rig *rig, uint32_t parent, uint32_t nv_class,
          uint32_t struct_id, void *params, uint32_t *handle)
{
    uint64_t wire[64] = {0};
    struct nv_os64 call = {
        .hRoot = rig->client,
        .hObjectParent = parent,
        .hObjectNew = *handle,
        .hClass = nv_class,
    };
    uint32_t status;

    if (params) {
        nv_wire_pack(&rig->abi, struct_id, params, wire);
        call.pAllocParms = (uintptr_t)wire;
        call.paramsSize = nv_wire_bytes(&rig->abi, struct_id);
    }
    status = rig_escape(rig, &rig->ctl, NV_ESC_RM_ALLOC, NV_S_NV_OS64, &call);
    if (status == 0) {
        *handle = call.hObjectNew;
        if (params)
            nv_wire_unpack(&rig->abi, struct_id, wire, params);
    }
    return status;
}

uint32_t
rig_free(const struct rig *rig, uint32_t handle)
{
    struct nv_os00 call = {.hRoot = rig->client, .hObjectOld = handle};

    return rig_escape(rig, &rig->ctl, NV_ESC_RM_FREE, NV_S_NV_OS00, &call);
}

uint32_t
rig_control_sized(const struct rig *rig, uint32_t object, uint32_t command,
                  void *params, uint32_t size_bytes)
{
    struct nv_os54 call = {
        .hClient = rig->client,
        .hObject = object,
        .cmd = command,
        .params = (uintptr_t)params,
        .paramsSize = size_bytes,
    };

    return rig_escape(rig, &rig->ctl, NV_ESC_RM_CONTROL, NV_S_NV_OS54, &call);
}

uint32_t
rig_control(const struct rig *rig, uint32_t object, uint32_t command,
            uint32_t struct_id, void *params)
{
    uint64_t wire[2048];
    uint32_t n = nv_wire_bytes(&rig->abi, struct_id), status;

    is_true(n <= sizeof(wire));
    memset(wire, 0, sizeof(wire));
    nv_wire_pack(&rig->abi, struct_id, params, wire);
    status = rig_control_sized(rig, object, command, wire, n);
    nv_wire_unpack(&rig->abi, struct_id, wire, params);
    return status;
}

void
rig_open(const struct rig *rig, const char *path, struct kio_file *out_file)
{
    is_zero(kio_open(rig->kio, path, O_RDWR, out_file));
}

/* The errno of a request that fails as a system call; 0: it did not. */
int
rig_errno(const struct kio_file *file, unsigned long request, void *arg)
{
    uint32_t vendor;

    errno = 0;
    if (kio_ioctl_status(file, request, arg, &vendor) == BELL_OK)
        return 0;
    return errno;
}

/* ---- pieces of the bring-up ---------------------------------------------- */

uint32_t
rig_video(const struct rig *rig, uint64_t size_bytes, uint32_t *handle)
{
    struct nv_memory_alloc params = {
        .owner = rig->client,
        .flags = VIDEO_FLAGS,
        .attr = VIDEO_ATTR,
        .attr2 = 0x100005,
        .format = 6,
        .size = size_bytes,
        .alignment = HUGE,
    };

    return rig_alloc(rig, rig->device, NV01_MEMORY_LOCAL_USER,
                     NV_S_NV_MEMORY_ALLOC, &params, handle);
}

uint32_t
rig_system(const struct rig *rig, uint64_t size_bytes, uint32_t *handle)
{
    struct nv_memory_alloc params = {
        .owner = rig->client,
        .type = 13,
        .flags = 0xc101,
        .attr = 0xaa000000,
        .attr2 = 9,
        .size = size_bytes,
        .alignment = 0x1000,
    };

    return rig_alloc(rig, rig->device, NV01_MEMORY_SYSTEM, NV_S_NV_MEMORY_ALLOC,
                     &params, handle);
}

uint32_t
rig_map_cpu(const struct rig *rig, uint32_t parent, uint32_t memory,
            uint64_t offset, uint64_t length, const struct kio_file *file,
            uint64_t *out_linear)
{
    struct nv_os33_fd call = {
        .params =
            {
                .hClient = rig->client,
                .hDevice = parent,
                .hMemory = memory,
                .offset = offset,
                .length = length,
            },
        .fd = file->fd,
    };
    uint32_t status = rig_escape(rig, &rig->ctl, NV_ESC_RM_MAP_MEMORY,
                                 NV_S_NV_OS33_FD, &call);

    if (out_linear)
        *out_linear = call.params.pLinearAddress;
    return status;
}

void *
rig_map_file(const struct rig *rig, const struct kio_file *file,
             size_t size_bytes)
{
    void *p = NULL;

    is_zero(kio_mmap(rig->kio, file, NULL, size_bytes, PROT_READ | PROT_WRITE,
                     MAP_SHARED, 0, &p));
    return p;
}

uint32_t
rig_carrier(const struct rig *rig, uint64_t size_bytes, uint64_t align_bytes,
            uint32_t *handle, uint64_t *out_va)
{
    struct nv_memory_alloc params = {
        .owner = rig->client,
        .flags = 0x80000 | 0x4000 | 1,
        .attr = 1u << 25 | 1u << 27,
        .size = size_bytes,
        .alignment = align_bytes,
        .hVASpace = rig->space,
    };
    uint32_t status = rig_alloc(rig, rig->device, NV50_MEMORY_VIRTUAL,
                                NV_S_NV_MEMORY_ALLOC, &params, handle);

    if (out_va)
        *out_va = params.offset;
    return status;
}

uint32_t
rig_map_gpu(const struct rig *rig, uint32_t carrier, uint32_t memory,
            uint64_t offset, uint64_t length, uint32_t flags, uint64_t *va)
{
    struct nv_os46 call = {
        .hClient = rig->client,
        .hDevice = rig->device,
        .hDma = carrier,
        .hMemory = memory,
        .offset = offset,
        .length = length,
        .flags = flags,
        .dmaOffset = *va,
    };
    uint32_t status = rig_escape(rig, &rig->ctl, NV_ESC_RM_MAP_MEMORY_DMA,
                                 NV_S_NV_OS46, &call);

    if (status == 0)
        *va = call.dmaOffset;
    return status;
}

uint32_t
rig_unmap_gpu(const struct rig *rig, uint32_t carrier, uint32_t memory,
              uint64_t va, uint64_t size_bytes)
{
    struct nv_os47 call = {
        .hClient = rig->client,
        .hDevice = rig->device,
        .hDma = carrier,
        .hMemory = memory,
        .dmaOffset = va,
        .size = size_bytes,
    };

    return rig_escape(rig, &rig->ctl, NV_ESC_RM_UNMAP_MEMORY_DMA, NV_S_NV_OS47,
                      &call);
}

uint32_t
rig_group(const struct rig *rig, uint32_t engine, uint32_t *handle)
{
    struct nv_channel_group_alloc params = {
        .hVASpace = rig->space,
        .engineType = engine,
    };

    return rig_alloc(rig, rig->device, KEPLER_CHANNEL_GROUP_A,
                     NV_S_NV_CHANNEL_GROUP_ALLOC, &params, handle);
}

struct nv_channel_alloc
rig_channel_params(const struct rig *rig)
{
    return (struct nv_channel_alloc){
        .hObjectError = rig->notifier,
        .gpFifoOffset = rig->va,
        .gpFifoEntries = RING_ENTRIES,
        .hUserdMemory = {rig->memory},
        .userdOffset = {AT_USERD},
        .engineType = rig->engine,
    };
}

/* The newest class of the list that ends like this one. */
uint32_t
rig_class(const struct rig *rig, uint32_t suffix)
{
    uint32_t i, best = 0;

    for (i = 0; i < rig->n_classes; i++) {
        if ((rig->classes[i] & 0xff) == suffix && rig->classes[i] > 0xc000 &&
            rig->classes[i] > best)
            best = rig->classes[i];
    }
    is_true(best != 0);
    return best;
}

uint32_t
rig_channel(const struct rig *rig, const struct nv_channel_alloc *params,
            uint32_t *handle)
{
    struct nv_channel_alloc copy = *params;

    return rig_alloc(rig, rig->group, rig_class(rig, 0x6f),
                     NV_S_NV_CHANNEL_ALLOC, &copy, handle);
}

uint32_t
rig_token(const struct rig *rig, uint32_t channel, uint32_t *out_token)
{
    struct nvc36f_gpfifo_get_work_submit_token params = {0};
    uint32_t status =
        rig_control(rig, channel, NVC36F_CTRL_CMD_GPFIFO_GET_WORK_SUBMIT_TOKEN,
                    NV_S_NVC36F_GPFIFO_GET_WORK_SUBMIT_TOKEN, &params);

    *out_token = params.workSubmitToken;
    return status;
}

uint32_t
rig_schedule(const struct rig *rig, uint32_t group, bool enable)
{
    struct nva06c_gpfifo_schedule params = {.bEnable = enable};

    return rig_control(rig, group, NVA06C_CTRL_CMD_GPFIFO_SCHEDULE,
                       NV_S_NVA06C_GPFIFO_SCHEDULE, &params);
}

/* ---- the bring-up, step by step ------------------------------------------ */

static void
step_client(struct rig *rig)
{
    rig_open(rig, "/dev/nvidiactl", &rig->ctl);
    is_zero(rig_alloc(rig, 0, NV01_ROOT_CLIENT, NO_STRUCT, NULL, &rig->client));
    assert_int_not_equal(rig->client, 0);
}

static void
step_version(struct rig *rig)
{
    struct nv0000_system_get_build_version_v2 version = {0};
    struct nv_abi abi;

    is_zero(rig_control(rig, rig->client,
                        NV0000_CTRL_CMD_SYSTEM_GET_BUILD_VERSION_V2,
                        NV_S_NV0000_SYSTEM_GET_BUILD_VERSION_V2, &version));
    is_zero(nv_abi_parse(version.driverVersionBuffer, &abi));
    assert_int_equal(abi.branch, rig->abi.branch);
}

static void
step_cards(struct rig *rig)
{
    struct nv_card_info infos[64]; /* more than there can be cards */

    memset(infos, 0xff, sizeof(infos));
    is_zero(kio_ioctl(&rig->ctl, nv_request(NV_ESC_CARD_INFO, sizeof(infos)),
                      infos));
    is_true(!infos[63].valid);
    is_true(infos[0].valid);
    assert_int_equal(infos[0].pci_info.vendor_id, 0x10de);
    is_zero(infos[0].minor_number);
    is_true(infos[0].fb_size > 0);
    rig->gpu_id = infos[0].gpu_id;
}

static void
step_node(struct rig *rig)
{
    struct nv_register_fd call = {.ctl_fd = rig->ctl.fd};

    rig_open(rig, "/dev/nvidia0", &rig->node);
    is_zero(kio_ioctl(&rig->node, nv_request(NV_ESC_REGISTER_FD, sizeof(call)),
                      &call));
}

static void
step_device(struct rig *rig)
{
    struct nv0000_gpu_get_id_info_v2 id = {.gpuId = rig->gpu_id};
    struct nv0080_alloc device = {.hClientShare = rig->client};
    struct nv2080_alloc subdevice = {0};

    is_zero(rig_control(rig, rig->client, NV0000_CTRL_CMD_GPU_GET_ID_INFO_V2,
                        NV_S_NV0000_GPU_GET_ID_INFO_V2, &id));
    device.deviceId = id.deviceInstance;
    is_zero(rig_alloc(rig, rig->client, NV01_DEVICE_0, NV_S_NV0080_ALLOC,
                      &device, &rig->device));
    is_zero(rig_alloc(rig, rig->device, NV20_SUBDEVICE_0, NV_S_NV2080_ALLOC,
                      &subdevice, &rig->subdevice));
}

static void
step_classes(struct rig *rig)
{
    struct nv0080_gpu_get_classlist list = {0};

    is_zero(rig_control(rig, rig->device, NV0080_CTRL_CMD_GPU_GET_CLASSLIST,
                        NV_S_NV0080_GPU_GET_CLASSLIST, &list));
    is_true(list.numClasses > 5 && list.numClasses <= ARRAY_LEN(rig->classes));
    list.classList = (uintptr_t)rig->classes;
    is_zero(rig_control(rig, rig->device, NV0080_CTRL_CMD_GPU_GET_CLASSLIST,
                        NV_S_NV0080_GPU_GET_CLASSLIST, &list));
    rig->n_classes = list.numClasses;
}

static void
step_space(struct rig *rig)
{
    struct nv_vaspace_alloc params = {0};

    is_zero(rig_alloc(rig, rig->device, FERMI_VASPACE_A, NV_S_NV_VASPACE_ALLOC,
                      &params, &rig->space));
}

static uint64_t
window_time(const struct rig *rig)
{
    return rig->window[0x80 / 4] | (uint64_t)rig->window[0x84 / 4] << 32;
}

static bool
clock_moves(const struct rig *rig)
{
    uint64_t first = window_time(rig);
    unsigned i;

    for (i = 0; i < WAIT_MS && window_time(rig) <= first; i++)
        usleep(1000);
    return window_time(rig) > first;
}

static void
step_window(struct rig *rig)
{
    struct nv_hopper_usermode_a params = {.bBar1Mapping = 1};
    uint32_t nv_class = rig_class(rig, 0x61);
    bool is_bar1 = rig->bell == RIG_BELL_BAR1 && nv_class >= HOPPER_USERMODE_A;

    is_zero(rig_alloc(rig, rig->subdevice, nv_class, NV_S_NV_HOPPER_USERMODE_A,
                      is_bar1 ? &params : NULL, &rig->usermode));
    rig_open(rig, "/dev/nvidia0", &rig->window_file);
    is_zero(rig_map_cpu(rig, rig->subdevice, rig->usermode, 0, 0x10000,
                        &rig->window_file, NULL));
    rig->window = rig_map_file(rig, &rig->window_file, 0x10000);
    /* what BAR1 has is not for reading */
    is_true(is_bar1 || clock_moves(rig));
}

static void
step_boost(struct rig *rig)
{
    struct nv2080_perf_boost params = {.flags = 0x12, .duration = 0xffffffff};

    is_zero(rig_control(rig, rig->subdevice, NV2080_CTRL_CMD_PERF_BOOST,
                        NV_S_NV2080_PERF_BOOST, &params));
    params.flags = 0x52; /* with CUDA_PRIORITY */
    is_zero(rig_control(rig, rig->subdevice, NV2080_CTRL_CMD_PERF_BOOST,
                        NV_S_NV2080_PERF_BOOST, &params));
}

static void
step_memory(struct rig *rig)
{
    is_zero(rig_video(rig, HUGE, &rig->memory));
    rig_open(rig, "/dev/nvidia0", &rig->view_file);
    is_zero(rig_map_cpu(rig, rig->device, rig->memory, 0, HUGE, &rig->view_file,
                        NULL));
    rig->cpu = rig_map_file(rig, &rig->view_file, HUGE);
    memset(rig->cpu, 0, 0x9000);
    is_zero(rig_carrier(rig, HUGE, HUGE, &rig->carrier, NULL));
    rig->va = 0;
    is_zero(rig_map_gpu(rig, rig->carrier, rig->memory, 0, HUGE, 0, &rig->va));
    is_zero(rig->va % HUGE);
}

static void
step_notifier(struct rig *rig)
{
    is_zero(rig_system(rig, 0x1000, &rig->notifier));
}

static void
step_channel(struct rig *rig)
{
    struct nv_channel_alloc params = rig_channel_params(rig);

    is_zero(rig_group(rig, rig->engine, &rig->group));
    is_zero(rig_channel(rig, &params, &rig->channel));
}

static void
step_object(struct rig *rig)
{
    struct nv_gr_alloc gr = {.version = 2, .size = 16};
    struct nvb0b5_alloc ce = {.version = 1, .engineType = rig->engine};
    bool is_gr = rig->engine == GR0;

    is_zero(rig_alloc(rig, rig->channel, rig_class(rig, is_gr ? 0xc0 : 0xb5),
                      is_gr ? NV_S_NV_GR_ALLOC : NV_S_NVB0B5_ALLOC,
                      is_gr ? (void *)&gr : (void *)&ce, &rig->object));
}

static void
step_schedule(struct rig *rig)
{
    is_zero(rig_token(rig, rig->channel, &rig->token));
    is_zero(rig_schedule(rig, rig->group, true));
}

static void (*const steps[])(struct rig *rig) = {
    step_client,   step_version, step_cards,  step_node,     step_device,
    step_classes,  step_space,   step_window, step_boost,    step_memory,
    step_notifier, step_channel, step_object, step_schedule,
};

void
rig_init_on(struct rig *rig, struct kio *kio, const char *version,
            uint32_t engine)
{
    *rig = (struct rig){.kio = kio, .engine = engine};
    rig->ctl.fd = rig->node.fd = rig->window_file.fd = rig->view_file.fd = -1;
    is_zero(nv_abi_parse(version, &rig->abi));
    kio_set_branch(kio, rig->abi.branch);
}

void
rig_init(struct rig *rig, const char *spec)
{
    struct kio *kio;
    char text[512];
    size_t n;

    is_zero(kio_sim_create("NV", spec, &kio));
    is_zero(kio_read_file(kio, "/proc/driver/nvidia/version", text,
                          sizeof(text), &n));
    rig_init_on(rig, kio, text, GR0);
}

void
rig_run_from(struct rig *rig, size_t first)
{
    size_t i;

    for (i = first; i < RIG_ALL; i++)
        steps[i](rig);
}

void
rig_run(struct rig *rig, size_t n_steps)
{
    size_t i;

    for (i = 0; i < n_steps; i++)
        steps[i](rig);
}

/* Closes files and mappings in the order of a process that ends well. */
void
rig_close(struct rig *rig)
{
    kio_munmap(rig->kio, (void *)(uintptr_t)rig->window,
               rig->window ? 0x10000 : 0);
    kio_munmap(rig->kio, rig->cpu, rig->cpu ? HUGE : 0);
    kio_close(&rig->window_file);
    kio_close(&rig->view_file);
    kio_close(&rig->node);
    kio_close(&rig->ctl);
}

void
rig_nothing_left(const struct kio *kio)
{
    struct sim_nv_usage usage;

    sim_nv_usage(kio, &usage);
    assert_int_equal(usage.clients, 0);
    assert_int_equal(usage.objects, 0);
    assert_int_equal(usage.files, 0);
    assert_int_equal(usage.mappings, 0);
    assert_int_equal(usage.memory_bytes, 0);
    assert_int_equal(usage.va_mapped_bytes, 0);
}

void
rig_fini(struct rig *rig)
{
    rig_close(rig);
    rig_nothing_left(rig->kio);
    kio_destroy(rig->kio);
}

/* ---- submitting ---------------------------------------------------------- */

volatile uint32_t *
rig_word(const struct rig *rig, uint32_t offset)
{
    return (volatile uint32_t *)(void *)(rig->cpu + offset);
}

/* Puts words into the ring as one segment and rings. */
void
rig_submit(struct rig *rig, const uint32_t *words, uint32_t n)
{
    volatile uint64_t *ring = (volatile uint64_t *)(void *)rig->cpu;
    uint32_t at = AT_PUSH + rig->put * 64, i;

    for (i = 0; i < n; i++)
        rig_word(rig, at)[i] = words[i];
    ring[rig->put] = (rig->va + at) | (uint64_t)n << 42;
    rig->put = (rig->put + 1) % RING_ENTRIES;
    __sync_synchronize();
    *rig_word(rig, AT_USERD + 0x8c) = rig->put;
    __sync_synchronize();
    if (rig->bell == RIG_BELL_FLUSHED)
        (void)*rig_word(rig, AT_USERD + 0x8c);
    rig->window[0x90 / 4] = rig->token;
}

/* src: docs/hardware/nvidia-queues.md, "Test vectors" */
void
rig_release(struct rig *rig, uint64_t va, uint32_t value)
{
    uint32_t words[] = {0x20050017, (uint32_t)va, (uint32_t)(va >> 32), value,
                        0,          0x03100001};

    rig_submit(rig, words, ARRAY_LEN(words));
}

bool
rig_wait(const volatile uint32_t *word, uint32_t value)
{
    unsigned i;

    for (i = 0; i < WAIT_MS * 5; i++) {
        if (__atomic_load_n(word, __ATOMIC_ACQUIRE) == value)
            return true;
        usleep(200);
    }
    return false;
}

void
rig_check_work(struct rig *rig)
{
    uint32_t i;

    for (i = 1; i <= 100; i++) {
        rig_release(rig, rig->va + AT_SEM, i);
        assert_true(rig_wait(rig_word(rig, AT_SEM), i));
    }
    assert_int_equal(*rig_word(rig, AT_USERD + 0x88), rig->put);
}
