/* See text.h. */
#include "render/text.h"

#include <assert.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"

void
render_put_bytes(struct render_text *t, const char *s, size_t n)
{
    if (!t->failed &&
        host_grow((void **)&t->data, &t->cap, t->n + n + 1, 1) < 0)
        t->failed = true;
    if (t->failed)
        return;
    memcpy(t->data + t->n, s, n);
    t->n += n;
    t->data[t->n] = 0;
}

void
render_put(struct render_text *t, const char *fmt, ...)
{
    char buf[256];
    va_list args;
    int n;

    va_start(args, fmt);
    n = vsnprintf(buf, sizeof(buf), fmt, args);
    va_end(args);
    assert(n < (int)sizeof(buf)); /* no text of a user's: see text.h */
    if (n < 0 || (size_t)n >= sizeof(buf))
        t->failed = true;
    else
        render_put_bytes(t, buf, (size_t)n);
}
