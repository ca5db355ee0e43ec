/* See growing_text.h. */
#include "base/growing_text.h"

#include <assert.h>
#include <stdarg.h>
#include <stdio.h>

#include "base/alloc.h"

void
text_add(struct text *t, const char *fmt, ...)
{
    va_list args;
    int n;

    assert(t->len <= t->cap);
    if (t->failed)
        return;
    va_start(args, fmt);
    n = vsnprintf(NULL, 0, fmt, args);
    va_end(args);
    if (n < 0 ||
        host_grow((void **)&t->buf, &t->cap, t->len + (size_t)n + 1, 1) != 0) {
        t->failed = true;
        return;
    }
    va_start(args, fmt);
    vsnprintf(t->buf + t->len, (size_t)n + 1, fmt, args);
    va_end(args);
    t->len += (size_t)n;
}

bell_status
text_finish(struct text *t, char **out_text)
{
    text_add(t, "%s", "");
    if (t->failed) {
        host_free(t->buf);
        return bell_fail(BELL_E_NO_MEMORY, "out of memory for a text");
    }
    *out_text = t->buf;
    return BELL_OK;
}
