/* A card's life under a kernel that lies: what fuzz_kernel.c and lie_sweep.c
 * share. */
#ifndef BELL_TESTS_FUZZ_FUZZ_KERNEL_H
#define BELL_TESTS_FUZZ_FUZZ_KERNEL_H

#include "base/status.h"

/* Opens the card whose interface begins with these forms ("", "fault:PLAN@"),
 * uses it and closes it. */
BELL_MUST_CHECK bell_status fuzz_kernel_live(const char *forms);

#endif
