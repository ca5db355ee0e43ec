/* The form that makes chosen calls fail, for tests.
 *
 * A plan is rules with commas between: KIND[:N[+]]=ACTION. Example:
 * "ioctl:7=ENOMEM,NV_ESC_RM_ALLOC:2+=status=0x22,poll=delay=5ms".
 *
 * KIND is open, close, ioctl, mmap, munmap, poll, read, any, an ioctl's name
 * such as NV_ESC_RM_ALLOC, or a command's or class's such as
 * HOPPER_COMPUTE_A. N counts calls of that kind from 1 (the default); with +
 * every later one too. ACTION is one of these:
 *
 * - an errno's name (ENOMEM);
 * - status=0x51 (ioctl): the call is not passed on, the struct comes back with
 *   that vendor status, if it has a member for one;
 * - truncate=BYTES: an ioctl is passed on, but only the first BYTES of the
 *   struct come back; a file that is read ends there;
 * - delay=TIME with us, ms or s;
 * - a lie about an ioctl or a file that was passed on: reply=WORD:VALUE makes
 *   one 4-byte word of the answer (the struct, then the memory that its
 *   pointers lead to) that value, random=SEED makes one word in eight random.
 */
#ifndef BELL_IOCTL_KIO_FAULT_H
#define BELL_IOCTL_KIO_FAULT_H

#include <stdint.h>

#include "base/status.h"

struct kio;

/* Takes `below` on success. BELL_E_INVALID says what is wrong in the plan. */
BELL_MUST_CHECK bell_status kio_fault_create(struct kio *below,
                                             const char *plan,
                                             struct kio **out_kio);

/* How many calls so far a rule has hit. */
uint64_t kio_fault_hits(const struct kio *kio);

/* Replaces the plan and starts counting anew. */
BELL_MUST_CHECK bell_status kio_fault_set(struct kio *kio, const char *plan);

#endif
