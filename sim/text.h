/* Text of a simulated file under way into a reader's buffer. */
#ifndef BELL_SIM_TEXT_H
#define BELL_SIM_TEXT_H

#include <stdbool.h>
#include <stddef.h>

struct sim_text {
    char *buf;
    size_t cap, n; /* no terminator: what does not fit is dropped */
};

/* At most 255 characters at a time. */
void sim_text_put(struct sim_text *text, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));

/* The first option that a SPEC has twice ("CHIP,KEY=VALUE,WORD"), in `word`;
 * false: none. Those that name cards add up, and may differ in their value. */
bool sim_option_twice(const char *spec, char *word, size_t word_bytes);

#endif
