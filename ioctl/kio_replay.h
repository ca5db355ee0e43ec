/* The form that answers from a cassette.
 *
 * Calls must come in the recorded order with the recorded requests: fields that
 * only the kernel writes do not count, and pointers count as null or not. The
 * first difference is kept, with its fields; that call and all later ones fail
 * with EPROTO and that text, which kio_broken tells too.
 *
 * Mappings are plain memory, at the recorded address where it is free, with
 * what the device wrote applied when the recording saw it. What drivers tell
 * (struct kio_told) is compared in the same way; the host reads what it read
 * then.
 */
#ifndef BELL_IOCTL_KIO_REPLAY_H
#define BELL_IOCTL_KIO_REPLAY_H

#include <stdint.h>

#include "base/status.h"

struct kio;

BELL_MUST_CHECK bell_status kio_replay_create(const char *path,
                                              struct kio **out_kio);

/* Call at the end: BELL_E_INTERNAL, with the first difference, or with how
 * many recorded calls were never made. */
BELL_MUST_CHECK bell_status kio_replay_finish(struct kio *kio);

#endif
