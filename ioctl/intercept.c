/* The C library's names, and the calls behind them. */
/* Meson's 64-bit offsets would rename mmap to mmap64, and so on: here both
 * names are needed. */
#undef _FILE_OFFSET_BITS

#include "ioctl/intercept.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#define EXPORT __attribute__((visibility("default")))

static struct {
    int (*openat)(int, const char *, int, ...);
    int (*ioctl)(int, unsigned long, ...);
    void *(*mmap)(void *, size_t, int, int, int, off_t);
    int (*munmap)(void *, size_t);
    int (*close)(int);
} next;

void
kio_real_init(void)
{
    *(void **)&next.openat = dlsym(RTLD_NEXT, "openat");
    *(void **)&next.ioctl = dlsym(RTLD_NEXT, "ioctl");
    *(void **)&next.mmap = dlsym(RTLD_NEXT, "mmap");
    *(void **)&next.munmap = dlsym(RTLD_NEXT, "munmap");
    *(void **)&next.close = dlsym(RTLD_NEXT, "close");
}

int
kio_real_open(int dir, const char *path, int flags, mode_t mode)
{
    if (next.openat)
        return next.openat(dir, path, flags, mode);
    return (int)syscall(SYS_openat, dir, path, flags, mode);
}

int
kio_real_close(int fd)
{
    return next.close ? next.close(fd) : (int)syscall(SYS_close, fd);
}

/* Another number of the file, which is not trapped; -1 with errno. */
static int
untrapped(int fd)
{
    int other = (int)syscall(SYS_fcntl, fd, F_DUPFD_CLOEXEC, 0);

    if (kio_trap_has(other)) {
        syscall(SYS_close, other);
        errno = EMFILE;
        return -1;
    }
    return other;
}

static void
close_other(int fd)
{
    int saved_errno = errno;

    syscall(SYS_close, fd);
    errno = saved_errno;
}

int
kio_real_ioctl(int fd, unsigned long request, void *arg)
{
    int result, other;

    if (kio_trap_has(fd)) {
        other = untrapped(fd);
        if (other < 0)
            return -1;
        result = (int)syscall(SYS_ioctl, other, request, arg);
        close_other(other);
        return result;
    }
    if (next.ioctl)
        return next.ioctl(fd, request, arg);
    return (int)syscall(SYS_ioctl, fd, request, arg);
}

void *
kio_real_mmap(void *addr, size_t n, int prot, int flags, int fd, off_t offset)
{
    void *p;
    int other;

    if (kio_trap_has(fd)) {
        other = untrapped(fd);
        if (other < 0)
            return MAP_FAILED;
        p = (void *)syscall(SYS_mmap, addr, n, prot, flags, other, offset);
        close_other(other);
        return p;
    }
    if (next.mmap)
        return next.mmap(addr, n, prot, flags, fd, offset);
    return (void *)syscall(SYS_mmap, addr, n, prot, flags, fd, offset);
}

int
kio_real_munmap(void *addr, size_t n)
{
    return next.munmap ? next.munmap(addr, n)
                       : (int)syscall(SYS_munmap, addr, n);
}

/* ---- the C library's names -------------------------------------------- */

/* The mode is there only with O_CREAT or O_TMPFILE. */
static mode_t
mode_of(int flags, va_list args)
{
    return flags & (O_CREAT | __O_TMPFILE) ? (mode_t)va_arg(args, int) : 0;
}

EXPORT int
open(const char *path, int flags, ...)
{
    va_list args;
    mode_t mode;

    va_start(args, flags);
    mode = mode_of(flags, args);
    va_end(args);
    return kio_seen_open(AT_FDCWD, path, flags, mode);
}

EXPORT int
openat(int dir, const char *path, int flags, ...)
{
    va_list args;
    mode_t mode;

    va_start(args, flags);
    mode = mode_of(flags, args);
    va_end(args);
    return kio_seen_open(dir, path, flags, mode);
}

EXPORT int open64(const char *path, int flags, ...)
    __attribute__((alias("open")));
EXPORT int openat64(int dir, const char *path, int flags, ...)
    __attribute__((alias("openat")));

/* What a program built with -D_FORTIFY_SOURCE calls instead. */
EXPORT int __open_2(const char *path, int flags);
EXPORT int __open64_2(const char *path, int flags);
EXPORT int __openat_2(int dir, const char *path, int flags);
EXPORT int __openat64_2(int dir, const char *path, int flags);

int
__open_2(const char *path, int flags)
{
    return kio_seen_open(AT_FDCWD, path, flags, 0);
}

int
__open64_2(const char *path, int flags)
{
    return kio_seen_open(AT_FDCWD, path, flags, 0);
}

int
__openat_2(int dir, const char *path, int flags)
{
    return kio_seen_open(dir, path, flags, 0);
}

int
__openat64_2(int dir, const char *path, int flags)
{
    return kio_seen_open(dir, path, flags, 0);
}

EXPORT int
close(int fd)
{
    return kio_seen_close(fd);
}

/* As the C library declares it; <sys/ioctl.h> would do so otherwise. */
EXPORT int ioctl(int fd, unsigned long request, ...);

int
ioctl(int fd, unsigned long request, ...)
{
    va_list args;
    void *arg;

    va_start(args, request);
    arg = va_arg(args, void *);
    va_end(args);
    return kio_seen_ioctl(fd, request, arg);
}

EXPORT void *
mmap(void *addr, size_t n, int prot, int flags, int fd, off_t offset)
{
    return kio_seen_mmap(addr, n, prot, flags, fd, offset);
}

EXPORT void *mmap64(void *addr, size_t n, int prot, int flags, int fd,
                    off64_t offset) __attribute__((alias("mmap")));

EXPORT int
munmap(void *addr, size_t n)
{
    return kio_seen_munmap(addr, n);
}
