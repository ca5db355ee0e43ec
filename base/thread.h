/* Threads and time. */
#ifndef BELL_BASE_THREAD_H
#define BELL_BASE_THREAD_H

#include <stdbool.h>
#include <stdint.h>

#include "base/status.h"

/* CPUs this process may run on (its affinity mask), at least 1. BELL_THREADS
 * lowers or raises it, 1 to 1024; any other value is ignored here and refused
 * by thread_check. */
unsigned thread_cpu_count(void);

/* BELL_E_INVALID where BELL_THREADS is set and not 1 to 1024. */
BELL_MUST_CHECK bell_status thread_check(void);

/* Asks the kernel to let this process use tile registers; false where there
 * are none or it does not. */
bool thread_allow_tiles(void);

/* What pthread_create (of a thread for `what`) returned: BELL_E_NO_MEMORY. The
 * C library tells a lack of memory and too many threads by the same number. */
bell_status thread_fail(const char *what, int error);

/* Monotonic time in nanoseconds; the clock of every host timestamp. */
uint64_t time_now_ns(void);

/* How the calling thread's float arithmetic is done becomes the default: to
 * nearest, subnormals are numbers, nothing traps. Returns what it was, for
 * thread_set_floats; where we know of no such state, 0. src: System V ABI for
 * x86-64, 3.2.1 (MXCSR); Arm's FPCR */
static inline uint64_t
thread_default_floats(void)
{
#if defined(__x86_64__)
    uint64_t old = __builtin_ia32_stmxcsr();

    __builtin_ia32_ldmxcsr(0x1f80);
    return old;
#elif defined(__aarch64__)
    uint64_t old;

    __asm__ volatile("mrs %0, fpcr" : "=r"(old));
    __asm__ volatile("msr fpcr, xzr");
    return old;
#else
    return 0;
#endif
}

static inline void
thread_set_floats(uint64_t old)
{
#if defined(__x86_64__)
    __builtin_ia32_ldmxcsr((unsigned)old);
#elif defined(__aarch64__)
    __asm__ volatile("msr fpcr, %0" : : "r"(old));
#else
    (void)old;
#endif
}

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
