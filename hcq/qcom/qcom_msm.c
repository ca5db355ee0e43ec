/* The upstream kernel driver msm, by its render node.
 *
 * Its submissions name every buffer that the chip may touch: the device keeps
 * that list, and each submission passes the whole of it.
 *
 * src: docs/hardware/adreno-kernel.md, "msm". */
#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

#include "base/alloc.h"
#include "base/thread.h"
#include "hcq/qcom/qcom.h"
#include "ioctl/msm_uapi.h"
#include "ioctl/qcom_uapi.h"

#define FIRST_NODE  128u
#define LAST_NODE   191u
#define MIN_VERSION 6 /* 1.6: an address space of its own for each process */

struct qcom_bo_list {
    pthread_mutex_t lock;
    struct drm_msm_gem_submit_bo *bos; /* owned */
    uint32_t n, cap;
};

/* ---- which --------------------------------------------------------------- */

/* Whether the node is msm's. */
static bell_status
check_version(const struct kio_file *file)
{
    char name[16] = "";
    struct drm_version args = {
        .name_len = sizeof(name) - 1,
        .name = (uintptr_t)name,
    };

    BELL_TRY(kio_ioctl(file, DRM_IOCTL_VERSION, &args));
    if (strcmp(name, "msm") != 0)
        return bell_fail(BELL_E_NO_DEVICE, "a render node of '%s'", name);
    if (args.version_major == 1 && args.version_minor < MIN_VERSION)
        return bell_fail(
            BELL_E_UNSUPPORTED, "msm %d.%d: 1.%d is the least that will do",
            (int)args.version_major, (int)args.version_minor, MIN_VERSION);
    return BELL_OK;
}

static bell_status
msm_open(struct kio *kio, unsigned idx, struct kio_file *out)
{
    char path[32];
    unsigned node;
    bell_status status;

    for (node = FIRST_NODE; node <= LAST_NODE; node++) {
        snprintf(path, sizeof(path), "/dev/dri/renderD%u", node);
        status = kio_open(kio, path, O_RDWR, out);
        if (status == BELL_E_NO_DEVICE)
            return status; /* they are numbered without gaps */
        if (status != BELL_OK)
            continue;
        status = check_version(out);
        if (status == BELL_OK && idx-- == 0)
            return BELL_OK;
        kio_close(out);
        if (status != BELL_OK && status != BELL_E_NO_DEVICE)
            return status;
    }
    return BELL_E_NO_DEVICE;
}

static bell_status
get_param(const struct kio_file *file, uint32_t param, uint64_t *out_value)
{
    struct drm_msm_param args = {.pipe = MSM_PIPE_3D0, .param = param};

    BELL_TRY(kio_ioctl(file, DRM_IOCTL_MSM_GET_PARAM, &args));
    *out_value = args.value;
    return BELL_OK;
}

static bell_status
msm_identify(const struct kio_file *file, uint32_t *out_chip_id)
{
    uint64_t value;

    BELL_TRY(get_param(file, MSM_PARAM_CHIP_ID, &value));
    *out_chip_id = (uint32_t)value;
    return BELL_OK;
}

/* ---- memory -------------------------------------------------------------- */

static void
close_handle(struct qcom_device *dev, uint32_t handle)
{
    struct drm_gem_close args = {.handle = handle};

    (void)kio_ioctl_give_back(&dev->file, DRM_IOCTL_GEM_CLOSE, &args);
}

static bell_status
new_handle(struct qcom_device *dev, uint64_t size_bytes, uint32_t *out_handle)
{
    struct drm_msm_gem_new args = {
        .size = size_bytes,
        .flags = dev->is_coherent ? MSM_BO_CACHED_COHERENT : MSM_BO_WC,
    };

    BELL_TRY(kio_ioctl(&dev->file, DRM_IOCTL_MSM_GEM_NEW, &args));
    *out_handle = args.handle;
    return BELL_OK;
}

static bell_status
get_info(struct qcom_device *dev, uint32_t handle, uint32_t info,
         uint64_t *out_value)
{
    struct drm_msm_gem_info args = {.handle = handle, .info = info};

    BELL_TRY(kio_ioctl(&dev->file, DRM_IOCTL_MSM_GEM_INFO, &args));
    *out_value = args.value;
    return BELL_OK;
}

static bell_status
add_bo(struct qcom_bo_list *list, uint32_t handle)
{
    struct drm_msm_gem_submit_bo *bos = list->bos;
    uint32_t cap = list->cap ? 2 * list->cap : 64;
    bell_status status = BELL_OK;

    pthread_mutex_lock(&list->lock);
    if (list->n == list->cap) {
        bos = host_realloc(bos, cap * sizeof(bos[0]));
        if (bos) {
            list->bos = bos;
            list->cap = cap;
        } else {
            status = bell_fail(BELL_E_NO_MEMORY, "out of memory for %u buffers",
                               cap);
        }
    }
    if (status == BELL_OK)
        list->bos[list->n++] = (struct drm_msm_gem_submit_bo){
            .flags = MSM_SUBMIT_BO_READ | MSM_SUBMIT_BO_WRITE,
            .handle = handle,
        };
    pthread_mutex_unlock(&list->lock);
    return status;
}

static uint32_t
find_bo(const struct qcom_bo_list *list, uint32_t handle)
{
    uint32_t i = list->n;

    while (i > 0 && list->bos[i - 1].handle != handle)
        i--;
    assert(i > 0);
    return i - 1;
}

static void
remove_bo(struct qcom_bo_list *list, uint32_t handle)
{
    pthread_mutex_lock(&list->lock);
    list->bos[find_bo(list, handle)] = list->bos[list->n - 1];
    list->n--;
    pthread_mutex_unlock(&list->lock);
}

static bell_status
map_handle(struct qcom_device *dev, struct qcom_mem *mem)
{
    uint64_t offset;

    BELL_TRY(get_info(dev, mem->handle, MSM_INFO_GET_IOVA, &mem->va));
    BELL_TRY(get_info(dev, mem->handle, MSM_INFO_GET_OFFSET, &offset));
    BELL_TRY(kio_mmap(dev->kio, &dev->file, NULL, mem->size_bytes,
                      PROT_READ | PROT_WRITE, MAP_SHARED, offset, &mem->cpu));
    return BELL_OK;
}

static bell_status
msm_mem_alloc(struct qcom_device *dev, enum qcom_mem_kind kind,
              struct qcom_mem *mem)
{
    bell_status status;

    (void)kind;
    BELL_TRY(new_handle(dev, mem->size_bytes, &mem->handle));
    status = map_handle(dev, mem);
    if (status == BELL_OK) {
        status = add_bo(dev->bos, mem->handle);
        if (status != BELL_OK)
            kio_munmap(dev->kio, mem->cpu, mem->size_bytes);
    }
    if (status != BELL_OK)
        close_handle(dev, mem->handle);
    return status;
}

static bell_status
msm_mem_pin(struct qcom_device *dev, void *ptr, struct qcom_mem *mem)
{
    (void)dev, (void)ptr, (void)mem;
    return bell_fail(BELL_E_UNSUPPORTED,
                     "memory of the host cannot be pinned: msm has no call "
                     "for it");
}

static void
msm_mem_free(struct qcom_device *dev, struct qcom_mem *mem)
{
    remove_bo(dev->bos, mem->handle);
    kio_munmap(dev->kio, mem->cpu, mem->size_bytes);
    close_handle(dev, mem->handle);
}

/* No memory of this interface is stale. */
static bell_status
msm_mem_sync(struct qcom_device *dev, const struct qcom_mem *mem,
             uint64_t offset, uint64_t size_bytes, bool to_chip)
{
    (void)dev, (void)mem, (void)offset, (void)size_bytes, (void)to_chip;
    return BELL_OK;
}

/* Coherent memory is refused where the bus is not. */
static bell_status
msm_begin(struct qcom_device *dev)
{
    struct bell_error_hold hold;
    bell_status status;
    uint32_t handle;

    dev->bos = host_calloc(1, sizeof(*dev->bos));
    if (!dev->bos)
        return bell_fail(BELL_E_NO_MEMORY,
                         "out of memory for a list of buffers");
    pthread_mutex_init(&dev->bos->lock, NULL);
    bell_error_hold(&hold);
    dev->is_coherent = true;
    status = new_handle(dev, 4096, &handle);
    if (status == BELL_OK)
        close_handle(dev, handle);
    else if (bell_error_last()->sys_errno == EINVAL)
        dev->is_coherent = false;
    else
        return status;
    bell_error_release(&hold);
    return BELL_OK;
}

static void
msm_end(struct qcom_device *dev)
{
    if (!dev->bos)
        return;
    pthread_mutex_destroy(&dev->bos->lock);
    host_free(dev->bos->bos);
    host_free(dev->bos);
    dev->bos = NULL;
}

/* ---- submissions --------------------------------------------------------- */

/* How often the queue has had a fault. */
static bell_status
count_faults(struct qcom_device *dev, const struct qcom_context *context,
             uint64_t *out_n)
{
    uint64_t n = 0;
    struct drm_msm_submitqueue_query args = {
        .data = (uintptr_t)&n,
        .id = context->id,
        .param = MSM_SUBMITQUEUE_PARAM_FAULTS,
        .len = sizeof(n),
    };

    BELL_TRY(kio_ioctl(&dev->file, DRM_IOCTL_MSM_SUBMITQUEUE_QUERY, &args));
    *out_n = n;
    return BELL_OK;
}

static void
msm_context_drop(struct qcom_device *dev, struct qcom_context *context)
{
    uint32_t id = context->id;

    assert(context->is_made);
    (void)kio_ioctl_give_back(&dev->file, DRM_IOCTL_MSM_SUBMITQUEUE_CLOSE, &id);
    context->is_made = false;
}

static bell_status
msm_context_make(struct qcom_device *dev, struct qcom_context *context)
{
    struct drm_msm_submitqueue args = {0};
    bell_status status;

    BELL_TRY(kio_ioctl(&dev->file, DRM_IOCTL_MSM_SUBMITQUEUE_NEW, &args));
    *context = (struct qcom_context){.is_made = true, .id = args.id};
    status = count_faults(dev, context, &context->n_faults);
    if (status != BELL_OK)
        msm_context_drop(dev, context);
    return status;
}

static bell_status
msm_submit(struct qcom_device *dev, struct qcom_context *context,
           const struct qcom_ib *ibs, uint32_t n, uint32_t *out_stamp)
{
    struct drm_msm_gem_submit_cmd cmds[QCOM_SUBMIT_IBS];
    struct drm_msm_gem_submit args = {
        .flags = MSM_PIPE_3D0 | MSM_SUBMIT_NO_IMPLICIT,
        .nr_cmds = n,
        .cmds = (uintptr_t)cmds,
        .queueid = context->id,
    };
    bell_status status;
    uint32_t i;

    assert(n > 0 && n <= QCOM_SUBMIT_IBS);
    pthread_mutex_lock(&dev->bos->lock);
    for (i = 0; i < n; i++)
        cmds[i] = (struct drm_msm_gem_submit_cmd){
            .type = MSM_SUBMIT_CMD_BUF,
            .submit_idx = find_bo(dev->bos, ibs[i].mem->handle),
            .submit_offset = (uint32_t)ibs[i].offset_bytes,
            .size = 4 * ibs[i].n_dw,
        };
    args.nr_bos = dev->bos->n;
    args.bos = (uintptr_t)dev->bos->bos;
    status = kio_ioctl(&dev->file, DRM_IOCTL_MSM_GEM_SUBMIT, &args);
    pthread_mutex_unlock(&dev->bos->lock);
    *out_stamp = args.fence;
    return status;
}

static bell_status
msm_wait(struct qcom_device *dev, struct qcom_context *context, uint32_t stamp,
         uint32_t timeout_ms)
{
    uint64_t until_ns = time_now_ns() + timeout_ms * 1000000ull;
    struct drm_msm_wait_fence args = {
        .fence = stamp,
        .timeout = {until_ns / 1000000000u, until_ns % 1000000000u},
        .queueid = context->id,
    };

    return kio_ioctl(&dev->file, DRM_IOCTL_MSM_WAIT_FENCE, &args);
}

static bool
msm_faulted(struct qcom_device *dev, struct qcom_context *context,
            struct qcom_fault_record *record)
{
    struct bell_error_hold hold;
    uint64_t n;
    bool is;

    bell_error_hold(&hold);
    is = count_faults(dev, context, &n) == BELL_OK && n != context->n_faults;
    bell_error_release(&hold);
    if (is) {
        context->n_faults = n;
        snprintf(record->text, sizeof(record->text),
                 "msm tells no more; see its devcoredump");
    }
    return is;
}

static bell_status
msm_clock(struct qcom_device *dev, uint64_t *out_ticks)
{
    return get_param(&dev->file, MSM_PARAM_TIMESTAMP, out_ticks);
}

const struct qcom_kernel qcom_msm = {
    .name = "msm",
    .open = msm_open,
    .identify = msm_identify,
    .begin = msm_begin,
    .end = msm_end,
    .mem_alloc = msm_mem_alloc,
    .mem_pin = msm_mem_pin,
    .mem_free = msm_mem_free,
    .mem_sync = msm_mem_sync,
    .context_make = msm_context_make,
    .context_drop = msm_context_drop,
    .submit = msm_submit,
    .wait = msm_wait,
    .faulted = msm_faulted,
    .clock = msm_clock,
};
