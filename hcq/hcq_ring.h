/* What a card's queue has under way: memory of its own for what packets become
 * (the push ring), the slots of its channel that point there, and the packets
 * themselves, for reports of what hangs. Not for the layers above.
 *
 * A submission is one piece of the push ring, whose words and data it holds,
 * and some slots. All is given back when the queue's timeline has come to its
 * value. Packets of fresh streams stay where they were emitted, in a ring of
 * three times what a stream takes: those under way, what was left out before
 * the ring's end, and the next stream do not overlap, since a packet is never
 * larger than what it becomes.
 *
 * Written by the queue's thread, without a lock and without allocation; read
 * by any thread, which counts what it saw only if it is still the same
 * afterwards.
 */
#ifndef BELL_HCQ_HCQ_RING_H
#define BELL_HCQ_HCQ_RING_H

#include "hcq/hcq_order.h"
#include "hcq/hcq_packet.h"
#include "mem/mem_ring.h"

/* Outstanding submissions, at most; a power of two. */
#define HCQ_RING_RECORDS 512u

struct hcq_record {
    _Atomic uint64_t value;        /* of the timeline; 0: being written */
    const uint32_t *_Atomic words; /* packets of a fresh stream */
    _Atomic uint32_t n_dw;
    struct hcq_stream *_Atomic stream; /* bound; NULL: fresh */
    uint64_t slot_put;                 /* after it; the queue's thread's */
};

struct hcq_ring {
    /* Constant once the queue is made. */
    uint32_t word_align, unit_bytes;
    uint64_t max_slots;    /* that a submission may take */
    const char *slot_name; /* of several, for messages */
    struct hcq_extent own; /* of a fresh submission without packets */

    struct mem_ring push;
    uint64_t slot_put, slot_tail; /* next one; those before are free again */
    struct hcq_extent fresh;      /* of the open stream, and its own */
    uint32_t next_dw;             /* where the next stream's packets go */
    uint64_t retired;             /* seen done */
    _Atomic uint64_t last_value;  /* submitted */
    struct hcq_record records[HCQ_RING_RECORDS]; /* by value, modulo */
};

/* push_bytes is a power of two. Words begin at a multiple of word_align bytes,
 * data at one of unit_bytes. */
BELL_MUST_CHECK bell_status hcq_ring_init(struct hcq_ring *ring,
                                          uint64_t push_bytes,
                                          uint32_t word_align,
                                          uint32_t unit_bytes);
void hcq_ring_fini(struct hcq_ring *ring);

/* Whether that is not more than the rings can ever take. */
static inline bool
hcq_ring_takes(const struct hcq_ring *ring, const struct hcq_extent *extent)
{
    uint64_t unit = ring->unit_bytes;
    uint64_t bytes = (extent->n_dw * 4 + unit - 1) & ~(unit - 1);

    return bytes + extent->n_units * unit <= ring->push.size_bytes &&
           extent->n_slots <= ring->max_slots;
}

/* Where n_dw words and behind them n_units of data go, *out_data_at bytes from
 * the words' start; and there are n_slots, which begin at slot_put. Waits for
 * the device if need be. */
BELL_MUST_CHECK bell_status hcq_ring_room(struct hcq_queue *queue,
                                          const struct hcq_extent *extent,
                                          uint64_t *out_offset,
                                          uint64_t *out_data_at);
/* Takes back what the device is done with; false: nothing. */
bool hcq_ring_retire(struct hcq_queue *queue);
/* Submissions are dropped: all is free. The next slot is `slot`. */
void hcq_ring_drop(struct hcq_ring *ring, uint64_t slot);

/* A submission that reaches `value`, of what room was made for, up to `slot`:
 * just before the card is told. stream NULL: the fresh one. */
static inline void
hcq_ring_note(struct hcq_queue *queue, uint64_t value,
              struct hcq_stream *stream, uint64_t slot)
{
    struct hcq_ring *ring = queue->ring;
    struct hcq_record *record = &ring->records[value & (HCQ_RING_RECORDS - 1)];
    const struct hcq_cs *cs = &queue->cs;

    assert(value >
           atomic_load_explicit(&ring->last_value, memory_order_relaxed));
    assert(slot >= ring->slot_put && slot - ring->slot_tail <= ring->max_slots);
    /* The following stores are not seen before the 0 is. */
    atomic_store_explicit(&record->value, 0, memory_order_relaxed);
    atomic_thread_fence(memory_order_release);
    atomic_store_explicit(&record->words, cs->words, memory_order_relaxed);
    atomic_store_explicit(&record->n_dw, stream ? 0 : cs->n_dw,
                          memory_order_relaxed);
    atomic_store_explicit(&record->stream, stream, memory_order_relaxed);
    record->slot_put = ring->slot_put = slot;
    atomic_store_explicit(&record->value, value, memory_order_release);
    atomic_store_explicit(&ring->last_value, value, memory_order_release);
    if (!stream)
        ring->next_dw += cs->n_dw;
    mem_ring_fence(&ring->push, value);
}

/* Submissions that are not known to be done. */
static inline uint64_t
hcq_ring_outstanding(const struct hcq_ring *ring)
{
    return atomic_load_explicit(&ring->last_value, memory_order_relaxed) -
           ring->retired;
}

/* Whether something that was submitted is not done. */
static inline bool
hcq_ring_busy(const struct hcq_queue *queue)
{
    return hcq_signal_value(queue->timeline) <
           atomic_load_explicit(&queue->ring->last_value, memory_order_acquire);
}

/* ---- reports; the device's lock is held ---------------------------------- */

/* The commands that are not done as one line: "exec NAME 1x1x1 of 32x1x1, 2
 * args, poll ..."; "" when there are none. */
void hcq_ring_describe(struct hcq_queue *queue, char *text, size_t size_bytes);

/* The first launch that is not done: of `prog`, or where that is NULL of any
 * program. Its program's name and how many work-groups it has; false: there is
 * none. */
bool hcq_ring_find_exec(struct hcq_queue *queue,
                        const struct hcq_program_base *prog,
                        char name[HCQ_NAME_MAX], uint64_t *out_n_groups);

/* The launches of the oldest submission that is not done, where nothing in it
 * may wait for others: one of them does not end. How many there are, at least
 * 1, and the first one's program; 0: something else stands there. */
unsigned hcq_ring_find_endless(struct hcq_queue *queue,
                               char name[HCQ_NAME_MAX]);

/* hcq_device_ops.describe of a device whose queues have rings; the lock is not
 * held. */
void hcq_ring_describe_all(struct hcq_device *dev, char *text,
                           size_t size_bytes);

#endif
