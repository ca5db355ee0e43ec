/* The form that makes the kernel below one of larger pages, for tests: 16 or
 * 64 KiB, as ARM hosts have. Mappings begin at multiples of them, and what
 * such a kernel refuses is refused: addresses, offsets and memory of the
 * caller that lie otherwise.
 */
#ifndef BELL_IOCTL_KIO_PAGES_H
#define BELL_IOCTL_KIO_PAGES_H

#include "base/status.h"

struct kio;

/* `text` is the size in bytes, "65536". Takes `below` on success. */
BELL_MUST_CHECK bell_status kio_pages_create(struct kio *below,
                                             const char *text,
                                             struct kio **out_kio);

#endif
