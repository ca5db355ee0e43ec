/* Buffers as hcq sees them, and signals.
 *
 * Buffers for the device lie on the card and are open to the CPU through its
 * window. Where that does not show all memory (no resizable BAR), the CPU sees
 * nothing of it, and a copy engine brings what the host writes and reads.
 * Buffers that the host sees lie in host memory, which the card does not cache.
 * Addresses are the same on both sides and on all cards; pinned pages have one
 * of their own on the cards.
 */
#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/bits.h"
#include "hcq/amd/amd_kfd.h"
#include "hcq/hcq_order.h"
#include "ioctl/kfd_uapi.h"
#include "ioctl/kio.h"

/* The first KFD 1.x that exports memory. src: include/uapi/linux/kfd_ioctl.h,
 * "1.12 - Add DMA buf export ioctl" */
#define EXPORT_MINOR 12u

/* Reads of so many bytes are worth a copy engine's while. guess: uncached reads
 * over a bus bring some 60 MB/s, a submission takes some 20 us. */
#define ENGINE_BYTES 16384u

/* A buffer that is out; in control->buffers. */
struct amd_buffer {
    struct amd_buffer *next, **link;
    struct amd_buffer *next_pinned; /* process->pinned */
    struct amd_mem mem;
    uint32_t card;  /* the owner's */
    bool is_import; /* the CPU does not see it */
    /* Other devices read these, under process->share_lock. */
    struct amd_buffer *next_shared;  /* process->shared */
    uint64_t share;                  /* never the same twice; 0: no peers */
    uint32_t n_peers[AMD_MAX_CARDS]; /* of each card */
};

bell_status
amd_mem_alloc(struct amd_device *dev, uint64_t size_bytes,
              enum amd_mem_kind kind, struct amd_mem *out_mem)
{
    bell_status status = amd_memory_create(dev->process, dev->card, size_bytes,
                                           kind, NULL, out_mem);

    if (status != BELL_OK)
        bell_error_prefix("%s: %llu bytes", dev->base.info.name,
                          (unsigned long long)size_bytes);
    return status;
}

void
amd_mem_free(struct amd_device *dev, struct amd_mem *mem)
{
    amd_memory_destroy(dev->process, mem);
}

/* ---- buffers ------------------------------------------------------------- */

static void
link_buffer(struct amd_device *dev, struct amd_buffer *buf)
{
    struct amd_control *control = dev->control;

    assert(!buf->link);
    pthread_mutex_lock(&control->buffer_lock);
    buf->next = control->buffers;
    buf->link = &control->buffers;
    if (buf->next)
        buf->next->link = &buf->next;
    control->buffers = buf;
    pthread_mutex_unlock(&control->buffer_lock);
}

static void
unlink_buffer(struct amd_device *dev, struct amd_buffer *buf)
{
    struct amd_control *control = dev->control;

    pthread_mutex_lock(&control->buffer_lock);
    assert(*buf->link == buf);
    *buf->link = buf->next;
    if (buf->next)
        buf->next->link = buf->link;
    pthread_mutex_unlock(&control->buffer_lock);
}

/* Memory of the kernel or of the user, as a buffer. */
static bell_status
new_buffer(struct amd_device *dev, uint64_t size_bytes, enum amd_mem_kind kind,
           void *user, struct amd_buffer **out_buf)
{
    struct amd_buffer *buf = host_calloc(1, sizeof(*buf));
    bell_status status;

    if (!buf)
        return bell_fail(BELL_E_NO_MEMORY, "%s: out of memory for a buffer",
                         dev->base.info.name);
    status = amd_memory_create(dev->process, dev->card, size_bytes, kind, user,
                               &buf->mem);
    if (status != BELL_OK) {
        bell_error_prefix("%s: %llu bytes", dev->base.info.name,
                          (unsigned long long)size_bytes);
        host_free(buf);
        return status;
    }
    buf->card = dev->card;
    link_buffer(dev, buf);
    *out_buf = buf;
    return BELL_OK;
}

/* share_lock is held. */
static void
unlink_shared(struct amd_process *process, struct amd_buffer *buf)
{
    struct amd_buffer **at = &process->shared;

    assert(buf->share);
    while (*at != buf)
        at = &(*at)->next_shared;
    *at = buf->next_shared;
    buf->share = 0;
}

bell_status
amd_buffer_alloc(struct hcq_device *base, uint64_t size_bytes, uint32_t flags,
                 struct hcq_backing *out)
{
    const struct amd_process *process = amd_device_of(base)->process;
    bool visible = (flags & HCQ_MEM_HOST_VISIBLE) != 0;
    struct amd_buffer *buf;

    if (flags & HCQ_MEM_SHAREABLE && process->minor < EXPORT_MINOR)
        return bell_fail(BELL_E_UNSUPPORTED,
                         "%s: KFD 1.%u exports no memory: 1.%u and later do",
                         base->info.name, process->minor, EXPORT_MINOR);
    BELL_TRY(new_buffer(amd_device_of(base), size_bytes,
                        visible ? AMD_MEM_GTT : AMD_MEM_VISIBLE, NULL, &buf));
    *out = (struct hcq_backing){
        .va = buf->mem.va,
        .host = visible ? buf->mem.cpu : NULL,
        .size_bytes = size_bytes,
        .priv = (uintptr_t)buf,
    };
    return BELL_OK;
}

void
amd_buffer_free(struct hcq_device *base, const struct hcq_backing *backing)
{
    struct amd_device *dev = amd_device_of(base);
    struct amd_buffer *buf = (struct amd_buffer *)(uintptr_t)backing->priv;

    unlink_buffer(dev, buf);
    pthread_mutex_lock(&dev->process->share_lock);
    if (buf->share) /* peers are left, which find nothing from now on */
        unlink_shared(dev->process, buf);
    pthread_mutex_unlock(&dev->process->share_lock);
    amd_memory_destroy(dev->process, &buf->mem);
    host_free(buf);
}

static void
link_pinned(struct amd_process *process, struct amd_buffer *buf)
{
    pthread_mutex_lock(&process->lock);
    buf->next_pinned = process->pinned;
    process->pinned = buf;
    pthread_mutex_unlock(&process->lock);
}

static void
unlink_pinned(struct amd_process *process, struct amd_buffer *buf)
{
    struct amd_buffer **at = &process->pinned;

    pthread_mutex_lock(&process->lock);
    while (*at != buf)
        at = &(*at)->next_pinned;
    *at = buf->next_pinned;
    pthread_mutex_unlock(&process->lock);
}

bell_status
amd_buffer_pin(struct hcq_device *base, void *ptr, uint64_t size_bytes,
               struct hcq_backing *out)
{
    uint64_t page_bytes = amd_device_of(base)->process->page_bytes;
    uintptr_t start = (uintptr_t)ptr & ~(uintptr_t)(page_bytes - 1);
    uint64_t offset = (uintptr_t)ptr - start;
    struct amd_buffer *buf;

    BELL_TRY(new_buffer(amd_device_of(base),
                        offset + (size_bytes ? size_bytes : 1), AMD_MEM_GTT,
                        (void *)start, &buf));
    link_pinned(amd_device_of(base)->process, buf);
    *out = (struct hcq_backing){
        .va = buf->mem.va + offset, /* as far into its page as ptr */
        .host = ptr,
        .size_bytes = size_bytes,
        .priv = (uintptr_t)buf,
    };
    return BELL_OK;
}

void
amd_buffer_unpin(struct hcq_device *base, const struct hcq_backing *backing)
{
    unlink_pinned(amd_device_of(base)->process,
                  (struct amd_buffer *)(uintptr_t)backing->priv);
    amd_buffer_free(base, backing);
}

/* Where the CPU has what the cards have at va. */
static void *
cpu_at(struct amd_process *process, uint64_t va)
{
    void *at = (void *)(uintptr_t)va;
    const struct amd_buffer *buf;

    pthread_mutex_lock(&process->lock);
    for (buf = process->pinned; buf; buf = buf->next_pinned) {
        if (va - buf->mem.va < buf->mem.size_bytes)
            at = (uint8_t *)buf->mem.cpu + (va - buf->mem.va);
    }
    pthread_mutex_unlock(&process->lock);
    return at;
}

/* A card may hold writes through its window back, of which `last` is the last
 * byte. src: docs/hardware/amd-kernel.md, "HDP". A virtual function has no page
 * to flush by: a read comes back behind those writes (guess: that this is
 * enough). */
static void
flush_window(struct amd_process *process, uint32_t card,
             const volatile uint8_t *last)
{
    volatile uint32_t *page = process->cards[card].hdp;

    assert(card < process->n_cards);
    hcq_order_all(); /* those writes before the flush */
    if (process->cards[card].topology.has_host_memory)
        return;
    if (page) {
        page[0] = 1;
        (void)page[0];
    } else {
        (void)*last;
    }
}

/* The buffer that holds va; buffer_lock is held. */
static struct amd_buffer *
find_buffer(const struct amd_control *control, uint64_t va)
{
    struct amd_buffer *buf = control->buffers;

    while (buf && va - buf->mem.va >= buf->mem.size_bytes)
        buf = buf->next;
    return buf;
}

/* Whose memory is at an address, and how the CPU reaches it. */
struct place {
    uint32_t card;
    enum amd_mem_kind kind;
    bool is_open; /* the CPU does */
};

/* Where a buffer lies: the device's own, or a peer's. An address outside every
 * buffer (code) lies in the card's own memory. */
static struct place
place_of(struct amd_device *dev, uint64_t va)
{
    struct amd_process *process = dev->process;
    struct amd_control *control = dev->control;
    struct place place = {dev->card, AMD_MEM_VRAM, false};
    const struct amd_buffer *buf;
    bool is_import;

    pthread_mutex_lock(&control->buffer_lock);
    buf = find_buffer(control, va);
    if (buf)
        place.kind = buf->mem.kind;
    is_import = buf && buf->is_import;
    pthread_mutex_unlock(&control->buffer_lock);
    if (!buf) {
        pthread_mutex_lock(&process->share_lock);
        buf = process->shared;
        while (buf && va - buf->mem.va >= buf->mem.size_bytes)
            buf = buf->next_shared;
        if (buf)
            place = (struct place){buf->card, buf->mem.kind, false};
        is_import = buf && buf->is_import;
        pthread_mutex_unlock(&process->share_lock);
    }
    place.is_open =
        !is_import && (process->cards[place.card].topology.large_bar ||
                       place.kind == AMD_MEM_GTT);
    return place;
}

bell_status
amd_buffer_write(struct hcq_device *base, uint64_t va, const void *data,
                 uint64_t size_bytes)
{
    struct amd_device *dev = amd_device_of(base);
    struct place place = place_of(dev, va);
    uint8_t *at;

    if (!place.is_open)
        return amd_write_by_engine(dev, va, data, size_bytes);
    at = cpu_at(dev->process, va);
    memcpy(at, data, (size_t)size_bytes);
    flush_window(dev->process, place.card, at + size_bytes - 1);
    return BELL_OK;
}

/* A reset loses what the card's memory held: what was read of it before the
 * kernel told of one is good, and nothing after. A memory fault loses none. */
static bell_status
check_kept(struct amd_device *dev, uint32_t card)
{
    bool is_reset;

    amd_check_faults(dev);
    pthread_mutex_lock(&dev->process->lock);
    is_reset = dev->process->cards[card].is_reset;
    pthread_mutex_unlock(&dev->process->lock);
    if (is_reset && card != dev->card)
        return bell_fail(BELL_E_DEVICE_LOST,
                         "%s: the card whose memory this is was reset",
                         dev->base.info.name);
    return is_reset ? hcq_lost_report(&dev->base) : BELL_OK;
}

bell_status
amd_buffer_read(struct hcq_device *base, uint64_t va, void *data,
                uint64_t size_bytes)
{
    struct amd_device *dev = amd_device_of(base);
    struct place place = place_of(dev, va);
    uint64_t done = 0;
    const uint8_t *at;
    bool is_window;

    if (!place.is_open)
        return amd_fetch_by_engine(dev, va, data, size_bytes);
    is_window = place.kind == AMD_MEM_VISIBLE;
    if (is_window && size_bytes >= ENGINE_BYTES &&
        !dev->process->cards[place.card].topology.has_host_memory)
        done = amd_read_by_engine(dev, va, data, size_bytes);
    assert(done <= size_bytes);
    if (done < size_bytes) {
        at = cpu_at(dev->process, va + done);
        if (is_window && dev->gen->keeps_host_reads)
            flush_window(dev->process, place.card, at);
        memcpy((uint8_t *)data + done, at, (size_t)(size_bytes - done));
    }
    if (is_window)
        BELL_TRY(check_kept(dev, place.card));
    return BELL_OK;
}

/* ---- buffers of other cards ---------------------------------------------- */

/* Maps it to the card and counts the peer; *out_share names it. */
static bell_status
share_buffer(struct amd_process *process, struct amd_buffer *buf, uint32_t card,
             uint64_t *out_share)
{
    bell_status status;

    pthread_mutex_lock(&process->share_lock);
    status = amd_memory_map(process, &buf->mem, card);
    if (status == BELL_OK) {
        if (!buf->share) {
            buf->share = ++process->n_shares;
            buf->next_shared = process->shared;
            process->shared = buf;
        }
        buf->n_peers[card]++;
        *out_share = buf->share;
    }
    pthread_mutex_unlock(&process->share_lock);
    return status;
}

/* The same address serves on every GPU. src: docs/hardware/amd-kernel.md,
 * "Peers" */
bell_status
amd_buffer_peer(struct hcq_device *base, const struct hcq_buffer *of,
                struct hcq_backing *out)
{
    struct amd_device *dev = amd_device_of(base), *owner;
    struct amd_control *control;
    struct amd_buffer *buf;
    bell_status status;
    uint64_t share = 0;

    owner = of->dev->ops == base->ops ? amd_device_of(of->dev) : NULL;
    if (!owner || owner->process != dev->process)
        return bell_fail(BELL_E_UNSUPPORTED, "%s cannot use a buffer of %s",
                         base->info.name, of->dev->info.name);
    control = owner->control;
    pthread_mutex_lock(&control->buffer_lock);
    buf = find_buffer(control, of->va);
    if (!buf)
        status = bell_fail(
            BELL_E_UNSUPPORTED, "%s: 0x%llx is not %s's own: ask its owner",
            base->info.name, (unsigned long long)of->va, of->dev->info.name);
    else
        status = share_buffer(dev->process, buf, dev->card, &share);
    pthread_mutex_unlock(&control->buffer_lock);
    if (status != BELL_OK && bell_error_last()->sys_errno == EINVAL)
        return amd_link_refuse(dev, owner->card, of->dev->info.name);
    if (status != BELL_OK)
        return status;
    *out = (struct hcq_backing){
        .va = of->va,
        .host = of->host,
        .size_bytes = of->size_bytes,
        .priv = share,
    };
    return BELL_OK;
}

/* The owner may have gone with its memory, and another have the address. */
void
amd_buffer_unpeer(struct hcq_device *base, const struct hcq_backing *mem)
{
    struct amd_device *dev = amd_device_of(base);
    struct amd_process *process = dev->process;
    struct amd_buffer *buf;
    bool is_used = false;
    uint32_t i;

    pthread_mutex_lock(&process->share_lock);
    buf = process->shared;
    while (buf && buf->share != mem->priv)
        buf = buf->next_shared;
    assert(!buf || buf->n_peers[dev->card] > 0);
    if (buf && --buf->n_peers[dev->card] == 0 && dev->card != buf->card)
        amd_memory_unmap(process, &buf->mem, dev->card);
    for (i = 0; buf && i < process->n_cards; i++)
        is_used |= buf->n_peers[i] > 0;
    if (buf && !is_used)
        unlink_shared(process, buf);
    pthread_mutex_unlock(&process->share_lock);
}

/* ---- memory of other processes and drivers ------------------------------- */

bell_status
amd_buffer_export(struct hcq_device *base, const struct hcq_backing *backing,
                  int *out_fd)
{
    const struct amd_buffer *buf =
        (struct amd_buffer *)(uintptr_t)backing->priv;
    struct amd_process *process = amd_device_of(base)->process;
    struct kfd_export_dmabuf export = {.handle = buf->mem.held->handle,
                                       .flags = O_RDWR | O_CLOEXEC,
                                       .fd = UINT32_MAX};

    BELL_TRY(hcq_check_descriptors(base, process->kio));
    BELL_TRY(amd_call(process, KFD_EXPORT_DMABUF, &export));
    if ((int)export.fd < 0)
        return bell_fail(BELL_E_KERNEL, "%s: KFD gave descriptor %d",
                         base->info.name, (int)export.fd);
    *out_fd = (int)export.fd;
    return BELL_OK;
}

/* Whose memory a descriptor is. */
struct origin {
    uint32_t card; /* of the process */
    enum amd_mem_kind kind;
    bool is_amds; /* else another driver's: for the device's own card */
};

/* KFD knows memory of its GPUs alone. */
static bell_status
find_origin(struct amd_device *dev, int fd, struct origin *out)
{
    struct amd_process *process = dev->process;
    struct kfd_dmabuf_info info = {.fd = (uint32_t)fd};
    struct bell_error_hold hold;
    bell_status status;
    uint32_t i;

    *out = (struct origin){dev->card, AMD_MEM_GTT, false};
    bell_error_hold(&hold);
    status = amd_call(process, KFD_GET_DMABUF_INFO, &info);
    if (status != BELL_OK && bell_error_last()->sys_errno == EINVAL) {
        bell_error_release(&hold);
        return BELL_OK;
    }
    BELL_TRY(status);
    for (i = 0; i < process->n_cards; i++) {
        if (process->cards[i].topology.gpu_id == info.gpu_id)
            break;
    }
    if (i == process->n_cards)
        return bell_fail(BELL_E_UNSUPPORTED,
                         "the memory is of GPU 0x%x, which this process does "
                         "not see",
                         info.gpu_id);
    *out = (struct origin){
        .card = i,
        .kind = info.flags & KFD_MEM_VRAM ? AMD_MEM_VRAM : AMD_MEM_GTT,
        .is_amds = true,
    };
    return BELL_OK;
}

/* The card that has the memory imports it, and it is mapped as a peer's. */
static bell_status
import_buffer(struct amd_device *dev, int fd, uint64_t size_bytes,
              struct amd_buffer *buf)
{
    struct amd_process *process = dev->process;
    struct origin origin;
    bell_status status;
    char name[32];

    BELL_TRY(find_origin(dev, fd, &origin));
    BELL_TRY(amd_card_open(process, origin.card));
    BELL_TRY(
        amd_memory_import(process, origin.card, fd, size_bytes, &buf->mem));
    buf->mem.kind = origin.kind;
    buf->card = origin.card;
    buf->is_import = true;
    status = amd_memory_map(process, &buf->mem, dev->card);
    if (status == BELL_OK)
        return BELL_OK;
    if (origin.is_amds && bell_error_last()->sys_errno == EINVAL) {
        snprintf(name, sizeof(name), "GPU 0x%x",
                 process->cards[origin.card].topology.gpu_id);
        status = amd_link_refuse(dev, origin.card, name);
    }
    amd_memory_destroy(process, &buf->mem);
    return status;
}

bell_status
amd_buffer_import(struct hcq_device *base, int fd, uint64_t size_bytes,
                  struct hcq_backing *out)
{
    struct amd_device *dev = amd_device_of(base);
    struct amd_buffer *buf;
    bell_status status;

    BELL_TRY(hcq_check_dmabuf(base, dev->process->kio, fd, NULL));
    buf = host_calloc(1, sizeof(*buf));
    if (!buf)
        return bell_fail(BELL_E_NO_MEMORY, "out of memory for a buffer");
    status = import_buffer(dev, fd, size_bytes, buf);
    if (status != BELL_OK) {
        host_free(buf);
        return status;
    }
    link_buffer(dev, buf);
    *out = (struct hcq_backing){
        .va = buf->mem.va,
        .size_bytes = size_bytes,
        .priv = (uintptr_t)buf,
    };
    return BELL_OK;
}

/* ---- signals ------------------------------------------------------------- */

static bell_status
alloc_signal_page(struct amd_device *dev, enum amd_mem_kind kind,
                  struct hcq_signal_page *out_page)
{
    struct amd_mem *mem = host_calloc(1, sizeof(*mem));
    bell_status status;

    if (!mem)
        return bell_fail(BELL_E_NO_MEMORY, "%s: out of memory for signals",
                         dev->base.info.name);
    status = amd_mem_alloc(dev, HCQ_SIGNAL_PAGE_BYTES, kind, mem);
    if (status != BELL_OK) {
        host_free(mem);
        return status;
    }
    assert((uintptr_t)mem->cpu == mem->va);
    *out_page = (struct hcq_signal_page){
        .mem = mem,
        .va = mem->va,
        .host = (uint8_t *)(uintptr_t)mem->va,
    };
    return BELL_OK;
}

static bell_status
amd_signal_page_alloc(void *user, struct hcq_signal_page *out_page)
{
    return alloc_signal_page(user, AMD_MEM_GTT, out_page);
}

static bell_status
amd_near_page_alloc(void *user, struct hcq_signal_page *out_page)
{
    return alloc_signal_page(user, AMD_MEM_NEAR, out_page);
}

static void
amd_signal_page_release(void *user, const struct hcq_signal_page *page)
{
    amd_mem_free(user, page->mem);
    host_free(page->mem);
}

bell_status
amd_signals_open(struct amd_device *dev)
{
    static const struct hcq_signal_page_ops ops = {
        .alloc = amd_signal_page_alloc,
        .release = amd_signal_page_release,
    };

    static const struct hcq_signal_page_ops near_ops = {
        .alloc = amd_near_page_alloc,
        .release = amd_signal_page_release,
    };

    BELL_TRY(hcq_signal_pages_create(&ops, dev, &dev->signals));
    return hcq_signal_pages_create(&near_ops, dev, &dev->near_signals);
}

bell_status
amd_signal_alloc(struct hcq_device *base, uint64_t *out_va, uint64_t **out_host)
{
    return hcq_signal_pages_alloc(amd_device_of(base)->signals, out_va,
                                  out_host);
}

bool
amd_has_near(const struct amd_device *dev)
{
    return dev->topology.large_bar && !dev->topology.has_host_memory &&
           !kio_watches(dev->process->kio);
}

bell_status
amd_signal_alloc_near(struct hcq_device *base, uint64_t *out_va,
                      uint64_t **out_host)
{
    struct amd_device *dev = amd_device_of(base);

    if (!amd_has_near(dev))
        return bell_fail(BELL_E_UNSUPPORTED,
                         "%s: signals stay in host memory: the card's own is "
                         "not seen by the host, or none, or recorded",
                         base->info.name);
    return hcq_signal_pages_alloc(dev->near_signals, out_va, out_host);
}

void
amd_signal_settle(struct hcq_device *base, const struct hcq_signal *sig)
{
    const struct amd_device *dev = amd_device_of(base);

    hcq_flush_writes();
    flush_window(dev->process, dev->card,
                 (const volatile uint8_t *)(const void *)sig->host);
}

/* One of the two has it. */
void
amd_signal_free(struct hcq_device *base, struct hcq_signal *sig)
{
    hcq_signal_pages_free(amd_device_of(base)->signals, sig->va);
    hcq_signal_pages_free(amd_device_of(base)->near_signals, sig->va);
}

/* A wait that is not soon over sleeps in the kernel, which the end of each
 * submission wakes. That is soon enough for the timeline of a queue; others are
 * also written within submissions and by hosts, so they are looked at more
 * often. A slice bounds what a lost wake costs, and how late a fault is
 * seen. */
#define NAP_NS          1000000u
#define QUEUE_SLICE_MS  10u
#define SIGNAL_SLICE_MS 1u

void
amd_signal_sleep(struct hcq_signal *sig, uint64_t seen, uint64_t max_ns)
{
    struct amd_process *process = amd_device_of(sig->dev)->process;
    uint64_t left_ms = (max_ns - NAP_NS) / 1000000;
    uint32_t slice_ms = sig->owned_by_queue ? QUEUE_SLICE_MS : SIGNAL_SLICE_MS;
    uint64_t age;

    /* a recording holds nothing that depends on how long it took */
    if (max_ns < 2 * NAP_NS || kio_watches(process->kio)) {
        hcq_signal_nap(sig, seen, max_ns);
        return;
    }
    hcq_signal_nap(sig, seen, NAP_NS);
    age = atomic_load(&process->signal_age);
    if (hcq_signal_value(sig) == seen && !hcq_device_is_lost(sig->dev))
        amd_wait_signal(process, age,
                        left_ms < slice_ms ? (uint32_t)left_ms : slice_ms);
}

/* Another card's signal that is to be mapped. */
struct signal_map {
    struct amd_device *dev;
    uint64_t va;
    bell_status status;
};

static void
map_page_of(void *user, const struct hcq_signal_page *page)
{
    struct signal_map *map = user;

    if (map->va - page->va < HCQ_SIGNAL_PAGE_BYTES)
        map->status =
            amd_memory_map(map->dev->process, page->mem, map->dev->card);
}

bell_status
amd_signal_map(struct hcq_device *base, const struct hcq_signal *sig,
               uint64_t *out_va)
{
    struct signal_map map = {amd_device_of(base), sig->va, BELL_OK};
    struct amd_device *other;

    *out_va = sig->va;
    if (sig->dev == base)
        return BELL_OK;
    other = sig->dev->ops == base->ops ? amd_device_of(sig->dev) : NULL;
    if (!other || other->process != map.dev->process)
        return bell_fail(BELL_E_UNSUPPORTED, "%s cannot use a signal of %s",
                         base->info.name, sig->dev->info.name);
    hcq_signal_pages_each(other->signals, map_page_of, &map);
    hcq_signal_pages_each(other->near_signals, map_page_of, &map);
    return map.status;
}
