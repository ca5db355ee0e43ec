/* hcq/amd/amd_watch.c: what a doorbell of each kind of ring tells those who
 * record it, submission by submission, many times around the smallest ring.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "amd_rig.h"
#include "base/bits.h"
#include "hcq/amd/amd_kfd.h"

/* What the last two doorbells told: the submission, and when it was over. */
static struct told {
    volatile void *address;
    uint64_t value;
    uint32_t n;
    struct kio_region list[256];
} told[2];
static uint32_t n_told;

static const struct kio_ops *real_ops;
static struct kio_ops watching_ops;

static void
listen(struct kio *kio, const struct kio_bell *bell)
{
    struct told *to = &told[n_told++ % 2];

    (void)kio;
    assert_int_equal(bell->value_bytes, 8);
    assert_true(bell->n_regions <= ARRAY_LEN(to->list));
    to->address = bell->address;
    to->value = bell->value;
    to->n = bell->n_regions;
    memcpy(to->list, bell->regions, bell->n_regions * sizeof(to->list[0]));
}

static struct kio *
kio_of(const struct rig *r)
{
    return r->queue->channel.dev->process->kio;
}

static struct rig
open_watched(const struct kind *kind)
{
    struct rig r = rig_open(kind, RING_BYTES);

    real_ops = kio_of(&r)->ops;
    watching_ops = *real_ops;
    watching_ops.doorbell = listen;
    kio_of(&r)->ops = &watching_ops;
    return r;
}

static void
close_watched(struct rig *r)
{
    kio_of(r)->ops = real_ops;
    rig_close(r);
}

/* The next region is of this kind, and here. */
static void
take(const struct told *t, uint32_t *i, uint32_t kind, uint64_t va, uint64_t n)
{
    assert_true(*i < t->n);
    assert_int_equal(t->list[*i].kind, kind);
    assert_int_equal(t->list[*i].va, va);
    assert_int_equal((uintptr_t)t->list[*i].cpu, va);
    assert_int_equal(t->list[*i].size_bytes, n);
    (*i)++;
}

static uint32_t
unit_of(const struct rig *r)
{
    switch (r->queue->channel.kind) {
    case AMD_RING_PM4:
        return 4;
    case AMD_RING_AQL:
        return 64;
    case AMD_RING_SDMA:
        break;
    }
    return 1;
}

/* A part of the ring, and behind it what its packets point to. */
static void
take_packets(const struct rig *r, const struct told *t, uint32_t *i,
             uint64_t from, uint64_t to)
{
    const struct amd_channel *channel = &r->queue->channel;
    const uint32_t *slot = channel->ring + from / 4;

    if (from == to)
        return;
    take(t, i, KIO_REGION_RING, (uintptr_t)channel->ring + from, to - from);
    if (channel->kind == AMD_RING_SDMA)
        return;
    if (channel->kind == AMD_RING_AQL)
        slot++; /* behind its header */
    take(t, i, KIO_REGION_PUSH, slot[1] | (uint64_t)slot[2] << 32,
         4ull * (slot[3] & 0xfffff));
}

static void
check_submission(const struct rig *r, uint64_t put_before)
{
    const struct amd_channel *channel = &r->queue->channel;
    const struct told *t = &told[0], *end = &told[1];
    uint64_t size = channel->ring_bytes, unit = unit_of(r);
    uint64_t from = put_before * unit % size, to = channel->put * unit % size;
    uint32_t i = 0, n_signals = 0;

    assert_int_equal(n_told, 2);
    assert_ptr_equal(t->address, channel->doorbell);
    take(t, &i, KIO_REGION_CONTROL, channel->pointers.va, 4096);
    for (; t->list[i].kind == KIO_REGION_SIGNAL; i++) {
        uint64_t va = t->list[i].va, timeline = r->base->timeline->va;

        n_signals += timeline >= va && timeline < va + t->list[i].size_bytes;
    }
    assert_int_equal(n_signals, 1);
    if (to <= from) {
        take_packets(r, t, &i, from, size);
        from = 0;
    }
    take_packets(r, t, &i, from, to);
    assert_int_equal(i, t->n);
    assert_int_equal(end->n, 0);
    assert_int_equal(end->value, 0);
    assert_ptr_equal(end->address, channel->doorbell);
}

static void
submissions(void **state)
{
    uint32_t i;
    size_t k;

    (void)state;
    for (k = 0; k < ARRAY_LEN(ring_kinds); k++) {
        struct rig r = open_watched(&ring_kinds[k]);

        for (i = 0; i < 300; i++) {
            uint64_t put = r.queue->channel.put;

            n_told = 0;
            rig_ok(rig_submit_release(&r));
            check_submission(&r, put);
            rig_ok(hcq_queue_wait(r.base, LONG_NS));
        }
        close_watched(&r);
    }
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(submissions),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
