/* Buffers and the cache of freed device memory.
 *
 * A freed buffer goes, with its node, into a list of its size class and is
 * handed out again to the next request of that class: on the training path
 * an allocation is two list operations under an uncontended lock. Classes
 * are eighths of powers of two, so at most 1/8 is wasted.
 *
 * Sizes that never come again, as those of a sequence that grows, would fill
 * it: what is freed is given back as soon as it takes, with what is in use,
 * twice the most that ever was.
 */
#include "hcq/hcq_backend.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/bits.h"
#include "base/log.h"
#include "hcq/hcq_tell.h"
#include "ioctl/kio.h"

#define MIN_SIZE_BYTES 64u
#define SMALL_BYTES    (4ull << 20) /* guess: nobody misses so much */
#define POISON_BYTE    0xcb

/* A buffer with its backing. Owned by the user while live (dev->buffers),
 * by the device while cached. */
struct hcq_buffer_node {
    struct hcq_buffer pub;
    struct hcq_link link;
    struct hcq_buffer_node *next_cached;
    struct hcq_backing mem;
    uint32_t class_idx;
    const struct hcq_buffer *of; /* the same memory, of a peer; or NULL */
    bool is_passing;             /* hcq_buffer_hide */
    /* Ends a backing that is somebody else's memory; NULL: the backing is the
     * device's. */
    void (*detach)(struct hcq_device *dev, const struct hcq_backing *mem);
};

/* The smallest class that holds size_bytes, and that class's size. */
static uint32_t
find_class(uint64_t size_bytes, uint64_t *out_class_bytes)
{
    uint64_t step;
    unsigned exp;

    if (size_bytes < MIN_SIZE_BYTES)
        size_bytes = MIN_SIZE_BYTES;
    exp = log2_floor(size_bytes);
    step = 1ull << (exp - 3);
    size_bytes = (size_bytes + step - 1) & ~(step - 1);
    exp = log2_floor(size_bytes);
    *out_class_bytes = size_bytes;
    return exp * 8 + (uint32_t)((size_bytes >> (exp - 3)) & 7);
}

static bool
wants_poison(uint32_t flags)
{
#ifndef NDEBUG
    (void)flags;
    return true;
#else
    return (flags & HCQ_MEM_POISON) != 0;
#endif
}

/* Host memory is not for a device's buffer, unless it is all there is. */
static struct hcq_buffer_node *
take_cached(struct hcq_device *dev, uint32_t class_idx, uint32_t flags)
{
    struct hcq_buffer_node **at = &dev->cache[class_idx];
    bool everywhere = (dev->info.flags & HCQ_DEVICE_HOST_MEMORY) != 0;
    bool visible = (flags & HCQ_MEM_HOST_VISIBLE) != 0;

    assert(class_idx < HCQ_CACHE_CLASSES);
    for (; *at; at = &(*at)->next_cached) {
        struct hcq_buffer_node *node = *at;

        if (visible != (node->mem.host != NULL) && !everywhere)
            continue;
        *at = node->next_cached;
        assert(dev->cached_bytes >= node->mem.size_bytes);
        dev->cached_bytes -= node->mem.size_bytes;
        return node;
    }
    return NULL;
}

static void
free_cache(struct hcq_device *dev)
{
    struct hcq_buffer_node *list = NULL;
    size_t i;

    pthread_mutex_lock(&dev->lock);
    for (i = 0; i < HCQ_CACHE_CLASSES; i++) {
        while (dev->cache[i]) {
            struct hcq_buffer_node *node = dev->cache[i];
            dev->cache[i] = node->next_cached;
            node->next_cached = list;
            list = node;
        }
    }
    dev->cached_bytes = 0;
    pthread_mutex_unlock(&dev->lock);
    while (list) {
        struct hcq_buffer_node *node = list;
        list = node->next_cached;
        dev->ops->mem_free(dev, &node->mem);
        host_free(node);
    }
}

/* What buffers may take, freed ones too, where they are to be `live_bytes`
 * without those. */
static uint64_t
most_bytes(struct hcq_device *dev, uint64_t live_bytes)
{
    uint64_t most;

    pthread_mutex_lock(&dev->lock);
    most = 2 * (live_bytes > dev->peak_bytes ? live_bytes : dev->peak_bytes);
    pthread_mutex_unlock(&dev->lock);
    if (most < SMALL_BYTES)
        most = SMALL_BYTES;
    return most < dev->info.memory_bytes ? most : dev->info.memory_bytes;
}

static bell_status
alloc_node(struct hcq_device *dev, uint64_t size_bytes, uint64_t class_bytes,
           uint32_t flags, struct hcq_buffer_node **out_node)
{
    struct hcq_buffer_node *node;
    bell_status status;
    uint64_t live_bytes, cached_bytes;

    hcq_memory_usage(dev, &live_bytes, &cached_bytes);
    if (live_bytes + cached_bytes + class_bytes >
        most_bytes(dev, live_bytes + class_bytes)) {
        hcq_memory_trim(dev);
        if (live_bytes + class_bytes > dev->info.memory_bytes)
            return bell_fail(BELL_E_NO_MEMORY,
                             "%s: out of memory for a buffer of %llu bytes: "
                             "%llu of %llu bytes "
                             "are in use",
                             dev->info.name, (unsigned long long)size_bytes,
                             (unsigned long long)live_bytes,
                             (unsigned long long)dev->info.memory_bytes);
    }
    node = host_calloc(1, sizeof(*node));
    if (!node)
        return bell_fail(BELL_E_NO_MEMORY,
                         "%s: out of memory for a buffer of %llu bytes",
                         dev->info.name, (unsigned long long)size_bytes);
    status = dev->ops->mem_alloc(dev, class_bytes, flags, &node->mem);
    if (status == BELL_E_NO_MEMORY && cached_bytes) {
        hcq_memory_trim(dev);
        status = dev->ops->mem_alloc(dev, class_bytes, flags, &node->mem);
    }
    if (status != BELL_OK) {
        host_free(node);
        return status;
    }
    assert(node->mem.size_bytes >= class_bytes);
    *out_node = node;
    return BELL_OK;
}

static bell_status
fail_unshared(const struct hcq_device *dev)
{
    return bell_fail(BELL_E_UNSUPPORTED,
                     "%s: its driver shares no memory with other processes",
                     dev->info.name);
}

bell_status
hcq_buffer_create(struct hcq_device *dev, uint64_t size_bytes, uint32_t flags,
                  struct hcq_buffer **out_buf)
{
    struct hcq_buffer_node *node;
    uint64_t class_bytes;
    uint32_t class_idx;

    if (!dev || !out_buf)
        return bell_fail(BELL_BAD_MISSING, "buffer create: %s is NULL",
                         dev ? "the result" : "the device");
    BELL_TRY(hcq_check_process(dev));
    if (flags &
        ~(uint32_t)(HCQ_MEM_HOST_VISIBLE | HCQ_MEM_POISON | HCQ_MEM_SHAREABLE))
        return bell_fail(BELL_BAD_VALUE, "%s: unknown buffer flags 0x%x",
                         dev->info.name, flags);
    if (size_bytes > dev->info.max_buffer_bytes)
        return bell_fail(
            BELL_E_NO_MEMORY,
            "%s: out of memory: a buffer of %llu bytes is more than the %llu "
            "that one may have",
            dev->info.name, (unsigned long long)size_bytes,
            (unsigned long long)dev->info.max_buffer_bytes);
    if (flags & HCQ_MEM_SHAREABLE && !dev->ops->mem_export)
        return fail_unshared(dev);
    class_idx = find_class(size_bytes, &class_bytes);
    pthread_mutex_lock(&dev->lock);
    node =
        flags & HCQ_MEM_SHAREABLE ? NULL : take_cached(dev, class_idx, flags);
    pthread_mutex_unlock(&dev->lock);
    if (!node) {
        BELL_TRY(alloc_node(dev, size_bytes, class_bytes, flags, &node));
        LOG(LOG_MEM, "%s new buffer %llu bytes at 0x%llx", dev->info.name,
            (unsigned long long)size_bytes, (unsigned long long)node->mem.va);
    }
    node->class_idx = class_idx;
    assert(node->mem.size_bytes >= size_bytes);
    node->pub = (struct hcq_buffer){
        .dev = dev,
        .va = node->mem.va,
        .size_bytes = size_bytes,
        .host = node->mem.host,
        .flags = flags,
    };
    if (wants_poison(flags) && node->mem.host)
        memset(node->mem.host, POISON_BYTE, (size_t)size_bytes);
    pthread_mutex_lock(&dev->lock);
    hcq_link_add(&dev->buffers, &node->link);
    dev->live_bytes += node->mem.size_bytes;
    if (dev->live_bytes > dev->peak_bytes)
        dev->peak_bytes = dev->live_bytes;
    pthread_mutex_unlock(&dev->lock);
    *out_buf = &node->pub;
    return BELL_OK;
}

/* A node for memory that is not ours. */
static bell_status
alloc_foreign(struct hcq_device *dev, struct hcq_buffer_node **out_node)
{
    *out_node = host_calloc(1, sizeof(**out_node));
    if (!*out_node)
        return bell_fail(BELL_E_NO_MEMORY, "%s: out of memory for a buffer",
                         dev->info.name);
    return BELL_OK;
}

static void
add_foreign(struct hcq_device *dev, struct hcq_buffer_node *node,
            uint64_t size_bytes, void *host, struct hcq_buffer **out_buf)
{
    node->pub = (struct hcq_buffer){
        .dev = dev,
        .va = node->mem.va,
        .size_bytes = size_bytes,
        .host = host,
        .flags = host ? HCQ_MEM_HOST_VISIBLE : 0,
    };
    pthread_mutex_lock(&dev->lock);
    hcq_link_add(&dev->buffers, &node->link);
    pthread_mutex_unlock(&dev->lock);
    *out_buf = &node->pub;
}

bell_status
hcq_buffer_create_pinned(struct hcq_device *dev, void *ptr, uint64_t size_bytes,
                         struct hcq_buffer **out_buf)
{
    struct hcq_buffer_node *node;
    bell_status status;

    if (!dev || !ptr || !out_buf)
        return bell_fail(BELL_BAD_MISSING, "pinned buffer: %s is NULL",
                         !dev   ? "the device"
                         : !ptr ? "the memory"
                                : "the result");
    if (size_bytes > UINT64_MAX - (uint64_t)(uintptr_t)ptr)
        return bell_fail(BELL_BAD_VALUE,
                         "%s: pinned buffer: %llu bytes at %p wrap around",
                         dev->info.name, (unsigned long long)size_bytes, ptr);
    BELL_TRY(hcq_check_process(dev));
    BELL_TRY(alloc_foreign(dev, &node));
    status = dev->ops->mem_pin(dev, ptr, size_bytes, &node->mem);
    if (status != BELL_OK) {
        host_free(node);
        return status;
    }
    node->detach = dev->ops->mem_unpin;
    add_foreign(dev, node, size_bytes, ptr, out_buf);
    return BELL_OK;
}

bell_status
hcq_buffer_create_peer(struct hcq_device *dev, const struct hcq_buffer *of,
                       struct hcq_buffer **out_buf)
{
    struct hcq_buffer_node *node;
    bell_status status;

    if (!dev || !of || !out_buf)
        return bell_fail(BELL_BAD_MISSING, "peer buffer: %s is NULL",
                         !dev  ? "the device"
                         : !of ? "the buffer"
                               : "the result");
    if (!dev->ops->mem_peer)
        return bell_fail(BELL_E_UNSUPPORTED, "%s cannot use a buffer of %s",
                         dev->info.name, of->dev->info.name);
    BELL_TRY(hcq_check_process(dev));
    BELL_TRY(alloc_foreign(dev, &node));
    status = dev->ops->mem_peer(dev, of, &node->mem);
    if (status != BELL_OK) {
        host_free(node);
        return status;
    }
    node->detach = dev->ops->mem_unpeer;
    node->of = of;
    add_foreign(dev, node, of->size_bytes, of->host, out_buf);
    return BELL_OK;
}

bell_status
hcq_check_descriptors(const struct hcq_device *dev, const struct kio *kio)
{
    if (kio_gives_descriptors(kio))
        return BELL_OK;
    return bell_fail(BELL_E_UNSUPPORTED,
                     "%s plays a recording, which has no descriptors of memory",
                     dev->info.name);
}

/* src: Linux 6.12, dma_buf_show_fdinfo; since 5.3 */
bell_status
hcq_check_dmabuf(const struct hcq_device *dev, struct kio *kio, int fd,
                 char out_exporter[HCQ_NAME_MAX])
{
    static const char key[] = "exp_name:\t";
    char path[40], text[1024], *at;
    size_t n;

    BELL_TRY(hcq_check_descriptors(dev, kio));
    snprintf(path, sizeof(path), "/proc/self/fdinfo/%d", fd);
    BELL_TRY(kio_read_file(kio, path, text, sizeof(text), &n));
    at = strstr(text, key);
    if (!at)
        return bell_fail(BELL_BAD_VALUE, "descriptor %d is not a dma-buf", fd);
    if (out_exporter)
        snprintf(out_exporter, HCQ_NAME_MAX, "%.*s",
                 (int)strcspn(at + sizeof(key) - 1, "\n"),
                 at + sizeof(key) - 1);
    return BELL_OK;
}

bell_status
hcq_buffer_export(const struct hcq_buffer *buf, int *out_fd)
{
    const struct hcq_buffer_node *node;

    if (!buf || !out_fd)
        return bell_fail(BELL_BAD_MISSING, "buffer export: %s is NULL",
                         buf ? "the result" : "the buffer");
    BELL_TRY(hcq_check_process(buf->dev));
    node = HCQ_CONTAINER(buf, const struct hcq_buffer_node, pub);
    if (node->detach || !(buf->flags & HCQ_MEM_SHAREABLE))
        return bell_fail(BELL_BAD_VALUE,
                         "%s: buffer export: the buffer was not made with "
                         "HCQ_MEM_SHAREABLE",
                         buf->dev->info.name);
    return buf->dev->ops->mem_export(buf->dev, &node->mem, out_fd);
}

/* src: Linux 6.12, Documentation/driver-api/dma-buf.rst: lseek tells the size
 * of a dma-buf */
static bell_status
find_import_size(const struct hcq_device *dev, int fd, uint64_t *out_bytes)
{
    off_t end = lseek(fd, 0, SEEK_END);

    if (end < 0)
        return bell_fail_errno(
            BELL_BAD_VALUE, errno, "%s: buffer import: descriptor %d is %s: %s",
            dev->info.name, fd, errno == EBADF ? "not open" : "not memory",
            strerror(errno));
    (void)lseek(fd, 0, SEEK_SET);
    *out_bytes = (uint64_t)end;
    return BELL_OK;
}

static bell_status
check_import(const struct hcq_device *dev, uint64_t whole_bytes,
             uint64_t offset_bytes, uint64_t size_bytes)
{
    if (offset_bytes % 64)
        return bell_fail(BELL_BAD_VALUE,
                         "%s: buffer import: offset %llu is not a multiple of "
                         "64",
                         dev->info.name, (unsigned long long)offset_bytes);
    if (!size_bytes || offset_bytes > whole_bytes ||
        size_bytes > whole_bytes - offset_bytes)
        return bell_fail(BELL_BAD_INDEX,
                         "%s: buffer import: %llu bytes from byte %llu on, the "
                         "descriptor has %llu",
                         dev->info.name, (unsigned long long)size_bytes,
                         (unsigned long long)offset_bytes,
                         (unsigned long long)whole_bytes);
    return BELL_OK;
}

bell_status
hcq_buffer_import(struct hcq_device *dev, int fd, uint64_t offset_bytes,
                  uint64_t size_bytes, struct hcq_buffer **out_buf)
{
    struct hcq_buffer_node *node;
    uint64_t whole_bytes;
    bell_status status;

    if (!dev || !out_buf)
        return bell_fail(BELL_BAD_MISSING, "buffer import: %s is NULL",
                         dev ? "the result" : "the device");
    BELL_TRY(hcq_check_process(dev));
    if (!dev->ops->mem_import)
        return fail_unshared(dev);
    BELL_TRY(find_import_size(dev, fd, &whole_bytes));
    BELL_TRY(check_import(dev, whole_bytes, offset_bytes, size_bytes));
    BELL_TRY(alloc_foreign(dev, &node));
    status = dev->ops->mem_import(dev, fd, whole_bytes, &node->mem);
    if (status != BELL_OK) {
        bell_error_prefix("%s: buffer import", dev->info.name);
        host_free(node);
        return status;
    }
    assert(node->mem.size_bytes == whole_bytes);
    node->detach = dev->ops->mem_unimport;
    add_foreign(dev, node, size_bytes, node->mem.host, out_buf);
    node->pub.va += offset_bytes;
    if (node->pub.host)
        node->pub.host = (uint8_t *)node->pub.host + offset_bytes;
    return BELL_OK;
}

void
hcq_buffer_home(const struct hcq_buffer *buf, struct hcq_home *out_home)
{
    const struct hcq_buffer_node *node =
        HCQ_CONTAINER(buf, const struct hcq_buffer_node, pub);

    out_home->va = buf->va;
    out_home->size_bytes = buf->size_bytes;
    while (node->of) {
        buf = node->of;
        node = HCQ_CONTAINER(buf, const struct hcq_buffer_node, pub);
    }
    out_home->owner = buf->dev;
    out_home->dev = buf->host ? NULL : buf->dev;
    out_home->at = buf->host ? (uintptr_t)buf->host : buf->va;
}

void
hcq_buffer_hide(struct hcq_buffer *buf)
{
    struct hcq_buffer_node *node =
        HCQ_CONTAINER(buf, struct hcq_buffer_node, pub);

    pthread_mutex_lock(&buf->dev->lock);
    node->is_passing = true;
    pthread_mutex_unlock(&buf->dev->lock);
}

/* A range of memory: by the device's address, where by_va, or by its home's. */
struct place {
    const struct hcq_device *home; /* or NULL: host memory */
    uint64_t at, size_bytes;
};

/* Looks for a buffer of the device that has all of the place, and makes it the
 * same place by the other kind of address. */
static bool
find_buffer_at(struct hcq_device *dev, bool by_va, struct place *place)
{
    struct hcq_link *link;
    bool is_found = false;

    pthread_mutex_lock(&dev->lock);
    for (link = dev->buffers.next; link != &dev->buffers && !is_found;
         link = link->next) {
        const struct hcq_buffer_node *node =
            HCQ_CONTAINER(link, struct hcq_buffer_node, link);
        struct hcq_home home;
        uint64_t from;

        if (node->is_passing)
            continue;
        hcq_buffer_home(&node->pub, &home);
        from = by_va ? home.va : home.at;
        is_found = (by_va || home.dev == place->home) && place->at >= from &&
                   place->at - from <= home.size_bytes &&
                   place->size_bytes <= home.size_bytes - (place->at - from);
        if (!is_found)
            continue;
        place->home = home.dev;
        place->at = place->at - from + (by_va ? home.at : home.va);
    }
    pthread_mutex_unlock(&dev->lock);
    return is_found;
}

bool
hcq_memory_seen_by(struct hcq_device *dev, uint64_t va, uint64_t size_bytes,
                   struct hcq_device *other, uint64_t *out_va)
{
    struct place place = {.at = va, .size_bytes = size_bytes};

    if (!find_buffer_at(dev, true, &place) ||
        !find_buffer_at(other, false, &place))
        return false;
    *out_va = place.at;
    return true;
}

size_t
hcq_memory_homes(struct hcq_device *dev, struct hcq_home *homes, size_t cap)
{
    struct hcq_link *link;
    size_t n = 0;

    pthread_mutex_lock(&dev->lock);
    for (link = dev->buffers.next; link != &dev->buffers; link = link->next) {
        const struct hcq_buffer_node *node =
            HCQ_CONTAINER(link, struct hcq_buffer_node, link);
        if (n++ < cap)
            hcq_buffer_home(&node->pub, &homes[n - 1]);
    }
    pthread_mutex_unlock(&dev->lock);
    return n;
}

static void
destroy_buffer(struct hcq_buffer *buf, bool may_cache)
{
    struct hcq_buffer_node *node =
        HCQ_CONTAINER(buf, struct hcq_buffer_node, pub);
    struct hcq_device *dev = buf->dev;
    bool cached = false;

    pthread_mutex_lock(&dev->lock);
    hcq_link_remove(&node->link);
    if (!node->detach) {
        assert(dev->live_bytes >= node->mem.size_bytes);
        dev->live_bytes -= node->mem.size_bytes;
        cached =
            may_cache && !(node->pub.flags & HCQ_MEM_SHAREABLE) &&
            dev->cached_bytes + node->mem.size_bytes <= dev->cache_limit_bytes;
    }
    if (cached) {
        node->next_cached = dev->cache[node->class_idx];
        dev->cache[node->class_idx] = node;
        dev->cached_bytes += node->mem.size_bytes;
    }
    pthread_mutex_unlock(&dev->lock);
    if (cached)
        return;
    if (node->detach)
        node->detach(dev, &node->mem);
    else
        dev->ops->mem_free(dev, &node->mem);
    host_free(node);
}

void
hcq_buffer_destroy(struct hcq_buffer *buf)
{
    if (buf && !hcq_is_inherited(buf->dev))
        destroy_buffer(buf, true);
}

void
hcq_memory_fini(struct hcq_device *dev)
{
    while (dev->buffers.next != &dev->buffers) {
        struct hcq_buffer_node *node =
            HCQ_CONTAINER(dev->buffers.next, struct hcq_buffer_node, link);

        LOG(LOG_MEM, "%s closed with a buffer left: %llu bytes", dev->info.name,
            (unsigned long long)node->pub.size_bytes);
        destroy_buffer(&node->pub, false);
    }
    free_cache(dev);
}

static bell_status
check_range(const struct hcq_buffer *buf, const char *what,
            uint64_t offset_bytes, const void *data, uint64_t size_bytes)
{
    if (!buf || (!data && size_bytes))
        return bell_fail(BELL_BAD_MISSING, "buffer %s: %s is NULL", what,
                         buf ? "the data" : "the buffer");
    if (offset_bytes > buf->size_bytes ||
        size_bytes > buf->size_bytes - offset_bytes)
        return bell_fail(BELL_BAD_INDEX,
                         "buffer %s: bytes %llu to %llu of a buffer of %llu",
                         what, (unsigned long long)offset_bytes,
                         (unsigned long long)(offset_bytes + size_bytes),
                         (unsigned long long)buf->size_bytes);
    return hcq_check_process(buf->dev);
}

bell_status
hcq_buffer_write(struct hcq_buffer *buf, uint64_t offset_bytes,
                 const void *data, uint64_t size_bytes)
{
    BELL_TRY(check_range(buf, "write", offset_bytes, data, size_bytes));
    if (!size_bytes)
        return BELL_OK;
    BELL_TRY(buf->dev->ops->mem_write(buf->dev, buf->va + offset_bytes, data,
                                      size_bytes));
    if (!buf->dev->is_told)
        return BELL_OK;
    /* READ alone changes the data */
    return hcq_tell(buf->dev, KIO_TOLD_WRITTEN, "", buf->va + offset_bytes,
                    (void *)(uintptr_t)data, size_bytes);
}

bell_status
hcq_buffer_read(struct hcq_buffer *buf, uint64_t offset_bytes, void *data,
                uint64_t size_bytes)
{
    BELL_TRY(check_range(buf, "read", offset_bytes, data, size_bytes));
    if (!size_bytes)
        return BELL_OK;
    BELL_TRY(buf->dev->ops->mem_read(buf->dev, buf->va + offset_bytes, data,
                                     size_bytes));
    if (!buf->dev->is_told)
        return BELL_OK;
    return hcq_tell(buf->dev, KIO_TOLD_READ, "", buf->va + offset_bytes, data,
                    size_bytes);
}

bell_status
hcq_buffer_wrote(struct hcq_buffer *buf, uint64_t offset_bytes,
                 uint64_t size_bytes)
{
    if (!buf || !buf->host)
        return bell_fail(BELL_BAD_MISSING, "buffer wrote: %s",
                         buf ? "the host does not see the buffer"
                             : "the buffer is NULL");
    if (!buf->dev->is_told || !size_bytes)
        return BELL_OK;
    BELL_TRY(check_range(buf, "wrote", offset_bytes, buf->host, size_bytes));
    return hcq_tell(buf->dev, KIO_TOLD_WRITTEN, "", buf->va + offset_bytes,
                    (uint8_t *)buf->host + offset_bytes, size_bytes);
}

void
hcq_memory_usage(struct hcq_device *dev, uint64_t *out_live_bytes,
                 uint64_t *out_cached_bytes)
{
    *out_live_bytes = *out_cached_bytes = 0;
    if (hcq_is_inherited(dev))
        return;
    pthread_mutex_lock(&dev->lock);
    *out_live_bytes = dev->live_bytes;
    *out_cached_bytes = dev->cached_bytes;
    pthread_mutex_unlock(&dev->lock);
}

void
hcq_memory_trim(struct hcq_device *dev)
{
    if (!hcq_is_inherited(dev))
        free_cache(dev);
}
