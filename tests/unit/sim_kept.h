/* What simulated KFDs have when all devices are closed. */
#ifndef BELL_TESTS_UNIT_SIM_KEPT_H
#define BELL_TESTS_UNIT_SIM_KEPT_H

#include "sim/amd/sim_amd.h"

/* Each process that opened GPUs keeps: the files, a space and the page of the
 * HDP for each GPU, the page of events, the signal and two exceptions; and
 * nothing else. */
static inline void
expect_kept(void)
{
    struct sim_amd_usage u;

    sim_amd_usage_all(&u);
    if (u.queues || u.files != u.processes + u.spaces ||
        u.events != 3 * u.processes || u.buffers != u.processes + u.spaces ||
        u.va_mapped_bytes != 0x8000ull * u.spaces)
        fail_msg("%u processes, %u files, %u spaces, %u queues, %u events, %u "
                 "buffers, %llu bytes, %llu mapped",
                 u.processes, u.files, u.spaces, u.queues, u.events, u.buffers,
                 (unsigned long long)u.memory_bytes,
                 (unsigned long long)u.va_mapped_bytes);
}

#endif
