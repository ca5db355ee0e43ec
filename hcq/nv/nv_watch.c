/* What a doorbell submits, for those who record it: the ring's new entries,
 * the pushbuffers that they point to, the launch descriptors that those send,
 * the control words, and the memory that the card answers in.
 *
 * Off the launch path: called only where a form of kio listens. There every
 * submission is waited for, for a while: what the card wrote is then seen at a
 * place that is the same in every run, which a replay needs.
 */
#include <assert.h>

#include "base/bits.h"
#include "base/thread.h"
#include "hcq/nv/nv_control.h"
#include "hcq/nv/nv_gen.h"
#include "hcq/nv/regs/nv_compute.h"
#include "hcq/nv/regs/nv_host.h"
#include "hcq/nv/regs/nv_mem.h"
#include "hcq/nv/regs/nv_qmd.h"

#define MAX_REGIONS 256

/* A submission that waits for something else is left alone after this. */
#define SETTLE_NS 50000000ull

struct nv_regions {
    struct nv_device *dev;
    uint32_t sem[5]; /* the host semaphore's methods, as sent last */
    struct nv_release release;
    struct kio_region list[MAX_REGIONS];
    uint32_t n;
};

static void
nv_watch_region(struct nv_regions *r, const volatile void *cpu, uint64_t va,
                uint64_t size_bytes, enum kio_region_kind kind)
{
    if (!cpu || r->n == MAX_REGIONS)
        return;
    r->list[r->n++] = (struct kio_region){cpu, va, size_bytes, kind};
}

/* The launch descriptors from that address on, and a value that one stores at
 * its end. */
static void
add_descriptors(struct nv_regions *r, uint64_t va)
{
    enum nv_qmd_gen gen = r->dev->chip.compute->launch->gen;
    uint64_t bytes = nv_size_qmd_launch(gen) * 4ull;
    uint32_t words[NV_QMD_LAUNCH_DW];

    while (va) {
        const volatile uint32_t *w =
            nv_memory_cpu(r->dev, va, bytes, NV_CPU_MAP);
        uint32_t i;

        nv_watch_region(r, w, va, bytes, KIO_REGION_DESCRIPTOR);
        if (!w)
            return;
        for (i = 0; i < bytes / 4; i++)
            words[i] = w[i];
        if (nv_get_qmd_launch_release0_enable(gen, words))
            r->release = (struct nv_release){
                nv_get_qmd_launch_release0_addr(gen, words),
                nv_get_qmd_launch_release0_payload(gen, words),
            };
        /* 0 where none follows (nv_qmd.c) */
        va = (uint64_t)nv_get_qmd_launch_dependent_qmd0_pointer(gen, words)
             << 8;
    }
}

/* A semaphore that the host engine releases: the last one, or a descriptor's,
 * is the end of a submission. */
static void
look_at_semaphore(struct nv_regions *r, uint32_t idx, uint32_t value)
{
    struct nv_host_sem sem;

    r->sem[idx] = value;
    if (idx + 1 < ARRAY_LEN(r->sem))
        return;
    /* The widest addresses; narrower ones have zeros there. */
    sem = nv_unpack_host_sem(NV_HOST_GEN_C86F, r->sem);
    if (sem.operation == NV_HOST_SEM_OP_RELEASE)
        r->release = (struct nv_release){sem.offset, sem.payload};
}

/* One method's value, wherever it is sent. */
static void
look_at_method(struct nv_regions *r, uint32_t subchannel, uint32_t method,
               uint32_t value)
{
    if (method >= NV_HOST_SEM && method < NV_HOST_SEM + 4 * ARRAY_LEN(r->sem))
        look_at_semaphore(r, (method - NV_HOST_SEM) / 4, value);
    if (subchannel == NV_HOST_SUBCHANNEL_COMPUTE && method == NV_COMPUTE_PCAS_A)
        add_descriptors(r, (uint64_t)value << 8);
}

/* Walks a pushbuffer for launches and releases. */
static void
look_at_push(struct nv_regions *r, const volatile uint32_t *words,
             uint64_t n_dw)
{
    const enum nv_host_gen gen = NV_HOST_GEN_C56F;
    uint64_t at = 0;

    while (at < n_dw) {
        uint32_t head = words[at++], i;
        struct nv_host_incr h = nv_unpack_host_incr(gen, head);
        bool grows = nv_match_host_incr(gen, &head);

        if (nv_match_host_immd(gen, &head))
            continue;
        for (i = 0; i < h.count && at < n_dw; i++, at++)
            look_at_method(r, h.subchannel, h.address + (grows ? 4 * i : 0),
                           words[at]);
    }
}

static void
add_push(struct nv_regions *r, uint64_t entry)
{
    struct nv_host_gp_entry e =
        nv_unpack_host_gp_entry(NV_HOST_GEN_C56F, entry);
    uint64_t bytes = 4ull * e.length;
    const volatile void *cpu =
        nv_memory_cpu(r->dev, e.get, bytes, NV_CPU_MAPPED);

    nv_watch_region(r, cpu, e.get, bytes, KIO_REGION_PUSH);
    if (cpu)
        look_at_push(r, cpu, e.length);
}

static void
add_signals(void *user, const struct hcq_signal_page *page)
{
    nv_watch_region(user, page->host, page->va, HCQ_SIGNAL_PAGE_BYTES,
                    KIO_REGION_SIGNAL);
}

static void
add_entries(struct nv_regions *r, const struct nv_channel *channel,
            uint32_t from, uint32_t to)
{
    assert(from <= to && to <= channel->n_entries);
    if (from != to)
        nv_watch_region(r, channel->ring + from,
                        channel->control.va + 8ull * from, 8ull * (to - from),
                        KIO_REGION_RING);
}

struct nv_release
nv_watch_ring(const struct nv_channel *channel)
{
    uint32_t ring_bytes = 8 * channel->n_entries, i;
    struct nv_regions r = {.dev = channel->dev};
    struct kio_bell bell = {
        .address = channel->dev->doorbell,
        .value = channel->token,
        .value_bytes = 4,
        .regions = r.list,
    };

    assert(channel->put < channel->n_entries &&
           channel->rung < channel->n_entries);
    if (channel->put >= channel->rung) {
        add_entries(&r, channel, channel->rung, channel->put);
    } else {
        add_entries(&r, channel, channel->rung, channel->n_entries);
        add_entries(&r, channel, 0, channel->put);
    }
    nv_watch_region(&r,
                    (const volatile uint8_t *)channel->control.cpu + ring_bytes,
                    channel->control.va + ring_bytes,
                    sizeof(struct nv_mem_userd), KIO_REGION_CONTROL);
    nv_watch_region(&r, channel->notice.cpu, channel->notice.va,
                    channel->notice.size_bytes, KIO_REGION_SIGNAL);
    hcq_signal_pages_each(channel->dev->signals, add_signals, &r);
    for (i = channel->rung; i != channel->put;
         i = (i + 1) & (channel->n_entries - 1))
        add_push(&r, channel->ring[i]);
    bell.n_regions = r.n;
    kio_doorbell(channel->dev->kio, &bell);
    return r.release;
}

void
nv_watch_settle(const struct nv_channel *channel,
                const struct nv_release *release)
{
    const struct kio_bell bell = {.address = channel->dev->doorbell};
    const uint64_t *value =
        nv_memory_cpu(channel->dev, release->va, 8, NV_CPU_HOST);
    uint64_t start_ns = time_now_ns();

    while (value && __atomic_load_n(value, __ATOMIC_ACQUIRE) < release->value &&
           !hcq_device_is_lost(&channel->dev->base) &&
           time_now_ns() - start_ns < SETTLE_NS)
        thread_relax();
    kio_doorbell(channel->dev->kio, &bell);
}
