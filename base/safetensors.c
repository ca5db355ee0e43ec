/* The header is JSON, of which strings, sizes and what may be skipped are read
 * here. Strings are decoded into one pool: none is longer than it is in the
 * file. */
#include "base/safetensors.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/bits.h"
#include "base/text.h"

#define DEPTH_MAX 32 /* of what is skipped */

static const struct {
    const char *type, *dtype;
} dtypes[] = {
    {"BOOL", "bool"},
    {"I8", "int8"},
    {"U8", "uint8"},
    {"I16", "int16"},
    {"U16", "uint16"},
    {"I32", "int32"},
    {"U32", "uint32"},
    {"I64", "int64"},
    {"U64", "uint64"},
    {"F16", "float16"},
    {"BF16", "bfloat16"},
    {"F32", "float32"},
    {"F64", "float64"},
    {"F8_E4M3", "float8_e4m3fn"},
    {"F8_E5M2", "float8_e5m2"},
};

const char *
safetensors_dtype(const char *type)
{
    size_t i;

    for (i = 0; i < ARRAY_LEN(dtypes); i++) {
        if (strcmp(dtypes[i].type, type) == 0)
            return dtypes[i].dtype;
    }
    return NULL;
}

/* ---- JSON ---- */

/* Where the header is read. */
struct reader {
    const char *begin, *at, *end;
    char *pool; /* where the next string goes */
    struct safetensors *list;
    uint64_t data_offset, data_bytes;
};

static BELL_MUST_CHECK bell_status
fail_json(const struct reader *r, const char *expected)
{
    return bell_fail(BELL_E_IO,
                     "the header is not a JSON object, byte %llu: expected %s",
                     (unsigned long long)(r->at - r->begin), expected);
}

static void
skip_blanks(struct reader *r)
{
    while (r->at < r->end && (*r->at == ' ' || *r->at == '\t' ||
                              *r->at == '\n' || *r->at == '\r'))
        r->at++;
}

/* Takes the character, if it is the next one. */
static bool
take(struct reader *r, char c)
{
    skip_blanks(r);
    if (r->at == r->end || *r->at != c)
        return false;
    r->at++;
    return true;
}

/* Between items of a list that ends with `close`: whether another one comes. */
static BELL_MUST_CHECK bell_status
take_next(struct reader *r, char close, bool is_first, bool *out_more)
{
    *out_more = !take(r, close);
    if (!*out_more || is_first || take(r, ','))
        return BELL_OK;
    return fail_json(r, close == '}' ? "',' or '}'" : "',' or ']'");
}

/* Four hexadecimal digits. */
static bool
take_hex(struct reader *r, uint32_t *out)
{
    int i;

    *out = 0;
    if (r->end - r->at < 4)
        return false;
    for (i = 0; i < 4; i++, r->at++) {
        char c = *r->at;
        uint32_t digit;

        if (c >= '0' && c <= '9')
            digit = (uint32_t)(c - '0');
        else if (c >= 'a' && c <= 'f')
            digit = (uint32_t)(c - 'a') + 10;
        else if (c >= 'A' && c <= 'F')
            digit = (uint32_t)(c - 'A') + 10;
        else
            return false;
        *out = *out << 4 | digit;
    }
    return true;
}

static void
put_utf8(struct reader *r, uint32_t c)
{
    if (c < 0x80) {
        *r->pool++ = (char)c;
        return;
    }
    if (c < 0x800) {
        *r->pool++ = (char)(0xc0 | c >> 6);
    } else {
        if (c < 0x10000) {
            *r->pool++ = (char)(0xe0 | c >> 12);
        } else {
            *r->pool++ = (char)(0xf0 | c >> 18);
            *r->pool++ = (char)(0x80 | (c >> 12 & 63));
        }
        *r->pool++ = (char)(0x80 | (c >> 6 & 63));
    }
    *r->pool++ = (char)(0x80 | (c & 63));
}

/* The character behind "\u". */
static BELL_MUST_CHECK bell_status
read_unicode(struct reader *r)
{
    uint32_t c, low;

    if (!take_hex(r, &c))
        return fail_json(r, "four hexadecimal digits");
    if (c == 0)
        return bell_fail(BELL_E_IO, "a string must not have a NUL in it");
    if (c >= 0xd800 && c < 0xe000) {
        if (c >= 0xdc00 || r->end - r->at < 6 || r->at[0] != '\\' ||
            r->at[1] != 'u')
            return fail_json(r, "the other half of a surrogate pair");
        r->at += 2;
        if (!take_hex(r, &low) || low < 0xdc00 || low >= 0xe000)
            return fail_json(r, "the other half of a surrogate pair");
        c = 0x10000 + ((c & 0x3ff) << 10 | (low & 0x3ff));
    }
    put_utf8(r, c);
    return BELL_OK;
}

static BELL_MUST_CHECK bell_status
read_string(struct reader *r, const char **out)
{
    static const char escapes[] = "\"\\/bfnrt", meanings[] = "\"\\/\b\f\n\r\t";
    const char *found;

    if (!take(r, '"'))
        return fail_json(r, "a string");
    *out = r->pool;
    for (; r->at < r->end && *r->at != '"';) {
        char c = *r->at++;

        if (c == 0)
            return bell_fail(BELL_E_IO, "a string must not have a NUL in it");
        if (c != '\\') {
            *r->pool++ = c;
            continue;
        }
        c = r->at < r->end ? *r->at++ : 0;
        found = c ? strchr(escapes, c) : NULL;
        if (found)
            *r->pool++ = meanings[found - escapes];
        else if (c == 'u')
            BELL_TRY(read_unicode(r));
        else
            return fail_json(r, "an escape of JSON");
    }
    if (!take(r, '"'))
        return fail_json(r, "the end of a string");
    *r->pool++ = 0;
    return BELL_OK;
}

/* A string that is printed and compared. */
static BELL_MUST_CHECK bell_status
read_name(struct reader *r, const char **out)
{
    size_t n, i, len;

    BELL_TRY(read_string(r, out));
    n = strlen(*out);
    for (i = 0; i < n; i += len) {
        len = text_name_character(*out + i, n - i);
        if (len == 0)
            return bell_fail(BELL_E_IO,
                             "a name with byte 0x%02x, which is a control "
                             "character or not UTF-8",
                             (uint8_t)(*out)[i]);
    }
    return BELL_OK;
}

/* A character of a number, or of true, false and null. */
static bool
is_of_word(char c)
{
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || c == 'E' ||
           c == '.' || c == '+' || c == '-';
}

/* A size: an integer below 2^63. */
static bool
take_size(struct reader *r, uint64_t *out)
{
    const char *first;

    skip_blanks(r);
    first = r->at;
    *out = 0;
    for (; r->at < r->end && *r->at >= '0' && *r->at <= '9'; r->at++) {
        if (__builtin_mul_overflow(*out, 10, out) ||
            __builtin_add_overflow(*out, (uint64_t)(*r->at - '0'), out) ||
            *out > INT64_MAX)
            return false;
    }
    if (r->at < r->end && is_of_word(*r->at)) /* a fraction, or hexadecimal */
        return false;
    return r->at > first && !(*first == '0' && r->at - first > 1);
}

/* Any value, of which nothing is wanted. */
static BELL_MUST_CHECK bell_status
skip_value(struct reader *r, int depth)
{
    char *pool = r->pool, close;
    const char *text;
    bool more, is_first = true;

    skip_blanks(r);
    if (r->at < r->end && *r->at == '"') {
        BELL_TRY(read_string(r, &text));
        r->pool = pool;
        return BELL_OK;
    }
    if (!take(r, '{') && !take(r, '[')) {
        for (text = r->at; r->at < r->end && is_of_word(*r->at); r->at++)
            continue;
        return r->at > text ? BELL_OK : fail_json(r, "a value");
    }
    close = r->at[-1] == '{' ? '}' : ']';
    if (depth == DEPTH_MAX)
        return bell_fail(BELL_E_IO, "the header: more than %d levels",
                         DEPTH_MAX);
    for (;; is_first = false) {
        BELL_TRY(take_next(r, close, is_first, &more));
        if (!more)
            return BELL_OK;
        if (close == '}') {
            BELL_TRY(read_string(r, &text));
            r->pool = pool;
            if (!take(r, ':'))
                return fail_json(r, "':'");
        }
        BELL_TRY(skip_value(r, depth + 1));
    }
}

/* ---- what the header has ---- */

static BELL_MUST_CHECK bell_status
fail_entry(const struct safetensors_entry *e, const char *what)
{
    return bell_fail(BELL_E_IO, "tensor '%.80s': %s", e->name, what);
}

static BELL_MUST_CHECK bell_status
read_shape(struct reader *r, struct safetensors_entry *e)
{
    bool more, is_first = true;

    if (!take(r, '['))
        return fail_entry(e, "has no shape");
    for (;; is_first = false) {
        BELL_TRY(take_next(r, ']', is_first, &more));
        if (!more)
            return BELL_OK;
        if (e->ndim == SAFETENSORS_RANK_MAX ||
            !take_size(r, &e->shape[e->ndim++]))
            return fail_entry(e, "a shape of more than 32 axes, or an "
                                 "invalid size");
    }
}

static BELL_MUST_CHECK bell_status
read_place(struct reader *r, struct safetensors_entry *e)
{
    uint64_t first, last;

    if (!take(r, '[') || !take_size(r, &first) || !take(r, ',') ||
        !take_size(r, &last) || !take(r, ']') || last < first ||
        last > r->data_bytes)
        return fail_entry(e, "its data_offsets are not in the file");
    e->offset = r->data_offset + first;
    e->size_bytes = last - first;
    return BELL_OK;
}

/* The member called `key`, of which bit `*seen` says whether it was there. */
static BELL_MUST_CHECK bell_status
read_member(struct reader *r, const char *key, struct safetensors_entry *e,
            unsigned *seen)
{
    static const char *const keys[] = {"dtype", "shape", "data_offsets"};
    unsigned i;

    for (i = 0; i < ARRAY_LEN(keys) && strcmp(keys[i], key) != 0; i++)
        continue;
    if (i == ARRAY_LEN(keys))
        return skip_value(r, 0);
    if (*seen & 1u << i)
        return bell_fail(BELL_E_IO, "tensor '%.80s': has two members '%s'",
                         e->name, key);
    *seen |= 1u << i;
    if (i == 1)
        return read_shape(r, e);
    if (i == 2)
        return read_place(r, e);
    skip_blanks(r);
    if (r->at == r->end || *r->at != '"')
        return fail_entry(e, "has no dtype");
    return read_name(r, &e->type);
}

static BELL_MUST_CHECK bell_status
read_entry(struct reader *r, const char *name)
{
    struct safetensors *list = r->list;
    struct safetensors_entry e = {.name = name};
    bool more, is_first = true;
    unsigned seen = 0;
    const char *key;

    if (!take(r, '{'))
        return fail_json(r, "an object");
    for (;; is_first = false) {
        BELL_TRY(take_next(r, '}', is_first, &more));
        if (!more)
            break;
        BELL_TRY(read_string(r, &key));
        if (!take(r, ':'))
            return fail_json(r, "':'");
        BELL_TRY(read_member(r, key, &e, &seen));
    }
    if (seen != 7)
        return fail_entry(&e, !(seen & 1)   ? "has no dtype"
                              : !(seen & 2) ? "has no shape"
                                            : "has no data_offsets");
    if (host_grow((void **)&list->entries, &list->cap_entries,
                  (size_t)list->n_entries + 1, sizeof(e)) != 0)
        return bell_fail(BELL_E_NO_MEMORY, "out of memory for %u tensors",
                         list->n_entries + 1);
    list->entries[list->n_entries++] = e;
    return BELL_OK;
}

static BELL_MUST_CHECK bell_status
read_texts(struct reader *r)
{
    struct safetensors *list = r->list;
    struct safetensors_text t;
    bool more, is_first = true;

    if (!take(r, '{'))
        return fail_json(r, "an object of texts");
    for (;; is_first = false) {
        BELL_TRY(take_next(r, '}', is_first, &more));
        if (!more)
            return BELL_OK;
        BELL_TRY(read_name(r, &t.key));
        if (!take(r, ':'))
            return fail_json(r, "':'");
        skip_blanks(r);
        if (r->at == r->end || *r->at != '"')
            return bell_fail(BELL_E_IO,
                             "__metadata__ has a value that is not text");
        BELL_TRY(read_string(r, &t.value));
        if (host_grow((void **)&list->texts, &list->cap_texts,
                      (size_t)list->n_texts + 1, sizeof(t)) != 0)
            return bell_fail(BELL_E_NO_MEMORY, "out of memory for a text");
        list->texts[list->n_texts++] = t;
    }
}

static BELL_MUST_CHECK bell_status
read_header(struct reader *r)
{
    bool more, is_first = true;
    const char *name;

    if (!take(r, '{'))
        return fail_json(r, "an object");
    for (;; is_first = false) {
        BELL_TRY(take_next(r, '}', is_first, &more));
        if (!more)
            break;
        BELL_TRY(read_name(r, &name));
        if (!take(r, ':'))
            return fail_json(r, "':'");
        if (strcmp(name, "__metadata__") == 0)
            BELL_TRY(read_texts(r));
        else
            BELL_TRY(read_entry(r, name));
    }
    skip_blanks(r);
    return r->at == r->end ? BELL_OK : fail_json(r, "nothing more");
}

/* ---- what makes up the data ---- */

static int
by_place(const void *a, const void *b)
{
    const struct safetensors_entry *x =
        *(const struct safetensors_entry *const *)a;
    const struct safetensors_entry *y =
        *(const struct safetensors_entry *const *)b;

    if (x->offset != y->offset)
        return x->offset < y->offset ? -1 : 1;
    return (x->size_bytes > y->size_bytes) - (x->size_bytes < y->size_bytes);
}

static int
by_name(const void *a, const void *b)
{
    const struct safetensors_entry *x =
        *(const struct safetensors_entry *const *)a;
    const struct safetensors_entry *y =
        *(const struct safetensors_entry *const *)b;

    return strcmp(x->name, y->name);
}

static BELL_MUST_CHECK bell_status
check_list(const struct reader *r, const struct safetensors_entry **list)
{
    uint32_t n = r->list->n_entries, i;
    uint64_t at = r->data_offset, end = r->data_offset + r->data_bytes;

    for (i = 0; i < n; i++)
        list[i] = &r->list->entries[i];
    if (n)
        qsort(list, n, sizeof(list[0]), by_place);
    for (i = 0; i < n; i++) {
        if (list[i]->offset != at)
            return bell_fail(
                BELL_E_IO,
                "tensor '%.80s' begins at byte %llu of the data, expected "
                "%llu: tensors must neither overlap nor leave holes",
                list[i]->name,
                (unsigned long long)(list[i]->offset - r->data_offset),
                (unsigned long long)(at - r->data_offset));
        at += list[i]->size_bytes;
    }
    if (at != end)
        return bell_fail(BELL_E_IO,
                         "%llu bytes after the last tensor belong to no tensor",
                         (unsigned long long)(end - at));
    if (n)
        qsort(list, n, sizeof(list[0]), by_name);
    for (i = 1; i < n; i++) {
        if (strcmp(list[i - 1]->name, list[i]->name) == 0)
            return bell_fail(BELL_E_IO, "two tensors are called '%.80s'",
                             list[i]->name);
    }
    return BELL_OK;
}

/* The tensors make up the data, and each has a name of its own. */
static BELL_MUST_CHECK bell_status
check_entries(const struct reader *r)
{
    const struct safetensors_entry **list =
        host_calloc((size_t)r->list->n_entries + 1, sizeof(*list));
    bell_status status;

    if (!list)
        return bell_fail(BELL_E_NO_MEMORY, "out of memory for %u tensors",
                         r->list->n_entries);
    status = check_list(r, list);
    host_free(list);
    return status;
}

bell_status
safetensors_read(const void *file, uint64_t size_bytes, struct safetensors *out)
{
    struct safetensors list = {.n_entries = 0};
    struct reader r = {.list = &list};
    bell_status status;
    uint64_t n = 0;

    if (size_bytes >= sizeof(n))
        memcpy(&n, file, sizeof(n)); /* little endian, as we are */
    if (size_bytes < sizeof(n) || n > SAFETENSORS_HEADER_MAX_BYTES ||
        n > size_bytes - sizeof(n))
        return bell_fail(BELL_E_IO,
                         "a header of %llu bytes, the file has %llu, and %u "
                         "are possible",
                         (unsigned long long)n, (unsigned long long)size_bytes,
                         SAFETENSORS_HEADER_MAX_BYTES);
    r.begin = r.at = (const char *)file + sizeof(n);
    r.end = r.begin + n;
    r.data_offset = sizeof(n) + n;
    r.data_bytes = size_bytes - r.data_offset;
    list.pool = r.pool = host_alloc(n + 1);
    if (!list.pool)
        return bell_fail(BELL_E_NO_MEMORY, "out of memory for a header");
    status = read_header(&r);
    if (status == BELL_OK)
        status = check_entries(&r);
    if (status != BELL_OK) {
        safetensors_fini(&list);
        return status;
    }
    *out = list;
    return BELL_OK;
}

void
safetensors_fini(struct safetensors *s)
{
    host_free(s->entries);
    host_free(s->texts);
    host_free(s->pool);
    memset(s, 0, sizeof(*s));
}
