/* Characters: UTF-8, classes, lower case, normal forms.
 *
 * src: the Unicode standard, version 18.0: section 3.11 (normal forms), 3.12
 * (Hangul); UAX #29 (clusters); UTS #18, annex C (\w).
 */
#include "tensor/text/unicode.h"

#include <string.h>

#define HANGUL_FIRST 0xac00u
#define HANGUL_COUNT 11172u
#define JAMO_L       0x1100u
#define JAMO_V       0x1161u
#define JAMO_T       0x11a7u
#define N_V          21u
#define N_T          28u

static const char category_names[UNICODE_CATEGORIES][3] = {
    "Cn", "Cc", "Cf", "Co", "Cs", "Ll", "Lm", "Lo", "Lt", "Lu",
    "Mc", "Me", "Mn", "Nd", "Nl", "No", "Pc", "Pd", "Pe", "Pf",
    "Pi", "Po", "Ps", "Sc", "Sk", "Sm", "So", "Zl", "Zp", "Zs",
};

uint32_t
unicode_category_mask(const char *name, size_t n)
{
    uint32_t mask = 0, i;

    for (i = 0; i < UNICODE_CATEGORIES; i++) {
        if ((n == 1 || n == 2) && memcmp(category_names[i], name, n) == 0)
            mask |= 1u << i;
    }
    return mask;
}

/* The value of the run that c is in. */
static uint32_t
find_run(const uint32_t *runs, size_t n, unsigned bits, uint32_t c)
{
    size_t first = 0, last = n;

    while (last - first > 1) {
        size_t mid = first + (last - first) / 2;
        if (runs[mid] >> bits <= c)
            first = mid;
        else
            last = mid;
    }
    return runs[first] & ((1u << bits) - 1);
}

enum unicode_category
unicode_category_of(uint32_t c)
{
    return (enum unicode_category)find_run(unicode_category_runs,
                                           n_unicode_category_runs, 5, c);
}

bool
unicode_is(uint32_t c, uint32_t mask)
{
    return mask >> unicode_category_of(c) & 1;
}

bool
unicode_is_space(uint32_t c)
{
    return (c >= 9 && c <= 13) || c == 0x20 || c == 0x85 || c == 0xa0 ||
           c == 0x1680 || (c >= 0x2000 && c <= 0x200a) || c == 0x2028 ||
           c == 0x2029 || c == 0x202f || c == 0x205f || c == 0x3000;
}

bool
unicode_is_word(uint32_t c, bool joiners)
{
    const uint32_t mask =
        1u << UNICODE_LL | 1u << UNICODE_LM | 1u << UNICODE_LO |
        1u << UNICODE_LT | 1u << UNICODE_LU | 1u << UNICODE_MC |
        1u << UNICODE_ME | 1u << UNICODE_MN | 1u << UNICODE_ND |
        1u << UNICODE_NL | 1u << UNICODE_PC;

    if (c < 0x80)
        return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') ||
               (c >= 'A' && c <= 'Z') || c == '_';
    return unicode_is(c, mask) ||
           find_run(unicode_alphabetic_runs, n_unicode_alphabetic_runs, 1, c) ||
           (joiners && (c == 0x200c || c == 0x200d));
}

bool
unicode_is_punctuation(uint32_t c)
{
    const uint32_t mask = 1u << UNICODE_PC | 1u << UNICODE_PD |
                          1u << UNICODE_PE | 1u << UNICODE_PF |
                          1u << UNICODE_PI | 1u << UNICODE_PO |
                          1u << UNICODE_PS;

    if (c < 0x80)
        return (c >= 33 && c <= 47) || (c >= 58 && c <= 64) ||
               (c >= 91 && c <= 96) || (c >= 123 && c <= 126);
    return unicode_is(c, mask);
}

size_t
unicode_lower(uint32_t c, uint32_t out[2])
{
    size_t first = 0, last = n_unicode_lower_pairs / 2;

    out[0] = c;
    if (c < 0x80) {
        if (c >= 'A' && c <= 'Z')
            out[0] = c + 32;
        return 1;
    }
    if (c == 0x130) {
        out[0] = 'i';
        out[1] = 0x307;
        return 2;
    }
    while (first < last) {
        size_t mid = first + (last - first) / 2;
        if (unicode_lower_pairs[2 * mid] == c) {
            out[0] = unicode_lower_pairs[2 * mid + 1];
            return 1;
        }
        if (unicode_lower_pairs[2 * mid] < c)
            first = mid + 1;
        else
            last = mid;
    }
    return 1;
}

/* ---- UTF-8 ---- */

size_t
unicode_read(const char *text, size_t n, uint32_t *out_char)
{
    const uint8_t *t = (const uint8_t *)text;
    size_t bytes = t[0] < 0x80 ? 1 : t[0] < 0xe0 ? 2 : t[0] < 0xf0 ? 3 : 4;
    uint32_t c = bytes == 1 ? t[0] : t[0] & (0x7fu >> bytes);
    size_t i;

    if (bytes > n) {
        *out_char = t[0];
        return 1;
    }
    for (i = 1; i < bytes; i++)
        c = c << 6 | (t[i] & 0x3fu);
    *out_char = c;
    return bytes;
}

size_t
unicode_write(uint32_t c, char out[4])
{
    if (c < 0x80) {
        out[0] = (char)c;
        return 1;
    }
    if (c < 0x800) {
        out[0] = (char)(0xc0 | c >> 6);
        out[1] = (char)(0x80 | (c & 0x3f));
        return 2;
    }
    if (c < 0x10000) {
        out[0] = (char)(0xe0 | c >> 12);
        out[1] = (char)(0x80 | (c >> 6 & 0x3f));
        out[2] = (char)(0x80 | (c & 0x3f));
        return 3;
    }
    out[0] = (char)(0xf0 | c >> 18);
    out[1] = (char)(0x80 | (c >> 12 & 0x3f));
    out[2] = (char)(0x80 | (c >> 6 & 0x3f));
    out[3] = (char)(0x80 | (c & 0x3f));
    return 4;
}

/* Bytes of the character that begins with that byte; 0: none does. */
static size_t
lead_bytes(uint8_t first)
{
    return first < 0x80                     ? 1
           : first >= 0xc2 && first <= 0xdf ? 2
           : (first & 0xf0) == 0xe0         ? 3
           : first >= 0xf0 && first <= 0xf4 ? 4
                                            : 0;
}

bool
unicode_is_valid(const char *text, size_t n, size_t *out_at)
{
    static const uint32_t least[] = {0, 0, 0x80, 0x800, 0x10000};
    size_t at = 0, bytes, i;
    uint32_t c;

    while (at < n) {
        *out_at = at;
        bytes = lead_bytes((uint8_t)text[at]);
        if (bytes == 0 || bytes > n - at)
            return false;
        for (i = 1; i < bytes; i++) {
            if (((uint8_t)text[at + i] & 0xc0) != 0x80)
                return false;
        }
        (void)unicode_read(text + at, n - at, &c);
        if (c < least[bytes] || c > 0x10ffff || c >> 11 == 0x1b)
            return false;
        at += bytes;
    }
    return true;
}

size_t
unicode_begun(const char *text, size_t n)
{
    size_t i = 1;

    while (i < 3 && i < n && ((uint8_t)text[n - i] & 0xc0) == 0x80)
        i++;
    return n && lead_bytes((uint8_t)text[n - i]) > i ? i : 0;
}

/* ---- clusters ---- */

enum break_class {
    BREAK_OTHER,
    BREAK_JOINS,
    BREAK_BEFORE,
    BREAK_CR,
    BREAK_LF,
    BREAK_CONTROL,
    BREAK_L,
    BREAK_V,
    BREAK_T,
    BREAK_LV,
    BREAK_LVT
};

static enum break_class
break_class_of(uint32_t c)
{
    const uint32_t control = 1u << UNICODE_CC | 1u << UNICODE_CF |
                             1u << UNICODE_ZL | 1u << UNICODE_ZP;
    uint32_t run;

    if (c >= 0x20 && c < 0x7f)
        return BREAK_OTHER;
    if (c == 13 || c == 10)
        return c == 13 ? BREAK_CR : BREAK_LF;
    run = find_run(unicode_cluster_runs, n_unicode_cluster_runs, 2, c);
    if (run)
        return run == 1 ? BREAK_JOINS : BREAK_BEFORE;
    if ((c >= 0x1100 && c <= 0x115f) || (c >= 0xa960 && c <= 0xa97c))
        return BREAK_L;
    if ((c >= 0x1160 && c <= 0x11a7) || (c >= 0xd7b0 && c <= 0xd7c6))
        return BREAK_V;
    if ((c >= 0x11a8 && c <= 0x11ff) || (c >= 0xd7cb && c <= 0xd7fb))
        return BREAK_T;
    if (c - HANGUL_FIRST < HANGUL_COUNT)
        return (c - HANGUL_FIRST) % N_T ? BREAK_LVT : BREAK_LV;
    return unicode_is(c, control) ? BREAK_CONTROL : BREAK_OTHER;
}

static bool
is_joined(enum break_class a, enum break_class b)
{
    if (a == BREAK_CR)
        return b == BREAK_LF;
    if (a == BREAK_LF || a == BREAK_CONTROL || b == BREAK_CR || b == BREAK_LF ||
        b == BREAK_CONTROL)
        return false;
    if (b == BREAK_JOINS || a == BREAK_BEFORE)
        return true;
    if (a == BREAK_L)
        return b == BREAK_L || b == BREAK_V || b == BREAK_LV || b == BREAK_LVT;
    if (a == BREAK_LV || a == BREAK_V)
        return b == BREAK_V || b == BREAK_T;
    return (a == BREAK_LVT || a == BREAK_T) && b == BREAK_T;
}

size_t
unicode_cluster(const char *text, size_t n)
{
    enum break_class last, next;
    uint32_t c;
    size_t at = unicode_read(text, n, &c), bytes;

    last = break_class_of(c);
    while (at < n) {
        bytes = unicode_read(text + at, n - at, &c);
        next = break_class_of(c);
        if (!is_joined(last, next))
            break;
        last = next;
        at += bytes;
    }
    return at;
}

/* ---- normal forms ---- */

uint8_t
unicode_combining(uint32_t c)
{
    if (c < 0x300)
        return 0;
    return (uint8_t)find_run(unicode_combining_runs, n_unicode_combining_runs,
                             8, c);
}

/* Which of the sorted keys is of c; n: none. */
static size_t
find_decomposed(const uint32_t *keys, size_t n, uint32_t c)
{
    size_t first = 0, last = n;

    while (first < last) {
        size_t mid = first + (last - first) / 2;
        if (keys[mid] >> 5 == c)
            return mid;
        if (keys[mid] >> 5 < c)
            first = mid + 1;
        else
            last = mid;
    }
    return n;
}

size_t
unicode_decompose(uint32_t c, bool compat, uint32_t out[UNICODE_DECOMPOSED_MAX])
{
    size_t i = n_unicode_compat_keys, n;

    if (c - HANGUL_FIRST < HANGUL_COUNT) {
        uint32_t s = c - HANGUL_FIRST;
        out[0] = JAMO_L + s / (N_V * N_T);
        out[1] = JAMO_V + s % (N_V * N_T) / N_T;
        out[2] = JAMO_T + s % N_T;
        return s % N_T ? 3 : 2;
    }
    if (compat && c >= 0x80)
        i = find_decomposed(unicode_compat_keys, n_unicode_compat_keys, c);
    if (i < n_unicode_compat_keys) {
        n = unicode_compat_keys[i] & 31;
        memcpy(out, unicode_compat_chars + unicode_compat_places[i],
               n * sizeof(*out));
        return n;
    }
    i = c < 0xc0 ? n_unicode_canonical_keys
                 : find_decomposed(unicode_canonical_keys,
                                   n_unicode_canonical_keys, c);
    if (i < n_unicode_canonical_keys) {
        n = unicode_canonical_keys[i] & 31;
        memcpy(out, unicode_canonical_chars + unicode_canonical_places[i],
               n * sizeof(*out));
        return n;
    }
    out[0] = c;
    return 1;
}

uint32_t
unicode_compose(uint32_t a, uint32_t b)
{
    size_t first = 0, last = n_unicode_pairs / 3;

    if (a - JAMO_L < 19 && b - JAMO_V < N_V)
        return HANGUL_FIRST + ((a - JAMO_L) * N_V + (b - JAMO_V)) * N_T;
    if (a - HANGUL_FIRST < HANGUL_COUNT && (a - HANGUL_FIRST) % N_T == 0 &&
        b - JAMO_T - 1 < N_T - 1)
        return a + (b - JAMO_T);
    while (first < last) {
        size_t mid = first + (last - first) / 2;
        const uint32_t *p = unicode_pairs + 3 * mid;
        if (p[0] == a && p[1] == b)
            return p[2];
        if (p[0] < a || (p[0] == a && p[1] < b))
            first = mid + 1;
        else
            last = mid;
    }
    return 0;
}
