/* Channels: their memory, the kernel's objects, entries and doorbell.
 * src: docs/hardware/nvidia-kernel.md, "Bring-up" (steps 13 to 20);
 * docs/hardware/nvidia-queues.md, "Control words and entries", "Doorbell".
 */
#include <assert.h>
#include <string.h>

#include "base/bits.h"
#include "base/log.h"
#include "hcq/nv/nv_control.h"
#include "hcq/nv/nv_gen.h"
#include "hcq/nv/regs/nv_host.h"
#include "hcq/nv/regs/nv_mem.h"
#include "ioctl/nv_uapi.h"

#define DEFAULT_ENTRIES NV_HOST_RING_ENTRIES
#define NOTICE_BYTES    (NV_MEM_NOTIFIER_RECORDS * sizeof(struct nv_mem_notifier))

/* Engine types. COPY10 and later lie elsewhere, from branch 560 on. */
#define ENGINE_GR0    1u
#define ENGINE_COPY0  9u
#define ENGINE_COPY10 0x34u

/* SET_CTXSW_PREEMPTION_MODE: NV2080_CTRL_..._FLAGS_CILP_SET, COMPUTE_CTA. */
#define PREEMPTION_SETS_COMPUTE 1u
#define PREEMPTION_BY_BLOCK     1u

#define GR_PARAMS_VERSION   2u
#define COPY_PARAMS_VERSION 1u

/* ---- engines ------------------------------------------------------------- */

/* The next copy engine in turn; for staging, which the link to the host holds
 * back, the last. */
static bell_status
choose_copy_engine(struct nv_device *dev, uint32_t *out_engine)
{
    struct nv_control *control = dev->control;
    uint32_t n = control->n_copy_engines, turn, i;

    if (!n)
        return bell_fail(BELL_E_UNSUPPORTED,
                         "%s: every copy engine shares the graphics runlist",
                         dev->base.info.name);
    if (atomic_load(&control->opens_staging))
        turn = n - 1;
    else
        turn = atomic_fetch_add(&control->n_copy_channels, 1) % n;
    assert(turn < n);
    i = control->copy_engines[turn];
    *out_engine = i < 10 ? ENGINE_COPY0 + i : ENGINE_COPY10 + i - 10;
    return BELL_OK;
}

/* ---- the kernel's objects ------------------------------------------------ */

static bell_status
make_group(struct nv_channel *channel)
{
    struct nv_device *dev = channel->dev;
    struct nv_channel_group_alloc params = {
        .hObjectError = channel->notice.handle,
        .hVASpace = dev->control->vaspace,
        .engineType = channel->engine,
    };

    BELL_TRY(nv_rm_alloc(dev->rm, dev->rm->device, KEPLER_CHANNEL_GROUP_A,
                         NV_S_NV_CHANNEL_GROUP_ALLOC, &params,
                         &channel->group));
    return BELL_OK;
}

static bell_status
make_channel(struct nv_channel *channel)
{
    struct nv_device *dev = channel->dev;
    struct nv_channel_alloc params = {
        .hObjectError = channel->notice.handle,
        .gpFifoOffset = channel->control.va,
        .gpFifoEntries = channel->n_entries,
        .engineType = channel->engine,
    };

    assert(is_pow2(channel->n_entries));
    params.hUserdMemory[0] = channel->control.handle;
    params.userdOffset[0] =
        nv_mem_offset(&channel->control) + 8ull * channel->n_entries;
    BELL_TRY(nv_rm_alloc(dev->rm, channel->group, dev->chip.host->number,
                         NV_S_NV_CHANNEL_ALLOC, &params, &channel->channel));
    return BELL_OK;
}

static bell_status
make_copy_object(struct nv_channel *channel)
{
    struct nv_device *dev = channel->dev;
    struct nvb0b5_alloc params = {
        .version = COPY_PARAMS_VERSION,
        .engineType = channel->engine,
    };

    BELL_TRY(nv_rm_alloc(dev->rm, channel->channel, dev->chip.copy->number,
                         NV_S_NVB0B5_ALLOC, &params, &channel->object));
    return BELL_OK;
}

/* Other channels' kernels have their turn when the blocks that run have ended;
 * without that, when the whole grid has, and after seconds the kernel driver
 * takes the channel away. A device that cannot have it does without. A switch
 * in the middle of a block wants a trap handler, which is machine code. */
static void
allow_switches(struct nv_channel *channel)
{
    struct nv_device *dev = channel->dev;
    struct nv2080_gr_set_ctxsw_preemption_mode params = {
        .flags = PREEMPTION_SETS_COMPUTE,
        .hChannel = channel->group,
        .cilpPreemptMode = PREEMPTION_BY_BLOCK,
    };

    if (nv_rm_control(dev->rm, dev->rm->subdevice,
                      NV2080_CTRL_CMD_GR_SET_CTXSW_PREEMPTION_MODE,
                      NV_S_NV2080_GR_SET_CTXSW_PREEMPTION_MODE,
                      &params) != BELL_OK)
        LOG(LOG_IOCTL, "%s: long kernels keep others waiting: %s",
            dev->base.info.name, bell_error_last()->message);
}

/* Compute, and the copy engine that goes with it (its partner GRCE). The
 * debugger tells where a kernel failed; not every client may have one. */
static bell_status
make_compute_objects(struct nv_channel *channel)
{
    struct nv_device *dev = channel->dev;
    struct nv_gr_alloc params = {
        .version = GR_PARAMS_VERSION,
        .size = sizeof(params),
    };
    struct nv83de_alloc debugger = {.hAppClient = dev->rm->client};

    BELL_TRY(nv_rm_alloc(dev->rm, channel->channel, dev->chip.compute->number,
                         NV_S_NV_GR_ALLOC, &params, &channel->object));
    BELL_TRY(nv_rm_alloc(dev->rm, channel->channel, dev->chip.copy->number, 0,
                         NULL, &channel->copy_object));
    debugger.hClass3dObject = channel->object;
    if (nv_rm_alloc(dev->rm, dev->rm->device, GT200_DEBUGGER, NV_S_NV83DE_ALLOC,
                    &debugger, &channel->debugger) != BELL_OK)
        LOG(LOG_IOCTL, "%s: no debugger: %s", dev->base.info.name,
            bell_error_last()->message);
    allow_switches(channel);
    return BELL_OK;
}

static bell_status
schedule(struct nv_channel *channel)
{
    struct nv_device *dev = channel->dev;
    struct nvc36f_gpfifo_get_work_submit_token token = {0};
    struct nva06c_gpfifo_schedule params = {.bEnable = 1};

    BELL_TRY(nv_rm_control(dev->rm, channel->channel,
                           NVC36F_CTRL_CMD_GPFIFO_GET_WORK_SUBMIT_TOKEN,
                           NV_S_NVC36F_GPFIFO_GET_WORK_SUBMIT_TOKEN, &token));
    channel->token = token.workSubmitToken;
    BELL_TRY(
        dev->control->vm->add_channel(dev, channel->channel, &channel->window));
    channel->registered = true;
    BELL_TRY(nv_rm_control(dev->rm, channel->group,
                           NVA06C_CTRL_CMD_GPFIFO_SCHEDULE,
                           NV_S_NVA06C_GPFIFO_SCHEDULE, &params));
    return BELL_OK;
}

void
nv_channel_reset(struct nv_channel *channel)
{
    struct nv_device *dev = channel->dev;
    struct nv906f_reset_channel params = {.engineID = channel->engine};
    struct bell_error_hold hold;

    bell_error_hold(&hold);
    if (channel->channel &&
        nv_rm_control(dev->rm, channel->channel, NV906F_CTRL_CMD_RESET_CHANNEL,
                      NV_S_NV906F_RESET_CHANNEL, &params) != BELL_OK)
        LOG(LOG_IOCTL, "%s: a channel's end may take seconds: %s",
            dev->base.info.name, bell_error_last()->message);
    bell_error_release(&hold);
}

void
nv_channel_stop(struct nv_channel *channel)
{
    struct nv_device *dev = channel->dev;
    struct nv_rm *rm = dev->rm;

    if (channel->registered)
        dev->control->vm->remove_channel(dev, channel->channel,
                                         &channel->window);
    nv_rm_free(rm, rm->device, channel->debugger);
    nv_rm_free(rm, channel->channel, channel->copy_object);
    nv_rm_free(rm, channel->channel, channel->object);
    nv_rm_free(rm, channel->group, channel->channel);
    nv_rm_free(rm, rm->device, channel->group);
    channel->registered = false;
    channel->debugger = channel->copy_object = channel->object = 0;
    channel->channel = channel->group = 0;
}

static bell_status
make_objects(struct nv_channel *channel)
{
    assert(!channel->group && !channel->channel && !channel->registered);
    BELL_TRY(make_group(channel));
    BELL_TRY(make_channel(channel));
    if (channel->is_copy)
        BELL_TRY(make_copy_object(channel));
    else
        BELL_TRY(make_compute_objects(channel));
    BELL_TRY(schedule(channel));
    return BELL_OK;
}

/* ---- memory -------------------------------------------------------------- */

/* Ring and control words, both in memory of the card: host memory for one of
 * them and the card's for the other is out of order on GH100 (section 6). */
static bell_status
alloc_channel_memory(struct nv_channel *channel)
{
    uint64_t ring_bytes = 8ull * channel->n_entries;
    uint8_t *userd;

    BELL_TRY(nv_mem_alloc(channel->dev,
                          ring_bytes + sizeof(struct nv_mem_userd), 4096,
                          NV_MEM_VISIBLE, &channel->control));
    /* The driver takes an object's start for the notifier. */
    BELL_TRY(nv_mem_alloc_own(channel->dev, NOTICE_BYTES, NV_MEM_SYSTEM,
                              &channel->notice));
    channel->ring = channel->control.cpu;
    userd = (uint8_t *)channel->control.cpu + ring_bytes;
    channel->gp_put =
        (volatile uint32_t *)(void *)(userd + NV_MEM_USERD_GP_PUT);
    channel->gp_get =
        (const volatile uint32_t *)(void *)(userd + NV_MEM_USERD_GP_GET);
    channel->notifier = channel->notice.cpu;
    return BELL_OK;
}

static void
clear_memory(struct nv_channel *channel)
{
    memset(channel->control.cpu, 0, (size_t)channel->control.size_bytes);
    memset(channel->notice.cpu, 0, (size_t)channel->notice.size_bytes);
    hcq_flush_writes();
    channel->put = channel->rung = 0;
}

static bell_status
init_nv_channel(struct nv_channel *channel)
{
    channel->engine = ENGINE_GR0;
    if (channel->is_copy)
        BELL_TRY(choose_copy_engine(channel->dev, &channel->engine));
    BELL_TRY(alloc_channel_memory(channel));
    clear_memory(channel);
    BELL_TRY(make_objects(channel));
    return BELL_OK;
}

/* ---- life ---------------------------------------------------------------- */

bell_status
nv_channel_init(struct nv_device *dev, bool is_copy, uint32_t n_entries,
                struct nv_channel *out_channel)
{
    struct nv_channel channel = {
        .dev = dev,
        .is_copy = is_copy,
        .n_entries = n_entries ? n_entries : DEFAULT_ENTRIES,
    };
    bell_status status;

    /* USERD follows the ring, at a multiple of its 512 bytes. */
    if (!is_pow2(channel.n_entries) || channel.n_entries < 64)
        return bell_fail(BELL_E_INVALID,
                         "%s: a ring of %u entries; a power of two of at least "
                         "64 is needed",
                         dev->base.info.name, n_entries);
    status = init_nv_channel(&channel);
    if (status != BELL_OK) {
        nv_channel_fini(&channel);
        return status;
    }
    *out_channel = channel;
    return BELL_OK;
}

bell_status
nv_channel_rebuild(struct nv_channel *channel)
{
    bell_status status;

    nv_channel_stop(channel);
    clear_memory(channel);
    status = make_objects(channel);
    if (status != BELL_OK) {
        nv_channel_stop(channel);
        return status;
    }
    return BELL_OK;
}

void
nv_channel_fini(struct nv_channel *channel)
{
    if (!channel->dev)
        return;
    nv_channel_stop(channel);
    nv_mem_free(channel->dev, &channel->control);
    nv_mem_free(channel->dev, &channel->notice);
    memset(channel, 0, sizeof(*channel));
}

/* ---- submission ---------------------------------------------------------- */

void
nv_channel_entry(struct nv_channel *channel, uint64_t va, uint32_t n_dw)
{
    assert(channel->put < channel->n_entries && va % 4 == 0);
    assert(n_dw > 0 && n_dw <= NV_HOST_GP_MAX_DW);
    channel->ring[channel->put] =
        nv_pack_host_gp_entry(NV_HOST_GEN_C56F, (struct nv_host_gp_entry){
                                                    .get = va,
                                                    .length = n_dw,
                                                });
    channel->put = (channel->put + 1) & (channel->n_entries - 1);
}

void
nv_channel_ring(struct nv_channel *channel)
{
    struct nv_device *dev = channel->dev;
    struct nv_release release = {0};

    assert(channel->put != channel->rung);
    /* What the entries point to, and the entries, before the pointer... */
    hcq_flush_writes();
    if (__builtin_expect(dev->watched, 0))
        release = nv_watch_ring(channel);
    *channel->gp_put = channel->put;
    /* ...and the pointer before the doorbell. Stores through BAR1 have arrived
     * when a read through it comes back. */
    hcq_flush_writes();
    if (dev->reads_put)
        (void)__atomic_load_n(channel->gp_put, __ATOMIC_ACQUIRE);
    __atomic_store_n(dev->doorbell, channel->token, __ATOMIC_RELAXED);
    channel->rung = channel->put;
    if (__builtin_expect(dev->watched, 0))
        nv_watch_settle(channel, &release);
}
