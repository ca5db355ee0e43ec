/* Selftest: the driver's other ways: the address space that nvidia-uvm keeps,
 * the doorbell through BAR0. Each is chosen by a variable of the environment,
 * which is set for the step alone. */
#include <stdio.h>
#include <stdlib.h>

#include "base/env.h"
#include "base/bits.h"
#include "tools/selftest/selftest.h"

/* Runs earlier steps on a device opened anew. */
static enum selftest_verdict
run_model_steps(struct selftest *st, const char *const *names, size_t n)
{
    size_t i;

    ST_OK(selftest_need_device(st));
    for (i = 0; i < n; i++) {
        const struct selftest_step *step = selftest_find_step(names[i]);
        enum selftest_verdict verdict;
        char why[SELFTEST_TEXT_MAX / 2];
        if (!step)
            return selftest_fail(st, "no step '%s'", names[i]);
        verdict = step->run(st);
        selftest_end_step(st);
        if (verdict == SELFTEST_PASSED)
            continue;
        snprintf(why, sizeof(why), "%.*s", (int)sizeof(why) - 1, st->came);
        return selftest_fail(st, "%s: %s", names[i], why);
    }
    return SELFTEST_PASSED;
}

/* The device is closed before and after: the variable counts when it opens. */
static enum selftest_verdict
with_variable(struct selftest *st, const char *name, const char *value,
              const char *const *steps, size_t n)
{
    const char *was = env_get(name);
    char keep[64] = "";
    enum selftest_verdict verdict;

    if (was)
        snprintf(keep, sizeof(keep), "%s", was);
    selftest_close_device(st);
    setenv(name, value, 1);
    verdict = run_model_steps(st, steps, n);
    selftest_close_device(st);
    if (was)
        setenv(name, keep, 1);
    else
        unsetenv(name);
    return verdict;
}

static enum selftest_verdict
uvm(struct selftest *st)
{
    static const char *const steps[] = {
        "host-access",  "copy-release",  "copy-4k",    "copy-sizes",
        "host-visible", "pinned",        "host-large", "compute-idle",
        "store",        "blocks",        "shared",     "stack",
        "chain",        "across-queues", "bad-store"};

    selftest_sent(st, "BELL_NV_VM=uvm: UVM_INITIALIZE, UVM_REGISTER_GPU, "
                      "UVM_REGISTER_GPU_VASPACE, ranges, channels");
    return with_variable(st, "BELL_NV_VM", "uvm", steps, ARRAY_LEN(steps));
}

static enum selftest_verdict
doorbell_bar0(struct selftest *st)
{
    static const char *const steps[] = {"copy-release", "compute-release",
                                        "store", "ring-wraps"};

    selftest_sent(st, "BELL_NV_DOORBELL=bar0: a usermode object without "
                      "bBar1Mapping, GPPut read back before each ring");
    return with_variable(st, "BELL_NV_DOORBELL", "bar0", steps,
                         ARRAY_LEN(steps));
}

const struct selftest_step selftest_model_steps[] = {
    {"uvm", SELFTEST_PTX | SELFTEST_SLOW,
     "the address space that nvidia-uvm keeps works as the driver's own does",
     "/dev/nvidia-uvm and its module; ranges that overlap (0x68); channels "
     "registered before they are scheduled (0x40)",
     uvm},
    {"doorbell-bar0", SELFTEST_PTX | SELFTEST_SLOW,
     "the doorbell works through BAR0 as well",
     "from Hopper on a ring there overtakes GPPut: is it read back before?",
     doorbell_bar0},
    {NULL, 0, NULL, NULL, NULL},
};
