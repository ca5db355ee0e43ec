/* The simulated msm driver: calls of a render node.
 *
 * src: docs/hardware/adreno-kernel.md, "msm"
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "ioctl/msm_uapi.h"
#include "ioctl/qcom_uapi.h"
#include "sim/qcom/kernel/qk.h"

#define MAX_BOS    65536u
#define MAX_CMDS   4096u
#define N_PRIORITY 3u

static struct qk_buf *
bo_of(struct qk_machine *m, uint32_t owner, uint32_t handle)
{
    struct qk_buf *buf = qk_find_buf(m, handle);

    if (buf && buf->owner == owner)
        return buf;
    (void)qk_fail(ENOENT, "there is no handle %u", handle);
    return NULL;
}

static int
version(struct drm_version *v)
{
    static const char name[] = "msm";

    v->version_major = 1;
    v->version_minor = 12;
    v->version_patchlevel = 0;
    if (qk_user(v->name) && v->name_len)
        memcpy(qk_user(v->name), name,
               v->name_len < 3 ? (size_t)v->name_len : 3);
    v->name_len = 3;
    v->date_len = v->desc_len = 0;
    return 0;
}

static int
get_param(struct qk_machine *m, struct drm_msm_param *p)
{
    if (p->pipe != MSM_PIPE_3D0 || p->len || p->pad)
        return qk_fail(EINVAL, "pipe 0x%x, %u bytes", p->pipe, p->len);
    switch (p->param) {
    case MSM_PARAM_GPU_ID:
        p->value = m->chip->gpu_id;
        return 0;
    case MSM_PARAM_GMEM_SIZE:
        p->value = m->chip->gmem_bytes;
        return 0;
    case MSM_PARAM_CHIP_ID:
        p->value = m->chip->chip_id;
        return 0;
    case MSM_PARAM_MAX_FREQ:
        p->value = m->chip->max_hz;
        return 0;
    case MSM_PARAM_TIMESTAMP:
        p->value = qsim_clock();
        return 0;
    case MSM_PARAM_GMEM_BASE:
        p->value = 0x100000;
        return 0;
    case MSM_PARAM_PRIORITIES:
        p->value = N_PRIORITY;
        return 0;
    case MSM_PARAM_FAULTS:
        p->value = m->n_faults;
        return 0;
    case MSM_PARAM_SUSPENDS:
        p->value = 0;
        return 0;
    case MSM_PARAM_VA_START:
        p->value = m->va_first;
        return 0;
    case MSM_PARAM_VA_SIZE:
        p->value = m->va_end - m->va_first;
        return 0;
    case MSM_PARAM_HIGHEST_BANK_BIT:
        p->value = 15;
        return 0;
    case MSM_PARAM_RAYTRACING:
        p->value = 0;
        return 0;
    }
    return qk_fail(EINVAL, "parameter 0x%x", p->param);
}

/* ---- queues ---- */

static int
new_queue(struct qk_machine *m, uint32_t owner, struct drm_msm_submitqueue *a)
{
    struct qk_context *c;
    int result;

    if (a->flags)
        return qk_fail(EINVAL, "flags 0x%x of a queue", a->flags);
    if (a->prio >= N_PRIORITY)
        return qk_fail(EINVAL, "priority %u", a->prio);
    result = qk_context_create(m, ++m->next_context, 0, owner, &c);
    if (result < 0)
        return result;
    a->id = c->id;
    return 0;
}

/* Queue 0 is there always. */
static struct qk_context *
queue_of(struct qk_machine *m, uint32_t owner, uint32_t id)
{
    struct qk_context *c = qk_find_context(m, id, owner);

    if (!c && id == 0 && qk_context_create(m, 0, 0, owner, &c) < 0)
        return NULL;
    if (!c)
        (void)qk_fail(ENOENT, "there is no queue %u", id);
    return c;
}

static int
close_queue(struct qk_machine *m, uint32_t owner, const uint32_t *id)
{
    struct qk_context *c = *id ? qk_find_context(m, *id, owner) : NULL;

    if (!c)
        return qk_fail(ENOENT, "there is no queue %u to close", *id);
    qk_context_destroy(m, c);
    return 0;
}

static int
query_queue(struct qk_machine *m, uint32_t owner,
            struct drm_msm_submitqueue_query *a)
{
    struct qk_context *c = queue_of(m, owner, a->id);
    uint32_t n_faults;

    if (!c)
        return -ENOENT;
    if (a->param != MSM_SUBMITQUEUE_PARAM_FAULTS || a->pad)
        return qk_fail(EINVAL, "parameter %u of a queue", a->param);
    n_faults = c->n_faults;
    if (a->len == 0) {
        a->len = sizeof(n_faults);
        return 0;
    }
    if (!qk_user(a->data))
        return qk_fail(EFAULT, "data at 0");
    a->len = a->len < sizeof(n_faults) ? a->len : sizeof(n_faults);
    memcpy(qk_user(a->data), &n_faults, a->len);
    return 0;
}

/* ---- memory ---- */

static int
new_bo(struct qk_machine *m, uint32_t owner, struct drm_msm_gem_new *a)
{
    const uint32_t known = MSM_BO_GPU_READONLY | MSM_BO_CACHE_MASK;
    uint32_t cache = a->flags & MSM_BO_CACHE_MASK;
    struct qk_buf *buf;
    int result;

    if (a->size == 0 || a->size > UINT32_MAX)
        return qk_fail(EINVAL, "%llu bytes", (unsigned long long)a->size);
    if (a->flags & ~known)
        return qk_fail(EINVAL, "flags 0x%x", a->flags);
    if (cache != MSM_BO_CACHED && cache != MSM_BO_WC &&
        cache != MSM_BO_UNCACHED && cache != MSM_BO_CACHED_COHERENT)
        return qk_fail(EINVAL, "flags 0x%x: not one way of caching", a->flags);
    if (cache == MSM_BO_CACHED_COHERENT && !m->chip->is_coherent)
        return qk_fail(EINVAL, "memory cannot be coherent");
    result = qk_alloc(m, a->size, QK_PAGE,
                      cache == MSM_BO_CACHED && !m->chip->is_coherent,
                      a->flags & MSM_BO_GPU_READONLY, &buf);
    if (result < 0)
        return result;
    buf->flags = a->flags;
    buf->owner = owner;
    a->handle = buf->id;
    return 0;
}

static int
bo_info(struct qk_machine *m, uint32_t owner, struct drm_msm_gem_info *a)
{
    struct qk_buf *buf = bo_of(m, owner, a->handle);

    if (!buf)
        return -ENOENT;
    if (a->pad)
        return qk_fail(EINVAL, "padding of 0x%x", a->pad);
    switch (a->info) {
    case MSM_INFO_GET_OFFSET:
    case MSM_INFO_GET_IOVA:
    case MSM_INFO_GET_FLAGS:
        if (a->len || a->value)
            return qk_fail(EINVAL, "info %u takes no value", a->info);
        a->value = a->info == MSM_INFO_GET_OFFSET ? (uint64_t)buf->id << 32
                   : a->info == MSM_INFO_GET_IOVA ? buf->va
                                                  : buf->flags;
        return 0;
    case MSM_INFO_SET_NAME:
        if (a->len >= 32 || (a->len && !qk_user(a->value)))
            return qk_fail(EINVAL, "a name of %u bytes", a->len);
        return 0;
    }
    return qk_fail(EINVAL, "info %u is not simulated", a->info);
}

static uint64_t
deadline_of(uint64_t s, uint64_t ns)
{
    return s > UINT64_MAX / 2000000000u ? UINT64_MAX : s * 1000000000u + ns;
}

static int
cpu_prep(struct qk_machine *m, uint32_t owner,
         const struct drm_msm_gem_cpu_prep *a)
{
    const uint32_t known = MSM_PREP_READ | MSM_PREP_WRITE | MSM_PREP_NOSYNC;
    struct qk_buf *buf = bo_of(m, owner, a->handle);

    if (!buf)
        return -ENOENT;
    if (a->op & ~known)
        return qk_fail(EINVAL, "operation 0x%x", a->op);
    if (m->n_done >= buf->serial)
        return 0;
    if (a->op & MSM_PREP_NOSYNC)
        return qk_fail(EBUSY, "handle %u is used", a->handle);
    return qk_wait_serial(m, buf->serial,
                          deadline_of(a->timeout.tv_sec, a->timeout.tv_nsec));
}

static int
close_bo(struct qk_machine *m, uint32_t owner, const struct drm_gem_close *a)
{
    struct qk_buf *buf = bo_of(m, owner, a->handle);
    int result;

    if (!buf)
        return -EINVAL;
    /* the driver keeps it until what uses it has ended; here the caller
     * waits */
    result = qk_wait_serial(m, buf->serial, UINT64_MAX);
    if (result == 0)
        qk_drop_buf(m, buf);
    return result;
}

/* ---- batches ---- */

static int
by_address(const void *a, const void *b)
{
    uint64_t x = ((const struct qsim_range *)a)->va;
    uint64_t y = ((const struct qsim_range *)b)->va;

    return x < y ? -1 : x > y;
}

static int
check_submit(const struct drm_msm_gem_submit *a)
{
    uint32_t flags = a->flags & ~0xffffu;

    if ((a->flags & 0xffff) != MSM_PIPE_3D0)
        return qk_fail(EINVAL, "pipe 0x%x", a->flags & 0xffff);
    if (flags & ~MSM_SUBMIT_NO_IMPLICIT)
        return qk_fail(EINVAL, "flags 0x%x: fences as files, sync objects",
                       flags);
    if (a->nr_in_syncobjs || a->nr_out_syncobjs || a->pad)
        return qk_fail(EINVAL, "sync objects that the flags do not name");
    if (a->nr_bos > MAX_BOS || a->nr_cmds > MAX_CMDS ||
        (a->nr_bos && !qk_user(a->bos)) || (a->nr_cmds && !qk_user(a->cmds)))
        return qk_fail(EINVAL, "%u buffers, %u commands", a->nr_bos,
                       a->nr_cmds);
    return 0;
}

static int
list_bos(struct qk_machine *m, uint32_t owner,
         const struct drm_msm_gem_submit *a, struct qsim_range *out)
{
    const struct drm_msm_gem_submit_bo *bos = qk_user(a->bos);
    struct qk_buf *buf;
    uint32_t i;

    for (i = 0; i < a->nr_bos; i++) {
        if ((bos[i].flags & ~(MSM_SUBMIT_BO_READ | MSM_SUBMIT_BO_WRITE |
                              MSM_SUBMIT_BO_DUMP)) ||
            !(bos[i].flags & (MSM_SUBMIT_BO_READ | MSM_SUBMIT_BO_WRITE)))
            return qk_fail(EINVAL, "buffer %u has flags 0x%x", i, bos[i].flags);
        buf = bo_of(m, owner, bos[i].handle);
        if (!buf)
            return -EINVAL;
        out[i] = (struct qsim_range){buf->va, buf->size_bytes};
    }
    qsort(out, a->nr_bos, sizeof(*out), by_address);
    for (i = 1; i < a->nr_bos; i++) {
        if (out[i].va == out[i - 1].va)
            return qk_fail(EINVAL, "a buffer is listed twice");
    }
    return 0;
}

static int
list_streams(struct qk_machine *m, uint32_t owner,
             const struct drm_msm_gem_submit *a, struct qsim_range *out)
{
    const struct drm_msm_gem_submit_bo *bos = qk_user(a->bos);
    const struct drm_msm_gem_submit_cmd *cmds = qk_user(a->cmds);
    struct qk_buf *buf;
    uint32_t i;

    for (i = 0; i < a->nr_cmds; i++) {
        if (cmds[i].type != MSM_SUBMIT_CMD_BUF || cmds[i].nr_relocs ||
            cmds[i].pad || cmds[i].submit_idx >= a->nr_bos)
            return qk_fail(EINVAL, "command %u: type %u, buffer %u", i,
                           cmds[i].type, cmds[i].submit_idx);
        buf = bo_of(m, owner, bos[cmds[i].submit_idx].handle);
        if (!buf)
            return -EINVAL;
        if (cmds[i].size == 0 || cmds[i].size % 4 ||
            cmds[i].submit_offset % 4 ||
            (uint64_t)cmds[i].submit_offset + cmds[i].size > buf->size_bytes)
            return qk_fail(EINVAL, "command %u: %u bytes at %u of %llu", i,
                           cmds[i].size, cmds[i].submit_offset,
                           (unsigned long long)buf->size_bytes);
        out[i] =
            (struct qsim_range){buf->va + cmds[i].submit_offset, cmds[i].size};
    }
    return 0;
}

static int
submit(struct qk_machine *m, uint32_t owner, struct drm_msm_gem_submit *a)
{
    const struct drm_msm_gem_submit_bo *bos = qk_user(a->bos);
    struct qk_context *c;
    struct qk_batch *batch;
    uint32_t i;
    int result = check_submit(a);

    if (result < 0)
        return result;
    c = queue_of(m, owner, a->queueid);
    if (!c)
        return -ENOENT;
    batch = qk_batch_create(a->nr_cmds + a->nr_bos);
    if (!batch)
        return qk_fail(ENOMEM, "no memory for a batch");
    result = list_bos(m, owner, a, batch->ranges + a->nr_cmds);
    if (result == 0)
        result = list_streams(m, owner, a, batch->ranges);
    if (result < 0) {
        host_free(batch);
        return result;
    }
    for (i = 0; i < a->nr_bos; i++)
        qk_find_buf(m, bos[i].handle)->serial = m->n_submitted + 1;
    qk_submit(m, c, batch, a->nr_cmds, true);
    a->fence = c->queued;
    return 0;
}

static int
wait_fence(struct qk_machine *m, uint32_t owner,
           const struct drm_msm_wait_fence *a)
{
    struct qk_context *c = queue_of(m, owner, a->queueid);

    if (!c)
        return -ENOENT;
    if (a->flags & ~1u)
        return qk_fail(EINVAL, "flags 0x%x", a->flags);
    if (!qk_has_passed(c->queued, a->fence))
        return qk_fail(EINVAL, "fence %u was not submitted", a->fence);
    return qk_wait(m, a->queueid, owner, a->fence,
                   deadline_of(a->timeout.tv_sec, a->timeout.tv_nsec));
}

int
msm_call(struct qk_machine *m, uint32_t owner, unsigned long request, void *arg)
{
    if (!arg)
        return qk_fail(EFAULT, "an argument at 0");
    switch ((uint32_t)request) {
    case DRM_IOCTL_VERSION:
        return version(arg);
    case DRM_IOCTL_MSM_GET_PARAM:
        return get_param(m, arg);
    case DRM_IOCTL_MSM_GEM_NEW:
        return new_bo(m, owner, arg);
    case DRM_IOCTL_MSM_GEM_INFO:
        return bo_info(m, owner, arg);
    case DRM_IOCTL_MSM_GEM_CPU_PREP:
        return cpu_prep(m, owner, arg);
    case DRM_IOCTL_MSM_GEM_CPU_FINI:
        return bo_of(m, owner, ((struct drm_msm_gem_cpu_fini *)arg)->handle)
                   ? 0
                   : -ENOENT;
    case DRM_IOCTL_MSM_GEM_SUBMIT:
        return submit(m, owner, arg);
    case DRM_IOCTL_MSM_WAIT_FENCE:
        return wait_fence(m, owner, arg);
    case DRM_IOCTL_MSM_SUBMITQUEUE_NEW:
        return new_queue(m, owner, arg);
    case DRM_IOCTL_MSM_SUBMITQUEUE_CLOSE:
        return close_queue(m, owner, arg);
    case DRM_IOCTL_MSM_SUBMITQUEUE_QUERY:
        return query_queue(m, owner, arg);
    case DRM_IOCTL_GEM_CLOSE:
        return close_bo(m, owner, arg);
    }
    return qk_fail(ENOTTY, "request 0x%lx is not simulated", request);
}
