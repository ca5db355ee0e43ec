/* Memory of the simulated Adreno: what is mapped, and the cache that all
 * shaders share (UCHE), which holds data by device address.
 *
 * src: docs/hardware/adreno-kernel.md, "Submission";
 * docs/hardware/adreno-queues.md, "Completion"
 */
#include <assert.h>
#include <sched.h>
#include <string.h>

#include "base/alloc.h"
#include "sim/qcom/gpu/gpu_internal.h"

void
qsim_memory_lock(struct qsim *gpu)
{
    pthread_mutex_lock(&gpu->memory_lock);
    if (gpu->batch)
        sim_walk_enter(&gpu->batch->space->walk);
}

void
qsim_memory_unlock(struct qsim *gpu)
{
    if (gpu->batch)
        sim_walk_leave(&gpu->batch->space->walk);
    pthread_mutex_unlock(&gpu->memory_lock);
}

void
qsim_memory_pause(struct qsim *gpu)
{
    if (atomic_load_explicit(&gpu->n_waiting, memory_order_relaxed) == 0)
        return;
    qsim_memory_unlock(gpu);
    while (atomic_load_explicit(&gpu->n_waiting, memory_order_relaxed))
        sched_yield();
    qsim_memory_lock(gpu);
}

/* From other threads. */
static void
take(struct qsim *gpu)
{
    atomic_fetch_add(&gpu->n_waiting, 1);
    pthread_mutex_lock(&gpu->memory_lock);
    atomic_fetch_sub(&gpu->n_waiting, 1);
}

/* ---- spaces ---- */

bell_status
qsim_space_create(struct qsim *gpu, struct qsim_space **out_space)
{
    struct qsim_space *space = host_calloc(1, sizeof(*space));
    bell_status status;

    if (!space)
        return bell_fail(BELL_E_NO_MEMORY,
                         "out of memory for an address space");
    space->gpu = gpu;
    status = sim_space_create(&space->pages);
    if (status != BELL_OK) {
        host_free(space);
        return status;
    }
    sim_walk_init(&space->walk, space->pages);
    *out_space = space;
    return BELL_OK;
}

/* Pages of the cache within a range are forgotten. */
static void
forget(struct qsim_space *space, uint64_t va, uint64_t end)
{
    uint32_t i;

    memset(space->recent, 0, sizeof(space->recent));
    for (i = 0; i < QSIM_N_BUCKETS; i++) {
        struct qsim_line_page **link = &space->buckets[i], *page;
        while ((page = *link) != NULL) {
            if (page->va < va || page->va >= end) {
                link = &page->next;
                continue;
            }
            *link = page->next;
            host_free(page);
            space->n_cached--;
        }
    }
}

void
qsim_space_destroy(struct qsim_space *space)
{
    if (!space)
        return;
    take(space->gpu);
    forget(space, 0, UINT64_MAX);
    pthread_mutex_unlock(&space->gpu->memory_lock);
    sim_space_destroy(space->pages);
    host_free(space);
}

bell_status
qsim_space_map(struct qsim_space *space, uint64_t va, void *host,
               uint64_t size_bytes, bool is_read_only)
{
    bell_status status;

    take(space->gpu);
    status = sim_space_map(space->pages, va, host, size_bytes, QSIM_PAGE,
                           is_read_only ? SIM_PAGE_READ_ONLY : 0);
    pthread_mutex_unlock(&space->gpu->memory_lock);
    return status;
}

void
qsim_space_unmap(struct qsim_space *space, uint64_t va, uint64_t size_bytes)
{
    take(space->gpu);
    sim_space_unmap(space->pages, va, size_bytes);
    forget(space, va, va + size_bytes);
    pthread_mutex_unlock(&space->gpu->memory_lock);
}

uint64_t
qsim_space_mapped(const struct qsim_space *space)
{
    return sim_space_mapped(space->pages);
}

/* ---- accesses ---- */

static bool
is_among(const struct qsim_batch *batch, uint64_t va)
{
    uint32_t lo = 0, hi = batch->n_only, mid;

    if (!batch->only)
        return true;
    while (lo < hi) {
        mid = (lo + hi) / 2;
        if (batch->only[mid].va + batch->only[mid].size_bytes <= va)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo < batch->n_only && batch->only[lo].va <= va;
}

static bool
fault_at(struct qsim *gpu, uint64_t va, bool is_write, bool is_permission)
{
    if (gpu->result.fault != QSIM_OK)
        return false;
    (void)qsim_fail(
        gpu, QSIM_PAGE_FAULT, "0x%llx is %s", (unsigned long long)va,
        is_permission              ? "read-only"
        : is_among(gpu->batch, va) ? "not mapped"
                                   : "in no buffer of the submission");
    gpu->result.va = va;
    gpu->result.is_write = is_write;
    gpu->result.is_permission = is_permission;
    return false;
}

/* The host's bytes; NULL: the fault is set. */
static uint8_t *
translate(struct qsim *gpu, uint64_t va, bool is_write, uint64_t *out_bytes,
          uint32_t *out_flags)
{
    uint8_t *host = NULL;

    if (va >> 48 == 0 && is_among(gpu->batch, va))
        host =
            sim_walk_span(&gpu->batch->space->walk, va, out_bytes, out_flags);
    if (!host)
        (void)fault_at(gpu, va, is_write, false);
    return host;
}

bool
qsim_read(struct qsim *gpu, uint64_t va, void *data, uint32_t n_bytes)
{
    uint64_t n;
    uint32_t flags;
    uint8_t *host;

    while (n_bytes) {
        host = translate(gpu, va, false, &n, &flags);
        if (!host)
            return false;
        n = n < n_bytes ? n : n_bytes;
        memcpy(data, host, n);
        data = (uint8_t *)data + n;
        va += n;
        n_bytes -= (uint32_t)n;
    }
    return true;
}

bool
qsim_write(struct qsim *gpu, uint64_t va, const void *data, uint32_t n_bytes)
{
    uint64_t n;
    uint32_t flags;
    uint8_t *host;

    while (n_bytes) {
        host = translate(gpu, va, true, &n, &flags);
        if (!host)
            return false;
        if (flags & SIM_PAGE_READ_ONLY)
            return fault_at(gpu, va, true, true);
        n = n < n_bytes ? n : n_bytes;
        /* who polls sees whole words */
        if (n == 4 && ((uintptr_t)host & 3) == 0) {
            uint32_t word;
            memcpy(&word, data, 4);
            __atomic_store_n((uint32_t *)(void *)host, word, __ATOMIC_RELEASE);
        } else if (n == 8 && ((uintptr_t)host & 7) == 0) {
            uint64_t word;
            memcpy(&word, data, 8);
            __atomic_store_n((uint64_t *)(void *)host, word, __ATOMIC_RELEASE);
        } else {
            memcpy(host, data, n);
        }
        data = (const uint8_t *)data + n;
        va += n;
        n_bytes -= (uint32_t)n;
    }
    return true;
}

static void
write_back(struct qsim_line_page *page)
{
    uint32_t w, i;

    for (w = 0; w < QSIM_PAGE / 64; w++) {
        uint64_t dirty = page->dirty[w];
        if (dirty == UINT64_MAX) {
            memcpy(page->memory + w * 64, page->data + w * 64, 64);
        } else {
            for (; dirty; dirty &= dirty - 1) {
                i = w * 64 + (uint32_t)__builtin_ctzll(dirty);
                page->memory[i] = page->data[i];
            }
        }
        page->dirty[w] = 0;
    }
}

void
qsim_flush(struct qsim_space *space)
{
    struct qsim_line_page *page;
    uint32_t i;

    for (i = 0; i < QSIM_N_BUCKETS; i++) {
        for (page = space->buckets[i]; page; page = page->next)
            write_back(page);
    }
}

void
qsim_invalidate(struct qsim_space *space)
{
    struct qsim_line_page *page;
    uint32_t i;

    for (i = 0; i < QSIM_N_BUCKETS; i++) {
        for (page = space->buckets[i]; page; page = page->next)
            page->valid = 0;
    }
}

void
qsim_lose(struct qsim_space *space)
{
    forget(space, 0, UINT64_MAX);
}

static struct qsim_line_page *
find_page(struct qsim *gpu, uint64_t va, bool is_write)
{
    struct qsim_space *space = gpu->batch->space;
    uint64_t number = va / QSIM_PAGE, n;
    struct qsim_line_page **recent = &space->recent[number % 64], *page;
    uint32_t flags;
    uint8_t *host;

    page = *recent;
    if (page && page->va == number * QSIM_PAGE && page->checked == gpu->serial)
        return page;
    for (page = space->buckets[number % QSIM_N_BUCKETS];
         page && page->va != number * QSIM_PAGE; page = page->next) {
    }
    if (page && (page->checked == gpu->serial || is_among(gpu->batch, va))) {
        page->checked = gpu->serial;
        *recent = page;
        return page;
    }
    host = translate(gpu, number * QSIM_PAGE, is_write, &n, &flags);
    if (!host)
        return NULL;
    if (space->n_cached >= QSIM_MAX_PAGES) {
        qsim_flush(space);
        forget(space, 0, UINT64_MAX);
    }
    page = host_calloc(1, sizeof(*page));
    if (!page) {
        (void)qsim_fail(gpu, QSIM_BAD_STREAM, "no memory for the cache");
        return NULL;
    }
    page->va = number * QSIM_PAGE;
    page->memory = host;
    page->is_read_only = flags & SIM_PAGE_READ_ONLY;
    page->checked = gpu->serial;
    page->next = space->buckets[number % QSIM_N_BUCKETS];
    space->buckets[number % QSIM_N_BUCKETS] = page;
    space->n_cached++;
    *recent = page;
    return page;
}

static void
fill_line(struct qsim_line_page *page, uint32_t line)
{
    uint64_t dirty = page->dirty[line];
    uint32_t i;

    for (i = 0; i < QSIM_LINE; i++) {
        if (!(dirty >> i & 1))
            page->data[line * QSIM_LINE + i] =
                page->memory[line * QSIM_LINE + i];
    }
    page->valid |= 1ull << line;
}

void *
qsim_cached(struct qsim *gpu, uint64_t va, uint32_t n_bytes,
            enum shader_access access)
{
    uint32_t at = va % QSIM_PAGE, line = at / QSIM_LINE;
    struct qsim_line_page *page;

    assert(at / QSIM_LINE == (at + n_bytes - 1) / QSIM_LINE);
    if ((++gpu->n_accesses & 0xfff) == 0)
        qsim_memory_pause(gpu);
    page = find_page(gpu, va, access != SHADER_LOAD);
    if (!page)
        return NULL;
    if (access != SHADER_LOAD && page->is_read_only) {
        (void)fault_at(gpu, va, true, true);
        return NULL;
    }
    if (access != SHADER_STORE && !(page->valid >> line & 1))
        fill_line(page, line);
    if (access != SHADER_LOAD)
        page->dirty[line] |=
            (n_bytes == 64 ? UINT64_MAX : ((1ull << n_bytes) - 1))
            << at % QSIM_LINE;
    return page->data + at;
}

bool
qsim_cached_read(struct qsim *gpu, uint64_t va, void *data, uint32_t n_bytes)
{
    uint32_t n;
    void *p;

    while (n_bytes) {
        n = QSIM_LINE - va % QSIM_LINE;
        n = n < n_bytes ? n : n_bytes;
        p = qsim_cached(gpu, va, n, SHADER_LOAD);
        if (!p)
            return false;
        memcpy(data, p, n);
        data = (uint8_t *)data + n;
        va += n;
        n_bytes -= n;
    }
    return true;
}
