/* IDX files. src: the description on the MNIST page: magic 0, 0, type, rank;
 * one big-endian 32-bit size per axis; elements, big-endian. */
#include "tensor/files/idx.h"

#include <limits.h>

#if BELL_HAVE_ZLIB
#include <zlib.h>
#endif

#include "base/alloc.h"
#include "base/bits.h"

static const struct {
    uint8_t code;
    enum bell_dtype dtype;
} idx_types[] = {
    {0x08, BELL_UINT8}, {0x09, BELL_INT8},    {0x0b, BELL_INT16},
    {0x0c, BELL_INT32}, {0x0d, BELL_FLOAT32}, {0x0e, BELL_FLOAT64},
};

/* Most bytes before the elements. */
#define IDX_HEADER_MAX (4 + 4 * BELL_MAX_RANK)

static uint32_t
big_endian(const uint8_t *p)
{
    return (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 |
           p[3];
}

bell_status
idx_parse_header(const uint8_t *bytes, size_t n_bytes, struct host_array *array,
                 size_t *out_start)
{
    size_t i;

    if (n_bytes < 4 || bytes[0] != 0 || bytes[1] != 0)
        return bell_fail(BELL_E_IO, "not an IDX file: it does not begin with "
                                    "two zero bytes");
    for (i = 0; i < ARRAY_LEN(idx_types); i++) {
        if (idx_types[i].code == bytes[2])
            array->dtype = idx_types[i].dtype;
    }
    if (array->dtype == BELL_DEFAULT)
        return bell_fail(BELL_E_IO, "IDX type 0x%02x is unknown", bytes[2]);
    array->ndim = bytes[3];
    if (array->ndim > BELL_MAX_RANK)
        return bell_fail(BELL_E_IO, "%u axes, at most %d", array->ndim,
                         BELL_MAX_RANK);
    *out_start = 4 + 4 * (size_t)array->ndim;
    if (n_bytes < *out_start)
        return bell_fail(BELL_E_IO,
                         "truncated: %zu bytes, the header alone "
                         "has %zu",
                         n_bytes, *out_start);
    for (i = 0; i < array->ndim; i++)
        array->shape[i] = big_endian(bytes + 4 + 4 * i);
    return host_array_size(array);
}

bell_status
idx_check_size(const struct host_array *array, size_t start, size_t n_bytes)
{
    if (n_bytes - start != array->size_bytes)
        return bell_fail(
            BELL_E_IO, "%s: %zu bytes of elements, the header promises %zu",
            n_bytes - start < array->size_bytes ? "truncated" : "too long",
            n_bytes - start, array->size_bytes);
    return BELL_OK;
}

static BELL_MUST_CHECK bell_status
parse_plain(const uint8_t *bytes, size_t n_bytes, struct host_array *array)
{
    const uint16_t one = 1; /* its first byte: on a little-endian host */
    size_t start;

    BELL_TRY(idx_parse_header(bytes, n_bytes, array, &start));
    BELL_TRY(idx_check_size(array, start, n_bytes));
    return host_array_copy(array, bytes + start, *(const uint8_t *)&one);
}

#if BELL_HAVE_ZLIB

/* zlib's memory comes from where ours does. */
static void *
zlib_alloc(void *user, unsigned count, unsigned size)
{
    (void)user;
    return host_calloc(count, size);
}

static void
zlib_free(void *user, void *ptr)
{
    (void)user;
    host_free(ptr);
}

/* Bytes that are unpacked, and how many there may be. */
struct unpacked {
    uint8_t *data;
    size_t cap, n, limit;
    bool limit_known;
};

static BELL_MUST_CHECK bell_status
learn_limit(struct unpacked *out)
{
    struct host_array header = {.ndim = 0};
    size_t start;

    if (out->limit_known || out->n < IDX_HEADER_MAX)
        return BELL_OK;
    BELL_TRY(idx_parse_header(out->data, out->n, &header, &start));
    out->limit = start + header.size_bytes;
    out->limit_known = true;
    return BELL_OK;
}

static BELL_MUST_CHECK bell_status
unpack_stream(z_stream *z, size_t n_bytes, struct unpacked *out)
{
    int code = Z_OK;

    while (code != Z_STREAM_END) {
        size_t before = out->n;
        if (host_grow((void **)&out->data, &out->cap, out->n + 65536, 1) != 0)
            return bell_fail(BELL_E_NO_MEMORY,
                             "unpacking %zu bytes: out of memory", n_bytes);
        z->next_out = out->data + out->n;
        z->avail_out = 65536;
        code = inflate(z, Z_NO_FLUSH);
        out->n += 65536 - z->avail_out;
        if (code != Z_OK && code != Z_STREAM_END && code != Z_BUF_ERROR)
            return code == Z_MEM_ERROR
                       ? bell_fail(BELL_E_NO_MEMORY,
                                   "unpacking gzip data: out of memory")
                       : bell_fail(BELL_E_IO, "gzip data is damaged: %s",
                                   z->msg ? z->msg : "no reason is given");
        BELL_TRY(learn_limit(out));
        if (out->limit_known && out->n > out->limit)
            return bell_fail(BELL_E_IO,
                             "too long: unpacks to more than the "
                             "%zu bytes that the header promises",
                             out->limit);
        if (code != Z_STREAM_END && z->avail_in == 0 && out->n == before)
            return bell_fail(BELL_E_IO, "gzip data is truncated");
    }
    if (z->avail_in != 0)
        return bell_fail(BELL_E_IO,
                         "the gzip data ends %u bytes before the file does",
                         z->avail_in);
    return BELL_OK;
}

bell_status
idx_unpack(const uint8_t *bytes, size_t n_bytes, struct file_bytes *out_file)
{
    z_stream z = {.zalloc = zlib_alloc, .zfree = zlib_free};
    struct unpacked out = {.n = 0};
    bell_status status;

    if (n_bytes > UINT_MAX)
        return bell_fail(
            BELL_E_UNSUPPORTED,
            "a gzip file of %zu bytes is too large; expected fewer than 2^32",
            n_bytes);
    if (inflateInit2(&z, 15 + 16) != Z_OK)
        return bell_fail(BELL_E_NO_MEMORY, "starting zlib: out of memory");
    z.next_in = (Bytef *)(uintptr_t)bytes;
    z.avail_in = (unsigned)n_bytes;
    status = unpack_stream(&z, n_bytes, &out);
    inflateEnd(&z);
    if (status != BELL_OK) {
        host_free(out.data);
        return status;
    }
    out_file->data = out.data;
    out_file->size_bytes = out.n;
    return BELL_OK;
}

#else

bell_status
idx_unpack(const uint8_t *bytes, size_t n_bytes, struct file_bytes *out_file)
{
    (void)bytes;
    (void)n_bytes;
    (void)out_file;
    return bell_fail(BELL_E_UNSUPPORTED,
                     "gzip-compressed, and this build has no zlib");
}

#endif

bool
idx_is_packed(const uint8_t *bytes, size_t n_bytes)
{
    return n_bytes >= 2 && bytes[0] == 0x1f && bytes[1] == 0x8b;
}

bell_status
idx_parse(const void *bytes, size_t size_bytes, struct host_array *out_array)
{
    struct host_array array = {.ndim = 0};
    struct file_bytes file;
    bell_status status;

    if (idx_is_packed(bytes, size_bytes)) {
        BELL_TRY(idx_unpack(bytes, size_bytes, &file));
        status = parse_plain(file.data, file.size_bytes, &array);
        file_bytes_fini(&file);
        BELL_TRY(status);
    } else {
        BELL_TRY(parse_plain(bytes, size_bytes, &array));
    }
    *out_array = array;
    return BELL_OK;
}

bell_status
idx_read(const char *path, struct host_array *out_array)
{
    return host_array_read(path, idx_parse, out_array);
}
