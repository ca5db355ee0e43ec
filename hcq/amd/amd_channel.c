/* Queues of the kernel driver: memory by its rules, pointers, doorbells.
 * src: docs/hardware/amd-kernel.md, "Queues", "Doorbells", "AQL queues". */
#include <assert.h>
#include <stddef.h>
#include <stdio.h>
#include <errno.h>
#include <string.h>
#include <sys/mman.h>

#include "base/bits.h"
#include "base/chip.h"
#include "base/log.h"
#include "hcq/amd/amd_kfd.h"
#include "hcq/amd/regs/amd_object.h"
#include "ioctl/kfd_uapi.h"

#define PAGE_BYTES      4096u
#define DOORBELL_BYTES  0x2000u
#define PRIORITY_NORMAL 7u
#define AQL_BYTES       64u

/* In the page of pointers: where amd_queue has them. */
#define WPTR_OFFSET offsetof(struct amd_object_aql_queue, write_id)
#define RPTR_OFFSET offsetof(struct amd_object_aql_queue, read_id)

/* In the same page, behind what amd_queue has there: why the card refused a
 * packet. */
#define EXCEPTION_OFFSET 2048u

/* amd_queue.queue_properties: 64-bit pointers, profiling */
#define QUEUE_PROPERTIES 10u
/* A bit of the second word of a scratch descriptor.
 * src: docs/hardware/amd-queues.md, "Scratch" */
#define RESOURCE_SWIZZLE 0x80000000u
/* Waves of a CU, for max_wave_id. */
#define WAVES_PER_CU 32u

/* ---- sizes --------------------------------------------------------------- */

void
amd_save_sizes(const struct amd_gen *gen, uint32_t vgpr_bytes,
               const struct amd_topology *t, uint64_t page_bytes,
               struct amd_save_sizes *out)
{
    uint64_t waves = (uint64_t)t->n_cu * gen->waves_per_cu, stack, data;
    uint64_t by_array =
        (uint64_t)t->n_engines * t->n_xcc * gen->waves_per_array;

    assert(is_pow2(page_bytes));
    if (by_array && waves > by_array)
        waves = by_array;
    data = align_up((uint64_t)t->n_cu *
                        (vgpr_bytes + 0x4000 + gen->max_lds_bytes + 0x1000),
                    page_bytes);
    stack = align_up(40 + waves * gen->save_bytes_per_wave + 8, page_bytes);
    if (gen->max_stack_bytes && stack > gen->max_stack_bytes)
        stack = gen->max_stack_bytes;
    out->control_stack_bytes = (uint32_t)stack;
    out->save_bytes = (uint32_t)(stack + data);
    out->debug_bytes = (uint32_t)align_up(waves * 32, 64);
    out->total_bytes =
        align_up((stack + data + out->debug_bytes) * t->n_xcc, page_bytes);
}

static void
save_sizes_of(struct amd_device *dev, struct amd_save_sizes *out)
{
    const struct chip_arch *chip = dev->chip;
    uint32_t vgpr_bytes =
        atomic_load(&dev->process->cards[dev->card].has_old_saves)
            ? chip->amd.old_save_bytes
            : (chip->n_regs + chip->amd.n_acc_regs) * 4;

    amd_save_sizes(dev->gen, vgpr_bytes, &dev->topology,
                   dev->process->page_bytes, out);
}

/* ---- first contents ------------------------------------------------------ */

static void
clear_ring(struct amd_channel *channel)
{
    uint32_t i;

    memset(channel->ring, 0, channel->ring_bytes);
    for (i = 0; channel->kind == AMD_RING_AQL && i < channel->ring_bytes / 4;
         i += AQL_BYTES / 4)
        channel->ring[i] = AMD_OBJECT_AQL_TYPE_INVALID;
    channel->put = 0;
    memset(channel->pointers.cpu, 0, PAGE_BYTES);
}

static void
fill_queue_structure(struct amd_channel *channel)
{
    struct amd_object_aql_queue *queue = channel->pointers.cpu;
    const struct amd_topology *t = &channel->dev->topology;

    if (channel->kind != AMD_RING_AQL)
        return;
    queue->max_cu_id = t->n_cu * t->n_xcc - 1;
    queue->max_wave_id = WAVES_PER_CU - 1;
    queue->read_id_offset = RPTR_OFFSET;
    queue->properties = QUEUE_PROPERTIES;
    amd_channel_set_scratch(channel);
}

/* Where the kernel's driver writes why the card stopped the queue, and which
 * event it sets then: in each die's part of the save area. The words for
 * debuggers are ROCr's. src: Linux 6.12, send_exception_work_handler; ROCr
 * 6.4.3, libhsakmt/src/queues.c, fill_cwsr_header */
static void
fill_save_headers(struct amd_channel *channel)
{
    struct amd_device *dev = channel->dev;
    uint32_t n = dev->topology.n_xcc, i;
    struct amd_save_sizes sizes;

    if (channel->kind == AMD_RING_SDMA)
        return;
    save_sizes_of(dev, &sizes);
    assert((uint64_t)n * sizes.save_bytes <= channel->save.size_bytes);
    for (i = 0; i < n; i++) {
        struct kfd_save_header *header =
            (void *)((uint8_t *)channel->save.cpu +
                     (uint64_t)i * sizes.save_bytes);

        *header = (struct kfd_save_header){
            .debug_offset = (n - i) * sizes.save_bytes,
            .debug_bytes = sizes.debug_bytes * n,
            .exception_va = channel->pointers.va + EXCEPTION_OFFSET,
            .event_id = dev->process->signal_event,
        };
    }
}

void
amd_channel_set_scratch(struct amd_channel *channel)
{
    struct amd_object_aql_queue *queue = channel->pointers.cpu;
    const struct amd_scratch *scratch = channel->scratch;

    if (channel->kind != AMD_RING_AQL)
        return;
    queue->scratch_base = scratch->mem.va;
    queue->scratch_resource[0] = (uint32_t)scratch->mem.va;
    queue->scratch_resource[1] =
        ((uint32_t)(scratch->mem.va >> 32) & 0xffff) | RESOURCE_SWIZZLE;
    queue->scratch_resource[2] = (uint32_t)scratch->xcc_bytes;
    /* gfx9. src: docs/hardware/amd-queues.md, "Scratch" */
    queue->scratch_resource[3] = 0x00ea4fac;
    /* The size last: a launch that the card takes now finds the memory that it
     * was made for, or larger. */
    hcq_order_all();
    queue->tmpring_size = scratch->tmpring;
    queue->scratch_lane_bytes = scratch->lane_bytes;
}

/* ---- the kernel's queue -------------------------------------------------- */

static bell_status
map_doorbells(struct amd_device *dev, uint64_t offset)
{
    struct amd_card *card = &dev->process->cards[dev->card];
    bell_status status = BELL_OK;
    void *at;

    pthread_mutex_lock(&dev->process->lock);
    if (!card->doorbells) {
        status = kio_mmap(dev->process->kio, &dev->process->kfd, NULL,
                          DOORBELL_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED,
                          offset & ~(uint64_t)(DOORBELL_BYTES - 1), &at);
        if (status == BELL_OK)
            card->doorbells = at;
    }
    pthread_mutex_unlock(&dev->process->lock);
    return status;
}

bell_status
amd_channel_stop(struct amd_channel *channel)
{
    struct amd_device *dev = channel->dev;

    if (!channel->has_queue)
        return BELL_OK;
    BELL_TRY(amd_queue_end(dev->process, dev->card, channel->queue_id));
    channel->has_queue = false;
    return BELL_OK;
}

/* After a memory fault the kernel would make it and never run it. */
static bell_status
count_queue_in(struct amd_device *dev)
{
    BELL_TRY(amd_card_check(dev->process, dev->card));
    pthread_mutex_lock(&dev->process->lock);
    dev->process->cards[dev->card].n_queues++;
    pthread_mutex_unlock(&dev->process->lock);
    return BELL_OK;
}

static bell_status
call_create(struct amd_process *process, struct kfd_create_queue *args)
{
    return amd_call(
        process, process->minor >= 17 ? KFD_CREATE_QUEUE : KFD_CREATE_QUEUE_OLD,
        args);
}

/* Bit number `n` of those that are set, counted from the lowest and round. */
static uint32_t
pick_bit(uint32_t bits, uint32_t n)
{
    uint32_t i = 0;

    assert(bits);
    for (n %= (uint32_t)__builtin_popcount(bits); n; n--)
        bits &= bits - 1;
    while (!(bits >> i & 1))
        i++;
    return i;
}

/* On one of the channel's engines, in turns; on any where all their queues are
 * taken. src: docs/hardware/amd-kernel.md, "Queues" */
static bell_status
create_on_engine(const struct amd_channel *channel,
                 struct kfd_create_queue *args)
{
    struct amd_device *dev = channel->dev;
    struct amd_process *process = dev->process;
    uint32_t turn = atomic_fetch_add(&process->cards[dev->card].n_chosen, 1);
    uint32_t n_ordinary = dev->topology.n_sdma, i;
    uint32_t n_engines = (uint32_t)__builtin_popcount(channel->engines);
    struct bell_error_hold hold;
    bell_status status = BELL_E_KERNEL;

    assert(channel->engines && channel->kind == AMD_RING_SDMA);
    bell_error_hold(&hold);
    if (process->minor >= 17) {
        args->type = KFD_QUEUE_SDMA_ENGINE;
        for (i = 0; i < n_engines && status != BELL_OK; i++) {
            args->sdma_engine = pick_bit(channel->engines, turn + i);
            status = call_create(process, args);
        }
    } else if (n_ordinary < 32 && dev->topology.n_sdma_xgmi &&
               channel->engines >> n_ordinary << n_ordinary ==
                   channel->engines) {
        args->type = KFD_QUEUE_SDMA_XGMI;
        status = call_create(process, args);
    }
    if (status != BELL_OK) {
        LOG(LOG_IOCTL, "no queue on copy engines 0x%x: another has it",
            channel->engines);
        args->type = KFD_QUEUE_SDMA;
        args->sdma_engine = 0;
        bell_error_release(&hold);
        return call_create(process, args);
    }
    bell_error_release(&hold);
    return BELL_OK;
}

static bell_status
create_queue(struct amd_channel *channel)
{
    static const uint32_t types[] = {
        [AMD_RING_PM4] = KFD_QUEUE_PM4,
        [AMD_RING_AQL] = KFD_QUEUE_AQL,
        [AMD_RING_SDMA] = KFD_QUEUE_SDMA,
    };
    struct amd_device *dev = channel->dev;
    struct amd_card *card = &dev->process->cards[dev->card];
    struct amd_save_sizes sizes;
    struct kfd_create_queue args = {
        .ring_va = channel->ring_mem.va,
        .wptr_va = channel->pointers.va + WPTR_OFFSET,
        .rptr_va = channel->pointers.va + RPTR_OFFSET,
        .ring_bytes = channel->ring_bytes,
        .gpu_id = dev->topology.gpu_id,
        .type = types[channel->kind],
        .percentage = 100,
        .priority = PRIORITY_NORMAL,
    };

    assert(!channel->has_queue);
    if (channel->kind != AMD_RING_SDMA) {
        save_sizes_of(dev, &sizes);
        args.eop_va = channel->eop.va;
        args.eop_bytes = PAGE_BYTES;
        args.save_va = channel->save.va;
        args.save_bytes = sizes.save_bytes;
        args.control_stack_bytes = sizes.control_stack_bytes;
    }
    atomic_store(&card->engines_are_full, false);
    BELL_TRY(count_queue_in(dev));
    if ((channel->engines ? create_on_engine(channel, &args)
                          : call_create(dev->process, &args)) != BELL_OK) {
        struct bell_error error = *bell_error_last();

        atomic_store(&card->engines_are_full, channel->kind == AMD_RING_SDMA &&
                                                  error.sys_errno == ENOMEM);
        amd_queue_count_out(dev->process, dev->card);
        return bell_error_set(&error);
    }
    channel->queue_id = args.queue_id;
    channel->has_queue = true;
    BELL_TRY(map_doorbells(dev, args.doorbell_offset));
    channel->doorbell =
        dev->process->cards[dev->card].doorbells +
        (args.doorbell_offset & (DOORBELL_BYTES - 1)) / sizeof(uint64_t);
    return BELL_OK;
}

/* ---- life ---------------------------------------------------------------- */

static bell_status
alloc_queue_memory(struct amd_channel *channel)
{
    struct amd_device *dev = channel->dev;
    struct amd_save_sizes sizes;

    assert(is_pow2(channel->ring_bytes));
    BELL_TRY(amd_mem_alloc(dev, channel->ring_bytes, AMD_MEM_GTT,
                           &channel->ring_mem));
    BELL_TRY(amd_mem_alloc(dev, PAGE_BYTES, AMD_MEM_GTT, &channel->pointers));
    channel->ring = channel->ring_mem.cpu;
    channel->wptr =
        (uint64_t *)(void *)((uint8_t *)channel->pointers.cpu + WPTR_OFFSET);
    channel->rptr =
        (uint64_t *)(void *)((uint8_t *)channel->pointers.cpu + RPTR_OFFSET);
    channel->exception = (uint64_t *)(void *)((uint8_t *)channel->pointers.cpu +
                                              EXCEPTION_OFFSET);
    if (channel->kind == AMD_RING_SDMA)
        return BELL_OK;
    save_sizes_of(dev, &sizes);
    BELL_TRY(amd_mem_alloc(dev, PAGE_BYTES, AMD_MEM_VRAM, &channel->eop));
    /* Headers are written into it: without resizable BAR the host reaches its
     * own memory alone. */
    return amd_mem_alloc(dev, sizes.total_bytes,
                         dev->topology.large_bar ? AMD_MEM_VISIBLE
                                                 : AMD_MEM_GTT,
                         &channel->save);
}

static bell_status
init_channel(struct amd_device *dev, enum amd_ring_kind kind,
             uint32_t ring_bytes, uint32_t engines,
             struct amd_channel *out_channel)
{
    struct amd_channel channel = {
        .dev = dev,
        .kind = kind,
        .scratch = &dev->scratch,
        .engines = engines,
        .ring_bytes = ring_bytes,
    };
    bell_status status;

    assert(ring_bytes >= PAGE_BYTES);
    assert(!engines || kind == AMD_RING_SDMA);
    status = alloc_queue_memory(&channel);
    if (status == BELL_OK) {
        clear_ring(&channel);
        fill_queue_structure(&channel);
        fill_save_headers(&channel);
        status = create_queue(&channel);
    }
    if (status != BELL_OK) {
        amd_channel_fini(&channel);
        bell_error_prefix("%s: a queue", dev->base.info.name);
        return status;
    }
    *out_channel = channel;
    return BELL_OK;
}

/* A kernel that saves less than the chip has refuses an area that is larger
 * than it thinks. src: Linux 6.12 to 6.17, kfd_queue_acquire_buffers */
bell_status
amd_channel_init_on(struct amd_device *dev, enum amd_ring_kind kind,
                    uint32_t ring_bytes, uint32_t engines,
                    struct amd_channel *out_channel)
{
    atomic_bool *is_old = &dev->process->cards[dev->card].has_old_saves;
    bell_status status =
        init_channel(dev, kind, ring_bytes, engines, out_channel);

    if (status == BELL_OK || !dev->chip->amd.old_save_bytes ||
        kind == AMD_RING_SDMA || bell_error_last()->sys_errno != EINVAL ||
        atomic_load(is_old))
        return status;
    atomic_store(is_old, true);
    status = init_channel(dev, kind, ring_bytes, engines, out_channel);
    if (status != BELL_OK)
        atomic_store(is_old, false);
    else
        LOG(LOG_IOCTL,
            "the kernel saves 0x%x bytes of a compute unit's registers, which "
            "has more: it is older than December 2025",
            dev->chip->amd.old_save_bytes);
    return status;
}

bell_status
amd_channel_init(struct amd_device *dev, enum amd_ring_kind kind,
                 uint32_t ring_bytes, struct amd_channel *out_channel)
{
    return amd_channel_init_on(dev, kind, ring_bytes, 0, out_channel);
}

bell_status
amd_channel_rebuild(struct amd_channel *channel)
{
    BELL_TRY(amd_channel_stop(channel));
    assert(!channel->has_queue);
    clear_ring(channel);
    fill_queue_structure(channel);
    fill_save_headers(channel);
    return create_queue(channel);
}

void
amd_channel_fini(struct amd_channel *channel)
{
    struct amd_device *dev = channel->dev;
    struct bell_error_hold hold;

    if (!dev)
        return;
    bell_error_hold(&hold);
    if (amd_channel_stop(channel) != BELL_OK) {
        LOG(LOG_IOCTL, "goes on with queue %u: %s", channel->queue_id,
            bell_error_last()->message);
        amd_queue_leave(dev->process, dev->card, channel->queue_id);
    }
    bell_error_release(&hold);
    amd_mem_free(dev, &channel->save);
    amd_mem_free(dev, &channel->eop);
    amd_mem_free(dev, &channel->pointers);
    amd_mem_free(dev, &channel->ring_mem);
    memset(channel, 0, sizeof(*channel));
}

/* ---- pointers ------------------------------------------------------------ */

uint64_t
amd_channel_room(const struct amd_channel *channel)
{
    uint64_t size = channel->ring_bytes, used;
    uint64_t read = __atomic_load_n(channel->rptr, __ATOMIC_ACQUIRE);

    if (channel->kind == AMD_RING_PM4) { /* it wraps with the ring */
        size /= 4;
        used = (channel->put - (uint32_t)read) & (size - 1);
        return size - 1 - used;
    }
    if (channel->kind == AMD_RING_AQL)
        size /= AQL_BYTES;
    return size - (channel->put - read);
}

void
amd_channel_ring(struct amd_channel *channel)
{
    bool is_watched = kio_watches(channel->dev->process->kio);
    uint64_t value = channel->put, from = *channel->wptr;

    assert(channel->doorbell);
    /* Slots and the words behind them before the pointer: some of these stores
     * may be write-combined, through the card's window. */
    hcq_flush_writes();
    if (channel->kind == AMD_RING_AQL)
        value--;
    if (is_watched)
        amd_watch_ring(channel, from, value);
    __atomic_store_n(channel->wptr, channel->put, __ATOMIC_RELEASE);
    /* The pointer before the doorbell: memory before an uncached store, which
     * needs what Linux's writeq needs.
     * src: docs/hardware/amd-kernel.md, "Doorbells" */
    hcq_order_writes();
    __atomic_store_n(channel->doorbell, value, __ATOMIC_RELEASE);
    if (is_watched)
        amd_watch_settle(channel);
}
