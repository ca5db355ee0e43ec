/* ZIP archives: the central directory, unpacking, writing. */
#include "tensor/files/zip.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#if BELL_HAVE_ZLIB
#include <zlib.h>
#endif

#include "base/alloc.h"
#include "base/text.h"

#define END_BYTES       22u
#define CENTRAL_BYTES   46u
#define LOCAL_BYTES     30u
#define DEFLATE_AT_MOST 1032u /* times its bytes; and a little */

static uint32_t
get16(const uint8_t *p)
{
    return p[0] | (uint32_t)p[1] << 8;
}

static uint32_t
get32(const uint8_t *p)
{
    return get16(p) | get16(p + 2) << 16;
}

static uint64_t
get64(const uint8_t *p)
{
    return get32(p) | (uint64_t)get32(p + 4) << 32;
}

/* ---- reading the directory ---- */

/* Where the directory is. */
struct directory {
    const uint8_t *bytes;
    uint64_t size_bytes, at, n_bytes, n_members;
};

/* The record at the end, whose comment ends where the archive does. */
static const uint8_t *
find_end(const uint8_t *bytes, size_t size_bytes)
{
    size_t i;

    for (i = END_BYTES; i <= size_bytes && i <= END_BYTES + 0xffffu; i++) {
        const uint8_t *at = bytes + size_bytes - i;
        if (memcmp(at, "PK\5\6", 4) == 0 && get16(at + 20) == i - END_BYTES)
            return at;
    }
    return NULL;
}

static BELL_MUST_CHECK bell_status
find_directory(const uint8_t *bytes, size_t size_bytes,
               struct directory *out_directory)
{
    const uint8_t *end = find_end(bytes, size_bytes), *wide;
    struct directory d = {.bytes = bytes, .size_bytes = size_bytes};
    uint64_t place;

    if (!end)
        return bell_fail(BELL_E_IO, "truncated: a zip archive without its end");
    place = (uint64_t)(end - bytes);
    d.n_members = get16(end + 10);
    d.n_bytes = get32(end + 12);
    d.at = get32(end + 16);
    if (get16(end + 4) || get16(end + 6) || get16(end + 8) != d.n_members)
        return bell_fail(BELL_E_UNSUPPORTED,
                         "a zip archive in several parts is not read");
    if (place >= 20 && memcmp(end - 20, "PK\6\7", 4) == 0) {
        uint64_t at = get64(end - 20 + 8);
        if (at > place - 20 || place - 20 - at < 56 ||
            memcmp(bytes + at, "PK\6\6", 4) != 0)
            return bell_fail(BELL_E_IO,
                             "the zip archive's end is not where it says");
        wide = bytes + at;
        d.n_members = get64(wide + 32);
        d.n_bytes = get64(wide + 40);
        d.at = get64(wide + 48);
        place = at;
    }
    if (d.at > place || d.n_bytes > place - d.at ||
        d.n_members > d.n_bytes / CENTRAL_BYTES)
        return bell_fail(BELL_E_IO,
                         "a zip directory of %llu members cannot be in %llu "
                         "bytes at byte %llu of %zu",
                         (unsigned long long)d.n_members,
                         (unsigned long long)d.n_bytes,
                         (unsigned long long)d.at, size_bytes);
    *out_directory = d;
    return BELL_OK;
}

/* Sizes beyond 32 bits stand in an extra field, in this order. */
static bool
widen(const uint8_t *extra, size_t n_extra, uint64_t *const sizes[3])
{
    size_t i, at, n;

    while (n_extra >= 4) {
        n = get16(extra + 2);
        if (n > n_extra - 4)
            return false;
        if (get16(extra) == 1) {
            for (i = 0, at = 4; i < 3; i++) {
                if (*sizes[i] != UINT32_MAX)
                    continue;
                if (at + 8 > n + 4)
                    return false;
                *sizes[i] = get64(extra + at);
                at += 8;
            }
        }
        extra += 4 + n;
        n_extra -= 4 + n;
    }
    return true;
}

static uint64_t
name_key(const char *name)
{
    return hash_bytes(name, strlen(name), 0);
}

/* Where its data is, from what stands before it. */
static BELL_MUST_CHECK bell_status
find_data(const struct directory *d, uint64_t local, struct zip_member *member)
{
    size_t n_name = strlen(member->name);
    const uint8_t *at = d->bytes + local;
    uint64_t place;

    if (local > d->at || d->at - local < LOCAL_BYTES ||
        memcmp(at, "PK\3\4", 4) != 0)
        return bell_fail(BELL_E_IO, "member '%.80s' is not where it should be",
                         member->name);
    place = local + LOCAL_BYTES + get16(at + 26) + get16(at + 28);
    if (place > d->at || member->n_packed > d->at - place ||
        get16(at + 26) != n_name ||
        memcmp(at + LOCAL_BYTES, member->name, n_name) != 0)
        return bell_fail(BELL_E_IO, "member '%.80s' is not where it should be",
                         member->name);
    member->data = d->bytes + place;
    return BELL_OK;
}

static BELL_MUST_CHECK bell_status
check_member(const uint8_t *at, const struct zip_member *member)
{
    uint32_t method = get16(at + 10);
    size_t n_name = strlen(member->name), i, n;

    for (i = 0; i < n_name; i += n) {
        n = text_name_character(member->name + i, n_name - i);
        if (n == 0)
            return bell_fail(BELL_E_IO,
                             "a member's name with byte 0x%02x, which is a "
                             "control character or not UTF-8",
                             (uint8_t)member->name[i]);
    }
    if (get16(at + 8) & 1)
        return bell_fail(BELL_E_UNSUPPORTED, "member '%.80s' is encrypted",
                         member->name);
    if (method != 0 && method != 8)
        return bell_fail(BELL_E_UNSUPPORTED,
                         "member '%.80s' is compressed by method %u; stored "
                         "and deflated ones are read",
                         member->name, method);
    if (method == 0 ? member->n_bytes != member->n_packed
                    : member->n_bytes / DEFLATE_AT_MOST > member->n_packed)
        return bell_fail(BELL_E_IO,
                         "member '%.80s' has %llu bytes, which do not come "
                         "out of %llu",
                         member->name, (unsigned long long)member->n_bytes,
                         (unsigned long long)member->n_packed);
    return BELL_OK;
}

/* The member whose row is at *place, which moves on. */
static BELL_MUST_CHECK bell_status
read_member(const struct directory *d, uint64_t *place, struct zip *zip)
{
    const uint8_t *at = d->bytes + *place;
    uint64_t left = d->at + d->n_bytes - *place, n_row, local;
    struct zip_member *member = &zip->members[zip->n_members];
    uint32_t n_name, n_extra;

    if (left < CENTRAL_BYTES || memcmp(at, "PK\1\2", 4) != 0)
        return bell_fail(BELL_E_IO, "the zip directory is damaged at byte %llu",
                         (unsigned long long)*place);
    n_name = get16(at + 28);
    n_extra = get16(at + 30);
    n_row = (uint64_t)CENTRAL_BYTES + n_name + n_extra + get16(at + 32);
    if (n_row > left)
        return bell_fail(BELL_E_IO, "the zip directory is damaged at byte %llu",
                         (unsigned long long)*place);
    member->crc = get32(at + 16);
    member->n_packed = get32(at + 20);
    member->n_bytes = get32(at + 24);
    member->deflated = get16(at + 10) == 8;
    local = get32(at + 42);
    member->name = host_strndup(at + CENTRAL_BYTES, n_name);
    if (!member->name)
        return bell_fail(BELL_E_NO_MEMORY, "out of memory for a name");
    zip->n_members++;
    if (strlen(member->name) != n_name ||
        !widen(
            at + CENTRAL_BYTES + n_name, n_extra,
            (uint64_t *const[]){&member->n_bytes, &member->n_packed, &local}))
        return bell_fail(BELL_E_IO, "the zip directory is damaged at byte %llu",
                         (unsigned long long)*place);
    BELL_TRY(check_member(at, member));
    BELL_TRY(find_data(d, local, member));
    if (map_get(&zip->member_of, name_key(member->name)))
        return bell_fail(BELL_E_IO, "two members are called '%.80s'",
                         member->name);
    if (map_put(&zip->member_of, name_key(member->name), zip->n_members - 1))
        return bell_fail(BELL_E_NO_MEMORY, "out of memory for a member");
    *place += n_row;
    return BELL_OK;
}

static int
compare_places(const void *a, const void *b)
{
    const struct zip_member *x = *(struct zip_member *const *)a;
    const struct zip_member *y = *(struct zip_member *const *)b;

    return (x->data > y->data) - (x->data < y->data);
}

static BELL_MUST_CHECK bell_status
check_overlaps(const struct zip *zip)
{
    struct zip_member **sorted =
        host_calloc(zip->n_members + 1, sizeof(struct zip_member *));
    bell_status status = BELL_OK;
    size_t i;

    if (!sorted)
        return bell_fail(BELL_E_NO_MEMORY, "out of memory for %zu members",
                         zip->n_members);
    for (i = 0; i < zip->n_members; i++)
        sorted[i] = &zip->members[i];
    qsort(sorted, zip->n_members, sizeof(struct zip_member *), compare_places);
    for (i = 1; i < zip->n_members && status == BELL_OK; i++) {
        if (sorted[i]->data < sorted[i - 1]->data + sorted[i - 1]->n_packed)
            status =
                bell_fail(BELL_E_IO, "members '%.80s' and '%.80s' share bytes",
                          sorted[i - 1]->name, sorted[i]->name);
    }
    host_free(sorted);
    return status;
}

bell_status
zip_open(const uint8_t *bytes, size_t size_bytes, struct zip *out_zip)
{
    struct directory d;
    uint64_t place, i;

    map_init(&out_zip->member_of);
    BELL_TRY(find_directory(bytes, size_bytes, &d));
    out_zip->members =
        host_calloc((size_t)d.n_members + 1, sizeof(*out_zip->members));
    if (!out_zip->members)
        return bell_fail(BELL_E_NO_MEMORY, "out of memory for %llu members",
                         (unsigned long long)d.n_members);
    for (i = 0, place = d.at; i < d.n_members; i++)
        BELL_TRY(read_member(&d, &place, out_zip));
    return check_overlaps(out_zip);
}

void
zip_fini(struct zip *zip)
{
    size_t i;

    for (i = 0; i < zip->n_members; i++)
        host_free(zip->members[i].name);
    host_free(zip->members);
    map_fini(&zip->member_of);
    memset(zip, 0, sizeof(*zip));
}

struct zip_member *
zip_find(const struct zip *zip, const char *name)
{
    const uint64_t *found = map_get(&zip->member_of, name_key(name));

    if (!found || strcmp(zip->members[*found].name, name) != 0)
        return NULL;
    return &zip->members[*found];
}

/* ---- unpacking ---- */

#if BELL_HAVE_ZLIB

static uint32_t
crc_of(uint32_t crc, const uint8_t *data, uint64_t n_bytes)
{
    while (n_bytes > 0) {
        uInt step = n_bytes < 1u << 30 ? (uInt)n_bytes : 1u << 30;
        crc = (uint32_t)crc32(crc, data, step);
        data += step;
        n_bytes -= step;
    }
    return crc;
}

static BELL_MUST_CHECK bell_status
fail_damaged(const struct zip_member *member, const char *what)
{
    return bell_fail(BELL_E_IO, "member '%.80s' is damaged: %s", member->name,
                     what);
}

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

static BELL_MUST_CHECK bell_status
inflate_member(z_stream *z, const struct zip_member *member, uint8_t *dst,
               uint64_t n_bytes)
{
    uint64_t n_in = member->n_packed, n_out = n_bytes;
    int code = Z_OK;

    z->next_in = (Bytef *)(uintptr_t)member->data;
    z->next_out = dst;
    while (code == Z_OK && (n_out > 0 || n_bytes == member->n_bytes)) {
        uInt in = n_in < 1u << 30 ? (uInt)n_in : 1u << 30;
        uInt out = n_out < 1u << 30 ? (uInt)n_out : 1u << 30;
        z->avail_in = in;
        z->avail_out = out;
        code = inflate(z, Z_NO_FLUSH);
        n_in -= in - z->avail_in;
        n_out -= out - z->avail_out;
    }
    if (code == Z_MEM_ERROR)
        return bell_fail(BELL_E_NO_MEMORY, "out of memory to unpack '%.80s'",
                         member->name);
    if (code == Z_BUF_ERROR)
        return fail_damaged(member, n_in ? "it unpacks to more than it says"
                                         : "its data is truncated");
    if (code != Z_OK && code != Z_STREAM_END)
        return fail_damaged(member, z->msg ? z->msg : "no deflated data");
    if (n_out > 0 || (n_bytes == member->n_bytes && n_in > 0))
        return fail_damaged(member, "it unpacks to another size than it says");
    return BELL_OK;
}

bell_status
zip_check(struct zip_member *member)
{
    if (atomic_load(&member->checked))
        return BELL_OK;
    if (crc_of(0, member->data, member->n_packed) != member->crc)
        return fail_damaged(member, "its CRC is another");
    atomic_store(&member->checked, true);
    return BELL_OK;
}

bell_status
zip_read(struct zip_member *member, void *dst, uint64_t n_bytes)
{
    z_stream z = {.zalloc = zlib_alloc, .zfree = zlib_free};
    uint8_t none[1];
    bell_status status;

    if (!member->deflated) {
        BELL_TRY(zip_check(member));
        memcpy(dst, member->data, n_bytes);
        return BELL_OK;
    }
    if (inflateInit2(&z, -15) != Z_OK)
        return bell_fail(BELL_E_NO_MEMORY, "starting zlib: out of memory");
    status = inflate_member(&z, member, n_bytes ? dst : none, n_bytes);
    inflateEnd(&z);
    BELL_TRY(status);
    if (n_bytes == member->n_bytes && crc_of(0, dst, n_bytes) != member->crc)
        return fail_damaged(member, "its CRC is another");
    return BELL_OK;
}

/* ---- writing ---- */

static void
put16(uint8_t *p, uint32_t value)
{
    p[0] = (uint8_t)value;
    p[1] = (uint8_t)(value >> 8);
}

static void
put32(uint8_t *p, uint64_t value)
{
    put16(p, (uint32_t)value & 0xffff);
    put16(p + 2, (uint32_t)(value >> 16) & 0xffff);
}

static void
put64(uint8_t *p, uint64_t value)
{
    put32(p, value);
    put32(p + 4, value >> 32);
}

static BELL_MUST_CHECK bell_status
put_bytes(struct zip_writer *zip, const void *data, size_t n_bytes)
{
    const uint8_t *at = data;

    zip->n_written += n_bytes;
    while (n_bytes > 0) {
        ssize_t n = write(zip->fd, at, n_bytes);
        if (n < 0)
            return bell_fail_file(zip->path, "cannot write");
        at += n;
        n_bytes -= (size_t)n;
    }
    return BELL_OK;
}

/* The fields that both headers share, from `version needed` on: 26 bytes, of
 * which the sizes stand in an extra field. */
static void
put_fields(uint8_t *p, uint32_t crc, size_t n_name, size_t n_extra)
{
    put16(p, 45);
    put16(p + 2, 0);
    put16(p + 4, 0);
    put16(p + 6, 0);
    put16(p + 8, 0x21); /* the first day of 1980 */
    put32(p + 10, crc);
    put32(p + 14, UINT32_MAX);
    put32(p + 18, UINT32_MAX);
    put16(p + 22, (uint32_t)n_name);
    put16(p + 24, (uint32_t)n_extra);
}

static BELL_MUST_CHECK bell_status
put_central(struct zip_writer *zip, const char *name, uint32_t crc,
            uint64_t n_bytes, uint64_t local)
{
    size_t n_name = strlen(name), need = CENTRAL_BYTES + n_name + 28;
    uint8_t *p;

    if (host_grow((void **)&zip->central, &zip->cap_central,
                  zip->n_central + need, 1) != 0)
        return bell_fail(BELL_E_NO_MEMORY,
                         "%s: out of memory for its directory", zip->path);
    p = zip->central + zip->n_central;
    memset(p, 0, need);
    memcpy(p, "PK\1\2", 4);
    put16(p + 4, 45);
    put_fields(p + 6, crc, n_name, 28);
    put32(p + 42, UINT32_MAX);
    memcpy(p + CENTRAL_BYTES, name, n_name);
    p += CENTRAL_BYTES + n_name;
    put16(p, 1);
    put16(p + 2, 24);
    put64(p + 4, n_bytes);
    put64(p + 12, n_bytes);
    put64(p + 20, local);
    zip->n_central += need;
    zip->n_members++;
    return BELL_OK;
}

bell_status
zip_add(struct zip_writer *zip, const char *name,
        const struct zip_part parts[2])
{
    uint64_t local = zip->n_written;
    uint64_t n_bytes = parts[0].size_bytes + parts[1].size_bytes;
    size_t n_name = strlen(name), n_extra, i;
    uint8_t header[LOCAL_BYTES], extra[20 + 4 + 64] = {0};
    uint32_t crc = 0;

    if (n_name > 0xffff)
        return bell_fail(
            BELL_BAD_NAME,
            "%s: the name of %zu bytes is too long; expected fewer than 2^16",
            zip->path, n_name);
    for (i = 0; i < 2; i++)
        crc = crc_of(crc, parts[i].data, parts[i].size_bytes);
    /* the sizes, and a field that nobody knows, for the data's place */
    n_extra = 24 + (64 - (local + LOCAL_BYTES + n_name + 24) % 64) % 64;
    memcpy(header, "PK\3\4", 4);
    put_fields(header + 4, crc, n_name, n_extra);
    put16(extra, 1);
    put16(extra + 2, 16);
    put64(extra + 4, n_bytes);
    put64(extra + 12, n_bytes);
    put16(extra + 20, 0x4c42);
    put16(extra + 22, (uint32_t)n_extra - 24);
    BELL_TRY(put_bytes(zip, header, sizeof(header)));
    BELL_TRY(put_bytes(zip, name, n_name));
    BELL_TRY(put_bytes(zip, extra, n_extra));
    for (i = 0; i < 2; i++)
        BELL_TRY(put_bytes(zip, parts[i].data, parts[i].size_bytes));
    return put_central(zip, name, crc, n_bytes, local);
}

static BELL_MUST_CHECK bell_status
put_end(struct zip_writer *zip)
{
    uint64_t at = zip->n_written;
    uint8_t end[56 + 20 + END_BYTES] = {0}, *p = end;

    BELL_TRY(put_bytes(zip, zip->central, zip->n_central));
    memcpy(p, "PK\6\6", 4);
    put64(p + 4, 44);
    put16(p + 12, 45);
    put16(p + 14, 45);
    put64(p + 24, zip->n_members);
    put64(p + 32, zip->n_members);
    put64(p + 40, zip->n_central);
    put64(p + 48, at);
    p += 56;
    memcpy(p, "PK\6\7", 4);
    put64(p + 8, at + zip->n_central);
    put32(p + 16, 1);
    p += 20;
    memcpy(p, "PK\5\6", 4);
    put16(p + 8, zip->n_members < 0xffff ? (uint32_t)zip->n_members : 0xffff);
    put16(p + 10, zip->n_members < 0xffff ? (uint32_t)zip->n_members : 0xffff);
    put32(p + 12, zip->n_central < UINT32_MAX ? zip->n_central : UINT32_MAX);
    put32(p + 16, at < UINT32_MAX ? at : UINT32_MAX);
    return put_bytes(zip, end, sizeof(end));
}

bell_status
zip_finish(struct zip_writer *zip, bell_status so_far)
{
    if (so_far == BELL_OK)
        so_far = put_end(zip);
    host_free(zip->central);
    return so_far;
}

#else

static BELL_MUST_CHECK bell_status
fail_without(void)
{
    return bell_fail(BELL_E_UNSUPPORTED,
                     "zip archives need zlib, and this was built without");
}

bell_status
zip_check(struct zip_member *member)
{
    (void)member;
    return fail_without();
}

bell_status
zip_read(struct zip_member *member, void *dst, uint64_t n_bytes)
{
    (void)member;
    (void)dst;
    (void)n_bytes;
    return fail_without();
}

bell_status
zip_add(struct zip_writer *zip, const char *name,
        const struct zip_part parts[2])
{
    (void)zip;
    (void)name;
    (void)parts;
    return fail_without();
}

bell_status
zip_finish(struct zip_writer *zip, bell_status so_far)
{
    (void)zip;
    return so_far;
}

#endif
