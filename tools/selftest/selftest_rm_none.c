/* The selftest of a build without the NVIDIA driver. */
#include "tools/selftest/selftest.h"

bell_status
selftest_probe(struct selftest *st)
{
    return bell_fail(BELL_E_NO_DEVICE,
                     "%s: this build has no driver for NVIDIA's cards",
                     st->device);
}

void
selftest_close_rm(struct selftest *st)
{
    (void)st;
}

const struct selftest_step selftest_rm_steps[] = {{.name = NULL}};
