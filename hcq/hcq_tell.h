/* Telling a recording what no call to the kernel carries: programs, memory that
 * the host writes and reads, launches with their arguments. Called only where a
 * device's is_told is set; the launch path tests that and no more.
 */
#ifndef BELL_HCQ_HCQ_TELL_H
#define BELL_HCQ_HCQ_TELL_H

#include <stdint.h>

#include "base/status.h"
#include "ioctl/kio.h"

struct hcq_cs;
struct hcq_device;

/* READ: `data` is replaced where a recording is played. */
BELL_MUST_CHECK bell_status hcq_tell(struct hcq_device *dev,
                                     enum kio_told_kind kind, const char *name,
                                     uint64_t va, void *data,
                                     uint64_t size_bytes);
/* The launches of a stream that is about to be submitted; none: nothing. */
BELL_MUST_CHECK bell_status hcq_tell_launches(const struct hcq_cs *cs);

#endif
