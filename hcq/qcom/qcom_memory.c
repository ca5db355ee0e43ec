/* Memory, buffers and signals.
 *
 * All memory is the host's, and mapped for the CPU. Where chip and CPU are
 * coherent it is cached on both sides. Where they are not, what the host may
 * look at whenever it likes goes past the CPU's caches, and device buffers are
 * cached, for reads are slow otherwise: their lines are cleaned and invalidated
 * when the host writes and reads them.
 */
#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/bits.h"
#include "hcq/qcom/qcom.h"

#define PAGE_BYTES 4096u
#define LINE_BYTES 64u

/* ---- where memory lies --------------------------------------------------- */

/* The first map behind va; map_lock is held. */
static size_t
qcom_place_of(const struct qcom_device *dev, uint64_t va)
{
    size_t first = 0, last = dev->n_maps;

    while (first < last) {
        size_t mid = first + (last - first) / 2;

        if (dev->maps[mid].va <= va)
            first = mid + 1;
        else
            last = mid;
    }
    return first;
}

/* `mem` stays where it is until it is removed. */
static bell_status
add_map(struct qcom_device *dev, const struct qcom_mem *mem)
{
    bell_status status = BELL_OK;
    size_t at;

    pthread_mutex_lock(&dev->map_lock);
    if (host_grow((void **)&dev->maps, &dev->cap_maps, dev->n_maps + 1,
                  sizeof(dev->maps[0])) == 0) {
        at = qcom_place_of(dev, mem->va);
        memmove(dev->maps + at + 1, dev->maps + at,
                (dev->n_maps - at) * sizeof(dev->maps[0]));
        dev->maps[at] = (struct qcom_map){mem, mem->va};
        dev->n_maps++;
    } else {
        status = bell_fail(BELL_E_NO_MEMORY, "out of memory for %zu buffers",
                           dev->n_maps + 1);
    }
    pthread_mutex_unlock(&dev->map_lock);
    return status;
}

static void
remove_map(struct qcom_device *dev, uint64_t va)
{
    size_t at;

    pthread_mutex_lock(&dev->map_lock);
    at = qcom_place_of(dev, va);
    assert(at > 0 && dev->maps[at - 1].va == va);
    memmove(dev->maps + at - 1, dev->maps + at,
            (dev->n_maps - at) * sizeof(dev->maps[0]));
    dev->n_maps--;
    pthread_mutex_unlock(&dev->map_lock);
}

bool
qcom_mem_find(struct qcom_device *dev, uint64_t va, uint64_t size_bytes,
              struct qcom_mem *out_mem, uint8_t **out_cpu)
{
    const struct qcom_mem *mem = NULL;
    size_t at;

    pthread_mutex_lock(&dev->map_lock);
    at = qcom_place_of(dev, va);
    if (at > 0)
        mem = dev->maps[at - 1].mem;
    if (mem && size_bytes <= mem->size_bytes &&
        va - mem->va <= mem->size_bytes - size_bytes)
        *out_mem = *mem;
    else
        mem = NULL;
    pthread_mutex_unlock(&dev->map_lock);
    if (!mem)
        return false;
    *out_cpu = (uint8_t *)out_mem->cpu + (va - out_mem->va);
    return true;
}

/* ---- memory -------------------------------------------------------------- */

static bell_status
name_failure(const struct qcom_device *dev, uint64_t size_bytes,
             bell_status status)
{
    if (status != BELL_OK)
        bell_error_prefix("%s: %llu bytes", dev->base.info.name,
                          (unsigned long long)size_bytes);
    return status;
}

bell_status
qcom_mem_alloc(struct qcom_device *dev, uint64_t size_bytes,
               enum qcom_mem_kind kind, struct qcom_mem *out_mem)
{
    struct qcom_mem mem = {
        .size_bytes = align_up(size_bytes ? size_bytes : 1, PAGE_BYTES),
    };

    BELL_TRY(
        name_failure(dev, size_bytes, dev->kernel->mem_alloc(dev, kind, &mem)));
    *out_mem = mem;
    return BELL_OK;
}

void
qcom_mem_free(struct qcom_device *dev, struct qcom_mem *mem)
{
    if (mem->va)
        dev->kernel->mem_free(dev, mem);
    *mem = (struct qcom_mem){0};
}

/* ---- buffers ------------------------------------------------------------- */

/* Takes `mem` over; on failure it is freed. */
static bell_status
keep_buffer(struct qcom_device *dev, struct qcom_mem mem,
            struct qcom_mem **out_mem)
{
    struct qcom_mem *kept = host_alloc(sizeof(*kept));
    bell_status status;

    if (kept) {
        *kept = mem;
        status = add_map(dev, kept);
    } else {
        status = bell_fail(BELL_E_NO_MEMORY, "%s: out of memory for a buffer",
                           dev->base.info.name);
    }
    if (status != BELL_OK) {
        qcom_mem_free(dev, &mem);
        host_free(kept);
        return status;
    }
    *out_mem = kept;
    return BELL_OK;
}

bell_status
qcom_buffer_alloc(struct hcq_device *base, uint64_t size_bytes, uint32_t flags,
                  struct hcq_backing *out)
{
    struct qcom_device *dev = qcom_device_of(base);
    bool visible = (flags & HCQ_MEM_HOST_VISIBLE) != 0;
    struct qcom_mem mem, *kept;

    BELL_TRY(qcom_mem_alloc(dev, size_bytes,
                            visible ? QCOM_MEM_SHARED : QCOM_MEM_DEVICE, &mem));
    BELL_TRY(keep_buffer(dev, mem, &kept));
    *out = (struct hcq_backing){
        .va = kept->va,
        .host = visible ? kept->cpu : NULL,
        .size_bytes = size_bytes,
        .priv = (uintptr_t)kept,
    };
    return BELL_OK;
}

void
qcom_buffer_free(struct hcq_device *base, const struct hcq_backing *backing)
{
    struct qcom_device *dev = qcom_device_of(base);
    struct qcom_mem *mem = (struct qcom_mem *)(uintptr_t)backing->priv;

    remove_map(dev, mem->va);
    qcom_mem_free(dev, mem);
    host_free(mem);
}

bell_status
qcom_buffer_pin(struct hcq_device *base, void *ptr, uint64_t size_bytes,
                struct hcq_backing *out)
{
    struct qcom_device *dev = qcom_device_of(base);
    uint64_t page_bytes = kio_page_bytes(dev->kio);
    uintptr_t start = (uintptr_t)ptr & ~(uintptr_t)(page_bytes - 1);
    uint64_t offset = (uintptr_t)ptr - start;
    struct qcom_mem mem = {
        .size_bytes =
            align_up(offset + (size_bytes ? size_bytes : 1), page_bytes),
    };
    struct qcom_mem *kept;

    BELL_TRY(name_failure(dev, size_bytes,
                          dev->kernel->mem_pin(dev, (void *)start, &mem)));
    BELL_TRY(keep_buffer(dev, mem, &kept));
    *out = (struct hcq_backing){
        .va = kept->va + offset,
        .host = ptr,
        .size_bytes = size_bytes,
        .priv = (uintptr_t)kept,
    };
    return BELL_OK;
}

/* The lines that hold the bytes. */
static bell_status
sync_lines(struct qcom_device *dev, const struct qcom_mem *mem, uint64_t va,
           uint64_t size_bytes, bool to_chip)
{
    uint64_t first = (va - mem->va) & ~(uint64_t)(LINE_BYTES - 1);
    uint64_t end = align_up(va - mem->va + size_bytes, LINE_BYTES);

    assert(va >= mem->va && va - mem->va + size_bytes <= mem->size_bytes);
    if (!mem->is_stale)
        return BELL_OK;
    return dev->kernel->mem_sync(dev, mem, first, end - first, to_chip);
}

static bell_status
refuse_address(const struct qcom_device *dev, uint64_t va, uint64_t size_bytes)
{
    return bell_fail(BELL_E_INVALID,
                     "%s: 0x%llx, %llu bytes: no memory of ours",
                     dev->base.info.name, (unsigned long long)va,
                     (unsigned long long)size_bytes);
}

bell_status
qcom_buffer_write(struct hcq_device *base, uint64_t va, const void *data,
                  uint64_t size_bytes)
{
    struct qcom_device *dev = qcom_device_of(base);
    struct qcom_mem mem;
    uint8_t *cpu;

    if (!qcom_mem_find(dev, va, size_bytes, &mem, &cpu))
        return refuse_address(dev, va, size_bytes);
    /* what the chip stored beside it, in the same lines */
    if ((va | size_bytes) % LINE_BYTES)
        BELL_TRY(sync_lines(dev, &mem, va, size_bytes, false));
    memcpy(cpu, data, (size_t)size_bytes);
    BELL_TRY(sync_lines(dev, &mem, va, size_bytes, true));
    return BELL_OK;
}

bell_status
qcom_buffer_read(struct hcq_device *base, uint64_t va, void *data,
                 uint64_t size_bytes)
{
    struct qcom_device *dev = qcom_device_of(base);
    struct qcom_mem mem;
    uint8_t *cpu;

    if (!qcom_mem_find(dev, va, size_bytes, &mem, &cpu))
        return refuse_address(dev, va, size_bytes);
    BELL_TRY(sync_lines(dev, &mem, va, size_bytes, false));
    memcpy(data, cpu, (size_t)size_bytes);
    return BELL_OK;
}

/* ---- signals ------------------------------------------------------------- */

static bell_status
signal_page_alloc(void *user, struct hcq_signal_page *out_page)
{
    struct qcom_device *dev = user;
    struct qcom_mem mem, *kept;

    BELL_TRY(qcom_mem_alloc(dev, HCQ_SIGNAL_PAGE_BYTES, QCOM_MEM_SHARED, &mem));
    BELL_TRY(keep_buffer(dev, mem, &kept));
    *out_page = (struct hcq_signal_page){
        .mem = kept,
        .va = kept->va,
        .host = kept->cpu,
    };
    return BELL_OK;
}

static void
signal_page_release(void *user, const struct hcq_signal_page *page)
{
    struct qcom_device *dev = user;

    remove_map(dev, page->va);
    qcom_mem_free(dev, page->mem);
    host_free(page->mem);
}

bell_status
qcom_signals_open(struct qcom_device *dev)
{
    static const struct hcq_signal_page_ops ops = {
        .alloc = signal_page_alloc,
        .release = signal_page_release,
    };

    return hcq_signal_pages_create(&ops, dev, &dev->signals);
}

bell_status
qcom_signal_alloc(struct hcq_device *base, uint64_t *out_va,
                  uint64_t **out_host)
{
    return hcq_signal_pages_alloc(qcom_device_of(base)->signals, out_va,
                                  out_host);
}

void
qcom_signal_free(struct hcq_device *base, struct hcq_signal *sig)
{
    hcq_signal_pages_free(qcom_device_of(base)->signals, sig->va);
}

bell_status
qcom_signal_map(struct hcq_device *base, const struct hcq_signal *sig,
                uint64_t *out_va)
{
    *out_va = sig->va;
    if (sig->dev == base)
        return BELL_OK;
    if (sig->dev->ops != base->ops)
        return bell_fail(BELL_E_UNSUPPORTED, "%s cannot use a signal of %s",
                         base->info.name, sig->dev->info.name);
    *out_va = QCOM_VA_HOST + (uintptr_t)sig->host;
    return BELL_OK;
}
