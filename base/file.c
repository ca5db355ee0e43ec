/* Whole files. */
#include "base/file.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/new_file.h"

#define READ_STEP (1u << 16)
/* A stream that is not a file ends somewhere: at most this many bytes are
 * read. */
#define STREAM_MAX_BYTES ((size_t)1 << 32)

void
file_bytes_fini(struct file_bytes *file)
{
    host_free(file->data);
    memset(file, 0, sizeof(*file));
}

/* Room for the file's size at once where that is known. */
static size_t
first_room(FILE *stream)
{
    struct stat st;

    if (fstat(fileno(stream), &st) != 0 || !S_ISREG(st.st_mode))
        return READ_STEP;
    return (size_t)st.st_size + 1;
}

/* Devices have no end (/dev/zero), or are whole disks; a terminal's user ends
 * it. */
static bool
is_device(FILE *stream)
{
    struct stat st;

    return fstat(fileno(stream), &st) == 0 &&
           (S_ISBLK(st.st_mode) ||
            (S_ISCHR(st.st_mode) && !isatty(fileno(stream))));
}

static BELL_MUST_CHECK bell_status
read_all(FILE *stream, const char *path, struct file_bytes *file)
{
    size_t cap = 0, room = first_room(stream), need = room, got;

    do {
        if (host_grow(&file->data, &cap, need, 1) != 0)
            return bell_fail(BELL_E_NO_MEMORY,
                             "%s: out of memory for %zu bytes", path, need);
        errno = 0;
        got = fread((char *)file->data + file->size_bytes, 1,
                    cap - file->size_bytes, stream);
        file->size_bytes += got;
        need = file->size_bytes + READ_STEP;
        if (file->size_bytes > room && file->size_bytes > STREAM_MAX_BYTES)
            return bell_fail(BELL_E_IO, "%s: does not end after %zu bytes",
                             path, STREAM_MAX_BYTES);
    } while (got > 0);
    if (ferror(stream))
        return bell_fail_file(path, "cannot read");
    return BELL_OK;
}

bell_status
file_read(const char *path, struct file_bytes *out_file)
{
    struct file_bytes file = {NULL, 0};
    FILE *stream = fopen(path, "rb");
    bell_status status;

    if (!stream)
        return bell_fail_file(path, "cannot open");
    if (is_device(stream))
        status = bell_fail(BELL_E_IO, "%s: is a device, not a file", path);
    else
        status = read_all(stream, path, &file);
    fclose(stream);
    if (status == BELL_OK)
        *out_file = file;
    else
        file_bytes_fini(&file);
    return status;
}

bell_status
file_read_text(const char *path, char **out_text)
{
    struct file_bytes file;
    bell_status status = BELL_OK;
    char *text;

    BELL_TRY(file_read(path, &file));
    text = host_strndup(file.data, file.size_bytes);
    if (!text)
        status = bell_fail(BELL_E_NO_MEMORY, "%s: out of memory", path);
    else if (strlen(text) != file.size_bytes)
        status = bell_fail(BELL_E_INVALID, "%s is not text", path);
    file_bytes_fini(&file);
    if (status == BELL_OK)
        *out_text = text;
    else
        host_free(text);
    return status;
}

/* Into the stream, which stays open, and out of its buffer. */
static BELL_MUST_CHECK bell_status
write_parts(const char *path, FILE *stream, const struct file_part *parts,
            size_t n_parts)
{
    bool ok = true;
    size_t i;

    for (i = 0; ok && i < n_parts; i++)
        ok = parts[i].size_bytes == 0 ||
             fwrite(parts[i].data, 1, parts[i].size_bytes, stream) ==
                 parts[i].size_bytes;
    if (!ok || fflush(stream) != 0)
        return bell_fail_file(path, "cannot write");
    return BELL_OK;
}

/* To what is there and is not a regular file. */
static BELL_MUST_CHECK bell_status
write_to(const char *path, const struct file_part *parts, size_t n_parts)
{
    FILE *stream = fopen(path, "wb");
    bell_status status;

    if (!stream)
        return bell_fail_file(path, "cannot create");
    status = write_parts(path, stream, parts, n_parts);
    if (fclose(stream) != 0 && status == BELL_OK)
        status = bell_fail_file(path, "cannot write");
    return status;
}

bell_status
file_write(const char *path, const struct file_part *parts, size_t n_parts)
{
    struct new_file file;
    bell_status status;
    struct stat st;
    FILE *stream;

    if (stat(path, &st) == 0 && !S_ISREG(st.st_mode))
        return write_to(path, parts, n_parts);
    BELL_TRY(new_file_create(path, &file));
    stream = fdopen(file.fd, "wb");
    status = stream ? write_parts(path, stream, parts, n_parts)
                    : bell_fail_file(path, "cannot create");
    if (status == BELL_OK)
        status = new_file_keep(&file);
    if (status != BELL_OK)
        new_file_drop(&file);
    if (stream)
        fclose(stream);
    else
        close(file.fd);
    return status;
}

bell_status
file_check_writable(const char *path)
{
    const char *slash = strrchr(path, '/');
    char folder[4096];
    struct stat st;

    if (stat(path, &st) == 0 && S_ISDIR(st.st_mode))
        return bell_fail(BELL_E_IO, "%s: is a folder", path);
    if (stat(path, &st) == 0 && !S_ISREG(st.st_mode))
        return BELL_OK;
    snprintf(folder, sizeof(folder), "%.*s",
             slash ? (int)(slash - path) + 1 : 1, slash ? path : ".");
    if (access(folder, W_OK | X_OK) != 0)
        return bell_fail_file(path, "cannot be written");
    return BELL_OK;
}
