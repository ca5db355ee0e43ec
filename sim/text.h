/* Text of a simulated file under way into a reader's buffer. */
#ifndef BELL_SIM_TEXT_H
#define BELL_SIM_TEXT_H

#include <stddef.h>

struct sim_text {
    char *buf;
    size_t cap, n; /* no terminator: what does not fit is dropped */
};

/* At most 255 characters at a time. */
void sim_text_put(struct sim_text *text, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));

#endif
