/* The form that passes calls on and writes them to a cassette. */
#ifndef BELL_IOCTL_KIO_RECORD_H
#define BELL_IOCTL_KIO_RECORD_H

#include <stddef.h>

#include "base/status.h"

struct kio;

/* Takes `below` on success. A write that fails does not stop the program that
 * is recorded; kio_record_finish tells it. The file appears at `path` with the
 * first device node that is opened: where there is none, what was there stays.
 * Regions of kind SIGNAL named at a
 * doorbell are watched, and what the device wrote to them is recorded before
 * the next call. */
BELL_MUST_CHECK bell_status kio_record_create(struct kio *below,
                                              const char *path,
                                              struct kio **out_kio);

/* Ends the cassette: the first failure to record, or BELL_OK. Later calls
 * pass unrecorded. Destroying the form does the same but cannot tell. */
BELL_MUST_CHECK bell_status kio_record_finish(struct kio *kio);

/* For programs that tell no doorbells. Recording forms of the stack follow
 * AMD's queues and NVIDIA's channels by themselves and look at the rings with
 * each call; what names AMD's chips is recorded when the node is opened. Other
 * forms: nothing. */
void kio_record_foreign(struct kio *kio);
/* The same: the program is about to unmap that memory, past the stack. Where
 * NVIDIA's memory is among it, that is recorded and not looked at any more. */
void kio_record_unmapped(struct kio *kio, void *addr, size_t size_bytes);
/* Ends the cassettes of a stack's recording forms, when the program exits.
 * Returns the first failure. */
BELL_MUST_CHECK bell_status kio_record_finish_all(struct kio *kio);

#endif
