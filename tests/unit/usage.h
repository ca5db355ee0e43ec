/* What this process holds of the kernel, for tests that look for leaks. */
#ifndef BELL_TESTS_UNIT_USAGE_H
#define BELL_TESTS_UNIT_USAGE_H

#include <stdint.h>

struct usage {
    unsigned n_maps; /* lines of /proc/self/maps */
    unsigned n_fds;  /* open files, but for the one that counts them */
};

/* Both are 0 where /proc is not there. */
struct usage usage_now(void);

/* Fails the cmocka test when this is more than `before` and `slack` of each.
 * Neighbours of equal kind share a line of maps, and the C library keeps what
 * threads and big blocks had: a loop that leaks grows without end, so give
 * it some rounds and a slack below their number. */
void usage_expect(struct usage before, unsigned slack, const char *what);

#endif
