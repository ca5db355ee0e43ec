/* Text without control characters. src: RFC 3629, section 4 (UTF-8); ECMA-48,
 * 5.1 to 5.3 (C0, C1 and DEL). */
#include "base/text.h"

#include <stdint.h>
#include <stdio.h>
#include <string.h>

size_t
text_character(const char *text, size_t n, bool *out_ok)
{
    const unsigned char *at = (const unsigned char *)text;
    unsigned char c = at[0];
    size_t size = c < 0x80 ? 1 : c < 0xe0 ? 2 : c < 0xf0 ? 3 : 4, i;
    unsigned low = c == 0xe0 ? 0xa0 : c == 0xf0 ? 0x90 : 0x80;
    unsigned high = c == 0xed ? 0x9f : c == 0xf4 ? 0x8f : 0xbf;

    *out_ok = c < 0x80 || (c >= 0xc2 && c <= 0xf4);
    for (i = 1; *out_ok && i < size; i++) {
        *out_ok = i < n && at[i] >= low && at[i] <= high;
        low = 0x80;
        high = 0xbf;
        if (!*out_ok)
            return i;
    }
    return *out_ok ? size : 1;
}

static bool
is_control(const char *text, const char *keep)
{
    unsigned char c = (unsigned char)text[0];

    if (c < 0x20)
        return !strchr(keep, c);
    return c == 0x7f || (c == 0xc2 && (unsigned char)text[1] < 0xa0);
}

size_t
text_name_character(const char *text, size_t n)
{
    bool ok;
    size_t size = text_character(text, n, &ok);

    return ok && !is_control(text, "") ? size : 0;
}

size_t
text_show(const char *text, const char *keep, char out[TEXT_SHOWN_BYTES],
          size_t *out_n)
{
    static const char digits[] = "0123456789abcdef";
    size_t n, i;
    bool ok;

    n = text_character(text, SIZE_MAX, &ok);
    if (ok && !is_control(text, keep)) {
        memcpy(out, text, n);
        *out_n = n;
        return n;
    }
    *out_n = 0;
    for (i = 0; i < n && *out_n + 4 <= TEXT_SHOWN_BYTES; i++) {
        unsigned char c = (unsigned char)text[i];
        out[(*out_n)++] = '\\';
        out[(*out_n)++] = 'x';
        out[(*out_n)++] = digits[c >> 4];
        out[(*out_n)++] = digits[c & 15];
    }
    return n;
}

void
text_copy_shown(const char *text, const char *keep, char *out, size_t out_bytes)
{
    char shown[TEXT_SHOWN_BYTES];
    size_t used = 0, n;

    while (*text) {
        text += text_show(text, keep, shown, &n);
        if (used + n >= out_bytes)
            break;
        memcpy(out + used, shown, n);
        used += n;
    }
    out[used] = '\0';
}
