/* The simulated KGSL: calls of /dev/kgsl-3d0.
 *
 * src: docs/hardware/adreno-kernel.md, "KGSL", "Contexts", "KGSL memory",
 * "Submission", "KGSL faults"
 */
#include <errno.h>
#include <string.h>

#include "base/alloc.h"
#include "base/bits.h"
#include "ioctl/kgsl_uapi.h"
#include "ioctl/qcom_uapi.h"
#include "sim/qcom/kernel/qk.h"

#define MAX_ALIGN_LOG2 24u

/* ---- properties ---- */

/* As much as the caller has room for. */
static int
give(const struct kgsl_device_getproperty *p, const void *data, size_t n)
{
    void *to = qk_user(p->value);

    if (!to)
        return qk_fail(EFAULT, "a property's value at 0");
    memcpy(to, data, n < p->sizebytes ? n : (size_t)p->sizebytes);
    return 0;
}

static int
give_number(const struct kgsl_device_getproperty *p, uint32_t value)
{
    return give(p, &value, sizeof(value));
}

static int
reset_stat(struct qk_machine *m, const struct kgsl_device_getproperty *p)
{
    struct qk_context *c;
    uint32_t value;

    if (p->sizebytes != sizeof(value) || !qk_user(p->value))
        return qk_fail(EINVAL, "GPU_RESET_STAT of %llu bytes",
                       (unsigned long long)p->sizebytes);
    memcpy(&value, qk_user(p->value), sizeof(value));
    c = qk_find_context(m, value, 0);
    if (!c)
        return qk_fail(EINVAL, "there is no context %u", value);
    value = c->is_guilty     ? KGSL_CTX_STAT_GUILTY
            : c->is_innocent ? KGSL_CTX_STAT_INNOCENT
                             : KGSL_CTX_STAT_NO_ERROR;
    return give(p, &value, sizeof(value));
}

static int
context_property(struct qk_machine *m, const struct kgsl_device_getproperty *p)
{
    struct kgsl_context_property_fault out = {0};
    struct kgsl_context_property what;
    struct qk_context *c;

    if (p->sizebytes != sizeof(what) || !qk_user(p->value))
        return qk_fail(EINVAL, "CONTEXT_PROPERTY of %llu bytes",
                       (unsigned long long)p->sizebytes);
    memcpy(&what, qk_user(p->value), sizeof(what));
    c = qk_find_context(m, what.contextid, 0);
    if (!c)
        return qk_fail(EINVAL, "there is no context %u", what.contextid);
    if (what.type != KGSL_CONTEXT_PROP_FAULTS || what.size != sizeof(out) ||
        !qk_user(what.data))
        return qk_fail(EINVAL, "property %u of a context, %u bytes", what.type,
                       what.size);
    out.faults = (int32_t)c->n_faults;
    out.timestamp = c->fault_timestamp;
    memcpy(qk_user(what.data), &out, sizeof(out));
    return 0;
}

static int
get_property(struct qk_machine *m, void *arg)
{
    const struct kgsl_device_getproperty *p = arg;
    struct kgsl_devinfo info = {0};
    char model[32] = "";
    uint64_t wide;

    switch (p->type) {
    case KGSL_PROP_DEVICE_INFO:
        info.device_id = 1;
        info.chip_id = m->chip->chip_id;
        info.mmu_enabled = 1;
        info.gmem_sizebytes = m->chip->gmem_bytes;
        return give(p, &info, sizeof(info));
    case KGSL_PROP_GPU_RESET_STAT:
        return reset_stat(m, p);
    case KGSL_PROP_CONTEXT_PROPERTY:
        return context_property(m, p);
    case KGSL_PROP_UCHE_GMEM_VADDR:
        wide = 0;
        return give(p, &wide, sizeof(wide));
    case KGSL_PROP_HIGHEST_BANK_BIT:
        return give_number(p, 15);
    case KGSL_PROP_DEVICE_BITNESS:
        return give_number(p, 48);
    case KGSL_PROP_UBWC_MODE:
        return give_number(p, 3);
    case KGSL_PROP_SPEED_BIN:
    case KGSL_PROP_IS_LPAC_ENABLED:
        return give_number(p, 0);
    case KGSL_PROP_GPU_VA64_SIZE:
        wide = m->va_end - m->va_first;
        return give(p, &wide, sizeof(wide));
    case KGSL_PROP_GPU_MODEL:
        strncpy(model, m->chip->model, sizeof(model) - 1);
        return give(p, model, sizeof(model));
    }
    return qk_fail(EINVAL, "property 0x%x", p->type);
}

static int
set_property(struct qk_machine *m, void *arg)
{
    const struct kgsl_device_getproperty *p = arg;
    struct kgsl_device_constraint what;
    struct qk_context *c;
    uint32_t level;

    if (p->type != KGSL_PROP_PWR_CONSTRAINT)
        return qk_fail(EINVAL, "property 0x%x cannot be set", p->type);
    if (p->sizebytes != sizeof(what) || !qk_user(p->value))
        return qk_fail(EINVAL, "a constraint of %llu bytes",
                       (unsigned long long)p->sizebytes);
    memcpy(&what, qk_user(p->value), sizeof(what));
    c = qk_find_context(m, what.context_id, 0);
    if (!c || !(c->flags & KGSL_CONTEXT_PWR_CONSTRAINT))
        return qk_fail(EINVAL, "context %u takes no constraint",
                       what.context_id);
    if (what.type == 0)
        return 0;
    if (what.type != KGSL_CONSTRAINT_PWRLEVEL || what.size != 4 ||
        !qk_user(what.data))
        return qk_fail(EINVAL, "a constraint of type %u, %llu bytes", what.type,
                       (unsigned long long)what.size);
    memcpy(&level, qk_user(what.data), sizeof(level));
    if (level > KGSL_CONSTRAINT_PWR_MAX)
        return qk_fail(EINVAL, "power level %u", level);
    return 0;
}

/* ---- contexts ---- */

static int
create_context(struct qk_machine *m, void *arg)
{
    struct kgsl_drawctxt_create *a = arg;
    uint32_t must = KGSL_CONTEXT_PREAMBLE | KGSL_CONTEXT_NO_GMEM_ALLOC;
    struct qk_context *c;
    int result;

    if ((a->flags & must) != must)
        return qk_fail(EINVAL, "flags 0x%x lack 0x%x", a->flags, must);
    if (a->flags & (KGSL_CONTEXT_LPAC | KGSL_CONTEXT_SECURE))
        return qk_fail(EOPNOTSUPP, "flags 0x%x: LPAC or secure", a->flags);
    if ((a->flags & KGSL_CONTEXT_PREEMPT_STYLE_MASK) >>
        KGSL_CONTEXT_PREEMPT_STYLE_SHIFT > KGSL_CONTEXT_PREEMPT_STYLE_FINEGRAIN)
        return qk_fail(EINVAL, "flags 0x%x: a style of preemption", a->flags);
    a->flags |= KGSL_CONTEXT_PER_CONTEXT_TS;
    result = qk_context_create(m, ++m->next_context, a->flags, 0, &c);
    if (result < 0)
        return result;
    a->drawctxt_id = c->id;
    return 0;
}

static int
destroy_context(struct qk_machine *m, void *arg)
{
    const struct kgsl_drawctxt_destroy *a = arg;
    struct qk_context *c = qk_find_context(m, a->drawctxt_id, 0);

    if (!c)
        return qk_fail(EINVAL, "there is no context %u", a->drawctxt_id);
    qk_context_destroy(m, c);
    return 0;
}

static int
wait_timestamp(struct qk_machine *m, void *arg)
{
    const struct kgsl_device_waittimestamp_ctxtid *a = arg;
    struct qk_context *c = qk_find_context(m, a->context_id, 0);
    uint64_t deadline = UINT64_MAX;

    if (!c)
        return qk_fail(ENOENT, "there is no context %u", a->context_id);
    if (!qk_has_passed(c->queued, a->timestamp))
        return qk_fail(EINVAL, "timestamp %u was not queued", a->timestamp);
    if (a->timeout && a->timeout <= INT32_MAX)
        deadline = qk_now_ns() + a->timeout * 1000000ull;
    return qk_wait(m, a->context_id, 0, a->timestamp, deadline);
}

static int
read_timestamp(struct qk_machine *m, void *arg)
{
    struct kgsl_cmdstream_readtimestamp_ctxtid *a = arg;
    struct qk_context *c = qk_find_context(m, a->context_id, 0);

    if (!c)
        return qk_fail(EINVAL, "there is no context %u", a->context_id);
    if (a->type < KGSL_TIMESTAMP_CONSUMED || a->type > KGSL_TIMESTAMP_QUEUED)
        return qk_fail(EINVAL, "a timestamp of type %u", a->type);
    a->timestamp = a->type == KGSL_TIMESTAMP_QUEUED ? c->queued : c->retired;
    return 0;
}

/* ---- memory ---- */

/* Flags as they come back. src: docs/hardware/adreno-kernel.md, "KGSL memory".
 * guess: coherence is kept only of memory that the CPU caches */
static int
take_flags(const struct qk_machine *m, uint64_t *flags, uint64_t *out_align,
           bool *out_two_sides)
{
    uint64_t f = *flags, mode, align;

    if (f & KGSL_MEMFLAGS_USE_CPU_MAP)
        return qk_fail(EOPNOTSUPP, "USE_CPU_MAP is not simulated");
    if (f & KGSL_MEMFLAGS_FORCE_32BIT)
        return qk_fail(EOPNOTSUPP, "FORCE_32BIT is not simulated");
    mode = (f & KGSL_CACHEMODE_MASK) >> KGSL_CACHEMODE_SHIFT;
    if (mode == KGSL_CACHEMODE_WRITETHROUGH)
        mode = KGSL_CACHEMODE_WRITEBACK;
    f = (f & ~KGSL_CACHEMODE_MASK) | mode << KGSL_CACHEMODE_SHIFT;
    if (!m->chip->is_coherent || mode != KGSL_CACHEMODE_WRITEBACK)
        f &= ~KGSL_MEMFLAGS_IOCOHERENT;
    align = (f & KGSL_MEMALIGN_MASK) >> KGSL_MEMALIGN_SHIFT;
    if (align > MAX_ALIGN_LOG2)
        align = MAX_ALIGN_LOG2;
    *out_align = align > 12 ? 1ull << align : QK_PAGE;
    *out_two_sides =
        mode == KGSL_CACHEMODE_WRITEBACK && !(f & KGSL_MEMFLAGS_IOCOHERENT);
    *flags = f;
    return 0;
}

static int
alloc_flagged(struct qk_machine *m, uint64_t size_bytes, uint64_t flags,
              struct qk_buf **out_buf)
{
    uint64_t align;
    bool two_sides;
    int result;

    if (size_bytes == 0 || size_bytes > UINT32_MAX)
        return qk_fail(EINVAL, "%llu bytes", (unsigned long long)size_bytes);
    result = take_flags(m, &flags, &align, &two_sides);
    if (result < 0)
        return result;
    result = qk_alloc(m, size_bytes, align, two_sides,
                      flags & KGSL_MEMFLAGS_GPUREADONLY, out_buf);
    if (result == 0)
        (*out_buf)->flags = flags;
    return result;
}

static int
alloc_object(struct qk_machine *m, void *arg)
{
    struct kgsl_gpuobj_alloc *a = arg;
    struct qk_buf *buf;
    int result;

    if (a->metadata_len > 64)
        return qk_fail(EINVAL, "metadata of %u bytes", a->metadata_len);
    result = alloc_flagged(m, a->size, a->flags, &buf);
    if (result < 0)
        return result;
    a->size = a->va_len = a->mmapsize = buf->size_bytes;
    a->flags = buf->flags;
    a->id = buf->id;
    return 0;
}

static int
alloc_id(struct qk_machine *m, void *arg)
{
    struct kgsl_gpumem_alloc_id *a = arg;
    struct qk_buf *buf;
    int result;

    result = alloc_flagged(m, a->size, a->flags, &buf);
    if (result < 0)
        return result;
    a->id = buf->id;
    a->flags = (uint32_t)buf->flags;
    a->size = a->mmapsize = buf->size_bytes;
    a->gpuaddr = buf->va;
    return 0;
}

static int
object_info(struct qk_machine *m, void *arg)
{
    struct kgsl_gpuobj_info *a = arg;
    struct qk_buf *buf = qk_find_buf(m, a->id);

    if (!buf)
        return -EINVAL;
    a->gpuaddr = buf->va;
    a->flags = buf->flags;
    a->size = a->va_len = buf->size_bytes;
    a->va_addr = 0;
    return 0;
}

static int
memory_info(struct qk_machine *m, void *arg)
{
    struct kgsl_gpumem_get_info *a = arg;
    struct qk_buf *buf;

    buf = a->id ? qk_find_buf(m, a->id) : qk_find_va(m, a->gpuaddr);
    if (!buf)
        return qk_fail(EINVAL, "no memory %u at 0x%llx", a->id,
                       (unsigned long long)a->gpuaddr);
    a->gpuaddr = buf->va;
    a->id = buf->id;
    a->flags = (uint32_t)buf->flags;
    a->size = a->mmapsize = buf->size_bytes;
    a->useraddr = 0;
    return 0;
}

static int
free_object(struct qk_machine *m, void *arg)
{
    const struct kgsl_gpuobj_free *a = arg;
    struct qk_buf *buf = qk_find_buf(m, a->id);
    struct kgsl_gpu_event_timestamp when;
    struct qk_context *c;

    if (!buf)
        return -EINVAL;
    if (a->flags & ~KGSL_GPUOBJ_FREE_ON_EVENT)
        return qk_fail(EINVAL, "flags 0x%llx", (unsigned long long)a->flags);
    if (a->flags == 0) {
        qk_drop_buf(m, buf);
        return 0;
    }
    if (a->type != KGSL_GPU_EVENT_TIMESTAMP || a->len != sizeof(when) ||
        !qk_user(a->priv))
        return qk_fail(EINVAL, "an event of type %u, %u bytes", a->type,
                       a->len);
    memcpy(&when, qk_user(a->priv), sizeof(when));
    c = qk_find_context(m, when.context_id, 0);
    if (!c)
        return qk_fail(EINVAL, "there is no context %u", when.context_id);
    if (qk_has_passed(c->retired, when.timestamp)) {
        qk_drop_buf(m, buf);
        return 0;
    }
    buf->free_context = when.context_id;
    buf->free_timestamp = when.timestamp;
    return 0;
}

static int
map_user(struct qk_machine *m, void *arg)
{
    struct kgsl_map_user_mem *a = arg;
    struct qk_buf *buf;
    int result;

    if (a->memtype != KGSL_USER_MEM_ADDR)
        return qk_fail(EOPNOTSUPP, "user memory of type %u", a->memtype);
    if (a->hostptr % QK_PAGE || a->len % QK_PAGE || a->len == 0 || a->offset ||
        !qk_user(a->hostptr) || a->len > UINT32_MAX)
        return qk_fail(EINVAL, "user memory: %llu bytes at 0x%llx",
                       (unsigned long long)a->len,
                       (unsigned long long)a->hostptr);
    /* pages of the process are cached */
    result = qk_import(m, qk_user(a->hostptr), a->len, !m->chip->is_coherent,
                       a->flags & KGSL_MEMFLAGS_GPUREADONLY, &buf);
    if (result < 0)
        return result;
    buf->flags = (uint64_t)KGSL_CACHEMODE_WRITEBACK << KGSL_CACHEMODE_SHIFT;
    if (m->chip->is_coherent)
        buf->flags |= KGSL_MEMFLAGS_IOCOHERENT;
    a->gpuaddr = buf->va;
    return 0;
}

static int
sync_range(struct qk_buf *buf, uint64_t offset, uint64_t length, uint32_t op)
{
    bool has_range = op & KGSL_CACHE_RANGE;

    if (!(op & 3) || (op & ~(KGSL_CACHE_RANGE | 3)))
        return qk_fail(EINVAL, "operation 0x%x on caches", op);
    if (has_range && (length == 0 || offset + length < offset ||
                      offset + length > buf->size_bytes))
        return qk_fail(ERANGE, "bytes %llu to %llu of %llu",
                       (unsigned long long)offset,
                       (unsigned long long)(offset + length),
                       (unsigned long long)buf->size_bytes);
    qk_sync(buf, has_range ? offset : 0, has_range ? length : buf->size_bytes,
            op & KGSL_CACHE_CLEAN, op & KGSL_CACHE_INVALIDATE);
    return 0;
}

static int
sync_objects(struct qk_machine *m, void *arg)
{
    const struct kgsl_gpuobj_sync *a = arg;
    const struct kgsl_gpuobj_sync_obj *objs = qk_user(a->objs);
    struct qk_buf *buf;
    uint32_t i;
    int result;

    if (a->obj_len != sizeof(*objs) || a->count == 0 ||
        a->count > KGSL_SYNC_MAX || !objs)
        return qk_fail(EINVAL, "%u objects of %u bytes", a->count, a->obj_len);
    for (i = 0; i < a->count; i++) {
        buf = qk_find_buf(m, objs[i].id);
        if (!buf)
            return -EINVAL;
        result = sync_range(buf, objs[i].offset, objs[i].length, objs[i].op);
        if (result < 0)
            return result;
    }
    return 0;
}

static int
sync_cache(struct qk_machine *m, void *arg)
{
    const struct kgsl_gpumem_sync_cache *a = arg;
    struct qk_buf *buf;

    buf = a->id ? qk_find_buf(m, a->id) : qk_find_va(m, a->gpuaddr);
    if (!buf)
        return qk_fail(EINVAL, "no memory %u at 0x%llx", a->id,
                       (unsigned long long)a->gpuaddr);
    return sync_range(buf, a->offset, a->length, a->op);
}

/* ---- batches ---- */

static int
check_command(const struct kgsl_gpu_command *a)
{
    const uint64_t known = KGSL_CMDBATCH_MARKER | KGSL_CMDBATCH_SUBMIT_IB_LIST |
                           KGSL_CMDBATCH_END_OF_FRAME | KGSL_CMDBATCH_SYNC |
                           KGSL_CMDBATCH_PWR_CONSTRAINT |
                           KGSL_CMDBATCH_PROFILING;

    if (a->flags & ~known)
        return qk_fail(EINVAL, "flags 0x%llx", (unsigned long long)a->flags);
    if (a->flags & KGSL_CMDBATCH_PROFILING)
        return qk_fail(EOPNOTSUPP, "profiling is not simulated");
    if (a->numcmds > KGSL_COMMAND_MAX_OBJECTS ||
        a->numobjs > KGSL_COMMAND_MAX_OBJECTS ||
        a->numsyncs > KGSL_COMMAND_MAX_SYNCS)
        return qk_fail(EINVAL, "%u commands, %u objects, %u syncs", a->numcmds,
                       a->numobjs, a->numsyncs);
    if ((a->numcmds && (!qk_user(a->cmdlist) ||
                        a->cmdsize != sizeof(struct kgsl_command_object))) ||
        (a->numobjs && (!qk_user(a->objlist) ||
                        a->objsize != sizeof(struct kgsl_command_object))) ||
        (a->numsyncs && (!qk_user(a->synclist) ||
                         a->syncsize != sizeof(struct kgsl_command_syncpoint))))
        return qk_fail(EINVAL, "lists of elements of another size");
    return 0;
}

static int
check_streams(const struct qk_machine *m, const struct kgsl_gpu_command *a)
{
    const struct kgsl_command_object *cmds = qk_user(a->cmdlist);
    uint32_t i;

    for (i = 0; i < a->numcmds; i++) {
        if (!(cmds[i].flags & (KGSL_CMDLIST_IB | KGSL_CMDLIST_CTXTSWITCH |
                               KGSL_CMDLIST_IB_PREAMBLE)))
            return qk_fail(EINVAL, "command %u has flags 0x%x", i,
                           cmds[i].flags);
        if (cmds[i].gpuaddr % 4 || cmds[i].size % 4 || cmds[i].size == 0 ||
            cmds[i].size / 4 > KGSL_IB_MAX_DWORDS)
            return qk_fail(EINVAL, "command %u: %llu bytes at 0x%llx", i,
                           (unsigned long long)cmds[i].size,
                           (unsigned long long)cmds[i].gpuaddr);
        if (cmds[i].gpuaddr < m->va_first ||
            cmds[i].gpuaddr + cmds[i].size > m->va_end)
            return qk_fail(EINVAL, "command %u at 0x%llx is not an address", i,
                           (unsigned long long)cmds[i].gpuaddr);
    }
    return 0;
}

/* One ring in order: what was queued before has ended when this begins. */
static int
check_syncs(struct qk_machine *m, const struct kgsl_gpu_command *a)
{
    const struct kgsl_command_syncpoint *syncs = qk_user(a->synclist);
    struct kgsl_cmd_syncpoint_timestamp when;
    struct qk_context *c;
    uint32_t i;

    for (i = 0; i < a->numsyncs; i++) {
        if (syncs[i].type != KGSL_SYNCPOINT_TIMESTAMP)
            return qk_fail(EOPNOTSUPP, "a sync point of type %u",
                           syncs[i].type);
        if (syncs[i].size != sizeof(when) || !qk_user(syncs[i].priv))
            return qk_fail(EINVAL, "a sync point of %llu bytes",
                           (unsigned long long)syncs[i].size);
        memcpy(&when, qk_user(syncs[i].priv), sizeof(when));
        c = qk_find_context(m, when.context_id, 0);
        if (!c || !qk_has_passed(c->queued, when.timestamp))
            return qk_fail(EINVAL, "waits for %u of context %u, not queued",
                           when.timestamp, when.context_id);
    }
    return 0;
}

/* 0, or what became of the context. */
static int
room_for_batch(struct qk_machine *m, uint32_t id, struct qk_context **out)
{
    uint64_t deadline = qk_now_ns() + 10000000000ull;
    struct qk_context *c;
    int result;

    for (;;) {
        c = qk_find_context(m, id, 0);
        if (!c)
            return qk_fail(EINVAL, "there is no context %u", id);
        if (c->is_invalid) {
            c->tells_fault = false;
            return qk_fail(EDEADLK, "the context was invalidated: %s",
                           m->fault_text);
        }
        if (c->n_queued < QK_MAX_QUEUED)
            break;
        result = qk_wait_serial(m, m->n_done + 1, deadline);
        if (result < 0)
            return result;
    }
    *out = c;
    return 0;
}

static int
command(struct qk_machine *m, void *arg)
{
    struct kgsl_gpu_command *a = arg;
    const struct kgsl_command_object *cmds = qk_user(a->cmdlist);
    uint32_t n = a->flags & (KGSL_CMDBATCH_MARKER | KGSL_CMDBATCH_SYNC)
                     ? 0
                     : a->numcmds,
             i;
    struct qk_context *c = NULL;
    struct qk_batch *batch;
    int result = check_command(a);

    if (result == 0)
        result = check_streams(m, a);
    if (result == 0)
        result = check_syncs(m, a);
    if (result == 0)
        result = room_for_batch(m, a->context_id, &c);
    if (result < 0)
        return result;
    batch = qk_batch_create(n);
    if (!batch)
        return qk_fail(ENOMEM, "no memory for a batch");
    for (i = 0; i < n; i++)
        batch->ranges[i] = (struct qsim_range){cmds[i].gpuaddr, cmds[i].size};
    qk_submit(m, c, batch, n, false);
    a->timestamp = c->queued;
    return 0;
}

/* ---- faults ---- */

static int
fault_report(struct qk_machine *m, void *arg)
{
    struct kgsl_fault_report *a = arg;
    struct kgsl_fault *list = qk_user(a->faultlist);
    struct qk_context *c = qk_find_context(m, a->context_id, 0);
    struct kgsl_pagefault_report *out;
    uint32_t i, k;

    if (!c || !(c->flags & KGSL_CONTEXT_FAULT_INFO) || !c->is_invalid)
        return qk_fail(EINVAL, "context %u has no report", a->context_id);
    if (!list) {
        a->faultnents = 1; /* kinds */
        return 0;
    }
    if (a->faultsize != sizeof(*list) || a->faultnents == 0)
        return qk_fail(EINVAL, "%u faults of %u bytes", a->faultnents,
                       a->faultsize);
    for (i = 0; i < a->faultnents; i++) {
        if (list[i].type != KGSL_FAULT_TYPE_PAGEFAULT && list[i].type != 0)
            return qk_fail(EINVAL, "faults of type %u", list[i].type);
        if (!qk_user(list[i].fault)) {
            list[i].type = KGSL_FAULT_TYPE_PAGEFAULT;
            list[i].count = c->n_kept;
            continue;
        }
        if (list[i].size != sizeof(*out))
            return qk_fail(EINVAL, "a fault of %u bytes", list[i].size);
        out = qk_user(list[i].fault);
        if (list[i].count > c->n_kept)
            list[i].count = c->n_kept;
        memset(out, 0, list[i].count * sizeof(*out));
        for (k = 0; k < list[i].count; k++) {
            out[k].fault_addr = c->faults[k].va;
            out[k].fault_type = c->faults[k].bits;
        }
    }
    return 0;
}

static int
free_by_id(struct qk_machine *m, void *arg)
{
    const struct kgsl_gpumem_free_id *a = arg;
    struct qk_buf *buf = qk_find_buf(m, a->id);

    if (!buf)
        return -EINVAL;
    qk_drop_buf(m, buf);
    return 0;
}

static int
free_by_address(struct qk_machine *m, void *arg)
{
    const struct kgsl_sharedmem_free *a = arg;
    struct qk_buf *buf = qk_find_va(m, a->gpuaddr);

    if (!buf || buf->va != a->gpuaddr)
        return qk_fail(EINVAL, "no memory at 0x%llx",
                       (unsigned long long)a->gpuaddr);
    qk_drop_buf(m, buf);
    return 0;
}

struct call {
    uint32_t request;
    int (*run)(struct qk_machine *m, void *arg);
};

static const struct call calls[] = {
    {IOCTL_KGSL_DEVICE_GETPROPERTY, get_property},
    {IOCTL_KGSL_SETPROPERTY, set_property},
    {IOCTL_KGSL_DRAWCTXT_CREATE, create_context},
    {IOCTL_KGSL_DRAWCTXT_DESTROY, destroy_context},
    {IOCTL_KGSL_DEVICE_WAITTIMESTAMP_CTXTID, wait_timestamp},
    {IOCTL_KGSL_CMDSTREAM_READTIMESTAMP_CTXTID, read_timestamp},
    {IOCTL_KGSL_GPUOBJ_ALLOC, alloc_object},
    {IOCTL_KGSL_GPUMEM_ALLOC_ID, alloc_id},
    {IOCTL_KGSL_GPUOBJ_INFO, object_info},
    {IOCTL_KGSL_GPUMEM_GET_INFO, memory_info},
    {IOCTL_KGSL_GPUOBJ_FREE, free_object},
    {IOCTL_KGSL_GPUMEM_FREE_ID, free_by_id},
    {IOCTL_KGSL_SHAREDMEM_FREE, free_by_address},
    {IOCTL_KGSL_MAP_USER_MEM, map_user},
    {IOCTL_KGSL_GPUOBJ_SYNC, sync_objects},
    {IOCTL_KGSL_GPUMEM_SYNC_CACHE, sync_cache},
    {IOCTL_KGSL_GPU_COMMAND, command},
    {IOCTL_KGSL_GET_FAULT_REPORT, fault_report},
};

int
kgsl_call(struct qk_machine *m, unsigned long request, void *arg)
{
    size_t i;

    for (i = 0; i < ARRAY_LEN(calls); i++) {
        if (calls[i].request == (uint32_t)request)
            return arg ? calls[i].run(m, arg)
                       : qk_fail(EFAULT, "an argument at 0");
    }
    if ((uint32_t)request == IOCTL_KGSL_GPUOBJ_IMPORT)
        return qk_fail(EINVAL, "imports carry no size, or a dma-buf");
    return qk_fail(ENOTTY, "request 0x%lx", request);
}
