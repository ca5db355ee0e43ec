/* Bytes that grow at their end. Plain data: one thread. */
#ifndef BELL_BASE_GROWING_BYTES_H
#define BELL_BASE_GROWING_BYTES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Begins as zeros. Sticky: after a failed allocation nothing more is added. */
struct bytes {
    uint8_t *data; /* owned: host_free */
    size_t n, cap;
    bool failed;
};

/* Adds n bytes; `data` NULL: zeros. */
void bytes_add(struct bytes *b, const void *data, size_t n);
/* With its end, so that two texts are not one. */
void bytes_add_text(struct bytes *b, const char *text);

#endif
