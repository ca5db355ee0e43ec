/* A step that failed, once more with everything recorded: what was sent, as
 * the card reads it. */
#ifndef BELL_TOOLS_SELFTEST_SELFTEST_AGAIN_H
#define BELL_TOOLS_SELFTEST_SELFTEST_AGAIN_H

#include "tools/selftest/selftest.h"

#define SELFTEST_AGAIN_LINES 48

/* Plain data. Lines are those of the last submissions, decoded. */
struct selftest_again {
    bool told; /* `text` says how it went */
    char text[SELFTEST_TEXT_MAX];
    char lines[SELFTEST_AGAIN_LINES][160];
    size_t n_lines;
};

/* Opens the device anew above a recorder and runs the step. Does nothing for
 * steps that use no queue, and for devices that cannot be recorded. */
void selftest_try_again(struct selftest *st, const struct selftest_step *step,
                        struct selftest_again *out);

#endif
