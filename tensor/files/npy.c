/* .npy files: the header's parser, element order, reading and writing. */
#include "tensor/files/npy.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/bits.h"
#include "base/file.h"

#define NPY_MAGIC "\x93NUMPY"

/* A character of type and a size: what a dtype is called in a header. */
static const struct {
    char kind;
    uint8_t size_bytes;
    enum bell_dtype dtype;
} npy_types[] = {
    {'b', 1, BELL_BOOL},    {'i', 1, BELL_INT8},    {'u', 1, BELL_UINT8},
    {'i', 2, BELL_INT16},   {'u', 2, BELL_UINT16},  {'i', 4, BELL_INT32},
    {'u', 4, BELL_UINT32},  {'i', 8, BELL_INT64},   {'u', 8, BELL_UINT64},
    {'f', 2, BELL_FLOAT16}, {'f', 4, BELL_FLOAT32}, {'f', 8, BELL_FLOAT64},
};

bool
npy_has_type(enum bell_dtype dtype)
{
    size_t i;

    for (i = 0; i < ARRAY_LEN(npy_types); i++) {
        if (npy_types[i].dtype == dtype)
            return true;
    }
    return false;
}

/* ---- the header: a Python dictionary of three known keys -------------- */

/* Text being read; `end` is past its last byte. */
struct npy_text {
    const char *at, *end;
};

static void
skip_blanks(struct npy_text *t)
{
    while (t->at < t->end && (*t->at == ' ' || *t->at == '\n' ||
                              *t->at == '\t' || *t->at == '\r'))
        t->at++;
}

static bool
take(struct npy_text *t, char c)
{
    skip_blanks(t);
    if (t->at == t->end || *t->at != c)
        return false;
    t->at++;
    return true;
}

static bool
take_word(struct npy_text *t, const char *word)
{
    size_t len = strlen(word);

    skip_blanks(t);
    if ((size_t)(t->end - t->at) < len || memcmp(t->at, word, len) != 0)
        return false;
    t->at += len;
    return true;
}

/* A string of printable ASCII in single or double quotes, without escapes. */
static bool
take_string(struct npy_text *t, char *buf, size_t size_bytes)
{
    const char *start;
    size_t len;
    char quote;

    skip_blanks(t);
    if (t->at == t->end || (*t->at != '\'' && *t->at != '"'))
        return false;
    quote = *t->at++;
    start = t->at;
    while (t->at < t->end && *t->at != quote && *t->at != '\\' &&
           *t->at >= ' ' && *t->at <= '~')
        t->at++;
    len = (size_t)(t->at - start);
    if (t->at == t->end || *t->at != quote || len >= size_bytes)
        return false;
    memcpy(buf, start, len);
    buf[len] = 0;
    t->at++;
    return true;
}

static bool
take_npy_size(struct npy_text *t, int64_t *out_size)
{
    int64_t value = 0;
    const char *start;

    skip_blanks(t);
    for (start = t->at; t->at < t->end && isdigit((unsigned char)*t->at);
         t->at++) {
        if (__builtin_mul_overflow(value, 10, &value) ||
            __builtin_add_overflow(value, *t->at - '0', &value))
            return false;
    }
    if (t->at == start)
        return false;
    if (t->at < t->end && *t->at == 'L') /* written by Python 2 */
        t->at++;
    *out_size = value;
    return true;
}

static BELL_MUST_CHECK bell_status
set_descr(struct npy_header *h, const char *descr)
{
    const uint16_t one = 1;
    char host = *(const uint8_t *)&one ? '<' : '>';
    const char *type = descr;
    char *end;
    size_t i;

    if (*type && strchr("<>=|", *type))
        type++;
    for (i = 0; i < ARRAY_LEN(npy_types); i++) {
        if (*type != npy_types[i].kind || !isdigit((unsigned char)type[1]) ||
            strtoul(type + 1, &end, 10) != npy_types[i].size_bytes || *end)
            continue;
        h->array.dtype = npy_types[i].dtype;
        h->swap = (descr[0] == '<' || descr[0] == '>') && descr[0] != host &&
                  npy_types[i].size_bytes > 1;
        h->has_descr = true;
        return BELL_OK;
    }
    return bell_fail(BELL_E_UNSUPPORTED,
                     "dtype '%s' is not one of bool, int8..64, uint8..64, "
                     "float16, float32, float64",
                     descr);
}

static BELL_MUST_CHECK bell_status
read_descr(struct npy_header *h, struct npy_text *t)
{
    char descr[64];

    skip_blanks(t);
    if (t->at < t->end && *t->at == '[')
        return bell_fail(BELL_E_UNSUPPORTED,
                         "a structured dtype; only plain numbers are read");
    if (!take_string(t, descr, sizeof(descr)))
        return bell_fail(BELL_E_IO, "header: 'descr' is not a string");
    return set_descr(h, descr);
}

static BELL_MUST_CHECK bell_status
read_order(struct npy_header *h, struct npy_text *t)
{
    h->fortran = take_word(t, "True");
    if (!h->fortran && !take_word(t, "False"))
        return bell_fail(BELL_E_IO,
                         "header: 'fortran_order' is not True or False");
    h->has_order = true;
    return BELL_OK;
}

static BELL_MUST_CHECK bell_status
read_shape(struct npy_header *h, struct npy_text *t)
{
    struct host_array *array = &h->array;
    bool comma = true;

    if (!take(t, '('))
        return bell_fail(BELL_E_IO, "header: 'shape' is not a tuple");
    array->ndim = 0;
    while (!take(t, ')')) {
        if (array->ndim == BELL_MAX_RANK)
            return bell_fail(BELL_E_UNSUPPORTED, "more than %d axes",
                             BELL_MAX_RANK);
        if (!comma || !take_npy_size(t, &array->shape[array->ndim]))
            return bell_fail(BELL_E_IO,
                             "header: 'shape' is not a tuple of sizes");
        array->ndim++;
        comma = take(t, ',');
    }
    if (array->ndim == 1 && !comma)
        return bell_fail(BELL_E_IO, "header: 'shape' is not a tuple");
    h->has_shape = true;
    return BELL_OK;
}

static BELL_MUST_CHECK bell_status
read_entry(struct npy_header *h, struct npy_text *t)
{
    char key[32];

    if (!take_string(t, key, sizeof(key)) || !take(t, ':'))
        return bell_fail(BELL_E_IO, "header: not a dictionary of strings");
    if (strcmp(key, "descr") == 0 && !h->has_descr)
        return read_descr(h, t);
    if (strcmp(key, "fortran_order") == 0 && !h->has_order)
        return read_order(h, t);
    if (strcmp(key, "shape") == 0 && !h->has_shape)
        return read_shape(h, t);
    return bell_fail(BELL_E_IO, "header: key '%s' is unknown or twice there",
                     key);
}

static BELL_MUST_CHECK bell_status
read_header(struct npy_header *h, struct npy_text *t)
{
    bool comma = true;

    if (!take(t, '{'))
        return bell_fail(BELL_E_IO, "header: not a dictionary");
    while (!take(t, '}')) {
        if (!comma)
            return bell_fail(BELL_E_IO, "header: a comma is missing");
        BELL_TRY(read_entry(h, t));
        comma = take(t, ',');
    }
    skip_blanks(t);
    if (t->at != t->end && *t->at != 0)
        return bell_fail(BELL_E_IO, "header: text after the dictionary");
    if (!h->has_descr || !h->has_order || !h->has_shape)
        return bell_fail(BELL_E_IO, "header: %s is missing",
                         !h->has_descr   ? "'descr'"
                         : !h->has_order ? "'fortran_order'"
                                         : "'shape'");
    return BELL_OK;
}

bell_status
npy_parse_header(const void *file, size_t n_bytes,
                 struct npy_header *out_header)
{
    struct npy_header h = {.swap = false};
    const uint8_t *bytes = file;
    size_t n_header, start;
    struct npy_text t;

    if (n_bytes < 10 || memcmp(bytes, NPY_MAGIC, 6) != 0)
        return bell_fail(BELL_E_IO, "not a .npy file");
    if (bytes[6] < 1 || bytes[6] > 3)
        return bell_fail(BELL_E_UNSUPPORTED,
                         ".npy version %u.%u; 1.0 to 3.0 are read", bytes[6],
                         bytes[7]);
    n_header = bytes[8] | (size_t)bytes[9] << 8;
    start = 10;
    if (bytes[6] > 1 && n_bytes >= 12) {
        n_header |= (size_t)bytes[10] << 16 | (size_t)bytes[11] << 24;
        start = 12;
    }
    if (n_bytes < start || n_header > n_bytes - start)
        return bell_fail(BELL_E_IO,
                         "truncated: a header of %zu bytes in a file of %zu",
                         n_header, n_bytes);
    t.at = (const char *)bytes + start;
    t.end = t.at + n_header;
    BELL_TRY(read_header(&h, &t));
    BELL_TRY(host_array_size(&h.array));
    h.start = start + n_header;
    *out_header = h;
    return BELL_OK;
}

bell_status
npy_check_size(const struct npy_header *h, uint64_t n_bytes)
{
    if (h->array.size_bytes > n_bytes - h->start)
        return bell_fail(BELL_E_IO,
                         "truncated: %llu bytes of elements, the header "
                         "promises %zu",
                         (unsigned long long)(n_bytes - h->start),
                         h->array.size_bytes);
    return BELL_OK;
}

/* ---- elements --------------------------------------------------------- */

void
npy_strides(const struct npy_header *h, int64_t *out_strides)
{
    int64_t stride = 1;
    uint32_t i;

    for (i = 0; i < h->array.ndim; i++) { /* the file's first axis is fast */
        out_strides[i] = stride;
        stride *= h->array.shape[i];
    }
}

bell_status
npy_parse(const void *bytes, size_t size_bytes, struct host_array *out_array)
{
    const uint8_t *elements = bytes;
    int64_t strides[BELL_MAX_RANK];
    struct npy_header h;
    uint8_t *data;
    size_t k;

    BELL_TRY(npy_parse_header(bytes, size_bytes, &h));
    BELL_TRY(npy_check_size(&h, size_bytes));
    elements += h.start;
    BELL_TRY(host_array_copy(&h.array, elements, h.swap));
    data = h.array.data;
    if (h.fortran && h.array.ndim > 1) {
        npy_strides(&h, strides);
        host_array_gather(&h.array, elements, strides, h.swap);
    }
    for (k = 0; h.array.dtype == BELL_BOOL && k < h.array.size_bytes; k++)
        data[k] = data[k] != 0;
    *out_array = h.array;
    return BELL_OK;
}

bell_status
npy_read(const char *path, struct host_array *out_array)
{
    return host_array_read(path, npy_parse, out_array);
}

/* ---- writing ---------------------------------------------------------- */

size_t
npy_make_header(const struct host_array *array, char *buf)
{
    const uint16_t one = 1;
    char order = *(const uint8_t *)&one ? '<' : '>';
    size_t n = 10, i;
    uint32_t k;

    for (i = 0; npy_types[i].dtype != array->dtype; i++)
        ;
    if (npy_types[i].size_bytes == 1)
        order = '|';
    n += (size_t)snprintf(buf + n, NPY_HEADER_MAX - n,
                          "{'descr': '%c%c%u', 'fortran_order': False, "
                          "'shape': (",
                          order, npy_types[i].kind, npy_types[i].size_bytes);
    for (k = 0; k < array->ndim; k++)
        n += (size_t)snprintf(buf + n, NPY_HEADER_MAX - n, "%s%lld",
                              k ? ", " : "", (long long)array->shape[k]);
    n += (size_t)snprintf(buf + n, NPY_HEADER_MAX - n, "%s), }",
                          array->ndim == 1 ? "," : "");
    while ((n + 1) % 64 != 0)
        buf[n++] = ' ';
    buf[n++] = '\n';
    memcpy(buf, NPY_MAGIC "\x01\x00", 8);
    buf[8] = (char)((n - 10) & 0xff);
    buf[9] = (char)((n - 10) >> 8);
    return n;
}

bell_status
npy_write(const char *path, const struct host_array *array)
{
    char header[NPY_HEADER_MAX];
    struct file_part parts[2];

    if (!npy_has_type(array->dtype) || array->ndim > BELL_MAX_RANK)
        return bell_fail(BELL_E_UNSUPPORTED, "%s: %s has no .npy type", path,
                         bell_dtype_name(array->dtype));
    parts[0].data = header;
    parts[0].size_bytes = npy_make_header(array, header);
    parts[1].data = array->data;
    parts[1].size_bytes = array->size_bytes;
    return file_write(path, parts, 2);
}
