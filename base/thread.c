/* CPU count and monotonic time. */
#include "base/thread.h"

#include <sched.h>
#include <stdlib.h>
#include <time.h>

unsigned
thread_cpu_count(void)
{
    const char *text = getenv("BELL_THREADS");
    cpu_set_t set;
    int count = 1;

    if (text) {
        long n = strtol(text, NULL, 10);
        if (n >= 1 && n <= 1024)
            return (unsigned)n;
    }
    if (sched_getaffinity(0, sizeof(set), &set) == 0)
        count = CPU_COUNT(&set);
    return count > 0 ? (unsigned)count : 1;
}

uint64_t
time_now_ns(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}
