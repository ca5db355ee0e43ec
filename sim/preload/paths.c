/* Paths of the simulated machine, in every call that takes one. */
/* Both names of a call are needed: meson's 64-bit offsets would rename some. */
#undef _FILE_OFFSET_BITS

#include "sim/preload/preload.h"

#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "base/bits.h"
#include "ioctl/intercept.h"

#define EXPORT __attribute__((visibility("default")))

/* Where the simulated machine differs from the real one. A row is a prefix of
 * whole names, or of anything that starts so. */
static const struct {
    const char *backend, *path;
    bool any;
} ours[] = {
    {"AMD", "/dev/kfd", false},
    {"AMD", "/dev/dri", false},
    {"AMD", "/sys/class/kfd", false},
    {"AMD", "/sys/devices/virtual/kfd", false},
    {"AMD", "/sys/class/drm", false},
    {"AMD", "/sys/dev/char/226:", true},
    {"AMD", "/sys/module/amdgpu", false},
    {"AMD", "/proc/modules", false},
    {"AMD", "/sys/bus/pci/devices", false},
    {"NV", "/dev/nvidia", true},
    {"NV", "/proc/driver/nvidia", true},
    {"NV", "/proc/devices", false},
    {"NV", "/sys/module/nvidia", true},
    {"NV", "/sys/bus/pci/devices", false},
};

static struct {
    char tree[256];
    size_t tree_len; /* 0: nothing is ours */
    bool is_there[ARRAY_LEN(ours)];
} paths;

void
sim_paths_init(const char *tree, const char *devices)
{
    size_t i;

    if (strlen(tree) >= sizeof(paths.tree))
        return;
    for (i = 0; i < ARRAY_LEN(ours); i++) {
        const char *at = strstr(devices, ours[i].backend);

        paths.is_there[i] = at && (at == devices || at[-1] == ';') &&
                            at[strlen(ours[i].backend)] == '@';
    }
    strcpy(paths.tree, tree);
    paths.tree_len = strlen(tree);
}

static bool
is_our_path(const char *path)
{
    size_t i;

    for (i = 0; i < ARRAY_LEN(ours); i++) {
        size_t n = strlen(ours[i].path);

        if (paths.is_there[i] && strncmp(path, ours[i].path, n) == 0 &&
            (ours[i].any || path[n] == '/' || path[n] == '\0'))
            return true;
    }
    return false;
}

/* The path from the root on, without double slashes and single dots, into buf
 * from `at` on; false where it does not fit. */
static bool
put_path(const char *path, char buf[PATH_MAX], size_t at)
{
    while (*path) {
        size_t n = strcspn(path, "/");

        if (n && !(n == 1 && *path == '.')) {
            if (at + n + 2 > PATH_MAX)
                return false;
            buf[at++] = '/';
            memcpy(buf + at, path, n);
            at += n;
        }
        path += n + (path[n] == '/');
    }
    buf[at] = '\0';
    return true;
}

const char *
sim_paths_find(int dir, const char *path, char buf[PATH_MAX],
               const char **out_path)
{
    char link[32];
    size_t at = paths.tree_len;
    ssize_t n;

    if (!at || !path || !*path)
        return NULL;
    memcpy(buf, paths.tree, at);
    if (*path != '/') {
        /* Folders of the tree are the only ones of ours that can be open. */
        snprintf(link, sizeof(link), "/proc/self/fd/%d", dir);
        n = syscall(SYS_readlinkat, AT_FDCWD,
                    dir == AT_FDCWD ? "/proc/self/cwd" : link, buf,
                    PATH_MAX - 1);
        if (n < (ssize_t)at || memcmp(buf, paths.tree, at) != 0)
            return NULL;
        at = (size_t)n;
    } else if (strncmp(path, paths.tree, at) == 0 &&
               (path[at] == '/' || path[at] == '\0')) {
        path += at; /* as a link was resolved */
    }
    if (!put_path(path, buf, at) || !is_our_path(buf + paths.tree_len))
        return NULL;
    *out_path = buf + paths.tree_len;
    return buf;
}

/* src: Linux 6.12, Documentation/admin-guide/devices.txt; KFD's and UVM's
 * numbers are given at run time */
dev_t
sim_paths_device(const char *path)
{
    unsigned number;
    char rest;

    if (strcmp(path, "/dev/kfd") == 0)
        return makedev(510, 0);
    if (strcmp(path, "/dev/nvidiactl") == 0)
        return makedev(195, 255);
    if (strcmp(path, "/dev/nvidia-uvm") == 0)
        return makedev(511, 0);
    if (sscanf(path, "/dev/nvidia%u%c", &number, &rest) == 1)
        return makedev(195, number);
    if (sscanf(path, "/dev/dri/renderD%u%c", &number, &rest) == 1)
        return makedev(226, number);
    return 0;
}

/* The mode by which `doorbell sim` marks it (tools/sim_tree.c). */
bool
sim_paths_are_denied(const char *file)
{
    struct stat st;

    return syscall(SYS_newfstatat, AT_FDCWD, file, &st, 0) == 0 &&
           st.st_mode & S_ISVTX && S_ISREG(st.st_mode);
}

/* ---- looking at files ---- */

/* With AT_EMPTY_PATH a call is about the file itself. */
static bool
is_empty(const char *path)
{
    return path && !*path;
}

static int
stat_at(int dir, const char *path, struct stat *out, int flags)
{
    char buf[PATH_MAX];
    const char *known = "", *file;
    dev_t device = 0;
    int result;

    if (flags & AT_EMPTY_PATH && is_empty(path)) {
        device = sim_preload_device(dir);
        file = NULL;
    } else {
        file = sim_paths_find(dir, path, buf, &known);
        device = file ? sim_paths_device(known) : 0;
    }
    result = (int)syscall(SYS_newfstatat, file ? AT_FDCWD : dir,
                          file ? file : path, out, flags);
    if (result == 0 && device) {
        out->st_mode = S_IFCHR | 0666;
        out->st_rdev = device;
        out->st_size = 0;
    }
    return result;
}

EXPORT int
fstatat(int dir, const char *path, struct stat *out, int flags)
{
    return stat_at(dir, path, out, flags);
}

EXPORT int
stat(const char *path, struct stat *out)
{
    return stat_at(AT_FDCWD, path, out, 0);
}

EXPORT int
lstat(const char *path, struct stat *out)
{
    return stat_at(AT_FDCWD, path, out, AT_SYMLINK_NOFOLLOW);
}

EXPORT int
fstat(int fd, struct stat *out)
{
    return stat_at(fd, "", out, AT_EMPTY_PATH);
}

/* The same with 64-bit offsets, which these are; and the names that programs
 * call which were built with C libraries before 2.33. */
#define ALSO(result, name, arguments, as)                                      \
    EXPORT result name arguments __attribute__((alias(as)))
struct stat64;
ALSO(int, fstatat64, (int, const char *, struct stat64 *, int), "fstatat");
ALSO(int, stat64, (const char *, struct stat64 *), "stat");
ALSO(int, lstat64, (const char *, struct stat64 *), "lstat");
ALSO(int, fstat64, (int, struct stat64 *), "fstat");

EXPORT int __xstat(int version, const char *path, struct stat *out);
EXPORT int __lxstat(int version, const char *path, struct stat *out);
EXPORT int __fxstat(int version, int fd, struct stat *out);
EXPORT int __fxstatat(int version, int dir, const char *path, struct stat *out,
                      int flags);

int
__xstat(int version, const char *path, struct stat *out)
{
    (void)version;
    return stat_at(AT_FDCWD, path, out, 0);
}

int
__lxstat(int version, const char *path, struct stat *out)
{
    (void)version;
    return stat_at(AT_FDCWD, path, out, AT_SYMLINK_NOFOLLOW);
}

int
__fxstat(int version, int fd, struct stat *out)
{
    (void)version;
    return stat_at(fd, "", out, AT_EMPTY_PATH);
}

int
__fxstatat(int version, int dir, const char *path, struct stat *out, int flags)
{
    (void)version;
    return stat_at(dir, path, out, flags);
}

ALSO(int, __xstat64, (int, const char *, struct stat64 *), "__xstat");
ALSO(int, __lxstat64, (int, const char *, struct stat64 *), "__lxstat");
ALSO(int, __fxstat64, (int, int, struct stat64 *), "__fxstat");
ALSO(int, __fxstatat64, (int, int, const char *, struct stat64 *, int),
     "__fxstatat");

EXPORT int
statx(int dir, const char *path, int flags, unsigned mask, struct statx *out)
{
    char buf[PATH_MAX];
    const char *known = "", *file = NULL;
    dev_t device = 0;
    int result;

    if (flags & AT_EMPTY_PATH && is_empty(path)) {
        device = sim_preload_device(dir);
    } else {
        file = sim_paths_find(dir, path, buf, &known);
        device = file ? sim_paths_device(known) : 0;
    }
    result = (int)syscall(SYS_statx, file ? AT_FDCWD : dir, file ? file : path,
                          flags, mask, out);
    if (result == 0 && device) {
        out->stx_mode = S_IFCHR | 0666;
        out->stx_rdev_major = major(device);
        out->stx_rdev_minor = minor(device);
        out->stx_size = 0;
    }
    return result;
}

EXPORT int
faccessat(int dir, const char *path, int mode, int flags)
{
    int (*next)(int, const char *, int, int);
    char buf[PATH_MAX];
    const char *known, *file = sim_paths_find(dir, path, buf, &known);

    if (file && mode != F_OK && sim_paths_are_denied(file)) {
        errno = EPERM;
        return -1;
    }
    *(void **)&next = dlsym(RTLD_NEXT, "faccessat");
    return next(file ? AT_FDCWD : dir, file ? file : path, mode, flags);
}

EXPORT int
access(const char *path, int mode)
{
    return faccessat(AT_FDCWD, path, mode, 0);
}

EXPORT int
euidaccess(const char *path, int mode)
{
    return faccessat(AT_FDCWD, path, mode, AT_EACCESS);
}

ALSO(int, eaccess, (const char *, int), "euidaccess");

/* ---- attributes ---- */

/* The files of sysfs and of /dev have none; `ls` asks. */
#define NO_ATTRIBUTE(name)                                                     \
    EXPORT ssize_t name(const char *path, const char *key, void *out,          \
                        size_t n)                                              \
    {                                                                          \
        ssize_t (*next)(const char *, const char *, void *, size_t);           \
        char buf[PATH_MAX];                                                    \
        const char *known;                                                     \
                                                                               \
        if (sim_paths_find(AT_FDCWD, path, buf, &known)) {                     \
            errno = ENODATA;                                                   \
            return -1;                                                         \
        }                                                                      \
        *(void **)&next = dlsym(RTLD_NEXT, #name);                             \
        return next(path, key, out, n);                                        \
    }
NO_ATTRIBUTE(getxattr)
NO_ATTRIBUTE(lgetxattr)

/* ---- links ---- */

EXPORT ssize_t
readlinkat(int dir, const char *path, char *out, size_t n)
{
    char buf[PATH_MAX];
    const char *known, *file = sim_paths_find(dir, path, buf, &known);

    return syscall(SYS_readlinkat, file ? AT_FDCWD : dir, file ? file : path,
                   out, n);
}

EXPORT ssize_t
readlink(const char *path, char *out, size_t n)
{
    return readlinkat(AT_FDCWD, path, out, n);
}

EXPORT ssize_t __readlink_chk(const char *path, char *out, size_t n,
                              size_t cap);

ssize_t
__readlink_chk(const char *path, char *out, size_t n, size_t cap)
{
    return readlink(path, out, n < cap ? n : cap);
}

EXPORT char *
realpath(const char *path, char *out)
{
    char *(*next)(const char *, char *);
    char buf[PATH_MAX], *found;
    const char *known, *file = sim_paths_find(AT_FDCWD, path, buf, &known);

    *(void **)&next = dlsym(RTLD_NEXT, "realpath");
    found = next(file ? file : path, out);
    if (found && file && strncmp(found, paths.tree, paths.tree_len) == 0)
        memmove(found, found + paths.tree_len,
                strlen(found + paths.tree_len) + 1);
    return found;
}

EXPORT char *__realpath_chk(const char *path, char *out, size_t cap);

char *
__realpath_chk(const char *path, char *out, size_t cap)
{
    (void)cap; /* it is PATH_MAX where a program is right */
    return realpath(path, out);
}

EXPORT char *
canonicalize_file_name(const char *path)
{
    return realpath(path, NULL);
}

/* ---- folders ---- */

EXPORT DIR *
opendir(const char *path)
{
    DIR *(*next)(const char *);
    char buf[PATH_MAX];
    const char *known, *file = sim_paths_find(AT_FDCWD, path, buf, &known);

    *(void **)&next = dlsym(RTLD_NEXT, "opendir");
    return next(file ? file : path);
}

EXPORT int
scandir(const char *path, struct dirent ***out,
        int (*filter)(const struct dirent *),
        int (*compare)(const struct dirent **, const struct dirent **))
{
    int (*next)(const char *, struct dirent ***, int (*)(const struct dirent *),
                int (*)(const struct dirent **, const struct dirent **));
    char buf[PATH_MAX];
    const char *known, *file = sim_paths_find(AT_FDCWD, path, buf, &known);

    *(void **)&next = dlsym(RTLD_NEXT, "scandir");
    return next(file ? file : path, out, filter, compare);
}

struct dirent64;
ALSO(int, scandir64,
     (const char *, struct dirent64 ***, int (*)(const struct dirent64 *),
      int (*)(const struct dirent64 **, const struct dirent64 **)),
     "scandir");

EXPORT int
chdir(const char *path)
{
    char buf[PATH_MAX];
    const char *known, *file = sim_paths_find(AT_FDCWD, path, buf, &known);

    return (int)syscall(SYS_chdir, file ? file : path);
}

/* The pattern's prefix says whose it is; what it finds is told without the
 * tree's name. */
EXPORT int
glob(const char *pattern, int flags, int (*error)(const char *, int),
     glob_t *out)
{
    int (*next)(const char *, int, int (*)(const char *, int), glob_t *);
    char buf[PATH_MAX];
    const char *known, *file = sim_paths_find(AT_FDCWD, pattern, buf, &known);
    int result;
    size_t i;

    *(void **)&next = dlsym(RTLD_NEXT, "glob");
    result = next(file ? file : pattern, flags, error, out);
    for (i = 0; result == 0 && file && i < out->gl_pathc; i++) {
        char *path = out->gl_pathv[i + out->gl_offs];

        if (strncmp(path, paths.tree, paths.tree_len) == 0)
            memmove(path, path + paths.tree_len,
                    strlen(path + paths.tree_len) + 1);
    }
    return result;
}

ALSO(int, glob64, (const char *, int, int (*)(const char *, int), glob64_t *),
     "glob");

/* ---- streams ---- */

EXPORT FILE *
fopen(const char *path, const char *mode)
{
    FILE *(*next)(const char *, const char *);
    char buf[PATH_MAX];
    const char *known, *file = sim_paths_find(AT_FDCWD, path, buf, &known);

    if (file && sim_paths_are_denied(file)) {
        errno = EPERM;
        return NULL;
    }
    *(void **)&next = dlsym(RTLD_NEXT, "fopen");
    return next(file ? file : path, mode);
}

ALSO(FILE *, fopen64, (const char *, const char *), "fopen");
