/* CPU count and monotonic time. */
#include "base/thread.h"

#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "base/env.h"

#define THREADS_MAX 1024

/* BELL_THREADS; 0 where it is not set or no number of threads. */
static unsigned
threads_asked_for(const char *text)
{
    unsigned long n;
    char *end;

    if (!text || *text < '0' || *text > '9')
        return 0;
    n = strtoul(text, &end, 10);
    return *end == '\0' && n <= THREADS_MAX ? (unsigned)n : 0;
}

unsigned
thread_cpu_count(void)
{
    unsigned asked = threads_asked_for(env_get("BELL_THREADS"));
    cpu_set_t set;
    int count = 1;

    if (asked)
        return asked;
    if (sched_getaffinity(0, sizeof(set), &set) == 0)
        count = CPU_COUNT(&set);
    return count > 0 ? (unsigned)count : 1;
}

/* src: Linux 6.12, Documentation/arch/x86/xstate.rst */
#define ARCH_REQ_XCOMP_PERM 0x1023
#define XFEATURE_XTILE_DATA 18

bool
thread_allow_tiles(void)
{
#if defined(__x86_64__)
    return syscall(SYS_arch_prctl, ARCH_REQ_XCOMP_PERM, XFEATURE_XTILE_DATA) ==
           0;
#else
    return false;
#endif
}

bell_status
thread_check(void)
{
    const char *text = env_get("BELL_THREADS");

    if (text && !threads_asked_for(text))
        return bell_fail(BELL_E_INVALID, "BELL_THREADS is '%.40s', not 1 to %d",
                         text, THREADS_MAX);
    return BELL_OK;
}

bell_status
thread_fail(const char *what, int error)
{
    return bell_fail_errno(BELL_E_NO_MEMORY, error,
                           "%s: cannot start a thread: %s (out of memory, or "
                           "too many threads: see ulimit -v and -u)",
                           what, strerror(error));
}

uint64_t
time_now_ns(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}
