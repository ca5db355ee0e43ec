/* The card: chips, clock, address spaces, and the thread that looks at the
 * doorbells. src: hw/amd/BRINGUP.md 0 and 2. guess: numbers of copy engines and
 * their queues, device ids, and the clock of gfx90a, which have not been looked
 * up for every chip. How many compute units there are is made up, and small. */
#include <assert.h>
#include <sched.h>
#include <string.h>
#include <sys/prctl.h>
#include <time.h>

#include "base/alloc.h"
#include "base/bits.h"
#include "base/thread.h"
#include "sim/amd/gpu/dump.h"
#include "sim/amd/gpu/gpu_internal.h"

static const struct amdsim_chip chips[] = {
    {
        .name = "gfx90a",
        .gfx_target_version = 90010,
        .isa = ISA_GFX90A,
        .gfx = 9,
        .gc_version = 90402,
        .sdma_version = 40400,
        .n_xcc = 1,
        .simd_count = 32, /* 8 CUs */
        .simd_per_cu = 4,
        .array_count = 4,
        .simd_arrays_per_engine = 1,
        .max_waves_per_simd = 8,
        .max_slots_scratch_cu = 32,
        .lds_kib = 64,
        .vgpr_bytes = 0x80000,
        .n_sdma = 2,
        .n_sdma_queues = 8,
        .device_id = 0x740f,
        .vram_bytes = 8ull << 30,
        .clock_hz = 25000000,
    },
    {
        .name = "gfx942",
        .gfx_target_version = 90402,
        .isa = ISA_GFX942,
        .gfx = 9,
        .gc_version = 90403,
        .sdma_version = 40402,
        .n_xcc = 4,
        .simd_count = 64, /* 4 CUs of an XCC */
        .simd_per_cu = 4,
        .array_count = 4,
        .simd_arrays_per_engine = 1,
        .max_waves_per_simd = 8,
        .max_slots_scratch_cu = 32,
        .lds_kib = 64,
        .vgpr_bytes = 0x80000,
        .n_sdma = 4,
        .n_sdma_queues = 8,
        .device_id = 0x74a1,
        .vram_bytes = 8ull << 30,
        .clock_hz = 100000000,
    },
    {
        .name = "gfx1030",
        .gfx_target_version = 100300,
        .isa = ISA_GFX10,
        .gfx = 10,
        .gc_version = 100300,
        .sdma_version = 50200,
        .n_xcc = 1,
        .simd_count = 16, /* 8 CUs */
        .simd_per_cu = 2,
        .array_count = 4,
        .simd_arrays_per_engine = 2,
        .max_waves_per_simd = 16,
        .max_slots_scratch_cu = 32,
        .lds_kib = 64,
        .vgpr_bytes = 0x40000,
        .n_sdma = 4,
        .n_sdma_queues = 8,
        .device_id = 0x73bf,
        .vram_bytes = 8ull << 30,
        .clock_hz = 100000000,
    },
    {
        .name = "gfx1100",
        .gfx_target_version = 110000,
        .isa = ISA_GFX11,
        .gfx = 11,
        .gc_version = 110000,
        .sdma_version = 60000,
        .n_xcc = 1,
        .simd_count = 16, /* 8 CUs */
        .simd_per_cu = 2,
        .array_count = 4,
        .simd_arrays_per_engine = 2,
        .max_waves_per_simd = 16,
        .max_slots_scratch_cu = 32,
        .lds_kib = 64,
        .vgpr_bytes = 0x60000,
        .n_sdma = 2,
        .n_sdma_queues = 6,
        .device_id = 0x744c,
        .vram_bytes = 8ull << 30,
        .clock_hz = 100000000,
    },
    {
        .name = "gfx1201",
        .gfx_target_version = 120001,
        .isa = ISA_GFX12,
        .gfx = 12,
        .gc_version = 120001,
        .sdma_version = 70001,
        .n_xcc = 1,
        .simd_count = 16, /* 8 CUs */
        .simd_per_cu = 2,
        .array_count = 4,
        .simd_arrays_per_engine = 2,
        .max_waves_per_simd = 16,
        .max_slots_scratch_cu = 32,
        .lds_kib = 64,
        .vgpr_bytes = 0x60000,
        .n_sdma = 2,
        .n_sdma_queues = 6,
        .device_id = 0x7550,
        .vram_bytes = 8ull << 30,
        .clock_hz = 100000000,
    },
};

const struct amdsim_chip *
amdsim_chip_find(const char *name, uint32_t number)
{
    uint32_t i;

    if (!name)
        return number < ARRAY_LEN(chips) ? &chips[number] : NULL;
    for (i = 0; i < ARRAY_LEN(chips); i++) {
        if (strcmp(chips[i].name, name) == 0)
            return &chips[i];
    }
    return NULL;
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
    gpu->chip = chip;
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
