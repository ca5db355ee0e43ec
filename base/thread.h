/* Threads and time. */
#ifndef BELL_BASE_THREAD_H
#define BELL_BASE_THREAD_H

#include <stdbool.h>
#include <stdint.h>

#include "base/status.h"

/* CPUs this process may run on (its affinity mask), at least 1. BELL_THREADS
 * lowers or raises it, 1 to 1024; what is no such number counts for nothing
 * here and is refused by thread_check. */
unsigned thread_cpu_count(void);

/* BELL_E_INVALID where BELL_THREADS is set and not 1 to 1024. */
BELL_MUST_CHECK bell_status thread_check(void);

/* Asks the kernel to let this process use tile registers; false where there
 * are none or it does not. */
bool thread_allow_tiles(void);

/* Monotonic time in nanoseconds; the clock of every host timestamp. */
uint64_t time_now_ns(void);

/* One step of a spin loop: tells the core that we wait. */
static inline void
thread_relax(void)
{
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

#endif
