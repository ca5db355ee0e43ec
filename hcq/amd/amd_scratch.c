/* Scratch: the memory under the lanes' stacks, one for all queues of a device.
 *
 * It grows with the programs that are loaded and never shrinks. What was used
 * before stays until the device closes, because launches that are under way or
 * bound hold its address; sizes are powers of two, so all that is kept is
 * smaller than what is in use. src: hw/amd/BRINGUP.md 5, 7.
 */
#include "base/alloc.h"
#include "base/bits.h"
#include "base/log.h"
#include "hcq/amd/amd_kfd.h"

/* How long queues that read for themselves may take to become idle. */
#define IDLE_NS 1000000000ull

/* Memory that launches may still hold. Owned by the device. */
struct amd_old_scratch {
    struct amd_old_scratch *next;
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
    waves = size ? out->xcc_bytes / (size * gen->scratch_unit_bytes) : 0;
    if (gen->scratch_waves_per_engine && t->n_engines)
        waves /= t->n_engines;
    if (waves > slots * t->n_xcc)
        waves = slots * t->n_xcc;
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
alloc_scratch(struct amd_device *dev, uint32_t lane_bytes,
              struct amd_scratch_sizes *sizes, struct amd_mem *mem)
{
    amd_scratch_sizes(dev->gen, &dev->topology, lane_bytes, sizes);
    return amd_mem_alloc(dev, sizes->xcc_bytes * dev->topology.n_xcc,
                         AMD_MEM_VRAM, mem);
}

/* AQL queues read where scratch is at every launch, from several places, so
 * nothing may be launching as it changes. Others carry it in their commands.
 * The list is walked as hcq_device_synchronize does it. */
static bell_status
wait_for_readers(struct amd_device *dev, uint32_t lane_bytes)
{
    bell_status status = BELL_OK;
    struct hcq_link *link;

    pthread_mutex_lock(&dev->base.lock);
    link = dev->base.queues.next;
    while (link != &dev->base.queues && status == BELL_OK) {
        struct hcq_queue *queue = HCQ_CONTAINER(link, struct hcq_queue, link);

        if (amd_queue_of(queue)->channel.kind == AMD_RING_AQL) {
            pthread_mutex_unlock(&dev->base.lock);
            status = hcq_queue_wait(queue, IDLE_NS);
            pthread_mutex_lock(&dev->base.lock);
        }
        link = link->next;
    }
    pthread_mutex_unlock(&dev->base.lock);
    if (status == BELL_E_TIMEOUT)
        bell_error_prefix("%s: scratch of %u bytes for each lane needs idle "
                          "compute queues: load the program earlier",
                          dev->base.info.name, lane_bytes);
    return status;
}

/* The memory first, then what makes launches use more of it: whoever encodes
 * a launch at this moment reads in the other order. */
static void
publish(struct amd_device *dev, const struct amd_scratch_sizes *sizes,
        const struct amd_mem *mem)
{
    struct hcq_link *link;

    pthread_mutex_lock(&dev->base.lock);
    dev->scratch.mem = *mem;
    dev->scratch.xcc_bytes = sizes->xcc_bytes;
    __atomic_thread_fence(__ATOMIC_SEQ_CST);
    __atomic_store_n(&dev->scratch.tmpring, sizes->tmpring, __ATOMIC_RELEASE);
    dev->scratch.lane_bytes = sizes->lane_bytes;
    __atomic_store_n(&dev->scratch.epoch, dev->scratch.epoch + 1,
                     __ATOMIC_RELEASE);
    for (link = dev->base.queues.next; link != &dev->base.queues;
         link = link->next) {
        struct hcq_queue *queue = HCQ_CONTAINER(link, struct hcq_queue, link);

        amd_channel_set_scratch(&amd_queue_of(queue)->channel);
    }
    pthread_mutex_unlock(&dev->base.lock);
}

/* scratch_lock is held. */
static bell_status
grow(struct amd_device *dev, uint32_t lane_bytes)
{
    struct amd_control *control = amd_control_of(dev);
    struct amd_old_scratch *old = host_calloc(1, sizeof(*old));
    uint32_t rounded = round_up(dev->gen, lane_bytes);
    struct amd_scratch_sizes sizes;
    struct amd_mem mem;
    bell_status status;

    if (!old)
        return bell_fail(BELL_E_NO_MEMORY, "%s: no memory for scratch",
                         dev->base.info.name);
    status = alloc_scratch(dev, rounded, &sizes, &mem);
    if (status == BELL_E_NO_MEMORY && rounded != lane_bytes)
        status = alloc_scratch(dev, lane_bytes, &sizes, &mem);
    if (status == BELL_OK) {
        status = wait_for_readers(dev, lane_bytes);
        if (status != BELL_OK)
            amd_mem_free(dev, &mem);
    }
    if (status != BELL_OK) {
        host_free(old);
        return status;
    }
    old->mem = dev->scratch.mem;
    old->next = control->old_scratch;
    control->old_scratch = old;
    publish(dev, &sizes, &mem);
    LOG(LOG_MEM, "%s: %u bytes of scratch for each lane, %llu in all",
        dev->base.info.name, sizes.lane_bytes,
        (unsigned long long)mem.size_bytes);
    return BELL_OK;
}

bell_status
amd_scratch_grow(struct amd_device *dev, uint32_t lane_bytes)
{
    struct amd_control *control = amd_control_of(dev);
    bell_status status = BELL_OK;

    if (!is_addressable(dev->gen, lane_bytes))
        return bell_fail(BELL_E_UNSUPPORTED,
                         "%s: %u bytes of scratch for each lane are more than "
                         "the card can address",
                         dev->base.info.name, lane_bytes);
    pthread_mutex_lock(&control->scratch_lock);
    if (lane_bytes > dev->scratch.lane_bytes)
        status = grow(dev, lane_bytes);
    pthread_mutex_unlock(&control->scratch_lock);
    return status;
}

void
amd_scratch_close(struct amd_device *dev)
{
    struct amd_control *control = amd_control_of(dev);

    while (control->old_scratch) {
        struct amd_old_scratch *old = control->old_scratch;

        control->old_scratch = old->next;
        amd_mem_free(dev, &old->mem);
        host_free(old);
    }
    amd_mem_free(dev, &dev->scratch.mem);
}
