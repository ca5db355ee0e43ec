/* A file that is written beside its name and gets it when it is worth it: what
 * was there before stays until then, no link is followed, and nobody's file is
 * opened by guessing the name.
 *
 * A process that is killed leaves its file; the next new_file_create of that
 * path by the same user removes it. Those of processes that live stay. */
#ifndef BELL_BASE_NEW_FILE_H
#define BELL_BASE_NEW_FILE_H

#include "base/status.h"

#define NEW_FILE_PATH_MAX 4096

/* Owned by its maker: kept or dropped, once; after that its maker closes fd. */
struct new_file {
    int fd; /* open for reading and writing; locked (flock) */
    char path[NEW_FILE_PATH_MAX], temp[NEW_FILE_PATH_MAX];
};

/* BELL_E_IO or BELL_E_PERMISSION; also where `path` exists and is not a regular
 * file (a folder, a device). */
BELL_MUST_CHECK bell_status new_file_create(const char *path,
                                            struct new_file *out_file);
/* Gives it its name, in place of what had it. */
BELL_MUST_CHECK bell_status new_file_keep(const struct new_file *file);
void new_file_drop(const struct new_file *file);

#endif
