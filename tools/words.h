/* 32-bit words from a file's bytes: binary, or hexadecimal text. */
#ifndef BELL_TOOLS_WORDS_H
#define BELL_TOOLS_WORDS_H

#include <stddef.h>
#include <stdint.h>

#include "base/status.h"

/* Host memory; freed with host_free. */
struct words {
    uint32_t *w;
    size_t n;
};

/* Bytes that are all printable are text, others are little-endian words.
 * Text is hexadecimal numbers, with or without 0x, between blanks or commas:
 * up to 8 digits are a word, up to 16 are two, the low one first. `#` starts
 * a comment; a number followed by a colon and blanks (an address) is skipped;
 * `INDEX:WORD` puts a word at a decimal index, zeros before it. So the output
 * of `doorbell trace show --words` can be pasted. BELL_E_IO says which line
 * or byte is wrong; `name` is for that. */
BELL_MUST_CHECK bell_status words_parse(const char *name, const void *data,
                                        size_t size_bytes,
                                        struct words *out_words);

#endif
