/* The header of a safetensors file, read and checked: which tensors the file
 * has, and where. No tensor's bytes are read.
 *
 * src: the Format section of the safetensors project's README, and
 * Metadata::validate of its safetensors/src/tensor.rs ("No holes").
 */
#ifndef BELL_BASE_SAFETENSORS_H
#define BELL_BASE_SAFETENSORS_H

#include <stddef.h>
#include <stdint.h>

#include "base/status.h"

#define SAFETENSORS_RANK_MAX         32
#define SAFETENSORS_HEADER_MAX_BYTES 100000000u /* as the reference has it */

/* A tensor. Its texts are the list's. */
struct safetensors_entry {
    const char *name; /* UTF-8 without control characters; unique */
    const char *type; /* "F32" */
    uint32_t ndim;
    uint64_t shape[SAFETENSORS_RANK_MAX]; /* outermost first; below 2^63 */
    uint64_t offset, size_bytes;          /* in the file */
};

/* A text beside the tensors: of __metadata__. */
struct safetensors_text {
    const char *key, *value;
};

/* Owns its memory, but does not need the file's. */
struct safetensors {
    struct safetensors_entry *entries; /* in the order of the header */
    struct safetensors_text *texts;
    uint32_t n_entries, n_texts;
    size_t cap_entries, cap_texts;
    char *pool; /* all strings */
};

/* Reads the header at the beginning of a file of `size_bytes`. The tensors make
 * up the rest of the file, without holes or overlaps; whether their sizes fit
 * their types is the caller's to check. Freed by safetensors_fini. BELL_E_IO:
 * malformed; BELL_E_NO_MEMORY. */
BELL_MUST_CHECK bell_status safetensors_read(const void *file,
                                             uint64_t size_bytes,
                                             struct safetensors *out);
void safetensors_fini(struct safetensors *s);

/* "float32" of "F32"; NULL: tensors have no such type. */
const char *safetensors_dtype(const char *type);

#endif
