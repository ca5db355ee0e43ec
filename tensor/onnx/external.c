/* External data: weights in files below the model's folder.
 *
 * The location comes from the file, so it is hostile. It is opened component by
 * component, and no component is a link, "..", or empty; what is at the end is
 * a regular file. src: openat(2), O_NOFOLLOW; onnx 1.23, ExternalData. */
#include "tensor/onnx/graph.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"

static BELL_MUST_CHECK bell_status
refuse(const char *location, const char *why)
{
    return bell_fail(BELL_E_IO, "external data '%.200s' %s", location, why);
}

/* Opens the folder that the model lies in. */
static BELL_MUST_CHECK bell_status
open_folder(const char *path, int *out_fd)
{
    const char *slash = strrchr(path, '/');
    char *folder = slash ? host_strndup(path, (size_t)(slash - path) + 1)
                         : host_strdup(".");

    if (!folder)
        return onnx_no_memory();
    *out_fd = open(folder, O_PATH | O_DIRECTORY | O_CLOEXEC);
    host_free(folder);
    return *out_fd < 0
               ? bell_fail_errno(BELL_E_IO, errno, "the model's folder: %s",
                                 strerror(errno))
               : BELL_OK;
}

/* A location that stays below its folder whatever lies there. */
static BELL_MUST_CHECK bell_status
check_location(const char *location)
{
    const char *at = location;

    if (!*location)
        return refuse(location, "has no name");
    if (*location == '/')
        return refuse(location, "is an absolute path; it must be below the "
                                "model's folder");
    for (;;) {
        size_t n = strcspn(at, "/");

        if (n == 2 && at[0] == '.' && at[1] == '.')
            return refuse(location, "leaves the model's folder by '..'");
        if (n == 0)
            return refuse(location, "has an empty name between '/'");
        if (n > 255)
            return refuse(location, "has a name of more than 255 bytes");
        if (!at[n])
            return BELL_OK;
        at += n + 1;
    }
}

/* Opens the location below folder_fd, which it closes. */
static BELL_MUST_CHECK bell_status
walk(int folder_fd, const char *location, int *out_fd)
{
    const char *at = location;
    char name[256];
    int fd;

    for (;;) {
        size_t n = strcspn(at, "/");
        bool last = !at[n];

        memcpy(name, at, n);
        name[n] = 0;
        fd = openat(folder_fd, name,
                    last ? O_RDONLY | O_NONBLOCK | O_NOCTTY | O_NOFOLLOW |
                               O_CLOEXEC
                         : O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        close(folder_fd);
        if (fd < 0 && (errno == ELOOP || errno == ENOTDIR))
            return refuse(location, "is a symbolic link, or lies behind one");
        if (fd < 0)
            return bell_fail(errno == EACCES ? BELL_E_PERMISSION : BELL_E_IO,
                             "external data '%.200s': %s", location,
                             strerror(errno));
        if (last)
            break;
        folder_fd = fd;
        at += n + 1;
    }
    *out_fd = fd;
    return BELL_OK;
}

/* Refuses what is not a regular file of ours or of the model's owner. */
static BELL_MUST_CHECK bell_status
check_file(const struct onnx_model *model, const char *location, int fd,
           uint64_t *out_size_bytes)
{
    struct stat st, own;

    if (fstat(fd, &st) != 0)
        return bell_fail(BELL_E_IO, "external data '%.200s': %s", location,
                         strerror(errno));
    if (!S_ISREG(st.st_mode))
        return refuse(location, "is not a regular file");
    if (stat(model->path, &own) == 0 && st.st_uid != own.st_uid &&
        st.st_uid != geteuid() && st.st_uid != 0)
        return refuse(location, "belongs to another user than the model");
    *out_size_bytes = (uint64_t)st.st_size;
    return BELL_OK;
}

/* Looking at a FIFO or device before it is opened: opening one may block or do
 * something. */
static BELL_MUST_CHECK bell_status
check_kind(int folder_fd, const char *location)
{
    struct stat st;

    if (fstatat(folder_fd, location, &st, AT_SYMLINK_NOFOLLOW) == 0 &&
        !S_ISREG(st.st_mode))
        return refuse(location, S_ISLNK(st.st_mode) ? "is a symbolic link"
                                                    : "is not a regular file");
    return BELL_OK;
}

bell_status
onnx_external(struct onnx_model *model, const char *location,
              const struct onnx_mapping **out_map)
{
    struct onnx_mapping *map;
    uint64_t size_bytes = 0;
    bell_status status;
    void *data = NULL;
    int fd;
    size_t i;

    for (i = 0; i < model->n_mappings; i++) {
        map = &model->mappings[i];
        if (map->name && strcmp(map->name, location) == 0) {
            *out_map = map;
            return BELL_OK;
        }
    }
    BELL_TRY(check_location(location));
    BELL_TRY(open_folder(model->path, &fd));
    status = check_kind(fd, location);
    if (status != BELL_OK) {
        close(fd);
        return status;
    }
    BELL_TRY(walk(fd, location, &fd));
    status = check_file(model, location, fd, &size_bytes);
    if (status == BELL_OK && size_bytes) {
        data =
            mmap(NULL, size_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE, fd, 0);
        if (data == MAP_FAILED)
            status = bell_fail(BELL_E_IO, "external data '%.200s': %s",
                               location, strerror(errno));
    }
    close(fd);
    if (status != BELL_OK)
        return status;
    if (host_grow((void **)&model->mappings, &model->cap_mappings,
                  model->n_mappings + 1, sizeof(*map)) != 0)
        goto fail_unmap;
    map = &model->mappings[model->n_mappings];
    map->name = host_strdup(location);
    if (!map->name)
        goto fail_unmap;
    map->data = data;
    map->size_bytes = size_bytes;
    model->n_mappings++;
    *out_map = map;
    return BELL_OK;

fail_unmap:
    if (data)
        munmap(data, size_bytes);
    return bell_fail(BELL_E_NO_MEMORY, "external data: out of memory");
}
