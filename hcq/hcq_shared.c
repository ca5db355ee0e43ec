/* Host memory that several devices see: see hcq_shared.h. */
#include "hcq/hcq_shared.h"

#include <assert.h>
#include <errno.h>
#include <sys/mman.h>

#include "base/alloc.h"
#include "base/bits.h"
#include "hcq/hcq_signal_pages.h"
#include "hcq/hcq_slot.h"

/* The largest page of a machine that we know. */
#define ALIGN_BYTES 65536u

static BELL_MUST_CHECK bell_status
map_pages(struct hcq_shared *shared, uint64_t size_bytes)
{
    shared->size_bytes = align_up(size_bytes, ALIGN_BYTES);
    shared->map_bytes = shared->size_bytes + ALIGN_BYTES;
    shared->map = mmap(NULL, (size_t)shared->map_bytes, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (shared->map == MAP_FAILED) {
        shared->map = NULL;
        return bell_fail_errno(BELL_E_NO_MEMORY, errno,
                               "out of memory for %llu bytes of the host that "
                               "several devices see: %s",
                               (unsigned long long)size_bytes, strerror(errno));
    }
    shared->host =
        (uint8_t *)(uintptr_t)align_up((uintptr_t)shared->map, ALIGN_BYTES);
    /* After a fork the devices go on with this process's pages, which must not
     * be copied when it writes. */
    (void)!madvise(shared->map, (size_t)shared->map_bytes, MADV_DONTFORK);
    return BELL_OK;
}

bell_status
hcq_shared_create(struct hcq_device *const *devs, uint32_t n_devs,
                  uint64_t size_bytes, struct hcq_shared **out_shared)
{
    struct hcq_shared *shared =
        host_calloc(1, sizeof(*shared) + n_devs * sizeof(shared->bufs[0]));
    struct bell_error_hold hold;
    bell_status status;
    uint32_t i;

    assert(n_devs > 0 && size_bytes > 0);
    if (!shared)
        return bell_fail(BELL_E_NO_MEMORY,
                         "out of memory for what %u devices see", n_devs);
    status = map_pages(shared, size_bytes);
    if (status != BELL_OK) {
        host_free(shared);
        return status;
    }
    shared->n_devs = n_devs;
    for (i = 0; i < n_devs && status == BELL_OK; i++) {
        if (devs[i])
            status = hcq_buffer_create_pinned(
                devs[i], shared->host, shared->size_bytes, &shared->bufs[i]);
    }
    if (status != BELL_OK) {
        bell_error_prefix("%s has nothing in common with the other devices",
                          devs[i - 1]->info.name);
        bell_error_hold(&hold);
        hcq_shared_destroy(shared);
        bell_error_release(&hold);
        return status;
    }
    *out_shared = shared;
    return BELL_OK;
}

void
hcq_shared_destroy(struct hcq_shared *shared)
{
    uint32_t i;

    if (!shared)
        return;
    for (i = 0; i < shared->n_devs; i++)
        hcq_buffer_destroy(shared->bufs[i]);
    munmap(shared->map, (size_t)shared->map_bytes);
    host_free(shared);
}

void
hcq_shared_signal(const struct hcq_shared *shared, uint32_t dev,
                  uint64_t offset_bytes, struct hcq_signal *out_sig)
{
    const struct hcq_buffer *buf = shared->bufs[dev];
    struct hcq_slot *slot = (void *)(shared->host + offset_bytes);

    static_assert(sizeof(struct hcq_slot) == HCQ_SIGNAL_BYTES,
                  "a slot is a signal");
    assert(shared->size_bytes <= HCQ_SHARED_SIGNALS_BYTES);
    assert(dev < shared->n_devs && offset_bytes % HCQ_SIGNAL_BYTES == 0 &&
           offset_bytes < shared->size_bytes);
    slot->is_polled = 1;
    *out_sig = (struct hcq_signal){
        .dev = buf->dev,
        /* software queues know a signal by its slot's address */
        .va = buf->dev->ops->signal_map == hcq_slot_map
                  ? (uintptr_t)slot
                  : buf->va + offset_bytes,
        .host = &slot->value,
    };
}

bell_status
hcq_signal_reaches(struct hcq_device *dev, struct hcq_device *other,
                   bool *out_reaches)
{
    struct bell_error_hold hold;
    struct hcq_signal *probe;
    bell_status status;
    uint64_t va;

    *out_reaches = dev->ops == other->ops;
    if (dev == other || dev->ops != other->ops)
        return BELL_OK;
    bell_error_hold(&hold);
    BELL_TRY(hcq_signal_create(other, 0, &probe));
    status = dev->ops->signal_map(dev, probe, &va);
    hcq_signal_destroy(probe);
    *out_reaches = status == BELL_OK;
    if (status != BELL_OK && status != BELL_E_UNSUPPORTED)
        return status;
    bell_error_release(&hold);
    return BELL_OK;
}
