/* Text into a buffer that may be too small. */
#include "sim/text.h"

#include <assert.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

void
sim_text_put(struct sim_text *text, const char *fmt, ...)
{
    char line[256];
    va_list args;
    size_t n, room = text->cap - text->n;

    assert(text->n <= text->cap);
    va_start(args, fmt);
    vsnprintf(line, sizeof(line), fmt, args);
    va_end(args);
    n = strlen(line);
    n = n < room ? n : room;
    memcpy(text->buf + text->n, line, n);
    text->n += n;
}
