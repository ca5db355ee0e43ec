/* Normalisers.
 *
 * src: the documentation of Hugging Face's tokenizers 0.23 ("Normalizers"), and
 * its behaviour, by which tests judge; normalizer.cc of SentencePiece 0.2 for
 * the order of its rules; the Unicode standard, section 3.11.
 */
#include <string.h>

#include "base/alloc.h"
#include "tensor/text/text.h"
#include "tensor/text/unicode.h"

#define METASPACE "\xe2\x96\x81"

/* ---- precompiled maps ---- */

bell_status
text_charsmap_init(struct text_charsmap *map, struct arena *arena,
                   const void *bytes, size_t n)
{
    uint32_t n_trie, *units;
    char *texts;

    if (n < 8)
        return bell_fail(BELL_E_IO,
                         "a map of characters must not end after %zu bytes", n);
    memcpy(&n_trie, bytes, 4);
    if (n_trie % 4 || n_trie < 4 || n_trie > n - 5)
        return bell_fail(BELL_E_IO,
                         "a map of characters says that %u of %zu bytes are "
                         "its trie",
                         n_trie, n);
    units = arena_copy(arena, (const char *)bytes + 4, n_trie);
    texts = arena_alloc(arena, n - 4 - n_trie + 1);
    if (!units || !texts)
        return bell_fail(BELL_E_NO_MEMORY,
                         "out of memory for a map of characters");
    memcpy(texts, (const char *)bytes + 4 + n_trie, n - 4 - n_trie);
    texts[n - 4 - n_trie] = '\0';
    *map = (struct text_charsmap){units, n_trie / 4, texts, n - 4 - n_trie};
    return BELL_OK;
}

/* src: the unit of darts-clone's double array: bit 31 and bits 0-7 are the
 * label, bit 8 tells of a leaf, bits 10-30 are the offset, by 256 where bit 9
 * is set; a leaf has its value in bits 0-30. */
const char *
text_charsmap_find(const struct text_charsmap *map, const char *text, size_t n,
                   bool longest, size_t *out_key)
{
    const char *found = NULL;
    size_t at = 0, i;
    uint32_t unit;

    if (map->n_units == 0)
        return NULL;
    unit = map->units[0];
    at = (unit >> 10) << ((unit & 0x200) >> 6);
    for (i = 0; i < n; i++) {
        uint8_t byte = (uint8_t)text[i];
        if (byte == 0)
            break;
        at ^= byte;
        if (at >= map->n_units)
            break;
        unit = map->units[at];
        if ((unit & 0x800000ffu) != byte)
            break;
        at ^= (unit >> 10) << ((unit & 0x200) >> 6);
        if (unit & 0x100) {
            uint32_t value;
            if (at >= map->n_units)
                break;
            value = map->units[at] & 0x7fffffffu;
            if (value >= map->n_texts)
                break;
            found = map->texts + value;
            *out_key = i + 1;
            if (!longest)
                return found;
        }
    }
    return found;
}

static void
map_clusters(const struct text_charsmap *map, const char *text, size_t n,
             struct text_pieces *to)
{
    size_t at, bytes, i, step, key;
    const char *found;
    uint32_t c;

    for (at = 0; at < n; at += bytes) {
        bytes = unicode_cluster(text + at, n - at);
        found = bytes < 6
                    ? text_charsmap_find(map, text + at, bytes, false, &key)
                    : NULL;
        if (found) {
            text_add_bytes(to, found, strlen(found));
            continue;
        }
        for (i = 0; i < bytes; i += step) {
            step = unicode_read(text + at + i, bytes - i, &c);
            found = text_charsmap_find(map, text + at + i, step, false, &key);
            if (found)
                text_add_bytes(to, found, strlen(found));
            else
                text_add_bytes(to, text + at + i, step);
        }
    }
}

/* ---- normal forms ---- */

/* Characters that may still be put in order, and composed. */
struct normal_chars {
    uint32_t *chars; /* owned */
    uint8_t *classes;
    size_t n, cap_chars, cap_classes;
};

static bool
form_add(struct normal_chars *form, uint32_t c)
{
    uint8_t class = unicode_combining(c);
    size_t i = form->n;

    if (host_grow((void **)&form->chars, &form->cap_chars, i + 1,
                  sizeof(*form->chars)) != 0 ||
        host_grow((void **)&form->classes, &form->cap_classes, i + 1, 1) != 0)
        return false;
    form->chars[i] = c;
    form->classes[i] = class;
    form->n++;
    return true;
}

/* Sorts runs of characters of a class above 0, stably, by counting. */
static bool
form_sort(struct normal_chars *form)
{
    uint32_t *chars = NULL;
    size_t i, end, j, cap = 0;

    for (i = 0; i < form->n; i = end) {
        size_t counts[257] = {0};
        bool sorted = true;
        end = i + 1;
        if (form->classes[i] == 0)
            continue;
        while (end < form->n && form->classes[end] != 0) {
            sorted = sorted && form->classes[end - 1] <= form->classes[end];
            end++;
        }
        if (sorted)
            continue;
        if (host_grow((void **)&chars, &cap, end - i, sizeof(*chars)) != 0) {
            host_free(chars);
            return false;
        }
        for (j = i; j < end; j++)
            counts[form->classes[j] + 1]++;
        for (j = 1; j < 257; j++)
            counts[j] += counts[j - 1];
        for (j = i; j < end; j++)
            chars[counts[form->classes[j]]++] = form->chars[j];
        for (j = i; j < end; j++) {
            form->chars[j] = chars[j - i];
            form->classes[j] = unicode_combining(chars[j - i]);
        }
    }
    host_free(chars);
    return true;
}

static void
form_compose(struct normal_chars *form)
{
    size_t i, n = 0, starter = SIZE_MAX;
    int last = -1; /* class of what is kept behind the starter */

    for (i = 0; i < form->n; i++) {
        uint32_t c = form->chars[i], both = 0;
        uint8_t class = form->classes[i];
        if (starter != SIZE_MAX && last < (int)class)
            both = unicode_compose(form->chars[starter], c);
        if (both) {
            form->chars[starter] = both;
            continue;
        }
        if (class == 0) {
            starter = n;
            last = -1;
        } else {
            last = class;
        }
        form->classes[n] = class;
        form->chars[n++] = c;
    }
    form->n = n;
}

static void
normal_form(const char *text, size_t n, bool compat, bool compose,
            struct text_pieces *to)
{
    struct normal_chars form = {0};
    uint32_t out[UNICODE_DECOMPOSED_MAX], c;
    size_t at, k, i, ascii = 0;

    while (ascii < n && (uint8_t)text[ascii] < 0x80)
        ascii++;
    if (ascii == n) {
        text_add_bytes(to, text, n);
        return;
    }
    for (at = 0; at < n;) {
        at += unicode_read(text + at, n - at, &c);
        k = unicode_decompose(c, compat, out);
        for (i = 0; i < k; i++) {
            if (!form_add(&form, out[i]))
                to->failed = true;
        }
    }
    if (!form_sort(&form))
        to->failed = true;
    if (compose)
        form_compose(&form);
    for (i = 0; i < form.n; i++)
        text_add_char(to, form.chars[i]);
    host_free(form.chars);
    host_free(form.classes);
}

/* ---- single steps ---- */

static void
lower(const char *text, size_t n, struct text_pieces *to)
{
    uint32_t c, out[2];
    size_t at, k, i;

    for (at = 0; at < n;) {
        at += unicode_read(text + at, n - at, &c);
        k = unicode_lower(c, out);
        for (i = 0; i < k; i++)
            text_add_char(to, out[i]);
    }
}

static void
strip(const struct text_norm *norm, const char *text, size_t n,
      struct text_pieces *to, bool *is_first)
{
    size_t begin = 0, end = n, step;
    uint32_t c;

    while (norm->left && begin < n) {
        step = unicode_read(text + begin, n - begin, &c);
        if (!unicode_is_space(c))
            break;
        begin += step;
    }
    while (norm->right && end > begin) {
        step = end - 1;
        while (step > begin && ((uint8_t)text[step] & 0xc0) == 0x80)
            step--;
        (void)unicode_read(text + step, end - step, &c);
        if (!unicode_is_space(c))
            break;
        end = step;
    }
    *is_first = *is_first && begin == 0;
    text_add_bytes(to, text + begin, end - begin);
}

/* Leaves out characters of those categories. */
static void
filter(const char *text, size_t n, uint32_t mask, struct text_pieces *to,
       bool *is_first)
{
    size_t at, step;
    uint32_t c;

    for (at = 0; at < n; at += step) {
        step = unicode_read(text + at, n - at, &c);
        if (!unicode_is(c, mask))
            text_add_bytes(to, text + at, step);
        else if (at == 0)
            *is_first = false;
    }
}

static bool
is_chinese(uint32_t c)
{
    return (c >= 0x4e00 && c <= 0x9fff) || (c >= 0x3400 && c <= 0x4dbf) ||
           (c >= 0x20000 && c <= 0x2a6df) || (c >= 0x2a700 && c <= 0x2b73f) ||
           (c >= 0x2b740 && c <= 0x2b81f) || (c >= 0x2b920 && c <= 0x2ceaf) ||
           (c >= 0xf900 && c <= 0xfaff) || (c >= 0x2f800 && c <= 0x2fa1f);
}

/* BERT's: control characters go, spaces become one kind, Chinese characters
 * stand alone, accents go, lower case. */
static void
bert(const struct text_norm *norm, const char *text, size_t n,
     struct text_pieces *to, bool *is_first)
{
    const uint32_t other =
        1u << UNICODE_CC | 1u << UNICODE_CF | 1u << UNICODE_CO;
    struct text_pieces a = {0}, b = {0};
    size_t at, step;
    uint32_t c;

    for (at = 0; at < n; at += step) {
        step = unicode_read(text + at, n - at, &c);
        if (norm->clean &&
            (c == 0 || c == 0xfffd ||
             (c != '\t' && c != '\n' && c != '\r' && unicode_is(c, other)))) {
            *is_first = *is_first && at > 0;
            continue;
        }
        if (norm->clean && unicode_is_space(c))
            c = ' ';
        if (norm->chinese && is_chinese(c)) {
            text_add_char(&a, ' ');
            text_add_char(&a, c);
            c = ' ';
        }
        text_add_char(&a, c);
    }
    if (norm->accents) {
        normal_form(a.text, a.n, false, false, &b);
        a.n = 0;
        filter(b.text, b.n, 1u << UNICODE_MN, &a, is_first);
    }
    if (norm->lower)
        lower(a.text, a.n, to);
    else
        text_add_bytes(to, a.text, a.n);
    to->failed = to->failed || a.failed || b.failed;
    text_pieces_fini(&a);
    text_pieces_fini(&b);
}

static BELL_MUST_CHECK bell_status
replace(const struct text_norm *norm, struct regex_room *room, const char *text,
        size_t n, struct text_pieces *to, bool *is_first)
{
    size_t at = 0, from = 0, begin, end;
    bool was_first = *is_first;

    room->n_steps = 0;
    while (from <= n) {
        BELL_TRY(regex_find(norm->regex, room, text, n, from, &begin, &end));
        if (begin > n)
            break;
        if (end == begin)
            return bell_fail(BELL_E_UNSUPPORTED,
                             "a normaliser's pattern matches nothing at byte "
                             "%zu, which is not supported",
                             begin);
        text_add_bytes(to, text + at, begin - at);
        text_add_bytes(to, norm->content, norm->n_content);
        if (begin == 0 && norm->n_content == 0)
            *is_first = false;
        at = end;
        from = end;
    }
    *is_first = *is_first && was_first;
    text_add_bytes(to, text + at, n - at);
    return BELL_OK;
}

static void
nmt(const char *text, size_t n, struct text_pieces *to, bool *is_first)
{
    size_t at;
    uint32_t c;

    for (at = 0; at < n;) {
        bool begins = at == 0;
        at += unicode_read(text + at, n - at, &c);
        if ((c >= 1 && c <= 8) || c == 11 || (c >= 14 && c <= 31) ||
            c == 0x7f || c == 0x8f || c == 0x9f) {
            *is_first = *is_first && !begins;
            continue;
        }
        if (c == 9 || c == 10 || c == 12 || c == 13 || c == 0x1680 ||
            (c >= 0x200b && c <= 0x200f) || c == 0x2028 || c == 0x2029 ||
            c == 0x2581 || c == 0xfeff || c == 0xfffd)
            c = ' ';
        text_add_char(to, c);
    }
}

/* ---- SentencePiece's ---- */

/* Replaces the beginning of a text; tells how many bytes that is. */
static const char *
sentencepiece_prefix(const struct text_norm *norm, const char *text, size_t n,
                     size_t *out_n, size_t *out_bytes)
{
    const char *found = NULL;
    uint32_t c;

    if (norm->users && norm->users->n) {
        struct token_walk walk = token_walk_begin(norm->users);
        size_t i, longest = 0;
        int32_t id;
        for (i = 0; i < n &&
                    token_walk_step(norm->users, &walk, (uint8_t)text[i], &id);
             i++) {
            if (id >= 0)
                longest = i + 1;
        }
        if (longest) {
            *out_n = *out_bytes = longest;
            return text;
        }
    }
    found = text_charsmap_find(&norm->map, text, n, true, out_bytes);
    if (found) {
        *out_n = strlen(found);
        return found;
    }
    *out_n = *out_bytes = unicode_read(text, n, &c);
    return text;
}

static void
sentencepiece(const struct text_norm *norm, const char *text, size_t n,
              struct text_pieces *to)
{
    const char *space = norm->escapes ? METASPACE : " ", *part;
    size_t n_space = strlen(space), at = 0, n_part, bytes, begin = to->n, i;
    bool was_space = norm->remove_spaces;

    while (norm->remove_spaces && at < n) {
        part = sentencepiece_prefix(norm, text + at, n - at, &n_part, &bytes);
        if (n_part != 1 || *part != ' ')
            break;
        at += bytes;
    }
    if (at == n)
        return;
    if (norm->add_space && !norm->space_behind)
        text_add_bytes(to, space, n_space);
    for (; at < n; at += bytes) {
        part = sentencepiece_prefix(norm, text + at, n - at, &n_part, &bytes);
        while (was_space && n_part && *part == ' ') {
            part++;
            n_part--;
        }
        for (i = 0; i < n_part; i++) {
            if (part[i] == ' ')
                text_add_bytes(to, space, n_space);
            else
                text_add_bytes(to, part + i, 1);
        }
        if (n_part)
            was_space = part[n_part - 1] == ' ';
        was_space = was_space && norm->remove_spaces;
    }
    while (norm->remove_spaces && to->n >= begin + n_space &&
           memcmp(to->text + to->n - n_space, space, n_space) == 0)
        to->n -= n_space;
    if (norm->add_space && norm->space_behind)
        text_add_bytes(to, space, n_space);
}

bell_status
text_normalize(const struct text_norm *norm, struct regex_room *room,
               const char *text, size_t n, struct text_pieces *to,
               bool *is_first)
{
    const uint32_t marks =
        1u << UNICODE_MN | 1u << UNICODE_MC | 1u << UNICODE_ME;
    size_t i;

    switch (norm->kind) {
    case NORM_NFC:
    case NORM_NFD:
    case NORM_NFKC:
    case NORM_NFKD:
        normal_form(text, n, norm->kind == NORM_NFKC || norm->kind == NORM_NFKD,
                    norm->kind == NORM_NFC || norm->kind == NORM_NFKC, to);
        break;
    case NORM_LOWER:
        lower(text, n, to);
        break;
    case NORM_STRIP:
        strip(norm, text, n, to, is_first);
        break;
    case NORM_STRIP_ACCENTS:
        filter(text, n, marks, to, is_first);
        break;
    case NORM_BERT:
        bert(norm, text, n, to, is_first);
        break;
    case NORM_PREPEND:
        if (n) {
            text_add_bytes(to, norm->content, norm->n_content);
            text_add_bytes(to, text, n);
        }
        break;
    case NORM_REPLACE:
        return replace(norm, room, text, n, to, is_first);
    case NORM_CHARSMAP:
        map_clusters(&norm->map, text, n, to);
        break;
    case NORM_BYTES:
        for (i = 0; i < n; i++)
            text_add_char(to, text_char_of_byte((uint8_t)text[i]));
        break;
    case NORM_NMT:
        nmt(text, n, to, is_first);
        break;
    case NORM_SENTENCEPIECE:
    default:
        sentencepiece(norm, text, n, to);
        break;
    }
    return BELL_OK;
}
