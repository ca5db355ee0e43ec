/* Buffers as hcq sees them, and signals.
 *
 * Buffers for the device lie on the card; those that the host sees lie in
 * host memory, cached by the CPU and snooped by the card: reading the card's
 * memory through its window runs at some 30 MB/s, and host memory that is not
 * snooped shows stale data. src: docs/hardware/nvidia-kernel.md, "GPU
 * mappings", "Address rules".
 *
 * The host writes memory on the card, and reads a little of it, through a
 * mapping of its window where that pays, else through a copy engine and host
 * memory.
 */
#include <assert.h>
#include <stdio.h>
#include <string.h>
#if defined(__x86_64__)
#include <emmintrin.h>
#endif

#include "base/alloc.h"
#include "base/bits.h"
#include "base/log.h"
#include "hcq/hcq_order.h"
#include "hcq/nv/nv_control.h"

#define PAGE_BYTES 4096u

/* Up to this much is read through the card's window: each few bytes are waited
 * for. Writes are combined, and run as fast as the CPU reads the source. */
#define WINDOW_READ_BYTES 2048u

/* Two halves: the engine copies one while the CPU fills the other. Both stay
 * in the CPU's cache. */
#define STAGING_BYTES (512u << 10)
#define STAGING_HALF  (STAGING_BYTES / 2)
/* What the host reads from here on passes by the CPU's cache. */
#define STREAM_BYTES (8u << 20)
#define COPY_WAIT_NS HCQ_WAIT_WHILE_MOVING
#define BUFFER_ALIGN 256u

/* ---- buffers ------------------------------------------------------------- */

bell_status
nv_buffer_alloc(struct hcq_device *base, uint64_t size_bytes, uint32_t flags,
                struct hcq_backing *out)
{
    bool visible = (flags & HCQ_MEM_HOST_VISIBLE) != 0;
    struct nv_mem *mem = host_calloc(1, sizeof(*mem));
    bell_status status;

    if (!mem)
        return bell_fail(BELL_E_NO_MEMORY, "%s: out of memory for a buffer",
                         base->info.name);
    if (visible && flags & HCQ_MEM_SHAREABLE)
        status =
            bell_fail(BELL_E_UNSUPPORTED,
                      "%s: NVIDIA's driver exports no memory of the host's",
                      base->info.name);
    else if (flags & HCQ_MEM_SHAREABLE)
        status = nv_mem_alloc_shareable(nv_device_of(base), size_bytes, mem);
    else if (visible)
        status = nv_mem_alloc(nv_device_of(base), size_bytes, BUFFER_ALIGN,
                              NV_MEM_SYSTEM, mem);
    else
        status = nv_mem_alloc_buffer(nv_device_of(base), size_bytes,
                                     BUFFER_ALIGN, mem);
    if (status != BELL_OK) {
        host_free(mem);
        return status;
    }
    *out = (struct hcq_backing){
        .va = mem->va,
        .host = mem->cpu,
        .size_bytes = size_bytes,
        .priv = (uintptr_t)mem,
    };
    return BELL_OK;
}

void
nv_buffer_free(struct hcq_device *base, const struct hcq_backing *backing)
{
    struct nv_mem *mem = (struct nv_mem *)(uintptr_t)backing->priv;

    nv_mem_free(nv_device_of(base), mem);
    host_free(mem);
}

bell_status
nv_buffer_pin(struct hcq_device *base, void *ptr, uint64_t size_bytes,
              struct hcq_backing *out)
{
    uint64_t page_bytes = kio_page_bytes(nv_device_of(base)->kio);
    uintptr_t start = (uintptr_t)ptr & ~(uintptr_t)(page_bytes - 1);
    uint64_t offset = (uintptr_t)ptr - start;
    struct nv_backing *backing;
    bell_status status;

    assert(offset < page_bytes);
    status = nv_backing_pin(
        nv_device_of(base), (void *)start,
        align_up(offset + (size_bytes ? size_bytes : 1), page_bytes), &backing);
    if (status != BELL_OK) {
        bell_error_prefix("%s: pinning %llu bytes at %p", base->info.name,
                          (unsigned long long)size_bytes, ptr);
        return status;
    }
    *out = (struct hcq_backing){
        .va = backing->va + offset,
        .host = ptr,
        .size_bytes = size_bytes,
        .priv = (uintptr_t)backing,
    };
    return BELL_OK;
}

void
nv_buffer_unpin(struct hcq_device *base, const struct hcq_backing *backing)
{
    (void)base;
    nv_backing_unpin((struct nv_backing *)(uintptr_t)backing->priv);
}

/* ---- copies through a queue ---------------------------------------------- */

/* The queue and its memory; staging_lock is held. */
static bell_status
open_staging(struct nv_device *dev)
{
    const struct hcq_queue_desc desc = {
        .struct_size = sizeof(desc),
        .kind = HCQ_QUEUE_COPY,
        .ring_size_bytes = 64u << 10, /* a few copies are under way */
    };
    struct nv_control *control = dev->control;
    struct hcq_queue *queue;
    bell_status status;

    if (control->staging) /* what a failed copy left behind is waited for */
        return hcq_queue_wait(control->staging, COPY_WAIT_NS);
    atomic_store(&control->opens_staging, true);
    status = hcq_queue_create_with(&dev->base, &desc, &queue);
    atomic_store(&control->opens_staging, false);
    BELL_TRY(status);
    pthread_mutex_lock(&dev->base.lock);
    snprintf(queue->name, sizeof(queue->name), "%.50s/staging",
             dev->base.info.name);
    pthread_mutex_unlock(&dev->base.lock);
    status = nv_mem_alloc(dev, STAGING_BYTES, PAGE_BYTES, NV_MEM_SYSTEM,
                          &control->staging_mem);
    if (status != BELL_OK) {
        hcq_queue_destroy(queue);
        return status;
    }
    control->staging = queue;
    return BELL_OK;
}

void
nv_staging_close(struct nv_device *dev)
{
    struct nv_control *control = dev->control;

    if (control->staging) { /* its channel is gone: nothing to wait for */
        pthread_mutex_lock(&dev->base.lock);
        hcq_link_remove(&control->staging->link);
        pthread_mutex_unlock(&dev->base.lock);
        nv_queue_destroy(control->staging);
    }
    control->staging = NULL;
    nv_mem_free(dev, &control->staging_mem);
}

static bell_status
submit_copy(struct hcq_queue *queue, uint64_t dst_va, uint64_t src_va,
            uint64_t size_bytes, uint64_t *out_value)
{
    struct hcq_cs *cs;

    assert(size_bytes > 0 && size_bytes <= STAGING_HALF);
    BELL_TRY(hcq_queue_begin(queue, &cs));
    hcq_cs_copy(cs, dst_va, src_va, size_bytes);
    BELL_TRY(hcq_cs_submit(cs, out_value));
    return BELL_OK;
}

static bell_status
wait_copy(struct hcq_queue *queue, uint64_t value)
{
    return hcq_signal_wait(hcq_queue_timeline(queue), value, COPY_WAIT_NS);
}

/* Copies between staging and the user's memory, with the source fetched ahead.
 * Streaming stores are faster by half where there is much to copy. observed: an
 * H100's host, 2026-11-22 */
static void
copy_bytes(uint8_t *to, const uint8_t *from, size_t n, bool streams)
{
#if defined(__x86_64__)
    size_t head = n < 64 ? n : -(uintptr_t)to & 15, i;

    memcpy(to, from, head);
    for (i = head; n - i >= 64; i += 64) {
        const __m128i *src = (const __m128i *)(const void *)(from + i);
        __m128i *dst = (__m128i *)(void *)(to + i);
        __m128i a = _mm_loadu_si128(src), b = _mm_loadu_si128(src + 1),
                c = _mm_loadu_si128(src + 2), d = _mm_loadu_si128(src + 3);

        _mm_prefetch((const char *)from + i + 2048, _MM_HINT_T0);
        if (streams) {
            _mm_stream_si128(dst, a);
            _mm_stream_si128(dst + 1, b);
            _mm_stream_si128(dst + 2, c);
            _mm_stream_si128(dst + 3, d);
        } else {
            _mm_store_si128(dst, a);
            _mm_store_si128(dst + 1, b);
            _mm_store_si128(dst + 2, c);
            _mm_store_si128(dst + 3, d);
        }
    }
    memcpy(to + i, from + i, n - i);
    hcq_flush_writes();
#else
    (void)streams;
    memcpy(to, from, n);
#endif
}

static bell_status
write_staged(struct nv_device *dev, uint64_t va, const uint8_t *data,
             uint64_t size_bytes)
{
    struct nv_control *control = dev->control;
    uint64_t done[2] = {0}, at, n;
    unsigned half = 0;

    BELL_TRY(open_staging(dev));
    for (at = 0; at < size_bytes; at += n, half ^= 1) {
        uint64_t offset = half * STAGING_HALF;

        n = size_bytes - at < STAGING_HALF ? size_bytes - at : STAGING_HALF;
        BELL_TRY(wait_copy(control->staging, done[half]));
        copy_bytes((uint8_t *)control->staging_mem.cpu + offset, data + at,
                   (size_t)n, false);
        BELL_TRY(submit_copy(control->staging, va + at,
                             control->staging_mem.va + offset, n, &done[half]));
    }
    return wait_copy(control->staging, done[half ^ 1]);
}

static bell_status
read_staged(struct nv_device *dev, uint64_t va, uint8_t *data,
            uint64_t size_bytes)
{
    struct nv_control *control = dev->control;
    uint64_t done[2] = {0}, asked = 0, at, n;
    unsigned half = 0;

    BELL_TRY(open_staging(dev));
    for (at = 0; at < size_bytes; at += n, half ^= 1) {
        while (asked < size_bytes && asked < at + STAGING_BYTES) {
            unsigned i = (unsigned)(asked / STAGING_HALF) & 1;

            n = size_bytes - asked < STAGING_HALF ? size_bytes - asked
                                                  : STAGING_HALF;
            BELL_TRY(submit_copy(control->staging,
                                 control->staging_mem.va + i * STAGING_HALF,
                                 va + asked, n, &done[i]));
            asked += n;
        }
        n = size_bytes - at < STAGING_HALF ? size_bytes - at : STAGING_HALF;
        BELL_TRY(wait_copy(control->staging, done[half]));
        copy_bytes(data + at,
                   (uint8_t *)control->staging_mem.cpu + half * STAGING_HALF,
                   (size_t)n, size_bytes >= STREAM_BYTES);
    }
    return BELL_OK;
}

/* Where the CPU sees the bytes, if that is how they are to be reached: host
 * memory always, the card's up to limit_bytes. On a lost device there is no
 * other way. */
static void *
cpu_of(struct hcq_device *base, uint64_t va, uint64_t size_bytes,
       uint64_t limit_bytes)
{
    enum nv_cpu_reach reach =
        size_bytes <= limit_bytes ? NV_CPU_WORTH : NV_CPU_HOST;

    return nv_memory_cpu(nv_device_of(base), va, size_bytes,
                         hcq_device_is_lost(base) ? NV_CPU_MAP : reach);
}

bell_status
nv_buffer_write(struct hcq_device *base, uint64_t va, const void *data,
                uint64_t size_bytes)
{
    struct nv_control *control = nv_device_of(base)->control;
    bell_status status;
    void *cpu;

    cpu = cpu_of(base, va, size_bytes, UINT64_MAX);
    if (cpu) {
        memcpy(cpu, data, (size_t)size_bytes);
        hcq_flush_writes();
        return BELL_OK;
    }
    pthread_mutex_lock(&control->staging_lock);
    status = write_staged(nv_device_of(base), va, data, size_bytes);
    pthread_mutex_unlock(&control->staging_lock);
    return status;
}

bell_status
nv_buffer_read(struct hcq_device *base, uint64_t va, void *data,
               uint64_t size_bytes)
{
    struct nv_control *control = nv_device_of(base)->control;
    bell_status status;
    const void *cpu;

    cpu = cpu_of(base, va, size_bytes, WINDOW_READ_BYTES);
    if (cpu) {
        memcpy(data, cpu, (size_t)size_bytes);
        return BELL_OK;
    }
    pthread_mutex_lock(&control->staging_lock);
    status = read_staged(nv_device_of(base), va, data, size_bytes);
    pthread_mutex_unlock(&control->staging_lock);
    return status;
}

/* ---- signals ------------------------------------------------------------- */

static bell_status
make_signal_page(struct nv_device *dev, enum nv_mem_kind kind,
                 struct hcq_signal_page *out_page)
{
    struct nv_mem *mem = host_calloc(1, sizeof(*mem));
    bell_status status;

    if (!mem)
        return bell_fail(BELL_E_NO_MEMORY, "%s: out of memory for signals",
                         dev->base.info.name);
    status = nv_mem_alloc(dev, HCQ_SIGNAL_PAGE_BYTES, PAGE_BYTES, kind, mem);
    if (status != BELL_OK) {
        host_free(mem);
        return status;
    }
    assert(mem->cpu && mem->va % NV_SIGNAL_RECORD_BYTES == 0);
    *out_page = (struct hcq_signal_page){
        .mem = mem,
        .va = mem->va,
        .host = mem->cpu,
    };
    return BELL_OK;
}

static bell_status
nv_signal_page_alloc(void *user, struct hcq_signal_page *out_page)
{
    return make_signal_page(user, NV_MEM_SYSTEM, out_page);
}

static bell_status
nv_near_page_alloc(void *user, struct hcq_signal_page *out_page)
{
    return make_signal_page(user, NV_MEM_VISIBLE, out_page);
}

static void
nv_signal_page_release(void *user, const struct hcq_signal_page *page)
{
    nv_mem_free(user, page->mem);
    host_free(page->mem);
}

/* A signal uses 32 bytes: the value, and at +16 the words that a release with a
 * timestamp writes. */
bell_status
nv_signals_open(struct nv_device *dev)
{
    static const struct hcq_signal_page_ops ops = {
        .alloc = nv_signal_page_alloc,
        .release = nv_signal_page_release,
    };

    static const struct hcq_signal_page_ops near_ops = {
        .alloc = nv_near_page_alloc,
        .release = nv_signal_page_release,
    };

    BELL_TRY(hcq_signal_pages_create(&ops, dev, &dev->signals));
    return hcq_signal_pages_create(&near_ops, dev, &dev->near_signals);
}

bell_status
nv_signal_alloc(struct hcq_device *base, uint64_t *out_va, uint64_t **out_host)
{
    return hcq_signal_pages_alloc(nv_device_of(base)->signals, out_va,
                                  out_host);
}

/* A recording knows where the card answers in host memory alone. */
bell_status
nv_signal_alloc_near(struct hcq_device *base, uint64_t *out_va,
                     uint64_t **out_host)
{
    struct nv_device *dev = nv_device_of(base);

    if (!base->waits_near)
        return bell_fail(BELL_E_UNSUPPORTED,
                         "%s is recorded: signals stay in host memory",
                         base->info.name);
    return hcq_signal_pages_alloc(dev->near_signals, out_va, out_host);
}

/* src: docs/hardware/nvidia-queues.md: stores through BAR1 have arrived when a
 * read through it comes back. */
void
nv_signal_settle(struct hcq_device *base, const struct hcq_signal *sig)
{
    (void)base;
    hcq_flush_writes();
    (void)__atomic_load_n(sig->host, __ATOMIC_ACQUIRE);
    hcq_order_all();
}

/* One of the two has it. */
void
nv_signal_free(struct hcq_device *base, struct hcq_signal *sig)
{
    hcq_signal_pages_free(nv_device_of(base)->signals, sig->va);
    hcq_signal_pages_free(nv_device_of(base)->near_signals, sig->va);
}

bell_status
nv_signal_map(struct hcq_device *base, const struct hcq_signal *sig,
              uint64_t *out_va)
{
    if (sig->dev == base) {
        *out_va = sig->va;
        return BELL_OK;
    }
    if (sig->dev->ops != base->ops ||
        !nv_same_machine(nv_device_of(base), nv_device_of(sig->dev)))
        return bell_fail(BELL_E_UNSUPPORTED, "%s cannot use a signal of %s",
                         base->info.name, sig->dev->info.name);
    BELL_TRY(nv_memory_share(nv_device_of(base), nv_device_of(sig->dev),
                             sig->va, out_va));
    return BELL_OK;
}
