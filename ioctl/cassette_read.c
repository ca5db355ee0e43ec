/* Reading cassettes. The file is not trusted: every length is checked. */
#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/map.h"
#include "ioctl/cassette.h"
#include "ioctl/cassette_format.h"
#include "ioctl/kio.h"
#include "ioctl/kio_desc.h"

#if BELL_HAVE_ZLIB
#include <zlib.h>
#endif

struct cas_reader {
    const char *name; /* for messages while parsing */
    char *identity;   /* owned */
    uint8_t *raw;     /* owned: all blocks, unpacked */
    size_t raw_bytes;
    struct cas_record *records; /* owned */
    struct cas_blob *blobs;     /* owned: those of all records */
    uint32_t n_records;
    bool truncated;
};

static bell_status
malformed(const struct cas_reader *reader, const char *what, size_t at)
{
    return bell_fail(BELL_E_IO, "%s: not a sound cassette: %s at byte %zu",
                     reader->name, what, at);
}

/* ---- blocks ----------------------------------------------------------- */

/* Unpacks one block behind what is there already; there is room. */
static bell_status
unpack_hex(struct cas_reader *reader, const struct cas_block_head *head,
           const uint8_t *stored, size_t at)
{
    uint8_t *dst = reader->raw + reader->raw_bytes;

    assert(reader->raw);
    if (head->stored_bytes == head->raw_bytes) {
        memcpy(dst, stored, head->raw_bytes);
    } else {
#if BELL_HAVE_ZLIB
        uLongf n = head->raw_bytes;
        if (uncompress(dst, &n, stored, head->stored_bytes) != Z_OK ||
            n != head->raw_bytes)
            return malformed(reader, "a block that does not unpack", at);
#else
        return bell_fail(BELL_E_UNSUPPORTED,
                         "%s is compressed, and this build has no zlib",
                         reader->name);
#endif
    }
    if ((uint32_t)hash_bytes(dst, head->raw_bytes, 0) != head->hash)
        return malformed(reader, "a block with a wrong hash", at);
    reader->raw_bytes += head->raw_bytes;
    return BELL_OK;
}

/* The block at `at`, checked but for its contents; false where the file ends
 * before it does. */
static bool
block_at(const uint8_t *data, size_t size_bytes, size_t at,
         struct cas_block_head *out_head, bool *out_is_sound)
{
    *out_is_sound = true;
    if (size_bytes - at < sizeof(*out_head))
        return false;
    memcpy(out_head, data + at, sizeof(*out_head));
    *out_is_sound = out_head->magic == CAS_BLOCK_MAGIC &&
                    out_head->raw_bytes <= CAS_BLOCK_BYTES_MAX &&
                    out_head->stored_bytes <= out_head->raw_bytes;
    return *out_is_sound &&
           size_bytes - at - sizeof(*out_head) >= out_head->stored_bytes;
}

/* Looks at all heads first: what a small file says that it holds is not
 * unpacked before the sum is known. */
static bell_status
read_blocks(struct cas_reader *reader, const uint8_t *data, size_t size_bytes,
            size_t first)
{
    size_t at = first, total = 0;
    struct cas_block_head head;
    bool is_sound, is_whole = false;

    while (!is_whole && block_at(data, size_bytes, at, &head, &is_sound)) {
        if (head.raw_bytes > CAS_TOTAL_BYTES_MAX - total)
            return malformed(reader, "more than 512 MiB", at);
        total += head.raw_bytes;
        at += sizeof(head) + head.stored_bytes;
        is_whole = head.raw_bytes == 0; /* the end mark */
    }
    if (!is_sound)
        return malformed(reader, "a bad block", at);
    if (is_whole && at < size_bytes)
        return malformed(reader, "bytes behind the end", at);
    reader->truncated = !is_whole;
    reader->raw = host_alloc(total);
    if (!reader->raw)
        return bell_fail(BELL_E_NO_MEMORY, "%s: out of memory", reader->name);
    for (at = first; reader->raw_bytes < total;
         at += sizeof(head) + head.stored_bytes) {
        memcpy(&head, data + at, sizeof(head));
        BELL_TRY(unpack_hex(reader, &head, data + at + sizeof(head), at));
    }
    return BELL_OK;
}

/* ---- records ---------------------------------------------------------- */

/* Checks the record at `at` and counts its blobs; gives its size. */
static bell_status
check_record(const struct cas_reader *reader, size_t at,
             struct cas_record_head *out_head)
{
    size_t left = reader->raw_bytes - at, used;
    uint32_t i;

    if (left < sizeof(*out_head))
        return malformed(reader, "half a record", at);
    memcpy(out_head, reader->raw + at, sizeof(*out_head));
    if (out_head->size_bytes < sizeof(*out_head) || out_head->size_bytes % 8 ||
        out_head->size_bytes > left || out_head->kind == 0 ||
        out_head->kind >= CAS_KIND_COUNT || out_head->n_blobs > CAS_BLOBS_MAX)
        return malformed(reader, "a bad record", at);
    used = sizeof(*out_head);
    for (i = 0; i < out_head->n_blobs; i++) {
        struct cas_blob_head blob;
        size_t n;
        if (out_head->size_bytes - used < sizeof(blob))
            return malformed(reader, "half a part", at + used);
        memcpy(&blob, reader->raw + at + used, sizeof(blob));
        used += sizeof(blob);
        n = ((size_t)blob.size_bytes + 7) & ~(size_t)7;
        if (out_head->size_bytes - used < n)
            return malformed(reader, "a part that is too long", at + used);
        used += n;
    }
    if (used != out_head->size_bytes)
        return malformed(reader, "a record of the wrong size", at);
    return BELL_OK;
}

/* Fills one record, already checked, and its blobs. */
static void
take_record(const struct cas_reader *reader, size_t at,
            const struct cas_record_head *head, struct cas_record *record,
            struct cas_blob *blobs)
{
    uint32_t i;

    assert(at < reader->raw_bytes);
    *record = (struct cas_record){
        .kind = head->kind,
        .pid = head->pid,
        .tid = head->tid,
        .time_ns = head->time_ns,
        .result = head->result,
        .fd = head->fd,
        .dev = head->dev,
        .n_blobs = head->n_blobs,
        .blobs = blobs,
    };
    memcpy(record->args, head->args, sizeof(record->args));
    at += sizeof(*head);
    for (i = 0; i < head->n_blobs; i++) {
        struct cas_blob_head b;
        memcpy(&b, reader->raw + at, sizeof(b));
        at += sizeof(b);
        blobs[i] = (struct cas_blob){
            .role = b.role,
            .parent = b.parent,
            .field_offset_bytes = b.field_offset_bytes,
            .addr = b.addr,
            .cpu = b.cpu,
            .size_bytes = b.size_bytes,
            .extra = b.extra,
            .data = reader->raw + at,
        };
        at += ((size_t)b.size_bytes + 7) & ~(size_t)7;
    }
}

static bell_status
read_records(struct cas_reader *reader)
{
    struct cas_record_head head;
    size_t n_records = 0, n_blobs = 0, at;

    for (at = 0; at < reader->raw_bytes; at += head.size_bytes) {
        BELL_TRY(check_record(reader, at, &head));
        n_records++;
        n_blobs += head.n_blobs;
    }
    reader->records = host_calloc(n_records, sizeof(*reader->records));
    reader->blobs = host_calloc(n_blobs, sizeof(*reader->blobs));
    if (!reader->records || !reader->blobs)
        return bell_fail(BELL_E_NO_MEMORY, "%s: out of memory", reader->name);
    n_blobs = 0;
    for (at = 0; at < reader->raw_bytes; at += head.size_bytes) {
        memcpy(&head, reader->raw + at, sizeof(head));
        take_record(reader, at, &head, &reader->records[reader->n_records++],
                    reader->blobs + n_blobs);
        n_blobs += head.n_blobs;
    }
    return BELL_OK;
}

/* ---- files ------------------------------------------------------------ */

static bell_status
parse(struct cas_reader *reader, const uint8_t *data, size_t size_bytes)
{
    struct cas_file_head head;

    if (size_bytes < sizeof(head))
        return malformed(reader, "no header", 0);
    memcpy(&head, data, sizeof(head));
    if (memcmp(head.magic, CAS_MAGIC, sizeof(head.magic)) != 0)
        return malformed(reader, "no header", 0);
    if (head.version != CAS_VERSION)
        return bell_fail(BELL_E_UNSUPPORTED,
                         "%s is a cassette of version %u; this build reads "
                         "version %u",
                         reader->name, head.version, CAS_VERSION);
    if (head.identity_bytes > size_bytes - sizeof(head))
        return malformed(reader, "a cut header", 0);
    reader->identity = host_calloc(1, (size_t)head.identity_bytes + 1);
    if (!reader->identity)
        return bell_fail(BELL_E_NO_MEMORY, "%s: out of memory", reader->name);
    memcpy(reader->identity, data + sizeof(head), head.identity_bytes);
    BELL_TRY(read_blocks(reader, data, size_bytes,
                         sizeof(head) + head.identity_bytes));
    return read_records(reader);
}

bell_status
cas_reader_parse(const char *name, const void *data, size_t size_bytes,
                 struct cas_reader **out_reader)
{
    struct cas_reader *reader = host_calloc(1, sizeof(*reader));
    bell_status status;

    assert(data || !size_bytes);
    if (!reader)
        return bell_fail(BELL_E_NO_MEMORY, "%s: out of memory", name);
    reader->name = name;
    status = parse(reader, data, size_bytes);
    reader->name = NULL;
    if (status != BELL_OK) {
        cas_reader_close(reader);
        return status;
    }
    *out_reader = reader;
    return BELL_OK;
}

/* The whole file; *out_data is freed with host_free. */
static bell_status
read_member(const char *path, uint8_t **out_data, size_t *out_bytes)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    struct stat st;
    uint8_t *data = NULL;
    size_t n = 0;
    ssize_t r = 0;

    if (fd < 0)
        return bell_fail_errno(BELL_E_IO, errno, "cannot open %s: %s", path,
                               strerror(errno));
    if (fstat(fd, &st) == 0 && S_ISREG(st.st_mode))
        data = host_alloc((size_t)st.st_size);
    while (data && n < (size_t)st.st_size) {
        r = read(fd, data + n, (size_t)st.st_size - n);
        if (r < 0 && errno == EINTR)
            continue;
        if (r <= 0)
            break;
        n += (size_t)r;
    }
    if (r < 0) {
        bell_status status = bell_fail_errno(
            BELL_E_IO, errno, "cannot read %s: %s", path, strerror(errno));
        close(fd);
        host_free(data);
        return status;
    }
    close(fd);
    if (!data)
        return bell_fail(BELL_E_IO, "cannot read %s: not a file, or too large",
                         path);
    *out_data = data;
    *out_bytes = n;
    return BELL_OK;
}

bell_status
cas_reader_open(const char *path, struct cas_reader **out_reader)
{
    uint8_t *data;
    size_t n;
    bell_status status;

    BELL_TRY(read_member(path, &data, &n));
    status = cas_reader_parse(path, data, n, out_reader);
    host_free(data); /* all of it was unpacked */
    return status;
}

void
cas_reader_close(struct cas_reader *reader)
{
    if (!reader)
        return;
    host_free(reader->identity);
    host_free(reader->raw);
    host_free(reader->records);
    host_free(reader->blobs);
    host_free(reader);
}

const char *
cas_reader_identity(const struct cas_reader *reader)
{
    return reader->identity;
}

bool
cas_reader_truncated(const struct cas_reader *reader)
{
    return reader->truncated;
}

uint32_t
cas_reader_count(const struct cas_reader *reader)
{
    return reader->n_records;
}

const struct cas_record *
cas_reader_get(const struct cas_reader *reader, uint32_t i)
{
    assert(i < reader->n_records);
    return &reader->records[i];
}

const struct cas_blob *
cas_find(const struct cas_record *record, uint16_t role)
{
    uint32_t i;

    assert(role < UINT16_MAX);
    for (i = 0; i < record->n_blobs; i++) {
        if (record->blobs[i].role == role)
            return &record->blobs[i];
    }
    return NULL;
}

bool
cas_is_wait(const struct cas_record *record)
{
    struct kio_call_desc call;

    if (record->kind != CAS_IOCTL)
        return record->kind == CAS_POLL;
    /* which calls wait is the same on each branch */
    kio_describe((enum kio_dev)record->dev, 0, (unsigned long)record->args[0],
                 &call);
    return call.waits;
}

const char *
cas_kind_name(uint32_t kind)
{
    static const char *const names[CAS_KIND_COUNT] = {
        "?",      "open", "close", "ioctl",    "mmap",
        "munmap", "poll", "read",  "doorbell", "sample",
        "update", "note", "start", "exit",     "told",
    };

    return kind < CAS_KIND_COUNT ? names[kind] : "?";
}

const char *
cas_told_name(uint64_t kind)
{
    static const char *const names[] = {
        [KIO_TOLD_PROGRAM] = "a program",
        [KIO_TOLD_WRITTEN] = "memory that is written",
        [KIO_TOLD_READ] = "memory that is read",
        [KIO_TOLD_LAUNCHES] = "launches",
    };

    return kind < sizeof(names) / sizeof(names[0]) ? names[kind] : "?";
}
