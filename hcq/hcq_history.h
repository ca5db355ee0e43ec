/* A queue's submissions that may still be at work: for giving room in rings
 * back, and for reports of what hangs. Not for the layers above.
 *
 * Written by the queue's thread, without a lock and without allocation; read
 * by any thread, which counts what it saw only if it is still the same
 * afterwards.
 */
#ifndef BELL_HCQ_HCQ_HISTORY_H
#define BELL_HCQ_HCQ_HISTORY_H

#include "hcq/hcq_packet.h"
#include "mem/mem_ring.h"

/* Outstanding submissions, at most; a power of two. */
#define HCQ_HISTORY_RECORDS 512u

struct hcq_record {
    _Atomic uint64_t value;            /* of the timeline; 0: being written */
    _Atomic uint64_t first;            /* 64-bit word of the packets kept */
    _Atomic uint32_t n_dw;             /* of packets */
    _Atomic uint64_t put;              /* the ring's, after it */
    struct hcq_stream *_Atomic stream; /* bound; NULL: fresh */
};

/* A bound stream that may be submitted; in history->streams. */
struct hcq_history_stream {
    struct hcq_link link;
    struct hcq_stream *stream;
};

struct hcq_history {
    _Atomic uint64_t last_value; /* submitted */
    uint64_t retired;            /* seen done; the queue's thread's */
    uint64_t n_words;
    _Atomic uint64_t *words; /* owned: packets of fresh submissions */
    struct hcq_link streams; /* dev->lock */
    struct hcq_record records[HCQ_HISTORY_RECORDS]; /* by value, modulo */
};

/* size_bytes: of the ring whose offsets hcq_history_note is given. */
BELL_MUST_CHECK bell_status hcq_history_init(struct hcq_history *history,
                                             uint64_t size_bytes);
void hcq_history_fini(struct hcq_history *history);

/* A submission that reaches `value`, just before the card is told. Its packets
 * (of a fresh stream; else `stream`) are kept at `offset` bytes: pieces of
 * the ring that are in use do not overlap, and none is smaller than the
 * packets that it came from. */
static inline void
hcq_history_note(struct hcq_history *history, uint64_t value, uint64_t offset,
                 const uint32_t *words, uint32_t n_dw,
                 struct hcq_stream *stream, uint64_t put)
{
    struct hcq_record *record =
        &history->records[value & (HCQ_HISTORY_RECORDS - 1)];
    const uint64_t *from = (const uint64_t *)(const void *)words;
    uint32_t i;

    /* What follows is not seen before the 0 is. */
    atomic_store_explicit(&record->value, 0, memory_order_relaxed);
    atomic_thread_fence(memory_order_release);
    for (i = 0; i < n_dw / 2; i++)
        atomic_store_explicit(&history->words[offset / 8 + i], from[i],
                              memory_order_relaxed);
    atomic_store_explicit(&record->first, offset / 8, memory_order_relaxed);
    atomic_store_explicit(&record->n_dw, n_dw, memory_order_relaxed);
    atomic_store_explicit(&record->put, put, memory_order_relaxed);
    atomic_store_explicit(&record->stream, stream, memory_order_relaxed);
    atomic_store_explicit(&record->value, value, memory_order_release);
    atomic_store_explicit(&history->last_value, value, memory_order_release);
}

/* Takes back what the device is done with: pieces of `ring`, and what lies
 * before *out_put, as it was noted, of the other one. False: nothing. */
bool hcq_history_retire(struct hcq_history *history,
                        const struct hcq_signal *timeline,
                        struct mem_ring *ring, uint64_t *out_put);
/* What was submitted is dropped: all of `ring` is free. */
void hcq_history_drop(struct hcq_history *history, struct mem_ring *ring);

/* Submissions that are not known to be done. */
static inline uint64_t
hcq_history_outstanding(const struct hcq_history *history)
{
    return atomic_load_explicit(&history->last_value, memory_order_relaxed) -
           history->retired;
}

/* The commands that are not done as one line; dev->lock is held. */
void hcq_history_describe(const struct hcq_history *history,
                          struct hcq_queue *queue, char *text,
                          size_t size_bytes);

/* hcq_device_ops.describe of a device whose queues have histories. */
void hcq_history_describe_all(struct hcq_device *dev, char *text,
                              size_t size_bytes);

#endif
