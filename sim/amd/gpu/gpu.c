/* The card: chips, clock, address spaces, and the thread that looks at the
 * doorbells. src: docs/hardware/amd.md, "Generations";
 * docs/hardware/amd-kernel.md, "Topology"; base/chip.c for what differs
 * between chips of a family. guess: the clock of gfx90a. How many compute units
 * a card has that no product is named for is made up, and small. */
#include <assert.h>
#include <sched.h>
#include <string.h>
#include <sys/prctl.h>
#include <time.h>

#include "base/alloc.h"
#include "base/bits.h"
#include "base/chip.h"
#include "base/thread.h"
#include "sim/amd/gpu/dump.h"
#include "sim/amd/gpu/gpu_internal.h"

/* What chips of a family have in common. */
static const struct family {
    const char *name;
    enum isa_gen isa;
    uint32_t gfx, simd_per_cu, max_waves_per_simd, l1_kib, clock_hz;
    /* of the small card; large_xcc: of products */
    uint32_t n_xcc, large_xcc;
    bool has_xgmi; /* src: Linux 6.12, gmc_v9_0_early_init */
} families[] = {
    {"gfx906", ISA_GFX906, 9, 4, 10, 16, 100000000, 1, 1, true},
    {"gfx90a", ISA_GFX90A, 9, 4, 8, 16, 25000000, 1, 1, true},
    {"gfx942", ISA_GFX942, 9, 4, 8, 32, 100000000, 4, 8, true},
    {"gfx1010", ISA_GFX101, 10, 2, 20, 16, 100000000, 1, 1, false},
    {"gfx1030", ISA_GFX10, 10, 2, 16, 16, 100000000, 1, 1, false},
    {"gfx1100", ISA_GFX11, 11, 2, 16, 32, 100000000, 1, 1, false},
    {"gfx1201", ISA_GFX12, 12, 2, 16, 32, 100000000, 1, 1, false},
};

/* gfx908 has accumulation registers, and 11.5 floats in scalar ones. */
static enum isa_gen
isa_of(const struct family *family, uint32_t version)
{
    if (family->isa == ISA_GFX11 && version >= 110500)
        return ISA_GFX115;
    if (family->isa == ISA_GFX906 && version == 90008)
        return ISA_GFX908;
    return family->isa;
}

static void
make_chip(const struct chip_arch *arch, const struct family *family,
          struct amdsim_chip *out)
{
    const struct chip_amd *amd = &arch->amd;
    uint32_t n_arrays = amd->n_arrays < 4 ? amd->n_arrays : 4;

    *out = (struct amdsim_chip){
        .name = arch->name,
        .gfx_target_version = chip_amd_version(arch),
        .gfx = family->gfx,
        .gc_version = amd->gc_version,
        .sdma_version = amd->sdma_version,
        .nbif_version = amd->nbif_version,
        .n_xcc = family->n_xcc,
        .simd_count = arch->n_units * family->simd_per_cu,
        .simd_per_cu = family->simd_per_cu,
        .array_count = n_arrays,
        .simd_arrays_per_engine = amd->arrays_per_engine,
        .max_waves_per_simd = family->max_waves_per_simd,
        .max_slots_scratch_cu = 32,
        .lds_kib = arch->group_shared_bytes / 1024,
        .vgpr_bytes = arch->n_regs * 4,
        .l1_kib = family->l1_kib,
        .l2_kib = amd->l2_kib,
        .n_sdma = amd->n_sdma,
        .n_sdma_queues = amd->n_sdma_queues,
        .has_xgmi = family->has_xgmi,
        .device_id = amd->pci_device,
        .is_apu = amd->is_apu,
        .vram_bytes = 8ull << 30,
        .clock_hz = family->clock_hz,
    };
    out->isa = isa_of(family, out->gfx_target_version);
    /* src: Linux 6.12, amdgpu_amdkfd_get_xgmi_bandwidth_mbytes: sixteen lanes
     * of 25 Gbit/s, from GC 9.4.2 on */
    if (family->has_xgmi && amd->gc_version >= 90402)
        out->xgmi_mb_s = 50000;
}

/* All compute units of the product, in the arrangement that they have. */
static void
become_product(const struct chip_arch *arch, const struct family *family,
               const struct chip *product, struct amdsim_chip *chip)
{
    /* each die has an L2 of its own */
    chip->n_xcc = family->large_xcc == 1
                      ? 1
                      : (uint32_t)(product->l2_bytes / 1024 / arch->amd.l2_kib);
    chip->array_count = arch->amd.n_arrays / family->large_xcc * chip->n_xcc;
    chip->simd_count = product->n_units * chip->simd_per_cu;
    chip->device_id = product->pci_device;
    chip->vram_bytes = product->memory_bytes;
    chip->has_no_memory = product->has_no_memory;
    chip->is_apu |= product->has_no_memory;
}

bool
amdsim_chip_make(const char *name, struct amdsim_chip *out_chip)
{
    const struct chip *product = chip_find(name);
    const struct chip_arch *arch =
        chip_arch_find(product ? product->arch : name);
    size_t i;

    for (i = 0; arch && arch->amd.family && i < ARRAY_LEN(families); i++) {
        if (strcmp(families[i].name, arch->amd.family) != 0)
            continue;
        make_chip(arch, &families[i], out_chip);
        if (product)
            become_product(arch, &families[i], product, out_chip);
        return true;
    }
    return false;
}

void
amdsim_join(struct amdsim *gpu, struct sim_links *traffic, uint32_t index)
{
    gpu->traffic = traffic;
    gpu->index = index;
}

uint64_t
amdsim_clock(const struct amdsim *gpu)
{
    uint64_t ns = time_now_ns() - gpu->start_ns;

    return ns / (1000000000u / gpu->chip->clock_hz) + 1;
}

/* ---- doorbells ---- */

/* Tells a queue of a new value; true if there was one. */
static bool
look_at_queue(struct amdsim_queue *q)
{
    uint64_t value = __atomic_load_n(q->desc.doorbell, __ATOMIC_ACQUIRE);
    bool changed;

    pthread_mutex_lock(&q->lock);
    changed = value != q->bell;
    if (changed) {
        q->bell = value;
        q->rung = true;
        pthread_cond_signal(&q->wake);
    }
    pthread_mutex_unlock(&q->lock);
    return changed;
}

static bool
look_at_all(struct amdsim *gpu)
{
    bool any = false;
    size_t i;

    pthread_mutex_lock(&gpu->lock);
    for (i = 0; i < gpu->n_queues; i++)
        any |= look_at_queue(gpu->queues[i]);
    pthread_mutex_unlock(&gpu->lock);
    return any;
}

/* How long nobody looks, after that long a silence. */
static long
nap_ns(uint64_t silent_ns)
{
    if (silent_ns < 200000)
        return 0;
    if (silent_ns < 5000000)
        return 50000;
    return silent_ns < 20000000 ? 200000 : 1000000;
}

/* Without a queue there is nothing to look at. */
static bool
wait_for_queue(struct amdsim *gpu)
{
    bool has_waited = false;

    pthread_mutex_lock(&gpu->lock);
    while (gpu->n_queues == 0 && !atomic_load(&gpu->quit)) {
        has_waited = true;
        pthread_cond_wait(&gpu->wake, &gpu->lock);
    }
    pthread_mutex_unlock(&gpu->lock);
    return has_waited;
}

/* Looks closely for a while after each ring, then ever less often. */
static void *
watch_queues(void *arg)
{
    struct amdsim *gpu = arg;
    uint64_t last_ns = time_now_ns();

    host_fail_spare_thread();
    /* naps of the length that was asked for */
    (void)prctl(PR_SET_TIMERSLACK, 1000ul, 0, 0, 0);
    while (!atomic_load(&gpu->quit)) {
        struct timespec nap = {0, nap_ns(time_now_ns() - last_ns)};

        if (atomic_exchange(&gpu->is_reset_due, 0))
            gpu->reset(gpu->reset_user);
        if (wait_for_queue(gpu) || look_at_all(gpu))
            last_ns = time_now_ns();
        else if (nap.tv_nsec)
            nanosleep(&nap, NULL);
        else
            sched_yield();
    }
    return NULL;
}

/* ---- life ---- */

bell_status
amdsim_create(const struct amdsim_chip *chip, struct amdsim **out_gpu)
{
    struct amdsim *gpu = host_calloc(1, sizeof(*gpu));
    bell_status status;
    int error;

    assert(chip->n_xcc > 0 && chip->n_xcc <= AMDSIM_MAX_XCC);
    if (!gpu || pthread_mutex_init(&gpu->lock, NULL) != 0) {
        host_free(gpu);
        return bell_fail(BELL_E_NO_MEMORY, "simulated %s: out of memory",
                         chip->name);
    }
    pthread_cond_init(&gpu->wake, NULL);
    gpu->own_chip = *chip;
    gpu->chip = &gpu->own_chip;
    gpu->start_ns = time_now_ns();
    status = amd_code_create(chip->isa, &gpu->code);
    if (status == BELL_OK) {
        error = pthread_create(&gpu->watcher, NULL, watch_queues, gpu);
        if (error) {
            amd_code_destroy(gpu->code);
            status = thread_fail(chip->name, error);
        }
    }
    if (status != BELL_OK) {
        pthread_cond_destroy(&gpu->wake);
        pthread_mutex_destroy(&gpu->lock);
        host_free(gpu);
        return status;
    }
    *out_gpu = gpu;
    return BELL_OK;
}

void
amdsim_destroy(struct amdsim *gpu)
{
    if (!gpu)
        return;
    pthread_mutex_lock(&gpu->lock);
    atomic_store(&gpu->quit, 1);
    pthread_cond_signal(&gpu->wake);
    pthread_mutex_unlock(&gpu->lock);
    pthread_join(gpu->watcher, NULL);
    amd_code_destroy(gpu->code);
    pthread_cond_destroy(&gpu->wake);
    pthread_mutex_destroy(&gpu->lock);
    host_free(gpu->queues);
    host_free(gpu);
}

void
amdsim_set_dump(struct amdsim *gpu, struct amd_dump *dump)
{
    gpu->dump = dump;
}

void
amdsim_pass_time(struct amdsim *gpu, uint64_t ns)
{
    atomic_fetch_sub(&gpu->start_ns, ns);
}

void
amdsim_set_reset(struct amdsim *gpu, uint32_t number, void (*reset)(void *user),
                 void *user)
{
    gpu->reset = reset;
    gpu->reset_user = user;
    atomic_store(&gpu->reset_in, number);
}

void
amdsim_set_flush(struct amdsim *gpu, void (*flush)(void *user), void *user)
{
    gpu->flush = flush;
    gpu->flush_user = user;
}

void
amdsim_set_flip(struct amdsim *gpu, uint32_t every)
{
    gpu->flip_every = every;
}

/* ---- address spaces ---- */

bell_status
amdsim_space_create(struct amdsim *gpu, struct amdsim_space **out_space)
{
    struct amdsim_space *space = host_calloc(1, sizeof(*space));
    bell_status status;

    if (!space)
        return bell_fail(BELL_E_NO_MEMORY, "address space: out of memory");
    space->gpu = gpu;
    status = sim_space_create(&space->pages);
    if (status == BELL_OK && gpu->dump)
        status = amd_dump_map_create(&space->dump_map);
    if (status != BELL_OK) {
        sim_space_destroy(space->pages);
        host_free(space);
        return status;
    }
    *out_space = space;
    return BELL_OK;
}

void
amdsim_space_destroy(struct amdsim_space *space)
{
    if (!space)
        return;
    sim_space_destroy(space->pages);
    amd_dump_map_destroy(space->dump_map);
    host_free(space);
}

bell_status
amdsim_space_map(struct amdsim_space *space, uint64_t va, void *host,
                 uint64_t size_bytes, uint32_t flags, int file)
{
    bell_status status;
    uint32_t page = 0;

    assert(size_bytes > 0);
    page |= flags & AMDSIM_MAP_WRITABLE ? 0 : SIM_PAGE_READ_ONLY;
    page |= flags & AMDSIM_MAP_EXECUTABLE ? SIM_PAGE_EXECUTABLE : 0;
    page |= flags & AMDSIM_MAP_SYSTEM ? SIM_PAGE_SYSTEM : 0;
    page |= flags & AMDSIM_MAP_UNCACHED ? SIM_PAGE_UNCACHED : 0;
    page |= flags & AMDSIM_MAP_PEER_MASK;
    status = sim_space_map(space->pages, va, host, size_bytes, 4096, page);
    if (status != BELL_OK || !space->dump_map)
        return status;
    status = amd_dump_map_add(space->dump_map, va, host, size_bytes,
                              !(flags & AMDSIM_MAP_SYSTEM), file);
    if (status != BELL_OK)
        sim_space_unmap(space->pages, va, size_bytes);
    return status;
}

void
amdsim_space_unmap(struct amdsim_space *space, uint64_t va, uint64_t size_bytes)
{
    if (space->dump_map)
        amd_dump_map_remove(space->dump_map, va, size_bytes);
    sim_space_unmap(space->pages, va, size_bytes);
}

void
amdsim_space_evict(struct amdsim_space *space)
{
    atomic_store(&space->evicted, 1);
}
