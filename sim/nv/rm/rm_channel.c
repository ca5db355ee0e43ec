/* Channel groups, context shares, channels and the objects on them; their
 * controls, and what they tell of a fault.
 *
 * src: docs/hardware/nvidia-kernel.md, "Bring-up" (steps 14 to 20),
 * "Address rules"; docs/hardware/nvidia-queues.md, "Errors".
 * Leads: the statuses of wrong parameters; the fault type that is told
 * (PTE), and its text.
 */
#include "sim/nv/rm/rm.h"

#include <assert.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/bits.h"
#include "base/log.h"
#include "ioctl/nv_uapi.h"

#define USERD_BYTES      512u
#define NOTIFIER_BYTES   48u /* three records */
#define NOTIFIER_RECORDS 3u
#define CODE_MMU         31u
#define CODE_COLLATERAL  45u
#define MAX_ENTRIES      (1u << 20)
#define SHARE_FLAGS_MAX  1u /* SYNC, ASYNC */
#define MAX_SUBCONTEXTS  64u
#define FAULT_TYPE_PTE   2u
#define EXCEPTIONS       0x3fu /* of a debugger's mask */
#define CODE_RESET       43u

/* How long RM waits for a kernel to end before it takes its channel away, and
 * each object on it. observed: H100, driver 580.159.04, 2026-11-22 */
#define CHANNEL_PATIENCE_MS 4000u
#define OBJECT_PATIENCE_MS  1000u
/* Root's channels have this flag. src: docs/hardware/nvidia-kernel.md,
 * "Device files" */
#define CHANNEL_PRIVILEGED (1u << 5)

/* ---- groups ---- */

void
rm_group_release(struct rm_group *group)
{
    assert(group->refs > 0);
    if (--group->refs > 0)
        return;
    rm_vas_release(group->vas);
    rm_mem_release(group->notifier);
    pthread_mutex_destroy(&group->lock);
    host_free(group);
}

/* Memory that holds the records of an error notifier. */
static enum rm_status
find_notifier(struct rm_client *client, const struct rm_card *card,
              uint32_t handle, struct rm_mem **out_mem)
{
    struct rm_object *object;

    *out_mem = NULL;
    if (!handle)
        return RM_OK;
    object = rm_find_kind(client, handle, RM_KIND_MEMORY);
    if (!object || object->card != card || object->mem->kind == RM_MEM_USER ||
        object->mem->kind == RM_MEM_IMPORT)
        return rm_refuse(RM_INVALID_OBJECT_HANDLE,
                         "error notifier 0x%x is not memory of this device",
                         handle);
    if (object->mem->size_bytes < NOTIFIER_BYTES)
        return rm_refuse(RM_INVALID_LIMIT,
                         "error notifier 0x%x is of %llu bytes, not %u", handle,
                         (unsigned long long)object->mem->size_bytes,
                         NOTIFIER_BYTES);
    *out_mem = object->mem;
    return RM_OK;
}

static bool
has_engine(const struct rm_machine *machine, uint32_t engine)
{
    uint32_t idx;

    return engine == RM_ENGINE_GR0 || rm_copy_engine_idx(machine, engine, &idx);
}

static enum rm_status
alloc_group(struct rm_alloc *a, struct rm_vas *vas, struct rm_mem *notifier)
{
    const struct nv_channel_group_alloc *params = a->params;
    struct rm_group *group = host_calloc(1, sizeof(*group));

    if (!group)
        return RM_NO_MEMORY;
    if (pthread_mutex_init(&group->lock, NULL) != 0) {
        host_free(group);
        return RM_NO_MEMORY;
    }
    group->refs = 1;
    group->card = a->object->card;
    group->engine = params->engineType;
    group->vas = vas;
    rm_vas_retain(vas);
    group->notifier = notifier;
    if (notifier)
        rm_mem_retain(notifier);
    a->object->group = group;
    a->machine->last_cid++;
    return RM_OK;
}

enum rm_status
rm_alloc_group(struct rm_alloc *a)
{
    const struct nv_channel_group_alloc *params = a->params;
    struct rm_mem *notifier;
    struct rm_vas *vas;
    enum rm_status status;

    if (!has_engine(a->machine, params->engineType))
        return rm_refuse(RM_INVALID_ARGUMENT,
                         "engineType 0x%x of a group: the chip has none such; "
                         "it is mandatory",
                         params->engineType);
    status = rm_vas_of(a->client, a->parent, params->hVASpace, &vas);
    if (status == RM_OK)
        status = find_notifier(a->client, a->object->card, params->hObjectError,
                               &notifier);
    return status == RM_OK ? alloc_group(a, vas, notifier) : status;
}

enum rm_status
rm_alloc_share(struct rm_alloc *a)
{
    struct nv_ctxshare_alloc *params = a->params;
    struct rm_vas *vas;
    enum rm_status status;

    if (params->flags > SHARE_FLAGS_MAX)
        return rm_refuse(RM_INVALID_FLAGS, "context share flags 0x%x",
                         params->flags);
    status = rm_vas_of(a->client, a->parent->parent, params->hVASpace, &vas);
    if (status != RM_OK)
        return status;
    /* From the last on, or the first. src: kctxshareInitCommon; observed: H100,
     * 2026-11-22 */
    a->parent->n_registered++;
    params->subctxId =
        params->flags ? MAX_SUBCONTEXTS - a->parent->n_registered : 0;
    rm_vas_retain(vas);
    a->object->vas = vas;
    return RM_OK;
}

/* ---- channels ---- */

/* Called by the card's thread of a channel that faulted: the whole group
 * ends. src: docs/hardware/nvidia-queues.md, "Errors" */
static void
on_card_fault(void *user)
{
    struct rm_channel *channel = user, *c;
    struct rm_group *group = channel->group;

    pthread_mutex_lock(&group->lock);
    for (c = group->chans; c; c = c->next) {
        if (c != channel)
            nvgpu_chan_kill(c->chan, CODE_COLLATERAL);
    }
    pthread_mutex_unlock(&group->lock);
}

/* The hardware channel goes first: its thread looks at the group. */
void
rm_channel_destroy(struct rm_channel *channel)
{
    struct rm_group *group = channel->group;
    struct rm_channel **link;

    assert(channel->group->refs > 0);
    pthread_mutex_lock(&group->lock);
    for (link = &group->chans; *link && *link != channel;)
        link = &(*link)->next;
    if (*link)
        *link = channel->next;
    pthread_mutex_unlock(&group->lock);
    if (channel->chan) {
        (void)nvgpu_chan_wait(channel->chan, CHANNEL_PATIENCE_MS);
        nvgpu_chan_destroy(channel->chan);
    }
    if (channel->uvm)
        rm_uvm_forget_channel(channel->uvm, channel);
    rm_mem_release(channel->userd);
    rm_mem_release(channel->notifier);
    rm_vas_release(channel->vas);
    rm_group_release(group);
    host_free(channel);
}

void
rm_channel_lose_object(const struct rm_channel *channel)
{
    (void)nvgpu_chan_wait(channel->chan, OBJECT_PATIENCE_MS);
}

static enum rm_status
check_channel(const struct rm_group *group, const struct nv_channel_alloc *p)
{
    if (p->engineType && p->engineType != group->engine)
        return rm_refuse(RM_INVALID_ARGUMENT,
                         "engineType 0x%x in a group of 0x%x", p->engineType,
                         group->engine);
    if (p->hVASpace)
        return rm_refuse(RM_INVALID_ARGUMENT,
                         "a channel of a group names no address space, this "
                         "one 0x%x",
                         p->hVASpace);
    if (!is_pow2(p->gpFifoEntries) || p->gpFifoEntries < 2 ||
        p->gpFifoEntries > MAX_ENTRIES)
        return rm_refuse(RM_INVALID_ARGUMENT,
                         "ring of %u entries: a power of two is wanted",
                         p->gpFifoEntries);
    if (p->gpFifoOffset % 8)
        return rm_refuse(RM_INVALID_OFFSET, "ring at 0x%llx",
                         (unsigned long long)p->gpFifoOffset);
    if (p->hContextShare ? group->uses_none : group->uses_share)
        return rm_refuse(RM_INVALID_STATE,
                         "of a group's channels all use a context share, or "
                         "none does");
    return RM_OK;
}

/* The space that the channel works in: its share's, or the group's. */
static enum rm_status
find_vas(struct rm_alloc *a, const struct nv_channel_alloc *p,
         struct rm_vas **out_vas)
{
    struct rm_object *share;

    *out_vas = a->parent->group->vas;
    if (!p->hContextShare)
        return RM_OK;
    share = rm_find_kind(a->client, p->hContextShare, RM_KIND_SHARE);
    if (!share || share->parent != a->parent)
        return rm_refuse(RM_INVALID_OBJECT_HANDLE,
                         "0x%x is not a context share of group 0x%x",
                         p->hContextShare, a->parent->handle);
    *out_vas = share->vas;
    return RM_OK;
}

static enum rm_status
find_userd(struct rm_alloc *a, const struct nv_channel_alloc *p,
           struct rm_mem **out_mem)
{
    struct rm_object *object =
        rm_find_kind(a->client, p->hUserdMemory[0], RM_KIND_MEMORY);

    if (!object || object->card != a->object->card ||
        object->mem->kind == RM_MEM_USER || object->mem->kind == RM_MEM_IMPORT)
        return rm_refuse(RM_INVALID_OBJECT_HANDLE,
                         "hUserdMemory[0] 0x%x is not memory of this device",
                         p->hUserdMemory[0]);
    if (p->userdOffset[0] % USERD_BYTES ||
        object->mem->size_bytes < USERD_BYTES ||
        p->userdOffset[0] > object->mem->size_bytes - USERD_BYTES)
        return rm_refuse(RM_INVALID_OFFSET,
                         "USERD at 0x%llx of memory 0x%x: %u bytes, aligned "
                         "to as many",
                         (unsigned long long)p->userdOffset[0], object->handle,
                         USERD_BYTES);
    *out_mem = object->mem;
    return RM_OK;
}

/* The ring is mapped by now, and lies well beside USERD. */
static enum rm_status
check_gpfifo_ring(struct rm_alloc *a, struct rm_vas *vas,
                  const struct rm_mem *userd)
{
    const struct nv_channel_alloc *p = a->params;
    uint64_t size_bytes = 8ull * p->gpFifoEntries;
    const struct rm_map *map = rm_map_find(vas, p->gpFifoOffset);

    if (!map || p->gpFifoOffset - map->va > map->size_bytes - size_bytes ||
        size_bytes > map->size_bytes)
        return rm_refuse(RM_INVALID_ADDRESS,
                         "the ring, 0x%llx bytes at 0x%llx, is not mapped",
                         (unsigned long long)size_bytes,
                         (unsigned long long)p->gpFifoOffset);
    if (a->machine->chip->sm >= 90 && userd->kind == RM_MEM_SYSTEM &&
        map->mem->kind == RM_MEM_VIDEO)
        return rm_refuse(RM_INVALID_STATE,
                         "USERD in system memory with the ring in video "
                         "memory: the card does not keep their order");
    return RM_OK;
}

static enum rm_status
start_channel(struct rm_alloc *a, struct rm_channel *channel)
{
    const struct nv_channel_alloc *p = a->params;
    struct rm_group *group = channel->group;
    struct nvgpu_chan_desc desc = {
        .space = channel->vas->space,
        .group = group,
        .gpfifo_class = a->object->nv_class,
        .engine = NVGPU_ENGINE_GR,
        .gpfifo_va = p->gpFifoOffset,
        .n_entries = p->gpFifoEntries,
        .userd = channel->userd->host + p->userdOffset[0],
        .notifier = channel->notifier ? channel->notifier->host : NULL,
        .on_fault = on_card_fault,
        .user = channel,
    };

    if (rm_copy_engine_idx(a->machine, group->engine, &desc.engine_index))
        desc.engine = NVGPU_ENGINE_CE;
    if (nvgpu_chan_create(group->card->gpu, &desc, &channel->chan) != BELL_OK)
        return rm_refuse(bell_error_last()->status == BELL_E_NO_MEMORY
                             ? RM_NO_MEMORY
                             : RM_INVALID_ARGUMENT,
                         "%s", bell_error_last()->message);
    nvgpu_chan_by_block(channel->chan, group->by_block);
    pthread_mutex_lock(&group->lock);
    channel->next = group->chans;
    group->chans = channel;
    pthread_mutex_unlock(&group->lock);
    return RM_OK;
}

/* Where a process sees the channel's USERD, through BAR1. */
static void
tell_mapped(const struct rm_channel *channel, const struct rm_mapping *m)
{
    uint64_t at = channel->userd_offset - m->offset_bytes;

    if (m->mem == channel->userd && m->mem->kind == RM_MEM_VIDEO &&
        channel->userd_offset >= m->offset_bytes && at < m->size_bytes)
        nvgpu_chan_mapped(channel->chan, m->addr + at);
}

void
rm_channels_mapped(struct rm_machine *machine, const struct rm_mapping *m)
{
    const struct rm_client *c;
    size_t i;

    for (c = machine->clients; m->mem && c; c = c->next) {
        for (i = 0; i < c->n_objects; i++) {
            if (c->objects[i]->channel &&
                c->objects[i]->kind == RM_KIND_CHANNEL)
                tell_mapped(c->objects[i]->channel, m);
        }
    }
}

static enum rm_status
alloc_channel(struct rm_alloc *a, struct rm_vas *vas, struct rm_mem *userd,
              struct rm_mem *notifier)
{
    struct nv_channel_alloc *p = a->params;
    struct rm_channel *channel = host_calloc(1, sizeof(*channel));
    struct rm_group *group = a->parent->group;
    const struct rm_process *process;
    enum rm_status status;
    size_t i;

    assert(vas && userd);
    if (!channel)
        return RM_NO_MEMORY;
    if (!notifier)
        notifier = group->notifier;
    group->refs++;
    rm_vas_retain(vas);
    rm_mem_retain(userd);
    if (notifier)
        rm_mem_retain(notifier);
    *channel = (struct rm_channel){
        .group = group,
        .vas = vas,
        .userd = userd,
        .userd_offset = p->userdOffset[0],
        .notifier = notifier,
        .ring_va = p->gpFifoOffset,
        .token_record = 1,
    };
    status = start_channel(a, channel);
    if (status != RM_OK) {
        rm_channel_destroy(channel);
        return status;
    }
    group->uses_share |= p->hContextShare != 0;
    group->uses_none |= p->hContextShare == 0;
    a->object->channel = channel;
    p->flags |= CHANNEL_PRIVILEGED;
    p->cid = ++a->machine->last_cid;
    for (process = a->machine->processes; process; process = process->next) {
        for (i = 0; i < process->n_mappings; i++)
            tell_mapped(channel, &process->mappings[i]);
    }
    return RM_OK;
}

enum rm_status
rm_alloc_channel(struct rm_alloc *a)
{
    const struct nv_channel_alloc *p = a->params;
    struct rm_mem *userd, *notifier;
    struct rm_vas *vas;
    enum rm_status status = check_channel(a->parent->group, p);

    if (status == RM_OK)
        status = find_vas(a, p, &vas);
    if (status == RM_OK)
        status = find_userd(a, p, &userd);
    if (status == RM_OK)
        status = find_notifier(a->client, a->object->card, p->hObjectError,
                               &notifier);
    if (status == RM_OK)
        status = check_gpfifo_ring(a, vas, userd);
    return status == RM_OK ? alloc_channel(a, vas, userd, notifier) : status;
}

/* ---- objects on channels ---- */

static void
add_object(struct rm_alloc *a)
{
    struct rm_channel *channel = a->parent->channel;

    nvgpu_chan_add_object(channel->chan, a->object->nv_class);
    channel->has_object = true;
    a->object->channel = channel;
}

enum rm_status
rm_alloc_compute(struct rm_alloc *a)
{
    const struct nv_gr_alloc *params = a->params;

    if (a->parent->channel->group->engine != RM_ENGINE_GR0)
        return rm_refuse(RM_INVALID_CLASS,
                         "a copy engine's channel has no compute object");
    /* In an unknown version the rest is not looked at: CUDA leaves what was
     * there. observed: H100, 2026-11-22 */
    if (params && params->version == 2 && params->size != sizeof(*params))
        return rm_refuse(RM_INVALID_PARAM_STRUCT, "compute object: size %u",
                         params->size);
    add_object(a);
    return RM_OK;
}

enum rm_status
rm_alloc_copy(struct rm_alloc *a)
{
    const struct nvb0b5_alloc *params = a->params;
    const struct rm_group *group = a->parent->channel->group;
    uint32_t engine = group->engine, idx;

    /* Version 0 names the engine by its number, 1 by its type; without either
     * it is the group's, or a graphics copy engine. src:
     * kceGetEngineDescFromAllocParams */
    if (engine == RM_ENGINE_GR0)
        engine = rm_copy_engine_type(a->machine, 0);
    if (params && params->version == 0 &&
        (params->engineType || group->engine == RM_ENGINE_GR0))
        engine = rm_copy_engine_type(a->machine, params->engineType);
    else if (params && params->engineType)
        engine = params->engineType;
    if ((params && params->version > 1) ||
        !rm_copy_engine_idx(a->machine, engine, &idx) ||
        (group->engine != RM_ENGINE_GR0 && engine != group->engine))
        return rm_refuse(RM_INVALID_ARGUMENT,
                         "copy object: version %u, engineType 0x%x in a "
                         "group of 0x%x",
                         params ? params->version : 0,
                         params ? params->engineType : 0, group->engine);
    a->object->engine = engine;
    add_object(a);
    return RM_OK;
}

enum rm_status
rm_alloc_debugger(struct rm_alloc *a)
{
    const struct nv83de_alloc *params = a->params;
    struct rm_object *target;

    if (params->hAppClient != a->client->root->handle)
        return rm_refuse(RM_INVALID_CLIENT,
                         "hAppClient 0x%x is not this client",
                         params->hAppClient);
    target = rm_find_kind(a->client, params->hClass3dObject, RM_KIND_COMPUTE);
    if (!target || target->card != a->object->card)
        return rm_refuse(RM_INVALID_OBJECT_HANDLE,
                         "hClass3dObject 0x%x is not a compute object",
                         params->hClass3dObject);
    a->object->target = target;
    return RM_OK;
}

/* ---- controls: work ---- */

static enum rm_status
check_schedulable(const struct rm_channel *channel)
{
    if (!channel->has_object)
        return rm_refuse(RM_INVALID_STATE,
                         "a channel without an object has no runlist");
    if (channel->vas->external && channel->group->engine == RM_ENGINE_GR0 &&
        !channel->uvm)
        return rm_refuse(RM_INVALID_STATE,
                         "a graphics engine's channel in a space of UVM's, "
                         "not registered with UVM");
    return RM_OK;
}

static void
set_enabled(struct rm_channel *channel, bool enable)
{
    channel->enabled = enable;
    nvgpu_chan_enable(channel->chan, enable);
}

/* On a group all channels are scheduled, or none is. */
static enum rm_status
schedule_group(struct rm_control *c)
{
    const struct nva06c_gpfifo_schedule *params = c->params;
    struct rm_object *o;
    enum rm_status status;

    for (o = c->object->children; o && params->bEnable; o = o->sibling) {
        if (o->kind != RM_KIND_CHANNEL)
            continue;
        status = check_schedulable(o->channel);
        if (status != RM_OK)
            return status;
    }
    for (o = c->object->children; o; o = o->sibling) {
        if (o->kind == RM_KIND_CHANNEL)
            set_enabled(o->channel, params->bEnable);
    }
    return RM_OK;
}

static enum rm_status
schedule_channel(struct rm_control *c)
{
    const struct nva06f_gpfifo_schedule *params = c->params;
    struct rm_channel *channel = c->object->channel;

    if (params->bEnable) {
        enum rm_status status = check_schedulable(channel);
        if (status != RM_OK)
            return status;
    }
    set_enabled(channel, params->bEnable);
    return RM_OK;
}

static enum rm_status
bind_channel(struct rm_control *c)
{
    const struct nva06f_bind *params = c->params;

    if (params->engineType != c->object->channel->group->engine)
        return rm_refuse(RM_INVALID_ARGUMENT,
                         "bind to engine 0x%x in a group of 0x%x",
                         params->engineType, c->object->channel->group->engine);
    return RM_OK;
}

static enum rm_status
stop_channel(struct rm_control *c)
{
    set_enabled(c->object->channel, false);
    return RM_OK;
}

/* Sets the mode of a group, or of a channel's group. guess: which objects there
 * have to be before, and the answer where there are none. */
static enum rm_status
set_preemption(struct rm_control *c)
{
    const struct nv2080_gr_set_ctxsw_preemption_mode *params = c->params;
    struct rm_object *o = rm_find(c->object->client, params->hChannel);
    struct rm_channel *channel;
    struct rm_group *group;

    if (!o || o->card != c->object->card ||
        (o->kind != RM_KIND_GROUP && o->kind != RM_KIND_CHANNEL))
        return rm_refuse(RM_INVALID_CHANNEL, "0x%x is not a channel or group",
                         params->hChannel);
    group = o->kind == RM_KIND_GROUP ? o->group : o->channel->group;
    if (group->engine != RM_ENGINE_GR0 || params->cilpPreemptMode > 2 ||
        params->flags & ~3u)
        return rm_refuse(RM_INVALID_ARGUMENT,
                         "preemption mode %u, flags 0x%x, of engine 0x%x",
                         params->cilpPreemptMode, params->flags, group->engine);
    if (!group->chans || !group->chans->has_object)
        return rm_refuse(RM_INVALID_STATE,
                         "preemption mode of a group without objects");
    if (!(params->flags & 1))
        return RM_OK;
    pthread_mutex_lock(&group->lock);
    group->by_block = params->cilpPreemptMode != 0;
    for (channel = group->chans; channel; channel = channel->next)
        nvgpu_chan_by_block(channel->chan, group->by_block);
    pthread_mutex_unlock(&group->lock);
    return RM_OK;
}

/* The group ends, whatever it does, at once. observed: H100, driver
 * 580.159.04, 2026-11-22: reason 0 takes 20 ms and leaves code 43; reason 3 is
 * an invalid parameter. guess: so are the others that no client has. */
static enum rm_status
reset_channel(struct rm_control *c)
{
    const struct nv906f_reset_channel *params = c->params;
    struct rm_group *group = c->object->channel->group;
    struct rm_channel *channel;

    if (params->resetReason)
        return rm_refuse(RM_INVALID_PARAMETER, "reset for reason %u",
                         params->resetReason);
    if (params->engineID != group->engine)
        return rm_refuse(RM_INVALID_ARGUMENT,
                         "reset of engine 0x%x in a group of 0x%x",
                         params->engineID, group->engine);
    pthread_mutex_lock(&group->lock);
    for (channel = group->chans; channel; channel = channel->next)
        nvgpu_chan_kill(channel->chan, CODE_RESET);
    pthread_mutex_unlock(&group->lock);
    return RM_OK;
}

/* Time slices and levels: accepted, a card's channels all run at once. */
static enum rm_status
set_timeslice(struct rm_control *c)
{
    const struct nva06c_set_timeslice *params = c->params;

    return params->timesliceUs ? RM_OK : RM_INVALID_ARGUMENT;
}

static enum rm_status
set_interleave(struct rm_control *c)
{
    const struct nva06c_set_interleave_level *params = c->params;

    return params->tsgInterleaveLevel <= 2 ? RM_OK : RM_INVALID_ARGUMENT;
}

/* The token is also put into the notifier's record for it. */
static enum rm_status
get_token(struct rm_control *c)
{
    struct nvc36f_gpfifo_get_work_submit_token *params = c->params;
    struct rm_channel *channel = c->object->channel;

    if (!channel->has_object)
        return rm_refuse(RM_INVALID_STATE,
                         "channel 0x%x has no runlist yet: no object is "
                         "allocated on it",
                         c->object->handle);
    params->workSubmitToken = nvgpu_chan_token(channel->chan);
    if (channel->notifier) {
        _Atomic uint32_t *record =
            (_Atomic uint32_t *)(void *)(channel->notifier->host +
                                         16u * channel->token_record);
        atomic_store(&record[2], params->workSubmitToken);
    }
    return RM_OK;
}

static enum rm_status
set_token_record(struct rm_control *c)
{
    const struct nvc36f_gpfifo_set_work_submit_token_notif_index *params =
        c->params;

    if (params->index == 0 || params->index >= NOTIFIER_RECORDS)
        return rm_refuse(RM_INVALID_ARGUMENT, "notifier record %u",
                         params->index);
    c->object->channel->token_record = params->index;
    return RM_OK;
}

static enum rm_status
get_class_engine(struct rm_control *c)
{
    struct nv906f_get_class_engineid *params = c->params;
    struct rm_object *o = rm_find(c->object->client, params->hObject);

    if (!o || o->parent != c->object)
        return rm_refuse(RM_INVALID_OBJECT_HANDLE,
                         "0x%x is not an object of channel 0x%x",
                         params->hObject, c->object->handle);
    params->classID = o->nv_class;
    params->engineID =
        o->engine ? o->engine : c->object->channel->group->engine;
    params->classEngineID = o->nv_class;
    return RM_OK;
}

/* ---- controls: faults ---- */

static const char *const access_names[] = {"VIRT_READ", "VIRT_WRITE",
                                           "VIRT_ATOMIC"};

static enum rm_status
get_mmu_fault(struct rm_control *c)
{
    struct nv906f_get_mmu_fault_info *params = c->params;
    struct nvgpu_fault fault;

    memset(params, 0, sizeof(*params));
    if (!nvgpu_chan_fault(c->object->channel->chan, &fault) ||
        fault.code != CODE_MMU)
        return RM_OK;
    params->addrHi = (uint32_t)(fault.va >> 32);
    params->addrLo = (uint32_t)fault.va;
    params->faultType = FAULT_TYPE_PTE;
    snprintf((char *)params->faultString, sizeof(params->faultString),
             "FAULT_PTE ACCESS_TYPE_%s",
             fault.access < ARRAY_LEN(access_names) ? access_names[fault.access]
                                                    : "?");
    params->shaderProgramVA[0] = fault.is_sm ? fault.pc : 0;
    return RM_OK;
}

/* The channel that a debugger looks at: the one that is named, or its
 * object's. */
static enum rm_status
debugged(struct rm_control *c, uint32_t handle, struct rm_channel **out_channel)
{
    struct rm_object *o;

    if (handle) {
        o = rm_find_kind(c->object->client, handle, RM_KIND_CHANNEL);
        if (!o || o->card != c->object->card)
            return rm_refuse(RM_INVALID_CHANNEL, "0x%x is not a channel",
                             handle);
        *out_channel = o->channel;
        return RM_OK;
    }
    if (!c->object->target)
        return rm_refuse(RM_INVALID_STATE,
                         "the debugger's compute object is gone");
    *out_channel = c->object->target->channel;
    return RM_OK;
}

/* A fault is told on one SM: the one that the block's number falls on. */
static uint32_t
sm_of(const struct nvgpu_chip *chip, const struct nvgpu_fault *fault)
{
    return (fault->block[0] + fault->block[1] * 31 + fault->block[2] * 17) %
           nvgpu_n_sm(chip);
}

static enum rm_status
read_sm_errors(struct rm_control *c)
{
    struct nv83de_debug_read_all_sm_error_states *params = c->params;
    const struct nvgpu_chip *chip = c->machine->chip;
    uint32_t n_sm = nvgpu_n_sm(chip);
    uint32_t first = params->startingSM, n = params->numSMsToRead, sm;
    struct rm_channel *channel;
    struct nvgpu_fault fault;
    enum rm_status status = debugged(c, params->hTargetChannel, &channel);

    if (status != RM_OK)
        return status;
    if (first >= n_sm || n > n_sm - first ||
        n > ARRAY_LEN(params->smErrorStateArray))
        return rm_refuse(RM_INVALID_ARGUMENT, "SMs %u and %u more of %u", first,
                         n, n_sm);
    memset(params->smErrorStateArray, 0, sizeof(params->smErrorStateArray));
    params->mmuFault.valid = 0;
    if (channel->errors_cleared || !nvgpu_chan_fault(channel->chan, &fault))
        return RM_OK;
    if (fault.code == CODE_MMU) {
        params->mmuFault.valid = 1;
        params->mmuFault.faultInfo = params->mmuFaultInfo = FAULT_TYPE_PTE;
    }
    sm = sm_of(chip, &fault);
    if (!fault.is_sm || sm < first || sm - first >= n)
        return RM_OK;
    params->smErrorStateArray[sm - first].hwwWarpEsr = fault.esr;
    params->smErrorStateArray[sm - first].hwwWarpEsrPc = (uint32_t)fault.pc;
    params->smErrorStateArray[sm - first].hwwWarpEsrPc64 = fault.pc;
    return RM_OK;
}

static enum rm_status
clear_sm_errors(struct rm_control *c)
{
    const struct nv83de_debug_clear_all_sm_error_states *params = c->params;
    struct rm_channel *channel;
    enum rm_status status = debugged(c, params->hTargetChannel, &channel);

    if (status == RM_OK)
        channel->errors_cleared = true;
    return status;
}

static enum rm_status
read_mmu_faults(struct rm_control *c)
{
    struct nv83de_debug_read_mmu_fault_info *params = c->params;
    struct rm_channel *channel;
    struct nvgpu_fault fault;
    enum rm_status status = debugged(c, 0, &channel);

    if (status != RM_OK)
        return status;
    memset(params, 0, sizeof(*params));
    if (!nvgpu_chan_fault(channel->chan, &fault) || fault.code != CODE_MMU ||
        channel->errors_cleared)
        return RM_OK;
    params->count = 1;
    params->mmuFaultInfoList[0].faultAddress = fault.va;
    params->mmuFaultInfoList[0].faultType = FAULT_TYPE_PTE;
    params->mmuFaultInfoList[0].accessType = fault.access;
    return RM_OK;
}

/* Which exceptions stop an SM for a debugger: none does here. src:
 * ctrl83dedebug.h */
static enum rm_status
set_exception_mask(struct rm_control *c)
{
    const struct nv83de_debug_set_exception_mask *params = c->params;

    return params->exceptionMask & ~EXCEPTIONS ? RM_INVALID_ARGUMENT : RM_OK;
}

#define GROUP     (1u << RM_KIND_GROUP)
#define CHANNEL   (1u << RM_KIND_CHANNEL)
#define DEBUGGER  (1u << RM_KIND_DEBUGGER)
#define SUBDEVICE (1u << RM_KIND_SUBDEVICE)

/* clang-format off */
const struct rm_control_row rm_channel_controls[] = {
    {NVA06C_CTRL_CMD_GPFIFO_SCHEDULE, NV_S_NVA06C_GPFIFO_SCHEDULE, GROUP, schedule_group},
    {NVA06C_CTRL_CMD_SET_TIMESLICE, NV_S_NVA06C_SET_TIMESLICE, GROUP, set_timeslice},
    {NVA06C_CTRL_CMD_SET_INTERLEAVE_LEVEL, NV_S_NVA06C_SET_INTERLEAVE_LEVEL, GROUP, set_interleave},
    {NV2080_CTRL_CMD_GR_SET_CTXSW_PREEMPTION_MODE, NV_S_NV2080_GR_SET_CTXSW_PREEMPTION_MODE, SUBDEVICE, set_preemption},
    {NVA06F_CTRL_CMD_GPFIFO_SCHEDULE, NV_S_NVA06F_GPFIFO_SCHEDULE, CHANNEL, schedule_channel},
    {NVA06F_CTRL_CMD_BIND, NV_S_NVA06F_BIND, CHANNEL, bind_channel},
    {NVA06F_CTRL_CMD_STOP_CHANNEL, NV_S_NVA06F_STOP_CHANNEL, CHANNEL, stop_channel},
    {NVC36F_CTRL_CMD_GPFIFO_GET_WORK_SUBMIT_TOKEN, NV_S_NVC36F_GPFIFO_GET_WORK_SUBMIT_TOKEN, CHANNEL, get_token},
    {NVC36F_CTRL_CMD_GPFIFO_SET_WORK_SUBMIT_TOKEN_NOTIF_INDEX, NV_S_NVC36F_GPFIFO_SET_WORK_SUBMIT_TOKEN_NOTIF_INDEX, CHANNEL, set_token_record},
    {NV906F_CTRL_CMD_GET_CLASS_ENGINEID, NV_S_NV906F_GET_CLASS_ENGINEID, CHANNEL, get_class_engine},
    {NV906F_CTRL_CMD_RESET_CHANNEL, NV_S_NV906F_RESET_CHANNEL, CHANNEL, reset_channel},
    {NV906F_CTRL_CMD_GET_MMU_FAULT_INFO, NV_S_NV906F_GET_MMU_FAULT_INFO, CHANNEL, get_mmu_fault},
    {NV83DE_CTRL_CMD_DEBUG_SET_EXCEPTION_MASK, NV_S_NV83DE_DEBUG_SET_EXCEPTION_MASK, DEBUGGER, set_exception_mask},
    {NV83DE_CTRL_CMD_DEBUG_READ_ALL_SM_ERROR_STATES, NV_S_NV83DE_DEBUG_READ_ALL_SM_ERROR_STATES, DEBUGGER, read_sm_errors},
    {NV83DE_CTRL_CMD_DEBUG_CLEAR_ALL_SM_ERROR_STATES, NV_S_NV83DE_DEBUG_CLEAR_ALL_SM_ERROR_STATES, DEBUGGER, clear_sm_errors},
    {NV83DE_CTRL_CMD_DEBUG_READ_MMU_FAULT_INFO, NV_S_NV83DE_DEBUG_READ_MMU_FAULT_INFO, DEBUGGER, read_mmu_faults},
};
/* clang-format on */
const size_t rm_n_channel_controls = ARRAY_LEN(rm_channel_controls);
