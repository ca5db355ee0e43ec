/* IDX files, the format of the MNIST images: a magic number with dtype and
 * rank, big-endian sizes, then the elements. Plain or gzip-compressed (which
 * needs zlib).
 *
 * Everything is checked: magic, dtype, the sizes' product, that there are
 * exactly as many bytes as the header promises, and gzip's checksum. A
 * compressed file that unpacks to more is stopped there.
 */
#ifndef BELL_TOOLS_FORMATS_IDX_H
#define BELL_TOOLS_FORMATS_IDX_H

#include <stddef.h>
#include <stdint.h>

#include "base/status.h"
#include "doorbell/tensor.h"

/* An array in memory: row-major, host byte order. `data` is host memory of
 * the struct (idx_fini). */
struct idx {
    enum bell_dtype dtype;
    uint32_t ndim;
    int64_t shape[BELL_MAX_RANK];
    uint64_t n_elems;
    size_t size_bytes;
    void *data;
};

void idx_fini(struct idx *array);

/* From memory, compressed or not. BELL_E_IO with a message if malformed. */
BELL_MUST_CHECK bell_status idx_parse(const void *bytes, size_t size_bytes,
                                      struct idx *out_array);
/* From a file; the message names it. */
BELL_MUST_CHECK bell_status idx_read(const char *path, struct idx *out_array);

#endif
