/* KGSL, the vendor's kernel driver.
 * src: docs/hardware/adreno-kernel.md, "KGSL", "Contexts", "KGSL memory",
 * "Submission", "KGSL faults". */
#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

#include "base/log.h"
#include "hcq/qcom/qcom.h"
#include "ioctl/kgsl_uapi.h"
#include "ioctl/qcom_uapi.h"

#define NODE "/dev/kgsl-3d0"

#define PAGE_LOG2 12ull

/* How long the clock's own submission may take: others' come first. */
#define CLOCK_TIMEOUT_MS 3000u
#define CLOCK_RESULT     2048u /* behind the words, in their page */

static bell_status
get_property(const struct kio_file *file, uint32_t type, void *value,
             uint64_t size_bytes)
{
    struct kgsl_device_getproperty args = {
        .type = type,
        .value = (uintptr_t)value,
        .sizebytes = size_bytes,
    };

    return kio_ioctl(file, IOCTL_KGSL_DEVICE_GETPROPERTY, &args);
}

static bell_status
kgsl_open(struct kio *kio, unsigned idx, struct kio_file *out)
{
    if (idx > 0)
        return BELL_E_NO_DEVICE;
    return kio_open(kio, NODE, O_RDWR, out);
}

static bell_status
kgsl_identify(const struct kio_file *file, uint32_t *out_chip_id)
{
    struct kgsl_devinfo info = {0};

    BELL_TRY(get_property(file, KGSL_PROP_DEVICE_INFO, &info, sizeof(info)));
    *out_chip_id = info.chip_id;
    return BELL_OK;
}

/* ---- memory -------------------------------------------------------------- */

static void
free_object(struct qcom_device *dev, uint32_t id)
{
    struct kgsl_gpuobj_free args = {.id = id};

    (void)kio_ioctl_give_back(&dev->file, IOCTL_KGSL_GPUOBJ_FREE, &args);
}

static bell_status
object_info(struct qcom_device *dev, uint32_t id, struct kgsl_gpuobj_info *out)
{
    *out = (struct kgsl_gpuobj_info){.id = id};
    return kio_ioctl(&dev->file, IOCTL_KGSL_GPUOBJ_INFO, out);
}

static uint64_t
cache_mode(enum kgsl_cache_mode mode)
{
    return (uint64_t)mode << KGSL_CACHEMODE_SHIFT;
}

/* Flags for each kind of memory, on a chip that is coherent with the CPU or is
 * not. */
static uint64_t
kgsl_flags(const struct qcom_device *dev, enum qcom_mem_kind kind)
{
    uint64_t flags = PAGE_LOG2 << KGSL_MEMALIGN_SHIFT;

    if (dev->is_coherent)
        return flags | cache_mode(KGSL_CACHEMODE_WRITEBACK) |
               KGSL_MEMFLAGS_IOCOHERENT;
    return flags |
           cache_mode(kind == QCOM_MEM_DEVICE ? KGSL_CACHEMODE_WRITEBACK
                                              : KGSL_CACHEMODE_WRITECOMBINE);
}

/* Maps object `id`, and says where the chip has it. */
static bell_status
map_object(struct qcom_device *dev, uint64_t map_bytes, struct qcom_mem *mem)
{
    struct kgsl_gpuobj_info info;

    BELL_TRY(object_info(dev, mem->handle, &info));
    mem->va = info.gpuaddr;
    BELL_TRY(kio_mmap(dev->kio, &dev->file, NULL, map_bytes,
                      PROT_READ | PROT_WRITE, MAP_SHARED,
                      mem->handle * kio_page_bytes(dev->kio), &mem->cpu));
    mem->size_bytes = map_bytes;
    return BELL_OK;
}

static bell_status
kgsl_mem_alloc(struct qcom_device *dev, enum qcom_mem_kind kind,
               struct qcom_mem *mem)
{
    struct kgsl_gpuobj_alloc args = {
        .size = mem->size_bytes,
        .flags = kgsl_flags(dev, kind),
    };
    bell_status status;

    BELL_TRY(kio_ioctl(&dev->file, IOCTL_KGSL_GPUOBJ_ALLOC, &args));
    mem->handle = args.id;
    mem->is_stale = kind == QCOM_MEM_DEVICE && !dev->is_coherent;
    if (args.mmapsize < mem->size_bytes)
        status = bell_fail(BELL_E_KERNEL,
                           "the kernel has %llu bytes for an object of %llu",
                           (unsigned long long)args.mmapsize,
                           (unsigned long long)mem->size_bytes);
    else
        status = map_object(dev, args.mmapsize, mem);
    if (status != BELL_OK)
        free_object(dev, args.id);
    return status;
}

/* Such memory has no id of its own. */
static bell_status
kgsl_mem_pin(struct qcom_device *dev, void *ptr, struct qcom_mem *mem)
{
    struct kgsl_map_user_mem args = {
        .fd = -1,
        .len = mem->size_bytes,
        .hostptr = (uintptr_t)ptr,
        .memtype = KGSL_USER_MEM_ADDR,
        .flags = (uint32_t)kgsl_flags(dev, QCOM_MEM_SHARED),
    };

    if (!dev->is_coherent)
        return bell_fail(BELL_E_UNSUPPORTED,
                         "memory of the host cannot be pinned: the chip is not "
                         "coherent with the CPU");
    BELL_TRY(kio_ioctl(&dev->file, IOCTL_KGSL_MAP_USER_MEM, &args));
    mem->va = args.gpuaddr;
    mem->cpu = ptr;
    mem->is_pinned = true;
    return BELL_OK;
}

static void
kgsl_mem_free(struct qcom_device *dev, struct qcom_mem *mem)
{
    struct kgsl_sharedmem_free args = {.gpuaddr = mem->va};

    if (mem->is_pinned) {
        (void)kio_ioctl_give_back(&dev->file, IOCTL_KGSL_SHAREDMEM_FREE, &args);
        return;
    }
    kio_munmap(dev->kio, mem->cpu, mem->size_bytes);
    free_object(dev, mem->handle);
}

static bell_status
kgsl_mem_sync(struct qcom_device *dev, const struct qcom_mem *mem,
              uint64_t offset, uint64_t size_bytes, bool to_chip)
{
    struct kgsl_gpuobj_sync_obj object = {
        .offset = offset,
        .length = size_bytes,
        .id = mem->handle,
        .op = KGSL_CACHE_RANGE |
              (to_chip ? KGSL_CACHE_CLEAN : KGSL_CACHE_INVALIDATE),
    };
    struct kgsl_gpuobj_sync args = {
        .objs = (uintptr_t)&object,
        .obj_len = sizeof(object),
        .count = 1,
    };

    return kio_ioctl(&dev->file, IOCTL_KGSL_GPUOBJ_SYNC, &args);
}

/* Some kernels drop flags that they cannot serve.
 * src: docs/hardware/adreno-kernel.md, "KGSL memory" */
static bell_status
kgsl_begin(struct qcom_device *dev)
{
    struct kgsl_gpuobj_alloc args = {.size = 1ull << PAGE_LOG2};
    struct kgsl_gpuobj_info info;
    bell_status status;

    dev->is_coherent = true;
    args.flags = kgsl_flags(dev, QCOM_MEM_SHARED);
    BELL_TRY(kio_ioctl(&dev->file, IOCTL_KGSL_GPUOBJ_ALLOC, &args));
    status = object_info(dev, args.id, &info);
    free_object(dev, args.id);
    if (status == BELL_OK)
        dev->is_coherent = info.flags & KGSL_MEMFLAGS_IOCOHERENT;
    return status;
}

/* ---- contexts ------------------------------------------------------------ */

/* A fault ends the context, and is kept for us to ask about. */
#define CONTEXT_FLAGS                                                          \
    (KGSL_CONTEXT_PREAMBLE | KGSL_CONTEXT_NO_GMEM_ALLOC |                      \
     KGSL_CONTEXT_NO_FAULT_TOLERANCE | KGSL_CONTEXT_PWR_CONSTRAINT |           \
     KGSL_CONTEXT_PRIORITY_MEDIUM << KGSL_CONTEXT_PRIORITY_SHIFT |             \
     KGSL_CONTEXT_TYPE_CL << KGSL_CONTEXT_TYPE_SHIFT |                         \
     KGSL_CONTEXT_PREEMPT_STYLE_FINEGRAIN                                      \
         << KGSL_CONTEXT_PREEMPT_STYLE_SHIFT |                                 \
     KGSL_CONTEXT_INVALIDATE_ON_FAULT | KGSL_CONTEXT_FAULT_INFO)

/* The clock as high as it goes while the context works: a wish, which kernels
 * may refuse. */
static void
ask_for_power(struct qcom_device *dev, uint32_t context)
{
    uint32_t level = KGSL_CONSTRAINT_PWR_MAX;
    struct kgsl_device_constraint constraint = {
        .type = KGSL_CONSTRAINT_PWRLEVEL,
        .context_id = context,
        .data = (uintptr_t)&level,
        .size = sizeof(level),
    };
    struct kgsl_device_setproperty args = {
        .type = KGSL_PROP_PWR_CONSTRAINT,
        .value = (uintptr_t)&constraint,
        .sizebytes = sizeof(constraint),
    };
    struct bell_error_hold hold;

    bell_error_hold(&hold);
    if (kio_ioctl(&dev->file, IOCTL_KGSL_SETPROPERTY, &args) != BELL_OK)
        LOG(LOG_IOCTL, "no constraint of power: %s",
            bell_error_last()->message);
    bell_error_release(&hold);
}

static bell_status
kgsl_context_make(struct qcom_device *dev, struct qcom_context *context)
{
    struct kgsl_drawctxt_create args = {.flags = CONTEXT_FLAGS};

    BELL_TRY(kio_ioctl(&dev->file, IOCTL_KGSL_DRAWCTXT_CREATE, &args));
    *context = (struct qcom_context){.is_made = true, .id = args.drawctxt_id};
    ask_for_power(dev, context->id);
    return BELL_OK;
}

static void
kgsl_context_drop(struct qcom_device *dev, struct qcom_context *context)
{
    struct kgsl_drawctxt_destroy args = {.drawctxt_id = context->id};

    assert(context->is_made);
    (void)kio_ioctl_give_back(&dev->file, IOCTL_KGSL_DRAWCTXT_DESTROY, &args);
    context->is_made = false;
}

static bell_status
kgsl_submit(struct qcom_device *dev, struct qcom_context *context,
            const struct qcom_ib *ibs, uint32_t n, uint32_t *out_stamp)
{
    struct kgsl_command_object objects[QCOM_SUBMIT_IBS];
    struct kgsl_gpu_command args = {
        .cmdlist = (uintptr_t)objects,
        .cmdsize = sizeof(objects[0]),
        .numcmds = n,
        .context_id = context->id,
    };
    uint32_t i;

    assert(n > 0 && n <= QCOM_SUBMIT_IBS);
    for (i = 0; i < n; i++)
        objects[i] = (struct kgsl_command_object){
            .gpuaddr = ibs[i].mem->va + ibs[i].offset_bytes,
            .size = 4ull * ibs[i].n_dw,
            .flags = KGSL_CMDLIST_IB,
            .id = ibs[i].mem->handle,
        };
    BELL_TRY(kio_ioctl(&dev->file, IOCTL_KGSL_GPU_COMMAND, &args));
    *out_stamp = args.timestamp;
    return BELL_OK;
}

static bell_status
kgsl_wait(struct qcom_device *dev, struct qcom_context *context, uint32_t stamp,
          uint32_t timeout_ms)
{
    struct kgsl_device_waittimestamp_ctxtid args = {
        .context_id = context->id,
        .timestamp = stamp,
        .timeout = timeout_ms,
    };

    return kio_ioctl(&dev->file, IOCTL_KGSL_DEVICE_WAITTIMESTAMP_CTXTID, &args);
}

/* ---- faults -------------------------------------------------------------- */

static void
describe_page_fault(const struct kgsl_pagefault_report *report,
                    struct qcom_fault_record *record)
{
    uint32_t type = report->fault_type;

    record->has_address = true;
    record->va = report->fault_addr;
    snprintf(record->text, sizeof(record->text), "%s, %s",
             type & KGSL_PAGEFAULT_WRITE ? "write" : "read",
             type & KGSL_PAGEFAULT_PERMISSION    ? "not permitted"
             : type & KGSL_PAGEFAULT_TRANSLATION ? "not mapped"
             : type & KGSL_PAGEFAULT_EXTERNAL    ? "of the bus"
                                                 : "no reason given");
}

/* The first page fault of the context: newer kernels tell. */
static void
read_report(struct qcom_device *dev, const struct qcom_context *context,
            struct qcom_fault_record *record)
{
    struct kgsl_pagefault_report page = {0};
    struct kgsl_fault fault = {.type = KGSL_FAULT_TYPE_PAGEFAULT};
    const struct kgsl_fault_report question = {
        .faultlist = (uintptr_t)&fault,
        .faultnents = 1,
        .faultsize = sizeof(fault),
        .context_id = context->id,
    };
    struct kgsl_fault_report args = question;

    if (kio_ioctl(&dev->file, IOCTL_KGSL_GET_FAULT_REPORT, &args) != BELL_OK ||
        fault.type != KGSL_FAULT_TYPE_PAGEFAULT || fault.count == 0)
        return;
    /* asked anew: none of it is what the kernel left there */
    args = question;
    fault = (struct kgsl_fault){
        .fault = (uintptr_t)&page,
        .type = KGSL_FAULT_TYPE_PAGEFAULT,
        .count = 1,
        .size = sizeof(page),
    };
    if (kio_ioctl(&dev->file, IOCTL_KGSL_GET_FAULT_REPORT, &args) == BELL_OK)
        describe_page_fault(&page, record);
}

static bool
kgsl_faulted(struct qcom_device *dev, struct qcom_context *context,
             struct qcom_fault_record *record)
{
    uint32_t stat = context->id; /* in: of which; out: what became of it */
    struct bell_error_hold hold;
    bool is;

    bell_error_hold(&hold);
    is = get_property(&dev->file, KGSL_PROP_GPU_RESET_STAT, &stat,
                      sizeof(stat)) == BELL_OK &&
         stat != KGSL_CTX_STAT_NO_ERROR;
    if (is) {
        snprintf(record->text, sizeof(record->text), "%s",
                 stat == KGSL_CTX_STAT_GUILTY     ? "by this context's work"
                 : stat == KGSL_CTX_STAT_INNOCENT ? "by another context's work"
                                                  : "no reason given");
        read_report(dev, context, record);
    }
    bell_error_release(&hold);
    return is;
}

/* ---- the clock ----------------------------------------------------------- */

static bell_status
make_clock(struct qcom_device *dev)
{
    if (!dev->clock_mem.va)
        BELL_TRY(qcom_mem_alloc(dev, 1ull << PAGE_LOG2, QCOM_MEM_SHARED,
                                &dev->clock_mem));
    if (!dev->clock_context.is_made)
        BELL_TRY(kgsl_context_make(dev, &dev->clock_context));
    return BELL_OK;
}

/* No call tells the counter that timestamps are of: the chip stores it. */
static bell_status
kgsl_clock(struct qcom_device *dev, uint64_t *out_ticks)
{
    struct qcom_engine engine = {.chip = dev->chip};
    struct qcom_push push = {.engine = &engine};
    struct qcom_ib ib = {.mem = &dev->clock_mem};
    const uint8_t *at;
    uint32_t stamp;
    bell_status status;

    BELL_TRY(make_clock(dev));
    push.at = dev->clock_mem.cpu;
    qcom_put_timestamp(&push, dev->clock_mem.va + CLOCK_RESULT);
    ib.n_dw = (uint32_t)(push.at - (uint32_t *)dev->clock_mem.cpu);
    hcq_flush_writes();
    status = kgsl_submit(dev, &dev->clock_context, &ib, 1, &stamp);
    if (status == BELL_OK)
        status = kgsl_wait(dev, &dev->clock_context, stamp, CLOCK_TIMEOUT_MS);
    if (status != BELL_OK) { /* a fault of others ends it as well */
        kgsl_context_drop(dev, &dev->clock_context);
        return status;
    }
    at = (const uint8_t *)dev->clock_mem.cpu + CLOCK_RESULT;
    *out_ticks =
        __atomic_load_n((const uint64_t *)(const void *)at, __ATOMIC_ACQUIRE);
    return BELL_OK;
}

static void
kgsl_end(struct qcom_device *dev)
{
    if (dev->clock_context.is_made)
        kgsl_context_drop(dev, &dev->clock_context);
    qcom_mem_free(dev, &dev->clock_mem);
}

const struct qcom_kernel qcom_kgsl = {
    .name = "KGSL",
    .open = kgsl_open,
    .identify = kgsl_identify,
    .begin = kgsl_begin,
    .end = kgsl_end,
    .mem_alloc = kgsl_mem_alloc,
    .mem_pin = kgsl_mem_pin,
    .mem_free = kgsl_mem_free,
    .mem_sync = kgsl_mem_sync,
    .context_make = kgsl_context_make,
    .context_drop = kgsl_context_drop,
    .submit = kgsl_submit,
    .wait = kgsl_wait,
    .faulted = kgsl_faulted,
    .clock = kgsl_clock,
};
