/* Device memory: kernel objects (backings), their addresses, the pools that
 * give them out in pieces, and the memory under the stacks of kernels.
 *
 * Small requests share backings of some MiB; big ones have their own. The
 * table of backings, sorted by address, answers where the CPU sees an
 * address. src: docs/hardware/nvidia-kernel.md, "Memory objects",
 * "GPU mappings"; docs/hardware/nvidia-queues.md, "Local memory".
 */
#include <assert.h>
#include <string.h>

#include "base/alloc.h"
#include "base/bits.h"
#include "base/log.h"
#include "hcq/nv/nv_control.h"
#include "hcq/nv/nv_gen.h"
#include "ioctl/nv_uapi.h"
#include "mem/mem_pool.h"

/* GPU memory in 2 MiB pages. src: docs/hardware/nvidia-kernel.md,
 * "Memory objects" */
#define VIDEO_FLAGS  0x1c101u
#define VIDEO_ATTR   0x19800000u
#define VIDEO_ATTR2  0x00100005u
#define VIDEO_FORMAT 6u

/* is_worth_mapping */
#define LITTLE_BYTES 65536u
#define CALL_BYTES   (1u << 20) /* what one more counts as */

/* One pool. Owned by the device. */
struct nv_pool {
    struct nv_device *dev;
    enum nv_mem_kind kind;
    struct mem_pool *pool; /* owned */
};

static const struct {
    uint64_t chunk_bytes, align_bytes;
} pool_sizes[NV_MEM_KIND_COUNT] = {
    [NV_MEM_VIDEO] = {8u << 20, NV_HUGE_BYTES},
    [NV_MEM_VISIBLE] = {2u << 20, NV_HUGE_BYTES},
    [NV_MEM_SYSTEM] = {1u << 20, NV_VA_GRANULE_BYTES},
};

/* ---- the table of backings ----------------------------------------------- */

/* Index of the first backing that ends after va. */
static size_t
find_slot(const struct nv_control *control, uint64_t va)
{
    size_t low = 0, high = control->n_backings;

    while (low < high) {
        size_t mid = low + (high - low) / 2;
        const struct nv_backing *b = control->backings[mid];

        if (b->va + b->size_bytes <= va)
            low = mid + 1;
        else
            high = mid;
    }
    return low;
}

struct nv_backing *
nv_backing_find(const struct nv_control *control, uint64_t va,
                uint64_t size_bytes)
{
    size_t i = find_slot(control, va);
    struct nv_backing *b;

    if (i == control->n_backings)
        return NULL;
    b = control->backings[i];
    if (va < b->va || size_bytes > b->size_bytes - (va - b->va))
        return NULL;
    return b;
}

/* Room in the table for one more. */
static bell_status
reserve_slot(struct nv_control *control)
{
    void *backings = control->backings;

    if (host_grow(&backings, &control->cap_backings, control->n_backings + 1,
                  sizeof(*control->backings)) != 0)
        return bell_fail(BELL_E_NO_MEMORY,
                         "out of memory for a table of buffers");
    control->backings = backings;
    return BELL_OK;
}

static void
insert_backing(struct nv_control *control, struct nv_backing *backing)
{
    size_t i = find_slot(control, backing->va);

    assert(control->n_backings < control->cap_backings);
    assert(i == control->n_backings ||
           control->backings[i]->va >= backing->va + backing->size_bytes);
    memmove(control->backings + i + 1, control->backings + i,
            (control->n_backings - i) * sizeof(*control->backings));
    control->backings[i] = backing;
    control->n_backings++;
}

static void
remove_backing(struct nv_control *control, const struct nv_backing *backing)
{
    size_t i = find_slot(control, backing->va);

    assert(i < control->n_backings && control->backings[i] == backing);
    control->n_backings--;
    memmove(control->backings + i, control->backings + i + 1,
            (control->n_backings - i) * sizeof(*control->backings));
}

/* ---- backings ------------------------------------------------------------ */

static bell_status
alloc_video(struct nv_device *dev, struct nv_backing *backing)
{
    struct nv_memory_alloc params = {
        .owner = dev->rm->client,
        .flags = VIDEO_FLAGS,
        .attr = VIDEO_ATTR,
        .attr2 = VIDEO_ATTR2,
        .format = VIDEO_FORMAT,
        .size = backing->size_bytes,
        .alignment = NV_HUGE_BYTES,
    };

    BELL_TRY(nv_rm_alloc(dev->rm, dev->rm->device, NV01_MEMORY_LOCAL_USER,
                         NV_S_NV_MEMORY_ALLOC, &params, &backing->memory));
    return BELL_OK;
}

/* The kernel's object. `pages` is what a pinned one pins. */
static bell_status
alloc_rm_memory(struct nv_device *dev, struct nv_backing *backing, void *pages)
{
    switch (backing->kind) {
    case NV_MEM_SYSTEM:
        return nv_rm_alloc_system(dev->rm, backing->size_bytes,
                                  &backing->memory, &backing->map);
    case NV_BACKING_PINNED:
        backing->cpu = pages;
        return nv_rm_pin(dev->rm, pages, backing->size_bytes, &backing->memory);
    case NV_BACKING_SHARED:
        return nv_rm_dup(dev->rm, backing->parent, backing->source_client,
                         backing->source_memory, &backing->memory);
    case NV_BACKING_IMPORT:
        return nv_rm_import(dev->rm, backing->import_fd, backing->size_bytes,
                            &backing->memory);
    case NV_BACKING_TEAM:
        assert(backing->memory && backing->parent);
        return BELL_OK;
    default:
        return alloc_video(dev, backing);
    }
}

/* A new backing without an address; control->lock is held. */
static bell_status
create_backing(struct nv_device *dev, const struct nv_backing *model,
               void *pages, struct nv_backing **out_backing)
{
    struct nv_backing *backing = host_alloc(sizeof(*backing));
    bell_status status;

    assert(model->size_bytes > 0 && model->size_bytes % 4096 == 0);
    if (!backing) {
        if (model->kind == NV_BACKING_TEAM)
            nv_rm_free(dev->rm, model->parent, model->memory);
        return bell_fail(BELL_E_NO_MEMORY, "%s: out of memory for a buffer",
                         dev->base.info.name);
    }
    *backing = *model;
    backing->dev = dev;
    if (!backing->parent)
        backing->parent = dev->rm->device;
    backing->map.file.fd = -1;
    status = alloc_rm_memory(dev, backing, pages);
    if (status != BELL_OK) {
        host_free(backing);
        return status;
    }
    *out_backing = backing;
    return BELL_OK;
}

static void
destroy_backing(struct nv_backing *backing)
{
    struct nv_device *dev = backing->dev;

    nv_rm_unmap(dev->rm, &backing->map);
    nv_rm_free(dev->rm, backing->parent, backing->memory);
    host_free(backing);
}

/* Lets the CPU see a backing that has its address. */
static bell_status
map_for_cpu(struct nv_backing *backing)
{
    struct nv_device *dev = backing->dev;
    void *addr =
        dev->control->vm->same_address ? (void *)(uintptr_t)backing->va : NULL;

    assert(backing->va && !backing->map.cpu);
    if (backing->kind == NV_MEM_SYSTEM)
        BELL_TRY(nv_rm_map_system(dev->rm, addr, &backing->map));
    else
        BELL_TRY(nv_rm_map(dev->rm, dev->rm->device, backing->memory, 0,
                           backing->size_bytes, 0, addr, &backing->map));
    backing->cpu = backing->map.cpu;
    return BELL_OK;
}

/* Gives a backing its address; from then on it is in the table. */
static bell_status
place_backing(struct nv_backing *backing, uint64_t va)
{
    struct nv_device *dev = backing->dev;
    struct nv_control *control = dev->control;
    bell_status status = BELL_OK;

    BELL_TRY(reserve_slot(control));
    BELL_TRY(control->vm->map(dev, backing, va));
    backing->va = va;
    if (backing->kind == NV_MEM_SYSTEM || backing->kind == NV_MEM_VISIBLE)
        status = map_for_cpu(backing);
    if (status != BELL_OK) {
        control->vm->unmap(dev, backing);
        return status;
    }
    insert_backing(control, backing);
    return BELL_OK;
}

static void
displace_backing(struct nv_backing *backing)
{
    struct nv_control *control = backing->dev->control;

    remove_backing(control, backing);
    control->vm->unmap(backing->dev, backing);
}

/* Addresses tell where memory is: launch paths ask them (nv_move.c). */
static struct mem_va *
va_of(const struct nv_backing *backing)
{
    bool is_host = backing->kind == NV_MEM_SYSTEM ||
                   backing->kind == NV_BACKING_PINNED || backing->is_host;

    if (is_host)
        return backing->dev->host_va;
    return backing->is_far ? backing->dev->far : backing->dev->va;
}

/* Whether memory on a card goes beyond what all engines reach: what would fill
 * the addresses below soon. */
bool
nv_memory_is_far(const struct nv_device *dev, uint64_t size_bytes)
{
    return dev->far && size_bytes > pool_sizes[NV_MEM_VIDEO].chunk_bytes;
}

/* Gives a backing of no pool an address from ours. */
static bell_status
place_own(struct nv_backing *backing)
{
    struct mem_va *space = va_of(backing);
    uint64_t align_bytes = NV_VA_GRANULE_BYTES;
    bell_status status;

    assert(!backing->range.size_bytes);
    if (backing->kind < NV_MEM_KIND_COUNT)
        align_bytes = pool_sizes[backing->kind].align_bytes;
    else if (backing->kind != NV_BACKING_PINNED)
        align_bytes = NV_HUGE_BYTES; /* its pages may be as large */
    BELL_TRY(
        mem_va_alloc(space, backing->size_bytes, align_bytes, &backing->range));
    status = place_backing(backing, backing->range.addr);
    if (status != BELL_OK)
        mem_va_free(space, &backing->range);
    return status;
}

/* Whether pages of the process can have the same address on the card: not in
 * a window, and not what is pinned already (pages that two buffers share). */
static bool
may_keep_address(struct nv_device *dev, uint64_t va, uint64_t size_bytes)
{
    struct nv_control *control = dev->control;
    size_t i = find_slot(control, va);

    if (!control->vm->same_address || va < NV_VA_END ||
        (va < NV_SHARED_WINDOW + (4ull << 30) &&
         va + size_bytes > NV_LOCAL_WINDOW))
        return false;
    return i == control->n_backings ||
           control->backings[i]->va >= va + size_bytes;
}

/* Pinned pages that are so few may hold signals. */
#define PINNED_SIGNALS_BYTES 65536u

/* Whether the engine that looks at signals addresses pages which may hold
 * some. That is not so before Hopper where they keep an address of the
 * process. */
static bool
may_hold_signals(const struct nv_device *dev, uint64_t va, uint64_t size_bytes)
{
    return size_bytes > PINNED_SIGNALS_BYTES ||
           va + size_bytes <= 1ull << dev->chip.host->va_bits;
}

/* A backing of no pool, with an address of its own. */
bell_status
nv_backing_add(struct nv_device *dev, const struct nv_backing *model,
               void *pages, struct nv_backing **out_backing)
{
    uint64_t same_va = (uintptr_t)pages;
    struct nv_backing *backing;
    bell_status status;

    BELL_TRY(create_backing(dev, model, pages, &backing));
    if (pages && may_keep_address(dev, same_va, backing->size_bytes) &&
        may_hold_signals(dev, same_va, backing->size_bytes))
        status = place_backing(backing, same_va);
    else
        status = place_own(backing);
    if (status != BELL_OK) {
        destroy_backing(backing);
        return status;
    }
    *out_backing = backing;
    return BELL_OK;
}

void
nv_backing_drop(struct nv_backing *backing)
{
    displace_backing(backing);
    if (backing->range.size_bytes)
        mem_va_free(va_of(backing), &backing->range);
    destroy_backing(backing);
}

/* ---- pools --------------------------------------------------------------- */

static struct nv_backing *
backing_of(const struct mem_backing *backing)
{
    return (struct nv_backing *)(uintptr_t)backing->handle;
}

static bell_status
pool_create(void *user, uint64_t size_bytes, struct mem_backing *out_backing)
{
    const struct nv_pool *pool = user;
    const struct nv_backing model = {
        .kind = pool->kind,
        .size_bytes = size_bytes,
    };
    struct nv_backing *backing;

    BELL_TRY(create_backing(pool->dev, &model, NULL, &backing));
    *out_backing = (struct mem_backing){(uintptr_t)backing, size_bytes};
    return BELL_OK;
}

static void
pool_destroy(void *user, const struct mem_backing *backing)
{
    (void)user;
    destroy_backing(backing_of(backing));
}

static bell_status
pool_map_va(void *user, const struct mem_backing *backing, uint64_t va)
{
    (void)user;
    return place_backing(backing_of(backing), va);
}

static void
pool_unmap_va(void *user, const struct mem_backing *backing, uint64_t va)
{
    (void)user;
    (void)va;
    displace_backing(backing_of(backing));
}

static const struct mem_pool_ops pool_ops = {
    .create = pool_create,
    .destroy = pool_destroy,
    .map_va = pool_map_va,
    .unmap_va = pool_unmap_va,
};

static bell_status
open_pool(struct nv_device *dev, enum nv_mem_kind kind)
{
    struct nv_pool *pool = host_calloc(1, sizeof(*pool));
    struct mem_pool_desc desc = {
        .chunk_bytes = pool_sizes[kind].chunk_bytes,
        .align_bytes = pool_sizes[kind].align_bytes,
        .granule_bytes = 256,
        .va = kind == NV_MEM_SYSTEM ? dev->host_va : dev->va,
        .ops = &pool_ops,
        .user = pool,
    };
    bell_status status;

    if (!pool)
        return bell_fail(BELL_E_NO_MEMORY, "%s: out of memory for a pool",
                         dev->base.info.name);
    pool->dev = dev;
    pool->kind = kind;
    status = mem_pool_create(&desc, &pool->pool);
    if (status != BELL_OK) {
        host_free(pool);
        return status;
    }
    dev->pools[kind] = pool;
    return BELL_OK;
}

/* ---- pieces -------------------------------------------------------------- */

static void
fill_mem(struct nv_mem *mem, struct nv_backing *backing, uint64_t offset_bytes,
         uint64_t size_bytes)
{
    assert(offset_bytes + size_bytes <= backing->size_bytes);
    *mem = (struct nv_mem){
        .va = backing->va + offset_bytes,
        .size_bytes = size_bytes,
        .cpu = backing->cpu ? (uint8_t *)backing->cpu + offset_bytes : NULL,
        .kind = backing->kind,
        .handle = backing->memory,
        .backing = backing,
    };
    /* Memory of the card's own is mapped late, and not for good. */
    if (backing->kind == NV_MEM_VIDEO)
        mem->cpu = NULL;
}

static bell_status
alloc_piece(struct nv_device *dev, uint64_t size_bytes, uint64_t align_bytes,
            enum nv_mem_kind kind, struct nv_mem *out_mem)
{
    struct mem_piece piece;

    assert(kind < NV_MEM_KIND_COUNT && dev->pools[kind]);
    BELL_TRY(mem_pool_alloc(dev->pools[kind]->pool, size_bytes, align_bytes,
                            &piece));
    fill_mem(out_mem, backing_of(&piece.backing), piece.offset_bytes,
             size_bytes);
    out_mem->chunk = piece.chunk;
    out_mem->range = piece.range;
    return BELL_OK;
}

bell_status
nv_mem_alloc(struct nv_device *dev, uint64_t size_bytes, uint64_t align_bytes,
             enum nv_mem_kind kind, struct nv_mem *out_mem)
{
    struct nv_control *control = dev->control;
    bell_status status;

    assert(is_pow2(align_bytes));
    pthread_mutex_lock(&control->lock);
    status = alloc_piece(dev, size_bytes, align_bytes, kind, out_mem);
    pthread_mutex_unlock(&control->lock);
    if (status != BELL_OK) {
        bell_error_prefix("%s: %llu bytes", dev->base.info.name,
                          (unsigned long long)size_bytes);
        return status;
    }
    return BELL_OK;
}

static bell_status
alloc_own(struct nv_device *dev, uint64_t size_bytes, enum nv_mem_kind kind,
          bool is_far, struct nv_mem *out_mem)
{
    struct nv_control *control = dev->control;
    uint64_t page_bytes = kind == NV_MEM_SYSTEM ? 4096 : NV_HUGE_BYTES;
    const struct nv_backing model = {
        .kind = kind,
        .size_bytes = align_up(size_bytes, page_bytes),
        .is_far = is_far,
    };
    struct nv_backing *backing;
    bell_status status;

    pthread_mutex_lock(&control->lock);
    status = nv_backing_add(dev, &model, NULL, &backing);
    pthread_mutex_unlock(&control->lock);
    BELL_TRY(status);
    fill_mem(out_mem, backing, 0, size_bytes);
    out_mem->is_own = true;
    return BELL_OK;
}

bell_status
nv_mem_alloc_own(struct nv_device *dev, uint64_t size_bytes,
                 enum nv_mem_kind kind, struct nv_mem *out_mem)
{
    return alloc_own(dev, size_bytes, kind, false, out_mem);
}

bell_status
nv_mem_alloc_buffer(struct nv_device *dev, uint64_t size_bytes,
                    uint64_t align_bytes, struct nv_mem *out_mem)
{
    bell_status status;

    assert(align_bytes <= NV_HUGE_BYTES);
    if (!nv_memory_is_far(dev, size_bytes))
        return nv_mem_alloc(dev, size_bytes, align_bytes, NV_MEM_VIDEO,
                            out_mem);
    status = alloc_own(dev, size_bytes, NV_MEM_VIDEO, true, out_mem);
    if (status != BELL_OK) {
        bell_error_prefix("%s: %llu bytes", dev->base.info.name,
                          (unsigned long long)size_bytes);
        return status;
    }
    return BELL_OK;
}

bell_status
nv_mem_alloc_shareable(struct nv_device *dev, uint64_t size_bytes,
                       struct nv_mem *out_mem)
{
    return alloc_own(dev, size_bytes, NV_MEM_VIDEO,
                     nv_memory_is_far(dev, size_bytes), out_mem);
}

void
nv_mem_free(struct nv_device *dev, struct nv_mem *mem)
{
    struct nv_control *control = dev->control;
    struct mem_piece piece;

    if (!mem->size_bytes)
        return;
    pthread_mutex_lock(&control->lock);
    if (mem->is_own) {
        nv_backing_drop(mem->backing);
    } else {
        piece = (struct mem_piece){.chunk = mem->chunk, .range = mem->range};
        mem_pool_free(dev->pools[mem->kind]->pool, &piece);
    }
    pthread_mutex_unlock(&control->lock);
    *mem = (struct nv_mem){0};
}

uint64_t
nv_mem_offset(const struct nv_mem *mem)
{
    assert(!mem->is_own);
    return mem->range.addr;
}

/* ---- user pages, addresses ----------------------------------------------- */

bell_status
nv_backing_pin(struct nv_device *dev, void *pages, uint64_t size_bytes,
               struct nv_backing **out_backing)
{
    struct nv_control *control = dev->control;
    const struct nv_backing model = {
        .kind = NV_BACKING_PINNED,
        .size_bytes = size_bytes,
    };
    bell_status status;

    pthread_mutex_lock(&control->lock);
    status = nv_backing_add(dev, &model, pages, out_backing);
    pthread_mutex_unlock(&control->lock);
    return status;
}

void
nv_backing_unpin(struct nv_backing *backing)
{
    struct nv_control *control = backing->dev->control;

    assert(backing->kind == NV_BACKING_PINNED);
    pthread_mutex_lock(&control->lock);
    nv_backing_drop(backing);
    pthread_mutex_unlock(&control->lock);
}

/* Mapping takes the kernel some 110 us a MiB; writing one through staging
 * memory takes some 25 us more, and a little write 5 us instead of 1. When so
 * much was lost by large ones, it is mapped; by little ones earlier, since who
 * writes hundreds will go on. What pools give out in pieces is mapped for the
 * first little one. observed: H100, 2026-11-22 */
static bool
is_worth_mapping(struct nv_backing *b, uint64_t size_bytes)
{
    assert(b->kind == NV_MEM_VIDEO && !b->cpu);
    if (b->size_bytes <= pool_sizes[NV_MEM_VIDEO].chunk_bytes &&
        size_bytes <= LITTLE_BYTES)
        return true;
    b->missed_bytes += size_bytes <= LITTLE_BYTES ? CALL_BYTES : size_bytes / 4;
    return b->missed_bytes >= b->size_bytes;
}

/* Whether the CPU reaches a backing; control->lock is held. */
static bool
reach_backing(struct nv_backing *b, uint64_t size_bytes,
              enum nv_cpu_reach reach)
{
    bool on_card = b->kind == NV_MEM_VIDEO || b->kind == NV_MEM_VISIBLE;
    struct nv_device *dev = b->dev;
    struct bell_error_hold hold;

    if (on_card && reach == NV_CPU_HOST)
        return false;
    if (b->cpu || b->kind != NV_MEM_VIDEO || reach < NV_CPU_WORTH ||
        !dev->control->maps_video ||
        (reach == NV_CPU_WORTH && !is_worth_mapping(b, size_bytes)))
        return b->cpu != NULL;
    bell_error_hold(&hold); /* there is another way: the copy engine */
    if (map_for_cpu(b) != BELL_OK)
        LOG(LOG_MEM, "%s: 0x%llx is not mapped for the CPU: %s",
            dev->base.info.name, (unsigned long long)b->va,
            bell_error_last()->message);
    bell_error_release(&hold);
    return b->cpu != NULL;
}

void *
nv_memory_cpu(struct nv_device *dev, uint64_t va, uint64_t size_bytes,
              enum nv_cpu_reach reach)
{
    struct nv_control *control = dev->control;
    struct nv_backing *b;
    void *cpu = NULL;

    pthread_mutex_lock(&control->lock);
    b = nv_backing_find(control, va, size_bytes);
    if (b && reach_backing(b, size_bytes, reach))
        cpu = (uint8_t *)b->cpu + (va - b->va);
    pthread_mutex_unlock(&control->lock);
    return cpu;
}

/* ---- stacks of kernels --------------------------------------------------- */

/* src: docs/hardware/nvidia-queues.md, "Local memory" */
static uint64_t
local_bytes_per_tpc(const struct nv_chip *chip, uint32_t thread_bytes)
{
    uint64_t warp_bytes = align_up(32ull * thread_bytes, 0x200);

    assert(thread_bytes % 32 == 0);
    return align_up(warp_bytes * chip->max_warps_per_sm * chip->n_sm_per_tpc,
                    0x8000);
}

/* control->grow_lock is held. */
static bell_status
grow_local(struct nv_device *dev, uint32_t thread_bytes)
{
    struct nv_control *control = dev->control;
    struct nv_local local = {.thread_bytes =
                                 (uint32_t)align_up(thread_bytes, 32)};
    uint64_t n_tpc = (uint64_t)dev->chip.n_gpc * dev->chip.n_tpc_per_gpc;
    bell_status status;
    struct nv_mem old;

    if (thread_bytes <= dev->local.thread_bytes)
        return BELL_OK;
    local.tpc_bytes = local_bytes_per_tpc(&dev->chip, local.thread_bytes);
    BELL_TRY(nv_mem_alloc(dev, align_up(local.tpc_bytes * n_tpc, 0x20000),
                          0x20000, NV_MEM_VIDEO, &local.mem));
    /* The next submission may still name the earlier memory: it stays until the
     * next change. The memory that was replaced then is idle now. */
    status = hcq_device_synchronize(&dev->base, HCQ_WAIT_WHILE_MOVING);
    if (status != BELL_OK) {
        nv_mem_free(dev, &local.mem);
        return status;
    }
    pthread_mutex_lock(&dev->base.lock);
    old = control->old_local;
    control->old_local = dev->local.mem;
    local.epoch = dev->local.epoch + 1;
    dev->local = local;
    pthread_mutex_unlock(&dev->base.lock);
    nv_mem_free(dev, &old);
    LOG(LOG_MEM, "%s: %u bytes of stack for each thread, %llu in all",
        dev->base.info.name, local.thread_bytes,
        (unsigned long long)local.mem.size_bytes);
    return BELL_OK;
}

bell_status
nv_local_grow(struct nv_device *dev, uint32_t thread_bytes)
{
    struct nv_control *control = dev->control;
    bell_status status;

    pthread_mutex_lock(&control->grow_lock);
    status = grow_local(dev, thread_bytes);
    pthread_mutex_unlock(&control->grow_lock);
    return status;
}

/* ---- life ---------------------------------------------------------------- */

bell_status
nv_memory_open(struct nv_device *dev)
{
    struct nv_control *control = dev->control;
    uint64_t card_bytes;
    uint32_t kind;

    BELL_TRY(control->vm->open(dev));
    card_bytes = control->va_bytes / 4 * 3;
    dev->card_va = control->va_first;
    dev->card_va_end = dev->card_va + card_bytes;
    BELL_TRY(
        mem_va_create(dev->card_va, card_bytes, NV_VA_GRANULE_BYTES, &dev->va));
    BELL_TRY(mem_va_create(dev->card_va_end, control->va_bytes - card_bytes,
                           NV_VA_GRANULE_BYTES, &dev->host_va));
    if (control->far_bytes) {
        dev->far_va = control->far_first;
        dev->far_va_end = dev->far_va + control->far_bytes;
        BELL_TRY(mem_va_create(dev->far_va, control->far_bytes,
                               NV_VA_GRANULE_BYTES, &dev->far));
    }
    for (kind = 0; kind < NV_MEM_KIND_COUNT; kind++)
        BELL_TRY(open_pool(dev, (enum nv_mem_kind)kind));
    return BELL_OK;
}

void
nv_memory_close(struct nv_device *dev)
{
    struct nv_control *control = dev->control;
    uint32_t kind;

    nv_mem_free(dev, &control->old_local);
    nv_mem_free(dev, &dev->local.mem);
    for (kind = 0; kind < NV_MEM_KIND_COUNT; kind++) {
        uint32_t n_lost;

        if (!dev->pools[kind])
            continue;
        n_lost = mem_pool_destroy(dev->pools[kind]->pool);
        assert(n_lost == 0);
        (void)n_lost;
        host_free(dev->pools[kind]);
        dev->pools[kind] = NULL;
    }
    while (control->n_backings)
        nv_backing_drop(control->backings[control->n_backings - 1]);
    host_free(control->backings);
    control->backings = NULL;
    host_free(control->peers); /* the objects go with the client */
    control->peers = NULL;
    mem_va_destroy(dev->va);
    mem_va_destroy(dev->host_va);
    mem_va_destroy(dev->far);
    dev->va = dev->host_va = dev->far = NULL;
    control->vm->close(dev);
}
