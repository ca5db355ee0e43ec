/* Whole files: read into memory, written or not at all. Messages name the
 * file. */
#ifndef BELL_BASE_FILE_H
#define BELL_BASE_FILE_H

#include <stddef.h>

#include "base/status.h"

/* Content of a file; host memory (file_bytes_fini). */
struct file_bytes {
    void *data;
    size_t size_bytes;
};

/* Reads a file, pipe or terminal to its end, which comes within 4 GiB where it
 * is not the end of a file. BELL_E_IO (other devices too), BELL_E_PERMISSION
 * or BELL_E_NO_MEMORY. */
BELL_MUST_CHECK bell_status file_read(const char *path,
                                      struct file_bytes *out_file);
void file_bytes_fini(struct file_bytes *file);

/* The same of a text, which ends with a 0 (host_free). BELL_E_INVALID: there
 * is a 0 inside. */
BELL_MUST_CHECK bell_status file_read_text(const char *path, char **out_text);

/* A piece of what is written. */
struct file_part {
    const void *data;
    size_t size_bytes;
};

/* Writes the parts one after the other: to a temporary file beside `path`
 * that is then renamed, so that a failure leaves what was there before. If
 * `path` exists and is not a regular file, straight to it. */
BELL_MUST_CHECK bell_status file_write(const char *path,
                                       const struct file_part *parts,
                                       size_t n_parts);

/* Whether file_write to `path` has a chance, before much work is done. */
BELL_MUST_CHECK bell_status file_check_writable(const char *path);

#endif
