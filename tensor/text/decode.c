/* Decoders: tokens' names to text.
 *
 * src: the documentation of Hugging Face's tokenizers 0.23 ("Decoders"), and
 * its behaviour, by which tests judge. Bytes that are not UTF-8 stay what they
 * are, where that library writes U+FFFD.
 */
#include <string.h>

#include "base/alloc.h"
#include "tensor/text/text.h"
#include "tensor/text/unicode.h"

/* Adds text with every `what` as `with`. */
static void
add_replaced(struct text_pieces *to, const char *text, size_t n,
             const char *what, size_t n_what, const char *with, size_t n_with)
{
    const char *found;

    while (n_what && n >= n_what &&
           (found = memmem(text, n, what, n_what)) != NULL) {
        text_add_bytes(to, text, (size_t)(found - text));
        text_add_bytes(to, with, n_with);
        n -= (size_t)(found - text) + n_what;
        text = found + n_what;
    }
    text_add_bytes(to, text, n);
}

/* English words without the spaces that tokens put before signs. */
static void
clean_up(struct text_pieces *to, size_t at)
{
    static const char *const rules[][2] = {
        {" .", "."},   {" ?", "?"},     {" !", "!"},     {" ,", ","},
        {" ' ", "'"},  {" n't", "n't"}, {" 'm", "'m"},   {" do not", " don't"},
        {" 's", "'s"}, {" 've", "'ve"}, {" 're", "'re"},
    };
    struct text_pieces a = {0}, b = {0}, swap;
    size_t i;

    text_add_bytes(&a, to->text + at, to->failed ? 0 : to->n - at);
    for (i = 0; i < sizeof(rules) / sizeof(rules[0]); i++) {
        b.n = 0;
        add_replaced(&b, a.text, a.n, rules[i][0], strlen(rules[i][0]),
                     rules[i][1], strlen(rules[i][1]));
        swap = a;
        a = b;
        b = swap;
    }
    to->failed = to->failed || a.failed || b.failed;
    if (!to->failed) {
        to->n = at;
        text_add_bytes(to, a.text, a.n);
    }
    text_pieces_fini(&a);
    text_pieces_fini(&b);
}

/* The byte of a name <0xNN>; -1: it is another. */
static int
byte_of_name(const char *name, size_t n)
{
    int value = 0, i;

    if (n != 6 || memcmp(name, "<0x", 3) != 0 || name[5] != '>')
        return -1;
    for (i = 3; i < 5; i++) {
        char c = name[i];
        int digit = c >= '0' && c <= '9'   ? c - '0'
                    : c >= 'a' && c <= 'f' ? c - 'a' + 10
                    : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                           : -1;
        if (digit < 0)
            return -1;
        value = 16 * value + digit;
    }
    return value;
}

/* All tokens' bytes as one piece. */
static void
decode_bytes(const struct text_pieces *from, struct text_pieces *to)
{
    size_t i, k, step, at = to->n, begin;
    uint32_t c;
    int byte;

    for (i = 0; i < from->n_list; i++) {
        const char *text = from->text + from->list[i].at;
        size_t n = from->list[i].n;
        begin = to->n;
        for (k = 0; k < n; k += step) {
            char out;
            step = unicode_read(text + k, n - k, &c);
            byte = text_byte_of_char(c);
            if (byte < 0) { /* not such a token: its text */
                if (!to->failed)
                    to->n = begin;
                text_add_bytes(to, text, n);
                break;
            }
            out = (char)byte;
            text_add_bytes(to, &out, 1);
        }
    }
    text_end_piece(to, at, -1, true);
}

static void
decode_metaspace(const struct text_decode *d, const char *text, size_t n,
                 bool is_first, struct text_pieces *to)
{
    size_t k, step;
    uint32_t c;

    for (k = 0; k < n; k += step) {
        step = unicode_read(text + k, n - k, &c);
        if (c != d->c)
            text_add_bytes(to, text + k, step);
        else if (!is_first || !d->drops_first)
            text_add_bytes(to, " ", 1);
    }
}

static void
decode_strip(const struct text_decode *d, const char *text, size_t n,
             struct text_pieces *to)
{
    size_t begin = 0, end = n, i, step;
    uint32_t c;

    for (i = 0; i < d->start && begin < n; i++) {
        step = unicode_read(text + begin, n - begin, &c);
        if (c != d->c)
            break;
        begin += step;
    }
    for (i = 0; i < d->stop && end > begin; i++) {
        step = end - 1;
        while (step > begin && ((uint8_t)text[step] & 0xc0) == 0x80)
            step--;
        (void)unicode_read(text + step, end - step, &c);
        if (c != d->c)
            break;
        end = step;
    }
    text_add_bytes(to, text + begin, end - begin);
}

static BELL_MUST_CHECK bell_status
decode_replace(const struct text_decode *d, struct regex_room *room,
               const char *text, size_t n, struct text_pieces *to)
{
    size_t at = 0, begin, end;

    room->n_steps = 0;
    while (at < n) {
        BELL_TRY(regex_find(d->regex, room, text, n, at, &begin, &end));
        if (begin > n)
            break;
        if (begin == end)
            return bell_fail(BELL_E_UNSUPPORTED,
                             "a decoder's pattern matches nothing, which is "
                             "not supported");
        text_add_bytes(to, text + at, begin - at);
        text_add_bytes(to, d->a, d->n_a);
        at = end;
    }
    text_add_bytes(to, text + at, n - at);
    return BELL_OK;
}

/* A token by its kind: bytes, no text, or text with spaces. Until there is
 * some, spaces at the beginning go. */
static void
decode_sentencepiece(const struct text_decode *d, const struct token *token,
                     const char *text, size_t n, bool *begins,
                     struct text_pieces *to)
{
    int byte = token->kind == TOKEN_BYTE ? byte_of_name(text, n) : -1;
    char out = (char)byte;

    if (token->kind == TOKEN_CONTROL)
        return;
    if (byte >= 0) {
        text_add_bytes(to, &out, 1);
        *begins = false;
        return;
    }
    if (token->kind == TOKEN_UNKNOWN) {
        text_add_bytes(to, d->b, d->n_b);
        *begins = false;
        return;
    }
    if (*begins && d->drops_first && n >= 3 &&
        memcmp(text, d->a, d->n_a) == 0) {
        text += d->n_a;
        n -= d->n_a;
        *begins = d->drops_all;
        if (n == 0)
            return;
    }
    *begins = *begins && n == 0;
    add_replaced(to, text, n, d->a, d->n_a, " ", 1);
}

/* Decoders that change one token after the other. */
static BELL_MUST_CHECK bell_status
decode_one(const struct text_decode *d, struct regex_room *room, size_t i,
           size_t n_all, const char *text, size_t n, struct text_pieces *to)
{
    size_t at = to->n;
    bool is_part;

    switch (d->kind) {
    case DECODE_BPE:
        add_replaced(to, text, n, d->a, d->n_a, " ", i + 1 < n_all ? 1 : 0);
        break;
    case DECODE_WORDPIECE:
        is_part = n >= d->n_a && memcmp(text, d->a, d->n_a) == 0;
        if (i > 0 && !is_part)
            text_add_bytes(to, " ", 1);
        if (i > 0 && is_part)
            text_add_bytes(to, text + d->n_a, n - d->n_a);
        else
            text_add_bytes(to, text, n);
        if (d->cleanup)
            clean_up(to, at);
        break;
    case DECODE_METASPACE:
        decode_metaspace(d, text, n, i == 0, to);
        break;
    case DECODE_STRIP:
        decode_strip(d, text, n, to);
        break;
    case DECODE_REPLACE:
        return decode_replace(d, room, text, n, to);
    case DECODE_SPACED:
        if (i > 0)
            text_add_bytes(to, " ", 1);
        text_add_bytes(to, text, n);
        break;
    case DECODE_CTC:
    case DECODE_BYTES:
    case DECODE_FUSE:
    case DECODE_BYTE_FALLBACK:
    case DECODE_SENTENCEPIECE:
    default:
        text_add_bytes(to, text, n);
        break;
    }
    return BELL_OK;
}

/* Bytes' tokens beside each other become one. */
static void
join_bytes(const struct text_pieces *from, struct text_pieces *to)
{
    size_t i, at = 0;
    bool open = false;

    for (i = 0; i < from->n_list; i++) {
        const char *text = from->text + from->list[i].at;
        size_t n = from->list[i].n;
        int byte = byte_of_name(text, n);
        char out = (char)byte;
        if (byte < 0 && open)
            text_end_piece(to, at, -1, false);
        if (byte < 0 || !open)
            at = to->n;
        open = byte >= 0;
        if (open) {
            text_add_bytes(to, &out, 1);
            continue;
        }
        text_add_bytes(to, text, n);
        text_end_piece(to, at, from->list[i].id, false);
    }
    if (open)
        text_end_piece(to, at, -1, false);
}

static void
decode_ctc(const struct text_decode *d, const struct text_pieces *from,
           struct text_pieces *to)
{
    struct text_pieces one = {0};
    size_t i, at;

    for (i = 0; i < from->n_list; i++) {
        const struct text_piece *piece = &from->list[i];
        const char *text = from->text + piece->at;
        if (i && piece[-1].n == piece->n &&
            memcmp(from->text + piece[-1].at, text, piece->n) == 0)
            continue;
        at = to->n;
        if (!d->cleanup) {
            add_replaced(to, text, piece->n, d->a, d->n_a, "", 0);
        } else {
            one.n = 0;
            add_replaced(&one, text, piece->n, d->a, d->n_a, "", 0);
            clean_up(&one, 0);
            add_replaced(to, one.text, one.n, d->b, d->n_b, " ", 1);
        }
        text_end_piece(to, at, -1, false);
    }
    to->failed = to->failed || one.failed;
    text_pieces_fini(&one);
}

bell_status
text_decode(const struct text_decode *d, const struct token *tokens,
            struct regex_room *room, const struct text_pieces *from,
            struct text_pieces *to)
{
    size_t i, at;
    bool begins = true;

    if (d->kind == DECODE_BYTES) {
        decode_bytes(from, to);
    } else if (d->kind == DECODE_FUSE) {
        for (i = 0; i < from->n_list; i++)
            text_add_bytes(to, from->text + from->list[i].at, from->list[i].n);
        text_end_piece(to, 0, 0, true);
    } else if (d->kind == DECODE_BYTE_FALLBACK) {
        join_bytes(from, to);
    } else if (d->kind == DECODE_CTC) {
        decode_ctc(d, from, to);
    } else {
        for (i = 0; i < from->n_list; i++) {
            const struct text_piece *piece = &from->list[i];
            const char *text = from->text + piece->at;
            at = to->n;
            if (d->kind == DECODE_SENTENCEPIECE)
                decode_sentencepiece(d, &tokens[piece->id], text, piece->n,
                                     &begins, to);
            else
                BELL_TRY(
                    decode_one(d, room, i, from->n_list, text, piece->n, to));
            text_end_piece(to, at, piece->id < 0 ? 0 : piece->id, false);
        }
    }
    if (to->failed)
        return bell_fail(BELL_E_NO_MEMORY, "out of memory for a text");
    return BELL_OK;
}
