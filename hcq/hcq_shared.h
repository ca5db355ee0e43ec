/* Host memory that several devices see, whatever their drivers: pages of this
 * process, pinned for each device. What devices of different kinds have in
 * common: signals between them, and memory that copies go through.
 *
 * Signals are in memory of their own, at most HCQ_SHARED_SIGNALS_BYTES of it:
 * an engine that looks at signals may address less than one that copies. They
 * are aliases: each device has one, of its own address, for the same word.
 * Nobody wakes who sleeps on such a word, so software queues look at it again
 * and again.
 */
#ifndef BELL_HCQ_HCQ_SHARED_H
#define BELL_HCQ_HCQ_SHARED_H

#include "hcq/hcq_backend.h"

#define HCQ_SHARED_SIGNALS_BYTES 65536u

/* Owned by its creator, destroyed before its devices are closed. */
struct hcq_shared {
    uint8_t *host; /* 64 KiB aligned */
    uint64_t size_bytes;
    void *map; /* owned */
    uint64_t map_bytes;
    uint32_t n_devs;
    struct hcq_buffer *bufs[]; /* owned; each device's */
};

/* Zeros, seen by each of the devices; NULL in between is none.
 * BELL_E_UNSUPPORTED: one cannot see host memory; the message says which. */
BELL_MUST_CHECK bell_status hcq_shared_create(struct hcq_device *const *devs,
                                              uint32_t n_devs,
                                              uint64_t size_bytes,
                                              struct hcq_shared **out_shared);
/* No submitted work may still use it. NULL is allowed. */
void hcq_shared_destroy(struct hcq_shared *shared);

/* Makes *out_sig the signal at an offset, a multiple of HCQ_SIGNAL_BYTES, as
 * device number `dev` sees it. Not for hcq_signal_destroy. */
void hcq_shared_signal(const struct hcq_shared *shared, uint32_t dev,
                       uint64_t offset_bytes, struct hcq_signal *out_sig);

/* Whether `dev` may wait for, and set, signals of `other` itself. */
BELL_MUST_CHECK bell_status hcq_signal_reaches(struct hcq_device *dev,
                                               struct hcq_device *other,
                                               bool *out_reaches);

#endif
