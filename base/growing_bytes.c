/* See growing_bytes.h. */
#include "base/growing_bytes.h"

#include <string.h>

#include "base/alloc.h"

void
bytes_add(struct bytes *b, const void *data, size_t n)
{
    if (b->failed || n == 0)
        return;
    if (host_grow((void **)&b->data, &b->cap, b->n + n, 1) != 0) {
        b->failed = true;
        return;
    }
    if (data)
        memcpy(b->data + b->n, data, n);
    else
        memset(b->data + b->n, 0, n);
    b->n += n;
}

void
bytes_add_text(struct bytes *b, const char *text)
{
    bytes_add(b, text, strlen(text) + 1);
}
