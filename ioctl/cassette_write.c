/* Writing cassettes: records are gathered into blocks. */
#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/utsname.h>
#include <time.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/map.h"
#include "base/new_file.h"
#include "ioctl/cassette.h"
#include "ioctl/cassette_format.h"
#include "ioctl/kio.h"
#include "ioctl/kio_capture.h"
#include "ioctl/nv_abi.h"

#if BELL_HAVE_ZLIB
#include <zlib.h>
#endif

#define BLOCK_BYTES (256u << 10)
#define HIGH_FD     800

struct cas_writer {
    int fd;
    uint32_t flags;
    bool is_named; /* the file has its name */
    struct new_file file;
    uint8_t *buf; /* owned: the block under way */
    size_t used_bytes, cap_bytes;
    size_t total_bytes; /* of all records */
    uint8_t *packed;    /* owned: its compressed form */
    size_t packed_cap_bytes;
};

static bell_status
write_all(int fd, const void *data, size_t size_bytes)
{
    const uint8_t *p = data;

    assert(fd >= 0);
    while (size_bytes) {
        ssize_t n = write(fd, p, size_bytes);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return bell_fail_errno(BELL_E_IO, errno,
                                   "cannot write to the cassette: %s",
                                   n ? strerror(errno) : "nothing was written");
        p += n;
        size_bytes -= (size_t)n;
    }
    return BELL_OK;
}

/* Compresses the block; gives how many bytes to store, raw ones if that is
 * not fewer. */
static bell_status
pack(struct cas_writer *writer, const uint8_t **out_data, size_t *out_bytes)
{
    *out_data = writer->buf;
    *out_bytes = writer->used_bytes;
#if BELL_HAVE_ZLIB
    if (writer->flags & CAS_COMPRESS) {
        uLongf n = compressBound((uLong)writer->used_bytes);
        if (host_grow((void **)&writer->packed, &writer->packed_cap_bytes, n,
                      1) < 0)
            return bell_fail(BELL_E_NO_MEMORY,
                             "out of memory compressing a cassette");
        if (compress2(writer->packed, &n, writer->buf,
                      (uLong)writer->used_bytes, 6) == Z_OK &&
            n < writer->used_bytes) {
            *out_data = writer->packed;
            *out_bytes = n;
        }
    }
#endif
    return BELL_OK;
}

static bell_status
flush_lines(struct cas_writer *writer)
{
    struct cas_block_head head = {.magic = CAS_BLOCK_MAGIC};
    const uint8_t *data;
    size_t n;

    assert(writer->used_bytes <= CAS_BLOCK_BYTES_MAX);
    if (!writer->used_bytes)
        return BELL_OK;
    BELL_TRY(pack(writer, &data, &n));
    head.raw_bytes = (uint32_t)writer->used_bytes;
    head.stored_bytes = (uint32_t)n;
    head.hash = (uint32_t)hash_bytes(writer->buf, writer->used_bytes, 0);
    writer->used_bytes = 0;
    BELL_TRY(write_all(writer->fd, &head, sizeof(head)));
    return write_all(writer->fd, data, n);
}

void
cas_writer_drop(struct cas_writer *writer)
{
    if (!writer->is_named)
        new_file_drop(&writer->file);
    close(writer->fd);
    host_free(writer->buf);
    host_free(writer->packed);
    host_free(writer);
}

/* Moves a file out of the low numbers, which a recorded program counts on;
 * it stays where it is if that cannot be. */
static int
move_high(int fd)
{
    int high = fcntl(fd, F_DUPFD_CLOEXEC, HIGH_FD);

    if (high < 0)
        return fd;
    close(fd);
    return high;
}

bell_status
cas_writer_name(struct cas_writer *writer)
{
    if (writer->is_named)
        return BELL_OK;
    BELL_TRY(new_file_keep(&writer->file));
    writer->is_named = true;
    return BELL_OK;
}

int
cas_writer_fd(const struct cas_writer *writer)
{
    return writer->fd;
}

bell_status
cas_writer_create(const char *path, uint32_t flags, const char *identity,
                  struct cas_writer **out_writer)
{
    struct cas_file_head head = {.version = CAS_VERSION};
    struct cas_writer *writer = host_calloc(1, sizeof(*writer));
    bell_status status;

    assert(path && identity);
    assert(!(flags & ~(uint32_t)(CAS_COMPRESS | CAS_WRITE_EACH)));
    if (!writer)
        return bell_fail(BELL_E_NO_MEMORY, "out of memory for a cassette");
    writer->flags = flags;
    status = new_file_create(path, &writer->file);
    if (status != BELL_OK) {
        host_free(writer);
        return status;
    }
    writer->fd = writer->file.fd;
    if (flags & CAS_WRITE_EACH)
        writer->fd = writer->file.fd = move_high(writer->fd);
    memcpy(head.magic, CAS_MAGIC, sizeof(head.magic));
    head.identity_bytes = (uint32_t)strlen(identity);
    status = write_all(writer->fd, &head, sizeof(head));
    if (status == BELL_OK)
        status = write_all(writer->fd, identity, head.identity_bytes);
    if (status == BELL_OK && (flags & CAS_WRITE_EACH))
        status = cas_writer_name(writer);
    if (status != BELL_OK) {
        cas_writer_drop(writer);
        return status;
    }
    *out_writer = writer;
    return BELL_OK;
}

static size_t
padded(size_t n)
{
    return (n + 7) & ~(size_t)7;
}

static uint8_t *
write_value(uint8_t *at, const void *data, size_t n)
{
    memset(at + n, 0, padded(n) - n);
    if (n)
        memcpy(at, data, n);
    return at + padded(n);
}

static size_t
record_bytes(const struct cas_record *record)
{
    size_t n = sizeof(struct cas_record_head);
    uint32_t i;

    for (i = 0; i < record->n_blobs; i++)
        n += sizeof(struct cas_blob_head) + padded(record->blobs[i].size_bytes);
    return n;
}

static void
encode(const struct cas_record *record, size_t size_bytes, uint8_t *at)
{
    struct cas_record_head head = {
        .size_bytes = (uint32_t)size_bytes,
        .kind = (uint16_t)record->kind,
        .n_blobs = (uint16_t)record->n_blobs,
        .pid = record->pid,
        .tid = record->tid,
        .time_ns = record->time_ns,
        .result = record->result,
        .fd = record->fd,
        .dev = record->dev,
    };
    uint32_t i;

    assert(size_bytes >= sizeof(struct cas_record_head) &&
           size_bytes <= UINT32_MAX);
    memcpy(head.args, record->args, sizeof(head.args));
    at = write_value(at, &head, sizeof(head));
    for (i = 0; i < record->n_blobs; i++) {
        const struct cas_blob *blob = &record->blobs[i];
        struct cas_blob_head blob_head = {
            .role = blob->role,
            .parent = blob->parent,
            .field_offset_bytes = blob->field_offset_bytes,
            .addr = blob->addr,
            .cpu = blob->cpu,
            .size_bytes = blob->size_bytes,
            .extra = blob->extra,
        };
        at = write_value(at, &blob_head, sizeof(blob_head));
        at = write_value(at, blob->data, blob->size_bytes);
    }
}

bell_status
cas_write(struct cas_writer *writer, const struct cas_record *record)
{
    size_t n = record_bytes(record);

    assert(record->kind < CAS_KIND_COUNT);
    if (n > CAS_BLOCK_BYTES_MAX || record->n_blobs > CAS_BLOBS_MAX)
        return bell_fail(BELL_E_INVALID,
                         "a cassette record of %zu bytes and %u parts is too "
                         "large",
                         n, record->n_blobs);
    if (n > CAS_TOTAL_BYTES_MAX - writer->total_bytes)
        return bell_fail(BELL_E_INVALID, "the cassette is full: it holds at "
                                         "most 512 MiB, unpacked");
    if (writer->used_bytes && writer->used_bytes + n > BLOCK_BYTES)
        BELL_TRY(flush_lines(writer));
    if (host_grow((void **)&writer->buf, &writer->cap_bytes,
                  writer->used_bytes + n, 1) < 0)
        return bell_fail(BELL_E_NO_MEMORY, "out of memory for a cassette");
    encode(record, n, writer->buf + writer->used_bytes);
    writer->used_bytes += n;
    writer->total_bytes += n;
    return writer->flags & CAS_WRITE_EACH ? flush_lines(writer) : BELL_OK;
}

bell_status
cas_writer_close(struct cas_writer *writer)
{
    struct cas_block_head end = {.magic = CAS_BLOCK_MAGIC};
    bell_status status = flush_lines(writer);

    if (status == BELL_OK)
        status = write_all(writer->fd, &end, sizeof(end));
    if (status == BELL_OK)
        status = cas_writer_name(writer);
    cas_writer_drop(writer);
    return status;
}

uint32_t
cas_argument_blobs(const struct kio_capture *in, const struct kio_capture *out,
                   struct cas_blob *blobs)
{
    uint32_t n = 0, i;

    assert(in->n_blobs <= KIO_CAPTURE_BLOBS &&
           out->n_blobs <= KIO_CAPTURE_BLOBS);
    for (i = 0; i < in->n_blobs; i++) {
        const struct kio_blob *b = &in->blobs[i], *o = &out->blobs[i];
        blobs[n++] = (struct cas_blob){
            .role = CAS_ARG_IN,
            .parent = (uint16_t)b->parent,
            .field_offset_bytes = b->field_offset_bytes,
            .addr = b->addr,
            .size_bytes = b->size_bytes,
            .extra = i,
            .data = b->data,
        };
        if (i >= out->n_blobs || o->size_bytes != b->size_bytes ||
            memcmp(o->data, b->data, b->size_bytes) == 0)
            continue;
        blobs[n] = blobs[n - 1];
        blobs[n].role = CAS_ARG_OUT;
        blobs[n++].data = o->data;
    }
    return n;
}

struct cas_blob
cas_region_blob(const struct kio_region *region, const uint8_t *data)
{
    return (struct cas_blob){
        .role = CAS_REGION,
        .addr = region->va,
        .cpu = (uintptr_t)region->cpu,
        .size_bytes = (uint32_t)region->size_bytes,
        .extra = region->kind,
        .data = data,
    };
}

/* ---- identity --------------------------------------------------------- */

/* The first line of a file, or of the first one that starts with `key`. */
static void
write_first_line(const char *path, const char *key, char *buf, size_t buf_bytes)
{
    char text[4096], *line, *colon, *end;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t n;

    snprintf(buf, buf_bytes, "none");
    if (fd < 0)
        return;
    n = read(fd, text, sizeof(text) - 1);
    close(fd);
    if (n <= 0)
        return;
    text[n] = '\0';
    line = key ? strstr(text, key) : text;
    if (!line)
        return;
    end = strchr(line, '\n');
    if (end)
        *end = '\0';
    colon = key ? strchr(line, ':') : NULL;
    line = colon ? colon + 1 : line;
    snprintf(buf, buf_bytes, "%s", line + strspn(line, " \t"));
}

/* The arguments of this process, with blanks between. */
static void
own_command(char *buf, size_t buf_bytes)
{
    int fd = open("/proc/self/cmdline", O_RDONLY | O_CLOEXEC);
    ssize_t n = fd < 0 ? 0 : read(fd, buf, buf_bytes - 1), i;

    if (fd >= 0)
        close(fd);
    n = n > 0 ? n : 0;
    buf[n] = '\0';
    for (i = 0; i + 1 < n; i++)
        buf[i] = buf[i] ? buf[i] : ' ';
}

size_t
cas_identity(const char *command, bool is_simulated, char *buf,
             size_t buf_bytes)
{
    char cpu[128], nvidia[192], own[512], *p;
    struct utsname name = {0};
    int n;

    assert(buf_bytes > 0);
    write_first_line("/proc/cpuinfo", "model name", cpu, sizeof(cpu));
    write_first_line(NV_VERSION_PATH, NULL, nvidia, sizeof(nvidia));
    if (command)
        snprintf(own, sizeof(own), "%s", command);
    else
        own_command(own, sizeof(own));
    for (p = own; *p; p++)
        *p = *p == '\n' || *p == '\r' ? ' ' : *p; /* one line each */
    (void)uname(&name);
    n = snprintf(buf, buf_bytes,
                 "system=%s %s\nmachine=%s\ncpu=%s\nnvidia=%s\n%s"
                 "recorded=%lld\ncommand=%s\n",
                 name.sysname, name.release, name.machine, cpu, nvidia,
                 is_simulated ? "simulated=yes\n" : "", (long long)time(NULL),
                 own);
    if (n < 0)
        n = 0;
    return (size_t)n < buf_bytes ? (size_t)n : buf_bytes - 1;
}

static bool
has_line(const char *identity, const char *text)
{
    const char *line = strstr(identity, text);

    return line && (line == identity || line[-1] == '\n');
}

bool
cas_identity_tells(const char *identity)
{
    return has_line(identity, CAS_TELLS);
}

bool
cas_identity_is_simulated(const char *identity)
{
    return has_line(identity, "simulated=yes\n");
}
