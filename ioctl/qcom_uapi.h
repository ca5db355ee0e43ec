/* Flags and numbers inside the structs of the two kernel interfaces of Adreno.
 * The structs and requests are in ioctl/kgsl_uapi.h and ioctl/msm_uapi.h, made
 * from kgsl.uapi and msm.uapi.
 * src: docs/hardware/adreno-kernel.md, "KGSL", "msm".
 */
#ifndef BELL_IOCTL_QCOM_UAPI_H
#define BELL_IOCTL_QCOM_UAPI_H

/* ---- KGSL -------------------------------------------------------------- */

enum kgsl_property {
    KGSL_PROP_DEVICE_INFO = 0x1,
    KGSL_PROP_DEVICE_SHADOW = 0x2,
    KGSL_PROP_GPU_RESET_STAT = 0x9, /* in: context; out: kgsl_reset_stat */
    KGSL_PROP_PWR_CONSTRAINT = 0x12,
    KGSL_PROP_UCHE_GMEM_VADDR = 0x13,
    KGSL_PROP_HIGHEST_BANK_BIT = 0x17,
    KGSL_PROP_DEVICE_BITNESS = 0x18,
    KGSL_PROP_UBWC_MODE = 0x1b,
    KGSL_PROP_SPEED_BIN = 0x25,
    KGSL_PROP_QUERY_CAPABILITIES = 0x27,
    KGSL_PROP_CONTEXT_PROPERTY = 0x28,
    KGSL_PROP_GPU_MODEL = 0x29, /* 32 characters */
    KGSL_PROP_IS_LPAC_ENABLED = 0x2b,
    KGSL_PROP_GPU_VA64_SIZE = 0x2c,
};

enum kgsl_reset_stat {
    KGSL_CTX_STAT_NO_ERROR = 0,
    KGSL_CTX_STAT_GUILTY = 1,
    KGSL_CTX_STAT_INNOCENT = 2,
    KGSL_CTX_STAT_UNKNOWN = 3,
};

/* Flags of drawctxt_create. */
enum kgsl_context_flag {
    KGSL_CONTEXT_NO_GMEM_ALLOC = 0x2, /* must be there */
    KGSL_CONTEXT_PREAMBLE = 0x10,     /* must be there */
    KGSL_CONTEXT_PER_CONTEXT_TS = 0x40,
    KGSL_CONTEXT_USER_GENERATED_TS = 0x80,
    KGSL_CONTEXT_NO_FAULT_TOLERANCE = 0x200,
    KGSL_CONTEXT_PWR_CONSTRAINT = 0x800,
    KGSL_CONTEXT_PRIORITY_MASK = 0xf000,
    KGSL_CONTEXT_SECURE = 0x20000,
    KGSL_CONTEXT_TYPE_MASK = 0x1f00000,
    KGSL_CONTEXT_PREEMPT_STYLE_MASK = 0xe000000,
    KGSL_CONTEXT_INVALIDATE_ON_FAULT = 0x10000000,
    KGSL_CONTEXT_LPAC = 0x20000000,
    KGSL_CONTEXT_FAULT_INFO = 0x40000000,
};
#define KGSL_CONTEXT_PRIORITY_SHIFT          12
#define KGSL_CONTEXT_PRIORITY_MEDIUM         8
#define KGSL_CONTEXT_TYPE_SHIFT              20
#define KGSL_CONTEXT_TYPE_CL                 2
#define KGSL_CONTEXT_PREEMPT_STYLE_SHIFT     25
#define KGSL_CONTEXT_PREEMPT_STYLE_FINEGRAIN 2

/* Flags of kgsl_gpuobj_alloc; 64 bits. */
#define KGSL_MEMFLAGS_GPUREADONLY 0x1000000ull
#define KGSL_MEMFLAGS_USE_CPU_MAP 0x10000000ull
#define KGSL_MEMFLAGS_IOCOHERENT  0x80000000ull
#define KGSL_MEMFLAGS_FORCE_32BIT 0x100000000ull
#define KGSL_MEMFLAGS_GUARD_PAGE  0x200000000ull
#define KGSL_CACHEMODE_MASK       0xc000000ull
#define KGSL_CACHEMODE_SHIFT      26
#define KGSL_MEMTYPE_MASK         0xff00ull
#define KGSL_MEMTYPE_SHIFT        8
#define KGSL_MEMALIGN_MASK        0xff0000ull
#define KGSL_MEMALIGN_SHIFT       16
#define KGSL_MEMTYPE_CL           10ull
#define KGSL_MEMTYPE_COMMAND      16ull
enum kgsl_cache_mode {
    KGSL_CACHEMODE_WRITECOMBINE = 0,
    KGSL_CACHEMODE_UNCACHED = 1,
    KGSL_CACHEMODE_WRITETHROUGH = 2,
    KGSL_CACHEMODE_WRITEBACK = 3,
};
/* mmap's offset of an object. */

/* kgsl_gpuobj_sync_obj.op and kgsl_gpumem_sync_cache.op */
#define KGSL_CACHE_CLEAN      0x1u
#define KGSL_CACHE_INVALIDATE 0x2u
#define KGSL_CACHE_RANGE      0x80000000u
#define KGSL_SYNC_MAX         128 /* objects of one call */

/* kgsl_map_user_mem.memtype and kgsl_gpuobj_import.type */
enum kgsl_user_mem {
    KGSL_USER_MEM_ADDR = 2,
    KGSL_USER_MEM_DMABUF = 3,
};

/* kgsl_gpuobj_free.flags, .type */
#define KGSL_GPUOBJ_FREE_ON_EVENT 0x1u
#define KGSL_GPU_EVENT_TIMESTAMP  1
#define KGSL_GPU_EVENT_FENCE      2

/* kgsl_gpu_command.flags */
enum kgsl_command_flag {
    KGSL_CMDBATCH_MARKER = 0x2,
    KGSL_CMDBATCH_SUBMIT_IB_LIST = 0x4,
    KGSL_CMDBATCH_PROFILING = 0x10,
    KGSL_CMDBATCH_END_OF_FRAME = 0x100,
    KGSL_CMDBATCH_SYNC = 0x400,
    KGSL_CMDBATCH_PWR_CONSTRAINT = 0x800,
};
/* kgsl_command_object.flags: of cmdlist and of objlist. */
#define KGSL_CMDLIST_IB          0x1u
#define KGSL_CMDLIST_CTXTSWITCH  0x2u
#define KGSL_CMDLIST_IB_PREAMBLE 0x4u
#define KGSL_OBJLIST_MEMOBJ      0x8u
#define KGSL_OBJLIST_PROFILE     0x10u
#define KGSL_IB_MAX_DWORDS       0xfffffu
#define KGSL_COMMAND_MAX_OBJECTS 2000
#define KGSL_COMMAND_MAX_SYNCS   32
/* kgsl_command_syncpoint.type */
#define KGSL_SYNCPOINT_TIMESTAMP 0
#define KGSL_SYNCPOINT_FENCE     1

/* kgsl_cmdstream_readtimestamp_ctxtid.type */
enum kgsl_timestamp {
    KGSL_TIMESTAMP_CONSUMED = 1,
    KGSL_TIMESTAMP_RETIRED = 2,
    KGSL_TIMESTAMP_QUEUED = 3,
};

/* kgsl_device_constraint */
#define KGSL_CONSTRAINT_PWRLEVEL 1
#define KGSL_CONSTRAINT_PWR_MIN  0u
#define KGSL_CONSTRAINT_PWR_MAX  1u

/* kgsl_context_property.type; kgsl_fault.type; kgsl_pagefault_report */
#define KGSL_CONTEXT_PROP_FAULTS   1
#define KGSL_FAULT_TYPE_PAGEFAULT  1
#define KGSL_PAGEFAULT_READ        0x1u
#define KGSL_PAGEFAULT_WRITE       0x2u
#define KGSL_PAGEFAULT_TRANSLATION 0x4u
#define KGSL_PAGEFAULT_PERMISSION  0x8u
#define KGSL_PAGEFAULT_EXTERNAL    0x10u
#define KGSL_PAGEFAULT_STALLED     0x20u

/* ---- msm --------------------------------------------------------------- */

#define MSM_PIPE_3D0 0x10u
enum msm_param {
    MSM_PARAM_GPU_ID = 0x1,
    MSM_PARAM_GMEM_SIZE = 0x2,
    MSM_PARAM_CHIP_ID = 0x3, /* low half as KGSL's chip_id */
    MSM_PARAM_MAX_FREQ = 0x4,
    MSM_PARAM_TIMESTAMP = 0x5,
    MSM_PARAM_GMEM_BASE = 0x6,
    MSM_PARAM_PRIORITIES = 0x7,
    MSM_PARAM_FAULTS = 0x9,
    MSM_PARAM_SUSPENDS = 0xa,
    MSM_PARAM_VA_START = 0xe,
    MSM_PARAM_VA_SIZE = 0xf,
    MSM_PARAM_HIGHEST_BANK_BIT = 0x10,
    MSM_PARAM_RAYTRACING = 0x11,
};

/* drm_msm_gem_new.flags */
#define MSM_BO_GPU_READONLY    0x2u
#define MSM_BO_CACHE_MASK      0xf0000u
#define MSM_BO_CACHED          0x10000u
#define MSM_BO_WC              0x20000u
#define MSM_BO_UNCACHED        0x40000u
#define MSM_BO_CACHED_COHERENT 0x80000u

/* drm_msm_gem_info.info */
enum msm_info {
    MSM_INFO_GET_OFFSET = 0,
    MSM_INFO_GET_IOVA = 1,
    MSM_INFO_SET_NAME = 2,
    MSM_INFO_GET_NAME = 3,
    MSM_INFO_SET_IOVA = 4,
    MSM_INFO_GET_FLAGS = 5,
};

/* drm_msm_gem_cpu_prep.op */
#define MSM_PREP_READ   0x1u
#define MSM_PREP_WRITE  0x2u
#define MSM_PREP_NOSYNC 0x4u

/* drm_msm_gem_submit.flags, and those of its lists */
#define MSM_SUBMIT_NO_IMPLICIT  0x80000000u
#define MSM_SUBMIT_FENCE_FD_IN  0x40000000u
#define MSM_SUBMIT_FENCE_FD_OUT 0x20000000u
#define MSM_SUBMIT_SYNCOBJ_IN   0x08000000u
#define MSM_SUBMIT_SYNCOBJ_OUT  0x04000000u
#define MSM_SUBMIT_FENCE_SN_IN  0x02000000u
#define MSM_SUBMIT_CMD_BUF      1u
#define MSM_SUBMIT_BO_READ      0x1u
#define MSM_SUBMIT_BO_WRITE     0x2u
#define MSM_SUBMIT_BO_DUMP      0x4u

#define MSM_SUBMITQUEUE_ALLOW_PREEMPT 0x1u
#define MSM_SUBMITQUEUE_PARAM_FAULTS  0u

#endif
