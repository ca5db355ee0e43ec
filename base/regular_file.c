/* Opening what must be a regular file. */
#include "base/regular_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

static const char *
type_name(mode_t mode)
{
    switch (mode & S_IFMT) {
    case S_IFDIR:
        return "folder";
    case S_IFIFO:
        return "FIFO";
    case S_IFSOCK:
        return "socket";
    default:
        return "device";
    }
}

static BELL_MUST_CHECK bell_status
check_type(const char *path, const struct stat *st)
{
    if (S_ISREG(st->st_mode))
        return BELL_OK;
    return bell_fail(BELL_E_IO, "%s: expected a regular file, got a %s", path,
                     type_name(st->st_mode));
}

/* Opening a device may already have an effect: so its name is asked first. It
 * may change until it is opened: so what was opened is asked too, and opening
 * does not wait for the other end of a FIFO. */
bell_status
regular_file_open(const char *path, struct regular_file *out_file)
{
    bell_status status;
    struct stat st;
    int fd;

    if (stat(path, &st) != 0)
        return bell_fail_file(path, "cannot open");
    BELL_TRY(check_type(path, &st));
    fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (fd < 0)
        return bell_fail_file(path, "cannot open");
    if (fstat(fd, &st) != 0)
        status = bell_fail_file(path, "cannot look at");
    else
        status = check_type(path, &st);
    if (status != BELL_OK) {
        close(fd);
        return status;
    }
    *out_file = (struct regular_file){.fd = fd,
                                      .size_bytes = (uint64_t)st.st_size,
                                      .device = (uint64_t)st.st_dev,
                                      .inode = (uint64_t)st.st_ino};
    return BELL_OK;
}

bell_status
regular_file_map(const char *path, void **out_map, size_t *out_bytes)
{
    bell_status status = BELL_OK;
    struct regular_file file;

    BELL_TRY(regular_file_open(path, &file));
    if (file.size_bytes == 0) {
        status = bell_fail(BELL_E_IO, "%s: is empty", path);
    } else {
        *out_bytes = (size_t)file.size_bytes;
        *out_map = mmap(NULL, *out_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE,
                        file.fd, 0);
        if (*out_map == MAP_FAILED)
            status = bell_fail_file(path, "cannot map");
    }
    close(file.fd);
    return status;
}
