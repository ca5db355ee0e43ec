/* What a call of the library gave, in tests of cmocka. */
#ifndef BELL_TESTS_UNIT_EXPECT_H
#define BELL_TESTS_UNIT_EXPECT_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/status.h"

static inline void
expect_ok(bell_status status)
{
    if (status != BELL_OK)
        fail_msg("%s", bell_error_last()->message);
}

/* It failed, with a message that has this part. */
static inline void
expect_fails(bell_status status, bell_status want, const char *part)
{
    assert_int_equal(status, want);
    if (!strstr(bell_error_last()->message, part))
        fail_msg("\"%s\" is not in \"%s\"", part, bell_error_last()->message);
}

/* The number that the next file gets: another one where a file was left open.
 */
static inline int
next_fd(void)
{
    int fd = dup(STDOUT_FILENO);

    close(fd);
    return fd;
}

#endif
