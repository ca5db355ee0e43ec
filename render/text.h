/* A text that grows, for renderers that write source. */
#ifndef BELL_RENDER_TEXT_H
#define BELL_RENDER_TEXT_H

#include <stdbool.h>
#include <stddef.h>

/* Failing is sticky. Zeroed at first; `data` is zero terminated once there is
 * something. Used by one thread. */
struct render_text {
    char *data; /* owned: host_free */
    size_t n, cap;
    bool failed;
};

/* Appends n bytes of `s`. */
void render_put_bytes(struct render_text *t, const char *s, size_t n);

/* printf onto the end. Only for what has no text of a user's: more than 255
 * bytes fail the whole text instead of being cut. */
void render_put(struct render_text *t, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));

#endif
