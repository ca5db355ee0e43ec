/* Opening what must be a regular file, because another file or a user names it
 * and anything else would block, never end, or do something when opened. */
#ifndef BELL_BASE_REGULAR_FILE_H
#define BELL_BASE_REGULAR_FILE_H

#include <stddef.h>
#include <stdint.h>

#include "base/status.h"

/* An open file; `device` and `inode` tell whether two names lead to one. */
struct regular_file {
    int fd; /* for reading; its opener closes it */
    uint64_t size_bytes;
    uint64_t device, inode;
};

/* Never blocks. Symbolic links are followed. BELL_E_IO for a folder, FIFO,
 * socket or device, which is not opened, and for what cannot be opened;
 * BELL_E_PERMISSION. Messages begin with the path. */
BELL_MUST_CHECK bell_status regular_file_open(const char *path,
                                              struct regular_file *out_file);

/* The bytes of such a file, which is not empty, for munmap: what is stored
 * there changes no file. */
BELL_MUST_CHECK bell_status regular_file_map(const char *path, void **out_map,
                                             size_t *out_bytes);

#endif
