/* Text into a buffer that may be too small. */
#include "sim/text.h"

#include <assert.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/bits.h"

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

/* How much of the option says what it is. */
static size_t
key_length(const char *option)
{
    static const char *const sets[] = {"hide=", "deny=", "gone="};
    size_t n = strcspn(option, ",="), i;

    for (i = 0; i < ARRAY_LEN(sets); i++) {
        if (strncmp(option, sets[i], strlen(sets[i])) == 0)
            n = strcspn(option, ",");
    }
    /* link=A-B:KIND is about a pair */
    if (strncmp(option, "link=", 5) == 0 &&
        strcspn(option, ":") < strcspn(option, ","))
        n = strcspn(option, ":");
    return n;
}

bool
sim_option_twice(const char *spec, char *word, size_t word_bytes)
{
    const char *a, *b;

    for (a = strchr(spec, ','); a; a = strchr(a + 1, ',')) {
        size_t n = key_length(a + 1);

        for (b = strchr(a + 1, ','); b; b = strchr(b + 1, ',')) {
            if (key_length(b + 1) != n || strncmp(a + 1, b + 1, n) != 0)
                continue;
            snprintf(word, word_bytes, "%.*s", (int)n, a + 1);
            return true;
        }
    }
    return false;
}
