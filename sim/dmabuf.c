/* Memory files that are handed on: see dmabuf.h. The calls that the kernel
 * allows on a dma-buf: src: Linux 6.12, dma-buf.c, dma_buf_get,
 * dma_buf_llseek, dma_buf_mmap_internal, dma_buf_show_fdinfo. Softer: read and
 * write, which dma-bufs have not, work. */
#include "sim/dmabuf.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define NAME      "simulated dma-buf "
#define LINK      "/memfd:" NAME
#define PATH_SIZE 32

int
sim_dmabuf_create(const char *owner, uint64_t size_bytes)
{
    char name[sizeof(NAME) + SIM_DMABUF_OWNER_BYTES];
    int fd, error;

    assert(strlen(owner) < SIM_DMABUF_OWNER_BYTES);
    snprintf(name, sizeof(name), NAME "%s", owner);
    fd = memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (fd < 0)
        return -errno;
    if (ftruncate(fd, (off_t)size_bytes) == 0 &&
        fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) == 0)
        return fd;
    error = errno;
    close(fd);
    return -error;
}

/* The same file, opened anew: a lock of it is its own. */
static int
open_again(int fd, int flags)
{
    char path[PATH_SIZE];
    int again, error;

    snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
    again = open(path, flags);
    if (again < 0)
        return -errno;
    if (flock(again, LOCK_SH) == 0) /* sim_dmabuf_is_out soon lets go */
        return again;
    error = errno;
    close(again);
    return -error;
}

int
sim_dmabuf_export(int memory_fd, bool closes_at_exec, bool can_map)
{
    return open_again(memory_fd, (can_map ? O_RDWR : O_WRONLY) |
                                     (closes_at_exec ? O_CLOEXEC : 0));
}

/* The owner's name of a descriptor that was exported. */
static bool
read_owner(int fd, char owner[SIM_DMABUF_OWNER_BYTES])
{
    char path[PATH_SIZE], link[sizeof(LINK) + SIM_DMABUF_OWNER_BYTES + 16];
    ssize_t n;
    char *end;

    snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
    n = readlink(path, link, sizeof(link) - 1);
    if (n < 0)
        return false;
    link[n] = '\0';
    if (strncmp(link, LINK, sizeof(LINK) - 1) != 0)
        return false;
    end = strrchr(link, ' '); /* " (deleted)" */
    if (!end || strcmp(end, " (deleted)") != 0)
        return false;
    *end = '\0';
    if ((size_t)(end - link) >= sizeof(LINK) - 1 + SIM_DMABUF_OWNER_BYTES)
        return false;
    memcpy(owner, link + sizeof(LINK) - 1,
           (size_t)(end - link) + 1 - (sizeof(LINK) - 1));
    return true;
}

bool
sim_dmabuf_is(int fd)
{
    char owner[SIM_DMABUF_OWNER_BYTES];

    return read_owner(fd, owner);
}

int
sim_dmabuf_import(int fd, struct sim_dmabuf *out)
{
    struct stat st;

    memset(out, 0, sizeof(*out));
    out->fd = -1;
    if (fd < 0 || fstat(fd, &st) < 0)
        return -EBADF;
    if (!read_owner(fd, out->owner))
        return -EINVAL;
    out->size_bytes = (uint64_t)st.st_size;
    out->fd = open_again(fd, O_RDWR | O_CLOEXEC);
    return out->fd < 0 ? out->fd : 0;
}

bool
sim_dmabuf_is_out(int memory_fd)
{
    if (flock(memory_fd, LOCK_EX | LOCK_NB) < 0)
        return true;
    (void)flock(memory_fd, LOCK_UN);
    return false;
}

int
sim_dmabuf_read_info(const char *path, void *buf, size_t cap)
{
    static const char folder[] = "/proc/self/fdinfo/";
    char owner[SIM_DMABUF_OWNER_BYTES], *end;
    struct stat st;
    long fd;
    int n;

    if (strncmp(path, folder, sizeof(folder) - 1) != 0)
        return -ENOENT;
    fd = strtol(path + sizeof(folder) - 1, &end, 10);
    if (*end || fd < 0 || fstat((int)fd, &st) < 0)
        return -ENOENT;
    if (!read_owner((int)fd, owner))
        return snprintf(buf, cap, "pos:\t0\nflags:\t02\n");
    n = snprintf(buf, cap,
                 "pos:\t0\nflags:\t02\nsize:\t%llu\ncount:\t1\n"
                 "exp_name:\t%s\n",
                 (unsigned long long)st.st_size,
                 strncmp(owner, "NV/", 3) == 0 ? "nv_dmabuf" : "drm");
    return n < (int)cap ? n : -ENOSPC;
}
