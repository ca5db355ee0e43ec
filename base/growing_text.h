/* A text that grows by printing to its end. Plain data: one thread. */
#ifndef BELL_BASE_GROWING_TEXT_H
#define BELL_BASE_GROWING_TEXT_H

#include <stdbool.h>
#include <stddef.h>

#include "base/status.h"

/* Begins as zeros. Sticky: after a failed allocation nothing more is added. */
struct text {
    char *buf; /* owned until text_finish */
    size_t len, cap;
    bool failed;
};

void text_add(struct text *t, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));

/* Hands the text over, or frees it and fails. */
BELL_MUST_CHECK bell_status text_finish(struct text *t, char **out_text);

#endif
