/* A table of cases that several devices divide among them: BELL_TEST_SHARE=1/3
 * takes case 1 and each third one after it. Without it, all of them. */
#ifndef BELL_TESTS_UNIT_SHARE_H
#define BELL_TESTS_UNIT_SHARE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>

static inline bool
is_in_share(size_t i)
{
    const char *share = getenv("BELL_TEST_SHARE");

    return !share || i % (size_t)(share[2] - '0') == (size_t)(share[0] - '0');
}

#endif
