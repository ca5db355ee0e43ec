/* AMD's kernel interface: the part of /dev/kfd and of the render node that we
 * use. Debian 12's linux/kfd_ioctl.h needs a header that is not installed
 * with it and ends at KFD 1.11, so the structs are declared here, with the
 * sizes and offsets of KFD 1.11 to 1.23 asserted.
 * src: Linux 6.12 and 7.3, include/uapi/linux/kfd_ioctl.h.
 */
#ifndef BELL_IOCTL_KFD_UAPI_H
#define BELL_IOCTL_KFD_UAPI_H

#include <assert.h>
#include <stddef.h>
#include <stdint.h>

#define KFD_LAYOUT(type, size) static_assert(sizeof(struct type) == (size), "")

struct kfd_version {
    uint32_t major, minor;
};
KFD_LAYOUT(kfd_version, 8);

/* From 1.17 on 96 bytes, before 88. */
struct kfd_create_queue {
    uint64_t ring_va, wptr_va, rptr_va;
    uint64_t doorbell_offset; /* out */
    uint32_t ring_bytes, gpu_id, type, percentage, priority;
    uint32_t queue_id; /* out */
    uint64_t eop_va, eop_bytes, save_va;
    uint32_t save_bytes, control_stack_bytes;
    uint32_t sdma_engine;
    uint32_t metadata_bytes; /* of the ring, from 1.22 on; 0 before */
};
KFD_LAYOUT(kfd_create_queue, 96);
static_assert(offsetof(struct kfd_create_queue, eop_va) == 56, "");
static_assert(offsetof(struct kfd_create_queue, sdma_engine) == 88, "");

enum kfd_queue_type {
    KFD_QUEUE_PM4 = 0,
    KFD_QUEUE_SDMA = 1,
    KFD_QUEUE_AQL = 2,
    KFD_QUEUE_SDMA_XGMI = 3,
    KFD_QUEUE_SDMA_ENGINE = 4
};

struct kfd_queue_ref {
    uint32_t queue_id, pad;
};
KFD_LAYOUT(kfd_queue_ref, 8);

struct kfd_update_queue {
    uint64_t ring_va;
    uint32_t queue_id, ring_bytes, percentage, priority;
};
KFD_LAYOUT(kfd_update_queue, 24);

struct kfd_clock_counters {
    uint64_t gpu_clock, cpu_clock, system_clock, system_clock_hz; /* out */
    uint32_t gpu_id, pad;
};
KFD_LAYOUT(kfd_clock_counters, 40);

struct kfd_apertures {
    uint64_t lds_base, lds_limit, scratch_base, scratch_limit;
    uint64_t gpuvm_base, gpuvm_limit;
    uint32_t gpu_id, pad;
};
KFD_LAYOUT(kfd_apertures, 56);

struct kfd_get_apertures {
    uint64_t apertures; /* pointer */
    uint32_t n, pad;
};
KFD_LAYOUT(kfd_get_apertures, 16);

enum kfd_event_type {
    KFD_EVENT_SIGNAL = 0,
    KFD_EVENT_HW_EXCEPTION = 3,
    KFD_EVENT_MEMORY = 8
};

struct kfd_create_event {
    uint64_t page_offset;  /* handle of the page's memory */
    uint32_t trigger_data; /* out */
    uint32_t type, auto_reset, node_id;
    uint32_t event_id, slot; /* out */
};
KFD_LAYOUT(kfd_create_event, 32);

struct kfd_event_ref {
    uint32_t event_id, pad;
};
KFD_LAYOUT(kfd_event_ref, 8);

struct kfd_memory_exception {
    uint32_t not_present, read_only, no_execute, imprecise;
    uint64_t va;
    uint32_t gpu_id, error_type;
};
KFD_LAYOUT(kfd_memory_exception, 32);

struct kfd_hw_exception {
    uint32_t reset_type, reset_cause, memory_lost, gpu_id;
};
KFD_LAYOUT(kfd_hw_exception, 16);
#define KFD_CAUSE_NOT_TOLD 2u /* ours: beside a hang, 0, and ECC, 1 */

struct kfd_event_data {
    union {
        struct kfd_memory_exception memory;
        struct kfd_hw_exception hw;
        uint64_t last_age; /* in */
    } u;
    uint64_t extension;
    uint32_t event_id, pad;
};
KFD_LAYOUT(kfd_event_data, 48);
static_assert(offsetof(struct kfd_event_data, event_id) == 40, "");

enum kfd_wait_result {
    KFD_WAIT_COMPLETE = 0,
    KFD_WAIT_TIMEOUT = 1,
    KFD_WAIT_FAIL = 2
};

struct kfd_wait_events {
    uint64_t events; /* pointer to kfd_event_data */
    uint32_t n, wait_for_all, timeout_ms;
    uint32_t result; /* out */
};
KFD_LAYOUT(kfd_wait_events, 24);

struct kfd_acquire_vm {
    uint32_t drm_fd, gpu_id;
};
KFD_LAYOUT(kfd_acquire_vm, 8);

enum kfd_memory_flag {
    KFD_MEM_VRAM = 1u << 0,
    KFD_MEM_GTT = 1u << 1,
    KFD_MEM_USERPTR = 1u << 2,
    KFD_MEM_DOORBELL = 1u << 3,
    KFD_MEM_MMIO = 1u << 4,
    KFD_MEM_CONTIGUOUS = 1u << 23,
    KFD_MEM_EXT_COHERENT = 1u << 24,
    KFD_MEM_UNCACHED = 1u << 25,
    KFD_MEM_COHERENT = 1u << 26,
    KFD_MEM_AQL = 1u << 27,
    KFD_MEM_NO_SUBSTITUTE = 1u << 28,
    KFD_MEM_PUBLIC = 1u << 29,
    KFD_MEM_EXECUTABLE = 1u << 30,
};
#define KFD_MEM_WRITABLE (1u << 31)

struct kfd_alloc_memory {
    uint64_t va, size_bytes;
    uint64_t handle;      /* out */
    uint64_t mmap_offset; /* in for user memory, else out */
    uint32_t gpu_id, flags;
};
KFD_LAYOUT(kfd_alloc_memory, 40);

struct kfd_free_memory {
    uint64_t handle;
};
KFD_LAYOUT(kfd_free_memory, 8);

/* Mapping and unmapping. */
struct kfd_map_memory {
    uint64_t handle;
    uint64_t gpu_ids; /* pointer to uint32_t */
    uint32_t n;
    uint32_t n_done; /* in and out */
};
KFD_LAYOUT(kfd_map_memory, 24);

/* Memory as a file, and back, also into another process. This tells about it.
 */
struct kfd_dmabuf_info {
    uint64_t size_bytes; /* out */
    uint64_t metadata;   /* pointer, or 0 */
    uint32_t metadata_bytes;
    uint32_t gpu_id, flags; /* out; enum kfd_memory_flag */
    uint32_t fd;
};
KFD_LAYOUT(kfd_dmabuf_info, 32);

struct kfd_import_dmabuf {
    uint64_t va;
    uint64_t handle; /* out */
    uint32_t gpu_id, fd;
};
KFD_LAYOUT(kfd_import_dmabuf, 24);

struct kfd_export_dmabuf {
    uint64_t handle;
    uint32_t flags;
    uint32_t fd; /* out */
};
KFD_LAYOUT(kfd_export_dmabuf, 16);

struct kfd_memory_policy {
    uint64_t aperture_base, aperture_bytes;
    uint32_t gpu_id, default_policy, alternate_policy, pad;
};
KFD_LAYOUT(kfd_memory_policy, 32);

struct kfd_scratch_va {
    uint64_t va;
    uint32_t gpu_id, pad;
};
KFD_LAYOUT(kfd_scratch_va, 16);

struct kfd_tile_config {
    uint64_t tile, macro; /* pointers to words */
    uint32_t n_tile, n_macro;
    uint32_t gpu_id, gb_addr_config, n_banks, n_ranks;
};
KFD_LAYOUT(kfd_tile_config, 40);

struct kfd_trap_handler {
    uint64_t handler_va, memory_va;
    uint32_t gpu_id, pad;
};
KFD_LAYOUT(kfd_trap_handler, 24);

struct kfd_available_memory {
    uint64_t bytes; /* out */
    uint32_t gpu_id, pad;
};
KFD_LAYOUT(kfd_available_memory, 16);

struct kfd_runtime_enable {
    uint64_t r_debug;
    uint32_t mode, capabilities;
};
KFD_LAYOUT(kfd_runtime_enable, 16);

#define KFD_RUNTIME_ON 1u /* mode */

/* At the start of each die's save area; the kernel's driver reads the last
 * words through the process's mapping of it. */
struct kfd_save_header {
    uint32_t wave_state[4]; /* the kernel's */
    uint32_t debug_offset, debug_bytes;
    uint64_t exception_va; /* of the word that it ORs reasons into */
    uint32_t event_id;     /* that it then sets */
    uint32_t pad;
};
KFD_LAYOUT(kfd_save_header, 40);
static_assert(offsetof(struct kfd_save_header, exception_va) == 24, "");

/* Bits of that word are these less one. src: Linux 6.12, kfd_ioctl.h, enum
 * kfd_dbg_trap_exception_code */
enum kfd_exception {
    KFD_EXCEPTION_WAVE_ABORT = 1,
    KFD_EXCEPTION_WAVE_TRAP = 2,
    KFD_EXCEPTION_WAVE_MATH = 3,
    KFD_EXCEPTION_WAVE_ILLEGAL = 4,
    KFD_EXCEPTION_WAVE_MEMORY = 5,
    KFD_EXCEPTION_WAVE_APERTURE = 6,
    KFD_EXCEPTION_DISPATCH_DIM = 16,
    KFD_EXCEPTION_DISPATCH_LDS = 17,
    KFD_EXCEPTION_DISPATCH_CODE = 18,
    KFD_EXCEPTION_PACKET_RESERVED = 19,
    KFD_EXCEPTION_PACKET_UNSUPPORTED = 20,
    KFD_EXCEPTION_DISPATCH_GROUP = 21,
    KFD_EXCEPTION_DISPATCH_REGISTER = 22,
    KFD_EXCEPTION_PACKET_VENDOR = 23,
    KFD_EXCEPTION_PREEMPTION = 30
};

struct kfd_xnack_mode {
    int32_t enabled; /* -1: tell it */
};
KFD_LAYOUT(kfd_xnack_mode, 4);

/* _IOC(dir, 'K', nr, size): 1 writes to the kernel, 2 reads from it. */
#define KFD_REQUEST(dir, nr, size)                                             \
    ((unsigned long)(dir) << 30 | (unsigned long)(size) << 16 | 0x4bul << 8 |  \
     (unsigned long)(nr))
#define KFD_GET_VERSION      KFD_REQUEST(2, 0x01, 8)
#define KFD_CREATE_QUEUE     KFD_REQUEST(3, 0x02, 96)
#define KFD_CREATE_QUEUE_OLD KFD_REQUEST(3, 0x02, 88)
#define KFD_DESTROY_QUEUE    KFD_REQUEST(3, 0x03, 8)
#define KFD_GET_CLOCKS       KFD_REQUEST(3, 0x05, 40)
#define KFD_UPDATE_QUEUE     KFD_REQUEST(1, 0x07, 24)
#define KFD_CREATE_EVENT     KFD_REQUEST(3, 0x08, 32)
#define KFD_DESTROY_EVENT    KFD_REQUEST(1, 0x09, 8)
#define KFD_SET_EVENT        KFD_REQUEST(1, 0x0a, 8)
#define KFD_RESET_EVENT      KFD_REQUEST(1, 0x0b, 8)
#define KFD_WAIT_EVENTS      KFD_REQUEST(3, 0x0c, 24)
#define KFD_GET_APERTURES    KFD_REQUEST(3, 0x14, 16)
#define KFD_ACQUIRE_VM       KFD_REQUEST(1, 0x15, 8)
#define KFD_ALLOC_MEMORY     KFD_REQUEST(3, 0x16, 40)
#define KFD_FREE_MEMORY      KFD_REQUEST(1, 0x17, 8)
#define KFD_MAP_MEMORY       KFD_REQUEST(3, 0x18, 24)
#define KFD_UNMAP_MEMORY     KFD_REQUEST(3, 0x19, 24)
#define KFD_GET_DMABUF_INFO  KFD_REQUEST(3, 0x1c, 32)
#define KFD_IMPORT_DMABUF    KFD_REQUEST(3, 0x1d, 24)
#define KFD_SET_XNACK        KFD_REQUEST(3, 0x21, 4)
#define KFD_AVAILABLE_MEMORY KFD_REQUEST(3, 0x23, 16)
#define KFD_EXPORT_DMABUF    KFD_REQUEST(3, 0x24, 16)
#define KFD_RUNTIME_ENABLE   KFD_REQUEST(3, 0x25, 16)
#define KFD_CREATE_PROCESS   KFD_REQUEST(0, 0x27, 0) /* from 1.19 on */
static_assert(KFD_GET_VERSION == 0x80084b01, "");
static_assert(KFD_CREATE_QUEUE == 0xc0604b02, "");
static_assert(KFD_CREATE_QUEUE_OLD == 0xc0584b02, "");
static_assert(KFD_ACQUIRE_VM == 0x40084b15, "");
static_assert(KFD_ALLOC_MEMORY == 0xc0284b16, "");
static_assert(KFD_FREE_MEMORY == 0x40084b17, "");
static_assert(KFD_MAP_MEMORY == 0xc0184b18, "");
static_assert(KFD_WAIT_EVENTS == 0xc0184b0c, "");
static_assert(KFD_AVAILABLE_MEMORY == 0xc0104b23, "");
static_assert(KFD_RUNTIME_ENABLE == 0xc0104b25, "");
static_assert(KFD_GET_DMABUF_INFO == 0xc0204b1c, "");
static_assert(KFD_IMPORT_DMABUF == 0xc0184b1d, "");
static_assert(KFD_EXPORT_DMABUF == 0xc0104b24, "");

/* mmap offsets on /dev/kfd: the kind of page in the top bits. */
#define KFD_MMAP_DOORBELL  (3ull << 62)
#define KFD_MMAP_EVENTS    (2ull << 62)
#define KFD_MMAP_MMIO      (0ull << 62)
#define KFD_MMAP_KIND      (3ull << 62)
#define KFD_MMAP_GPU_SHIFT 46

/* The render node: DRM_IOCTL_AMDGPU_INFO with a query. */
struct amdgpu_info {
    uint64_t return_pointer;
    uint32_t return_bytes, query;
    uint32_t rest[4];
};
KFD_LAYOUT(amdgpu_info, 32);
#define AMDGPU_INFO_REQUEST  0x40206445ul
#define AMDGPU_INFO_DEV_INFO 0x16u
/* rest[0] says which: 4 bytes. src: amdgpu_drm.h; MHz: amdgpu_kms.c */
#define AMDGPU_INFO_SENSOR          0x1du
#define AMDGPU_INFO_SENSOR_GFX_SCLK 0x1u
/* 4 bytes: how often the card's memory was lost. src: amdgpu_drm.h */
#define AMDGPU_INFO_VRAM_LOST_COUNTER 0x1fu
/* The first words of what it returns. */
struct amdgpu_device_info {
    uint32_t device_id, chip_rev, external_rev, pci_rev, family;
    uint32_t n_shader_engines, n_shader_arrays_per_engine;
    uint32_t gpu_counter_khz;
};
KFD_LAYOUT(amdgpu_device_info, 32);
static_assert(offsetof(struct amdgpu_device_info, gpu_counter_khz) == 28, "");

#undef KFD_LAYOUT
#endif
