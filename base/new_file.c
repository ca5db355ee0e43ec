/* Files that appear whole. */
#include "base/new_file.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/map.h"
#include "base/thread.h"

#define TRIES_MAX 100u

/* A temporary's name: the file's, this, and two numbers of 8 hexadecimal
 * digits: hash_boot and one that differs. */
#define TEMP_MARK   ".part-"
#define TEMP_DIGITS 16
#define TEMP_ENDING (sizeof(TEMP_MARK) - 1 + TEMP_DIGITS)
#define OTHER_OLD_S (24 * 60 * 60) /* see is_dead */

static bell_status
new_file_fail(const char *path, const char *what)
{
    int error = errno;

    return bell_fail_errno(error == EACCES || error == EPERM ? BELL_E_PERMISSION
                                                             : BELL_E_IO,
                           error, "%s: %s: %s", path, what, strerror(error));
}

/* Differs between machines and between their starts; 0 where it is unknown. */
static uint32_t
hash_boot(void)
{
    char id[64];
    int fd = open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC);
    ssize_t n = fd < 0 ? 0 : read(fd, id, sizeof(id));

    if (fd >= 0)
        close(fd);
    return n > 0 ? (uint32_t)hash_bytes(id, (size_t)n, 0) : 0;
}

/* Whether `ending` is a temporary's, and of a writer since this boot. */
static bool
is_temp_ending(const char *ending, uint32_t boot, bool *out_same_boot)
{
    size_t n_mark = sizeof(TEMP_MARK) - 1;
    char ours[9];

    if (strncmp(ending, TEMP_MARK, n_mark) != 0 ||
        strspn(ending + n_mark, "0123456789abcdef") != TEMP_DIGITS ||
        ending[TEMP_ENDING] != '\0')
        return false;
    snprintf(ours, sizeof(ours), "%08x", boot);
    *out_same_boot = boot && strncmp(ending + n_mark, ours, 8) == 0;
    return true;
}

/* A plain file of this user under this one name. */
static bool
is_own(const struct stat *st)
{
    return S_ISREG(st->st_mode) && st->st_uid == geteuid() && st->st_nlink == 1;
}

/* Whether the writer of the open file ended. It held a lock on it, which the
 * kernel gave back with it; the number of a process says less, for it comes
 * again. This kernel knows all locks of its own processes. Those of another
 * machine are unknown to it where a network file system keeps locks local:
 * there the file must also be unchanged for OTHER_OLD_S. */
static bool
is_dead(int fd, const struct stat *st, bool is_same_boot)
{
    return flock(fd, LOCK_EX | LOCK_NB) == 0 &&
           (is_same_boot || time(NULL) - st->st_mtime > OTHER_OLD_S);
}

static void
sweep_one(int folder, const char *name, bool is_same_boot)
{
    struct stat st, now;
    int fd;

    /* Only what is a plain file is opened: opening a device may do things. */
    if (fstatat(folder, name, &st, AT_SYMLINK_NOFOLLOW) != 0 || !is_own(&st))
        return;
    fd = openat(folder, name, O_RDWR | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (fd < 0)
        return;
    if (fstat(fd, &st) == 0 && is_own(&st) && is_dead(fd, &st, is_same_boot) &&
        fstatat(folder, name, &now, AT_SYMLINK_NOFOLLOW) == 0 &&
        now.st_dev == st.st_dev && now.st_ino == st.st_ino)
        (void)unlinkat(folder, name, 0);
    close(fd);
}

/* Removes the temporaries of writers of `path` that were killed. A file that
 * cannot be removed stays. */
static void
sweep(const char *path, uint32_t boot)
{
    const char *slash = strrchr(path, '/');
    const char *base = slash ? slash + 1 : path;
    char folder[NEW_FILE_PATH_MAX];
    size_t n_base = strlen(base);
    struct dirent *entry;
    bool is_same_boot;
    DIR *dir;

    snprintf(folder, sizeof(folder), "%.*s",
             slash ? (int)(slash - path) + 1 : 1, slash ? path : ".");
    dir = opendir(folder);
    while (dir && (entry = readdir(dir))) {
        if (strncmp(entry->d_name, base, n_base) == 0 &&
            is_temp_ending(entry->d_name + n_base, boot, &is_same_boot))
            sweep_one(dirfd(dir), entry->d_name, is_same_boot);
    }
    if (dir)
        closedir(dir);
}

/* Marks a new temporary as one whose writer lives. A sweep between the open
 * and this may have taken the lock, or removed the file: false. A file system
 * without locks has no sweeps either. */
static bool
lock_temp(int fd)
{
    struct stat st;

    if (flock(fd, LOCK_EX | LOCK_NB) != 0)
        return errno != EWOULDBLOCK;
    return fstat(fd, &st) == 0 && st.st_nlink > 0;
}

bell_status
new_file_create(const char *path, struct new_file *out_file)
{
    uint32_t boot = hash_boot();
    struct stat st;
    unsigned i;

    if (stat(path, &st) == 0 && !S_ISREG(st.st_mode))
        return bell_fail(BELL_E_IO, "%s: exists and is not a regular file",
                         path);
    if (snprintf(out_file->path, sizeof(out_file->path), "%s", path) >=
        (int)sizeof(out_file->path) - 32)
        return bell_fail(BELL_E_IO, "%.200s...: the name is too long", path);
    sweep(path, boot);
    /* A name that is taken is left alone; the next one is tried. */
    for (i = 0; i < TRIES_MAX; i++) {
        snprintf(out_file->temp, sizeof(out_file->temp),
                 "%.4063s" TEMP_MARK "%08x%08x", path, boot,
                 (unsigned)time_now_ns() ^ (unsigned)getpid() << 16);
        out_file->fd =
            open(out_file->temp,
                 O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0666);
        if (out_file->fd < 0 && errno != EEXIST)
            break;
        if (out_file->fd >= 0 && lock_temp(out_file->fd))
            return BELL_OK;
        if (out_file->fd >= 0) {
            (void)unlink(out_file->temp);
            close(out_file->fd);
            errno = EAGAIN;
        }
    }
    return new_file_fail(path, "cannot create");
}

bell_status
new_file_keep(const struct new_file *file)
{
    int copy = fcntl(file->fd, F_DUPFD_CLOEXEC, 0);

    /* Network file systems tell of failed writes at a close. */
    if (copy >= 0 && close(copy) != 0 && errno != EINTR)
        return new_file_fail(file->path, "cannot write");
    if (rename(file->temp, file->path) != 0)
        return new_file_fail(file->path, "cannot rename to it");
    return BELL_OK;
}

void
new_file_drop(const struct new_file *file)
{
    (void)unlink(file->temp);
}
