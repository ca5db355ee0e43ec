/* Pre-tokenizers: pieces of pieces.
 *
 * src: the documentation of Hugging Face's tokenizers 0.23 ("Pre-tokenizers"),
 * and its behaviour, by which tests judge; encoder.py of GPT-2 for its bytes.
 */
#include <string.h>

#include "base/alloc.h"
#include "tensor/text/text.h"
#include "tensor/text/unicode.h"

/* ---- bytes as characters ---- */

static bool
is_own_char(uint32_t byte)
{
    return (byte >= 33 && byte <= 126) || (byte >= 161 && byte <= 172) ||
           (byte >= 174 && byte <= 255);
}

uint32_t
text_char_of_byte(uint8_t byte)
{
    if (is_own_char(byte))
        return byte;
    if (byte <= 32)
        return 256u + byte;
    return byte == 173 ? 323 : 256u + 33 + (byte - 127u);
}

int
text_byte_of_char(uint32_t c)
{
    if (c < 256)
        return is_own_char(c) ? (int)c : -1;
    if (c <= 288)
        return (int)c - 256;
    if (c < 323)
        return (int)(c - 289 + 127);
    return c == 323 ? 173 : -1;
}

/* ---- spans ---- */

/* A part of a piece: what matches, or what is between. */
struct text_span {
    size_t begin, end;
    bool is_match;
};

struct spans {
    struct text_span *list; /* owned */
    size_t n, cap;
    bool failed;
};

static void
add_text_span(struct spans *s, size_t begin, size_t end, bool is_match)
{
    if (s->failed || begin == end)
        return;
    if (host_grow((void **)&s->list, &s->cap, s->n + 1, sizeof(*s->list)) !=
        0) {
        s->failed = true;
        return;
    }
    s->list[s->n++] = (struct text_span){begin, end, is_match};
}

static BELL_MUST_CHECK bell_status
find_regex(const struct regex *regex, struct regex_room *room, const char *text,
           size_t n, struct spans *s)
{
    size_t at = 0, from = 0, begin, end, last = SIZE_MAX;
    uint32_t c;

    room->n_steps = 0;
    while (from <= n) {
        BELL_TRY(regex_find(regex, room, text, n, from, &begin, &end));
        if (begin > n)
            break;
        if (begin == end && end == last) {
            if (from >= n)
                break;
            from += unicode_read(text + from, n - from, &c);
            continue;
        }
        add_text_span(s, at, begin, false);
        add_text_span(s, begin, end, true);
        at = end;
        from = end;
        last = end;
    }
    add_text_span(s, at, n, false);
    return BELL_OK;
}

/* Whether a character is one that the pre-tokenizer looks for. */
static bool
is_split_char(const struct text_split *split, uint32_t c)
{
    const uint32_t numbers =
        1u << UNICODE_ND | 1u << UNICODE_NL | 1u << UNICODE_NO;

    if (split->kind == SPLIT_SPACES)
        return unicode_is_space(c);
    if (split->kind == SPLIT_DIGITS)
        return unicode_is(c, numbers);
    if (split->kind == SPLIT_PUNCTUATION)
        return unicode_is_punctuation(c);
    return c == split->c;
}

static void
find_chars(const struct text_split *split, const char *text, size_t n,
           struct spans *s)
{
    size_t at, step, last = 0;
    uint32_t c;

    for (at = 0; at < n; at += step) {
        step = unicode_read(text + at, n - at, &c);
        if (!is_split_char(split, c))
            continue;
        add_text_span(s, last, at, false);
        add_text_span(s, at, at + step, true);
        last = at + step;
    }
    add_text_span(s, last, n, false);
}

/* Words of letters, and of what is neither letters nor spaces. */
static void
find_words(const char *text, size_t n, struct spans *s)
{
    size_t at, step, last = 0;
    int class, before = -1;
    uint32_t c;

    for (at = 0; at < n; at += step) {
        step = unicode_read(text + at, n - at, &c);
        class = unicode_is_word(c, true) ? 1 : unicode_is_space(c) ? 0 : 2;
        if (class != before) {
            if (before >= 0)
                add_text_span(s, last, at, before == 0);
            last = at;
        }
        before = class;
    }
    add_text_span(s, last, n, before == 0);
}

static void
find_lengths(size_t length, const char *text, size_t n, struct spans *s)
{
    size_t at = 0, last = 0, count = 0;
    uint32_t c;

    while (at < n) {
        at += unicode_read(text + at, n - at, &c);
        if (++count == length) {
            add_text_span(s, last, at, true);
            last = at;
            count = 0;
        }
    }
    add_text_span(s, last, n, true);
}

/* Joins matches to their neighbours, in place. */
static void
join_spans(enum text_behavior behavior, struct spans *s)
{
    bool before = false;
    size_t i, n = 0;

    if (behavior == BEHAVIOR_MERGED_NEXT) {
        for (i = s->n; i-- > 0;) {
            struct text_span span = s->list[i];
            bool joins = span.is_match && !before && n;
            before = span.is_match;
            if (joins)
                s->list[s->n - n].begin = span.begin;
            else
                s->list[s->n - ++n] = span;
        }
        memmove(s->list, s->list + (s->n - n), n * sizeof(*s->list));
        s->n = n;
        return;
    }
    for (i = 0; i < s->n; i++) {
        struct text_span span = s->list[i];
        bool joins =
            n && (behavior == BEHAVIOR_CONTIGUOUS ? span.is_match == before
                                                  : span.is_match && !before);
        before = span.is_match;
        if (joins)
            s->list[n - 1].end = span.end;
        else
            s->list[n++] = span;
    }
    s->n = n;
}

static void
emit_spans(enum text_behavior behavior, struct spans *s, const char *text,
           bool is_first, bool as_bytes, struct text_pieces *to)
{
    size_t i, k;

    if (behavior != BEHAVIOR_REMOVED && behavior != BEHAVIOR_ISOLATED && s->n)
        join_spans(behavior, s);
    for (i = 0; i < s->n; i++) {
        const struct text_span *span = &s->list[i];
        size_t at = to->n;
        if (behavior == BEHAVIOR_REMOVED && span->is_match)
            continue;
        for (k = span->begin; as_bytes && k < span->end; k++)
            text_add_char(to, text_char_of_byte((uint8_t)text[k]));
        if (!as_bytes)
            text_add_bytes(to, text + span->begin, span->end - span->begin);
        text_end_piece(to, at, -1, is_first && span->begin == 0);
    }
}

/* ---- the kinds ---- */

/* The piece's text with spaces as another character, one before it. */
static void
change_spaces(const struct text_split *split, const char *text, size_t n,
              bool is_first, struct text_pieces *to)
{
    uint32_t c = 0;
    size_t at, step;

    (void)unicode_read(text, n, &c);
    if (c == ' ')
        c = split->c;
    if (c != split->c && (split->prepend == PREPEND_ALWAYS ||
                          (split->prepend == PREPEND_FIRST && is_first)))
        text_add_char(to, split->c);
    for (at = 0; at < n; at += step) {
        step = unicode_read(text + at, n - at, &c);
        if (c == ' ')
            text_add_char(to, split->c);
        else
            text_add_bytes(to, text + at, step);
    }
}

static BELL_MUST_CHECK bell_status
find_text_spans(const struct text_split *split, struct regex_room *room,
                const char *text, size_t n, struct spans *s)
{
    size_t i;

    switch (split->kind) {
    case SPLIT_REGEX:
        BELL_TRY(find_regex(split->regex, room, text, n, s));
        for (i = 0; split->invert && i < s->n; i++)
            s->list[i].is_match = !s->list[i].is_match;
        break;
    case SPLIT_BYTES:
        if (split->regex)
            return find_regex(split->regex, room, text, n, s);
        add_text_span(s, 0, n, false);
        break;
    case SPLIT_METASPACE:
        if (split->splits)
            find_chars(split, text, n, s);
        else
            add_text_span(s, 0, n, false);
        break;
    case SPLIT_WHITESPACE:
        find_words(text, n, s);
        break;
    case SPLIT_LENGTH:
        find_lengths(split->length, text, n, s);
        break;
    case SPLIT_SPACES:
    case SPLIT_DIGITS:
    case SPLIT_PUNCTUATION:
    case SPLIT_CHAR:
    case SPLIT_BERT:
    default:
        find_chars(split, text, n, s);
        break;
    }
    return BELL_OK;
}

static enum text_behavior
behavior_of(const struct text_split *split)
{
    switch (split->kind) {
    case SPLIT_SPACES:
    case SPLIT_WHITESPACE:
    case SPLIT_CHAR:
        return BEHAVIOR_REMOVED;
    case SPLIT_DIGITS:
        return split->each ? BEHAVIOR_ISOLATED : BEHAVIOR_CONTIGUOUS;
    case SPLIT_METASPACE:
        return BEHAVIOR_MERGED_NEXT;
    case SPLIT_BYTES:
    case SPLIT_LENGTH:
        return BEHAVIOR_ISOLATED;
    case SPLIT_PUNCTUATION:
    case SPLIT_REGEX:
    case SPLIT_BERT:
    default:
        return split->behavior;
    }
}

/* One piece. */
static BELL_MUST_CHECK bell_status
split_piece(const struct text_split *split, struct regex_room *room,
            const char *text, size_t n, bool is_first, struct spans *s,
            struct text_pieces *changed, struct text_pieces *to)
{
    s->n = 0;
    text_pieces_clear(changed);
    if (split->kind == SPLIT_METASPACE) {
        change_spaces(split, text, n, is_first, changed);
        text = changed->text;
        n = changed->n;
    } else if (split->kind == SPLIT_BYTES && split->add_space && *text != ' ') {
        text_add_bytes(changed, " ", 1);
        text_add_bytes(changed, text, n);
        text = changed->text;
        n = changed->n;
    }
    if (changed->failed)
        return bell_fail(BELL_E_NO_MEMORY, "out of memory for a text");
    BELL_TRY(find_text_spans(split, room, text, n, s));
    emit_spans(behavior_of(split), s, text, is_first,
               split->kind == SPLIT_BYTES, to);
    return BELL_OK;
}

static BELL_MUST_CHECK bell_status
split_all(const struct text_split *split, struct regex_room *room,
          const struct text_pieces *from, struct text_pieces *to)
{
    struct text_pieces changed = {0};
    struct spans s = {0};
    bell_status status = BELL_OK;
    size_t i, at;

    for (i = 0; status == BELL_OK && i < from->n_list; i++) {
        const struct text_piece *piece = &from->list[i];
        if (piece->id >= 0) {
            at = to->n;
            text_add_bytes(to, from->text + piece->at, piece->n);
            text_end_piece(to, at, piece->id, piece->is_first);
            continue;
        }
        status = split_piece(split, room, from->text + piece->at, piece->n,
                             piece->is_first, &s, &changed, to);
    }
    if (status == BELL_OK && (s.failed || to->failed))
        status = bell_fail(BELL_E_NO_MEMORY, "out of memory for a text");
    text_pieces_fini(&changed);
    host_free(s.list);
    return status;
}

bell_status
text_split(const struct text_split *split, struct regex_room *room,
           const struct text_pieces *from, struct text_pieces *to)
{
    struct text_pieces words = {0};
    struct text_split one = *split;
    bell_status status;

    if (split->kind != SPLIT_BERT)
        return split_all(split, room, from, to);
    one.kind = SPLIT_SPACES;
    status = split_all(&one, room, from, &words);
    one.kind = SPLIT_PUNCTUATION;
    one.behavior = BEHAVIOR_ISOLATED;
    if (status == BELL_OK)
        status = split_all(&one, room, &words, to);
    text_pieces_fini(&words);
    return status;
}
