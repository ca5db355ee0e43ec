/* What a doorbell submits, for those who record it: the ring's new packets,
 * the indirect buffers that they point to, the queue's pointers, and the
 * pages of signals that the card answers in. Arguments of launches are not
 * among it.
 *
 * Off the launch path: called only where a form of kio listens. There every
 * submission is waited for, for a while: what the card wrote is then seen at a
 * place that is the same in every run, which a replay needs.
 */
#include <assert.h>

#include "base/bits.h"
#include "base/thread.h"
#include "hcq/amd/amd_kfd.h"
#include "hcq/amd/regs/amd_object.h"
#include "hcq/amd/regs/amd_pm4.h"

#define MAX_REGIONS 256
#define PAGE_BYTES  4096u

/* A submission that waits for something else is left alone after this. */
#define SETTLE_NS 50000000ull

struct regions {
    const struct amd_channel *channel;
    struct kio_region list[MAX_REGIONS];
    uint32_t n;
};

/* The driver's own memory has one address for both. */
static void
amd_watch_region(struct regions *r, uint64_t va, uint64_t size_bytes,
                 enum kio_region_kind kind)
{
    if (size_bytes && r->n < MAX_REGIONS)
        r->list[r->n++] = (struct kio_region){
            (const volatile void *)(uintptr_t)va, va, size_bytes, kind};
}

/* Bytes of one unit of the queue's pointers. */
static uint32_t
unit_bytes(enum amd_ring_kind kind)
{
    static const uint32_t bytes[] = {
        [AMD_RING_PM4] = 4, [AMD_RING_AQL] = 64, [AMD_RING_SDMA] = 1};

    assert((uint32_t)kind < ARRAY_LEN(bytes));
    return bytes[kind];
}

static void
add_pm4_buffer(struct regions *r, const uint32_t words[4])
{
    struct amd_pm4_indirect_buffer ib;

    if (!amd_match_pm4_indirect_buffer(AMD_PM4_GEN_GFX9, words))
        return;
    ib = amd_unpack_pm4_indirect_buffer(AMD_PM4_GEN_GFX9, words);
    amd_watch_region(r, ib.base, 4ull * ib.size, KIO_REGION_PUSH);
}

/* What the packet at `at` points to; the bytes to the next one. */
static uint32_t
look_at_packet(struct regions *r, const uint8_t *at, uint64_t left_bytes)
{
    const uint32_t *words = (const uint32_t *)(const void *)at;

    switch (r->channel->kind) {
    case AMD_RING_PM4:
        if (left_bytes >= 16)
            add_pm4_buffer(r, words);
        return 4;
    case AMD_RING_AQL:
        add_pm4_buffer(r, words + AMD_OBJECT_AQL_PM4_INDIRECT_BUFFER / 4);
        return 64;
    case AMD_RING_SDMA: /* to nothing */
        break;
    }
    return (uint32_t)left_bytes;
}

/* A part of the ring that does not wrap. */
static void
add_packets(struct regions *r, uint64_t from, uint64_t to)
{
    const uint8_t *ring = r->channel->ring_mem.cpu;
    uint64_t at = from;

    assert(from <= to && to <= r->channel->ring_bytes);
    amd_watch_region(r, r->channel->ring_mem.va + from, to - from,
                     KIO_REGION_RING);
    while (at < to)
        at += look_at_packet(r, ring + at, to - at);
}

static void
tell_amd(struct regions *r, uint64_t value)
{
    const struct amd_channel *channel = r->channel;
    const struct kio_bell bell = {
        .address = channel->doorbell,
        .value = value,
        .value_bytes = 8,
        .n_regions = r->n,
        .regions = r->list,
    };

    kio_doorbell(channel->dev->process->kio, &bell);
}

static void
add_signal_page(void *user, const struct hcq_signal_page *page)
{
    amd_watch_region(user, page->va, HCQ_SIGNAL_PAGE_BYTES, KIO_REGION_SIGNAL);
}

void
amd_watch_ring(const struct amd_channel *channel, uint64_t from, uint64_t value)
{
    struct regions r = {.channel = channel};
    uint64_t unit = unit_bytes(channel->kind), size = channel->ring_bytes;
    uint64_t first = from * unit & (size - 1);
    uint64_t last = channel->put * unit & (size - 1);

    amd_watch_region(&r, channel->pointers.va, PAGE_BYTES, KIO_REGION_CONTROL);
    hcq_signal_pages_each(channel->dev->signals, add_signal_page, &r);
    if (from != channel->put && first >= last) {
        add_packets(&r, first, size);
        first = 0;
    }
    add_packets(&r, first, last);
    tell_amd(&r, value);
}

/* Whether the card has read all that is in the ring. */
static bool
is_read(const struct amd_channel *channel)
{
    uint64_t read = __atomic_load_n(channel->rptr, __ATOMIC_ACQUIRE);

    if (channel->kind == AMD_RING_PM4) /* it wraps with the ring */
        return ((channel->put - read) & (channel->ring_bytes / 4 - 1)) == 0;
    return read == channel->put;
}

void
amd_watch_settle(const struct amd_channel *channel)
{
    struct regions r = {.channel = channel};
    uint64_t start_ns = time_now_ns();

    while (!is_read(channel) && !hcq_device_is_lost(&channel->dev->base) &&
           time_now_ns() - start_ns < SETTLE_NS)
        thread_relax();
    tell_amd(&r, 0);
}
