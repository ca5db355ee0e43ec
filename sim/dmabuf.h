/* Memory that simulated kernels hand on by a descriptor, as dma-bufs are: a
 * memory file. Its name says whose it is, so that a simulated kernel of another
 * process, or of another vendor, knows it too.
 *
 * Each descriptor that is out holds a shared lock of the file, wherever it was
 * sent or inherited, and so does who imported it. The kernel thus knows whether
 * the memory still is in use, although a process closes its descriptors without
 * telling.
 */
#ifndef BELL_SIM_DMABUF_H
#define BELL_SIM_DMABUF_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SIM_DMABUF_OWNER_BYTES 200

/* One that was imported. Closing `fd` gives it back. */
struct sim_dmabuf {
    int fd; /* owned, to read and write */
    uint64_t size_bytes;
    char owner[SIM_DMABUF_OWNER_BYTES];
};

/* A memory file of zeros, which a kernel keeps; `owner` is shorter than
 * SIM_DMABUF_OWNER_BYTES. A negative errno on failure. */
int sim_dmabuf_create(const char *owner, uint64_t size_bytes);

/* A descriptor of it for the process. Without `can_map` mmap of it fails. */
int sim_dmabuf_export(int memory_fd, bool closes_at_exec, bool can_map);

/* 0, -EBADF (no such descriptor) or -EINVAL (of something else). */
int sim_dmabuf_import(int fd, struct sim_dmabuf *out);

/* Whether the descriptor is one that was exported. */
bool sim_dmabuf_is(int fd);

/* Whether a descriptor or an import of it is open, in any process. */
bool sim_dmabuf_is_out(int memory_fd);

/* The kernel's text on a descriptor in /proc/self/fdinfo, as far as drivers
 * read it: bytes, or a negative errno; -ENOENT: another path. */
int sim_dmabuf_read_info(const char *path, void *buf, size_t cap);

#endif
