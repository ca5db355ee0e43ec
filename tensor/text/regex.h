/* Regular expressions, as far as tokenizers use them to take texts apart.
 *
 * Own code and not PCRE2: files give patterns in Oniguruma's syntax, which has
 * other rules for classes, ends of lines and cases. Classes must be those of
 * the tables that the normal forms come from. A hostile pattern must neither
 * recurse nor run for ever.
 *
 * Known are alternatives, groups (?:..),
 * (?i:..) and (..), which captures nothing, (?=..) and (?!..), classes with
 * ranges, \p{..} by general category, \s \d \w \h and their opposites, ., ^,
 * $, \A, \z, \b; greedy *, +, ?, {m,n}, their lazy forms, and possessive ones
 * of one character. Anything else is refused by its name.
 *
 * Matching goes back (leftmost, first alternative), with an own stack and a
 * bound of steps. src: Oniguruma's doc/RE, version 6.9.
 */
#ifndef BELL_TENSOR_TEXT_REGEX_H
#define BELL_TENSOR_TEXT_REGEX_H

#include <stddef.h>
#include <stdint.h>

#include "base/status.h"

struct regex;

/* Compiles a pattern of UTF-8. BELL_E_UNSUPPORTED: a construct that is not
 * known, by name; BELL_E_IO: a malformed or too long one. */
BELL_MUST_CHECK bell_status regex_create(const char *pattern, size_t n,
                                         struct regex **out_regex);
/* The same that matches the text itself. */
BELL_MUST_CHECK bell_status regex_create_literal(const char *text, size_t n,
                                                 struct regex **out_regex);
void regex_destroy(struct regex *regex);

/* Memory of a search between calls; begins as zeros. For one thread. */
struct regex_room {
    struct regex_back *stack; /* owned: regex_room_fini */
    size_t cap;
    uint64_t n_steps; /* of all searches since it was set to 0 */
};
void regex_room_fini(struct regex_room *room);

/* The first match that begins at `from` or behind it, in valid UTF-8;
 * *out_begin is n + 1 where there is none. BELL_E_UNSUPPORTED: it took more
 * steps than any sensible pattern. */
BELL_MUST_CHECK bell_status regex_find(const struct regex *regex,
                                       struct regex_room *room,
                                       const char *text, size_t n, size_t from,
                                       size_t *out_begin, size_t *out_end);

#endif
