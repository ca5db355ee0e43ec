/* Scratch: the memory under the lanes' stacks.
 *
 * A lane's place in it comes from the number of its wave's slot. No source
 * tells whether waves of two queues ever have the same number at a time, so
 * each compute queue has memory of its own, as vendors have it; the sizes are
 * the device's.
 *
 * It grows with the programs that are loaded and never shrinks. Memory that was
 * used before stays until the device closes, because launches that are under
 * way or bound hold its address; sizes are powers of two, so all that is kept
 * is smaller than what is in use. src: docs/hardware/amd-kernel.md, "AQL
 * queues"; docs/hardware/amd-queues.md, "Scratch".
 */
#include <assert.h>

#include "base/alloc.h"
#include "base/bits.h"
#include "base/log.h"
#include "hcq/amd/amd_kfd.h"

/* Memory that a queue will use; once it does, what it used before, which
 * launches may still hold. Owned by the device. */
struct amd_old_scratch {
    struct amd_old_scratch *next;
    struct amd_queue *queue; /* while it is made */
    struct amd_mem mem;
};

/* WAVESIZE for so many bytes of a lane. */
static uint64_t
wave_units(const struct amd_gen *gen, uint64_t lane_bytes)
{
    return (lane_bytes * 64 + gen->scratch_unit_bytes - 1) /
           gen->scratch_unit_bytes;
}

static bool
is_addressable(const struct amd_gen *gen, uint64_t lane_bytes)
{
    return wave_units(gen, lane_bytes) >> gen->scratch_size_bits == 0;
}

void
amd_scratch_sizes(const struct amd_gen *gen, const struct amd_topology *t,
                  uint32_t lane_bytes, struct amd_scratch_sizes *out)
{
    uint64_t slots = (uint64_t)t->n_cu * t->scratch_slots_per_cu, size, waves;

    out->lane_bytes =
        (uint32_t)align_up(lane_bytes, gen->scratch_unit_bytes / 64);
    out->xcc_bytes = (uint64_t)out->lane_bytes * 64 * slots;
    size = wave_units(gen, out->lane_bytes);
    assert(size >> gen->scratch_size_bits == 0);
    waves = size ? out->xcc_bytes / (size * gen->scratch_unit_bytes) : 0;
    if (gen->scratch_waves_per_engine && t->n_engines)
        waves /= t->n_engines;
    if (waves > 0xfff)
        waves = 0xfff;
    out->tmpring = (uint32_t)(waves | size << 12);
}

/* The power of two from lane_bytes on where the card can address it. */
static uint32_t
round_up(const struct amd_gen *gen, uint32_t lane_bytes)
{
    uint64_t rounded = gen->scratch_unit_bytes / 64;

    while (rounded < lane_bytes)
        rounded *= 2;
    return is_addressable(gen, rounded) ? (uint32_t)rounded : lane_bytes;
}

static bell_status
alloc_scratch(struct amd_device *dev, const struct amd_scratch_sizes *sizes,
              struct amd_mem *mem)
{
    return amd_mem_alloc(dev, sizes->xcc_bytes * dev->topology.n_xcc,
                         AMD_MEM_VRAM, mem);
}

static void
free_all(struct amd_device *dev, struct amd_old_scratch *list)
{
    while (list) {
        struct amd_old_scratch *old = list;

        list = old->next;
        amd_mem_free(dev, &old->mem);
        host_free(old);
    }
}

static bell_status
alloc_one(struct amd_device *dev, struct amd_queue *queue,
          const struct amd_scratch_sizes *sizes, struct amd_old_scratch **list)
{
    struct amd_old_scratch *fresh = host_calloc(1, sizeof(*fresh));
    bell_status status;

    assert(queue->base.kind == HCQ_QUEUE_COMPUTE);
    if (!fresh)
        return bell_fail(BELL_E_NO_MEMORY, "%s: out of memory for scratch",
                         dev->base.info.name);
    status = alloc_scratch(dev, sizes, &fresh->mem);
    if (status != BELL_OK) {
        host_free(fresh);
        return status;
    }
    fresh->queue = queue;
    fresh->next = *list;
    *list = fresh;
    return BELL_OK;
}

/* For every compute queue. scratch_lock keeps the list of queues as it is. */
static bell_status
alloc_all(struct amd_device *dev, uint32_t lane_bytes,
          struct amd_scratch_sizes *sizes, struct amd_old_scratch **out_list)
{
    struct amd_old_scratch *list = NULL;
    bell_status status = BELL_OK;
    struct hcq_queue *queue;

    amd_scratch_sizes(dev->gen, &dev->topology, lane_bytes, sizes);
    for (queue = hcq_next_queue(&dev->base, NULL); queue && status == BELL_OK;
         queue = hcq_next_queue(&dev->base, queue)) {
        if (queue->kind == HCQ_QUEUE_COMPUTE)
            status = alloc_one(dev, amd_queue_of(queue), sizes, &list);
    }
    if (status != BELL_OK) {
        free_all(dev, list);
        return status;
    }
    *out_list = list;
    return BELL_OK;
}

/* AQL queues read where scratch is at every launch, from several places, so
 * nothing may be launching as it changes: waits for their work while the device
 * moves. Others carry it in their commands. */
static bell_status
wait_for_readers(struct amd_device *dev, uint32_t lane_bytes,
                 const struct amd_old_scratch *list)
{
    bell_status status = BELL_OK;

    for (; list && status == BELL_OK; list = list->next) {
        if (list->queue->channel.kind == AMD_RING_AQL)
            status = hcq_queue_wait(&list->queue->base, HCQ_WAIT_WHILE_MOVING);
    }
    if (status == BELL_E_TIMEOUT)
        bell_error_prefix("%s: scratch of %u bytes for each lane needs idle "
                          "compute queues: load the program earlier",
                          dev->base.info.name, lane_bytes);
    return status;
}

/* The memory first, then what makes launches use more of it: whoever encodes
 * a launch at this moment reads in the other order. */
static void
set_sizes(struct amd_scratch *scratch, const struct amd_scratch_sizes *sizes)
{
    assert(sizes->lane_bytes >= scratch->lane_bytes);
    scratch->xcc_bytes = sizes->xcc_bytes;
    __atomic_thread_fence(__ATOMIC_SEQ_CST);
    __atomic_store_n(&scratch->tmpring, sizes->tmpring, __ATOMIC_RELEASE);
    scratch->lane_bytes = sizes->lane_bytes;
}

/* Then the list has the memory that was used before. */
static void
publish(struct amd_device *dev, const struct amd_scratch_sizes *sizes,
        struct amd_old_scratch *list)
{
    pthread_mutex_lock(&dev->base.lock);
    set_sizes(&dev->scratch, sizes);
    for (; list; list = list->next) {
        struct amd_queue *queue = list->queue;
        assert(list->queue);
        struct amd_mem mem = list->mem;

        list->mem = queue->scratch.mem;
        list->queue = NULL;
        queue->scratch.mem = mem;
        set_sizes(&queue->scratch, sizes);
        amd_channel_set_scratch(&queue->channel);
    }
    pthread_mutex_unlock(&dev->base.lock);
}

/* scratch_lock is held. */
static bell_status
grow_scratch(struct amd_device *dev, uint32_t lane_bytes)
{
    struct amd_control *control = dev->control;
    uint32_t rounded = round_up(dev->gen, lane_bytes);
    struct amd_old_scratch *list = NULL, **end = &list;
    struct amd_scratch_sizes sizes;
    bell_status status;

    assert(is_addressable(dev->gen, lane_bytes));
    assert(lane_bytes > dev->scratch.lane_bytes);
    status = alloc_all(dev, rounded, &sizes, &list);
    if (status == BELL_E_NO_MEMORY && rounded != lane_bytes)
        status = alloc_all(dev, lane_bytes, &sizes, &list);
    BELL_TRY(status);
    status = wait_for_readers(dev, lane_bytes, list);
    if (status != BELL_OK) {
        free_all(dev, list);
        return status;
    }
    publish(dev, &sizes, list);
    while (*end)
        end = &(*end)->next;
    *end = control->old_scratch;
    control->old_scratch = list;
    LOG(LOG_MEM, "%s: %u bytes of scratch for each lane, %llu for a queue",
        dev->base.info.name, sizes.lane_bytes,
        (unsigned long long)(sizes.xcc_bytes * dev->topology.n_xcc));
    return BELL_OK;
}

bell_status
amd_scratch_join(struct amd_queue *queue)
{
    struct amd_device *dev = amd_device_of(queue->base.dev);
    struct amd_scratch_sizes sizes;

    if (queue->channel.kind == AMD_RING_SDMA)
        return BELL_OK;
    queue->channel.scratch = &queue->scratch;
    if (dev->scratch.lane_bytes) {
        amd_scratch_sizes(dev->gen, &dev->topology, dev->scratch.lane_bytes,
                          &sizes);
        BELL_TRY(alloc_scratch(dev, &sizes, &queue->scratch.mem));
        set_sizes(&queue->scratch, &sizes);
    }
    amd_channel_set_scratch(&queue->channel);
    return BELL_OK;
}

bell_status
amd_scratch_grow(struct amd_device *dev, uint32_t lane_bytes)
{
    struct amd_control *control = dev->control;
    bell_status status = BELL_OK;

    if (!is_addressable(dev->gen, lane_bytes))
        return bell_fail(BELL_E_UNSUPPORTED,
                         "%s: %u bytes of scratch for each lane are more than "
                         "the card can address",
                         dev->base.info.name, lane_bytes);
    pthread_mutex_lock(&control->scratch_lock);
    if (lane_bytes > dev->scratch.lane_bytes)
        status = grow_scratch(dev, lane_bytes);
    pthread_mutex_unlock(&control->scratch_lock);
    return status;
}

void
amd_scratch_close(struct amd_device *dev)
{
    struct amd_control *control = dev->control;

    free_all(dev, control->old_scratch);
    control->old_scratch = NULL;
}
