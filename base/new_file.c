/* Files that appear whole. */
#include "base/new_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/thread.h"

#define TRIES_MAX 100u

static bell_status
new_file_fail(const char *path, const char *what)
{
    int error = errno;

    return bell_fail_errno(error == EACCES || error == EPERM ? BELL_E_PERMISSION
                                                             : BELL_E_IO,
                           error, "%s: %s: %s", path, what, strerror(error));
}

bell_status
new_file_create(const char *path, struct new_file *out_file)
{
    struct stat st;
    unsigned i;

    if (stat(path, &st) == 0 && !S_ISREG(st.st_mode))
        return bell_fail(BELL_E_IO, "%s: is there and is no file", path);
    if (snprintf(out_file->path, sizeof(out_file->path), "%s", path) >=
        (int)sizeof(out_file->path) - 32)
        return bell_fail(BELL_E_IO, "%.200s...: the name is too long", path);
    /* A name that is taken is left alone; the next one is tried. */
    for (i = 0; i < TRIES_MAX; i++) {
        snprintf(out_file->temp, sizeof(out_file->temp), "%.4060s.part-%x",
                 path, (unsigned)time_now_ns() ^ (unsigned)getpid() << 16);
        out_file->fd =
            open(out_file->temp,
                 O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0666);
        if (out_file->fd >= 0)
            return BELL_OK;
        if (errno != EEXIST)
            break;
    }
    return new_file_fail(path, "cannot create");
}

bell_status
new_file_keep(const struct new_file *file)
{
    if (rename(file->temp, file->path) != 0)
        return new_file_fail(file->path, "cannot rename to it");
    return BELL_OK;
}

void
new_file_drop(const struct new_file *file)
{
    (void)unlink(file->temp);
}
