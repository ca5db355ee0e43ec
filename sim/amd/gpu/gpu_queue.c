/* Queues: their threads, faults, and memory as packets see it. */
#include <assert.h>
#include <sched.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <time.h>

#include "base/alloc.h"

#include "base/bits.h"
#include "base/log.h"
#include "base/thread.h"
#include "sim/amd/gpu/dump.h"
#include "sim/amd/gpu/gpu_internal.h"

/* Copies and fills go in pieces of this. */
#define PIECE_BYTES 4096

/* ---- faults ---- */

static bool
tell_fault(struct amdsim_queue *q, const struct amdsim_fault *fault)
{
    if (!q->failed) {
        q->failed = true;
        atomic_store(&q->stop, 1);
        if (LOG_ON(LOG_PUSH | LOG_FAULT))
            log_print(LOG_FAULT, "%s", fault->text);
        memcpy(q->dump.fault, fault->text, sizeof(q->dump.fault));
        q->desc.fault(q->desc.user, fault);
    }
    return false;
}

__attribute__((format(printf, 3, 0))) static bool
fail(struct amdsim_queue *q, uint32_t exception, const char *fmt, va_list args)
{
    struct amdsim_fault fault = {.kind = AMDSIM_FAULT_HANG,
                                 .exception = exception};
    int n;

    if (amdsim_stopped(q))
        return false;
    n = snprintf(fault.text, sizeof(fault.text),
                 "%s at 0x%llx: ", q->place.name ? q->place.name : "packet",
                 (unsigned long long)q->place.va);
    vsnprintf(fault.text + n, sizeof(fault.text) - (size_t)n, fmt, args);
    return tell_fault(q, &fault);
}

bool
amdsim_fail(struct amdsim_queue *q, const char *fmt, ...)
{
    va_list args;
    bool result;

    va_start(args, fmt);
    result = fail(q, 0, fmt, args);
    va_end(args);
    return result;
}

bool
amdsim_fail_packet(struct amdsim_queue *q, uint32_t exception, const char *fmt,
                   ...)
{
    va_list args;
    bool result;

    va_start(args, fmt);
    result = fail(q, exception, fmt, args);
    va_end(args);
    return result;
}

bool
amdsim_fail_memory(struct amdsim_queue *q, uint64_t va, bool is_write,
                   uint32_t page_flags, bool is_mapped, const char *who)
{
    struct amdsim_fault fault = {
        .kind = AMDSIM_FAULT_MEMORY,
        .va = va & ~0xfffull,
        .is_write = is_write,
        .not_present = !is_mapped,
        .read_only = is_mapped && is_write && page_flags & SIM_PAGE_READ_ONLY,
    };

    if (amdsim_stopped(q))
        return false;
    snprintf(fault.text, sizeof(fault.text),
             "memory fault: %s at 0x%llx by %s (%s at 0x%llx): %s",
             is_write ? "write" : "read", (unsigned long long)va, who,
             q->place.name ? q->place.name : "packet",
             (unsigned long long)q->place.va,
             !is_mapped ? "nothing is mapped there"
             : is_write ? "the page is read-only"
                        : "the page is not executable");
    return tell_fault(q, &fault);
}

/* ---- memory ---- */

/* One piece; NULL after a fault. */
static void *
span(struct amdsim_queue *q, uint64_t va, bool is_write, uint64_t *out_n,
     const char *who)
{
    uint32_t flags;
    void *at = sim_walk_span(&q->walk, va, out_n, &flags);

    if (at && !(is_write && flags & SIM_PAGE_READ_ONLY)) {
        if (q->cache[q->xcc] && !(flags & SIM_PAGE_UNCACHED))
            amdsim_cache_yield(q->cache[q->xcc], &q->walk, at,
                               *out_n < PIECE_BYTES ? *out_n : PIECE_BYTES);
        return at;
    }
    amdsim_fail_memory(q, va, is_write, flags, at != NULL, who);
    return NULL;
}

void
amdsim_do_cache(struct amdsim_queue *q, uint32_t ops)
{
    if (q->cache[q->xcc])
        amdsim_cache_do(q->cache[q->xcc], &q->walk, ops);
}

void
amdsim_do_caches(struct amdsim_queue *q, uint32_t ops)
{
    uint32_t i;

    for (i = 0; i < AMDSIM_MAX_XCC; i++) {
        if (q->cache[i])
            amdsim_cache_do(q->cache[i], &q->walk, ops);
    }
}

void *
amdsim_at(struct amdsim_queue *q, uint64_t va, uint64_t n_bytes, bool is_write,
          const char *who)
{
    uint64_t n;
    void *at = span(q, va, is_write, &n, who);

    assert(n_bytes > 0);
    if (at && n < n_bytes) {
        amdsim_fail(q, "%s at 0x%llx crosses a page", who,
                    (unsigned long long)va);
        return NULL;
    }
    return at;
}

bool
amdsim_read(struct amdsim_queue *q, uint64_t va, void *out, uint64_t n_bytes,
            const char *who)
{
    uint8_t *to = out;

    while (n_bytes) {
        uint64_t n;
        const void *from = span(q, va, false, &n, who);

        if (!from)
            return false;
        n = n < n_bytes ? n : n_bytes;
        memcpy(to, from, n);
        to += n;
        va += n;
        n_bytes -= n;
    }
    return true;
}

bool
amdsim_write(struct amdsim_queue *q, uint64_t va, const void *data,
             uint64_t n_bytes, const char *who)
{
    const uint8_t *from = data;

    while (n_bytes) {
        uint64_t n;
        void *to = span(q, va, true, &n, who);

        if (!to || !amdsim_dump_before(q, va))
            return false;
        n = n < n_bytes ? n : n_bytes;
        memcpy(to, from, n);
        if (!amdsim_dump_after(q, va, from, n))
            return false;
        from += n;
        va += n;
        n_bytes -= n;
    }
    return true;
}

void
amdsim_count(struct amdsim_queue *q, uint64_t va, uint64_t n_bytes,
             enum sim_link_use use, bool is_write)
{
    uint32_t flags;
    uint64_t n;
    int owner;

    while (n_bytes && q->gpu->traffic &&
           sim_walk_span(&q->walk, va, &n, &flags)) {
        n = n < n_bytes ? n : n_bytes;
        owner = SIM_PAGE_OWNER(flags);
        if (owner >= 0)
            sim_links_add(q->gpu->traffic, q->gpu->index, (uint32_t)owner, use,
                          is_write, n);
        va += n;
        n_bytes -= n;
    }
}

bool
amdsim_decay(struct amdsim_queue *q, uint64_t va)
{
    uint32_t every = q->gpu->flip_every, number;
    uint64_t n;
    uint8_t *at;

    if (!every)
        return true;
    number = atomic_fetch_add(&q->gpu->n_writers, 1) + 1;
    if (number % every)
        return true;
    at = span(q, va, true, &n, "decay"); /* caches let go of it */
    if (at)
        *at ^= (uint8_t)(1u << number / every % 8);
    return at != NULL;
}

bool
amdsim_copy(struct amdsim_queue *q, uint64_t dst, uint64_t src,
            uint64_t n_bytes)
{
    uint8_t piece[PIECE_BYTES];

    while (n_bytes) {
        uint64_t n = n_bytes < sizeof(piece) ? n_bytes : sizeof(piece);

        (void)sim_walk_pause(&q->walk);
        if (amdsim_stopped(q) || !amdsim_read(q, src, piece, n, "copy") ||
            !amdsim_write(q, dst, piece, n, "copy"))
            return false;
        amdsim_count(q, src, n, SIM_LINK_COPY, false);
        amdsim_count(q, dst, n, SIM_LINK_COPY, true);
        src += n;
        dst += n;
        n_bytes -= n;
    }
    return amdsim_decay(q, dst - 1);
}

bool
amdsim_fill(struct amdsim_queue *q, uint64_t dst, uint32_t word,
            uint32_t element_bytes, uint64_t n_bytes)
{
    uint8_t piece[PIECE_BYTES];
    uint32_t i;

    assert(element_bytes == 1 || element_bytes == 2 || element_bytes == 4);
    for (i = 0; i < sizeof(piece); i++)
        piece[i] = (uint8_t)(word >> 8 * (i % element_bytes));
    while (n_bytes) {
        uint64_t n = n_bytes < sizeof(piece) ? n_bytes : sizeof(piece);

        (void)sim_walk_pause(&q->walk);
        if (amdsim_stopped(q) || !amdsim_write(q, dst, piece, n, "fill"))
            return false;
        amdsim_count(q, dst, n, SIM_LINK_COPY, true);
        dst += n;
        n_bytes -= n;
    }
    return true;
}

static bool
is_ring_aligned(struct amdsim_queue *q, uint64_t va, uint32_t n_bytes,
                const char *who)
{
    assert(is_pow2(n_bytes));
    return (va & (n_bytes - 1)) == 0 ||
           amdsim_fail(q, "%s at 0x%llx, which is not a multiple of %u", who,
                       (unsigned long long)va, n_bytes);
}

bool
amdsim_load32(struct amdsim_queue *q, uint64_t va, uint32_t *out,
              const char *who)
{
    uint32_t *at;

    if (!is_ring_aligned(q, va, 4, who))
        return false;
    at = amdsim_at(q, va, 4, false, who);
    if (at)
        *out = __atomic_load_n(at, __ATOMIC_ACQUIRE);
    return at != NULL;
}

bool
amdsim_store32(struct amdsim_queue *q, uint64_t va, uint32_t value,
               const char *who)
{
    uint32_t *at;

    if (!is_ring_aligned(q, va, 4, who))
        return false;
    at = amdsim_at(q, va, 4, true, who);
    if (!at || !amdsim_dump_before(q, va))
        return false;
    __atomic_store_n(at, value, __ATOMIC_RELEASE);
    return amdsim_dump_after(q, va, &value, 4);
}

bool
amdsim_add32(struct amdsim_queue *q, uint64_t va, uint32_t value,
             const char *who)
{
    uint32_t *at, sum;

    if (!is_ring_aligned(q, va, 4, who))
        return false;
    at = amdsim_at(q, va, 4, true, who);
    if (!at || !amdsim_dump_before(q, va))
        return false;
    sum = __atomic_add_fetch(at, value, __ATOMIC_ACQ_REL);
    return amdsim_dump_after(q, va, &sum, 4);
}

bool
amdsim_store64(struct amdsim_queue *q, uint64_t va, uint64_t value,
               const char *who)
{
    uint64_t *at;

    if (!is_ring_aligned(q, va, 8, who))
        return false;
    at = amdsim_at(q, va, 8, true, who);
    if (!at || !amdsim_dump_before(q, va))
        return false;
    __atomic_store_n(at, value, __ATOMIC_RELEASE);
    return amdsim_dump_after(q, va, &value, 8);
}

bool
amdsim_compare(uint32_t function, uint32_t value, uint32_t reference)
{
    assert(function < 8);
    switch (function) {
    case 0:
        return true;
    case 1:
        return value < reference;
    case 2:
        return value <= reference;
    case 3:
        return value == reference;
    case 4:
        return value != reference;
    case 5:
        return value >= reference;
    case 6:
        return value > reference;
    default:
        return false;
    }
}

/* Its process was evicted: it does not go on before it is destroyed. */
static bool
wait_while_evicted(struct amdsim_queue *q)
{
    struct timespec nap = {0, 200000};

    while (atomic_load(&q->desc.space->evicted) && !amdsim_stopped(q))
        nanosleep(&nap, NULL);
    return !amdsim_stopped(q);
}

bool
amdsim_pause(struct amdsim_queue *q, uint32_t *turns)
{
    struct timespec nap = {0, 20000};

    if (amdsim_stopped(q))
        return false;
    if (!amdsim_dump_wait(q))
        return false;
    sim_walk_leave(&q->walk);
    if (++*turns < 50)
        sched_yield();
    else
        nanosleep(&nap, NULL);
    (void)wait_while_evicted(q);
    (void)amdsim_dump_resume(q); /* or the queue has stopped */
    sim_walk_enter(&q->walk);
    return !amdsim_stopped(q);
}

/* ---- the thread ---- */

/* Waits for a ring; false when the queue is to end. */
static bool
wait_for_ring(struct amdsim_queue *q, uint64_t *out_bell)
{
    pthread_mutex_lock(&q->lock);
    while (!q->rung && !amdsim_stopped(q))
        pthread_cond_wait(&q->wake, &q->lock);
    q->rung = false;
    *out_bell = q->bell;
    pthread_mutex_unlock(&q->lock);
    return !amdsim_stopped(q);
}

/* The write pointer in memory must agree with the doorbell. */
static bool
check_wptr(struct amdsim_queue *q, uint64_t bell)
{
    const uint64_t *wptr = amdsim_at(q, q->desc.wptr_va, 8, false, "wptr");
    uint64_t value;

    if (!wptr)
        return false;
    value = __atomic_load_n(wptr, __ATOMIC_ACQUIRE);
    if (q->desc.kind == AMDSIM_QUEUE_AQL)
        bell++;
    if (value < bell)
        return amdsim_fail(q,
                           "the doorbell says %llu, the write pointer in "
                           "memory %llu",
                           (unsigned long long)bell, (unsigned long long)value);
    return true;
}

static void
run_queue(struct amdsim_queue *q, uint64_t bell)
{
    q->place = (struct amdsim_place){q->desc.ring_va, "doorbell"};
    if (!amdsim_dump_start(q))
        return;
    sim_walk_enter(&q->walk);
    amdsim_step_submit(q);
    if (check_wptr(q, bell)) {
        if (q->desc.kind == AMDSIM_QUEUE_PM4)
            (void)amdsim_pm4_run(q, bell);
        else if (q->desc.kind == AMDSIM_QUEUE_AQL)
            (void)amdsim_aql_run(q, bell + 1);
        else
            (void)amdsim_sdma_run(q, bell);
    }
    amdsim_dump_end(q, q->desc.kind == AMDSIM_QUEUE_AQL ? bell + 1 : bell);
    sim_walk_leave(&q->walk);
}

/* Whether the card resets now; the queue then stands until it is destroyed. */
static bool
resets_now(struct amdsim_queue *q)
{
    struct amdsim *gpu = q->gpu;

    if (!gpu->reset || !atomic_load(&gpu->reset_in) ||
        atomic_fetch_sub(&gpu->reset_in, 1) != 1)
        return false;
    atomic_store(&gpu->is_reset_due, 1);
    return true;
}

static void *
queue_main(void *arg)
{
    struct amdsim_queue *q = arg;
    uint64_t bell;

    host_fail_spare_thread();
    /* naps of the length that was asked for */
    (void)prctl(PR_SET_TIMERSLACK, 1000ul, 0, 0, 0);
    while (wait_for_ring(q, &bell) && wait_while_evicted(q)) {
        if (resets_now(q))
            break;
        atomic_store(&q->doing, AMDSIM_RUNS);
        run_queue(q, bell);
        atomic_store(&q->doing, AMDSIM_IDLE);
    }
    sim_walk_enter(&q->walk);
    amdsim_do_caches(q, AMDSIM_CACHE_WB_L2);
    sim_walk_leave(&q->walk);
    return NULL;
}

/* ---- life ---- */

static bell_status
add_gpu_queue(struct amdsim *gpu, struct amdsim_queue *q)
{
    bell_status status = BELL_OK;

    pthread_mutex_lock(&gpu->lock);
    if (host_grow((void **)&gpu->queues, &gpu->cap_queues, gpu->n_queues + 1,
                  sizeof(*gpu->queues)) != 0)
        status = bell_fail(BELL_E_NO_MEMORY, "queue: out of memory");
    else
        gpu->queues[gpu->n_queues++] = q;
    pthread_cond_signal(&gpu->wake);
    pthread_mutex_unlock(&gpu->lock);
    return status;
}

static void
remove_queue(struct amdsim *gpu, struct amdsim_queue *q)
{
    size_t i;

    pthread_mutex_lock(&gpu->lock);
    for (i = 0; i < gpu->n_queues; i++) {
        if (gpu->queues[i] == q)
            gpu->queues[i] = gpu->queues[--gpu->n_queues];
    }
    pthread_mutex_unlock(&gpu->lock);
}

static void
destroy_caches(struct amdsim_queue *q)
{
    uint32_t i;

    for (i = 0; i < AMDSIM_MAX_XCC; i++)
        amdsim_cache_destroy(q->cache[i]);
}

static bell_status
create_caches(struct amdsim_queue *q)
{
    const struct amdsim_chip *chip = q->gpu->chip;
    uint32_t i, n = q->desc.kind == AMDSIM_QUEUE_AQL ? chip->n_xcc : 1;

    for (i = 0; i < n && q->desc.kind != AMDSIM_QUEUE_SDMA; i++)
        BELL_TRY(amdsim_cache_create(chip->gfx, &q->cache[i]));
    return BELL_OK;
}

/* As the kernel driver deals launches out: of AQL queues to all dies, which
 * count from another one in each; of PM4 queues to none but its own. */
static void
set_dies(struct amdsim_queue *q)
{
    uint32_t n = q->gpu->chip->n_xcc, first, i;

    assert(n <= AMDSIM_MAX_XCC);
    if (q->desc.kind != AMDSIM_QUEUE_AQL)
        return;
    first = atomic_fetch_add(&q->gpu->first_xcc, 1);
    for (i = 0; i < n; i++) {
        q->sh[i][SH_LOGIC_XCC] = (first + i) % n;
        q->sh[i][SH_CHUNK] = 1;
    }
}

static BELL_MUST_CHECK bell_status
start_thread(struct amdsim_queue *q)
{
    int error = pthread_mutex_init(&q->lock, NULL);

    if (error)
        goto fail;
    error = pthread_cond_init(&q->wake, NULL);
    if (error)
        goto fail_lock;
    error = pthread_create(&q->thread, NULL, queue_main, q);
    if (!error)
        return BELL_OK;
    pthread_cond_destroy(&q->wake);
fail_lock:
    pthread_mutex_destroy(&q->lock);
fail:
    return thread_fail("queue", error);
}

bell_status
amdsim_queue_create(struct amdsim *gpu, const struct amdsim_queue_desc *desc,
                    struct amdsim_queue **out_queue)
{
    struct amdsim_queue *q = host_calloc(1, sizeof(*q));
    bell_status status;

    assert(desc->doorbell && is_pow2(desc->ring_bytes));
    if (!q)
        return bell_fail(BELL_E_NO_MEMORY, "queue: out of memory");
    q->gpu = gpu;
    q->desc = *desc;
    q->bell = __atomic_load_n(desc->doorbell, __ATOMIC_ACQUIRE);
    q->seed = amdsim_clock(gpu);
    set_dies(q);
    sim_walk_init(&q->walk, desc->space->pages);
    status = gpu->dump ? amd_dump_folder_create(
                             gpu->dump, desc->space->dump_map, &q->dump.folder)
                       : BELL_OK;
    if (status == BELL_OK)
        status = create_caches(q);
    if (status == BELL_OK)
        status = start_thread(q);
    if (status != BELL_OK) {
        amd_dump_folder_destroy(q->dump.folder);
        destroy_caches(q);
        host_free(q);
        return status;
    }
    status = add_gpu_queue(gpu, q);
    if (status != BELL_OK) {
        amdsim_queue_destroy(q);
        return status;
    }
    *out_queue = q;
    return BELL_OK;
}

enum amdsim_doing
amdsim_queue_doing(const struct amdsim_queue *q)
{
    return (enum amdsim_doing)atomic_load(&q->doing);
}

void
amdsim_queue_destroy(struct amdsim_queue *q)
{
    if (!q)
        return;
    remove_queue(q->gpu, q);
    pthread_mutex_lock(&q->lock);
    atomic_store(&q->stop, 1);
    pthread_cond_signal(&q->wake);
    pthread_mutex_unlock(&q->lock);
    pthread_join(q->thread, NULL);
    pthread_cond_destroy(&q->wake);
    pthread_mutex_destroy(&q->lock);
    amd_dump_folder_destroy(q->dump.folder);
    destroy_caches(q);
    host_free(q);
}
