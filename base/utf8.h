/* Characters of texts from outside. */
#ifndef BELL_BASE_UTF8_H
#define BELL_BASE_UTF8_H

#include <stddef.h>
#include <stdint.h>

/* Bytes of the UTF-8 character at `text`, which has n bytes, at least one. 0: it
 * is not one, or it is a control character. src: RFC 3629, section 4. */
static inline size_t
utf8_character(const char *text, size_t n)
{
    static const uint32_t least[] = {0, 0, 0x80, 0x800, 0x10000};
    const uint8_t *at = (const uint8_t *)text;
    size_t size = at[0] < 0x80   ? 1
                  : at[0] < 0xc0 ? 0
                  : at[0] < 0xe0 ? 2
                  : at[0] < 0xf0 ? 3
                  : at[0] < 0xf8 ? 4
                                 : 0;
    uint32_t code;
    size_t i;

    if (size == 0 || size > n)
        return 0;
    code = size == 1 ? at[0] : at[0] & (0x7fu >> size);
    for (i = 1; i < size; i++) {
        if ((at[i] & 0xc0) != 0x80)
            return 0;
        code = code << 6 | (at[i] & 0x3fu);
    }
    if (code < least[size] || code > 0x10ffff ||
        (code >= 0xd800 && code < 0xe000))
        return 0;
    return code < ' ' || (code >= 0x7f && code < 0xa0) ? 0 : size;
}

#endif
