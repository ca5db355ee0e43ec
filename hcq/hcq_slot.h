/* Signals of devices whose queues are threads of this process: memory of the
 * host, with sleeping and waking by futex. Such devices see each other's.
 */
#ifndef BELL_HCQ_HCQ_SLOT_H
#define BELL_HCQ_HCQ_SLOT_H

#include "hcq/hcq_backend.h"

struct hcq_feed;

/* A signal's memory; 64 bytes, so that signals share no cache line. A signal's
 * `va` is its slot's address. */
struct hcq_slot {
    _Alignas(64) uint64_t value;
    uint64_t timestamp;
    uint32_t n_waiters; /* threads that sleep on the value */
    /* Who writes it wakes nobody: threads look now and then. Constant. */
    uint32_t is_polled;
    /* A timeline's feed, where its queue has to be told that somebody waits;
     * else NULL. */
    struct hcq_feed *feed;
};

/* Sleeps while the value is `seen`, at most max_ns. */
void hcq_slot_sleep(struct hcq_slot *slot, uint64_t seen, uint64_t max_ns);
/* After a store of the value that is sequentially consistent. */
void hcq_slot_wake(struct hcq_slot *slot);

/* The signal_ functions of struct hcq_device_ops. */
BELL_MUST_CHECK bell_status hcq_slot_alloc(struct hcq_device *dev,
                                           uint64_t *out_va,
                                           uint64_t **out_host);
void hcq_slot_free(struct hcq_device *dev, struct hcq_signal *sig);
void hcq_slot_signal_wake(struct hcq_signal *sig);
void hcq_slot_signal_sleep(struct hcq_signal *sig, uint64_t seen,
                           uint64_t max_ns);
BELL_MUST_CHECK bell_status hcq_slot_map(struct hcq_device *dev,
                                         const struct hcq_signal *sig,
                                         uint64_t *out_va);

/* Sleeps while *word is `seen`, at most max_ns. */
void hcq_futex_wait(void *word, uint32_t seen, uint64_t max_ns);
void hcq_futex_wake(void *word, int n_threads);
/* Sleeps less than a second. */
void hcq_nap(uint64_t ns);

#endif
