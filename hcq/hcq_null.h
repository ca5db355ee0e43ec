/* The device that compiles and runs nothing: BACKEND@null:CHIP.
 *
 * It says of itself what the chip is, takes buffers (addresses without memory),
 * programs and submissions, and completes these at once: signals and timestamps
 * are written, nothing else. Writes to its memory are dropped, reads are
 * refused.
 */
#ifndef BELL_HCQ_HCQ_NULL_H
#define BELL_HCQ_HCQ_NULL_H

#include "hcq/hcq_backend.h"

/* `chip` is what follows "null:". BELL_E_NO_DEVICE with those that the backend
 * has. */
BELL_MUST_CHECK bell_status hcq_null_open(const char *backend, unsigned idx,
                                          const char *chip,
                                          struct hcq_device **out_dev);

#endif
