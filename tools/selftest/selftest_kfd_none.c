/* The selftest of a build without the AMD driver. */
#include "tools/selftest/selftest.h"

#include <stddef.h>

void
selftest_close_kfd(struct selftest *st)
{
    (void)st;
}

const char *
selftest_amd_look_at(const char *step)
{
    (void)step;
    return NULL;
}

const struct selftest_step selftest_kfd_steps[] = {{.name = NULL}};
