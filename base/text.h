/* Text that came from elsewhere: names in files, values of variables, names of
 * processes. A terminal obeys control characters, so none are printed. */
#ifndef BELL_BASE_TEXT_H
#define BELL_BASE_TEXT_H

#include <stdbool.h>
#include <stddef.h>

/* Bytes of the UTF-8 character at `text`, which has n bytes, at least one, or
 * ends with a zero; *out_ok: it is one. If not, those that begin one. */
size_t text_character(const char *text, size_t n, bool *out_ok);
/* The same of a name: 0 where it is not a character, or a control character. */
size_t text_name_character(const char *text, size_t n);

#define TEXT_SHOWN_BYTES 12

/* Writes to `out` how the character at `text` is shown, *out_n bytes of it, and
 * returns how many bytes of `text` that takes. Control characters (C0 but for
 * those in `keep`, DEL, C1) and bytes that are not UTF-8 are shown as "\x1b",
 * others as they are. */
size_t text_show(const char *text, const char *keep, char out[TEXT_SHOWN_BYTES],
                 size_t *out_n);

/* All of `text`, as far as whole characters fit in; zero-terminated. */
void text_copy_shown(const char *text, const char *keep, char *out,
                     size_t out_bytes);

#endif
